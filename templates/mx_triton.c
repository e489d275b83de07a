#include "templates/mx_triton.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mxgen/error.h"
#include "templates/mx_block.h"

/* ---- The argument list ---- */

/* Parameters of a variant, 1 where the argument is the constant 1. The plain and the packed tensor
 * come in the order in which the operation reads and writes them. */
enum { ONE_BPR = 0, ONE_ROW, ONE_COL, ONE_BYTE, ONE_BLOCK, ONE_N, ONE_LAST, N_ONES };

static const int flag_values[] = {0, 1};
#define FLAG flag_values, 2
static const mxgen_param to_params[N_ONES] = {
    [ONE_BPR] = {"blocks_per_row", FLAG},
    [ONE_ROW] = {"stride_in_row", FLAG},
    [ONE_COL] = {"stride_in_col", FLAG},
    [ONE_BYTE] = {"stride_out_byte", FLAG},
    [ONE_BLOCK] = {"stride_out_blk", FLAG},
    [ONE_N] = {"n_blocks", FLAG},
    [ONE_LAST] = {"last", FLAG},
};
static const mxgen_param from_params[N_ONES] = {
    [ONE_BPR] = {"blocks_per_row", FLAG},  [ONE_ROW] = {"stride_out_row", FLAG},
    [ONE_COL] = {"stride_out_col", FLAG},  [ONE_BYTE] = {"stride_in_byte", FLAG},
    [ONE_BLOCK] = {"stride_in_blk", FLAG}, [ONE_N] = {"n_blocks", FLAG},
    [ONE_LAST] = {"last", FLAG},
};

typedef struct plan {
    mxgen_key key;
    bool is_to;
    int lanes_per_block, count, elem_bytes, vec;
    const char *plain, *packed; /* names of pointers */
    const char *plain_row, *plain_col, *packed_block, *packed_byte;
    bool one[N_ONES];
} plan;

static plan plan_of(const mxgen_spec *spec)
{
    plan p = {.key = spec->key, .is_to = spec->key.op == MX_OP_TO};
    int threads = MX_TRITON_WARPS * spec->target->lanes;
    p.lanes_per_block = threads / MX_TRITON_BLOCKS;
    p.count = MX_BLOCK_ELEMENTS / p.lanes_per_block;
    p.elem_bytes = mx_dtype_get(spec->key.dtype)->bytes;
    p.vec = p.count * p.elem_bytes > 16 ? 16 / p.elem_bytes : p.count;
    p.plain = p.is_to ? "x_ptr" : "y_ptr";
    p.packed = "packed_ptr";
    p.plain_row = p.is_to ? "stride_in_row" : "stride_out_row";
    p.plain_col = p.is_to ? "stride_in_col" : "stride_out_col";
    p.packed_block = p.is_to ? "stride_out_blk" : "stride_in_blk";
    p.packed_byte = p.is_to ? "stride_out_byte" : "stride_in_byte";
    for (int i = 0; i < N_ONES; i++)
        p.one[i] = spec->params[i] == 1;
    return p;
}

void mx_triton_args(const mxgen_spec *spec, mx_triton_arg args[MX_TRITON_ARGS])
{
    const plan p = plan_of(spec);
    const char *plain_type = p.key.dtype == MX_DTYPE_F32 ? "*fp32" : "*bf16";
    const mx_triton_arg plain = {p.plain, plain_type}, packed = {p.packed, "*u8"};
    const mx_triton_arg plain_strides[2] = {{p.plain_row, "i32"}, {p.plain_col, "i32"}};
    const mx_triton_arg packed_strides[2] = {{p.packed_block, "i32"}, {p.packed_byte, "i32"}};

    args[0] = p.is_to ? plain : packed;
    args[1] = p.is_to ? packed : plain;
    args[2] = (mx_triton_arg){"n_blocks", "i32"};
    args[3] = (mx_triton_arg){"last", "i32"};
    args[4] = (mx_triton_arg){"blocks_per_row", "i32"};
    for (int i = 0; i < 2; i++) {
        args[5 + i] = p.is_to ? plain_strides[i] : packed_strides[i];
        args[7 + i] = p.is_to ? packed_strides[i] : plain_strides[i];
    }
    for (int i = 0; i < MX_TRITON_ARGS; i++) {
        for (int k = 0; k < N_ONES; k++) {
            if (p.one[k] && !strcmp(args[i].name, spec->param_names[k]))
                args[i].type = "constexpr";
        }
    }
}

