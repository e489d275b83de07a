/* NVIDIA GPUs through the CUDA driver, by prototypes of our own: no CUDA header or library is
 * needed to build, and none but the driver to run.
 *
 * Context. A device adopts the context that is current when it is opened, if that is one of the
 * device; otherwise it retains the primary context, which the CUDA runtime and frameworks use as
 * well. An adopted context that is the primary one is retained too; any other must outlive the
 * device. Every call makes the context current and restores the one before. */
#include "runtime/backend.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>
#include <mxgen/pack.h>

#include "runtime/dynlib.h"
#include "runtime/gpu.h"

enum {
    CUDA_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
    CUDA_ATTRIBUTE_MAX_BLOCK_X = 2, /* y and z follow */
    CUDA_ATTRIBUTE_MAX_GRID_X = 5,
    CUDA_ATTRIBUTE_SHARED_PER_BLOCK = 8,
    CUDA_ATTRIBUTE_MULTIPROCESSORS = 16,
    CUDA_ATTRIBUTE_CC_MAJOR = 75,
    CUDA_ATTRIBUTE_CC_MINOR = 76,
    CUDA_ATTRIBUTE_SHARED_PER_BLOCK_OPTIN = 97,
    CUDA_FUNCTION_MAX_THREADS_PER_BLOCK = 0,
    CUDA_FUNCTION_STATIC_SHARED = 1,
    CUDA_FUNCTION_MAX_DYNAMIC_SHARED = 8,
    CUDA_JIT_ERROR_LOG = 5,
    CUDA_JIT_ERROR_LOG_BYTES = 6,
    /* All entry points of the table exist since then, with these prototypes. */
    CUDA_INTERFACE_VERSION = 11030,
    /* Dynamic shared memory that a kernel may have without being told. */
    CUDA_DEFAULT_DYNAMIC_SHARED_BYTES = 48 * 1024,
    ELF_MACHINE_CUDA = 190,
    MAX_TARGETS = 32,
};

#define CUDA_LAUNCH_END ((void *)0)
#define CUDA_LAUNCH_BUFFER_POINTER ((void *)1)
#define CUDA_LAUNCH_BUFFER_SIZE ((void *)2)

typedef unsigned long long cuda_pointer; /* CUdeviceptr */

typedef struct cuda_api {
    int (*cuInit)(unsigned flags);
    int (*cuDriverGetVersion)(int *version);
    int (*cuDeviceGetCount)(int *count);
    int (*cuDeviceGet)(int *device, int ordinal);
    int (*cuDeviceGetName)(char *name, int bytes, int device);
    int (*cuDeviceGetAttribute)(int *value, int attribute, int device);
    int (*cuDevicePrimaryCtxRetain)(void **context, int device);
    int (*cuDevicePrimaryCtxRelease)(int device);
    int (*cuDevicePrimaryCtxGetState)(int device, unsigned *flags, int *active);
    int (*cuCtxGetCurrent)(void **context);
    int (*cuCtxSetCurrent)(void *context);
    int (*cuCtxGetDevice)(int *device);
    int (*cuGetErrorName)(int code, const char **name);
    int (*cuGetErrorString)(int code, const char **text);
    int (*cuModuleLoadDataEx)(void **module, const void *image, unsigned n_options, int *options,
                              void **values);
    int (*cuModuleUnload)(void *module);
    int (*cuModuleGetFunction)(void **function, void *module, const char *name);
    int (*cuFuncGetAttribute)(int *value, int attribute, void *function);
    int (*cuFuncSetAttribute)(void *function, int attribute, int value);
    int (*cuLaunchKernel)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z,
                          unsigned shared_bytes, void *stream, void **params, void **extra);
    int (*cuMemAlloc)(cuda_pointer *pointer, size_t bytes);
    int (*cuMemFree)(cuda_pointer pointer);
    int (*cuMemcpyHtoD)(cuda_pointer dst, const void *src, size_t bytes);
    int (*cuMemcpyDtoH)(void *dst, cuda_pointer src, size_t bytes);
    int (*cuMemcpyDtoDAsync)(cuda_pointer dst, cuda_pointer src, size_t bytes, void *stream);
    int (*cuMemsetD8Async)(cuda_pointer dst, unsigned char value, size_t bytes, void *stream);
    int (*cuStreamSynchronize)(void *stream);
    int (*cuStreamIsCapturing)(void *stream, int *status);
    int (*cuEventCreate)(void **event, unsigned flags);
    int (*cuEventDestroy)(void *event);
    int (*cuEventRecord)(void *event, void *stream);
    int (*cuEventSynchronize)(void *event);
    int (*cuEventElapsedTime)(float *ms, void *start, void *stop);
} cuda_api;

