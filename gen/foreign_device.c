#include "gen/foreign_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Linker.h>

#include "gen/machine.h"
#include "mxgen/error.h"

/* ---- Sizes on AMD ---- */

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

/* ---- Mathematics ---- */

/* Of f32, in terms of mx_exp and what gen/foreign_math.c has. */
static const char *const functions[] = {"exp", "expm1", "log", "log2", "log10", "log1p",
                                        "sin", "cos",   "tan", "tanh", "sinh",  "rsqrt"};
enum { N_FUNCTIONS = sizeof(functions) / sizeof(functions[0]) };

static void write_wrapper(FILE *out, const char *type, const char *prefix, const char *name,
                          const char *suffix, const char *callee)
{
    fprintf(out,
            "define linkonce_odr %s @%s%s%s(%s %%x) alwaysinline {\n"
            "  %%y = call %s @%s(%s %%x)\n"
            "  ret %s %%y\n"
            "}\n",
            type, prefix, name, suffix, type, type, callee, type, type);
}

/* The intrinsic of the type that is named as the function. */
static void write_intrinsic(FILE *out, const char *type, const char *short_type, const char *prefix,
                            const char *name, const char *suffix, const char *intrinsic)
{
    char callee[64];
    snprintf(callee, sizeof(callee), "llvm.%s.%s", intrinsic, short_type);
    write_wrapper(out, type, prefix, name, suffix, callee);
    fprintf(out, "declare %s @%s(%s)\n", type, callee, type);
}

static void write_amd(FILE *out)
{
    static const char *const rounding[] = {"floor", "ceil"};
    static const char prefix[] = "__ocml_";
    char callee[32];
    write_intrinsic(out, "float", "f32", "mx_", "exp", "", "exp");
    write_intrinsic(out, "float", "f32", "__ocml_", "exp2", "_f32", "exp2");
    write_intrinsic(out, "half", "f16", "__ocml_", "exp2", "_f16", "exp2");
    for (size_t i = 0; i < N_FUNCTIONS; i++) {
        snprintf(callee, sizeof(callee), "mx_%s", functions[i]);
        write_wrapper(out, "float", prefix, functions[i], "_f32", callee);
        fprintf(out,
                "define linkonce_odr half @%s%s_f16(half %%x) alwaysinline {\n"
                "  %%wide = fpext half %%x to float\n"
                "  %%y = call float @%s(float %%wide)\n"
                "  %%narrow = fptrunc float %%y to half\n"
                "  ret half %%narrow\n"
                "}\n",
                prefix, functions[i], callee);
    }
    for (size_t i = 0; i < 2; i++) {
        write_intrinsic(out, "float", "f32", prefix, rounding[i], "_f32", rounding[i]);
        write_intrinsic(out, "half", "f16", prefix, rounding[i], "_f16", rounding[i]);
        write_intrinsic(out, "double", "f64", prefix, rounding[i], "_f64", rounding[i]);
    }
}

/* exp(x) is 2^y with y = x * log2(e) rounded, times 1 + what the rounding lost * ln(2): two units
 * in the last place. The correction is left out where 2^y is 0 or infinite. */
static const char nvidia_exp[] =
    "define linkonce_odr float @mx_exp(float %x) alwaysinline {\n"
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
    "declare float @llvm.nvvm.ex2.approx.f(float)\n";

static void write_nvidia(FILE *out)
{
    static const char *const own[] = {"floor", "ceil", "trunc", "round"};
    static const char prefix[] = "__nv_";
    char callee[32];
    fputs(nvidia_exp, out);
    write_wrapper(out, "float", prefix, "exp2", "f", "llvm.nvvm.ex2.approx.f");
    write_wrapper(out, "float", prefix, "rint", "f", "llvm.rint.f32");
    write_wrapper(out, "float", prefix, "sqrt", "f", "llvm.sqrt.f32");
    write_wrapper(out, "float", prefix, "fabs", "f", "llvm.fabs.f32");
    write_intrinsic(out, "double", "f64", prefix, "fabs", "", "fabs");
    write_intrinsic(out, "double", "f64", prefix, "sqrt", "", "sqrt");
    write_intrinsic(out, "double", "f64", prefix, "rint", "", "rint");
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
        write_intrinsic(out, "float", "f32", prefix, own[i], "f", own[i]);
        write_intrinsic(out, "double", "f64", prefix, own[i], "", own[i]);
    }
    for (size_t i = 0; i < N_FUNCTIONS; i++) {
        snprintf(callee, sizeof(callee), "mx_%s", functions[i]);
        write_wrapper(out, "float", prefix, functions[i], "f", callee);
    }
}

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

static mx_status define_math(LLVMModuleRef module, LLVMTargetMachineRef machine,
                             const mxgen_foreign_input *input, mx_error *err)
{
    char *text = NULL;
    size_t size_bytes;
    FILE *out = open_memstream(&text, &size_bytes);
    if (!out)
        return mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
    fprintf(out, "%s%s%s%s", mxgen_foreign_logarithms, mxgen_foreign_exponentials,
            mxgen_foreign_angles, mxgen_foreign_declares);
    if (input->target->kind == MXGEN_AMDGPU)
        write_amd(out);
    else
        write_nvidia(out);
    mx_status status = fclose(out) ? mx_fail(err, MX_ERR_NO_MEMORY, "out of memory")
                                   : link_text(module, machine, input, text, err);
    free(text);
    return status;
}

static mx_status define_sizes(LLVMModuleRef module, LLVMTargetMachineRef machine,
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
    mx_status status = MX_OK;
    if (kind == MXGEN_AMDGPU && calls(module, "__ockl_get_"))
        status = define_sizes(module, machine, input, err);
    if (status == MX_OK && kind == MXGEN_AMDGPU && calls(module, "__ocml_"))
        status = define_math(module, machine, input, err);
    if (kind == MXGEN_NVPTX && calls(module, "__nv_"))
        status = define_math(module, machine, input, err);
    return status;
}
