#include "templates/gemm_decode.h"

enum { NAN_SCALE = 255 };

/* How far a scale may be below its row's reference. The one is what E5M2 holds, the other keeps
 * products of two elements normal f32 numbers. */
enum { E5M2_SPREAD = 26, BF16_SPREAD = 60 };

static mxe_value word(mxe *e, uint32_t bits)
{
    return mxe_i32(e, (int32_t)bits);
}

static int words_of(mxgen_operand operand)
{
    static const int words[MXGEN_OPERAND_COUNT] = {4, 8, 8, 16};
    return words[operand];
}

mxe_value gemm_has_values(mxe *e, mxgen_operand operand, const mxe_value *in)
{
    mxe_value all = in[0];
    for (int i = 1; i < words_of(operand); i++)
        all = mxe_or(e, all, in[i]);
    uint32_t mask = operand == MXGEN_OPERAND_MXFP4 ? 0x77777777 : 0x7f7f7f7f;
    return mxe_ne(e, mxe_and(e, all, word(e, mask)), mxe_i32(e, 0));
}

/* Puts the sign bits of four codes, nibbles of `codes` from byte 2 * half on, on four bytes. */
static mxe_value add_signs(mxe *e, mxe_value bytes, mxe_value codes, int half)
{
    mxe_value pairs = mxe_lookup(e, codes, codes, word(e, half ? 0x3322 : 0x1100));
    mxe_value even = mxe_and(e, mxe_shl(e, pairs, mxe_i32(e, 4)), word(e, 0x00800080));
    mxe_value odd = mxe_and(e, pairs, word(e, 0x80008000));
    return mxe_or(e, bytes, mxe_or(e, even, odd));
}

static mxe_value select_codes(mxe *e, mxe_value codes, int half)
{
    mxe_value magnitudes = mxe_and(e, codes, word(e, 0x77777777));
    return half ? mxe_lshr(e, magnitudes, mxe_i32(e, 16)) : magnitudes;
}

/* E2M1 * 2^shift as E5M2, by a table of the eight magnitudes. `above` is 26 + scale - reference. */
static void fp4_to_e5m2(mxe *e, mxe_value above, mxe_value zero, mxe_value nan, const mxe_value *in,
                        mxe_value *out)
{
    mxe_value low = mxe_add(e, word(e, 0x0a080400), mxe_mul(e, above, word(e, 0x04040400)));
    mxe_value high = mxe_add(e, word(e, 0x12100e0c), mxe_mul(e, above, word(e, 0x04040404)));
    low = mxe_select(e, nan, word(e, 0x7f7f7f7f), mxe_select(e, zero, word(e, 0), low));
    high = mxe_select(e, nan, word(e, 0x7f7f7f7f), mxe_select(e, zero, word(e, 0), high));
    for (int i = 0; i < 8; i++) {
        mxe_value bytes = mxe_lookup(e, low, high, select_codes(e, in[i / 2], i % 2));
        out[i] = add_signs(e, bytes, in[i / 2], i % 2);
    }
}

/* E2M1 * 2^-below as bf16, by tables of low and high bytes. */
static void fp4_to_bf16(mxe *e, mxe_value below, mxe_value zero, mxe_value nan, const mxe_value *in,
                        mxe_value *out)
{
    static const uint32_t base[4] = {0x3f000000, 0x3fc03f80, 0x40404000, 0x40c04080};
    mxe_value pairs[4], tables[4];
    mxe_value down = mxe_shl(e, below, mxe_i32(e, 7));
    for (int i = 0; i < 4; i++) {
        mxe_value both = mxe_mul(e, down, word(e, i ? 0x00010001 : 0x00010000));
        pairs[i] = mxe_select(e, zero, word(e, 0), mxe_sub(e, word(e, base[i]), both));
        pairs[i] = mxe_select(e, nan, word(e, 0x7fc07fc0), pairs[i]);
    }
    for (int i = 0; i < 4; i++)
        tables[i] = mxe_lookup(e, pairs[2 * (i % 2)], pairs[2 * (i % 2) + 1],
                               word(e, i / 2 ? 0x7531 : 0x6420));
    for (int i = 0; i < 8; i++) {
        mxe_value codes = select_codes(e, in[i / 2], i % 2);
        mxe_value low = mxe_lookup(e, tables[0], tables[1], codes);
        mxe_value high = mxe_lookup(e, tables[2], tables[3], codes);
        high = add_signs(e, high, in[i / 2], i % 2);
        out[2 * i] = mxe_lookup(e, low, high, word(e, 0x5140));
        out[2 * i + 1] = mxe_lookup(e, low, high, word(e, 0x7362));
    }
}

