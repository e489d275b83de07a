/* On the host a workgroup is one lane. NVVM's registers name what a kernel may ask: the number of
 * its workgroup, which the loop over programs knows, and those of threads, which are constants. */
#include "gen/foreign_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/Core.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include "mxgen/error.h"

#define REGISTER "llvm.nvvm.read.ptx.sreg."

enum { MOST_SHARED_BYTES = 256 << 10, SHARED_SPACE = 3, SHARED_ALIGN = 64 };

/* The function that the runtime calls. */
typedef struct wrapper {
    LLVMValueRef function, body;
    LLVMValueRef group[3], groups[3]; /* i64; of the program that the loop is at */
} wrapper;

typedef struct host {
    LLVMModuleRef module;
    LLVMContextRef context;
    LLVMBuilderRef builder;
    LLVMTypeRef i32, i64, i8;
    const mxgen_foreign_input *input;
    wrapper wrappers[MXGEN_FOREIGN_MOST_KERNELS];
    size_t n_wrappers;
    int64_t shared_bytes;
    mx_error *err;
} host;

static mx_status fail(const host *h, const char *what, const char *name)
{
    return mx_fail(h->err, MX_ERR_UNSUPPORTED, "%s: on the host, %s: %s", h->input->label, what,
                   name);
}

/* ---- The loop over programs ---- */

static void remove_attribute(LLVMValueRef function, const char *name)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMRemoveEnumAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, kind);
}

/* All functions end up in the wrappers, where the workgroup's number is known. */
static void inline_everything(host *h)
{
    static const char always[] = "alwaysinline";
    unsigned kind = LLVMGetEnumAttributeKindForName(always, strlen(always));
    for (LLVMValueRef f = LLVMGetFirstFunction(h->module); f; f = LLVMGetNextFunction(f)) {
        if (LLVMIsDeclaration(f))
            continue;
        LLVMSetLinkage(f, LLVMInternalLinkage);
        remove_attribute(f, "noinline");
        remove_attribute(f, "optnone");
        LLVMAddAttributeAtIndex(f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                                LLVMCreateEnumAttribute(h->context, kind, 0));
    }
}

/* Loads what lies at an offset of the argument block. */
static LLVMValueRef load_at(host *h, LLVMValueRef block, unsigned offset, LLVMTypeRef type)
{
    LLVMValueRef index = LLVMConstInt(h->i64, offset, 0);
    LLVMValueRef at = LLVMBuildInBoundsGEP2(h->builder, h->i8, block, &index, 1, "");
    return LLVMBuildLoad2(h->builder, type, at, "");
}

static unsigned size_of(LLVMTypeRef type)
{
    LLVMTypeKind kind = LLVMGetTypeKind(type);
    bool is_narrow = kind == LLVMFloatTypeKind ||
                     (kind == LLVMIntegerTypeKind && LLVMGetIntTypeWidth(type) == 32);
    return is_narrow ? 4 : 8;
}

/* Arguments, then the grid, from the block. */
static void load_args(host *h, wrapper *w, LLVMValueRef *args, unsigned n_args)
{
    LLVMValueRef block = LLVMGetParam(w->function, 0);
    unsigned offset = 0;
    for (unsigned i = 0; i < n_args; i++) {
        LLVMTypeRef type = LLVMTypeOf(LLVMGetParam(w->body, i));
        unsigned size = size_of(type);
        offset = (offset + size - 1) / size * size;
        args[i] = load_at(h, block, offset, type);
        offset += size;
    }
    offset = (offset + 7) / 8 * 8;
    for (unsigned i = 0; i < 3; i++)
        w->groups[i] = load_at(h, block, offset + 8 * i, h->i64);
}

