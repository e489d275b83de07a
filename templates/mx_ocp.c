#include "templates/mx_ocp.h"

#include "gen/emit_matrix.h"

enum {
    F32_SIGN = (int)0x80000000u,
    F32_MAGNITUDE = 0x7fffffff,
    F32_INF = 0x7f800000,
    LEAST_UNSCALE = 0x00400000, /* 2^-127 */
    NAN_SCALE = 255,
    MOST_SCALE = 254
};

static int code_bits(const mx_shape *shape)
{
    return mx_format_get(shape->format)->code_bits;
}

static bool is_fp8(mx_format format)
{
    return format == MX_FORMAT_MXFP8_E4M3 || format == MX_FORMAT_MXFP8_E5M2;
}

static int word_count(const mx_shape *shape)
{
    return (shape->count * code_bits(shape) + 31) / 32;
}

/* ---- The scale ---- */

static mxe_value size_of(mxe *e, mxe_value bits)
{
    return mxe_and(e, bits, mxe_i32(e, F32_MAGNITUDE));
}

static mxe_value largest(mxe *e, const mxe_value *size, int count)
{
    mxe_value most = size[0];
    for (int i = 1; i < count; i++)
        most = mxe_umax(e, most, size[i]);
    return most;
}

/* A lane's elements without their signs, NaN as 0. Blocks with NaN are rare, and the largest
 * magnitude tells them: only they pay for being put right. Bit i of `nan` says that element i was
 * one. */
typedef struct sizes {
    mxe_value size[MX_MOST_ELEMENTS], largest;
    mxe_var nan;
} sizes;

static void plain_sizes(mxe *e, const mx_shape *shape, const mxe_value *bits, sizes *out)
{
    for (int i = 0; i < shape->count; i++)
        out->size[i] = size_of(e, bits[i]);
}

static void clean_sizes(mxe *e, const mx_shape *shape, const mxe_value *bits, sizes *out)
{
    mxe_var size[MX_MOST_ELEMENTS], most;
    mxe_branch branch;
    mxe_value clean[MX_MOST_ELEMENTS] = {{0}}, none = mxe_i32(e, 0), mask = none;
    for (int i = 0; i < shape->count; i++) {
        clean[i] = size_of(e, bits[i]);
        size[i] = mxe_var_new(e, clean[i]);
    }
    most = mxe_var_new(e, largest(e, clean, shape->count));
    out->nan = mxe_var_new(e, mxe_varying(e, none));
    mxe_value inf = mxe_i32(e, F32_INF);
    mxe_if_begin(e, &branch, mxe_any(e, mxe_ult(e, inf, mxe_var_get(e, most))));
    for (int i = 0; i < shape->count; i++) {
        mxe_value is_nan = mxe_ult(e, inf, clean[i]);
        clean[i] = mxe_select(e, is_nan, none, clean[i]);
        mask = mxe_or(e, mask, mxe_select(e, is_nan, mxe_i32(e, 1LL << i), none));
        mxe_var_set(e, size[i], clean[i]);
    }
    mxe_value marked = mxe_select(e, mxe_ne(e, mask, none), mxe_param(e, "nan_amax"), none);
    mxe_var_set(e, most, mxe_umax(e, largest(e, clean, shape->count), marked));
    mxe_var_set(e, out->nan, mask);
    mxe_if_end(e, &branch);
    for (int i = 0; i < shape->count; i++)
        out->size[i] = mxe_var_get(e, size[i]);
    out->largest = mxe_var_get(e, most);
}

/* From the block's largest magnitude: "add a constant, take the exponent field", then its limits.
 */
mxe_value mx_ocp_scale_byte(mxe *e, const mx_shape *shape, mxe_value amax)
{
    const mx_ocp_element *element = mx_ocp_element_get(shape->format);
    mxe_value least = mxe_umax(e, amax, mxe_param(e, "min_amax"));
    if (element->emax == 0) {
        /* Exponents of subnormal numbers count here, where the ceilings round them. */
        mxe_value normal = mxe_i32(e, 0x800000);
        mxe_value twice = mxe_umax(e, mxe_shl(e, least, mxe_i32(e, 1)), normal);
        mxe_value when = mxe_ult(e, least, normal);
        when = mxe_and(e, when, mxe_ne(e, mxe_param(e, "scale_ceil"), mxe_i32(e, 0)));
        least = mxe_select(e, when, mxe_sub(e, twice, normal), least);
    }
    mxe_value sum = mxe_add(e, least, mxe_param(e, "scale_add"));
    mxe_value byte = mxe_sub(e, mxe_lshr(e, sum, mxe_i32(e, 23)), mxe_i32(e, element->emax));
    byte = mxe_smin(e, mxe_smax(e, byte, mxe_param(e, "min_byte")), mxe_i32(e, MOST_SCALE));
    mxe_value is_inf = mxe_eq(e, amax, mxe_i32(e, F32_INF));
    byte = mxe_select(e, is_inf, mxe_param(e, "inf_byte"), byte);
    mxe_value is_zero = mxe_eq(e, amax, mxe_i32(e, 0));
    byte = mxe_select(e, is_zero, mxe_param(e, "zero_byte"), byte);
    return mxe_select(e, mxe_eq(e, amax, mxe_i32(e, -1)), mxe_i32(e, NAN_SCALE), byte);
}

