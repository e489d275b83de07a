/* PTX -> machine code, by NVIDIA's assembler where the machine has one. */
#ifndef MXGEN_PTXAS_H
#define MXGEN_PTXAS_H

#include "gen/gen.h"
#include "gen/resources.h"

/* Assembles the module of these variants; the cubin's figures are those that ptxas tells of each
 * kernel. Thread-safe. */
mx_status mxgen_ptxas_assemble(const mxgen_ptxas *ptxas, const mxgen_spec *specs, size_t n_specs,
                               const mxgen_output *ptx, mxgen_output *cubin, mx_error *err);

/* The same of PTX of any origin. The cubin is malloc'ed; so is *log, which may be there after a
 * failure, too: what ptxas tells of the kernels, for mxgen_ptxas_figures. */
mx_status mxgen_ptxas_run(const mxgen_ptxas *ptxas, const mxgen_target *target, const void *ptx,
                          size_t ptx_bytes, void **cubin, size_t *cubin_bytes, char **log,
                          mx_error *err);
void mxgen_ptxas_figures(const mxgen_target *target, const void *cubin, size_t cubin_bytes,
                         const char *log, const char *symbol, mxgen_resources *out);

#endif
