/* mxgen show */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mxgen/error.h>

#include "cli.h"
#include "gen/mlir.h"

typedef enum show_stage {
    SHOW_LLVM = 0,
    SHOW_MLIR,
    SHOW_ASM,
    SHOW_OBJECT,
    SHOW_INFO,
    SHOW_COUNT
} show_stage;

static const char *const show_stage_names[SHOW_COUNT] = {"llvm", "mlir", "asm", "object", "info"};

typedef struct show_args {
    const char *kernel, *target, *stage, *profile, *pack, *output;
    const char *params[MXGEN_MAX_PARAMS + 1]; /* one more than allowed, so that it is noticed */
    size_t n_params;
    int as_json;
} show_args;

enum { SHOW_PROFILE = 256, SHOW_PACK, SHOW_JSON };

static const struct argp_option show_options[] = {
    {"target", 't', "NAME", 0, "The target (required without --pack)", 0},
    {"param", 'p', "NAME=VALUE", 0, "Replace a parameter of the variant; may be repeated", 0},
    {"profile", SHOW_PROFILE, "packed|demoted-255", 0, "How qdq rounds; default: packed", 0},
    {"stage", 's', "llvm|mlir|asm|object|info", 0, "What to show; default: info", 0},
    {"pack", SHOW_PACK, "FILE", 0, "Take the kernel from a pack: info and object only", 0},
    {"json", SHOW_JSON, NULL, 0, "Print the info as JSON", 0},
    {"output", 'o', "FILE", 0, "Write to FILE instead of standard output", 0},
    {0},
};

static void show_check(const show_args *args, struct argp_state *state)
{
    if (!args->target && !args->pack)
        argp_error(state, "--target NAME is missing");
    if (args->pack && args->n_params)
        argp_error(state, "--param does not go with --pack: its kernels are made");
}

