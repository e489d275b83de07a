#include "moe_layer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PADDING = 128 }; /* of each expert's rows, where the contraction is over rows */

static const DLDataType bf16 = {kDLBfloat, 16, 1}, f32 = {kDLFloat, 32, 1}, u8 = {kDLUInt, 8, 1},
                        i64 = {kDLInt, 64, 1};

static mx_status fail_memory(mx_error *err)
{
    err->status = MX_ERR_NO_MEMORY;
    snprintf(err->message, sizeof(err->message), "no memory on the host");
    return err->status;
}

/* ---- Tensors in device memory ---- */

typedef struct tensor {
    DLTensor dl; /* dl.shape points to shape */
    int64_t shape[3];
} tensor;

static size_t tensor_bytes(const tensor *t)
{
    size_t n = t->dl.dtype.bits / 8;

    for (int i = 0; i < t->dl.ndim; i++)
        n *= (size_t)t->shape[i];
    return n;
}

/* Row-major, in place because of dl.shape. `host` is copied to it; NULL leaves it as it is. */
static mx_status tensor_create(tensor *t, mxrt_device *device, DLDataType type, int ndim,
                               const int64_t *shape, const void *host, mx_error *err)
{
    mxrt_device_info info;
    mx_status status = mxrt_device_get_info(device, &info, err);

    if (status)
        return status;
    t->dl = (DLTensor){.device = info.dl_device, .dtype = type, .ndim = ndim, .shape = t->shape};
    memcpy(t->shape, shape, (size_t)ndim * sizeof(shape[0]));
    status = mxrt_device_alloc(device, tensor_bytes(t), &t->dl.data, err);
    if (!status && host)
        status = mxrt_device_upload(device, t->dl.data, host, tensor_bytes(t), err);
    return status;
}

static void tensor_destroy(tensor *t, mxrt_device *device)
{
    mxrt_device_free(device, t->dl.data);
}

/* ---- Quantising ---- */

/* MXFP4: codes [.., K / 2] and scales [.., K / 32], K the blocked dimension. */
typedef struct quantised {
    tensor data, scales;
} quantised;

static mx_status quantised_create(quantised *q, mxrt_device *device, int ndim, const int64_t *shape,
                                  mx_error *err)
{
    int64_t data[3], scales[3];

    for (int i = 0; i < ndim; i++) {
        data[i] = i < ndim - 1 ? shape[i] : shape[i] / 2;
        scales[i] = i < ndim - 1 ? shape[i] : shape[i] / MX_OCP_BLOCK;
    }
    mx_status status = tensor_create(&q->data, device, u8, ndim, data, NULL, err);
    return status ? status : tensor_create(&q->scales, device, u8, ndim, scales, NULL, err);
}

static void quantised_destroy(quantised *q, mxrt_device *device)
{
    tensor_destroy(&q->data, device);
    tensor_destroy(&q->scales, device);
}

/* The quantiser counts blocks and rows: the same memory, seen flat. */
typedef struct flat_view {
    DLTensor data, scales;
    int64_t data_shape[2], scales_shape[2];
} flat_view;

static void view_flat(const quantised *q, flat_view *out)
{
    int64_t blocks = (int64_t)tensor_bytes(&q->scales);
    int64_t per_row = q->scales.shape[q->scales.dl.ndim - 1];

    out->data = q->data.dl;
    out->scales = q->scales.dl;
    out->data_shape[0] = blocks;
    out->data_shape[1] = MX_OCP_BLOCK / 2;
    out->scales_shape[0] = blocks / per_row;
    out->scales_shape[1] = per_row;
    out->data.shape = out->data_shape;
    out->scales.shape = out->scales_shape;
    out->data.ndim = out->scales.ndim = 2;
}

/* The weights, [experts, out, in], along axis 2, or along axis 1 to [experts, in, out]: the blocked
 * axis changes places with the last one. */
