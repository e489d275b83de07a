/* Decodes one operand of grouped GEMM into the workspace (gemm_workspace.h).
 *
 * A program takes a strip of 8 rows through the whole contraction (gemm_cols: of one group). First
 * warp w finds the largest scale of row w, the row's reference. Then the warps take turns at runs
 * of 128 elements: lane l has row l / 4 and block l % 4 of the run, so a lane has one scale and 32
 * elements. */
#include <stdio.h>

#include "templates/gemm_workspace.h"

enum { WARPS = 8, UNROLL = 2, NAN_SCALE = 255, BLOCK = GEMM_BLOCK };

/* Blocks whose scale is farther below the row's reference flush to zero and flag the strip. The one
 * is what E5M2 holds, the other keeps products of two elements normal f32 numbers. */
enum { E5M2_SPREAD = 26, BF16_SPREAD = 60 };

typedef struct plan {
    mxgen_operand operand;
    mxgen_pass pass;
    bool right;
    int elem_bytes; /* in the workspace: 1 is E5M2, 2 bf16 */
    const char *data, *scales, *row_stride, *scale_row_stride, *scale_block_stride;
    int words;     /* of 4 bytes that a lane's 32 elements have in the tensor */
    int out_words; /* and in the workspace */
} plan;

static plan plan_of(const mxgen_spec *spec)
{
    plan p = {.operand = spec->key.gemm.left};
    static const int words[MXGEN_OPERAND_COUNT] = {4, 8, 8, 16};
    p.right = mxgen_spec_param(spec, "SIDE") == 1;
    p.pass = mxgen_spec_param(spec, "COLS") == 1 ? MXGEN_PASS_COLS : MXGEN_PASS_ROWS;
    p.elem_bytes = mxgen_spec_param(spec, "ELEM_BYTES");
    p.words = words[p.operand];
    p.out_words = BLOCK * p.elem_bytes / 4;
    p.data = p.right ? "right" : "left";
    p.scales = p.right ? "right_scales" : "left_scales";
    p.row_stride = p.right ? "right_row_stride" : "left_row_stride";
    p.scale_row_stride = p.right ? "right_scale_row_stride" : "left_scale_row_stride";
    p.scale_block_stride = p.right ? "right_scale_block_stride" : "left_scale_block_stride";
    return p;
}

static bool has_scales(const plan *p)
{
    return p->operand != MXGEN_OPERAND_BF16;
}

/* What the program works on; uniform i64 but for `lane_row`. */
typedef struct strip {
    mxe_value number;          /* in the workspace */
    mxe_value meta;            /* for references and flags */
    mxe_value first, valid;    /* row of the group, and how many rows it has */
    mxe_value data, scales;    /* byte offsets of the group's row 0 */
    mxe_value k_begin, k_end;  /* elements */
    mxe_value first_run;       /* in the workspace */
    mxe_value lane_row, block; /* i32: row 0 .. 7 and block 0 .. 3 of this lane */
} strip;

static mxe_value arg(mxe *e, const char *name)
{
    return mxe_param(e, name);
}

static void find_left_rows(mxe *e, const plan *p, strip *s)
{
    gemm_tile tile;
    s->number = mxe_program_id(e);
    gemm_find_strip(e, s->number, &tile);
    s->meta = s->number;
    s->first = mxe_mul(e, tile.tile_m, mxe_i64(e, GEMM_STRIP));
    s->valid = mxe_select(e, mxe_slt(e, mxe_i64(e, 0), tile.rows), tile.valid, mxe_i64(e, 0));
    /* Without rows nothing is kept of what is read: row 0 of the tensor serves. */
    mxe_value zero = mxe_i64(e, 0);
    mxe_value row = mxe_select(e, mxe_slt(e, zero, s->valid), tile.left_row, zero);
    s->data = mxe_mul(e, row, arg(e, p->row_stride));
    s->scales = has_scales(p) ? mxe_mul(e, row, arg(e, p->scale_row_stride)) : zero;
}