static void describe(const mxgen_spec *spec, mxgen_kernel *kernel)
{
    const plan p = plan_of(spec);
    mx_triton_arg args[MX_TRITON_ARGS];

    kernel->threads = MX_TRITON_WARPS * spec->target->lanes;
    snprintf(kernel->grid_x, sizeof(kernel->grid_x), "ceil_div(n_blocks, %d)", MX_TRITON_BLOCKS);
    mx_triton_args(spec, args);
    for (int i = 0; i < MX_TRITON_ARGS; i++) {
        bool is_plain = !strcmp(args[i].name, p.plain);
        unsigned flags = MXE_ARG_NOALIAS | (i ? MXE_ARG_WRITEONLY : MXE_ARG_READONLY);
        if (args[i].type[0] == '*')
            mxgen_kernel_pointer(kernel, args[i].name, flags, is_plain ? p.elem_bytes : 1);
        else if (!strcmp(args[i].type, "i32"))
            mxgen_kernel_scalar(kernel, args[i].name, MXE_ARG_I32, "%s", args[i].name);
    }
    mxgen_kernel_pointer(kernel, "global_scratch", 0, 1);
    mxgen_kernel_pointer(kernel, "profile_scratch", 0, 1);
}

/* ---- The kernel ---- */

/* What one lane works on. Offsets and strides in bytes, i64. */
typedef struct place {
    mx_shape shape;
    mxe_value live;      /* i1 */
    mxe_value plain;     /* of the block's first element */
    mxe_value number;    /* i32: of the lane's first element within the block */
    mxe_value remaining; /* i32: elements from the block's first to the row's end */
    mxe_value col_stride, packed, byte_stride;
    mxe_value aligned_plain, aligned_packed; /* i1, uniform: wide accesses may be used */
} place;

static mxe_value size_arg(mxe *e, const plan *p, int which, const char *name)
{
    return p->one[which] ? mxe_i32(e, 1) : mxe_param(e, name);
}

static mxe_value wide(mxe *e, mxe_value a)
{
    return mxe_sext(e, a, MXE_I64);
}

/* Whether all bits of `bits` below `align` (a power of two) are 0. */
static mxe_value is_multiple(mxe *e, mxe_value bits, int align)
{
    return mxe_eq(e, mxe_and(e, bits, mxe_i64(e, align - 1)), mxe_i64(e, 0));
}

static void locate_rows(mxe *e, const plan *p, mxe_value block, place *at)
{
    mxe_value row = block, column = mxe_i32(e, 0), last = size_arg(e, p, ONE_LAST, "last");
    mxe_value row_stride =
        mxe_mul(e, wide(e, size_arg(e, p, ONE_ROW, p->plain_row)), mxe_i64(e, p->elem_bytes));
    at->col_stride =
        mxe_mul(e, wide(e, size_arg(e, p, ONE_COL, p->plain_col)), mxe_i64(e, p->elem_bytes));
    if (!p->one[ONE_BPR]) {
        mxe_value bpr = mxe_param(e, "blocks_per_row");
        row = mxe_udiv(e, block, bpr);
        column = mxe_sub(e, block, mxe_mul(e, row, bpr));
    }
    mxe_value element = mxe_mul(e, column, mxe_i32(e, MX_BLOCK_ELEMENTS));
    at->plain = mxe_add(e, mxe_mul(e, wide(e, row), row_stride),
                        mxe_mul(e, wide(e, element), at->col_stride));
    at->remaining = mxe_sub(e, last, element);
    /* All rows start at multiples of an access, and end at one. */
    mxe_value bytes = mxe_mul(e, wide(e, last), mxe_i64(e, p->elem_bytes));
    mxe_value bits = mxe_or(e, mxe_or(e, mxe_address(e, p->plain), row_stride), bytes);
    at->aligned_plain = is_multiple(e, bits, p->vec * p->elem_bytes);
}

