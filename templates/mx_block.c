#include "templates/mx_block.h"

#include "templates/mx_ocp.h"

enum { EXPONENT_MASK = 0x7f800000, NO_SIGN = 0x7fffffff };

/* ---- Elements ---- */

void mx_split_words(mxe *e, mx_dtype dtype, const mxe_value *words, int count, mxe_value *raw)
{
    for (int i = 0; i < count; i++) {
        if (dtype == MX_DTYPE_F32)
            raw[i] = words[i];
        else if (i % 2 == 0)
            raw[i] = mxe_and(e, words[i / 2], mxe_i32(e, 0xffff));
        else
            raw[i] = mxe_lshr(e, words[i / 2], mxe_i32(e, 16));
    }
}

void mx_join_words(mxe *e, mx_dtype dtype, const mxe_value *raw, int count, mxe_value *words)
{
    for (int i = 0; i < count; i++) {
        if (dtype == MX_DTYPE_F32)
            words[i] = raw[i];
        else if (i % 2 == 1)
            words[i / 2] = mxe_or(e, raw[i - 1], mxe_shl(e, raw[i], mxe_i32(e, 16)));
    }
}

mxe_value mx_raw_to_f32(mxe *e, mx_dtype dtype, mxe_value raw)
{
    if (dtype == MX_DTYPE_F32)
        return mxe_bitcast(e, raw, MXE_F32);
    if (dtype == MX_DTYPE_BF16)
        return mxe_bitcast(e, mxe_shl(e, raw, mxe_i32(e, 16)), MXE_F32);
    mxe_value half = mxe_bitcast(e, mxe_zext(e, raw, MXE_I16), MXE_F16);
    return mxe_fcast(e, half, MXE_F32);
}

mxe_value mx_f32_to_raw(mxe *e, mx_dtype dtype, mxe_value value)
{
    if (dtype == MX_DTYPE_F32)
        return mxe_bitcast(e, value, MXE_I32);
    if (dtype == MX_DTYPE_BF16)
        return mxe_lshr(e, mxe_bitcast(e, value, MXE_I32), mxe_i32(e, 16));
    mxe_value half = mxe_fcast(e, value, MXE_F16);
    return mxe_zext(e, mxe_bitcast(e, half, MXE_I16), MXE_I32);
}

/* ---- Scales ---- */

/* The factors of a power of two that one f32 cannot hold: 2^-s = first * second. `second` has a
 * NULL ref when it is 1 by construction. */
typedef struct factors {
    mxe_value first, second;
} factors;

static mxe_value field_to_f32(mxe *e, mxe_value bits)
{
    return mxe_bitcast(e, bits, MXE_F32);
}

/* 2^-s from `top` = (E + 127) << 23: s = max(E - demoted - QB + 2, -126), so the exponent field of
 * 2^-s is min(252 + QB + demoted - (E + 127), 253). The unclamped profile needs up to 2^134. */
static factors encode_scale(mxe *e, const mx_shape *shape, mxe_value top, int demoted)
{
    int64_t field = 252 + mx_format_get(shape->format)->code_bits + demoted;
    mxe_value wanted = mxe_sub(e, mxe_i32(e, field << 23), top);
    mxe_value bits = mxe_umin(e, wanted, mxe_i32(e, 253LL << 23));
    factors scale = {field_to_f32(e, bits), {NULL, MXE_F32, false}};
    if (shape->profile == MX_PROFILE_DEMOTED_255) {
        mxe_value rest = mxe_add(e, mxe_sub(e, wanted, bits), mxe_i32(e, 127LL << 23));
        scale.second = field_to_f32(e, rest);
    }
    return scale;
}

/* 2^s from byte 0 = E + 127: the exponent field of 2^s is max(byte0 + 2 - QB - demoted, 1). */
static factors decode_scale(mxe *e, const mx_shape *shape, mxe_value byte0, int demoted)
{
    int64_t bias = 2 - mx_format_get(shape->format)->code_bits - demoted;
    mxe_value wanted = mxe_add(e, byte0, mxe_i32(e, bias));
    mxe_value field = mxe_smax(e, wanted, mxe_i32(e, 1));
    factors scale = {field_to_f32(e, mxe_shl(e, field, mxe_i32(e, 23))), {NULL, MXE_F32, false}};
    if (shape->profile == MX_PROFILE_DEMOTED_255) {
        mxe_value rest = mxe_add(e, mxe_sub(e, wanted, field), mxe_i32(e, 127));
        scale.second = field_to_f32(e, mxe_shl(e, rest, mxe_i32(e, 23)));
    }
    return scale;
}

