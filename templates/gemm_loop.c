/* The direct kernel: where a lane's data are, and the main loop. */
#include "templates/gemm_stage.h"

enum { BLOCK_K = 128 };

/* ---- The plan ---- */

static mxe_element element_of(mxgen_operand operand)
{
    static const mxe_element elements[MXGEN_OPERAND_COUNT] = {MXE_E2M1, MXE_E4M3, MXE_E5M2,
                                                              MXE_BF16};
    return elements[operand];
}

/* What an element times 2^(scale - 127) may be without leaving bf16's normal numbers; where blocks
 * are taken as they are, all scales, but for NaN where padding must not show it. */
static void set_scales(gemm_side *side, bool native, bool cols)
{
    static const struct {
        int least, most;
    } folds[] = {{2, 252}, {10, 246}, {17, 239}, {0, 255}};
    side->least_scale = native ? 0 : folds[side->element].least;
    int most = native ? (cols ? 254 : 255) : folds[side->element].most;
    side->scale_span = most - side->least_scale;
}

static void set_side(gemm_plan *p, int which, mxgen_operand operand, int rows, int warps_along)
{
    static const int block_bytes[] = {16, 32, 32, 64};
    gemm_side *side = &p->side[which];
    bool left = which == GEMM_LEFT;
    side->element = element_of(operand);
    side->block_bytes = block_bytes[side->element];
    side->data = left ? "left" : "right";
    side->row_stride = left ? "left_row_stride" : "right_row_stride";
    side->group_stride = left || p->cols ? NULL : "right_group_stride";
    if (side->element != MXE_BF16) {
        side->scales = left ? "left_scales" : "right_scales";
        side->scale_row_stride = left ? "left_scale_row_stride" : "right_scale_row_stride";
        side->scale_block_stride = left ? "left_scale_block_stride" : "right_scale_block_stride";
        side->scale_group_stride = left || p->cols ? NULL : "right_scale_group_stride";
    }
    side->rows = rows;
    side->frags = rows / warps_along / p->unit->tile;
    side->row_bytes = p->block_k / GEMM_BLOCK * side->block_bytes;
    side->chunks = side->row_bytes / GEMM_CHUNK;
    int at_once = p->threads / side->chunks;
    side->lds_rows = (rows + at_once - 1) / at_once * at_once;
    side->copies = side->lds_rows / at_once;
    side->lds_bytes = side->lds_rows * side->row_bytes;
    set_scales(side, p->native, p->cols);
}

/* As square as it gets: fewer bytes to read for each product. */
static void share_among_warps(gemm_plan *p, int block_m, int block_n)
{
    int tile = p->unit->tile, best = 1 << 30;
    p->warps_m = 0;
    for (int m = 1; m <= p->warps; m *= 2) {
        int n = p->warps / m, rows = block_m / m, columns = block_n / n;
        if (rows % tile || columns % tile || rows < tile || columns < tile)
            continue;
        if (rows + columns < best) {
            best = rows + columns;
            p->warps_m = m;
        }
    }
    p->warps_n = p->warps_m ? p->warps / p->warps_m : 0;
}

/* Scales go through shared memory where there is room, so that each is read once: rows of the left
 * operand, then of the right one, each side whole warps so that each warp has one side. */
static void set_pipeline(gemm_plan *p)
{
    int phases = p->turns * (p->native ? 1 : 4), lanes = p->target->lanes, rows = 0;
    for (int which = 0; which < 2; which++) {
        gemm_side *side = &p->side[which];
        side->first_word = rows;
        rows += side->scales ? (side->rows + lanes - 1) / lanes * lanes : 0;
    }
    int words = (rows + p->threads - 1) / p->threads;
    int bytes = words * p->threads * (int)sizeof(uint32_t);
    p->pipelined = p->unit->in_order && p->stages > 2 && phases > 1 && !p->redo;
    p->staged_scales = p->pipelined && 2 * (p->stage_bytes + bytes) <= p->target->lds_bytes;
    if (!p->staged_scales)
        return;
    p->scale_words = words;
    p->scales_at = p->stage_bytes;
    p->stage_bytes += bytes;
}

