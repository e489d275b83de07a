/* AMD GPUs through the HIP runtime of ROCm 5, 6 and 7. Only its plain C entry points are used, by
 * prototypes of our own, so that no ROCm header or library is needed to build.
 *
 * Every call makes the device current and restores what was current before. A device keeps its own
 * table of modules, as HIP binds a module to the device it was loaded on. */
#include "runtime/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>
#include <mxgen/pack.h>

#include "runtime/dynlib.h"
#include "runtime/gpu.h"

enum {
    HIP_ATTRIBUTE_MAX_BLOCK_X = 26, /* y and z follow */
    HIP_ATTRIBUTE_MAX_GRID_X = 29,
    HIP_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 56,
    HIP_ATTRIBUTE_COMPUTE_UNITS = 63,
    HIP_ATTRIBUTE_MAX_LDS_PER_BLOCK = 74,
    HIP_FUNCTION_MAX_THREADS_PER_BLOCK = 0,
    HIP_FUNCTION_STATIC_LDS = 1,
    HIP_COPY_HOST_TO_DEVICE = 1,
    HIP_COPY_DEVICE_TO_HOST = 2,
    HIP_COPY_DEVICE_TO_DEVICE = 3,
    HIP_ERROR_NO_DEVICE = 100,
    HIP_ERROR_INVALID_DEVICE = 101,
    ELF_MACHINE_AMDGPU = 224,
};

#define HIP_LAUNCH_BUFFER_POINTER ((void *)1)
#define HIP_LAUNCH_BUFFER_SIZE ((void *)2)
#define HIP_LAUNCH_END ((void *)3)

/* The properties call fills a struct that grew with the releases; both layouts begin with the name
 * and have the chip's name at a fixed place. The buffer is larger than any of them. */
enum {
    HIP_PROPERTIES_BYTES = 8192,
    HIP_PROPERTIES_ARCH_R0000 = 396,
    HIP_PROPERTIES_ARCH_R0600 = 1160,
};

typedef struct hip_api {
    int (*hipInit)(unsigned flags);
    int (*hipDriverGetVersion)(int *version);
    int (*hipGetDeviceCount)(int *count);
    int (*hipGetDevice)(int *device);
    int (*hipSetDevice)(int device);
    int (*hipDeviceGetAttribute)(int *value, int attribute, int device);
    int (*hipGetDevicePropertiesR0600)(void *properties, int device);
    int (*hipGetDeviceProperties)(void *properties, int device);
    const char *(*hipGetErrorName)(int code);
    const char *(*hipGetErrorString)(int code);
    int (*hipGetLastError)(void);
    int (*hipModuleLoadData)(void **module, const void *image);
    int (*hipModuleUnload)(void *module);
    int (*hipModuleGetFunction)(void **function, void *module, const char *name);
    int (*hipFuncGetAttribute)(int *value, int attribute, void *function);
    int (*hipModuleLaunchKernel)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z,
                                 unsigned lds_bytes, void *stream, void **params, void **extra);
    int (*hipMalloc)(void **pointer, size_t bytes);
    int (*hipFree)(void *pointer);
    int (*hipMemcpy)(void *dst, const void *src, size_t bytes, int kind);
    int (*hipMemcpyAsync)(void *dst, const void *src, size_t bytes, int kind, void *stream);
    int (*hipMemsetAsync)(void *dst, int value, size_t bytes, void *stream);
    int (*hipStreamSynchronize)(void *stream);
    int (*hipStreamIsCapturing)(void *stream, int *status);
    int (*hipStreamGetDevice)(void *stream, int *device);
    int (*hipEventCreate)(void **event);
    int (*hipEventDestroy)(void *event);
    int (*hipEventRecord)(void *event, void *stream);
    int (*hipEventSynchronize)(void *event);
    int (*hipEventElapsedTime)(float *ms, void *start, void *stop);
    int (*mxsim_counters)(mxrt_counters *out);
} hip_api;

