/* Codes of block formats as f32, and f32 as bf16. */
#include "gen/emit_internal.h"
#include "gen/emit_matrix.h"

static mxe_value number(mxe *e, mxe_type type, int64_t value)
{
    return mxe_const_at(e, type, value);
}

/* All sixteen numbers, and how far a permutation of a register's items reaches. */
static LLVMValueRef e2m1_table(mxe *e, int n)
{
    static const double magnitudes[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    LLVMValueRef items[16];
    for (int i = 0; i < n; i++)
        items[i] = LLVMConstReal(e->types[MXE_F32], i < 8 ? magnitudes[i] : -magnitudes[i - 8]);
    return LLVMConstVector(items, (unsigned)n);
}

/* AVX2 and AVX-512 look up as many items as a register has: with eight the sign comes after. */
static mxe_value e2m1_by_permutation(mxe *e, mxe_value code)
{
    int n = e->simd_width;
    LLVMValueRef table = e2m1_table(e, n);
    LLVMValueRef args[2] = {table, code.ref};
    const char *name = n == 8 ? "llvm.x86.avx2.permps" : "llvm.x86.avx512.permvar.sf.512";
    mxe_value found = mxe_wrap(mxe_call_intrinsic(e, name, NULL, 0, args, 2), MXE_F32, true);
    if (n == 16)
        return found;
    mxe_value sign = mxe_binary_at(e, MXE_SHL, code, number(e, MXE_I32, 28));
    sign = mxe_binary_at(e, MXE_AND, sign, number(e, MXE_I32, INT32_MIN));
    mxe_value bits = mxe_binary_at(e, MXE_OR, mxe_bitcast_at(e, found, MXE_I32), sign);
    return mxe_bitcast_at(e, bits, MXE_F32);
}

/* Fields that stand where f16 has them: the number is 2^(bias of f16 - bias of the element) off. */
static mxe_value by_f16(mxe *e, mxe_value code, int bits, int up)
{
    mxe_value low = mxe_binary_at(e, MXE_AND, code, number(e, MXE_I16, (1 << (bits - 1)) - 1));
    mxe_value sign = mxe_binary_at(e, MXE_SHL, code, number(e, MXE_I16, 16 - bits));
    sign = mxe_binary_at(e, MXE_AND, sign, number(e, MXE_I16, INT16_MIN));
    mxe_value half = mxe_binary_at(e, MXE_SHL, low, number(e, MXE_I16, up));
    half = mxe_bitcast_at(e, mxe_binary_at(e, MXE_OR, half, sign), MXE_F16);
    return mxe_convert_at(e, half, MXE_F32, true);
}

static mxe_value times(mxe *e, mxe_value a, mxe_value b)
{
    return mxe_binary_at(e, MXE_FMUL, a, b);
}

static mxe_value e4m3(mxe *e, mxe_value code, mxe_value factor)
{
    mxe_value quiet = mxe_bitcast_at(e, number(e, MXE_I32, 0x7fc00000), MXE_F32);
    mxe_value value = by_f16(e, code, 8, 7);
    mxe_value magnitude = mxe_binary_at(e, MXE_AND, code, number(e, MXE_I16, 0x7f));
    mxe_value is_nan = mxe_binary_at(e, MXE_EQ, magnitude, number(e, MXE_I16, 0x7f));
    value = times(e, value, times(e, factor, mxe_const_f32_at(e, 256.0f)));
    return mxe_select_at(e, is_nan, quiet, value);
}

mxe_value mxe_element_to_f32_at(mxe *e, mxe_element element, mxe_value code, mxe_value factor)
{
    if (!mxe_is_set(e, code) || !mxe_is_set(e, factor))
        return mxe_poison(e, MXE_F32, true);
    if (mxe_type_is_float(code.type) || factor.type != MXE_F32) {
        mxe_fail(e, "an element is an integer, its factor f32");
        return mxe_poison(e, MXE_F32, true);
    }
    if (element == MXE_BF16) {
        mxe_value wide = mxe_convert_at(e, code, MXE_I32, false);
        wide = mxe_binary_at(e, MXE_SHL, wide, number(e, MXE_I32, 16));
        return times(e, mxe_bitcast_at(e, wide, MXE_F32), factor);
    }
    bool permutes = mxgen_target_has(e->target, MXGEN_CAP_PERMUTE) && e->simd_width > 1;
    if (element == MXE_E2M1 && permutes) {
        code = mxe_varying_at(e, mxe_convert_at(e, code, MXE_I32, false));
        return times(e, e2m1_by_permutation(e, code), factor);
    }
    code = mxe_convert_at(e, code, MXE_I16, false);
    if (element == MXE_E4M3)
        return e4m3(e, code, factor);
    if (element == MXE_E5M2)
        return times(e, by_f16(e, code, 8, 8), factor);
    return times(e, by_f16(e, code, 4, 9), times(e, factor, mxe_const_f32_at(e, 16384.0f)));
}

/* Where the target has no instruction for it, LLVM calls a function. */
static mxe_value to_bf16_by_integers(mxe *e, mxe_value a)
{
    mxe_value is_nan = mxe_binary_at(e, MXE_UNO, a, a);
    mxe_value bits = mxe_bitcast_at(e, a, MXE_I32);
    mxe_value high = mxe_binary_at(e, MXE_LSHR, bits, number(e, MXE_I32, 16));
    mxe_value odd = mxe_binary_at(e, MXE_AND, high, number(e, MXE_I32, 1));
    odd = mxe_binary_at(e, MXE_ADD, odd, number(e, MXE_I32, 0x7fff));
    bits = mxe_binary_at(e, MXE_ADD, bits, odd);
    bits = mxe_binary_at(e, MXE_LSHR, bits, number(e, MXE_I32, 16));
    bits = mxe_select_at(e, is_nan, number(e, MXE_I32, 0x7fc0), bits);
    return mxe_convert_at(e, bits, MXE_I16, false);
}

mxe_value mxe_to_bf16_at(mxe *e, mxe_value a)
{
    if (!mxe_is_set(e, a))
        return mxe_poison(e, MXE_I16, true);
    if (a.type != MXE_F32) {
        mxe_fail(e, "to bf16 from f32");
        return mxe_poison(e, MXE_I16, true);
    }
    if (e->target->kind == MXGEN_HOST)
        return to_bf16_by_integers(e, a);
    LLVMTypeRef bf16 = LLVMBFloatTypeInContext(e->context);
    LLVMValueRef narrow = LLVMBuildFPTrunc(e->builder, a.ref, bf16, "");
    LLVMValueRef bits = LLVMBuildBitCast(e->builder, narrow, e->types[MXE_I16], "");
    return mxe_wrap(bits, MXE_I16, a.varying);
}
