/* Grouped GEMM on operands in the workspace (gemm_workspace.h): one warpgroup's first thread copies
 * tiles into shared memory, num_stages deep, and two warpgroups multiply, each half of
 * BLOCK_SIZE_M.
 *
 * The matrix unit cuts off bits of its FP8 accumulator that f32 would keep, so partial sums are
 * added to sums in registers, the sooner the more bits products have. */
#include <stdio.h>

#include "mxgen/error.h"
#include "templates/gemm_workspace.h"

extern const mxgen_template gemm_prepare_template, gemm_redo_template;

enum {
    GROUP_THREADS = 128, /* of a warpgroup */
    CONSUMERS = 2,
    THREADS = GROUP_THREADS * (1 + CONSUMERS),
    MMA_ROWS = 64,
    ROW_BYTES = 128, /* of a piece */
    COPIER_REGISTERS = 40,
    CONSUMER_REGISTERS = 232,
    MOST_ACC = 128
};

typedef struct plan {
    mxgen_key key;
    gemm_grid grid;
    mxe_tile_product product;
    int elem_bytes, stages;
    int promote_bytes;                    /* of a row, after which sums are added up; 0: never */
    int a_bytes, stage_bytes, signals_at; /* in shared memory */
    int width;                            /* columns that are stored together: 1, 2, 8 */
} plan;

/* Products of not negative numbers are low by a share that grows with what is summed before and
 * with the bits of a product. This keeps it below 1e-3. */
static int promote_bytes_of(const mxgen_gemm_key *key)
{
    static const int bits[MXGEN_OPERAND_COUNT] = {
        [MXGEN_OPERAND_MXFP4] = 2, [MXGEN_OPERAND_MXFP8_E4M3] = 4, [MXGEN_OPERAND_MXFP8_E5M2] = 3};
    int sum = bits[key->left] + bits[key->right];
    if (key->exact)
        return 0;
    return sum > 6 ? 64 : sum > 4 ? 128 : 256;
}

static plan plan_of(const mxgen_spec *spec)
{
    plan p = {.key = spec->key};
    p.grid.pass = spec->key.gemm.pass;
    p.grid.block_m = CONSUMERS * MMA_ROWS;
    p.grid.block_n = mxgen_spec_param(spec, "BLOCK_SIZE_N");
    p.grid.group_size_m = mxgen_spec_param(spec, "GROUP_SIZE_M");
    p.grid.num_xcds = p.grid.chunk = 1;
    p.elem_bytes = spec->key.gemm.exact ? 2 : 1;
    p.stages = mxgen_spec_param(spec, "num_stages");
    p.promote_bytes = promote_bytes_of(&spec->key.gemm);
    p.product = (mxe_tile_product){.a = gemm_kept_kind(spec->key.gemm.left, p.elem_bytes),
                                   .b = gemm_kept_kind(spec->key.gemm.right, p.elem_bytes),
                                   .n = p.grid.block_n,
                                   .bytes = p.promote_bytes == 64 ? 64 : ROW_BYTES};
    p.width = mxgen_spec_param(spec, "VEC");
    p.a_bytes = p.grid.block_m * ROW_BYTES;
    p.stage_bytes = p.a_bytes + p.grid.block_n * ROW_BYTES;
    p.signals_at = p.stages * p.stage_bytes;
    return p;
}

/* ---- The ring of stages ---- */

typedef struct ring {
    mxe_var stage, parity; /* i32 */
} ring;

static ring ring_new(mxe *e)
{
    ring r = {mxe_var_new(e, mxe_i32(e, 0)), mxe_var_new(e, mxe_i32(e, 0))};
    return r;
}

static void ring_advance(mxe *e, const plan *p, const ring *r)
{
    mxe_value next = mxe_add(e, mxe_var_get(e, r->stage), mxe_i32(e, 1));
    mxe_value wraps = mxe_eq(e, next, mxe_i32(e, p->stages));
    mxe_value flip = mxe_select(e, wraps, mxe_i32(e, 1), mxe_i32(e, 0));
    mxe_var_set(e, r->stage, mxe_select(e, wraps, mxe_i32(e, 0), next));
    mxe_var_set(e, r->parity, mxe_xor(e, mxe_var_get(e, r->parity), flip));
}

static mxe_value full_signal(mxe *e, const plan *p, mxe_value stage)
{
    mxe_value at = mxe_shl(e, stage, mxe_i32(e, 3));
    return mxe_add(e, at, mxe_i32(e, p->signals_at));
}

