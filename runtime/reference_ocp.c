/* The OCP formats (mxgen/ocp.h) in plain C. */
#include "runtime/reference.h"

#include "runtime/reference_numbers.h"

enum { N = MX_OCP_BLOCK, NAN_SCALE = 255, MOST_SCALE = 254 };

static const uint32_t canonical_nan = 0x7fc00000u;

/* ---- Elements ---- */

/* H v / 4 in the order of operations that mxgen/ocp.h gives. */
static void rotate_half(uint32_t bits[16])
{
    float v[16];

    for (int i = 0; i < 16; i++)
        v[i] = float_of(bits[i]);
    for (int distance = 1; distance < 16; distance *= 2) {
        for (int i = 0; i < 16; i++) {
            float a = v[i];
            if (i & distance)
                continue;
            v[i] = a + v[i + distance];
            v[i + distance] = a - v[i + distance];
        }
    }
    for (int i = 0; i < 16; i++)
        bits[i] = bits_of(v[i] * 0.25f);
}

static int elements_in_block(const mxrt_problem *problem, int64_t k)
{
    int64_t left = problem->len - k * N;
    return left < N ? (int)left : N;
}

/* The elements of a block as f32, zeros past the end of the row, rotated where that is asked for.
 */
static void load_block(const mxrt_problem *problem, int64_t row_begin, int64_t k, uint32_t bits[N])
{
    const int64_t stride = problem->x_axis_stride;
    int64_t at = row_begin + k * N * stride;
    const unsigned char *x =
        problem->buffers[MXRT_BUFFER_X].data + at * mx_dtype_get(problem->dtype)->bytes;
    int count = elements_in_block(problem, k);

    if (problem->dtype == MX_DTYPE_F32)
        load_elements(x, stride, count, N, MX_DTYPE_F32, bits);
    else if (problem->dtype == MX_DTYPE_BF16)
        load_elements(x, stride, count, N, MX_DTYPE_BF16, bits);
    else
        load_elements(x, stride, count, N, MX_DTYPE_F16, bits);
    for (int i = 0; problem->options.hadamard && i < N; i += 16)
        rotate_half(bits + i);
}

static void store_block(const mxrt_problem *problem, int64_t row_begin, int64_t k,
                        const uint32_t bits[N])
{
    const int64_t stride = problem->y_axis_stride;
    int64_t at = row_begin + k * N * stride;
    unsigned char *y =
        problem->buffers[MXRT_BUFFER_Y].data + at * mx_dtype_get(problem->dtype)->bytes;
    int count = elements_in_block(problem, k);

    if (problem->dtype == MX_DTYPE_F32)
        store_elements(y, stride, count, N, MX_DTYPE_F32, bits);
    else if (problem->dtype == MX_DTYPE_BF16)
        store_elements(y, stride, count, N, MX_DTYPE_BF16, bits);
    else
        store_elements(y, stride, count, N, MX_DTYPE_F16, bits);
}

/* ---- Scales ---- */

/* Largest magnitude that is no NaN, as f32 bits; *nan is set if there is one. Signed numbers, as
 * all of these are positive and vector units compare those. */
static uint32_t largest(const uint32_t bits[N], uint32_t least, int *nan)
{
    int32_t most = (int32_t)least, worst = 0;

    for (int i = 0; i < N; i++) {
        int32_t magnitude = (int32_t)(bits[i] & F32_MAGNITUDE);
        int32_t number = magnitude > (int32_t)F32_INF ? 0 : magnitude;
        worst = magnitude > worst ? magnitude : worst;
        most = number > most ? number : most;
    }
    *nan |= worst > (int32_t)F32_INF;
    return (uint32_t)most;
}

/* floor(log2) of a positive number; *rest is what its mantissa (24 bits, the first one set) has
 * below the first bit. */
static int log2_floor(uint32_t bits, uint32_t *rest)
{
    int exponent = (int)(bits >> 23) - F32_BIAS;
    uint32_t mantissa = bits & 0x7fffffu;

    if (bits >> 23 == 0) {
        exponent = 1 - F32_BIAS;
        while (!(mantissa & 0x800000u)) {
            mantissa <<= 1;
            exponent--;
        }
    }
    *rest = mantissa & 0x7fffffu;
    return exponent;
}

