/* The conformance suite by itself, to be carried to a machine that has the device:
 *
 *   conformance --pack kernels.mxdb --device hip:0
 *
 * Exit status 0 if all passed, 1 if not, 77 if there is no such device. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/conformance.h"

enum { SKIPPED = 77 };

enum {
    KEY_OP = 256,
    KEY_FORMAT,
    KEY_DTYPE,
    KEY_LAYOUT,
    KEY_SEED,
    KEY_QUICK,
    KEY_MOST,
    KEY_PARTIAL
};

typedef struct arguments {
    conform_options options;
    const char *section; /* part of a name; NULL: all */
    int is_partial;
} arguments;

static const struct argp_option argp_options[] = {
    {"device", 'd', "URI", 0, "The device (host, hip:0, cuda:0); default: host", 0},
    {"pack", 'p', "FILE", 0, "The kernel pack (required)", 0},
    {"data", KEY_PARTIAL + 1, "DIR", 0, "Sets of expected bytes (tests/data/cases)", 0},
    {"op", KEY_OP, "to|from|qdq[,..]", 0, "Operations; default: all", 0},
    {"format", KEY_FORMAT, "mx9|mx6|mx4[,..]", 0, "Formats; default: all", 0},
    {"dtype", KEY_DTYPE, "f32|bf16|f16[,..]", 0, "Element types; default: all", 0},
    {"layout", KEY_LAYOUT, "flat|rows|tiles|general[,..]", 0, "Variants' layouts; default: all", 0},
    {"seed", KEY_SEED, "N", 0, "Of values and of random memory; default: 1", 0},
    {"quick", KEY_QUICK, NULL, 0, "Fewer and smaller cases", 0},
    {"variants", KEY_MOST, "N", 0, "Only the N least covered variants a case; default: all", 0},
    {"section", 's', "TEXT", 0, "Only sections with this in their name", 0},
    {"partial", KEY_PARTIAL, NULL, 0, "Do not ask that every variant is reached", 0},
    {0},
};

static int parse_op(const char *name, int *out)
{
    mx_op op;
    return mx_op_parse(name, &op) ? -1 : (*out = (int)op, 0);
}

static int parse_format(const char *name, int *out)
{
    mx_format format;
    return mx_format_parse(name, &format) ? -1 : (*out = (int)format, 0);
}

static int parse_dtype(const char *name, int *out)
{
    mx_dtype dtype;
    return mx_dtype_parse(name, &dtype) ? -1 : (*out = (int)dtype, 0);
}

static int parse_layout(const char *name, int *out)
{
    mx_layout layout;
    return mx_layout_parse(name, &layout) ? -1 : (*out = (int)layout, 0);
}

static void parse_set(struct argp_state *state, const char *text, int (*parse)(const char *, int *),
                      unsigned *set)
{
    char *copy = strdup(text), *rest = copy;
    for (char *word; (word = strsep(&rest, ","));) {
        int value;
        if (parse(word, &value))
            argp_error(state, "there is no \"%s\"", word);
        else
            *set |= 1u << value;
    }
    free(copy);
}

static error_t parse_key(int key, char *text, struct argp_state *state)
{
    arguments *args = state->input;
    switch (key) {
    case 'd':
        args->options.uri = text;
        return 0;
    case 'p':
        args->options.pack = text;
        return 0;
    case KEY_PARTIAL + 1:
        args->options.data_dir = text;
        return 0;
    case 's':
        args->section = text;
        return 0;
    case KEY_OP:
        parse_set(state, text, parse_op, &args->options.ops);
        return 0;
    case KEY_FORMAT:
        parse_set(state, text, parse_format, &args->options.formats);
        return 0;
    case KEY_DTYPE:
        parse_set(state, text, parse_dtype, &args->options.dtypes);
        return 0;
    case KEY_LAYOUT:
        parse_set(state, text, parse_layout, &args->options.layouts);
        return 0;
    case KEY_SEED:
        args->options.seed = strtoull(text, NULL, 0);
        return 0;
    case KEY_MOST:
        args->options.variants_per_request = strtoul(text, NULL, 0);
        return 0;
    case KEY_QUICK:
        args->options.quick = 1;
        return 0;
    case KEY_PARTIAL:
        args->is_partial = 1;
        return 0;
    case ARGP_KEY_END:
        if (!args->options.pack)
            argp_error(state, "--pack FILE is missing");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    .options = argp_options,
    .parser = parse_key,
    .doc = "Every kernel of a pack, on a device, against the plain C reference.",
};

int main(int argc, char **argv)
{
    arguments args = {.options = {.seed = 1}};
    mx_error error = {MX_OK, ""};
    conform *run = NULL;
    if (argp_parse(&parser, argc, argv, 0, NULL, &args))
        return 1;
    mx_status status = conform_create(&args.options, &run, &error);
    if (status) {
        fprintf(stderr, "%s\n", error.message);
        return status == MX_ERR_NOT_FOUND ? SKIPPED : 1;
    }
    for (size_t i = 0; i < conform_section_count(); i++) {
        if (args.section && !strstr(conform_section_name(i), args.section))
            continue;
        size_t before = conform_get_totals(run).passed;
        clock_t start = clock();
        conform_run_section(run, i);
        printf("%s: %zu passed, %.1f s of processor time\n", conform_section_name(i),
               conform_get_totals(run).passed - before, (double)(clock() - start) / CLOCKS_PER_SEC);
        fflush(stdout);
    }
    if (!args.section && !args.is_partial)
        conform_check_coverage(run);
    conform_totals totals = conform_get_totals(run);
    printf("%zu variants, %zu not reached, seed %llu\n", totals.variants, totals.unreached,
           (unsigned long long)args.options.seed);
    printf("%zu passed, %zu failed, %zu skipped\n", totals.passed, totals.failed, totals.skipped);
    conform_destroy(run);
    return totals.failed ? 1 : 0;
}
