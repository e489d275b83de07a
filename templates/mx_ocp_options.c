/* The OCP formats with every option: what kernels for the options that cost nothing leave out. */
#include "templates/mx_ocp.h"

static mxe_value is_set(mxe *e, const char *option)
{
    return mxe_ne(e, mxe_param(e, option), mxe_i32(e, 0));
}

/* ---- Rotation ---- */

static mxe_value as_float(mxe *e, mxe_value bits)
{
    return mxe_bitcast(e, bits, MXE_F32);
}

/* H v / 4 in the order of operations that mxgen/ocp.h gives. */
static void rotate_half(mxe *e, mxe_value *v)
{
    for (int distance = 1; distance < 16; distance *= 2) {
        for (int i = 0; i < 16; i++) {
            if (i & distance)
                continue;
            mxe_value a = v[i], b = v[i + distance];
            mxe_value minus =
                mxe_xor(e, mxe_bitcast(e, b, MXE_I32), mxe_i32(e, (int64_t)0x80000000));
            v[i] = mxe_fadd(e, a, b);
            v[i + distance] = mxe_fadd(e, a, as_float(e, minus));
        }
    }
    for (int i = 0; i < 16; i++)
        v[i] = mxe_fmul(e, v[i], mxe_f32(e, 0.25f));
}

void mx_ocp_rotate(mxe *e, mxe_value when, int count, mxe_value *bits)
{
    mxe_var rotated[MX_MOST_ELEMENTS];
    mxe_value v[MX_MOST_ELEMENTS];
    mxe_branch branch;
    for (int i = 0; i < count; i++)
        rotated[i] = mxe_var_new(e, bits[i]);
    mxe_if_begin(e, &branch, when);
    for (int i = 0; i < count; i++)
        v[i] = as_float(e, bits[i]);
    for (int i = 0; i < count; i += 16)
        rotate_half(e, v + i);
    for (int i = 0; i < count; i++)
        mxe_var_set(e, rotated[i], mxe_bitcast(e, v[i], MXE_I32));
    mxe_if_end(e, &branch);
    for (int i = 0; i < count; i++)
        bits[i] = mxe_var_get(e, rotated[i]);
}

/* ---- Stochastic rounding ---- */

/* The two halves of a 64-bit product. */
static void multiply(mxe *e, mxe_value a, uint32_t b, mxe_value *low, mxe_value *high)
{
    mxe_value product = mxe_mul(e, mxe_zext(e, a, MXE_I64), mxe_i64(e, b));
    *low = mxe_zext(e, product, MXE_I32);
    *high = mxe_zext(e, mxe_lshr(e, product, mxe_i64(e, 32)), MXE_I32);
}

/* Philox4x32-10 of J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011. */
static void philox(mxe *e, mxe_value counter, mxe_value c[4])
{
    mxe_value key[2] = {mxe_zext(e, mxe_param(e, "seed_low"), MXE_I32),
                        mxe_zext(e, mxe_param(e, "seed_high"), MXE_I32)};
    c[0] = mxe_zext(e, counter, MXE_I32);
    c[1] = mxe_zext(e, mxe_lshr(e, counter, mxe_i64(e, 32)), MXE_I32);
    c[2] = c[3] = mxe_varying(e, mxe_i32(e, 0));
    for (int round = 0; round < 10; round++) {
        mxe_value a_low, a_high, b_low, b_high;
        multiply(e, c[0], 0xd2511f53u, &a_low, &a_high);
        multiply(e, c[2], 0xcd9e8d57u, &b_low, &b_high);
        c[0] = mxe_xor(e, mxe_xor(e, b_high, c[1]), key[0]);
        c[2] = mxe_xor(e, mxe_xor(e, a_high, c[3]), key[1]);
        c[1] = b_low;
        c[3] = a_low;
        key[0] = mxe_add(e, key[0], mxe_i32(e, 0x9e3779b9));
        key[1] = mxe_add(e, key[1], mxe_i32(e, 0xbb67ae85));
    }
}

/* From |y|, which is not above max_normal: adds random bits below the last mantissa bit and cuts
 * off. */
