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
        status = point->has_scales
                     ? mxrt_ocp_quantize(engine->device, point->format, NULL, point->shape->axis,
                                         &plain.tensor, &point->in.tensor, &point->scales.tensor,
                                         NULL, err)
                     : mxrt_convert_to(engine->device, point->format, point->shape->axis,
                                       &plain.tensor, &point->in.tensor, NULL, err);
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
    measure_ring_finish(&point->scale_ring);
    measure_ring_finish(&point->column_ring);
    measure_ring_finish(&point->column_scale_ring);
    measure_copy_finish(&point->copy);
}

/* Shape of the scales; [0, 0] where there are none. */
static mx_status scales_shape(const tool_point *point, int64_t shape[2], mx_error *err)
{
    int64_t data[2];
    shape[0] = shape[1] = 0;
    if (!mx_format_is_ocp(point->format) || point->op == MX_OP_QDQ)
        return MX_OK;
    return mxrt_ocp_shape(point->format, NULL, point->shape->ndim, point->shape->shape,
                          point->shape->axis, data, shape, err);
}

static int turns(const tool_point *point)
{
    return point->column_align && point->op == MX_OP_FROM && mx_format_is_ocp(point->format) &&
           point->shape->ndim == 2;
}

/* Blocks of a column, and how many columns there are; 0 without. The axis is one of the shape's. */
static int64_t column_blocks(const tool_point *point, int64_t *n_columns)
{
    const mx_case *shape = point->shape;
    int axis = shape->axis < 0 ? shape->axis + shape->ndim : shape->axis;
    *n_columns = 0;
    if (!point->column_align || point->op == MX_OP_QDQ || !mx_format_is_ocp(point->format) ||
        shape->shape[axis] == 0 || (point->op == MX_OP_FROM && !turns(point)))
        return 0;
    *n_columns = shape->shape[axis];
    int64_t rows = mx_case_elements(shape) / *n_columns;
    if (turns(point))
        return (rows + MX_OCP_BLOCK - 1) / MX_OCP_BLOCK;
    return mxrt_ocp_columns_capacity(rows, 0, point->column_align) / MX_OCP_BLOCK;
}

/* Memory and tensors of the columns. */
static mx_status init_columns(tool_point *point, const tool_engine *engine, mx_error *err)
{
    const DLDataType bytes = {.code = kDLUInt, .bits = 8, .lanes = 1};
    const DLDevice device = engine->info.dl_device;
    int64_t n, blocks = column_blocks(point, &n);
    if (!blocks)
        return MX_OK;
    const int64_t block_bytes = mx_format_get(point->format)->block_bytes;
    const int64_t data[] = {turns(point) ? n * blocks : n,
                            turns(point) ? block_bytes : blocks * block_bytes};
    const int64_t scales[] = {n, blocks};
    int axis = point->shape->axis < 0 ? point->shape->axis + 2 : point->shape->axis;
    mx_status status =
        measure_ring_init(&point->column_ring, engine->device, data[0] * data[1], 1, err);
    if (status == MX_OK)
        status = measure_ring_init(&point->column_scale_ring, engine->device, n * blocks, 1, err);
    if (status != MX_OK)
        return status;
    mx_case_contiguous(bytes, device, 2, data, measure_ring_at(&point->column_ring, 0),
                       &point->column_data);
    mx_case_contiguous(bytes, device, 2, scales, measure_ring_at(&point->column_scale_ring, 0),
                       &point->column_scales);
    if (turns(point)) {
        point->turned =
            (mxrt_ocp_turned){1 - axis, &point->column_data.tensor, &point->column_scales.tensor};
        return MX_OK;
    }
    point->columns = (mxrt_ocp_columns){.data = &point->column_data.tensor,
                                        .scales = &point->column_scales.tensor,
                                        .group_align = point->column_align};
    return MX_OK;
}

/* What must move: every element, packed byte and scale, once, without gaps. */
static mx_status count_bytes(tool_point *point, mx_error *err)
{
    const mx_case *shape = point->shape;
    st_dtype dtype = point->dtype == MX_DTYPE_F32 ? ST_F32 : ST_F16; /* for the size alone */
    int64_t plain = 0, blocks = 0, block_bytes = 0, scales[2];
    mx_status status = st_tensor_bytes(dtype, (size_t)shape->ndim, shape->shape, &plain, err);
    if (status == MX_OK)
        status = mxrt_packed_shape(point->format, shape->ndim, shape->shape, shape->axis, &blocks,
                                   &block_bytes, err);
    if (status == MX_OK)
        status = scales_shape(point, scales, err);
    if (status != MX_OK)
        return status;
    int64_t n, n_blocks = column_blocks(point, &n);
    point->moved_bytes =
        plain + (point->op == MX_OP_QDQ ? plain : blocks * block_bytes) + scales[0] * scales[1];
    point->moved_bytes += n * n_blocks * (block_bytes + 1) - (turns(point) ? plain : 0);
    return MX_OK;
}

