/* The table of device drivers. */
#ifndef MXRT_BACKENDS_H
#define MXRT_BACKENDS_H

#include "runtime/backend.h"

/* Number `index`, NULL past the end; in the order in which devices are listed. */
const mxrt_backend_ops *mxrt_backend_at(size_t index);

/* Finds the driver of a URI and the part of the URI that is for it. */
mx_status mxrt_backend_find(const char *uri, const mxrt_backend_ops **out, const char **rest,
                            mx_error *err);

#endif
