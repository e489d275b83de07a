/* Conversions between number formats. */
#include "sim_lane.h"

/* Float to integer: truncation, saturating, NaN to zero. */
static inline uint32_t to_i32(double x)
{
    if (x != x)
        return 0;
    return (uint32_t)(x >= 2147483647.0 ? INT32_MAX : x <= -2147483648.0 ? INT32_MIN : (int32_t)x);
}

static inline uint32_t to_u32(double x)
{
    if (!(x > 0))
        return 0;
    return x >= 4294967295.0 ? UINT32_MAX : (uint32_t)(int64_t)x;
}

/* The bounds are what fits: a value past them keeps the bound, so the plain cast is safe. */
static inline uint32_t f_to_i32(float x)
{
    int32_t r = _mm_cvttss_si32(_mm_set_ss(x)); /* 0x80000000 when out of range */
    r = x >= 2147483648.0f ? INT32_MAX : r;
    return x != x ? 0 : (uint32_t)r;
}

VEXPR(cvt_i32_f32, f_to_i32(u2f(A)))
VEXPR(cvt_u32_f32, to_u32((double)u2f(A)))
VEXPR(cvt_rpi_i32_f32, to_i32(floor((double)u2f(A) + 0.5)))
VEXPR(cvt_flr_i32_f32, to_i32(floor((double)u2f(A))))
VFLT(cvt_f32_i32, (float)(int32_t)A)
VFLT(cvt_f32_u32, (float)A)
VFLT(cvt_f32_ubyte0, (float)(A & 0xff))
VFLT(cvt_f32_ubyte1, (float)(A >> 8 & 0xff))
VFLT(cvt_f32_ubyte2, (float)(A >> 16 & 0xff))
VFLT(cvt_f32_ubyte3, (float)(A >> 24))

VFN(cvt_f16_f32)
{
    float_to_halves(d, (const float *)s[0], c->n);
}

VFN(cvt_f32_f16)
{
    halves_to_float((float *)d, s[0], c->n);
}

VEXPR(cvt_f16_i16, f2h((float)(int16_t)A))
VEXPR(cvt_f16_u16, f2h((float)(uint16_t)A))

static inline uint32_t h_to_i16(float x)
{
    return x != x ? 0 : (uint16_t)(x >= 32767 ? 32767 : x <= -32768 ? -32768 : (int)x);
}

static inline uint32_t h_to_u16(float x)
{
    return !(x > 0) ? 0 : x >= 65535 ? 65535 : (uint32_t)x;
}
VEXPR(cvt_i16_f16, h_to_i16(h2f(A)))
VEXPR(cvt_u16_f16, h_to_u16(h2f(A)))
VEXPR(cvt_f32_bf16, (uint32_t)(uint16_t)A << 16)
VEXPR(cvt_pk_bf16_f32, f2bf(u2f(A)) | f2bf(u2f(B)) << 16)

static inline uint16_t f2h_rtz(float f)
{
    __m128i h = _mm_cvtps_ph(_mm_set_ss(f), _MM_FROUND_TO_ZERO);
    return (uint16_t)_mm_cvtsi128_si32(h);
}
VEXPR(cvt_pkrtz_f16_f32, (uint32_t)f2h_rtz(u2f(A)) | (uint32_t)f2h_rtz(u2f(B)) << 16)
VEXPR(cvt_pk_f16_f32, (uint32_t)f2h(u2f(A)) | (uint32_t)f2h(u2f(B)) << 16)

/* Normalised integers. */
static inline float clampf(float x, float lo, float hi)
{
    return x != x ? 0 : x < lo ? lo : x > hi ? hi : x;
}

static inline uint32_t norm_i16(float x)
{
    return (uint16_t)(int16_t)nearbyintf(clampf(x, -1, 1) * 32767.0f);
}

