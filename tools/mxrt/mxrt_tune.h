/* mxrt tune: a parent that hands out problems and writes the report, and a child that has the
 * device and measures, so that a kernel that hangs or faults takes no more than itself along. */
#ifndef MXRT_TUNE_H
#define MXRT_TUNE_H

#include <stdio.h>

#include "mxrt_point.h"
#include "mxrt_problems.h"

enum { TUNE_MAX_VARIANTS = 512, TUNE_NAME_BYTES = 192 };

typedef struct tune_options {
    engine_options engine;
    tool_problems problems;
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
    tool_problem what;
    int64_t bytes;
    char model[TUNE_NAME_BYTES]; /* the model's choice */
    char error[1024];            /* why nothing was measured, or "" */
    int n_results;
    tune_result results[TUNE_MAX_VARIANTS];
} tune_problem;

/* Runs in the child: measures the problems from `first` on, what they have no result for, and
 * writes lines to `out`, each of a letter and what belongs to it. "D name" tells the device; then,
 * for each problem, "P index" when it begins, "B bytes" that it moves, "C name" of the model's
 * choice, "V name" when a variant begins (which may be the last line), "M name ms spread samples"
 * when it is measured or "F name reason" when it is not used, "E message" if the problem is given
 * up, "Q" when it is done. "R": this process must not use the device any more, another is to go on.
 * "X message": nothing can be measured. "Z": all is done.
 *
 * Names in a problem's results that have a note did not come back and are not run again. Returns
 * the exit status. */
int tune_child(const tune_options *options, const tune_problem *problems, int first, int n,
               double deadline, FILE *out);

/* The fastest; NULL without any. */
const tune_result *tune_best(const tune_problem *problem);
const tune_result *tune_find(const tune_problem *problem, const char *variant);

mx_status tune_write_json(const char *path, const char *device, const tune_problem *problems, int n,
                          mx_error *err);
mx_status tune_write_page(const char *path, const char *device, const tune_problem *problems, int n,
                          mx_error *err);

#endif