static mx_status wrap(host *h, LLVMValueRef kernel)
{
    wrapper *w = &h->wrappers[h->n_wrappers++];
    LLVMTypeRef types[3] = {LLVMPointerTypeInContext(h->context, 0), h->i64, h->i64};
    unsigned n_args = LLVMCountParams(kernel);
    LLVMValueRef *args = calloc(n_args + 1, sizeof(*args));
    size_t length;
    char *symbol = strdup(LLVMGetValueName2(kernel, &length)), *body = NULL;
    if (!args || !symbol || asprintf(&body, "%s.program", symbol) < 0) {
        free(args);
        free(symbol);
        return mx_fail(h->err, MX_ERR_NO_MEMORY, "no memory for %s", h->input->label);
    }
    LLVMSetValueName2(kernel, body, strlen(body));
    LLVMSetFunctionCallConv(kernel, LLVMCCallConv);
    w->body = kernel;
    w->function = LLVMAddFunction(h->module, symbol,
                                  LLVMFunctionType(LLVMVoidTypeInContext(h->context), types, 3, 0));
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(h->context, w->function, "entry"),
                      head = LLVMAppendBasicBlockInContext(h->context, w->function, "program"),
                      next = LLVMAppendBasicBlockInContext(h->context, w->function, "next"),
                      done = LLVMAppendBasicBlockInContext(h->context, w->function, "done");
    LLVMValueRef begin = LLVMGetParam(w->function, 1), end = LLVMGetParam(w->function, 2);
    LLVMPositionBuilderAtEnd(h->builder, entry);
    load_args(h, w, args, n_args);
    LLVMBuildCondBr(h->builder, LLVMBuildICmp(h->builder, LLVMIntSLT, begin, end, ""), head, done);
    LLVMPositionBuilderAtEnd(h->builder, head);
    LLVMValueRef program = LLVMBuildPhi(h->builder, h->i64, "");
    LLVMValueRef rest = LLVMBuildUDiv(h->builder, program, w->groups[0], "");
    w->group[0] = LLVMBuildURem(h->builder, program, w->groups[0], "");
    w->group[1] = LLVMBuildURem(h->builder, rest, w->groups[1], "");
    w->group[2] = LLVMBuildUDiv(h->builder, rest, w->groups[1], "");
    LLVMBuildCall2(h->builder, LLVMGlobalGetValueType(kernel), kernel, args, n_args, "");
    LLVMBuildBr(h->builder, next);
    LLVMPositionBuilderAtEnd(h->builder, next);
    LLVMValueRef following = LLVMBuildAdd(h->builder, program, LLVMConstInt(h->i64, 1, 0), "");
    LLVMBuildCondBr(h->builder, LLVMBuildICmp(h->builder, LLVMIntSLT, following, end, ""), head,
                    done);
    LLVMAddIncoming(program, &begin, &entry, 1);
    LLVMAddIncoming(program, &following, &next, 1);
    LLVMPositionBuilderAtEnd(h->builder, done);
    LLVMBuildRetVoid(h->builder);
    free(args);
    free(symbol);
    free(body);
    return MX_OK;
}

