/* Products for mxrt tune: sampled rows of their output must be those of a product in double, and
 * all of it, row by row, that of the first variant of which this is true. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "mxrt_tune.h"

enum { SAMPLES = 8, POISON = 0xff /* NaN in every type */ };

/* How far two outputs may be apart in a row, in errors that one of them may have. */
#define ROW_MARGIN 8

typedef struct products {
    gemm_problem *problem;
    gemm_samples samples;
    int is_ready;           /* has memory */
    unsigned char *trusted; /* an output that is right; has_trusted says that there is one */
    unsigned char *found;
    int has_trusted;
    int64_t rows;    /* of out, all groups' */
    double row_norm; /* squares of the trusted output's elements, of a row in the mean */
    void *blank;     /* on the device: what out is before a check */
    int64_t out_bytes;
    void *workspace; /* one for all, as they run in turns */
    size_t workspace_bytes;
} products;

typedef struct product_kernel {
    gemm_kernel run; /* the first, as gemm_kernel_run takes it */
    products *products;
    mxrt_gemm_plan *plan;
    double bound; /* of the error */
} product_kernel;

static mx_status begin(tune_subject *subject, mx_error *err)
{
    products *p = calloc(1, sizeof(*p));
    if (!p)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a problem");
    subject->state = p;
    if (!(p->problem = gemm_problem_create(subject->problem->product, err)))
        return err->status;
    subject->bytes = gemm_problem_bytes(p->problem);
    subject->work = 1e-9 * gemm_problem_flops(p->problem);
    return gemm_problem_place(p->problem, subject->engine->device, err);
}

static mx_status variants(const tune_subject *subject, const char **names, size_t capacity,
                          size_t *n, mx_error *err)
{
    const products *p = subject->state;
    return mxrt_gemm_variants(subject->engine->device, &p->problem->request, names, capacity, n,
                              err);
}

static mx_status key(const tune_subject *subject, const char *name, mxrt_tune_row *row,
                     mx_error *err)
{
    const products *p = subject->state;
    return mxrt_gemm_tune_key(subject->engine->device, &p->problem->request, name, row, err);
}

static mx_status choose(const tune_subject *subject, mxrt_policy policy, mxrt_choice *choice,
                        mx_error *err)
{
    const products *p = subject->state;
    mxrt_gemm_request request = p->problem->request;
    request.policy = policy;
    return mxrt_gemm_explain(subject->engine->device, &request, choice, err);
}

static mx_status prepare(tune_subject *subject, mx_error *err)
{
    products *p = subject->state;
    mxrt_device *device = subject->engine->device;
    size_t bytes = (size_t)(p->out_bytes = gemm_problem_out_bytes(p->problem));
    p->is_ready = 1;
    p->trusted = malloc(bytes + 1);
    p->found = malloc(bytes + 1);
    mx_status status = gemm_problem_init(p->problem, device, subject->counts ? 1 : 0, err);
    if (status == MX_OK && (!p->trusted || !p->found))
        status = mx_fail(err, MX_ERR_NO_MEMORY, "no memory for two outputs of %zu bytes", bytes);
    if (status == MX_OK)
        status = gemm_samples_init(&p->samples, p->problem, SAMPLES, err);
    if (status == MX_OK)
        status = mxrt_device_alloc(device, bytes ? bytes : 1, &p->blank, err);
    if (status == MX_OK) {
        /* What is added to is zero. */
        memset(p->found, p->problem->request.accumulate ? 0 : POISON, bytes);
        status = mxrt_device_upload(device, p->blank, p->found, bytes, err);
    }
    return status;
}

/* ---- Kernels ---- */

/* Of the sum in its mode (mxgen/gemm.h), and of rounding to the type of out. */
static double error_bound(const mxrt_gemm_info *info)
{
    static const double modes[] = {[MX_GEMM_FAST] = 1e-3, [MX_GEMM_EXACT] = 1e-6};
    static const double types[] = {
        [MX_DTYPE_F32] = 0x1p-24, [MX_DTYPE_BF16] = 0x1p-9, [MX_DTYPE_F16] = 0x1p-12};
    return modes[info->mode] + types[info->dtype];
}

static mx_status reserve(products *p, mxrt_device *device, size_t bytes, mx_error *err)
{
    if (bytes <= p->workspace_bytes)
        return MX_OK;
    mxrt_device_free(device, p->workspace);
    p->workspace = NULL;
    p->workspace_bytes = 0;
    mx_status status = mxrt_device_alloc(device, bytes, &p->workspace, err);
    if (status == MX_OK)
        p->workspace_bytes = bytes;
    return status;
}

static mx_status open_kernel(tune_subject *subject, const char *name, void **kernel, mx_error *err)
{
    products *p = subject->state;
    mxrt_gemm_request request = p->problem->request;
    product_kernel *made = calloc(1, sizeof(*made));
    mxrt_gemm_info info;
    if (!made)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a kernel");
    *kernel = made;
    request.variant = name;
    mx_status status = mxrt_gemm_plan_create(subject->engine->device, &request, &made->plan, err);
    if (status == MX_OK)
        status = mxrt_gemm_get_info(made->plan, &info, err);
    if (status != MX_OK)
        return status;
    made->products = p;
    made->run = (gemm_kernel){.plan = made->plan, .problem = p->problem};
    made->bound = error_bound(&info);
    return reserve(p, subject->engine->device, info.workspace_bytes, err);
}

