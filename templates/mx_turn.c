/* Packed blocks of rows turned to blocks of columns, in one pass: `from` kernels of layout pair.
 *
 * A program has a tile of 128 rows and 128 elements of them, 32 rows at a time: each thread decodes
 * a block into shared memory and then encodes a column from there. What becomes of the columns
 * meets in shared memory, too, and leaves it as runs of four blocks. */
#include "gen/template.h"

#include <stdio.h>

#include "templates/mx_columns.h"
#include "templates/mx_launch.h"
#include "templates/mx_ocp.h"

enum {
    THREADS = 128, /* and columns */
    ROW_BLOCKS = THREADS / MX_OCP_BLOCK,
    STRIPES = 4, /* of 32 rows */
    TILE_ROWS = STRIPES * MX_OCP_BLOCK,
    BATCH_DIMS = 2,
    CHUNK = 16,
    ONE_SCALE = 127
};

typedef struct plan {
    mxgen_key key;
    int warps, lanes, block_bytes, record_align, column_bytes;
    bool options;
    mx_image image;
} plan;

static plan plan_of(const mxgen_spec *spec)
{
    plan p = {.key = spec->key};
    p.warps = mxgen_spec_param(spec, "num_warps");
    p.options = mxgen_spec_param(spec, "OPTIONS") == 1;
    p.lanes = spec->target->lanes;
    p.block_bytes = mx_format_get(p.key.format)->block_bytes;
    p.record_align = mx_record_align(p.key.format);
    p.column_bytes = STRIPES * p.block_bytes + CHUNK; /* against bank conflicts */
    p.image = mx_image_of(p.key.dtype, THREADS);
    return p;
}

/* What the columns are encoded as: a `to` of the same format and type. */
static mxgen_spec writing(const mxgen_spec *spec)
{
    mxgen_spec to = *spec;
    to.key.op = MX_OP_TO;
    return to;
}

typedef struct tile {
    mx_shape row, column;
    mxe_value thread;     /* i32 */
    mxe_value from, to;   /* i64: the matrix' first row among those read, those written */
    mxe_value first, n;   /* i64: the tile's first row, and its first element of a row */
    mxe_value per_column; /* i64: blocks */
    mxe_value out_row;    /* i64: that of the thread's column */
    mxe_value inside;     /* i1: the column is there */
    mxe_var scales;       /* i32: of the thread's column, a byte a stripe */
} tile;

static mxe_value per_block(mxe *e, mxe_value elements)
{
    return mxe_lshr(e, elements, mxe_i64(e, __builtin_ctz(MX_OCP_BLOCK)));
}

/* ---- Rows ---- */

/* The thread's block of a stripe's rows to shared memory; zeros where there is no row. */
static void decode_row(mxe *e, const plan *p, const tile *t, mxe_value first)
{
    mx_record record;
    mx_codes codes;
    mxe_value raw[MX_MOST_ELEMENTS], byte, zero = mxe_i64(e, 0), bpr = mxe_param(e, "bpr");
    mxe_value part = mxe_and(e, t->thread, mxe_i32(e, ROW_BLOCKS - 1));
    mxe_value in_stripe = mxe_lshr(e, t->thread, mxe_i32(e, __builtin_ctz(ROW_BLOCKS)));
    mxe_value row = mxe_add(e, first, mxe_zext(e, in_stripe, MXE_I64));
    mxe_value k = mxe_add(e, per_block(e, t->n), mxe_zext(e, part, MXE_I64));
    mxe_value live = mxe_and(e, mxe_slt(e, row, mxe_param(e, "m")), mxe_slt(e, k, bpr));
    row = mxe_add(e, t->from, mxe_mul(e, row, mxe_param(e, "row_step")));
    row = mxe_select(e, live, row, zero);
    k = mxe_select(e, live, k, zero);
    mxe_value number = mxe_add(e, mxe_mul(e, row, bpr), k);
    mxe_addr block = {.pointer = "p",
                      .varying = mxe_mul(e, number, mxe_param(e, "p_block_stride"))};
    mxe_addr scale = {.pointer = "s"};
    scale.varying = mxe_add(e, mxe_mul(e, row, mxe_param(e, "s_row_stride")),
                            mxe_mul(e, k, mxe_param(e, "s_block_stride")));
    mx_record_to_load(&t->row, &record);
    mx_record_load(e, &t->row, &record, block, p->record_align, MXE_STREAM);
    mxe_load(e, scale, MXE_I8, 1, 1, 0, &byte);
    mx_unpack(e, &t->row, &record, &codes);
    for (int i = 0; i < p->block_bytes / 4; i++)
        codes.words[i] = mxe_select(e, live, codes.words[i], mxe_i32(e, 0));
    codes.header = mxe_select(e, live, mxe_zext(e, byte, MXE_I32), mxe_i32(e, ONE_SCALE));
    mx_decode(e, &t->row, &codes, NULL, raw);
    mx_image_put_block(e, &p->image, mx_image_block(e, &p->image, in_stripe, part), raw);
}

