#include "mxrt_job.h"

#include <mxgen/error.h>

/* Copies the metadata that is not about a tensor to be restored; refuses what is about none. */
static mx_status plan_metadata(tool_job *job, mx_error *err)
{
    const tool_filter *filter = &job->options->filter;
    mx_status status = MX_OK;
    for (size_t i = 0; i < st_reader_metadata_count(job->reader) && status == MX_OK; i++) {
        const char *key, *value, *name;
        char label[ST_PRINTABLE_BYTES];
        st_reader_metadata_at(job->reader, i, &key, &value);
        int ours = meta_is_ours(key, &name);
        if (ours && !st_reader_find(job->reader, name))
            status = mx_fail(err, MX_ERR_CORRUPT,
                             "%s: metadata describes a packed tensor \"%s\", which is not there",
                             job->options->in, st_printable(name, label));
        else if (!ours || !tool_filter_keeps(filter, name))
            status = st_writer_metadata(job->writer, key, value, err);
    }
    return status;
}

static mx_status plan_item(tool_job *job, job_item *item, mx_error *err)
{
    if (!item->converted)
        return job_declare_copy(job, item, err);
    const meta_packed *packed = &item->packed;
    st_dtype dtype = meta_dtype_to_file(packed->dtype);
    mx_status status = st_tensor_bytes(dtype, packed->ndim, packed->shape, &item->bytes_after, err);
    if (status == MX_OK)
        status = st_writer_declare(job->writer, item->name, dtype, packed->ndim, packed->shape,
                                   &item->index, err);
    return status;
}

static mx_status plan_dequantize(tool_job *job, void *user, mx_error *err)
{
    mx_status status = plan_metadata(job, err);
    if (status == MX_OK)
        status = job_list_logical(job, user, err);
    for (size_t i = 0; i < job->n_items && status == MX_OK; i++)
        status = plan_item(job, &job->items[i], err);
    return status;
}

static mx_status convert_item(tool_stream *stream, const stream_route *route, job_item *item,
                              mx_error *err)
{
    return stream_dequantize(stream, route, &item->packed, err);
}

int cmd_dequantize(int argc, char **argv)
{
    foreign_options options = {0};
    const job_command command = {
        .verb = "dequantize",
        .args_doc = "IN -o OUT",
        .doc = "Restores the tensors that quantize packed, with the type and shape they had, and "
               "data with scales of the OCP formats in files of others, where names, types and "
               "shapes tell what they are.",
        .argp = &foreign_argp,
        .input = &options,
        .plan = plan_dequantize,
        .convert = convert_item};
    return job_main(&command, argc, argv);
}
