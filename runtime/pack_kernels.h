/* A pack's table `kernel` (mxgen/pack.h): kernels of operations that are not ours. */
#ifndef MXRT_PACK_KERNELS_H
#define MXRT_PACK_KERNELS_H

#include <mxgen/kernel.h>
#include <mxgen/pack.h>
#include <mxgen/pack_checksum.h>

#include "expr.h"
#include "pack_rows.h"

typedef struct mxrt_kernel_rule {
    const char *text;
    mxrt_expr *when;
} mxrt_kernel_rule;

/* An argument of the function. */
typedef struct mxrt_kernel_param {
    const char *name;
    mxrt_arg_kind kind;
    uint16_t offset_bytes; /* in the argument block, at natural alignment */
    int input;             /* taken from this input; -1: from `value`, or a null pointer */
    mxrt_expr *value;
} mxrt_kernel_param;

/* Expressions take values[2 * n_inputs]: the inputs, then the alignments of those that are
 * pointers. What does not apply is not named by any. */
typedef struct mxrt_pack_kernel {
    const char *target, *kernel, *name, *symbol;
    const char *params_json, *rules_json, *launch_json, *info_json, *object_kind;
    int64_t rank, object_id, object_bytes;
    size_t n_inputs; /* at most MXPACK_MAX_ARGS, as n_args */
    mxrt_kernel_input *inputs;
    mxrt_expr **input_bytes; /* of pointers, as many; NULL where it is not told */
    size_t n_rules;
    mxrt_kernel_rule *rules;
    mxrt_expr *grid[3], *block[3]; /* NULL: the caller's */
    uint32_t lds_bytes;
    size_t n_args;
    mxrt_kernel_param *args;
    size_t args_bytes;
} mxrt_pack_kernel;

typedef struct mxrt_pack_kernels {
    mxrt_pack_kernel *items; /* by id */
    size_t n;
} mxrt_pack_kernels;

/* Of the columns id, object, target, kernel, name, symbol, rank, params, rules, launch, info.
 * *out is to be finished on failure, too. */
mx_status mxrt_pack_kernel_read(mxrt_pack_row *row, mxrt_pack_kernel *out,
                                mxpack_checksum *checksum);
void mxrt_pack_kernel_finish(mxrt_pack_kernel *kernel); /* takes a zeroed one, too */

/* Takes the kernel, unless it fails: without memory, or where a name comes twice for a target. */
mx_status mxrt_pack_kernels_add(mxrt_pack_kernels *kernels, const mxrt_pack_kernel *kernel,
                                const mxrt_pack_row *row);
void mxrt_pack_kernels_finish(mxrt_pack_kernels *kernels);

/* In pack_reader.c; lives as long as the pack. */
const mxrt_pack_kernels *mxrt_pack_kernels_of(const mxrt_pack *pack);

#endif
