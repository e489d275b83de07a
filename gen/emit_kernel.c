/* Kernels, arguments, identity, control flow, lanes. */
#include "gen/emit_internal.h"

#include <stdio.h>
#include <string.h>

enum { CC_AMDGPU_KERNEL = 91, CC_PTX_KERNEL = 71 };

void mxe_attr_enum(mxe *e, LLVMValueRef function, unsigned index, const char *name, uint64_t value)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(function, index, LLVMCreateEnumAttribute(e->context, kind, value));
}

void mxe_attr_string(mxe *e, LLVMValueRef function, const char *name, const char *value)
{
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(e->context, name, (unsigned)strlen(name),
                                                      value, (unsigned)strlen(value)));
}

static LLVMTypeRef arg_type(mxe *e, mxe_arg_kind kind)
{
    if (kind == MXE_ARG_POINTER)
        return e->global_pointer;
    return e->types[kind == MXE_ARG_I32 ? MXE_I32 : MXE_I64];
}

static void gpu_attributes(mxe *e, int threads, int min_programs)
{
    char text[32];
    mxe_attr_string(e, e->function, "target-cpu", e->target->cpu);
    if (e->target->kind == MXGEN_AMDGPU) {
        snprintf(text, sizeof(text), "%d,%d", threads, threads);
        mxe_attr_string(e, e->function, "amdgpu-flat-work-group-size", text);
        mxe_attr_string(e, e->function, "uniform-work-group-size", "true");
        mxe_attr_string(e, e->function, "denormal-fp-math-f32", "ieee,ieee");
    } else {
        snprintf(text, sizeof(text), "%d", threads);
        mxe_attr_string(e, e->function, "nvvm.reqntid", text);
        snprintf(text, sizeof(text), "%d", min_programs);
        if (min_programs)
            mxe_attr_string(e, e->function, "nvvm.minctasm", text);
    }
}

static void gpu_kernel_begin(mxe *e, const char *symbol, int threads, int min_programs)
{
    LLVMTypeRef types[MXE_MAX_ARGS];
    for (int i = 0; i < e->n_args; i++)
        types[i] = arg_type(e, e->args[i].kind);
    LLVMTypeRef type =
        LLVMFunctionType(LLVMVoidTypeInContext(e->context), types, (unsigned)e->n_args, 0);
    e->function = LLVMAddFunction(e->module, symbol, type);
    LLVMSetFunctionCallConv(e->function,
                            e->target->kind == MXGEN_AMDGPU ? CC_AMDGPU_KERNEL : CC_PTX_KERNEL);
    for (int i = 0; i < e->n_args; i++) {
        const mxe_arg *arg = &e->args[i];
        e->arg_refs[i] = LLVMGetParam(e->function, (unsigned)i);
        LLVMSetValueName2(e->arg_refs[i], arg->name, strlen(arg->name));
        if (arg->kind != MXE_ARG_POINTER)
            continue;
        unsigned index = (unsigned)i + 1;
        if (arg->flags & MXE_ARG_NOALIAS)
            mxe_attr_enum(e, e->function, index, "noalias", 0);
        if (arg->flags & MXE_ARG_READONLY)
            mxe_attr_enum(e, e->function, index, "readonly", 0);
        if (arg->flags & MXE_ARG_WRITEONLY)
            mxe_attr_enum(e, e->function, index, "writeonly", 0);
        mxe_attr_enum(e, e->function, index, "align", (uint64_t)arg->align_bytes);
    }
    gpu_attributes(e, threads, min_programs);
    e->entry = LLVMAppendBasicBlockInContext(e->context, e->function, "entry");
    LLVMPositionBuilderAtEnd(e->builder, e->entry);
}

/* Aliasing promises made for arguments cannot be said of loaded pointers, so the body is an
 * inner function whose pointers are parameters; it is inlined into the loop over programs. */
