/* Turns one instruction's disassembly into the form that is executed. */
#include "sim.h"
#include "sim_bits.h"

#include <llvm-c/Disassembler.h>
#include <llvm-c/Target.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum entry_kind { EK_VALU, EK_SALU, EK_SPECIAL };

typedef struct entry {
    const char *name;
    int kind;
    const void *op;
    struct entry *next;
} entry;

#define BUCKETS 2048
static entry *buckets[BUCKETS];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static uint32_t hash_name(const char *s)
{
    uint32_t h = 2166136261u;
    for (; *s; s++)
        h = (h ^ (uint8_t)*s) * 16777619u;
    return h % BUCKETS;
}

static void table_add(const char *name, int kind, const void *op)
{
    entry *e = malloc(sizeof *e);
    if (!e)
        abort();
    uint32_t h = hash_name(name);
    *e = (entry){name, kind, op, buckets[h]};
    buckets[h] = e;
}

static void add_valu(const valu_op *t, size_t n)
{
    for (size_t i = 0; i < n; i++)
        table_add(t[i].name, EK_VALU, &t[i]);
}

static void add_special(const special_op *t, size_t n)
{
    for (size_t i = 0; i < n; i++)
        table_add(t[i].name, EK_SPECIAL, &t[i]);
}

static void table_build(void)
{
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUDisassembler();
    add_valu(valu_int_ops, valu_int_count);
    add_valu(valu_float_ops, valu_float_count);
    add_valu(valu_half_ops, valu_half_count);
    add_valu(valu_cvt_ops, valu_cvt_count);
    add_valu(valu_double_ops, valu_double_count);
    add_valu(valu_scale_ops, valu_scale_count);
    for (size_t i = 0; i < salu_count; i++)
        table_add(salu_ops[i].name, EK_SALU, &salu_ops[i]);
    add_special(special_ops, special_count);
    add_special(lane_ops, lane_count);
}

static const entry *table_find(const char *name)
{
    for (entry *e = buckets[hash_name(name)]; e; e = e->next)
        if (!strcmp(e->name, name))
            return e;
    return NULL;
}

/* Takes the encoding's suffix off; returns whether there was one. */
static bool strip_suffix(char *m)
{
    static const char *const suffixes[] = {"_e64_dpp", "_e32", "_e64", "_dpp8", "_dpp", "_sdwa"};
    bool any = false;
    for (size_t i = 0; i < ARRAY_LEN(suffixes); i++) {
        size_t n = strlen(m), k = strlen(suffixes[i]);
        if (n > k && !strcmp(m + n - k, suffixes[i])) {
            m[n - k] = 0;
            any = true;
        }
    }
    return any;
}

static int parse_list(const char *s, int *out, int max)
{
    int n = 0;
    if (*s == '[')
        s++;
    while (*s && *s != ']' && n < max) {
        char *end;
        out[n++] = (int)strtol(s, &end, 0);
        if (end == s)
            break;
        s = *end == ',' ? end + 1 : end;
    }
    return n;
}

static uint8_t mod_bits(const parsed *p, const char *name, int *count)
{
    const char *v = parsed_mod(p, name);
    int list[8], n = v ? parse_list(v, list, 8) : 0;
    uint8_t bits = 0;
    for (int i = 0; i < n; i++)
        bits |= (uint8_t)((list[i] & 1) << i);
    if (count)
        *count = n;
    return bits;
}

static int sel_of(const char *v)
{
    static const char *const sels[] = {"BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3",
                                       "WORD_0", "WORD_1", "DWORD"};
    for (int i = 0; v && i < 7; i++)
        if (!strcmp(v, sels[i]))
            return i;
    return SEL_DWORD;
}

static void decode_sdwa(inst *in, const parsed *p)
{
    in->sdwa = true;
    const char *d = parsed_mod(p, "dst_sel"), *u = parsed_mod(p, "dst_unused");
    in->dst_sel = (uint8_t)sel_of(d);
    in->dst_unused = (uint8_t)(u && !strcmp(u, "UNUSED_SEXT")       ? 1
                               : u && !strcmp(u, "UNUSED_PRESERVE") ? 2
                                                                    : 0);
    in->src_sel[0] = (uint8_t)sel_of(parsed_mod(p, "src0_sel"));
    in->src_sel[1] = (uint8_t)sel_of(parsed_mod(p, "src1_sel"));
}