gemm_plan gemm_plan_make(const mxgen_target *target, const mxgen_key *key, mxgen_pass pass,
                         const gemm_shape *shape)
{
    gemm_plan p = {.key = *key, .target = target};
    p.block_k = BLOCK_K;
    p.stages = shape->stages;
    p.warps = shape->warps;
    p.threads = p.warps * target->lanes;
    p.unit = mxgen_target_matrix(target, shape->tile);
    p.cols = pass == MXGEN_PASS_COLS;
    p.redo = key->gemm.pass == MXGEN_PASS_STEP;
    p.elem_bytes = mx_dtype_get(key->dtype)->bytes;
    p.grid = (gemm_grid){.pass = pass,
                         .block_m = shape->block_m,
                         .block_n = shape->block_n,
                         .group_size_m = shape->group_size_m,
                         .num_xcds = mxgen_target_chiplets(target),
                         .chunk = shape->chunk};
    if (!p.unit)
        return p;
    share_among_warps(&p, shape->block_m, shape->block_n);
    if (!p.warps_m)
        return p;
    p.native = p.unit->scaled && key->gemm.left != MXGEN_OPERAND_BF16;
    p.turns = p.block_k / GEMM_BLOCK / p.unit->groups;
    set_side(&p, GEMM_LEFT, key->gemm.left, shape->block_m, p.warps_m);
    set_side(&p, GEMM_RIGHT, key->gemm.right, shape->block_n, p.warps_n);
    p.side[GEMM_RIGHT].lds_at = p.side[GEMM_LEFT].lds_bytes;
    p.stage_bytes = p.side[GEMM_LEFT].lds_bytes + p.side[GEMM_RIGHT].lds_bytes;
    set_pipeline(&p);
    return p;
}

/* ---- Where a lane's data are ---- */

/* The piece of 16 bytes in its row where piece `chunk` stands: rows that share a line of the
 * memory's banks keep their place, others move, so that lanes which read one piece of many rows, or
 * many pieces of one, meet no conflict. */
static mxe_value swizzle(mxe *e, const gemm_plan *p, const gemm_side *side, mxe_value row)
{
    int line = mxgen_target_lds_line(p->target) / GEMM_CHUNK;
    int together = line / side->chunks > 1 ? line / side->chunks : 1;
    int most = side->chunks < line ? side->chunks : line;
    mxe_value turn = mxe_lshr(e, row, mxe_i32(e, __builtin_ctz((unsigned)together)));
    return mxe_and(e, turn, mxe_i32(e, most - 1));
}

static mxe_value thread_of(mxe *e, const gemm_plan *p)
{
    mxe_value first = mxe_mul(e, mxe_warp(e), mxe_i32(e, p->target->lanes));
    return mxe_add(e, mxe_varying(e, first), mxe_lane(e));
}

/* Row and piece of the copy number `i` of a thread. */
static void copy_place(mxe *e, const gemm_plan *p, const gemm_side *side, int i, mxe_value *row,
                       mxe_value *chunk)
{
    mxe_value thread = thread_of(e, p);
    *chunk = mxe_and(e, thread, mxe_i32(e, side->chunks - 1));
    *row = mxe_lshr(e, thread, mxe_i32(e, __builtin_ctz((unsigned)side->chunks)));
    *row = mxe_add(e, *row, mxe_i32(e, i * (p->threads / side->chunks)));
}

static mxe_value param32(mxe *e, const char *name)
{
    return mxe_zext(e, mxe_param(e, name), MXE_I32);
}

mxe_value gemm_fragment_row(mxe *e, const gemm_plan *p, const gemm_lane *lane, int which, int frag,
                            int slot)
{
    mxe_value row = which == GEMM_LEFT ? lane->warp_row : lane->warp_column;
    row = mxe_add(e, row, mxe_i32(e, frag * p->unit->tile));
    row = mxe_add(e, mxe_varying(e, row), mxe_matrix_row(e, p->unit, slot));
    return mxe_smin(e, row, lane->side[which].last);
}

