/* A unit: 16 or 32 rows of right times the rows of left that are in registers. */
#include "templates/gemm_skinny.h"

/* ---- Scales of right ---- */

/* Bytes of the scales of a unit's rows: lane q of the four that share rows has blocks q, q + 4, ..
 */
void skinny_load_scales(mxe *e, skinny_work *g, const skinny_run *run, mxe_value column)
{
    mxe_value begin = mxe_mul(e, column, mxe_i32(e, g->p->columns)), byte;
    mxe_value last = mxe_sub(e, mxe_sub(e, skinny_param(e, "n"), begin), mxe_i32(e, 1));
    mxe_value stride = mxe_param(e, "right_scale_row_stride");
    mxe_addr addr = {.pointer = "right_scales"};
    addr.uniform = mxe_add(e, mxe_mul(e, run->group, mxe_param(e, "right_scale_group_stride")),
                           mxe_mul(e, mxe_zext(e, begin, MXE_I64), stride));
    stride = mxe_zext(e, stride, MXE_I32);
    for (int r = 0; r < 2 * g->p->tiles; r++) {
        mxe_value row = mxe_umin(e, mxe_add(e, g->row, mxe_i32(e, 8 * r)), last);
        row = mxe_mul(e, row, stride);
        for (int i = 0; i < g->p->blocks; i += 4) {
            addr.varying = mxe_add(e, row, g->scale_at[i / 4]);
            mxe_load(e, addr, MXE_I8, 1, 1, 0, &byte);
            mxe_var_set(e, g->scale[r][i / 4], mxe_zext(e, byte, MXE_I32));
        }
    }
}

/* What skinny_load_scales left, as the bits of f32. */
typedef struct unit_scales {
    mxe_value bits[2 * SKINNY_MOST_TILES][SKINNY_MOST_BLOCKS / 4];
} unit_scales;

static void take_scales(mxe *e, skinny_work *g, unit_scales *out)
{
    for (int r = 0; r < 2 * g->p->tiles; r++) {
        for (int i = 0; i < g->p->blocks; i += 4) {
            mxe_value scale = skinny_scale(e, mxe_var_get(e, g->scale[r][i / 4]));
            out->bits[r][i / 4] = mxe_bitcast(e, scale, MXE_I32);
        }
    }
}

/* ---- The product ---- */

/* Factors of the left rows of a block: those of the lane's four columns. */
static void left_scales(mxe *e, skinny_work *g, int block, mxe_value out[4])
{
    mxe_value bits[4];
    mxe_addr addr = {.varying = mxe_mul(e, g->quarter, mxe_i32(e, 16))};
    addr.uniform = mxe_add(e, skinny_scales_at(e, g->p), mxe_i64(e, block * SKINNY_SCALE_BYTES));
    mxe_load(e, addr, MXE_I32, 4, 16, 0, bits);
    for (int i = 0; i < 4; i++)
        out[i] = mxe_bitcast(e, bits[i], MXE_F32);
}

/* A block of 16 rows of right, words of rows l / 4 and l / 4 + 8, by `wide` times 8 rows of left.
 */
static void multiply_block(mxe *e, skinny_work *g, int wide, const mxe_value down[2], int block,
                           const mxe_value scales[2], const mxe_value others[4],
                           mxe_value (*sums)[4])
{
    const skinny_plan *p = g->p;
    mxe_value left[2 * MXE_FRAGMENT_WORDS], right[MXE_FRAGMENT_WORDS], part[4];
    for (int r = 0; r < 2; r++)
        mxe_fragment_e2m1(e, p->half, down[r], left + MXE_FRAGMENT_WORDS * r);
    for (int h = 0; h < wide; h++) {
        for (int w = 0; w < MXE_FRAGMENT_WORDS; w++)
            right[w] = mxe_var_get(e, g->words[h][block][w]);
        for (int i = 0; i < 4; i++)
            part[i] = mxe_varying(e, mxe_f32(e, 0));
        mxe_fragment_mma(e, p->half, left, right, part);
        for (int i = 0; i < 4; i++) {
            mxe_value scale = scales[i / 2];
            if (p->key.gemm.left != MXGEN_OPERAND_BF16)
                scale = mxe_fmul(e, scale, others[2 * h + i % 2]);
            sums[h][i] = mxe_fma(e, part[i], scale, sums[h][i]);
        }
    }
}

