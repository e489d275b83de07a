/* Variants of the layouts flat and rows: their parameters, where they apply, how they are launched,
 * and which are worth building. */
#include <stdio.h>

#include "templates/mx_launch.h"
#include "templates/mx_rows.h"
#include "templates/mx_stage.h"

enum {
    MOST_CACHED = 32 << 20 /* bytes read and written that caches may be expected to keep */
};

typedef mx_rows_plan plan;

mx_rows_plan mx_rows_plan_of(const mxgen_spec *spec)
{
    mx_rows_plan p = {.key = spec->key};
    p.lanes_per_block = mxgen_spec_param(spec, "LANES_PER_BLOCK");
    p.block_elements = mx_format_get(spec->key.format)->block_elements;
    p.count = p.block_elements / p.lanes_per_block;
    p.vec = mxgen_spec_param(spec, "VEC");
    p.loads = mxgen_spec_param(spec, "NUM_LOADS");
    p.warps = mxgen_spec_param(spec, "num_warps");
    p.map = mxgen_spec_param(spec, "ROW_MAP");
    p.group = spec->target->lanes / p.lanes_per_block;
    p.step_blocks = p.group * p.loads;
    p.block_bytes = mx_format_get(spec->key.format)->block_bytes;
    p.elem_bytes = mx_dtype_get(spec->key.dtype)->bytes;
    p.record_align = mx_record_align(spec->key.format);
    p.staged = mxgen_spec_param(spec, "STAGED");
    p.ragged = spec->key.layout == MX_LAYOUT_ROWS;
    p.hardware = mxgen_spec_param(spec, "CONVERT") == 1;
    p.options = mxgen_spec_param(spec, "OPTIONS") == 1;
    p.flags = mxgen_spec_param(spec, "CACHE") == 1 ? MXE_STREAM : 0;
    p.passes_by = mxgen_target_has(spec->target, MXGEN_CAP_PASS_BY) && !p.ragged && !p.options &&
                  mx_format_is_ocp(p.key.format) && p.key.op != MX_OP_TO;
    p.region_bytes = mx_stage_bytes(p.step_blocks * p.block_bytes);
    return p;
}

static const int lanes_values[] = {1, 2, 4, 8}, vec_values[] = {1, 2, 4, 8};
static const int loads_values[] = {1, 2, 4}, warps_values[] = {1, 2, 4, 8};
static const int blocks_values[] = {32, 64, 128, 256, 512, 1024, 2048, 4096};
static const int flag_values[] = {0, 1}, staged_values[] = {0, 1, 2, 3};

#define VALUES(v) v, sizeof(v) / sizeof((v)[0])
static const mxgen_param params[] = {
    {"BLOCKS_PER_PROGRAM", VALUES(blocks_values)},
    {"num_warps", VALUES(warps_values)},
    {"LANES_PER_BLOCK", VALUES(lanes_values)},
    {"VEC", VALUES(vec_values)},
    {"NUM_LOADS", VALUES(loads_values)},
    {"STAGED", VALUES(staged_values)},
    {"CACHE", VALUES(flag_values)},
    {"ROW_MAP", VALUES(flag_values)},
    {"CONVERT", VALUES(flag_values)},
    {"OPTIONS", VALUES(flag_values)},
};

static bool power_of_two_ratio(int whole, int part)
{
    return part > 0 && whole % part == 0;
}

static bool applies_target(const mxgen_spec *spec, const plan *p, char *why, size_t why_bytes)
{
    const mxgen_target *target = spec->target;
    bool host = target->simd_width > 1;
    if (!mx_lanes_fit(spec, p->lanes_per_block, why, why_bytes) ||
        !mx_warps_fit(spec, p->warps, why, why_bytes))
        return false;
    if (host && p->map != MAP_UNIFORM)
        return snprintf(why, why_bytes, "ROW_MAP 1: lanes of %s must lie in one row",
                        mxgen_target_name(target)),
               false;
    if (p->staged && p->warps * p->region_bytes > target->lds_bytes)
        return snprintf(why, why_bytes, "STAGED: %d bytes of shared memory, %s has %d",
                        p->warps * p->region_bytes, mxgen_target_name(target), target->lds_bytes),
               false;
    return true;
}

