/*
 * Device memory: one reserved range of addresses with a shadow of the same size that says which
 * bytes have been written. Allocations are apart from each other, so that an access past an end
 * falls into a gap.
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ARENA_BYTES (UINT64_C(1) << 38)
#define PAGE 4096u
#define GAP (64u * 1024)
#define POISON 0xfb
#define HUGE_SPAN (8u << 20) /* from here on huge pages are asked for */

static uint8_t *arena, *shadow;
static uint64_t top;   /* first address never handed out, relative to the arena */
static alloc **allocs; /* sorted by address */
static size_t nallocs, cap;
static size_t used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int sim_mem_init(void)
{
    pthread_mutex_lock(&lock);
    if (!arena) {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void *a = mmap(NULL, ARENA_BYTES + HUGE_SPAN, PROT_NONE, flags, -1, 0);
        void *s = mmap(NULL, ARENA_BYTES + HUGE_SPAN, PROT_NONE, flags, -1, 0);
        if (a != MAP_FAILED && s != MAP_FAILED) {
            arena = (uint8_t *)(((uintptr_t)a + HUGE_SPAN - 1) & ~(uintptr_t)(HUGE_SPAN - 1));
            shadow = (uint8_t *)(((uintptr_t)s + HUGE_SPAN - 1) & ~(uintptr_t)(HUGE_SPAN - 1));
        }
    }
    pthread_mutex_unlock(&lock);
    return arena ? 0 : -1;
}

bool sim_mem_is_arena(uint64_t addr)
{
    return addr - (uint64_t)arena < ARENA_BYTES;
}

uint8_t *sim_mem_shadow(uint64_t addr)
{
    return shadow + (addr - (uint64_t)arena);
}

static size_t lower_bound(uint64_t addr)
{
    size_t lo = 0, hi = nallocs;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (allocs[mid]->hi <= addr)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static alloc *find_locked(uint64_t addr)
{
    size_t i = lower_bound(addr);
    return i < nallocs && allocs[i]->lo <= addr ? allocs[i] : NULL;
}

alloc *sim_mem_find(uint64_t addr)
{
    pthread_mutex_lock(&lock);
    alloc *a = find_locked(addr);
    pthread_mutex_unlock(&lock);
    return a;
}

alloc *sim_mem_near(uint64_t addr)
{
    pthread_mutex_lock(&lock);
    size_t i = lower_bound(addr);
    alloc *below = i ? allocs[i - 1] : NULL, *above = i < nallocs ? allocs[i] : NULL, *a = NULL;
    if (below && addr - below->hi < GAP)
        a = below;
    if (above && above->lo - addr < GAP && (!a || above->lo - addr < addr - a->hi))
        a = above;
    pthread_mutex_unlock(&lock);
    return a;
}

static bool insert(alloc *a)
{
    if (nallocs == cap) {
        size_t n = cap ? cap * 2 : 64;
        alloc **p = realloc(allocs, n * sizeof *p);
        if (!p)
            return false;
        allocs = p;
        cap = n;
    }
    size_t i = lower_bound(a->lo);
    memmove(allocs + i + 1, allocs + i, (nallocs - i) * sizeof *allocs);
    allocs[i] = a;
    nallocs++;
    return true;
}

/* The first gap that fits, so that long programs do not run out of addresses. */
static uint64_t place(size_t span)
{
    uint64_t at = GAP;
    if (top + span + GAP + HUGE_SPAN < ARENA_BYTES) {
        at = top + GAP;
        if (span >= HUGE_SPAN)
            at = (at + HUGE_SPAN - 1) & ~(uint64_t)(HUGE_SPAN - 1);
        top = at + span;
        return at;
    }
    for (size_t i = 0; i < nallocs; i++) {
        uint64_t lo = allocs[i]->lo - (uint64_t)arena;
        lo &= ~(uint64_t)(PAGE - 1);
        if (lo > at && lo - at >= span + GAP)
            return at;
        at = ((allocs[i]->hi - (uint64_t)arena + PAGE - 1) & ~(uint64_t)(PAGE - 1)) + GAP;
    }
    return 0;
}

/*
 * The end of an allocation is at the end of its bytes, not of a page; the start keeps 256-byte
 * alignment as the real allocator does.
 */
void *sim_mem_alloc(size_t bytes, bool host, int device)
{
    size_t span = (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
    if (!bytes || bytes > ARENA_BYTES / 4 || sim_mem_init())
        return NULL;
    alloc *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    pthread_mutex_lock(&lock);
    uint64_t at = place(span);
    bool ok = at && !mprotect(arena + at, span, PROT_READ | PROT_WRITE) &&
              !mprotect(shadow + at, span, PROT_READ | PROT_WRITE);
    if (ok) {
        *a = (alloc){(uint64_t)(arena + at),
                     (uint64_t)(arena + at) + bytes,
                     host,
                     host,
                     false,
                     false,
                     device};
        ok = insert(a);
    }
    if (ok)
        used += bytes;
    pthread_mutex_unlock(&lock);
    if (!ok) {
        free(a);
        return NULL;
    }
    if (span >= HUGE_SPAN) {
        madvise(arena + at, span, MADV_HUGEPAGE);
        madvise(shadow + at, span, MADV_HUGEPAGE);
    }
    memset((void *)a->lo, host ? 0 : POISON, bytes);
    return (void *)a->lo;
}

int sim_mem_free(void *p)
{
    pthread_mutex_lock(&lock);
    uint64_t addr = (uint64_t)p;
    size_t i = lower_bound(addr);
    alloc *a = i < nallocs && allocs[i]->lo == addr ? allocs[i] : NULL;
    if (a) {
        size_t span = (a->hi - a->lo + PAGE - 1) & ~(size_t)(PAGE - 1);
        memmove(allocs + i, allocs + i + 1, (nallocs - i - 1) * sizeof *allocs);
        nallocs--;
        used -= a->hi - a->lo;
        madvise(p, span, MADV_DONTNEED);
        madvise(sim_mem_shadow(addr), span, MADV_DONTNEED);
        mprotect(p, span, PROT_NONE);
        mprotect(sim_mem_shadow(addr), span, PROT_NONE);
    }
    pthread_mutex_unlock(&lock);
    free(a);
    return a ? 0 : -1;
}

void sim_mem_mark(uint64_t addr, size_t bytes, bool written)
{
    alloc *a = sim_mem_find(addr);
    if (!a || !bytes)
        return;
    if (written && addr == a->lo && addr + bytes == a->hi)
        a->all_written = true;
    if (!a->all_written)
        memset(sim_mem_shadow(addr), written ? 1 : 0, bytes);
}

size_t sim_mem_used(void)
{
    return used;
}

uint64_t sim_mem_live(void)
{
    uint64_t n = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < nallocs; i++)
        n += !allocs[i]->internal;
    pthread_mutex_unlock(&lock);
    return n;
}