/* Strips of each group in turn, all groups alike. */
static void find_group_strip(mxe *e, const plan *p, const char *rows, strip *s)
{
    mxe_value n = arg(e, rows), program = mxe_program_id(e), zero = mxe_i64(e, 0);
    mxe_value each = mxe_lshr(e, mxe_add(e, n, mxe_i64(e, GEMM_STRIP - 1)), mxe_i64(e, 3));
    mxe_value group = mxe_udiv(e, program, each);
    mxe_value in_group = mxe_sub(e, program, mxe_mul(e, group, each));
    s->meta = program;
    s->first = mxe_mul(e, in_group, mxe_i64(e, GEMM_STRIP));
    s->valid = n;
    s->data = s->scales = zero;
    if (p->pass == MXGEN_PASS_COLS) {
        gemm_tile bounds;
        gemm_group_bounds(e, group, &bounds);
        s->number = in_group;
        s->k_begin = bounds.k_begin, s->k_end = bounds.k_end;
        s->first_run = bounds.first_run;
        return;
    }
    s->number = program;
    s->data = mxe_mul(e, group, arg(e, "right_group_stride"));
    if (has_scales(p))
        s->scales = mxe_mul(e, group, arg(e, "right_scale_group_stride"));
}

static void find_strip(mxe *e, const plan *p, strip *s)
{
    s->k_begin = s->first_run = mxe_i64(e, 0);
    s->k_end = p->pass == MXGEN_PASS_ROWS ? arg(e, "k") : arg(e, "m");
    s->lane_row = mxe_lshr(e, mxe_lane(e), mxe_i32(e, 2));
    s->block = mxe_and(e, mxe_lane(e), mxe_i32(e, 3));
    if (p->pass == MXGEN_PASS_ROWS && !p->right)
        find_left_rows(e, p, s);
    else
        find_group_strip(e, p, p->pass == MXGEN_PASS_COLS && p->right ? "k" : "n", s);
}

/* ---- References ---- */

/* A row of the strip, kept inside the tensor; *live says whether it was. */
static mxe_value inner_row(mxe *e, const strip *s, mxe_value row, mxe_value *live)
{
    mxe_value at = mxe_add(e, s->first, row), zero = mxe_i64(e, 0);
    *live = mxe_slt(e, at, s->valid);
    return mxe_smax(e, mxe_smin(e, at, mxe_sub(e, s->valid, mxe_i64(e, 1))), zero);
}

static mxe_value load_scale(mxe *e, const plan *p, const strip *s, mxe_value row, mxe_value block)
{
    mxe_value byte;
    mxe_value at = mxe_add(e, mxe_mul(e, row, arg(e, p->scale_row_stride)),
                           mxe_mul(e, block, arg(e, p->scale_block_stride)));
    mxe_addr addr = {.pointer = p->scales, .uniform = s->scales, .varying = at};
    mxe_load(e, addr, MXE_I8, 1, 1, 0, &byte);
    return mxe_zext(e, byte, MXE_I32);
}

static mxe_value word(mxe *e, uint32_t bits)
{
    return mxe_i32(e, (int32_t)bits);
}

static void load_block(mxe *e, const plan *p, const strip *s, mxe_value row, mxe_value block,
                       mxe_value *words)
{
    mxe_value at = mxe_add(e, mxe_mul(e, row, arg(e, p->row_stride)),
                           mxe_mul(e, block, mxe_i64(e, 4 * p->words)));
    for (int i = 0; i < p->words; i += 4) {
        mxe_addr from = {
            .pointer = p->data, .uniform = s->data, .varying = mxe_add(e, at, mxe_i64(e, 4 * i))};
        mxe_load(e, from, MXE_I32, 4, 16, 0, &words[i]);
    }
}

/* Whether any element is not zero. */
static mxe_value has_values(mxe *e, const plan *p, const mxe_value *in)
{
    mxe_value all = in[0];
    for (int i = 1; i < p->words; i++)
        all = mxe_or(e, all, in[i]);
    uint32_t mask = p->operand == MXGEN_OPERAND_MXFP4 ? 0x77777777 : 0x7f7f7f7f;
    return mxe_ne(e, mxe_and(e, all, word(e, mask)), mxe_i32(e, 0));
}

/* The largest scale of the warp's row that is not NaN, in all lanes. gemm_cols: of a block that is
 * not all zero, so that what the scales of padding hold does not matter. */
