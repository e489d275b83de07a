/* Grouped GEMM by plain fused multiply-adds: plan, product, result (gemm_host.h). */
#include "templates/gemm_host.h"

#include <stdio.h>

enum { F32_BYTES = 4, CACHE_LINE = 64, STEP = 4, MOST_ROWS = 16, MOST_VECTORS = 4 };

mxe_value gemm_host_times(mxe *e, mxe_value a, int64_t by)
{
    return mxe_mul(e, a, mxe_i64(e, by));
}

mxe_value gemm_host_plus(mxe *e, mxe_value a, int64_t more)
{
    return more ? mxe_add(e, a, mxe_i64(e, more)) : a;
}

/* ---- The plan ---- */

static void set_side(gemm_host_plan *p, int which, mxgen_operand operand)
{
    /* Scales that leave the elements, times 2^(scale - 127), normal f32 numbers. */
    static const struct {
        mxe_element element;
        int block_bytes, least, most;
    } forms[MXGEN_OPERAND_COUNT] = {{MXE_E2M1, 16, 2, 252},
                                    {MXE_E4M3, 32, 10, 246},
                                    {MXE_E5M2, 32, 17, 239},
                                    {MXE_BF16, 64, 0, 0}};
    gemm_host_side *side = &p->side[which];
    bool left = which == GEMM_LEFT;
    side->element = forms[operand].element;
    side->block_bytes = forms[operand].block_bytes;
    side->least_scale = forms[operand].least;
    side->most_scale = forms[operand].most;
    side->data = left ? "left" : "right";
    side->row_stride = left ? "left_row_stride" : "right_row_stride";
    side->group_stride = left || p->cols ? NULL : "right_group_stride";
    if (side->element == MXE_BF16)
        return;
    side->scales = left ? "left_scales" : "right_scales";
    side->scale_row_stride = left ? "left_scale_row_stride" : "right_scale_row_stride";
    side->scale_block_stride = left ? "left_scale_block_stride" : "right_scale_block_stride";
    side->scale_group_stride = left || p->cols ? NULL : "right_scale_group_stride";
}

