/* The emit layer's products of fragments: what a warp multiplies on its own, out of registers.
 * Targets with MXGEN_CAP_TILE_MMA.
 *
 * A fragment is a block of 32 elements of each of eight rows: lane l has eight elements, a word of
 * MXFP4 or four words of halves, of row l / 4: elements 8 (l % 4) and on. The order within them is
 * that of mxe_fragment_e2m1, and both operands have to have it. */
#ifndef MXGEN_EMIT_FRAGMENT_H
#define MXGEN_EMIT_FRAGMENT_H

#include "gen/emit.h"

enum { MXE_FRAGMENT_WORDS = 4 /* of halves, a lane */ };

/* Four fragments of 16-byte blocks in shared memory: lane l names by its offset (varying i32) where
 * row l % 8 of fragment l / 8 stands, and gets the word of its own row of each of the four. */
void mxe_fragment_load_at(mxe *e, mxe_value offset, mxe_value words[4]);
#define mxe_fragment_load(e, ...) mxe_fragment_load_at(MXE_AT(e), __VA_ARGS__)

/* Eight E2M1 as halves. f16: times 2^-14, elements 0 4, 2 6, 1 5, 3 7, which is what costs least;
 * bf16: as they are, in order. */
void mxe_fragment_e2m1_at(mxe *e, mx_dtype dtype, mxe_value word,
                          mxe_value out[MXE_FRAGMENT_WORDS]);
#define mxe_fragment_e2m1(e, ...) mxe_fragment_e2m1_at(MXE_AT(e), __VA_ARGS__)

/* Adds the products of two fragments of the left operand (rows 0 .. 7 and 8 .. 15) and one of the
 * right one (columns 0 .. 7) to f32 sums: lane l has in sums[2 h + i] that of row l / 4 + 8 h,
 * column 2 (l % 4) + i. */
void mxe_fragment_mma_at(mxe *e, mx_dtype dtype, const mxe_value left[2 * MXE_FRAGMENT_WORDS],
                         const mxe_value right[MXE_FRAGMENT_WORDS], mxe_value sums[4]);
#define mxe_fragment_mma(e, ...) mxe_fragment_mma_at(MXE_AT(e), __VA_ARGS__)

/* The value that lane `index` (0 .. 3) of each four lanes has, in all of them; i32. */
mxe_value mxe_quad_lane_at(mxe *e, mxe_value a, int index);
#define mxe_quad_lane(e, a, index) mxe_quad_lane_at(MXE_AT(e), (a), (index))

#endif
