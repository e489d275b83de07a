/* The columns of a pair (mxrt_ocp_columns): checks, and their part of a problem. */
#include "runtime/problem.h"

#include <inttypes.h>

#include <mxgen/error.h>

/* One tensor after its own checks. */
typedef struct part {
    const char *name;
    int64_t shape[2], strides[2]; /* of a vector: the second ones */
    int64_t element_bytes;
    mxrt_buffer buffer;
} part;

int64_t mxrt_ocp_columns_capacity(int64_t rows, int64_t groups, int group_align)
{
    int64_t least;

    if (rows < 0 || groups < 0 || group_align <= 0 || group_align % MX_OCP_BLOCK)
        return -1;
    groups += !groups;
    if (__builtin_mul_overflow(groups, group_align - 1, &least) ||
        __builtin_add_overflow(least, rows, &least))
        return -1;
    /* What all groups but empty ones may need at most is a multiple of the alignment. */
    return least / group_align * group_align;
}

static mx_status check_tensor(const part *p, const DLTensor *tensor, DLDevice device, int ndim,
                              mx_error *err)
{
    int is_bytes = p->element_bytes == 1;

    if (!tensor)
        return mx_fail(err, MX_ERR_INVALID, "%s is NULL", p->name);
    if (tensor->device.device_type != device.device_type ||
        tensor->device.device_id != device.device_id)
        return mx_fail(err, MX_ERR_INVALID,
                       "%s is on DLPack device type %d, id %d, but the device wants type %d, id "
                       "%d; copy the tensor there",
                       p->name, (int)tensor->device.device_type, tensor->device.device_id,
                       (int)device.device_type, device.device_id);
    if (tensor->dtype.code != (is_bytes ? kDLUInt : kDLInt) ||
        tensor->dtype.bits != 8 * p->element_bytes || tensor->dtype.lanes != 1)
        return mx_fail(err, MX_ERR_INVALID, "%s has DLPack type code %d, %d bits; %s is wanted",
                       p->name, tensor->dtype.code, tensor->dtype.bits, is_bytes ? "u8" : "int64");
    if (tensor->ndim != ndim || !tensor->shape)
        return mx_fail(err, MX_ERR_INVALID, "%s has %d dimensions, not %d", p->name, tensor->ndim,
                       ndim);
    return MX_OK;
}

/* Address and extent; strides are not negative and, with the sizes, within 64 bits. */
static mx_status find_memory(part *p, const DLTensor *tensor, int null_ok, mx_error *err)
{
    int64_t last = 0, reach, bytes;

    for (int i = 0; i < 2; i++) {
        if (p->shape[i] < 0 || p->strides[i] < 0 ||
            __builtin_mul_overflow(p->shape[i] - (p->shape[i] > 0), p->strides[i], &reach) ||
            __builtin_add_overflow(last, reach, &last))
            return mx_fail(err, MX_ERR_INVALID,
                           "%s: size %" PRId64 " and stride %" PRId64
                           " of a dimension are negative "
                           "or reach past 64 bits",
                           p->name, p->shape[i], p->strides[i]);
    }
    if (__builtin_add_overflow(last, 1, &last) ||
        __builtin_mul_overflow(last, p->element_bytes, &bytes))
        return mx_fail(err, MX_ERR_INVALID, "%s: the extent in bytes overflows 64 bits", p->name);
    p->buffer.extent_bytes = p->shape[0] && p->shape[1] ? bytes : 0;
    if (!tensor->data && (null_ok || !p->buffer.extent_bytes))
        return MX_OK;
    uintptr_t address = (uintptr_t)tensor->data + (uintptr_t)tensor->byte_offset;
    if (!tensor->data || address % (uintptr_t)p->element_bytes)
        return mx_fail(err, MX_ERR_INVALID,
                       "%s: address 0x%" PRIxPTR " is NULL or no multiple of %" PRId64
                       ", the size of its element",
                       p->name, address, p->element_bytes);
    p->buffer.data = (unsigned char *)address;
    return MX_OK;
}

