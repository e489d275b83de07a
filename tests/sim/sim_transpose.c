/*
 * Transposing loads. Each group of 16 lanes loads a matrix of elements: lane r gives row r of
 * 64 (or 96, 128) bits, and receives a column.
 */
#include "sim.h"

#include <string.h>

/* Bits [at, at + n) of the loaded registers of a lane. */
static uint64_t row_bits(wave *w, int reg, int lane, int at, int n)
{
    uint64_t x = w->v[reg + at / 32][lane];
    if (at % 32 + n > 32)
        x |= (uint64_t)w->v[reg + at / 32 + 1][lane] << 32;
    return (x >> (at % 32)) & ((UINT64_C(1) << n) - 1);
}

static void put_bits(uint32_t (*d)[LANES], int lane, int at, int n, uint64_t x)
{
    uint64_t mask = ((UINT64_C(1) << n) - 1) << (at % 32), v = x << (at % 32);
    uint32_t *p = &d[at / 32][lane];
    *p = (*p & ~(uint32_t)mask) | (uint32_t)v;
    if (at % 32 + n > 32) {
        p = &d[at / 32 + 1][lane];
        *p = (*p & ~(uint32_t)(mask >> 32)) | (uint32_t)(v >> 32);
    }
}

/*
 * The 16 lanes' data, one lane after another, are rows of 16 elements: a lane holds a part of a
 * row, or a whole one. Lane l receives column l, a row in each element.
 */
void transpose_result(wave *w, const inst *in)
{
    const mem_info *m = in->mem;
    int bits = m->tr, elems = m->bytes * 8 / bits, regs = m->bytes / 4;
    uint32_t out[4][LANES];
    int lanes_a_row = 16 / elems ? 16 / elems : 1;
    if (sim_chip()->gen != 9) /* the matrix of gfx12 spans the wave in another way */
        sim_fault(w, in, -1, "transposing loads of this chip are not implemented");
    memset(out, 0, sizeof out);
    for (int base = 0; base < w->n; base += 16)
        for (int l = 0; l < 16; l++)
            for (int e = 0; e < elems; e++) {
                int from = elems >= 16 ? e % 16 : e * lanes_a_row + l / elems;
                uint64_t x = row_bits(w, m->dst.reg, base + from, (l % elems) * bits, bits);
                put_bits(out, base + l, e * bits, bits, x);
            }
    for (int r = 0; r < regs; r++)
        commit_reg(w, w->v[m->dst.reg + r], out[r], wave_mask64(w, S_EXEC));
}
