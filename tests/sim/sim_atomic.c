#include "sim_atomic.h"
#include "sim_bits.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct atom_name {
    const char *name;
    int op;
    int bytes; /* 0: by the suffix */
} atom_name;

/* Whole names first; then a stem with a type suffix. */
static const atom_name whole[] = {
    {"add_f32", ATOM_ADD_F32, 4},       {"add_f64", ATOM_ADD_F64, 8},
    {"min_f32", ATOM_MIN_F32, 4},       {"max_f32", ATOM_MAX_F32, 4},
    {"min_num_f32", ATOM_MIN_F32, 4},   {"max_num_f32", ATOM_MAX_F32, 4},
    {"fmin", ATOM_MIN_F32, 4},          {"fmax", ATOM_MAX_F32, 4},
    {"min_f64", ATOM_MIN_F64, 8},       {"max_f64", ATOM_MAX_F64, 8},
    {"pk_add_f16", ATOM_PK_ADD_F16, 4}, {"pk_add_bf16", ATOM_PK_ADD_BF16, 4},
    {"min_i32", ATOM_SMIN, 4},          {"max_i32", ATOM_SMAX, 4},
    {"min_i64", ATOM_SMIN, 8},          {"max_i64", ATOM_SMAX, 8},
    {"min_u32", ATOM_UMIN, 4},          {"max_u32", ATOM_UMAX, 4},
    {"min_u64", ATOM_UMIN, 8},          {"max_u64", ATOM_UMAX, 8},
};

static const atom_name stems[] = {
    {"swap", ATOM_SWAP, 0},       {"wrxchg", ATOM_SWAP, 0}, {"storexchg", ATOM_SWAP, 0},
    {"cmpswap", ATOM_CMPSWAP, 0}, {"cmpst", ATOM_CMPST, 0}, {"cmpstore", ATOM_CMPSWAP, 0},
    {"add", ATOM_ADD, 0},         {"sub", ATOM_SUB, 0},     {"rsub", ATOM_RSUB, 0},
    {"smin", ATOM_SMIN, 0},       {"umin", ATOM_UMIN, 0},   {"smax", ATOM_SMAX, 0},
    {"umax", ATOM_UMAX, 0},       {"and", ATOM_AND, 0},     {"or", ATOM_OR, 0},
    {"xor", ATOM_XOR, 0},         {"inc", ATOM_INC, 0},     {"dec", ATOM_DEC, 0},
};

static const atom_name suffixes[] = {
    {"", 0, 4},     {"_x2", 0, 8},  {"_b32", 0, 4}, {"_b64", 0, 8},
    {"_u32", 0, 4}, {"_u64", 0, 8}, {"_i32", 0, 4}, {"_i64", 0, 8},
};

bool atom_parse(const char *name, mem_info *m)
{
    for (size_t i = 0; i < ARRAY_LEN(whole); i++)
        if (!strcmp(name, whole[i].name)) {
            m->atom = (uint8_t)whole[i].op;
            m->bytes = (uint8_t)whole[i].bytes;
            return true;
        }
    for (size_t i = 0; i < ARRAY_LEN(stems); i++) {
        size_t n = strlen(stems[i].name);
        if (strncmp(name, stems[i].name, n))
            continue;
        for (size_t k = 0; k < ARRAY_LEN(suffixes); k++)
            if (!strcmp(name + n, suffixes[k].name)) {
                m->atom = (uint8_t)stems[i].op;
                m->bytes = (uint8_t)suffixes[k].bytes;
                return true;
            }
    }
    return false;
}

static float fmin_num(float a, float b)
{
    return a < b || b != b ? a : b;
}

static float fmax_num(float a, float b)
{
    return a > b || b != b ? a : b;
}

static uint64_t apply_float(int op, uint64_t old, uint64_t data)
{
    float a = u2f((uint32_t)old), b = u2f((uint32_t)data);
    double x = u2d(old), y = u2d(data);
    switch (op) {
    case ATOM_ADD_F32:
        return f2u(a + b);
    case ATOM_MIN_F32:
        return f2u(fmin_num(a, b));
    case ATOM_MAX_F32:
        return f2u(fmax_num(a, b));
    case ATOM_ADD_F64:
        return d2u(x + y);
    case ATOM_MIN_F64:
        return d2u(fmin(x, y));
    case ATOM_MAX_F64:
        return d2u(fmax(x, y));
    case ATOM_PK_ADD_F16:
        return (uint32_t)f2h(h2f((uint32_t)old) + h2f((uint32_t)data)) |
               (uint32_t)f2h(h2f((uint32_t)old >> 16) + h2f((uint32_t)data >> 16)) << 16;
    default:
        return f2bf(bf2f((uint32_t)old & 0xffff) + bf2f((uint32_t)data & 0xffff)) |
               f2bf(bf2f((uint32_t)old >> 16) + bf2f((uint32_t)data >> 16)) << 16;
    }
}

uint64_t atom_apply(int op, int bytes, uint64_t old, uint64_t data, uint64_t cmp)
{
    int64_t so = bytes == 4 ? (int32_t)old : (int64_t)old;
    int64_t sd = bytes == 4 ? (int32_t)data : (int64_t)data;
    switch (op) {
    case ATOM_SWAP:
        return data;
    case ATOM_CMPSWAP:
        return old == cmp ? data : old;
    case ATOM_CMPST:
        return old == data ? cmp : old;
    case ATOM_ADD:
        return old + data;
    case ATOM_SUB:
        return old - data;
    case ATOM_RSUB:
        return data - old;
    case ATOM_SMIN:
        return so < sd ? old : data;
    case ATOM_SMAX:
        return so > sd ? old : data;
    case ATOM_UMIN:
        return old < data ? old : data;
    case ATOM_UMAX:
        return old > data ? old : data;
    case ATOM_AND:
        return old & data;
    case ATOM_OR:
        return old | data;
    case ATOM_XOR:
        return old ^ data;
    case ATOM_INC:
        return old >= data ? 0 : old + 1;
    case ATOM_DEC:
        return old == 0 || old > data ? data : old - 1;
    default:
        return apply_float(op, old, data);
    }
}
