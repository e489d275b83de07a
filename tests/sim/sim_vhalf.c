/* Half-precision and bfloat16 instructions; the packed ones use the same functions. */
#include "sim_lane.h"

typedef float lanes_f[LANES];

#define HALF1(name, e)                                                                             \
    VFN(name)                                                                                      \
    {                                                                                              \
        lanes_f x, r;                                                                              \
        halves_to_float(x, s[0], c->n);                                                            \
        EACH(c) r[i] = (e);                                                                        \
        float_to_halves(d, r, c->n);                                                               \
    }
#define HALF2(name, e)                                                                             \
    VFN(name)                                                                                      \
    {                                                                                              \
        lanes_f x, y, r;                                                                           \
        halves_to_float(x, s[0], c->n);                                                            \
        halves_to_float(y, s[1], c->n);                                                            \
        EACH(c) r[i] = (e);                                                                        \
        float_to_halves(d, r, c->n);                                                               \
    }

/* Sum, product and quotient of halves round once more without harm: 24 >= 2 * 11 + 2. */
HALF2(add_f16, x[i] + y[i])
HALF2(sub_f16, x[i] - y[i])
HALF2(subrev_f16, y[i] - x[i])
HALF2(mul_f16, x[i] * y[i])
HALF1(floor_f16, floorf(x[i]))
HALF1(ceil_f16, ceilf(x[i]))
HALF1(trunc_f16, truncf(x[i]))
HALF1(rndne_f16, nearbyintf(x[i]))
HALF1(fract_f16, fminf(x[i] - floorf(x[i]), 0.99951171875f))
HALF1(rcp_f16, 1.0f / x[i])
HALF1(rsq_f16, (float)(1.0 / sqrt((double)x[i])))
HALF1(sqrt_f16, sqrtf(x[i]))
HALF1(exp_f16, exp2f(x[i]))
HALF1(log_f16, log2f(x[i]))
HALF1(sin_f16, (float)sin(6.283185307179586 * fmod((double)x[i], 1.0)))
HALF1(cos_f16, (float)cos(6.283185307179586 * fmod((double)x[i], 1.0)))

static inline double hd(uint32_t h)
{
    return (double)h2f(h);
}

/* A product of halves is exact in double, and so is any sum that could be a tie. */
static void fma_halves(const vctx *c, uint32_t *restrict d, const uint32_t *a, const uint32_t *b,
                       const uint32_t *x)
{
    lanes_f fa, fb, fx, r;
    halves_to_float(fa, a, c->n);
    halves_to_float(fb, b, c->n);
    halves_to_float(fx, x, c->n);
    EACH(c) r[i] = d2f_odd((double)fa[i] * (double)fb[i] + (double)fx[i]);
    float_to_halves(d, r, c->n);
}

VFN(fma_f16)
{
    fma_halves(c, d, s[0], s[1], s[2]);
}

VFN(fmac_f16)
{
    uint32_t old[LANES];
    const uint32_t *o = OLD(c);
    EACH(c) old[i] = c->in->dst[0].sel == 2 ? o[i] >> 16 : o[i];
    fma_halves(c, d, s[0], s[1], old);
}

VFN(pk_fmac_f16)
{
    const uint32_t *o = OLD(c);
    EACH(c)
    {
        uint32_t lo = d2h(hd(A) * hd(B) + hd(o[i]));
        uint32_t hi = d2h(hd(A >> 16) * hd(B >> 16) + hd(o[i] >> 16));
        d[i] = lo | hi << 16;
    }
}

static inline uint32_t h_nan(uint32_t x)
{
    return (x & 0x7fff) > 0x7c00;
}

static inline uint32_t h_snan(uint32_t x)
{
    return h_nan(x) && !(x & 0x200);
}

/* Orders halves as integers. */
static inline int32_t h_key(uint32_t x)
{
    x &= 0xffff;
    return x & 0x8000 ? -(int32_t)(x & 0x7fff) - 1 : (int32_t)x;
}

static inline uint32_t h_min(uint32_t a, uint32_t b, bool ieee)
{
    a &= 0xffff;
    b &= 0xffff;
    if (ieee && h_snan(a))
        return a | 0x200;
    if (ieee && h_snan(b))
        return b | 0x200;
    if (h_nan(a))
        return h_nan(b) ? a | 0x200 : b;
    return h_nan(b) || h_key(a) < h_key(b) ? a : b;
}

