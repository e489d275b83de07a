/* Blocks along a strided axis, with another dimension of unit stride: a program takes a tile of
 * BLOCK_M blocks by BLOCK_N columns of that inner dimension, one lane a block of VEC neighbouring
 * columns. Tensor accesses are coalesced along the columns. A column's records follow each other in
 * the packed bytes: with STAGED the tile's records meet in shared memory, a column's image a row
 * there, and leave it side by side. */
#include "templates/mx_tiles.h"

#include <stdio.h>

#include "templates/mx_launch.h"

enum {
    OUTER_DIMS = 3,    /* row dimensions beside the inner one */
    STAGED_CHUNKS = 1, /* 16 bytes at a time: columns' records start at multiples of 16 */
    STAGED_PIECES = 2, /* by the alignment that records have anyway */
    CHUNK = 16,
    SCALE_PIECE = 4,       /* scales that leave or arrive together */
    COLUMN_PAD = 4,        /* bytes between columns' images, against bank conflicts */
    MOST_CACHED = 16 << 20 /* bytes written that caches may be expected to keep */
};

typedef mx_tiles_plan plan;
typedef mx_tiles_tile tile;
typedef mx_tiles_place place;

static plan plan_of(const mxgen_spec *spec)
{
    plan p = {.key = spec->key};
    p.vec = mxgen_spec_param(spec, "VEC");
    p.warps = mxgen_spec_param(spec, "num_warps");
    p.block_m = mxgen_spec_param(spec, "BLOCK_M");
    p.block_n = mxgen_spec_param(spec, "BLOCK_N");
    p.staged = mxgen_spec_param(spec, "STAGED");
    p.even = mxgen_spec_param(spec, "EVEN") == 1;
    p.lanes = spec->target->lanes;
    p.threads = p.warps * p.lanes;
    p.column_threads = p.block_n / p.vec;
    p.passes = p.block_m * p.column_threads / p.threads;
    p.block_elements = mx_format_get(spec->key.format)->block_elements;
    p.block_bytes = mx_format_get(spec->key.format)->block_bytes;
    p.hardware = mx_converts(spec);
    p.options = mxgen_spec_param(spec, "OPTIONS") == 1;
    p.elem_bytes = mx_dtype_get(spec->key.dtype)->bytes;
    p.record_align = mx_record_align(spec->key.format);
    p.image_bytes = p.block_m * p.block_bytes;
    /* Images must be aligned to the accesses: of chunks, or of records. */
    int pad = p.staged == STAGED_CHUNKS ? CHUNK : p.record_align;
    p.column_bytes = p.image_bytes + (pad > COLUMN_PAD ? pad : COLUMN_PAD);
    p.flags = mxgen_spec_param(spec, "CACHE") == 1 ? MXE_STREAM : 0;
    p.in_rows = spec->target->simd_width > 1;
    return p;
}

static mxe_value rows_of(mxe *e, const plan *p, const tile *t, mxe_value block)
{
    return mxe_sub(e, t->rows, mxe_mul(e, block, mxe_i32(e, p->block_elements)));
}

static place locate(mxe *e, const plan *p, const tile *t, mxe_value pass)
{
    place at = {.live = mxe_always()};
    int shift = __builtin_ctz((unsigned)p->column_threads);
    int rows = p->threads / p->column_threads;
    mxe_value block = mxe_lshr(e, t->thread, mxe_i32(e, shift));
    at.slot = mxe_add(e, block, mxe_mul(e, pass, mxe_i32(e, rows)));
    at.slot_column =
        mxe_mul(e, mxe_and(e, t->thread, mxe_i32(e, p->column_threads - 1)), mxe_i32(e, p->vec));
    at.live = mxe_and(e, mxe_ult(e, at.slot, t->blocks), mxe_ult(e, at.slot_column, t->columns));
    at.block = mxe_umin(e, at.slot, mxe_sub(e, t->blocks, mxe_i32(e, 1)));
    at.column = mxe_umin(e, at.slot_column, mxe_sub(e, t->columns, mxe_i32(e, p->vec)));
    at.rows = rows_of(e, p, t, at.block);
    return at;
}

static mxe_type vector_type(const plan *p)
{
    return p->vec * p->elem_bytes >= 4 ? MXE_I32 : MXE_I16;
}

static int vector_items(const plan *p)
{
    int bytes = p->vec * p->elem_bytes;
    return bytes >= 4 ? bytes / 4 : 1;
}

/* Byte offset of row i of a lane's block from the tile's first element, without the column. */
static mxe_value row_bytes(mxe *e, const plan *p, const char *stride, mxe_value block, int i)
{
    mxe_value row = mxe_add(e, mxe_mul(e, block, mxe_i32(e, p->block_elements)), mxe_i32(e, i));
    mxe_value bytes =
        mxe_zext(e, mxe_mul(e, mxe_param(e, stride), mxe_i64(e, p->elem_bytes)), MXE_I32);
    return mxe_mul(e, row, bytes);
}

