/* Measurements of one kernel table's variants, read from the tuning files when the table is built.
 */
#ifndef MXRT_TUNED_H
#define MXRT_TUNED_H

#include "runtime/kernel_table.h"
#include "runtime/tune_file.h"

enum { MXRT_BUCKET_NEAREST = 3 };

/* How alike two problems are for tuning: mxgen/tune.h. */
typedef struct mxrt_bucket {
    int blocks_log2, row_log2, align, is_ragged, n_dims, memory;
} mxrt_bucket;

typedef struct mxrt_tuned_row {
    mxrt_bucket bucket;
    uint32_t variant; /* index in the table */
    int protocol;
    double ms;
    int64_t bytes;
} mxrt_tuned_row;

/* Rows of one bucket lie together: those of the better protocol first, then the fastest byte. Never
 * changed once it is in a table; what is measured later comes before it. */
struct mxrt_tuned {
    struct mxrt_tuned *next;
    size_t n;
    mxrt_tuned_row *rows;
};

void mxrt_bucket_of(mx_op op, mx_format format, const int64_t values[MXRT_VAR_COUNT],
                    mxrt_bucket *out);
void mxrt_bucket_text(const mxrt_bucket *bucket, char *text, size_t text_bytes);
/* 0: the same; -1: too far apart to learn from. */
int mxrt_bucket_distance(const mxrt_bucket *a, const mxrt_bucket *b);

/* Whether the device counts instead of taking time. */
int mxrt_tuned_counts(const mxrt_device *device);
/* "gfx942:sramecc+:xnack-/304", with " counted" after it if it does. */
void mxrt_tuned_device(const mxrt_device *device, char *text, size_t text_bytes);

/* The key of a measurement, layout and bytes; the rest is zero. */
void mxrt_tuned_key(const mxrt_device *device, const mxrt_problem *problem,
                    const mxrt_variant *variant, mxrt_tune_row *row);

/* The log is told once of a context that a file is bad, by its place: 0 for the user's, then the
 * system's in their order. */
int mxrt_tuned_is_news(mxrt_device *device, int place);

/* Rows to be read from the tuning files: the system's, then the user's. `begin` comes before each
 * file; device and driver of the filter are filled in. */
typedef struct mxrt_tuned_reading {
    mxrt_tune_filter filter;
    void (*begin)(void *user);
    mxrt_tune_best_fn take;
    void *user;
} mxrt_tuned_reading;

/* Never fails: what cannot be read is told to the log, and missing. */
void mxrt_tuned_files(mxrt_device *device, const mxrt_tuned_reading *reading);

/* Reads what the files know of the table's variants. Never fails: what cannot be read is told to
 * the log, and missing. */
void mxrt_tuned_read(mxrt_device *device, mxrt_kernel_table *table);
/* With all that come next; takes NULL. */
void mxrt_tuned_free(mxrt_tuned *tuned);

#endif
