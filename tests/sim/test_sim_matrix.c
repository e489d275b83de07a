/*
 * Matrix instructions against a plain product. Elements are small integers (times powers of two),
 * so that every order of summation gives the same value; layouts are stated here anew.
 */
#include "sim_rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_M = 32, MAX_K = 128, MAX_REGS = 40 };

typedef struct matrix_case {
    rig_case c;
    int m, n, k, blocks;
    char a, b, d; /* f, d, h, b, i; p fp8, q bf8; 6 E2M3, 7 E3M2, 4 E2M1 */
    const char *arches;
    int scale; /* 1: scaled, byte 0; 2: scaled, bytes 1 and 2 */
} matrix_case;

#define MI "gfx90a gfx942 gfx950"
#define MI3 "gfx942 gfx950"
#define MI35 "gfx950"

static const matrix_case mfma[] = {
    {{"v_mfma_f32_32x32x1f32 $0, $1, $2, $3", "v1v1v32", 32}, 32, 32, 1, 2, 'f', 'f', 'f', MI, 0},
    {{"v_mfma_f32_16x16x4f32 $0, $1, $2, $3", "v1v1v4", 4}, 16, 16, 4, 1, 'f', 'f', 'f', MI, 0},
    {{"v_mfma_f32_4x4x1f32 $0, $1, $2, $3", "v1v1v4", 4}, 4, 4, 1, 16, 'f', 'f', 'f', MI, 0},
    {{"v_mfma_f32_32x32x8f16 $0, $1, $2, $3", "v2v2v16", 16}, 32, 32, 8, 1, 'h', 'h', 'f', MI, 0},
    {{"v_mfma_f32_16x16x16f16 $0, $1, $2, $3", "v2v2v4", 4}, 16, 16, 16, 1, 'h', 'h', 'f', MI, 0},
    {{"v_mfma_f32_16x16x4f16 $0, $1, $2, $3", "v2v2v16", 16}, 16, 16, 4, 4, 'h', 'h', 'f', MI, 0},
    {{"v_mfma_f32_32x32x8bf16_1k $0, $1, $2, $3", "v2v2v16", 16},
     32,
     32,
     8,
     1,
     'b',
     'b',
     'f',
     MI,
     0},
    {{"v_mfma_f64_16x16x4f64 $0, $1, $2, $3", "v2v2v8", 8}, 16, 16, 4, 1, 'd', 'd', 'd', MI, 0},
    {{"v_mfma_i32_32x32x8i8 $0, $1, $2, $3", "v1v1v16", 16},
     32,
     32,
     8,
     1,
     'i',
     'i',
     'i',
     "gfx90a",
     0},
    {{"v_mfma_i32_16x16x32_i8 $0, $1, $2, $3", "v2v2v4", 4}, 16, 16, 32, 1, 'i', 'i', 'i', MI3, 0},
    {{"v_mfma_f32_32x32x16_fp8_bf8 $0, $1, $2, $3", "v2v2v16", 16},
     32,
     32,
     16,
     1,
     'p',
     'q',
     'f',
     MI3,
     0},
    {{"v_mfma_f32_16x16x32_fp8_fp8 $0, $1, $2, $3", "v2v2v4", 4},
     16,
     16,
     32,
     1,
     'p',
     'p',
     'f',
     MI3,
     0},
    {{"v_mfma_f32_16x16x32_bf16 $0, $1, $2, $3", "v4v4v4", 4},
     16,
     16,
     32,
     1,
     'b',
     'b',
     'f',
     MI35,
     0},
    {{"v_mfma_f32_32x32x16_f16 $0, $1, $2, $3", "v4v4v16", 16},
     32,
     32,
     16,
     1,
     'h',
     'h',
     'f',
     MI35,
     0},
    {{"v_mfma_f32_16x16x128_f8f6f4 $0, $1, $2, $3 cbsz:4 blgp:4", "v4v4v4", 4},
     16,
     16,
     128,
     1,
     '4',
     '4',
     'f',
     MI35,
     0},
    {{"v_mfma_f32_32x32x64_f8f6f4 $0, $1, $2, $3 cbsz:2 blgp:1", "v6v8v16", 16},
     32,
     32,
     64,
     1,
     '6',
     'q',
     'f',
     MI35,
     0},
    {{"v_mfma_scale_f32_16x16x128_f8f6f4 $0, $1, $2, $3, $4, $5 op_sel_hi:[0,0,0] cbsz:4 blgp:4",
      "v4v4v4v1v1", 4},
     16,
     16,
     128,
     1,
     '4',
     '4',
     'f',
     MI35,
     1},
    {{"v_mfma_scale_f32_16x16x128_f8f6f4 $0, $1, $2, $3, $4, $5 op_sel_hi:[0,0,0]", "v8v8v4v1v1",
      4},
     16,
     16,
     128,
     1,
     'p',
     'p',
     'f',
     MI35,
     1},
    {{"v_mfma_scale_f32_32x32x64_f8f6f4 $0, $1, $2, $3, $4, $5 op_sel:[1,0,0] op_sel_hi:[0,1,0] "
      "cbsz:3 blgp:4",
      "v6v4v16v1v1", 16},
     32,
     32,
     64,
     1,
     '7',
     '4',
     'f',
     MI35,
     2},
    {{"v_mfma_scale_f32_32x32x64_f8f6f4 $0, $1, $2, $3, $4, $5 op_sel:[1,0,0] op_sel_hi:[0,1,0] "
      "cbsz:1 blgp:0",
      "v8v8v16v1v1", 16},
     32,
     32,
     64,
     1,
     'q',
     'p',
     'f',
     MI35,
     2},
};

