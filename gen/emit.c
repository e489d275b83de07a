/* Types, constants, arithmetic. */
#include "gen/emit_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mxgen/error.h"

void mxe_fail(mxe *e, const char *format, ...)
{
    if (e->failed)
        return;
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    e->failed = true;
    mx_fail(&e->error, MX_ERR_INTERNAL, "%s:%d: %s", e->file ? e->file : "template", e->line, text);
}

void mxe_init(mxe *e, const mxgen_target *target, LLVMContextRef context, LLVMModuleRef module)
{
    memset(e, 0, sizeof(*e));
    e->target = target;
    e->context = context;
    e->module = module;
    e->builder = LLVMCreateBuilderInContext(context);
    e->lanes = target->lanes;
    e->simd_width = target->simd_width;
    e->types[MXE_I1] = LLVMInt1TypeInContext(context);
    e->types[MXE_I8] = LLVMInt8TypeInContext(context);
    e->types[MXE_I16] = LLVMInt16TypeInContext(context);
    e->types[MXE_I32] = LLVMInt32TypeInContext(context);
    e->types[MXE_I64] = LLVMInt64TypeInContext(context);
    e->types[MXE_F16] = LLVMHalfTypeInContext(context);
    e->types[MXE_F32] = LLVMFloatTypeInContext(context);
    e->pointer = LLVMPointerTypeInContext(context, 0);
    bool host = target->kind == MXGEN_HOST;
    e->global_pointer = LLVMPointerTypeInContext(context, host ? 0 : 1);
    e->lds_pointer = LLVMPointerTypeInContext(context, host ? 0 : 3);
}

void mxe_finish(mxe *e)
{
    if (e->builder)
        LLVMDisposeBuilder(e->builder);
    e->builder = NULL;
}

int mxe_type_bytes(mxe_type type)
{
    static const int bytes[MXE_TYPE_COUNT] = {1, 1, 2, 4, 8, 2, 4};
    return bytes[type];
}

bool mxe_type_is_float(mxe_type type)
{
    return type == MXE_F16 || type == MXE_F32;
}

static const char *type_name(mxe_type type)
{
    static const char *const names[MXE_TYPE_COUNT] = {"i1",  "i8",  "i16", "i32",
                                                      "i64", "f16", "f32"};
    return (unsigned)type < MXE_TYPE_COUNT ? names[type] : "invalid";
}

LLVMTypeRef mxe_llvm_type(mxe *e, mxe_type type, bool varying)
{
    LLVMTypeRef scalar = e->types[type];
    return varying && e->simd_width > 1 ? LLVMVectorType(scalar, (unsigned)e->simd_width) : scalar;
}

mxe_value mxe_wrap(LLVMValueRef ref, mxe_type type, bool varying)
{
    return (mxe_value){ref, type, varying};
}

mxe_value mxe_poison(mxe *e, mxe_type type, bool varying)
{
    return mxe_wrap(LLVMGetPoison(mxe_llvm_type(e, type, varying)), type, varying);
}

bool mxe_is_set(mxe *e, mxe_value a)
{
    if (!a.ref)
        mxe_fail(e, "an operand (%s) is not set", type_name(a.type));
    return a.ref != NULL;
}

LLVMValueRef mxe_llvm_i32(mxe *e, int64_t value)
{
    return LLVMConstInt(e->types[MXE_I32], (unsigned long long)value, 1);
}

mxe_value mxe_const_at(mxe *e, mxe_type type, int64_t value)
{
    if (mxe_type_is_float(type)) {
        mxe_fail(e, "integer constant of type %s", type_name(type));
        return mxe_poison(e, type, false);
    }
    /* Masks with the top bit set are written as unsigned numbers. */
    if (type == MXE_I32)
        value = (int32_t)value;
    return mxe_wrap(LLVMConstInt(e->types[type], (unsigned long long)value, 1), type, false);
}

mxe_value mxe_const_f32_at(mxe *e, float value)
{
    return mxe_wrap(LLVMConstReal(e->types[MXE_F32], (double)value), MXE_F32, false);
}

