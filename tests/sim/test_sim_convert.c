/* Small float formats: every code decoded, encodings against a search, scaled conversions. */
#include "sim_rig.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct format {
    int exp_bits, man_bits, bias;
    int kind; /* 0: no NaN; 1: IEEE-like (E5M2); 2: all ones is NaN (E4M3); 3: FNUZ */
} format;

static const format e4m3 = {4, 3, 7, 2}, e5m2 = {5, 2, 15, 1}, e4m3_fnuz = {4, 3, 8, 3},
                    e5m2_fnuz = {5, 2, 16, 3}, e2m3 = {2, 3, 1, 0}, e3m2 = {3, 2, 3, 0},
                    e2m1 = {2, 1, 1, 0};

static double value(const format *f, uint32_t code)
{
    int n = f->exp_bits + f->man_bits;
    uint32_t man = code & ((1u << f->man_bits) - 1), mag = code & ((1u << n) - 1);
    int e = (int)(mag >> f->man_bits);
    double sign = code >> n & 1 ? -1 : 1;
    if (f->kind == 3 && code == 1u << n)
        return NAN;
    if (f->kind == 2 && mag == (1u << n) - 1)
        return NAN;
    if (f->kind == 1 && e == (1 << f->exp_bits) - 1)
        return man ? NAN : sign * INFINITY;
    double m = (double)man / (1 << f->man_bits);
    return sign * (e ? ldexp(1 + m, e - f->bias) : ldexp(m, 1 - f->bias));
}

/* Nearest finite code, ties to even; past the largest by half a step: overflow. */
static uint32_t encode(const format *f, double x, bool saturate)
{
    int n = f->exp_bits + f->man_bits;
    uint32_t sign = signbit(x) ? 1u << n : 0, best = 0, top = (1u << n) - 1;
    while (!isfinite(value(f, top)))
        top--;
    double a = fabs(x), max = value(f, top), step = max - value(f, top - 1);
    uint32_t nan = f->kind == 3 ? 1u << n : sign | ((1u << n) - 1);
    if (x != x)
        return nan;
    bool over = a >= max + step / 2;
    /* At exactly half a step the tie goes to the even code, which is the one above if top is odd.
     */
    if (a == max + step / 2 && !(top & 1))
        over = false;
    if (over && !saturate && f->kind)
        return f->kind == 1 ? sign | ((1u << f->exp_bits) - 1) << f->man_bits : nan;
    if (a >= max)
        return sign | top;
    for (uint32_t c = 0; c <= top; c++) {
        double d = fabs(value(f, c) - a), b = fabs(value(f, best) - a);
        if (d < b || (d == b && !(c & 1)))
            best = c;
    }
    return f->kind == 3 && !best ? 0 : sign | best;
}

static const format *fp8(void)
{
    return rig_is("gfx942") ? &e4m3_fnuz : &e4m3;
}

static const format *bf8(void)
{
    return rig_is("gfx942") ? &e5m2_fnuz : &e5m2;
}

static bool has_fp8(void)
{
    return rig_is("gfx942") || rig_is("gfx950") || rig_is("gfx1201");
}

START_TEST(decode_all)
{
    static const rig_case c9[] = {
        {"v_cvt_f32_fp8 $0, $1", "v1", 1},
        {"v_cvt_f32_bf8 $0, $1", "v1", 1},
        {"v_cvt_f32_fp8_sdwa $0, $1 src0_sel:BYTE_2", "v1", 1},
        {"v_cvt_pk_f32_bf8_sdwa $0, $1 src0_sel:WORD_1", "v1", 2},
    };
    static const rig_case c12[] = {
        {"v_cvt_f32_fp8 $0, $1", "v1", 1},
        {"v_cvt_f32_bf8 $0, $1", "v1", 1},
        {"v_cvt_f32_fp8 $0, $1 byte_sel:2", "v1", 1},
        {"v_cvt_pk_f32_bf8 $0, $1 op_sel:[1,0]", "v1", 2},
    };
    if (!has_fp8())
        return;
    rig_module *m = rig_build(rig_gen() == 9 ? c9 : c12, 4);
    for (uint32_t base = 0; base < 256; base += RIG_LANES) {
        uint32_t in[RIG_LANES], out[2 * RIG_LANES];
        for (uint32_t l = 0; l < RIG_LANES; l++)
            in[l] = (base + l) | (255 - base - l) << 8 | (base + l) << 16 | (base ^ l) << 24;
        for (size_t k = 0; k < 4; k++) {
            rig_run(m, k, in, 1, out, k == 3 ? 2 : 1);
            for (int l = 0; l < RIG_LANES; l++) {
                const format *f = k & 1 ? bf8() : fp8();
                uint32_t code = k < 2 ? in[l] & 255 : in[l] >> 16 & 255;
                ck_assert_msg(rig_same_float(out[l], rig_u((float)value(f, code))),
                              "case %zu code %02x: %08x", k, code, out[l]);
                if (k == 3)
                    ck_assert(rig_same_float(out[64 + l], rig_u((float)value(f, in[l] >> 24))));
            }
        }
    }
    rig_free(m);
}
END_TEST

