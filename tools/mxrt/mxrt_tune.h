/* mxrt tune: a parent that hands out problems and writes the report, and a child that has the
 * device and measures, so that a kernel that hangs or faults takes no more than itself along. */
#ifndef MXRT_TUNE_H
#define MXRT_TUNE_H

#include <stdio.h>

#include "mxrt_point.h"

enum { TUNE_MAX_SHAPES = 256, TUNE_MAX_VARIANTS = 512, TUNE_NAME_BYTES = 192 };

typedef struct tune_options {
    engine_options engine;
    unsigned ops, formats, dtypes; /* bits */
    mx_case shapes[TUNE_MAX_SHAPES];
    int n_shapes, axis;
    double seconds;           /* for a finalist */
    double budget_s, limit_s; /* of the whole; of a variant until it answers */
    int shard, n_shards, again, quiet;
    const char *file, *json, *html;
} tune_options;

/* A variant of a problem, as the parent knows it. */
typedef struct tune_result {
    char variant[TUNE_NAME_BYTES], note[TUNE_NAME_BYTES];
    double ms, spread;
    int64_t samples;
} tune_result;

typedef struct tune_problem {
    mx_op op;
    mx_format format;
    mx_dtype dtype;
    const mx_case *shape;
    int64_t bytes;
    char model[TUNE_NAME_BYTES]; /* the model's choice */
    char error[1024];            /* why nothing was measured, or "" */
    int n_results;
    tune_result results[TUNE_MAX_VARIANTS];
} tune_problem;

/* Runs in the child: measures what `problem` has no result for and writes lines to `out`. Names in
 * problem->results that have a note did not come back and are not run again. Returns the exit
 * status. */
int tune_child(const tune_options *options, const tune_problem *problem, double deadline,
               FILE *out);

/* The fastest; NULL without any. */
const tune_result *tune_best(const tune_problem *problem);
const tune_result *tune_find(const tune_problem *problem, const char *variant);

mx_status tune_write_json(const char *path, const char *device, const tune_problem *problems, int n,
                          mx_error *err);
mx_status tune_write_page(const char *path, const char *device, const tune_problem *problems, int n,
                          mx_error *err);

#endif
