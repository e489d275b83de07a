/* What gemm_engine.c makes and checks on the host, for gemm_device.c to run. */
#ifndef GEMM_RIG_H
#define GEMM_RIG_H

#include "gemm_engine.h"

enum { GEMM_GUARD = 256, GEMM_POISON = 0xa5 }; /* bytes before and after out; what they hold */

/* Rows of codes and scales as kernels see them, and what they mean. */
typedef struct gemm_operand {
    mx_gemm_element element;
    int64_t groups, rows, k; /* groups: 0 without that dimension, else the count + 1 */
    int64_t row_bytes, group_bytes;
    unsigned char *data;
    size_t data_bytes;
    int64_t scale_rows, scale_blocks; /* allocated */
    int transposed;
    unsigned char *scales;
    size_t scales_bytes;
    double *values; /* [groups, rows, k] */
} gemm_operand;

/* A case with its operands, what out holds before and after, and the exact product. */
typedef struct gemm_run {
    mxrt_device *device;
    const gemm_case *c;
    const gemm_kind *kind;
    int64_t groups, m, out_rows, n_columns; /* rows of left (contraction); rows, columns of out */
    int64_t out_groups, out_stride, out_group_stride;
    int64_t read[GEMM_MAX_GROUPS + 1], write[GEMM_MAX_GROUPS + 1];
    gemm_operand left, right;
    size_t out_bytes; /* without guards */
    unsigned char *before, *after, *again;
    double *wanted; /* [out_groups, out_rows, n_columns] */
} gemm_run;

/* The same on a device. */
enum {
    GEMM_LEFT,
    GEMM_LEFT_SCALES,
    GEMM_RIGHT,
    GEMM_RIGHT_SCALES,
    GEMM_OUT,
    GEMM_READ,
    GEMM_WRITE,
    GEMM_STATUS,
    GEMM_WORKSPACE,
    GEMM_BUFFERS
};

typedef struct gemm_tensor {
    DLTensor dl;
    int64_t shape[3], strides[3];
} gemm_tensor;

typedef struct gemm_on_device {
    void *memory[GEMM_BUFFERS];
    gemm_tensor tensors[GEMM_BUFFERS];
    mxrt_gemm_request request;
} gemm_on_device;

/* All but the workspace; to be released in any case. */
mx_status gemm_place_all(gemm_run *r, gemm_on_device *d, mx_error *err);
/* Full of NaN. */
mx_status gemm_place_workspace(gemm_run *r, gemm_on_device *d, const mxrt_gemm_plan *plan,
                               mx_error *err);
void gemm_release(gemm_run *r, gemm_on_device *d);

int64_t gemm_operand_groups(const gemm_operand *o);
int64_t gemm_code_bytes(mx_gemm_element element, int64_t k);

/* Zero if there is no memory; to be finished in any case. Operands depend on the shapes and the
 * kind of values only, not on the sizes of groups. */
int gemm_run_init(gemm_run *r, mxrt_device *device, const gemm_case *c, const gemm_kind *kind);
void gemm_run_finish(gemm_run *r);

/* Sets the text and returns GEMM_WRONG. */
gemm_verdict gemm_wrong(gemm_outcome *out, const char *format, ...) MX_PRINTF(2, 3);

/* Whether the bytes after the run that are no elements of out are as before. */
gemm_verdict gemm_check_gaps(const gemm_run *r, gemm_outcome *out);
/* `after` against the exact product, by the limits of mxgen/gemm.h. */
gemm_verdict gemm_compare(const gemm_run *r, mx_gemm_mode mode, gemm_outcome *out);

#endif