static LLVMValueRef host_body_begin(mxe *e, const char *symbol)
{
    char name[160];
    snprintf(name, sizeof(name), "%s.program", symbol);
    LLVMTypeRef types[MXE_MAX_ARGS + 1];
    for (int i = 0; i < e->n_args; i++)
        types[i] = arg_type(e, e->args[i].kind);
    types[e->n_args] = e->types[MXE_I64];
    LLVMTypeRef type =
        LLVMFunctionType(LLVMVoidTypeInContext(e->context), types, (unsigned)e->n_args + 1, 0);
    LLVMValueRef body = LLVMAddFunction(e->module, name, type);
    LLVMSetLinkage(body, LLVMInternalLinkage);
    mxe_attr_enum(e, body, (unsigned)LLVMAttributeFunctionIndex, "alwaysinline", 0);
    for (int i = 0; i < e->n_args; i++) {
        e->arg_refs[i] = LLVMGetParam(body, (unsigned)i);
        if (e->args[i].kind == MXE_ARG_POINTER && (e->args[i].flags & MXE_ARG_NOALIAS))
            mxe_attr_enum(e, body, (unsigned)i + 1, "noalias", 0);
    }
    e->program_id = LLVMGetParam(body, (unsigned)e->n_args);
    mxe_attr_string(e, body, "target-cpu", e->target->cpu);
    mxe_attr_string(e, body, "prefer-vector-width", e->simd_width == 16 ? "512" : "256");
    e->entry = LLVMAppendBasicBlockInContext(e->context, body, "entry");
    LLVMPositionBuilderAtEnd(e->builder, e->entry);
    return body;
}

/* void symbol(const void *args, int64_t program_begin, int64_t program_end) around the body. */
static void host_wrapper(mxe *e, const char *symbol, LLVMValueRef body)
{
    LLVMTypeRef i64 = e->types[MXE_I64];
    LLVMTypeRef params[3] = {e->pointer, i64, i64};
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), params, 3, 0);
    LLVMValueRef function = LLVMAddFunction(e->module, symbol, type);
    mxe_attr_string(e, function, "target-cpu", e->target->cpu);
    mxe_attr_string(e, function, "prefer-vector-width", e->simd_width == 16 ? "512" : "256");
    LLVMPositionBuilderAtEnd(e->builder,
                             LLVMAppendBasicBlockInContext(e->context, function, "entry"));
    LLVMValueRef args[MXE_MAX_ARGS + 1];
    unsigned offset = 0;
    for (int i = 0; i < e->n_args; i++) {
        unsigned size = e->args[i].kind == MXE_ARG_I32 ? 4 : 8;
        offset = (offset + size - 1) / size * size;
        LLVMValueRef index = LLVMConstInt(i64, offset, 0);
        LLVMValueRef address = LLVMBuildInBoundsGEP2(e->builder, e->types[MXE_I8],
                                                     LLVMGetParam(function, 0), &index, 1, "");
        args[i] = LLVMBuildLoad2(e->builder, arg_type(e, e->args[i].kind), address, "");
        offset += size;
    }
    mxe_loop loop;
    e->function = function;
    mxe_value program = mxe_for_begin_at(
        e, &loop, mxe_wrap(LLVMGetParam(function, 1), MXE_I64, false),
        mxe_wrap(LLVMGetParam(function, 2), MXE_I64, false), mxe_const_at(e, MXE_I64, 1));
    args[e->n_args] = program.ref;
    LLVMBuildCall2(e->builder, LLVMGlobalGetValueType(body), body, args, (unsigned)e->n_args + 1,
                   "");
    mxe_for_end(e, &loop);
    LLVMBuildRetVoid(e->builder);
}

void mxe_kernel_begin(mxe *e, const char *symbol, const mxe_arg *args, int n_args, int threads,
                      int min_programs)
{
    e->args = args;
    e->n_args = n_args;
    e->program_id = e->thread_id = e->lds = NULL;
    if (n_args > MXE_MAX_ARGS) {
        mxe_fail(e, "%d kernel arguments, at most %d", n_args, MXE_MAX_ARGS);
        e->n_args = 0;
    }
    if (e->target->kind == MXGEN_HOST)
        e->function = host_body_begin(e, symbol);
    else
        gpu_kernel_begin(e, symbol, threads, min_programs);
}

void mxe_kernel_end(mxe *e)
{
    LLVMBuildRetVoid(e->builder);
    if (e->target->kind != MXGEN_HOST)
        return;
    LLVMValueRef body = e->function;
    size_t length;
    const char *name = LLVMGetValueName2(body, &length);
    char symbol[160];
    snprintf(symbol, sizeof(symbol), "%.*s", (int)(length - strlen(".program")), name);
    host_wrapper(e, symbol, body);
}