/* u8 [rows, bytes] without overlap. */
static mx_status bytes_part(part *p, const char *name, const DLTensor *tensor, DLDevice device,
                            int null_ok, const int64_t shape[2], mx_error *err)
{
    mx_status status;

    *p = (part){.name = name, .shape = {shape[0], shape[1]}, .element_bytes = 1};
    if ((status = check_tensor(p, tensor, device, 2, err)))
        return status;
    if (tensor->shape[0] != shape[0] || tensor->shape[1] != shape[1])
        return mx_fail(err, MX_ERR_INVALID,
                       "%s has the shape [%" PRId64 ", %" PRId64 "]; these columns need [%" PRId64
                       ", %" PRId64 "]",
                       name, tensor->shape[0], tensor->shape[1], shape[0], shape[1]);
    p->strides[0] = tensor->strides ? tensor->strides[0] : shape[1];
    p->strides[1] = tensor->strides ? tensor->strides[1] : 1;
    if ((status = find_memory(p, tensor, null_ok, err)))
        return status;
    int rows_apart = p->strides[1] >= 1 && p->strides[0] > (shape[1] - 1) * p->strides[1];
    int blocks_apart = p->strides[0] >= 1 && p->strides[1] > (shape[0] - 1) * p->strides[0];
    if (shape[0] > 1 && shape[1] > 1 && !rows_apart && !blocks_apart)
        return mx_fail(err, MX_ERR_INVALID,
                       "%s: strides %" PRId64 " and %" PRId64 " make elements overlap", name,
                       p->strides[0], p->strides[1]);
    return MX_OK;
}

/* int64 [groups + 1]. */
static mx_status offsets_part(part *p, const char *name, const DLTensor *tensor, DLDevice device,
                              int null_ok, mx_error *err)
{
    mx_status status;

    *p = (part){.name = name, .element_bytes = 8};
    if ((status = check_tensor(p, tensor, device, 1, err)))
        return status;
    p->shape[0] = 1;
    p->shape[1] = tensor->shape[0];
    p->strides[1] = 1;
    if (p->shape[1] < 2 || (tensor->strides && tensor->strides[0] != 1))
        return mx_fail(err, MX_ERR_INVALID,
                       "%s has %" PRId64 " elements and stride %" PRId64
                       "; one more than there are groups, 1 at least, must lie side by side",
                       name, p->shape[1], tensor->strides ? tensor->strides[0] : 1);
    return find_memory(p, tensor, null_ok, err);
}

/* The first tensor tells the capacity. */
static mx_status find_capacity(const mxrt_problem *problem, const mxrt_ocp_columns *columns,
                               int64_t groups, int64_t *out, mx_error *err)
{
    int64_t block_bytes = mx_format_get(problem->format)->block_bytes, n;
    int64_t least = mxrt_ocp_columns_capacity(problem->rows, groups, columns->group_align);

    if (!columns->data || columns->data->ndim != 2 || !columns->data->shape ||
        (n = columns->data->shape[1] / block_bytes) < 0 ||
        __builtin_mul_overflow(n, MX_OCP_BLOCK, out))
        *out = -1;
    if (least < 0 || *out < least || *out % columns->group_align)
        return mx_fail(err, MX_ERR_INVALID,
                       "columns' data has room for %" PRId64 " rows; %" PRId64
                       " (mxrt_ocp_columns_capacity) or more are needed, a multiple of "
                       "group_align, %d",
                       *out, least, columns->group_align);
    return MX_OK;
}

static mx_status check_kind(const mxrt_problem *problem, const mxrt_ocp_columns *columns,
                            mx_error *err)
{
    if (problem->op != MX_OP_TO || !mx_format_is_ocp(problem->format) || problem->options.two_d)
        return mx_fail(err, MX_ERR_INVALID,
                       "columns are for quantising to OCP formats without 2-D scales");
    if (columns->group_align <= 0 || columns->group_align % MX_OCP_BLOCK)
        return mx_fail(err, MX_ERR_INVALID, "group_align %d is no multiple of %d, such as 128",
                       columns->group_align, MX_OCP_BLOCK);
    if (!columns->offsets != !columns->padded_offsets)
        return mx_fail(
            err, MX_ERR_INVALID, "columns have %s; give both, or neither for one group of all rows",
            columns->offsets ? "offsets and no padded_offsets" : "padded_offsets and no offsets");
    return MX_OK;
}

