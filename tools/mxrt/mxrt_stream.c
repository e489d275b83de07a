#include "mxrt_stream.h"

#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

void stream_init(tool_stream *stream, tool_engine *engine, tool_progress *progress,
                 int64_t budget_bytes)
{
    *stream =
        (struct tool_stream){.engine = engine, .progress = progress, .budget_bytes = budget_bytes};
}

int stream_is_host(const tool_stream *stream)
{
    return stream->engine->info.dl_device.device_type == kDLCPU;
}

static void buffer_finish(const tool_stream *stream, stream_buffer *buffer)
{
    mxrt_device_free(stream->engine->device, buffer->device);
    if (!stream_is_host(stream))
        free(buffer->host);
}

void stream_finish(tool_stream *stream)
{
    if (!stream->engine)
        return;
    buffer_finish(stream, &stream->plain);
    buffer_finish(stream, &stream->packed);
    buffer_finish(stream, &stream->scales);
    memset(stream, 0, sizeof(*stream));
}

static mx_status grow(const tool_stream *stream, stream_buffer *buffer, int64_t size_bytes,
                      mx_error *err)
{
    if (size_bytes <= buffer->capacity)
        return MX_OK;
    buffer_finish(stream, buffer);
    *buffer = (stream_buffer){0};
    mx_status status =
        mxrt_device_alloc(stream->engine->device, (size_t)size_bytes, &buffer->device, err);
    if (status != MX_OK)
        return status;
    buffer->host = stream_is_host(stream) ? buffer->device : malloc((size_t)size_bytes);
    if (!buffer->host)
        return mx_fail(err, MX_ERR_NO_MEMORY,
                       "no memory for a buffer of %lld bytes; use a smaller --max-memory",
                       (long long)size_bytes);
    buffer->capacity = size_bytes;
    return MX_OK;
}

mx_status stream_reserve(tool_stream *stream, int64_t plain_bytes, int64_t packed_bytes,
                         int64_t scale_bytes, mx_error *err)
{
    mx_status status = grow(stream, &stream->plain, plain_bytes, err);
    if (status == MX_OK)
        status = grow(stream, &stream->packed, packed_bytes, err);
    if (status == MX_OK)
        status = grow(stream, &stream->scales, scale_bytes, err);
    return status;
}

static mx_status upload(const tool_stream *stream, const stream_buffer *buffer, int64_t size_bytes,
                        mx_error *err)
{
    return stream_is_host(stream) ? MX_OK
                                  : mxrt_device_upload(stream->engine->device, buffer->device,
                                                       buffer->host, (size_t)size_bytes, err);
}

static mx_status download(const tool_stream *stream, const stream_buffer *buffer,
                          int64_t size_bytes, mx_error *err)
{
    return stream_is_host(stream) ? MX_OK
                                  : mxrt_device_download(stream->engine->device, buffer->host,
                                                         buffer->device, (size_t)size_bytes, err);
}

/* ---- Runs between files and buffers ---- */

typedef struct run_context {
    const st_reader *reader;
    const st_tensor *tensor;
    st_writer *writer;
    size_t index;
    char *buffer;
} run_context;

static mx_status read_run(void *user, int64_t tensor_offset, int64_t box_offset, int64_t size_bytes,
                          mx_error *err)
{
    const run_context *run = user;
    return st_reader_read(run->reader, run->tensor, tensor_offset, run->buffer + box_offset,
                          (size_t)size_bytes, err);
}

static mx_status write_run(void *user, int64_t tensor_offset, int64_t box_offset,
                           int64_t size_bytes, mx_error *err)
{
    const run_context *run = user;
    return st_writer_write(run->writer, run->index, tensor_offset, run->buffer + box_offset,
                           (size_t)size_bytes, err);
}

mx_status stream_read_plain(const tool_stream *stream, const stream_route *route,
                            const slab_view *view, const slab_box *box, mx_error *err)
{
    run_context run = {
        .reader = route->reader, .tensor = route->tensor, .buffer = stream->plain.host};
    return slab_plain_runs(view, box, read_run, &run, err);
}

static mx_status write_plain(const stream_route *route, const slab_view *view, const slab_box *box,
                             void *data, mx_error *err)
{
    run_context run = {.writer = route->writer, .index = route->index, .buffer = data};
    return slab_plain_runs(view, box, write_run, &run, err);
}

