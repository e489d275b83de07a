/* What the subcommands of mxgen share. */
#ifndef MXGEN_CLI_H
#define MXGEN_CLI_H

#include <argp.h>
#include <jansson.h>

#include <mxgen/kernel.h>

#include "gen/gen.h"

/* Exit codes. Bad input is CLI_EXIT_FAILURE; a command line that cannot be read, CLI_EXIT_USAGE. */
enum { CLI_EXIT_OK = 0, CLI_EXIT_FAILURE = 1, CLI_EXIT_USAGE = 2 };

/* A subcommand: argv[0] is "mxgen NAME". Returns the status that main reports. */
typedef mx_status (*cli_command_fn)(int argc, char **argv, mx_error *err);

mx_status cli_targets(int argc, char **argv, mx_error *err);
mx_status cli_build(int argc, char **argv, mx_error *err);
mx_status cli_compile(int argc, char **argv, mx_error *err);
mx_status cli_list(int argc, char **argv, mx_error *err);
mx_status cli_show(int argc, char **argv, mx_error *err);
mx_status cli_plan(int argc, char **argv, mx_error *err);
mx_status cli_export(int argc, char **argv, mx_error *err);
mx_status cli_loop(int argc, char **argv, mx_error *err);

/* ---- Values on the command line (cli_values.c) ---- */

/* A whole decimal number in minimum..maximum; `what` names it in the message. */
mx_status cli_parse_int(const char *what, const char *text, int64_t minimum, int64_t maximum,
                        int64_t *out, mx_error *err);
/* Numbers separated by `separator`, at most `capacity`. */
mx_status cli_parse_ints(const char *what, const char *text, char separator, int64_t minimum,
                         int64_t *out, size_t capacity, size_t *n, mx_error *err);

/* "host" is the best target of this machine. */
mx_status cli_parse_target(const char *text, const mxgen_target **out, mx_error *err);
mx_status cli_parse_op(const char *text, mx_op *out, mx_error *err);
mx_status cli_parse_format(const char *text, mx_format *out, mx_error *err);
mx_status cli_parse_dtype(const char *text, mx_dtype *out, mx_error *err);
mx_status cli_parse_profile(const char *text, mx_profile *out, mx_error *err);
mx_status cli_parse_layout(const char *text, mx_layout *out, mx_error *err);

#define CLI_MAX_TARGETS 32

/* What `build` selects, as lists without repetitions; an empty list is everything. */
typedef struct cli_selection {
    const mxgen_target *targets[CLI_MAX_TARGETS];
    size_t n_targets;
    mx_op ops[MX_OP_COUNT];
    mx_format formats[MX_FORMAT_COUNT];
    mx_dtype dtypes[MX_DTYPE_COUNT];
    mx_layout layouts[MX_LAYOUT_END];
    mx_profile profiles[MX_PROFILE_COUNT];
    size_t n_ops, n_formats, n_dtypes, n_layouts, n_profiles;
    unsigned families, passes, pairs; /* as in mxgen_filter */
} cli_selection;

/* Each adds the names of a comma-separated list; NULL adds nothing. In place of a target the name
 * of a kind ("amdgpu", "nvptx", "host") adds all targets of that kind. */
mx_status cli_select_targets(cli_selection *selection, const char *text, mx_error *err);
mx_status cli_select_ops(cli_selection *selection, const char *text, mx_error *err);
mx_status cli_select_formats(cli_selection *selection, const char *text, mx_error *err);
mx_status cli_select_dtypes(cli_selection *selection, const char *text, mx_error *err);
mx_status cli_select_layouts(cli_selection *selection, const char *text, mx_error *err);
mx_status cli_select_profiles(cli_selection *selection, const char *text, mx_error *err);

/* NVIDIA's assembler for those of the targets that have use for it (mxgen_ptxas_find), and a line
 * on standard error where one is not used. */
mx_status cli_find_ptxas(const cli_selection *selection, const char *wanted, mxgen_ptxas *out,
                         mx_error *err);

/* --param NAME=VALUE as given; names are owned. */
typedef struct cli_params {
    char *names[MXGEN_MAX_PARAMS];
    int values[MXGEN_MAX_PARAMS];
    size_t n;
} cli_params;

mx_status cli_params_add(cli_params *params, const char *text, mx_error *err);
void cli_params_finish(cli_params *params);

/* ---- Variants (cli_variant.c) ---- */

/* `name` is a variant's name, or OP_FORMAT_DTYPE[_LAYOUT] for the one ranked first; then `params`
 * replace that variant's own. */
mx_status cli_spec_by_name(const mxgen_target *target, const char *name, mx_profile profile,
                           const cli_params *params, mxgen_spec *out, mx_error *err);

/* The pack's name for what is compiled for `target`. */
const char *cli_object_kind(const mxgen_target *target);

/* A variant as the pack describes it: from the generator, or read from a pack. Owned strings. */
typedef struct cli_variant {
    char *target, *name, *symbol, *object_kind;
    json_t *params, *rules, *launch, *info;
    void *object; /* NULL if not compiled */
    size_t object_bytes;
} cli_variant;

/* Compiles the object too. */
mx_status cli_variant_from_spec(const mxgen_spec *spec, cli_variant *out, mx_error *err);
/* `target` may be NULL if only one target of the pack has the name. */
mx_status cli_variant_from_pack(const char *path, const char *target, const char *name,
                                cli_variant *out, mx_error *err);
/* A kernel written by others as far as it is like ours: its op is "kernel", and it has no other
 * key. */
mxrt_variant_info cli_kernel_as_variant(const mxrt_pack_kernel_info *kernel);
void cli_variant_finish(cli_variant *variant); /* takes a zeroed one, too */

/* ---- Output (cli_output.c) ---- */

/* Writes a file whole or not at all; NULL is standard output. */
mx_status cli_write(const char *path, const void *data, size_t size_bytes, mx_error *err);
/* Whether a file could be written there, told before long work; leaves nothing behind. */
mx_status cli_check_output(const char *path, mx_error *err);
/* Indented JSON on standard output. Takes the reference to `json`. */
mx_status cli_print_json(json_t *json, mx_error *err);
/* Flushes standard output: an error of it is this program's error, too. */
mx_status cli_finish_output(mx_error *err);
/* "12.3 MiB" */
void cli_format_bytes(double bytes, char *text, size_t capacity);

#endif
