#include "runtime/problem.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include <mxgen/error.h>

#define MAX_ALIGN 4096

/* One tensor after its own checks, with explicit strides. */
typedef struct view {
    const char *name;
    uintptr_t address;
    int ndim;
    int64_t shape[MXRT_MAX_DIMS], strides[MXRT_MAX_DIMS]; /* in elements */
    int64_t element_bytes, extent_bytes;
} view;

/* What a tensor must fulfil. */
typedef struct view_rules {
    const char *name;
    DLDevice device;
    int null_ok;
    int is_input;
    int is_packed;
} view_rules;

static int64_t gcd64(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* ---- Shapes ---- */

static mx_status normalise_axis(int axis, int ndim, int *out, mx_error *err)
{
    if (axis < -ndim || axis >= ndim)
        return mx_fail(err, MX_ERR_INVALID,
                       "axis %d is outside %d..%d, the axes of a tensor of %d dimensions", axis,
                       -ndim, ndim - 1, ndim);
    *out = axis < 0 ? axis + ndim : axis;
    return MX_OK;
}

static mx_status check_format(mx_format format, mx_error *err)
{
    if (!mx_format_get(format))
        return mx_fail(err, MX_ERR_INVALID, "format %d is unknown; formats are 0 (mx9) to %d (%s)",
                       (int)format, MX_FORMAT_COUNT - 1,
                       mx_format_get((mx_format)(MX_FORMAT_COUNT - 1))->name);
    return MX_OK;
}

static mx_status check_ndim(const char *name, int ndim, mx_error *err)
{
    if (ndim < 1 || ndim > MXRT_MAX_DIMS)
        return mx_fail(err, MX_ERR_INVALID,
                       "%s has %d dimensions, 1 to %d are allowed; give a scalar the shape [1]",
                       name, ndim, MXRT_MAX_DIMS);
    return MX_OK;
}

/* Sizes are not negative and their product, zeros counted as ones, fits: what is computed from them
 * later cannot overflow before it is multiplied by a stride or a size in bytes. */
static mx_status check_sizes(const char *name, int ndim, const int64_t *shape, mx_error *err)
{
    int64_t product = 1;

    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return mx_fail(err, MX_ERR_INVALID, "%s: size %" PRId64 " of dimension %d is negative",
                           name, shape[i], i);
        if (shape[i] && __builtin_mul_overflow(product, shape[i], &product))
            return mx_fail(err, MX_ERR_INVALID,
                           "%s: the product of the sizes overflows 64 bits at dimension %d (size "
                           "%" PRId64 ")",
                           name, i, shape[i]);
    }
    return MX_OK;
}

typedef struct block_shape {
    int64_t rows, len, bpr, n_blocks;
} block_shape;

static mx_status count_blocks(const char *name, mx_format format, int ndim, const int64_t *shape,
                              int axis, block_shape *out, mx_error *err)
{
    block_shape result = {.rows = 1, .len = shape[axis]};
    int64_t bytes;

    if (!result.len)
        return mx_fail(err, MX_ERR_INVALID,
                       "%s: dimension %d, the axis, has size 0; blocks need at least one element",
                       name, axis);
    for (int i = 0; i < ndim; i++) {
        if (i != axis)
            result.rows *= shape[i];
    }
    int64_t n = mx_format_get(format)->block_elements;
    result.bpr = result.len / n + (result.len % n != 0);
    if (__builtin_mul_overflow(result.rows, result.bpr, &result.n_blocks) ||
        __builtin_mul_overflow(result.n_blocks, mx_format_get(format)->block_bytes + 1, &bytes))
        return mx_fail(err, MX_ERR_INVALID,
                       "%s: %" PRId64 " rows of %" PRId64
                       " blocks overflow 64 bits in packed bytes",
                       name, result.rows, result.bpr);
    *out = result;
    return MX_OK;
}

mx_status mxrt_packed_shape(mx_format format, int ndim, const int64_t *shape, int axis,
                            int64_t *n_blocks, int64_t *block_bytes, mx_error *err)
{
    block_shape blocks;
    mx_status status;

    if (!shape || !n_blocks || !block_bytes)
        return mx_fail(err, MX_ERR_INVALID, "shape, n_blocks and block_bytes must not be NULL");
    if ((status = check_format(format, err)) || (status = check_ndim("the tensor", ndim, err)) ||
        (status = check_sizes("the tensor", ndim, shape, err)) ||
        (status = normalise_axis(axis, ndim, &axis, err)) ||
        (status = count_blocks("the tensor", format, ndim, shape, axis, &blocks, err)))
        return status;
    *n_blocks = blocks.n_blocks;
    *block_bytes = mx_format_get(format)->block_bytes;
    return MX_OK;
}

/* Rows that 32 x 32 tiles are counted in: the dimension before the last of the swapped shape. */
static int64_t tile_rows(int ndim, const int64_t *shape, int axis)
{
    if (ndim < 2)
        return 1;
    return shape[axis == ndim - 2 ? ndim - 1 : ndim - 2];
}

