/* mxgen build */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mxgen/error.h>

#include "cli.h"
#include "kernel_pack.h"

enum { BUILD_MOST_FILES = 64, BUILD_MOST_PARAMS = 12 };

typedef struct build_args {
    const char *files[BUILD_MOST_FILES + 1]; /* one more than allowed, so that it is noticed */
    const char *params[BUILD_MOST_PARAMS + 1];
    size_t n_files, n_params;
    const char *targets, *ops, *formats, *dtypes, *layouts, *profiles, *max_rank, *threads, *ptxas,
        *codegen, *comgr, *output;
} build_args;

enum {
    BUILD_OP = 256,
    BUILD_FORMAT,
    BUILD_DTYPE,
    BUILD_LAYOUT,
    BUILD_PROFILE,
    BUILD_MAX_RANK,
    BUILD_PTXAS,
    BUILD_CODEGEN,
    BUILD_COMGR
};

static const struct argp_option build_options[] = {
    {"target", 't', "NAME[,..]", 0, "Targets, or kinds (amdgpu, nvptx, host); default: all", 0},
    {"op", BUILD_OP, "to|from|qdq|grouped_gemm[,..]", 0,
     "Operations; of grouped_gemm gemm_rows and gemm_cols are passes; default: all", 0},
    {"format", BUILD_FORMAT, "mx9|mx6|mx4|mxfp4|..[,..]", 0,
     "Formats, or LEFT.RIGHT such as mxfp8e4m3.mxfp4 for products of these operands; default: all",
     0},
    {"dtype", BUILD_DTYPE, "f32|bf16|f16[,..]", 0, "Element types; default: all", 0},
    {"layout", BUILD_LAYOUT, "flat|rows|tiles|general|pair[,..]", 0, "Layouts; default: all", 0},
    {"profile", BUILD_PROFILE, "packed|demoted-255[,..]", 0,
     "Profiles (of qdq; the others have packed only); default: all", 0},
    {"param", 'p', "NAME=VALUE", 0,
     "The value of ${NAME} in the files, as for mxgen compile; may be repeated", 0},
    {"max-rank", BUILD_MAX_RANK, "N", 0, "Only the N best variants of each kind; default: all", 0},
    {"jobs", 'j', "N", 0, "Threads; default: one a core", 0},
    {"ptxas", BUILD_PTXAS, "PATH|off", 0,
     "NVIDIA's assembler, for machine code besides PTX; default: MXGEN_PTXAS, then PATH, then "
     "/usr/local/cuda/bin",
     0},
    {"codegen", BUILD_CODEGEN, "llvm|auto|comgr|comgr-link|comgr-bitcode", 0,
     "What makes AMD's code objects: LLVM in this process (default), or ROCm's comgr", 0},
    {"comgr", BUILD_COMGR, "FILE", 0,
     "ROCm's libamd_comgr; default: MXGEN_COMGR_LIBRARY, then libamd_comgr.so.3 and .so.2", 0},
    {"output", 'o', "FILE", 0, "The pack (required)", 0},
    {0},
};

