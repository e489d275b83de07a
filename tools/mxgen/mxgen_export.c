/* mxgen export: kernels in the form that other programs load. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <mxgen/error.h>

#include "cli.h"
#include "gen/ptxas.h"
#include "gen/target.h"
#include "templates/mx_triton.h"

/* The Triton whose metadata these are; 3.9, too, finds in it what it asks for. */
#define TRITON_VERSION "3.6.0"

typedef struct export_args {
    const char *triton, *targets, *ops, *formats, *dtypes, *ptxas;
} export_args;

enum { EXPORT_TRITON = 256, EXPORT_OP, EXPORT_FORMAT, EXPORT_DTYPE, EXPORT_PTXAS };

static const struct argp_option export_options[] = {
    {"triton", EXPORT_TRITON, "DIR", 0,
     "Kernels with the interface of Triton's MX9 and MX6 kernels: object and metadata (required)",
     0},
    {"target", 't', "NAME[,..]", 0, "GPUs, or kinds (amdgpu, nvptx); default: all", 0},
    {"op", EXPORT_OP, "to|from[,..]", 0, "Operations; default: both", 0},
    {"format", EXPORT_FORMAT, "mx9|mx6[,..]", 0, "Formats; default: both", 0},
    {"dtype", EXPORT_DTYPE, "f32|bf16[,..]", 0, "Element types; default: both", 0},
    {"ptxas", EXPORT_PTXAS, "PATH|off", 0,
     "NVIDIA's assembler, for cubin besides PTX; default: as for mxgen build", 0},
    {0},
};