mxe_value mxe_param_at(mxe *e, const char *name)
{
    for (int i = 0; i < e->n_args; i++) {
        if (!strcmp(e->args[i].name, name) && e->args[i].kind != MXE_ARG_POINTER) {
            mxe_type type = e->args[i].kind == MXE_ARG_I32 ? MXE_I32 : MXE_I64;
            return mxe_wrap(e->arg_refs[i], type, false);
        }
    }
    mxe_fail(e, "no scalar argument named %s", name);
    return mxe_poison(e, MXE_I64, false);
}

mxe_value mxe_program_id(mxe *e)
{
    if (e->target->kind == MXGEN_HOST)
        return mxe_wrap(e->program_id, MXE_I64, false);
    const char *name = e->target->kind == MXGEN_AMDGPU ? "llvm.amdgcn.workgroup.id.x"
                                                       : "llvm.nvvm.read.ptx.sreg.ctaid.x";
    LLVMValueRef id = mxe_call_intrinsic(e, name, NULL, 0, NULL, 0);
    return mxe_convert_at(e, mxe_wrap(id, MXE_I32, false), MXE_I64, false);
}

static mxe_value thread_id(mxe *e)
{
    if (!e->thread_id) {
        const char *name = e->target->kind == MXGEN_AMDGPU ? "llvm.amdgcn.workitem.id.x"
                                                           : "llvm.nvvm.read.ptx.sreg.tid.x";
        e->thread_id = mxe_call_intrinsic(e, name, NULL, 0, NULL, 0);
    }
    return mxe_wrap(e->thread_id, MXE_I32, true);
}

mxe_value mxe_lane(mxe *e)
{
    if (e->target->kind == MXGEN_HOST && e->simd_width == 1)
        return mxe_wrap(mxe_llvm_i32(e, 0), MXE_I32, true);
    if (e->target->kind == MXGEN_HOST) {
        LLVMValueRef lanes[64];
        for (int i = 0; i < e->lanes; i++)
            lanes[i] = mxe_llvm_i32(e, i);
        return mxe_wrap(LLVMConstVector(lanes, (unsigned)e->lanes), MXE_I32, true);
    }
    return mxe_binary_at(e, MXE_AND, thread_id(e), mxe_const_at(e, MXE_I32, e->lanes - 1));
}

mxe_value mxe_warp(mxe *e)
{
    if (e->target->kind == MXGEN_HOST)
        return mxe_const_at(e, MXE_I32, 0);
    int shift = __builtin_ctz((unsigned)e->lanes);
    mxe_value warp = mxe_binary_at(e, MXE_LSHR, thread_id(e), mxe_const_at(e, MXE_I32, shift));
    if (e->target->kind == MXGEN_AMDGPU) {
        /* Waves are whole, so the first lane speaks for all: addresses stay in scalar registers. */
        LLVMTypeRef type = e->types[MXE_I32];
        warp.ref = mxe_call_intrinsic(e, "llvm.amdgcn.readfirstlane", &type, 1, &warp.ref, 1);
    }
    warp.varying = false;
    return warp;
}

mxe_value mxe_uniform_at(mxe *e, mxe_value a)
{
    if (!mxe_is_set(e, a) || !a.varying)
        return a;
    if (e->simd_width > 1)
        a.ref = LLVMBuildExtractElement(e->builder, a.ref, mxe_llvm_i32(e, 0), "");
    if (e->target->kind == MXGEN_AMDGPU) {
        LLVMTypeRef type = e->types[a.type];
        a.ref = mxe_call_intrinsic(e, "llvm.amdgcn.readfirstlane", &type, 1, &a.ref, 1);
    }
    a.varying = false;
    return a;
}

/* ---- Control flow ---- */

static LLVMBasicBlockRef new_block(mxe *e)
{
    LLVMValueRef function = LLVMGetBasicBlockParent(LLVMGetInsertBlock(e->builder));
    return LLVMAppendBasicBlockInContext(e->context, function, "");
}

