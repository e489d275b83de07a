/* Instructions that move values between lanes or between lanes and scalars. */
#include "sim.h"
#include "sim_bits.h"

#include <string.h>

/* A source's value in one lane. */
static uint32_t lane_value(wave *w, const operand *o, int lane)
{
    return o->kind == OK_VGPR ? w->v[o->reg][lane] : (uint32_t)read_scalar(w, o);
}

static void x_readlane(wave *w, const inst *in)
{
    int lane = (int)(read_scalar(w, &in->src[1]) & (uint64_t)(w->n - 1));
    write_scalar(w, &in->dst[0], lane_value(w, &in->src[0], lane), 1);
}

static void x_readfirstlane(wave *w, const inst *in)
{
    uint64_t exec = wave_mask64(w, S_EXEC);
    int lane = exec ? __builtin_ctzll(exec) : 0;
    write_scalar(w, &in->dst[0], lane_value(w, &in->src[0], lane), 1);
}

static void x_writelane(wave *w, const inst *in)
{
    int lane = (int)(read_scalar(w, &in->src[1]) & (uint64_t)(w->n - 1));
    w->v[in->dst[0].reg][lane] = (uint32_t)read_scalar(w, &in->src[0]);
}

static void x_swap(wave *w, const inst *in)
{
    uint32_t a[LANES], b[LANES];
    uint64_t mask = wave_mask64(w, S_EXEC);
    memcpy(a, w->v[in->dst[0].reg], sizeof a);
    memcpy(b, w->v[in->src[0].reg], sizeof b);
    commit_reg(w, w->v[in->dst[0].reg], b, mask);
    commit_reg(w, w->v[in->src[0].reg], a, mask);
}

static void x_swap_b16(wave *w, const inst *in)
{
    uint64_t mask = wave_mask64(w, S_EXEC);
    const operand *x = &in->dst[0], *y = &in->src[0];
    for (int i = 0; i < w->n; i++) {
        if (!(mask >> i & 1))
            continue;
        int sx = x->half == 2 ? 16 : 0, sy = y->half == 2 ? 16 : 0;
        uint32_t a = w->v[x->reg][i] >> sx & 0xffff, b = w->v[y->reg][i] >> sy & 0xffff;
        w->v[x->reg][i] = (w->v[x->reg][i] & ~(0xffffu << sx)) | b << sx;
        w->v[y->reg][i] = (w->v[y->reg][i] & ~(0xffffu << sy)) | a << sy;
    }
}

/* Odd rows of the first register against even rows of the second. */
static void row_swap(wave *w, const inst *in, int row)
{
    uint32_t *a = w->v[in->dst[0].reg], *b = w->v[in->src[0].reg];
    uint64_t mask = wave_mask64(w, S_EXEC);
    for (int i = 0; i < w->n; i += 2 * row)
        for (int k = 0; k < row; k++) {
            int hi = i + row + k, lo = i + k;
            uint32_t x = a[hi], y = b[lo];
            if (mask >> hi & 1)
                a[hi] = y;
            if (mask >> lo & 1)
                b[lo] = x;
        }
}

static void x_permlane16_swap(wave *w, const inst *in)
{
    row_swap(w, in, 16);
}

static void x_permlane32_swap(wave *w, const inst *in)
{
    row_swap(w, in, 32);
}

/* Gathers within (or from the other of) two rows of 16; op_sel: fetch inactive, bound control. */
static void permlane(wave *w, const inst *in, bool cross, bool var)
{
    uint32_t d[LANES];
    uint64_t exec = wave_mask64(w, S_EXEC), write = exec;
    bool fi = in->op_sel & 1, bc = in->op_sel >> 1 & 1;
    uint64_t sel = 0;
    if (!var)
        sel = (read_scalar(w, &in->src[1]) & 0xffffffff) | read_scalar(w, &in->src[2]) << 32;
    for (int i = 0; i < w->n; i++) {
        uint32_t s = var ? lane_value(w, &in->src[1], i) & 15 : sel >> (4 * (i & 15)) & 15;
        int from = ((i & ~15) ^ (cross ? 16 : 0)) + (int)s;
        bool ok = fi || (exec >> from & 1);
        d[i] = ok ? lane_value(w, &in->src[0], from) : 0;
        if (!ok && !bc)
            write &= ~(UINT64_C(1) << i);
    }
    commit_reg(w, w->v[in->dst[0].reg], d, write);
}

static void x_permlane16(wave *w, const inst *in)
{
    permlane(w, in, false, false);
}

static void x_permlanex16(wave *w, const inst *in)
{
    permlane(w, in, true, false);
}

static void x_permlane16_var(wave *w, const inst *in)
{
    permlane(w, in, false, true);
}

static void x_permlanex16_var(wave *w, const inst *in)
{
    permlane(w, in, true, true);
}

static void x_permlane64(wave *w, const inst *in)
{
    uint32_t d[LANES];
    for (int i = 0; i < w->n; i++)
        d[i] = lane_value(w, &in->src[0], w->n == 64 ? i ^ 32 : i);
    commit_reg(w, w->v[in->dst[0].reg], d, wave_mask64(w, S_EXEC));
}

/* Vector registers relative to M0. */
static int relative(wave *w, const inst *in, const operand *o)
{
    uint32_t r = o->reg + w->s[S_M0];
    if (o->kind != OK_VGPR || r > 255)
        sim_fault(w, in, -1, "relative index %u is past the vector registers", w->s[S_M0]);
    return (int)r;
}

static void x_movrels(wave *w, const inst *in)
{
    commit_reg(w, w->v[in->dst[0].reg], w->v[relative(w, in, &in->src[0])], wave_mask64(w, S_EXEC));
}

static void x_movreld(wave *w, const inst *in)
{
    uint32_t d[LANES];
    for (int i = 0; i < w->n; i++)
        d[i] = lane_value(w, &in->src[0], i);
    commit_reg(w, w->v[relative(w, in, &in->dst[0])], d, wave_mask64(w, S_EXEC));
}

static void x_movrelsd(wave *w, const inst *in)
{
    commit_reg(w, w->v[relative(w, in, &in->dst[0])], w->v[relative(w, in, &in->src[0])],
               wave_mask64(w, S_EXEC));
}

const special_op lane_ops[] = {
    {"v_movrels_b32", "i:i", x_movrels, CLS_VALU},
    {"v_movreld_b32", "i:i", x_movreld, CLS_VALU},
    {"v_movrelsd_b32", "i:i", x_movrelsd, CLS_VALU},
    {"v_readlane_b32", "i:ii", x_readlane, CLS_VALU},
    {"v_readfirstlane_b32", "i:i", x_readfirstlane, CLS_VALU},
    {"v_writelane_b32", "i:ii", x_writelane, CLS_VALU},
    {"v_swap_b32", "i:i", x_swap, CLS_VALU},
    {"v_swap_b16", "w:w", x_swap_b16, CLS_VALU},
    {"v_permlane16_swap_b32", "i:i", x_permlane16_swap, CLS_VALU},
    {"v_permlane32_swap_b32", "i:i", x_permlane32_swap, CLS_VALU},
    {"v_permlane16_b32", "i:iii", x_permlane16, CLS_VALU},
    {"v_permlanex16_b32", "i:iii", x_permlanex16, CLS_VALU},
    {"v_permlane16_var_b32", "i:ii", x_permlane16_var, CLS_VALU},
    {"v_permlanex16_var_b32", "i:ii", x_permlanex16_var, CLS_VALU},
    {"v_permlane64_b32", "i:i", x_permlane64, CLS_VALU},
};
const size_t lane_count = ARRAY_LEN(lane_ops);
