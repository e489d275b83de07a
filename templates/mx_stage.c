#include "templates/mx_stage.h"

enum { CHUNK = 16, PIECE = 2, PIECES = CHUNK / PIECE, MOST_ROUNDS = 32, MOST_PIECE_ROUNDS = 64 };

int mx_stage_bytes(int most_bytes)
{
    return (most_bytes + 2 * CHUNK - 1) / CHUNK * CHUNK;
}

static mxe_value misalignment(mxe *e, const mx_stage *stage)
{
    if (stage->aligned)
        return mxe_i64(e, 0);
    mxe_value start = stage->global;
    if (stage->any_base)
        start = mxe_add(e, start, mxe_address(e, stage->pointer));
    return mxe_and(e, start, mxe_i64(e, CHUNK - 1));
}

mxe_value mx_stage_origin(mxe *e, const mx_stage *stage)
{
    return mxe_add(e, stage->lds, misalignment(e, stage));
}

typedef struct span {
    mxe_value first, end;  /* i32: the run's bytes, counted from the chunk that it starts in */
    mxe_value global, lds; /* i64: of that chunk */
} span;

static void move(mxe *e, const mx_stage *stage, const span *run, mxe_value byte, mxe_type type,
                 int n, mxe_value predicate, bool to_global)
{
    mxe_addr global = {.pointer = stage->pointer, .uniform = run->global, .varying = byte};
    mxe_addr image = {.pointer = NULL, .uniform = run->lds, .varying = byte};
    int align_bytes = n * (type == MXE_I32 ? 4 : 2);
    if (to_global)
        mxe_copy(e, global, image, type, n, align_bytes, stage->flags, predicate);
    else
        mxe_copy(e, image, global, type, n, align_bytes, stage->flags, predicate);
}

/* Of the first chunk that begins in the run, from the chunk that the run starts in. */
static mxe_value first_chunk(mxe *e, const mx_stage *stage, const span *run)
{
    if (stage->aligned)
        return mxe_i32(e, 0);
    mxe_value up = mxe_add(e, run->first, mxe_i32(e, CHUNK - 1));
    return mxe_and(e, up, mxe_i32(e, CHUNK));
}

/* A lane's chunk of a round, and whether it lies within the run. */
static mxe_value lane_chunk(mxe *e, const mx_stage *stage, const span *run, int first,
                            mxe_value *inside)
{
    int chunks = stage->most_bytes / CHUNK;
    mxe_value lane = mxe_add(e, mxe_lane(e), mxe_i32(e, first));
    mxe_value byte = mxe_mul(e, lane, mxe_i32(e, CHUNK));
    *inside = mxe_always();
    if (!stage->aligned)
        byte = mxe_add(e, byte, first_chunk(e, stage, run));
    if (!stage->whole)
        *inside = mxe_ule(e, mxe_add(e, byte, mxe_i32(e, CHUNK)), run->end);
    else if (first + e->lanes > chunks)
        *inside = mxe_ult(e, lane, mxe_i32(e, chunks));
    return byte;
}

static void move_chunks(mxe *e, const mx_stage *stage, const span *run, bool to_global)
{
    for (int first = 0; first < stage->most_bytes / CHUNK; first += e->lanes) {
        mxe_value inside, byte = lane_chunk(e, stage, run, first, &inside);
        move(e, stage, run, byte, MXE_I32, 4, inside, to_global);
    }
}

/* The first and the last chunk belong to other runs, too, where the run covers part of them: each
 * goes piece by piece, eight lanes a chunk. This is a lane's piece, from its round on. */
static mxe_value lane_piece(mxe *e, const mx_stage *stage, const span *run, int first,
                            mxe_value *inside)
{
    mxe_value lane = mxe_add(e, mxe_lane(e), mxe_i32(e, first));
    mxe_value in_head = mxe_ult(e, lane, mxe_i32(e, PIECES));
    mxe_value tail = mxe_and(e, run->end, mxe_i32(e, ~(CHUNK - 1)));
    mxe_value piece = mxe_mul(e, mxe_and(e, lane, mxe_i32(e, PIECES - 1)), mxe_i32(e, PIECE));
    mxe_value byte = mxe_add(e, mxe_select(e, in_head, mxe_i32(e, 0), tail), piece);
    /* The head ends at the first chunk that begins in the run, the tail does not begin before: a
     * run within one chunk is all head. */
    mxe_value middle = first_chunk(e, stage, run);
    mxe_value head = mxe_and(e, mxe_ule(e, run->first, byte), mxe_ult(e, byte, middle));
    *inside = mxe_select(e, in_head, head, mxe_ule(e, middle, byte));
    *inside = mxe_and(e, *inside, mxe_ult(e, byte, run->end));
    if (first + e->lanes > 2 * PIECES)
        *inside = mxe_and(e, *inside, mxe_ult(e, lane, mxe_i32(e, 2 * PIECES)));
    return byte;
}

