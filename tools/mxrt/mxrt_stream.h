/* Moves tensors from a reader to a writer, through the device or as they are, within a memory
 * budget. */
#ifndef MXRT_STREAM_H
#define MXRT_STREAM_H

#include "mxrt_meta.h"
#include "mxrt_slab.h"
#include "mxrt_tool.h"

typedef struct tool_stream {
    tool_engine *engine;
    tool_progress *progress;
    int64_t budget_bytes;
    /* Buffers that grow to the largest box: in the host's memory, and on the device where that is
     * another one. */
    void *host_plain, *host_packed, *device_plain, *device_packed;
    int64_t plain_capacity, packed_capacity;
} tool_stream;

typedef struct stream_counts {
    int64_t nan, inf;
} stream_counts;

void stream_init(tool_stream *stream, tool_engine *engine, tool_progress *progress,
                 int64_t budget_bytes);
void stream_finish(tool_stream *stream);

/* Where a tensor comes from and goes to. */
typedef struct stream_route {
    const st_reader *reader;
    const st_tensor *tensor;
    st_writer *writer;
    size_t index;
} stream_route;

mx_status stream_copy(tool_stream *stream, const stream_route *route, mx_error *err);
mx_status stream_quantize(tool_stream *stream, const stream_route *route, const meta_packed *packed,
                          stream_counts *counts, mx_error *err);
mx_status stream_dequantize(tool_stream *stream, const stream_route *route,
                            const meta_packed *packed, mx_error *err);

/* ---- The steps, for other walks over boxes ---- */

mx_status stream_reserve(tool_stream *stream, int64_t plain_bytes, int64_t packed_bytes,
                         mx_error *err);
mx_status stream_read_plain(const tool_stream *stream, const stream_route *route,
                            const slab_view *view, const slab_box *box, mx_error *err);
/* DLPack tensors of a box in the device's buffers. */
typedef struct stream_tensors {
    DLTensor plain, packed;
    int64_t plain_shape[SLAB_DIMS], packed_shape[2];
} stream_tensors;
void stream_box_tensors(const tool_stream *stream, const slab_view *view, const slab_box *box,
                        mx_dtype dtype, void *plain, void *packed, stream_tensors *out);
int stream_is_host(const tool_stream *stream);

/* Counts of NaN and Inf among n elements. */
void stream_count(mx_dtype dtype, const void *data, int64_t n, stream_counts *counts);

#endif
