#include "gemm_engine.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "cases.h"

enum { BLOCK = 32, GUARD = 256, POISON = 0xa5, NAN_SCALE = 255 };

/* ---- Cases ---- */

#define ROWS MX_GEMM_ROWS
#define COLS MX_GEMM_COLS

/* Sizes around those of tiles (64, 128, 256 and tails), contractions that end within a chunk. */
static const gemm_case cases[] = {
    {"one", ROWS, 1, {1}, 1, 32, 0, 0, GEMM_VALUES_INTEGERS},
    {"ragged", ROWS, 7, {5, 0, 17, 64, 1, 0, 33}, 96, 160, 0, 0, GEMM_VALUES_SIGNED},
    {"integers", ROWS, 3, {70, 0, 131}, 144, 384, 0, 0, GEMM_VALUES_INTEGERS},
    {"positive", ROWS, 2, {40, 90}, 128, 1024, 0, 0, GEMM_VALUES_POSITIVE},
    {"spread", ROWS, 3, {33, 64, 7}, 136, 512, 0, 0, GEMM_VALUES_SPREAD},
    {"opposed", ROWS, 2, {65, 30}, 80, 640, 0, 0, GEMM_VALUES_OPPOSED},
    {"tails", ROWS, 3, {300, 0, 20}, 270, 416, 0, 0, GEMM_VALUES_SIGNED},
    {"no groups", ROWS, 0, {0}, 24, 64, GEMM_UNOWNED, 0, GEMM_VALUES_SIGNED},
    {"empty groups", ROWS, 3, {0, 0, 0}, 24, 64, 0, 0, GEMM_VALUES_SIGNED},
    {"padded", ROWS, 4, {5, 40, 0, 31}, 64, 128, GEMM_PADDED | GEMM_UNOWNED, 0, GEMM_VALUES_SIGNED},
    {"transposed", ROWS, 3, {19, 1, 50}, 72, 256, GEMM_TRANSPOSED, 0, GEMM_VALUES_SPREAD},
    {"large scales", ROWS, 3, {9, 48, 0}, 40, 96, GEMM_LARGE_SCALES, 0, GEMM_VALUES_SIGNED},
    {"large transposed scales",
     ROWS,
     2,
     {9, 48},
     40,
     96,
     GEMM_LARGE_SCALES | GEMM_TRANSPOSED,
     0,
     GEMM_VALUES_SIGNED},
    {"accumulate",
     ROWS,
     3,
     {21, 0, 80},
     96,
     192,
     GEMM_ACCUMULATE | GEMM_UNOWNED,
     0,
     GEMM_VALUES_SIGNED},
    {"strided", ROWS, 3, {3, 37, 12}, 50, 128, GEMM_STRIDED, 0, GEMM_VALUES_SIGNED},
    {"odd rows", ROWS, 2, {3, 61}, 53, 128, GEMM_ODD_ROWS, 0, GEMM_VALUES_SIGNED},
    {"one unit", ROWS, 5, {70, 3, 0, 129, 64}, 200, 96, 0, 1, GEMM_VALUES_SIGNED},
    {"three units", ROWS, 3, {150, 20, 64}, 300, 64, 0, 3, GEMM_VALUES_SIGNED},
    {"host offsets",
     ROWS,
     3,
     {5, 40, 31},
     64,
     128,
     GEMM_PADDED | GEMM_HOST_OFFSETS,
     0,
     GEMM_VALUES_SIGNED},
    {"one", COLS, 1, {32}, 1, 1, 0, 0, GEMM_VALUES_INTEGERS},
    {"ragged", COLS, 5, {96, 0, 32, 160, 224}, 96, 72, 0, 0, GEMM_VALUES_SIGNED},
    {"integers", COLS, 3, {384, 0, 128}, 144, 80, 0, 0, GEMM_VALUES_INTEGERS},
    {"positive", COLS, 2, {512, 1024}, 72, 100, 0, 0, GEMM_VALUES_POSITIVE},
    {"spread", COLS, 3, {128, 512, 256}, 64, 136, 0, 0, GEMM_VALUES_SPREAD},
    {"opposed", COLS, 2, {640, 128}, 80, 65, 0, 0, GEMM_VALUES_OPPOSED},
    {"tails", COLS, 3, {416, 0, 160}, 270, 300, 0, 0, GEMM_VALUES_SIGNED},
    {"empty groups", COLS, 3, {0, 0, 0}, 24, 40, 0, 0, GEMM_VALUES_SIGNED},
    {"padded", COLS, 4, {100, 0, 130, 1}, 64, 48, GEMM_PADDED, 0, GEMM_VALUES_SIGNED},
    {"transposed", COLS, 3, {256, 0, 64}, 72, 96, GEMM_TRANSPOSED, 0, GEMM_VALUES_SPREAD},
    {"large scales", COLS, 2, {96, 128}, 40, 24, GEMM_LARGE_SCALES, 0, GEMM_VALUES_SIGNED},
    {"accumulate", COLS, 3, {192, 0, 128}, 56, 96, GEMM_ACCUMULATE, 0, GEMM_VALUES_SIGNED},
    {"strided", COLS, 2, {128, 96}, 50, 44, GEMM_STRIDED, 0, GEMM_VALUES_SIGNED},
    {"odd rows", COLS, 2, {128, 96}, 50, 43, GEMM_ODD_ROWS, 0, GEMM_VALUES_SIGNED},
    {"two units", COLS, 4, {128, 0, 64, 256}, 200, 140, 0, 2, GEMM_VALUES_SIGNED},
    {"host offsets", COLS, 3, {128, 0, 32}, 40, 64, GEMM_HOST_OFFSETS, 0, GEMM_VALUES_SIGNED},
};