mxe_value mxe_varying_at(mxe *e, mxe_value a)
{
    if (a.varying)
        return a;
    if (e->simd_width > 1) {
        LLVMTypeRef type = mxe_llvm_type(e, a.type, true);
        LLVMValueRef one =
            LLVMBuildInsertElement(e->builder, LLVMGetPoison(type), a.ref, mxe_llvm_i32(e, 0), "");
        LLVMValueRef zeros =
            LLVMConstNull(LLVMVectorType(e->types[MXE_I32], (unsigned)e->simd_width));
        a.ref = LLVMBuildShuffleVector(e->builder, one, LLVMGetPoison(type), zeros, "");
    }
    a.varying = true;
    return a;
}

/* Brings two operands to one shape. */
static void unify(mxe *e, mxe_value *a, mxe_value *b)
{
    if (a->varying && !b->varying)
        *b = mxe_varying_at(e, *b);
    else if (b->varying && !a->varying)
        *a = mxe_varying_at(e, *a);
}

mxe_value mxe_convert_at(mxe *e, mxe_value a, mxe_type type, bool is_signed)
{
    if (a.type == type)
        return a;
    if (!mxe_is_set(e, a))
        return mxe_poison(e, type, a.varying);
    LLVMTypeRef to = mxe_llvm_type(e, type, a.varying);
    bool from_float = mxe_type_is_float(a.type), to_float = mxe_type_is_float(type);
    LLVMOpcode op;
    if (from_float && !to_float) {
        mxe_fail(e, "conversion from %s to %s: add MXE_ROUNDER instead", type_name(a.type),
                 type_name(type));
        return mxe_poison(e, type, a.varying);
    }
    if (from_float)
        op = mxe_type_bytes(type) > mxe_type_bytes(a.type) ? LLVMFPExt : LLVMFPTrunc;
    else if (to_float)
        op = is_signed ? LLVMSIToFP : LLVMUIToFP;
    else if (type == MXE_I1 || (a.type != MXE_I1 && mxe_type_bytes(type) < mxe_type_bytes(a.type)))
        op = LLVMTrunc;
    else
        op = is_signed ? LLVMSExt : LLVMZExt;
    return mxe_wrap(LLVMBuildCast(e->builder, op, a.ref, to, ""), type, a.varying);
}

mxe_value mxe_bitcast_at(mxe *e, mxe_value a, mxe_type type)
{
    if (mxe_type_bytes(a.type) != mxe_type_bytes(type)) {
        mxe_fail(e, "bitcast from %s to %s", type_name(a.type), type_name(type));
        return mxe_poison(e, type, a.varying);
    }
    if (!mxe_is_set(e, a))
        return mxe_poison(e, type, a.varying);
    LLVMTypeRef to = mxe_llvm_type(e, type, a.varying);
    return mxe_wrap(LLVMBuildBitCast(e->builder, a.ref, to, ""), type, a.varying);
}

LLVMValueRef mxe_call_intrinsic(mxe *e, const char *name, LLVMTypeRef *overloads,
                                unsigned n_overloads, LLVMValueRef *args, unsigned n_args)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (id == 0) {
        mxe_fail(e, "LLVM has no intrinsic %s", name);
        return LLVMGetPoison(n_overloads ? overloads[0] : e->types[MXE_I32]);
    }
    LLVMValueRef callee = LLVMGetIntrinsicDeclaration(e->module, id, overloads, n_overloads);
    LLVMTypeRef type = LLVMIntrinsicGetType(e->context, id, overloads, n_overloads);
    return LLVMBuildCall2(e->builder, type, callee, args, n_args, "");
}

static mxe_value minmax(mxe *e, const char *name, mxe_value a, mxe_value b)
{
    LLVMTypeRef type = mxe_llvm_type(e, a.type, a.varying);
    LLVMValueRef args[2] = {a.ref, b.ref};
    return mxe_wrap(mxe_call_intrinsic(e, name, &type, 1, args, 2), a.type, a.varying);
}

static mxe_value compare(mxe *e, mxe_op op, mxe_value a, mxe_value b)
{
    static const LLVMIntPredicate predicates[] = {LLVMIntEQ,  LLVMIntNE,  LLVMIntULT,
                                                  LLVMIntULE, LLVMIntSLT, LLVMIntSLE};
    LLVMValueRef ref;
    if (op == MXE_UNO)
        ref = LLVMBuildFCmp(e->builder, LLVMRealUNO, a.ref, b.ref, "");
    else
        ref = LLVMBuildICmp(e->builder, predicates[op - MXE_EQ], a.ref, b.ref, "");
    return mxe_wrap(ref, MXE_I1, a.varying);
}

