/* mxgen list */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>
#include <mxgen/pack.h>

#include "cli.h"

typedef enum list_form { LIST_TABLE = 0, LIST_JSON, LIST_SUMMARY } list_form;

typedef struct list_args {
    const char *path, *target;
    list_form form;
} list_args;

static const struct argp_option list_options[] = {
    {"json", 'j', NULL, 0, "Print JSON: everything the pack tells of each kernel", 0},
    {"summary", 's', NULL, 0, "Print one line a target", 0},
    {"target", 't', "NAME", 0, "Only kernels for this target", 0},
    {0},
};

static error_t list_parse(int key, char *arg, struct argp_state *state)
{
    list_args *args = state->input;
    switch (key) {
    case 'j':
        args->form = LIST_JSON;
        return 0;
    case 's':
        args->form = LIST_SUMMARY;
        return 0;
    case 't':
        args->target = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (args->path)
            argp_error(state, "more than one FILE");
        args->path = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "FILE is missing");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* A figure of the info column; -1 where the target has no such figure. */
static int64_t list_figure(const json_t *info, const char *name)
{
    const json_t *value = json_object_get(info, name);
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

static void list_print_figure(int width, int64_t figure)
{
    if (figure < 0)
        printf(" %*s", width, "-");
    else
        printf(" %*" PRId64, width, figure);
}

static mx_status list_print_row(const mxrt_variant_info *variant, void *state, mx_error *err)
{
    static const char *const figures[] = {"sgprs", "lds_bytes", "scratch_bytes", "spills",
                                          "occupancy"};
    json_t *info = json_loads(variant->info_json, 0, NULL);
    (void)state;
    if (!info)
        return mx_fail(err, MX_ERR_CORRUPT, "the info of %s is not JSON", variant->name);
    printf("%-11s %4" PRId64, variant->target, variant->rank);
    /* NVIDIA's have one kind of register. */
    int64_t registers = list_figure(info, "registers");
    list_print_figure(7, registers >= 0 ? registers : list_figure(info, "vgprs"));
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++)
        list_print_figure(7, list_figure(info, figures[i]));
    list_print_figure(7, list_figure(info, "code_bytes"));
    printf("  %s\n", variant->name);
    json_decref(info);
    return MX_OK;
}

static mx_status list_add_json(const mxrt_variant_info *variant, void *state, mx_error *err)
{
    json_t *list = state;
    json_t *params = json_loads(variant->params_json, 0, NULL);
    json_t *rules = json_loads(variant->rules_json, 0, NULL);
    json_t *launch = json_loads(variant->launch_json, 0, NULL);
    json_t *info = json_loads(variant->info_json, 0, NULL);
    if (!params || !rules || !launch || !info) {
        json_decref(params);
        json_decref(rules);
        json_decref(launch);
        json_decref(info);
        return mx_fail(err, MX_ERR_CORRUPT, "a column of %s is not JSON", variant->name);
    }
    json_t *row = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:{s:I, s:s, s:I}}",
        "kernel", variant->name, "target", variant->target, "op", variant->op, "format",
        variant->format, "dtype", variant->dtype, "profile", variant->profile, "layout",
        variant->layout, "symbol", variant->symbol, "rank", (json_int_t)variant->rank, "params",
        params, "rules", rules, "launch", launch, "info", info, "object", "id",
        (json_int_t)variant->object_id, "kind", variant->object_kind, "bytes",
        (json_int_t)variant->object_bytes);
    if (!row || json_array_append_new(list, row))
        return mx_fail(err, MX_ERR_CORRUPT, "the row of %s is not UTF-8 text", variant->name);
    return MX_OK;
}

#define LIST_MAX_TARGETS 64

typedef struct list_target {
    const char *name;
    int64_t variants, objects, object_bytes, last_object, spilling;
} list_target;

typedef struct list_summary {
    list_target targets[LIST_MAX_TARGETS];
    size_t n_targets;
} list_summary;

static mx_status list_count(const mxrt_variant_info *variant, void *state, mx_error *err)
{
    list_summary *summary = state;
    size_t at = 0;
    while (at < summary->n_targets && strcmp(summary->targets[at].name, variant->target))
        at++;
    if (at == LIST_MAX_TARGETS)
        return mx_fail(err, MX_ERR_UNSUPPORTED, "the pack has more than %d targets",
                       LIST_MAX_TARGETS);
    list_target *target = &summary->targets[at];
    if (at == summary->n_targets) {
        *target = (list_target){.name = variant->target, .last_object = -1};
        summary->n_targets++;
    }
    json_t *info = json_loads(variant->info_json, 0, NULL);
    target->variants++;
    target->spilling += list_figure(info, "spills") > 0 || list_figure(info, "scratch_bytes") > 0;
    json_decref(info);
    /* The variants of an object follow each other. */
    if (target->last_object != variant->object_id) {
        target->last_object = variant->object_id;
        target->objects++;
        target->object_bytes += variant->object_bytes;
    }
    return MX_OK;
}