static mxe_value empty_signal(mxe *e, const plan *p, mxe_value stage)
{
    return mxe_add(e, full_signal(e, p, stage), mxe_i32(e, p->stages * MXE_SIGNAL_BYTES));
}

static void init_signals(mxe *e, const plan *p)
{
    mxe_branch branch;
    mxe_value lane = mxe_eq(e, mxe_lane(e), mxe_i32(e, 0));
    mxe_value warp = mxe_eq(e, mxe_warp(e), mxe_i32(e, 0));
    mxe_if_begin(e, &branch, mxe_any(e, mxe_and(e, lane, warp)));
    for (int i = 0; i < p->stages; i++) {
        mxe_signal_init(e, full_signal(e, p, mxe_i32(e, i)), 1);
        mxe_signal_init(e, empty_signal(e, p, mxe_i32(e, i)), CONSUMERS);
    }
    mxe_signal_fence(e);
    mxe_if_end(e, &branch);
    mxe_barrier(e);
}

/* Pieces that a tile contracts over: [*begin, *end). */
static void piece_range(mxe *e, const plan *p, const gemm_tile *tile, mxe_value *begin,
                        mxe_value *end)
{
    mxe_value seven = mxe_i64(e, 7), per = mxe_i64(e, p->elem_bytes);
    if (p->key.gemm.pass == MXGEN_PASS_ROWS) {
        mxe_value owned = mxe_slt(e, tile->group, mxe_param(e, "groups"));
        *begin = mxe_i64(e, 0);
        *end = mxe_select(e, owned, mxe_param(e, "k_tiles"), *begin);
        return;
    }
    mxe_value length = mxe_add(e, mxe_sub(e, tile->k_end, tile->k_begin), mxe_i64(e, GEMM_RUN - 1));
    *begin = mxe_mul(e, tile->first_run, per);
    *end = mxe_add(e, *begin, mxe_mul(e, mxe_lshr(e, length, seven), per));
}

/* Strips of the right operand before the group's. Those that are no groups take the last one's. */
static mxe_value right_strip(mxe *e, const plan *p, const gemm_tile *tile)
{
    if (p->key.gemm.pass == MXGEN_PASS_COLS)
        return mxe_i64(e, 0);
    mxe_value n = mxe_add(e, mxe_param(e, "n"), mxe_i64(e, GEMM_STRIP - 1));
    mxe_value last = mxe_sub(e, mxe_param(e, "groups"), mxe_i64(e, 1));
    return mxe_mul(e, mxe_smin(e, tile->group, last), mxe_lshr(e, n, mxe_i64(e, 3)));
}

static mxe_value strips_at(mxe *e, mxe_value tiles, mxe_value piece, mxe_value strips,
                           mxe_value strip)
{
    mxe_value atom = mxe_add(e, mxe_mul(e, piece, strips), strip);
    return mxe_add(e, tiles, mxe_mul(e, atom, mxe_i64(e, GEMM_ATOM_BYTES)));
}

/* ---- The copying thread ---- */

static void copy_tiles(mxe *e, const plan *p, const gemm_places *places)
{
    gemm_walk walk;
    gemm_tile tile;
    mxe_loop loop;
    mxe_value begin, end, one = mxe_i32(e, 1);
    ring r = ring_new(e);
    gemm_walk_begin(e, &walk, &p->grid, &tile);
    piece_range(e, p, &tile, &begin, &end);
    mxe_value left =
        mxe_add(e, tile.strip, mxe_mul(e, tile.tile_m, mxe_i64(e, p->grid.block_m / GEMM_STRIP)));
    mxe_value right = mxe_add(e, right_strip(e, p, &tile),
                              mxe_mul(e, tile.tile_n, mxe_i64(e, p->grid.block_n / GEMM_STRIP)));
    mxe_value piece = mxe_for_begin(e, &loop, begin, end, mxe_i64(e, 1));
    mxe_value stage = mxe_var_get(e, r.stage);
    mxe_value a = mxe_mul(e, stage, mxe_i32(e, p->stage_bytes));
    mxe_value full = full_signal(e, p, stage);
    mxe_signal_wait(e, empty_signal(e, p, stage), mxe_xor(e, mxe_var_get(e, r.parity), one));
    mxe_signal_expect(e, full, mxe_i32(e, p->stage_bytes));
    mxe_bulk_load(e, a, "workspace",
                  strips_at(e, places->left_tiles, piece, mxe_param(e, "left_strips"), left),
                  mxe_i32(e, p->a_bytes), full);
    mxe_bulk_load(e, mxe_add(e, a, mxe_i32(e, p->a_bytes)), "workspace",
                  strips_at(e, places->right_tiles, piece, mxe_param(e, "right_strips"), right),
                  mxe_i32(e, p->stage_bytes - p->a_bytes), full);
    ring_advance(e, p, &r);
    mxe_for_end(e, &loop);
    gemm_walk_end(e, &walk);
}

