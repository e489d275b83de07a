/* Relocatable object -> what the target's loader takes. */
#ifndef MXGEN_LINK_H
#define MXGEN_LINK_H

#include "gen/gen.h"

/* The image is malloc'ed. Thread-safe. */
mx_status mxgen_link(const mxgen_target *target, const void *object, size_t object_bytes,
                     void **image, size_t *image_bytes, mx_error *err);

/* The same for code that was not made here: on the host it may use the C library's mathematics, which
 * are then needed when it is loaded. What else it lacks is MX_ERR_INVALID, with the names. */
mx_status mxgen_link_foreign(const mxgen_target *target, const void *object, size_t object_bytes,
                             void **image, size_t *image_bytes, mx_error *err);

#endif
