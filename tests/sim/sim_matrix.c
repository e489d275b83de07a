/*
 * Matrix instructions. Type letters: f fp32, d fp64, h fp16, b bf16, i int8, n int4, p fp8, q bf8,
 * x xf32, and 0 to 4 for the formats that cbsz and blgp of f8f6f4 name.
 *
 * fp32 and fp64 are chains of fused multiply-adds over k, as the hardware's are. For the narrow
 * types the products are exact and their sum is rounded once per instruction; the hardware's inner
 * order is not documented, and results may differ from it in the last place.
 */
#include "sim.h"
#include "sim_bits.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_K 128

typedef struct tile {
    double a[32][MAX_K], b[MAX_K][32], d[32][32];
} tile;

static bool type_of(const char *s, char *out)
{
    static const struct {
        const char *name;
        char letter;
    } t[] = {{"f32", 'f'}, {"f64", 'd'},  {"f16", 'h'},   {"bf16_1k", 'b'}, {"bf16", 'b'},
             {"i8", 'i'},  {"iu8", 'i'},  {"iu4", 'n'},   {"fp8", 'p'},     {"bf8", 'q'},
             {"i32", 's'}, {"xf32", 'x'}, {"f8f6f4", '0'}};
    for (size_t i = 0; i < ARRAY_LEN(t); i++)
        if (!strcmp(s, t[i].name)) {
            *out = t[i].letter;
            return true;
        }
    return false;
}

static int type_bits(char t)
{
    switch (t) {
    case 'd':
        return 64;
    case 'f':
    case 'x':
    case 's':
        return 32;
    case 'h':
    case 'b':
        return 16;
    case '2':
    case '3':
        return 6;
    case 'n':
    case '4':
        return 4;
    default:
        return 8;
    }
}

/* "f32_32x32x8_f16", "f32_16x16x4_4b_bf16", "f32_32x32x8f16", "f32_16x16x32_fp8_bf8" */
static bool parse_shape(const char *s, matrix_info *m)
{
    char d[8], rest[32] = "", second[16] = "";
    int n = 0;
    if (sscanf(s, "%7[a-z0-9]_%dx%dx%d%n", d, &m->m, &m->n, &m->k, &n) != 4 ||
        !type_of(d, &m->d_type))
        return false;
    snprintf(rest, sizeof rest, "%s", s + n);
    char *r = rest;
    if (*r == '_')
        r++;
    if (isdigit((unsigned char)*r) && strstr(r, "b_"))
        r = strchr(r, '_') + 1;
    if (type_of(r, &m->a_type)) {
        m->b_type = m->a_type;
        return true;
    }
    char *mid = strchr(r, '_');
    if (!mid)
        return false;
    snprintf(second, sizeof second, "%s", mid + 1);
    *mid = 0;
    return type_of(r, &m->a_type) && type_of(second, &m->b_type);
}

static int mod_number(const parsed *p, const char *name)
{
    const char *v = parsed_mod(p, name);
    return v ? atoi(v) : 0;
}

