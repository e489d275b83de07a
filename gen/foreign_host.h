/* Kernels of a foreign module become functions of the host (gen/foreign_host.c). */
#ifndef MXGEN_FOREIGN_HOST_H
#define MXGEN_FOREIGN_HOST_H

#include <llvm-c/TargetMachine.h>

#include "gen/foreign.h"

enum { MXGEN_FOREIGN_MOST_KERNELS = 64 };

/* Puts the loop over workgroups around each kernel, in its name, as mxgen/pack.h has it for the
 * host, and resolves what a kernel asks of its place and of shared memory. */
mx_status mxgen_foreign_host(LLVMModuleRef module, LLVMTargetMachineRef machine,
                             const LLVMValueRef *kernels, size_t n_kernels,
                             const mxgen_foreign_input *input, mx_error *err);

#endif