static mxe_value round_random(mxe *e, const mx_ocp_element *element, mxe_value y, mxe_value random)
{
    int m = element->mantissa_bits, shift = 23 - m;
    if (!element->exponent_bits) {
        /* One exponent: 2 + |y| has a spacing of 2^-22. */
        mxe_value sum = mxe_fadd(e, as_float(e, y), mxe_f32(e, 2.0f));
        sum = mxe_add(e, mxe_bitcast(e, sum, MXE_I32), mxe_lshr(e, random, mxe_i32(e, m + 10)));
        return mxe_sub(e, mxe_lshr(e, sum, mxe_i32(e, shift - 1)),
                       mxe_i32(e, 0x40000000 >> (shift - 1)));
    }
    int64_t lowest = (int64_t)(128 - element->bias) << 23;
    mxe_value least = as_float(e, mxe_i32(e, lowest));
    mxe_value lifted = mxe_bitcast(e, mxe_fadd(e, as_float(e, y), least), MXE_I32);
    mxe_value is_low = mxe_ult(e, y, mxe_i32(e, lowest));
    mxe_value sum =
        mxe_add(e, mxe_select(e, is_low, lifted, y), mxe_lshr(e, random, mxe_i32(e, m + 9)));
    mxe_value one = mxe_select(e, is_low, mxe_i32(e, 0), mxe_i32(e, 1LL << m));
    return mxe_add(e, mxe_sub(e, mxe_lshr(e, sum, mxe_i32(e, shift)), mxe_i32(e, lowest >> shift)),
                   one);
}

static void round_stochastic(mxe *e, const mx_shape *shape, const mxe_value *y, mxe_var *q)
{
    const mx_ocp_element *element = mx_ocp_element_get(shape->format);
    mxe_value most = mxe_i32(e, element->max_bits), random[4];
    for (int i = 0; i < shape->count; i++) {
        if (i % 4 == 0)
            philox(e, mxe_add(e, shape->position, mxe_i64(e, i / 4)), random);
        mxe_value code = round_random(e, element, mxe_umin(e, y[i], most), random[i % 4]);
        code = mxe_umin(e, code, mxe_i32(e, mx_format_get(shape->format)->code_max));
        mxe_var_set(e, q[i], code);
    }
}

/* ---- Rounding ---- */

void mx_ocp_round_any(mxe *e, const mx_shape *shape, const mxe_value *size, mxe_value unscale,
                      mxe_value *sign, mxe_value *q)
{
    const mx_ocp_element *element = mx_ocp_element_get(shape->format);
    mx_format format = shape->format;
    bool is_fp8 = format == MX_FORMAT_MXFP8_E4M3 || format == MX_FORMAT_MXFP8_E5M2;
    mxe_value y[MX_MOST_ELEMENTS], none = mxe_i32(e, 0);
    mxe_var code[MX_MOST_ELEMENTS];
    mxe_branch branch;
    for (int i = 0; i < shape->count; i++) {
        mxe_value product = mxe_fmul(e, as_float(e, size[i]), unscale);
        y[i] = mxe_bitcast(e, product, MXE_I32);
        code[i] = mxe_var_new(e, mx_ocp_round_nearest(e, element, product, mxe_param(e, "tie")));
    }
    mxe_if_begin(e, &branch, is_set(e, "stochastic"));
    round_stochastic(e, shape, y, code);
    mxe_if_end(e, &branch);
    for (int i = 0; i < shape->count; i++) {
        q[i] = mxe_var_get(e, code[i]);
        mxe_value beyond =
            mxe_and(e, mxe_ult(e, mxe_i32(e, element->max_bits), y[i]), is_set(e, "overflow"));
        if (is_fp8)
            q[i] = mxe_select(e, beyond, mxe_i32(e, format == MX_FORMAT_MXFP8_E4M3 ? 0x7f : 0x7c),
                              q[i]);
        mxe_value unsign = mxe_and(e, mxe_eq(e, q[i], none), is_set(e, "plus_zero"));
        sign[i] = mxe_select(e, unsign, none, sign[i]);
    }
}
