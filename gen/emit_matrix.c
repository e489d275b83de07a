/* Products of tiles, by the target's matrix instructions. */
#include "gen/emit_matrix.h"

#include <string.h>

#include "gen/emit_internal.h"

/* ---- Geometry ---- */

static mxe_value lane_part(mxe *e, mxe_op op, int value)
{
    return mxe_binary_at(e, op, mxe_lane(e), mxe_const_at(e, MXE_I32, value));
}

static int log2_of(int value)
{
    return __builtin_ctz((unsigned)value);
}

mxe_value mxe_matrix_row(mxe *e, const mxgen_matrix *unit, int slot)
{
    if (unit->form != MXGEN_MATRIX_QUADS)
        return lane_part(e, MXE_AND, unit->tile - 1);
    mxe_value row = lane_part(e, MXE_LSHR, log2_of(unit->groups));
    return mxe_binary_at(e, MXE_ADD, row, mxe_const_at(e, MXE_I32, 8 * slot));
}

mxe_value mxe_matrix_group(mxe *e, const mxgen_matrix *unit)
{
    if (unit->groups == 1)
        return mxe_varying_at(e, mxe_const_at(e, MXE_I32, 0));
    if (unit->form == MXGEN_MATRIX_QUADS)
        return lane_part(e, MXE_AND, unit->groups - 1);
    return lane_part(e, MXE_LSHR, log2_of(unit->tile));
}

mxe_value mxe_matrix_item_row(mxe *e, const mxgen_matrix *unit, int item)
{
    if (unit->form != MXGEN_MATRIX_QUADS)
        return lane_part(e, MXE_AND, unit->tile - 1);
    mxe_value row = lane_part(e, MXE_LSHR, log2_of(unit->groups));
    return mxe_binary_at(e, MXE_ADD, row, mxe_const_at(e, MXE_I32, 8 * (item / 2 % 2)));
}

mxe_value mxe_matrix_item_column(mxe *e, const mxgen_matrix *unit, int item)
{
    mxe_value first;
    int rest;
    if (unit->form == MXGEN_MATRIX_QUADS) {
        first = lane_part(e, MXE_AND, unit->groups - 1);
        rest = 8 * (item / 4) + item % 2;
    } else {
        /* Runs of all lanes that share a row follow each other. */
        int lanes = e->target->lanes / unit->tile;
        first = lane_part(e, MXE_LSHR, log2_of(unit->tile));
        rest = item / unit->run * unit->run * lanes + item % unit->run;
    }
    first = mxe_binary_at(e, MXE_MUL, first, mxe_const_at(e, MXE_I32, unit->run));
    return mxe_binary_at(e, MXE_ADD, first, mxe_const_at(e, MXE_I32, rest));
}

/* ---- Results ---- */

static LLVMTypeRef sum_type(mxe *e, const mxgen_matrix *unit)
{
    return LLVMVectorType(e->types[MXE_F32], (unsigned)unit->items);
}

mxe_sum mxe_sum_new(mxe *e, const mxgen_matrix *unit)
{
    LLVMBasicBlockRef here = LLVMGetInsertBlock(e->builder);
    LLVMValueRef first = LLVMGetFirstInstruction(e->entry);
    if (first)
        LLVMPositionBuilderBefore(e->builder, first);
    else
        LLVMPositionBuilderAtEnd(e->builder, e->entry);
    mxe_sum sum = {unit, LLVMBuildAlloca(e->builder, sum_type(e, unit), "")};
    LLVMPositionBuilderAtEnd(e->builder, here);
    mxe_sum_clear(e, sum);
    return sum;
}

void mxe_sum_clear(mxe *e, mxe_sum sum)
{
    LLVMBuildStore(e->builder, LLVMConstNull(sum_type(e, sum.unit)), sum.slot);
}

static LLVMValueRef sum_load(mxe *e, mxe_sum sum)
{
    return LLVMBuildLoad2(e->builder, sum_type(e, sum.unit), sum.slot, "");
}

void mxe_sum_get(mxe *e, mxe_sum sum, mxe_value *items)
{
    LLVMValueRef all = sum_load(e, sum);
    for (int i = 0; i < sum.unit->items; i++) {
        LLVMValueRef item = LLVMBuildExtractElement(e->builder, all, mxe_llvm_i32(e, i), "");
        items[i] = mxe_wrap(item, MXE_F32, true);
    }
}

void mxe_sum_set_at(mxe *e, mxe_sum sum, const mxe_value *items)
{
    LLVMValueRef all = LLVMGetPoison(sum_type(e, sum.unit));
    for (int i = 0; i < sum.unit->items; i++) {
        if (!mxe_is_set(e, items[i]))
            return;
        if (items[i].type != MXE_F32) {
            mxe_fail(e, "items of a result are f32");
            return;
        }
        all = LLVMBuildInsertElement(e->builder, all, items[i].ref, mxe_llvm_i32(e, i), "");
    }
    LLVMBuildStore(e->builder, all, sum.slot);
}

