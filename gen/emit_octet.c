/* Elements of block formats as bf16, eight at a time. The order of an octet is what costs least for
 * E2M1: on AMD's chips, whose byte permutation takes a byte an index, elements 0 2, 4 6, 1 3, 5 7;
 * on NVIDIA's, a nibble an index, memory's. */
#include "gen/emit_matrix.h"

#include "gen/emit_internal.h"

static mxe_value constant(mxe *e, int64_t value)
{
    return mxe_const_at(e, MXE_I32, (int32_t)value);
}

static mxe_value with(mxe *e, mxe_op op, mxe_value a, int64_t b)
{
    return mxe_binary_at(e, op, a, constant(e, b));
}

static mxe_value permute(mxe *e, mxe_value high, mxe_value low, unsigned selector)
{
    return mxe_wrap(mxe_permute_bytes(e, high.ref, low.ref, selector), MXE_I32, true);
}

static bool are_ready(mxe *e, const mxe_value *words, int n)
{
    if (e->target->kind == MXGEN_HOST) {
        mxe_fail(e, "octets are for GPUs");
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (!mxe_is_set(e, words[i]))
            return false;
        if (words[i].type != MXE_I32) {
            mxe_fail(e, "octets are made of i32 words");
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

static bool in_memory_order(const mxe *e)
{
    return e->target->kind == MXGEN_NVPTX;
}

/* With s the scale in the exponent's place, the bf16 of the magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6
 * are 0, s - 0x80, s, s + 0x40, s + 0x80, s + 0xc0, s + 0x100, s + 0x140. */
void mxe_octet_table_at(mxe *e, mxe_value scale, mxe_value table[MXE_TABLE_WORDS])
{
    if (!are_ready(e, &scale, 1)) {
        poison(e, table, MXE_TABLE_WORDS);
        return;
    }
    mxe_value both = mxe_varying_at(e, with(e, MXE_MUL, scale, 0x00800080));
    mxe_value c01 = with(e, MXE_SUB, with(e, MXE_AND, both, 0xffff0000), 0x00800000);
    mxe_value c23 = with(e, MXE_ADD, both, 0x00400000);
    mxe_value c45 = with(e, MXE_ADD, both, 0x00c00080);
    mxe_value c67 = with(e, MXE_ADD, both, 0x01400100);
    table[0] = permute(e, c23, c01, 0x7531);
    table[1] = permute(e, c67, c45, 0x7531);
    table[2] = permute(e, c23, c01, 0x6420);
    table[3] = permute(e, c67, c45, 0x6420);
}

/* AMD: bytes of even or odd elements' magnitudes, with signs. */
static void lookup_bytes(mxe *e, const mxe_value *table, mxe_value codes, mxe_value signs,
                         mxe_value *high, mxe_value *low)
{
    LLVMValueRef index = with(e, MXE_AND, codes, 0x07070707).ref;
    LLVMValueRef args[3] = {table[1].ref, table[0].ref, index};
    mxe_value bytes =
        mxe_wrap(mxe_call_intrinsic(e, "llvm.amdgcn.perm", NULL, 0, args, 3), MXE_I32, true);
    *high = mxe_binary_at(e, MXE_OR, bytes, with(e, MXE_AND, signs, 0x80808080));
    LLVMValueRef low_args[3] = {table[3].ref, table[2].ref, index};
    *low = mxe_wrap(mxe_call_intrinsic(e, "llvm.amdgcn.perm", NULL, 0, low_args, 3), MXE_I32, true);
}

static void e2m1_by_bytes(mxe *e, const mxe_value *table, mxe_value word, mxe_value *octet)
{
    mxe_value high, low;
    lookup_bytes(e, table, word, with(e, MXE_SHL, word, 4), &high, &low);
    octet[0] = permute(e, high, low, 0x5140);
    octet[1] = permute(e, high, low, 0x7362);
    lookup_bytes(e, table, with(e, MXE_LSHR, word, 4), word, &high, &low);
    octet[2] = permute(e, high, low, 0x5140);
    octet[3] = permute(e, high, low, 0x7362);
}

static mxe_value lookup_nibbles(mxe *e, mxe_value high, mxe_value low, mxe_value codes)
{
    LLVMValueRef args[3] = {low.ref, high.ref, codes.ref};
    return mxe_wrap(mxe_call_intrinsic(e, "llvm.nvvm.prmt", NULL, 0, args, 3), MXE_I32, true);
}

static void e2m1_by_nibbles(mxe *e, const mxe_value *table, mxe_value word, mxe_value *octet)
{
    /* Signs of even elements are the top bits of the bytes of `evens`, of odd ones those of `word`.
     */
    mxe_value evens = with(e, MXE_SHL, word, 4), codes = with(e, MXE_AND, word, 0x77777777);
    for (int half = 0; half < 2; half++) {
        mxe_value index = half ? with(e, MXE_LSHR, codes, 16) : codes;
        mxe_value signs = permute(e, word, evens, half ? 0x7362 : 0x5140);
        mxe_value high = lookup_nibbles(e, table[1], table[0], index);
        mxe_value low = lookup_nibbles(e, table[3], table[2], index);
        high = mxe_binary_at(e, MXE_OR, high, with(e, MXE_AND, signs, 0x80808080));
        octet[2 * half] = permute(e, high, low, 0x5140);
        octet[2 * half + 1] = permute(e, high, low, 0x7362);
    }
}

void mxe_octet_e2m1_at(mxe *e, const mxe_value table[MXE_TABLE_WORDS], mxe_value word,
                       mxe_value octet[MXE_OCTET_WORDS])
{
    if (!are_ready(e, table, MXE_TABLE_WORDS) || !are_ready(e, &word, 1))
        poison(e, octet, MXE_OCTET_WORDS);
    else if (in_memory_order(e))
        e2m1_by_nibbles(e, table, word, octet);
    else
        e2m1_by_bytes(e, table, word, octet);
}

/* Two bytes of a word as f16: E5M2 is f16's upper half, E4M3 has its exponent 8 too low there. */
static mxe_value fp8_halves(mxe *e, mxe_element element, mxe_value word, int first, int second)
{
    unsigned selector = 0x0404 | (unsigned)first << 4 | (unsigned)second << 12;
    mxe_value pair = permute(e, constant(e, 0), word, selector);
    if (element == MXE_E5M2)
        return pair;
    mxe_value magnitudes = with(e, MXE_AND, with(e, MXE_LSHR, pair, 1), 0x3f803f80);
    return mxe_binary_at(e, MXE_OR, magnitudes, with(e, MXE_AND, pair, 0x80008000));
}

static mxe_value half_to_f32(mxe *e, mxe_value pair, int half)
{
    mxe_value word = half ? with(e, MXE_LSHR, pair, 16) : pair;
    mxe_value bits = mxe_convert_at(e, word, MXE_I16, false);
    return mxe_convert_at(e, mxe_bitcast_at(e, bits, MXE_F16), MXE_F32, true);
}

void mxe_octet_fp8_at(mxe *e, mxe_element element, const mxe_value words[2], mxe_value factor,
                      mxe_value octet[MXE_OCTET_WORDS])
{
    if (!are_ready(e, words, 2) || !mxe_is_set(e, factor)) {
        poison(e, octet, MXE_OCTET_WORDS);
        return;
    }
    if (element == MXE_E4M3)
        factor = mxe_binary_at(e, MXE_FMUL, factor, mxe_const_f32_at(e, 256.0f));
    for (int i = 0; i < MXE_OCTET_WORDS; i++) {
        bool natural = in_memory_order(e);
        int first = natural ? 2 * (i % 2) : i / 2;
        int second = natural ? first + 1 : first + 2;
        mxe_value halves = fp8_halves(e, element, words[natural ? i / 2 : i % 2], first, second);
        mxe_value pair[2];
        for (int h = 0; h < 2; h++)
            pair[h] = mxe_binary_at(e, MXE_FMUL, half_to_f32(e, halves, h), factor);
        octet[i] = mxe_bf16_join_at(e, pair);
    }
}

void mxe_octet_bf16_at(mxe *e, const mxe_value words[4], mxe_value octet[MXE_OCTET_WORDS])
{
    if (!are_ready(e, words, 4)) {
        poison(e, octet, MXE_OCTET_WORDS);
        return;
    }
    for (int i = 0; i < MXE_OCTET_WORDS; i++) {
        const mxe_value *two = &words[i % 2 * 2];
        octet[i] =
            in_memory_order(e) ? words[i] : permute(e, two[1], two[0], i < 2 ? 0x5410 : 0x7632);
    }
}

void mxe_bf16_split_at(mxe *e, mxe_value word, mxe_value pair[2])
{
    pair[0] = mxe_bitcast_at(e, with(e, MXE_SHL, word, 16), MXE_F32);
    pair[1] = mxe_bitcast_at(e, with(e, MXE_AND, word, 0xffff0000), MXE_F32);
}

mxe_value mxe_bf16_join_at(mxe *e, const mxe_value pair[2])
{
    mxe_value low = mxe_bitcast_at(e, pair[0], MXE_I32), high = mxe_bitcast_at(e, pair[1], MXE_I32);
    return are_ready(e, &low, 1) && are_ready(e, &high, 1) ? permute(e, high, low, 0x7632)
                                                           : mxe_poison(e, MXE_I32, true);
}
