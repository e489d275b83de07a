/* Moves between lanes: DPP, permutes, swizzles, lane reads and writes; comparisons and EXEC. */
#include "sim_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INVALID = -1 };

/* The source lane of lane i in a row control with argument n. */
typedef int (*row_fn)(int i, int n);

static int shl(int i, int n)
{
    return (i & 15) + n < 16 ? i + n : INVALID;
}

static int shr(int i, int n)
{
    return (i & 15) - n >= 0 ? i - n : INVALID;
}

static int ror(int i, int n)
{
    return (i & ~15) | ((i + 16 - n) & 15);
}

static int mirror(int i, int n)
{
    (void)n;
    return i ^ 15;
}

static int half_mirror(int i, int n)
{
    (void)n;
    return i ^ 7;
}

static int quad(int i, int n)
{
    (void)n;
    static const int p[] = {3, 0, 0, 2};
    return (i & ~3) | p[i & 3];
}

static int newbcast(int i, int n)
{
    return (i & ~15) | n;
}

static int bcast15(int i, int n)
{
    (void)n;
    return i < 16 ? INVALID : (i & ~15) - 1;
}

static int bcast31(int i, int n)
{
    (void)n;
    return i < 32 ? INVALID : 31;
}

static int wave_shl(int i, int n)
{
    (void)n;
    return i == 63 ? INVALID : i + 1;
}

static int wave_ror(int i, int n)
{
    (void)n;
    return (i + 63) % 64;
}

static int xmask(int i, int n)
{
    return i ^ n;
}

static int dpp8(int i, int n)
{
    (void)n;
    static const int p[] = {7, 1, 2, 0, 4, 4, 6, 3};
    return (i & ~7) | p[i & 7];
}

typedef struct dpp_case {
    const char *control;
    row_fn source;
    int n;
    int gens; /* 1: gfx9, 2: later */
} dpp_case;

static const dpp_case controls[] = {
    {"row_shl:1", shl, 1, 3},
    {"row_shl:15", shl, 15, 3},
    {"row_shr:1", shr, 1, 3},
    {"row_shr:8", shr, 8, 3},
    {"row_ror:4", ror, 4, 3},
    {"row_mirror", mirror, 0, 3},
    {"row_half_mirror", half_mirror, 0, 3},
    {"quad_perm:[3,0,0,2]", quad, 0, 3},
    {"row_newbcast:5", newbcast, 5, 1},
    {"row_bcast:15", bcast15, 0, 1},
    {"row_bcast:31", bcast31, 0, 1},
    {"wave_shl:1", wave_shl, 0, 1},
    {"wave_ror:1", wave_ror, 0, 1},
    {"row_share:5", newbcast, 5, 2},
    {"row_xmask:10", xmask, 10, 2},
};

static const struct {
    const char *text;
    unsigned rows, banks;
    bool bound;
} masks[] = {
    {" row_mask:0xf bank_mask:0xf", 15, 15, false},
    {" row_mask:0xa bank_mask:0xf", 10, 15, false},
    {" row_mask:0xf bank_mask:0x5 bound_ctrl:1", 15, 5, true},
    {" row_mask:0xf bank_mask:0xf bound_ctrl:1", 15, 15, true},
};

/* EXEC for the masked runs, in both halves the same so that wave32 sees it too. */
#define EXEC_LOW 0xb7fe7fadu

static bool exec_on(int lane)
{
    return EXEC_LOW >> (lane & 31) & 1;
}

/*
 * v_add with the shuffled operand, in place: the destination is also the source. Lanes that are
 * not written keep the old value.
 */
static void check_dpp(const dpp_case *c, size_t mask, bool masked, const uint32_t *in,
                      const uint32_t *out)
{
    int size = rig_wave();
    for (int i = 0; i < RIG_LANES; i++) {
        int base = i / size * size, s = c->source(i - base, c->n);
        bool row = masks[mask].rows >> ((i - base) / 16) & 1;
        bool bank = masks[mask].banks >> ((i & 15) / 4) & 1;
        bool valid = s != INVALID && (!masked || exec_on(s));
        uint32_t want = in[i];
        bool write = row && bank && (valid || masks[mask].bound) && (!masked || exec_on(i));
        if (write)
            want = (valid ? in[base + s] : 0) + in[RIG_LANES + i];
        ck_assert_msg(out[i] == want, "%s%s exec %d lane %d: %x, expected %x", c->control,
                      masks[mask].text, masked, i, out[i], want);
    }
}

