/* Runs of bytes between registers and global memory by way of shared memory: 18-byte records, or
 * rows that start anywhere, leave and arrive as 16-byte chunks that are aligned in global memory.
 */
#ifndef MXGEN_MX_STAGE_H
#define MXGEN_MX_STAGE_H

#include "gen/emit.h"

enum { MX_STAGE_READ_WORDS = 16 };

/* One run of bytes, contiguous in global memory, that the lanes of a warp move together. */
typedef struct mx_stage {
    const char *pointer;  /* kernel argument, 16-byte aligned unless any_base */
    mxe_value global;     /* i64, uniform: byte offset of the run from `pointer` */
    mxe_value lds;        /* i64, uniform: start of the image, a multiple of 16 */
    mxe_value size_bytes; /* i32, uniform: of the run, even */
    int most_bytes;       /* the image's capacity without the 16 bytes for misalignment */
    bool any_base;        /* `pointer` itself is aligned to 2 bytes only */
    bool aligned;         /* `global` is a multiple of 16 */
    bool whole;           /* and size_bytes == most_bytes */
    unsigned flags;
} mx_stage;

/* How packed bytes lie in global memory where they do not follow each other: piece k of a block, of
 * `piece_bytes`, at k * piece_bytes * byte_stride of the block's place. */
typedef struct mx_scatter {
    int block_bytes, piece_bytes;        /* piece_bytes divides block_bytes; 1 or 2 */
    mxe_value block_stride, byte_stride; /* i64, bytes */
} mx_scatter;

/* Bytes of shared memory a run needs. */
int mx_stage_bytes(int most_bytes);
/* Where byte 0 of the run lies in shared memory, i64: the image starts at the global address
 * modulo 16, so that aligned chunks there are aligned here. */
mxe_value mx_stage_origin(mxe *e, const mx_stage *stage);
/* The caller synchronises between using the image and these. */
void mx_stage_flush(mxe *e, const mx_stage *stage); /* image -> global */
void mx_stage_fill(mxe *e, const mx_stage *stage);  /* global -> image */
/* The same for a run of whole blocks from stage->global, the place of its first block, on; the
 * image is contiguous and starts at `lds`. */
void mx_stage_flush_scattered(mxe *e, const mx_stage *stage, const mx_scatter *scatter);
void mx_stage_fill_scattered(mxe *e, const mx_stage *stage, const mx_scatter *scatter);
/* mx_stage_fill with all loads before the first store. The run, or the run and what precedes it in
 * the same tensor, must have 32 bytes at least. */
void mx_stage_fill_early(mxe *e, const mx_stage *stage);
/* Words 0 .. n-1 (n a multiple of 4) from a byte of the run on, a multiple of 16, of an image that
 * a fill made: read as aligned chunks, then shifted. `align_bytes` is what `global` is known to be
 * a multiple of. */
void mx_stage_read(mxe *e, const mx_stage *stage, mxe_value byte, int n, int align_bytes,
                   mxe_value *words);
/* image -> global for an image that starts at `lds`, wherever the run starts: chunks aligned in
 * global memory are shifted out of it. */
void mx_stage_flush_shifted(mxe *e, const mx_stage *stage, int align_bytes);

#endif
