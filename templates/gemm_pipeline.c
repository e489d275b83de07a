/* The main loop for matrix units that are fed in order: what one instruction waits for, those
 * behind it do, so that the order here is the order of the machine code. A K-step is a number of
 * phases, in each of which every fragment of the left operand meets every one of the right; a phase
 * is one turn where blocks are taken as they are, one octet of a turn where they are decoded.
 * Between the products of a phase stands the work for later ones: what they read, its decoding, and
 * the copies of the next K-steps.
 *
 * A step's last phases, behind a barrier, read the next one's first operands and store the step
 * after that in place of this one, which nobody reads any more; loads are a step or two further.
 *
 * A decoded operand's block is read again as soon as its last octet is decoded, so that no block
 * has registers twice; a left fragment is decoded while the one before it is multiplied. */
#include "templates/gemm_stage.h"

enum {
    OCTETS = 4,     /* of a block */
    MAX_WORK = 160, /* of a row of products: all copies twice, all that fragments need */
    MAX_SETS = 2
};

typedef enum work_kind {
    WORK_STORE = 0,
    WORK_LOAD,
    WORK_SCALE,
    WORK_READ,
    WORK_TABLE,
    WORK_FOLD
} work_kind;

typedef struct work {
    work_kind kind;
    int which, i; /* fragment, or copy */
    int turn;     /* of this step; turns and more: of the next */
    int octet;
} work;

typedef struct work_list {
    work items[MAX_WORK];
    int n;
} work_list;

/* One operand, a wave's. */
typedef struct flow {
    mxe_value flight[MAX_SETS][GEMM_MAX_COPIES][4]; /* K-steps on their way */
    mxe_value scales[GEMM_MAX_FRAGS]; /* a row's; from phase P-2 on, those of the next step */
    mxe_value block[GEMM_MAX_FRAGS][16];
    mxe_value table[GEMM_MAX_FRAGS][MXE_TABLE_WORDS];
    mxe_value now[GEMM_MAX_FRAGS][8]; /* what products take: octets, or blocks as they are */
    mxe_value later[GEMM_MAX_FRAGS][8];
    mxe_value scale_now[GEMM_MAX_FRAGS]; /* blocks as they are: of this step */
} flow;

/* Scales that a thread loads: those of a row, or of a fragment's row. */
typedef struct word_place {
    mxe_addr at;                /* of the contraction's first block */
    mxe_value step;             /* i64: to the next */
    mxe_value flight[MAX_SETS]; /* the four of a K-step */
    mxe_var coming[MAX_SETS];   /* those of the steps after these */
} word_place;

typedef struct pipeline {
    const gemm_plan *p;
    const gemm_lane *lane;
    const gemm_sums *sums;
    const gemm_wild *wild;
    mxe_value far;           /* i1: scales of neighbouring blocks do not lie side by side */
    mxe_value stage, other;  /* i64: this step's and the next one's */
    int set, word_set;       /* of registers for what comes from memory: copies, scales */
    mxe_value loading, last; /* steps: of copies, the contraction's last whole one */
    flow side[2];
    word_place words[2 * GEMM_MAX_FRAGS];
    int n_words;
} pipeline;

static int phases_of(const gemm_plan *p)
{
    return p->turns * (p->native ? 1 : OCTETS);
}

/* Blocks that are taken as they are have short K-steps: what memory sends takes longer than one. */
static int sets_of(const gemm_plan *p)
{
    return p->native ? 2 : 1;
}

static int words_of(const gemm_plan *p, int which)
{
    return p->native ? p->side[which].block_bytes / 4 : MXE_OCTET_WORDS;
}

/* ---- Work ---- */

