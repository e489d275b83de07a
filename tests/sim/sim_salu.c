/* Scalar arithmetic. */
#include "sim.h"
#include "sim_bits.h"

uint64_t read_scalar(wave *w, const operand *o)
{
    bool wide = operand_dwords(o->type) == 2;
    switch (o->kind) {
    case OK_SGPR:
        return w->s[o->reg] | (wide ? (uint64_t)w->s[o->reg + 1] << 32 : 0);
    case OK_IMM:
        return o->imm;
    case OK_SCC:
        return w->scc;
    case OK_VCCZ:
        return wave_mask64(w, S_VCC) == 0;
    case OK_EXECZ:
        return wave_mask64(w, S_EXEC) == 0;
    default:
        return 0;
    }
}

void write_scalar(wave *w, const operand *o, uint64_t value, int dwords)
{
    if (o->kind != OK_SGPR)
        return;
    w->s[o->reg] = (uint32_t)value;
    if (dwords == 2)
        w->s[o->reg + 1] = (uint32_t)(value >> 32);
}

void exec_salu(wave *w, const inst *in)
{
    uint64_t a = in->nsrc > 0 ? read_scalar(w, &in->src[0]) : 0;
    uint64_t b = in->nsrc > 1 ? read_scalar(w, &in->src[1]) : 0;
    if (in->nsrc > 0 && operand_dwords(in->src[0].type) == 1)
        a = (uint32_t)a;
    if (in->nsrc > 1 && operand_dwords(in->src[1].type) == 1)
        b = (uint32_t)b;
    if (in->src[0].mods & MOD_ABS)
        a &= 0x7fffffff;
    if (in->src[0].mods & MOD_NEG)
        a ^= 0x80000000;
    if (in->src[1].mods & MOD_ABS)
        b &= 0x7fffffff;
    if (in->src[1].mods & MOD_NEG)
        b ^= 0x80000000;
    uint64_t r = in->fn.s(w, a, b);
    if (in->ndst)
        write_scalar(w, &in->dst[0], r, operand_dwords(in->dst[0].type));
}

#define SFN(name, body)                                                                            \
    static uint64_t s_##name(wave *w, uint64_t a, uint64_t b)                                      \
    {                                                                                              \
        (void)w;                                                                                   \
        (void)a;                                                                                   \
        (void)b;                                                                                   \
        body                                                                                       \
    }