static factors chosen(mxe *e, const factors pair[2], mxe_value demoted)
{
    factors scale = {mxe_select(e, demoted, pair[1].first, pair[0].first), pair[0].second};
    if (scale.second.ref)
        scale.second = mxe_select(e, demoted, pair[1].second, pair[0].second);
    return scale;
}

/* ---- Codes ---- */

/* A lane's elements, made fit for the arithmetic that follows: NaN and Inf are 0. Bit i of
 * `infinite` says that element i was Inf, bit 16 + i that it was -Inf. */
typedef struct elements {
    mxe_value value[16], exponent[16]; /* exponent: (e + 127) << 23 */
    mxe_var infinite;
} elements;

/* A product of zero is NaN for what is not finite and stays NaN in a sum: one operation an element,
 * in four chains, so that they do not wait for each other. */
static mxe_value any_special(mxe *e, const mx_shape *shape, const mxe_value *x)
{
    mxe_value zero = mxe_f32(e, 0.0f), chain[4] = {zero, zero, zero, zero};
    for (int i = 0; i < shape->count; i++)
        chain[i % 4] = mxe_fma(e, x[i], zero, chain[i % 4]);
    mxe_value low = mxe_fadd(e, chain[0], chain[1]), high = mxe_fadd(e, chain[2], chain[3]);
    return mxe_any(e, mxe_is_nan(e, mxe_fadd(e, low, high)));
}

/* Blocks with NaN or Inf are rare: only they pay for being put right, here and after the codes are
 * made. */
static void clean_elements(mxe *e, const mx_shape *shape, const mxe_value *raw, elements *out)
{
    mxe_var bits[16];
    mxe_branch branch;
    mxe_value x[16], none = mxe_i32(e, 0), infinite = none;
    for (int i = 0; i < shape->count; i++) {
        x[i] = mx_raw_to_f32(e, shape->dtype, raw[i]);
        bits[i] = mxe_var_new(e, mxe_bitcast(e, x[i], MXE_I32));
    }
    out->infinite = mxe_var_new(e, mxe_varying(e, none));
    mxe_if_begin(e, &branch, any_special(e, shape, x));
    for (int i = 0; i < shape->count; i++) {
        mxe_value own = mxe_bitcast(e, x[i], MXE_I32);
        mxe_value size = mxe_and(e, own, mxe_i32(e, NO_SIGN));
        mxe_value finite = mxe_ult(e, size, mxe_i32(e, EXPONENT_MASK));
        mxe_value negative = mxe_slt(e, own, none);
        mxe_value mark = mxe_select(e, negative, mxe_i32(e, 0x10000LL << i), mxe_i32(e, 1 << i));
        mxe_value is_inf = mxe_eq(e, size, mxe_i32(e, EXPONENT_MASK));
        infinite = mxe_or(e, infinite, mxe_select(e, is_inf, mark, none));
        mxe_var_set(e, bits[i], mxe_select(e, finite, own, none));
    }
    mxe_var_set(e, out->infinite, infinite);
    mxe_if_end(e, &branch);
    for (int i = 0; i < shape->count; i++) {
        mxe_value clean = mxe_var_get(e, bits[i]);
        out->value[i] = mxe_bitcast(e, clean, MXE_F32);
        out->exponent[i] = mxe_and(e, clean, mxe_i32(e, EXPONENT_MASK));
    }
}

/* The block's exponent as (E + 127) << 23, and what exponents of demoted pairs stay below. `floor`
 * is what zero and subnormals of the type have; a block with nothing above it demotes no pair. */
static mxe_value block_exponent(mxe *e, const mx_shape *shape, const elements *x,
                                mxe_value *threshold)
{
    int64_t floor = 127 - mx_dtype_get(shape->dtype)->exponent_bias;
    mxe_value top = x->exponent[0];
    for (int i = 1; i < shape->count; i++)
        top = mxe_umax(e, top, x->exponent[i]);
    top = mxe_lane_reduce(e, MXE_UMAX, top, shape->lanes);
    *threshold = top;
    if (floor == 0)
        return top;
    mxe_value least = mxe_i32(e, floor << 23);
    *threshold = mxe_select(e, mxe_ule(e, top, least), mxe_i32(e, 0), top);
    return mxe_umax(e, top, least);
}

