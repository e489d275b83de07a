/* Times a kernel against a copy by the same device that moves as many bytes. */
#ifndef MXRT_MEASURE_H
#define MXRT_MEASURE_H

#include <mxgen/rt.h>

#include "mxrt_tool.h"

typedef struct measure_result {
    double ms, ceiling_ms; /* medians */
    int rounds;
} measure_result;

/* How often to run a kernel of `ms` for one sample. */
int measure_repeat(double ms);
/* The median of samples, which are sorted by it, and half the distance of the quartiles by it. */
double measure_median(double *samples, int n, double *spread);

/* The two take turns, so that both see the same machine: one warm-up each, then rounds until
 * `seconds` have passed, three at least. */
mx_status measure_pair(mxrt_device *device, mxrt_timed_fn kernel, void *kernel_user,
                       mxrt_timed_fn ceiling, void *ceiling_user, double seconds,
                       measure_result *out, mx_error *err);

/* Memory of `n` equal slots, used in turn so that none is still in a cache when it comes again. */
typedef struct measure_ring {
    mxrt_device *device;
    char *data;
    size_t slot_bytes, stride_bytes;
    int n, next;
} measure_ring;

/* How many slots of `bytes` it takes to be four times as large as the caches. */
int measure_slots(const mxrt_device_info *info, int64_t bytes);
mx_status measure_ring_init(measure_ring *ring, mxrt_device *device, int64_t slot_bytes, int n,
                            mx_error *err);
void measure_ring_finish(measure_ring *ring); /* takes a zeroed one, too */
void *measure_ring_at(const measure_ring *ring, int slot);
/* Copies slot 0 to the others. */
mx_status measure_ring_replicate(measure_ring *ring, mx_error *err);
/* Writes something into every slot: the first write to a page costs much more than the next, and
 * pages never written all read from one page of zeros. */
mx_status measure_ring_touch(measure_ring *ring, mx_error *err);

/* A copy between two rings: `moved_bytes` are read plus written, half each. */
typedef struct measure_copy {
    measure_ring from, to;
    size_t copy_bytes;
} measure_copy;

mx_status measure_copy_init(measure_copy *copy, mxrt_device *device, int64_t moved_bytes, int n,
                            mx_error *err);
void measure_copy_finish(measure_copy *copy);
mx_status measure_copy_run(void *copy, mxrt_stream stream, mx_error *err);

#endif