/* A row's four blocks in a K-step: as they lie, or one by one. */
static mxe_value load_word(mxe *e, const pipeline *u, const word_place *from, mxe_value step,
                           bool near)
{
    mxe_value block = mxe_mul(e, step, mxe_i64(e, u->p->block_k / GEMM_BLOCK)), word, byte;
    mxe_addr addr = from->at;
    addr.varying = mxe_opaque(e, from->at.varying);
    if (near) {
        addr.uniform = mxe_add(e, from->at.uniform, block);
        mxe_load(e, addr, MXE_I32, 1, 1, 0, &word);
        return word;
    }
    word = mxe_varying(e, mxe_i32(e, 0));
    for (int b = 0; b < u->p->block_k / GEMM_BLOCK; b++) {
        mxe_value offset = mxe_mul(e, mxe_add(e, block, mxe_i64(e, b)), from->step);
        addr.uniform = mxe_add(e, from->at.uniform, offset);
        mxe_load(e, addr, MXE_I8, 1, 1, 0, &byte);
        word = mxe_or(e, word, mxe_shl(e, mxe_zext(e, byte, MXE_I32), mxe_i32(e, 8 * b)));
    }
    return word;
}

static void set_words(mxe *e, pipeline *u, mxe_value step, int n, bool near)
{
    for (int k = 0; k < n; k++) {
        mxe_value at = mxe_opaque(e, mxe_smin(e, mxe_add(e, step, mxe_i64(e, k)), u->last));
        for (int i = 0; i < u->n_words; i++)
            mxe_var_set(e, u->words[i].coming[k], load_word(e, u, &u->words[i], at, near));
    }
}

/* Scales of `n` K-steps from `step` on. Before all products of a round, so that none of them stands
 * beyond a branch. */
static void load_words(mxe *e, pipeline *u, mxe_value step, int n)
{
    mxe_branch far;
    mxe_if_begin_rare(e, &far, u->far);
    set_words(e, u, step, n, false);
    mxe_if_else(e, &far);
    set_words(e, u, step, n, true);
    mxe_if_end(e, &far);
}

static void take_words(mxe *e, pipeline *u, int n)
{
    for (int k = 0; k < n; k++) {
        for (int i = 0; i < u->n_words; i++)
            u->words[i].flight[(k + 1) % sets_of(u->p)] = mxe_var_get(e, u->words[i].coming[k]);
    }
}

static mxe_value word_of_thread(mxe *e, const pipeline *u, int i)
{
    const gemm_plan *p = u->p;
    mxe_value first = mxe_mul(e, mxe_warp(e), mxe_i32(e, p->target->lanes));
    return mxe_add(e, first, mxe_i32(e, i * p->threads));
}

static void store_words(mxe *e, pipeline *u)
{
    for (int i = 0; i < u->n_words; i++) {
        mxe_value word = mxe_add(e, mxe_varying(e, word_of_thread(e, u, i)), mxe_lane(e));
        mxe_addr addr = {.uniform = mxe_add(e, u->other, mxe_i64(e, u->p->scales_at)),
                         .varying = mxe_mul(e, word, mxe_i32(e, 4))};
        mxe_store(e, addr, MXE_I32, 1, 4, 0, mxe_always(), &u->words[i].flight[u->word_set]);
    }
}

/* The scales of a fragment's row in the next K-step. */
static void take_scale(mxe *e, pipeline *u, int which, int frag)
{
    const gemm_plan *p = u->p;
    mxe_value word;
    if (p->staged_scales) {
        mxe_value warp = which == GEMM_LEFT ? u->lane->warp_row : u->lane->warp_column;
        mxe_value first = mxe_zext(e, mxe_mul(e, warp, mxe_i32(e, 4)), MXE_I64);
        int place = p->scales_at + 4 * (p->side[which].first_word + frag * p->unit->tile);
        mxe_addr addr = {.uniform = mxe_add(e, mxe_add(e, u->other, first), mxe_i64(e, place)),
                         .varying = mxe_mul(e, mxe_matrix_row(e, p->unit, 0), mxe_i32(e, 4))};
        mxe_load(e, addr, MXE_I32, 1, 4, 0, &word);
    } else {
        bool second = which == GEMM_RIGHT && p->side[GEMM_LEFT].scales;
        word = u->words[frag + (second ? p->side[GEMM_LEFT].frags : 0)].flight[0];
    }
    u->side[which].scales[frag] = word;
}

