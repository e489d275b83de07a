#include "mxrt_tune.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mxgen/error.h>

/* ---- Options ---- */

enum {
    KEY_OP = 256,
    KEY_DTYPE,
    KEY_SHAPE,
    KEY_SHAPES,
    KEY_SECONDS,
    KEY_BUDGET,
    KEY_LIMIT,
    KEY_SHARD,
    KEY_AGAIN,
    KEY_FILE,
    KEY_JSON,
    KEY_HTML
};

static mx_case *new_shape(struct argp_state *state, tune_options *options)
{
    if (options->n_shapes == TUNE_MAX_SHAPES)
        argp_error(state, "more than %d shapes", TUNE_MAX_SHAPES);
    mx_case *shape = &options->shapes[options->n_shapes++];
    shape->axis = INT_MIN; /* --axis, when all options are read */
    return shape;
}

static void add_shape(struct argp_state *state, const char *part, void *user)
{
    mx_case *shape = new_shape(state, user);
    shape->ndim = tool_parse_shape(state, part, shape->shape, MX_CASE_MAX_DIMS);
}

/* A model's tensors of two dimensions and more, each shape once. */
static void add_model(struct argp_state *state, const char *path, tune_options *options)
{
    st_reader *reader = NULL;
    mx_error err;
    if (st_reader_open(path, &reader, &err) != MX_OK)
        argp_error(state, "%s", err.message);
    for (size_t i = 0; i < st_reader_count(reader); i++) {
        const st_tensor *tensor = st_reader_at(reader, i);
        int seen = tensor->ndim < 2 || tensor->ndim > MX_CASE_MAX_DIMS;
        for (int k = 0; k < options->n_shapes && !seen; k++)
            seen = options->shapes[k].ndim == (int)tensor->ndim &&
                   !memcmp(options->shapes[k].shape, tensor->shape,
                           tensor->ndim * sizeof(tensor->shape[0]));
        for (size_t d = 0; d < tensor->ndim && !seen; d++)
            seen = tensor->shape[d] < 1;
        if (seen)
            continue;
        mx_case *shape = new_shape(state, options);
        shape->ndim = (int)tensor->ndim;
        memcpy(shape->shape, tensor->shape, tensor->ndim * sizeof(tensor->shape[0]));
    }
    st_reader_close(reader);
}

