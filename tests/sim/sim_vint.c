/* Integer and bit instructions of the vector unit. */
#include "sim_lane.h"

#define IA ((int32_t)A)
#define IB ((int32_t)B)
#define IC ((int32_t)C)
#define HA ((uint16_t)A)
#define HB ((uint16_t)B)
#define HC ((uint16_t)C)
#define SA ((int16_t)A)
#define SB ((int16_t)B)
#define SC ((int16_t)C)
#define U24(x) ((x)&0xffffff)
#define I24(x) ((int32_t)((x) << 8) >> 8)
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define MED(a, b, c) MAX(MIN(a, b), MIN(MAX(a, b), c))

static inline uint32_t sat_i32(int64_t x)
{
    return (uint32_t)(x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : x);
}

static inline uint32_t sat_u32(int64_t x)
{
    return x < 0 ? 0 : x > UINT32_MAX ? UINT32_MAX : (uint32_t)x;
}

static inline uint32_t sat_u16(int64_t x)
{
    return x < 0 ? 0 : x > 0xffff ? 0xffff : (uint32_t)x;
}

static inline uint32_t sat_i16(int64_t x)
{
    return (uint16_t)(x > 32767 ? 32767 : x < -32768 ? -32768 : x);
}

#define VCLAMP(name, plain, sat)                                                                   \
    VFN(name)                                                                                      \
    {                                                                                              \
        if (c->in->clamp)                                                                          \
            EACH(c) d[i] = (sat);                                                                  \
        else                                                                                       \
            EACH(c) d[i] = (uint32_t)(plain);                                                      \
    }

VEXPR(mov_b32, A)
VQ(mov_b64, Q(0))
VEXPR(not_b32, ~A)
VEXPR(and_b32, A &B)
VEXPR(or_b32, A | B)
VEXPR(xor_b32, A ^ B)
VEXPR(xnor_b32, ~(A ^ B))
VEXPR(lshlrev_b32, B << (A & 31))
VEXPR(lshrrev_b32, B >> (A & 31))
VEXPR(ashrrev_i32, IB >> (A & 31))
VEXPR(lshl_b32, A << (B & 31))
VQ(lshlrev_b64, Q(1) << (A & 63))
VQ(lshrrev_b64, Q(1) >> (A & 63))
VQ(ashrrev_i64, (uint64_t)((int64_t)Q(1) >> (A & 63)))
VCLAMP(add_u32, A + B, sat_u32((int64_t)A + B))
VCLAMP(sub_u32, A - B, sat_u32((int64_t)A - B))
VCLAMP(subrev_u32, B - A, sat_u32((int64_t)B - A))
VCLAMP(add_i32, A + B, sat_i32((int64_t)IA + IB))
VCLAMP(sub_i32, A - B, sat_i32((int64_t)IA - IB))
VEXPR(mul_lo_u32, A *B)
VEXPR(mul_hi_u32, (uint64_t)A *B >> 32)
VEXPR(mul_hi_i32, (int64_t)IA *IB >> 32)
VEXPR(mul_u32_u24, U24(A) * U24(B))
VEXPR(mul_i32_i24, I24(A) * I24(B))
VEXPR(mul_hi_u32_u24, (uint64_t)U24(A) * U24(B) >> 32)
VEXPR(mul_hi_i32_i24, (int64_t)I24(A) * I24(B) >> 32)
VCLAMP(mad_u32_u24, U24(A) * U24(B) + C, sat_u32((int64_t)((uint64_t)U24(A) * U24(B)) + C))
VCLAMP(mad_i32_i24, (uint32_t)(I24(A) * I24(B)) + C, sat_i32((int64_t)I24(A) * I24(B) + IC))
VEXPR(min_u32, MIN(A, B))
VEXPR(max_u32, MAX(A, B))
VEXPR(min_i32, MIN(IA, IB))
VEXPR(max_i32, MAX(IA, IB))
VEXPR(min3_u32, MIN(MIN(A, B), C))
VEXPR(max3_u32, MAX(MAX(A, B), C))
VEXPR(med3_u32, MED(A, B, C))
VEXPR(min3_i32, MIN(MIN(IA, IB), IC))
VEXPR(max3_i32, MAX(MAX(IA, IB), IC))
VEXPR(med3_i32, MED(IA, IB, IC))
VEXPR(minmax_u32, MAX(MIN(A, B), C))
VEXPR(maxmin_u32, MIN(MAX(A, B), C))
VEXPR(minmax_i32, MAX(MIN(IA, IB), IC))
VEXPR(maxmin_i32, MIN(MAX(IA, IB), IC))
VEXPR(bfe_u32, (A >> (B & 31)) & ((1u << (C & 31)) - 1))
VEXPR(bfi_b32, (A & B) | (~A & C))
VEXPR(bfm_b32, ((1u << (A & 31)) - 1) << (B & 31))
VEXPR(alignbit_b32, ((uint64_t)A << 32 | B) >> (C & 31))
VEXPR(alignbyte_b32, ((uint64_t)A << 32 | B) >> (8 * (C & 3)))
VEXPR(lshl_add_u32, (A << (B & 31)) + C)
VEXPR(add_lshl_u32, (A + B) << (C & 31))
VCLAMP(add3_u32, A + B + C, sat_u32((int64_t)A + B + C))
VEXPR(lshl_or_b32, (A << (B & 31)) | C)
VEXPR(and_or_b32, (A & B) | C)
VEXPR(or3_b32, A | B | C)
VEXPR(xad_u32, (A ^ B) + C)
VEXPR(xor3_b32, A ^ B ^ C)
VQ(lshl_add_u64, (Q(0) << (B & 7)) + Q(2))
VQ(add_nc_u64, Q(0) + Q(1))
/* The mask is 0 or 1; no condition, so that both loads are unconditional. */
VEXPR(cndmask_b32, A ^ ((A ^ B) & (0u - C)))
VEXPR(bcnt_u32_b32, (uint32_t)__builtin_popcount(A) + B)