static mxe_addr element_addr(mxe *e, const plan *p, const tile *t, const place *at,
                             const char *pointer, const char *stride, mxe_value inside, int i)
{
    mxe_addr addr = {.pointer = pointer};
    if (t->in_rows)
        return mx_tiles_host_element(e, p, at, i);
    addr.uniform = pointer[0] == 'x' ? t->x_base : t->y_base;
    mxe_value offset = row_bytes(e, p, stride, at->block, i);
    if (inside.ref)
        offset = mxe_select(e, inside, offset, row_bytes(e, p, stride, at->block, 0));
    if (t->thread.ref) {
        addr.varying = mxe_add(e, offset, mxe_mul(e, at->column, mxe_i32(e, p->elem_bytes)));
        return addr;
    }
    /* Host: the block is uniform, lanes are columns. */
    addr.uniform = mxe_add(e, addr.uniform, mxe_zext(e, offset, MXE_I64));
    addr.uniform = mxe_add(e, addr.uniform,
                           mxe_zext(e, mxe_mul(e, at->column, mxe_i32(e, p->elem_bytes)), MXE_I64));
    addr.lane_stride = p->elem_bytes;
    return addr;
}

/* Whether row i of the lane's block exists. */
static mxe_value row_inside(mxe *e, const plan *p, const place *at, int i)
{
    return p->even || i == 0 ? mxe_always() : mxe_slt(e, mxe_i32(e, i), at->rows);
}

/* raw[column * block_elements + row] */
static void load_elements(mxe *e, const plan *p, const tile *t, const place *at, mxe_value *raw)
{
    mxe_value words[MX_MOST_ELEMENTS][4], inside[MX_MOST_ELEMENTS];
    int align_bytes = p->vec * p->elem_bytes;
    for (int i = 0; i < p->block_elements; i++) {
        inside[i] = row_inside(e, p, at, i);
        mxe_addr addr = element_addr(e, p, t, at, "x", "x_axis_stride", inside[i], i);
        mxe_load(e, addr, vector_type(p), vector_items(p), align_bytes, p->flags, words[i]);
    }
    for (int i = 0; i < p->block_elements; i++) {
        mxe_value columns[8];
        for (int k = 0; k < vector_items(p); k++) {
            words[i][k] = mxe_zext(e, words[i][k], MXE_I32);
            if (inside[i].ref)
                words[i][k] = mxe_select(e, inside[i], words[i][k], mxe_i32(e, 0));
        }
        if (vector_type(p) == MXE_I16)
            columns[0] = words[i][0];
        else
            mx_split_words(e, p->key.dtype, words[i], p->vec, columns);
        for (int v = 0; v < p->vec; v++)
            raw[v * p->block_elements + i] = columns[v];
    }
}

static void store_elements(mxe *e, const plan *p, const tile *t, const place *at,
                           const mxe_value *raw)
{
    int align_bytes = p->vec * p->elem_bytes;
    for (int i = 0; i < p->block_elements; i++) {
        mxe_value columns[8], words[4], inside = row_inside(e, p, at, i), when = at->live;
        for (int v = 0; v < p->vec; v++)
            columns[v] = raw[v * p->block_elements + i];
        if (vector_type(p) == MXE_I16)
            words[0] = mxe_zext(e, columns[0], MXE_I16);
        else
            mx_join_words(e, p->key.dtype, columns, p->vec, words);
        if (inside.ref)
            when = when.ref ? mxe_and(e, when, inside) : inside;
        mxe_addr addr = element_addr(e, p, t, at, "y", "y_axis_stride", mxe_always(), i);
        mxe_store(e, addr, vector_type(p), vector_items(p), align_bytes, p->flags, when, words);
    }
}

/* The record of column v of a lane, in shared memory or in place. */
static mxe_addr record_addr(mxe *e, const plan *p, const tile *t, const place *at, int v,
                            bool for_load)
{
    mxe_addr addr = {.pointer = "p"};
    mxe_value column = at->column, block = at->block;
    if (t->in_rows)
        return mx_tiles_host_record(e, p, at);
    if (p->staged) {
        addr.pointer = NULL;
        /* A lane without a block may write to the slot it would have, but has to read a real one.
         */
        column = for_load ? at->column : at->slot_column;
        block = for_load ? at->block : at->slot;
        if (v)
            column = mxe_add(e, column, mxe_i32(e, v));
        addr.varying = mxe_add(e, mxe_mul(e, column, mxe_i32(e, p->column_bytes)),
                               mxe_mul(e, block, mxe_i32(e, p->block_bytes)));
        return addr;
    }
    if (v)
        column = mxe_add(e, column, mxe_i32(e, v));
    mxe_value column_blocks = mxe_param(e, "column_blocks");
    if (t->thread.ref) {
        mxe_value number = mxe_mul(e, mxe_zext(e, column, MXE_I64), column_blocks);
        number = mxe_add(e, mxe_add(e, number, mxe_zext(e, block, MXE_I64)), t->packed);
        addr.varying = mxe_mul(e, number, mxe_i64(e, p->block_bytes));
        return addr;
    }
    mxe_value number = mxe_add(e, t->packed, mxe_zext(e, block, MXE_I64));
    number = mxe_add(e, number, mxe_mul(e, mxe_zext(e, column, MXE_I64), column_blocks));
    addr.uniform = mxe_mul(e, number, mxe_i64(e, p->block_bytes));
    addr.lane_step = mxe_mul(e, column_blocks, mxe_i64(e, p->block_bytes));
    return addr;
}

