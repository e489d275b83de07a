/* Packed operands -> f32 in the workspace (gemm_host.h). */
#include "templates/gemm_host.h"

enum { NAN_SCALE = 255, ONE = 127, BLOCK = GEMM_BLOCK, F32_BYTES = 4, MOST_WORDS = 8 };

/* What a scale becomes. */
typedef struct fold {
    mxe_value factor; /* f32 */
    mxe_value rest;   /* i32: the exponent that the factor leaves out */
} fold;

/* A block of zeros, `empty`, is zero whatever its scale; NaN stays NaN but in padding, which
 * gemm_cols may have. */
static fold fold_scale(mxe *e, const gemm_host_plan *p, int which, mxe_value scale, mxe_value empty)
{
    const gemm_host_side *side = &p->side[which];
    mxe_value nan = mxe_eq(e, scale, mxe_i32(e, NAN_SCALE)), none = mxe_i1(e, 0);
    empty = p->cols ? empty : mxe_select(e, nan, none, empty);
    nan = mxe_select(e, empty, none, nan);
    scale = mxe_select(e, empty, mxe_i32(e, ONE), scale);
    mxe_value near = mxe_smax(e, scale, mxe_i32(e, side->least_scale));
    near = mxe_smin(e, near, mxe_i32(e, side->most_scale));
    mxe_value rest = mxe_select(e, nan, mxe_i32(e, 0), mxe_sub(e, scale, near));
    mxe_value bits = mxe_shl(e, near, mxe_i32(e, 23));
    bits = mxe_select(e, nan, mxe_i32(e, 0x7fc00000), bits);
    return (fold){mxe_bitcast(e, bits, MXE_F32), rest};
}

static mxe_addr workspace(mxe_value at)
{
    return (mxe_addr){.pointer = "workspace", .uniform = at, .lane_stride = F32_BYTES};
}

/* A vector, side by side. */
static void put(mxe *e, mxe_value at, mxe_value value)
{
    mxe_value bits = value.type == MXE_F32 ? mxe_bitcast(e, value, MXE_I32) : value;
    mxe_store(e, workspace(at), MXE_I32, 1, F32_BYTES, 0, mxe_always(), &bits);
}

/* The same for all lanes, once. */
static void put_one(mxe *e, mxe_value at, mxe_value value)
{
    mxe_scalar_begin(e);
    mxe_store(e, workspace(at), MXE_I32, 1, F32_BYTES, 0, mxe_always(), &value);
    mxe_scalar_end(e);
}

/* ---- Left: lanes are neighbours in a row ---- */

/* The codes of `lanes` elements from number `first` of the block at byte `at` on: lane i's is in
 * its low bits. */
static mxe_value left_codes(mxe *e, const gemm_host_plan *p, mxe_value at, int first)
{
    const gemm_host_side *side = &p->side[GEMM_LEFT];
    mxe_value codes;
    mxe_addr addr = {.pointer = side->data};
    int item = side->element == MXE_BF16 ? 2 : 1;
    if (side->element != MXE_E2M1) {
        addr.uniform = gemm_host_plus(e, at, (int64_t)first * item);
        addr.lane_stride = item;
        mxe_load(e, addr, item == 2 ? MXE_I16 : MXE_I8, 1, 1, 0, &codes);
        return codes;
    }
    /* Eight codes a word, which each of eight lanes shifts by its own number of bits. */
    mxe_value lane = mxe_lane(e);
    addr.uniform = gemm_host_plus(e, at, first / 2);
    addr.varying = mxe_shl(e, mxe_lshr(e, lane, mxe_i32(e, 3)), mxe_i32(e, 2));
    mxe_load(e, addr, MXE_I32, 1, 1, 0, &codes);
    mxe_value down = mxe_shl(e, mxe_and(e, lane, mxe_i32(e, 7)), mxe_i32(e, 2));
    return mxe_lshr(e, codes, down);
}

/* Whether all codes of the block are zero: uniform i1. */
static mxe_value is_empty(mxe *e, const gemm_host_plan *p, const mxe_value *codes, int n)
{
    mxe_element element = p->side[GEMM_LEFT].element;
    mxe_value all = codes[0];
    for (int i = 1; i < n; i++)
        all = mxe_or(e, all, codes[i]);
    all = mxe_zext(e, all, MXE_I32);
    all = mxe_and(e, all, mxe_i32(e, element == MXE_E2M1 ? 7 : 0x7f));
    mxe_value some = mxe_any(e, mxe_ne(e, all, mxe_i32(e, 0)));
    return mxe_select(e, some, mxe_i1(e, 0), mxe_i1(e, 1));
}

