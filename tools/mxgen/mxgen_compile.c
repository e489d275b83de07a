/* mxgen compile */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <mxgen/error.h>

#include "cli.h"
#include "kernel_check.h"
#include "kernel_pack.h"

enum {
    COMPILE_LDS = 256,
    COMPILE_CHECK,
    COMPILE_PTXAS,
    COMPILE_MOST_FILES = 64,
    COMPILE_MOST_PARAMS = 12
};

typedef struct compile_args {
    const char *files[COMPILE_MOST_FILES + 1]; /* one more than allowed, so that it is noticed */
    const char *params[COMPILE_MOST_PARAMS + 1];
    size_t n_files, n_params;
    const char *targets, *stage, *lds, *check, *threads, *ptxas, *output;
} compile_args;

static const struct argp_option compile_options[] = {
    {"target", 't', "NAME[,..]", 0, "Targets, or kinds (amdgpu, nvptx, host); required", 0},
    {"param", 'p', "NAME=VALUE", 0,
     "The value of ${NAME} in the text, of those that FILE.json declares; may be repeated", 0},
    {"lds", COMPILE_LDS, "BYTES", 0,
     "Shared memory of a workgroup whose size the code leaves to the launch", 0},
    {"check", COMPILE_CHECK, "DEVICE", 0,
     "Run the kernels there, and FILE.json's \"check\" on what they did", 0},
    {"stage", 's', "llvm|asm", 0, "Show the code instead, for one target", 0},
    {"ptxas", COMPILE_PTXAS, "PATH|off", 0,
     "NVIDIA's assembler, for machine code besides PTX; default: as for mxgen build", 0},
    {"jobs", 'j', "N", 0, "Compilations at once; default: one a core", 0},
    {"output", 'o', "FILE", 0, "The pack (required), or where to show the code", 0},
    {0},
};

