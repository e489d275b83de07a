/* A right request of grouped GEMM on the host, for tests to spoil, and the device that they use. */
#ifndef GEMM_REQUEST_H
#define GEMM_REQUEST_H

#include <mxgen/gemm.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

static const DLDevice cpu = {kDLCPU, 0};
static const DLDataType u8 = {kDLUInt, 8, 1}, bf16 = {kDLBfloat, 16, 1}, f32 = {kDLFloat, 32, 1},
                        f16 = {kDLFloat, 16, 1}, i64 = {kDLInt, 64, 1}, i32 = {kDLInt, 32, 1};

enum { G = 3, M = 12, N = 6, K = 64, MPAD = 160 };

typedef struct request_tensor {
    DLTensor dl;
    int64_t shape[4], strides[4];
} request_tensor;

typedef struct request_rig {
    _Alignas(64) unsigned char left_data[4096], left_scales_data[512], right_data[4096],
        right_scales_data[512];
    _Alignas(64) unsigned char out_data[4096];
    int64_t read_data[G + 1], write_data[G + 1];
    int32_t status_data;
    request_tensor left, left_scales, right, right_scales, out, read, write, status;
    mxrt_gemm_request request;
} request_rig;

extern request_rig the;
extern mxrt_context *context;
extern mxrt_device *device;
extern mx_error err;

/* Fixtures: a host device of two threads; and another in its place. */
void request_set_up(void);
void request_tear_down(void);
void request_open_device(const char *uri);

void request_set(request_tensor *t, DLDataType type, void *data, int ndim, int64_t a, int64_t b,
                 int64_t c);
/* FP8 left, FP4 right, so that both sizes of elements occur; offsets on the host. */
void request_make(request_rig *r, mx_gemm_pass pass);
/* gemm_rows of E4M3 by E4M3 to f32, on 132 units of a device; shapes of which no memory is there.
 */
void request_without_memory(request_rig *r, DLDeviceType type, int64_t groups, int64_t m, int64_t n,
                            int64_t k);
/* Whether out and status are as request_make left them. */
int request_untouched(const request_rig *r);
/* Of out, f32. */
float request_out_at(const request_rig *r, int64_t index);

#endif
