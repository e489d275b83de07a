/* Which route of a product applies, its launches, and which one is taken. */
#include <string.h>

#include <mxgen/error.h>

#include "runtime/device.h"
#include "runtime/gemm_model.h"
#include "runtime/measure_now.h"

static mx_status workspace_of(const mxrt_gemm_route *route, const int64_t *values, int64_t *out,
                              mx_error *err)
{
    const mxrt_variant *main = &route->kernels[route->main];
    mx_error reason;

    *out = 0;
    if (!main->launch->workspace_bytes)
        return MX_OK;
    if (mxrt_expr_eval(main->launch->workspace_bytes, values, out, &reason))
        return mx_fail(err, MX_ERR_UNSUPPORTED, "kernel %s (%s) does not apply: workspace: %.700s",
                       main->info.name, main->info.target, reason.message);
    if (*out < 0 || *out > INT64_MAX / 2)
        return mx_fail(err, MX_ERR_UNSUPPORTED,
                       "kernel %s (%s) does not apply: it would need a workspace of %lld bytes",
                       main->info.name, main->info.target, (long long)*out);
    return MX_OK;
}

mx_status mxrt_gemm_select_route(const mxrt_gemm_route *route,
                                 const int64_t values[MXRT_GEMM_VAR_COUNT],
                                 mxrt_gemm_selection *out, mx_error *err)
{
    mx_status status;

    out->route = NULL;
    /* The variant's own rules are what a message should name. */
    if ((status = mxrt_select_variant(&route->kernels[route->main], values,
                                      &out->launches[route->main], err)) ||
        (status = workspace_of(route, values, &out->workspace_bytes, err)))
        return status;
    for (size_t i = 0; i < route->n_kernels; i++) {
        if (i != route->main &&
            (status = mxrt_select_variant(&route->kernels[i], values, &out->launches[i], err)))
            return status;
    }
    out->route = route;
    return MX_OK;
}

/* What a search looks at. */
typedef struct search {
    const mxrt_device *device;
    const mxrt_gemm_table *table;
    const mxrt_gemm_problem *problem;
    int64_t values[MXRT_GEMM_VAR_COUNT];
} search;

static int applies(const search *at, size_t index, mxrt_gemm_selection *out)
{
    const mxrt_gemm_route *route = &at->table->routes[index];

    return mxrt_gemm_serves(route, at->problem) &&
           !mxrt_gemm_select_route(route, at->values, out, NULL);
}

double mxrt_gemm_select_score(const mxrt_device *device, const mxrt_gemm_problem *problem,
                              const mxrt_gemm_selection *selection)
{
    int64_t values[MXRT_GEMM_VAR_COUNT];

    mxrt_gemm_problem_vars(problem, device->info.compute_units, values);
    return 1e3 * mxrt_gemm_model_seconds(device->info.target, problem, selection,
                                         values[MXRT_GEMM_VAR_NUM_CU]);
}

static double score(const search *at, const mxrt_gemm_selection *selection)
{
    return mxrt_gemm_select_score(at->device, at->problem, selection);
}

static const char *name_of(const search *at, size_t index)
{
    return mxrt_gemm_route_main(&at->table->routes[index])->info.name;
}

/* ---- By measurements ---- */

static int applies_by_number(void *user, uint32_t index)
{
    mxrt_gemm_selection unused;

    return applies(user, index, &unused);
}

static int choose_measured(search *at, const mxrt_bucket *wanted, mxrt_gemm_selection *out,
                           mxrt_choice *choice)
{
    const mxrt_tuned *tuned =
        atomic_load_explicit(&at->table->tuned[at->problem->mode], memory_order_acquire);
    mxrt_tuned_best found;

    if (!mxrt_tuned_search(tuned, wanted, applies_by_number, at, &found))
        return 0;
    applies(at, found.variant, out); /* as it did in the search */
    mxrt_choice_measured(&found, wanted, found.has_second ? name_of(at, found.second) : NULL,
                         choice);
    return 1;
}

/* ---- By the model ---- */

/* The first in preference sets the mark; others must beat it by the margin, then each other. */
static int choose_by_model(const search *at, mxrt_gemm_selection *out, mxrt_choice *choice)
{
    double best_ms = 0, mark = 0;

    out->route = NULL;
    for (size_t i = 0; i < at->table->n_routes; i++) {
        mxrt_gemm_selection found;
        if (!applies(at, i, &found))
            continue;
        double ms = score(at, &found);
        if (!out->route || ms < mark) {
            choice->runner_up = out->route ? mxrt_gemm_route_main(out->route)->info.name : NULL;
            choice->runner_up_score = best_ms;
            mark = out->route ? ms : ms * MXRT_GEMM_MODEL_MARGIN;
            best_ms = ms;
            *out = found;
        } else if (!choice->runner_up || ms < choice->runner_up_score) {
            choice->runner_up = name_of(at, i);
            choice->runner_up_score = ms;
        }
    }
    choice->source = MXRT_SOURCE_MODEL;
    return out->route != NULL;
}

/* ---- All of it ---- */

static size_t count_applicable(const search *at)
{
    mxrt_gemm_selection unused;
    size_t n = 0;

    for (size_t i = 0; i < at->table->n_routes; i++)
        n += (size_t)applies(at, i, &unused);
    return n;
}