#define REQUIRED(name)                                                                             \
    {                                                                                              \
#name, NULL, offsetof(cuda_api, name), 1                                                   \
    }
#define VERSIONED(name)                                                                            \
    {                                                                                              \
#name, #name "_v2", offsetof(cuda_api, name), 1                                            \
    }
#define OPTIONAL(name)                                                                             \
    {                                                                                              \
#name, NULL, offsetof(cuda_api, name), 0                                                   \
    }

static const mxrt_dynlib_symbol cuda_symbols[] = {
    REQUIRED(cuInit),
    OPTIONAL(cuDriverGetVersion),
    REQUIRED(cuDeviceGetCount),
    REQUIRED(cuDeviceGet),
    REQUIRED(cuDeviceGetName),
    REQUIRED(cuDeviceGetAttribute),
    REQUIRED(cuDevicePrimaryCtxRetain),
    VERSIONED(cuDevicePrimaryCtxRelease),
    REQUIRED(cuDevicePrimaryCtxGetState),
    REQUIRED(cuCtxGetCurrent),
    REQUIRED(cuCtxSetCurrent),
    REQUIRED(cuCtxGetDevice),
    REQUIRED(cuGetErrorName),
    REQUIRED(cuGetErrorString),
    REQUIRED(cuModuleLoadDataEx),
    REQUIRED(cuModuleUnload),
    REQUIRED(cuModuleGetFunction),
    REQUIRED(cuFuncGetAttribute),
    REQUIRED(cuFuncSetAttribute),
    REQUIRED(cuLaunchKernel),
    VERSIONED(cuMemAlloc),
    VERSIONED(cuMemFree),
    VERSIONED(cuMemcpyHtoD),
    VERSIONED(cuMemcpyDtoH),
    VERSIONED(cuMemcpyDtoDAsync),
    REQUIRED(cuMemsetD8Async),
    REQUIRED(cuStreamSynchronize),
    OPTIONAL(cuStreamIsCapturing),
    REQUIRED(cuEventCreate),
    VERSIONED(cuEventDestroy),
    REQUIRED(cuEventRecord),
    REQUIRED(cuEventSynchronize),
    REQUIRED(cuEventElapsedTime),
};

/* The driver's own search gives the right version of each name; older drivers lack it. */
static void *cuda_lookup(void *handle, const mxrt_dynlib_symbol *symbol)
{
    int (*get_address)(const char *, void **, int, unsigned long long) = NULL;
    void *address = dlsym(handle, "cuGetProcAddress");
    memcpy(&get_address, &address, sizeof(address));
    void *found = NULL;
    if (get_address && !get_address(symbol->name, &found, CUDA_INTERFACE_VERSION, 0) && found)
        return found;
    return dlsym(handle, symbol->exported ? symbol->exported : symbol->name);
}

static const char *const cuda_names[] = {"libcuda.so.1", NULL};

const mxrt_dynlib_spec mxrt_cuda_library = {
    .title = "the CUDA driver",
    .env = "MXRT_CUDA_LIBRARY",
    .names = cuda_names,
    .advice = "install the NVIDIA driver (libcuda.so.1)",
    .symbols = cuda_symbols,
    .n_symbols = sizeof(cuda_symbols) / sizeof(cuda_symbols[0]),
    .table_bytes = sizeof(cuda_api),
    .lookup = cuda_lookup,
};

struct mxrt_backend {
    const cuda_api *api;
    int ordinal, device;
    int cc_major, cc_minor;
    int multiprocessors;
    void *context;
    int is_retained; /* holds a reference to the primary context */
    mxrt_gpu_limits limits;
    mxrt_gpu_modules modules;
    size_t n_targets;
    char targets[MAX_TARGETS][24];
    char uri[32];
    char name[128];
};

/* ---- Errors and the current context ---- */

