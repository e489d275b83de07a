#include "runtime/gemm_problem.h"

#include <inttypes.h>
#include <string.h>

#include <mxgen/error.h>

#define MAX_ALIGN 4096
#define MAX_NDIM 3

/* ---- One tensor ---- */

typedef enum tensor_type { TYPE_U8, TYPE_BF16, TYPE_PLAIN, TYPE_I64, TYPE_I32 } tensor_type;

/* What a tensor must be. */
typedef struct tensor_want {
    const char *name;
    int ndim;
    tensor_type type;
    DLDevice device;
    int null_ok;
    int is_output; /* groups do not overlap */
} tensor_want;

/* What it is: strides in elements, those of dimensions of size 1 or less as if it were packed. */
typedef struct tensor_view {
    const char *name;
    int ndim;
    int64_t shape[MAX_NDIM], strides[MAX_NDIM];
    mx_dtype dtype; /* TYPE_PLAIN */
    int64_t element_bytes, extent_bytes;
    unsigned char *data;
} tensor_view;

static mx_status fail_type(const DLTensor *tensor, const tensor_want *want, const char *wanted,
                           mx_error *err)
{
    return mx_fail(err, MX_ERR_INVALID,
                   "%s has DLPack type code %d, %d bits, %d lanes; it must be %s", want->name,
                   tensor->dtype.code, tensor->dtype.bits, tensor->dtype.lanes, wanted);
}

static mx_status check_type(const DLTensor *tensor, const tensor_want *want, tensor_view *out,
                            mx_error *err)
{
    static const struct {
        int code, bits;
        const char *wanted;
    } exact[] = {
        [TYPE_U8] = {kDLUInt, 8, "u8 (code 1, 8 bits)"},
        [TYPE_BF16] = {kDLBfloat, 16, "bf16 (code 4, 16 bits)"},
        [TYPE_I64] = {kDLInt, 64, "int64 (code 0, 64 bits)"},
        [TYPE_I32] = {kDLInt, 32, "int32 (code 0, 32 bits)"},
    };
    DLDataType type = tensor->dtype;

    out->element_bytes = type.bits / 8;
    if (want->type != TYPE_PLAIN) {
        if (type.lanes != 1 || type.code != exact[want->type].code ||
            type.bits != exact[want->type].bits)
            return fail_type(tensor, want, exact[want->type].wanted, err);
        return MX_OK;
    }
    if (type.lanes == 1 && type.code == kDLFloat && type.bits == 32)
        out->dtype = MX_DTYPE_F32;
    else if (type.lanes == 1 && type.code == kDLFloat && type.bits == 16)
        out->dtype = MX_DTYPE_F16;
    else if (type.lanes == 1 && type.code == kDLBfloat && type.bits == 16)
        out->dtype = MX_DTYPE_BF16;
    else
        return fail_type(tensor, want, "f32, bf16 or f16", err);
    return MX_OK;
}

/* Sizes whose product, zeros counted as ones, fits, and is well below what strides and bytes add.
 */
static mx_status check_shape(const DLTensor *tensor, const tensor_want *want, tensor_view *out,
                             mx_error *err)
{
    int64_t product = out->element_bytes;

    if (tensor->ndim != want->ndim)
        return mx_fail(err, MX_ERR_INVALID, "%s has %d dimensions; it must have %d", want->name,
                       tensor->ndim, want->ndim);
    if (!tensor->shape)
        return mx_fail(err, MX_ERR_INVALID, "%s: shape is NULL", want->name);
    out->ndim = want->ndim;
    for (int i = 0; i < want->ndim; i++) {
        int64_t size = out->shape[i] = tensor->shape[i];
        if (size < 0)
            return mx_fail(err, MX_ERR_INVALID, "%s: size %" PRId64 " of dimension %d is negative",
                           want->name, size, i);
        if (size && __builtin_mul_overflow(product, size, &product))
            return mx_fail(err, MX_ERR_INVALID, "%s: its bytes overflow 64 bits", want->name);
    }
    return MX_OK;
}