static mxe_value largest_scale(mxe *e, const plan *p, const strip *s)
{
    mxe_loop loop;
    mxe_branch any;
    mxe_value live, zero = mxe_i64(e, 0), five = mxe_i64(e, 5);
    mxe_value lane = mxe_zext(e, mxe_lane(e), MXE_I64);
    mxe_value row = inner_row(e, s, mxe_zext(e, mxe_warp(e), MXE_I64), &live);
    mxe_value end = mxe_lshr(e, s->k_end, five);
    mxe_var best = mxe_var_new(e, mxe_varying(e, mxe_i32(e, 0)));
    mxe_if_begin(e, &any, mxe_slt(e, zero, s->valid));
    mxe_value at =
        mxe_for_begin(e, &loop, mxe_lshr(e, s->k_begin, five), end, mxe_i64(e, e->lanes));
    mxe_value block = mxe_add(e, at, lane);
    mxe_value inside = mxe_slt(e, block, end);
    block = mxe_smin(e, block, mxe_sub(e, end, mxe_i64(e, 1)));
    mxe_value scale = load_scale(e, p, s, row, block);
    mxe_value counts =
        mxe_and(e, mxe_and(e, inside, live), mxe_ne(e, scale, mxe_i32(e, NAN_SCALE)));
    if (p->pass == MXGEN_PASS_COLS) {
        mxe_value words[16];
        load_block(e, p, s, row, block, words);
        counts = mxe_and(e, counts, has_values(e, p, words));
    }
    scale = mxe_select(e, counts, scale, mxe_i32(e, 0));
    mxe_var_set(e, best, mxe_umax(e, mxe_var_get(e, best), scale));
    mxe_for_end(e, &loop);
    mxe_if_end(e, &any);
    mxe_value most = mxe_lane_reduce(e, MXE_UMAX, mxe_var_get(e, best), 16);
    return mxe_umax(e, most, mxe_swap_lanes(e, most, 16));
}

static mxe_addr shared_word(mxe *e, mxe_value index)
{
    return (mxe_addr){.varying = mxe_shl(e, index, mxe_i32(e, 2))};
}

/* The reference of the warp's row; `own` is that of the lane's row. */
static mxe_value references(mxe *e, const plan *p, const strip *s, mxe_value *own)
{
    mxe_value mine = mxe_i32(e, GEMM_BF16_BIAS);
    mxe_value first = mxe_eq(e, mxe_lane(e), mxe_i32(e, 0));
    if (has_scales(p))
        mine = mxe_smin(e, mxe_smax(e, largest_scale(e, p, s), mxe_i32(e, GEMM_LEAST_REF)),
                        mxe_i32(e, GEMM_MOST_REF));
    mxe_store(e, shared_word(e, mxe_warp(e)), MXE_I32, 1, 4, 0, first, &mine);
    mxe_barrier(e);
    mxe_load(e, shared_word(e, s->lane_row), MXE_I32, 1, 4, 0, own);
    return mine;
}

/* ---- Decoding 32 elements ---- */

/* Puts the sign bits of four codes, nibbles of `codes` from byte 2 * half on, on four bytes. */
static mxe_value add_signs(mxe *e, mxe_value bytes, mxe_value codes, int half)
{
    mxe_value pairs = mxe_lookup(e, codes, codes, word(e, half ? 0x3322 : 0x1100));
    mxe_value even = mxe_and(e, mxe_shl(e, pairs, mxe_i32(e, 4)), word(e, 0x00800080));
    mxe_value odd = mxe_and(e, pairs, word(e, 0x80008000));
    return mxe_or(e, bytes, mxe_or(e, even, odd));
}

static mxe_value select_codes(mxe *e, mxe_value codes, int half)
{
    mxe_value magnitudes = mxe_and(e, codes, word(e, 0x77777777));
    return half ? mxe_lshr(e, magnitudes, mxe_i32(e, 16)) : magnitudes;
}

