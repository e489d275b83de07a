/* Blocks of 32 elements as they are in a packed operand -> as they are in the workspace. */
#ifndef MXGEN_GEMM_DECODE_H
#define MXGEN_GEMM_DECODE_H

#include "templates/gemm_workspace.h"

enum { GEMM_MOST_WORDS = 16 }; /* of a block, on both sides */

typedef struct gemm_block {
    mxgen_operand operand;
    int elem_bytes;             /* 1: FP8 (not from bf16); 2: bf16 */
    bool zeros_any_scale;       /* what is all zero is zero even where its scale is NaN */
    mxe_value live;             /* i1: else zeros */
    mxe_value scale, reference; /* i32; not of bf16 */
} gemm_block;

/* Whether any element of a block is not zero: i1. */
mxe_value gemm_has_values(mxe *e, mxgen_operand operand, const mxe_value *in);

/* Decodes a block; returns whether more was lost than gemm_workspace.h allows, since the scale is
 * too far from the reference: i1. */
mxe_value gemm_decode(mxe *e, const gemm_block *block, const mxe_value *in, mxe_value *out);

#endif