/* Values of every size, and the ties of the format. */
static uint32_t encode_input(const format *f)
{
    uint32_t r = rig_random(), n = 1u << (f->exp_bits + f->man_bits);
    double a = value(f, (r >> 4) % n), b = value(f, ((r >> 4) + 1) % n);
    if ((r & 3) == 0)
        return rig_random_float();
    if ((r & 3) == 1 && isfinite(a) && isfinite(b))
        return rig_u((float)((a + b) / 2)) ^ (r & 8 ? 0x80000000 : 0);
    return (rig_random() & 0x80ffffff) | (100 + (r >> 8) % 48) << 23;
}

START_TEST(encode_pairs)
{
    static const rig_case c[] = {
        {"v_cvt_pk_fp8_f32 $0, $2, -$3", "+1v1v1", 1},
        {"v_cvt_pk_bf8_f32 $0, $2, $3 op_sel:[0,0,1]", "+1v1v1", 1},
    };
    if (!has_fp8())
        return;
    rig_module *m = rig_build(c, 2);
    for (int round = 0; round < 60; round++)
        for (size_t k = 0; k < 2; k++) {
            const format *f = k ? bf8() : fp8();
            uint32_t in[3 * RIG_LANES], out[RIG_LANES];
            for (int i = 0; i < 3 * RIG_LANES; i++)
                in[i] = encode_input(f);
            rig_run(m, k, in, 3, out, 1);
            for (int l = 0; l < RIG_LANES; l++) {
                double x = (double)rig_f(in[64 + l]), y = (double)rig_f(in[128 + l]);
                uint32_t a = encode(f, x, false), b = encode(f, k ? y : -y, false);
                uint32_t want =
                    k ? (in[l] & 0xffff) | a << 16 | b << 24 : (in[l] & 0xffff0000) | a | b << 8;
                /* A NaN's sign is not specified. */
                uint32_t mask = f->kind == 3 ? ~0u
                                             : ~((x != x ? 0x80u : 0) | (y != y ? 0x8000u : 0))
                                                   << (k ? 16 : 0);
                if (k && f->kind != 3)
                    mask |= 0xffff;
                ck_assert_msg(((out[l] ^ want) & mask) == 0, "case %zu %08x %08x: %08x, want %08x",
                              k, in[64 + l], in[128 + l], out[l], want);
            }
        }
    rig_free(m);
}
END_TEST

/* Stochastic rounding lies between the neighbours, and reaches both. */
START_TEST(stochastic)
{
    static const rig_case c[] = {{"v_cvt_sr_fp8_f32 $0, $2, $3 op_sel:[0,0,1,0]", "+1v1v1", 1}};
    static const rig_case c12[] = {{"v_cvt_sr_fp8_f32 $0, $2, $3 byte_sel:1", "+1v1v1", 1}};
    if (!has_fp8())
        return;
    rig_module *m = rig_build(rig_gen() == 12 ? c12 : c, 1);
    uint32_t in[3 * RIG_LANES], out[RIG_LANES];
    int up = 0;
    for (int l = 0; l < RIG_LANES; l++) {
        in[l] = 0x11223344;
        in[64 + l] = rig_u(1.03125f); /* a quarter of the way from 1 to 1.125 */
        in[128 + l] = rig_random();
    }
    rig_run(m, 0, in, 3, out, 1);
    for (int l = 0; l < RIG_LANES; l++) {
        double v = value(fp8(), out[l] >> 8 & 255);
        ck_assert_uint_eq(out[l] & 0xffff00ff, 0x11220044);
        ck_assert(v == 1.0 || v == 1.125);
        up += v > 1;
    }
    ck_assert_int_gt(up, 4);
    ck_assert_int_lt(up, 32);
    rig_free(m);
}
END_TEST

