#include "templates/mx_columns.h"

#include "mxgen/ocp.h"
#include "templates/mx_launch.h"

enum { CHUNK = 16 };

/* ---- Groups ---- */

static mxe_value clamped_offset(mxe *e, mxe_value group, mxe_value before)
{
    mxe_value rows = mxe_param(e, "rows"), at = mxe_mul(e, group, mxe_i64(e, 8));
    mxe_value offset = mxe_load_uniform(e, "g", at, MXE_I64);
    return mxe_smin(e, mxe_smax(e, offset, before), rows);
}

static void store_padded(mxe *e, mxe_value thread, mxe_value group, mxe_value padded)
{
    mxe_value words[2] = {mxe_zext(e, padded, MXE_I32),
                          mxe_zext(e, mxe_lshr(e, padded, mxe_i64(e, 32)), MXE_I32)};
    mxe_value writes = mxe_eq(e, mxe_program_id(e), mxe_i64(e, 0));
    writes = mxe_and(e, writes, mxe_ne(e, mxe_param(e, "groups"), mxe_i64(e, 0)));
    mxe_value when = mxe_and(e, mxe_eq(e, thread, mxe_i32(e, 0)), writes);
    mxe_addr addr = {.pointer = "o", .uniform = mxe_mul(e, group, mxe_i64(e, 8))};
    mxe_store(e, addr, MXE_I32, 2, 8, 0, when, words);
}

/* `size` filled up to a multiple of the groups' alignment. */
static mxe_value padded_size(mxe *e, mxe_value size, bool wide)
{
    mxe_value align = mxe_param(e, "group_align"), whole, rest;
    size = mxe_add(e, size, mxe_sub(e, align, mxe_i64(e, 1)));
    if (wide)
        whole = mxe_udiv(e, size, align);
    else
        mx_divide(e, size, align, &whole, &rest);
    return mxe_mul(e, whole, align);
}

mx_group mx_group_find(mxe *e, mxe_value at, mxe_value thread, bool wide)
{
    mxe_loop loop;
    mxe_branch inner;
    mxe_value zero = mxe_i64(e, 0), one = mxe_i64(e, 1), rows = mxe_param(e, "rows");
    mxe_var begin = mxe_var_new(e, zero), padded = mxe_var_new(e, zero);
    mxe_var last = mxe_var_new(e, zero), first = mxe_var_new(e, rows), end = mxe_var_new(e, rows);
    mxe_value groups = mxe_smax(e, mxe_param(e, "groups"), one);
    mxe_value g = mxe_for_begin(e, &loop, zero, groups, one);
    mxe_value next = mxe_add(e, g, one), from = mxe_var_get(e, begin), pad = mxe_var_get(e, padded);
    mxe_var_set(e, last, rows);
    mxe_if_begin(e, &inner, mxe_slt(e, next, groups));
    mxe_var_set(e, last, clamped_offset(e, next, from));
    mxe_if_end(e, &inner);
    mxe_value to = mxe_var_get(e, last);
    mxe_value after = mxe_add(e, pad, padded_size(e, mxe_sub(e, to, from), wide));
    mxe_value inside = mxe_and(e, mxe_ule(e, pad, at), mxe_ult(e, at, after));
    mxe_value own = mxe_add(e, from, mxe_sub(e, at, pad));
    mxe_var_set(e, first, mxe_select(e, inside, own, mxe_var_get(e, first)));
    mxe_var_set(e, end, mxe_select(e, inside, to, mxe_var_get(e, end)));
    store_padded(e, thread, g, pad);
    mxe_var_set(e, begin, to);
    mxe_var_set(e, padded, after);
    mxe_for_end(e, &loop);
    store_padded(e, thread, groups, mxe_var_get(e, padded));
    return (mx_group){mxe_var_get(e, first), mxe_var_get(e, end)};
}

/* ---- Tiles in shared memory ---- */

/* A word of 4 bytes follows each block: rows are then as many banks apart as they have blocks. */
mx_image mx_image_of(mx_dtype dtype, int columns)
{
    return (mx_image){columns, mx_dtype_get(dtype)->bytes, dtype};
}

static int block_bytes(const mx_image *image)
{
    return MX_OCP_BLOCK * image->elem_bytes + 4;
}

int mx_image_row_bytes(const mx_image *image)
{
    return image->columns / MX_OCP_BLOCK * block_bytes(image);
}

int mx_image_bytes(const mx_image *image)
{
    return MX_OCP_BLOCK * mx_image_row_bytes(image);
}

mxe_value mx_image_column(mxe *e, const mx_image *image, mxe_value column)
{
    mxe_value gaps = mxe_lshr(e, column, mxe_i32(e, __builtin_ctz(MX_OCP_BLOCK)));
    return mxe_add(e, mxe_mul(e, column, mxe_i32(e, image->elem_bytes)),
                   mxe_mul(e, gaps, mxe_i32(e, 4)));
}

mxe_value mx_image_block(mxe *e, const mx_image *image, mxe_value row, mxe_value block)
{
    return mxe_add(e, mxe_mul(e, row, mxe_i32(e, mx_image_row_bytes(image))),
                   mxe_mul(e, block, mxe_i32(e, block_bytes(image))));
}

