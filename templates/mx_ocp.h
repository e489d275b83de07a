/* What the OCP formats (mxgen/ocp.h) do in the block algorithm: one scale a block, in a tensor of
 * its own, and codes of 4, 6 or 8 bits. */
#ifndef MXGEN_MX_OCP_H
#define MXGEN_MX_OCP_H

#include <mxgen/ocp.h>

#include "templates/mx_block.h"

/* mx_encode, mx_decode, mx_pack, mx_record_to_load and mx_unpack; the scale is codes->header. */
void mx_ocp_encode(mxe *e, const mx_shape *shape, const mxe_value *raw, mx_codes *codes);
void mx_ocp_decode(mxe *e, const mx_shape *shape, const mx_codes *codes, mxe_value *raw_out);
void mx_ocp_pack(mxe *e, const mx_shape *shape, const mx_codes *codes, mx_record *record);
void mx_ocp_record(const mx_shape *shape, mx_record *record);
void mx_ocp_unpack(mxe *e, const mx_record *record, mx_codes *codes);

/* From the block's largest magnitude, as f32 bits. */
mxe_value mx_ocp_scale_byte(mxe *e, const mx_shape *shape, mxe_value amax);
/* The largest of two u16 in each of n words, as the upper half of f32 bits. */
mxe_value mx_ocp_largest_half(mxe *e, const mxe_value *size, int n);

/* mx_ocp_plain.c: for shape->plain. mx_encode of two bf16 a word, where that is possible, and
 * mx_round_trip; both from the block's scale. */
bool mx_ocp_by_shorts(const mxe *e, const mx_shape *shape);
void mx_ocp_encode_shorts(mxe *e, const mx_shape *shape, const mxe_value *raw, mx_codes *codes);
bool mx_ocp_by_bytes(const mxe *e, const mx_shape *shape);
void mx_ocp_encode_bytes(mxe *e, const mx_shape *shape, const mxe_value *raw, mxe_value unscale,
                         mx_codes *codes);
void mx_ocp_round_trip(mxe *e, const mx_shape *shape, const mxe_value *raw, mxe_value byte,
                       mxe_value *raw_out);
/* Blocks of two neighbouring columns at once, nearest even without rotation: words[i] has row i of
 * both, 16 bits each. For the targets, formats and types that mx_ocp_encodes_two names. */
bool mx_ocp_encodes_two(const mxgen_target *target, mx_format format, mx_dtype dtype);
void mx_ocp_encode_two(mxe *e, const mx_shape *shape, const mxe_value *words, mx_codes codes[2]);

/* mx_ocp_options.c: with every option. From the block's elements (f32 bits; `size` without sign and
 * NaN) and 1 / scale: the codes without sign, and the elements whose signs count. */
void mx_ocp_rotate(mxe *e, mxe_value when, int count, mxe_value *bits); /* i1, uniform */
void mx_ocp_round_any(mxe *e, const mx_shape *shape, const mxe_value *size, mxe_value unscale,
                      mxe_value *sign, mxe_value *q);
/* Nearest even of |x| / scale for any element type; `tie` is or-ed in below it, or has a NULL ref.
 */
mxe_value mx_ocp_round_nearest(mxe *e, const mx_ocp_element *element, mxe_value y, mxe_value tie);

/* In mx_block.c: exact; to nearest even for f16, cut off for bf16. */
mxe_value mx_raw_to_f32(mxe *e, mx_dtype dtype, mxe_value raw);
mxe_value mx_f32_to_raw(mxe *e, mx_dtype dtype, mxe_value value);

#endif
