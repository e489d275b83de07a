/* Any strides on both sides: block number -> row -> coordinates by division, element by element.
 *
 * Divisions are in 32 bits unless INDEX_BITS says 64: the program's first block is split in 64 bits
 * once, lanes go on from there. */
#include "gen/template.h"

#include <stdio.h>

#include "mxgen/ocp.h"
#include "mxgen/pack.h"
#include "templates/mx_block.h"
#include "templates/mx_launch.h"

enum {
    TILE_SHIFT = 5, /* of the OCP formats' tiles of 32 rows */
    OPTIONS_ALL = 1,
    OPTIONS_TILED = 2 /* for tiles with one scale only */
};

typedef struct plan {
    mxgen_key key;
    int lanes_per_block, count, loads, warps, dims, index_bits;
    int group, step_blocks, block_elements, block_bytes, elem_bytes, record_align;
    bool packed_runs; /* packed bytes lie side by side */
    bool options;     /* OCP formats: all of them, tiles with one scale included */
    bool tiled;       /* the 32 rows of a tile with one scale are on 32 lanes side by side */
    unsigned flags;
} plan;

static plan plan_of(const mxgen_spec *spec)
{
    plan p = {.key = spec->key};
    p.lanes_per_block = mxgen_spec_param(spec, "LANES_PER_BLOCK");
    p.block_elements = mx_format_get(spec->key.format)->block_elements;
    p.count = p.block_elements / p.lanes_per_block;
    p.loads = mxgen_spec_param(spec, "NUM_LOADS");
    p.warps = mxgen_spec_param(spec, "num_warps");
    p.dims = mxgen_spec_param(spec, "DIMS");
    p.index_bits = mxgen_spec_param(spec, "INDEX_BITS");
    p.packed_runs = mxgen_spec_param(spec, "PACKED_RUNS") == 1;
    p.options = mxgen_spec_param(spec, "OPTIONS") >= OPTIONS_ALL;
    p.tiled = mxgen_spec_param(spec, "OPTIONS") == OPTIONS_TILED;
    /* The host's lanes would have to gather: it takes blocks one by one. */
    p.group = spec->target->simd_width > 1 ? 1 : spec->target->lanes / p.lanes_per_block;
    p.step_blocks = p.group * p.loads;
    p.block_bytes = mx_format_get(spec->key.format)->block_bytes;
    p.elem_bytes = mx_dtype_get(spec->key.dtype)->bytes;
    p.record_align = mx_record_align(spec->key.format);
    return p;
}

/* One block of a lane. Offsets in bytes. */
typedef struct place {
    mxe_value live;               /* i1 */
    mxe_value packed;             /* i64: of the block */
    mxe_value x_offset, y_offset; /* i64: of the lane's block's first element; may be NULL */
    mxe_value remaining;          /* i64: elements from the block's first to the row's end */
    mxe_value block, row, column; /* i64: the block's */
} place;

/* Where a row begins, in elements, for x and y. */
static void row_offsets(mxe *e, const plan *p, mxe_value row, mxe_value *x, mxe_value *y)
{
    mxe_type type = p->index_bits == 32 ? MXE_I32 : MXE_I64;
    *x = *y = mxe_i64(e, 0);
    if (p->key.op != MX_OP_FROM)
        *x = mx_row_offset(e, "x_stride", p->dims, type, row);
    if (p->key.op != MX_OP_TO)
        *y = mx_row_offset(e, "y_stride", p->dims, type, row);
}

typedef struct step {
    mx_shape shape;
    mxe_value first;  /* i64 */
    mxe_value row;    /* i64: of the first block */
    mxe_value column; /* i64: block in the row */
    mxe_value limit;  /* i32 */
} step;

static mxe_value elements_to_bytes(mxe *e, const plan *p, mxe_value elements)
{
    return mxe_mul(e, elements, mxe_i64(e, p->elem_bytes));
}