/* Elements of a row are neighbours, rows do not overlap. */
static mx_status check_strides(const DLTensor *tensor, const tensor_want *want, tensor_view *out,
                               mx_error *err)
{
    int64_t packed = 1;
    int is_empty = 0;

    for (int i = 0; i < want->ndim; i++)
        is_empty |= !out->shape[i];
    for (int i = want->ndim - 1; i >= 0; i--) {
        int64_t stride = tensor->strides && out->shape[i] > 1 ? tensor->strides[i] : packed;
        int from_end = want->ndim - 1 - i;
        if (from_end == 0 && stride != 1)
            return mx_fail(err, MX_ERR_INVALID,
                           "%s: stride %" PRId64 " of dimension %d; elements of a row must be "
                           "neighbours (stride 1)",
                           want->name, stride, i);
        if (stride < 0 || (stride < packed && !is_empty && (from_end == 1 || want->is_output)))
            return mx_fail(err, MX_ERR_INVALID,
                           "%s: stride %" PRId64 " of dimension %d makes rows overlap; %" PRId64
                           " is the least",
                           want->name, stride, i, packed);
        out->strides[i] = stride;
        if (__builtin_mul_overflow(stride > packed ? stride : packed,
                                   out->shape[i] ? out->shape[i] : 1, &packed))
            return mx_fail(err, MX_ERR_INVALID, "%s: stride %" PRId64 " reaches past 64 bits",
                           want->name, stride);
    }
    return MX_OK;
}

static mx_status check_extent(tensor_view *out, mx_error *err)
{
    int64_t last = 0, reach;

    out->extent_bytes = 0;
    for (int i = 0; i < out->ndim; i++) {
        if (!out->shape[i])
            return MX_OK;
    }
    for (int i = 0; i < out->ndim; i++) {
        if (__builtin_mul_overflow(out->shape[i] - 1, out->strides[i], &reach) ||
            __builtin_add_overflow(last, reach, &last))
            return mx_fail(err, MX_ERR_INVALID, "%s: its strides reach past 64 bits", out->name);
    }
    if (__builtin_add_overflow(last, 1, &last) ||
        __builtin_mul_overflow(last, out->element_bytes, &out->extent_bytes))
        return mx_fail(err, MX_ERR_INVALID, "%s: its extent in bytes overflows 64 bits", out->name);
    return MX_OK;
}

static mx_status check_address(const char *name, uintptr_t address, int64_t align,
                               int64_t extent_bytes, mx_error *err)
{
    if (address & (uintptr_t)(align - 1))
        return mx_fail(err, MX_ERR_INVALID,
                       "%s: address 0x%" PRIxPTR " is not a multiple of %" PRId64, name, address,
                       align);
    if ((uint64_t)extent_bytes > UINTPTR_MAX - address)
        return mx_fail(err, MX_ERR_INVALID,
                       "%s: %" PRId64 " bytes from address 0x%" PRIxPTR
                       " reach past the end of the address space",
                       name, extent_bytes, address);
    return MX_OK;
}

static mx_status take_address(const DLTensor *tensor, int null_ok, tensor_view *out, mx_error *err)
{
    out->data = NULL;
    if (!tensor->data) {
        if (null_ok || !out->extent_bytes)
            return MX_OK;
        return mx_fail(err, MX_ERR_INVALID, "%s: data is NULL", out->name);
    }
    if (tensor->byte_offset > UINTPTR_MAX - (uintptr_t)tensor->data)
        return mx_fail(err, MX_ERR_INVALID,
                       "%s: byte_offset %" PRIu64 " reaches past the end of the address space",
                       out->name, (uint64_t)tensor->byte_offset);
    out->data = (unsigned char *)tensor->data + tensor->byte_offset;
    return check_address(out->name, (uintptr_t)out->data, out->element_bytes, out->extent_bytes,
                         err);
}

