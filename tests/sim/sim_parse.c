/* Splits a line of disassembly into mnemonic, operands and modifiers, and reads operands. */
#include "sim.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>

static void copy_span(char *dst, size_t cap, const char *b, const char *e)
{
    while (b < e && isspace((unsigned char)*b))
        b++;
    while (e > b && isspace((unsigned char)e[-1]))
        e--;
    size_t n = (size_t)(e - b);
    if (n >= cap)
        n = cap - 1;
    memcpy(dst, b, n);
    dst[n] = 0;
}

/* End of the token at s: a top-level blank or comma. */
static const char *token_end(const char *s, bool stop_blank)
{
    int depth = 0;
    bool quote = false;
    for (; *s; s++) {
        if (*s == '"')
            quote = !quote;
        if (quote)
            continue;
        if (*s == '[' || *s == '(')
            depth++;
        if (*s == ']' || *s == ')')
            depth--;
        if (depth == 0 && (*s == ',' || (stop_blank && isspace((unsigned char)*s))))
            break;
    }
    return s;
}

/* A word that is a modifier though it stands where an operand may. */
static bool is_modifier(const char *s)
{
    if (strchr(s, ':') && !strchr(s, '['))
        return true;
    return !strncmp(s, "op_sel", 6) || !strncmp(s, "quad_perm", 9);
}

void parse_text(const char *text, parsed *out)
{
    memset(out, 0, sizeof *out);
    while (isspace((unsigned char)*text))
        text++;
    const char *e = text;
    while (*e && !isspace((unsigned char)*e))
        e++;
    copy_span(out->mnem, sizeof out->mnem, text, e);
    const char *s = e;
    bool operands = true;
    while (*s) {
        while (isspace((unsigned char)*s))
            s++;
        if (!*s)
            break;
        e = token_end(s, true);
        char tok[96];
        copy_span(tok, sizeof tok, s, e);
        if (operands && tok[0] && !is_modifier(tok) && out->nops < 8)
            strcpy(out->ops[out->nops++], tok);
        else if (tok[0] && out->nmods < 24)
            copy_span(out->mods[out->nmods++], sizeof out->mods[0], s, e);
        while (isspace((unsigned char)*e))
            e++;
        if (*e == ',')
            e++;
        else
            operands = false;
        s = e;
    }
}

const char *parsed_mod(const parsed *p, const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; i < p->nmods; i++) {
        if (strncmp(p->mods[i], name, n))
            continue;
        if (p->mods[i][n] == ':')
            return p->mods[i] + n + 1;
        if (!p->mods[i][n])
            return "";
    }
    return NULL;
}

typedef struct named_reg {
    const char *name;
    uint8_t kind;
    uint8_t reg;
    uint8_t n;
    uint64_t imm;
} named_reg;

static const named_reg names[] = {
    {"vcc", OK_SGPR, S_VCC, 2, 0},
    {"vcc_lo", OK_SGPR, S_VCC, 1, 0},
    {"vcc_hi", OK_SGPR, S_VCC + 1, 1, 0},
    {"exec", OK_SGPR, S_EXEC, 2, 0},
    {"exec_lo", OK_SGPR, S_EXEC, 1, 0},
    {"exec_hi", OK_SGPR, S_EXEC + 1, 1, 0},
    {"m0", OK_SGPR, S_M0, 1, 0},
    {"flat_scratch", OK_SGPR, S_FLAT, 2, 0},
    {"flat_scratch_lo", OK_SGPR, S_FLAT, 1, 0},
    {"flat_scratch_hi", OK_SGPR, S_FLAT + 1, 1, 0},
    {"xnack_mask", OK_SGPR, S_XNACK, 2, 0},
    {"xnack_mask_lo", OK_SGPR, S_XNACK, 1, 0},
    {"xnack_mask_hi", OK_SGPR, S_XNACK + 1, 1, 0},
    {"off", OK_NONE, 0, 0, 0},
    {"scc", OK_SCC, 0, 1, 0},
    {"src_scc", OK_SCC, 0, 1, 0},
    {"vccz", OK_VCCZ, 0, 1, 0},
    {"src_vccz", OK_VCCZ, 0, 1, 0},
    {"execz", OK_EXECZ, 0, 1, 0},
    {"src_execz", OK_EXECZ, 0, 1, 0},
    /* The apertures: the value is the high half of the base; the low half is zero. */
    {"src_shared_base", OK_IMM, 0, 2, UINT64_C(0x0001000000000000)},
    {"src_shared_limit", OK_IMM, 0, 2, UINT64_C(0x00010000ffffffff)},
    {"src_private_base", OK_IMM, 0, 2, UINT64_C(0x0002000000000000)},
    {"src_private_limit", OK_IMM, 0, 2, UINT64_C(0x00020000ffffffff)},
    {"src_pops_exiting_wave_id", OK_IMM, 0, 1, 0},
    {"null", OK_NONE, 1, 0, 0},
};