/* Row and column of a block, and whether it is there: slots count the rows of a tile first, then
 * tiles along the row, then those below. */
static void locate_in_tile(mxe *e, const step *s, int load, int group, place *at)
{
    mxe_value slot = mxe_add(e, mxe_lane(e), mxe_i32(e, load * group)), tile, below, batch;
    mxe_value tile_m = mxe_param(e, "tile_m"), bpr = mxe_param(e, "bpr");
    mxe_value tiles =
        mxe_lshr(e, mxe_add(e, tile_m, mxe_i64(e, MX_OCP_BLOCK - 1)), mxe_i64(e, TILE_SHIFT));
    at->live = mxe_ult(e, slot, s->limit);
    slot = mxe_umin(e, slot, mxe_sub(e, s->limit, mxe_i32(e, 1)));
    mxe_value number = mxe_add(e, s->first, mxe_zext(e, slot, MXE_I64));
    tile = mxe_lshr(e, number, mxe_i64(e, TILE_SHIFT));
    below = mxe_udiv(e, tile, bpr);
    at->column = mxe_sub(e, tile, mxe_mul(e, below, bpr));
    batch = mxe_udiv(e, below, tiles);
    mxe_value first =
        mxe_shl(e, mxe_sub(e, below, mxe_mul(e, batch, tiles)), mxe_i64(e, TILE_SHIFT));
    mxe_value m = mxe_add(e, first, mxe_and(e, number, mxe_i64(e, MX_OCP_BLOCK - 1)));
    at->live = mxe_and(e, at->live, mxe_slt(e, m, tile_m));
    m = mxe_smin(e, m, mxe_sub(e, tile_m, mxe_i64(e, 1)));
    at->row = mxe_add(e, mxe_mul(e, batch, tile_m), m);
}

static void locate_in_row(mxe *e, const plan *p, const step *s, int load, place *at)
{
    mxe_type type = p->index_bits == 32 ? MXE_I32 : MXE_I64;
    int shift = __builtin_ctz((unsigned)p->lanes_per_block);
    mxe_value block =
        mxe_add(e, mxe_lshr(e, mxe_lane(e), mxe_i32(e, shift)), mxe_i32(e, load * p->group));
    mxe_value bpr = mxe_zext(e, mxe_param(e, "bpr"), type);
    at->live = mxe_ult(e, block, s->limit);
    block = mxe_umin(e, block, mxe_sub(e, s->limit, mxe_i32(e, 1)));
    mxe_value index = mxe_add(e, mxe_zext(e, s->column, type), mxe_zext(e, block, type));
    mxe_value rows = mxe_udiv(e, index, bpr);
    at->column = mxe_zext(e, mxe_sub(e, index, mxe_mul(e, rows, bpr)), MXE_I64);
    at->row = mxe_add(e, s->row, mxe_zext(e, rows, MXE_I64));
    at->block = mxe_add(e, s->first, mxe_zext(e, block, MXE_I64));
}

static place locate(mxe *e, const plan *p, const step *s, int load)
{
    place at;
    if (p->tiled) {
        locate_in_tile(e, s, load, p->group, &at);
        at.block = mxe_add(e, mxe_mul(e, at.row, mxe_param(e, "bpr")), at.column);
    } else {
        locate_in_row(e, p, s, load, &at);
    }
    mxe_value x, y, element = mxe_mul(e, at.column, mxe_i64(e, p->block_elements));
    row_offsets(e, p, at.row, &x, &y);
    at.x_offset = at.y_offset = (mxe_value){0};
    if (p->key.op != MX_OP_FROM) {
        x = mxe_add(e, x, mxe_mul(e, element, mxe_param(e, "x_axis_stride")));
        at.x_offset = elements_to_bytes(e, p, x);
    }
    if (p->key.op != MX_OP_TO) {
        y = mxe_add(e, y, mxe_mul(e, element, mxe_param(e, "y_axis_stride")));
        at.y_offset = elements_to_bytes(e, p, y);
    }
    if (p->key.op != MX_OP_QDQ)
        at.packed = mxe_mul(e, at.block, mxe_param(e, "p_block_stride"));
    at.remaining = mxe_sub(e, mxe_param(e, "len"), element);
    /* Rows that a tile lacks are zeros. */
    if (p->tiled)
        at.remaining = mxe_select(e, at.live, at.remaining, mxe_i64(e, 0));
    return at;
}