/* Scales of tiles are read and written as a whole. */
static mx_status scale_runs(const stream_walk *walk, const slab_box *box, slab_run_fn run,
                            run_context *context, mx_error *err)
{
    if (walk->whole_scale_bytes)
        return run(context, 0, 0, walk->whole_scale_bytes, err);
    return slab_scale_runs(&walk->view, box, run, context, err);
}

static mx_status read_stored(const tool_stream *stream, const stream_route *route,
                             const stream_walk *walk, const slab_box *box, mx_error *err)
{
    run_context data = {
        .reader = route->reader, .tensor = route->tensor, .buffer = stream->packed.host};
    run_context scales = {
        .reader = route->reader, .tensor = route->scales, .buffer = stream->scales.host};
    /* What a row cut short lacks is zeros. */
    if (walk->packed->cut_row_bytes)
        memset(data.buffer, 0, (size_t)slab_packed_bytes(&walk->view, box));
    mx_status status = slab_packed_runs(&walk->view, box, read_run, &data, err);
    if (status == MX_OK && walk->view.scale_bytes)
        status = scale_runs(walk, box, read_run, &scales, err);
    return status;
}

static mx_status write_stored(const tool_stream *stream, const stream_route *route,
                              const stream_walk *walk, const slab_box *box, mx_error *err)
{
    run_context data = {
        .writer = route->writer, .index = route->index, .buffer = stream->packed.host};
    run_context scales = {
        .writer = route->writer, .index = route->scales_index, .buffer = stream->scales.host};
    mx_status status = slab_packed_runs(&walk->view, box, write_run, &data, err);
    if (status == MX_OK && walk->view.scale_bytes)
        status = scale_runs(walk, box, write_run, &scales, err);
    return status;
}

/* ---- Boxes ---- */

void stream_walk_view(const meta_packed *packed, slab_view *view)
{
    const mx_format_info *format = mx_format_get(packed->format);
    slab_view_init(view, packed->ndim, packed->shape, packed->axis,
                   mx_dtype_get(packed->dtype)->bytes, format->block_bytes, format->block_elements);
    view->scale_bytes = mx_format_is_ocp(packed->format);
    if (packed->cut_row_bytes)
        view->row_bytes = packed->cut_row_bytes;
}

static mx_status init_whole(stream_walk *walk, const tool_stream *stream, const char *name,
                            mx_op op, mx_error *err)
{
    const meta_packed *packed = walk->packed;
    int64_t data_shape[2], scales_shape[2];
    char label[ST_PRINTABLE_BYTES];
    mx_error why;
    st_printable(name, label);
    slab_whole(&walk->view, &walk->first);
    if (packed->ndim > MXRT_MAX_DIMS)
        return mx_fail(err, MX_ERR_UNSUPPORTED,
                       "tensor \"%s\" has %zu dimensions; with tiles %d are the most", label,
                       packed->ndim, MXRT_MAX_DIMS);
    if (mxrt_ocp_shape(packed->format, &packed->options, (int)packed->ndim, packed->shape,
                       packed->axis, data_shape, scales_shape, &why) != MX_OK)
        return mx_fail(err, why.status, "tensor \"%s\": %s", label, why.message);
    if (packed->options.two_d)
        walk->whole_scale_bytes = scales_shape[0] * scales_shape[1];
    int64_t plain_bytes = slab_plain_bytes(&walk->view, &walk->first);
    int64_t needed = plain_bytes + (op == MX_OP_QDQ ? plain_bytes
                                                    : slab_packed_bytes(&walk->view, &walk->first) +
                                                          scales_shape[0] * scales_shape[1]);
    if (needed > stream->budget_bytes)
        return mx_fail(err, MX_ERR_UNSUPPORTED,
                       "tensor \"%s\" is not cut into pieces with %s: it takes %lld bytes at once; "
                       "raise --max-memory",
                       label, packed->options.two_d ? "scales of tiles" : "stochastic rounding",
                       (long long)needed);
    return MX_OK;
}

