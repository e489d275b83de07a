#include "templates/gemm_skinny.h"

#include <stdio.h>

#include "templates/mx_launch.h"

enum { LEAST_STAGES = 2 };

static skinny_plan plan_of(const mxgen_spec *spec)
{
    /* What f16 holds: E2M1 as 2^-14 of it on the right; on the left as much as there is room for.
     * bf16 goes as bf16. */
    static const int exponents[MXGEN_OPERAND_COUNT] = {13, 7, 14, 0};
    static const int words[MXGEN_OPERAND_COUNT] = {1, 2, 2, 4};
    mxgen_operand left = spec->key.gemm.left;
    skinny_plan p = {.key = spec->key,
                     .warps = mxgen_spec_param(spec, "num_warps"),
                     .blocks = mxgen_spec_param(spec, "SLICE"),
                     .columns = mxgen_spec_param(spec, "BLOCK_SIZE_N"),
                     .half = left == MXGEN_OPERAND_BF16 ? MX_DTYPE_BF16 : MX_DTYPE_F16,
                     .exponent = exponents[left],
                     .left_words = words[left]};
    p.tiles = p.columns / SKINNY_ROWS;
    p.left_rows = (SKINNY_ROWS + p.warps - 1) / p.warps;
    /* No two lanes meet in a bank when the sums are written. */
    p.sum_pitch = p.columns + 4;
    p.sum_bytes = SKINNY_ROWS * p.sum_pitch * 4;
    int rest = SKINNY_SETS * p.warps * p.sum_bytes + p.warps * p.blocks * SKINNY_SCALE_BYTES +
               (SKINNY_MOST_STAGES + SKINNY_SETS) * MXE_SIGNAL_BYTES;
    p.ring_bytes = (spec->target->lds_large_bytes - rest) / 1024 * 1024;
    p.sums_at = p.ring_bytes;
    p.scales_at = p.sums_at + SKINNY_SETS * p.warps * p.sum_bytes;
    p.signals_at = p.scales_at + p.warps * p.blocks * SKINNY_SCALE_BYTES;
    p.lds_bytes = p.signals_at + (SKINNY_MOST_STAGES + SKINNY_SETS) * MXE_SIGNAL_BYTES;
    return p;
}

static mxe_value ceil_div(mxe *e, mxe_value a, int b)
{
    mxe_value sum = mxe_add(e, a, mxe_i32(e, b - 1));
    return mxe_udiv(e, sum, mxe_i32(e, b));
}

/* Programs differ in the length of their runs by one at most. */
static mxe_value run_begin(mxe *e, mxe_value program, mxe_value units, mxe_value grid)
{
    mxe_value each = mxe_udiv(e, units, grid);
    mxe_value rest = mxe_sub(e, units, mxe_mul(e, each, grid));
    return mxe_add(e, mxe_mul(e, program, each), mxe_umin(e, program, rest));
}

static void new_variables(mxe *e, skinny_work *g)
{
    const skinny_plan *p = g->p;
    mxe_value zero = mxe_i32(e, 0), none = mxe_varying(e, zero);
    mxe_value nothing = mxe_varying(e, mxe_f32(e, 0));
    g->stage = mxe_var_new(e, zero), g->parity = mxe_var_new(e, zero);
    g->turn = mxe_var_new(e, zero);
    g->left = mxe_var_new(e, zero), g->column = mxe_var_new(e, zero);
    g->group_at = mxe_var_new(e, mxe_i64(e, 0));
    for (int i = 0; i < 2 * p->blocks * MXE_FRAGMENT_WORDS; i++)
        g->words[i % 2][i / 2 / MXE_FRAGMENT_WORDS][i / 2 % MXE_FRAGMENT_WORDS] =
            mxe_var_new(e, none);
    for (int t = 0; t < p->tiles; t++) {
        for (int i = 0; i < 8; i++)
            g->sums[t][i / 4][i % 4] = mxe_var_new(e, nothing);
    }
    for (int r = 0; r < 2 * p->tiles; r++) {
        for (int i = 0; i < p->blocks; i += 4)
            g->scale[r][i / 4] = mxe_var_new(e, none);
    }
}