static inline uint32_t bfe_signed(int32_t x, uint32_t off, uint32_t width)
{
    if (!width)
        return 0;
    /* Bits past 31 are the sign. */
    int64_t v = (int64_t)x >> off;
    return (uint32_t)((int64_t)((uint64_t)v << (64 - width)) >> (64 - width));
}
VEXPR(bfe_i32, bfe_signed(IA, B & 31, C & 31))

static inline uint32_t bit_reverse(uint32_t x)
{
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(x);
}
VEXPR(bfrev_b32, bit_reverse(A))
VEXPR(ffbh_u32, A ? (uint32_t)__builtin_clz(A) : ~0u)
VEXPR(ffbl_b32, A ? (uint32_t)__builtin_ctz(A) : ~0u)
VEXPR(ffbh_i32, IA != 0 && IA != -1 ? (uint32_t)__builtin_clrsb(IA) + 1 : ~0u)

static inline uint32_t perm_byte(uint64_t data, uint32_t sel)
{
    if (sel >= 13)
        return 0xff;
    if (sel == 12)
        return 0;
    if (sel >= 8) /* the sign of an odd byte, in all bits */
        return data >> (16 * (sel - 8) + 15) & 1 ? 0xff : 0;
    return data >> (8 * sel) & 0xff;
}

/* One selector for all lanes, of plain bytes: four shifts and masks. */
static void perm_uniform(const vctx *c, uint32_t *restrict d, const uint32_t *const *s)
{
    uint32_t sel = s[2][0];
    const uint32_t *from[4];
    int sh[4];
    for (int k = 0; k < 4; k++) {
        uint32_t b = sel >> (8 * k) & 7;
        from[k] = b < 4 ? s[1] : s[0];
        sh[k] = (int)(8 * (b & 3));
    }
    EACH(c)
    {
        d[i] = (from[0][i] >> sh[0] & 0xff) | (from[1][i] >> sh[1] & 0xff) << 8 |
               (from[2][i] >> sh[2] & 0xff) << 16 | from[3][i] >> sh[3] << 24;
    }
}

