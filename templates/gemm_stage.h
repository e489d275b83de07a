/* A K-step of the direct kernel on its way: memory -> registers -> shared memory -> registers. What
 * its main loops share (gemm_loop.c, gemm_pipeline.c). */
#ifndef MXGEN_GEMM_STAGE_H
#define MXGEN_GEMM_STAGE_H

#include "templates/gemm_direct.h"

/* Piece `i` of those that a thread copies, of K-step `step` (uniform i64). */
void gemm_load_copy(mxe *e, const gemm_plan *p, const gemm_lane *lane, int which, int i,
                    mxe_value step, mxe_value words[4]);
/* `stage`: its place in shared memory, i64. */
void gemm_store_copy(mxe *e, const gemm_plan *p, int which, int i, mxe_value stage,
                     const mxe_value words[4]);
mxe_value gemm_stage_at(mxe *e, const gemm_plan *p, mxe_value step);
/* All pieces of a lane's block of turn `turn`; as the matrix unit takes them where it does. */
void gemm_read_block(mxe *e, const gemm_plan *p, const gemm_lane *lane, int which, mxe_value stage,
                     int frag, int slot, int turn, mxe_value *words);

/* What a block's elements become bf16 by: E2M1's table; FP8: the factor, as i32, in [0]. */
void gemm_make_table(mxe *e, const gemm_side *side, mxe_value scale,
                     mxe_value table[MXE_TABLE_WORDS]);
void gemm_fold_octet(mxe *e, const gemm_side *side, const mxe_value *words, const mxe_value *table,
                     int octet, mxe_value *out);

/* The main loop of a plan that is `pipelined`. */
void gemm_pipeline(mxe *e, const gemm_plan *p, const gemm_lane *lane, mxe_value steps,
                   const gemm_sums *sums, const gemm_wild *wild);

#endif
