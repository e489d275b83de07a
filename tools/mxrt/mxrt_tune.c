#include "mxrt_tune.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "mxrt_watch.h"

/* ---- Options ---- */

enum {
    KEY_SHAPES = 256,
    KEY_SECONDS,
    KEY_BUDGET,
    KEY_LIMIT,
    KEY_SHARD,
    KEY_AGAIN,
    KEY_FILE,
    KEY_JSON,
    KEY_HTML
};

/* A model's tensors of two dimensions and more, each shape once. */
static void add_model(struct argp_state *state, const char *path, tool_problems *problems)
{
    st_reader *reader = NULL;
    mx_error err;
    if (st_reader_open(path, &reader, &err) != MX_OK)
        argp_error(state, "%s", err.message);
    for (size_t i = 0; i < st_reader_count(reader); i++) {
        const st_tensor *tensor = st_reader_at(reader, i);
        int seen = tensor->ndim < 2 || tensor->ndim > MX_CASE_MAX_DIMS;
        for (int k = 0; k < problems->n_shapes && !seen; k++)
            seen = problems->shapes[k].ndim == (int)tensor->ndim &&
                   !memcmp(problems->shapes[k].shape, tensor->shape,
                           tensor->ndim * sizeof(tensor->shape[0]));
        for (size_t d = 0; d < tensor->ndim && !seen; d++)
            seen = tensor->shape[d] < 1;
        if (seen)
            continue;
        mx_case *shape = problems_add_shape(state, problems);
        shape->ndim = (int)tensor->ndim;
        memcpy(shape->shape, tensor->shape, tensor->ndim * sizeof(tensor->shape[0]));
    }
    st_reader_close(reader);
}

/* A line a shape, with the axis after it if it is not --axis; # begins a comment. */
static void add_shapes_file(struct argp_state *state, const char *path, tune_options *options)
{
    tool_problems *problems = &options->problems;
    static const char model[] = ".safetensors";
    char line[256];
    size_t length = strlen(path);
    if (length > strlen(model) && !strcmp(path + length - strlen(model), model)) {
        if (options->is_gemm)
            argp_error(state, "a model does not tell the products that it takes part in: \"%s\"",
                       path);
        add_model(state, path, problems);
        return;
    }
    FILE *in = fopen(path, "r");
    if (!in)
        argp_error(state, "cannot read the shapes file \"%s\": %s", path, strerror(errno));
    while (fgets(line, sizeof(line), in)) {
        line[strcspn(line, "#\n")] = 0;
        char *rest = line, *text = NULL;
        while ((text = strsep(&rest, " \t")) && !*text)
            ;
        if (!text)
            continue;
        if (options->is_gemm) {
            products_add_shape(state, text, &options->products);
            continue;
        }
        mx_case *shape = problems_add_shape(state, problems);
        shape->ndim = tool_parse_shape(state, text, shape->shape, MX_CASE_MAX_DIMS);
        while ((text = strsep(&rest, " \t")) && !*text)
            ;
        if (text && *text)
            shape->axis = (int)tool_parse_integer(state, "a shape's axis", text, -MX_CASE_MAX_DIMS,
                                                  MX_CASE_MAX_DIMS - 1);
    }
    fclose(in);
}

static void parse_shard(struct argp_state *state, const char *arg, tune_options *options)
{
    char end;
    if (sscanf(arg, "%d/%d%c", &options->shard, &options->n_shards, &end) != 2 ||
        options->shard < 1 || options->shard > options->n_shards)
        argp_error(state, "--shard \"%s\" is not I/N with I from 1 to N", arg);
}