static mx_status cuda_fail(const cuda_api *api, const char *device, int code, const char *call,
                           const char *detail, mx_error *err)
{
    mxrt_gpu_failure failure = {.call = call, .code = code, .device = device, .detail = detail};
    if (api->cuGetErrorName(code, &failure.name))
        failure.name = NULL;
    if (api->cuGetErrorString(code, &failure.text))
        failure.text = NULL;
    return mxrt_gpu_fail(&failure, err);
}

static mx_status backend_fail(const mxrt_backend *backend, int code, const char *call,
                              const char *detail, mx_error *err)
{
    return cuda_fail(backend->api, backend->uri, code, call, detail, err);
}

typedef struct cuda_previous {
    void *context;
    int changed;
} cuda_previous;

static mx_status cuda_enter(const mxrt_backend *backend, cuda_previous *previous, mx_error *err)
{
    *previous = (cuda_previous){NULL, 0};
    int code = backend->api->cuCtxGetCurrent(&previous->context);
    if (code)
        return backend_fail(backend, code, "cuCtxGetCurrent", NULL, err);
    if (previous->context == backend->context)
        return MX_OK;
    code = backend->api->cuCtxSetCurrent(backend->context);
    if (code)
        return backend_fail(backend, code, "cuCtxSetCurrent", NULL, err);
    previous->changed = 1;
    return MX_OK;
}

/* Tried twice, as a failure would leave the caller in a context that is not its own. */
static void cuda_leave(const mxrt_backend *backend, cuda_previous previous)
{
    if (previous.changed && backend->api->cuCtxSetCurrent(previous.context))
        (void)backend->api->cuCtxSetCurrent(previous.context);
}

/* Releases are tried twice too: a driver may answer with the error of earlier work. */
static void cuda_release(int (*release)(void *), void *object)
{
    if (object && release(object))
        (void)release(object);
}

/* ---- Devices ---- */

static mx_status cuda_library_open(const char *path, const cuda_api **out, mx_error *err)
{
    const mxrt_dynlib *library = NULL;
    mx_status status = mxrt_dynlib_open(&mxrt_cuda_library, path, &library, err);
    if (status)
        return status;
    const cuda_api *api = library->table;
    int code = api->cuInit(0);
    if (code)
        return cuda_fail(api, library->path, code, "cuInit", NULL, err);
    *out = api;
    return MX_OK;
}

/* A driver that gives nonsense sets no limit. */
static uint32_t as_limit(int value)
{
    return value > 0 ? (uint32_t)value : UINT32_MAX;
}

static mx_status read_attributes(mxrt_backend *backend, mx_error *err)
{
    static const int wanted[] = {
        CUDA_ATTRIBUTE_MAX_GRID_X,
        CUDA_ATTRIBUTE_MAX_GRID_X + 1,
        CUDA_ATTRIBUTE_MAX_GRID_X + 2,
        CUDA_ATTRIBUTE_MAX_BLOCK_X,
        CUDA_ATTRIBUTE_MAX_BLOCK_X + 1,
        CUDA_ATTRIBUTE_MAX_BLOCK_X + 2,
        CUDA_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
        CUDA_ATTRIBUTE_SHARED_PER_BLOCK,
        CUDA_ATTRIBUTE_SHARED_PER_BLOCK_OPTIN,
        CUDA_ATTRIBUTE_MULTIPROCESSORS,
        CUDA_ATTRIBUTE_CC_MAJOR,
        CUDA_ATTRIBUTE_CC_MINOR,
    };
    enum { N_WANTED = sizeof(wanted) / sizeof(wanted[0]) };
    int values[N_WANTED];
    for (size_t i = 0; i < N_WANTED; i++) {
        int code = backend->api->cuDeviceGetAttribute(&values[i], wanted[i], backend->device);
        if (code)
            return backend_fail(backend, code, "cuDeviceGetAttribute", NULL, err);
    }
    mxrt_gpu_limits *limits = &backend->limits;
    for (size_t i = 0; i < 3; i++) {
        limits->grid[i] = as_limit(values[i]);
        limits->block[i] = as_limit(values[3 + i]);
    }
    limits->block_items = as_limit(values[6]);
    limits->lds_bytes = (uint32_t)(values[8] > values[7] ? values[8] : values[7]);
    limits->grid_items = UINT64_MAX;
    backend->multiprocessors = values[9];
    backend->cc_major = values[10];
    backend->cc_minor = values[11];
    return MX_OK;
}

