/* Floating-point instructions: rounding, modifiers, division, special values. */
#include "sim_rig.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 40 };

typedef uint32_t (*reference)(const uint32_t *x);

static float f(uint32_t u)
{
    return rig_f(u);
}

static uint32_t u(float x)
{
    return rig_u(x);
}

static bool nan_bits(uint32_t x)
{
    return (x & 0x7fffffff) > 0x7f800000;
}

/* Ties to even, the sign of zero kept, large values untouched: from the bits. */
static uint32_t rndne(const uint32_t *x)
{
    uint32_t a = x[0] & 0x7fffffff, sign = x[0] & 0x80000000;
    int e = (int)(a >> 23) - 127;
    if (e >= 23)
        return nan_bits(x[0]) ? 0x7fc00000 : x[0];
    if (e < -1)
        return sign;
    double v = (double)f(a), n = floor(v), d = v - n;
    if (d > 0.5 || (d == 0.5 && fmod(n, 2) == 1))
        n += 1;
    return sign | u((float)n);
}

static uint32_t add_x2_clamp(const uint32_t *x)
{
    float r = (f(x[0]) + f(x[1])) * 2;
    return !(r > 0) ? 0 : r > 1 ? u(1) : u(r);
}

static uint32_t mul_half_neg(const uint32_t *x)
{
    return u(-fabsf(f(x[0])) * f(x[1]) * 0.5f);
}

static uint32_t to_i32(const uint32_t *x)
{
    float a = f(x[0]);
    if (a != a)
        return 0;
    if (a >= 2147483648.0f)
        return 0x7fffffff;
    return a < -2147483648.0f ? 0x80000000 : (uint32_t)(int32_t)a;
}

static uint32_t to_u32(const uint32_t *x)
{
    float a = f(x[0]);
    if (!(a > 0))
        return 0;
    return a >= 4294967296.0f ? UINT32_MAX : (uint32_t)a;
}

static uint32_t from_u32(const uint32_t *x)
{
    return u((float)x[0]);
}

static uint32_t from_i32(const uint32_t *x)
{
    return u((float)(int32_t)x[0]);
}

static uint32_t floor_ref(const uint32_t *x)
{
    return u(floorf(f(x[0])));
}

static uint32_t trunc_ref(const uint32_t *x)
{
    return u(truncf(f(x[0])));
}

static uint32_t fma_ref(const uint32_t *x)
{
    return u(fmaf(f(x[0]), f(x[1]), f(x[2])));
}

/* Neither NaN: minimum with -0 below +0. */
static uint32_t min_ref(const uint32_t *x)
{
    if (nan_bits(x[0]))
        return nan_bits(x[1]) ? 0x7fc00000 : x[1];
    if (nan_bits(x[1]))
        return x[0];
    if (f(x[0]) == 0 && f(x[1]) == 0)
        return x[0] | x[1];
    return f(x[0]) < f(x[1]) ? x[0] : x[1];
}

static uint32_t max_ref(const uint32_t *x)
{
    if (nan_bits(x[0]))
        return nan_bits(x[1]) ? 0x7fc00000 : x[1];
    if (nan_bits(x[1]))
        return x[0];
    if (f(x[0]) == 0 && f(x[1]) == 0)
        return x[0] & x[1];
    return f(x[0]) > f(x[1]) ? x[0] : x[1];
}

static uint32_t class_ref(const uint32_t *x)
{
    uint32_t a = x[0] & 0x7fffffff, bit;
    bool neg = x[0] >> 31;
    if (nan_bits(a))
        bit = a & 0x400000 ? 1 : 0;
    else if (a == 0x7f800000)
        bit = neg ? 2 : 9;
    else if (a >= 0x800000)
        bit = neg ? 3 : 8;
    else if (a)
        bit = neg ? 4 : 7;
    else
        bit = neg ? 5 : 6;
    return x[1] >> bit & 1;
}

static uint32_t nlt_ref(const uint32_t *x)
{
    return !(f(x[0]) < f(x[1]));
}

static uint32_t lg_ref(const uint32_t *x)
{
    return f(x[0]) < f(x[1]) || f(x[0]) > f(x[1]);
}