/* 2^(127 - byte); the codes of a NaN block are those of the largest scale. */
static mxe_value unscale_of(mxe *e, mxe_value byte)
{
    mxe_value field = mxe_sub(e, mxe_i32(e, 254), byte);
    mxe_value bits = mxe_smax(e, mxe_shl(e, field, mxe_i32(e, 23)), mxe_i32(e, LEAST_UNSCALE));
    return mxe_bitcast(e, bits, MXE_F32);
}

/* ---- Codes without their signs ---- */

/* The bits of `rounder` + code: what adding a code to it gives. */
static int64_t rounder_bits(void)
{
    return 0x4b400000;
}

/* A code is linear in |y| within each power of two, with half the slope from one to the next: it is
 * the least of the three lines, each rounded once by a multiplication that adds MXE_ROUNDER, and
 * even codes are even integers there. */
static mxe_value round_by_lines(mxe *e, const mx_shape *shape, mxe_value size, mxe_value unscale)
{
    const mx_ocp_element *element = mx_ocp_element_get(shape->format);
    int most = mx_format_get(shape->format)->code_max;
    mxe_value y = mxe_fmul(e, mxe_bitcast(e, size, MXE_F32), unscale);
    mxe_value code = mxe_i32(e, rounder_bits() + most);
    for (int k = 2; k >= 0; k--) {
        float slope = (float)(1 << element->mantissa_bits) / (float)(1 << k);
        float start = k ? (float)(1 << (element->mantissa_bits + k - 1)) : 0.0f;
        mxe_value line = mxe_fma(e, y, mxe_f32(e, slope), mxe_f32(e, MXE_ROUNDER + start));
        code = mxe_umin(e, mxe_bitcast(e, line, MXE_I32), code);
    }
    return code;
}

/* Codes of MXINT8, with their signs. */
static mxe_value round_int8(mxe *e, mxe_value size, mxe_value sign, mxe_value unscale)
{
    mxe_value x = mxe_or(e, size, mxe_and(e, sign, mxe_i32(e, F32_SIGN)));
    mxe_value y = mxe_fmul(e, mxe_bitcast(e, x, MXE_F32), unscale);
    mxe_value code = mxe_fma(e, y, mxe_f32(e, 64.0f), mxe_f32(e, MXE_ROUNDER));
    code = mxe_fclamp(e, code, mxe_f32(e, MXE_ROUNDER - 127), mxe_f32(e, MXE_ROUNDER + 127));
    return mxe_bitcast(e, code, MXE_I32);
}

mxe_value mx_ocp_round_nearest(mxe *e, const mx_ocp_element *element, mxe_value y, mxe_value tie)
{
    int m = element->mantissa_bits;
    int64_t lowest = (int64_t)(127 + (element->exponent_bits ? 1 - element->bias : 0)) << 23;
    mxe_value bits = mxe_bitcast(e, y, MXE_I32), field = mxe_i32(e, lowest);
    if (tie.ref)
        bits = mxe_or(e, bits, tie);
    bits = mxe_umin(e, bits, mxe_i32(e, element->max_bits));
    if (element->exponent_bits)
        field = mxe_umax(e, mxe_and(e, bits, mxe_i32(e, F32_INF)), field);
    /* A number whose last bit is the element's last bit: the sum rounds there. */
    mxe_value unit = mxe_add(e, field, mxe_i32(e, (int64_t)(23 - m) << 23));
    mxe_value sum = mxe_fadd(e, mxe_bitcast(e, bits, MXE_F32), mxe_bitcast(e, unit, MXE_F32));
    mxe_value code = mxe_sub(e, mxe_bitcast(e, sum, MXE_I32), unit);
    mxe_value above =
        mxe_sub(e, mxe_lshr(e, field, mxe_i32(e, 23 - m)), mxe_i32(e, lowest >> (23 - m)));
    return element->exponent_bits ? mxe_add(e, code, above) : code;
}

static bool has_three_lines(mx_format format)
{
    return format == MX_FORMAT_MXFP4 || format == MX_FORMAT_MXFP6_E2M3;
}

static mxe_value negated_where(mxe *e, mxe_value code, mxe_value sign)
{
    mxe_value all = mxe_ashr(e, sign, mxe_i32(e, 31));
    return mxe_sub(e, mxe_xor(e, code, all), all);
}

/* q[i]: codes in their low bits, of MXINT8 with the sign. What stands above is *rest. */
static void round_codes(mxe *e, const mx_shape *shape, const sizes *x, mxe_value unscale,
                        mxe_value *sign, mxe_value *q, int64_t *rest)
{
    const mx_ocp_element *element = mx_ocp_element_get(shape->format);
    const mxe_value no_tie = {NULL, MXE_I32, false};
    *rest = 0;
    if (shape->options)
        mx_ocp_round_any(e, shape, x->size, unscale, sign, q);
    for (int i = 0; i < shape->count; i++) {
        if (shape->options) {
            if (!element->exponent_bits)
                q[i] = negated_where(e, q[i], sign[i]);
        } else if (!element->exponent_bits) {
            q[i] = round_int8(e, x->size[i], sign[i], unscale);
        } else if (has_three_lines(shape->format)) {
            q[i] = round_by_lines(e, shape, x->size[i], unscale);
            *rest = rounder_bits();
        } else {
            mxe_value y = mxe_fmul(e, mxe_bitcast(e, x->size[i], MXE_F32), unscale);
            q[i] = mx_ocp_round_nearest(e, element, y, no_tie);
        }
    }
}