/* Rows past the end are read as the last: what comes of them is not stored. */
static void locate_side(mxe *e, const gemm_plan *p, int which, const gemm_tile *tile,
                        mxe_value first, mxe_value last, gemm_lane *lane)
{
    const gemm_side *side = &p->side[which];
    gemm_lane_side *at = &lane->side[which];
    at->last = last;
    mxe_value row_stride = param32(e, side->row_stride), row, chunk;
    mxe_value blocks_before = mxe_lshr(e, tile->k_begin, mxe_i64(e, 5));
    at->base = mxe_mul(e, first, mxe_param(e, side->row_stride));
    at->base = mxe_add(e, at->base, mxe_mul(e, blocks_before, mxe_i64(e, side->block_bytes)));
    if (side->group_stride)
        at->base = mxe_add(e, at->base, mxe_mul(e, tile->group, mxe_param(e, side->group_stride)));
    for (int i = 0; i < side->copies; i++) {
        copy_place(e, p, side, i, &row, &chunk);
        row = mxe_smin(e, row, last);
        at->copy_from[i] =
            mxe_add(e, mxe_mul(e, row, row_stride), mxe_mul(e, chunk, mxe_i32(e, GEMM_CHUNK)));
    }
    if (side->scales) {
        at->scale_step = mxe_param(e, side->scale_block_stride);
        at->scale_base = mxe_add(e, mxe_mul(e, first, mxe_param(e, side->scale_row_stride)),
                                 mxe_mul(e, blocks_before, at->scale_step));
        if (side->scale_group_stride)
            at->scale_base = mxe_add(
                e, at->scale_base, mxe_mul(e, tile->group, mxe_param(e, side->scale_group_stride)));
    }
    for (int f = 0; f < side->frags; f++) {
        for (int r = 0; r < p->unit->rows; r++) {
            row = gemm_fragment_row(e, p, lane, which, f, r);
            if (side->scales)
                at->scale_at[f][r] =
                    mxe_add(e, mxe_mul(e, row, param32(e, side->scale_row_stride)),
                            mxe_mul(e, lane->group, param32(e, side->scale_block_stride)));
            if (side->scales && r == 0)
                at->word_from[f] = mxe_mul(e, row, param32(e, side->scale_row_stride));
        }
    }
}

static mxe_value limited(mxe *e, mxe_value count, mxe_value before, int most)
{
    mxe_value left = mxe_smax(e, mxe_sub(e, count, before), mxe_i64(e, 0));
    return mxe_zext(e, mxe_smin(e, left, mxe_i64(e, most)), MXE_I32);
}

static void locate(mxe *e, const gemm_plan *p, const gemm_tile *tile, gemm_lane *lane)
{
    int block_m = p->grid.block_m, block_n = p->grid.block_n;
    mxe_value m0 = mxe_mul(e, tile->tile_m, mxe_i64(e, block_m));
    mxe_value n0 = mxe_mul(e, tile->tile_n, mxe_i64(e, block_n)), one = mxe_i32(e, 1);
    mxe_value n = mxe_param(e, p->cols ? "k" : "n"), warp = mxe_warp(e);
    lane->rows = limited(e, tile->rows, m0, block_m);
    lane->valid = limited(e, tile->valid, m0, block_m);
    lane->columns = limited(e, n, n0, block_n);
    lane->group = mxe_matrix_group(e, p->unit);
    mxe_value warp_m = mxe_and(e, warp, mxe_i32(e, p->warps_m - 1));
    mxe_value warp_n = mxe_lshr(e, warp, mxe_i32(e, __builtin_ctz((unsigned)p->warps_m)));
    lane->warp_row = mxe_mul(e, warp_m, mxe_i32(e, block_m / p->warps_m));
    lane->warp_column = mxe_mul(e, warp_n, mxe_i32(e, block_n / p->warps_n));
    lane->blocks = mxe_lshr(e, mxe_sub(e, tile->k_end, tile->k_begin), mxe_i64(e, 5));
    mxe_value none = mxe_eq(e, lane->valid, mxe_i32(e, 0));
    lane->blocks = mxe_select(e, none, mxe_i64(e, 0), lane->blocks);
    locate_side(e, p, GEMM_LEFT, tile, mxe_add(e, tile->left_row, m0), mxe_sub(e, lane->valid, one),
                lane);
    locate_side(e, p, GEMM_RIGHT, tile, n0, mxe_sub(e, lane->columns, one), lane);
    mxe_value row = mxe_mul(e, mxe_add(e, tile->out_row, m0), mxe_param(e, "out_row_stride"));
    lane->out_base = mxe_add(e, row, n0);
    if (p->cols)
        lane->out_base =
            mxe_add(e, lane->out_base, mxe_mul(e, tile->group, mxe_param(e, "out_group_stride")));
    lane->out_base = mxe_mul(e, lane->out_base, mxe_i64(e, p->elem_bytes));
}

/* ---- The main loop ---- */

/* A K-step on its way through registers, and its scales. */
typedef struct loaded {
    mxe_value words[2][GEMM_MAX_COPIES][4];
    mxe_value bytes[2][GEMM_MAX_FRAGS][2][GEMM_MAX_TURNS]; /* i32 */
    mxe_value scales[2][GEMM_MAX_FRAGS][2]; /* the bytes of all turns, the first lowest */
} loaded;