static mx_status view_init(const DLTensor *tensor, const tensor_want *want, tensor_view *out,
                           mx_error *err)
{
    mx_status status;

    out->name = want->name;
    if (!tensor)
        return mx_fail(err, MX_ERR_INVALID, "%s is NULL", want->name);
    if (tensor->device.device_type != want->device.device_type ||
        tensor->device.device_id != want->device.device_id)
        return mx_fail(err, MX_ERR_INVALID,
                       "%s is on DLPack device type %d, id %d; it must be on type %d, id %d: copy "
                       "it there",
                       want->name, (int)tensor->device.device_type, tensor->device.device_id,
                       (int)want->device.device_type, want->device.device_id);
    if ((status = check_type(tensor, want, out, err)) ||
        (status = check_shape(tensor, want, out, err)) ||
        (status = check_strides(tensor, want, out, err)) || (status = check_extent(out, err)))
        return status;
    return take_address(tensor, want->null_ok, out, err);
}

/* ---- Shapes ---- */

typedef struct shape_text {
    char chars[80];
} shape_text;

static shape_text show_shape(int ndim, const int64_t *shape)
{
    shape_text text = {""};
    size_t used = 0;

    for (int i = 0; i < ndim; i++)
        used += (size_t)snprintf(text.chars + used, sizeof(text.chars) - used, "%s%" PRId64,
                                 i ? ", " : "[", shape[i]);
    snprintf(text.chars + used, sizeof(text.chars) - used, "]");
    return text;
}

/* With `at_least`, sizes may be larger. */
static mx_status want_shape(const tensor_view *view, const int64_t *shape, int at_least,
                            mx_error *err)
{
    for (int i = 0; i < view->ndim; i++) {
        if (at_least ? view->shape[i] < shape[i] : view->shape[i] != shape[i])
            return mx_fail(err, MX_ERR_INVALID, "%s has the shape %s; it must have %s%s",
                           view->name, show_shape(view->ndim, view->shape).chars,
                           at_least ? "at least " : "", show_shape(view->ndim, shape).chars);
    }
    return MX_OK;
}

/* All tensors of a request. */
typedef struct tensor_set {
    const mxrt_gemm_request *request;
    DLDevice device;
    int null_ok;
    tensor_view left, right, left_scales, right_scales, out, read, write, status;
} tensor_set;

static mx_status check_request(const mxrt_gemm_request *request, mx_error *err)
{
    if (!request)
        return mx_fail(err, MX_ERR_INVALID, "request must not be NULL");
    if ((unsigned)request->pass >= MX_GEMM_PASS_COUNT ||
        (unsigned)request->left_element >= MX_GEMM_ELEMENT_COUNT ||
        (unsigned)request->right_element >= MX_GEMM_ELEMENT_COUNT ||
        (unsigned)request->mode >= MX_GEMM_MODE_COUNT)
        return mx_fail(err, MX_ERR_INVALID,
                       "pass %d, elements %d and %d, mode %d: at least one is unknown",
                       (int)request->pass, (int)request->left_element, (int)request->right_element,
                       (int)request->mode);
    if ((unsigned)request->policy > MXRT_POLICY_MEASURE)
        return mx_fail(err, MX_ERR_INVALID, "policy %d is unknown", (int)request->policy);
    if (request->policy == MXRT_POLICY_MEASURE && !(request->budget_us >= 1))
        return mx_fail(
            err, MX_ERR_INVALID,
            "a budget of %g us: to measure takes 1 at least, and some 10000 for a result",
            request->budget_us);
    if (request->num_cu < 0)
        return mx_fail(err, MX_ERR_INVALID, "num_cu %d is negative; 0 stands for all",
                       request->num_cu);
    if (request->pass == MX_GEMM_COLS && request->write_offsets)
        return mx_fail(err, MX_ERR_INVALID,
                       "write_offsets must be NULL in gemm_cols: groups are ranges of the "
                       "contraction");
    if (!request->left_scales != (request->left_element == MX_GEMM_BF16) ||
        !request->right_scales != (request->right_element == MX_GEMM_BF16))
        return mx_fail(err, MX_ERR_INVALID,
                       "left %s scales, right %s: scales must be NULL for bf16 and must not for "
                       "the others",
                       request->left_scales ? "has" : "lacks",
                       request->right_scales ? "has" : "lacks");
    return MX_OK;
}

