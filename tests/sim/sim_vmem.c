/* Global, flat, scratch and buffer accesses, and scalar loads. */
#include "sim.h"
#include "sim_atomic.h"
#include "sim_bits.h"

#include <stdio.h>
#include <string.h>

#define SHARED_APERTURE 0x00010000u
#define PRIVATE_APERTURE 0x00020000u

typedef struct access {
    uint64_t addr[LANES];
    uint64_t mask;
    int bytes;
    bool store;
} access;

/* Says where the nearest allocation is, which the address was probably meant for. */
static void no_alloc(wave *w, const inst *in, int lane, uint64_t addr, int bytes, bool store)
{
    const char *what = store ? "store" : "load";
    alloc *a = sim_mem_find(addr);
    char near[160] = "";
    if (a)
        sim_fault(w, in, lane,
                  "%s of %d bytes at 0x%llx runs past the end of the allocation [0x%llx, 0x%llx)",
                  what, bytes, (unsigned long long)addr, (unsigned long long)a->lo,
                  (unsigned long long)a->hi);
    a = sim_mem_near(addr);
    if (a)
        snprintf(near, sizeof near, ", %llu bytes %s [0x%llx, 0x%llx)",
                 (unsigned long long)(addr < a->lo ? a->lo - addr : addr - a->hi),
                 addr < a->lo ? "before" : "past the end of", (unsigned long long)a->lo,
                 (unsigned long long)a->hi);
    sim_fault(w, in, lane, "%s of %d bytes at 0x%llx is outside every allocation%s", what, bytes,
              (unsigned long long)addr, near);
}

/* The allocation of an address, by way of the few that the group used last. */
static inline alloc *find_alloc(group *g, uint64_t addr)
{
    for (size_t i = 0; i < ARRAY_LEN(g->recent); i++)
        if (g->recent[i] && addr - g->recent[i]->lo < g->recent[i]->hi - g->recent[i]->lo)
            return g->recent[i];
    alloc *a = sim_mem_is_arena(addr) ? sim_mem_find(addr) : NULL;
    if (a)
        g->recent[g->recent_next++ % ARRAY_LEN(g->recent)] = a;
    return a;
}

static inline alloc *check_alloc(wave *w, const inst *in, int lane, uint64_t addr, int bytes,
                                 bool store)
{
    alloc *a = find_alloc(w->g, addr);
    if (!a || addr + (uint64_t)bytes > a->hi)
        no_alloc(w, in, lane, addr, bytes, store);
    return a;
}

static void unwritten(wave *w, const inst *in, int lane, uint64_t addr)
{
    sim_fault(w, in, lane, "load of memory never written at 0x%llx", (unsigned long long)addr);
}

static void check_written(wave *w, const inst *in, int lane, uint64_t addr, int bytes)
{
    const uint8_t *s = sim_mem_shadow(addr);
    for (int i = 0; i < bytes; i++)
        if (!s[i])
            unwritten(w, in, lane, addr + (uint64_t)i);
}

/* Every lane's bytes lie in an allocation; loads see written memory; stores mark it. */
static void check_lanes(wave *w, const inst *in, const access *x)
{
    for (int i = 0; i < w->n; i++) {
        if (!(x->mask >> i & 1))
            continue;
        alloc *a = check_alloc(w, in, i, x->addr[i], x->bytes, x->store);
        if (x->store && a->readonly)
            sim_fault(w, in, i, "store to read-only memory at 0x%llx",
                      (unsigned long long)x->addr[i]);
        if (a->all_written)
            continue;
        if (x->store)
            memset(sim_mem_shadow(x->addr[i]), 1, (size_t)x->bytes);
        else if (sim_checks.uninit)
            check_written(w, in, i, x->addr[i], x->bytes);
    }
}

/* Whether lane i is at addr[0] + i * bytes for all lanes. */
static bool consecutive(const access *x, const wave *w)
{
    if (x->mask != w->full)
        return false;
    uint64_t bad = 0;
    for (int i = 0; i < w->n; i++)
        bad |= x->addr[i] ^ (x->addr[0] + (uint64_t)(i * x->bytes));
    return !bad;
}

