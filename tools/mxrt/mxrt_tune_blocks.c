/* Block operations for mxrt tune: their output must be the reference's, byte for byte. */
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "mxrt_point.h"
#include "mxrt_tune.h"

enum { POISON = 0xa5 };

typedef struct blocks {
    tool_point point;
    unsigned char *expected, *found; /* the right bytes of slot 0's output */
    void *poison;                    /* as many on the device */
    size_t output_bytes;
    unsigned char *scales, *found_scales; /* of OCP formats: the right ones, of slot 0 */
    size_t scales_bytes;
} blocks;

static int writes_scales(const blocks *b)
{
    return b->scales_bytes && b->point.op == MX_OP_TO;
}

static mx_status begin(tune_subject *subject, mx_error *err)
{
    const tool_problem *what = subject->problem->blocks;
    blocks *b = calloc(1, sizeof(*b));
    if (!b)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a problem");
    subject->state = b;
    b->point = (tool_point){
        .op = what->op, .format = what->format, .dtype = what->dtype, .shape = what->shape};
    mx_status status = point_place(&b->point, subject->engine, err);
    subject->bytes = b->point.moved_bytes;
    subject->work = 1e-6 * (double)subject->bytes;
    return status;
}

static mx_status variants(const tune_subject *subject, const char **names, size_t capacity,
                          size_t *n, mx_error *err)
{
    const blocks *b = subject->state;
    mxrt_plan_request request = point_request(&b->point);
    return mxrt_plan_variants(subject->engine->device, &request, names, capacity, n, err);
}

static mx_status key(const tune_subject *subject, const char *name, mxrt_tune_row *row,
                     mx_error *err)
{
    const blocks *b = subject->state;
    mxrt_plan_request request = point_request(&b->point);
    return mxrt_tune_key(subject->engine->device, &request, name, row, err);
}

static mx_status choose(const tune_subject *subject, mxrt_policy policy, mxrt_choice *choice,
                        mx_error *err)
{
    const blocks *b = subject->state;
    mxrt_plan_request request = point_request(&b->point);
    request.policy = policy;
    return mxrt_explain(subject->engine->device, &request, choice, err);
}

/* ---- What is right ---- */

static mx_status run_reference(const tune_subject *subject, const unsigned char *in_slot,
                               mx_error *err)
{
    blocks *b = subject->state;
    tool_point *point = &b->point;
    mx_case_tensor in = point->in, out = point->out, scales = point->scales;
    ptrdiff_t in_offset = (char *)in.tensor.data - (char *)measure_ring_at(&point->in_ring, 0);
    ptrdiff_t out_offset = (char *)out.tensor.data - (char *)measure_ring_at(&point->out_ring, 0);
    mxrt_plan_request request = point_request(point);
    mxrt_plan *plan = NULL;
    in.tensor.data = (void *)(in_slot + in_offset);
    out.tensor.data = b->expected + out_offset;
    in.tensor.device = out.tensor.device = (DLDevice){kDLCPU, 0};
    in.tensor.shape = in.shape, in.tensor.strides = in.strides;
    out.tensor.shape = out.shape, out.tensor.strides = out.strides;
    request.in = &in.tensor;
    request.out = &out.tensor;
    if (b->scales_bytes) {
        scales.tensor.data = b->scales;
        scales.tensor.device = in.tensor.device;
        scales.tensor.shape = scales.shape, scales.tensor.strides = scales.strides;
        request.scales = &scales.tensor;
    }
    request.variant = "reference";
    mx_status status = mxrt_plan_create(subject->host->device, &request, &plan, err);
    if (status == MX_OK)
        status = mxrt_plan_run(plan, NULL, NULL, NULL, err);
    mxrt_plan_destroy(plan);
    return status;
}

/* Those that are read, or memory for those that are written. */
static mx_status make_scales(const tune_subject *subject, mx_error *err)
{
    blocks *b = subject->state;
    const measure_ring *ring = &b->point.scale_ring;
    b->scales_bytes = b->point.has_scales ? ring->slot_bytes : 0;
    if (!b->scales_bytes)
        return MX_OK;
    b->scales = malloc(b->scales_bytes);
    b->found_scales = malloc(b->scales_bytes);
    if (!b->scales || !b->found_scales)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu scales", b->scales_bytes);
    memset(b->scales, POISON, b->scales_bytes);
    return writes_scales(b) ? MX_OK
                            : mxrt_device_download(subject->engine->device, b->scales,
                                                   measure_ring_at(ring, 0), b->scales_bytes, err);
}