/* ---- Products ---- */

static bool are_words(mxe *e, const mxe_value *words, int n)
{
    for (int i = 0; i < n; i++) {
        if (!mxe_is_set(e, words[i]))
            return false;
        if (words[i].type != MXE_I32) {
            mxe_fail(e, "operands of a matrix product are i32 words");
            return false;
        }
    }
    return true;
}

static LLVMValueRef word_vector(mxe *e, const mxe_value *words, int n)
{
    LLVMValueRef all = LLVMGetPoison(LLVMVectorType(e->types[MXE_I32], (unsigned)n));
    for (int i = 0; i < n; i++)
        all = LLVMBuildInsertElement(e->builder, all, words[i].ref, mxe_llvm_i32(e, i), "");
    return all;
}

/* Words as the intrinsic's vector of 16-bit items. */
static LLVMValueRef half_vector(mxe *e, const mxe_value *words, int n, LLVMTypeRef item)
{
    LLVMTypeRef type = LLVMVectorType(item, (unsigned)(2 * n));
    return LLVMBuildBitCast(e->builder, word_vector(e, words, n), type, "");
}

static LLVMValueRef mfma(mxe *e, const mxgen_matrix *unit, const mxe_value *left,
                         const mxe_value *right, LLVMValueRef sum)
{
    int words = unit->lane_elements / 2;
    LLVMTypeRef item = words == 2 ? e->types[MXE_I16] : LLVMBFloatTypeInContext(e->context);
    for (int at = 0; at < MXE_OCTET_WORDS; at += words) {
        LLVMValueRef zero = mxe_llvm_i32(e, 0);
        LLVMValueRef a = half_vector(e, right + at, words, item);
        LLVMValueRef b = half_vector(e, left + at, words, item);
        LLVMValueRef args[6] = {a, b, sum, zero, zero, zero};
        sum = mxe_call_intrinsic(e, unit->bf16, NULL, 0, args, 6);
    }
    return sum;
}

static LLVMValueRef wmma(mxe *e, const mxgen_matrix *unit, const mxe_value *left,
                         const mxe_value *right, LLVMValueRef sum)
{
    int words = unit->lane_elements / 2;
    LLVMTypeRef types[2] = {sum_type(e, unit),
                            LLVMVectorType(e->types[MXE_I16], (unsigned)unit->lane_elements)};
    LLVMValueRef args[3] = {half_vector(e, right, words, e->types[MXE_I16]),
                            half_vector(e, left, words, e->types[MXE_I16]), sum};
    return mxe_call_intrinsic(e, unit->bf16, types, 2, args, 3);
}

/* Sixteen rows by eight columns an instruction: the right operand's rows of the two halves in turn,
 * four elements of the contraction each. */
static LLVMValueRef quads(mxe *e, const mxgen_matrix *unit, const mxe_value *left,
                          const mxe_value *right, LLVMValueRef sum)
{
    for (int half = 0; half < 2; half++) {
        LLVMValueRef c[4];
        for (int i = 0; i < 4; i++)
            c[i] = LLVMBuildExtractElement(e->builder, sum, mxe_llvm_i32(e, 4 * half + i), "");
        for (int at = 0; at < MXE_OCTET_WORDS; at += 2) {
            const mxe_value *b = right + MXE_OCTET_WORDS * half + at;
            LLVMValueRef args[10] = {left[at].ref,
                                     left[MXE_OCTET_WORDS + at].ref,
                                     left[at + 1].ref,
                                     left[MXE_OCTET_WORDS + at + 1].ref,
                                     b[0].ref,
                                     b[1].ref,
                                     c[0],
                                     c[1],
                                     c[2],
                                     c[3]};
            LLVMValueRef d = mxe_call_intrinsic(e, unit->bf16, NULL, 0, args, 10);
            for (unsigned i = 0; i < 4; i++)
                c[i] = LLVMBuildExtractValue(e->builder, d, i, "");
        }
        for (int i = 0; i < 4; i++)
            sum = LLVMBuildInsertElement(e->builder, sum, c[i], mxe_llvm_i32(e, 4 * half + i), "");
    }
    return sum;
}

void mxe_matrix_bf16_at(mxe *e, mxe_sum sum, const mxe_value *left, const mxe_value *right)
{
    const mxgen_matrix *unit = sum.unit;
    int words = unit->rows * unit->octets * MXE_OCTET_WORDS;
    if (!are_words(e, left, words) || !are_words(e, right, words))
        return;
    LLVMValueRef value = sum_load(e, sum);
    switch (unit->form) {
    case MXGEN_MATRIX_MFMA:
        value = mfma(e, unit, left, right, value);
        break;
    case MXGEN_MATRIX_WMMA:
        value = wmma(e, unit, left, right, value);
        break;
    case MXGEN_MATRIX_QUADS:
        value = quads(e, unit, left, right, value);
        break;
    }
    LLVMBuildStore(e->builder, value, sum.slot);
}