static error_t parse_tune(int key, char *arg, struct argp_state *state)
{
    tune_options *options = state->input;
    switch (key) {
    case KEY_SHAPES:
        add_shapes_file(state, arg, options);
        return 0;
    case KEY_SECONDS:
        options->seconds = tool_parse_seconds(state, "--seconds", arg);
        return 0;
    case KEY_BUDGET:
        options->budget_s = (double)tool_parse_integer(state, "--budget", arg, 1, 1000000);
        return 0;
    case KEY_LIMIT:
        options->limit_s = (double)tool_parse_integer(state, "--limit", arg, 1, 100000);
        return 0;
    case KEY_SHARD:
        parse_shard(state, arg, options);
        return 0;
    case KEY_AGAIN:
        options->again = 1;
        return 0;
    case KEY_FILE:
        options->file = arg;
        return 0;
    case KEY_JSON:
        options->json = arg;
        return 0;
    case KEY_HTML:
        options->html = arg;
        return 0;
    case 'q':
        options->quiet = 1;
        return 0;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->engine;
        state->child_inputs[1] =
            options->is_gemm ? (void *)&options->products : (void *)&options->problems;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument \"%s\"", arg);
        return 0;
    case ARGP_KEY_END:
        if (options->is_gemm)
            products_set_defaults(state, &options->products);
        else
            problems_set_defaults(&options->problems, (1u << MX_OP_COUNT) - 1);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option tune_option_table[] = {
    {"shapes", KEY_SHAPES, "FILE", 0,
     "A file with a shape a line, and its axis if it is not --axis; or a .safetensors file, of "
     "whose tensors each shape is taken once",
     1},
    {"seconds", KEY_SECONDS, "S", 0, "Time for each of the fastest (default: 0.1)", 2},
    {"budget", KEY_BUDGET, "S", 0, "Time for everything (default: none)", 2},
    {"limit", KEY_LIMIT, "S", 0, "A variant that does not answer for so long is given up (30)", 2},
    {"shard", KEY_SHARD, "I/N", 0, "Only every N-th problem, from the I-th on", 2},
    {"again", KEY_AGAIN, NULL, 0, "Measure what has been measured before, too", 2},
    {"file", KEY_FILE, "FILE", 0, "The tuning file (default: the user's)", 3},
    {"json", KEY_JSON, "FILE", 0, "Write what was found, a JSON line a variant", 4},
    {"html", KEY_HTML, "FILE", 0, "Write a page with plots", 4},
    {"quiet", 'q', NULL, 0, "No progress and no table", 4},
    {0}};

/* ---- Results ---- */

const tune_result *tune_find(const tune_problem *problem, const char *variant)
{
    for (int i = 0; i < problem->n_results; i++) {
        if (!strcmp(problem->results[i].variant, variant))
            return &problem->results[i];
    }
    return NULL;
}

const tune_result *tune_best(const tune_problem *problem)
{
    const tune_result *best = NULL;
    for (int i = 0; i < problem->n_results; i++) {
        const tune_result *one = &problem->results[i];
        if (one->samples > 0 && (!best || one->ms < best->ms))
            best = one;
    }
    return best;
}

const char *tune_unit(const tune_problem *problem)
{
    return problem->product ? "TFLOP/s" : "GB/s";
}

double tune_speed(const tune_problem *problem, const tune_result *result)
{
    return result && result->ms > 0 ? problem->work / result->ms : 0;
}

static tune_result *result_of(tune_problem *problem, const char *variant)
{
    const tune_result *there = tune_find(problem, variant);
    if (there)
        return &problem->results[there - problem->results];
    if (problem->n_results == TUNE_MAX_VARIANTS)
        return NULL;
    tune_result *made = &problem->results[problem->n_results++];
    memset(made, 0, sizeof(*made));
    snprintf(made->variant, sizeof(made->variant), "%s", variant);
    return made;
}

/* ---- The child's lines ---- */

enum { PREPARE_S = 120 }; /* for what comes before a problem's first kernel */

typedef struct talk {
    const tune_options *options;
    tune_problem *problems;
    int n, at; /* the problem at hand */
    int ran;   /* problems that are done */
    int is_done, is_fresh_asked;
    double deadline;
    tool_progress progress;
    char device[256], current[TUNE_NAME_BYTES], fatal[1024];
} talk;

/* The problem at hand will not be worked on again. */
static void end_problem(talk *t)
{
    progress_add(&t->progress, 1, t->problems[t->at].op);
    t->ran = ++t->at;
    t->current[0] = 0;
}

static void hear_result(tune_problem *problem, const char *kind, char *rest)
{
    tune_result *result = result_of(problem, strsep(&rest, " "));
    long long samples = 0;
    if (!result || !rest)
        return;
    if (!strcmp(kind, "F")) {
        snprintf(result->note, sizeof(result->note), "%s", rest);
        result->samples = 0;
    } else if (sscanf(rest, "%lg %lg %lld", &result->ms, &result->spread, &samples) == 3) {
        result->samples = samples;
    }
}

static void hear_size(tune_problem *problem, const char *rest)
{
    long long bytes = 0;
    if (sscanf(rest, "%lld %lg", &bytes, &problem->work) == 2)
        problem->bytes = bytes;
}

static void hear(void *user, char *line)
{
    talk *t = user;
    tune_problem *problem = &t->problems[t->at < t->n ? t->at : t->n - 1];
    char *rest = line, *kind = strsep(&rest, " ");
    if (!strcmp(kind, "Z"))
        t->is_done = 1;
    else if (!strcmp(kind, "R"))
        t->is_fresh_asked = 1;
    else if (!strcmp(kind, "Q") && t->at < t->n)
        end_problem(t);
    else if (!rest)
        return;
    else if (!strcmp(kind, "X"))
        snprintf(t->fatal, sizeof(t->fatal), "%s", rest);
    else if (!strcmp(kind, "E"))
        snprintf(problem->error, sizeof(problem->error), "%s", rest);
    else if (!strcmp(kind, "D"))
        snprintf(t->device, sizeof(t->device), "%s", rest);
    else if (!strcmp(kind, "B"))
        hear_size(problem, rest);
    else if (!strcmp(kind, "C"))
        snprintf(problem->model, sizeof(problem->model), "%s", rest);
    else if (!strcmp(kind, "V"))
        snprintf(t->current, sizeof(t->current), "%s", rest);
    else if (!strcmp(kind, "M") || !strcmp(kind, "F"))
        hear_result(problem, kind, rest);
}

static double silence_s(void *user)
{
    const talk *t = user;
    return t->options->limit_s + (t->current[0] ? 0 : PREPARE_S);
}

static int work(void *user, FILE *out)
{
    const talk *t = user;
    return tune_child(t->options, t->problems, t->at, t->n, t->deadline, out);
}

/* A child has ended before everything was done: what it was at is given up, and what comes after
 * it goes on in the next one. */
static void take_loss(talk *t, const tool_watch_end *end)
{
    tune_problem *problem = &t->problems[t->at];
    tune_result *lost = t->current[0] ? result_of(problem, t->current) : NULL;
    if (t->is_fresh_asked && !problem->error[0])
        return; /* with the reason in the note of a variant */
    if (lost && !lost->note[0] && !problem->error[0]) {
        lost->samples = 0;
        watch_describe(end, t->options->limit_s, lost->note, sizeof(lost->note));
        return;
    }
    if (!problem->error[0])
        snprintf(problem->error, sizeof(problem->error), "%s while no kernel of it ran",
                 end->was_silent ? "no answer" : "the process ended");
    end_problem(t);
}

/* The child has the device to itself: what it leaves behind when killed goes with it. */
static mx_status run_child(talk *t, mx_error *err)
{
    const tool_watch watch = {.work = work, .hear = hear, .limit_s = silence_s, .user = t};
    tool_watch_end end;
    t->current[0] = 0;
    t->is_fresh_asked = 0;
    mx_status status = watch_run(&watch, &end, err);
    if (status == MX_OK && !t->is_done && !t->fatal[0] && t->at < t->n)
        take_loss(t, &end);
    return status;
}

/* ---- All ---- */

static void name_blocks(tune_problem *problem, const tool_problem *what)
{
    const mx_case *shape = what->shape;
    problem->blocks = what;
    snprintf(problem->op, sizeof(problem->op), "%s", mx_op_name(what->op));
    snprintf(problem->format, sizeof(problem->format), "%s", mx_format_get(what->format)->name);
    snprintf(problem->dtype, sizeof(problem->dtype), "%s", mx_dtype_get(what->dtype)->name);
    snprintf(problem->detail, sizeof(problem->detail), "axis %d", shape->axis);
    tool_shape_text((size_t)shape->ndim, shape->shape, problem->shape);
}

static void name_product(tune_problem *problem, const tool_product *what)
{
    problem->product = what;
    snprintf(problem->op, sizeof(problem->op), "%s", gemm_pass_name(what->pass));
    snprintf(problem->dtype, sizeof(problem->dtype), "%s", mx_dtype_get(what->dtype)->name);
    snprintf(problem->detail, sizeof(problem->detail), "%s", mx_gemm_mode_name(what->request.mode));
    products_format_text(&what->request, problem->format, sizeof(problem->format));
    products_shape_text(&what->shape, problem->shape);
}

/* Of all problems, those of the shard; the arrays are as long as there are problems. */
typedef struct tune_list {
    int n_all, n;
    tool_problem *blocks; /* or */
    tool_product *products;
    tune_problem *problems;
} tune_list;

static mx_status make_list(const tune_options *options, tune_list *list, mx_error *err)
{
    list->n_all = options->is_gemm ? products_list(&options->products, NULL)
                                   : problems_list(&options->problems, NULL);
    size_t n = (size_t)(list->n_all ? list->n_all : 1);
    list->problems = calloc(n, sizeof(*list->problems));
    list->blocks = calloc(options->is_gemm ? 1 : n, sizeof(*list->blocks));
    list->products = calloc(options->is_gemm ? n : 1, sizeof(*list->products));
    if (!list->problems || !list->blocks || !list->products)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %d problems", list->n_all);
    if (options->is_gemm)
        products_list(&options->products, list->products);
    else
        problems_list(&options->problems, list->blocks);
    for (int i = options->shard - 1; i < list->n_all; i += options->n_shards) {
        if (options->is_gemm)
            name_product(&list->problems[list->n++], &list->products[i]);
        else
            name_blocks(&list->problems[list->n++], &list->blocks[i]);
    }
    return MX_OK;
}

static void add_table_row(tool_table *table, const tune_problem *problem)
{
    const tune_result *best = tune_best(problem), *model = tune_find(problem, problem->model);
    table_cell(table, "%s", problem->op);
    table_cell(table, "%s", problem->format);
    table_cell(table, "%s", problem->dtype);
    table_cell(table, "%s", problem->shape);
    if (problem->product)
        table_cell(table, "%s", problem->detail);
    else
        table_cell(table, "%d", problem->blocks->shape->axis);
    table_cell(table, "%d", problem->n_results);
    table_cell(table, "%s", best ? best->variant : problem->error[0] ? problem->error : "none");
    table_cell(table, "%.4f", best ? best->ms : 0.0);
    table_cell(table, "%.1f", tune_speed(problem, best));
    if (best && model && model->samples)
        table_cell(table, "%+.1f %%", 100 * (model->ms / best->ms - 1));
    else
        table_cell(table, "-");
}

static void print_failures(const tune_problem *problem)
{
    for (int i = 0; i < problem->n_results; i++) {
        if (problem->results[i].note[0])
            fprintf(stderr, "mxrt: %s is not used: %s\n", problem->results[i].variant,
                    problem->results[i].note);
    }
}

static mx_status report(const tune_options *options, const char *device,
                        const tune_problem *problems, int n, mx_error *err)
{
    const char *const heads[] = {
        options->is_gemm ? "<pass" : "<op",    "<format",        "<dtype", "<shape",
        options->is_gemm ? "<mode" : "axis",   "variants",       "<best",  "ms",
        options->is_gemm ? "TFLOP/s" : "GB/s", "model's choice", NULL};
    tool_table *table = table_create(heads);
    int measured = 0;
    for (int i = 0; i < n; i++) {
        add_table_row(table, &problems[i]);
        print_failures(&problems[i]);
        measured += tune_best(&problems[i]) != NULL;
    }
    if (!options->quiet) {
        printf("device %s\n", device);
        table_print(table, stdout);
    }
    table_destroy(table);
    mx_status status = MX_OK;
    if (options->json)
        status = tune_write_json(options->json, device, problems, n, err);
    if (status == MX_OK && options->html)
        status = tune_write_page(options->html, device, problems, n, err);
    if (status == MX_OK && !measured && n)
        status = mx_fail(err, MX_ERR_UNSUPPORTED, "nothing was measured: %s",
                         problems[0].error[0] ? problems[0].error : "no kernel applies");
    return status;
}

static mx_status run_all(talk *t, mx_error *err)
{
    mx_status status = MX_OK;
    progress_init(&t->progress, t->n, t->options->quiet);
    while (status == MX_OK && !t->is_done && !t->fatal[0] && t->at < t->n &&
           tool_now() < t->deadline)
        status = run_child(t, err);
    progress_clear(&t->progress);
    if (status != MX_OK)
        return status;
    if (t->fatal[0] && !t->ran)
        return mx_fail(err, MX_ERR_UNSUPPORTED, "nothing was measured: %.900s", t->fatal);
    if (t->ran < t->n && !t->fatal[0])
        fprintf(stderr,
                "mxrt: the budget ended after %d of %d problems; the same command goes on\n",
                t->ran, t->n);
    status = report(t->options, t->device, t->problems, t->ran, err);
    return status == MX_OK && t->fatal[0]
               ? mx_fail(err, MX_ERR_UNSUPPORTED, "%d of %d problems were measured: %.900s", t->ran,
                         t->n, t->fatal)
               : status;
}

static mx_status tune_all(const tune_options *options, mx_error *err)
{
    tune_list list = {0};
    mx_status status = make_list(options, &list, err);
    if (status == MX_OK) {
        talk t = {.options = options,
                  .problems = list.problems,
                  .n = list.n,
                  .device = "unknown",
                  .deadline = tool_now() + options->budget_s};
        status = run_all(&t, err);
    }
    free(list.blocks);
    free(list.products);
    free(list.problems);
    return status;
}

/* Kernels written by others have options of their own. */
static int asks_for_kernel(int argc, char **argv)
{
    static const char option[] = "--kernel";
    int found = 0;
    for (int i = 1; i < argc; i++)
        found |= !strcmp(argv[i], option) || !strncmp(argv[i], "--kernel=", strlen(option) + 1);
    return found;
}

int cmd_tune(int argc, char **argv)
{
    if (asks_for_kernel(argc, argv))
        return cmd_tune_kernel(argc, argv);
    int is_gemm = products_asked(argc, argv);
    const struct argp_child children[] = {
        {&engine_argp, 0, NULL, 10}, {is_gemm ? &products_argp : &problems_argp, 0, NULL, 1}, {0}};
    const struct argp argp = {
        .options = tune_option_table,
        .parser = parse_tune,
        .doc =
            "Measures the kernels that apply to each operation, format, type and shape, and keeps "
            "the results in a tuning file, from which the library chooses. Each kernel's output "
            "is compared with the reference before it is timed. An interrupted run goes on where "
            "it was. For products see mxrt tune --op grouped_gemm --help, for kernels of mxgen "
            "compile mxrt tune --kernel --help.",
        .children = children};
    tune_options options = {.is_gemm = is_gemm,
                            .seconds = 0.1,
                            .budget_s = 1e9,
                            .limit_s = 30,
                            .shard = 1,
                            .n_shards = 1};
    mx_error err = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &options))
        return TOOL_EXIT_USAGE;
    mx_status status = tune_all(&options, &err);
    return status == MX_OK ? tool_finish_stdout() : tool_fail(&err);
}
