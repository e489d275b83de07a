/* The variables of launch rules of grouped GEMM (mxgen/pack.h), by number and by name. */
#ifndef MXRT_GEMM_VARS_H
#define MXRT_GEMM_VARS_H

enum {
    MXRT_GEMM_VAR_M = 0,
    MXRT_GEMM_VAR_OUT_ROWS,
    MXRT_GEMM_VAR_N,
    MXRT_GEMM_VAR_K,
    MXRT_GEMM_VAR_GROUPS,
    MXRT_GEMM_VAR_NUM_CU,
    MXRT_GEMM_VAR_ACCUMULATE,
    MXRT_GEMM_VAR_LEFT_ROW_STRIDE,
    MXRT_GEMM_VAR_LEFT_GROUP_STRIDE,
    MXRT_GEMM_VAR_LEFT_ALIGN,
    MXRT_GEMM_VAR_RIGHT_ROW_STRIDE,
    MXRT_GEMM_VAR_RIGHT_GROUP_STRIDE,
    MXRT_GEMM_VAR_RIGHT_ALIGN,
    MXRT_GEMM_VAR_LEFT_SCALE_ROW_STRIDE,
    MXRT_GEMM_VAR_LEFT_SCALE_BLOCK_STRIDE,
    MXRT_GEMM_VAR_LEFT_SCALES_ALIGN,
    MXRT_GEMM_VAR_RIGHT_SCALE_ROW_STRIDE,
    MXRT_GEMM_VAR_RIGHT_SCALE_BLOCK_STRIDE,
    MXRT_GEMM_VAR_RIGHT_SCALE_GROUP_STRIDE,
    MXRT_GEMM_VAR_RIGHT_SCALES_ALIGN,
    MXRT_GEMM_VAR_OUT_ROW_STRIDE,
    MXRT_GEMM_VAR_OUT_GROUP_STRIDE,
    MXRT_GEMM_VAR_OUT_ALIGN,
    MXRT_GEMM_VAR_WORKSPACE_ALIGN,
    MXRT_GEMM_VAR_COUNT
};

static const char *const mxrt_gemm_var_names[MXRT_GEMM_VAR_COUNT] = {
    /* clang-format off */
    "m", "out_rows", "n", "k", "groups", "num_cu", "accumulate", "left_row_stride",
    "left_group_stride", "left_align", "right_row_stride", "right_group_stride", "right_align",
    "left_scale_row_stride", "left_scale_block_stride", "left_scales_align",
    "right_scale_row_stride", "right_scale_block_stride", "right_scale_group_stride",
    "right_scales_align", "out_row_stride", "out_group_stride", "out_align", "workspace_align",
    /* clang-format on */
};

#endif