/* ---- The multiplying warpgroups ---- */

typedef struct consumer {
    const plan *p;
    mxe_value half; /* i32: which 64 rows of the tile */
    mxe_value lane; /* i32 */
    mxe_value warp; /* i32: of the warpgroup */
    ring r;
    mxe_var acc[MOST_ACC], sum[MOST_ACC];
    int n_acc;
} consumer;

static void promote(mxe *e, consumer *c)
{
    for (int i = 0; i < c->n_acc; i++)
        mxe_var_set(e, c->sum[i],
                    mxe_fadd(e, mxe_var_get(e, c->sum[i]), mxe_var_get(e, c->acc[i])));
}

/* One piece: waits for its stage, multiplies, sets the stage free. */
static void multiply(mxe *e, consumer *c, bool clear)
{
    mxe_branch branch;
    mxe_value acc[MOST_ACC];
    const plan *p = c->p;
    mxe_value stage = mxe_var_get(e, c->r.stage);
    mxe_value a = mxe_mul(e, stage, mxe_i32(e, p->stage_bytes));
    mxe_value b = mxe_add(e, a, mxe_i32(e, p->a_bytes));
    a = mxe_add(e, a, mxe_mul(e, c->half, mxe_i32(e, MMA_ROWS * ROW_BYTES)));
    mxe_signal_wait(e, full_signal(e, p, stage), mxe_var_get(e, c->r.parity));
    for (int at = 0; at < ROW_BYTES; at += p->product.bytes) {
        mxe_value skip = mxe_i32(e, at);
        if (at)
            promote(e, c);
        for (int i = 0; i < c->n_acc; i++)
            acc[i] = mxe_var_get(e, c->acc[i]);
        mxe_tile_mma(e, &p->product, mxe_add(e, a, skip), mxe_add(e, b, skip), mxe_i32(e, clear),
                     acc);
        for (int i = 0; i < c->n_acc; i++)
            mxe_var_set(e, c->acc[i], acc[i]);
    }
    mxe_value first =
        mxe_and(e, mxe_eq(e, c->lane, mxe_i32(e, 0)), mxe_eq(e, c->warp, mxe_i32(e, 0)));
    mxe_if_begin(e, &branch, mxe_any(e, first));
    mxe_signal_arrive(e, empty_signal(e, p, stage));
    mxe_if_end(e, &branch);
    ring_advance(e, p, &c->r);
}

/* Pieces from `begin` to `end`, `n` of them at a time, into sums that start from zero each time. */
static void multiply_pieces(mxe *e, consumer *c, mxe_value begin, mxe_value end, int n)
{
    mxe_loop loop;
    mxe_for_begin(e, &loop, begin, end, mxe_i64(e, n));
    for (int i = 0; i < n; i++)
        multiply(e, c, i == 0);
    promote(e, c);
    mxe_for_end(e, &loop);
}

static void multiply_tile(mxe *e, consumer *c, mxe_value begin, mxe_value end)
{
    mxe_loop loop;
    mxe_value zero = mxe_f32(e, 0), one = mxe_i64(e, 1);
    int n = c->p->promote_bytes / ROW_BYTES;
    for (int i = 0; i < c->n_acc; i++)
        mxe_var_set(e, c->p->promote_bytes ? c->sum[i] : c->acc[i], zero);
    if (!c->p->promote_bytes) {
        mxe_for_begin(e, &loop, begin, end, one);
        multiply(e, c, false);
        mxe_for_end(e, &loop);
    } else if (n > 1) {
        mxe_value rest = mxe_and(e, mxe_sub(e, end, begin), one);
        mxe_value pairs = mxe_sub(e, end, rest);
        multiply_pieces(e, c, begin, pairs, n);
        multiply_pieces(e, c, pairs, end, 1);
    } else {
        multiply_pieces(e, c, begin, end, 1);
    }
}