/* Sets codes->demoted; returns their bits at the lane's place in the block's byte. */
static mxe_value demote(mxe *e, const mx_shape *shape, const elements *x, mxe_value threshold,
                        mx_codes *codes)
{
    mxe_value bits = mxe_i32(e, 0);
    for (int p = 0; p < shape->count / 2; p++) {
        mxe_value larger = mxe_umax(e, x->exponent[2 * p], x->exponent[2 * p + 1]);
        codes->demoted[p] = mxe_ult(e, larger, threshold);
        bits = mxe_or(e, bits, mxe_select(e, codes->demoted[p], mxe_i32(e, 1 << p), mxe_i32(e, 0)));
    }
    if (shape->lanes == 1)
        return bits;
    mxe_value shift = mxe_mul(e, shape->part, mxe_i32(e, shape->count / 2));
    return mxe_lane_reduce(e, MXE_OR, mxe_shl(e, bits, shift), shape->lanes);
}

/* Largest code's magnitude where the pair is demoted or not, as a rounded sum. */
static mxe_value code_limit(mxe *e, const mx_shape *shape, mxe_value demoted, float sign)
{
    float most = (float)mx_format_get(shape->format)->code_max;
    mxe_value limit = mxe_f32(e, MXE_ROUNDER + sign * most);
    if (shape->profile != MX_PROFILE_DEMOTED_255)
        return limit;
    return mxe_select(e, demoted, mxe_f32(e, MXE_ROUNDER + sign * (2 * most + 1)), limit);
}

/* Adding MXE_ROUNDER rounds; the clamp is shifted along with it. */
static mxe_value round_code(mxe *e, const mx_shape *shape, mxe_value x, factors scale,
                            mxe_value demoted)
{
    if (scale.second.ref) {
        /* Exact: both factors are powers of two, and what underflows rounds to 0 anyway. */
        x = mxe_fmul(e, x, scale.first);
        scale.first = scale.second;
    }
    return mxe_fclamp(e, mxe_fma(e, x, scale.first, mxe_f32(e, MXE_ROUNDER)),
                      code_limit(e, shape, demoted, -1.0f), code_limit(e, shape, demoted, 1.0f));
}

/* Inf takes the largest code. */
static void saturate_infinite(mxe *e, const mx_shape *shape, const elements *x,
                              const mx_codes *codes, mxe_var *rounded)
{
    mxe_branch branch;
    mxe_value none = mxe_i32(e, 0), infinite = mxe_var_get(e, x->infinite);
    mxe_if_begin(e, &branch, mxe_any(e, mxe_ne(e, infinite, none)));
    for (int i = 0; i < shape->count; i++) {
        mxe_value demoted = codes->demoted[i / 2];
        mxe_value above = mxe_and(e, infinite, mxe_i32(e, 1 << i));
        mxe_value below = mxe_and(e, infinite, mxe_i32(e, 0x10000LL << i));
        mxe_value code = mxe_select(e, mxe_ne(e, above, none), code_limit(e, shape, demoted, 1.0f),
                                    mxe_var_get(e, rounded[i]));
        code = mxe_select(e, mxe_ne(e, below, none), code_limit(e, shape, demoted, -1.0f), code);
        mxe_var_set(e, rounded[i], code);
    }
    mxe_if_end(e, &branch);
}

void mx_encode(mxe *e, const mx_shape *shape, const mxe_value *raw, mx_codes *codes)
{
    elements x;
    mxe_var rounded[16];
    mxe_value threshold;
    if (mx_format_is_ocp(shape->format)) {
        mx_ocp_encode(e, shape, raw, codes);
        return;
    }
    clean_elements(e, shape, raw, &x);
    mxe_value top = block_exponent(e, shape, &x, &threshold);
    factors scale[2] = {encode_scale(e, shape, top, 0), encode_scale(e, shape, top, 1)};
    mxe_value bits = demote(e, shape, &x, threshold, codes);
    mxe_value byte0 = mxe_lshr(e, top, mxe_i32(e, 23));
    codes->header = mxe_or(e, byte0, mxe_shl(e, bits, mxe_i32(e, 8)));
    for (int i = 0; i < shape->count; i++) {
        mxe_value demoted = codes->demoted[i / 2];
        factors own = chosen(e, scale, demoted);
        rounded[i] = mxe_var_new(e, round_code(e, shape, x.value[i], own, demoted));
    }
    saturate_infinite(e, shape, &x, codes, rounded);
    for (int i = 0; i < shape->count; i++) {
        mxe_value code = mxe_var_get(e, rounded[i]);
        codes->q[i] = mxe_bitcast(e, code, MXE_I32);
        codes->value[i] = mxe_fadd(e, code, mxe_f32(e, -MXE_ROUNDER));
    }
}

