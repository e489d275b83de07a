#include "mxrt_job.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

typedef struct quantize_options {
    job_options job;
    mx_format format;
    int has_format;
    int axis;
} quantize_options;

static error_t parse_quantize(int key, char *arg, struct argp_state *state)
{
    quantize_options *options = state->input;
    switch (key) {
    case 'f':
        options->format = tool_parse_format(state, arg);
        options->has_format = 1;
        return 0;
    case 'a':
        options->axis = (int)tool_parse_integer(state, "--axis", arg, INT_MIN, INT_MAX);
        return 0;
    case ARGP_KEY_INIT:
        options->axis = -1;
        state->child_inputs[0] = &options->job;
        return 0;
    case ARGP_KEY_END:
        if (!options->has_format)
            argp_error(state, "which format? --format mx9, mx6 or mx4 is missing");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Floating tensors of two or more dimensions, unless --include names others; never empty ones. */
static int wants(const job_options *options, const st_tensor *tensor, mx_dtype *dtype)
{
    size_t least = options->filter.has_include ? 1 : 2;
    return meta_dtype_from_file(tensor->dtype, dtype) == 0 && tensor->ndim >= least &&
           tensor->n_elements > 0 && tool_filter_keeps(&options->filter, tensor->name);
}

static mx_status declare_packed(tool_job *job, job_item *item, mx_error *err)
{
    const meta_packed *packed = &item->packed;
    char name[ST_PRINTABLE_BYTES];
    mx_error why;
    int64_t shape[2];
    int64_t block_bytes = mx_format_get(packed->format)->block_bytes;
    /* Three dimensions have the same blocks as all of them, and no limit on their number. */
    slab_view view;
    slab_view_init(&view, packed->ndim, packed->shape, packed->axis, 1, block_bytes);
    if (mxrt_packed_shape(packed->format, SLAB_DIMS, view.size, SLAB_AXIS, &shape[0], &shape[1],
                          &why) != MX_OK)
        return mx_fail(err, why.status, "tensor \"%s\": %s", st_printable(item->tensor->name, name),
                       why.message);
    mx_status status =
        st_writer_declare(job->writer, item->tensor->name, ST_U8, 2, shape, &item->index, err);
    item->bytes_after = status == MX_OK ? shape[0] * shape[1] : 0;
    return status;
}

static mx_status plan_packed(tool_job *job, job_item *item, const quantize_options *options,
                             mx_dtype dtype, mx_error *err)
{
    const st_tensor *tensor = item->tensor;
    char name[ST_PRINTABLE_BYTES];
    int64_t ndim = (int64_t)tensor->ndim, axis = options->axis;
    st_printable(tensor->name, name);
    if (axis < -ndim || axis >= ndim)
        return mx_fail(err, MX_ERR_INVALID,
                       "tensor \"%s\": axis %lld is outside %lld..%lld; leave it out with "
                       "--exclude",
                       name, (long long)axis, (long long)-ndim, (long long)ndim - 1);
    char *key = meta_key(tensor->name), *value = NULL;
    mx_status status = mx_fail(err, MX_ERR_NO_MEMORY, "no memory for tensor \"%s\"", name);
    if (!key)
        goto out;
    if (st_reader_metadata_find(job->reader, key)) {
        status = mx_fail(err, MX_ERR_INVALID,
                         "tensor \"%s\" has metadata of a packed tensor but is %s; leave it out "
                         "with --exclude",
                         name, st_dtype_name(tensor->dtype));
        goto out;
    }
    item->packed = (meta_packed){.format = options->format,
                                 .dtype = dtype,
                                 .axis = (int)(axis < 0 ? axis + ndim : axis),
                                 .ndim = tensor->ndim,
                                 .shape = calloc(tensor->ndim, sizeof(int64_t))};
    if (!item->packed.shape)
        goto out;
    memcpy(item->packed.shape, tensor->shape, tensor->ndim * sizeof(int64_t));
    item->converted = 1;
    value = meta_value(&item->packed);
    if (!value)
        goto out;
    status = st_writer_metadata(job->writer, key, value, err);
    if (status == MX_OK)
        status = declare_packed(job, item, err);
out:
    free(key);
    free(value);
    return status;
}

static mx_status plan_quantize(tool_job *job, void *user, mx_error *err)
{
    const quantize_options *options = user;
    mx_status status = MX_OK;
    for (size_t i = 0; i < st_reader_metadata_count(job->reader) && status == MX_OK; i++) {
        const char *key, *value;
        st_reader_metadata_at(job->reader, i, &key, &value);
        status = st_writer_metadata(job->writer, key, value, err);
    }
    for (size_t i = 0; i < job->n_items && status == MX_OK; i++) {
        mx_dtype dtype = MX_DTYPE_F32;
        job_item *item = &job->items[i];
        status = wants(&options->job, item->tensor, &dtype)
                     ? plan_packed(job, item, options, dtype, err)
                     : job_declare_copy(job, item, err);
    }
    return status;
}

static mx_status convert_item(tool_stream *stream, const stream_route *route, job_item *item,
                              mx_error *err)
{
    return stream_quantize(stream, route, &item->packed, &item->counts, err);
}

int cmd_quantize(int argc, char **argv)
{
    static const struct argp_option option_table[] = {
        {"format", 'f', "FORMAT", 0, "mx9, mx6 or mx4", 1},
        {"axis", 'a', "N", 0,
         "Blocks lie along this axis; negative ones count from the end (default: -1)", 1},
        {0}};
    static const struct argp_child children[] = {{&job_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = option_table,
        .parser = parse_quantize,
        .args_doc = "IN -o OUT --format FORMAT",
        .doc = "Packs the floating tensors of a safetensors file that have two or more dimensions; "
               "--include picks others, too. What is not packed is copied.",
        .children = children};
    quantize_options options = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &options))
        return TOOL_EXIT_USAGE;
    int code = job_run(&options.job, "quantize", plan_quantize, convert_item, &options);
    tool_filter_finish(&options.job.filter);
    return code;
}
