/* Rows that start anywhere: the layout rows for targets that load words only at their alignment.
 *
 * A warp takes NUM_LOADS groups of blocks of one row a step. The step's elements pass through
 * shared memory, from or to chunks that are aligned in global memory; lanes read and write them
 * there at their own alignment, shifted by what the row is off. Records are staged as elsewhere. */
#include "gen/template.h"

#include <stdio.h>

#include "templates/mx_block.h"
#include "templates/mx_launch.h"
#include "templates/mx_stage.h"

enum { MOST_LOADS = 4, LEAST_BLOCKS = 4 /* hold 32 bytes, packed or not */ };

typedef struct plan {
    mxgen_key key;
    int lanes_per_block, count, loads, warps;
    int group;       /* blocks of one load of a warp */
    int step_blocks; /* group * loads */
    int block_bytes, elem_bytes, record_align;
    int lane_bytes;                 /* a lane's elements of a block */
    int plain_bytes, records_bytes; /* of a step */
    int region_bytes;               /* of a warp, in shared memory */
    unsigned flags;
} plan;

static plan plan_of(const mxgen_spec *spec)
{
    plan p = {.key = spec->key};
    p.lanes_per_block = mxgen_spec_param(spec, "LANES_PER_BLOCK");
    p.count = MX_BLOCK_ELEMENTS / p.lanes_per_block;
    p.loads = mxgen_spec_param(spec, "NUM_LOADS");
    p.warps = mxgen_spec_param(spec, "num_warps");
    p.group = spec->target->lanes / p.lanes_per_block;
    p.step_blocks = p.group * p.loads;
    p.block_bytes = mx_format_get(spec->key.format)->block_bytes;
    p.elem_bytes = mx_dtype_get(spec->key.dtype)->bytes;
    p.record_align = mx_record_align(spec->key.format);
    p.lane_bytes = p.count * p.elem_bytes;
    p.plain_bytes = p.step_blocks * MX_BLOCK_ELEMENTS * p.elem_bytes;
    p.records_bytes = p.key.op == MX_OP_QDQ ? 0 : p.step_blocks * p.block_bytes;
    p.region_bytes = mx_stage_bytes(p.plain_bytes);
    p.region_bytes += p.records_bytes ? mx_stage_bytes(p.records_bytes) : 0;
    p.flags = mxgen_spec_param(spec, "CACHE") == 1 ? MXE_STREAM : 0;
    return p;
}

/* Where one step stands, at kernel time. */
typedef struct step {
    mx_shape shape;
    mxe_value row, column; /* i64: the row, and the step's first block within it */
    mxe_value first;       /* i64: packed number of that block */
    mxe_value blocks;      /* i32: that the step has, 1 at least */
    mxe_value elements;    /* i32: that it has in the row */
    mxe_value lds;         /* i64: the warp's region */
} step;

static mx_stage plain_stage(mxe *e, const plan *p, const step *s, const char *pointer,
                            const char *stride)
{
    mx_stage stage = {
        .pointer = pointer, .any_base = true, .flags = p->flags, .most_bytes = p->plain_bytes};
    mxe_value element = mxe_mul(e, s->row, mxe_param(e, stride));
    element = mxe_add(e, element, mxe_mul(e, s->column, mxe_i64(e, MX_BLOCK_ELEMENTS)));
    stage.global = mxe_mul(e, element, mxe_i64(e, p->elem_bytes));
    stage.size_bytes = mxe_mul(e, s->elements, mxe_i32(e, p->elem_bytes));
    stage.lds = s->lds;
    return stage;
}

static mx_stage record_stage(mxe *e, const plan *p, const step *s)
{
    mx_stage stage = {
        .pointer = "p", .any_base = true, .flags = p->flags, .most_bytes = p->records_bytes};
    stage.global = mxe_mul(e, s->first, mxe_i64(e, p->block_bytes));
    stage.size_bytes = mxe_mul(e, s->blocks, mxe_i32(e, p->block_bytes));
    stage.lds = mxe_add(e, s->lds, mxe_i64(e, mx_stage_bytes(p->plain_bytes)));
    return stage;
}

/* The block of a lane within the step; lanes past the step's end work on what is not used. */
static mxe_value lane_block(mxe *e, const plan *p, int load)
{
    int shift = __builtin_ctz((unsigned)p->lanes_per_block);
    return mxe_add(e, mxe_lshr(e, mxe_lane(e), mxe_i32(e, shift)), mxe_i32(e, load * p->group));
}