static inline uint32_t h_max(uint32_t a, uint32_t b, bool ieee)
{
    a &= 0xffff;
    b &= 0xffff;
    if (ieee && h_snan(a))
        return a | 0x200;
    if (ieee && h_snan(b))
        return b | 0x200;
    if (h_nan(a))
        return h_nan(b) ? a | 0x200 : b;
    return h_nan(b) || h_key(a) > h_key(b) ? a : b;
}

static inline uint32_t h_minimum(uint32_t a, uint32_t b)
{
    return h_nan(a) ? (a & 0xffff) | 0x200 : h_nan(b) ? (b & 0xffff) | 0x200 : h_min(a, b, false);
}

static inline uint32_t h_maximum(uint32_t a, uint32_t b)
{
    return h_nan(a) ? (a & 0xffff) | 0x200 : h_nan(b) ? (b & 0xffff) | 0x200 : h_max(a, b, false);
}

static inline uint32_t h_med(uint32_t a, uint32_t b, uint32_t x, bool ieee)
{
    if (h_nan(a) || h_nan(b) || h_nan(x))
        return h_min(h_min(a, b, ieee), x, ieee);
    return h_max(h_min(a, b, false), h_min(h_max(a, b, false), x, false), false);
}

#define IEEE (c->w->mode >> 9 & 1)
VEXPR(min_f16, h_min(A, B, IEEE))
VEXPR(max_f16, h_max(A, B, IEEE))
VEXPR(min_num_f16, h_min(A, B, false))
VEXPR(max_num_f16, h_max(A, B, false))
VEXPR(minimum_f16, h_minimum(A, B))
VEXPR(maximum_f16, h_maximum(A, B))
VEXPR(min3_f16, h_min(h_min(A, B, IEEE), C, IEEE))
VEXPR(max3_f16, h_max(h_max(A, B, IEEE), C, IEEE))
VEXPR(minimum3_f16, h_minimum(h_minimum(A, B), C))
VEXPR(maximum3_f16, h_maximum(h_maximum(A, B), C))
VEXPR(minmax_f16, h_max(h_min(A, B, IEEE), C, IEEE))
VEXPR(maxmin_f16, h_min(h_max(A, B, IEEE), C, IEEE))
VEXPR(minimummaximum_f16, h_maximum(h_minimum(A, B), C))
VEXPR(maximumminimum_f16, h_minimum(h_maximum(A, B), C))
VEXPR(med3_f16, h_med(A, B, C, IEEE))

static inline int h_exp(uint32_t h)
{
    int e = 0;
    float x = h2f(h);
    if (x != 0 && fabsf(x) < INFINITY)
        frexpf(x, &e);
    return e;
}

static inline uint32_t h_mant(uint32_t h)
{
    int e;
    float x = h2f(h);
    return fabsf(x) < INFINITY ? f2h(frexpf(x, &e)) : h & 0xffff;
}
VEXPR(ldexp_f16, f2h(ldexpf(h2f(A), (int16_t)B)))
VEXPR(frexp_exp_i16_f16, (uint16_t)h_exp(A))
VEXPR(frexp_mant_f16, h_mant(A))

static inline uint32_t h_div_fixup(uint32_t q, uint32_t den, uint32_t num)
{
    uint32_t sign = (den ^ num) & 0x8000;
    float fd = h2f(den), fn = h2f(num);
    if (h_nan(num))
        return num | 0x200;
    if (h_nan(den))
        return den | 0x200;
    if ((fd == 0 && fn == 0) || (isinf(fd) && isinf(fn)))
        return 0xfe00;
    if (fd == 0 || isinf(fn))
        return sign | 0x7c00;
    if (isinf(fd) || fn == 0)
        return sign;
    return (q & 0x7fff) | sign;
}
VEXPR(div_fixup_f16, h_div_fixup(A, B, C))

/* Dot products of two halves: both products and the sum in one rounding each step of the hardware
 * differs between chips; the exact sum rounded once is the value they approximate. */
static inline float dot2(double a0, double b0, double a1, double b1, double x)
{
    return (float)(a0 * b0 + a1 * b1 + x);
}