/* The lanes that share a row have neighbouring blocks of each turn. */
static mxe_value scale_byte(mxe *e, const pipeline *u, int which, int frag, int turn)
{
    mxe_value at = mxe_add(e, u->lane->group, mxe_i32(e, u->p->unit->groups * turn));
    mxe_value all = u->side[which].scales[frag];
    return mxe_and(e, mxe_lshr(e, all, mxe_mul(e, at, mxe_i32(e, 8))), mxe_i32(e, 255));
}

static void make_table(mxe *e, pipeline *u, int which, int frag, int turn)
{
    const gemm_side *side = &u->p->side[which];
    flow *f = &u->side[which];
    if (!side->scales)
        return;
    mxe_value scale = scale_byte(e, u, which, frag, turn % u->p->turns);
    gemm_note_scale(e, u->p, u->wild, which, scale);
    gemm_note_words(e, u->p, u->wild, which, f->block[frag], side->block_bytes / 4);
    gemm_make_table(e, side, scale, f->table[frag]);
}

static void do_work(mxe *e, pipeline *u, const work *w)
{
    flow *f = &u->side[w->which];
    mxe_value stage = w->turn < u->p->turns ? u->stage : u->other;
    switch (w->kind) {
    case WORK_STORE:
        gemm_store_copy(e, u->p, w->which, w->i, u->stage, f->flight[u->set][w->i]);
        break;
    case WORK_LOAD:
        gemm_load_copy(e, u->p, u->lane, w->which, w->i, u->loading, f->flight[u->set][w->i]);
        break;
    case WORK_SCALE:
        take_scale(e, u, w->which, w->i);
        break;
    case WORK_READ:
        gemm_read_block(e, u->p, u->lane, w->which, stage, w->i, 0, w->turn % u->p->turns,
                        u->p->native ? f->later[w->i] : f->block[w->i]);
        break;
    case WORK_TABLE:
        make_table(e, u, w->which, w->i, w->turn);
        break;
    case WORK_FOLD:
        gemm_fold_octet(e, &u->p->side[w->which], f->block[w->i], f->table[w->i], w->octet,
                        f->later[w->i]);
        break;
    }
}

/* ---- What is to be done beside a row of products ---- */

static void add(work_list *list, work_kind kind, int which, int i, int turn, int octet)
{
    list->items[list->n++] = (work){kind, which, i, turn, octet};
}

/* Share number `row` of `rows` of what there is `n` of each. */
static void add_share(work_list *list, work_kind kind, int which, int n, int row, int rows)
{
    for (int i = n * row / rows; i < n * (row + 1) / rows; i++)
        add(list, kind, which, i, 0, 0);
}

static void add_copies(const gemm_plan *p, work_list *list, bool load, int row, int rows)
{
    for (int which = 0; which < 2; which++)
        add_share(list, load ? WORK_LOAD : WORK_STORE, which, p->side[which].copies, row, rows);
}

static void add_scales(const gemm_plan *p, work_list *list, work_kind kind, int row, int rows)
{
    for (int which = 0; which < 2; which++) {
        if (p->side[which].scales)
            add_share(list, kind, which, p->side[which].frags, row, rows);
    }
}

/* The next phase's octet of a fragment, and what goes with a block's first and last. */
static void add_fold(work_list *list, int which, int frag, int phase)
{
    int turn = phase / OCTETS, octet = phase % OCTETS;
    if (octet == 0)
        add(list, WORK_TABLE, which, frag, turn, 0);
    add(list, WORK_FOLD, which, frag, turn, octet);
    if (octet == OCTETS - 1)
        add(list, WORK_READ, which, frag, turn + 1, 0);
}