/* E2M1 * 2^shift as E5M2, by a table of the eight magnitudes. `above` is 26 + scale - reference. */
static void fp4_to_e5m2(mxe *e, mxe_value above, mxe_value flush, mxe_value nan,
                        const mxe_value *in, mxe_value *out)
{
    mxe_value low = mxe_add(e, word(e, 0x0a080400), mxe_mul(e, above, word(e, 0x04040400)));
    mxe_value high = mxe_add(e, word(e, 0x12100e0c), mxe_mul(e, above, word(e, 0x04040404)));
    low = mxe_select(e, nan, word(e, 0x7f7f7f7f), mxe_select(e, flush, word(e, 0), low));
    high = mxe_select(e, nan, word(e, 0x7f7f7f7f), mxe_select(e, flush, word(e, 0), high));
    for (int i = 0; i < 8; i++) {
        mxe_value bytes = mxe_lookup(e, low, high, select_codes(e, in[i / 2], i % 2));
        out[i] = add_signs(e, bytes, in[i / 2], i % 2);
    }
}

/* E2M1 * 2^-below as bf16, by tables of low and high bytes. */
static void fp4_to_bf16(mxe *e, mxe_value below, mxe_value flush, mxe_value nan,
                        const mxe_value *in, mxe_value *out)
{
    static const uint32_t base[4] = {0x3f000000, 0x3fc03f80, 0x40404000, 0x40c04080};
    mxe_value pairs[4], tables[4];
    mxe_value down = mxe_shl(e, below, mxe_i32(e, 7));
    for (int i = 0; i < 4; i++) {
        mxe_value both = mxe_mul(e, down, word(e, i ? 0x00010001 : 0x00010000));
        pairs[i] = mxe_select(e, flush, word(e, 0), mxe_sub(e, word(e, base[i]), both));
        pairs[i] = mxe_select(e, nan, word(e, 0x7fc07fc0), pairs[i]);
    }
    for (int i = 0; i < 4; i++)
        tables[i] = mxe_lookup(e, pairs[2 * (i % 2)], pairs[2 * (i % 2) + 1],
                               word(e, i / 2 ? 0x7531 : 0x6420));
    for (int i = 0; i < 8; i++) {
        mxe_value codes = select_codes(e, in[i / 2], i % 2);
        mxe_value low = mxe_lookup(e, tables[0], tables[1], codes);
        mxe_value high = mxe_lookup(e, tables[2], tables[3], codes);
        high = add_signs(e, high, in[i / 2], i % 2);
        out[2 * i] = mxe_lookup(e, low, high, word(e, 0x5140));
        out[2 * i + 1] = mxe_lookup(e, low, high, word(e, 0x7362));
    }
}

/* Bytes of FP8 through f32: the fields shifted into place are the value times a power of two, which
 * `factor` makes good. Bytes from `special` on are NaN, for E5M2 the first is infinite. */
static void fp8_to_bf16(mxe *e, const plan *p, mxe_value factor, mxe_value flush, mxe_value nan,
                        const mxe_value *in, mxe_value *out)
{
    bool e5m2 = p->operand == MXGEN_OPERAND_MXFP8_E5M2;
    mxe_value halves[2];
    for (int i = 0; i < BLOCK; i++) {
        mxe_value byte = mxe_lshr(e, in[i / 4], mxe_i32(e, 8 * (i % 4)));
        mxe_value magnitude = mxe_and(e, byte, word(e, 0x7f));
        mxe_value sign = mxe_shl(e, mxe_and(e, byte, word(e, 0x80)), mxe_i32(e, 24));
        mxe_value bits = mxe_shl(e, magnitude, mxe_i32(e, e5m2 ? 21 : 20));
        mxe_value value = mxe_fmul(e, mxe_bitcast(e, bits, MXE_F32), factor);
        bits = mxe_select(e, flush, word(e, 0), mxe_bitcast(e, value, MXE_I32));
        mxe_value bad = mxe_ult(e, word(e, e5m2 ? 0x7c : 0x7e), magnitude);
        bits = mxe_select(e, mxe_or(e, bad, nan), word(e, 0x7fc00000), bits);
        if (e5m2)
            bits = mxe_select(e, mxe_eq(e, magnitude, word(e, 0x7c)),
                              mxe_select(e, nan, word(e, 0x7fc00000), word(e, 0x7f800000)), bits);
        halves[i % 2] = mxe_or(e, bits, sign);
        if (i % 2)
            out[i / 2] = mxe_lookup(e, halves[0], halves[1], word(e, 0x7632));
    }
}