void gemm_load_copy(mxe *e, const gemm_plan *p, const gemm_lane *lane, int which, int i,
                    mxe_value step, mxe_value words[4])
{
    const gemm_side *side = &p->side[which];
    const gemm_lane_side *at = &lane->side[which];
    mxe_addr addr = {.pointer = side->data};
    addr.uniform = mxe_add(e, at->base, mxe_mul(e, step, mxe_i64(e, side->row_bytes)));
    addr.varying = mxe_opaque(e, at->copy_from[i]);
    mxe_load(e, addr, MXE_I32, 4, GEMM_CHUNK, 0, words);
}

static void load_step(mxe *e, const gemm_plan *p, const gemm_lane *lane, mxe_value step, loaded *to)
{
    for (int which = 0; which < 2; which++) {
        for (int i = 0; i < p->side[which].copies; i++)
            gemm_load_copy(e, p, lane, which, i, step, to->words[which][i]);
    }
}

static void load_scales(mxe *e, const gemm_plan *p, const gemm_lane *lane, mxe_value step,
                        loaded *to)
{
    for (int which = 0; which < 2; which++) {
        const gemm_side *side = &p->side[which];
        const gemm_lane_side *at = &lane->side[which];
        if (!side->scales)
            continue;
        mxe_value first = mxe_mul(e, step, mxe_i64(e, p->block_k / GEMM_BLOCK));
        for (int t = 0; t < p->turns; t++) {
            mxe_value block = mxe_add(e, first, mxe_i64(e, t * p->unit->groups));
            mxe_addr addr = {.pointer = side->scales};
            addr.uniform = mxe_add(e, at->scale_base, mxe_mul(e, block, at->scale_step));
            for (int f = 0; f < side->frags; f++) {
                for (int r = 0; r < p->unit->rows; r++) {
                    mxe_value byte;
                    addr.varying = mxe_opaque(e, at->scale_at[f][r]);
                    mxe_load(e, addr, MXE_I8, 1, 1, 0, &byte);
                    to->bytes[which][f][r][t] = mxe_zext(e, byte, MXE_I32);
                }
            }
        }
    }
}

static void pack_scales(mxe *e, const gemm_plan *p, loaded *l)
{
    for (int which = 0; which < 2; which++) {
        for (int i = 0; p->side[which].scales && i < p->side[which].frags * p->unit->rows; i++) {
            int f = i / p->unit->rows, r = i % p->unit->rows;
            const mxe_value *bytes = l->bytes[which][f][r];
            mxe_value all = bytes[0];
            for (int t = 1; t < p->turns; t++)
                all = mxe_or(e, all, mxe_shl(e, bytes[t], mxe_i32(e, 8 * t)));
            l->scales[which][f][r] = all;
        }
    }
}

void gemm_store_copy(mxe *e, const gemm_plan *p, int which, int i, mxe_value stage,
                     const mxe_value words[4])
{
    const gemm_side *side = &p->side[which];
    mxe_addr addr = {.uniform = mxe_add(e, stage, mxe_i64(e, side->lds_at))};
    mxe_value row, chunk;
    copy_place(e, p, side, i, &row, &chunk);
    chunk = mxe_xor(e, chunk, swizzle(e, p, side, row));
    addr.varying = mxe_add(e, mxe_mul(e, row, mxe_i32(e, side->row_bytes)),
                           mxe_mul(e, chunk, mxe_i32(e, GEMM_CHUNK)));
    mxe_store(e, addr, MXE_I32, 4, GEMM_CHUNK, 0, mxe_always(), words);
}

static void store_step(mxe *e, const gemm_plan *p, mxe_value stage, const loaded *from)
{
    for (int which = 0; which < 2; which++) {
        for (int i = 0; i < p->side[which].copies; i++)
            gemm_store_copy(e, p, which, i, stage, from->words[which][i]);
    }
}

/* Piece `chunk` (i32) of row `slot` of a lane's fragment, from shared memory. */
static void read_piece(mxe *e, const gemm_plan *p, const gemm_lane *lane, int which,
                       mxe_value stage, int frag, int slot, mxe_value chunk, mxe_value words[4])
{
    const gemm_side *side = &p->side[which];
    mxe_value row = mxe_matrix_row(e, p->unit, slot);
    mxe_value at = mxe_mul(e, mxe_xor(e, chunk, swizzle(e, p, side, row)), mxe_i32(e, GEMM_CHUNK));
    at = mxe_add(e, at, mxe_mul(e, row, mxe_i32(e, side->row_bytes)));
    mxe_value warp = which == GEMM_LEFT ? lane->warp_row : lane->warp_column;
    mxe_value first = mxe_zext(e, mxe_mul(e, warp, mxe_i32(e, side->row_bytes)), MXE_I64);
    int place = side->lds_at + frag * p->unit->tile * side->row_bytes;
    mxe_addr addr = {.uniform = mxe_add(e, mxe_add(e, stage, first), mxe_i64(e, place)),
                     .varying = at};
    mxe_load(e, addr, MXE_I32, 4, GEMM_CHUNK, 0, words);
}

