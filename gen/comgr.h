/* Code objects by ROCm's comgr, in a process of its own. */
#ifndef MXGEN_COMGR_H
#define MXGEN_COMGR_H

#include "gen/gen.h"

/* Whether this target's objects come from comgr; false without one (NULL). Where AUTO meets a chip
 * that comgr does not know they do not; otherwise mxgen_comgr_object fails. */
bool mxgen_comgr_serves(const mxgen_comgr *comgr, const mxgen_target *target);

/* Whether it is to have bitcode, not a relocatable. */
bool mxgen_comgr_takes_bitcode(const mxgen_comgr *comgr);

/* Bitcode or a relocatable -> code object, malloc'ed. Thread-safe. */
mx_status mxgen_comgr_object(const mxgen_comgr *comgr, const mxgen_target *target, bool is_bitcode,
                             const void *data, size_t size_bytes, void **image, size_t *image_bytes,
                             mx_error *err);

#endif