#define X ((uint32_t)a)
#define Y ((uint32_t)b)
#define IX ((int32_t)a)
#define IY ((int32_t)b)
#define SX ((int64_t)a)
#define SY ((int64_t)b)
/* A 32-bit or 64-bit result that also says whether it is not zero. */
#define LOGIC(name, e)                                                                             \
    SFN(name##_b32, uint32_t r = (uint32_t)(e); w->scc = r != 0; return r;)                        \
    SFN(name##_b64, uint64_t r = (e); w->scc = r != 0; return r;)
/* Saves exec, then combines it. */
#define SAVEEXEC(name, e)                                                                          \
    SFN(name##_saveexec_b64, uint64_t x = w->s64[S_EXEC / 2]; uint64_t r = (e);                    \
        w->s64[S_EXEC / 2] = r; w->scc = r != 0; return x;)                                        \
    SFN(name##_saveexec_b32, uint32_t x = w->s[S_EXEC]; uint32_t r = (uint32_t)(e);                \
        w->s[S_EXEC] = r; w->scc = r != 0; return x;)

LOGIC(and, a &b)
LOGIC(or, a | b)
LOGIC(xor, a ^ b)
LOGIC(andn2, a & ~b)
LOGIC(orn2, a | ~b)
LOGIC(nand, ~(a &b))
LOGIC(nor, ~(a | b))
LOGIC(xnor, ~(a ^ b))
LOGIC(not, ~a)
SAVEEXEC(and, a &x)
SAVEEXEC(or, a | x)
SAVEEXEC(xor, a ^ x)
SAVEEXEC(andn2, a & ~x)
SAVEEXEC(orn2, a | ~x)
SAVEEXEC(nand, ~(a &x))
SAVEEXEC(nor, ~(a | x))
SAVEEXEC(xnor, ~(a ^ x))
SAVEEXEC(andn1, ~a &x)
SAVEEXEC(orn1, ~a | x)
SFN(andn1_wrexec_b64, uint64_t r = ~a & w->s64[S_EXEC / 2]; w->s64[S_EXEC / 2] = r; w->scc = r != 0;
    return r;)
SFN(andn2_wrexec_b64, uint64_t r = a & ~w->s64[S_EXEC / 2]; w->s64[S_EXEC / 2] = r; w->scc = r != 0;
    return r;)
SFN(andn1_wrexec_b32, uint32_t r = ~X & w->s[S_EXEC]; w->s[S_EXEC] = r; w->scc = r != 0; return r;)
SFN(andn2_wrexec_b32, uint32_t r = X & ~w->s[S_EXEC]; w->s[S_EXEC] = r; w->scc = r != 0; return r;)

SFN(mov, return a;)
SFN(sel, return w->scc ? a : b;)
SFN(cmov, return w->scc ? b : a;)
SFN(add_u32, w->scc = (uint64_t)X + Y > UINT32_MAX; return X + Y;)
SFN(sub_u32, w->scc = Y > X; return X - Y;)
SFN(addc_u32, uint64_t r = (uint64_t)X + Y + w->scc; w->scc = r > UINT32_MAX; return (uint32_t)r;)
SFN(subb_u32, uint64_t y = (uint64_t)Y + w->scc; w->scc = y > X; return (uint32_t)(X - y);)
SFN(add_i32, int32_t r; w->scc = __builtin_add_overflow(IX, IY, &r); return (uint32_t)r;)
SFN(sub_i32, int32_t r; w->scc = __builtin_sub_overflow(IX, IY, &r); return (uint32_t)r;)
SFN(addk_i32, int32_t r; w->scc = __builtin_add_overflow(IX, IY, &r); return (uint32_t)r;)
SFN(mul_i32, return X * Y;)
SFN(mul_hi_u32, return (uint64_t)X * Y >> 32;)
SFN(mul_hi_i32, return (uint64_t)((int64_t)IX * IY) >> 32;)
SFN(mul_u64, return a * b;)
SFN(add_u64, return a + b;)
SFN(sub_u64, return a - b;)
SFN(min_u32, w->scc = X < Y; return X < Y ? X : Y;)
SFN(max_u32, w->scc = X > Y; return X > Y ? X : Y;)
SFN(min_i32, w->scc = IX < IY; return IX < IY ? X : Y;)
SFN(max_i32, w->scc = IX > IY; return IX > IY ? X : Y;)
SFN(lshl_b32, uint32_t r = X << (Y & 31); w->scc = r != 0; return r;)
SFN(lshr_b32, uint32_t r = X >> (Y & 31); w->scc = r != 0; return r;)
SFN(ashr_i32, uint32_t r = (uint32_t)(IX >> (Y & 31)); w->scc = r != 0; return r;)
SFN(lshl_b64, uint64_t r = a << (Y & 63); w->scc = r != 0; return r;)
SFN(lshr_b64, uint64_t r = a >> (Y & 63); w->scc = r != 0; return r;)
SFN(ashr_i64, uint64_t r = (uint64_t)(SX >> (Y & 63)); w->scc = r != 0; return r;)
SFN(bfm_b32, return (uint32_t)(((UINT64_C(1) << (X & 31)) - 1) << (Y & 31));)
SFN(bfm_b64, return ((UINT64_C(1) << (X & 63)) - 1) << (Y & 63);)

static uint64_t extract(uint64_t x, uint32_t off, uint32_t width, int size, bool sign)
{
    if (!width)
        return 0;
    if (sign) {
        int64_t v = size == 32 ? (int64_t)(int32_t)x >> off : (int64_t)x >> off;
        return width >= 64 ? (uint64_t)v
                           : (uint64_t)((int64_t)((uint64_t)v << (64 - width)) >> (64 - width));
    }
    x = size == 32 ? (uint32_t)x >> off : x >> off;
    return width >= 64 ? x : x & ((UINT64_C(1) << width) - 1);
}
SFN(bfe_u32, uint32_t r = (uint32_t)extract(a, Y & 31, Y >> 16 & 127, 32, false); w->scc = r != 0;
    return r;)
SFN(bfe_i32, uint32_t r = (uint32_t)extract(a, Y & 31, Y >> 16 & 127, 32, true); w->scc = r != 0;
    return r;)
SFN(bfe_u64, uint64_t r = extract(a, Y & 63, Y >> 16 & 127, 64, false); w->scc = r != 0; return r;)
SFN(bfe_i64, uint64_t r = extract(a, Y & 63, Y >> 16 & 127, 64, true); w->scc = r != 0; return r;)
SFN(brev_b32, uint32_t r = 0; for (int k = 0; k < 32; k++) r |= (X >> k & 1) << (31 - k); return r;)
SFN(brev_b64, uint64_t r = 0; for (int k = 0; k < 64; k++) r |= (a >> k & 1) << (63 - k); return r;)
SFN(bcnt1_b32, uint32_t r = (uint32_t)__builtin_popcount(X); w->scc = r != 0; return r;)
SFN(bcnt0_b32, uint32_t r = (uint32_t)__builtin_popcount(~X); w->scc = r != 0; return r;)
SFN(bcnt1_b64, uint32_t r = (uint32_t)__builtin_popcountll(a); w->scc = r != 0; return r;)
SFN(bcnt0_b64, uint32_t r = (uint32_t)__builtin_popcountll(~a); w->scc = r != 0; return r;)
SFN(ff1_b32, return X ? (uint32_t)__builtin_ctz(X) : UINT32_MAX;)
SFN(ff0_b32, return ~X ? (uint32_t)__builtin_ctz(~X) : UINT32_MAX;)
SFN(ff1_b64, return a ? (uint32_t)__builtin_ctzll(a) : UINT32_MAX;)
SFN(ff0_b64, return ~a ? (uint32_t)__builtin_ctzll(~a) : UINT32_MAX;)
SFN(flbit_b32, return X ? (uint32_t)__builtin_clz(X) : UINT32_MAX;)
SFN(flbit_b64, return a ? (uint32_t)__builtin_clzll(a) : UINT32_MAX;)
SFN(flbit_i32, return IX && IX != -1 ? (uint32_t)__builtin_clrsb(IX) + 1 : UINT32_MAX;)
SFN(flbit_i64, return SX && SX != -1 ? (uint32_t)__builtin_clrsbll(SX) + 1 : UINT32_MAX;)
SFN(sext_i8, return (uint32_t)(int8_t)a;)
SFN(sext_i16, return (uint32_t)(int16_t)a;)
SFN(abs_i32, uint32_t r = IX < 0 ? 0u - X : X; w->scc = r != 0; return r;)
SFN(absdiff_i32, int64_t t = (int64_t)IX - IY; uint32_t r = (uint32_t)(t < 0 ? -t : t);
    w->scc = r != 0; return r;)
SFN(bitset0_b32, return X & ~(1u << (Y & 31));)
SFN(bitset1_b32, return X | 1u << (Y & 31);)
SFN(bitset0_b64, return a & ~(UINT64_C(1) << (Y & 63));)
SFN(bitset1_b64, return a | UINT64_C(1) << (Y & 63);)
SFN(bitreplicate, uint64_t r = 0;
    for (int k = 0; k < 32; k++) r |= (uint64_t)(X >> k & 1) * 3 << (2 * k); return r;)
SFN(pack_ll, return (X & 0xffff) | Y << 16;)
SFN(pack_lh, return (X & 0xffff) | (Y & 0xffff0000);)
SFN(pack_hh, return X >> 16 | (Y & 0xffff0000);)
SFN(pack_hl, return X >> 16 | Y << 16;)
SFN(lshl1_add, uint64_t r = ((uint64_t)X << 1) + Y; w->scc = r > UINT32_MAX; return (uint32_t)r;)
SFN(lshl2_add, uint64_t r = ((uint64_t)X << 2) + Y; w->scc = r > UINT32_MAX; return (uint32_t)r;)
SFN(lshl3_add, uint64_t r = ((uint64_t)X << 3) + Y; w->scc = r > UINT32_MAX; return (uint32_t)r;)
SFN(lshl4_add, uint64_t r = ((uint64_t)X << 4) + Y; w->scc = r > UINT32_MAX; return (uint32_t)r;)

/* Whole-quad mode: every lane of a quad with an active one. */
static uint64_t whole_quads(uint64_t a)
{
    uint64_t q = (a | a >> 1 | a >> 2 | a >> 3) & UINT64_C(0x1111111111111111);
    return q * 15;
}
SFN(wqm_b64, uint64_t r = whole_quads(a); w->scc = r != 0; return r;)
SFN(wqm_b32, uint32_t r = (uint32_t)whole_quads(X); w->scc = r != 0; return r;)

/* Comparisons */
SFN(eq_u32, w->scc = X == Y; return 0;)
SFN(lg_u32, w->scc = X != Y; return 0;)
SFN(gt_u32, w->scc = X > Y; return 0;)
SFN(ge_u32, w->scc = X >= Y; return 0;)
SFN(lt_u32, w->scc = X < Y; return 0;)
SFN(le_u32, w->scc = X <= Y; return 0;)
SFN(gt_i32, w->scc = IX > IY; return 0;)
SFN(ge_i32, w->scc = IX >= IY; return 0;)
SFN(lt_i32, w->scc = IX < IY; return 0;)
SFN(le_i32, w->scc = IX <= IY; return 0;)
SFN(eq_u64, w->scc = a == b; return 0;)
SFN(lg_u64, w->scc = a != b; return 0;)
SFN(bitcmp0_b32, w->scc = !(X >> (Y & 31) & 1); return 0;)
SFN(bitcmp1_b32, w->scc = X >> (Y & 31) & 1; return 0;)
SFN(bitcmp0_b64, w->scc = !(a >> (Y & 63) & 1); return 0;)
SFN(bitcmp1_b64, w->scc = a >> (Y & 63) & 1; return 0;)
/* The unsigned forms with a 16-bit constant do not extend its sign. */
SFN(keq_u32, w->scc = X == (Y & 0xffff); return 0;)
SFN(klg_u32, w->scc = X != (Y & 0xffff); return 0;)
SFN(kgt_u32, w->scc = X > (Y & 0xffff); return 0;)
SFN(kge_u32, w->scc = X >= (Y & 0xffff); return 0;)
SFN(klt_u32, w->scc = X < (Y & 0xffff); return 0;)
SFN(kle_u32, w->scc = X <= (Y & 0xffff); return 0;)

/* Floats of gfx11.5 and later */
#define FX u2f(X)
#define FY u2f(Y)
SFN(add_f32, return f2u(FX + FY);)
SFN(sub_f32, return f2u(FX - FY);)
SFN(mul_f32, return f2u(FX * FY);)
SFN(min_f32, return f2u(FX < FY || FY != FY ? FX : FY);)
SFN(max_f32, return f2u(FX > FY || FY != FY ? FX : FY);)
SFN(ceil_f32, return f2u(ceilf(FX));)
SFN(floor_f32, return f2u(floorf(FX));)
SFN(trunc_f32, return f2u(truncf(FX));)
SFN(rndne_f32, return f2u(nearbyintf(FX));)
SFN(cvt_f32_i32, return f2u((float)IX);)
SFN(cvt_f32_u32, return f2u((float)X);)
SFN(cvt_i32_f32, return FX != FX               ? 0
                        : FX >= 2147483648.0f  ? INT32_MAX
                        : FX <= -2147483648.0f ? 0x80000000u
                                               : (uint32_t)(int32_t)FX;)
SFN(cvt_u32_f32, return !(FX > 0) ? 0 : FX >= 4294967296.0f ? UINT32_MAX : (uint32_t)FX;)
SFN(cvt_f16_f32, return f2h(FX);)
SFN(cvt_f32_f16, return f2u(h2f(X));)
SFN(cvt_hi_f32_f16, return f2u(h2f(X >> 16));)
SFN(f_lt, w->scc = FX < FY; return 0;)
SFN(f_eq, w->scc = FX == FY; return 0;)
SFN(f_le, w->scc = FX <= FY; return 0;)
SFN(f_gt, w->scc = FX > FY; return 0;)
SFN(f_lg, w->scc = FX < FY || FX > FY; return 0;)
SFN(f_ge, w->scc = FX >= FY; return 0;)
SFN(f_o, w->scc = FX == FX && FY == FY; return 0;)
SFN(f_u, w->scc = FX != FX || FY != FY; return 0;)
SFN(f_nge, w->scc = !(FX >= FY); return 0;)
SFN(f_nlg, w->scc = !(FX < FY || FX > FY); return 0;)
SFN(f_ngt, w->scc = !(FX > FY); return 0;)
SFN(f_nle, w->scc = !(FX <= FY); return 0;)
SFN(f_neq, w->scc = FX != FY; return 0;)
SFN(f_nlt, w->scc = !(FX < FY); return 0;)

/* Halves, in the low 16 bits. */
#define HX h2f(X)
#define HY h2f(Y)
#define HCMP(name, e) SFN(h_##name, w->scc = (e); return 0;)
SFN(h_add, return f2h(HX + HY);)
SFN(h_sub, return f2h(HX - HY);)
SFN(h_mul, return f2h(HX * HY);)
SFN(h_min, return HX < HY || HY != HY ? X & 0xffff : Y & 0xffff;)
SFN(h_max, return HX > HY || HY != HY ? X & 0xffff : Y & 0xffff;)
SFN(h_minimum, return HX != HX ? X & 0xffff : HY != HY || HY < HX ? Y & 0xffff : X & 0xffff;)
SFN(h_maximum, return HX != HX ? X & 0xffff : HY != HY || HY > HX ? Y & 0xffff : X & 0xffff;)
SFN(h_ceil, return f2h(ceilf(HX));)
SFN(h_floor, return f2h(floorf(HX));)
SFN(h_trunc, return f2h(truncf(HX));)
SFN(h_rndne, return f2h(nearbyintf(HX));)
HCMP(lt, HX < HY)
HCMP(eq, HX == HY)
HCMP(le, HX <= HY)
HCMP(gt, HX > HY)
HCMP(lg, HX<HY || HX> HY)
HCMP(ge, HX >= HY)
HCMP(o, HX == HX && HY == HY)
HCMP(u, HX != HX || HY != HY)
HCMP(nge, !(HX >= HY))
HCMP(nlg, !(HX < HY || HX > HY))
HCMP(ngt, !(HX > HY))
HCMP(nle, !(HX <= HY))
HCMP(neq, HX != HY)
HCMP(nlt, !(HX < HY))
SFN(minimum_f32, return f2u(FX != FX ? FX : FY != FY || FY < FX ? FY : FX);)
SFN(maximum_f32, return f2u(FX != FX ? FX : FY != FY || FY > FX ? FY : FX);)
/* Transcendental functions with scalar operands. */
SFN(v_rcp, return f2u(1.0f / FX);)
SFN(v_rsq, return f2u((float)(1.0 / sqrt((double)FX)));)
SFN(v_sqrt, return f2u(sqrtf(FX));)
SFN(v_exp, return f2u((float)exp2((double)FX));)
SFN(v_log, return f2u((float)log2((double)FX));)

#define BOTH(n, f32fmt, f64fmt, fn)                                                                \
    {"s_" n "_b32", f32fmt, s_##fn##_b32},                                                         \
    {                                                                                              \
        "s_" n "_b64", f64fmt, s_##fn##_b64                                                        \
    }
#define SAVE(n, fn)                                                                                \
    {"s_" n "_saveexec_b32", "i:i", s_##fn##_saveexec_b32},                                        \
    {                                                                                              \
        "s_" n "_saveexec_b64", "q:q", s_##fn##_saveexec_b64                                       \
    }

const salu_op salu_ops[] = {
    BOTH("and", "i:ii", "q:qq", and),
    BOTH("or", "i:ii", "q:qq", or),
    BOTH("xor", "i:ii", "q:qq", xor),
    BOTH("andn2", "i:ii", "q:qq", andn2),
    BOTH("orn2", "i:ii", "q:qq", orn2),
    BOTH("and_not1", "i:ii", "q:qq", andn2),
    BOTH("or_not1", "i:ii", "q:qq", orn2),
    BOTH("nand", "i:ii", "q:qq", nand),
    BOTH("nor", "i:ii", "q:qq", nor),
    BOTH("xnor", "i:ii", "q:qq", xnor),
    BOTH("not", "i:i", "q:q", not ),
    SAVE("and", and),
    SAVE("or", or),
    SAVE("xor", xor),
    SAVE("andn2", andn2),
    SAVE("orn2", orn2),
    SAVE("and_not1", andn2),
    SAVE("or_not1", orn2),
    SAVE("nand", nand),
    SAVE("nor", nor),
    SAVE("xnor", xnor),
    SAVE("andn1", andn1),
    SAVE("orn1", orn1),
    SAVE("and_not0", andn1),
    SAVE("or_not0", orn1),
    {"s_andn1_wrexec_b64", "q:q", s_andn1_wrexec_b64},
    {"s_andn2_wrexec_b64", "q:q", s_andn2_wrexec_b64},
    {"s_and_not0_wrexec_b64", "q:q", s_andn1_wrexec_b64},
    {"s_and_not1_wrexec_b64", "q:q", s_andn2_wrexec_b64},
    {"s_and_not0_wrexec_b32", "i:i", s_andn1_wrexec_b32},
    {"s_and_not1_wrexec_b32", "i:i", s_andn2_wrexec_b32},
    {"s_mov_b32", "i:i", s_mov},
    {"s_mov_b64", "q:q", s_mov},
    {"s_movk_i32", "i:k", s_mov},
    {"s_cmov_b32", "i:+i", s_cmov},
    {"s_cmov_b64", "q:+q", s_cmov},
    {"s_cmovk_i32", "i:+k", s_cmov},
    {"s_cselect_b32", "i:ii", s_sel},
    {"s_cselect_b64", "q:qq", s_sel},
    {"s_add_u32", "i:ii", s_add_u32},
    {"s_sub_u32", "i:ii", s_sub_u32},
    {"s_addc_u32", "i:ii", s_addc_u32},
    {"s_subb_u32", "i:ii", s_subb_u32},
    {"s_add_i32", "i:ii", s_add_i32},
    {"s_sub_i32", "i:ii", s_sub_i32},
    {"s_add_co_u32", "i:ii", s_add_u32},
    {"s_sub_co_u32", "i:ii", s_sub_u32},
    {"s_add_co_ci_u32", "i:ii", s_addc_u32},
    {"s_sub_co_ci_u32", "i:ii", s_subb_u32},
    {"s_add_co_i32", "i:ii", s_add_i32},
    {"s_sub_co_i32", "i:ii", s_sub_i32},
    {"s_addk_i32", "i:+k", s_addk_i32},
    {"s_addk_co_i32", "i:+k", s_addk_i32},
    {"s_mulk_i32", "i:+k", s_mul_i32},
    {"s_mul_i32", "i:ii", s_mul_i32},
    {"s_mul_hi_u32", "i:ii", s_mul_hi_u32},
    {"s_mul_hi_i32", "i:ii", s_mul_hi_i32},
    {"s_mul_u64", "q:qq", s_mul_u64},
    {"s_add_nc_u64", "q:qq", s_add_u64},
    {"s_sub_nc_u64", "q:qq", s_sub_u64},
    {"s_min_u32", "i:ii", s_min_u32},
    {"s_max_u32", "i:ii", s_max_u32},
    {"s_min_i32", "i:ii", s_min_i32},
    {"s_max_i32", "i:ii", s_max_i32},
    {"s_lshl_b32", "i:ii", s_lshl_b32},
    {"s_lshr_b32", "i:ii", s_lshr_b32},
    {"s_ashr_i32", "i:ii", s_ashr_i32},
    {"s_lshl_b64", "q:qi", s_lshl_b64},
    {"s_lshr_b64", "q:qi", s_lshr_b64},
    {"s_ashr_i64", "l:li", s_ashr_i64},
    {"s_bfm_b32", "i:ii", s_bfm_b32},
    {"s_bfm_b64", "q:ii", s_bfm_b64},
    {"s_bfe_u32", "i:ii", s_bfe_u32},
    {"s_bfe_i32", "i:ii", s_bfe_i32},
    {"s_bfe_u64", "q:qi", s_bfe_u64},
    {"s_bfe_i64", "l:li", s_bfe_i64},
    {"s_brev_b32", "i:i", s_brev_b32},
    {"s_brev_b64", "q:q", s_brev_b64},
    {"s_bcnt1_i32_b32", "i:i", s_bcnt1_b32},
    {"s_bcnt0_i32_b32", "i:i", s_bcnt0_b32},
    {"s_bcnt1_i32_b64", "i:q", s_bcnt1_b64},
    {"s_bcnt0_i32_b64", "i:q", s_bcnt0_b64},
    {"s_ff1_i32_b32", "i:i", s_ff1_b32},
    {"s_ff0_i32_b32", "i:i", s_ff0_b32},
    {"s_ff1_i32_b64", "i:q", s_ff1_b64},
    {"s_ff0_i32_b64", "i:q", s_ff0_b64},
    {"s_ctz_i32_b32", "i:i", s_ff1_b32},
    {"s_ctz_i32_b64", "i:q", s_ff1_b64},
    {"s_flbit_i32_b32", "i:i", s_flbit_b32},
    {"s_flbit_i32_b64", "i:q", s_flbit_b64},
    {"s_flbit_i32", "i:i", s_flbit_i32},
    {"s_flbit_i32_i64", "i:q", s_flbit_i64},
    {"s_clz_i32_u32", "i:i", s_flbit_b32},
    {"s_clz_i32_u64", "i:q", s_flbit_b64},
    {"s_cls_i32", "i:i", s_flbit_i32},
    {"s_cls_i32_i64", "i:q", s_flbit_i64},
    {"s_sext_i32_i8", "i:i", s_sext_i8},
    {"s_sext_i32_i16", "i:i", s_sext_i16},
    {"s_abs_i32", "i:i", s_abs_i32},
    {"s_absdiff_i32", "i:ii", s_absdiff_i32},
    {"s_bitset0_b32", "i:+i", s_bitset0_b32},
    {"s_bitset1_b32", "i:+i", s_bitset1_b32},
    {"s_bitset0_b64", "q:+i", s_bitset0_b64},
    {"s_bitset1_b64", "q:+i", s_bitset1_b64},
    {"s_bitreplicate_b64_b32", "q:i", s_bitreplicate},
    {"s_pack_ll_b32_b16", "i:ii", s_pack_ll},
    {"s_pack_lh_b32_b16", "i:ii", s_pack_lh},
    {"s_pack_hh_b32_b16", "i:ii", s_pack_hh},
    {"s_pack_hl_b32_b16", "i:ii", s_pack_hl},
    {"s_lshl1_add_u32", "i:ii", s_lshl1_add},
    {"s_lshl2_add_u32", "i:ii", s_lshl2_add},
    {"s_lshl3_add_u32", "i:ii", s_lshl3_add},
    {"s_lshl4_add_u32", "i:ii", s_lshl4_add},
    {"s_wqm_b32", "i:i", s_wqm_b32},
    {"s_wqm_b64", "q:q", s_wqm_b64},
    {"s_cmp_eq_u32", ":ii", s_eq_u32},
    {"s_cmp_lg_u32", ":ii", s_lg_u32},
    {"s_cmp_eq_i32", ":ii", s_eq_u32},
    {"s_cmp_lg_i32", ":ii", s_lg_u32},
    {"s_cmp_gt_u32", ":ii", s_gt_u32},
    {"s_cmp_ge_u32", ":ii", s_ge_u32},
    {"s_cmp_lt_u32", ":ii", s_lt_u32},
    {"s_cmp_le_u32", ":ii", s_le_u32},
    {"s_cmp_gt_i32", ":ii", s_gt_i32},
    {"s_cmp_ge_i32", ":ii", s_ge_i32},
    {"s_cmp_lt_i32", ":ii", s_lt_i32},
    {"s_cmp_le_i32", ":ii", s_le_i32},
    {"s_cmp_eq_u64", ":qq", s_eq_u64},
    {"s_cmp_lg_u64", ":qq", s_lg_u64},
    {"s_cmpk_eq_i32", ":ik", s_eq_u32},
    {"s_cmpk_lg_i32", ":ik", s_lg_u32},
    {"s_cmpk_gt_i32", ":ik", s_gt_i32},
    {"s_cmpk_ge_i32", ":ik", s_ge_i32},
    {"s_cmpk_lt_i32", ":ik", s_lt_i32},
    {"s_cmpk_le_i32", ":ik", s_le_i32},
    {"s_cmpk_eq_u32", ":ik", s_keq_u32},
    {"s_cmpk_lg_u32", ":ik", s_klg_u32},
    {"s_cmpk_gt_u32", ":ik", s_kgt_u32},
    {"s_cmpk_ge_u32", ":ik", s_kge_u32},
    {"s_cmpk_lt_u32", ":ik", s_klt_u32},
    {"s_cmpk_le_u32", ":ik", s_kle_u32},
    {"s_bitcmp0_b32", ":ii", s_bitcmp0_b32},
    {"s_bitcmp1_b32", ":ii", s_bitcmp1_b32},
    {"s_bitcmp0_b64", ":qi", s_bitcmp0_b64},
    {"s_bitcmp1_b64", ":qi", s_bitcmp1_b64},
    {"s_add_f32", "f:ff", s_add_f32},
    {"s_sub_f32", "f:ff", s_sub_f32},
    {"s_mul_f32", "f:ff", s_mul_f32},
    {"s_min_num_f32", "f:ff", s_min_f32},
    {"s_max_num_f32", "f:ff", s_max_f32},
    {"s_min_f32", "f:ff", s_min_f32},
    {"s_max_f32", "f:ff", s_max_f32},
    {"s_ceil_f32", "f:f", s_ceil_f32},
    {"s_floor_f32", "f:f", s_floor_f32},
    {"s_trunc_f32", "f:f", s_trunc_f32},
    {"s_rndne_f32", "f:f", s_rndne_f32},
    {"s_cvt_f32_i32", "f:i", s_cvt_f32_i32},
    {"s_cvt_f32_u32", "f:i", s_cvt_f32_u32},
    {"s_cvt_i32_f32", "i:f", s_cvt_i32_f32},
    {"s_cvt_u32_f32", "i:f", s_cvt_u32_f32},
    {"s_cvt_f16_f32", "i:f", s_cvt_f16_f32},
    {"s_cvt_f32_f16", "f:h", s_cvt_f32_f16},
    {"s_cvt_hi_f32_f16", "f:i", s_cvt_hi_f32_f16},
    {"s_cmp_lt_f32", ":ff", s_f_lt},
    {"s_cmp_eq_f32", ":ff", s_f_eq},
    {"s_cmp_le_f32", ":ff", s_f_le},
    {"s_cmp_gt_f32", ":ff", s_f_gt},
    {"s_cmp_lg_f32", ":ff", s_f_lg},
    {"s_cmp_ge_f32", ":ff", s_f_ge},
    {"s_cmp_o_f32", ":ff", s_f_o},
    {"s_cmp_u_f32", ":ff", s_f_u},
    {"s_cmp_nge_f32", ":ff", s_f_nge},
    {"s_cmp_nlg_f32", ":ff", s_f_nlg},
    {"s_cmp_ngt_f32", ":ff", s_f_ngt},
    {"s_cmp_nle_f32", ":ff", s_f_nle},
    {"s_cmp_neq_f32", ":ff", s_f_neq},
    {"s_cmp_nlt_f32", ":ff", s_f_nlt},
    {"s_cmp_lt_f16", ":hh", s_h_lt},
    {"s_cmp_eq_f16", ":hh", s_h_eq},
    {"s_cmp_le_f16", ":hh", s_h_le},
    {"s_cmp_gt_f16", ":hh", s_h_gt},
    {"s_cmp_lg_f16", ":hh", s_h_lg},
    {"s_cmp_ge_f16", ":hh", s_h_ge},
    {"s_cmp_o_f16", ":hh", s_h_o},
    {"s_cmp_u_f16", ":hh", s_h_u},
    {"s_cmp_nge_f16", ":hh", s_h_nge},
    {"s_cmp_nlg_f16", ":hh", s_h_nlg},
    {"s_cmp_ngt_f16", ":hh", s_h_ngt},
    {"s_cmp_nle_f16", ":hh", s_h_nle},
    {"s_cmp_neq_f16", ":hh", s_h_neq},
    {"s_cmp_nlt_f16", ":hh", s_h_nlt},
    {"s_add_f16", "h:hh", s_h_add},
    {"s_sub_f16", "h:hh", s_h_sub},
    {"s_mul_f16", "h:hh", s_h_mul},
    {"s_min_num_f16", "h:hh", s_h_min},
    {"s_max_num_f16", "h:hh", s_h_max},
    {"s_minimum_f16", "h:hh", s_h_minimum},
    {"s_maximum_f16", "h:hh", s_h_maximum},
    {"s_ceil_f16", "h:h", s_h_ceil},
    {"s_floor_f16", "h:h", s_h_floor},
    {"s_trunc_f16", "h:h", s_h_trunc},
    {"s_rndne_f16", "h:h", s_h_rndne},
    {"s_minimum_f32", "f:ff", s_minimum_f32},
    {"s_maximum_f32", "f:ff", s_maximum_f32},
    {"v_s_rcp_f32", "f:f", s_v_rcp},
    {"v_s_rsq_f32", "f:f", s_v_rsq},
    {"v_s_sqrt_f32", "f:f", s_v_sqrt},
    {"v_s_exp_f32", "f:f", s_v_exp},
    {"v_s_log_f32", "f:f", s_v_log},
};
const size_t salu_count = ARRAY_LEN(salu_ops);
