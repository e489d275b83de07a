/*
 * gfx950's conversions with a scale: from a small format the value is multiplied by the scale's
 * power of two, to one it is divided; of the scale operand only the exponent counts.
 */
#include "sim_lane.h"

enum { FMT_F32 = 7, FMT_F16, FMT_BF16 };

/* Source format, result format, number of values, stochastic rounding: above the VF_ flags. */
#define SC(src, dst, count, sr)                                                                    \
    (VF_RAW | VF_NOFLUSH | (src) << 8 | (dst) << 12 | (count) << 16 | (sr) << 24)

typedef struct conv {
    int src, dst, count;
    bool sr;
} conv;

static conv conv_of(const inst *in)
{
    int f = in->op->flags;
    return (conv){f >> 8 & 15, f >> 12 & 15, f >> 16 & 63, f >> 24 & 1};
}

static float signs(const operand *o, float x)
{
    if (o->mods & MOD_ABS)
        x = fabsf(x);
    return o->mods & MOD_NEG ? -x : x;
}

/* Bits [at, at + n) of a run of registers in one lane. */
static uint32_t bits_at(const uint32_t *s, int lane, int at, int n)
{
    uint64_t x = s[(at / 32) * LANES + lane];
    if (at % 32 + n > 32)
        x |= (uint64_t)s[(at / 32 + 1) * LANES + lane] << 32;
    return (uint32_t)(x >> (at % 32)) & ((1u << n) - 1);
}

/* Value k of the source. */
static float source_value(const inst *in, const conv *v, const uint32_t *const *s, int lane, int k)
{
    const operand *o = &in->src[0];
    int sel = in->op_sel;
    if (v->src == FMT_F32) {
        bool two = v->count > 1 && !v->sr; /* pairs and 2xpk16 come in two operands */
        int half = v->count / 2;
        if (two)
            return signs(&in->src[k >= half], u2f(s[k >= half][(k % half) * LANES + lane]));
        return signs(o, u2f(s[0][k * LANES + lane]));
    }
    if (v->src >= FMT_F16) {
        int at = v->count == 1 ? sel & 1 : k;
        uint32_t h = s[0][(at / 2) * LANES + lane] >> (16 * (at & 1)) & 0xffff;
        return signs(o, v->src == FMT_F16 ? h2f(h) : bf2f(h));
    }
    int n = small_bits(v->src), base = 0;
    if (v->count == 1 || v->src == FMT_E2M1)
        base = 8 * (sel & 3);
    else if (v->count == 2)
        base = 16 * (sel & 1);
    return small_to_float(bits_at(s[0], lane, base + k * n, n), v->src);
}

static void put_bits(uint32_t *d, int lane, int at, int n, uint32_t x)
{
    uint32_t *p = d + (at / 32) * LANES + lane;
    int sh = at % 32;
    uint64_t mask = ((UINT64_C(1) << n) - 1) << sh, v = (uint64_t)x << sh;
    p[0] = (p[0] & ~(uint32_t)mask) | (uint32_t)v;
    if (sh + n > 32)
        p[LANES] = (p[LANES] & ~(uint32_t)(mask >> 32)) | (uint32_t)(v >> 32);
}

static void put_small(const inst *in, const conv *v, uint32_t *d, int lane, int k, float x,
                      uint32_t random, bool sat)
{
    int n = small_bits(v->dst), base = 0;
    if (v->count == 1 || (v->count == 2 && v->dst == FMT_E2M1))
        base = 8 * (in->op_sel >> 2 & 3);
    else if (v->count == 2)
        base = 16 * (in->op_sel_n > 3 ? in->op_sel >> 3 & 1 : in->op_sel >> 2 & 1);
    uint32_t code =
        v->sr ? small_from_float_sr(x, v->dst, sat, random) : small_from_float(x, v->dst, sat);
    put_bits(d, lane, base + k * n, n, code);
}

static void put_value(const inst *in, const conv *v, uint32_t *d, int lane, int k, float x)
{
    if (v->dst == FMT_F32) {
        d[k * LANES + lane] = f2u(x);
        return;
    }
    uint32_t h = v->dst == FMT_F16 ? f2h(x) : f2bf(x);
    int at = v->count == 1 ? in->op_sel >> 2 & 1 : k;
    put_bits(d, lane, 16 * at, 16, h);
}

VFN(scalef32)
{
    const inst *in = c->in;
    conv v = conv_of(in);
    bool sat = in->clamp || (c->w->mode >> 23 & 1), narrow = v.dst < FMT_F32;
    const uint32_t *scale = s[in->nsrc - 1], *seed = v.sr ? s[in->nsrc - 2] : NULL;
    for (int r = 0; r < in->dst[0].n; r++)
        memcpy(d + r * LANES, c->w->v[in->dst[0].reg + r], LANES * 4);
    for (int i = 0; i < c->n; i++) {
        int e = (int)(scale[i] >> 23 & 255);
        float y[32];
        for (int k = 0; k < v.count; k++) {
            float x = source_value(in, &v, s, i, k);
            y[k] = e == 255 ? NAN : ldexpf(x, narrow ? 127 - e : e - 127);
        }
        for (int k = 0; k < v.count; k++)
            if (narrow)
                put_small(in, &v, d, i, k, y[k], seed ? seed[i] : 0, sat);
            else
                put_value(in, &v, d, i, k, y[k]);
    }
}