/* ---- Columns ---- */

static void encode_column(mxe *e, const plan *p, const tile *t, mxe_value stripe, mxe_value block)
{
    mxe_value raw[MX_MOST_ELEMENTS], number = mxe_zext(e, stripe, MXE_I32);
    mx_record record;
    mx_codes codes;
    mx_shape shape = t->column;
    mx_image_get(e, &p->image, mx_image_column(e, &p->image, t->thread),
                 mxe_i32(e, mx_image_row_bytes(&p->image)), raw);
    mxe_value position = mxe_add(e, mxe_mul(e, t->out_row, t->per_column), block);
    shape.position = mxe_mul(e, position, mxe_i64(e, MX_OCP_BLOCK / 4));
    mx_encode(e, &shape, raw, &codes);
    mx_pack(e, &shape, &codes, &record);
    mxe_addr to = {.pointer = NULL, .uniform = mxe_i64(e, mx_image_bytes(&p->image))};
    to.varying = mxe_add(e, mxe_mul(e, t->thread, mxe_i32(e, p->column_bytes)),
                         mxe_mul(e, number, mxe_i32(e, p->block_bytes)));
    mx_record_store(e, &shape, &record, to, p->record_align, 0, mxe_always());
    mxe_value byte = mxe_shl(e, codes.header, mxe_shl(e, number, mxe_i32(e, 3)));
    mxe_var_set(e, t->scales, mxe_or(e, mxe_var_get(e, t->scales), byte));
}

static void flush_columns(mxe *e, const plan *p, const tile *t, mxe_value block)
{
    const mx_column_records records = {.columns = THREADS,
                                       .blocks = STRIPES,
                                       .block_bytes = p->block_bytes,
                                       .column_bytes = p->column_bytes,
                                       .offset_bytes = mx_image_bytes(&p->image),
                                       .threads = THREADS};
    mxe_value stride = mxe_mul(e, mxe_param(e, "column_step"), mxe_param(e, "c_row_stride"));
    mxe_value base =
        mxe_add(e, mxe_mul(e, t->to, mxe_param(e, "c_row_stride")), mxe_mul(e, t->n, stride));
    base = mxe_add(e, base, mxe_mul(e, block, mxe_i64(e, p->block_bytes)));
    mx_columns_flush(e, &records, t->thread, t->n, base, stride, mxe_sub(e, t->per_column, block));
}

/* program -> tile along the columns, tile along the rows, matrix. */
static void place_tile(mxe *e, tile *t)
{
    mxe_value rest, tile_m, tile_n;
    mx_divide(e, mxe_program_id(e), mxe_param(e, "row_tiles"), &rest, &tile_m);
    mx_divide(e, rest, mxe_param(e, "n_tiles"), &rest, &tile_n);
    t->first = mxe_mul(e, tile_m, mxe_i64(e, TILE_ROWS));
    t->n = mxe_mul(e, tile_n, mxe_i64(e, THREADS));
    t->from = mx_row_offset(e, "x_stride", BATCH_DIMS, MXE_I64, rest);
    t->to = mx_row_offset(e, "y_stride", BATCH_DIMS, MXE_I64, rest);
    mxe_value column = mxe_add(e, t->n, mxe_zext(e, t->thread, MXE_I64));
    t->inside = mxe_slt(e, column, mxe_param(e, "len"));
    t->out_row = mxe_add(e, t->to, mxe_mul(e, column, mxe_param(e, "column_step")));
    t->per_column = per_block(e, mxe_param(e, "capacity"));
}

static void emit(mxe *e, const mxgen_spec *spec, const mxgen_kernel *kernel)
{
    plan p = plan_of(spec);
    const mxgen_spec to = writing(spec);
    mxe_loop loop;
    tile t = {
        .row = {.format = p.key.format, .dtype = p.key.dtype, .lanes = 1, .count = MX_OCP_BLOCK}};
    mxe_lds_reserve(e, kernel->lds_bytes);
    t.row.part = mxe_i32(e, 0);
    t.column = t.row;
    t.column.options = p.options;
    t.column.hardware = mx_converts(&to);
    t.thread = mxe_add(e, mxe_mul(e, mxe_warp(e), mxe_i32(e, p.lanes)), mxe_lane(e));
    t.scales = mxe_var_new(e, mxe_varying(e, mxe_i32(e, 0)));
    place_tile(e, &t);
    mxe_value block = per_block(e, t.first);
    mxe_value i = mxe_for_begin(e, &loop, mxe_i64(e, 0), mxe_i64(e, STRIPES), mxe_i64(e, 1));
    decode_row(e, &p, &t, mxe_add(e, t.first, mxe_mul(e, i, mxe_i64(e, MX_OCP_BLOCK))));
    mxe_barrier(e);
    encode_column(e, &p, &t, i, mxe_add(e, block, i));
    mxe_barrier(e);
    mxe_for_end(e, &loop);
    mx_columns_store_scales(e, mxe_var_get(e, t.scales), t.out_row, block, t.per_column, t.inside);
    flush_columns(e, &p, &t, block);
}

