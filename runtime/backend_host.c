/* The host: kernels are functions in shared objects that packs carry, run on all cores. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mxgen/error.h>
#include <mxgen/pack.h>

#include "runtime/backend.h"
#include "runtime/host_object.h"
#include "runtime/host_pool.h"
#include "runtime/reference.h"
#include "runtime/reference_gemm.h"

#define ALLOC_ALIGN 4096
#define MAX_TARGETS 3

/* The ABI of mxgen/pack.h. */
typedef void (*host_kernel_fn)(const void *args, int64_t program_begin, int64_t program_end);

struct mxrt_backend_kernel {
    host_kernel_fn run;
    struct mxrt_backend_kernel *next;
};

struct mxrt_backend_module {
    mxrt_host_object object;
    struct mxrt_backend_kernel *kernels;
};

struct mxrt_backend {
    mxrt_host_pool *pool;
    const char *targets[MAX_TARGETS + 1]; /* closed by NULL */
    char uri[64];
};

/* ---- Opening ---- */

static size_t supported_targets(const char *targets[MAX_TARGETS + 1])
{
    size_t n = 0;

#if defined(__x86_64__)
    __builtin_cpu_init();
    int v2 = __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("sse3") &&
             __builtin_cpu_supports("ssse3") && __builtin_cpu_supports("sse4.1") &&
             __builtin_cpu_supports("sse4.2");
    int v3 = v2 && __builtin_cpu_supports("avx") && __builtin_cpu_supports("avx2") &&
             __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
             __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
             __builtin_cpu_supports("lzcnt") && __builtin_cpu_supports("movbe");
    int v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl");
    if (v4)
        targets[n++] = "host-x86-64-v4";
    if (v3)
        targets[n++] = "host-x86-64-v3";
    if (v2)
        targets[n++] = "host-x86-64-v2";
#endif
    targets[n] = NULL;
    return n;
}

static mx_status parse_threads(const char *rest, int *n_threads, mx_error *err)
{
    static const char key[] = "threads=";
    char *end;

    *n_threads = 0;
    if (!*rest)
        return MX_OK;
    if (strncmp(rest, key, sizeof(key) - 1))
        return mx_fail(err, MX_ERR_INVALID,
                       "host option \"%s\" is unknown; \"host\" and \"host?threads=N\" exist",
                       rest);
    rest += sizeof(key) - 1;
    errno = 0;
    long value = strtol(rest, &end, 10);
    if (*rest < '0' || *rest > '9' || *end || errno || value < 1 || value > 1024)
        return mx_fail(err, MX_ERR_INVALID, "host option threads=%s: give a number from 1 to 1024",
                       rest);
    *n_threads = (int)value;
    return MX_OK;
}

static mx_status host_open(mxrt_context *context, const char *rest, mxrt_backend **out,
                           mx_error *err)
{
    mxrt_backend *backend;
    mx_status status;
    int n_threads;

    (void)context;
    if ((status = parse_threads(rest, &n_threads, err)))
        return status;
    if (!(backend = calloc(1, sizeof(*backend))))
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a host device");
    if ((status = mxrt_host_pool_create(n_threads, &backend->pool, err))) {
        free(backend);
        return status;
    }
    supported_targets(backend->targets);
    snprintf(backend->uri, sizeof(backend->uri), n_threads ? "host?threads=%d" : "host", n_threads);
    *out = backend;
    return MX_OK;
}

static void host_close(mxrt_backend *backend)
{
    if (!backend)
        return;
    mxrt_host_pool_destroy(backend->pool);
    free(backend);
}

static void processor_name(char *out, size_t out_bytes)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256];

    snprintf(out, out_bytes, "host processor");
    while (file && fgets(line, sizeof(line), file)) {
        char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !value)
            continue;
        value += 1 + strspn(value + 1, " \t");
        value[strcspn(value, "\n")] = 0;
        snprintf(out, out_bytes, "%s", value);
        break;
    }
    if (file)
        fclose(file);
}