/* ---- Words of codes ---- */

/* Eight codes of four bits from q on: a sum of shifted words in which `rest` adds up to a constant.
 * The sign bits are shifted in from the top. */
static mxe_value join_nibbles(mxe *e, const mxe_value *q, const mxe_value *sign, int count,
                              int64_t rest)
{
    mxe_value word = q[count - 1];
    mxe_value signs = mxe_lshr(e, sign[count - 1], mxe_i32(e, 28));
    uint32_t constant = (uint32_t)rest;
    for (int i = count - 2; i >= 0; i--) {
        word = mxe_add(e, mxe_shl(e, word, mxe_i32(e, 4)), q[i]);
        signs = mxe_funnel(e, sign[i], signs, mxe_i32(e, 28));
        constant = (constant << 4) + (uint32_t)rest;
    }
    word = mxe_sub(e, word, mxe_i32(e, constant));
    return mxe_or(e, word, mxe_and(e, signs, mxe_i32(e, 0x88888888)));
}

/* A code with its sign bit above it. */
static mxe_value signed_code(mxe *e, mxe_value q, mxe_value sign, int bits)
{
    mxe_value bit =
        mxe_and(e, mxe_lshr(e, sign, mxe_i32(e, 32 - bits)), mxe_i32(e, 1LL << (bits - 1)));
    return mxe_or(e, q, bit);
}

static void join_six_bits(mxe *e, const mx_shape *shape, const mxe_value *q, const mxe_value *sign,
                          mxe_value *words)
{
    for (int i = 0; i < word_count(shape); i++)
        words[i] = mxe_i32(e, 0);
    for (int i = 0; i < shape->count; i++) {
        int at = 6 * i % 32, word = 6 * i / 32;
        mxe_value code = mxe_and(e, q[i], mxe_i32(e, 0x1f));
        code = signed_code(e, code, sign[i], 6);
        words[word] = mxe_or(e, words[word], mxe_shl(e, code, mxe_i32(e, at)));
        if (at > 26)
            words[word + 1] = mxe_or(e, words[word + 1], mxe_lshr(e, code, mxe_i32(e, 32 - at)));
    }
}

static void join_words(mxe *e, const mx_shape *shape, const mxe_value *q, const mxe_value *sign,
                       int64_t rest, mxe_value *words)
{
    bool has_sign = mx_ocp_element_get(shape->format)->exponent_bits == 0;
    switch (code_bits(shape)) {
    case 4:
        for (int i = 0; i < shape->count; i += 8) {
            int count = shape->count - i < 8 ? shape->count - i : 8;
            words[i / 8] = join_nibbles(e, q + i, sign + i, count, rest);
        }
        return;
    case 6:
        join_six_bits(e, shape, q, sign, words);
        return;
    default:
        for (int i = 0; i < shape->count; i += 4) {
            mxe_value bytes[4];
            for (int k = 0; k < 4; k++)
                bytes[k] = has_sign ? q[i + k] : signed_code(e, q[i + k], sign[i + k], 8);
            words[i / 4] = mxe_pack_bytes(e, bytes);
        }
    }
}

/* By the target's own conversion of two elements. */
static void convert_words(mxe *e, const mx_shape *shape, const mxe_value *bits, mxe_value unscale,
                          mxe_value *words)
{
    bool wide = shape->format == MX_FORMAT_MXFP8_E5M2;
    for (int i = 0; i < shape->count; i += 2) {
        mxe_value y[2];
        for (int k = 0; k < 2; k++)
            y[k] = mxe_fmul(e, mxe_bitcast(e, bits[i + k], MXE_F32), unscale);
        mxe_value pair = mxe_fp8_pair(e, y[0], y[1], wide);
        words[i / 4] = i % 4 ? mxe_or(e, words[i / 4], mxe_shl(e, pair, mxe_i32(e, 16))) : pair;
    }
}

/* The same of MXFP4, which takes the scale, too. */
static void convert_nibbles(mxe *e, const mx_shape *shape, const mxe_value *bits, mxe_value byte,
                            mxe_value *words)
{
    byte = mxe_umin(e, byte, mxe_i32(e, MOST_SCALE));
    mxe_value scale = mxe_bitcast(e, mxe_shl(e, byte, mxe_i32(e, 23)), MXE_F32);
    for (int first = 0; first < shape->count; first += 8) {
        mxe_value values[8];
        for (int i = 0; i < 8; i++)
            values[i] = first + i < shape->count ? mxe_bitcast(e, bits[first + i], MXE_F32)
                                                 : mxe_f32(e, 0.0f);
        words[first / 8] = mxe_fp4_eight(e, values, scale);
    }
}