static inline uint32_t norm_u16(float x)
{
    return (uint16_t)nearbyintf(clampf(x, 0, 1) * 65535.0f);
}
VEXPR(cvt_pknorm_i16_f32, norm_i16(u2f(A)) | norm_i16(u2f(B)) << 16)
VEXPR(cvt_pknorm_u16_f32, norm_u16(u2f(A)) | norm_u16(u2f(B)) << 16)
VEXPR(cvt_pknorm_i16_f16, norm_i16(h2f(A)) | norm_i16(h2f(B)) << 16)
VEXPR(cvt_pknorm_u16_f16, norm_u16(h2f(A)) | norm_u16(h2f(B)) << 16)

static inline uint32_t pk_u8(uint32_t a, uint32_t sel, uint32_t old)
{
    float x = u2f(a);
    uint32_t v = !(x > 0) ? 0 : x >= 255 ? 255 : (uint32_t)x;
    uint32_t sh = 8 * (sel & 3);
    return (old & ~(0xffu << sh)) | v << sh;
}
VEXPR(cvt_pk_u8_f32, pk_u8(A, B, C))

static inline uint32_t sat16(int32_t x, int32_t lo, int32_t hi)
{
    return (uint16_t)(x < lo ? lo : x > hi ? hi : x);
}
VEXPR(cvt_pk_i16_f32, sat16((int32_t)to_i32((double)u2f(A)), -32768, 32767) |
                          sat16((int32_t)to_i32((double)u2f(B)), -32768, 32767) << 16)
VEXPR(cvt_pk_u16_f32, sat16((int32_t)to_i32((double)u2f(A)), 0, 65535) |
                          sat16((int32_t)to_i32((double)u2f(B)), 0, 65535) << 16)
VFLT(cvt_off_f32_i4, (float)((int32_t)(A << 28) >> 28) / 16.0f)

/*
 * 8-bit floats. op_sel's last bit picks the written half, the first ones the half or byte read.
 * The CLAMP mode bit (fp16_ovfl, bit 23) makes overflow saturate.
 */
static int fmt_fp8(void)
{
    return sim_chip()->fnuz ? FMT_E4M3_FNUZ : FMT_E4M3;
}

static int fmt_bf8(void)
{
    return sim_chip()->fnuz ? FMT_E5M2_FNUZ : FMT_E5M2;
}

/* Position after the sources: the half that is written. */
static bool op_sel_dst(const vctx *c)
{
    return c->in->op_sel_n > c->in->nsrc ? c->in->op_sel >> c->in->nsrc & 1
                                         : c->in->op_sel >> 2 & 1;
}

static inline float mod_f(const vctx *c, int k, uint32_t x)
{
    const operand *o = &c->in->src[k];
    if (o->mods & MOD_ABS)
        x &= 0x7fffffff;
    if (o->mods & MOD_NEG)
        x ^= 0x80000000;
    return u2f(x);
}

static bool saturate(const vctx *c)
{
    return c->in->clamp || (c->w->mode >> 23 & 1);
}

static void pk_small(const vctx *c, uint32_t *restrict d, const uint32_t *const *s, int fmt)
{
    bool hi = op_sel_dst(c) || c->in->dst[0].half == 2;
    const uint32_t *old = OLD(c);
    bool sat = saturate(c);
    EACH(c)
    {
        uint32_t r = small_from_float(mod_f(c, 0, A), fmt, sat) |
                     small_from_float(mod_f(c, 1, B), fmt, sat) << 8;
        d[i] = hi ? (old[i] & 0xffff) | r << 16 : (old[i] & 0xffff0000) | r;
    }
}

VFN(cvt_pk_fp8_f32)
{
    pk_small(c, d, s, fmt_fp8());
}

VFN(cvt_pk_bf8_f32)
{
    pk_small(c, d, s, fmt_bf8());
}