static mx_status inline_bodies(host *h, LLVMTargetMachineRef machine)
{
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(h->module, "always-inline", machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (error) {
        char *text = LLVMGetErrorMessage(error);
        mx_fail(h->err, MX_ERR_INTERNAL, "%s: inlining failed: %s", h->input->label, text);
        LLVMDisposeErrorMessage(text);
        return MX_ERR_INTERNAL;
    }
    LLVMValueRef next;
    for (LLVMValueRef f = LLVMGetFirstFunction(h->module); f; f = next) {
        size_t length;
        next = LLVMGetNextFunction(f);
        if (LLVMGetLinkage(f) != LLVMInternalLinkage)
            continue;
        if (LLVMGetFirstUse(f))
            return fail(h, "a function cannot be inlined (recursion, or a pointer to it)",
                        LLVMGetValueName2(f, &length));
        LLVMDeleteFunction(f);
    }
    return MX_OK;
}

/* ---- What a kernel asks of its place ---- */

static const wrapper *wrapper_of(const host *h, LLVMValueRef instruction)
{
    LLVMValueRef function = LLVMGetBasicBlockParent(LLVMGetInstructionParent(instruction));
    const wrapper *found = NULL;
    for (size_t i = 0; i < h->n_wrappers; i++) {
        if (h->wrappers[i].function == function)
            found = &h->wrappers[i];
    }
    return found;
}

/* The number of a dimension at the end of a register's name, -1 without one. */
static int axis_of(const char *name, const char *stem)
{
    size_t length = strlen(stem);
    if (strncmp(name, stem, length) || !name[length] || name[length + 1])
        return -1;
    return name[length] >= 'x' && name[length] <= 'z' ? name[length] - 'x' : -1;
}

/* The value of a call, NULL if the host has none. The builder is at the call. */
static LLVMValueRef answer(host *h, const wrapper *w, const char *name)
{
    int axis;
    if ((axis = axis_of(name, REGISTER "ctaid.")) >= 0)
        return LLVMBuildTrunc(h->builder, w->group[axis], h->i32, "");
    if ((axis = axis_of(name, REGISTER "nctaid.")) >= 0)
        return LLVMBuildTrunc(h->builder, w->groups[axis], h->i32, "");
    if (axis_of(name, REGISTER "tid.") >= 0 || !strcmp(name, REGISTER "laneid"))
        return LLVMConstInt(h->i32, 0, 0);
    if (axis_of(name, REGISTER "ntid.") >= 0 || !strcmp(name, REGISTER "warpsize"))
        return LLVMConstInt(h->i32, 1, 0);
    return NULL;
}

/* One lane has nobody to wait for. */
static bool is_barrier(const char *name)
{
    return !strncmp(name, "llvm.nvvm.barrier", strlen("llvm.nvvm.barrier")) ||
           !strncmp(name, "llvm.nvvm.bar.warp.sync", strlen("llvm.nvvm.bar.warp.sync")) ||
           !strncmp(name, "llvm.nvvm.membar", strlen("llvm.nvvm.membar"));
}

static mx_status resolve_calls(host *h, LLVMValueRef callee, const char *name)
{
    LLVMUseRef use;
    while ((use = LLVMGetFirstUse(callee))) {
        LLVMValueRef call = LLVMGetUser(use);
        const wrapper *w = LLVMIsACallInst(call) ? wrapper_of(h, call) : NULL;
        LLVMTypeRef type = LLVMTypeOf(call);
        if (!w)
            return fail(h, "this may only be called", name);
        LLVMPositionBuilderBefore(h->builder, call);
        LLVMValueRef value = answer(h, w, name);
        if (!value && !(is_barrier(name) && LLVMGetTypeKind(type) == LLVMVoidTypeKind))
            return fail(h, "a workgroup is one lane, which cannot do this", name);
        if (value)
            LLVMReplaceAllUsesWith(call, value);
        LLVMInstructionEraseFromParent(call);
    }
    return MX_OK;
}

static mx_status resolve_intrinsics(host *h)
{
    mx_status status = MX_OK;
    LLVMValueRef next;
    for (LLVMValueRef f = LLVMGetFirstFunction(h->module); f && status == MX_OK; f = next) {
        size_t length;
        const char *name = LLVMGetValueName2(f, &length);
        next = LLVMGetNextFunction(f);
        if (strncmp(name, "llvm.nvvm.", strlen("llvm.nvvm.")) &&
            strncmp(name, "llvm.amdgcn.", strlen("llvm.amdgcn.")))
            continue;
        if ((status = resolve_calls(h, f, name)) == MX_OK)
            LLVMDeleteFunction(f);
    }
    return status;
}

/* ---- Shared memory ---- */

static bool is_shared(LLVMValueRef value)
{
    return LLVMIsAGlobalVariable(value) &&
           LLVMGetPointerAddressSpace(LLVMTypeOf(value)) == SHARED_SPACE;
}

static bool mentions_shared(LLVMValueRef value)
{
    if (is_shared(value))
        return true;
    for (int i = 0; LLVMIsAConstantExpr(value) && i < LLVMGetNumOperands(value); i++) {
        if (mentions_shared(LLVMGetOperand(value, (unsigned)i)))
            return true;
    }
    return false;
}

/* The wrapper's own copy, on its thread's stack, found again by its name. NULL if it is too large.
 */
static LLVMValueRef local_copy(host *h, const wrapper *w, LLVMValueRef global)
{
    size_t length;
    const char *name = LLVMGetValueName2(global, &length);
    LLVMBasicBlockRef entry = LLVMGetEntryBasicBlock(w->function);
    for (LLVMValueRef i = LLVMGetFirstInstruction(entry); i; i = LLVMGetNextInstruction(i)) {
        if (LLVMIsAAddrSpaceCastInst(i) && !strcmp(LLVMGetValueName2(i, &length), name))
            return i;
    }
    LLVMTypeRef type = LLVMGlobalGetValueType(global);
    LLVMTargetDataRef layout = LLVMGetModuleDataLayout(h->module);
    int64_t bytes = (int64_t)LLVMABISizeOfType(layout, type);
    if (LLVMIsDeclaration(global) && bytes == 0) {
        bytes = h->input->shared_bytes;
        type = LLVMArrayType2(h->i8, (uint64_t)bytes);
    }
    h->shared_bytes += bytes;
    if (h->shared_bytes > MOST_SHARED_BYTES)
        return NULL;
    LLVMBuilderRef builder = LLVMCreateBuilderInContext(h->context);
    LLVMPositionBuilderBefore(builder, LLVMGetFirstInstruction(entry));
    LLVMValueRef memory = LLVMBuildAlloca(builder, type, "");
    LLVMSetAlignment(memory, SHARED_ALIGN);
    LLVMValueRef cast = LLVMBuildAddrSpaceCast(builder, memory, LLVMTypeOf(global), name);
    LLVMDisposeBuilder(builder);
    return cast;
}

/* The value with the wrapper's copy in place of shared globals, as instructions at the builder.
 * NULL for an expression that is not known. */
static LLVMValueRef rebuild(host *h, const wrapper *w, LLVMValueRef value)
{
    LLVMValueRef operands[8];
    int n = LLVMGetNumOperands(value);
    if (is_shared(value))
        return local_copy(h, w, value);
    if (!mentions_shared(value))
        return value;
    if (n > 8)
        return NULL;
    for (int i = 0; i < n; i++) {
        if (!(operands[i] = rebuild(h, w, LLVMGetOperand(value, (unsigned)i))))
            return NULL;
    }
    LLVMOpcode opcode = LLVMGetConstOpcode(value);
    if (opcode == LLVMGetElementPtr)
        return LLVMBuildGEP2(h->builder, LLVMGetGEPSourceElementType(value), operands[0],
                             operands + 1, (unsigned)n - 1, "");
    if (n == 1)
        return LLVMBuildCast(h->builder, opcode, operands[0], LLVMTypeOf(value), "");
    return opcode == LLVMAdd || opcode == LLVMSub
               ? LLVMBuildBinOp(h->builder, opcode, operands[0], operands[1], "")
               : NULL;
}

static mx_status localise_operands(host *h, const wrapper *w, LLVMValueRef instruction)
{
    for (int i = 0; i < LLVMGetNumOperands(instruction); i++) {
        LLVMValueRef operand = LLVMGetOperand(instruction, (unsigned)i);
        if (!mentions_shared(operand))
            continue;
        LLVMValueRef at = instruction;
        if (LLVMIsAPHINode(instruction))
            at = LLVMGetBasicBlockTerminator(LLVMGetIncomingBlock(instruction, (unsigned)i));
        LLVMPositionBuilderBefore(h->builder, at);
        LLVMValueRef local = rebuild(h, w, operand);
        if (!local)
            return mx_fail(h->err, MX_ERR_UNSUPPORTED,
                           "%s: on the host, shared memory is at most %d bytes and addressed by "
                           "pointers",
                           h->input->label, MOST_SHARED_BYTES);
        LLVMSetOperand(instruction, (unsigned)i, local);
    }
    return MX_OK;
}

static mx_status localise_shared(host *h, const wrapper *w)
{
    mx_status status = MX_OK;
    h->shared_bytes = 0;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(w->function); b && status == MX_OK;
         b = LLVMGetNextBasicBlock(b)) {
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i && status == MX_OK;
             i = LLVMGetNextInstruction(i))
            status = localise_operands(h, w, i);
    }
    return status;
}

