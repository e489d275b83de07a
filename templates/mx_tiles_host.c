/* A tile on the host, where a lane is a column.
 *
 * Rows of a tensor lie a power of two apart more often than not, and so do columns' records; then
 * they share few places in the first cache, and of a line only one vector or record would be used
 * before it leaves. So a block's rows are moved whole, between the tensor and shared memory, and
 * records a cache line at a time. The last rows that are no whole block, and the last columns that
 * are no whole vector, go directly. */
#include "templates/mx_tiles.h"

enum { CACHE_LINE = 64, MOST_ITEMS = 16 };

typedef mx_tiles_plan plan;
typedef mx_tiles_tile tile;
typedef mx_tiles_place place;

/* Bytes of a row of the tile. */
static int row_image(const plan *p)
{
    return p->block_n * p->elem_bytes;
}

static int rows_image(const plan *p)
{
    return p->block_elements * row_image(p);
}

/* Blocks of a column whose records fill a cache line. */
static int group_of(const plan *p)
{
    int group = 1;
    while (group < p->block_m && group * p->block_bytes < CACHE_LINE)
        group *= 2;
    return group;
}

static int column_image(const plan *p)
{
    return p->key.op == MX_OP_QDQ ? 0 : group_of(p) * p->block_bytes;
}

int mx_tiles_host_bytes(const plan *p)
{
    return rows_image(p) + p->block_n * column_image(p);
}

mxe_addr mx_tiles_host_element(mxe *e, const plan *p, const place *at, int row)
{
    mxe_value column = mxe_mul(e, at->column, mxe_i32(e, p->elem_bytes));
    mxe_addr addr = {.lane_stride = p->elem_bytes};
    addr.uniform = mxe_add(e, mxe_zext(e, column, MXE_I64), mxe_i64(e, row * row_image(p)));
    return addr;
}

/* Of block `block` of a group, from column `column` on; both i64. */
static mxe_addr record_image(mxe *e, const plan *p, mxe_value column, mxe_value block)
{
    mxe_addr addr = {.lane_stride = column_image(p)};
    addr.uniform = mxe_add(e, mxe_mul(e, column, mxe_i64(e, column_image(p))),
                           mxe_mul(e, block, mxe_i64(e, p->block_bytes)));
    addr.uniform = mxe_add(e, addr.uniform, mxe_i64(e, rows_image(p)));
    return addr;
}

mxe_addr mx_tiles_host_record(mxe *e, const plan *p, const place *at)
{
    mxe_value block = mxe_and(e, at->block, mxe_i32(e, group_of(p) - 1));
    return record_image(e, p, mxe_zext(e, at->column, MXE_I64), mxe_zext(e, block, MXE_I64));
}

/* ---- Rows ---- */

/* Row i of a block. */
static mxe_value row_offset(mxe *e, const plan *p, mxe_value base, const char *stride,
                            mxe_value block, mxe_value i)
{
    mxe_value row = mxe_mul(e, block, mxe_i64(e, p->block_elements));
    row = mxe_mul(e, mxe_add(e, row, i), mxe_param(e, stride));
    return mxe_add(e, base, mxe_mul(e, row, mxe_i64(e, p->elem_bytes)));
}

/* A vector at byte `at` of a row, i64. */
static void move_vector(mxe *e, const plan *p, mxe_addr row, mxe_addr image, mxe_value at,
                        bool to_row)
{
    mxe_type type = p->elem_bytes == 4 ? MXE_I32 : MXE_I16;
    mxe_value items;
    row.uniform = mxe_add(e, row.uniform, at);
    image.uniform = mxe_add(e, image.uniform, at);
    row.lane_stride = image.lane_stride = p->elem_bytes;
    mxe_load(e, to_row ? image : row, type, 1, p->elem_bytes, 0, &items);
    mxe_store(e, to_row ? row : image, type, 1, p->elem_bytes, 0, mxe_always(), &items);
}

/* A row of the whole tile, in vectors as wide as there are; with `flags` aligned to them. */
static void move_row(mxe *e, const plan *p, mxe_addr row, mxe_addr image, bool to_row,
                     unsigned flags)
{
    int vector = 4 * p->lanes, align_bytes = flags ? vector : p->elem_bytes;
    for (int byte = 0; byte < row_image(p); byte += vector) {
        mxe_addr from = to_row ? image : row, to = to_row ? row : image;
        mxe_value items;
        from.uniform = mxe_add(e, from.uniform, mxe_i64(e, byte));
        to.uniform = mxe_add(e, to.uniform, mxe_i64(e, byte));
        from.lane_stride = to.lane_stride = 4;
        mxe_load(e, from, MXE_I32, 1, p->elem_bytes, 0, &items);
        mxe_store(e, to, MXE_I32, 1, align_bytes, flags, mxe_always(), &items);
    }
}