static bool applies(const mxgen_spec *spec, char *why, size_t why_bytes)
{
    plan p = mx_rows_plan_of(spec);
    int blocks = mxgen_spec_param(spec, "BLOCKS_PER_PROGRAM");
    int widest = 16 / p.elem_bytes < p.count ? 16 / p.elem_bytes : p.count;
    if (!power_of_two_ratio(blocks, p.step_blocks * p.warps))
        return snprintf(
                   why, why_bytes,
                   "BLOCKS_PER_PROGRAM %d: must be a multiple of NUM_LOADS * num_warps * lanes "
                   "/ LANES_PER_BLOCK = %d",
                   blocks, p.step_blocks * p.warps),
               false;
    if (p.vec > widest || (!p.ragged && p.vec != widest))
        return snprintf(why, why_bytes, "VEC %d: %s %d elements", p.vec,
                        p.ragged ? "a load takes at most" : "aligned rows are loaded by", widest),
               false;
    if (mx_rows_scattered(&p) && (!p.ragged || spec->target->simd_width > 1))
        return snprintf(why, why_bytes,
                        "STAGED %d: blocks that lie anywhere are of the layout rows, "
                        "on GPUs",
                        p.staged),
               false;
    if (p.staged && p.key.op == MX_OP_QDQ)
        return snprintf(why, why_bytes, "STAGED: qdq has no packed records to stage"), false;
    if (p.staged && mx_format_is_ocp(p.key.format))
        return snprintf(why, why_bytes, "STAGED: lanes' codes follow each other anyway"), false;
    if (p.options && (!mx_format_is_ocp(p.key.format) || p.hardware || p.count < 16 ||
                      p.key.op == MX_OP_FROM || spec->target->simd_width > 1))
        return snprintf(why, why_bytes,
                        "OPTIONS 1: packing OCP formats on GPUs, without CONVERT, 16 elements of a "
                        "block a lane"),
               false;
    if (p.hardware && !mx_converts(spec))
        return snprintf(why, why_bytes, "CONVERT 1: %s does not convert to %s", spec->target->name,
                        mx_format_get(p.key.format)->name),
               false;
    if (!p.ragged && p.map != MAP_UNIFORM)
        return snprintf(why, why_bytes, "ROW_MAP 1: aligned whole rows need no mapping"), false;
    return applies_target(spec, &p, why, why_bytes);
}

static void describe_plain(mxgen_kernel *kernel, const plan *p, const char *name, unsigned flags)
{
    int align_bytes = p->ragged ? p->vec * p->elem_bytes : 16;
    align_bytes = align_bytes > 16 ? 16 : align_bytes;
    mxgen_kernel_pointer(kernel, name, flags, align_bytes);
    mxgen_kernel_rule(kernel, "the tensor is aligned to the loads", "%s_align >= %d", name,
                      align_bytes);
    if (!p->ragged) {
        mxgen_kernel_rule(kernel, "the axis has unit stride", "%s_axis_stride == 1", name);
        mxgen_kernel_rule(kernel, "rows follow each other without gaps",
                          "n_dims == 0 || (n_dims == 1 && dim0_%s_stride == len)", name);
        return;
    }
    mxgen_kernel_rule(kernel, "the axis has unit stride", "%s_axis_stride == 1 || len == 1", name);
    if (p->vec > 1)
        mxgen_kernel_rule(kernel, "rows start and end at multiples of VEC elements",
                          "dim0_%s_stride %% %d == 0 && len %% %d == 0", name, p->vec, p->vec);
}

/* Of a block, read and written. */
static int moved_bytes(const plan *p)
{
    int plain = p->block_elements * p->elem_bytes;
    return plain + (p->key.op == MX_OP_QDQ ? plain : p->block_bytes);
}

