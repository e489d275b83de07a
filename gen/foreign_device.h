/* What MLIR's lowering takes from vendors' device libraries, which are not here. */
#ifndef MXGEN_FOREIGN_DEVICE_H
#define MXGEN_FOREIGN_DEVICE_H

#include <llvm-c/TargetMachine.h>

#include "gen/foreign.h"

/* Defines those of the functions that the module calls: sizes of grid and block on AMD's,
 * mathematics of f32 and f16 on both; on the host NVIDIA's names become the C library's. What is
 * still missing afterwards is left to the linker, or whoever checks. */
mx_status mxgen_foreign_device(LLVMModuleRef module, LLVMTargetMachineRef machine,
                               const mxgen_foreign_input *input, mx_error *err);

/* LLVM IR of functions of f32 that call @mx_exp, and what they call (gen/foreign_math.c). */
extern const char mxgen_foreign_logarithms[], mxgen_foreign_exponentials[], mxgen_foreign_angles[],
    mxgen_foreign_declares[];

#endif