bool decode_matrix(inst *in, const parsed *p, const char *name)
{
    matrix_info *m = calloc(1, sizeof *m);
    if (!m)
        return false;
    in->mat = m;
    bool wmma = !strncmp(name, "v_wmma_", 7);
    if (!wmma && strncmp(name, "v_mfma_", 7))
        return false; /* sparse forms are not implemented */
    const char *s = name + 7;
    m->scaled = !strncmp(s, "scale_", 6);
    if (m->scaled)
        s += 6;
    if (!parse_shape(s, m) || p->nops < (m->scaled ? 6 : 4))
        return false;
    m->cbsz = mod_number(p, "cbsz");
    m->abid = mod_number(p, "abid");
    m->blgp = mod_number(p, "blgp");
    if (m->a_type == '0') {
        m->a_type = (char)('0' + m->cbsz);
        m->b_type = (char)('0' + m->blgp);
        if (m->cbsz > 4 || m->blgp > 4)
            return false;
    } else if (m->blgp && m->a_type != 'd') {
        return false; /* lane group patterns of B */
    }
    parse_operand(p->ops[0], &in->dst[0]);
    decode_note_write(in, &in->dst[0], in->dst[0].n);
    for (int i = 0; i < (m->scaled ? 5 : 3); i++) {
        operand *o = &in->src[i];
        parse_operand(p->ops[1 + i], o);
        if (o->kind == OK_IMM && o->fp)
            o->imm = m->d_type == 'd'   ? d2u(o->f)
                     : m->d_type == 'h' ? f2h((float)o->f)
                                        : f2u((float)o->f);
        decode_note_read(in, o, o->n);
    }
    int elems = in->src[0].n * 32 / type_bits(m->a_type);
    m->blocks = wmma ? 1 : 64 * elems / (m->m * m->k);
    if (m->k > MAX_K || m->m > 32 || m->blocks < 1)
        return false;
    const char *neg = parsed_mod(p, "neg");
    for (int i = 0; neg && i < 3; i++)
        in->neg_lo |= (uint8_t)((neg[1 + 2 * i] == '1') << i);
    in->cls = CLS_MFMA;
    in->exec = wmma ? exec_wmma : exec_mfma;
    return true;
}

static double flush_half(double x, double least)
{
    return fabs(x) < least ? 0.0 * x : x;
}

/* Wider formats; the small ones have tables. */
static double decode_bits(uint64_t bits, char type, bool flush)
{
    double x;
    switch (type) {
    case 'd':
        return u2d(bits);
    case 'f':
        return (double)u2f((uint32_t)bits);
    case 'x':
        return (double)u2f((uint32_t)bits & 0xffffe000);
    case 'h':
        x = (double)h2f((uint32_t)bits);
        return flush ? flush_half(x, 0x1p-14) : x;
    case 'b':
        x = (double)bf2f((uint32_t)bits);
        return flush ? flush_half(x, 0x1p-126) : x;
    default:
        return (double)(int8_t)bits;
    }
}

/* Element e of a lane's packed operand. */
static uint64_t element(wave *w, const operand *o, int lane, int e, int bits)
{
    int at = e * bits, reg = at / 32, sh = at % 32;
    if (o->kind != OK_VGPR)
        return 0;
    uint64_t x = w->v[o->reg + reg][lane];
    if (sh + bits > 32)
        x |= (uint64_t)w->v[o->reg + reg + 1][lane] << 32;
    x >>= sh;
    return bits == 64 ? x : x & ((UINT64_C(1) << bits) - 1);
}

/* The k of element e in lane group g: 8-bit data of f8f6f4 come in two runs of 16. */
static int element_k(char type, int g, int e, int elems, int groups)
{
    if (type == '0' || type == '1')
        return 16 * g + (e & 15) + (e >> 4) * 16 * groups;
    return g * elems + e;
}

static double e8m0(uint32_t s)
{
    return s == 255 ? NAN : ldexp(1.0, (int)s - 127);
}

static double scale_of(wave *w, const inst *in, int which, int row, int kb)
{
    const matrix_info *m = in->mat;
    const operand *o = &in->src[3 + which];
    int byte = (in->op_sel >> which & 1) | (in->op_sel_hi >> which & 1) << 1;
    int lane = row + m->m * kb;
    uint32_t x = o->kind == OK_VGPR ? w->v[o->reg][lane] : (uint32_t)read_scalar(w, o);
    return e8m0(x >> (8 * byte) & 255);
}

/* Values of the formats of at most eight bits, by code. */
static double small_values[7][256];
static pthread_once_t small_once = PTHREAD_ONCE_INIT;

static void small_fill(void)
{
    for (int f = 0; f < 7; f++)
        for (uint32_t c = 0; c < 256; c++)
            small_values[f][c] = (double)small_to_float(c & ((1u << small_bits(f)) - 1), f);
}