/* Number of element i of this lane within the block. */
static mxe_value element_number(mxe *e, const plan *p, const step *s, int i)
{
    mxe_value number = mxe_i64(e, i);
    if (p->lanes_per_block > 1)
        number = mxe_add(e, number,
                         mxe_zext(e, mxe_mul(e, s->shape.part, mxe_i32(e, p->count)), MXE_I64));
    return number;
}

static mxe_type element_type(const plan *p)
{
    return p->elem_bytes == 4 ? MXE_I32 : MXE_I16;
}

static void load_elements(mxe *e, const plan *p, const step *s, const place *at, mxe_value *raw)
{
    mxe_value stride = elements_to_bytes(e, p, mxe_param(e, "x_axis_stride"));
    mxe_value inside[MX_MOST_ELEMENTS];
    for (int i = 0; i < p->count; i++) {
        mxe_value number = element_number(e, p, s, i);
        inside[i] = mxe_slt(e, number, at->remaining);
        number = mxe_select(e, inside[i], number, mxe_i64(e, 0));
        mxe_addr addr = {.pointer = "x"};
        addr.varying = mxe_add(e, at->x_offset, mxe_mul(e, number, stride));
        mxe_load(e, addr, element_type(p), 1, p->elem_bytes, p->flags, &raw[i]);
    }
    for (int i = 0; i < p->count; i++)
        raw[i] = mxe_select(e, inside[i], mxe_zext(e, raw[i], MXE_I32), mxe_i32(e, 0));
}

static void store_elements(mxe *e, const plan *p, const step *s, const place *at,
                           const mxe_value *raw)
{
    mxe_value stride = elements_to_bytes(e, p, mxe_param(e, "y_axis_stride"));
    for (int i = 0; i < p->count; i++) {
        mxe_value number = element_number(e, p, s, i);
        mxe_value when = mxe_and(e, at->live, mxe_slt(e, number, at->remaining));
        mxe_value item = mxe_zext(e, raw[i], element_type(p));
        mxe_addr addr = {.pointer = "y"};
        addr.varying = mxe_add(e, at->y_offset, mxe_mul(e, number, stride));
        mxe_store(e, addr, element_type(p), 1, p->elem_bytes, p->flags, when, &item);
    }
}

static void store_record(mxe *e, const plan *p, const step *s, const place *at,
                         const mx_record *record)
{
    mxe_addr block = {.pointer = "p", .varying = at->packed};
    if (p->packed_runs)
        mx_record_store(e, &s->shape, record, block, p->record_align, p->flags, at->live);
    else
        mx_record_store_bytes(e, &s->shape, record, block, mxe_param(e, "p_byte_stride"), p->flags,
                              at->live);
}

static void load_record(mxe *e, const plan *p, const step *s, const place *at, mx_record *record)
{
    mxe_addr block = {.pointer = "p", .varying = at->packed};
    mx_record_to_load(&s->shape, record);
    if (p->packed_runs)
        mx_record_load(e, &s->shape, record, block, p->record_align, p->flags);
    else
        mx_record_load_bytes(e, &s->shape, record, block, mxe_param(e, "p_byte_stride"), p->flags);
}

/* ---- Scales of the OCP formats ---- */

static bool has_scales(const plan *p)
{
    return mx_format_is_ocp(p->key.format) && p->key.op != MX_OP_QDQ;
}

