/* The direct kernel's results: to bf16, f16 or f32, stored or added to what is there. */
#include "templates/gemm_direct.h"

/* Neighbouring items of a lane: they stand in one row of out. */
typedef struct run {
    mxe_value items[8];
    mxe_value row, column; /* i32, in the tile */
    mxe_value live;        /* i1: the row is there */
    int n;
} run;

static mxe_type out_type(const gemm_plan *p)
{
    return p->elem_bytes == 4 ? MXE_I32 : MXE_I16;
}

static mxe_addr out_addr(mxe *e, const gemm_plan *p, const gemm_lane *lane, mxe_value row,
                         mxe_value column)
{
    mxe_value stride = mxe_zext(e, mxe_param(e, "out_row_stride"), MXE_I32);
    mxe_addr addr = {.pointer = "out", .uniform = lane->out_base};
    mxe_value element = mxe_add(e, mxe_mul(e, row, stride), column);
    addr.varying = mxe_mul(e, element, mxe_i32(e, p->elem_bytes));
    return addr;
}

mxe_value gemm_to_bits(mxe *e, mx_dtype dtype, mxe_value number)
{
    if (dtype == MX_DTYPE_F32)
        return mxe_bitcast(e, number, MXE_I32);
    if (dtype == MX_DTYPE_BF16)
        return mxe_to_bf16(e, number);
    return mxe_bitcast(e, mxe_fcast(e, number, MXE_F16), MXE_I16);
}

mxe_value gemm_from_bits(mxe *e, mx_dtype dtype, mxe_value bits)
{
    if (dtype == MX_DTYPE_F32)
        return mxe_bitcast(e, bits, MXE_F32);
    if (dtype == MX_DTYPE_BF16) {
        mxe_value wide = mxe_shl(e, mxe_zext(e, bits, MXE_I32), mxe_i32(e, 16));
        return mxe_bitcast(e, wide, MXE_F32);
    }
    return mxe_fcast(e, mxe_bitcast(e, bits, MXE_F16), MXE_F32);
}

/* `whole`: runs are there or not as a whole, and aligned to it. */
static void store_run(mxe *e, const gemm_plan *p, const gemm_lane *lane, const run *r, bool whole,
                      bool accumulate)
{
    int step = whole ? r->n : 1;
    for (int i = 0; i < r->n; i += step) {
        mxe_value column = mxe_add(e, r->column, mxe_i32(e, i)), old[8], bits[8];
        mxe_value live = mxe_and(e, r->live, mxe_slt(e, column, lane->columns));
        mxe_addr addr = out_addr(e, p, lane, r->row, column);
        int align_bytes = step * p->elem_bytes < 16 ? step * p->elem_bytes : 16;
        if (p->redo)
            live = mxe_and(e, live, gemm_is_flagged(e, lane, r->row, column));
        mxe_branch there;
        mxe_if_begin(e, &there, mxe_any(e, live));
        if (accumulate)
            mxe_load(e, addr, out_type(p), step, align_bytes, 0, old);
        for (int k = 0; k < step; k++) {
            mxe_value number = r->items[i + k];
            if (accumulate)
                number = mxe_fadd(e, number, gemm_from_bits(e, p->key.dtype, old[k]));
            bits[k] = gemm_to_bits(e, p->key.dtype, number);
        }
        mxe_store(e, addr, out_type(p), step, align_bytes, 0, mxe_always(), bits);
        mxe_if_end(e, &there);
    }
}

static void store_tiles(mxe *e, const gemm_plan *p, const gemm_lane *lane, const gemm_sums *sums,
                        bool whole, bool accumulate)
{
    const mxgen_matrix *unit = p->unit;
    for (int m = 0; m < p->side[GEMM_LEFT].frags; m++) {
        for (int n = 0; n < p->side[GEMM_RIGHT].frags; n++) {
            mxe_value items[16], zero = mxe_f32(e, 0.0f);
            mxe_sum_get(e, sums->sum[m][n], items);
            for (int i = 0; i < unit->items; i += unit->run) {
                run r = {.n = unit->run};
                r.row = mxe_add(e, mxe_add(e, lane->warp_row, mxe_i32(e, m * unit->tile)),
                                mxe_matrix_item_row(e, unit, i));
                r.column = mxe_add(e, mxe_add(e, lane->warp_column, mxe_i32(e, n * unit->tile)),
                                   mxe_matrix_item_column(e, unit, i));
                /* Conditions of columns would stay in scalar registers from row to row. */
                r.column = mxe_opaque(e, r.column);
                r.live = mxe_slt(e, r.row, lane->rows);
                mxe_value read = mxe_slt(e, r.row, lane->valid);
                for (int k = 0; k < r.n; k++)
                    r.items[k] = mxe_select(e, read, items[i + k], zero);
                store_run(e, p, lane, &r, whole, accumulate);
            }
        }
    }
}

void gemm_store(mxe *e, const gemm_plan *p, const gemm_lane *lane, const gemm_sums *sums)
{
    mxe_branch wide, add;
    mxe_value zero = mxe_i32(e, 0);
    mxe_value whole = mxe_ne(e, mxe_param(e, "whole_runs"), zero);
    mxe_value accumulate = mxe_ne(e, mxe_param(e, "accumulate"), zero);
    bool may_add = p->key.dtype != MX_DTYPE_F16;
    if (may_add) {
        mxe_if_begin(e, &add, accumulate);
        mxe_if_begin(e, &wide, whole);
        store_tiles(e, p, lane, sums, true, true);
        mxe_if_else(e, &wide);
        store_tiles(e, p, lane, sums, false, true);
        mxe_if_end(e, &wide);
        mxe_if_else(e, &add);
    }
    mxe_if_begin(e, &wide, whole);
    store_tiles(e, p, lane, sums, true, false);
    mxe_if_else(e, &wide);
    store_tiles(e, p, lane, sums, false, false);
    mxe_if_end(e, &wide);
    if (may_add)
        mxe_if_end(e, &add);
}
