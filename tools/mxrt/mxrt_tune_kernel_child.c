/* mxrt tune --kernel: what has the device and measures. */
#include "mxrt_tune_kernel.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mxgen/error.h>
#include <mxgen/kernel.h>

#include "judge.h"
#include "mxrt_measure.h"

enum { MOST_ARGS = 64, MOST_ROUNDS = 64 };

typedef struct kernel_run {
    const kernel_options *options;
    FILE *out;
    tool_engine engine;
    mxrt_tune_file *file;
    json_t *check;             /* NULL: nobody judges */
    json_t *check_args;        /* what it is told of arguments */
    const mxrt_kernel *kernel; /* all variants */
    mxrt_kernel_info info;
    mxrt_kernel_arg args[MOST_ARGS];
    void *memory[MOST_ARGS], *before[MOST_ARGS];
    size_t memory_bytes[MOST_ARGS];
    int64_t bytes; /* of all memory */
    int must_end;  /* the device is in no state to go on */
} kernel_run;

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
    json_object_set_new(run->check_args, input->name,
                        input->kind == MXRT_ARG_F32   ? json_real((double)arg->value.f32)
                        : input->kind == MXRT_ARG_I64 ? json_integer(arg->value.i64)
                                                      : json_integer(arg->value.i32));
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
    run->before[index] = data;
    run->memory_bytes[index] = (size_t)bytes;
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
    double end = tool_now() + run->options->seconds;
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

/* ---- What is right ---- */

/* The launch's memory, to what it was before; fails with MX_ERR_INVALID where it is wrong. */
static mx_status judge_memory_now(kernel_run *run, const char *name, mx_error *err)
{
    judge_memory memory[MOST_ARGS];
    void *after[MOST_ARGS] = {NULL};
    size_t n = 0;
    mx_status status = MX_OK;
    for (size_t i = 0; i < run->info.n_inputs && !status; i++) {
        if (!run->memory[i])
            continue;
        if (!(after[n] = malloc(run->memory_bytes[i])))
            status =
                mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu bytes", run->memory_bytes[i]);
        else
            status = mxrt_device_download(run->engine.device, after[n], run->memory[i],
                                          run->memory_bytes[i], err);
        memory[n] = (judge_memory){run->info.inputs[i].name, run->before[i], after[n],
                                   run->memory_bytes[i]};
        n++;
    }
    if (!status)
        status = judge_run(run->check, run->options->check, run->check_args, name, memory, n, err);
    for (size_t i = 0; i < n; i++)
        free(after[i]);
    return status;
}

/* Memory is as it was at first, so that no variant lives on what another left. */
static mx_status judge_variant(kernel_run *run, const mxrt_kernel *variant, const char *name,
                               mx_error *err)
{
    mx_status status = MX_OK;
    if (!run->check)
        return MX_OK;
    for (size_t i = 0; i < run->info.n_inputs && !status; i++) {
        if (run->memory[i])
            status = mxrt_device_upload(run->engine.device, run->memory[i], run->before[i],
                                        run->memory_bytes[i], err);
    }
    if (!status)
        status = mxrt_kernel_launch(variant, NULL, run->args, run->info.n_inputs, NULL, err);
    if (!status)
        status = mxrt_device_synchronize(run->engine.device, NULL, err);
    return status ? status : judge_memory_now(run, name, err);
}

/* ---- Variants ---- */

/* The row says why the variant is not used. */
static mx_status refuse(kernel_run *run, mxrt_tune_row *row, const char *why, mx_error *err)
{
    snprintf(row->note, sizeof(row->note), "%s", why);
    for (char *c = row->note; *c; c++)
        *c = *c == '\n' ? ' ' : *c;
    row->time_s = (int64_t)time(NULL);
    fprintf(run->out, "F %s %s\n", row->variant, row->note);
    fflush(run->out);
    return mxrt_tune_put(run->file, row, 1, NULL, err);
}

