/* mxrt qdq: rounds tensors to what a format keeps of them; element types and shapes stay. */
#include "mxrt_conversion.h"

static mx_status plan_qdq(tool_job *job, void *user, mx_error *err)
{
    return conversion_plan(job, user, job_declare_copy, err);
}

static mx_status convert_item(tool_stream *stream, const stream_route *route, job_item *item,
                              mx_error *err)
{
    return stream_qdq(stream, route, &item->packed, &item->counts, err);
}

int cmd_qdq(int argc, char **argv)
{
    conversion_options options = {.op = MX_OP_QDQ};
    const job_command command = {
        .verb = "qdq",
        .args_doc = "IN -o OUT --format FORMAT",
        .doc = "Rounds the tensors that quantize would pack to what the format keeps of them, in "
               "one pass: the same as quantize and dequantize. The others are copied.",
        .argp = &conversion_argp,
        .input = &options,
        .plan = plan_qdq,
        .convert = convert_item};
    return job_main(&command, argc, argv);
}
