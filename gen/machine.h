/* LLVM's side of a target: what has to be set up before code can be made for it. */
#ifndef MXGEN_MACHINE_H
#define MXGEN_MACHINE_H

#include <llvm-c/TargetMachine.h>

#include "gen/target.h"

enum { MXGEN_CODE_OBJECT_VERSION = 500 /* v5 loads on ROCm 5, 6 and 7 */ };

/* Makes LLVM's targets known; any number of times, from any thread. */
void mxgen_machine_initialise(void);

/* To be released with LLVMDisposeTargetMachine. */
mx_status mxgen_machine_create(const mxgen_target *target, LLVMTargetMachineRef *out,
                               mx_error *err);

/* Gives the module the target's triple and data layout. */
void mxgen_machine_set_module(const mxgen_target *target, LLVMTargetMachineRef machine,
                              LLVMModuleRef module);

/* The version of the code object in AMD's own flag. */
void mxgen_machine_flag_version(LLVMModuleRef module);

#endif