/* The instruction's numbers of the formats: E4M3 0, E5M2 1, then two of six bits, E2M1 4. */
static int scaled_code(mxe_element element)
{
    return element == MXE_E4M3 ? 0 : element == MXE_E5M2 ? 1 : 4;
}

void mxe_matrix_scaled_at(mxe *e, mxe_sum sum, const mxe_scaled *left, const mxe_scaled *right)
{
    const mxgen_matrix *unit = sum.unit;
    int left_words = left->element == MXE_E2M1 ? 4 : 8;
    int right_words = right->element == MXE_E2M1 ? 4 : 8;
    if (!unit->scaled || left->element == MXE_BF16 || right->element == MXE_BF16) {
        mxe_fail(e, "no product of scaled blocks of these elements on %s", e->target->name);
        return;
    }
    if (!are_words(e, left->words, left_words) || !are_words(e, right->words, right_words) ||
        !are_words(e, &left->scale, 1) || !are_words(e, &right->scale, 1))
        return;
    LLVMValueRef a = word_vector(e, right->words, right_words);
    LLVMValueRef b = word_vector(e, left->words, left_words);
    LLVMTypeRef types[2] = {LLVMTypeOf(a), LLVMTypeOf(b)};
    LLVMValueRef args[9] = {a,
                            b,
                            sum_load(e, sum),
                            mxe_llvm_i32(e, scaled_code(right->element)),
                            mxe_llvm_i32(e, scaled_code(left->element)),
                            mxe_llvm_i32(e, right->scale_byte),
                            right->scale.ref,
                            mxe_llvm_i32(e, left->scale_byte),
                            left->scale.ref};
    LLVMValueRef value = mxe_call_intrinsic(e, unit->scaled, types, 2, args, 9);
    LLVMBuildStore(e->builder, value, sum.slot);
}

/* ptxas schedules by itself. */
void mxe_keep_order(mxe *e)
{
    LLVMValueRef nothing = mxe_llvm_i32(e, 0);
    if (e->target->kind == MXGEN_AMDGPU)
        mxe_call_intrinsic(e, "llvm.amdgcn.sched.barrier", NULL, 0, &nothing, 1);
}

mxe_value mxe_opaque_at(mxe *e, mxe_value a)
{
    bool uniform = a.type == MXE_I64 && !a.varying;
    if (!mxe_is_set(e, a) || (!uniform && (a.type != MXE_I32 || !a.varying))) {
        mxe_fail(e, "opaque is a uniform i64 or a varying i32");
        return mxe_poison(e, a.type, a.varying);
    }
    if (e->target->kind != MXGEN_AMDGPU)
        return a;
    const char *constraints = uniform ? "=s,0" : "=v,0";
    LLVMTypeRef type = LLVMFunctionType(e->types[a.type], &e->types[a.type], 1, 0);
    LLVMValueRef same = LLVMGetInlineAsm(type, "", 0, constraints, strlen(constraints), 0, 0,
                                         LLVMInlineAsmDialectATT, 0);
    a.ref = LLVMBuildCall2(e->builder, type, same, &a.ref, 1, "");
    return a;
}

mxe_value mxe_lane_anew(mxe *e)
{
    mxe_lane(e); /* makes the thread's number where there is none yet */
    mxe_value before = mxe_wrap(e->thread_id, MXE_I32, true);
    if (e->target->kind == MXGEN_AMDGPU)
        e->thread_id = mxe_opaque_at(e, before).ref;
    return before;
}

void mxe_lane_back(mxe *e, mxe_value before)
{
    e->thread_id = before.ref;
}

mxe_value mxe_warp_any_at(mxe *e, mxe_value condition)
{
    if (!mxe_is_set(e, condition) || condition.type != MXE_I1) {
        mxe_fail(e, "any of what is no condition");
        return mxe_const_at(e, MXE_I1, 0);
    }
    if (e->target->kind == MXGEN_AMDGPU) {
        LLVMTypeRef mask = LLVMIntTypeInContext(e->context, (unsigned)e->target->lanes);
        LLVMValueRef ballot =
            mxe_call_intrinsic(e, "llvm.amdgcn.ballot", &mask, 1, &condition.ref, 1);
        LLVMValueRef any = LLVMBuildICmp(e->builder, LLVMIntNE, ballot, LLVMConstNull(mask), "");
        return mxe_wrap(any, MXE_I1, false);
    }
    if (e->target->kind == MXGEN_NVPTX) {
        LLVMValueRef args[2] = {mxe_llvm_i32(e, -1), condition.ref};
        LLVMValueRef any = mxe_call_intrinsic(e, "llvm.nvvm.vote.any.sync", NULL, 0, args, 2);
        return mxe_wrap(any, MXE_I1, false);
    }
    return mxe_any_at(e, condition);
}
