/* mxrt tune: a parent that hands out problems and writes the report, and a child that has the
 * device and measures, so that a kernel that hangs or faults takes no more than itself along. */
#ifndef MXRT_TUNE_H
#define MXRT_TUNE_H

#include <stdio.h>

#include "mxrt_problems.h"
#include "mxrt_products.h"

enum { TUNE_MAX_VARIANTS = 512, TUNE_NAME_BYTES = 192 };

typedef struct tune_options {
    engine_options engine;
    int is_gemm; /* products, else problems */
    tool_problems problems;
    tool_products products;
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
    const tool_problem *blocks;  /* or */
    const tool_product *product; /* not NULL */
    /* What it is called; op is the pass of a product, detail "axis -1" or its mode. */
    char op[16], format[24], dtype[8], shape[TOOL_SHAPE_BYTES], detail[16];
    int64_t bytes;
    double work;                 /* by milliseconds: GB/s; of a product TFLOP/s */
    char model[TUNE_NAME_BYTES]; /* the model's choice */
    char error[1024];            /* why nothing was measured, or "" */
    int n_results;
    tune_result results[TUNE_MAX_VARIANTS];
} tune_problem;

/* Runs in the child: measures the problems from `first` on, what they have no result for, and
 * writes lines to `out`, each of a letter and what belongs to it. "D name" tells the device; then,
 * for each problem, "P index" when it begins, "B bytes work" of it, "C name" of the model's
 * choice, "V name" when a variant begins (which may be the last line), "M name ms spread samples"
 * when it is measured or "F name reason" when it is not used, "E message" if the problem is given
 * up, "Q" when it is done. "R": this process must not use the device any more, another is to go on.
 * "X message": nothing can be measured. "Z": all is done.
 *
 * Names in a problem's results that have a note did not come back and are not run again. Returns
 * the exit status. */
int tune_child(const tune_options *options, const tune_problem *problems, int first, int n,
               double deadline, FILE *out);

/* ---- What the child measures of a family (mxrt_tune_blocks.c, mxrt_tune_gemm.c) ---- */

typedef struct tune_family tune_family;

/* One problem on the device. */
typedef struct tune_subject {
    const tune_family *family;
    const tune_problem *problem;
    const tool_engine *engine, *host; /* the host has the reference */
    int counts;                       /* the device counts instead of taking time */
    int64_t bytes;
    double work; /* as in tune_problem */
    void *state; /* the family's */
} tune_subject;

struct tune_family {
    /* The problem without memory, for keys and choices. Finish in any case. */
    mx_status (*begin)(tune_subject *subject, mx_error *err);
    mx_status (*variants)(const tune_subject *subject, const char **names, size_t capacity,
                          size_t *n, mx_error *err);
    mx_status (*key)(const tune_subject *subject, const char *name, mxrt_tune_row *row,
                     mx_error *err);
    mx_status (*choose)(const tune_subject *subject, mxrt_policy policy, mxrt_choice *choice,
                        mx_error *err);
    /* Memory, what is in it, and what is right. */
    mx_status (*prepare)(tune_subject *subject, mx_error *err);
    /* A variant, ready to run; closed before the subject is finished. */
    mx_status (*open)(tune_subject *subject, const char *name, void **kernel, mx_error *err);
    void (*close)(void *kernel); /* takes NULL */
    /* Runs it once, and tells in `why` what is wrong with its output, "" if nothing is. */
    mx_status (*check)(tune_subject *subject, void *kernel, char *why, size_t why_bytes,
                       mx_error *err);
    mxrt_timed_fn run; /* of a kernel, on the next slot of memory */
    void (*finish)(tune_subject *subject);
};

extern const tune_family tune_blocks, tune_gemm;

/* The fastest; NULL without any. */
const tune_result *tune_best(const tune_problem *problem);
const tune_result *tune_find(const tune_problem *problem, const char *variant);
const char *tune_unit(const tune_problem *problem);                        /* of work by time */
double tune_speed(const tune_problem *problem, const tune_result *result); /* 0 without one */

mx_status tune_write_json(const char *path, const char *device, const tune_problem *problems, int n,
                          mx_error *err);
mx_status tune_write_page(const char *path, const char *device, const tune_problem *problems, int n,
                          mx_error *err);

#endif