static uint32_t ldexp_ref(const uint32_t *x)
{
    int e = (int32_t)x[1] % 300;
    return u(ldexpf(f(x[0]), e));
}

static uint32_t fract_ref(const uint32_t *x)
{
    float a = f(x[0]), r = a - floorf(a);
    return u(r >= 1 ? rig_f(0x3f7fffff) : r);
}

static uint32_t exp_field(const uint32_t *x)
{
    int e = 0;
    float a = f(x[0]);
    if (a != 0 && !nan_bits(x[0]) && !isinf(a))
        frexpf(a, &e);
    return (uint32_t)e;
}

static uint32_t ubyte2(const uint32_t *x)
{
    return u((float)(x[0] >> 16 & 255));
}

typedef struct float_case {
    rig_case c;
    reference want;
    int gens; /* 1: gfx9, 2: gfx11, 4: gfx12 */
} float_case;

#define SELECT "\nv_cndmask_b32 $0, 0, 1, VCC"
static const float_case cases[] = {
    {{"v_rndne_f32 $0, $1", "v1", 1}, rndne, 7},
    {{"v_add_f32 $0, $1, $2 clamp mul:2", "v1v1", 1}, add_x2_clamp, 7},
    {{"v_mul_f32 $0, -|$1|, $2 div:2", "v1v1", 1}, mul_half_neg, 7},
    {{"v_cvt_i32_f32 $0, $1", "v1", 1}, to_i32, 7},
    {{"v_cvt_u32_f32 $0, $1", "v1", 1}, to_u32, 7},
    {{"v_cvt_f32_u32 $0, $1", "v1", 1}, from_u32, 7},
    {{"v_cvt_f32_i32 $0, $1", "v1", 1}, from_i32, 7},
    {{"v_cvt_f32_ubyte2 $0, $1", "v1", 1}, ubyte2, 7},
    {{"v_floor_f32 $0, $1", "v1", 1}, floor_ref, 7},
    {{"v_trunc_f32 $0, $1", "v1", 1}, trunc_ref, 7},
    {{"v_fma_f32 $0, $1, $2, $3", "v1v1v1", 1}, fma_ref, 7},
    {{"v_min_num_f32 $0, $1, $2", "v1v1", 1}, min_ref, 4},
    {{"v_max_num_f32 $0, $1, $2", "v1v1", 1}, max_ref, 4},
    {{"v_cmp_class_f32 VCC, $1, $2" SELECT, "v1v1", 1}, class_ref, 7},
    {{"v_cmp_nlt_f32 VCC, $1, $2" SELECT, "v1v1", 1}, nlt_ref, 7},
    {{"v_cmp_lg_f32 VCC, $1, $2" SELECT, "v1v1", 1}, lg_ref, 7},
    {{"v_fract_f32 $0, $1", "v1", 1}, fract_ref, 7},
    {{"v_frexp_exp_i32_f32 $0, $1", "v1", 1}, exp_field, 7},
};

static bool applies(const float_case *c)
{
    return c->gens & (rig_gen() == 9 ? 1 : rig_gen() == 11 ? 2 : 4);
}

static size_t regs_of(const char *ins)
{
    return strlen(ins) / 2;
}

START_TEST(single_precision)
{
    rig_case list[32];
    const float_case *from[32];
    size_t n = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (applies(&cases[i])) {
            from[n] = &cases[i];
            list[n++] = cases[i].c;
        }
    rig_module *m = rig_build(list, n);
    for (size_t k = 0; k < n; k++) {
        size_t regs = regs_of(list[k].ins);
        for (int round = 0; round < ROUNDS; round++) {
            uint32_t in[3 * RIG_LANES], out[RIG_LANES];
            for (size_t i = 0; i < regs * RIG_LANES; i++)
                in[i] = rig_random_float();
            rig_run(m, k, in, regs, out, 1);
            for (size_t l = 0; l < RIG_LANES; l++) {
                uint32_t x[3] = {0};
                for (size_t r = 0; r < regs; r++)
                    x[r] = in[r * RIG_LANES + l];
                uint32_t want = from[k]->want(x);
                ck_assert_msg(rig_same_float(out[l], want), "%s: %08x %08x: %08x, expected %08x",
                              list[k].text, x[0], x[1], out[l], want);
            }
        }
    }
    rig_free(m);
}
END_TEST

