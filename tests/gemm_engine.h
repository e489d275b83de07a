/* Cases of grouped GEMM for any device: the reference, kernels of the host, simulated and real
 * chips. Each is compared with a product in double of operands that are decoded here, and checked
 * for bytes that must not change. Values depend on the case alone, not on the machine. */
#ifndef GEMM_ENGINE_H
#define GEMM_ENGINE_H

#include <mxgen/gemm.h>

#define GEMM_MAX_GROUPS 12

typedef enum gemm_values {
    GEMM_VALUES_SIGNED = 0,
    GEMM_VALUES_POSITIVE, /* hides no error of accumulation */
    GEMM_VALUES_SPREAD,   /* scales 2^-50 .. 2^50, each block its own */
    GEMM_VALUES_OPPOSED,  /* left's small blocks, down to 2^-100, meet right's large ones */
    GEMM_VALUES_INTEGERS, /* -2 .. 2: the sums are exact */
    GEMM_VALUES_OPPOSED_NEAR, /* by up to 2^7; blocks have the numbers that quantisation makes */
    GEMM_VALUES_COUNT
} gemm_values;

/* Of `flags`. */
enum {
    GEMM_PADDED = 1, /* gemm_rows: read ranges end at multiples of 32; gemm_cols: at 128, and the
                        scales of padding are any bytes */
    GEMM_TRANSPOSED = 2,   /* scales of both operands */
    GEMM_ACCUMULATE = 4,   /* not for f16 */
    GEMM_LARGE_SCALES = 8, /* more rows and blocks of scales than needed, which are NaN */
    GEMM_STRIDED = 16,     /* gaps between rows and groups, odd addresses */
    GEMM_HOST_OFFSETS = 32,
    GEMM_UNOWNED = 64,   /* gemm_rows: rows of out after the last group */
    GEMM_ODD_ROWS = 128, /* rows of out are not aligned to 16 bytes */
    GEMM_GAPS = 256      /* 16 bytes between rows and groups, 8 elements between those of out */
};

typedef struct gemm_case {
    const char *name;
    mx_gemm_pass pass;
    int n_groups;
    int64_t sizes[GEMM_MAX_GROUPS]; /* rows, or contraction: multiples of 32 unless PADDED */
    int64_t n, k;                   /* gemm_cols: rows of left, of right */
    unsigned flags;
    int num_cu;
    gemm_values values;
} gemm_case;

/* What a case is run with. */
typedef struct gemm_kind {
    mx_gemm_element left, right;
    mx_dtype dtype;
    mx_gemm_mode mode;
} gemm_kind;

typedef struct gemm_outcome {
    double error, limit; /* relative, Frobenius */
    char text[1200];     /* what is wrong */
} gemm_outcome;

typedef enum gemm_verdict { GEMM_OK = 0, GEMM_WRONG, GEMM_NOT_APPLICABLE } gemm_verdict;

size_t gemm_case_count(void);
const gemm_case *gemm_case_at(size_t index); /* NULL past the end */
const char *gemm_values_name(gemm_values values);

/* Runs the variant (NULL: the chosen one) twice. */
gemm_verdict gemm_case_run(mxrt_device *device, const gemm_case *c, const gemm_kind *kind,
                           const char *variant, gemm_outcome *out);

/* Offsets in device memory that are wrong in every way: the status says so, and nothing outside out
 * changes. */
gemm_verdict gemm_bad_offsets_run(mxrt_device *device, mx_gemm_pass pass, const gemm_kind *kind,
                                  const char *variant, gemm_outcome *out);

/* Names of the variants for which the kind has kernels on the device, found with a case that
 * kernels like; at most `capacity`. */
mx_status gemm_variants(mxrt_device *device, mx_gemm_pass pass, const gemm_kind *kind,
                        const char **names, size_t capacity, size_t *n, mx_error *err);

#endif