static mxe_value lane_byte(mxe *e, const plan *p, int load)
{
    return mxe_add(e, mxe_mul(e, mxe_lane(e), mxe_i32(e, p->lane_bytes)),
                   mxe_i32(e, load * p->group * MX_BLOCK_ELEMENTS * p->elem_bytes));
}

static mxe_addr record_addr(mxe *e, const plan *p, const mx_stage *records, int load)
{
    mxe_value byte = mxe_mul(e, lane_block(e, p, load), mxe_i32(e, p->block_bytes));
    return (mxe_addr){.uniform = mx_stage_origin(e, records), .varying = byte};
}

/* The last block's elements that the row does not have count as zeros. */
static void zero_tail(mxe *e, const plan *p, const step *s, const mx_stage *plain)
{
    mxe_value whole = mxe_mul(e, s->blocks, mxe_i32(e, MX_BLOCK_ELEMENTS));
    mxe_type type = p->elem_bytes == 4 ? MXE_I32 : MXE_I16;
    mxe_value zero = mxe_const_at(e, type, 0), element = mxe_add(e, s->elements, mxe_lane(e));
    mxe_addr addr = {.uniform = mx_stage_origin(e, plain)};
    addr.varying = mxe_mul(e, element, mxe_i32(e, p->elem_bytes));
    mxe_store(e, addr, type, 1, p->elem_bytes, 0, mxe_ult(e, element, whole), &zero);
}

static void write_elements(mxe *e, const plan *p, const mx_stage *plain, int load,
                           const mxe_value *raw)
{
    mxe_value words[MX_BLOCK_ELEMENTS];
    mxe_addr addr = {.uniform = plain->lds, .varying = lane_byte(e, p, load)};
    mx_join_words(e, p->key.dtype, raw, p->count, words);
    mxe_store(e, addr, MXE_I32, p->lane_bytes / 4, 16, 0, mxe_always(), words);
}

static void step_encode(mxe *e, const plan *p, const step *s)
{
    mxe_value raw[MOST_LOADS][MX_BLOCK_ELEMENTS];
    mx_stage plain = plain_stage(e, p, s, "x", "x_row_stride"), records = {0};
    bool qdq = p->key.op == MX_OP_QDQ;
    if (!qdq)
        records = record_stage(e, p, s);
    mx_stage_fill_early(e, &plain);
    zero_tail(e, p, s, &plain);
    mxe_warp_sync(e);
    for (int u = 0; u < p->loads; u++) {
        mxe_value words[MX_BLOCK_ELEMENTS];
        mx_stage_read(e, &plain, lane_byte(e, p, u), p->lane_bytes / 4, p->elem_bytes, words);
        mx_split_words(e, p->key.dtype, words, p->count, raw[u]);
    }
    if (qdq)
        mxe_warp_sync(e);
    for (int u = 0; u < p->loads; u++) {
        mx_codes codes;
        mx_encode(e, &s->shape, raw[u], &codes);
        if (qdq) {
            mxe_value out[MX_BLOCK_ELEMENTS];
            mx_decode(e, &s->shape, &codes, raw[u], out);
            write_elements(e, p, &plain, u, out);
            continue;
        }
        mx_record record;
        mx_pack(e, &s->shape, &codes, &record);
        mx_record_store(e, &s->shape, &record, record_addr(e, p, &records, u), p->record_align, 0,
                        mxe_always());
    }
    mxe_warp_sync(e);
    if (qdq) {
        mx_stage to = plain_stage(e, p, s, "y", "y_row_stride");
        mx_stage_flush_shifted(e, &to, p->elem_bytes);
    } else {
        mx_stage_flush(e, &records);
    }
    mxe_warp_sync(e);
}

static void step_decode(mxe *e, const plan *p, const step *s)
{
    mx_record loaded[MOST_LOADS];
    mx_stage records = record_stage(e, p, s), plain = plain_stage(e, p, s, "y", "y_row_stride");
    mx_stage_fill_early(e, &records);
    mxe_warp_sync(e);
    for (int u = 0; u < p->loads; u++) {
        mx_record_to_load(&s->shape, &loaded[u]);
        mx_record_load(e, &s->shape, &loaded[u], record_addr(e, p, &records, u), p->record_align,
                       0);
    }
    for (int u = 0; u < p->loads; u++) {
        mx_codes codes;
        mxe_value out[MX_BLOCK_ELEMENTS];
        mx_unpack(e, &s->shape, &loaded[u], &codes);
        mx_decode(e, &s->shape, &codes, NULL, out);
        write_elements(e, p, &plain, u, out);
    }
    mxe_warp_sync(e);
    mx_stage_flush_shifted(e, &plain, p->elem_bytes);
    mxe_warp_sync(e);
}

