/* mxrt tune --kernel: as mxrt_tune.h, of the variants of a kernel written by others. */
#ifndef MXRT_TUNE_KERNEL_H
#define MXRT_TUNE_KERNEL_H

#include <stdio.h>

#include "mxrt_tune.h"

typedef struct kernel_options {
    engine_options engine;
    const char *kernel, *args, *file, *check;
    double seconds, limit_s; /* a variant, and until it answers */
} kernel_options;

typedef struct kernel_result {
    char name[TUNE_NAME_BYTES], note[TUNE_NAME_BYTES];
    unsigned grid, block;
    double ms, spread, gb_per_s;
    int is_measured;
} kernel_result;

/* What the parent has heard. A result with a note that a child did not tell is of a variant that
 * the child before did not survive. */
typedef struct kernel_results {
    kernel_result items[TUNE_MAX_VARIANTS];
    int n;
} kernel_results;

/* The place of a name; -1 if it is not there. */
int kernel_results_find(const kernel_results *results, const char *name);

/* Runs in the child: measures what `results` does not have. Lines: "D name" of the device, "V name"
 * when a variant begins, then "M name grid block ms spread GB/s", "F name reason" if it is wrong,
 * or "N name" if its rules do not hold; "R" if this process must not use the device any more, "X
 * message" if nothing can be measured, "Z" when all is done. Returns the exit status. */
int tune_kernel_child(const kernel_options *options, const kernel_results *results, FILE *out);

#endif
