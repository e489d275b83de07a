#include "runtime/candidates.h"

#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "runtime/device.h"

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int compare(const void *left, const void *right)
{
    const mxrt_candidate *a = left, *b = right;

    if (a->pack != b->pack)
        return -compare_numbers((int64_t)a->pack, (int64_t)b->pack);
    if (a->target != b->target)
        return compare_numbers((int64_t)a->target, (int64_t)b->target);
    if (a->kind != b->kind)
        return compare_numbers(a->kind, b->kind);
    if (a->rank != b->rank)
        return compare_numbers(a->rank, b->rank);
    return compare_numbers((int64_t)a->index, (int64_t)b->index);
}

/* Place of a target among the device's; -1 if it cannot run it. */
static int find_target(const mxrt_device *device, const char *target)
{
    const char *name;

    for (int i = 0; (name = device->ops->target(device->backend, (size_t)i)); i++) {
        if (!strcmp(name, target))
            return i;
    }
    return -1;
}

static mxrt_candidate candidate_of(const mxrt_device *device, size_t pack, size_t index, int target,
                                   const mxrt_variant_info *info)
{
    const mxrt_pack_key *key = mxrt_pack_key_of(device->packs[pack], index);

    return (mxrt_candidate){
        .pack = pack,
        .index = index,
        .target = (size_t)target,
        .kind = key->family == MXRT_PACK_GEMM ? (int)key->gemm.mode : (int)key->layout,
        .rank = info->rank,
        .object_id = info->object_id,
        .name = info->name,
        .object_kind = info->object_kind,
    };
}

/* Counts, and stores where there is room already. */
static mx_status collect(const mxrt_device *device,
                         int (*matches)(const mxrt_pack_key *key, const void *wanted),
                         const void *wanted, mxrt_candidates *out, mx_error *err)
{
    out->n = 0;
    for (size_t p = 0; p < device->n_packs; p++) {
        const mxrt_pack *pack = device->packs[p];
        for (size_t i = 0; i < mxrt_pack_variant_count(pack); i++) {
            mxrt_variant_info info;
            mx_status status;
            if (!matches(mxrt_pack_key_of(pack, i), wanted))
                continue;
            if ((status = mxrt_pack_variant(pack, i, &info, err)))
                return status;
            int target = find_target(device, info.target);
            if (target < 0 || !device->ops->accepts(device->backend, info.object_kind))
                continue;
            if (out->items)
                out->items[out->n] = candidate_of(device, p, i, target, &info);
            out->n++;
        }
    }
    return MX_OK;
}

static void number_groups(mxrt_candidate *items, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const mxrt_candidate *before = &items[i - 1];
        int same = before->pack == items[i].pack && before->target == items[i].target &&
                   before->kind == items[i].kind;
        items[i].group = before->group + !same;
    }
}

/* They are in order of preference, so the second form serves only where the driver refuses the
 * first. */
static void pair_forms(mxrt_candidate *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t k = i + 1; k < n && items[k].pack == items[i].pack; k++) {
            if (items[i].is_other_form || items[k].target == items[i].target ||
                !strcmp(items[k].object_kind, items[i].object_kind) ||
                strcmp(items[k].name, items[i].name))
                continue;
            items[k].is_other_form = 1;
            if (!items[i].other_form)
                items[i].other_form = k;
        }
    }
}

mx_status mxrt_candidates_find(const mxrt_device *device,
                               int (*matches)(const mxrt_pack_key *key, const void *wanted),
                               const void *wanted, mxrt_candidates *out, mx_error *err)
{
    mx_status status;

    out->items = NULL;
    if ((status = collect(device, matches, wanted, out, err)))
        return status;
    if (!(out->items = calloc(out->n ? out->n : 1, sizeof(*out->items))))
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a table of %zu kernels", out->n);
    if ((status = collect(device, matches, wanted, out, err)))
        return status;
    if (out->n)
        qsort(out->items, out->n, sizeof(*out->items), compare);
    number_groups(out->items, out->n);
    pair_forms(out->items, out->n);
    return MX_OK;
}
