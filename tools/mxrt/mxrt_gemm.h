/* Products that mxrt bench measures: operands on the device, and how exact a result is. */
#ifndef MXRT_GEMM_TOOL_H
#define MXRT_GEMM_TOOL_H

#include <mxgen/gemm.h>

#include "mxrt_measure.h"

#include "tests/cases.h"

enum { GEMM_MAX_GROUPS = 1024 };

/* The layer's passes: dgrad is gemm_rows with the roles of N and K swapped. */
typedef enum gemm_pass { GEMM_FPROP = 0, GEMM_DGRAD, GEMM_WGRAD, GEMM_PASS_COUNT } gemm_pass;

typedef enum gemm_values {
    GEMM_NORMAL = 0, /* codes at random, scales 2^-2 .. 2^2 */
    GEMM_POSITIVE,   /* the same without signs, which hides no error of accumulation */
    GEMM_SPREAD,     /* scales 2^-50 .. 2^50 */
    GEMM_OPPOSED,    /* small blocks of left meet large ones of right */
    GEMM_VALUES_COUNT
} gemm_values;

/* A layer: groups, rows a group (evenly from `least` to `most`, in some order), N and K. */
typedef struct gemm_shape {
    int64_t groups, least, most, n, k;
} gemm_shape;

typedef struct gemm_operand {
    mx_gemm_element element;
    int64_t groups, rows, contraction; /* groups: 1 where there is no such dimension */
    int64_t data_bytes, scales_bytes;  /* scales: 0 for bf16 */
    unsigned char *data, *scales;      /* on the host, for the check */
} gemm_operand;

/* Memory and tensors of one product. */
typedef struct gemm_problem {
    gemm_pass pass;
    gemm_shape shape;
    gemm_values values;
    mx_dtype dtype;
    int64_t sizes[GEMM_MAX_GROUPS], offsets[GEMM_MAX_GROUPS + 1]; /* rows; with padding */
    int64_t rows, flop_rows; /* of left, or the contraction with its padding; without it */
    gemm_operand left, right;
    measure_ring inputs; /* a slot: left, its scales, right, its scales */
    int64_t starts[4], slot_bytes;
    void *out, *device_offsets, *status;
    int64_t out_shape[3];
    mx_case_tensor tensors[7]; /* left, scales, right, scales, out, offsets, status */
    mxrt_gemm_request request;
} gemm_problem;

const char *gemm_pass_name(gemm_pass pass);
const char *gemm_values_name(gemm_values values);

struct tool_product; /* mxrt_products.h */

/* Of these sizes, without memory; NULL without any for itself. To be finished, then freed. */
gemm_problem *gemm_problem_create(const struct tool_product *product, mx_error *err);
/* Memory and what is in it. `n_slots` 0: as many that none is in a cache when its turn comes again.
 */
mx_status gemm_problem_init(gemm_problem *problem, mxrt_device *device, int n_slots, mx_error *err);
/* The request alone, on addresses where nothing is: for keys and choices, which read no memory. */
mx_status gemm_problem_place(gemm_problem *problem, mxrt_device *device, mx_error *err);
void gemm_problem_finish(gemm_problem *problem, mxrt_device *device);

/* Addresses of a slot, for a run. */
void gemm_problem_buffers(const gemm_problem *problem, int slot, mxrt_gemm_buffers *buffers);

/* For mxrt_device_time: runs the plan on the next slot. */
typedef struct gemm_kernel {
    const mxrt_gemm_plan *plan;
    gemm_problem *problem;
    mxrt_gemm_buffers buffers; /* with the workspace */
} gemm_kernel;
mx_status gemm_kernel_run(void *gemm_kernel, mxrt_stream stream, mx_error *err);

int64_t gemm_problem_out_bytes(const gemm_problem *problem);
int64_t gemm_problem_bytes(const gemm_problem *problem);        /* read and written, each once */
int64_t gemm_problem_weight_bytes(const gemm_problem *problem); /* of right with its scales */
double gemm_problem_flops(const gemm_problem *problem);         /* without padding */

/* Rows of out, spread over all, and the exact product there. */
typedef struct gemm_samples {
    int n;
    int64_t columns;
    int64_t *groups, *rows; /* the row in out is rows[i], in its group's matrix in wgrad */
    double *wanted;         /* [n, columns] */
} gemm_samples;

mx_status gemm_samples_init(gemm_samples *samples, const gemm_problem *problem, int n,
                            mx_error *err);
void gemm_samples_finish(gemm_samples *samples);

/* Relative Frobenius error of out in the sampled rows. */
mx_status gemm_samples_error(const gemm_samples *samples, const gemm_problem *problem,
                             mxrt_device *device, double *out, mx_error *err);

#endif
