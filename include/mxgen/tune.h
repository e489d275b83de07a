/* Tuning files: what was measured of kernels, kept for later choices.
 *
 * A tuning file is one SQLite file (application_id MXTUNE_APPLICATION_ID, user_version
 * MXTUNE_VERSION) with one row a measurement. A row's key says what was measured: operation,
 * format, dtype, profile, the bucket of the problem's shape, the device (chip with features,
 * compute units, driver), the protocol by which it was timed, the variant and the identity of its
 * code. A variant that is changed or added gets other keys, so that the rows of all others stay
 * valid.
 *
 * Buckets. Problems of like shape share a bucket, a text such as "n20 l9 a16 r0 d1 m0": the powers
 * of two below the number of blocks and below the blocks of a row; the alignment of the plain
 * tensors, at most 16; whether rows end within a block; the row dimensions left after merging; the
 * memory, 1 where neighbours along the axis are apart plus 2 where packed bytes have gaps. The
 * nearest bucket of a problem differs in the first two only, by 3 at most in sum.
 *   Of products (mxgen/gemm.h) op is the pass, format LEFT.RIGHT, dtype that of out, profile the
 * problem's mode, and a bucket "g3 m11 n12 k12 a16 t0 c0 u132": the powers of two below the groups,
 * the rows (gemm_cols: the contraction) of one, N and K; the alignment of operands and out, at most
 * 16; transposed scales, 1 of left plus 2 of right; accumulation; the units in use. The first four
 * may differ. The code is that of all kernels that are launched.
 *
 * Files. The runtime reads system files (MXRT_TUNE_SYSTEM, a list with colons) and the user's file
 * (mxrt_context_options.tune_file, else MXRT_TUNE_FILE, else mxgen/tune.mxtune in the user's cache
 * folder); rows of the user's win. Set but empty stands for none. Files are opened for the moment
 * of a read or a write, with SQLite's rollback journal, so that many processes and hosts may use
 * one at once; a commit that was made survives the death of the process.
 *
 * Versions. Version 2 has an index of version 1's rows, by which the best of a bucket are read
 * without the rest. A file of version 1 is read as it is, and gets the index, at once and for good,
 * when it is opened for writing. What is newer than this library is refused and left alone.
 *
 * Damage. The runtime never fails for a tuning file: what cannot be read is a miss and one line in
 * the log; a damaged file of the user is moved aside when something is written next.
 *
 * Threads. A mxrt_tune_file serves one thread at a time; files, any number. Errors as in rt.h. */
#ifndef MXGEN_TUNE_H
#define MXGEN_TUNE_H

#include <mxgen/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MXTUNE_APPLICATION_ID 0x4d58544e /* "MXTN" */
#define MXTUNE_VERSION 2

/* How mxrt tune times a kernel; rows of another protocol do not compare. Version 1: one warm-up,
 * inputs rotated past the caches, samples of at least 0.5 ms, their median. */
#define MXTUNE_PROTOCOL 1
/* How MXRT_POLICY_MEASURE does: on the caller's input and with the caches as they are, samples of
 * 50 us, the least. A bucket that has rows of MXTUNE_PROTOCOL is decided by them. */
#define MXTUNE_PROTOCOL_NOW 2
/* Where the driver counts instead of taking time (mxgen/counters.h): `ms` is mxrt_counters_ms of one
 * run. Rows of such devices have " counted" in their device's text. */
#define MXTUNE_PROTOCOL_COUNTS 3

/* Texts are at most MXTUNE_TEXT_BYTES - 1 long. */
#define MXTUNE_TEXT_BYTES 192

typedef struct mxrt_tune_row {
    /* The key. */
    char op[16], format[24], dtype[16], profile[24], bucket[64];
    char device[MXTUNE_TEXT_BYTES]; /* "gfx942:sramecc+:xnack-/304" */
    char driver[32];                /* "12080"; "" on the host */
    char variant[MXTUNE_TEXT_BYTES];
    char code[20]; /* the pack's info.code */
    int64_t protocol;
    /* The measurement. */
    char layout[16];
    char shape[96];    /* what was measured, for people: "4096x4096 axis -1" */
    int64_t bytes;     /* that must move; of products, one more for each 256 operations */
    int64_t samples;   /* timed; 0: the variant failed, `note` says how */
    double ms, spread; /* median; half the distance between the quartiles, by the median */
    int64_t time_s;    /* since 1970 */
    char note[MXTUNE_TEXT_BYTES];
} mxrt_tune_row;

typedef struct mxrt_tune_file mxrt_tune_file;

/* The user's file as above; MX_ERR_NOT_FOUND if there is none to be used. */
MX_API mx_status mxrt_tune_default_path(char *path, size_t path_bytes, mx_error *err);

/* Read only, or made if it is not there, with its folder. A damaged file is MX_ERR_CORRUPT, another
 * program's MX_ERR_INVALID, one of a newer version MX_ERR_UNSUPPORTED. */
MX_API mx_status mxrt_tune_open(const char *path, int may_write, mxrt_tune_file **out,
                                mx_error *err);
MX_API void mxrt_tune_close(mxrt_tune_file *file); /* takes NULL */
/* Moves a damaged file to PATH.damaged (replacing an earlier one). */
MX_API mx_status mxrt_tune_move_aside(const char *path, mx_error *err);

/* What became of a row. */
typedef enum mxrt_tune_outcome {
    MXRT_TUNE_ADDED = 0,
    MXRT_TUNE_REPLACED, /* a row of the same key that was measured less well */
    MXRT_TUNE_KEPT      /* the row that was there is as good */
} mxrt_tune_outcome;

/* Commits one row at once. Of two measurements of one key the one with more samples stays; of
 * equals, and with `force`, the one given here. `outcome` may be NULL. */
MX_API mx_status mxrt_tune_put(mxrt_tune_file *file, const mxrt_tune_row *row, int force,
                               mxrt_tune_outcome *outcome, mx_error *err);

/* Which rows; NULL: any. */
typedef struct mxrt_tune_filter {
    const char *op, *format, *dtype, *profile, *device, *driver, *bucket, *variant;
    int64_t protocol;     /* 0: any */
    int64_t older_than_s; /* 0: any; else rows with time_s below it */
} mxrt_tune_filter;

/* Called for each row in the order of keys; another status than MX_OK ends the walk, and is
 * returned. Rows whose checksum does not hold are passed over and counted in *n_damaged, which may
 * be NULL. */
typedef mx_status (*mxrt_tune_row_fn)(void *user, const mxrt_tune_row *row, mx_error *err);
MX_API mx_status mxrt_tune_each(mxrt_tune_file *file, const mxrt_tune_filter *filter,
                                mxrt_tune_row_fn fn, void *user, int64_t *n_damaged, mx_error *err);

/* Removes rows, and those whose checksum does not hold if `damaged`; the count goes to *n, which
 * may be NULL. An empty filter removes no row but the damaged. */
MX_API mx_status mxrt_tune_remove(mxrt_tune_file *file, const mxrt_tune_filter *filter, int damaged,
                                  int64_t *n, mx_error *err);

#ifdef __cplusplus
}
#endif
#endif
