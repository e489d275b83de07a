#include "templates/mx_stage.h"

enum { CHUNK = 16, PIECE = 2 };

int mx_stage_bytes(int most_bytes)
{
    return (most_bytes + 2 * CHUNK - 1) / CHUNK * CHUNK;
}

static mxe_value misalignment(mxe *e, const mx_stage *stage)
{
    if (stage->aligned)
        return mxe_i64(e, 0);
    return mxe_and(e, stage->global, mxe_i64(e, CHUNK - 1));
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

/* Chunks that lie within the run. */
static void move_chunks(mxe *e, const mx_stage *stage, const span *run, bool to_global)
{
    int most = stage->most_bytes + (stage->aligned ? 0 : CHUNK - PIECE);
    int chunks = (most + CHUNK - 1) / CHUNK;
    for (int first = 0; first < chunks; first += e->lanes) {
        mxe_value lane = mxe_add(e, mxe_lane(e), mxe_i32(e, first));
        mxe_value byte = mxe_mul(e, lane, mxe_i32(e, CHUNK));
        mxe_value inside = mxe_always();
        if (stage->whole) {
            if (first + e->lanes > chunks)
                inside = mxe_ult(e, lane, mxe_i32(e, chunks));
        } else {
            mxe_value last = mxe_add(e, byte, mxe_i32(e, CHUNK));
            inside = mxe_ule(e, last, run->end);
            if (!stage->aligned)
                inside = mxe_and(e, inside, mxe_ule(e, run->first, byte));
        }
        move(e, stage, run, byte, MXE_I32, 4, inside, to_global);
    }
}

/* The first and the last chunk belong to other runs, too, where the run covers part of them: each
 * goes piece by piece, eight lanes a chunk. */
static void move_edges(mxe *e, const mx_stage *stage, const span *run, bool to_global)
{
    enum { PIECES = CHUNK / PIECE };
    mxe_value chunk_mask = mxe_i32(e, ~(CHUNK - 1));
    mxe_value tail = mxe_and(e, run->end, chunk_mask);
    for (int first = 0; first < 2 * PIECES; first += e->lanes) {
        mxe_value lane = mxe_add(e, mxe_lane(e), mxe_i32(e, first));
        mxe_value in_head = mxe_ult(e, lane, mxe_i32(e, PIECES));
        mxe_value piece = mxe_mul(e, mxe_and(e, lane, mxe_i32(e, PIECES - 1)), mxe_i32(e, PIECE));
        mxe_value byte = mxe_add(e, mxe_select(e, in_head, mxe_i32(e, 0), tail), piece);
        mxe_value inside = mxe_and(e, mxe_ule(e, run->first, byte), mxe_ult(e, byte, run->end));
        /* A whole first chunk is no edge; a run within one chunk has its head as its tail. */
        mxe_value head_is_edge =
            mxe_or(e, mxe_ne(e, run->first, mxe_i32(e, 0)), mxe_eq(e, tail, mxe_i32(e, 0)));
        mxe_value tail_is_edge = mxe_ne(e, tail, mxe_i32(e, 0));
        inside = mxe_and(e, inside, mxe_select(e, in_head, head_is_edge, tail_is_edge));
        inside = mxe_and(e, inside, mxe_ult(e, lane, mxe_i32(e, 2 * PIECES)));
        move(e, stage, run, byte, MXE_I16, 1, inside, to_global);
    }
}

static void move_run(mxe *e, const mx_stage *stage, bool to_global)
{
    mxe_value off = misalignment(e, stage);
    mxe_value first = mxe_zext(e, off, MXE_I32);
    span run = {.first = first,
                .end = mxe_add(e, first, stage->size_bytes),
                .global = mxe_sub(e, stage->global, off),
                .lds = stage->lds};
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
