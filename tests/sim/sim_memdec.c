/* Decodes memory instructions from their names. */
#include "sim.h"
#include "sim_atomic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct mem_type {
    const char *name;
    uint8_t bytes, sext, d16;
} mem_type;

static const mem_type types[] = {
    {"ubyte", 1, 0, 0},        {"sbyte", 1, 1, 0},        {"ushort", 2, 0, 0},
    {"sshort", 2, 1, 0},       {"byte", 1, 0, 0},         {"short", 2, 0, 0},
    {"dword", 4, 0, 0},        {"dwordx2", 8, 0, 0},      {"dwordx3", 12, 0, 0},
    {"dwordx4", 16, 0, 0},     {"ubyte_d16", 1, 0, 1},    {"ubyte_d16_hi", 1, 0, 2},
    {"sbyte_d16", 1, 1, 1},    {"sbyte_d16_hi", 1, 1, 2}, {"short_d16", 2, 0, 1},
    {"short_d16_hi", 2, 0, 2}, {"byte_d16_hi", 1, 0, 2},  {"u8", 1, 0, 0},
    {"i8", 1, 1, 0},           {"u16", 2, 0, 0},          {"i16", 2, 1, 0},
    {"b8", 1, 0, 0},           {"b16", 2, 0, 0},          {"b32", 4, 0, 0},
    {"b64", 8, 0, 0},          {"b96", 12, 0, 0},         {"b128", 16, 0, 0},
    {"d16_u8", 1, 0, 1},       {"d16_i8", 1, 1, 1},       {"d16_b16", 2, 0, 1},
    {"d16_hi_u8", 1, 0, 2},    {"d16_hi_i8", 1, 1, 2},    {"d16_hi_b16", 2, 0, 2},
    {"d16_hi_b8", 1, 0, 2},    {"u8_d16", 1, 0, 1},       {"u8_d16_hi", 1, 0, 2},
    {"i8_d16", 1, 1, 1},       {"i8_d16_hi", 1, 1, 2},    {"u16_d16", 2, 0, 1},
    {"u16_d16_hi", 2, 0, 2},   {"b8_d16_hi", 1, 0, 2},    {"b16_d16_hi", 2, 0, 2},
};

static bool find_type(const char *s, mem_info *m)
{
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (!strcmp(types[i].name, s)) {
            m->bytes = types[i].bytes;
            m->sext = types[i].sext;
            m->d16 = types[i].d16;
            return true;
        }
    return false;
}

static const char *skip(const char *s, const char *prefix)
{
    size_t n = strlen(prefix);
    return strncmp(s, prefix, n) ? NULL : s + n;
}

/* Transposing loads: the element's bits; the bytes are those of the register result. */
static bool find_transpose(const char *s, mem_info *m)
{
    static const struct {
        const char *name;
        uint8_t bytes, bits;
    } t[] = {{"b64_tr_b4", 8, 4},   {"b96_tr_b6", 12, 6}, {"b64_tr_b8", 8, 8},
             {"b64_tr_b16", 8, 16}, {"tr_b64", 8, 8},     {"tr_b128", 16, 16}};
    for (size_t i = 0; i < ARRAY_LEN(t); i++)
        if (!strcmp(s, t[i].name)) {
            m->bytes = t[i].bytes;
            m->tr = t[i].bits;
            return true;
        }
    return false;
}

static int64_t number(const char *s)
{
    return s ? strtoll(s, NULL, 0) : 0;
}

static void note_data(inst *in, mem_info *m)
{
    int dw = (m->bytes + 3) / 4;
    if (m->kind == MK_LOAD) {
        decode_note_write(in, &m->dst, dw * (m->count ? m->count : 1));
    } else if (m->kind != MK_LDS_LOAD) {
        decode_note_read(in, &m->data, m->data.n);
        decode_note_read(in, &m->data2, m->data2.n);
        if (m->ret)
            decode_note_write(in, &m->dst, dw);
    }
    decode_note_read(in, &m->vaddr, m->vaddr.n);
    decode_note_read(in, &m->saddr, m->saddr.n);
    decode_note_read(in, &m->soffset, 1);
}

