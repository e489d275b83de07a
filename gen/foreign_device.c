#include "gen/foreign_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Linker.h>

#include "gen/machine.h"
#include "mxgen/error.h"

/* The block, of a size that is known. */
#define AMD_KNOWN_BLOCK                                                                            \
    "define linkonce_odr i64 @__ockl_get_local_size(i32 %%d) alwaysinline {\n"                     \
    "  %%is_x = icmp eq i32 %%d, 0\n"                                                              \
    "  %%is_y = icmp eq i32 %%d, 1\n"                                                              \
    "  %%yz = select i1 %%is_y, i64 %lld, i64 %lld\n"                                              \
    "  %%size = select i1 %%is_x, i64 %lld, i64 %%yz\n"                                            \
    "  ret i64 %%size\n"                                                                           \
    "}\n"

/* The same from the hidden arguments of version 5 of the code object: u16 at bytes 12, 14, 16. */
#define AMD_BLOCK                                                                                  \
    "define linkonce_odr i64 @__ockl_get_local_size(i32 %d) alwaysinline {\n"                      \
    "  %p = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()\n"                                \
    "  %two = shl i32 %d, 1\n"                                                                     \
    "  %at = add i32 %two, 12\n"                                                                   \
    "  %q = getelementptr i8, ptr addrspace(4) %p, i32 %at\n"                                      \
    "  %v = load i16, ptr addrspace(4) %q, align 2, !invariant.load !0\n"                          \
    "  %size = zext i16 %v to i64\n"                                                               \
    "  ret i64 %size\n"                                                                            \
    "}\n"

/* Workgroups: u32 at bytes 0, 4, 8. */
static const char amd_library[] =
    "define linkonce_odr i64 @__ockl_get_num_groups(i32 %d) alwaysinline {\n"
    "  %p = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()\n"
    "  %at = shl i32 %d, 2\n"
    "  %q = getelementptr i8, ptr addrspace(4) %p, i32 %at\n"
    "  %v = load i32, ptr addrspace(4) %q, align 4, !invariant.load !0\n"
    "  %count = zext i32 %v to i64\n"
    "  ret i64 %count\n"
    "}\n"
    "declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()\n"
    "!0 = !{}\n";

/* exp(x) is 2^y with y = x * log2(e) rounded, times 1 + what the rounding lost * ln(2): two units
 * in the last place. The correction is left out where 2^y is 0 or infinite. */
#define NVIDIA_UNARY(name, intrinsic)                                                              \
    "define linkonce_odr float @__nv_" name "(float %x) alwaysinline {\n"                          \
    "  %y = call float @llvm." intrinsic ".f32(float %x)\n"                                        \
    "  ret float %y\n"                                                                             \
    "}\n"                                                                                          \
    "declare float @llvm." intrinsic ".f32(float)\n"

static const char nvidia_library[] =
    "define linkonce_odr float @__nv_exp2f(float %x) alwaysinline {\n"
    "  %y = call float @llvm.nvvm.ex2.approx.f(float %x)\n"
    "  ret float %y\n"
    "}\n"
    "define linkonce_odr float @__nv_expf(float %x) alwaysinline {\n"
    "  %y = fmul float %x, 0x3FF7154760000000\n"
    "  %minus = fneg float %y\n"
    "  %lost = call float @llvm.fma.f32(float %x, float 0x3FF7154760000000, float %minus)\n"
    "  %all = call float @llvm.fma.f32(float %x, float 0x3E54AE0C00000000, float %lost)\n"
    "  %r = call float @llvm.nvvm.ex2.approx.f(float %y)\n"
    "  %scaled = fmul float %r, 0x3FE62E4300000000\n"
    "  %better = call float @llvm.fma.f32(float %all, float %scaled, float %r)\n"
    "  %zero = fcmp oeq float %r, 0.0\n"
    "  %inf = fcmp oeq float %r, 0x7FF0000000000000\n"
    "  %edge = or i1 %zero, %inf\n"
    "  %e = select i1 %edge, float %r, float %better\n"
    "  ret float %e\n"
    "}\n"
    "define linkonce_odr float @__nv_fmaf(float %x, float %y, float %z) alwaysinline {\n"
    "  %r = call float @llvm.fma.f32(float %x, float %y, float %z)\n"
    "  ret float %r\n"
    "}\n"
    "define linkonce_odr float @__nv_rsqrtf(float %x) alwaysinline {\n"
    "  %s = call float @llvm.sqrt.f32(float %x)\n"
    "  %r = fdiv float 1.0, %s\n"
    "  ret float %r\n"
    "}\n"
    "declare float @llvm.nvvm.ex2.approx.f(float)\n"
    "declare float @llvm.fma.f32(float, float, float)\n" NVIDIA_UNARY("sqrtf", "sqrt")
        NVIDIA_UNARY("fabsf", "fabs") NVIDIA_UNARY("floorf", "floor") NVIDIA_UNARY("ceilf", "ceil")
            NVIDIA_UNARY("truncf", "trunc") NVIDIA_UNARY("rintf", "rint");

