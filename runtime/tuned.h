/* Measurements of one table's variants, read from the tuning files when the table is built, and the
 * choice by them. Tables of block operations and of products share all of it; they differ in their
 * buckets. */
#ifndef MXRT_TUNED_H
#define MXRT_TUNED_H

#include "runtime/kernel_table.h"
#include "runtime/tune_file.h"

enum { MXRT_BUCKET_NEAREST = 3 };

/* What a bucket is made of: a letter for each number. The first n_near say how large a problem is
 * and may be near those of another; the rest must be the same. */
typedef struct mxrt_bucket_form {
    const char *letters;
    int n_near;
} mxrt_bucket_form;

enum { MXRT_BUCKET_NUMBERS = 8 };

/* How alike two problems are for tuning: mxgen/tune.h. */
typedef struct mxrt_bucket {
    const mxrt_bucket_form *form;
    int numbers[MXRT_BUCKET_NUMBERS]; /* 0 past the form's letters */
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

/* The power of two below it; 0 below 2. */
static inline int mxrt_floor_log2(int64_t value)
{
    return value > 0 ? 63 - __builtin_clzll((unsigned long long)value) : 0;
}

extern const mxrt_bucket_form mxrt_bucket_blocks;

void mxrt_bucket_of(mx_op op, mx_format format, const int64_t values[MXRT_VAR_COUNT],
                    mxrt_bucket *out);
void mxrt_bucket_text(const mxrt_bucket *bucket, char *text, size_t text_bytes);
/* 0: the same; -1: too far apart to learn from. Of one form. */
int mxrt_bucket_distance(const mxrt_bucket *a, const mxrt_bucket *b);

/* Whether the device counts instead of taking time. */
int mxrt_tuned_counts(const mxrt_device *device);
/* "gfx942:sramecc+:xnack-/304", with " counted" after it if it does. */
void mxrt_tuned_device(const mxrt_device *device, char *text, size_t text_bytes);

/* Of a key: device, driver, protocol, bucket, variant and layout; the rest is zero. */
void mxrt_tuned_key_begin(const mxrt_device *device, const mxrt_bucket *bucket,
                          const mxrt_variant *variant, mxrt_tune_row *row);

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

/* Whose variants the rows are about. `find` gives the index of a variant whose name and code are
 * these, or -1. */
typedef struct mxrt_tuned_subject {
    const mxrt_bucket_form *form;
    int (*find)(const void *table, const char *name, const char *code);
    const void *table;
} mxrt_tuned_subject;

/* What the files know of the subject; the filter has all but device and driver. NULL if that is
 * nothing. Never fails: what cannot be read is told to the log, and missing. */
mxrt_tuned *mxrt_tuned_load(mxrt_device *device, const mxrt_tune_filter *filter,
                            const mxrt_tuned_subject *subject);
/* The same for a table of block operations, into it. */
void mxrt_tuned_read(mxrt_device *device, mxrt_kernel_table *table);
/* With all that come next; takes NULL. */
void mxrt_tuned_free(mxrt_tuned *tuned);

/* ---- Choosing ---- */

typedef struct mxrt_tuned_best {
    uint32_t variant, second; /* `second` only if has_second */
    int has_second;
    double ms, second_ms;
    mxrt_bucket from; /* where they were measured */
} mxrt_tuned_best;

/* The two fastest that apply, of the wanted bucket or else of the nearest that has any; 0: none. */
int mxrt_tuned_search(const mxrt_tuned *tuned, const mxrt_bucket *wanted,
                      int (*applies)(void *user, uint32_t variant), void *user,
                      mxrt_tuned_best *out);

/* Adds to a choice where it comes from. `runner_up` is the name of `second`, or NULL. */
void mxrt_choice_measured(const mxrt_tuned_best *found, const mxrt_bucket *wanted,
                          const char *runner_up, mxrt_choice *choice);

#endif
