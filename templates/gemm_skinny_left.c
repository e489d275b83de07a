/* The few rows of left, decoded once for a run. */
#include "templates/gemm_skinny.h"

mxe_value skinny_scale(mxe *e, mxe_value byte)
{
    mxe_value least = mxe_i32(e, 0x00400000), nan = mxe_i32(e, 0x7fc00000);
    mxe_value bits = mxe_umax(e, mxe_shl(e, byte, mxe_i32(e, 23)), least);
    bits = mxe_select(e, mxe_eq(e, byte, mxe_i32(e, 255)), nan, bits);
    return mxe_bitcast(e, bits, MXE_F32);
}

/* Where the scales of a warp's block stand, those of a lane's four columns together. */
mxe_value skinny_scales_at(mxe *e, const skinny_plan *p)
{
    mxe_value at = mxe_mul(e, mxe_warp(e), mxe_i32(e, p->blocks * SKINNY_SCALE_BYTES));
    return mxe_zext(e, mxe_add(e, at, mxe_i32(e, p->scales_at)), MXE_I64);
}

/* A pair of f16 times 2^exponent. */
static mxe_value times(mxe *e, mxe_value pair, int exponent)
{
    int64_t bits = (int64_t)(15 + exponent) << 10;
    return mxe_mul_halves(e, pair, mxe_i32(e, bits | bits << 16), MX_DTYPE_F16);
}

/* Bytes of two words, elements 0 4, 2 6, 1 5, 3 7, as the upper bytes of halves. */
static mxe_value byte_pair(mxe *e, const mxe_value *in, int i)
{
    static const int bytes[MXE_FRAGMENT_WORDS] = {0, 2, 1, 3};
    int64_t selector = bytes[i] * 0x11 + (4 + bytes[i]) * 0x1100;
    mxe_value pair = mxe_lookup(e, in[0], in[1], mxe_i32(e, selector));
    return mxe_and(e, pair, mxe_i32(e, (int32_t)0xff00ff00));
}

/* E4M3 one bit lower is f16 but for the exponent, 8 too low; NaN has to be put in. */
static mxe_value e4m3_pair(mxe *e, mxe_value pair)
{
    mxe_value zero = mxe_i32(e, 0), signs = mxe_and(e, pair, mxe_i32(e, (int32_t)0x80008000));
    mxe_value bits = mxe_lshr(e, pair, mxe_i32(e, 1));
    bits = mxe_or(e, mxe_and(e, bits, mxe_i32(e, 0x3f803f80)), signs);
    bits = times(e, bits, 15);
    for (int h = 0; h < 2; h++) {
        mxe_value code = mxe_i32(e, 0x7f00 << 16 * h);
        mxe_value is_nan = mxe_eq(e, mxe_and(e, pair, code), code);
        bits = mxe_or(e, bits, mxe_select(e, is_nan, mxe_i32(e, 0x7e00 << 16 * h), zero));
    }
    return bits;
}

static void decode_left(mxe *e, const skinny_plan *p, const mxe_value *in, mxe_value *out)
{
    mxgen_operand left = p->key.gemm.left;
    if (left == MXGEN_OPERAND_MXFP4)
        mxe_fragment_e2m1(e, p->half, in[0], out);
    for (int i = 0; i < MXE_FRAGMENT_WORDS; i++) {
        if (left == MXGEN_OPERAND_MXFP4)
            out[i] = times(e, out[i], 15);
        else if (left == MXGEN_OPERAND_BF16)
            out[i] = in[i];
        else
            out[i] = byte_pair(e, in, i);
        if (left == MXGEN_OPERAND_MXFP8_E4M3)
            out[i] = e4m3_pair(e, out[i]);
    }
}

/* Byte offset of row `row` (i32) of the run in a buffer of left. */
static mxe_value left_row(mxe *e, const skinny_run *run, mxe_value row, const char *stride)
{
    mxe_value last = mxe_sub(e, mxe_param(e, "m"), mxe_i64(e, 1));
    row = mxe_smin(e, mxe_add(e, run->left_row, mxe_zext(e, row, MXE_I64)), last);
    return mxe_mul(e, row, mxe_param(e, stride));
}

