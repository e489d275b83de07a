/* Runs a grid: workgroups on threads, the waves of a workgroup in turn from barrier to barrier. */
#include "sim.h"
#include "sim_bits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLICE 200000 /* instructions before another wave of the group gets its turn */

/* Waves read registers they never wrote as this. */
#define JUNK 0xfbadbeefu

static bool preload_enabled(void)
{
    const char *e = getenv("MXSIM_PRELOAD");
    return !e || strcmp(e, "0");
}

static void put_user(wave *w, int *at, uint64_t value)
{
    w->s[*at] = (uint32_t)value;
    w->s[*at + 1] = (uint32_t)(value >> 32);
    *at += 2;
}

/* The private segment's descriptor: lanes interleaved, the lane number added. */
static void put_scratch_desc(wave *w, int *at)
{
    uint64_t base = w->g->scratch_dev;
    w->s[*at] = (uint32_t)base;
    w->s[*at + 1] = (uint32_t)(base >> 32) | 0x80000000u;
    w->s[*at + 2] = 0xffffffff;
    w->s[*at + 3] = 0x00f00000u | 1u << 23;
    *at += 4;
}

static void user_sgprs(wave *w, const launch *l, int *at)
{
    const kernel *k = l->k;
    uint16_t props = k->properties;
    if (props & 1)
        put_scratch_desc(w, at);
    if (props & 2)
        put_user(w, at, l->dispatch_ptr);
    if (props & 4)
        put_user(w, at, l->dispatch_ptr); /* no queue: a pointer that can be read */
    if (props & 8)
        put_user(w, at, (uint64_t)l->kernarg);
    if (props & 16)
        put_user(w, at, 1);
    if (props & 32)
        put_user(w, at, w->scratch_base);
    if (props & 64)
        w->s[(*at)++] = w->scratch_bytes;
    uint32_t len = k->preload & 127, off = k->preload >> 7;
    for (uint32_t i = 0; i < len && sim_chip()->gen == 9; i++, (*at)++)
        if (preload_enabled())
            memcpy(&w->s[*at], l->kernarg + 4 * (off + i), 4);
}

static void system_sgprs(wave *w, const launch *l, int at)
{
    const uint32_t *id = w->g->id;
    uint32_t r2 = l->k->rsrc2;
    if (sim_chip()->gen == 12) {
        w->s[S_TTMP0 + 9] = id[0];
        w->s[S_TTMP0 + 7] = (id[1] & 0xffff) | id[2] << 16;
        w->s[S_TTMP0 + 8] = (uint32_t)w->index << 25;
        return;
    }
    int users = (int)(r2 >> 1 & 31);
    if (at < users)
        at = users; /* the count includes trailing registers nobody fills */
    for (int d = 0; d < 3; d++)
        if (r2 >> (7 + d) & 1)
            w->s[at++] = id[d];
    if (r2 >> 10 & 1)
        w->s[at++] = 0;
    if ((r2 & 1) && !sim_chip()->flat_arch)
        w->s[at++] = (uint32_t)(w->scratch_base - w->g->scratch_dev);
}

/* Work item ids are packed into v0 by ten bits. */
static void init_lanes(wave *w, const launch *l)
{
    uint32_t limit = l->k->vgpr_limit, base = l->k->agpr_base;
    for (uint32_t r = 0; r < limit; r++)
        for (int i = 0; i < LANES && (r < 256 || base < limit); i++)
            w->v[r < base ? r : 256 + r - base][i] = JUNK;
    uint64_t exec = 0;
    uint32_t sx = w->g->size[0], sy = w->g->size[1], total = sx * sy * w->g->size[2];
    for (int i = 0; i < w->n; i++) {
        uint32_t flat = (uint32_t)(w->index * w->n + i);
        if (flat >= total)
            break;
        exec |= UINT64_C(1) << i;
        w->v[0][i] = flat % sx | (flat / sx % sy) << 10 | flat / (sx * sy) << 20;
    }
    w->s[S_EXEC] = (uint32_t)exec;
    w->s[S_EXEC + 1] = (uint32_t)(exec >> 32);
}

