/* The OCP formats (mxgen/ocp.h) in plain C. */
#include "runtime/reference.h"

#include "runtime/reference_numbers.h"

enum { N = MX_OCP_BLOCK, NAN_SCALE = 255, MOST_SCALE = 254 };

static const uint32_t canonical_nan = 0x7fc00000u;

/* ---- Elements ---- */

static uint32_t load_element(const unsigned char *from, mx_dtype dtype)
{
    uint32_t bits;
    uint16_t half;

    if (dtype == MX_DTYPE_F32) {
        memcpy(&bits, from, sizeof(bits));
        return bits;
    }
    memcpy(&half, from, sizeof(half));
    return dtype == MX_DTYPE_BF16 ? (uint32_t)half << 16 : f16_widen(half);
}

static void store_element(unsigned char *to, mx_dtype dtype, uint32_t bits)
{
    uint16_t half;

    if (dtype == MX_DTYPE_F32) {
        memcpy(to, &bits, sizeof(bits));
        return;
    }
    half = dtype == MX_DTYPE_BF16 ? bf16_narrow(bits) : f16_narrow(bits);
    memcpy(to, &half, sizeof(half));
}

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

/* The elements of a block as f32, zeros past the end of the row, rotated where that is asked for.
 */
static void load_block(const mxrt_problem *problem, int64_t row, int64_t k, uint32_t bits[N])
{
    const int64_t bytes = mx_dtype_get(problem->dtype)->bytes;
    const unsigned char *x = problem->buffers[MXRT_BUFFER_X].data;
    int64_t at = mxrt_row_begin(problem, row).x + k * N * problem->x_axis_stride;

    for (int i = 0; i < N; i++)
        bits[i] = k * N + i < problem->len
                      ? load_element(x + (at + i * problem->x_axis_stride) * bytes, problem->dtype)
                      : 0;
    for (int i = 0; problem->options.hadamard && i < N; i += 16)
        rotate_half(bits + i);
}

static void store_block(const mxrt_problem *problem, int64_t row, int64_t k, const uint32_t bits[N])
{
    const int64_t bytes = mx_dtype_get(problem->dtype)->bytes;
    unsigned char *y = problem->buffers[MXRT_BUFFER_Y].data;
    int64_t at = mxrt_row_begin(problem, row).y + k * N * problem->y_axis_stride;

    for (int i = 0; i < N && k * N + i < problem->len; i++)
        store_element(y + (at + i * problem->y_axis_stride) * bytes, problem->dtype, bits[i]);
}

/* ---- Scales ---- */

/* Largest magnitude that is no NaN, as f32 bits; *nan is set if there is one. */
static uint32_t largest(const uint32_t bits[N], uint32_t most, int *nan)
{
    for (int i = 0; i < N; i++) {
        uint32_t magnitude = bits[i] & F32_MAGNITUDE;
        if (magnitude > F32_INF)
            *nan = 1;
        else if (magnitude > most)
            most = magnitude;
    }
    return most;
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

/* Of block k of a row whose elements are `own`. */
static int block_scale(const mxrt_problem *problem, int64_t row, int64_t k, const uint32_t own[N])
{
    uint32_t amax = 0, bits[N];
    int nan = 0;

    if (problem->options.two_d) {
        int64_t m = row % problem->tile_m, first = row - m % N;
        int64_t n = problem->tile_m - (m - m % N);
        for (int64_t i = 0; i < n && i < N; i++) {
            load_block(problem, first + i, k, bits);
            amax = largest(bits, amax, &nan);
        }
    } else {
        amax = largest(own, 0, &nan);
    }
    return nan && problem->options.nan_scale ? NAN_SCALE : limited_scale(problem, amax);
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

/* Philox4x32-10 of J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011. */
static void philox(uint64_t counter, uint64_t seed, uint32_t out[4])
{
    uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};

    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xd2511f53u * c[0], b = (uint64_t)0xcd9e8d57u * c[2];
        uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ key[0], (uint32_t)b,
                            (uint32_t)(a >> 32) ^ c[3] ^ key[1], (uint32_t)a};
        memcpy(c, next, sizeof(c));
        key[0] += 0x9e3779b9u;
        key[1] += 0xbb67ae85u;
    }
    memcpy(out, c, sizeof(c));
}