static int bits_of(char t)
{
    return t == 'd'               ? 64
           : t == 'f'             ? 32
           : t == 'h' || t == 'b' ? 16
           : t == '6' || t == '7' ? 6
           : t == '4' || t == 'n' ? 4
                                  : 8;
}

/* Code of a small integer in a format with the given exponent and mantissa widths. */
static uint32_t small_code(int v, int exp_bits, int man_bits, int bias)
{
    uint32_t sign = v < 0 ? 1u << (exp_bits + man_bits) : 0;
    int e = 0;
    if (!v)
        return 0;
    double m = frexp(fabs((double)v), &e) * 2 - 1;
    return sign | (uint32_t)(e - 1 + bias) << man_bits | (uint32_t)(m * (1 << man_bits));
}

static uint64_t code_of(int v, char t)
{
    bool fnuz = rig_is("gfx942");
    double d = v;
    uint64_t x;
    switch (t) {
    case 'd':
        memcpy(&x, &d, 8);
        return x;
    case 'f':
        return rig_u((float)v);
    case 'h':
        return small_code(v, 5, 10, 15);
    case 'b':
        return rig_u((float)v) >> 16;
    case 'p':
        return small_code(v, 4, 3, fnuz ? 8 : 7);
    case 'q':
        return small_code(v, 5, 2, fnuz ? 16 : 15);
    case '6':
        return small_code(v, 2, 3, 1);
    case '7':
        return small_code(v, 3, 2, 3);
    case '4':
        return small_code(v, 2, 1, 1);
    case 'n':
        return (uint64_t)v & 15;
    default:
        return (uint8_t)v;
    }
}

static int random_element(char t)
{
    static const int fp4[] = {0, 1, 2, 3, 4, 6, -1, -2, -3, -4, -6};
    if (t == 'i')
        return (int)(rig_random() % 255) - 127;
    if (t == '4')
        return fp4[rig_random() % 11];
    if (t == 'n')
        return (int)(rig_random() % 16) - 8;
    return (int)(rig_random() % 9) - 4;
}

/* Puts element e of a lane into registers of 64 lanes. */
static void put(uint32_t *regs, int lane, int e, int bits, uint64_t code)
{
    for (int b = 0; b < bits; b++) {
        int at = e * bits + b;
        if (code >> b & 1)
            regs[at / 32 * RIG_LANES + lane] |= 1u << (at % 32);
    }
}

typedef struct problem {
    int a[16][MAX_M][MAX_K], b[16][MAX_K][MAX_M], c[16][MAX_M][MAX_M];
    int sa[MAX_M][4], sb[MAX_M][4];
} problem;

/* The k of element e in lane group g: contiguous, but 8-bit data of the f8f6f4 forms come in
 * runs of 16, all groups' first runs before their second. */
static int k_of(const matrix_case *t, char type, int g, int e)
{
    int groups = 64 / (t->m * t->blocks), per = t->k / groups;
    bool split = per == 32 && bits_of(type) == 8;
    return split ? e / 16 * 16 * groups + 16 * g + e % 16 : g * per + e;
}

static void fill_operand(const matrix_case *t, problem *p, uint32_t *in, bool is_b)
{
    char type = is_b ? t->b : t->a;
    int groups = 64 / (t->m * t->blocks), per = t->k / groups;
    for (int lane = 0; lane < 64; lane++)
        for (int e = 0; e < per; e++) {
            int i = lane % t->m, block = lane / t->m % t->blocks, g = lane / t->m / t->blocks;
            int k = k_of(t, type, g, e);
            int v = random_element(type);
            if (is_b)
                p->b[block][k][i] = v;
            else
                p->a[block][i][k] = v;
            put(in, lane, e, bits_of(type), code_of(v, type));
        }
}