/* Cannot overflow: there are as many rows of scales as rows at most. */
static void scales_shape_of(const block_shape *blocks, int64_t tile_m, int two_d, int64_t out[2])
{
    int64_t tiles = tile_m / MX_OCP_BLOCK + (tile_m % MX_OCP_BLOCK != 0);

    out[0] = !two_d ? blocks->rows : tile_m ? blocks->rows / tile_m * tiles : 0;
    out[1] = blocks->bpr;
}

static mx_status check_ocp_format(mx_format format, mx_error *err)
{
    mx_status status = check_format(format, err);

    if (!status && !mx_format_is_ocp(format))
        return mx_fail(err, MX_ERR_INVALID,
                       "format %s has no scales of its own; mxrt_convert_to, mxrt_convert_from and "
                       "mxrt_quantize_dequantize are for it",
                       mx_format_get(format)->name);
    return status;
}

mx_status mxrt_ocp_shape(mx_format format, const mx_ocp_options *options, int ndim,
                         const int64_t *shape, int axis, int64_t data_shape[2],
                         int64_t scales_shape[2], mx_error *err)
{
    int64_t n_blocks, block_bytes;
    block_shape blocks;
    mx_status status;

    if (!data_shape || !scales_shape)
        return mx_fail(err, MX_ERR_INVALID, "data_shape and scales_shape must not be NULL");
    if ((status = check_ocp_format(format, err)) ||
        (status = mxrt_packed_shape(format, ndim, shape, axis, &n_blocks, &block_bytes, err)) ||
        (status = normalise_axis(axis, ndim, &axis, err)) ||
        (status = count_blocks("the tensor", format, ndim, shape, axis, &blocks, err)))
        return status;
    data_shape[0] = n_blocks;
    data_shape[1] = block_bytes;
    scales_shape_of(&blocks, tile_rows(ndim, shape, axis), options && options->two_d, scales_shape);
    return MX_OK;
}

/* ---- One tensor ---- */

static mx_status plain_dtype(const DLTensor *tensor, const char *name, mx_dtype *out, mx_error *err)
{
    DLDataType type = tensor->dtype;

    if (type.lanes == 1 && type.code == kDLFloat && type.bits == 32)
        *out = MX_DTYPE_F32;
    else if (type.lanes == 1 && type.code == kDLFloat && type.bits == 16)
        *out = MX_DTYPE_F16;
    else if (type.lanes == 1 && type.code == kDLBfloat && type.bits == 16)
        *out = MX_DTYPE_BF16;
    else
        return mx_fail(err, MX_ERR_INVALID,
                       "%s has DLPack type code %d, %d bits, %d lanes; f32, bf16 and f16 with one "
                       "lane are supported",
                       name, type.code, type.bits, type.lanes);
    return MX_OK;
}

static mx_status check_packed_dtype(const DLTensor *tensor, const char *name, mx_error *err)
{
    DLDataType type = tensor->dtype;

    if (type.code != kDLUInt || type.bits != 8 || type.lanes != 1)
        return mx_fail(err, MX_ERR_INVALID,
                       "%s has DLPack type code %d, %d bits, %d lanes; packed blocks are u8 "
                       "(code 1, 8 bits, one lane)",
                       name, type.code, type.bits, type.lanes);
    return MX_OK;
}

static mx_status view_strides(view *v, const DLTensor *tensor, mx_error *err)
{
    int64_t stride = 1;

    for (int i = v->ndim - 1; i >= 0; i--) {
        v->strides[i] = tensor->strides ? tensor->strides[i] : stride;
        /* Cannot overflow: check_sizes multiplied the same numbers. */
        stride *= v->shape[i] ? v->shape[i] : 1;
        if (v->strides[i] < 0)
            return mx_fail(err, MX_ERR_INVALID,
                           "%s: stride %" PRId64 " of dimension %d is negative; copy the tensor "
                           "to memory in ascending order",
                           v->name, v->strides[i], i);
    }
    return MX_OK;
}

static mx_status view_extent(view *v, mx_error *err)
{
    int64_t last = 0;

    v->extent_bytes = 0;
    for (int i = 0; i < v->ndim; i++) {
        if (!v->shape[i])
            return MX_OK;
    }
    for (int i = 0; i < v->ndim; i++) {
        int64_t reach;
        if (__builtin_mul_overflow(v->shape[i] - 1, v->strides[i], &reach) ||
            __builtin_add_overflow(last, reach, &last))
            return mx_fail(err, MX_ERR_INVALID,
                           "%s: size %" PRId64 " and stride %" PRId64
                           " of dimension %d reach past 64 bits",
                           v->name, v->shape[i], v->strides[i], i);
    }
    if (__builtin_add_overflow(last, 1, &last) ||
        __builtin_mul_overflow(last, v->element_bytes, &v->extent_bytes))
        return mx_fail(err, MX_ERR_INVALID, "%s: the extent in bytes overflows 64 bits", v->name);
    return MX_OK;
}

