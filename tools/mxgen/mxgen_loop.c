/* mxgen loop: how busy a kernel's main loop keeps the matrix unit, by a model */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "cli.h"
#include "loop_model.h"

typedef struct loop_args {
    const char *kernel, *target, *pack;
    const char *params[MXGEN_MAX_PARAMS + 1];
    size_t n_params;
    const char *code; /* file for the instructions */
    int as_json;
} loop_args;

enum { LOOP_PACK = 256, LOOP_JSON, LOOP_CODE, LANES = 64 };

static const struct argp_option loop_options[] = {
    {"target", 't', "NAME", 0, "gfx90a, gfx942 or gfx950 (with --code any of AMD's); required", 0},
    {"param", 'p', "NAME=VALUE", 0, "Replace a parameter of the variant; may be repeated", 0},
    {"pack", LOOP_PACK, "FILE", 0, "Take the kernel from a pack", 0},
    {"json", LOOP_JSON, NULL, 0, "Print the figures as JSON", 0},
    {"code", LOOP_CODE, "FILE", 0, "Write the loop's instructions to FILE", 0},
    {0},
};

static error_t loop_parse(int key, char *arg, struct argp_state *state)
{
    loop_args *args = state->input;
    switch (key) {
    case 't':
        args->target = arg;
        return 0;
    case 'p':
        if (args->n_params <= MXGEN_MAX_PARAMS)
            args->params[args->n_params++] = arg;
        return 0;
    case LOOP_PACK:
        args->pack = arg;
        return 0;
    case LOOP_JSON:
        args->as_json = 1;
        return 0;
    case LOOP_CODE:
        args->code = arg;
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
        if (!args->target)
            argp_error(state, "--target NAME is missing");
        if (args->pack && args->n_params)
            argp_error(state, "--param does not go with --pack: its kernels are made");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int info_figure(const cli_variant *variant, const char *name)
{
    return (int)json_integer_value(json_object_get(variant->info, name));
}

static mx_status print_json(const cli_variant *variant, const loop_figures *f, mx_error *err)
{
    json_t *root = json_pack(
        "{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, "
        "s:f, "
        "s:b}",
        "kernel", variant->name, "target", variant->target, "vgprs", info_figure(variant, "vgprs"),
        "lds_bytes", info_figure(variant, "lds_bytes"), "scratch_bytes",
        info_figure(variant, "scratch_bytes"), "spills", info_figure(variant, "spills"), "products",
        f->products, "vector", f->vector, "scalar", f->scalar, "lds", f->lds_reads + f->lds_writes,
        "lds_narrow", f->narrow_lds, "loads", f->loads, "loads_narrow", f->narrow_loads, "barriers",
        f->barriers, "scratch", f->scratch, "spilled", f->spilled, "cycles", f->cycles, "busy",
        f->busy, "modelled", 1);
    if (!root)
        return mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
    return cli_print_json(root, err);
}

static void print_text(const cli_variant *variant, const loop_figures *f)
{
    printf("kernel        %s\ntarget        %s\n", variant->name, variant->target);
    printf("registers     %d vector, %d bytes of scratch memory, %d spills\n",
           info_figure(variant, "vgprs"), info_figure(variant, "scratch_bytes"),
           info_figure(variant, "spills"));
    printf("in a round of the main loop, a wave:\n");
    printf("  products    %d, the matrix unit busy for %d cycles\n", f->products,
           f->product_cycles);
    printf("  other       %d vector, %d scalar, %d barriers, %d s_nop\n", f->vector, f->scalar,
           f->barriers, f->nops);
    printf("  LDS         %d reads, %d writes, %d of them below 16 bytes a lane\n", f->lds_reads,
           f->lds_writes, f->narrow_lds);
    printf("  spills      %d scalars from or to lanes of a vector register\n", f->spilled);
    printf("  memory      %d loads, %d stores, %d of them below 16 bytes a lane, %d scratch\n",
           f->loads, f->stores, f->narrow_loads, f->scratch);
    printf("modelled, not measured: %.0f cycles a round, the matrix unit busy for %.0f %%\n",
           f->cycles, 100.0 * f->busy);
}

static mx_status write_code(const char *path, const mxgen_instruction *code, const loop_figures *f,
                            mx_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream)
        return mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
    for (size_t i = f->begin; i < f->end; i = loop_model_after(code, i, f->end))
        fprintf(stream, "%s\n", code[i].text);
    mx_status status = fclose(stream) ? mx_fail(err, MX_ERR_NO_MEMORY, "out of memory")
                                      : cli_write(path, text, bytes, err);
    free(text);
    return status;
}

static int waves_of(const cli_variant *variant)
{
    const json_t *threads = json_array_get(json_object_get(variant->launch, "block"), 0);
    const char *text = json_string_value(threads);
    return (text ? atoi(text) : (int)json_integer_value(threads)) / LANES;
}

static mx_status show_loop(const loop_args *args, const mxgen_target *target,
                           const cli_variant *variant, mx_error *err)
{
    mxgen_instruction *code = NULL;
    size_t n = 0;
    loop_figures figures = {0};
    mx_status status = mxgen_disassemble(target, variant->object, variant->object_bytes,
                                         variant->symbol, &code, &n, err);
    if (status == MX_OK)
        status = loop_model_find(code, n, &figures, err);
    if (status == MX_OK && args->code)
        status = write_code(args->code, code, &figures, err);
    bool modelled = loop_model_knows(target) || !args->code;
    if (status == MX_OK && modelled)
        status = loop_model_run(target, code, waves_of(variant), &figures, err);
    if (status == MX_OK && modelled && args->as_json)
        status = print_json(variant, &figures, err);
    else if (status == MX_OK && modelled)
        print_text(variant, &figures);
    free(code);
    return status;
}

static mx_status generate(const loop_args *args, const mxgen_target *target, cli_variant *variant,
                          mx_error *err)
{
    cli_params params = {0};
    mxgen_spec spec;
    mx_status status = MX_OK;
    for (size_t i = 0; status == MX_OK && i < args->n_params; i++)
        status = cli_params_add(&params, args->params[i], err);
    if (status == MX_OK)
        status = cli_spec_by_name(target, args->kernel, MX_PROFILE_PACKED, &params, &spec, err);
    if (status == MX_OK)
        status = cli_variant_from_spec(&spec, variant, err);
    cli_params_finish(&params);
    return status;
}

mx_status cli_loop(int argc, char **argv, mx_error *err)
{
    static const struct argp argp = {
        .options = loop_options,
        .parser = loop_parse,
        .args_doc = "KERNEL",
        .doc = "Models how busy the main loop of a kernel keeps the matrix unit: nothing is "
               "measured. mxgen(1) tells what is assumed.",
    };
    loop_args args = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &args))
        return mx_fail(err, MX_ERR_INVALID, "the arguments cannot be read");
    const mxgen_target *target = NULL;
    cli_variant variant = {0};
    mx_status status = cli_parse_target(args.target, &target, err);
    if (status == MX_OK)
        status = args.pack
                     ? cli_variant_from_pack(args.pack, args.target, args.kernel, &variant, err)
                     : generate(&args, target, &variant, err);
    if (status == MX_OK)
        status = show_loop(&args, target, &variant, err);
    cli_variant_finish(&variant);
    return status;
}