/* gfx950: from four formats to fp32 by a power of two, and back. */
START_TEST(scaled_conversions)
{
    static const rig_case c[] = {
        {"v_cvt_scalef32_pk_f32_fp4 $0, $1, $2 op_sel:[1,0,0]", "v1v1", 2},
        {"v_cvt_scalef32_pk_f32_fp8 $0, $1, $2 op_sel:[1,0,0]", "v1v1", 2},
        {"v_cvt_scalef32_f32_bf8 $0, $1, $2 op_sel:[1,1,0]", "v1v1", 1},
        {"v_cvt_scalef32_pk_fp4_f32 $0, $2, $3, $4 op_sel:[0,0,0,1]", "+1v1v1v1", 1},
        {"v_cvt_scalef32_pk_fp8_f32 $0, $2, $3, $4 op_sel:[0,0,0,1]", "+1v1v1v1", 1},
        {"v_cvt_scalef32_pk_bf16_fp4 $0, $1, $2 op_sel:[0,1,0]", "v1v1", 1},
    };
    if (!rig_is("gfx950"))
        return;
    rig_module *m = rig_build(c, 6);
    for (int round = 0; round < 40; round++) {
        uint32_t in[4 * RIG_LANES], out[2 * RIG_LANES];
        for (int l = 0; l < RIG_LANES; l++) {
            in[l] = rig_random();
            in[64 + l] = (120 + rig_random() % 16) << 23 | (rig_random() & 0x7fffff);
        }
        for (size_t k = 0; k < 6; k++) {
            if (k == 3 || k == 4)
                continue;
            rig_run(m, k, in, 2, out, k < 2 ? 2 : 1);
            for (int l = 0; l < RIG_LANES; l++) {
                int e = (int)(in[64 + l] >> 23) - 127;
                const format *f = k == 1 ? &e4m3 : k == 2 ? &e5m2 : &e2m1;
                uint32_t code = k == 0 ? in[l] >> 8 & 15 : k == 1 ? in[l] >> 16 & 255 : in[l] >> 24;
                if (k == 5) {
                    float lo = (float)ldexp(value(f, in[l] >> 16 & 15), e);
                    ck_assert_uint_eq(out[l] & 0xffff, rig_u(lo) >> 16);
                    continue;
                }
                float want = (float)ldexp(value(f, code), e);
                ck_assert_msg(rig_same_float(out[l], rig_u(want)), "case %zu", k);
            }
        }
        for (size_t k = 3; k < 5; k++) {
            const format *f = k == 3 ? &e2m1 : &e4m3;
            for (int l = 0; l < RIG_LANES; l++) {
                in[64 + l] = encode_input(f);
                in[128 + l] = encode_input(f);
                in[192 + l] = (120 + rig_random() % 16) << 23;
                for (int r = 64; r < 192; r += 64)
                    if ((in[r + l] & 0x7f800000) == 0x7f800000)
                        in[r + l] = 0x3fc00000;
            }
            rig_run(m, k, in, 4, out, 1);
            for (int l = 0; l < RIG_LANES; l++) {
                int e = (int)(in[192 + l] >> 23) - 127;
                uint32_t a = encode(f, ldexp((double)rig_f(in[64 + l]), -e), k == 3);
                uint32_t b = encode(f, ldexp((double)rig_f(in[128 + l]), -e), k == 3);
                uint32_t want = k == 3 ? (in[l] & 0xff00ffff) | a << 16 | b << 20
                                       : (in[l] & 0xffff) | a << 16 | b << 24;
                ck_assert_msg(out[l] == want, "case %zu: %08x %08x: %08x, want %08x", k, in[64 + l],
                              in[128 + l], out[l], want);
            }
        }
    }
    rig_free(m);
}
END_TEST