/* Source lane of each lane for a control that shifts within rows of 16. */
static int row_source(const parsed *p, int lane)
{
    int row = lane & ~15, l = lane & 15;
    const char *v;
    if ((v = parsed_mod(p, "row_shl")))
        return l + atoi(v) < 16 ? row + l + atoi(v) : -1;
    if ((v = parsed_mod(p, "row_shr")))
        return l - atoi(v) >= 0 ? row + l - atoi(v) : -1;
    if ((v = parsed_mod(p, "row_ror")))
        return row + ((l - atoi(v)) & 15);
    if (parsed_mod(p, "row_mirror"))
        return row + 15 - l;
    if (parsed_mod(p, "row_half_mirror"))
        return row + (l & 8) + 7 - (l & 7);
    if ((v = parsed_mod(p, "row_newbcast")) || (v = parsed_mod(p, "row_share")))
        return row + atoi(v);
    if ((v = parsed_mod(p, "row_xmask")))
        return row + (l ^ atoi(v));
    return -2;
}

static int dpp_source(const parsed *p, int lane)
{
    int list[8];
    const char *v;
    int r = row_source(p, lane);
    if (r != -2)
        return r;
    if ((v = parsed_mod(p, "quad_perm")) && parse_list(v, list, 4) == 4)
        return (lane & ~3) + list[lane & 3];
    if ((v = parsed_mod(p, "dpp8")) && parse_list(v, list, 8) == 8)
        return (lane & ~7) + list[lane & 7];
    if (parsed_mod(p, "wave_shl"))
        return lane < 63 ? lane + 1 : -1;
    if (parsed_mod(p, "wave_rol"))
        return (lane + 1) & 63;
    if (parsed_mod(p, "wave_shr"))
        return lane - 1;
    if (parsed_mod(p, "wave_ror"))
        return (lane - 1) & 63;
    if ((v = parsed_mod(p, "row_bcast"))) {
        int last = atoi(v);
        return last == 15 ? (lane & ~15) - 1 : lane > 31 ? 31 : -1;
    }
    return -2;
}

static bool decode_dpp(inst *in, const parsed *p)
{
    dpp_info *d = calloc(1, sizeof *d);
    if (!d)
        return false;
    in->dpp = d;
    const char *rm = parsed_mod(p, "row_mask"), *bm = parsed_mod(p, "bank_mask");
    unsigned rows = rm ? (unsigned)strtoul(rm, NULL, 0) : 15;
    unsigned banks = bm ? (unsigned)strtoul(bm, NULL, 0) : 15;
    /* Printed as bound_ctrl:1; older tools print the same bit as bound_ctrl:0. */
    d->bound_ctrl = parsed_mod(p, "bound_ctrl") != NULL;
    const char *fi = parsed_mod(p, "fi");
    d->fi = fi && atoi(fi);
    bool dpp8 = parsed_mod(p, "dpp8") != NULL;
    for (int i = 0; i < LANES; i++) {
        int s = dpp_source(p, i);
        if (s == -2)
            return false;
        d->src[i] = s >= 0 ? s : 0;
        d->keep[i] = s >= 0 ? ~0u : 0;
        d->valid |= (uint64_t)(s >= 0) << i;
        if (dpp8 || ((rows >> (i / 16) & 1) && (banks >> ((i % 16) / 4) & 1)))
            d->write |= UINT64_C(1) << i;
    }
    if (dpp8)
        d->bound_ctrl = true;
    return true;
}

static void decode_mods(inst *in, const parsed *p)
{
    int n = 0;
    in->clamp = parsed_mod(p, "clamp") != NULL;
    const char *v;
    if ((v = parsed_mod(p, "mul")))
        in->omod = (uint8_t)(atoi(v) == 2 ? 1 : 2);
    if (parsed_mod(p, "div"))
        in->omod = 3;
    in->op_sel = mod_bits(p, "op_sel", &n);
    in->op_sel_n = (uint8_t)n;
    n = 0;
    in->op_sel_hi = mod_bits(p, "op_sel_hi", &n);
    if (!n)
        in->op_sel_hi = 7;
    v = parsed_mod(p, "byte_sel");
    in->byte_sel = (int8_t)(v ? atoi(v) : -1);
    in->neg_lo = mod_bits(p, "neg_lo", NULL);
    in->neg_hi = mod_bits(p, "neg_hi", NULL);
}