static mx_status view_operands(tensor_set *set, mx_error *err)
{
    const mxrt_gemm_request *request = set->request;
    int right_ndim = request->pass == MX_GEMM_ROWS ? 3 : 2;
    tensor_want want = {.device = set->device, .null_ok = set->null_ok, .ndim = 2};
    mx_status status;

    want.name = "left";
    want.type = request->left_element == MX_GEMM_BF16 ? TYPE_BF16 : TYPE_U8;
    if ((status = view_init(request->left, &want, &set->left, err)))
        return status;
    want.name = "left_scales";
    want.type = TYPE_U8;
    if (request->left_scales &&
        (status = view_init(request->left_scales, &want, &set->left_scales, err)))
        return status;
    want.name = "right_scales";
    want.ndim = right_ndim;
    if (request->right_scales &&
        (status = view_init(request->right_scales, &want, &set->right_scales, err)))
        return status;
    want.name = "right";
    want.type = request->right_element == MX_GEMM_BF16 ? TYPE_BF16 : TYPE_U8;
    return view_init(request->right, &want, &set->right, err);
}

static mx_status view_others(tensor_set *set, mx_error *err)
{
    const mxrt_gemm_request *request = set->request;
    tensor_want want = {.device = set->device, .null_ok = set->null_ok};
    mx_status status;

    want.name = "out";
    want.ndim = request->pass == MX_GEMM_ROWS ? 2 : 3;
    want.type = TYPE_PLAIN;
    want.is_output = 1;
    if ((status = view_init(request->out, &want, &set->out, err)))
        return status;
    want.name = "status";
    want.ndim = 1;
    want.type = TYPE_I32;
    if (request->status && (status = view_init(request->status, &want, &set->status, err)))
        return status;
    if (request->host_offsets)
        want.device = (DLDevice){kDLCPU, 0};
    /* Those on the host are read, even where there is no hardware. */
    want.null_ok = set->null_ok && !request->host_offsets;
    want.type = TYPE_I64;
    want.is_output = 0;
    want.name = "read_offsets";
    if ((status = view_init(request->read_offsets, &want, &set->read, err)))
        return status;
    want.name = "write_offsets";
    return request->write_offsets ? view_init(request->write_offsets, &want, &set->write, err)
                                  : MX_OK;
}

/* Elements along the contraction that a row has. */
static mx_status contraction_of(const tensor_view *view, mx_gemm_element element, int64_t *out,
                                mx_error *err)
{
    int64_t k = view->shape[view->ndim - 1];

    if (element == MX_GEMM_MXFP4 && __builtin_mul_overflow(k, 2, &k))
        return mx_fail(err, MX_ERR_INVALID, "%s: its elements overflow 64 bits", view->name);
    *out = k;
    return MX_OK;
}

static mx_status derive_shapes(const tensor_set *set, mxrt_gemm_problem *out, mx_error *err)
{
    const mxrt_gemm_request *request = set->request;
    int is_rows = request->pass == MX_GEMM_ROWS;
    int64_t left_k = 0, right_k = 0;
    mx_status status;

    if ((status = contraction_of(&set->left, request->left_element, &left_k, err)) ||
        (status = contraction_of(&set->right, request->right_element, &right_k, err)))
        return status;
    if (left_k % MX_OCP_BLOCK || (is_rows && !left_k))
        return mx_fail(err, MX_ERR_INVALID,
                       "left: a contraction of %" PRId64 " elements; it must be a multiple of %d%s",
                       left_k, MX_OCP_BLOCK, is_rows ? ", and not 0" : "");
    if (left_k != right_k)
        return mx_fail(err, MX_ERR_INVALID,
                       "left has %" PRId64 " elements along the contraction, right %" PRId64
                       "; they must agree",
                       left_k, right_k);
    if (!set->read.shape[0])
        return mx_fail(err, MX_ERR_INVALID,
                       "read_offsets has no element; with G groups it must have G + 1");
    out->groups = set->read.shape[0] - 1;
    if (is_rows) {
        const int64_t right[] = {out->groups, set->right.shape[1], set->right.shape[2]};
        out->m = set->left.shape[0];
        out->n = set->right.shape[1];
        out->k = left_k;
        out->out_rows = set->out.shape[0];
        const int64_t wanted[] = {out->out_rows, out->n};
        if ((status = want_shape(&set->right, right, 0, err)))
            return status;
        if (out->write_is_read && out->out_rows != out->m)
            return mx_fail(err, MX_ERR_INVALID,
                           "out has %" PRId64 " rows, left %" PRId64
                           "; without write_offsets they must agree",
                           out->out_rows, out->m);
        if (!out->write_is_read && (status = want_shape(&set->write, set->read.shape, 0, err)))
            return status;
        return want_shape(&set->out, wanted, 0, err);
    }
    out->m = left_k;
    out->n = set->left.shape[0];
    out->k = set->right.shape[0];
    out->out_rows = out->n;
    const int64_t wanted[] = {out->groups, out->n, out->k};
    return want_shape(&set->out, wanted, 0, err);
}

