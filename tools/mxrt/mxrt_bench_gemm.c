/* mxrt bench --op grouped_gemm: products of a layer of experts, in TFLOP/s, and how exact they are.
 */
#include "mxrt_counts.h"
#include "mxrt_gemm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <mxgen/error.h>

enum { MAX_NAMES = 256, MAX_SHAPES = 64 };

typedef struct bench_options {
    engine_options engine;
    unsigned passes, dtypes; /* bits; dtypes are out's */
    mxrt_gemm_request request;
    gemm_values values;
    gemm_shape shapes[MAX_SHAPES];
    int n_shapes, n_samples;
    const char *variant;        /* NULL: the best */
    double seconds, most_error; /* 0: any */
    int json;
} bench_options;

typedef struct bench_run {
    const bench_options *options;
    tool_engine engine;
    tool_table *rows;
    int counts, n_measured;
    mx_error last_skip;
} bench_run;

/* ---- Options ---- */

/* "GxMxNxK"; M is the rows of each group, or "LEAST-MOST". */
static void parse_shape(struct argp_state *state, const char *text, gemm_shape *out)
{
    gemm_shape shape = {0};
    char end = 0;

    if (sscanf(text, "%ldx%ld-%ldx%ldx%ld%c", &shape.groups, &shape.least, &shape.most, &shape.n,
               &shape.k, &end) != 5) {
        if (sscanf(text, "%ldx%ldx%ldx%ld%c", &shape.groups, &shape.most, &shape.n, &shape.k,
                   &end) != 4)
            argp_error(state,
                       "--shape %s: not GROUPSxROWSxNxK, such as 8x2048x4096x7168 or "
                       "16x1-16x2880x2880",
                       text);
        shape.least = shape.most;
    }
    if (shape.groups < 1 || shape.groups > GEMM_MAX_GROUPS || shape.least < 0 ||
        shape.most < shape.least || shape.most > 1 << 24 || shape.n < 32 || shape.n > 1 << 24 ||
        shape.k < 32 || shape.k > 1 << 24 || shape.n % 32 || shape.k % 32)
        argp_error(state,
                   "--shape %s: 1 to %d groups, up to 16777216 rows, N and K from 32 on in "
                   "multiples of 32",
                   text, GEMM_MAX_GROUPS);
    *out = shape;
}

static void add_shape(struct argp_state *state, const char *text, void *user)
{
    bench_options *options = user;

    if (options->n_shapes == MAX_SHAPES)
        argp_error(state, "more than %d shapes", MAX_SHAPES);
    parse_shape(state, text, &options->shapes[options->n_shapes++]);
}

static void add_pass(struct argp_state *state, const char *part, void *user)
{
    unsigned *passes = user;

    for (int i = 0; i < GEMM_PASS_COUNT; i++) {
        if (!strcmp(part, gemm_pass_name((gemm_pass)i))) {
            *passes |= 1u << i;
            return;
        }
    }
    argp_error(state, "pass \"%s\" is unknown; fprop, dgrad and wgrad exist", part);
}

static void parse_values(struct argp_state *state, const char *text, gemm_values *out)
{
    for (int i = 0; i < GEMM_VALUES_COUNT; i++) {
        if (!strcmp(text, gemm_values_name((gemm_values)i))) {
            *out = (gemm_values)i;
            return;
        }
    }
    argp_error(state, "values \"%s\" are unknown; normal, positive, spread and opposed exist",
               text);
}

static void set_defaults(struct argp_state *state, bench_options *options)
{
    static const char *const shapes[] = {"8x2048x4096x7168",      "32x512x2048x1408",
                                         "1x8192x8192x8192",      "28x256-1024x6144x3584",
                                         "28x256-1024x3584x3072", "16x1-16x2880x2880"};

    for (size_t i = 0; !options->n_shapes && i < sizeof(shapes) / sizeof(shapes[0]); i++)
        parse_shape(state, shapes[i], &options->shapes[i]);
    if (!options->n_shapes)
        options->n_shapes = sizeof(shapes) / sizeof(shapes[0]);
    options->passes = options->passes ? options->passes : 1u << GEMM_FPROP;
    options->dtypes = options->dtypes ? options->dtypes : 1u << MX_DTYPE_BF16;
}