static bool parse_named(const char *s, operand *o)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(s, names[i].name))
            continue;
        o->kind = names[i].kind;
        o->reg = names[i].reg;
        o->n = names[i].n;
        o->imm = names[i].imm;
        return true;
    }
    return false;
}

/* "v5", "v[4:7]", "s3", "a[0:3]", "ttmp[6:7]", "v3.h" */
static bool parse_reg(const char *s, operand *o)
{
    uint16_t base = 0;
    o->kind = OK_SGPR;
    if (!strncmp(s, "ttmp", 4)) {
        base = S_TTMP0;
        s += 4;
    } else if (s[0] == 'v' || s[0] == 'a') {
        o->kind = OK_VGPR;
        base = s[0] == 'a' ? 256 : 0;
        s++;
    } else if (s[0] == 's') {
        s++;
    } else {
        return false;
    }
    char *end;
    if (*s == '[') {
        long lo = strtol(s + 1, &end, 10), hi = lo;
        if (*end == ':')
            hi = strtol(end + 1, &end, 10);
        if (*end != ']')
            return false;
        o->reg = (uint16_t)(base + lo);
        o->n = (uint8_t)(hi - lo + 1);
        return true;
    }
    if (!isdigit((unsigned char)*s))
        return false;
    o->reg = (uint16_t)(base + strtol(s, &end, 10));
    o->n = 1;
    if (!strcmp(end, ".l"))
        o->half = 1;
    else if (!strcmp(end, ".h"))
        o->half = 2;
    else if (*end)
        return false;
    return true;
}

static bool parse_number(const char *s, operand *o)
{
    char *end;
    o->kind = OK_IMM;
    const char *digits = s + (*s == '-');
    if (!isdigit((unsigned char)*digits))
        return false;
    if (!strncmp(digits, "0x", 2)) {
        o->imm = strtoull(digits, &end, 16);
        if (*s == '-')
            o->imm = (uint64_t)(-(int64_t)o->imm);
        o->hex = 1;
        return !*end;
    }
    if (strpbrk(s, ".eE")) {
        o->f = strtod(s, &end);
        o->fp = 1;
        return !*end;
    }
    o->imm = (uint64_t)strtoll(s, &end, 10);
    return !*end;
}

static bool strip_call(char *s, const char *name)
{
    size_t n = strlen(name), len = strlen(s);
    if (strncmp(s, name, n) || s[n] != '(' || s[len - 1] != ')')
        return false;
    memmove(s, s + n + 1, len - n - 2);
    s[len - n - 2] = 0;
    return true;
}

bool parse_operand(const char *text, operand *o)
{
    char buf[96];
    memset(o, 0, sizeof *o);
    snprintf(buf, sizeof buf, "%s", text);
    char *s = buf;
    if (*s == '-' && !isdigit((unsigned char)s[1])) {
        o->mods |= MOD_NEG;
        s++;
    }
    if (strip_call(s, "neg"))
        o->mods |= MOD_NEG;
    if (strip_call(s, "sext"))
        o->mods |= MOD_SEXT;
    if (strip_call(s, "abs"))
        o->mods |= MOD_ABS;
    /* A literal whose value would also fit an inline constant. */
    if (strip_call(s, "lit") || strip_call(s, "lit64"))
        o->hex = 1;
    size_t len = strlen(s);
    if (*s == '|' && len > 2 && s[len - 1] == '|') {
        o->mods |= MOD_ABS;
        s[len - 1] = 0;
        s++;
    }
    if (parse_named(s, o) || parse_reg(s, o) || parse_number(s, o))
        return true;
    o->kind = OK_OTHER;
    return false;
}
