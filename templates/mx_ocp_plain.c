/* The OCP formats where blocks that need care go apart (mx_goes_apart): what all others do. Their
 * scales are far enough from the ends that powers of two are added to exponents. */
#include "templates/mx_ocp.h"

enum {
    F32_SIGN = (int)0x80000000u,
    F32_MAGNITUDE = 0x7fffffff,
    F32_INF = 0x7f800000,
    LEAST_BYTE = 32, /* all of an element's numbers are normal in bf16 and f32 */
    MOST_BYTE = 208, /* what rounds them, too */
    NIBBLE_LOW = 2   /* 2^-2, up to which E2M1 is 0 */
};

bool mx_goes_apart(const mxe *e, const mx_shape *shape)
{
    return mx_format_is_ocp(shape->format) && !shape->options && shape->lanes == 1 &&
           e->simd_width > 1 && mxgen_target_has(e->target, MXGEN_CAP_APART);
}

/* ---- Two elements a word ---- */

static mxe_value twice(mxe *e, uint32_t half)
{
    return mxe_i32(e, half << 16 | half);
}

static bool has_words(const mxe *e, const mx_shape *shape)
{
    return shape->dtype == MX_DTYPE_BF16 && mxgen_target_has(e->target, MXGEN_CAP_SHORTS);
}

bool mx_ocp_by_shorts(const mxe *e, const mx_shape *shape)
{
    return has_words(e, shape) && shape->format == MX_FORMAT_MXFP4;
}

static mxe_value largest(mxe *e, const mx_shape *shape, const mxe_value *raw)
{
    mxe_value words[MX_MOST_ELEMENTS / 2] = {{0}};
    if (!has_words(e, shape)) {
        mxe_value most = mxe_i32(e, 0);
        for (int i = 0; i < shape->count; i++) {
            mxe_value bits = mxe_bitcast(e, mx_raw_to_f32(e, shape->dtype, raw[i]), MXE_I32);
            bits = mxe_and(e, bits, mxe_i32(e, F32_MAGNITUDE));
            most = i ? mxe_umax(e, most, bits) : bits;
        }
        return most;
    }
    mx_join_words(e, shape->dtype, raw, shape->count, words);
    for (int i = 0; i < shape->count / 2; i++)
        words[i] = mxe_and(e, words[i], twice(e, 0x7fff));
    return mx_ocp_largest_half(e, words, shape->count / 2);
}

/* E2M1 codes of two |x| / scale without their signs. `low` is scale / 4, up to which a code is 0,
 * and t counts the bits of bf16 from there on. From 1 on, where t is 0x100, codes are 0x40 apart up
 * to 6, 0x240; below are two steps, above 0.25 and, a tie that goes up, at 0.75, 0xc0. */
static mxe_value round_shorts(mxe *e, mxe_value words, mxe_value low)
{
    mxe_value size = mxe_and(e, words, twice(e, 0x7fff));
    mxe_value t = mxe_umin_u16x2(e, mxe_usub_u16x2(e, size, low), twice(e, 0x240));
    mxe_value odd = mxe_and(e, mxe_lshr(e, t, mxe_i32(e, 6)), twice(e, 1));
    /* 0x100 less, half a step and then 1 more: ties go to even. */
    mxe_value code = mxe_add(e, mxe_usub_u16x2(e, t, twice(e, 0xe1)), odd);
    code = mxe_lshr_u16x2(e, code, twice(e, 6));
    code = mxe_sub_u16x2(e, code, mxe_slt_u16x2(e, low, size));
    return mxe_sub_u16x2(e, code, mxe_slt_u16x2(e, twice(e, 0xbf), t));
}

