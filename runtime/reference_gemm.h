/* Grouped GEMM in plain C: what every kernel is compared with, and what runs on the host when there
 * is no kernel. Operands decode exactly to double, sums are formed in double in the order of the
 * contraction, and rounded to f32 and then to the type of out. */
#ifndef MXRT_REFERENCE_GEMM_H
#define MXRT_REFERENCE_GEMM_H

#include "runtime/gemm_problem.h"

/* Writes the status word, if there is one. */
void mxrt_reference_gemm_status(const mxrt_gemm_problem *problem);

/* Tiles of out; each may run in another thread. */
int64_t mxrt_reference_gemm_count(const mxrt_gemm_problem *problem);
void mxrt_reference_gemm_tiles(const mxrt_gemm_problem *problem, int64_t begin, int64_t end);

#endif
