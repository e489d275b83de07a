/* mxrt tune --kernel: kernels written by others, on memory made up for them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mxgen/error.h>
#include <mxgen/kernel.h>

#include "mxrt_measure.h"

enum { KEY_KERNEL = 256, KEY_ARGS, KEY_SECONDS, KEY_FILE, MOST_ARGS = 64, MOST_ROUNDS = 64 };

typedef struct kernel_options {
    engine_options engine;
    const char *kernel, *args, *file;
    double seconds; /* a variant */
} kernel_options;

typedef struct kernel_run {
    const kernel_options *options;
    tool_engine engine;
    const mxrt_kernel *kernel; /* all variants */
    mxrt_kernel_info info;
    mxrt_kernel_arg args[MOST_ARGS];
    void *memory[MOST_ARGS];
    int64_t bytes; /* of all memory */
    tool_table *table;
    int n_measured;
} kernel_run;

static const struct argp_option option_table[] = {
    {"kernel", KEY_KERNEL, "NAME", 0, "The kernel, of a pack that mxgen compile made", 1},
    {"args", KEY_ARGS, "NAME=NUMBER[,..]", 0, "Its arguments that are no pointers", 1},
    {"seconds", KEY_SECONDS, "S", 0, "Time for each variant (default 0.5)", 2},
    {"file", KEY_FILE, "FILE", 0, "The tuning file; default: the user's", 2},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    kernel_options *options = state->input;
    switch (key) {
    case KEY_KERNEL:
        options->kernel = arg;
        return 0;
    case KEY_ARGS:
        options->args = arg;
        return 0;
    case KEY_SECONDS:
        options->seconds = tool_parse_seconds(state, "--seconds", arg);
        return 0;
    case KEY_FILE:
        options->file = arg;
        return 0;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->engine;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument \"%s\"", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- Arguments ---- */

/* The text after "NAME=" in a list with commas; NULL if it is not there. */
static const char *given(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; at && *at;) {
        if (!strncmp(at, name, length) && at[length] == '=')
            return at + length + 1;
        at = strchr(at, ',');
        at = at ? at + 1 : NULL;
    }
    return NULL;
}

static mx_status read_number(kernel_run *run, size_t index, mx_error *err)
{
    const mxrt_kernel_input *input = &run->info.inputs[index];
    const char *text = given(run->options->args, input->name);
    char *end = NULL;
    mxrt_kernel_arg *arg = &run->args[index];
    if (!text)
        return mx_fail(err, MX_ERR_INVALID, "kernel %s needs a value of %s: --args %s=NUMBER",
                       run->info.name, input->name, input->name);
    if (input->kind == MXRT_ARG_F32)
        *arg = mxrt_arg_f32(strtof(text, &end));
    else if (input->kind == MXRT_ARG_I64)
        *arg = mxrt_arg_i64(strtoll(text, &end, 10));
    else
        *arg = mxrt_arg_i32((int32_t)strtol(text, &end, 10));
    if (end == text || (*end && *end != ','))
        return mx_fail(err, MX_ERR_INVALID, "--args %s=%s: not a number", input->name, text);
    return MX_OK;
}

/* Memory of a pointer, with numbers from -1 to 1 in it. */
static mx_status fill_memory(kernel_run *run, size_t index, mx_error *err)
{
    int64_t bytes = 0;
    uint32_t state = 12345;
    mx_status status =
        mxrt_kernel_input_bytes(run->kernel, index, run->args, run->info.n_inputs, &bytes, err);
    if (status)
        return status;
    size_t n = ((size_t)bytes + 3) / 4;
    float *data = malloc(n * sizeof(*data));
    if (!data)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %" PRId64 " bytes", bytes);
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        data[i] = (float)(state >> 8) * 0x1p-23f - 1;
    }
    status = mxrt_device_alloc(run->engine.device, n * 4, &run->memory[index], err);
    if (!status)
        status = mxrt_device_upload(run->engine.device, run->memory[index], data, n * 4, err);
    run->args[index] = mxrt_arg_pointer(run->memory[index]);
    run->bytes += bytes;
    free(data);
    return status;
}

static mx_status prepare_args(kernel_run *run, mx_error *err)
{
    mx_status status = MX_OK;
    for (size_t i = 0; i < run->info.n_inputs; i++)
        run->args[i] = mxrt_arg_pointer(NULL);
    for (size_t i = 0; i < run->info.n_inputs && !status; i++) {
        if (run->info.inputs[i].kind != MXRT_ARG_POINTER)
            status = read_number(run, i, err);
    }
    for (size_t i = 0; i < run->info.n_inputs && !status; i++) {
        if (run->info.inputs[i].kind == MXRT_ARG_POINTER)
            status = fill_memory(run, i, err);
    }
    return status;
}

/* ---- Measuring ---- */

typedef struct timed {
    const kernel_run *run;
    const mxrt_kernel *variant;
} timed;

