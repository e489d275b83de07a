/* The CUDA backend on the fake driver: the conformance cases, and what only CUDA has. */
#include "backend_cases.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/pack.h>

#include "fake_driver/fake_cuda.h"

enum { SKIPPED = 77 };

static void *driver;
static fakecuda_launch (*last_launch)(void);
static uint64_t (*proc_address_count)(void);
static int (*driver_init)(unsigned flags);
static int (*context_create)(void **context, unsigned flags, int device);
static int (*context_destroy)(void *context);
static int (*context_current)(void **context);
static int (*context_set)(void *context);
static int (*primary_retain)(void **context, int device);
static int (*primary_release)(int device);
static int (*stream_create)(void **stream, unsigned flags);
static int (*stream_destroy)(void *stream);

static backend_rig rig = {.rest = "0"};

#define OPS (rig.ops)

static void hook(void *function, const char *name)
{
    void *address = dlsym(driver, name);
    if (!address)
        fprintf(stderr, "the fake driver lacks %s\n", name);
    memcpy(function, &address, sizeof(address));
}

static mxrt_backend *open_device(const char *rest)
{
    mxrt_backend *backend = NULL;
    mx_error error = {MX_OK, ""};
    ck_assert_msg(!OPS->open(NULL, rest, &backend, &error), "%s", error.message);
    return backend;
}

static backend_object read_object(void)
{
    mxrt_backend *backend = open_device("0");
    backend_object object = backend_read_object(&rig, backend);
    OPS->close(backend);
    return object;
}

static void check_add(mxrt_backend *backend, mxrt_stream stream)
{
    mx_error error = {MX_OK, ""};
    backend_object object = read_object();
    ck_assert_msg(!backend_run_add(backend, &object, 777, stream, &error), "%s", error.message);
    free(object.data);
}

START_TEST(primary_context_without_a_current_one)
{
    void *current = (void *)1;
    mxrt_backend *backend = open_device("0");
    ck_assert_int_eq(context_current(&current), 0);
    ck_assert_ptr_null(current);
    check_add(backend, NULL);
    ck_assert_int_eq(context_current(&current), 0);
    ck_assert_ptr_null(current);
    ck_assert_uint_eq(rig.live_objects(), 1);
    OPS->close(backend);
    ck_assert_uint_eq(rig.live_objects(), 0);
}
END_TEST

START_TEST(own_context_is_adopted)
{
    void *own = NULL, *other = NULL, *current = NULL;
    ck_assert_int_eq(context_create(&own, 0, 0), 0);
    mxrt_backend *backend = open_device("0");
    check_add(backend, NULL);
    ck_assert_ptr_eq(last_launch().context, own);
    /* Another one becomes current: the device stays in its own and puts the other back. */
    ck_assert_int_eq(context_create(&other, 0, 0), 0);
    check_add(backend, NULL);
    ck_assert_ptr_eq(last_launch().context, own);
    ck_assert_int_eq(context_current(&current), 0);
    ck_assert_ptr_eq(current, other);
    OPS->close(backend);
    ck_assert_int_eq(context_current(&current), 0);
    ck_assert_ptr_eq(current, other);
    ck_assert_int_eq(context_destroy(other), 0);
    ck_assert_int_eq(context_destroy(own), 0);
    ck_assert_uint_eq(rig.live_objects(), 0);
}
END_TEST

START_TEST(current_primary_context_is_kept_alive)
{
    void *primary = NULL;
    ck_assert_int_eq(primary_retain(&primary, 0), 0);
    ck_assert_int_eq(context_set(primary), 0);
    mxrt_backend *backend = open_device("0");
    ck_assert_uint_eq(rig.live_objects(), 2);
    ck_assert_int_eq(primary_release(0), 0);
    check_add(backend, NULL);
    OPS->close(backend);
    ck_assert_uint_eq(rig.live_objects(), 0);
}
END_TEST