mx_status mxrt_problem_init_pair(mxrt_problem *problem, const mxrt_ocp_columns *columns,
                                 DLDevice device, int null_ok, mx_error *err)
{
    int64_t groups = 0, capacity, block_bytes = mx_format_get(problem->format)->block_bytes;
    part data, scales, offsets = {0}, padded = {0};
    mx_status status;

    if ((status = check_kind(problem, columns, err)))
        return status;
    if (columns->offsets) {
        if ((status = offsets_part(&offsets, "offsets", columns->offsets, device, null_ok, err)) ||
            (status = offsets_part(&padded, "padded_offsets", columns->padded_offsets, device,
                                   null_ok, err)))
            return status;
        groups = offsets.shape[1] - 1;
        if (padded.shape[1] != offsets.shape[1])
            return mx_fail(err, MX_ERR_INVALID,
                           "padded_offsets has %" PRId64 " elements, offsets %" PRId64
                           "; they must be equal",
                           padded.shape[1], offsets.shape[1]);
    }
    if ((status = find_capacity(problem, columns, groups, &capacity, err)))
        return status;
    const int64_t blocks = capacity / MX_OCP_BLOCK;
    const int64_t data_shape[2] = {problem->len, blocks * block_bytes};
    const int64_t scales_shape[2] = {problem->len, blocks};
    if ((status =
             bytes_part(&data, "columns' data", columns->data, device, null_ok, data_shape, err)) ||
        (status = bytes_part(&scales, "columns' scales", columns->scales, device, null_ok,
                             scales_shape, err)))
        return status;
    if (data.strides[1] != 1)
        return mx_fail(err, MX_ERR_INVALID,
                       "columns' data: bytes of a column lie %" PRId64 " apart, not side by side",
                       data.strides[1]);
    problem->pair = (mxrt_pair){.groups = groups,
                                .group_align = columns->group_align,
                                .capacity = capacity,
                                .row_stride = data.strides[0],
                                .s_row_stride = scales.strides[0],
                                .s_block_stride = scales.strides[1],
                                .hadamard = columns->hadamard != 0};
    problem->buffers[MXRT_BUFFER_C] = data.buffer;
    problem->buffers[MXRT_BUFFER_T] = scales.buffer;
    problem->buffers[MXRT_BUFFER_G] = offsets.buffer;
    problem->buffers[MXRT_BUFFER_O] = padded.buffer;
    return MX_OK;
}

static int overlap(const mxrt_buffer *a, const mxrt_buffer *b)
{
    uintptr_t a_begin = (uintptr_t)a->data, b_begin = (uintptr_t)b->data;

    return a_begin && b_begin && a_begin + (uintptr_t)a->extent_bytes > b_begin &&
           b_begin + (uintptr_t)b->extent_bytes > a_begin;
}

mx_status mxrt_problem_check_pair(const mxrt_problem *problem, mx_error *err)
{
    static const int outputs[] = {MXRT_BUFFER_C, MXRT_BUFFER_T, MXRT_BUFFER_O};

    for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++) {
        for (int other = 0; other < MXRT_BUFFER_COUNT; other++) {
            const mxrt_buffer *mine = &problem->buffers[outputs[i]];
            if (other != outputs[i] && overlap(mine, &problem->buffers[other]))
                return mx_fail(err, MX_ERR_INVALID,
                               "the memory of the columns, 0x%" PRIxPTR " + %" PRId64
                               " bytes, overlaps that of another tensor; give them memory of "
                               "their own",
                               (uintptr_t)mine->data, mine->extent_bytes);
        }
    }
    return MX_OK;
}
