/* The direct kernel's careful way: the blocks that do not fill a K-step, and all of a tile again
 * where a scale is out of what the main loop folds exactly. */
#include "templates/gemm_direct.h"

/* Blocks of scales below HALF are taken 2^SHIFT larger than they are, the others 2^SHIFT smaller:
 * E5M2's least number stays normal and its largest finite. */
enum { HALF = 128, SHIFT = 20, NAN_SCALE = 255 };

/* Which blocks of an operand are taken, and by which power of two more. Uniform i32. */
typedef struct part {
    mxe_value least, span, shift;
} part;

static part part_of(mxe *e, const gemm_side *side, mxe_value single, mxe_value high)
{
    mxe_value zero = mxe_i32(e, 0);
    part p = {.least = mxe_select(e, high, mxe_i32(e, HALF), zero),
              .span = mxe_i32(e, HALF - 1),
              .shift = mxe_select(e, high, mxe_i32(e, -SHIFT), mxe_i32(e, SHIFT))};
    p.least = mxe_select(e, single, mxe_i32(e, side->least_scale), p.least);
    p.span = mxe_select(e, single, mxe_i32(e, side->scale_span), p.span);
    p.shift = mxe_select(e, single, zero, p.shift);
    return p;
}

/* One side's words of octet `o` (i32) of the lane's block, all fragments. */
typedef struct source {
    mxe_value words[GEMM_MAX_FRAGS][2][2 * MXE_OCTET_WORDS];
    mxe_value scale[GEMM_MAX_FRAGS][2];
    mxe_value live; /* i1: the block is there */
} source;

static int words_of(const gemm_side *side)
{
    return side->block_bytes / GEMM_CHUNK;
}

static void read_source(mxe *e, const gemm_plan *p, const gemm_lane *lane, int which,
                        mxe_value block, mxe_value octet, source *s)
{
    const gemm_side *side = &p->side[which];
    const gemm_lane_side *at = &lane->side[which];
    int octet_bytes = side->block_bytes / 4, octets = p->unit->octets;
    int align_bytes = octet_bytes * octets < GEMM_CHUNK ? octet_bytes * octets : GEMM_CHUNK;
    mxe_value row_stride = mxe_zext(e, mxe_param(e, side->row_stride), MXE_I32);
    mxe_value scale_stride = mxe_i32(e, 0);
    if (side->scales)
        scale_stride = mxe_zext(e, mxe_param(e, side->scale_row_stride), MXE_I32);
    mxe_value inside = mxe_mul(e, block, mxe_i32(e, side->block_bytes));
    inside = mxe_add(e, inside, mxe_mul(e, octet, mxe_i32(e, octet_bytes)));
    for (int f = 0; f < side->frags; f++) {
        for (int r = 0; r < p->unit->rows; r++) {
            mxe_value row = gemm_fragment_row(e, p, lane, which, f, r);
            mxe_addr addr = {.pointer = side->data, .uniform = at->base};
            addr.varying = mxe_add(e, mxe_mul(e, row, row_stride), inside);
            mxe_load(e, addr, MXE_I32, words_of(side) * octets, align_bytes, 0, s->words[f][r]);
            if (!side->scales)
                continue;
            mxe_value scale;
            mxe_value step =
                mxe_mul(e, mxe_zext(e, block, MXE_I64), mxe_varying(e, at->scale_step));
            addr = (mxe_addr){.pointer = side->scales, .uniform = at->scale_base};
            row = mxe_mul(e, row, scale_stride);
            addr.varying = mxe_add(e, step, mxe_zext(e, row, MXE_I64));
            mxe_load(e, addr, MXE_I8, 1, 1, 0, &scale);
            s->scale[f][r] = mxe_zext(e, scale, MXE_I32);
        }
    }
}

/* Elements of one octet as bf16, not scaled but for what they cannot do without. */
static void plain_octet(mxe *e, const gemm_side *side, const mxe_value *words, mxe_value *octet)
{
    mxe_value table[MXE_TABLE_WORDS];
    switch (side->element) {
    case MXE_E2M1:
        mxe_octet_table(e, mxe_i32(e, 127), table);
        mxe_octet_e2m1(e, table, words[0], octet);
        break;
    case MXE_BF16:
        mxe_octet_bf16(e, words, octet);
        break;
    default:
        mxe_octet_fp8(e, side->element, words, mxe_f32(e, 1.0f), octet);
        break;
    }
}

static mxe_value scaled(mxe *e, const gemm_plan *p, const gemm_side *side, mxe_value number,
                        mxe_value factor)
{
    mxe_value bits = mxe_bitcast(e, number, MXE_I32), nan = mxe_i32(e, 0x7fc00000);
    mxe_value magnitude = mxe_and(e, bits, mxe_i32(e, 0x7fffffff));
    mxe_value result = mxe_fmul(e, number, factor);
    if (side->element == MXE_E4M3) {
        mxe_value code = mxe_bitcast(e, mxe_f32(e, 480.0f), MXE_I32);
        result = mxe_select(e, mxe_eq(e, magnitude, code), mxe_bitcast(e, nan, MXE_F32), result);
    }
    /* Padding contributes nothing, whatever its scales hold. */
    if (p->cols)
        result = mxe_select(e, mxe_eq(e, magnitude, mxe_i32(e, 0)), number, result);
    return result;
}

