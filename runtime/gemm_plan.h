/* A plan of one product, inside. */
#ifndef MXRT_GEMM_PLAN_H
#define MXRT_GEMM_PLAN_H

#include "runtime/device.h"

struct mxrt_gemm_plan {
    mxrt_device *device;
    mxrt_gemm_problem problem;
    mxrt_gemm_selection selection; /* without a route: the reference, or nothing */
    int has_launch;
    int is_zero;        /* nothing is multiplied: out is cleared */
    int copies_offsets; /* from the host into the workspace */
    int64_t own_bytes;  /* where the runtime's part of the workspace begins, after the kernels' */
    int64_t workspace_bytes;
};

/* A plan of a problem by a route that applies, or by the reference, without one. */
mx_status mxrt_gemm_plan_set(mxrt_gemm_plan *plan, mxrt_device *device,
                             const mxrt_gemm_problem *problem, const mxrt_gemm_selection *selection,
                             mx_error *err);

#endif
