#include "gemm_request.h"

#include <check.h>
#include <string.h>

mxrt_context *context;
mxrt_device *device;
mx_error err;

void request_open_device(const char *uri)
{
    mxrt_device_close(device);
    device = NULL;
    ck_assert_msg(!mxrt_device_open(context, uri, &device, &err), "%s", err.message);
}

void request_set_up(void)
{
    memset(&err, 0, sizeof(err));
    ck_assert_int_eq(mxrt_context_create(NULL, &context, &err), MX_OK);
    request_open_device("host?threads=2");
}

void request_tear_down(void)
{
    mxrt_device_close(device);
    mxrt_context_destroy(context);
    device = NULL;
}

request_rig the;

void request_set(request_tensor *t, DLDataType type, void *data, int ndim, int64_t a, int64_t b,
                 int64_t c)
{
    const int64_t shape[] = {a, b, c};
    int64_t stride = 1;

    for (int i = ndim - 1; i >= 0; i--) {
        t->shape[i] = shape[i];
        t->strides[i] = stride;
        stride *= shape[i];
    }
    t->dl = (DLTensor){.data = data, .device = cpu, .ndim = ndim, .dtype = type, .shape = t->shape};
    t->dl.strides = t->strides;
}

/* FP8 left, FP4 right, so that both sizes of elements occur. */
void request_make(request_rig *r, mx_gemm_pass pass)
{
    static const int64_t rows[] = {0, 4, 4, M}, ranges[] = {0, 96, 96, MPAD};

    memset(r, 0, sizeof(*r));
    memset(r->left_data, 0x38, sizeof(r->left_data));
    memset(r->right_data, 0x22, sizeof(r->right_data));
    memset(r->left_scales_data, 127, sizeof(r->left_scales_data));
    memset(r->right_scales_data, 127, sizeof(r->right_scales_data));
    memset(r->out_data, 0xa5, sizeof(r->out_data));
    r->status_data = -77;
    memcpy(r->read_data, pass == MX_GEMM_ROWS ? rows : ranges, sizeof(rows));
    memcpy(r->write_data, rows, sizeof(rows));
    if (pass == MX_GEMM_ROWS) {
        request_set(&r->left, u8, r->left_data, 2, M, K, 0);
        request_set(&r->left_scales, u8, r->left_scales_data, 2, M, K / 32, 0);
        request_set(&r->right, u8, r->right_data, 3, G, N, K / 2);
        request_set(&r->right_scales, u8, r->right_scales_data, 3, G, N, K / 32);
        request_set(&r->out, f32, r->out_data, 2, M, N, 0);
    } else {
        request_set(&r->left, u8, r->left_data, 2, N, MPAD, 0);
        request_set(&r->left_scales, u8, r->left_scales_data, 2, N, MPAD / 32, 0);
        request_set(&r->right, u8, r->right_data, 2, 5, MPAD / 2, 0);
        request_set(&r->right_scales, u8, r->right_scales_data, 2, 5, MPAD / 32, 0);
        request_set(&r->out, f32, r->out_data, 3, G, N, 5);
    }
    request_set(&r->read, i64, r->read_data, 1, G + 1, 0, 0);
    request_set(&r->write, i64, r->write_data, 1, G + 1, 0, 0);
    request_set(&r->status, i32, &r->status_data, 1, 1, 0, 0);
    r->request = (mxrt_gemm_request){
        .pass = pass,
        .left_element = MX_GEMM_MXFP8_E4M3,
        .right_element = MX_GEMM_MXFP4,
        .left = &r->left.dl,
        .left_scales = &r->left_scales.dl,
        .right = &r->right.dl,
        .right_scales = &r->right_scales.dl,
        .out = &r->out.dl,
        .read_offsets = &r->read.dl,
        .status = &r->status.dl,
        .host_offsets = 1,
    };
}

void request_without_memory(request_rig *r, DLDeviceType type, int64_t groups, int64_t m, int64_t n,
                            int64_t k)
{
    request_tensor *tensors[] = {&r->left,         &r->left_scales, &r->right,
                                 &r->right_scales, &r->out,         &r->read};

    request_make(r, MX_GEMM_ROWS);
    r->request.right_element = MX_GEMM_MXFP8_E4M3;
    r->request.host_offsets = 0;
    r->request.num_cu = 132;
    r->request.status = NULL;
    request_set(&r->left, u8, NULL, 2, m, k, 0);
    request_set(&r->left_scales, u8, NULL, 2, m, k / 32, 0);
    request_set(&r->right, u8, NULL, 3, groups, n, k);
    request_set(&r->right_scales, u8, NULL, 3, groups, n, k / 32);
    request_set(&r->out, f32, NULL, 2, m, n, 0);
    request_set(&r->read, i64, NULL, 1, groups + 1, 0, 0);
    for (int i = 0; i < COUNT(tensors); i++)
        tensors[i]->dl.device.device_type = type;
}

int request_untouched(const request_rig *r)
{
    for (size_t i = 0; i < sizeof(r->out_data); i++) {
        if (r->out_data[i] != 0xa5)
            return 0;
    }
    return r->status_data == -77;
}

float request_out_at(const request_rig *r, int64_t index)
{
    float value;
    memcpy(&value, r->out_data + index * (int64_t)sizeof(value), sizeof(value));
    return value;
}