/* Scales of `groups` times `rows` rows, and where they lie. */
static mx_status derive_scales(const tensor_view *scales, int transposed, int64_t groups,
                               int64_t rows, int64_t contraction, mxrt_gemm_operand *out,
                               mx_error *err)
{
    int64_t blocks = contraction / MX_OCP_BLOCK;
    int64_t shape[] = {groups, transposed ? blocks : rows, transposed ? rows : blocks};
    int last = scales->ndim - 1;
    mx_status status = want_shape(scales, shape + (MAX_NDIM - scales->ndim), 1, err);

    if (status)
        return status;
    out->scale_row_stride = transposed ? 1 : scales->strides[last - 1];
    out->scale_block_stride = transposed ? scales->strides[last - 1] : 1;
    out->scale_group_stride = scales->ndim == MAX_NDIM ? scales->strides[0] : 0;
    return MX_OK;
}

static void derive_operand(const tensor_view *data, mx_gemm_element element, mxrt_gemm_operand *out)
{
    out->element = element;
    out->row_stride = data->strides[data->ndim - 2] * data->element_bytes;
    out->group_stride = data->ndim == MAX_NDIM ? data->strides[0] * data->element_bytes : 0;
}

static mx_status derive_operands(const tensor_set *set, mxrt_gemm_problem *out, mx_error *err)
{
    const mxrt_gemm_request *request = set->request;
    int is_rows = request->pass == MX_GEMM_ROWS;
    int64_t contraction = is_rows ? out->k : out->m;
    mx_status status;

    derive_operand(&set->left, request->left_element, &out->left);
    derive_operand(&set->right, request->right_element, &out->right);
    out->out_row_stride = set->out.strides[set->out.ndim - 2];
    out->out_group_stride = is_rows ? 0 : set->out.strides[0];
    if (request->left_scales &&
        (status = derive_scales(&set->left_scales, request->left_scales_transposed, 0,
                                is_rows ? out->m : out->n, contraction, &out->left, err)))
        return status;
    if (request->right_scales &&
        (status = derive_scales(&set->right_scales, request->right_scales_transposed, out->groups,
                                is_rows ? out->n : out->k, contraction, &out->right, err)))
        return status;
    if (request->status && set->status.shape[0] < 1)
        return mx_fail(err, MX_ERR_INVALID, "status has no element; it must have one");
    return MX_OK;
}

/* ---- Memory ---- */

static const char *const buffer_names[MXRT_GEMM_BUFFER_COUNT] = {
    "left",         "left_scales",   "right",  "right_scales", "out",
    "read_offsets", "write_offsets", "status", "workspace"};

static int overlap(const mxrt_buffer *a, const mxrt_buffer *b)
{
    uintptr_t first = (uintptr_t)a->data, second = (uintptr_t)b->data;

    return a->data && b->data && a->extent_bytes && b->extent_bytes &&
           first < second + (uintptr_t)b->extent_bytes &&
           second < first + (uintptr_t)a->extent_bytes;
}