void mx_round_trip(mxe *e, const mx_shape *shape, const mxe_value *raw, mx_codes *codes,
                   mxe_value *raw_out)
{
    if (shape->plain) {
        mx_ocp_round_trip(e, shape, raw, codes->header, raw_out);
        return;
    }
    mx_encode(e, shape, raw, codes);
    mx_decode(e, shape, codes, raw, raw_out);
}

void mx_decode(mxe *e, const mx_shape *shape, const mx_codes *codes, const mxe_value *raw_in,
               mxe_value *raw_out)
{
    if (mx_format_is_ocp(shape->format)) {
        mx_ocp_decode(e, shape, codes, raw_out);
        return;
    }
    mxe_value byte0 = mxe_and(e, codes->header, mxe_i32(e, 0xff));
    factors scale[2] = {decode_scale(e, shape, byte0, 0), decode_scale(e, shape, byte0, 1)};
    for (int i = 0; i < shape->count; i++) {
        factors own = chosen(e, scale, codes->demoted[i / 2]);
        mxe_value y = mxe_fmul(e, codes->value[i], own.first);
        if (own.second.ref)
            y = mxe_fmul(e, y, own.second);
        raw_out[i] = mx_f32_to_raw(e, shape->dtype, y);
        if (raw_in && shape->profile == MX_PROFILE_DEMOTED_255) {
            mxe_value nan = mxe_is_nan(e, mx_raw_to_f32(e, shape->dtype, raw_in[i]));
            raw_out[i] = mxe_select(e, nan, raw_in[i], raw_out[i]);
        }
    }
}

/* ---- Packed bytes ---- */

int mx_record_align(mx_format format)
{
    if (mx_format_is_ocp(format))
        return mx_format_get(format)->block_bytes % 16 ? 8 : 16;
    return format == MX_FORMAT_MX9 ? 2 : 4;
}

static mx_run run_of(mxe_type type, int n, int offset, int part_bytes, int only_part)
{
    mx_run run = {
        .type = type, .n = n, .offset = offset, .part_bytes = part_bytes, .only_part = only_part};
    return run;
}

/* Codes that fill `bits` bits, first lowest, from this lane: at most 32 bits. */
static mxe_value join_bits(mxe *e, const mxe_value *q, int count, int bits)
{
    mxe_value word = mxe_i32(e, 0), mask = mxe_i32(e, (1 << bits) - 1);
    for (int i = 0; i < count; i++) {
        /* What a shift drops needs no mask. */
        mxe_value code = bits * (i + 1) == 32 ? q[i] : mxe_and(e, q[i], mask);
        word = mxe_or(e, word, mxe_shl(e, code, mxe_i32(e, bits * i)));
    }
    return word;
}

static void pack_mx9(mxe *e, const mx_shape *shape, const mx_codes *codes, mx_record *record)
{
    mx_run *body = &record->runs[1];
    record->runs[0] = run_of(MXE_I16, 1, 0, 0, 0);
    record->runs[0].items[0] = mxe_zext(e, codes->header, MXE_I16);
    if (shape->count == 2) {
        *body = run_of(MXE_I16, 1, 2, 2, -1);
        body->items[0] = mxe_zext(e, join_bits(e, codes->q, 2, 8), MXE_I16);
        return;
    }
    *body = run_of(MXE_I32, shape->count / 4, 2, shape->count, -1);
    for (int i = 0; i < shape->count / 4; i++)
        body->items[i] = mxe_pack_bytes(e, &codes->q[4 * i]);
}

/* Of eight codes: the low nibbles as one word, and the sign bits in the top byte of another. Codes
 * with even and with odd numbers first lie side by side as bytes, so that most operations serve
 * four of them. */
