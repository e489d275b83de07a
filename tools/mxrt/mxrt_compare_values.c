#include "mxrt_compare.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Arrays are gone through in pieces that stay in the cache. */
enum { PIECE = 2048 };

int compare_has_values(st_dtype dtype)
{
    return dtype <= ST_BOOL;
}

int64_t compare_unit_bytes(st_dtype dtype)
{
    int bits = st_dtype_bits(dtype);
    return bits < 8 ? 1 : bits / 8;
}

/* ---- As f64 ---- */

/* All exact, and the compiler makes vectors of the loops. */
static void widen_f32(const float *from, double *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (double)from[i];
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static void widen_bf16(const uint16_t *from, double *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (double)float_of((uint32_t)from[i] << 16);
}

/* Exponents differ by 112; what is not finite has its own. */
static void widen_f16(const uint16_t *from, double *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t sign = (uint32_t)(from[i] & 0x8000) << 16;
        uint32_t magnitude = (uint32_t)(from[i] & 0x7fff) << 13;
        double value = (double)float_of(magnitude | sign) * 0x1p112;
        double special = (double)float_of(magnitude | sign | 0x7f800000u);
        to[i] = magnitude < 0x0f800000u ? value : special;
    }
}

/* Integers, rounded where they have more than 53 bits. */
static double integer_value(st_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case ST_I64:
        return (double)((const int64_t *)data)[i];
    case ST_I32:
        return (double)((const int32_t *)data)[i];
    case ST_I16:
        return (double)((const int16_t *)data)[i];
    case ST_I8:
        return (double)((const int8_t *)data)[i];
    case ST_U64:
        return (double)((const uint64_t *)data)[i];
    case ST_U32:
        return (double)((const uint32_t *)data)[i];
    case ST_U16:
        return (double)((const uint16_t *)data)[i];
    default:
        return (double)((const uint8_t *)data)[i];
    }
}

static void widen(st_dtype dtype, const void *data, double *to, int64_t n)
{
    switch (dtype) {
    case ST_F64:
        memcpy(to, data, (size_t)n * sizeof(*to));
        return;
    case ST_F32:
        widen_f32(data, to, n);
        return;
    case ST_BF16:
        widen_bf16(data, to, n);
        return;
    case ST_F16:
        widen_f16(data, to, n);
        return;
    default:
        for (int64_t i = 0; i < n; i++)
            to[i] = integer_value(dtype, data, i);
        return;
    }
}

/* ---- Bits ---- */

/* Elements of `bytes` that differ; the compiler makes vectors of the loops. */
static int64_t count_changed(const void *a, const void *b, int64_t n, int64_t bytes)
{
    uint32_t changed = 0;
    switch (bytes) {
    case 1:
        for (int64_t i = 0; i < n; i++)
            changed += ((const uint8_t *)a)[i] != ((const uint8_t *)b)[i];
        break;
    case 2:
        for (int64_t i = 0; i < n; i++)
            changed += ((const uint16_t *)a)[i] != ((const uint16_t *)b)[i];
        break;
    case 4:
        for (int64_t i = 0; i < n; i++)
            changed += ((const uint32_t *)a)[i] != ((const uint32_t *)b)[i];
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            changed += ((const uint64_t *)a)[i] != ((const uint64_t *)b)[i];
        break;
    }
    return changed;
}

static uint64_t word_at(const unsigned char *from, int64_t left_bytes)
{
    uint64_t word = 0;
    memcpy(&word, from, left_bytes < 8 ? (size_t)left_bytes : 8);
    return word;
}

static void count_bits(compare_sums *sums, const unsigned char *a, const unsigned char *b,
                       int64_t n, int64_t bytes)
{
    if (!memcmp(a, b, (size_t)(n * bytes)))
        return;
    sums->changed += count_changed(a, b, n, bytes);
    for (int64_t at = 0; at < n * bytes; at += 8) {
        int64_t left = n * bytes - at;
        sums->changed_bits += __builtin_popcountll(word_at(a + at, left) ^ word_at(b + at, left));
    }
}

