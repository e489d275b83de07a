#include "runtime/gemm_table.h"

#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "runtime/context.h"
#include "runtime/device.h"
#include "runtime/gemm_model.h"

/* ---- Order of preference ---- */

typedef struct candidate {
    size_t pack, index; /* of the device's packs; of the pack's variants */
    size_t target;      /* among the device's, best first */
    mx_gemm_mode mode;
    int64_t rank;
} candidate;

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

/* Packs added last first, then targets best first, then fast before exact, then ranks. */
static int compare_candidates(const void *left, const void *right)
{
    const candidate *a = left, *b = right;

    if (a->pack != b->pack)
        return -compare_numbers((int64_t)a->pack, (int64_t)b->pack);
    if (a->target != b->target)
        return compare_numbers((int64_t)a->target, (int64_t)b->target);
    if (a->mode != b->mode)
        return compare_numbers(a->mode, b->mode);
    if (a->rank != b->rank)
        return compare_numbers(a->rank, b->rank);
    return compare_numbers((int64_t)a->index, (int64_t)b->index);
}

/* Place of a target among the device's; -1 if it cannot run it. */
static int find_target(const mxrt_device *device, const mxrt_variant_info *info)
{
    const char *name;

    if (!device->ops->accepts(device->backend, info->object_kind))
        return -1;
    for (int i = 0; (name = device->ops->target(device->backend, (size_t)i)); i++) {
        if (!strcmp(name, info->target))
            return i;
    }
    return -1;
}

static int matches(const mxrt_pack_key *key, const mxrt_gemm_table_key *wanted)
{
    const mxrt_pack_gemm_key *gemm = &key->gemm;

    return key->family == MXRT_PACK_GEMM && !gemm->is_step && gemm->pass == wanted->pass &&
           gemm->left == wanted->left && gemm->right == wanted->right &&
           key->dtype == wanted->dtype;
}

/* Counts the candidates, and stores them where `out` is not NULL. */
static mx_status collect(const mxrt_device *device, const mxrt_gemm_table_key *key, candidate *out,
                         size_t *n, mx_error *err)
{
    size_t count = 0;

    for (size_t p = 0; p < device->n_packs; p++) {
        for (size_t i = 0; i < mxrt_pack_variant_count(device->packs[p]); i++) {
            const mxrt_pack_key *found = mxrt_pack_key_of(device->packs[p], i);
            mxrt_variant_info info;
            mx_status status;
            if (!matches(found, key))
                continue;
            if ((status = mxrt_pack_variant(device->packs[p], i, &info, err)))
                return status;
            int target = find_target(device, &info);
            if (target < 0)
                continue;
            if (out)
                out[count] = (candidate){p, i, (size_t)target, found->gemm.mode, info.rank};
            count++;
        }
    }
    *n = count;
    return MX_OK;
}

/* ---- Routes ---- */

/* The step of this name for the same target. */
static mx_status find_step(const mxrt_pack *pack, const mxrt_variant_info *of, const char *name,
                           size_t *out, mx_error *err)
{
    for (size_t i = 0; i < mxrt_pack_variant_count(pack); i++) {
        const mxrt_pack_key *key = mxrt_pack_key_of(pack, i);
        mxrt_variant_info info;
        if (key->family != MXRT_PACK_GEMM || !key->gemm.is_step ||
            mxrt_pack_variant(pack, i, &info, NULL) || strcmp(info.name, name) ||
            strcmp(info.target, of->target))
            continue;
        *out = i;
        return MX_OK;
    }
    return mx_fail(err, MX_ERR_CORRUPT,
                   "kernel %s (%s) has the step %s, which its pack lacks; build the pack again",
                   of->name, of->target, name);
}