/* Before gfx12 a signalling NaN comes out quieted in IEEE mode, which compute kernels have. */
START_TEST(min_max_ieee)
{
    static const rig_case c[] = {{"v_min_f32 $0, $1, $2", "v1v1", 1},
                                 {"v_max_f32 $0, $1, $2", "v1v1", 1}};
    if (rig_gen() == 12)
        return;
    rig_module *m = rig_build(c, 2);
    for (int round = 0; round < ROUNDS; round++)
        for (size_t k = 0; k < 2; k++) {
            uint32_t in[2 * RIG_LANES], out[RIG_LANES];
            for (int i = 0; i < 2 * RIG_LANES; i++)
                in[i] = rig_random_float();
            rig_run(m, k, in, 2, out, 1);
            for (int l = 0; l < RIG_LANES; l++) {
                uint32_t x[2] = {in[l], in[64 + l]};
                bool snan = (nan_bits(x[0]) && !(x[0] & 0x400000)) ||
                            (nan_bits(x[1]) && !(x[1] & 0x400000));
                uint32_t want = snan ? 0x7fc00000 : k ? max_ref(x) : min_ref(x);
                ck_assert_msg(rig_same_float(out[l], want), "%zu: %08x %08x: %08x, expected %08x",
                              k, x[0], x[1], out[l], want);
            }
        }
    rig_free(m);
}
END_TEST

/* The compiler's own expansion: scale, reciprocal, refinement, fmas, fixup. */
static const char *const division_ir =
    "define amdgpu_kernel void @case0(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {\n"
    "  %i = call i32 @llvm.amdgcn.workitem.id.x()\n"
    "  %j = add i32 %i, 64\n"
    "  %p = getelementptr float, ptr addrspace(1) %in, i32 %i\n"
    "  %q = getelementptr float, ptr addrspace(1) %in, i32 %j\n"
    "  %r = getelementptr float, ptr addrspace(1) %out, i32 %i\n"
    "  %a = load float, ptr addrspace(1) %p\n"
    "  %b = load float, ptr addrspace(1) %q\n"
    "  %d = fdiv float %a, %b\n"
    "  store float %d, ptr addrspace(1) %r\n"
    "  ret void\n}\n"
    "define amdgpu_kernel void @case1(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {\n"
    "  %i = call i32 @llvm.amdgcn.workitem.id.x()\n"
    "  %j = add i32 %i, 64\n"
    "  %p = getelementptr float, ptr addrspace(1) %in, i32 %i\n"
    "  %q = getelementptr float, ptr addrspace(1) %in, i32 %j\n"
    "  %r = getelementptr float, ptr addrspace(1) %out, i32 %i\n"
    "  %a = load float, ptr addrspace(1) %p\n"
    "  %b = load float, ptr addrspace(1) %q\n"
    "  %x = fpext float %a to double\n"
    "  %y = fpext float %b to double\n"
    "  %d = fdiv double %x, %y\n"
    "  %z = fptrunc double %d to float\n"
    "  store float %z, ptr addrspace(1) %r\n"
    "  ret void\n}\n"
    "declare i32 @llvm.amdgcn.workitem.id.x()\n"
    "attributes #0 = { \"denormal-fp-math-f32\"=\"ieee,ieee\" "
    "\"amdgpu-flat-work-group-size\"=\"64,64\" }\n"
    "!llvm.module.flags = !{!0}\n"
    "!0 = !{i32 1, !\"amdhsa_code_object_version\", i32 500}\n";

/* Operands whose quotient, reciprocal or selves are denormal, and all the rest. */
static uint32_t division_operand(void)
{
    uint32_t r = rig_random();
    switch (r % 4) {
    case 0:
        return rig_random_float();
    case 1:
        return rig_random() & 0x80ffffff;
    case 2:
        return 0x7e000000 | (rig_random() & 0x817fffff);
    default:
        return rig_random();
    }
}

