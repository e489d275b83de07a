#include "backend_cases.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mxgen/pack.h>

const backend_rig *backend_rig_now;
mxrt_backend *backend_now;
backend_object backend_object_now;

enum { BLOCK = 256, DYNAMIC_LDS_BYTES = 64 * 1024 };

typedef struct add_args {
    void *x, *y;
    int64_t n;
    int32_t addend;
} add_args;

typedef struct reverse_args {
    void *x, *y;
    int32_t words;
} reverse_args;

/* Without the padding at the end, as a pack's argument block may be. */
#define ADD_ARGS_BYTES (offsetof(add_args, addend) + sizeof(int32_t))
#define REVERSE_ARGS_BYTES (offsetof(reverse_args, words) + sizeof(int32_t))

static const uint16_t add_offsets[] = {0, 8, 16, 24};

/* ---- Kernels ---- */

static void *read_file(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    void *data = NULL;
    if (!fseek(file, 0, SEEK_END)) {
        long size = ftell(file);
        rewind(file);
        data = size > 0 ? malloc((size_t)size) : NULL;
        *bytes = data ? fread(data, 1, (size_t)size, file) : 0;
    }
    fclose(file);
    return data;
}

static void program_folder(char *out, size_t bytes)
{
    ssize_t length = readlink("/proc/self/exe", out, bytes - 1);
    out[length > 0 ? length : 0] = 0;
    char *slash = strrchr(out, '/');
    if (slash)
        *slash = 0;
}

backend_object backend_read_object(const backend_rig *rig, const mxrt_backend *backend)
{
    backend_object object = {NULL, NULL, 0};
    char folder[PATH_MAX], path[PATH_MAX + 128];
    const char *from_environment = getenv("MX_TEST_KERNELS");
    program_folder(folder, sizeof(folder));
    const char *root = from_environment ? from_environment : folder;
    mxrt_device_info info;
    if (rig->ops->get_info(backend, &info, NULL))
        return object;
    if (!strcmp(rig->ops->scheme, "hip")) {
        object.kind = MXPACK_KIND_AMDGPU;
        snprintf(path, sizeof(path), "%s/device_cases_%s.hsaco", root, info.target);
    } else if (!strcmp(rig->ops->scheme, "cuda")) {
        object.kind = MXPACK_KIND_PTX;
        snprintf(path, sizeof(path), "%s/device_cases.ptx", root);
    } else {
        object.kind = MXPACK_KIND_HOST;
        snprintf(path, sizeof(path), "%s/device_cases_host.so", root);
    }
    object.data = read_file(path, &object.bytes);
    return object;
}

const char *backend_skip_reason(const backend_rig *rig)
{
    static mx_error error;
    mxrt_backend *backend = NULL;
    if (rig->ops->open(NULL, rig->rest, &backend, &error))
        return error.message;
    backend_object object = backend_read_object(rig, backend);
    rig->ops->close(backend);
    free(object.data);
    return object.data ? NULL : "no compiled kernels for the device: clang-22 was not there";
}

/* ---- Fixture ---- */

void backend_fixture_open(void)
{
    mx_error error = {MX_OK, ""};
    mx_status status =
        backend_rig_now->ops->open(NULL, backend_rig_now->rest, &backend_now, &error);
    ck_assert_msg(status == MX_OK, "%s", error.message);
    backend_object_now = backend_read_object(backend_rig_now, backend_now);
    ck_assert_ptr_nonnull(backend_object_now.data);
}

void backend_fixture_close(void)
{
    free(backend_object_now.data);
    backend_rig_now->ops->close(backend_now);
    if (backend_rig_now->live_objects)
        ck_assert_uint_eq(backend_rig_now->live_objects(), 0);
}

static int is_gpu(void)
{
    return strcmp(backend_rig_now->ops->scheme, "host") != 0;
}

#define OPS (backend_rig_now->ops)

static mxrt_launch add_launch(const mxrt_backend_kernel *kernel, const add_args *args)
{
    return (mxrt_launch){
        .kernel = kernel,
        .grid = {(uint32_t)((args->n + BLOCK - 1) / BLOCK), 1, 1},
        .block = {BLOCK, 1, 1},
        .args = args,
        .args_bytes = ADD_ARGS_BYTES,
        .n_args = 4,
        .arg_offsets = add_offsets,
    };
}