/* Order of the operands: [dst] vaddr [data] saddr, buffers: dst|data vaddr rsrc soffset. */
static bool vmem_operands(inst *in, const parsed *p, mem_info *m)
{
    int i = 0;
    bool buffer = m->space == SP_BUFFER;
    if (m->kind == MK_LOAD || (m->kind == MK_ATOMIC && m->ret && !buffer))
        parse_operand(p->ops[i++], &m->dst);
    if (buffer && (m->kind == MK_STORE || m->kind == MK_ATOMIC))
        parse_operand(p->ops[i++], &m->data);
    if (i < p->nops)
        parse_operand(p->ops[i++], &m->vaddr);
    if (!buffer && (m->kind == MK_STORE || m->kind == MK_ATOMIC) && i < p->nops)
        parse_operand(p->ops[i++], &m->data);
    if (i < p->nops)
        parse_operand(p->ops[i++], &m->saddr);
    if (buffer && i < p->nops)
        parse_operand(p->ops[i++], &m->soffset);
    if (buffer && m->kind == MK_ATOMIC && m->ret)
        m->dst = m->data;
    m->offset = number(parsed_mod(p, "offset"));
    m->offen = parsed_mod(p, "offen") != NULL;
    m->idxen = parsed_mod(p, "idxen") != NULL;
    in->exec = exec_mem;
    note_data(in, m);
    return i == p->nops;
}

static bool decode_vmem(inst *in, const parsed *p, const char *s, mem_info *m)
{
    const char *t;
    in->cls = CLS_VMEM_LOAD;
    if ((t = skip(s, "load_lds_")) || ((t = skip(s, "load_")) && parsed_mod(p, "lds"))) {
        m->kind = MK_LDS_LOAD;
        m->lds = 1;
        return find_type(t, m) && vmem_operands(in, p, m);
    }
    if ((t = skip(s, "load_"))) {
        m->kind = MK_LOAD;
        return (find_type(t, m) || find_transpose(t, m)) && vmem_operands(in, p, m);
    }
    in->cls = CLS_VMEM_STORE;
    if ((t = skip(s, "store_"))) {
        m->kind = MK_STORE;
        return find_type(t, m) && vmem_operands(in, p, m);
    }
    if ((t = skip(s, "atomic_"))) {
        m->kind = MK_ATOMIC;
        const char *th = parsed_mod(p, "th");
        m->ret =
            parsed_mod(p, "glc") || parsed_mod(p, "sc0") || (th && strstr(th, "ATOMIC_RETURN"));
        return atom_parse(t, m) && vmem_operands(in, p, m);
    }
    return false;
}

static bool ds_two(const char *t, mem_info *m, bool *two)
{
    static const struct {
        const char *prefix;
        int stride;
    } pair[] = {{"2st64_", 64}, {"2_", 1}, {"_2addr_stride64_", 64}, {"_2addr_", 1}};
    for (size_t i = 0; i < ARRAY_LEN(pair); i++) {
        const char *r = skip(t, pair[i].prefix);
        if (r && find_type(r, m)) {
            m->count = 2;
            m->stride = (uint32_t)(m->bytes * pair[i].stride);
            *two = true;
            return true;
        }
    }
    *two = false;
    return t[0] == '_' && (find_type(t + 1, m) || find_transpose(t + 1, m));
}

static void ds_offsets(inst *in, const parsed *p, mem_info *m, bool two)
{
    if (two) {
        m->offset0 = (uint32_t)number(parsed_mod(p, "offset0")) * m->stride;
        m->offset1 = (uint32_t)number(parsed_mod(p, "offset1")) * m->stride;
    } else {
        m->offset0 = in->raw[0] & 0xffff;
    }
}

static bool decode_ds_access(inst *in, const parsed *p, const char *s, mem_info *m)
{
    const char *t;
    bool two;
    bool load = (t = skip(s, "read")) || (t = skip(s, "load"));
    if (!load && !(t = skip(s, "write")) && !(t = skip(s, "store")))
        return false;
    if (!ds_two(t, m, &two))
        return false;
    m->kind = load ? MK_LOAD : MK_STORE;
    ds_offsets(in, p, m, two);
    if (load)
        return p->nops == 2 && parse_operand(p->ops[0], &m->dst) &&
               parse_operand(p->ops[1], &m->vaddr);
    if (two && !(p->nops == 3 && parse_operand(p->ops[2], &m->data2)))
        return false;
    return p->nops >= 2 && parse_operand(p->ops[0], &m->vaddr) &&
           parse_operand(p->ops[1], &m->data);
}

