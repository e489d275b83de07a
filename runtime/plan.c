/* One operation on tensors of fixed geometry, all choices made. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "runtime/device.h"
#include "runtime/tuned.h"

#define REFERENCE "reference"

struct mxrt_plan {
    mxrt_device *device;
    mxrt_problem problem;
    mxrt_selection selection;
    int has_launch;                            /* 0 if there are no blocks */
    int64_t in_align, out_align, scales_align; /* for which rules and arguments were evaluated */
    mxrt_plan_arg args[MXPACK_MAX_ARGS];
    mxrt_plan_buffer buffers[3 + MXRT_BUFFER_COUNT - MXRT_BUFFER_C];
    size_t n_buffers;
    /* The code object, fetched when somebody asks for it; under the device's lock. */
    struct plan_object {
        void *data;
        size_t size_bytes;
    } * object;
};

/* ---- Choosing ---- */

static mx_status check_request(const mxrt_device *device, const mxrt_plan_request *request,
                               mx_error *err)
{
    if (!device || !request)
        return mx_fail(err, MX_ERR_INVALID, "device and request must not be NULL");
    if ((unsigned)request->policy > MXRT_POLICY_MEASURE)
        return mx_fail(err, MX_ERR_INVALID, "policy %d is unknown", (int)request->policy);
    if (request->policy == MXRT_POLICY_MEASURE && !(request->budget_us >= 1))
        return mx_fail(err, MX_ERR_INVALID,
                       "a budget of %g us: to measure takes 1 at least, and some 1000 for a result",
                       request->budget_us);
    return MX_OK;
}

/* Only a device without hardware plans for memory that is not there. */
static mx_status init_problem(const mxrt_device *device, const mxrt_plan_request *request,
                              mxrt_problem *out, mx_error *err)
{
    return mxrt_problem_init(out, request, device->info.dl_device,
                             device->ops == &mxrt_backend_plan, err);
}

static mx_status request_table(mxrt_device *device, const mxrt_problem *problem,
                               const mxrt_kernel_table **out, mx_error *err)
{
    mxrt_table_key key = {problem->op, problem->format, problem->dtype, problem->profile};

    return mxrt_device_table(device, &key, out, err);
}

static mx_status select_named(mxrt_device *device, const mxrt_problem *problem, const char *name,
                              mxrt_selection *out, mx_error *err)
{
    int64_t values[MXRT_VAR_COUNT];
    const mxrt_kernel_table *table;
    const mxrt_variant *variant;
    mx_status status;

    out->variant = NULL;
    if (!strcmp(name, REFERENCE)) {
        if (device->ops->reference && mxrt_problem_is_turned(problem))
            return mxrt_device_fail_turned(device, err);
        if (device->ops->reference)
            return MX_OK;
        return mx_fail(err, MX_ERR_UNSUPPORTED, "the reference runs on the host, not on %s",
                       device->info.uri);
    }
    if ((status = request_table(device, problem, &table, err)))
        return status;
    if (!table->n_variants && !mxrt_device_compile(device, &table->key, NULL, NULL) &&
        (status = request_table(device, problem, &table, err)))
        return status;
    if (!(variant = mxrt_kernel_table_find(table, name)))
        return mx_fail(err, MX_ERR_NOT_FOUND,
                       "no kernel named %.200s among the %zu for %s %s %s (%s) on %s; mxgen list "
                       "names those of a pack",
                       name, table->n_variants, mx_op_name(problem->op),
                       mx_format_get(problem->format)->name, mx_dtype_get(problem->dtype)->name,
                       mx_profile_name(problem->profile), device->info.uri);
    if (!problem->n_blocks)
        return MX_OK;
    if (problem->n_dims > MXPACK_MAX_ROW_DIMS)
        return mx_fail(err, MX_ERR_UNSUPPORTED,
                       "kernel %s does not apply: the tensors keep %d row dimensions that do not "
                       "merge, kernels take at most %d; make them contiguous",
                       name, problem->n_dims, MXPACK_MAX_ROW_DIMS);
    mxrt_problem_vars(problem, values);
    return mxrt_select_variant(variant, values, out, err);
}