static mx_status host_get_info(const mxrt_backend *backend, mxrt_device_info *out, mx_error *err)
{
    mxrt_device_info info = {.dl_device = {kDLCPU, 0}};

    (void)err;
    snprintf(info.uri, sizeof(info.uri), "%s", backend->uri);
    processor_name(info.name, sizeof(info.name));
    snprintf(info.target, sizeof(info.target), "%s",
             backend->targets[0] ? backend->targets[0] : "host");
    info.compute_units = mxrt_host_pool_threads(backend->pool);
    snprintf(info.chip, sizeof(info.chip), "%s", info.name);
    *out = info;
    return MX_OK;
}

static mx_status host_enumerate(mxrt_context *context, mxrt_device_info *infos, size_t capacity,
                                size_t *n, mx_error *err)
{
    mx_status status = MX_OK;
    mxrt_backend *backend = NULL;

    *n = 1;
    if (!capacity)
        return MX_OK;
    if ((status = host_open(context, "", &backend, err)))
        return status;
    status = host_get_info(backend, infos, err);
    host_close(backend);
    return status;
}

static const char *host_target(const mxrt_backend *backend, size_t index)
{
    return index < MAX_TARGETS ? backend->targets[index] : NULL;
}

static int host_accepts(const mxrt_backend *backend, const char *object_kind)
{
    (void)backend;
    return !strcmp(object_kind, MXPACK_KIND_HOST);
}

/* ---- Kernels ---- */

static mx_status host_module_load(mxrt_backend *backend, const char *object_kind, const void *code,
                                  size_t code_bytes, mxrt_backend_module **out, mx_error *err)
{
    mxrt_backend_module *module;
    mx_status status;

    (void)backend;
    (void)object_kind;
    if (!(module = calloc(1, sizeof(*module))))
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a module");
    if ((status = mxrt_host_object_load(code, code_bytes, &module->object, err))) {
        free(module);
        return status;
    }
    *out = module;
    return MX_OK;
}

static void host_module_unload(mxrt_backend *backend, mxrt_backend_module *module)
{
    (void)backend;
    if (!module)
        return;
    while (module->kernels) {
        struct mxrt_backend_kernel *next = module->kernels->next;
        free(module->kernels);
        module->kernels = next;
    }
    mxrt_host_object_unload(&module->object);
    free(module);
}

static mx_status host_module_kernel(mxrt_backend *backend, mxrt_backend_module *module,
                                    const char *symbol, uint32_t lds_bytes,
                                    const mxrt_backend_kernel **out, mx_error *err)
{
    void *address = mxrt_host_object_symbol(&module->object, symbol);
    struct mxrt_backend_kernel *kernel;

    (void)backend;
    (void)lds_bytes;
    if (!address)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "the code object has no symbol %s; build the pack again", symbol);
    if (!(kernel = calloc(1, sizeof(*kernel))))
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for kernel %s", symbol);
    /* ISO C has no cast from object to function pointers, POSIX wants it to work. */
    memcpy(&kernel->run, &address, sizeof(kernel->run));
    kernel->next = module->kernels;
    module->kernels = kernel;
    *out = kernel;
    return MX_OK;
}

typedef struct host_launch_job {
    host_kernel_fn run;
    const void *args;
} host_launch_job;

static void run_programs(void *user, int64_t begin, int64_t end)
{
    const host_launch_job *job = user;

    job->run(job->args, begin, end);
}

static mx_status host_launch(mxrt_backend *backend, const mxrt_launch *launch, mxrt_stream stream,
                             mx_error *err)
{
    host_launch_job job = {launch->kernel->run, launch->args};
    int64_t n_programs = launch->grid[0];

    (void)stream;
    if (launch->grid[1] != 1 || launch->grid[2] != 1)
        return mx_fail(err, MX_ERR_UNSUPPORTED,
                       "grid %u x %u x %u: kernels of the host have a grid of one dimension",
                       launch->grid[0], launch->grid[1], launch->grid[2]);
    mxrt_host_pool_run(backend->pool, n_programs,
                       mxrt_host_pool_chunk(backend->pool, n_programs, launch->work_bytes),
                       run_programs, &job);
    return MX_OK;
}

static void run_reference(void *user, int64_t begin, int64_t end)
{
    mxrt_reference_blocks(user, begin, end);
}

static mx_status host_reference(mxrt_backend *backend, const mxrt_problem *problem, mx_error *err)
{
    mxrt_problem job;

    (void)err;
    mxrt_problem_copy(&job, problem);
    mxrt_host_pool_run(
        backend->pool, job.n_blocks,
        mxrt_host_pool_chunk(backend->pool, job.n_blocks, mxrt_problem_bytes(problem)),
        run_reference, &job);
    return MX_OK;
}