static mxe_addr image_addr(mxe *e, mxe_value place, int64_t bytes)
{
    return (mxe_addr){.pointer = NULL, .uniform = mxe_i64(e, bytes), .varying = place};
}

static mxe_type item_type(const mx_image *image)
{
    return image->elem_bytes == 4 ? MXE_I32 : MXE_I16;
}

void mx_image_put(mxe *e, const mx_image *image, mxe_value place, mxe_value raw)
{
    mxe_value item = mxe_zext(e, raw, item_type(image));
    mxe_store(e, image_addr(e, place, 0), item_type(image), 1, image->elem_bytes, 0, mxe_always(),
              &item);
}

void mx_image_get(mxe *e, const mx_image *image, mxe_value place, mxe_value step, mxe_value *raw)
{
    for (int i = 0; i < MX_OCP_BLOCK; i++) {
        mxe_value item, at = mxe_add(e, place, mxe_mul(e, step, mxe_i32(e, i)));
        mxe_load(e, image_addr(e, at, 0), item_type(image), 1, image->elem_bytes, 0, &item);
        raw[i] = mxe_zext(e, item, MXE_I32);
    }
}

void mx_image_put_block(mxe *e, const mx_image *image, mxe_value place, const mxe_value *raw)
{
    mxe_value words[MX_MOST_ELEMENTS];
    mx_join_words(e, image->dtype, raw, MX_OCP_BLOCK, words);
    for (int i = 0; i < MX_OCP_BLOCK * image->elem_bytes / 4; i++)
        mxe_store(e, image_addr(e, place, 4 * i), MXE_I32, 1, 4, 0, mxe_always(), &words[i]);
}

/* ---- Records of columns ---- */

void mx_columns_flush(mxe *e, const mx_column_records *r, mxe_value thread, mxe_value first_column,
                      mxe_value base, mxe_value stride, mxe_value limit)
{
    int per_column = r->blocks * r->block_bytes / CHUNK;
    for (int first = 0; first < per_column * r->columns; first += r->threads) {
        mxe_value index = mxe_add(e, thread, mxe_i32(e, first));
        mxe_value column = mxe_udiv(e, index, mxe_i32(e, per_column));
        mxe_value byte = mxe_sub(e, index, mxe_mul(e, column, mxe_i32(e, per_column)));
        byte = mxe_mul(e, byte, mxe_i32(e, CHUNK));
        mxe_value wide = mxe_zext(e, column, MXE_I64), at = mxe_zext(e, byte, MXE_I64);
        mxe_value inside = mxe_slt(e, mxe_add(e, first_column, wide), mxe_param(e, "len"));
        inside = mxe_and(e, inside, mxe_ult(e, column, mxe_i32(e, r->columns)));
        if (limit.ref)
            inside =
                mxe_and(e, inside, mxe_slt(e, at, mxe_mul(e, limit, mxe_i64(e, r->block_bytes))));
        mxe_addr to = {.pointer = "c", .uniform = base};
        to.varying = mxe_add(e, mxe_mul(e, wide, stride), at);
        mxe_addr from = {.pointer = NULL, .uniform = mxe_i64(e, r->offset_bytes)};
        from.varying = mxe_add(e, mxe_mul(e, column, mxe_i32(e, r->column_bytes)), byte);
        mxe_copy(e, to, from, MXE_I32, CHUNK / 4, CHUNK, MXE_STREAM, inside);
    }
}

void mx_columns_store_scales(mxe *e, mxe_value scales, mxe_value row, mxe_value block,
                             mxe_value per_column, mxe_value when)
{
    mxe_branch branch;
    mxe_value step = mxe_param(e, "t_block_stride"), four = mxe_i64(e, 4);
    mxe_value row_stride = mxe_param(e, "t_row_stride"), begin = mxe_mul(e, block, step);
    mxe_value places = mxe_or(e, mxe_or(e, mxe_address(e, "t"), row_stride), begin);
    mxe_value misaligned = mxe_and(e, places, mxe_i64(e, 3));
    mxe_value at_once =
        mxe_eq(e, mxe_or(e, misaligned, mxe_sub(e, step, mxe_i64(e, 1))), mxe_i64(e, 0));
    at_once = mxe_and(e, at_once, mxe_sle(e, mxe_add(e, block, four), per_column));
    mxe_addr addr = {.pointer = "t", .varying = mxe_mul(e, row, row_stride)};
    addr.uniform = begin;
    mxe_if_begin(e, &branch, at_once);
    mxe_store(e, addr, MXE_I32, 1, 4, 0, when, &scales);
    mxe_if_else(e, &branch);
    for (int i = 0; i < 4; i++) {
        mxe_value number = mxe_add(e, block, mxe_i64(e, i));
        mxe_value exists = mxe_and(e, when, mxe_slt(e, number, per_column));
        mxe_value byte = mxe_zext(e, mxe_lshr(e, scales, mxe_i32(e, 8 * i)), MXE_I8);
        addr.uniform = mxe_mul(e, number, step);
        mxe_store(e, addr, MXE_I8, 1, 1, 0, exists, &byte);
    }
    mxe_if_end(e, &branch);
}