/* What of a lane's addresses stays the same from unit to unit. */
static void find_places(mxe *e, skinny_work *g)
{
    const skinny_plan *p = g->p;
    mxe_value last = mxe_sub(e, g->n_blocks, mxe_i32(e, 1)), four = mxe_i32(e, 4);
    mxe_value row = mxe_and(e, g->lane, mxe_i32(e, p->columns - 1));
    mxe_value more = mxe_lshr(e, g->lane, mxe_i32(e, __builtin_ctz((unsigned)p->columns)));
    mxe_value at = mxe_mul(e, row, g->pitch);
    /* Lane l names row l of a block, or row l % 16 of block l / 16 of a pair. */
    for (int i = 0; i < p->blocks; i += SKINNY_MOST_TILES / p->tiles) {
        mxe_value block = mxe_add(e, mxe_add(e, g->first, more), mxe_i32(e, i));
        block = mxe_mul(e, mxe_umin(e, block, last), mxe_i32(e, GEMM_BLOCK / 2));
        g->lane_bytes[i] = mxe_add(e, at, block);
    }
    for (int i = 0; i < p->blocks; i += 4) {
        mxe_value block = mxe_add(e, mxe_add(e, g->first, g->quarter), mxe_i32(e, i));
        g->scale_at[i / 4] =
            mxe_mul(e, mxe_umin(e, block, last), skinny_param(e, "right_scale_block_stride"));
    }
    mxe_value mine = mxe_mul(e, mxe_warp(e), mxe_i32(e, p->sum_bytes));
    mine = mxe_add(e, mine, mxe_i32(e, p->sums_at));
    at = mxe_add(e, mxe_mul(e, g->quarter, mxe_i32(e, 2 * p->sum_pitch)), g->row);
    g->sums_to = mxe_add(e, mxe_mul(e, at, four), mine);
    at = mxe_mul(e, mxe_warp(e), mxe_i32(e, 4 * p->sum_pitch));
    g->sums_from = mxe_add(e, mxe_add(e, mxe_mul(e, row, four), at), mxe_i32(e, p->sums_at));
}

static void start(mxe *e, const skinny_plan *p, skinny_work *g)
{
    mxe_value zero = mxe_i32(e, 0), one = mxe_i32(e, 1);
    *g = (skinny_work){.p = p, .lane = mxe_lane(e)};
    g->row = mxe_lshr(e, g->lane, mxe_i32(e, 2));
    g->quarter = mxe_and(e, g->lane, mxe_i32(e, 3));
    g->n_blocks = mxe_lshr(e, skinny_param(e, "k"), mxe_i32(e, 5));
    mxe_value each = ceil_div(e, g->n_blocks, p->warps);
    g->first = mxe_mul(e, mxe_warp(e), each);
    g->count = mxe_smin(e, each, mxe_smax(e, mxe_sub(e, g->n_blocks, g->first), zero));
    g->pitch = mxe_mul(e, mxe_or(e, g->n_blocks, one), mxe_i32(e, GEMM_BLOCK / 2));
    g->stage_bytes = mxe_mul(e, g->pitch, mxe_i32(e, p->columns));
    g->stages = mxe_umin(e, mxe_udiv(e, mxe_i32(e, p->ring_bytes), g->stage_bytes),
                         mxe_i32(e, SKINNY_MOST_STAGES));
    g->tiles_n = ceil_div(e, skinny_param(e, "n"), p->columns);
    new_variables(e, g);
    find_places(e, g);
}

static mxe_value signal_of(mxe *e, const skinny_plan *p, mxe_value stage)
{
    return mxe_add(e, mxe_mul(e, stage, mxe_i32(e, MXE_SIGNAL_BYTES)), mxe_i32(e, p->signals_at));
}

static void init_signals(mxe *e, const skinny_plan *p)
{
    mxe_branch thread;
    mxe_value zero = mxe_i32(e, 0);
    mxe_value first = mxe_and(e, mxe_eq(e, mxe_warp(e), zero), mxe_eq(e, mxe_lane(e), zero));
    mxe_if_begin(e, &thread, mxe_any(e, first));
    for (int i = 0; i < SKINNY_MOST_STAGES + SKINNY_SETS; i++) {
        /* A warp's first lane announces copies; of sums each lane vouches for its own. */
        int arrivals = i < SKINNY_MOST_STAGES ? p->warps : p->warps * e->lanes;
        mxe_signal_init(e, mxe_i32(e, p->signals_at + i * MXE_SIGNAL_BYTES), arrivals);
    }
    mxe_signal_fence(e);
    mxe_if_end(e, &thread);
    mxe_barrier(e);
}

/* ---- The right operand: copies ahead ---- */