static mx_status measure_variant(kernel_run *run, const mxrt_kernel *variant,
                                 const mxrt_kernel_plan *plan, mxrt_tune_row *row, mx_error *err)
{
    mx_error reason = {MX_OK, ""};
    mx_status status = judge_variant(run, variant, row->variant, &reason);
    int is_wrong = status == MX_ERR_INVALID;
    if (!status)
        status = measure(run, variant, row, &reason);
    run->must_end = status == MX_ERR_DEVICE;
    if (is_wrong || run->must_end)
        return refuse(run, row, reason.message, err);
    if (status)
        return mx_fail(err, status, "%s", reason.message);
    fprintf(run->out, "M %s %u %u %.9g %.6g %.6g\n", row->variant, plan->grid[0], plan->block[0],
            row->ms, row->spread, (double)row->bytes / row->ms * 1e-6);
    fflush(run->out);
    return mxrt_tune_put(run->file, row, 1, NULL, err);
}

static mx_status try_variant(kernel_run *run, const kernel_results *results, size_t index,
                             mx_error *err)
{
    const char *name = mxrt_kernel_variant_name(run->kernel, index);
    int known = kernel_results_find(results, name);
    const kernel_result *before = known < 0 ? NULL : &results->items[known];
    const mxrt_kernel *variant;
    mxrt_kernel_plan plan;
    mxrt_tune_row row;
    mx_error reason;
    mx_status status =
        mxrt_kernel_tune_key(run->kernel, index, run->args, run->info.n_inputs, &row, err);
    if (status || (before && !before->note[0]))
        return status;
    if (before)
        return refuse(run, &row, before->note, err);
    if ((status = mxrt_kernel_find(run->engine.device, name, &variant, err)))
        return status;
    status = mxrt_kernel_plan_launch(variant, NULL, run->args, run->info.n_inputs, &plan, &reason);
    if (status == MX_ERR_UNSUPPORTED) {
        fprintf(run->out, "N %s\n", name);
        return MX_OK; /* the others remain */
    }
    if (status)
        return mx_fail(err, status, "%s", reason.message);
    fprintf(run->out, "V %s\n", name);
    fflush(run->out);
    return measure_variant(run, variant, &plan, &row, err);
}

/* ---- All ---- */

static mx_status open_all(kernel_run *run, mx_error *err)
{
    char path[4096];
    const kernel_options *options = run->options;
    mx_status status = MX_OK;
    if (options->check)
        status = judge_read(options->check, &run->check, err);
    if (!status && !(run->check_args = json_object()))
        status = mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
    if (!status)
        status = engine_open(&options->engine, &run->engine, err);
    if (!status)
        fprintf(run->out, "D %s: %s\n", run->engine.info.uri, run->engine.info.name);
    if (!status)
        status = mxrt_kernel_find(run->engine.device, options->kernel, &run->kernel, err);
    if (!status)
        status = mxrt_kernel_get_info(run->kernel, &run->info, err);
    if (!status)
        status = prepare_args(run, err);
    if (!status && !options->file)
        status = mxrt_tune_default_path(path, sizeof(path), err);
    return status ? status
                  : mxrt_tune_open(options->file ? options->file : path, 1, &run->file, err);
}

static void close_all(kernel_run *run)
{
    mxrt_tune_close(run->file);
    for (size_t i = 0; i < run->info.n_inputs; i++) {
        mxrt_device_free(run->engine.device, run->memory[i]);
        free(run->before[i]);
    }
    json_decref(run->check);
    json_decref(run->check_args);
    engine_close(&run->engine);
}

int tune_kernel_child(const kernel_options *options, const kernel_results *results, FILE *out)
{
    kernel_run run = {.options = options, .out = out};
    mx_error err = {MX_OK, ""};
    mx_status status = open_all(&run, &err);
    for (size_t i = 0; !status && !run.must_end && i < run.info.n_variants; i++)
        status = try_variant(&run, results, i, &err);
    if (status)
        fprintf(out, "X %s\n", err.message);
    else
        fprintf(out, "%s\n", run.must_end ? "R" : "Z");
    fflush(out);
    close_all(&run);
    return status || run.must_end ? TOOL_EXIT_FAILURE : 0;
}
