/* Blocks along contiguous memory: the layouts flat and rows, for to, from and qdq.
 *
 * A warp takes NUM_LOADS groups of blocks a step; in a group, LANES_PER_BLOCK neighbouring lanes
 * share a block. All loads of a step come before its first use. In the layout rows, blocks follow
 * each other within a row; ROW_MAP says how a step finds its row. */
#include "templates/mx_rows.h"

#include "templates/mx_launch.h"
#include "templates/mx_stage.h"

enum {
    MOST_CUT = 64, /* bytes of a lane that one access moves */
    STEPS_AHEAD = 4,
    CACHE_LINE = 64
};

typedef mx_rows_plan plan;

/* Where one step stands, at kernel time. */
typedef struct step {
    mx_shape shape;
    mxe_value first;          /* i64: packed number of the step's first block */
    mxe_value x_base, y_base; /* i64: byte offset of the row part that the step starts in */
    mxe_value column;         /* i64: block within the row */
    mxe_value scales;         /* i64: byte offset of the scale that s_offset counts from */
    mxe_value limit;          /* i32: blocks from `first` on that the step may touch, 1 at least */
    mxe_value lds;            /* i64: the warp's region */
    bool whole;               /* every lane has a whole block */
} step;

/* One block of a lane. */
typedef struct place {
    mxe_value block; /* i32: counted from step.first */
    mxe_value live;  /* i1, or NULL ref when always */
    mxe_value x_offset,
        y_offset;       /* bytes from x_base, y_base, with the block's start; may be NULL */
    mxe_value column;   /* i64: block within its row; only if ragged */
    mxe_value s_offset; /* bytes from step.scales; only with scales */
} place;

static mxe_value lane_block(mxe *e, const plan *p, int load)
{
    int shift = __builtin_ctz((unsigned)p->lanes_per_block);
    mxe_value block = mxe_lane(e);
    if (shift)
        block = mxe_lshr(e, block, mxe_i32(e, shift));
    return load ? mxe_add(e, block, mxe_i32(e, load * p->group)) : block;
}

static mxe_value row_offset(mxe *e, const plan *p, const char *stride, mxe_value row, mxe_value col)
{
    mxe_value bytes = mxe_mul(e, mxe_zext(e, row, MXE_I64), mxe_param(e, stride));
    mxe_value within = mxe_mul(e, mxe_zext(e, col, MXE_I64), mxe_i64(e, p->block_elements));
    return mxe_mul(e, mxe_add(e, bytes, within), mxe_i64(e, p->elem_bytes));
}

/* Of a block of the row part that the step starts in; rows that are not ragged have their scales
 * one after the other. */
static mxe_value scale_offset(mxe *e, const plan *p, mxe_value block)
{
    if (!mx_rows_has_scales(p) || !p->ragged)
        return block;
    return mxe_mul(e, mxe_zext(e, block, MXE_I64), mxe_param(e, "s_block_stride"));
}

static place locate(mxe *e, const plan *p, const step *s, int load)
{
    place at = {.block = lane_block(e, p, load), .live = mxe_always()};
    if (!s->whole) {
        at.live = mxe_ult(e, at.block, s->limit);
        at.block = mxe_umin(e, at.block, mxe_sub(e, s->limit, mxe_i32(e, 1)));
    }
    if (p->ragged && p->map == MAP_DIVIDED) {
        mxe_value bpr = mxe_zext(e, mxe_param(e, "bpr"), MXE_I32);
        mxe_value index = mxe_add(e, mxe_zext(e, s->column, MXE_I32), at.block);
        mxe_value row = mxe_udiv(e, index, bpr);
        mxe_value col = mxe_sub(e, index, mxe_mul(e, row, bpr));
        if (p->key.op != MX_OP_FROM)
            at.x_offset = row_offset(e, p, "x_row_stride", row, col);
        if (p->key.op != MX_OP_TO)
            at.y_offset = row_offset(e, p, "y_row_stride", row, col);
        at.column = mxe_zext(e, col, MXE_I64);
        at.s_offset = scale_offset(e, p, col);
        if (mx_rows_has_scales(p))
            at.s_offset =
                mxe_add(e, at.s_offset,
                        mxe_mul(e, mxe_zext(e, row, MXE_I64), mxe_param(e, "s_row_stride")));
        return at;
    }
    int bytes = p->block_elements * p->elem_bytes;
    at.s_offset = scale_offset(e, p, at.block);
    if (!s->whole || p->lanes_per_block > 1) {
        at.x_offset = mxe_mul(e, at.block, mxe_i32(e, bytes));
        at.y_offset = at.x_offset;
    }
    if (p->ragged)
        at.column = mxe_add(e, s->column, mxe_zext(e, at.block, MXE_I64));
    return at;
}