#define REQUIRED(name)                                                                             \
    {                                                                                              \
#name, NULL, offsetof(hip_api, name), 1                                                    \
    }
#define OPTIONAL(name)                                                                             \
    {                                                                                              \
#name, NULL, offsetof(hip_api, name), 0                                                    \
    }

static const mxrt_dynlib_symbol hip_symbols[] = {
    REQUIRED(hipInit),
    REQUIRED(hipGetDeviceCount),
    REQUIRED(hipGetDevice),
    REQUIRED(hipSetDevice),
    REQUIRED(hipDeviceGetAttribute),
    OPTIONAL(hipDriverGetVersion),
    OPTIONAL(hipGetDevicePropertiesR0600), /* ROCm 6 on */
    OPTIONAL(hipGetDeviceProperties),
    REQUIRED(hipGetErrorName),
    REQUIRED(hipGetErrorString),
    OPTIONAL(hipGetLastError),
    REQUIRED(hipModuleLoadData),
    REQUIRED(hipModuleUnload),
    REQUIRED(hipModuleGetFunction),
    OPTIONAL(hipFuncGetAttribute),
    REQUIRED(hipModuleLaunchKernel),
    REQUIRED(hipMalloc),
    REQUIRED(hipFree),
    REQUIRED(hipMemcpy),
    REQUIRED(hipMemcpyAsync),
    REQUIRED(hipMemsetAsync),
    REQUIRED(hipStreamSynchronize),
    OPTIONAL(hipStreamIsCapturing),
    OPTIONAL(hipStreamGetDevice), /* ROCm 5.6 on */
    REQUIRED(hipEventCreate),
    REQUIRED(hipEventDestroy),
    REQUIRED(hipEventRecord),
    REQUIRED(hipEventSynchronize),
    REQUIRED(hipEventElapsedTime),
    OPTIONAL(mxsim_counters), /* of a simulator */
};

static const char *const hip_names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5",
                                        "libamdhip64.so", NULL};

const mxrt_dynlib_spec mxrt_hip_library = {
    .title = "the HIP runtime",
    .env = "MXRT_HIP_LIBRARY",
    .names = hip_names,
    .advice = "install ROCm's libamdhip64",
    .symbols = hip_symbols,
    .n_symbols = sizeof(hip_symbols) / sizeof(hip_symbols[0]),
    .table_bytes = sizeof(hip_api),
};

struct mxrt_backend {
    const hip_api *api;
    int ordinal, n_devices;
    int compute_units;
    mxrt_gpu_limits limits;
    mxrt_gpu_modules modules;
    char uri[32];
    char name[128];
    char arch[64]; /* with features: "gfx942:sramecc+:xnack-" */
    char base[64]; /* without: "gfx942" */
};

/* ---- Errors and the current device ---- */

static mx_status hip_fail(const hip_api *api, const char *device, int code, const char *call,
                          const char *detail, mx_error *err)
{
    mxrt_gpu_failure failure = {
        .call = call,
        .code = code,
        .name = api->hipGetErrorName(code),
        .text = api->hipGetErrorString(code),
        .device = device,
        .detail = detail,
    };
    mx_status status = mxrt_gpu_fail(&failure, err);
    /* HIP keeps the last error for whoever asks next; that must not be the caller's own check. */
    if (api->hipGetLastError)
        (void)api->hipGetLastError();
    return status;
}

static mx_status backend_fail(const mxrt_backend *backend, int code, const char *call,
                              const char *detail, mx_error *err)
{
    return hip_fail(backend->api, backend->uri, code, call, detail, err);
}

