/* Grouped GEMM straight from the packed operands: what the parts of the direct kernel share.
 *
 * A program multiplies a tile of BLOCK_SIZE_M rows of the left operand by BLOCK_SIZE_N rows of the
 * right one. Its warps share it as warps_m x warps_n parts of frags_m x frags_n results of the
 * matrix unit. Operands stand in shared memory as they came, packed, a K-step of BLOCK_SIZE_K
 * elements a stage: a row is `chunks` pieces of 16 bytes, piece c at c ^ swizzle(row). A lane reads
 * whole pieces and makes bf16 of them in registers, unless the matrix unit takes blocks as they
 * are.
 *
 * The lanes that share a row (`groups` of them) take blocks of 32 elements in turn: group g has
 * blocks g, g + groups, .. of a K-step; a turn is one block of each. */
#ifndef MXGEN_GEMM_DIRECT_H
#define MXGEN_GEMM_DIRECT_H

#include "gen/emit_matrix.h"
#include "gen/template.h"
#include "templates/gemm_schedule.h"

enum {
    GEMM_CHUNK = 16,    /* bytes */
    GEMM_MAX_FRAGS = 8, /* of one operand that a warp has */
    GEMM_MAX_COPIES = 16,
    GEMM_MAX_TURNS = 4
};

typedef struct gemm_side {
    mxe_element element;
    const char *data, *scales; /* arguments; scales NULL: none */
    const char *row_stride, *group_stride;
    const char *scale_row_stride, *scale_block_stride, *scale_group_stride;
    int rows;              /* of the program's tile */
    int frags;             /* of a warp */
    int block_bytes;       /* 16, 32 or 64 */
    int row_bytes;         /* of a K-step */
    int chunks;            /* of them */
    int lds_rows;          /* rows rounded up to what the threads copy at once */
    int lds_bytes, lds_at; /* in a stage */
    int copies;            /* chunks that a thread copies */
    int first_word;        /* of a step's staged scales: of the side's first row */
    /* Scales that the main loop takes; others go the careful way. */
    int least_scale, scale_span;
} gemm_side;

enum { GEMM_LEFT = 0, GEMM_RIGHT = 1 };

typedef struct gemm_plan {
    mxgen_key key;
    const mxgen_target *target;
    const mxgen_matrix *unit;
    bool native; /* the matrix unit takes both operands' blocks */
    bool cols;
    bool redo;          /* only what flags in the workspace ask for */
    bool pipelined;     /* gemm_pipeline.c has the main loop */
    bool staged_scales; /* pipelined: scales go through shared memory, a word a row */
    int scale_words;    /* of them, those that a thread copies; others: 0 */
    int scales_at;      /* in a stage */
    int block_k, stages, warps, threads, warps_m, warps_n;
    int turns; /* of a K-step */
    int stage_bytes;
    int elem_bytes; /* of out */
    gemm_side side[2];
    gemm_grid grid;
} gemm_plan;

/* What a variant chooses. */
typedef struct gemm_shape {
    int block_m, block_n, warps;
    int tile; /* of the matrix unit */
    int group_size_m, stages, chunk;
} gemm_shape;

/* `unit` or `warps_m` is 0 where the target has no such instruction, or the warps no whole tile. */
gemm_plan gemm_plan_make(const mxgen_target *target, const mxgen_key *key, mxgen_pass pass,
                         const gemm_shape *shape);
void gemm_describe_plan(mxgen_kernel *kernel, const gemm_plan *p);
void gemm_emit_plan(mxe *e, const gemm_plan *p, const mxgen_kernel *kernel);
bool gemm_operands_fit(const mxgen_gemm_key *key);