static place locate(mxe *e, const mxgen_spec *spec, const plan *p)
{
    place at = {.shape = {p->key.format, p->key.dtype, p->key.profile, p->lanes_per_block, p->count,
                          mxe_i32(e, 0)}};
    int group = spec->target->lanes / p->lanes_per_block;
    int shift = __builtin_ctz((unsigned)p->lanes_per_block);
    mxe_value n_blocks = size_arg(e, p, ONE_N, "n_blocks");
    mxe_value program = mxe_zext(e, mxe_program_id(e), MXE_I32);

    at.shape.part = mxe_and(e, mxe_lane(e), mxe_i32(e, p->lanes_per_block - 1));
    mxe_value first = mxe_add(e, mxe_mul(e, program, mxe_i32(e, MX_TRITON_BLOCKS)),
                              mxe_mul(e, mxe_warp(e), mxe_i32(e, group)));
    mxe_value block = mxe_add(e, first, mxe_lshr(e, mxe_lane(e), mxe_i32(e, shift)));
    at.live = mxe_ult(e, block, n_blocks);
    block = mxe_umin(e, block, mxe_sub(e, n_blocks, mxe_i32(e, 1)));
    at.number = mxe_mul(e, at.shape.part, mxe_i32(e, p->count));
    locate_rows(e, p, block, &at);
    mxe_value stride = wide(e, size_arg(e, p, ONE_BLOCK, p->packed_block));
    at.packed = mxe_mul(e, wide(e, block), stride);
    at.byte_stride = wide(e, size_arg(e, p, ONE_BYTE, p->packed_byte));
    at.aligned_packed = is_multiple(e, mxe_or(e, mxe_address(e, p->packed), stride),
                                    mx_record_align(p->key.format));
    return at;
}

/* Of the lane's element `first`: whether it is in the row, and where, or else where the block's
 * first element is. */
static mxe_addr element_addr(mxe *e, const plan *p, const place *at, int first, mxe_value *inside)
{
    mxe_value number = mxe_add(e, at->number, mxe_i32(e, first));
    *inside = mxe_slt(e, number, at->remaining);
    number = mxe_select(e, *inside, number, mxe_i32(e, 0));
    mxe_addr addr = {.pointer = p->plain};
    addr.varying = mxe_add(e, at->plain, mxe_mul(e, wide(e, number), at->col_stride));
    return addr;
}

/* `vec` elements an access: 1, or p->vec where elements are side by side. */
static void load_elements(mxe *e, const plan *p, const place *at, int vec, mxe_value *raw)
{
    mxe_type type = vec * p->elem_bytes >= 4 ? MXE_I32 : MXE_I16;
    int items = vec * p->elem_bytes >= 4 ? vec * p->elem_bytes / 4 : 1;
    mxe_value words[16], inside[16];
    for (int i = 0; i < p->count / vec; i++) {
        mxe_addr addr = element_addr(e, p, at, i * vec, &inside[i]);
        mxe_load(e, addr, type, items, vec * p->elem_bytes, 0, words + i * items);
    }
    for (int i = 0; i < p->count / vec * items; i++)
        words[i] = mxe_select(e, inside[i / items], mxe_zext(e, words[i], MXE_I32), mxe_i32(e, 0));
    if (type == MXE_I32)
        mx_split_words(e, p->key.dtype, words, p->count, raw);
    else
        memcpy(raw, words, (size_t)p->count * sizeof(*raw));
}

static void store_elements(mxe *e, const plan *p, const place *at, int vec, const mxe_value *raw)
{
    mxe_type type = vec * p->elem_bytes >= 4 ? MXE_I32 : MXE_I16;
    for (int i = 0; i < p->count; i += vec) {
        mxe_value words[4], inside;
        mxe_addr addr = element_addr(e, p, at, i, &inside);
        if (type == MXE_I32)
            mx_join_words(e, p->key.dtype, raw + i, vec, words);
        else
            words[0] = mxe_zext(e, raw[i], MXE_I16);
        int items = type == MXE_I32 ? vec * p->elem_bytes / 4 : 1;
        mxe_store(e, addr, type, items, vec * p->elem_bytes, 0, mxe_and(e, at->live, inside),
                  words);
    }
}

static void load_plain(mxe *e, const plan *p, const place *at, mxe_value *raw)
{
    mxe_branch branch;
    mxe_var kept[16];
    if (!p->one[ONE_COL]) {
        load_elements(e, p, at, 1, raw);
        return;
    }
    for (int i = 0; i < p->count; i++)
        kept[i] = mxe_var_new(e, mxe_varying(e, mxe_i32(e, 0)));
    mxe_if_begin(e, &branch, at->aligned_plain);
    load_elements(e, p, at, p->vec, raw);
    for (int i = 0; i < p->count; i++)
        mxe_var_set(e, kept[i], raw[i]);
    mxe_if_else(e, &branch);
    load_elements(e, p, at, 1, raw);
    for (int i = 0; i < p->count; i++)
        mxe_var_set(e, kept[i], raw[i]);
    mxe_if_end(e, &branch);
    for (int i = 0; i < p->count; i++)
        raw[i] = mxe_var_get(e, kept[i]);
}