/* 32 six-bit values at once. */
START_TEST(scaled_six_bit)
{
    static const rig_case c[] = {
        {"v_cvt_scalef32_pk32_f32_fp6 $0, $1, $2", "v6v1", 32},
        {"v_cvt_scalef32_pk32_f16_bf6 $0, $1, $2", "v6v1", 16},
        {"v_cvt_scalef32_2xpk16_fp6_f32 $0, $1, $2, $3", "v16v16v1", 6},
    };
    if (!rig_is("gfx950"))
        return;
    rig_module *m = rig_build(c, 3);
    static uint32_t in[33 * RIG_LANES], out[32 * RIG_LANES];
    for (int i = 0; i < 6 * RIG_LANES; i++)
        in[i] = rig_random();
    for (int l = 0; l < RIG_LANES; l++)
        in[6 * 64 + l] = 0x40000000; /* 2 */
    for (size_t k = 0; k < 2; k++) {
        rig_run(m, k, in, 7, out, k ? 16 : 32);
        for (int l = 0; l < RIG_LANES; l++)
            for (int e = 0; e < 32; e++) {
                uint64_t w = in[e * 6 / 32 * 64 + l];
                if (e * 6 / 32 < 5)
                    w |= (uint64_t)in[(e * 6 / 32 + 1) * 64 + l] << 32;
                double v = 2 * value(k ? &e3m2 : &e2m3, w >> (e * 6 % 32) & 63);
                if (k == 0)
                    ck_assert_uint_eq(out[e * 64 + l], rig_u((float)v));
                else /* halves represent these exactly: compare the sign and the exponent */
                    ck_assert_uint_eq(out[e / 2 * 64 + l] >> (16 * (e & 1) + 15) & 1,
                                      signbit(v) != 0);
            }
    }
    for (int i = 0; i < 32 * RIG_LANES; i++)
        in[i] = encode_input(&e2m3) & 0xbfffffff;
    for (int l = 0; l < RIG_LANES; l++)
        in[32 * 64 + l] = 0x3f000000; /* a half */
    rig_run(m, 2, in, 33, out, 6);
    for (int l = 0; l < RIG_LANES; l++)
        for (int e = 0; e < 32; e++) {
            uint64_t w = out[e * 6 / 32 * 64 + l];
            if (e * 6 / 32 < 5)
                w |= (uint64_t)out[(e * 6 / 32 + 1) * 64 + l] << 32;
            double x = 2 * (double)rig_f(in[e * 64 + l]);
            ck_assert_uint_eq(w >> (e * 6 % 32) & 63, encode(&e2m3, x, true));
        }
    rig_free(m);
}
END_TEST

/* bfloat16 from fp32 where there is an instruction; pkrtz everywhere. */
START_TEST(sixteen_bit)
{
    static const rig_case rtz[] = {{"v_cvt_pkrtz_f16_f32 $0, $1, $2", "v1v1", 1}};
    static const rig_case rtz11[] = {{"v_cvt_pk_rtz_f16_f32 $0, $1, $2", "v1v1", 1}};
    static const rig_case bf[] = {{"v_cvt_pk_bf16_f32 $0, $1, $2", "v1v1", 1}};
    uint32_t in[2 * RIG_LANES], out[RIG_LANES];
    rig_module *m = rig_build(rig_gen() == 9 ? rtz : rtz11, 1);
    for (int i = 0; i < RIG_LANES; i++) {
        in[i] = rig_u(2049.0f + (float)i); /* halves are even here */
        in[64 + i] = rig_u(-65519.0f - (float)i);
    }
    rig_run(m, 0, in, 2, out, 1);
    for (int i = 0; i < RIG_LANES; i++) {
        uint32_t whole = 2049 + (uint32_t)i, down = whole & ~1u;
        ck_assert_uint_eq(out[i] & 0xffff, 0x6800 | (down - 2048) / 2);
        ck_assert_uint_eq(out[i] >> 16, 0xfbff);
    }
    rig_free(m);
    if (!rig_is("gfx950"))
        return;
    m = rig_build(bf, 1);
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < 2 * RIG_LANES; i++)
            do
                in[i] = round & 1 ? rig_random_float() : (rig_random() & 0xffff0000) | 0x8000;
            while ((in[i] & 0x7f800000) == 0x7f800000);
        rig_run(m, 0, in, 2, out, 1);
        for (int i = 0; i < RIG_LANES; i++) {
            uint32_t a = in[i], b = in[64 + i];
            a = (a >> 16) + ((a & 0xffff) > 0x8000 || ((a & 0xffff) == 0x8000 && (a & 0x10000)));
            b = (b >> 16) + ((b & 0xffff) > 0x8000 || ((b & 0xffff) == 0x8000 && (b & 0x10000)));
            ck_assert_uint_eq(out[i], a | b << 16);
        }
    }
    rig_free(m);
}
END_TEST

