#include "templates/mx_launch.h"

#include <stdio.h>

#include "mxgen/pack.h"

bool mx_warps_fit(const mxgen_spec *spec, int warps, char *why, size_t why_bytes)
{
    const mxgen_target *target = spec->target;
    if (warps * target->lanes <= target->max_threads * target->simd_width)
        return true;
    snprintf(why, why_bytes, "num_warps %d: %s runs %d threads a program at most", warps,
             target->name, target->max_threads);
    return false;
}

bool mx_lanes_fit(const mxgen_spec *spec, int lanes, char *why, size_t why_bytes)
{
    if (lanes == 1 || mxgen_target_has(spec->target, MXGEN_CAP_EXCHANGE))
        return true;
    snprintf(why, why_bytes, "LANES_PER_BLOCK %d: lanes of %s cannot share a block", lanes,
             spec->target->name);
    return false;
}

unsigned mx_pointer_flags(mx_op op, bool is_output)
{
    if (op == MX_OP_QDQ)
        return 0;
    return MXE_ARG_NOALIAS | (is_output ? MXE_ARG_WRITEONLY : MXE_ARG_READONLY);
}

void mx_describe_dims(mxgen_kernel *kernel, mx_op op, int first, int last)
{
    static const char *const names[MXPACK_MAX_ROW_DIMS][4] = {
        {"size0", "row_stride0", "x_stride0", "y_stride0"},
        {"size1", "row_stride1", "x_stride1", "y_stride1"},
        {"size2", "row_stride2", "x_stride2", "y_stride2"},
        {"size3", "row_stride3", "x_stride3", "y_stride3"},
        {"size4", "row_stride4", "x_stride4", "y_stride4"},
        {"size5", "row_stride5", "x_stride5", "y_stride5"},
        {"size6", "row_stride6", "x_stride6", "y_stride6"},
    };
    for (int k = first; k <= last; k++) {
        mxgen_kernel_scalar(kernel, names[k][0], MXE_ARG_I64, "dim%d_size", k);
        mxgen_kernel_scalar(kernel, names[k][1], MXE_ARG_I64, "dim%d_row_stride", k);
        if (op != MX_OP_FROM)
            mxgen_kernel_scalar(kernel, names[k][2], MXE_ARG_I64, "dim%d_x_stride", k);
        if (op != MX_OP_TO)
            mxgen_kernel_scalar(kernel, names[k][3], MXE_ARG_I64, "dim%d_y_stride", k);
    }
}

void mx_describe_packed(mxgen_kernel *kernel, const mxgen_key *key, int align_bytes)
{
    mxgen_kernel_pointer(kernel, "p", mx_pointer_flags(key->op, key->op == MX_OP_TO), align_bytes);
    mxgen_kernel_rule(kernel, "packed blocks follow each other without gaps",
                      "p_block_stride == %d && p_byte_stride == 1",
                      mx_format_get(key->format)->block_bytes);
    mxgen_kernel_rule(kernel, "packed bytes are aligned to the accesses", "p_align >= %d",
                      align_bytes);
}

void mx_describe_scattered(mxgen_kernel *kernel, const mxgen_key *key, int piece_bytes)
{
    mxgen_kernel_pointer(kernel, "p", mx_pointer_flags(key->op, key->op == MX_OP_TO), piece_bytes);
    if (piece_bytes > 1) {
        mxgen_kernel_rule(kernel, "a block's packed bytes follow each other", "p_byte_stride == 1");
        mxgen_kernel_rule(kernel, "packed blocks start at multiples of the pieces",
                          "p_align >= %d && p_block_stride %% %d == 0", piece_bytes, piece_bytes);
    }
    mxgen_kernel_scalar(kernel, "p_block_stride", MXE_ARG_I64, "p_block_stride");
    mxgen_kernel_scalar(kernel, "p_byte_stride", MXE_ARG_I64, "p_byte_stride");
}

mxe_value mx_dim_param(mxe *e, const char *stem, int dim)
{
    char name[32];
    snprintf(name, sizeof(name), "%s%d", stem, dim);
    return mxe_param(e, name);
}

void mx_divide(mxe *e, mxe_value a, mxe_value b, mxe_value *quotient, mxe_value *rest)
{
    mxe_value narrow = mxe_udiv(e, mxe_zext(e, a, MXE_I32), mxe_zext(e, b, MXE_I32));
    *quotient = mxe_zext(e, narrow, MXE_I64);
    *rest = mxe_sub(e, a, mxe_mul(e, *quotient, b));
}