static mxe_value is_two_d(mxe *e)
{
    return mxe_ne(e, mxe_param(e, "two_d"), mxe_i64(e, 0));
}

/* A row's number among the rows of its tile, which the last of a batch may have fewer of. */
static mxe_value row_in_batch(mxe *e, const plan *p, mxe_value row, mxe_value *batch)
{
    mxe_type type = p->index_bits == 32 ? MXE_I32 : MXE_I64;
    mxe_value tile_m = mxe_param(e, "tile_m");
    mxe_value quotient = mxe_udiv(e, mxe_zext(e, row, type), mxe_zext(e, tile_m, type));
    *batch = mxe_zext(e, quotient, MXE_I64);
    return mxe_sub(e, row, mxe_mul(e, *batch, tile_m));
}

/* A scale's place, and (i1, or NULL ref) whether its row is the one that stores it. */
static mxe_addr scale_addr(mxe *e, const plan *p, const place *at, mxe_value *stores)
{
    mxe_value row = at->row, batch;
    mxe_addr addr = {.pointer = "s"};
    *stores = mxe_always();
    if (p->options) {
        mxe_value m = row_in_batch(e, p, row, &batch);
        mxe_value tiles = mxe_add(e, mxe_param(e, "tile_m"), mxe_i64(e, MX_OCP_BLOCK - 1));
        tiles = mxe_mul(e, batch, mxe_lshr(e, tiles, mxe_i64(e, TILE_SHIFT)));
        mxe_value first = mxe_eq(e, mxe_and(e, m, mxe_i64(e, MX_OCP_BLOCK - 1)), mxe_i64(e, 0));
        *stores = mxe_or(e, first, mxe_eq(e, mxe_param(e, "two_d"), mxe_i64(e, 0)));
        row = mxe_select(e, is_two_d(e), mxe_add(e, tiles, mxe_lshr(e, m, mxe_i64(e, TILE_SHIFT))),
                         row);
    }
    addr.varying = mxe_add(e, mxe_mul(e, row, mxe_param(e, "s_row_stride")),
                           mxe_mul(e, at->column, mxe_param(e, "s_block_stride")));
    return addr;
}

static void store_scale(mxe *e, const plan *p, const step *s, const place *at, mxe_value scale)
{
    mxe_value stores;
    mxe_addr addr = scale_addr(e, p, at, &stores);
    mxe_value when = stores.ref ? mxe_and(e, at->live, stores) : at->live;
    if (p->lanes_per_block > 1)
        when = mxe_and(e, when, mxe_eq(e, s->shape.part, mxe_i32(e, 0)));
    mxe_value byte = mxe_zext(e, scale, MXE_I8);
    mxe_store(e, addr, MXE_I8, 1, 1, 0, when, &byte);
}

static mxe_value load_scale(mxe *e, const plan *p, const place *at)
{
    mxe_value stores, byte;
    mxe_addr addr = scale_addr(e, p, at, &stores);
    mxe_load(e, addr, MXE_I8, 1, 1, 0, &byte);
    return mxe_zext(e, byte, MXE_I32);
}

/* Every block of a tile reads all of it, so that blocks stay independent. A row that is not there
 * is read as the tile's first. */