void gemm_read_block(mxe *e, const gemm_plan *p, const gemm_lane *lane, int which, mxe_value stage,
                     int frag, int slot, int turn, mxe_value *words)
{
    const gemm_side *side = &p->side[which];
    int pieces = side->block_bytes / GEMM_CHUNK, groups = p->unit->groups;
    for (int i = 0; i < pieces; i++) {
        mxe_value chunk = lane->group;
        if (p->native) {
            chunk = mxe_add(e, chunk, mxe_i32(e, groups * (pieces * turn + i)));
        } else {
            chunk = mxe_mul(e, chunk, mxe_i32(e, pieces));
            chunk = mxe_add(e, chunk, mxe_i32(e, groups * pieces * turn + i));
        }
        read_piece(e, p, lane, which, stage, frag, slot, chunk, words + 4 * i);
    }
}

void gemm_make_table(mxe *e, const gemm_side *side, mxe_value scale,
                     mxe_value table[MXE_TABLE_WORDS])
{
    if (side->element == MXE_E2M1)
        mxe_octet_table(e, scale, table);
    else
        table[0] = mxe_shl(e, scale, mxe_i32(e, 23));
}

void gemm_fold_octet(mxe *e, const gemm_side *side, const mxe_value *words, const mxe_value *table,
                     int octet, mxe_value *out)
{
    words += octet * side->block_bytes / GEMM_CHUNK;
    if (side->element == MXE_E2M1)
        mxe_octet_e2m1(e, table, words[0], out);
    else if (side->element == MXE_BF16)
        mxe_octet_bf16(e, words, out);
    else
        mxe_octet_fp8(e, side->element, words, mxe_bitcast(e, table[0], MXE_F32), out);
}

/* A lane's blocks of one turn, all fragments of an operand. */
typedef struct blocks {
    mxe_value words[GEMM_MAX_FRAGS][2][16];
    mxe_value table[GEMM_MAX_FRAGS][2][MXE_TABLE_WORDS];
} blocks;

static void multiply_turn_folded(mxe *e, const gemm_plan *p, const blocks *both, gemm_sums *sums)
{
    const mxgen_matrix *unit = p->unit;
    for (int o = 0; o < 4; o += unit->octets) {
        gemm_octets octets[2];
        for (int which = 0; which < 2; which++) {
            for (int f = 0; f < p->side[which].frags; f++) {
                for (int i = 0; i < unit->rows * unit->octets; i++) {
                    int r = i / unit->octets;
                    gemm_fold_octet(e, &p->side[which], both[which].words[f][r],
                                    both[which].table[f][r], o + i % unit->octets,
                                    &octets[which].words[f][i * MXE_OCTET_WORDS]);
                }
            }
        }
        for (int n = 0; n < p->side[GEMM_RIGHT].frags; n++) {
            for (int m = 0; m < p->side[GEMM_LEFT].frags; m++)
                mxe_matrix_bf16(e, sums->sum[m][n], octets[GEMM_LEFT].words[m],
                                octets[GEMM_RIGHT].words[n]);
        }
    }
}

static void multiply_turn_native(mxe *e, const gemm_plan *p, const blocks *both, const loaded *at,
                                 int turn, gemm_sums *sums)
{
    for (int n = 0; n < p->side[GEMM_RIGHT].frags; n++) {
        for (int m = 0; m < p->side[GEMM_LEFT].frags; m++) {
            mxe_scaled operands[2];
            for (int which = 0; which < 2; which++) {
                int f = which == GEMM_LEFT ? m : n;
                operands[which] = (mxe_scaled){p->side[which].element, both[which].words[f][0],
                                               at->scales[which][f][0], turn};
            }
            mxe_matrix_scaled(e, sums->sum[m][n], &operands[GEMM_LEFT], &operands[GEMM_RIGHT]);
        }
    }
}

static mxe_value scale_of(mxe *e, const loaded *at, int which, int frag, int slot, int turn)
{
    mxe_value byte = mxe_lshr(e, at->scales[which][frag][slot], mxe_i32(e, 8 * turn));
    return mxe_and(e, byte, mxe_i32(e, 255));
}

