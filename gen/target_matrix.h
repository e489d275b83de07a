/* The matrix rows of the target table: what a chip multiplies small tiles with. A template asks for
 * a tile's size and goes by the geometry; the emit layer (gen/emit_matrix.h) knows the
 * instructions.
 *
 * All of them multiply rows of a left operand by rows of a right one, both contiguous along the
 * contraction, and add to a result of tile x tile in f32. A lane holds `rows` rows of either
 * operand; the `groups` lanes that share a row each hold other elements of it. Which elements of
 * the contraction meet in one operation is free, as long as both operands agree. */
#ifndef MXGEN_TARGET_MATRIX_H
#define MXGEN_TARGET_MATRIX_H

#include "gen/target.h"

typedef enum mxgen_matrix_form {
    MXGEN_MATRIX_MFMA = 0, /* lanes `tile` apart share a row; right operand first */
    MXGEN_MATRIX_WMMA,     /* the same; all elements of a row in one lane where groups is 1 */
    MXGEN_MATRIX_QUADS     /* four neighbouring lanes share a row */
} mxgen_matrix_form;

typedef struct mxgen_matrix {
    const char *target;
    mxgen_matrix_form form;
    int tile;
    int groups;
    int rows;
    int octets;         /* runs of eight elements of a row that one operation takes from a lane */
    int items;          /* of the result that a lane has */
    int run;            /* of them that lie side by side in a row of the result */
    int lane_elements;  /* bf16 of a row that one instruction takes from a lane */
    const char *bf16;   /* the intrinsic */
    const char *scaled; /* 32-element blocks with E8M0 scales, FP4 and FP8; NULL: none */
    bool truncates;     /* drops bits when it adds to the result: sums are to be kept short */
    bool in_order;      /* what one instruction waits for, those behind it do: the template's order
                           counts */
    int bf16_cycles,
        scaled_cycles; /* that one instruction keeps the matrix unit busy; FP4 scaled */
} mxgen_matrix;

/* NULL: the target has none of that tile. */
const mxgen_matrix *mxgen_target_matrix(const mxgen_target *target, int tile);

/* What a target without matrix instructions multiplies tiles with: plain fused multiply-adds on
 * vectors of results, of which `rows` x `vectors` stay in registers beside an operand of each
 * side. */
typedef struct mxgen_fma {
    const char *target;
    int rows, vectors;
} mxgen_fma;

/* NULL: the target has matrix instructions. */
const mxgen_fma *mxgen_target_fma(const mxgen_target *target);

/* Chiplets to which the hardware deals workgroups in turn; 1: one. */
int mxgen_target_chiplets(const mxgen_target *target);
/* Bytes that shared memory hands out without a conflict, to neighbouring lanes of 16 bytes each. */
int mxgen_target_lds_line(const mxgen_target *target);

#endif