#define SET_EXEC                                                                                   \
    "s_mov_b64 s[20:21], exec\ns_mov_b32 exec_lo, 0xb7fe7fad\ns_mov_b32 exec_hi, 0xb7fe7fad\n"
#define RESTORE_EXEC "\ns_mov_b64 exec, s[20:21]"
#define SET_EXEC32 "s_mov_b32 s20, exec_lo\ns_mov_b32 exec_lo, 0xb7fe7fad\n"
#define RESTORE_EXEC32 "\ns_mov_b32 exec_lo, s20"

START_TEST(dpp)
{
    rig_case list[160];
    size_t from[160][3], n = 0;
    bool wide = rig_wave() == 64;
    for (size_t i = 0; i < sizeof controls / sizeof controls[0]; i++)
        for (size_t k = 0; k < 4; k++)
            for (size_t masked = 0; masked < 2; masked++) {
                char text[400];
                if (!(controls[i].gens & (rig_gen() == 9 ? 1 : 2)))
                    continue;
                snprintf(text, sizeof text, "%ss_nop 4\n%s_dpp $0, $0, $2 %s%s%s",
                         !masked ? ""
                         : wide  ? SET_EXEC
                                 : SET_EXEC32,
                         rig_gen() == 9 ? "v_add_u32" : "v_add_nc_u32", controls[i].control,
                         masks[k].text,
                         !masked ? ""
                         : wide  ? RESTORE_EXEC
                                 : RESTORE_EXEC32);
                from[n][0] = i;
                from[n][1] = k;
                from[n][2] = masked;
                list[n++] = (rig_case){strdup(text), "+1v1", 1};
            }
    rig_module *m = rig_build(list, n);
    uint32_t in[2 * RIG_LANES], out[RIG_LANES];
    for (int i = 0; i < 2 * RIG_LANES; i++)
        in[i] = rig_random();
    for (size_t k = 0; k < n; k++) {
        rig_run(m, k, in, 2, out, 1);
        check_dpp(&controls[from[k][0]], from[k][1], from[k][2], in, out);
        free((char *)list[k].text);
    }
    rig_free(m);
}
END_TEST

START_TEST(dpp8_and_fi)
{
    static const rig_case c[] = {
        {"v_add_nc_u32_dpp $0, $0, $2 dpp8:[7,1,2,0,4,4,6,3]", "+1v1", 1},
        {SET_EXEC32 "v_add_nc_u32_dpp $0, $0, $2 row_shl:1 row_mask:0xf bank_mask:0xf "
                    "bound_ctrl:1 fi:1" RESTORE_EXEC32,
         "+1v1", 1},
    };
    if (rig_gen() == 9)
        return;
    rig_module *m = rig_build(c, 2);
    uint32_t in[2 * RIG_LANES], out[RIG_LANES];
    for (int i = 0; i < 2 * RIG_LANES; i++)
        in[i] = rig_random();
    rig_run(m, 0, in, 2, out, 1);
    for (int i = 0; i < RIG_LANES; i++)
        ck_assert_uint_eq(out[i], in[dpp8(i, 0)] + in[64 + i]);
    rig_run(m, 1, in, 2, out, 1);
    for (int i = 0; i < RIG_LANES; i++) {
        int s = shl(i, 1);
        uint32_t want = (s == INVALID ? 0 : in[s]) + in[64 + i];
        ck_assert_uint_eq(out[i], exec_on(i) ? want : in[i]);
    }
    rig_free(m);
}
END_TEST