/* The byte before its limits. */
static int scale_of(uint32_t amax, mx_scale_rule rule, const mx_ocp_element *element)
{
    uint32_t rest, most_rest = element->max_bits & 0x7fffffu;
    uint32_t half_unit = 1u << (22 - element->mantissa_bits);

    if (rule == MX_SCALE_EVEN)
        return (int)((amax + half_unit) >> 23) - element->emax;
    if (amax == F32_INF)
        return MOST_SCALE;
    int exponent = log2_floor(amax, &rest) + F32_BIAS - element->emax;
    if (rule == MX_SCALE_FLOOR)
        return exponent;
    return exponent + (rest > (rule == MX_SCALE_CEIL ? 0 : most_rest));
}

static int limited_scale(const mxrt_problem *problem, uint32_t amax)
{
    const mx_ocp_options *options = &problem->options;
    uint32_t least = bits_of(options->min_amax + 0.0f); /* -0 is no limit either */

    if (!amax)
        return options->zero_byte;
    amax = amax < least ? least : amax;
    int byte = scale_of(amax, options->scale_rule, mx_ocp_element_get(problem->format));
    byte = byte > options->min_byte ? byte : options->min_byte;
    return byte < MOST_SCALE ? byte : MOST_SCALE;
}

static int scale_byte(const mxrt_problem *problem, uint32_t amax, int nan)
{
    return nan && problem->options.nan_scale ? NAN_SCALE : limited_scale(problem, amax);
}

/* Of the tile of blocks k in rows first .. end-1. */
static int tile_scale(const mxrt_problem *problem, int64_t first, int64_t end, int64_t k)
{
    uint32_t amax = 0, bits[N];
    int nan = 0;

    for (int64_t row = first; row < end; row++) {
        load_block(problem, mxrt_row_begin(problem, row).x, k, bits);
        amax = largest(bits, amax, &nan);
    }
    return scale_byte(problem, amax, nan);
}

/* The place of a block's scale; rows that are not a tile's first share that of the first. */
static unsigned char *scale_at(const mxrt_problem *problem, int64_t row, int64_t k)
{
    if (problem->options.two_d) {
        int64_t tiles = (problem->tile_m + N - 1) / N;
        row = row / problem->tile_m * tiles + row % problem->tile_m / N;
    }
    return problem->buffers[MXRT_BUFFER_S].data + row * problem->s_row_stride +
           k * problem->s_block_stride;
}

/* ---- Stochastic rounding ---- */

/* The random words of a block: Philox4x32-10 of J. K. Salmon et al., "Parallel random numbers: as
 * easy as 1, 2, 3", 2011, for its eight counters side by side. */
static void randomise(const mxrt_problem *problem, int64_t block, uint32_t words[N])
{
    enum { LANES = N / 4 };
    uint64_t seed = problem->options.seed, counter = (uint64_t)block * LANES;
    uint32_t c[4][LANES] = {{0}}, key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};

    for (int i = 0; i < LANES; i++) {
        c[0][i] = (uint32_t)(counter + (uint64_t)i);
        c[1][i] = (uint32_t)((counter + (uint64_t)i) >> 32);
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < LANES; i++) {
            uint64_t a = (uint64_t)0xd2511f53u * c[0][i], b = (uint64_t)0xcd9e8d57u * c[2][i];
            c[0][i] = (uint32_t)(b >> 32) ^ c[1][i] ^ key[0];
            c[1][i] = (uint32_t)b;
            c[2][i] = (uint32_t)(a >> 32) ^ c[3][i] ^ key[1];
            c[3][i] = (uint32_t)a;
        }
        key[0] += 0x9e3779b9u;
        key[1] += 0xbb67ae85u;
    }
    for (int i = 0; i < N; i++)
        words[i] = c[i % 4][i / 4];
}

/* ---- Codes ----
 *
 * Loops over a block whose bodies have no branches, written once and inlined for each format, so
 * that the compiler makes vectors of them. */

/* Codes' magnitudes from |y|. What is above max_normal gives anything. */
INLINE void round_nearest(const uint32_t y[N], int up, mx_format format, uint32_t codes[N])
{
    const mx_ocp_element *element = mx_ocp_element_get(format);
    const int m = element->mantissa_bits;
    const int32_t lowest = F32_BIAS + (element->exponent_bits ? 1 - element->bias : 0);

    for (int i = 0; i < N; i++) {
        /* A bit below all that counts makes a tie no tie. */
        uint32_t tied = y[i] | (uint32_t)up;
        int32_t field = (int32_t)(y[i] >> 23);
        field = field > lowest && element->exponent_bits ? field : lowest;
        /* A number whose last bit is the element's last bit: the sum rounds there. */
        uint32_t unit = (uint32_t)(field + 23 - m) << 23;
        codes[i] =
            bits_of(float_of(tied) + float_of(unit)) - unit + ((uint32_t)(field - lowest) << m);
    }
}