static void describe(const mxgen_spec *spec, mxgen_kernel *kernel)
{
    plan p = mx_rows_plan_of(spec);
    int blocks = mxgen_spec_param(spec, "BLOCKS_PER_PROGRAM");
    bool uniform = p.ragged && p.map == MAP_UNIFORM;
    kernel->threads = spec->target->simd_width > 1 ? 1 : p.warps * spec->target->lanes;
    kernel->lds_bytes = p.staged ? p.warps * p.region_bytes : 0;
    if (!p.ragged)
        mxgen_kernel_rule(kernel, "rows are whole blocks", "len %% %d == 0", p.block_elements);
    else
        mxgen_kernel_rule(kernel, "one row dimension is left after merging", "n_dims <= 1");
    if (uniform && spec->target->simd_width == 1)
        mxgen_kernel_rule(kernel, "rows fill an eighth of a program", "bpr * 8 >= %d", blocks);
    if (p.ragged && p.map == MAP_DIVIDED)
        mxgen_kernel_rule(kernel, "blocks are counted in 31 bits", "n_blocks <= 2147483647 - %d",
                          2 * blocks);
    if (p.key.op != MX_OP_FROM)
        describe_plain(kernel, &p, "x", mx_pointer_flags(p.key.op, false));
    if (mx_rows_scattered(&p))
        mx_describe_scattered(kernel, &p.key, p.staged == STAGED_PIECES ? 2 : 1);
    else if (p.key.op != MX_OP_QDQ)
        mx_describe_packed(kernel, &p.key, p.staged ? 16 : p.record_align);
    if (p.key.op != MX_OP_TO)
        describe_plain(kernel, &p, "y", mx_pointer_flags(p.key.op, true));
    mx_describe_scales(kernel, &p.key);
    mx_describe_options(kernel, &p.key, p.options);
    mx_describe_blocks_alone(kernel, &p.key);
    if (mx_rows_has_scales(&p) && !p.ragged)
        mxgen_kernel_rule(
            kernel, "scales follow each other without gaps",
            "(s_block_stride == 1 || bpr == 1) && (s_row_stride == bpr || rows <= 1)");
    if (p.passes_by)
        mxgen_kernel_scalar(kernel, "stream", MXE_ARG_I32, "n_blocks >= %d",
                            MOST_CACHED / moved_bytes(&p));
    mxgen_kernel_scalar(kernel, "steps", MXE_ARG_I64, "%d", blocks / (p.step_blocks * p.warps));
    if (uniform) {
        snprintf(kernel->grid_x, sizeof(kernel->grid_x), "rows * ceil_div(bpr, %d)", blocks);
        mxgen_kernel_scalar(kernel, "chunks", MXE_ARG_I64, "ceil_div(bpr, %d)", blocks);
    } else {
        snprintf(kernel->grid_x, sizeof(kernel->grid_x), "ceil_div(n_blocks, %d)", blocks);
        mxgen_kernel_scalar(kernel, "n_blocks", MXE_ARG_I64, "n_blocks");
    }
    if (!p.ragged)
        return;
    mxgen_kernel_scalar(kernel, "bpr", MXE_ARG_I64, "bpr");
    mxgen_kernel_scalar(kernel, "len", MXE_ARG_I64, "len");
    if (p.key.op != MX_OP_FROM)
        mxgen_kernel_scalar(kernel, "x_row_stride", MXE_ARG_I64, "dim0_x_stride");
    if (p.key.op != MX_OP_TO)
        mxgen_kernel_scalar(kernel, "y_row_stride", MXE_ARG_I64, "dim0_y_stride");
}

/* Blocks that lie anywhere: one step a program, accesses to rows of 16 bytes or of one element. */
static bool explored_scattered(const plan *p, int steps)
{
    bool widest = p->vec * p->elem_bytes == 16;
    int sharing = widest ? p->block_elements / p->vec : 8;
    return steps == 1 && p->map == MAP_DIVIDED && p->loads == 2 && p->lanes_per_block == sharing &&
           (widest || (p->vec == 1 && p->staged == STAGED_BYTES));
}

/* OCP formats: lanes side by side, or two accesses of each; both conversions where there are two.
 */
static bool explored_ocp(const mxgen_spec *spec, const plan *p, int steps)
{
    int sharing = p->block_elements / p->vec;
    sharing = sharing > 8 ? 8 : sharing;
    if (p->staged || p->flags || p->warps != 4)
        return false;
    if (p->options)
        return p->lanes_per_block == 2 && p->loads == 1 && steps == 1 &&
               (!p->ragged || (p->map == MAP_DIVIDED && p->vec == 1));
    if (p->ragged)
        return p->map == MAP_DIVIDED && p->lanes_per_block == sharing && steps == 1 &&
               ((p->vec == 1 && p->loads == 2) ||
                (p->vec * p->elem_bytes == 16 && p->loads == 4)) &&
               p->hardware == mx_converts(spec);
    if (p->hardware != mx_converts(spec))
        return p->lanes_per_block == sharing && p->loads == 2 && steps == 1;
    return (steps == 1 || steps == 4) &&
           ((p->lanes_per_block == sharing && (p->loads == 2 || p->loads == 4)) ||
            (p->lanes_per_block == sharing / 2 && p->loads == 2));
}

/* The declared set. Every kernel comes with one, two and four steps a program. GPUs: where rows are
 * aligned, blocks on one lane or on as many as make loads 16 bytes wide (qdq: on every number of
 * lanes), one or two loads in flight, records staged or not; elsewhere the narrowest access and the
 * widest that still fits most rows, both row maps. The switch demoted-255 is there with less
 * choice. Host: what its caches may like. */