/* The first register of the list that lies past what the descriptor allocates, or -1. */
static int past_limit(const kernel *k, const reg_range *r, int n)
{
    uint32_t vgprs = k->vgpr_limit, acc = 0;
    if (sim_chip()->gen == 9 && k->agpr_base < k->vgpr_limit) {
        vgprs = k->agpr_base;
        acc = k->vgpr_limit - k->agpr_base;
    }
    for (int i = 0; i < n; i++) {
        uint32_t last = r[i].reg + (r[i].n ? r[i].n - 1u : 0);
        if (r[i].vgpr && (r[i].reg >= 256 ? last - 256 >= acc : last >= vgprs))
            return (int)last;
    }
    return -1;
}

/* What follows an end may be the next kernel's. */
static const inst *next_of_kernel(const inst *in)
{
    return strncmp(in->text, "s_endpgm", 8) ? in->succ : NULL;
}

/* A kernel's own code may name only registers that it was given: looked at up to its first end. */
static bool check_registers(const kernel *k, const inst *in)
{
    for (; in; in = next_of_kernel(in)) {
        int r = past_limit(k, in->read, in->nread);
        if (r < 0)
            r = past_limit(k, in->write, in->nwrite);
        if (r < 0)
            continue;
        sim_report("kernel %s: '%s' at 0x%llx uses %c%d, past the %u registers allocated", k->name,
                   in->text, (unsigned long long)(in->addr - (uint64_t)in->prog->image),
                   r >= 256 ? 'a' : 'v', r & 255, k->vgpr_limit);
        return false;
    }
    return true;
}

static void wave_init(wave *w, group *g, int index)
{
    launch *l = g->l;
    uint32_t(*v)[LANES] = w->v;
    const kernel *k = l->k;
    memset(w->s, 0xfb, sizeof w->s);
    w->v = v;
    w->g = g;
    w->index = index;
    w->n = k->wave_size;
    w->full = w->n == 64 ? ~UINT64_C(0) : UINT64_C(0xffffffff);
    w->state = WS_RUN;
    w->signalled = false;
    w->scc = 0;
    w->gpr_idx = 0;
    w->npend = 0;
    w->executed = 0;
    memset(w->pend_v, 0, sizeof w->pend_v);
    memset(w->pend_s, 0, sizeof w->pend_s);
    for (size_t i = 0; i < ARRAY_LEN(w->lds_writes); i++)
        w->lds_writes[i].used = false;
    w->mode = (k->rsrc1 >> 12 & 0xff) | (k->rsrc1 >> 21 & 1) << 8;
    if (sim_chip()->gen < 12)
        w->mode |= (k->rsrc1 >> 23 & 1) << 9;
    w->mode |= (k->rsrc1 >> 26 & 1) << 23;
    w->flush = (w->mode >> 4 & 3) != 3;
    w->scratch_bytes = (k->private_bytes + 3) & ~3u;
    size_t part = (size_t)w->scratch_bytes * (size_t)w->n;
    w->scratch = g->scratch_store + part * (size_t)index;
    w->scratch_base = g->scratch_dev + part * (uint64_t)index;
    int at = 0;
    user_sgprs(w, l, &at);
    system_sgprs(w, l, at);
    init_lanes(w, l);
    if (w->n == 32) {
        w->s[S_EXEC + 1] = 0;
        w->s[S_VCC + 1] = 0;
    }
    char err[128];
    uint64_t entry = k->entry;
    if ((k->preload & 127) && preload_enabled() && sim_chip()->gen == 9)
        entry += 256; /* past the code that loads them for older firmware */
    w->pc = decode_at(k->prog, entry, w->n, err, sizeof err);
    if (!w->pc) {
        sim_report("kernel %s: %s", k->name, err);
        longjmp(g->escape, 1);
    }
    if (!k->checked) {
        if (!check_registers(k, w->pc))
            longjmp(g->escape, 1);
        l->k->checked = true;
    }
}

static const unsigned round_modes[] = {_MM_ROUND_NEAREST, _MM_ROUND_UP, _MM_ROUND_DOWN,
                                       _MM_ROUND_TOWARD_ZERO};

static void set_rounding(const wave *w)
{
    _MM_SET_ROUNDING_MODE(round_modes[w->mode & 3]);
}

static const inst *next_inst(wave *w, const inst *in)
{
    char err[128];
    const inst *n = decode_at((program *)in->prog, in->addr + in->size, w->n, err, sizeof err);
    if (!n)
        sim_fault(w, in, -1, "execution ran off the end of the code");
    return n;
}