/* ---- Scales of the OCP formats ---- */

static bool has_scales(const plan *p)
{
    return mx_format_is_ocp(p->key.format) && p->key.op != MX_OP_QDQ;
}

/* Scales go by way of shared memory where records do and their rows allow. */
static bool stages_scales(const plan *p)
{
    return has_scales(p) && p->staged == STAGED_CHUNKS;
}

static int scale_column_bytes(const plan *p)
{
    return p->block_m + COLUMN_PAD;
}

/* The scale of column v of a lane. */
static mxe_addr scale_addr(mxe *e, const plan *p, const tile *t, const place *at, int v,
                           bool for_load)
{
    mxe_addr addr = {.pointer = "s", .uniform = t->scales};
    bool own_slot = stages_scales(p) && !for_load;
    mxe_value column = own_slot ? at->slot_column : at->column;
    mxe_value block = own_slot ? at->slot : at->block;
    if (v)
        column = mxe_add(e, column, mxe_i32(e, v));
    if (stages_scales(p)) {
        addr.pointer = NULL;
        addr.uniform = mxe_i64(e, p->block_n * p->column_bytes);
        addr.varying = mxe_add(e, mxe_mul(e, column, mxe_i32(e, scale_column_bytes(p))), block);
        return addr;
    }
    mxe_value columns = mxe_mul(e, mxe_zext(e, column, MXE_I64), mxe_param(e, "column_scales"));
    mxe_value byte = mxe_add(
        e, columns, mxe_mul(e, mxe_zext(e, block, MXE_I64), mxe_param(e, "s_block_stride")));
    if (p->in_rows) {
        addr.uniform = mxe_add(e, addr.uniform, byte);
        addr.lane_step = mxe_param(e, "column_scales");
    } else {
        addr.varying = byte;
    }
    return addr;
}

static void store_scale(mxe *e, const plan *p, const tile *t, const place *at, int v,
                        mxe_value scale)
{
    mxe_value byte = mxe_zext(e, scale, MXE_I8);
    mxe_store(e, scale_addr(e, p, t, at, v, false), MXE_I8, 1, 1, 0,
              stages_scales(p) ? mxe_always() : at->live, &byte);
}

static mxe_value load_scale(mxe *e, const plan *p, const tile *t, const place *at, int v)
{
    mxe_value byte;
    mxe_load(e, scale_addr(e, p, t, at, v, true), MXE_I8, 1, 1, 0, &byte);
    return mxe_zext(e, byte, MXE_I32);
}

/* ---- Blocks ---- */

/* What stochastic rounding counts: elements before the block's first in the padded data, by 4. */
static mxe_value position_of(mxe *e, const plan *p, const tile *t, const place *at, int v)
{
    mxe_value column = mxe_zext(e, at->column, MXE_I64);
    if (v)
        column = mxe_add(e, column, mxe_i64(e, v));
    mxe_value number = mxe_mul(e, column, mxe_param(e, "column_blocks"));
    number = mxe_add(e, mxe_add(e, number, mxe_zext(e, at->block, MXE_I64)), t->packed);
    return mxe_mul(e, number, mxe_i64(e, p->block_elements / 4));
}

static void encode_columns(mxe *e, const plan *p, const tile *t, const place *at, mxe_value *raw,
                           mx_codes codes)
{
    mxe_value out[4 * MX_MOST_ELEMENTS];
    for (int v = 0; v < p->vec; v++) {
        mx_record record;
        mx_shape shape = t->shape;
        mxe_value *column = raw + p->block_elements * v;
        if (p->options)
            shape.position = position_of(e, p, t, at, v);
        if (p->key.op == MX_OP_QDQ) {
            mx_round_trip(e, &shape, column, &codes, out + p->block_elements * v);
            continue;
        }
        mx_encode(e, &shape, column, &codes);
        if (has_scales(p))
            store_scale(e, p, t, at, v, codes.header);
        mx_pack(e, &t->shape, &codes, &record);
        mxe_addr addr = record_addr(e, p, t, at, v, false);
        mx_record_store(e, &t->shape, &record, addr, p->record_align, p->staged ? 0 : p->flags,
                        p->staged ? mxe_always() : at->live);
    }
    if (p->key.op == MX_OP_QDQ)
        store_elements(e, p, t, at, out);
}