static mxe_value tile_amax(mxe *e, const plan *p, const step *s, const place *at)
{
    mxe_loop loop;
    mxe_branch branch;
    mxe_value raw[MX_MOST_ELEMENTS], batch, x, y;
    mxe_var most = mxe_var_new(e, mxe_varying(e, mxe_i32(e, 0)));
    mxe_if_begin(e, &branch, is_two_d(e));
    mxe_value m = row_in_batch(e, p, at->row, &batch);
    mxe_value in_tile = mxe_and(e, m, mxe_i64(e, MX_OCP_BLOCK - 1));
    mxe_value first = mxe_sub(e, at->row, in_tile);
    mxe_value left = mxe_sub(e, mxe_param(e, "tile_m"), mxe_sub(e, m, in_tile));
    mxe_value i = mxe_for_begin(e, &loop, mxe_i64(e, 0), mxe_i64(e, MX_OCP_BLOCK), mxe_i64(e, 1));
    place other = *at;
    mxe_value row = mxe_select(e, mxe_slt(e, i, left), mxe_add(e, first, i), first);
    row_offsets(e, p, row, &x, &y);
    x = mxe_add(e, x,
                mxe_mul(e, mxe_mul(e, at->column, mxe_i64(e, p->block_elements)),
                        mxe_param(e, "x_axis_stride")));
    other.x_offset = elements_to_bytes(e, p, x);
    load_elements(e, p, s, &other, raw);
    mxe_value own = mx_largest(e, &s->shape, raw);
    mxe_var_set(e, most, mxe_umax(e, mxe_var_get(e, most), own));
    mxe_for_end(e, &loop);
    mxe_if_end(e, &branch);
    return mxe_var_get(e, most);
}

static void encode_block(mxe *e, const plan *p, const step *s, const place *at,
                         const mxe_value *raw, mx_codes *codes)
{
    mx_shape shape = s->shape;
    if (p->options) {
        mxe_value part = mxe_zext(e, shape.part, MXE_I64);
        shape.position = mxe_add(e, mxe_mul(e, at->block, mxe_i64(e, p->block_elements / 4)),
                                 mxe_mul(e, part, mxe_i64(e, p->count / 4)));
        if (p->tiled)
            shape.amax = mxe_lane_reduce(e, MXE_UMAX, mx_largest(e, &shape, raw), MX_OCP_BLOCK);
        else
            shape.amax = tile_amax(e, p, s, at);
    }
    mx_encode(e, &shape, raw, codes);
}

static void step_body(mxe *e, const plan *p, const step *s)
{
    place at[4];
    mxe_value raw[4][MX_MOST_ELEMENTS], scales[4];
    mx_record records[4];
    mx_codes codes;
    for (int u = 0; u < p->loads; u++) {
        at[u] = locate(e, p, s, u);
        if (p->key.op == MX_OP_FROM)
            load_record(e, p, s, &at[u], &records[u]);
        else
            load_elements(e, p, s, &at[u], raw[u]);
        if (has_scales(p) && p->key.op == MX_OP_FROM)
            scales[u] = load_scale(e, p, &at[u]);
    }
    for (int u = 0; u < p->loads; u++) {
        mxe_value out[MX_MOST_ELEMENTS];
        if (p->key.op == MX_OP_FROM) {
            if (has_scales(p))
                codes.header = scales[u];
            mx_unpack(e, &s->shape, &records[u], &codes);
        } else {
            encode_block(e, p, s, &at[u], raw[u], &codes);
        }
        if (p->key.op == MX_OP_TO) {
            mx_pack(e, &s->shape, &codes, &records[u]);
            store_record(e, p, s, &at[u], &records[u]);
            if (has_scales(p))
                store_scale(e, p, s, &at[u], codes.header);
            continue;
        }
        mx_decode(e, &s->shape, &codes, p->key.op == MX_OP_QDQ ? raw[u] : NULL, out);
        store_elements(e, p, s, &at[u], out);
    }
}

