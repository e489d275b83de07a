/* Local memory: accesses, lane exchange, bounds, races, bank conflicts. */
#include "sim.h"
#include "sim_atomic.h"
#include "sim_bits.h"

#include <string.h>

/*
 * Race records: phase in the upper bits, whether several waves read, the wave. A record conflicts
 * with one's own if the phase is the same and anything else differs.
 */
#define REC(epoch, wave) ((uint16_t)((epoch) << 6 | (wave)))
#define REC_WAVE(r) ((r)&31)
#define REC_MANY 32u
#define CONFLICT(r, mine) ((uint16_t)(((r) ^ (mine)) - 1) < 63)

static void race(wave *w, const inst *in, int lane, uint32_t addr, uint32_t other, const char *what)
{
    sim_fault(w, in, lane, "LDS race at byte 0x%x: wave %d %s wave %u without a barrier between",
              addr, w->index, what, other);
}

static void report_write(wave *w, const inst *in, int lane, uint32_t addr, uint32_t n)
{
    group *g = w->g;
    uint16_t mine = REC(g->epoch, w->index);
    for (uint32_t a = addr; a < addr + n; a++) {
        if (CONFLICT(g->lds_wr[a], mine))
            race(w, in, lane, a, REC_WAVE(g->lds_wr[a]), "overwrites what was written by");
        if (CONFLICT(g->lds_rd[a], mine))
            race(w, in, lane, a, REC_WAVE(g->lds_rd[a]), "overwrites what was read by");
    }
}

static inline unsigned any_conflict(const group *g, uint16_t mine, uint32_t addr, uint32_t n)
{
    unsigned bad = 0;
    const uint16_t *wr = g->lds_wr + addr, *rd = g->lds_rd + addr;
    for (uint32_t k = 0; k < n; k++)
        bad |= (unsigned)CONFLICT(wr[k], mine) | (unsigned)CONFLICT(rd[k], mine);
    return bad;
}

/* Sizes that are common get loops of fixed length. */
void lds_race_write(wave *w, const inst *in, int lane, uint32_t addr, uint32_t n)
{
    if (!sim_checks.race)
        return;
    group *g = w->g;
    uint16_t mine = REC(g->epoch, w->index);
    unsigned bad = n == 4    ? any_conflict(g, mine, addr, 4)
                   : n == 16 ? any_conflict(g, mine, addr, 16)
                             : any_conflict(g, mine, addr, n);
    if (bad)
        report_write(w, in, lane, addr, n);
    for (uint32_t k = 0; k < n; k++)
        g->lds_wr[addr + k] = mine;
}

static inline unsigned mark_read(group *g, uint16_t mine, uint32_t addr, uint32_t n)
{
    unsigned bad = 0;
    uint16_t *wr = g->lds_wr + addr, *rd = g->lds_rd + addr;
    for (uint32_t k = 0; k < n; k++) {
        bad |= CONFLICT(wr[k], mine);
        rd[k] = CONFLICT(rd[k], mine) ? (uint16_t)(rd[k] | REC_MANY) : mine;
    }
    return bad;
}

void lds_race_read(wave *w, const inst *in, int lane, uint32_t addr, uint32_t n)
{
    if (!sim_checks.race)
        return;
    group *g = w->g;
    uint16_t mine = REC(g->epoch, w->index);
    unsigned bad = n == 4    ? mark_read(g, mine, addr, 4)
                   : n == 16 ? mark_read(g, mine, addr, 16)
                             : mark_read(g, mine, addr, n);
    for (uint32_t a = addr; bad && a < addr + n; a++)
        if (CONFLICT(g->lds_wr[a], mine))
            race(w, in, lane, a, REC_WAVE(g->lds_wr[a]), "reads what was written by");
}

/* Bytes written earlier by this wave count as written in the present phase. */
void lds_remark(wave *w, const lds_write *lw)
{
    uint16_t mine = REC(w->g->epoch, w->index);
    for (int i = 0; i < LANES; i++) {
        if (!(lw->mask >> i & 1))
            continue;
        for (uint32_t k = 0; k < lw->bytes; k++)
            w->g->lds_wr[lw->addr[i] + k] = mine;
    }
}