/* One block of a row, at bytes `from` and `scale_at`, to byte `to`; `odd` collects the rests. */
static void pack_left_block(mxe *e, const gemm_host_work *w, mxe_value from, mxe_value scale_at,
                            mxe_value to, mxe_value rest_at, mxe_var odd)
{
    const gemm_host_plan *p = w->p;
    const gemm_host_side *side = &p->side[GEMM_LEFT];
    mxe_value codes[BLOCK] = {{NULL, MXE_I8, false}};
    int n = BLOCK / p->lanes;
    fold f = {mxe_f32(e, 1.0f), mxe_i32(e, 0)};
    for (int i = 0; i < n; i++)
        codes[i] = left_codes(e, p, from, i * p->lanes);
    if (side->scales) {
        mxe_value byte = mxe_load_uniform(e, side->scales, scale_at, MXE_I8);
        f = fold_scale(e, p, GEMM_LEFT, mxe_zext(e, byte, MXE_I32), is_empty(e, p, codes, n));
        mxe_var_set(e, odd, mxe_or(e, mxe_var_get(e, odd), f.rest));
    }
    put_one(e, rest_at, f.rest);
    for (int i = 0; i < n; i++)
        put(e, gemm_host_plus(e, to, (int64_t)i * p->lanes * F32_BYTES),
            mxe_element_to_f32(e, side->element, codes[i], f.factor));
}

/* Where a row of left stands, and its rests. */
static mxe_value left_row_at(mxe *e, const gemm_host_work *w, mxe_value row)
{
    const gemm_host_plan *p = w->p;
    mxe_value at = gemm_host_times(e, row, (int64_t)p->depth * F32_BYTES);
    return mxe_add(e, w->base, gemm_host_plus(e, at, p->left_at));
}

static mxe_value left_rests_at(mxe *e, const gemm_host_work *w, mxe_value row)
{
    const gemm_host_plan *p = w->p;
    mxe_value at = gemm_host_times(e, row, (int64_t)p->blocks * F32_BYTES);
    return mxe_add(e, w->base, gemm_host_plus(e, at, p->left_rests_at));
}

/* Rows that fill the last register tile. */
static void clear_left(mxe *e, const gemm_host_work *w, mxe_value n)
{
    const gemm_host_plan *p = w->p;
    mxe_loop rows, blocks;
    mxe_value one = mxe_i64(e, 1), zero = mxe_varying(e, mxe_f32(e, 0.0f));
    mxe_value row = mxe_for_begin(e, &rows, w->live, w->live_up, one);
    mxe_value to = left_row_at(e, w, row), rest = left_rests_at(e, w, row);
    mxe_value b = mxe_for_begin(e, &blocks, mxe_i64(e, 0), n, one);
    put_one(e, mxe_add(e, rest, gemm_host_times(e, b, F32_BYTES)), mxe_i32(e, 0));
    to = mxe_add(e, to, gemm_host_times(e, b, BLOCK * F32_BYTES));
    for (int i = 0; i < BLOCK; i += p->lanes)
        put(e, gemm_host_plus(e, to, (int64_t)i * F32_BYTES), zero);
    mxe_for_end(e, &blocks);
    mxe_for_end(e, &rows);
}

mxe_value gemm_host_pack_left(mxe *e, const gemm_host_work *w, mxe_value at, mxe_value n)
{
    const gemm_host_plan *p = w->p;
    const gemm_host_side *side = &p->side[GEMM_LEFT];
    mxe_loop rows, blocks;
    mxe_value zero = mxe_i64(e, 0), one = mxe_i64(e, 1), scales = zero, scale_step = zero;
    mxe_var odd = mxe_var_new(e, mxe_i32(e, 0));
    mxe_value row = mxe_for_begin(e, &rows, zero, w->live, one);
    mxe_value from = mxe_mul(e, row, mxe_param(e, side->row_stride));
    from =
        mxe_add(e, mxe_add(e, w->data[GEMM_LEFT], from), gemm_host_times(e, at, side->block_bytes));
    if (side->scales) {
        scale_step = mxe_param(e, side->scale_block_stride);
        scales = mxe_mul(e, row, mxe_param(e, side->scale_row_stride));
        scales = mxe_add(e, mxe_add(e, w->scales[GEMM_LEFT], scales), mxe_mul(e, at, scale_step));
    }
    mxe_value to = left_row_at(e, w, row), rests = left_rests_at(e, w, row);
    mxe_value b = mxe_for_begin(e, &blocks, zero, n, one);
    pack_left_block(e, w, mxe_add(e, from, gemm_host_times(e, b, side->block_bytes)),
                    mxe_add(e, scales, mxe_mul(e, b, scale_step)),
                    mxe_add(e, to, gemm_host_times(e, b, BLOCK * F32_BYTES)),
                    mxe_add(e, rests, gemm_host_times(e, b, F32_BYTES)), odd);
    mxe_for_end(e, &blocks);
    mxe_for_end(e, &rows);
    clear_left(e, w, n);
    return mxe_ne(e, mxe_var_get(e, odd), mxe_i32(e, 0));
}

