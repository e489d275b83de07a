/* What a code object says of its kernels' registers and memory: the metadata note of AMD's objects.
 */
#ifndef MXGEN_RESOURCES_H
#define MXGEN_RESOURCES_H

#include "gen/gen.h"

/* -1 where the object says nothing. */
typedef struct mxgen_resources {
    int vgprs, agprs, sgprs, lds_bytes, scratch_bytes, spills, occupancy, code_bytes;
} mxgen_resources;

/* Figures of one kernel; all -1 for an object that has none. */
void mxgen_resources_read(const mxgen_target *target, const void *image, size_t image_bytes,
                          const char *symbol, mxgen_resources *out);

#endif
