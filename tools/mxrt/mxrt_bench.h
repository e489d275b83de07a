/* What bench has in common for all that it measures. */
#ifndef MXRT_BENCH_H
#define MXRT_BENCH_H

#include "mxrt_tool.h"

enum { BENCH_MAX_NAMES = 256 };

typedef struct bench_common {
    engine_options engine;
    const char *variant; /* NULL: as the subcommand likes it */
    double seconds;
    int json;
} bench_common;

/* Options --variant, --seconds and --json, and those of the engine; no arguments. The input is a
 * bench_common. */
extern const struct argp bench_argp;

/* Prints the device and the rows, if anything was measured, and releases them. Takes NULL. */
void bench_print(const tool_engine *engine, tool_table *rows, int n_measured);

#endif