static void pass_encode(mxe *e, const plan *p, const tile *t, const place *at)
{
    mxe_value raw[4 * MX_MOST_ELEMENTS];
    mx_codes codes = {0};
    mxe_branch branch;
    load_elements(e, p, t, at, raw);
    if (p->vec > 1 || !mx_goes_apart(e, &t->shape)) {
        encode_columns(e, p, t, at, raw, codes);
        return;
    }
    tile plain = *t;
    plain.shape.plain = true;
    mxe_if_begin(e, &branch, mxe_any(e, mx_encode_care(e, &t->shape, raw, &codes)));
    encode_columns(e, p, t, at, raw, codes);
    mxe_if_else(e, &branch);
    encode_columns(e, p, &plain, at, raw, codes);
    mxe_if_end(e, &branch);
}

static void decode_apart(mxe *e, const plan *p, const tile *t, const place *at,
                         const mx_codes *codes)
{
    mxe_value out[MX_MOST_ELEMENTS];
    mxe_branch branch;
    mx_shape shape = t->shape;
    mxe_if_begin(e, &branch, mxe_any(e, mx_decode_care(e, &shape, codes)));
    mx_decode(e, &shape, codes, NULL, out);
    store_elements(e, p, t, at, out);
    mxe_if_else(e, &branch);
    shape.plain = true;
    mx_decode(e, &shape, codes, NULL, out);
    store_elements(e, p, t, at, out);
    mxe_if_end(e, &branch);
}

static void pass_decode(mxe *e, const plan *p, const tile *t, const place *at)
{
    mxe_value out[4 * MX_MOST_ELEMENTS];
    bool apart = p->vec == 1 && mx_goes_apart(e, &t->shape);
    for (int v = 0; v < p->vec; v++) {
        mx_codes codes;
        mx_record record;
        if (has_scales(p))
            codes.header = load_scale(e, p, t, at, v);
        mx_record_to_load(&t->shape, &record);
        mxe_addr addr = record_addr(e, p, t, at, v, true);
        mx_record_load(e, &t->shape, &record, addr, p->record_align, p->staged ? 0 : p->flags);
        mx_unpack(e, &t->shape, &record, &codes);
        if (apart)
            decode_apart(e, p, t, at, &codes);
        else
            mx_decode(e, &t->shape, &codes, NULL, out + p->block_elements * v);
    }
    if (!apart)
        store_elements(e, p, t, at, out);
}

void mx_tiles_pass(mxe *e, const plan *p, const tile *t, const place *at)
{
    if (p->key.op == MX_OP_FROM)
        pass_decode(e, p, t, at);
    else
        pass_encode(e, p, t, at);
}

/* What the columns of a tile have in shared memory, a column's blocks side by side, and where that
 * lies in global memory. */
typedef struct images {
    const char *pointer;
    int block_bytes, piece_bytes; /* piece_bytes: of an access */
    int lds, column_bytes; /* where the first column's image begins, and how far the next is */
    mxe_value base, column_stride; /* i64: bytes */
} images;

/* Moves them between shared and global memory, the program's threads side by side along each
 * column. */
static void move_images(mxe *e, const plan *p, const tile *t, const images *of, bool to_global)
{
    int bytes = of->piece_bytes;
    int per_column = p->block_m * of->block_bytes / bytes, total = per_column * p->block_n;
    mxe_type type = bytes == 2 ? MXE_I16 : MXE_I32;
    mxe_value size = mxe_mul(e, t->blocks, mxe_i32(e, of->block_bytes));
    for (int first = 0; first < total; first += p->threads) {
        mxe_value index = mxe_add(e, t->thread, mxe_i32(e, first));
        mxe_value column = mxe_udiv(e, index, mxe_i32(e, per_column));
        mxe_value byte = mxe_sub(e, index, mxe_mul(e, column, mxe_i32(e, per_column)));
        byte = mxe_mul(e, byte, mxe_i32(e, bytes));
        mxe_value inside = mxe_and(e, mxe_ult(e, column, t->columns), mxe_ult(e, byte, size));
        mxe_addr global = {.pointer = of->pointer, .uniform = of->base};
        global.varying = mxe_add(e, mxe_mul(e, mxe_zext(e, column, MXE_I64), of->column_stride),
                                 mxe_zext(e, byte, MXE_I64));
        mxe_addr image = {.pointer = NULL};
        if (of->lds)
            image.uniform = mxe_i64(e, of->lds);
        image.varying = mxe_add(e, mxe_mul(e, column, mxe_i32(e, of->column_bytes)), byte);
        int items = bytes > 4 ? bytes / 4 : 1;
        mxe_copy(e, to_global ? global : image, to_global ? image : global, type, items, bytes,
                 p->flags, inside);
    }
}

static void move_all(mxe *e, const plan *p, const tile *t, bool to_global)
{
    images records = {.pointer = "p",
                      .block_bytes = p->block_bytes,
                      .piece_bytes = p->staged == STAGED_CHUNKS ? CHUNK : p->record_align,
                      .column_bytes = p->column_bytes};
    records.base = mxe_mul(e, t->packed, mxe_i64(e, p->block_bytes));
    records.column_stride = mxe_mul(e, mxe_param(e, "column_blocks"), mxe_i64(e, p->block_bytes));
    move_images(e, p, t, &records, to_global);
    if (!stages_scales(p))
        return;
    images scales = {.pointer = "s",
                     .block_bytes = 1,
                     .piece_bytes = SCALE_PIECE,
                     .lds = p->block_n * p->column_bytes,
                     .column_bytes = scale_column_bytes(p),
                     .base = t->scales};
    scales.column_stride = mxe_param(e, "column_scales");
    move_images(e, p, t, &scales, to_global);
}