/* ---- Epilogue ---- */

/* What a lane stores of a tile; h = 0, 1 counts its rows, j the strips of eight columns. */
typedef struct outcome {
    mxe_value live[2];            /* i1: the row is there and not flagged */
    mxe_value offset[2];          /* i64: of the row's first element, in elements */
    mxe_value factor[2];          /* f32 */
    mxe_value column;             /* i64: the tile's first */
    mxe_value columns;            /* i64: that there are */
    mxe_value refs[MOST_ACC / 4]; /* i32: two bytes, of the lane's columns of strip j */
} outcome;

static mxe_value factor_of(mxe *e, const plan *p, mxgen_operand operand, mxe_value reference)
{
    int bias = gemm_kept_bias(operand, p->elem_bytes);
    mxe_value exponent = mxe_add(e, reference, mxe_i32(e, 127 - bias));
    return mxe_bitcast(e, mxe_shl(e, exponent, mxe_i32(e, 23)), MXE_F32);
}

static mxe_value load_small(mxe *e, mxe_type type, mxe_value uniform, mxe_value varying)
{
    mxe_value value;
    int bytes = type == MXE_I8 ? 1 : 2;
    mxe_addr from = {.pointer = "workspace", .uniform = uniform, .varying = varying};
    mxe_load(e, from, type, 1, bytes, 0, &value);
    return mxe_zext(e, value, MXE_I32);
}

/* The lane's columns 8 j + 2 (lane % 4) and the next. */
static mxe_value lane_column(mxe *e, const consumer *c, int j)
{
    mxe_value pair = mxe_shl(e, mxe_and(e, c->lane, mxe_i32(e, 3)), mxe_i32(e, 1));
    return mxe_zext(e, mxe_add(e, pair, mxe_i32(e, 8 * j)), MXE_I64);
}

/* Rows that nobody owns have no references: any will do for their zeros. */
static void find_rows(mxe *e, const consumer *c, const gemm_places *places, const gemm_tile *tile,
                      mxe_value unowned, outcome *o)
{
    const plan *p = c->p;
    bool rows = p->key.gemm.pass == MXGEN_PASS_ROWS;
    mxe_value strip = mxe_i64(e, GEMM_STRIP), zero = mxe_i64(e, 0), any = mxe_i32(e, 127);
    mxe_value inner =
        mxe_add(e, mxe_mul(e, c->half, mxe_i32(e, MMA_ROWS)), mxe_mul(e, c->warp, mxe_i32(e, 16)));
    inner = mxe_add(e, inner, mxe_lshr(e, c->lane, mxe_i32(e, 2)));
    mxe_value first = mxe_mul(e, tile->tile_m, mxe_i64(e, p->grid.block_m));
    mxe_value left = rows ? tile->strip : mxe_mul(e, tile->group, mxe_param(e, "left_strips"));
    mxe_value group = rows ? zero : mxe_mul(e, tile->group, mxe_param(e, "out_group_stride"));
    mxe_value refs = mxe_add(e, places->left_refs, mxe_mul(e, left, strip));
    for (int h = 0; h < 2; h++) {
        mxe_value row = mxe_zext(e, mxe_add(e, inner, mxe_i32(e, GEMM_STRIP * h)), MXE_I64);
        mxe_value ref = load_small(e, MXE_I8, mxe_add(e, refs, first), row);
        ref = mxe_select(e, unowned, any, ref);
        row = mxe_add(e, first, row);
        mxe_value at = mxe_mul(e, mxe_add(e, tile->out_row, row), mxe_param(e, "out_row_stride"));
        o->offset[h] = mxe_add(e, at, group);
        o->live[h] = mxe_and(e, mxe_slt(e, row, tile->rows), mxe_ne(e, ref, mxe_i32(e, 0)));
        o->factor[h] = factor_of(e, p, p->key.gemm.left, ref);
    }
}