/* Makes the device current; *previous is what hip_leave takes back, -1 if nothing changed. */
static mx_status hip_enter(const mxrt_backend *backend, int *previous, mx_error *err)
{
    *previous = -1;
    if (backend->n_devices == 1)
        return MX_OK; /* it is the only one that can be current */
    int current = 0;
    int code = backend->api->hipGetDevice(&current);
    if (code)
        return backend_fail(backend, code, "hipGetDevice", NULL, err);
    if (current == backend->ordinal)
        return MX_OK;
    code = backend->api->hipSetDevice(backend->ordinal);
    if (code)
        return backend_fail(backend, code, "hipSetDevice", NULL, err);
    *previous = current;
    return MX_OK;
}

/* Tried twice, as a failure would leave the caller on another device than its own. */
static void hip_leave(const mxrt_backend *backend, int previous)
{
    if (previous >= 0 && backend->api->hipSetDevice(previous))
        (void)backend->api->hipSetDevice(previous);
}

/* Releases are tried twice too: a driver may answer with the error of earlier work. */
static void hip_release(const hip_api *api, int (*release)(void *), void *object)
{
    if (object && release(object)) {
        (void)release(object);
        if (api->hipGetLastError)
            (void)api->hipGetLastError();
    }
}

/* ---- Devices ---- */

static mx_status hip_library_open(const char *path, const hip_api **out, mx_error *err)
{
    const mxrt_dynlib *library = NULL;
    mx_status status = mxrt_dynlib_open(&mxrt_hip_library, path, &library, err);
    if (status)
        return status;
    const hip_api *api = library->table;
    if (!api->hipGetDevicePropertiesR0600 && !api->hipGetDeviceProperties)
        return mx_fail(err, MX_ERR_NOT_FOUND,
                       "%s has no hipGetDeviceProperties: install ROCm 5 or newer", library->path);
    int code = api->hipInit(0);
    if (code)
        return hip_fail(api, library->path, code, "hipInit", NULL, err);
    *out = api;
    return MX_OK;
}

static mx_status read_names(mxrt_backend *backend, mx_error *err)
{
    const hip_api *api = backend->api;
    int is_new = api->hipGetDevicePropertiesR0600 != NULL;
    char *properties = calloc(1, HIP_PROPERTIES_BYTES);
    if (!properties)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no host memory for the properties of %s",
                       backend->uri);
    int code = is_new ? api->hipGetDevicePropertiesR0600(properties, backend->ordinal)
                      : api->hipGetDeviceProperties(properties, backend->ordinal);
    mx_status status = MX_OK;
    if (code) {
        status = backend_fail(backend, code, "hipGetDeviceProperties", NULL, err);
    } else {
        const char *arch =
            properties + (is_new ? HIP_PROPERTIES_ARCH_R0600 : HIP_PROPERTIES_ARCH_R0000);
        snprintf(backend->name, sizeof(backend->name), "%.127s", properties);
        snprintf(backend->arch, sizeof(backend->arch), "%.63s", arch);
        snprintf(backend->base, sizeof(backend->base), "%.*s", (int)strcspn(backend->arch, ":"),
                 backend->arch);
        if (strncmp(backend->base, "gfx", 3) != 0)
            status =
                mx_fail(err, MX_ERR_DEVICE,
                        "%s reports the chip as \"%s\", not as a gfx name: this HIP runtime is "
                        "not one of ROCm 5, 6 or 7",
                        backend->uri, backend->base);
    }
    free(properties);
    return status;
}

/* A driver that gives nonsense (0, or 2^32 - 1 as an int) sets no limit. */
static uint32_t as_limit(int value)
{
    return value > 0 ? (uint32_t)value : UINT32_MAX;
}

