/* Integer instructions against their definitions, on random and corner values. */
#include "sim_rig.h"

#include <string.h>

typedef uint64_t (*reference)(const uint32_t *x);

typedef struct int_case {
    rig_case c;
    reference want;
    int gens; /* 1: gfx9, 2: gfx11 and later, 4: gfx942 and gfx950 only, 8: gfx950 only */
} int_case;

static uint64_t q(const uint32_t *x)
{
    return x[0] | (uint64_t)x[1] << 32;
}

/* Byte selectors 0-7: of {S0, S1} with S1 below; 8-11: the sign of bytes 1, 3, 5, 7; 12: 0; else
 * ff. */
static uint64_t perm(const uint32_t *x)
{
    uint64_t d = (uint64_t)x[0] << 32 | x[1];
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t s = x[2] >> (8 * i) & 255, b;
        if (s < 8)
            b = d >> (8 * s) & 255;
        else if (s < 12)
            b = d >> (8 * (2 * (s - 8) + 1) + 7) & 1 ? 255 : 0;
        else
            b = s == 12 ? 0 : 255;
        r |= b << (8 * i);
    }
    return r;
}

static uint64_t alignbit(const uint32_t *x)
{
    return (uint32_t)(((uint64_t)x[0] << 32 | x[1]) >> (x[2] & 31));
}

static uint64_t alignbyte(const uint32_t *x)
{
    return (uint32_t)(((uint64_t)x[0] << 32 | x[1]) >> (8 * (x[2] & 3)));
}

static uint64_t bfe_u(const uint32_t *x)
{
    uint32_t o = x[1] & 31, n = x[2] & 31, r = 0;
    for (uint32_t i = 0; i < n; i++)
        r |= (o + i < 32 ? x[0] >> (o + i) & 1 : 0) << i;
    return r;
}

static uint64_t bfe_s(const uint32_t *x)
{
    uint32_t o = x[1] & 31, n = x[2] & 31, r = 0;
    for (uint32_t i = 0; i < 32 && n; i++) {
        uint32_t at = o + (i < n ? i : n - 1);
        r |= x[0] >> (at < 32 ? at : 31) % 32 % 32 & 1u ? 1u << i : 0;
    }
    return r;
}

static uint64_t bfi(const uint32_t *x)
{
    return (x[0] & x[1]) | (~x[0] & x[2]);
}

static uint64_t med3_s(const uint32_t *x)
{
    int32_t a = (int32_t)x[0], b = (int32_t)x[1], c = (int32_t)x[2], t;
    if (a > b) {
        t = a;
        a = b;
        b = t;
    }
    return (uint32_t)(c < a ? a : c > b ? b : c);
}

static uint64_t add_sat(const uint32_t *x)
{
    uint64_t s = (uint64_t)x[0] + x[1];
    return s > UINT32_MAX ? UINT32_MAX : s;
}

static uint64_t sub_sat(const uint32_t *x)
{
    return x[0] < x[1] ? 0 : x[0] - x[1];
}

static uint64_t add_sat_s(const uint32_t *x)
{
    int64_t s = (int64_t)(int32_t)x[0] + (int32_t)x[1];
    return (uint32_t)(s > INT32_MAX ? INT32_MAX : s < INT32_MIN ? INT32_MIN : s);
}

static uint64_t mad64(const uint32_t *x)
{
    return (uint64_t)x[0] * x[1] + q(x + 2);
}

static uint64_t mad64_s(const uint32_t *x)
{
    return (uint64_t)((int64_t)(int32_t)x[0] * (int32_t)x[1]) + q(x + 2);
}

static uint64_t shl64(const uint32_t *x)
{
    return q(x + 1) << (x[0] & 63);
}

static uint64_t sar64(const uint32_t *x)
{
    return (uint64_t)((int64_t)q(x + 1) >> (x[0] & 63));
}

static uint64_t mul_hi_s(const uint32_t *x)
{
    return (uint32_t)((uint64_t)((int64_t)(int32_t)x[0] * (int32_t)x[1]) >> 32);
}