static bool explored(const mxgen_spec *spec)
{
    plan p = mx_rows_plan_of(spec);
    int blocks = mxgen_spec_param(spec, "BLOCKS_PER_PROGRAM");
    int steps = blocks / (p.step_blocks * p.warps), natural = p.elem_bytes;
    bool stages = p.key.op != MX_OP_QDQ;
    if (spec->target->simd_width > 1)
        return p.loads == 1 && blocks == 1024 && p.warps == 1 && (!p.ragged || p.vec == 1) &&
               !p.staged && !p.flags && !p.hardware && !p.options;
    if (mx_format_is_ocp(p.key.format))
        return explored_ocp(spec, &p, steps);
    if (p.hardware || p.options)
        return false;
    if (p.flags == 0 || p.warps != 4 || (steps != 1 && steps != 2 && steps != 4))
        return false;
    if (p.key.profile == MX_PROFILE_DEMOTED_255 && (p.loads != 2 || steps == 2))
        return false;
    if (mx_rows_scattered(&p))
        return explored_scattered(&p, steps);
    if (!p.ragged)
        return p.loads <= 2 && (!stages || p.lanes_per_block == 1 || p.lanes_per_block == natural);
    /* One access a lane, side by side; where scattered loads cost nothing, packing is on one lane.
     */
    int sharing = p.vec == 1 ? 8 : p.block_elements / p.vec;
    if (p.key.op == MX_OP_TO && spec->target->scatter_percent == 0)
        sharing = 1;
    /* Eight elements a load where even rows with gaps are aligned to 16 bytes. */
    bool widest = p.vec == 8 && p.map == MAP_DIVIDED;
    if (p.lanes_per_block != sharing || (p.vec != 1 && p.vec != 4 && !widest))
        return false;
    return stages ? p.loads == (sharing == 1 ? 1 : 2) : p.loads <= 2;
}

/* Found on an H200: packing narrow codes, two accesses a lane and four steps, whose scales are then
 * found once; else single accesses, four in flight. */
static double cost_ocp(const plan *p, int steps)
{
    bool narrow = p->key.op == MX_OP_TO && p->block_bytes < 32 && p->elem_bytes == 2;
    double cost = (p->hardware ? 0.0 : 0.2) + (p->options ? 4.0 : 0.0);
    if (narrow && !p->ragged)
        return cost + (p->count * p->elem_bytes > 16 ? 0.0 : 0.02) + (steps == 4 ? 0.0 : 0.005);
    cost += p->count * p->elem_bytes > 16 ? 0.02 : 0.0;
    return cost + (p->loads == 4 ? 0.0 : 0.01) + (steps == 1 ? 0.0 : 0.005);
}

/* Found on an H200 for NVIDIA; elsewhere from what is known of the chips: 16-byte accesses, staged
 * records, lanes side by side, two loads in flight. */
static double cost(const mxgen_spec *spec)
{
    plan p = mx_rows_plan_of(spec);
    int blocks = mxgen_spec_param(spec, "BLOCKS_PER_PROGRAM");
    int steps = blocks / (p.step_blocks * p.warps);
    double cost = 1.0 + 0.3 * (16.0 / (p.vec * p.elem_bytes) - 1.0);
    if (spec->target->simd_width > 1)
        return cost + (p.flags ? 0.1 : 0.0) + (p.staged ? 0.05 : 0.0);
    if (mx_format_is_ocp(p.key.format))
        return cost + cost_ocp(&p, steps);
    if (p.key.op != MX_OP_QDQ && !p.staged)
        cost += 0.2;
    if (mx_rows_scattered(&p))
        cost += p.staged;
    /* Lanes that share a block repeat its header's arithmetic; lanes that do not are apart, which
     * stores mind everywhere. */
    cost += p.key.op == MX_OP_TO ? 0.05 * __builtin_ctz((unsigned)p.lanes_per_block) : 0.0;
    if (p.count * p.elem_bytes > 16)
        cost += p.key.op == MX_OP_TO ? 0.01 * spec->target->scatter_percent : 0.1;
    cost += p.loads == 2 ? 0.0 : 0.02;
    /* Of 8-byte accesses many: programs that stay in a row and take four steps. */
    bool narrow = p.ragged && p.key.op == MX_OP_TO && p.vec * p.elem_bytes == 8;
    int best_steps = narrow ? 4 : p.key.op == MX_OP_TO && p.elem_bytes == 2 ? 2 : 1;
    cost += steps == best_steps ? 0.0 : steps == 4 ? 0.015 : 0.01;
    if (narrow)
        return cost + (p.map == MAP_UNIFORM ? 0.0 : 0.02);
    return cost + (p.map == MAP_UNIFORM ? 0.01 : 0.0);
}

static const char *const launch_params[] = {"BLOCKS_PER_PROGRAM", NULL};

const mxgen_template mx_rows_template = {
    .name = "mx_rows",
    .formats = MX_ALL_FORMATS,
    .layouts = 1u << MX_LAYOUT_FLAT | 1u << MX_LAYOUT_ROWS,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .applies = applies,
    .explored = explored,
    .describe = describe,
    .cost = cost,
    .emit = mx_rows_emit,
    .launch_params = launch_params,
};
