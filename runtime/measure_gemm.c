/* Products measured at once: on the caller's operands, with an output, a status word and a
 * workspace of their own. Sums are rounded in other orders, so that their outputs are compared as
 * numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "runtime/gemm_plan.h"
#include "runtime/measure_now.h"
#include "runtime/reference_numbers.h"
#include "runtime/tuned.h"

typedef struct products {
    mxrt_gemm_table *table;
    mxrt_gemm_problem problem;
    mxrt_gemm_plan *plans; /* one a route of the table; those that apply are set */
    void *scratch, *status, *workspace;
    mxrt_gemm_buffers buffers;
} products;

static int is_known(const mxrt_trial *trial)
{
    const products *p = trial->state;
    mxrt_gemm_selection unused;
    mxrt_choice choice;

    return !p->table->n_routes || (!mxrt_gemm_select(trial->device, p->table, &p->problem,
                                                     MXRT_POLICY_CACHED, &unused, &choice, NULL) &&
                                   choice.source == MXRT_SOURCE_EXACT);
}

static mx_status add_candidate(mxrt_trial *trial, size_t index, const mxrt_gemm_route *models,
                               mx_error *err)
{
    products *p = trial->state;
    const mxrt_gemm_route *route = &p->table->routes[index];
    int64_t values[MXRT_GEMM_VAR_COUNT];
    mxrt_gemm_selection selection;

    mxrt_gemm_problem_vars(&p->problem, trial->device->info.compute_units, values);
    if (!mxrt_gemm_serves(route, &p->problem) ||
        mxrt_gemm_select_route(route, values, &selection, NULL))
        return MX_OK;
    trial->candidates[trial->n++] = (mxrt_trial_candidate){
        .variant = (uint32_t)index,
        .is_first = route == models,
        .score = mxrt_gemm_select_score(trial->device, &p->problem, &selection)};
    return mxrt_gemm_plan_set(&p->plans[index], trial->device, &p->problem, &selection, err);
}

static mx_status list(mxrt_trial *trial, mx_error *err)
{
    products *p = trial->state;
    const mxrt_gemm_table *table = p->table;
    mxrt_gemm_selection models;
    mx_status status = MX_OK;

    if (mxrt_gemm_select(trial->device, table, &p->problem, MXRT_POLICY_MODEL, &models, NULL, NULL))
        return MX_OK; /* nothing applies */
    trial->candidates = calloc(table->n_routes, sizeof(*trial->candidates));
    p->plans = calloc(table->n_routes, sizeof(*p->plans));
    if (!trial->candidates || !p->plans)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu kernels", table->n_routes);
    for (size_t i = 0; !status && i < table->n_routes; i++)
        status = add_candidate(trial, i, models.route, err);
    return status;
}

static mx_status prepare(mxrt_trial *trial, mx_error *err)
{
    products *p = trial->state;
    mxrt_device *device = trial->device;
    const mxrt_buffer *out = &p->problem.buffers[MXRT_GEMM_OUT];
    int64_t workspace = 0;
    mx_status status;

    for (size_t i = 0; i < trial->n; i++) {
        int64_t bytes = p->plans[trial->candidates[i].variant].workspace_bytes;
        workspace = bytes > workspace ? bytes : workspace;
    }
    trial->output_bytes = (size_t)out->extent_bytes;
    trial->expected = malloc(trial->output_bytes);
    trial->found = malloc(trial->output_bytes);
    if (!trial->expected || !trial->found)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for two outputs of %zu bytes",
                       trial->output_bytes);
    if ((status = mxrt_trial_alloc(device, out, &p->scratch, &p->buffers.out, err)) ||
        (workspace &&
         (status = device->ops->alloc(device->backend, (size_t)workspace, &p->workspace, err))))
        return status;
    p->buffers.workspace = p->workspace;
    p->buffers.workspace_bytes = (size_t)workspace;
    if (!p->problem.buffers[MXRT_GEMM_STATUS].extent_bytes)
        return MX_OK;
    status = device->ops->alloc(device->backend, sizeof(int64_t), &p->status, err);
    p->buffers.status = p->status;
    return status;
}

static mx_status launch(const mxrt_trial *trial, uint32_t variant, mxrt_stream stream,
                        mx_error *err)
{
    const products *p = trial->state;

    return mxrt_gemm_run(&p->plans[variant], &p->buffers, stream, err);
}

/* What is added to is zero; else NaN of every type, so that what is not written is seen. */
static mx_status upload(const mxrt_trial *trial, unsigned char *out, mx_error *err)
{
    const products *p = trial->state;

    memset(out, p->problem.accumulate ? 0 : 0xff, trial->output_bytes);
    return trial->device->ops->upload(trial->device->backend, p->buffers.out, out,
                                      trial->output_bytes, err);
}

static mx_status download(const mxrt_trial *trial, unsigned char *out, mx_error *err)
{
    const products *p = trial->state;

    return trial->device->ops->download(trial->device->backend, out, p->buffers.out,
                                        trial->output_bytes, err);
}