static mx_status fill_and_run(mxrt_backend *backend, const mxrt_backend_kernel *kernel,
                              const add_args *args, mxrt_stream stream, int *host, mx_error *err)
{
    size_t bytes = (size_t)args->n * sizeof(int);
    for (int64_t i = 0; i < args->n; i++)
        host[i] = (int)(i * 7 - 100);
    mx_status status = OPS->upload(backend, args->x, host, bytes, err);
    memset(host, 0xa5, bytes + sizeof(int));
    if (!status)
        status = OPS->upload(backend, args->y, host, bytes + sizeof(int), err);
    mxrt_launch launch = add_launch(kernel, args);
    if (!status)
        status = OPS->launch(backend, &launch, stream, err);
    if (!status)
        status = OPS->synchronize(backend, stream, err);
    if (!status)
        status = OPS->download(backend, host, args->y, bytes + sizeof(int), err);
    return status;
}

mx_status backend_run_add(mxrt_backend *backend, const backend_object *object, int64_t n,
                          mxrt_stream stream, mx_error *err)
{
    mxrt_backend_module *module = NULL;
    const mxrt_backend_kernel *kernel = NULL;
    add_args args = {.n = n, .addend = 42};
    size_t bytes = (size_t)n * sizeof(int);
    int *host = malloc(bytes + sizeof(int));
    mx_status status =
        OPS->module_load(backend, object->kind, object->data, object->bytes, &module, err);
    if (!status)
        status = OPS->module_kernel(backend, module, "mxtest_add", 0, &kernel, err);
    if (!status)
        status = OPS->alloc(backend, bytes, &args.x, err);
    if (!status)
        status = OPS->alloc(backend, bytes + sizeof(int), &args.y, err);
    if (!status)
        status = fill_and_run(backend, kernel, &args, stream, host, err);
    if (!status) {
        for (int64_t i = 0; i < n; i++)
            ck_assert_int_eq(host[i], (int)(i * 7 - 100 + 42));
        ck_assert_uint_eq((unsigned)host[n], 0xa5a5a5a5u);
    }
    OPS->free(backend, args.y);
    OPS->free(backend, args.x);
    OPS->module_unload(backend, module);
    free(host);
    return status;
}

/* ---- Cases ---- */

START_TEST(info_names_the_device)
{
    mxrt_device_info info;
    ck_assert_int_eq(OPS->get_info(backend_now, &info, NULL), MX_OK);
    ck_assert_int_eq(strncmp(info.uri, OPS->scheme, strlen(OPS->scheme)), 0);
    ck_assert_int_gt((int)strlen(info.name), 0);
    ck_assert_int_gt(info.compute_units, 0);
    int found = 0;
    for (size_t i = 0; OPS->target(backend_now, i); i++)
        found |= !strcmp(OPS->target(backend_now, i), info.target);
    ck_assert_msg(found, "%s is not among the device's targets", info.target);
    ck_assert_int_ne(OPS->accepts(backend_now, backend_object_now.kind), 0);
    ck_assert_int_eq(OPS->accepts(backend_now, "elf-other"), 0);
    DLDeviceType expected = !strcmp(OPS->scheme, "hip")    ? kDLROCM
                            : !strcmp(OPS->scheme, "cuda") ? kDLCUDA
                                                           : kDLCPU;
    ck_assert_int_eq(info.dl_device.device_type, expected);
    size_t n = 0;
    mxrt_device_info all[8];
    ck_assert_int_eq(OPS->enumerate(NULL, all, 8, &n, NULL), MX_OK);
    ck_assert_uint_ge(n, 1);
    ck_assert_str_eq(all[0].target, info.target);
    ck_assert_int_eq(OPS->enumerate(NULL, NULL, 0, &n, NULL), MX_OK);
    ck_assert_uint_ge(n, 1);
}
END_TEST