static uint64_t mul24(const uint32_t *x)
{
    int32_t a = (int32_t)(x[0] << 8) >> 8, b = (int32_t)(x[1] << 8) >> 8;
    return (uint32_t)((int64_t)a * b);
}

static uint64_t sad8(const uint32_t *x)
{
    uint32_t r = x[2];
    for (int i = 0; i < 32; i += 8) {
        int d = (int)(x[0] >> i & 255) - (int)(x[1] >> i & 255);
        r += (uint32_t)(d < 0 ? -d : d);
    }
    return r;
}

static uint64_t lshl_add64(const uint32_t *x)
{
    return (q(x) << (x[2] & 7)) + q(x + 3);
}

static uint64_t count_leading(const uint32_t *x)
{
    for (uint32_t i = 0; i < 32; i++)
        if (x[0] >> (31 - i) & 1)
            return i;
    return UINT32_MAX;
}

static uint64_t sign_leading(const uint32_t *x)
{
    for (uint32_t i = 1; i < 32; i++)
        if ((x[0] >> (31 - i) & 1) != x[0] >> 31)
            return i;
    return UINT32_MAX;
}

static uint64_t pk_add_clamp(const uint32_t *x)
{
    uint32_t r = 0;
    for (int i = 0; i < 32; i += 16) {
        int s = (int16_t)(x[0] >> i) + (int16_t)(x[1] >> i);
        s = s > 32767 ? 32767 : s < -32768 ? -32768 : s;
        r |= (uint32_t)(uint16_t)s << i;
    }
    return r;
}

static uint64_t pk_mul_swapped(const uint32_t *x)
{
    uint32_t lo = (x[0] >> 16) * (x[1] & 0xffff), hi = (x[0] & 0xffff) * (x[1] >> 16);
    return (lo & 0xffff) | hi << 16;
}

static uint64_t dot4_s(const uint32_t *x)
{
    int64_t r = (int32_t)x[2];
    for (int i = 0; i < 32; i += 8)
        r += (int8_t)(x[0] >> i) * (int8_t)(x[1] >> i);
    return (uint32_t)(r > INT32_MAX ? INT32_MAX : r < INT32_MIN ? INT32_MIN : r);
}

static uint64_t carry_chain(const uint32_t *x)
{
    return q(x) + q(x + 2);
}

static uint64_t borrow_chain(const uint32_t *x)
{
    return q(x) - q(x + 2);
}

static uint64_t pack_ashr(const uint32_t *x)
{
    uint32_t r = 0;
    for (int i = 0; i < 2; i++) {
        int32_t v = (int32_t)x[i] >> (x[2] & 31);
        r |= (uint32_t)(uint8_t)(v > 127 ? 127 : v < -128 ? -128 : v) << (8 * i);
    }
    return r;
}

static uint64_t mux(const uint32_t *x)
{
    return (x[0] & x[1]) | (~x[0] & x[2]);
}

