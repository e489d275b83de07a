/* What the library itself wants of tuning files beyond mxgen/tune.h. */
#ifndef MXRT_TUNE_FILE_H
#define MXRT_TUNE_FILE_H

#include <mxgen/tune.h>

enum {
    MXRT_TUNE_WRITE = 1,
    MXRT_TUNE_SNAPSHOT = 2 /* all calls until closing see one state; nobody writes meanwhile */
};

/* As mxrt_tune_open, but waits no longer than so many milliseconds for another process that writes,
 * in this and in all later calls on the file. */
mx_status mxrt_tune_open_within(const char *path, unsigned flags, int busy_ms, mxrt_tune_file **out,
                                mx_error *err);

/* Rows of one subject by bucket; in each, rows of the better protocol first, then the fastest byte;
 * none without samples. `fn` says in *enough, which is 0 before, that it wants no more of this
 * bucket. The filter has op, format, dtype, profile, device and driver, all of them, and nothing
 * else. Damaged rows as with mxrt_tune_each, among those that were looked at. */
typedef mx_status (*mxrt_tune_best_fn)(void *user, const mxrt_tune_row *row, int *enough,
                                       mx_error *err);
mx_status mxrt_tune_best(mxrt_tune_file *file, const mxrt_tune_filter *filter, mxrt_tune_best_fn fn,
                         void *user, int64_t *n_damaged, mx_error *err);

#endif