/* What is written, with all else. */
static mx_status check_overlap(const mxrt_gemm_problem *problem, mx_error *err)
{
    static const mxrt_gemm_buffer written[] = {MXRT_GEMM_OUT, MXRT_GEMM_STATUS,
                                               MXRT_GEMM_WORKSPACE};

    for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++) {
        for (int k = 0; k < MXRT_GEMM_BUFFER_COUNT; k++) {
            if (k != (int)written[i] &&
                overlap(&problem->buffers[written[i]], &problem->buffers[k]))
                return mx_fail(err, MX_ERR_INVALID,
                               "the memory of %s overlaps that of %s; what is written must lie "
                               "apart",
                               buffer_names[written[i]], buffer_names[k]);
        }
    }
    return MX_OK;
}

static void set_buffer(mxrt_gemm_problem *out, mxrt_gemm_buffer buffer, const tensor_view *view)
{
    out->buffers[buffer] = (mxrt_buffer){view->data, view->extent_bytes};
}

static void set_buffers(const tensor_set *set, mxrt_gemm_problem *out)
{
    set_buffer(out, MXRT_GEMM_LEFT, &set->left);
    set_buffer(out, MXRT_GEMM_RIGHT, &set->right);
    set_buffer(out, MXRT_GEMM_OUT, &set->out);
    set_buffer(out, MXRT_GEMM_READ_OFFSETS, &set->read);
    set_buffer(out, MXRT_GEMM_WRITE_OFFSETS, out->write_is_read ? &set->read : &set->write);
    if (set->request->left_scales)
        set_buffer(out, MXRT_GEMM_LEFT_SCALES, &set->left_scales);
    if (set->request->right_scales)
        set_buffer(out, MXRT_GEMM_RIGHT_SCALES, &set->right_scales);
    if (set->request->status)
        set_buffer(out, MXRT_GEMM_STATUS, &set->status);
}

/* ---- Offsets on the host ---- */

static int64_t offset_at(const mxrt_gemm_problem *problem, mxrt_gemm_buffer buffer, int64_t i)
{
    int64_t value;

    memcpy(&value, problem->buffers[buffer].data + i * (int64_t)sizeof(value), sizeof(value));
    return value;
}

static mx_status check_bounds(const mxrt_gemm_problem *problem, mxrt_gemm_buffer buffer,
                              int64_t rows, mx_error *err)
{
    const char *name = buffer_names[buffer];
    int64_t last = problem->groups;

    if (offset_at(problem, buffer, 0))
        return mx_fail(err, MX_ERR_INVALID, "%s[0] is %" PRId64 "; offsets begin at 0", name,
                       offset_at(problem, buffer, 0));
    for (int64_t g = 0; g <= last; g++) {
        int64_t at = offset_at(problem, buffer, g);
        if (g && at < offset_at(problem, buffer, g - 1))
            return mx_fail(err, MX_ERR_INVALID,
                           "%s[%" PRId64 "] is %" PRId64 ", less than the one before, %" PRId64
                           ": group %" PRId64 " would have a negative size",
                           name, g, at, offset_at(problem, buffer, g - 1), g - 1);
        if (problem->pass == MX_GEMM_COLS && at % MX_OCP_BLOCK)
            return mx_fail(err, MX_ERR_INVALID, "%s[%" PRId64 "] is %" PRId64 ", no multiple of %d",
                           name, g, at, MX_OCP_BLOCK);
    }
    if (offset_at(problem, buffer, last) != rows)
        return mx_fail(err, MX_ERR_INVALID,
                       "%s[%" PRId64 "], the last, is %" PRId64
                       "; the groups must add up to %" PRId64 ", the %s",
                       name, last, offset_at(problem, buffer, last), rows,
                       problem->pass == MX_GEMM_COLS       ? "contraction"
                       : buffer == MXRT_GEMM_WRITE_OFFSETS ? "rows of out"
                                                           : "rows of left");
    return MX_OK;
}

