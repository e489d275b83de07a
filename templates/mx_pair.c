/* Rows and columns at once: x [rows, len] is quantised along its rows and, group by group with each
 * group's end padded, along its columns, and is read once.
 *
 * A program has a tile of 128 padded rows of one group and BLOCK_N elements in shared memory. From
 * there each thread takes blocks of rows, and then 32 rows of two columns; the columns' records
 * meet in the same memory and leave it as runs of four blocks. */
#include "gen/template.h"

#include <stdio.h>

#include "templates/mx_columns.h"
#include "templates/mx_launch.h"
#include "templates/mx_ocp.h"

enum {
    TILE_M = 128, /* rows: four blocks of a column */
    TILE_BLOCKS = TILE_M / MX_OCP_BLOCK,
    VEC = 8,     /* elements of an access */
    ELEMENT = 2, /* bytes */
    CHUNK = 16,
    MOST_LOADS = 8,      /* of a thread */
    THREADS_PER_CU = 768 /* that registers leave room for: what hides loads from what computes */
};

typedef struct plan {
    mxgen_key key;
    int block_n, warps, lanes, threads, loads;
    int pitch; /* bytes between rows in shared memory */
    int block_bytes, image_bytes, column_bytes;
    bool two; /* columns that are not rotated are encoded two at a time */
} plan;

static plan plan_of(const mxgen_spec *spec)
{
    plan p = {.key = spec->key};
    p.block_n = mxgen_spec_param(spec, "BLOCK_N");
    p.warps = mxgen_spec_param(spec, "num_warps");
    p.lanes = spec->target->lanes;
    p.threads = p.warps * p.lanes;
    p.loads = TILE_M * p.block_n / VEC / p.threads;
    p.pitch = p.block_n * ELEMENT + CHUNK; /* against bank conflicts */
    p.block_bytes = mx_format_get(spec->key.format)->block_bytes;
    p.image_bytes = TILE_BLOCKS * p.block_bytes;
    p.column_bytes = p.image_bytes + CHUNK; /* likewise */
    p.two = mx_converts(spec) && mx_ocp_encodes_two(spec->target, p.key.format, p.key.dtype);
    return p;
}

static int lds_bytes(const plan *p)
{
    int elements = TILE_M * p->pitch, records = p->block_n * (p->column_bytes + TILE_BLOCKS);
    return elements > records ? elements : records;
}

/* Where the tile stands, at kernel time. */
typedef struct tile {
    mx_shape row, column;
    mxe_value thread; /* i32 */
    mx_group rows;
    mxe_value at; /* i64: its first padded row */
    mxe_value n;  /* i64: its first element of a row */
} tile;

/* ---- Elements ---- */

/* A thread's accesses are in flight together. Elements that are not there are read where the tensor
 * begins, and are zeros. */
static void load_tile(mxe *e, const plan *p, const tile *t)
{
    mxe_value words[MOST_LOADS][4], image[MOST_LOADS], inside[MOST_LOADS], zero = mxe_i64(e, 0);
    int per_row = p->block_n / VEC, shift = __builtin_ctz((unsigned)per_row);
    mxe_value chunk = mxe_and(e, t->thread, mxe_i32(e, per_row - 1));
    mxe_value element = mxe_add(e, t->n, mxe_zext(e, mxe_mul(e, chunk, mxe_i32(e, VEC)), MXE_I64));
    mxe_value exists = mxe_slt(e, element, mxe_param(e, "len"));
    mxe_value row = mxe_lshr(e, t->thread, mxe_i32(e, shift));
    for (int i = 0; i < p->loads; i++) {
        mxe_value at = mxe_add(e, row, mxe_i32(e, i * p->threads / per_row));
        mxe_value number = mxe_add(e, t->rows.first, mxe_zext(e, at, MXE_I64));
        inside[i] = mxe_and(e, exists, mxe_slt(e, number, t->rows.end));
        image[i] =
            mxe_add(e, mxe_mul(e, at, mxe_i32(e, p->pitch)), mxe_mul(e, chunk, mxe_i32(e, CHUNK)));
        mxe_value offset = mxe_add(e, mxe_mul(e, number, mxe_param(e, "x_row_stride")), element);
        offset = mxe_select(e, inside[i], mxe_mul(e, offset, mxe_i64(e, ELEMENT)), zero);
        mxe_addr addr = {.pointer = "x", .varying = offset};
        mxe_load(e, addr, MXE_I32, VEC * ELEMENT / 4, CHUNK, MXE_STREAM, words[i]);
    }
    for (int i = 0; i < p->loads; i++) {
        mxe_addr addr = {.pointer = NULL, .varying = image[i]};
        for (int k = 0; k < VEC * ELEMENT / 4; k++)
            words[i][k] = mxe_select(e, inside[i], words[i][k], mxe_i32(e, 0));
        mxe_store(e, addr, MXE_I32, VEC * ELEMENT / 4, CHUNK, 0, mxe_always(), words[i]);
    }
}