static void pack_eight(mxe *e, const mxe_value *q, mxe_value *nibbles, mxe_value *signs)
{
    const mxe_value even_q[4] = {q[0], q[2], q[4], q[6]}, odd_q[4] = {q[1], q[3], q[5], q[7]};
    mxe_value even = mxe_pack_bytes(e, even_q), odd = mxe_pack_bytes(e, odd_q);
    *nibbles = mxe_or(e, mxe_and(e, even, mxe_i32(e, 0x0f0f0f0f)),
                      mxe_and(e, mxe_shl(e, odd, mxe_i32(e, 4)), mxe_i32(e, ~0x0f0f0f0f)));
    mxe_value pairs =
        mxe_or(e, mxe_and(e, mxe_lshr(e, even, mxe_i32(e, 7)), mxe_i32(e, 0x01010101)),
               mxe_and(e, mxe_lshr(e, odd, mxe_i32(e, 6)), mxe_i32(e, 0x02020202)));
    /* Moves bits 8b and 8b + 1 to 24 + 2b and 25 + 2b; no two terms meet below. */
    *signs = mxe_mul(e, pairs, mxe_i32(e, 1 << 24 | 1 << 18 | 1 << 12 | 1 << 6));
}

/* The low nibbles as up to two words; returns the sign bits, the first lowest. */
static mxe_value pack_five_bits(mxe *e, const mxe_value *q, int count, mxe_value words[2])
{
    mxe_value signs = mxe_i32(e, 0);
    if (count < 8) {
        words[0] = join_bits(e, q, count, 4);
        for (int i = 0; i < count; i++) {
            mxe_value bit = mxe_lshr(e, q[i], mxe_i32(e, 15 - i));
            signs = mxe_or(e, signs, mxe_and(e, bit, mxe_i32(e, 1 << i)));
        }
        return signs;
    }
    for (int i = 0; i < count / 8; i++) {
        mxe_value top;
        pack_eight(e, q + 8 * i, &words[i], &top);
        top = mxe_lshr(e, top, mxe_i32(e, 24));
        signs = i ? mxe_or(e, signs, mxe_shl(e, top, mxe_i32(e, 8))) : top;
    }
    return signs;
}

static void pack_mx6(mxe *e, const mx_shape *shape, const mx_codes *codes, mx_record *record)
{
    mxe_value words[2], signs = pack_five_bits(e, codes->q, shape->count, words);
    if (shape->lanes > 1) {
        signs = mxe_shl(e, signs, mxe_mul(e, shape->part, mxe_i32(e, shape->count)));
        signs = mxe_lane_reduce(e, MXE_OR, signs, shape->lanes);
    }
    mxe_value first = mxe_or(e, codes->header, mxe_shl(e, signs, mxe_i32(e, 16)));
    mx_run *body = &record->runs[1];
    if (shape->lanes == 1) {
        record->n_runs = 1;
        record->runs[0] = run_of(MXE_I32, 3, 0, 0, -1);
        record->runs[0].items[1] = words[0];
        record->runs[0].items[2] = words[1];
    } else {
        mxe_type type = shape->count == 8 ? MXE_I32 : shape->count == 4 ? MXE_I16 : MXE_I8;
        record->runs[0] = run_of(MXE_I32, 1, 0, 0, 0);
        *body = run_of(type, 1, 4, shape->count / 2, -1);
        body->items[0] = mxe_zext(e, words[0], type);
    }
    record->runs[0].items[0] = first;
}

static void pack_mx4_alone(mxe *e, const mx_codes *codes, mxe_value words[2])
{
    words[0] = codes->header;
    words[1] = mxe_i32(e, 0);
    for (int i = 0; i < 16; i++) {
        int at = 16 + 3 * i;
        mxe_value code = mxe_and(e, codes->q[i], mxe_i32(e, 7));
        if (at < 32)
            words[0] = mxe_or(e, words[0], mxe_shl(e, code, mxe_i32(e, at)));
        if (at >= 32)
            words[1] = mxe_or(e, words[1], mxe_shl(e, code, mxe_i32(e, at - 32)));
        else if (at + 3 > 32)
            words[1] = mxe_or(e, words[1], mxe_lshr(e, code, mxe_i32(e, 32 - at)));
    }
}