static void prepare_blocks(mxe *e, const gemm_plan *p, const gemm_lane *lane, int which,
                           mxe_value stage, int turn, const loaded *at, const gemm_wild *wild,
                           blocks *b)
{
    const gemm_side *side = &p->side[which];
    for (int f = 0; f < side->frags; f++) {
        for (int r = 0; r < p->unit->rows; r++) {
            gemm_read_block(e, p, lane, which, stage, f, r, turn, b->words[f][r]);
            gemm_note_words(e, p, wild, which, b->words[f][r], side->block_bytes / 4);
            if (!side->scales)
                continue;
            mxe_value scale = scale_of(e, at, which, f, r, turn);
            gemm_note_scale(e, p, wild, which, scale);
            if (!p->native)
                gemm_make_table(e, side, scale, b->table[f][r]);
        }
    }
}

static void prepare_turn(mxe *e, const gemm_plan *p, const gemm_lane *lane, mxe_value stage,
                         int turn, const loaded *at, const gemm_wild *wild, blocks *both)
{
    for (int which = 0; which < 2; which++)
        prepare_blocks(e, p, lane, which, stage, turn, at, wild, &both[which]);
}

static void multiply_turn(mxe *e, const gemm_plan *p, const blocks *both, const loaded *at,
                          int turn, gemm_sums *sums)
{
    if (p->native)
        multiply_turn_native(e, p, both, at, turn, sums);
    else
        multiply_turn_folded(e, p, both, sums);
}

/* ---- What is carried from one K-step to the next ---- */

typedef struct carried {
    mxe_var words[2][GEMM_MAX_COPIES][4];
    mxe_var bytes[2][GEMM_MAX_FRAGS][2][GEMM_MAX_TURNS];
} carried;

typedef enum carry { CARRY_NEW = 0, CARRY_SET, CARRY_GET } carry;

static void carry_one(mxe *e, carry what, mxe_var *var, mxe_value *value)
{
    if (what == CARRY_NEW)
        *var = mxe_var_new(e, mxe_varying(e, mxe_i32(e, 0)));
    else if (what == CARRY_SET)
        mxe_var_set(e, *var, *value);
    else
        *value = mxe_var_get(e, *var);
}

static void carry_words(mxe *e, const gemm_plan *p, carry what, carried *c, loaded *l)
{
    for (int which = 0; which < 2; which++) {
        for (int i = 0; i < 4 * p->side[which].copies; i++)
            carry_one(e, what, &c->words[which][i / 4][i % 4], &l->words[which][i / 4][i % 4]);
    }
}

static void carry_scales(mxe *e, const gemm_plan *p, carry what, carried *c, loaded *l)
{
    for (int which = 0; which < 2; which++) {
        if (!p->side[which].scales)
            continue;
        int n = p->unit->rows * p->turns;
        for (int i = 0; i < p->side[which].frags * n; i++) {
            int f = i / n, r = i % n / p->turns, t = i % p->turns;
            carry_one(e, what, &c->bytes[which][f][r][t], &l->bytes[which][f][r][t]);
        }
    }
}

mxe_value gemm_stage_at(mxe *e, const gemm_plan *p, mxe_value step)
{
    mxe_value odd = mxe_and(e, step, mxe_i64(e, 1));
    return mxe_mul(e, odd, mxe_i64(e, p->stage_bytes));
}

/* Sums of an instruction that truncates are taken up by an addition that rounds, once a K-step. */
static void take_up(mxe *e, const gemm_plan *p, const gemm_sums *part, gemm_sums *sums)
{
    mxe_value items[16], total[16];
    for (int m = 0; m < p->side[GEMM_LEFT].frags; m++) {
        for (int n = 0; n < p->side[GEMM_RIGHT].frags; n++) {
            mxe_sum_get(e, part->sum[m][n], items);
            mxe_sum_get(e, sums->sum[m][n], total);
            for (int i = 0; i < p->unit->items; i++)
                total[i] = mxe_fadd(e, total[i], items[i]);
            mxe_sum_set(e, sums->sum[m][n], total);
            mxe_sum_clear(e, part->sum[m][n]);
        }
    }
}

typedef struct state {
    carried carried;
    gemm_sums sums, part; /* part: where the matrix unit truncates */
    gemm_wild wild;
} state;