/* ---- Descriptor ---- */

static const int warps_values[] = {2, 4}, flag_values[] = {0, 1};

#define VALUES(v) v, sizeof(v) / sizeof((v)[0])
static const mxgen_param params[] = {
    {"num_warps", VALUES(warps_values)},
    {"OPTIONS", VALUES(flag_values)},
};

static bool applies(const mxgen_spec *spec, char *why, size_t why_bytes)
{
    plan p = plan_of(spec);
    if (p.key.op != MX_OP_FROM || spec->target->simd_width > 1)
        return snprintf(why, why_bytes, "blocks are turned on GPUs, by `from`"), false;
    if (p.warps * p.lanes != THREADS)
        return snprintf(why, why_bytes, "num_warps %d: a program has %d threads, warps have %d",
                        p.warps, THREADS, p.lanes),
               false;
    return true;
}

static bool explored(const mxgen_spec *spec)
{
    (void)spec;
    return true;
}

static void describe_memory(mxgen_kernel *kernel, const plan *p)
{
    int align = p->record_align;
    mxgen_kernel_pointer(kernel, "p", MXE_ARG_NOALIAS | MXE_ARG_READONLY, align);
    mxgen_kernel_pointer(kernel, "c", MXE_ARG_NOALIAS | MXE_ARG_WRITEONLY, CHUNK);
    mxgen_kernel_pointer(kernel, "t", MXE_ARG_NOALIAS | MXE_ARG_WRITEONLY, 1);
    mxgen_kernel_rule(kernel, "the bytes of a packed block lie side by side", "p_byte_stride == 1");
    mxgen_kernel_rule(kernel, "packed blocks are aligned to the accesses",
                      "p_align >= %d && p_block_stride %% %d == 0", align, align);
    mxgen_kernel_rule(kernel, "columns are aligned to the stores",
                      "c_align >= %d && c_row_stride %% %d == 0", CHUNK, CHUNK);
    mxgen_kernel_rule(kernel, "matrices are counted in two dimensions at most", "n_dims <= %d",
                      BATCH_DIMS);
}

static void describe(const mxgen_spec *spec, mxgen_kernel *kernel)
{
    plan p = plan_of(spec);
    const mxgen_spec to = writing(spec);
    char row_tiles[40], n_tiles[40];
    snprintf(row_tiles, sizeof(row_tiles), "ceil_div(tile_m, %d)", TILE_ROWS);
    snprintf(n_tiles, sizeof(n_tiles), "ceil_div(len, %d)", THREADS);
    kernel->threads = THREADS;
    kernel->lds_bytes = mx_image_bytes(&p.image) + THREADS * p.column_bytes;
    snprintf(kernel->grid_x, sizeof(kernel->grid_x), "rows / tile_m * %s * %s", n_tiles, row_tiles);
    describe_memory(kernel, &p);
    mx_describe_scales(kernel, &p.key);
    mx_describe_options(kernel, &to.key, p.options);
    mx_describe_blocks_alone(kernel, &p.key);
    mxgen_kernel_scalar(kernel, "m", MXE_ARG_I64, "tile_m");
    mxgen_kernel_scalar(kernel, "len", MXE_ARG_I64, "len");
    mxgen_kernel_scalar(kernel, "bpr", MXE_ARG_I64, "bpr");
    mxgen_kernel_scalar(kernel, "capacity", MXE_ARG_I64, "capacity");
    mxgen_kernel_scalar(kernel, "row_step", MXE_ARG_I64, "x_axis_stride");
    mxgen_kernel_scalar(kernel, "column_step", MXE_ARG_I64, "y_axis_stride");
    mxgen_kernel_scalar(kernel, "p_block_stride", MXE_ARG_I64, "p_block_stride");
    mxgen_kernel_scalar(kernel, "c_row_stride", MXE_ARG_I64, "c_row_stride");
    mxgen_kernel_scalar(kernel, "t_row_stride", MXE_ARG_I64, "t_row_stride");
    mxgen_kernel_scalar(kernel, "t_block_stride", MXE_ARG_I64, "t_block_stride");
    mxgen_kernel_scalar(kernel, "row_tiles", MXE_ARG_I64, "%s", row_tiles);
    mxgen_kernel_scalar(kernel, "n_tiles", MXE_ARG_I64, "%s", n_tiles);
    mx_describe_dims(kernel, MX_OP_QDQ, 0, BATCH_DIMS - 1);
}

static double cost(const mxgen_spec *spec)
{
    return mxgen_spec_param(spec, "OPTIONS") == 1 ? 4.0 : 1.0;
}

const mxgen_template mx_turn_template = {
    .name = "mx_turn",
    .formats = MX_ALL_FORMATS & ~MX_PACKED_FORMATS,
    .layouts = 1u << MX_LAYOUT_PAIR,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .applies = applies,
    .explored = explored,
    .describe = describe,
    .cost = cost,
    .emit = emit,
    .keeps_last = true,
};