/* The machine code's name, then that of PTX that lies beside it. */
static void add_target(mxrt_backend *backend, int cc, const char *suffix)
{
    size_t n = backend->n_targets;
    snprintf(backend->targets[n], sizeof(backend->targets[0]), "sm_%d%s", cc, suffix);
    snprintf(backend->targets[n + 1], sizeof(backend->targets[0]), "compute_%d%s", cc, suffix);
    backend->n_targets = n + 2;
}

/* Best first: what was made for exactly this chip, then what older chips' code runs as well (within
 * a major version as it is, across them as PTX, which the driver compiles). */
static void list_targets(mxrt_backend *backend)
{
    static const int known[] = {121, 120, 110, 103, 101, 100, 90, 89, 87, 86, 80, 75, 70};
    int cc = backend->cc_major * 10 + backend->cc_minor;
    if (cc >= 90)
        add_target(backend, cc, "a");
    add_target(backend, cc, "");
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (known[i] < cc)
            add_target(backend, known[i], "");
    }
}

/* Everything of the device that needs no context; `backend` is zeroed but for `api`. */
static mx_status describe(mxrt_backend *backend, int ordinal, mx_error *err)
{
    backend->ordinal = ordinal;
    snprintf(backend->uri, sizeof(backend->uri), "cuda:%d", ordinal);
    int code = backend->api->cuDeviceGet(&backend->device, ordinal);
    if (code)
        return backend_fail(backend, code, "cuDeviceGet", NULL, err);
    code = backend->api->cuDeviceGetName(backend->name, sizeof(backend->name), backend->device);
    if (code)
        return backend_fail(backend, code, "cuDeviceGetName", NULL, err);
    mx_status status = read_attributes(backend, err);
    if (!status)
        list_targets(backend);
    return status;
}

/* A reference to the primary context. */
static mx_status retain_primary(mxrt_backend *backend, mx_error *err)
{
    int code = backend->api->cuDevicePrimaryCtxRetain(&backend->context, backend->device);
    if (code)
        return backend_fail(backend, code, "cuDevicePrimaryCtxRetain", NULL, err);
    backend->is_retained = 1;
    return MX_OK;
}

static void release_primary(mxrt_backend *backend)
{
    if (backend->is_retained && backend->api->cuDevicePrimaryCtxRelease(backend->device))
        (void)backend->api->cuDevicePrimaryCtxRelease(backend->device);
    backend->is_retained = 0;
}

static mx_status choose_context(mxrt_backend *backend, mx_error *err)
{
    const cuda_api *api = backend->api;
    void *current = NULL;
    int device = -1, is_active = 0;
    unsigned flags = 0;
    int code = api->cuCtxGetCurrent(&current);
    if (code)
        return backend_fail(backend, code, "cuCtxGetCurrent", NULL, err);
    if (current) {
        code = api->cuCtxGetDevice(&device);
        if (code)
            return backend_fail(backend, code, "cuCtxGetDevice", NULL, err);
    }
    if (!current || device != backend->device)
        return retain_primary(backend, err);
    /* Only an active one can be the current one; retaining would create it otherwise. */
    code = api->cuDevicePrimaryCtxGetState(backend->device, &flags, &is_active);
    if (code)
        return backend_fail(backend, code, "cuDevicePrimaryCtxGetState", NULL, err);
    if (is_active) {
        mx_status status = retain_primary(backend, err);
        if (status)
            return status;
        if (backend->context != current)
            release_primary(backend);
    }
    backend->context = current;
    return MX_OK;
}

static mx_status cuda_open(mxrt_context *context, const char *rest, mxrt_backend **out,
                           mx_error *err)
{
    (void)context;
    mxrt_gpu_uri uri;
    mx_status status = mxrt_gpu_parse_uri("cuda", rest, &uri, err);
    if (status)
        return status;
    const cuda_api *api = NULL;
    status = cuda_library_open(uri.library, &api, err);
    if (status)
        return status;
    int n_devices = 0;
    int code = api->cuDeviceGetCount(&n_devices);
    if (code)
        return cuda_fail(api, "cuda", code, "cuDeviceGetCount", NULL, err);
    if (uri.ordinal >= n_devices)
        return mx_fail(err, MX_ERR_NOT_FOUND,
                       "cuda:%d is not here: the driver shows %d device(s), numbered from 0",
                       uri.ordinal, n_devices);
    mxrt_backend *backend = calloc(1, sizeof(*backend));
    if (!backend)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no host memory to open cuda:%d", uri.ordinal);
    backend->api = api;
    status = describe(backend, uri.ordinal, err);
    if (!status)
        status = choose_context(backend, err);
    if (status) {
        free(backend);
        return status;
    }
    pthread_mutex_init(&backend->modules.lock, NULL);
    *out = backend;
    return MX_OK;
}