static void tile_on_gpu(mxe *e, const plan *p, tile *t)
{
    mxe_loop loop;
    t->thread = mxe_add(e, mxe_mul(e, mxe_warp(e), mxe_i32(e, p->lanes)), mxe_lane(e));
    if (p->staged && p->key.op == MX_OP_FROM) {
        move_all(e, p, t, false);
        mxe_barrier(e);
    }
    mxe_value pass = mxe_for_begin(e, &loop, mxe_i64(e, 0), mxe_i64(e, p->passes), mxe_i64(e, 1));
    place at = locate(e, p, t, mxe_zext(e, pass, MXE_I32));
    mx_tiles_pass(e, p, t, &at);
    mxe_for_end(e, &loop);
    if (p->staged && p->key.op == MX_OP_TO) {
        mxe_barrier(e);
        move_all(e, p, t, true);
    }
}

/* program -> tile along the columns, tile along the axis, outer coordinates. */
static void place_tile(mxe *e, const plan *p, tile *t)
{
    mxe_value rest = mxe_program_id(e), minor, major, zero = mxe_i64(e, 0);
    mxe_value bpr = mxe_param(e, "bpr"), x = zero, y = zero, row = zero;
    mx_divide(e, rest, mxe_param(e, "minor_tiles"), &rest, &minor);
    mx_divide(e, rest, mxe_param(e, "major_tiles"), &rest, &major);
    for (int k = 1; k <= OUTER_DIMS; k++) {
        mxe_value at;
        mx_divide(e, rest, mx_dim_param(e, "size", k), &rest, &at);
        row = mxe_add(e, row, mxe_mul(e, at, mx_dim_param(e, "row_stride", k)));
        if (p->key.op != MX_OP_FROM)
            x = mxe_add(e, x, mxe_mul(e, at, mx_dim_param(e, "x_stride", k)));
        if (p->key.op != MX_OP_TO)
            y = mxe_add(e, y, mxe_mul(e, at, mx_dim_param(e, "y_stride", k)));
    }
    mxe_value along_axis = mxe_ne(e, mxe_param(e, "axis_first"), zero);
    mxe_value m = mxe_mul(e, mxe_select(e, along_axis, minor, major), mxe_i64(e, p->block_m));
    mxe_value n = mxe_mul(e, mxe_select(e, along_axis, major, minor), mxe_i64(e, p->block_n));
    mxe_value element = mxe_mul(e, m, mxe_i64(e, p->block_elements));
    mxe_value size = mxe_i64(e, p->elem_bytes);
    if (p->key.op != MX_OP_FROM) {
        x = mxe_add(e, x, mxe_add(e, mxe_mul(e, element, mxe_param(e, "x_axis_stride")), n));
        t->x_base = mxe_mul(e, x, size);
    }
    if (p->key.op != MX_OP_TO) {
        y = mxe_add(e, y, mxe_add(e, mxe_mul(e, element, mxe_param(e, "y_axis_stride")), n));
        t->y_base = mxe_mul(e, y, size);
    }
    row = mxe_add(e, row, mxe_mul(e, n, mxe_param(e, "row_stride0")));
    t->packed = mxe_add(e, mxe_mul(e, row, bpr), m);
    if (has_scales(p))
        t->scales = mxe_add(e, mxe_mul(e, row, mxe_param(e, "s_row_stride")),
                            mxe_mul(e, m, mxe_param(e, "s_block_stride")));
    mxe_value blocks = mxe_umin(e, mxe_sub(e, bpr, m), mxe_i64(e, p->block_m));
    mxe_value columns = mxe_umin(e, mxe_sub(e, mxe_param(e, "size0"), n), mxe_i64(e, p->block_n));
    t->blocks = mxe_zext(e, blocks, MXE_I32);
    t->columns = mxe_zext(e, columns, MXE_I32);
    mxe_value left = mxe_sub(e, mxe_param(e, "len"), element);
    left = mxe_umin(e, left, mxe_i64(e, p->block_elements * p->block_m));
    t->rows = mxe_zext(e, left, MXE_I32);
}

static void emit(mxe *e, const mxgen_spec *spec, const mxgen_kernel *kernel)
{
    plan p = plan_of(spec);
    tile t = {
        .shape = {p.key.format, p.key.dtype, p.key.profile, 1, p.block_elements, mxe_i32(e, 0)}};
    t.shape.hardware = p.hardware;
    t.shape.options = p.options;
    if (kernel->lds_bytes)
        mxe_lds_reserve(e, kernel->lds_bytes);
    place_tile(e, &p, &t);
    if (p.in_rows)
        mx_tiles_on_host(e, &p, &t);
    else
        tile_on_gpu(e, &p, &t);
}