static error_t build_parse(int key, char *arg, struct argp_state *state)
{
    build_args *args = state->input;
    switch (key) {
    case 't':
        args->targets = arg;
        return 0;
    case 'p':
        if (args->n_params <= BUILD_MOST_PARAMS)
            args->params[args->n_params++] = arg;
        return 0;
    case BUILD_OP:
        args->ops = arg;
        return 0;
    case BUILD_FORMAT:
        args->formats = arg;
        return 0;
    case BUILD_DTYPE:
        args->dtypes = arg;
        return 0;
    case BUILD_LAYOUT:
        args->layouts = arg;
        return 0;
    case BUILD_PROFILE:
        args->profiles = arg;
        return 0;
    case BUILD_MAX_RANK:
        args->max_rank = arg;
        return 0;
    case 'j':
        args->threads = arg;
        return 0;
    case BUILD_PTXAS:
        args->ptxas = arg;
        return 0;
    case BUILD_CODEGEN:
        args->codegen = arg;
        return 0;
    case BUILD_COMGR:
        args->comgr = arg;
        return 0;
    case 'o':
        args->output = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (args->n_files <= BUILD_MOST_FILES)
            args->files[args->n_files++] = arg;
        return 0;
    case ARGP_KEY_END:
        if (args->n_files > BUILD_MOST_FILES)
            argp_error(state, "more than %d files", BUILD_MOST_FILES);
        if (args->n_params > BUILD_MOST_PARAMS)
            argp_error(state, "more than %d parameters", BUILD_MOST_PARAMS);
        if (args->n_params && !args->n_files)
            argp_error(state, "--param is for kernel files, and there is none");
        if (!args->output)
            argp_error(state, "-o FILE is missing");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void build_progress(void *user, size_t done, size_t total)
{
    (void)user;
    fprintf(stderr, "\r%zu of %zu variants%s", done, total, done == total ? "\n" : "");
    fflush(stderr);
}

static mx_status build_select(const build_args *args, cli_selection *selection, mx_error *err)
{
    mx_status status = cli_select_targets(selection, args->targets, err);
    if (status == MX_OK)
        status = cli_select_ops(selection, args->ops, err);
    if (status == MX_OK)
        status = cli_select_formats(selection, args->formats, err);
    if (status == MX_OK)
        status = cli_select_dtypes(selection, args->dtypes, err);
    if (status == MX_OK)
        status = cli_select_layouts(selection, args->layouts, err);
    if (status == MX_OK)
        status = cli_select_profiles(selection, args->profiles, err);
    for (size_t i = 0; !args->targets && i < mxgen_target_count() && i < CLI_MAX_TARGETS; i++)
        selection->targets[selection->n_targets++] = mxgen_target_at(i);
    return status;
}

/* Looks only where some target needs it. What comgr cannot do is told before long work. */
static mx_status build_find_comgr(const cli_selection *selection, const build_args *args,
                                  mxgen_comgr *out, mx_error *err)
{
    mxgen_codegen codegen = MXGEN_CODEGEN_LLVM;
    bool has_looked = false;
    if (args->codegen && mxgen_codegen_parse(args->codegen, &codegen))
        return mx_fail(
            err, MX_ERR_INVALID,
            "unknown codegen \"%s\"; one of llvm, auto, comgr, comgr-link, comgr-bitcode",
            args->codegen);
    for (size_t i = 0; i < selection->n_targets && codegen != MXGEN_CODEGEN_LLVM; i++) {
        mx_error reason = {MX_OK, ""};
        if (strcmp(mxgen_target_kind(selection->targets[i]), "amdgpu"))
            continue;
        mx_status status = has_looked ? MX_OK : mxgen_comgr_find(codegen, args->comgr, out, err);
        if (status == MX_OK && out->note[0]) {
            fprintf(stderr, "mxgen: %s\n", out->note);
            return MX_OK;
        }
        has_looked = true;
        if (status == MX_OK)
            status = mxgen_comgr_check(out, selection->targets[i], &reason);
        else
            return status;
        if (status != MX_OK && codegen != MXGEN_CODEGEN_AUTO)
            return mx_fail(err, status, "%s", reason.message);
        if (status != MX_OK)
            fprintf(stderr, "mxgen: %s; LLVM makes its code objects\n", reason.message);
    }
    return MX_OK;
}

/* Kernels written by others, besides ours: compiled first, stored last. */
typedef struct build_files {
    size_t n;
    kernel_file files[BUILD_MOST_FILES];
    kernel_pack *kernels[BUILD_MOST_FILES];
    kernel_pack_stats stats;
} build_files;

static mx_status build_compile_files(const build_args *args, const kernel_pack_options *options,
                                     build_files *files, mx_error *err)
{
    mx_status status = MX_OK;
    for (size_t i = 0; i < args->n_files && status == MX_OK; i++) {
        status =
            kernel_file_open(args->files[i], args->params, args->n_params, &files->files[i], err);
        if (status == MX_OK)
            files->n++;
        if (status == MX_OK)
            status = kernel_pack_compile(&files->files[i], options, &files->kernels[i], err);
    }
    return status;
}

static mx_status build_add_files(void *user, struct mxgen_pack_writer *writer, mx_error *err)
{
    build_files *files = user;
    mx_status status = MX_OK;
    for (size_t i = 0; i < files->n && status == MX_OK; i++)
        status = kernel_pack_write(files->kernels[i], writer, &files->stats, err);
    return status;
}

static void build_close_files(build_files *files)
{
    for (size_t i = 0; i < files->n; i++) {
        kernel_pack_destroy(files->kernels[i]);
        kernel_file_close(&files->files[i]);
    }
}

static void build_print(const mxgen_build_stats *stats, const mxgen_ptxas *ptxas,
                        const mxgen_comgr *comgr, const build_files *files, const char *path)
{
    struct rusage usage = {0};
    struct stat file = {0};
    char peak[32], size[32];
    getrusage(RUSAGE_SELF, &usage);
    cli_format_bytes((double)usage.ru_maxrss * 1024, peak, sizeof(peak));
    cli_format_bytes(stat(path, &file) ? 0 : (double)file.st_size, size, sizeof(size));
    printf("%s: %s, %zu variants, %zu objects, %.1f s, %.1f variants/s, peak memory %s", path, size,
           stats->n_variants, stats->n_objects, stats->seconds,
           stats->seconds > 0 ? (double)stats->n_variants / stats->seconds : 0.0, peak);
    if (stats->n_cubins)
        printf(", %zu of the objects by ptxas %s", stats->n_cubins, ptxas->version);
    if (stats->n_comgr)
        printf(", %zu of the objects by comgr %s, LLVM %s", stats->n_comgr, comgr->interface,
               comgr->llvm);
    if (files->n)
        printf(", %zu kernels of %zu files", files->stats.n_variants, files->n);
    printf("\n");
}

mx_status cli_build(int argc, char **argv, mx_error *err)
{
    static const struct argp argp = {
        .options = build_options,
        .parser = build_parse,
        .args_doc = "-o FILE [KERNEL.mlir|KERNEL.ll|KERNEL.bc ..]",
        .doc = "Generates kernels and stores them in a pack, with those of files written by others "
               "(see mxgen compile). FILE is replaced whole or not at all.",
    };
    build_args args = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &args))
        return mx_fail(err, MX_ERR_INVALID, "the arguments cannot be read");

    cli_selection selection = {0};
    int64_t max_rank = 0, n_threads = 0;
    mx_status status = build_select(&args, &selection, err);
    if (status == MX_OK && args.max_rank)
        status = cli_parse_int("--max-rank", args.max_rank, 1, INT32_MAX, &max_rank, err);
    if (status == MX_OK && args.threads)
        status = cli_parse_int("--jobs", args.threads, 1, 1024, &n_threads, err);
    mxgen_ptxas ptxas = {.path = ""};
    if (status == MX_OK)
        status = cli_check_output(args.output, err);
    if (status == MX_OK)
        status = cli_find_ptxas(&selection, args.ptxas, &ptxas, err);
    mxgen_comgr comgr = {.helper = ""};
    if (status == MX_OK)
        status = build_find_comgr(&selection, &args, &comgr, err);
    if (status != MX_OK)
        return status;

    const long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    const kernel_pack_options file_options = {
        .targets = selection.targets,
        .n_targets = selection.n_targets,
        .n_parallel = n_threads     ? (size_t)n_threads
                      : n_cores > 0 ? (size_t)n_cores
                                    : 1,
        .ptxas = &ptxas,
    };
    static build_files files;
    status = build_compile_files(&args, &file_options, &files, err);
    const mxgen_build_options options = {
        .add = build_add_files,
        .add_user = &files,
        .targets = selection.targets,
        .n_targets = selection.n_targets,
        .filter =
            {
                .ops = selection.ops,
                .n_ops = selection.n_ops,
                .formats = selection.formats,
                .n_formats = selection.n_formats,
                .dtypes = selection.dtypes,
                .n_dtypes = selection.n_dtypes,
                .layouts = selection.layouts,
                .n_layouts = selection.n_layouts,
                .profiles = selection.profiles,
                .n_profiles = selection.n_profiles,
                .max_rank = (int)max_rank,
                .families = selection.families,
                .passes = selection.passes,
                .pairs = selection.pairs,
            },
        .n_threads = (int)n_threads,
        .ptxas = &ptxas,
        .comgr = &comgr,
        .progress = isatty(STDERR_FILENO) ? build_progress : NULL,
    };
    mxgen_build_stats stats = {0};
    if (status == MX_OK)
        status = mxgen_build_pack(&options, args.output, &stats, err);
    if (status == MX_OK)
        build_print(&stats, &ptxas, &comgr, &files, args.output);
    build_close_files(&files);
    return status;
}
