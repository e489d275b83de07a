/*
 * Vector instructions: operand fetch, modifiers, DPP, SDWA and the masked write.
 *
 * Letters of the formats: i 32-bit, f fp32, h fp16 half, w 16-bit half, b bf16 half, q 64-bit,
 * d fp64, l signed 64-bit, m lane mask source, M lane mask result, H packed fp16, B packed bf16,
 * I packed 16-bit, F pair of fp32, Q pair of 32-bit, x as many registers as the text says.
 */
#include "sim.h"
#include "sim_bits.h"

#include <string.h>

#define MAX_SRC_DWORDS 32
typedef uint32_t lane_buf[MAX_SRC_DWORDS * LANES] __attribute__((aligned(64)));

void commit_reg(wave *w, uint32_t *dst, const uint32_t *d, uint64_t mask)
{
    if (mask == w->full) {
        for (int i = 0; i < w->n; i += 8)
            _mm256_storeu_si256((__m256i *)(dst + i), _mm256_loadu_si256((const __m256i *)(d + i)));
        return;
    }
    for (int i = 0; i < w->n; i += 8) {
        __m256i m = mask8((uint32_t)(mask >> i) & 0xff);
        __m256i old = _mm256_loadu_si256((const __m256i *)(dst + i));
        __m256i new = _mm256_loadu_si256((const __m256i *)(d + i));
        _mm256_storeu_si256((__m256i *)(dst + i), _mm256_blendv_epi8(old, new, m));
    }
}

/* Bit i: lane i's value is not zero in bit 31. */
uint64_t pack_mask(const uint32_t *d, int n)
{
    uint64_t m = 0;
    for (int i = 0; i < n; i += 8) {
        __m256 x = _mm256_loadu_ps((const float *)(d + i));
        m |= (uint64_t)(uint32_t)_mm256_movemask_ps(x) << i;
    }
    return m;
}

void expand_mask(uint32_t *d, uint64_t m)
{
    for (int i = 0; i < LANES; i += 8)
        _mm256_storeu_si256((__m256i *)(d + i),
                            _mm256_srli_epi32(mask8((uint32_t)(m >> i) & 0xff), 31));
}

static void splat(uint32_t *d, uint32_t x)
{
    for (int i = 0; i < LANES; i++)
        d[i] = x;
}

/* The operand as lanes: a register's own storage when it can be. */
static const uint32_t *fetch(wave *w, const operand *o, uint32_t *buf)
{
    if (o->kind == OK_VGPR)
        return w->v[o->reg];
    if (o->type == 'm') {
        expand_mask(buf, o->kind == OK_SGPR ? wave_mask64(w, o->reg) : o->imm);
        return buf;
    }
    if (o->kind == OK_IMM)
        return o->bcast;
    int dw = o->type == 'x' ? (o->n ? o->n : 1) : operand_dwords(o->type);
    if (o->kind == OK_SGPR) {
        for (int k = 0; k < dw; k++)
            splat(buf + k * LANES, w->s[o->reg + k]);
    } else {
        splat(buf, (uint32_t)read_scalar(w, o));
    }
    return buf;
}

static void flush_f32(uint32_t *d, const uint32_t *s, int n)
{
    for (int i = 0; i < n; i++)
        d[i] = s[i] & 0x7f800000 ? s[i] : s[i] & 0x80000000;
}

static uint32_t sdwa_select(uint32_t x, int sel, bool sext)
{
    switch (sel) {
    case SEL_BYTE0:
    case SEL_BYTE1:
    case SEL_BYTE2:
    case SEL_BYTE3:
        x = x >> (8 * sel) & 0xff;
        return sext ? (uint32_t)(int8_t)x : x;
    case SEL_WORD0:
    case SEL_WORD1:
        x = x >> (16 * (sel - SEL_WORD0)) & 0xffff;
        return sext ? (uint32_t)(int16_t)x : x;
    default:
        return x;
    }
}

static void sign_mods(uint32_t *d, const uint32_t *s, uint32_t and, uint32_t xor)
{
    for (int i = 0; i < LANES; i++)
        d[i] = (s[i] & and) ^ xor;
}

