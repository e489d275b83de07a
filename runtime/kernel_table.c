#include "runtime/kernel_table.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "runtime/candidates.h"
#include "runtime/context.h"
#include "runtime/device.h"
#include "runtime/tuned.h"

static int matches(const mxrt_pack_key *key, const void *of)
{
    const mxrt_table_key *wanted = of;

    return key->family == MXRT_PACK_BLOCKS && key->op == wanted->op &&
           key->format == wanted->format && key->dtype == wanted->dtype &&
           key->profile == wanted->profile;
}

/* ---- Variants ---- */

/* LDS that a kernel is readied for, which the driver must know before the first launch. */
static mx_status lds_of(const mxrt_variant *variant, uint32_t *out, mx_error *err)
{
    int64_t values[MXRT_VALUES_COUNT], bytes;
    mx_error reason;

    for (int i = 0; i < MXRT_VALUES_COUNT; i++)
        values[i] = 1;
    values[MXRT_VAR_LEN] = MX_BLOCK_ELEMENTS;
    if (mxrt_expr_eval(variant->launch->lds_bytes, values, &bytes, &reason))
        return mx_fail(err, MX_ERR_CORRUPT, "kernel %s (%s): LDS size: %.700s", variant->info.name,
                       variant->info.target, reason.message);
    if (bytes < 0 || bytes > UINT32_MAX)
        return mx_fail(err, MX_ERR_CORRUPT, "kernel %s (%s): an LDS size of %lld bytes",
                       variant->info.name, variant->info.target, (long long)bytes);
    *out = (uint32_t)bytes;
    return MX_OK;
}

/* What the model and tuning files want of the info. */
static void read_info(mxrt_variant *variant)
{
    json_t *info = json_loads(variant->info.info_json, 0, NULL);
    const char *code = json_string_value(json_object_get(info, "code"));

    mxrt_model_kernel_init(info, &variant->model);
    snprintf(variant->code, sizeof(variant->code), "%s", code ? code : "");
    json_decref(info);
}

static int reads_seed(const mxrt_expr *expr)
{
    return mxrt_expr_reads(expr, MXRT_VAR_SEED_LOW) || mxrt_expr_reads(expr, MXRT_VAR_SEED_HIGH);
}

static void find_seed(mxrt_variant *variant)
{
    const mxrt_pack_launch *launch = variant->launch;

    _Static_assert(MXPACK_MAX_ARGS <= 64, "an argument is a bit");
    variant->seed_args = 0;
    variant->seed_decides = 0;
    if (launch->family != MXRT_PACK_BLOCKS) /* numbers are those of other variables there */
        return;
    variant->seed_decides = reads_seed(launch->lds_bytes);
    for (size_t i = 0; i < launch->n_args; i++) {
        if (launch->args[i].value && reads_seed(launch->args[i].value))
            variant->seed_args |= UINT64_C(1) << i;
    }
    for (int i = 0; i < 3; i++)
        variant->seed_decides |= reads_seed(launch->grid[i]) || reads_seed(launch->block[i]);
    for (size_t i = 0; i < launch->n_rules; i++)
        variant->seed_decides |= reads_seed(launch->rules[i].when);
}

mx_status mxrt_variant_init(mxrt_device *device, const mxrt_pack *pack, size_t index,
                            mxrt_variant *out, mx_error *err)
{
    mxrt_backend_module *module;
    mx_status status;

    out->pack = pack;
    out->layout = mxrt_pack_key_of(pack, index)->layout;
    out->launch = mxrt_pack_launch_of(pack, index);
    find_seed(out);
    for (size_t i = 0; i < out->launch->n_args; i++)
        out->arg_offsets[i] = out->launch->args[i].offset_bytes;
    if ((status = mxrt_pack_variant(pack, index, &out->info, err)) ||
        (status = lds_of(out, &out->lds_bytes, err)) ||
        (status = mxrt_device_module(device, pack, &out->info, &module, err)))
        return status;
    read_info(out);
    return device->ops->module_kernel(device->backend, module, out->info.symbol, out->lds_bytes,
                                      &out->kernel, err);
}

static mx_status init_variant(mxrt_device *device, const mxrt_candidate *from, mxrt_variant *out,
                              mx_error *err)
{
    mx_status status = mxrt_variant_init(device, device->packs[from->pack], from->index, out, err);

    out->group = from->group;
    return status;
}

/* Of variants with one name the first in preference comes first. */
static int compare_names(const void *left, const void *right, void *table)
{
    const mxrt_variant *variants = ((const mxrt_kernel_table *)table)->variants;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    int order = strcmp(variants[a].info.name, variants[b].info.name);

    return order ? order : (a > b) - (a < b);
}

static mx_status order_names(mxrt_kernel_table *table, mx_error *err)
{
    table->by_name = calloc(table->n_variants ? table->n_variants : 1, sizeof(*table->by_name));
    if (!table->by_name)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu names", table->n_variants);
    for (size_t i = 0; i < table->n_variants; i++)
        table->by_name[i] = (uint32_t)i;
    if (table->n_variants)
        qsort_r(table->by_name, table->n_variants, sizeof(*table->by_name), compare_names, table);
    return MX_OK;
}