size_t gemm_case_count(void)
{
    return sizeof(cases) / sizeof(cases[0]);
}

const gemm_case *gemm_case_at(size_t index)
{
    return index < gemm_case_count() ? &cases[index] : NULL;
}

const char *gemm_values_name(gemm_values values)
{
    static const char *const names[] = {"signed", "positive", "spread", "opposed", "integers"};
    return (unsigned)values < GEMM_VALUES_COUNT ? names[values] : "unknown";
}

/* ---- Numbers ---- */

/* The value of a code, by the definition of mxgen/ocp.h. */
static double element_value(mx_gemm_element element, unsigned code)
{
    static const struct {
        int exponent_bits, mantissa_bits, bias;
    } layout[] = {{2, 1, 1}, {4, 3, 7}, {5, 2, 15}};
    int e_bits = layout[element].exponent_bits, m_bits = layout[element].mantissa_bits;
    int exponent = (int)(code >> m_bits) & ((1 << e_bits) - 1);
    double mantissa = (double)(code & ((1u << m_bits) - 1)) / (1 << m_bits);
    double value = exponent ? ldexp(1 + mantissa, exponent - layout[element].bias)
                            : ldexp(mantissa, 1 - layout[element].bias);

    return code >> (e_bits + m_bits) & 1 ? -value : value;
}

static int is_finite_code(mx_gemm_element element, unsigned code)
{
    return element == MX_GEMM_MXFP8_E4M3   ? (code & 0x7f) != 0x7f
           : element == MX_GEMM_MXFP8_E5M2 ? (code & 0x7f) < 0x7c
                                           : 1;
}

/* The code of a small integer. */
static unsigned integer_code(mx_gemm_element element, int value)
{
    static const unsigned codes[3][3] = {{0, 2, 4}, {0, 0x38, 0x40}, {0, 0x3c, 0x40}};
    unsigned sign = element == MX_GEMM_MXFP4 ? 8 : 0x80;

    return codes[element][abs(value)] | (value < 0 ? sign : 0);
}

static int random_below(uint64_t *state, int n)
{
    return (int)(mx_case_random(state) % (uint64_t)n);
}

/* ---- Operands on the host ---- */

/* Rows of codes and scales as kernels see them, and what they mean. */
typedef struct operand {
    mx_gemm_element element;
    int64_t groups, rows, k; /* groups: 0 without that dimension, else the count + 1 */
    int64_t row_bytes, group_bytes;
    unsigned char *data;
    size_t data_bytes;
    int64_t scale_rows, scale_blocks; /* allocated */
    int transposed;
    unsigned char *scales;
    size_t scales_bytes;
    double *values; /* [groups, rows, k] */
} operand;

static int64_t operand_groups(const operand *o)
{
    return o->groups ? o->groups - 1 : 1;
}

static unsigned char *scale_at(const operand *o, int64_t group, int64_t row, int64_t block)
{
    int64_t in_group = o->transposed ? block * o->scale_rows + row : row * o->scale_blocks + block;

    return o->scales + group * o->scale_rows * o->scale_blocks + in_group;
}

static void set_code(const operand *o, int64_t group, int64_t row, int64_t i, unsigned code)
{
    unsigned char *at = o->data + group * o->group_bytes + row * o->row_bytes;
    uint16_t half = (uint16_t)code;

    if (o->element == MX_GEMM_BF16)
        memcpy(at + 2 * i, &half, 2);
    else if (o->element != MX_GEMM_MXFP4)
        at[i] = (unsigned char)code;
    else
        at[i / 2] =
            (unsigned char)(i % 2 ? (at[i / 2] & 0x0f) | code << 4 : (at[i / 2] & 0xf0) | code);
}

/* Exponents of a block's scale by the kind of values; `along` is the same for both operands. */
static int scale_exponent(gemm_values values, int is_right, int along, uint64_t *state)
{
    if (values == GEMM_VALUES_SPREAD)
        return random_below(state, 101) - 50;
    if (values == GEMM_VALUES_OPPOSED)
        return (is_right ? -along : along) + random_below(state, 5) - 2;
    return values == GEMM_VALUES_INTEGERS ? 0 : random_below(state, 7) - 3;
}