INLINE void round_stochastic(const uint32_t y[N], const uint32_t random[N], mx_format format,
                             uint32_t codes[N])
{
    const mx_ocp_element *element = mx_ocp_element_get(format);
    const int m = element->mantissa_bits, shift = 23 - m;
    const uint32_t lowest = (uint32_t)(F32_BIAS + 1 - element->bias) << 23;

    if (!element->exponent_bits) {
        /* One exponent: 2 + |y| has a spacing of 2^-22. */
        for (int i = 0; i < N; i++) {
            uint32_t sum = bits_of(float_of(y[i]) + 2.0f) + (random[i] >> (m + 10));
            codes[i] = (sum >> (shift - 1)) - (0x40000000u >> (shift - 1));
        }
        return;
    }
    for (int i = 0; i < N; i++) {
        uint32_t part = random[i] >> (m + 9), small = bits_of(float_of(y[i]) + float_of(lowest));
        uint32_t normal = ((y[i] + part) >> shift) + (1u << m);
        codes[i] = select_bits((int32_t)y[i] >= (int32_t)lowest, normal, (small + part) >> shift) -
                   (lowest >> shift);
    }
}

/* Largest codes, NaN and signs. Rounding stops at the largest code: max_normal is one. */
INLINE void finish_codes(const uint32_t bits[N], const uint32_t y[N], const mx_ocp_options *options,
                         mx_format format, uint32_t codes[N])
{
    const mx_ocp_element *element = mx_ocp_element_get(format);
    const int has_nan = format == MX_FORMAT_MXFP8_E4M3 || format == MX_FORMAT_MXFP8_E5M2;
    const int sign_bit = mx_format_get(format)->code_bits - 1;
    const int32_t most = mx_format_get(format)->code_max, max_bits = (int32_t)element->max_bits;
    const uint32_t beyond = !options->overflow || !has_nan   ? (uint32_t)most
                            : format == MX_FORMAT_MXFP8_E4M3 ? 0x7f
                                                             : 0x7c;
    const uint32_t zero_sign = options->plus_zero ? 0 : 1u << sign_bit;

    for (int i = 0; i < N; i++) {
        uint32_t negative = bits[i] >> 31;
        uint32_t rounded = (int32_t)codes[i] < most ? codes[i] : (uint32_t)most;
        uint32_t code = (int32_t)y[i] > max_bits ? beyond : rounded;
        uint32_t sign = (code ? 1u << sign_bit : zero_sign) & (0u - negative);
        code = element->exponent_bits ? code | sign : ((code ^ (0u - negative)) + negative) & 0xff;
        codes[i] =
            (int32_t)(bits[i] & F32_MAGNITUDE) > (int32_t)F32_INF ? (has_nan ? 0x7f : 0) : code;
    }
}

INLINE void encode_format(const mxrt_problem *problem, int64_t block, const uint32_t bits[N],
                          int byte, mx_format format, uint32_t codes[N])
{
    const mx_ocp_options *options = &problem->options;
    /* Exact, or so small that it rounds to zero in any case: 2^-127 is a subnormal number. */
    const float unscale = byte == MOST_SCALE ? 0x1p-127f : power_of_two(F32_BIAS - byte);
    uint32_t y[N], random[N];

    for (int i = 0; i < N; i++)
        y[i] = bits_of(float_of(bits[i] & F32_MAGNITUDE) * unscale);
    if (options->rounding == MX_ROUND_STOCHASTIC) {
        randomise(problem, block, random);
        round_stochastic(y, random, format, codes);
    } else {
        round_nearest(y, options->rounding == MX_ROUND_UP, format, codes);
    }
    finish_codes(bits, y, options, format, codes);
}

