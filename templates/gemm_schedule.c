#include "templates/gemm_schedule.h"

/* Bits of the status word, as mxgen/pack.h has them. */
enum { STATUS_DECREASE = 1, STATUS_OUTSIDE = 2, STATUS_SHORT = 4, STATUS_BLOCK = 8 };

void gemm_describe_walk(mxgen_kernel *kernel, mxgen_pass pass)
{
    mxgen_kernel_pointer(kernel, "read_offsets", MXE_ARG_READONLY, 8);
    if (pass == MXGEN_PASS_ROWS)
        mxgen_kernel_pointer(kernel, "write_offsets", MXE_ARG_READONLY, 8);
    mxgen_kernel_scalar(kernel, "groups", MXE_ARG_I64, "groups");
    mxgen_kernel_scalar(kernel, "m", MXE_ARG_I64, "m");
    mxgen_kernel_scalar(kernel, "n", MXE_ARG_I64, "n");
    mxgen_kernel_scalar(kernel, "k", MXE_ARG_I64, "k");
    mxgen_kernel_scalar(kernel, "out_rows", MXE_ARG_I64, "out_rows");
    mxgen_kernel_scalar(kernel, "accumulate", MXE_ARG_I32, "accumulate");
}

static mxe_value i64_const(mxe *e, int64_t value)
{
    return mxe_i64(e, value);
}

static mxe_value load_offset(mxe *e, const char *pointer, mxe_value index)
{
    return mxe_load_uniform(e, pointer, mxe_mul(e, index, i64_const(e, 8)), MXE_I64);
}

static mxe_value clamp(mxe *e, mxe_value a, mxe_value low, mxe_value high)
{
    return mxe_smin(e, mxe_smax(e, a, low), high);
}

/* ceil(a / b) for a >= 0 below 2^31. */
static mxe_value tiles_of(mxe *e, mxe_value a, int b)
{
    mxe_value sum = mxe_add(e, a, i64_const(e, b - 1));
    if ((b & (b - 1)) == 0)
        return mxe_lshr(e, sum, i64_const(e, __builtin_ctz((unsigned)b)));
    return mxe_udiv(e, sum, i64_const(e, b));
}

void gemm_divide(mxe *e, mxe_value a, mxe_value b, mxe_value *quotient, mxe_value *rest)
{
    mxe_value low = mxe_zext(e, a, MXE_I32), by = mxe_zext(e, b, MXE_I32);
    mxe_value q = mxe_udiv(e, low, by);
    *quotient = mxe_zext(e, q, MXE_I64);
    *rest = mxe_zext(e, mxe_sub(e, low, mxe_mul(e, q, by)), MXE_I64);
}

/* ---- gemm_rows ---- */

typedef struct group_state {
    mxe_var group, rows, valid, out_row, left_row;
} group_state;

