/* Variants of the direct kernel: what applies, what is launched. */
#include "templates/gemm_direct.h"

#include <stdio.h>

#include "templates/mx_launch.h"

bool gemm_operands_fit(const mxgen_gemm_key *key)
{
    bool fp8 = key->left == MXGEN_OPERAND_MXFP8_E4M3 || key->left == MXGEN_OPERAND_MXFP8_E5M2;
    bool right_fp8 =
        key->right == MXGEN_OPERAND_MXFP8_E4M3 || key->right == MXGEN_OPERAND_MXFP8_E5M2;
    return key->right == MXGEN_OPERAND_MXFP4 || (fp8 && right_fp8);
}

static gemm_plan plan_of(const mxgen_spec *spec)
{
    gemm_shape shape = {
        .block_m = mxgen_spec_param(spec, "BLOCK_SIZE_M"),
        .block_n = mxgen_spec_param(spec, "BLOCK_SIZE_N"),
        .warps = mxgen_spec_param(spec, "num_warps"),
        .tile = mxgen_spec_param(spec, "matrix_instr_nonkdim"),
        .group_size_m = mxgen_spec_param(spec, "GROUP_SIZE_M"),
        .stages = mxgen_spec_param(spec, "num_stages"),
        .chunk = mxgen_spec_param(spec, "CHUNK"),
    };
    return gemm_plan_make(spec->target, &spec->key, spec->key.gemm.pass, &shape);
}

static bool refuse(char *why, size_t why_bytes, const char *text)
{
    snprintf(why, why_bytes, "%s", text);
    return false;
}

static bool applies(const mxgen_spec *spec, char *why, size_t why_bytes)
{
    const mxgen_gemm_key *key = &spec->key.gemm;
    gemm_plan p = plan_of(spec);
    if (!p.unit)
        return refuse(why, why_bytes, "matrix_instr_nonkdim: the target has no such instruction");
    if (!gemm_operands_fit(key))
        return refuse(why, why_bytes, "operands: MXFP4 on the right, or MXFP8 on both sides");
    if (!key->exact || key->pass == MXGEN_PASS_STEP)
        return refuse(why, why_bytes, "the kernel is an exact one, of gemm_rows or gemm_cols");
    if (!mx_warps_fit(spec, p.warps, why, why_bytes))
        return false;
    if (!p.warps_m)
        return refuse(why, why_bytes, "num_warps: warps have less than an instruction's tile");
    if (!p.turns)
        return refuse(why, why_bytes, "BLOCK_SIZE_K: less than the instruction takes");
    const gemm_side *l = &p.side[GEMM_LEFT], *r = &p.side[GEMM_RIGHT];
    if (l->frags > GEMM_MAX_FRAGS || r->frags > GEMM_MAX_FRAGS || l->copies > GEMM_MAX_COPIES ||
        r->copies > GEMM_MAX_COPIES)
        return refuse(why, why_bytes, "num_warps: a warp's part of the tile is too large");
    if (2 * p.stage_bytes > spec->target->lds_bytes)
        return refuse(why, why_bytes, "BLOCK_SIZE: two stages do not fit into shared memory");
    return true;
}

typedef struct shape {
    int block_m, block_n, warps, tile;
} shape;

/* Whether a tile leaves registers enough on the target: none of the kernels may spill. */
static bool leaves_registers(const gemm_plan *p, const shape *s)
{
    bool wide = p->target->lanes == 64;
    bool e4m3 = p->side[GEMM_LEFT].element == MXE_E4M3 || p->side[GEMM_RIGHT].element == MXE_E4M3;
    /* Two rows of each fragment in a lane. */
    if (p->unit->rows > 1)
        return s->block_m < 64 && s->warps == (s->block_m == 32 ? 8 : 4);
    /* Blocks that are wide on both sides. */
    if (s->block_m == 256)
        return p->stage_bytes <= 49152;
    /* E4M3 takes more on the way to bf16, all the more where a lane has whole rows. */
    if (s->block_m == 128 && e4m3 && p->unit->groups == 1)
        return false;
    return s->block_m != 32 && wide == (s->warps == 4);
}