/* As f32 bits, exact, of a block that is not NaN. */
INLINE void decode_format(const uint32_t codes[N], int byte, mx_format format, uint32_t bits[N])
{
    const mx_ocp_element *element = mx_ocp_element_get(format);
    const int sign_bit = mx_format_get(format)->code_bits - 1, m = element->mantissa_bits;
    const float scale = byte ? power_of_two(byte - F32_BIAS) : 0x1p-127f;
    /* Where NaN begins; beyond all codes where there is none. */
    const int32_t last = format == MX_FORMAT_MXFP8_E4M3   ? 0x7e
                         : format == MX_FORMAT_MXFP8_E5M2 ? 0x7c
                                                          : 0xff;

    for (int i = 0; i < N; i++) {
        if (!element->exponent_bits) {
            bits[i] = bits_of((float)(int8_t)codes[i] * 0x1p-6f * scale);
            continue;
        }
        int32_t magnitude = (int32_t)(codes[i] & ((1u << sign_bit) - 1));
        uint32_t sign = codes[i] >> sign_bit << 31;
        uint32_t small = bits_of((float)magnitude * power_of_two(1 - element->bias - m));
        uint32_t normal =
            ((uint32_t)magnitude << (23 - m)) + ((uint32_t)(F32_BIAS - element->bias) << 23);
        uint32_t value = select_bits(magnitude < 1 << m, small, normal);
        value = bits_of(float_of(value) * scale);
        if (format == MX_FORMAT_MXFP8_E5M2)
            value = select_bits(magnitude == last, F32_INF, value);
        bits[i] = select_bits(magnitude > last, canonical_nan, value | sign);
    }
}

static void encode(const mxrt_problem *problem, int64_t block, const uint32_t bits[N], int byte,
                   uint32_t codes[N])
{
    switch (problem->format) {
    case MX_FORMAT_MXFP4:
        encode_format(problem, block, bits, byte, MX_FORMAT_MXFP4, codes);
        break;
    case MX_FORMAT_MXFP6_E2M3:
        encode_format(problem, block, bits, byte, MX_FORMAT_MXFP6_E2M3, codes);
        break;
    case MX_FORMAT_MXFP6_E3M2:
        encode_format(problem, block, bits, byte, MX_FORMAT_MXFP6_E3M2, codes);
        break;
    case MX_FORMAT_MXFP8_E4M3:
        encode_format(problem, block, bits, byte, MX_FORMAT_MXFP8_E4M3, codes);
        break;
    case MX_FORMAT_MXFP8_E5M2:
        encode_format(problem, block, bits, byte, MX_FORMAT_MXFP8_E5M2, codes);
        break;
    default:
        encode_format(problem, block, bits, byte, MX_FORMAT_MXINT8, codes);
        break;
    }
}

static void decode(mx_format format, const uint32_t codes[N], int byte, uint32_t bits[N])
{
    switch (format) {
    case MX_FORMAT_MXFP4:
        decode_format(codes, byte, MX_FORMAT_MXFP4, bits);
        break;
    case MX_FORMAT_MXFP6_E2M3:
        decode_format(codes, byte, MX_FORMAT_MXFP6_E2M3, bits);
        break;
    case MX_FORMAT_MXFP6_E3M2:
        decode_format(codes, byte, MX_FORMAT_MXFP6_E3M2, bits);
        break;
    case MX_FORMAT_MXFP8_E4M3:
        decode_format(codes, byte, MX_FORMAT_MXFP8_E4M3, bits);
        break;
    case MX_FORMAT_MXFP8_E5M2:
        decode_format(codes, byte, MX_FORMAT_MXFP8_E5M2, bits);
        break;
    default:
        decode_format(codes, byte, MX_FORMAT_MXINT8, bits);
        break;
    }
}

/* ---- Codes <-> bytes ---- */

static void store_codes(const mxrt_problem *problem, int64_t block, const uint32_t codes[N])
{
    const int bits = mx_format_get(problem->format)->code_bits, n = N * bits / 8;
    unsigned char *p = problem->buffers[MXRT_BUFFER_P].data + block * problem->p_block_stride;
    unsigned char bytes[N];

    for (int i = 0; bits == 8 && i < N; i++)
        bytes[i] = (unsigned char)codes[i];
    for (int i = 0; bits == 4 && i < N / 2; i++)
        bytes[i] = (unsigned char)(codes[2 * i] | codes[2 * i + 1] << 4);
    for (int i = 0; bits == 6 && i < N / 4; i++) {
        const uint32_t *c = codes + 4 * i;
        uint32_t word = c[0] | c[1] << 6 | c[2] << 12 | c[3] << 18;
        for (int k = 0; k < 3; k++)
            bytes[3 * i + k] = (unsigned char)(word >> (8 * k));
    }
    if (problem->p_byte_stride == 1)
        memcpy(p, bytes, (size_t)n);
    else
        for (int i = 0; i < n; i++)
            p[i * problem->p_byte_stride] = bytes[i];
}

