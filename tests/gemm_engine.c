#include "gemm_rig.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "cases.h"

enum { BLOCK = 32, POISON = GEMM_POISON, NAN_SCALE = 255, GUARD = GEMM_GUARD };

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
    {"near", ROWS, 2, {40, 70}, 96, 512, 0, 0, GEMM_VALUES_OPPOSED_NEAR},
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
    {"gaps", ROWS, 3, {3, 70, 12}, 96, 160, GEMM_GAPS, 0, GEMM_VALUES_SIGNED},
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
    {"near", COLS, 2, {384, 256}, 72, 96, 0, 0, GEMM_VALUES_OPPOSED_NEAR},
    {"tails", COLS, 3, {416, 0, 160}, 270, 300, 0, 0, GEMM_VALUES_SIGNED},
    {"empty groups", COLS, 3, {0, 0, 0}, 24, 40, 0, 0, GEMM_VALUES_SIGNED},
    {"padded", COLS, 4, {100, 0, 130, 1}, 64, 48, GEMM_PADDED, 0, GEMM_VALUES_SIGNED},
    {"transposed", COLS, 3, {256, 0, 64}, 72, 96, GEMM_TRANSPOSED, 0, GEMM_VALUES_SPREAD},
    {"large scales", COLS, 2, {96, 128}, 40, 24, GEMM_LARGE_SCALES, 0, GEMM_VALUES_SIGNED},
    {"accumulate", COLS, 3, {192, 0, 128}, 56, 96, GEMM_ACCUMULATE, 0, GEMM_VALUES_SIGNED},
    {"strided", COLS, 2, {128, 96}, 50, 44, GEMM_STRIDED, 0, GEMM_VALUES_SIGNED},
    {"gaps", COLS, 2, {128, 96}, 72, 80, GEMM_GAPS, 0, GEMM_VALUES_SIGNED},
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
    static const char *const names[] = {"signed",  "positive", "spread",
                                        "opposed", "integers", "opposed near"};
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

int64_t gemm_operand_groups(const gemm_operand *o)
{
    return o->groups ? o->groups - 1 : 1;
}

static unsigned char *scale_at(const gemm_operand *o, int64_t group, int64_t row, int64_t block)
{
    int64_t in_group = o->transposed ? block * o->scale_rows + row : row * o->scale_blocks + block;

    return o->scales + group * o->scale_rows * o->scale_blocks + in_group;
}

static void set_code(const gemm_operand *o, int64_t group, int64_t row, int64_t i, unsigned code)
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
    if (values == GEMM_VALUES_OPPOSED_NEAR)
        return is_right ? -(along & 7) : along & 7;
    return values == GEMM_VALUES_INTEGERS ? 0 : random_below(state, 7) - 3;
}

static unsigned random_code(mx_gemm_element element, gemm_values values, uint64_t *state)
{
    for (;;) {
        unsigned code;
        if (values == GEMM_VALUES_INTEGERS)
            return integer_code(element, random_below(state, 5) - 2);
        /* Of FP8 the middle of the range, so that no single number rules a sum. */
        unsigned up = values == GEMM_VALUES_OPPOSED_NEAR ? 0x3c : 0;
        code = element == MX_GEMM_MXFP4        ? (unsigned)random_below(state, 16)
               : element == MX_GEMM_MXFP8_E4M3 ? (unsigned)random_below(state, 32) + 0x20 + up
                                               : (unsigned)random_below(state, 16) + 0x34 + up;
        if (element != MX_GEMM_MXFP4)
            code |= random_below(state, 2) ? 0x80 : 0;
        if (values == GEMM_VALUES_POSITIVE)
            code &= element == MX_GEMM_MXFP4 ? 7 : 0x7f;
        if (is_finite_code(element, code))
            return code;
    }
}

static void fill_block(const gemm_operand *o, gemm_values values, int is_right, int along,
                       int64_t group, int64_t row, int64_t block, uint64_t *state)
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
        if (i == 0 && values == GEMM_VALUES_OPPOSED_NEAR)
            code = o->element == MX_GEMM_MXFP4 ? 7 : 0x7a;
        to[i] = ldexp(element_value(o->element, code), exponent);
        set_code(o, group, row, block * BLOCK + i, code);
    }
}

int64_t gemm_code_bytes(mx_gemm_element element, int64_t k)
{
    return element == MX_GEMM_MXFP4 ? k / 2 : element == MX_GEMM_BF16 ? 2 * k : k;
}

