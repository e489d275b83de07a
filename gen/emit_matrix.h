/* The emit layer's matrix operations: tiles multiplied by what the target has, and the elements of
 * block formats made into bf16 where it has nothing that takes them as they are. */
#ifndef MXGEN_EMIT_MATRIX_H
#define MXGEN_EMIT_MATRIX_H

#include "gen/emit.h"
#include "gen/target_matrix.h"

enum { MXE_OCTET_WORDS = 4 /* eight bf16 */ };

/* ---- Where a lane's elements stand ---- */

/* The row of an operand's tile that the lane holds as its row number `slot` (below unit->rows), and
 * its number among the lanes that share rows. Varying i32. */
mxe_value mxe_matrix_row(mxe *e, const mxgen_matrix *unit, int slot);
mxe_value mxe_matrix_group(mxe *e, const mxgen_matrix *unit);
/* Row (of the left operand) and column (row of the right one) of the lane's item `item`. */
mxe_value mxe_matrix_item_row(mxe *e, const mxgen_matrix *unit, int item);
mxe_value mxe_matrix_item_column(mxe *e, const mxgen_matrix *unit, int item);

/* ---- Results ---- */

/* A lane's items of one tile of the result, f32. Branches and loops may change them. */
typedef struct mxe_sum {
    const mxgen_matrix *unit;
    LLVMValueRef slot;
} mxe_sum;

mxe_sum mxe_sum_new(mxe *e, const mxgen_matrix *unit); /* zero */
void mxe_sum_clear(mxe *e, mxe_sum sum);
void mxe_sum_get(mxe *e, mxe_sum sum, mxe_value *items);
void mxe_sum_set_at(mxe *e, mxe_sum sum, const mxe_value *items);
#define mxe_sum_set(e, sum, items) mxe_sum_set_at(MXE_AT(e), (sum), (items))

/* ---- Products ---- */

/* Adds the product of the lanes' octets: words [unit->rows][unit->octets][4], i32. */
void mxe_matrix_bf16_at(mxe *e, mxe_sum sum, const mxe_value *left, const mxe_value *right);
#define mxe_matrix_bf16(e, ...) mxe_matrix_bf16_at(MXE_AT(e), __VA_ARGS__)

typedef enum mxe_element { MXE_E2M1 = 0, MXE_E4M3, MXE_E5M2, MXE_BF16 } mxe_element;

/* What one operation of unit->scaled takes of an operand from a lane. It contracts over
 * 32 * unit->groups elements. FP4: the 32 elements of block `group`, 4 words. FP8: elements
 * 16 * group and on, 16 of them, then those 16 * unit->groups further; 8 words. The scale is
 * always that of block `group`: byte `scale_byte` of an i32. */
typedef struct mxe_scaled {
    mxe_element element;
    const mxe_value *words;
    mxe_value scale;
    int scale_byte;
} mxe_scaled;

void mxe_matrix_scaled_at(mxe *e, mxe_sum sum, const mxe_scaled *left, const mxe_scaled *right);
#define mxe_matrix_scaled(e, ...) mxe_matrix_scaled_at(MXE_AT(e), __VA_ARGS__)

/* The compiler moves no operation across: keeps the values few that are under way at once. */
void mxe_keep_order(mxe *e);

/* The same value (uniform i64 or varying i32), about which the compiler knows nothing: what is made
 * of it is made there and not shared with places before. In loops this keeps addresses a scalar
 * part and an offset of the lane's. */
mxe_value mxe_opaque_at(mxe *e, mxe_value a);
#define mxe_opaque(e, a) mxe_opaque_at(MXE_AT(e), (a))

/* Until mxe_lane_back what follows from the lane's number is computed anew, rather than kept in
 * registers from before. Returns what mxe_lane_back takes. */
mxe_value mxe_lane_anew(mxe *e);
void mxe_lane_back(mxe *e, mxe_value before);

/* Whether a condition holds in any lane of the warp: uniform. */
mxe_value mxe_warp_any_at(mxe *e, mxe_value condition);
#define mxe_warp_any(e, condition) mxe_warp_any_at(MXE_AT(e), (condition))

/* ---- Octets: eight elements as four words of two bf16 ----
 *
 * Their order within the octet is the target's own, the same for all formats. What is folded into
 * them must leave them normal bf16 numbers. Not for the host. */

/* The bf16 of all eight E2M1 magnitudes times 2^(scale - 127), 2 <= scale <= 252 (i32): high bytes
 * of codes 0 to 3, of 4 to 7, then the low bytes. Serves the octets of one block. */
enum { MXE_TABLE_WORDS = 4 };
void mxe_octet_table_at(mxe *e, mxe_value scale, mxe_value table[MXE_TABLE_WORDS]);
void mxe_octet_e2m1_at(mxe *e, const mxe_value table[MXE_TABLE_WORDS], mxe_value word,
                       mxe_value octet[MXE_OCTET_WORDS]);
/* Elements times `factor` (f32, a power of two): E4M3's NaN comes out as 480 times it. */
void mxe_octet_fp8_at(mxe *e, mxe_element element, const mxe_value words[2], mxe_value factor,
                      mxe_value octet[MXE_OCTET_WORDS]);
/* Of eight bf16 in memory's order. */
void mxe_octet_bf16_at(mxe *e, const mxe_value words[4], mxe_value octet[MXE_OCTET_WORDS]);
#define mxe_octet_table(e, ...) mxe_octet_table_at(MXE_AT(e), __VA_ARGS__)
#define mxe_octet_e2m1(e, ...) mxe_octet_e2m1_at(MXE_AT(e), __VA_ARGS__)
#define mxe_octet_fp8(e, ...) mxe_octet_fp8_at(MXE_AT(e), __VA_ARGS__)
#define mxe_octet_bf16(e, ...) mxe_octet_bf16_at(MXE_AT(e), __VA_ARGS__)

/* The two f32 whose upper halves a word is, and back. */
void mxe_bf16_split_at(mxe *e, mxe_value word, mxe_value pair[2]);
mxe_value mxe_bf16_join_at(mxe *e, const mxe_value pair[2]);
#define mxe_bf16_split(e, ...) mxe_bf16_split_at(MXE_AT(e), __VA_ARGS__)
#define mxe_bf16_join(e, ...) mxe_bf16_join_at(MXE_AT(e), __VA_ARGS__)

/* f32 to the nearest bf16, ties to even, as i16; NaN is some NaN. */
mxe_value mxe_to_bf16_at(mxe *e, mxe_value a);
#define mxe_to_bf16(e, a) mxe_to_bf16_at(MXE_AT(e), (a))

/* An element's code, in an integer's low bits (others do not matter but in bf16), as f32, times
 * `factor`: a power of two of at most 2^119 that leaves the products normal numbers or zero. NaN
 * and infinities stay such. E2M1 with MXGEN_CAP_PERMUTE: any factor, the product rounded once. */
mxe_value mxe_element_to_f32_at(mxe *e, mxe_element element, mxe_value code, mxe_value factor);
#define mxe_element_to_f32(e, ...) mxe_element_to_f32_at(MXE_AT(e), __VA_ARGS__)

#endif
