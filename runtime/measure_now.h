/* MXRT_POLICY_MEASURE: measures the kernels that apply to a problem, at once and within a budget.
 */
#ifndef MXRT_MEASURE_NOW_H
#define MXRT_MEASURE_NOW_H

#include "runtime/device.h"

/* Measures unless something is known of the problem's bucket already, the stream or the default
 * stream captures a graph, or the device cannot run. What is found decides from then on: it is
 * added to the table, and to the user's tuning file. Never fails: why nothing was measured is told
 * to the log. Threads take turns. */
void mxrt_measure_now(mxrt_device *device, mxrt_kernel_table *table, const mxrt_problem *problem,
                      const mxrt_select_how *how);
void mxrt_measure_gemm_now(mxrt_device *device, mxrt_gemm_table *table,
                           const mxrt_gemm_problem *problem, const mxrt_select_how *how);

/* ---- What the two have in common, and what differs ---- */

#define MXRT_TRIAL_POISON 0xa5

typedef struct mxrt_trial_candidate {
    uint32_t variant; /* in its table */
    int is_first;     /* the model's choice */
    double score;     /* the model's */
    double ms;        /* the least of the samples */
    int samples, repeat;
} mxrt_trial_candidate;

/* One measurement. */
typedef struct mxrt_trial {
    const struct mxrt_trial_family *family;
    void *state; /* the family's */
    mxrt_device *device;
    mxrt_stream stream;
    double budget_us;
    int counts;       /* the device counts instead of taking time */
    const char *what; /* "to mx9 f32" */
    int64_t bytes;    /* as in mxrt_tune_row */
    _Atomic(mxrt_tuned *) *tuned;
    mxrt_bucket bucket;
    uint32_t running;
    double end_ms;
    mxrt_trial_candidate *candidates; /* the model's choice first */
    size_t n;
    unsigned char *expected, *found; /* outputs, output_bytes long; made by `prepare` */
    size_t output_bytes;
} mxrt_trial;

typedef struct mxrt_trial_family {
    /* Whether this bucket was measured. */
    int (*is_known)(const mxrt_trial *trial);
    /* Fills candidates[n] but for samples; they are freed by the caller. */
    mx_status (*list)(mxrt_trial *trial, mx_error *err);
    /* Memory of its own for all that is written. */
    mx_status (*prepare)(mxrt_trial *trial, mx_error *err);
    mx_status (*launch)(const mxrt_trial *trial, uint32_t variant, mxrt_stream stream,
                        mx_error *err);
    /* What is in `out` goes to the device before, what is there comes to it after a launch. */
    mx_status (*upload)(const mxrt_trial *trial, unsigned char *out, mx_error *err);
    mx_status (*download)(const mxrt_trial *trial, unsigned char *out, mx_error *err);
    /* Whether `found` is as good as `expected`. */
    int (*is_same)(const mxrt_trial *trial);
    void (*key)(const mxrt_trial *trial, uint32_t variant, mxrt_tune_row *row);
    const char *(*name)(const mxrt_trial *trial, uint32_t variant);
    /* The table's rows have changed; NULL: nobody remembers. */
    void (*changed)(const mxrt_trial *trial);
    void (*finish)(mxrt_trial *trial);
} mxrt_trial_family;

/* Runs it all. */
void mxrt_trial_run(mxrt_trial *trial);

/* Memory as well aligned as the caller's, and not better: *out, in *base, which the backend frees.
 */
mx_status mxrt_trial_alloc(mxrt_device *device, const mxrt_buffer *like, void **base, void **out,
                           mx_error *err);

#endif
