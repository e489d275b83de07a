/* Bit patterns of the number formats, and lane masks. */
#ifndef SIM_BITS_H
#define SIM_BITS_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float u2f(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static inline uint32_t f2u(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static inline double u2d(uint64_t u)
{
    double d;
    memcpy(&d, &u, 8);
    return d;
}

static inline uint64_t d2u(double d)
{
    uint64_t u;
    memcpy(&u, &d, 8);
    return u;
}

/* Binary16, in the rounding mode of MXCSR. */
static inline uint16_t f2h(float f)
{
    __m128i h = _mm_cvtps_ph(_mm_set_ss(f), _MM_FROUND_CUR_DIRECTION);
    return (uint16_t)_mm_cvtsi128_si32(h);
}

static inline float h2f(uint32_t h)
{
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128((int)(h & 0xffff))));
}

/* To single with the inexact bit kept in the last place, so that one more rounding is exact. */
static inline float d2f_odd(double d)
{
    float f = (float)d;
    uint32_t u = f2u(f);
    double back = (double)f;
    if (back != d && d == d) {
        if ((back > d) == (d > 0))
            u--;
        u |= 1;
        if (f - f != 0) /* overflow: the largest finite number, odd */
            u = (f2u(f) & 0x80000000u) | 0x7f7fffffu;
        if (d != 0 && (f2u(f) & 0x7fffffff) == 0)
            u = (d < 0 ? 0x80000000u : 0) | 1;
    }
    return u2f(u);
}

static inline uint16_t d2h(double d)
{
    return f2h(d2f_odd(d));
}

static inline uint32_t f2bf(float f)
{
    uint32_t u = f2u(f);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (u >> 16) | 0x40;
    return (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

static inline float bf2f(uint32_t b)
{
    return u2f(b << 16);
}

/* 0 or ~0 per lane for eight mask bits. */
static inline __m256i mask8(uint32_t bits)
{
    const __m256i sel = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    __m256i b = _mm256_set1_epi32((int)bits);
    return _mm256_cmpeq_epi32(_mm256_and_si256(b, sel), sel);
}

/* Lane values of 16-bit floats as singles and back. */
static inline void halves_to_float(float *restrict d, const uint32_t *restrict s, int n)
{
    const __m256i low = _mm256_set1_epi32(0xffff);
    for (int i = 0; i < (n & 96); i += 8) {
        __m256i x = _mm256_and_si256(_mm256_loadu_si256((const __m256i *)(s + i)), low);
        __m128i p = _mm_packus_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
        _mm256_storeu_ps(d + i, _mm256_cvtph_ps(p));
    }
}

static inline void float_to_halves(uint32_t *restrict d, const float *restrict s, int n)
{
    for (int i = 0; i < (n & 96); i += 8) {
        __m128i p = _mm256_cvtps_ph(_mm256_loadu_ps(s + i), _MM_FROUND_CUR_DIRECTION);
        _mm256_storeu_si256((__m256i *)(d + i), _mm256_cvtepu16_epi32(p));
    }
}

/* Small float formats; sim_small.c. */
enum small_fmt { FMT_E4M3, FMT_E5M2, FMT_E4M3_FNUZ, FMT_E5M2_FNUZ, FMT_E2M3, FMT_E3M2, FMT_E2M1 };
float small_to_float(uint32_t bits, int fmt);
/* Round to nearest even; `sat`: overflow and infinity become the largest finite value. */
uint32_t small_from_float(float f, int fmt, int sat);
/* Stochastic: `random` fills the 32 bits below the kept mantissa. */
uint32_t small_from_float_sr(float f, int fmt, int sat, uint32_t random);
int small_bits(int fmt);

#endif
