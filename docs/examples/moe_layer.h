/* A linear layer of a mixture of experts, forward and backward, in MXFP4: how the quantiser that
 * makes rows and columns in one pass (mxgen/rt.h) and grouped GEMM (mxgen/gemm.h) go together. */
#ifndef MOE_LAYER_H
#define MOE_LAYER_H

#include <mxgen/gemm.h>

/* Tokens are sorted by expert: the first sizes[0] rows of x, y and their gradients are expert 0's,
 * and so on. bf16 is held as its bits. in and out are multiples of 32, tokens not 0. */
typedef struct moe_layer {
    int64_t tokens, experts, in, out;
    const int64_t *sizes;    /* [experts], adding up to tokens */
    const uint16_t *weights; /* [experts, out, in] bf16 */
    float *weight_gradients; /* [experts, out, in], added to */
} moe_layer;

/* What forward leaves for backward: x quantised along its columns, in device memory. */
typedef struct moe_saved moe_saved;

/* y [tokens, out] = x [tokens, in] times the expert's weights. Arrays are on the host, the device
 * may be any. *saved is to be destroyed, before the device is closed. */
mx_status moe_forward(mxrt_device *device, const moe_layer *layer, const uint16_t *x, uint16_t *y,
                      moe_saved **saved, mx_error *err);

/* dx [tokens, in] from dy [tokens, out], and the gradients of the weights. */
mx_status moe_backward(mxrt_device *device, const moe_layer *layer, const moe_saved *saved,
                       const uint16_t *dy, uint16_t *dx, mx_error *err);

/* Takes NULL. */
void moe_saved_destroy(mxrt_device *device, moe_saved *saved);

#endif