static uint8_t *lds_at(wave *w, const inst *in, int lane, uint64_t addr, int bytes)
{
    if (addr + (uint64_t)bytes > w->g->lds_bytes)
        sim_fault(w, in, lane, "LDS access of %d bytes at 0x%llx is past the %u bytes of the group",
                  bytes, (unsigned long long)addr, w->g->lds_bytes);
    return w->g->lds + addr;
}

static bool all_set(const uint8_t *p, int bytes)
{
    uint64_t x = 0, y = 0;
    if (bytes == 4) {
        memcpy(&x, p, 4);
        return x == UINT64_C(0x01010101);
    }
    if (bytes == 16) {
        memcpy(&x, p, 8);
        memcpy(&y, p + 8, 8);
        return (x & y) == UINT64_C(0x0101010101010101);
    }
    for (int k = 0; k < bytes; k++)
        if (!p[k])
            return false;
    return true;
}

static void check_read(wave *w, const inst *in, int lane, uint32_t addr, int bytes)
{
    group *g = w->g;
    if (sim_checks.uninit && !all_set(g->lds_init + addr, bytes))
        for (int k = 0; k < bytes; k++)
            if (!g->lds_init[addr + (uint32_t)k])
                sim_fault(w, in, lane, "read of LDS never written at byte 0x%x",
                          addr + (uint32_t)k);
    if (sim_checks.wait && g->dma_live)
        for (int k = 0; k < bytes; k++)
            if (g->lds_dma[addr + (uint32_t)k])
                sim_fault(w, in, lane,
                          "read of LDS byte 0x%x before its direct load was waited for",
                          addr + (uint32_t)k);
    lds_race_read(w, in, lane, addr, (uint32_t)bytes);
}

static void put_lane(wave *w, const mem_info *m, int reg, int lane, const uint8_t *p)
{
    uint32_t x = 0;
    if (m->bytes >= 4) {
        for (int k = 0; k < m->bytes / 4; k++)
            memcpy(&w->v[reg + k][lane], p + 4 * k, 4);
        return;
    }
    memcpy(&x, p, m->bytes);
    if (m->sext)
        x = m->bytes == 1 ? (uint32_t)(int8_t)x : (uint32_t)(int16_t)x;
    uint32_t *d = &w->v[reg][lane];
    if (m->d16 == 1 || m->dst.half == 1)
        *d = (*d & 0xffff0000) | (x & 0xffff);
    else if (m->d16 == 2 || m->dst.half == 2)
        *d = (*d & 0xffff) | x << 16;
    else
        *d = x;
}

static void get_lane(wave *w, const mem_info *m, const operand *o, int lane, uint8_t *p)
{
    if (m->bytes >= 4) {
        for (int k = 0; k < m->bytes / 4; k++)
            memcpy(p + 4 * k, &w->v[o->reg + k][lane], 4);
        return;
    }
    uint32_t x = w->v[o->reg][lane];
    if (m->d16 == 2 || o->half == 2)
        x >>= 16;
    memcpy(p, &x, m->bytes);
}

static void write_bytes(wave *w, const inst *in, int lane, uint32_t addr, const uint8_t *p, int n)
{
    uint8_t *d = lds_at(w, in, lane, addr, n);
    lds_race_write(w, in, lane, addr, (uint32_t)n);
    memcpy(d, p, (size_t)n);
    memset(w->g->lds_init + addr, 1, (size_t)n);
}

/* One lane of a flat access through the LDS aperture. */
void lds_flat_lane(wave *w, const inst *in, int lane, uint32_t addr)
{
    const mem_info *m = in->mem;
    uint8_t buf[16];
    uint8_t *p = lds_at(w, in, lane, addr, m->bytes);
    if (m->kind == MK_STORE) {
        get_lane(w, m, &m->data, lane, buf);
        write_bytes(w, in, lane, addr, buf, m->bytes);
    } else if (m->kind == MK_LOAD) {
        check_read(w, in, lane, addr, m->bytes);
        put_lane(w, m, m->dst.reg, lane, p);
    } else {
        sim_fault(w, in, lane, "flat atomic on LDS is not implemented");
    }
}

