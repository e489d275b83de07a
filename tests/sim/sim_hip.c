/* HIP: initialisation, devices, errors, memory. */
#include "sim_hip.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

checks sim_checks = {true, true, true};
bool sim_trace;

static const chip chips[] = {
    {"gfx90a", "gfx90a:sramecc+:xnack-", "AMD Instinct MI250X", 9, 64, 65536, 104, 9, 0, 10, 0x3f,
     true, false, false, false, true},
    {"gfx942", "gfx942:sramecc+:xnack-", "AMD Instinct MI300X", 9, 64, 65536, 304, 9, 4, 2, 0x4c,
     true, true, true, false, false},
    {"gfx950", "gfx950:sramecc+:xnack-", "AMD Instinct MI355X", 9, 64, 163840, 256, 9, 5, 0, 0x4f,
     true, true, false, true, false},
    {"gfx1100", "gfx1100", "AMD Radeon RX 7900 XTX", 11, 32, 65536, 48, 11, 0, 0, 0x41, false, true,
     false, false, false},
    {"gfx1201", "gfx1201", "AMD Radeon RX 9070 XT", 12, 32, 65536, 32, 12, 0, 1, 0x4e, false, true,
     false, false, false},
};

static const chip *the_chip = &chips[1];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int init_error;
static int device_total = 1;
static long calls, fail_at, live;
static __thread int last_error;
static __thread int current;

const chip *sim_chip(void)
{
    return the_chip;
}

static void read_checks(void)
{
    const char *c = getenv("MXSIM_CHECKS");
    if (!c)
        return;
    sim_checks.uninit = !strstr(c, "uninit");
    sim_checks.race = !strstr(c, "race");
    sim_checks.wait = !strstr(c, "wait");
}

static void init_once(void)
{
    const char *arch = getenv("MXSIM_ARCH"), *dev = getenv("MXSIM_DEVICES"),
               *fail = getenv("MXSIM_FAIL_CALL"), *trace = getenv("MXSIM_TRACE");
    if (arch && *arch) {
        the_chip = NULL;
        for (size_t i = 0; i < ARRAY_LEN(chips); i++)
            if (!strcmp(arch, chips[i].name))
                the_chip = &chips[i];
        if (!the_chip) {
            fprintf(stderr,
                    "mxsim: MXSIM_ARCH=%s is not one of gfx90a, gfx942, gfx950, gfx1100, "
                    "gfx1201\n",
                    arch);
            the_chip = &chips[1];
            init_error = HIP_NO_DEVICE;
        }
    }
    if (dev)
        device_total = atoi(dev);
    if (device_total < 1)
        init_error = HIP_NO_DEVICE;
    if (fail)
        fail_at = atol(fail);
    sim_trace = trace && atoi(trace);
    read_checks();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        fprintf(stderr, "mxsim: needs a processor with AVX2, FMA and F16C\n");
        init_error = HIP_NO_DEVICE;
    }
    if (sim_mem_init())
        init_error = HIP_OUT_OF_MEMORY;
}

int hip_enter(void)
{
    pthread_once(&once, init_once);
    long n = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    long at = __atomic_load_n(&fail_at, __ATOMIC_SEQ_CST);
    if (at && n == at) {
        __atomic_store_n(&fail_at, 0, __ATOMIC_SEQ_CST);
        return HIP_UNKNOWN;
    }
    return init_error;
}

int hip_leave(int err)
{
    if (err)
        last_error = err;
    return err;
}

int hip_device_count(void)
{
    return device_total;
}

int hip_current_device(void)
{
    return current;
}

void hip_live_add(int n)
{
    __atomic_add_fetch(&live, n, __ATOMIC_SEQ_CST);
}

void mxsim_fail_call(int n)
{
    __atomic_store_n(&fail_at, n > 0 ? __atomic_load_n(&calls, __ATOMIC_SEQ_CST) + n : 0,
                     __ATOMIC_SEQ_CST);
}

uint64_t mxsim_call_count(void)
{
    return (uint64_t)__atomic_load_n(&calls, __ATOMIC_SEQ_CST);
}

uint64_t mxsim_live_objects(void)
{
    return (uint64_t)__atomic_load_n(&live, __ATOMIC_SEQ_CST) + sim_mem_live();
}