static void store_plain(mxe *e, const plan *p, const place *at, const mxe_value *raw)
{
    mxe_branch branch;
    if (!p->one[ONE_COL]) {
        store_elements(e, p, at, 1, raw);
        return;
    }
    mxe_if_begin(e, &branch, at->aligned_plain);
    store_elements(e, p, at, p->vec, raw);
    mxe_if_else(e, &branch);
    store_elements(e, p, at, 1, raw);
    mxe_if_end(e, &branch);
}

static void store_packed(mxe *e, const plan *p, const place *at, const mx_record *record)
{
    mxe_branch branch;
    mxe_addr block = {.pointer = p->packed, .varying = at->packed};
    if (p->one[ONE_BYTE]) {
        mxe_if_begin(e, &branch, at->aligned_packed);
        mx_record_store(e, &at->shape, record, block, mx_record_align(p->key.format), 0, at->live);
        mxe_if_else(e, &branch);
    }
    mx_record_store_bytes(e, &at->shape, record, block, at->byte_stride, 0, at->live);
    if (p->one[ONE_BYTE])
        mxe_if_end(e, &branch);
}

static void keep_items(mxe *e, const mx_record *record, mxe_var kept[2][4])
{
    for (int r = 0; r < record->n_runs; r++) {
        for (int i = 0; i < record->runs[r].n; i++)
            mxe_var_set(e, kept[r][i], record->runs[r].items[i]);
    }
}

static void load_packed(mxe *e, const plan *p, const place *at, mx_record *record)
{
    mxe_branch branch;
    mxe_var kept[2][4];
    mxe_addr block = {.pointer = p->packed, .varying = at->packed};
    mx_record_to_load(&at->shape, record);
    if (!p->one[ONE_BYTE]) {
        mx_record_load_bytes(e, &at->shape, record, block, at->byte_stride, 0);
        return;
    }
    for (int r = 0; r < record->n_runs; r++) {
        for (int i = 0; i < record->runs[r].n; i++) {
            mxe_value zero = mxe_zext(e, mxe_i32(e, 0), record->runs[r].type);
            kept[r][i] = mxe_var_new(e, mxe_varying(e, zero));
        }
    }
    mxe_if_begin(e, &branch, at->aligned_packed);
    mx_record_load(e, &at->shape, record, block, mx_record_align(p->key.format), 0);
    keep_items(e, record, kept);
    mxe_if_else(e, &branch);
    mx_record_load_bytes(e, &at->shape, record, block, at->byte_stride, 0);
    keep_items(e, record, kept);
    mxe_if_end(e, &branch);
    for (int r = 0; r < record->n_runs; r++) {
        for (int i = 0; i < record->runs[r].n; i++)
            record->runs[r].items[i] = mxe_var_get(e, kept[r][i]);
    }
}

static void emit(mxe *e, const mxgen_spec *spec, const mxgen_kernel *kernel)
{
    const plan p = plan_of(spec);
    mxe_value raw[16];
    mx_record record;
    mx_codes codes;
    (void)kernel;
    const place at = locate(e, spec, &p);
    if (p.is_to) {
        load_plain(e, &p, &at, raw);
        mx_encode(e, &at.shape, raw, &codes);
        mx_pack(e, &at.shape, &codes, &record);
        store_packed(e, &p, &at, &record);
    } else {
        load_packed(e, &p, &at, &record);
        mx_unpack(e, &at.shape, &record, &codes);
        mx_decode(e, &at.shape, &codes, NULL, raw);
        store_plain(e, &p, &at, raw);
    }
}

/* ---- The kernels there are ---- */

/* There is one variant a set of arguments: nothing to choose. */
static double cost(const mxgen_spec *spec)
{
    (void)spec;
    return 1.0;
}

#define TEMPLATE(parameters)                                                                       \
    {                                                                                              \
        .name = "mx_triton", .formats = 1u << MX_FORMAT_MX9 | 1u << MX_FORMAT_MX6,                 \
        .layouts = 1u << MX_LAYOUT_GENERAL, .params = (parameters), .n_params = N_ONES,            \
        .describe = describe, .cost = cost, .emit = emit,                                          \
    }
static const mxgen_template to_template = TEMPLATE(to_params);
static const mxgen_template from_template = TEMPLATE(from_params);

