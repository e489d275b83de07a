#include "mxrt_point.h"

#include <stdlib.h>

#include <mxgen/error.h>

/* Values into device memory at `data`, gaps and offset included. */
static mx_status fill_plain(const tool_point *point, const tool_engine *engine, void *data,
                            mx_error *err)
{
    int64_t size_bytes = mx_case_plain_bytes(point->shape, point->dtype);
    int64_t n = size_bytes / mx_dtype_get(point->dtype)->bytes;
    if (engine->info.dl_device.device_type == kDLCPU) {
        mx_case_fill(MX_VALUES_NORMAL, 1, point->dtype, data, n);
        return MX_OK;
    }
    void *host = malloc((size_t)size_bytes);
    if (!host)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %lld bytes", (long long)size_bytes);
    mx_case_fill(MX_VALUES_NORMAL, 1, point->dtype, host, n);
    mx_status status = mxrt_device_upload(engine->device, data, host, (size_t)size_bytes, err);
    free(host);
    return status;
}

/* The packed input of `from` is what `to` makes of the values. */
static mx_status fill_packed(tool_point *point, const tool_engine *engine, mx_error *err)
{
    mx_case_tensor plain;
    void *data = NULL;
    mx_status status = mxrt_device_alloc(
        engine->device, (size_t)mx_case_plain_bytes(point->shape, point->dtype), &data, err);
    if (status == MX_OK)
        status = fill_plain(point, engine, data, err);
    if (status == MX_OK) {
        mx_case_plain(point->shape, point->dtype, engine->info.dl_device, data, &plain);
        status = mxrt_convert_to(engine->device, point->format, point->shape->axis, &plain.tensor,
                                 &point->in.tensor, NULL, err);
    }
    if (status == MX_OK)
        status = mxrt_device_synchronize(engine->device, NULL, err);
    mxrt_device_free(engine->device, data);
    return status;
}

void point_finish(tool_point *point)
{
    measure_ring_finish(&point->in_ring);
    measure_ring_finish(&point->out_ring);
    measure_copy_finish(&point->copy);
}

/* What must move: every element and every packed byte, once, without gaps. */
static mx_status count_bytes(tool_point *point, mx_error *err)
{
    const mx_case *shape = point->shape;
    st_dtype dtype = point->dtype == MX_DTYPE_F32 ? ST_F32 : ST_F16; /* for the size alone */
    int64_t plain = 0, blocks = 0, block_bytes = 0;
    mx_status status = st_tensor_bytes(dtype, (size_t)shape->ndim, shape->shape, &plain, err);
    if (status == MX_OK)
        status = mxrt_packed_shape(point->format, shape->ndim, shape->shape, shape->axis, &blocks,
                                   &block_bytes, err);
    if (status == MX_OK)
        point->moved_bytes = plain + (point->op == MX_OP_QDQ ? plain : blocks * block_bytes);
    return status;
}

static mx_status init_tensor(const tool_point *point, const tool_engine *engine, int is_packed,
                             int n_slots, measure_ring *ring, mx_case_tensor *tensor, mx_error *err)
{
    const mx_case *shape = point->shape;
    int64_t bytes = is_packed ? mx_case_packed_bytes(shape, point->format)
                              : mx_case_plain_bytes(shape, point->dtype);
    mx_status status = measure_ring_init(ring, engine->device, bytes, n_slots, err);
    if (status != MX_OK)
        return status;
    void *base = measure_ring_at(ring, 0);
    if (is_packed)
        mx_case_packed(shape, point->format, engine->info.dl_device, base, tensor);
    else
        mx_case_plain(shape, point->dtype, engine->info.dl_device, base, tensor);
    return MX_OK;
}

mx_status point_init(tool_point *point, const tool_engine *engine, int rotate, mx_error *err)
{
    mx_status status = count_bytes(point, err);
    if (status != MX_OK)
        return status;
    int in_packed = point->op == MX_OP_FROM, out_packed = point->op == MX_OP_TO;
    int n = rotate ? measure_slots(&engine->info, point->moved_bytes) : 1;
    status = init_tensor(point, engine, in_packed, n, &point->in_ring, &point->in, err);
    if (status == MX_OK)
        status = init_tensor(point, engine, out_packed, n, &point->out_ring, &point->out, err);
    if (status == MX_OK)
        status = measure_ring_touch(&point->out_ring, err);
    if (status == MX_OK)
        status = measure_copy_init(&point->copy, engine->device, point->moved_bytes, n, err);
    if (status == MX_OK)
        status = in_packed ? fill_packed(point, engine, err)
                           : fill_plain(point, engine, measure_ring_at(&point->in_ring, 0), err);
    if (status == MX_OK)
        status = measure_ring_replicate(&point->in_ring, err);
    return status;
}

mxrt_plan_request point_request(const tool_point *point)
{
    return (mxrt_plan_request){.op = point->op,
                               .format = point->format,
                               .profile = MX_PROFILE_PACKED,
                               .axis = point->shape->axis,
                               .in = &point->in.tensor,
                               .out = &point->out.tensor};
}

/* The first element of a slot's tensor; `tensor` is slot 0's. */
static void *slot_data(const measure_ring *ring, int slot, const mx_case_tensor *tensor)
{
    char *first = measure_ring_at(ring, 0), *data = measure_ring_at(ring, slot);
    return data + ((char *)tensor->tensor.data - first);
}

mx_status point_run(void *user, mxrt_stream stream, mx_error *err)
{
    const point_kernel *kernel = user;
    tool_point *point = kernel->point;
    int slot = point->in_ring.next;
    point->in_ring.next = (slot + 1) % point->in_ring.n;
    return mxrt_plan_run(kernel->plan, slot_data(&point->in_ring, slot, &point->in),
                         slot_data(&point->out_ring, slot, &point->out), stream, err);
}
