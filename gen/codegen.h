/* From variants to machine code. */
#ifndef MXGEN_CODEGEN_H
#define MXGEN_CODEGEN_H

#include "gen/gen.h"

/* Figures the code generator reported for one kernel; -1 where it said nothing. */
typedef struct mxgen_resources {
    char symbol[120];
    int vgprs, agprs, sgprs, lds_bytes, scratch_bytes, spills, occupancy;
} mxgen_resources;

/* Links one relocatable object to what the target's loader takes. */
mx_status mxgen_link(const mxgen_target *target, const void *object, size_t object_bytes,
                     void **image, size_t *image_bytes, mx_error *err);

#endif