static void find_columns(mxe *e, const consumer *c, const gemm_places *places,
                         const gemm_tile *tile, mxe_value unowned, outcome *o)
{
    const plan *p = c->p;
    bool rows = p->key.gemm.pass == MXGEN_PASS_ROWS;
    mxe_value right =
        rows ? right_strip(e, p, tile) : mxe_mul(e, tile->group, mxe_param(e, "right_strips"));
    o->column = mxe_mul(e, tile->tile_n, mxe_i64(e, p->grid.block_n));
    o->columns = mxe_param(e, rows ? "n" : "k");
    mxe_value refs = mxe_add(e, places->right_refs, mxe_mul(e, right, mxe_i64(e, GEMM_STRIP)));
    refs = mxe_add(e, refs, o->column);
    for (int j = 0; j < p->grid.block_n / GEMM_STRIP; j++) {
        o->refs[j] = load_small(e, MXE_I16, refs, lane_column(e, c, j));
        o->refs[j] = mxe_select(e, unowned, mxe_i32(e, 127 * 0x101), o->refs[j]);
    }
}

/* The lane's two elements of row h in strip j, scaled. */
static void scaled_pair(mxe *e, const consumer *c, const outcome *o, int h, int j, mxe_value out[2])
{
    mxe_value refs[2] = {mxe_and(e, o->refs[j], mxe_i32(e, 0xff)),
                         mxe_lshr(e, o->refs[j], mxe_i32(e, 8))};
    for (int i = 0; i < 2; i++) {
        int at = 4 * j + 2 * h + i;
        mxe_value sum = mxe_var_get(e, c->p->promote_bytes ? c->sum[at] : c->acc[at]);
        mxe_value factor = factor_of(e, c->p, c->p->key.gemm.right, refs[i]);
        out[i] = mxe_fmul(e, mxe_fmul(e, sum, o->factor[h]), factor);
    }
}

static mxe_type out_type(mx_dtype dtype)
{
    return dtype == MX_DTYPE_F32 ? MXE_I32 : MXE_I16;
}

/* f32 -> the output's bits, rounded to nearest even. */
static mxe_value to_output(mxe *e, mx_dtype dtype, mxe_value value)
{
    if (dtype == MX_DTYPE_F32)
        return mxe_bitcast(e, value, MXE_I32);
    return mxe_zext(e, mxe_pack_halves(e, value, value, dtype), MXE_I16);
}

static mxe_value from_output(mxe *e, mx_dtype dtype, mxe_value bits)
{
    if (dtype == MX_DTYPE_F32)
        return mxe_bitcast(e, bits, MXE_F32);
    if (dtype == MX_DTYPE_F16)
        return mxe_fcast(e, mxe_bitcast(e, bits, MXE_F16), MXE_F32);
    mxe_value wide = mxe_shl(e, mxe_zext(e, bits, MXE_I32), mxe_i32(e, 16));
    return mxe_bitcast(e, wide, MXE_F32);
}

static mxe_addr out_addr(mxe *e, const plan *p, mxe_value element)
{
    mxe_value bytes = mxe_i64(e, mx_dtype_get(p->key.dtype)->bytes);
    return (mxe_addr){.pointer = "out", .varying = mxe_mul(e, element, bytes)};
}

/* n elements side by side, added to what is there or not. */
static void store_elements(mxe *e, const plan *p, mxe_value at, mxe_value when, int n,
                           mxe_value *values, bool accumulates)
{
    mxe_branch branch;
    mxe_value bits[2];
    mx_dtype dtype = p->key.dtype;
    int bytes = mx_dtype_get(dtype)->bytes;
    mxe_if_begin(e, &branch, mxe_any(e, when));
    if (accumulates) {
        mxe_load(e, out_addr(e, p, at), out_type(dtype), n, n * bytes, 0, bits);
        for (int i = 0; i < n; i++)
            values[i] = mxe_fadd(e, values[i], from_output(e, dtype, bits[i]));
    }
    for (int i = 0; i < n; i++)
        bits[i] = to_output(e, dtype, values[i]);
    mxe_store(e, out_addr(e, p, at), out_type(dtype), n, n * bytes, 0, mxe_always(), bits);
    mxe_if_end(e, &branch);
}

static void store_pairs(mxe *e, const consumer *c, const outcome *o, int j, bool accumulates)
{
    mxe_value values[2], one = mxe_i64(e, 1);
    mxe_value column = mxe_add(e, o->column, lane_column(e, c, j));
    mxe_value second = mxe_add(e, column, one);
    mxe_value kept = mxe_ne(e, o->refs[j], mxe_i32(e, 0));
    mxe_value inside[2] = {mxe_slt(e, column, o->columns), mxe_slt(e, second, o->columns)};
    for (int h = 0; h < 2; h++) {
        mxe_value keep = mxe_and(e, kept, o->live[h]);
        mxe_value at = mxe_add(e, o->offset[h], column);
        mxe_value first = mxe_and(e, keep, inside[0]), both = mxe_and(e, keep, inside[1]);
        scaled_pair(e, c, o, h, j, values);
        if (c->p->width > 1) {
            store_elements(e, c->p, at, both, 2, values, accumulates);
            continue;
        }
        store_elements(e, c->p, at, first, 1, &values[0], accumulates);
        store_elements(e, c->p, mxe_add(e, at, one), both, 1, &values[1], accumulates);
    }
}

