/* Rows and columns at once where mx_pair.c does not serve: any type, strides, padding and options.
 *
 * A program has 32 padded rows of one group and a column a thread, which leaves it in shared
 * memory. There are as many blocks in the rows as in the columns: each thread takes one of each. */
#include "gen/template.h"

#include <stdio.h>

#include "mxgen/pack.h"
#include "templates/mx_columns.h"
#include "templates/mx_launch.h"
#include "templates/mx_ocp.h"

enum { THREADS = 128, ROW_BLOCKS = THREADS / MX_OCP_BLOCK, IN_FLIGHT = 8 };

typedef struct plan {
    mxgen_key key;
    int warps, lanes, dims, elem_bytes, block_bytes, record_align;
    bool aligned; /* records are stored in runs */
    mx_image image;
} plan;

static plan plan_of(const mxgen_spec *spec)
{
    plan p = {.key = spec->key};
    p.warps = mxgen_spec_param(spec, "num_warps");
    p.lanes = spec->target->lanes;
    p.dims = mxgen_spec_param(spec, "DIMS");
    p.aligned = mxgen_spec_param(spec, "PACKED_RUNS") == 1;
    p.elem_bytes = mx_dtype_get(p.key.dtype)->bytes;
    p.block_bytes = mx_format_get(p.key.format)->block_bytes;
    p.record_align = mx_record_align(p.key.format);
    p.image = mx_image_of(p.key.dtype, THREADS);
    return p;
}

typedef struct tile {
    mx_shape shape;
    mxe_value thread; /* i32 */
    mx_group rows;
    mxe_value at, n;  /* i64: first padded row, first column */
    mxe_value column; /* i64: the thread's */
    mxe_value inside; /* i1: it is there */
} tile;

/* ---- Elements ---- */

/* The element of the thread's column in a row of the tile (i64, uniform), 0 where there is none. */
static mxe_value load_element(mxe *e, const plan *p, const tile *t, mxe_value row)
{
    mxe_value zero = mxe_i64(e, 0), bytes = mxe_i64(e, p->elem_bytes), item, begin;
    mxe_value live = mxe_slt(e, row, t->rows.end);
    mxe_value column = mxe_select(e, t->inside, t->column, zero);
    begin = p->dims == 1 ? mxe_mul(e, row, mxe_param(e, "x_stride0"))
                         : mx_row_offset(e, "x_stride", p->dims, MXE_I64, row);
    mxe_addr addr = {.pointer = "x"};
    addr.uniform = mxe_mul(e, mxe_select(e, live, begin, zero), bytes);
    addr.varying = mxe_mul(e, mxe_mul(e, column, mxe_param(e, "x_axis_stride")), bytes);
    mxe_load(e, addr, p->elem_bytes == 4 ? MXE_I32 : MXE_I16, 1, p->elem_bytes, 0, &item);
    return mxe_select(e, mxe_and(e, live, t->inside), mxe_zext(e, item, MXE_I32), mxe_i32(e, 0));
}

/* Divisions find a row among several dimensions: too much code to repeat. */
static void load_column(mxe *e, const plan *p, const tile *t)
{
    mxe_loop loop;
    mxe_value raw[IN_FLIGHT];
    int n = p->dims == 1 ? IN_FLIGHT : 1;
    mxe_value place = mx_image_column(e, &p->image, t->thread);
    mxe_value i = mxe_for_begin(e, &loop, mxe_i64(e, 0), mxe_i64(e, MX_OCP_BLOCK), mxe_i64(e, n));
    mxe_value first = mxe_add(e, t->rows.first, i),
              step = mxe_i32(e, mx_image_row_bytes(&p->image));
    place = mxe_add(e, place, mxe_mul(e, mxe_zext(e, i, MXE_I32), step));
    for (int k = 0; k < n; k++)
        raw[k] = load_element(e, p, t, mxe_add(e, first, mxe_i64(e, k)));
    for (int k = 0; k < n; k++)
        mx_image_put(e, &p->image, mxe_add(e, place, mxe_mul(e, step, mxe_i32(e, k))), raw[k]);
    mxe_for_end(e, &loop);
}

/* ---- Blocks ---- */

/* A thread's block of a row or of a column. */
typedef struct place {
    mxe_value image, step; /* i32: in shared memory */
    mxe_value row, k;      /* i64: number of the row or column, and of the block in it */
    mxe_value number;      /* i64: of the block among all */
    mxe_value live;        /* i1 */
} place;

static mxe_value per_block(mxe *e, mxe_value elements)
{
    return mxe_lshr(e, elements, mxe_i64(e, __builtin_ctz(MX_OCP_BLOCK)));
}

static place column_place(mxe *e, const plan *p, const tile *t)
{
    place at = {.image = mx_image_column(e, &p->image, t->thread),
                .step = mxe_i32(e, mx_image_row_bytes(&p->image)),
                .row = t->column,
                .k = per_block(e, t->at),
                .live = t->inside};
    mxe_value per_column = per_block(e, mxe_param(e, "capacity"));
    at.number = mxe_add(e, mxe_mul(e, at.row, per_column), at.k);
    return at;
}