static bool op_takes_float(mxe_op op)
{
    return (op >= MXE_FADD && op <= MXE_FMAX) || op == MXE_UNO;
}

mxe_value mxe_binary_at(mxe *e, mxe_op op, mxe_value a, mxe_value b)
{
    static const LLVMOpcode opcodes[] = {LLVMAdd, LLVMSub, LLVMMul, LLVMUDiv, LLVMURem, LLVMAnd,
                                         LLVMOr,  LLVMXor, LLVMShl, LLVMLShr, LLVMAShr};
    if (a.type != b.type || mxe_type_is_float(a.type) != op_takes_float(op)) {
        mxe_fail(e, "operation %d on %s and %s", (int)op, type_name(a.type), type_name(b.type));
        return mxe_poison(e, op >= MXE_EQ ? MXE_I1 : a.type, a.varying || b.varying);
    }
    if (!mxe_is_set(e, a) || !mxe_is_set(e, b))
        return mxe_poison(e, op >= MXE_EQ ? MXE_I1 : a.type, a.varying || b.varying);
    unify(e, &a, &b);
    if (op >= MXE_EQ)
        return compare(e, op, a, b);
    switch (op) {
    case MXE_UMIN:
        return minmax(e, "llvm.umin", a, b);
    case MXE_UMAX:
        return minmax(e, "llvm.umax", a, b);
    case MXE_SMIN:
        return minmax(e, "llvm.smin", a, b);
    case MXE_SMAX:
        return minmax(e, "llvm.smax", a, b);
    case MXE_FMIN:
        return minmax(e, "llvm.minnum", a, b);
    case MXE_FMAX:
        return minmax(e, "llvm.maxnum", a, b);
    case MXE_USUB:
        return minmax(e, "llvm.usub.sat", a, b);
    case MXE_FSUB:
        return mxe_wrap(LLVMBuildFSub(e->builder, a.ref, b.ref, ""), a.type, a.varying);
    case MXE_FADD:
        return mxe_wrap(LLVMBuildFAdd(e->builder, a.ref, b.ref, ""), a.type, a.varying);
    case MXE_FMUL:
        return mxe_wrap(LLVMBuildFMul(e->builder, a.ref, b.ref, ""), a.type, a.varying);
    default:
        return mxe_wrap(LLVMBuildBinOp(e->builder, opcodes[op], a.ref, b.ref, ""), a.type,
                        a.varying);
    }
}

mxe_value mxe_select_at(mxe *e, mxe_value condition, mxe_value a, mxe_value b)
{
    if (a.type != b.type || condition.type != MXE_I1) {
        mxe_fail(e, "select between %s and %s on %s", type_name(a.type), type_name(b.type),
                 type_name(condition.type));
        return mxe_poison(e, a.type, a.varying || b.varying);
    }
    if (!mxe_is_set(e, a) || !mxe_is_set(e, b) || !mxe_is_set(e, condition))
        return mxe_poison(e, a.type, a.varying || b.varying);
    unify(e, &a, &b);
    if (condition.varying && !a.varying) {
        a = mxe_varying_at(e, a);
        b = mxe_varying_at(e, b);
    }
    LLVMValueRef ref = LLVMBuildSelect(e->builder, condition.ref, a.ref, b.ref, "");
    return mxe_wrap(ref, a.type, a.varying);
}

mxe_value mxe_fma_at(mxe *e, mxe_value a, mxe_value b, mxe_value c)
{
    if (a.type != MXE_F32 || b.type != MXE_F32 || c.type != MXE_F32) {
        mxe_fail(e, "fma of %s, %s and %s", type_name(a.type), type_name(b.type),
                 type_name(c.type));
        return mxe_poison(e, MXE_F32, a.varying || b.varying || c.varying);
    }
    if (!mxe_is_set(e, a) || !mxe_is_set(e, b) || !mxe_is_set(e, c))
        return mxe_poison(e, MXE_F32, a.varying || b.varying || c.varying);
    unify(e, &a, &b);
    unify(e, &a, &c);
    unify(e, &a, &b);
    LLVMTypeRef type = mxe_llvm_type(e, MXE_F32, a.varying);
    LLVMValueRef args[3] = {a.ref, b.ref, c.ref};
    return mxe_wrap(mxe_call_intrinsic(e, "llvm.fma", &type, 1, args, 3), MXE_F32, a.varying);
}