static mxe_value cut_to(mxe *e, mxe_value left, int most)
{
    return mxe_zext(e, mxe_umin(e, left, mxe_i64(e, most)), MXE_I32);
}

static void emit_step(mxe *e, const plan *p, step *s, mxe_value index)
{
    mxe_branch branch;
    mxe_value bpr = mxe_param(e, "bpr");
    s->column = mxe_mul(e, index, mxe_i64(e, p->step_blocks));
    mxe_if_begin(e, &branch, mxe_slt(e, s->column, bpr));
    s->first = mxe_add(e, mxe_mul(e, s->row, bpr), s->column);
    s->blocks = cut_to(e, mxe_sub(e, bpr, s->column), p->step_blocks);
    mxe_value element = mxe_mul(e, s->column, mxe_i64(e, MX_BLOCK_ELEMENTS));
    s->elements =
        cut_to(e, mxe_sub(e, mxe_param(e, "len"), element), p->step_blocks * MX_BLOCK_ELEMENTS);
    if (p->key.op == MX_OP_FROM)
        step_decode(e, p, s);
    else
        step_encode(e, p, s);
    mxe_if_end(e, &branch);
}

static void emit(mxe *e, const mxgen_spec *spec, const mxgen_kernel *kernel)
{
    plan p = plan_of(spec);
    step s = {.shape = {p.key.format, p.key.dtype, p.key.profile, p.lanes_per_block, p.count,
                        mxe_i32(e, 0)}};
    mxe_loop loop;
    mxe_value program, warp = mxe_zext(e, mxe_warp(e), MXE_I64), steps = mxe_param(e, "steps");
    mxe_lds_reserve(e, kernel->lds_bytes);
    if (p.lanes_per_block > 1)
        s.shape.part = mxe_and(e, mxe_lane(e), mxe_i32(e, p.lanes_per_block - 1));
    s.lds = mxe_mul(e, warp, mxe_i64(e, p.region_bytes));
    mx_divide(e, mxe_program_id(e), mxe_param(e, "chunks"), &s.row, &program);
    mxe_value i = mxe_for_begin(e, &loop, mxe_i64(e, 0), steps, mxe_i64(e, 1));
    mxe_value index = mxe_add(e, mxe_mul(e, program, steps), i);
    index = mxe_add(e, mxe_mul(e, index, mxe_i64(e, p.warps)), warp);
    emit_step(e, &p, &s, index);
    mxe_for_end(e, &loop);
}

/* ---- Descriptor ---- */

static const int lanes_values[] = {1, 2, 4}, loads_values[] = {1, 2, 4};
static const int warps_values[] = {1, 2, 4, 8}, flag_values[] = {0, 1};
static const int blocks_values[] = {32, 64, 128, 256, 512, 1024};

#define VALUES(v) v, sizeof(v) / sizeof((v)[0])
static const mxgen_param params[] = {
    {"BLOCKS_PER_PROGRAM", VALUES(blocks_values)},
    {"num_warps", VALUES(warps_values)},
    {"LANES_PER_BLOCK", VALUES(lanes_values)},
    {"NUM_LOADS", VALUES(loads_values)},
    {"CACHE", VALUES(flag_values)},
};

static bool applies(const mxgen_spec *spec, char *why, size_t why_bytes)
{
    plan p = plan_of(spec);
    const mxgen_target *target = spec->target;
    int blocks = mxgen_spec_param(spec, "BLOCKS_PER_PROGRAM"), share = p.step_blocks * p.warps;
    if (target->simd_width > 1)
        return snprintf(why, why_bytes, "%s reads rows at any alignment", target->name), false;
    if (!mx_lanes_fit(spec, p.lanes_per_block, why, why_bytes) ||
        !mx_warps_fit(spec, p.warps, why, why_bytes))
        return false;
    if (p.lane_bytes % 16)
        return snprintf(why, why_bytes,
                        "LANES_PER_BLOCK %d: a lane has %d bytes of a block, less "
                        "than 16",
                        p.lanes_per_block, p.lane_bytes),
               false;
    if (blocks % share)
        return snprintf(why, why_bytes,
                        "BLOCKS_PER_PROGRAM %d: must be a multiple of NUM_LOADS * num_warps * "
                        "lanes / LANES_PER_BLOCK = %d",
                        blocks, share),
               false;
    if (p.warps * p.region_bytes > target->lds_bytes)
        return snprintf(why, why_bytes, "%d bytes of shared memory, %s has %d",
                        p.warps * p.region_bytes, target->name, target->lds_bytes),
               false;
    return true;
}