static void emit(mxe *e, const mxgen_spec *spec, const mxgen_kernel *kernel)
{
    plan p = plan_of(spec);
    step s = {.shape = {p.key.format, p.key.dtype, p.key.profile, p.lanes_per_block, p.count,
                        mxe_i32(e, 0)}};
    s.shape.options = p.options;
    s.shape.hardware = mx_converts(spec);
    mxe_loop loop;
    mxe_branch branch;
    (void)kernel;
    mxe_scalar_begin(e);
    if (p.lanes_per_block > 1)
        s.shape.part = mxe_and(e, mxe_lane(e), mxe_i32(e, p.lanes_per_block - 1));
    mxe_value steps = mxe_param(e, "steps"), total = mxe_param(e, p.tiled ? "n_slots" : "n_blocks");
    mxe_value bpr = mxe_param(e, "bpr");
    mxe_type type = p.index_bits == 32 ? MXE_I32 : MXE_I64;
    mxe_value program = mxe_program_id(e), warp = mxe_zext(e, mxe_warp(e), MXE_I64);
    mxe_value i = mxe_for_begin(e, &loop, mxe_i64(e, 0), steps, mxe_i64(e, 1));
    mxe_value index = mxe_add(e, mxe_mul(e, program, steps), i);
    index = mxe_add(e, mxe_mul(e, index, mxe_i64(e, p.warps)), warp);
    s.first = mxe_mul(e, index, mxe_i64(e, p.step_blocks));
    mxe_if_begin(e, &branch, mxe_slt(e, s.first, total));
    mxe_value left = mxe_umin(e, mxe_sub(e, total, s.first), mxe_i64(e, p.step_blocks));
    s.limit = mxe_zext(e, left, MXE_I32);
    mxe_value row = mxe_udiv(e, mxe_zext(e, s.first, type), mxe_zext(e, bpr, type));
    s.row = mxe_zext(e, row, MXE_I64);
    s.column = mxe_sub(e, s.first, mxe_mul(e, s.row, bpr));
    step_body(e, &p, &s);
    mxe_if_end(e, &branch);
    mxe_for_end(e, &loop);
    mxe_scalar_end(e);
}

/* ---- Descriptor ---- */

static const int lanes_values[] = {1, 2, 4}, loads_values[] = {1, 2}, warps_values[] = {1, 2, 4, 8};
static const int blocks_values[] = {32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};
static const int dims_values[] = {1, 2, 4, MXPACK_MAX_ROW_DIMS}, bits_values[] = {32, 64};
static const int flag_values[] = {0, 1}, options_values[] = {0, OPTIONS_ALL, OPTIONS_TILED};

#define VALUES(v) v, sizeof(v) / sizeof((v)[0])
static const mxgen_param params[] = {
    {"BLOCKS_PER_PROGRAM", VALUES(blocks_values)},
    {"num_warps", VALUES(warps_values)},
    {"LANES_PER_BLOCK", VALUES(lanes_values)},
    {"NUM_LOADS", VALUES(loads_values)},
    {"DIMS", VALUES(dims_values)},
    {"INDEX_BITS", VALUES(bits_values)},
    {"PACKED_RUNS", VALUES(flag_values)},
    {"OPTIONS", VALUES(options_values)},
};

static bool applies(const mxgen_spec *spec, char *why, size_t why_bytes)
{
    plan p = plan_of(spec);
    int blocks = mxgen_spec_param(spec, "BLOCKS_PER_PROGRAM");
    if (!mx_lanes_fit(spec, p.lanes_per_block, why, why_bytes) ||
        !mx_warps_fit(spec, p.warps, why, why_bytes))
        return false;
    if (blocks % (p.step_blocks * p.warps))
        return snprintf(
                   why, why_bytes,
                   "BLOCKS_PER_PROGRAM %d: must be a multiple of NUM_LOADS * num_warps * lanes "
                   "/ LANES_PER_BLOCK = %d",
                   blocks, p.step_blocks * p.warps),
               false;
    if (p.packed_runs && p.key.op == MX_OP_QDQ)
        return snprintf(why, why_bytes, "PACKED_RUNS 1: qdq has no packed bytes"), false;
    if (p.options && !mx_format_is_ocp(p.key.format))
        return snprintf(why, why_bytes, "OPTIONS 1: %s has no options",
                        mx_format_get(p.key.format)->name),
               false;
    if (p.tiled && (p.key.op == MX_OP_FROM || p.lanes_per_block > 1 || p.index_bits != 64 ||
                    spec->target->simd_width > 1))
        return snprintf(why, why_bytes,
                        "OPTIONS 2: packing on GPUs, a block a lane, 64-bit indices"),
               false;
    if (p.options && p.count < 16)
        return snprintf(why, why_bytes,
                        "LANES_PER_BLOCK %d: a lane that rotates needs 16 elements, it has %d",
                        p.lanes_per_block, p.count),
               false;
    return true;
}