static void run_gemm_reference(void *user, int64_t begin, int64_t end)
{
    mxrt_reference_gemm_tiles(user, begin, end);
}

static mx_status host_gemm_reference(mxrt_backend *backend, const mxrt_gemm_problem *problem,
                                     mx_error *err)
{
    mxrt_gemm_problem job = *problem;
    int64_t n_tiles = mxrt_reference_gemm_count(&job);

    (void)err;
    mxrt_reference_gemm_status(&job);
    mxrt_host_pool_run(backend->pool, n_tiles, mxrt_host_pool_chunk(backend->pool, n_tiles, 0),
                       run_gemm_reference, &job);
    return MX_OK;
}

/* ---- Memory and time ---- */

static mx_status host_alloc(mxrt_backend *backend, size_t size_bytes, void **out, mx_error *err)
{
    void *data;

    (void)backend;
    if (posix_memalign(&data, ALLOC_ALIGN, size_bytes ? size_bytes : 1))
        return mx_fail(err, MX_ERR_NO_MEMORY, "no host memory for %zu bytes", size_bytes);
    *out = data;
    return MX_OK;
}

static void host_free(mxrt_backend *backend, void *data)
{
    (void)backend;
    free(data);
}

typedef struct host_copy_job {
    unsigned char *dst;
    const unsigned char *src;
} host_copy_job;

static void copy_range(void *user, int64_t begin, int64_t end)
{
    const host_copy_job *job = user;

    memcpy(job->dst + begin, job->src + begin, (size_t)(end - begin));
}

static mx_status host_copy(mxrt_backend *backend, void *dst, const void *src, size_t size_bytes,
                           mxrt_stream stream, mx_error *err)
{
    host_copy_job job = {dst, src};
    int64_t n = (int64_t)size_bytes;
    int64_t chunk = mxrt_host_pool_chunk(backend->pool, n, n > INT64_MAX / 2 ? n : 2 * n);

    (void)stream;
    (void)err;
    /* Whole pages, so that no two threads write one cache line. */
    chunk = chunk < n ? (chunk + ALLOC_ALIGN - 1) / ALLOC_ALIGN * ALLOC_ALIGN : chunk;
    mxrt_host_pool_run(backend->pool, n, chunk, copy_range, &job);
    return MX_OK;
}

static mx_status host_transfer(mxrt_backend *backend, void *dst, const void *src, size_t size_bytes,
                               mx_error *err)
{
    return host_copy(backend, dst, src, size_bytes, NULL, err);
}

static mx_status host_clear(mxrt_backend *backend, void *dst, size_t size_bytes, mxrt_stream stream,
                            mx_error *err)
{
    (void)backend;
    (void)stream;
    (void)err;
    memset(dst, 0, size_bytes);
    return MX_OK;
}

static mx_status host_synchronize(mxrt_backend *backend, mxrt_stream stream, mx_error *err)
{
    (void)backend;
    (void)stream;
    (void)err;
    return MX_OK;
}

static double now_ms(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static mx_status host_time(mxrt_backend *backend, mxrt_timed_fn fn, void *user, int repeat,
                           double *ms, mx_error *err)
{
    double begin = now_ms();

    (void)backend;
    for (int i = 0; i < repeat; i++) {
        mx_status status = fn(user, NULL, err);
        if (status)
            return status;
    }
    *ms = (now_ms() - begin) / repeat;
    return MX_OK;
}

const mxrt_backend_ops mxrt_backend_host = {
    .scheme = "host",
    .open = host_open,
    .close = host_close,
    .enumerate = host_enumerate,
    .get_info = host_get_info,
    .target = host_target,
    .accepts = host_accepts,
    .module_load = host_module_load,
    .module_unload = host_module_unload,
    .module_kernel = host_module_kernel,
    .launch = host_launch,
    .alloc = host_alloc,
    .free = host_free,
    .upload = host_transfer,
    .download = host_transfer,
    .copy = host_copy,
    .clear = host_clear,
    .synchronize = host_synchronize,
    .time = host_time,
    .reference = host_reference,
    .gemm_reference = host_gemm_reference,
};