/* All tensors, with slot 0 of each at an address. */
static mx_status set_tensors(tool_point *point, const tool_engine *engine, void *in, void *out,
                             void *scales, mx_error *err)
{
    const DLDataType bytes = {.code = kDLUInt, .bits = 8, .lanes = 1};
    int64_t scales_dims[2];
    const mx_case *shape = point->shape;
    const DLDevice device = engine->info.dl_device;
    if (point->op == MX_OP_FROM)
        mx_case_packed(shape, point->format, device, in, &point->in);
    else
        mx_case_plain(shape, point->dtype, device, in, &point->in);
    if (point->op == MX_OP_TO)
        mx_case_packed(shape, point->format, device, out, &point->out);
    else
        mx_case_plain(shape, point->dtype, device, out, &point->out);
    mx_status status = scales_shape(point, scales_dims, err);
    point->has_scales = status == MX_OK && scales_dims[1] > 0;
    if (point->has_scales)
        mx_case_contiguous(bytes, device, 2, scales_dims, scales, &point->scales);
    return status;
}

mx_status point_place(tool_point *point, const tool_engine *engine, mx_error *err)
{
    /* Far apart, and on pages, as memory would be. */
    const uintptr_t in = (uintptr_t)1 << 40, out = (uintptr_t)1 << 45, scales = (uintptr_t)1 << 44;
    mx_status status = set_tensors(point, engine, (void *)in, (void *)out, (void *)scales, err);
    return status == MX_OK ? count_bytes(point, err) : status;
}

mx_status point_init(tool_point *point, const tool_engine *engine, unsigned flags, mx_error *err)
{
    const mx_case *shape = point->shape;
    int64_t packed_bytes = mx_case_packed_bytes(shape, point->format);
    int64_t plain_bytes = mx_case_plain_bytes(shape, point->dtype);
    int in_packed = point->op == MX_OP_FROM, out_packed = point->op == MX_OP_TO;
    int64_t scales[2];
    mx_status status = count_bytes(point, err);
    if (status == MX_OK)
        status = scales_shape(point, scales, err);
    if (status != MX_OK)
        return status;
    int n = flags & POINT_ROTATE ? measure_slots(&engine->info, point->moved_bytes) : 1;
    status = measure_ring_init(&point->in_ring, engine->device,
                               in_packed ? packed_bytes : plain_bytes, n, err);
    if (status == MX_OK)
        status = measure_ring_init(&point->out_ring, engine->device,
                                   out_packed ? packed_bytes : plain_bytes, n, err);
    if (status == MX_OK && scales[1] > 0)
        status =
            measure_ring_init(&point->scale_ring, engine->device, scales[0] * scales[1], n, err);
    if (status == MX_OK)
        status = set_tensors(point, engine, measure_ring_at(&point->in_ring, 0),
                             measure_ring_at(&point->out_ring, 0),
                             scales[1] > 0 ? measure_ring_at(&point->scale_ring, 0) : NULL, err);
    if (status == MX_OK)
        status = measure_ring_touch(&point->out_ring, err);
    if (status == MX_OK && flags & POINT_COPY)
        status = measure_copy_init(&point->copy, engine->device, point->moved_bytes, n, err);
    if (status == MX_OK)
        status = init_columns(point, engine, err);
    if (status == MX_OK)
        status = in_packed ? fill_packed(point, engine, err)
                           : fill_plain(point, engine, measure_ring_at(&point->in_ring, 0), err);
    if (status == MX_OK)
        status = measure_ring_replicate(&point->in_ring, err);
    if (status == MX_OK && point->has_scales)
        status = in_packed ? measure_ring_replicate(&point->scale_ring, err)
                           : measure_ring_touch(&point->scale_ring, err);
    return status;
}

mxrt_plan_request point_request(const tool_point *point)
{
    return (mxrt_plan_request){.op = point->op,
                               .format = point->format,
                               .profile = MX_PROFILE_PACKED,
                               .axis = point->shape->axis,
                               .in = &point->in.tensor,
                               .out = &point->out.tensor,
                               .scales = point->has_scales ? &point->scales.tensor : NULL,
                               .columns = point->columns.data ? &point->columns : NULL,
                               .turned = point->turned.data ? &point->turned : NULL};
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
    void *in = slot_data(&point->in_ring, slot, &point->in);
    void *out = slot_data(&point->out_ring, slot, &point->out);
    if (!point->has_scales)
        return mxrt_plan_run(kernel->plan, in, out, stream, err);
    return mxrt_plan_run_scaled(kernel->plan, in, out,
                                slot_data(&point->scale_ring, slot, &point->scales), stream, err);
}