HIP_API int hipInit(unsigned flags)
{
    HIP_BEGIN();
    return hip_leave(flags ? HIP_INVALID_VALUE : HIP_OK);
}

HIP_API int hipDriverGetVersion(int *v)
{
    HIP_BEGIN();
    if (!v)
        return hip_leave(HIP_INVALID_VALUE);
    *v = 60443483;
    return HIP_OK;
}

HIP_API int hipRuntimeGetVersion(int *v)
{
    return hipDriverGetVersion(v);
}

HIP_API int hipGetDeviceCount(int *n)
{
    HIP_BEGIN();
    if (!n)
        return hip_leave(HIP_INVALID_VALUE);
    *n = device_total;
    return HIP_OK;
}

static int check_device(int d)
{
    return d >= 0 && d < device_total ? HIP_OK : HIP_INVALID_DEVICE;
}

HIP_API int hipDeviceGet(int *dev, int ordinal)
{
    HIP_BEGIN();
    if (!dev)
        return hip_leave(HIP_INVALID_VALUE);
    *dev = ordinal;
    return hip_leave(check_device(ordinal));
}

HIP_API int hipDeviceGetName(char *name, int len, int dev)
{
    HIP_BEGIN();
    if (!name || len <= 0)
        return hip_leave(HIP_INVALID_VALUE);
    if (check_device(dev))
        return hip_leave(HIP_INVALID_DEVICE);
    snprintf(name, (size_t)len, "%s (simulated)", the_chip->marketing);
    return HIP_OK;
}

#define MEM_BYTES (UINT64_C(16) << 30)

/* Attribute numbers of HIP 5 and later. */
static int attribute(int attr, int *v)
{
    static const struct {
        int attr, value;
    } fixed[] = {{0, 1},        {2, 2},      {3, 1},     {5, 2100000}, {8, 1},      {10, 1},
                 {19, 4 << 20}, {24, 0},     {26, 1024}, {27, 1024},   {28, 1024},  {29, INT_MAX},
                 {30, 65536},   {31, 65536}, {55, 1024}, {56, 1024},   {59, 8192},  {60, 1300000},
                 {67, 1},       {68, 0},     {69, 0},    {71, 65536},  {72, 65536}, {83, INT_MAX},
                 {85, 1},       {88, 1},     {16, 0},    {57, 2048}};
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
        if (fixed[i].attr == attr) {
            *v = fixed[i].value;
            return HIP_OK;
        }
    switch (attr) {
    case 23:
        *v = the_chip->major;
        return HIP_OK;
    case 61:
        *v = the_chip->minor;
        return HIP_OK;
    case 63:
        *v = the_chip->compute_units;
        return HIP_OK;
    case 74:
    case 75:
    case 76:
    case 10002:
        *v = (int)the_chip->lds_bytes;
        return HIP_OK;
    case 84:
        *v = INT_MAX;
        return HIP_OK;
    case 87:
        *v = the_chip->wave_size;
        return HIP_OK;
    default:
        return HIP_INVALID_VALUE;
    }
}

HIP_API int hipDeviceGetAttribute(int *v, int attr, int dev)
{
    HIP_BEGIN();
    if (!v)
        return hip_leave(HIP_INVALID_VALUE);
    if (check_device(dev))
        return hip_leave(HIP_INVALID_DEVICE);
    return hip_leave(attribute(attr, v));
}

static void put32(uint8_t *p, size_t at, int v)
{
    memcpy(p + at, &v, 4);
}

static void put64(uint8_t *p, size_t at, uint64_t v)
{
    memcpy(p + at, &v, 8);
}

static void put_dims(uint8_t *p, size_t threads, size_t grid)
{
    for (size_t i = 0; i < 3; i++) {
        put32(p, threads + 4 * i, 1024);
        put32(p, grid + 4 * i, i ? 65536 : INT_MAX);
    }
}

