#include "templates/mx_launch.h"

#include <stdio.h>

#include "mxgen/ocp.h"
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

bool mx_converts(const mxgen_spec *spec)
{
    const mxgen_key *key = &spec->key;
    bool is_fp8 = key->format == MX_FORMAT_MXFP8_E4M3 || key->format == MX_FORMAT_MXFP8_E5M2;
    if (key->op == MX_OP_FROM)
        return false;
    if (key->format == MX_FORMAT_MXFP4)
        return mxgen_target_has(spec->target, MXGEN_CAP_FP4) ||
               (key->dtype == MX_DTYPE_BF16 && mxgen_target_has(spec->target, MXGEN_CAP_HALVES));
    return is_fp8 && mxgen_target_has(spec->target, MXGEN_CAP_FP8);
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

/* The scale rules as a constant that is added to the bits of amax before its exponent is taken. */
static void describe_scale_rule(mxgen_kernel *kernel, const mx_ocp_element *element)
{
    int half_unit = 1 << (22 - element->mantissa_bits), most = 255 - element->emax;
    mxgen_kernel_scalar(kernel, "scale_add", MXE_ARG_I32,
                        "scale_rule == %d ? %d : scale_rule == %d ? 8388607 : scale_rule == %d ? "
                        "%d : 0",
                        MX_SCALE_EVEN, half_unit, MX_SCALE_CEIL, MX_SCALE_RCEIL,
                        0x7fffff - (int)(element->max_bits & 0x7fffff));
    mxgen_kernel_scalar(kernel, "inf_byte", MXE_ARG_I32,
                        "scale_rule == %d ? max(%d, min_byte) : 254", MX_SCALE_EVEN,
                        most < 254 ? most : 254);
    if (element->emax == 0)
        mxgen_kernel_scalar(kernel, "scale_ceil", MXE_ARG_I32, "scale_rule >= %d", MX_SCALE_CEIL);
}

void mx_describe_options(mxgen_kernel *kernel, const mxgen_key *key, bool all)
{
    if (!mx_format_is_ocp(key->format))
        return;
    if (!all && key->op != MX_OP_FROM)
        mxgen_kernel_rule(kernel,
                          "rounding to nearest even, signs of zeros kept, overflow "
                          "saturates, no rotation",
                          "rounding == %d && plus_zero == 0 && overflow == 0 && hadamard == 0",
                          MX_ROUND_EVEN);
    if (key->op == MX_OP_FROM)
        return;
    describe_scale_rule(kernel, mx_ocp_element_get(key->format));
    mxgen_kernel_scalar(kernel, "zero_byte", MXE_ARG_I32, "zero_byte");
    mxgen_kernel_scalar(kernel, "min_byte", MXE_ARG_I32, "min_byte");
    mxgen_kernel_scalar(kernel, "min_amax", MXE_ARG_I32, "min_amax");
    mxgen_kernel_scalar(kernel, "nan_amax", MXE_ARG_I32, "nan_scale ? -1 : 0");
    if (!all)
        return;
    mxgen_kernel_scalar(kernel, "tie", MXE_ARG_I32, "rounding == %d", MX_ROUND_UP);
    mxgen_kernel_scalar(kernel, "stochastic", MXE_ARG_I32, "rounding == %d", MX_ROUND_STOCHASTIC);
    mxgen_kernel_scalar(kernel, "seed_low", MXE_ARG_I64, "seed_low");
    mxgen_kernel_scalar(kernel, "seed_high", MXE_ARG_I64, "seed_high");
    mxgen_kernel_scalar(kernel, "plus_zero", MXE_ARG_I32, "plus_zero");
    mxgen_kernel_scalar(kernel, "overflow", MXE_ARG_I32, "overflow");
    mxgen_kernel_scalar(kernel, "hadamard", MXE_ARG_I32, "hadamard");
}

void mx_describe_blocks_alone(mxgen_kernel *kernel, const mxgen_key *key)
{
    if (mx_format_is_ocp(key->format))
        mxgen_kernel_rule(kernel, "a scale for each block", "two_d == 0");
}

void mx_describe_scales(mxgen_kernel *kernel, const mxgen_key *key)
{
    if (!mx_format_is_ocp(key->format) || key->op == MX_OP_QDQ)
        return;
    mxgen_kernel_pointer(kernel, "s", mx_pointer_flags(key->op, key->op == MX_OP_TO), 1);
    mxgen_kernel_scalar(kernel, "s_row_stride", MXE_ARG_I64, "s_row_stride");
    mxgen_kernel_scalar(kernel, "s_block_stride", MXE_ARG_I64, "s_block_stride");
}

mxe_value mx_dim_param(mxe *e, const char *stem, int dim)
{
    char name[32];
    snprintf(name, sizeof(name), "%s%d", stem, dim);
    return mxe_param(e, name);
}

mxe_value mx_row_offset(mxe *e, const char *stem, int dims, mxe_type type, mxe_value row)
{
    mxe_value index = mxe_zext(e, row, type), sum = mxe_i64(e, 0);
    for (int k = 0; k < dims; k++) {
        mxe_value size = mxe_zext(e, mx_dim_param(e, "size", k), type);
        mxe_value stride = mxe_zext(e, mx_dim_param(e, "row_stride", k), type);
        mxe_value above = mxe_udiv(e, index, stride);
        mxe_value turns = mxe_udiv(e, above, size);
        mxe_value at = mxe_zext(e, mxe_sub(e, above, mxe_mul(e, turns, size)), MXE_I64);
        sum = mxe_add(e, sum, mxe_mul(e, at, mx_dim_param(e, stem, k)));
    }
    return sum;
}

void mx_divide(mxe *e, mxe_value a, mxe_value b, mxe_value *quotient, mxe_value *rest)
{
    mxe_value narrow = mxe_udiv(e, mxe_zext(e, a, MXE_I32), mxe_zext(e, b, MXE_I32));
    *quotient = mxe_zext(e, narrow, MXE_I64);
    *rest = mxe_sub(e, a, mxe_mul(e, *quotient, b));
}
