#include "gen/machine.h"

#include <pthread.h>
#include <string.h>

#include <llvm-c/Core.h>
#include <llvm-c/Target.h>

#include "mxgen/error.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void initialise(void)
{
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
    LLVMInitializeAMDGPUAsmParser();
    LLVMInitializeAMDGPUDisassembler();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
}

void mxgen_machine_initialise(void)
{
    pthread_once(&once, initialise);
}

mx_status mxgen_machine_create(const mxgen_target *target, LLVMTargetMachineRef *out, mx_error *err)
{
    LLVMTargetRef found;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(target->triple, &found, &message)) {
        mx_fail(err, MX_ERR_UNSUPPORTED, "this LLVM cannot make code for %s: %s", target->name,
                message);
        LLVMDisposeMessage(message);
        return MX_ERR_UNSUPPORTED;
    }
    *out = LLVMCreateTargetMachine(found, target->triple, target->cpu, target->features,
                                   LLVMCodeGenLevelAggressive, LLVMRelocPIC, LLVMCodeModelDefault);
    if (!*out)
        return mx_fail(err, MX_ERR_INTERNAL, "LLVM made no target machine for %s", target->name);
    return MX_OK;
}

void mxgen_machine_set_module(const mxgen_target *target, LLVMTargetMachineRef machine,
                              LLVMModuleRef module)
{
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetTarget(module, target->triple);
    LLVMSetModuleDataLayout(module, layout);
    LLVMDisposeTargetData(layout);
}

void mxgen_machine_flag_version(LLVMModuleRef module)
{
    static const char name[] = "amdhsa_code_object_version";
    LLVMTypeRef i32 = LLVMInt32TypeInContext(LLVMGetModuleContext(module));
    LLVMAddModuleFlag(module, LLVMModuleFlagBehaviorError, name, strlen(name),
                      LLVMValueAsMetadata(LLVMConstInt(i32, MXGEN_CODE_OBJECT_VERSION, 0)));
}
