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

void stream_finish(tool_stream *stream)
{
    if (!stream->engine)
        return;
    mxrt_device_free(stream->engine->device, stream->device_plain);
    mxrt_device_free(stream->engine->device, stream->device_packed);
    if (!stream_is_host(stream)) {
        free(stream->host_plain);
        free(stream->host_packed);
    }
    memset(stream, 0, sizeof(*stream));
}

static mx_status grow(tool_stream *stream, void **device, void **host, int64_t *capacity,
                      int64_t size_bytes, mx_error *err)
{
    if (size_bytes <= *capacity)
        return MX_OK;
    if (!stream_is_host(stream))
        free(*host);
    mxrt_device_free(stream->engine->device, *device);
    *device = *host = NULL;
    *capacity = 0;
    mx_status status = mxrt_device_alloc(stream->engine->device, (size_t)size_bytes, device, err);
    if (status != MX_OK)
        return status;
    *host = stream_is_host(stream) ? *device : malloc((size_t)size_bytes);
    if (!*host)
        return mx_fail(err, MX_ERR_NO_MEMORY,
                       "no memory for a buffer of %lld bytes; use a smaller --max-memory",
                       (long long)size_bytes);
    *capacity = size_bytes;
    return MX_OK;
}

mx_status stream_reserve(tool_stream *stream, int64_t plain_bytes, int64_t packed_bytes,
                         mx_error *err)
{
    mx_status status = grow(stream, &stream->device_plain, &stream->host_plain,
                            &stream->plain_capacity, plain_bytes, err);
    if (status == MX_OK)
        status = grow(stream, &stream->device_packed, &stream->host_packed,
                      &stream->packed_capacity, packed_bytes, err);
    return status;
}

/* ---- Runs between files and buffers ---- */

typedef struct run_context {
    const stream_route *route;
    char *buffer;
} run_context;

static mx_status read_run(void *user, int64_t tensor_offset, int64_t box_offset, int64_t size_bytes,
                          mx_error *err)
{
    const run_context *run = user;
    return st_reader_read(run->route->reader, run->route->tensor, tensor_offset,
                          run->buffer + box_offset, (size_t)size_bytes, err);
}

static mx_status write_run(void *user, int64_t tensor_offset, int64_t box_offset,
                           int64_t size_bytes, mx_error *err)
{
    const run_context *run = user;
    return st_writer_write(run->route->writer, run->route->index, tensor_offset,
                           run->buffer + box_offset, (size_t)size_bytes, err);
}

mx_status stream_read_plain(const tool_stream *stream, const stream_route *route,
                            const slab_view *view, const slab_box *box, mx_error *err)
{
    run_context run = {.route = route, .buffer = stream->host_plain};
    return slab_plain_runs(view, box, read_run, &run, err);
}

/* ---- Boxes through the device ---- */

void stream_box_tensors(const tool_stream *stream, const slab_view *view, const slab_box *box,
                        mx_dtype dtype, void *plain, void *packed, stream_tensors *out)
{
    DLDataType type = {.code = dtype == MX_DTYPE_BF16 ? kDLBfloat : kDLFloat,
                       .bits = (uint8_t)(8 * mx_dtype_get(dtype)->bytes),
                       .lanes = 1};
    memcpy(out->plain_shape, box->count, sizeof(out->plain_shape));
    out->packed_shape[0] = slab_packed_bytes(view, box) / view->block_bytes;
    out->packed_shape[1] = view->block_bytes;
    out->plain = (DLTensor){.data = plain,
                            .device = stream->engine->info.dl_device,
                            .ndim = SLAB_DIMS,
                            .dtype = type,
                            .shape = out->plain_shape};
    out->packed = (DLTensor){.data = packed,
                             .device = stream->engine->info.dl_device,
                             .ndim = 2,
                             .dtype = {.code = kDLUInt, .bits = 8, .lanes = 1},
                             .shape = out->packed_shape};
}

static mx_status quantize_box(tool_stream *stream, const slab_view *view, const slab_box *box,
                              const meta_packed *packed, mx_error *err)
{
    mxrt_device *device = stream->engine->device;
    stream_tensors tensors;
    mx_status status = MX_OK;
    stream_box_tensors(stream, view, box, packed->dtype, stream->device_plain,
                       stream->device_packed, &tensors);
    if (!stream_is_host(stream))
        status = mxrt_device_upload(device, stream->device_plain, stream->host_plain,
                                    (size_t)slab_plain_bytes(view, box), err);
    if (status == MX_OK)
        status = mxrt_convert_to(device, packed->format, SLAB_AXIS, &tensors.plain, &tensors.packed,
                                 NULL, err);
    if (status == MX_OK && !stream_is_host(stream))
        status = mxrt_device_download(device, stream->host_packed, stream->device_packed,
                                      (size_t)slab_packed_bytes(view, box), err);
    return status;
}

