/* No hardware: selects and plans for a target as a device of that kind would, and refuses to run.
 * A new backend begins as a copy of this file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "runtime/backend.h"

/* There is nothing to remember of modules and kernels, but the handles must be something. */
struct mxrt_backend_module {
    char unused;
};

struct mxrt_backend_kernel {
    char unused;
};

struct mxrt_backend {
    char target[32];
};

static mx_status plan_open(mxrt_context *context, const char *rest, mxrt_backend **out,
                           mx_error *err)
{
    mxrt_backend *backend;

    (void)context;
    if (!*rest)
        return mx_fail(err, MX_ERR_INVALID,
                       "URI plan: wants the name of a target, such as plan:gfx942");
    if (strlen(rest) >= sizeof(backend->target) || rest[strcspn(rest, "?=/: \t")])
        return mx_fail(err, MX_ERR_INVALID,
                       "URI plan:%s: the name of a target has 1 to %zu characters", rest,
                       sizeof(backend->target) - 1);
    if (!(backend = calloc(1, sizeof(*backend))))
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a plan device");
    snprintf(backend->target, sizeof(backend->target), "%s", rest);
    *out = backend;
    return MX_OK;
}

static void plan_close(mxrt_backend *backend)
{
    free(backend);
}

static mx_status plan_enumerate(mxrt_context *context, mxrt_device_info *infos, size_t capacity,
                                size_t *n, mx_error *err)
{
    (void)context;
    (void)infos;
    (void)capacity;
    (void)err;
    *n = 0;
    return MX_OK;
}

static DLDeviceType target_device_type(const char *target)
{
    if (!strncmp(target, "gfx", 3))
        return kDLROCM;
    if (!strncmp(target, "sm_", 3) || !strncmp(target, "compute_", 8))
        return kDLCUDA;
    return kDLCPU;
}

static mx_status plan_get_info(const mxrt_backend *backend, mxrt_device_info *out, mx_error *err)
{
    mxrt_device_info info = {.dl_device = {target_device_type(backend->target), 0}};

    (void)err;
    snprintf(info.uri, sizeof(info.uri), "plan:%s", backend->target);
    snprintf(info.name, sizeof(info.name), "%s, without hardware", backend->target);
    snprintf(info.target, sizeof(info.target), "%s", backend->target);
    snprintf(info.chip, sizeof(info.chip), "%s", backend->target);
    *out = info;
    return MX_OK;
}

static const char *plan_target(const mxrt_backend *backend, size_t index)
{
    return index ? NULL : backend->target;
}

static int plan_accepts(const mxrt_backend *backend, const char *object_kind)
{
    (void)backend;
    (void)object_kind;
    return 1;
}

static mx_status plan_module_load(mxrt_backend *backend, const char *object_kind, const void *code,
                                  size_t code_bytes, mxrt_backend_module **out, mx_error *err)
{
    static mxrt_backend_module module;

    (void)backend;
    (void)object_kind;
    (void)code;
    (void)code_bytes;
    (void)err;
    *out = &module;
    return MX_OK;
}

static void plan_module_unload(mxrt_backend *backend, mxrt_backend_module *module)
{
    (void)backend;
    (void)module;
}

static mx_status plan_module_kernel(mxrt_backend *backend, mxrt_backend_module *module,
                                    const char *symbol, uint32_t lds_bytes,
                                    const mxrt_backend_kernel **out, mx_error *err)
{
    static const mxrt_backend_kernel kernel;

    (void)backend;
    (void)module;
    (void)symbol;
    (void)lds_bytes;
    (void)err;
    *out = &kernel;
    return MX_OK;
}

static mx_status refuse(const mxrt_backend *backend, const char *what, mx_error *err)
{
    return mx_fail(err, MX_ERR_UNSUPPORTED,
                   "device plan:%s has no hardware: it plans launches and cannot %s",
                   backend->target, what);
}

static mx_status plan_launch(mxrt_backend *backend, const mxrt_launch *launch, mxrt_stream stream,
                             mx_error *err)
{
    (void)launch;
    (void)stream;
    return refuse(backend, "run them", err);
}

static mx_status plan_alloc(mxrt_backend *backend, size_t size_bytes, void **out, mx_error *err)
{
    (void)size_bytes;
    (void)out;
    return refuse(backend, "allocate memory", err);
}

static void plan_free(mxrt_backend *backend, void *data)
{
    (void)backend;
    (void)data;
}

static mx_status plan_transfer(mxrt_backend *backend, void *dst, const void *src, size_t size_bytes,
                               mx_error *err)
{
    (void)dst;
    (void)src;
    (void)size_bytes;
    return refuse(backend, "copy memory", err);
}

static mx_status plan_copy(mxrt_backend *backend, void *dst, const void *src, size_t size_bytes,
                           mxrt_stream stream, mx_error *err)
{
    (void)stream;
    return plan_transfer(backend, dst, src, size_bytes, err);
}

static mx_status plan_clear(mxrt_backend *backend, void *dst, size_t size_bytes, mxrt_stream stream,
                            mx_error *err)
{
    (void)dst;
    (void)size_bytes;
    (void)stream;
    return refuse(backend, "clear memory", err);
}

static mx_status plan_synchronize(mxrt_backend *backend, mxrt_stream stream, mx_error *err)
{
    (void)backend;
    (void)stream;
    (void)err;
    return MX_OK;
}

static mx_status plan_time(mxrt_backend *backend, mxrt_timed_fn fn, void *user, int repeat,
                           double *ms, mx_error *err)
{
    (void)fn;
    (void)user;
    (void)repeat;
    (void)ms;
    return refuse(backend, "time anything", err);
}

const mxrt_backend_ops mxrt_backend_plan = {
    .scheme = "plan",
    .open = plan_open,
    .close = plan_close,
    .enumerate = plan_enumerate,
    .get_info = plan_get_info,
    .target = plan_target,
    .accepts = plan_accepts,
    .module_load = plan_module_load,
    .module_unload = plan_module_unload,
    .module_kernel = plan_module_kernel,
    .launch = plan_launch,
    .alloc = plan_alloc,
    .free = plan_free,
    .upload = plan_transfer,
    .download = plan_transfer,
    .copy = plan_copy,
    .clear = plan_clear,
    .synchronize = plan_synchronize,
    .time = plan_time,
};