static mx_status read_limits(mxrt_backend *backend, mx_error *err)
{
    static const int wanted[] = {
        HIP_ATTRIBUTE_MAX_GRID_X,
        HIP_ATTRIBUTE_MAX_GRID_X + 1,
        HIP_ATTRIBUTE_MAX_GRID_X + 2,
        HIP_ATTRIBUTE_MAX_BLOCK_X,
        HIP_ATTRIBUTE_MAX_BLOCK_X + 1,
        HIP_ATTRIBUTE_MAX_BLOCK_X + 2,
        HIP_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
        HIP_ATTRIBUTE_MAX_LDS_PER_BLOCK,
        HIP_ATTRIBUTE_COMPUTE_UNITS,
    };
    enum { N_WANTED = sizeof(wanted) / sizeof(wanted[0]) };
    int values[N_WANTED];
    for (size_t i = 0; i < N_WANTED; i++) {
        int code = backend->api->hipDeviceGetAttribute(&values[i], wanted[i], backend->ordinal);
        if (code)
            return backend_fail(backend, code, "hipDeviceGetAttribute", NULL, err);
    }
    for (size_t i = 0; i < 3; i++) {
        backend->limits.grid[i] = as_limit(values[i]);
        backend->limits.block[i] = as_limit(values[3 + i]);
    }
    backend->limits.block_items = as_limit(values[6]);
    backend->limits.lds_bytes = as_limit(values[7]);
    /* HSA dispatch packets count work items in 32 bits. */
    backend->limits.grid_items = UINT32_MAX;
    backend->compute_units = values[8];
    return MX_OK;
}

/* Everything of the device that needs no context; `backend` is zeroed but for `api`. */
static mx_status describe(mxrt_backend *backend, int ordinal, mx_error *err)
{
    backend->ordinal = ordinal;
    snprintf(backend->uri, sizeof(backend->uri), "hip:%d", ordinal);
    mx_status status = read_names(backend, err);
    return status ? status : read_limits(backend, err);
}

static mx_status hip_open(mxrt_context *context, const char *rest, mxrt_backend **out,
                          mx_error *err)
{
    (void)context;
    mxrt_gpu_uri uri;
    mx_status status = mxrt_gpu_parse_uri("hip", rest, &uri, err);
    if (status)
        return status;
    const hip_api *api = NULL;
    status = hip_library_open(uri.library, &api, err);
    if (status)
        return status;
    int n_devices = 0;
    int code = api->hipGetDeviceCount(&n_devices);
    if (code)
        return hip_fail(api, "hip", code, "hipGetDeviceCount", NULL, err);
    if (uri.ordinal >= n_devices)
        return mx_fail(err, MX_ERR_NOT_FOUND,
                       "hip:%d is not here: the driver shows %d device(s), numbered from 0",
                       uri.ordinal, n_devices);
    mxrt_backend *backend = calloc(1, sizeof(*backend));
    if (!backend)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no host memory to open hip:%d", uri.ordinal);
    backend->api = api;
    backend->n_devices = n_devices;
    status = describe(backend, uri.ordinal, err);
    if (status) {
        free(backend);
        return status;
    }
    pthread_mutex_init(&backend->modules.lock, NULL);
    *out = backend;
    return MX_OK;
}

static void hip_module_unload(mxrt_backend *backend, mxrt_backend_module *module);

static void hip_close(mxrt_backend *backend)
{
    if (!backend)
        return;
    while (backend->modules.first)
        hip_module_unload(backend, backend->modules.first);
    pthread_mutex_destroy(&backend->modules.lock);
    free(backend);
}

static mx_status hip_get_info(const mxrt_backend *backend, mxrt_device_info *out, mx_error *err)
{
    (void)err;
    mxrt_device_info info = {.dl_device = {kDLROCM, backend->ordinal},
                             .compute_units = backend->compute_units};
    snprintf(info.uri, sizeof(info.uri), "%s", backend->uri);
    snprintf(info.name, sizeof(info.name), "%s", backend->name);
    snprintf(info.target, sizeof(info.target), "%s", backend->base);
    snprintf(info.chip, sizeof(info.chip), "%s", backend->arch);
    mxrt_gpu_driver_text(backend->api->hipDriverGetVersion, info.driver, sizeof(info.driver));
    *out = info;
    return MX_OK;
}