static place row_place(mxe *e, const plan *p, const tile *t)
{
    mxe_value bpr = mxe_param(e, "bpr");
    mxe_value part = mxe_and(e, t->thread, mxe_i32(e, ROW_BLOCKS - 1));
    mxe_value in_tile = mxe_lshr(e, t->thread, mxe_i32(e, __builtin_ctz(ROW_BLOCKS)));
    place at = {.image = mx_image_block(e, &p->image, in_tile, part),
                .step = mxe_i32(e, p->elem_bytes)};
    at.row = mxe_add(e, t->rows.first, mxe_zext(e, in_tile, MXE_I64));
    at.k = mxe_add(e, per_block(e, t->n), mxe_zext(e, part, MXE_I64));
    at.number = mxe_add(e, mxe_mul(e, at.row, bpr), at.k);
    at.live = mxe_and(e, mxe_slt(e, at.row, t->rows.end), mxe_slt(e, at.k, bpr));
    return at;
}

typedef struct output {
    const char *data, *scales, *row_stride, *block_stride;
} output;

static void store_block(mxe *e, const plan *p, const mx_shape *shape, const output *to,
                        const place *at, mxe_value data, mxe_value byte_stride,
                        const mx_codes *codes)
{
    mx_record record;
    mxe_addr block = {.pointer = to->data, .varying = data}, scale = {.pointer = to->scales};
    mxe_value byte = mxe_zext(e, codes->header, MXE_I8);
    mx_pack(e, shape, codes, &record);
    if (p->aligned)
        mx_record_store(e, shape, &record, block, p->record_align, 0, at->live);
    else
        mx_record_store_bytes(e, shape, &record, block, byte_stride, 0, at->live);
    scale.varying = mxe_add(e, mxe_mul(e, at->row, mxe_param(e, to->row_stride)),
                            mxe_mul(e, at->k, mxe_param(e, to->block_stride)));
    mxe_store(e, scale, MXE_I8, 1, 1, 0, at->live, &byte);
}

/* First the columns, then the rows, by one piece of code. */
static void do_blocks(mxe *e, const plan *p, const tile *t)
{
    static const output columns = {"c", "t", "t_row_stride", "t_block_stride"};
    static const output rows = {"p", "s", "s_row_stride", "s_block_stride"};
    mxe_loop loop;
    mxe_branch branch;
    mxe_value raw[MX_MOST_ELEMENTS];
    mx_codes codes;
    mx_shape shape = t->shape;
    place column = column_place(e, p, t), row = row_place(e, p, t);
    mxe_value turn = mxe_for_begin(e, &loop, mxe_i64(e, 0), mxe_i64(e, 2), mxe_i64(e, 1));
    mxe_value is_column = mxe_eq(e, turn, mxe_i64(e, 0));
    mx_image_get(e, &p->image, mxe_select(e, is_column, column.image, row.image),
                 mxe_select(e, is_column, column.step, row.step), raw);
    shape.position = mxe_mul(e, mxe_select(e, is_column, column.number, row.number),
                             mxe_i64(e, MX_OCP_BLOCK / 4));
    shape.rotates =
        mxe_ne(e, mxe_select(e, is_column, mxe_param(e, "c_hadamard"), mxe_param(e, "hadamard")),
               mxe_i32(e, 0));
    mx_encode(e, &shape, raw, &codes);
    mxe_if_begin(e, &branch, is_column);
    mxe_value data = mxe_add(e, mxe_mul(e, column.row, mxe_param(e, "c_row_stride")),
                             mxe_mul(e, column.k, mxe_i64(e, p->block_bytes)));
    store_block(e, p, &shape, &columns, &column, data, mxe_i64(e, 1), &codes);
    mxe_if_else(e, &branch);
    data = mxe_mul(e, row.number, mxe_param(e, "p_block_stride"));
    store_block(e, p, &shape, &rows, &row, data, mxe_param(e, "p_byte_stride"), &codes);
    mxe_if_end(e, &branch);
    mxe_for_end(e, &loop);
}

static void emit(mxe *e, const mxgen_spec *spec, const mxgen_kernel *kernel)
{
    plan p = plan_of(spec);
    tile t = {.shape = {.format = p.key.format,
                        .dtype = p.key.dtype,
                        .lanes = 1,
                        .count = MX_OCP_BLOCK,
                        .options = true}};
    mxe_value tile_m, tile_n;
    mxe_lds_reserve(e, kernel->lds_bytes);
    t.shape.part = mxe_i32(e, 0);
    t.thread = mxe_add(e, mxe_mul(e, mxe_warp(e), mxe_i32(e, p.lanes)), mxe_lane(e));
    mx_divide(e, mxe_program_id(e), mxe_param(e, "n_tiles"), &tile_m, &tile_n);
    t.at = mxe_mul(e, tile_m, mxe_i64(e, MX_OCP_BLOCK));
    t.n = mxe_mul(e, tile_n, mxe_i64(e, THREADS));
    t.rows = mx_group_find(e, t.at, t.thread, true);
    t.column = mxe_add(e, t.n, mxe_zext(e, t.thread, MXE_I64));
    t.inside = mxe_slt(e, t.column, mxe_param(e, "len"));
    load_column(e, &p, &t);
    mxe_barrier(e);
    do_blocks(e, &p, &t);
}