/* Strides and sizes of dimensions that can make elements coincide, in ascending stride. */
typedef struct overlap_set {
    int n;
    int64_t size[MXRT_MAX_DIMS], stride[MXRT_MAX_DIMS];
} overlap_set;

static void overlap_insert(overlap_set *set, int64_t size, int64_t stride)
{
    int at = set->n++;

    for (; at > 0 && set->stride[at - 1] > stride; at--) {
        set->size[at] = set->size[at - 1];
        set->stride[at] = set->stride[at - 1];
    }
    set->size[at] = size;
    set->stride[at] = stride;
}

/* Nonzero if two elements may coincide. Exact unless three or more dimensions interleave, which is
 * then taken as an overlap. */
static int overlap_found(const overlap_set *set)
{
    int begin = 0, end = set->n;
    int64_t reach = 0;

    for (int i = 0; i < end; i++)
        reach += (set->size[i] - 1) * set->stride[i];
    /* A stride beyond what all smaller ones reach together cannot collide with them. */
    while (end > 0) {
        reach -= (set->size[end - 1] - 1) * set->stride[end - 1];
        if (set->stride[end - 1] <= reach)
            break;
        end--;
    }
    /* Nor can a smallest one that stays below the grid which all others lie on. */
    while (end - begin > 2) {
        int64_t grid = 0;
        for (int i = begin + 1; i < end; i++)
            grid = gcd64(set->stride[i], grid);
        if ((set->size[begin] - 1) * set->stride[begin] >= grid)
            return 1;
        begin++;
    }
    if (end - begin < 2)
        return 0;
    int64_t common = gcd64(set->stride[begin], set->stride[begin + 1]);
    return set->stride[begin + 1] / common < set->size[begin] &&
           set->stride[begin] / common < set->size[begin + 1];
}

static mx_status view_overlap(const view *v, int is_input, mx_error *err)
{
    overlap_set set; /* not cleared: see view_init */

    set.n = 0;
    if (!v->extent_bytes)
        return MX_OK;
    for (int i = 0; i < v->ndim; i++) {
        if (v->shape[i] == 1 || (!v->strides[i] && is_input))
            continue;
        if (!v->strides[i])
            return mx_fail(err, MX_ERR_INVALID,
                           "%s: stride 0 of dimension %d (size %" PRId64
                           ") makes elements overlap; only inputs may be broadcast",
                           v->name, i, v->shape[i]);
        overlap_insert(&set, v->shape[i], v->strides[i]);
    }
    if (overlap_found(&set))
        return mx_fail(err, MX_ERR_INVALID,
                       "%s: its strides make elements overlap, or interleave three dimensions so "
                       "that this cannot be ruled out; copy the tensor to contiguous memory",
                       v->name);
    return MX_OK;
}

static mx_status check_address(const char *name, uintptr_t address, int64_t element_bytes,
                               int64_t extent_bytes, mx_error *err)
{
    /* Sizes of elements are powers of two. */
    if (address & (uintptr_t)(element_bytes - 1))
        return mx_fail(err, MX_ERR_INVALID,
                       "%s: address 0x%" PRIxPTR " is not a multiple of %" PRId64
                       ", the size of its element",
                       name, address, element_bytes);
    if ((uint64_t)extent_bytes > UINTPTR_MAX - address)
        return mx_fail(err, MX_ERR_INVALID,
                       "%s: %" PRId64 " bytes from address 0x%" PRIxPTR
                       " reach past the end of the address space",
                       name, extent_bytes, address);
    return MX_OK;
}

static mx_status view_address(view *v, const DLTensor *tensor, int null_ok, mx_error *err)
{
    v->address = 0;
    if (!v->extent_bytes)
        return MX_OK;
    if (!tensor->data) {
        if (null_ok)
            return MX_OK;
        return mx_fail(err, MX_ERR_INVALID, "%s: data is NULL", v->name);
    }
    if (tensor->byte_offset > UINTPTR_MAX - (uintptr_t)tensor->data)
        return mx_fail(err, MX_ERR_INVALID,
                       "%s: byte_offset %" PRIu64 " reaches past the end of the address space",
                       v->name, tensor->byte_offset);
    v->address = (uintptr_t)tensor->data + (uintptr_t)tensor->byte_offset;
    return check_address(v->name, v->address, v->element_bytes, v->extent_bytes, err);
}

/* In place, as clearing and copying arrays for the most dimensions would take longer than all the
 * checks; on failure `v` is of no use. */