/* What a lane knows of one operand in the tile under way. Offsets are bytes. */
typedef struct gemm_lane_side {
    mxe_value base;       /* i64: of the tile's first row, at the contraction's begin */
    mxe_value scale_base; /* i64 */
    mxe_value scale_step; /* i64: between neighbouring blocks */
    mxe_value copy_from[GEMM_MAX_COPIES];  /* i32 from base */
    mxe_value last;                        /* i32: row of the tile, uniform; rows past it read it */
    mxe_value scale_at[GEMM_MAX_FRAGS][2]; /* i32 from scale_base: of the lane's group */
    mxe_value word_from[GEMM_MAX_FRAGS];   /* pipelined: i32 from scale_base, of a fragment's row */
} gemm_lane_side;

typedef struct gemm_lane {
    gemm_lane_side side[2];
    mxe_value group;                   /* i32: among the lanes that share rows */
    mxe_value rows, columns;           /* i32: of out that the tile has */
    mxe_value valid;                   /* i32: of the rows, those that have a row of left */
    mxe_value out_base;                /* i64: of the tile's first element of out */
    mxe_value warp_row, warp_column;   /* i32: where the warp's part begins */
    mxe_value blocks;                  /* i64: of the contraction */
    mxe_value left_flags, right_flags; /* redo: i64, in the workspace, of the tile's first strips */
} gemm_lane;

/* The row in the tile that the lane reads as row `slot` of its fragment `frag`. */
mxe_value gemm_fragment_row(mxe *e, const gemm_plan *p, const gemm_lane *lane, int which, int frag,
                            int slot);

typedef struct gemm_sums {
    mxe_sum sum[GEMM_MAX_FRAGS][GEMM_MAX_FRAGS];
} gemm_sums;

/* Octet `o` of a lane's block in each of its fragments: bf16 words. */
typedef struct gemm_octets {
    mxe_value words[GEMM_MAX_FRAGS][2 * 2 * MXE_OCTET_WORDS];
} gemm_octets;

/* Adds the products of blocks [begin, end) of the contraction, read straight from memory, whatever
 * their scales: each operand is taken twice where it has scales, once its blocks of small ones,
 * once those of large ones, so that what is folded in stays a normal number. `single` (uniform i1):
 * the scales are known to be what the main loop takes, once is enough; then also notes in `wild`
 * what is not. Each warp for itself; no barriers. */
typedef struct gemm_wild {
    mxe_var scale[2]; /* i32: the largest distance from least_scale, as unsigned */
    mxe_var nan;      /* i32: nonzero, E4M3's NaN was among the elements */
} gemm_wild;

void gemm_careful(mxe *e, const gemm_plan *p, const gemm_lane *lane, gemm_sums *sums,
                  mxe_value begin, mxe_value end, mxe_value single, const gemm_wild *wild);

/* Notes a block's scale, and E4M3 words' NaN. */
void gemm_note_scale(mxe *e, const gemm_plan *p, const gemm_wild *wild, int side, mxe_value scale);
void gemm_note_words(mxe *e, const gemm_plan *p, const gemm_wild *wild, int side,
                     const mxe_value *words, int n);

/* Redo: whether any flag is set, uniform over the program; uses its shared memory. */
mxe_value gemm_any_flag_at_all(mxe *e, const gemm_plan *p);
/* Redo: where the tile's flags are, and whether one of them is set. */
void gemm_find_flags(mxe *e, const gemm_plan *p, const gemm_tile *tile, gemm_lane *lane);
mxe_value gemm_any_flag(mxe *e, const gemm_plan *p, const gemm_tile *tile, const gemm_lane *lane);
/* Redo: whether the element is of a flagged strip. Varying i1; row and column in the tile, i32. */
mxe_value gemm_is_flagged(mxe *e, const gemm_lane *lane, mxe_value row, mxe_value column);

/* f32 as bits of out's type, rounded to nearest even: i32 or i16; and back. */
mxe_value gemm_to_bits(mxe *e, mx_dtype dtype, mxe_value number);
mxe_value gemm_from_bits(mxe *e, mx_dtype dtype, mxe_value bits);

void gemm_store(mxe *e, const gemm_plan *p, const gemm_lane *lane, const gemm_sums *sums);

#endif