/* Numbers the conditions of all variants so that equal texts get equal numbers. */
static mx_status number_rules(mxrt_kernel_table *table, mx_error *err)
{
    size_t most = 0;

    for (size_t i = 0; i < table->n_variants; i++)
        most += table->variants[i].launch->n_rules;
    const char **texts = calloc(most ? most : 1, sizeof(*texts));
    if (!texts)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu rules", most);
    for (size_t i = 0; i < table->n_variants; i++) {
        mxrt_variant *variant = &table->variants[i];
        for (size_t r = 0; r < variant->launch->n_rules; r++) {
            const char *text = mxrt_expr_text(variant->launch->rules[r].when);
            size_t id = 0;
            while (id < table->n_rules && strcmp(texts[id], text))
                id++;
            if (id == table->n_rules)
                texts[table->n_rules++] = text;
            /* Numbers past the 16 bits are not remembered by the search anyway. */
            variant->rule_ids[r] = id < UINT16_MAX ? (uint16_t)id : UINT16_MAX;
        }
    }
    free(texts);
    return MX_OK;
}

/* `refused` is the last candidate whose object the driver refused, so that it is asked once. */
static mx_status init_either_form(mxrt_device *device, const mxrt_candidate *from,
                                  const mxrt_candidate *second, const mxrt_candidate **refused,
                                  mxrt_variant *out, mx_error *err)
{
    mx_error reason = {MX_OK, ""};

    if (!*refused || (*refused)->pack != from->pack || (*refused)->object_id != from->object_id) {
        mx_status status = init_variant(device, from, out, &reason);
        if (status && status != MX_ERR_DEVICE)
            return mx_fail(err, status, "%s", reason.message);
        if (!status)
            return MX_OK;
        mxrt_context_log(device->context, "%s (%s) cannot be used, so %s is: %s", from->object_kind,
                         device->info.uri, second->object_kind, reason.message);
        *refused = from;
    }
    return init_variant(device, second, out, err);
}

/* What is wrong with a pack's file stays so, and must not take the sound kernels of other objects
 * and packs along. */
typedef struct losses {
    const mxrt_candidate *last; /* NULL: none so far */
    mx_error first;
} losses;

/* An object is told of once, though each of its kernels fails. */
static void lose(mxrt_device *device, losses *lost, const mxrt_candidate *from,
                 const mx_error *reason)
{
    int is_news =
        !lost->last || lost->last->pack != from->pack || lost->last->object_id != from->object_id;

    if (!lost->last)
        lost->first = *reason;
    lost->last = from;
    if (is_news)
        mxrt_context_log(device->context, "%s: left out: %s", device->info.uri, reason->message);
}

/* Without what came as the second form of something before. Fails for what is damaged, or for other
 * machines, only if nothing is left. */
static mx_status init_variants(mxrt_device *device, const mxrt_candidate *candidates, size_t n,
                               mxrt_kernel_table *table, mx_error *err)
{
    const mxrt_candidate *refused = NULL;
    losses lost = {.last = NULL};

    for (size_t i = 0; i < n; i++) {
        const mxrt_candidate *from = &candidates[i];
        mxrt_variant *variant = &table->variants[table->n_variants];
        mx_error reason = {MX_OK, ""};
        mx_status status = MX_OK;
        if (from->is_other_form)
            continue;
        if (from->other_form)
            status = init_either_form(device, from, &candidates[from->other_form], &refused,
                                      variant, &reason);
        else
            status = init_variant(device, from, variant, &reason);
        if (status == MX_ERR_CORRUPT || status == MX_ERR_UNSUPPORTED)
            lose(device, &lost, from, &reason);
        else if (status)
            return mx_fail(err, status, "%s", reason.message);
        else
            table->seed_decides |= table->variants[table->n_variants++].seed_decides;
    }
    if (!table->n_variants && lost.last)
        return mx_fail(err, lost.first.status, "%s", lost.first.message);
    return MX_OK;
}

static mx_status fill_table(mxrt_device *device, mxrt_kernel_table *table, mx_error *err)
{
    mxrt_candidates found;
    mx_status status = mxrt_candidates_find(device, matches, &table->key, &found, err);

    if (status)
        goto out;
    table->variants = calloc(found.n ? found.n : 1, sizeof(*table->variants));
    table->cache = mxrt_select_cache_create();
    if (!table->variants || !table->cache) {
        status = mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a table of %zu kernels", found.n);
        goto out;
    }
    mxrt_model_chip_init(&device->info, &table->chip);
    if (!(status = init_variants(device, found.items, found.n, table, err)) &&
        !(status = order_names(table, err)) && !(status = number_rules(table, err)))
        mxrt_tuned_read(device, table);
out:
    free(found.items);
    return status;
}

mx_status mxrt_kernel_table_build(mxrt_device *device, const mxrt_table_key *key,
                                  mxrt_kernel_table **out, mx_error *err)
{
    mxrt_kernel_table *table = calloc(1, sizeof(*table));
    mx_status status;

    if (!table)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a table of kernels");
    table->key = *key;
    if ((status = fill_table(device, table, err))) {
        mxrt_kernel_table_destroy(table);
        return status;
    }
    mxrt_context_log(
        device->context, "%s: %s %s %s (%s): %zu kernels%s", device->info.uri, mx_op_name(key->op),
        mx_format_get(key->format)->name, mx_dtype_get(key->dtype)->name,
        mx_profile_name(key->profile), table->n_variants,
        !table->n_variants && device->ops->reference ? ", the C reference serves" : "");
    *out = table;
    return MX_OK;
}

void mxrt_kernel_table_destroy(mxrt_kernel_table *table)
{
    if (!table)
        return;
    mxrt_tuned_free(atomic_load(&table->tuned));
    mxrt_select_cache_destroy(table->cache);
    free(table->by_name);
    free(table->variants);
    free(table);
}

const mxrt_variant *mxrt_kernel_table_find(const mxrt_kernel_table *table, const char *name)
{
    size_t low = 0, high = table->n_variants;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(table->variants[table->by_name[middle]].info.name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == table->n_variants)
        return NULL;
    const mxrt_variant *found = &table->variants[table->by_name[low]];
    return strcmp(found->info.name, name) ? NULL : found;
}