/* words[i] of lane q of four lanes becomes words[q] of lane i. */
static void transpose_quad(mxe *e, const consumer *c, mxe_value words[4])
{
    mxe_value one = mxe_i32(e, 1), zero = mxe_i32(e, 0);
    mxe_value odd = mxe_ne(e, mxe_and(e, c->lane, one), zero);
    mxe_value high = mxe_ne(e, mxe_and(e, c->lane, mxe_i32(e, 2)), zero);
    mxe_value near[4];
    for (int i = 0; i < 4; i += 2) {
        mxe_value sent = mxe_select(e, odd, words[i], words[i + 1]);
        mxe_value got = mxe_swap_lanes(e, sent, 1);
        near[i] = mxe_select(e, odd, got, words[i]);
        near[i + 1] = mxe_select(e, odd, words[i + 1], got);
    }
    for (int i = 0; i < 2; i++) {
        mxe_value got = mxe_swap_lanes(e, mxe_select(e, high, near[i], near[i + 2]), 2);
        words[i] = mxe_select(e, high, got, near[i]);
        words[i + 2] = mxe_select(e, high, near[i + 2], got);
    }
}

/* The strips j .. j + 3 of halves: after an exchange lane q of four has the eight columns of strip
 * j + q, which are 16 bytes. */
static void store_strips(mxe *e, const consumer *c, const outcome *o, int j)
{
    mxe_value values[2], words[4], quarter = mxe_and(e, c->lane, mxe_i32(e, 3));
    mxe_value kept = mxe_i1(e, 0);
    for (int q = 0; q < 4; q++)
        kept = mxe_select(e, mxe_eq(e, quarter, mxe_i32(e, q)),
                          mxe_ne(e, o->refs[j + q], mxe_i32(e, 0)), kept);
    mxe_value strip = mxe_add(e, mxe_i64(e, j), mxe_zext(e, quarter, MXE_I64));
    mxe_value column = mxe_add(e, o->column, mxe_shl(e, strip, mxe_i64(e, 3)));
    kept = mxe_and(e, kept, mxe_slt(e, column, o->columns));
    for (int h = 0; h < 2; h++) {
        for (int q = 0; q < 4; q++) {
            scaled_pair(e, c, o, h, j + q, values);
            words[q] = mxe_pack_halves(e, values[0], values[1], c->p->key.dtype);
        }
        transpose_quad(e, c, words);
        mxe_value at = mxe_add(e, o->offset[h], column);
        mxe_store(e, out_addr(e, c->p, at), MXE_I32, 4, 16, 0, mxe_and(e, kept, o->live[h]), words);
    }
}

static void store_tile(mxe *e, const consumer *c, const gemm_places *places, const gemm_tile *tile)
{
    mxe_branch branch;
    outcome o;
    bool wide = c->p->width == 8;
    int strips = c->p->grid.block_n / GEMM_STRIP;
    mxe_value unowned = mxe_i1(e, 0);
    if (c->p->key.gemm.pass == MXGEN_PASS_ROWS)
        unowned = mxe_sle(e, mxe_param(e, "groups"), tile->group);
    find_rows(e, c, places, tile, unowned, &o);
    find_columns(e, c, places, tile, unowned, &o);
    mxe_if_begin(e, &branch, mxe_ne(e, mxe_param(e, "accumulate"), mxe_i32(e, 0)));
    for (int j = 0; j < strips; j++)
        store_pairs(e, c, &o, j, true);
    mxe_if_else(e, &branch);
    for (int j = 0; j < strips; j += wide ? 4 : 1) {
        if (wide)
            store_strips(e, c, &o, j);
        else
            store_pairs(e, c, &o, j, false);
    }
    mxe_if_end(e, &branch);
}

