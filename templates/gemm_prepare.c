/* Decodes one operand of grouped GEMM into the workspace (gemm_workspace.h).
 *
 * A program takes a strip of 8 rows through the whole contraction (gemm_cols: of one group). First
 * each warp finds the largest scales of two rows, their references. Then the warps take turns at
 * runs of 128 elements: lane l has row l / 4 and block l % 4 of the run, so a lane has one scale
 * and 32 elements. */
#include <stdio.h>

#include "templates/gemm_decode.h"

enum { WARPS = 4, WARP_ROWS = GEMM_STRIP / WARPS, SCALES = 4, MOST_UNROLL = 2 };

typedef struct plan {
    mxgen_operand operand;
    mxgen_pass pass;
    bool right;
    int elem_bytes; /* in the workspace: 1 is FP8, 2 bf16 */
    const char *data, *scales, *row_stride, *scale_row_stride, *scale_block_stride;
    int words;     /* of 4 bytes that a lane's 32 elements have in the tensor */
    int out_words; /* and in the workspace */
    int unroll;    /* runs that are under way at once */
} plan;

static plan plan_of(const mxgen_spec *spec)
{
    plan p = {.operand = spec->key.gemm.left};
    static const int words[MXGEN_OPERAND_COUNT] = {4, 8, 8, 16};
    p.right = mxgen_spec_param(spec, "SIDE") == 1;
    p.pass = mxgen_spec_param(spec, "COLS") == 1 ? MXGEN_PASS_COLS : MXGEN_PASS_ROWS;
    p.elem_bytes = mxgen_spec_param(spec, "ELEM_BYTES");
    p.words = words[p.operand];
    p.out_words = GEMM_BLOCK * p.elem_bytes / 4;
    p.unroll = p.words == 4 ? 2 : 1;
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
    mxe_value group, in_group;
    gemm_divide(e, program, each, &group, &in_group);
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

/* Byte offsets of scales of a row are 64 bits wide: they may lie anywhere. */
static mxe_value load_scale(mxe *e, const plan *p, const strip *s, mxe_value at)
{
    mxe_value byte;
    mxe_addr addr = {.pointer = p->scales, .uniform = s->scales, .varying = at};
    mxe_load(e, addr, MXE_I8, 1, 1, 0, &byte);
    return mxe_zext(e, byte, MXE_I32);
}

static void load_block(mxe *e, const plan *p, const strip *s, mxe_value at, mxe_value *words)
{
    for (int i = 0; i < p->words; i += 4) {
        mxe_addr from = {
            .pointer = p->data, .uniform = s->data, .varying = mxe_add(e, at, mxe_i64(e, 4 * i))};
        mxe_load(e, from, MXE_I32, 4, 16, 0, &words[i]);
    }
}

/* The largest of the scales of `lanes` times SCALES blocks that are not NaN, from block `at` on.
 * gemm_cols: of blocks that are not all zero, so that what the scales of padding hold does not
 * matter. */
static mxe_value largest_of_lane(mxe *e, const plan *p, const strip *s, mxe_value row, mxe_value at,
                                 mxe_value end)
{
    mxe_value blocks[SCALES], scales[SCALES], inside[SCALES], best = mxe_i32(e, 0);
    mxe_value last = mxe_sub(e, end, mxe_i64(e, 1));
    mxe_value base = mxe_mul(e, row, arg(e, p->scale_row_stride));
    at = mxe_add(e, at, mxe_zext(e, mxe_lane(e), MXE_I64));
    for (int i = 0; i < SCALES; i++) {
        mxe_value block = mxe_add(e, at, mxe_i64(e, i * e->lanes));
        inside[i] = mxe_slt(e, block, end);
        blocks[i] = mxe_smin(e, block, last);
        mxe_value step = mxe_mul(e, blocks[i], arg(e, p->scale_block_stride));
        scales[i] = load_scale(e, p, s, mxe_add(e, base, step));
    }
    for (int i = 0; i < SCALES; i++) {
        mxe_value counts = mxe_and(e, inside[i], mxe_ne(e, scales[i], mxe_i32(e, 255)));
        if (p->pass == MXGEN_PASS_COLS) {
            mxe_value words[GEMM_MOST_WORDS], from = mxe_mul(e, row, arg(e, p->row_stride));
            from = mxe_add(e, from, mxe_mul(e, blocks[i], mxe_i64(e, 4 * p->words)));
            load_block(e, p, s, from, words);
            counts = mxe_and(e, counts, gemm_has_values(e, p->operand, words));
        }
        best = mxe_umax(e, best, mxe_select(e, counts, scales[i], mxe_i32(e, 0)));
    }
    return best;
}

/* Of a row of the strip (i64), in all lanes. */
static mxe_value largest_scale(mxe *e, const plan *p, const strip *s, mxe_value of)
{
    mxe_loop loop;
    mxe_branch any;
    mxe_value live, five = mxe_i64(e, 5), zero = mxe_i32(e, 0);
    mxe_value row = inner_row(e, s, of, &live);
    mxe_value end = mxe_lshr(e, s->k_end, five);
    mxe_var best = mxe_var_new(e, mxe_varying(e, zero));
    mxe_if_begin(e, &any, live);
    mxe_value at = mxe_for_begin(e, &loop, mxe_lshr(e, s->k_begin, five), end,
                                 mxe_i64(e, (int64_t)SCALES * e->lanes));
    mxe_value more = largest_of_lane(e, p, s, row, at, end);
    mxe_var_set(e, best, mxe_umax(e, mxe_var_get(e, best), more));
    mxe_for_end(e, &loop);
    mxe_if_end(e, &any);
    mxe_value most = mxe_lane_reduce(e, MXE_UMAX, mxe_var_get(e, best), 16);
    return mxe_umax(e, most, mxe_swap_lanes(e, most, 16));
}

static mxe_addr shared_word(mxe *e, mxe_value index)
{
    return (mxe_addr){.varying = mxe_shl(e, index, mxe_i32(e, 2))};
}

/* Finds the references of the strip's rows, in shared memory, and gives the lane that of its row.
 */
static mxe_value references(mxe *e, const plan *p, const strip *s)
{
    mxe_value own, first = mxe_eq(e, mxe_lane(e), mxe_i32(e, 0));
    for (int i = 0; i < WARP_ROWS; i++) {
        mxe_value row = mxe_add(e, mxe_warp(e), mxe_i32(e, WARPS * i));
        mxe_value reference = mxe_i32(e, gemm_kept_bias(p->operand, p->elem_bytes));
        if (has_scales(p)) {
            reference = largest_scale(e, p, s, mxe_zext(e, row, MXE_I64));
            reference = mxe_smax(e, reference, mxe_i32(e, GEMM_LEAST_REF));
            reference = mxe_smin(e, reference, mxe_i32(e, GEMM_MOST_REF));
        }
        mxe_store(e, shared_word(e, row), MXE_I32, 1, 4, 0, first, &reference);
    }
    mxe_barrier(e);
    mxe_load(e, shared_word(e, s->lane_row), MXE_I32, 1, 4, 0, &own);
    return own;
}

/* ---- Runs of 128 elements ---- */

/* What does not change from run to run. Lane offsets in bytes, i64. */
typedef struct cursor {
    mxe_value row_live;     /* i1 */
    mxe_value blocks;       /* i64: from the lane's block in run 0 to the end */
    mxe_value data, scale;  /* of that block */
    mxe_value scale_step;   /* uniform: from run to run */
    mxe_value chunks[2];    /* of the lane's even and odd chunks in the workspace */
    mxe_value first, pitch; /* uniform: of run 0's first piece; from piece to piece */
} cursor;

static cursor cursor_new(mxe *e, const plan *p, const strip *s, mxe_value tiles_at,
                         mxe_value strips)
{
    cursor c;
    mxe_value five = mxe_i64(e, 5), four = mxe_i64(e, 4);
    mxe_value row = inner_row(e, s, mxe_zext(e, s->lane_row, MXE_I64), &c.row_live);
    mxe_value end = mxe_lshr(e, s->k_end, five);
    mxe_value block = mxe_add(e, mxe_lshr(e, s->k_begin, five), mxe_zext(e, s->block, MXE_I64));
    c.blocks = mxe_sub(e, end, block);
    /* Of a contraction without blocks, the tensor's first is read. */
    block = mxe_smax(e, mxe_smin(e, block, mxe_sub(e, end, mxe_i64(e, 1))), mxe_i64(e, 0));
    c.data = mxe_add(e, mxe_mul(e, row, arg(e, p->row_stride)),
                     mxe_mul(e, block, mxe_i64(e, 4 * p->words)));
    c.scale = c.scale_step = mxe_i64(e, 0);
    if (has_scales(p)) {
        mxe_value step = arg(e, p->scale_block_stride);
        c.scale = mxe_add(e, mxe_mul(e, row, arg(e, p->scale_row_stride)), mxe_mul(e, block, step));
        c.scale_step = mxe_mul(e, step, four);
    }
    for (int i = 0; i < 2; i++) {
        mxe_value chunk = mxe_xor(e, mxe_add(e, s->block, mxe_i32(e, 4 * i)), s->lane_row);
        mxe_value at =
            mxe_add(e, mxe_shl(e, s->lane_row, mxe_i32(e, 7)), mxe_shl(e, chunk, mxe_i32(e, 4)));
        c.chunks[i] = mxe_zext(e, at, MXE_I64);
    }
    mxe_value atom = mxe_i64(e, GEMM_ATOM_BYTES);
    c.pitch = mxe_mul(e, strips, atom);
    mxe_value pieces = mxe_mul(e, s->first_run, mxe_i64(e, p->elem_bytes));
    c.first =
        mxe_add(e, mxe_add(e, tiles_at, mxe_mul(e, s->number, atom)), mxe_mul(e, pieces, c.pitch));
    return c;
}

typedef struct run {
    mxe_value live; /* i1: this lane's block exists */
    mxe_value words[GEMM_MOST_WORDS], scale;
} run;

/* Where there is no block, that of run 0 is read. */
static void load_run(mxe *e, const plan *p, const strip *s, const cursor *c, mxe_value number,
                     run *r)
{
    mxe_value zero = mxe_i64(e, 0);
    mxe_value inside = mxe_slt(e, mxe_shl(e, number, mxe_i64(e, 2)), c->blocks);
    mxe_value at = mxe_select(e, inside, number, zero);
    r->live = mxe_and(e, c->row_live, inside);
    load_block(e, p, s, mxe_add(e, c->data, mxe_mul(e, at, mxe_i64(e, 16 * p->words))), r->words);
    r->scale = mxe_i32(e, 0);
    if (has_scales(p))
        r->scale = load_scale(e, p, s, mxe_add(e, c->scale, mxe_mul(e, at, c->scale_step)));
}

static void convert_run(mxe *e, const plan *p, const cursor *c, mxe_value number, run *r,
                        mxe_value reference, mxe_var lost)
{
    mxe_value out[GEMM_MOST_WORDS];
    gemm_block block = {.operand = p->operand,
                        .elem_bytes = p->elem_bytes,
                        .zeros_any_scale = p->pass == MXGEN_PASS_COLS,
                        .live = r->live,
                        .scale = r->scale,
                        .reference = reference};
    mxe_value bad = gemm_decode(e, &block, r->words, out);
    mxe_value bit = mxe_select(e, bad, mxe_i32(e, 1), mxe_i32(e, 0));
    mxe_var_set(e, lost, mxe_or(e, mxe_var_get(e, lost), bit));
    mxe_value pieces = mxe_mul(e, number, mxe_i64(e, p->elem_bytes));
    mxe_value at = mxe_add(e, c->first, mxe_mul(e, pieces, c->pitch));
    for (int i = 0; i < p->out_words / 4; i++) {
        if (i == 2)
            at = mxe_add(e, at, c->pitch);
        mxe_addr to = {.pointer = "workspace", .uniform = at, .varying = c->chunks[i % 2]};
        mxe_store(e, to, MXE_I32, 4, 16, 0, mxe_always(), &out[4 * i]);
    }
}

/* The warps' verdicts become one flag, and the first warp stores the references. */
static void store_meta(mxe *e, const plan *p, const strip *s, const gemm_places *places,
                       mxe_value lost)
{
    mxe_value all[WARPS], reference, zero = mxe_i32(e, 0), lane = mxe_lane(e), warp = mxe_warp(e);
    mxe_value lane0 = mxe_eq(e, lane, zero), warp0 = mxe_eq(e, warp, zero);
    lost = mxe_lane_reduce(e, MXE_OR, lost, 16);
    lost = mxe_or(e, lost, mxe_swap_lanes(e, lost, 16));
    mxe_addr mine = shared_word(e, mxe_add(e, warp, mxe_i32(e, GEMM_STRIP)));
    mxe_store(e, mine, MXE_I32, 1, 4, 0, lane0, &lost);
    mxe_barrier(e);
    mxe_load(e, (mxe_addr){.uniform = mxe_i64(e, 4 * GEMM_STRIP)}, MXE_I32, WARPS, 16, 0, all);
    for (int i = 1; i < WARPS; i++)
        all[0] = mxe_or(e, all[0], all[i]);
    mxe_value flag = mxe_zext(e, all[0], MXE_I8);
    mxe_addr to = {.pointer = "workspace"};
    to.uniform = mxe_add(e, p->right ? places->right_flags : places->left_flags, s->meta);
    mxe_store(e, to, MXE_I8, 1, 1, 0, mxe_and(e, lane0, warp0), &flag);
    mxe_value row = mxe_and(e, lane, mxe_i32(e, GEMM_STRIP - 1));
    mxe_load(e, shared_word(e, row), MXE_I32, 1, 4, 0, &reference);
    reference = mxe_select(e, mxe_eq(e, all[0], zero), reference, zero);
    mxe_value byte = mxe_zext(e, reference, MXE_I8);
    to.uniform = mxe_add(e, p->right ? places->right_refs : places->left_refs,
                         mxe_mul(e, s->meta, mxe_i64(e, GEMM_STRIP)));
    to.varying = row;
    mxe_value writes = mxe_and(e, warp0, mxe_ult(e, lane, mxe_i32(e, GEMM_STRIP)));
    mxe_store(e, to, MXE_I8, 1, 1, 0, writes, &byte);
}

/* Runs on the way from memory, kept over a turn of the loop. */
typedef struct flight {
    mxe_var words[GEMM_MOST_WORDS], scale, live;
} flight;

static void flight_set(mxe *e, const plan *p, flight *f, const run *r, bool first)
{
    for (int i = 0; i < p->words; i++) {
        if (first)
            f->words[i] = mxe_var_new(e, r->words[i]);
        else
            mxe_var_set(e, f->words[i], r->words[i]);
    }
    if (first) {
        f->scale = mxe_var_new(e, mxe_varying(e, r->scale));
        f->live = mxe_var_new(e, mxe_varying(e, r->live));
        return;
    }
    mxe_var_set(e, f->scale, r->scale);
    mxe_var_set(e, f->live, r->live);
}

static run flight_get(mxe *e, const plan *p, const flight *f)
{
    run r;
    for (int i = 0; i < p->words; i++)
        r.words[i] = mxe_var_get(e, f->words[i]);
    r.scale = mxe_var_get(e, f->scale);
    r.live = mxe_var_get(e, f->live);
    return r;
}

static void load_ahead(mxe *e, const plan *p, const strip *s, const cursor *c, mxe_value at,
                       flight *flights, bool first)
{
    run loaded[MOST_UNROLL];
    for (int u = 0; u < p->unroll; u++)
        load_run(e, p, s, c, mxe_add(e, at, mxe_i64(e, WARPS * u)), &loaded[u]);
    for (int u = 0; u < p->unroll; u++)
        flight_set(e, p, &flights[u], &loaded[u], first);
}

/* The first runs are asked for before the references are, and so on. */
static void emit(mxe *e, const mxgen_spec *spec, const mxgen_kernel *kernel)
{
    plan p = plan_of(spec);
    gemm_places places;
    strip s;
    flight flights[MOST_UNROLL];
    mxe_loop loop;
    mxe_lds_reserve(e, kernel->lds_bytes);
    gemm_locate(e, p.pass, &places);
    find_strip(e, &p, &s);
    cursor c = cursor_new(e, &p, &s, p.right ? places.right_tiles : places.left_tiles,
                          arg(e, p.right ? "right_strips" : "left_strips"));
    mxe_value length = mxe_add(e, mxe_sub(e, s.k_end, s.k_begin), mxe_i64(e, GEMM_RUN - 1));
    mxe_value end = mxe_lshr(e, length, mxe_i64(e, 7));
    mxe_value begin = mxe_zext(e, mxe_warp(e), MXE_I64);
    mxe_value step = mxe_i64(e, WARPS * p.unroll);
    load_ahead(e, &p, &s, &c, begin, flights, true);
    mxe_value own = references(e, &p, &s);
    mxe_var lost = mxe_var_new(e, mxe_varying(e, mxe_i32(e, 0)));
    mxe_value at = mxe_for_begin(e, &loop, begin, end, step);
    run runs[MOST_UNROLL];
    for (int u = 0; u < p.unroll; u++)
        runs[u] = flight_get(e, &p, &flights[u]);
    load_ahead(e, &p, &s, &c, mxe_add(e, at, step), flights, false);
    for (int u = 0; u < p.unroll; u++) {
        mxe_branch branch;
        mxe_value number = mxe_add(e, at, mxe_i64(e, WARPS * u));
        mxe_if_begin(e, &branch, mxe_slt(e, number, end));
        convert_run(e, &p, &c, number, &runs[u], own, lost);
        mxe_if_end(e, &branch);
    }
    mxe_for_end(e, &loop);
    store_meta(e, &p, &s, &places, mxe_var_get(e, lost));
}

static bool applies(const mxgen_spec *spec, char *why, size_t why_bytes)
{
    const mxgen_key *key = &spec->key;
    const char *no = NULL;
    if (!mxgen_target_has(spec->target, MXGEN_CAP_TILE_MMA))
        no = "the target multiplies no tiles in shared memory";
    else if (key->gemm.left != key->gemm.right || key->dtype != MX_DTYPE_F32 || !key->gemm.exact)
        no = "a step is named by its operand, twice, with f32 and exact";
    else if (mxgen_spec_param(spec, "ELEM_BYTES") == 1 && key->gemm.left == MXGEN_OPERAND_BF16)
        no = "ELEM_BYTES 1: bf16 fits no FP8";
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
    kernel->lds_bytes = 4 * (GEMM_STRIP + WARPS);
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