static unsigned random_code(mx_gemm_element element, gemm_values values, uint64_t *state)
{
    for (;;) {
        unsigned code;
        if (values == GEMM_VALUES_INTEGERS)
            return integer_code(element, random_below(state, 5) - 2);
        /* Of FP8 the middle of the range, so that no single number rules a sum. */
        code = element == MX_GEMM_MXFP4        ? (unsigned)random_below(state, 16)
               : element == MX_GEMM_MXFP8_E4M3 ? (unsigned)random_below(state, 32) + 0x20
                                               : (unsigned)random_below(state, 16) + 0x34;
        if (element != MX_GEMM_MXFP4)
            code |= random_below(state, 2) ? 0x80 : 0;
        if (values == GEMM_VALUES_POSITIVE)
            code &= element == MX_GEMM_MXFP4 ? 7 : 0x7f;
        if (is_finite_code(element, code))
            return code;
    }
}

static void fill_block(const operand *o, gemm_values values, int is_right, int along, int64_t group,
                       int64_t row, int64_t block, uint64_t *state)
{
    int exponent = scale_exponent(values, is_right, along, state);
    double *to = o->values + ((group * o->rows + row) * o->k + block * BLOCK);

    if (o->element != MX_GEMM_BF16)
        *scale_at(o, group, row, block) = (unsigned char)(127 + exponent);
    for (int i = 0; i < BLOCK; i++) {
        if (o->element == MX_GEMM_BF16) {
            /* A random E4M3 number, scaled: a number of four bits. */
            unsigned code = random_code(MX_GEMM_MXFP8_E4M3, values, state);
            float value = (float)ldexp(element_value(MX_GEMM_MXFP8_E4M3, code), exponent);
            to[i] = value;
            set_code(o, group, row, block * BLOCK + i, mx_case_f32_to_bf16(value));
            continue;
        }
        unsigned code = random_code(o->element, values, state);
        to[i] = ldexp(element_value(o->element, code), exponent);
        set_code(o, group, row, block * BLOCK + i, code);
    }
}

static int64_t code_bytes(mx_gemm_element element, int64_t k)
{
    return element == MX_GEMM_MXFP4 ? k / 2 : element == MX_GEMM_BF16 ? 2 * k : k;
}

/* Zero if there is no memory. */
static int operand_init(operand *o, const gemm_case *c, int is_right, uint64_t seed)
{
    uint64_t state = seed;
    int large = c->flags & GEMM_LARGE_SCALES ? 1 : 0;
    int gap = c->flags & GEMM_STRIDED ? (o->element == MX_GEMM_BF16 ? 2 : 1) : 0;
    int64_t groups = operand_groups(o), blocks = o->k / BLOCK;
    int64_t n_scales;

    o->row_bytes = code_bytes(o->element, o->k) + 3 * gap;
    o->group_bytes = o->row_bytes * o->rows + 8 * gap;
    o->data_bytes = (size_t)(o->group_bytes * groups) + GUARD;
    o->scale_rows = o->rows + 5 * large;
    o->scale_blocks = blocks + 3 * large;
    o->transposed = c->flags & GEMM_TRANSPOSED ? 1 : 0;
    n_scales = groups * o->scale_rows * o->scale_blocks;
    o->scales_bytes = (size_t)n_scales + GUARD;
    o->data = malloc(o->data_bytes);
    o->scales = malloc(o->scales_bytes);
    o->values = calloc((size_t)(groups * o->rows * o->k) + 1, sizeof(double));
    if (!o->data || !o->scales || !o->values)
        return 0;
    memset(o->data, POISON, o->data_bytes);
    memset(o->scales, NAN_SCALE, o->scales_bytes);
    for (int64_t b = 0; b < blocks; b++) {
        uint64_t place = (uint64_t)b;
        int along = random_below(&place, 201) - 100;
        for (int64_t g = 0; g < groups; g++) {
            for (int64_t r = 0; r < o->rows; r++)
                fill_block(o, c->values, is_right, along, g, r, b, &state);
        }
    }
    return 1;
}

static void operand_finish(operand *o)
{
    free(o->data);
    free(o->scales);
    free(o->values);
}

/* ---- A case on the host ---- */

typedef struct run {
    mxrt_device *device;
    const gemm_case *c;
    const gemm_kind *kind;
    int64_t groups, m, out_rows, n_columns; /* rows of left (contraction); rows, columns of out */
    int64_t out_groups, out_stride, out_group_stride;
    int64_t read[GEMM_MAX_GROUPS + 1], write[GEMM_MAX_GROUPS + 1];
    operand left, right;
    size_t out_bytes; /* without guards */
    unsigned char *before, *after, *again;
    double *wanted; /* [out_groups, out_rows, n_columns] */
} run;

static int64_t round_up(int64_t value, int64_t to)
{
    return (value + to - 1) / to * to;
}

static void make_offsets(run *r)
{
    const gemm_case *c = r->c;
    int padded = c->flags & GEMM_PADDED ? 1 : 0, is_rows = c->pass == MX_GEMM_ROWS;

    for (int g = 0; g < c->n_groups; g++) {
        int64_t size = c->sizes[g];
        r->write[g + 1] = r->write[g] + size;
        r->read[g + 1] = r->read[g] + (padded ? round_up(size, is_rows ? 32 : 128) : size);
    }
    r->groups = c->n_groups;
    r->m = r->read[c->n_groups];
    /* Rows of left that no group reads. */
    if (is_rows && c->flags & GEMM_UNOWNED)
        r->m += 4;
}