static void consume_tiles(mxe *e, const plan *p, const gemm_places *places)
{
    gemm_walk walk;
    gemm_tile tile;
    mxe_value begin, end, zero = mxe_varying(e, mxe_f32(e, 0));
    consumer c = {.p = p, .n_acc = p->grid.block_n / 2};
    c.lane = mxe_lane(e);
    c.half = mxe_sub(e, mxe_lshr(e, mxe_warp(e), mxe_i32(e, 2)), mxe_i32(e, 1));
    c.warp = mxe_and(e, mxe_warp(e), mxe_i32(e, 3));
    c.r = ring_new(e);
    for (int i = 0; i < c.n_acc; i++) {
        c.acc[i] = mxe_var_new(e, zero);
        if (p->promote_bytes)
            c.sum[i] = mxe_var_new(e, zero);
    }
    gemm_walk_begin(e, &walk, &p->grid, &tile);
    piece_range(e, p, &tile, &begin, &end);
    multiply_tile(e, &c, begin, end);
    store_tile(e, &c, places, &tile);
    gemm_walk_end(e, &walk);
}

/* ---- The template ---- */

static void emit(mxe *e, const mxgen_spec *spec, const mxgen_kernel *kernel)
{
    plan p = plan_of(spec);
    gemm_places places;
    mxe_branch role, thread;
    mxe_lds_reserve(e, kernel->lds_bytes);
    gemm_locate(e, p.key.gemm.pass, &places);
    init_signals(e, &p);
    mxe_if_begin(e, &role, mxe_ult(e, mxe_warp(e), mxe_i32(e, GROUP_THREADS / e->lanes)));
    mxe_register_budget(e, COPIER_REGISTERS, false);
    mxe_value first =
        mxe_and(e, mxe_eq(e, mxe_warp(e), mxe_i32(e, 0)), mxe_eq(e, mxe_lane(e), mxe_i32(e, 0)));
    mxe_if_begin(e, &thread, mxe_any(e, first));
    copy_tiles(e, &p, &places);
    mxe_if_end(e, &thread);
    gemm_write_status(e, p.key.gemm.pass, 1);
    mxe_if_else(e, &role);
    mxe_register_budget(e, CONSUMER_REGISTERS, true);
    consume_tiles(e, &p, &places);
    mxe_if_end(e, &role);
}

static bool applies(const mxgen_spec *spec, char *why, size_t why_bytes)
{
    plan p = plan_of(spec);
    const mxgen_gemm_key *key = &spec->key.gemm;
    if (!mxgen_target_has(spec->target, MXGEN_CAP_TILE_MMA))
        snprintf(why, why_bytes, "the target multiplies no tiles in shared memory");
    else if (key->right == MXGEN_OPERAND_BF16)
        snprintf(why, why_bytes, "the right operand is packed");
    else if (key->right != MXGEN_OPERAND_MXFP4 &&
             (key->left == MXGEN_OPERAND_MXFP4 || key->left == MXGEN_OPERAND_BF16))
        snprintf(why, why_bytes, "MXFP8 on the right goes with MXFP8 on the left");
    else if (!key->exact && key->left == MXGEN_OPERAND_BF16)
        snprintf(why, why_bytes, "fast: bf16 fits no FP8");
    else if (p.width == 8 && spec->key.dtype == MX_DTYPE_F32)
        snprintf(why, why_bytes, "VEC 8: 16 bytes are four columns of f32");
    else if (p.promote_bytes && p.grid.block_n > 192)
        snprintf(why, why_bytes, "BLOCK_SIZE_N %d: two sets of sums fit up to 192", p.grid.block_n);
    else if (p.signals_at + 2 * p.stages * MXE_SIGNAL_BYTES > spec->target->lds_large_bytes)
        snprintf(why, why_bytes, "num_stages %d: %d bytes of shared memory, there are %d", p.stages,
                 p.signals_at, spec->target->lds_large_bytes);
    else
        return true;
    return false;
}

static bool explored(const mxgen_spec *spec)
{
    plan p = plan_of(spec);
    /* As many stages as fit; narrow stores only for one width. */
    int most = (spec->target->lds_large_bytes - 1024) / p.stage_bytes;
    bool vectors = p.width == (spec->key.dtype == MX_DTYPE_F32 ? 2 : 8);
    if (p.stages != (most < 6 ? most : 6))
        return false;
    return p.grid.block_n == 256 ? p.width == 8 : vectors || p.grid.block_n == 192;
}