static error_t compile_parse(int key, char *arg, struct argp_state *state)
{
    compile_args *args = state->input;
    switch (key) {
    case 't':
        args->targets = arg;
        return 0;
    case 'p':
        if (args->n_params <= COMPILE_MOST_PARAMS)
            args->params[args->n_params++] = arg;
        return 0;
    case COMPILE_LDS:
        args->lds = arg;
        return 0;
    case COMPILE_CHECK:
        args->check = arg;
        return 0;
    case COMPILE_PTXAS:
        args->ptxas = arg;
        return 0;
    case 's':
        args->stage = arg;
        return 0;
    case 'j':
        args->threads = arg;
        return 0;
    case 'o':
        args->output = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (args->n_files <= COMPILE_MOST_FILES)
            args->files[args->n_files++] = arg;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "FILE is missing");
        return 0;
    case ARGP_KEY_END:
        if (!args->targets)
            argp_error(state, "--target NAME is missing");
        if (!args->stage && !args->output)
            argp_error(state, "-o FILE is missing");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static mx_status compile_one(const compile_args *args, const char *path,
                             const kernel_pack_options *options, mxgen_pack_writer *writer,
                             kernel_pack_stats *stats, mx_error *err)
{
    kernel_file file = {0};
    kernel_pack *kernels = NULL;
    mx_status status = kernel_file_open(path, args->params, args->n_params, &file, err);
    if (status == MX_OK)
        status = kernel_pack_compile(&file, options, &kernels, err);
    if (status == MX_OK)
        status = kernel_pack_write(kernels, writer, stats, err);
    kernel_pack_destroy(kernels);
    kernel_file_close(&file);
    return status;
}

static mx_status check_pack(const compile_args *args, mx_error *err)
{
    mx_status status = MX_OK;
    for (size_t i = 0; i < args->n_files && status == MX_OK; i++) {
        kernel_file file = {0};
        size_t n = 0;
        status = kernel_file_open(args->files[i], args->params, args->n_params, &file, err);
        if (status == MX_OK)
            status = kernel_check(&file, args->output, args->check, &n, err);
        if (status == MX_OK)
            printf("%s: %zu variants checked on %s\n", args->files[i], n, args->check);
        kernel_file_close(&file);
    }
    return status;
}

static mx_status compile_pack(const compile_args *args, const kernel_pack_options *options,
                              mx_error *err)
{
    struct timespec begin, end;
    mxgen_pack_writer *writer = NULL;
    kernel_pack_stats stats = {0};
    char size[32], others[64] = "";
    struct stat file = {0};
    clock_gettime(CLOCK_MONOTONIC, &begin);
    mx_status status = cli_check_output(args->output, err);
    if (status == MX_OK)
        status = mxgen_pack_writer_create(&writer, err);
    for (size_t i = 0; i < args->n_files && status == MX_OK; i++)
        status = compile_one(args, args->files[i], options, writer, &stats, err);
    if (stats.n_cubins)
        snprintf(others, sizeof(others), ", ptxas %s", options->ptxas->version);
    if (status == MX_OK)
        status = mxgen_pack_meta(writer, others, err);
    if (status == MX_OK)
        status = mxgen_pack_writer_save(writer, args->output, err);
    mxgen_pack_writer_destroy(writer);
    if (status != MX_OK)
        return status;
    clock_gettime(CLOCK_MONOTONIC, &end);
    cli_format_bytes(stat(args->output, &file) ? 0 : (double)file.st_size, size, sizeof(size));
    printf("%s: %s, %zu kernels, %zu objects, %.2f s", args->output, size, stats.n_variants,
           stats.n_objects,
           (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec));
    if (stats.n_cubins)
        printf(", %zu of the objects by ptxas %s", stats.n_cubins, options->ptxas->version);
    printf("\n");
    return args->check ? check_pack(args, err) : MX_OK;
}

static mx_status compile_show(const compile_args *args, const kernel_pack_options *options,
                              mx_error *err)
{
    mxgen_stage stage = strcmp(args->stage, "llvm") ? MXGEN_STAGE_ASM : MXGEN_STAGE_LLVM;
    kernel_file file = {0};
    mxgen_foreign_output output = {0};
    if (stage == MXGEN_STAGE_ASM && strcmp(args->stage, "asm"))
        return mx_fail(err, MX_ERR_INVALID, "unknown stage \"%s\": use llvm or asm", args->stage);
    if (args->n_files > 1 || options->n_targets > 1)
        return mx_fail(err, MX_ERR_INVALID, "--stage shows one file for one target");
    mx_status status = kernel_file_open(args->files[0], args->params, args->n_params, &file, err);
    if (status == MX_OK)
        status = kernel_pack_show(&file, options, stage, &output, err);
    if (status == MX_OK)
        status = cli_write(args->output, output.data, output.size_bytes, err);
    mxgen_foreign_output_finish(&output);
    kernel_file_close(&file);
    return status;
}

mx_status cli_compile(int argc, char **argv, mx_error *err)
{
    static const struct argp argp = {
        .options = compile_options,
        .parser = compile_parse,
        .args_doc = "FILE.mlir|FILE.ll|FILE.bc ..",
        .doc =
            "Compiles kernels written by others into a pack, from which mxrt_kernel_find and "
            "mxrt_kernel_launch run them by name. FILE.json beside a file tells parameters, rules, "
            "launch and arguments; without it arguments are the functions' own and the caller "
            "gives the grid. See mxgen(1).",
    };
    compile_args args = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &args))
        return mx_fail(err, MX_ERR_INVALID, "the arguments cannot be read");
    cli_selection selection = {0};
    int64_t lds = 0, n_parallel = sysconf(_SC_NPROCESSORS_ONLN);
    mx_status status = MX_OK;
    if (args.n_files > COMPILE_MOST_FILES || args.n_params > COMPILE_MOST_PARAMS)
        status = mx_fail(err, MX_ERR_INVALID, "at most %d files and %d parameters",
                         COMPILE_MOST_FILES, COMPILE_MOST_PARAMS);
    if (status == MX_OK)
        status = cli_select_targets(&selection, args.targets, err);
    if (status == MX_OK && args.lds)
        status = cli_parse_int("--lds", args.lds, 0, 1 << 20, &lds, err);
    if (status == MX_OK && args.threads)
        status = cli_parse_int("--jobs", args.threads, 1, 1024, &n_parallel, err);
    mxgen_ptxas ptxas = {.path = ""};
    if (status == MX_OK && !args.stage)
        status = cli_find_ptxas(&selection, args.ptxas, &ptxas, err);
    if (status != MX_OK)
        return status;
    const kernel_pack_options options = {.targets = selection.targets,
                                         .n_targets = selection.n_targets,
                                         .shared_bytes = lds,
                                         .ptxas = &ptxas,
                                         .n_parallel = n_parallel > 0 ? (size_t)n_parallel : 1};
    return args.stage ? compile_show(&args, &options, err) : compile_pack(&args, &options, err);
}