static const int_case cases[] = {
    {{"v_perm_b32 $0, $1, $2, $3", "v1v1v1", 1}, perm, 3},
    {{"v_alignbit_b32 $0, $1, $2, $3", "v1v1v1", 1}, alignbit, 3},
    {{"v_alignbyte_b32 $0, $1, $2, $3", "v1v1v1", 1}, alignbyte, 3},
    {{"v_bfe_u32 $0, $1, $2, $3", "v1v1v1", 1}, bfe_u, 3},
    {{"v_bfe_i32 $0, $1, $2, $3", "v1v1v1", 1}, bfe_s, 3},
    {{"v_bfi_b32 $0, $1, $2, $3", "v1v1v1", 1}, bfi, 3},
    {{"v_med3_i32 $0, $1, $2, $3", "v1v1v1", 1}, med3_s, 3},
    {{"v_add_u32 $0, $1, $2 clamp", "v1v1", 1}, add_sat, 1},
    {{"v_sub_u32 $0, $1, $2 clamp", "v1v1", 1}, sub_sat, 1},
    {{"v_add_i32 $0, $1, $2 clamp", "v1v1", 1}, add_sat_s, 1},
    {{"v_add_nc_u32 $0, $1, $2 clamp", "v1v1", 1}, add_sat, 2},
    {{"v_add_nc_i32 $0, $1, $2 clamp", "v1v1", 1}, add_sat_s, 2},
    {{"v_mad_u64_u32 $0, VCC, $1, $2, $3", "v1v1v2", 2}, mad64, 3},
    {{"v_mad_i64_i32 $0, VCC, $1, $2, $3", "v1v1v2", 2}, mad64_s, 3},
    {{"v_lshlrev_b64 $0, $1, $2", "v1v2", 2}, shl64, 3},
    {{"v_ashrrev_i64 $0, $1, $2", "v1v2", 2}, sar64, 3},
    {{"v_mul_hi_i32 $0, $1, $2", "v1v1", 1}, mul_hi_s, 3},
    {{"v_mul_i32_i24 $0, $1, $2", "v1v1", 1}, mul24, 3},
    {{"v_sad_u8 $0, $1, $2, $3", "v1v1v1", 1}, sad8, 3},
    {{"v_lshl_add_u64 $0, $1, $2, $3", "v2v1v2", 2}, lshl_add64, 4},
    {{"v_ffbh_u32 $0, $1", "v1", 1}, count_leading, 1},
    {{"v_clz_i32_u32 $0, $1", "v1", 1}, count_leading, 2},
    {{"v_ffbh_i32 $0, $1", "v1", 1}, sign_leading, 1},
    {{"v_cls_i32 $0, $1", "v1", 1}, sign_leading, 2},
    {{"v_pk_add_i16 $0, $1, $2 clamp", "v1v1", 1}, pk_add_clamp, 3},
    {{"v_pk_mul_lo_u16 $0, $1, $2 op_sel:[1,0] op_sel_hi:[0,1]", "v1v1", 1}, pk_mul_swapped, 3},
    {{"v_dot4_i32_i8 $0, $1, $2, $3 clamp", "v1v1v1", 1}, dot4_s, 1},
    {{"v_dot4_i32_iu8 $0, $1, $2, $3 neg_lo:[1,1,0] clamp", "v1v1v1", 1}, dot4_s, 2},
    {{"v_add_co_u32 $0, VCC, $1, $2\nv_mov_b32 $0, $1", "v1v1", 1}, NULL, 0},
    {{"v_ashr_pk_i8_i32 $0, $1, $2, $3\nv_and_b32 $0, 0xffff, $0", "v1v1v1", 1}, pack_ashr, 8},
    {{"v_bitop3_b32 $0, $1, $2, $3 bitop3:0xca", "v1v1v1", 1}, mux, 8},
};

/* A 64-bit sum by halves: the operand syntax differs between generations. */
static const rig_case chains[] = {
    {"v_add_co_u32 $0, vcc, $1, $3\nv_addc_co_u32 $0, vcc, $2, $4, vcc", "v1v1v1v1", 1},
    {"v_sub_co_u32 $0, vcc, $1, $3\nv_subb_co_u32 $0, vcc, $2, $4, vcc", "v1v1v1v1", 1},
    {"v_add_co_u32 $0, vcc_lo, $1, $3\nv_add_co_ci_u32 $0, vcc_lo, $2, $4, vcc_lo", "v1v1v1v1", 1},
    {"v_sub_co_u32 $0, vcc_lo, $1, $3\nv_sub_co_ci_u32 $0, vcc_lo, $2, $4, vcc_lo", "v1v1v1v1", 1},
};

static bool applies(const int_case *c)
{
    int gen = rig_gen() == 9 ? 1 : 2;
    if (c->gens & 4)
        return rig_is("gfx942") || rig_is("gfx950");
    if (c->gens & 8)
        return rig_is("gfx950");
    return c->gens & gen;
}

static uint32_t any_value(void)
{
    static const uint32_t special[] = {0,      1,      ~0u, 0x7fffffff, 0x80000000, 0x8000,
                                       0x7fff, 0xffff, 31,  32,         0x80808080, 0x0c0d0b08};
    uint32_t r = rig_random();
    return r & 1 ? rig_random() : special[(r >> 1) % 12];
}

static size_t regs_of(const char *ins)
{
    size_t n = 0;
    for (; *ins; ins += 2)
        n += (size_t)(ins[1] - '0');
    return n;
}