/* Sets of arguments that are 1. Sizes: blocks a row, blocks, elements a row. */
static const bool size_sets[][N_ONES] = {
    {false},
    {[ONE_BPR] = true},
    {[ONE_BPR] = true, [ONE_N] = true},
    {[ONE_BPR] = true, [ONE_LAST] = true},
    {[ONE_BPR] = true, [ONE_N] = true, [ONE_LAST] = true},
};
/* Strides. to: any of the plain tensor (both are 1 where it has one row or column); packed blocks
 * are contiguous. from: any of the packed blocks; the result is contiguous, so that its rows have
 * stride 1 where they have one element. */
static const bool to_sets[][N_ONES] = {
    {[ONE_COL] = true, [ONE_BYTE] = true},
    {[ONE_ROW] = true, [ONE_BYTE] = true},
    {[ONE_BYTE] = true},
    {[ONE_ROW] = true, [ONE_COL] = true, [ONE_BYTE] = true},
};
static const bool from_sets[][N_ONES] = {
    {[ONE_COL] = true, [ONE_BYTE] = true},
    {[ONE_COL] = true},
    {[ONE_COL] = true, [ONE_BLOCK] = true},
    {[ONE_COL] = true, [ONE_BYTE] = true, [ONE_BLOCK] = true},
};
enum {
    N_SIZES = sizeof(size_sets) / sizeof(size_sets[0]),
    N_STRIDES = sizeof(to_sets) / sizeof(to_sets[0]),
    N_SPECS = 2 * 2 * 2 * N_SIZES * N_STRIDES /* at most: operations, formats, types */
};
_Static_assert(sizeof(from_sets) == sizeof(to_sets), "as many sets of strides");

static mxgen_spec make_spec(const mxgen_target *target, mx_op op, mx_format format, mx_dtype dtype,
                            const bool sizes[N_ONES], const bool strides[N_ONES])
{
    mxgen_spec spec = {.tmpl = op == MX_OP_TO ? &to_template : &from_template,
                       .target = target,
                       .key = {op, format, dtype, MX_PROFILE_PACKED, MX_LAYOUT_GENERAL},
                       .n_params = N_ONES};
    const char *format_name = mx_format_get(format)->name;
    int used = snprintf(spec.name, sizeof(spec.name), "%s_%s_%s", mx_op_name(op), format_name,
                        mx_dtype_get(dtype)->name);
    for (int i = 0; i < N_ONES; i++) {
        spec.param_names[i] = spec.tmpl->params[i].name;
        spec.params[i] = sizes[i] || strides[i];
        if (i == ONE_ROW && op == MX_OP_FROM)
            spec.params[i] = sizes[ONE_LAST];
        if (spec.params[i])
            used += snprintf(spec.name + used, sizeof(spec.name) - (size_t)used, ".%s",
                             spec.param_names[i]);
    }
    snprintf(spec.symbol, sizeof(spec.symbol), "_convert_%s_%s_kernel", mx_op_name(op),
             format_name);
    return spec;
}

/* Only a single packed block can have both strides 1. */
static bool can_be(mx_op op, const bool sizes[N_ONES], const bool strides[N_ONES])
{
    return op == MX_OP_TO || !strides[ONE_BYTE] || !strides[ONE_BLOCK] || sizes[ONE_N];
}

mx_status mx_triton_enumerate(const mxgen_target *target, mxgen_spec **specs, size_t *n,
                              mx_error *err)
{
    if (target->kind == MXGEN_HOST)
        return mx_fail(err, MX_ERR_UNSUPPORTED,
                       "%s is no GPU: Triton's kernels are for AMD's and NVIDIA's", target->name);
    mxgen_spec *made = calloc(N_SPECS, sizeof(*made));
    if (!made)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %d variants", N_SPECS);
    size_t count = 0;
    for (int k = 0; k < 8 * N_SIZES * N_STRIDES; k++) {
        int kind = k / (N_SIZES * N_STRIDES), set = k % (N_SIZES * N_STRIDES);
        mx_op op = kind & 4 ? MX_OP_FROM : MX_OP_TO;
        mx_format format = kind & 2 ? MX_FORMAT_MX6 : MX_FORMAT_MX9;
        mx_dtype dtype = kind & 1 ? MX_DTYPE_BF16 : MX_DTYPE_F32;
        const bool *sizes = size_sets[set / N_STRIDES];
        const bool *strides = (op == MX_OP_TO ? to_sets : from_sets)[set % N_STRIDES];
        if (can_be(op, sizes, strides))
            made[count++] = make_spec(target, op, format, dtype, sizes, strides);
    }
    *specs = made;
    *n = count;
    return MX_OK;
}