mxe_value mxe_funnel_at(mxe *e, mxe_value low, mxe_value high, mxe_value bits)
{
    bool varying = low.varying || high.varying || bits.varying;
    if (low.type != MXE_I32 || high.type != MXE_I32 || bits.type != MXE_I32) {
        mxe_fail(e, "funnel of %s, %s and %s", type_name(low.type), type_name(high.type),
                 type_name(bits.type));
        return mxe_poison(e, MXE_I32, varying);
    }
    if (!mxe_is_set(e, low) || !mxe_is_set(e, high) || !mxe_is_set(e, bits))
        return mxe_poison(e, MXE_I32, varying);
    unify(e, &low, &high);
    unify(e, &low, &bits);
    unify(e, &low, &high);
    LLVMTypeRef type = mxe_llvm_type(e, MXE_I32, low.varying);
    LLVMValueRef args[3] = {high.ref, low.ref, bits.ref};
    LLVMValueRef word = mxe_call_intrinsic(e, "llvm.fshr", &type, 1, args, 3);
    return mxe_wrap(word, MXE_I32, low.varying);
}

/* Without the flag each step costs corrections for NaN. */
static mxe_value minmax_of_numbers(mxe *e, mxe_op op, mxe_value a, mxe_value b)
{
    mxe_value result = mxe_binary_at(e, op, a, b);
    if (LLVMIsACallInst(result.ref))
        LLVMSetFastMathFlags(result.ref, LLVMFastMathNoNaNs);
    return result;
}

mxe_value mxe_fclamp_at(mxe *e, mxe_value a, mxe_value low, mxe_value high)
{
    return minmax_of_numbers(e, MXE_FMIN, minmax_of_numbers(e, MXE_FMAX, a, low), high);
}

/* NVIDIA's conversions run at a quarter of the rate of additions. */
mxe_value mxe_small_to_f32_at(mxe *e, mxe_value a)
{
    if (e->target->kind != MXGEN_NVPTX || a.type != MXE_I32)
        return mxe_convert_at(e, a, MXE_F32, true);
    mxe_value rounder = mxe_const_f32_at(e, MXE_ROUNDER);
    mxe_value bits = mxe_binary_at(e, MXE_ADD, a, mxe_bitcast_at(e, rounder, MXE_I32));
    return mxe_binary_at(e, MXE_FADD, mxe_bitcast_at(e, bits, MXE_F32),
                         mxe_const_f32_at(e, -MXE_ROUNDER));
}

/* Chooses bytes of two words: on both vendors' GPUs one instruction. The selector's nibbles count
 * bytes of `low` from 0 and of `high` from 4. */
LLVMValueRef mxe_permute_bytes(mxe *e, LLVMValueRef high, LLVMValueRef low, unsigned selector)
{
    if (e->target->kind == MXGEN_NVPTX) {
        LLVMValueRef args[3] = {low, high, mxe_llvm_i32(e, selector)};
        return mxe_call_intrinsic(e, "llvm.nvvm.prmt", NULL, 0, args, 3);
    }
    unsigned bytes = 0;
    for (int i = 0; i < 4; i++)
        bytes |= (selector >> (4 * i) & 7) << (8 * i);
    LLVMValueRef args[3] = {high, low, mxe_llvm_i32(e, bytes)};
    return mxe_call_intrinsic(e, "llvm.amdgcn.perm", NULL, 0, args, 3);
}

static bool is_byte_of_word(mxe *e, mxe_value word, int index)
{
    if (!mxe_is_set(e, word))
        return false;
    if (word.type == MXE_I32 && index >= 0 && index < 4)
        return true;
    mxe_fail(e, "byte %d of an %s, not 0 to 3 of an i32", index, type_name(word.type));
    return false;
}