VFN(perm_b32)
{
    if (c->in->src[2].kind != OK_VGPR && !(s[2][0] & 0xf8f8f8f8)) {
        perm_uniform(c, d, s);
        return;
    }
    EACH(c)
    {
        uint64_t data = (uint64_t)A << 32 | B;
        uint32_t r = 0;
        for (int k = 0; k < 4; k++)
            r |= perm_byte(data, C >> (8 * k) & 0xff) << (8 * k);
        d[i] = r;
    }
}

VFN(mbcnt_lo)
{
    EACH(c)
    {
        uint32_t below = i >= 32 ? ~0u : (1u << i) - 1;
        d[i] = (uint32_t)__builtin_popcount(A & below) + B;
    }
}

VFN(mbcnt_hi)
{
    EACH(c)
    {
        uint32_t below = i > 32 ? (1u << (i - 32)) - 1 : 0;
        d[i] = (uint32_t)__builtin_popcount(A & below) + B;
    }
}

/* Sums with carries: result, then the carry as a lane mask. */
static inline void put_carry(const vctx *c, uint32_t *d, int i, uint32_t sum, bool carry, bool sub)
{
    d[i] = c->in->clamp && carry ? (sub ? 0 : ~0u) : sum;
    d[LANES + i] = carry ? ~0u : 0;
}

VFN(add_co)
{
    EACH(c) put_carry(c, d, i, A + B, (uint64_t)A + B > UINT32_MAX, false);
}

VFN(sub_co)
{
    EACH(c) put_carry(c, d, i, A - B, B > A, true);
}

VFN(subrev_co)
{
    EACH(c) put_carry(c, d, i, B - A, A > B, true);
}

VFN(addc_co)
{
    EACH(c) put_carry(c, d, i, A + B + C, (uint64_t)A + B + C > UINT32_MAX, false);
}

VFN(subb_co)
{
    EACH(c) put_carry(c, d, i, A - B - C, (uint64_t)B + C > A, true);
}

VFN(subbrev_co)
{
    EACH(c) put_carry(c, d, i, B - A - C, (uint64_t)A + C > B, true);
}

VFN(mad_u64_u32)
{
    EACH(c)
    {
        uint64_t p = (uint64_t)A * B, r = p + Q(2);
        put64(d, i, r);
        d[2 * LANES + i] = r < p ? ~0u : 0;
    }
}

VFN(mad_i64_i32)
{
    EACH(c)
    {
        int64_t r;
        bool o = __builtin_add_overflow((int64_t)IA * IB, (int64_t)Q(2), &r);
        put64(d, i, (uint64_t)r);
        d[2 * LANES + i] = o ? ~0u : 0;
    }
}

static inline uint32_t absdiff(uint32_t a, uint32_t b)
{
    return a > b ? a - b : b - a;
}

static inline uint32_t sad_bytes(uint32_t a, uint32_t b, bool masked)
{
    uint32_t r = 0;
    for (int k = 0; k < 32; k += 8)
        if (!masked || (b >> k & 0xff))
            r += absdiff(a >> k & 0xff, b >> k & 0xff);
    return r;
}
VEXPR(sad_u8, sad_bytes(A, B, false) + C)
VEXPR(sad_hi_u8, (sad_bytes(A, B, false) << 16) + C)
VEXPR(msad_u8, sad_bytes(A, B, true) + C)
VEXPR(sad_u16, absdiff(A & 0xffff, B & 0xffff) + absdiff(A >> 16, B >> 16) + C)
VEXPR(sad_u32, absdiff(A, B) + C)

