/* A checked and canonical form of one grouped GEMM (mxgen/gemm.h): what the reference, the rules of
 * kernels and their arguments look at. */
#ifndef MXRT_GEMM_PROBLEM_H
#define MXRT_GEMM_PROBLEM_H

#include <mxgen/gemm.h>

#include "runtime/gemm_vars.h"
#include "runtime/pack_reader.h"
#include "runtime/problem.h"

/* Where the rows of an operand lie, in bytes; dimensions of size 1 have the strides of packed ones.
 */
typedef struct mxrt_gemm_operand {
    mx_gemm_element element;
    int64_t row_stride, group_stride;
    int64_t scale_row_stride, scale_block_stride, scale_group_stride;
} mxrt_gemm_operand;

typedef struct mxrt_gemm_problem {
    mx_gemm_pass pass;
    mx_gemm_mode mode;
    mx_dtype dtype;
    int accumulate, host_offsets;
    int write_is_read;                 /* there are no write offsets of their own */
    int num_cu;                        /* at most; 0: no limit */
    int64_t groups, m, n, k, out_rows; /* as the variables of mxgen/pack.h */
    mxrt_gemm_operand left, right;
    int64_t out_row_stride, out_group_stride; /* elements */
    /* Those that are not there have no data; those that are empty may have none. */
    mxrt_buffer buffers[MXRT_GEMM_BUFFER_COUNT];
} mxrt_gemm_problem;

/* Checks the request (but its variant) and fills *out. With `null_ok` data may be NULL.
 * Neither allocates nor keeps pointers to the tensors. */
mx_status mxrt_gemm_problem_init(mxrt_gemm_problem *out, const mxrt_gemm_request *request,
                                 DLDevice device, int null_ok, mx_error *err);

/* Replaces addresses that are not NULL, and checks them as init does; the workspace is set. */
mx_status mxrt_gemm_problem_rebind(mxrt_gemm_problem *problem, const mxrt_gemm_buffers *buffers,
                                   mx_error *err);

/* Offsets on the host, which are read. */
mx_status mxrt_gemm_problem_check_offsets(const mxrt_gemm_problem *problem, mx_error *err);

/* Nonzero if out has no element. */
static inline int mxrt_gemm_problem_is_empty(const mxrt_gemm_problem *problem)
{
    if (problem->pass == MX_GEMM_ROWS)
        return !problem->out_rows || !problem->n;
    return !problem->groups || !problem->n || !problem->k;
}

/* Values of the variables, on a device with this many compute units (0: not known). */
void mxrt_gemm_problem_vars(const mxrt_gemm_problem *problem, int compute_units,
                            int64_t values[MXRT_GEMM_VAR_COUNT]);

#endif