static void list_decoded(const gemm_plan *p, int phase, int row, work_list *list)
{
    int rows = p->side[GEMM_LEFT].frags, columns = p->side[GEMM_RIGHT].frags;
    int phases = phases_of(p);
    if (phase == phases - 1 && !p->staged_scales && row == 0)
        add_scales(p, list, WORK_SCALE, 0, 1);
    if (phase == phases - 2 && p->staged_scales)
        add_scales(p, list, WORK_SCALE, row, rows);
    if (row + 1 < rows)
        add_fold(list, GEMM_LEFT, row + 1, phase);
    for (int n = columns * row / rows; n < columns * (row + 1) / rows; n++)
        add_fold(list, GEMM_RIGHT, n, phase + 1);
    if (row + 1 == rows)
        add_fold(list, GEMM_LEFT, 0, phase + 1);
    if (phase == phases - 2) {
        add_copies(p, list, false, row, rows);
        add_copies(p, list, true, row, rows);
    }
}

/* What is read comes first, since the next phase waits for it. */
static void list_native(const gemm_plan *p, int phase, int row, work_list *list)
{
    int rows = p->side[GEMM_LEFT].frags, half = (rows + 1) / 2;
    bool last = phase == phases_of(p) - 1;
    if (row < half) {
        if (last)
            add_scales(p, list, WORK_SCALE, row, half);
        for (int which = 1; which >= 0; which--) {
            int n = p->side[which].frags;
            for (int i = n * row / half; i < n * (row + 1) / half; i++)
                add(list, WORK_READ, which, i, phase + 1, 0);
        }
    }
    if (last && (row >= half || rows == 1)) {
        add_copies(p, list, false, rows == 1 ? 0 : row - half, rows == 1 ? 1 : rows - half);
        add_copies(p, list, true, rows == 1 ? 0 : row - half, rows == 1 ? 1 : rows - half);
    }
}

/* ---- Phases ---- */

static void multiply(mxe *e, pipeline *u, int turn, int m, int n)
{
    const flow *left = &u->side[GEMM_LEFT], *right = &u->side[GEMM_RIGHT];
    mxe_sum sum = u->sums->sum[m][n];
    if (!u->p->native) {
        mxe_matrix_bf16(e, sum, left->now[m], right->now[n]);
        return;
    }
    int byte = u->p->unit->groups * turn;
    mxe_scaled a = {u->p->side[GEMM_LEFT].element, left->now[m], left->scale_now[m], byte};
    mxe_scaled b = {u->p->side[GEMM_RIGHT].element, right->now[n], right->scale_now[n], byte};
    mxe_matrix_scaled(e, sum, &a, &b);
}

/* A row's later octets of the left operand are for this phase but for the first one's. */
static void advance(const gemm_plan *p, flow *f, int which, int first, int end)
{
    for (int i = first; i < end; i++) {
        for (int w = 0; w < words_of(p, which); w++)
            f->now[i][w] = f->later[i][w];
    }
}

static void emit_phase(mxe *e, pipeline *u, int phase)
{
    const gemm_plan *p = u->p;
    int rows = p->side[GEMM_LEFT].frags, columns = p->side[GEMM_RIGHT].frags;
    if (phase == phases_of(p) - (p->native ? 1 : 2))
        mxe_barrier(e);
    for (int m = 0; m < rows; m++) {
        work_list list = {.n = 0};
        if (p->native)
            list_native(p, phase, m, &list);
        else
            list_decoded(p, phase, m, &list);
        for (int n = 0; n < columns; n++) {
            multiply(e, u, p->native ? phase : 0, m, n);
            for (int i = list.n * n / columns; i < list.n * (n + 1) / columns; i++)
                do_work(e, u, &list.items[i]);
            mxe_keep_order(e);
        }
        if (!p->native && m + 1 < rows)
            advance(p, &u->side[GEMM_LEFT], GEMM_LEFT, m + 1, m + 2);
    }
    advance(p, &u->side[GEMM_LEFT], GEMM_LEFT, 0, p->native ? rows : 1);
    advance(p, &u->side[GEMM_RIGHT], GEMM_RIGHT, 0, columns);
}