/* Columns from 0 to `whole`, i64, of a block's rows. */
static void move_rows(mxe *e, const plan *p, const tile *t, mxe_value block, mxe_value whole,
                      bool to_rows)
{
    mxe_loop rows, columns;
    mxe_branch branch, pass;
    mxe_value size = mxe_i64(e, p->elem_bytes);
    mxe_value i =
        mxe_for_begin(e, &rows, mxe_i64(e, 0), mxe_i64(e, p->block_elements), mxe_i64(e, 1));
    mxe_addr row = {.pointer = to_rows ? "y" : "x"}, image = {.pointer = NULL};
    row.uniform = row_offset(e, p, to_rows ? t->y_base : t->x_base,
                             to_rows ? "y_axis_stride" : "x_axis_stride", block, i);
    image.uniform = mxe_mul(e, i, mxe_i64(e, row_image(p)));
    mxe_if_begin(e, &branch, mxe_eq(e, whole, mxe_i64(e, p->block_n)));
    if (to_rows) {
        mxe_if_begin(e, &pass, mxe_ne(e, mxe_param(e, "stream"), mxe_i32(e, 0)));
        move_row(e, p, row, image, true, MXE_STREAM);
        mxe_if_else(e, &pass);
    }
    move_row(e, p, row, image, to_rows, 0);
    if (to_rows)
        mxe_if_end(e, &pass);
    mxe_if_else(e, &branch);
    mxe_value n = mxe_for_begin(e, &columns, mxe_i64(e, 0), whole, mxe_i64(e, p->lanes));
    move_vector(e, p, row, image, mxe_mul(e, n, size), to_rows);
    mxe_for_end(e, &columns);
    mxe_if_end(e, &branch);
    mxe_for_end(e, &rows);
}

/* Asks for the columns from `column` on, i64, of the next block's rows. */
static void prefetch_rows(mxe *e, const plan *p, const tile *t, mxe_value block, mxe_value column)
{
    mxe_value next = mxe_add(e, block, mxe_i64(e, 1));
    mxe_value base = mxe_add(e, t->x_base, mxe_mul(e, column, mxe_i64(e, p->elem_bytes)));
    /* One lane's place is all lanes'. */
    mxe_scalar_begin(e);
    for (int i = 0; i < p->block_elements; i++) {
        mxe_addr addr = {.pointer = "x"};
        addr.uniform = row_offset(e, p, base, "x_axis_stride", next, mxe_i64(e, i));
        mxe_prefetch(e, addr);
    }
    mxe_scalar_end(e);
}

/* ---- Records ---- */

/* `bytes` of every lane's. */
static void copy_bytes(mxe *e, const plan *p, mxe_addr to, mxe_addr from, int bytes)
{
    mxe_type type = bytes % 4 ? MXE_I16 : MXE_I32;
    int size = type == MXE_I32 ? 4 : 2;
    for (int byte = 0; byte < bytes; byte += MOST_ITEMS * size) {
        int left = (bytes - byte) / size;
        mxe_copy(e, to, from, type, left < MOST_ITEMS ? left : MOST_ITEMS, p->record_align, 0,
                 mxe_always());
        to.uniform = mxe_add(e, to.uniform, mxe_i64(e, MOST_ITEMS * size));
        from.uniform = mxe_add(e, from.uniform, mxe_i64(e, MOST_ITEMS * size));
    }
}