/* Decodes; returns whether something was lost. */
static mxe_value decode(mxe *e, const plan *p, mxe_value scale, mxe_value reference,
                        const mxe_value *in, mxe_value *out)
{
    if (!has_scales(p)) {
        for (int i = 0; i < p->out_words; i++)
            out[i] = in[i];
        return mxe_i1(e, 0);
    }
    int spread = p->elem_bytes == 1 ? E5M2_SPREAD : BF16_SPREAD;
    mxe_value nan = mxe_eq(e, scale, mxe_i32(e, NAN_SCALE));
    if (p->pass == MXGEN_PASS_COLS)
        nan = mxe_and(e, nan, has_values(e, p, in));
    mxe_value below = mxe_sub(e, reference, scale);
    /* As an unsigned number: scales above the reference, too. */
    mxe_value flush = mxe_ult(e, mxe_i32(e, spread), below);
    flush = mxe_and(e, flush, mxe_ne(e, scale, mxe_i32(e, NAN_SCALE)));
    if (p->elem_bytes == 1) {
        fp4_to_e5m2(e, mxe_sub(e, mxe_i32(e, spread), below), flush, nan, in, out);
    } else if (p->operand == MXGEN_OPERAND_MXFP4) {
        fp4_to_bf16(e, below, flush, nan, in, out);
    } else {
        int from = p->operand == MXGEN_OPERAND_MXFP8_E5M2 ? 127 + 112 : 127 + 120;
        mxe_value bits = mxe_shl(e, mxe_sub(e, mxe_i32(e, from), below), mxe_i32(e, 23));
        fp8_to_bf16(e, p, mxe_bitcast(e, bits, MXE_F32), flush, nan, in, out);
    }
    return mxe_and(e, flush, has_values(e, p, in));
}

/* ---- One run of 128 elements ---- */

typedef struct run {
    mxe_value live;   /* i1: this lane's block exists */
    mxe_value number; /* i64: of the run in the group */
    mxe_value words[16], scale;
} run;

static void load_run(mxe *e, const plan *p, const strip *s, mxe_value number, run *r)
{
    mxe_value row_live;
    mxe_value row = inner_row(e, s, mxe_zext(e, s->lane_row, MXE_I64), &row_live);
    mxe_value first = mxe_lshr(e, s->k_begin, mxe_i64(e, 5));
    mxe_value block = mxe_add(e, mxe_shl(e, number, mxe_i64(e, 2)), mxe_zext(e, s->block, MXE_I64));
    block = mxe_add(e, first, block);
    mxe_value end = mxe_lshr(e, s->k_end, mxe_i64(e, 5));
    r->number = number;
    r->live = mxe_and(e, row_live, mxe_slt(e, block, end));
    block = mxe_smin(e, block, mxe_sub(e, end, mxe_i64(e, 1)));
    load_block(e, p, s, row, block, r->words);
    r->scale = has_scales(p) ? load_scale(e, p, s, row, block) : mxe_i32(e, 0);
}

static void store_run(mxe *e, const plan *p, const strip *s, const run *r, mxe_value tiles_at,
                      mxe_value strips, const mxe_value *words)
{
    mxe_value row = s->lane_row;
    for (int c = 0; c < p->out_words / 4; c++) {
        mxe_value number = mxe_add(e, s->first_run, r->number);
        mxe_value piece = mxe_mul(e, number, mxe_i64(e, p->elem_bytes));
        piece = mxe_add(e, piece, mxe_i64(e, c / 2));
        mxe_value atom = mxe_add(e, mxe_mul(e, piece, strips), s->number);
        mxe_value chunk = mxe_xor(e, mxe_add(e, s->block, mxe_i32(e, 4 * (c % 2))), row);
        mxe_value at = mxe_add(e, mxe_shl(e, row, mxe_i32(e, 7)), mxe_shl(e, chunk, mxe_i32(e, 4)));
        mxe_value start = mxe_add(e, tiles_at, mxe_mul(e, atom, mxe_i64(e, GEMM_ATOM_BYTES)));
        mxe_addr to = {.pointer = "workspace", .uniform = start, .varying = at};
        mxe_store(e, to, MXE_I32, 4, 16, 0, mxe_always(), &words[4 * c]);
    }
}