static void cuda_module_unload(mxrt_backend *backend, mxrt_backend_module *module);

static void cuda_close(mxrt_backend *backend)
{
    if (!backend)
        return;
    while (backend->modules.first)
        cuda_module_unload(backend, backend->modules.first);
    release_primary(backend);
    pthread_mutex_destroy(&backend->modules.lock);
    free(backend);
}

static mx_status cuda_get_info(const mxrt_backend *backend, mxrt_device_info *out, mx_error *err)
{
    (void)err;
    mxrt_device_info info = {.dl_device = {kDLCUDA, backend->ordinal},
                             .compute_units = backend->multiprocessors};
    snprintf(info.uri, sizeof(info.uri), "%s", backend->uri);
    snprintf(info.name, sizeof(info.name), "%s", backend->name);
    snprintf(info.target, sizeof(info.target), "%s", backend->targets[0]);
    snprintf(info.chip, sizeof(info.chip), "%s, %s", backend->name, backend->targets[0]);
    mxrt_gpu_driver_text(backend->api->cuDriverGetVersion, info.driver, sizeof(info.driver));
    *out = info;
    return MX_OK;
}

static mx_status cuda_enumerate(mxrt_context *context, mxrt_device_info *infos, size_t capacity,
                                size_t *n, mx_error *err)
{
    (void)context;
    const cuda_api *api = NULL;
    int n_devices = 0;
    /* A machine without the driver or a card has no devices, which is no error. */
    if (cuda_library_open(NULL, &api, NULL) || api->cuDeviceGetCount(&n_devices))
        n_devices = 0;
    for (int i = 0; i < n_devices && (size_t)i < capacity; i++) {
        mxrt_backend device = {.api = api};
        mx_status status = describe(&device, i, err);
        if (status)
            return status;
        cuda_get_info(&device, &infos[i], NULL);
    }
    *n = (size_t)(n_devices > 0 ? n_devices : 0);
    return MX_OK;
}

static const char *cuda_target(const mxrt_backend *backend, size_t index)
{
    return index < backend->n_targets ? backend->targets[index] : NULL;
}

static int cuda_accepts(const mxrt_backend *backend, const char *object_kind)
{
    (void)backend;
    return !strcmp(object_kind, MXPACK_KIND_CUBIN) || !strcmp(object_kind, MXPACK_KIND_PTX);
}

/* ---- Modules ---- */

/* The context is current. */
static mx_status load_image(const mxrt_backend *backend, mxrt_backend_module *module, mx_error *err)
{
    char log[512] = "";
    int options[] = {CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_LOG_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(sizeof(log) - 1)};
    int code = backend->api->cuModuleLoadDataEx(&module->handle, module->code, 2, options, values);
    if (!code)
        return MX_OK;
    module->handle = NULL;
    log[sizeof(log) - 1] = 0;
    for (char *c = log; *c; c++) {
        if (*c == '\n')
            *c = ' ';
    }
    char detail[600];
    snprintf(detail, sizeof(detail), "the device is %s%s%s", backend->targets[0],
             log[0] ? ", the driver's compiler says: " : "", log);
    return backend_fail(backend, code, "cuModuleLoadDataEx", detail, err);
}

