/* The step after a product of decoded operands: the direct kernel, for elements of which an
 * operand's strip of 8 rows was flagged because its scales are too far apart. Where no strip is,
 * every program sees that by one look at all flags; else tiles without such a strip cost the
 * reading of their flags. */
#include "templates/gemm_direct.h"
#include "templates/gemm_workspace.h"

#include <stdio.h>

void gemm_find_flags(mxe *e, const gemm_plan *p, const gemm_tile *tile, gemm_lane *lane)
{
    gemm_places places;
    mxe_value left, right;
    gemm_locate(e, p->grid.pass, &places);
    if (p->cols) {
        left = mxe_mul(e, tile->group, mxe_param(e, "left_strips"));
        right = mxe_mul(e, tile->group, mxe_param(e, "right_strips"));
    } else {
        mxe_value n = mxe_add(e, mxe_param(e, "n"), mxe_i64(e, GEMM_STRIP - 1));
        left = tile->strip;
        right = mxe_mul(e, tile->group, mxe_lshr(e, n, mxe_i64(e, 3)));
    }
    mxe_value down = mxe_mul(e, tile->tile_m, mxe_i64(e, p->grid.block_m / GEMM_STRIP));
    mxe_value along = mxe_mul(e, tile->tile_n, mxe_i64(e, p->grid.block_n / GEMM_STRIP));
    lane->left_flags = mxe_add(e, places.left_flags, mxe_add(e, left, down));
    lane->right_flags = mxe_add(e, places.right_flags, mxe_add(e, right, along));
}

static mxe_value flag_at(mxe *e, mxe_value base, mxe_value strip)
{
    mxe_value flag;
    mxe_load(e, (mxe_addr){.pointer = "workspace", .uniform = base, .varying = strip}, MXE_I8, 1, 1,
             0, &flag);
    return mxe_ne(e, mxe_zext(e, flag, MXE_I32), mxe_i32(e, 0));
}

/* Flags of the lane's strip among those of `rows` rows; the last strip serves lanes beyond. */
static mxe_value lane_flag(mxe *e, mxe_value base, mxe_value rows)
{
    mxe_value last = mxe_lshr(e, mxe_sub(e, rows, mxe_i32(e, 1)), mxe_i32(e, 3));
    return flag_at(e, base, mxe_umin(e, mxe_lane(e), mxe_varying(e, last)));
}

/* Rows that nobody owns have no flags. */
mxe_value gemm_any_flag(mxe *e, const gemm_plan *p, const gemm_tile *tile, const gemm_lane *lane)
{
    mxe_branch owned;
    mxe_var any = mxe_var_new(e, mxe_i32(e, 0));
    mxe_value owner = mxe_slt(e, tile->group, mxe_param(e, "groups"));
    mxe_var_set(e, any, mxe_i32(e, 0));
    mxe_if_begin(e, &owned, p->cols ? mxe_i1(e, 1) : owner);
    mxe_value flag = mxe_or(e, lane_flag(e, lane->left_flags, lane->rows),
                            lane_flag(e, lane->right_flags, lane->columns));
    mxe_var_set(e, any, mxe_zext(e, mxe_warp_any(e, flag), MXE_I32));
    mxe_if_end(e, &owned);
    return mxe_ne(e, mxe_var_get(e, any), mxe_i32(e, 0));
}

mxe_value gemm_is_flagged(mxe *e, const gemm_lane *lane, mxe_value row, mxe_value column)
{
    mxe_value strip = mxe_i32(e, 3), one = mxe_i32(e, 1);
    row = mxe_umin(e, row, mxe_varying(e, mxe_sub(e, lane->rows, one)));
    column = mxe_umin(e, column, mxe_varying(e, mxe_sub(e, lane->columns, one)));
    return mxe_or(e, flag_at(e, lane->left_flags, mxe_lshr(e, row, strip)),
                  flag_at(e, lane->right_flags, mxe_lshr(e, column, strip)));
}

/* ---- All flags at once ---- */

enum { FLAGS_AT_ONCE = 8, FLAGS_UNROLL = 4 }; /* bytes of a lane's load; loads on their way */

static void see_words(mxe *e, mxe_value base, mxe_value first, mxe_value n, mxe_var seen)
{
    mxe_value words[FLAGS_UNROLL][2], all = mxe_var_get(e, seen);
    mxe_value step = mxe_i64(e, e->lanes);
    for (int u = 0; u < FLAGS_UNROLL; u++) {
        mxe_value at = mxe_smin(e, mxe_add(e, first, mxe_zext(e, mxe_lane(e), MXE_I64)),
                                mxe_sub(e, n, mxe_i64(e, 1)));
        mxe_addr addr = {.pointer = "workspace", .uniform = base};
        addr.varying = mxe_mul(e, at, mxe_i64(e, FLAGS_AT_ONCE));
        mxe_load(e, addr, MXE_I32, 2, FLAGS_AT_ONCE, 0, words[u]);
        first = mxe_add(e, first, step);
    }
    for (int u = 0; u < FLAGS_UNROLL; u++)
        all = mxe_or(e, all, mxe_or(e, words[u][0], words[u][1]));
    mxe_var_set(e, seen, all);
}

