/* The HIP backend on the simulator: the conformance cases, and what only HIP has. */
#include "backend_cases.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED = 77 };

static void *driver;
static int (*device_current)(int *device);
static int (*device_set)(int device);
static int (*stream_create)(void **stream);
static int (*stream_destroy)(void *stream);
static int (*last_error)(void);

static backend_rig rig = {.rest = "0"};

#define OPS (rig.ops)

static void hook(void *function, const char *name)
{
    void *address = dlsym(driver, name);
    if (!address)
        fprintf(stderr, "the simulator lacks %s\n", name);
    memcpy(function, &address, sizeof(address));
}

static mxrt_backend *open_device(const char *rest)
{
    mxrt_backend *backend = NULL;
    mx_error error = {MX_OK, ""};
    ck_assert_msg(!OPS->open(NULL, rest, &backend, &error), "%s", error.message);
    return backend;
}

static void check_add(mxrt_backend *backend, mxrt_stream stream)
{
    mx_error error = {MX_OK, ""};
    backend_object object = backend_read_object(&rig, backend);
    ck_assert_msg(!backend_run_add(backend, &object, 777, stream, &error), "%s", error.message);
    free(object.data);
}

static int current_device(void)
{
    int device = -1;
    ck_assert_int_eq(device_current(&device), 0);
    return device;
}

START_TEST(second_device_leaves_the_first_current)
{
    ck_assert_int_eq(device_set(0), 0);
    mxrt_backend *backend = open_device("1");
    mxrt_device_info info;
    ck_assert_int_eq(OPS->get_info(backend, &info, NULL), MX_OK);
    ck_assert_int_eq(info.dl_device.device_id, 1);
    ck_assert_str_eq(info.uri, "hip:1");
    check_add(backend, NULL);
    ck_assert_int_eq(current_device(), 0);
    int n_failures = 0;
    for (int n = 1; n < 5; n++) {
        void *memory = NULL;
        rig.fail_call(n);
        mx_status status = OPS->alloc(backend, 64, &memory, NULL);
        rig.fail_call(0);
        if (status)
            n_failures++;
        else
            OPS->free(backend, memory);
        ck_assert_msg(current_device() == 0, "call %d left another device current", n);
    }
    ck_assert_int_eq(n_failures, 3);
    OPS->close(backend);
}
END_TEST

START_TEST(two_devices_have_their_own_modules)
{
    mxrt_backend *first = open_device("0"), *second = open_device("1");
    for (int round = 0; round < 2; round++) {
        check_add(first, NULL);
        check_add(second, NULL);
    }
    OPS->close(first);
    check_add(second, NULL);
    OPS->close(second);
    ck_assert_uint_eq(rig.live_objects(), 0);
}
END_TEST

START_TEST(streams_reach_the_driver)
{
    void *stream = NULL, *foreign = NULL;
    mx_error error = {MX_OK, ""};
    mxrt_backend *backend = open_device("0");
    backend_object object = backend_read_object(&rig, backend);
    ck_assert_int_eq(device_set(0), 0);
    ck_assert_int_eq(stream_create(&stream), 0);
    check_add(backend, stream);
    ck_assert_int_eq(device_set(1), 0);
    ck_assert_int_eq(stream_create(&foreign), 0);
    ck_assert_int_eq(device_set(0), 0);
    ck_assert_int_ne(backend_run_add(backend, &object, 10, foreign, &error), MX_OK);
    ck_assert_contains(error.message, "stream");
    check_add(backend, stream);
    ck_assert_int_eq(stream_destroy(foreign), 0);
    ck_assert_int_eq(stream_destroy(stream), 0);
    free(object.data);
    OPS->close(backend);
}
END_TEST

/* A check of the caller's own must not find the errors of these calls. */
START_TEST(failures_do_not_stay_as_the_last_error)
{
    mxrt_backend *backend = open_device("0");
    void *memory = NULL;
    ck_assert_int_eq(OPS->alloc(backend, (size_t)1 << 56, &memory, NULL), MX_ERR_NO_MEMORY);
    if (last_error)
        ck_assert_int_eq(last_error(), 0);
    OPS->close(backend);
}
END_TEST