/* A line a shape, with the axis after it if it is not --axis; # begins a comment. */
static void add_shapes_file(struct argp_state *state, const char *path, tune_options *options)
{
    static const char model[] = ".safetensors";
    char line[256];
    size_t length = strlen(path);
    if (length > strlen(model) && !strcmp(path + length - strlen(model), model)) {
        add_model(state, path, options);
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
        add_shape(state, text, options);
        while ((text = strsep(&rest, " \t")) && !*text)
            ;
        if (text && *text)
            options->shapes[options->n_shapes - 1].axis = (int)tool_parse_integer(
                state, "a shape's axis", text, -MX_CASE_MAX_DIMS, MX_CASE_MAX_DIMS - 1);
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

static void set_defaults(tune_options *options)
{
    if (!options->ops)
        options->ops = (1u << MX_OP_COUNT) - 1;
    if (!options->formats)
        options->formats = 1u << MX_FORMAT_MX9 | 1u << MX_FORMAT_MX6;
    if (!options->dtypes)
        options->dtypes = 1u << MX_DTYPE_F32 | 1u << MX_DTYPE_BF16;
    int given = options->n_shapes;
    for (int i = 0; i < given; i++) {
        if (options->shapes[i].axis == INT_MIN)
            options->shapes[i].axis = options->axis;
    }
    for (size_t i = 0; !given && i < mx_case_count(); i++) {
        if (mx_case_at(i)->uses & MX_CASE_BENCH && options->n_shapes < TUNE_MAX_SHAPES)
            options->shapes[options->n_shapes++] = *mx_case_at(i);
    }
}

static error_t parse_what(int key, char *arg, struct argp_state *state, tune_options *options)
{
    switch (key) {
    case KEY_OP:
        tool_parse_list(state, arg, &options->ops, tool_add_op);
        return 0;
    case 'f':
        tool_parse_list(state, arg, &options->formats, tool_add_format);
        return 0;
    case KEY_DTYPE:
        tool_parse_list(state, arg, &options->dtypes, tool_add_dtype);
        return 0;
    case KEY_SHAPE:
        tool_parse_list(state, arg, options, add_shape);
        return 0;
    case KEY_SHAPES:
        add_shapes_file(state, arg, options);
        return 0;
    case 'a':
        options->axis = (int)tool_parse_integer(state, "--axis", arg, INT_MIN + 1, INT_MAX);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_tune(int key, char *arg, struct argp_state *state)
{
    tune_options *options = state->input;
    switch (key) {
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
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument \"%s\"", arg);
        return 0;
    case ARGP_KEY_END:
        set_defaults(options);
        return 0;
    default:
        return parse_what(key, arg, state, options);
    }
}

static const struct argp_option tune_option_table[] = {
    {"op", KEY_OP, "OP,..", 0, "to, from, qdq (default: all)", 1},
    {"format", 'f', "FORMAT,..", 0, "mx9, mx6, mx4 (default: mx9,mx6)", 1},
    {"dtype", KEY_DTYPE, "TYPE,..", 0, "f32, bf16, f16 (default: f32,bf16)", 1},
    {"shape", KEY_SHAPE, "SHAPE,..", 0, "Such as 4096x4096 (default: those of bench)", 1},
    {"shapes", KEY_SHAPES, "FILE", 0,
     "A file with a shape a line, and its axis if it is not --axis; or a .safetensors file, of "
     "whose tensors each shape is taken once",
     1},
    {"axis", 'a', "N", 0, "Axis of the blocks (default: -1)", 1},
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

typedef struct talk {
    tune_problem *problem;
    char device[256], current[TUNE_NAME_BYTES];
    int is_done;
} talk;

static void hear(talk *t, char *line)
{
    char *rest = line, *kind = strsep(&rest, " ");
    if (!strcmp(kind, "Z")) {
        t->is_done = 1;
    } else if (rest && !strcmp(kind, "E")) {
        snprintf(t->problem->error, sizeof(t->problem->error), "%s", rest);
        t->is_done = 1;
    } else if (rest && !strcmp(kind, "D")) {
        snprintf(t->device, sizeof(t->device), "%s", rest);
    } else if (rest && !strcmp(kind, "B")) {
        t->problem->bytes = strtoll(rest, NULL, 10);
    } else if (rest && !strcmp(kind, "C")) {
        snprintf(t->problem->model, sizeof(t->problem->model), "%s", rest);
    } else if (rest && !strcmp(kind, "V")) {
        snprintf(t->current, sizeof(t->current), "%s", rest);
    } else if (rest) {
        tune_result *result = result_of(t->problem, strsep(&rest, " "));
        long long samples = 0;
        if (result && rest && !strcmp(kind, "F"))
            snprintf(result->note, sizeof(result->note), "%s", rest);
        else if (result && rest &&
                 sscanf(rest, "%lg %lg %lld", &result->ms, &result->spread, &samples) == 3)
            result->samples = samples;
    }
}

/* Reads lines until the child ends or is silent for too long. Returns 0 if it was silent. */
static int listen_to(talk *t, int fd, double limit_s)
{
    char buffer[8192];
    size_t used = 0;
    for (;;) {
        struct pollfd at = {.fd = fd, .events = POLLIN};
        int ready = poll(&at, 1, (int)(1000 * limit_s));
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready == 0)
            return 0;
        ssize_t n = read(fd, buffer + used, sizeof(buffer) - 1 - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return 1;
        used += (size_t)n;
        buffer[used] = 0;
        char *line = buffer, *end;
        while ((end = strchr(line, '\n'))) {
            *end = 0;
            hear(t, line);
            line = end + 1;
        }
        used = strlen(line);
        memmove(buffer, line, used + 1);
        if (used == sizeof(buffer) - 1)
            used = 0; /* no line of ours */
    }
}

/* The child has the device to itself: what it leaves behind when killed goes with it. */
static mx_status run_child(const tune_options *options, talk *t, double deadline, mx_error *err)
{
    int ends[2], status = 0;
    if (pipe(ends))
        return mx_fail(err, MX_ERR_IO, "no pipe: %s", strerror(errno));
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        close(ends[0]);
        close(ends[1]);
        return mx_fail(err, MX_ERR_IO, "no process: %s", strerror(errno));
    }
    if (pid == 0) {
        close(ends[0]);
        FILE *out = fdopen(ends[1], "w");
        _exit(out ? tune_child(options, t->problem, deadline, out) : TOOL_EXIT_FAILURE);
    }
    close(ends[1]);
    t->current[0] = 0;
    int answered = listen_to(t, ends[0], options->limit_s);
    if (!answered)
        kill(pid, SIGKILL);
    close(ends[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (t->is_done)
        return MX_OK;
    tune_result *lost = t->current[0] ? result_of(t->problem, t->current) : NULL;
    if (!lost || lost->note[0]) {
        snprintf(t->problem->error, sizeof(t->problem->error), "%s before any kernel ran",
                 answered ? "the process ended" : "no answer");
        t->is_done = 1;
        return MX_OK;
    }
    if (answered)
        snprintf(lost->note, sizeof(lost->note), "crashed (signal %d)",
                 WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    else
        snprintf(lost->note, sizeof(lost->note), "no answer in %.0f s", options->limit_s);
    lost->samples = 0;
    return MX_OK;
}

static mx_status tune_problem_run(const tune_options *options, talk *t, double deadline,
                                  mx_error *err)
{
    mx_status status = MX_OK;
    t->is_done = 0;
    while (status == MX_OK && !t->is_done && tool_now() < deadline)
        status = run_child(options, t, deadline, err);
    return status;
}

/* ---- All ---- */

static int make_problems(const tune_options *options, tune_problem *problems)
{
    int n = 0, at = 0;
    for (int s = 0; s < options->n_shapes; s++) {
        for (int k = 0; k < (int)MX_OP_COUNT * (int)MX_FORMAT_COUNT * (int)MX_DTYPE_COUNT; k++) {
            tune_problem problem = {.op = (mx_op)(k / ((int)MX_FORMAT_COUNT * (int)MX_DTYPE_COUNT)),
                                    .format =
                                        (mx_format)(k / (int)MX_DTYPE_COUNT % (int)MX_FORMAT_COUNT),
                                    .dtype = (mx_dtype)(k % (int)MX_DTYPE_COUNT),
                                    .shape = &options->shapes[s]};
            if (!(options->ops >> problem.op & 1) || !(options->formats >> problem.format & 1) ||
                !(options->dtypes >> problem.dtype & 1) ||
                at++ % options->n_shards != options->shard - 1)
                continue;
            if (problems)
                problems[n] = problem;
            n++;
        }
    }
    return n;
}

static void add_table_row(tool_table *table, const tune_problem *problem)
{
    char shape[TOOL_SHAPE_BYTES];
    const tune_result *best = tune_best(problem), *model = tune_find(problem, problem->model);
    table_cell(table, "%s", mx_op_name(problem->op));
    table_cell(table, "%s", mx_format_get(problem->format)->name);
    table_cell(table, "%s", mx_dtype_get(problem->dtype)->name);
    table_cell(table, "%s",
               tool_shape_text((size_t)problem->shape->ndim, problem->shape->shape, shape));
    table_cell(table, "%d", problem->shape->axis);
    table_cell(table, "%d", problem->n_results);
    table_cell(table, "%s", best ? best->variant : problem->error[0] ? problem->error : "none");
    table_cell(table, "%.4f", best ? best->ms : 0.0);
    table_cell(table, "%.1f", best ? 1e-6 * (double)problem->bytes / best->ms : 0.0);
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
    static const char *const heads[] = {"<op",  "<format",        "<dtype", "<shape",
                                        "axis", "variants",       "<best",  "ms",
                                        "GB/s", "model's choice", NULL};
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

static mx_status tune_all(const tune_options *options, mx_error *err)
{
    int n = make_problems(options, NULL), ran = 0;
    tune_problem *problems = calloc((size_t)(n ? n : 1), sizeof(*problems));
    talk t = {.device = "unknown"};
    tool_progress progress;
    double deadline = tool_now() + options->budget_s;
    if (!problems)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %d problems", n);
    make_problems(options, problems);
    progress_init(&progress, n, options->quiet);
    mx_status status = MX_OK;
    for (; ran < n && status == MX_OK && tool_now() < deadline; ran++) {
        t.problem = &problems[ran];
        status = tune_problem_run(options, &t, deadline, err);
        progress_add(&progress, 1, mx_op_name(problems[ran].op));
    }
    progress_clear(&progress);
    if (ran < n && status == MX_OK)
        fprintf(stderr,
                "mxrt: the budget ended after %d of %d problems; the same command goes on\n", ran,
                n);
    if (status == MX_OK)
        status = report(options, t.device, problems, ran, err);
    free(problems);
    return status;
}

int cmd_tune(int argc, char **argv)
{
    static const struct argp_child children[] = {{&engine_argp, 0, NULL, 10}, {0}};
    static const struct argp argp = {
        .options = tune_option_table,
        .parser = parse_tune,
        .doc =
            "Measures the kernels that apply to each operation, format, type and shape, and keeps "
            "the results in a tuning file, from which the library chooses. Each kernel's output "
            "is compared with the reference before it is timed. An interrupted run goes on where "
            "it was.",
        .children = children};
    tune_options options = {
        .axis = -1, .seconds = 0.1, .budget_s = 1e9, .limit_s = 30, .shard = 1, .n_shards = 1};
    mx_error err = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &options))
        return TOOL_EXIT_USAGE;
    mx_status status = tune_all(&options, &err);
    return status == MX_OK ? tool_finish_stdout() : tool_fail(&err);
}