/* ---- Values ---- */

/* Where x is NaN or infinite. */
static int is_odd(double x)
{
    return !(fabs(x) <= DBL_MAX);
}

static int64_t count_odd(const double *a, const double *b, int64_t n)
{
    int64_t odd = 0;
    for (int64_t i = 0; i < n; i++)
        odd += (is_odd(a[i]) || is_odd(b[i])) && !(isnan(a[i]) && isnan(b[i])) && a[i] != b[i];
    return odd;
}

/* Sums in lanes, so that vector units can add them in this order. What is not finite has been made
 * zero. */
static void add_finite(compare_sums *sums, const double *a, const double *b, int64_t n)
{
    enum { LANES = 4 };
    double signal[LANES] = {0}, noise[LANES] = {0}, most[LANES] = {0};
    for (int64_t i = 0; i + LANES <= n; i += LANES) {
        for (int k = 0; k < LANES; k++) {
            double error = fabs(a[i + k] - b[i + k]);
            signal[k] += a[i + k] * a[i + k];
            noise[k] += error * error;
            most[k] = error > most[k] ? error : most[k];
        }
    }
    for (int64_t i = n - n % LANES; i < n; i++) {
        double error = fabs(a[i] - b[i]);
        signal[0] += a[i] * a[i];
        noise[0] += error * error;
        most[0] = error > most[0] ? error : most[0];
    }
    for (int k = 0; k < LANES; k++) {
        sums->signal += signal[k];
        sums->noise += noise[k];
        sums->max_error = fmax(sums->max_error, most[k]);
    }
}

static void add_values(compare_sums *sums, double *a, double *b, int64_t n)
{
    int64_t odd = 0;
    for (int64_t i = 0; i < n; i++)
        odd += is_odd(a[i]) | is_odd(b[i]);
    if (odd) {
        sums->not_finite += count_odd(a, b, n);
        for (int64_t i = 0; i < n; i++) {
            if (is_odd(a[i]) || is_odd(b[i]))
                a[i] = b[i] = 0;
        }
    }
    add_finite(sums, a, b, n);
}

/* Values of different types: one NaN is as good as another. */
static int64_t count_unequal(const double *a, const double *b, int64_t n)
{
    int64_t changed = 0;
    for (int64_t i = 0; i < n; i++)
        changed += a[i] != b[i] && !(isnan(a[i]) && isnan(b[i]));
    return changed;
}

void compare_add(compare_sums *sums, st_dtype a_type, const void *a, st_dtype b_type, const void *b,
                 int64_t n)
{
    double x[PIECE], y[PIECE];
    int values = compare_has_values(a_type);
    int64_t a_bytes = compare_unit_bytes(a_type), b_bytes = compare_unit_bytes(b_type);
    sums->elements += n;
    for (int64_t at = 0; at < n; at += PIECE) {
        int64_t part = n - at < PIECE ? n - at : PIECE;
        const unsigned char *pa = (const unsigned char *)a + at * a_bytes;
        const unsigned char *pb = (const unsigned char *)b + at * b_bytes;
        if (a_type == b_type)
            count_bits(sums, pa, pb, part, a_bytes);
        if (!values)
            continue;
        widen(a_type, pa, x, part);
        widen(b_type, pb, y, part);
        if (a_type != b_type)
            sums->changed += count_unequal(x, y, part);
        add_values(sums, x, y, part);
    }
}

void compare_add_sums(compare_sums *total, const compare_sums *sums)
{
    total->elements += sums->elements;
    total->changed += sums->changed;
    total->changed_bits += sums->changed_bits;
    total->not_finite += sums->not_finite;
    total->signal += sums->signal;
    total->noise += sums->noise;
    total->max_error = fmax(total->max_error, sums->max_error);
}

double compare_decibels(const compare_sums *sums)
{
    return sums->noise > 0 ? 10 * log10(sums->signal / sums->noise) : (double)INFINITY;
}
