/* Plans of grouped GEMM: the public interface of mxgen/gemm.h. */
#include <mxgen/gemm.h>

#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "runtime/gemm_plan.h"

#define REFERENCE "reference"
#define STATUS_BYTES 64 /* of the word in the workspace; what follows stays aligned */

/* ---- Creation ---- */

static mx_status init_problem(const mxrt_device *device, const mxrt_gemm_request *request,
                              mxrt_gemm_problem *out, mx_error *err)
{
    return mxrt_gemm_problem_init(out, request, device->info.dl_device,
                                  device->ops == &mxrt_backend_plan, err);
}

static mx_status get_table(mxrt_device *device, const mxrt_gemm_problem *problem,
                           const mxrt_gemm_table **out, mx_error *err)
{
    const mxrt_gemm_table_key key = mxrt_gemm_table_key_of(problem);

    return mxrt_gemm_table_get(device, &key, out, err);
}

/* Compiles where there is nothing at all. */
static mx_status find_named(mxrt_device *device, const mxrt_gemm_problem *problem, const char *name,
                            const mxrt_gemm_route **out, mx_error *err)
{
    const mxrt_gemm_table *table;
    mx_status status = get_table(device, problem, &table, err);

    if (!status && !table->n_routes && !mxrt_device_compile_gemm(device, &table->key, NULL, NULL))
        status = get_table(device, problem, &table, err);
    if (status)
        return status;
    for (size_t i = 0; i < table->n_routes; i++) {
        if (!strcmp(mxrt_gemm_route_main(&table->routes[i])->info.name, name)) {
            *out = &table->routes[i];
            return MX_OK;
        }
    }
    return mx_fail(err, MX_ERR_NOT_FOUND,
                   "no kernel named %.200s among the %zu for this product on %s; mxgen list names "
                   "those of a pack",
                   name, table->n_routes, device->info.uri);
}

static mx_status select_request(mxrt_device *device, const mxrt_gemm_problem *problem,
                                const mxrt_gemm_request *request, mxrt_gemm_selection *out,
                                mxrt_choice *choice, mx_error *err)
{
    int64_t values[MXRT_GEMM_VAR_COUNT];
    const mxrt_gemm_route *route;
    const mxrt_select_how how = {.policy = request->policy,
                                 .stream = request->stream,
                                 .budget_us = request->budget_us,
                                 .choice = choice};
    mx_status status;

    out->route = NULL;
    if (!request->variant)
        return mxrt_device_select_gemm(device, problem, &how, out, err);
    if (!strcmp(request->variant, REFERENCE)) {
        if (device->ops->gemm_reference)
            return MX_OK;
        return mx_fail(err, MX_ERR_UNSUPPORTED, "the reference runs on the host, not on %s",
                       device->info.uri);
    }
    if ((status = find_named(device, problem, request->variant, &route, err)))
        return status;
    mxrt_gemm_problem_vars(problem, device->info.compute_units, values);
    return mxrt_gemm_select_route(route, values, out, err);
}

/* The kernels' part, then a status word if the caller has none, then offsets of the host. */
static mx_status plan_workspace(mxrt_gemm_plan *plan, mx_error *err)
{
    const mxrt_gemm_problem *problem = &plan->problem;
    const int64_t align = MXRT_GEMM_WORKSPACE_ALIGN;
    int64_t offsets_bytes = (problem->groups + 1) * (int64_t)sizeof(int64_t);
    int is_host = plan->device->info.dl_device.device_type == kDLCPU;

    if (!plan->selection.route)
        return MX_OK;
    plan->copies_offsets = problem->host_offsets && !is_host;
    plan->own_bytes = (plan->selection.workspace_bytes + align - 1) / align * align;
    plan->workspace_bytes = plan->own_bytes;
    if (!problem->buffers[MXRT_GEMM_STATUS].extent_bytes)
        plan->workspace_bytes += STATUS_BYTES;
    if (plan->copies_offsets)
        plan->workspace_bytes += STATUS_BYTES + (problem->write_is_read ? 1 : 2) * offsets_bytes;
    if (plan->workspace_bytes < 0)
        return mx_fail(err, MX_ERR_UNSUPPORTED, "the workspace would need more than 2^63 bytes");
    return MX_OK;
}

mx_status mxrt_gemm_plan_set(mxrt_gemm_plan *plan, mxrt_device *device,
                             const mxrt_gemm_problem *problem, const mxrt_gemm_selection *selection,
                             mx_error *err)
{
    *plan = (mxrt_gemm_plan){
        .device = device, .problem = *problem, .selection = *selection, .has_launch = 1};
    return plan_workspace(plan, err);
}