static mx_status hip_enumerate(mxrt_context *context, mxrt_device_info *infos, size_t capacity,
                               size_t *n, mx_error *err)
{
    (void)context;
    const hip_api *api = NULL;
    int n_devices = 0;
    /* A machine without the library or a card has no devices, which is no error. */
    if (hip_library_open(NULL, &api, NULL) || api->hipGetDeviceCount(&n_devices))
        n_devices = 0;
    for (int i = 0; i < n_devices && (size_t)i < capacity; i++) {
        mxrt_backend device = {.api = api, .n_devices = n_devices};
        mx_status status = describe(&device, i, err);
        if (status)
            return status;
        hip_get_info(&device, &infos[i], NULL);
    }
    *n = (size_t)(n_devices > 0 ? n_devices : 0);
    return MX_OK;
}

/* Objects made for one setting of the chip's features come before those for any. */
static const char *hip_target(const mxrt_backend *backend, size_t index)
{
    int has_features = strcmp(backend->arch, backend->base) != 0;
    if (has_features && index == 0)
        return backend->arch;
    return index == (size_t)has_features ? backend->base : NULL;
}

static int hip_accepts(const mxrt_backend *backend, const char *object_kind)
{
    (void)backend;
    return !strcmp(object_kind, MXPACK_KIND_AMDGPU);
}

/* ---- Modules ---- */

static mx_status hip_module_load(mxrt_backend *backend, const char *object_kind, const void *code,
                                 size_t code_bytes, mxrt_backend_module **out, mx_error *err)
{
    if (!hip_accepts(backend, object_kind))
        return mx_fail(err, MX_ERR_UNSUPPORTED, "%s runs objects of kind %s, not %s", backend->uri,
                       MXPACK_KIND_AMDGPU, object_kind);
    mx_status status = mxrt_gpu_check_elf(code, code_bytes, ELF_MACHINE_AMDGPU, err);
    if (status)
        return status;
    mxrt_backend_module *module = NULL;
    status = mxrt_gpu_module_create(code, code_bytes, &module, err);
    if (status)
        return status;
    int previous = -1;
    status = hip_enter(backend, &previous, err);
    if (status)
        goto out;
    int code_hip = backend->api->hipModuleLoadData(&module->handle, module->code);
    if (code_hip) {
        char detail[96];
        snprintf(detail, sizeof(detail), "the device is %s", backend->arch);
        status = backend_fail(backend, code_hip, "hipModuleLoadData", detail, err);
    }
    hip_leave(backend, previous);
out:
    if (status) {
        mxrt_gpu_module_destroy(module);
        return status;
    }
    mxrt_gpu_modules_add(&backend->modules, module);
    *out = module;
    return MX_OK;
}

static void hip_module_unload(mxrt_backend *backend, mxrt_backend_module *module)
{
    if (!module)
        return;
    int previous = -1;
    if (hip_enter(backend, &previous, NULL))
        (void)hip_enter(backend, &previous, NULL);
    hip_release(backend->api, backend->api->hipModuleUnload, module->handle);
    hip_leave(backend, previous);
    mxrt_gpu_modules_remove(&backend->modules, module);
    mxrt_gpu_module_destroy(module);
}

/* Fills the record from the driver; the device is current. */
static mx_status find_kernel(const mxrt_backend *backend, const mxrt_backend_module *module,
                             const char *symbol, mxrt_backend_kernel *kernel, mx_error *err)
{
    const hip_api *api = backend->api;
    int code = api->hipModuleGetFunction(&kernel->function, module->handle, symbol);
    if (code)
        return backend_fail(backend, code, "hipModuleGetFunction", symbol, err);
    kernel->block_items = UINT32_MAX;
    if (!api->hipFuncGetAttribute)
        return MX_OK;
    int block_items = 0, static_lds = 0;
    code = api->hipFuncGetAttribute(&block_items, HIP_FUNCTION_MAX_THREADS_PER_BLOCK,
                                    kernel->function);
    if (!code)
        code = api->hipFuncGetAttribute(&static_lds, HIP_FUNCTION_STATIC_LDS, kernel->function);
    if (code)
        return backend_fail(backend, code, "hipFuncGetAttribute", symbol, err);
    kernel->block_items = as_limit(block_items);
    kernel->static_lds_bytes = static_lds > 0 ? (uint32_t)static_lds : 0;
    return MX_OK;
}