static void load_codes(const mxrt_problem *problem, int64_t block, uint32_t codes[N])
{
    const int bits = mx_format_get(problem->format)->code_bits, n = N * bits / 8;
    const unsigned char *p = problem->buffers[MXRT_BUFFER_P].data + block * problem->p_block_stride;
    unsigned char bytes[N] = {0};

    if (problem->p_byte_stride == 1)
        memcpy(bytes, p, (size_t)n);
    else
        for (int i = 0; i < n; i++)
            bytes[i] = p[i * problem->p_byte_stride];
    for (int i = 0; bits == 8 && i < N; i++)
        codes[i] = bytes[i];
    for (int i = 0; bits == 4 && i < N / 2; i++) {
        codes[2 * i] = bytes[i] & 15;
        codes[2 * i + 1] = bytes[i] >> 4;
    }
    for (int i = 0; bits == 6 && i < N; i++) {
        const unsigned char *b = bytes + i / 4 * 3;
        uint32_t word = b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16;
        codes[i] = word >> (6 * (i % 4)) & 63;
    }
}

/* ---- Blocks ---- */

/* `begin` is that of the row; `tile_byte` the scale of the block's tile, -1 where it has one of its
 * own. */
static void run_block(const mxrt_problem *problem, int64_t row, mxrt_row_offset begin, int64_t k,
                      int tile_byte)
{
    const int64_t block = row * problem->bpr + k;
    uint32_t bits[N], codes[N];
    int byte = tile_byte;

    if (problem->op == MX_OP_FROM) {
        load_codes(problem, block, codes);
        byte = *scale_at(problem, row, k);
    } else {
        load_block(problem, begin.x, k, bits);
        if (byte < 0) {
            int nan = 0;
            uint32_t amax = largest(bits, 0, &nan);
            byte = scale_byte(problem, amax, nan);
        }
        /* A block of NaN has codes nobody needs: those of the largest scale, so that they are told.
         */
        encode(problem, block, bits, byte < MOST_SCALE ? byte : MOST_SCALE, codes);
    }
    if (problem->op == MX_OP_TO) {
        store_codes(problem, block, codes);
        if (tile_byte < 0 || row % problem->tile_m % N == 0)
            *scale_at(problem, row, k) = (unsigned char)byte;
        return;
    }
    if (byte == NAN_SCALE) {
        for (int i = 0; i < N; i++)
            bits[i] = canonical_nan;
    } else {
        decode(problem->format, codes, byte, bits);
    }
    store_block(problem, begin.y, k, bits);
}

/* The blocks begin .. end-1 that are in rows first .. stop-1, which are part of one row of tiles:
 * tile by tile, so that each is looked at once. */
static void run_tiles(const mxrt_problem *problem, int64_t begin, int64_t end, int64_t first,
                      int64_t stop)
{
    const int64_t bpr = problem->bpr, m = first % problem->tile_m;
    int64_t tile_first = first - m % N, tile_rows = problem->tile_m - (m - m % N);
    tile_rows = tile_rows < N ? tile_rows : N;

    for (int64_t k = 0; k < bpr; k++) {
        int64_t row = first * bpr + k < begin ? first + 1 : first;
        int64_t last = (stop - 1) * bpr + k < end ? stop : stop - 1;
        if (row >= last)
            continue;
        int byte = tile_scale(problem, tile_first, tile_first + tile_rows, k);
        for (; row < last; row++)
            run_block(problem, row, mxrt_row_begin(problem, row), k, byte);
    }
}

/* ---- Columns ---- */

/* Where groups begin among the rows; the last ends the list. */
static int64_t group_begin(const mxrt_problem *problem, int64_t group, int64_t before)
{
    int64_t begin;

    if (group >= problem->pair.groups)
        return problem->rows;
    memcpy(&begin, problem->buffers[MXRT_BUFFER_G].data + group * (int64_t)sizeof(begin),
           sizeof(begin));
    begin = begin < before ? before : begin;
    return begin < problem->rows ? begin : problem->rows;
}

/* The rows begin .. end of the group that has padded row `at`, and where it begins in the columns;
 * end is begin past the last group. */
typedef struct group_rows {
    int64_t begin, end, padded;
} group_rows;

static group_rows find_group(const mxrt_problem *problem, int64_t at)
{
    const int64_t align = problem->pair.group_align;
    group_rows found = {0, 0, 0};

    for (int64_t g = 0; g == 0 || g < problem->pair.groups; g++) {
        int64_t end = group_begin(problem, g + 1, found.begin);
        int64_t next = found.padded + (end - found.begin + align - 1) / align * align;
        if (at < next) {
            found.end = end;
            return found;
        }
        found.begin = end;
        found.padded = next;
    }
    found.end = found.begin;
    return found;
}

