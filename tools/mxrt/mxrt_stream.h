/* Moves tensors from a reader to a writer, through the device or as they are, within a memory
 * budget. */
#ifndef MXRT_STREAM_H
#define MXRT_STREAM_H

#include "mxrt_meta.h"
#include "mxrt_slab.h"
#include "mxrt_tool.h"

/* A buffer that grows to the largest box: in the host's memory, and on the device where that is
 * another one. */
typedef struct stream_buffer {
    void *host, *device;
    int64_t capacity;
} stream_buffer;

typedef struct tool_stream {
    tool_engine *engine;
    tool_progress *progress;
    int64_t budget_bytes;
    stream_buffer plain, packed, scales;
} tool_stream;

typedef struct stream_counts {
    int64_t nan, inf;
} stream_counts;

void stream_init(tool_stream *stream, tool_engine *engine, tool_progress *progress,
                 int64_t budget_bytes);
void stream_finish(tool_stream *stream); /* takes a zeroed one, too */
int stream_is_host(const tool_stream *stream);

/* Where a tensor comes from and goes to. */
typedef struct stream_route {
    const st_reader *reader;
    const st_tensor *tensor;
    const st_tensor *scales; /* where the input has scales apart */
    st_writer *writer;
    size_t index, scales_index;
} stream_route;

mx_status stream_copy(tool_stream *stream, const stream_route *route, mx_error *err);
mx_status stream_quantize(tool_stream *stream, const stream_route *route, const meta_packed *packed,
                          stream_counts *counts, mx_error *err);
mx_status stream_dequantize(tool_stream *stream, const stream_route *route,
                            const meta_packed *packed, mx_error *err);
/* Both in one, element type and shape kept. */
mx_status stream_qdq(tool_stream *stream, const stream_route *route, const meta_packed *packed,
                     stream_counts *counts, mx_error *err);

/* ---- The steps, for other walks over boxes ---- */

/* How a tensor is cut into boxes. With scales of tiles, and with stochastic rounding (whose bits
 * depend on the position in the whole), the only box is the whole tensor. */
typedef struct stream_walk {
    const meta_packed *packed;
    slab_view view;
    slab_box first;
    int is_whole;
    int64_t whole_scale_bytes; /* of tiles */
} stream_walk;

void stream_walk_view(const meta_packed *packed, slab_view *view);
/* An error where the only box is above the budget; `name` is for the message. */
mx_status stream_walk_init(stream_walk *walk, const tool_stream *stream, const char *name, mx_op op,
                           const meta_packed *packed, mx_error *err);
int64_t stream_scale_bytes(const stream_walk *walk, const slab_box *box);

mx_status stream_reserve(tool_stream *stream, int64_t plain_bytes, int64_t packed_bytes,
                         int64_t scale_bytes, mx_error *err);
/* One box from the file into the host's buffers. */
mx_status stream_read_plain(const tool_stream *stream, const stream_route *route,
                            const slab_view *view, const slab_box *box, mx_error *err);
/* One box of a packed tensor, restored in plain.host. */
mx_status stream_read_packed(tool_stream *stream, const stream_route *route,
                             const stream_walk *walk, const slab_box *box, mx_error *err);

/* DLPack tensors of a box in the device's buffers, and the axis in them. */
typedef struct stream_tensors {
    DLTensor plain, packed, scales;
    int64_t plain_shape[SLAB_DIMS], packed_shape[2], scales_shape[2];
    int axis;
} stream_tensors;
void stream_box_tensors(const tool_stream *stream, const stream_walk *walk, const slab_box *box,
                        void *plain, stream_tensors *out);
/* The operation on them; qdq goes from `plain` to `out`, NULL otherwise. */
mx_status stream_call(const tool_stream *stream, mx_op op, const meta_packed *packed,
                      const stream_tensors *tensors, const DLTensor *out, mxrt_stream queue,
                      mx_error *err);

/* Counts of NaN and Inf among n elements. */
void stream_count(mx_dtype dtype, const void *data, int64_t n, stream_counts *counts);

#endif