static mx_status add_step(mxrt_device *device, const mxrt_pack *pack, const mxrt_variant_info *of,
                          const char *name, mxrt_gemm_route *route, mx_error *err)
{
    size_t index;
    mx_status status = find_step(pack, of, name, &index, err);

    if (!status)
        status = mxrt_variant_init(device, pack, index, &route->kernels[route->n_kernels++], err);
    return status;
}

static mx_status init_route(mxrt_device *device, const candidate *from, mxrt_gemm_route *out,
                            mx_error *err)
{
    const mxrt_pack *pack = device->packs[from->pack];
    const mxrt_pack_launch *launch = mxrt_pack_launch_of(pack, from->index);
    mxrt_variant_info info;
    mx_status status = mxrt_pack_variant(pack, from->index, &info, err);

    out->mode = from->mode;
    out->n_kernels = 0;
    for (size_t i = 0; !status && i < launch->n_before; i++)
        status = add_step(device, pack, &info, launch->before[i], out, err);
    out->main = out->n_kernels++;
    if (!status)
        status = mxrt_variant_init(device, pack, from->index, &out->kernels[out->main], err);
    for (size_t i = 0; !status && i < launch->n_after; i++)
        status = add_step(device, pack, &info, launch->after[i], out, err);
    if (!status)
        mxrt_gemm_model_tile(info.params_json, &out->tile_rows, &out->tile_columns);
    return status;
}

/* A pack may have a kernel as machine code and as text for the driver's compiler, under one name:
 * the second serves where the driver refuses the first. */
static int is_other_form(const mxrt_device *device, const mxrt_gemm_table *table,
                         const candidate *from)
{
    mxrt_variant_info info;

    if (mxrt_pack_variant(device->packs[from->pack], from->index, &info, NULL))
        return 0;
    for (size_t i = 0; i < table->n_routes; i++) {
        const mxrt_variant *main = &table->routes[i].kernels[table->routes[i].main];
        if (main->pack == device->packs[from->pack] && !strcmp(main->info.name, info.name) &&
            strcmp(main->info.object_kind, info.object_kind))
            return 1;
    }
    return 0;
}

/* What is damaged, or what the driver refuses, is left out where anything else is there. */
static mx_status init_routes(mxrt_device *device, const candidate *candidates, size_t n,
                             mxrt_gemm_table *table, mx_error *err)
{
    mx_error first = {MX_OK, ""};

    for (size_t i = 0; i < n; i++) {
        mx_error why = {MX_OK, ""};
        if (is_other_form(device, table, &candidates[i]))
            continue;
        mx_status status =
            init_route(device, &candidates[i], &table->routes[table->n_routes], &why);
        if (!status) {
            table->n_routes++;
            continue;
        }
        if (status != MX_ERR_DEVICE && status != MX_ERR_CORRUPT && status != MX_ERR_UNSUPPORTED)
            return mx_fail(err, status, "%s", why.message);
        mxrt_context_log(device->context, "%s: left out: %s", device->info.uri, why.message);
        if (!first.status)
            first = why;
    }
    if (n && !table->n_routes)
        return mx_fail(err, first.status, "%s", first.message);
    return MX_OK;
}

/* ---- Tables ---- */

static mx_status build(mxrt_device *device, const mxrt_gemm_table_key *key, mxrt_gemm_table **out,
                       mx_error *err)
{
    mxrt_gemm_table *table = calloc(1, sizeof(*table));
    candidate *candidates = NULL;
    size_t n = 0;
    mx_status status = collect(device, key, NULL, &n, err);

    if (!status) {
        candidates = calloc(n ? n : 1, sizeof(*candidates));
        if (table)
            table->routes = calloc(n ? n : 1, sizeof(*table->routes));
        if (!candidates || !table || !table->routes)
            status = mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a table of %zu kernels", n);
    }
    if (status || (status = collect(device, key, candidates, &n, err)))
        goto out;
    table->key = *key;
    if (n)
        qsort(candidates, n, sizeof(*candidates), compare_candidates);
    if ((status = init_routes(device, candidates, n, table, err)))
        goto out;
    mxrt_context_log(
        device->context, "%s: %s %s.%s %s: %zu kernels%s", device->info.uri,
        mx_gemm_pass_name(key->pass), mx_gemm_element_name(key->left),
        mx_gemm_element_name(key->right), mx_dtype_get(key->dtype)->name, table->n_routes,
        !table->n_routes && device->ops->gemm_reference ? ", the C reference serves" : "");
    *out = table;
    table = NULL;
out:
    mxrt_gemm_table_destroy(table);
    free(candidates);
    return status;
}

