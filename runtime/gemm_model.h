/* The static model of grouped GEMM: how long a route would take, by what it moves and multiplies.
 */
#ifndef MXRT_GEMM_MODEL_H
#define MXRT_GEMM_MODEL_H

#include "runtime/gemm_table.h"

/* What the first in preference must lose by before another takes its place. */
#define MXRT_GEMM_MODEL_MARGIN 0.97

/* Sets the tile and the kind of a route whose kernels are there, from the pack's params: a tile of
 * BLOCK_SIZE_M x BLOCK_SIZE_N, 128 where they are not; without steps before it and without
 * BLOCK_SIZE_K, a kernel that streams. */
void mxrt_gemm_model_init(const char *params_json, mxrt_gemm_route *route);

/* Of packed operands, and of the result, which is read, too, to be added to. */
typedef struct mxrt_gemm_bytes {
    double left, right, result;
} mxrt_gemm_bytes;

mxrt_gemm_bytes mxrt_gemm_model_bytes(const mxrt_gemm_problem *problem);

/* Seconds, on a chip of the target with `num_cu` units at work. Rows of groups are taken as evenly
 * spread, each group padded to whole tiles, the tiles to whole rounds. */
double mxrt_gemm_model_seconds(const char *target, const mxrt_gemm_problem *problem,
                               const mxrt_gemm_selection *selection, int64_t num_cu);

#endif