static void multiply(mxe *e, skinny_work *g, int wide, mxe_value stage, const unit_scales *scales)
{
    const skinny_plan *p = g->p;
    int at_once = SKINNY_MOST_TILES / p->tiles; /* blocks that one load brings */
    mxe_value sums[SKINNY_MOST_TILES][2][4], words[4], others[4], now[2];
    mxe_value at = mxe_mul(e, stage, g->stage_bytes);
    for (int i = 0; i < 8 * p->tiles; i++)
        sums[i / 8][i / 4 % 2][i % 4] = mxe_varying(e, mxe_f32(e, 0));
    for (int block = 0; block < p->blocks; block++) {
        if (block % at_once == 0)
            mxe_fragment_load(e, mxe_add(e, at, g->lane_bytes[block]), words);
        if (p->key.gemm.left != MXGEN_OPERAND_BF16)
            left_scales(e, g, block, others);
        for (int t = 0; t < p->tiles; t++) {
            for (int h = 0; h < 2; h++) {
                mxe_value bits = scales->bits[2 * t + h][block / 4];
                now[h] = mxe_bitcast(e, mxe_quad_lane(e, bits, block % 4), MXE_F32);
            }
            multiply_block(e, g, wide, words + 2 * (block % at_once + t), block, now, others,
                           sums[t]);
        }
    }
    for (int i = 0; i < 4 * wide * p->tiles; i++) {
        int t = i / (4 * wide), h = i / 4 % wide;
        mxe_var_set(e, g->sums[t][h][i % 4], sums[t][h][i % 4]);
    }
}

void skinny_multiply(mxe *e, skinny_work *g, const skinny_run *run, mxe_value stage, mxe_value next)
{
    mxe_branch both;
    unit_scales scales;
    take_scales(e, g, &scales);
    skinny_load_scales(e, g, run, next);
    mxe_if_begin(e, &both, mxe_slt(e, mxe_i32(e, SKINNY_ROWS / 2), run->valid));
    multiply(e, g, 2, stage, &scales);
    mxe_if_else(e, &both);
    multiply(e, g, 1, stage, &scales);
    mxe_if_end(e, &both);
}

/* ---- The sum over the warps ---- */

static mxe_value set_number(mxe *e, mxe_value turn)
{
    return mxe_and(e, turn, mxe_i32(e, SKINNY_SETS - 1));
}

static mxe_value set_of_sums(mxe *e, skinny_work *g, mxe_value turn)
{
    mxe_value bytes = mxe_i32(e, g->p->warps * g->p->sum_bytes);
    return mxe_zext(e, mxe_mul(e, set_number(e, turn), bytes), MXE_I64);
}

static mxe_value set_signal(mxe *e, skinny_work *g, mxe_value turn)
{
    mxe_value at = mxe_mul(e, set_number(e, turn), mxe_i32(e, MXE_SIGNAL_BYTES));
    return mxe_add(e, at, mxe_i32(e, g->p->signals_at + SKINNY_MOST_STAGES * MXE_SIGNAL_BYTES));
}

void skinny_write_sums(mxe *e, skinny_work *g, mxe_value turn)
{
    mxe_addr addr = {.uniform = set_of_sums(e, g, turn)};
    for (int i = 0; i < 8 * g->p->tiles; i++) {
        int t = i / 8, h = i / 4 % 2;
        int at = (8 * h + i % 2) * g->p->sum_pitch + SKINNY_ROWS * t + 8 * (i / 2 % 2);
        mxe_value bits = mxe_bitcast(e, mxe_var_get(e, g->sums[t][h][i % 4]), MXE_I32);
        addr.varying = mxe_add(e, g->sums_to, mxe_i32(e, 4 * at));
        mxe_store(e, addr, MXE_I32, 1, 4, 0, mxe_always(), &bits);
    }
    mxe_signal_arrive(e, set_signal(e, g, turn));
}