mx_status stream_walk_init(stream_walk *walk, const tool_stream *stream, const char *name, mx_op op,
                           const meta_packed *packed, mx_error *err)
{
    *walk = (stream_walk){.packed = packed};
    stream_walk_view(packed, &walk->view);
    walk->is_whole = mx_format_is_ocp(packed->format) &&
                     (packed->options.two_d ||
                      (op != MX_OP_FROM && packed->options.rounding == MX_ROUND_STOCHASTIC));
    if (walk->is_whole)
        return init_whole(walk, stream, name, op, err);
    slab_first(&walk->view, stream->budget_bytes, &walk->first);
    return MX_OK;
}

int64_t stream_scale_bytes(const stream_walk *walk, const slab_box *box)
{
    if (walk->whole_scale_bytes)
        return walk->whole_scale_bytes;
    return walk->view.scale_bytes * slab_blocks(&walk->view, box);
}

static DLTensor bytes_tensor(const tool_stream *stream, void *data, int64_t *shape)
{
    return (DLTensor){.data = data,
                      .device = stream->engine->info.dl_device,
                      .ndim = 2,
                      .dtype = {.code = kDLUInt, .bits = 8, .lanes = 1},
                      .shape = shape};
}

void stream_box_tensors(const tool_stream *stream, const stream_walk *walk, const slab_box *box,
                        void *plain, stream_tensors *out)
{
    const meta_packed *packed = walk->packed;
    const slab_view *view = &walk->view;
    DLDataType type = {.code = packed->dtype == MX_DTYPE_BF16 ? kDLBfloat : kDLFloat,
                       .bits = (uint8_t)(8 * mx_dtype_get(packed->dtype)->bytes),
                       .lanes = 1};
    int64_t bpr = (box->count[SLAB_AXIS] + view->block_elements - 1) / view->block_elements;
    memcpy(out->plain_shape, box->count, sizeof(out->plain_shape));
    out->packed_shape[0] = slab_blocks(view, box);
    out->packed_shape[1] = view->block_bytes;
    out->scales_shape[0] = stream_scale_bytes(walk, box) / bpr;
    out->scales_shape[1] = bpr;
    /* Tiles are made of the dimensions that the tensor really has. */
    out->axis = walk->whole_scale_bytes ? packed->axis : SLAB_AXIS;
    out->plain = (DLTensor){.data = plain,
                            .device = stream->engine->info.dl_device,
                            .ndim = walk->whole_scale_bytes ? (int)packed->ndim : SLAB_DIMS,
                            .dtype = type,
                            .shape = walk->whole_scale_bytes ? packed->shape : out->plain_shape};
    out->packed = bytes_tensor(stream, stream->packed.device, out->packed_shape);
    out->scales = bytes_tensor(stream, stream->scales.device, out->scales_shape);
}

mx_status stream_call(const tool_stream *stream, mx_op op, const meta_packed *packed,
                      const stream_tensors *t, const DLTensor *out, mxrt_stream queue,
                      mx_error *err)
{
    mxrt_device *device = stream->engine->device;
    mx_format format = packed->format;
    if (!mx_format_is_ocp(format)) {
        if (op == MX_OP_QDQ)
            return mxrt_quantize_dequantize(device, format, packed->profile, t->axis, &t->plain,
                                            out, queue, err);
        return op == MX_OP_TO
                   ? mxrt_convert_to(device, format, t->axis, &t->plain, &t->packed, queue, err)
                   : mxrt_convert_from(device, format, t->axis, &t->packed, &t->plain, queue, err);
    }
    if (op == MX_OP_QDQ)
        return mxrt_ocp_qdq(device, format, &packed->options, t->axis, &t->plain, out, queue, err);
    return op == MX_OP_TO ? mxrt_ocp_quantize(device, format, &packed->options, t->axis, &t->plain,
                                              &t->packed, &t->scales, queue, err)
                          : mxrt_ocp_dequantize(device, format, &packed->options, t->axis,
                                                &t->packed, &t->scales, &t->plain, queue, err);
}

static mx_status quantize_box(const tool_stream *stream, const stream_walk *walk,
                              const slab_box *box, mx_error *err)
{
    stream_tensors tensors;
    stream_box_tensors(stream, walk, box, stream->plain.device, &tensors);
    mx_status status = upload(stream, &stream->plain, slab_plain_bytes(&walk->view, box), err);
    if (status == MX_OK)
        status = stream_call(stream, MX_OP_TO, walk->packed, &tensors, NULL, NULL, err);
    if (status == MX_OK)
        status = download(stream, &stream->packed, slab_packed_bytes(&walk->view, box), err);
    if (status == MX_OK && walk->view.scale_bytes)
        status = download(stream, &stream->scales, stream_scale_bytes(walk, box), err);
    return status;
}