static void pack_mx4(mxe *e, const mx_shape *shape, const mx_codes *codes, mx_record *record)
{
    mxe_value words[2];
    record->n_runs = 1;
    record->runs[0] = run_of(MXE_I32, 2, 0, 0, shape->lanes == 1 ? -1 : 0);
    if (shape->lanes == 1) {
        pack_mx4_alone(e, codes, words);
    } else {
        /* Codes of one lane end within a byte: every lane builds the whole record. */
        mxe_value shift =
            mxe_add(e, mxe_mul(e, shape->part, mxe_i32(e, 3 * shape->count)), mxe_i32(e, 16));
        mxe_value bits = mxe_zext(e, join_bits(e, codes->q, shape->count, 3), MXE_I64);
        bits = mxe_shl(e, bits, mxe_zext(e, shift, MXE_I64));
        words[0] = mxe_lane_reduce(e, MXE_OR, mxe_zext(e, bits, MXE_I32), shape->lanes);
        words[0] = mxe_or(e, words[0], codes->header);
        words[1] = mxe_zext(e, mxe_lshr(e, bits, mxe_i64(e, 32)), MXE_I32);
        words[1] = mxe_lane_reduce(e, MXE_OR, words[1], shape->lanes);
    }
    record->runs[0].items[0] = words[0];
    record->runs[0].items[1] = words[1];
}

void mx_pack(mxe *e, const mx_shape *shape, const mx_codes *codes, mx_record *record)
{
    record->n_runs = 2;
    if (mx_format_is_ocp(shape->format))
        mx_ocp_pack(e, shape, codes, record);
    else if (shape->format == MX_FORMAT_MX9)
        pack_mx9(e, shape, codes, record);
    else if (shape->format == MX_FORMAT_MX6)
        pack_mx6(e, shape, codes, record);
    else
        pack_mx4(e, shape, codes, record);
}

void mx_record_to_load(const mx_shape *shape, mx_record *record)
{
    record->n_runs = 2;
    if (mx_format_is_ocp(shape->format)) {
        mx_ocp_record(shape, record);
    } else if (shape->format == MX_FORMAT_MX4) {
        record->n_runs = 1;
        record->runs[0] = run_of(MXE_I32, 2, 0, 0, -1);
    } else if (shape->format == MX_FORMAT_MX9) {
        record->runs[0] = run_of(MXE_I16, 1, 0, 0, -1);
        if (shape->count == 2)
            record->runs[1] = run_of(MXE_I16, 1, 2, 2, -1);
        else
            record->runs[1] = run_of(MXE_I32, shape->count / 4, 2, shape->count, -1);
    } else if (shape->lanes == 1) {
        record->n_runs = 1;
        record->runs[0] = run_of(MXE_I32, 3, 0, 0, -1);
    } else {
        mxe_type type = shape->count == 8 ? MXE_I32 : shape->count == 4 ? MXE_I16 : MXE_I8;
        record->runs[0] = run_of(MXE_I32, 1, 0, 0, -1);
        record->runs[1] = run_of(type, 1, 4, shape->count / 2, -1);
    }
}

/* Bits [at, at + bits) of a word, sign-extended. */
static mxe_value signed_field(mxe *e, mxe_value word, int at, int bits)
{
    if (at + bits < 32)
        word = mxe_shl(e, word, mxe_i32(e, 32 - at - bits));
    return mxe_ashr(e, word, mxe_i32(e, 32 - bits));
}

static void unpack_mx9(mxe *e, const mx_shape *shape, const mx_record *record, mx_codes *codes)
{
    codes->header = mxe_zext(e, record->runs[0].items[0], MXE_I32);
    for (int i = 0; i < shape->count; i++) {
        mxe_value word = mxe_zext(e, record->runs[1].items[i / 4], MXE_I32);
        codes->value[i] = mxe_signed_byte_to_f32(e, word, i % 4);
    }
}

/* q = nibble - 16 * sign. Of eight codes those with even and with odd numbers lie side by side as
 * bytes, to which q + 16 is made: the nibble, and 16 where the sign bit is clear. */
static void unpack_eight(mxe *e, mxe_value nibbles, mxe_value signs, mxe_value *value)
{
    /* Moves bits 0, 2, 4, 6 to 4, 12, 20, 28; the carries of what else adds up stay clear of these.
     */
    mxe_value spread = mxe_i32(e, 1 << 4 | 1 << 10 | 1 << 16 | 1 << 22);
    for (int odd = 0; odd < 2; odd++) {
        mxe_value low = odd ? mxe_lshr(e, nibbles, mxe_i32(e, 4)) : nibbles;
        mxe_value sign = odd ? mxe_lshr(e, signs, mxe_i32(e, 1)) : signs;
        sign = mxe_mul(e, mxe_and(e, sign, mxe_i32(e, 0x55)), spread);
        mxe_value bytes = mxe_and(e, low, mxe_i32(e, 0x0f0f0f0f));
        sign = mxe_xor(e, sign, mxe_i32(e, 0x10101010));
        bytes = mxe_or(e, bytes, mxe_and(e, sign, mxe_i32(e, 0x10101010)));
        for (int i = 0; i < 4; i++)
            value[2 * i + odd] = mxe_byte_to_f32(e, bytes, i, 16);
    }
}

