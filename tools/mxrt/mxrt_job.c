#include "mxrt_job.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <mxgen/error.h>

/* ---- Options ---- */

enum { KEY_INCLUDE = 256, KEY_EXCLUDE, KEY_MAX_MEMORY };

static error_t parse_job(int key, char *arg, struct argp_state *state)
{
    job_options *options = state->input;
    switch (key) {
    case 'o':
        options->out = arg;
        return 0;
    case KEY_INCLUDE:
        tool_filter_parse(state, &options->filter.include, &options->filter.has_include,
                          "--include", arg);
        return 0;
    case KEY_EXCLUDE:
        tool_filter_parse(state, &options->filter.exclude, &options->filter.has_exclude,
                          "--exclude", arg);
        return 0;
    case KEY_MAX_MEMORY:
        options->max_memory_bytes = tool_parse_bytes(state, "--max-memory", arg, SLAB_MIN_BYTES);
        return 0;
    case 'j':
        options->json = 1;
        return 0;
    case 'q':
        options->quiet = 1;
        return 0;
    case ARGP_KEY_INIT:
        options->max_memory_bytes = (int64_t)256 << 20;
        state->child_inputs[0] = &options->engine;
        return 0;
    case ARGP_KEY_ARG:
        if (options->in)
            argp_error(state, "more than one input: \"%s\"", arg);
        options->in = arg;
        return 0;
    case ARGP_KEY_END:
        if (!options->in)
            argp_error(state, "which file? IN is missing");
        if (!options->out)
            argp_error(state, "where to? -o OUT is missing");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option job_option_table[] = {
    {"output", 'o', "OUT", 0, "Write this file (may be IN itself)", 1},
    {"include", KEY_INCLUDE, "REGEX", 0,
     "Only tensors whose name matches this POSIX extended expression", 2},
    {"exclude", KEY_EXCLUDE, "REGEX", 0, "No tensors whose name matches this one", 2},
    {"max-memory", KEY_MAX_MEMORY, "BYTES", 0,
     "Hold at most this much of a tensor at a time (default: 256M)", 3},
    {"json", 'j', NULL, 0, "Report as one JSON object", 4},
    {"quiet", 'q', NULL, 0, "No report, no progress bar", 4},
    {0}};

static const struct argp_child job_children[] = {{&engine_argp, 0, NULL, 10}, {0}};

/* Options -o, --include, --exclude, --max-memory, --json, --quiet, the argument IN, and those of
 * the engine. The input is a job_options that is zero. */
static const struct argp job_argp = {
    .options = job_option_table, .parser = parse_job, .children = job_children};

/* ---- Report ---- */

static json_t *item_json(const job_item *item)
{
    const st_tensor *tensor = item->tensor;
    json_t *shape = json_array();
    size_t ndim = item->converted ? item->packed.ndim : tensor->ndim;
    const int64_t *dims = item->converted ? item->packed.shape : tensor->shape;
    for (size_t i = 0; i < ndim; i++)
        json_array_append_new(shape, json_integer(dims[i]));
    json_t *object =
        json_pack("{s:s, s:s, s:o, s:b, s:I, s:I}", "name", item->name, "dtype",
                  item->converted ? st_dtype_name(meta_dtype_to_file(item->packed.dtype))
                                  : st_dtype_name(tensor->dtype),
                  "shape", shape, "converted", item->converted, "bytes_before",
                  (json_int_t)item->bytes_before, "bytes_after", (json_int_t)item->bytes_after);
    if (item->converted) {
        json_object_set_new(object, "format",
                            json_string(mx_format_get(item->packed.format)->name));
        json_object_set_new(object, "axis", json_integer(item->packed.axis));
        json_object_set_new(object, "nan", json_integer(item->counts.nan));
        json_object_set_new(object, "inf", json_integer(item->counts.inf));
    }
    return object;
}

static void report_json(const tool_job *job, int64_t before, int64_t after)
{
    json_t *tensors = json_array();
    for (size_t i = 0; i < job->n_items; i++)
        json_array_append_new(tensors, item_json(&job->items[i]));
    json_t *root =
        json_pack("{s:s, s:s, s:s, s:s, s:o, s:I, s:I, s:f}", "command", job->verb, "input",
                  job->options->in, "output", job->options->out, "device", job->engine.info.uri,
                  "tensors", tensors, "bytes_before", (json_int_t)before, "bytes_after",
                  (json_int_t)after, "seconds", job->seconds);
    json_dumpf(root, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(root);
}

/* Whether what is not finite is counted. */
static int counts_values(const tool_job *job)
{
    return strcmp(job->verb, "dequantize") != 0;
}

static void report_row(tool_table *rows, const tool_job *job, const job_item *item)
{
    char name[ST_PRINTABLE_BYTES], shape[TOOL_SHAPE_BYTES];
    const st_tensor *tensor = item->tensor;
    const char *plain = st_dtype_name(tensor->dtype);
    int packs = counts_values(job);
    table_cell(rows, "%s", st_printable(item->name, name));
    if (!item->converted) {
        table_cell(rows, "%s", tool_shape_text(tensor->ndim, tensor->shape, shape));
        table_cell(rows, "%s", plain);
        table_cell(rows, "copied");
    } else {
        const char *format = mx_format_get(item->packed.format)->name;
        table_cell(rows, "%s", tool_shape_text(item->packed.ndim, item->packed.shape, shape));
        table_cell(rows, "%s", packs ? plain : format);
        table_cell(rows, "%s",
                   packs ? format : st_dtype_name(meta_dtype_to_file(item->packed.dtype)));
    }
    table_cell(rows, "%lld", (long long)item->bytes_before);
    table_cell(rows, "%lld", (long long)item->bytes_after);
    if (packs && item->converted) {
        table_cell(rows, "%lld", (long long)item->counts.nan);
        table_cell(rows, "%lld", (long long)item->counts.inf);
    } else if (packs) {
        table_cell(rows, "-");
        table_cell(rows, "-");
    }
}

static void report_table(const tool_job *job, int64_t before, int64_t after)
{
    static const char *const heads_to[] = {"<tensor", "<shape", "<from", "<to", "before",
                                           "after",   "NaN",    "Inf",   NULL};
    static const char *const heads_from[] = {"<tensor", "<shape", "<from", "<to",
                                             "before",  "after",  NULL};
    int packs = counts_values(job);
    stream_counts counts = {0};
    tool_table *rows = table_create(packs ? heads_to : heads_from);
    for (size_t i = 0; i < job->n_items; i++) {
        report_row(rows, job, &job->items[i]);
        counts.nan += job->items[i].counts.nan;
        counts.inf += job->items[i].counts.inf;
    }
    table_cell(rows, "total");
    for (int i = 0; i < 3; i++)
        table_cell(rows, "%s", "");
    table_cell(rows, "%lld", (long long)before);
    table_cell(rows, "%lld", (long long)after);
    if (packs) {
        table_cell(rows, "%lld", (long long)counts.nan);
        table_cell(rows, "%lld", (long long)counts.inf);
    }
    table_print(rows, stdout);
    table_destroy(rows);
}

static int report(const tool_job *job)
{
    int64_t before = 0, after = 0;
    if (job->options->quiet)
        return 0;
    for (size_t i = 0; i < job->n_items; i++) {
        before += job->items[i].bytes_before;
        after += job->items[i].bytes_after;
    }
    if (job->options->json)
        report_json(job, before, after);
    else
        report_table(job, before, after);
    return tool_finish_stdout();
}

/* ---- Work ---- */

mx_status job_declare_copy(tool_job *job, job_item *item, mx_error *err)
{
    const st_tensor *tensor = item->tensor;
    item->bytes_after = tensor->size_bytes;
    return st_writer_declare(job->writer, item->name, tensor->dtype, tensor->ndim, tensor->shape,
                             &item->index, err);
}

static mx_status make_items(tool_job *job, size_t n, mx_error *err)
{
    job->items = calloc(n + 1, sizeof(*job->items));
    if (!job->items)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu tensors", n);
    job->n_items = n;
    return MX_OK;
}

mx_status job_list_reader(tool_job *job, mx_error *err)
{
    mx_status status = make_items(job, st_reader_count(job->reader), err);
    for (size_t i = 0; i < job->n_items; i++) {
        const st_tensor *tensor = st_reader_at(job->reader, i);
        job->items[i] =
            (job_item){.tensor = tensor, .name = tensor->name, .bytes_before = tensor->size_bytes};
    }
    return status;
}

mx_status job_list_logical(tool_job *job, const foreign_options *options, mx_error *err)
{
    mx_status status =
        logical_list_init(&job->list, job->reader, options, &job->options->filter, err);
    if (status == MX_OK)
        status = make_items(job, job->list.n, err);
    for (size_t i = 0; i < job->n_items; i++) {
        logical_tensor *from = &job->list.items[i];
        job->items[i] = (job_item){.tensor = from->data,
                                   .scales = from->scales,
                                   .name = from->name,
                                   .converted = from->is_packed,
                                   .packed = from->packed,
                                   .bytes_before = from->data->size_bytes +
                                                   (from->scales ? from->scales->size_bytes : 0)};
        memset(&from->packed, 0, sizeof(from->packed));
    }
    return status;
}

static mx_status convert_all(tool_job *job, job_convert_fn convert, mx_error *err)
{
    tool_progress progress;
    tool_stream stream;
    int64_t total = 0;
    mx_status status = MX_OK;
    for (size_t i = 0; i < job->n_items; i++)
        total += job->items[i].tensor->size_bytes;
    progress_init(&progress, total, job->options->quiet);
    stream_init(&stream, &job->engine, &progress, job->options->max_memory_bytes);
    for (size_t i = 0; i < job->n_items && status == MX_OK; i++) {
        job_item *item = &job->items[i];
        stream_route route = {.reader = job->reader,
                              .tensor = item->tensor,
                              .scales = item->scales,
                              .writer = job->writer,
                              .index = item->index,
                              .scales_index = item->scales_index};
        if (!item->converted)
            status = stream_copy(&stream, &route, err);
        else if (item->bytes_after > 0)
            status = convert(&stream, &route, item, err);
    }
    if (status == MX_OK)
        status = st_writer_commit(job->writer, err);
    progress_clear(&progress);
    stream_finish(&stream);
    return status;
}

static int run(const job_command *command, const job_options *options)
{
    tool_job job = {.options = options, .verb = command->verb};
    mx_error err = {0};
    double start = tool_now();
    mx_status status = st_reader_open(options->in, &job.reader, &err);
    if (status == MX_OK)
        status = engine_open(&options->engine, &job.engine, &err);
    if (status == MX_OK)
        status = st_writer_create(options->out, &job.writer, &err);
    if (status == MX_OK)
        status = command->plan(&job, command->input, &err);
    if (status == MX_OK)
        status = st_writer_begin(job.writer, &err);
    if (status == MX_OK)
        status = convert_all(&job, command->convert, &err);
    job.seconds = tool_now() - start;
    st_writer_destroy(job.writer);
    int code = status == MX_OK ? report(&job) : tool_fail(&err);
    for (size_t i = 0; i < job.n_items; i++)
        meta_packed_finish(&job.items[i].packed);
    free(job.items);
    logical_list_finish(&job.list);
    engine_close(&job.engine);
    st_reader_close(job.reader);
    return code;
}

typedef struct command_inputs {
    const job_command *command;
    job_options job;
} command_inputs;

static error_t parse_command(int key, char *arg, struct argp_state *state)
{
    command_inputs *inputs = state->input;
    (void)arg;
    if (key != ARGP_KEY_INIT)
        return ARGP_ERR_UNKNOWN;
    state->child_inputs[0] = inputs->command->input;
    state->child_inputs[1] = &inputs->job;
    return 0;
}

int job_main(const job_command *command, int argc, char **argv)
{
    const struct argp_child children[] = {
        {command->argp, 0, NULL, 0}, {&job_argp, 0, NULL, 0}, {0}};
    const struct argp argp = {.parser = parse_command,
                              .args_doc = command->args_doc,
                              .doc = command->doc,
                              .children = children};
    command_inputs inputs = {.command = command};
    if (argp_parse(&argp, argc, argv, 0, NULL, &inputs))
        return TOOL_EXIT_USAGE;
    int code = run(command, &inputs.job);
    tool_filter_finish(&inputs.job.filter);
    return code;
}
