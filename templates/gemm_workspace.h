/* Operands of grouped GEMM in the workspace, decoded and ready for bulk copies.
 *
 * A row of an operand has k_tiles pieces of 128 bytes (128 elements of one byte, or 64 of two); 8
 * rows of one piece stand together, 1024 bytes, in the order of mxe_tile_mma: row r's chunk c at
 * chunk c ^ r. Piece t of strip s of `strips` is at (t * strips + s) * 1024, so that any run of
 * strips is one copy. Within a run of 128 elements the order is the same for both operands, but not
 * that of the tensor: chunk 4 i + q has the elements from 32 q + chunk_elements * i (per 128 bytes
 * the tile's own).
 *
 * Rows are scaled: an element is stored as value * 2^(bias - reference of its row). That leaves it
 * exact unless the row's scales are too far apart, or too near the ends of their range; MXFP8 kept
 * in a byte may lose what is below 2^-11 of its block's largest. A strip with an element that lost
 * more is flagged, and the references of its rows are zero.
 *
 *   left pieces, right pieces, slack (copies of whole tiles run over the last strip),
 *   left references, right references (a byte a row), left flags, right flags (a byte a strip)
 *
 * gemm_rows: left strips count through the groups; the right operand has strips_n strips a group.
 * gemm_cols: pieces are those of the padded contraction axis, references and flags are per group.
 */
#ifndef MXGEN_GEMM_WORKSPACE_H
#define MXGEN_GEMM_WORKSPACE_H

#include "templates/gemm_schedule.h"

enum { GEMM_ATOM_BYTES = 1024, GEMM_SLACK_BYTES = 65536 };

enum {
    GEMM_LEAST_REF =
        60, /* references are kept in a range where sums times two of them stay f32's */
    GEMM_MOST_REF = 200
};

/* How an operand's elements are kept in elem_bytes. */
mxe_tile_kind gemm_kept_kind(mxgen_operand operand, int elem_bytes);
int gemm_kept_bias(mxgen_operand operand, int elem_bytes);

/* The workspace's size, and the arguments left_strips, right_strips, k_tiles. */
void gemm_describe_workspace(mxgen_kernel *kernel, mxgen_pass pass, int elem_bytes, bool owner);

/* Byte offsets, uniform i64. */
typedef struct gemm_places {
    mxe_value left_tiles, right_tiles, left_refs, right_refs, left_flags, right_flags;
} gemm_places;

void gemm_locate(mxe *e, mxgen_pass pass, gemm_places *out);

#endif
