/* A stand-in for the HIP runtime of ROCm 5 that knows one thing: the device properties of that
 * release, with the chip's name at its old place. Test-only. */
#include <stddef.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

/* The head of hipDeviceProp_t before ROCm 6. */
typedef struct properties {
    char name[256];
    size_t memory_bytes, lds_bytes;
    int before_totals[12];
    size_t constant_bytes;
    int before_multiprocessor[12];
    size_t lds_per_multiprocessor;
    int before_arch[3];
    char arch[256];
} properties;

_Static_assert(offsetof(properties, arch) == 396, "hipDeviceProp_t of ROCm 5");

EXPORT int hipGetDeviceProperties(properties *out, int device);
EXPORT int hipGetDeviceCount(int *count);
EXPORT int hipDeviceGetAttribute(int *value, int attribute, int device);
EXPORT const char *hipGetErrorName(int code);
EXPORT const char *hipGetErrorString(int code);

int hipGetDeviceProperties(properties *out, int device)
{
    (void)device;
    memset(out, 0, sizeof(*out));
    strcpy(out->name, "Old card");
    strcpy(out->arch, "gfx90a:sramecc+:xnack-");
    return 0;
}

int hipGetDeviceCount(int *count)
{
    *count = 1;
    return 0;
}

int hipDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == 63 ? 104 : 1024;
    return 0;
}

const char *hipGetErrorName(int code)
{
    (void)code;
    return "hipErrorUnknown";
}

const char *hipGetErrorString(int code)
{
    (void)code;
    return "unknown error";
}

EXPORT int hipInit(unsigned flags);

int hipInit(unsigned flags)
{
    return flags ? 1 : 0;
}

/* What every entry point that the suite does not reach answers. */
static int answer_unknown(void)
{
    return 999;
}

EXPORT __attribute__((alias("answer_unknown"))) int hipGetDevice(void);
EXPORT __attribute__((alias("answer_unknown"))) int hipSetDevice(void);
EXPORT __attribute__((alias("answer_unknown"))) int hipModuleLoadData(void);
EXPORT __attribute__((alias("answer_unknown"))) int hipModuleUnload(void);
EXPORT __attribute__((alias("answer_unknown"))) int hipModuleGetFunction(void);
EXPORT __attribute__((alias("answer_unknown"))) int hipModuleLaunchKernel(void);
EXPORT __attribute__((alias("answer_unknown"))) int hipMalloc(void);
EXPORT __attribute__((alias("answer_unknown"))) int hipFree(void);
EXPORT __attribute__((alias("answer_unknown"))) int hipMemcpy(void);
EXPORT __attribute__((alias("answer_unknown"))) int hipMemcpyAsync(void);
EXPORT __attribute__((alias("answer_unknown"))) int hipMemsetAsync(void);
EXPORT __attribute__((alias("answer_unknown"))) int hipStreamSynchronize(void);
EXPORT __attribute__((alias("answer_unknown"))) int hipEventCreate(void);
EXPORT __attribute__((alias("answer_unknown"))) int hipEventDestroy(void);
EXPORT __attribute__((alias("answer_unknown"))) int hipEventRecord(void);
EXPORT __attribute__((alias("answer_unknown"))) int hipEventSynchronize(void);
EXPORT __attribute__((alias("answer_unknown"))) int hipEventElapsedTime(void);
