/* mxrt tune --kernel: kernels written by others, on memory made up for them. The parent; the child
 * that has the device is in mxrt_tune_kernel_child.c. */
#include "mxrt_tune_kernel.h"

#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "mxrt_watch.h"

enum {
    KEY_KERNEL = 256,
    KEY_ARGS,
    KEY_CHECK,
    KEY_SECONDS,
    KEY_LIMIT,
    KEY_FILE,
    PREPARE_S = 120 /* for what comes before the first variant */
};

static const struct argp_option option_table[] = {
    {"kernel", KEY_KERNEL, "NAME", 0, "The kernel, of a pack that mxgen compile made", 1},
    {"args", KEY_ARGS, "NAME=NUMBER[,..]", 0, "Its arguments that are no pointers", 1},
    {"check", KEY_CHECK, "FILE.json", 0,
     "Have \"check\" of the kernel's file judge each variant first; one that is wrong is left out",
     1},
    {"seconds", KEY_SECONDS, "S", 0, "Time for each variant (default 0.5)", 2},
    {"limit", KEY_LIMIT, "S", 0, "A variant that does not answer for so long is given up (30)", 2},
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
    case KEY_CHECK:
        options->check = arg;
        return 0;
    case KEY_SECONDS:
        options->seconds = tool_parse_seconds(state, "--seconds", arg);
        return 0;
    case KEY_LIMIT:
        options->limit_s = (double)tool_parse_integer(state, "--limit", arg, 1, 100000);
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

/* ---- The child's lines ---- */

typedef struct talk {
    const kernel_options *options;
    kernel_results results;
    char device[256], current[TUNE_NAME_BYTES], fatal[1024];
    int is_done, is_fresh_asked;
} talk;

int kernel_results_find(const kernel_results *results, const char *name)
{
    for (int i = 0; i < results->n; i++) {
        if (!strcmp(results->items[i].name, name))
            return i;
    }
    return -1;
}

static kernel_result *result_of(kernel_results *results, const char *name)
{
    int at = kernel_results_find(results, name);
    if (at >= 0)
        return &results->items[at];
    if (results->n == TUNE_MAX_VARIANTS)
        return NULL;
    kernel_result *made = &results->items[results->n++];
    memset(made, 0, sizeof(*made));
    snprintf(made->name, sizeof(made->name), "%s", name);
    return made;
}

static void hear_result(talk *t, const char *kind, char *rest)
{
    kernel_result *result = result_of(&t->results, strsep(&rest, " "));
    t->current[0] = 0;
    if (!result || !rest)
        return;
    if (!strcmp(kind, "F"))
        snprintf(result->note, sizeof(result->note), "%s", rest);
    else
        result->is_measured = sscanf(rest, "%u %u %lg %lg %lg", &result->grid, &result->block,
                                     &result->ms, &result->spread, &result->gb_per_s) == 5;
}

static void hear(void *user, char *line)
{
    talk *t = user;
    char *rest = line, *kind = strsep(&rest, " ");
    if (!strcmp(kind, "Z"))
        t->is_done = 1;
    else if (!strcmp(kind, "R"))
        t->is_fresh_asked = 1;
    else if (!rest)
        return;
    else if (!strcmp(kind, "D"))
        snprintf(t->device, sizeof(t->device), "%s", rest);
    else if (!strcmp(kind, "X"))
        snprintf(t->fatal, sizeof(t->fatal), "%s", rest);
    else if (!strcmp(kind, "V"))
        snprintf(t->current, sizeof(t->current), "%s", rest);
    else if (!strcmp(kind, "M") || !strcmp(kind, "F") || !strcmp(kind, "N"))
        hear_result(t, kind, rest);
}

static double silence_s(void *user)
{
    const talk *t = user;
    return t->options->limit_s + (t->current[0] ? 0 : PREPARE_S);
}

static int work(void *user, FILE *out)
{
    const talk *t = user;
    return tune_kernel_child(t->options, &t->results, out);
}

/* Runs one child; what it was at when it ended before its time is given up. */
static mx_status run_child(talk *t, mx_error *err)
{
    const tool_watch watch = {.work = work, .hear = hear, .limit_s = silence_s, .user = t};
    tool_watch_end end;
    char note[TUNE_NAME_BYTES];
    t->current[0] = 0;
    t->is_fresh_asked = 0;
    mx_status status = watch_run(&watch, &end, err);
    if (status != MX_OK || t->is_done || t->is_fresh_asked)
        return status;
    if (t->fatal[0])
        return mx_fail(err, MX_ERR_UNSUPPORTED, "%s", t->fatal);
    watch_describe(&end, t->options->limit_s, note, sizeof(note));
    kernel_result *lost = t->current[0] ? result_of(&t->results, t->current) : NULL;
    if (!lost)
        return mx_fail(err, MX_ERR_DEVICE, "kernel %s: the process that measures it %s",
                       t->options->kernel, note);
    snprintf(lost->note, sizeof(lost->note), "%s", note);
    return MX_OK;
}

/* ---- All ---- */

/* Returns how many variants were measured. */
static int report(const talk *t)
{
    static const char *const heads[] = {"<variant", "grid", "block", "ms", "+-%", "GB/s", NULL};
    tool_table *table = table_create(heads);
    int n_measured = 0;
    for (int i = 0; i < t->results.n; i++) {
        const kernel_result *r = &t->results.items[i];
        if (r->note[0])
            fprintf(stderr, "mxrt: %s is not used: %s\n", r->name, r->note);
        if (!r->is_measured)
            continue;
        n_measured++;
        table_cell(table, "%s", r->name);
        table_cell(table, "%u", r->grid);
        table_cell(table, "%u", r->block);
        table_cell(table, "%.4f", r->ms);
        table_cell(table, "%.1f", r->spread * 100);
        table_cell(table, "%.1f", r->gb_per_s);
    }
    if (n_measured > 0) {
        printf("device %s\n", t->device);
        table_print(table, stdout);
    }
    table_destroy(table);
    return n_measured;
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
    kernel_options options = {.seconds = 0.5, .limit_s = 30};
    mx_error err = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &options))
        return TOOL_EXIT_USAGE;
    talk *t = calloc(1, sizeof(*t));
    mx_status status = t ? MX_OK : mx_fail(&err, MX_ERR_NO_MEMORY, "out of memory");
    if (t)
        t->options = &options;
    while (status == MX_OK && !t->is_done)
        status = run_child(t, &err);
    if (t && !report(t) && status == MX_OK)
        status =
            mx_fail(&err, MX_ERR_UNSUPPORTED, "no variant of kernel %s could be measured%s%s",
                    options.kernel, options.args ? " with " : "", options.args ? options.args : "");
    free(t);
    return status == MX_OK ? tool_finish_stdout() : tool_fail(&err);
}
