#include "mxrt_counts.h"

#include <stddef.h>

#include <mxgen/error.h>

/* The counts that JSON lists, in the order of the struct. */
static const struct {
    const char *name;
    size_t offset;
} counts_members[] = {
    {"waves", offsetof(mxrt_counters, waves)},
    {"lanes", offsetof(mxrt_counters, lanes)},
    {"valu", offsetof(mxrt_counters, valu)},
    {"salu", offsetof(mxrt_counters, salu)},
    {"smem", offsetof(mxrt_counters, smem)},
    {"vmem_load", offsetof(mxrt_counters, vmem_load)},
    {"vmem_store", offsetof(mxrt_counters, vmem_store)},
    {"lds", offsetof(mxrt_counters, lds)},
    {"mfma", offsetof(mxrt_counters, mfma)},
    {"branch", offsetof(mxrt_counters, branch)},
    {"waitcnt", offsetof(mxrt_counters, waitcnt)},
    {"other", offsetof(mxrt_counters, other)},
    {"load_bytes", offsetof(mxrt_counters, load_bytes)},
    {"store_bytes", offsetof(mxrt_counters, store_bytes)},
    {"load_trans64", offsetof(mxrt_counters, load_trans64)},
    {"load_trans128", offsetof(mxrt_counters, load_trans128)},
    {"store_trans64", offsetof(mxrt_counters, store_trans64)},
    {"store_trans128", offsetof(mxrt_counters, store_trans128)},
    {"lds_bytes", offsetof(mxrt_counters, lds_bytes)},
    {"lds_conflicts", offsetof(mxrt_counters, lds_conflicts)},
};
enum { N_MEMBERS = sizeof(counts_members) / sizeof(counts_members[0]) };

static uint64_t *member(mxrt_counters *counts, size_t index)
{
    return (uint64_t *)(void *)((char *)counts + counts_members[index].offset);
}

int counts_available(mxrt_device *device)
{
    mxrt_counters counts = {.size_bytes = sizeof(counts)};
    return mxrt_device_counters(device, &counts, NULL) == MX_OK;
}

mx_status counts_run(mxrt_device *device, mxrt_timed_fn fn, void *user, mxrt_counters *out,
                     mx_error *err)
{
    mxrt_counters before = {.size_bytes = sizeof(before)}, after = before;
    mx_status status = mxrt_device_synchronize(device, NULL, err);
    if (status == MX_OK)
        status = mxrt_device_counters(device, &before, err);
    if (status == MX_OK)
        status = fn(user, NULL, err);
    if (status == MX_OK)
        status = mxrt_device_synchronize(device, NULL, err);
    if (status == MX_OK)
        status = mxrt_device_counters(device, &after, err);
    if (status != MX_OK)
        return status;
    after.launches -= before.launches;
    for (size_t i = 0; i < N_MEMBERS; i++)
        *member(&after, i) -= *member(&before, i);
    *out = after;
    return MX_OK;
}

/* A figure of the kernel that the pack has, -1 where it has none. */
static json_int_t figure(json_t *figures, const char *name)
{
    const json_t *value = json_object_get(figures, name);
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

json_t *counts_json(const mxrt_counters *counts, const mxrt_plan_info *info)
{
    static const char *const figures_wanted[] = {"vgprs", "agprs", "sgprs", "occupancy"};
    mxrt_counters copy = *counts;
    json_t *out = json_object(), *figures = json_loads(info->info_json, 0, NULL);
    for (size_t i = 0; i < N_MEMBERS; i++)
        json_object_set_new(out, counts_members[i].name,
                            json_integer((json_int_t)*member(&copy, i)));
    for (size_t i = 0; i < sizeof(figures_wanted) / sizeof(figures_wanted[0]); i++) {
        json_int_t value = figure(figures, figures_wanted[i]);
        if (value >= 0)
            json_object_set_new(out, figures_wanted[i], json_integer(value));
    }
    json_decref(figures);
    return out;
}

const char *const counts_heads[] = {"vector", "scalar",    "memory",  "lds",   "load B", "store B",
                                    "lds+",   "registers", "scalars", "waves", NULL};

static void ratio_cell(tool_table *table, double numerator, uint64_t denominator)
{
    if (denominator)
        table_cell(table, "%.1f", numerator / (double)denominator);
    else
        table_cell(table, "-");
}

static void figure_cell(tool_table *table, json_int_t value)
{
    if (value >= 0)
        table_cell(table, "%lld", (long long)value);
    else
        table_cell(table, "-");
}

void counts_cells(tool_table *table, const mxrt_counters *counts, const mxrt_plan_info *info)
{
    json_t *figures = json_loads(info->info_json, 0, NULL);
    uint64_t blocks = (uint64_t)info->n_blocks;
    double lanes = counts->waves ? (double)counts->lanes / (double)counts->waves : 0;
    uint64_t scalar = counts->salu + counts->smem + counts->branch + counts->waitcnt;
    ratio_cell(table, lanes * (double)(counts->valu + counts->mfma), blocks);
    ratio_cell(table, (double)scalar, counts->waves);
    ratio_cell(table, lanes * (double)(counts->vmem_load + counts->vmem_store), blocks);
    ratio_cell(table, lanes * (double)counts->lds, blocks);
    ratio_cell(table, (double)counts->load_bytes, counts->load_trans64);
    ratio_cell(table, (double)counts->store_bytes, counts->store_trans64);
    ratio_cell(table, (double)counts->lds_conflicts, counts->waves);
    figure_cell(table, figure(figures, "vgprs"));
    figure_cell(table, figure(figures, "sgprs"));
    figure_cell(table, figure(figures, "occupancy"));
    json_decref(figures);
}