START_TEST(memory_round_trips)
{
    static const size_t sizes[] = {0, 1, 3, 255, 4096, (1u << 20) + 3};
    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        size_t size = sizes[k];
        unsigned char *sent = malloc(size + 1), *back = malloc(size + 1);
        void *first = NULL, *second = NULL;
        mx_error error = {MX_OK, ""};
        for (size_t i = 0; i < size; i++)
            sent[i] = (unsigned char)(i * 31 + size);
        memset(back, 0, size + 1);
        ck_assert_msg(!OPS->alloc(backend_now, size, &first, &error), "%s", error.message);
        ck_assert_msg(!OPS->alloc(backend_now, size, &second, &error), "%s", error.message);
        ck_assert_ptr_nonnull(first);
        ck_assert_uint_eq((uintptr_t)first % 256, 0);
        ck_assert_msg(!OPS->upload(backend_now, first, sent, size, &error), "%s", error.message);
        ck_assert_msg(!OPS->copy(backend_now, second, first, size, NULL, &error), "%s",
                      error.message);
        ck_assert_msg(!OPS->synchronize(backend_now, NULL, &error), "%s", error.message);
        ck_assert_msg(!OPS->download(backend_now, back, second, size, &error), "%s", error.message);
        ck_assert_int_eq(memcmp(sent, back, size), 0);
        /* All but the last byte. */
        size_t cleared = size ? size - 1 : 0;
        ck_assert_msg(!OPS->clear(backend_now, second, cleared, NULL, &error), "%s", error.message);
        ck_assert_msg(!OPS->synchronize(backend_now, NULL, &error), "%s", error.message);
        ck_assert_msg(!OPS->download(backend_now, back, second, size, &error), "%s", error.message);
        for (size_t i = 0; i < cleared; i++)
            ck_assert_int_eq(back[i], 0);
        ck_assert(!size || back[cleared] == sent[cleared]);
        OPS->free(backend_now, first);
        OPS->free(backend_now, second);
        free(sent);
        free(back);
    }
    OPS->free(backend_now, NULL);
}
END_TEST

START_TEST(memory_runs_out)
{
    void *data = (void *)1;
    mx_error error = {MX_OK, ""};
    ck_assert_int_eq(OPS->alloc(backend_now, (size_t)1 << 56, &data, &error), MX_ERR_NO_MEMORY);
    ck_assert_ptr_eq(data, (void *)1);
    ck_assert_contains(error.message, "72057594037927936");
    ck_assert_int_eq(backend_run_add(backend_now, &backend_object_now, 100, NULL, &error), MX_OK);
}
END_TEST

START_TEST(launches_compute)
{
    static const int64_t sizes[] = {1, 255, 256, 257, 100000};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        mx_error error = {MX_OK, ""};
        mx_status status =
            backend_run_add(backend_now, &backend_object_now, sizes[i], NULL, &error);
        ck_assert_msg(status == MX_OK, "%s", error.message);
    }
}
END_TEST

START_TEST(dynamic_lds_is_there)
{
    if (!is_gpu())
        return;
    mxrt_backend_module *module = NULL;
    const mxrt_backend_kernel *kernel = NULL, *again = NULL;
    mx_error error = {MX_OK, ""};
    ck_assert_int_eq(OPS->module_load(backend_now, backend_object_now.kind, backend_object_now.data,
                                      backend_object_now.bytes, &module, &error),
                     MX_OK);
    ck_assert_msg(!OPS->module_kernel(backend_now, module, "mxtest_reverse", DYNAMIC_LDS_BYTES,
                                      &kernel, &error),
                  "%s", error.message);
    ck_assert_int_eq(OPS->module_kernel(backend_now, module, "mxtest_reverse", 1024, &again, NULL),
                     MX_OK);
    ck_assert_ptr_eq(kernel, again);
    int host[BLOCK];
    reverse_args args = {.words = DYNAMIC_LDS_BYTES / 4};
    for (int i = 0; i < BLOCK; i++)
        host[i] = i * i;
    ck_assert_int_eq(OPS->alloc(backend_now, sizeof(host), &args.x, NULL), MX_OK);
    ck_assert_int_eq(OPS->alloc(backend_now, sizeof(host), &args.y, NULL), MX_OK);
    ck_assert_int_eq(OPS->upload(backend_now, args.x, host, sizeof(host), NULL), MX_OK);
    mxrt_launch launch = {.kernel = kernel,
                          .grid = {1, 1, 1},
                          .block = {BLOCK, 1, 1},
                          .lds_bytes = DYNAMIC_LDS_BYTES,
                          .args = &args,
                          .args_bytes = REVERSE_ARGS_BYTES,
                          .n_args = 3,
                          .arg_offsets = add_offsets};
    ck_assert_msg(!OPS->launch(backend_now, &launch, NULL, &error), "%s", error.message);
    ck_assert_int_eq(OPS->synchronize(backend_now, NULL, NULL), MX_OK);
    ck_assert_int_eq(OPS->download(backend_now, host, args.y, sizeof(host), NULL), MX_OK);
    for (int i = 0; i < BLOCK; i++)
        ck_assert_int_eq(host[i], (BLOCK - 1 - i) * (BLOCK - 1 - i));
    OPS->free(backend_now, args.x);
    OPS->free(backend_now, args.y);
    OPS->module_unload(backend_now, module);
}
END_TEST