static bool explored(const mxgen_spec *spec)
{
    static const shape shapes[] = {
        {256, 256, 8, 32}, {128, 128, 4, 32}, {128, 128, 8, 16}, {64, 128, 4, 16},
        {64, 128, 8, 16},  {32, 128, 8, 16},  {16, 128, 4, 16},  {16, 128, 8, 16},
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const shape *s = &shapes[i];
        if (mxgen_spec_param(spec, "BLOCK_SIZE_M") != s->block_m ||
            mxgen_spec_param(spec, "BLOCK_SIZE_N") != s->block_n ||
            mxgen_spec_param(spec, "num_warps") != s->warps ||
            mxgen_spec_param(spec, "matrix_instr_nonkdim") != s->tile)
            continue;
        gemm_plan p = plan_of(spec);
        int chunk = mxgen_target_chiplets(spec->target) > 1 ? 8 : 1;
        return p.unit && leaves_registers(&p, s) && mxgen_spec_param(spec, "num_stages") == 3 &&
               mxgen_spec_param(spec, "GROUP_SIZE_M") == 8 &&
               mxgen_spec_param(spec, "CHUNK") == chunk;
    }
    return false;
}

static void describe_side(mxgen_kernel *kernel, const gemm_side *side, bool left)
{
    const char *name = left ? "left" : "right";
    unsigned flags = MXE_ARG_READONLY | MXE_ARG_NOALIAS;
    mxgen_kernel_pointer(kernel, side->data, flags, GEMM_CHUNK);
    mxgen_kernel_rule(kernel,
                      left ? "left: rows start at multiples of 16 bytes"
                           : "right: rows start at multiples of 16 bytes",
                      "%s_align >= %d && %s_row_stride %% %d == 0", name, GEMM_CHUNK, name,
                      GEMM_CHUNK);
    mxgen_kernel_rule(kernel,
                      left ? "left: a tile's offsets are counted in 31 bits"
                           : "right: a tile's offsets are counted in 31 bits",
                      "%s_row_stride <= %d", name, 0x7fffffff / side->rows);
    mxgen_kernel_scalar(kernel, side->row_stride, MXE_ARG_I64, "%s", side->row_stride);
    if (side->group_stride)
        mxgen_kernel_scalar(kernel, side->group_stride, MXE_ARG_I64, "%s", side->group_stride);
    if (!side->scales)
        return;
    mxgen_kernel_pointer(kernel, side->scales, flags, 1);
    mxgen_kernel_rule(kernel,
                      left ? "left_scales: a tile's offsets are counted in 31 bits"
                           : "right_scales: a tile's offsets are counted in 31 bits",
                      "%s_scale_row_stride <= %d && %s_scale_block_stride <= %d", name,
                      0x3fffffff / side->rows, name, 0x0fffffff);
    mxgen_kernel_scalar(kernel, side->scale_row_stride, MXE_ARG_I64, "%s", side->scale_row_stride);
    mxgen_kernel_scalar(kernel, side->scale_block_stride, MXE_ARG_I64, "%s",
                        side->scale_block_stride);
    if (side->scale_group_stride)
        mxgen_kernel_scalar(kernel, side->scale_group_stride, MXE_ARG_I64, "%s",
                            side->scale_group_stride);
}