static mx_status quantise_weights(mxrt_device *device, const moe_layer *layer, int axis,
                                  quantised *out, mx_error *err)
{
    const int64_t shape[] = {layer->experts, layer->out, layer->in};
    const int64_t swapped[] = {layer->experts, layer->in, layer->out};
    tensor w = {0};
    flat_view flat;
    mx_status status = tensor_create(&w, device, bf16, 3, shape, layer->weights, err);

    if (!status)
        status = quantised_create(out, device, 3, axis == 2 ? shape : swapped, err);
    if (!status) {
        view_flat(out, &flat);
        status = mxrt_ocp_quantize(device, MX_FORMAT_MXFP4, NULL, axis, &w.dl, &flat.data,
                                   &flat.scales, NULL, err);
    }
    tensor_destroy(&w, device);
    return status;
}

/* Tokens in both directions, from one pass over them, and where the experts begin. */
typedef struct token_set {
    quantised rows;    /* [tokens, columns] */
    quantised columns; /* [columns, capacity]: each expert's rows padded to PADDING with zeros */
    tensor offsets, padded_offsets; /* of experts in rows, and in columns */
} token_set;

static void token_set_destroy(token_set *set, mxrt_device *device)
{
    quantised_destroy(&set->rows, device);
    quantised_destroy(&set->columns, device);
    tensor_destroy(&set->offsets, device);
    tensor_destroy(&set->padded_offsets, device);
}

static mx_status create_offsets(token_set *set, mxrt_device *device, const moe_layer *layer,
                                mx_error *err)
{
    const int64_t shape[] = {layer->experts + 1};
    int64_t *offsets = calloc((size_t)shape[0], sizeof(*offsets));
    mx_status status = offsets ? MX_OK : fail_memory(err);

    for (int64_t e = 0; !status && e < layer->experts; e++)
        offsets[e + 1] = offsets[e] + layer->sizes[e];
    if (!status)
        status = tensor_create(&set->offsets, device, i64, 1, shape, offsets, err);
    if (!status)
        status = tensor_create(&set->padded_offsets, device, i64, 1, shape, NULL, err);
    free(offsets);
    return status;
}

static mx_status token_set_create(token_set *set, mxrt_device *device, const moe_layer *layer,
                                  const uint16_t *host, int64_t columns, mx_error *err)
{
    int64_t capacity = mxrt_ocp_columns_capacity(layer->tokens, layer->experts, PADDING);
    const int64_t shape[] = {layer->tokens, columns}, turned[] = {columns, capacity};
    tensor x = {0};
    flat_view flat;
    mx_status status = create_offsets(set, device, layer, err);

    if (!status)
        status = tensor_create(&x, device, bf16, 2, shape, host, err);
    if (!status)
        status = quantised_create(&set->rows, device, 2, shape, err);
    if (!status)
        status = quantised_create(&set->columns, device, 2, turned, err);
    if (!status) {
        const mxrt_ocp_columns both = {
            .data = &set->columns.data.dl,
            .scales = &set->columns.scales.dl,
            .offsets = &set->offsets.dl,
            .padded_offsets = &set->padded_offsets.dl,
            .group_align = PADDING,
        };
        view_flat(&set->rows, &flat);
        status = mxrt_ocp_quantize_pair(device, MX_FORMAT_MXFP4, NULL, -1, &x.dl, &flat.data,
                                        &flat.scales, &both, NULL, err);
    }
    /* The device must be done with x. */
    if (!status)
        status = mxrt_device_synchronize(device, NULL, err);
    tensor_destroy(&x, device);
    return status;
}

/* ---- Products ---- */