/* op_sel bits 2 and 3: the byte that is written. */
static void sr_small(const vctx *c, uint32_t *restrict d, const uint32_t *const *s, int fmt)
{
    int byte = c->in->byte_sel >= 0 ? c->in->byte_sel : 0;
    if (c->in->op_sel_n > 3)
        byte = c->in->op_sel >> 2 & 3;
    const uint32_t *old = OLD(c);
    bool sat = saturate(c);
    EACH(c)
    {
        uint32_t r = small_from_float_sr(mod_f(c, 0, A), fmt, sat, B);
        d[i] = (old[i] & ~(0xffu << (8 * byte))) | r << (8 * byte);
    }
}

VFN(cvt_sr_fp8_f32)
{
    sr_small(c, d, s, fmt_fp8());
}

VFN(cvt_sr_bf8_f32)
{
    sr_small(c, d, s, fmt_bf8());
}

/* The byte to read: SDWA's select (gfx9), op_sel (gfx12: bits swapped), byte_sel. */
static int src_byte(const inst *in)
{
    if (in->sdwa)
        return in->src_sel[0] <= SEL_BYTE3 ? in->src_sel[0] : 0;
    if (in->byte_sel >= 0)
        return in->byte_sel & 3;
    if (in->op_sel_n)
        return (in->op_sel & 1) << 1 | (in->op_sel >> 1 & 1);
    return 0;
}

static void from_small(const vctx *c, uint32_t *restrict d, const uint32_t *const *s, int fmt)
{
    int sh = 8 * src_byte(c->in);
    EACH(c) d[i] = f2u(small_to_float(A >> sh & 0xff, fmt));
}

VFN(cvt_f32_fp8)
{
    from_small(c, d, s, fmt_fp8());
}

VFN(cvt_f32_bf8)
{
    from_small(c, d, s, fmt_bf8());
}

static void pk_from_small(const vctx *c, uint32_t *restrict d, const uint32_t *const *s, int fmt)
{
    const inst *in = c->in;
    bool hi = in->sdwa ? in->src_sel[0] == SEL_WORD1 : (in->op_sel & 1) || in->src[0].half == 2;
    int sh = hi ? 16 : 0;
    EACH(c)
    {
        d[i] = f2u(small_to_float(A >> sh & 0xff, fmt));
        d[LANES + i] = f2u(small_to_float(A >> (sh + 8) & 0xff, fmt));
    }
}

VFN(cvt_pk_f32_fp8)
{
    pk_from_small(c, d, s, fmt_fp8());
}

VFN(cvt_pk_f32_bf8)
{
    pk_from_small(c, d, s, fmt_bf8());
}

/* Double precision */
static inline double dq(uint64_t x)
{
    return u2d(x);
}
VEXPR(cvt_i32_f64, to_i32(dq(Q(0))))
VEXPR(cvt_u32_f64, to_u32(dq(Q(0))))
VFLT(cvt_f32_f64, (float)dq(Q(0)))
VD(cvt_f64_f32, (double)u2f(A))
VD(cvt_f64_i32, (double)(int32_t)A)
VD(cvt_f64_u32, (double)A)

#define NF VF_NOFLUSH