static mx_status select_request(mxrt_device *device, const mxrt_problem *problem,
                                const mxrt_plan_request *request, mxrt_selection *out,
                                mx_error *err)
{
    if (request->variant)
        return select_named(device, problem, request->variant, out, err);
    out->variant = NULL;
    if (!problem->n_blocks)
        return MX_OK;
    const mxrt_select_how how = {
        .policy = request->policy, .stream = request->stream, .budget_us = request->budget_us};
    return mxrt_device_select(device, problem, &how, out, err);
}

/* ---- Plans ---- */

static int64_t buffer_align(const mxrt_problem *problem, int buffer)
{
    int64_t values[MXRT_VAR_COUNT];

    mxrt_problem_vars(problem, values);
    return values[buffer == MXRT_BUFFER_X   ? MXRT_VAR_X_ALIGN
                  : buffer == MXRT_BUFFER_Y ? MXRT_VAR_Y_ALIGN
                  : buffer == MXRT_BUFFER_S ? MXRT_VAR_S_ALIGN
                                            : MXRT_VAR_P_ALIGN];
}

static void describe(mxrt_plan *plan)
{
    static const char *const names[MXRT_BUFFER_COUNT] = {"x", "y", "p", "s", "c", "t", "g", "o"};
    const mxrt_problem *problem = &plan->problem;
    int buffers[2] = {mxrt_op_input(problem->op), mxrt_op_output(problem->op)};
    const mxrt_variant *variant = plan->selection.variant;

    for (int i = 0; i < 2; i++)
        plan->buffers[i] = (mxrt_plan_buffer){
            .name = names[buffers[i]],
            .size_bytes = problem->buffers[buffers[i]].extent_bytes,
            .is_output = i,
        };
    plan->buffers[2] = (mxrt_plan_buffer){
        .name = names[MXRT_BUFFER_S],
        .size_bytes = problem->buffers[MXRT_BUFFER_S].extent_bytes,
        .is_output = problem->op == MX_OP_TO,
    };
    plan->n_buffers = mxrt_problem_has_scales(problem) ? 3 : 2;
    for (int i = MXRT_BUFFER_C; mxrt_problem_is_pair(problem) && i <= MXRT_BUFFER_O; i++)
        plan->buffers[plan->n_buffers++] =
            (mxrt_plan_buffer){.name = names[i],
                               .size_bytes = problem->buffers[i].extent_bytes,
                               .is_output = i != MXRT_BUFFER_G};
    for (size_t i = 0; variant && i < variant->launch->n_args; i++) {
        const mxrt_pack_arg *arg = &variant->launch->args[i];
        plan->args[i] = (mxrt_plan_arg){
            .name = arg->name,
            .kind = arg->kind,
            .buffer = arg->buffer_name,
            .value = plan->selection.args[i],
            .offset_bytes = arg->offset_bytes,
        };
    }
}

mx_status mxrt_plan_create(mxrt_device *device, const mxrt_plan_request *request, mxrt_plan **out,
                           mx_error *err)
{
    mxrt_plan *plan = NULL;
    mx_status status;

    if ((status = check_request(device, request, err)))
        return status;
    if (!out)
        return mx_fail(err, MX_ERR_INVALID, "out must not be NULL");
    if (!(plan = calloc(1, sizeof(*plan))) || !(plan->object = calloc(1, sizeof(*plan->object)))) {
        mxrt_plan_destroy(plan);
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a plan");
    }
    plan->device = device;
    if ((status = init_problem(device, request, &plan->problem, err)) ||
        (status = select_request(device, &plan->problem, request, &plan->selection, err))) {
        mxrt_plan_destroy(plan);
        return status;
    }
    plan->has_launch = plan->problem.n_blocks > 0;
    plan->in_align = buffer_align(&plan->problem, mxrt_op_input(request->op));
    plan->out_align = buffer_align(&plan->problem, mxrt_op_output(request->op));
    plan->scales_align = buffer_align(&plan->problem, MXRT_BUFFER_S);
    describe(plan);
    *out = plan;
    return MX_OK;
}

