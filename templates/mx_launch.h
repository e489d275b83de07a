/* What the templates' descriptors say alike: fitting a target, and how row dimensions and packed
 * bytes become rules and arguments. */
#ifndef MXGEN_MX_LAUNCH_H
#define MXGEN_MX_LAUNCH_H

#include "gen/template.h"

/* Formats whose scale is packed with the codes, and all. */
#define MX_PACKED_FORMATS ((1u << MX_FORMAT_PACKED_COUNT) - 1)
#define MX_ALL_FORMATS ((1u << MX_FORMAT_COUNT) - 1)

/* Whether a program of `warps` warps fits the target; if not, `why` says so. */
bool mx_warps_fit(const mxgen_spec *spec, int warps, char *why, size_t why_bytes);
/* Whether `lanes` lanes can share a block. */
bool mx_lanes_fit(const mxgen_spec *spec, int lanes, char *why, size_t why_bytes);

/* Whether the target converts to the format, and the operation would. */
bool mx_converts(const mxgen_spec *spec);

/* What pointers of the operation may promise: in place, x and y of qdq are one buffer. */
unsigned mx_pointer_flags(mx_op op, bool is_output);

/* Arguments sizeK, row_strideK, x_strideK, y_strideK of the row dimensions first .. last. */
void mx_describe_dims(mxgen_kernel *kernel, mx_op op, int first, int last);
/* The argument p of blocks without gaps, at a multiple of align_bytes. */
void mx_describe_packed(mxgen_kernel *kernel, const mxgen_key *key, int align_bytes);

/* The arguments p, p_block_stride and p_byte_stride of blocks anywhere, in pieces of 1 or 2 bytes.
 */
void mx_describe_scattered(mxgen_kernel *kernel, const mxgen_key *key, int piece_bytes);

/* OCP formats, else nothing: the options of the operation as rules and arguments, all of them or
 * those that cost nothing; and the rule that each block has a scale of its own. */
void mx_describe_options(mxgen_kernel *kernel, const mxgen_key *key, bool all);
void mx_describe_blocks_alone(mxgen_kernel *kernel, const mxgen_key *key);
/* The argument s, where the operation has scales, with s_row_stride and s_block_stride. */
void mx_describe_scales(mxgen_kernel *kernel, const mxgen_key *key);

/* The argument named by a stem and a number, such as "size" and 2. */
mxe_value mx_dim_param(mxe *e, const char *stem, int dim);
/* Sum of coordinate * stride over the row dimensions 0 .. dims - 1, in elements (i64), of a row
 * number (i64), by divisions of `type`; the stem is x_stride or y_stride. */
mxe_value mx_row_offset(mxe *e, const char *stem, int dims, mxe_type type, mxe_value row);
/* i64 / i64 of values that fit 31 bits: 64-bit division is a function of its own on GPUs. */
void mx_divide(mxe *e, mxe_value a, mxe_value b, mxe_value *quotient, mxe_value *rest);

#endif