/* Replaces the codes of elements that were NaN. */
static void put_nan_codes(mxe *e, const mx_shape *shape, const sizes *x, mxe_value *words)
{
    mxe_var fixed[8];
    mxe_branch branch;
    int bits = code_bits(shape), n = word_count(shape);
    uint64_t code = is_fp8(shape->format) ? 0x7f : 0, mask = (1u << bits) - 1;
    mxe_value none = mxe_i32(e, 0), nan = mxe_var_get(e, x->nan);
    for (int i = 0; i < n; i++)
        fixed[i] = mxe_var_new(e, words[i]);
    mxe_if_begin(e, &branch, mxe_any(e, mxe_ne(e, nan, none)));
    for (int i = 0; i < shape->count; i++) {
        mxe_value is_nan = mxe_ne(e, mxe_and(e, nan, mxe_i32(e, 1LL << i)), none);
        int at = i * bits % 32, word = i * bits / 32;
        for (int k = 0; k < 2 && word + k < n; k++) {
            /* The part of the code that lies in this word. */
            uint64_t kept = ~(k ? mask << at >> 32 : mask << at) & 0xffffffffu;
            uint64_t put = (k ? code << at >> 32 : code << at) & 0xffffffffu;
            mxe_value with =
                mxe_or(e, mxe_and(e, words[word + k], mxe_i32(e, kept)), mxe_i32(e, put));
            words[word + k] = mxe_select(e, is_nan, with, words[word + k]);
        }
    }
    for (int i = 0; i < n; i++)
        mxe_var_set(e, fixed[i], words[i]);
    mxe_if_end(e, &branch);
    for (int i = 0; i < n; i++)
        words[i] = mxe_var_get(e, fixed[i]);
}

/* ---- MXFP4 of bf16, two elements a word ---- */

/* Both halves. */
static mxe_value twice(mxe *e, uint32_t half)
{
    return mxe_i32(e, half << 16 | half);
}

mxe_value mx_ocp_largest_half(mxe *e, const mxe_value *size, int n)
{
    mxe_value most = size[0], low;
    for (int i = 1; i < n; i++)
        most = mxe_umax_u16x2(e, most, size[i]);
    low = mxe_shl(e, most, mxe_i32(e, 16));
    return mxe_umax(e, low, mxe_and(e, most, mxe_i32(e, (int32_t)0xffff0000)));
}

/* As clean_sizes; size[] has n words. */
static void clean_halves(mxe *e, mxe_value *size, int n, sizes *out)
{
    mxe_var kept[MX_MOST_ELEMENTS / 2], most = mxe_var_new(e, mx_ocp_largest_half(e, size, n));
    mxe_branch branch;
    mxe_value none = mxe_i32(e, 0), mask = none, inf = mxe_i32(e, F32_INF);
    for (int i = 0; i < n; i++)
        kept[i] = mxe_var_new(e, size[i]);
    out->nan = mxe_var_new(e, mxe_varying(e, none));
    mxe_if_begin(e, &branch, mxe_any(e, mxe_ult(e, inf, mxe_var_get(e, most))));
    for (int i = 0; i < 2 * n; i++) {
        mxe_value half = mxe_i32(e, i % 2 ? (int32_t)0xffff0000 : 0xffff);
        mxe_value own = mxe_and(e, size[i / 2], half);
        mxe_value is_nan = mxe_ult(e, inf, i % 2 ? own : mxe_shl(e, own, mxe_i32(e, 16)));
        mxe_value without = mxe_sub(e, size[i / 2], own);
        size[i / 2] = mxe_select(e, is_nan, without, size[i / 2]);
        mask = mxe_or(e, mask, mxe_select(e, is_nan, mxe_i32(e, 1LL << i), none));
    }
    mxe_value marked = mxe_select(e, mxe_ne(e, mask, none), mxe_param(e, "nan_amax"), none);
    mxe_var_set(e, most, mxe_umax(e, mx_ocp_largest_half(e, size, n), marked));
    mxe_var_set(e, out->nan, mask);
    for (int i = 0; i < n; i++)
        mxe_var_set(e, kept[i], size[i]);
    mxe_if_end(e, &branch);
    for (int i = 0; i < n; i++)
        size[i] = mxe_var_get(e, kept[i]);
    out->largest = mxe_var_get(e, most);
}

/* The lines of round_by_lines; 192 takes the place of MXE_ROUNDER, as bf16 has ones there. */
static mxe_value round_halves(mxe *e, mxe_value y)
{
    static const uint32_t slope[3] = {0x4000, 0x3f80, 0x3f00}, start[3] = {0x4340, 0x4342, 0x4344};
    mxe_value code = twice(e, 0x4347);
    for (int k = 2; k >= 0; k--)
        code =
            mxe_umin_u16x2(e, mxe_bf16x2_fma(e, y, twice(e, slope[k]), twice(e, start[k])), code);
    return code;
}

/* Up to four words of two codes each, 0x4340 + code, as nibbles with the signs of `words`. */
static mxe_value join_halves(mxe *e, const mxe_value *codes, const mxe_value *words, int n)
{
    mxe_value bytes[4], from[4], none = mxe_i32(e, 0);
    uint32_t rest = 0;
    for (int i = 0; i < 4; i++) {
        /* The low byte is 0x44 + the first code + 16 times the second. */
        bytes[i] = i < n ? mxe_add(e, codes[i], mxe_lshr(e, codes[i], mxe_i32(e, 12))) : none;
        from[i] = i < n ? words[i] : none;
        rest |= i < n ? 0x44u << 8 * i : 0;
    }
    mxe_value word = mxe_sub(e, mxe_pack_bytes(e, bytes), mxe_i32(e, rest));
    mxe_value low = mxe_lshr(e, mxe_gather_bytes(e, from, 1), mxe_i32(e, 4));
    mxe_value high = mxe_and(e, mxe_gather_bytes(e, from, 3), mxe_i32(e, 0x80808080));
    word = mxe_or(e, word, mxe_and(e, low, mxe_i32(e, 0x08080808)));
    return mxe_or(e, word, high);
}