static mx_status cuda_module_load(mxrt_backend *backend, const char *object_kind, const void *code,
                                  size_t code_bytes, mxrt_backend_module **out, mx_error *err)
{
    if (!cuda_accepts(backend, object_kind))
        return mx_fail(err, MX_ERR_UNSUPPORTED, "%s runs objects of kind %s and %s, not %s",
                       backend->uri, MXPACK_KIND_CUBIN, MXPACK_KIND_PTX, object_kind);
    mx_status status = MX_OK;
    if (!strcmp(object_kind, MXPACK_KIND_CUBIN))
        status = mxrt_gpu_check_elf(code, code_bytes, ELF_MACHINE_CUDA, err);
    else if (code_bytes == 0)
        status = mx_fail(err, MX_ERR_CORRUPT, "the PTX text is empty: build the pack again");
    if (status)
        return status;
    mxrt_backend_module *module = NULL;
    status = mxrt_gpu_module_create(code, code_bytes, &module, err);
    if (status)
        return status;
    cuda_previous previous;
    status = cuda_enter(backend, &previous, err);
    if (!status) {
        status = load_image(backend, module, err);
        cuda_leave(backend, previous);
    }
    if (status) {
        mxrt_gpu_module_destroy(module);
        return status;
    }
    mxrt_gpu_modules_add(&backend->modules, module);
    *out = module;
    return MX_OK;
}

static void cuda_module_unload(mxrt_backend *backend, mxrt_backend_module *module)
{
    cuda_previous previous;
    if (!module)
        return;
    if (cuda_enter(backend, &previous, NULL))
        (void)cuda_enter(backend, &previous, NULL);
    cuda_release(backend->api->cuModuleUnload, module->handle);
    cuda_leave(backend, previous);
    mxrt_gpu_modules_remove(&backend->modules, module);
    mxrt_gpu_module_destroy(module);
}

/* Fills the record from the driver and readies the kernel for `lds_bytes`; the context is current.
 */
static mx_status find_kernel(const mxrt_backend *backend, const mxrt_backend_module *module,
                             const char *symbol, uint32_t lds_bytes, mxrt_backend_kernel *kernel,
                             mx_error *err)
{
    const cuda_api *api = backend->api;
    int code = api->cuModuleGetFunction(&kernel->function, module->handle, symbol);
    if (code)
        return backend_fail(backend, code, "cuModuleGetFunction", symbol, err);
    int block_items = 0, static_bytes = 0;
    code = api->cuFuncGetAttribute(&block_items, CUDA_FUNCTION_MAX_THREADS_PER_BLOCK,
                                   kernel->function);
    if (!code)
        code =
            api->cuFuncGetAttribute(&static_bytes, CUDA_FUNCTION_STATIC_SHARED, kernel->function);
    if (code)
        return backend_fail(backend, code, "cuFuncGetAttribute", symbol, err);
    kernel->block_items = as_limit(block_items);
    kernel->static_lds_bytes = (uint32_t)static_bytes;
    kernel->lds_bytes = lds_bytes > kernel->static_lds_bytes ? lds_bytes : kernel->static_lds_bytes;
    uint32_t dynamic_bytes = kernel->lds_bytes - kernel->static_lds_bytes;
    if (dynamic_bytes == 0 || kernel->lds_bytes <= CUDA_DEFAULT_DYNAMIC_SHARED_BYTES)
        return MX_OK;
    code = api->cuFuncSetAttribute(kernel->function, CUDA_FUNCTION_MAX_DYNAMIC_SHARED,
                                   (int)dynamic_bytes);
    return code ? backend_fail(backend, code, "cuFuncSetAttribute", symbol, err) : MX_OK;
}

static mx_status cuda_module_kernel(mxrt_backend *backend, mxrt_backend_module *module,
                                    const char *symbol, uint32_t lds_bytes,
                                    const mxrt_backend_kernel **out, mx_error *err)
{
    if (lds_bytes > backend->limits.lds_bytes)
        return mx_fail(err, MX_ERR_UNSUPPORTED,
                       "kernel %s needs %u bytes of shared memory, %s has %u a block", symbol,
                       lds_bytes, backend->uri, backend->limits.lds_bytes);
    cuda_previous previous;
    mx_status status = cuda_enter(backend, &previous, err);
    if (status)
        return status;
    pthread_mutex_lock(&backend->modules.lock);
    /* A record with more shared memory serves less, so the driver's limit never goes down. */
    const mxrt_backend_kernel *found = mxrt_gpu_kernel_find(module, symbol, lds_bytes);
    if (!found) {
        mxrt_backend_kernel kernel = {0};
        status = find_kernel(backend, module, symbol, lds_bytes, &kernel, err);
        if (!status)
            status = mxrt_gpu_kernel_add(module, symbol, &kernel, &found, err);
    }
    pthread_mutex_unlock(&backend->modules.lock);
    cuda_leave(backend, previous);
    if (!status)
        *out = found;
    return status;
}