static void resolve_imm(operand *o, char type, int gen)
{
    uint64_t bits = o->imm;
    if (o->fp) {
        switch (type) {
        case 'h':
        case 'H':
            bits = f2h((float)o->f);
            break;
        case 'b':
        case 'B':
            bits = f2bf((float)o->f);
            break;
        case 'd':
        case 'q':
            bits = d2u(o->f);
            break;
        default:
            bits = f2u((float)o->f);
        }
    } else if (o->hex && type == 'd' && o->n != 2) {
        /* A 32-bit literal is the high half of a double. */
        bits = o->imm >> 32 ? o->imm : o->imm << 32;
    } else if (o->hex && type == 'l') {
        bits = (uint64_t)(int64_t)(int32_t)o->imm;
    } else if (o->n == 2 && type != 'q' && type != 'd' && type != 'l' && gen >= 0) {
        /* An aperture register read as 32 bits gives the high half. */
        bits = o->imm >> 32;
    }
    o->imm = bits;
}

static bool broadcast(operand *o, int dwords)
{
    o->bcast = aligned_alloc(64, (size_t)dwords * LANES * 4);
    if (!o->bcast)
        return false;
    for (int k = 0; k < dwords; k++)
        for (int i = 0; i < LANES; i++)
            o->bcast[k * LANES + i] = (uint32_t)(k < 2 ? o->imm >> (32 * k) : 0);
    return true;
}

static void note_range(reg_range *list, uint8_t *n, size_t cap, const operand *o, int dwords)
{
    if ((o->kind != OK_VGPR && o->kind != OK_SGPR) || *n >= cap)
        return;
    int count = o->n > dwords ? o->n : dwords;
    list[(*n)++] = (reg_range){o->kind == OK_VGPR, (uint8_t)count, o->reg};
}

void decode_note_read(inst *in, const operand *o, int dwords)
{
    note_range(in->read, &in->nread, ARRAY_LEN(in->read), o, dwords);
}

void decode_note_write(inst *in, const operand *o, int dwords)
{
    note_range(in->write, &in->nwrite, ARRAY_LEN(in->write), o, dwords);
}

/* Assigns the operands of the text to the letters of the format. */
static bool assign(inst *in, const char *fmt, const parsed *p, bool vector, int gen)
{
    const char *colon = strchr(fmt, ':');
    int nd = (int)(colon - fmt), ns = (int)strlen(colon + 1);
    if (p->nops < nd + ns)
        return false;
    for (int i = 0; i < nd; i++) {
        parse_operand(p->ops[i], &in->dst[i]);
        in->dst[i].type = fmt[i];
        decode_note_write(in, &in->dst[i],
                          fmt[i] == 'M' || fmt[i] == 'x' ? in->dst[i].n : operand_dwords(fmt[i]));
    }
    for (int i = 0; i < ns; i++) {
        operand *o = &in->src[i];
        parse_operand(p->ops[nd + i], o);
        o->type = colon[1 + i];
        if (o->kind == OK_NONE) { /* null reads as zero */
            o->kind = OK_IMM;
            o->imm = 0;
        }
        if (o->kind == OK_OTHER)
            return false;
        int dw = o->type == 'x' ? (o->n ? o->n : 1) : operand_dwords(o->type);
        if (o->kind == OK_IMM) {
            resolve_imm(o, o->type, gen);
            if (vector && !broadcast(o, dw))
                return false;
        }
        decode_note_read(in, o, o->type == 'm' ? o->n : dw);
    }
    in->ndst = (uint8_t)nd;
    in->nsrc = (uint8_t)ns;
    return true;
}

static bool is_half_type(char t)
{
    return t == 'h' || t == 'w' || t == 'b';
}