static inline uint32_t sgn(const vctx *c, int k, uint32_t x)
{
    if (c->in->neg_lo >> k & 1)
        x ^= 0x8000;
    if (c->in->neg_hi >> k & 1)
        x ^= 0x80000000;
    return x;
}

VFN(dot2_f32_f16)
{
    EACH(c)
    {
        uint32_t a = sgn(c, 0, A), b = sgn(c, 1, B);
        double x = (double)u2f(c->in->neg_lo & 4 ? C ^ 0x80000000 : C);
        d[i] = f2u(dot2(hd(a), hd(b), hd(a >> 16), hd(b >> 16), x));
    }
}

VFN(dot2c_f32_f16)
{
    const uint32_t *o = OLD(c);
    EACH(c)
    d[i] = f2u(dot2(hd(A), hd(B), hd(A >> 16), hd(B >> 16), (double)u2f(o[i])));
}

static inline double bd(uint32_t b)
{
    return (double)bf2f(b & 0xffff);
}

VFN(dot2_f32_bf16)
{
    EACH(c)
    {
        uint32_t a = sgn(c, 0, A), b = sgn(c, 1, B);
        double x = (double)u2f(c->in->neg_lo & 4 ? C ^ 0x80000000 : C);
        d[i] = f2u(dot2(bd(a), bd(b), bd(a >> 16), bd(b >> 16), x));
    }
}

VFN(dot2c_f32_bf16)
{
    const uint32_t *o = OLD(c);
    EACH(c)
    d[i] = f2u(dot2(bd(A), bd(B), bd(A >> 16), bd(B >> 16), (double)u2f(o[i])));
}

VFN(dot2_f16_f16)
{
    EACH(c) d[i] = d2h(hd(A) * hd(B) + hd(A >> 16) * hd(B >> 16) + hd(C));
}

VFN(dot2_bf16_bf16)
{
    EACH(c) d[i] = f2bf((float)(bd(A) * bd(B) + bd(A >> 16) * bd(B >> 16) + bd(C)));
}

/* fp8 dot products of gfx12. */
static inline float fp8_dot(uint32_t a, uint32_t b, int fa, int fb, float x)
{
    double r = (double)x;
    for (int k = 0; k < 32; k += 8)
        r += (double)small_to_float(a >> k & 0xff, fa) * (double)small_to_float(b >> k & 0xff, fb);
    return (float)r;
}
VFLT(dot4_f32_fp8_fp8, fp8_dot(A, B, FMT_E4M3, FMT_E4M3, u2f(C)))
VFLT(dot4_f32_fp8_bf8, fp8_dot(A, B, FMT_E4M3, FMT_E5M2, u2f(C)))
VFLT(dot4_f32_bf8_fp8, fp8_dot(A, B, FMT_E5M2, FMT_E4M3, u2f(C)))
VFLT(dot4_f32_bf8_bf8, fp8_dot(A, B, FMT_E5M2, FMT_E5M2, u2f(C)))

#define OPSEL_FMA "h:hhh"