/* The address of element `first` of a lane's. On the host a whole step keeps lanes affine. */
static mxe_addr elements_addr(mxe *e, const plan *p, const step *s, const char *pointer,
                              mxe_value base, mxe_value offset, int load, int first)
{
    mxe_addr addr = {.pointer = pointer, .uniform = base};
    int bytes = first * p->elem_bytes;
    if (offset.ref) {
        addr.varying = offset;
        if (p->lanes_per_block > 1) {
            mxe_value part = mxe_mul(e, s->shape.part, mxe_i32(e, p->count * p->elem_bytes));
            addr.varying = mxe_add(e, addr.varying, mxe_zext(e, part, addr.varying.type));
        }
    } else {
        addr.lane_stride = p->block_elements * p->elem_bytes;
        bytes += load * p->group * p->block_elements * p->elem_bytes;
    }
    if (bytes)
        addr.uniform = mxe_add(e, addr.uniform, mxe_i64(e, bytes));
    return addr;
}

/* Whether the access from element `first` on lies within the row. */
static mxe_value access_inside(mxe *e, const plan *p, const step *s, const place *at, int first)
{
    mxe_value element = mxe_mul(e, at->column, mxe_i64(e, p->block_elements));
    element = mxe_add(e, element, mxe_i64(e, first));
    if (p->lanes_per_block > 1) {
        mxe_value part = mxe_mul(e, s->shape.part, mxe_i32(e, p->count));
        element = mxe_add(e, element, mxe_zext(e, part, MXE_I64));
    }
    return mxe_slt(e, element, mxe_param(e, "len"));
}

/* How a lane's elements are cut into accesses. A whole step needs no guard, so that where any
 * alignment will do its accesses need not be VEC elements each. */
typedef struct cut {
    int vec, items, align_bytes;
    mxe_type type;
} cut;

static cut cut_of(const mxe *e, const plan *p, const step *s)
{
    cut c = {.vec = p->vec};
    bool any = p->ragged || (p->passes_by && (p->flags & MXE_STREAM));
    if (any && s->whole && mxgen_target_has(e->target, MXGEN_CAP_UNALIGNED))
        c.vec = p->count * p->elem_bytes > MOST_CUT ? MOST_CUT / p->elem_bytes : p->count;
    int bytes = c.vec * p->elem_bytes;
    c.align_bytes = p->vec * p->elem_bytes > 16 ? 16 : p->vec * p->elem_bytes;
    c.type = bytes >= 4 ? MXE_I32 : MXE_I16;
    c.items = bytes >= 4 ? bytes / 4 : 1;
    return c;
}

/* A lane's elements of x. What lies past the row's end is read from the row's part that is there,
 * and then replaced by zeros. */
static void load_elements(mxe *e, const plan *p, const step *s, const place *at, int load,
                          mxe_value *raw)
{
    cut c = cut_of(e, p, s);
    bool guard = p->ragged && !s->whole;
    for (int first = 0; first < p->count; first += c.vec) {
        mxe_value words[MX_MOST_ELEMENTS], inside = mxe_always();
        mxe_addr addr = elements_addr(e, p, s, "x", s->x_base, at->x_offset, load, first);
        if (guard) {
            inside = access_inside(e, p, s, at, first);
            /* The block's first element is there whatever the ragged end. */
            mxe_value forward = mxe_zext(e, mxe_i32(e, first * p->elem_bytes), addr.varying.type);
            mxe_value offset = mxe_add(e, addr.varying, forward);
            addr.uniform = s->x_base;
            addr.varying = mxe_select(e, inside, offset, at->x_offset);
        }
        mxe_load(e, addr, c.type, c.items, c.align_bytes, p->flags, words);
        for (int i = 0; i < c.items; i++) {
            words[i] = mxe_zext(e, words[i], MXE_I32);
            if (guard)
                words[i] = mxe_select(e, inside, words[i], mxe_i32(e, 0));
        }
        if (c.type == MXE_I16)
            raw[first] = words[0];
        else
            mx_split_words(e, p->key.dtype, words, c.vec, raw + first);
    }
}