static mx_status hip_module_kernel(mxrt_backend *backend, mxrt_backend_module *module,
                                   const char *symbol, uint32_t lds_bytes,
                                   const mxrt_backend_kernel **out, mx_error *err)
{
    if (lds_bytes > backend->limits.lds_bytes)
        return mx_fail(err, MX_ERR_UNSUPPORTED, "kernel %s needs %u bytes of LDS, %s has %u",
                       symbol, lds_bytes, backend->uri, backend->limits.lds_bytes);
    int previous = -1;
    mx_status status = hip_enter(backend, &previous, err);
    if (status)
        return status;
    pthread_mutex_lock(&backend->modules.lock);
    const mxrt_backend_kernel *found = mxrt_gpu_kernel_find(module, symbol, lds_bytes);
    if (!found) {
        mxrt_backend_kernel kernel = {0};
        status = find_kernel(backend, module, symbol, &kernel, err);
        kernel.lds_bytes =
            lds_bytes > kernel.static_lds_bytes ? lds_bytes : kernel.static_lds_bytes;
        if (!status)
            status = mxrt_gpu_kernel_add(module, symbol, &kernel, &found, err);
    }
    pthread_mutex_unlock(&backend->modules.lock);
    hip_leave(backend, previous);
    if (!status)
        *out = found;
    return status;
}

/* ---- Launch ---- */

/* Asks the library's own stream record, not the device. One device has no foreign streams. */
static mx_status check_stream(const mxrt_backend *backend, mxrt_stream stream, mx_error *err)
{
    int device = backend->ordinal;
    if (!stream || backend->n_devices == 1 || !backend->api->hipStreamGetDevice)
        return MX_OK;
    int code = backend->api->hipStreamGetDevice(stream, &device);
    if (code)
        return backend_fail(backend, code, "hipStreamGetDevice", NULL, err);
    if (device != backend->ordinal)
        return mx_fail(err, MX_ERR_INVALID,
                       "the stream belongs to hip:%d, the tensors to %s: use a stream of %s",
                       device, backend->uri, backend->uri);
    return MX_OK;
}

static mx_status hip_launch(mxrt_backend *backend, const mxrt_launch *launch, mxrt_stream stream,
                            mx_error *err)
{
    const mxrt_backend_kernel *kernel = launch->kernel;
    mx_status status = mxrt_gpu_check_launch(&backend->limits, launch, err);
    if (!status)
        status = check_stream(backend, stream, err);
    if (status)
        return status;
    int previous = -1;
    status = hip_enter(backend, &previous, err);
    if (status)
        return status;
    size_t args_bytes = launch->args_bytes;
    void *extra[] = {HIP_LAUNCH_BUFFER_POINTER, (void *)launch->args, HIP_LAUNCH_BUFFER_SIZE,
                     &args_bytes, HIP_LAUNCH_END};
    uint32_t dynamic_lds = launch->lds_bytes > kernel->static_lds_bytes
                               ? launch->lds_bytes - kernel->static_lds_bytes
                               : 0;
    int code = backend->api->hipModuleLaunchKernel(
        kernel->function, launch->grid[0], launch->grid[1], launch->grid[2], launch->block[0],
        launch->block[1], launch->block[2], dynamic_lds, stream, NULL, extra);
    if (code)
        status = backend_fail(backend, code, "hipModuleLaunchKernel", kernel->symbol, err);
    hip_leave(backend, previous);
    return status;
}

