/* The static model of grouped GEMM: how long a route would take, by what it moves and multiplies.
 */
#ifndef MXRT_GEMM_MODEL_H
#define MXRT_GEMM_MODEL_H

#include "runtime/gemm_table.h"

/* What the first in preference must lose by before another takes its place: the estimate is coarser
 * than the order of kernels of one template. */
#define MXRT_GEMM_MODEL_MARGIN 0.8

/* The tile of a kernel, from the pack's params: BLOCK_SIZE_M, BLOCK_SIZE_N; 128 where they are not.
 */
void mxrt_gemm_model_tile(const char *params_json, int64_t *rows, int64_t *columns);

/* Of packed operands, each read once, and of the result, which is read, too, to be added to. */
void mxrt_gemm_model_bytes(const mxrt_gemm_problem *problem, double *packed, double *result);

/* Seconds, on a chip of the target with `num_cu` units at work. Prepared routes read the packed
 * operands, write them decoded, and multiply from there; direct ones (without steps before) decode
 * in each tile, which small tiles share among few products. Rows of groups are taken as evenly
 * spread, each group padded to whole tiles, the tiles to whole rounds. */
double mxrt_gemm_model_seconds(const char *target, const mxrt_gemm_problem *problem,
                               const mxrt_gemm_selection *selection, int64_t num_cu);

#endif