/* Where the group's rows of `left` end: at most where the next group's begin. */
static void enter_group(mxe *e, const group_state *s, mxe_value group, mxe_value out_begin,
                        mxe_value left_begin)
{
    mxe_branch owned;
    mxe_value groups = mxe_param(e, "groups"), out_rows = mxe_param(e, "out_rows");
    mxe_var_set(e, s->group, group);
    mxe_if_begin(e, &owned, mxe_slt(e, group, groups));
    mxe_value next = mxe_add(e, group, i64_const(e, 1));
    mxe_value m = mxe_param(e, "m");
    mxe_value first = load_offset(e, "write_offsets", i64_const(e, 0));
    mxe_value out_first = mxe_select(e, mxe_eq(e, group, i64_const(e, 0)),
                                     clamp(e, first, i64_const(e, 0), out_rows), out_begin);
    mxe_value out_end = clamp(e, load_offset(e, "write_offsets", next), out_first, out_rows);
    mxe_value from = clamp(e, load_offset(e, "read_offsets", group), left_begin, m);
    mxe_value to = clamp(e, load_offset(e, "read_offsets", next), from, m);
    mxe_value rows = mxe_sub(e, out_end, out_first);
    mxe_var_set(e, s->rows, rows);
    mxe_var_set(e, s->valid, mxe_smin(e, rows, mxe_sub(e, to, from)));
    mxe_var_set(e, s->out_row, out_first);
    mxe_var_set(e, s->left_row, from);
    mxe_if_else(e, &owned);
    /* Nobody's rows: after the last group, then before the first. */
    mxe_value head =
        clamp(e, load_offset(e, "write_offsets", i64_const(e, 0)), i64_const(e, 0), out_rows);
    mxe_value is_tail = mxe_eq(e, group, groups);
    mxe_value size = mxe_select(e, is_tail, mxe_sub(e, out_rows, out_begin), head);
    mxe_value keep = mxe_ne(e, mxe_param(e, "accumulate"), mxe_i32(e, 0));
    mxe_var_set(e, s->rows, mxe_select(e, keep, i64_const(e, 0), size));
    mxe_var_set(e, s->valid, i64_const(e, 0));
    mxe_var_set(e, s->out_row, mxe_select(e, is_tail, out_begin, i64_const(e, 0)));
    mxe_var_set(e, s->left_row, i64_const(e, 0));
    mxe_if_end(e, &owned);
}

static group_state new_state(mxe *e)
{
    group_state s;
    mxe_value zero = i64_const(e, 0);
    s.group = mxe_var_new(e, zero);
    s.rows = mxe_var_new(e, zero);
    s.valid = mxe_var_new(e, zero);
    s.out_row = mxe_var_new(e, zero);
    s.left_row = mxe_var_new(e, zero);
    enter_group(e, &s, zero, zero, zero);
    return s;
}

/* A group without rows of its own keeps its place in `left`: the next begins there or later. */
static void next_group(mxe *e, const group_state *s)
{
    mxe_value out_end = mxe_add(e, mxe_var_get(e, s->out_row), mxe_var_get(e, s->rows));
    mxe_value left_end = mxe_add(e, mxe_var_get(e, s->left_row), mxe_var_get(e, s->valid));
    enter_group(e, s, mxe_add(e, mxe_var_get(e, s->group), i64_const(e, 1)), out_end, left_end);
}

static mxe_value strip_of(mxe *e, mxe_value out_row, mxe_value group)
{
    return mxe_add(e, mxe_lshr(e, out_row, i64_const(e, 3)), group);
}

/* The last group whose strips begin at `strip` or before, plus one; the lanes look at a group each.
 */
static mxe_value last_group(mxe *e, mxe_value strip)
{
    mxe_loop loop;
    mxe_value groups = mxe_param(e, "groups"), zero = i64_const(e, 0), one = mxe_i32(e, 1);
    mxe_var best = mxe_var_new(e, mxe_varying(e, mxe_i32(e, 0)));
    mxe_value from = mxe_for_begin(e, &loop, zero, groups, i64_const(e, e->lanes));
    mxe_value group = mxe_add(e, from, mxe_zext(e, mxe_lane(e), MXE_I64)), offset;
    mxe_value at = mxe_smin(e, group, mxe_sub(e, groups, i64_const(e, 1)));
    mxe_addr addr = {.pointer = "write_offsets", .varying = mxe_mul(e, at, i64_const(e, 8))};
    mxe_load(e, addr, MXE_I64, 1, 8, 0, &offset);
    mxe_value first = strip_of(e, clamp(e, offset, zero, mxe_param(e, "out_rows")), at);
    mxe_value is_before = mxe_and(e, mxe_sle(e, first, strip), mxe_slt(e, group, groups));
    mxe_value number = mxe_add(e, mxe_zext(e, at, MXE_I32), one);
    number = mxe_select(e, is_before, number, mxe_i32(e, 0));
    mxe_var_set(e, best, mxe_umax(e, mxe_var_get(e, best), number));
    mxe_for_end(e, &loop);
    mxe_value most = mxe_lane_reduce(e, MXE_UMAX, mxe_var_get(e, best), 16);
    most = mxe_umax(e, most, mxe_swap_lanes(e, most, 16));
    return mxe_zext(e, mxe_uniform(e, most), MXE_I64);
}

