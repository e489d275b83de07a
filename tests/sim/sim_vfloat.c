/* Single-precision instructions. */
#include "sim_lane.h"

#define FA u2f(A)
#define FB u2f(B)
#define FC u2f(C)

static inline uint32_t is_nan(uint32_t x)
{
    return (x & 0x7fffffff) > 0x7f800000;
}

static inline uint32_t is_snan(uint32_t x)
{
    return is_nan(x) && !(x & 0x400000);
}

/*
 * Smaller and larger of two numbers: -0 is below +0, a NaN gives the other operand. In IEEE mode
 * (gfx9 to gfx11) a signalling NaN is returned quieted.
 */
static inline uint32_t min_num(uint32_t a, uint32_t b, bool ieee)
{
    float x = u2f(a), y = u2f(b);
    uint32_t r = x == y ? a | b : x < y || y != y ? a : b;
    r = ieee && is_snan(b) ? b : r;
    r = ieee && is_snan(a) ? a : r;
    return is_nan(r) ? r | 0x400000 : r;
}

static inline uint32_t max_num(uint32_t a, uint32_t b, bool ieee)
{
    float x = u2f(a), y = u2f(b);
    uint32_t r = x == y ? a & b : x > y || y != y ? a : b;
    r = ieee && is_snan(b) ? b : r;
    r = ieee && is_snan(a) ? a : r;
    return is_nan(r) ? r | 0x400000 : r;
}

/* IEEE 754-2019 minimum and maximum: a NaN wins. */
static inline uint32_t minimum(uint32_t a, uint32_t b)
{
    return is_nan(a) ? a | 0x400000 : is_nan(b) ? b | 0x400000 : min_num(a, b, false);
}

static inline uint32_t maximum(uint32_t a, uint32_t b)
{
    return is_nan(a) ? a | 0x400000 : is_nan(b) ? b | 0x400000 : max_num(a, b, false);
}

#define IEEE (c->w->mode >> 9 & 1)

VFLT(add_f32, FA + FB)
VFLT(sub_f32, FA - FB)
VFLT(subrev_f32, FB - FA)
VFLT(mul_f32, FA *FB)
VFLT(fma_f32, fmaf(FA, FB, FC))
VFLT(mad_f32, FA *FB + FC)
VFN(fmac_f32)
{
    const uint32_t *o = OLD(c);
    EACH(c) d[i] = f2u(fmaf(FA, FB, u2f(o[i])));
}
VFN(fmac_dx9)
{
    const uint32_t *o = OLD(c);
    EACH(c) d[i] = f2u(FA == 0 || FB == 0 ? 0.0f + u2f(o[i]) : fmaf(FA, FB, u2f(o[i])));
}
VFN(mac_f32)
{
    const uint32_t *o = OLD(c);
    EACH(c) d[i] = f2u(FA * FB + u2f(o[i]));
}
/* Text order: fmamk d, a, K, b; fmaak d, a, b, K. */
VFLT(fmamk_f32, fmaf(FA, FB, FC))
VFLT(fmaak_f32, fmaf(FA, FB, FC))

/* Zero times anything is zero. */
static inline float mul_legacy(float a, float b)
{
    return a == 0 || b == 0 ? 0.0f : a * b;
}
VFLT(mul_legacy_f32, mul_legacy(FA, FB))
VFLT(fma_legacy_f32, FA == 0 || FB == 0 ? 0.0f + FC : fmaf(FA, FB, FC))

VEXPR(min_f32, min_num(A, B, IEEE))
VEXPR(max_f32, max_num(A, B, IEEE))
VEXPR(min_num_f32, min_num(A, B, false))
VEXPR(max_num_f32, max_num(A, B, false))
VEXPR(minimum_f32, minimum(A, B))
VEXPR(maximum_f32, maximum(A, B))
VEXPR(min3_f32, min_num(min_num(A, B, IEEE), C, IEEE))
VEXPR(max3_f32, max_num(max_num(A, B, IEEE), C, IEEE))
VEXPR(minimum3_f32, minimum(minimum(A, B), C))
VEXPR(maximum3_f32, maximum(maximum(A, B), C))
VEXPR(minmax_f32, max_num(min_num(A, B, IEEE), C, IEEE))
VEXPR(maxmin_f32, min_num(max_num(A, B, IEEE), C, IEEE))
VEXPR(minimummaximum_f32, maximum(minimum(A, B), C))
VEXPR(maximumminimum_f32, minimum(maximum(A, B), C))

