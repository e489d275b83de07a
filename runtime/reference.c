#include "runtime/reference.h"

#include <math.h>
#include <string.h>

#include <mxgen/error.h>

#include "runtime/fenv_guard.h"
#include "runtime/reference_numbers.h"

/* The work on a block is written once, in functions that are always inlined into a loop for each
 * (operation, format, dtype): with those known, the compiler unrolls and vectorises. */
#define N MX_BLOCK_ELEMENTS
#define MIN_SCALE (-126)

/* A block between its tensor and its bytes. */
typedef struct codes {
    int exponent;    /* E */
    uint32_t primes; /* bit p: pair p is demoted */
    int32_t q[N];
} codes;

/* ---- Elements <-> codes ---- */

/* Exchanges the elements of each pair: as 64-bit words, which vector units shift, too. */
INLINE void swap_pairs(const int32_t from[N], int32_t to[N])
{
    uint64_t pairs[N / 2];

    memcpy(pairs, from, sizeof(pairs));
    for (int p = 0; p < N / 2; p++)
        pairs[p] = pairs[p] << 32 | pairs[p] >> 32;
    memcpy(to, pairs, sizeof(pairs));
}

/* Exponents and demotions; demoted[i] is -1 for elements of demoted pairs, else 0. A subnormal or
 * zero counts as the type's lowest exponent field; a subnormal f16 was widened to a normal f32
 * below it, hence the maximum. */
INLINE void block_statistics(const uint32_t bits[N], mx_dtype dtype, codes *out, int32_t demoted[N])
{
    static const int32_t bit_of[N] = {1, 0, 2, 0, 4, 0, 8, 0, 16, 0, 32, 0, 64, 0, 128, 0};
    const int32_t lowest = dtype == MX_DTYPE_F16 ? F32_BIAS - 15 : 0;
    int32_t field[N], partner[N], top = lowest, primes = 0;

    for (int i = 0; i < N; i++) {
        int32_t magnitude = (int32_t)(bits[i] & F32_MAGNITUDE);
        int32_t at = magnitude < (int32_t)F32_INF ? magnitude >> 23 : 0;
        field[i] = at > lowest ? at : lowest;
    }
    for (int i = 0; i < N; i++)
        top = top > field[i] ? top : field[i];
    swap_pairs(field, partner);
    for (int i = 0; i < N; i++)
        demoted[i] = (field[i] > partner[i] ? field[i] : partner[i]) < top ? -1 : 0;
    for (int i = 0; i < N; i++)
        primes |= demoted[i] & bit_of[i];
    out->exponent = top - F32_BIAS;
    out->primes = (uint32_t)primes;
}

INLINE void spread_primes(uint32_t primes, int32_t demoted[N])
{
    static const int32_t pair_bit[N] = {1, 1, 2, 2, 4, 4, 8, 8, 16, 16, 32, 32, 64, 64, 128, 128};

    for (int i = 0; i < N; i++)
        demoted[i] = (int32_t)primes & pair_bit[i] ? -1 : 0;
}

INLINE int scale_exponent(int exponent, int demoted, int code_bits)
{
    int scale = exponent - demoted - code_bits + 2;

    return scale > MIN_SCALE ? scale : MIN_SCALE;
}

INLINE void encode(const uint32_t bits[N], int code_bits, mx_dtype dtype, codes *out)
{
    /* Adding 1.5 * 2^23 rounds to an integer, ties to even, and leaves it in the low bits. */
    const float to_integer = 0x1.8p23f;
    const int32_t limit = (int32_t)bits_of((float)((1 << (code_bits - 1)) - 1));
    int32_t demoted[N];

    block_statistics(bits, dtype, out, demoted);
    const int32_t u0 = (int32_t)bits_of(power_of_two(-scale_exponent(out->exponent, 0, code_bits)));
    const int32_t u1 = (int32_t)bits_of(power_of_two(-scale_exponent(out->exponent, 1, code_bits)));
    for (int i = 0; i < N; i++) {
        int32_t magnitude = (int32_t)(bits[i] & F32_MAGNITUDE);
        int32_t number = magnitude > (int32_t)F32_INF ? 0 : magnitude;
        int32_t unscale = demoted[i] ? u1 : u0;
        /* The product is exact, but for what rounds to 0 anyway. Not negative, so that its bits
         * compare like numbers. */
        int32_t scaled = (int32_t)bits_of(float_of((uint32_t)number) * float_of((uint32_t)unscale));
        scaled = scaled < limit ? scaled : limit;
        float rounded = float_of((uint32_t)scaled | (bits[i] & ~F32_MAGNITUDE)) + to_integer;
        out->q[i] = (int32_t)(bits_of(rounded) - bits_of(to_integer));
    }
}

/* The product is a plain f32 one: it overflows to Inf for exponents that no encoder writes. */
INLINE void decode(const codes *in, int code_bits, uint32_t bits[N])
{
    const float scale[2] = {power_of_two(scale_exponent(in->exponent, 0, code_bits)),
                            power_of_two(scale_exponent(in->exponent, 1, code_bits))};
    int32_t demoted[N];

    spread_primes(in->primes, demoted);
    for (int i = 0; i < N; i++)
        bits[i] = bits_of((float)in->q[i] * (demoted[i] ? scale[1] : scale[0]));
}