static const uint32_t *apply_mods(const inst *in, int k, const uint32_t *p, uint32_t *buf)
{
    const operand *o = &in->src[k];
    if (in->sdwa && k < 2 && (in->src_sel[k] != SEL_DWORD || o->mods & MOD_SEXT)) {
        for (int i = 0; i < LANES; i++)
            buf[i] = sdwa_select(p[i], in->src_sel[k], (o->mods & MOD_SEXT) != 0);
        p = buf;
    }
    if (o->sel) {
        for (int i = 0; i < LANES; i++)
            buf[i] = p[i] >> 16;
        p = buf;
    }
    if (!(o->mods & (MOD_ABS | MOD_NEG)))
        return p;
    bool abs = o->mods & MOD_ABS, neg = o->mods & MOD_NEG;
    uint32_t top = o->type == 'h' || o->type == 'b' || o->type == 'w' ? 0x8000 : 0x80000000;
    if (o->type == 'd' || o->type == 'q') {
        sign_mods(buf + LANES, p + LANES, abs ? 0x7fffffff : ~0u, neg ? top : 0);
        if (p != buf)
            memcpy(buf, p, LANES * 4);
    } else {
        sign_mods(buf, p, abs ? ~top : ~0u, neg ? top : 0);
    }
    return buf;
}

/* Permutes source 0; clears in *write the lanes that must keep their value. */
static const uint32_t *apply_dpp(wave *w, const inst *in, const uint32_t *p, uint32_t *buf,
                                 uint64_t *write)
{
    const dpp_info *d = in->dpp;
    uint64_t exec = wave_mask64(w, S_EXEC), valid = d->valid;
    int dw = operand_dwords(in->src[0].type), n = w->n & 96;
    uint32_t shuffled[2 * LANES];
    for (int k = 0; k < dw; k++)
        for (int i = 0; i < n; i++)
            shuffled[k * LANES + i] = p[k * LANES + d->src[i]] & d->keep[i];
    if (!d->fi && exec != w->full)
        for (int i = 0; i < n; i++)
            if (!(exec >> d->src[i] & 1)) {
                valid &= ~(UINT64_C(1) << i);
                shuffled[i] = shuffled[LANES + i] = 0;
            }
    memcpy(buf, shuffled, (size_t)dw * LANES * 4);
    *write &= d->write;
    if (!d->bound_ctrl)
        *write &= valid;
    return buf;
}

static void out_mods_f32(const inst *in, uint32_t *d, int n)
{
    static const float scale[] = {1.0f, 2.0f, 4.0f, 0.5f};
    if (in->omod)
        for (int i = 0; i < n; i++)
            d[i] = f2u(u2f(d[i]) * scale[in->omod]);
    if (in->clamp)
        for (int i = 0; i < n; i++) {
            float x = u2f(d[i]);
            d[i] = x > 1.0f ? 0x3f800000 : x > 0.0f ? d[i] : 0;
        }
}

static void out_mods(const inst *in, uint32_t *d, int n)
{
    static const float scale[] = {1.0f, 2.0f, 4.0f, 0.5f};
    switch (in->dst[0].type) {
    case 'f':
        out_mods_f32(in, d, n);
        break;
    case 'h':
        for (int i = 0; i < n; i++) {
            float x = h2f(d[i]) * scale[in->omod];
            if (in->clamp)
                x = x > 1.0f ? 1.0f : x > 0.0f ? x : 0.0f;
            d[i] = f2h(x);
        }
        break;
    case 'd':
        for (int i = 0; i < n; i++) {
            double x = u2d(d[i] | (uint64_t)d[LANES + i] << 32) * (double)scale[in->omod];
            if (in->clamp)
                x = x > 1.0 ? 1.0 : x > 0.0 ? x : 0.0;
            d[i] = (uint32_t)d2u(x);
            d[LANES + i] = (uint32_t)(d2u(x) >> 32);
        }
        break;
    default:
        break;
    }
}

static void merge_halves(uint32_t *d, const uint32_t *old, int sel, int n)
{
    if (sel == 2)
        for (int i = 0; i < n; i++)
            d[i] = (old[i] & 0xffff) | d[i] << 16;
    else
        for (int i = 0; i < n; i++)
            d[i] = (old[i] & 0xffff0000) | (d[i] & 0xffff);
}

static uint32_t sdwa_place(const inst *in, uint32_t x, uint32_t old)
{
    int sel = in->dst_sel;
    if (sel == SEL_DWORD)
        return x;
    int shift = sel < SEL_WORD0 ? 8 * sel : 16 * (sel - SEL_WORD0);
    int bits = sel < SEL_WORD0 ? 8 : 16;
    uint32_t mask = ((1u << bits) - 1) << shift, part = x << shift & mask;
    switch (in->dst_unused) {
    case 1: /* sign extend above, zero below */
        return (uint32_t)((int32_t)(x << (32 - bits)) >> (32 - bits)) << shift;
    case 2:
        return (old & ~mask) | part;
    default:
        return part;
    }
}