/* ---- Descriptor ---- */

static const int vec_values[] = {1, 2, 4}, warps_values[] = {1, 2, 4, 8};
static const int m_values[] = {8, 16, 32, 64};
static const int n_values[] = {16, 32, 64, 128, 256, 512};
static const int staged_values[] = {0, 1, 2}, flag_values[] = {0, 1};

#define VALUES(v) v, sizeof(v) / sizeof((v)[0])
static const mxgen_param params[] = {
    {"BLOCK_M", VALUES(m_values)},       {"BLOCK_N", VALUES(n_values)},
    {"num_warps", VALUES(warps_values)}, {"VEC", VALUES(vec_values)},
    {"STAGED", VALUES(staged_values)},   {"EVEN", VALUES(flag_values)},
    {"ORDER", VALUES(flag_values)},      {"CACHE", VALUES(flag_values)},
    {"OPTIONS", VALUES(flag_values)},
};

static int lds_bytes(const plan *p)
{
    int scales = stages_scales(p) ? p->block_n * scale_column_bytes(p) : 0;
    if (p->in_rows)
        return mx_tiles_host_bytes(p);
    return p->staged ? p->block_n * p->column_bytes + scales : 0;
}

static bool applies(const mxgen_spec *spec, char *why, size_t why_bytes)
{
    plan p = plan_of(spec);
    const mxgen_target *target = spec->target;
    bool host = target->simd_width > 1;
    if (p.options && (host || p.key.op == MX_OP_FROM || !mx_format_is_ocp(p.key.format)))
        return snprintf(why, why_bytes, "OPTIONS 1: %s %s on %s has no options here",
                        mx_op_name(p.key.op), mx_format_get(p.key.format)->name, target->name),
               false;
    if (host && (p.vec != 1 || p.warps != 1 || p.staged))
        return snprintf(why, why_bytes,
                        "VEC %d, num_warps %d, STAGED %d: lanes of %s are single columns", p.vec,
                        p.warps, p.staged, target->name),
               false;
    if (!mx_warps_fit(spec, p.warps, why, why_bytes))
        return false;
    if (!host && (p.block_m * p.column_threads % p.threads || p.threads % p.column_threads))
        return snprintf(
                   why, why_bytes,
                   "BLOCK_M %d, BLOCK_N %d: the tile must be a multiple of num_warps * lanes = "
                   "%d blocks of VEC columns",
                   p.block_m, p.block_n, p.threads),
               false;
    if (p.staged && p.key.op == MX_OP_QDQ)
        return snprintf(why, why_bytes, "STAGED: qdq has no packed records to stage"), false;
    if (p.staged == STAGED_CHUNKS && p.image_bytes % CHUNK)
        return snprintf(why, why_bytes, "STAGED 1: BLOCK_M records are %d bytes, no multiple of %d",
                        p.image_bytes, CHUNK),
               false;
    if (lds_bytes(&p) > target->lds_bytes)
        return snprintf(why, why_bytes, "%d bytes of shared memory, %s has %d", lds_bytes(&p),
                        target->name, target->lds_bytes),
               false;
    return true;
}

/* Tile shapes beyond 16 blocks by 32 vectors of columns: packing 16-bit types with wider vectors,
 * unpacking with more warps or longer runs of records. */
static bool explored_shape(const plan *p)
{
    bool chunks = p->staged == STAGED_CHUNKS;
    if (p->key.op == MX_OP_TO)
        return chunks && p->elem_bytes == 2 && p->vec == 4 && p->warps == 4 && p->block_m == 16 &&
               p->block_n == 128;
    if (p->key.op == MX_OP_FROM && chunks && p->vec == 2)
        return p->warps == 8 ? p->block_m == 16 && p->block_n == 64
                             : p->warps == 4 && p->block_m == 32 && p->block_n == 32;
    return false;
}

/* OCP formats, on GPUs: two lengths and widths of whole rows with scales that are staged, and what
 * takes ragged rows or any scales. */
static bool explored_ocp(const mxgen_spec *spec, const plan *p)
{
    int word = 4 / p->elem_bytes, order = mxgen_spec_param(spec, "ORDER");
    if (!p->flags || order != (p->key.op == MX_OP_TO))
        return false;
    /* Unpacking: more warps, or narrow tiles of two words a store. */
    if (p->key.op == MX_OP_FROM && !p->options && p->staged == STAGED_CHUNKS && p->even &&
        p->vec == 2 && p->block_m == 16 &&
        (p->warps == 8 ? p->block_n == 64 : p->warps == 4 && p->block_n == 32))
        return true;
    if (p->warps != 4 || p->block_n != 32 * p->vec)
        return false;
    if (p->options)
        return p->key.op != MX_OP_FROM && p->block_m == 8 && p->vec == 1 && !p->even &&
               (p->staged == STAGED_PIECES || p->key.op == MX_OP_QDQ);
    if (p->key.op == MX_OP_QDQ)
        return p->block_m == 8 && p->vec == word;
    if (p->staged == STAGED_CHUNKS && p->even)
        return p->block_m <= 16 && (p->vec == word || p->vec == 2 * word);
    return p->block_m == 8 && !p->even && p->vec == (p->staged == STAGED_CHUNKS ? word : 1) &&
           p->staged;
}