/* ---- Every scaled conversion of gfx950 ---- */

static const format half = {5, 10, 15, 1}, bfloat = {8, 7, 127, 1}, single = {8, 23, 127, 1};

/* From elements side by side, beginning at bit `from_bit` of the sources, to elements beginning at
 * bit `to_bit` of the result, whose other bits stay if the text has "+". */
typedef struct scaled_form {
    rig_case c;
    const format *from, *to;
    int count, from_bit, to_bit;
    bool stochastic;
} scaled_form;

#define SC "v_cvt_scalef32_"
static const scaled_form scaled_forms[] = {
    {{SC "f32_fp8 $0, $1, $2 op_sel:[1,0,0]", "v1v1", 1}, &e4m3, &single, 1, 8, 0, false},
    {{SC "f32_bf8 $0, $1, $2 op_sel:[0,1,0]", "v1v1", 1}, &e5m2, &single, 1, 16, 0, false},
    {{SC "f16_fp8 $0, $2, $3 op_sel:[0,1,1]", "+1v1v1", 1}, &e4m3, &half, 1, 16, 16, false},
    {{SC "f16_bf8 $0, $2, $3 op_sel:[1,1,0]", "+1v1v1", 1}, &e5m2, &half, 1, 24, 0, false},
    {{SC "pk_f32_fp8 $0, $1, $2 op_sel:[1,0,0]", "v1v1", 2}, &e4m3, &single, 2, 16, 0, false},
    {{SC "pk_f32_bf8 $0, $1, $2", "v1v1", 2}, &e5m2, &single, 2, 0, 0, false},
    {{SC "pk_f16_fp8 $0, $1, $2 op_sel:[1,0,0]", "v1v1", 1}, &e4m3, &half, 2, 16, 0, false},
    {{SC "pk_f16_bf8 $0, $1, $2", "v1v1", 1}, &e5m2, &half, 2, 0, 0, false},
    {{SC "pk_bf16_fp8 $0, $1, $2", "v1v1", 1}, &e4m3, &bfloat, 2, 0, 0, false},
    {{SC "pk_bf16_bf8 $0, $1, $2 op_sel:[1,0,0]", "v1v1", 1}, &e5m2, &bfloat, 2, 16, 0, false},
    {{SC "pk_f32_fp4 $0, $1, $2 op_sel:[1,1,0]", "v1v1", 2}, &e2m1, &single, 2, 24, 0, false},
    {{SC "pk_f16_fp4 $0, $1, $2 op_sel:[0,1,0]", "v1v1", 1}, &e2m1, &half, 2, 16, 0, false},
    {{SC "pk_bf16_fp4 $0, $1, $2 op_sel:[1,0,0]", "v1v1", 1}, &e2m1, &bfloat, 2, 8, 0, false},
    {{SC "pk32_f32_fp6 $0, $1, $2", "v6v1", 32}, &e2m3, &single, 32, 0, 0, false},
    {{SC "pk32_f32_bf6 $0, $1, $2", "v6v1", 32}, &e3m2, &single, 32, 0, 0, false},
    {{SC "pk32_f16_fp6 $0, $1, $2", "v6v1", 16}, &e2m3, &half, 32, 0, 0, false},
    {{SC "pk32_f16_bf6 $0, $1, $2", "v6v1", 16}, &e3m2, &half, 32, 0, 0, false},
    {{SC "pk32_bf16_fp6 $0, $1, $2", "v6v1", 16}, &e2m3, &bfloat, 32, 0, 0, false},
    {{SC "pk32_bf16_bf6 $0, $1, $2", "v6v1", 16}, &e3m2, &bfloat, 32, 0, 0, false},
    {{SC "pk_fp8_f32 $0, $2, $3, $4 op_sel:[0,0,0,1]", "+1v1v1v1", 1},
     &single,
     &e4m3,
     2,
     0,
     16,
     false},
    {{SC "pk_bf8_f32 $0, $2, $3, $4", "+1v1v1v1", 1}, &single, &e5m2, 2, 0, 0, false},
    {{SC "pk_fp8_f16 $0, $2, $3 op_sel:[0,0,1]", "+1v1v1", 1}, &half, &e4m3, 2, 0, 16, false},
    {{SC "pk_bf8_f16 $0, $2, $3", "+1v1v1", 1}, &half, &e5m2, 2, 0, 0, false},
    {{SC "pk_fp8_bf16 $0, $2, $3", "+1v1v1", 1}, &bfloat, &e4m3, 2, 0, 0, false},
    {{SC "pk_bf8_bf16 $0, $2, $3 op_sel:[0,0,1]", "+1v1v1", 1}, &bfloat, &e5m2, 2, 0, 16, false},
    {{SC "pk_fp4_f32 $0, $2, $3, $4 op_sel:[0,0,1,1]", "+1v1v1v1", 1},
     &single,
     &e2m1,
     2,
     0,
     24,
     false},
    {{SC "pk_fp4_f16 $0, $2, $3 op_sel:[0,0,1,0]", "+1v1v1", 1}, &half, &e2m1, 2, 0, 8, false},
    {{SC "pk_fp4_bf16 $0, $2, $3 op_sel:[0,0,0,1]", "+1v1v1", 1}, &bfloat, &e2m1, 2, 0, 16, false},
    {{SC "2xpk16_fp6_f32 $0, $1, $2, $3", "v16v16v1", 6}, &single, &e2m3, 32, 0, 0, false},
    {{SC "2xpk16_bf6_f32 $0, $1, $2, $3", "v16v16v1", 6}, &single, &e3m2, 32, 0, 0, false},
    {{SC "pk32_fp6_f16 $0, $1, $2", "v16v1", 6}, &half, &e2m3, 32, 0, 0, false},
    {{SC "pk32_bf6_f16 $0, $1, $2", "v16v1", 6}, &half, &e3m2, 32, 0, 0, false},
    {{SC "pk32_fp6_bf16 $0, $1, $2", "v16v1", 6}, &bfloat, &e2m3, 32, 0, 0, false},
    {{SC "pk32_bf6_bf16 $0, $1, $2", "v16v1", 6}, &bfloat, &e3m2, 32, 0, 0, false},
    {{SC "sr_fp8_f32 $0, $2, $3, $4 op_sel:[0,0,1,0]", "+1v1v1v1", 1},
     &single,
     &e4m3,
     1,
     0,
     8,
     true},
    {{SC "sr_bf8_f32 $0, $2, $3, $4 op_sel:[0,0,0,1]", "+1v1v1v1", 1},
     &single,
     &e5m2,
     1,
     0,
     16,
     true},
    {{SC "sr_fp8_f16 $0, $2, $3, $4", "+1v1v1v1", 1}, &half, &e4m3, 1, 0, 0, true},
    {{SC "sr_bf8_f16 $0, $2, $3, $4 op_sel:[0,0,1,1]", "+1v1v1v1", 1},
     &half,
     &e5m2,
     1,
     0,
     24,
     true},
    {{SC "sr_fp8_bf16 $0, $2, $3, $4", "+1v1v1v1", 1}, &bfloat, &e4m3, 1, 0, 0, true},
    {{SC "sr_bf8_bf16 $0, $2, $3, $4", "+1v1v1v1", 1}, &bfloat, &e5m2, 1, 0, 0, true},
    {{SC "sr_pk_fp4_f32 $0, $2, $3, $4 op_sel:[0,0,0,1]", "+1v2v1v1", 1},
     &single,
     &e2m1,
     2,
     0,
     16,
     true},
    {{SC "sr_pk_fp4_f16 $0, $2, $3, $4 op_sel:[0,0,1,0]", "+1v1v1v1", 1},
     &half,
     &e2m1,
     2,
     0,
     8,
     true},
    {{SC "sr_pk_fp4_bf16 $0, $2, $3, $4", "+1v1v1v1", 1}, &bfloat, &e2m1, 2, 0, 0, true},
    {{SC "sr_pk32_fp6_f32 $0, $1, $2, $3", "v32v1v1", 6}, &single, &e2m3, 32, 0, 0, true},
    {{SC "sr_pk32_bf6_f32 $0, $1, $2, $3", "v32v1v1", 6}, &single, &e3m2, 32, 0, 0, true},
    {{SC "sr_pk32_fp6_f16 $0, $1, $2, $3", "v16v1v1", 6}, &half, &e2m3, 32, 0, 0, true},
    {{SC "sr_pk32_bf6_f16 $0, $1, $2, $3", "v16v1v1", 6}, &half, &e3m2, 32, 0, 0, true},
    {{SC "sr_pk32_fp6_bf16 $0, $1, $2, $3", "v16v1v1", 6}, &bfloat, &e2m3, 32, 0, 0, true},
    {{SC "sr_pk32_bf6_bf16 $0, $1, $2, $3", "v16v1v1", 6}, &bfloat, &e3m2, 32, 0, 0, true},
};
enum { N_FORMS = sizeof scaled_forms / sizeof scaled_forms[0] };