void gemm_find_strip(mxe *e, mxe_value strip, gemm_tile *tile)
{
    mxe_value zero = i64_const(e, 0), one = i64_const(e, 1);
    mxe_value m = mxe_param(e, "m"), out_rows = mxe_param(e, "out_rows");
    mxe_value found = last_group(e, strip);
    mxe_value group = mxe_smax(e, mxe_sub(e, found, one), zero);
    mxe_value next = mxe_add(e, group, one);
    mxe_value out_begin = clamp(e, load_offset(e, "write_offsets", group), zero, out_rows);
    mxe_value out_end = clamp(e, load_offset(e, "write_offsets", next), out_begin, out_rows);
    mxe_value from = clamp(e, load_offset(e, "read_offsets", group), zero, m);
    mxe_value to = clamp(e, load_offset(e, "read_offsets", next), from, m);
    mxe_value rows = mxe_sub(e, out_end, out_begin);
    mxe_value first = strip_of(e, out_begin, group);
    mxe_value in_group = mxe_sub(e, strip, first);
    mxe_value inside = mxe_slt(e, in_group, tiles_of(e, rows, GEMM_STRIP));
    inside = mxe_and(e, inside, mxe_slt(e, zero, found));
    *tile = (gemm_tile){.group = group,
                        .rows = mxe_select(e, inside, rows, zero),
                        .valid = mxe_smin(e, rows, mxe_sub(e, to, from)),
                        .out_row = out_begin,
                        .left_row = from,
                        .strip = first,
                        .tile_m = mxe_select(e, inside, in_group, zero)};
}

/* ---- gemm_cols ---- */

void gemm_group_bounds(mxe *e, mxe_value group, gemm_tile *tile)
{
    mxe_value m = mxe_param(e, "m"), mask = i64_const(e, -GEMM_BLOCK), zero = i64_const(e, 0);
    mxe_value from = load_offset(e, "read_offsets", group);
    mxe_value to = load_offset(e, "read_offsets", mxe_add(e, group, i64_const(e, 1)));
    tile->k_begin = mxe_and(e, clamp(e, from, zero, m), mask);
    tile->k_end = mxe_smax(e, mxe_and(e, clamp(e, to, zero, m), mask), tile->k_begin);
    tile->first_run = mxe_add(e, mxe_lshr(e, tile->k_begin, i64_const(e, 7)), group);
}

/* ---- The walk ---- */

/* Deals runs of `chunk` neighbouring programs to one chiplet, where the hardware deals programs
 * round and round: a bijection on 0 .. grid - 1. */
static mxe_value remap(mxe *e, mxe_value program, mxe_value grid, const gemm_grid *g)
{
    if (g->num_xcds <= 1)
        return program;
    mxe_value x = mxe_i32(e, g->num_xcds), c = mxe_i32(e, g->chunk);
    mxe_value whole = mxe_i32(e, g->num_xcds * g->chunk);
    mxe_value p = mxe_zext(e, program, MXE_I32), n = mxe_zext(e, grid, MXE_I32);
    mxe_value limit = mxe_mul(e, mxe_udiv(e, n, whole), whole);
    mxe_value turn = mxe_udiv(e, p, x);
    mxe_value to = mxe_mul(e, mxe_udiv(e, turn, c), whole);
    to = mxe_add(e, to, mxe_mul(e, mxe_urem(e, p, x), c));
    to = mxe_add(e, to, mxe_urem(e, turn, c));
    return mxe_zext(e, mxe_select(e, mxe_ult(e, p, limit), to, p), MXE_I64);
}