static const double *small_table(char type)
{
    static const int fp8[] = {FMT_E4M3, FMT_E5M2, FMT_E2M3, FMT_E3M2, FMT_E2M1};
    bool fnuz = sim_chip()->fnuz;
    pthread_once(&small_once, small_fill);
    if (type == 'p')
        return small_values[fnuz ? FMT_E4M3_FNUZ : FMT_E4M3];
    if (type == 'q')
        return small_values[fnuz ? FMT_E5M2_FNUZ : FMT_E5M2];
    return type >= '0' && type <= '4' ? small_values[fp8[type - '0']] : NULL;
}

/* The elements of one lane, which all lie in one row of A or column of B. */
static void load_lane_elements(wave *w, const operand *o, int lane, char type, int elems,
                               double *out)
{
    int bits = type_bits(type);
    const double *table = small_table(type);
    bool flush = sim_chip()->is90a;
    if (table && bits == 8 && o->kind == OK_VGPR) {
        for (int e = 0; e < elems; e++)
            out[e] = table[w->v[o->reg + e / 4][lane] >> (8 * (e & 3)) & 255];
        return;
    }
    for (int e = 0; e < elems; e++) {
        uint64_t x = element(w, o, lane, e, bits);
        out[e] = table ? table[x] : decode_bits(x, type, flush);
    }
}

static void load_operand(wave *w, const inst *in, tile *t, int block, int which)
{
    const matrix_info *m = in->mat;
    char type = which ? m->b_type : m->a_type;
    const operand *o = &in->src[which];
    int rows = which ? m->n : m->m, src = block;
    int elems = m->m * m->k * m->blocks / 64, groups = 64 / (rows * m->blocks);
    bool neg = m->a_type == 'd' && (in->neg_lo >> which & 1);
    double x[MAX_K];
    if (!which && m->cbsz && m->blocks > 1)
        src = (block & ~((1 << m->cbsz) - 1)) + m->abid;
    for (int g = 0; g < groups; g++)
        for (int r = 0; r < rows; r++) {
            load_lane_elements(w, o, r + rows * (src + m->blocks * g), type, elems, x);
            for (int e = 0; e < elems; e++) {
                int k = element_k(type, g, e, elems, groups);
                double v = neg ? -x[e] : x[e];
                if (which)
                    t->b[k][r] = v;
                else
                    t->a[r][k] = v;
            }
        }
}

/* One scale for each row of A (column of B) and 32 of k. */
static void apply_scales(wave *w, const inst *in, tile *t)
{
    const matrix_info *m = in->mat;
    for (int kb = 0; kb < m->k / 32; kb++) {
        for (int i = 0; i < m->m; i++) {
            double s = scale_of(w, in, 0, i, kb);
            for (int k = 32 * kb; k < 32 * kb + 32; k++)
                t->a[i][k] *= s;
        }
        for (int j = 0; j < m->n; j++) {
            double s = scale_of(w, in, 1, j, kb);
            for (int k = 32 * kb; k < 32 * kb + 32; k++)
                t->b[k][j] *= s;
        }
    }
}

static void load_tile(wave *w, const inst *in, tile *t, int block)
{
    load_operand(w, in, t, block, 0);
    load_operand(w, in, t, block, 1);
    if (in->mat->scaled)
        apply_scales(w, in, t);
}

/* Register and lane of element (i, j) of the result. */
static void result_at(const matrix_info *m, int block, int i, int j, int *reg, int *lane)
{
    if (m->d_type == 'd') {
        /* fp64: rows go round the lane groups; 4x4 has one element a lane. */
        int groups = 64 / (m->n * m->blocks);
        *reg = i / groups + block * 0;
        *lane = m->blocks > 1 ? j + m->n * (block + m->blocks * i) : j + m->n * (i % groups);
        if (m->blocks > 1)
            *reg = 0;
        return;
    }
    if (m->m == 4) {
        *reg = i;
        *lane = j + 4 * block;
        return;
    }
    int groups = 64 / m->n, quad = i / 4;
    *reg = block * (m->m * m->n / 64) + 4 * (quad / groups) + i % 4;
    *lane = j + m->n * (quad % groups);
}