enum {
    KEY_OP = 256,
    KEY_PASS,
    KEY_FORMAT,
    KEY_DTYPE,
    KEY_MODE,
    KEY_SHAPE,
    KEY_VALUES,
    KEY_VARIANT,
    KEY_SECONDS,
    KEY_SAMPLES,
    KEY_NUM_CU,
    KEY_ACCUMULATE,
    KEY_MOST_ERROR
};

static error_t parse_what(int key, char *arg, struct argp_state *state, bench_options *options)
{
    switch (key) {
    case KEY_OP:
        if (strcmp(arg, "grouped_gemm"))
            argp_error(state, "--op %s: grouped_gemm is measured alone", arg);
        return 0;
    case KEY_PASS:
        tool_parse_list(state, arg, &options->passes, add_pass);
        return 0;
    case KEY_FORMAT:
        if (mx_gemm_format_parse(arg, &options->request.left_element,
                                 &options->request.right_element))
            argp_error(state,
                       "format \"%s\" is unknown: LEFT.RIGHT of mxfp4, mxfp8e4m3, "
                       "mxfp8e5m2 and bf16",
                       arg);
        return 0;
    case KEY_DTYPE:
        tool_parse_list(state, arg, &options->dtypes, tool_add_dtype);
        return 0;
    case KEY_MODE:
        if (mx_gemm_mode_parse(arg, &options->request.mode))
            argp_error(state, "mode \"%s\" is unknown; fast and exact exist", arg);
        return 0;
    case KEY_SHAPE:
        tool_parse_list(state, arg, options, add_shape);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_bench(int key, char *arg, struct argp_state *state)
{
    bench_options *options = state->input;

    switch (key) {
    case KEY_VALUES:
        parse_values(state, arg, &options->values);
        return 0;
    case KEY_VARIANT:
        options->variant = arg;
        return 0;
    case KEY_SECONDS:
        options->seconds = tool_parse_seconds(state, "--seconds", arg);
        return 0;
    case KEY_SAMPLES:
        options->n_samples = (int)tool_parse_integer(state, "--samples", arg, 1, 4096);
        return 0;
    case KEY_NUM_CU:
        options->request.num_cu = (int)tool_parse_integer(state, "--num-cu", arg, 1, 1 << 20);
        return 0;
    case KEY_MOST_ERROR:
        /* A number as those of seconds are. */
        options->most_error = tool_parse_seconds(state, "--max-error", arg);
        return 0;
    case KEY_ACCUMULATE:
        options->request.accumulate = 1;
        return 0;
    case 'j':
        options->json = 1;
        return 0;
    case ARGP_KEY_INIT:
        options->seconds = 0.5;
        options->n_samples = 16;
        state->child_inputs[0] = &options->engine;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument \"%s\"", arg);
        return 0;
    case ARGP_KEY_END:
        set_defaults(state, options);
        return 0;
    default:
        return parse_what(key, arg, state, options);
    }
}

static const struct argp_option bench_option_table[] = {
    {"op", KEY_OP, "grouped_gemm", 0, "What is measured here", 1},
    {"pass", KEY_PASS, "fprop|dgrad|wgrad[,..]", 0, "Passes of a layer (default: fprop)", 1},
    {"format", KEY_FORMAT, "LEFT.RIGHT", 0,
     "Operands: mxfp4, mxfp8e4m3, mxfp8e5m2 or bf16 (default: mxfp4.mxfp4)", 1},
    {"dtype", KEY_DTYPE, "f32|bf16|f16[,..]", 0, "Types of the result (default: bf16)", 1},
    {"mode", KEY_MODE, "fast|exact", 0, "Kernels (default: fast)", 1},
    {"shape", KEY_SHAPE, "GxMxNxK[,..]", 0,
     "Groups, rows of each (or LEAST-MOST), N and K of the layer; default: six of language models",
     1},
    {"values", KEY_VALUES, "normal|positive|spread|opposed", 0,
     "Operands: any signs (default), none negative, scales over 2^100, small blocks that meet "
     "large "
     "ones",
     1},
    {"num-cu", KEY_NUM_CU, "N", 0, "At most N compute units", 2},
    {"accumulate", KEY_ACCUMULATE, NULL, 0, "Adds to what is there; the error is not told", 2},
    {"variant", KEY_VARIANT, "NAME", 0, "A variant's name, best (default), reference or all", 2},
    {"samples", KEY_SAMPLES, "N", 0, "Rows of the result that are checked (default: 16)", 3},
    {"max-error", KEY_MOST_ERROR, "E", 0, "A larger error, or a status word, is a failure", 3},
    {"seconds", KEY_SECONDS, "S", 0, "Time for a measurement (default: 0.5)", 3},
    {"json", 'j', NULL, 0, "A JSON line a measurement", 4},
    {0}};

/* ---- A measurement ---- */

typedef struct bench_kernel {
    const mxrt_gemm_plan *plan;
    gemm_problem *problem;
    mxrt_gemm_buffers buffers;
} bench_kernel;

/* On the next slot. */
static mx_status run_kernel(void *user, mxrt_stream stream, mx_error *err)
{
    bench_kernel *kernel = user;
    measure_ring *ring = &kernel->problem->inputs;

    gemm_problem_buffers(kernel->problem, ring->next, &kernel->buffers);
    ring->next = (ring->next + 1) % ring->n;
    return mxrt_gemm_run(kernel->plan, &kernel->buffers, stream, err);
}

typedef struct bench_result {
    measure_result times; /* or */
    mxrt_counters counts;
    double error;
    int32_t status;
} bench_result;

static void shape_text(const gemm_shape *shape, char out[TOOL_SHAPE_BYTES])
{
    int n = snprintf(out, TOOL_SHAPE_BYTES, "%lldx", (long long)shape->groups);

    if (shape->least < shape->most)
        n += snprintf(out + n, TOOL_SHAPE_BYTES - (size_t)n, "%lld-", (long long)shape->least);
    snprintf(out + n, TOOL_SHAPE_BYTES - (size_t)n, "%lldx%lldx%lld", (long long)shape->most,
             (long long)shape->n, (long long)shape->k);
}

static double per_second(double amount, double ms)
{
    return 1e3 * amount / ms;
}

static void print_json(const bench_run *run, const gemm_problem *problem,
                       const mxrt_gemm_info *info, const bench_result *result)
{
    char shape[TOOL_SHAPE_BYTES], format[64];
    shape_text(&problem->shape, shape);
    snprintf(format, sizeof(format), "%s.%s", mx_gemm_element_name(problem->left.element),
             mx_gemm_element_name(problem->right.element));
    json_t *line =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:I, s:f, s:i}", "op",
                  "grouped_gemm", "pass", gemm_pass_name(problem->pass), "format", format, "dtype",
                  mx_dtype_get(problem->dtype)->name, "mode", mx_gemm_mode_name(info->mode),
                  "shape", shape, "values", gemm_values_name(problem->values), "device",
                  run->engine.info.uri, "variant", info->variant, "launches", (int)info->n_launches,
                  "workspace_bytes", (json_int_t)info->workspace_bytes, "flops",
                  gemm_problem_flops(problem), "status", (int)result->status);
    if (!run->options->request.accumulate)
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
    char shape[TOOL_SHAPE_BYTES];
    const mxrt_counters *counts = &result->counts;

    shape_text(&problem->shape, shape);
    table_cell(run->rows, "%s", gemm_pass_name(problem->pass));
    table_cell(run->rows, "%s.%s", mx_gemm_element_name(problem->left.element),
               mx_gemm_element_name(problem->right.element));
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
        table_cell(run->rows, "%.2f", 1e-12 * per_second(gemm_problem_flops(problem), ms));
        table_cell(run->rows, "%.1f",
                   1e-9 * per_second((double)gemm_problem_weight_bytes(problem), ms));
        table_cell(run->rows, "%.1f",
                   1e-9 *
                       per_second((double)gemm_problem_bytes(problem), result->times.ceiling_ms));
    }
    if (run->options->request.accumulate)
        table_cell(run->rows, "-");
    else
        table_cell(run->rows, "%.3g", result->error);
}

