/* Packed blocks quantised again along another axis in one kernel (mxrt_ocp_turned): a `from` whose
 * columns are written and whose y is not. */
#include "runtime/problem.h"

#include <mxgen/error.h>

/* How far steps along each dimension go in the rows of blocks along `axis`, which is swapped with
 * the last; 0 for the axis itself. */
static void row_strides(int ndim, const int64_t *shape, int axis, int64_t strides[MXRT_MAX_DIMS])
{
    int64_t stride = 1;

    for (int place = ndim - 2; place >= 0; place--) {
        int dim = place == axis ? ndim - 1 : place;
        strides[dim] = stride;
        stride *= shape[dim];
    }
    strides[axis] = 0;
}

static int normalised(int axis, int ndim)
{
    return axis < 0 ? axis + ndim : axis;
}

/* All dimensions but the two axes, in the order of rows; in steps of the rows read and written. */
static void collect_matrices(mxrt_problem *problem, const DLTensor *y, const int axes[2],
                             int64_t strides[2][MXRT_MAX_DIMS])
{
    int64_t count = 1;

    problem->n_dims = 0;
    for (int dim = y->ndim - 1; dim >= 0; dim--) {
        mxrt_dim *last = problem->n_dims ? &problem->dims[problem->n_dims - 1] : NULL;
        int64_t size = y->shape[dim], in = strides[0][dim], out = strides[1][dim];
        if (dim == axes[0] || dim == axes[1] || size == 1)
            continue;
        if (last && in == last->size * last->x_stride && out == last->size * last->y_stride)
            last->size *= size;
        else
            problem->dims[problem->n_dims++] = (mxrt_dim){size, count, in, out};
        count *= size;
    }
}

mx_status mxrt_problem_init_turned(mxrt_problem *problem, const mxrt_plan_request *request,
                                   DLDevice device, int null_ok, mx_error *err)
{
    const mxrt_ocp_turned *turned = request->turned;
    const DLTensor *y = request->out;
    const mxrt_plan_request again = {.op = MX_OP_TO,
                                     .format = request->format,
                                     .axis = turned->axis,
                                     .in = y,
                                     .out = turned->data,
                                     .scales = turned->scales,
                                     .options = request->options};
    int64_t strides[2][MXRT_MAX_DIMS];
    mxrt_problem to;
    mx_status status;

    if (problem->op != MX_OP_FROM || !mx_format_is_ocp(problem->format))
        return mx_fail(err, MX_ERR_INVALID, "blocks of OCP formats are turned, by `from`");
    if ((status = mxrt_problem_init(&to, &again, device, null_ok, err)))
        return status;
    const int axes[2] = {normalised(request->axis, y->ndim), normalised(turned->axis, y->ndim)};
    int64_t block_bytes = mx_format_get(problem->format)->block_bytes;
    if (axes[0] == axes[1] || problem->options.two_d || !problem->n_blocks || !to.n_blocks ||
        to.p_byte_stride != 1 || to.p_block_stride != block_bytes)
        return mx_fail(err, MX_ERR_UNSUPPORTED,
                       "to turn blocks in one kernel takes two axes, scales of single blocks and "
                       "data without gaps; mxrt_ocp_requantize turns others in two");
    row_strides(y->ndim, y->shape, axes[0], strides[0]);
    row_strides(y->ndim, y->shape, axes[1], strides[1]);
    problem->tile_m = to.len;
    problem->x_axis_stride = strides[0][axes[1]];
    problem->y_axis_stride = strides[1][axes[0]];
    collect_matrices(problem, y, axes, strides);
    problem->pair = (mxrt_pair){.group_align = MX_OCP_BLOCK,
                                .capacity = to.bpr * MX_OCP_BLOCK,
                                .row_stride = to.bpr * block_bytes,
                                .s_row_stride = to.s_row_stride,
                                .s_block_stride = to.s_block_stride};
    problem->buffers[MXRT_BUFFER_C] = to.buffers[MXRT_BUFFER_P];
    problem->buffers[MXRT_BUFFER_T] = to.buffers[MXRT_BUFFER_S];
    return MX_OK;
}