/* OCP formats: one that divides little, and what takes everything, with and without options. */
static bool explored_ocp(const plan *p, int steps)
{
    bool many = p->dims == MXPACK_MAX_ROW_DIMS, alone = p->lanes_per_block == 1;
    if (steps != 1)
        return false;
    if (p->options)
        return many && alone && p->index_bits == 64 && !p->packed_runs;
    if (p->index_bits == 64)
        return many && alone && !p->packed_runs;
    return p->dims == 2 && p->lanes_per_block == 4 && (p->packed_runs || p->key.op == MX_OP_QDQ);
}

/* The declared set: GPUs, few row dimensions on four lanes a block and many on one, packed bytes
 * side by side or not (qdq: few on one lane, too), each with one step a program up to 32; one
 * variant with 64-bit indices. Host: one for all. */
static bool explored(const mxgen_spec *spec)
{
    plan p = plan_of(spec);
    int blocks = mxgen_spec_param(spec, "BLOCKS_PER_PROGRAM");
    int steps = blocks / (p.step_blocks * p.warps);
    bool many = p.dims == MXPACK_MAX_ROW_DIMS, alone = p.lanes_per_block == 1;
    if (spec->target->simd_width > 1)
        return p.loads == 1 && p.warps == 1 && blocks == 256 && many && p.index_bits == 64 &&
               !(p.packed_runs && mx_format_is_ocp(p.key.format));
    if (p.warps != 4 || p.loads != 1 || steps > 32)
        return false;
    if (mx_format_is_ocp(p.key.format))
        return explored_ocp(&p, steps);
    if (p.index_bits == 64)
        return many && alone && steps == 1 && !p.packed_runs;
    if (p.key.profile == MX_PROFILE_DEMOTED_255)
        return many && alone && steps == 1;
    if (many)
        return alone;
    return p.dims == 2 && (p.lanes_per_block == 4 || (p.key.op == MX_OP_QDQ && alone) ||
                           (p.key.op == MX_OP_QDQ && p.lanes_per_block == 2));
}

static void describe_plain(mxgen_kernel *kernel, const plan *p, const char *name, unsigned flags)
{
    mxgen_kernel_pointer(kernel, name, flags, p->elem_bytes);
    mxgen_kernel_rule(kernel, "the tensor is aligned to its elements", "%s_align >= %d", name,
                      p->elem_bytes);
}

/* Blocks may lie apart, and so may their bytes. */
static void describe_packed(mxgen_kernel *kernel, const plan *p)
{
    mxgen_kernel_pointer(kernel, "p", mx_pointer_flags(p->key.op, p->key.op == MX_OP_TO),
                         p->packed_runs ? p->record_align : 1);
    if (!p->packed_runs)
        return;
    mxgen_kernel_rule(kernel, "the bytes of a packed block lie side by side", "p_byte_stride == 1");
    mxgen_kernel_rule(kernel, "packed blocks are aligned to the accesses",
                      "p_align >= %d && p_block_stride %% %d == 0", p->record_align,
                      p->record_align);
}

/* Places of blocks in whole tiles. */
#define SLOTS "rows / tile_m * ceil_div(tile_m, 32) * 32 * bpr"