static mx_status view_init(view *v, const DLTensor *tensor, const view_rules *rules,
                           mx_dtype *dtype, mx_error *err)
{
    mx_status status;

    v->name = rules->name;
    v->element_bytes = 1;
    if (!tensor)
        return mx_fail(err, MX_ERR_INVALID, "%s is NULL", v->name);
    if (tensor->device.device_type != rules->device.device_type ||
        tensor->device.device_id != rules->device.device_id)
        return mx_fail(err, MX_ERR_INVALID,
                       "%s is on DLPack device type %d, id %d, but the device wants type %d, id "
                       "%d; copy the tensor there",
                       v->name, (int)tensor->device.device_type, tensor->device.device_id,
                       (int)rules->device.device_type, rules->device.device_id);
    if ((status = check_ndim(v->name, tensor->ndim, err)))
        return status;
    if (!tensor->shape)
        return mx_fail(err, MX_ERR_INVALID, "%s: shape is NULL", v->name);
    if (rules->is_packed) {
        status = check_packed_dtype(tensor, v->name, err);
    } else if (!(status = plain_dtype(tensor, v->name, dtype, err))) {
        v->element_bytes = mx_dtype_get(*dtype)->bytes;
    }
    if (status || (status = check_sizes(v->name, tensor->ndim, tensor->shape, err)))
        return status;
    v->ndim = tensor->ndim;
    for (int i = 0; i < v->ndim; i++)
        v->shape[i] = tensor->shape[i];
    if ((status = view_strides(v, tensor, err)) || (status = view_extent(v, err)) ||
        (status = view_overlap(v, rules->is_input, err)))
        return status;
    return view_address(v, tensor, rules->null_ok, err);
}

/* ---- Tensors together ---- */

static mx_status check_packed_shape(const view *packed, const block_shape *blocks, mx_format format,
                                    mx_error *err)
{
    int64_t block_bytes = mx_format_get(format)->block_bytes;

    if (packed->ndim != 2)
        return mx_fail(err, MX_ERR_INVALID,
                       "packed has %d dimensions; it must have the shape [%" PRId64 ", %" PRId64
                       "]",
                       packed->ndim, blocks->n_blocks, block_bytes);
    if (packed->shape[0] != blocks->n_blocks || packed->shape[1] != block_bytes)
        return mx_fail(err, MX_ERR_INVALID,
                       "packed has the shape [%" PRId64 ", %" PRId64
                       "]; %s of this tensor along this axis needs [%" PRId64 ", %" PRId64 "]",
                       packed->shape[0], packed->shape[1], mx_format_get(format)->name,
                       blocks->n_blocks, block_bytes);
    return MX_OK;
}

static mx_status check_scales_shape(const view *scales, const int64_t shape[2], mx_error *err)
{
    if (scales->ndim != 2 || scales->shape[0] != shape[0] || scales->shape[1] != shape[1])
        return mx_fail(err, MX_ERR_INVALID,
                       "scales has %d dimensions and the shape [%" PRId64 ", %" PRId64
                       "]; this tensor along this axis needs [%" PRId64 ", %" PRId64 "]",
                       scales->ndim, scales->shape[0], scales->ndim > 1 ? scales->shape[1] : 1,
                       shape[0], shape[1]);
    return MX_OK;
}

static mx_status check_same_shape(const view *x, const view *y, mx_error *err)
{
    if (x->ndim != y->ndim)
        return mx_fail(err, MX_ERR_INVALID, "x has %d dimensions, y has %d; they must be equal",
                       x->ndim, y->ndim);
    for (int i = 0; i < x->ndim; i++) {
        if (x->shape[i] != y->shape[i])
            return mx_fail(err, MX_ERR_INVALID,
                           "dimension %d is %" PRId64 " in x and %" PRId64
                           " in y; they must be equal",
                           i, x->shape[i], y->shape[i]);
    }
    return MX_OK;
}

static int same_strides(const mxrt_problem *problem)
{
    if (problem->x_axis_stride != problem->y_axis_stride)
        return 0;
    for (int i = 0; i < problem->n_dims; i++) {
        if (problem->dims[i].x_stride != problem->dims[i].y_stride)
            return 0;
    }
    return 1;
}

static int buffers_overlap(const mxrt_buffer *a, const mxrt_buffer *b)
{
    uintptr_t a_begin = (uintptr_t)a->data, b_begin = (uintptr_t)b->data;

    return a_begin && b_begin && a_begin + (uintptr_t)a->extent_bytes > b_begin &&
           b_begin + (uintptr_t)b->extent_bytes > a_begin;
}