static mx_status launch(void *user, mxrt_stream stream, mx_error *err)
{
    const timed *t = user;
    return mxrt_kernel_launch(t->variant, NULL, t->run->args, t->run->info.n_inputs, stream, err);
}

static mx_status measure(kernel_run *run, const mxrt_kernel *variant, mxrt_tune_row *row,
                         mx_error *err)
{
    timed t = {run, variant};
    double samples[MOST_ROUNDS], warm = 0;
    int n = 0;
    mx_status status = mxrt_device_time(run->engine.device, launch, &t, 1, &warm, err);
    double end = tool_now() + (run->options->seconds > 0 ? run->options->seconds : 0.5);
    while (!status && n < MOST_ROUNDS && (n < 3 || tool_now() < end)) {
        status = mxrt_device_time(run->engine.device, launch, &t, measure_repeat(warm), &samples[n],
                                  err);
        n++;
    }
    if (status)
        return status;
    row->ms = measure_median(samples, n, &row->spread);
    row->samples = n;
    row->bytes = run->bytes;
    row->time_s = (int64_t)time(NULL);
    snprintf(row->shape, sizeof(row->shape), "%s", run->options->args ? run->options->args : "");
    return MX_OK;
}

static mx_status measure_variant(kernel_run *run, size_t index, mxrt_tune_file *file, mx_error *err)
{
    const char *name = mxrt_kernel_variant_name(run->kernel, index);
    const mxrt_kernel *variant;
    mxrt_kernel_plan plan;
    mxrt_tune_row row;
    mx_error reason;
    mx_status status = mxrt_kernel_find(run->engine.device, name, &variant, err);
    if (status)
        return status;
    status = mxrt_kernel_plan_launch(variant, NULL, run->args, run->info.n_inputs, &plan, &reason);
    if (status == MX_ERR_UNSUPPORTED)
        return MX_OK; /* the others remain */
    if (status)
        return mx_fail(err, status, "%s", reason.message);
    if ((status =
             mxrt_kernel_tune_key(run->kernel, index, run->args, run->info.n_inputs, &row, err)) ||
        (status = measure(run, variant, &row, err)) ||
        (status = mxrt_tune_put(file, &row, 1, NULL, err)))
        return status;
    table_cell(run->table, "%s", name);
    table_cell(run->table, "%u", plan.grid[0]);
    table_cell(run->table, "%u", plan.block[0]);
    table_cell(run->table, "%.4f", row.ms);
    table_cell(run->table, "%.1f", row.spread * 100);
    table_cell(run->table, "%.1f", (double)row.bytes / row.ms * 1e-6);
    run->n_measured++;
    return MX_OK;
}

static mx_status tune(kernel_run *run, mx_error *err)
{
    char path[4096];
    const kernel_options *options = run->options;
    mxrt_tune_file *file = NULL;
    mx_status status = mxrt_kernel_find(run->engine.device, options->kernel, &run->kernel, err);
    if (!status)
        status = mxrt_kernel_get_info(run->kernel, &run->info, err);
    if (!status)
        status = prepare_args(run, err);
    if (!status && !options->file)
        status = mxrt_tune_default_path(path, sizeof(path), err);
    if (!status)
        status = mxrt_tune_open(options->file ? options->file : path, 1, &file, err);
    for (size_t i = 0; !status && i < run->info.n_variants; i++)
        status = measure_variant(run, i, file, err);
    if (!status && !run->n_measured)
        status = mx_fail(err, MX_ERR_UNSUPPORTED, "no variant of kernel %s applies to %s",
                         options->kernel, options->args ? options->args : "these arguments");
    mxrt_tune_close(file);
    for (size_t i = 0; i < run->info.n_inputs; i++)
        mxrt_device_free(run->engine.device, run->memory[i]);
    return status;
}

int cmd_tune_kernel(int argc, char **argv)
{
    static const struct argp_child children[] = {{&engine_argp, 0, NULL, 10}, {0}};
    static const struct argp argp = {
        .options = option_table,
        .parser = parse,
        .doc = "Measures the variants of a kernel that mxgen compile made, on memory of the sizes "
               "that its FILE.json tells as \"bytes\", and keeps what was found: launches with "
               "arguments of like size then take the fastest.",
        .children = children};
    static const char *const heads[] = {"<variant", "grid", "block", "ms", "+-%", "GB/s", NULL};
    kernel_options options = {.seconds = 0};
    kernel_run run = {.options = &options};
    mx_error err = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &options))
        return TOOL_EXIT_USAGE;
    mx_status status = engine_open(&options.engine, &run.engine, &err);
    if (status == MX_OK) {
        run.table = table_create(heads);
        status = tune(&run, &err);
        if (run.n_measured > 0) {
            printf("device %s: %s\n", run.engine.info.uri, run.engine.info.name);
            table_print(run.table, stdout);
        }
        table_destroy(run.table);
    }
    engine_close(&run.engine);
    return status == MX_OK ? tool_finish_stdout() : tool_fail(&err);
}
