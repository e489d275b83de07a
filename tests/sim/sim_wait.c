/*
 * Outstanding memory operations: a register that a load will write may not be used before a wait
 * that is certain to cover the load.
 */
#include "sim.h"

#include <string.h>

static void set_bits(uint64_t *map, int reg, int n)
{
    for (int i = reg; i < reg + n; i++)
        map[i >> 6] |= UINT64_C(1) << (i & 63);
}

static bool any_bits(const uint64_t *map, int reg, int n)
{
    for (int i = reg; i < reg + n; i++)
        if (map[i >> 6] >> (i & 63) & 1)
            return true;
    return false;
}

static void add_regs(wave *w, const pending *p)
{
    if (p->regs.n)
        set_bits(p->regs.vgpr ? w->pend_v : w->pend_s, p->regs.reg, p->regs.n);
}

static void rebuild(wave *w)
{
    memset(w->pend_v, 0, sizeof w->pend_v);
    memset(w->pend_s, 0, sizeof w->pend_s);
    for (int i = 0; i < w->npend; i++)
        add_regs(w, &w->pend[i]);
}

static void release_lds(wave *w, pending *p)
{
    for (int k = 0; k < 2 && p->lds_write[k]; k++) {
        lds_write *lw = &w->lds_writes[p->lds_write[k] - 1];
        lw->used = false;
        if (!lw->dma)
            continue;
        w->g->dma_live--;
        for (int i = 0; i < LANES; i++)
            if (lw->mask >> i & 1)
                memset(w->g->lds_dma + lw->addr[i], 0, lw->bytes);
        /* The data counts as written now, by this wave. */
        lds_remark(w, lw);
    }
}

static void retire(wave *w, int index)
{
    release_lds(w, &w->pend[index]);
    memmove(w->pend + index, w->pend + index + 1,
            (size_t)(w->npend - index - 1) * sizeof w->pend[0]);
    w->npend--;
}

void wait_add(wave *w, const inst *in, int counters, int cls, int vgpr, int reg, int n)
{
    if (w->npend == MAX_PEND) { /* the counter is at its end: the hardware waits */
        retire(w, 0);
        rebuild(w);
    }
    pending *p = &w->pend[w->npend++];
    *p = (pending){
        (uint8_t)counters, (uint8_t)cls, {0, 0}, {(uint8_t)vgpr, (uint8_t)n, (uint16_t)reg}, in};
    add_regs(w, p);
}

/*
 * After a wait for n, at most n operations of the counter are left. One can be among them only if
 * all later ones that cannot overtake it are too; scalar and flat operations return in any order.
 */
void wait_until(wave *w, int counter, int n)
{
    int later[8] = {0};
    bool changed = false;
    if (n >= w->npend)
        return;
    for (int i = w->npend - 1; i >= 0; i--) {
        pending *p = &w->pend[i];
        if (!(p->counters >> counter & 1))
            continue;
        bool ordered = p->cls != PC_SMEM && p->cls != PC_FLAT;
        if (1 + (ordered ? later[p->cls] : 0) > n) {
            p->counters &= (uint8_t) ~(1u << counter);
            changed = true;
        }
        later[p->cls]++;
    }
    if (!changed)
        return;
    for (int i = w->npend - 1; i >= 0; i--)
        if (!w->pend[i].counters)
            retire(w, i);
    rebuild(w);
}

static const pending *find_pending(const wave *w, const reg_range *r)
{
    for (int i = 0; i < w->npend; i++) {
        const reg_range *q = &w->pend[i].regs;
        if (q->n && q->vgpr == r->vgpr && q->reg < r->reg + r->n && r->reg < q->reg + q->n)
            return &w->pend[i];
    }
    return NULL;
}

static void check_range(wave *w, const inst *in, const reg_range *r, bool write)
{
    if (!any_bits(r->vgpr ? w->pend_v : w->pend_s, r->reg, r->n))
        return;
    const pending *p = find_pending(w, r);
    /* Loads of one kind return in order, so a later one may write the same register. */
    if (write && p && in->mem && p->in->mem && p->in->mem->space == in->mem->space)
        return;
    char name = r->vgpr ? r->reg >= 256 ? 'a' : 'v' : 's';
    sim_fault(w, in, -1, "%s %c%d before the load at 0x%llx (%s) was waited for",
              write ? "writes" : "reads", name, r->reg >= 256 ? r->reg - 256 : r->reg,
              p ? (unsigned long long)p->in->addr : 0ull, p ? p->in->text : "?");
}

void wait_check(wave *w, const inst *in)
{
    for (int i = 0; i < in->nread; i++)
        check_range(w, in, &in->read[i], false);
    for (int i = 0; i < in->nwrite; i++)
        check_range(w, in, &in->write[i], true);
}

/* A record of bytes written to LDS, kept until the write has been waited for. */
int lds_write_slot(wave *w, uint64_t mask, const uint32_t *addr, int bytes, bool dma)
{
    for (int i = 0; i < (int)ARRAY_LEN(w->lds_writes); i++) {
        lds_write *lw = &w->lds_writes[i];
        if (lw->used)
            continue;
        lw->used = true;
        lw->dma = dma;
        lw->mask = mask;
        lw->bytes = (uint8_t)bytes;
        memcpy(lw->addr, addr, sizeof lw->addr);
        pending *p = &w->pend[w->npend - 1];
        p->lds_write[p->lds_write[0] != 0] = (uint8_t)(i + 1);
        return i;
    }
    return -1;
}

/*
 * At a barrier: what has been written to LDS but not waited for is not visible behind it, so it
 * counts as written in the next phase.
 */
void wait_recheck_barrier(wave *w)
{
    for (int i = 0; i < w->npend; i++)
        for (int k = 0; k < 2 && w->pend[i].lds_write[k]; k++) {
            lds_write *lw = &w->lds_writes[w->pend[i].lds_write[k] - 1];
            if (!lw->dma)
                lds_remark(w, lw);
        }
}