static void store_elements(mxe *e, const plan *p, const step *s, const place *at, int load,
                           const mxe_value *raw)
{
    cut c = cut_of(e, p, s);
    for (int first = 0; first < p->count; first += c.vec) {
        mxe_value words[MX_MOST_ELEMENTS], when = at->live;
        mxe_addr addr = elements_addr(e, p, s, "y", s->y_base, at->y_offset, load, first);
        if (c.type == MXE_I16)
            words[0] = mxe_zext(e, raw[first], MXE_I16);
        else
            mx_join_words(e, p->key.dtype, raw + first, c.vec, words);
        if (p->ragged && !s->whole) {
            mxe_value inside = access_inside(e, p, s, at, first);
            when = when.ref ? mxe_and(e, when, inside) : inside;
        }
        mxe_store(e, addr, c.type, c.items, c.align_bytes, p->flags, when, words);
    }
}

static mxe_addr record_addr(mxe *e, const plan *p, const step *s, const place *at, int load,
                            const mx_stage *stage)
{
    mxe_addr addr = {.pointer = p->staged ? NULL : "p"};
    addr.uniform =
        p->staged ? mx_stage_origin(e, stage) : mxe_mul(e, s->first, mxe_i64(e, p->block_bytes));
    if (s->whole && p->lanes_per_block == 1) {
        addr.lane_stride = p->block_bytes;
        if (load)
            addr.uniform = mxe_add(e, addr.uniform, mxe_i64(e, load * p->group * p->block_bytes));
    } else {
        /* In shared memory a lane without a block may write to the slot it would have. */
        bool own_slot = p->staged && p->key.op == MX_OP_TO;
        mxe_value block = own_slot ? lane_block(e, p, load) : at->block;
        addr.varying = mxe_mul(e, block, mxe_i32(e, p->block_bytes));
    }
    return addr;
}

static mxe_value block_stride(mxe *e, const plan *p)
{
    return mx_rows_scattered(p) ? mxe_param(e, "p_block_stride") : mxe_i64(e, p->block_bytes);
}

static mx_scatter scatter_of(mxe *e, const plan *p)
{
    return (mx_scatter){.block_bytes = p->block_bytes,
                        .piece_bytes = p->staged == STAGED_PIECES ? 2 : 1,
                        .block_stride = mxe_param(e, "p_block_stride"),
                        .byte_stride = mxe_param(e, "p_byte_stride")};
}

static void flush_records(mxe *e, const plan *p, const mx_stage *stage)
{
    if (mx_rows_scattered(p)) {
        mx_scatter scatter = scatter_of(e, p);
        mx_stage_flush_scattered(e, stage, &scatter);
    } else {
        mx_stage_flush(e, stage);
    }
}

static void fill_records(mxe *e, const plan *p, const mx_stage *stage)
{
    if (mx_rows_scattered(p)) {
        mx_scatter scatter = scatter_of(e, p);
        mx_stage_fill_scattered(e, stage, &scatter);
    } else {
        mx_stage_fill(e, stage);
    }
}

static mx_stage stage_of(mxe *e, const plan *p, const step *s)
{
    int most = p->step_blocks * p->block_bytes;
    mx_stage stage = {.pointer = "p", .lds = s->lds, .most_bytes = most, .flags = p->flags};
    stage.aligned =
        mx_rows_scattered(p) || ((!p->ragged || p->map == MAP_DIVIDED) && most % 16 == 0);
    stage.whole = s->whole && stage.aligned;
    stage.global = mxe_mul(e, s->first, block_stride(e, p));
    mxe_value blocks = mxe_i32(e, p->step_blocks);
    if (!s->whole)
        blocks = mxe_umin(e, s->limit, blocks);
    stage.size_bytes = mxe_mul(e, blocks, mxe_i32(e, p->block_bytes));
    return stage;
}

