#include "runtime/host_pool.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mxgen/error.h>

#include "runtime/fenv_guard.h"

#define MAX_THREADS 1024
/* Below this, waking a thread costs more than it saves. */
#define MIN_CHUNK_BYTES (128 * 1024)
#define CHUNKS_PER_THREAD 8
/* How long to look before sleeping: about the time that waking up takes. */
#define SPINS 2000

/* Set in `state` while workers may join the job; the other bits count those inside. */
#define JOB_OPEN 0x80000000u

/* How a job passes from the caller to the workers: the caller fills `job`, opens `state`, bumps
 * `epoch` and wakes sleepers. A worker joins by counting itself in `state`, which only succeeds
 * while the job is open, so that it never reads a job that is being filled. The caller takes chunks
 * too, closes `state` when none is left, and waits only for the workers that are inside. */
struct mxrt_host_pool {
    int n_workers;
    unsigned fork_generation;
    atomic_uint busy;  /* one caller at a time */
    atomic_uint epoch; /* futex of sleeping workers */
    atomic_uint state; /* futex of the waiting caller */
    atomic_uint stopping;
    atomic_int sleepers;
    struct {
        mxrt_pool_fn fn;
        void *user;
        int64_t n_items, chunk;
    } job;
    _Alignas(64) _Atomic int64_t next;
    pthread_t workers[];
};

/* Counts forks, in the child: threads do not survive one. */
static atomic_uint fork_generation;

static void count_fork(void)
{
    atomic_fetch_add(&fork_generation, 1);
}

static void watch_forks(void)
{
    /* A failure, for want of memory, means a child that waits for nobody only if it converts. */
    (void)pthread_atfork(NULL, NULL, count_fork);
}

static void futex_wait(atomic_uint *word, unsigned seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* ---- The job ---- */

static void take_chunks(mxrt_host_pool *pool)
{
    int64_t n_items = pool->job.n_items, chunk = pool->job.chunk;

    for (;;) {
        int64_t begin = atomic_fetch_add_explicit(&pool->next, chunk, memory_order_relaxed);
        if (begin >= n_items)
            return;
        pool->job.fn(pool->job.user, begin, chunk < n_items - begin ? begin + chunk : n_items);
    }
}

static int join_job(mxrt_host_pool *pool)
{
    unsigned state = atomic_load_explicit(&pool->state, memory_order_relaxed);

    while (state & JOB_OPEN) {
        if (atomic_compare_exchange_weak_explicit(&pool->state, &state, state + 1,
                                                  memory_order_acquire, memory_order_relaxed))
            return 1;
    }
    return 0;
}

static void leave_job(mxrt_host_pool *pool)
{
    /* The last one out of a closed job. */
    if (atomic_fetch_sub_explicit(&pool->state, 1, memory_order_release) == 1)
        futex_wake(&pool->state, 1);
}

static unsigned wait_for_epoch(mxrt_host_pool *pool, unsigned seen)
{
    unsigned epoch;

    for (int i = 0; i < SPINS; i++) {
        if ((epoch = atomic_load_explicit(&pool->epoch, memory_order_acquire)) != seen)
            return epoch;
        cpu_relax();
    }
    /* Sequentially consistent with the caller's bump and look: either it sees a sleeper, or the
     * kernel sees the new epoch. */
    atomic_fetch_add(&pool->sleepers, 1);
    while ((epoch = atomic_load(&pool->epoch)) == seen)
        futex_wait(&pool->epoch, seen);
    atomic_fetch_sub(&pool->sleepers, 1);
    return epoch;
}

static void *worker_main(void *argument)
{
    mxrt_host_pool *pool = argument;
    unsigned epoch = 0;

    /* Threads inherit the environment of the thread that made them. */
    fesetenv(FE_DFL_ENV);
    while (!atomic_load_explicit(&pool->stopping, memory_order_acquire)) {
        epoch = wait_for_epoch(pool, epoch);
        if (join_job(pool)) {
            take_chunks(pool);
            leave_job(pool);
        }
    }
    return NULL;
}

static void wait_for_workers(mxrt_host_pool *pool)
{
    unsigned state = atomic_fetch_and_explicit(&pool->state, ~JOB_OPEN, memory_order_acq_rel);

    state &= ~JOB_OPEN;
    for (int i = 0; state && i < SPINS; i++) {
        cpu_relax();
        state = atomic_load_explicit(&pool->state, memory_order_acquire);
    }
    while (state) {
        futex_wait(&pool->state, state);
        state = atomic_load_explicit(&pool->state, memory_order_acquire);
    }
}

static void wake_workers(mxrt_host_pool *pool)
{
    atomic_fetch_add(&pool->epoch, 1);
    if (atomic_load(&pool->sleepers) > 0)
        futex_wake(&pool->epoch, INT_MAX);
}

static int try_share(mxrt_host_pool *pool, int64_t n_items, int64_t chunk, mxrt_pool_fn fn,
                     void *user)
{
    if (!pool->n_workers || n_items <= chunk ||
        pool->fork_generation != atomic_load_explicit(&fork_generation, memory_order_relaxed) ||
        atomic_exchange_explicit(&pool->busy, 1, memory_order_acquire))
        return 0;
    pool->job.fn = fn;
    pool->job.user = user;
    pool->job.n_items = n_items;
    pool->job.chunk = chunk;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->state, JOB_OPEN, memory_order_release);
    wake_workers(pool);
    take_chunks(pool);
    wait_for_workers(pool);
    atomic_store_explicit(&pool->busy, 0, memory_order_release);
    return 1;
}