static void write_vector(wave *w, const inst *in, uint32_t *d, uint64_t mask)
{
    const operand *o = &in->dst[0];
    if (o->kind != OK_VGPR)
        return;
    int dw = o->type == 'x' ? o->n : operand_dwords(o->type);
    if (o->sel)
        merge_halves(d, w->v[o->reg], o->sel, w->n);
    else if (o->type == 'h' || o->type == 'w' || o->type == 'b')
        for (int i = 0; i < w->n; i++)
            d[i] &= 0xffff;
    if (in->sdwa)
        for (int i = 0; i < w->n; i++)
            d[i] = sdwa_place(in, d[i], w->v[o->reg][i]);
    for (int k = 0; k < dw; k++)
        commit_reg(w, w->v[o->reg + k], d + k * LANES, mask);
}

static void write_mask(wave *w, const operand *o, uint64_t bits)
{
    if (o->kind != OK_SGPR)
        return;
    w->s[o->reg] = (uint32_t)bits;
    if (w->n == 64)
        w->s[o->reg + 1] = (uint32_t)(bits >> 32);
}

static void flush_sources(const wave *w, const inst *in, const uint32_t **s, lane_buf *bufs)
{
    for (int k = 0; k < in->nsrc; k++)
        if (in->src[k].type == 'f') {
            flush_f32(bufs[k], s[k], w->n);
            s[k] = bufs[k];
        }
}

/* Gathers the sources of an instruction; returns the lanes that may be written. */
static uint64_t gather(wave *w, const inst *in, const uint32_t **s, lane_buf *bufs)
{
    uint64_t mask = wave_mask64(w, S_EXEC);
    for (int k = 0; k < in->nsrc; k++) {
        s[k] = fetch(w, &in->src[k], bufs[k]);
        if (k == 0 && in->dpp)
            s[0] = apply_dpp(w, in, s[0], bufs[0], &mask);
        if (!(in->flags & VF_RAW))
            s[k] = apply_mods(in, k, s[k], bufs[k]);
    }
    if ((w->flush || in->flags & VF_NODENORM) && !(in->flags & (VF_NOFLUSH | VF_RAW)))
        flush_sources(w, in, s, bufs);
    return mask;
}

/* Register indices relative to M0: bits 0 to 2 the sources, 3 the result. */
static void exec_relative(wave *w, const inst *in)
{
    inst moved = *in;
    uint8_t mode = w->gpr_idx;
    uint16_t by = (uint16_t)(w->s[S_M0] & 0xff);
    for (int k = 0; k < 3; k++)
        if (mode >> k & 1 && moved.src[k].kind == OK_VGPR)
            moved.src[k].reg = (uint16_t)(moved.src[k].reg + by);
    if (mode & 8)
        moved.dst[0].reg = (uint16_t)(moved.dst[0].reg + by);
    w->gpr_idx = 0;
    exec_valu(w, &moved);
    w->gpr_idx = mode;
}

void exec_valu(wave *w, const inst *in)
{
    if (w->gpr_idx) {
        exec_relative(w, in);
        return;
    }
    lane_buf bufs[5], d;
    const uint32_t *s[6];
    vctx c = {w, in, w->n};
    if (in->plain && !w->flush && !(in->flags & VF_NODENORM)) {
        for (int k = 0; k < in->nsrc; k++)
            s[k] = fetch(w, &in->src[k], bufs[k]);
        in->fn.v(&c, d, s);
        write_vector(w, in, d, wave_mask64(w, S_EXEC));
        return;
    }
    uint64_t mask = gather(w, in, s, bufs);
    /* Read-modify-write results (fmac) see the old value. */
    in->fn.v(&c, d, s);
    if ((w->flush || in->flags & VF_NODENORM) && in->ndst && in->dst[0].type == 'f' &&
        !(in->flags & VF_NOFLUSH))
        flush_f32(d, d, w->n);
    if ((in->omod || in->clamp) && !(in->flags & VF_CLAMP_INT))
        out_mods(in, d, w->n);
    if (in->ndst == 2 && in->dst[1].type == 'M') {
        int at = operand_dwords(in->dst[0].type) * LANES;
        write_mask(w, &in->dst[1], pack_mask(d + at, w->n) & mask);
    }
    write_vector(w, in, d, mask);
}

void exec_cmp(wave *w, const inst *in)
{
    lane_buf bufs[3], d;
    const uint32_t *s[6];
    vctx c = {w, in, w->n};
    uint64_t mask = gather(w, in, s, bufs);
    in->fn.v(&c, d, s);
    uint64_t bits = pack_mask(d, w->n) & mask;
    if (in->ndst)
        write_mask(w, &in->dst[0], bits);
    if (in->cmp_x) {
        w->s[S_EXEC] = (uint32_t)bits;
        if (w->n == 64)
            w->s[S_EXEC + 1] = (uint32_t)(bits >> 32);
    }
}

