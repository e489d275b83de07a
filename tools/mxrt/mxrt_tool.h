/* What the subcommands of mxrt share. The program may print and exit; the libraries do not. */
#ifndef MXRT_TOOL_H
#define MXRT_TOOL_H

#include <argp.h>
#include <regex.h>
#include <stdint.h>
#include <stdio.h>

#include <mxgen/rt.h>

#include "safetensors.h"

enum { TOOL_EXIT_FAILURE = 1, TOOL_EXIT_USAGE = 2, TOOL_EXIT_DIFFERENT = 3 };

int cmd_bench(int argc, char **argv);
int cmd_bench_gemm(int argc, char **argv); /* bench --op grouped_gemm */
int cmd_cache(int argc, char **argv);
int cmd_compare(int argc, char **argv);
int cmd_dequantize(int argc, char **argv);
int cmd_devices(int argc, char **argv);
int cmd_make_model(int argc, char **argv);
int cmd_qdq(int argc, char **argv);
int cmd_quantize(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_tune(int argc, char **argv);
int cmd_tune_kernel(int argc, char **argv); /* tune --kernel */

/* ---- Messages and exit status ---- */

/* Prints "mxrt: " and the message; returns TOOL_EXIT_FAILURE. */
int tool_fail(const mx_error *err);
/* Returns 0, or TOOL_EXIT_FAILURE and a message if standard output did not take everything. */
int tool_finish_stdout(void);

/* ---- Arguments: each is a usage error (exit 2) through `state` when it does not parse ---- */

int64_t tool_parse_integer(struct argp_state *state, const char *what, const char *text,
                           int64_t least, int64_t most);
/* 4096, 64K, 256M, 2G; `least` bytes at least. */
int64_t tool_parse_bytes(struct argp_state *state, const char *what, const char *text,
                         int64_t least);
double tool_parse_seconds(struct argp_state *state, const char *what, const char *text);
/* 4x64; at most `capacity` dimensions of at least 1. Returns their number. */
int tool_parse_shape(struct argp_state *state, const char *text, int64_t *shape, int capacity);
#define TOOL_FORMATS "mx9, mx6, mx4, mxfp4, mxfp6e2m3, mxfp6e3m2, mxfp8e4m3, mxfp8e5m2 or mxint8"
mx_format tool_parse_format(struct argp_state *state, const char *text);
/* Calls `parse` for each part of a list with commas. */
void tool_parse_list(struct argp_state *state, const char *text, void *user,
                     void (*parse)(struct argp_state *state, const char *part, void *user));

/* For tool_parse_list: set the bit of a name; `user` is an unsigned. */
void tool_add_op(struct argp_state *state, const char *part, void *user);
void tool_add_format(struct argp_state *state, const char *part, void *user);
void tool_add_dtype(struct argp_state *state, const char *part, void *user);

/* Which tensors, by name: POSIX extended expressions that may match anywhere. */
typedef struct tool_filter {
    int has_include, has_exclude;
    regex_t include, exclude;
} tool_filter;

void tool_filter_parse(struct argp_state *state, regex_t *regex, int *has, const char *option,
                       const char *text);
int tool_filter_keeps(const tool_filter *filter, const char *name);
void tool_filter_finish(tool_filter *filter);

/* ---- The engine: a context with its packs and one device ---- */

#define ENGINE_MAX_PACKS 16

typedef struct engine_options {
    const char *device; /* URI */
    const char *packs[ENGINE_MAX_PACKS];
    size_t n_packs;
    const char *compiler; /* NULL: as the environment says */
    int verbose;
} engine_options;

typedef struct tool_engine {
    mxrt_context *context;
    mxrt_device *device;
    mxrt_device_info info;
} tool_engine;

/* Options --device, --pack and --compiler; the input is an engine_options. */
extern const struct argp engine_argp;

/* Packs in order: those named, else $MXRT_PACK if set, else the installed pack if it exists. */
mx_status engine_add_packs(mxrt_context *context, const engine_options *options, mx_error *err);
mx_status engine_open(const engine_options *options, tool_engine *out, mx_error *err);
void engine_close(tool_engine *engine); /* takes a zeroed one, too */

/* ---- Progress: a bar on a terminal, nothing else ---- */

typedef struct tool_progress {
    int enabled;
    int64_t total, done;
    double last; /* when it was drawn */
} tool_progress;

double tool_now(void); /* monotonic seconds */
void progress_init(tool_progress *progress, int64_t total, int quiet);
void progress_add(tool_progress *progress, int64_t amount, const char *label);
void progress_clear(tool_progress *progress);

/* ---- Tables ---- */

typedef struct tool_table tool_table;

/* `heads`: one a column, NULL ends; a head that starts with '<' is left-aligned. */
tool_table *table_create(const char *const *heads);
void table_cell(tool_table *table, const char *format, ...) MX_PRINTF(2, 3);
void table_print(const tool_table *table, FILE *out);
void table_destroy(tool_table *table);

/* "4096x4096" (or "scalar"), in `out`, which is returned. */
#define TOOL_SHAPE_BYTES 128
const char *tool_shape_text(size_t ndim, const int64_t *shape, char out[TOOL_SHAPE_BYTES]);

#endif