const valu_op valu_half_ops[] = {
    {"v_add_f16", "h:hh", add_f16, 0},
    {"v_sub_f16", "h:hh", sub_f16, 0},
    {"v_subrev_f16", "h:hh", subrev_f16, 0},
    {"v_mul_f16", "h:hh", mul_f16, 0},
    {"v_fma_f16", OPSEL_FMA, fma_f16, 0},
    {"v_mad_f16", OPSEL_FMA, fma_f16, 0},
    {"v_mad_legacy_f16", OPSEL_FMA, fma_f16, 0},
    {"v_fma_legacy_f16", OPSEL_FMA, fma_f16, 0},
    {"v_fmac_f16", "h:hh", fmac_f16, 0},
    {"v_mac_f16", "h:hh", fmac_f16, 0},
    {"v_madmk_f16", OPSEL_FMA, fma_f16, 0},
    {"v_madak_f16", OPSEL_FMA, fma_f16, 0},
    {"v_fmamk_f16", OPSEL_FMA, fma_f16, 0},
    {"v_fmaak_f16", OPSEL_FMA, fma_f16, 0},
    {"v_pk_fmac_f16", "H:HH", pk_fmac_f16, VF_RAW},
    {"v_min_f16", "h:hh", min_f16, 0},
    {"v_max_f16", "h:hh", max_f16, 0},
    {"v_min_num_f16", "h:hh", min_num_f16, 0},
    {"v_max_num_f16", "h:hh", max_num_f16, 0},
    {"v_minimum_f16", "h:hh", minimum_f16, 0},
    {"v_maximum_f16", "h:hh", maximum_f16, 0},
    {"v_min3_f16", OPSEL_FMA, min3_f16, 0},
    {"v_max3_f16", OPSEL_FMA, max3_f16, 0},
    {"v_min3_num_f16", OPSEL_FMA, min3_f16, 0},
    {"v_max3_num_f16", OPSEL_FMA, max3_f16, 0},
    {"v_minimum3_f16", OPSEL_FMA, minimum3_f16, 0},
    {"v_maximum3_f16", OPSEL_FMA, maximum3_f16, 0},
    {"v_minmax_f16", OPSEL_FMA, minmax_f16, 0},
    {"v_maxmin_f16", OPSEL_FMA, maxmin_f16, 0},
    {"v_minmax_num_f16", OPSEL_FMA, minmax_f16, 0},
    {"v_maxmin_num_f16", OPSEL_FMA, maxmin_f16, 0},
    {"v_minimummaximum_f16", OPSEL_FMA, minimummaximum_f16, 0},
    {"v_maximumminimum_f16", OPSEL_FMA, maximumminimum_f16, 0},
    {"v_med3_f16", OPSEL_FMA, med3_f16, 0},
    {"v_med3_num_f16", OPSEL_FMA, med3_f16, 0},
    {"v_floor_f16", "h:h", floor_f16, 0},
    {"v_ceil_f16", "h:h", ceil_f16, 0},
    {"v_trunc_f16", "h:h", trunc_f16, 0},
    {"v_rndne_f16", "h:h", rndne_f16, 0},
    {"v_fract_f16", "h:h", fract_f16, 0},
    {"v_rcp_f16", "h:h", rcp_f16, 0},
    {"v_rsq_f16", "h:h", rsq_f16, 0},
    {"v_sqrt_f16", "h:h", sqrt_f16, 0},
    {"v_exp_f16", "h:h", exp_f16, 0},
    {"v_log_f16", "h:h", log_f16, 0},
    {"v_sin_f16", "h:h", sin_f16, 0},
    {"v_cos_f16", "h:h", cos_f16, 0},
    {"v_ldexp_f16", "h:hw", ldexp_f16, 0},
    {"v_frexp_exp_i16_f16", "w:h", frexp_exp_i16_f16, 0},
    {"v_frexp_mant_f16", "h:h", frexp_mant_f16, 0},
    {"v_div_fixup_f16", OPSEL_FMA, div_fixup_f16, 0},
    {"v_div_fixup_legacy_f16", OPSEL_FMA, div_fixup_f16, 0},
    {"v_dot2_f32_f16", "f:HHf", dot2_f32_f16, VF_RAW},
    {"v_dot2c_f32_f16", "f:HH", dot2c_f32_f16, VF_RAW},
    {"v_dot2acc_f32_f16", "f:HH", dot2c_f32_f16, VF_RAW},
    {"v_dot2_f32_bf16", "f:BBf", dot2_f32_bf16, VF_RAW},
    {"v_dot2c_f32_bf16", "f:BB", dot2c_f32_bf16, VF_RAW},
    {"v_dot2acc_f32_bf16", "f:BB", dot2c_f32_bf16, VF_RAW},
    {"v_dot2_f16_f16", "h:HHh", dot2_f16_f16, 0},
    {"v_dot2_bf16_bf16", "b:BBb", dot2_bf16_bf16, 0},
    {"v_dot4_f32_fp8_fp8", "f:iif", dot4_f32_fp8_fp8, 0},
    {"v_dot4_f32_fp8_bf8", "f:iif", dot4_f32_fp8_bf8, 0},
    {"v_dot4_f32_bf8_fp8", "f:iif", dot4_f32_bf8_fp8, 0},
    {"v_dot4_f32_bf8_bf8", "f:iif", dot4_f32_bf8_bf8, 0},
};
const size_t valu_half_count = ARRAY_LEN(valu_half_ops);