/* The warps' findings, put together in shared memory. */
static mxe_value any_warp(mxe *e, int warps, mxe_value mine)
{
    mxe_value words[16], word = mxe_varying(e, mxe_zext(e, mine, MXE_I32));
    mxe_value bytes = mxe_mul(e, mxe_warp(e), mxe_i32(e, 4));
    mxe_addr to = {.uniform = mxe_zext(e, bytes, MXE_I64)};
    mxe_store(e, to, MXE_I32, 1, 4, 0, mxe_eq(e, mxe_lane(e), mxe_i32(e, 0)), &word);
    mxe_barrier(e);
    mxe_load(e, (mxe_addr){.uniform = mxe_i64(e, 0)}, MXE_I32, warps, 16, 0, words);
    for (int i = 1; i < warps; i++)
        words[0] = mxe_or(e, words[0], words[i]);
    mxe_barrier(e);
    return mxe_ne(e, mxe_uniform(e, words[0]), mxe_i32(e, 0));
}

/* Flags of both operands follow each other from a multiple of eight bytes on. */
mxe_value gemm_any_flag_at_all(mxe *e, const gemm_plan *p)
{
    gemm_places places;
    mxe_loop loop;
    mxe_branch tail;
    gemm_locate(e, p->grid.pass, &places);
    mxe_value zero = mxe_i32(e, 0), seven = mxe_i64(e, FLAGS_AT_ONCE - 1);
    mxe_value count = mxe_add(e, mxe_param(e, "left_strips"), mxe_param(e, "right_strips"));
    if (p->cols)
        count = mxe_mul(e, count, mxe_param(e, "groups"));
    mxe_value n = mxe_lshr(e, count, mxe_i64(e, 3)), rest = mxe_and(e, count, seven);
    mxe_var seen = mxe_var_new(e, mxe_varying(e, zero));
    mxe_value first = mxe_mul(e, mxe_warp(e), mxe_i32(e, FLAGS_UNROLL * e->lanes));
    mxe_value from = mxe_for_begin(e, &loop, mxe_zext(e, first, MXE_I64), n,
                                   mxe_i64(e, FLAGS_UNROLL * p->threads));
    see_words(e, places.left_flags, from, n, seen);
    mxe_for_end(e, &loop);
    mxe_if_begin(e, &tail, mxe_ne(e, rest, mxe_i64(e, 0)));
    mxe_value whole = mxe_add(e, places.left_flags, mxe_sub(e, count, rest));
    mxe_value last = mxe_sub(e, mxe_zext(e, rest, MXE_I32), mxe_i32(e, 1));
    mxe_value flag = flag_at(e, whole, mxe_umin(e, mxe_lane(e), mxe_varying(e, last)));
    mxe_value bit = mxe_select(e, flag, mxe_i32(e, 1), zero);
    mxe_var_set(e, seen, mxe_or(e, mxe_var_get(e, seen), bit));
    mxe_if_end(e, &tail);
    mxe_value mine = mxe_warp_any(e, mxe_ne(e, mxe_var_get(e, seen), zero));
    return any_warp(e, p->warps, mine);
}

/* ---- The descriptor ---- */

static gemm_plan plan_of(const mxgen_spec *spec)
{
    /* Larger tiles leave no registers where a lane has two rows of each fragment. */
    gemm_shape shape = {32, 128, 256 / spec->target->lanes, 16, 8, 2, 1};
    bool cols = mxgen_spec_param(spec, "COLS") == 1;
    return gemm_plan_make(spec->target, &spec->key, cols ? MXGEN_PASS_COLS : MXGEN_PASS_ROWS,
                          &shape);
}

static bool applies(const mxgen_spec *spec, char *why, size_t why_bytes)
{
    const mxgen_gemm_key *key = &spec->key.gemm;
    gemm_plan p = plan_of(spec);
    if (!p.unit)
        snprintf(why, why_bytes, "the target multiplies no tiles of 16 x 16");
    else if (!gemm_operands_fit(key) || !key->exact)
        snprintf(why, why_bytes, "operands: MXFP4 on the right, or MXFP8 on both sides; exact");
    else if (mxgen_spec_param(spec, "ELEM_BYTES") == 1 && key->left == MXGEN_OPERAND_BF16)
        snprintf(why, why_bytes, "ELEM_BYTES 1: bf16 fits no FP8");
    else
        return true;
    return false;
}

static bool explored(const mxgen_spec *spec)
{
    return mxgen_target_has(spec->target, MXGEN_CAP_TILE_MMA);
}

static void describe(const mxgen_spec *spec, mxgen_kernel *kernel)
{
    gemm_plan p = plan_of(spec);
    gemm_describe_plan(kernel, &p);
    gemm_describe_workspace(kernel, p.grid.pass, mxgen_spec_param(spec, "ELEM_BYTES"), false);
}

static double cost(const mxgen_spec *spec)
{
    (void)spec;
    return 1.0;
}

static void emit(mxe *e, const mxgen_spec *spec, const mxgen_kernel *kernel)
{
    gemm_plan p = plan_of(spec);
    gemm_emit_plan(e, &p, kernel);
}

static const int cols_values[] = {0, 1}, elem_values[] = {1, 2};
static const mxgen_param params[] = {{"COLS", cols_values, 2}, {"ELEM_BYTES", elem_values, 2}};

const mxgen_template gemm_redo_template = {
    .name = "gemm_redo",
    .passes = 1u << MXGEN_PASS_STEP,
    .params = params,
    .n_params = sizeof(params) / sizeof(params[0]),
    .applies = applies,
    .explored = explored,
    .describe = describe,
    .cost = cost,
    .emit = emit,
};