void mxrt_plan_destroy(mxrt_plan *plan)
{
    if (!plan)
        return;
    if (plan->object)
        free(plan->object->data);
    free(plan->object);
    free(plan);
}

/* The same plan on other memory. */
static mx_status run_elsewhere(const mxrt_plan *plan, const void *in_data, void *out_data,
                               void *scales_data, mxrt_stream stream, mx_error *err)
{
    mxrt_problem problem;
    const mxrt_selection *selection = &plan->selection;
    mxrt_selection adapted;
    mx_status status;

    mxrt_problem_copy(&problem, &plan->problem);
    if ((status = mxrt_problem_rebind(&problem, in_data, out_data, scales_data, err)))
        return status;
    if (selection->variant &&
        (buffer_align(&problem, mxrt_op_input(problem.op)) != plan->in_align ||
         buffer_align(&problem, mxrt_op_output(problem.op)) != plan->out_align ||
         buffer_align(&problem, MXRT_BUFFER_S) != plan->scales_align)) {
        int64_t values[MXRT_VAR_COUNT];
        mxrt_problem_vars(&problem, values);
        if ((status = mxrt_select_variant(selection->variant, values, &adapted, err)))
            return status;
        selection = &adapted;
    }
    return mxrt_device_launch(plan->device, &problem, selection, stream, err);
}

mx_status mxrt_plan_run(const mxrt_plan *plan, const void *in_data, void *out_data,
                        mxrt_stream stream, mx_error *err)
{
    if (!plan)
        return mx_fail(err, MX_ERR_INVALID, "plan must not be NULL");
    if (!plan->has_launch)
        return MX_OK;
    if (!in_data != !out_data)
        return mx_fail(err, MX_ERR_INVALID,
                       "%s is NULL and the other is not; give both, or neither for the memory of "
                       "the request",
                       in_data ? "out_data" : "in_data");
    if (!in_data)
        return mxrt_device_launch(plan->device, &plan->problem, &plan->selection, stream, err);
    if (mxrt_problem_has_scales(&plan->problem))
        return mx_fail(err, MX_ERR_INVALID,
                       "this plan has scales: mxrt_plan_run_scaled runs it on other memory");
    return run_elsewhere(plan, in_data, out_data, NULL, stream, err);
}

mx_status mxrt_plan_run_scaled(const mxrt_plan *plan, const void *in_data, void *out_data,
                               void *scales_data, mxrt_stream stream, mx_error *err)
{
    if (!plan)
        return mx_fail(err, MX_ERR_INVALID, "plan must not be NULL");
    if (!mxrt_problem_has_scales(&plan->problem))
        return mx_fail(err, MX_ERR_INVALID, "this plan has no scales: use mxrt_plan_run");
    if (!plan->has_launch)
        return MX_OK;
    if (!in_data || !out_data || !scales_data)
        return mx_fail(err, MX_ERR_INVALID, "in_data, out_data and scales_data must not be NULL");
    return run_elsewhere(plan, in_data, out_data, scales_data, stream, err);
}

static mx_status fetch_object(const mxrt_plan *plan, mx_error *err)
{
    const mxrt_variant *variant = plan->selection.variant;
    mx_status status = MX_OK;

    pthread_mutex_lock(&plan->device->lock);
    if (!plan->object->data)
        status = mxrt_pack_object(variant->pack, variant->info.object_id, &plan->object->data,
                                  &plan->object->size_bytes, err);
    pthread_mutex_unlock(&plan->device->lock);
    return status;
}