/* Stochastic rounding of single precision to 16 bits, into the half that op_sel names. */
static void sr_half(const vctx *c, uint32_t *restrict d, const uint32_t *const *s, bool bf)
{
    const uint32_t *old = OLD(c);
    int sh = c->in->op_sel_n > 2 && c->in->op_sel & 4 ? 16 : 0;
    EACH(c)
    {
        float x = signs(&c->in->src[0], u2f(A));
        uint32_t u = f2u(x), h;
        bool finite = (u & 0x7f800000) != 0x7f800000;
        if (bf) {
            h = finite ? (u + (B >> 16)) >> 16 : f2bf(x);
        } else {
            u = finite ? (u + (B >> 19)) & 0xffffe000 : u;
            h = f2h(u2f(u));
        }
        d[i] = (old[i] & ~(0xffffu << sh)) | h << sh;
    }
}

VFN(cvt_sr_f16_f32)
{
    sr_half(c, d, s, false);
}

VFN(cvt_sr_bf16_f32)
{
    sr_half(c, d, s, true);
}

#define P "v_cvt_scalef32_"
#define E4 FMT_E4M3
#define E5 FMT_E5M2
#define F6 FMT_E2M3
#define B6 FMT_E3M2
#define F4 FMT_E2M1
#define F32 FMT_F32
#define F16 FMT_F16
#define B16 FMT_BF16
#define FROM(name, fmt, src, dst, n)                                                               \
    {                                                                                              \
        P name, fmt, scalef32, SC(src, dst, n, 0)                                                  \
    }
#define TO(name, fmt, src, dst, n, sr)                                                             \
    {                                                                                              \
        P name, fmt, scalef32, SC(src, dst, n, sr)                                                 \
    }

const valu_op valu_scale_ops[] = {
    FROM("f32_fp8", "x:if", E4, F32, 1),
    FROM("f32_bf8", "x:if", E5, F32, 1),
    FROM("f16_fp8", "x:if", E4, F16, 1),
    FROM("f16_bf8", "x:if", E5, F16, 1),
    FROM("pk_f32_fp8", "x:if", E4, F32, 2),
    FROM("pk_f32_bf8", "x:if", E5, F32, 2),
    FROM("pk_f16_fp8", "x:if", E4, F16, 2),
    FROM("pk_f16_bf8", "x:if", E5, F16, 2),
    FROM("pk_bf16_fp8", "x:if", E4, B16, 2),
    FROM("pk_bf16_bf8", "x:if", E5, B16, 2),
    FROM("pk_f32_fp4", "x:if", F4, F32, 2),
    FROM("pk_f16_fp4", "x:if", F4, F16, 2),
    FROM("pk_bf16_fp4", "x:if", F4, B16, 2),
    FROM("pk32_f32_fp6", "x:xf", F6, F32, 32),
    FROM("pk32_f32_bf6", "x:xf", B6, F32, 32),
    FROM("pk32_f16_fp6", "x:xf", F6, F16, 32),
    FROM("pk32_f16_bf6", "x:xf", B6, F16, 32),
    FROM("pk32_bf16_fp6", "x:xf", F6, B16, 32),
    FROM("pk32_bf16_bf6", "x:xf", B6, B16, 32),
    TO("pk_fp8_f32", "x:fff", F32, E4, 2, 0),
    TO("pk_bf8_f32", "x:fff", F32, E5, 2, 0),
    TO("pk_fp8_f16", "x:if", F16, E4, 2, 0),
    TO("pk_bf8_f16", "x:if", F16, E5, 2, 0),
    TO("pk_fp8_bf16", "x:if", B16, E4, 2, 0),
    TO("pk_bf8_bf16", "x:if", B16, E5, 2, 0),
    TO("pk_fp4_f32", "x:fff", F32, F4, 2, 0),
    TO("pk_fp4_f16", "x:if", F16, F4, 2, 0),
    TO("pk_fp4_bf16", "x:if", B16, F4, 2, 0),
    TO("sr_fp8_f32", "x:fif", F32, E4, 1, 1),
    TO("sr_bf8_f32", "x:fif", F32, E5, 1, 1),
    TO("sr_fp8_f16", "x:iif", F16, E4, 1, 1),
    TO("sr_bf8_f16", "x:iif", F16, E5, 1, 1),
    TO("sr_fp8_bf16", "x:iif", B16, E4, 1, 1),
    TO("sr_bf8_bf16", "x:iif", B16, E5, 1, 1),
    TO("sr_pk_fp4_f32", "x:xif", F32, F4, 2, 1),
    TO("sr_pk_fp4_f16", "x:iif", F16, F4, 2, 1),
    TO("sr_pk_fp4_bf16", "x:iif", B16, F4, 2, 1),
    TO("2xpk16_fp6_f32", "x:xxf", F32, F6, 32, 0),
    TO("2xpk16_bf6_f32", "x:xxf", F32, B6, 32, 0),
    TO("pk32_fp6_f16", "x:xf", F16, F6, 32, 0),
    TO("pk32_bf6_f16", "x:xf", F16, B6, 32, 0),
    TO("pk32_fp6_bf16", "x:xf", B16, F6, 32, 0),
    TO("pk32_bf6_bf16", "x:xf", B16, B6, 32, 0),
    TO("sr_pk32_fp6_f32", "x:xif", F32, F6, 32, 1),
    TO("sr_pk32_bf6_f32", "x:xif", F32, B6, 32, 1),
    TO("sr_pk32_fp6_f16", "x:xif", F16, F6, 32, 1),
    TO("sr_pk32_bf6_f16", "x:xif", F16, B6, 32, 1),
    TO("sr_pk32_fp6_bf16", "x:xif", B16, F6, 32, 1),
    TO("sr_pk32_bf6_bf16", "x:xif", B16, B6, 32, 1),
    {"v_cvt_sr_f16_f32", "i:fi", cvt_sr_f16_f32, VF_RAW | VF_NOFLUSH},
    {"v_cvt_sr_bf16_f32", "i:fi", cvt_sr_bf16_f32, VF_RAW | VF_NOFLUSH},
};
const size_t valu_scale_count = ARRAY_LEN(valu_scale_ops);