static void convert_run(mxe *e, const plan *p, const strip *s, run *r, mxe_value reference,
                        mxe_value tiles_at, mxe_value strips, mxe_var lost)
{
    mxe_value out[16];
    for (int i = 0; i < p->words; i++)
        r->words[i] = mxe_select(e, r->live, r->words[i], mxe_i32(e, 0));
    mxe_value scale = mxe_select(e, r->live, r->scale, reference);
    mxe_value bad = decode(e, p, scale, reference, r->words, out);
    mxe_value bit = mxe_select(e, bad, mxe_i32(e, 1), mxe_i32(e, 0));
    mxe_var_set(e, lost, mxe_or(e, mxe_var_get(e, lost), bit));
    store_run(e, p, s, r, tiles_at, strips, out);
}

/* The warps' verdicts become one flag, and the references are stored. */
static void store_meta(mxe *e, const plan *p, const strip *s, const gemm_places *places,
                       mxe_value reference, mxe_value lost)
{
    mxe_value all[WARPS], zero = mxe_i32(e, 0);
    mxe_value lane0 = mxe_eq(e, mxe_lane(e), zero), warp = mxe_warp(e);
    lost = mxe_lane_reduce(e, MXE_OR, lost, 16);
    lost = mxe_or(e, lost, mxe_swap_lanes(e, lost, 16));
    mxe_addr mine = shared_word(e, mxe_add(e, warp, mxe_i32(e, WARPS)));
    mxe_store(e, mine, MXE_I32, 1, 4, 0, lane0, &lost);
    mxe_barrier(e);
    mxe_load(e, (mxe_addr){.uniform = mxe_i64(e, 4 * WARPS)}, MXE_I32, WARPS, 16, 0, all);
    for (int i = 1; i < WARPS; i++)
        all[0] = mxe_or(e, all[0], all[i]);
    mxe_value flag = mxe_zext(e, all[0], MXE_I8);
    mxe_value first = mxe_and(e, lane0, mxe_eq(e, warp, zero));
    mxe_addr to = {.pointer = "workspace"};
    to.uniform = mxe_add(e, p->right ? places->right_flags : places->left_flags, s->meta);
    mxe_store(e, to, MXE_I8, 1, 1, 0, first, &flag);
    reference = mxe_select(e, mxe_eq(e, all[0], zero), reference, zero);
    mxe_value byte = mxe_zext(e, reference, MXE_I8);
    mxe_value at =
        mxe_add(e, mxe_mul(e, s->meta, mxe_i64(e, GEMM_STRIP)), mxe_zext(e, warp, MXE_I64));
    to.uniform = mxe_add(e, p->right ? places->right_refs : places->left_refs, at);
    mxe_store(e, to, MXE_I8, 1, 1, 0, lane0, &byte);
}

static void emit(mxe *e, const mxgen_spec *spec, const mxgen_kernel *kernel)
{
    plan p = plan_of(spec);
    gemm_places places;
    strip s;
    run runs[UNROLL];
    mxe_loop loop;
    mxe_branch branch;
    mxe_lds_reserve(e, kernel->lds_bytes);
    gemm_locate(e, p.pass, &places);
    mxe_value tiles_at = p.right ? places.right_tiles : places.left_tiles;
    mxe_value strips = arg(e, p.right ? "right_strips" : "left_strips");
    find_strip(e, &p, &s);
    mxe_value own, reference = references(e, &p, &s, &own);
    mxe_var lost = mxe_var_new(e, mxe_varying(e, mxe_i32(e, 0)));
    mxe_value length = mxe_add(e, mxe_sub(e, s.k_end, s.k_begin), mxe_i64(e, GEMM_RUN - 1));
    mxe_value end = mxe_lshr(e, length, mxe_i64(e, 7));
    mxe_value begin = mxe_zext(e, mxe_warp(e), MXE_I64);
    mxe_value at = mxe_for_begin(e, &loop, begin, end, mxe_i64(e, WARPS * UNROLL));
    for (int u = 0; u < UNROLL; u++)
        load_run(e, &p, &s, mxe_add(e, at, mxe_i64(e, WARPS * u)), &runs[u]);
    convert_run(e, &p, &s, &runs[0], own, tiles_at, strips, lost);
    mxe_if_begin(e, &branch, mxe_slt(e, runs[1].number, end));
    convert_run(e, &p, &s, &runs[1], own, tiles_at, strips, lost);
    mxe_if_end(e, &branch);
    mxe_for_end(e, &loop);
    store_meta(e, &p, &s, &places, reference, mxe_var_get(e, lost));
}