static error_t export_parse(int key, char *arg, struct argp_state *state)
{
    export_args *args = state->input;
    switch (key) {
    case EXPORT_TRITON:
        args->triton = arg;
        return 0;
    case EXPORT_OP:
        args->ops = arg;
        return 0;
    case EXPORT_FORMAT:
        args->formats = arg;
        return 0;
    case EXPORT_DTYPE:
        args->dtypes = arg;
        return 0;
    case EXPORT_PTXAS:
        args->ptxas = arg;
        return 0;
    case 't':
        args->targets = arg;
        return 0;
    case ARGP_KEY_END:
        if (!args->triton)
            argp_error(state, "give the folder: --triton DIR");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char export_note[] =
    "Kernels with the interface of the Triton kernels _convert_to_mx9_kernel,\n"
    "_convert_from_mx9_kernel, _convert_to_mx6_kernel and _convert_from_mx6_kernel.\n"
    "\n"
    "TARGET/index.json lists them: which arguments are passed (\"i32\", pointers) and which are "
    "the\n"
    "constant 1 (\"constexpr\"); a kernel serves all divisibilities of the others. A folder has "
    "the\n"
    "object and the metadata that Triton's cache keeps. Grid: ceil(n_blocks / 64), 4 warps. There "
    "is\n"
    "none for calls in which n_blocks or last is 1.\n"
    "\n"
    "With Triton's loader and launcher, from Python (the package mxrt of mxgen):\n"
    "    from mxrt import triton\n"
    "    kernel = triton.load(\"TARGET/to_mx9_f32.stride_in_col.stride_out_byte\")\n"
    "    kernel[(-(-n_blocks // 64), 1, 1)](x, packed, n_blocks, last, blocks_per_row,\n"
    "                                       x.stride(0), 1, 18, 1, 16, 64, 2, 8)\n"
    "\n"
    "As an override of a kernel in a program that stays as it is: run it once with\n"
    "    TRITON_ALWAYS_COMPILE=1 TRITON_KERNEL_DUMP=1 TRITON_DUMP_DIR=dump\n"
    "which makes dump/HASH/NAME.hsaco (.cubin). Put ours, of the arguments that were 1, at\n"
    "override/HASH/NAME.hsaco (.cubin, or .ptx), and run the program with\n"
    "    TRITON_ALWAYS_COMPILE=1 TRITON_KERNEL_OVERRIDE=1 TRITON_OVERRIDE_DIR=override\n"
    "Triton keeps the result in its cache: later runs need none of these variables.\n";

static mx_status export_make_folder(const char *path, mx_error *err)
{
    char *copy = strdup(path);
    mx_status status = copy ? MX_OK : mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
    for (char *at = copy; at && status == MX_OK; at = strchr(at + 1, '/')) {
        if (at == copy)
            continue; /* the root, or the start of a relative path */
        *at = 0;
        if (mkdir(copy, 0777) && errno != EEXIST)
            status =
                mx_fail(err, MX_ERR_IO, "cannot make the folder %s: %s", copy, strerror(errno));
        *at = '/';
    }
    if (status == MX_OK && mkdir(path, 0777) && errno != EEXIST)
        status = mx_fail(err, MX_ERR_IO, "cannot make the folder %s: %s", path, strerror(errno));
    free(copy);
    return status;
}

/* FOLDER/NAME.EXTENSION */
static mx_status export_write(const char *folder, const char *name, const char *extension,
                              const void *data, size_t size_bytes, mx_error *err)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s.%s", folder, name, extension) < 0)
        return mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
    mx_status status = cli_write(path, data, size_bytes, err);
    free(path);
    return status;
}

/* Takes the reference to `json`. */
static mx_status export_write_json(const char *folder, const char *name, json_t *json,
                                   mx_error *err)
{
    char *text = json ? json_dumps(json, JSON_INDENT(1)) : NULL;
    json_decref(json);
    if (!text)
        return mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
    mx_status status = export_write(folder, name, "json", text, strlen(text), err);
    free(text);
    return status;
}

/* ---- Triton's metadata ---- */

/* What Triton's backends ask of the metadata of a compiled kernel. No machine's paths are in it. */
static json_t *export_metadata(const mxgen_spec *spec, uint64_t code_id)
{
    const mxgen_target *target = spec->target;
    bool is_amd = target->kind == MXGEN_AMDGPU;
    char hash[17], arch[32];
    long number = is_amd ? 0 : strtol(target->name + strlen("sm_"), NULL, 10);
    snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)code_id);
    snprintf(arch, sizeof(arch), "sm%ld", number);
    json_t *chip = is_amd ? json_string(target->name) : json_integer(number);
    json_t *meta = json_pack(
        "{s:s, s:{s:s, s:o, s:i}, s:i, s:i, s:i, s:i, s:[], s:b, s:b, s:b, s:s, s:s, s:s, s:[], "
        "s:[], s:s, s:[s], s:[], s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:s}",
        "hash", hash, "target", "backend", is_amd ? "hip" : "cuda", "arch", chip, "warp_size",
        target->lanes, "num_warps", MX_TRITON_WARPS, "num_ctas", 1, "num_stages", is_amd ? 2 : 3,
        "warp_size", target->lanes, "extern_libs", "debug", 0, "sanitize_overflow", 0,
        "enable_fp_fusion", 0, "backend_name", is_amd ? "hip" : "cuda", "instrumentation_mode", "",
        "triton_version", TRITON_VERSION, "supported_fp8_dtypes",
        "deprecated_fp8_dot_operand_dtypes", "default_dot_input_precision", "ieee",
        "allowed_dot_input_precisions", "ieee", "tensordesc_meta", "max_num_imprecise_acc_default",
        0, "shared", 0, "global_scratch_size", 0, "global_scratch_align", 1, "profile_scratch_size",
        0, "profile_scratch_align", 1, "launch_cooperative_grid", 0, "name", spec->symbol);
    if (!meta)
        return NULL;
    if (is_amd)
        json_object_update_new(meta,
                               json_pack("{s:s, s:i, s:i, s:i, s:b, s:s}", "arch", target->name,
                                         "waves_per_eu", 0, "matrix_instr_nonkdim", 0, "kpack", 1,
                                         "allow_flush_denorm", 0, "schedule_hint", "none"));
    else
        json_object_update_new(meta,
                               json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:i, s:[i,i,i]}",
                                         "arch", arch, "maxnreg", "ptx_version", "ptx_options",
                                         "ir_override", "enable_reflect_ftz", 0, "launch_pdl", 0,
                                         "tmem_size", 0, "cluster_dims", 1, 1, 1));
    return meta;
}

/* The line of TARGET/index.json. */
static json_t *export_entry(const mxgen_spec *spec)
{
    mx_triton_arg args[MX_TRITON_ARGS];
    json_t *signature = json_array(), *constants = json_object();
    mx_triton_args(spec, args);
    for (int i = 0; i < MX_TRITON_ARGS; i++) {
        json_array_append_new(signature, json_pack("[s,s]", args[i].name, args[i].type));
        if (!strcmp(args[i].type, "constexpr"))
            json_object_set_new(constants, args[i].name, json_integer(1));
    }
    json_object_update_new(constants,
                           json_pack("{s:i, s:i, s:i, s:i}", "BLOCK_SIZE", MX_BLOCK_ELEMENTS,
                                     "BLOCKS_PER_PROG", MX_TRITON_BLOCKS, "PRIME_GROUP", 2,
                                     "QUANT_BIT", mx_format_get(spec->key.format)->code_bits));
    if (spec->key.op == MX_OP_FROM)
        json_object_set_new(constants, "OUT_DTYPE",
                            json_string(spec->key.dtype == MX_DTYPE_F32 ? "fp32" : "bf16"));
    return json_pack("{s:s, s:s, s:o, s:o}", "folder", spec->name, "kernel", spec->symbol,
                     "signature", signature, "constants", constants);
}

/* ---- Objects ---- */