mx_status mxrt_gemm_problem_check_offsets(const mxrt_gemm_problem *problem, mx_error *err)
{
    mx_status status;

    if (!problem->host_offsets)
        return MX_OK;
    status = check_bounds(problem, MXRT_GEMM_READ_OFFSETS, problem->m, err);
    if (status || problem->write_is_read)
        return status;
    if ((status = check_bounds(problem, MXRT_GEMM_WRITE_OFFSETS, problem->out_rows, err)))
        return status;
    for (int64_t g = 0; g < problem->groups; g++) {
        int64_t read = offset_at(problem, MXRT_GEMM_READ_OFFSETS, g + 1) -
                       offset_at(problem, MXRT_GEMM_READ_OFFSETS, g);
        int64_t write = offset_at(problem, MXRT_GEMM_WRITE_OFFSETS, g + 1) -
                        offset_at(problem, MXRT_GEMM_WRITE_OFFSETS, g);
        if (read < write)
            return mx_fail(err, MX_ERR_INVALID,
                           "group %" PRId64 " has %" PRId64 " rows to read and %" PRId64
                           " to write; it needs as many to read at least",
                           g, read, write);
    }
    return MX_OK;
}

/* ---- All together ---- */

mx_status mxrt_gemm_problem_init(mxrt_gemm_problem *out, const mxrt_gemm_request *request,
                                 DLDevice device, int null_ok, mx_error *err)
{
    tensor_set set = {.request = request, .device = device, .null_ok = null_ok};
    mx_status status = check_request(request, err);
    mxrt_gemm_problem problem;

    if (status)
        return status;
    memset(&problem, 0, sizeof(problem));
    problem.pass = request->pass;
    problem.mode = request->mode;
    problem.accumulate = request->accumulate != 0;
    problem.host_offsets = request->host_offsets != 0;
    problem.write_is_read = !request->write_offsets;
    problem.num_cu = request->num_cu;
    if ((status = view_operands(&set, err)) || (status = view_others(&set, err)) ||
        (status = derive_shapes(&set, &problem, err)) ||
        (status = derive_operands(&set, &problem, err)))
        return status;
    problem.dtype = set.out.dtype;
    if (problem.accumulate && problem.dtype == MX_DTYPE_F16)
        return mx_fail(err, MX_ERR_INVALID, "out is f16; f32 and bf16 can accumulate");
    set_buffers(&set, &problem);
    if ((status = check_overlap(&problem, err)) ||
        (status = mxrt_gemm_problem_check_offsets(&problem, err)))
        return status;
    *out = problem;
    return MX_OK;
}

mx_status mxrt_gemm_problem_rebind(mxrt_gemm_problem *problem, const mxrt_gemm_buffers *buffers,
                                   mx_error *err)
{
    const void *const given[MXRT_GEMM_BUFFER_COUNT] = {
        buffers->left,          buffers->left_scales, buffers->right,
        buffers->right_scales,  buffers->out,         buffers->read_offsets,
        buffers->write_offsets, buffers->status,      NULL};
    const int64_t plain_bytes = mx_dtype_get(problem->dtype)->bytes;
    const int64_t aligns[MXRT_GEMM_BUFFER_COUNT] = {problem->left.element == MX_GEMM_BF16 ? 2 : 1,
                                                    1,
                                                    problem->right.element == MX_GEMM_BF16 ? 2 : 1,
                                                    1,
                                                    plain_bytes,
                                                    8,
                                                    8,
                                                    4,
                                                    MXRT_GEMM_WORKSPACE_ALIGN};
    mx_status status;

    for (int i = 0; i < MXRT_GEMM_BUFFER_COUNT; i++) {
        mxrt_buffer *buffer = &problem->buffers[i];
        if (!given[i])
            continue;
        if ((i == MXRT_GEMM_LEFT_SCALES && problem->left.element == MX_GEMM_BF16) ||
            (i == MXRT_GEMM_RIGHT_SCALES && problem->right.element == MX_GEMM_BF16) ||
            (i == MXRT_GEMM_WRITE_OFFSETS && problem->write_is_read) ||
            (i == MXRT_GEMM_STATUS && !buffer->extent_bytes))
            return mx_fail(err, MX_ERR_INVALID, "%s is given, and the plan's request had none",
                           buffer_names[i]);
        if ((status = check_address(buffer_names[i], (uintptr_t)given[i], aligns[i],
                                    buffer->extent_bytes, err)))
            return status;
        buffer->data = (unsigned char *)(uintptr_t)given[i];
    }
    if (problem->write_is_read)
        problem->buffers[MXRT_GEMM_WRITE_OFFSETS] = problem->buffers[MXRT_GEMM_READ_OFFSETS];
    if ((status =
             check_address("workspace", (uintptr_t)buffers->workspace, aligns[MXRT_GEMM_WORKSPACE],
                           (int64_t)buffers->workspace_bytes, err)))
        return status;
    problem->buffers[MXRT_GEMM_WORKSPACE] =
        (mxrt_buffer){buffers->workspace, (int64_t)buffers->workspace_bytes};
    return check_overlap(problem, err);
}

