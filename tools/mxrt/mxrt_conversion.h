/* What quantize and qdq have in common: how tensors are converted, and which. */
#ifndef MXRT_CONVERSION_H
#define MXRT_CONVERSION_H

#include "mxrt_job.h"

typedef struct conversion_options {
    mx_op op; /* MX_OP_TO or MX_OP_QDQ; set before the arguments are parsed */
    mx_format format;
    int axis;
    int64_t seed;
    mx_profile packed_profile;
    mx_ocp_profile ocp_profile;
    mx_ocp_options ocp; /* without the seed */
    /* As given, until the format is known: */
    int has_format, has_rounding, has_seed, tiles;
    const char *profile;
    mx_rounding rounding;
} conversion_options;

/* Options --format, --axis, --profile, --rounding, --seed and --tiles; the input is a
 * conversion_options with its op. */
extern const struct argp conversion_argp;

/* Lists the reader's tensors and passes all of its metadata on. Converted are floating tensors of
 * two or more dimensions, unless --include names others; never empty ones. `plan` declares each. */
mx_status conversion_plan(tool_job *job, const conversion_options *options,
                          mx_status (*plan)(tool_job *job, job_item *item, mx_error *err),
                          mx_error *err);

#endif