/* ---- Descriptor ---- */

static const int warps_values[] = {2, 4}, dims_values[] = {1, MXPACK_MAX_ROW_DIMS};
static const int flag_values[] = {0, 1};

#define VALUES(v) v, sizeof(v) / sizeof((v)[0])
static const mxgen_param params[] = {
    {"num_warps", VALUES(warps_values)},
    {"DIMS", VALUES(dims_values)},
    {"PACKED_RUNS", VALUES(flag_values)},
};

static bool applies(const mxgen_spec *spec, char *why, size_t why_bytes)
{
    plan p = plan_of(spec);
    if (p.key.op != MX_OP_TO || spec->target->simd_width > 1)
        return snprintf(why, why_bytes, "pairs are made on GPUs, by `to`"), false;
    if (p.warps * p.lanes != THREADS)
        return snprintf(why, why_bytes, "num_warps %d: a program has %d threads, warps have %d",
                        p.warps, THREADS, p.lanes),
               false;
    return true;
}

/* What is usual, and what takes everything. */
static bool explored(const mxgen_spec *spec)
{
    plan p = plan_of(spec);
    return p.aligned == (p.dims == 1);
}

static void describe_memory(mxgen_kernel *kernel, const plan *p)
{
    int align = p->aligned ? p->record_align : 1;
    mxgen_kernel_pointer(kernel, "x", MXE_ARG_NOALIAS | MXE_ARG_READONLY, p->elem_bytes);
    mxgen_kernel_pointer(kernel, "p", MXE_ARG_NOALIAS | MXE_ARG_WRITEONLY, align);
    mxgen_kernel_pointer(kernel, "c", MXE_ARG_NOALIAS | MXE_ARG_WRITEONLY, align);
    mxgen_kernel_pointer(kernel, "t", MXE_ARG_NOALIAS | MXE_ARG_WRITEONLY, 1);
    mxgen_kernel_pointer(kernel, "g", MXE_ARG_NOALIAS | MXE_ARG_READONLY, 8);
    mxgen_kernel_pointer(kernel, "o", MXE_ARG_NOALIAS | MXE_ARG_WRITEONLY, 8);
    if (!p->aligned)
        return;
    mxgen_kernel_rule(kernel, "the bytes of a packed block lie side by side", "p_byte_stride == 1");
    mxgen_kernel_rule(kernel, "packed blocks are aligned to the accesses",
                      "p_align >= %d && p_block_stride %% %d == 0", align, align);
    mxgen_kernel_rule(kernel, "columns are aligned to the stores",
                      "c_align >= %d && c_row_stride %% %d == 0", align, align);
}

static void describe(const mxgen_spec *spec, mxgen_kernel *kernel)
{
    static const char *const numbers[] = {
        "rows",           "len",          "bpr",          "groups",         "group_align",
        "capacity",       "c_row_stride", "t_row_stride", "t_block_stride", "x_axis_stride",
        "p_block_stride", "p_byte_stride"};
    plan p = plan_of(spec);
    kernel->threads = THREADS;
    kernel->lds_bytes = mx_image_bytes(&p.image);
    snprintf(kernel->grid_x, sizeof(kernel->grid_x), "capacity / %d * ceil_div(len, %d)",
             MX_OCP_BLOCK, THREADS);
    mxgen_kernel_rule(kernel, "no more row dimensions than the kernel divides by", "n_dims <= %d",
                      p.dims);
    describe_memory(kernel, &p);
    mx_describe_scales(kernel, &p.key);
    mx_describe_options(kernel, &p.key, true);
    mx_describe_blocks_alone(kernel, &p.key);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        mxgen_kernel_scalar(kernel, numbers[i], MXE_ARG_I64, "%s", numbers[i]);
    mxgen_kernel_scalar(kernel, "c_hadamard", MXE_ARG_I32, "c_hadamard");
    mxgen_kernel_scalar(kernel, "n_tiles", MXE_ARG_I64, "ceil_div(len, %d)", THREADS);
    mx_describe_dims(kernel, p.key.op, 0, p.dims - 1);
}

static double cost(const mxgen_spec *spec)
{
    plan p = plan_of(spec);
    return p.dims == 1 ? 4.0 : 8.0;
}

const mxgen_template mx_pair_general_template = {
    .name = "mx_pair_general",
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