void mx_ocp_encode_shorts(mxe *e, const mx_shape *shape, const mxe_value *raw, mx_codes *codes)
{
    mxe_value words[MX_MOST_ELEMENTS / 2], q[MX_MOST_ELEMENTS / 2];
    mxe_value least = mxe_umax(e, codes->header, mxe_i32(e, NIBBLE_LOW));
    mxe_value low = mxe_shl(e, mxe_sub(e, least, mxe_i32(e, NIBBLE_LOW)), mxe_i32(e, 7));
    low = mxe_or(e, low, mxe_shl(e, low, mxe_i32(e, 16)));
    mx_join_words(e, shape->dtype, raw, shape->count, words);
    for (int i = 0; i < shape->count / 2; i++) {
        mxe_value sign = mxe_and(e, mxe_lshr(e, words[i], mxe_i32(e, 12)), twice(e, 8));
        q[i] = mxe_or(e, round_shorts(e, words[i], low), sign);
    }
    for (int i = 0; i < shape->count / 2; i += 2) {
        /* Elements 0 and 2 in the low half, 1 and 3 in the high half, then below it. */
        mxe_value four = mxe_or(e, q[i], mxe_shl(e, q[i + 1], mxe_i32(e, 8)));
        four = mxe_or(e, four, mxe_lshr(e, four, mxe_i32(e, 12)));
        if (i % 4)
            codes->words[i / 4] = mxe_or(e, codes->words[i / 4], mxe_shl(e, four, mxe_i32(e, 16)));
        else
            codes->words[i / 4] = mxe_and(e, four, mxe_i32(e, 0xffff));
    }
}

/* ---- FP8 ---- */

/* A code without its sign, not limited, and with `lowest`'s bits that stand there more. */
static mxe_value byte_code(mxe *e, const mx_ocp_element *element, mxe_value y, int64_t lowest)
{
    int shift = 23 - element->mantissa_bits;
    mxe_value field = mxe_and(e, mxe_bitcast(e, y, MXE_I32), mxe_i32(e, F32_INF));
    field = mxe_umax(e, field, mxe_i32(e, lowest));
    mxe_value unit = mxe_add(e, field, mxe_i32(e, (int64_t)shift << 23));
    mxe_value sum = mxe_bitcast(e, mxe_fadd(e, y, mxe_bitcast(e, unit, MXE_F32)), MXE_I32);
    return mxe_add(e, mxe_sub(e, sum, unit), mxe_lshr(e, field, mxe_i32(e, shift)));
}

/* The signs of four elements at the top of bytes 0, 2, 1, 3. */
static mxe_value four_signs(mxe *e, const mx_shape *shape, const mxe_value *raw)
{
    mxe_value words[4], low, high;
    mx_join_words(e, shape->dtype, raw, 4, words);
    if (shape->dtype == MX_DTYPE_F32) {
        low = mxe_and(e, mxe_lshr(e, words[0], mxe_i32(e, 24)), mxe_i32(e, 0x80));
        low =
            mxe_or(e, low, mxe_and(e, mxe_lshr(e, words[1], mxe_i32(e, 8)), mxe_i32(e, 0x800000)));
        high = mxe_and(e, mxe_lshr(e, words[2], mxe_i32(e, 16)), mxe_i32(e, 0x8000));
        return mxe_or(e, low, mxe_or(e, high, mxe_and(e, words[3], mxe_i32(e, F32_SIGN))));
    }
    low = mxe_and(e, mxe_lshr(e, words[0], mxe_i32(e, 8)), twice(e, 0x80));
    return mxe_or(e, low, mxe_and(e, words[1], twice(e, 0x8000)));
}

bool mx_ocp_by_bytes(const mxe *e, const mx_shape *shape)
{
    return mxgen_target_has(e->target, MXGEN_CAP_SHORTS) &&
           (shape->format == MX_FORMAT_MXFP8_E4M3 || shape->format == MX_FORMAT_MXFP8_E5M2);
}

