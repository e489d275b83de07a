/* mxrt report: packs and unpacks a file's tensors in memory; sizes, signal-to-noise, speed. */
#include "mxrt_measure.h"
#include "mxrt_stream.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <mxgen/error.h>

#include "tests/cases.h"

typedef struct report_options {
    engine_options engine;
    tool_filter filter;
    const char *in;
    unsigned formats; /* bits */
    int axis;
    int64_t max_memory_bytes;
    double seconds;
    int json;
} report_options;

/* Sums over tensors, or over the boxes of one. */
typedef struct report_sums {
    int64_t bytes_before, bytes_after, moved_bytes;
    double to_ms, from_ms, to_ceiling_ms, from_ceiling_ms;
    double signal, noise;
    stream_counts counts;
} report_sums;

typedef struct report_run {
    const report_options *options;
    tool_engine engine;
    tool_stream stream;
    tool_progress progress;
    st_reader *reader;
    tool_table *rows;
    void *device_y, *host_y; /* what comes back */
    int64_t y_capacity;
} report_run;

/* ---- Options ---- */

enum { KEY_INCLUDE = 256, KEY_EXCLUDE, KEY_MAX_MEMORY, KEY_SECONDS };

static error_t parse_report(int key, char *arg, struct argp_state *state)
{
    report_options *options = state->input;
    tool_filter *filter = &options->filter;
    switch (key) {
    case 'f':
        tool_parse_list(state, arg, &options->formats, tool_add_format);
        return 0;
    case 'a':
        options->axis = (int)tool_parse_integer(state, "--axis", arg, INT_MIN, INT_MAX);
        return 0;
    case KEY_INCLUDE:
        tool_filter_parse(state, &filter->include, &filter->has_include, "--include", arg);
        return 0;
    case KEY_EXCLUDE:
        tool_filter_parse(state, &filter->exclude, &filter->has_exclude, "--exclude", arg);
        return 0;
    case KEY_MAX_MEMORY:
        options->max_memory_bytes = tool_parse_bytes(state, "--max-memory", arg, SLAB_MIN_BYTES);
        return 0;
    case KEY_SECONDS:
        options->seconds = tool_parse_seconds(state, "--seconds", arg);
        return 0;
    case 'j':
        options->json = 1;
        return 0;
    case ARGP_KEY_INIT:
        options->axis = -1;
        options->seconds = 0.03;
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
        if (!options->formats)
            options->formats = 1u << MX_FORMAT_MX9 | 1u << MX_FORMAT_MX6;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option report_option_table[] = {
    {"format", 'f', "FORMAT,..", 0, TOOL_FORMATS " (default: mx9,mx6)", 1},
    {"axis", 'a', "N", 0, "Blocks lie along this axis (default: -1)", 1},
    {"include", KEY_INCLUDE, "REGEX", 0,
     "Only tensors whose name matches this POSIX extended expression", 2},
    {"exclude", KEY_EXCLUDE, "REGEX", 0, "No tensors whose name matches this one", 2},
    {"max-memory", KEY_MAX_MEMORY, "BYTES", 0,
     "Hold at most this much of a tensor at a time (default: 256M)", 3},
    {"seconds", KEY_SECONDS, "S", 0, "Time for a measurement (default: 0.03)", 3},
    {"json", 'j', NULL, 0, "A JSON line a tensor and format", 4},
    {0}};

/* ---- One box ---- */

typedef struct report_call {
    const report_run *run;
    const meta_packed *packed;
    stream_tensors *x, *y; /* y's plain tensor is what comes back */
} report_call;

static mx_status call_to(void *user, mxrt_stream queue, mx_error *err)
{
    const report_call *call = user;
    return stream_call(&call->run->stream, MX_OP_TO, call->packed, call->x, NULL, queue, err);
}

static mx_status call_from(void *user, mxrt_stream queue, mx_error *err)
{
    const report_call *call = user;
    return stream_call(&call->run->stream, MX_OP_FROM, call->packed, call->y, NULL, queue, err);
}

static mx_status measure_box(const report_run *run, report_call *call, int64_t moved_bytes,
                             report_sums *sums, mx_error *err)
{
    measure_copy copy = {0};
    measure_result to, from;
    double seconds = run->options->seconds;
    mxrt_device *device = run->engine.device;
    mx_status status = measure_copy_init(&copy, device, moved_bytes, 1, err);
    if (status == MX_OK)
        status = measure_pair(device, call_to, call, measure_copy_run, &copy, seconds, &to, err);
    if (status == MX_OK)
        status =
            measure_pair(device, call_from, call, measure_copy_run, &copy, seconds, &from, err);
    measure_copy_finish(&copy);
    if (status != MX_OK)
        return status;
    sums->moved_bytes += moved_bytes;
    sums->to_ms += to.ms;
    sums->from_ms += from.ms;
    sums->to_ceiling_ms += to.ceiling_ms;
    sums->from_ceiling_ms += from.ceiling_ms;
    return MX_OK;
}

/* Values that are not finite have no signal to compare with. */
static void add_noise(mx_dtype dtype, const void *x, const void *y, int64_t n, report_sums *sums)
{
    double signal = 0, noise = 0;
    for (int64_t i = 0; i < n; i++) {
        double value = mx_case_to_f32(dtype, x, i);
        if (!isfinite(value))
            continue;
        double error = value - mx_case_to_f32(dtype, y, i);
        signal += value * value;
        noise += error * error;
    }
    sums->signal += signal;
    sums->noise += noise;
}

static mx_status reserve_y(report_run *run, int64_t size_bytes, mx_error *err)
{
    if (size_bytes <= run->y_capacity)
        return MX_OK;
    int is_host = stream_is_host(&run->stream);
    if (!is_host)
        free(run->host_y);
    mxrt_device_free(run->engine.device, run->device_y);
    run->device_y = run->host_y = NULL;
    run->y_capacity = 0;
    mx_status status =
        mxrt_device_alloc(run->engine.device, (size_t)size_bytes, &run->device_y, err);
    if (status != MX_OK)
        return status;
    run->host_y = is_host ? run->device_y : malloc((size_t)size_bytes);
    if (!run->host_y)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %lld bytes", (long long)size_bytes);
    run->y_capacity = size_bytes;
    return MX_OK;
}

static mx_status report_box(report_run *run, const stream_route *route, const stream_walk *walk,
                            const slab_box *box, report_sums *sums, mx_error *err)
{
    stream_tensors x, y;
    const meta_packed *packed = walk->packed;
    report_call call = {.run = run, .packed = packed, .x = &x, .y = &y};
    tool_stream *stream = &run->stream;
    int64_t plain_bytes = slab_plain_bytes(&walk->view, box);
    int64_t packed_bytes = slab_packed_bytes(&walk->view, box);
    int64_t scale_bytes = stream_scale_bytes(walk, box);
    int64_t n = plain_bytes / walk->view.element_bytes;
    mx_status status = stream_reserve(stream, plain_bytes, packed_bytes, scale_bytes, err);
    if (status == MX_OK)
        status = reserve_y(run, plain_bytes, err);
    if (status == MX_OK)
        status = stream_read_plain(stream, route, &walk->view, box, err);
    if (status == MX_OK && !stream_is_host(stream))
        status = mxrt_device_upload(run->engine.device, stream->plain.device, stream->plain.host,
                                    (size_t)plain_bytes, err);
    if (status != MX_OK)
        return status;
    stream_count(packed->dtype, stream->plain.host, n, &sums->counts);
    stream_box_tensors(stream, walk, box, stream->plain.device, &x);
    stream_box_tensors(stream, walk, box, run->device_y, &y);
    status = measure_box(run, &call, plain_bytes + packed_bytes + scale_bytes, sums, err);
    if (status == MX_OK && !stream_is_host(stream))
        status = mxrt_device_download(run->engine.device, run->host_y, run->device_y,
                                      (size_t)plain_bytes, err);
    if (status == MX_OK)
        add_noise(packed->dtype, stream->plain.host, run->host_y, n, sums);
    return status;
}

/* ---- Lines ---- */

static double decibels(const report_sums *sums)
{
    return 10 * log10(sums->signal / sums->noise);
}

static void set_rate(json_t *line, const char *op, const report_sums *sums, double ms,
                     double ceiling_ms)
{
    char key[32];
    snprintf(key, sizeof(key), "%s_gbps", op);
    json_object_set_new(line, key, json_real(1e-6 * (double)sums->moved_bytes / ms));
    snprintf(key, sizeof(key), "%s_share", op);
    json_object_set_new(line, key, json_real(ceiling_ms / ms));
}

static void print_json(const st_tensor *tensor, const meta_packed *packed, mx_format format,
                       const report_sums *sums)
{
    json_t *line = json_object();
    json_object_set_new(line, "tensor", tensor ? json_string(tensor->name) : json_null());
    json_object_set_new(line, "format", json_string(mx_format_get(format)->name));
    if (tensor) {
        json_t *shape = json_array();
        for (size_t i = 0; i < packed->ndim; i++)
            json_array_append_new(shape, json_integer(packed->shape[i]));
        json_object_set_new(line, "dtype", json_string(mx_dtype_get(packed->dtype)->name));
        json_object_set_new(line, "shape", shape);
        json_object_set_new(line, "axis", json_integer(packed->axis));
    }
    json_object_set_new(line, "bytes_before", json_integer(sums->bytes_before));
    json_object_set_new(line, "bytes_after", json_integer(sums->bytes_after));
    /* JSON has no infinity: null where nothing is lost. */
    double snr = decibels(sums);
    json_object_set_new(line, "snr_db", isfinite(snr) ? json_real(snr) : json_null());
    set_rate(line, "to", sums, sums->to_ms, sums->to_ceiling_ms);
    set_rate(line, "from", sums, sums->from_ms, sums->from_ceiling_ms);
    json_object_set_new(line, "nan", json_integer(sums->counts.nan));
    json_object_set_new(line, "inf", json_integer(sums->counts.inf));
    json_dumpf(line, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(line);
}

static void print_rate(tool_table *rows, const report_sums *sums, double ms, double ceiling_ms)
{
    table_cell(rows, "%.2f", 1e-6 * (double)sums->moved_bytes / ms);
    table_cell(rows, "%.0f%%", 100 * ceiling_ms / ms);
}

static void print_line(const report_run *run, const st_tensor *tensor, const meta_packed *packed,
                       mx_format format, const report_sums *sums)
{
    char text[TOOL_SHAPE_BYTES], name[ST_PRINTABLE_BYTES];
    tool_table *rows = run->rows;
    if (run->options->json) {
        print_json(tensor, packed, format, sums);
        return;
    }
    table_cell(rows, "%s", tensor ? st_printable(tensor->name, name) : "total");
    table_cell(rows, "%s", tensor ? tool_shape_text(tensor->ndim, tensor->shape, text) : "");
    table_cell(rows, "%s", tensor ? mx_dtype_get(packed->dtype)->name : "");
    table_cell(rows, "%s", mx_format_get(format)->name);
    table_cell(rows, "%lld", (long long)sums->bytes_before);
    table_cell(rows, "%lld", (long long)sums->bytes_after);
    double snr = decibels(sums);
    if (isfinite(snr))
        table_cell(rows, "%.1f", snr);
    else
        table_cell(rows, "exact");
    print_rate(rows, sums, sums->to_ms, sums->to_ceiling_ms);
    print_rate(rows, sums, sums->from_ms, sums->from_ceiling_ms);
    table_cell(rows, "%lld", (long long)sums->counts.nan);
    table_cell(rows, "%lld", (long long)sums->counts.inf);
}

static void add_sums(report_sums *total, const report_sums *sums)
{
    total->bytes_before += sums->bytes_before;
    total->bytes_after += sums->bytes_after;
    total->moved_bytes += sums->moved_bytes;
    total->to_ms += sums->to_ms;
    total->from_ms += sums->from_ms;
    total->to_ceiling_ms += sums->to_ceiling_ms;
    total->from_ceiling_ms += sums->from_ceiling_ms;
    total->signal += sums->signal;
    total->noise += sums->noise;
    total->counts.nan += sums->counts.nan;
    total->counts.inf += sums->counts.inf;
}

/* ---- Tensors ---- */

static mx_status report_tensor(report_run *run, const st_tensor *tensor, const meta_packed *packed,
                               report_sums *total, mx_error *err)
{
    stream_walk walk;
    slab_box box;
    report_sums sums = {.bytes_before = tensor->size_bytes};
    stream_route route = {.reader = run->reader, .tensor = tensor};
    mx_status status = stream_walk_init(&walk, &run->stream, tensor->name, MX_OP_TO, packed, err);
    box = walk.first;
    for (int more = 1; more && status == MX_OK; more = slab_next(&walk.view, &walk.first, &box)) {
        status = report_box(run, &route, &walk, &box, &sums, err);
        sums.bytes_after += slab_packed_bytes(&walk.view, &box) + stream_scale_bytes(&walk, &box);
        progress_add(&run->progress, slab_plain_bytes(&walk.view, &box), tensor->name);
    }
    if (status == MX_OK) {
        print_line(run, tensor, packed, packed->format, &sums);
        add_sums(total, &sums);
    }
    return status;
}

/* As in quantize. */
static int wants(const report_options *options, const st_tensor *tensor, meta_packed *packed)
{
    size_t least = options->filter.has_include ? 1 : 2;
    int64_t ndim = (int64_t)tensor->ndim;
    if (meta_dtype_from_file(tensor->dtype, &packed->dtype) != 0 || tensor->ndim < least ||
        tensor->n_elements == 0 || !tool_filter_keeps(&options->filter, tensor->name))
        return 0;
    /* An axis that a tensor lacks leaves it out: this is a report, nothing is written. */
    if (options->axis < -ndim || options->axis >= ndim)
        return 0;
    packed->axis = (int)(options->axis < 0 ? options->axis + ndim : options->axis);
    packed->ndim = tensor->ndim;
    packed->shape = (int64_t *)tensor->shape; /* borrowed: nothing releases it here */
    return 1;
}

static mx_status report_format(report_run *run, mx_format format, mx_error *err)
{
    report_sums total = {0};
    mx_status status = MX_OK;
    for (size_t i = 0; i < st_reader_count(run->reader) && status == MX_OK; i++) {
        const st_tensor *tensor = st_reader_at(run->reader, i);
        meta_packed packed = {.format = format, .options = mx_ocp_preset(MX_OCP_ALTO)};
        if (wants(run->options, tensor, &packed))
            status = report_tensor(run, tensor, &packed, &total, err);
    }
    if (status == MX_OK && total.bytes_before == 0)
        return mx_fail(err, MX_ERR_NOT_FOUND,
                       "%s: no floating tensor with such a name, axis and two or more dimensions",
                       run->options->in);
    if (status == MX_OK)
        print_line(run, NULL, NULL, format, &total);
    return status;
}

static mx_status report_all(report_run *run, mx_error *err)
{
    int64_t total = 0;
    mx_status status = MX_OK;
    unsigned formats = run->options->formats;
    for (size_t i = 0; i < st_reader_count(run->reader); i++) {
        meta_packed packed = {0};
        if (wants(run->options, st_reader_at(run->reader, i), &packed))
            total += st_reader_at(run->reader, i)->size_bytes;
    }
    progress_init(&run->progress, total * __builtin_popcount(formats), 0);
    stream_init(&run->stream, &run->engine, &run->progress, run->options->max_memory_bytes);
    for (int f = 0; f < MX_FORMAT_COUNT && status == MX_OK; f++) {
        if (formats >> f & 1)
            status = report_format(run, (mx_format)f, err);
    }
    progress_clear(&run->progress);
    if (!stream_is_host(&run->stream))
        free(run->host_y);
    mxrt_device_free(run->engine.device, run->device_y);
    stream_finish(&run->stream);
    return status;
}

int cmd_report(int argc, char **argv)
{
    static const struct argp_child children[] = {{&engine_argp, 0, NULL, 10}, {0}};
    static const struct argp argp = {
        .options = report_option_table,
        .parser = parse_report,
        .args_doc = "IN",
        .doc = "Packs and unpacks the tensors of a safetensors file in memory, and tells sizes, "
               "signal-to-noise ratio, and speed as a share of a copy that moves as many bytes.",
        .children = children};
    static const char *const heads[] = {"<tensor", "<shape", "<dtype",  "<format", "before",
                                        "after",   "SNR dB", "to GB/s", "of copy", "from GB/s",
                                        "of copy", "NaN",    "Inf",     NULL};
    report_options options = {0};
    report_run run = {.options = &options};
    mx_error err = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &options))
        return TOOL_EXIT_USAGE;
    mx_status status = st_reader_open(options.in, &run.reader, &err);
    if (status == MX_OK)
        status = engine_open(&options.engine, &run.engine, &err);
    if (status == MX_OK) {
        run.rows = table_create(heads);
        status = report_all(&run, &err);
        if (status == MX_OK && !options.json)
            table_print(run.rows, stdout);
        table_destroy(run.rows);
    }
    engine_close(&run.engine);
    st_reader_close(run.reader);
    tool_filter_finish(&options.filter);
    return status == MX_OK ? tool_finish_stdout() : tool_fail(&err);
}
