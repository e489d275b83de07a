#include <math.h>
#include <string.h>

#include "tests/conform_engine.h"

enum { N = MX_BLOCK_ELEMENTS };

/* The fields of an element type. */
typedef struct fields {
    int bytes, mantissa_bits;
    uint32_t sign, max_field; /* the exponent field of Inf and NaN */
    int bias;
} fields;

static fields fields_of(mx_dtype dtype)
{
    const mx_dtype_info *info = mx_dtype_get(dtype);
    fields f = {info->bytes, info->mantissa_bits, 1u << (8 * info->bytes - 1), 0,
                info->exponent_bias};
    f.max_field = (uint32_t)(2 * info->exponent_bias + 1);
    return f;
}

const char *conform_values_name(int values)
{
    static const char *const names[] = {"clamp", "exponents", "alone", "near", "mixed"};
    if (values < MX_VALUES_COUNT)
        return mx_values_name((mx_values)values);
    return values < CONFORM_VALUES_COUNT ? names[values - MX_VALUES_COUNT] : "unknown";
}

static uint32_t rounded(mx_dtype dtype, float value)
{
    uint32_t bits;
    if (dtype == MX_DTYPE_BF16)
        return mx_case_f32_to_bf16(value);
    if (dtype == MX_DTYPE_F16)
        return mx_case_f32_to_f16(value);
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static uint32_t edge_mantissa(const fields *f, uint64_t random)
{
    uint32_t all = (1u << f->mantissa_bits) - 1, half = 1u << (f->mantissa_bits - 1);
    const uint32_t edges[] = {0, 1, half - 1, half, half + 1, all, all - 1};
    uint32_t choice = (uint32_t)(random >> 32) & 15;
    return choice < sizeof(edges) / sizeof(edges[0]) ? edges[choice] : (uint32_t)random & all;
}

/* An element whose exponent field is up to `most` below `field`; now and then Inf or NaN. */
static uint32_t below(const fields *f, uint32_t field, unsigned most, uint64_t random)
{
    uint32_t sign = random >> 63 ? f->sign : 0, down = (uint32_t)(random >> 48 & 0xff) % (most + 1);
    if ((random >> 56 & 0x7f) == 5)
        field = f->max_field;
    else
        field = field > down ? field - down : 0;
    return sign | field << f->mantissa_bits | edge_mantissa(f, random);
}

static void clamp_block(const fields *f, mx_format format, mx_dtype dtype, int64_t block,
                        uint64_t *state, uint32_t bits[N])
{
    const mx_format_info *info = mx_format_get(format);
    uint32_t field = 1 + (uint32_t)((uint64_t)block % (f->max_field - 1));
    int scale = (int)field - f->bias - info->code_bits + 2;
    for (int p = 0; p < N / 2; p++) {
        int demoted = (int)(mx_case_random(state) & 1);
        for (int i = 2 * p; i < 2 * p + 2; i++) {
            uint64_t random = mx_case_random(state);
            int code = (int)(random >> 8 & 0xff) % (info->code_max + 2);
            if (random >> 16 & 1) /* what rounds to the clamp, or just not */
                code = info->code_max - (int)(random >> 17 & 1);
            float value = (float)ldexp(code + 0.5, scale - demoted);
            bits[i] = rounded(dtype, random & 1 ? -value : value);
            bits[i] += (uint32_t)(random >> 1 & 3) % 3; /* -1, 0 or +1 unit */
            bits[i] -= bits[i] & ~f->sign ? 1 : 0;
        }
    }
    bits[(uint64_t)block / (f->max_field - 1) % N] =
        field << f->mantissa_bits | (mx_case_random(state) & 1 ? f->sign : 0);
}

/* Pattern number `index`: all of a 16-bit type; of f32 the edges of every exponent, then any. */
static uint32_t pattern(const fields *f, uint64_t index, uint64_t random)
{
    if (f->bytes == 2)
        return (uint32_t)index & 0xffff;
    if (index >= 512 * 8)
        return (uint32_t)random;
    return (uint32_t)index << 23 | edge_mantissa(f, (index >> 9) << 32 | (random & 0xffffffff));
}

static void pattern_block(const conform_source *source, const fields *f, int64_t block,
                          uint64_t *state, uint32_t bits[N])
{
    if (source->values == CONFORM_MIXED) {
        /* Odd multipliers permute the patterns, differently at each position. */
        for (uint64_t i = 0; i < N; i++)
            bits[i] = f->bytes == 2
                          ? (uint32_t)((uint64_t)block * (2 * (source->seed + i) + 1) + i) & 0xffff
                          : (uint32_t)mx_case_random(state);
        return;
    }
    uint32_t subject = pattern(f, (uint64_t)block, mx_case_random(state));
    uint32_t field = (subject & ~f->sign) >> f->mantissa_bits;
    for (int i = 0; i < N; i++) {
        uint64_t random = mx_case_random(state);
        if (source->values == CONFORM_ALONE) {
            bits[i] = random & 1 ? f->sign : 0;
            continue;
        }
        /* Up to two powers above, or many below. */
        uint32_t up = field + (uint32_t)(random >> 40 & 0xff) % 16;
        up = up > field + 2 ? field : up;
        bits[i] = below(f, up < f->max_field ? up : f->max_field - 1, 10, random);
    }
    bits[source->position] = subject;
}

static void store_block(const fields *f, const uint32_t bits[N], void *elements, int64_t block)
{
    for (int i = 0; i < N; i++) {
        if (f->bytes == 4)
            ((uint32_t *)elements)[block * N + i] = bits[i];
        else
            ((uint16_t *)elements)[block * N + i] = (uint16_t)bits[i];
    }
}

void conform_fill_plain(const conform_source *source, mx_format format, mx_dtype dtype,
                        void *elements, int64_t n_blocks)
{
    fields f = fields_of(dtype);
    uint64_t state = source->seed;
    if (source->values < MX_VALUES_COUNT) {
        mx_case_fill((mx_values)source->values, source->seed, dtype, elements, n_blocks * N);
        return;
    }
    for (int64_t block = 0; block < n_blocks; block++) {
        uint32_t bits[N];
        if (source->values == CONFORM_CLAMP) {
            clamp_block(&f, format, dtype, block, &state, bits);
        } else if (source->values == CONFORM_EXPONENTS) {
            for (int i = 0; i < N; i++)
                bits[i] = below(&f, (uint32_t)((uint64_t)block % f.max_field),
                                (unsigned)(block & 1 ? 4 : 12), mx_case_random(&state));
        } else {
            pattern_block(source, &f, block, &state, bits);
        }
        store_block(&f, bits, elements, block);
    }
}

void conform_fill_packed(const conform_source *source, mx_format format, mx_dtype dtype,
                         unsigned char *records, int64_t n_blocks)
{
    int bytes = mx_format_get(format)->block_bytes, bias = mx_dtype_get(dtype)->exponent_bias;
    uint64_t state = source->seed;
    int64_t start = (int64_t)(mx_case_random(&state) & 0xffff);
    for (int64_t block = 0; block < n_blocks; block++) {
        unsigned char *record = records + block * bytes;
        uint64_t random = mx_case_random(&state);
        record[0] = (unsigned char)(block + start);
        record[1] = (unsigned char)((block + start) >> 8);
        if (n_blocks < 65536) {
            record[1] = (unsigned char)random;
            if (random >> 8 & 1)
                record[0] = (unsigned char)(127 - bias + (int)(random >> 16 & 0xff) % (2 * bias));
        }
        for (int i = 2; i < bytes; i++)
            record[i] = (unsigned char)(mx_case_random(&state) >> 20);
    }
}