/* ---- Launch ---- */

static mx_status cuda_launch(mxrt_backend *backend, const mxrt_launch *launch, mxrt_stream stream,
                             mx_error *err)
{
    const mxrt_backend_kernel *kernel = launch->kernel;
    mx_status status = mxrt_gpu_check_launch(&backend->limits, launch, err);
    if (status)
        return status;
    cuda_previous previous;
    status = cuda_enter(backend, &previous, err);
    if (status)
        return status;
    size_t args_bytes = launch->args_bytes;
    void *extra[] = {CUDA_LAUNCH_BUFFER_POINTER, (void *)launch->args, CUDA_LAUNCH_BUFFER_SIZE,
                     &args_bytes, CUDA_LAUNCH_END};
    uint32_t dynamic_bytes = launch->lds_bytes > kernel->static_lds_bytes
                                 ? launch->lds_bytes - kernel->static_lds_bytes
                                 : 0;
    int code = backend->api->cuLaunchKernel(kernel->function, launch->grid[0], launch->grid[1],
                                            launch->grid[2], launch->block[0], launch->block[1],
                                            launch->block[2], dynamic_bytes, stream, NULL, extra);
    if (code)
        status = backend_fail(backend, code, "cuLaunchKernel", kernel->symbol, err);
    cuda_leave(backend, previous);
    return status;
}

/* ---- Memory and timing ---- */

static cuda_pointer as_device(const void *pointer)
{
    return (cuda_pointer)(uintptr_t)pointer;
}

static mx_status cuda_alloc(mxrt_backend *backend, size_t size_bytes, void **out, mx_error *err)
{
    cuda_previous previous;
    mx_status status = cuda_enter(backend, &previous, err);
    if (status)
        return status;
    cuda_pointer data = 0;
    int code = backend->api->cuMemAlloc(&data, size_bytes ? size_bytes : 1); /* it refuses 0 */
    if (code) {
        char detail[64];
        snprintf(detail, sizeof(detail), "%zu bytes were asked for", size_bytes);
        status = backend_fail(backend, code, "cuMemAlloc", detail, err);
    }
    cuda_leave(backend, previous);
    if (!status)
        *out = (void *)(uintptr_t)data;
    return status;
}

static void cuda_free(mxrt_backend *backend, void *data)
{
    cuda_previous previous;
    if (!data)
        return;
    if (cuda_enter(backend, &previous, NULL))
        (void)cuda_enter(backend, &previous, NULL);
    if (backend->api->cuMemFree(as_device(data)))
        (void)backend->api->cuMemFree(as_device(data));
    cuda_leave(backend, previous);
}

static mx_status cuda_upload(mxrt_backend *backend, void *dst, const void *src, size_t size_bytes,
                             mx_error *err)
{
    cuda_previous previous;
    if (size_bytes == 0)
        return MX_OK;
    mx_status status = cuda_enter(backend, &previous, err);
    if (status)
        return status;
    int code = backend->api->cuMemcpyHtoD(as_device(dst), src, size_bytes);
    if (code)
        status = backend_fail(backend, code, "cuMemcpyHtoD", NULL, err);
    cuda_leave(backend, previous);
    return status;
}

static mx_status cuda_download(mxrt_backend *backend, void *dst, const void *src, size_t size_bytes,
                               mx_error *err)
{
    cuda_previous previous;
    if (size_bytes == 0)
        return MX_OK;
    mx_status status = cuda_enter(backend, &previous, err);
    if (status)
        return status;
    int code = backend->api->cuMemcpyDtoH(dst, as_device(src), size_bytes);
    if (code)
        status = backend_fail(backend, code, "cuMemcpyDtoH", NULL, err);
    cuda_leave(backend, previous);
    return status;
}

static mx_status cuda_copy(mxrt_backend *backend, void *dst, const void *src, size_t size_bytes,
                           mxrt_stream stream, mx_error *err)
{
    cuda_previous previous;
    if (size_bytes == 0)
        return MX_OK;
    mx_status status = cuda_enter(backend, &previous, err);
    if (status)
        return status;
    int code = backend->api->cuMemcpyDtoDAsync(as_device(dst), as_device(src), size_bytes, stream);
    if (code)
        status = backend_fail(backend, code, "cuMemcpyDtoDAsync", NULL, err);
    cuda_leave(backend, previous);
    return status;
}