/* ---- Memory and timing ---- */

static mx_status hip_alloc(mxrt_backend *backend, size_t size_bytes, void **out, mx_error *err)
{
    int previous = -1;
    mx_status status = hip_enter(backend, &previous, err);
    if (status)
        return status;
    void *data = NULL;
    /* Zero bytes would give NULL, which the caller cannot tell from nothing. */
    int code = backend->api->hipMalloc(&data, size_bytes ? size_bytes : 1);
    if (code) {
        char detail[64];
        snprintf(detail, sizeof(detail), "%zu bytes were asked for", size_bytes);
        status = backend_fail(backend, code, "hipMalloc", detail, err);
    }
    hip_leave(backend, previous);
    if (!status)
        *out = data;
    return status;
}

static void hip_free(mxrt_backend *backend, void *data)
{
    int previous = -1;
    if (!data)
        return;
    if (hip_enter(backend, &previous, NULL))
        (void)hip_enter(backend, &previous, NULL);
    hip_release(backend->api, backend->api->hipFree, data);
    hip_leave(backend, previous);
}

static mx_status copy_blocking(mxrt_backend *backend, void *dst, const void *src, size_t size_bytes,
                               int kind, mx_error *err)
{
    int previous = -1;
    if (size_bytes == 0)
        return MX_OK;
    mx_status status = hip_enter(backend, &previous, err);
    if (status)
        return status;
    int code = backend->api->hipMemcpy(dst, src, size_bytes, kind);
    if (code)
        status = backend_fail(backend, code, "hipMemcpy", NULL, err);
    hip_leave(backend, previous);
    return status;
}

static mx_status hip_upload(mxrt_backend *backend, void *dst, const void *src, size_t size_bytes,
                            mx_error *err)
{
    return copy_blocking(backend, dst, src, size_bytes, HIP_COPY_HOST_TO_DEVICE, err);
}

static mx_status hip_download(mxrt_backend *backend, void *dst, const void *src, size_t size_bytes,
                              mx_error *err)
{
    return copy_blocking(backend, dst, src, size_bytes, HIP_COPY_DEVICE_TO_HOST, err);
}

static mx_status hip_copy(mxrt_backend *backend, void *dst, const void *src, size_t size_bytes,
                          mxrt_stream stream, mx_error *err)
{
    int previous = -1;
    if (size_bytes == 0)
        return MX_OK;
    mx_status status = hip_enter(backend, &previous, err);
    if (status)
        return status;
    int code =
        backend->api->hipMemcpyAsync(dst, src, size_bytes, HIP_COPY_DEVICE_TO_DEVICE, stream);
    if (code)
        status = backend_fail(backend, code, "hipMemcpyAsync", NULL, err);
    hip_leave(backend, previous);
    return status;
}

static mx_status hip_clear(mxrt_backend *backend, void *dst, size_t size_bytes, mxrt_stream stream,
                           mx_error *err)
{
    int previous = -1;
    if (size_bytes == 0)
        return MX_OK;
    mx_status status = hip_enter(backend, &previous, err);
    if (status)
        return status;
    int code = backend->api->hipMemsetAsync(dst, 0, size_bytes, stream);
    if (code)
        status = backend_fail(backend, code, "hipMemsetAsync", NULL, err);
    hip_leave(backend, previous);
    return status;
}

static mx_status hip_synchronize(mxrt_backend *backend, mxrt_stream stream, mx_error *err)
{
    int previous = -1;
    mx_status status = hip_enter(backend, &previous, err);
    if (status)
        return status;
    int code = backend->api->hipStreamSynchronize(stream);
    if (code)
        status = backend_fail(backend, code, "hipStreamSynchronize", NULL, err);
    hip_leave(backend, previous);
    return status;
}