/* The declared set: GPUs, one or two words a load, every way of staging, rows of whole blocks or
 * not, both orders of tiles; qdq, whose tiles are free, in three shapes. */
static bool explored(const mxgen_spec *spec)
{
    plan p = plan_of(spec);
    int word = 4 / p.elem_bytes;
    if (spec->target->simd_width > 1)
        return p.block_m == 16 && p.block_n == 128 && !p.flags && !p.even && !p.options &&
               mxgen_spec_param(spec, "ORDER") == 0;
    if (mx_format_is_ocp(p.key.format))
        return explored_ocp(spec, &p);
    if (!p.flags || p.options)
        return false;
    if (explored_shape(&p) && p.key.profile == MX_PROFILE_PACKED)
        return true;
    if (p.warps != 4)
        return false;
    bool wide = p.vec == word || p.vec == (p.elem_bytes == 4 ? 2 : 1);
    if (!wide || p.block_m != 16)
        return false;
    if (p.key.profile == MX_PROFILE_DEMOTED_255)
        return p.block_n == 64 && p.vec == word;
    return p.key.op == MX_OP_QDQ ? p.block_n >= 32 : p.block_n == 32 * p.vec;
}

static void describe_plain(mxgen_kernel *kernel, const plan *p, const char *name, unsigned flags)
{
    int align_bytes = p->vec * p->elem_bytes;
    long long most = 0x7fffffffLL / (p->block_m + 1) / p->block_elements / p->elem_bytes;
    mxgen_kernel_pointer(kernel, name, flags, align_bytes);
    mxgen_kernel_rule(kernel, "the tensor is aligned to the loads", "%s_align >= %d", name,
                      align_bytes);
    mxgen_kernel_rule(kernel, "a row dimension has unit stride", "dim0_%s_stride == 1", name);
    mxgen_kernel_rule(kernel, "a tile's offsets are counted in 31 bits", "%s_axis_stride <= %lld",
                      name, most);
    if (p->vec > 1)
        mxgen_kernel_rule(kernel, "all strides are multiples of VEC",
                          "%s_axis_stride %% %d == 0 && dim1_%s_stride %% %d == 0 && "
                          "dim2_%s_stride %% %d == 0 && dim3_%s_stride %% %d == 0",
                          name, p->vec, name, p->vec, name, p->vec, name, p->vec);
}

static void describe_scales(mxgen_kernel *kernel, const plan *p)
{
    mx_describe_scales(kernel, &p->key);
    mx_describe_options(kernel, &p->key, p->options);
    mx_describe_blocks_alone(kernel, &p->key);
    if (!has_scales(p))
        return;
    mxgen_kernel_scalar(kernel, "column_scales", MXE_ARG_I64, "dim0_row_stride * s_row_stride");
    if (stages_scales(p))
        mxgen_kernel_rule(kernel, "a row's scales are whole words side by side",
                          "s_block_stride == 1 && bpr %% %d == 0 && s_row_stride %% %d == 0 && "
                          "s_align >= %d",
                          SCALE_PIECE, SCALE_PIECE, SCALE_PIECE);
}

static void describe_packed(mxgen_kernel *kernel, const plan *p)
{
    mx_describe_packed(kernel, &p->key, p->staged == STAGED_CHUNKS ? CHUNK : p->record_align);
    if (p->staged == STAGED_CHUNKS)
        mxgen_kernel_rule(kernel, "a row's records are a multiple of 16 bytes",
                          "bpr * %d %% %d == 0", p->block_bytes, CHUNK);
}