void skinny_wait_sums(mxe *e, skinny_work *g, mxe_value turn)
{
    mxe_value times = mxe_lshr(e, turn, mxe_i32(e, __builtin_ctz(SKINNY_SETS)));
    mxe_signal_wait(e, set_signal(e, g, turn), mxe_and(e, times, mxe_i32(e, 1)));
}

static mxe_value to_bits(mxe *e, mx_dtype dtype, mxe_value number)
{
    if (dtype == MX_DTYPE_F32)
        return mxe_bitcast(e, number, MXE_I32);
    mxe_value pair = mxe_pack_halves(e, number, number, dtype);
    return mxe_zext(e, pair, MXE_I16);
}

static mxe_value from_bits(mxe *e, mx_dtype dtype, mxe_value bits)
{
    if (dtype == MX_DTYPE_F32)
        return mxe_bitcast(e, bits, MXE_F32);
    mxe_value wide = mxe_shl(e, mxe_zext(e, bits, MXE_I32), mxe_i32(e, 16));
    return mxe_bitcast(e, wide, MXE_F32);
}

static void store_element(mxe *e, const skinny_plan *p, mxe_value at, mxe_value live,
                          mxe_value number)
{
    mxe_branch there, add;
    mx_dtype dtype = p->key.dtype;
    int bytes = mx_dtype_get(dtype)->bytes;
    mxe_type type = bytes == 4 ? MXE_I32 : MXE_I16;
    mxe_addr addr = {.pointer = "out", .varying = mxe_mul(e, at, mxe_i64(e, bytes))};
    mxe_if_begin(e, &there, mxe_any(e, live));
    mxe_var sum = mxe_var_new(e, number);
    if (dtype != MX_DTYPE_F16) {
        mxe_value old;
        mxe_if_begin(e, &add, mxe_ne(e, mxe_param(e, "accumulate"), mxe_i32(e, 0)));
        mxe_load(e, addr, type, 1, bytes, 0, &old);
        mxe_var_set(e, sum, mxe_fadd(e, number, from_bits(e, dtype, old)));
        mxe_if_end(e, &add);
    }
    mxe_value bits = to_bits(e, dtype, mxe_var_get(e, sum));
    mxe_store(e, addr, type, 1, bytes, 0, mxe_always(), &bits);
    mxe_if_end(e, &there);
}

/* Each lane adds up an element of a row of left, or of some. */
void skinny_add_up(mxe *e, skinny_work *g, const skinny_run *run, mxe_value column, mxe_value turn)
{
    const skinny_plan *p = g->p;
    mxe_branch mine;
    mxe_value bits;
    mxe_value below = mxe_and(e, g->lane, mxe_i32(e, p->columns - 1));
    mxe_value at = mxe_add(e, mxe_mul(e, column, mxe_i32(e, p->columns)), below);
    mxe_value inside = mxe_ult(e, at, skinny_param(e, "n"));
    if (p->columns < e->lanes)
        inside = mxe_and(e, inside, mxe_ult(e, g->lane, mxe_i32(e, p->columns)));
    for (int r = 0; r < p->left_rows; r++) {
        mxe_addr addr = {.uniform = set_of_sums(e, g, turn)};
        mxe_value total = mxe_varying(e, mxe_f32(e, 0));
        mxe_value this = mxe_add(e, mxe_warp(e), mxe_i32(e, r * p->warps));
        mxe_if_begin(e, &mine, mxe_slt(e, this, run->rows));
        for (int w = 0; w < p->warps; w++) {
            int offset = w * p->sum_bytes + 4 * r * p->warps * p->sum_pitch;
            addr.varying = mxe_add(e, g->sums_from, mxe_i32(e, offset));
            mxe_load(e, addr, MXE_I32, 1, 4, 0, &bits);
            total = mxe_fadd(e, total, mxe_bitcast(e, bits, MXE_F32));
        }
        if (p->exponent)
            total = mxe_fmul(e, total, mxe_f32(e, (float)(1 << p->exponent)));
        mxe_value to = mxe_add(e, run->out_row, mxe_zext(e, this, MXE_I64));
        to = mxe_mul(e, to, mxe_param(e, "out_row_stride"));
        store_element(e, p, mxe_add(e, to, mxe_zext(e, at, MXE_I64)), inside, total);
        mxe_if_end(e, &mine);
    }
}