/* Where lanes are blocks one after the other, the host stores them as one vector. */
static mxe_addr scale_addr(mxe *e, const plan *p, const step *s, mxe_value offset, int load)
{
    mxe_addr addr = {.pointer = "s", .uniform = s->scales};
    if (!s->whole || p->ragged || p->lanes_per_block > 1) {
        addr.varying = offset;
        return addr;
    }
    addr.lane_stride = 1;
    if (load)
        addr.uniform = mxe_add(e, addr.uniform, mxe_i64(e, load * p->group));
    return addr;
}

/* Lanes that share a block have several groups' scales: each stores that of one group, so that the
 * bytes of neighbouring groups leave in one access. */
static void store_scales(mxe *e, const plan *p, const step *s, const place *at,
                         const mxe_value *scales)
{
    int lanes = p->lanes_per_block;
    for (int first = 0; first < p->loads; first += lanes) {
        int n = p->loads - first < lanes ? p->loads - first : lanes;
        mxe_value scale = scales[first], offset = at[first].s_offset, when = at[first].live;
        for (int u = 1; u < n; u++) {
            mxe_value mine = mxe_eq(e, s->shape.part, mxe_i32(e, u));
            scale = mxe_select(e, mine, scales[first + u], scale);
            offset = mxe_select(e, mine, at[first + u].s_offset, offset);
            if (when.ref)
                when = mxe_select(e, mine, at[first + u].live, when);
        }
        if (n < lanes) {
            mxe_value storing = mxe_ult(e, s->shape.part, mxe_i32(e, n));
            when = when.ref ? mxe_and(e, when, storing) : storing;
        }
        mxe_addr addr = scale_addr(e, p, s, offset, first);
        scale = mxe_zext(e, scale, MXE_I8);
        mxe_store(e, addr, MXE_I8, 1, 1, 0, when, &scale);
    }
}

static mxe_value load_scale(mxe *e, const plan *p, const step *s, const place *at, int load)
{
    mxe_addr addr = scale_addr(e, p, s, at->s_offset, load);
    mxe_value scale;
    mxe_load(e, addr, MXE_I8, 1, 1, 0, &scale);
    return mxe_zext(e, scale, MXE_I32);
}

/* What stochastic rounding counts: elements before the lane's first in the padded data, by 4. */
static mxe_value position_of(mxe *e, const plan *p, const step *s, const place *at)
{
    mxe_value number = mxe_add(e, s->first, mxe_zext(e, at->block, MXE_I64));
    mxe_value part = mxe_mul(e, s->shape.part, mxe_i32(e, p->count / 4));
    return mxe_add(e, mxe_mul(e, number, mxe_i64(e, p->block_elements / 4)),
                   mxe_zext(e, part, MXE_I64));
}

/* What becomes of a lane's elements goes where it belongs; returns the scale. */
static mxe_value encode_block(mxe *e, const plan *p, const step *s, const mx_shape *shape,
                              const place *at, int u, const mxe_value *raw, mx_codes codes,
                              const mx_stage *stage)
{
    mx_record record;
    if (p->key.op == MX_OP_QDQ) {
        mxe_value out[MX_MOST_ELEMENTS];
        mx_round_trip(e, shape, raw, &codes, out);
        store_elements(e, p, s, at, u, out);
        return codes.header;
    }
    mx_encode(e, shape, raw, &codes);
    mx_pack(e, shape, &codes, &record);
    mxe_addr block = record_addr(e, p, s, at, u, stage);
    mx_record_store(e, shape, &record, block, p->record_align, p->staged ? 0 : p->flags,
                    p->staged ? mxe_always() : at->live);
    return codes.header;
}

/* Whether what follows is emitted twice, with stores that pass the caches by and, after pass_else,
 * without. `by` is the plan of the first. */
static bool pass_begin(mxe *e, const plan *p, const step *s, mxe_branch *branch, plan *by)
{
    *by = *p;
    if (!p->passes_by || !s->whole)
        return false;
    by->flags |= MXE_STREAM;
    mxe_if_begin(e, branch, mxe_ne(e, mxe_param(e, "stream"), mxe_i32(e, 0)));
    return true;
}

