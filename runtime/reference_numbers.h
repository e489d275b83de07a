/* Numbers of the references: f32 by its bits, exact widening, narrowing to nearest even. */
#ifndef MXRT_REFERENCE_NUMBERS_H
#define MXRT_REFERENCE_NUMBERS_H

#include <stdint.h>
#include <string.h>

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

INLINE uint32_t f16_widen(uint32_t half)
{
    uint32_t sign = (half & 0x8000u) << 16, magnitude = half & 0x7fffu;
    uint32_t subnormal = bits_of((float)(int32_t)magnitude * 0x1p-24f);
    uint32_t normal = (magnitude << 13) + ((127u - 15u) << 23);
    uint32_t special = (magnitude << 13) | F32_INF;

    return sign | (magnitude < 0x400u ? subnormal : magnitude < 0x7c00u ? normal : special);
}

/* Round to nearest even; overflow goes to Inf. A NaN can only come from the same type: its bits are
 * kept. */
INLINE uint16_t f16_narrow(uint32_t bits)
{
    uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & F32_MAGNITUDE;
    /* 0.5 has the spacing of the smallest f16: the sum rounds where f16 does. */
    uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
    uint32_t normal = (magnitude - ((127u - 15u) << 23) + 0xfffu + ((magnitude >> 13) & 1)) >> 13;
    uint32_t result = magnitude < 0x38800000u   ? subnormal
                      : magnitude < 0x47800000u ? normal
                      : magnitude > F32_INF     ? 0x7c00u | (magnitude >> 13 & 0x3ffu)
                                                : 0x7c00u;

    return (uint16_t)(sign | result);
}

INLINE uint16_t bf16_narrow(uint32_t bits)
{
    if ((bits & F32_MAGNITUDE) > F32_INF)
        return (uint16_t)(bits >> 16);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

#endif