/* Padding: codes of zero, either sign, and any scale (gemm_cols); rows of NaN (gemm_rows). */
static void pad(run *r, operand *o)
{
    uint64_t state = 77;

    for (int g = 0; g < r->c->n_groups && r->c->pass == MX_GEMM_ROWS; g++) {
        for (int64_t row = r->read[g] + r->c->sizes[g]; row < r->read[g + 1]; row++) {
            for (int64_t b = 0; b < o->k / BLOCK; b++)
                *scale_at(o, 0, row, b) = NAN_SCALE;
        }
    }
    for (int g = 0; g < r->c->n_groups && r->c->pass == MX_GEMM_COLS; g++) {
        for (int64_t row = 0; row < o->rows; row++) {
            for (int64_t i = r->read[g] + r->c->sizes[g]; i < r->read[g + 1]; i++) {
                set_code(o, 0, row, i, 0);
                o->values[row * o->k + i] = 0;
                if (o->element != MX_GEMM_BF16 && i % BLOCK == 0)
                    *scale_at(o, 0, row, i / BLOCK) =
                        (unsigned char)(random_below(&state, 3) ? random_below(&state, 256)
                                                                : NAN_SCALE);
            }
        }
    }
}

static void multiply_group(run *r, int64_t g)
{
    int is_rows = r->c->pass == MX_GEMM_ROWS;
    int64_t n_rows = is_rows ? r->c->sizes[g] : r->out_rows;
    int64_t begin = is_rows ? 0 : r->read[g], end = is_rows ? r->left.k : r->read[g + 1];

    for (int64_t i = 0; i < n_rows; i++) {
        const double *a = r->left.values + (is_rows ? r->read[g] + i : i) * r->left.k;
        double *to = r->wanted + ((is_rows ? r->write[g] : g * r->out_rows) + i) * r->n_columns;
        for (int64_t j = 0; j < r->n_columns; j++) {
            const double *b =
                r->right.values + ((is_rows ? g * r->right.rows : 0) + j) * r->right.k;
            double sum = 0;
            for (int64_t k = begin; k < end; k++)
                sum += a[k] * b[k];
            to[j] = sum;
        }
    }
}

static int64_t out_index(const run *r, int64_t group, int64_t row, int64_t column)
{
    return group * r->out_group_stride + row * r->out_stride + column;
}

static double out_value(const run *r, const unsigned char *bytes, int64_t index)
{
    return mx_case_to_f32(r->kind->dtype, bytes + GUARD, index);
}

/* What out holds before: small numbers with `accumulate`, else poison. */
static void fill_out(run *r)
{
    int64_t bytes = mx_dtype_get(r->kind->dtype)->bytes;

    memset(r->before, POISON, r->out_bytes + 2 * GUARD);
    for (int64_t i = 0; r->c->flags & GEMM_ACCUMULATE && i < (int64_t)r->out_bytes / bytes; i++) {
        float value = (float)(i % 17 - 8);
        uint16_t half = mx_case_f32_to_bf16(value);
        memcpy(r->before + GUARD + i * bytes, bytes == 4 ? (void *)&value : (void *)&half,
               (size_t)bytes);
    }
}

static int shape_out(run *r)
{
    const gemm_case *c = r->c;
    int is_rows = c->pass == MX_GEMM_ROWS;
    int64_t bytes = mx_dtype_get(r->kind->dtype)->bytes;

    r->out_groups = is_rows ? 1 : r->groups;
    r->out_rows = is_rows ? r->write[c->n_groups] + (c->flags & GEMM_UNOWNED ? 6 : 0) : c->n;
    r->n_columns = is_rows ? c->n : c->k;
    r->out_stride = r->n_columns;
    if (c->flags & (GEMM_STRIDED | GEMM_ODD_ROWS))
        r->out_stride = r->n_columns + (c->flags & GEMM_STRIDED ? 6 : 2);
    r->out_group_stride = r->out_stride * r->out_rows + (c->flags & GEMM_STRIDED ? 5 : 0);
    r->out_bytes = (size_t)(r->out_group_stride * r->out_groups * bytes);
    r->before = malloc(r->out_bytes + 2 * GUARD);
    r->after = malloc(r->out_bytes + 2 * GUARD);
    r->again = malloc(r->out_bytes + 2 * GUARD);
    r->wanted = calloc((size_t)(r->out_groups * r->out_rows * r->n_columns) + 1, sizeof(double));
    return r->before && r->after && r->again && r->wanted;
}