START_TEST(object_of_another_chip_is_refused)
{
    const char *folder = getenv("MX_TEST_KERNELS");
    const char *own = getenv("MXSIM_ARCH");
    const char *other = own && !strcmp(own, "gfx1100") ? "gfx942" : "gfx1100";
    char path[4096];
    snprintf(path, sizeof(path), "%s/device_cases_%s.hsaco", folder, other);
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    char *code = malloc(1 << 16);
    size_t bytes = fread(code, 1, 1 << 16, file);
    fclose(file);
    mxrt_backend *backend = open_device("0");
    mxrt_backend_module *module = NULL;
    mx_error error = {MX_OK, ""};
    ck_assert_int_eq(OPS->module_load(backend, "elf-amdgpu", code, bytes, &module, &error),
                     MX_ERR_DEVICE);
    ck_assert_contains(error.message, "hipModuleLoadData failed with hipError");
    ck_assert_contains(error.message, "the device is gfx");
    free(code);
    check_add(backend, NULL);
    OPS->close(backend);
}
END_TEST

/* "gfx942:sramecc+:xnack-" runs packs for exactly that and for "gfx942". */
START_TEST(targets_have_features_first)
{
    mxrt_backend *backend = open_device("0");
    const char *full = OPS->target(backend, 0), *base = OPS->target(backend, 1);
    ck_assert_ptr_nonnull(full);
    if (strchr(full, ':')) {
        ck_assert_ptr_nonnull(base);
        ck_assert_uint_eq(strlen(base), strcspn(full, ":"));
        ck_assert_int_eq(strncmp(full, base, strlen(base)), 0);
        ck_assert_ptr_null(OPS->target(backend, 2));
    } else {
        ck_assert_ptr_null(base);
    }
    OPS->close(backend);
}
END_TEST

START_TEST(old_properties_are_read)
{
    const char *path = getenv("MX_TEST_FAKE_HIP5");
    char rest[4096];
    if (!path)
        return;
    snprintf(rest, sizeof(rest), "0?library=%s", path);
    mxrt_backend *backend = open_device(rest);
    mxrt_device_info info;
    ck_assert_int_eq(OPS->get_info(backend, &info, NULL), MX_OK);
    ck_assert_str_eq(info.name, "Old card");
    ck_assert_str_eq(info.target, "gfx90a");
    ck_assert_int_eq(info.compute_units, 104);
    ck_assert_str_eq(OPS->target(backend, 0), "gfx90a:sramecc+:xnack-");
    OPS->close(backend);
}
END_TEST

START_TEST(missing_library_is_told)
{
    mxrt_backend *backend = NULL;
    mx_error error = {MX_OK, ""};
    setenv("MXRT_HIP_LIBRARY", "/nowhere/libamdhip64.so.6", 1);
    ck_assert_int_eq(OPS->open(NULL, "0", &backend, &error), MX_ERR_NOT_FOUND);
    ck_assert_contains(error.message, "/nowhere/libamdhip64.so.6, which MXRT_HIP_LIBRARY names");
    setenv("MXRT_HIP_LIBRARY", "libm.so.6", 1);
    ck_assert_int_eq(OPS->open(NULL, "0", &backend, &error), MX_ERR_NOT_FOUND);
    ck_assert_contains(error.message, "lacks hipInit, ");
}
END_TEST

static TCase *hip_cases(void)
{
    TCase *cases = tcase_create("hip-only");
    tcase_add_test(cases, second_device_leaves_the_first_current);
    tcase_add_test(cases, two_devices_have_their_own_modules);
    tcase_add_test(cases, streams_reach_the_driver);
    tcase_add_test(cases, failures_do_not_stay_as_the_last_error);
    tcase_add_test(cases, object_of_another_chip_is_refused);
    tcase_add_test(cases, targets_have_features_first);
    tcase_add_test(cases, old_properties_are_read);
    tcase_add_test(cases, missing_library_is_told);
    return cases;
}

int main(void)
{
    const char *path = getenv("MX_TEST_SIM");
    driver = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!driver) {
        printf("skipped: no simulator (%s)\n", path ? dlerror() : "MX_TEST_SIM is not set");
        return SKIPPED;
    }
    setenv("MXRT_HIP_LIBRARY", path, 1);
    setenv("MXSIM_DEVICES", "2", 1);
    rig.ops = &mxrt_backend_hip;
    hook(&rig.fail_call, "mxsim_fail_call");
    hook(&rig.call_count, "mxsim_call_count");
    hook(&rig.live_objects, "mxsim_live_objects");
    hook(&device_current, "hipGetDevice");
    hook(&device_set, "hipSetDevice");
    hook(&stream_create, "hipStreamCreate");
    hook(&stream_destroy, "hipStreamDestroy");
    hook(&last_error, "hipGetLastError");
    const char *reason = backend_skip_reason(&rig);
    if (reason) {
        printf("skipped: %s\n", reason);
        return SKIPPED;
    }
    Suite *suite = suite_create("backend_hip");
    suite_add_tcase(suite, hip_cases());
    suite_add_tcase(suite, backend_cases(&rig));
    return backend_run_suite(suite);
}