/* ---- Rows ---- */

/* The block of a row that a thread has in a pass: eight lanes have two blocks of four rows each,
 * which lie in different banks. */
static void locate_block(mxe *e, const plan *p, const tile *t, int pass, mxe_value *row,
                         mxe_value *part)
{
    int pairs = p->block_n / MX_OCP_BLOCK / 2;
    mxe_value index = mxe_add(e, t->thread, mxe_i32(e, pass * p->threads));
    mxe_value eighth = mxe_lshr(e, index, mxe_i32(e, 3));
    mxe_value low = mxe_and(e, mxe_lshr(e, index, mxe_i32(e, 1)), mxe_i32(e, 3));
    mxe_value pair = mxe_and(e, eighth, mxe_i32(e, pairs - 1));
    mxe_value high = mxe_lshr(e, eighth, mxe_i32(e, __builtin_ctz((unsigned)pairs)));
    *row = mxe_add(e, mxe_mul(e, high, mxe_i32(e, 4)), low);
    *part = mxe_add(e, mxe_mul(e, pair, mxe_i32(e, 2)), mxe_and(e, index, mxe_i32(e, 1)));
}

static void do_row(mxe *e, const plan *p, const tile *t, int pass)
{
    mxe_value words[MX_OCP_BLOCK / 2], raw[MX_MOST_ELEMENTS], in_tile, part;
    mxe_value bpr = mxe_param(e, "bpr");
    mx_codes codes;
    mx_record record;
    locate_block(e, p, t, pass, &in_tile, &part);
    mxe_addr image = {.pointer = NULL};
    image.varying = mxe_add(e, mxe_mul(e, in_tile, mxe_i32(e, p->pitch)),
                            mxe_mul(e, part, mxe_i32(e, MX_OCP_BLOCK * ELEMENT)));
    for (int i = 0; i < MX_OCP_BLOCK / 2; i += 4) {
        image.uniform = mxe_i64(e, 4 * i);
        mxe_load(e, image, MXE_I32, 4, CHUNK, 0, words + i);
    }
    mx_split_words(e, p->key.dtype, words, MX_OCP_BLOCK, raw);
    mx_encode(e, &t->row, raw, &codes);
    mx_pack(e, &t->row, &codes, &record);
    mxe_value row = mxe_add(e, t->rows.first, mxe_zext(e, in_tile, MXE_I64));
    mxe_value block = mxe_lshr(e, t->n, mxe_i64(e, __builtin_ctz(MX_OCP_BLOCK)));
    block = mxe_add(e, block, mxe_zext(e, part, MXE_I64));
    mxe_value when = mxe_and(e, mxe_slt(e, row, t->rows.end), mxe_slt(e, block, bpr));
    mxe_value number = mxe_add(e, mxe_mul(e, row, bpr), block);
    mxe_addr addr = {.pointer = "p", .varying = mxe_mul(e, number, mxe_i64(e, p->block_bytes))};
    mx_record_store(e, &t->row, &record, addr, mx_record_align(p->key.format), MXE_STREAM, when);
    mxe_addr scale = {.pointer = "s"};
    scale.varying = mxe_add(e, mxe_mul(e, row, mxe_param(e, "s_row_stride")),
                            mxe_mul(e, block, mxe_param(e, "s_block_stride")));
    mxe_value byte = mxe_zext(e, codes.header, MXE_I8);
    mxe_store(e, scale, MXE_I8, 1, 1, 0, when, &byte);
}

/* ---- Columns ---- */

/* Column v of a lane's two as they lie in memory. */
static void split_column(mxe *e, const plan *p, const mxe_value words[MX_OCP_BLOCK], int v,
                         mxe_value *raw)
{
    for (int i = 0; i < MX_OCP_BLOCK; i++) {
        mxe_value two[2];
        mx_split_words(e, p->key.dtype, &words[i], 2, two);
        raw[i] = two[v];
    }
}

static mxe_value rotates_columns(mxe *e)
{
    return mxe_ne(e, mxe_param(e, "c_hadamard"), mxe_i32(e, 0));
}

