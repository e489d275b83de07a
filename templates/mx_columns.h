/* What kernels share that make columns of a tensor from tiles of its rows: mx_pair.c,
 * mx_pair_general.c, mx_turn.c. */
#ifndef MXGEN_MX_COLUMNS_H
#define MXGEN_MX_COLUMNS_H

#include "templates/mx_block.h"

/* The rows of a tensor that padded rows from `at` on are, and where their group's rows end. */
typedef struct mx_group {
    mxe_value first, end; /* i64 */
} mx_group;

/* Walks all groups (arguments g, o, groups, group_align, rows), so that the first program can tell
 * where each begins. Past the last group there are no rows. `wide`: padded rows may need more than
 * 31 bits. */
mx_group mx_group_find(mxe *e, mxe_value at, mxe_value thread, bool wide);

/* Shared memory with 32 rows of `columns` elements, so that lanes that go down columns meet no
 * bank twice, nor do lanes that each go along a block of a row. */
typedef struct mx_image {
    int columns, elem_bytes;
    mx_dtype dtype;
} mx_image;

mx_image mx_image_of(mx_dtype dtype, int columns);
int mx_image_bytes(const mx_image *image);
int mx_image_row_bytes(const mx_image *image);
/* The place of a column in the first row, and of a row's block: i32. */
mxe_value mx_image_column(mxe *e, const mx_image *image, mxe_value column);
mxe_value mx_image_block(mxe *e, const mx_image *image, mxe_value row, mxe_value block);
/* Elements as mx_split_words has them. */
void mx_image_put(mxe *e, const mx_image *image, mxe_value place, mxe_value raw);
/* A block of elements `step` bytes (i32) apart. */
void mx_image_get(mxe *e, const mx_image *image, mxe_value place, mxe_value step, mxe_value *raw);
void mx_image_put_block(mxe *e, const mx_image *image, mxe_value place, const mxe_value *raw);

/* Where a program's records of whole columns lie in shared memory and leave it. */
typedef struct mx_column_records {
    int columns;      /* of the program's tile */
    int blocks;       /* of each */
    int block_bytes;  /* blocks * block_bytes is a multiple of 16 */
    int column_bytes; /* between columns in shared memory */
    int offset_bytes; /* of the first one there */
    int threads;
} mx_column_records;

/* To c + base, `stride` bytes (i64) apart; column number first_column + i is there where it is
 * below the argument len. Of the blocks only those below `limit` (i64, even in runs of 16 bytes;
 * NULL ref: all) are stored. */
void mx_columns_flush(mxe *e, const mx_column_records *r, mxe_value thread, mxe_value first_column,
                      mxe_value base, mxe_value stride, mxe_value limit);

/* A column's scales of four blocks from `block` (i64, uniform) on, a byte each of `scales` (i32):
 * column number `row` (i64) of the argument t, at once where they lie side by side in a word. Those
 * from per_column (i64) on are not there. */
void mx_columns_store_scales(mxe *e, mxe_value scales, mxe_value row, mxe_value block,
                             mxe_value per_column, mxe_value when);

#endif