static mx_status cuda_clear(mxrt_backend *backend, void *dst, size_t size_bytes, mxrt_stream stream,
                            mx_error *err)
{
    cuda_previous previous;
    if (size_bytes == 0)
        return MX_OK;
    mx_status status = cuda_enter(backend, &previous, err);
    if (status)
        return status;
    int code = backend->api->cuMemsetD8Async(as_device(dst), 0, size_bytes, stream);
    if (code)
        status = backend_fail(backend, code, "cuMemsetD8Async", NULL, err);
    cuda_leave(backend, previous);
    return status;
}

static mx_status cuda_synchronize(mxrt_backend *backend, mxrt_stream stream, mx_error *err)
{
    cuda_previous previous;
    mx_status status = cuda_enter(backend, &previous, err);
    if (status)
        return status;
    int code = backend->api->cuStreamSynchronize(stream);
    if (code)
        status = backend_fail(backend, code, "cuStreamSynchronize", NULL, err);
    cuda_leave(backend, previous);
    return status;
}

static int cuda_capturing(mxrt_backend *backend, mxrt_stream stream)
{
    cuda_previous previous;
    int capture = 0;
    if (!backend->api->cuStreamIsCapturing)
        return 0; /* older than graphs */
    if (cuda_enter(backend, &previous, NULL))
        return 1;
    int failed = backend->api->cuStreamIsCapturing(stream, &capture);
    cuda_leave(backend, previous);
    return failed || capture;
}

/* Between the two events; `fn` finds the device's context current. */
static mx_status run_timed(mxrt_backend *backend, void *const events[2], mxrt_timed_fn fn,
                           void *user, int repeat, mx_error *err)
{
    int code = backend->api->cuEventRecord(events[0], NULL);
    if (code)
        return backend_fail(backend, code, "cuEventRecord", NULL, err);
    for (int i = 0; i < repeat; i++) {
        mx_status status = fn(user, NULL, err);
        if (status)
            return status;
    }
    code = backend->api->cuEventRecord(events[1], NULL);
    if (code)
        return backend_fail(backend, code, "cuEventRecord", NULL, err);
    code = backend->api->cuEventSynchronize(events[1]);
    return code ? backend_fail(backend, code, "cuEventSynchronize", NULL, err) : MX_OK;
}

static mx_status cuda_time(mxrt_backend *backend, mxrt_timed_fn fn, void *user, int repeat,
                           double *ms, mx_error *err)
{
    const cuda_api *api = backend->api;
    if (repeat < 1)
        return mx_fail(err, MX_ERR_INVALID, "%d repeats cannot be timed: give 1 or more", repeat);
    cuda_previous previous;
    mx_status status = cuda_enter(backend, &previous, err);
    if (status)
        return status;
    void *events[2] = {NULL, NULL};
    float elapsed_ms = 0;
    int code = api->cuEventCreate(&events[0], 0);
    if (!code)
        code = api->cuEventCreate(&events[1], 0);
    if (code) {
        status = backend_fail(backend, code, "cuEventCreate", NULL, err);
        goto out;
    }
    status = run_timed(backend, events, fn, user, repeat, err);
    if (status)
        goto out;
    code = api->cuEventElapsedTime(&elapsed_ms, events[0], events[1]);
    if (code)
        status = backend_fail(backend, code, "cuEventElapsedTime", NULL, err);
out:
    cuda_release(api->cuEventDestroy, events[1]);
    cuda_release(api->cuEventDestroy, events[0]);
    cuda_leave(backend, previous);
    if (!status)
        *ms = (double)elapsed_ms / repeat;
    return status;
}

const mxrt_backend_ops mxrt_backend_cuda = {
    .scheme = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .enumerate = cuda_enumerate,
    .get_info = cuda_get_info,
    .target = cuda_target,
    .accepts = cuda_accepts,
    .module_load = cuda_module_load,
    .module_unload = cuda_module_unload,
    .module_kernel = cuda_module_kernel,
    .launch = cuda_launch,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .upload = cuda_upload,
    .download = cuda_download,
    .copy = cuda_copy,
    .clear = cuda_clear,
    .synchronize = cuda_synchronize,
    .capturing = cuda_capturing,
    .time = cuda_time,
};