/* The number of the warp's block `block` (i32), or of the last there is. */
static mxe_value block_at(mxe *e, skinny_work *g, mxe_value block)
{
    mxe_value last = mxe_sub(e, g->n_blocks, mxe_i32(e, 1));
    return mxe_umin(e, mxe_add(e, g->first, block), last);
}

/* Scales as f32 in shared memory, zero for what is not there: lane l has row l % 16 of block l / 16
 * of each pair. */
static void load_left_scales(mxe *e, skinny_work *g, const skinny_run *run)
{
    const skinny_plan *p = g->p;
    mxe_value zero = mxe_i32(e, 0), one = mxe_i32(e, 1), byte;
    mxe_value row = mxe_and(e, g->lane, mxe_i32(e, SKINNY_ROWS - 1));
    mxe_value odd = mxe_lshr(e, g->lane, mxe_i32(e, 4));
    mxe_value from = left_row(e, run, row, "left_scale_row_stride");
    /* Row 8 h + 2 q + i is the lane's (of four) q at 2 h + i. */
    mxe_value slot = mxe_and(e, mxe_mul(e, mxe_lshr(e, row, one), mxe_i32(e, 4)), mxe_i32(e, 12));
    slot = mxe_or(e, slot, mxe_and(e, mxe_lshr(e, row, mxe_i32(e, 2)), mxe_i32(e, 2)));
    slot = mxe_mul(e, mxe_or(e, slot, mxe_and(e, row, one)), mxe_i32(e, 4));
    mxe_warp_sync(e);
    for (int i = 0; i < p->blocks; i += 2) {
        mxe_value block = mxe_add(e, odd, mxe_i32(e, i));
        mxe_value live = mxe_and(e, mxe_slt(e, block, g->count), mxe_slt(e, row, run->valid));
        mxe_value at = mxe_mul(e, mxe_zext(e, block_at(e, g, block), MXE_I64),
                               mxe_param(e, "left_scale_block_stride"));
        mxe_addr addr = {.pointer = "left_scales", .varying = mxe_add(e, from, at)};
        mxe_load(e, addr, MXE_I8, 1, 1, 0, &byte);
        mxe_value bits = mxe_bitcast(e, skinny_scale(e, mxe_zext(e, byte, MXE_I32)), MXE_I32);
        bits = mxe_select(e, live, bits, zero);
        mxe_addr to = {.uniform = skinny_scales_at(e, p)};
        to.varying = mxe_add(e, mxe_mul(e, block, mxe_i32(e, SKINNY_SCALE_BYTES)), slot);
        mxe_store(e, to, MXE_I32, 1, 4, 0, mxe_always(), &bits);
    }
    mxe_warp_sync(e);
}

/* Rows that are not there, and blocks that are another warp's, are zero. */
void skinny_load_left(mxe *e, skinny_work *g, const skinny_run *run)
{
    const skinny_plan *p = g->p;
    mxe_value in[MXE_FRAGMENT_WORDS], out[MXE_FRAGMENT_WORDS], zero = mxe_i32(e, 0);
    int bytes = 4 * p->left_words;
    for (int i = 0; i < 2 * p->blocks; i++) {
        int h = i % 2, b = i / 2;
        mxe_value row = mxe_add(e, g->row, mxe_i32(e, 8 * h)), number = mxe_i32(e, b);
        mxe_value live = mxe_and(e, mxe_slt(e, row, run->valid), mxe_slt(e, number, g->count));
        mxe_value block = mxe_mul(e, block_at(e, g, number), mxe_i32(e, 4));
        block = mxe_mul(e, mxe_add(e, block, g->quarter), mxe_i32(e, bytes));
        mxe_addr addr = {.pointer = "left"};
        addr.varying =
            mxe_add(e, left_row(e, run, row, "left_row_stride"), mxe_zext(e, block, MXE_I64));
        mxe_load(e, addr, MXE_I32, p->left_words, bytes, 0, in);
        for (int w = 0; w < p->left_words; w++)
            in[w] = mxe_select(e, live, in[w], zero);
        decode_left(e, p, in, out);
        for (int w = 0; w < MXE_FRAGMENT_WORDS; w++)
            mxe_var_set(e, g->words[h][b][w], out[w]);
    }
    if (p->key.gemm.left != MXGEN_OPERAND_BF16)
        load_left_scales(e, g, run);
}