/* op_sel of VOP3 picks halves of 16-bit operands; .l/.h do the same in true16 form. */
static void apply_halves(inst *in)
{
    bool plain_op_sel = in->op_sel_n > 0;
    for (int i = 0; i < in->nsrc; i++) {
        operand *o = &in->src[i];
        if (o->half == 2 || (plain_op_sel && is_half_type(o->type) && (in->op_sel >> i & 1)))
            o->sel = 1;
    }
    operand *d = &in->dst[0];
    if (in->ndst && is_half_type(d->type)) {
        bool hi = d->half == 2 ||
                  (plain_op_sel && in->op_sel_n > in->nsrc && (in->op_sel >> in->nsrc & 1));
        bool keep = d->half || plain_op_sel || in->vop3_only || sim_chip()->gen >= 11;
        d->sel = hi ? 2 : keep ? 1 : 0;
    }
}

static bool decode_valu(inst *in, const valu_op *op, const parsed *p, int gen)
{
    parsed q = *p;
    /* Some forms leave an implied vcc out of the text, others print it. */
    const char *colon = strchr(op->fmt, ':');
    size_t want = strlen(op->fmt) - 1;
    if ((size_t)q.nops + 1 == want && op->fmt[want] == 'm')
        strcpy(q.ops[q.nops++], in->prog->wave_size == 64 ? "vcc" : "vcc_lo");
    (void)colon;
    if (!assign(in, op->fmt, &q, true, gen))
        return false;
    in->fn.v = op->fn;
    in->op = op;
    in->flags = (uint8_t)op->flags;
    in->cls = CLS_VALU;
    if (!(op->flags & VF_RAW))
        apply_halves(in);
    in->exec = exec_valu;
    bool simple = !in->dpp && !in->sdwa && !in->clamp && !in->omod && in->ndst == 1 &&
                  !in->dst[0].sel && in->dst[0].type != 'M';
    for (int i = 0; i < in->nsrc; i++)
        simple = simple && !in->src[i].mods && !in->src[i].sel;
    in->plain = simple;
    return true;
}

static bool decode_cmp(inst *in, const char *m, const parsed *p, int gen)
{
    char type, fmt[8];
    valu_fn fn = cmp_lookup(m, &type);
    if (!fn)
        return false;
    in->cmp_x = !strncmp(m, "v_cmpx", 6);
    bool nodst = in->cmp_x && gen >= 11;
    char second = strstr(m, "_class_") ? 'i' : type;
    snprintf(fmt, sizeof fmt, "%s:%c%c", nodst ? "" : "M", type, second);
    parsed q = *p;
    if (!nodst && q.nops == 2) { /* implied vcc */
        memmove(q.ops[1], q.ops[0], 2 * sizeof q.ops[0]);
        strcpy(q.ops[0], "vcc");
        q.nops = 3;
    }
    if (!assign(in, fmt, &q, true, gen))
        return false;
    in->fn.v = fn;
    in->cls = CLS_VALU;
    in->is_cmp = true;
    apply_halves(in);
    in->exec = exec_cmp;
    return true;
}

/* v_pk_*: the lane function is that of the unpacked operation. */
static bool decode_packed(inst *in, const char *m, const parsed *p, int gen)
{
    char base[64];
    snprintf(base, sizeof base, "v_%s", m + 5);
    bool wide = strstr(m, "_f32") || !strcmp(m, "v_pk_mov_b32");
    const entry *e = table_find(base);
    if (!e || e->kind != EK_VALU)
        return false;
    const valu_op *op = e->op;
    char fmt[12], *f = fmt;
    for (const char *c = op->fmt; *c; c++) {
        static const char single[] = "hbfw", packed[] = "HBFI";
        const char *at = strchr(single, *c);
        *f++ = at ? packed[at - single] : *c;
    }
    *f = 0;
    if (!assign(in, fmt, p, true, gen))
        return false;
    in->fn.v = op->fn;
    in->flags = (uint8_t)op->flags;
    in->cls = CLS_VALU;
    in->exec = wide ? exec_pk32 : exec_pk16;
    return true;
}