static uint64_t distinct_lines(group *g, const wave *w, const access *x, int shift)
{
    uint64_t count = 0, last = ~UINT64_C(0);
    g->seen_tag++;
    for (int i = 0; i < w->n; i++) {
        if (!(x->mask >> i & 1))
            continue;
        uint64_t to = (x->addr[i] + (uint64_t)x->bytes - 1) >> shift;
        for (uint64_t l = x->addr[i] >> shift; l <= to; l++) {
            if (l == last)
                continue;
            last = l;
            uint32_t h = (uint32_t)((l * UINT64_C(0x9e3779b97f4a7c15)) >> 54);
            while (g->seen[h] == g->seen_tag && g->seen_line[h] != l)
                h = (h + 1) & 1023;
            if (g->seen[h] == g->seen_tag)
                continue;
            g->seen[h] = g->seen_tag;
            g->seen_line[h] = l;
            count++;
        }
    }
    return count;
}

static void count_access(wave *w, const access *x, bool dense)
{
    group *g = w->g;
    uint64_t bytes = (uint64_t)__builtin_popcountll(x->mask) * (uint64_t)x->bytes, t64, t128;
    if (!bytes)
        return;
    if (dense) {
        uint64_t lo = x->addr[0], hi = lo + bytes - 1;
        t64 = (hi >> 6) - (lo >> 6) + 1;
        t128 = (hi >> 7) - (lo >> 7) + 1;
    } else {
        t64 = distinct_lines(g, w, x, 6);
        t128 = distinct_lines(g, w, x, 7);
    }
    if (x->store) {
        g->cnt.store_bytes += bytes;
        g->cnt.store_trans64 += t64;
        g->cnt.store_trans128 += t128;
    } else {
        g->cnt.load_bytes += bytes;
        g->cnt.load_trans64 += t64;
        g->cnt.load_trans128 += t128;
    }
}

static void check_access(wave *w, const inst *in, const access *x)
{
    bool dense = consecutive(x, w);
    count_access(w, x, dense);
    if (dense) {
        uint64_t total = (uint64_t)w->n * (uint64_t)x->bytes;
        alloc *a = find_alloc(w->g, x->addr[0]);
        if (a && x->addr[0] + total <= a->hi && !a->readonly) {
            if (a->all_written)
                return;
            uint8_t *s = sim_mem_shadow(x->addr[0]);
            if (x->store) {
                memset(s, 1, total);
                return;
            }
            if (!sim_checks.uninit || !memchr(s, 0, total))
                return;
        }
    }
    check_lanes(w, in, x);
}

static uint32_t extend(const mem_info *m, const uint8_t *p)
{
    uint16_t h;
    if (m->bytes == 1)
        return m->sext ? (uint32_t)(int8_t)*p : *p;
    memcpy(&h, p, 2);
    return m->sext ? (uint32_t)(int16_t)h : h;
}

static void put_short(wave *w, const mem_info *m, int lane, uint32_t x)
{
    uint32_t *d = &w->v[m->dst.reg][lane];
    if (m->d16 == 1 || (m->dst.half == 1 && m->bytes <= 2))
        *d = (*d & 0xffff0000) | (x & 0xffff);
    else if (m->d16 == 2 || m->dst.half == 2)
        *d = (*d & 0xffff) | x << 16;
    else
        *d = x;
}

static void load_lane(wave *w, const mem_info *m, int lane, const uint8_t *p)
{
    if (m->bytes < 4) {
        put_short(w, m, lane, extend(m, p));
        return;
    }
    for (int k = 0; k < m->bytes / 4; k++)
        memcpy(&w->v[m->dst.reg + k][lane], p + 4 * k, 4);
}

static uint32_t short_data(const mem_info *m, uint32_t x)
{
    return m->d16 == 2 || m->data.half == 2 ? x >> 16 : x;
}

static void store_lane(wave *w, const mem_info *m, int lane, uint8_t *p)
{
    uint32_t x = w->v[m->data.reg][lane];
    if (m->bytes < 4) {
        x = short_data(m, x);
        memcpy(p, &x, m->bytes);
        return;
    }
    for (int k = 0; k < m->bytes / 4; k++)
        memcpy(p + 4 * k, &w->v[m->data.reg + k][lane], 4);
}

static uint64_t lane_data(wave *w, const operand *o, int lane, int at, int bytes)
{
    uint64_t x = w->v[o->reg + at][lane];
    return bytes == 8 ? x | (uint64_t)w->v[o->reg + at + 1][lane] << 32 : x;
}