static mx_status dequantize_box(const tool_stream *stream, const stream_walk *walk,
                                const slab_box *box, mx_error *err)
{
    stream_tensors tensors;
    stream_box_tensors(stream, walk, box, stream->plain.device, &tensors);
    mx_status status = upload(stream, &stream->packed, slab_packed_bytes(&walk->view, box), err);
    if (status == MX_OK && walk->view.scale_bytes)
        status = upload(stream, &stream->scales, stream_scale_bytes(walk, box), err);
    if (status == MX_OK)
        status = stream_call(stream, MX_OP_FROM, walk->packed, &tensors, NULL, NULL, err);
    if (status == MX_OK)
        status = download(stream, &stream->plain, slab_plain_bytes(&walk->view, box), err);
    return status;
}

/* In place, but with scales of tiles: then into the buffer of packed data. */
static mx_status qdq_box(const tool_stream *stream, const stream_walk *walk, const slab_box *box,
                         const stream_buffer **result, mx_error *err)
{
    stream_tensors tensors;
    int64_t plain_bytes = slab_plain_bytes(&walk->view, box);
    *result = walk->whole_scale_bytes ? &stream->packed : &stream->plain;
    stream_box_tensors(stream, walk, box, stream->plain.device, &tensors);
    DLTensor out = tensors.plain;
    out.data = (*result)->device;
    mx_status status = upload(stream, &stream->plain, plain_bytes, err);
    if (status == MX_OK)
        status = stream_call(stream, MX_OP_QDQ, walk->packed, &tensors, &out, NULL, err);
    if (status == MX_OK)
        status = download(stream, *result, plain_bytes, err);
    return status;
}

mx_status stream_read_packed(tool_stream *stream, const stream_route *route,
                             const stream_walk *walk, const slab_box *box, mx_error *err)
{
    mx_status status =
        stream_reserve(stream, slab_plain_bytes(&walk->view, box),
                       slab_packed_bytes(&walk->view, box), stream_scale_bytes(walk, box), err);
    if (status == MX_OK)
        status = read_stored(stream, route, walk, box, err);
    if (status == MX_OK)
        status = dequantize_box(stream, walk, box, err);
    return status;
}

/* ---- Tensors ---- */

mx_status stream_quantize(tool_stream *stream, const stream_route *route, const meta_packed *packed,
                          stream_counts *counts, mx_error *err)
{
    stream_walk walk;
    slab_box box;
    stream_counts found = {0};
    mx_status status = stream_walk_init(&walk, stream, route->tensor->name, MX_OP_TO, packed, err);
    if (status == MX_OK)
        status = stream_reserve(stream, slab_plain_bytes(&walk.view, &walk.first),
                                slab_packed_bytes(&walk.view, &walk.first),
                                stream_scale_bytes(&walk, &walk.first), err);
    box = walk.first;
    for (int more = 1; more && status == MX_OK; more = slab_next(&walk.view, &walk.first, &box)) {
        int64_t plain_bytes = slab_plain_bytes(&walk.view, &box);
        status = stream_read_plain(stream, route, &walk.view, &box, err);
        if (status == MX_OK) {
            stream_count(packed->dtype, stream->plain.host, plain_bytes / walk.view.element_bytes,
                         &found);
            status = quantize_box(stream, &walk, &box, err);
        }
        if (status == MX_OK)
            status = write_stored(stream, route, &walk, &box, err);
        progress_add(stream->progress, plain_bytes, route->tensor->name);
    }
    if (status == MX_OK)
        *counts = found;
    return status;
}

mx_status stream_dequantize(tool_stream *stream, const stream_route *route,
                            const meta_packed *packed, mx_error *err)
{
    stream_walk walk;
    slab_box box;
    mx_status status =
        stream_walk_init(&walk, stream, route->tensor->name, MX_OP_FROM, packed, err);
    box = walk.first;
    for (int more = 1; more && status == MX_OK; more = slab_next(&walk.view, &walk.first, &box)) {
        status = stream_read_packed(stream, route, &walk, &box, err);
        if (status == MX_OK)
            status = write_plain(route, &walk.view, &box, stream->plain.host, err);
        progress_add(stream->progress, slab_packed_bytes(&walk.view, &box), route->tensor->name);
    }
    return status;
}