/* Whether a device that has no reference has nothing to multiply. */
static int is_zero(const mxrt_device *device, const mxrt_gemm_problem *problem)
{
    return !device->ops->gemm_reference && (!problem->m || !problem->groups);
}

mx_status mxrt_gemm_plan_create(mxrt_device *device, const mxrt_gemm_request *request,
                                mxrt_gemm_plan **out, mx_error *err)
{
    mxrt_gemm_plan *plan;
    mx_status status;

    if (!device || !request || !out)
        return mx_fail(err, MX_ERR_INVALID, "device, request and out must not be NULL");
    if (!(plan = calloc(1, sizeof(*plan))))
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a plan");
    plan->device = device;
    status = init_problem(device, request, &plan->problem, err);
    plan->has_launch = !status && !mxrt_gemm_problem_is_empty(&plan->problem);
    plan->is_zero = plan->has_launch && is_zero(device, &plan->problem);
    if ((plan->has_launch && !plan->is_zero) || (!status && request->variant))
        status = select_request(device, &plan->problem, request, &plan->selection, NULL, err);
    if (!plan->has_launch || plan->is_zero)
        plan->selection.route = NULL;
    if (status || (status = plan_workspace(plan, err))) {
        mxrt_gemm_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return MX_OK;
}

void mxrt_gemm_plan_destroy(mxrt_gemm_plan *plan)
{
    free(plan);
}

size_t mxrt_gemm_workspace_bytes(const mxrt_gemm_plan *plan)
{
    return plan ? (size_t)plan->workspace_bytes : 0;
}

/* ---- Running ---- */

/* Addresses that kernels get: what is empty has a valid one, too, so that a lane without work can
 * read there. */
static void set_addresses(const mxrt_gemm_plan *plan, const mxrt_gemm_problem *problem,
                          const void *addresses[MXRT_GEMM_BUFFER_COUNT])
{
    for (int i = 0; i < MXRT_GEMM_BUFFER_COUNT; i++) {
        addresses[i] = problem->buffers[i].data;
        if (!problem->buffers[i].extent_bytes || !addresses[i])
            addresses[i] = problem->buffers[MXRT_GEMM_OUT].data;
    }
    unsigned char *own = problem->buffers[MXRT_GEMM_WORKSPACE].data + plan->own_bytes;
    if (!problem->buffers[MXRT_GEMM_STATUS].extent_bytes) {
        addresses[MXRT_GEMM_STATUS] = own;
        own += STATUS_BYTES;
    }
    if (plan->copies_offsets) {
        addresses[MXRT_GEMM_READ_OFFSETS] = addresses[MXRT_GEMM_WRITE_OFFSETS] = own;
        if (!problem->write_is_read)
            addresses[MXRT_GEMM_WRITE_OFFSETS] =
                own + (problem->groups + 1) * (int64_t)sizeof(int64_t);
    }
}

/* Where nothing is multiplied, kernels have nothing to read. */
static mx_status run_zero(const mxrt_gemm_plan *plan, const mxrt_gemm_problem *problem,
                          mxrt_stream stream, mx_error *err)
{
    int is_rows = problem->pass == MX_GEMM_ROWS;
    int64_t bytes = mx_dtype_get(problem->dtype)->bytes,
            columns = is_rows ? problem->n : problem->k;
    int64_t rows = is_rows ? problem->out_rows : problem->n, groups = is_rows ? 1 : problem->groups;
    const mxrt_buffer *word = &problem->buffers[MXRT_GEMM_STATUS];
    const mxrt_backend_ops *ops = plan->device->ops;
    mx_status status = MX_OK;

    if (problem->out_row_stride == columns) { /* all of a group at once */
        columns *= rows;
        rows = 1;
    }
    for (int64_t i = 0; !status && !problem->accumulate && i < groups * rows; i++) {
        int64_t at = i / rows * problem->out_group_stride + i % rows * problem->out_row_stride;
        status =
            ops->clear(plan->device->backend, problem->buffers[MXRT_GEMM_OUT].data + at * bytes,
                       (size_t)(columns * bytes), stream, err);
    }
    if (!status && word->extent_bytes)
        status = ops->clear(plan->device->backend, word->data, sizeof(int32_t), stream, err);
    return status;
}

/* A run before this one may still read what its offsets are copied over. */
static mx_status copy_offsets(const mxrt_gemm_plan *plan, const mxrt_gemm_problem *problem,
                              const void *const *addresses, mxrt_stream stream, mx_error *err)
{
    const mxrt_backend_ops *ops = plan->device->ops;
    mxrt_backend *backend = plan->device->backend;
    size_t size_bytes = ((size_t)problem->groups + 1) * sizeof(int64_t);
    mx_status status;

    if (ops->capturing && ops->capturing(backend, stream))
        return mx_fail(err, MX_ERR_UNSUPPORTED,
                       "a graph is being captured, and these offsets are on the host; give them in "
                       "device memory");
    if ((status = ops->synchronize(backend, stream, err)) ||
        (status = ops->upload(backend, (void *)(uintptr_t)addresses[MXRT_GEMM_READ_OFFSETS],
                              problem->buffers[MXRT_GEMM_READ_OFFSETS].data, size_bytes, err)))
        return status;
    if (problem->write_is_read)
        return MX_OK;
    return ops->upload(backend, (void *)(uintptr_t)addresses[MXRT_GEMM_WRITE_OFFSETS],
                       problem->buffers[MXRT_GEMM_WRITE_OFFSETS].data, size_bytes, err);
}

static mx_status launch(const mxrt_gemm_plan *plan, const mxrt_selection *selection,
                        const void *const *addresses, mxrt_stream stream, mx_error *err)
{
    _Alignas(16) unsigned char args[MXPACK_MAX_ARGS * sizeof(int64_t)];
    const mxrt_variant *variant = selection->variant;

    mxrt_selection_args(selection, addresses, args);
    mxrt_launch launch = {
        .kernel = variant->kernel,
        .lds_bytes = selection->lds_bytes,
        .args = args,
        .args_bytes = variant->launch->args_bytes,
        .n_args = variant->launch->n_args,
        .arg_offsets = variant->arg_offsets,
    };
    memcpy(launch.grid, selection->grid, sizeof(launch.grid));
    memcpy(launch.block, selection->block, sizeof(launch.block));
    return plan->device->ops->launch(plan->device->backend, &launch, stream, err);
}

static mx_status run_problem(const mxrt_gemm_plan *plan, const mxrt_gemm_problem *problem,
                             const mxrt_gemm_selection *selection, mxrt_stream stream,
                             mx_error *err)
{
    const void *addresses[MXRT_GEMM_BUFFER_COUNT];
    mx_status status = MX_OK;

    if (plan->is_zero)
        return run_zero(plan, problem, stream, err);
    if (!selection->route)
        return plan->device->ops->gemm_reference(plan->device->backend, problem, err);
    set_addresses(plan, problem, addresses);
    if (plan->copies_offsets)
        status = copy_offsets(plan, problem, addresses, stream, err);
    for (size_t i = 0; !status && i < selection->route->n_kernels; i++)
        status = launch(plan, &selection->launches[i], addresses, stream, err);
    return status;
}

static int same_alignment(const mxrt_gemm_problem *a, const mxrt_gemm_problem *b)
{
    int64_t before[MXRT_GEMM_VAR_COUNT], now[MXRT_GEMM_VAR_COUNT];

    mxrt_gemm_problem_vars(a, 0, before);
    mxrt_gemm_problem_vars(b, 0, now);
    return !memcmp(before, now, sizeof(now));
}

mx_status mxrt_gemm_run(const mxrt_gemm_plan *plan, const mxrt_gemm_buffers *buffers,
                        mxrt_stream stream, mx_error *err)
{
    static const mxrt_gemm_buffers none;
    mxrt_gemm_problem problem;
    mxrt_gemm_selection adapted;
    const mxrt_gemm_selection *selection;
    mx_status status;

    if (!plan)
        return mx_fail(err, MX_ERR_INVALID, "plan must not be NULL");
    buffers = buffers ? buffers : &none;
    if (!plan->has_launch)
        return MX_OK;
    if (plan->workspace_bytes &&
        (!buffers->workspace || buffers->workspace_bytes < (size_t)plan->workspace_bytes))
        return mx_fail(err, MX_ERR_INVALID,
                       "this plan needs a workspace of %lld bytes, it got %zu; "
                       "mxrt_gemm_workspace_bytes tells the size",
                       (long long)plan->workspace_bytes,
                       buffers->workspace ? buffers->workspace_bytes : 0);
    problem = plan->problem;
    if ((status = mxrt_gemm_problem_rebind(&problem, buffers, err)) ||
        (status = mxrt_gemm_problem_check_offsets(&problem, err)))
        return status;
    selection = &plan->selection;
    if (selection->route && !same_alignment(&plan->problem, &problem)) {
        int64_t values[MXRT_GEMM_VAR_COUNT];
        mxrt_gemm_problem_vars(&problem, plan->device->info.compute_units, values);
        if ((status = mxrt_gemm_select_route(selection->route, values, &adapted, err)))
            return status;
        selection = &adapted;
    }
    return run_problem(plan, &problem, selection, stream, err);
}

/* ---- What there is ---- */

/* What is chosen where no kernel is. */
static const char *without_route(int has_launch, int zero)
{
    return !has_launch ? "none" : zero ? "zeros" : REFERENCE;
}

mx_status mxrt_gemm_get_info(const mxrt_gemm_plan *plan, mxrt_gemm_info *out, mx_error *err)
{
    if (!plan || !out)
        return mx_fail(err, MX_ERR_INVALID, "plan and out must not be NULL");
    const mxrt_gemm_problem *problem = &plan->problem;
    const mxrt_gemm_route *route = plan->selection.route;
    mxrt_gemm_info info = {
        .variant = without_route(plan->has_launch, plan->is_zero),
        .target = plan->device->info.target,
        .pass = problem->pass,
        .mode = MX_GEMM_EXACT,
        .dtype = problem->dtype,
        .groups = problem->groups,
        .m = problem->m,
        .n = problem->n,
        .k = problem->k,
        .out_rows = problem->out_rows,
        .flops = 2.0 * (double)problem->m * (double)problem->n * (double)problem->k,
        .workspace_bytes = (size_t)plan->workspace_bytes,
        .params_json = "{}",
        .info_json = "{}",
    };

    for (size_t i = 0; route && i < route->n_kernels; i++) {
        const mxrt_selection *selection = &plan->selection.launches[i];
        mxrt_gemm_launch_info *at = &info.launches[info.n_launches++];
        at->variant = selection->variant->info.name;
        at->symbol = selection->variant->info.symbol;
        at->lds_bytes = selection->lds_bytes;
        memcpy(at->grid, selection->grid, sizeof(at->grid));
        memcpy(at->block, selection->block, sizeof(at->block));
    }
    if (route) {
        const mxrt_variant *main = &route->kernels[route->main];
        info.variant = main->info.name;
        info.target = main->info.target;
        info.mode = route->mode;
        info.params_json = main->info.params_json;
        info.info_json = main->info.info_json;
    }
    *out = info;
    return MX_OK;
}

mx_status mxrt_gemm_variants(mxrt_device *device, const mxrt_gemm_request *request,
                             const char **names, size_t capacity, size_t *n, mx_error *err)
{
    int64_t values[MXRT_GEMM_VAR_COUNT];
    const mxrt_gemm_table *table;
    mxrt_gemm_selection selection;
    mxrt_gemm_problem problem;
    mx_status status;
    size_t count = 0;

    if (!device || !n || (capacity && !names))
        return mx_fail(err, MX_ERR_INVALID,
                       "device, n and, with a capacity, names must not be NULL");
    if ((status = init_problem(device, request, &problem, err)) ||
        (status = get_table(device, &problem, &table, err)))
        return status;
    mxrt_gemm_problem_vars(&problem, device->info.compute_units, values);
    for (size_t i = 0; !mxrt_gemm_problem_is_empty(&problem) && i < table->n_routes; i++) {
        const mxrt_gemm_route *route = &table->routes[i];
        if (!mxrt_gemm_serves(route, &problem) ||
            mxrt_gemm_select_route(route, values, &selection, NULL))
            continue;
        if (count < capacity)
            names[count] = mxrt_gemm_route_main(route)->info.name;
        count++;
    }
    *n = count;
    return MX_OK;
}

mx_status mxrt_gemm_explain(mxrt_device *device, const mxrt_gemm_request *request, mxrt_choice *out,
                            mx_error *err)
{
    mxrt_gemm_selection selection;
    mxrt_gemm_problem problem;
    mx_status status;

    if (!device || !out)
        return mx_fail(err, MX_ERR_INVALID, "device and out must not be NULL");
    if ((status = init_problem(device, request, &problem, err)))
        return status;
    int has_launch = !mxrt_gemm_problem_is_empty(&problem), zero = is_zero(device, &problem);
    mxrt_choice choice = {.variant = without_route(has_launch, zero)};
    if (has_launch && !zero &&
        (status = select_request(device, &problem, request, &selection, &choice, err)))
        return status;
    if (has_launch && !zero && selection.route)
        choice.variant = mxrt_gemm_route_main(selection.route)->info.name;
    *out = choice;
    return MX_OK;
}

mx_status mxrt_gemm_tune_key(mxrt_device *device, const mxrt_gemm_request *request,
                             const char *variant, mxrt_tune_row *row, mx_error *err)
{
    const mxrt_gemm_route *route;
    mxrt_gemm_problem problem;
    mx_status status;

    if (!device || !variant || !row)
        return mx_fail(err, MX_ERR_INVALID, "device, variant and row must not be NULL");
    if ((status = init_problem(device, request, &problem, err)) ||
        (status = find_named(device, &problem, variant, &route, err)))
        return status;
    mxrt_gemm_tuned_key(device, &problem, route, row);
    return MX_OK;
}