/* Lane exchange through the LDS unit. */
START_TEST(ds_exchange)
{
    static const rig_case c9[] = {
        {"ds_bpermute_b32 $0, $1, $2 offset:8\ns_waitcnt lgkmcnt(0)", "v1v1", 1},
        {"ds_permute_b32 $0, $1, $2\ns_waitcnt lgkmcnt(0)", "v1v1", 1},
        {"ds_swizzle_b32 $0, $1 offset:swizzle(QUAD_PERM,2,3,0,1)\ns_waitcnt lgkmcnt(0)", "v1", 1},
        {"ds_swizzle_b32 $0, $1 offset:swizzle(BITMASK_PERM,\\2200p11\\22)\ns_waitcnt lgkmcnt(0)",
         "v1", 1},
        {"ds_swizzle_b32 $0, $1 offset:swizzle(SWAP,16)\ns_waitcnt lgkmcnt(0)", "v1", 1},
        {"ds_swizzle_b32 $0, $1 offset:swizzle(REVERSE,8)\ns_waitcnt lgkmcnt(0)", "v1", 1},
        {"ds_swizzle_b32 $0, $1 offset:swizzle(BROADCAST,8,3)\ns_waitcnt lgkmcnt(0)", "v1", 1},
    };
    rig_case c[7];
    memcpy(c, c9, sizeof c);
    char *texts[7];
    for (int i = 0; i < 7; i++) { /* gfx12 waits by another name */
        texts[i] = strdup(c[i].text);
        char *w = strstr(texts[i], "s_waitcnt lgkmcnt(0)");
        if (rig_gen() == 12)
            strcpy(w, "s_wait_dscnt 0x0");
        c[i].text = texts[i];
    }
    rig_module *m = rig_build(c, 7);
    uint32_t in[2 * RIG_LANES], out[RIG_LANES];
    int size = rig_wave();
    for (int i = 0; i < RIG_LANES; i++) {
        in[i] = rig_random() & 0xfc;
        in[64 + i] = rig_random();
    }
    rig_run(m, 0, in, 2, out, 1);
    for (int i = 0; i < RIG_LANES; i++) {
        int base = i / size * size;
        ck_assert_uint_eq(out[i], in[64 + base + (int)(in[i] + 8) / 4 % size]);
    }
    for (int i = 0; i < RIG_LANES; i++)
        in[i] = (uint32_t)((i * 5 + 3) & 63) * 4;
    rig_run(m, 1, in, 2, out, 1);
    for (int i = 0; i < RIG_LANES; i++) {
        int base = i / size * size;
        ck_assert_uint_eq(out[base + (int)in[i] / 4 % size], in[64 + i]);
    }
    for (int k = 2; k < 7; k++) {
        rig_run(m, (size_t)k, in, 1, out, 1);
        for (int i = 0; i < RIG_LANES; i++) {
            int s = k == 2   ? i ^ 2
                    : k == 3 ? (i & 0x24) | 3 | 0
                    : k == 4 ? i ^ 16
                    : k == 5 ? i ^ 7
                             : (i & ~7) | 3;
            if (k == 3) /* bits from the top: 0, 0, preserve, 1, 1 within 32 lanes */
                s = (i & 32) | (i & 4) | 3;
            ck_assert_msg(out[i] == in[s], "swizzle %d lane %d", k, i);
        }
    }
    for (int i = 0; i < 7; i++)
        free(texts[i]);
    rig_free(m);
}
END_TEST

START_TEST(lane_reads)
{
    static const rig_case c[] = {
        {"v_readlane_b32 s20, $1, 5\nv_mov_b32 $0, s20", "v1", 1},
        {"s_mov_b32 s20, 7\nv_mov_b32 $0, $1\ns_nop 4\nv_writelane_b32 $0, s20, 9", "v1", 1},
        {"v_cmp_gt_u32 VCC, 20, $1\ns_mov_b64 s[20:21], exec\ns_mov_b64 exec, vcc\n"
         "v_readfirstlane_b32 s22, $2\ns_mov_b64 exec, s[20:21]\nv_mov_b32 $0, s22",
         "v1v1", 1},
    };
    rig_module *m = rig_build(c, rig_wave() == 64 ? 3 : 2);
    uint32_t in[2 * RIG_LANES], out[RIG_LANES];
    int size = rig_wave();
    for (int i = 0; i < RIG_LANES; i++) {
        in[i] = i < 13 ? 100 : (uint32_t)i;
        in[64 + i] = rig_random();
    }
    rig_run(m, 0, in, 1, out, 1);
    for (int i = 0; i < RIG_LANES; i++)
        ck_assert_uint_eq(out[i], in[i / size * size + 5]);
    rig_run(m, 1, in, 1, out, 1);
    for (int i = 0; i < RIG_LANES; i++)
        ck_assert_uint_eq(out[i], i % size == 9 ? 7 : in[i]);
    if (size == 64) {
        rig_run(m, 2, in, 2, out, 1);
        for (int i = 0; i < RIG_LANES; i++)
            ck_assert_uint_eq(out[i], in[64 + 13]);
    }
    rig_free(m);
}
END_TEST