/* Executes a wave until it waits, ends, or has had its turn. */
static void wave_run(wave *w, uint64_t slice)
{
    group *g = w->g;
    uint64_t start = w->executed;
    uint32_t mode = w->mode;
    set_rounding(w);
    while (w->state == WS_RUN && w->executed - start < slice) {
        const inst *in = w->pc;
        w->executed++;
        g->cls[in->cls]++;
        w->pc = in->succ;
        if (sim_trace)
            fprintf(stderr, "%u,%u,%u.%d %06llx exec=%016llx %s\n", g->id[0], g->id[1], g->id[2],
                    w->index, (unsigned long long)(in->addr - (uint64_t)in->prog->image),
                    (unsigned long long)wave_mask64(w, S_EXEC), in->text);
        if (w->npend && sim_checks.wait)
            wait_check(w, in);
        in->exec(w, in);
        if (!w->pc && w->state != WS_DONE)
            w->pc = next_inst(w, in);
        if (w->mode != mode) {
            mode = w->mode;
            set_rounding(w);
        }
    }
    _MM_SET_ROUNDING_MODE(_MM_ROUND_NEAREST);
}

void group_barrier_release(group *g)
{
    g->epoch++;
    if (g->epoch >= 1024) {
        g->epoch = 1;
        memset(g->lds_wr, 0, g->lds_bytes * 2);
        memset(g->lds_rd, 0, g->lds_bytes * 2);
    }
    for (int i = 0; i < g->nwaves; i++) {
        wave *w = &g->waves[i];
        if (w->state != WS_BARRIER)
            continue;
        wait_recheck_barrier(w);
        w->state = WS_RUN;
        w->signalled = false;
    }
}

static void budget(group *g, uint64_t total)
{
    if (total < g->l->budget)
        return;
    wave *w = &g->waves[0];
    for (int i = 0; i < g->nwaves; i++)
        if (g->waves[i].state == WS_RUN)
            w = &g->waves[i];
    sim_fault(w, w->pc, -1, "no end after %llu instructions of a workgroup",
              (unsigned long long)total);
}

static void group_start(group *g)
{
    memset(g->lds_init, 0, g->lds_bytes);
    if (g->dma_live)
        memset(g->lds_dma, 0, g->lds_bytes);
    g->dma_live = 0;
    memset(g->lds, 0xfb, g->lds_bytes);
    group_barrier_release(g);
    for (int i = 0; i < g->nwaves; i++)
        wave_init(&g->waves[i], g, i);
    g->cnt.waves += (uint64_t)g->nwaves;
}

static void group_loop(group *g)
{
    uint64_t total = 0;
    for (;;) {
        int running = 0, waiting = 0;
        for (int i = 0; i < g->nwaves; i++) {
            wave *w = &g->waves[i];
            uint64_t before = w->executed;
            if (w->state == WS_RUN)
                wave_run(w, SLICE);
            total += w->executed - before;
            running += w->state == WS_RUN;
            waiting += w->state == WS_BARRIER;
        }
        if (__atomic_load_n(&g->l->failed, __ATOMIC_RELAXED) || (!running && !waiting))
            return;
        if (!running)
            group_barrier_release(g);
        budget(g, total);
    }
}

/* A finding leaves the loop by longjmp. */
void group_run(group *g)
{
    if (setjmp(g->escape)) {
        __atomic_store_n(&g->l->failed, 1, __ATOMIC_SEQ_CST);
        _MM_SET_ROUNDING_MODE(_MM_ROUND_NEAREST);
        return;
    }
    group_start(g);
    group_loop(g);
}

static void group_free(group *g)
{
    free(g->waves);
    free(g->vgpr_store);
    free(g->lds);
    free(g->lds_init);
    free(g->lds_dma);
    free(g->lds_wr);
    free(g->lds_rd);
    free(g->scratch_store);
    free(g);
}

