#include "mxrt_measure.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mxgen/error.h>

/* The mean of one sample should not be shorter, or the clock shows through. */
#define SAMPLE_MS 0.5
#define MAX_ROUNDS 2000
#define SLOT_ALIGNMENT 4096

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof(*values), compare_double);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

int measure_repeat(double ms)
{
    double repeat = ms > 0 ? SAMPLE_MS / ms : 1000;
    return repeat > 1000 ? 1000 : repeat < 1 ? 1 : (int)repeat;
}

double measure_median(double *samples, int n, double *spread)
{
    double middle = median(samples, n);
    *spread = middle > 0 ? (samples[3 * n / 4] - samples[n / 4]) / 2 / middle : 0;
    return middle;
}

mx_status measure_pair(mxrt_device *device, mxrt_timed_fn kernel, void *kernel_user,
                       mxrt_timed_fn ceiling, void *ceiling_user, double seconds,
                       measure_result *out, mx_error *err)
{
    double *kernel_ms = calloc(2 * MAX_ROUNDS, sizeof(*kernel_ms));
    double warm_kernel = 0, warm_ceiling = 0;
    int rounds = 0;
    if (!kernel_ms)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %d samples", MAX_ROUNDS);
    double *ceiling_ms = kernel_ms + MAX_ROUNDS;
    mx_status status = mxrt_device_time(device, ceiling, ceiling_user, 1, &warm_ceiling, err);
    if (status == MX_OK)
        status = mxrt_device_time(device, kernel, kernel_user, 1, &warm_kernel, err);
    double end = tool_now() + seconds;
    while (status == MX_OK && rounds < MAX_ROUNDS && (rounds < 3 || tool_now() < end)) {
        status = mxrt_device_time(device, ceiling, ceiling_user, measure_repeat(warm_ceiling),
                                  &ceiling_ms[rounds], err);
        if (status == MX_OK)
            status = mxrt_device_time(device, kernel, kernel_user, measure_repeat(warm_kernel),
                                      &kernel_ms[rounds], err);
        rounds++;
    }
    if (status == MX_OK)
        *out = (measure_result){.ms = median(kernel_ms, rounds),
                                .ceiling_ms = median(ceiling_ms, rounds),
                                .rounds = rounds};
    free(kernel_ms);
    return status;
}

int measure_slots(const mxrt_device_info *info, int64_t bytes)
{
    /* GPUs have up to 256 MiB behind their L2. */
    long cache = (long)256 << 20;
    if (info->dl_device.device_type == kDLCPU) {
        cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
        if (cache <= 0)
            cache = (long)32 << 20;
    }
    int64_t n = 4 * (int64_t)cache / bytes + 1;
    return n > 4096 ? 4096 : (int)n;
}

mx_status measure_ring_init(measure_ring *ring, mxrt_device *device, int64_t slot_bytes, int n,
                            mx_error *err)
{
    void *data = NULL;
    size_t bytes = (size_t)slot_bytes;
    size_t stride = (bytes + SLOT_ALIGNMENT - 1) / SLOT_ALIGNMENT * SLOT_ALIGNMENT;
    /* The allocator aligns to 256; a slot of room lets the slots start on pages. */
    mx_status status = mxrt_device_alloc(device, stride * (size_t)n + SLOT_ALIGNMENT, &data, err);
    if (status == MX_OK)
        *ring = (measure_ring){
            .device = device, .data = data, .slot_bytes = bytes, .stride_bytes = stride, .n = n};
    return status;
}

void measure_ring_finish(measure_ring *ring)
{
    if (ring->device)
        mxrt_device_free(ring->device, ring->data);
    memset(ring, 0, sizeof(*ring));
}

void *measure_ring_at(const measure_ring *ring, int slot)
{
    size_t base = (SLOT_ALIGNMENT - (uintptr_t)ring->data % SLOT_ALIGNMENT) % SLOT_ALIGNMENT;
    return ring->data + base + (size_t)slot * ring->stride_bytes;
}

mx_status measure_ring_replicate(measure_ring *ring, mx_error *err)
{
    mx_status status = MX_OK;
    for (int i = 1; i < ring->n && status == MX_OK; i++)
        status = mxrt_device_copy(ring->device, measure_ring_at(ring, i), measure_ring_at(ring, 0),
                                  ring->slot_bytes, NULL, err);
    return status == MX_OK ? mxrt_device_synchronize(ring->device, NULL, err) : status;
}

/* A single slot is left to the warm-up. */
mx_status measure_ring_touch(measure_ring *ring, mx_error *err)
{
    mx_status status = measure_ring_replicate(ring, err);
    if (status == MX_OK && ring->n > 1)
        status = mxrt_device_copy(ring->device, measure_ring_at(ring, 0), measure_ring_at(ring, 1),
                                  ring->slot_bytes, NULL, err);
    return status == MX_OK ? mxrt_device_synchronize(ring->device, NULL, err) : status;
}

mx_status measure_copy_init(measure_copy *copy, mxrt_device *device, int64_t moved_bytes, int n,
                            mx_error *err)
{
    int64_t half = moved_bytes / 2 > 0 ? moved_bytes / 2 : 1;
    memset(copy, 0, sizeof(*copy));
    copy->copy_bytes = (size_t)half;
    mx_status status = measure_ring_init(&copy->from, device, half, n, err);
    if (status == MX_OK)
        status = measure_ring_init(&copy->to, device, half, n, err);
    if (status == MX_OK)
        status = measure_ring_touch(&copy->to, err);
    for (int i = 0; i < n && status == MX_OK; i++)
        status = mxrt_device_copy(device, measure_ring_at(&copy->from, i),
                                  measure_ring_at(&copy->to, i), copy->copy_bytes, NULL, err);
    if (status == MX_OK)
        status = mxrt_device_synchronize(device, NULL, err);
    if (status != MX_OK)
        measure_copy_finish(copy);
    return status;
}

void measure_copy_finish(measure_copy *copy)
{
    measure_ring_finish(&copy->from);
    measure_ring_finish(&copy->to);
}

mx_status measure_copy_run(void *user, mxrt_stream stream, mx_error *err)
{
    measure_copy *copy = user;
    int slot = copy->from.next;
    copy->from.next = (slot + 1) % copy->from.n;
    return mxrt_device_copy(copy->from.device, measure_ring_at(&copy->to, slot),
                            measure_ring_at(&copy->from, slot), copy->copy_bytes, stream, err);
}