typedef struct bad_launch {
    uint32_t grid[3], block[3], lds_bytes;
    const char *part; /* of the message */
} bad_launch;

START_TEST(launch_sizes_out_of_range)
{
    static const bad_launch table[] = {
        {{0, 1, 1}, {256, 1, 1}, 0, "grid x is 0"},
        {{1, 0, 1}, {256, 1, 1}, 0, "grid y is 0"},
        {{0x80000000u, 1, 1}, {256, 1, 1}, 0, "2147483648"},
        {{1, 1, 1}, {0, 1, 1}, 0, "block x is 0"},
        {{1, 1, 1}, {4096, 1, 1}, 0, "4096"},
        {{1, 1, 1}, {1024, 1024, 1024}, 0, "1024"},
        {{1, 1, 1}, {256, 1, 1}, 1u << 30, "1073741824"},
    };
    if (!is_gpu())
        return;
    mxrt_backend_module *module = NULL;
    const mxrt_backend_kernel *kernel = NULL;
    ck_assert_int_eq(OPS->module_load(backend_now, backend_object_now.kind, backend_object_now.data,
                                      backend_object_now.bytes, &module, NULL),
                     MX_OK);
    ck_assert_int_eq(OPS->module_kernel(backend_now, module, "mxtest_add", 0, &kernel, NULL),
                     MX_OK);
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        mx_error error = {MX_OK, ""};
        add_args args = {.n = 0};
        mxrt_launch launch = add_launch(kernel, &args);
        memcpy(launch.grid, table[i].grid, sizeof(launch.grid));
        memcpy(launch.block, table[i].block, sizeof(launch.block));
        launch.lds_bytes = table[i].lds_bytes;
        ck_assert_int_eq(OPS->launch(backend_now, &launch, NULL, &error), MX_ERR_INVALID);
        ck_assert_contains(error.message, "mxtest_add");
        ck_assert_contains(error.message, table[i].part);
    }
    OPS->module_unload(backend_now, module);
    ck_assert_int_eq(backend_run_add(backend_now, &backend_object_now, 300, NULL, NULL), MX_OK);
}
END_TEST

START_TEST(bad_objects_are_refused)
{
    mxrt_backend_module *module = (mxrt_backend_module *)1;
    mx_error error = {MX_OK, ""};
    char *copy = malloc(backend_object_now.bytes);
    if (is_gpu()) {
        ck_assert_int_ne(OPS->module_load(backend_now, "elf-other", backend_object_now.data,
                                          backend_object_now.bytes, &module, &error),
                         MX_OK);
        ck_assert_contains(error.message, "elf-other");
    }
    if (!strcmp(backend_object_now.kind, MXPACK_KIND_AMDGPU)) {
        for (size_t bytes = 0; bytes < backend_object_now.bytes; bytes += 97) {
            memcpy(copy, backend_object_now.data, bytes);
            ck_assert_int_ne(OPS->module_load(backend_now, backend_object_now.kind, copy, bytes,
                                              &module, &error),
                             MX_OK);
        }
    }
    memcpy(copy, backend_object_now.data, backend_object_now.bytes);
    memset(copy, '?', backend_object_now.bytes < 64 ? backend_object_now.bytes : 64);
    if (!strcmp(backend_object_now.kind, MXPACK_KIND_PTX))
        memset(copy, '?', backend_object_now.bytes);
    ck_assert_int_ne(OPS->module_load(backend_now, backend_object_now.kind, copy,
                                      backend_object_now.bytes, &module, &error),
                     MX_OK);
    ck_assert_ptr_eq(module, (mxrt_backend_module *)1);
    free(copy);
    ck_assert_int_eq(backend_run_add(backend_now, &backend_object_now, 300, NULL, NULL), MX_OK);
}
END_TEST

