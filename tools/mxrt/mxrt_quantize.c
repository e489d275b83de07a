#include "mxrt_conversion.h"

#include <stdlib.h>

#include <mxgen/error.h>

static mx_status declare_packed(tool_job *job, job_item *item, mx_error *err)
{
    const meta_packed *packed = &item->packed;
    size_t ndim;
    int64_t bytes, *shape = calloc(packed->ndim + 1, sizeof(*shape));
    if (!shape)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a shape");
    meta_data_shape(packed, shape, &ndim);
    st_dtype dtype = meta_data_dtype(packed->format);
    mx_status status =
        st_writer_declare(job->writer, item->name, dtype, ndim, shape, &item->index, err);
    if (status == MX_OK)
        status = st_tensor_bytes(dtype, ndim, shape, &item->bytes_after, err);
    if (status == MX_OK && mx_format_is_ocp(packed->format)) {
        meta_scales_shape(packed, shape, &ndim);
        status = st_writer_declare(job->writer, packed->scales_name, ST_U8, ndim, shape,
                                   &item->scales_index, err);
        if (status == MX_OK)
            status = st_tensor_bytes(ST_U8, ndim, shape, &bytes, err);
        if (status == MX_OK)
            item->bytes_after += bytes;
    }
    free(shape);
    return status;
}

/* Neither the metadata's key nor the scales' name may be taken. */
static mx_status check_names(const tool_job *job, const job_item *item, const char *key,
                             mx_error *err)
{
    char name[ST_PRINTABLE_BYTES], scales[ST_PRINTABLE_BYTES];
    st_printable(item->name, name);
    if (st_reader_metadata_find(job->reader, key))
        return mx_fail(err, MX_ERR_INVALID,
                       "tensor \"%s\" has metadata of a packed tensor but is %s; leave it out "
                       "with --exclude",
                       name, st_dtype_name(item->tensor->dtype));
    if (mx_format_is_ocp(item->packed.format) &&
        st_reader_find(job->reader, item->packed.scales_name))
        return mx_fail(err, MX_ERR_INVALID,
                       "tensor \"%s\": there is a tensor \"%s\" already, which is the name for its "
                       "scales; leave it out with --exclude",
                       name, st_printable(item->packed.scales_name, scales));
    return MX_OK;
}

static mx_status plan_item(tool_job *job, job_item *item, mx_error *err)
{
    if (!item->converted)
        return job_declare_copy(job, item, err);
    char *key = meta_key(item->name), *value = meta_value(&item->packed);
    mx_status status = key && value
                           ? check_names(job, item, key, err)
                           : mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a tensor's metadata");
    if (status == MX_OK)
        status = st_writer_metadata(job->writer, key, value, err);
    if (status == MX_OK)
        status = declare_packed(job, item, err);
    free(key);
    free(value);
    return status;
}

static mx_status plan_quantize(tool_job *job, void *user, mx_error *err)
{
    return conversion_plan(job, user, plan_item, err);
}

static mx_status convert_item(tool_stream *stream, const stream_route *route, job_item *item,
                              mx_error *err)
{
    return stream_quantize(stream, route, &item->packed, &item->counts, err);
}

int cmd_quantize(int argc, char **argv)
{
    conversion_options options = {.op = MX_OP_TO};
    const job_command command = {
        .verb = "quantize",
        .args_doc = "IN -o OUT --format FORMAT",
        .doc = "Packs the floating tensors of a safetensors file that have two or more dimensions; "
               "--include picks others, too. What is not packed is copied.",
        .argp = &conversion_argp,
        .input = &options,
        .plan = plan_quantize,
        .convert = convert_item};
    return job_main(&command, argc, argv);
}