static void fill_scales(const matrix_case *t, problem *p, uint32_t *sa, uint32_t *sb)
{
    for (int lane = 0; lane < 64; lane++) {
        int x = (int)(rig_random() % 4), y = (int)(rig_random() % 4);
        p->sa[lane % t->m][lane / t->m] = x;
        p->sb[lane % t->n][lane / t->n] = y;
        sa[lane] = rig_random();
        sb[lane] = rig_random();
        int ba = t->scale == 2 ? 8 : 0, bb = t->scale == 2 ? 16 : 0;
        sa[lane] = (sa[lane] & ~(255u << ba)) | (uint32_t)(127 + x) << ba;
        sb[lane] = (sb[lane] & ~(255u << bb)) | (uint32_t)(127 + y) << bb;
    }
}

/* Where element (i, j) of a block's result is. */
static void place(const matrix_case *t, int block, int i, int j, int *reg, int *lane)
{
    if (t->d == 'd') { /* 16x16: row i in lanes 16 (i % 4), register i / 4 */
        *reg = i / 4;
        *lane = 16 * (i % 4) + j;
    } else if (t->m == 32) { /* rows in fours: 0-3 low half, 4-7 high half, 8-11 low half */
        *reg = block * 16 + i / 8 * 4 + i % 4;
        *lane = 32 * (i / 4 % 2) + j;
    } else if (t->m == 16) {
        *reg = block * 4 + i % 4;
        *lane = 16 * (i / 4) + j;
    } else {
        *reg = i;
        *lane = 4 * block + j;
    }
}

static double expected(const matrix_case *t, const problem *p, int block, int i, int j)
{
    double s = p->c[block][i][j];
    for (int k = 0; k < t->k; k++) {
        double x = (double)p->a[block][i][k] * p->b[block][k][j];
        if (t->scale)
            x = ldexp(x, p->sa[i][k / 32] + p->sb[j][k / 32]);
        s += x;
    }
    return s;
}

static void put_c(const matrix_case *t, problem *p, uint32_t *in)
{
    for (int b = 0; b < t->blocks; b++)
        for (int i = 0; i < t->m; i++)
            for (int j = 0; j < t->n; j++) {
                int reg, lane;
                place(t, b, i, j, &reg, &lane);
                int v = (int)(rig_random() % 201) - 100;
                p->c[b][i][j] = v;
                if (t->d == 'd') {
                    uint64_t x = code_of(v, 'd');
                    in[2 * reg * 64 + lane] = (uint32_t)x;
                    in[(2 * reg + 1) * 64 + lane] = (uint32_t)(x >> 32);
                } else {
                    in[reg * 64 + lane] = t->d == 'i' ? (uint32_t)v : rig_u((float)v);
                }
            }
}

static void check_result(const matrix_case *t, const problem *p, const uint32_t *out)
{
    for (int b = 0; b < t->blocks; b++)
        for (int i = 0; i < t->m; i++)
            for (int j = 0; j < t->n; j++) {
                int reg, lane;
                place(t, b, i, j, &reg, &lane);
                double want = expected(t, p, b, i, j), got;
                if (t->d == 'd') {
                    uint64_t x = out[2 * reg * 64 + lane] | (uint64_t)out[(2 * reg + 1) * 64 + lane]
                                                                << 32;
                    memcpy(&got, &x, 8);
                } else if (t->d == 'i') {
                    got = (int32_t)out[reg * 64 + lane];
                } else {
                    got = (double)rig_f(out[reg * 64 + lane]);
                }
                ck_assert_msg(got == want, "%s: block %d (%d, %d): %g, expected %g", t->c.text, b,
                              i, j, got, want);
            }
}

START_TEST(mfma_forms)
{
    rig_case list[32];
    const matrix_case *from[32];
    size_t n = 0;
    for (size_t i = 0; i < sizeof mfma / sizeof mfma[0]; i++)
        if (strstr(mfma[i].arches, rig_arch())) {
            from[n] = &mfma[i];
            list[n++] = mfma[i].c;
        }
    if (!n)
        return;
    rig_module *m = rig_build(list, n);
    problem *p = malloc(sizeof *p);
    uint32_t *in = malloc(64 * MAX_REGS * 4), *out = malloc(64 * MAX_REGS * 4);
    ck_assert(p && in && out);
    for (size_t k = 0; k < n; k++)
        for (int round = 0; round < 3; round++) {
            const matrix_case *t = from[k];
            int per = t->m * t->k * t->blocks / 64;
            int ra = per * bits_of(t->a) / 32, rb = per * bits_of(t->b) / 32;
            memset(in, 0, 64 * MAX_REGS * 4);
            fill_operand(t, p, in, false);
            fill_operand(t, p, in + 64 * ra, true);
            put_c(t, p, in + 64 * (ra + rb));
            int regs = ra + rb + t->c.out;
            if (t->scale) {
                fill_scales(t, p, in + 64 * regs, in + 64 * (regs + 1));
                regs += 2;
            }
            rig_run(m, k, in, (size_t)regs, out, (size_t)t->c.out);
            check_result(t, p, out);
        }
    free(p);
    free(in);
    free(out);
    rig_free(m);
}
END_TEST

