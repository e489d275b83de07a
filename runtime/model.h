/* The static model: relative times of variants on a problem, from what the pack tells of a kernel
 * and what is known of the chip. */
#ifndef MXRT_MODEL_H
#define MXRT_MODEL_H

#include <jansson.h>
#include <stdint.h>

#include <mxgen/rt.h>

/* What a compute unit offers; on the host a core runs one program at a time. */
typedef struct mxrt_model_chip {
    int compute_units;
    int threads;      /* resident at most */
    int registers;    /* 32-bit, for all threads */
    int lds_bytes;    /* for all programs */
    int programs;     /* resident at most */
    int busy_threads; /* that keep the unit's share of the memory's bandwidth in use */
} mxrt_model_chip;

/* What the pack's info tells of a kernel. */
typedef struct mxrt_model_kernel {
    double cost;   /* the template's: relative time of a byte where the chip is full */
    int registers; /* of a thread; 0: not known */
    int lds_bytes;
    int code_bytes;
} mxrt_model_kernel;

void mxrt_model_chip_init(const mxrt_device_info *info, mxrt_model_chip *out);

/* From variant.info; what it lacks (NULL: all) takes no part in the model. */
void mxrt_model_kernel_init(const json_t *info, mxrt_model_kernel *out);

/* Relative time of a launch of `programs` workgroups of `threads` threads: the kernel's cost, times
 * what is lost when the threads in flight are too few to keep the memory busy, and
 *   when the programs take more than one round, a little of what the last one lacks (those that
 *   still run get more of the bandwidth);
 *   when they take one, some of the difference between compute units with more and with fewer;
 *   when not every unit has one, the length of the code: nothing hides it.
 * The constants are fitted to sweeps (docs/performance.md). */
double mxrt_model_score(const mxrt_model_chip *chip, const mxrt_model_kernel *kernel,
                        int64_t programs, int64_t threads);

/* How much more a byte costs in a layout than in the others, whose costs compare: for the layout
 * general, which is right for problems too small for the memory to matter. */
double mxrt_model_layout(mx_op op, mx_layout layout);

#endif