/* The structure of HIP 6: 1472 bytes. */
HIP_API int hipGetDevicePropertiesR0600(void *prop, int dev)
{
    HIP_BEGIN();
    uint8_t *p = prop;
    if (!p)
        return hip_leave(HIP_INVALID_VALUE);
    if (check_device(dev))
        return hip_leave(HIP_INVALID_DEVICE);
    memset(p, 0, 1472);
    snprintf((char *)p, 256, "%s (simulated)", the_chip->marketing);
    put64(p, 288, MEM_BYTES);
    put64(p, 296, the_chip->lds_bytes);
    put32(p, 304, 65536);
    put32(p, 308, the_chip->wave_size);
    put64(p, 312, INT_MAX);
    put32(p, 320, 1024);
    put_dims(p, 324, 336);
    put32(p, 348, 2100000);
    put64(p, 352, INT_MAX);
    put32(p, 360, the_chip->major);
    put32(p, 364, the_chip->minor);
    put32(p, 388, the_chip->compute_units);
    put32(p, 576, 1);
    put32(p, 616, 4 << 20);
    put32(p, 624, 2048);
    put64(p, 640, the_chip->lds_bytes);
    snprintf((char *)p + 1160, 256, "%s", the_chip->full_name);
    put64(p, 1416, the_chip->lds_bytes);
    return HIP_OK;
}

/* The structure of HIP 4 and 5: 792 bytes. */
HIP_API int hipGetDevicePropertiesR0000(void *prop, int dev)
{
    HIP_BEGIN();
    uint8_t *p = prop;
    if (!p)
        return hip_leave(HIP_INVALID_VALUE);
    if (check_device(dev))
        return hip_leave(HIP_INVALID_DEVICE);
    memset(p, 0, 792);
    snprintf((char *)p, 256, "%s (simulated)", the_chip->marketing);
    put64(p, 256, MEM_BYTES);
    put64(p, 264, the_chip->lds_bytes);
    put32(p, 272, 65536);
    put32(p, 276, the_chip->wave_size);
    put32(p, 280, 1024);
    put_dims(p, 284, 296);
    put32(p, 308, 2100000);
    put64(p, 320, INT_MAX);
    put32(p, 328, the_chip->major);
    put32(p, 332, the_chip->minor);
    put32(p, 336, the_chip->compute_units);
    put32(p, 340, 4 << 20);
    put32(p, 344, 2048);
    put64(p, 376, the_chip->lds_bytes);
    snprintf((char *)p + 396, 256, "%s", the_chip->full_name);
    return HIP_OK;
}

/* The old name keeps the old structure. */
HIP_API int hipGetDeviceProperties(void *prop, int dev)
{
    return hipGetDevicePropertiesR0000(prop, dev);
}

HIP_API int hipDeviceTotalMem(size_t *bytes, int dev)
{
    HIP_BEGIN();
    if (!bytes)
        return hip_leave(HIP_INVALID_VALUE);
    if (check_device(dev))
        return hip_leave(HIP_INVALID_DEVICE);
    *bytes = MEM_BYTES;
    return HIP_OK;
}

HIP_API int hipMemGetInfo(size_t *free_bytes, size_t *total)
{
    HIP_BEGIN();
    if (!free_bytes || !total)
        return hip_leave(HIP_INVALID_VALUE);
    size_t used = sim_mem_used();
    *free_bytes = used < MEM_BYTES ? MEM_BYTES - used : 0;
    *total = MEM_BYTES;
    return HIP_OK;
}

HIP_API int hipSetDevice(int dev)
{
    HIP_BEGIN();
    if (check_device(dev))
        return hip_leave(HIP_INVALID_DEVICE);
    current = dev;
    return HIP_OK;
}

HIP_API int hipGetDevice(int *dev)
{
    HIP_BEGIN();
    if (!dev)
        return hip_leave(HIP_INVALID_VALUE);
    *dev = current;
    return HIP_OK;
}

HIP_API int hipDeviceSynchronize(void)
{
    HIP_BEGIN();
    return hip_leave(hip_forbid_in_capture());
}

/* Contexts: one per device, known by the device's number plus one. */
static __thread uintptr_t ctx_stack[32];
static __thread int ctx_depth;

HIP_API int hipCtxGetCurrent(void **ctx)
{
    HIP_BEGIN();
    if (!ctx)
        return hip_leave(HIP_INVALID_VALUE);
    *ctx = (void *)(uintptr_t)(current + 1);
    return HIP_OK;
}

static int set_ctx(void *ctx)
{
    int d = (int)(uintptr_t)ctx - 1;
    if (!ctx)
        return HIP_OK;
    if (check_device(d))
        return HIP_INVALID_CONTEXT;
    current = d;
    return HIP_OK;
}

HIP_API int hipCtxSetCurrent(void *ctx)
{
    HIP_BEGIN();
    return hip_leave(set_ctx(ctx));
}