static mx_status export_objects(const char *folder, const mxgen_spec *spec,
                                const mxgen_ptxas *ptxas, mx_error *err)
{
    mxgen_output object = {0}, cubin = {0};
    bool is_amd = spec->target->kind == MXGEN_AMDGPU;
    mx_status status = mxgen_compile(spec, 1, MXGEN_STAGE_OBJECT, NULL, &object, err);
    if (status == MX_OK)
        status = export_write(folder, spec->symbol, is_amd ? "hsaco" : "ptx", object.data,
                              object.size_bytes, err);
    if (status == MX_OK && !is_amd && ptxas->path[0]) {
        status = mxgen_ptxas_assemble(ptxas, spec, 1, &object, &cubin, err);
        if (status == MX_OK)
            status = export_write(folder, spec->symbol, "cubin", cubin.data, cubin.size_bytes, err);
    }
    if (status == MX_OK)
        status =
            export_write_json(folder, spec->symbol, export_metadata(spec, object.code_ids[0]), err);
    mxgen_output_finish(&object);
    mxgen_output_finish(&cubin);
    return status;
}

static bool export_wants(const cli_selection *selection, const mxgen_key *key)
{
    bool op = !selection->n_ops, format = !selection->n_formats, dtype = !selection->n_dtypes;
    for (size_t i = 0; i < selection->n_ops; i++)
        op |= selection->ops[i] == key->op;
    for (size_t i = 0; i < selection->n_formats; i++)
        format |= selection->formats[i] == key->format;
    for (size_t i = 0; i < selection->n_dtypes; i++)
        dtype |= selection->dtypes[i] == key->dtype;
    return op && format && dtype;
}

/* Those that were asked for. */
static mx_status export_enumerate(const cli_selection *selection, const mxgen_target *target,
                                  mxgen_spec **specs, size_t *n, mx_error *err)
{
    size_t n_all = 0;
    mx_status status = mx_triton_enumerate(target, specs, &n_all, err);
    *n = 0;
    for (size_t i = 0; i < n_all && status == MX_OK; i++) {
        if (export_wants(selection, &(*specs)[i].key))
            (*specs)[(*n)++] = (*specs)[i];
    }
    if (status == MX_OK && !*n)
        return mx_fail(
            err, MX_ERR_INVALID,
            "Triton's kernels are to and from, of mx9 and mx6, of f32 and bf16: none was "
            "asked for");
    return status;
}

static mx_status export_target(const export_args *args, const cli_selection *selection,
                               const mxgen_target *target, const mxgen_ptxas *ptxas, mx_error *err)
{
    mxgen_spec *specs = NULL;
    size_t n = 0;
    json_t *entries = json_array();
    char *base = NULL, *folder = NULL;
    mx_status status = export_enumerate(selection, target, &specs, &n, err);
    if (status == MX_OK && asprintf(&base, "%s/%s", args->triton, target->name) < 0)
        status = mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < n && status == MX_OK; i++) {
        if (asprintf(&folder, "%s/%s", base, specs[i].name) < 0) {
            status = mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
            break;
        }
        status = export_make_folder(folder, err);
        if (status == MX_OK)
            status = export_objects(folder, &specs[i], ptxas, err);
        free(folder);
        json_array_append_new(entries, export_entry(&specs[i]));
    }
    if (status == MX_OK)
        status = export_write_json(base, "index", json_incref(entries), err);
    if (status == MX_OK)
        printf("%s: %zu kernels%s\n", base, n,
               target->kind != MXGEN_NVPTX || ptxas->path[0] ? ""
                                                             : ", PTX only: there is no ptxas");
    json_decref(entries);
    free(base);
    free(specs);
    return status;
}

mx_status cli_export(int argc, char **argv, mx_error *err)
{
    static const struct argp argp = {
        .options = export_options,
        .parser = export_parse,
        .args_doc = "--triton DIR",
        .doc = "Writes kernels that other programs load. DIR/README.txt says how to use them.",
    };
    export_args args = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &args))
        return mx_fail(err, MX_ERR_INVALID, "the arguments cannot be read");
    cli_selection selection = {0};
    mxgen_ptxas ptxas = {.path = ""};
    mx_status status =
        cli_select_targets(&selection, args.targets ? args.targets : "amdgpu,nvptx", err);
    if (status == MX_OK)
        status = cli_select_ops(&selection, args.ops, err);
    if (status == MX_OK)
        status = cli_select_formats(&selection, args.formats, err);
    if (status == MX_OK)
        status = cli_select_dtypes(&selection, args.dtypes, err);
    if (status == MX_OK)
        status = cli_find_ptxas(&selection, args.ptxas, &ptxas, err);
    if (status == MX_OK)
        status = export_make_folder(args.triton, err);
    for (size_t i = 0; i < selection.n_targets && status == MX_OK; i++)
        status = export_target(&args, &selection, selection.targets[i], &ptxas, err);
    if (status == MX_OK)
        status = export_write(args.triton, "README", "txt", export_note, strlen(export_note), err);
    return status;
}