/* WMMA, wave32: two waves of the bench each do one product. */
typedef struct wmma_case {
    rig_case c;
    char a, d;
    int k;
} wmma_case;

static const wmma_case wmma11[] = {
    {{"v_wmma_f32_16x16x16_f16 $0, $1, $2, $3", "v8v8v8", 8}, 'h', 'f', 16},
    {{"v_wmma_f32_16x16x16_bf16 $0, $1, $2, $3", "v8v8v8", 8}, 'b', 'f', 16},
    {{"v_wmma_i32_16x16x16_iu8 $0, $1, $2, $3 neg_lo:[1,1,0]", "v4v4v8", 8}, 'i', 'i', 16},
    {{"v_wmma_i32_16x16x16_iu4 $0, $1, $2, $3 neg_lo:[1,1,0]", "v2v2v8", 8}, 'n', 'i', 16},
};

static const wmma_case wmma12[] = {
    {{"v_wmma_f32_16x16x16_f16 $0, $1, $2, $3", "v4v4v8", 8}, 'h', 'f', 16},
    {{"v_wmma_f32_16x16x16_bf16 $0, $1, $2, $3", "v4v4v8", 8}, 'b', 'f', 16},
    {{"v_wmma_i32_16x16x16_iu8 $0, $1, $2, $3 neg_lo:[1,1,0]", "v2v2v8", 8}, 'i', 'i', 16},
    {{"v_wmma_f32_16x16x16_fp8_fp8 $0, $1, $2, $3", "v2v2v8", 8}, 'p', 'f', 16},
};

static void wmma_operand(const wmma_case *t, int m[16][16], uint32_t *in, int wave)
{
    bool halves = rig_gen() == 12; /* gfx12: a half of k for each half of the wave */
    for (int lane = 0; lane < 32; lane++)
        for (int k = 0; k < 16; k++) {
            int e = halves ? k % 8 : k;
            if (halves && k / 8 != lane / 16)
                continue;
            put(in, 32 * wave + lane, e, bits_of(t->a), code_of(m[lane % 16][k], t->a));
        }
}

static void wmma_place(int i, int j, int *reg, int *lane)
{
    if (rig_gen() == 12) {
        *reg = i % 8;
        *lane = 16 * (i / 8) + j;
    } else {
        *reg = i / 2;
        *lane = 16 * (i % 2) + j;
    }
}

START_TEST(wmma_forms)
{
    if (rig_gen() == 9)
        return;
    const wmma_case *cases = rig_gen() == 11 ? wmma11 : wmma12;
    rig_case list[4];
    for (int i = 0; i < 4; i++)
        list[i] = cases[i].c;
    rig_module *m = rig_build(list, 4);
    static uint32_t in[24 * RIG_LANES], out[8 * RIG_LANES];
    static int a[2][16][16], b[2][16][16], c[2][16][16];
    for (size_t n = 0; n < 4; n++) {
        const wmma_case *t = &cases[n];
        int regs = t->c.ins[1] - '0';
        memset(in, 0, sizeof in);
        for (int w = 0; w < 2; w++) {
            for (int i = 0; i < 16; i++)
                for (int k = 0; k < 16; k++) {
                    a[w][i][k] = random_element(t->a);
                    b[w][i][k] = random_element(t->a);
                    c[w][i][k] = (int)(rig_random() % 100);
                    int reg, lane;
                    wmma_place(i, k, &reg, &lane);
                    in[(2 * regs + reg) * 64 + 32 * w + lane] =
                        t->d == 'i' ? (uint32_t)c[w][i][k] : rig_u((float)c[w][i][k]);
                }
            wmma_operand(t, a[w], in, w);
            wmma_operand(t, b[w], in + 64 * regs, w);
        }
        rig_run(m, n, in, (size_t)(2 * regs + 8), out, 8);
        for (int w = 0; w < 2; w++)
            for (int i = 0; i < 16; i++)
                for (int j = 0; j < 16; j++) {
                    int reg, lane, want = c[w][i][j];
                    for (int k = 0; k < 16; k++)
                        want += a[w][i][k] * b[w][j][k];
                    wmma_place(i, j, &reg, &lane);
                    uint32_t x = out[reg * 64 + 32 * w + lane];
                    int got = t->d == 'i' ? (int)x : (int)rig_f(x);
                    ck_assert_msg(got == want, "%s (%d, %d): %d, want %d", t->c.text, i, j, got,
                                  want);
                }
    }
    rig_free(m);
}
END_TEST

static void fill(TCase *tc)
{
    tcase_add_test(tc, mfma_forms);
    tcase_add_test(tc, wmma_forms);
}

int main(void)
{
    return rig_main("sim_matrix", fill);
}
