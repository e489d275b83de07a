/* The lookup of groups by all lanes at once: a walk from group to group would wait for memory as
 * often as there are groups. */
#include "templates/gemm_skinny.h"

/* Bits of the status word, as mxgen/pack.h has them. */
enum { STATUS_DECREASE = 1, STATUS_OUTSIDE = 2, STATUS_SHORT = 4 };

static mxe_value clamp(mxe *e, mxe_value a, mxe_value low, mxe_value high)
{
    return mxe_smin(e, mxe_smax(e, a, low), high);
}

static mxe_value load_offset(mxe *e, const char *pointer, mxe_value group)
{
    mxe_value offset;
    mxe_addr addr = {.pointer = pointer, .varying = mxe_mul(e, group, mxe_i64(e, 8))};
    mxe_load(e, addr, MXE_I64, 1, 8, 0, &offset);
    return offset;
}

/* The largest of all lanes' values, uniform. */
static mxe_value most_of(mxe *e, mxe_value a)
{
    a = mxe_lane_reduce(e, MXE_UMAX, a, 16);
    return mxe_uniform(e, mxe_umax(e, a, mxe_swap_lanes(e, a, 16)));
}

/* Sum or maximum of the lanes before this one, and of all. */
static void scan(mxe *e, bool is_sum, mxe_value a, mxe_value *before, mxe_value *all)
{
    mxe_value lane = mxe_lane(e), zero = mxe_i32(e, 0);
    *before = mxe_varying(e, zero);
    *all = a;
    for (int distance = 1; distance < 32; distance *= 2) {
        mxe_value other = mxe_swap_lanes(e, *all, distance);
        mxe_value above = mxe_ne(e, mxe_and(e, lane, mxe_i32(e, distance)), zero);
        mxe_value seen = mxe_select(e, above, other, zero);
        *before = is_sum ? mxe_add(e, *before, seen) : mxe_umax(e, *before, seen);
        *all = is_sum ? mxe_add(e, *all, other) : mxe_umax(e, *all, other);
    }
    *all = mxe_uniform(e, *all);
}

/* What the lanes found of the tile that is looked for; zero in all but one. */
typedef struct found {
    mxe_var group, begin, rows, first; /* i32; group: its number plus one */
    mxe_var from, valid;               /* i32: in left */
} found;

static void keep(mxe *e, mxe_var var, mxe_value mine, mxe_value value)
{
    mxe_var_set(e, var, mxe_select(e, mine, value, mxe_var_get(e, var)));
}

/* Every group begins where those before it end at the latest, whatever its offset says. */
static skinny_total look(mxe *e, mxe_value wanted, found *f)
{
    mxe_loop loop;
    mxe_value groups = mxe_param(e, "groups"), out_rows = mxe_param(e, "out_rows");
    mxe_value zero = mxe_i64(e, 0), one = mxe_i64(e, 1), before, all;
    mxe_var tiles = mxe_var_new(e, mxe_i32(e, 0)), top = mxe_var_new(e, mxe_i32(e, 0));
    mxe_value number = mxe_for_begin(e, &loop, zero, groups, mxe_i64(e, e->lanes));
    mxe_value group = mxe_add(e, number, mxe_zext(e, mxe_lane(e), MXE_I64));
    mxe_value inside = mxe_slt(e, group, groups), none = mxe_i32(e, 0);
    mxe_value at = mxe_smin(e, group, mxe_sub(e, groups, one)), m = mxe_param(e, "m");
    mxe_value from = clamp(e, load_offset(e, "read_offsets", at), zero, m);
    mxe_value to = load_offset(e, "read_offsets", mxe_add(e, at, one));
    mxe_value valid = mxe_sub(e, clamp(e, to, from, m), from);
    mxe_value low = clamp(e, load_offset(e, "write_offsets", at), zero, out_rows);
    mxe_value high = load_offset(e, "write_offsets", mxe_add(e, at, one));
    mxe_value begin = mxe_zext(e, low, MXE_I32);
    mxe_value end = mxe_zext(e, clamp(e, high, zero, out_rows), MXE_I32);
    scan(e, false, mxe_umax(e, begin, end), &before, &all);
    begin = mxe_umax(e, mxe_umax(e, begin, before), mxe_var_get(e, top));
    end = mxe_umax(e, end, begin);
    mxe_var_set(e, top, mxe_umax(e, mxe_var_get(e, top), all));
    mxe_value rows = mxe_select(e, inside, mxe_sub(e, end, begin), none);
    mxe_value count = mxe_lshr(e, mxe_add(e, rows, mxe_i32(e, SKINNY_ROWS - 1)), mxe_i32(e, 4));
    scan(e, true, count, &before, &all);
    mxe_value first = mxe_add(e, mxe_var_get(e, tiles), before);
    mxe_var_set(e, tiles, mxe_add(e, mxe_var_get(e, tiles), all));
    mxe_value mine = mxe_ult(e, mxe_sub(e, wanted, first), count);
    keep(e, f->group, mine, mxe_add(e, mxe_zext(e, at, MXE_I32), mxe_i32(e, 1)));
    keep(e, f->begin, mine, begin);
    keep(e, f->rows, mine, rows);
    keep(e, f->first, mine, first);
    keep(e, f->from, mine, mxe_zext(e, from, MXE_I32));
    keep(e, f->valid, mine, mxe_umin(e, mxe_zext(e, valid, MXE_I32), rows));
    mxe_for_end(e, &loop);
    return (skinny_total){mxe_var_get(e, tiles), mxe_zext(e, mxe_var_get(e, top), MXE_I64)};
}