/* NVIDIA converts integers at a quarter of the rate: a byte becomes the low bits of 2^23 there. */
mxe_value mxe_byte_to_f32_at(mxe *e, mxe_value word, int index, int bias)
{
    const float magic = 8388608.0f;
    if (!is_byte_of_word(e, word, index))
        return mxe_poison(e, MXE_F32, true);
    mxe_value number;
    float offset = (float)-bias;
    if (e->target->kind == MXGEN_NVPTX) {
        LLVMValueRef bits = mxe_llvm_i32(e, 0x4b000000);
        bits = mxe_permute_bytes(e, bits, word.ref, 0x7540 + (unsigned)index);
        number = mxe_bitcast_at(e, mxe_wrap(bits, MXE_I32, word.varying), MXE_F32);
        offset -= magic;
    } else {
        mxe_value at = mxe_const_at(e, MXE_I32, 8 * index);
        mxe_value byte = mxe_binary_at(e, MXE_LSHR, word, at);
        byte = mxe_binary_at(e, MXE_AND, byte, mxe_const_at(e, MXE_I32, 0xff));
        number = mxe_convert_at(e, byte, MXE_F32, false);
    }
    return mxe_binary_at(e, MXE_FADD, number, mxe_const_f32_at(e, offset));
}

mxe_value mxe_signed_byte_to_f32_at(mxe *e, mxe_value word, int index)
{
    if (!is_byte_of_word(e, word, index))
        return mxe_poison(e, MXE_F32, true);
    if (e->target->kind == MXGEN_NVPTX) {
        mxe_value flipped =
            mxe_binary_at(e, MXE_XOR, word, mxe_const_at(e, MXE_I32, (int32_t)0x80808080));
        return mxe_byte_to_f32_at(e, flipped, index, 128);
    }
    if (index < 3)
        word = mxe_binary_at(e, MXE_SHL, word, mxe_const_at(e, MXE_I32, 24 - 8 * index));
    word = mxe_binary_at(e, MXE_ASHR, word, mxe_const_at(e, MXE_I32, 24));
    return mxe_convert_at(e, word, MXE_F32, true);
}

mxe_value mxe_gather_bytes_at(mxe *e, const mxe_value words[4], int index)
{
    for (int i = 0; i < 4; i++) {
        if (!is_byte_of_word(e, words[i], index))
            return mxe_poison(e, MXE_I32, true);
    }
    if (e->target->kind != MXGEN_HOST) {
        unsigned two = (unsigned)index | (unsigned)(index + 4) << 4;
        LLVMValueRef low = mxe_permute_bytes(e, words[1].ref, words[0].ref, two);
        LLVMValueRef high = mxe_permute_bytes(e, words[3].ref, words[2].ref, two);
        return mxe_wrap(mxe_permute_bytes(e, high, low, 0x5410), MXE_I32, true);
    }
    mxe_value mask = mxe_const_at(e, MXE_I32, 0xff), word = mxe_const_at(e, MXE_I32, 0);
    for (int i = 0; i < 4; i++) {
        mxe_value byte = words[i];
        if (index)
            byte = mxe_binary_at(e, MXE_LSHR, byte, mxe_const_at(e, MXE_I32, 8 * index));
        if (i < 3)
            byte = mxe_binary_at(e, MXE_AND, byte, mask);
        if (i)
            byte = mxe_binary_at(e, MXE_SHL, byte, mxe_const_at(e, MXE_I32, 8 * i));
        word = i ? mxe_binary_at(e, MXE_OR, word, byte) : byte;
    }
    return word;
}

/* Whether these are i32 on a target that has one of the capabilities. */
static bool are_halves(mxe *e, unsigned caps, const mxe_value *values, int n)
{
    for (int i = 0; i < n; i++) {
        if (!mxe_is_set(e, values[i]))
            return false;
        if (values[i].type != MXE_I32 || !(e->target->caps & caps)) {
            mxe_fail(e, "halves of %s on %s", type_name(values[i].type), e->target->name);
            return false;
        }
    }
    return true;
}

static LLVMTypeRef halves_type(mxe *e, LLVMTypeRef item, bool varying)
{
    return LLVMVectorType(item, varying ? 2 * (unsigned)e->simd_width : 2);
}

