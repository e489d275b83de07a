/* The block algorithm, once for all templates: from the elements that one lane has to header and
 * codes, to packed bytes, and back. `lanes` neighbouring lanes share a block; lane number `part`
 * of them has elements part * count .. + count - 1, with count = block elements / lanes. What the
 * OCP formats do here is in mx_ocp.c. */
#ifndef MXGEN_MX_BLOCK_H
#define MXGEN_MX_BLOCK_H

#include "gen/emit.h"

typedef struct mx_shape {
    mx_format format;
    mx_dtype dtype;
    mx_profile profile;
    int lanes; /* 1, 2, 4 or 8 */
    int count;
    mxe_value part; /* i32; constant 0 for one lane */
    /* OCP formats: */
    bool options;       /* all of mx_ocp_options, not only those that cost nothing */
    mxe_value rotates;  /* i1, uniform: elements are rotated; NULL ref: by the argument hadamard */
    bool hardware;      /* by the target's own conversions, where it has them */
    mxe_value position; /* i64: elements before the lane's first in the padded data, by 4 */
    mxe_value amax;     /* i32: what mx_largest has of the rest of the tile; or NULL ref */
    bool plain;         /* no block of the lanes' needs care, see mx_goes_apart */
} mx_shape;

enum { MX_MOST_ELEMENTS = 32 }; /* of a lane */

/* Elements as they lie in memory, in the low bits of an i32. */
void mx_split_words(mxe *e, mx_dtype dtype, const mxe_value *words, int count, mxe_value *raw);
void mx_join_words(mxe *e, mx_dtype dtype, const mxe_value *raw, int count, mxe_value *words);

typedef struct mx_codes {
    /* The whole block's, in every lane: byte 0 | demotion bits << 8; OCP: the scale. */
    mxe_value header;
    mxe_value q[16];      /* i32; only the low 16 bits count */
    mxe_value value[16];  /* f32: the code as a number */
    mxe_value demoted[8]; /* i1 a pair of this lane */
    mxe_value words[8];   /* OCP: i32, the lane's codes as they are stored, zeros after them */
} mx_codes;

void mx_encode(mxe *e, const mx_shape *shape, const mxe_value *raw, mx_codes *codes);
/* `raw_in` (QDQ's input, else NULL) is what NaN passes through from, where the profile says so. */
void mx_decode(mxe *e, const mx_shape *shape, const mx_codes *codes, const mxe_value *raw_in,
               mxe_value *raw_out);

/* Whether blocks that need care (NaN, Inf, scales near the ends) should go a way of their own from
 * the elements or codes on, because the target has few registers: after one of mx_encode_care and
 * mx_decode_care, mx_encode, mx_decode and mx_round_trip with shape->plain for lanes none of which
 * needs care. */
bool mx_goes_apart(const mxe *e, const mx_shape *shape);
/* i1 a lane. mx_encode_care sets codes->header. */
mxe_value mx_encode_care(mxe *e, const mx_shape *shape, const mxe_value *raw, mx_codes *codes);
mxe_value mx_decode_care(mxe *e, const mx_shape *shape, const mx_codes *codes);
/* QDQ: mx_decode of mx_encode. */
void mx_round_trip(mxe *e, const mx_shape *shape, const mxe_value *raw, mx_codes *codes,
                   mxe_value *raw_out);

/* A lane's share of a packed block: up to two runs of items. Run r lies at byte
 * offset + part * part_bytes of the block; only lane `only_part` stores it (all if -1), every
 * lane may load it. */
typedef struct mx_run {
    mxe_type type;
    int n;
    int offset, part_bytes, only_part;
    mxe_value items[8];
} mx_run;

typedef struct mx_record {
    int n_runs;
    mx_run runs[2];
} mx_record;

/* OCP: the largest magnitude of a lane's elements, as f32 bits; more than Inf's if a NaN counts. */
mxe_value mx_largest(mxe *e, const mx_shape *shape, const mxe_value *raw);

/* Largest alignment that runs may assume of a block that starts at a multiple of block_bytes. */
int mx_record_align(mx_format format);
/* The runs to store, with items. */
void mx_pack(mxe *e, const mx_shape *shape, const mx_codes *codes, mx_record *record);
/* The runs to load, without items; then, with items, their meaning. */
void mx_record_to_load(const mx_shape *shape, mx_record *record);
void mx_unpack(mxe *e, const mx_shape *shape, const mx_record *record, mx_codes *codes);

/* Address of a run in the block at `block`. */
mxe_addr mx_run_addr(mxe *e, const mx_shape *shape, const mx_run *run, mxe_addr block);
void mx_record_store(mxe *e, const mx_shape *shape, const mx_record *record, mxe_addr block,
                     int align_bytes, unsigned flags, mxe_value predicate);
void mx_record_load(mxe *e, const mx_shape *shape, mx_record *record, mxe_addr block,
                    int align_bytes, unsigned flags);
/* The same of blocks whose bytes lie `byte_stride` (i64) apart, byte by byte; block.varying is i64.
 */
void mx_record_store_bytes(mxe *e, const mx_shape *shape, const mx_record *record, mxe_addr block,
                           mxe_value byte_stride, unsigned flags, mxe_value predicate);
void mx_record_load_bytes(mxe *e, const mx_shape *shape, mx_record *record, mxe_addr block,
                          mxe_value byte_stride, unsigned flags);

#endif