START_TEST(division)
{
    rig_module *m = rig_build_ir(division_ir);
    for (int round = 0; round < 400; round++) {
        uint32_t in[2 * RIG_LANES], out[RIG_LANES];
        for (int i = 0; i < 2 * RIG_LANES; i++)
            in[i] = division_operand();
        size_t k = (size_t)round & 1;
        rig_run(m, k, in, 2, out, 1);
        for (int l = 0; l < RIG_LANES; l++) {
            float a = f(in[l]), b = f(in[64 + l]);
            uint32_t want = u(k ? (float)((double)a / (double)b) : a / b);
            ck_assert_msg(rig_same_float(out[l], want), "%zu: %08x / %08x: %08x, expected %08x", k,
                          in[l], in[64 + l], out[l], want);
        }
    }
    rig_free(m);
}
END_TEST

/* binary16 by its definition, independent of the processor's conversions. */
static double half_value(uint32_t h)
{
    int e = (int)(h >> 10 & 31);
    double man = (double)(h & 0x3ff), v;
    if (e == 31)
        v = man != 0 ? NAN : INFINITY;
    else
        v = e ? ldexp(1024 + man, e - 25) : ldexp(man, -24);
    return h & 0x8000 ? -v : v;
}

static uint32_t half_bits(double v)
{
    uint32_t sign = signbit(v) ? 0x8000 : 0, best = 0;
    double a = fabs(v);
    if (v != v)
        return 0x7e00;
    if (a >= 65520)
        return sign | 0x7c00;
    /* The largest half not above a, then the nearer neighbour, ties to the even code. */
    for (uint32_t bit = 0x4000; bit; bit >>= 1)
        if ((best | bit) < 0x7c00 && half_value(best | bit) <= a)
            best |= bit;
    double lo = half_value(best), hi = best == 0x7bff ? 65536 : half_value(best + 1);
    if (a - lo > hi - a || (a - lo == hi - a && (best & 1)))
        best++;
    return sign | best;
}

static bool same_half(uint32_t a, uint32_t b)
{
    return a == b || ((a & 0x7fff) > 0x7c00 && (b & 0x7fff) > 0x7c00);
}

START_TEST(half_conversions)
{
    static const rig_case c[] = {{"v_cvt_f32_f16 $0, $1", "v1", 1},
                                 {"v_cvt_f16_f32 $0, $1\nv_and_b32 $0, 0xffff, $0", "v1", 1},
                                 {"v_rndne_f16 $0, $1\nv_and_b32 $0, 0xffff, $0", "v1", 1}};
    rig_module *m = rig_build(c, 3);
    uint32_t in[RIG_LANES], out[RIG_LANES];
    for (uint32_t base = 0; base < 65536; base += RIG_LANES) {
        for (uint32_t l = 0; l < RIG_LANES; l++)
            in[l] = base + l;
        rig_run(m, 0, in, 1, out, 1);
        for (int l = 0; l < RIG_LANES; l++)
            ck_assert(rig_same_float(out[l], u((float)half_value(in[l]))));
        if (base % 256)
            continue;
        rig_run(m, 2, in, 1, out, 1);
        for (int l = 0; l < RIG_LANES; l++) {
            double v = half_value(in[l]), r = nearbyint(v);
            ck_assert(same_half(out[l], half_bits(copysign(r, v))));
        }
    }
    for (int round = 0; round < 200; round++) {
        for (int l = 0; l < RIG_LANES; l++) {
            uint32_t h = rig_random() & 0xffff;
            /* Random values, and the ties between halves with their neighbours. */
            float tie = (float)((half_value(h & 0x7bff) + half_value((h & 0x7bff) + 1)) / 2);
            in[l] = round & 1 ? rig_random_float() : u(tie) + (rig_random() % 3) - 1;
        }
        rig_run(m, 1, in, 1, out, 1);
        for (int l = 0; l < RIG_LANES; l++)
            ck_assert_msg(same_half(out[l], half_bits((double)f(in[l]))), "%08x: %04x, want %04x",
                          in[l], out[l], half_bits((double)f(in[l])));
    }
    rig_free(m);
}
END_TEST

