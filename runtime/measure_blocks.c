/* Block operations measured at once: the same bytes as the model's choice, and an output, with its
 * scales, of their own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "runtime/measure_now.h"
#include "runtime/tuned.h"

typedef struct blocks {
    mxrt_kernel_table *table;
    mxrt_problem problem; /* with an output of its own */
    void *scratch, *scratch_scales;
    mxrt_selection *selections; /* one a variant of the table; those that apply are set */
    size_t data_bytes, scales_bytes;
} blocks;

static int is_known(const mxrt_trial *trial)
{
    const blocks *b = trial->state;
    int64_t values[MXRT_VAR_COUNT];
    mxrt_selection unused;
    mxrt_choice choice;

    mxrt_problem_vars(&b->problem, values);
    return !b->table->n_variants ||
           (!mxrt_select_by_policy(b->table, MXRT_POLICY_CACHED, values, &unused, &choice, NULL) &&
            choice.source == MXRT_SOURCE_EXACT);
}

static mx_status list(mxrt_trial *trial, mx_error *err)
{
    blocks *b = trial->state;
    const mxrt_kernel_table *table = b->table;
    int64_t values[MXRT_VAR_COUNT];
    mxrt_selection models;

    mxrt_problem_vars(&b->problem, values);
    models.variant = NULL;
    if (mxrt_select_by_policy(table, MXRT_POLICY_MODEL, values, &models, NULL, NULL))
        return MX_OK; /* nothing applies */
    trial->candidates = calloc(table->n_variants, sizeof(*trial->candidates));
    b->selections = calloc(table->n_variants, sizeof(*b->selections));
    if (!trial->candidates || !b->selections)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu kernels", table->n_variants);
    for (size_t i = 0; i < table->n_variants; i++) {
        if (mxrt_select_variant(&table->variants[i], values, &b->selections[i], NULL))
            continue;
        trial->candidates[trial->n++] =
            (mxrt_trial_candidate){.variant = (uint32_t)i,
                                   .is_first = &table->variants[i] == models.variant,
                                   .score = mxrt_select_score(table, &b->selections[i])};
    }
    return MX_OK;
}

static mx_status prepare(mxrt_trial *trial, mx_error *err)
{
    blocks *b = trial->state;
    const mxrt_problem *problem = &b->problem;
    const mxrt_buffer *output = &problem->buffers[mxrt_op_output(problem->op)];
    const mxrt_buffer *scales = &problem->buffers[MXRT_BUFFER_S];
    const void *input = problem->buffers[mxrt_op_input(problem->op)].data;
    int writes_scales = mxrt_problem_has_scales(problem) && problem->op == MX_OP_TO;
    void *data = NULL, *scales_data = scales->data;
    mx_status status;

    b->data_bytes = (size_t)output->extent_bytes;
    b->scales_bytes = writes_scales ? (size_t)scales->extent_bytes : 0;
    trial->output_bytes = b->data_bytes + b->scales_bytes;
    trial->expected = malloc(trial->output_bytes);
    trial->found = malloc(trial->output_bytes);
    if (!trial->expected || !trial->found)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for two outputs of %zu bytes",
                       trial->output_bytes);
    if ((status = mxrt_trial_alloc(trial->device, output, &b->scratch, &data, err)) ||
        (writes_scales &&
         (status = mxrt_trial_alloc(trial->device, scales, &b->scratch_scales, &scales_data, err))))
        return status;
    return mxrt_problem_rebind(&b->problem, input, data, scales_data, err);
}

static mx_status launch(const mxrt_trial *trial, uint32_t variant, mxrt_stream stream,
                        mx_error *err)
{
    const blocks *b = trial->state;

    return mxrt_device_launch(trial->device, &b->problem, &b->selections[variant], stream, err);
}

static mx_status upload(const mxrt_trial *trial, unsigned char *out, mx_error *err)
{
    const blocks *b = trial->state;
    const mxrt_backend_ops *ops = trial->device->ops;
    mxrt_backend *backend = trial->device->backend;
    void *data = b->problem.buffers[mxrt_op_output(b->problem.op)].data;
    void *scales = b->problem.buffers[MXRT_BUFFER_S].data;
    mx_status status;

    memset(out, MXRT_TRIAL_POISON, trial->output_bytes);
    status = ops->upload(backend, data, out, b->data_bytes, err);
    if (!status && b->scales_bytes)
        status = ops->upload(backend, scales, out + b->data_bytes, b->scales_bytes, err);
    return status;
}

static mx_status download(const mxrt_trial *trial, unsigned char *out, mx_error *err)
{
    const blocks *b = trial->state;
    const mxrt_backend_ops *ops = trial->device->ops;
    mxrt_backend *backend = trial->device->backend;
    const void *data = b->problem.buffers[mxrt_op_output(b->problem.op)].data;
    const void *scales = b->problem.buffers[MXRT_BUFFER_S].data;
    mx_status status = ops->download(backend, out, data, b->data_bytes, err);

    if (!status && b->scales_bytes)
        status = ops->download(backend, out + b->data_bytes, scales, b->scales_bytes, err);
    return status;
}

static int is_same(const mxrt_trial *trial)
{
    return !memcmp(trial->found, trial->expected, trial->output_bytes);
}

static void key(const mxrt_trial *trial, uint32_t variant, mxrt_tune_row *row)
{
    const blocks *b = trial->state;

    mxrt_tuned_key(trial->device, &b->problem, &b->table->variants[variant], row);
    snprintf(row->shape, sizeof(row->shape), "%lld rows of %lld", (long long)b->problem.rows,
             (long long)b->problem.len);
}

static const char *name(const mxrt_trial *trial, uint32_t variant)
{
    return ((const blocks *)trial->state)->table->variants[variant].info.name;
}

static void changed(const mxrt_trial *trial)
{
    mxrt_select_cache_clear(((const blocks *)trial->state)->table->cache);
}

static void finish(mxrt_trial *trial)
{
    blocks *b = trial->state;

    trial->device->ops->free(trial->device->backend, b->scratch);
    trial->device->ops->free(trial->device->backend, b->scratch_scales);
    free(b->selections);
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
                                         .changed = changed,
                                         .finish = finish};

void mxrt_measure_now(mxrt_device *device, mxrt_kernel_table *table, const mxrt_problem *problem,
                      const mxrt_select_how *how)
{
    blocks b = {.table = table};
    char what[64];
    mxrt_trial trial = {.family = &family,
                        .state = &b,
                        .device = device,
                        .stream = how->stream,
                        .budget_us = how->budget_us,
                        .what = what,
                        .bytes = mxrt_problem_bytes(problem),
                        .tuned = &table->tuned};
    int64_t values[MXRT_VAR_COUNT];

    snprintf(what, sizeof(what), "%s %s %s", mx_op_name(problem->op),
             mx_format_get(problem->format)->name, mx_dtype_get(problem->dtype)->name);
    mxrt_problem_copy(&b.problem, problem);
    mxrt_problem_vars(problem, values);
    mxrt_bucket_of(problem->op, problem->format, values, &trial.bucket);
    mxrt_trial_run(&trial);
}
