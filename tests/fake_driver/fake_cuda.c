#include "fake_cuda.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    INVALID_PTX = 218,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700,
    UNKNOWN = 999,
    MAX_DEVICES = 4,
    MAX_SHARED = 227 * 1024,
};

typedef unsigned long long device_pointer;

typedef enum kind { KIND_CONTEXT, KIND_MODULE, KIND_STREAM, KIND_EVENT, KIND_MEMORY } kind;

/* Everything that can be created; also the handle that callers see, but for memory. */
typedef struct object {
    struct object *next;
    kind kind;
    struct object *context; /* NULL for contexts */
    int device;
    int references; /* primary contexts */
    char *data;     /* memory, module image */
    size_t bytes;
} object;

typedef struct function {
    object *module;
    int kernel;
    int max_dynamic_shared;
} function;

enum { KERNEL_ADD, KERNEL_REVERSE, N_KERNELS };

static const char *const kernel_names[N_KERNELS] = {"mxtest_add", "mxtest_reverse"};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static object *objects;
static object *primary[MAX_DEVICES];
static _Thread_local object *current;
static int initialized;
static int fail_in;
static uint64_t n_calls, n_proc_addresses;
static fakecuda_launch last_launch;
/* Function handles live as long as the process, as the driver's do as long as the module. */
static function functions[64];
static size_t n_functions;

/* ---- Hooks ---- */

EXPORT void fakecuda_fail_call(int n)
{
    fail_in = n;
}

EXPORT uint64_t fakecuda_call_count(void)
{
    return n_calls;
}

EXPORT uint64_t fakecuda_live_objects(void)
{
    uint64_t n = 0;
    for (const object *o = objects; o; o = o->next)
        n += o->kind == KIND_CONTEXT && o->references ? (uint64_t)o->references : 1;
    return n;
}

EXPORT fakecuda_launch fakecuda_last_launch(void)
{
    return last_launch;
}

EXPORT uint64_t fakecuda_proc_address_count(void)
{
    return n_proc_addresses;
}

/* Every entry point starts with this; nonzero: fail with it. */
static int begin_call(void)
{
    n_calls++;
    if (fail_in > 0 && --fail_in == 0)
        return UNKNOWN;
    return initialized ? SUCCESS : NOT_INITIALIZED;
}

static int begin_context_call(void)
{
    int code = begin_call();
    return code ? code : current ? SUCCESS : INVALID_CONTEXT;
}

/* ---- Objects ---- */

static object *create(kind k, size_t bytes)
{
    object *o = calloc(1, sizeof(*o));
    if (!o)
        return NULL;
    o->kind = k;
    o->context = k == KIND_CONTEXT ? NULL : current;
    o->device = current ? current->device : 0;
    o->bytes = bytes;
    if (bytes) {
        o->data = aligned_alloc(256, (bytes + 255) / 256 * 256);
        if (!o->data) {
            free(o);
            return NULL;
        }
    }
    pthread_mutex_lock(&lock);
    o->next = objects;
    objects = o;
    pthread_mutex_unlock(&lock);
    return o;
}

static int is_live(const void *handle, kind k)
{
    int found = 0;
    pthread_mutex_lock(&lock);
    for (const object *o = objects; o && !found; o = o->next)
        found = o == handle && o->kind == k;
    pthread_mutex_unlock(&lock);
    return found;
}