/* Begins a block of a loop whose count starts at `begin`. */
static void count_begin(mxe *e, mxe_loop *loop, mxe_value *begin, mxe_value *end, mxe_value *step)
{
    if (!mxe_is_set(e, *begin) || !mxe_is_set(e, *end) || !mxe_is_set(e, *step))
        *begin = *end = *step = mxe_const_at(e, MXE_I64, 0);
    if (begin->type != MXE_I64 || end->type != MXE_I64 || step->type != MXE_I64 || begin->varying ||
        end->varying || step->varying) {
        mxe_fail(e, "a loop counts in uniform i64");
        *begin = *end = *step = mxe_const_at(e, MXE_I64, 0);
    }
    LLVMBasicBlockRef before = LLVMGetInsertBlock(e->builder);
    loop->head = new_block(e);
    loop->exit = new_block(e);
    loop->step = step->ref;
    loop->end = end->ref;
    LLVMBuildBr(e->builder, loop->head);
    LLVMPositionBuilderAtEnd(e->builder, loop->head);
    loop->phi = LLVMBuildPhi(e->builder, e->types[MXE_I64], "");
    LLVMAddIncoming(loop->phi, &begin->ref, &before, 1);
}

mxe_value mxe_for_begin_at(mxe *e, mxe_loop *loop, mxe_value begin, mxe_value end, mxe_value step)
{
    count_begin(e, loop, &begin, &end, &step);
    LLVMBasicBlockRef body = new_block(e);
    LLVMValueRef more = LLVMBuildICmp(e->builder, LLVMIntSLT, loop->phi, end.ref, "");
    LLVMBuildCondBr(e->builder, more, body, loop->exit);
    LLVMPositionBuilderAtEnd(e->builder, body);
    return mxe_wrap(loop->phi, MXE_I64, false);
}

mxe_value mxe_do_begin_at(mxe *e, mxe_loop *loop, mxe_value begin, mxe_value end, mxe_value step)
{
    count_begin(e, loop, &begin, &end, &step);
    return mxe_wrap(loop->phi, MXE_I64, false);
}