static mxe_value encode_apart(mxe *e, const plan *p, const step *s, mx_shape *shape,
                              const place *at, int u, const mxe_value *raw, const mx_stage *stage)
{
    mx_codes codes = {0};
    mxe_branch branch, pass;
    plan by;
    if (!mx_goes_apart(e, shape))
        return encode_block(e, p, s, shape, at, u, raw, codes, stage);
    mxe_value care = mx_encode_care(e, shape, raw, &codes);
    mxe_var scale = mxe_var_new(e, codes.header);
    mxe_if_begin(e, &branch, mxe_any(e, care));
    mxe_var_set(e, scale, encode_block(e, p, s, shape, at, u, raw, codes, stage));
    mxe_if_else(e, &branch);
    shape->plain = true;
    bool passes = pass_begin(e, p, s, &pass, &by);
    encode_block(e, &by, s, shape, at, u, raw, codes, stage);
    if (passes) {
        mxe_if_else(e, &pass);
        encode_block(e, p, s, shape, at, u, raw, codes, stage);
        mxe_if_end(e, &pass);
    }
    mxe_if_end(e, &branch);
    return mxe_var_get(e, scale);
}

/* Asks for the elements of a step to come. */
static void prefetch_step(mxe *e, const plan *p, const step *s)
{
    int64_t block_bytes = p->block_elements * p->elem_bytes;
    mxe_value first = mxe_add(e, s->x_base, mxe_i64(e, STEPS_AHEAD * p->step_blocks * block_bytes));
    for (int64_t byte = 0; byte < block_bytes; byte += CACHE_LINE) {
        mxe_addr addr = {.pointer = "x", .lane_stride = block_bytes};
        addr.uniform = mxe_add(e, first, mxe_i64(e, byte));
        mxe_prefetch(e, addr);
    }
}

static void step_encode(mxe *e, const plan *p, const step *s)
{
    place at[8];
    mxe_value raw[8][MX_MOST_ELEMENTS], scales[8];
    mx_stage stage = {0};
    for (int u = 0; u < p->loads; u++)
        at[u] = locate(e, p, s, u);
    for (int u = 0; u < p->loads; u++)
        load_elements(e, p, s, &at[u], u, raw[u]);
    if (s->whole)
        prefetch_step(e, p, s);
    if (p->staged && p->key.op == MX_OP_TO)
        stage = stage_of(e, p, s);
    for (int u = 0; u < p->loads; u++) {
        mx_shape shape = s->shape;
        if (p->options)
            shape.position = position_of(e, p, s, &at[u]);
        scales[u] = encode_apart(e, p, s, &shape, &at[u], u, raw[u], &stage);
    }
    if (mx_rows_has_scales(p))
        store_scales(e, p, s, at, scales);
    if (p->staged && p->key.op == MX_OP_TO) {
        mxe_warp_sync(e);
        flush_records(e, p, &stage);
        mxe_warp_sync(e);
    }
}

static void decode_block(mxe *e, const plan *p, const step *s, const mx_shape *shape,
                         const place *at, int u, const mx_codes *codes)
{
    mxe_value out[MX_MOST_ELEMENTS];
    mx_decode(e, shape, codes, NULL, out);
    store_elements(e, p, s, at, u, out);
}

static void decode_apart(mxe *e, const plan *p, const step *s, const place *at, int u,
                         const mx_codes *codes)
{
    mx_shape shape = s->shape;
    mxe_branch branch, pass;
    plan by;
    if (!mx_goes_apart(e, &shape)) {
        decode_block(e, p, s, &shape, at, u, codes);
        return;
    }
    mxe_if_begin(e, &branch, mxe_any(e, mx_decode_care(e, &shape, codes)));
    decode_block(e, p, s, &shape, at, u, codes);
    mxe_if_else(e, &branch);
    shape.plain = true;
    bool passes = pass_begin(e, p, s, &pass, &by);
    decode_block(e, &by, s, &shape, at, u, codes);
    if (passes) {
        mxe_if_else(e, &pass);
        decode_block(e, p, s, &shape, at, u, codes);
        mxe_if_end(e, &pass);
    }
    mxe_if_end(e, &branch);
}