static group *group_new(launch *l)
{
    group *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    uint32_t items = l->block[0] * l->block[1] * l->block[2];
    int n = l->k->wave_size;
    g->l = l;
    g->k = l->k;
    g->nwaves = (int)((items + (uint32_t)n - 1) / (uint32_t)n);
    g->lds_bytes = l->lds_bytes;
    size_t lds = g->lds_bytes + 64;
    size_t scratch = (size_t)((l->k->private_bytes + 3) & ~3u) * (size_t)n;
    g->waves = calloc((size_t)g->nwaves, sizeof *g->waves);
    g->vgpr_store = aligned_alloc(64, (size_t)g->nwaves * 520 * LANES * 4);
    g->lds = calloc(1, lds);
    g->lds_init = calloc(1, lds);
    g->lds_dma = calloc(1, lds);
    g->lds_wr = calloc(2, lds);
    g->lds_rd = calloc(2, lds);
    g->scratch_store = calloc(1, scratch * (size_t)g->nwaves + 64);
    /* An address nothing else has: the descriptor's base. */
    g->scratch_dev = UINT64_C(0x700000000000);
    if (!g->waves || !g->vgpr_store || !g->lds || !g->lds_init || !g->lds_dma || !g->lds_wr ||
        !g->lds_rd || !g->scratch_store) {
        group_free(g);
        return NULL;
    }
    for (int i = 0; i < g->nwaves; i++)
        g->waves[i].v = (void *)(g->vgpr_store + (size_t)i * 520 * LANES);
    return g;
}

static void add_counts(launch *l, const group *g)
{
    mxrt_counters *s = &l->sum;
    pthread_mutex_lock(&l->lock);
    s->waves += g->cnt.waves;
    s->lanes += g->cnt.waves * (uint64_t)l->k->wave_size;
    s->valu += g->cls[CLS_VALU];
    s->salu += g->cls[CLS_SALU];
    s->smem += g->cls[CLS_SMEM];
    s->vmem_load += g->cls[CLS_VMEM_LOAD];
    s->vmem_store += g->cls[CLS_VMEM_STORE];
    s->lds += g->cls[CLS_LDS];
    s->mfma += g->cls[CLS_MFMA];
    s->branch += g->cls[CLS_BRANCH];
    s->waitcnt += g->cls[CLS_WAIT];
    s->other += g->cls[CLS_OTHER];
    s->load_bytes += g->cnt.load_bytes;
    s->store_bytes += g->cnt.store_bytes;
    s->load_trans64 += g->cnt.load_trans64;
    s->load_trans128 += g->cnt.load_trans128;
    s->store_trans64 += g->cnt.store_trans64;
    s->store_trans128 += g->cnt.store_trans128;
    s->lds_bytes += g->cnt.lds_bytes;
    s->lds_conflicts += g->cnt.lds_conflicts;
    pthread_mutex_unlock(&l->lock);
}

static void *worker(void *arg)
{
    launch *l = arg;
    group *g = group_new(l);
    if (!g) {
        sim_report("out of memory for a workgroup");
        __atomic_store_n(&l->failed, 1, __ATOMIC_SEQ_CST);
        return NULL;
    }
    while (!__atomic_load_n(&l->failed, __ATOMIC_RELAXED)) {
        uint64_t n = __atomic_fetch_add(&l->next_group, 1, __ATOMIC_RELAXED);
        if (n >= l->total_groups)
            break;
        g->id[0] = (uint32_t)(n % l->grid[0]);
        g->id[1] = (uint32_t)(n / l->grid[0] % l->grid[1]);
        g->id[2] = (uint32_t)(n / l->grid[0] / l->grid[1]);
        memcpy(g->size, l->block, sizeof g->size);
        group_run(g);
    }
    add_counts(l, g);
    group_free(g);
    return NULL;
}

static int thread_count(const launch *l)
{
    const char *e = getenv("MXSIM_THREADS");
    long n = e ? atol(e) : sysconf(_SC_NPROCESSORS_ONLN);
    n = n < 1 ? 1 : n > 8 ? 8 : n;
    return (uint64_t)n > l->total_groups ? (int)l->total_groups : (int)n;
}

int launch_run(launch *l)
{
    pthread_t t[8];
    int n = thread_count(l), started = 0;
    pthread_mutex_init(&l->lock, NULL);
    for (int i = 1; i < n; i++)
        if (!pthread_create(&t[started], NULL, worker, l))
            started++;
    worker(l);
    for (int i = 0; i < started; i++)
        pthread_join(t[i], NULL);
    pthread_mutex_destroy(&l->lock);
    return l->failed ? -1 : 0;
}