static void unpack_mx6(mxe *e, const mx_shape *shape, const mx_record *record, mx_codes *codes)
{
    mxe_value first = record->runs[0].items[0];
    codes->header = mxe_and(e, first, mxe_i32(e, 0xffff));
    mxe_value signs = mxe_lshr(e, first, mxe_i32(e, 16));
    if (shape->lanes > 1)
        signs = mxe_lshr(e, signs, mxe_mul(e, shape->part, mxe_i32(e, shape->count)));
    mxe_value words[2];
    for (int i = 0; i < 2; i++)
        words[i] = shape->lanes == 1 ? record->runs[0].items[1 + i]
                                     : mxe_zext(e, record->runs[1].items[0], MXE_I32);
    for (int i = 0; i + 8 <= shape->count; i += 8)
        unpack_eight(e, words[i / 8], i ? mxe_lshr(e, signs, mxe_i32(e, i)) : signs,
                     codes->value + i);
    for (int i = 0; i < shape->count && shape->count < 8; i++) {
        mxe_value low = mxe_and(e, mxe_lshr(e, words[0], mxe_i32(e, 4 * i)), mxe_i32(e, 15));
        mxe_value sign = mxe_shl(e, signed_field(e, signs, i, 1), mxe_i32(e, 4));
        codes->value[i] = mxe_small_to_f32(e, mxe_or(e, low, sign));
    }
}

static void unpack_mx4(mxe *e, const mx_shape *shape, const mx_record *record, mx_codes *codes)
{
    mxe_value low = record->runs[0].items[0], high = record->runs[0].items[1];
    codes->header = mxe_and(e, low, mxe_i32(e, 0xffff));
    if (shape->lanes > 1) {
        mxe_value shift =
            mxe_add(e, mxe_mul(e, shape->part, mxe_i32(e, 3 * shape->count)), mxe_i32(e, 16));
        mxe_value all = mxe_or(e, mxe_zext(e, low, MXE_I64),
                               mxe_shl(e, mxe_zext(e, high, MXE_I64), mxe_i64(e, 32)));
        all = mxe_lshr(e, all, mxe_zext(e, shift, MXE_I64));
        mxe_value mine = mxe_zext(e, all, MXE_I32);
        for (int i = 0; i < shape->count; i++)
            codes->value[i] = mxe_small_to_f32(e, signed_field(e, mine, 3 * i, 3));
        return;
    }
    for (int i = 0; i < 16; i++) {
        int at = 16 + 3 * i;
        mxe_value word = at < 32 ? low : high;
        if (at < 32 && at + 3 > 32) {
            word = mxe_funnel(e, low, high, mxe_i32(e, at));
            at = 0;
        }
        codes->value[i] = mxe_small_to_f32(e, signed_field(e, word, at % 32, 3));
    }
}

void mx_unpack(mxe *e, const mx_shape *shape, const mx_record *record, mx_codes *codes)
{
    if (mx_format_is_ocp(shape->format)) {
        mx_ocp_unpack(e, record, codes);
        return;
    }
    if (shape->format == MX_FORMAT_MX9)
        unpack_mx9(e, shape, record, codes);
    else if (shape->format == MX_FORMAT_MX6)
        unpack_mx6(e, shape, record, codes);
    else
        unpack_mx4(e, shape, record, codes);
    mxe_value bits = mxe_lshr(e, codes->header, mxe_i32(e, 8));
    if (shape->lanes > 1)
        bits = mxe_lshr(e, bits, mxe_mul(e, shape->part, mxe_i32(e, shape->count / 2)));
    for (int p = 0; p < shape->count / 2; p++) {
        mxe_value bit = mxe_and(e, bits, mxe_i32(e, 1 << p));
        codes->demoted[p] = mxe_ne(e, bit, mxe_i32(e, 0));
    }
}