/* 32 rows of a column from padded row `at` on. */
static void load_column(const mxrt_problem *problem, int64_t column, int64_t at, uint32_t bits[N])
{
    const int64_t bytes = mx_dtype_get(problem->dtype)->bytes;
    const unsigned char *x = problem->buffers[MXRT_BUFFER_X].data;
    group_rows group = find_group(problem, at);

    for (int i = 0; i < N; i++) {
        int64_t row = group.begin + at - group.padded + i;
        if (row < group.end)
            load_elements(x + (mxrt_row_begin(problem, row).x + column * problem->x_axis_stride) *
                                  bytes,
                          1, 1, 1, problem->dtype, &bits[i]);
        else
            bits[i] = 0;
    }
    for (int i = 0; problem->pair.hadamard && i < N; i += 16)
        rotate_half(bits + i);
}

static void run_column_block(const mxrt_problem *problem, int64_t block)
{
    const mxrt_pair *pair = &problem->pair;
    int64_t per_column = pair->capacity / N, column = block / per_column, k = block % per_column;
    uint32_t bits[N], codes[N], amax;
    mxrt_problem stored;
    int nan = 0;

    load_column(problem, column, k * N, bits);
    amax = largest(bits, 0, &nan);
    int byte = scale_byte(problem, amax, nan);
    encode(problem, block, bits, byte < MOST_SCALE ? byte : MOST_SCALE, codes);
    /* Blocks of a column lie side by side. */
    mxrt_problem_copy(&stored, problem);
    stored.p_byte_stride = 1;
    stored.p_block_stride = mx_format_get(problem->format)->block_bytes;
    stored.buffers[MXRT_BUFFER_P].data =
        problem->buffers[MXRT_BUFFER_C].data + column * pair->row_stride;
    store_codes(&stored, k, codes);
    problem->buffers[MXRT_BUFFER_T].data[column * pair->s_row_stride + k * pair->s_block_stride] =
        (unsigned char)byte;
}

static void store_padded_offsets(const mxrt_problem *problem)
{
    const int64_t align = problem->pair.group_align;
    int64_t begin = 0, padded = 0;

    for (int64_t g = 0; problem->pair.groups && g <= problem->pair.groups; g++) {
        memcpy(problem->buffers[MXRT_BUFFER_O].data + g * (int64_t)sizeof(padded), &padded,
               sizeof(padded));
        int64_t end = group_begin(problem, g + 1, begin);
        padded += (end - begin + align - 1) / align * align;
        begin = end;
    }
}

/* The columns' share of blocks begin .. end - 1 of the rows, of which there is one at least. */
static void run_columns(const mxrt_problem *problem, int64_t begin, int64_t end)
{
    int64_t total = problem->len * (problem->pair.capacity / N);
    int64_t each = total / problem->n_blocks + (total % problem->n_blocks != 0);
    int64_t last = end == problem->n_blocks || end * each > total ? total : end * each;

    for (int64_t block = begin * each; block < last; block++)
        run_column_block(problem, block);
    if (begin == 0)
        store_padded_offsets(problem);
}

void mxrt_reference_ocp_blocks(const mxrt_problem *problem, int64_t begin, int64_t end)
{
    const int64_t bpr = problem->bpr;

    if (mxrt_problem_is_pair(problem))
        run_columns(problem, begin, end);
    if (!problem->options.two_d || problem->op == MX_OP_FROM) {
        while (begin < end) {
            int64_t row = begin / bpr, k = begin % bpr;
            int64_t row_end = bpr - k < end - begin ? bpr : k + end - begin;
            mxrt_row_offset row_begin = mxrt_row_begin(problem, row);
            begin += row_end - k;
            for (; k < row_end; k++)
                run_block(problem, row, row_begin, k, -1);
        }
        return;
    }
    for (int64_t row = begin / bpr; row * bpr < end;) {
        int64_t m = row % problem->tile_m, next = row + N - m % N;
        int64_t batch_end = row - m + problem->tile_m, rows_end = (end + bpr - 1) / bpr;
        next = next < batch_end ? next : batch_end;
        next = next < rows_end ? next : rows_end;
        run_tiles(problem, begin, end, row, next);
        row = next;
    }
}