void mxrt_host_pool_run(mxrt_host_pool *pool, int64_t n_items, int64_t chunk, mxrt_pool_fn fn,
                        void *user)
{
    mxrt_fenv saved;

    if (n_items <= 0)
        return;
    mxrt_fenv_enter(&saved);
    if (!try_share(pool, n_items, chunk > 0 ? chunk : 1, fn, user))
        fn(user, 0, n_items);
    mxrt_fenv_leave(&saved);
}

int64_t mxrt_host_pool_chunk(const mxrt_host_pool *pool, int64_t n_items, int64_t work_bytes)
{
    int64_t pieces = (int64_t)(pool->n_workers + 1) * CHUNKS_PER_THREAD;

    if (work_bytes > 0 && work_bytes / MIN_CHUNK_BYTES < pieces)
        pieces = work_bytes / MIN_CHUNK_BYTES;
    return pieces > 1 ? n_items / pieces + (n_items % pieces != 0) : n_items;
}

/* ---- Life ---- */

int mxrt_host_pool_threads(const mxrt_host_pool *pool)
{
    return pool->n_workers + 1;
}

/* Cores by the affinity mask, whatever its size. */
static int count_cores(void)
{
    for (int n_cpus = 1024; n_cpus <= 1 << 20; n_cpus *= 2) {
        size_t size_bytes = CPU_ALLOC_SIZE(n_cpus);
        cpu_set_t *set = CPU_ALLOC(n_cpus);
        if (!set)
            break;
        int failed = sched_getaffinity(0, size_bytes, set), error = errno;
        int count = failed ? 0 : CPU_COUNT_S(size_bytes, set);
        CPU_FREE(set);
        if (!failed)
            return count > 0 ? count : 1;
        if (error != EINVAL)
            break;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 && online < INT_MAX ? (int)online : 1;
}

static void start_workers(mxrt_host_pool *pool, int n_workers)
{
    sigset_t all, before;

    /* Signals are the application's: its handlers must not run on our threads. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool->n_workers < n_workers &&
           !pthread_create(&pool->workers[pool->n_workers], NULL, worker_main, pool))
        pool->n_workers++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

mx_status mxrt_host_pool_create(int n_threads, mxrt_host_pool **out, mx_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    mxrt_host_pool *pool;

    if (n_threads < 0 || n_threads > MAX_THREADS)
        return mx_fail(err, MX_ERR_INVALID, "%d threads; 1 to %d are possible, 0 takes all cores",
                       n_threads, MAX_THREADS);
    if (!n_threads)
        n_threads = count_cores();
    if (n_threads > MAX_THREADS)
        n_threads = MAX_THREADS;
    pthread_once(&once, watch_forks);
    size_t size_bytes = sizeof(*pool) + (size_t)n_threads * sizeof(pthread_t);
    /* aligned_alloc wants a multiple of the alignment. */
    size_bytes = (size_bytes + 63) / 64 * 64;
    if (!(pool = aligned_alloc(64, size_bytes)))
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a pool of %d threads", n_threads);
    memset(pool, 0, size_bytes);
    pool->fork_generation = atomic_load(&fork_generation);
    start_workers(pool, n_threads - 1);
    *out = pool;
    return MX_OK;
}

void mxrt_host_pool_destroy(mxrt_host_pool *pool)
{
    if (!pool)
        return;
    if (pool->fork_generation == atomic_load(&fork_generation)) {
        atomic_store_explicit(&pool->stopping, 1, memory_order_release);
        atomic_fetch_add(&pool->epoch, 1);
        futex_wake(&pool->epoch, INT_MAX);
        for (int i = 0; i < pool->n_workers; i++)
            pthread_join(pool->workers[i], NULL);
    }
    free(pool);
}