/* The profile demoted-255 on elements in place: no lower limit of the scale, one more bit for codes
 * of demoted pairs. Such scales are no normal floats: computed in double, where all is exact. */
INLINE void requantise_demoted_255(uint32_t bits[N], int code_bits, mx_dtype dtype)
{
    int32_t demoted[N];
    codes block;

    block_statistics(bits, dtype, &block, demoted);
    for (int i = 0; i < N; i++) {
        int scale = block.exponent + demoted[i] - code_bits + 2;
        double code_max = (double)((1 << (code_bits - 1 - demoted[i])) - 1);
        double q = nearbyint(ldexp((double)float_of(bits[i]), -scale));
        if ((bits[i] & F32_MAGNITUDE) > F32_INF)
            continue;
        q = q > code_max ? code_max : q < -code_max ? -code_max : q;
        /* Codes are integers: there is no -0. */
        bits[i] = bits_of((float)ldexp(q + 0.0, scale));
    }
}

/* ---- Codes <-> packed bytes ---- */

INLINE void pack_codes(const codes *in, mx_format format, unsigned char *bytes)
{
    bytes[0] = (unsigned char)(in->exponent + F32_BIAS);
    bytes[1] = (unsigned char)in->primes;
    if (format == MX_FORMAT_MX9) {
        for (int i = 0; i < N; i++)
            bytes[2 + i] = (unsigned char)in->q[i];
    } else if (format == MX_FORMAT_MX6) {
        uint32_t signs = 0;
        for (int i = 0; i < N; i++)
            signs |= ((uint32_t)in->q[i] >> 31) << i;
        bytes[2] = (unsigned char)signs;
        bytes[3] = (unsigned char)(signs >> 8);
        for (int i = 0; i < N / 2; i++)
            bytes[4 + i] = (unsigned char)((in->q[2 * i] & 15) | (in->q[2 * i + 1] & 15) << 4);
    } else {
        uint64_t stream = 0;
        for (int i = 0; i < N; i++)
            stream |= (uint64_t)(in->q[i] & 7) << (3 * i);
        for (int i = 0; i < 6; i++)
            bytes[2 + i] = (unsigned char)(stream >> (8 * i));
    }
}

INLINE void unpack_codes(const unsigned char *bytes, mx_format format, codes *out)
{
    out->exponent = (int)bytes[0] - F32_BIAS;
    out->primes = bytes[1];
    if (format == MX_FORMAT_MX9) {
        for (int i = 0; i < N; i++)
            out->q[i] = (int8_t)bytes[2 + i];
    } else if (format == MX_FORMAT_MX6) {
        int32_t signs = bytes[2] | bytes[3] << 8;
        for (int i = 0; i < N; i++)
            out->q[i] = ((bytes[4 + i / 2] >> (4 * (i & 1))) & 15) - 16 * ((signs >> i) & 1);
    } else {
        uint64_t stream = 0;
        for (int i = 0; i < 6; i++)
            stream |= (uint64_t)bytes[2 + i] << (8 * i);
        for (int i = 0; i < N; i++) {
            int32_t code = (int32_t)(stream >> (3 * i)) & 7;
            out->q[i] = code - ((code & 4) << 1);
        }
    }
}

/* ---- Loops ---- */

/* One block: `x` and `y` are its first elements, `p` its first byte. */
INLINE void run_block(const mxrt_problem *problem, const unsigned char *x, unsigned char *y,
                      unsigned char *p, int count, int64_t x_stride, int64_t y_stride,
                      int64_t p_stride, mx_op op, mx_format format, mx_dtype dtype)
{
    const int code_bits = format == MX_FORMAT_MX9 ? 8 : format == MX_FORMAT_MX6 ? 5 : 3;
    const int block_bytes = format == MX_FORMAT_MX9 ? 18 : format == MX_FORMAT_MX6 ? 12 : 8;
    unsigned char bytes[18];
    uint32_t bits[N];
    codes block;

    if (op != MX_OP_FROM)
        load_elements(x, x_stride, count, N, dtype, bits);
    if (op == MX_OP_QDQ && problem->profile == MX_PROFILE_DEMOTED_255) {
        requantise_demoted_255(bits, code_bits, dtype);
        store_elements(y, y_stride, count, N, dtype, bits);
        return;
    }
    if (op == MX_OP_FROM) {
        if (p_stride == 1)
            memcpy(bytes, p, (size_t)block_bytes);
        else
            for (int i = 0; i < block_bytes; i++)
                bytes[i] = p[i * p_stride];
        unpack_codes(bytes, format, &block);
    } else {
        encode(bits, code_bits, dtype, &block);
    }
    if (op == MX_OP_TO) {
        pack_codes(&block, format, bytes);
        if (p_stride == 1)
            memcpy(p, bytes, (size_t)block_bytes);
        else
            for (int i = 0; i < block_bytes; i++)
                p[i * p_stride] = bytes[i];
    } else {
        decode(&block, code_bits, bits);
        store_elements(y, y_stride, count, N, dtype, bits);
    }
}