/* ---- The loop ---- */

enum { MAX_CARRIED = 768 };

typedef struct carried {
    mxe_value *values[MAX_CARRIED];
    mxe_var vars[MAX_CARRIED];
    int n;
} carried;

static void carry(mxe *e, carried *c, mxe_value *values, int n)
{
    for (int i = 0; i < n; i++) {
        c->vars[c->n] = mxe_var_new(e, values[i]);
        c->values[c->n++] = &values[i];
    }
}

/* All that a round of the loop takes from the one before. */
static void carry_all(mxe *e, pipeline *u, carried *c)
{
    const gemm_plan *p = u->p;
    for (int i = 0; i < p->scale_words; i++)
        carry(e, c, u->words[i].flight, sets_of(p));
    for (int which = 0; which < 2; which++) {
        const gemm_side *side = &p->side[which];
        flow *f = &u->side[which];
        for (int i = 0; i < sets_of(p) * side->copies; i++)
            carry(e, c, f->flight[i / side->copies][i % side->copies], 4);
        for (int i = 0; i < side->frags; i++) {
            bool decoded = which == GEMM_RIGHT || i == 0;
            if (p->native || decoded)
                carry(e, c, f->now[i], words_of(p, which));
            if (side->scales)
                carry(e, c, &f->scales[i], 1);
            if (p->native)
                continue;
            carry(e, c, f->block[i], side->block_bytes / 4);
            if (side->scales && decoded)
                carry(e, c, f->table[i], side->element == MXE_E2M1 ? MXE_TABLE_WORDS : 1);
        }
    }
}

static void carry_get(mxe *e, const carried *c)
{
    for (int i = 0; i < c->n; i++)
        *c->values[i] = mxe_var_get(e, c->vars[i]);
}

static void carry_set(mxe *e, const carried *c)
{
    for (int i = 0; i < c->n; i++)
        mxe_var_set(e, c->vars[i], *c->values[i]);
}

static void do_all(mxe *e, pipeline *u, work_list *list)
{
    for (int i = 0; i < list->n; i++)
        do_work(e, u, &list->items[i]);
    list->n = 0;
}

static void load_copies(mxe *e, pipeline *u, int step)
{
    work_list list = {.n = 0};
    u->set = step % sets_of(u->p);
    u->loading = mxe_smin(e, mxe_i64(e, step), u->last);
    add_copies(u->p, &list, true, 0, 1);
    do_all(e, u, &list);
}

/* Two K-steps, and loads of the next: what the loop finds of the steps before. */
static void fill(mxe *e, pipeline *u)
{
    const gemm_plan *p = u->p;
    work_list list = {.n = 0};
    u->other = mxe_i64(e, 0);
    load_words(e, u, mxe_i64(e, 0), 1);
    take_words(e, u, 1);
    for (int i = 0; i < 2; i++) {
        load_copies(e, u, i);
        u->stage = mxe_i64(e, i * p->stage_bytes);
        add_copies(p, &list, false, 0, 1);
        do_all(e, u, &list);
    }
    if (p->staged_scales) {
        u->word_set = 1 % sets_of(p);
        store_words(e, u);
        /* Scales first, as in the loop, since loads arrive in order. */
        load_words(e, u, mxe_i64(e, 1), sets_of(p));
        take_words(e, u, sets_of(p));
    }
    for (int i = 0; i < sets_of(p); i++)
        load_copies(e, u, 2 + i);
    mxe_barrier(e);
    u->stage = u->other;
    add_scales(p, &list, WORK_SCALE, 0, 1);
    for (int which = 0; which < 2; which++) {
        for (int i = 0; i < p->side[which].frags; i++) {
            add(&list, WORK_READ, which, i, 0, 0);
            if (!p->native && (which == GEMM_RIGHT || i == 0))
                add_fold(&list, which, i, 0);
        }
        do_all(e, u, &list);
        advance(p, &u->side[which], which, 0, p->native || which ? p->side[which].frags : 1);
    }
}