mx_status mxrt_gemm_table_get(mxrt_device *device, const mxrt_gemm_table_key *key,
                              const mxrt_gemm_table **out, mx_error *err)
{
    _Atomic(mxrt_gemm_table *) *at = &device->gemm_tables[mxrt_gemm_table_index(key)];
    mxrt_gemm_table *table = atomic_load_explicit(at, memory_order_acquire);
    mx_status status = MX_OK;

    if (!table) {
        pthread_mutex_lock(&device->lock);
        table = atomic_load_explicit(at, memory_order_acquire);
        if (!table && !(status = build(device, key, &table, err)))
            atomic_store_explicit(at, table, memory_order_release);
        pthread_mutex_unlock(&device->lock);
    }
    if (!status)
        *out = table;
    return status;
}

void mxrt_gemm_table_destroy(mxrt_gemm_table *table)
{
    if (!table)
        return;
    free(table->routes);
    free(table);
}

/* ---- Choice ---- */

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

/* The best of the applicable ones; their number, and why the first one does not apply. */
static size_t search(const mxrt_device *device, const mxrt_gemm_table *table,
                     const mxrt_gemm_problem *problem, const int64_t *values,
                     mxrt_gemm_selection *out, mx_error *why)
{
    double best = 0;
    size_t n_tried = 0;

    out->route = NULL;
    for (size_t i = 0; i < table->n_routes; i++) {
        const mxrt_gemm_route *route = &table->routes[i];
        mxrt_gemm_selection found;
        if (problem->mode == MX_GEMM_EXACT && route->mode != MX_GEMM_EXACT)
            continue;
        if (mxrt_gemm_select_route(route, values, &found, n_tried++ ? NULL : why))
            continue;
        double seconds = mxrt_gemm_model_seconds(device->info.target, problem, &found,
                                                 values[MXRT_GEMM_VAR_NUM_CU]);
        if (out->route && seconds >= best)
            continue;
        /* The first sets the mark; others must beat it by the margin, then each other. */
        best = out->route ? seconds : seconds * MXRT_GEMM_MODEL_MARGIN;
        *out = found;
    }
    return n_tried;
}

mx_status mxrt_gemm_select(const mxrt_device *device, const mxrt_gemm_table *table,
                           const mxrt_gemm_problem *problem,
                           const int64_t values[MXRT_GEMM_VAR_COUNT], mxrt_gemm_selection *out,
                           mx_error *err)
{
    const mxrt_gemm_table_key *key = &table->key;
    mx_error first = {MX_OK, ""};
    size_t n = search(device, table, problem, values, out, &first);

    if (out->route)
        return MX_OK;
    if (n)
        return mx_fail(err, MX_ERR_UNSUPPORTED, "none of %zu kernels applies; the first: %.800s", n,
                       first.message);
    return mx_fail(err, MX_ERR_UNSUPPORTED,
                   "no pack has a kernel for %s %s.%s %s (%s) on %s, a %s; add a pack made with "
                   "mxgen build --target %s that has grouped GEMM",
                   mx_gemm_pass_name(key->pass), mx_gemm_element_name(key->left),
                   mx_gemm_element_name(key->right), mx_dtype_get(key->dtype)->name,
                   mx_gemm_mode_name(problem->mode), device->info.uri, device->info.target,
                   device->info.target);
}