static mxe_value block_amax(mxe *e, const mx_shape *shape, mxe_value own)
{
    if (shape->amax.ref)
        own = mxe_umax(e, own, shape->amax);
    return mxe_lane_reduce(e, MXE_UMAX, own, shape->lanes);
}

static void encode_halves(mxe *e, const mx_shape *shape, const mxe_value *raw, mx_codes *codes)
{
    mxe_value words[MX_MOST_ELEMENTS / 2], q[MX_MOST_ELEMENTS / 2];
    mxe_value size[MX_MOST_ELEMENTS / 2] = {{0}};
    int n = shape->count / 2;
    sizes x;
    mx_join_words(e, shape->dtype, raw, shape->count, words);
    for (int i = 0; i < n; i++)
        size[i] = mxe_and(e, words[i], twice(e, 0x7fff));
    clean_halves(e, size, n, &x);
    codes->header = mx_ocp_scale_byte(e, shape, block_amax(e, shape, x.largest));
    mxe_value unscale =
        mxe_lshr(e, mxe_bitcast(e, unscale_of(e, codes->header), MXE_I32), mxe_i32(e, 16));
    unscale = mxe_or(e, unscale, mxe_shl(e, unscale, mxe_i32(e, 16)));
    for (int i = 0; i < n; i++)
        q[i] = round_halves(e, mxe_mul_halves(e, size[i], unscale, MX_DTYPE_BF16));
    for (int i = 0; i < n; i += 4)
        codes->words[i / 4] = join_halves(e, q + i, words + i, n - i < 4 ? n - i : 4);
    put_nan_codes(e, shape, &x, codes->words);
}

/* ---- Two columns of bf16 at once ---- */

enum { BLOCK = MX_OCP_BLOCK, HIGH_HALF = (int32_t)0xffff0000 };

bool mx_ocp_encodes_two(const mxgen_target *target, mx_format format, mx_dtype dtype)
{
    return dtype == MX_DTYPE_BF16 && mxgen_target_has(target, MXGEN_CAP_HALVES) &&
           (format == MX_FORMAT_MXFP4 ||
            (is_fp8(format) && mxgen_target_has(target, MXGEN_CAP_FP8)));
}

/* The largest of both columns, as f32 bits. */
static void largest_two(mxe *e, const mxe_value *size, mxe_value most[2])
{
    mxe_value both[4];
    for (int i = 0; i < BLOCK; i++)
        both[i % 4] = i < 4 ? size[i] : mxe_umax_u16x2(e, both[i % 4], size[i]);
    both[0] =
        mxe_umax_u16x2(e, mxe_umax_u16x2(e, both[0], both[1]), mxe_umax_u16x2(e, both[2], both[3]));
    most[0] = mxe_shl(e, both[0], mxe_i32(e, 16));
    most[1] = mxe_and(e, both[0], mxe_i32(e, HIGH_HALF));
}

/* As clean_sizes. */
static void clean_two(mxe *e, mxe_value *size, sizes x[2])
{
    mxe_var kept[BLOCK], most_var[2];
    mxe_branch branch;
    mxe_value none = mxe_i32(e, 0), inf = mxe_i32(e, F32_INF), most[2], mask[2] = {none, none};
    largest_two(e, size, most);
    for (int i = 0; i < BLOCK; i++)
        kept[i] = mxe_var_new(e, size[i]);
    for (int v = 0; v < 2; v++) {
        most_var[v] = mxe_var_new(e, most[v]);
        x[v].nan = mxe_var_new(e, mxe_varying(e, none));
    }
    mxe_if_begin(e, &branch, mxe_any(e, mxe_ult(e, inf, mxe_umax(e, most[0], most[1]))));
    for (int i = 0; i < BLOCK; i++) {
        mxe_value word = size[i];
        for (int v = 0; v < 2; v++) {
            mxe_value own = mxe_and(e, word, mxe_i32(e, v ? HIGH_HALF : 0xffff));
            mxe_value is_nan = mxe_ult(e, inf, v ? own : mxe_shl(e, own, mxe_i32(e, 16)));
            size[i] = mxe_select(e, is_nan, mxe_sub(e, size[i], own), size[i]);
            mask[v] = mxe_or(e, mask[v], mxe_select(e, is_nan, mxe_i32(e, 1LL << i), none));
        }
        mxe_var_set(e, kept[i], size[i]);
    }
    largest_two(e, size, most);
    for (int v = 0; v < 2; v++) {
        mxe_value marked = mxe_select(e, mxe_ne(e, mask[v], none), mxe_param(e, "nan_amax"), none);
        mxe_var_set(e, most_var[v], mxe_umax(e, most[v], marked));
        mxe_var_set(e, x[v].nan, mask[v]);
    }
    mxe_if_end(e, &branch);
    for (int i = 0; i < BLOCK; i++)
        size[i] = mxe_var_get(e, kept[i]);
    for (int v = 0; v < 2; v++)
        x[v].largest = mxe_var_get(e, most_var[v]);
}