static error_t show_parse(int key, char *arg, struct argp_state *state)
{
    show_args *args = state->input;
    switch (key) {
    case 't':
        args->target = arg;
        return 0;
    case 'p':
        if (args->n_params <= MXGEN_MAX_PARAMS)
            args->params[args->n_params++] = arg;
        return 0;
    case SHOW_PROFILE:
        args->profile = arg;
        return 0;
    case 's':
        args->stage = arg;
        return 0;
    case SHOW_PACK:
        args->pack = arg;
        return 0;
    case SHOW_JSON:
        args->as_json = 1;
        return 0;
    case 'o':
        args->output = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (args->kernel)
            argp_error(state, "more than one KERNEL");
        args->kernel = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "KERNEL is missing");
        return 0;
    case ARGP_KEY_END:
        show_check(args, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void show_print_value(FILE *stream, const json_t *value)
{
    char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);
    fputs(json_is_string(value) ? json_string_value(value) : text ? text : "", stream);
    free(text);
}

/* "  name  value" for each member. */
static void show_print_members(FILE *stream, const char *title, json_t *object)
{
    const char *name;
    json_t *value;
    fprintf(stream, "%s\n", title);
    json_object_foreach(object, name, value)
    {
        fprintf(stream, "  %-20s ", name);
        show_print_value(stream, value);
        fputc('\n', stream);
    }
}

static size_t show_arg_bytes(const char *kind)
{
    return strcmp(kind, "i32") && strcmp(kind, "f32") ? 8 : 4;
}

/* Arguments lie at their natural alignment, in order. */
static void show_print_args(FILE *stream, const json_t *args)
{
    size_t offset = 0, index;
    json_t *arg;
    fprintf(stream, "arguments (offset, kind, name, value)\n");
    json_array_foreach(args, index, arg)
    {
        const char *kind = json_string_value(json_object_get(arg, "kind"));
        const char *name = json_string_value(json_object_get(arg, "name"));
        const json_t *buffer = json_object_get(arg, "buffer");
        size_t bytes = show_arg_bytes(kind ? kind : "");
        offset = (offset + bytes - 1) / bytes * bytes;
        fprintf(stream, "  %4zu  %-7s  %-20s ", offset, kind ? kind : "?", name ? name : "?");
        if (buffer)
            fputs("buffer ", stream);
        show_print_value(stream, buffer ? buffer : json_object_get(arg, "value"));
        fputc('\n', stream);
        offset += bytes;
    }
    fprintf(stream, "  %4zu  end\n", offset);
}

static void show_print_launch(FILE *stream, const json_t *launch)
{
    static const char *const names[] = {"grid", "block"};
    fprintf(stream, "launch\n");
    for (size_t i = 0; i < 2; i++) {
        size_t axis;
        json_t *value;
        json_array_foreach(json_object_get(launch, names[i]), axis, value)
        {
            fprintf(stream, "  %-5s %c  ", names[i], "xyz"[axis < 3 ? axis : 2]);
            show_print_value(stream, value);
            fputc('\n', stream);
        }
    }
    fprintf(stream, "  lds_bytes  ");
    show_print_value(stream, json_object_get(launch, "lds_bytes"));
    fputc('\n', stream);
}

static void show_print_rules(FILE *stream, const json_t *rules)
{
    size_t index;
    json_t *rule;
    fprintf(stream, "applies where\n");
    json_array_foreach(rules, index, rule)
    {
        fprintf(stream, "  %s: ", json_string_value(json_object_get(rule, "rule")));
        show_print_value(stream, json_object_get(rule, "when"));
        fputc('\n', stream);
    }
}

static void show_print_text(FILE *stream, const cli_variant *variant)
{
    char bytes[32];
    cli_format_bytes((double)variant->object_bytes, bytes, sizeof(bytes));
    fprintf(stream, "kernel  %s\ntarget  %s\nsymbol  %s\nobject  %s, %s\n", variant->name,
            variant->target, variant->symbol, variant->object_kind, bytes);
    show_print_members(stream, "parameters", variant->params);
    show_print_members(stream, "resources", variant->info);
    show_print_args(stream, json_object_get(variant->launch, "args"));
    show_print_launch(stream, variant->launch);
    show_print_rules(stream, variant->rules);
}

static void show_print_json(FILE *stream, const cli_variant *variant)
{
    json_t *root = json_pack("{s:s, s:s, s:s, s:O, s:O, s:O, s:O, s:{s:s, s:I}}", "kernel",
                             variant->name, "target", variant->target, "symbol", variant->symbol,
                             "params", variant->params, "info", variant->info, "launch",
                             variant->launch, "rules", variant->rules, "object", "kind",
                             variant->object_kind, "bytes", (json_int_t)variant->object_bytes);
    json_dumpf(root, stream, JSON_INDENT(2));
    fputc('\n', stream);
    json_decref(root);
}

static mx_status show_info(const show_args *args, const cli_variant *variant, mx_error *err)
{
    char *text = NULL;
    size_t size_bytes = 0;
    FILE *stream = open_memstream(&text, &size_bytes);
    if (!stream)
        return mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
    if (args->as_json)
        show_print_json(stream, variant);
    else
        show_print_text(stream, variant);
    mx_status status = fclose(stream) ? mx_fail(err, MX_ERR_NO_MEMORY, "out of memory")
                                      : cli_write(args->output, text, size_bytes, err);
    free(text);
    return status;
}

static mx_status show_object(const show_args *args, const void *data, size_t size_bytes,
                             mx_error *err)
{
    if (!args->output && isatty(STDOUT_FILENO))
        return mx_fail(err, MX_ERR_INVALID, "an object is not for a terminal: give -o FILE");
    return cli_write(args->output, data, size_bytes, err);
}

static mx_status show_variant(const show_args *args, show_stage stage, const cli_variant *variant,
                              mx_error *err)
{
    if (stage == SHOW_INFO)
        return show_info(args, variant, err);
    return show_object(args, variant->object, variant->object_bytes, err);
}

static mx_status show_from_pack(const show_args *args, show_stage stage, mx_error *err)
{
    if (stage != SHOW_OBJECT && stage != SHOW_INFO)
        return mx_fail(err, MX_ERR_UNSUPPORTED,
                       "a pack has no %s of its kernels: use --stage info or object",
                       show_stage_names[stage]);
    cli_variant variant = {0};
    mx_status status = cli_variant_from_pack(args->pack, args->target, args->kernel, &variant, err);
    if (status == MX_OK)
        status = show_variant(args, stage, &variant, err);
    cli_variant_finish(&variant);
    return status;
}

static mx_status show_text(const show_args *args, const mxgen_spec *spec, mxgen_stage stage,
                           mx_error *err)
{
    mxgen_output output = {0};
    mx_status status = mxgen_compile(spec, 1, stage, NULL, &output, err);
    if (status == MX_OK)
        status = cli_write(args->output, output.data, output.size_bytes, err);
    mxgen_output_finish(&output);
    return status;
}

/* In the LLVM dialect. */
static mx_status show_mlir(const show_args *args, const mxgen_spec *spec, mx_error *err)
{
    mxgen_output output = {0};
    char *text = NULL;
    size_t text_bytes = 0;
    mx_status status = mxgen_compile(spec, 1, MXGEN_STAGE_LLVM, NULL, &output, err);
    if (status == MX_OK)
        status =
            mxgen_mlir_print(spec->name, output.data, output.size_bytes, &text, &text_bytes, err);
    if (status == MX_OK)
        status = cli_write(args->output, text, text_bytes, err);
    free(text);
    mxgen_output_finish(&output);
    return status;
}

static mx_status show_generated(const show_args *args, show_stage stage, mx_error *err)
{
    const mxgen_target *target = NULL;
    mx_profile profile = MX_PROFILE_PACKED;
    cli_params params = {0};
    cli_variant variant = {0};
    mxgen_spec spec;
    mx_status status = cli_parse_target(args->target, &target, err);
    if (status == MX_OK && args->profile)
        status = cli_parse_profile(args->profile, &profile, err);
    for (size_t i = 0; status == MX_OK && i < args->n_params; i++)
        status = cli_params_add(&params, args->params[i], err);
    if (status == MX_OK)
        status = cli_spec_by_name(target, args->kernel, profile, &params, &spec, err);
    if (status == MX_OK && stage == SHOW_LLVM)
        status = show_text(args, &spec, MXGEN_STAGE_LLVM, err);
    else if (status == MX_OK && stage == SHOW_MLIR)
        status = show_mlir(args, &spec, err);
    else if (status == MX_OK && stage == SHOW_ASM)
        status = show_text(args, &spec, MXGEN_STAGE_ASM, err);
    else if (status == MX_OK) {
        status = cli_variant_from_spec(&spec, &variant, err);
        if (status == MX_OK)
            status = show_variant(args, stage, &variant, err);
    }
    cli_variant_finish(&variant);
    cli_params_finish(&params);
    return status;
}

mx_status cli_show(int argc, char **argv, mx_error *err)
{
    static const struct argp argp = {
        .options = show_options,
        .parser = show_parse,
        .args_doc = "KERNEL",
        .doc = "Shows the code of a kernel, or what it needs and how it is launched. KERNEL is a "
               "name as `mxgen list` prints it, or OP_FORMAT_DTYPE or OP_FORMAT_DTYPE_LAYOUT for "
               "the variant ranked first.",
    };
    show_args args = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &args))
        return mx_fail(err, MX_ERR_INVALID, "the arguments cannot be read");

    int stage = SHOW_INFO;
    if (args.stage) {
        for (stage = 0; stage < SHOW_COUNT && strcmp(args.stage, show_stage_names[stage]); stage++)
            ;
    }
    if (stage == SHOW_COUNT)
        return mx_fail(err, MX_ERR_INVALID,
                       "unknown stage \"%s\": use one of llvm, mlir, asm, object, info",
                       args.stage);
    return args.pack ? show_from_pack(&args, (show_stage)stage, err)
                     : show_generated(&args, (show_stage)stage, err);
}
