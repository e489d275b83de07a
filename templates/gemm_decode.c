#include "templates/gemm_decode.h"

enum { NAN_SCALE = 255 };

/* How far a scale may be below its row's reference. MXFP4: what E5M2 holds. MXFP8 in a byte: a
 * block with a number that is large even then (large_code), as quantisation makes of all but zeros,
 * loses at most 2^-11 of its largest; E5M2 would go further, but f16 on the way has no smaller
 * factor. bf16: products of two elements stay normal f32 numbers. */
enum { FP4_SPREAD = 26, E4M3_SPREAD = 7, E5M2_SPREAD = 14, BF16_SPREAD = 60 };

static int spread_of(const gemm_block *block)
{
    if (block->elem_bytes == 2)
        return BF16_SPREAD;
    return block->operand == MXGEN_OPERAND_MXFP4        ? FP4_SPREAD
           : block->operand == MXGEN_OPERAND_MXFP8_E4M3 ? E4M3_SPREAD
                                                        : E5M2_SPREAD;
}

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

/* Of each byte the highest bit: whether its magnitude is `least` (1 .. 0x7f) or more, by a carry.
 * The other bits are anything. */
static mxe_value reach(mxe *e, mxe_value bytes, uint32_t least)
{
    return mxe_add(e, mxe_and(e, bytes, word(e, 0x7f7f7f7f)),
                   word(e, (0x80 - least) * 0x01010101u));
}

static mxe_value any_reaches(mxe *e, const mxe_value *words, uint32_t least)
{
    mxe_value all = mxe_i32(e, 0);
    for (int i = 0; i < 8; i++)
        all = mxe_or(e, all, reach(e, words[i], least));
    return mxe_ne(e, mxe_and(e, all, word(e, 0x80808080)), mxe_i32(e, 0));
}

/* The least magnitude that is no number. */
static uint32_t first_special(const fp8_form *form)
{
    return form->first - form->infinite;
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
    mxe_if_begin(e, &rare, mxe_any(e, any_reaches(e, in, first_special(&form))));
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

static mxe_value scale_word(mxe *e, mxe_value in, mxe_value factors, bool is_e5m2)
{
    mxe_value low = mxe_fp8_scale(e, in, factors, is_e5m2);
    mxe_value high = mxe_fp8_scale(e, mxe_lshr(e, in, mxe_i32(e, 16)), factors, is_e5m2);
    return mxe_lookup(e, low, high, word(e, 0x5410));
}

static mxe_value f16_power(mxe *e, mxe_value exponent)
{
    mxe_value half = mxe_shl(e, mxe_add(e, exponent, mxe_i32(e, 15)), mxe_i32(e, 10));
    return mxe_mul(e, half, word(e, 0x10001));
}

/* Infinities of E5M2, and its NaNs, go through unscaled, unless the block is zero or NaN. */
static void keep_specials(mxe *e, const fp8_form *form, mxe_value zero, mxe_value nan,
                          const mxe_value *in, mxe_value *out)
{
    mxe_branch rare;
    mxe_var words[8];
    mxe_value none = mxe_i1(e, 0);
    uint32_t first = first_special(form);
    for (int i = 0; i < 8; i++)
        words[i] = mxe_var_new(e, out[i]);
    mxe_value special = mxe_and(e, any_reaches(e, in, first), mxe_eq(e, zero, none));
    mxe_if_begin(e, &rare, mxe_any(e, mxe_and(e, special, mxe_eq(e, nan, none))));
    for (int i = 0; i < 8; i++) {
        mxe_value up = reach(e, in[i], first);
        mxe_value ones = mxe_lshr(e, mxe_and(e, up, word(e, 0x80808080)), mxe_i32(e, 7));
        mxe_value mask = mxe_mul(e, ones, mxe_i32(e, 255));
        mxe_value rest = mxe_and(e, out[i], mxe_xor(e, mask, word(e, ~0u)));
        mxe_var_set(e, words[i], mxe_or(e, rest, mxe_and(e, in[i], mask)));
    }
    mxe_if_end(e, &rare);
    for (int i = 0; i < 8; i++)
        out[i] = mxe_var_get(e, words[i]);
}

/* The code of 2 in E4M3 and of 2^-5 in E5M2: the grid of numbers next to zero is 2^-10 of that, or
 * less. */
static uint32_t large_code(bool is_e5m2)
{
    return is_e5m2 ? 10 << 2 : 8 << 3;
}

/* FP8 * 2^-below as the same FP8. Returns whether too much was lost: in a block without a large
 * number anything is. */
static mxe_value fp8_to_fp8(mxe *e, const gemm_block *block, mxe_value below, mxe_value zero,
                            mxe_value nan, const mxe_value *in, mxe_value *out)
{
    mxe_branch small;
    mxe_var lost = mxe_var_new(e, mxe_varying(e, mxe_i32(e, 0)));
    fp8_form form = form_of(block->operand);
    bool is_e5m2 = form.infinite;
    mxe_value none = mxe_i1(e, 0);
    mxe_value factors = f16_power(e, mxe_sub(e, mxe_i32(e, 0), below));
    factors = mxe_select(e, zero, mxe_i32(e, 0), factors);
    factors = mxe_select(e, nan, word(e, 0x7e007e00), factors);
    for (int i = 0; i < 8; i++)
        out[i] = scale_word(e, in[i], factors, is_e5m2);
    mxe_value moved = mxe_ne(e, below, mxe_i32(e, 0));
    moved = mxe_and(e, moved, mxe_eq(e, mxe_or(e, zero, nan), none));
    mxe_value large = any_reaches(e, out, large_code(is_e5m2));
    mxe_value unsure = mxe_and(e, mxe_eq(e, large, none), moved);
    mxe_var_set(e, lost, mxe_i32(e, 0));
    mxe_if_begin(e, &small, mxe_any(e, unsure));
    mxe_value differ = mxe_i32(e, 0), back = f16_power(e, below);
    for (int i = 0; i < 8; i++)
        differ = mxe_or(e, differ, mxe_xor(e, scale_word(e, out[i], back, is_e5m2), in[i]));
    mxe_var_set(e, lost, mxe_select(e, unsure, differ, mxe_i32(e, 0)));
    mxe_if_end(e, &small);
    if (form.infinite)
        keep_specials(e, &form, zero, nan, in, out);
    return mxe_ne(e, mxe_var_get(e, lost), mxe_i32(e, 0));
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
    int spread = spread_of(block);
    mxe_value lost, none = mxe_i1(e, 0), all = mxe_i1(e, 1);
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
    lost = mxe_and(e, flush, gemm_has_values(e, block->operand, in));
    if (block->operand == MXGEN_OPERAND_MXFP4 && block->elem_bytes == 1)
        fp4_to_e5m2(e, mxe_sub(e, mxe_i32(e, spread), below), zero, nan, in, out);
    else if (block->operand == MXGEN_OPERAND_MXFP4)
        fp4_to_bf16(e, below, zero, nan, in, out);
    else if (block->elem_bytes == 1)
        lost = mxe_or(e, lost, fp8_to_fp8(e, block, below, zero, nan, in, out));
    else
        fp8_to_bf16(e, block->operand, below, zero, nan, in, out);
    return lost;
}