/* Two stages of shared memory; with num_stages 3 a third K-step is on its way in registers. */
static void main_loop(mxe *e, const gemm_plan *p, const gemm_lane *lane, mxe_value steps, state *s)
{
    mxe_loop loop;
    loaded now, next;
    blocks both[2];
    bool ahead = p->stages > 2;
    mxe_value zero = mxe_i64(e, 0), one = mxe_i64(e, 1), last = mxe_sub(e, steps, one);
    load_step(e, p, lane, zero, &now);
    load_scales(e, p, lane, zero, &now);
    store_step(e, p, zero, &now);
    carry_scales(e, p, CARRY_SET, &s->carried, &now);
    if (ahead) {
        load_step(e, p, lane, mxe_smin(e, one, last), &now);
        carry_words(e, p, CARRY_SET, &s->carried, &now);
    }
    mxe_barrier(e);
    mxe_value step = mxe_do_begin(e, &loop, zero, steps, one);
    mxe_value following = mxe_add(e, step, one);
    mxe_value stage = gemm_stage_at(e, p, step), other = gemm_stage_at(e, p, following);
    mxe_value loading = mxe_add(e, step, mxe_i64(e, ahead ? 2 : 1));
    carry_scales(e, p, CARRY_GET, &s->carried, &now);
    /* Only here: what is loaded for the next K-step has all of this one to come. */
    pack_scales(e, p, &now);
    prepare_turn(e, p, lane, stage, 0, &now, &s->wild, both);
    if (ahead) {
        carry_words(e, p, CARRY_GET, &s->carried, &now);
        store_step(e, p, other, &now);
    }
    load_step(e, p, lane, mxe_opaque(e, mxe_smin(e, loading, last)), &next);
    load_scales(e, p, lane, mxe_opaque(e, mxe_smin(e, following, last)), &next);
    gemm_sums *sums = p->unit->truncates ? &s->part : &s->sums;
    /* In flight while the products are made. */
    mxe_keep_order(e);
    for (int turn = 0; turn < p->turns; turn++) {
        if (turn)
            prepare_turn(e, p, lane, stage, turn, &now, &s->wild, both);
        multiply_turn(e, p, both, &now, turn, sums);
    }
    if (p->unit->truncates)
        take_up(e, p, &s->part, &s->sums);
    carry_scales(e, p, CARRY_SET, &s->carried, &next);
    if (ahead)
        carry_words(e, p, CARRY_SET, &s->carried, &next);
    else
        store_step(e, p, other, &next);
    mxe_barrier(e);
    mxe_do_end(e, &loop);
}

/* ---- Scales that the main loop cannot fold ---- */

void gemm_note_scale(mxe *e, const gemm_plan *p, const gemm_wild *wild, int side, mxe_value scale)
{
    if (p->side[side].scale_span == 255)
        return;
    mxe_value far = mxe_sub(e, scale, mxe_i32(e, p->side[side].least_scale));
    mxe_var_set(e, wild->scale[side], mxe_umax(e, mxe_var_get(e, wild->scale[side]), far));
}

void gemm_note_words(mxe *e, const gemm_plan *p, const gemm_wild *wild, int side,
                     const mxe_value *words, int n)
{
    if (p->native || p->side[side].element != MXE_E4M3)
        return;
    mxe_value seen = mxe_var_get(e, wild->nan);
    for (int i = 0; i < n; i++) {
        mxe_value magnitudes = mxe_and(e, words[i], mxe_i32(e, 0x7f7f7f7f));
        mxe_value sums = mxe_add(e, magnitudes, mxe_i32(e, 0x01010101));
        seen = mxe_or(e, seen, mxe_and(e, sums, mxe_i32(e, (int32_t)0x80808080)));
    }
    mxe_var_set(e, wild->nan, seen);
}

static bool may_be_wild(const gemm_plan *p)
{
    return p->side[GEMM_LEFT].scale_span < 255 || p->side[GEMM_RIGHT].scale_span < 255;
}

static mxe_value is_wild(mxe *e, const gemm_plan *p, const gemm_wild *wild)
{
    mxe_value any = mxe_ne(e, mxe_var_get(e, wild->nan), mxe_i32(e, 0));
    for (int which = 0; which < 2; which++) {
        mxe_value span = mxe_i32(e, p->side[which].scale_span);
        any = mxe_or(e, any, mxe_ult(e, span, mxe_var_get(e, wild->scale[which])));
    }
    return mxe_warp_any(e, any);
}

static void clear_wild(mxe *e, const gemm_wild *wild)
{
    mxe_value zero = mxe_varying(e, mxe_i32(e, 0));
    for (int which = 0; which < 2; which++)
        mxe_var_set(e, wild->scale[which], zero);
    mxe_var_set(e, wild->nan, zero);
}

static void clear_sums(mxe *e, const gemm_plan *p, const gemm_sums *sums)
{
    for (int m = 0; m < p->side[GEMM_LEFT].frags; m++) {
        for (int n = 0; n < p->side[GEMM_RIGHT].frags; n++)
            mxe_sum_clear(e, sums->sum[m][n]);
    }
}