static LLVMValueRef as_halves(mxe *e, mxe_value a, LLVMTypeRef item)
{
    return LLVMBuildBitCast(e->builder, a.ref, halves_type(e, item, a.varying), "");
}

static mxe_value from_halves(mxe *e, LLVMValueRef halves, bool varying)
{
    LLVMTypeRef type = mxe_llvm_type(e, MXE_I32, varying);
    return mxe_wrap(LLVMBuildBitCast(e->builder, halves, type, ""), MXE_I32, varying);
}

mxe_value mxe_bf16x2_fma_at(mxe *e, mxe_value a, mxe_value b, mxe_value c)
{
    const mxe_value values[3] = {a, b, c};
    LLVMTypeRef bf16 = LLVMBFloatTypeInContext(e->context), type = LLVMVectorType(bf16, 2);
    if (!are_halves(e, MXGEN_CAP_HALVES, values, 3))
        return mxe_poison(e, MXE_I32, true);
    LLVMValueRef args[3] = {as_halves(e, a, bf16), as_halves(e, b, bf16), as_halves(e, c, bf16)};
    LLVMValueRef sum = mxe_call_intrinsic(e, "llvm.fma", &type, 1, args, 3);
    return from_halves(e, sum, a.varying || b.varying || c.varying);
}

static LLVMValueRef shorts(mxe *e, mxe_op op, LLVMTypeRef type, LLVMValueRef *args)
{
    switch (op) {
    case MXE_UMIN:
        return mxe_call_intrinsic(e, "llvm.umin", &type, 1, args, 2);
    case MXE_UMAX:
        return mxe_call_intrinsic(e, "llvm.umax", &type, 1, args, 2);
    case MXE_USUB:
        return mxe_call_intrinsic(e, "llvm.usub.sat", &type, 1, args, 2);
    case MXE_SUB:
        return LLVMBuildSub(e->builder, args[0], args[1], "");
    case MXE_LSHR:
        return LLVMBuildLShr(e->builder, args[0], args[1], "");
    case MXE_SLT:
        return LLVMBuildSExt(e->builder,
                             LLVMBuildICmp(e->builder, LLVMIntSLT, args[0], args[1], ""), type, "");
    default:
        mxe_fail(e, "operation %d on two u16", (int)op);
        return LLVMGetPoison(type);
    }
}

mxe_value mxe_u16x2_at(mxe *e, mxe_op op, mxe_value a, mxe_value b)
{
    const mxe_value values[2] = {a, b};
    unsigned caps =
        op == MXE_UMIN || op == MXE_UMAX ? MXGEN_CAP_HALVES | MXGEN_CAP_SHORTS : MXGEN_CAP_SHORTS;
    if (!are_halves(e, caps, values, 2))
        return mxe_poison(e, MXE_I32, true);
    unify(e, &a, &b);
    LLVMTypeRef i16 = e->types[MXE_I16];
    LLVMValueRef args[2] = {as_halves(e, a, i16), as_halves(e, b, i16)};
    return from_halves(e, shorts(e, op, halves_type(e, i16, a.varying), args), a.varying);
}

static LLVMTypeRef bytes_type(mxe *e, bool varying)
{
    return LLVMVectorType(e->types[MXE_I8], varying ? 4 * (unsigned)e->simd_width : 4);
}

mxe_value mxe_umin_u8x4_at(mxe *e, mxe_value a, mxe_value b)
{
    const mxe_value values[2] = {a, b};
    if (!are_halves(e, MXGEN_CAP_SHORTS, values, 2))
        return mxe_poison(e, MXE_I32, true);
    unify(e, &a, &b);
    LLVMTypeRef type = bytes_type(e, a.varying);
    LLVMValueRef args[2] = {LLVMBuildBitCast(e->builder, a.ref, type, ""),
                            LLVMBuildBitCast(e->builder, b.ref, type, "")};
    return from_halves(e, mxe_call_intrinsic(e, "llvm.umin", &type, 1, args, 2), a.varying);
}