static uint64_t source_c(wave *w, const operand *o, int reg, int lane, bool wide)
{
    if (o->kind == OK_IMM)
        return o->imm;
    if (o->kind != OK_VGPR)
        return 0;
    if (!wide)
        return w->v[o->reg + reg][lane];
    return w->v[o->reg + 2 * reg][lane] | (uint64_t)w->v[o->reg + 2 * reg + 1][lane] << 32;
}

/* A chain of fused operations in the type of the result. */
static double chain(const tile *t, const matrix_info *m, int i, int j, double c)
{
    if (m->d_type == 'd') {
        for (int k = 0; k < m->k; k++)
            c = fma(t->a[i][k], t->b[k][j], c);
        return c;
    }
    float f = (float)c;
    for (int k = 0; k < m->k; k++)
        f = fmaf((float)t->a[i][k], (float)t->b[k][j], f);
    return (double)f;
}

static void multiply(tile *t, const matrix_info *m)
{
    for (int i = 0; i < m->m; i++)
        for (int k = 0; k < m->k; k++)
            for (int j = 0; j < m->n; j++)
                t->d[i][j] += t->a[i][k] * t->b[k][j];
}

static double initial_c(wave *w, const inst *in, int reg, int lane)
{
    const matrix_info *m = in->mat;
    uint64_t x = source_c(w, &in->src[2], reg, lane, m->d_type == 'd');
    double v = m->d_type == 'd'   ? u2d(x)
               : m->d_type == 's' ? (double)(int32_t)x
                                  : (double)u2f((uint32_t)x);
    return m->d_type == 'd' && in->neg_lo & 4 ? -v : v;
}

static uint32_t integer_result(double x, bool clamp)
{
    if (clamp)
        return x > 2147483647.0    ? INT32_MAX
               : x < -2147483648.0 ? 0x80000000u
                                   : (uint32_t)(int32_t)x;
    return (uint32_t)(uint64_t)(int64_t)x;
}

void exec_mfma(wave *w, const inst *in)
{
    const matrix_info *m = in->mat;
    static __thread tile t;
    uint32_t out[32][LANES];
    bool exact = m->a_type == 'f' || m->a_type == 'd';
    for (int b = 0; b < m->blocks; b++) {
        load_tile(w, in, &t, b);
        int reg, lane;
        for (int i = 0; i < m->m; i++)
            for (int j = 0; j < m->n; j++) {
                result_at(m, b, i, j, &reg, &lane);
                t.d[i][j] = initial_c(w, in, reg, lane);
            }
        if (!exact)
            multiply(&t, m);
        for (int i = 0; i < m->m; i++)
            for (int j = 0; j < m->n; j++) {
                result_at(m, b, i, j, &reg, &lane);
                double x = exact ? chain(&t, m, i, j, t.d[i][j]) : t.d[i][j];
                if (m->d_type == 'd') {
                    out[2 * reg][lane] = (uint32_t)d2u(x);
                    out[2 * reg + 1][lane] = (uint32_t)(d2u(x) >> 32);
                } else if (m->d_type == 's') {
                    out[reg][lane] = integer_result(x, in->clamp);
                } else {
                    float f = (float)x;
                    if (sim_chip()->is90a && !exact && fabsf(f) < 0x1p-126f)
                        f = 0.0f * f;
                    out[reg][lane] = f2u(f);
                }
            }
    }
    /* EXEC does not matter. */
    for (int r = 0; r < in->dst[0].n; r++)
        memcpy(w->v[in->dst[0].reg + r], out[r], sizeof out[r]);
}