/* 16-bit */
VCLAMP(add_u16, HA + HB, sat_u16((int64_t)HA + HB))
VCLAMP(sub_u16, HA - HB, sat_u16((int64_t)HA - HB))
VCLAMP(subrev_u16, HB - HA, sat_u16((int64_t)HB - HA))
VCLAMP(add_i16, HA + HB, sat_i16((int64_t)SA + SB))
VCLAMP(sub_i16, HA - HB, sat_i16((int64_t)SA - SB))
VCLAMP(mul_lo_u16, (uint32_t)HA *HB, sat_u16((int64_t)HA *HB))
VCLAMP(mad_u16, (uint32_t)HA *HB + HC, sat_u16((int64_t)HA *HB + HC))
VCLAMP(mad_i16, SA *SB + SC, sat_i16((int64_t)SA *SB + SC))
VCLAMP(mad_u32_u16, (uint32_t)HA *HB + C, sat_u32((int64_t)((uint32_t)HA *HB) + C))
VCLAMP(mad_i32_i16, (uint32_t)(SA *SB) + C, sat_i32((int64_t)SA *SB + IC))
VEXPR(lshlrev_b16, HB << (A & 15))
VEXPR(lshrrev_b16, HB >> (A & 15))
VEXPR(ashrrev_i16, (uint16_t)(SB >> (A & 15)))
VEXPR(min_u16, MIN(HA, HB))
VEXPR(max_u16, MAX(HA, HB))
VEXPR(min_i16, (uint16_t)MIN(SA, SB))
VEXPR(max_i16, (uint16_t)MAX(SA, SB))
VEXPR(min3_u16, MIN(MIN(HA, HB), HC))
VEXPR(max3_u16, MAX(MAX(HA, HB), HC))
VEXPR(med3_u16, MED(HA, HB, HC))
VEXPR(min3_i16, (uint16_t)MIN(MIN(SA, SB), SC))
VEXPR(max3_i16, (uint16_t)MAX(MAX(SA, SB), SC))
VEXPR(med3_i16, (uint16_t)MED(SA, SB, SC))
VEXPR(mov_b16, HA)
VEXPR(not_b16, (uint16_t)~HA)
VEXPR(and_b16, HA &HB)
VEXPR(or_b16, HA | HB)
VEXPR(xor_b16, HA ^ HB)
VEXPR(cndmask_b16, (A ^ ((A ^ B) & (0u - C))) & 0xffff)
VEXPR(pack_b32_f16, (uint32_t)HA | (uint32_t)HB << 16)
VEXPR(sat_pk_u8_i16, (uint32_t)(SA<0 ? 0 : SA> 255 ? 255 : SA) |
                         (uint32_t)((int32_t)A >> 16 < 0     ? 0
                                    : (int32_t)A >> 16 > 255 ? 255
                                                             : (int32_t)A >> 16)
                             << 8)

static inline uint32_t cvt_i16_u(uint32_t x)
{
    return sat_u16(x);
}
VEXPR(cvt_pk_u16_u32, cvt_i16_u(A) | cvt_i16_u(B) << 16)
VEXPR(cvt_pk_i16_i32, sat_i16(IA) | sat_i16(IB) << 16)
VEXPR(cvt_u32_u16, HA)
VEXPR(cvt_i32_i16, SA)
VEXPR(lerp_u8,
      ((A >> 1 & 0x7f7f7f7f) + (B >> 1 & 0x7f7f7f7f) + (((A & B) | ((A | B) & C)) & 0x01010101)))

/* Dot products of small integers: per-byte or per-nibble signedness, optional saturation. */
static int64_t dot_small(uint32_t a, uint32_t b, int bits, bool sa, bool sb)
{
    int64_t r = 0;
    for (int k = 0; k < 32; k += bits) {
        int sh = 32 - bits;
        int64_t x = sa ? (int32_t)(a << (sh - k)) >> sh : (int64_t)(a << (sh - k) >> sh);
        int64_t y = sb ? (int32_t)(b << (sh - k)) >> sh : (int64_t)(b << (sh - k) >> sh);
        r += x * y;
    }
    return r;
}