static void scaled_octets(mxe *e, const gemm_plan *p, int which, const source *s, const part *half,
                          gemm_octets *out)
{
    const gemm_side *side = &p->side[which];
    int octets = p->unit->octets, n = MXE_OCTET_WORDS;
    for (int f = 0; f < side->frags; f++) {
        mxe_keep_order(e);
        for (int i = 0; i < p->unit->rows * octets; i++) {
            int r = i / octets;
            mxe_value *octet = &out->words[f][i * n], taken = s->live, factor;
            plain_octet(e, side, &s->words[f][r][i % octets * words_of(side)], octet);
            if (side->scales) {
                mxe_value scale = s->scale[f][r];
                mxe_value near = mxe_ule(e, mxe_sub(e, scale, half->least), half->span);
                taken = mxe_and(e, taken, near);
                factor = mxe_shl(e, mxe_add(e, scale, half->shift), mxe_i32(e, 23));
                factor = mxe_select(e, mxe_eq(e, scale, mxe_i32(e, NAN_SCALE)),
                                    mxe_i32(e, 0x7fc00000), factor);
                factor = mxe_bitcast(e, factor, MXE_F32);
            }
            for (int w = 0; w < n; w++) {
                mxe_value pair[2];
                if (side->scales) {
                    mxe_bf16_split(e, octet[w], pair);
                    for (int h = 0; h < 2; h++)
                        pair[h] = scaled(e, p, side, pair[h], factor);
                    octet[w] = mxe_bf16_join(e, pair);
                }
                octet[w] = mxe_select(e, taken, octet[w], mxe_i32(e, 0));
            }
        }
    }
}

/* Products of one octet of all fragments, times a power of two, into the sums. */
static void add_products(mxe *e, const gemm_plan *p, const gemm_octets *octets, mxe_value factor,
                         mxe_sum product, gemm_sums *sums)
{
    mxe_value items[16], total[16];
    for (int m = 0; m < p->side[GEMM_LEFT].frags; m++) {
        for (int n = 0; n < p->side[GEMM_RIGHT].frags; n++) {
            mxe_sum_clear(e, product);
            mxe_matrix_bf16(e, product, octets[GEMM_LEFT].words[m], octets[GEMM_RIGHT].words[n]);
            mxe_sum_get(e, product, items);
            mxe_sum_get(e, sums->sum[m][n], total);
            for (int i = 0; i < p->unit->items; i++)
                total[i] = mxe_fma(e, items[i], factor, total[i]);
            mxe_sum_set(e, sums->sum[m][n], total);
            mxe_keep_order(e);
        }
    }
}

static void note_source(mxe *e, const gemm_plan *p, const gemm_wild *wild, int which,
                        const source *s)
{
    const gemm_side *side = &p->side[which];
    for (int f = 0; f < side->frags; f++) {
        for (int r = 0; r < p->unit->rows; r++) {
            if (side->scales)
                gemm_note_scale(e, p, wild, which, s->scale[f][r]);
            gemm_note_words(e, p, wild, which, s->words[f][r], words_of(side) * p->unit->octets);
        }
    }
}

void gemm_careful(mxe *e, const gemm_plan *p, const gemm_lane *lane, gemm_sums *sums,
                  mxe_value begin, mxe_value end, mxe_value single, const gemm_wild *wild)
{
    mxe_loop turns, octets, parts;
    int groups = p->unit->groups;
    mxe_value zero = mxe_i64(e, 0), one = mxe_i64(e, 1);
    mxe_sum product = mxe_sum_new(e, p->unit);
    mxe_value first = mxe_do_begin(e, &turns, begin, end, mxe_i64(e, groups));
    mxe_value o = mxe_do_begin(e, &octets, zero, mxe_i64(e, 4), mxe_i64(e, p->unit->octets));
    source sources[2];
    mxe_value before = mxe_lane_anew(e);
    mxe_value block = mxe_add(e, mxe_zext(e, first, MXE_I32), mxe_matrix_group(e, p->unit));
    mxe_value blocks = mxe_zext(e, end, MXE_I32);
    mxe_value live = mxe_slt(e, block, blocks);
    block = mxe_smin(e, block, mxe_sub(e, blocks, mxe_i32(e, 1)));
    for (int which = 0; which < 2; which++) {
        read_source(e, p, lane, which, block, mxe_zext(e, o, MXE_I32), &sources[which]);
        sources[which].live = live;
        note_source(e, p, wild, which, &sources[which]);
    }
    /* Parts 0 to 3: bit 0 says which of the right operand, bit 1 of the left. */
    bool scales = p->side[GEMM_LEFT].scales != NULL;
    mxe_value n_parts = mxe_select(e, single, one, mxe_i64(e, scales ? 4 : 2));
    mxe_value i = mxe_do_begin(e, &parts, zero, n_parts, one);
    mxe_value bits = mxe_zext(e, i, MXE_I32), shift = mxe_i32(e, 127);
    gemm_octets taken[2];
    for (int which = 0; which < 2; which++) {
        const gemm_side *side = &p->side[which];
        mxe_value bit = mxe_and(e, bits, mxe_i32(e, which == GEMM_LEFT ? 2 : 1));
        part half = part_of(e, side, single, mxe_ne(e, bit, mxe_i32(e, 0)));
        scaled_octets(e, p, which, &sources[which], &half, &taken[which]);
        if (side->scales)
            shift = mxe_sub(e, shift, half.shift);
    }
    mxe_value factor = mxe_bitcast(e, mxe_shl(e, shift, mxe_i32(e, 23)), MXE_F32);
    add_products(e, p, taken, factor, product, sums);
    mxe_do_end(e, &parts);
    mxe_do_end(e, &octets);
    mxe_do_end(e, &turns);
    mxe_lane_back(e, before);
}
