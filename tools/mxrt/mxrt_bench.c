/* mxrt bench: every wanted variant of every wanted key and shape, and the device's own copy. */
#include "mxrt_bench.h"
#include "mxrt_counts.h"
#include "mxrt_measure.h"
#include "mxrt_point.h"
#include "mxrt_problems.h"
#include "mxrt_products.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <mxgen/error.h>

enum { MAX_OFFSET = 4096, MAX_STRIDE = 64 };

typedef struct bench_options {
    bench_common common;
    tool_problems problems;
    int transposed; /* the last two dimensions lie in memory the other way round */
    int64_t offset, packed_gap, packed_stride; /* as in mx_case */
    int column_align;                          /* 0: no columns */
} bench_options;

typedef struct bench_run {
    const bench_options *options;
    tool_engine engine;
    tool_table *rows;
    tool_progress progress;
    int counts; /* the device counts instead of taking time */
    int n_measured;
    mx_error last_skip;
} bench_run;

/* ---- Options ---- */

/* How the tensors lie in memory. */
static void set_memory(const bench_options *options, mx_case *shape)
{
    int64_t step = 1;
    shape->offset = options->offset;
    shape->packed_block_gap = options->packed_gap;
    shape->packed_byte_stride = options->packed_stride;
    if (!options->transposed || shape->ndim < 2)
        return;
    int last = shape->ndim - 1;
    shape->strided = 1;
    for (int i = last; i >= 0; i--) {
        int dim = i == last ? last - 1 : i == last - 1 ? last : i;
        shape->strides[dim] = step;
        step *= shape->shape[dim];
    }
}

static void set_defaults(bench_options *options)
{
    problems_set_defaults(&options->problems, 1u << MX_OP_TO | 1u << MX_OP_FROM);
    for (int i = 0; i < options->problems.n_shapes; i++)
        set_memory(options, &options->problems.shapes[i]);
}

enum { KEY_VARIANT = 4096, KEY_SECONDS };