static void dot_int(const vctx *c, uint32_t *restrict d, const uint32_t *const *s, int bits,
                    bool sa, bool sb)
{
    bool sat = c->in->clamp;
    EACH(c)
    {
        int64_t p = dot_small(A, B, bits, sa, sb);
        if (sa || sb)
            d[i] = sat ? sat_i32(p + IC) : (uint32_t)p + C;
        else
            d[i] = sat ? sat_u32(p + C) : (uint32_t)p + C;
    }
}

VFN(dot4_i32_i8)
{
    dot_int(c, d, s, 8, true, true);
}

VFN(dot4_u32_u8)
{
    dot_int(c, d, s, 8, false, false);
}

/* neg_lo says which of the operands is signed. */
VFN(dot4_i32_iu8)
{
    dot_int(c, d, s, 8, c->in->neg_lo & 1, c->in->neg_lo & 2);
}

VFN(dot8_i32_i4)
{
    dot_int(c, d, s, 4, true, true);
}

VFN(dot8_u32_u4)
{
    dot_int(c, d, s, 4, false, false);
}

VFN(dot8_i32_iu4)
{
    dot_int(c, d, s, 4, c->in->neg_lo & 1, c->in->neg_lo & 2);
}

VFN(dot2_i32_i16)
{
    dot_int(c, d, s, 16, true, true);
}

VFN(dot2_u32_u16)
{
    dot_int(c, d, s, 16, false, false);
}

VFN(dot4c_i32_i8)
{
    const uint32_t *t[3] = {s[0], s[1], OLD(c)};
    dot_int(c, d, t, 8, true, true);
}

VFN(dot8c_i32_i4)
{
    const uint32_t *t[3] = {s[0], s[1], OLD(c)};
    dot_int(c, d, t, 4, true, true);
}

VFN(dot2c_i32_i16)
{
    const uint32_t *t[3] = {s[0], s[1], OLD(c)};
    dot_int(c, d, t, 16, true, true);
}

/* The truth table of three inputs stands in the encoding: bits spread over the fields. */
static uint32_t bitop3_table(const inst *in)
{
    const char *t = strstr(in->text, "bitop3:");
    return t ? (uint32_t)strtoul(t + 7, NULL, 0) : 0;
}

static inline uint32_t bitop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
    uint32_t r = 0;
    for (int k = 0; k < 8; k++)
        if (table >> k & 1)
            r |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
    return r;
}

VFN(bitop3_b32)
{
    uint32_t t = bitop3_table(c->in);
    EACH(c) d[i] = bitop3(A, B, C, t);
}

VFN(bitop3_b16)
{
    uint32_t t = bitop3_table(c->in);
    EACH(c) d[i] = bitop3(A, B, C, t) & 0xffff;
}

static inline uint32_t clamp_range(int32_t x, int32_t lo, int32_t hi)
{
    return (uint32_t)(x < lo ? lo : x > hi ? hi : x);
}
VEXPR(ashr_pk_i8_i32, (clamp_range(IA >> (C & 31), -128, 127) & 0xff) |
                          (clamp_range(IB >> (C & 31), -128, 127) & 0xff) << 8)
VEXPR(ashr_pk_u8_i32, clamp_range(IA >> (C & 31), 0, 255) | clamp_range(IB >> (C & 31), 0, 255)
                                                                << 8)
VEXPR(prng_b32, (A << 1) ^ (A & 0x80000000 ? 197u : 0))

/* The low result takes a half of source 0, the high one a half of source 1. */
VFN(pk_mov_b32)
{
    const uint32_t *lo = s[0] + (c->in->op_sel & 1 ? LANES : 0);
    const uint32_t *hi = s[1] + ((c->in->op_sel_n ? c->in->op_sel : 0) & 2 ? LANES : 0);
    EACH(c)
    {
        d[i] = lo[i];
        d[LANES + i] = hi[i];
    }
}

#define N VF_NOFLUSH
#define CL VF_CLAMP_INT

