/* Numbers of the references: f32 by its bits, exact widening, narrowing to nearest even; and the
 * elements of a block between memory and f32. */
#ifndef MXRT_REFERENCE_NUMBERS_H
#define MXRT_REFERENCE_NUMBERS_H

#include <stdint.h>
#include <string.h>

#include <mxgen/format.h>

#define INLINE static inline __attribute__((always_inline))

#define F32_INF 0x7f800000u
#define F32_MAGNITUDE 0x7fffffffu
#define F32_BIAS 127

INLINE float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

INLINE uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* 2^exponent, for exponents of normal floats. */
INLINE float power_of_two(int exponent)
{
    return float_of((uint32_t)(exponent + F32_BIAS) << 23);
}

/* ---- Element types: all are widened to f32, exactly ---- */

/* `a` where the condition holds, else `b`. By masks, as the compiler does not compute floats under
 * a condition where they might trap, and loops over a block are to become vectors. */
INLINE uint32_t select_bits(int condition, uint32_t a, uint32_t b)
{
    uint32_t mask = 0u - (uint32_t)condition;

    return (a & mask) | (b & ~mask);
}

INLINE uint32_t f16_widen(uint32_t half)
{
    uint32_t sign = (half & 0x8000u) << 16, magnitude = half & 0x7fffu;
    uint32_t subnormal = bits_of((float)(int32_t)magnitude * 0x1p-24f);
    uint32_t normal = (magnitude << 13) + ((127u - 15u) << 23);
    uint32_t special = (magnitude << 13) | F32_INF;
    uint32_t finite = select_bits((int32_t)magnitude < 0x400, subnormal, normal);

    return sign | select_bits((int32_t)magnitude < 0x7c00, finite, special);
}

/* Round to nearest even; overflow goes to Inf. A NaN can only come from the same type: its bits are
 * kept. */
INLINE uint16_t f16_narrow(uint32_t bits)
{
    uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & F32_MAGNITUDE;
    int32_t m = (int32_t)magnitude;
    /* 0.5 has the spacing of the smallest f16: the sum rounds where f16 does. */
    uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
    uint32_t normal = (magnitude - ((127u - 15u) << 23) + 0xfffu + ((magnitude >> 13) & 1)) >> 13;
    uint32_t nan = 0x7c00u | (magnitude >> 13 & 0x3ffu);
    uint32_t finite = select_bits(m < 0x38800000, subnormal, normal);
    uint32_t special = select_bits(m > (int32_t)F32_INF, nan, 0x7c00u);

    return (uint16_t)(sign | select_bits(m < 0x47800000, finite, special));
}

INLINE uint16_t bf16_narrow(uint32_t bits)
{
    if ((bits & F32_MAGNITUDE) > F32_INF)
        return (uint16_t)(bits >> 16);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

/* ---- Elements of a block ---- */

#define MX_MOST_BLOCK_ELEMENTS 32

/* Fills bits[n] with `count` elements and zeros after them; n and dtype are constants of the
 * caller. */
INLINE void load_elements(const unsigned char *from, int64_t stride, int count, int n,
                          mx_dtype dtype, uint32_t *bits)
{
    uint16_t half[MX_MOST_BLOCK_ELEMENTS] = {0};

    if (dtype == MX_DTYPE_F32) {
        if (stride == 1 && count == n) {
            memcpy(bits, from, (size_t)n * sizeof(uint32_t));
            return;
        }
        for (int i = 0; i < n; i++)
            bits[i] = 0;
        for (int i = 0; i < count; i++)
            memcpy(&bits[i], from + (int64_t)i * stride * 4, 4);
        return;
    }
    if (stride == 1 && count == n) {
        memcpy(half, from, (size_t)n * sizeof(uint16_t));
    } else {
        for (int i = 0; i < count; i++)
            memcpy(&half[i], from + (int64_t)i * stride * 2, 2);
    }
    for (int i = 0; i < n; i++)
        bits[i] = dtype == MX_DTYPE_BF16 ? (uint32_t)half[i] << 16 : f16_widen(half[i]);
}

INLINE void store_elements(unsigned char *to, int64_t stride, int count, int n, mx_dtype dtype,
                           const uint32_t *bits)
{
    uint16_t half[MX_MOST_BLOCK_ELEMENTS];

    if (dtype == MX_DTYPE_F32) {
        if (stride == 1 && count == n) {
            memcpy(to, bits, (size_t)n * sizeof(uint32_t));
            return;
        }
        for (int i = 0; i < count; i++)
            memcpy(to + (int64_t)i * stride * 4, &bits[i], 4);
        return;
    }
    for (int i = 0; i < n; i++)
        half[i] = dtype == MX_DTYPE_BF16 ? bf16_narrow(bits[i]) : f16_narrow(bits[i]);
    if (stride == 1 && count == n) {
        memcpy(to, half, (size_t)n * sizeof(uint16_t));
        return;
    }
    for (int i = 0; i < count; i++)
        memcpy(to + (int64_t)i * stride * 2, &half[i], 2);
}

#endif