/* Blocks as they are: the lane's scale of turn t in byte groups * t. */
static void shift_scales(mxe *e, pipeline *u)
{
    const gemm_plan *p = u->p;
    mxe_value bits = mxe_mul(e, u->lane->group, mxe_i32(e, 8));
    for (int which = 0; which < 2; which++) {
        flow *f = &u->side[which];
        for (int i = 0; i < p->side[which].frags; i++) {
            f->scale_now[i] = mxe_lshr(e, f->scales[i], bits);
            for (int turn = 0; turn < p->turns; turn++)
                gemm_note_scale(e, p, u->wild, which, scale_byte(e, u, which, i, turn));
        }
    }
}

/* Where rows' scales lie; true if those of neighbouring blocks do not lie side by side. */
static mxe_value far_scales(mxe *e, const gemm_plan *p)
{
    mxe_value far = mxe_i1(e, 0);
    for (int which = 0; which < 2; which++) {
        const char *stride = p->side[which].scale_block_stride;
        if (stride)
            far = mxe_or(e, far, mxe_ne(e, mxe_param(e, stride), mxe_i64(e, 1)));
    }
    return far;
}

static void locate_fragments(pipeline *u)
{
    for (int which = 0; which < 2; which++) {
        const gemm_side *side = &u->p->side[which];
        const gemm_lane_side *at = &u->lane->side[which];
        for (int i = 0; side->scales && i < side->frags; i++)
            u->words[u->n_words++] = (word_place){
                {.pointer = side->scales, .uniform = at->scale_base, .varying = at->word_from[i]},
                .step = at->scale_step};
    }
}

/* Each thread a row of either side; a warp's are of one. */
static void locate_rows(mxe *e, pipeline *u)
{
    const gemm_side *left = &u->p->side[GEMM_LEFT], *right = &u->p->side[GEMM_RIGHT];
    const gemm_lane_side *a = &u->lane->side[GEMM_LEFT], *b = &u->lane->side[GEMM_RIGHT];
    for (int i = 0; i < u->p->scale_words; i++) {
        word_place *to = &u->words[u->n_words++];
        mxe_value row = word_of_thread(e, u, i), first = mxe_i32(e, right->first_word);
        mxe_value last = b->last, stride = mxe_param(e, right->scale_row_stride);
        to->at = (mxe_addr){.pointer = right->scales, .uniform = b->scale_base};
        to->step = b->scale_step;
        mxe_value is_left = mxe_slt(e, row, first);
        row = mxe_sub(e, row, mxe_select(e, is_left, mxe_i32(e, 0), first));
        if (left->scales) {
            last = mxe_select(e, is_left, a->last, last);
            stride = mxe_select(e, is_left, mxe_param(e, left->scale_row_stride), stride);
            to->at.other = left->scales;
            to->at.is_other = is_left;
            to->at.uniform = mxe_select(e, is_left, a->scale_base, b->scale_base);
            to->step = mxe_select(e, is_left, a->scale_step, b->scale_step);
        }
        mxe_value lane_row = mxe_add(e, mxe_varying(e, row), mxe_lane(e));
        lane_row = mxe_smin(e, lane_row, mxe_varying(e, last));
        to->at.varying = mxe_mul(e, lane_row, mxe_zext(e, stride, MXE_I32));
    }
}

static void locate_scales(mxe *e, pipeline *u)
{
    u->far = far_scales(e, u->p);
    if (u->p->staged_scales)
        locate_rows(e, u);
    else
        locate_fragments(u);
    for (int i = 0; i < sets_of(u->p) * u->n_words; i++)
        u->words[i / sets_of(u->p)].coming[i % sets_of(u->p)] =
            mxe_var_new(e, mxe_varying(e, mxe_i32(e, 0)));
}