static mx_status check_alias(const mxrt_problem *problem, mx_error *err)
{
    const mxrt_buffer *in = &problem->buffers[mxrt_op_input(problem->op)];
    const mxrt_buffer *out = &problem->buffers[mxrt_op_output(problem->op)];
    const mxrt_buffer *scales = &problem->buffers[MXRT_BUFFER_S];

    if (buffers_overlap(in, out) && !(problem->op == MX_OP_QDQ && in->data == out->data &&
                                      same_strides(problem) && !problem->options.two_d))
        return mx_fail(
            err, MX_ERR_INVALID,
            "the memory of the input, 0x%" PRIxPTR " + %" PRId64
            " bytes, overlaps that of the output, 0x%" PRIxPTR " + %" PRId64
            "; only quantise-dequantise without 2-D scales may work in place, with equal "
            "address and strides",
            (uintptr_t)in->data, in->extent_bytes, (uintptr_t)out->data, out->extent_bytes);
    /* Two inputs may share memory. */
    if (buffers_overlap(scales, out) || (problem->op == MX_OP_TO && buffers_overlap(scales, in)))
        return mx_fail(err, MX_ERR_INVALID,
                       "the memory of the scales, 0x%" PRIxPTR " + %" PRId64
                       " bytes, overlaps that of another tensor; give them memory of their own",
                       (uintptr_t)scales->data, scales->extent_bytes);
    return mxrt_problem_is_pair(problem) ? mxrt_problem_check_pair(problem, err) : MX_OK;
}

/* ---- Canonical rows ---- */

/* A dimension `outer` continues `inner` if a step of it is as far as all steps of `inner`, in rows
 * (always, for neighbours in row order) and in both tensors. */
static int dim_continues(const mxrt_dim *outer, const mxrt_dim *inner)
{
    int64_t x, y;

    return !__builtin_mul_overflow(inner->x_stride, inner->size, &x) && x == outer->x_stride &&
           !__builtin_mul_overflow(inner->y_stride, inner->size, &y) && y == outer->y_stride;
}

/* Order of pack.h: unit stride first, then ascending memory order. For an operation with two plain
 * tensors the input counts first. */
static int dim_before(const mxrt_dim *a, const mxrt_dim *b, int by_x)
{
    int64_t a_first = by_x ? a->x_stride : a->y_stride;
    int64_t b_first = by_x ? b->x_stride : b->y_stride;

    if ((a_first == 1) != (b_first == 1))
        return a_first == 1;
    if (a_first != b_first)
        return a_first < b_first;
    if (a->y_stride != b->y_stride)
        return a->y_stride < b->y_stride;
    return a->row_stride < b->row_stride;
}

static void sort_dims(mxrt_problem *problem)
{
    int by_x = problem->op != MX_OP_FROM;

    for (int i = 1; i < problem->n_dims; i++) {
        mxrt_dim dim = problem->dims[i];
        int at = i;
        for (; at > 0 && dim_before(&dim, &problem->dims[at - 1], by_x); at--)
            problem->dims[at] = problem->dims[at - 1];
        problem->dims[at] = dim;
    }
}

/* Swaps the axis with the last dimension, then merges what can be merged from the inside out. */
static void collect_dims(mxrt_problem *problem, const view *plain, const view *x, const view *y,
                         int axis)
{
    int last = plain->ndim - 1;
    int64_t row_stride = 1;

    problem->n_dims = 0;
    for (int i = last - 1; i >= 0 && problem->rows > 0; i--) {
        int from = i == axis ? last : i;
        mxrt_dim dim = {
            .size = plain->shape[from],
            .row_stride = row_stride,
            .x_stride = x ? x->strides[from] : 0,
            .y_stride = y ? y->strides[from] : 0,
        };
        if (dim.size == 1)
            continue;
        row_stride *= dim.size;
        mxrt_dim *inner = problem->n_dims ? &problem->dims[problem->n_dims - 1] : NULL;
        if (inner && dim_continues(&dim, inner))
            inner->size *= dim.size;
        else
            problem->dims[problem->n_dims++] = dim;
    }
    sort_dims(problem);
}

static void set_buffer(mxrt_problem *problem, int buffer, const view *v)
{
    /* The cast is from an address that came as a pointer; the view holds it as a number so that
     * the checks can compute with it. */
    problem->buffers[buffer].data = (unsigned char *)v->address;
    problem->buffers[buffer].extent_bytes = v->extent_bytes;
}

static void canonicalise(mxrt_problem *problem, const view *in, const view *out, const view *s,
                         int axis)
{
    const view *x = problem->op == MX_OP_FROM ? NULL : in;
    const view *y = problem->op == MX_OP_TO ? NULL : out;
    const view *p = problem->op == MX_OP_TO ? out : problem->op == MX_OP_FROM ? in : NULL;
    int one = problem->len == 1;

    if (x) {
        problem->x_axis_stride = one ? 1 : x->strides[axis];
        set_buffer(problem, MXRT_BUFFER_X, x);
    }
    if (y) {
        problem->y_axis_stride = one ? 1 : y->strides[axis];
        set_buffer(problem, MXRT_BUFFER_Y, y);
    }
    if (p) {
        problem->p_byte_stride = p->strides[1];
        /* The only block has no neighbour: any stride will do, so take the one kernels like. */
        problem->p_block_stride = problem->n_blocks == 1 && p->strides[1] == 1
                                      ? mx_format_get(problem->format)->block_bytes
                                      : p->strides[0];
        set_buffer(problem, MXRT_BUFFER_P, p);
    }
    if (s) {
        problem->s_row_stride = s->strides[0];
        problem->s_block_stride = s->strides[1];
        set_buffer(problem, MXRT_BUFFER_S, s);
    }
    collect_dims(problem, x ? x : y, x, y, axis);
}