/*
 * Cycles beyond the conflict-free ones. Lanes are served in groups that could fill all banks once;
 * lanes of a group that want different dwords of one bank wait for each other.
 */
static uint64_t bank_conflicts(const wave *w, uint64_t mask, const uint32_t *addr, int bytes)
{
    int banks = sim_chip()->is950 ? 64 : 32;
    int dwords = bytes < 4 ? 1 : bytes / 4;
    int lanes = banks / dwords;
    uint64_t extra = 0;
    uint32_t seen[64][8];
    uint8_t count[64];
    for (int first = 0; first < w->n; first += lanes) {
        int worst = 1;
        memset(count, 0, sizeof count);
        for (int i = first; i < first + lanes && i < w->n; i++) {
            if (!(mask >> i & 1))
                continue;
            for (int k = 0; k < dwords; k++) {
                uint32_t dw = addr[i] / 4 + (uint32_t)k, b = dw & (uint32_t)(banks - 1);
                int j = 0;
                while (j < count[b] && j < 8 && seen[b][j] != dw)
                    j++;
                if (j < count[b] && j < 8)
                    continue;
                if (count[b] < 8)
                    seen[b][count[b]] = dw;
                count[b]++;
                worst = count[b] > worst ? count[b] : worst;
            }
        }
        extra += (uint64_t)(worst - 1);
    }
    return extra;
}

static void count_lds(wave *w, uint64_t mask, const uint32_t *addr, int bytes)
{
    group *g = w->g;
    g->cnt.lds_bytes += (uint64_t)__builtin_popcountll(mask) * (uint64_t)bytes;
    bool dense = mask == w->full && bytes >= 4;
    uint32_t bad = 0;
    for (int i = 0; i < w->n; i++)
        bad |= addr[i] ^ (addr[0] + (uint32_t)(i * bytes));
    if (!(dense && !bad))
        g->cnt.lds_conflicts += bank_conflicts(w, mask, addr, bytes);
}

static void lds_access(wave *w, const inst *in, uint32_t offset, const operand *data, int reg)
{
    const mem_info *m = in->mem;
    uint64_t mask = wave_mask64(w, S_EXEC);
    uint32_t addr[LANES];
    const uint32_t *v = w->v[m->vaddr.reg];
    for (int i = 0; i < w->n; i++)
        addr[i] = v[i] + offset;
    for (int i = w->n; i < LANES; i++)
        addr[i] = 0;
    count_lds(w, mask, addr, m->bytes);
    uint8_t buf[16];
    for (uint64_t b = mask; b; b &= b - 1) {
        int i = __builtin_ctzll(b);
        if (m->kind == MK_LOAD) {
            const uint8_t *p = lds_at(w, in, i, addr[i], m->bytes);
            check_read(w, in, i, addr[i], m->bytes);
            put_lane(w, m, reg, i, p);
        } else {
            get_lane(w, m, data, i, buf);
            write_bytes(w, in, i, addr[i], buf, m->bytes);
        }
    }
    if (m->kind == MK_STORE) {
        if (data == &m->data) /* a pair of stores counts once */
            wait_add(w, in, 1 << CT_LGKM, PC_LDS, 0, 0, 0);
        lds_write_slot(w, mask, addr, m->bytes, false);
    }
}

static void lds_atomic(wave *w, const inst *in)
{
    const mem_info *m = in->mem;
    uint64_t mask = wave_mask64(w, S_EXEC);
    for (uint64_t b = mask; b; b &= b - 1) {
        int i = __builtin_ctzll(b);
        uint32_t addr = w->v[m->vaddr.reg][i] + m->offset0;
        uint8_t *p = lds_at(w, in, i, addr, m->bytes);
        uint64_t old = 0, data = w->v[m->data.reg][i], cmp = 0;
        if (sim_checks.uninit)
            for (int k = 0; k < m->bytes; k++)
                if (!w->g->lds_init[addr + (uint32_t)k])
                    sim_fault(w, in, i, "atomic on LDS never written at byte 0x%x", addr);
        memcpy(&old, p, m->bytes);
        if (m->bytes == 8)
            data |= (uint64_t)w->v[m->data.reg + 1][i] << 32;
        if (m->data2.kind == OK_VGPR) {
            cmp = w->v[m->data2.reg][i];
            if (m->bytes == 8)
                cmp |= (uint64_t)w->v[m->data2.reg + 1][i] << 32;
        }
        uint64_t new = atom_apply(m->atom, m->bytes, old, data, cmp);
        memcpy(p, &new, m->bytes);
        if (m->ret) {
            w->v[m->dst.reg][i] = (uint32_t)old;
            if (m->bytes == 8)
                w->v[m->dst.reg + 1][i] = (uint32_t)(old >> 32);
        }
    }
    wait_add(w, in, 1 << CT_LGKM, PC_LDS, 1, m->dst.reg, m->ret ? m->bytes / 4 : 0);
}