static uint64_t atomic_global(int op, int bytes, uint8_t *p, uint64_t data, uint64_t cmp)
{
    if (bytes == 4) {
        uint32_t *q = (uint32_t *)p, old = __atomic_load_n(q, __ATOMIC_SEQ_CST), new;
        do
            new = (uint32_t)atom_apply(op, 4, old, (uint32_t)data, (uint32_t)cmp);
        while (!__atomic_compare_exchange_n(q, &old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
        return old;
    }
    uint64_t *q = (uint64_t *)p, old = __atomic_load_n(q, __ATOMIC_SEQ_CST), new;
    do
        new = atom_apply(op, 8, old, data, cmp);
    while (!__atomic_compare_exchange_n(q, &old, new, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    return old;
}

static void do_atomic(wave *w, const inst *in, const access *x)
{
    const mem_info *m = in->mem;
    for (int i = 0; i < w->n; i++) {
        if (!(x->mask >> i & 1))
            continue;
        if (x->addr[i] & (uint64_t)(m->bytes - 1))
            sim_fault(w, in, i, "misaligned atomic at 0x%llx", (unsigned long long)x->addr[i]);
        uint64_t data = lane_data(w, &m->data, i, 0, m->bytes);
        uint64_t cmp =
            m->atom == ATOM_CMPSWAP ? lane_data(w, &m->data, i, m->bytes / 4, m->bytes) : 0;
        uint64_t old = atomic_global(m->atom, m->bytes, (uint8_t *)x->addr[i], data, cmp);
        if (!m->ret)
            continue;
        w->v[m->dst.reg][i] = (uint32_t)old;
        if (m->bytes == 8)
            w->v[m->dst.reg + 1][i] = (uint32_t)(old >> 32);
    }
}

/* Transposing loads of gfx12: 16 lanes exchange an element matrix; see sim_transpose.c. */
static void transfer(wave *w, const inst *in, const access *x)
{
    const mem_info *m = in->mem;
    if (m->kind == MK_ATOMIC) {
        do_atomic(w, in, x);
        return;
    }
    for (uint64_t b = x->mask; b; b &= b - 1) {
        int i = __builtin_ctzll(b);
        if (m->kind == MK_STORE)
            store_lane(w, m, i, (uint8_t *)x->addr[i]);
        else
            load_lane(w, m, i, (const uint8_t *)x->addr[i]);
    }
    if (m->tr)
        transpose_result(w, in);
}

/* Direct loads: lane i's data go to M0 + offset + i * element. */
static void transfer_lds(wave *w, const inst *in, const access *x)
{
    const mem_info *m = in->mem;
    group *g = w->g;
    uint32_t step = m->bytes < 4 ? 4 : m->bytes;
    uint32_t base = (w->s[S_M0] & 0x3ffff) + (uint32_t)m->offset, to[LANES] = {0};
    for (uint64_t b = x->mask; b; b &= b - 1) {
        int i = __builtin_ctzll(b);
        to[i] = base + (uint32_t)i * step;
        if ((uint64_t)to[i] + step > g->lds_bytes)
            sim_fault(w, in, i, "direct load to LDS address 0x%x is past its %u bytes", to[i],
                      g->lds_bytes);
        lds_race_write(w, in, i, to[i], step);
        if (m->bytes < 4) {
            uint32_t v = extend(m, (const uint8_t *)x->addr[i]);
            memcpy(g->lds + to[i], &v, 4);
        } else {
            memcpy(g->lds + to[i], (const void *)x->addr[i], m->bytes);
        }
        memset(g->lds_init + to[i], 1, step);
        memset(g->lds_dma + to[i], 1, step);
    }
    wait_add(w, in, 1 << CT_VM, PC_VMEM, 0, 0, 0);
    if (lds_write_slot(w, x->mask, to, (int)step, true) >= 0)
        g->dma_live++;
    else
        for (int i = 0; i < w->n; i++)
            memset(g->lds_dma + to[i], 0, step); /* too many under way to follow */
}

/* Offset in a lane's scratch to its place: dwords of all lanes lie side by side. */
static uint8_t *scratch_at(wave *w, const inst *in, int lane, uint64_t off, int bytes)
{
    if (off + (uint64_t)bytes > w->scratch_bytes)
        sim_fault(w, in, lane, "scratch offset 0x%llx is past the %u bytes of a lane",
                  (unsigned long long)off, w->scratch_bytes);
    return w->scratch + ((off >> 2) * (uint64_t)w->n + (uint64_t)lane) * 4 + (off & 3);
}

/* Accesses may span dwords, which are not adjacent in the interleaved layout. */
static void scratch_lane(wave *w, const inst *in, int lane, uint64_t off)
{
    const mem_info *m = in->mem;
    uint8_t buf[16];
    if (m->kind == MK_STORE) {
        store_lane(w, m, lane, buf);
        for (int k = 0; k < m->bytes; k++)
            *scratch_at(w, in, lane, off + (uint64_t)k, 1) = buf[k];
        return;
    }
    for (int k = 0; k < m->bytes; k++)
        buf[k] = *scratch_at(w, in, lane, off + (uint64_t)k, 1);
    load_lane(w, m, lane, buf);
}

static void note_wait(wave *w, const inst *in, bool flat)
{
    const mem_info *m = in->mem;
    bool returns = m->kind == MK_LOAD || m->ret;
    int counter = sim_chip()->gen == 9 || returns ? CT_VM : CT_VS;
    int counters = 1 << counter | (flat ? 1 << CT_LGKM : 0);
    int cls = flat ? PC_FLAT : returns || sim_chip()->gen == 9 ? PC_VMEM : PC_STORE;
    int n = returns ? (m->bytes + 3) / 4 : 0;
    wait_add(w, in, counters, cls, 1, m->dst.reg, n);
}

static void exec_scratch(wave *w, const inst *in)
{
    const mem_info *m = in->mem;
    uint64_t mask = wave_mask64(w, S_EXEC);
    for (uint64_t b = mask; b; b &= b - 1) {
        int i = __builtin_ctzll(b);
        uint32_t off = (uint32_t)m->offset;
        if (m->vaddr.kind == OK_VGPR)
            off += w->v[m->vaddr.reg][i];
        if (m->saddr.kind == OK_SGPR)
            off += w->s[m->saddr.reg];
        scratch_lane(w, in, i, off);
    }
    note_wait(w, in, false);
}

static void addresses(wave *w, const mem_info *m, access *x)
{
    uint64_t base = (uint64_t)m->offset;
    if (m->saddr.kind == OK_SGPR) {
        base += w->s[m->saddr.reg] | (uint64_t)w->s[m->saddr.reg + 1] << 32;
        const uint32_t *v = m->vaddr.kind == OK_VGPR ? w->v[m->vaddr.reg] : NULL;
        for (int i = 0; i < w->n; i++)
            x->addr[i] = base + (v ? v[i] : 0);
        return;
    }
    const uint32_t *lo = w->v[m->vaddr.reg], *hi = w->v[m->vaddr.reg + 1];
    for (int i = 0; i < w->n; i++)
        x->addr[i] = base + (lo[i] | (uint64_t)hi[i] << 32);
}

/* Flat accesses split by aperture. */
static void exec_flat(wave *w, const inst *in, access *x)
{
    uint64_t global = 0;
    for (uint64_t b = x->mask; b; b &= b - 1) {
        int i = __builtin_ctzll(b);
        uint32_t hi = (uint32_t)(x->addr[i] >> 32);
        if (hi == SHARED_APERTURE)
            lds_flat_lane(w, in, i, (uint32_t)x->addr[i]);
        else if (hi == PRIVATE_APERTURE)
            scratch_lane(w, in, i, (uint32_t)x->addr[i]);
        else
            global |= UINT64_C(1) << i;
    }
    x->mask = global;
}

static bool is_scratch_desc(const wave *w, uint32_t word3)
{
    (void)w;
    return word3 >> 23 & 1; /* add the lane's number: the private segment's descriptor */
}

/* Buffer descriptors: base, stride, records; swizzled ones only for the private segment. */
static void exec_buffer(wave *w, const inst *in, access *x)
{
    const mem_info *m = in->mem;
    const uint32_t *r = &w->s[m->saddr.reg];
    uint64_t base = r[0] | (uint64_t)(r[1] & 0xffff) << 32;
    uint32_t stride = r[1] >> 16 & 0x3fff, records = r[2];
    uint32_t soff = (uint32_t)read_scalar(w, &m->soffset);
    bool scratch = is_scratch_desc(w, r[3]) && sim_chip()->gen == 9;
    int at = m->vaddr.reg;
    const uint32_t *vi = m->idxen ? w->v[at] : NULL;
    const uint32_t *vo = m->offen ? w->v[at + m->idxen] : NULL;
    uint64_t inside = 0;
    for (uint64_t b = x->mask; b; b &= b - 1) {
        int i = __builtin_ctzll(b);
        uint32_t off = (uint32_t)m->offset + (vo ? vo[i] : 0), index = vi ? vi[i] : 0;
        if (scratch) {
            /* The scalar offset and the base count bytes of the whole wave. */
            uint64_t wave_off = base + soff - w->scratch_base;
            scratch_lane(w, in, i, wave_off / (uint64_t)w->n + off);
            continue;
        }
        uint64_t linear = (uint64_t)index * stride + off;
        bool raw = !m->idxen || !stride;
        bool in_range = raw ? linear + soff + (uint64_t)m->bytes <= records : index < records;
        if (in_range) {
            x->addr[i] = base + soff + linear;
            inside |= UINT64_C(1) << i;
        } else if (m->kind == MK_LOAD) {
            static const uint8_t zeros[16];
            load_lane(w, m, i, zeros);
        }
    }
    x->mask = scratch ? 0 : inside;
}

static void mark_written_after(wave *w, const inst *in, access *x)
{
    if (in->mem->kind != MK_ATOMIC)
        return;
    x->store = true;
    for (uint64_t b = x->mask; b; b &= b - 1) {
        int i = __builtin_ctzll(b);
        memset(sim_mem_shadow(x->addr[i]), 1, (size_t)x->bytes);
    }
    (void)w;
}

void exec_mem(wave *w, const inst *in)
{
    const mem_info *m = in->mem;
    access x;
    if (m->space == SP_SCRATCH) {
        exec_scratch(w, in);
        return;
    }
    x.mask = wave_mask64(w, S_EXEC);
    x.bytes = m->bytes;
    x.store = m->kind == MK_STORE;
    if (m->space == SP_BUFFER)
        exec_buffer(w, in, &x);
    else
        addresses(w, m, &x);
    if (m->space == SP_FLAT)
        exec_flat(w, in, &x);
    if (x.mask) {
        check_access(w, in, &x);
        if (m->kind == MK_LDS_LOAD) {
            transfer_lds(w, in, &x);
            return;
        }
        transfer(w, in, &x);
        mark_written_after(w, in, &x);
    }
    note_wait(w, in, m->space == SP_FLAT);
}

/* Scalar loads: aligned to a dword, one address for the wave. */
void exec_smem(wave *w, const inst *in)
{
    const mem_info *m = in->mem;
    const uint32_t *r = &w->s[m->saddr.reg];
    uint64_t addr = r[0] | (uint64_t)r[1] << 32;
    uint64_t off = (uint64_t)m->offset;
    if (m->soffset.kind != OK_NONE)
        off += (uint32_t)read_scalar(w, &m->soffset);
    uint32_t tmp[16] = {0};
    int regs = (m->bytes + 3) / 4;
    bool buffer = m->space == SP_BUFFER;
    if (buffer)
        addr &= UINT64_C(0xffffffffffff);
    addr += off;
    if (m->bytes >= 4)
        addr &= ~UINT64_C(3);
    if (!buffer || off + m->bytes <= r[2]) {
        alloc *a = check_alloc(w, in, -1, addr, m->bytes, false);
        if (!a->all_written && sim_checks.uninit)
            check_written(w, in, -1, addr, m->bytes);
        if (m->bytes < 4)
            tmp[0] = extend(m, (const uint8_t *)addr);
        else
            memcpy(tmp, (const void *)addr, m->bytes);
    }
    if (m->dst.kind != OK_SGPR)
        return;
    memcpy(&w->s[m->dst.reg], tmp, (size_t)regs * 4);
    wait_add(w, in, 1 << (sim_chip()->gen == 12 ? CT_EXP : CT_LGKM), PC_SMEM, 0, m->dst.reg, regs);
}
