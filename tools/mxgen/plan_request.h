/* What `mxgen plan` is asked: its command line, and the tensors that the words describe. */
#ifndef MXGEN_PLAN_REQUEST_H
#define MXGEN_PLAN_REQUEST_H

#include <mxgen/rt.h>

#include "cli.h"

/* The command line as given; unset is NULL. */
typedef struct plan_args {
    const char *op, *format, *dtype, *profile, *shape, *axis;
    const char *strides, *out_strides, *packed_strides, *align;
    const char *target, *variant, *pack, *object;
    const char *params[MXGEN_MAX_PARAMS + 1]; /* one more than allowed, so that it is noticed */
    size_t n_params;
    int as_json;
} plan_args;

/* A tensor with room for its shape and strides; `tensor` points into the same struct, so don't
 * copy it. */
typedef struct plan_tensor {
    int64_t shape[MXRT_MAX_DIMS], strides[MXRT_MAX_DIMS];
    DLTensor tensor;
} plan_tensor;

typedef struct plan_request {
    mx_op op;
    mx_format format;
    mx_dtype dtype;
    mx_profile profile;
    int axis;
    plan_tensor in, out; /* no memory behind them: addresses only tell the alignment */
} plan_request;

mx_status plan_request_init(plan_request *request, const plan_args *args, mx_error *err);

#endif