/* Nothing uses them any more, but for expressions that nothing uses either. */
static void drop_shared(host *h)
{
    LLVMValueRef next;
    for (LLVMValueRef g = LLVMGetFirstGlobal(h->module); g; g = next) {
        next = LLVMGetNextGlobal(g);
        if (!is_shared(g))
            continue;
        LLVMReplaceAllUsesWith(g, LLVMGetPoison(LLVMTypeOf(g)));
        LLVMDeleteGlobal(g);
    }
}

mx_status mxgen_foreign_host(LLVMModuleRef module, LLVMTargetMachineRef machine,
                             const LLVMValueRef *kernels, size_t n_kernels,
                             const mxgen_foreign_input *input, mx_error *err)
{
    LLVMContextRef context = LLVMGetModuleContext(module);
    host *h = calloc(1, sizeof(*h));
    if (!h)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %s", input->label);
    *h = (host){.module = module,
                .context = context,
                .builder = LLVMCreateBuilderInContext(context),
                .i32 = LLVMInt32TypeInContext(context),
                .i64 = LLVMInt64TypeInContext(context),
                .i8 = LLVMInt8TypeInContext(context),
                .input = input,
                .err = err};
    mx_status status = MX_OK;
    inline_everything(h);
    for (size_t i = 0; i < n_kernels && status == MX_OK; i++)
        status = wrap(h, kernels[i]);
    if (status == MX_OK)
        status = inline_bodies(h, machine);
    if (status == MX_OK)
        status = resolve_intrinsics(h);
    for (size_t i = 0; i < h->n_wrappers && status == MX_OK; i++)
        status = localise_shared(h, &h->wrappers[i]);
    if (status == MX_OK)
        drop_shared(h);
    LLVMDisposeBuilder(h->builder);
    free(h);
    return status;
}