/* A NaN among the three gives the smallest of them. */
static inline uint32_t med3(uint32_t a, uint32_t b, uint32_t x, bool ieee)
{
    if (is_nan(a) || is_nan(b) || is_nan(x))
        return min_num(min_num(a, b, ieee), x, ieee);
    uint32_t lo = min_num(a, b, false), hi = max_num(a, b, false);
    return max_num(lo, min_num(hi, x, false), false);
}
VEXPR(med3_f32, med3(A, B, C, IEEE))

VFLT(floor_f32, floorf(FA))
VFLT(ceil_f32, ceilf(FA))
VFLT(trunc_f32, truncf(FA))
VFLT(rndne_f32, _mm_cvtss_f32(_mm_round_ss(_mm_setzero_ps(), _mm_set_ss(FA),
                                           _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)))

static inline float fract(float x)
{
    float r = x - floorf(x);
    return r >= 1.0f ? u2f(0x3f7fffff) : r;
}
VFLT(fract_f32, fract(FA))

static inline float sqrt_f(float x)
{
    return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x)));
}
VFLT(rcp_f32, 1.0f / FA)
VFLT(rsq_f32, (float)(1.0 / sqrt((double)FA)))
VFLT(sqrt_f32, sqrt_f(FA))
VFLT(exp_f32, (float)exp2((double)FA))
VFLT(log_f32, (float)log2((double)FA))

/* The operand counts turns. */
static inline float sin_turns(float x)
{
    if (!(fabsf(x) <= 256.0f))
        return fabsf(x) < INFINITY ? (float)sin(6.283185307179586 * fmod((double)x, 1.0)) : NAN;
    return (float)sin(6.283185307179586 * ((double)x - rint((double)x)));
}

static inline float cos_turns(float x)
{
    if (!(fabsf(x) < INFINITY))
        return NAN;
    return (float)cos(6.283185307179586 * fmod((double)x, 1.0));
}
VFLT(sin_f32, sin_turns(FA))
VFLT(cos_f32, cos_turns(FA))

static inline int exponent_of(uint32_t x)
{
    return (int)(x >> 23 & 0xff);
}

static inline float ldexp_f(float x, int e)
{
    return ldexpf(x, e < -300 ? -300 : e > 300 ? 300 : e);
}
VFLT(ldexp_f32, ldexp_f(FA, (int)B))

static inline int frexp_exp(float x)
{
    int e = 0;
    if (x == 0 || !(fabsf(x) < INFINITY))
        return 0;
    frexpf(x, &e);
    return e;
}

static inline float frexp_mant(float x)
{
    int e;
    return fabsf(x) < INFINITY ? frexpf(x, &e) : x;
}
VEXPR(frexp_exp_i32_f32, frexp_exp(FA))
VFLT(frexp_mant_f32, frexp_mant(FA))

/*
 * Division. div_scale(S0, S1 = denominator, S2 = numerator) scales whichever of the two S0 is, so
 * that the refinement steps neither overflow nor lose bits; vcc tells fmas to undo it.
 */
static inline uint32_t div_scale(uint32_t s0, uint32_t den, uint32_t num, uint32_t *vcc)
{
    int en = exponent_of(num), ed = exponent_of(den);
    float f0 = u2f(s0), fd = u2f(den), fn = u2f(num);
    *vcc = 0;
    if (fn == 0 || fd == 0)
        return 0x7fc00000;
    bool den_denorm = ed == 0, one = s0 == den;
    float q = fn / fd, r = 1.0f / fd;
    if (en - ed >= 96) {
        *vcc = ~0u;
        return one ? f2u(ldexpf(f0, 64)) : s0;
    }
    if (den_denorm)
        return f2u(ldexpf(f0, 64));
    bool rcp_denorm = exponent_of(f2u(r)) == 0, q_denorm = exponent_of(f2u(q)) == 0;
    if (rcp_denorm && q_denorm) {
        /* The documents scale up here; only down keeps the quotient in range for fmas. */
        *vcc = ~0u;
        return one ? f2u(ldexpf(f0, -64)) : s0;
    }
    if (rcp_denorm)
        return f2u(ldexpf(f0, -64));
    if (q_denorm) {
        *vcc = ~0u;
        return s0 == num ? f2u(ldexpf(f0, 64)) : s0;
    }
    if (en <= 23)
        return f2u(ldexpf(f0, 64));
    return s0;
}

VFN(div_scale_f32)
{
    EACH(c)
    {
        uint32_t v;
        d[i] = div_scale(A, B, C, &v);
        d[LANES + i] = v;
    }
}

