/* Grouped GEMM by plain fused multiply-adds (gen/target_matrix.h, mxgen_fma): what its parts share.
 *
 * A program multiplies a tile of BLOCK_SIZE_M x BLOCK_SIZE_N, BLOCK_SIZE_K elements of the
 * contraction at a time. It decodes that much of the left operand to f32 in its own part of the
 * workspace, which a core's second-level cache holds together with the tile's sums, then of the
 * right one `width` rows after another, which the first-level cache holds, and multiplies
 * unit->rows x unit->vectors vectors of sums at a time, in registers.
 *
 *   left    [BLOCK_SIZE_M][BLOCK_SIZE_K]: rows as they are; an item is read for all lanes
 *   right   [BLOCK_SIZE_K][width]: rows side by side, a lane each
 *   sums    [BLOCK_SIZE_M][BLOCK_SIZE_N]
 *   rests   i32, left [BLOCK_SIZE_M][blocks], right [blocks][width]
 *
 * Sums begin anew with every such part and are added to those before, which keeps their rounding
 * small.
 *
 * Scales are folded into the elements as far as these stay normal f32 numbers. What is left of a
 * scale is its block's rest, an exponent; where there is one, sums begin anew with every block, and
 * the rests are multiplied in. */
#ifndef MXGEN_GEMM_HOST_H
#define MXGEN_GEMM_HOST_H

#include "templates/gemm_direct.h"

typedef struct gemm_host_side {
    mxe_element element;
    const char *data, *scales; /* arguments; scales NULL: none */
    const char *row_stride, *group_stride;
    const char *scale_row_stride, *scale_block_stride, *scale_group_stride;
    int block_bytes;
    int least_scale, most_scale; /* that are folded in whole */
} gemm_host_side;

typedef struct gemm_host_plan {
    mxgen_key key;
    bool cols;
    const mxgen_fma *unit; /* NULL: the target has none */
    gemm_grid grid;
    int depth;  /* BLOCK_SIZE_K */
    int blocks; /* of it */
    int lanes;
    int width;      /* columns of the register tile */
    int elem_bytes; /* of out */
    int left_at, right_at, sums_at, left_rests_at, right_rests_at, program_bytes;
    gemm_host_side side[2];
} gemm_host_plan;

/* The tile under way; all uniform i64. */
typedef struct gemm_host_work {
    const gemm_host_plan *p;
    mxe_value base;                /* the program's part of the workspace */
    mxe_value rows, columns;       /* of out that the tile has */
    mxe_value live;                /* of the rows, those that have a row of left */
    mxe_value live_up, columns_up; /* up to whole register tiles */
    mxe_value begin, end;          /* blocks of the contraction */
    mxe_value data[2], scales[2];  /* bytes, of the sides' first rows in the tile */
    mxe_value out;                 /* elements, of the tile's first */
} gemm_host_work;

/* Decodes blocks [at, at + n): of all the tile's rows of left; of `width` rows of right from number
 * `column` of the tile on. Returns whether one has a rest: uniform i1. */
mxe_value gemm_host_pack_left(mxe *e, const gemm_host_work *w, mxe_value at, mxe_value n);
mxe_value gemm_host_pack_right(mxe *e, const gemm_host_work *w, mxe_value column, mxe_value at,
                               mxe_value n);

/* i64, times a constant. */
mxe_value gemm_host_times(mxe *e, mxe_value a, int64_t by);
mxe_value gemm_host_plus(mxe *e, mxe_value a, int64_t more);

#endif