/* ---- Codes ---- */

/* A code's magnitude from |y|, which is not above max_normal, as f32 bits. */
static uint32_t round_nearest(uint32_t y, const mx_ocp_element *element, int up)
{
    const uint32_t lowest = (uint32_t)(F32_BIAS + (element->exponent_bits ? 1 - element->bias : 0));
    uint32_t field = y >> 23, unit;

    /* A bit below all that counts makes a tie no tie. */
    y |= up ? 1 : 0;
    field = field > lowest ? field : lowest;
    if (!element->exponent_bits)
        field = lowest;
    /* A number whose last bit is the element's last bit: the sum rounds there. */
    unit = (field + 23u - (uint32_t)element->mantissa_bits) << 23;
    return bits_of(float_of(y) + float_of(unit)) - unit +
           ((field - lowest) << element->mantissa_bits);
}

static uint32_t round_stochastic(uint32_t y, const mx_ocp_element *element, uint32_t random)
{
    const int shift = 23 - element->mantissa_bits;
    uint32_t lowest = (uint32_t)(F32_BIAS + 1 - element->bias) << 23;

    if (!element->exponent_bits) {
        /* One exponent: 2 + |y| has a spacing of 2^-22. */
        uint32_t sum = bits_of(float_of(y) + 2.0f) + (random >> (element->mantissa_bits + 10));
        return (sum >> (shift - 1)) - (0x40000000u >> (shift - 1));
    }
    random >>= element->mantissa_bits + 9;
    if (y >= lowest)
        return ((y + random) >> shift) - (lowest >> shift) + (1u << element->mantissa_bits);
    return ((bits_of(float_of(y) + float_of(lowest)) + random) >> shift) - (lowest >> shift);
}

static uint32_t encode_element(const mxrt_problem *problem, uint32_t bits, int byte,
                               uint32_t random)
{
    const mx_ocp_options *options = &problem->options;
    const mx_ocp_element *element = mx_ocp_element_get(problem->format);
    const mx_format_info *format = mx_format_get(problem->format);
    int has_nan =
        problem->format == MX_FORMAT_MXFP8_E4M3 || problem->format == MX_FORMAT_MXFP8_E5M2;
    uint32_t code_max = (uint32_t)format->code_max, negative = bits >> 31, code;

    if ((bits & F32_MAGNITUDE) > F32_INF)
        return has_nan ? 0x7f : 0;
    /* Exact, or so small that it rounds to zero in any case: 2^-127 is a subnormal number. */
    float unscale = byte == 254 ? 0x1p-127f : power_of_two(F32_BIAS - byte);
    uint32_t y = bits_of(float_of(bits & F32_MAGNITUDE) * unscale);
    if (y > element->max_bits)
        code = code_max;
    else if (options->rounding == MX_ROUND_STOCHASTIC)
        code = round_stochastic(y, element, random);
    else
        code = round_nearest(y, element, options->rounding == MX_ROUND_UP);
    /* Rounding stops at the largest code: max_normal is one. */
    code = code < code_max ? code : code_max;
    if (options->overflow && has_nan && y > element->max_bits)
        code = problem->format == MX_FORMAT_MXFP8_E4M3 ? 0x7f : 0x7c;
    if (!element->exponent_bits)
        return (negative ? 0u - code : code) & 0xff;
    if (!code && options->plus_zero)
        negative = 0;
    return code | negative << (format->code_bits - 1);
}

/* As f32 bits, exact, of a block that is not NaN. */
static uint32_t decode_element(mx_format format, uint32_t code, int byte)
{
    const mx_ocp_element *element = mx_ocp_element_get(format);
    int sign_bit = mx_format_get(format)->code_bits - 1, m = element->mantissa_bits;
    uint32_t magnitude = code & ((1u << sign_bit) - 1);
    float scale = byte ? power_of_two(byte - F32_BIAS) : 0x1p-127f, value;

    if (!element->exponent_bits)
        return bits_of((float)(int8_t)code * 0x1p-6f * scale);
    uint32_t field = magnitude >> m, mantissa = magnitude & ((1u << m) - 1);
    if ((format == MX_FORMAT_MXFP8_E4M3 && magnitude == 0x7f) ||
        (format == MX_FORMAT_MXFP8_E5M2 && magnitude > 0x7c))
        return canonical_nan;
    if (format == MX_FORMAT_MXFP8_E5M2 && magnitude == 0x7c)
        return F32_INF | (code >> sign_bit) << 31;
    value = (float)(mantissa | (field ? 1u << m : 0)) *
            power_of_two((int)(field ? field : 1) - element->bias - m);
    return bits_of(value * scale) | (code >> sign_bit) << 31;
}