/* a * b + x scaled by 2^e with one rounding: the sum in double has its inexact bit kept. */
static inline float fma_scaled(float a, float b, float x, int e)
{
    double p = (double)a * (double)b, y = (double)x, t = p + y;
    double z = t - p, err = (p - (t - z)) + (y - z);
    uint64_t u = d2u(t);
    if (err != 0 && !(u & 1) && t - t == 0)
        u = (err > 0) == (t > 0) ? u + 1 : u - 1;
    return (float)ldexp(u2d(u), e);
}

VFN(div_fmas_f32)
{
    uint64_t vcc = wave_mask64(c->w, S_VCC);
    EACH(c)
    {
        int e = exponent_of(C) > 127 ? 64 : -64;
        d[i] = f2u(vcc >> i & 1 ? fma_scaled(FA, FB, FC, e) : fmaf(FA, FB, FC));
    }
}

/* S0: the quotient so far, S1: denominator, S2: numerator. */
static inline uint32_t div_fixup(uint32_t q, uint32_t den, uint32_t num)
{
    uint32_t sign = (den ^ num) & 0x80000000;
    float fd = u2f(den), fn = u2f(num);
    if (is_nan(num))
        return num | 0x400000;
    if (is_nan(den))
        return den | 0x400000;
    if ((fd == 0 && fn == 0) || (isinf(fd) && isinf(fn)))
        return 0xffc00000;
    if (fd == 0 || isinf(fn))
        return sign | 0x7f800000;
    if (isinf(fd) || fn == 0)
        return sign;
    if (exponent_of(num) - exponent_of(den) < -150)
        return sign; /* underflow; the rounding of the refinement is lost */
    if (exponent_of(den) == 255)
        return sign | 0x7f800000;
    return is_nan(q) ? sign | 0x7f800000 : (q & 0x7fffffff) | sign;
}
VEXPR(div_fixup_f32, div_fixup(A, B, C))

/* Mixed precision: each source is fp32, or the half of a register that op_sel names. */
static void mix_sources(const vctx *c, const uint32_t *const *s, float out[3][LANES], bool bf)
{
    const inst *in = c->in;
    for (int k = 0; k < 3; k++) {
        const operand *o = &in->src[k];
        bool half = in->op_sel_hi >> k & 1, hi = in->op_sel >> k & 1;
        bool abs = o->mods & MOD_ABS || in->neg_hi >> k & 1;
        bool neg = o->mods & MOD_NEG || in->neg_lo >> k & 1;
        if (in->op_sel_hi == 7 && !strstr(in->text, "op_sel_hi"))
            half = false;
        for (int i = 0; i < c->n; i++) {
            uint32_t x = s[k][i];
            float f = !half ? u2f(x) : bf ? bf2f(hi ? x >> 16 : x & 0xffff) : h2f(hi ? x >> 16 : x);
            f = abs ? fabsf(f) : f;
            out[k][i] = neg ? -f : f;
        }
    }
}

static inline float clamp01(float x)
{
    return x > 1.0f ? 1.0f : x > 0.0f ? x : 0.0f;
}

VFN(fma_mix_f32)
{
    float f[3][LANES];
    mix_sources(c, s, f, false);
    EACH(c)
    {
        float r = fmaf(f[0][i], f[1][i], f[2][i]);
        d[i] = f2u(c->in->clamp ? clamp01(r) : r);
    }
}

static void mix_half(const vctx *c, uint32_t *restrict d, const uint32_t *const *s, int shift)
{
    float f[3][LANES];
    const uint32_t *old = OLD(c);
    mix_sources(c, s, f, false);
    EACH(c)
    {
        float r = fmaf(f[0][i], f[1][i], f[2][i]);
        uint32_t h = f2h(c->in->clamp ? clamp01(r) : r);
        d[i] = (old[i] & ~(0xffffu << shift)) | h << shift;
    }
}

VFN(fma_mixlo_f16)
{
    mix_half(c, d, s, 0);
}

VFN(fma_mixhi_f16)
{
    mix_half(c, d, s, 16);
}

/* Cube-map and interpolation instructions have no use in compute kernels and are left out. */

#define ND VF_NODENORM