/* WMMA: lanes of the two (or four) groups of 16 share rows of A and columns of B. */
static double wmma_element(wave *w, const inst *in, int which, int row, int k)
{
    const matrix_info *m = in->mat;
    char type = which ? m->b_type : m->a_type;
    int bits = type_bits(type), groups = w->n / 16;
    bool is12 = sim_chip()->gen >= 12;
    int per = is12 ? m->k / groups : m->k; /* gfx11: every group holds all of k */
    int lane = row + 16 * (is12 ? k / per : 0), e = k % per;
    uint64_t x = element(w, &in->src[which], lane, e, bits);
    bool is_signed = in->neg_lo >> which & 1;
    if (type == 'i')
        return is_signed ? (double)(int8_t)x : (double)x;
    if (type == 'n')
        return is_signed && (x & 8) ? (double)x - 16 : (double)x;
    const double *table = small_table(type);
    double v = table ? table[x] : decode_bits(x, type, false);
    bool neg = (k & 1 ? in->neg_hi : in->neg_lo) >> which & 1;
    return neg ? -v : v;
}

/* Register, lane and half of row i, column j. */
static void wmma_at(const wave *w, const inst *in, int i, int j, int *reg, int *lane, int *shift)
{
    const matrix_info *m = in->mat;
    bool narrow = m->d_type == 'h' || m->d_type == 'b';
    int groups = w->n / 16, rows = 16 / groups, r;
    if (sim_chip()->gen >= 12) {
        *lane = j + 16 * (i / rows);
        r = i % rows;
        *reg = narrow ? r / 2 : r;
        *shift = narrow && (r & 1) ? 16 : 0;
        return;
    }
    *lane = j + 16 * (i % groups);
    *reg = i / groups;
    *shift = narrow && (in->op_sel >> 2 & 1) ? 16 : 0;
}

static double wmma_c(wave *w, const inst *in, int i, int j)
{
    const matrix_info *m = in->mat;
    const operand *o = &in->src[2];
    int reg, lane, shift;
    wmma_at(w, in, i, j, &reg, &lane, &shift);
    uint32_t x = (uint32_t)source_c(w, o, reg, lane, false);
    if (o->kind == OK_VGPR)
        x >>= shift;
    double v = m->d_type == 's'   ? (double)(int32_t)x
               : m->d_type == 'h' ? (double)h2f(x)
               : m->d_type == 'b' ? (double)bf2f(x & 0xffff)
                                  : (double)u2f(x);
    if (m->d_type == 's')
        return v;
    if (in->neg_hi & 4)
        v = fabs(v);
    return in->neg_lo & 4 ? -v : v;
}

void exec_wmma(wave *w, const inst *in)
{
    const matrix_info *m = in->mat;
    static __thread tile t;
    uint32_t out[8][LANES];
    for (int r = 0; r < in->dst[0].n && r < 8; r++)
        memcpy(out[r], w->v[in->dst[0].reg + r], sizeof out[r]);
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < m->k; k++) {
            t.a[i][k] = wmma_element(w, in, 0, i, k);
            t.b[k][i] = wmma_element(w, in, 1, i, k);
        }
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++)
            t.d[i][j] = wmma_c(w, in, i, j);
    multiply(&t, m);
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            int reg, lane, shift;
            double x = t.d[i][j];
            wmma_at(w, in, i, j, &reg, &lane, &shift);
            uint32_t *d = &out[reg][lane];
            uint32_t v = m->d_type == 's'   ? integer_result(x, in->clamp)
                         : m->d_type == 'h' ? (uint32_t)d2h(x)
                         : m->d_type == 'b' ? f2bf(d2f_odd(x))
                                            : f2u((float)x);
            if (m->d_type == 'h' || m->d_type == 'b')
                *d = (*d & ~(0xffffu << shift)) | (v & 0xffff) << shift;
            else
                *d = v;
        }
    for (int r = 0; r < in->dst[0].n && r < 8; r++)
        memcpy(w->v[in->dst[0].reg + r], out[r], sizeof out[r]);
}
