/* Double-precision instructions. */
#include "sim_lane.h"

#define DA u2d(Q(0))
#define DB u2d(Q(1))
#define DC u2d(Q(2))

VD(add_f64, DA + DB)
VD(mul_f64, DA *DB)
VD(fma_f64, fma(DA, DB, DC))

VFN(fmac_f64)
{
    const uint32_t *o = OLD(c);
    EACH(c)
    {
        double acc = u2d((uint64_t)o[i] | (uint64_t)o[LANES + i] << 32);
        put64(d, i, d2u(fma(DA, DB, acc)));
    }
}

static inline double min_d(double a, double b)
{
    if (a == b)
        return u2d(d2u(a) | d2u(b));
    return a < b || b != b ? a : b;
}

static inline double max_d(double a, double b)
{
    if (a == b)
        return u2d(d2u(a) & d2u(b));
    return a > b || b != b ? a : b;
}
static inline double minimum_d(double a, double b)
{
    return a != a ? a : b != b ? b : min_d(a, b);
}

static inline double maximum_d(double a, double b)
{
    return a != a ? a : b != b ? b : max_d(a, b);
}
VD(minimum_f64, minimum_d(DA, DB))
VD(maximum_f64, maximum_d(DA, DB))
VD(min_f64, min_d(DA, DB))
VD(max_f64, max_d(DA, DB))
VD(floor_f64, floor(DA))
VD(ceil_f64, ceil(DA))
VD(trunc_f64, trunc(DA))
VD(rndne_f64, nearbyint(DA))
VD(rcp_f64, 1.0 / DA)
VD(rsq_f64, 1.0 / sqrt(DA))
VD(sqrt_f64, sqrt(DA))
VD(ldexp_f64, ldexp(DA, (int)B<-4000 ? -4000 : (int)B> 4000 ? 4000 : (int)B))

static inline double fract_d(double x)
{
    double r = x - floor(x);
    return r >= 1.0 ? u2d(UINT64_C(0x3fefffffffffffff)) : r;
}
VD(fract_f64, fract_d(DA))

static inline int exp_d(double x)
{
    int e = 0;
    if (x != 0 && fabs(x) < INFINITY)
        frexp(x, &e);
    return e;
}

static inline double mant_d(double x)
{
    int e;
    return fabs(x) < INFINITY ? frexp(x, &e) : x;
}
VEXPR(frexp_exp_i32_f64, exp_d(DA))
VD(frexp_mant_f64, mant_d(DA))

static inline int expo(double x)
{
    return (int)(d2u(x) >> 52 & 0x7ff);
}

static inline double div_scale_d(double s0, double den, double num, uint32_t *vcc)
{
    *vcc = 0;
    if (num == 0 || den == 0)
        return NAN;
    bool is_den = d2u(s0) == d2u(den);
    if (expo(num) - expo(den) >= 768) {
        *vcc = ~0u;
        return is_den ? ldexp(s0, 128) : s0;
    }
    if (expo(den) == 0)
        return ldexp(s0, 128);
    bool rcp_denorm = expo(1.0 / den) == 0, q_denorm = expo(num / den) == 0;
    if (rcp_denorm && q_denorm) {
        *vcc = ~0u;
        return is_den ? ldexp(s0, -128) : s0;
    }
    if (rcp_denorm)
        return ldexp(s0, -128);
    if (q_denorm) {
        *vcc = ~0u;
        return d2u(s0) == d2u(num) ? ldexp(s0, 128) : s0;
    }
    return expo(num) <= 53 ? ldexp(s0, 128) : s0;
}

VFN(div_scale_f64)
{
    EACH(c)
    {
        uint32_t v;
        put64(d, i, d2u(div_scale_d(DA, DB, DC, &v)));
        d[2 * LANES + i] = v;
    }
}

VFN(div_fmas_f64)
{
    uint64_t vcc = wave_mask64(c->w, S_VCC);
    EACH(c)
    {
        double r = fma(DA, DB, DC);
        put64(d, i, d2u(vcc >> i & 1 ? ldexp(r, expo(DC) > 1023 ? 128 : -128) : r));
    }
}

static inline uint64_t div_fixup_d(uint64_t q, uint64_t den, uint64_t num)
{
    uint64_t sign = (den ^ num) & UINT64_C(0x8000000000000000);
    const uint64_t inf = UINT64_C(0x7ff0000000000000);
    double fd = u2d(den), fn = u2d(num);
    if (fn != fn)
        return num | UINT64_C(0x0008000000000000);
    if (fd != fd)
        return den | UINT64_C(0x0008000000000000);
    if ((fd == 0 && fn == 0) || (isinf(fd) && isinf(fn)))
        return UINT64_C(0xfff8000000000000);
    if (fd == 0 || isinf(fn))
        return sign | inf;
    if (isinf(fd) || fn == 0)
        return sign;
    if (expo(fn) - expo(fd) < -1075)
        return sign;
    return u2d(q) != u2d(q) ? sign | inf : (q & ~UINT64_C(0x8000000000000000)) | sign;
}
VQ(div_fixup_f64, div_fixup_d(Q(0), Q(1), Q(2)))

const valu_op valu_double_ops[] = {
    {"v_add_f64", "d:dd", add_f64, 0},
    {"v_mul_f64", "d:dd", mul_f64, 0},
    {"v_fma_f64", "d:ddd", fma_f64, 0},
    {"v_fmac_f64", "d:dd", fmac_f64, 0},
    {"v_min_f64", "d:dd", min_f64, 0},
    {"v_max_f64", "d:dd", max_f64, 0},
    {"v_min_num_f64", "d:dd", min_f64, 0},
    {"v_max_num_f64", "d:dd", max_f64, 0},
    {"v_minimum_f64", "d:dd", minimum_f64, 0},
    {"v_maximum_f64", "d:dd", maximum_f64, 0},
    {"v_floor_f64", "d:d", floor_f64, 0},
    {"v_ceil_f64", "d:d", ceil_f64, 0},
    {"v_trunc_f64", "d:d", trunc_f64, 0},
    {"v_rndne_f64", "d:d", rndne_f64, 0},
    {"v_rcp_f64", "d:d", rcp_f64, 0},
    {"v_rsq_f64", "d:d", rsq_f64, 0},
    {"v_sqrt_f64", "d:d", sqrt_f64, 0},
    {"v_fract_f64", "d:d", fract_f64, 0},
    {"v_ldexp_f64", "d:di", ldexp_f64, 0},
    {"v_frexp_exp_i32_f64", "i:d", frexp_exp_i32_f64, 0},
    {"v_frexp_mant_f64", "d:d", frexp_mant_f64, 0},
    {"v_div_scale_f64", "dM:ddd", div_scale_f64, 0},
    {"v_div_fmas_f64", "d:ddd", div_fmas_f64, 0},
    {"v_div_fixup_f64", "d:ddd", div_fixup_f64, 0},
};
const size_t valu_double_count = ARRAY_LEN(valu_double_ops);