/* Zero if there is no memory. */
static int run_init(run *r, mxrt_device *device, const gemm_case *c, const gemm_kind *kind)
{
    int is_rows = c->pass == MX_GEMM_ROWS;

    memset(r, 0, sizeof(*r));
    r->device = device;
    r->c = c;
    r->kind = kind;
    make_offsets(r);
    r->left = (operand){.element = kind->left, .rows = is_rows ? r->m : c->n};
    r->right = (operand){.element = kind->right, .rows = is_rows ? c->n : c->k};
    r->left.k = r->right.k = is_rows ? c->k : r->m;
    r->right.groups = is_rows ? r->groups + 1 : 0;
    if (!shape_out(r) || !operand_init(&r->left, c, 0, 1) || !operand_init(&r->right, c, 1, 2))
        return 0;
    if (c->flags & GEMM_PADDED)
        pad(r, &r->left);
    if (c->flags & GEMM_PADDED && !is_rows)
        pad(r, &r->right);
    fill_out(r);
    for (int64_t g = 0; g < r->groups; g++)
        multiply_group(r, g);
    for (int64_t g = 0; c->flags & GEMM_ACCUMULATE && g < r->out_groups; g++) {
        for (int64_t i = 0; i < r->out_rows; i++) {
            for (int64_t j = 0; j < r->n_columns; j++)
                r->wanted[(g * r->out_rows + i) * r->n_columns + j] +=
                    out_value(r, r->before, out_index(r, g, i, j));
        }
    }
    return 1;
}

static void run_finish(run *r)
{
    operand_finish(&r->left);
    operand_finish(&r->right);
    free(r->before);
    free(r->after);
    free(r->again);
    free(r->wanted);
}

/* ---- Comparing ---- */