static void pick_half(uint32_t *d, const uint32_t *s, int hi, uint32_t xor)
{
    int shift = hi ? 16 : 0;
    for (int i = 0; i < LANES; i++)
        d[i] = (s[i] >> shift & 0xffff) ^ xor;
}

void exec_pk16(wave *w, const inst *in)
{
    lane_buf bufs[4], d;
    const uint32_t *s[6], *h[6];
    uint32_t half[4][LANES] __attribute__((aligned(64)));
    uint32_t out[2][LANES] __attribute__((aligned(64)));
    vctx c = {w, in, w->n};
    uint64_t mask = wave_mask64(w, S_EXEC);
    for (int k = 0; k < in->nsrc; k++) {
        s[k] = fetch(w, &in->src[k], bufs[k]);
        h[k] = half[k];
    }
    if (in->dpp)
        s[0] = apply_dpp(w, in, s[0], bufs[0], &mask);
    for (int part = 0; part < 2; part++) {
        int sel = part ? in->op_sel_hi : in->op_sel, neg = part ? in->neg_hi : in->neg_lo;
        for (int k = 0; k < in->nsrc; k++)
            pick_half(half[k], s[k], sel >> k & 1, neg >> k & 1 ? 0x8000 : 0);
        in->fn.v(&c, out[part], h);
        if (in->clamp && !(in->flags & VF_CLAMP_INT))
            for (int i = 0; i < w->n; i++) {
                float x = in->dst[0].type == 'B' ? bf2f(out[part][i]) : h2f(out[part][i]);
                x = x > 1.0f ? 1.0f : x > 0.0f ? x : 0.0f;
                out[part][i] = in->dst[0].type == 'B' ? f2bf(x) : f2h(x);
            }
    }
    for (int i = 0; i < LANES; i++)
        d[i] = (out[0][i] & 0xffff) | out[1][i] << 16;
    commit_reg(w, w->v[in->dst[0].reg], d, mask);
}

void exec_pk32(wave *w, const inst *in)
{
    lane_buf bufs[4], d;
    const uint32_t *s[6], *h[6];
    uint32_t half[4][LANES] __attribute__((aligned(64)));
    vctx c = {w, in, w->n};
    for (int k = 0; k < in->nsrc; k++) {
        s[k] = fetch(w, &in->src[k], bufs[k]);
        h[k] = half[k];
    }
    for (int part = 0; part < 2; part++) {
        int sel = part ? in->op_sel_hi : in->op_sel, neg = part ? in->neg_hi : in->neg_lo;
        for (int k = 0; k < in->nsrc; k++) {
            const operand *o = &in->src[k];
            /* A 32-bit constant stands in both halves. */
            int at = o->kind == OK_IMM ? 0 : sel >> k & 1;
            sign_mods(half[k], s[k] + at * LANES, ~0u, neg >> k & 1 ? 0x80000000 : 0);
            if (w->flush && o->type == 'F')
                flush_f32(half[k], half[k], w->n);
        }
        in->fn.v(&c, d + part * LANES, h);
        if (w->flush && in->dst[0].type == 'F')
            flush_f32(d + part * LANES, d + part * LANES, w->n);
        if (in->clamp || in->omod)
            out_mods_f32(in, d + part * LANES, w->n);
    }
    uint64_t mask = wave_mask64(w, S_EXEC);
    commit_reg(w, w->v[in->dst[0].reg], d, mask);
    commit_reg(w, w->v[in->dst[0].reg + 1], d + LANES, mask);
}

/* Both halves read their sources before either writes. */
void exec_dual(wave *w, const inst *in)
{
    const inst *x = in->pair, *y = in->pair->pair;
    lane_buf bufs[4], d[2];
    uint64_t mask[2];
    const inst *part[2] = {x, y};
    for (int i = 0; i < 2; i++) {
        const uint32_t *s[6];
        vctx c = {w, part[i], w->n};
        mask[i] = gather(w, part[i], s, bufs);
        part[i]->fn.v(&c, d[i], s);
        if (w->flush && part[i]->dst[0].type == 'f' && !(part[i]->flags & VF_NOFLUSH))
            flush_f32(d[i], d[i], w->n);
    }
    write_vector(w, x, d[0], mask[0]);
    write_vector(w, y, d[1], mask[1]);
}