static bool decode_salu(inst *in, const salu_op *op, const parsed *p, int gen)
{
    in->fn.s = op->fn;
    in->cls = CLS_SALU;
    in->exec = exec_salu;
    parsed q = *p;
    char fmt[12], *f = fmt;
    for (const char *c = op->fmt; *c; c++)
        *f++ = *c == 'k' ? 'i' : *c == '+' ? op->fmt[0] : *c;
    *f = 0;
    /* s_movk and its like: the immediate is in the encoding. */
    if (strchr(op->fmt, 'k') && q.nops > 0)
        snprintf(q.ops[q.nops - 1], sizeof q.ops[0], "%d", in->simm16);
    if (strchr(op->fmt, '+') && q.nops > 0 && q.nops < 8) { /* the destination is a source too */
        memmove(q.ops[1], q.ops[0], (size_t)q.nops * sizeof q.ops[0]);
        q.nops++;
    }
    return assign(in, fmt, &q, false, gen);
}

static bool decode_special(inst *in, const special_op *op, const parsed *p, int gen)
{
    in->exec = op->fn;
    in->cls = (uint8_t)op->cls;
    if (op->fmt[0] == '*')
        return true;
    return assign(in, op->fmt, p, op->cls == CLS_VALU, gen);
}

static bool decode_one(inst *in, const char *text, int gen);

/* "v_dual_mul_f32 v0, v1, v2 :: v_dual_add_f32 v3, v4, v5" */
static bool decode_dual(inst *in, const char *text, const char *sep, int gen)
{
    char half[2][256];
    snprintf(half[0], sizeof half[0], "%.*s", (int)(sep - text), text);
    snprintf(half[1], sizeof half[1], "%s", sep + 2);
    inst *y = calloc(1, sizeof *y);
    if (!y)
        return false;
    inst *x = calloc(1, sizeof *x);
    if (!x) {
        free(y);
        return false;
    }
    *x = *in;
    *y = *in;
    in->pair = x;
    x->pair = y;
    inst *part[2] = {x, y};
    for (int i = 0; i < 2; i++) {
        char line[256];
        const char *name = strstr(half[i], "v_dual_");
        if (!name)
            return false;
        snprintf(line, sizeof line, "v_%s", name + 7);
        if (!decode_one(part[i], line, gen))
            return false;
        for (int k = 0; k < part[i]->nread && in->nread < ARRAY_LEN(in->read); k++)
            in->read[in->nread++] = part[i]->read[k];
        for (int k = 0; k < part[i]->nwrite && in->nwrite < ARRAY_LEN(in->write); k++)
            in->write[in->nwrite++] = part[i]->write[k];
    }
    in->cls = CLS_VALU;
    in->exec = exec_dual;
    return true;
}

static bool decode_one(inst *in, const char *text, int gen)
{
    parsed p;
    const char *sep = strstr(text, "::");
    if (sep)
        return decode_dual(in, text, sep, gen);
    parse_text(text, &p);
    char m[64];
    strcpy(m, p.mnem);
    bool sdwa = strstr(m, "_sdwa") != NULL;
    bool dpp = strstr(m, "_dpp") != NULL;
    bool suffix = strip_suffix(m);
    in->vop3_only = !suffix;
    decode_mods(in, &p);
    if (sdwa)
        decode_sdwa(in, &p);
    if (dpp && !decode_dpp(in, &p))
        return false;
    const entry *e = table_find(m);
    if (e) {
        switch (e->kind) {
        case EK_VALU:
            return decode_valu(in, e->op, &p, gen);
        case EK_SALU:
            return decode_salu(in, e->op, &p, gen);
        default:
            return decode_special(in, e->op, &p, gen);
        }
    }
    if (!strncmp(m, "v_cmp", 5))
        return decode_cmp(in, m, &p, gen);
    if (!strncmp(m, "v_mfma", 6) || !strncmp(m, "v_wmma", 6) || !strncmp(m, "v_smfmac", 8) ||
        !strncmp(m, "v_swmmac", 8))
        return decode_matrix(in, &p, m);
    if (!strncmp(m, "v_pk_", 5))
        return decode_packed(in, m, &p, gen);
    return decode_mem(in, &p, m);
}

