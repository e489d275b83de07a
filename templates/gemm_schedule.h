/* Which tile of which group a program of grouped GEMM works on.
 *
 * Programs are persistent: program p takes tiles p, p + grid, .. of all groups in a row. Offsets
 * come from device memory and are not trusted: every bound is clamped into the tensor and to what
 * went before, so that groups neither overlap nor leave the buffers.
 *
 * gemm_rows: two groups are added, of the rows of `out` that nobody owns at the end, which have no
 * rows of `left` and become zero (none with `accumulate`). gemm_cols: group g contracts over
 * [k_begin, k_end). */
#ifndef MXGEN_GEMM_SCHEDULE_H
#define MXGEN_GEMM_SCHEDULE_H

#include "gen/template.h"

enum {
    GEMM_STRIP = 8,  /* rows that stand together in the workspace */
    GEMM_BLOCK = 32, /* elements of a scale; gemm_cols: what group bounds are multiples of */
    GEMM_RUN = 128   /* elements that a row is counted in in the workspace */
};

typedef struct gemm_grid {
    mxgen_pass pass;
    int block_m, block_n; /* elements of `out` */
    int group_size_m;     /* rows of tiles walked together */
    int num_xcds, chunk;  /* chiplets to which neighbouring programs are dealt; 1: none */
} gemm_grid;

/* The tile under way; all uniform i64. */
typedef struct gemm_tile {
    mxe_value group;
    mxe_value rows;     /* of `out` that the group has, 0 .. */
    mxe_value valid;    /* of these, rows with a row of `left`: at most `rows` */
    mxe_value out_row;  /* gemm_rows: the group's first row in `out` */
    mxe_value left_row; /* gemm_rows: and in `left` */
    mxe_value strip;    /* gemm_rows: the group's first strip: out_row / GEMM_STRIP + group, so
                         * that no two groups share one and nothing has to be counted */
    mxe_value tile_m, tile_n; /* within the group */
    mxe_value k_begin, k_end; /* gemm_cols */
    mxe_value first_run;      /* gemm_cols: runs of GEMM_RUN before the group's */
} gemm_tile;

typedef struct gemm_walk {
    mxe_while loop;
    mxe_var tile, group, first, rows, valid, out_row, left_row;
    mxe_value grid;
} gemm_walk;

/* Of uniform i64 below 2^31, in 32 bits. */
void gemm_divide(mxe *e, mxe_value a, mxe_value b, mxe_value *quotient, mxe_value *rest);

/* Arguments that the walk and the status word need. */
void gemm_describe_walk(mxgen_kernel *kernel, mxgen_pass pass);

/* Between these stands what is done for a tile. All threads of the program walk alike. */
void gemm_walk_begin(mxe *e, gemm_walk *walk, const gemm_grid *grid, gemm_tile *tile);
void gemm_walk_end(mxe *e, gemm_walk *walk);

/* gemm_rows: the group to which strip number `strip` of the workspace belongs, as if it were a
 * tile; tile->rows is 0 where it is nobody's, else tile->tile_m is the strip within the group.
 * Targets with MXGEN_CAP_TILE_MMA. */
void gemm_find_strip(mxe *e, mxe_value strip, gemm_tile *tile);
/* gemm_cols: the bounds of a group, and its place among the runs: no two groups share one, and
 * there are m / GEMM_RUN + groups. */
void gemm_group_bounds(mxe *e, mxe_value group, gemm_tile *tile);

/* The first lane of this warp of the first program writes the status word. */
void gemm_write_status(mxe *e, mxgen_pass pass, int warp);

#endif
