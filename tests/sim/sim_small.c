/* The 8-, 6- and 4-bit float formats. */
#include "sim.h"
#include "sim_bits.h"

typedef struct small_info {
    int exp_bits, man_bits, bias;
    bool inf;      /* the top exponent holds infinity and NaN (E5M2) */
    bool nan_ones; /* only all ones is NaN (E4M3) */
    bool fnuz;     /* no -0; its code is the only NaN */
} small_info;

static const small_info infos[] = {
    [FMT_E4M3] = {4, 3, 7, false, true, false},
    [FMT_E5M2] = {5, 2, 15, true, false, false},
    [FMT_E4M3_FNUZ] = {4, 3, 8, false, false, true},
    [FMT_E5M2_FNUZ] = {5, 2, 16, false, false, true},
    [FMT_E2M3] = {2, 3, 1, false, false, false},
    [FMT_E3M2] = {3, 2, 3, false, false, false},
    [FMT_E2M1] = {2, 1, 1, false, false, false},
};

int small_bits(int fmt)
{
    return 1 + infos[fmt].exp_bits + infos[fmt].man_bits;
}

float small_to_float(uint32_t bits, int fmt)
{
    const small_info *f = &infos[fmt];
    uint32_t man = bits & ((1u << f->man_bits) - 1);
    uint32_t exp = bits >> f->man_bits & ((1u << f->exp_bits) - 1);
    uint32_t top = (1u << f->exp_bits) - 1;
    bool neg = bits >> (f->man_bits + f->exp_bits) & 1;
    if (f->fnuz && neg && !exp && !man)
        return NAN;
    if (f->nan_ones && exp == top && man == (1u << f->man_bits) - 1)
        return neg ? -NAN : NAN;
    if (f->inf && exp == top)
        return man ? NAN : neg ? -INFINITY : INFINITY;
    float v = exp ? ldexpf((float)(man | 1u << f->man_bits), (int)exp - f->bias - f->man_bits)
                  : ldexpf((float)man, 1 - f->bias - f->man_bits);
    return neg ? -v : v;
}

static uint32_t max_code(const small_info *f)
{
    uint32_t all = (1u << (f->exp_bits + f->man_bits)) - 1;
    if (f->inf)
        return all - (1u << f->man_bits);
    return f->nan_ones ? all - 1 : all;
}

static uint32_t nan_code(const small_info *f, uint32_t sign)
{
    uint32_t all = (1u << (f->exp_bits + f->man_bits)) - 1;
    if (f->fnuz)
        return 1u << (f->exp_bits + f->man_bits);
    if (f->inf || f->nan_ones)
        return sign | all;
    return sign | all; /* formats without NaN: the largest value */
}

/* Rounds |f| to a code without sign; overflow gives a code above the largest. `add`: added below
 * the kept bits as a fraction of 2^32, or -1 for nearest even. */
static uint32_t round_code(float x, const small_info *f, int64_t add)
{
    int e;
    double m = frexp((double)x, &e); /* x = m 2^e, m in [0.5, 1) */
    int exp = e - 1 + f->bias;       /* biased exponent were it normal */
    if (exp < 1)
        exp = 1;
    /* Units of the last place at this exponent. */
    double units = ldexp(m, e - (exp - f->bias) + f->man_bits);
    double whole = floor(units), frac = units - whole;
    uint32_t n = (uint32_t)whole;
    if (add < 0)
        n += frac > 0.5 || (frac == 0.5 && (n & 1));
    else
        n += floor(ldexp(frac, 32)) + (double)add >= 4294967296.0;
    uint32_t one = 1u << f->man_bits;
    if (n < one)
        return n;
    return ((uint32_t)exp << f->man_bits) + (n - one);
}

static uint32_t encode(float x, int fmt, int sat, int64_t add)
{
    const small_info *f = &infos[fmt];
    int bits = f->exp_bits + f->man_bits;
    uint32_t sign = f2u(x) >> 31 << bits;
    float a = fabsf(x);
    bool has_nan = f->inf || f->nan_ones || f->fnuz;
    if (a != a)
        return nan_code(f, sign);
    uint32_t over = f->inf ? sign | ((1u << f->exp_bits) - 1) << f->man_bits : nan_code(f, sign);
    if (a == INFINITY)
        return sat || !has_nan ? sign | max_code(f) : over;
    if (a == 0)
        return f->fnuz ? 0 : sign;
    uint32_t code = a >= 1e30f ? 1u << 30 : round_code(a, f, add);
    if (code > max_code(f))
        return sat || !has_nan ? sign | max_code(f) : over;
    if (!code && f->fnuz)
        return 0;
    return sign | code;
}

uint32_t small_from_float(float x, int fmt, int sat)
{
    return encode(x, fmt, sat, -1);
}

uint32_t small_from_float_sr(float x, int fmt, int sat, uint32_t random)
{
    return encode(x, fmt, sat, random);
}