static void describe(const mxgen_spec *spec, mxgen_kernel *kernel)
{
    plan p = plan_of(spec);
    int blocks = mxgen_spec_param(spec, "BLOCKS_PER_PROGRAM");
    kernel->threads = spec->target->simd_width > 1 ? 1 : p.warps * spec->target->lanes;
    snprintf(kernel->grid_x, sizeof(kernel->grid_x), "ceil_div(%s, %d)",
             p.tiled ? SLOTS : "n_blocks", blocks);
    if (p.tiled) {
        mxgen_kernel_rule(kernel, "tiles have one scale", "two_d == 1");
        mxgen_kernel_scalar(kernel, "n_slots", MXE_ARG_I64, SLOTS);
    }
    if (p.index_bits == 32)
        mxgen_kernel_rule(kernel, "blocks are counted in 31 bits", "n_blocks <= 2147483647 - %d",
                          2 * blocks);
    if (p.key.op != MX_OP_FROM)
        describe_plain(kernel, &p, "x", mx_pointer_flags(p.key.op, false));
    if (p.key.op != MX_OP_QDQ)
        describe_packed(kernel, &p);
    if (p.key.op != MX_OP_TO)
        describe_plain(kernel, &p, "y", mx_pointer_flags(p.key.op, true));
    mx_describe_scales(kernel, &p.key);
    mx_describe_options(kernel, &p.key, p.options);
    if (p.options) {
        mxgen_kernel_scalar(kernel, "two_d", MXE_ARG_I64, "two_d");
        mxgen_kernel_scalar(kernel, "tile_m", MXE_ARG_I64, "tile_m");
    } else {
        mx_describe_blocks_alone(kernel, &p.key);
    }
    mxgen_kernel_scalar(kernel, "steps", MXE_ARG_I64, "%d", blocks / (p.step_blocks * p.warps));
    mxgen_kernel_scalar(kernel, "n_blocks", MXE_ARG_I64, "n_blocks");
    mxgen_kernel_scalar(kernel, "bpr", MXE_ARG_I64, "bpr");
    mxgen_kernel_scalar(kernel, "len", MXE_ARG_I64, "len");
    if (p.key.op != MX_OP_FROM)
        mxgen_kernel_scalar(kernel, "x_axis_stride", MXE_ARG_I64, "x_axis_stride");
    if (p.key.op != MX_OP_TO)
        mxgen_kernel_scalar(kernel, "y_axis_stride", MXE_ARG_I64, "y_axis_stride");
    if (p.key.op != MX_OP_QDQ) {
        mxgen_kernel_scalar(kernel, "p_block_stride", MXE_ARG_I64, "p_block_stride");
        mxgen_kernel_scalar(kernel, "p_byte_stride", MXE_ARG_I64, "p_byte_stride");
    }
    mxgen_kernel_rule(kernel, "no more row dimensions than the kernel divides by", "n_dims <= %d",
                      p.dims);
    mx_describe_dims(kernel, p.key.op, 0, p.dims - 1);
}

/* Few divisions first, then wide packed accesses, then lanes that share a block. */
static double cost(const mxgen_spec *spec)
{
    plan p = plan_of(spec);
    int blocks = mxgen_spec_param(spec, "BLOCKS_PER_PROGRAM");
    double cost = 1.0 + 0.1 * p.dims + (p.index_bits == 64 ? 2.0 : 0.0) +
                  (p.tiled     ? 3.0
                   : p.options ? 4.0
                               : 0.0);
    cost += p.key.op != MX_OP_QDQ && !p.packed_runs ? 0.05 : 0.0;
    cost += 0.02 / p.lanes_per_block + 0.01 * p.loads;
    return cost + (blocks == p.step_blocks * p.warps ? 0.0 : 0.002);
}

static const char *const launch_params[] = {"BLOCKS_PER_PROGRAM", NULL};

const mxgen_template mx_general_template = {
    .name = "mx_general",
    .formats = MX_ALL_FORMATS,
    .layouts = 1u << MX_LAYOUT_GENERAL,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .applies = applies,
    .explored = explored,
    .describe = describe,
    .cost = cost,
    .emit = emit,
    .keeps_last = true,
    .launch_params = launch_params,
};