static void name_steps(const mxgen_spec *spec, const plan *p, mxgen_kernel *kernel)
{
    mxgen_operand operands[2] = {spec->key.gemm.left, spec->key.gemm.right};
    for (int side = 0; side < 2; side++) {
        mxgen_key key = {.op = MX_OP_TO, .dtype = MX_DTYPE_F32};
        key.gemm = (mxgen_gemm_key){MXGEN_PASS_STEP, operands[side], operands[side], .exact = true};
        int values[3] = {side, spec->key.gemm.pass == MXGEN_PASS_COLS, p->elem_bytes};
        mxgen_kernel_before(kernel, &gemm_prepare_template, spec->target, &key, values);
    }
    mxgen_key key = spec->key;
    key.gemm.pass = MXGEN_PASS_STEP;
    key.gemm.exact = true;
    int values[2] = {spec->key.gemm.pass == MXGEN_PASS_COLS, p->elem_bytes};
    mxgen_kernel_after(kernel, &gemm_redo_template, spec->target, &key, values);
}

static void describe(const mxgen_spec *spec, mxgen_kernel *kernel)
{
    plan p = plan_of(spec);
    bool rows = spec->key.gemm.pass == MXGEN_PASS_ROWS;
    int bytes = mx_dtype_get(spec->key.dtype)->bytes;
    kernel->threads = THREADS;
    kernel->min_programs_per_cu = 1;
    kernel->lds_bytes = p.signals_at + 2 * p.stages * MXE_SIGNAL_BYTES;
    mxgen_kernel_pointer(kernel, "out", 0, p.width * bytes);
    mxgen_kernel_pointer(kernel, "status", MXE_ARG_WRITEONLY, 4);
    gemm_describe_walk(kernel, spec->key.gemm.pass);
    gemm_describe_workspace(kernel, spec->key.gemm.pass, p.elem_bytes, true);
    mxgen_kernel_scalar(kernel, "out_row_stride", MXE_ARG_I64, "out_row_stride");
    if (!rows)
        mxgen_kernel_scalar(kernel, "out_group_stride", MXE_ARG_I64, "out_group_stride");
    if (rows)
        snprintf(kernel->grid_x, sizeof(kernel->grid_x),
                 "max(1, min(num_cu, (ceil_div(out_rows, %d) + groups) * ceil_div(n, %d)))",
                 p.grid.block_m, p.grid.block_n);
    else
        snprintf(kernel->grid_x, sizeof(kernel->grid_x),
                 "max(1, min(num_cu, groups * ceil_div(n, %d) * ceil_div(k, %d)))", p.grid.block_m,
                 p.grid.block_n);
    mxgen_kernel_scalar(kernel, "grid", MXE_ARG_I64, "%s", kernel->grid_x);
    if (p.width > 1) {
        mxgen_kernel_rule(kernel, "columns are stored side by side",
                          "%s %% %d == 0 && out_row_stride %% %d == 0", rows ? "n" : "k", p.width,
                          p.width);
        mxgen_kernel_rule(kernel, "what is stored together is aligned",
                          "out_align >= %d && out_group_stride %% %d == 0", p.width * bytes,
                          p.width);
    }
    mxgen_kernel_rule(kernel, "nothing is empty", "m >= 1 && n >= 1 && k >= 1");
    name_steps(spec, &p, kernel);
}

/* Work of the matrix unit against what a tile copies; narrow stores last. */
static double cost(const mxgen_spec *spec)
{
    plan p = plan_of(spec);
    double multiply = p.grid.block_n, copy = 0.35 * (p.grid.block_m + p.grid.block_n);
    double group = p.grid.group_size_m == 8 ? 1 : 1.01;
    return (multiply + copy) / p.grid.block_n * group *
           (p.width > 2   ? 1
            : p.width > 1 ? 1.02
                          : 1.3);
}

static const int widths[] = {128, 192, 256}, groups[] = {8}, stages[] = {3, 4, 5, 6},
                 columns[] = {8, 2, 1};
static const mxgen_param params[] = {{"BLOCK_SIZE_N", widths, 3},
                                     {"GROUP_SIZE_M", groups, 1},
                                     {"num_stages", stages, 4},
                                     {"VEC", columns, 3}};

const mxgen_template gemm_tiles_template = {
    .name = "gemm_tiles",
    .passes = 1u << MXGEN_PASS_ROWS | 1u << MXGEN_PASS_COLS,
    .any_operands = true,
    .params = params,
    .n_params = 4,
    .applies = applies,
    .explored = explored,
    .describe = describe,
    .cost = cost,
    .emit = emit,
};