static void check_limits(inst *in, const char *text)
{
    (void)text;
    for (int i = 0; i < in->nwrite; i++)
        if (in->write[i].vgpr && in->write[i].reg + in->write[i].n > 512)
            in->exec = exec_invalid;
}

static size_t disassemble(program *p, uint64_t addr, int wave_size, char *text, size_t cap)
{
    void **dis = &p->dis[wave_size == 64];
    if (!*dis) {
        const char *feat = wave_size == 64 ? "+wavefrontsize64" : "+wavefrontsize32";
        if (sim_chip()->gen == 9)
            feat = "";
        *dis = LLVMCreateDisasmCPUFeatures("amdgcn-amd-amdhsa", sim_chip()->name, feat, NULL, 0,
                                           NULL, NULL);
        if (!*dis)
            return 0;
    }
    uint64_t left = p->text_end - addr;
    return LLVMDisasmInstruction(*dis, (uint8_t *)addr, left > 64 ? 64 : left, addr, text, cap);
}

static inst *decode_new(program *p, uint64_t addr, int wave_size)
{
    inst *in = calloc(1, sizeof *in);
    char text[512] = "";
    if (!in)
        return NULL;
    size_t n = disassemble(p, addr, wave_size, text, sizeof text);
    in->addr = addr;
    in->prog = p;
    in->size = (uint8_t)(n ? n : 4);
    uint64_t left = p->text_end - addr;
    memcpy(in->raw, (void *)addr, left < sizeof in->raw ? left : sizeof in->raw);
    in->simm16 = (int16_t)(in->raw[0] & 0xffff);
    char *t = text;
    while (*t == '\t' || *t == ' ')
        t++;
    in->text = strdup(t);
    for (char *c = in->text; *c; c++)
        if (*c == '\t')
            *c = ' ';
    in->cls = CLS_OTHER;
    if (!n || !decode_one(in, in->text, sim_chip()->gen)) {
        in->exec = exec_invalid;
        in->nread = in->nwrite = 0;
    }
    check_limits(in, in->text);
    return in;
}

static bool is_branch(const inst *in)
{
    return in->cls == CLS_BRANCH &&
           (!strncmp(in->text, "s_branch", 8) || !strncmp(in->text, "s_cbranch", 9) ||
            !strncmp(in->text, "s_call", 6));
}

static uint64_t sweep_end(program *p, uint64_t addr)
{
    for (size_t i = 0; i < p->nsymbols; i++) {
        symbol *s = &p->symbols[i];
        if (addr >= s->addr && addr < s->addr + s->size)
            return s->addr + s->size;
    }
    return p->text_end;
}

/* Links the instructions of [from, to) to their successors and branch targets. */
static void link_range(program *p, uint64_t from, uint64_t to)
{
    for (uint64_t a = from; a < to;) {
        inst *in = p->map[(a - p->text) / 4];
        if (!in)
            break;
        uint64_t next = a + in->size;
        if (next < p->text_end)
            in->succ = p->map[(next - p->text) / 4];
        if (is_branch(in)) {
            uint64_t t = a + 4 + (uint64_t)((int64_t)in->simm16 * 4);
            if (t >= p->text && t < p->text_end)
                in->target = p->map[(t - p->text) / 4];
        }
        a = next;
    }
}

inst *decode_at(program *p, uint64_t addr, int wave_size, char *err, size_t err_bytes)
{
    pthread_once(&table_once, table_build);
    if (addr < p->text || addr >= p->text_end || (addr & 3)) {
        snprintf(err, err_bytes, "no code at address 0x%llx", (unsigned long long)addr);
        return NULL;
    }
    pthread_mutex_lock(&p->lock);
    inst *in = p->map[(addr - p->text) / 4];
    if (!in) {
        p->wave_size = wave_size;
        uint64_t end = sweep_end(p, addr), a = addr;
        while (a < end && !p->map[(a - p->text) / 4]) {
            inst *n = decode_new(p, a, wave_size);
            if (!n)
                break;
            p->map[(a - p->text) / 4] = n;
            a += n->size;
        }
        link_range(p, addr, a);
        in = p->map[(addr - p->text) / 4];
    }
    pthread_mutex_unlock(&p->lock);
    return in;
}