/* Of FP8: where the fields go in bf16, what that is off by, and the codes that are no numbers. */
typedef struct fp8_form {
    int shift, bias; /* value = field << shift as bf16, times 2^bias */
    uint32_t first;  /* magnitudes from here on are NaN */
    bool infinite;   /* but for one below, which is infinite */
} fp8_form;

static fp8_form form_of(mxgen_operand operand)
{
    if (operand == MXGEN_OPERAND_MXFP8_E5M2)
        return (fp8_form){3, 112, 0x7d, true};
    return (fp8_form){4, 120, 0x7f, false};
}

/* Bytes 2 half and 2 half + 1 of `in` as two bf16: shifted into place, times a power of two. */
static mxe_value fp8_pair(mxe *e, const fp8_form *form, mxe_value in, int half, mxe_value factor)
{
    mxe_value high = mxe_lookup(e, in, mxe_i32(e, 0), word(e, half ? 0x3424 : 0x1404));
    uint32_t mask = 0x7f00u >> form->shift;
    mxe_value bits =
        mxe_and(e, mxe_lshr(e, high, mxe_i32(e, form->shift)), word(e, mask * 0x10001u));
    bits = mxe_or(e, bits, mxe_and(e, high, word(e, 0x80008000)));
    return mxe_mul_halves(e, bits, factor, MX_DTYPE_BF16);
}

/* The bf16 of a byte that is no number, in the low half; else `value`. */
static mxe_value fp8_special(mxe *e, const fp8_form *form, mxe_value byte, mxe_value value)
{
    mxe_value magnitude = mxe_and(e, byte, word(e, 0x7f));
    mxe_value nan = mxe_ule(e, word(e, form->first), magnitude);
    value = mxe_select(e, nan, word(e, 0x7fc0), value);
    if (!form->infinite)
        return value;
    mxe_value sign = mxe_shl(e, mxe_and(e, byte, word(e, 0x80)), mxe_i32(e, 8));
    mxe_value infinity = mxe_or(e, sign, word(e, 0x7f80));
    return mxe_select(e, mxe_eq(e, magnitude, word(e, form->first - 1)), infinity, value);
}

/* Whether a word has a byte that is no number: each byte's carry into its highest bit. */
static mxe_value fp8_has_special(mxe *e, const fp8_form *form, const mxe_value *in)
{
    uint32_t up = (0x80 - form->first + form->infinite) * 0x01010101u;
    mxe_value all = mxe_i32(e, 0);
    for (int i = 0; i < 8; i++)
        all = mxe_or(e, all, mxe_add(e, mxe_and(e, in[i], word(e, 0x7f7f7f7f)), word(e, up)));
    return mxe_ne(e, mxe_and(e, all, word(e, 0x80808080)), mxe_i32(e, 0));
}