mxe_addr mx_run_addr(mxe *e, const mx_shape *shape, const mx_run *run, mxe_addr block)
{
    if (run->offset)
        block.uniform = block.uniform.ref ? mxe_add(e, block.uniform, mxe_i64(e, run->offset))
                                          : mxe_i64(e, run->offset);
    if (shape->lanes > 1 && run->part_bytes) {
        mxe_value part = mxe_mul(e, shape->part, mxe_i32(e, run->part_bytes));
        if (block.varying.ref)
            block.varying = mxe_add(e, block.varying, mxe_zext(e, part, block.varying.type));
        else
            block.varying = part;
    }
    return block;
}

static int run_align(const mx_run *run, int align_bytes)
{
    while (run->offset % align_bytes || run->part_bytes % align_bytes)
        align_bytes /= 2;
    return align_bytes;
}

void mx_record_store(mxe *e, const mx_shape *shape, const mx_record *record, mxe_addr block,
                     int align_bytes, unsigned flags, mxe_value predicate)
{
    for (int r = 0; r < record->n_runs; r++) {
        const mx_run *run = &record->runs[r];
        mxe_value when = predicate;
        if (run->only_part >= 0 && shape->lanes > 1) {
            mxe_value mine = mxe_eq(e, shape->part, mxe_i32(e, run->only_part));
            when = when.ref ? mxe_and(e, when, mine) : mine;
        }
        mxe_addr addr = mx_run_addr(e, shape, run, block);
        mxe_store(e, addr, run->type, run->n, run_align(run, align_bytes), flags, when, run->items);
    }
}

void mx_record_load(mxe *e, const mx_shape *shape, mx_record *record, mxe_addr block,
                    int align_bytes, unsigned flags)
{
    for (int r = 0; r < record->n_runs; r++) {
        mx_run *run = &record->runs[r];
        mxe_addr addr = mx_run_addr(e, shape, run, block);
        mxe_load(e, addr, run->type, run->n, run_align(run, align_bytes), flags, run->items);
    }
}

/* ---- Packed bytes apart from each other ---- */

/* Byte `byte` of a run. */
static mxe_addr byte_addr(mxe *e, const mx_shape *shape, const mx_run *run, mxe_addr block,
                          mxe_value byte_stride, int byte)
{
    mxe_value number = mxe_i64(e, run->offset + byte);
    if (shape->lanes > 1 && run->part_bytes)
        number = mxe_add(
            e, number, mxe_zext(e, mxe_mul(e, shape->part, mxe_i32(e, run->part_bytes)), MXE_I64));
    block.varying = mxe_add(e, block.varying, mxe_mul(e, number, byte_stride));
    return block;
}

static int item_bytes(const mx_run *run)
{
    return run->type == MXE_I32 ? 4 : run->type == MXE_I16 ? 2 : 1;
}

void mx_record_store_bytes(mxe *e, const mx_shape *shape, const mx_record *record, mxe_addr block,
                           mxe_value byte_stride, unsigned flags, mxe_value predicate)
{
    for (int r = 0; r < record->n_runs; r++) {
        const mx_run *run = &record->runs[r];
        mxe_value when = predicate;
        if (run->only_part >= 0 && shape->lanes > 1)
            when = mxe_and(e, when, mxe_eq(e, shape->part, mxe_i32(e, run->only_part)));
        for (int b = 0; b < run->n * item_bytes(run); b++) {
            mxe_value item = mxe_zext(e, run->items[b / item_bytes(run)], MXE_I32);
            int shift = 8 * (b % item_bytes(run));
            mxe_value byte = mxe_zext(e, mxe_lshr(e, item, mxe_i32(e, shift)), MXE_I8);
            mxe_store(e, byte_addr(e, shape, run, block, byte_stride, b), MXE_I8, 1, 1, flags, when,
                      &byte);
        }
    }
}

void mx_record_load_bytes(mxe *e, const mx_shape *shape, mx_record *record, mxe_addr block,
                          mxe_value byte_stride, unsigned flags)
{
    for (int r = 0; r < record->n_runs; r++) {
        mx_run *run = &record->runs[r];
        for (int i = 0; i < run->n; i++) {
            mxe_value item = mxe_i32(e, 0);
            for (int b = 0; b < item_bytes(run); b++) {
                mxe_value byte;
                mxe_load(e, byte_addr(e, shape, run, block, byte_stride, i * item_bytes(run) + b),
                         MXE_I8, 1, 1, flags, &byte);
                byte = mxe_shl(e, mxe_zext(e, byte, MXE_I32), mxe_i32(e, 8 * b));
                item = mxe_or(e, item, byte);
            }
            run->items[i] = mxe_zext(e, item, run->type);
        }
    }
}