static int place(int *at, int items)
{
    int here = *at;
    *at += (items * F32_BYTES + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    return here;
}

static gemm_host_plan plan_of(const mxgen_spec *spec)
{
    gemm_host_plan p = {.key = spec->key, .unit = mxgen_target_fma(spec->target)};
    p.cols = spec->key.gemm.pass == MXGEN_PASS_COLS;
    p.grid = (gemm_grid){.pass = spec->key.gemm.pass,
                         .block_m = mxgen_spec_param(spec, "BLOCK_SIZE_M"),
                         .block_n = mxgen_spec_param(spec, "BLOCK_SIZE_N"),
                         .group_size_m = mxgen_spec_param(spec, "GROUP_SIZE_M"),
                         .num_xcds = 1,
                         .chunk = 1};
    p.depth = mxgen_spec_param(spec, "BLOCK_SIZE_K");
    p.blocks = p.depth / GEMM_BLOCK;
    p.lanes = spec->target->simd_width;
    p.width = p.lanes * (p.unit ? p.unit->vectors : 1);
    p.elem_bytes = mx_dtype_get(spec->key.dtype)->bytes;
    set_side(&p, GEMM_LEFT, spec->key.gemm.left);
    set_side(&p, GEMM_RIGHT, spec->key.gemm.right);
    int at = 0;
    p.left_at = place(&at, p.grid.block_m * p.depth);
    p.right_at = place(&at, p.width * p.depth);
    p.sums_at = place(&at, p.grid.block_m * p.grid.block_n);
    p.left_rests_at = place(&at, p.grid.block_m * p.blocks);
    p.right_rests_at = place(&at, p.width * p.blocks);
    p.program_bytes = at;
    return p;
}

/* ---- The tile ---- */

/* Up to a multiple, of what is not negative. */
static mxe_value round_up(mxe *e, mxe_value a, int to)
{
    mxe_value count = mxe_udiv(e, gemm_host_plus(e, a, to - 1), mxe_i64(e, to));
    return gemm_host_times(e, count, to);
}

static mxe_value of_row(mxe *e, const char *stride, mxe_value row)
{
    return mxe_mul(e, row, mxe_param(e, stride));
}

static void find_side(mxe *e, gemm_host_work *w, int which, mxe_value row, mxe_value group)
{
    const gemm_host_side *side = &w->p->side[which];
    w->data[which] = of_row(e, side->row_stride, row);
    if (side->group_stride)
        w->data[which] = mxe_add(e, w->data[which], of_row(e, side->group_stride, group));
    if (!side->scales)
        return;
    w->scales[which] = of_row(e, side->scale_row_stride, row);
    if (side->scale_group_stride)
        w->scales[which] = mxe_add(e, w->scales[which], of_row(e, side->scale_group_stride, group));
}

static gemm_host_work find_work(mxe *e, const gemm_host_plan *p, const gemm_tile *tile)
{
    gemm_host_work w = {.p = p};
    mxe_value zero = mxe_i64(e, 0), block_m = mxe_i64(e, p->grid.block_m);
    mxe_value row = mxe_mul(e, tile->tile_m, block_m);
    mxe_value column = gemm_host_times(e, tile->tile_n, p->grid.block_n);
    mxe_value all_columns = mxe_param(e, p->cols ? "k" : "n");
    w.base = gemm_host_times(e, mxe_program_id(e), p->program_bytes);
    w.rows = mxe_smin(e, mxe_sub(e, tile->rows, row), block_m);
    w.live = mxe_smin(e, mxe_smax(e, mxe_sub(e, tile->valid, row), zero), block_m);
    w.live_up = round_up(e, w.live, p->unit->rows);
    w.columns = mxe_smin(e, mxe_sub(e, all_columns, column), mxe_i64(e, p->grid.block_n));
    w.columns_up = round_up(e, w.columns, p->width);
    w.begin = mxe_lshr(e, tile->k_begin, mxe_i64(e, 5));
    w.end = mxe_lshr(e, tile->k_end, mxe_i64(e, 5));
    w.end = mxe_select(e, mxe_eq(e, w.live, zero), w.begin, w.end);
    find_side(e, &w, GEMM_LEFT, mxe_add(e, tile->left_row, row), zero);
    find_side(e, &w, GEMM_RIGHT, column, tile->group);
    w.out = mxe_add(e, of_row(e, "out_row_stride", mxe_add(e, tile->out_row, row)), column);
    if (p->cols)
        w.out = mxe_add(e, w.out, of_row(e, "out_group_stride", tile->group));
    return w;
}

static mxe_addr workspace(mxe_value at)
{
    return (mxe_addr){.pointer = "workspace", .uniform = at, .lane_stride = F32_BYTES};
}

static mxe_value get(mxe *e, mxe_value at)
{
    mxe_value bits;
    mxe_load(e, workspace(at), MXE_I32, 1, F32_BYTES, 0, &bits);
    return bits;
}

static void put(mxe *e, mxe_value at, mxe_value value)
{
    mxe_value bits = mxe_bitcast(e, value, MXE_I32);
    mxe_store(e, workspace(at), MXE_I32, 1, F32_BYTES, 0, mxe_always(), &bits);
}

/* Byte of the sum of a row and a column. */
static mxe_value sum_at(mxe *e, const gemm_host_work *w, mxe_value row, mxe_value column)
{
    mxe_value item = mxe_add(e, gemm_host_times(e, row, w->p->grid.block_n), column);
    return mxe_add(e, w->base,
                   gemm_host_plus(e, gemm_host_times(e, item, F32_BYTES), w->p->sums_at));
}

static void clear_sums(mxe *e, const gemm_host_work *w)
{
    mxe_loop rows, columns;
    mxe_value zero = mxe_i64(e, 0), most = mxe_smax(e, w->rows, w->live_up);
    mxe_value row = mxe_for_begin(e, &rows, zero, most, mxe_i64(e, 1));
    mxe_value column = mxe_for_begin(e, &columns, zero, w->columns_up, mxe_i64(e, w->p->lanes));
    put(e, sum_at(e, w, row, column), mxe_varying(e, mxe_f32(e, 0.0f)));
    mxe_for_end(e, &columns);
    mxe_for_end(e, &rows);
}

/* ---- The product ---- */

typedef struct sums {
    mxe_var at[MOST_ROWS][MOST_VECTORS];
} sums;

/* STEP items of the contraction, from number `k` on. */
static void multiply_step(mxe *e, const gemm_host_plan *p, mxe_value left, mxe_value right,
                          mxe_value k, const sums *s)
{
    left = mxe_add(e, left, gemm_host_times(e, k, F32_BYTES));
    right = mxe_add(e, right, gemm_host_times(e, k, (int64_t)p->width * F32_BYTES));
    for (int i = 0; i < STEP; i++) {
        mxe_value b[MOST_VECTORS];
        for (int v = 0; v < p->unit->vectors; v++) {
            int item = i * p->width + v * p->lanes;
            b[v] = mxe_bitcast(e, get(e, gemm_host_plus(e, right, item * F32_BYTES)), MXE_F32);
        }
        for (int r = 0; r < p->unit->rows; r++) {
            mxe_value at = gemm_host_plus(e, left, ((int64_t)r * p->depth + i) * F32_BYTES);
            mxe_value a = mxe_load_uniform(e, "workspace", at, MXE_F32);
            for (int v = 0; v < p->unit->vectors; v++)
                mxe_var_set(e, s->at[r][v], mxe_fma(e, a, b[v], mxe_var_get(e, s->at[r][v])));
        }
    }
}

/* Adds a register tile's sums, times the rests of its row and columns, to those before. */
static void add_sums(mxe *e, const gemm_host_work *w, mxe_value row, mxe_value column,
                     mxe_value block, const sums *s)
{
    const gemm_host_plan *p = w->p;
    mxe_value left = mxe_add(e, gemm_host_times(e, row, p->blocks), block);
    mxe_value right = gemm_host_times(e, block, (int64_t)p->width * F32_BYTES);
    mxe_value at = sum_at(e, w, row, column), rests[MOST_VECTORS];
    left = mxe_add(e, w->base, gemm_host_times(e, left, F32_BYTES));
    right = mxe_add(e, w->base, right);
    for (int v = 0; v < p->unit->vectors; v++) {
        int64_t behind = p->right_rests_at + (int64_t)v * p->lanes * F32_BYTES;
        rests[v] = mxe_add(e, get(e, gemm_host_plus(e, right, behind)), mxe_i32(e, 127));
    }
    for (int r = 0; r < p->unit->rows; r++) {
        int64_t behind = p->left_rests_at + (int64_t)r * p->blocks * F32_BYTES;
        mxe_value rest = mxe_load_uniform(e, "workspace", gemm_host_plus(e, left, behind), MXE_I32);
        for (int v = 0; v < p->unit->vectors; v++) {
            int item = r * p->grid.block_n + v * p->lanes;
            mxe_value here = gemm_host_plus(e, at, (int64_t)item * F32_BYTES);
            mxe_value factor = mxe_shl(e, mxe_add(e, rests[v], rest), mxe_i32(e, 23));
            mxe_value before = mxe_bitcast(e, get(e, here), MXE_F32);
            put(e, here,
                mxe_fma(e, mxe_var_get(e, s->at[r][v]), mxe_bitcast(e, factor, MXE_F32), before));
        }
    }
}

static void clear_registers(mxe *e, const gemm_host_plan *p, const sums *s)
{
    for (int r = 0; r < p->unit->rows; r++) {
        for (int v = 0; v < p->unit->vectors; v++)
            mxe_var_set(e, s->at[r][v], mxe_varying(e, mxe_f32(e, 0.0f)));
    }
}

/* All rows by the columns that are decoded; n blocks, `step` of them without a rest between. */
static void multiply(mxe *e, const gemm_host_work *w, mxe_value column, mxe_value n, mxe_value step,
                     const sums *s)
{
    const gemm_host_plan *p = w->p;
    mxe_loop rows, blocks, items;
    mxe_value zero = mxe_i64(e, 0), right = gemm_host_plus(e, w->base, p->right_at);
    mxe_value row = mxe_for_begin(e, &rows, zero, w->live_up, mxe_i64(e, p->unit->rows));
    mxe_value left = gemm_host_times(e, row, (int64_t)p->depth * F32_BYTES);
    left = mxe_add(e, w->base, gemm_host_plus(e, left, p->left_at));
    mxe_value block = mxe_for_begin(e, &blocks, zero, n, step);
    clear_registers(e, p, s);
    mxe_value k =
        mxe_do_begin(e, &items, gemm_host_times(e, block, GEMM_BLOCK),
                     gemm_host_times(e, mxe_add(e, block, step), GEMM_BLOCK), mxe_i64(e, STEP));
    multiply_step(e, p, left, right, k, s);
    mxe_do_end(e, &items);
    add_sums(e, w, row, column, block, s);
    mxe_for_end(e, &blocks);
    mxe_for_end(e, &rows);
}

/* The whole contraction. */
static void contract(mxe *e, const gemm_host_work *w)
{
    const gemm_host_plan *p = w->p;
    mxe_loop parts, columns;
    sums s;
    mxe_value one = mxe_i64(e, 1), depth = mxe_i64(e, p->blocks);
    for (int r = 0; r < p->unit->rows; r++) {
        for (int v = 0; v < p->unit->vectors; v++)
            s.at[r][v] = mxe_var_new(e, mxe_varying(e, mxe_f32(e, 0.0f)));
    }
    mxe_value at = mxe_for_begin(e, &parts, w->begin, w->end, depth);
    mxe_value n = mxe_smin(e, mxe_sub(e, w->end, at), depth);
    mxe_value left_odd = gemm_host_pack_left(e, w, at, n);
    mxe_value column = mxe_for_begin(e, &columns, mxe_i64(e, 0), w->columns, mxe_i64(e, p->width));
    mxe_value odd = mxe_or(e, left_odd, gemm_host_pack_right(e, w, column, at, n));
    multiply(e, w, column, n, mxe_select(e, odd, one, n), &s);
    mxe_for_end(e, &columns);
    mxe_for_end(e, &parts);
}

/* ---- The result ---- */

/* The lanes' columns from `column` on; `part`: those past the end are not there. */
static void store_vector(mxe *e, const gemm_host_work *w, mxe_value row_at, mxe_value row,
                         mxe_value column, bool part)
{
    const gemm_host_plan *p = w->p;
    mx_dtype dtype = p->key.dtype;
    mxe_type type = p->elem_bytes == 4 ? MXE_I32 : MXE_I16;
    mxe_value sum = mxe_bitcast(e, get(e, sum_at(e, w, row, column)), MXE_F32), bits;
    mxe_value when = mxe_always();
    mxe_addr to = {.pointer = "out", .lane_stride = p->elem_bytes};
    to.uniform = gemm_host_times(e, mxe_add(e, row_at, column), p->elem_bytes);
    if (part) {
        mxe_value left = mxe_zext(e, mxe_sub(e, w->columns, column), MXE_I32);
        mxe_value lane = mxe_lane(e), last = mxe_sub(e, left, mxe_i32(e, 1));
        when = mxe_slt(e, lane, left);
        to.lane_stride = 0;
        to.varying = mxe_mul(e, mxe_smin(e, lane, last), mxe_i32(e, p->elem_bytes));
    }
    if (dtype != MX_DTYPE_F16) {
        mxe_branch adds;
        mxe_var before = mxe_var_new(e, mxe_varying(e, mxe_f32(e, 0.0f)));
        mxe_if_begin(e, &adds, mxe_ne(e, mxe_param(e, "accumulate"), mxe_i32(e, 0)));
        mxe_load(e, to, type, 1, p->elem_bytes, 0, &bits);
        mxe_var_set(e, before, gemm_from_bits(e, dtype, bits));
        mxe_if_end(e, &adds);
        sum = mxe_fadd(e, sum, mxe_var_get(e, before));
    }
    bits = gemm_to_bits(e, dtype, sum);
    mxe_store(e, to, type, 1, p->elem_bytes, 0, when, &bits);
}

/* Rows without one of left are zero, or stay as they are where it is added to them. */
static void store_sums(mxe *e, const gemm_host_work *w)
{
    const gemm_host_plan *p = w->p;
    mxe_loop rows, columns;
    mxe_branch part;
    mxe_value zero = mxe_i64(e, 0);
    mxe_value adds = mxe_ne(e, mxe_param(e, "accumulate"), mxe_i32(e, 0));
    mxe_value n = mxe_select(e, adds, mxe_smin(e, w->live, w->rows), w->rows);
    mxe_value whole = mxe_and(e, w->columns, mxe_i64(e, -p->lanes));
    mxe_value row = mxe_for_begin(e, &rows, zero, n, mxe_i64(e, 1));
    mxe_value row_at = mxe_add(e, w->out, of_row(e, "out_row_stride", row));
    mxe_value column = mxe_for_begin(e, &columns, zero, whole, mxe_i64(e, p->lanes));
    store_vector(e, w, row_at, row, column, false);
    mxe_for_end(e, &columns);
    mxe_if_begin(e, &part, mxe_slt(e, whole, w->columns));
    store_vector(e, w, row_at, row, whole, true);
    mxe_if_end(e, &part);
    mxe_for_end(e, &rows);
}

static void emit(mxe *e, const mxgen_spec *spec, const mxgen_kernel *kernel)
{
    (void)kernel;
    gemm_host_plan p = plan_of(spec);
    gemm_walk walk;
    gemm_tile tile;
    gemm_write_status(e, p.grid.pass, 0);
    gemm_walk_begin(e, &walk, &p.grid, &tile);
    gemm_host_work w = find_work(e, &p, &tile);
    clear_sums(e, &w);
    contract(e, &w);
    store_sums(e, &w);
    gemm_walk_end(e, &walk);
}

/* ---- Variants ---- */

static bool refuse(char *why, size_t why_bytes, const char *text)
{
    snprintf(why, why_bytes, "%s", text);
    return false;
}

static bool applies(const mxgen_spec *spec, char *why, size_t why_bytes)
{
    gemm_host_plan p = plan_of(spec);
    if (!p.unit)
        return refuse(why, why_bytes, "the target has matrix instructions");
    if (!gemm_operands_fit(&spec->key.gemm))
        return refuse(why, why_bytes, "operands: MXFP4 on the right, or MXFP8 on both sides");
    if (!spec->key.gemm.exact)
        return refuse(why, why_bytes, "the kernel is an exact one");
    if (p.grid.block_m % p.unit->rows || p.grid.block_n % p.width)
        return refuse(why, why_bytes, "BLOCK_SIZE_M, BLOCK_SIZE_N: not whole register tiles");
    return true;
}

/* The second is for products that have too few tiles of the first for all cores. */
static bool explored(const mxgen_spec *spec)
{
    int block_m = mxgen_spec_param(spec, "BLOCK_SIZE_M");
    int block_n = mxgen_spec_param(spec, "BLOCK_SIZE_N");
    return mxgen_spec_param(spec, "BLOCK_SIZE_K") == 256 &&
           ((block_m == 96 && block_n == 128) || (block_m == 48 && block_n == 64));
}

static void describe_side(mxgen_kernel *kernel, const gemm_host_side *side)
{
    unsigned flags = MXE_ARG_READONLY | MXE_ARG_NOALIAS;
    const char *strides[] = {side->row_stride, side->group_stride, side->scale_row_stride,
                             side->scale_block_stride, side->scale_group_stride};
    mxgen_kernel_pointer(kernel, side->data, flags, 1);
    if (side->scales)
        mxgen_kernel_pointer(kernel, side->scales, flags, 1);
    for (size_t i = 0; i < sizeof(strides) / sizeof(strides[0]); i++) {
        if (strides[i])
            mxgen_kernel_scalar(kernel, strides[i], MXE_ARG_I64, "%s", strides[i]);
    }
}

static void describe(const mxgen_spec *spec, mxgen_kernel *kernel)
{
    gemm_host_plan p = plan_of(spec);
    int block_m = p.grid.block_m, block_n = p.grid.block_n;
    char grid[120];
    kernel->threads = 1;
    if (p.cols)
        snprintf(grid, sizeof(grid), "groups * ceil_div(n, %d) * ceil_div(k, %d)", block_m,
                 block_n);
    else
        snprintf(grid, sizeof(grid), "(ceil_div(out_rows, %d) + groups + 1) * ceil_div(n, %d)",
                 block_m, block_n);
    snprintf(kernel->grid_x, sizeof(kernel->grid_x), "max(1, min(num_cu, %s))", grid);
    gemm_describe_walk(kernel, p.grid.pass);
    mxgen_kernel_scalar(kernel, "grid", MXE_ARG_I64, "%s", kernel->grid_x);
    mxgen_kernel_pointer(kernel, "status", MXE_ARG_NOALIAS, 4);
    mxgen_kernel_pointer(kernel, "workspace", MXE_ARG_NOALIAS, CACHE_LINE);
    describe_side(kernel, &p.side[GEMM_LEFT]);
    describe_side(kernel, &p.side[GEMM_RIGHT]);
    mxgen_kernel_pointer(kernel, "out", MXE_ARG_NOALIAS, p.elem_bytes);
    mxgen_kernel_scalar(kernel, "out_row_stride", MXE_ARG_I64, "out_row_stride");
    if (p.cols)
        mxgen_kernel_scalar(kernel, "out_group_stride", MXE_ARG_I64, "out_group_stride");
    snprintf(kernel->workspace_bytes, sizeof(kernel->workspace_bytes),
             "max(1, min(num_cu, %s)) * %d", grid, p.program_bytes);
}

/* Decoding against multiplying. */
static double cost(const mxgen_spec *spec)
{
    return 1 + 8.0 / mxgen_spec_param(spec, "BLOCK_SIZE_M") +
           8.0 / mxgen_spec_param(spec, "BLOCK_SIZE_N");
}

static const int block_m_values[] = {48, 96, 192}, block_n_values[] = {64, 128, 256},
                 block_k_values[] = {128, 256, 512}, group_values[] = {8};
static const mxgen_param params[] = {{"BLOCK_SIZE_M", block_m_values, 3},
                                     {"BLOCK_SIZE_N", block_n_values, 3},
                                     {"BLOCK_SIZE_K", block_k_values, 3},
                                     {"GROUP_SIZE_M", group_values, 1}};

const mxgen_template gemm_host_template = {
    .name = "gemm_host",
    .passes = 1u << MXGEN_PASS_ROWS | 1u << MXGEN_PASS_COLS,
    .params = params,
    .n_params = 4,
    .applies = applies,
    .explored = explored,
    .describe = describe,
    .cost = cost,
    .emit = emit,
};