static bool applies(const mxgen_spec *spec, char *why, size_t why_bytes)
{
    const mxgen_key *key = &spec->key;
    const char *no = NULL;
    if (!mxgen_target_has(spec->target, MXGEN_CAP_TILE_MMA))
        no = "the target multiplies no tiles in shared memory";
    else if (key->gemm.left != key->gemm.right || key->dtype != MX_DTYPE_F32 || !key->gemm.exact)
        no = "a step is named by its operand, twice, with f32 and exact";
    else if (mxgen_spec_param(spec, "ELEM_BYTES") == 1 && key->gemm.left != MXGEN_OPERAND_MXFP4)
        no = "ELEM_BYTES 1: only mxfp4 fits E5M2";
    if (no)
        snprintf(why, why_bytes, "%s", no);
    return !no;
}

static bool explored(const mxgen_spec *spec)
{
    (void)spec;
    return true;
}

static void describe(const mxgen_spec *spec, mxgen_kernel *kernel)
{
    plan p = plan_of(spec);
    bool rows = p.pass == MXGEN_PASS_ROWS;
    kernel->threads = WARPS * spec->target->lanes;
    kernel->lds_bytes = 2 * WARPS * 4;
    mxgen_kernel_pointer(kernel, p.data, MXE_ARG_READONLY | MXE_ARG_NOALIAS, 16);
    mxgen_kernel_scalar(kernel, p.row_stride, MXE_ARG_I64, "%s", p.row_stride);
    if (has_scales(&p)) {
        mxgen_kernel_pointer(kernel, p.scales, MXE_ARG_READONLY | MXE_ARG_NOALIAS, 1);
        mxgen_kernel_scalar(kernel, p.scale_row_stride, MXE_ARG_I64, "%s", p.scale_row_stride);
        mxgen_kernel_scalar(kernel, p.scale_block_stride, MXE_ARG_I64, "%s", p.scale_block_stride);
    }
    if (rows && p.right) {
        mxgen_kernel_scalar(kernel, "right_group_stride", MXE_ARG_I64, "right_group_stride");
        if (has_scales(&p))
            mxgen_kernel_scalar(kernel, "right_scale_group_stride", MXE_ARG_I64,
                                "right_scale_group_stride");
    }
    gemm_describe_walk(kernel, p.pass);
    gemm_describe_workspace(kernel, p.pass, p.elem_bytes, false);
    if (rows)
        snprintf(kernel->grid_x, sizeof(kernel->grid_x), "%s",
                 p.right ? "groups * ceil_div(n, 8)" : "out_rows / 8 + groups");
    else
        snprintf(kernel->grid_x, sizeof(kernel->grid_x), "groups * ceil_div(%s, 8)",
                 p.right ? "k" : "n");
    mxgen_kernel_rule(kernel, "data rows are 16-byte aligned", "%s_align >= 16 && %s %% 16 == 0",
                      p.data, p.row_stride);
    mxgen_kernel_rule(kernel, "nothing is empty", "m >= 1 && n >= 1 && k >= 1");
    if (rows && p.right)
        mxgen_kernel_rule(kernel, "groups are 16-byte aligned", "right_group_stride %% 16 == 0");
}

static double cost(const mxgen_spec *spec)
{
    (void)spec;
    return 1;
}

static const int zero_one[] = {0, 1}, bytes[] = {1, 2};
static const mxgen_param params[] = {
    {"SIDE", zero_one, 2}, {"COLS", zero_one, 2}, {"ELEM_BYTES", bytes, 2}};

const mxgen_template gemm_prepare_template = {
    .name = "gemm_prepare",
    .passes = 1u << MXGEN_PASS_STEP,
    .params = params,
    .n_params = 3,
    .applies = applies,
    .explored = explored,
    .describe = describe,
    .cost = cost,
    .emit = emit,
};