/* By way of f32, rotated where that is asked for. */
static void encode_column(mxe *e, const plan *p, const tile *t, const mxe_value *words, int v,
                          mx_codes *codes)
{
    mxe_value raw[MX_OCP_BLOCK], bits[MX_MOST_ELEMENTS];
    split_column(e, p, words, v, raw);
    for (int i = 0; i < MX_OCP_BLOCK; i++)
        bits[i] = mxe_bitcast(e, mx_raw_to_f32(e, p->key.dtype, raw[i]), MXE_I32);
    mx_ocp_rotate(e, rotates_columns(e), MX_OCP_BLOCK, bits);
    mx_encode(e, &t->column, bits, codes);
}

/* The same, but columns that need no rotation stay two a word. */
static void encode_two_columns(mxe *e, const plan *p, const tile *t, const mxe_value *words,
                               mx_codes codes[2])
{
    mxe_branch branch;
    mxe_var kept[2][8], header[2];
    int n = p->block_bytes / 4;
    mx_ocp_encode_two(e, &t->row, words, codes);
    for (int v = 0; v < 2; v++) {
        header[v] = mxe_var_new(e, codes[v].header);
        for (int i = 0; i < n; i++)
            kept[v][i] = mxe_var_new(e, codes[v].words[i]);
    }
    mxe_if_begin(e, &branch, rotates_columns(e));
    for (int v = 0; v < 2; v++) {
        encode_column(e, p, t, words, v, &codes[v]);
        mxe_var_set(e, header[v], codes[v].header);
        for (int i = 0; i < n; i++)
            mxe_var_set(e, kept[v][i], codes[v].words[i]);
    }
    mxe_if_end(e, &branch);
    for (int v = 0; v < 2; v++) {
        codes[v].header = mxe_var_get(e, header[v]);
        for (int i = 0; i < n; i++)
            codes[v].words[i] = mxe_var_get(e, kept[v][i]);
    }
}

static mx_column_records records_of(const plan *p)
{
    return (mx_column_records){.columns = p->block_n,
                               .blocks = TILE_BLOCKS,
                               .block_bytes = p->block_bytes,
                               .column_bytes = p->column_bytes,
                               .threads = p->threads};
}

static mxe_value per_block(mxe *e, mxe_value elements)
{
    return mxe_lshr(e, elements, mxe_i64(e, __builtin_ctz(MX_OCP_BLOCK)));
}

/* A column's scales are a word behind the records: single bytes would cost as much as sectors. */
static mxe_addr scale_addr(mxe *e, const plan *p, mxe_value column, mxe_value block)
{
    mxe_addr addr = {.pointer = NULL, .uniform = mxe_i64(e, p->block_n * p->column_bytes)};
    addr.varying = mxe_add(e, mxe_mul(e, column, mxe_i32(e, TILE_BLOCKS)), block);
    return addr;
}

static void flush_scales(mxe *e, const plan *p, const tile *t)
{
    mxe_value scales, has_column = mxe_ult(e, t->thread, mxe_i32(e, p->block_n));
    mxe_value column = mxe_select(e, has_column, t->thread, mxe_i32(e, 0));
    mxe_value row = mxe_add(e, t->n, mxe_zext(e, column, MXE_I64));
    mxe_load(e, scale_addr(e, p, column, mxe_i32(e, 0)), MXE_I32, 1, 4, 0, &scales);
    mx_columns_store_scales(e, scales, row, per_block(e, t->at),
                            per_block(e, mxe_param(e, "capacity")),
                            mxe_and(e, has_column, mxe_slt(e, row, mxe_param(e, "len"))));
}

/* The columns' records, each of four blocks, to global memory. */
static void flush_columns(mxe *e, const plan *p, const tile *t)
{
    const mx_column_records records = records_of(p);
    const mxe_value all = {NULL, MXE_I64, false};
    mxe_value number = per_block(e, t->at);
    mxe_value base = mxe_add(e, mxe_mul(e, t->n, mxe_param(e, "c_row_stride")),
                             mxe_mul(e, number, mxe_i64(e, p->block_bytes)));
    mx_columns_flush(e, &records, t->thread, t->n, base, mxe_param(e, "c_row_stride"), all);
}