START_TEST(own_context_beside_an_active_primary_one)
{
    void *own = NULL, *primary = NULL;
    ck_assert_int_eq(primary_retain(&primary, 0), 0);
    ck_assert_int_eq(context_create(&own, 0, 0), 0);
    mxrt_backend *backend = open_device("0");
    ck_assert_uint_eq(rig.live_objects(), 2);
    check_add(backend, NULL);
    ck_assert_ptr_eq(last_launch().context, own);
    OPS->close(backend);
    ck_assert_int_eq(context_destroy(own), 0);
    ck_assert_int_eq(primary_release(0), 0);
}
END_TEST

START_TEST(second_device_leaves_the_first_current)
{
    void *first = NULL, *current = NULL, *memory = (void *)1;
    ck_assert_int_eq(context_create(&first, 0, 0), 0);
    mxrt_backend *backend = open_device("1");
    mxrt_device_info info;
    ck_assert_int_eq(OPS->get_info(backend, &info, NULL), MX_OK);
    ck_assert_int_eq(info.dl_device.device_id, 1);
    ck_assert_str_eq(info.uri, "cuda:1");
    check_add(backend, NULL);
    ck_assert_ptr_ne(last_launch().context, first);
    int n_failures = 0;
    for (int n = 1; n < 5; n++) {
        rig.fail_call(n);
        mx_status status = OPS->alloc(backend, 64, &memory, NULL);
        rig.fail_call(0);
        if (status)
            n_failures++;
        else
            OPS->free(backend, memory);
        ck_assert_int_eq(context_current(&current), 0);
        ck_assert_msg(current == first, "call %d left another context current", n);
    }
    ck_assert_int_eq(n_failures, 3);
    OPS->close(backend);
    ck_assert_int_eq(context_destroy(first), 0);
    ck_assert_uint_eq(rig.live_objects(), 0);
}
END_TEST

START_TEST(streams_reach_the_driver)
{
    void *own = NULL, *stream = NULL, *other = NULL, *foreign = NULL;
    ck_assert_int_eq(context_create(&own, 0, 0), 0);
    ck_assert_int_eq(stream_create(&stream, 0), 0);
    mxrt_backend *backend = open_device("0");
    check_add(backend, stream);
    ck_assert_ptr_eq(last_launch().stream, stream);
    ck_assert_uint_eq(last_launch().args_bytes, 28);
    ck_assert_int_eq(context_create(&other, 0, 1), 0);
    ck_assert_int_eq(stream_create(&foreign, 0), 0);
    mx_error error = {MX_OK, ""};
    backend_object object = read_object();
    ck_assert_int_eq(backend_run_add(backend, &object, 10, foreign, &error), MX_ERR_DEVICE);
    ck_assert_contains(error.message, "cuLaunchKernel failed with CUDA_ERROR_INVALID_HANDLE (400");
    ck_assert_contains(error.message, "stream of another device");
    check_add(backend, stream);
    free(object.data);
    OPS->close(backend);
    ck_assert_int_eq(stream_destroy(foreign), 0);
    ck_assert_int_eq(context_destroy(other), 0);
    ck_assert_int_eq(context_set(own), 0);
    ck_assert_int_eq(stream_destroy(stream), 0);
    ck_assert_int_eq(context_destroy(own), 0);
}
END_TEST

START_TEST(only_large_shared_memory_is_asked_for)
{
    mxrt_backend *backend = open_device("0");
    backend_object object = read_object();
    mxrt_backend_module *module = NULL;
    const mxrt_backend_kernel *kernel = NULL;
    ck_assert_int_eq(
        OPS->module_load(backend, object.kind, object.data, object.bytes, &module, NULL), MX_OK);
    uint64_t before = rig.call_count();
    ck_assert_int_eq(
        OPS->module_kernel(backend, module, "mxtest_reverse", 48 * 1024, &kernel, NULL), MX_OK);
    uint64_t small_calls = rig.call_count() - before;
    before = rig.call_count();
    ck_assert_int_eq(
        OPS->module_kernel(backend, module, "mxtest_reverse", 227 * 1024, &kernel, NULL), MX_OK);
    ck_assert_uint_eq(rig.call_count() - before, small_calls + 1);
    mx_error error = {MX_OK, ""};
    ck_assert_int_eq(
        OPS->module_kernel(backend, module, "mxtest_reverse", 227 * 1024 + 1, &kernel, &error),
        MX_ERR_UNSUPPORTED);
    ck_assert_contains(error.message, "232449");
    OPS->module_unload(backend, module);
    OPS->close(backend);
    free(object.data);
}
END_TEST

