/* The one thing of MLIR that has no C interface: LLVM IR into the LLVM dialect. */
#ifndef MXGEN_MLIR_IMPORT_H
#define MXGEN_MLIR_IMPORT_H

#include <llvm-c/Types.h>
#include <mlir-c/IR.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Takes the module. Null where it fails, with diagnostics to the context's handlers. */
MlirModule mxgen_mlir_import(LLVMModuleRef module, MlirContext context);

#ifdef __cplusplus
}
#endif
#endif
