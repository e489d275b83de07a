/* Kernels of a device that were found by name. */
#ifndef MXRT_KERNEL_H
#define MXRT_KERNEL_H

#include <mxgen/kernel.h>

#include "runtime/backend.h"
#include "runtime/pack_kernels.h"

typedef struct mxrt_kernel_variant {
    const mxrt_pack_kernel *from;
    const mxrt_backend_kernel *code;
    char code_id[20]; /* the pack's info.code; "": not told */
    int is_host;      /* a workgroup is one work item, and the grid follows the arguments */
    uint16_t arg_offsets[MXPACK_MAX_ARGS];
} mxrt_kernel_variant;

/* How alike two calls are for tuning: the powers of two below the integers, the least alignment. */
typedef struct mxrt_kernel_bucket {
    int n, log2[MXPACK_MAX_ARGS], align;
} mxrt_kernel_bucket;

typedef struct mxrt_kernel_measured {
    mxrt_kernel_bucket bucket;
    size_t variant;
    double ms_per_byte;
} mxrt_kernel_measured;

struct mxrt_kernel {
    mxrt_kernel *next; /* of the device's */
    struct mxrt_device *device;
    char *name;
    size_t n_measured;
    mxrt_kernel_measured *measured; /* the fastest first */
    size_t n_variants;
    mxrt_kernel_variant variants[];
};

/* Releases a device's list; takes NULL. Modules stay with the device. */
void mxrt_kernels_destroy(mxrt_kernel *first);

/* Refuses arguments of other numbers or kinds than the kernel's. */
mx_status mxrt_kernel_check_args(const mxrt_kernel *kernel, const mxrt_kernel_arg *args,
                                 size_t n_args, mx_error *err);
/* What expressions see. */
void mxrt_kernel_values(const mxrt_kernel_arg *args, size_t n, int64_t values[2 * MXPACK_MAX_ARGS]);

/* ---- kernel_tuned.c ---- */

/* `values` as above. */
void mxrt_kernel_bucket_of(const mxrt_kernel *kernel, const int64_t *values,
                           mxrt_kernel_bucket *out);
/* 0: the same; -1: too far apart to learn from. */
int mxrt_kernel_bucket_distance(const mxrt_kernel_bucket *a, const mxrt_kernel_bucket *b);
/* Reads what the tuning files know of the variants. Never fails. */
void mxrt_kernel_read_tuned(mxrt_kernel *kernel);

#endif
