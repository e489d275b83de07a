/* Turns the command line of `mxgen plan` into tensors. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "plan_request.h"

/* Addresses that are far apart, so that the two tensors never seem to overlap. */
#define PLAN_IN_ADDRESS ((uintptr_t)1 << 60)
#define PLAN_OUT_ADDRESS ((uintptr_t)1 << 61)

static mx_status plan_parse_names(plan_request *request, const plan_args *args, mx_error *err)
{
    mx_status status = cli_parse_op(args->op, &request->op, err);
    if (status == MX_OK)
        status = cli_parse_format(args->format, &request->format, err);
    if (status == MX_OK)
        status = cli_parse_dtype(args->dtype, &request->dtype, err);
    if (status == MX_OK && args->profile)
        status = cli_parse_profile(args->profile, &request->profile, err);
    if (status != MX_OK)
        return status;
    if (request->profile != MX_PROFILE_PACKED && request->op != MX_OP_QDQ)
        return mx_fail(err, MX_ERR_INVALID, "profile %s is for qdq only, not for %s",
                       mx_profile_name(request->profile), mx_op_name(request->op));
    if (args->out_strides && request->op != MX_OP_QDQ)
        return mx_fail(err, MX_ERR_INVALID,
                       "--out-strides is for qdq only: --strides tells those of %s's tensor",
                       mx_op_name(request->op));
    if (args->packed_strides && request->op == MX_OP_QDQ)
        return mx_fail(err, MX_ERR_INVALID, "--packed-strides: qdq has no packed tensor");
    return MX_OK;
}

static DLDataType plan_dl_type(mx_dtype dtype)
{
    return (DLDataType){
        .code = dtype == MX_DTYPE_BF16 ? kDLBfloat : kDLFloat,
        .bits = (uint8_t)(mx_dtype_get(dtype)->bytes * 8),
        .lanes = 1,
    };
}

static mx_status plan_parse_strides(const char *what, const char *text, plan_tensor *tensor,
                                    mx_error *err)
{
    if (!text)
        return MX_OK;
    size_t n = 0;
    /* Negative ones pass here: the runtime refuses them and tells why. */
    mx_status status =
        cli_parse_ints(what, text, ',', INT64_MIN, tensor->strides, MXRT_MAX_DIMS, &n, err);
    if (status != MX_OK)
        return status;
    if (n != (size_t)tensor->tensor.ndim)
        return mx_fail(err, MX_ERR_INVALID, "%s %s has %zu numbers, but the tensor %d dimensions",
                       what, text, n, tensor->tensor.ndim);
    tensor->tensor.strides = tensor->strides;
    return MX_OK;
}

static mx_status plan_init_plain(plan_request *request, const plan_args *args, plan_tensor *out,
                                 mx_error *err)
{
    size_t n = 0;
    mx_status status =
        cli_parse_ints("--shape", args->shape, 'x', 0, out->shape, MXRT_MAX_DIMS, &n, err);
    if (status != MX_OK)
        return status;
    out->tensor.ndim = (int32_t)n;
    out->tensor.shape = out->shape;
    out->tensor.dtype = plan_dl_type(request->dtype);
    return MX_OK;
}

static mx_status plan_init_packed(plan_request *request, const plan_tensor *plain, plan_tensor *out,
                                  mx_error *err)
{
    out->tensor.ndim = 2;
    out->tensor.shape = out->shape;
    out->tensor.dtype = (DLDataType){.code = kDLUInt, .bits = 8, .lanes = 1};
    return mxrt_packed_shape(request->format, plain->tensor.ndim, plain->shape, request->axis,
                             &out->shape[0], &out->shape[1], err);
}

static mx_status plan_parse_numbers(plan_request *request, const plan_args *args, mx_error *err)
{
    int64_t axis = -1, align = 256;
    mx_status status = MX_OK;
    if (args->axis)
        status = cli_parse_int("--axis", args->axis, INT32_MIN, INT32_MAX, &axis, err);
    if (status == MX_OK && args->align)
        status = cli_parse_int("--align", args->align, 1, 4096, &align, err);
    if (status != MX_OK)
        return status;
    if (align & (align - 1))
        return mx_fail(err, MX_ERR_INVALID, "--align %s is not a power of two", args->align);
    request->axis = (int)axis;
    /* Added, not or-ed in, so that the address is aligned to this and no more. */
    request->in.tensor.data = (void *)(PLAN_IN_ADDRESS + (uintptr_t)align);
    request->out.tensor.data = (void *)(PLAN_OUT_ADDRESS + (uintptr_t)align);
    return MX_OK;
}

mx_status plan_request_init(plan_request *request, const plan_args *args, mx_error *err)
{
    memset(request, 0, sizeof(*request));
    mx_status status = plan_parse_names(request, args, err);
    if (status == MX_OK)
        status = plan_parse_numbers(request, args, err);
    if (status != MX_OK)
        return status;

    plan_tensor *plain = request->op == MX_OP_FROM ? &request->out : &request->in;
    plan_tensor *other = request->op == MX_OP_FROM ? &request->in : &request->out;
    status = plan_init_plain(request, args, plain, err);
    if (status == MX_OK)
        status = plan_parse_strides("--strides", args->strides, plain, err);
    if (status != MX_OK)
        return status;
    if (request->op == MX_OP_QDQ) {
        status = plan_init_plain(request, args, other, err);
        if (status == MX_OK)
            status = plan_parse_strides("--out-strides", args->out_strides, other, err);
        return status;
    }
    status = plan_init_packed(request, plain, other, err);
    if (status == MX_OK)
        status = plan_parse_strides("--packed-strides", args->packed_strides, other, err);
    return status;
}