/* Each warp copies the rows whose number modulo the warps' is its own, a lane a row. */
static void copy_rows(mxe *e, skinny_work *g, mxe_value stage)
{
    mxe_branch some, first;
    int warps = g->p->warps, rows = g->p->columns;
    mxe_value last = mxe_sub(e, skinny_param(e, "n"), mxe_i32(e, 1)), warp = mxe_warp(e);
    mxe_value bytes = mxe_mul(e, g->n_blocks, mxe_i32(e, GEMM_BLOCK / 2));
    mxe_value mine = ceil_div(e, mxe_sub(e, mxe_i32(e, rows), warp), warps);
    mxe_value signal = signal_of(e, g->p, stage);
    mxe_value begin = mxe_mul(e, mxe_var_get(e, g->column), mxe_i32(e, rows));
    mxe_value row = mxe_add(e, mxe_mul(e, g->lane, mxe_i32(e, warps)), warp);
    mxe_value from = mxe_zext(e, mxe_umin(e, mxe_add(e, begin, row), last), MXE_I64);
    from = mxe_mul(e, from, mxe_param(e, "right_row_stride"));
    from = mxe_add(e, mxe_var_get(e, g->group_at), from);
    mxe_value to = mxe_add(e, mxe_mul(e, stage, g->stage_bytes), mxe_mul(e, row, g->pitch));
    mxe_if_begin(e, &some, mxe_any(e, mxe_ult(e, row, mxe_i32(e, rows))));
    mxe_if_begin(e, &first, mxe_any(e, mxe_eq(e, g->lane, mxe_i32(e, 0))));
    mxe_signal_expect(e, signal, mxe_mul(e, bytes, mine));
    mxe_if_end(e, &first);
    mxe_bulk_load(e, to, "right", from, bytes, signal);
    mxe_if_end(e, &some);
}

/* Starts the copy of the next unit of the program's run, if there is one. */
static void copy_next(mxe *e, skinny_work *g, mxe_value stage)
{
    mxe_branch more, other;
    skinny_run run;
    mxe_value zero = mxe_i32(e, 0), one = mxe_i32(e, 1), unit = mxe_var_get(e, g->next);
    mxe_if_begin(e, &more, mxe_ult(e, unit, g->end));
    mxe_if_begin(e, &other, mxe_eq(e, mxe_var_get(e, g->left), zero));
    skinny_find(e, unit, g->tiles_n, &run);
    mxe_var_set(e, g->column, run.column);
    mxe_var_set(e, g->left, mxe_sub(e, g->tiles_n, run.column));
    mxe_var_set(e, g->group_at, mxe_mul(e, run.group, mxe_param(e, "right_group_stride")));
    mxe_if_end(e, &other);
    copy_rows(e, g, stage);
    mxe_var_set(e, g->next, mxe_add(e, unit, one));
    mxe_var_set(e, g->column, mxe_add(e, mxe_var_get(e, g->column), one));
    mxe_var_set(e, g->left, mxe_sub(e, mxe_var_get(e, g->left), one));
    mxe_if_end(e, &more);
}

static void fill_ring(mxe *e, skinny_work *g)
{
    mxe_loop loop;
    mxe_value stages = mxe_zext(e, g->stages, MXE_I64);
    mxe_value stage = mxe_for_begin(e, &loop, mxe_i64(e, 0), stages, mxe_i64(e, 1));
    copy_next(e, g, mxe_zext(e, stage, MXE_I32));
    mxe_for_end(e, &loop);
}

/* ---- Units ---- */

static void next_stage(mxe *e, skinny_work *g)
{
    mxe_value one = mxe_i32(e, 1), zero = mxe_i32(e, 0);
    mxe_value stage = mxe_add(e, mxe_var_get(e, g->stage), one);
    mxe_value over = mxe_eq(e, stage, g->stages), parity = mxe_var_get(e, g->parity);
    mxe_var_set(e, g->stage, mxe_select(e, over, zero, stage));
    mxe_var_set(e, g->parity, mxe_select(e, over, mxe_sub(e, one, parity), parity));
}

/* What comes after the unit `column` of the run, number `turn`, in the ring's stage `stage`. */
static void finish_unit(mxe *e, skinny_work *g, const skinny_run *run, mxe_value column,
                        mxe_value turn, mxe_value stage)
{
    skinny_wait_sums(e, g, turn);
    copy_next(e, g, stage);
    skinny_add_up(e, g, run, column, turn);
}