mx_status mxrt_plan_get_info(const mxrt_plan *plan, mxrt_plan_info *out, mx_error *err)
{
    if (!plan || !out)
        return mx_fail(err, MX_ERR_INVALID, "plan and out must not be NULL");
    const mxrt_selection *selection = &plan->selection;
    const mxrt_variant *variant = selection->variant;
    mxrt_plan_info info = {
        .variant = plan->has_launch ? REFERENCE : "none",
        .symbol = "",
        .target = plan->device->info.target,
        .layout = MX_LAYOUT_GENERAL,
        .rows = plan->problem.rows,
        .len = plan->problem.len,
        .n_blocks = plan->problem.n_blocks,
        .n_buffers = plan->n_buffers,
        .buffers = plan->buffers,
        .args = plan->args,
        .params_json = "{}",
        .info_json = "{}",
    };

    if (variant) {
        mx_status status = fetch_object(plan, err);
        if (status)
            return status;
        info.variant = variant->info.name;
        info.symbol = variant->info.symbol;
        info.target = variant->info.target;
        info.layout = variant->layout;
        info.lds_bytes = selection->lds_bytes;
        info.n_args = variant->launch->n_args;
        info.params_json = variant->info.params_json;
        info.info_json = variant->info.info_json;
        info.object = plan->object->data;
        info.object_bytes = plan->object->size_bytes;
        memcpy(info.grid, selection->grid, sizeof(info.grid));
        memcpy(info.block, selection->block, sizeof(info.block));
    }
    *out = info;
    return MX_OK;
}

mx_status mxrt_explain(mxrt_device *device, const mxrt_plan_request *request, mxrt_choice *out,
                       mx_error *err)
{
    mxrt_choice choice = {.variant = "none"};
    mxrt_selection selection;
    mxrt_problem problem;
    mx_status status;

    if ((status = check_request(device, request, err)))
        return status;
    if (!out)
        return mx_fail(err, MX_ERR_INVALID, "out must not be NULL");
    if ((status = init_problem(device, request, &problem, err)))
        return status;
    if (request->variant || !problem.n_blocks) {
        status = select_request(device, &problem, request, &selection, err);
        if (!status && problem.n_blocks)
            choice.variant = selection.variant ? selection.variant->info.name : REFERENCE;
    } else {
        choice.variant = REFERENCE;
        const mxrt_select_how how = {.policy = request->policy,
                                     .stream = request->stream,
                                     .budget_us = request->budget_us,
                                     .choice = &choice};
        status = mxrt_device_select(device, &problem, &how, &selection, err);
    }
    if (!status)
        *out = choice;
    return status;
}

mx_status mxrt_tune_key(mxrt_device *device, const mxrt_plan_request *request, const char *variant,
                        mxrt_tune_row *row, mx_error *err)
{
    mxrt_selection selection;
    mxrt_problem problem;
    mx_status status;

    if ((status = check_request(device, request, err)))
        return status;
    if (!variant || !row)
        return mx_fail(err, MX_ERR_INVALID, "variant and row must not be NULL");
    if ((status = init_problem(device, request, &problem, err)) ||
        (status = select_named(device, &problem, variant, &selection, err)))
        return status;
    if (!selection.variant)
        return mx_fail(err, MX_ERR_INVALID, "%.200s is no kernel that has blocks to work on",
                       variant);
    mxrt_tuned_key(device, &problem, selection.variant, row);
    return MX_OK;
}

mx_status mxrt_plan_variants(mxrt_device *device, const mxrt_plan_request *request,
                             const char **names, size_t capacity, size_t *n, mx_error *err)
{
    const mxrt_kernel_table *table;
    int64_t values[MXRT_VAR_COUNT];
    mxrt_selection selection;
    mxrt_problem problem;
    mx_status status;
    size_t count = 0;

    if ((status = check_request(device, request, err)))
        return status;
    if (!n || (capacity && !names))
        return mx_fail(err, MX_ERR_INVALID, "n and, with a capacity, names must not be NULL");
    if ((status = init_problem(device, request, &problem, err)) ||
        (status = request_table(device, &problem, &table, err)))
        return status;
    if (!problem.n_blocks || problem.n_dims > MXPACK_MAX_ROW_DIMS) {
        *n = 0;
        return MX_OK;
    }
    mxrt_problem_vars(&problem, values);
    for (size_t i = 0; i < table->n_variants; i++) {
        if (mxrt_select_variant(&table->variants[i], values, &selection, NULL))
            continue;
        if (count < capacity)
            names[count] = table->variants[i].info.name;
        count++;
    }
    *n = count;
    return MX_OK;
}