/* ---- Blocks ---- */

static void encode_block(const mxrt_problem *problem, int64_t block, const uint32_t bits[N],
                         int byte, uint32_t codes[N])
{
    uint32_t random[4] = {0};

    for (int i = 0; i < N; i++) {
        if (i % 4 == 0 && problem->options.rounding == MX_ROUND_STOCHASTIC)
            philox((uint64_t)(block * (N / 4) + i / 4), problem->options.seed, random);
        codes[i] = encode_element(problem, bits[i], byte, random[i % 4]);
    }
}

static void store_codes(const mxrt_problem *problem, int64_t block, const uint32_t codes[N])
{
    const int bits = mx_format_get(problem->format)->code_bits;
    unsigned char *p = problem->buffers[MXRT_BUFFER_P].data + block * problem->p_block_stride;
    uint32_t pending = 0;
    int n_pending = 0;

    for (int i = 0; i < N; i++) {
        pending |= codes[i] << n_pending;
        for (n_pending += bits; n_pending >= 8; n_pending -= 8) {
            *p = (unsigned char)pending;
            p += problem->p_byte_stride;
            pending >>= 8;
        }
    }
}

static void load_codes(const mxrt_problem *problem, int64_t block, uint32_t codes[N])
{
    const int bits = mx_format_get(problem->format)->code_bits;
    const unsigned char *p = problem->buffers[MXRT_BUFFER_P].data + block * problem->p_block_stride;
    uint32_t pending = 0;
    int n_pending = 0;

    for (int i = 0; i < N; i++) {
        for (; n_pending < bits; n_pending += 8) {
            pending |= (uint32_t)*p << n_pending;
            p += problem->p_byte_stride;
        }
        codes[i] = pending & ((1u << bits) - 1);
        pending >>= bits;
        n_pending -= bits;
    }
}

static void run_block(const mxrt_problem *problem, int64_t block)
{
    int64_t row = block / problem->bpr, k = block % problem->bpr;
    uint32_t bits[N], codes[N];
    int byte;

    if (problem->op == MX_OP_FROM) {
        load_codes(problem, block, codes);
        byte = *scale_at(problem, row, k);
    } else {
        load_block(problem, row, k, bits);
        byte = block_scale(problem, row, k, bits);
        /* A block of NaN has codes nobody needs: those of the largest scale, so that they are told.
         */
        encode_block(problem, block, bits, byte < MOST_SCALE ? byte : MOST_SCALE, codes);
    }
    if (problem->op == MX_OP_TO) {
        store_codes(problem, block, codes);
        if (!problem->options.two_d || row % problem->tile_m % N == 0)
            *scale_at(problem, row, k) = (unsigned char)byte;
        return;
    }
    for (int i = 0; i < N; i++)
        bits[i] =
            byte == NAN_SCALE ? canonical_nan : decode_element(problem->format, codes[i], byte);
    store_block(problem, row, k, bits);
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
        bits[i] = row < group.end ? load_element(x + (mxrt_row_begin(problem, row).x +
                                                      column * problem->x_axis_stride) *
                                                         bytes,
                                                 problem->dtype)
                                  : 0;
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
    int byte = nan && problem->options.nan_scale ? NAN_SCALE : limited_scale(problem, amax);
    encode_block(problem, block, bits, byte < MOST_SCALE ? byte : MOST_SCALE, codes);
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
    if (mxrt_problem_is_pair(problem))
        run_columns(problem, begin, end);
    for (int64_t block = begin; block < end; block++)
        run_block(problem, block);
}
