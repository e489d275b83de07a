/* mx_tiles.c, and its walk over a tile on the host. */
#ifndef MXGEN_MX_TILES_H
#define MXGEN_MX_TILES_H

#include "gen/template.h"
#include "templates/mx_block.h"

typedef struct mx_tiles_plan {
    mxgen_key key;
    int vec, warps, block_m, block_n, staged;
    bool even;    /* rows are whole blocks */
    bool in_rows; /* host: whole blocks go by way of shared memory, see mx_tiles_host.c */
    int lanes, threads;
    int column_threads; /* that lie side by side along the columns */
    int passes;         /* blocks that a lane takes, one after the other */
    int block_elements, block_bytes, elem_bytes, record_align, image_bytes, column_bytes;
    bool hardware, options; /* OCP formats: by the target's conversions; all options */
    unsigned flags;
} mx_tiles_plan;

/* Where the tile stands, at kernel time. */
typedef struct mx_tiles_tile {
    mx_shape shape;
    mxe_value x_base, y_base;  /* i64: byte offset of the tile's first element */
    mxe_value packed;          /* i64: number of the tile's first block */
    mxe_value scales;          /* i64: byte offset of its scale */
    mxe_value columns, blocks; /* i32: of the tile that exist, 1 at least */
    mxe_value rows;   /* i32: elements along the axis from the tile's first on, cut to the tile */
    mxe_value thread; /* i32: in the program */
    bool in_rows;     /* host: elements and records are in shared memory */
} mx_tiles_tile;

/* A lane's block (and its neighbours in VEC columns). */
typedef struct mx_tiles_place {
    mxe_value block, column; /* i32, in the tile; clamped to what exists */
    mxe_value slot;          /* i32: the block that the lane would have */
    mxe_value slot_column;
    mxe_value rows; /* i32: of the block that exist, if not even */
    mxe_value live; /* i1, or NULL ref when always */
} mx_tiles_place;

/* In mx_tiles.c: a block of every lane, from where it lies to where it belongs. */
void mx_tiles_pass(mxe *e, const mx_tiles_plan *p, const mx_tiles_tile *t,
                   const mx_tiles_place *at);

/* In mx_tiles_host.c: shared memory, addresses in it (lanes are columns from at->column on), and
 * all of a tile. */
int mx_tiles_host_bytes(const mx_tiles_plan *p);
mxe_addr mx_tiles_host_element(mxe *e, const mx_tiles_plan *p, const mx_tiles_place *at, int row);
mxe_addr mx_tiles_host_record(mxe *e, const mx_tiles_plan *p, const mx_tiles_place *at);
void mx_tiles_on_host(mxe *e, const mx_tiles_plan *p, const mx_tiles_tile *t);

#endif
