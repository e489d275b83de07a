#include "mlir_import.h"

#include "llvm/IR/Module.h"
#include "mlir/CAPI/IR.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Target/LLVMIR/Import.h"

extern "C" MlirModule mxgen_mlir_import(LLVMModuleRef module, MlirContext context)
{
    std::unique_ptr<llvm::Module> owned(llvm::unwrap(module));
    mlir::OwningOpRef<mlir::ModuleOp> result =
        mlir::translateLLVMIRToModule(std::move(owned), unwrap(context), false);
    return MlirModule{result ? result.release().getOperation() : nullptr};
}