/* ---- Right: a lane has a row ---- */

static mxe_value words_empty(mxe *e, mxe_element element, const mxe_value *words, int n)
{
    mxe_value all = words[0];
    for (int i = 1; i < n; i++)
        all = mxe_or(e, all, words[i]);
    all = mxe_and(e, all, mxe_i32(e, element == MXE_E2M1 ? 0x77777777 : 0x7f7f7f7f));
    return mxe_eq(e, all, mxe_i32(e, 0));
}

/* The lanes' rows from column `column` of the tile on; those past the end are the last one again.
 */
static mxe_value lane_rows(mxe *e, const gemm_host_work *w, mxe_value column)
{
    mxe_value row = mxe_add(e, column, mxe_zext(e, mxe_lane(e), MXE_I64));
    return mxe_smin(e, row, gemm_host_plus(e, w->columns, -1));
}

/* One block of each lane's row, at byte `from` + its `rows` part, to byte `to`. */
static void pack_right_block(mxe *e, const gemm_host_work *w, mxe_addr data, mxe_addr scale,
                             mxe_value to, mxe_value rest_at, mxe_var odd)
{
    const gemm_host_plan *p = w->p;
    const gemm_host_side *side = &p->side[GEMM_RIGHT];
    mxe_value words[MOST_WORDS], byte;
    int n = side->block_bytes / 4, codes = BLOCK / n, bits = 32 / codes;
    mxe_load(e, data, MXE_I32, n, 1, 0, words);
    mxe_load(e, scale, MXE_I8, 1, 1, 0, &byte);
    data.uniform = gemm_host_plus(e, data.uniform, (int64_t)p->blocks * side->block_bytes);
    mxe_prefetch(e, data);
    fold f = fold_scale(e, p, GEMM_RIGHT, mxe_zext(e, byte, MXE_I32),
                        words_empty(e, side->element, words, n));
    mxe_var_set(e, odd, mxe_or(e, mxe_var_get(e, odd), f.rest));
    put(e, rest_at, f.rest);
    for (int i = 0; i < BLOCK; i++) {
        mxe_value code = words[i / codes];
        if (i % codes)
            code = mxe_lshr(e, code, mxe_i32(e, i % codes * bits));
        put(e, gemm_host_plus(e, to, (int64_t)i * p->width * F32_BYTES),
            mxe_element_to_f32(e, side->element, code, f.factor));
    }
}

mxe_value gemm_host_pack_right(mxe *e, const gemm_host_work *w, mxe_value column, mxe_value at,
                               mxe_value n)
{
    const gemm_host_plan *p = w->p;
    const gemm_host_side *side = &p->side[GEMM_RIGHT];
    mxe_loop blocks;
    mxe_value zero = mxe_i64(e, 0), one = mxe_i64(e, 1);
    mxe_value scale_step = mxe_param(e, side->scale_block_stride);
    mxe_var odd = mxe_var_new(e, mxe_varying(e, mxe_i32(e, 0)));
    for (int v = 0; v < p->unit->vectors; v++) {
        int64_t inner = (int64_t)v * p->lanes * F32_BYTES;
        mxe_value rows = lane_rows(e, w, gemm_host_plus(e, column, (int64_t)v * p->lanes));
        mxe_addr data = {.pointer = side->data}, scale = {.pointer = side->scales};
        data.varying = mxe_mul(e, rows, mxe_param(e, side->row_stride));
        scale.varying = mxe_mul(e, rows, mxe_param(e, side->scale_row_stride));
        mxe_value to = gemm_host_plus(e, w->base, p->right_at + inner);
        mxe_value rests = gemm_host_plus(e, w->base, p->right_rests_at + inner);
        mxe_value b = mxe_for_begin(e, &blocks, zero, n, one);
        mxe_value block = mxe_add(e, at, b);
        mxe_value behind = gemm_host_times(e, b, (int64_t)p->width * F32_BYTES);
        data.uniform =
            mxe_add(e, w->data[GEMM_RIGHT], gemm_host_times(e, block, side->block_bytes));
        scale.uniform = mxe_add(e, w->scales[GEMM_RIGHT], mxe_mul(e, block, scale_step));
        pack_right_block(e, w, data, scale, mxe_add(e, to, gemm_host_times(e, behind, BLOCK)),
                         mxe_add(e, rests, behind), odd);
        mxe_for_end(e, &blocks);
    }
    return mxe_any(e, mxe_ne(e, mxe_var_get(e, odd), mxe_i32(e, 0)));
}