static void close_kernel(void *kernel)
{
    product_kernel *k = kernel;
    if (k)
        mxrt_gemm_plan_destroy(k->plan);
    free(k);
}

/* The workspace may have moved since the kernel was opened. */
static mx_status run_kernel(void *kernel, mxrt_stream stream, mx_error *err)
{
    product_kernel *k = kernel;
    k->run.buffers.workspace = k->products->workspace;
    k->run.buffers.workspace_bytes = k->products->workspace_bytes;
    return gemm_kernel_run(&k->run, stream, err);
}

/* ---- What is right ---- */

static double value_at(const products *p, const unsigned char *out, int64_t index)
{
    return mx_case_to_f32(p->problem->dtype, out, index);
}

static double square(double value)
{
    return isinf(value) ? 0 : value * value; /* sums of f16 may overflow, in all outputs alike */
}

/* Takes an output whose samples are right, unless part of it was not written. Returns whether it
 * did. */
static int trust(products *p)
{
    const int64_t *shape = p->problem->out_shape;
    int64_t n = p->out_bytes / mx_dtype_get(p->problem->dtype)->bytes;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += square(value_at(p, p->found, i));
    if (isnan(sum))
        return 0;
    memcpy(p->trusted, p->found, (size_t)p->out_bytes);
    p->rows = shape[2] ? n / shape[2] : 0;
    p->row_norm = p->rows ? sum / (double)p->rows : 0;
    p->has_trusted = 1;
    return 1;
}

/* The first row that is farther from the trusted output than two right ones can be; -1: none. */
static int64_t find_wrong_row(const products *p, double bound)
{
    int64_t columns = p->problem->out_shape[2];
    for (int64_t row = 0; row < p->rows; row++) {
        double off = 0, norm = 0;
        for (int64_t i = row * columns; i < (row + 1) * columns; i++) {
            double value = value_at(p, p->trusted, i), found = value_at(p, p->found, i);
            double error = found == value ? 0 : found - value;
            norm += square(value);
            off += error * error;
        }
        norm = norm > p->row_norm ? norm : p->row_norm;
        if (!(off <= ROW_MARGIN * ROW_MARGIN * bound * bound * norm))
            return row;
    }
    return -1;
}

static mx_status compare(products *p, const tune_subject *subject, double bound, char *why,
                         size_t why_bytes, mx_error *err)
{
    double error = 0;
    mx_status status =
        gemm_samples_error(&p->samples, p->problem, subject->engine->device, &error, err);
    int64_t row = -1;
    if (status != MX_OK)
        return status;
    if (!(error <= bound))
        snprintf(why, why_bytes, "wrong values: error %.3g of sampled rows, at most %.3g is right",
                 error, bound);
    else if (p->has_trusted)
        row = find_wrong_row(p, bound);
    else if (!trust(p))
        snprintf(why, why_bytes, "wrong values: the output has NaN, or is not all written");
    if (row >= 0)
        snprintf(why, why_bytes,
                 "wrong values: row %lld of the output is not that of the first right variant",
                 (long long)row);
    return MX_OK;
}

static mx_status check(tune_subject *subject, void *kernel, char *why, size_t why_bytes,
                       mx_error *err)
{
    products *p = subject->state;
    const product_kernel *k = kernel;
    mxrt_device *device = subject->engine->device;
    int32_t word = 0;
    mx_status status =
        mxrt_device_copy(device, p->problem->out, p->blank, (size_t)p->out_bytes, NULL, err);
    if (status == MX_OK)
        status = run_kernel(kernel, NULL, err);
    if (status == MX_OK)
        status = mxrt_device_synchronize(device, NULL, err);
    if (status == MX_OK)
        status = mxrt_device_download(device, p->found, p->problem->out, (size_t)p->out_bytes, err);
    if (status == MX_OK)
        status = mxrt_device_download(device, &word, p->problem->status, sizeof(word), err);
    if (status != MX_OK)
        return status;
    if (word) {
        snprintf(why, why_bytes, "wrong status word %d, of offsets that are right", (int)word);
        return MX_OK;
    }
    return compare(p, subject, k->bound, why, why_bytes, err);
}

static void finish(tune_subject *subject)
{
    products *p = subject->state;
    mxrt_device *device = subject->engine->device;
    if (!p)
        return;
    gemm_samples_finish(&p->samples);
    mxrt_device_free(device, p->blank);
    mxrt_device_free(device, p->workspace);
    free(p->trusted);
    free(p->found);
    if (p->problem && p->is_ready)
        gemm_problem_finish(p->problem, device);
    free(p->problem);
    free(p);
}

const tune_family tune_gemm = {.begin = begin,
                               .variants = variants,
                               .key = key,
                               .choose = choose,
                               .prepare = prepare,
                               .open = open_kernel,
                               .close = close_kernel,
                               .check = check,
                               .run = run_kernel,
                               .finish = finish};