static int hip_capturing(mxrt_backend *backend, mxrt_stream stream)
{
    const hip_api *api = backend->api;
    int previous = -1, capture = 0;
    if (!api->hipStreamIsCapturing)
        return 0; /* older than graphs */
    if (hip_enter(backend, &previous, NULL))
        return 1;
    int failed = api->hipStreamIsCapturing(stream, &capture);
    if (failed && api->hipGetLastError)
        (void)api->hipGetLastError();
    hip_leave(backend, previous);
    return failed || capture;
}

/* Between the two events; `fn` finds the device current. */
static mx_status run_timed(mxrt_backend *backend, void *const events[2], mxrt_timed_fn fn,
                           void *user, int repeat, mx_error *err)
{
    int code = backend->api->hipEventRecord(events[0], NULL);
    if (code)
        return backend_fail(backend, code, "hipEventRecord", NULL, err);
    for (int i = 0; i < repeat; i++) {
        mx_status status = fn(user, NULL, err);
        if (status)
            return status;
    }
    code = backend->api->hipEventRecord(events[1], NULL);
    if (code)
        return backend_fail(backend, code, "hipEventRecord", NULL, err);
    code = backend->api->hipEventSynchronize(events[1]);
    return code ? backend_fail(backend, code, "hipEventSynchronize", NULL, err) : MX_OK;
}

static mx_status hip_time(mxrt_backend *backend, mxrt_timed_fn fn, void *user, int repeat,
                          double *ms, mx_error *err)
{
    const hip_api *api = backend->api;
    if (repeat < 1)
        return mx_fail(err, MX_ERR_INVALID, "%d repeats cannot be timed: give 1 or more", repeat);
    int previous = -1;
    mx_status status = hip_enter(backend, &previous, err);
    if (status)
        return status;
    void *events[2] = {NULL, NULL};
    float elapsed_ms = 0;
    int code = api->hipEventCreate(&events[0]);
    if (!code)
        code = api->hipEventCreate(&events[1]);
    if (code) {
        status = backend_fail(backend, code, "hipEventCreate", NULL, err);
        goto out;
    }
    status = run_timed(backend, events, fn, user, repeat, err);
    if (status)
        goto out;
    code = api->hipEventElapsedTime(&elapsed_ms, events[0], events[1]);
    if (code)
        status = backend_fail(backend, code, "hipEventElapsedTime", NULL, err);
out:
    hip_release(api, api->hipEventDestroy, events[1]);
    hip_release(api, api->hipEventDestroy, events[0]);
    hip_leave(backend, previous);
    if (!status)
        *ms = (double)elapsed_ms / repeat;
    return status;
}

static mx_status hip_counters(const mxrt_backend *backend, mxrt_counters *out, mx_error *err)
{
    mxrt_counters found = {.size_bytes = sizeof(found)};
    if (!backend->api->mxsim_counters)
        return mx_fail(err, MX_ERR_UNSUPPORTED, "the driver of %s counts nothing", backend->uri);
    if (backend->api->mxsim_counters(&found))
        return mx_fail(err, MX_ERR_DEVICE,
                       "mxsim_counters refused %zu bytes: this simulator is of another version",
                       sizeof(found));
    *out = found;
    return MX_OK;
}

const mxrt_backend_ops mxrt_backend_hip = {
    .scheme = "hip",
    .open = hip_open,
    .close = hip_close,
    .enumerate = hip_enumerate,
    .get_info = hip_get_info,
    .target = hip_target,
    .accepts = hip_accepts,
    .module_load = hip_module_load,
    .module_unload = hip_module_unload,
    .module_kernel = hip_module_kernel,
    .launch = hip_launch,
    .alloc = hip_alloc,
    .free = hip_free,
    .upload = hip_upload,
    .download = hip_download,
    .copy = hip_copy,
    .clear = hip_clear,
    .synchronize = hip_synchronize,
    .capturing = hip_capturing,
    .time = hip_time,
    .counters = hip_counters,
};