static mx_status check_options(const mxrt_plan_request *request, mx_error *err)
{
    const mx_ocp_options *options = request->options;
    const char *format = mx_format_get(request->format)->name;

    if (!mx_format_is_ocp(request->format)) {
        if (request->scales || options)
            return mx_fail(err, MX_ERR_INVALID,
                           "format %s takes neither scales nor options; they must be NULL", format);
        return MX_OK;
    }
    if (request->profile != MX_PROFILE_PACKED)
        return mx_fail(
            err, MX_ERR_INVALID,
            "profile %s is not for %s, whose options choose instead; give profile packed",
            mx_profile_name(request->profile), format);
    if (!request->scales != (request->op == MX_OP_QDQ))
        return mx_fail(err, MX_ERR_INVALID, "%s of %s %s", mx_op_name(request->op), format,
                       request->scales ? "has no scales; they must be NULL"
                                       : "needs a tensor of scales, it is NULL");
    if (options && ((unsigned)options->scale_rule >= MX_SCALE_RULE_COUNT ||
                    (unsigned)options->rounding >= MX_ROUNDING_COUNT ||
                    !(options->min_amax >= 0 && options->min_amax < 1e38f) ||
                    options->zero_byte == 255 || options->min_byte == 255))
        return mx_fail(
            err, MX_ERR_INVALID,
            "options of %s: scale rule %d (0 to %d), rounding %d (0 to %d), min_amax %g (0 "
            "to 1e38), zero byte %d, min byte %d (0 to 254): one is out of its range",
            format, (int)options->scale_rule, MX_SCALE_RULE_COUNT - 1, (int)options->rounding,
            MX_ROUNDING_COUNT - 1, (double)options->min_amax, options->zero_byte,
            options->min_byte);
    return MX_OK;
}

static mx_status check_choices(const mxrt_plan_request *request, mx_error *err)
{
    mx_status status;

    if ((unsigned)request->op >= MX_OP_COUNT)
        return mx_fail(err, MX_ERR_INVALID, "operation %d is unknown; 0 (to) to 2 (qdq) exist",
                       (int)request->op);
    if ((status = check_format(request->format, err)))
        return status;
    if ((unsigned)request->profile >= MX_PROFILE_COUNT)
        return mx_fail(err, MX_ERR_INVALID,
                       "profile %d is unknown; 0 (packed) and 1 (demoted-255) exist",
                       (int)request->profile);
    if (request->profile != MX_PROFILE_PACKED && request->op != MX_OP_QDQ)
        return mx_fail(err, MX_ERR_INVALID,
                       "profile %s is for qdq only; operation %s has the profile packed",
                       mx_profile_name(request->profile), mx_op_name(request->op));
    return check_options(request, err);
}

/* The scales of a request that has them. */
static mx_status scales_view(const mxrt_plan_request *request, const view_rules *data_rules,
                             const block_shape *blocks, int64_t tile_m, int two_d, view *out,
                             mx_error *err)
{
    view_rules rules = *data_rules;
    int64_t shape[2];
    mx_status status;

    rules.name = "scales";
    rules.is_packed = 1;
    rules.is_input = request->op == MX_OP_FROM;
    scales_shape_of(blocks, tile_m, two_d, shape);
    if ((status = view_init(out, request->scales, &rules, NULL, err)))
        return status;
    return check_scales_shape(out, shape, err);
}

