/* How exact a product is: sampled rows of out against the product in double of decoded operands. */
#include "mxrt_gemm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

enum { BLOCK = 32 };

/* ---- Operands ---- */

static double code_value(mx_gemm_element element, unsigned code)
{
    static const struct {
        int exponent_bits, mantissa_bits, bias;
    } layouts[] = {{2, 1, 1}, {4, 3, 7}, {5, 2, 15}};
    int m_bits = layouts[element].mantissa_bits, e_bits = layouts[element].exponent_bits;
    int exponent = (int)(code >> m_bits) & ((1 << e_bits) - 1);
    double mantissa = ldexp((double)(code & ((1u << m_bits) - 1)), -m_bits);
    double value =
        ldexp(mantissa + (exponent > 0), (exponent ? exponent : 1) - layouts[element].bias);

    return code >> (e_bits + m_bits) & 1 ? -value : value;
}

typedef struct decoder {
    double codes[256]; /* scaled formats */
    double scales[256];
} decoder;

static void decoder_init(decoder *d, mx_gemm_element element)
{
    for (int i = 0; i < 256; i++) {
        d->scales[i] = ldexp(1, i - 127);
        d->codes[i] = element == MX_GEMM_BF16 ? 0 : code_value(element, (unsigned)i);
    }
}

/* Elements begin .. end - 1 of a row; begin is a multiple of 32. */
static void decode_row(const decoder *d, const gemm_operand *o, int64_t row, int64_t begin,
                       int64_t end, double *out)
{
    const unsigned char *scales = o->scales + row * (o->contraction / BLOCK);

    for (int64_t i = begin; i < end; i++) {
        if (o->element == MX_GEMM_BF16) {
            out[i - begin] = mx_case_to_f32(MX_DTYPE_BF16, o->data, row * o->contraction + i);
            continue;
        }
        unsigned code = o->element == MX_GEMM_MXFP4
                            ? o->data[(row * o->contraction + i) / 2] >> (i % 2 * 4) & 15u
                            : o->data[row * o->contraction + i];
        out[i - begin] = d->codes[code] * d->scales[scales[i / BLOCK]];
    }
}

/* ---- Samples ---- */

/* Row i of n of all rows of out that have an owner, and its group. */
static void pick(const gemm_problem *problem, int64_t i, int64_t n, int64_t *group, int64_t *row)
{
    int is_rows = problem->pass != GEMM_WGRAD;
    int64_t in_group = problem->out_shape[1];
    int64_t total = is_rows ? problem->rows : in_group * problem->shape.groups;
    int64_t at = n > 1 ? (total - 1) * i / (n - 1) : 0;

    *row = is_rows ? at : at % in_group;
    *group = is_rows ? 0 : at / in_group;
    while (is_rows && at >= problem->offsets[*group + 1])
        ++*group;
}

static mx_status multiply_samples(gemm_samples *samples, const gemm_problem *problem, mx_error *err)
{
    int is_rows = problem->pass != GEMM_WGRAD;
    int64_t k = problem->left.contraction;
    double *lefts = malloc((size_t)(samples->n * k + 1) * sizeof(double));
    double *right = malloc((size_t)(k + 1) * sizeof(double));
    decoder left_decoder, right_decoder;

    if (!lefts || !right) {
        free(lefts);
        free(right);
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %d sampled rows", samples->n);
    }
    decoder_init(&left_decoder, problem->left.element);
    decoder_init(&right_decoder, problem->right.element);
    for (int i = 0; i < samples->n; i++)
        decode_row(&left_decoder, &problem->left, samples->rows[i], 0, k, lefts + i * k);
    /* Samples of one group follow one another, and share a decoded row of right. */
    for (int first = 0, last; first < samples->n; first = last) {
        int64_t group = samples->groups[first];
        int64_t begin = is_rows ? 0 : problem->offsets[group];
        int64_t end = is_rows ? k : problem->offsets[group + 1];
        for (last = first; last < samples->n && samples->groups[last] == group; last++)
            ;
        for (int64_t j = 0; j < samples->columns; j++) {
            decode_row(&right_decoder, &problem->right,
                       (is_rows ? group * problem->right.rows : 0) + j, begin, end, right);
            for (int i = first; i < last; i++) {
                double sum = 0;
                for (int64_t c = begin; c < end; c++)
                    sum += lefts[i * k + c] * right[c - begin];
                samples->wanted[i * samples->columns + j] = sum;
            }
        }
    }
    free(lefts);
    free(right);
    return MX_OK;
}

mx_status gemm_samples_init(gemm_samples *samples, const gemm_problem *problem, int n,
                            mx_error *err)
{
    int64_t total =
        problem->pass != GEMM_WGRAD ? problem->rows : problem->out_shape[1] * problem->shape.groups;

    memset(samples, 0, sizeof(*samples));
    samples->n = n < total ? n : (int)total;
    samples->columns = problem->out_shape[2];
    samples->groups = calloc((size_t)samples->n + 1, sizeof(int64_t));
    samples->rows = calloc((size_t)samples->n + 1, sizeof(int64_t));
    samples->wanted = calloc((size_t)(samples->n * samples->columns) + 1, sizeof(double));
    if (!samples->groups || !samples->rows || !samples->wanted)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %d sampled rows", samples->n);
    for (int i = 0; i < samples->n; i++)
        pick(problem, i, samples->n, &samples->groups[i], &samples->rows[i]);
    return multiply_samples(samples, problem, err);
}

void gemm_samples_finish(gemm_samples *samples)
{
    free(samples->groups);
    free(samples->rows);
    free(samples->wanted);
}

mx_status gemm_samples_error(const gemm_samples *samples, const gemm_problem *problem,
                             mxrt_device *device, double *out, mx_error *err)
{
    int64_t row_size = samples->columns * mx_dtype_get(problem->dtype)->bytes;
    int64_t in_group = problem->pass == GEMM_WGRAD ? problem->out_shape[1] : 0;
    unsigned char *row = malloc((size_t)row_size + 1);
    double off = 0, norm = 0;
    mx_status status = MX_OK;

    if (!row)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a row of out");
    for (int i = 0; !status && i < samples->n; i++) {
        int64_t at = samples->groups[i] * in_group + samples->rows[i];
        status = mxrt_device_download(device, row, (char *)problem->out + at * row_size,
                                      (size_t)row_size, err);
        for (int64_t j = 0; !status && j < samples->columns; j++) {
            double wanted = samples->wanted[i * samples->columns + j];
            double error = mx_case_to_f32(problem->dtype, row, j) - wanted;
            off += error * error;
            norm += wanted * wanted;
        }
    }
    free(row);
    if (!status)
        *out = norm > 0 ? sqrt(off / norm) : sqrt(off);
    return status;
}
