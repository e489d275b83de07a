/* mxrt bench --op grouped_gemm: products of a layer of experts, in TFLOP/s, and how exact they are.
 */
#include "mxrt_bench.h"
#include "mxrt_counts.h"
#include "mxrt_products.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <mxgen/error.h>

typedef struct bench_options {
    bench_common common;
    tool_products products;
    int n_samples;
    double most_error; /* 0: any */
} bench_options;

typedef struct bench_run {
    const bench_options *options;
    tool_engine engine;
    tool_table *rows;
    int counts, n_measured;
    mx_error last_skip;
} bench_run;

/* ---- Options ---- */

enum { KEY_SAMPLES = 256, KEY_MOST_ERROR };

static error_t parse_bench(int key, char *arg, struct argp_state *state)
{
    bench_options *options = state->input;

    switch (key) {
    case KEY_SAMPLES:
        options->n_samples = (int)tool_parse_integer(state, "--samples", arg, 1, 4096);
        return 0;
    case KEY_MOST_ERROR:
        /* A number as those of seconds are. */
        options->most_error = tool_parse_seconds(state, "--max-error", arg);
        return 0;
    case ARGP_KEY_INIT:
        options->n_samples = 16;
        state->child_inputs[0] = &options->common;
        state->child_inputs[1] = &options->products;
        return 0;
    case ARGP_KEY_END:
        products_set_defaults(state, &options->products);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option bench_option_table[] = {
    {"samples", KEY_SAMPLES, "N", 0, "Rows of the result that are checked (default: 16)", 3},
    {"max-error", KEY_MOST_ERROR, "E", 0, "A larger error, or a status word, is a failure", 3},
    {0}};

/* ---- A measurement ---- */

typedef struct bench_result {
    measure_result times; /* or */
    mxrt_counters counts;
    double error;
    int32_t status;
} bench_result;

static double per_second(double amount, double ms)
{
    return 1e3 * amount / ms;
}

static void print_json(const bench_run *run, const gemm_problem *problem,
                       const mxrt_gemm_info *info, const bench_result *result)
{
    char shape[TOOL_SHAPE_BYTES], format[64];
    products_shape_text(&problem->shape, shape);
    products_format_text(&problem->request, format, sizeof(format));
    json_t *line =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:I, s:f, s:i}", "op",
                  "grouped_gemm", "pass", gemm_pass_name(problem->pass), "format", format, "dtype",
                  mx_dtype_get(problem->dtype)->name, "mode", mx_gemm_mode_name(info->mode),
                  "shape", shape, "values", gemm_values_name(problem->values), "device",
                  run->engine.info.uri, "variant", info->variant, "launches", (int)info->n_launches,
                  "workspace_bytes", (json_int_t)info->workspace_bytes, "flops",
                  gemm_problem_flops(problem), "status", (int)result->status);
    if (!run->options->products.request.accumulate)
        json_object_set_new(line, "error", json_real(result->error));
    if (run->counts) {
        json_object_set_new(line, "mfma", json_integer((json_int_t)result->counts.mfma));
        json_object_set_new(line, "valu", json_integer((json_int_t)result->counts.valu));
        json_object_set_new(line, "lds", json_integer((json_int_t)result->counts.lds));
        json_object_set_new(line, "lds_conflicts",
                            json_integer((json_int_t)result->counts.lds_conflicts));
        json_object_set_new(line, "load_bytes",
                            json_integer((json_int_t)result->counts.load_bytes));
    } else {
        double ms = result->times.ms;
        json_t *times = json_pack(
            "{s:f, s:f, s:f, s:f}", "ms", ms, "tflops",
            1e-12 * per_second(gemm_problem_flops(problem), ms), "weight_gbps",
            1e-9 * per_second((double)gemm_problem_weight_bytes(problem), ms), "copy_gbps",
            1e-9 * per_second((double)gemm_problem_bytes(problem), result->times.ceiling_ms));
        json_object_update(line, times);
        json_decref(times);
    }
    json_dumpf(line, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
    putchar('\n');
    fflush(stdout);
    json_decref(line);
}

static void print_row(const bench_run *run, const gemm_problem *problem, const mxrt_gemm_info *info,
                      const bench_result *result)
{
    char shape[TOOL_SHAPE_BYTES], format[64];
    const mxrt_counters *counts = &result->counts;

    products_shape_text(&problem->shape, shape);
    products_format_text(&problem->request, format, sizeof(format));
    table_cell(run->rows, "%s", gemm_pass_name(problem->pass));
    table_cell(run->rows, "%s", format);
    table_cell(run->rows, "%s", mx_dtype_get(problem->dtype)->name);
    table_cell(run->rows, "%s", shape);
    table_cell(run->rows, "%s", info->variant);
    if (run->counts) {
        table_cell(run->rows, "%llu", (unsigned long long)counts->mfma);
        table_cell(run->rows, "%llu", (unsigned long long)counts->valu);
        table_cell(run->rows, "%llu", (unsigned long long)counts->lds);
        table_cell(run->rows, "%llu", (unsigned long long)counts->lds_conflicts);
        table_cell(run->rows, "%llu", (unsigned long long)counts->load_bytes);
    } else {
        double ms = result->times.ms;
        table_cell(run->rows, "%.3f", ms);
        double tflops = 1e-12 * per_second(gemm_problem_flops(problem), ms);
        table_cell(run->rows, tflops < 1 ? "%.4f" : "%.2f", tflops);
        table_cell(run->rows, "%.1f",
                   1e-9 * per_second((double)gemm_problem_weight_bytes(problem), ms));
        table_cell(run->rows, "%.1f",
                   1e-9 *
                       per_second((double)gemm_problem_bytes(problem), result->times.ceiling_ms));
    }
    if (run->options->products.request.accumulate)
        table_cell(run->rows, "-");
    else
        table_cell(run->rows, "%.3g", result->error);
}

/* Once for the error and the status word, then for the time. */
static mx_status measure_plan(bench_run *run, gemm_kernel *kernel, const gemm_samples *samples,
                              bench_result *result, mx_error *err)
{
    mxrt_device *device = run->engine.device;
    gemm_problem *problem = kernel->problem;
    measure_copy copy = {0};
    mx_status status = run->counts
                           ? counts_run(device, gemm_kernel_run, kernel, &result->counts, err)
                           : gemm_kernel_run(kernel, NULL, err);

    if (!status)
        status = mxrt_device_synchronize(device, NULL, err);
    if (!status && !run->options->products.request.accumulate)
        status = gemm_samples_error(samples, problem, device, &result->error, err);
    if (!status)
        status = mxrt_device_download(device, &result->status, problem->status,
                                      sizeof(result->status), err);
    if (status || run->counts)
        return status;
    status = measure_copy_init(&copy, device, gemm_problem_bytes(problem), problem->inputs.n, err);
    if (!status)
        status = measure_pair(device, gemm_kernel_run, kernel, measure_copy_run, &copy,
                              run->options->common.seconds, &result->times, err);
    measure_copy_finish(&copy);
    return status;
}

/* One that does not apply here is passed over, and told only if nothing else was measured. */
static mx_status measure_variant(bench_run *run, gemm_problem *problem, const gemm_samples *samples,
                                 const char *name, mx_error *err)
{
    mxrt_device *device = run->engine.device;
    mxrt_gemm_request request = problem->request;
    gemm_kernel kernel = {.problem = problem};
    bench_result result = {0};
    mxrt_gemm_plan *plan = NULL;
    mxrt_gemm_info info;

    request.variant = name;
    mx_status status = mxrt_gemm_plan_create(device, &request, &plan, err);
    if (status == MX_ERR_UNSUPPORTED || status == MX_ERR_NOT_FOUND)
        return run->last_skip = *err, MX_OK;
    if (!status)
        status = mxrt_gemm_get_info(plan, &info, err);
    if (!status) {
        kernel.plan = plan;
        kernel.buffers.workspace_bytes = info.workspace_bytes;
        status = info.workspace_bytes ? mxrt_device_alloc(device, info.workspace_bytes,
                                                          &kernel.buffers.workspace, err)
                                      : MX_OK;
    }
    if (!status)
        status = measure_plan(run, &kernel, samples, &result, err);
    if (!status) {
        (run->options->common.json ? print_json : print_row)(run, problem, &info, &result);
        run->n_measured++;
    }
    double most = run->options->most_error;
    if (!status && most > 0 && (result.status || !(result.error <= most)))
        status =
            mx_fail(err, MX_ERR_INTERNAL, "%s: error %g, more than %g, or status word %d, not 0",
                    info.variant, result.error, most, (int)result.status);
    mxrt_device_free(device, kernel.buffers.workspace);
    mxrt_gemm_plan_destroy(plan);
    return status;
}

static mx_status measure_variants(bench_run *run, gemm_problem *problem,
                                  const gemm_samples *samples, mx_error *err)
{
    const char *wanted = run->options->common.variant, *names[BENCH_MAX_NAMES];
    mx_status status = MX_OK;
    size_t n = 0;

    if (!wanted || !strcmp(wanted, "best"))
        return measure_variant(run, problem, samples, NULL, err);
    if (strcmp(wanted, "all"))
        return measure_variant(run, problem, samples, wanted, err);
    status =
        mxrt_gemm_variants(run->engine.device, &problem->request, names, BENCH_MAX_NAMES, &n, err);
    for (size_t i = 0; !status && i < n && i < BENCH_MAX_NAMES; i++)
        status = measure_variant(run, problem, samples, names[i], err);
    return status;
}

static mx_status measure_problem(bench_run *run, const tool_product *product, mx_error *err)
{
    gemm_problem *problem = gemm_problem_create(product, err);
    gemm_samples samples = {0};

    if (!problem)
        return err->status;
    mx_status status = gemm_problem_init(problem, run->engine.device, run->counts ? 1 : 0, err);
    if (!status)
        status = gemm_samples_init(&samples, problem, run->options->n_samples, err);
    if (!status)
        status = measure_variants(run, problem, &samples, err);
    gemm_samples_finish(&samples);
    gemm_problem_finish(problem, run->engine.device);
    free(problem);
    return status;
}

static mx_status measure_all(bench_run *run, mx_error *err)
{
    int n = products_list(&run->options->products, NULL);
    tool_product *products = calloc((size_t)(n ? n : 1), sizeof(*products));
    mx_status status = MX_OK;

    if (!products)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %d products", n);
    products_list(&run->options->products, products);
    for (int i = 0; !status && i < n; i++)
        status = measure_problem(run, &products[i], err);
    free(products);
    if (status || run->n_measured)
        return status;
    *err = run->last_skip;
    return err->status ? err->status : mx_fail(err, MX_ERR_INVALID, "nothing to measure");
}

static tool_table *create_table(const bench_run *run)
{
    static const char *const times[] = {"<pass",     "<format", "<dtype",  "<shape",
                                        "<variant",  "ms",      "TFLOP/s", "weights GB/s",
                                        "copy GB/s", "error",   NULL};
    static const char *const counts[] = {"<pass",    "<format",    "<dtype", "<shape",
                                         "<variant", "matrix",     "vector", "lds",
                                         "lds+",     "load bytes", "error",  NULL};

    return table_create(run->counts ? counts : times);
}

int cmd_bench_gemm(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&bench_argp, 0, NULL, 0}, {&products_argp, 0, NULL, 1}, {0}};
    static const struct argp argp = {
        .options = bench_option_table,
        .parser = parse_bench,
        .doc =
            "Measures products of grouped GEMM from end to end, 2 M N K operations each, and "
            "their error against a product in double on some rows. The copy is the device's own, "
            "moving as many bytes as the operands and the result have. With --accumulate the error "
            "is not told. A simulated chip shows "
            "counts of one run instead.",
        .children = children};
    bench_options options = {0};
    bench_run run = {.options = &options};
    mx_error err = {0};

    if (argp_parse(&argp, argc, argv, 0, NULL, &options))
        return TOOL_EXIT_USAGE;
    mx_status status = engine_open(&options.common.engine, &run.engine, &err);
    if (!status) {
        run.counts = counts_available(run.engine.device);
        run.rows = options.common.json ? NULL : create_table(&run);
        status = measure_all(&run, &err);
        bench_print(&run.engine, run.rows, run.n_measured);
    }
    engine_close(&run.engine);
    return status == MX_OK ? tool_finish_stdout() : tool_fail(&err);
}
