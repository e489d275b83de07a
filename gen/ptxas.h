/* PTX -> machine code, by NVIDIA's assembler where the machine has one. */
#ifndef MXGEN_PTXAS_H
#define MXGEN_PTXAS_H

#include "gen/gen.h"

/* Assembles the module of these variants; the cubin's figures are those that ptxas tells of each
 * kernel. Thread-safe. */
mx_status mxgen_ptxas_assemble(const mxgen_ptxas *ptxas, const mxgen_spec *specs, size_t n_specs,
                               const mxgen_output *ptx, mxgen_output *cubin, mx_error *err);

#endif