START_TEST(unknown_kernel_is_not_found)
{
    mxrt_backend_module *module = NULL;
    const mxrt_backend_kernel *kernel = (const mxrt_backend_kernel *)1;
    mx_error error = {MX_OK, ""};
    ck_assert_int_eq(OPS->module_load(backend_now, backend_object_now.kind, backend_object_now.data,
                                      backend_object_now.bytes, &module, NULL),
                     MX_OK);
    ck_assert_int_eq(OPS->module_kernel(backend_now, module, "mxtest_absent", 0, &kernel, &error),
                     is_gpu() ? MX_ERR_NOT_FOUND : MX_ERR_CORRUPT);
    ck_assert_contains(error.message, "mxtest_absent");
    ck_assert_ptr_eq(kernel, (const mxrt_backend_kernel *)1);
    if (is_gpu()) {
        ck_assert_int_eq(
            OPS->module_kernel(backend_now, module, "mxtest_add", 1u << 30, &kernel, &error),
            MX_ERR_UNSUPPORTED);
        ck_assert_contains(error.message, "1073741824");
    }
    OPS->module_unload(backend_now, module);
}
END_TEST

static mx_status count_calls(void *user, mxrt_stream stream, mx_error *err)
{
    int *calls = user;
    (void)stream;
    (void)err;
    return ++*calls > 100 ? MX_ERR_CORRUPT : MX_OK;
}

START_TEST(time_runs_and_passes_errors)
{
    int calls = 0;
    double ms = -1;
    ck_assert_int_eq(OPS->time(backend_now, count_calls, &calls, 3, &ms, NULL), MX_OK);
    ck_assert_int_eq(calls, 3);
    ck_assert_double_ge(ms, 0.0);
    ms = -1;
    calls = 100;
    ck_assert_int_eq(OPS->time(backend_now, count_calls, &calls, 3, &ms, NULL), MX_ERR_CORRUPT);
    ck_assert_int_eq(calls, 101);
    if (is_gpu())
        ck_assert_int_eq(OPS->time(backend_now, count_calls, &calls, 0, &ms, NULL), MX_ERR_INVALID);
    ck_assert_double_eq(ms, -1);
}
END_TEST

START_TEST(bad_uris_are_refused)
{
    static const struct {
        const char *rest;
        mx_status status;
    } table[] = {
        {"zero", MX_ERR_INVALID},
        {"0?speed=9", MX_ERR_INVALID},
        {"99999999999999999999", MX_ERR_INVALID},
        {"0?library=", MX_ERR_INVALID},
        {"0?library=/nowhere/libdriver.so", MX_ERR_NOT_FOUND},
        {"4096", MX_ERR_NOT_FOUND},
    };
    if (!is_gpu())
        return;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        mx_error error = {MX_OK, ""};
        mxrt_backend *backend = (mxrt_backend *)1;
        ck_assert_int_eq(OPS->open(NULL, table[i].rest, &backend, &error), table[i].status);
        ck_assert_ptr_eq(backend, (mxrt_backend *)1);
        ck_assert_int_gt((int)strlen(error.message), 10);
    }
}
END_TEST

