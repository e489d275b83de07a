/* A context: packs and where to log. */
#ifndef MXRT_CONTEXT_H
#define MXRT_CONTEXT_H

#include <mxgen/rt.h>

struct mxrt_context {
    mxrt_context_options options;
    size_t n_packs;
    mxrt_pack **packs; /* in the order in which they were added */
};

/* One line to the application's log, if it wants any. */
MX_PRINTF(2, 3)
void mxrt_context_log(const mxrt_context *context, const char *format, ...);

#endif
