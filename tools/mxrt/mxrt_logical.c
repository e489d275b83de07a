#include "mxrt_logical.h"

#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

/* ---- Options ---- */

enum { KEY_DTYPE = 2048 };

static error_t parse_foreign(int key, char *arg, struct argp_state *state)
{
    foreign_options *options = state->input;
    switch (key) {
    case 'f':
        options->format = tool_parse_format(state, arg);
        if (!mx_format_is_ocp(options->format))
            argp_error(state,
                       "format %s: its metadata tells that it is; --format is for mxfp4, "
                       "mxfp6e2m3, mxfp6e3m2, mxfp8e4m3, mxfp8e5m2 and mxint8",
                       arg);
        options->has_format = 1;
        return 0;
    case KEY_DTYPE:
        if (mx_dtype_parse(arg, &options->dtype) != 0)
            argp_error(state, "dtype \"%s\" is unknown; the types are f32, bf16 and f16", arg);
        return 0;
    case ARGP_KEY_INIT:
        *options = (foreign_options){.dtype = MX_DTYPE_BF16};
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option foreign_option_table[] = {
    {"format", 'f', "FORMAT", 0,
     "What data with scales are that no metadata describes (default: what types and shapes tell)",
     1},
    {"dtype", KEY_DTYPE, "TYPE", 0,
     "The element type that these are restored to: f32, bf16 or f16 (default: bf16)", 1},
    {0}};

const struct argp foreign_argp = {.options = foreign_option_table, .parser = parse_foreign};

/* ---- The list ---- */

/* By metadata of ours; *found tells whether there is any. */
static mx_status by_metadata(const st_reader *reader, logical_tensor *item, int *found,
                             mx_error *err)
{
    char *key = meta_key(item->data->name);
    if (!key)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a metadata key");
    const char *value = st_reader_metadata_find(reader, key);
    free(key);
    *found = value != NULL;
    if (!value)
        return MX_OK;
    mx_status status = meta_parse(value, reader, item->data, &item->packed, err);
    if (status != MX_OK)
        return status;
    item->is_packed = 1;
    if (item->packed.scales_name)
        item->scales = st_reader_find(reader, item->packed.scales_name);
    return MX_OK;
}

static mx_status classify(const st_reader *reader, const foreign_options *options,
                          const tool_filter *filter, logical_tensor *item, mx_error *err)
{
    foreign_pair pair;
    int found;
    item->name = item->data->name;
    if (filter && !tool_filter_keeps(filter, item->name))
        return MX_OK;
    mx_status status = by_metadata(reader, item, &found, err);
    if (status == MX_OK && !found)
        status = foreign_find(reader, item->data, options, &pair, &found, err);
    if (status != MX_OK || !found || item->is_packed)
        return status;
    item->is_packed = 1;
    item->scales = pair.scales;
    item->packed = pair.packed;
    item->name = item->own_name = pair.name;
    return MX_OK;
}

/* Takes the scales out of the list; each belongs to one tensor. */
static mx_status merge_scales(logical_list *list, const st_reader *reader, mx_error *err)
{
    char name[ST_PRINTABLE_BYTES];
    size_t n = 0;
    /* Tensors of a reader are an array. */
    const st_tensor *first = st_reader_at(reader, 0);
    char *taken = calloc(list->n + 1, 1);
    mx_status status = MX_OK;
    if (!taken)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu tensors", list->n);
    for (size_t i = 0; i < list->n && status == MX_OK; i++) {
        const logical_tensor *item = &list->items[i];
        if (!item->scales)
            continue;
        size_t at = (size_t)(item->scales - first);
        if (taken[at]++ || list->items[at].is_packed)
            status = mx_fail(err, MX_ERR_CORRUPT,
                             "tensor \"%s\" is the scales of \"%s\" and something else, too",
                             item->scales->name, st_printable(item->name, name));
    }
    for (size_t i = 0; i < list->n && status == MX_OK; i++) {
        if (!taken[i])
            list->items[n++] = list->items[i];
    }
    if (status == MX_OK)
        list->n = n;
    free(taken);
    return status;
}

mx_status logical_list_init(logical_list *list, const st_reader *reader,
                            const foreign_options *options, const tool_filter *filter,
                            mx_error *err)
{
    size_t n = st_reader_count(reader);
    logical_list made = {.items = calloc(n + 1, sizeof(*made.items)), .n = n};
    mx_status status = MX_OK;
    if (!made.items)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu tensors", n);
    for (size_t i = 0; i < n && status == MX_OK; i++) {
        made.items[i].data = st_reader_at(reader, i);
        status = classify(reader, options, filter, &made.items[i], err);
    }
    if (status == MX_OK)
        status = merge_scales(&made, reader, err);
    if (status != MX_OK) {
        logical_list_finish(&made);
        return status;
    }
    *list = made;
    return MX_OK;
}

void logical_list_finish(logical_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        meta_packed_finish(&list->items[i].packed);
        free(list->items[i].own_name);
    }
    free(list->items);
    memset(list, 0, sizeof(*list));
}