/* Words of nibbles: four rows make 16 bits of each column. */
static void two_as_nibbles(mxe *e, const mxe_value *words, const mxe_value *y, mx_codes codes[2])
{
    mxe_value low = mxe_i32(e, 0xffff), high = mxe_i32(e, HIGH_HALF), both[BLOCK / 4];
    for (int g = 0; g < BLOCK / 4; g++) {
        mxe_value word = round_halves(e, y[4 * g + 3]), signs = mxe_i32(e, 0);
        uint32_t rest = 0x43404340u;
        for (int i = 2; i >= 0; i--) {
            word = mxe_add(e, mxe_shl(e, word, mxe_i32(e, 4)), round_halves(e, y[4 * g + i]));
            rest = (rest << 4) + 0x43404340u;
        }
        for (int i = 0; i < 4; i++)
            signs = mxe_or(e, mxe_lshr(e, signs, mxe_i32(e, 4)),
                           mxe_and(e, words[4 * g + i], twice(e, 0x8000)));
        both[g] = mxe_or(e, mxe_sub(e, word, mxe_i32(e, rest)), signs);
    }
    for (int i = 0; i < BLOCK / 8; i++) {
        mxe_value a = both[2 * i], b = both[2 * i + 1], half = mxe_i32(e, 16);
        codes[0].words[i] = mxe_or(e, mxe_and(e, a, low), mxe_shl(e, b, half));
        codes[1].words[i] = mxe_or(e, mxe_lshr(e, a, half), mxe_and(e, b, high));
    }
}

/* The product by the scale's power of two is exact, or so small that it becomes zero. */
static void two_as_fp8(mxe *e, const mx_shape *shape, const mxe_value *y, mx_codes codes[2])
{
    bool wide = shape->format == MX_FORMAT_MXFP8_E5M2;
    mxe_value half = mxe_i32(e, 16);
    for (int i = 0; i < BLOCK; i += 2) {
        for (int v = 0; v < 2; v++) {
            mxe_value value[2], *word = &codes[v].words[i / 4];
            for (int k = 0; k < 2; k++) {
                mxe_value bits =
                    v ? mxe_and(e, y[i + k], mxe_i32(e, HIGH_HALF)) : mxe_shl(e, y[i + k], half);
                value[k] = mxe_bitcast(e, bits, MXE_F32);
            }
            mxe_value pair = mxe_fp8_pair(e, value[0], value[1], wide);
            *word = i % 4 ? mxe_or(e, *word, mxe_shl(e, pair, half)) : pair;
        }
    }
}

void mx_ocp_encode_two(mxe *e, const mx_shape *shape, const mxe_value *words, mx_codes codes[2])
{
    mxe_value size[BLOCK], unscale[2];
    bool nibbles = code_bits(shape) == 4;
    sizes x[2];
    for (int i = 0; i < BLOCK; i++)
        size[i] = mxe_and(e, words[i], twice(e, 0x7fff));
    clean_two(e, size, x);
    for (int v = 0; v < 2; v++) {
        codes[v].header = mx_ocp_scale_byte(e, shape, x[v].largest);
        unscale[v] = mxe_bitcast(e, unscale_of(e, codes[v].header), MXE_I32);
    }
    mxe_value both = mxe_or(e, mxe_lshr(e, unscale[0], mxe_i32(e, 16)), unscale[1]);
    for (int i = 0; i < BLOCK; i++)
        size[i] = mxe_mul_halves(e, nibbles ? size[i] : words[i], both, MX_DTYPE_BF16);
    if (nibbles)
        two_as_nibbles(e, words, size, codes);
    else
        two_as_fp8(e, shape, size, codes);
    for (int v = 0; v < 2; v++)
        put_nan_codes(e, shape, &x[v], codes[v].words);
}

/* ---- Encode ---- */

static void load_bits(mxe *e, const mx_shape *shape, const mxe_value *raw, mxe_value *bits)
{
    for (int i = 0; i < shape->count; i++)
        bits[i] = mxe_bitcast(e, mx_raw_to_f32(e, shape->dtype, raw[i]), MXE_I32);
    if (!shape->options)
        return;
    mxe_value rotates =
        shape->rotates.ref ? shape->rotates : mxe_ne(e, mxe_param(e, "hadamard"), mxe_i32(e, 0));
    mx_ocp_rotate(e, rotates, shape->count, bits);
}

mxe_value mx_largest(mxe *e, const mx_shape *shape, const mxe_value *raw)
{
    mxe_value bits[MX_MOST_ELEMENTS];
    sizes x;
    load_bits(e, shape, raw, bits);
    clean_sizes(e, shape, bits, &x);
    return x.largest;
}

