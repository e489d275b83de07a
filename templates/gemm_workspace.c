#include "templates/gemm_workspace.h"

#include <stdio.h>

mxe_tile_kind gemm_kept_kind(mxgen_operand operand, int elem_bytes)
{
    if (elem_bytes == 2)
        return MXE_TILE_BF16;
    return operand == MXGEN_OPERAND_MXFP8_E4M3 ? MXE_TILE_E4M3 : MXE_TILE_E5M2;
}

/* MXFP4 is kept as large as E5M2 holds it, so that it reaches far down. */
int gemm_kept_bias(mxgen_operand operand, int elem_bytes)
{
    return elem_bytes == 1 && operand == MXGEN_OPERAND_MXFP4 ? 140 : 127;
}

void gemm_describe_workspace(mxgen_kernel *kernel, mxgen_pass pass, int elem_bytes, bool owner)
{
    bool rows = pass == MXGEN_PASS_ROWS;
    const char *left = rows ? "out_rows / 8 + groups" : "ceil_div(n, 8)";
    const char *right = rows ? "groups * ceil_div(n, 8)" : "ceil_div(k, 8)";
    const char *runs = rows ? "ceil_div(k, 128)" : "(m / 128 + groups)";
    mxgen_kernel_pointer(kernel, "workspace", 0, 256);
    mxgen_kernel_scalar(kernel, "left_strips", MXE_ARG_I64, "%s", left);
    mxgen_kernel_scalar(kernel, "right_strips", MXE_ARG_I64, "%s", right);
    mxgen_kernel_scalar(kernel, "k_tiles", MXE_ARG_I64, "%s * %d", runs, elem_bytes);
    if (owner)
        snprintf(kernel->workspace_bytes, sizeof(kernel->workspace_bytes),
                 "(%s + %s) * (%s * %d + 9 * %s) + %d", left, right, runs,
                 elem_bytes * GEMM_ATOM_BYTES, rows ? "1" : "groups", GEMM_SLACK_BYTES + 4096);
}

void gemm_locate(mxe *e, mxgen_pass pass, gemm_places *out)
{
    mxe_value left = mxe_param(e, "left_strips"), right = mxe_param(e, "right_strips");
    mxe_value row_bytes = mxe_mul(e, mxe_param(e, "k_tiles"), mxe_i64(e, GEMM_ATOM_BYTES));
    mxe_value per = pass == MXGEN_PASS_ROWS ? mxe_i64(e, 1) : mxe_param(e, "groups");
    out->left_tiles = mxe_i64(e, 0);
    out->right_tiles = mxe_mul(e, left, row_bytes);
    mxe_value end = mxe_mul(e, mxe_add(e, left, right), row_bytes);
    out->left_refs = mxe_add(e, end, mxe_i64(e, GEMM_SLACK_BYTES));
    left = mxe_mul(e, left, per);
    right = mxe_mul(e, right, per);
    out->right_refs = mxe_add(e, out->left_refs, mxe_mul(e, left, mxe_i64(e, GEMM_STRIP)));
    out->left_flags = mxe_add(e, out->right_refs, mxe_mul(e, right, mxe_i64(e, GEMM_STRIP)));
    out->right_flags = mxe_add(e, out->left_flags, left);
}