/* The records of the columns stand where the elements stood. */
static void store_columns(mxe *e, const plan *p, const tile *t, mxe_value pair, mxe_value block,
                          const mx_codes codes[2])
{
    mxe_barrier(e);
    for (int v = 0; v < 2; v++) {
        mx_record record;
        mxe_value column = mxe_add(e, mxe_mul(e, pair, mxe_i32(e, 2)), mxe_i32(e, v));
        mxe_addr image = {.pointer = NULL};
        mx_pack(e, &t->column, &codes[v], &record);
        mxe_value byte = mxe_zext(e, codes[v].header, MXE_I8);
        mxe_store(e, scale_addr(e, p, column, block), MXE_I8, 1, 1, 0, mxe_always(), &byte);
        image.varying = mxe_add(e, mxe_mul(e, column, mxe_i32(e, p->column_bytes)),
                                mxe_mul(e, block, mxe_i32(e, p->block_bytes)));
        mx_record_store(e, &t->column, &record, image, mx_record_align(p->key.format), 0,
                        mxe_always());
    }
    mxe_barrier(e);
    flush_scales(e, p, t);
    flush_columns(e, p, t);
}

static void do_columns(mxe *e, const plan *p, const tile *t)
{
    mxe_value words[MX_OCP_BLOCK];
    mx_codes codes[2];
    int pairs = p->block_n / 2;
    mxe_value pair = mxe_and(e, t->thread, mxe_i32(e, pairs - 1));
    mxe_value block = mxe_lshr(e, t->thread, mxe_i32(e, __builtin_ctz((unsigned)pairs)));
    mxe_value start = mxe_add(e, mxe_mul(e, block, mxe_i32(e, MX_OCP_BLOCK * p->pitch)),
                              mxe_mul(e, pair, mxe_i32(e, 2 * ELEMENT)));
    for (int i = 0; i < MX_OCP_BLOCK; i++) {
        mxe_addr addr = {.pointer = NULL, .varying = start};
        addr.uniform = mxe_i64(e, i * p->pitch);
        mxe_load(e, addr, MXE_I32, 1, 4, 0, &words[i]);
    }
    if (p->two) {
        encode_two_columns(e, p, t, words, codes);
    } else {
        for (int v = 0; v < 2; v++)
            encode_column(e, p, t, words, v, &codes[v]);
    }
    store_columns(e, p, t, pair, block, codes);
}

static void emit(mxe *e, const mxgen_spec *spec, const mxgen_kernel *kernel)
{
    plan p = plan_of(spec);
    tile t = {.row = {.format = p.key.format,
                      .dtype = p.key.dtype,
                      .lanes = 1,
                      .count = MX_OCP_BLOCK,
                      .hardware = mx_converts(spec)}};
    mxe_value tile_m, tile_n;
    mxe_lds_reserve(e, kernel->lds_bytes);
    t.row.part = mxe_i32(e, 0);
    t.column = t.row;
    t.column.dtype = MX_DTYPE_F32;
    t.thread = mxe_add(e, mxe_mul(e, mxe_warp(e), mxe_i32(e, p.lanes)), mxe_lane(e));
    mx_divide(e, mxe_program_id(e), mxe_param(e, "n_tiles"), &tile_m, &tile_n);
    t.at = mxe_mul(e, tile_m, mxe_i64(e, TILE_M));
    t.n = mxe_mul(e, tile_n, mxe_i64(e, p.block_n));
    t.rows = mx_group_find(e, t.at, t.thread, false);
    load_tile(e, &p, &t);
    mxe_barrier(e);
    for (int pass = 0; pass < TILE_M * p.block_n / MX_OCP_BLOCK / p.threads; pass++)
        do_row(e, &p, &t, pass);
    do_columns(e, &p, &t);
}

/* ---- Descriptor ---- */

static const int n_values[] = {64, 128}, warps_values[] = {2, 4, 8};

#define VALUES(v) v, sizeof(v) / sizeof((v)[0])
static const mxgen_param params[] = {
    {"BLOCK_N", VALUES(n_values)},
    {"num_warps", VALUES(warps_values)},
};

static bool applies(const mxgen_spec *spec, char *why, size_t why_bytes)
{
    plan p = plan_of(spec);
    if (p.key.op != MX_OP_TO || mx_dtype_get(p.key.dtype)->bytes != ELEMENT ||
        spec->target->simd_width > 1)
        return snprintf(why, why_bytes, "pairs are made on GPUs, from 16-bit types, by `to`"),
               false;
    if (!mx_warps_fit(spec, p.warps, why, why_bytes))
        return false;
    if (p.threads != p.block_n / 2 * TILE_BLOCKS)
        return snprintf(why, why_bytes,
                        "num_warps %d: a tile of %d columns has %d blocks of two columns, a thread "
                        "each",
                        p.warps, p.block_n, p.block_n / 2 * TILE_BLOCKS),
               false;
    if (lds_bytes(&p) > spec->target->lds_bytes)
        return snprintf(why, why_bytes, "BLOCK_N %d: %d bytes of shared memory, %s has %d",
                        p.block_n, lds_bytes(&p), spec->target->name, spec->target->lds_bytes),
               false;
    return true;
}