/* `n` K-steps: number i has the registers' set i for copies, i + 1 for scales. */
static void run_steps(mxe *e, pipeline *u, mxe_value step, int n)
{
    const gemm_plan *p = u->p;
    int sets = sets_of(p);
    for (int i = 0; i < n; i++) {
        mxe_value next = mxe_add(e, step, mxe_i64(e, i + 1));
        mxe_value loading = mxe_smin(e, mxe_add(e, next, mxe_i64(e, 1 + sets)), u->last);
        u->set = i % sets;
        u->word_set = (i + 1) % sets;
        u->stage = gemm_stage_at(e, p, mxe_add(e, step, mxe_i64(e, i)));
        u->other = gemm_stage_at(e, p, next);
        u->loading = mxe_opaque(e, loading);
        if (p->staged_scales)
            store_words(e, u);
        if (i == 0)
            load_words(e, u, mxe_add(e, next, mxe_i64(e, p->staged_scales ? sets : 0)), n);
        if (p->native)
            shift_scales(e, u);
        for (int phase = 0; phase < phases_of(p); phase++) {
            if (phase == phases_of(p) - 1 && !p->staged_scales)
                take_words(e, u, n);
            emit_phase(e, u, phase);
        }
    }
    if (p->staged_scales)
        take_words(e, u, n);
}

static void swap_sets(pipeline *u)
{
    for (int which = 0; which < 2; which++) {
        for (int i = 0; i < 4 * u->p->side[which].copies; i++) {
            mxe_value *a = &u->side[which].flight[0][i / 4][i % 4];
            mxe_value *b = &u->side[which].flight[1][i / 4][i % 4], first = *a;
            *a = *b;
            *b = first;
        }
    }
    for (int i = 0; i < u->p->scale_words; i++) {
        mxe_value first = u->words[i].flight[0];
        u->words[i].flight[0] = u->words[i].flight[1];
        u->words[i].flight[1] = first;
    }
}

/* With two sets of registers K-steps go in pairs, an odd one before them. Returns the pairs' first.
 */
static mxe_value odd_step(mxe *e, pipeline *u, const carried *c, mxe_value steps)
{
    mxe_branch odd;
    mxe_value first = mxe_and(e, steps, mxe_i64(e, 1)), zero = mxe_i64(e, 0);
    mxe_if_begin(e, &odd, mxe_ne(e, first, zero));
    carry_get(e, c);
    run_steps(e, u, zero, 1);
    swap_sets(u);
    carry_set(e, c);
    mxe_if_end(e, &odd);
    return first;
}

void gemm_pipeline(mxe *e, const gemm_plan *p, const gemm_lane *lane, mxe_value steps,
                   const gemm_sums *sums, const gemm_wild *wild)
{
    pipeline u = {.p = p, .lane = lane, .sums = sums, .wild = wild};
    carried c = {.n = 0};
    mxe_loop loop;
    mxe_branch any;
    mxe_value first = mxe_i64(e, 0);
    u.last = mxe_sub(e, steps, mxe_i64(e, 1));
    locate_scales(e, &u);
    fill(e, &u);
    carry_all(e, &u, &c);
    if (sets_of(p) > 1)
        first = odd_step(e, &u, &c, steps);
    mxe_if_begin(e, &any, mxe_slt(e, first, steps));
    mxe_value step = mxe_do_begin(e, &loop, first, steps, mxe_i64(e, sets_of(p)));
    carry_get(e, &c);
    run_steps(e, &u, step, sets_of(p));
    carry_set(e, &c);
    mxe_do_end(e, &loop);
    mxe_if_end(e, &any);
    /* The next tile's first step is stored where others may still read. */
    mxe_barrier(e);
}