/* Number of the tile within its group -> its place: GROUP_SIZE_M rows of tiles go together, so that
 * programs that run at once share operands. */
static void place_tile(mxe *e, const gemm_grid *g, mxe_value local, mxe_value tiles_m,
                       mxe_value tiles_n, gemm_tile *tile)
{
    mxe_value band, rest, size = i64_const(e, g->group_size_m);
    gemm_divide(e, local, mxe_mul(e, tiles_n, size), &band, &rest);
    mxe_value first = mxe_mul(e, band, size);
    mxe_value high = mxe_smin(e, mxe_sub(e, tiles_m, first), size);
    mxe_value down;
    gemm_divide(e, rest, high, &tile->tile_n, &down);
    tile->tile_m = mxe_add(e, first, down);
}

static void rows_walk(mxe *e, gemm_walk *w, const gemm_grid *g, gemm_tile *tile)
{
    mxe_while search;
    mxe_value tiles_n = tiles_of(e, mxe_param(e, "n"), g->block_n);
    group_state s = {w->group, w->rows, w->valid, w->out_row, w->left_row};
    mxe_value last = mxe_add(e, mxe_param(e, "groups"), i64_const(e, 1));
    mxe_while_begin(e, &w->loop);
    mxe_while_begin(e, &search);
    mxe_value tiles_m = tiles_of(e, mxe_var_get(e, s.rows), g->block_m);
    mxe_value end = mxe_add(e, mxe_var_get(e, w->first), mxe_mul(e, tiles_m, tiles_n));
    mxe_value beyond = mxe_sle(e, end, mxe_var_get(e, w->tile));
    mxe_value more = mxe_sle(e, mxe_var_get(e, s.group), last);
    mxe_while_do(e, &search, mxe_and(e, beyond, more));
    mxe_var_set(e, w->first, end);
    next_group(e, &s);
    mxe_while_end(e, &search);
    mxe_while_do(e, &w->loop, mxe_sle(e, mxe_var_get(e, s.group), last));
    *tile = (gemm_tile){.group = mxe_var_get(e, s.group),
                        .rows = mxe_var_get(e, s.rows),
                        .valid = mxe_var_get(e, s.valid),
                        .out_row = mxe_var_get(e, s.out_row),
                        .left_row = mxe_var_get(e, s.left_row),
                        .k_begin = i64_const(e, 0),
                        .first_run = i64_const(e, 0),
                        .k_end = mxe_param(e, "k")};
    tile->strip = strip_of(e, tile->out_row, tile->group);
    mxe_value local = mxe_sub(e, mxe_var_get(e, w->tile), mxe_var_get(e, w->first));
    place_tile(e, g, local, tiles_of(e, tile->rows, g->block_m), tiles_n, tile);
}

static void cols_walk(mxe *e, gemm_walk *w, const gemm_grid *g, gemm_tile *tile)
{
    mxe_value n = mxe_param(e, "n");
    mxe_value tiles_m = tiles_of(e, n, g->block_m);
    mxe_value tiles_n = tiles_of(e, mxe_param(e, "k"), g->block_n);
    mxe_value each = mxe_mul(e, tiles_m, tiles_n), local;
    mxe_while_begin(e, &w->loop);
    mxe_value at = mxe_var_get(e, w->tile);
    mxe_while_do(e, &w->loop, mxe_slt(e, at, mxe_mul(e, each, mxe_param(e, "groups"))));
    *tile = (gemm_tile){.rows = n,
                        .valid = n,
                        .out_row = i64_const(e, 0),
                        .left_row = i64_const(e, 0),
                        .strip = i64_const(e, 0)};
    gemm_divide(e, at, each, &tile->group, &local);
    gemm_group_bounds(e, tile->group, tile);
    place_tile(e, g, local, tiles_m, tiles_n, tile);
}