/* A comparison clears the bits of lanes that are off; v_cmpx narrows EXEC. */
START_TEST(compare_and_exec)
{
    static const rig_case c9[] = {
        {SET_EXEC "s_mov_b64 vcc, -1\nv_cmp_lt_u32 vcc, $1, $2" RESTORE_EXEC
                  "\nv_cndmask_b32 $0, 0, 1, vcc",
         "v1v1", 1},
        {SET_EXEC "v_cmpx_lt_u32 vcc, $1, $2\ns_mov_b64 s[22:23], exec" RESTORE_EXEC
                  "\nv_cndmask_b32_e64 $0, 0, 1, s[22:23]",
         "v1v1", 1},
    };
    static const rig_case c11[] = {
        {SET_EXEC32 "s_mov_b32 vcc_lo, -1\nv_cmp_lt_u32 vcc_lo, $1, $2" RESTORE_EXEC32
                    "\nv_cndmask_b32 $0, 0, 1, vcc_lo",
         "v1v1", 1},
        {SET_EXEC32 "v_cmpx_lt_u32 $1, $2\ns_mov_b32 s22, exec_lo" RESTORE_EXEC32
                    "\nv_cndmask_b32_e64 $0, 0, 1, s22",
         "v1v1", 1},
    };
    rig_module *m = rig_build(rig_gen() == 9 ? c9 : c11, 2);
    uint32_t in[2 * RIG_LANES], out[RIG_LANES];
    for (int i = 0; i < 2 * RIG_LANES; i++)
        in[i] = rig_random();
    for (size_t k = 0; k < 2; k++) {
        rig_run(m, k, in, 2, out, 1);
        for (int i = 0; i < RIG_LANES; i++)
            ck_assert_uint_eq(out[i], exec_on(i) && in[i] < in[64 + i]);
    }
    rig_free(m);
}
END_TEST

START_TEST(permlane)
{
    static const rig_case c11[] = {
        {"s_mov_b32 s20, 0x76543210\ns_mov_b32 s21, 0x0189abcd\nv_permlane16_b32 $0, $1, s20, s21",
         "v1", 1},
        {"s_mov_b32 s20, 0x76543210\ns_mov_b32 s21, 0x0189abcd\n"
         "v_permlanex16_b32 $0, $1, s20, s21",
         "v1", 1},
    };
    static const rig_case c950[] = {
        {"v_mov_b32 $0, $1\nv_mov_b32 v40, $2\nv_permlane32_swap_b32 $0, v40", "v1v1", 1},
        {"v_mov_b32 v41, $1\nv_mov_b32 $0, $2\nv_permlane16_swap_b32 v41, $0", "v1v1", 1},
    };
    static const int pick[] = {0, 1, 2, 3, 4, 5, 6, 7, 13, 12, 11, 10, 9, 8, 1, 0};
    uint32_t in[2 * RIG_LANES], out[RIG_LANES];
    for (int i = 0; i < 2 * RIG_LANES; i++)
        in[i] = rig_random();
    if (rig_gen() > 9) {
        rig_module *m = rig_build(c11, 2);
        for (size_t k = 0; k < 2; k++) {
            rig_run(m, k, in, 1, out, 1);
            for (int i = 0; i < RIG_LANES; i++)
                ck_assert_uint_eq(out[i], in[((i & ~15) ^ (k ? 16 : 0)) + pick[i & 15]]);
        }
        rig_free(m);
    } else if (rig_is("gfx950")) {
        rig_module *m = rig_build(c950, 2);
        rig_run(m, 0, in, 2, out, 1);
        for (int i = 0; i < RIG_LANES; i++)
            ck_assert_uint_eq(out[i], i < 32 ? in[i] : in[64 + i - 32]);
        rig_run(m, 1, in, 2, out, 1);
        for (int i = 0; i < RIG_LANES; i++)
            ck_assert_uint_eq(out[i], i & 16 ? in[64 + i] : in[i + 16]);
        rig_free(m);
    }
}
END_TEST

static void fill(TCase *tc)
{
    tcase_add_test(tc, dpp);
    tcase_add_test(tc, dpp8_and_fi);
    tcase_add_test(tc, ds_exchange);
    tcase_add_test(tc, lane_reads);
    tcase_add_test(tc, compare_and_exec);
    tcase_add_test(tc, permlane);
}

int main(void)
{
    return rig_main("sim_lane", fill);
}
