/* The formats in plain C: what every kernel is compared with, and what runs on the host when there
 * is no kernel. Any number of dimensions, any strides, 64-bit offsets. */
#ifndef MXRT_REFERENCE_H
#define MXRT_REFERENCE_H

#include "runtime/problem.h"

/* Runs blocks begin .. end-1 in the calling thread, which must be in the default floating-point
 * environment (mxrt_fenv_enter). Different blocks may run in different threads at once. */
void mxrt_reference_blocks(const mxrt_problem *problem, int64_t begin, int64_t end);

/* The part of it for the OCP formats. */
void mxrt_reference_ocp_blocks(const mxrt_problem *problem, int64_t begin, int64_t end);

/* All of a request on CPU tensors, in the calling thread. The variant is not looked at. */
mx_status mxrt_reference_run(const mxrt_plan_request *request, mx_error *err);

#endif
