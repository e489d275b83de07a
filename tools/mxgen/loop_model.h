/* How busy a kernel's main loop keeps the matrix unit: a model of one SIMD, not a measurement.
 *
 * What is assumed of a compute unit of AMD's CDNA chips (the instruction set documents of CDNA2, 3
 * and 4; latencies of memory as others measured them):
 * - Each of its four SIMDs issues, every 4 cycles, at most one instruction of a wave, in order, and
 * at most one each of its waves' vector or matrix, scalar, LDS, memory and other instructions.
 * Waits that are over and s_nop take such a turn, too.
 * - A matrix instruction keeps the SIMD's matrix unit for its passes of 4 cycles; vector
 * instructions go on meanwhile. A sum may be added to again at once; other readers wait for 4
 * passes more.
 * - The LDS serves the four SIMDs in turn, 128 bytes a cycle, what it read arrives 128 cycles
 * later; no bank conflicts (mxrt bench counts them on the simulator).
 * - So does the first-level cache, 64 bytes a cycle; accesses below 16 bytes a lane take a line,
 * and so a cycle, a lane. Loads arrive 800 cycles later, constants 200.
 * - A workgroup a unit, as persistent kernels are launched; the other SIMDs do what this one does.
 *   A barrier holds a wave until all of its SIMD's waves are there, and 16 cycles.
 * - Branches within the loop are not taken, but for those that always are (s_branch,
 * s_cbranch_execnz). */
#ifndef MXGEN_LOOP_MODEL_H
#define MXGEN_LOOP_MODEL_H

#include "gen/disasm.h"

typedef struct loop_figures {
    size_t begin, end; /* instructions [begin, end) */
    int products, vector, scalar, lds_reads, lds_writes, loads, stores, barriers, nops;
    int narrow_lds, narrow_loads; /* of those, below 16 bytes a lane */
    int scratch;                  /* accesses to memory of a lane's own */
    int spilled;                  /* scalars fetched from or put into lanes of a vector register */
    int product_cycles;           /* of one wave's products in one round */
    double cycles;                /* of a round, all waves of the SIMD */
    double busy;                  /* of them, the matrix unit */
} loop_figures;

/* Whether the chip is one of those above. */
bool loop_model_knows(const mxgen_target *target);
/* The innermost loop with most matrix instructions, of any AMD chip: sets begin and end. */
mx_status loop_model_find(const mxgen_instruction *code, size_t n, loop_figures *out,
                          mx_error *err);
/* What follows instruction `i` of a loop that ends before `end`: jumps that always are taken go on
 * at their target, others in the next line. */
size_t loop_model_after(const mxgen_instruction *code, size_t i, size_t end);
/* The other figures of a loop that was found; `waves` of a workgroup. Chips: see above. */
mx_status loop_model_run(const mxgen_target *target, const mxgen_instruction *code, int waves,
                         loop_figures *figures, mx_error *err);

#endif