void mxe_do_end(mxe *e, mxe_loop *loop)
{
    LLVMValueRef next = LLVMBuildAdd(e->builder, loop->phi, loop->step, "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->builder);
    LLVMAddIncoming(loop->phi, &next, &latch, 1);
    LLVMValueRef more = LLVMBuildICmp(e->builder, LLVMIntSLT, next, loop->end, "");
    LLVMBuildCondBr(e->builder, more, loop->head, loop->exit);
    LLVMPositionBuilderAtEnd(e->builder, loop->exit);
}

void mxe_for_end(mxe *e, mxe_loop *loop)
{
    LLVMValueRef next = LLVMBuildAdd(e->builder, loop->phi, loop->step, "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->builder);
    LLVMAddIncoming(loop->phi, &next, &latch, 1);
    LLVMBuildBr(e->builder, loop->head);
    LLVMPositionBuilderAtEnd(e->builder, loop->exit);
}

static LLVMValueRef branch_begin(mxe *e, mxe_branch *branch, mxe_value condition)
{
    if (!mxe_is_set(e, condition))
        condition = mxe_const_at(e, MXE_I1, 0);
    if (condition.type != MXE_I1 || (condition.varying && e->simd_width > 1)) {
        mxe_fail(e, "a branch takes a uniform i1");
        condition = mxe_const_at(e, MXE_I1, 0);
    }
    LLVMBasicBlockRef then = new_block(e);
    branch->otherwise = new_block(e);
    branch->end = NULL;
    LLVMValueRef jump = LLVMBuildCondBr(e->builder, condition.ref, then, branch->otherwise);
    LLVMPositionBuilderAtEnd(e->builder, then);
    return jump;
}

void mxe_if_begin_at(mxe *e, mxe_branch *branch, mxe_value condition)
{
    branch_begin(e, branch, condition);
}

void mxe_if_begin_rare_at(mxe *e, mxe_branch *branch, mxe_value condition)
{
    LLVMValueRef jump = branch_begin(e, branch, condition);
    LLVMMetadataRef weights[3] = {
        LLVMMDStringInContext2(e->context, "branch_weights", strlen("branch_weights")),
        LLVMValueAsMetadata(mxe_llvm_i32(e, 1)), LLVMValueAsMetadata(mxe_llvm_i32(e, 1 << 20))};
    LLVMMetadataRef node = LLVMMDNodeInContext2(e->context, weights, 3);
    unsigned kind = LLVMGetMDKindIDInContext(e->context, "prof", strlen("prof"));
    LLVMSetMetadata(jump, kind, LLVMMetadataAsValue(e->context, node));
}

void mxe_if_else(mxe *e, mxe_branch *branch)
{
    branch->end = new_block(e);
    LLVMBuildBr(e->builder, branch->end);
    LLVMPositionBuilderAtEnd(e->builder, branch->otherwise);
}

void mxe_if_end(mxe *e, mxe_branch *branch)
{
    LLVMBasicBlockRef end = branch->end ? branch->end : branch->otherwise;
    LLVMBuildBr(e->builder, end);
    LLVMPositionBuilderAtEnd(e->builder, end);
}

void mxe_while_begin(mxe *e, mxe_while *loop)
{
    loop->head = new_block(e);
    loop->exit = new_block(e);
    LLVMBuildBr(e->builder, loop->head);
    LLVMPositionBuilderAtEnd(e->builder, loop->head);
}

void mxe_while_do_at(mxe *e, mxe_while *loop, mxe_value condition)
{
    if (!mxe_is_set(e, condition) || condition.type != MXE_I1 ||
        (condition.varying && e->simd_width > 1)) {
        mxe_fail(e, "a loop takes a uniform i1");
        condition = mxe_const_at(e, MXE_I1, 0);
    }
    LLVMBasicBlockRef body = new_block(e);
    LLVMBuildCondBr(e->builder, condition.ref, body, loop->exit);
    LLVMPositionBuilderAtEnd(e->builder, body);
}

void mxe_while_end(mxe *e, mxe_while *loop)
{
    LLVMBuildBr(e->builder, loop->head);
    LLVMPositionBuilderAtEnd(e->builder, loop->exit);
}

mxe_value mxe_any_at(mxe *e, mxe_value condition)
{
    if (condition.type != MXE_I1) {
        mxe_fail(e, "any of what is no condition");
        return mxe_const_at(e, MXE_I1, 0);
    }
    if (!mxe_is_set(e, condition))
        return mxe_const_at(e, MXE_I1, 0);
    if (!condition.varying || e->simd_width == 1) {
        condition.varying = false;
        return condition;
    }
    LLVMTypeRef bits = LLVMIntTypeInContext(e->context, (unsigned)e->simd_width);
    LLVMValueRef mask = LLVMBuildBitCast(e->builder, condition.ref, bits, "");
    LLVMValueRef any = LLVMBuildICmp(e->builder, LLVMIntNE, mask, LLVMConstNull(bits), "");
    return mxe_wrap(any, MXE_I1, false);
}

/* Slots stand in the entry block, where the optimiser turns them into values. */
mxe_var mxe_var_new_at(mxe *e, mxe_value initial)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->builder);
    LLVMValueRef first = LLVMGetFirstInstruction(e->entry);
    if (first)
        LLVMPositionBuilderBefore(e->builder, first);
    else
        LLVMPositionBuilderAtEnd(e->builder, e->entry);
    mxe_var var = {NULL, initial.type, initial.varying};
    var.slot = LLVMBuildAlloca(e->builder, mxe_llvm_type(e, var.type, var.varying), "");
    LLVMPositionBuilderAtEnd(e->builder, here);
    mxe_var_set_at(e, var, initial);
    return var;
}

void mxe_var_set_at(mxe *e, mxe_var var, mxe_value value)
{
    if (!mxe_is_set(e, value))
        return;
    if (value.type != var.type || (value.varying && !var.varying && e->simd_width > 1)) {
        mxe_fail(e, "a variable is set to a value of another type");
        return;
    }
    if (var.varying)
        value = mxe_varying_at(e, value);
    LLVMBuildStore(e->builder, value.ref, var.slot);
}

mxe_value mxe_var_get_at(mxe *e, mxe_var var)
{
    LLVMTypeRef type = mxe_llvm_type(e, var.type, var.varying);
    return mxe_wrap(LLVMBuildLoad2(e->builder, type, var.slot, ""), var.type, var.varying);
}

void mxe_scalar_begin(mxe *e)
{
    if (e->target->kind == MXGEN_HOST)
        e->lanes = e->simd_width = 1;
}

void mxe_scalar_end(mxe *e)
{
    e->lanes = e->target->lanes;
    e->simd_width = e->target->simd_width;
}

/* ---- Lanes ---- */

