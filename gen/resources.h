/* What is known of a kernel's registers and memory; the metadata note of AMD's objects tells most,
 * the symbols of any object the size of the code. */
#ifndef MXGEN_RESOURCES_H
#define MXGEN_RESOURCES_H

#include <jansson.h>

#include "gen/gen.h"

/* -1 where nothing is known. */
typedef struct mxgen_resources {
    int vgprs, agprs, sgprs, lds_bytes, scratch_bytes, spills, occupancy, code_bytes;
    int registers; /* NVIDIA's, of a thread */
} mxgen_resources;

/* Figures of one kernel; all -1 for an object that has none. */
void mxgen_resources_read(const mxgen_target *target, const void *image, size_t image_bytes,
                          const char *symbol, mxgen_resources *out);
/* A function's code in the image; NULL if it has none of that name. */
const uint8_t *mxgen_resources_code(const void *image, size_t image_bytes, const char *symbol,
                                    size_t *code_bytes);
/* The figures that are known. NULL without memory. */
json_t *mxgen_resources_object(const mxgen_resources *figures);
/* As the pack has them, with what the tuning cache and the runtime's model ask of a variant: its
 * template's static cost and the identity of its code. To be freed. */
mx_status mxgen_resources_json(const mxgen_resources *figures, const mxgen_spec *spec,
                               uint64_t code_id, char **json, mx_error *err);

#endif