static void describe_out(mxgen_kernel *kernel, const gemm_plan *p)
{
    int run = p->unit->run;
    mxgen_kernel_pointer(kernel, "out", MXE_ARG_NOALIAS, p->elem_bytes);
    mxgen_kernel_rule(kernel, "out: a tile's offsets are counted in 31 bits",
                      "out_row_stride <= %d", 0x7fffffff / p->grid.block_m / p->elem_bytes);
    mxgen_kernel_scalar(kernel, "out_row_stride", MXE_ARG_I64, "out_row_stride");
    if (p->cols)
        mxgen_kernel_scalar(kernel, "out_group_stride", MXE_ARG_I64, "out_group_stride");
    int align_bytes = run * p->elem_bytes < 16 ? run * p->elem_bytes : 16;
    mxgen_kernel_scalar(kernel, "whole_runs", MXE_ARG_I32,
                        "%s %% %d == 0 && out_row_stride %% %d == 0 && out_align >= %d%s",
                        p->cols ? "k" : "n", run, run, align_bytes,
                        p->cols ? " && out_group_stride % 8 == 0" : "");
}

void gemm_describe_plan(mxgen_kernel *kernel, const gemm_plan *p)
{
    int block_m = p->grid.block_m, block_n = p->grid.block_n;
    kernel->threads = p->threads;
    kernel->lds_bytes = 2 * p->stage_bytes;
    if (p->cols)
        snprintf(kernel->grid_x, sizeof(kernel->grid_x),
                 "max(1, min(num_cu, groups * ceil_div(n, %d) * ceil_div(k, %d)))", block_m,
                 block_n);
    else
        snprintf(kernel->grid_x, sizeof(kernel->grid_x),
                 "max(1, min(num_cu, (ceil_div(out_rows, %d) + groups + 1) * ceil_div(n, %d)))",
                 block_m, block_n);
    gemm_describe_walk(kernel, p->grid.pass);
    mxgen_kernel_scalar(kernel, "grid", MXE_ARG_I64, "%s", kernel->grid_x);
    if (!p->redo)
        mxgen_kernel_pointer(kernel, "status", MXE_ARG_NOALIAS, 4);
    describe_side(kernel, &p->side[GEMM_LEFT], true);
    describe_side(kernel, &p->side[GEMM_RIGHT], false);
    describe_out(kernel, p);
}

static void describe(const mxgen_spec *spec, mxgen_kernel *kernel)
{
    gemm_plan p = plan_of(spec);
    gemm_describe_plan(kernel, &p);
}

static void emit(mxe *e, const mxgen_spec *spec, const mxgen_kernel *kernel)
{
    gemm_plan p = plan_of(spec);
    gemm_emit_plan(e, &p, kernel);
}

/* Bytes that the tile's products cost to bring in, the least for large square tiles. */
static double cost(const mxgen_spec *spec)
{
    gemm_plan p = plan_of(spec);
    double m = p.grid.block_m, n = p.grid.block_n;
    double warp_m = m / p.warps_m, warp_n = n / p.warps_n;
    return 64.0 * (1.0 / m + 1.0 / n) + 32.0 * (1.0 / warp_m + 1.0 / warp_n);
}

static const int block_m_values[] = {256, 128, 64, 32, 16};
static const int block_n_values[] = {256, 128, 64};
static const int block_k_values[] = {128};
static const int warp_values[] = {4, 8};
static const int tile_values[] = {32, 16};
static const int group_values[] = {8, 4, 1};
static const int stage_values[] = {3, 2};
static const int chunk_values[] = {8, 1};

#define PARAM(name, values)                                                                        \
    {                                                                                              \
        name, values, sizeof(values) / sizeof((values)[0])                                         \
    }

static const mxgen_param params[] = {
    PARAM("BLOCK_SIZE_M", block_m_values),      PARAM("BLOCK_SIZE_N", block_n_values),
    PARAM("BLOCK_SIZE_K", block_k_values),      PARAM("num_warps", warp_values),
    PARAM("matrix_instr_nonkdim", tile_values), PARAM("GROUP_SIZE_M", group_values),
    PARAM("num_stages", stage_values),          PARAM("CHUNK", chunk_values),
};

const mxgen_template gemm_direct_template = {
    .name = "gemm_direct",
    .passes = 1u << MXGEN_PASS_ROWS | 1u << MXGEN_PASS_COLS,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .applies = applies,
    .explored = explored,
    .describe = describe,
    .cost = cost,
    .emit = emit,
};