static error_t parse_common(int key, char *arg, struct argp_state *state)
{
    bench_common *options = state->input;
    switch (key) {
    case KEY_VARIANT:
        options->variant = arg;
        return 0;
    case KEY_SECONDS:
        options->seconds = tool_parse_seconds(state, "--seconds", arg);
        return 0;
    case 'j':
        options->json = 1;
        return 0;
    case ARGP_KEY_INIT:
        options->seconds = 0.5;
        state->child_inputs[0] = &options->engine;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument \"%s\"", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option common_option_table[] = {
    {"variant", KEY_VARIANT, "NAME", 0,
     "A variant's name, best, reference or all (default: best; then, but for products, reference)",
     2},
    {"seconds", KEY_SECONDS, "S", 0, "Time for a measurement (default: 0.5)", 3},
    {"json", 'j', NULL, 0, "A JSON line a measurement", 4},
    {0}};

static const struct argp_child common_children[] = {{&engine_argp, 0, NULL, 10}, {0}};

const struct argp bench_argp = {
    .options = common_option_table, .parser = parse_common, .children = common_children};

enum { KEY_OFFSET = 256, KEY_GAP, KEY_STRIDE, KEY_TRANSPOSED, KEY_COLUMNS };

static error_t parse_bench(int key, char *arg, struct argp_state *state)
{
    bench_options *options = state->input;
    switch (key) {
    case KEY_OFFSET:
        options->offset = tool_parse_integer(state, "--offset", arg, 0, MAX_OFFSET);
        return 0;
    case KEY_GAP:
        options->packed_gap = tool_parse_integer(state, "--packed-gap", arg, 0, MAX_OFFSET);
        return 0;
    case KEY_STRIDE:
        options->packed_stride = tool_parse_integer(state, "--packed-stride", arg, 1, MAX_STRIDE);
        return 0;
    case KEY_COLUMNS:
        options->column_align = (int)tool_parse_integer(state, "--columns", arg, 32, 1 << 20);
        if (options->column_align % 32)
            argp_error(state, "--columns %s is no multiple of 32", arg);
        return 0;
    case KEY_TRANSPOSED:
        options->transposed = 1;
        return 0;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->common;
        state->child_inputs[1] = &options->problems;
        return 0;
    case ARGP_KEY_END:
        set_defaults(options);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option bench_option_table[] = {
    {"offset", KEY_OFFSET, "N", 0, "Plain tensors start N elements after an aligned address", 1},
    {"transposed", KEY_TRANSPOSED, NULL, 0,
     "Plain tensors are views: the last two dimensions are swapped in memory", 1},
    {"packed-gap", KEY_GAP, "N", 0, "N bytes of gap after each packed block", 1},
    {"packed-stride", KEY_STRIDE, "N", 0, "Packed bytes lie N bytes apart", 1},
    {"columns", KEY_COLUMNS, "N", 0,
     "OCP formats: to makes the columns in the same pass, padded to a multiple of N rows; from of "
     "matrices turns blocks to the other axis",
     1},
    {0}};

/* ---- A measurement ---- */

static void add_memory(json_t *line, const mx_case *shape)
{
    if (shape->offset)
        json_object_set_new(line, "offset", json_integer((json_int_t)shape->offset));
    if (shape->strided)
        json_object_set_new(line, "transposed", json_true());
    if (shape->packed_block_gap)
        json_object_set_new(line, "packed_gap", json_integer((json_int_t)shape->packed_block_gap));
    if (shape->packed_byte_stride)
        json_object_set_new(line, "packed_stride",
                            json_integer((json_int_t)shape->packed_byte_stride));
}

/* One of the two, result and counts, is given. */
static void print_json(const bench_run *run, const tool_point *point, const mxrt_plan_info *info,
                       const measure_result *result, const mxrt_counters *counts)
{
    json_t *shape = json_array();
    for (int i = 0; i < point->shape->ndim; i++)
        json_array_append_new(shape, json_integer(point->shape->shape[i]));
    json_t *line =
        json_pack("{s:s, s:s, s:s, s:o, s:i, s:s, s:s, s:I}", "op", mx_op_name(point->op), "format",
                  mx_format_get(point->format)->name, "dtype", mx_dtype_get(point->dtype)->name,
                  "shape", shape, "axis", point->shape->axis, "device", run->engine.info.uri,
                  "variant", info->variant, "bytes", (json_int_t)point->moved_bytes);
    if (result) {
        double gbps = 1e-6 * (double)point->moved_bytes / result->ms;
        double ceiling = 1e-6 * (double)point->moved_bytes / result->ceiling_ms;
        json_t *times = json_pack("{s:f, s:f, s:f, s:f}", "ms", result->ms, "gbps", gbps,
                                  "ceiling_gbps", ceiling, "share", gbps / ceiling);
        json_object_update(line, times);
        json_decref(times);
    }
    if (counts) {
        json_object_set_new(line, "layout", json_string(mx_layout_name(info->layout)));
        json_object_set_new(line, "blocks", json_integer((json_int_t)info->n_blocks));
        json_object_set_new(line, "counts", counts_json(counts, info));
    }
    add_memory(line, point->shape);
    if (point->columns.data || point->turned.data)
        json_object_set_new(line, "columns", json_integer(point->column_align));
    json_dumpf(line, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
    putchar('\n');
    fflush(stdout);
    json_decref(line);
}

static void print_row(const bench_run *run, const tool_point *point, const mxrt_plan_info *info,
                      const measure_result *result, const mxrt_counters *counts)
{
    char shape[TOOL_SHAPE_BYTES];
    table_cell(run->rows, "%s", mx_op_name(point->op));
    table_cell(run->rows, "%s", mx_format_get(point->format)->name);
    table_cell(run->rows, "%s", mx_dtype_get(point->dtype)->name);
    table_cell(run->rows, "%s",
               tool_shape_text((size_t)point->shape->ndim, point->shape->shape, shape));
    table_cell(run->rows, "%d", point->shape->axis);
    if (counts) {
        table_cell(run->rows, "%s", mx_layout_name(info->layout));
        table_cell(run->rows, "%s", info->variant);
        counts_cells(run->rows, counts, info);
        return;
    }
    double gbps = 1e-6 * (double)point->moved_bytes / result->ms;
    double ceiling = 1e-6 * (double)point->moved_bytes / result->ceiling_ms;
    table_cell(run->rows, "%s", info->variant);
    table_cell(run->rows, "%.3f", result->ms);
    table_cell(run->rows, "%lld", (long long)point->moved_bytes);
    table_cell(run->rows, "%.2f", gbps);
    table_cell(run->rows, "%.2f", ceiling);
    table_cell(run->rows, "%.2f", gbps / ceiling);
}

/* Times the plan, or counts one run of it, and prints a line. */
static mx_status measure_plan(bench_run *run, tool_point *point, const mxrt_plan *plan,
                              const mxrt_plan_info *info, mx_error *err)
{
    point_kernel kernel = {.plan = plan, .point = point};
    measure_result result;
    mxrt_counters counts;
    mx_status status = run->counts
                           ? counts_run(run->engine.device, point_run, &kernel, &counts, err)
                           : measure_pair(run->engine.device, point_run, &kernel, measure_copy_run,
                                          &point->copy, run->options->common.seconds, &result, err);
    if (status != MX_OK)
        return status;
    (run->options->common.json ? print_json : print_row)(
        run, point, info, run->counts ? NULL : &result, run->counts ? &counts : NULL);
    run->n_measured++;
    return MX_OK;
}

/* `name` as in a plan's request; one that does not apply here is passed over, and told only if
 * nothing else was measured. *is_reference is set when the plan turned out to be the reference. */
static mx_status measure_variant(bench_run *run, tool_point *point, const char *name,
                                 int *is_reference, mx_error *err)
{
    mxrt_plan_request request = point_request(point);
    request.variant = name;
    mxrt_plan *plan = NULL;
    mxrt_plan_info info;
    mx_status status = mxrt_plan_create(run->engine.device, &request, &plan, err);
    if (status == MX_ERR_UNSUPPORTED || status == MX_ERR_NOT_FOUND)
        return run->last_skip = *err, MX_OK;
    if (status == MX_OK)
        status = mxrt_plan_get_info(plan, &info, err);
    if (status == MX_OK)
        status = measure_plan(run, point, plan, &info, err);
    if (status == MX_OK)
        *is_reference = !strcmp(info.variant, "reference");
    mxrt_plan_destroy(plan);
    return status;
}

static mx_status measure_all(bench_run *run, tool_point *point, mx_error *err)
{
    mxrt_plan_request request = point_request(point);
    const char *names[BENCH_MAX_NAMES];
    size_t n = 0;
    int unused = 0;
    mx_status status =
        mxrt_plan_variants(run->engine.device, &request, names, BENCH_MAX_NAMES, &n, err);
    for (size_t i = 0; i < n && i < BENCH_MAX_NAMES && status == MX_OK; i++)
        status = measure_variant(run, point, names[i], &unused, err);
    if (status == MX_OK)
        status = measure_variant(run, point, "reference", &unused, err);
    return status;
}

static mx_status measure_point(bench_run *run, tool_point *point, mx_error *err)
{
    const char *wanted = run->options->common.variant;
    int is_reference = 0;
    mx_status status =
        point_init(point, &run->engine, run->counts ? 0 : POINT_ROTATE | POINT_COPY, err);
    if (status != MX_OK)
        return status;
    if (wanted && !strcmp(wanted, "all"))
        return measure_all(run, point, err);
    if (wanted)
        return measure_variant(run, point, strcmp(wanted, "best") ? wanted : NULL, &is_reference,
                               err);
    status = measure_variant(run, point, NULL, &is_reference, err);
    if (status == MX_OK && !is_reference)
        status = measure_variant(run, point, "reference", &is_reference, err);
    return status;
}

static mx_status measure_list(bench_run *run, const tool_problem *problems, int n, mx_error *err)
{
    mx_status status = MX_OK;
    progress_init(&run->progress, n, 0);
    for (int i = 0; i < n && status == MX_OK; i++) {
        tool_point point = {.op = problems[i].op,
                            .format = problems[i].format,
                            .dtype = problems[i].dtype,
                            .shape = problems[i].shape,
                            .column_align = run->options->column_align};
        status = measure_point(run, &point, err);
        point_finish(&point);
        progress_add(&run->progress, 1, mx_op_name(point.op));
    }
    if (status != MX_OK || run->n_measured)
        return status;
    *err = run->last_skip;
    return err->status != MX_OK ? err->status : mx_fail(err, MX_ERR_INVALID, "nothing to measure");
}

static mx_status measure_points(bench_run *run, mx_error *err)
{
    int n = problems_list(&run->options->problems, NULL);
    tool_problem *problems = calloc((size_t)(n ? n : 1), sizeof(*problems));
    if (!problems)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %d problems", n);
    problems_list(&run->options->problems, problems);
    mx_status status = measure_list(run, problems, n, err);
    free(problems);
    return status;
}

/* Its columns follow from what the device can tell. */
static tool_table *create_table(const bench_run *run)
{
    static const char *const times[] = {"<op", "<format", "<dtype", "<shape",  "axis",  "<variant",
                                        "ms",  "bytes",   "GB/s",   "ceiling", "share", NULL};
    const char *heads[24] = {"<op", "<format", "<dtype", "<shape", "axis", "<layout", "<variant"};
    size_t n = 7;
    if (!run->counts)
        return table_create(times);
    for (size_t i = 0; counts_heads[i]; i++)
        heads[n++] = counts_heads[i];
    return table_create(heads);
}

void bench_print(const tool_engine *engine, tool_table *rows, int n_measured)
{
    if (rows && n_measured > 0) {
        printf("device %s: %s\n", engine->info.uri, engine->info.name);
        table_print(rows, stdout);
    }
    table_destroy(rows);
}

int cmd_bench(int argc, char **argv)
{
    if (products_asked(argc, argv))
        return cmd_bench_gemm(argc, argv);
    static const struct argp_child children[] = {
        {&bench_argp, 0, NULL, 0}, {&problems_argp, 0, NULL, 1}, {0}};
    static const struct argp argp = {
        .options = bench_option_table,
        .parser = parse_bench,
        .doc =
            "Measures kernels. The ceiling is the device's own copy moving the same number of "
            "bytes, read plus written, measured in turns with the kernel. A simulated chip shows "
            "counts of one run instead. For products see mxrt bench --op grouped_gemm --help.",
        .children = children};
    bench_options options = {0};
    bench_run run = {.options = &options};
    mx_error err = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &options))
        return TOOL_EXIT_USAGE;
    mx_status status = engine_open(&options.common.engine, &run.engine, &err);
    if (status == MX_OK) {
        run.counts = counts_available(run.engine.device);
        run.rows = options.common.json ? NULL : create_table(&run);
        status = measure_points(&run, &err);
        progress_clear(&run.progress);
        bench_print(&run.engine, run.rows, run.n_measured);
    }
    engine_close(&run.engine);
    return status == MX_OK ? tool_finish_stdout() : tool_fail(&err);
}
