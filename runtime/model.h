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
} mxrt_model_kernel;

void mxrt_model_chip_init(const mxrt_device_info *info, mxrt_model_chip *out);

/* From variant.info; what it lacks (NULL: all) takes no part in the model. */
void mxrt_model_kernel_init(const json_t *info, mxrt_model_kernel *out);

/* Relative time of a launch of `programs` workgroups of `threads` threads: the kernel's cost, times
 * what is lost when the programs do not fill the chip, and when the last of the rounds in which
 * they run is not full. Programs still running get more of the memory's bandwidth then, so that a
 * quarter of the latter loss counts. */
double mxrt_model_score(const mxrt_model_chip *chip, const mxrt_model_kernel *kernel,
                        int64_t programs, int64_t threads);

#endif