void mx_ocp_encode(mxe *e, const mx_shape *shape, const mxe_value *raw, mx_codes *codes)
{
    mxe_value bits[MX_MOST_ELEMENTS], q[MX_MOST_ELEMENTS];
    int64_t rest;
    sizes x;
    bool converts = shape->hardware && !shape->options, nibbles = code_bits(shape) == 4;
    if (converts && nibbles && !mxgen_target_has(e->target, MXGEN_CAP_FP4)) {
        if (shape->dtype == MX_DTYPE_BF16) {
            encode_halves(e, shape, raw, codes);
            return;
        }
        converts = false; /* only bf16 goes two a word: what was rotated is f32 */
    }
    if (shape->plain && mx_ocp_by_shorts(e, shape)) {
        mx_ocp_encode_shorts(e, shape, raw, codes);
        return;
    }
    if (shape->plain && mx_ocp_by_bytes(e, shape)) {
        mx_ocp_encode_bytes(e, shape, raw, unscale_of(e, codes->header), codes);
        return;
    }
    load_bits(e, shape, raw, bits);
    if (shape->plain) {
        plain_sizes(e, shape, bits, &x);
    } else {
        clean_sizes(e, shape, bits, &x);
        codes->header = mx_ocp_scale_byte(e, shape, block_amax(e, shape, x.largest));
    }
    mxe_value unscale = unscale_of(e, codes->header);
    if (converts && nibbles) {
        convert_nibbles(e, shape, bits, codes->header, codes->words);
    } else if (converts) {
        convert_words(e, shape, bits, unscale, codes->words);
    } else {
        round_codes(e, shape, &x, unscale, bits, q, &rest);
        join_words(e, shape, q, bits, rest, codes->words);
    }
    if (!shape->plain)
        put_nan_codes(e, shape, &x, codes->words);
}

/* ---- Decode ---- */

/* Code i of a lane at the top of a word; what lies below it is of others. */
static mxe_value code_on_top(mxe *e, const mx_shape *shape, const mxe_value *words, int i)
{
    int bits = code_bits(shape), at = i * bits % 32, word = i * bits / 32;
    mxe_value from = words[word];
    if (at + bits > 32) {
        from = mxe_funnel(e, from, words[word + 1], mxe_i32(e, at));
        at = 0;
    }
    return at + bits == 32 ? from : mxe_shl(e, from, mxe_i32(e, 32 - bits - at));
}

static mxe_value power_of_two(mxe *e, int exponent)
{
    return mxe_bitcast(e, mxe_i32(e, (int64_t)(127 + exponent) << 23), MXE_F32);
}

/* Subnormal f32 cost time on hosts, and every third E2M1 code of ordinary data would be one. */
static bool looks_up(const mxe *e, const mx_shape *shape)
{
    return shape->format == MX_FORMAT_MXFP4 && e->simd_width > 1 &&
           mxgen_target_has(e->target, MXGEN_CAP_PERMUTE);
}

/* The element's exponent and mantissa are those of an f32 that is 2^(bias - 127) times its value,
 * subnormal numbers included. */
static mxe_value code_value(mxe *e, const mx_shape *shape, const mxe_value *words, int i,
                            mxe_value scale)
{
    const mx_ocp_element *element = mx_ocp_element_get(shape->format);
    int bits = code_bits(shape), m = element->mantissa_bits;
    mxe_value exact;
    if (!element->exponent_bits) {
        exact = mxe_signed_byte_to_f32(e, words[i / 4], i % 4);
        return mxe_fmul(e, mxe_fmul(e, exact, power_of_two(e, -m)), scale);
    }
    mxe_value top = code_on_top(e, shape, words, i), value;
    if (looks_up(e, shape)) {
        mxe_value code = mxe_lshr(e, words[i / 8], mxe_i32(e, i % 8 * bits));
        value = mxe_element_to_f32(e, MXE_E2M1, code, scale);
    } else {
        int64_t mask = F32_SIGN | ((1LL << (bits - 1)) - 1) << (23 - m);
        top = mxe_and(e, mxe_ashr(e, top, mxe_i32(e, 9 + m - bits)), mxe_i32(e, mask));
        exact = mxe_fmul(e, mxe_bitcast(e, top, MXE_F32), power_of_two(e, 127 - element->bias));
        value = mxe_fmul(e, exact, scale);
    }
    if (shape->dtype != MX_DTYPE_F16)
        return value;
    /* LLVM makes of a product that is rounded to f16 a product plus 0, which loses the sign of -0.
     */
    mxe_value sign = mxe_and(e, top, mxe_i32(e, F32_SIGN));
    return mxe_bitcast(e, mxe_or(e, mxe_bitcast(e, value, MXE_I32), sign), MXE_F32);
}

/* Least byte at which every number of the element is exact in bf16, whose least is 2^-133. */
static int least_exact_byte(const mx_shape *shape)
{
    const mx_ocp_element *element = mx_ocp_element_get(shape->format);
    int least = 1 - element->bias - element->mantissa_bits; /* of the element, a power of two */
    int byte = -133 - least + 127;
    return shape->dtype == MX_DTYPE_BF16 && element->exponent_bits && byte > 0 ? byte : 0;
}

/* Whether any code of the lane's is NaN or Inf, or its scale is NaN, or numbers need rounding. */
static mxe_value needs_care(mxe *e, const mx_shape *shape, const mx_codes *codes)
{
    mxe_value care = mxe_eq(e, codes->header, mxe_i32(e, NAN_SCALE));
    int least = least_exact_byte(shape);
    if (least)
        care = mxe_or(e, care, mxe_ult(e, codes->header, mxe_i32(e, least)));
    if (!is_fp8(shape->format))
        return care;
    int first = shape->format == MX_FORMAT_MXFP8_E4M3 ? 0x7f : 0x7c;
    mxe_value found = mxe_i32(e, 0);
    for (int i = 0; i < word_count(shape); i++) {
        mxe_value size = mxe_and(e, codes->words[i], mxe_i32(e, 0x7f7f7f7f));
        found = mxe_or(e, found, mxe_add(e, size, mxe_i32(e, 0x01010101LL * (0x80 - first))));
    }
    found = mxe_and(e, found, mxe_i32(e, 0x80808080));
    return mxe_or(e, care, mxe_ne(e, found, mxe_i32(e, 0)));
}