static int steps_of(const mxgen_spec *spec, const plan *p)
{
    return mxgen_spec_param(spec, "BLOCKS_PER_PROGRAM") / (p->step_blocks * p->warps);
}

/* The declared set: targets that need it; packing with one lane a block or, like the others, 16
 * bytes a lane; one to two KiB a step; few steps. */
static bool explored(const mxgen_spec *spec)
{
    plan p = plan_of(spec);
    int steps = steps_of(spec, &p), most = p.key.op == MX_OP_FROM ? 2 : 4;
    bool to = p.key.op == MX_OP_TO;
    if (mxgen_target_has(spec->target, MXGEN_CAP_UNALIGNED) || !p.flags || p.warps != 4)
        return false;
    if (p.key.profile == MX_PROFILE_DEMOTED_255 && (steps != 1 || p.loads != MOST_LOADS))
        return false;
    if (steps > most || (to && steps == 1))
        return false;
    if (to && p.lanes_per_block == 1)
        return p.plain_bytes == 2048;
    return p.lane_bytes == 16 && p.plain_bytes >= (to ? 2048 : 1024);
}

static void describe_plain(mxgen_kernel *kernel, const plan *p, const char *name, unsigned flags)
{
    mxgen_kernel_pointer(kernel, name, flags, p->elem_bytes);
    mxgen_kernel_rule(kernel, "the axis has unit stride", "%s_axis_stride == 1", name);
}

static void describe(const mxgen_spec *spec, mxgen_kernel *kernel)
{
    plan p = plan_of(spec);
    int blocks = mxgen_spec_param(spec, "BLOCKS_PER_PROGRAM");
    kernel->threads = p.warps * spec->target->lanes;
    kernel->lds_bytes = p.warps * p.region_bytes;
    mxgen_kernel_rule(kernel, "one row dimension is left after merging", "n_dims <= 1");
    int least = p.step_blocks / 4 < LEAST_BLOCKS ? LEAST_BLOCKS : p.step_blocks / 4;
    mxgen_kernel_rule(kernel, "rows fill a quarter of a step", "bpr >= %d", least);
    if (p.key.op != MX_OP_FROM)
        describe_plain(kernel, &p, "x", mx_pointer_flags(p.key.op, false));
    if (p.key.op != MX_OP_QDQ)
        mx_describe_packed(kernel, &p.key, p.record_align);
    if (p.key.op != MX_OP_TO)
        describe_plain(kernel, &p, "y", mx_pointer_flags(p.key.op, true));
    snprintf(kernel->grid_x, sizeof(kernel->grid_x), "rows * ceil_div(bpr, %d)", blocks);
    mxgen_kernel_scalar(kernel, "steps", MXE_ARG_I64, "%d", blocks / (p.step_blocks * p.warps));
    mxgen_kernel_scalar(kernel, "chunks", MXE_ARG_I64, "ceil_div(bpr, %d)", blocks);
    mxgen_kernel_scalar(kernel, "bpr", MXE_ARG_I64, "bpr");
    mxgen_kernel_scalar(kernel, "len", MXE_ARG_I64, "len");
    if (p.key.op != MX_OP_FROM)
        mxgen_kernel_scalar(kernel, "x_row_stride", MXE_ARG_I64, "dim0_x_stride");
    if (p.key.op != MX_OP_TO)
        mxgen_kernel_scalar(kernel, "y_row_stride", MXE_ARG_I64, "dim0_y_stride");
}

/* As found on an H200: unpacking and qdq of rows that allow narrower accesses than 16 bytes only
 * are faster this way, packing only of rows that allow single elements only. */
static double cost(const mxgen_spec *spec)
{
    plan p = plan_of(spec);
    int steps = steps_of(spec, &p), best_steps = 4;
    double cost = (p.key.op == MX_OP_TO ? 1.4 : 1.2) + (p.plain_bytes == 2048 ? 0.0 : 0.02);
    if (p.key.op == MX_OP_TO)
        cost += p.lanes_per_block == 1 ? 0.0 : 0.03;
    else
        best_steps = p.elem_bytes == 4 ? 1 : p.key.op == MX_OP_FROM ? 2 : 4;
    return cost + (steps == best_steps ? 0.0 : steps == 2 ? 0.005 : 0.01);
}

static const char *const launch_params[] = {"BLOCKS_PER_PROGRAM", NULL};

const mxgen_template mx_unaligned_template = {
    .name = "mx_unaligned",
    .formats = MX_PACKED_FORMATS,
    .layouts = 1u << MX_LAYOUT_ROWS,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .applies = applies,
    .explored = explored,
    .describe = describe,
    .cost = cost,
    .emit = emit,
    .launch_params = launch_params,
};