static bool decode_ds_atomic(inst *in, const parsed *p, const char *s, mem_info *m)
{
    char name[64];
    snprintf(name, sizeof name, "%s", s);
    char *rtn = strstr(name, "_rtn");
    m->ret = rtn != NULL;
    if (rtn)
        memmove(rtn, rtn + 4, strlen(rtn + 4) + 1);
    m->kind = MK_ATOMIC;
    if (!atom_parse(name, m))
        return false;
    ds_offsets(in, p, m, false);
    int i = 0;
    if (m->ret)
        parse_operand(p->ops[i++], &m->dst);
    parse_operand(p->ops[i++], &m->vaddr);
    parse_operand(p->ops[i++], &m->data);
    if (i < p->nops)
        parse_operand(p->ops[i++], &m->data2);
    return i == p->nops;
}

/* ds_swizzle, ds_permute, ds_bpermute: dst, then address or data, then data. */
static bool decode_ds_lane(inst *in, const parsed *p, const char *s, mem_info *m)
{
    static const char *const names[] = {"swizzle_b32", "permute_b32", "bpermute_b32",
                                        "bpermute_fi_b32"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(s, names[i]))
            continue;
        m->atom = (uint8_t)(ATOM_SWIZZLE + i);
        m->kind = MK_LOAD;
        m->bytes = 4;
        m->offset0 = in->raw[0] & 0xffff;
        parse_operand(p->ops[0], &m->dst);
        parse_operand(p->ops[1], &m->vaddr);
        if (i)
            parse_operand(p->ops[2], &m->data);
        decode_note_read(in, &m->data, 1);
        return true;
    }
    return false;
}

static bool decode_ds(inst *in, const parsed *p, const char *s, mem_info *m)
{
    in->cls = CLS_LDS;
    in->exec = exec_lds;
    m->space = SP_LDS;
    if (!strcmp(s, "nop")) {
        in->exec = exec_nop;
        return true;
    }
    bool ok = decode_ds_lane(in, p, s, m) || decode_ds_access(in, p, s, m) ||
              decode_ds_atomic(in, p, s, m);
    if (ok)
        note_data(in, m);
    return ok;
}

static bool decode_smem(inst *in, const parsed *p, const char *s)
{
    mem_info *m = in->mem;
    const char *t = skip(s, "s_load_");
    bool buffer = false;
    if (!t) {
        t = skip(s, "s_buffer_load_");
        buffer = true;
    }
    if (!t || p->nops < 2)
        return false;
    static const struct {
        const char *name;
        uint8_t bytes;
    } sizes[] = {{"dword", 4}, {"dwordx2", 8}, {"dwordx4", 16}, {"dwordx8", 32}, {"dwordx16", 64},
                 {"b32", 4},   {"b64", 8},     {"b96", 12},     {"b128", 16},    {"b256", 32},
                 {"b512", 64}, {"u8", 1},      {"i8", 1},       {"u16", 2},      {"i16", 2}};
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        if (!strcmp(t, sizes[i].name))
            m->bytes = sizes[i].bytes;
    if (!m->bytes)
        return false;
    m->sext = t[0] == 'i';
    m->space = buffer ? SP_BUFFER : SP_GLOBAL;
    in->cls = CLS_SMEM;
    in->exec = exec_smem;
    parse_operand(p->ops[0], &m->dst);
    parse_operand(p->ops[1], &m->saddr);
    if (p->nops > 2)
        parse_operand(p->ops[2], &m->soffset);
    m->offset = number(parsed_mod(p, "offset"));
    decode_note_write(in, &m->dst, m->dst.n);
    decode_note_read(in, &m->saddr, m->saddr.n);
    decode_note_read(in, &m->soffset, 1);
    return true;
}

bool decode_mem(inst *in, const parsed *p, const char *m)
{
    const char *s;
    in->mem = calloc(1, sizeof *in->mem);
    if (!in->mem)
        return false;
    if ((s = skip(m, "ds_")))
        return decode_ds(in, p, s, in->mem);
    if (!strncmp(m, "s_", 2))
        return decode_smem(in, p, m);
    static const struct {
        const char *prefix;
        uint8_t space;
    } spaces[] = {{"global_", SP_GLOBAL},
                  {"flat_", SP_FLAT},
                  {"scratch_", SP_SCRATCH},
                  {"buffer_", SP_BUFFER}};
    for (size_t i = 0; i < ARRAY_LEN(spaces); i++)
        if ((s = skip(m, spaces[i].prefix))) {
            in->mem->space = spaces[i].space;
            return decode_vmem(in, p, s, in->mem);
        }
    return false;
}