/* Once for the error and the status word, then for the time. */
static mx_status measure_plan(bench_run *run, bench_kernel *kernel, const gemm_samples *samples,
                              bench_result *result, mx_error *err)
{
    mxrt_device *device = run->engine.device;
    gemm_problem *problem = kernel->problem;
    measure_copy copy = {0};
    mx_status status = run->counts ? counts_run(device, run_kernel, kernel, &result->counts, err)
                                   : run_kernel(kernel, NULL, err);

    if (!status)
        status = mxrt_device_synchronize(device, NULL, err);
    if (!status && !run->options->request.accumulate)
        status = gemm_samples_error(samples, problem, device, &result->error, err);
    if (!status)
        status = mxrt_device_download(device, &result->status, problem->status,
                                      sizeof(result->status), err);
    if (status || run->counts)
        return status;
    status = measure_copy_init(&copy, device, gemm_problem_bytes(problem), problem->inputs.n, err);
    if (!status)
        status = measure_pair(device, run_kernel, kernel, measure_copy_run, &copy,
                              run->options->seconds, &result->times, err);
    measure_copy_finish(&copy);
    return status;
}

/* One that does not apply here is passed over, and told only if nothing else was measured. */
static mx_status measure_variant(bench_run *run, gemm_problem *problem, const gemm_samples *samples,
                                 const char *name, mx_error *err)
{
    mxrt_device *device = run->engine.device;
    mxrt_gemm_request request = problem->request;
    bench_kernel kernel = {.problem = problem};
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
        (run->options->json ? print_json : print_row)(run, problem, &info, &result);
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
    const char *wanted = run->options->variant, *names[MAX_NAMES];
    mx_status status = MX_OK;
    size_t n = 0;

    if (!wanted || !strcmp(wanted, "best"))
        return measure_variant(run, problem, samples, NULL, err);
    if (strcmp(wanted, "all"))
        return measure_variant(run, problem, samples, wanted, err);
    status = mxrt_gemm_variants(run->engine.device, &problem->request, names, MAX_NAMES, &n, err);
    for (size_t i = 0; !status && i < n && i < MAX_NAMES; i++)
        status = measure_variant(run, problem, samples, names[i], err);
    return status;
}