START_TEST(packed_half)
{
    static const rig_case c[] = {
        {"v_pk_fma_f16 $0, $1, $2, $3 op_sel:[0,1,0] op_sel_hi:[1,0,1] neg_lo:[1,0,0] "
         "neg_hi:[0,0,1]",
         "v1v1v1", 1},
        {"v_pk_mul_f16 $0, $1, 2.0 op_sel_hi:[1,0]", "v1", 1},
        {"v_fma_mix_f32 $0, $1, $2, -$3 op_sel:[1,0,0] op_sel_hi:[1,0,1]", "v1v1v1", 1},
        {"v_mad_mix_f32 $0, $1, $2, -$3 op_sel:[1,0,0] op_sel_hi:[1,0,1]", "v1v1v1", 1},
    };
    bool mad = rig_is("gfx900");
    rig_module *m = rig_build(c, mad ? 4 : 3);
    uint32_t in[3 * RIG_LANES], out[RIG_LANES];
    for (int round = 0; round < ROUNDS; round++)
        for (size_t k = 0; k < 3; k++) {
            for (int i = 0; i < 3 * RIG_LANES; i++)
                in[i] = k == 2 && i / RIG_LANES == 1 ? rig_random_float() : rig_random();
            rig_run(m, k, in, k == 1 ? 1 : 3, out, 1);
            for (int l = 0; l < RIG_LANES; l++) {
                uint32_t a = in[l], b = in[64 + l], d = in[128 + l];
                double al = half_value(a & 0xffff), ah = half_value(a >> 16);
                double bl = half_value(b & 0xffff), bh = half_value(b >> 16);
                double dl = half_value(d & 0xffff), dh = half_value(d >> 16);
                if (k == 0) {
                    ck_assert(same_half(out[l] & 0xffff, half_bits(-al * bh + dl)));
                    ck_assert(same_half(out[l] >> 16, half_bits(ah * bl - dh)));
                } else if (k == 1) {
                    ck_assert(same_half(out[l] & 0xffff, half_bits(al * 2)));
                    ck_assert(same_half(out[l] >> 16, half_bits(ah * 2)));
                } else {
                    float want = fmaf((float)ah, f(b), -(float)dl);
                    ck_assert(rig_same_float(out[l], u(want)));
                }
            }
        }
    rig_free(m);
}
END_TEST

/* Pairs of singles: op_sel picks a half for each result, constants stand in both. */
START_TEST(packed_single)
{
    static const rig_case c[] = {
        {"v_pk_fma_f32 $0, $1, $2, $3 op_sel:[1,0,0] op_sel_hi:[0,1,1] neg_lo:[1,0,0] "
         "neg_hi:[0,0,1]",
         "v2v2v2", 2},
        {"v_pk_mul_f32 $0, $1, 2.0 op_sel_hi:[1,0]", "v2", 2},
        {"v_pk_add_f32 $0, $1, $2", "v2s2", 2},
        {"v_pk_mov_b32 $0, $1, $2 op_sel:[1,0]", "v2v2", 2},
    };
    if (rig_gen() != 9)
        return;
    rig_module *m = rig_build(c, 4);
    uint32_t in[6 * RIG_LANES], out[2 * RIG_LANES];
    for (int round = 0; round < ROUNDS; round++)
        for (size_t k = 0; k < 4; k++) {
            for (int i = 0; i < 6 * RIG_LANES; i++)
                in[i] = rig_random_float();
            rig_run(m, k, in, k == 0 ? 6 : k == 1 ? 2 : 4, out, 2);
            for (int l = 0; l < RIG_LANES; l++) {
                uint32_t x[6];
                for (int r = 0; r < 6; r++)
                    x[r] = in[r * RIG_LANES + l];
                uint32_t want[4][2] = {
                    {u(fmaf(-f(x[1]), f(x[2]), f(x[4]))), u(fmaf(f(x[0]), f(x[3]), -f(x[5])))},
                    {u(f(x[0]) * 2), u(f(x[1]) * 2)},
                    {u(f(x[0]) + f(in[2 * 64])), u(f(x[1]) + f(in[3 * 64]))},
                    {x[1], x[2]},
                };
                ck_assert(rig_same_float(out[l], want[k][0]));
                ck_assert_msg(rig_same_float(out[64 + l], want[k][1]), "case %zu", k);
            }
        }
    rig_free(m);
}
END_TEST