mxe_value mxe_swap_middle_at(mxe *e, mxe_value a)
{
    enum { MOST_LANES = 16 };
    static const int order[4] = {0, 2, 1, 3};
    LLVMValueRef mask[4 * MOST_LANES];
    if (!are_halves(e, MXGEN_CAP_SHORTS, &a, 1))
        return mxe_poison(e, MXE_I32, true);
    LLVMTypeRef type = bytes_type(e, a.varying);
    int n = (int)LLVMGetVectorSize(type);
    for (int i = 0; i < n; i++)
        mask[i] = mxe_llvm_i32(e, i / 4 * 4 + order[i % 4]);
    LLVMValueRef bytes = LLVMBuildBitCast(e->builder, a.ref, type, "");
    bytes = LLVMBuildShuffleVector(e->builder, bytes, LLVMGetPoison(type),
                                   LLVMConstVector(mask, (unsigned)n), "");
    return from_halves(e, bytes, a.varying);
}

/* What is too large becomes NaN on AMD unless it is limited before. */
static LLVMValueRef amd_fp8_pair(mxe *e, LLVMValueRef low, LLVMValueRef high, bool is_e5m2)
{
    LLVMTypeRef f32 = e->types[MXE_F32];
    double most = is_e5m2 ? 57344.0 : 448.0;
    LLVMValueRef values[2] = {low, high};
    for (int i = 0; i < 2; i++) {
        LLVMValueRef limits[3] = {values[i], LLVMConstReal(f32, -most), LLVMConstReal(f32, most)};
        values[i] = mxe_call_intrinsic(e, "llvm.amdgcn.fmed3", &f32, 1, limits, 3);
    }
    LLVMValueRef args[4] = {values[0], values[1], mxe_llvm_i32(e, 0),
                            LLVMConstInt(e->types[MXE_I1], 0, 0)};
    const char *name = is_e5m2 ? "llvm.amdgcn.cvt.pk.bf8.f32" : "llvm.amdgcn.cvt.pk.fp8.f32";
    return mxe_call_intrinsic(e, name, NULL, 0, args, 4);
}

mxe_value mxe_fp8_pair_at(mxe *e, mxe_value low, mxe_value high, bool is_e5m2)
{
    const char *name = is_e5m2 ? "llvm.nvvm.ff.to.e5m2x2.rn" : "llvm.nvvm.ff.to.e4m3x2.rn";
    if (!mxgen_target_has(e->target, MXGEN_CAP_FP8) || low.type != MXE_F32 ||
        high.type != MXE_F32) {
        mxe_fail(e, "no conversion of %s and %s to FP8 on %s", type_name(low.type),
                 type_name(high.type), e->target->name);
        return mxe_poison(e, MXE_I32, true);
    }
    if (!mxe_is_set(e, low) || !mxe_is_set(e, high))
        return mxe_poison(e, MXE_I32, true);
    if (e->target->kind == MXGEN_AMDGPU)
        return mxe_wrap(amd_fp8_pair(e, low.ref, high.ref, is_e5m2), MXE_I32, true);
    LLVMValueRef args[2] = {high.ref, low.ref};
    mxe_value pair = mxe_wrap(mxe_call_intrinsic(e, name, NULL, 0, args, 2), MXE_I16, true);
    return mxe_convert_at(e, pair, MXE_I32, false);
}

mxe_value mxe_fp4_eight_at(mxe *e, const mxe_value values[8], mxe_value scale)
{
    LLVMValueRef word = mxe_llvm_i32(e, 0);
    if (!mxgen_target_has(e->target, MXGEN_CAP_FP4)) {
        mxe_fail(e, "no conversion to FP4 on %s", e->target->name);
        return mxe_poison(e, MXE_I32, true);
    }
    for (int i = 0; i < 8; i += 2) {
        if (!mxe_is_set(e, values[i]) || !mxe_is_set(e, values[i + 1]) || !mxe_is_set(e, scale))
            return mxe_poison(e, MXE_I32, true);
        LLVMValueRef args[5] = {word, values[i].ref, values[i + 1].ref, scale.ref,
                                mxe_llvm_i32(e, i / 2)};
        word = mxe_call_intrinsic(e, "llvm.amdgcn.cvt.scalef32.pk.fp4.f32", NULL, 0, args, 5);
    }
    return mxe_wrap(word, MXE_I32, true);
}