/* Its own sums, then what is left to do of the unit before. */
static void do_unit(mxe *e, skinny_work *g, const skinny_run *run, mxe_value column, mxe_value last)
{
    mxe_branch any, before;
    mxe_value stage = mxe_var_get(e, g->stage), turn = mxe_var_get(e, g->turn);
    mxe_value one = mxe_i32(e, 1), zero = mxe_i32(e, 0);
    mxe_signal_wait(e, signal_of(e, g->p, stage), mxe_var_get(e, g->parity));
    mxe_if_begin(e, &any, mxe_slt(e, zero, g->count));
    skinny_multiply(e, g, run, stage, mxe_umin(e, mxe_add(e, column, one), last));
    mxe_if_end(e, &any);
    skinny_write_sums(e, g, turn);
    mxe_if_begin(e, &before, mxe_ne(e, column, run->column));
    mxe_value wrapped = mxe_sub(e, g->stages, one);
    mxe_value earlier = mxe_select(e, mxe_eq(e, stage, zero), wrapped, mxe_sub(e, stage, one));
    finish_unit(e, g, run, mxe_sub(e, column, one), mxe_sub(e, turn, one), earlier);
    mxe_if_end(e, &before);
    mxe_var_set(e, g->turn, mxe_add(e, turn, one));
    next_stage(e, g);
}

static void do_units(mxe *e, skinny_work *g, mxe_value begin)
{
    mxe_while runs;
    mxe_loop loop;
    skinny_run run;
    mxe_value zero = mxe_i64(e, 0), one = mxe_i64(e, 1), nothing = mxe_varying(e, mxe_f32(e, 0));
    mxe_var unit = mxe_var_new(e, begin);
    mxe_while_begin(e, &runs);
    mxe_while_do(e, &runs, mxe_ult(e, mxe_var_get(e, unit), g->end));
    skinny_find(e, mxe_var_get(e, unit), g->tiles_n, &run);
    mxe_value count =
        mxe_umin(e, mxe_sub(e, g->tiles_n, run.column), mxe_sub(e, g->end, mxe_var_get(e, unit)));
    mxe_value last = mxe_sub(e, mxe_add(e, run.column, count), mxe_i32(e, 1));
    skinny_load_left(e, g, &run);
    skinny_load_scales(e, g, &run, run.column);
    /* What narrow products leave alone. */
    for (int i = 0; i < 4 * g->p->tiles; i++)
        mxe_var_set(e, g->sums[i / 4][1][i % 4], nothing);
    mxe_value i = mxe_for_begin(e, &loop, zero, mxe_zext(e, count, MXE_I64), one);
    do_unit(e, g, &run, mxe_add(e, run.column, mxe_zext(e, i, MXE_I32)), last);
    mxe_for_end(e, &loop);
    mxe_value stage = mxe_var_get(e, g->stage), first = mxe_i32(e, 0);
    mxe_value wrapped = mxe_sub(e, g->stages, mxe_i32(e, 1));
    stage = mxe_select(e, mxe_eq(e, stage, first), wrapped, mxe_sub(e, stage, mxe_i32(e, 1)));
    finish_unit(e, g, &run, last, mxe_sub(e, mxe_var_get(e, g->turn), mxe_i32(e, 1)), stage);
    mxe_var_set(e, unit, mxe_add(e, mxe_var_get(e, unit), count));
    mxe_while_end(e, &runs);
}

/* ---- Rows that nobody owns ---- */

static void clear_rows(mxe *e, const skinny_work *g, mxe_value begin, mxe_value end)
{
    mxe_loop rows, columns;
    const skinny_plan *p = g->p;
    int bytes = mx_dtype_get(p->key.dtype)->bytes;
    mxe_value n = mxe_param(e, "n"), threads = mxe_i64(e, p->warps * e->lanes);
    mxe_value first = mxe_mul(e, mxe_zext(e, mxe_warp(e), MXE_I64), mxe_i64(e, e->lanes));
    mxe_value lane = mxe_zext(e, g->lane, MXE_I64);
    mxe_value zero = mxe_varying(e, mxe_const_at(e, bytes == 4 ? MXE_I32 : MXE_I16, 0));
    mxe_value from = mxe_add(e, begin, mxe_program_id(e));
    mxe_value row = mxe_for_begin(e, &rows, from, end, mxe_param(e, "grid"));
    mxe_value at = mxe_mul(e, row, mxe_param(e, "out_row_stride"));
    mxe_value column = mxe_for_begin(e, &columns, first, n, threads);
    mxe_value mine = mxe_add(e, column, lane);
    mxe_addr to = {.pointer = "out",
                   .varying = mxe_mul(e, mxe_add(e, at, mine), mxe_i64(e, bytes))};
    mxe_store(e, to, zero.type, 1, bytes, 0, mxe_slt(e, mine, n), &zero);
    mxe_for_end(e, &columns);
    mxe_for_end(e, &rows);
}