static int width(const format *f)
{
    return 1 + f->exp_bits + f->man_bits;
}

static bool is_small(const format *f)
{
    return width(f) < 16;
}

/* Bits [at, at + n) of a lane of registers side by side. */
static uint32_t lane_bits(const uint32_t *regs, int lane, int at, int n)
{
    uint64_t x = regs[at / 32 * RIG_LANES + lane];
    if (at % 32 + n > 32)
        x |= (uint64_t)regs[(at / 32 + 1) * RIG_LANES + lane] << 32;
    return (uint32_t)(x >> (at % 32) & ((UINT64_C(1) << n) - 1));
}

/* A value that the wide type holds exactly. */
static uint32_t exact_bits(const format *f, double v)
{
    int e = 0;
    uint32_t sign = signbit(v) ? 1u << (width(f) - 1) : 0;
    double m = frexp(fabs(v), &e);
    if (v != v || isinf(v))
        return sign | ((1u << f->exp_bits) - 1) << f->man_bits | (v != v);
    if (v == 0)
        return sign;
    int field = e - 1 + f->bias;
    if (field < 1)
        return sign | (uint32_t)ldexp(fabs(v), f->bias - 1 + f->man_bits);
    return sign | (uint32_t)field << f->man_bits | (uint32_t)ldexp(2 * m - 1, f->man_bits);
}