HIP_API int hipCtxPushCurrent(void *ctx)
{
    HIP_BEGIN();
    if (ctx_depth == 32)
        return hip_leave(HIP_INVALID_VALUE);
    int old = current, e = set_ctx(ctx);
    if (!e)
        ctx_stack[ctx_depth++] = (uintptr_t)(old + 1);
    return hip_leave(e);
}

HIP_API int hipCtxPopCurrent(void **ctx)
{
    HIP_BEGIN();
    if (!ctx_depth)
        return hip_leave(HIP_INVALID_CONTEXT);
    if (ctx)
        *ctx = (void *)(uintptr_t)(current + 1);
    current = (int)ctx_stack[--ctx_depth] - 1;
    return HIP_OK;
}

HIP_API int hipCtxGetDevice(int *dev)
{
    return hipGetDevice(dev);
}

HIP_API int hipDevicePrimaryCtxRetain(void **ctx, int dev)
{
    HIP_BEGIN();
    if (!ctx)
        return hip_leave(HIP_INVALID_VALUE);
    if (check_device(dev))
        return hip_leave(HIP_INVALID_DEVICE);
    *ctx = (void *)(uintptr_t)(dev + 1);
    return HIP_OK;
}

HIP_API int hipDevicePrimaryCtxRelease(int dev)
{
    HIP_BEGIN();
    return hip_leave(check_device(dev));
}

static const struct {
    int err;
    const char *name, *text;
} errors[] = {
    {HIP_OK, "hipSuccess", "no error"},
    {HIP_INVALID_VALUE, "hipErrorInvalidValue", "invalid argument"},
    {HIP_OUT_OF_MEMORY, "hipErrorOutOfMemory", "out of memory"},
    {HIP_NOT_INITIALIZED, "hipErrorNotInitialized", "initialization error"},
    {HIP_INVALID_CONFIGURATION, "hipErrorInvalidConfiguration", "invalid configuration argument"},
    {HIP_INVALID_DEVICE_FUNCTION, "hipErrorInvalidDeviceFunction", "invalid device function"},
    {HIP_NO_DEVICE, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {HIP_INVALID_DEVICE, "hipErrorInvalidDevice", "invalid device ordinal"},
    {HIP_INVALID_IMAGE, "hipErrorInvalidImage", "device kernel image is invalid"},
    {HIP_INVALID_CONTEXT, "hipErrorInvalidContext", "invalid device context"},
    {HIP_NO_BINARY, "hipErrorNoBinaryForGpu", "no kernel image is available for the device"},
    {HIP_INVALID_HANDLE, "hipErrorInvalidHandle", "invalid resource handle"},
    {HIP_NOT_FOUND, "hipErrorNotFound", "named symbol not found"},
    {HIP_NOT_READY, "hipErrorNotReady", "device not ready"},
    {HIP_ILLEGAL_ADDRESS, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {HIP_OUT_OF_RESOURCES, "hipErrorLaunchOutOfResources", "out of resources"},
    {HIP_LAUNCH_FAILURE, "hipErrorLaunchFailure", "unspecified launch failure"},
    {HIP_NOT_SUPPORTED, "hipErrorNotSupported", "operation not supported"},
    {HIP_CAPTURE_UNSUPPORTED, "hipErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {HIP_CAPTURE_INVALIDATED, "hipErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {HIP_CAPTURE_UNMATCHED, "hipErrorStreamCaptureUnmatched",
     "capture was not initiated in this stream"},
    {HIP_UNKNOWN, "hipErrorUnknown", "unknown error"},
};

HIP_API const char *hipGetErrorName(int err)
{
    for (size_t i = 0; i < ARRAY_LEN(errors); i++)
        if (errors[i].err == err)
            return errors[i].name;
    return "hipErrorUnknown";
}

/* For a launch failure, the finding itself. */
HIP_API const char *hipGetErrorString(int err)
{
    if (err == HIP_LAUNCH_FAILURE && *mxsim_last_report())
        return mxsim_last_report();
    for (size_t i = 0; i < ARRAY_LEN(errors); i++)
        if (errors[i].err == err)
            return errors[i].text;
    return "unknown error";
}

HIP_API int hipGetLastError(void)
{
    int e = last_error;
    last_error = 0;
    return e;
}

HIP_API int hipPeekAtLastError(void)
{
    return last_error;
}