static mx_status dequantize_box(tool_stream *stream, const slab_view *view, const slab_box *box,
                                const meta_packed *packed, mx_error *err)
{
    mxrt_device *device = stream->engine->device;
    stream_tensors tensors;
    mx_status status = MX_OK;
    stream_box_tensors(stream, view, box, packed->dtype, stream->device_plain,
                       stream->device_packed, &tensors);
    if (!stream_is_host(stream))
        status = mxrt_device_upload(device, stream->device_packed, stream->host_packed,
                                    (size_t)slab_packed_bytes(view, box), err);
    if (status == MX_OK)
        status = mxrt_convert_from(device, packed->format, SLAB_AXIS, &tensors.packed,
                                   &tensors.plain, NULL, err);
    if (status == MX_OK && !stream_is_host(stream))
        status = mxrt_device_download(device, stream->host_plain, stream->device_plain,
                                      (size_t)slab_plain_bytes(view, box), err);
    return status;
}

static void init_view(slab_view *view, const meta_packed *packed)
{
    slab_view_init(view, packed->ndim, packed->shape, packed->axis,
                   mx_dtype_get(packed->dtype)->bytes, mx_format_get(packed->format)->block_bytes);
}

mx_status stream_quantize(tool_stream *stream, const stream_route *route, const meta_packed *packed,
                          stream_counts *counts, mx_error *err)
{
    slab_view view;
    slab_box first, box;
    stream_counts found = {0};
    init_view(&view, packed);
    slab_first(&view, stream->budget_bytes, &first);
    mx_status status = stream_reserve(stream, slab_plain_bytes(&view, &first),
                                      slab_packed_bytes(&view, &first), err);
    box = first;
    for (int more = 1; more && status == MX_OK; more = slab_next(&view, &first, &box)) {
        run_context run = {.route = route, .buffer = stream->host_packed};
        int64_t plain_bytes = slab_plain_bytes(&view, &box);
        status = stream_read_plain(stream, route, &view, &box, err);
        if (status == MX_OK) {
            stream_count(packed->dtype, stream->host_plain, plain_bytes / view.element_bytes,
                         &found);
            status = quantize_box(stream, &view, &box, packed, err);
        }
        if (status == MX_OK)
            status = slab_packed_runs(&view, &box, write_run, &run, err);
        progress_add(stream->progress, plain_bytes, route->tensor->name);
    }
    if (status == MX_OK)
        *counts = found;
    return status;
}

mx_status stream_dequantize(tool_stream *stream, const stream_route *route,
                            const meta_packed *packed, mx_error *err)
{
    slab_view view;
    slab_box first, box;
    init_view(&view, packed);
    slab_first(&view, stream->budget_bytes, &first);
    mx_status status = stream_reserve(stream, slab_plain_bytes(&view, &first),
                                      slab_packed_bytes(&view, &first), err);
    box = first;
    for (int more = 1; more && status == MX_OK; more = slab_next(&view, &first, &box)) {
        run_context from = {.route = route, .buffer = stream->host_packed};
        run_context to = {.route = route, .buffer = stream->host_plain};
        status = slab_packed_runs(&view, &box, read_run, &from, err);
        if (status == MX_OK)
            status = dequantize_box(stream, &view, &box, packed, err);
        if (status == MX_OK)
            status = slab_plain_runs(&view, &box, write_run, &to, err);
        progress_add(stream->progress, slab_packed_bytes(&view, &box), route->tensor->name);
    }
    return status;
}

mx_status stream_copy(tool_stream *stream, const stream_route *route, mx_error *err)
{
    enum { CHUNK_BYTES = 16 << 20 };
    int64_t left = route->tensor->size_bytes, at = 0;
    int64_t chunk = left < CHUNK_BYTES ? left : CHUNK_BYTES;
    if (chunk > stream->budget_bytes)
        chunk = stream->budget_bytes;
    mx_status status = left > 0 ? stream_reserve(stream, chunk, 0, err) : MX_OK;
    for (; left > 0 && status == MX_OK; left -= chunk, at += chunk) {
        chunk = left < chunk ? left : chunk;
        status = st_reader_read(route->reader, route->tensor, at, stream->host_plain, (size_t)chunk,
                                err);
        if (status == MX_OK)
            status = st_writer_write(route->writer, route->index, at, stream->host_plain,
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