/* ---- Comparing ---- */

static double value_at(mx_dtype dtype, const unsigned char *out, int64_t index)
{
    uint32_t bits = 0;
    uint16_t half;

    if (dtype == MX_DTYPE_F32) {
        memcpy(&bits, out + index * (int64_t)sizeof(bits), sizeof(bits));
        return (double)float_of(bits);
    }
    memcpy(&half, out + index * (int64_t)sizeof(half), sizeof(half));
    return (double)float_of(dtype == MX_DTYPE_BF16 ? (uint32_t)half << 16 : f16_widen(half));
}

/* Squares of errors and of values of a row; infinite where only one has a NaN, or an infinity. */
static void add_row(const mxrt_trial *trial, int64_t at, int64_t n, double *off, double *norm)
{
    const products *p = trial->state;

    for (int64_t i = at; i < at + n; i++) {
        double wanted = value_at(p->problem.dtype, trial->expected, i);
        double found = value_at(p->problem.dtype, trial->found, i);
        if (wanted == found || (isnan(wanted) && isnan(found)))
            found = wanted = isfinite(wanted) ? wanted : 0;
        double error = found - wanted;
        *off += isnan(error) ? INFINITY : error * error;
        *norm += isfinite(wanted) ? wanted * wanted : 0;
    }
}

/* Both may err by what mxgen/gemm.h allows, and by rounding. */
static int is_same(const mxrt_trial *trial)
{
    static const double modes[] = {[MX_GEMM_FAST] = 1e-3, [MX_GEMM_EXACT] = 1e-6};
    static const double types[] = {
        [MX_DTYPE_F32] = 0x1p-24, [MX_DTYPE_BF16] = 0x1p-9, [MX_DTYPE_F16] = 0x1p-12};
    const products *p = trial->state;
    const mxrt_gemm_problem *problem = &p->problem;
    int is_rows = problem->pass == MX_GEMM_ROWS;
    int64_t groups = is_rows ? 1 : problem->groups;
    int64_t rows = is_rows ? problem->out_rows : problem->n;
    int64_t columns = is_rows ? problem->n : problem->k;
    double off = 0, norm = 0, bound = modes[problem->mode] + types[problem->dtype];

    for (int64_t i = 0; i < groups * rows; i++)
        add_row(trial, i / rows * problem->out_group_stride + i % rows * problem->out_row_stride,
                columns, &off, &norm);
    return off <= 4 * bound * bound * norm;
}

/* ---- The rest ---- */

static void key(const mxrt_trial *trial, uint32_t variant, mxrt_tune_row *row)
{
    const products *p = trial->state;
    const mxrt_gemm_problem *problem = &p->problem;

    mxrt_gemm_tuned_key(trial->device, problem, &p->table->routes[variant], row);
    snprintf(row->shape, sizeof(row->shape), "%lld groups, %lldx%lldx%lld",
             (long long)problem->groups, (long long)problem->m, (long long)problem->n,
             (long long)problem->k);
}

static const char *name(const mxrt_trial *trial, uint32_t variant)
{
    const products *p = trial->state;

    return mxrt_gemm_route_main(&p->table->routes[variant])->info.name;
}

static void finish(mxrt_trial *trial)
{
    products *p = trial->state;
    const mxrt_backend_ops *ops = trial->device->ops;

    ops->free(trial->device->backend, p->scratch);
    ops->free(trial->device->backend, p->status);
    ops->free(trial->device->backend, p->workspace);
    free(p->plans);
}

static const mxrt_trial_family family = {.is_known = is_known,
                                         .list = list,
                                         .prepare = prepare,
                                         .launch = launch,
                                         .upload = upload,
                                         .download = download,
                                         .is_same = is_same,
                                         .key = key,
                                         .name = name,
                                         .finish = finish};

void mxrt_measure_gemm_now(mxrt_device *device, mxrt_gemm_table *table,
                           const mxrt_gemm_problem *problem, const mxrt_select_how *how)
{
    products p = {.table = table, .problem = *problem};
    char what[64];
    mxrt_trial trial = {.family = &family,
                        .state = &p,
                        .device = device,
                        .stream = how->stream,
                        .budget_us = how->budget_us,
                        .what = what,
                        .bytes = mxrt_gemm_tuned_bytes(problem),
                        .tuned = &table->tuned[problem->mode]};
    int64_t values[MXRT_GEMM_VAR_COUNT];

    snprintf(what, sizeof(what), "%s %s.%s %s", mx_gemm_pass_name(problem->pass),
             mx_gemm_element_name(problem->left.element),
             mx_gemm_element_name(problem->right.element), mx_dtype_get(problem->dtype)->name);
    mxrt_gemm_problem_vars(problem, device->info.compute_units, values);
    mxrt_gemm_bucket_of(problem, values, &trial.bucket);
    mxrt_trial_run(&trial);
}