START_TEST(compiler_log_is_passed_on)
{
    static const char text[] = "this is no PTX";
    mxrt_backend *backend = open_device("0");
    mxrt_backend_module *module = NULL;
    mx_error error = {MX_OK, ""};
    ck_assert_int_eq(
        OPS->module_load(backend, MXPACK_KIND_PTX, text, strlen(text), &module, &error),
        MX_ERR_DEVICE);
    ck_assert_contains(error.message, "Missing .version directive at the start");
    ck_assert_contains(error.message, "CUDA_ERROR_INVALID_PTX (218");
    ck_assert_contains(error.message, "sm_90a");
    ck_assert_int_eq(OPS->module_load(backend, MXPACK_KIND_PTX, "", 0, &module, &error),
                     MX_ERR_CORRUPT);
    OPS->close(backend);
}
END_TEST

START_TEST(launch_is_three_calls_at_most)
{
    mxrt_backend *backend = open_device("0");
    backend_object object = read_object();
    mxrt_backend_module *module = NULL;
    const mxrt_backend_kernel *kernel = NULL;
    void *context = NULL;
    uint64_t args[4] = {0, 0, 0, 0};
    ck_assert_int_eq(
        OPS->module_load(backend, object.kind, object.data, object.bytes, &module, NULL), MX_OK);
    ck_assert_int_eq(OPS->module_kernel(backend, module, "mxtest_add", 0, &kernel, NULL), MX_OK);
    ck_assert_int_eq(primary_retain(&context, 0), 0);
    ck_assert_int_eq(context_set(context), 0);
    mxrt_launch launch = {
        .kernel = kernel, .grid = {1, 1, 1}, .block = {256, 1, 1}, .args = args, .args_bytes = 28};
    uint64_t before = rig.call_count();
    ck_assert_int_eq(OPS->launch(backend, &launch, NULL, NULL), MX_OK);
    ck_assert_uint_eq(rig.call_count() - before, 2); /* the other asks for the current context */
    ck_assert_int_eq(primary_release(0), 0);
    OPS->close(backend);
    free(object.data);
}
END_TEST

START_TEST(targets_follow_the_chip)
{
    static const struct {
        const char *cc;
        const char *names[4];
    } table[] = {
        {"90", {"sm_90a", "compute_90a", "sm_90", "compute_90"}},
        {"86", {"sm_86", "compute_86", "sm_80", "compute_80"}},
        {"121", {"sm_121a", "compute_121a", "sm_121", "compute_121"}},
        {"70", {"sm_70", "compute_70", NULL, NULL}},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        setenv("FAKECUDA_CC", table[i].cc, 1);
        mxrt_backend *backend = open_device("0");
        for (size_t k = 0; k < 4; k++) {
            const char *name = OPS->target(backend, k);
            if (table[i].names[k])
                ck_assert_str_eq(name, table[i].names[k]);
            else
                ck_assert_ptr_null(name);
        }
        OPS->close(backend);
    }
}
END_TEST

/* The whole program is run with and without FAKECUDA_NO_PROC_ADDRESS. */
START_TEST(entry_points_come_from_the_driver)
{
    mxrt_backend *backend = open_device("0");
    int is_old = getenv("FAKECUDA_NO_PROC_ADDRESS") != NULL;
    ck_assert_int_eq(proc_address_count() == 0, is_old);
    OPS->close(backend);
}
END_TEST

START_TEST(no_device_is_told)
{
    mxrt_backend *backend = NULL;
    mx_error error = {MX_OK, ""};
    size_t n = 9;
    setenv("FAKECUDA_DEVICES", "0", 1);
    ck_assert_int_eq(OPS->open(NULL, "0", &backend, &error), MX_ERR_NOT_FOUND);
    ck_assert_contains(error.message, "CUDA_ERROR_NO_DEVICE (100");
    ck_assert_contains(error.message, "no such device is visible");
    ck_assert_int_eq(OPS->enumerate(NULL, NULL, 0, &n, NULL), MX_OK);
    ck_assert_uint_eq(n, 0);
}
END_TEST

