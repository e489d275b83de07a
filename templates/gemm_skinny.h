/* Grouped GEMM of few rows a group: the weights are read once, as a stream, and all else is small.
 *
 * A unit of work is 16 or 32 rows of the packed right operand (columns of out) times at most 16
 * rows of a group of the left one. All groups' units are in a row, and a program takes a run of
 * them, so that it reads one long piece of memory. Rows come by bulk copies into a ring of shared
 * memory, as many units ahead as fit. The warps of the program share the contraction: each has
 * `blocks` blocks of 32 of the left operand decoded in registers for as long as the run stays in
 * the group, multiplies them by the same blocks of every unit, and scales the product of each block
 * in f32. The warps' sums of a unit meet in shared memory, where they are added in the warps'
 * order.
 *
 * Blocks are multiplied without their scales, so that all scales are good and the products exact.
 */
#ifndef MXGEN_GEMM_SKINNY_H
#define MXGEN_GEMM_SKINNY_H

#include "gen/emit_fragment.h"
#include "gen/template.h"
#include "templates/gemm_schedule.h"

enum {
    SKINNY_SCALE_BYTES = 64, /* of a block, all 16 rows of left */
    SKINNY_ROWS = 16,        /* of left in a unit, and of right that a warp multiplies at once */
    SKINNY_MOST_TILES = 2,   /* of these in a unit */
    SKINNY_MOST_BLOCKS = 16,
    SKINNY_MOST_STAGES = 16,
    SKINNY_SETS = 4 /* of sums: a warp may be a unit ahead of others, which still add up */
};

typedef struct skinny_plan {
    mxgen_key key;
    int warps, blocks;        /* blocks of a warp */
    int columns, tiles;       /* rows of right in a unit; 16 each */
    int left_rows;            /* of a unit's 16 that a warp adds up */
    int sum_pitch, sum_bytes; /* floats from row to row of left in a warp's sums; all of them */
    mx_dtype half;            /* what operands are multiplied as */
    int exponent;             /* products are 2^-exponent of what they should be */
    int left_words;           /* that a lane has of a block of the left operand, in memory */
    /* Shared memory: the ring; sets of the warps' sums; the left operand's scales; signals of the
     * ring's stages, then of the sets. */
    int ring_bytes, sums_at, scales_at, signals_at, lds_bytes;
} skinny_plan;

/* A run of units within a group: consecutive rows of its right operand. */
typedef struct skinny_run {
    mxe_value group;             /* i64 */
    mxe_value out_row, left_row; /* i64: first rows of the unit's 16 */
    mxe_value rows, valid;       /* i32: of these, rows of out, and rows that have a left one */
    mxe_value column;            /* i32: the first unit's number within the group */
} skinny_run;

/* What a program's warp knows. */
typedef struct skinny_work {
    const skinny_plan *p;
    mxe_value lane, row, quarter; /* i32: lane, lane / 4, lane % 4 */
    mxe_value n_blocks;           /* i32: of the contraction */
    mxe_value first, count;       /* i32: the warp's blocks of them */
    mxe_value pitch, stage_bytes; /* i32: of a row and a unit in the ring */
    mxe_value stages;             /* i32 */
    mxe_value tiles_n, end;       /* i32: units of a group's 16 rows of left; the run's end */
    mxe_var stage, parity;        /* i32: of the ring, where the next unit is read */
    mxe_var next, left, column;   /* i32: unit to be copied; how many are left in its group */
    mxe_var group_at;             /* i64: its group's rows begin here */
    mxe_var turn;                 /* i32: units before this one */
    mxe_var words[2][SKINNY_MOST_BLOCKS][MXE_FRAGMENT_WORDS]; /* the left operand's fragments */
    mxe_var sums[SKINNY_MOST_TILES][2][4];
    mxe_var scale[2 * SKINNY_MOST_TILES][SKINNY_MOST_BLOCKS / 4]; /* i32: bytes, the next unit's */
    mxe_value scale_at[SKINNY_MOST_BLOCKS / 4]; /* i32: of the lane's blocks in a row of scales */
    mxe_value lane_bytes[SKINNY_MOST_BLOCKS];   /* i32: where the lane's rows stand in a stage */
    mxe_value sums_to, sums_from; /* i32: where the lane writes its sums, and reads all warps' */
} skinny_work;

/* All groups: counts of 16 rows of left operands, and the end of the rows that have an owner. */
typedef struct skinny_total {
    mxe_value tiles;   /* i32 */
    mxe_value out_end; /* i64 */
} skinny_total;

skinny_total skinny_count(mxe *e);
/* The run that `unit` (i32) is in; tiles_n are the units that share rows of left. */
void skinny_find(mxe *e, mxe_value unit, mxe_value tiles_n, skinny_run *out);
/* One warp writes the status word. */
void skinny_write_status(mxe *e);

/* A parameter's low half. */
static inline mxe_value skinny_param(mxe *e, const char *name)
{
    return mxe_zext(e, mxe_param(e, name), MXE_I32);
}

/* The E8M0 scale of a byte (i32) as f32, 2^-127 and NaN, too. */
mxe_value skinny_scale(mxe *e, mxe_value byte);
/* Where the scales of a warp's first block of left stand in shared memory, those of a lane's four
 * columns together, other blocks SKINNY_SCALE_BYTES on; i64. */
mxe_value skinny_scales_at(mxe *e, const skinny_plan *p);

/* The warp's blocks of the run's rows of left into registers, and their scales. */
void skinny_load_left(mxe *e, skinny_work *g, const skinny_run *run);

/* Asks for the scales of the unit `column` of the run. */
void skinny_load_scales(mxe *e, skinny_work *g, const skinny_run *run, mxe_value column);
/* The warp's sums of the unit in the ring's stage, whose scales were asked for; asks for those of
 * the unit `next`. Not for warps without blocks. */
void skinny_multiply(mxe *e, skinny_work *g, const skinny_run *run, mxe_value stage,
                     mxe_value next);
/* The warp's sums into shared memory, as those of unit number `turn` (i32) of the program; a wait
 * for those of all warps, after which none reads the unit's stage; then all warps' into out. A warp
 * waits for the unit before only when it has written those of the next, so that what one does
 * between units goes on beside another's products. */
void skinny_write_sums(mxe *e, skinny_work *g, mxe_value turn);
void skinny_wait_sums(mxe *e, skinny_work *g, mxe_value turn);
void skinny_add_up(mxe *e, skinny_work *g, const skinny_run *run, mxe_value column, mxe_value turn);

#endif