void gemm_walk_begin(mxe *e, gemm_walk *w, const gemm_grid *g, gemm_tile *tile)
{
    mxe_value zero = i64_const(e, 0);
    w->grid = mxe_param(e, "grid");
    w->tile = mxe_var_new(e, remap(e, mxe_program_id(e), w->grid, g));
    if (g->pass == MXGEN_PASS_ROWS) {
        group_state s = new_state(e);
        w->group = s.group, w->rows = s.rows, w->valid = s.valid;
        w->out_row = s.out_row, w->left_row = s.left_row;
        w->first = mxe_var_new(e, zero);
        rows_walk(e, w, g, tile);
    } else {
        cols_walk(e, w, g, tile);
    }
}

void gemm_walk_end(mxe *e, gemm_walk *w)
{
    mxe_var_set(e, w->tile, mxe_add(e, mxe_var_get(e, w->tile), w->grid));
    mxe_while_end(e, &w->loop);
}

/* ---- The status word ---- */

static mxe_value bit_if(mxe *e, mxe_value condition, int bit)
{
    return mxe_select(e, condition, mxe_i32(e, bit), mxe_i32(e, 0));
}

/* What is wrong with the pair of offsets at `group`. */
static mxe_value check_pair(mxe *e, const char *pointer, mxe_value group, mxe_value limit,
                            mxe_value *size)
{
    mxe_value from = load_offset(e, pointer, group);
    mxe_value to = load_offset(e, pointer, mxe_add(e, group, i64_const(e, 1)));
    mxe_value low = mxe_slt(e, mxe_smin(e, from, to), i64_const(e, 0));
    mxe_value high = mxe_slt(e, limit, mxe_smax(e, from, to));
    *size = mxe_sub(e, to, from);
    return mxe_or(e, bit_if(e, mxe_slt(e, to, from), STATUS_DECREASE),
                  bit_if(e, mxe_or(e, low, high), STATUS_OUTSIDE));
}

void gemm_write_status(mxe *e, mxgen_pass pass, int warp)
{
    mxe_branch first, lane;
    mxe_loop loop;
    mxe_value zero = i64_const(e, 0), one = i64_const(e, 1), read, written;
    mxe_value is_first =
        mxe_and(e, mxe_eq(e, mxe_program_id(e), zero), mxe_eq(e, mxe_warp(e), mxe_i32(e, warp)));
    mxe_if_begin(e, &first, is_first);
    mxe_scalar_begin(e);
    mxe_if_begin(e, &lane, mxe_any(e, mxe_eq(e, mxe_lane(e), mxe_i32(e, 0))));
    mxe_var bits = mxe_var_new(e, mxe_i32(e, 0));
    mxe_value g = mxe_for_begin(e, &loop, zero, mxe_param(e, "groups"), one);
    mxe_value wrong = check_pair(e, "read_offsets", g, mxe_param(e, "m"), &read);
    if (pass == MXGEN_PASS_ROWS) {
        wrong =
            mxe_or(e, wrong, check_pair(e, "write_offsets", g, mxe_param(e, "out_rows"), &written));
        wrong = mxe_or(e, wrong, bit_if(e, mxe_slt(e, read, written), STATUS_SHORT));
    } else {
        mxe_value ends = mxe_or(e, read, load_offset(e, "read_offsets", g));
        mxe_value odd = mxe_and(e, ends, i64_const(e, GEMM_BLOCK - 1));
        wrong = mxe_or(e, wrong, bit_if(e, mxe_ne(e, odd, zero), STATUS_BLOCK));
    }
    mxe_var_set(e, bits, mxe_or(e, mxe_var_get(e, bits), wrong));
    mxe_for_end(e, &loop);
    mxe_value word = mxe_var_get(e, bits);
    mxe_store(e, (mxe_addr){.pointer = "status"}, MXE_I32, 1, 4, 0, mxe_always(), &word);
    mxe_if_end(e, &lane);
    mxe_scalar_end(e);
    mxe_if_end(e, &first);
}