/* Why the first route in the problem's mode does not apply; without one, "" and no message. */
static mx_status fail_search(const search *at, mx_error *err)
{
    mxrt_gemm_selection unused;
    mx_error first = {MX_OK, ""};
    size_t n = 0;

    for (size_t i = 0; i < at->table->n_routes; i++) {
        const mxrt_gemm_route *route = &at->table->routes[i];
        if (mxrt_gemm_serves(route, at->problem) && !n++)
            mxrt_gemm_select_route(route, at->values, &unused, &first);
    }
    if (!n)
        return mx_fail(err, MX_ERR_UNSUPPORTED, "%s", "");
    return mx_fail(err, MX_ERR_UNSUPPORTED, "none of %zu kernels applies; the first: %.800s", n,
                   first.message);
}

static mx_status fail_measured(const search *at, mx_error *err)
{
    const mxrt_gemm_table_key *key = &at->table->key;

    return mx_fail(err, MX_ERR_NOT_FOUND,
                   "no tuning file has a measurement near this shape for %s %s.%s %s (%s); mxrt "
                   "tune --op grouped_gemm makes them",
                   mx_gemm_pass_name(key->pass), mx_gemm_element_name(key->left),
                   mx_gemm_element_name(key->right), mx_dtype_get(key->dtype)->name,
                   mx_gemm_mode_name(at->problem->mode));
}

mx_status mxrt_gemm_select(const mxrt_device *device, const mxrt_gemm_table *table,
                           const mxrt_gemm_problem *problem, mxrt_policy policy,
                           mxrt_gemm_selection *out, mxrt_choice *choice, mx_error *err)
{
    search at = {.device = device, .table = table, .problem = problem};
    mxrt_choice made = {.variant = NULL};
    mxrt_bucket wanted;

    mxrt_gemm_problem_vars(problem, device->info.compute_units, at.values);
    mxrt_gemm_bucket_of(problem, at.values, &wanted);
    if (policy == MXRT_POLICY_MODEL || !choose_measured(&at, &wanted, out, &made)) {
        if (policy == MXRT_POLICY_CACHED)
            return fail_measured(&at, err);
        if (!choose_by_model(&at, out, &made))
            return fail_search(&at, err);
    }
    if (!choice)
        return MX_OK;
    made.variant = mxrt_gemm_route_main(out->route)->info.name;
    made.score = score(&at, out);
    made.n_applicable = count_applicable(&at);
    mxrt_bucket_text(&wanted, made.bucket, sizeof(made.bucket));
    *choice = made;
    return MX_OK;
}

/* ---- On a device, with what can be compiled ---- */

static mx_status select_from(mxrt_device *device, const mxrt_gemm_table *table,
                             const mxrt_gemm_problem *problem, const mxrt_select_how *how,
                             mxrt_gemm_selection *out, mx_error *err)
{
    mxrt_policy policy = how->policy;

    if (policy == MXRT_POLICY_MEASURE) {
        /* The one that is published now may have more kernels, and is not const. */
        mxrt_measure_gemm_now(device,
                              atomic_load(&device->gemm_tables[mxrt_gemm_table_index(&table->key)]),
                              problem, how);
        policy = MXRT_POLICY_TUNED;
    }
    return mxrt_gemm_select(device, table, problem, policy, out, how->choice, err);
}

static mx_status select_compiled(mxrt_device *device, const mxrt_gemm_table *table,
                                 const mxrt_gemm_problem *problem, const mxrt_select_how *how,
                                 const mx_error *why, mxrt_gemm_selection *out, mx_error *err)
{
    mx_error reason = {MX_OK, ""};
    const mxrt_gemm_table *more = table;
    mx_status status = mxrt_device_compile_gemm(device, &table->key, how->stream, &reason);

    if (!status && !(status = mxrt_gemm_table_get(device, &table->key, &more, err)) &&
        more != table)
        return select_from(device, more, problem, how, out, err);
    if (!why->message[0])
        return mxrt_device_fail_missing_gemm(device, &table->key, problem->mode, &reason, err);
    return mx_fail(err, MX_ERR_UNSUPPORTED,
                   reason.message[0] ? "%.600s; not compiled: %.390s" : "%.600s%.390s",
                   why->message, reason.message);
}

mx_status mxrt_device_select_gemm(mxrt_device *device, const mxrt_gemm_problem *problem,
                                  const mxrt_select_how *how, mxrt_gemm_selection *out,
                                  mx_error *err)
{
    const mxrt_gemm_table_key key = mxrt_gemm_table_key_of(problem);
    const mxrt_gemm_table *table;
    mx_error why = {MX_OK, ""};
    mx_status status;

    out->route = NULL;
    if ((status = mxrt_gemm_table_get(device, &key, &table, err)))
        return status;
    status = select_from(device, table, problem, how, out, &why);
    if (status != MX_ERR_UNSUPPORTED)
        return status ? mx_fail(err, status, "%s", why.message) : MX_OK;
    status = select_compiled(device, table, problem, how, &why, out, err);
    if (status != MX_ERR_UNSUPPORTED || !device->ops->gemm_reference)
        return status;
    out->route = NULL;
    return MX_OK;
}