/* FP8 * 2^-below as bf16. What is no number is rare, and put in afterwards. */
static void fp8_to_bf16(mxe *e, mxgen_operand operand, mxe_value below, mxe_value zero,
                        mxe_value nan, const mxe_value *in, mxe_value *out)
{
    mxe_branch rare;
    mxe_var words[GEMM_MOST_WORDS];
    fp8_form form = form_of(operand);
    mxe_value exponent = mxe_sub(e, mxe_i32(e, 127 + form.bias), below);
    mxe_value factor = mxe_mul(e, mxe_shl(e, exponent, mxe_i32(e, 7)), word(e, 0x10001));
    factor = mxe_select(e, zero, mxe_i32(e, 0), factor);
    factor = mxe_select(e, nan, word(e, 0x7fc07fc0), factor);
    for (int i = 0; i < GEMM_MOST_WORDS; i++)
        words[i] = mxe_var_new(e, fp8_pair(e, &form, in[i / 2], i % 2, factor));
    mxe_if_begin(e, &rare, mxe_any(e, fp8_has_special(e, &form, in)));
    for (int i = 0; i < GEMM_MOST_WORDS; i++) {
        mxe_value value = mxe_var_get(e, words[i]);
        mxe_value first = mxe_lshr(e, in[i / 2], mxe_i32(e, 16 * (i % 2)));
        mxe_value second = mxe_lshr(e, in[i / 2], mxe_i32(e, 16 * (i % 2) + 8));
        mxe_value low = fp8_special(e, &form, first, mxe_and(e, value, word(e, 0xffff)));
        mxe_value high = fp8_special(e, &form, second, mxe_lshr(e, value, mxe_i32(e, 16)));
        value = mxe_or(e, low, mxe_shl(e, high, mxe_i32(e, 16)));
        value = mxe_select(e, nan, word(e, 0x7fc07fc0), value);
        mxe_var_set(e, words[i], mxe_select(e, zero, mxe_i32(e, 0), value));
    }
    mxe_if_end(e, &rare);
    for (int i = 0; i < GEMM_MOST_WORDS; i++)
        out[i] = mxe_var_get(e, words[i]);
}

static void copy_bf16(mxe *e, mxe_value live, const mxe_value *in, mxe_value *out)
{
    for (int i = 0; i < GEMM_MOST_WORDS; i++)
        out[i] = mxe_select(e, live, in[i], mxe_i32(e, 0));
}

mxe_value gemm_decode(mxe *e, const gemm_block *block, const mxe_value *in, mxe_value *out)
{
    if (block->operand == MXGEN_OPERAND_BF16) {
        copy_bf16(e, block->live, in, out);
        return mxe_i1(e, 0);
    }
    int spread = block->elem_bytes == 1 ? E5M2_SPREAD : BF16_SPREAD;
    mxe_value none = mxe_i1(e, 0), all = mxe_i1(e, 1);
    mxe_value nan = mxe_eq(e, block->scale, mxe_i32(e, NAN_SCALE));
    mxe_value below = mxe_sub(e, block->reference, block->scale);
    /* As an unsigned number: scales above the reference, too. */
    mxe_value flush = mxe_ult(e, mxe_i32(e, spread), below);
    flush = mxe_select(e, block->live, mxe_select(e, nan, none, flush), none);
    if (block->zeros_any_scale)
        nan = mxe_and(e, nan, gemm_has_values(e, block->operand, in));
    nan = mxe_and(e, nan, block->live);
    mxe_value zero = mxe_or(e, flush, mxe_select(e, block->live, none, all));
    if (block->zeros_any_scale)
        zero = mxe_or(e, zero,
                      mxe_and(e, mxe_eq(e, block->scale, mxe_i32(e, NAN_SCALE)),
                              mxe_select(e, nan, none, all)));
    if (block->elem_bytes == 1)
        fp4_to_e5m2(e, mxe_sub(e, mxe_i32(e, spread), below), zero, nan, in, out);
    else if (block->operand == MXGEN_OPERAND_MXFP4)
        fp4_to_bf16(e, below, zero, nan, in, out);
    else
        fp8_to_bf16(e, block->operand, below, zero, nan, in, out);
    return mxe_and(e, flush, gemm_has_values(e, block->operand, in));
}