const valu_op valu_float_ops[] = {
    {"v_add_f32", "f:ff", add_f32, 0},
    {"v_sub_f32", "f:ff", sub_f32, 0},
    {"v_subrev_f32", "f:ff", subrev_f32, 0},
    {"v_mul_f32", "f:ff", mul_f32, 0},
    {"v_fma_f32", "f:fff", fma_f32, 0},
    {"v_mad_f32", "f:fff", mad_f32, ND},
    {"v_fmac_f32", "f:ff", fmac_f32, 0},
    {"v_mac_f32", "f:ff", mac_f32, ND},
    {"v_madmk_f32", "f:fff", mad_f32, ND},
    {"v_madak_f32", "f:fff", mad_f32, ND},
    {"v_fmamk_f32", "f:fff", fmamk_f32, 0},
    {"v_fmaak_f32", "f:fff", fmaak_f32, 0},
    {"v_mul_legacy_f32", "f:ff", mul_legacy_f32, 0},
    {"v_mul_dx9_zero_f32", "f:ff", mul_legacy_f32, 0},
    {"v_fma_legacy_f32", "f:fff", fma_legacy_f32, 0},
    {"v_fma_dx9_zero_f32", "f:fff", fma_legacy_f32, 0},
    {"v_fmac_dx9_zero_f32", "f:ff", fmac_dx9, 0},
    {"v_fmac_legacy_f32", "f:ff", fmac_dx9, 0},
    {"v_min_f32", "f:ff", min_f32, 0},
    {"v_max_f32", "f:ff", max_f32, 0},
    {"v_min_num_f32", "f:ff", min_num_f32, 0},
    {"v_max_num_f32", "f:ff", max_num_f32, 0},
    {"v_minimum_f32", "f:ff", minimum_f32, 0},
    {"v_maximum_f32", "f:ff", maximum_f32, 0},
    {"v_min3_f32", "f:fff", min3_f32, 0},
    {"v_max3_f32", "f:fff", max3_f32, 0},
    {"v_min3_num_f32", "f:fff", min3_f32, 0},
    {"v_max3_num_f32", "f:fff", max3_f32, 0},
    {"v_minimum3_f32", "f:fff", minimum3_f32, 0},
    {"v_maximum3_f32", "f:fff", maximum3_f32, 0},
    {"v_minmax_f32", "f:fff", minmax_f32, 0},
    {"v_maxmin_f32", "f:fff", maxmin_f32, 0},
    {"v_minmax_num_f32", "f:fff", minmax_f32, 0},
    {"v_maxmin_num_f32", "f:fff", maxmin_f32, 0},
    {"v_minimummaximum_f32", "f:fff", minimummaximum_f32, 0},
    {"v_maximumminimum_f32", "f:fff", maximumminimum_f32, 0},
    {"v_med3_f32", "f:fff", med3_f32, 0},
    {"v_med3_num_f32", "f:fff", med3_f32, 0},
    {"v_floor_f32", "f:f", floor_f32, 0},
    {"v_ceil_f32", "f:f", ceil_f32, 0},
    {"v_trunc_f32", "f:f", trunc_f32, 0},
    {"v_rndne_f32", "f:f", rndne_f32, 0},
    {"v_fract_f32", "f:f", fract_f32, 0},
    {"v_rcp_f32", "f:f", rcp_f32, ND},
    {"v_rcp_iflag_f32", "f:f", rcp_f32, ND},
    {"v_rsq_f32", "f:f", rsq_f32, ND},
    {"v_sqrt_f32", "f:f", sqrt_f32, ND},
    {"v_exp_f32", "f:f", exp_f32, ND},
    {"v_log_f32", "f:f", log_f32, ND},
    {"v_exp_legacy_f32", "f:f", exp_f32, ND},
    {"v_log_legacy_f32", "f:f", log_f32, ND},
    {"v_sin_f32", "f:f", sin_f32, ND},
    {"v_cos_f32", "f:f", cos_f32, ND},
    {"v_ldexp_f32", "f:fi", ldexp_f32, 0},
    {"v_frexp_exp_i32_f32", "i:f", frexp_exp_i32_f32, 0},
    {"v_frexp_mant_f32", "f:f", frexp_mant_f32, 0},
    {"v_div_scale_f32", "fM:fff", div_scale_f32, VF_NOFLUSH},
    {"v_div_fmas_f32", "f:fff", div_fmas_f32, 0},
    {"v_div_fixup_f32", "f:fff", div_fixup_f32, VF_NOFLUSH},
    {"v_fma_mix_f32", "i:iii", fma_mix_f32, VF_RAW},
    {"v_mad_mix_f32", "i:iii", fma_mix_f32, VF_RAW},
    {"v_fma_mixlo_f16", "i:iii", fma_mixlo_f16, VF_RAW},
    {"v_fma_mixhi_f16", "i:iii", fma_mixhi_f16, VF_RAW},
    {"v_mad_mixlo_f16", "i:iii", fma_mixlo_f16, VF_RAW},
    {"v_mad_mixhi_f16", "i:iii", fma_mixhi_f16, VF_RAW},
};
const size_t valu_float_count = ARRAY_LEN(valu_float_ops);