static void clear_unowned(mxe *e, const skinny_work *g, const skinny_total *total)
{
    mxe_branch stores;
    mxe_value zero = mxe_i64(e, 0), out_rows = mxe_param(e, "out_rows");
    mxe_value first = mxe_load_uniform(e, "write_offsets", zero, MXE_I64);
    first = mxe_smin(e, mxe_smax(e, first, zero), out_rows);
    mxe_if_begin(e, &stores, mxe_eq(e, mxe_param(e, "accumulate"), mxe_i32(e, 0)));
    clear_rows(e, g, zero, first);
    clear_rows(e, g, total->out_end, out_rows);
    mxe_if_end(e, &stores);
}

/* ---- The template ---- */

static void emit(mxe *e, const mxgen_spec *spec, const mxgen_kernel *kernel)
{
    skinny_plan p = plan_of(spec);
    skinny_work g;
    mxe_branch first;
    mxe_lds_reserve(e, kernel->lds_bytes);
    start(e, &p, &g);
    skinny_total total = skinny_count(e);
    mxe_value units = mxe_mul(e, total.tiles, g.tiles_n), grid = skinny_param(e, "grid");
    mxe_value program = mxe_zext(e, mxe_program_id(e), MXE_I32);
    mxe_value begin = run_begin(e, program, units, grid);
    g.end = run_begin(e, mxe_add(e, program, mxe_i32(e, 1)), units, grid);
    g.next = mxe_var_new(e, begin);
    init_signals(e, &p);
    fill_ring(e, &g);
    mxe_value is_first = mxe_and(e, mxe_eq(e, program, mxe_i32(e, 0)),
                                 mxe_eq(e, mxe_warp(e), mxe_i32(e, p.warps - 1)));
    mxe_if_begin(e, &first, is_first);
    skinny_write_status(e);
    mxe_if_end(e, &first);
    clear_unowned(e, &g, &total);
    do_units(e, &g, begin);
}

static bool applies(const mxgen_spec *spec, char *why, size_t why_bytes)
{
    const mxgen_gemm_key *key = &spec->key.gemm;
    skinny_plan p = plan_of(spec);
    if (!mxgen_target_has(spec->target, MXGEN_CAP_TILE_MMA))
        snprintf(why, why_bytes, "the target has no bulk copies");
    else if (key->right != MXGEN_OPERAND_MXFP4)
        snprintf(why, why_bytes, "the right operand is MXFP4");
    else if (!key->exact)
        snprintf(why, why_bytes, "the kernel is an exact one");
    else if (p.columns < p.warps)
        snprintf(why, why_bytes, "BLOCK_SIZE_N %d: less than a row for each of %d warps", p.columns,
                 p.warps);
    else
        return mx_warps_fit(spec, p.warps, why, why_bytes);
    return false;
}

static bool explored(const mxgen_spec *spec)
{
    skinny_plan p = plan_of(spec);
    /* Few warps with many registers each; rows of 16 where the blocks leave no room for more sums.
     */
    return p.warps == 8 && (p.columns == 32 ? p.blocks == 8 || p.blocks == 12 : p.blocks == 16);
}

static void describe_operand(mxgen_kernel *kernel, const char *name, int align_bytes)
{
    unsigned flags = MXE_ARG_READONLY | MXE_ARG_NOALIAS;
    bool left = name[0] == 'l';
    char stride[40];
    mxgen_kernel_pointer(kernel, name, flags, align_bytes);
    snprintf(stride, sizeof(stride), "%s_row_stride", name);
    mxgen_kernel_scalar(kernel, left ? "left_row_stride" : "right_row_stride", MXE_ARG_I64, "%s",
                        stride);
    mxgen_kernel_rule(kernel,
                      left ? "left: a lane's elements are aligned"
                           : "right: rows start at multiples of 16 bytes",
                      "%s_align >= %d && %s_row_stride %% %d == 0 && %s_group_stride %% %d == 0",
                      name, align_bytes, name, align_bytes, name, align_bytes);
}