/* The rest of the contraction after the main loop's K-steps, and all of it where that found a scale
 * out of its range: one copy of the code, run as often as needed. */
static void finish_sums(mxe *e, const gemm_plan *p, const gemm_lane *lane, mxe_value steps,
                        state *s)
{
    mxe_loop attempts;
    mxe_branch again, work;
    mxe_value zero = mxe_i64(e, 0), one = mxe_i64(e, 1), two = mxe_i64(e, 2);
    mxe_value rest = mxe_mul(e, steps, mxe_i64(e, p->block_k / GEMM_BLOCK));
    mxe_value n = may_be_wild(p) ? two : one;
    mxe_value attempt = mxe_do_begin(e, &attempts, zero, n, one);
    mxe_value is_first = mxe_eq(e, attempt, zero);
    mxe_value wild = mxe_and(e, is_wild(e, p, &s->wild), mxe_ne(e, attempt, zero));
    mxe_value begin = mxe_select(e, is_first, rest, mxe_select(e, wild, zero, lane->blocks));
    mxe_if_begin(e, &again, wild);
    clear_sums(e, p, &s->sums);
    mxe_if_end(e, &again);
    mxe_value single = p->native ? mxe_i1(e, 0) : is_first;
    mxe_if_begin(e, &work, mxe_slt(e, begin, lane->blocks));
    gemm_careful(e, p, lane, &s->sums, begin, lane->blocks, single, &s->wild);
    mxe_if_end(e, &work);
    mxe_do_end(e, &attempts);
}

static void tile_product(mxe *e, const gemm_plan *p, const gemm_lane *lane, state *s)
{
    mxe_branch whole;
    mxe_value shift = mxe_i64(e, __builtin_ctz((unsigned)(p->block_k / GEMM_BLOCK)));
    mxe_value steps = mxe_lshr(e, lane->blocks, shift);
    clear_sums(e, p, &s->sums);
    clear_wild(e, &s->wild);
    mxe_if_begin(e, &whole, mxe_slt(e, mxe_i64(e, 0), steps));
    if (p->pipelined)
        gemm_pipeline(e, p, lane, steps, &s->sums, &s->wild);
    else
        main_loop(e, p, lane, steps, s);
    mxe_if_end(e, &whole);
    finish_sums(e, p, lane, steps, s);
    mxe_value before = mxe_lane_anew(e);
    gemm_store(e, p, lane, &s->sums);
    mxe_lane_back(e, before);
}

static void new_state(mxe *e, const gemm_plan *p, state *s)
{
    loaded unused;
    mxe_value zero = mxe_varying(e, mxe_i32(e, 0));
    for (int which = 0; which < 2; which++)
        s->wild.scale[which] = mxe_var_new(e, zero);
    s->wild.nan = mxe_var_new(e, zero);
    carry_scales(e, p, CARRY_NEW, &s->carried, &unused);
    if (p->stages > 2)
        carry_words(e, p, CARRY_NEW, &s->carried, &unused);
    for (int m = 0; m < p->side[GEMM_LEFT].frags; m++) {
        for (int n = 0; n < p->side[GEMM_RIGHT].frags; n++) {
            s->sums.sum[m][n] = mxe_sum_new(e, p->unit);
            if (p->unit->truncates)
                s->part.sum[m][n] = mxe_sum_new(e, p->unit);
        }
    }
}

void gemm_emit_plan(mxe *e, const gemm_plan *p, const mxgen_kernel *kernel)
{
    gemm_walk walk;
    gemm_tile tile;
    gemm_lane lane;
    state s;
    mxe_branch work;
    mxe_lds_reserve(e, kernel->lds_bytes);
    if (p->redo)
        mxe_if_begin(e, &work, gemm_any_flag_at_all(e, p));
    else
        gemm_write_status(e, p->grid.pass, 0);
    new_state(e, p, &s);
    gemm_walk_begin(e, &walk, &p->grid, &tile);
    mxe_value before = mxe_lane_anew(e);
    locate(e, p, &tile, &lane);
    if (p->redo) {
        mxe_branch flagged;
        gemm_find_flags(e, p, &tile, &lane);
        mxe_if_begin(e, &flagged, gemm_any_flag(e, p, &tile, &lane));
        tile_product(e, p, &lane, &s);
        mxe_if_end(e, &flagged);
    } else {
        tile_product(e, p, &lane, &s);
    }
    mxe_lane_back(e, before);
    gemm_walk_end(e, &walk);
    if (p->redo)
        mxe_if_end(e, &work);
}