static int destroy(object *victim, kind k)
{
    if (!is_live(victim, k))
        return k == KIND_CONTEXT ? INVALID_CONTEXT : INVALID_HANDLE;
    pthread_mutex_lock(&lock);
    for (object **link = &objects; *link; link = &(*link)->next) {
        if (*link == victim) {
            *link = victim->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    free(victim->data);
    free(victim);
    return SUCCESS;
}

/* The allocation that holds [pointer, pointer + bytes) on the current device, or NULL. */
static object *memory_at(device_pointer pointer, size_t bytes)
{
    object *found = NULL;
    pthread_mutex_lock(&lock);
    for (object *o = objects; o && !found; o = o->next) {
        device_pointer base = (device_pointer)(uintptr_t)o->data;
        if (o->kind == KIND_MEMORY && o->context == current && pointer >= base &&
            pointer - base <= o->bytes && bytes <= o->bytes - (pointer - base))
            found = o;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static int check_stream(void *stream)
{
    if (!stream)
        return SUCCESS;
    return is_live(stream, KIND_STREAM) && ((object *)stream)->context == current ? SUCCESS
                                                                                  : INVALID_HANDLE;
}

static int device_count(void)
{
    const char *text = getenv("FAKECUDA_DEVICES");
    int n = text ? atoi(text) : 1;
    return n < 0 ? 0 : n > MAX_DEVICES ? MAX_DEVICES : n;
}

/* ---- Devices and contexts ---- */

EXPORT int cuInit(unsigned flags)
{
    n_calls++;
    if (fail_in > 0 && --fail_in == 0)
        return UNKNOWN;
    if (flags)
        return INVALID_VALUE;
    if (device_count() == 0)
        return NO_DEVICE;
    initialized = 1;
    return SUCCESS;
}

EXPORT int cuDriverGetVersion(int *version)
{
    *version = 12080;
    return SUCCESS;
}

EXPORT int cuDeviceGetCount(int *count)
{
    int code = begin_call();
    if (!code)
        *count = device_count();
    return code;
}

EXPORT int cuDeviceGet(int *device, int ordinal)
{
    int code = begin_call();
    if (code)
        return code;
    if (ordinal < 0 || ordinal >= device_count())
        return INVALID_DEVICE;
    *device = ordinal;
    return SUCCESS;
}

EXPORT int cuDeviceGetName(char *name, int bytes, int device)
{
    int code = begin_call();
    if (!code)
        snprintf(name, (size_t)bytes, "Fake CUDA device %d", device);
    return code;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    int code = begin_call();
    (void)device;
    if (code)
        return code;
    const char *text = getenv("FAKECUDA_CC");
    int cc = text ? atoi(text) : 90;
    static const int fixed[] = {
        [1] = 1024,  [2] = 1024,  [3] = 1024,      [4] = 64,   [5] = 0x7fffffff,
        [6] = 65535, [7] = 65535, [8] = 48 * 1024, [16] = 132, [97] = MAX_SHARED};
    if (attribute == 75 || attribute == 76)
        *value = attribute == 75 ? cc / 10 : cc % 10;
    else if (attribute > 0 && (size_t)attribute < sizeof(fixed) / sizeof(fixed[0]) &&
             fixed[attribute])
        *value = fixed[attribute];
    else
        return INVALID_VALUE;
    return SUCCESS;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device)
{
    int code = begin_call();
    if (code)
        return code;
    if (device < 0 || device >= device_count())
        return INVALID_DEVICE;
    if (!primary[device]) {
        primary[device] = create(KIND_CONTEXT, 0);
        if (!primary[device])
            return OUT_OF_MEMORY;
        primary[device]->device = device;
    }
    primary[device]->references++;
    *context = primary[device];
    return SUCCESS;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
    int code = begin_call();
    if (code)
        return code;
    if (device < 0 || device >= device_count() || !primary[device])
        return INVALID_CONTEXT;
    if (--primary[device]->references == 0) {
        destroy(primary[device], KIND_CONTEXT);
        primary[device] = NULL;
    }
    return SUCCESS;
}

EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    int code = begin_call();
    if (code)
        return code;
    *flags = 0;
    *active = primary[device] != NULL;
    return SUCCESS;
}

EXPORT int cuCtxGetCurrent(void **context)
{
    int code = begin_call();
    if (!code)
        *context = current;
    return code;
}

EXPORT int cuCtxSetCurrent(void *context)
{
    int code = begin_call();
    if (code)
        return code;
    if (context && !is_live(context, KIND_CONTEXT))
        return INVALID_CONTEXT;
    current = context;
    return SUCCESS;
}

EXPORT int cuCtxGetDevice(int *device)
{
    int code = begin_context_call();
    if (!code)
        *device = current->device;
    return code;
}

EXPORT int cuCtxCreate_v2(void **context, unsigned flags, int device)
{
    int code = begin_call();
    (void)flags;
    if (code)
        return code;
    object *created = create(KIND_CONTEXT, 0);
    if (!created)
        return OUT_OF_MEMORY;
    created->device = device;
    *context = current = created;
    return SUCCESS;
}

EXPORT int cuCtxDestroy_v2(void *context)
{
    int code = begin_call();
    if (code)
        return code;
    if (context == current)
        current = NULL;
    return destroy(context, KIND_CONTEXT);
}

/* ---- Modules ---- */

static int contains(const object *module, const char *text)
{
    return memmem(module->data, module->bytes, text, strlen(text)) != NULL;
}

/* Options are an array of numbers and one of values: the error log is 5, its size 6. */
static int reject_ptx(unsigned n_options, const int *options, void **values)
{
    char *log = NULL;
    size_t bytes = 0;
    for (unsigned i = 0; i < n_options; i++) {
        if (options[i] == 5)
            log = values[i];
        if (options[i] == 6)
            bytes = (size_t)(uintptr_t)values[i];
    }
    if (log && bytes)
        snprintf(log, bytes,
                 "ptxas fatal   : Missing .version directive\nat the start of the file");
    return INVALID_PTX;
}

EXPORT int cuModuleLoadDataEx(void **module, const void *image, unsigned n_options, int *options,
                              void **values)
{
    int code = begin_context_call();
    if (code)
        return code;
    size_t bytes = 0;
    const unsigned char *head = image;
    if (!memcmp(head, "\177ELF", 4)) {
        uint64_t section_table;
        uint16_t n_sections;
        memcpy(&section_table, head + 40, sizeof(section_table));
        memcpy(&n_sections, head + 60, sizeof(n_sections));
        bytes = section_table + (size_t)n_sections * 64;
        if (head[48] == 0 && head[49] == 0)
            return INVALID_IMAGE;
    } else {
        bytes = strlen(image) + 1;
        if (!strstr(image, ".version"))
            return reject_ptx(n_options, options, values);
    }
    object *created = create(KIND_MODULE, bytes);
    if (!created)
        return OUT_OF_MEMORY;
    memcpy(created->data, image, bytes);
    *module = created;
    return SUCCESS;
}

EXPORT int cuModuleUnload(void *module)
{
    int code = begin_context_call();
    return code ? code : destroy(module, KIND_MODULE);
}

EXPORT int cuModuleGetFunction(void **out, void *module, const char *name)
{
    int code = begin_context_call();
    if (code)
        return code;
    if (!is_live(module, KIND_MODULE) || ((object *)module)->context != current)
        return INVALID_HANDLE;
    for (int k = 0; k < N_KERNELS; k++) {
        if (strcmp(name, kernel_names[k]) != 0 || !contains(module, name))
            continue;
        function *f = &functions[n_functions++ % (sizeof(functions) / sizeof(functions[0]))];
        *f = (function){module, k, 48 * 1024};
        *out = f;
        return SUCCESS;
    }
    return NOT_FOUND;
}

EXPORT int cuFuncGetAttribute(int *value, int attribute, void *f)
{
    int code = begin_context_call();
    (void)f;
    if (code)
        return code;
    if (attribute != 0 && attribute != 1)
        return INVALID_VALUE;
    *value = attribute == 0 ? 1024 : 0;
    return SUCCESS;
}

EXPORT int cuFuncSetAttribute(void *f, int attribute, int value)
{
    int code = begin_context_call();
    if (code)
        return code;
    if (attribute != 8 || value > MAX_SHARED)
        return INVALID_VALUE;
    ((function *)f)->max_dynamic_shared = value;
    return SUCCESS;
}

/* ---- Launch ---- */

typedef struct add_args {
    device_pointer x, y;
    int64_t n;
    int32_t addend;
} add_args;

typedef struct reverse_args {
    device_pointer x, y;
    int32_t words;
} reverse_args;

static int run_add(const fakecuda_launch *launch, const char *args)
{
    add_args a;
    memset(&a, 0, sizeof(a));
    memcpy(&a, args, offsetof(add_args, addend) + sizeof(a.addend));
    int64_t items = (int64_t)launch->grid[0] * launch->block[0];
    int64_t n = a.n < items ? a.n : items;
    if (n > 0 && (!memory_at(a.x, (size_t)n * 4) || !memory_at(a.y, (size_t)n * 4)))
        return ILLEGAL_ADDRESS;
    const uint32_t *x = (const uint32_t *)(uintptr_t)a.x;
    uint32_t *y = (uint32_t *)(uintptr_t)a.y;
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] + (uint32_t)a.addend;
    return SUCCESS;
}

static int run_reverse(const fakecuda_launch *launch, const char *args)
{
    reverse_args a;
    memset(&a, 0, sizeof(a));
    memcpy(&a, args, offsetof(reverse_args, words) + sizeof(a.words));
    if (!memory_at(a.x, 1024) || !memory_at(a.y, 1024) ||
        (uint64_t)a.words * 4 > launch->shared_bytes)
        return ILLEGAL_ADDRESS;
    for (int i = 0; i < 256; i++)
        ((int *)(uintptr_t)a.y)[i] = ((const int *)(uintptr_t)a.x)[255 - i];
    return SUCCESS;
}

EXPORT int cuLaunchKernel(void *f, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z,
                          unsigned shared_bytes, void *stream, void **params, void **extra)
{
    int code = begin_context_call();
    if (!code)
        code = check_stream(stream);
    if (code)
        return code;
    const function *launched = f;
    if (!is_live(launched->module, KIND_MODULE) || launched->module->context != current)
        return INVALID_HANDLE;
    if (params || !extra || shared_bytes > (unsigned)launched->max_dynamic_shared)
        return INVALID_VALUE;
    const char *args = NULL;
    size_t args_bytes = 0;
    for (; *extra; extra += 2) {
        if (*extra == (void *)1)
            args = extra[1];
        if (*extra == (void *)2)
            memcpy(&args_bytes, extra[1], sizeof(args_bytes));
    }
    last_launch = (fakecuda_launch){{grid_x, grid_y, grid_z},
                                    {block_x, block_y, block_z},
                                    shared_bytes,
                                    args_bytes,
                                    stream,
                                    current};
    size_t least = launched->kernel == KERNEL_ADD ? 28 : 20;
    if (!args || args_bytes < least)
        return INVALID_VALUE;
    return launched->kernel == KERNEL_ADD ? run_add(&last_launch, args)
                                          : run_reverse(&last_launch, args);
}

/* ---- Memory, streams, events ---- */

EXPORT int cuMemAlloc_v2(device_pointer *pointer, size_t bytes)
{
    int code = begin_context_call();
    if (code)
        return code;
    if (bytes == 0)
        return INVALID_VALUE;
    if (bytes > (size_t)1 << 34)
        return OUT_OF_MEMORY;
    object *memory = create(KIND_MEMORY, bytes);
    if (!memory)
        return OUT_OF_MEMORY;
    *pointer = (device_pointer)(uintptr_t)memory->data;
    return SUCCESS;
}

EXPORT int cuMemFree_v2(device_pointer pointer)
{
    int code = begin_context_call();
    if (code)
        return code;
    object *memory = memory_at(pointer, 1);
    return memory ? destroy(memory, KIND_MEMORY) : INVALID_VALUE;
}

EXPORT int cuMemcpyHtoD_v2(device_pointer dst, const void *src, size_t bytes)
{
    int code = begin_context_call();
    if (code)
        return code;
    if (!memory_at(dst, bytes))
        return INVALID_VALUE;
    memcpy((void *)(uintptr_t)dst, src, bytes);
    return SUCCESS;
}

EXPORT int cuMemcpyDtoH_v2(void *dst, device_pointer src, size_t bytes)
{
    int code = begin_context_call();
    if (code)
        return code;
    if (!memory_at(src, bytes))
        return INVALID_VALUE;
    memcpy(dst, (const void *)(uintptr_t)src, bytes);
    return SUCCESS;
}

EXPORT int cuMemcpyDtoDAsync_v2(device_pointer dst, device_pointer src, size_t bytes, void *stream)
{
    int code = begin_context_call();
    if (!code)
        code = check_stream(stream);
    if (code)
        return code;
    if (!memory_at(dst, bytes) || !memory_at(src, bytes))
        return INVALID_VALUE;
    memmove((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, bytes);
    return SUCCESS;
}

EXPORT int cuMemsetD8Async(device_pointer dst, unsigned char value, size_t bytes, void *stream)
{
    int code = begin_context_call();
    if (!code)
        code = check_stream(stream);
    if (code)
        return code;
    if (!memory_at(dst, bytes))
        return INVALID_VALUE;
    memset((void *)(uintptr_t)dst, value, bytes);
    return SUCCESS;
}

EXPORT int cuStreamCreate(void **stream, unsigned flags)
{
    int code = begin_context_call();
    (void)flags;
    if (code)
        return code;
    *stream = create(KIND_STREAM, 0);
    return *stream ? SUCCESS : OUT_OF_MEMORY;
}

EXPORT int cuStreamDestroy_v2(void *stream)
{
    int code = begin_context_call();
    return code ? code : destroy(stream, KIND_STREAM);
}

EXPORT int cuStreamSynchronize(void *stream)
{
    int code = begin_context_call();
    return code ? code : check_stream(stream);
}

EXPORT int cuEventCreate(void **event, unsigned flags)
{
    int code = begin_context_call();
    (void)flags;
    if (code)
        return code;
    *event = create(KIND_EVENT, 0);
    return *event ? SUCCESS : OUT_OF_MEMORY;
}

EXPORT int cuEventDestroy_v2(void *event)
{
    int code = begin_context_call();
    return code ? code : destroy(event, KIND_EVENT);
}

EXPORT int cuEventRecord(void *event, void *stream)
{
    int code = begin_context_call();
    if (!code)
        code = check_stream(stream);
    return code ? code : is_live(event, KIND_EVENT) ? SUCCESS : INVALID_HANDLE;
}

EXPORT int cuEventSynchronize(void *event)
{
    int code = begin_context_call();
    return code ? code : is_live(event, KIND_EVENT) ? SUCCESS : INVALID_HANDLE;
}

EXPORT int cuEventElapsedTime(float *ms, void *start, void *stop)
{
    int code = begin_context_call();
    if (code)
        return code;
    if (!is_live(start, KIND_EVENT) || !is_live(stop, KIND_EVENT))
        return INVALID_HANDLE;
    *ms = 6.0f;
    return SUCCESS;
}

/* ---- Names ---- */

EXPORT int cuGetErrorName(int code, const char **name)
{
    switch (code) {
    case INVALID_VALUE:
        return *name = "CUDA_ERROR_INVALID_VALUE", SUCCESS;
    case OUT_OF_MEMORY:
        return *name = "CUDA_ERROR_OUT_OF_MEMORY", SUCCESS;
    case NO_DEVICE:
        return *name = "CUDA_ERROR_NO_DEVICE", SUCCESS;
    case INVALID_CONTEXT:
        return *name = "CUDA_ERROR_INVALID_CONTEXT", SUCCESS;
    case INVALID_PTX:
        return *name = "CUDA_ERROR_INVALID_PTX", SUCCESS;
    case INVALID_HANDLE:
        return *name = "CUDA_ERROR_INVALID_HANDLE", SUCCESS;
    case NOT_FOUND:
        return *name = "CUDA_ERROR_NOT_FOUND", SUCCESS;
    case ILLEGAL_ADDRESS:
        return *name = "CUDA_ERROR_ILLEGAL_ADDRESS", SUCCESS;
    case UNKNOWN:
        return *name = "CUDA_ERROR_UNKNOWN", SUCCESS;
    default:
        *name = NULL;
        return INVALID_VALUE;
    }
}

EXPORT int cuGetErrorString(int code, const char **text)
{
    *text = code == UNKNOWN ? "the fake driver was told to fail" : "an error of the fake driver";
    return SUCCESS;
}

/* The names without their version, as a driver since 11.3 gives them. */
EXPORT int cuGetProcAddress(const char *name, void **address, int version, unsigned long long flags)
{
    static const struct {
        const char *name;
        void *address;
    } versioned[] = {
        {"cuDevicePrimaryCtxRelease", (void *)cuDevicePrimaryCtxRelease_v2},
        {"cuMemAlloc", (void *)cuMemAlloc_v2},
        {"cuMemFree", (void *)cuMemFree_v2},
        {"cuMemcpyHtoD", (void *)cuMemcpyHtoD_v2},
    };
    (void)flags;
    if (getenv("FAKECUDA_NO_PROC_ADDRESS") || version < 11030)
        return NOT_FOUND;
    for (size_t i = 0; i < sizeof(versioned) / sizeof(versioned[0]); i++) {
        if (!strcmp(name, versioned[i].name)) {
            *address = versioned[i].address;
            n_proc_addresses++;
            return SUCCESS;
        }
    }
    return NOT_FOUND;
}
