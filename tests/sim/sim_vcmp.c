/* Comparisons: v_cmp_<condition>_<type> and v_cmp_class. */
#include "sim_lane.h"

#define CMP(name, e)                                                                               \
    VFN(name)                                                                                      \
    {                                                                                              \
        EACH(c) d[i] = (e) ? ~0u : 0;                                                              \
    }

/* Floats: the six ordered conditions, their negations, and whether the pair is ordered. */
#define CMP_FLOAT(t, X, Y)                                                                         \
    CMP(lt_##t, X < Y)                                                                             \
    CMP(eq_##t, X == Y)                                                                            \
    CMP(le_##t, X <= Y)                                                                            \
    CMP(gt_##t, X > Y)                                                                             \
    CMP(lg_##t, X<Y || X> Y)                                                                       \
    CMP(ge_##t, X >= Y)                                                                            \
    CMP(o_##t, X == X && Y == Y)                                                                   \
    CMP(u_##t, X != X || Y != Y)                                                                   \
    CMP(nge_##t, !(X >= Y))                                                                        \
    CMP(nlg_##t, !(X < Y || X > Y))                                                                \
    CMP(ngt_##t, !(X > Y)) CMP(nle_##t, !(X <= Y)) CMP(neq_##t, X != Y) CMP(nlt_##t, !(X < Y))
#define CMP_INT(t, X, Y)                                                                           \
    CMP(lt_##t, X < Y)                                                                             \
    CMP(eq_##t, X == Y)                                                                            \
    CMP(le_##t, X <= Y) CMP(gt_##t, X > Y) CMP(ne_##t, X != Y) CMP(ge_##t, X >= Y)

#define FA u2f(A)
#define FB u2f(B)
#define HFA h2f(A)
#define HFB h2f(B)
#define DA u2d(Q(0))
#define DB u2d(Q(1))
#define I16A (int16_t) A
#define I16B (int16_t) B
#define U16A (uint16_t) A
#define U16B (uint16_t) B
#define I32A (int32_t) A
#define I32B (int32_t) B
#define I64A (int64_t) Q(0)
#define I64B (int64_t) Q(1)

CMP_FLOAT(f32, FA, FB)
CMP_FLOAT(f16, HFA, HFB)
CMP_FLOAT(f64, DA, DB)
CMP_INT(i16, I16A, I16B)
CMP_INT(u16, U16A, U16B)
CMP_INT(i32, I32A, I32B)
CMP_INT(u32, A, B)
CMP_INT(i64, I64A, I64B)
CMP_INT(u64, Q(0), Q(1))
CMP(always, A || true)
CMP(never, A && false)

/* One bit each: sNaN, qNaN, -inf, -normal, -denormal, -0, +0, +denormal, +normal, +inf. */
static inline uint32_t class_bit(bool sign, uint32_t exp, uint32_t top, uint64_t man, bool quiet)
{
    if (exp == top && man)
        return quiet ? 2 : 1;
    uint32_t k = exp == top ? 0 : exp ? 1 : man ? 2 : 3;
    return sign ? 4u << k : 0x200u >> k;
}

static inline uint32_t class_f32(uint32_t x)
{
    return class_bit(x >> 31, x >> 23 & 255, 255, x & 0x7fffff, x >> 22 & 1);
}

static inline uint32_t class_f16(uint32_t x)
{
    return class_bit(x >> 15 & 1, x >> 10 & 31, 31, x & 0x3ff, x >> 9 & 1);
}

static inline uint32_t class_f64(uint64_t x)
{
    return class_bit(x >> 63, x >> 52 & 2047, 2047, x & UINT64_C(0xfffffffffffff), x >> 51 & 1);
}
CMP(class32, class_f32(A) & B)
CMP(class16, class_f16(A) & B)
CMP(class64, class_f64(Q(0)) & B)

typedef struct cmp_entry {
    const char *cond;
    valu_fn f32, f16, f64, i16, u16, i32, u32, i64, u64;
} cmp_entry;

#define ALL(k) k##_f32, k##_f16, k##_f64, k##_i16, k##_u16, k##_i32, k##_u32, k##_i64, k##_u64
#define FLOATS(k) k##_f32, k##_f16, k##_f64, NULL, NULL, NULL, NULL, NULL, NULL
#define INTS(k) NULL, NULL, NULL, k##_i16, k##_u16, k##_i32, k##_u32, k##_i64, k##_u64

static const cmp_entry conds[] = {
    {"lt", ALL(lt)},
    {"eq", ALL(eq)},
    {"le", ALL(le)},
    {"gt", ALL(gt)},
    {"ge", ALL(ge)},
    {"lg", FLOATS(lg)},
    {"o", FLOATS(o)},
    {"u", FLOATS(u)},
    {"nge", FLOATS(nge)},
    {"nlg", FLOATS(nlg)},
    {"ngt", FLOATS(ngt)},
    {"nle", FLOATS(nle)},
    {"neq", FLOATS(neq)},
    {"nlt", FLOATS(nlt)},
    {"ne", INTS(ne)},
    {"t", always, always, always, always, always, always, always, always, always},
    {"tru", always, always, always, always, always, always, always, always, always},
    {"f", never, never, never, never, never, never, never, never, never},
};

/* The function of "v_cmp_gt_f32"; *type: the operands' format letter. */
valu_fn cmp_lookup(const char *m, char *type)
{
    const char *cond = m + (strncmp(m, "v_cmpx_", 7) ? 6 : 7);
    const char *t = strrchr(m, '_');
    static const char *const types[] = {"_f32", "_f16", "_f64", "_i16", "_u16",
                                        "_i32", "_u32", "_i64", "_u64"};
    static const char letters[] = "fhdwwiilq";
    size_t ti = 0;
    while (ti < ARRAY_LEN(types) && (!t || strcmp(t, types[ti])))
        ti++;
    if (ti == ARRAY_LEN(types) || t < cond)
        return NULL;
    *type = letters[ti];
    size_t n = (size_t)(t - cond);
    if (n == 5 && !strncmp(cond, "class", 5))
        return ti == 0 ? class32 : ti == 1 ? class16 : ti == 2 ? class64 : NULL;
    for (size_t i = 0; i < ARRAY_LEN(conds); i++) {
        const cmp_entry *e = &conds[i];
        if (strlen(e->cond) != n || strncmp(e->cond, cond, n))
            continue;
        const valu_fn fns[] = {e->f32, e->f16, e->f64, e->i16, e->u16,
                               e->i32, e->u32, e->i64, e->u64};
        return fns[ti];
    }
    return NULL;
}