static found new_found(mxe *e)
{
    mxe_value zero = mxe_varying(e, mxe_i32(e, 0));
    found f = {mxe_var_new(e, zero), mxe_var_new(e, zero), mxe_var_new(e, zero),
               mxe_var_new(e, zero), mxe_var_new(e, zero), mxe_var_new(e, zero)};
    return f;
}

skinny_total skinny_count(mxe *e)
{
    found f = new_found(e);
    return look(e, mxe_i32(e, 0), &f);
}

void skinny_find(mxe *e, mxe_value unit, mxe_value tiles_n, skinny_run *out)
{
    found f = new_found(e);
    mxe_value zero = mxe_i32(e, 0), one = mxe_i32(e, 1), size = mxe_i32(e, SKINNY_ROWS);
    mxe_value tile = mxe_udiv(e, unit, tiles_n);
    out->column = mxe_sub(e, unit, mxe_mul(e, tile, tiles_n));
    look(e, tile, &f);
    mxe_value group = mxe_smax(e, mxe_sub(e, most_of(e, mxe_var_get(e, f.group)), one), zero);
    mxe_value down = mxe_sub(e, tile, most_of(e, mxe_var_get(e, f.first)));
    down = mxe_mul(e, down, size);
    mxe_value begin = mxe_add(e, most_of(e, mxe_var_get(e, f.begin)), down);
    mxe_value from = mxe_add(e, most_of(e, mxe_var_get(e, f.from)), down);
    mxe_value rows = mxe_sub(e, most_of(e, mxe_var_get(e, f.rows)), down);
    mxe_value valid = mxe_sub(e, most_of(e, mxe_var_get(e, f.valid)), down);
    out->group = mxe_zext(e, group, MXE_I64);
    out->out_row = mxe_zext(e, begin, MXE_I64);
    out->left_row = mxe_zext(e, from, MXE_I64);
    out->rows = mxe_smin(e, rows, size);
    out->valid = mxe_smin(e, mxe_smax(e, valid, zero), out->rows);
}

/* ---- The status word ---- */

static mxe_value bit_if(mxe *e, mxe_value condition, int bit)
{
    return mxe_select(e, condition, mxe_i32(e, bit), mxe_i32(e, 0));
}

static mxe_value check_pair(mxe *e, const char *pointer, mxe_value group, mxe_value limit,
                            mxe_value *size)
{
    mxe_value from = load_offset(e, pointer, group);
    mxe_value to = load_offset(e, pointer, mxe_add(e, group, mxe_i64(e, 1)));
    mxe_value low = mxe_slt(e, mxe_smin(e, from, to), mxe_i64(e, 0));
    mxe_value high = mxe_slt(e, limit, mxe_smax(e, from, to));
    *size = mxe_sub(e, to, from);
    return mxe_or(e, bit_if(e, mxe_slt(e, to, from), STATUS_DECREASE),
                  bit_if(e, mxe_or(e, low, high), STATUS_OUTSIDE));
}

void skinny_write_status(mxe *e)
{
    mxe_loop loop;
    mxe_value groups = mxe_param(e, "groups"), zero = mxe_i64(e, 0), read, written;
    mxe_var bits = mxe_var_new(e, mxe_varying(e, mxe_i32(e, 0)));
    mxe_value from = mxe_for_begin(e, &loop, zero, groups, mxe_i64(e, e->lanes));
    mxe_value group = mxe_add(e, from, mxe_zext(e, mxe_lane(e), MXE_I64));
    group = mxe_smin(e, group, mxe_sub(e, groups, mxe_i64(e, 1)));
    mxe_value wrong = check_pair(e, "read_offsets", group, mxe_param(e, "m"), &read);
    wrong =
        mxe_or(e, wrong, check_pair(e, "write_offsets", group, mxe_param(e, "out_rows"), &written));
    wrong = mxe_or(e, wrong, bit_if(e, mxe_slt(e, read, written), STATUS_SHORT));
    mxe_var_set(e, bits, mxe_or(e, mxe_var_get(e, bits), wrong));
    mxe_for_end(e, &loop);
    mxe_value word = mxe_lane_reduce(e, MXE_OR, mxe_var_get(e, bits), 16);
    word = mxe_or(e, word, mxe_swap_lanes(e, word, 16));
    mxe_value is_first = mxe_eq(e, mxe_lane(e), mxe_i32(e, 0));
    mxe_store(e, (mxe_addr){.pointer = "status"}, MXE_I32, 1, 4, 0, is_first, &word);
}
