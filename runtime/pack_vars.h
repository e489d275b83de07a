/* The variables of a pack's launch rules (mxgen/pack.h), by number and by name. */
#ifndef MXRT_PACK_VARS_H
#define MXRT_PACK_VARS_H

#include <mxgen/pack.h>

#include "gemm_vars.h"

enum {
    MXRT_VAR_N_BLOCKS = 0,
    MXRT_VAR_ROWS,
    MXRT_VAR_LEN,
    MXRT_VAR_BPR,
    MXRT_VAR_X_ALIGN,
    MXRT_VAR_Y_ALIGN,
    MXRT_VAR_P_ALIGN,
    MXRT_VAR_X_AXIS_STRIDE,
    MXRT_VAR_Y_AXIS_STRIDE,
    MXRT_VAR_P_BLOCK_STRIDE,
    MXRT_VAR_P_BYTE_STRIDE,
    MXRT_VAR_S_ALIGN,
    MXRT_VAR_S_ROW_STRIDE,
    MXRT_VAR_S_BLOCK_STRIDE,
    MXRT_VAR_TILE_M,
    MXRT_VAR_SCALE_RULE,
    MXRT_VAR_ROUNDING,
    MXRT_VAR_SEED_LOW,
    MXRT_VAR_SEED_HIGH,
    MXRT_VAR_ZERO_BYTE,
    MXRT_VAR_MIN_BYTE,
    MXRT_VAR_MIN_AMAX,
    MXRT_VAR_PLUS_ZERO,
    MXRT_VAR_NAN_SCALE,
    MXRT_VAR_OVERFLOW,
    MXRT_VAR_TWO_D,
    MXRT_VAR_HADAMARD,
    MXRT_VAR_GROUPS,
    MXRT_VAR_GROUP_ALIGN,
    MXRT_VAR_CAPACITY,
    MXRT_VAR_C_ALIGN,
    MXRT_VAR_C_ROW_STRIDE,
    MXRT_VAR_T_ROW_STRIDE,
    MXRT_VAR_T_BLOCK_STRIDE,
    MXRT_VAR_C_HADAMARD,
    MXRT_VAR_N_DIMS,
    MXRT_VAR_DIM0_SIZE /* row dimension k begins at MXRT_VAR_DIM(k, ..) */
};

/* Offsets within one row dimension, for MXRT_VAR_DIM. */
enum {
    MXRT_DIM_SIZE = 0,
    MXRT_DIM_ROW_STRIDE,
    MXRT_DIM_X_STRIDE,
    MXRT_DIM_Y_STRIDE,
    MXRT_DIM_FIELDS
};

#define MXRT_VAR_DIM(k, field) (MXRT_VAR_DIM0_SIZE + (k)*MXRT_DIM_FIELDS + (field))
#define MXRT_VAR_COUNT MXRT_VAR_DIM(MXPACK_MAX_ROW_DIMS, 0)

/* Values for the rules of any row: each family of operations has variables of its own. */
#define MXRT_VALUES_COUNT                                                                          \
    ((int)MXRT_VAR_COUNT > (int)MXRT_GEMM_VAR_COUNT ? (int)MXRT_VAR_COUNT                          \
                                                    : (int)MXRT_GEMM_VAR_COUNT)

static const char *const mxrt_pack_var_names[MXRT_VAR_COUNT] = {
    /* clang-format off */
    "n_blocks", "rows", "len", "bpr", "x_align", "y_align", "p_align",
    "x_axis_stride", "y_axis_stride", "p_block_stride", "p_byte_stride",
    "s_align", "s_row_stride", "s_block_stride", "tile_m",
    "scale_rule", "rounding", "seed_low", "seed_high", "zero_byte", "min_byte", "min_amax", "plus_zero",
    "nan_scale", "overflow", "two_d", "hadamard",
    "groups", "group_align", "capacity", "c_align", "c_row_stride", "t_row_stride",
    "t_block_stride", "c_hadamard", "n_dims",
    "dim0_size", "dim0_row_stride", "dim0_x_stride", "dim0_y_stride",
    "dim1_size", "dim1_row_stride", "dim1_x_stride", "dim1_y_stride",
    "dim2_size", "dim2_row_stride", "dim2_x_stride", "dim2_y_stride",
    "dim3_size", "dim3_row_stride", "dim3_x_stride", "dim3_y_stride",
    "dim4_size", "dim4_row_stride", "dim4_x_stride", "dim4_y_stride",
    "dim5_size", "dim5_row_stride", "dim5_x_stride", "dim5_y_stride",
    "dim6_size", "dim6_row_stride", "dim6_x_stride", "dim6_y_stride",
    /* clang-format on */
};

#endif