/* The output that the plain C reference makes of slot 0's input. */
static mx_status make_expected(const tune_subject *subject, mx_error *err)
{
    blocks *b = subject->state;
    mxrt_device *device = subject->engine->device;
    size_t in_bytes = b->point.in_ring.slot_bytes;
    unsigned char *copy = malloc(in_bytes ? in_bytes : 1);
    b->output_bytes = b->point.out_ring.slot_bytes;
    b->expected = malloc(b->output_bytes ? b->output_bytes : 1);
    b->found = malloc(b->output_bytes ? b->output_bytes : 1);
    mx_status status = MX_OK;
    if (!copy || !b->expected || !b->found)
        status = mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu bytes", b->output_bytes);
    if (status == MX_OK)
        status = mxrt_device_download(device, copy, measure_ring_at(&b->point.in_ring, 0), in_bytes,
                                      err);
    if (status == MX_OK)
        status = mxrt_device_alloc(device, b->output_bytes, &b->poison, err);
    if (status == MX_OK) {
        memset(b->expected, POISON, b->output_bytes);
        status = mxrt_device_upload(device, b->poison, b->expected, b->output_bytes, err);
    }
    if (status == MX_OK)
        status = make_scales(subject, err);
    if (status == MX_OK)
        status = run_reference(subject, copy, err);
    free(copy);
    return status;
}

static mx_status prepare(tune_subject *subject, mx_error *err)
{
    blocks *b = subject->state;
    mx_status status =
        point_init(&b->point, subject->engine, subject->counts ? 0 : POINT_ROTATE, err);
    return status == MX_OK ? make_expected(subject, err) : status;
}

/* ---- Kernels ---- */

typedef struct blocks_kernel {
    point_kernel run; /* the first, as point_run takes it */
    mxrt_plan *plan;
} blocks_kernel;

static mx_status open_kernel(tune_subject *subject, const char *name, void **kernel, mx_error *err)
{
    blocks *b = subject->state;
    mxrt_plan_request request = point_request(&b->point);
    blocks_kernel *made = calloc(1, sizeof(*made));
    if (!made)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a kernel");
    request.variant = name;
    mx_status status = mxrt_plan_create(subject->engine->device, &request, &made->plan, err);
    made->run = (point_kernel){.plan = made->plan, .point = &b->point};
    *kernel = made;
    return status;
}

static void close_kernel(void *kernel)
{
    blocks_kernel *k = kernel;
    if (k)
        mxrt_plan_destroy(k->plan);
    free(k);
}

/* Both as they were before any kernel; there are fewer scales than bytes of data. */
static mx_status poison(const blocks *b, mxrt_device *device, mx_error *err)
{
    void *slot = measure_ring_at(&b->point.out_ring, 0);
    mx_status status = mxrt_device_copy(device, slot, b->poison, b->output_bytes, NULL, err);
    if (status == MX_OK && writes_scales(b))
        status = mxrt_device_copy(device, measure_ring_at(&b->point.scale_ring, 0), b->poison,
                                  b->scales_bytes, NULL, err);
    return status;
}

static mx_status fetch(const blocks *b, mxrt_device *device, mx_error *err)
{
    void *slot = measure_ring_at(&b->point.out_ring, 0);
    mx_status status = mxrt_device_download(device, b->found, slot, b->output_bytes, err);
    if (status == MX_OK && writes_scales(b))
        status =
            mxrt_device_download(device, b->found_scales, measure_ring_at(&b->point.scale_ring, 0),
                                 b->scales_bytes, err);
    return status;
}

/* Returns whether they are the same; else says where they first differ. */
static int compare(const unsigned char *found, const unsigned char *wanted, size_t n,
                   const char *what, char *why, size_t why_bytes)
{
    size_t at = 0;
    if (!memcmp(found, wanted, n))
        return 1;
    while (found[at] == wanted[at])
        at++;
    snprintf(why, why_bytes, "wrong values: byte %zu of the %s is %u, the reference has %u", at,
             what, found[at], wanted[at]);
    return 0;
}

static mx_status check(tune_subject *subject, void *kernel, char *why, size_t why_bytes,
                       mx_error *err)
{
    const blocks *b = subject->state;
    const blocks_kernel *k = kernel;
    mxrt_device *device = subject->engine->device;
    mx_status status = poison(b, device, err);
    if (status == MX_OK)
        status = mxrt_plan_run(k->plan, NULL, NULL, NULL, err);
    if (status == MX_OK)
        status = mxrt_device_synchronize(device, NULL, err);
    if (status == MX_OK)
        status = fetch(b, device, err);
    if (status == MX_OK &&
        compare(b->found, b->expected, b->output_bytes, "output", why, why_bytes) &&
        writes_scales(b))
        compare(b->found_scales, b->scales, b->scales_bytes, "scales", why, why_bytes);
    return status;
}

static void finish(tune_subject *subject)
{
    blocks *b = subject->state;
    if (!b)
        return;
    free(b->expected);
    free(b->found);
    free(b->scales);
    free(b->found_scales);
    mxrt_device_free(subject->engine->device, b->poison);
    point_finish(&b->point);
    free(b);
}

const tune_family tune_blocks = {.begin = begin,
                                 .variants = variants,
                                 .key = key,
                                 .choose = choose,
                                 .prepare = prepare,
                                 .open = open_kernel,
                                 .close = close_kernel,
                                 .check = check,
                                 .run = point_run,
                                 .finish = finish};