static bool explored(const mxgen_spec *spec)
{
    plan p = plan_of(spec);
    return p.threads == p.block_n / 2 * TILE_BLOCKS;
}

static void describe_rows(mxgen_kernel *kernel)
{
    mxgen_kernel_pointer(kernel, "x", MXE_ARG_NOALIAS | MXE_ARG_READONLY, CHUNK);
    mxgen_kernel_rule(kernel, "one row dimension is left after merging", "n_dims <= 1");
    mxgen_kernel_rule(kernel, "the axis has unit stride", "x_axis_stride == 1");
    mxgen_kernel_rule(kernel, "rows start and end at multiples of the loads",
                      "x_align >= %d && dim0_x_stride %% %d == 0 && len %% %d == 0", CHUNK, VEC,
                      VEC);
}

static void describe_columns(mxgen_kernel *kernel)
{
    mxgen_kernel_rule(kernel, "groups are whole tiles", "group_align %% %d == 0", TILE_M);
    mxgen_kernel_rule(kernel, "columns are aligned to the stores",
                      "c_align >= %d && c_row_stride %% %d == 0", CHUNK, CHUNK);
    mxgen_kernel_rule(kernel, "padded rows are counted in 31 bits",
                      "capacity + group_align <= 2147483647");
    mxgen_kernel_pointer(kernel, "c", MXE_ARG_NOALIAS | MXE_ARG_WRITEONLY, CHUNK);
    mxgen_kernel_pointer(kernel, "t", MXE_ARG_NOALIAS | MXE_ARG_WRITEONLY, 1);
    mxgen_kernel_pointer(kernel, "g", MXE_ARG_NOALIAS | MXE_ARG_READONLY, 8);
    mxgen_kernel_pointer(kernel, "o", MXE_ARG_NOALIAS | MXE_ARG_WRITEONLY, 8);
    mxgen_kernel_scalar(kernel, "groups", MXE_ARG_I64, "groups");
    mxgen_kernel_scalar(kernel, "group_align", MXE_ARG_I64, "group_align");
    mxgen_kernel_scalar(kernel, "capacity", MXE_ARG_I64, "capacity");
    mxgen_kernel_scalar(kernel, "c_row_stride", MXE_ARG_I64, "c_row_stride");
    mxgen_kernel_scalar(kernel, "t_row_stride", MXE_ARG_I64, "t_row_stride");
    mxgen_kernel_scalar(kernel, "t_block_stride", MXE_ARG_I64, "t_block_stride");
    mxgen_kernel_scalar(kernel, "c_hadamard", MXE_ARG_I32, "c_hadamard");
}

static void describe(const mxgen_spec *spec, mxgen_kernel *kernel)
{
    plan p = plan_of(spec);
    char n_tiles[40];
    snprintf(n_tiles, sizeof(n_tiles), "ceil_div(len, %d)", p.block_n);
    kernel->threads = p.threads;
    kernel->lds_bytes = lds_bytes(&p);
    snprintf(kernel->grid_x, sizeof(kernel->grid_x), "ceil_div(capacity, %d) * %s", TILE_M,
             n_tiles);
    kernel->min_programs_per_cu = THREADS_PER_CU / p.threads;
    describe_rows(kernel);
    mx_describe_packed(kernel, &p.key, mx_record_align(p.key.format));
    mx_describe_scales(kernel, &p.key);
    mx_describe_options(kernel, &p.key, false);
    mx_describe_blocks_alone(kernel, &p.key);
    describe_columns(kernel);
    mxgen_kernel_scalar(kernel, "n_tiles", MXE_ARG_I64, "%s", n_tiles);
    mxgen_kernel_scalar(kernel, "rows", MXE_ARG_I64, "rows");
    mxgen_kernel_scalar(kernel, "len", MXE_ARG_I64, "len");
    mxgen_kernel_scalar(kernel, "bpr", MXE_ARG_I64, "bpr");
    mxgen_kernel_scalar(kernel, "x_row_stride", MXE_ARG_I64, "dim0_x_stride");
}

/* Wide tiles have longer runs of rows. */
static double cost(const mxgen_spec *spec)
{
    return mxgen_spec_param(spec, "BLOCK_N") == 128 ? 1.0 : 1.05;
}

const mxgen_template mx_pair_template = {
    .name = "mx_pair",
    .formats = MX_ALL_FORMATS & ~MX_PACKED_FORMATS,
    .layouts = 1u << MX_LAYOUT_PAIR,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .applies = applies,
    .explored = explored,
    .describe = describe,
    .cost = cost,
    .emit = emit,
};