static void move_edges(mxe *e, const mx_stage *stage, const span *run, bool to_global)
{
    for (int first = 0; first < 2 * PIECES; first += e->lanes) {
        mxe_value inside, byte = lane_piece(e, stage, run, first, &inside);
        move(e, stage, run, byte, MXE_I16, 1, inside, to_global);
    }
}

static span span_of(mxe *e, const mx_stage *stage)
{
    mxe_value off = misalignment(e, stage);
    mxe_value first = mxe_zext(e, off, MXE_I32);
    return (span){.first = first,
                  .end = mxe_add(e, first, stage->size_bytes),
                  .global = mxe_sub(e, stage->global, off),
                  .lds = stage->lds};
}

static void move_run(mxe *e, const mx_stage *stage, bool to_global)
{
    span run = span_of(e, stage);
    move_chunks(e, stage, &run, to_global);
    if (!stage->whole || stage->most_bytes % CHUNK)
        move_edges(e, stage, &run, to_global);
}

void mx_stage_flush(mxe *e, const mx_stage *stage)
{
    move_run(e, stage, true);
}

void mx_stage_fill(mxe *e, const mx_stage *stage)
{
    move_run(e, stage, false);
}

static mxe_addr global_at(const mx_stage *stage, const span *run, mxe_value byte)
{
    return (mxe_addr){.pointer = stage->pointer, .uniform = run->global, .varying = byte};
}

static mxe_addr image_at(mxe_value lds, mxe_value byte)
{
    return (mxe_addr){.pointer = NULL, .uniform = lds, .varying = byte};
}

void mx_stage_fill_early(mxe *e, const mx_stage *stage)
{
    span run = span_of(e, stage);
    int chunks = stage->most_bytes / CHUNK;
    mxe_value words[MOST_ROUNDS][4], pieces[2 * PIECES];
    mxe_value end = mxe_and(e, run.end, mxe_i32(e, ~(CHUNK - 1)));
    mxe_value last = mxe_sub(e, end, mxe_i32(e, CHUNK)), inside;
    if (chunks > MOST_ROUNDS * e->lanes) {
        mxe_fail(e, "a run of %d bytes, %d at most", stage->most_bytes,
                 MOST_ROUNDS * e->lanes * CHUNK);
        return;
    }
    /* A lane without a chunk reads the last one, which may lie before the run. */
    for (int first = 0; first < chunks; first += e->lanes) {
        mxe_value byte = mxe_smin(e, lane_chunk(e, stage, &run, first, &inside), last);
        mxe_load(e, global_at(stage, &run, mxe_sext(e, byte, MXE_I64)), MXE_I32, 4, CHUNK,
                 stage->flags, words[first / e->lanes]);
    }
    for (int first = 0; first < 2 * PIECES; first += e->lanes) {
        mxe_value byte = lane_piece(e, stage, &run, first, &inside);
        byte = mxe_select(e, inside, byte, run.first);
        mxe_load(e, global_at(stage, &run, byte), MXE_I16, 1, PIECE, stage->flags,
                 &pieces[first / e->lanes]);
    }
    for (int first = 0; first < chunks; first += e->lanes) {
        mxe_value byte = lane_chunk(e, stage, &run, first, &inside);
        mxe_store(e, image_at(run.lds, byte), MXE_I32, 4, CHUNK, 0, inside,
                  words[first / e->lanes]);
    }
    for (int first = 0; first < 2 * PIECES; first += e->lanes) {
        mxe_value byte = lane_piece(e, stage, &run, first, &inside);
        mxe_store(e, image_at(run.lds, byte), MXE_I16, 1, PIECE, 0, inside,
                  &pieces[first / e->lanes]);
    }
}

/* n words from byte `shift` (0 .. 15, uniform) of the aligned chunks at `at` on. */
static void read_shifted(mxe *e, mxe_addr at, mxe_value shift, int n, int align_bytes,
                         mxe_value *out)
{
    mxe_value words[MX_STAGE_READ_WORDS + 4];
    if (n % 4 || n > MX_STAGE_READ_WORDS) {
        mxe_fail(e, "%d words, a multiple of 4 and %d at most are read", n, MX_STAGE_READ_WORDS);
        return;
    }
    mxe_load(e, at, MXE_I32, n + 4, CHUNK, 0, words);
    for (int step = 8; step >= 4; step /= 2) {
        mxe_value skip = mxe_ne(e, mxe_and(e, shift, mxe_i32(e, step)), mxe_i32(e, 0));
        int left = n + (step == 8 ? 2 : 1);
        for (int i = 0; i < left && step >= align_bytes; i++)
            words[i] = mxe_select(e, skip, words[i + step / 4], words[i]);
    }
    mxe_value bits = mxe_mul(e, mxe_and(e, shift, mxe_i32(e, 3)), mxe_i32(e, 8));
    for (int i = 0; i < n; i++)
        out[i] = align_bytes >= 4 ? words[i] : mxe_funnel(e, words[i], words[i + 1], bits);
}