/* Blocks first .. first+n-1 of a row. */
INLINE void run_row(const mxrt_problem *problem, int64_t row, int64_t first, int64_t n, mx_op op,
                    mx_format format, mx_dtype dtype)
{
    const int64_t element_bytes = dtype == MX_DTYPE_F32 ? 4 : 2;
    mxrt_row_offset offset = mxrt_row_begin(problem, row);
    int64_t xs = problem->x_axis_stride, ys = problem->y_axis_stride;
    int64_t ps = problem->p_byte_stride;
    /* Elements are computed as offsets so that no pointer is formed outside of its buffer. */
    const unsigned char *x = problem->buffers[MXRT_BUFFER_X].data;
    unsigned char *y = problem->buffers[MXRT_BUFFER_Y].data;
    unsigned char *p = problem->buffers[MXRT_BUFFER_P].data;
    int64_t whole = problem->len / N;
    int unit = (op == MX_OP_FROM || xs == 1) && (op == MX_OP_TO || ys == 1) &&
               (op == MX_OP_QDQ || ps == 1);

    for (int64_t k = first; k < first + n; k++) {
        int64_t element = k * N;
        int count = k < whole ? N : (int)(problem->len - element);
        const unsigned char *xk = x;
        unsigned char *yk = y, *pk = p;
        if (op != MX_OP_FROM)
            xk += (offset.x + element * xs) * element_bytes;
        if (op != MX_OP_TO)
            yk += (offset.y + element * ys) * element_bytes;
        if (op != MX_OP_QDQ)
            pk += (row * problem->bpr + k) * problem->p_block_stride;
        if (unit && count == N)
            run_block(problem, xk, yk, pk, N, 1, 1, 1, op, format, dtype);
        else
            run_block(problem, xk, yk, pk, count, xs, ys, ps, op, format, dtype);
    }
}

INLINE void run_blocks(const mxrt_problem *problem, int64_t begin, int64_t end, mx_op op,
                       mx_format format, mx_dtype dtype)
{
    int64_t row = begin / problem->bpr, k = begin % problem->bpr;

    while (begin < end) {
        int64_t n = problem->bpr - k < end - begin ? problem->bpr - k : end - begin;
        run_row(problem, row, k, n, op, format, dtype);
        begin += n;
        row++;
        k = 0;
    }
}

INLINE void run_dtypes(const mxrt_problem *problem, int64_t begin, int64_t end, mx_op op,
                       mx_format format)
{
    switch (problem->dtype) {
    case MX_DTYPE_F32:
        run_blocks(problem, begin, end, op, format, MX_DTYPE_F32);
        break;
    case MX_DTYPE_BF16:
        run_blocks(problem, begin, end, op, format, MX_DTYPE_BF16);
        break;
    default:
        run_blocks(problem, begin, end, op, format, MX_DTYPE_F16);
        break;
    }
}

INLINE void run_formats(const mxrt_problem *problem, int64_t begin, int64_t end, mx_op op)
{
    switch (problem->format) {
    case MX_FORMAT_MX9:
        run_dtypes(problem, begin, end, op, MX_FORMAT_MX9);
        break;
    case MX_FORMAT_MX6:
        run_dtypes(problem, begin, end, op, MX_FORMAT_MX6);
        break;
    default:
        run_dtypes(problem, begin, end, op, MX_FORMAT_MX4);
        break;
    }
}

/* Three functions, so that no one grows beyond what the compiler optimises well. */
static void run_to(const mxrt_problem *problem, int64_t begin, int64_t end)
{
    run_formats(problem, begin, end, MX_OP_TO);
}

static void run_from(const mxrt_problem *problem, int64_t begin, int64_t end)
{
    run_formats(problem, begin, end, MX_OP_FROM);
}

static void run_qdq(const mxrt_problem *problem, int64_t begin, int64_t end)
{
    run_formats(problem, begin, end, MX_OP_QDQ);
}

void mxrt_reference_blocks(const mxrt_problem *problem, int64_t begin, int64_t end)
{
    static void (*const run[MX_OP_COUNT])(const mxrt_problem *, int64_t, int64_t) = {
        [MX_OP_TO] = run_to, [MX_OP_FROM] = run_from, [MX_OP_QDQ] = run_qdq};

    if (mx_format_is_ocp(problem->format))
        mxrt_reference_ocp_blocks(problem, begin, end);
    else
        run[problem->op](problem, begin, end);
}

mx_status mxrt_reference_run(const mxrt_plan_request *request, mx_error *err)
{
    mxrt_problem problem;
    mxrt_fenv saved;
    mx_status status = mxrt_problem_init(&problem, request, (DLDevice){kDLCPU, 0}, 0, err);

    if (status)
        return status;
    mxrt_fenv_enter(&saved);
    mxrt_reference_blocks(&problem, 0, problem.n_blocks);
    mxrt_fenv_leave(&saved);
    return MX_OK;
}