typedef mx_status (*list_visit_fn)(const mxrt_variant_info *variant, void *state, mx_error *err);

static mx_status list_visit(const mxrt_pack *pack, const char *target, list_visit_fn visit,
                            void *state, mx_error *err)
{
    mx_status status = MX_OK;
    size_t count = mxrt_pack_variant_count(pack);
    for (size_t i = 0; status == MX_OK && i < count; i++) {
        mxrt_variant_info variant;
        status = mxrt_pack_variant(pack, i, &variant, err);
        if (status == MX_OK && (!target || !strcmp(target, variant.target)))
            status = visit(&variant, state, err);
    }
    count = mxrt_pack_kernel_count(pack);
    for (size_t i = 0; status == MX_OK && i < count; i++) {
        mxrt_pack_kernel_info kernel;
        status = mxrt_pack_kernel_at(pack, i, &kernel, err);
        mxrt_variant_info variant = cli_kernel_as_variant(&kernel);
        if (status == MX_OK && (!target || !strcmp(target, variant.target)))
            status = visit(&variant, state, err);
    }
    return status;
}

static const char *list_meta(const mxrt_pack *pack, const char *key)
{
    const char *value = mxrt_pack_meta(pack, key);
    return value ? value : "";
}

static mx_status list_json(const mxrt_pack *pack, const char *target, mx_error *err)
{
    json_t *list = json_array();
    mx_status status = list_visit(pack, target, list_add_json, list, err);
    if (status != MX_OK) {
        json_decref(list);
        return status;
    }
    json_t *root =
        json_pack("{s:s, s:s, s:s, s:o}", "generator", list_meta(pack, MXPACK_META_GENERATOR),
                  "generator_hash", list_meta(pack, MXPACK_META_GENERATOR_HASH), "compiler",
                  list_meta(pack, MXPACK_META_COMPILER), "variants", list);
    if (!root)
        return mx_fail(err, MX_ERR_CORRUPT, "the pack's meta values are not UTF-8 text");
    return cli_print_json(root, err);
}

static mx_status list_table(const mxrt_pack *pack, const char *target, mx_error *err)
{
    printf("%-11s %4s %7s %7s %7s %7s %7s %7s %7s  %s\n", "target", "rank", "vgprs", "sgprs", "lds",
           "scratch", "spills", "waves", "code", "kernel");
    return list_visit(pack, target, list_print_row, NULL, err);
}

static mx_status list_print_summary(const mxrt_pack *pack, const char *target, mx_error *err)
{
    list_summary summary = {0};
    mx_status status = list_visit(pack, target, list_count, &summary, err);
    if (status != MX_OK)
        return status;
    printf("%s, %s\n", list_meta(pack, MXPACK_META_GENERATOR),
           list_meta(pack, MXPACK_META_COMPILER));
    printf("%-11s %8s %8s %12s %16s\n", "target", "variants", "objects", "code", "with spills");
    for (size_t i = 0; i < summary.n_targets; i++) {
        const list_target *row = &summary.targets[i];
        char code[32];
        cli_format_bytes((double)row->object_bytes, code, sizeof(code));
        printf("%-11s %8" PRId64 " %8" PRId64 " %12s %16" PRId64 "\n", row->name, row->variants,
               row->objects, code, row->spilling);
    }
    return MX_OK;
}

mx_status cli_list(int argc, char **argv, mx_error *err)
{
    static const struct argp argp = {
        .options = list_options,
        .parser = list_parse,
        .args_doc = "FILE",
        .doc = "Lists the kernels in a pack, with the resources they take. A dash is a figure that "
               "the target does not have.",
    };
    list_args args = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &args))
        return mx_fail(err, MX_ERR_INVALID, "the arguments cannot be read");

    mxrt_pack *pack = NULL;
    mx_status status = mxrt_pack_open(args.path, &pack, err);
    if (status != MX_OK)
        return status;
    if (args.form == LIST_JSON)
        status = list_json(pack, args.target, err);
    else if (args.form == LIST_SUMMARY)
        status = list_print_summary(pack, args.target, err);
    else
        status = list_table(pack, args.target, err);
    mxrt_pack_close(pack);
    return status;
}