static gemm_verdict wrong(gemm_outcome *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static gemm_verdict wrong(gemm_outcome *out, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(out->text, sizeof(out->text), format, args);
    va_end(args);
    return GEMM_WRONG;
}

/* Whether the bytes that are no elements of out are as before. */
static gemm_verdict check_gaps(const run *r, gemm_outcome *out)
{
    int64_t bytes = mx_dtype_get(r->kind->dtype)->bytes;
    size_t total = r->out_bytes + 2 * GUARD;
    unsigned char *inside = calloc(total, 1);
    gemm_verdict verdict = GEMM_OK;

    if (!inside)
        return wrong(out, "no memory");
    for (int64_t g = 0; g < r->out_groups; g++) {
        for (int64_t i = 0; i < r->out_rows; i++)
            memset(inside + GUARD + out_index(r, g, i, 0) * bytes, 1,
                   (size_t)(r->n_columns * bytes));
    }
    for (size_t i = 0; !verdict && i < total; i++) {
        if (!inside[i] && r->after[i] != r->before[i])
            verdict =
                wrong(out, "byte %zd of out, which is no element's, changed", (ssize_t)i - GUARD);
    }
    free(inside);
    return verdict;
}

/* Nearest number of the type. */
static double rounded(mx_dtype dtype, double value)
{
    uint16_t half = dtype == MX_DTYPE_BF16 ? mx_case_f32_to_bf16((float)value)
                                           : mx_case_f32_to_f16((float)value);

    return dtype == MX_DTYPE_F32 ? (double)(float)value : mx_case_to_f32(dtype, &half, 0);
}

static double limit_of(const run *r, mx_gemm_mode mode)
{
    if (r->c->values == GEMM_VALUES_INTEGERS && !(r->c->flags & GEMM_ACCUMULATE))
        return 0;
    /* A few sums rule the norm of spread ones, and their rounding may be all of 2^-8. */
    if (r->kind->dtype != MX_DTYPE_F32)
        return r->c->values == GEMM_VALUES_SPREAD ? 4e-3 : 2e-3;
    return mode == MX_GEMM_EXACT ? 1e-6 : 1e-3;
}

static gemm_verdict compare(const run *r, mx_gemm_mode mode, gemm_outcome *out)
{
    double off = 0, norm = 0, worst = 0;
    int64_t at[3] = {0, 0, 0};
    double got_there = 0, wanted_there = 0;
    int exact = limit_of(r, mode) == 0;

    for (int64_t g = 0; g < r->out_groups; g++) {
        for (int64_t i = 0; i < r->out_rows; i++) {
            for (int64_t j = 0; j < r->n_columns; j++) {
                double got = out_value(r, r->after, out_index(r, g, i, j));
                double wanted = r->wanted[(g * r->out_rows + i) * r->n_columns + j];
                double error = fabs(got - (exact ? rounded(r->kind->dtype, wanted) : wanted));
                off += error * error;
                norm += wanted * wanted;
                if (error <= worst) /* false for a NaN */
                    continue;
                worst = error;
                at[0] = g, at[1] = i, at[2] = j;
                got_there = got;
                wanted_there = wanted;
            }
        }
    }
    out->error = norm > 0 ? sqrt(off / norm) : sqrt(off);
    out->limit = limit_of(r, mode);
    if (out->error <= out->limit)
        return GEMM_OK;
    return wrong(out,
                 "relative error %.3g, more than %.3g; worst at group %" PRId64 ", row %" PRId64
                 ", column %" PRId64 ": %.9g, wanted %.9g",
                 out->error, out->limit, at[0], at[1], at[2], got_there, wanted_there);
}

/* ---- On the device ---- */

enum { LEFT, LEFT_SCALES, RIGHT, RIGHT_SCALES, OUT, READ, WRITE, STATUS, WORKSPACE, N_BUFFERS };

typedef struct tensor {
    DLTensor dl;
    int64_t shape[3], strides[3];
} tensor;

typedef struct on_device {
    void *memory[N_BUFFERS];
    tensor tensors[N_BUFFERS];
    mxrt_gemm_request request;
} on_device;

static void set_tensor(tensor *t, DLDevice device, DLDataType type, int ndim, const int64_t *shape,
                       const int64_t *strides, void *data)
{
    for (int i = 0; i < ndim; i++) {
        t->shape[i] = shape[i];
        t->strides[i] = strides[i];
    }
    t->dl =
        (DLTensor){.data = data, .device = device, .ndim = ndim, .dtype = type, .shape = t->shape};
    t->dl.strides = t->strides;
}

static mx_status place(run *r, on_device *d, int buffer, const void *bytes, size_t size_bytes,
                       mx_error *err)
{
    mx_status status = mxrt_device_alloc(r->device, size_bytes, &d->memory[buffer], err);

    return status ? status
                  : mxrt_device_upload(r->device, d->memory[buffer], bytes, size_bytes, err);
}

static const DLDataType u8 = {kDLUInt, 8, 1};

/* Data and scales; `skip` bytes before the data make its address odd. */
static mx_status place_operand(run *r, on_device *d, const operand *o, int data, int scales,
                               DLDevice device, mx_error *err)
{
    int64_t skip = r->c->flags & GEMM_STRIDED ? (o->element == MX_GEMM_BF16 ? 2 : 1) : 0;
    int64_t item = o->element == MX_GEMM_BF16 ? 2 : 1, groups = operand_groups(o);
    int ndim = o->groups ? 3 : 2;
    unsigned char *moved = malloc(o->data_bytes + (size_t)skip);
    if (!moved)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory");
    memset(moved, POISON, o->data_bytes + (size_t)skip);
    memcpy(moved + skip, o->data, o->data_bytes);
    mx_status status = place(r, d, data, moved, o->data_bytes + (size_t)skip, err);
    free(moved);
    if (status || (status = place(r, d, scales, o->scales, o->scales_bytes, err)))
        return status;
    const int64_t shape[] = {groups, o->rows, code_bytes(o->element, o->k) / item};
    const int64_t strides[] = {o->group_bytes / item, o->row_bytes / item, 1};
    DLDataType bf16 = {kDLBfloat, 16, 1};
    set_tensor(&d->tensors[data], device, o->element == MX_GEMM_BF16 ? bf16 : u8, ndim,
               shape + 3 - ndim, strides + 3 - ndim, (unsigned char *)d->memory[data] + skip);
    int64_t rows = o->transposed ? o->scale_blocks : o->scale_rows;
    int64_t columns = o->transposed ? o->scale_rows : o->scale_blocks;
    const int64_t scale_shape[] = {groups, rows, columns};
    const int64_t scale_strides[] = {rows * columns, columns, 1};
    set_tensor(&d->tensors[scales], device, u8, ndim, scale_shape + 3 - ndim,
               scale_strides + 3 - ndim, d->memory[scales]);
    return MX_OK;
}

static mx_status place_offsets(run *r, on_device *d, DLDevice device, mx_error *err)
{
    const int64_t shape[] = {r->groups + 1}, strides[] = {1}, one[] = {1};
    const DLDataType i64 = {kDLInt, 64, 1}, i32 = {kDLInt, 32, 1};
    size_t size_bytes = (size_t)(r->groups + 1) * sizeof(int64_t);
    static const int32_t unset = 0x55555555;
    mx_status status;
    int on_host = r->c->flags & GEMM_HOST_OFFSETS ? 1 : 0;
    DLDevice host = {kDLCPU, 0};

    if ((status = place(r, d, READ, r->read, size_bytes, err)) ||
        (status = place(r, d, WRITE, r->write, size_bytes, err)) ||
        (status = place(r, d, STATUS, &unset, sizeof(unset), err)))
        return status;
    set_tensor(&d->tensors[READ], on_host ? host : device, i64, 1, shape, strides,
               on_host ? r->read : d->memory[READ]);
    set_tensor(&d->tensors[WRITE], on_host ? host : device, i64, 1, shape, strides,
               on_host ? r->write : d->memory[WRITE]);
    set_tensor(&d->tensors[STATUS], device, i32, 1, one, strides, d->memory[STATUS]);
    return MX_OK;
}

static mx_status place_all(run *r, on_device *d, mx_error *err)
{
    mxrt_device_info info;
    int is_rows = r->c->pass == MX_GEMM_ROWS;
    mx_status status = mxrt_device_get_info(r->device, &info, err);

    if (status ||
        (status = place_operand(r, d, &r->left, LEFT, LEFT_SCALES, info.dl_device, err)) ||
        (status = place_operand(r, d, &r->right, RIGHT, RIGHT_SCALES, info.dl_device, err)) ||
        (status = place_offsets(r, d, info.dl_device, err)) ||
        (status = place(r, d, OUT, r->before, r->out_bytes + 2 * GUARD, err)))
        return status;
    const int64_t shape[] = {r->out_groups, r->out_rows, r->n_columns};
    const int64_t strides[] = {r->out_group_stride, r->out_stride, 1};
    set_tensor(&d->tensors[OUT], info.dl_device, mx_case_dl_type(r->kind->dtype), is_rows ? 2 : 3,
               shape + is_rows, strides + is_rows, (unsigned char *)d->memory[OUT] + GUARD);
    d->request = (mxrt_gemm_request){
        .pass = r->c->pass,
        .left_element = r->kind->left,
        .right_element = r->kind->right,
        .mode = r->kind->mode,
        .left = &d->tensors[LEFT].dl,
        .left_scales = r->kind->left == MX_GEMM_BF16 ? NULL : &d->tensors[LEFT_SCALES].dl,
        .right = &d->tensors[RIGHT].dl,
        .right_scales = r->kind->right == MX_GEMM_BF16 ? NULL : &d->tensors[RIGHT_SCALES].dl,
        .out = &d->tensors[OUT].dl,
        .read_offsets = &d->tensors[READ].dl,
        .host_offsets = r->c->flags & GEMM_HOST_OFFSETS ? 1 : 0,
        .left_scales_transposed = r->left.transposed,
        .right_scales_transposed = r->right.transposed,
        .accumulate = r->c->flags & GEMM_ACCUMULATE ? 1 : 0,
        .num_cu = r->c->num_cu,
    };
    if (r->c->flags & (GEMM_PADDED | GEMM_UNOWNED) && is_rows)
        d->request.write_offsets = &d->tensors[WRITE].dl;
    /* Half of the cases have no status word of their own. */
    if (r->c->sizes[0] % 2 || r->c->flags & GEMM_UNOWNED)
        d->request.status = &d->tensors[STATUS].dl;
    return MX_OK;
}

static void release(run *r, on_device *d)
{
    for (int i = 0; i < N_BUFFERS; i++)
        mxrt_device_free(r->device, d->memory[i]);
}

/* Once, from the same memory of out. */
static mx_status run_once(run *r, on_device *d, const mxrt_gemm_plan *plan, unsigned char *after,
                          mx_error *err)
{
    mxrt_gemm_buffers buffers = {.workspace = d->memory[WORKSPACE],
                                 .workspace_bytes = mxrt_gemm_workspace_bytes(plan)};
    size_t size_bytes = r->out_bytes + 2 * GUARD;
    mx_status status = mxrt_device_upload(r->device, d->memory[OUT], r->before, size_bytes, err);

    if (status || (status = mxrt_gemm_run(plan, &buffers, NULL, err)) ||
        (status = mxrt_device_synchronize(r->device, NULL, err)))
        return status;
    return mxrt_device_download(r->device, after, d->memory[OUT], size_bytes, err);
}

/* The workspace holds NaN, as whatever it holds must not matter. */
static mx_status place_workspace(run *r, on_device *d, const mxrt_gemm_plan *plan, mx_error *err)
{
    size_t size_bytes = mxrt_gemm_workspace_bytes(plan);
    unsigned char *poison = malloc(size_bytes + 1);
    mx_status status;

    if (!poison)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory");
    memset(poison, 0xff, size_bytes + 1);
    status = size_bytes ? place(r, d, WORKSPACE, poison, size_bytes, err) : MX_OK;
    free(poison);
    return status;
}

static gemm_verdict run_variant(run *r, on_device *d, int32_t *word, mx_gemm_mode *mode,
                                gemm_outcome *out)
{
    mxrt_gemm_plan *plan = NULL;
    mxrt_gemm_info info;
    mx_error err = {MX_OK, ""};
    mx_status status = mxrt_gemm_plan_create(r->device, &d->request, &plan, &err);

    if (status == MX_ERR_UNSUPPORTED && d->request.variant) {
        snprintf(out->text, sizeof(out->text), "%s", err.message);
        return GEMM_NOT_APPLICABLE;
    }
    if (!status)
        status = mxrt_gemm_get_info(plan, &info, &err);
    *mode = status ? MX_GEMM_FAST : info.mode;
    if (!status)
        status = place_workspace(r, d, plan, &err);
    if (!status)
        status = run_once(r, d, plan, r->after, &err);
    if (!status)
        status = run_once(r, d, plan, r->again, &err);
    if (!status)
        status = mxrt_device_download(r->device, word, d->memory[STATUS], sizeof(*word), &err);
    /* Where nothing is launched nobody writes it. */
    if (!status && (!d->request.status || !strcmp(info.variant, "none")))
        *word = 0;
    mxrt_gemm_plan_destroy(plan);
    return status ? wrong(out, "%s", err.message) : GEMM_OK;
}

gemm_verdict gemm_case_run(mxrt_device *device, const gemm_case *c, const gemm_kind *kind,
                           const char *variant, gemm_outcome *out)
{
    on_device d = {.memory = {NULL}};
    gemm_verdict verdict;
    mx_gemm_mode mode;
    mx_error err = {MX_OK, ""};
    int32_t word = 0;
    run r;

    memset(out, 0, sizeof(*out));
    if (c->flags & GEMM_ACCUMULATE && kind->dtype == MX_DTYPE_F16)
        return GEMM_NOT_APPLICABLE;
    if (c->values == GEMM_VALUES_SPREAD && kind->dtype == MX_DTYPE_F16)
        return GEMM_NOT_APPLICABLE; /* its range does not hold the results */
    if (!run_init(&r, device, c, kind)) {
        run_finish(&r);
        return wrong(out, "no memory");
    }
    if (place_all(&r, &d, &err)) {
        verdict = wrong(out, "%s", err.message);
    } else {
        d.request.variant = variant;
        verdict = run_variant(&r, &d, &word, &mode, out);
        if (!verdict && word)
            verdict = wrong(out, "the status word is %d", (int)word);
        if (!verdict && memcmp(r.after, r.again, r.out_bytes + 2 * GUARD))
            verdict = wrong(out, "a second run gives other bytes");
        if (!verdict)
            verdict = check_gaps(&r, out);
        if (!verdict)
            verdict = compare(&r, mode, out);
    }
    release(&r, &d);
    run_finish(&r);
    return verdict;
}

/* ---- Bad offsets ---- */

gemm_verdict gemm_bad_offsets_run(mxrt_device *device, mx_gemm_pass pass, const gemm_kind *kind,
                                  const char *variant, gemm_outcome *out)
{
    static const gemm_case base[] = {
        {"bad offsets", ROWS, 3, {33, 40, 31}, 40, 64, GEMM_PADDED, 0, GEMM_VALUES_SIGNED},
        {"bad offsets", COLS, 3, {128, 64, 32}, 40, 24, GEMM_STRIDED, 0, GEMM_VALUES_SIGNED},
    };
    static const struct {
        int64_t read[4], write[4];
        int rows, cols; /* the words that are wanted */
    } bad[] = {
        {{0, 64, 32, 160},
         {0, 33, 33, 33},
         MX_GEMM_BAD_ORDER | MX_GEMM_BAD_ROWS,
         MX_GEMM_BAD_ORDER},
        {{-64, 64, 128, 160}, {0, 33, 73, 104}, MX_GEMM_BAD_RANGE, MX_GEMM_BAD_RANGE},
        {{0, 64, 128, INT64_MAX / 32 * 32}, {0, 33, 73, 104}, MX_GEMM_BAD_RANGE, MX_GEMM_BAD_RANGE},
        {{0, 64, 128, 160}, {0, 33, 73, 105}, MX_GEMM_BAD_RANGE, 0},
        {{0, 64, 128, 160}, {0, 70, 73, 104}, MX_GEMM_BAD_ROWS, 0},
        {{0, 65, 128, 160}, {0, 33, 73, 104}, 0, MX_GEMM_BAD_BLOCK},
        {{INT64_MIN, INT64_MAX, INT64_MIN, INT64_MAX}, {3, -3, INT64_MAX, INT64_MIN}, -1, -1},
    };
    gemm_verdict verdict = GEMM_OK;
    memset(out, 0, sizeof(*out));

    for (size_t i = 0; !verdict && i < sizeof(bad) / sizeof(bad[0]); i++) {
        int wanted = pass == ROWS ? bad[i].rows : bad[i].cols;
        on_device d = {.memory = {NULL}};
        mx_error err = {MX_OK, ""};
        mx_gemm_mode mode;
        int32_t word = 0;
        run r;
        int made = run_init(&r, device, &base[pass], kind);
        if (made) {
            memcpy(r.read, bad[i].read, sizeof(bad[i].read));
            memcpy(r.write, bad[i].write, sizeof(bad[i].write));
        }
        if (!made || place_all(&r, &d, &err)) {
            verdict = wrong(out, "no memory: %s", err.message);
        } else {
            d.request.variant = variant;
            d.request.status = &d.tensors[STATUS].dl;
            verdict = run_variant(&r, &d, &word, &mode, out);
            if (!verdict && (wanted < 0 ? word <= 0 : word != wanted))
                verdict = wrong(out, "offsets number %zu: the status word is %d, not %d", i,
                                (int)word, wanted);
            if (!verdict)
                verdict = check_gaps(&r, out);
        }
        release(&r, &d);
        run_finish(&r);
    }
    return verdict;
}

mx_status gemm_variants(mxrt_device *device, mx_gemm_pass pass, const gemm_kind *kind,
                        const char **names, size_t capacity, size_t *n, mx_error *err)
{
    static const gemm_case friendly[] = {
        {"variants", ROWS, 2, {64, 64}, 64, 128, 0, 0, GEMM_VALUES_INTEGERS},
        {"variants", COLS, 2, {128, 128}, 64, 64, 0, 0, GEMM_VALUES_INTEGERS},
    };
    on_device d = {.memory = {NULL}};
    mx_status status = MX_OK;
    run r;

    if (!run_init(&r, device, &friendly[pass], kind))
        status = mx_fail(err, MX_ERR_NO_MEMORY, "no memory");
    if (!status)
        status = place_all(&r, &d, err);
    if (!status)
        status = mxrt_gemm_variants(device, &d.request, names, capacity, n, err);
    release(&r, &d);
    run_finish(&r);
    return status;
}