/* The code towards zero, and the next one unless the value is a code's. */
static void neighbours(const format *f, double x, uint32_t out[2])
{
    uint32_t sign = signbit(x) ? 1u << (width(f) - 1) : 0, code = 0;
    double a = fabs(x);
    while (isfinite(value(f, code + 1)) && code + 1 < 1u << (width(f) - 1) &&
           value(f, code + 1) <= a)
        code++;
    bool last = code + 1 == 1u << (width(f) - 1) || !isfinite(value(f, code + 1));
    out[0] = sign | code;
    out[1] = sign | (value(f, code) == a || last ? code : code + 1);
}

/* Random elements: any code of a small type; of a wide one finite values near the small type's. */
static void fill_sources(const scaled_form *t, uint32_t *in, int regs)
{
    for (int i = 0; i < regs * RIG_LANES; i++)
        in[i] = rig_random();
    for (int lane = 0; lane < RIG_LANES && !is_small(t->from); lane++)
        for (int k = 0; k < t->count; k++) {
            int bits = width(t->from), at = t->from_bit + k * bits;
            int e = (int)(rig_random() % 12) - 6 + t->from->bias;
            uint32_t man = rig_random() & ((1u << t->from->man_bits) - 1);
            if (rig_random() & 1) /* ties and exact values */
                man &= ~0u << (t->from->man_bits - 3);
            uint32_t x = (rig_random() & 1) << (bits - 1) | (uint32_t)e << t->from->man_bits | man;
            uint32_t *word = &in[at / 32 * RIG_LANES + lane];
            uint32_t mask = (uint32_t)((UINT64_C(1) << bits) - 1) << (at % 32);
            *word = (*word & ~mask) | x << (at % 32);
        }
}

