/*
 * Prototypes of the HIP entry points that the simulator answers, from HIP's documentation. Handles
 * are void pointers and errors are ints: this is what the ABI needs, without ROCm's headers.
 */
#ifndef HIP_API_H
#define HIP_API_H

#include <stddef.h>

int hipInit(unsigned flags);
int hipDriverGetVersion(int *v);
int hipRuntimeGetVersion(int *v);
int hipGetDeviceCount(int *n);
int hipDeviceGet(int *dev, int ordinal);
int hipDeviceGetName(char *name, int len, int dev);
int hipDeviceGetAttribute(int *v, int attr, int dev);
int hipGetDevicePropertiesR0600(void *prop, int dev);
int hipGetDevicePropertiesR0000(void *prop, int dev);
int hipGetDeviceProperties(void *prop, int dev);
int hipDeviceTotalMem(size_t *bytes, int dev);
int hipMemGetInfo(size_t *free_bytes, size_t *total);
int hipSetDevice(int dev);
int hipGetDevice(int *dev);
int hipDeviceSynchronize(void);
int hipCtxGetCurrent(void **ctx);
int hipCtxSetCurrent(void *ctx);
int hipCtxPushCurrent(void *ctx);
int hipCtxPopCurrent(void **ctx);
int hipCtxGetDevice(int *dev);
int hipDevicePrimaryCtxRetain(void **ctx, int dev);
int hipDevicePrimaryCtxRelease(int dev);
const char *hipGetErrorName(int err);
const char *hipGetErrorString(int err);
int hipGetLastError(void);
int hipPeekAtLastError(void);
int hipMalloc(void **p, size_t bytes);
int hipMallocAsync(void **p, size_t bytes, void *stream);
int hipHostMalloc(void **p, size_t bytes, unsigned flags);
int hipFree(void *p);
int hipFreeAsync(void *p, void *stream);
int hipHostFree(void *p);
int hipMemcpy(void *dst, const void *src, size_t bytes, int kind);
int hipMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, void *stream);
int hipMemcpyHtoD(void *dst, void *src, size_t bytes);
int hipMemcpyDtoH(void *dst, void *src, size_t bytes);
int hipMemcpyDtoD(void *dst, void *src, size_t bytes);
int hipMemcpyHtoDAsync(void *dst, void *src, size_t bytes, void *stream);
int hipMemcpyDtoHAsync(void *dst, void *src, size_t bytes, void *stream);
int hipMemcpyDtoDAsync(void *dst, void *src, size_t bytes, void *stream);
int hipMemset(void *dst, int value, size_t bytes);
int hipMemsetAsync(void *dst, int value, size_t bytes, void *stream);
int hipMemsetD8(void *dst, unsigned char value, size_t bytes);
int hipMemsetD8Async(void *dst, unsigned char value, size_t bytes, void *stream);
int hipPointerGetAttributes(void *out, const void *p);
int hipPointerGetAttribute(void *out, int attr, void *p);
int hipModuleLoadData(void **out, const void *image);
int hipModuleLoadDataEx(void **out, const void *image, unsigned n, void *options, void **values);
int hipModuleUnload(void *mod);
int hipModuleGetFunction(void **fn, void *mod, const char *name);
int hipModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned lds, void *st, void **params, void **extra);
int hipFuncGetAttribute(int *v, int attr, void *f);
int hipFuncSetAttribute(const void *f, int attr, int value);
int hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *f, int block, size_t lds);
int hipStreamCreateWithFlags(void **out, unsigned flags);
int hipStreamCreate(void **out);
int hipStreamDestroy(void *p);
int hipStreamSynchronize(void *p);
int hipStreamQuery(void *p);
int hipStreamWaitEvent(void *p, void *ev, unsigned flags);
int hipStreamGetDevice(void *p, int *dev);
int hipStreamIsCapturing(void *p, int *status);
int hipStreamBeginCapture(void *p, int mode);
int hipStreamEndCapture(void *p, void **out);
int hipGraphInstantiate(void **exec, void *p, void **node, char *log, size_t bytes);
int hipGraphLaunch(void *exec, void *st);
int hipGraphDestroy(void *p);
int hipGraphExecDestroy(void *p);
int hipEventCreateWithFlags(void **out, unsigned flags);
int hipEventCreate(void **out);
int hipEventRecord(void *p, void *st);
int hipEventSynchronize(void *p);
int hipEventQuery(void *p);
int hipEventElapsedTime(float *ms, void *a, void *b);
int hipEventDestroy(void *p);

#endif