START_TEST(integer_ops)
{
    rig_case list[64];
    const int_case *from[64];
    size_t n = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (applies(&cases[i])) {
            from[n] = &cases[i];
            list[n++] = cases[i].c;
        }
    rig_module *m = rig_build(list, n);
    for (size_t k = 0; k < n; k++) {
        size_t regs = regs_of(list[k].ins);
        for (int round = 0; round < 30; round++) {
            uint32_t in[8 * RIG_LANES], out[2 * RIG_LANES];
            for (size_t i = 0; i < regs * RIG_LANES; i++)
                in[i] = any_value();
            rig_run(m, k, in, regs, out, (size_t)list[k].out);
            for (int l = 0; l < RIG_LANES; l++) {
                uint32_t x[8];
                for (size_t r = 0; r < regs; r++)
                    x[r] = in[r * RIG_LANES + (size_t)l];
                uint64_t want = from[k]->want(x), got = out[l];
                if (list[k].out == 2)
                    got |= (uint64_t)out[RIG_LANES + l] << 32;
                ck_assert_msg(got == want, "%s: %08x %08x %08x %08x: %llx, expected %llx",
                              list[k].text, x[0], x[1], x[2], x[3], (unsigned long long)got,
                              (unsigned long long)want);
            }
        }
    }
    rig_free(m);
}
END_TEST

START_TEST(carries)
{
    rig_module *m = rig_build(chains + (rig_gen() == 9 ? 0 : 2), 2);
    reference want[] = {carry_chain, borrow_chain};
    for (size_t k = 0; k < 2; k++)
        for (int round = 0; round < 30; round++) {
            uint32_t in[4 * RIG_LANES], out[RIG_LANES];
            for (int i = 0; i < 4 * RIG_LANES; i++)
                in[i] = any_value();
            rig_run(m, k, in, 4, out, 1);
            for (int l = 0; l < RIG_LANES; l++) {
                uint32_t x[4];
                for (int r = 0; r < 4; r++)
                    x[r] = in[r * RIG_LANES + l];
                ck_assert_uint_eq(out[l], (uint32_t)(want[k](x) >> 32));
            }
        }
    rig_free(m);
}
END_TEST

/* SDWA: selects, sign extension, what happens to the rest of the result. */
START_TEST(sdwa)
{
    static const rig_case c[] = {
        {"v_add_u32_sdwa $0, sext($2), $3 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_2 "
         "src1_sel:WORD_1",
         "+1v1v1", 1},
        {"v_add_u32_sdwa $0, $2, $3 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_3 "
         "src1_sel:BYTE_0",
         "+1v1v1", 1},
        {"v_add_u32_sdwa $0, $2, $3 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:WORD_0 "
         "src1_sel:DWORD",
         "+1v1v1", 1},
        {"v_add_u32_sdwa $0, $2, $3 dst_sel:BYTE_1 dst_unused:UNUSED_SEXT src0_sel:DWORD "
         "src1_sel:DWORD",
         "+1v1v1", 1},
    };
    if (rig_gen() != 9)
        return;
    rig_module *m = rig_build(c, 4);
    uint32_t in[3 * RIG_LANES], out[RIG_LANES];
    for (int i = 0; i < 3 * RIG_LANES; i++)
        in[i] = rig_random();
    for (size_t k = 0; k < 4; k++) {
        rig_run(m, k, in, 3, out, 1);
        for (int l = 0; l < RIG_LANES; l++) {
            uint32_t old = in[l], a = in[64 + l], b = in[128 + l];
            uint32_t want[] = {
                (uint32_t)(int8_t)(a >> 16) + (b >> 16),
                (old & 0xffff00ff) | ((((a >> 24) + b) & 255) << 8),
                ((a & 0xffff) + b) << 16,
                (uint32_t)(int8_t)(a + b) << 8,
            };
            ck_assert_uint_eq(out[l], want[k]);
        }
    }
    rig_free(m);
}
END_TEST

static void fill(TCase *tc)
{
    tcase_add_test(tc, integer_ops);
    tcase_add_test(tc, carries);
    tcase_add_test(tc, sdwa);
}

int main(void)
{
    return rig_main("sim_int", fill);
}