static void step_decode(mxe *e, const plan *p, const step *s)
{
    place at[8];
    mx_record records[8];
    mxe_value scales[8];
    mx_stage stage = {0};
    if (p->staged) {
        stage = stage_of(e, p, s);
        fill_records(e, p, &stage);
        mxe_warp_sync(e);
    }
    for (int u = 0; u < p->loads; u++) {
        at[u] = locate(e, p, s, u);
        mx_record_to_load(&s->shape, &records[u]);
        mxe_addr block = record_addr(e, p, s, &at[u], u, &stage);
        mx_record_load(e, &s->shape, &records[u], block, p->record_align, p->staged ? 0 : p->flags);
        if (mx_rows_has_scales(p))
            scales[u] = load_scale(e, p, s, &at[u], u);
    }
    for (int u = 0; u < p->loads; u++) {
        mx_codes codes;
        if (mx_rows_has_scales(p))
            codes.header = scales[u];
        mx_unpack(e, &s->shape, &records[u], &codes);
        decode_apart(e, p, s, &at[u], u, &codes);
    }
    if (p->staged)
        mxe_warp_sync(e);
}

static void step_body(mxe *e, const plan *p, const step *s)
{
    if (p->key.op == MX_OP_FROM)
        step_decode(e, p, s);
    else
        step_encode(e, p, s);
}

/* The blocks of a step that is not whole, one by one. */
static void step_tail(mxe *e, const plan *p, const step *s)
{
    plan one = *p;
    step at = *s;
    mxe_loop loop;
    one.loads = one.group = one.step_blocks = 1;
    one.staged = 0;
    mxe_value blocks = mxe_umin(e, s->limit, mxe_i32(e, p->step_blocks));
    mxe_value bytes = mxe_i64(e, p->block_elements * p->elem_bytes);
    mxe_scalar_begin(e);
    mxe_value i =
        mxe_for_begin(e, &loop, mxe_i64(e, 0), mxe_zext(e, blocks, MXE_I64), mxe_i64(e, 1));
    at.first = mxe_add(e, s->first, i);
    at.limit = mxe_i32(e, 1);
    if (p->ragged)
        at.column = mxe_add(e, s->column, i);
    if (s->x_base.ref)
        at.x_base = mxe_add(e, s->x_base, mxe_mul(e, i, bytes));
    if (s->y_base.ref)
        at.y_base = mxe_add(e, s->y_base, mxe_mul(e, i, bytes));
    if (mx_rows_has_scales(p))
        at.scales =
            mxe_add(e, s->scales, p->ragged ? mxe_mul(e, i, mxe_param(e, "s_block_stride")) : i);
    step_body(e, &one, &at);
    mxe_for_end(e, &loop);
    mxe_scalar_end(e);
}

/* With a dear guard, whole steps go without one. */
static void step_split(mxe *e, const plan *p, step *s)
{
    if (!mxgen_target_has(e->target, MXGEN_CAP_SPLIT_TAIL)) {
        step_body(e, p, s);
        return;
    }
    mxe_branch branch;
    mxe_value whole = mxe_ule(e, mxe_i32(e, p->step_blocks), s->limit);
    if (p->ragged) {
        mxe_value end = mxe_add(e, s->column, mxe_i64(e, p->step_blocks));
        end = mxe_mul(e, end, mxe_i64(e, p->block_elements));
        whole = mxe_and(e, whole, mxe_ule(e, end, mxe_param(e, "len")));
    }
    mxe_if_begin(e, &branch, whole);
    s->whole = true;
    step_body(e, p, s);
    mxe_if_else(e, &branch);
    s->whole = false;
    step_tail(e, p, s);
    mxe_if_end(e, &branch);
}

static mxe_value min_i32(mxe *e, mxe_value blocks)
{
    return mxe_zext(e, mxe_umin(e, blocks, mxe_i64(e, 1 << 20)), MXE_I32);
}