static int swizzle_source(uint32_t off, int lane)
{
    if (off & 0x8000) {
        if ((off & 0xe000) == 0xc000) { /* rotate within 32 lanes */
            int by = (int)(off >> 5 & 31), keep = (int)(off & 31);
            int to = off & 0x400 ? lane - by : lane + by;
            return (lane & 32) | (lane & keep) | (to & ~keep & 31);
        }
        return (lane & ~3) + (int)(off >> (2 * (lane & 3)) & 3);
    }
    int and = (int)(off & 31), or = (int)(off >> 5 & 31), xor = (int)(off >> 10 & 31);
    return (lane & 32) | ((((lane & 31) & and) | or) ^ xor);
}

static void lds_lane_exchange(wave *w, const inst *in)
{
    const mem_info *m = in->mem;
    uint32_t d[LANES] = {0};
    uint64_t exec = wave_mask64(w, S_EXEC), write = exec;
    const uint32_t *a = w->v[m->vaddr.reg], *x = w->v[m->data.reg];
    int lanes = w->n;
    for (int i = 0; i < lanes; i++) {
        if (m->atom == ATOM_SWIZZLE) {
            int s = swizzle_source(m->offset0, i);
            d[i] = exec >> s & 1 ? a[s] : 0;
        } else if (m->atom == ATOM_PERMUTE) {
            /* Pushes: the highest lane that names a target wins. */
            if (exec >> i & 1)
                d[(a[i] + m->offset0) / 4 % (uint32_t)lanes] = x[i];
        } else {
            int s = (int)((a[i] + m->offset0) / 4 % (uint32_t)lanes);
            bool live = m->atom == ATOM_BPERMUTE_FI || (exec >> s & 1);
            d[i] = live ? x[s] : 0;
        }
    }
    commit_reg(w, w->v[m->dst.reg], d, write);
    wait_add(w, in, 1 << CT_LGKM, PC_LDS, 1, m->dst.reg, 1);
}

void exec_lds(wave *w, const inst *in)
{
    const mem_info *m = in->mem;
    if (m->atom >= ATOM_SWIZZLE) {
        lds_lane_exchange(w, in);
        return;
    }
    if (m->kind == MK_ATOMIC) {
        lds_atomic(w, in);
        return;
    }
    int dw = (m->bytes + 3) / 4;
    if (m->count == 2 && m->kind == MK_LOAD) {
        /* The first result may overwrite the address register. */
        uint32_t addr[LANES];
        memcpy(addr, w->v[m->vaddr.reg], sizeof addr);
        lds_access(w, in, m->offset0, NULL, m->dst.reg);
        uint32_t first[8][LANES];
        for (int k = 0; k < dw; k++)
            memcpy(first[k], w->v[m->dst.reg + k], sizeof first[k]);
        memcpy(w->v[m->vaddr.reg], addr, sizeof addr);
        lds_access(w, in, m->offset1, NULL, m->dst.reg + dw);
        for (int k = 0; k < dw; k++)
            if (m->dst.reg + k == m->vaddr.reg)
                memcpy(w->v[m->dst.reg + k], first[k], sizeof first[k]);
    } else {
        lds_access(w, in, m->offset0, &m->data, m->dst.reg);
        if (m->count == 2)
            lds_access(w, in, m->offset1, &m->data2, 0);
    }
    if (m->tr)
        transpose_result(w, in);
    if (m->kind == MK_LOAD)
        wait_add(w, in, 1 << CT_LGKM, PC_LDS, 1, m->dst.reg, dw * (m->count ? m->count : 1));
}
