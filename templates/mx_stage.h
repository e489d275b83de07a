/* Packed records between registers and global memory by way of shared memory: 18-byte records
 * leave, and arrive, as 16-byte chunks that are aligned in global memory. */
#ifndef MXGEN_MX_STAGE_H
#define MXGEN_MX_STAGE_H

#include "gen/emit.h"

/* One run of bytes, contiguous in global memory, that the lanes of a warp move together. */
typedef struct mx_stage {
    const char *pointer;  /* kernel argument, 16-byte aligned */
    mxe_value global;     /* i64, uniform: byte offset of the run from `pointer` */
    mxe_value lds;        /* i64, uniform: start of the image, a multiple of 16 */
    mxe_value size_bytes; /* i32, uniform: of the run, even */
    int most_bytes;       /* the image's capacity without the 16 bytes for misalignment */
    bool aligned;         /* `global` is a multiple of 16 */
    bool whole;           /* and size_bytes == most_bytes */
    unsigned flags;
} mx_stage;

/* Bytes of shared memory a run needs. */
int mx_stage_bytes(int most_bytes);
/* Where byte 0 of the run lies in shared memory, i64: the image starts at the global address
 * modulo 16, so that aligned chunks there are aligned here. */
mxe_value mx_stage_origin(mxe *e, const mx_stage *stage);
/* The caller synchronises between using the image and these. */
void mx_stage_flush(mxe *e, const mx_stage *stage); /* image -> global */
void mx_stage_fill(mxe *e, const mx_stage *stage);  /* global -> image */

#endif