/* The records of `count` blocks, i64, from block `first` on, of columns from 0 to `whole`. */
static void move_records(mxe *e, const plan *p, const tile *t, mxe_value first, mxe_value count,
                         mxe_value whole)
{
    mxe_loop columns, blocks;
    mxe_branch branch;
    bool to_image = p->key.op == MX_OP_FROM;
    mxe_value bytes = mxe_i64(e, p->block_bytes), zero = mxe_i64(e, 0);
    mxe_value n = mxe_for_begin(e, &columns, zero, whole, mxe_i64(e, p->lanes));
    mxe_value number = mxe_mul(e, n, mxe_param(e, "column_blocks"));
    number = mxe_add(e, mxe_add(e, t->packed, first), number);
    mxe_addr records = {.pointer = "p", .uniform = mxe_mul(e, number, bytes)};
    records.lane_step = mxe_mul(e, mxe_param(e, "column_blocks"), bytes);
    mxe_addr image = record_image(e, p, n, zero);
    mxe_if_begin(e, &branch, mxe_eq(e, count, mxe_i64(e, group_of(p))));
    copy_bytes(e, p, to_image ? image : records, to_image ? records : image, column_image(p));
    mxe_if_else(e, &branch);
    mxe_value b = mxe_for_begin(e, &blocks, zero, count, mxe_i64(e, 1));
    image.uniform = mxe_add(e, image.uniform, mxe_mul(e, b, bytes));
    records.uniform = mxe_add(e, records.uniform, mxe_mul(e, b, bytes));
    copy_bytes(e, p, to_image ? image : records, to_image ? records : image, p->block_bytes);
    mxe_for_end(e, &blocks);
    mxe_if_end(e, &branch);
    mxe_for_end(e, &columns);
}

/* ---- The tile ---- */

/* Columns up to `whole` by vectors, then the rest one by one; `p` says whether the block is whole.
 */
static void columns_of(mxe *e, const plan *p, const tile *t, mxe_value block, mxe_value whole)
{
    mxe_loop loop;
    tile groups = *t;
    place at = {.live = mxe_always()};
    at.block = at.slot = mxe_zext(e, block, MXE_I32);
    at.rows = mxe_sub(e, t->rows, mxe_mul(e, at.block, mxe_i32(e, p->block_elements)));
    groups.in_rows = p->even;
    if (p->even && p->key.op != MX_OP_FROM)
        move_rows(e, p, t, block, whole, false);
    mxe_value n = mxe_for_begin(e, &loop, mxe_i64(e, 0), whole, mxe_i64(e, p->lanes));
    at.column = at.slot_column = mxe_zext(e, n, MXE_I32);
    if (p->even && p->key.op != MX_OP_FROM)
        prefetch_rows(e, p, t, block, n);
    mx_tiles_pass(e, p, &groups, &at);
    mxe_for_end(e, &loop);
    if (p->even && p->key.op != MX_OP_TO)
        move_rows(e, p, t, block, whole, true);
    mxe_scalar_begin(e);
    n = mxe_for_begin(e, &loop, whole, mxe_zext(e, t->columns, MXE_I64), mxe_i64(e, 1));
    at.column = at.slot_column = mxe_zext(e, n, MXE_I32);
    mx_tiles_pass(e, p, t, &at);
    mxe_for_end(e, &loop);
    mxe_scalar_end(e);
}

void mx_tiles_on_host(mxe *e, const plan *p, const tile *t)
{
    mxe_loop groups, blocks;
    mxe_branch branch;
    plan whole = *p, ragged = *p;
    int group = group_of(p), shift = __builtin_ctz((unsigned)p->block_elements);
    whole.even = true;
    ragged.even = false;
    mxe_value columns = mxe_zext(e, t->columns, MXE_I64), one = mxe_i64(e, 1);
    columns = mxe_and(e, columns, mxe_i64(e, ~(int64_t)(p->lanes - 1)));
    mxe_value n_whole = mxe_zext(e, mxe_lshr(e, t->rows, mxe_i32(e, shift)), MXE_I64);
    mxe_value m = mxe_for_begin(e, &groups, mxe_i64(e, 0), n_whole, mxe_i64(e, group));
    mxe_value count = mxe_umin(e, mxe_sub(e, n_whole, m), mxe_i64(e, group));
    if (p->key.op == MX_OP_FROM)
        move_records(e, p, t, m, count, columns);
    mxe_value b = mxe_for_begin(e, &blocks, mxe_i64(e, 0), count, one);
    columns_of(e, &whole, t, mxe_add(e, m, b), columns);
    mxe_for_end(e, &blocks);
    if (p->key.op == MX_OP_TO)
        move_records(e, p, t, m, count, columns);
    mxe_for_end(e, &groups);
    if (!p->even) {
        mxe_if_begin(e, &branch, mxe_slt(e, n_whole, mxe_zext(e, t->blocks, MXE_I64)));
        columns_of(e, &ragged, t, n_whole, columns);
        mxe_if_end(e, &branch);
    }
    if (p->key.op != MX_OP_TO)
        mxe_stream_end(e);
}