/* Zero if there is no memory. */
static int operand_init(gemm_operand *o, const gemm_case *c, int is_right, uint64_t seed)
{
    uint64_t state = seed;
    int large = c->flags & GEMM_LARGE_SCALES ? 1 : 0;
    int item = o->element == MX_GEMM_BF16 ? 2 : 1;
    int gap = c->flags & GEMM_STRIDED ? 3 * item : c->flags & GEMM_GAPS ? 16 : 0;
    int64_t groups = gemm_operand_groups(o), blocks = o->k / BLOCK;
    int64_t n_scales;

    o->row_bytes = gemm_code_bytes(o->element, o->k) + gap;
    o->group_bytes = o->row_bytes * o->rows + 2 * gap;
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

static void operand_finish(gemm_operand *o)
{
    free(o->data);
    free(o->scales);
    free(o->values);
}

/* ---- A case on the host ---- */

static int64_t round_up(int64_t value, int64_t to)
{
    return (value + to - 1) / to * to;
}

static void make_offsets(gemm_run *r)
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
static void pad(gemm_run *r, gemm_operand *o)
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

/* Sums of four products at once, so that none waits for the one before. */
static void multiply_four(const double *a, const double *b, int64_t stride, int64_t begin,
                          int64_t end, double sums[4])
{
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0;

    for (int64_t k = begin; k < end; k++) {
        s0 += a[k] * b[k];
        s1 += a[k] * b[stride + k];
        s2 += a[k] * b[2 * stride + k];
        s3 += a[k] * b[3 * stride + k];
    }
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3;
}

static void multiply_group(gemm_run *r, int64_t g)
{
    int is_rows = r->c->pass == MX_GEMM_ROWS;
    int64_t n_rows = is_rows ? r->c->sizes[g] : r->out_rows, stride = r->right.k;
    int64_t begin = is_rows ? 0 : r->read[g], end = is_rows ? r->left.k : r->read[g + 1];
    const double *right = r->right.values + (is_rows ? g * r->right.rows * stride : 0);

    for (int64_t i = 0; i < n_rows; i++) {
        const double *a = r->left.values + (is_rows ? r->read[g] + i : i) * r->left.k;
        double *to = r->wanted + ((is_rows ? r->write[g] : g * r->out_rows) + i) * r->n_columns;
        for (int64_t j = 0, n; j < r->n_columns; j += n) {
            double sums[4];
            n = r->n_columns - j < 4 ? 1 : 4;
            multiply_four(a, right + j * stride, n < 4 ? 0 : stride, begin, end, sums);
            memcpy(to + j, sums, (size_t)n * sizeof(double));
        }
    }
}

static int64_t out_index(const gemm_run *r, int64_t group, int64_t row, int64_t column)
{
    return group * r->out_group_stride + row * r->out_stride + column;
}

static double out_value(const gemm_run *r, const unsigned char *bytes, int64_t index)
{
    return mx_case_to_f32(r->kind->dtype, bytes + GUARD, index);
}

/* What out holds before: small numbers with `accumulate`, else poison. */
static void fill_out(gemm_run *r)
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

static int shape_out(gemm_run *r)
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
    if (c->flags & GEMM_GAPS)
        r->out_stride = r->n_columns + 8;
    r->out_group_stride = r->out_stride * r->out_rows + (c->flags & GEMM_STRIDED ? 5 : 0);
    r->out_bytes = (size_t)(r->out_group_stride * r->out_groups * bytes);
    r->before = malloc(r->out_bytes + 2 * GUARD);
    r->after = malloc(r->out_bytes + 2 * GUARD);
    r->again = malloc(r->out_bytes + 2 * GUARD);
    r->wanted = calloc((size_t)(r->out_groups * r->out_rows * r->n_columns) + 1, sizeof(double));
    return r->before && r->after && r->again && r->wanted;
}

/* Zero if there is no memory. */
int gemm_run_init(gemm_run *r, mxrt_device *device, const gemm_case *c, const gemm_kind *kind)
{
    int is_rows = c->pass == MX_GEMM_ROWS;

    memset(r, 0, sizeof(*r));
    r->device = device;
    r->c = c;
    r->kind = kind;
    make_offsets(r);
    r->left = (gemm_operand){.element = kind->left, .rows = is_rows ? r->m : c->n};
    r->right = (gemm_operand){.element = kind->right, .rows = is_rows ? c->n : c->k};
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

void gemm_run_finish(gemm_run *r)
{
    operand_finish(&r->left);
    operand_finish(&r->right);
    free(r->before);
    free(r->after);
    free(r->again);
    free(r->wanted);
}

/* ---- Comparing ---- */

gemm_verdict gemm_wrong(gemm_outcome *out, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(out->text, sizeof(out->text), format, args);
    va_end(args);
    return GEMM_WRONG;
}

/* Whether the bytes that are no elements of out are as before. */
gemm_verdict gemm_check_gaps(const gemm_run *r, gemm_outcome *out)
{
    int64_t bytes = mx_dtype_get(r->kind->dtype)->bytes;
    size_t total = r->out_bytes + 2 * GUARD;
    unsigned char *inside = calloc(total, 1);
    gemm_verdict verdict = GEMM_OK;

    if (!inside)
        return gemm_wrong(out, "no memory");
    for (int64_t g = 0; g < r->out_groups; g++) {
        for (int64_t i = 0; i < r->out_rows; i++)
            memset(inside + GUARD + out_index(r, g, i, 0) * bytes, 1,
                   (size_t)(r->n_columns * bytes));
    }
    for (size_t i = 0; !verdict && i < total; i++) {
        if (!inside[i] && r->after[i] != r->before[i])
            verdict = gemm_wrong(out, "byte %zd of out, which is no element's, changed",
                                 (ssize_t)i - GUARD);
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

static double limit_of(const gemm_run *r, mx_gemm_mode mode)
{
    if (r->c->values == GEMM_VALUES_INTEGERS && !(r->c->flags & GEMM_ACCUMULATE))
        return 0;
    /* A few sums rule the norm of spread ones, and their rounding may be all of 2^-8. */
    if (r->kind->dtype != MX_DTYPE_F32)
        return r->c->values == GEMM_VALUES_SPREAD ? 4e-3 : 2e-3;
    return mode == MX_GEMM_EXACT ? 1e-6 : 1e-3;
}

gemm_verdict gemm_compare(const gemm_run *r, mx_gemm_mode mode, gemm_outcome *out)
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
                double nearest = rounded(r->kind->dtype, wanted);
                if (isinf(nearest) && got == nearest)
                    continue; /* f16 does not hold it */
                double error = fabs(got - (exact ? nearest : wanted));
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
    return gemm_wrong(out,
                      "relative error %.3g, more than %.3g; worst at group %" PRId64
                      ", row %" PRId64 ", column %" PRId64 ": %.9g, wanted %.9g",
                      out->error, out->limit, at[0], at[1], at[2], got_there, wanted_there);
}