mx_status mxrt_problem_init(mxrt_problem *out, const mxrt_plan_request *request, DLDevice device,
                            int null_ok, mx_error *err)
{
    mx_op op = request->op;
    mx_dtype in_dtype = MX_DTYPE_COUNT, out_dtype = MX_DTYPE_COUNT;
    mx_status status;
    block_shape blocks;
    view in, result, scales;
    int axis = 0;

    if ((status = check_choices(request, err)))
        return status;
    view_rules in_rules = {op == MX_OP_FROM ? "packed" : "x", device, null_ok, 1, op == MX_OP_FROM};
    view_rules out_rules = {op == MX_OP_TO ? "packed" : "y", device, null_ok, 0, op == MX_OP_TO};
    if ((status = view_init(&in, request->in, &in_rules, &in_dtype, err)) ||
        (status = view_init(&result, request->out, &out_rules, &out_dtype, err)))
        return status;
    const view *plain = op == MX_OP_FROM ? &result : &in;
    if (op == MX_OP_QDQ) {
        if (in_dtype != out_dtype)
            return mx_fail(err, MX_ERR_INVALID, "x is %s and y is %s; they must be equal",
                           mx_dtype_get(in_dtype)->name, mx_dtype_get(out_dtype)->name);
        if ((status = check_same_shape(&in, &result, err)))
            return status;
    }
    if ((status = normalise_axis(request->axis, plain->ndim, &axis, err)) ||
        (status = count_blocks(plain->name, request->format, plain->ndim, plain->shape, axis,
                               &blocks, err)))
        return status;
    if (op != MX_OP_QDQ && (status = check_packed_shape(op == MX_OP_TO ? &result : &in, &blocks,
                                                        request->format, err)))
        return status;

    mx_ocp_options options = request->options ? *request->options : mx_ocp_preset(MX_OCP_ALTO);
    int64_t tile_m = tile_rows(plain->ndim, plain->shape, axis);
    if (request->scales &&
        (status = scales_view(request, &in_rules, &blocks, tile_m, options.two_d, &scales, err)))
        return status;

    mxrt_problem problem;
    memset(&problem, 0, offsetof(mxrt_problem, dims));
    if (mx_format_is_ocp(request->format)) {
        problem.options = options;
        problem.tile_m = options.two_d ? tile_m : 1;
    }
    problem.op = op;
    problem.format = request->format;
    problem.dtype = op == MX_OP_FROM ? out_dtype : in_dtype;
    problem.profile = request->profile;
    problem.n_blocks = blocks.n_blocks;
    problem.rows = blocks.rows;
    problem.len = blocks.len;
    problem.bpr = blocks.bpr;
    canonicalise(&problem, &in, &result, request->scales ? &scales : NULL, axis);
    if (request->columns &&
        (status = mxrt_problem_init_pair(&problem, request->columns, device, null_ok, err)))
        return status;
    if (request->turned &&
        (status = mxrt_problem_init_turned(&problem, request, device, null_ok, err)))
        return status;
    if ((status = check_alias(&problem, err)))
        return status;
    mxrt_problem_copy(out, &problem);
    return MX_OK;
}

static int64_t buffer_element_bytes(const mxrt_problem *problem, int buffer)
{
    return buffer == MXRT_BUFFER_P || buffer == MXRT_BUFFER_S ? 1
                                                              : mx_dtype_get(problem->dtype)->bytes;
}

mx_status mxrt_problem_rebind(mxrt_problem *problem, const void *in_data, void *out_data,
                              void *scales_data, mx_error *err)
{
    static const char *const names[MXRT_BUFFER_COUNT] = {"x", "y", "packed", "scales"};
    int in = mxrt_op_input(problem->op), out = mxrt_op_output(problem->op);
    const void *data[MXRT_BUFFER_COUNT] = {NULL};
    mxrt_buffer old[MXRT_BUFFER_COUNT];
    mx_status status = MX_OK;

    memcpy(old, problem->buffers, sizeof(old));
    data[in] = in_data;
    data[out] = out_data;
    data[MXRT_BUFFER_S] = scales_data;
    for (int i = 0; i < MXRT_BUFFER_COUNT && !status; i++) {
        if (!data[i])
            continue;
        status = check_address(names[i], (uintptr_t)data[i], buffer_element_bytes(problem, i),
                               old[i].extent_bytes, err);
        problem->buffers[i].data = (unsigned char *)(uintptr_t)data[i];
    }
    if (status || (status = check_alias(problem, err)))
        memcpy(problem->buffers, old, sizeof(old));
    return status;
}

/* ---- Variables ---- */

static int64_t address_align(const mxrt_buffer *buffer)
{
    uintptr_t address = (uintptr_t)buffer->data | MAX_ALIGN;

    return (int64_t)(address & -address);
}

/* Zeros for formats that are no OCP formats. */
static void option_vars(const mx_ocp_options *options, int64_t *values)
{
    float positive = options->min_amax + 0.0f; /* -0 is no limit either */
    /* A seed that nobody uses must not tell problems apart. */
    uint64_t seed = options->rounding == MX_ROUND_STOCHASTIC ? options->seed : 0;
    uint32_t min_amax;

    memcpy(&min_amax, &positive, sizeof(min_amax));
    values[MXRT_VAR_SCALE_RULE] = (int64_t)options->scale_rule;
    values[MXRT_VAR_ROUNDING] = (int64_t)options->rounding;
    values[MXRT_VAR_SEED_LOW] = (int64_t)(seed & 0xffffffffu);
    values[MXRT_VAR_SEED_HIGH] = (int64_t)(seed >> 32);
    values[MXRT_VAR_ZERO_BYTE] = options->zero_byte;
    values[MXRT_VAR_MIN_BYTE] = options->min_byte;
    values[MXRT_VAR_MIN_AMAX] = min_amax;
    values[MXRT_VAR_PLUS_ZERO] = options->plus_zero != 0;
    values[MXRT_VAR_NAN_SCALE] = options->nan_scale != 0;
    values[MXRT_VAR_OVERFLOW] = options->overflow != 0;
    values[MXRT_VAR_TWO_D] = options->two_d != 0;
    values[MXRT_VAR_HADAMARD] = options->hadamard != 0;
}