const valu_op valu_cvt_ops[] = {
    {"v_cvt_i32_f32", "i:f", cvt_i32_f32, 0},
    {"v_cvt_u32_f32", "i:f", cvt_u32_f32, 0},
    {"v_cvt_rpi_i32_f32", "i:f", cvt_rpi_i32_f32, 0},
    {"v_cvt_flr_i32_f32", "i:f", cvt_flr_i32_f32, 0},
    {"v_cvt_nearest_i32_f32", "i:f", cvt_rpi_i32_f32, 0},
    {"v_cvt_floor_i32_f32", "i:f", cvt_flr_i32_f32, 0},
    {"v_cvt_f32_i32", "f:i", cvt_f32_i32, 0},
    {"v_cvt_f32_u32", "f:i", cvt_f32_u32, 0},
    {"v_cvt_f32_ubyte0", "f:i", cvt_f32_ubyte0, 0},
    {"v_cvt_f32_ubyte1", "f:i", cvt_f32_ubyte1, 0},
    {"v_cvt_f32_ubyte2", "f:i", cvt_f32_ubyte2, 0},
    {"v_cvt_f32_ubyte3", "f:i", cvt_f32_ubyte3, 0},
    {"v_cvt_f16_f32", "h:f", cvt_f16_f32, 0},
    {"v_cvt_f32_f16", "f:h", cvt_f32_f16, 0},
    {"v_cvt_f16_i16", "h:w", cvt_f16_i16, 0},
    {"v_cvt_f16_u16", "h:w", cvt_f16_u16, 0},
    {"v_cvt_i16_f16", "w:h", cvt_i16_f16, 0},
    {"v_cvt_u16_f16", "w:h", cvt_u16_f16, 0},
    {"v_cvt_f32_bf16", "f:b", cvt_f32_bf16, NF},
    {"v_cvt_pk_bf16_f32", "i:ff", cvt_pk_bf16_f32, 0},
    {"v_cvt_pkrtz_f16_f32", "i:ff", cvt_pkrtz_f16_f32, 0},
    {"v_cvt_pk_rtz_f16_f32", "i:ff", cvt_pkrtz_f16_f32, 0},
    {"v_cvt_pk_f16_f32", "i:ff", cvt_pk_f16_f32, 0},
    {"v_cvt_pknorm_i16_f32", "i:ff", cvt_pknorm_i16_f32, 0},
    {"v_cvt_pknorm_u16_f32", "i:ff", cvt_pknorm_u16_f32, 0},
    {"v_cvt_pk_norm_i16_f32", "i:ff", cvt_pknorm_i16_f32, 0},
    {"v_cvt_pk_norm_u16_f32", "i:ff", cvt_pknorm_u16_f32, 0},
    {"v_cvt_pknorm_i16_f16", "i:hh", cvt_pknorm_i16_f16, 0},
    {"v_cvt_pknorm_u16_f16", "i:hh", cvt_pknorm_u16_f16, 0},
    {"v_cvt_pk_norm_i16_f16", "i:hh", cvt_pknorm_i16_f16, 0},
    {"v_cvt_pk_norm_u16_f16", "i:hh", cvt_pknorm_u16_f16, 0},
    {"v_cvt_pk_u8_f32", "i:fii", cvt_pk_u8_f32, 0},
    {"v_cvt_pk_i16_f32", "i:ff", cvt_pk_i16_f32, 0},
    {"v_cvt_pk_u16_f32", "i:ff", cvt_pk_u16_f32, 0},
    {"v_cvt_off_f32_i4", "f:i", cvt_off_f32_i4, 0},
    {"v_cvt_pk_fp8_f32", "i:ff", cvt_pk_fp8_f32, VF_RAW},
    {"v_cvt_pk_bf8_f32", "i:ff", cvt_pk_bf8_f32, VF_RAW},
    {"v_cvt_sr_fp8_f32", "i:fi", cvt_sr_fp8_f32, VF_RAW},
    {"v_cvt_sr_bf8_f32", "i:fi", cvt_sr_bf8_f32, VF_RAW},
    {"v_cvt_f32_fp8", "f:i", cvt_f32_fp8, VF_RAW | NF},
    {"v_cvt_f32_bf8", "f:i", cvt_f32_bf8, VF_RAW | NF},
    {"v_cvt_pk_f32_fp8", "F:i", cvt_pk_f32_fp8, VF_RAW | NF},
    {"v_cvt_pk_f32_bf8", "F:i", cvt_pk_f32_bf8, VF_RAW | NF},
    {"v_cvt_i32_f64", "i:d", cvt_i32_f64, 0},
    {"v_cvt_u32_f64", "i:d", cvt_u32_f64, 0},
    {"v_cvt_f32_f64", "f:d", cvt_f32_f64, 0},
    {"v_cvt_f64_f32", "d:f", cvt_f64_f32, 0},
    {"v_cvt_f64_i32", "d:i", cvt_f64_i32, 0},
    {"v_cvt_f64_u32", "d:i", cvt_f64_u32, 0},
};
const size_t valu_cvt_count = ARRAY_LEN(valu_cvt_ops);