/* Four codes are put together, limited and given their signs at once. */
void mx_ocp_encode_bytes(mxe *e, const mx_shape *shape, const mxe_value *raw, mxe_value unscale,
                         mx_codes *codes)
{
    const mx_ocp_element *element = mx_ocp_element_get(shape->format);
    const int64_t each = 0x01010101, lowest = (int64_t)(128 - element->bias) << 23;
    mxe_value more = mxe_i32(e, each * (lowest >> (23 - element->mantissa_bits)));
    mxe_value most = mxe_i32(e, each * mx_format_get(shape->format)->code_max);
    for (int i = 0; i < shape->count; i += 4) {
        mxe_value c[4];
        for (int k = 0; k < 4; k++) {
            mxe_value x = mxe_bitcast(e, mx_raw_to_f32(e, shape->dtype, raw[i + k]), MXE_I32);
            x = mxe_and(e, x, mxe_i32(e, F32_MAGNITUDE));
            c[k] = byte_code(e, element, mxe_fmul(e, mxe_bitcast(e, x, MXE_F32), unscale), lowest);
        }
        mxe_value even = mxe_add(e, c[0], mxe_shl(e, c[1], mxe_i32(e, 16)));
        mxe_value odd = mxe_add(e, c[2], mxe_shl(e, c[3], mxe_i32(e, 16)));
        mxe_value word = mxe_add(e, even, mxe_shl(e, odd, mxe_i32(e, 8)));
        word = mxe_umin_u8x4(e, mxe_sub(e, word, more), most);
        word = mxe_or(e, word, four_signs(e, shape, raw + i));
        codes->words[i / 4] = mxe_swap_middle(e, word);
    }
}

/* ---- What needs care ---- */

mxe_value mx_encode_care(mxe *e, const mx_shape *shape, const mxe_value *raw, mx_codes *codes)
{
    mxe_value amax = largest(e, shape, raw);
    codes->header = mx_ocp_scale_byte(e, shape, amax);
    /* NaN and Inf have given a byte above these. */
    mxe_value above = mxe_sub(e, codes->header, mxe_i32(e, LEAST_BYTE));
    mxe_value outside = mxe_ult(e, mxe_i32(e, MOST_BYTE - LEAST_BYTE), above);
    return mxe_and(e, outside, mxe_ne(e, amax, mxe_i32(e, 0)));
}

/* ---- There and back ---- */

void mx_ocp_round_trip(mxe *e, const mx_shape *shape, const mxe_value *raw, mxe_value byte,
                       mxe_value *raw_out)
{
    const mx_ocp_element *element = mx_ocp_element_get(shape->format);
    bool floats = element->exponent_bits > 0;
    int64_t lowest = (int64_t)(127 + (floats ? 1 - element->bias : 0)) << 23;
    /* Blocks of zeros have any byte. */
    byte = mxe_smin(e, mxe_smax(e, byte, mxe_i32(e, LEAST_BYTE)), mxe_i32(e, MOST_BYTE));
    mxe_value shift = mxe_shl(e, mxe_sub(e, byte, mxe_i32(e, 127)), mxe_i32(e, 23));
    mxe_value most = mxe_add(e, shift, mxe_i32(e, element->max_bits));
    mxe_value least = mxe_add(e, shift, mxe_i32(e, lowest));
    /* MXINT8 has no -0: its numbers are added to with their signs, and half as much more. */
    mxe_value to_unit =
        mxe_i32(e, ((int64_t)(23 - element->mantissa_bits) << 23) + (floats ? 0 : 0x400000));
    for (int i = 0; i < shape->count; i++) {
        mxe_value bits = mxe_bitcast(e, mx_raw_to_f32(e, shape->dtype, raw[i]), MXE_I32);
        mxe_value size = mxe_and(e, bits, mxe_i32(e, F32_MAGNITUDE)), field = least;
        mxe_value sign = mxe_and(e, bits, mxe_i32(e, F32_SIGN));
        size = mxe_umin(e, size, most);
        if (floats)
            field = mxe_umax(e, mxe_and(e, size, mxe_i32(e, F32_INF)), least);
        else
            size = mxe_or(e, size, sign);
        /* A number whose last bit is that of the element times the scale: the sum rounds there. */
        mxe_value unit = mxe_bitcast(e, mxe_add(e, field, to_unit), MXE_F32);
        mxe_value sum = mxe_fadd(e, mxe_bitcast(e, size, MXE_F32), unit);
        mxe_value rounded = mxe_bitcast(e, mxe_fsub(e, sum, unit), MXE_I32);
        if (floats)
            rounded = mxe_or(e, rounded, sign);
        raw_out[i] = mx_f32_to_raw(e, shape->dtype, mxe_bitcast(e, rounded, MXE_F32));
    }
}