static void describe(const mxgen_spec *spec, mxgen_kernel *kernel)
{
    skinny_plan p = plan_of(spec);
    unsigned flags = MXE_ARG_READONLY | MXE_ARG_NOALIAS;
    kernel->threads = p.warps * spec->target->lanes;
    kernel->lds_bytes = p.lds_bytes;
    kernel->min_programs_per_cu = 1;
    snprintf(kernel->grid_x, sizeof(kernel->grid_x),
             "max(1, min(num_cu, (ceil_div(out_rows, %d) + groups) * ceil_div(n, %d)))",
             SKINNY_ROWS, p.columns);
    gemm_describe_walk(kernel, MXGEN_PASS_ROWS);
    mxgen_kernel_scalar(kernel, "grid", MXE_ARG_I64, "%s", kernel->grid_x);
    mxgen_kernel_pointer(kernel, "status", MXE_ARG_WRITEONLY, 4);
    describe_operand(kernel, "left", 4 * p.left_words);
    if (spec->key.gemm.left != MXGEN_OPERAND_BF16) {
        mxgen_kernel_pointer(kernel, "left_scales", flags, 1);
        mxgen_kernel_scalar(kernel, "left_scale_row_stride", MXE_ARG_I64, "left_scale_row_stride");
        mxgen_kernel_scalar(kernel, "left_scale_block_stride", MXE_ARG_I64,
                            "left_scale_block_stride");
    }
    describe_operand(kernel, "right", 16);
    mxgen_kernel_scalar(kernel, "right_group_stride", MXE_ARG_I64, "right_group_stride");
    mxgen_kernel_pointer(kernel, "right_scales", flags, 1);
    mxgen_kernel_scalar(kernel, "right_scale_row_stride", MXE_ARG_I64, "right_scale_row_stride");
    mxgen_kernel_scalar(kernel, "right_scale_block_stride", MXE_ARG_I64,
                        "right_scale_block_stride");
    mxgen_kernel_scalar(kernel, "right_scale_group_stride", MXE_ARG_I64,
                        "right_scale_group_stride");
    mxgen_kernel_pointer(kernel, "out", 0, mx_dtype_get(spec->key.dtype)->bytes);
    mxgen_kernel_scalar(kernel, "out_row_stride", MXE_ARG_I64, "out_row_stride");
    mxgen_kernel_rule(kernel, "the contraction fits the warps' registers and the ring",
                      "k <= %d && (k / 32 / 2 * 2 + 1) * %d <= %d", p.warps * p.blocks * GEMM_BLOCK,
                      LEAST_STAGES * p.columns * GEMM_BLOCK / 2, p.ring_bytes);
    mxgen_kernel_rule(kernel, "rows and units are counted in 31 bits",
                      "m <= %d && out_rows <= %d && n <= %d && (ceil_div(out_rows, %d) + groups) * "
                      "ceil_div(n, %d) <= %d",
                      0x7fffff00, 0x7fffff00, 0x7fffff00, SKINNY_ROWS, SKINNY_ROWS, 0x7fffff00);
    mxgen_kernel_rule(kernel, "right_scales: a unit's offsets are counted in 31 bits",
                      "right_scale_row_stride <= %d && right_scale_block_stride <= %d",
                      0x3fffffff / p.columns, 0x3fffffff / (p.warps * p.blocks));
    mxgen_kernel_rule(kernel, "nothing is empty", "m >= 1 && n >= 1 && k >= 32 && groups >= 1");
}

/* For few rows a group alone: the others come first. */
static double cost(const mxgen_spec *spec)
{
    skinny_plan p = plan_of(spec);
    return 1000.0 + p.blocks * p.warps + 1.0 / p.columns;
}

static const int warp_values[] = {16, 12, 8}, block_values[] = {4, 6, 8, 12, 16},
                 rows_values[] = {SKINNY_ROWS}, column_values[] = {32, 16};
static const mxgen_param params[] = {{"BLOCK_SIZE_M", rows_values, 1},
                                     {"BLOCK_SIZE_N", column_values, 2},
                                     {"num_warps", warp_values, 3},
                                     {"SLICE", block_values, 5}};

const mxgen_template gemm_skinny_template = {
    .name = "gemm_skinny",
    .passes = 1u << MXGEN_PASS_ROWS,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .applies = applies,
    .explored = explored,
    .describe = describe,
    .cost = cost,
    .emit = emit,
};