void mx_stage_read(mxe *e, const mx_stage *stage, mxe_value byte, int n, int align_bytes,
                   mxe_value *words)
{
    mxe_value shift = mxe_zext(e, misalignment(e, stage), MXE_I32);
    read_shifted(e, image_at(stage->lds, byte), shift, n, align_bytes, words);
}

void mx_stage_flush_shifted(mxe *e, const mx_stage *stage, int align_bytes)
{
    span run = span_of(e, stage);
    mxe_value begin = first_chunk(e, stage, &run), inside;
    mxe_value shift = mxe_sub(e, begin, run.first);
    for (int first = 0; first < stage->most_bytes / CHUNK; first += e->lanes) {
        mxe_value words[4], byte = lane_chunk(e, stage, &run, first, &inside);
        mxe_addr image = image_at(run.lds, mxe_sub(e, byte, begin));
        read_shifted(e, image, shift, 4, align_bytes, words);
        mxe_store(e, global_at(stage, &run, byte), MXE_I32, 4, CHUNK, stage->flags, inside, words);
    }
    for (int first = 0; first < 2 * PIECES; first += e->lanes) {
        mxe_value piece, byte = lane_piece(e, stage, &run, first, &inside);
        mxe_value source = mxe_sub(e, mxe_select(e, inside, byte, run.first), run.first);
        mxe_load(e, image_at(run.lds, source), MXE_I16, 1, PIECE, 0, &piece);
        mxe_store(e, global_at(stage, &run, byte), MXE_I16, 1, PIECE, stage->flags, inside, &piece);
    }
}

typedef struct piece {
    mxe_value inside; /* whether the run has it */
    mxe_addr global, image;
} piece;

/* A lane's piece of a round; what lies past the run's end is taken for its last piece. */
static piece scattered_piece(mxe *e, const mx_stage *stage, const mx_scatter *scatter, int first)
{
    int bytes = scatter->piece_bytes, shift = bytes == 2;
    piece at;
    mxe_value index = mxe_add(e, mxe_lane(e), mxe_i32(e, first));
    mxe_value pieces = mxe_lshr(e, stage->size_bytes, mxe_i32(e, shift));
    mxe_value per_block = mxe_i32(e, scatter->block_bytes / bytes);
    at.inside = mxe_ult(e, index, pieces);
    index = mxe_umin(e, index, mxe_sub(e, pieces, mxe_i32(e, 1)));
    mxe_value block = mxe_udiv(e, index, per_block);
    mxe_value within = mxe_sub(e, index, mxe_mul(e, block, per_block));
    mxe_value along = mxe_mul(e, scatter->byte_stride, mxe_i64(e, bytes));
    mxe_value offset = mxe_mul(e, mxe_zext(e, block, MXE_I64), scatter->block_stride);
    offset = mxe_add(e, offset, mxe_mul(e, mxe_zext(e, within, MXE_I64), along));
    at.global = (mxe_addr){.pointer = stage->pointer, .uniform = stage->global, .varying = offset};
    at.image = image_at(stage->lds, mxe_shl(e, index, mxe_i32(e, shift)));
    return at;
}

static mxe_type piece_type(const mx_scatter *scatter)
{
    return scatter->piece_bytes == 2 ? MXE_I16 : MXE_I8;
}

void mx_stage_flush_scattered(mxe *e, const mx_stage *stage, const mx_scatter *scatter)
{
    mxe_type type = piece_type(scatter);
    int bytes = scatter->piece_bytes;
    for (int first = 0; first < stage->most_bytes / bytes; first += e->lanes) {
        mxe_value value;
        piece at = scattered_piece(e, stage, scatter, first);
        mxe_load(e, at.image, type, 1, bytes, 0, &value);
        mxe_store(e, at.global, type, 1, bytes, stage->flags, at.inside, &value);
    }
}

void mx_stage_fill_scattered(mxe *e, const mx_stage *stage, const mx_scatter *scatter)
{
    mxe_type type = piece_type(scatter);
    int bytes = scatter->piece_bytes, rounds = 0;
    mxe_value values[MOST_PIECE_ROUNDS], inside[MOST_PIECE_ROUNDS];
    mxe_addr images[MOST_PIECE_ROUNDS];
    for (int first = 0; first < stage->most_bytes / bytes; first += e->lanes, rounds++) {
        if (rounds == MOST_PIECE_ROUNDS) {
            mxe_fail(e, "a run of %d bytes, too long to gather", stage->most_bytes);
            return;
        }
        piece at = scattered_piece(e, stage, scatter, first);
        mxe_load(e, at.global, type, 1, bytes, stage->flags, &values[rounds]);
        images[rounds] = at.image;
        inside[rounds] = at.inside;
    }
    for (int i = 0; i < rounds; i++)
        mxe_store(e, images[i], type, 1, bytes, 0, inside[i], &values[i]);
}
