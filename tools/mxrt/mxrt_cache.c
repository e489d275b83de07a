/* mxrt cache: what tuning files hold, and their upkeep. */
#include "mxrt_tool.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include <mxgen/error.h>
#include <mxgen/tune.h>

enum { MAX_FILES = 64, PATH_BYTES = 4096 };

typedef struct cache_options {
    const char *action;
    const char *files[MAX_FILES];
    int n_files;
    const char *output;
    mxrt_tune_filter filter;
    int repair, has_filter;
    char path[PATH_BYTES]; /* the default file */
} cache_options;

/* ---- Options ---- */

enum { KEY_OP = 256, KEY_DTYPE, KEY_CHIP, KEY_BUCKET, KEY_VARIANT, KEY_OLDER, KEY_REPAIR };

static error_t parse_filter(int key, char *arg, struct argp_state *state, mxrt_tune_filter *filter)
{
    switch (key) {
    case KEY_OP:
        filter->op = arg;
        return 0;
    case 'f':
        filter->format = arg;
        return 0;
    case KEY_DTYPE:
        filter->dtype = arg;
        return 0;
    case KEY_CHIP:
        filter->device = arg;
        return 0;
    case KEY_BUCKET:
        filter->bucket = arg;
        return 0;
    case KEY_VARIANT:
        filter->variant = arg;
        return 0;
    case KEY_OLDER:
        filter->older_than_s = (int64_t)time(NULL) -
                               86400 * tool_parse_integer(state, "--older-than", arg, 0, 1000000);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_cache(int key, char *arg, struct argp_state *state)
{
    cache_options *options = state->input;
    switch (key) {
    case 'o':
        options->output = arg;
        return 0;
    case KEY_REPAIR:
        options->repair = 1;
        return 0;
    case ARGP_KEY_ARG:
        if (!options->action)
            options->action = arg;
        else if (options->n_files == MAX_FILES)
            argp_error(state, "more than %d files", MAX_FILES);
        else
            options->files[options->n_files++] = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which action? list, show, merge, export, import, prune or verify");
        return 0;
    default:
        if (parse_filter(key, arg, state, &options->filter) == 0) {
            options->has_filter = 1;
            return 0;
        }
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option cache_option_table[] = {
    {"output", 'o', "FILE", 0, "merge: the file to merge into; export: the JSON file", 1},
    {"op", KEY_OP, "OP", 0, "Only rows of this operation", 2},
    {"format", 'f', "FORMAT", 0, "Only rows of this format", 2},
    {"dtype", KEY_DTYPE, "TYPE", 0, "Only rows of this type", 2},
    {"chip", KEY_CHIP, "CHIP", 0, "Only rows of this device, as list prints it", 2},
    {"bucket", KEY_BUCKET, "BUCKET", 0, "Only rows of this bucket of shapes", 2},
    {"variant", KEY_VARIANT, "NAME", 0, "Only rows of this variant", 2},
    {"older-than", KEY_OLDER, "DAYS", 0, "Only rows measured before", 2},
    {"repair", KEY_REPAIR, NULL, 0, "verify: remove the damaged rows", 3},
    {0}};

/* ---- Rows as JSON ---- */

typedef struct json_field {
    const char *name;
    size_t offset, bytes; /* bytes 0: an int64_t */
} json_field;

#define TEXT(member)                                                                               \
    {                                                                                              \
#member, offsetof(mxrt_tune_row, member), sizeof(((mxrt_tune_row *)0)->member)             \
    }
#define NUMBER(member)                                                                             \
    {                                                                                              \
#member, offsetof(mxrt_tune_row, member), 0                                                \
    }
static const json_field json_fields[] = {
    TEXT(op),      TEXT(format),    TEXT(dtype),    TEXT(profile),    TEXT(bucket), TEXT(device),
    TEXT(driver),  TEXT(variant),   TEXT(code),     NUMBER(protocol), TEXT(layout), TEXT(shape),
    NUMBER(bytes), NUMBER(samples), NUMBER(time_s), TEXT(note),
};
enum { JSON_FIELDS = sizeof(json_fields) / sizeof(json_fields[0]) };

static json_t *row_to_json(const mxrt_tune_row *row)
{
    json_t *json = json_object();
    for (int i = 0; i < JSON_FIELDS; i++) {
        const char *at = (const char *)row + json_fields[i].offset;
        int64_t number;
        memcpy(&number, at, sizeof(number));
        json_object_set_new(json, json_fields[i].name,
                            json_fields[i].bytes ? json_string(at)
                                                 : json_integer((json_int_t)number));
    }
    json_object_set_new(json, "ms", json_real(row->ms));
    json_object_set_new(json, "spread", json_real(row->spread));
    return json;
}

static mx_status row_from_json(const json_t *json, mxrt_tune_row *row, mx_error *err)
{
    memset(row, 0, sizeof(*row));
    for (int i = 0; i < JSON_FIELDS; i++) {
        const json_field *field = &json_fields[i];
        const json_t *value = json_object_get(json, field->name);
        char *at = (char *)row + field->offset;
        if (field->bytes ? !json_is_string(value) || json_string_length(value) >= field->bytes
                         : !json_is_integer(value))
            return mx_fail(err, MX_ERR_CORRUPT, "a row's \"%s\" is missing, or not what it must be",
                           field->name);
        if (field->bytes) {
            snprintf(at, field->bytes, "%s", json_string_value(value));
        } else {
            int64_t number = json_integer_value(value);
            memcpy(at, &number, sizeof(number));
        }
    }
    row->ms = json_number_value(json_object_get(json, "ms"));
    row->spread = json_number_value(json_object_get(json, "spread"));
    return MX_OK;
}

/* ---- Actions ---- */

typedef struct walk {
    tool_table *table;
    FILE *out;
    mxrt_tune_file *to;
    int64_t n, outcomes[3], refused, stale;
} walk;

static mx_status list_row(void *user, const mxrt_tune_row *row, mx_error *err)
{
    walk *state = user;
    (void)err;
    table_cell(state->table, "%s", row->device);
    table_cell(state->table, "%s", row->op);
    table_cell(state->table, "%s", row->format);
    table_cell(state->table, "%s", row->dtype);
    table_cell(state->table, "%s", row->bucket);
    table_cell(state->table, "%s", row->variant);
    table_cell(state->table, "%.4f", row->ms);
    table_cell(state->table, "%.1f", row->ms > 0 ? 1e-6 * (double)row->bytes / row->ms : 0.0);
    table_cell(state->table, "%" PRId64, row->samples);
    table_cell(state->table, "%s", row->note);
    state->n++;
    return MX_OK;
}

static mx_status show_row(void *user, const mxrt_tune_row *row, mx_error *err)
{
    walk *state = user;
    json_t *json = row_to_json(row);
    int failed = json_dumpf(json, state->out, JSON_COMPACT | JSON_REAL_PRECISION(9)) ||
                 fputc('\n', state->out) == EOF;
    json_decref(json);
    state->n++;
    return failed ? mx_fail(err, MX_ERR_IO, "a row could not be written") : MX_OK;
}

typedef struct later {
    const mxrt_tune_row *row;
    int is_there;
} later;

static mx_status look_later(void *user, const mxrt_tune_row *there, mx_error *err)
{
    later *state = user;
    (void)err;
    state->is_there |= strcmp(there->code, state->row->code) && there->time_s > state->row->time_s;
    return MX_OK;
}

/* Of a protocol that is not used any more, or of code that the variant had before: the file has a
 * later measurement of other code. */
static mx_status is_stale(walk *state, const mxrt_tune_row *row, int *stale, mx_error *err)
{
    const mxrt_tune_filter same = {.op = row->op,
                                   .format = row->format,
                                   .dtype = row->dtype,
                                   .profile = row->profile,
                                   .device = row->device,
                                   .driver = row->driver,
                                   .bucket = row->bucket,
                                   .variant = row->variant,
                                   .protocol = row->protocol};
    later found = {.row = row};
    *stale = row->protocol < MXTUNE_PROTOCOL || row->protocol > MXTUNE_PROTOCOL_COUNTS;
    if (*stale)
        return MX_OK;
    mx_status status = mxrt_tune_each(state->to, &same, look_later, &found, NULL, err);
    *stale = found.is_there;
    return status;
}

static mx_status merge_row(void *user, const mxrt_tune_row *row, mx_error *err)
{
    walk *state = user;
    mxrt_tune_outcome outcome;
    mx_error reason = {MX_OK, ""};
    int stale = 0;
    state->n++;
    mx_status status = is_stale(state, row, &stale, err);
    if (status != MX_OK || stale)
        return state->stale += stale, status;
    status = mxrt_tune_put(state->to, row, 0, &outcome, &reason);
    if (status == MX_ERR_INVALID)
        return state->refused++, MX_OK;
    if (status != MX_OK)
        return mx_fail(err, status, "%s", reason.message);
    state->outcomes[outcome]++;
    return MX_OK;
}

static mx_status each_of(const char *path, const mxrt_tune_filter *filter, mxrt_tune_row_fn fn,
                         walk *state, int64_t *n_damaged, mx_error *err)
{
    mxrt_tune_file *file = NULL;
    mx_status status = mxrt_tune_open(path, 0, &file, err);
    if (status == MX_OK)
        status = mxrt_tune_each(file, filter, fn, state, n_damaged, err);
    mxrt_tune_close(file);
    return status;
}

static mx_status act_list(const cache_options *options, mx_error *err)
{
    static const char *const heads[] = {"<device", "<op",      "<format", "<dtype",
                                        "<bucket", "<variant", "ms",      "GB/s",
                                        "samples", "<note",    NULL};
    walk state = {.table = table_create(heads)};
    mx_status status = each_of(options->files[0], &options->filter, list_row, &state, NULL, err);
    if (status == MX_OK && state.n)
        table_print(state.table, stdout);
    if (status == MX_OK)
        printf("%" PRId64 " measurements in %s\n", state.n, options->files[0]);
    table_destroy(state.table);
    return status;
}

static mx_status act_show(const cache_options *options, mx_error *err)
{
    walk state = {.out = stdout};
    if (!options->output)
        return each_of(options->files[0], &options->filter, show_row, &state, NULL, err);
    if (!(state.out = fopen(options->output, "w")))
        return mx_fail(err, MX_ERR_IO, "cannot write %.500s", options->output);
    mx_status status = each_of(options->files[0], &options->filter, show_row, &state, NULL, err);
    if (fclose(state.out) && status == MX_OK)
        status = mx_fail(err, MX_ERR_IO, "cannot write %.500s", options->output);
    return status;
}

static void print_merged(const walk *state, int64_t damaged)
{
    printf("%" PRId64 " rows: %" PRId64 " added, %" PRId64 " replaced, %" PRId64 " kept, %" PRId64
           " stale, %" PRId64 " refused\n",
           state->n + damaged, state->outcomes[MXRT_TUNE_ADDED],
           state->outcomes[MXRT_TUNE_REPLACED], state->outcomes[MXRT_TUNE_KEPT], state->stale,
           state->refused + damaged);
}

static mx_status act_merge(const cache_options *options, mx_error *err)
{
    walk state = {0};
    int64_t damaged = 0;
    if (!options->output)
        return mx_fail(err, MX_ERR_INVALID, "merge needs -o FILE, the file to merge into");
    mx_status status = mxrt_tune_open(options->output, 1, &state.to, err);
    for (int i = 0; i < options->n_files && status == MX_OK; i++) {
        int64_t n = 0;
        status = each_of(options->files[i], &options->filter, merge_row, &state, &n, err);
        damaged += n;
    }
    if (status == MX_OK)
        print_merged(&state, damaged);
    mxrt_tune_close(state.to);
    return status;
}

/* A JSON line a row, as show and export write them. */
static mx_status import_lines(FILE *in, walk *state, mx_error *err)
{
    json_error_t why;
    mx_status status = MX_OK;
    char *line = NULL;
    size_t capacity = 0;
    while (status == MX_OK && getline(&line, &capacity, in) > 0) {
        mxrt_tune_row row;
        mx_error reason;
        json_t *json = json_loads(line, JSON_REJECT_DUPLICATES, &why);
        if (row_from_json(json, &row, &reason) == MX_OK)
            status = merge_row(state, &row, err);
        else
            state->n++, state->refused++;
        json_decref(json);
    }
    free(line);
    return status;
}

static mx_status act_import(const cache_options *options, mx_error *err)
{
    walk state = {0};
    const char *to = options->output ? options->output : options->path;
    mx_status status = mxrt_tune_open(to, 1, &state.to, err);
    for (int i = 0; i < options->n_files && status == MX_OK; i++) {
        FILE *in = fopen(options->files[i], "r");
        if (!in)
            status = mx_fail(err, MX_ERR_NOT_FOUND, "cannot read %.500s", options->files[i]);
        else
            status = import_lines(in, &state, err);
        if (in)
            fclose(in);
    }
    if (status == MX_OK)
        print_merged(&state, 0);
    mxrt_tune_close(state.to);
    return status;
}

static mx_status act_prune(const cache_options *options, mx_error *err)
{
    mxrt_tune_file *file = NULL;
    int64_t n = 0;
    if (!options->has_filter)
        return mx_fail(err, MX_ERR_INVALID,
                       "prune removes the rows that options choose, and none is given: say which, "
                       "such as --older-than 30");
    mx_status status = mxrt_tune_open(options->files[0], 1, &file, err);
    if (status == MX_OK)
        status = mxrt_tune_remove(file, &options->filter, 0, &n, err);
    if (status == MX_OK)
        printf("%" PRId64 " rows removed\n", n);
    mxrt_tune_close(file);
    return status;
}

static mx_status count_row(void *user, const mxrt_tune_row *row, mx_error *err)
{
    (void)row;
    (void)err;
    ((walk *)user)->n++;
    return MX_OK;
}

static mx_status act_verify(const cache_options *options, mx_error *err)
{
    mxrt_tune_file *file = NULL;
    walk state = {0};
    int64_t damaged = 0, removed = 0;
    mx_status status = mxrt_tune_open(options->files[0], options->repair, &file, err);
    if (status == MX_OK)
        status = mxrt_tune_each(file, NULL, count_row, &state, &damaged, err);
    if (status == MX_OK && options->repair)
        status = mxrt_tune_remove(file, NULL, 1, &removed, err);
    mxrt_tune_close(file);
    if (status != MX_OK)
        return status;
    printf("%" PRId64 " rows hold, %" PRId64 " are damaged, %" PRId64 " removed\n", state.n,
           damaged, removed);
    if (damaged > removed)
        return mx_fail(err, MX_ERR_CORRUPT, "%.500s has damaged rows; --repair removes them",
                       options->files[0]);
    return MX_OK;
}

static const struct {
    const char *name;
    mx_status (*run)(const cache_options *options, mx_error *err);
    int takes_default; /* works on the default file if none is named */
} actions[] = {{"list", act_list, 1},    {"show", act_show, 1},     {"export", act_show, 1},
               {"merge", act_merge, 0},  {"import", act_import, 0}, {"prune", act_prune, 1},
               {"verify", act_verify, 1}};

static mx_status run_action(cache_options *options, mx_error *err)
{
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
        if (strcmp(actions[i].name, options->action))
            continue;
        mx_status status = mxrt_tune_default_path(options->path, sizeof(options->path), err);
        int needs_default = (actions[i].takes_default && !options->n_files) ||
                            (actions[i].run == act_import && !options->output);
        if (status != MX_OK && needs_default)
            return status;
        if (!actions[i].takes_default && !options->n_files)
            return mx_fail(err, MX_ERR_INVALID, "%s needs files", options->action);
        if (!options->n_files)
            options->files[options->n_files++] = options->path;
        return actions[i].run(options, err);
    }
    return mx_fail(err, MX_ERR_INVALID,
                   "action \"%.100s\" is unknown; there are list, show, merge, export, import, "
                   "prune and verify",
                   options->action);
}

int cmd_cache(int argc, char **argv)
{
    static const struct argp argp = {
        .options = cache_option_table,
        .parser = parse_cache,
        .args_doc = "list|show|export|prune|verify [FILE]\nmerge FILE... -o FILE\nimport JSON...",
        .doc = "Works on tuning files; without FILE on the user's (MXRT_TUNE_FILE, else "
               "mxgen/tune.mxtune in the cache folder)."};
    cache_options options = {0};
    mx_error err = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &options))
        return TOOL_EXIT_USAGE;
    mx_status status = run_action(&options, &err);
    return status == MX_OK ? tool_finish_stdout() : tool_fail(&err);
}
