/* Atomic operations on global memory and LDS. */
#ifndef SIM_ATOMIC_H
#define SIM_ATOMIC_H

#include "sim.h"

enum atom_op {
    ATOM_SWAP,
    ATOM_CMPSWAP,
    ATOM_ADD,
    ATOM_SUB,
    ATOM_RSUB,
    ATOM_SMIN,
    ATOM_UMIN,
    ATOM_SMAX,
    ATOM_UMAX,
    ATOM_AND,
    ATOM_OR,
    ATOM_XOR,
    ATOM_INC,
    ATOM_DEC,
    ATOM_ADD_F32,
    ATOM_MIN_F32,
    ATOM_MAX_F32,
    ATOM_ADD_F64,
    ATOM_MIN_F64,
    ATOM_MAX_F64,
    ATOM_PK_ADD_F16,
    ATOM_PK_ADD_BF16,
    ATOM_CMPST, /* LDS order: comparand first */
    /* Lane exchanges through the LDS unit. */
    ATOM_SWIZZLE,
    ATOM_PERMUTE,
    ATOM_BPERMUTE,
    ATOM_BPERMUTE_FI
};

/* "add_x2", "add_u32", "pk_add_f16": sets atom and bytes. */
bool atom_parse(const char *name, mem_info *m);
uint64_t atom_apply(int op, int bytes, uint64_t old, uint64_t data, uint64_t cmp);

#endif