mxe_value mx_decode_care(mxe *e, const mx_shape *shape, const mx_codes *codes)
{
    return needs_care(e, shape, codes);
}

/* With NaN, Inf and bf16 to nearest even. */
static mxe_value careful_raw(mxe *e, const mx_shape *shape, const mx_codes *codes, int i,
                             mxe_value value)
{
    static const int64_t nan[MX_DTYPE_COUNT] = {0x7fc00000, 0x7fc0, 0x7e00};
    mxe_value is_nan = mxe_eq(e, codes->header, mxe_i32(e, NAN_SCALE));
    mxe_value bits = mxe_bitcast(e, value, MXE_I32), raw;
    if (is_fp8(shape->format)) {
        bool wide = shape->format == MX_FORMAT_MXFP8_E5M2;
        mxe_value top = code_on_top(e, shape, codes->words, i);
        mxe_value code = mxe_and(e, mxe_lshr(e, top, mxe_i32(e, 24)), mxe_i32(e, 0x7f));
        is_nan = mxe_or(e, is_nan, mxe_ult(e, mxe_i32(e, wide ? 0x7c : 0x7e), code));
        mxe_value inf = mxe_or(e, mxe_and(e, top, mxe_i32(e, F32_SIGN)), mxe_i32(e, F32_INF));
        if (wide)
            bits = mxe_select(e, mxe_eq(e, code, mxe_i32(e, 0x7c)), inf, bits);
    }
    if (shape->dtype == MX_DTYPE_BF16) {
        mxe_value odd = mxe_and(e, mxe_lshr(e, bits, mxe_i32(e, 16)), mxe_i32(e, 1));
        bits = mxe_add(e, bits, mxe_add(e, odd, mxe_i32(e, 0x7fff)));
    }
    raw = mx_f32_to_raw(e, shape->dtype, mxe_bitcast(e, bits, MXE_F32));
    return mxe_select(e, is_nan, mxe_i32(e, nan[shape->dtype]), raw);
}

void mx_ocp_decode(mxe *e, const mx_shape *shape, const mx_codes *codes, mxe_value *raw_out)
{
    mxe_var out[MX_MOST_ELEMENTS];
    mxe_value value[MX_MOST_ELEMENTS];
    mxe_branch branch;
    mxe_value scale = mxe_shl(e, codes->header, mxe_i32(e, 23));
    scale = mxe_bitcast(e, mxe_umax(e, scale, mxe_i32(e, LEAST_UNSCALE)), MXE_F32);
    for (int i = 0; i < shape->count; i++) {
        value[i] = code_value(e, shape, codes->words, i, scale);
        raw_out[i] = mx_f32_to_raw(e, shape->dtype, value[i]);
    }
    if (shape->plain)
        return;
    for (int i = 0; i < shape->count; i++)
        out[i] = mxe_var_new(e, raw_out[i]);
    mxe_if_begin(e, &branch, mxe_any(e, needs_care(e, shape, codes)));
    for (int i = 0; i < shape->count; i++)
        mxe_var_set(e, out[i], careful_raw(e, shape, codes, i, value[i]));
    mxe_if_end(e, &branch);
    for (int i = 0; i < shape->count; i++)
        raw_out[i] = mxe_var_get(e, out[i]);
}

/* ---- Stored bytes ---- */

void mx_ocp_record(const mx_shape *shape, mx_record *record)
{
    int bytes = shape->count * code_bits(shape) / 8;
    mx_run *run = &record->runs[0];
    record->n_runs = 1;
    *run = (mx_run){.type = bytes % 4 == 0   ? MXE_I32
                            : bytes % 2 == 0 ? MXE_I16
                                             : MXE_I8,
                    .part_bytes = bytes,
                    .only_part = -1};
    run->n = bytes / (run->type == MXE_I32 ? 4 : run->type == MXE_I16 ? 2 : 1);
}

void mx_ocp_pack(mxe *e, const mx_shape *shape, const mx_codes *codes, mx_record *record)
{
    mx_run *run = &record->runs[0];
    mx_ocp_record(shape, record);
    for (int i = 0; i < run->n; i++) {
        int bits = run->type == MXE_I32 ? 32 : run->type == MXE_I16 ? 16 : 8, at = i * bits;
        mxe_value word = codes->words[at / 32];
        if (at % 32)
            word = mxe_lshr(e, word, mxe_i32(e, at % 32));
        run->items[i] = mxe_zext(e, word, run->type);
    }
}

void mx_ocp_unpack(mxe *e, const mx_record *record, mx_codes *codes)
{
    const mx_run *run = &record->runs[0];
    int bits = run->type == MXE_I32 ? 32 : run->type == MXE_I16 ? 16 : 8;
    for (int i = 0; i < run->n; i++) {
        int at = i * bits % 32, word = i * bits / 32;
        mxe_value item = mxe_zext(e, run->items[i], MXE_I32);
        codes->words[word] =
            at ? mxe_or(e, codes->words[word], mxe_shl(e, item, mxe_i32(e, at))) : item;
    }
}