static void pair_vars(const mxrt_problem *problem, int64_t *values)
{
    const mxrt_pair *pair = &problem->pair;

    values[MXRT_VAR_GROUPS] = pair->groups;
    values[MXRT_VAR_GROUP_ALIGN] = pair->group_align;
    values[MXRT_VAR_CAPACITY] = pair->capacity;
    values[MXRT_VAR_C_ALIGN] =
        mxrt_problem_is_pair(problem) ? address_align(&problem->buffers[MXRT_BUFFER_C]) : 0;
    values[MXRT_VAR_C_ROW_STRIDE] = pair->row_stride;
    values[MXRT_VAR_T_ROW_STRIDE] = pair->s_row_stride;
    values[MXRT_VAR_T_BLOCK_STRIDE] = pair->s_block_stride;
    values[MXRT_VAR_C_HADAMARD] = pair->hadamard;
}

void mxrt_problem_vars(const mxrt_problem *problem, int64_t values[MXRT_VAR_COUNT])
{
    mx_op op = problem->op;

    values[MXRT_VAR_N_BLOCKS] = problem->n_blocks;
    values[MXRT_VAR_ROWS] = problem->rows;
    values[MXRT_VAR_LEN] = problem->len;
    values[MXRT_VAR_BPR] = problem->bpr;
    values[MXRT_VAR_X_ALIGN] =
        op == MX_OP_FROM ? 0 : address_align(&problem->buffers[MXRT_BUFFER_X]);
    values[MXRT_VAR_Y_ALIGN] = op == MX_OP_TO ? 0 : address_align(&problem->buffers[MXRT_BUFFER_Y]);
    values[MXRT_VAR_P_ALIGN] =
        op == MX_OP_QDQ ? 0 : address_align(&problem->buffers[MXRT_BUFFER_P]);
    values[MXRT_VAR_X_AXIS_STRIDE] = problem->x_axis_stride;
    values[MXRT_VAR_Y_AXIS_STRIDE] = problem->y_axis_stride;
    values[MXRT_VAR_P_BLOCK_STRIDE] = problem->p_block_stride;
    values[MXRT_VAR_P_BYTE_STRIDE] = problem->p_byte_stride;
    values[MXRT_VAR_S_ALIGN] =
        mxrt_problem_has_scales(problem) ? address_align(&problem->buffers[MXRT_BUFFER_S]) : 0;
    values[MXRT_VAR_S_ROW_STRIDE] = problem->s_row_stride;
    values[MXRT_VAR_S_BLOCK_STRIDE] = problem->s_block_stride;
    values[MXRT_VAR_TILE_M] = problem->tile_m;
    option_vars(&problem->options, values);
    pair_vars(problem, values);
    values[MXRT_VAR_N_DIMS] = problem->n_dims;
    for (int i = 0; i < MXPACK_MAX_ROW_DIMS; i++) {
        static const mxrt_dim unused = {.size = 1, .row_stride = 1};
        const mxrt_dim *dim = i < problem->n_dims ? &problem->dims[i] : &unused;
        values[MXRT_VAR_DIM(i, MXRT_DIM_SIZE)] = dim->size;
        values[MXRT_VAR_DIM(i, MXRT_DIM_ROW_STRIDE)] = dim->row_stride;
        values[MXRT_VAR_DIM(i, MXRT_DIM_X_STRIDE)] = dim->x_stride;
        values[MXRT_VAR_DIM(i, MXRT_DIM_Y_STRIDE)] = dim->y_stride;
    }
}

int64_t mxrt_problem_bytes(const mxrt_problem *problem)
{
    int64_t element_bytes = mx_dtype_get(problem->dtype)->bytes;
    int64_t plain = mxrt_problem_is_turned(problem) ? 0 : problem->rows * problem->len;
    int64_t total;

    /* A broadcast input can count for more than memory holds: saturate. */
    if (__builtin_mul_overflow(plain, 2 * element_bytes, &total))
        return INT64_MAX;
    if (problem->op == MX_OP_QDQ)
        return total;
    total /= 2;
    int64_t block_bytes = mx_format_get(problem->format)->block_bytes;
    /* Scales of tiles are too few to count. */
    block_bytes += mxrt_problem_has_scales(problem) && !problem->options.two_d;
    if (mxrt_problem_is_pair(problem)) {
        int64_t column_bytes = problem->pair.capacity / MX_OCP_BLOCK * block_bytes;
        int64_t columns =
            problem->len * (problem->op == MX_OP_FROM ? problem->rows / problem->tile_m : 1);
        if (__builtin_mul_overflow(column_bytes, columns, &column_bytes) ||
            __builtin_add_overflow(total, column_bytes, &total))
            return INT64_MAX;
    }
    return __builtin_add_overflow(total, problem->n_blocks * block_bytes, &total) ? INT64_MAX
                                                                                  : total;
}