START_TEST(missing_library_is_told)
{
    mxrt_backend *backend = NULL;
    mx_error error = {MX_OK, ""};
    size_t n = 9;
    setenv("MXRT_CUDA_LIBRARY", "/nowhere/libcuda.so.1", 1);
    ck_assert_int_eq(OPS->open(NULL, "0", &backend, &error), MX_ERR_NOT_FOUND);
    ck_assert_contains(error.message, "/nowhere/libcuda.so.1, which MXRT_CUDA_LIBRARY names");
    ck_assert_contains(error.message, "No such file");
    ck_assert_int_eq(OPS->enumerate(NULL, NULL, 0, &n, NULL), MX_OK);
    ck_assert_uint_eq(n, 0);
    /* A library that is no driver: the entry points it lacks are named. */
    setenv("MXRT_CUDA_LIBRARY", "libm.so.6", 1);
    ck_assert_int_eq(OPS->open(NULL, "0", &backend, &error), MX_ERR_NOT_FOUND);
    ck_assert_contains(error.message, "lacks cuInit, ");
    ck_assert_contains(error.message, "cuMemAlloc_v2");
}
END_TEST

static TCase *cuda_cases(void)
{
    TCase *cases = tcase_create("cuda-only");
    tcase_add_test(cases, primary_context_without_a_current_one);
    tcase_add_test(cases, own_context_is_adopted);
    tcase_add_test(cases, current_primary_context_is_kept_alive);
    tcase_add_test(cases, own_context_beside_an_active_primary_one);
    tcase_add_test(cases, second_device_leaves_the_first_current);
    tcase_add_test(cases, streams_reach_the_driver);
    tcase_add_test(cases, only_large_shared_memory_is_asked_for);
    tcase_add_test(cases, compiler_log_is_passed_on);
    tcase_add_test(cases, launch_is_three_calls_at_most);
    tcase_add_test(cases, targets_follow_the_chip);
    tcase_add_test(cases, entry_points_come_from_the_driver);
    tcase_add_test(cases, no_device_is_told);
    tcase_add_test(cases, missing_library_is_told);
    return cases;
}

int main(void)
{
    const char *path = getenv("MX_TEST_FAKE_CUDA");
    driver = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!driver) {
        printf("skipped: no fake driver (%s)\n", path ? dlerror() : "MX_TEST_FAKE_CUDA is not set");
        return SKIPPED;
    }
    setenv("MXRT_CUDA_LIBRARY", path, 1);
    setenv("FAKECUDA_DEVICES", "2", 1);
    rig.ops = &mxrt_backend_cuda;
    hook(&rig.fail_call, "fakecuda_fail_call");
    hook(&rig.call_count, "fakecuda_call_count");
    hook(&rig.live_objects, "fakecuda_live_objects");
    hook(&last_launch, "fakecuda_last_launch");
    hook(&proc_address_count, "fakecuda_proc_address_count");
    hook(&driver_init, "cuInit");
    hook(&context_create, "cuCtxCreate_v2");
    hook(&context_destroy, "cuCtxDestroy_v2");
    hook(&context_current, "cuCtxGetCurrent");
    hook(&context_set, "cuCtxSetCurrent");
    hook(&primary_retain, "cuDevicePrimaryCtxRetain");
    hook(&primary_release, "cuDevicePrimaryCtxRelease_v2");
    hook(&stream_create, "cuStreamCreate");
    hook(&stream_destroy, "cuStreamDestroy_v2");
    const char *reason =
        driver_init(0) ? "the fake driver does not start" : backend_skip_reason(&rig);
    if (reason) {
        printf("skipped: %s\n", reason);
        return SKIPPED;
    }
    Suite *suite = suite_create("backend_cuda");
    suite_add_tcase(suite, cuda_cases());
    suite_add_tcase(suite, backend_cases(&rig));
    return backend_run_suite(suite);
}
