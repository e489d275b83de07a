#include "gen/emit_fragment.h"

#include "gen/emit_internal.h"
#include "gen/emit_matrix.h"

static bool are_words(mxe *e, const mxe_value *words, int n)
{
    if (!mxgen_target_has(e->target, MXGEN_CAP_TILE_MMA)) {
        mxe_fail(e, "%s has no products of fragments", e->target->name);
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (!mxe_is_set(e, words[i]))
            return false;
        if (words[i].type != MXE_I32) {
            mxe_fail(e, "fragments are made of i32 words");
            return false;
        }
    }
    return true;
}

static void poison(mxe *e, mxe_value *words, int n)
{
    for (int i = 0; i < n; i++)
        words[i] = mxe_poison(e, MXE_I32, true);
}

void mxe_fragment_load_at(mxe *e, mxe_value offset, mxe_value words[4])
{
    if (!are_words(e, &offset, 1) || !e->lds) {
        if (!e->lds)
            mxe_fail(e, "shared memory used before mxe_lds_reserve");
        poison(e, words, 4);
        return;
    }
    LLVMValueRef at = LLVMBuildZExt(e->builder, offset.ref, e->types[MXE_I64], "");
    LLVMValueRef pointer = LLVMBuildInBoundsGEP2(e->builder, e->types[MXE_I8], e->lds, &at, 1, "");
    LLVMTypeRef type = e->lds_pointer;
    LLVMValueRef all =
        mxe_call_intrinsic(e, "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16", &type, 1, &pointer, 1);
    for (unsigned i = 0; i < 4; i++)
        words[i] = mxe_wrap(LLVMBuildExtractValue(e->builder, all, i, ""), MXE_I32, true);
}

static mxe_value with(mxe *e, mxe_op op, mxe_value a, int64_t b)
{
    return mxe_binary_at(e, op, a, mxe_const_at(e, MXE_I32, (int32_t)b));
}

/* E2M1's bits s e e m are the s, the low exponent bits and the high mantissa bit of E5M2,
 * subnormals alike, and E5M2 is f16's upper byte. */
static void e2m1_to_f16(mxe *e, mxe_value word, mxe_value *out)
{
    const int64_t magnitudes = 0x0e0e0e0e, signs = 0x80808080, high = 0xff00ff00;
    mxe_value even =
        mxe_binary_at(e, MXE_OR, with(e, MXE_AND, with(e, MXE_SHL, word, 1), magnitudes),
                      with(e, MXE_AND, with(e, MXE_SHL, word, 4), signs));
    mxe_value odd =
        mxe_binary_at(e, MXE_OR, with(e, MXE_AND, with(e, MXE_LSHR, word, 3), magnitudes),
                      with(e, MXE_AND, word, signs));
    LLVMValueRef zero = mxe_llvm_i32(e, 0);
    out[0] = mxe_wrap(mxe_permute_bytes(e, zero, even.ref, 0x2404), MXE_I32, true);
    out[1] = with(e, MXE_AND, even, high);
    out[2] = mxe_wrap(mxe_permute_bytes(e, zero, odd.ref, 0x2404), MXE_I32, true);
    out[3] = with(e, MXE_AND, odd, high);
}

void mxe_fragment_e2m1_at(mxe *e, mx_dtype dtype, mxe_value word, mxe_value out[MXE_FRAGMENT_WORDS])
{
    mxe_value table[MXE_TABLE_WORDS];
    if (!are_words(e, &word, 1)) {
        poison(e, out, MXE_FRAGMENT_WORDS);
        return;
    }
    if (dtype == MX_DTYPE_F16) {
        e2m1_to_f16(e, word, out);
        return;
    }
    mxe_octet_table_at(e, mxe_const_at(e, MXE_I32, 127), table);
    mxe_octet_e2m1_at(e, table, word, out);
}

/* A word as the instruction wants it: two f16, or as it is. */
static LLVMValueRef operand(mxe *e, mx_dtype dtype, mxe_value word)
{
    if (dtype != MX_DTYPE_F16)
        return word.ref;
    LLVMTypeRef pair = LLVMVectorType(LLVMHalfTypeInContext(e->context), 2);
    return LLVMBuildBitCast(e->builder, word.ref, pair, "");
}

void mxe_fragment_mma_at(mxe *e, mx_dtype dtype, const mxe_value left[2 * MXE_FRAGMENT_WORDS],
                         const mxe_value right[MXE_FRAGMENT_WORDS], mxe_value sums[4])
{
    const char *name = dtype == MX_DTYPE_F16 ? "llvm.nvvm.mma.m16n8k16.row.col.f32.f32"
                                             : "llvm.nvvm.mma.m16n8k16.row.col.bf16";
    if (!are_words(e, left, 2 * MXE_FRAGMENT_WORDS) || !are_words(e, right, MXE_FRAGMENT_WORDS))
        return;
    for (int at = 0; at < MXE_FRAGMENT_WORDS; at += 2) {
        const mxe_value *down = left + MXE_FRAGMENT_WORDS;
        LLVMValueRef args[10] = {operand(e, dtype, left[at]),
                                 operand(e, dtype, down[at]),
                                 operand(e, dtype, left[at + 1]),
                                 operand(e, dtype, down[at + 1]),
                                 operand(e, dtype, right[at]),
                                 operand(e, dtype, right[at + 1]),
                                 sums[0].ref,
                                 sums[1].ref,
                                 sums[2].ref,
                                 sums[3].ref};
        LLVMValueRef all = mxe_call_intrinsic(e, name, NULL, 0, args, 10);
        for (unsigned i = 0; i < 4; i++)
            sums[i] = mxe_wrap(LLVMBuildExtractValue(e->builder, all, i, ""), MXE_F32, true);
    }
}

mxe_value mxe_quad_lane_at(mxe *e, mxe_value a, int index)
{
    /* Segments of four lanes, the last of which may be read. */
    enum { QUADS = 0x1c03 };
    if (!are_words(e, &a, 1))
        return mxe_poison(e, MXE_I32, true);
    LLVMValueRef args[4] = {mxe_llvm_i32(e, -1), a.ref, mxe_llvm_i32(e, index),
                            mxe_llvm_i32(e, QUADS)};
    return mxe_wrap(mxe_call_intrinsic(e, "llvm.nvvm.shfl.sync.idx.i32", NULL, 0, args, 4), MXE_I32,
                    true);
}