/* Sets the step's place from its first block; `row` and `column` for MAP_UNIFORM. */
static void step_place(mxe *e, const plan *p, step *s, mxe_value row)
{
    mxe_value in_row = s->column, size = mxe_i64(e, p->elem_bytes);
    s->scales = s->first;
    if (!p->ragged) {
        s->x_base = mxe_mul(e, s->first, mxe_i64(e, p->block_elements * p->elem_bytes));
        s->y_base = s->x_base;
        return;
    }
    if (p->map == MAP_DIVIDED)
        in_row = mxe_i64(e, 0);
    if (mx_rows_has_scales(p))
        s->scales = mxe_add(e, mxe_mul(e, row, mxe_param(e, "s_row_stride")),
                            mxe_mul(e, in_row, mxe_param(e, "s_block_stride")));
    mxe_value within = mxe_mul(e, in_row, mxe_i64(e, p->block_elements));
    if (p->key.op != MX_OP_FROM)
        s->x_base =
            mxe_mul(e, mxe_add(e, mxe_mul(e, row, mxe_param(e, "x_row_stride")), within), size);
    if (p->key.op != MX_OP_TO)
        s->y_base =
            mxe_mul(e, mxe_add(e, mxe_mul(e, row, mxe_param(e, "y_row_stride")), within), size);
}

/* Steps over a contiguous range of packed blocks. */
static void emit_range(mxe *e, const plan *p, step *s, mxe_value index)
{
    mxe_branch branch;
    mxe_value total = mxe_param(e, "n_blocks"), row = {0};
    s->first = mxe_mul(e, index, mxe_i64(e, p->step_blocks));
    mxe_if_begin(e, &branch, mxe_slt(e, s->first, total));
    s->limit = min_i32(e, mxe_sub(e, total, s->first));
    if (p->ragged)
        mx_divide(e, s->first, mxe_param(e, "bpr"), &row, &s->column);
    step_place(e, p, s, row);
    step_split(e, p, s);
    mxe_if_end(e, &branch);
}

/* Steps within one row: program = row * chunks + chunk. */
static void emit_row(mxe *e, const plan *p, step *s, mxe_value row, mxe_value index)
{
    mxe_branch branch;
    mxe_value bpr = mxe_param(e, "bpr");
    s->column = mxe_mul(e, index, mxe_i64(e, p->step_blocks));
    mxe_if_begin(e, &branch, mxe_slt(e, s->column, bpr));
    s->limit = min_i32(e, mxe_sub(e, bpr, s->column));
    s->first = mxe_add(e, mxe_mul(e, row, bpr), s->column);
    step_place(e, p, s, row);
    step_split(e, p, s);
    mxe_if_end(e, &branch);
}

void mx_rows_emit(mxe *e, const mxgen_spec *spec, const mxgen_kernel *kernel)
{
    plan p = mx_rows_plan_of(spec);
    step s = {.shape = {p.key.format, p.key.dtype, p.key.profile, p.lanes_per_block, p.count,
                        mxe_i32(e, 0)}};
    s.shape.hardware = p.hardware;
    s.shape.options = p.options;
    mxe_loop loop;
    mxe_value program = mxe_program_id(e), warp = mxe_zext(e, mxe_warp(e), MXE_I64), row = {0};
    if (kernel->lds_bytes)
        mxe_lds_reserve(e, kernel->lds_bytes);
    if (p.lanes_per_block > 1)
        s.shape.part = mxe_and(e, mxe_lane(e), mxe_i32(e, p.lanes_per_block - 1));
    s.lds = mxe_mul(e, warp, mxe_i64(e, p.region_bytes));
    mxe_value steps = mxe_param(e, "steps");
    if (p.ragged && p.map == MAP_UNIFORM) {
        mxe_value whole = program;
        mx_divide(e, whole, mxe_param(e, "chunks"), &row, &program);
    }
    mxe_value i = mxe_for_begin(e, &loop, mxe_i64(e, 0), steps, mxe_i64(e, 1));
    mxe_value index = mxe_add(e, mxe_mul(e, program, steps), i);
    index = mxe_add(e, mxe_mul(e, index, mxe_i64(e, p.warps)), warp);
    if (p.ragged && p.map == MAP_UNIFORM)
        emit_row(e, &p, &s, row, index);
    else
        emit_range(e, &p, &s, index);
    mxe_for_end(e, &loop);
    if (p.passes_by)
        mxe_stream_end(e);
}