START_TEST(modules_go_with_the_device)
{
    mxrt_backend *backend = NULL;
    mxrt_backend_module *modules[4];
    const mxrt_backend_kernel *kernel = NULL;
    if (!is_gpu())
        return;
    ck_assert_int_eq(OPS->open(NULL, backend_rig_now->rest, &backend, NULL), MX_OK);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(OPS->module_load(backend, backend_object_now.kind, backend_object_now.data,
                                          backend_object_now.bytes, &modules[i], NULL),
                         MX_OK);
    OPS->module_unload(backend, modules[1]); /* neither the first nor the last */
    OPS->module_unload(backend, modules[0]);
    OPS->module_unload(backend, NULL);
    ck_assert_int_eq(OPS->module_kernel(backend, modules[2], "mxtest_add", 0, &kernel, NULL),
                     MX_OK);
    OPS->close(backend); /* the fixture counts what is left */
}
END_TEST

/* Everything the driver can do, once. */
static mx_status whole_life(const backend_object *object, mx_error *err)
{
    const backend_rig *rig = backend_rig_now;
    mxrt_backend *backend = NULL;
    mx_status status = OPS->open(NULL, rig->rest, &backend, err);
    if (status)
        return status;
    void *data[2] = {NULL, NULL};
    int calls = 0;
    double ms = 0;
    status = backend_run_add(backend, object, 500, NULL, err);
    if (!status)
        status = OPS->time(backend, count_calls, &calls, 2, &ms, err);
    for (int i = 0; i < 2 && !status; i++)
        status = OPS->alloc(backend, 64, &data[i], err);
    if (!status)
        status = OPS->upload(backend, data[0], "0123456789abcdef", 16, err);
    if (!status)
        status = OPS->copy(backend, data[1], data[0], 16, NULL, err);
    if (!status)
        status = OPS->clear(backend, data[1], 16, NULL, err);
    OPS->free(backend, data[1]);
    OPS->free(backend, data[0]);
    OPS->close(backend);
    return status;
}

START_TEST(each_failing_call_is_clean)
{
    const backend_rig *rig = backend_rig_now;
    if (!rig->fail_call)
        return;
    mx_error error = {MX_OK, ""};
    uint64_t live = rig->live_objects(), before = rig->call_count();
    ck_assert_msg(!whole_life(&backend_object_now, &error), "%s", error.message);
    int n_calls = (int)(rig->call_count() - before);
    ck_assert_int_gt(n_calls, 25);
    int n_failures = 0;
    for (int n = 1; n <= n_calls; n++) {
        error = (mx_error){MX_OK, ""};
        rig->fail_call(n);
        mx_status status = whole_life(&backend_object_now, &error);
        rig->fail_call(0);
        ck_assert_msg(status == MX_OK || status == MX_ERR_DEVICE, "call %d: %s", n, error.message);
        if (status) {
            n_failures++;
            ck_assert_int_eq(status, error.status);
            ck_assert_contains(error.message, " failed with ");
            ck_assert_ptr_nonnull(strcasestr(error.message, "unknown"));
        }
        ck_assert_msg(rig->live_objects() == live, "call %d: %llu objects instead of %llu", n,
                      (unsigned long long)rig->live_objects(), (unsigned long long)live);
        ck_assert_msg(!whole_life(&backend_object_now, &error), "after call %d: %s", n,
                      error.message);
    }
    /* Only releases may fail without a word, as they are tried again. */
    ck_assert_int_gt(n_failures, n_calls / 2);
}
END_TEST

TCase *backend_cases(const backend_rig *rig)
{
    TCase *cases = tcase_create(rig->ops->scheme);
    backend_rig_now = rig;
    tcase_add_checked_fixture(cases, backend_fixture_open, backend_fixture_close);
    tcase_add_test(cases, info_names_the_device);
    tcase_add_test(cases, memory_round_trips);
    tcase_add_test(cases, memory_runs_out);
    tcase_add_test(cases, launches_compute);
    tcase_add_test(cases, dynamic_lds_is_there);
    tcase_add_test(cases, launch_sizes_out_of_range);
    tcase_add_test(cases, bad_objects_are_refused);
    tcase_add_test(cases, unknown_kernel_is_not_found);
    tcase_add_test(cases, time_runs_and_passes_errors);
    tcase_add_test(cases, bad_uris_are_refused);
    tcase_add_test(cases, modules_go_with_the_device);
    tcase_add_test(cases, each_failing_call_is_clean);
    return cases;
}

int backend_run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? 1 : 0;
}