const valu_op valu_int_ops[] = {
    {"v_mov_b32", "i:i", mov_b32, N},
    {"v_accvgpr_read_b32", "i:i", mov_b32, N},
    {"v_accvgpr_write_b32", "i:i", mov_b32, N},
    {"v_accvgpr_mov_b32", "i:i", mov_b32, N},
    {"v_mov_b64", "q:q", mov_b64, N},
    {"v_not_b32", "i:i", not_b32, 0},
    {"v_and_b32", "i:ii", and_b32, 0},
    {"v_or_b32", "i:ii", or_b32, 0},
    {"v_xor_b32", "i:ii", xor_b32, 0},
    {"v_xnor_b32", "i:ii", xnor_b32, 0},
    {"v_lshlrev_b32", "i:ii", lshlrev_b32, 0},
    {"v_lshrrev_b32", "i:ii", lshrrev_b32, 0},
    {"v_ashrrev_i32", "i:ii", ashrrev_i32, 0},
    {"v_lshl_b32", "i:ii", lshl_b32, 0},
    {"v_lshlrev_b64", "q:iq", lshlrev_b64, 0},
    {"v_lshrrev_b64", "q:iq", lshrrev_b64, 0},
    {"v_ashrrev_i64", "l:il", ashrrev_i64, 0},
    {"v_add_u32", "i:ii", add_u32, CL},
    {"v_sub_u32", "i:ii", sub_u32, CL},
    {"v_subrev_u32", "i:ii", subrev_u32, CL},
    {"v_add_nc_u32", "i:ii", add_u32, CL},
    {"v_sub_nc_u32", "i:ii", sub_u32, CL},
    {"v_subrev_nc_u32", "i:ii", subrev_u32, CL},
    {"v_add_i32", "i:ii", add_i32, CL},
    {"v_sub_i32", "i:ii", sub_i32, CL},
    {"v_add_nc_i32", "i:ii", add_i32, CL},
    {"v_sub_nc_i32", "i:ii", sub_i32, CL},
    {"v_add_co_u32", "iM:ii", add_co, CL},
    {"v_sub_co_u32", "iM:ii", sub_co, CL},
    {"v_subrev_co_u32", "iM:ii", subrev_co, CL},
    {"v_addc_co_u32", "iM:iim", addc_co, CL},
    {"v_subb_co_u32", "iM:iim", subb_co, CL},
    {"v_subbrev_co_u32", "iM:iim", subbrev_co, CL},
    {"v_add_co_ci_u32", "iM:iim", addc_co, CL},
    {"v_sub_co_ci_u32", "iM:iim", subb_co, CL},
    {"v_subrev_co_ci_u32", "iM:iim", subbrev_co, CL},
    {"v_mul_lo_u32", "i:ii", mul_lo_u32, 0},
    {"v_mul_lo_i32", "i:ii", mul_lo_u32, 0},
    {"v_mul_hi_u32", "i:ii", mul_hi_u32, 0},
    {"v_mul_hi_i32", "i:ii", mul_hi_i32, 0},
    {"v_mul_u32_u24", "i:ii", mul_u32_u24, 0},
    {"v_mul_i32_i24", "i:ii", mul_i32_i24, 0},
    {"v_mul_hi_u32_u24", "i:ii", mul_hi_u32_u24, 0},
    {"v_mul_hi_i32_i24", "i:ii", mul_hi_i32_i24, 0},
    {"v_mad_u32_u24", "i:iii", mad_u32_u24, CL},
    {"v_mad_i32_i24", "i:iii", mad_i32_i24, CL},
    {"v_mad_u64_u32", "qM:iiq", mad_u64_u32, 0},
    {"v_mad_i64_i32", "lM:iil", mad_i64_i32, 0},
    {"v_mad_co_u64_u32", "qM:iiq", mad_u64_u32, 0},
    {"v_mad_co_i64_i32", "lM:iil", mad_i64_i32, 0},
    {"v_min_u32", "i:ii", min_u32, 0},
    {"v_max_u32", "i:ii", max_u32, 0},
    {"v_min_i32", "i:ii", min_i32, 0},
    {"v_max_i32", "i:ii", max_i32, 0},
    {"v_min3_u32", "i:iii", min3_u32, 0},
    {"v_max3_u32", "i:iii", max3_u32, 0},
    {"v_med3_u32", "i:iii", med3_u32, 0},
    {"v_min3_i32", "i:iii", min3_i32, 0},
    {"v_max3_i32", "i:iii", max3_i32, 0},
    {"v_med3_i32", "i:iii", med3_i32, 0},
    {"v_minmax_u32", "i:iii", minmax_u32, 0},
    {"v_maxmin_u32", "i:iii", maxmin_u32, 0},
    {"v_minmax_i32", "i:iii", minmax_i32, 0},
    {"v_maxmin_i32", "i:iii", maxmin_i32, 0},
    {"v_bfe_u32", "i:iii", bfe_u32, 0},
    {"v_bfe_i32", "i:iii", bfe_i32, 0},
    {"v_bfi_b32", "i:iii", bfi_b32, 0},
    {"v_bfm_b32", "i:ii", bfm_b32, 0},
    {"v_alignbit_b32", "i:iii", alignbit_b32, 0},
    {"v_alignbyte_b32", "i:iii", alignbyte_b32, 0},
    {"v_perm_b32", "i:iii", perm_b32, 0},
    {"v_lshl_add_u32", "i:iii", lshl_add_u32, 0},
    {"v_add_lshl_u32", "i:iii", add_lshl_u32, 0},
    {"v_add3_u32", "i:iii", add3_u32, CL},
    {"v_lshl_or_b32", "i:iii", lshl_or_b32, 0},
    {"v_and_or_b32", "i:iii", and_or_b32, 0},
    {"v_or3_b32", "i:iii", or3_b32, 0},
    {"v_xad_u32", "i:iii", xad_u32, 0},
    {"v_xor3_b32", "i:iii", xor3_b32, 0},
    {"v_lshl_add_u64", "q:qiq", lshl_add_u64, 0},
    {"v_add_nc_u64", "q:qq", add_nc_u64, 0},
    {"v_cndmask_b32", "i:iim", cndmask_b32, N},
    {"v_bcnt_u32_b32", "i:ii", bcnt_u32_b32, 0},
    {"v_bfrev_b32", "i:i", bfrev_b32, 0},
    {"v_ffbh_u32", "i:i", ffbh_u32, 0},
    {"v_ffbl_b32", "i:i", ffbl_b32, 0},
    {"v_ffbh_i32", "i:i", ffbh_i32, 0},
    {"v_clz_i32_u32", "i:i", ffbh_u32, 0},
    {"v_ctz_i32_b32", "i:i", ffbl_b32, 0},
    {"v_cls_i32", "i:i", ffbh_i32, 0},
    {"v_mbcnt_lo_u32_b32", "i:ii", mbcnt_lo, 0},
    {"v_mbcnt_hi_u32_b32", "i:ii", mbcnt_hi, 0},
    {"v_sad_u8", "i:iii", sad_u8, 0},
    {"v_sad_hi_u8", "i:iii", sad_hi_u8, 0},
    {"v_msad_u8", "i:iii", msad_u8, 0},
    {"v_sad_u16", "i:iii", sad_u16, 0},
    {"v_sad_u32", "i:iii", sad_u32, 0},
    {"v_lerp_u8", "i:iii", lerp_u8, 0},
    {"v_add_u16", "w:ww", add_u16, CL},
    {"v_sub_u16", "w:ww", sub_u16, CL},
    {"v_subrev_u16", "w:ww", subrev_u16, CL},
    {"v_add_nc_u16", "w:ww", add_u16, CL},
    {"v_sub_nc_u16", "w:ww", sub_u16, CL},
    {"v_add_i16", "w:ww", add_i16, CL},
    {"v_sub_i16", "w:ww", sub_i16, CL},
    {"v_add_nc_i16", "w:ww", add_i16, CL},
    {"v_sub_nc_i16", "w:ww", sub_i16, CL},
    {"v_mul_lo_u16", "w:ww", mul_lo_u16, CL},
    {"v_mad_u16", "w:www", mad_u16, CL},
    {"v_mad_legacy_u16", "w:www", mad_u16, CL},
    {"v_mad_i16", "w:www", mad_i16, CL},
    {"v_mad_u32_u16", "i:wwi", mad_u32_u16, CL},
    {"v_mad_i32_i16", "i:wwi", mad_i32_i16, CL},
    {"v_lshlrev_b16", "w:ww", lshlrev_b16, 0},
    {"v_lshrrev_b16", "w:ww", lshrrev_b16, 0},
    {"v_ashrrev_i16", "w:ww", ashrrev_i16, 0},
    {"v_min_u16", "w:ww", min_u16, 0},
    {"v_max_u16", "w:ww", max_u16, 0},
    {"v_min_i16", "w:ww", min_i16, 0},
    {"v_max_i16", "w:ww", max_i16, 0},
    {"v_min3_u16", "w:www", min3_u16, 0},
    {"v_max3_u16", "w:www", max3_u16, 0},
    {"v_med3_u16", "w:www", med3_u16, 0},
    {"v_min3_i16", "w:www", min3_i16, 0},
    {"v_max3_i16", "w:www", max3_i16, 0},
    {"v_med3_i16", "w:www", med3_i16, 0},
    {"v_mov_b16", "w:w", mov_b16, N},
    {"v_not_b16", "w:w", not_b16, 0},
    {"v_and_b16", "w:ww", and_b16, 0},
    {"v_or_b16", "w:ww", or_b16, 0},
    {"v_xor_b16", "w:ww", xor_b16, 0},
    {"v_cndmask_b16", "w:wwm", cndmask_b16, N},
    {"v_pack_b32_f16", "i:hh", pack_b32_f16, 0},
    {"v_sat_pk_u8_i16", "i:i", sat_pk_u8_i16, 0},
    {"v_cvt_pk_u16_u32", "i:ii", cvt_pk_u16_u32, 0},
    {"v_cvt_pk_i16_i32", "i:ii", cvt_pk_i16_i32, 0},
    {"v_cvt_u32_u16", "i:w", cvt_u32_u16, 0},
    {"v_cvt_i32_i16", "i:w", cvt_i32_i16, 0},
    {"v_dot4_i32_i8", "i:iii", dot4_i32_i8, CL},
    {"v_dot4_u32_u8", "i:iii", dot4_u32_u8, CL},
    {"v_dot4_i32_iu8", "i:iii", dot4_i32_iu8, CL},
    {"v_dot8_i32_i4", "i:iii", dot8_i32_i4, CL},
    {"v_dot8_u32_u4", "i:iii", dot8_u32_u4, CL},
    {"v_dot8_i32_iu4", "i:iii", dot8_i32_iu4, CL},
    {"v_dot2_i32_i16", "i:iii", dot2_i32_i16, CL},
    {"v_dot2_u32_u16", "i:iii", dot2_u32_u16, CL},
    {"v_dot4c_i32_i8", "i:ii", dot4c_i32_i8, CL},
    {"v_dot8c_i32_i4", "i:ii", dot8c_i32_i4, CL},
    {"v_dot2c_i32_i16", "i:ii", dot2c_i32_i16, CL},
    {"v_bitop3_b32", "i:iii", bitop3_b32, 0},
    {"v_bitop3_b16", "w:www", bitop3_b16, 0},
    {"v_ashr_pk_i8_i32", "w:iii", ashr_pk_i8_i32, 0},
    {"v_ashr_pk_u8_i32", "w:iii", ashr_pk_u8_i32, 0},
    {"v_prng_b32", "i:i", prng_b32, 0},
    {"v_pk_mov_b32", "Q:QQ", pk_mov_b32, VF_RAW},
};
const size_t valu_int_count = ARRAY_LEN(valu_int_ops);