static void check_element(const scaled_form *t, double x, uint32_t seed, uint32_t got)
{
    uint32_t near[2], want;
    if (!is_small(t->to)) {
        want = exact_bits(t->to, x);
        double back = t->to == &single ? (double)rig_f(got) : value(t->to, got);
        ck_assert_msg(got == want || (x != x && back != back), "%s: %g gives %x, want %x",
                      t->c.text, x, got, want);
        return;
    }
    if (!t->stochastic) {
        want = encode(t->to, x, false);
        ck_assert_msg(got == want, "%s: %g gives %x, want %x", t->c.text, x, got, want);
        return;
    }
    neighbours(t->to, x, near);
    bool past = near[0] == near[1] && fabs(value(t->to, near[0])) < fabs(x);
    if (past && t->to->kind) /* an overflow, which encode() above has */
        return;
    want = near[seed == ~0u];
    ck_assert_msg(seed == 0 || seed == ~0u ? got == want : got == near[0] || got == near[1],
                  "%s: %g with %x gives %x, between %x and %x", t->c.text, x, seed, got, near[0],
                  near[1]);
}

static void check_form(const scaled_form *t, const uint32_t *in, const uint32_t *old,
                       const uint32_t *seeds, const uint32_t *scales, const uint32_t *out)
{
    for (int lane = 0; lane < RIG_LANES; lane++) {
        int e = (int)(scales[lane] >> 23) - 127, n = width(t->to), end = t->to_bit + n * t->count;
        for (int k = 0; k < t->count; k++) {
            uint32_t code = lane_bits(in, lane, t->from_bit + k * width(t->from), width(t->from));
            double x = t->from == &single ? (double)rig_f(code) : value(t->from, code);
            check_element(t, ldexp(x, is_small(t->to) ? -e : e), seeds ? seeds[lane] : 0,
                          lane_bits(out, lane, t->to_bit + k * n, n));
        }
        uint32_t mask = t->to_bit ? ~0u >> (32 - t->to_bit) : 0;
        mask |= end < 32 ? ~0u << end : 0;
        if (old)
            ck_assert_msg((out[lane] & mask) == (old[lane] & mask), "%s: other bits", t->c.text);
    }
}

START_TEST(scaled_all)
{
    static rig_case list[N_FORMS];
    static uint32_t in[36 * RIG_LANES], out[32 * RIG_LANES];
    if (!rig_is("gfx950"))
        return;
    for (int i = 0; i < N_FORMS; i++)
        list[i] = scaled_forms[i].c;
    rig_module *m = rig_build(list, N_FORMS);
    for (size_t i = 0; i < N_FORMS; i++)
        for (int round = 0; round < 12; round++) {
            const scaled_form *t = &scaled_forms[i];
            int kept = t->c.ins[0] == '+', bits = t->from_bit + t->count * width(t->from);
            int regs = (bits + 31) / 32, at = kept + regs;
            fill_sources(t, in + kept * RIG_LANES, regs);
            uint32_t *old = kept ? in : NULL, *sources = in + kept * RIG_LANES, *seeds = NULL;
            for (int l = 0; l < RIG_LANES && kept; l++)
                old[l] = rig_random();
            if (t->stochastic) {
                seeds = in + at++ * RIG_LANES;
                for (int l = 0; l < RIG_LANES; l++)
                    seeds[l] = round == 0 ? 0 : round == 1 ? ~0u : rig_random();
            }
            uint32_t *scales = in + at++ * RIG_LANES;
            for (int l = 0; l < RIG_LANES; l++) /* the fraction does not count */
                scales[l] = (120 + rig_random() % 8) << 23 | (rig_random() & 0x7fffff);
            rig_run(m, i, in, (size_t)at, out, (size_t)t->c.out);
            check_form(t, sources, old, seeds, scales, out);
        }
    rig_free(m);
}
END_TEST

static void fill(TCase *tc)
{
    tcase_add_test(tc, decode_all);
    tcase_add_test(tc, encode_pairs);
    tcase_add_test(tc, stochastic);
    tcase_add_test(tc, scaled_conversions);
    tcase_add_test(tc, scaled_six_bit);
    tcase_add_test(tc, scaled_all);
    tcase_add_test(tc, sixteen_bit);
}

int main(void)
{
    return rig_main("sim_convert", fill);
}