/* Denormals: kept, flushed on both sides; and a rounding mode. */
START_TEST(modes)
{
    static const rig_case c[] = {
        {"s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\nv_mul_f32 $0, $1, $2\n"
         "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 3",
         "v1v1", 1},
        {"v_mul_f32 $0, $1, $2", "v1v1", 1},
        {"s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1\nv_add_f32 $0, $1, $2\n"
         "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 0",
         "v1v1", 1},
    };
    rig_module *m = rig_build(c, 3);
    uint32_t in[2 * RIG_LANES], out[RIG_LANES];
    for (int l = 0; l < RIG_LANES; l++) {
        in[l] = l & 1 ? 0x80000100u + (uint32_t)l : 0x00800000;
        in[64 + l] = l & 2 ? 0x3f800000 : 0x3f000000;
    }
    rig_run(m, 0, in, 2, out, 1);
    for (int l = 0; l < RIG_LANES; l++)
        ck_assert_uint_eq(out[l], l & 1 ? 0x80000000 : l & 2 ? 0x00800000 : 0);
    rig_run(m, 1, in, 2, out, 1);
    for (int l = 0; l < RIG_LANES; l++)
        ck_assert_uint_eq(out[l], u(f(in[l]) * f(in[64 + l])));
    for (int l = 0; l < RIG_LANES; l++) {
        in[l] = 0x3f800000;
        in[64 + l] = l & 1 ? 0x2f800000 : 0xaf800000;
    }
    rig_run(m, 2, in, 2, out, 1);
    for (int l = 0; l < RIG_LANES; l++)
        ck_assert_uint_eq(out[l], l & 1 ? 0x3f800001 : 0x3f800000);
    rig_free(m);
}
END_TEST

START_TEST(ldexp_and_med3)
{
    static const rig_case c[] = {{"v_ldexp_f32 $0, $1, $2", "v1v1", 1},
                                 {"v_med3_f32 $0, $1, $2, $3", "v1v1v1", 1}};
    static const rig_case c12[] = {{"v_ldexp_f32 $0, $1, $2", "v1v1", 1},
                                   {"v_med3_num_f32 $0, $1, $2, $3", "v1v1v1", 1}};
    rig_module *m = rig_build(rig_gen() == 12 ? c12 : c, 2);
    uint32_t in[3 * RIG_LANES], out[RIG_LANES];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < RIG_LANES; i++) {
            in[i] = rig_random_float();
            in[64 + i] = (uint32_t)((int32_t)rig_random() % 300);
        }
        rig_run(m, 0, in, 2, out, 1);
        for (int l = 0; l < RIG_LANES; l++) {
            uint32_t x[2] = {in[l], in[64 + l]};
            ck_assert(rig_same_float(out[l], ldexp_ref(x)));
        }
        for (int i = 0; i < 3 * RIG_LANES; i++)
            do
                in[i] = rig_random_float();
            while (nan_bits(in[i]) || f(in[i]) == 0);
        rig_run(m, 1, in, 3, out, 1);
        for (int l = 0; l < RIG_LANES; l++) {
            float a = f(in[l]), b = f(in[64 + l]), d = f(in[128 + l]);
            float lo = a < b ? a : b, hi = a < b ? b : a;
            ck_assert_uint_eq(out[l], u(d < lo ? lo : d > hi ? hi : d));
        }
    }
    rig_free(m);
}
END_TEST

static void fill(TCase *tc)
{
    tcase_add_test(tc, single_precision);
    tcase_add_test(tc, min_max_ieee);
    tcase_add_test(tc, division);
    tcase_add_test(tc, half_conversions);
    tcase_add_test(tc, packed_half);
    tcase_add_test(tc, packed_single);
    tcase_add_test(tc, modes);
    tcase_add_test(tc, ldexp_and_med3);
}

int main(void)
{
    return rig_main("sim_float", fill);
}