static mx_status measure_problem(bench_run *run, const gemm_shape *shape, gemm_pass pass,
                                 mx_dtype dtype, mx_error *err)
{
    gemm_problem *problem = calloc(1, sizeof(*problem));
    gemm_samples samples = {0};

    if (!problem)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a problem");
    problem->pass = pass;
    problem->shape = *shape;
    problem->values = run->options->values;
    problem->dtype = dtype;
    mx_status status = gemm_problem_init(problem, run->engine.device, &run->options->request,
                                         run->counts ? 1 : 0, err);
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
    const bench_options *options = run->options;
    mx_status status = MX_OK;

    for (int s = 0; s < options->n_shapes; s++) {
        for (int i = 0; !status && i < GEMM_PASS_COUNT * MX_DTYPE_COUNT; i++) {
            int p = i / MX_DTYPE_COUNT, d = i % MX_DTYPE_COUNT;
            if (options->passes >> p & 1 && options->dtypes >> d & 1)
                status = measure_problem(run, &options->shapes[s], (gemm_pass)p, (mx_dtype)d, err);
        }
    }
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
    static const struct argp_child children[] = {{&engine_argp, 0, NULL, 10}, {0}};
    static const struct argp argp = {
        .options = bench_option_table,
        .parser = parse_bench,
        .doc =
            "Measures products of grouped GEMM from end to end, 2 M N K operations each, and "
            "their error against a product in double on some rows. The copy is the device's own, "
            "moving as many bytes as the operands and the result have. A simulated chip shows "
            "counts of one run instead.",
        .children = children};
    bench_options options = {0};
    bench_run run = {.options = &options};
    mx_error err = {0};

    if (argp_parse(&argp, argc, argv, 0, NULL, &options))
        return TOOL_EXIT_USAGE;
    mx_status status = engine_open(&options.engine, &run.engine, &err);
    if (!status) {
        run.counts = counts_available(run.engine.device);
        run.rows = options.json ? NULL : create_table(&run);
        status = measure_all(&run, &err);
        if (!options.json && run.n_measured > 0) {
            printf("device %s: %s\n", run.engine.info.uri, run.engine.info.name);
            table_print(run.rows, stdout);
        }
        table_destroy(run.rows);
    }
    engine_close(&run.engine);
    return status == MX_OK ? tool_finish_stdout() : tool_fail(&err);
}
