/* What a device driver provides to the rest of the runtime. Clone backend_plan.c (the one without
 * hardware) to start a new one; the conformance suite in tests/ runs on every backend. */
#ifndef MXRT_BACKEND_H
#define MXRT_BACKEND_H

#include <mxgen/rt.h>

typedef struct mxrt_backend mxrt_backend;               /* one opened device of a backend */
typedef struct mxrt_backend_module mxrt_backend_module; /* one loaded code object */
typedef struct mxrt_backend_kernel mxrt_backend_kernel; /* one entry of it; dies with it */

struct mxrt_problem;      /* runtime/problem.h */
struct mxrt_gemm_problem; /* runtime/gemm_problem.h */

/* A launch whose choices are all made. `args` is the argument block, `arg_offsets` where each of
 * the `n_args` arguments lies in it. */
typedef struct mxrt_launch {
    const mxrt_backend_kernel *kernel;
    uint32_t grid[3], block[3], lds_bytes;
    const void *args;
    size_t args_bytes;
    size_t n_args;
    const uint16_t *arg_offsets;
    int64_t work_bytes; /* that the whole launch reads and writes; 0 if not known */
} mxrt_launch;

typedef struct mxrt_backend_ops {
    const char *scheme; /* URI scheme: "host", "hip", "cuda", "plan" */

    /* `rest` is what follows the scheme and its colon or question mark in the URI, "" if nothing.
     * `context` is for logging only. */
    mx_status (*open)(mxrt_context *context, const char *rest, mxrt_backend **out, mx_error *err);
    void (*close)(mxrt_backend *backend);
    /* Fills infos of devices present; none is no error. */
    mx_status (*enumerate)(mxrt_context *context, mxrt_device_info *infos, size_t capacity,
                           size_t *n, mx_error *err);
    mx_status (*get_info)(const mxrt_backend *backend, mxrt_device_info *out, mx_error *err);

    /* Pack targets this device can run, best first: name number `index`, NULL past the end. The
     * name lives as long as the backend. */
    const char *(*target)(const mxrt_backend *backend, size_t index);
    /* Nonzero if objects of this kind can be loaded. */
    int (*accepts)(const mxrt_backend *backend, const char *object_kind);

    /* `code` may be released after the call. */
    mx_status (*module_load)(mxrt_backend *backend, const char *object_kind, const void *code,
                             size_t code_bytes, mxrt_backend_module **out, mx_error *err);
    void (*module_unload)(mxrt_backend *backend, mxrt_backend_module *module);
    mx_status (*module_kernel)(mxrt_backend *backend, mxrt_backend_module *module,
                               const char *symbol, uint32_t lds_bytes,
                               const mxrt_backend_kernel **out, mx_error *err);
    /* The launch path: no allocation, lock, file. */
    mx_status (*launch)(mxrt_backend *backend, const mxrt_launch *launch, mxrt_stream stream,
                        mx_error *err);

    mx_status (*alloc)(mxrt_backend *backend, size_t size_bytes, void **out, mx_error *err);
    void (*free)(mxrt_backend *backend, void *data);
    mx_status (*upload)(mxrt_backend *backend, void *dst, const void *src, size_t size_bytes,
                        mx_error *err);
    mx_status (*download)(mxrt_backend *backend, void *dst, const void *src, size_t size_bytes,
                          mx_error *err);
    mx_status (*copy)(mxrt_backend *backend, void *dst, const void *src, size_t size_bytes,
                      mxrt_stream stream, mx_error *err);
    /* Zeros, enqueued on `stream`. */
    mx_status (*clear)(mxrt_backend *backend, void *dst, size_t size_bytes, mxrt_stream stream,
                       mx_error *err);
    mx_status (*synchronize)(mxrt_backend *backend, mxrt_stream stream, mx_error *err);
    /* Nonzero while a graph is captured from the stream, or where that cannot be told, so that
     * nothing but launches may happen. NULL where there are no graphs. */
    int (*capturing)(mxrt_backend *backend, mxrt_stream stream);
    mx_status (*time)(mxrt_backend *backend, mxrt_timed_fn fn, void *user, int repeat, double *ms,
                      mx_error *err);

    /* What the driver has counted; NULL where no driver does. */
    mx_status (*counters)(const mxrt_backend *backend, mxrt_counters *out, mx_error *err);

    /* Runs the plain C reference on the device's memory; NULL where it cannot. No allocation. */
    mx_status (*reference)(mxrt_backend *backend, const struct mxrt_problem *problem,
                           mx_error *err);
    /* The same of grouped GEMM. */
    mx_status (*gemm_reference)(mxrt_backend *backend, const struct mxrt_gemm_problem *problem,
                                mx_error *err);
} mxrt_backend_ops;

extern const mxrt_backend_ops mxrt_backend_host;
extern const mxrt_backend_ops mxrt_backend_plan;
extern const mxrt_backend_ops mxrt_backend_hip;
extern const mxrt_backend_ops mxrt_backend_cuda;

#endif