/* One product by a plan of its own; a program that repeats shapes keeps plan and workspace. */
static mx_status multiply(mxrt_device *device, mx_gemm_pass pass, const quantised *left,
                          const quantised *right, const tensor *offsets, const tensor *out,
                          int accumulate, mx_error *err)
{
    const mxrt_gemm_request request = {
        .pass = pass,
        .left_element = MX_GEMM_MXFP4,
        .right_element = MX_GEMM_MXFP4,
        .left = &left->data.dl,
        .left_scales = &left->scales.dl,
        .right = &right->data.dl,
        .right_scales = &right->scales.dl,
        .out = &out->dl,
        .read_offsets = &offsets->dl,
        .accumulate = accumulate,
    };
    mxrt_gemm_buffers buffers = {.workspace = NULL};
    mxrt_gemm_plan *plan = NULL;
    mx_status status = mxrt_gemm_plan_create(device, &request, &plan, err);

    buffers.workspace_bytes = mxrt_gemm_workspace_bytes(plan);
    if (!status && buffers.workspace_bytes)
        status = mxrt_device_alloc(device, buffers.workspace_bytes, &buffers.workspace, err);
    if (!status)
        status = mxrt_gemm_run(plan, &buffers, NULL, err);
    if (!status)
        status = mxrt_device_synchronize(device, NULL, err);
    mxrt_device_free(device, buffers.workspace);
    mxrt_gemm_plan_destroy(plan);
    return status;
}

/* Tokens times the experts' matrices, quantised along `weights_axis`, which is contracted. */
static mx_status multiply_tokens(mxrt_device *device, const moe_layer *layer, const token_set *set,
                                 int weights_axis, uint16_t *result, mx_error *err)
{
    const int64_t shape[] = {layer->tokens, weights_axis == 2 ? layer->out : layer->in};
    quantised weights = {0};
    tensor y = {0};
    mx_status status = quantise_weights(device, layer, weights_axis, &weights, err);

    if (!status)
        status = tensor_create(&y, device, bf16, 2, shape, NULL, err);
    if (!status)
        status = multiply(device, MX_GEMM_ROWS, &set->rows, &weights, &set->offsets, &y, 0, err);
    if (!status)
        status = mxrt_device_download(device, result, y.dl.data, tensor_bytes(&y), err);
    quantised_destroy(&weights, device);
    tensor_destroy(&y, device);
    return status;
}

/* dW += dy^T x, expert by expert: both are contracted along the tokens. */
static mx_status add_weight_gradients(mxrt_device *device, const moe_layer *layer,
                                      const token_set *x, const token_set *dy, mx_error *err)
{
    const int64_t shape[] = {layer->experts, layer->out, layer->in};
    tensor dw = {0};
    mx_status status = tensor_create(&dw, device, f32, 3, shape, layer->weight_gradients, err);

    if (!status)
        status = multiply(device, MX_GEMM_COLS, &dy->columns, &x->columns, &dy->padded_offsets, &dw,
                          1, err);
    if (!status)
        status = mxrt_device_download(device, layer->weight_gradients, dw.dl.data,
                                      tensor_bytes(&dw), err);
    tensor_destroy(&dw, device);
    return status;
}

/* ---- The layer ---- */

struct moe_saved {
    token_set x;
};

mx_status moe_forward(mxrt_device *device, const moe_layer *layer, const uint16_t *x, uint16_t *y,
                      moe_saved **saved, mx_error *err)
{
    moe_saved *kept = calloc(1, sizeof(*kept));
    mx_status status = kept ? MX_OK : fail_memory(err);

    if (!status)
        status = token_set_create(&kept->x, device, layer, x, layer->in, err);
    if (!status)
        status = multiply_tokens(device, layer, &kept->x, 2, y, err);
    if (status)
        moe_saved_destroy(device, kept);
    else
        *saved = kept;
    return status;
}

mx_status moe_backward(mxrt_device *device, const moe_layer *layer, const moe_saved *saved,
                       const uint16_t *dy, uint16_t *dx, mx_error *err)
{
    token_set set = {0};
    mx_status status = token_set_create(&set, device, layer, dy, layer->out, err);

    /* The weights are contracted along their middle axis here: the same kind of kernel serves. */
    if (!status)
        status = multiply_tokens(device, layer, &set, 1, dx, err);
    if (!status)
        status = add_weight_gradients(device, layer, &saved->x, &set, err);
    token_set_destroy(&set, device);
    return status;
}

void moe_saved_destroy(mxrt_device *device, moe_saved *saved)
{
    if (!saved)
        return;
    token_set_destroy(&saved->x, device);
    free(saved);
}