/* ---- Variables ---- */

/* Memory that is not there is taken as aligned best. */
static int64_t align_of(const mxrt_gemm_problem *problem, mxrt_gemm_buffer buffer)
{
    uintptr_t address = (uintptr_t)problem->buffers[buffer].data;
    uintptr_t align = address & (0 - address);

    return !address || align > MAX_ALIGN ? MAX_ALIGN : (int64_t)align;
}

void mxrt_gemm_problem_vars(const mxrt_gemm_problem *problem, int compute_units,
                            int64_t values[MXRT_GEMM_VAR_COUNT])
{
    int64_t limit = problem->num_cu ? problem->num_cu : compute_units;

    values[MXRT_GEMM_VAR_M] = problem->m;
    values[MXRT_GEMM_VAR_OUT_ROWS] = problem->out_rows;
    values[MXRT_GEMM_VAR_N] = problem->n;
    values[MXRT_GEMM_VAR_K] = problem->k;
    values[MXRT_GEMM_VAR_GROUPS] = problem->groups;
    if (compute_units > 0 && limit > compute_units)
        limit = compute_units;
    values[MXRT_GEMM_VAR_NUM_CU] = limit > 0 ? limit : 1;
    values[MXRT_GEMM_VAR_ACCUMULATE] = problem->accumulate;
    values[MXRT_GEMM_VAR_LEFT_ROW_STRIDE] = problem->left.row_stride;
    values[MXRT_GEMM_VAR_LEFT_GROUP_STRIDE] = problem->left.group_stride;
    values[MXRT_GEMM_VAR_LEFT_ALIGN] = align_of(problem, MXRT_GEMM_LEFT);
    values[MXRT_GEMM_VAR_RIGHT_ROW_STRIDE] = problem->right.row_stride;
    values[MXRT_GEMM_VAR_RIGHT_GROUP_STRIDE] = problem->right.group_stride;
    values[MXRT_GEMM_VAR_RIGHT_ALIGN] = align_of(problem, MXRT_GEMM_RIGHT);
    values[MXRT_GEMM_VAR_LEFT_SCALE_ROW_STRIDE] = problem->left.scale_row_stride;
    values[MXRT_GEMM_VAR_LEFT_SCALE_BLOCK_STRIDE] = problem->left.scale_block_stride;
    values[MXRT_GEMM_VAR_LEFT_SCALES_ALIGN] = align_of(problem, MXRT_GEMM_LEFT_SCALES);
    values[MXRT_GEMM_VAR_RIGHT_SCALE_ROW_STRIDE] = problem->right.scale_row_stride;
    values[MXRT_GEMM_VAR_RIGHT_SCALE_BLOCK_STRIDE] = problem->right.scale_block_stride;
    values[MXRT_GEMM_VAR_RIGHT_SCALE_GROUP_STRIDE] = problem->right.scale_group_stride;
    values[MXRT_GEMM_VAR_RIGHT_SCALES_ALIGN] = align_of(problem, MXRT_GEMM_RIGHT_SCALES);
    values[MXRT_GEMM_VAR_OUT_ROW_STRIDE] = problem->out_row_stride;
    values[MXRT_GEMM_VAR_OUT_GROUP_STRIDE] = problem->out_group_stride;
    values[MXRT_GEMM_VAR_OUT_ALIGN] = align_of(problem, MXRT_GEMM_OUT);
    values[MXRT_GEMM_VAR_WORKSPACE_ALIGN] = MXRT_GEMM_WORKSPACE_ALIGN;
}