void mxe_fence(mxe *e, LLVMAtomicOrdering ordering, const char *scope)
{
    unsigned id = LLVMGetSyncScopeID(e->context, scope, strlen(scope));
    LLVMBuildFenceSyncScope(e->builder, ordering, id, "");
}

void mxe_warp_sync(mxe *e)
{
    if (e->target->kind == MXGEN_AMDGPU) {
        /* The LDS unit serves a wave in order: only the compiler has to be held back. */
        mxe_fence(e, LLVMAtomicOrderingRelease, "wavefront");
        mxe_call_intrinsic(e, "llvm.amdgcn.wave.barrier", NULL, 0, NULL, 0);
        mxe_fence(e, LLVMAtomicOrderingAcquire, "wavefront");
    } else if (e->target->kind == MXGEN_NVPTX) {
        LLVMValueRef all = mxe_llvm_i32(e, -1);
        mxe_call_intrinsic(e, "llvm.nvvm.bar.warp.sync", NULL, 0, &all, 1);
    }
}

void mxe_barrier(mxe *e)
{
    if (e->target->kind == MXGEN_AMDGPU) {
        mxe_fence(e, LLVMAtomicOrderingRelease, "workgroup");
        mxe_call_intrinsic(e, "llvm.amdgcn.s.barrier", NULL, 0, NULL, 0);
        mxe_fence(e, LLVMAtomicOrderingAcquire, "workgroup");
    } else if (e->target->kind == MXGEN_NVPTX) {
        LLVMValueRef barrier = mxe_llvm_i32(e, 0);
        mxe_call_intrinsic(e, "llvm.nvvm.barrier.cta.sync.aligned.all", NULL, 0, &barrier, 1);
    }
}

/* The value of another lane: within 16 lanes by a data-parallel primitive on AMD. The patterns
 * serve a reduction whose groups already agree, so a mirror is as good as an xor. */
static LLVMValueRef exchange(mxe *e, LLVMValueRef a, int distance)
{
    LLVMTypeRef i32 = e->types[MXE_I32];
    if (e->target->kind == MXGEN_AMDGPU && distance == 16) {
        enum { XOR_16 = 0x401f }; /* of 32 lanes' numbers */
        LLVMValueRef args[2] = {a, mxe_llvm_i32(e, XOR_16)};
        return mxe_call_intrinsic(e, "llvm.amdgcn.ds.swizzle", NULL, 0, args, 2);
    }
    if (e->target->kind == MXGEN_AMDGPU) {
        enum { QUAD_XOR1 = 0xb1, QUAD_XOR2 = 0x4e, ROW_HALF_MIRROR = 0x141, ROW_MIRROR = 0x140 };
        int control = distance == 1   ? QUAD_XOR1
                      : distance == 2 ? QUAD_XOR2
                      : distance == 4 ? ROW_HALF_MIRROR
                                      : ROW_MIRROR;
        LLVMValueRef args[6] = {LLVMGetPoison(i32),       a,
                                mxe_llvm_i32(e, control), mxe_llvm_i32(e, 0xf),
                                mxe_llvm_i32(e, 0xf),     LLVMConstInt(e->types[MXE_I1], 1, 0)};
        return mxe_call_intrinsic(e, "llvm.amdgcn.update.dpp", &i32, 1, args, 6);
    }
    LLVMValueRef args[4] = {mxe_llvm_i32(e, -1), a, mxe_llvm_i32(e, distance),
                            mxe_llvm_i32(e, 0x1f)};
    return mxe_call_intrinsic(e, "llvm.nvvm.shfl.sync.bfly.i32", NULL, 0, args, 4);
}

mxe_value mxe_lane_reduce_at(mxe *e, mxe_op op, mxe_value a, int group)
{
    if (group == 1 || !mxe_is_set(e, a))
        return a;
    if (!mxgen_target_has(e->target, MXGEN_CAP_EXCHANGE) || a.type != MXE_I32 || group > 32 ||
        (group & (group - 1)) || (op != MXE_UMAX && op != MXE_OR)) {
        mxe_fail(e, "no reduction over %d lanes on %s", group, e->target->name);
        return a;
    }
    for (int distance = 1; distance < group; distance *= 2) {
        mxe_value other = mxe_wrap(exchange(e, a.ref, distance), MXE_I32, true);
        a = mxe_binary_at(e, op, a, other);
    }
    return a;
}
