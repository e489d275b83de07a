/* Worker threads that live as long as a host device and share the ranges of one call at a time. */
#ifndef MXRT_HOST_POOL_H
#define MXRT_HOST_POOL_H

#include <mxgen/base.h>

typedef struct mxrt_host_pool mxrt_host_pool;

/* Does items begin .. end-1. Runs in many threads at once. */
typedef void (*mxrt_pool_fn)(void *user, int64_t begin, int64_t end);

/* `n_threads` counts the caller; 0: one for each core that the process may run on. Fewer threads
 * than asked for, where the system refuses more, are no error. */
mx_status mxrt_host_pool_create(int n_threads, mxrt_host_pool **out, mx_error *err);
/* Nothing may be running. Takes NULL. */
void mxrt_host_pool_destroy(mxrt_host_pool *pool);
int mxrt_host_pool_threads(const mxrt_host_pool *pool);

/* A chunk for mxrt_host_pool_run: large enough to be worth a thread, small enough that all finish
 * together. `work_bytes` is the memory traffic of all items, 0 if not known. */
int64_t mxrt_host_pool_chunk(const mxrt_host_pool *pool, int64_t n_items, int64_t work_bytes);

/* Does items 0 .. n_items-1 in chunks, the caller among the threads, and returns when all are
 * done. Neither allocates nor takes a lock: if the workers are busy with another caller, and in a
 * child after fork, all is done by the caller. All threads are in the default floating-point
 * environment, which the caller gets back as it was. */
void mxrt_host_pool_run(mxrt_host_pool *pool, int64_t n_items, int64_t chunk, mxrt_pool_fn fn,
                        void *user);

#endif
