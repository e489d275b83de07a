/* mxrt qdq: rounds tensors to what a format keeps of them; element types and shapes stay. */
#include "mxrt_conversion.h"

typedef struct qdq_options {
    job_options job;
    conversion_options conversion;
} qdq_options;

static mx_status plan_qdq(tool_job *job, void *user, mx_error *err)
{
    const qdq_options *options = user;
    mx_status status = job_list_reader(job, err);
    if (status == MX_OK)
        status = conversion_copy_metadata(job, err);
    for (size_t i = 0; i < job->n_items && status == MX_OK; i++) {
        job_item *item = &job->items[i];
        status = conversion_plan(&options->conversion, &options->job.filter, item->tensor,
                                 &item->packed, &item->converted, err);
        if (status == MX_OK)
            status = job_declare_copy(job, item, err);
    }
    return status;
}

static mx_status convert_item(tool_stream *stream, const stream_route *route, job_item *item,
                              mx_error *err)
{
    return stream_qdq(stream, route, &item->packed, &item->counts, err);
}

static error_t parse_qdq(int key, char *arg, struct argp_state *state)
{
    qdq_options *options = state->input;
    (void)arg;
    if (key != ARGP_KEY_INIT)
        return ARGP_ERR_UNKNOWN;
    state->child_inputs[0] = &options->conversion;
    state->child_inputs[1] = &options->job;
    return 0;
}

int cmd_qdq(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&conversion_argp, 0, NULL, 0}, {&job_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .parser = parse_qdq,
        .args_doc = "IN -o OUT --format FORMAT",
        .doc = "Rounds the tensors that quantize would pack to what the format keeps of them, in "
               "one pass: the same as quantize and dequantize. The others are copied.",
        .children = children};
    qdq_options options = {.conversion = {.op = MX_OP_QDQ}};
    if (argp_parse(&argp, argc, argv, 0, NULL, &options))
        return TOOL_EXIT_USAGE;
    int code = job_run(&options.job, "qdq", plan_qdq, convert_item, &options);
    tool_filter_finish(&options.job.filter);
    return code;
}