static void describe(const mxgen_spec *spec, mxgen_kernel *kernel)
{
    plan p = plan_of(spec);
    bool axis_first = mxgen_spec_param(spec, "ORDER") == 1;
    char m_tiles[40], n_tiles[40];
    snprintf(m_tiles, sizeof(m_tiles), "ceil_div(bpr, %d)", p.block_m);
    snprintf(n_tiles, sizeof(n_tiles), "ceil_div(dim0_size, %d)", p.block_n);
    kernel->threads = spec->target->simd_width > 1 ? 1 : p.threads;
    kernel->lds_bytes = lds_bytes(&p);
    snprintf(kernel->grid_x, sizeof(kernel->grid_x), "%s * %s * dim1_size * dim2_size * dim3_size",
             m_tiles, n_tiles);
    mxgen_kernel_rule(kernel, "one to four row dimensions are left after merging",
                      "n_dims >= 1 && n_dims <= %d", OUTER_DIMS + 1);
    if (p.even)
        mxgen_kernel_rule(kernel, "rows are whole blocks", "len %% %d == 0", p.block_elements);
    if (p.vec > 1)
        mxgen_kernel_rule(kernel, "the inner dimension is a multiple of VEC",
                          "dim0_size %% %d == 0", p.vec);
    if (p.key.op != MX_OP_FROM)
        describe_plain(kernel, &p, "x", mx_pointer_flags(p.key.op, false));
    if (p.key.op != MX_OP_QDQ)
        describe_packed(kernel, &p);
    if (p.key.op != MX_OP_TO)
        describe_plain(kernel, &p, "y", mx_pointer_flags(p.key.op, true));
    describe_scales(kernel, &p);
    mxgen_kernel_scalar(kernel, "minor_tiles", MXE_ARG_I64, "%s", axis_first ? m_tiles : n_tiles);
    mxgen_kernel_scalar(kernel, "major_tiles", MXE_ARG_I64, "%s", axis_first ? n_tiles : m_tiles);
    mxgen_kernel_scalar(kernel, "axis_first", MXE_ARG_I64, "%d", axis_first);
    mxgen_kernel_scalar(kernel, "bpr", MXE_ARG_I64, "bpr");
    mxgen_kernel_scalar(kernel, "len", MXE_ARG_I64, "len");
    mxgen_kernel_scalar(kernel, "size0", MXE_ARG_I64, "dim0_size");
    mxgen_kernel_scalar(kernel, "row_stride0", MXE_ARG_I64, "dim0_row_stride");
    if (p.key.op != MX_OP_QDQ || p.options)
        mxgen_kernel_scalar(kernel, "column_blocks", MXE_ARG_I64, "dim0_row_stride * bpr");
    if (p.key.op != MX_OP_FROM)
        mxgen_kernel_scalar(kernel, "x_axis_stride", MXE_ARG_I64, "x_axis_stride");
    if (p.key.op != MX_OP_TO)
        mxgen_kernel_scalar(kernel, "y_axis_stride", MXE_ARG_I64, "y_axis_stride");
    if (p.in_rows && p.key.op != MX_OP_TO)
        mxgen_kernel_scalar(kernel, "stream", MXE_ARG_I32,
                            "n_dims == 1 && n_blocks >= %d && y_align >= %d && y_axis_stride * %d "
                            "%% %d == 0",
                            MOST_CACHED / p.block_elements / p.elem_bytes, 4 * p.lanes,
                            p.elem_bytes, 4 * p.lanes);
    mx_describe_dims(kernel, p.key.op, 1, OUTER_DIMS);
}

/* Staged in chunks first; rows of whole blocks without guards; then what was found on an H200: the
 * shape and vector, tiles one after the other along the side that is written. */
static double cost(const mxgen_spec *spec)
{
    plan p = plan_of(spec);
    int word = 4 / p.elem_bytes, order = mxgen_spec_param(spec, "ORDER");
    bool to = p.key.op == MX_OP_TO, from = p.key.op == MX_OP_FROM;
    double cost = 1.0 + (p.even ? 0.0 : 0.1);
    if (p.key.op != MX_OP_QDQ)
        cost += p.staged == STAGED_CHUNKS ? 0.0 : p.staged == STAGED_PIECES ? 0.2 : 0.4;
    /* Bytes that become 16 bits: single columns, in pieces, were the fastest. */
    bool widens = p.block_bytes == 32 && p.elem_bytes == 2;
    if (mx_format_is_ocp(p.key.format) && from)
        return widens && p.staged == STAGED_PIECES && p.vec == 1
                   ? 0.99
                   : cost + (p.vec == 2 ? 0.0 : 0.02) + (p.warps == 8 ? 0.015 : 0.0) +
                         (p.block_m == 16 ? 0.0 : 0.005) + (p.block_n == 64 ? 0.0 : 0.01);
    if (mx_format_is_ocp(p.key.format))
        return cost + (p.options ? 4.0 : 0.0) + (p.block_m == 16 ? 0.0 : 0.01) +
               (p.vec == (p.elem_bytes == 4 && !p.options ? 2 : word) ? 0.0 : 0.02);
    bool small = p.block_bytes <= 12, long_runs = p.elem_bytes == 2 && small;
    if (from)
        cost += p.block_m == 32 ? (long_runs ? 0.0 : 0.02) : p.warps == 8 ? 0.01 : 0.03;
    else
        cost += p.block_n == 32 * p.vec ? 0.0 : 0.02;
    /* The smaller the records, the wider the vectors. */
    int best_vec = word == 1 || from ? 2 : to && small ? 4 : word;
    cost += p.vec == best_vec ? 0.0 : 0.05;
    return cost + (order == (to ? 1 : 0) ? 0.0 : 0.01);
}

static const char *const launch_params[] = {"ORDER", NULL};

const mxgen_template mx_tiles_template = {
    .name = "mx_tiles",
    .formats = MX_ALL_FORMATS,
    .layouts = 1u << MX_LAYOUT_TILES,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .applies = applies,
    .explored = explored,
    .describe = describe,
    .cost = cost,
    .emit = emit,
    .launch_params = launch_params,
};