mx_status stream_qdq(tool_stream *stream, const stream_route *route, const meta_packed *packed,
                     stream_counts *counts, mx_error *err)
{
    stream_walk walk;
    slab_box box;
    stream_counts found = {0};
    const stream_buffer *result;
    mx_status status = stream_walk_init(&walk, stream, route->tensor->name, MX_OP_QDQ, packed, err);
    int64_t most = status == MX_OK ? slab_plain_bytes(&walk.view, &walk.first) : 0;
    if (status == MX_OK)
        status = stream_reserve(stream, most, walk.whole_scale_bytes ? most : 0, 0, err);
    box = walk.first;
    for (int more = 1; more && status == MX_OK; more = slab_next(&walk.view, &walk.first, &box)) {
        int64_t plain_bytes = slab_plain_bytes(&walk.view, &box);
        status = stream_read_plain(stream, route, &walk.view, &box, err);
        if (status == MX_OK) {
            stream_count(packed->dtype, stream->plain.host, plain_bytes / walk.view.element_bytes,
                         &found);
            status = qdq_box(stream, &walk, &box, &result, err);
        }
        if (status == MX_OK)
            status = write_plain(route, &walk.view, &box, result->host, err);
        progress_add(stream->progress, plain_bytes, route->tensor->name);
    }
    if (status == MX_OK)
        *counts = found;
    return status;
}

mx_status stream_copy(tool_stream *stream, const stream_route *route, mx_error *err)
{
    enum { CHUNK_BYTES = 16 << 20 };
    int64_t left = route->tensor->size_bytes, at = 0;
    int64_t chunk = left < CHUNK_BYTES ? left : CHUNK_BYTES;
    if (chunk > stream->budget_bytes)
        chunk = stream->budget_bytes;
    mx_status status = left > 0 ? stream_reserve(stream, chunk, 0, 0, err) : MX_OK;
    for (; left > 0 && status == MX_OK; left -= chunk, at += chunk) {
        chunk = left < chunk ? left : chunk;
        status = st_reader_read(route->reader, route->tensor, at, stream->plain.host, (size_t)chunk,
                                err);
        if (status == MX_OK)
            status = st_writer_write(route->writer, route->index, at, stream->plain.host,
                                     (size_t)chunk, err);
        progress_add(stream->progress, chunk, route->tensor->name);
    }
    return status;
}

/* ---- NaN and Inf ---- */

/* Plain loops over the bits without branches: the compiler makes vectors of them. Each call counts
 * at most `n` of one kind, in blocks small enough for 32-bit sums. */
static void count_u32(const uint32_t *bits, int64_t n, uint32_t infinity, uint32_t *nan,
                      uint32_t *inf)
{
    uint32_t n_nan = 0, n_inf = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t magnitude = bits[i] & 0x7fffffff;
        n_nan += magnitude > infinity;
        n_inf += magnitude == infinity;
    }
    *nan = n_nan;
    *inf = n_inf;
}

static void count_u16(const uint16_t *bits, int64_t n, uint16_t infinity, uint32_t *nan,
                      uint32_t *inf)
{
    uint32_t n_nan = 0, n_inf = 0;
    for (int64_t i = 0; i < n; i++) {
        uint16_t magnitude = bits[i] & 0x7fff;
        n_nan += magnitude > infinity;
        n_inf += magnitude == infinity;
    }
    *nan = n_nan;
    *inf = n_inf;
}

void stream_count(mx_dtype dtype, const void *data, int64_t n, stream_counts *counts)
{
    enum { STEP = 1 << 20 };
    for (int64_t at = 0; at < n; at += STEP) {
        int64_t part = n - at < STEP ? n - at : STEP;
        uint32_t nan, inf;
        if (dtype == MX_DTYPE_F32)
            count_u32((const uint32_t *)data + at, part, 0x7f800000, &nan, &inf);
        else
            count_u16((const uint16_t *)data + at, part, dtype == MX_DTYPE_BF16 ? 0x7f80 : 0x7c00,
                      &nan, &inf);
        counts->nan += nan;
        counts->inf += inf;
    }
}
