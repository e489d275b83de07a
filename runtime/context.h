/* A context: packs, where to log, and what compiles kernels that no pack has. */
#ifndef MXRT_CONTEXT_H
#define MXRT_CONTEXT_H

#include <stdatomic.h>

#include <mxgen/rt.h>

struct mxrt_context {
    mxrt_context_options options;
    mxrt_compiler_options compiler; /* strings are owned */
    int compiler_off;               /* by these options, or by the environment */
    char *tune_file;                /* the user's; "": none at all */
    _Atomic unsigned tune_told;     /* bits: of which tuning files the log knows that they are bad */
    size_t n_packs;
    mxrt_pack **packs; /* in the order in which they were added */
};

/* One line to the application's log, if it wants any. */
MX_PRINTF(2, 3)
void mxrt_context_log(const mxrt_context *context, const char *format, ...);

#endif
