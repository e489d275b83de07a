#include "runtime/gemm_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include <mxgen/error.h>

#include "runtime/candidates.h"
#include "runtime/context.h"
#include "runtime/device.h"
#include "runtime/gemm_model.h"
#include "runtime/tuned.h"

static int matches(const mxrt_pack_key *key, const void *of)
{
    const mxrt_gemm_table_key *wanted = of;
    const mxrt_pack_gemm_key *gemm = &key->gemm;

    return key->family == MXRT_PACK_GEMM && !gemm->is_step && gemm->pass == wanted->pass &&
           gemm->left == wanted->left && gemm->right == wanted->right &&
           key->dtype == wanted->dtype;
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

/* Of all kernels: a changed step makes another route. "" if one does not tell its own. */
static void join_codes(mxrt_gemm_route *route)
{
    char all[MXRT_GEMM_MAX_LAUNCHES * sizeof(route->code)] = "";

    route->code[0] = 0;
    for (size_t i = 0; i < route->n_kernels; i++) {
        if (!route->kernels[i].code[0])
            return;
        strcat(all, route->kernels[i].code);
    }
    if (route->n_kernels == 1)
        strcpy(route->code, all);
    else
        snprintf(route->code, sizeof(route->code), "%016" PRIx64,
                 (uint64_t)XXH3_64bits(all, strlen(all)));
}

static mx_status init_route(mxrt_device *device, const mxrt_candidate *from, mxrt_gemm_route *out,
                            mx_error *err)
{
    const mxrt_pack *pack = device->packs[from->pack];
    const mxrt_pack_launch *launch = mxrt_pack_launch_of(pack, from->index);
    mxrt_variant_info info;
    mx_status status = mxrt_pack_variant(pack, from->index, &info, err);

    out->mode = mxrt_pack_key_of(pack, from->index)->gemm.mode;
    out->n_kernels = 0;
    for (size_t i = 0; !status && i < launch->n_before; i++)
        status = add_step(device, pack, &info, launch->before[i], out, err);
    out->main = out->n_kernels++;
    if (!status)
        status = mxrt_variant_init(device, pack, from->index, &out->kernels[out->main], err);
    for (size_t i = 0; !status && i < launch->n_after; i++)
        status = add_step(device, pack, &info, launch->after[i], out, err);
    if (status)
        return status;
    join_codes(out);
    mxrt_gemm_model_init(info.params_json, out);
    return MX_OK;
}

/* Whether the first form of a kernel that has two is there. */
static int has_first_form(const mxrt_device *device, const mxrt_gemm_table *table,
                          const mxrt_candidate *second)
{
    for (size_t i = 0; second->is_other_form && i < table->n_routes; i++) {
        const mxrt_variant *main = &table->routes[i].kernels[table->routes[i].main];
        if (main->pack == device->packs[second->pack] && !strcmp(main->info.name, second->name))
            return 1;
    }
    return 0;
}

/* What is damaged, or what the driver refuses, is left out where anything else is there. */
static mx_status init_routes(mxrt_device *device, const mxrt_candidate *candidates, size_t n,
                             mxrt_gemm_table *table, mx_error *err)
{
    mx_error first = {MX_OK, ""};

    for (size_t i = 0; i < n; i++) {
        mx_error why = {MX_OK, ""};
        if (has_first_form(device, table, &candidates[i]))
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

mx_status mxrt_gemm_table_build(mxrt_device *device, const mxrt_gemm_table_key *key,
                                mxrt_gemm_table **out, mx_error *err)
{
    mxrt_gemm_table *table = calloc(1, sizeof(*table));
    mxrt_candidates found;
    mx_status status = mxrt_candidates_find(device, matches, key, &found, err);

    if (!status && table)
        table->routes = calloc(found.n ? found.n : 1, sizeof(*table->routes));
    if (!status && (!table || !table->routes))
        status = mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a table of %zu kernels", found.n);
    if (status)
        goto out;
    table->key = *key;
    if ((status = init_routes(device, found.items, found.n, table, err)))
        goto out;
    mxrt_gemm_tuned_read(device, table);
    mxrt_context_log(
        device->context, "%s: %s %s.%s %s: %zu kernels%s", device->info.uri,
        mx_gemm_pass_name(key->pass), mx_gemm_element_name(key->left),
        mx_gemm_element_name(key->right), mx_dtype_get(key->dtype)->name, table->n_routes,
        !table->n_routes && device->ops->gemm_reference ? ", the C reference serves" : "");
    *out = table;
    table = NULL;
out:
    mxrt_gemm_table_destroy(table);
    free(found.items);
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
        if (!table && !(status = mxrt_gemm_table_build(device, key, &table, err)))
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
    for (int mode = 0; mode < MX_GEMM_MODE_COUNT; mode++)
        mxrt_tuned_free(atomic_load(&table->tuned[mode]));
    free(table->routes);
    free(table);
}