static bool calls(LLVMModuleRef module, const char *prefix)
{
    bool found = false;
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        size_t length;
        found |=
            LLVMIsDeclaration(f) && !strncmp(LLVMGetValueName2(f, &length), prefix, strlen(prefix));
    }
    return found;
}

static mx_status link_text(LLVMModuleRef module, LLVMTargetMachineRef machine,
                           const mxgen_foreign_input *input, const char *text, mx_error *err)
{
    LLVMMemoryBufferRef buffer =
        LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), "library");
    LLVMModuleRef library;
    char *message = NULL;
    mx_status status = MX_OK;
    if (LLVMParseIRInContext2(LLVMGetModuleContext(module), buffer, &library, &message)) {
        status = mx_fail(err, MX_ERR_INTERNAL, "the device library: %s", message);
    } else {
        mxgen_machine_set_module(input->target, machine, library);
        if (LLVMLinkModules2(module, library))
            status = mx_fail(err, MX_ERR_INVALID, "%s: it cannot be linked to the device library",
                             input->label);
    }
    LLVMDisposeMessage(message);
    LLVMDisposeMemoryBuffer(buffer);
    return status;
}

static mx_status define_amd(LLVMModuleRef module, LLVMTargetMachineRef machine,
                            const mxgen_foreign_input *input, mx_error *err)
{
    char text[2048];
    const int64_t *block = input->block;
    int n = 0;
    if (block[0])
        n = snprintf(text, sizeof(text), AMD_KNOWN_BLOCK, (long long)block[1], (long long)block[2],
                     (long long)block[0]);
    else
        n = snprintf(text, sizeof(text), "%s", AMD_BLOCK);
    snprintf(text + n, sizeof(text) - (size_t)n, "%s", amd_library);
    return link_text(module, machine, input, text, err);
}

/* "__nv_expf" is the C library's expf, "__nv_exp" its exp. */
static void rename_for_host(LLVMModuleRef module)
{
    static const char prefix[] = "__nv_";
    LLVMValueRef next;
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = next) {
        size_t length;
        const char *name = LLVMGetValueName2(f, &length);
        next = LLVMGetNextFunction(f);
        if (!LLVMIsDeclaration(f) || strncmp(name, prefix, strlen(prefix)))
            continue;
        name += strlen(prefix);
        LLVMValueRef known = LLVMGetNamedFunction(module, name);
        if (!known) {
            char *copy = strdup(name);
            if (copy)
                LLVMSetValueName2(f, copy, strlen(copy));
            free(copy);
            continue;
        }
        LLVMReplaceAllUsesWith(f, known);
        LLVMDeleteFunction(f);
    }
}

mx_status mxgen_foreign_device(LLVMModuleRef module, LLVMTargetMachineRef machine,
                               const mxgen_foreign_input *input, mx_error *err)
{
    mxgen_kind kind = input->target->kind;
    if (kind == MXGEN_HOST)
        rename_for_host(module);
    if (kind == MXGEN_AMDGPU && calls(module, "__ockl_get_"))
        return define_amd(module, machine, input, err);
    if (kind == MXGEN_NVPTX && calls(module, "__nv_"))
        return link_text(module, machine, input, nvidia_library, err);
    return MX_OK;
}
