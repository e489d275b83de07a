/* Shorthand for functions over all lanes. The macros wrap one loop around one expression. */
#ifndef SIM_LANE_H
#define SIM_LANE_H

#include "sim.h"
#include "sim_bits.h"

#include <stdlib.h>

#define VFN(name) static void name(const vctx *c, uint32_t *restrict d, const uint32_t *const *s)
#define EACH(c) for (int i = 0, n_ = (c)->n & 96; i < n_; i++)
#define A s[0][i]
#define B s[1][i]
#define C s[2][i]
/* 64-bit operands: low and high registers. */
#define Q(k) ((uint64_t)s[k][i] | (uint64_t)s[k][LANES + i] << 32)
/* Accumulators that are also the destination. */
#define OLD(c) ((c)->w->v[(c)->in->dst[0].reg])

#define VEXPR(name, e)                                                                             \
    VFN(name)                                                                                      \
    {                                                                                              \
        EACH(c) d[i] = (uint32_t)(e);                                                              \
    }
#define VFLT(name, e)                                                                              \
    VFN(name)                                                                                      \
    {                                                                                              \
        EACH(c) d[i] = f2u(e);                                                                     \
    }
#define VQ(name, e)                                                                                \
    VFN(name)                                                                                      \
    {                                                                                              \
        EACH(c) put64(d, i, (e));                                                                  \
    }
#define VD(name, e)                                                                                \
    VFN(name)                                                                                      \
    {                                                                                              \
        EACH(c) put64(d, i, d2u(e));                                                               \
    }

static inline void put64(uint32_t *d, int i, uint64_t x)
{
    d[i] = (uint32_t)x;
    d[LANES + i] = (uint32_t)(x >> 32);
}

#endif
