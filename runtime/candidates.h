/* The variants of a device's packs that a table is made of, in order of preference. */
#ifndef MXRT_CANDIDATES_H
#define MXRT_CANDIDATES_H

#include "runtime/pack_reader.h"

/* A variant with what decides its place. */
typedef struct mxrt_candidate {
    size_t pack, index; /* of the device's packs; of the pack's variants */
    size_t target;      /* among the device's, best first */
    int kind;           /* block operations: the layout; products: the mode */
    int64_t rank, object_id;
    const char *name, *object_kind;
    uint32_t group;    /* equal for those of one pack, target and kind; counts up */
    size_t other_form; /* its place; 0: none, as the first is nobody's second */
    int is_other_form;
} mxrt_candidate;

typedef struct mxrt_candidates {
    mxrt_candidate *items;
    size_t n;
} mxrt_candidates;

/* Those whose keys match and that the device can run: packs added last first, then targets best
 * first, then kinds, ranks, and the order in the pack. A pack may have a kernel in two forms,
 * machine code and text for the driver's compiler, under one name: other_form says of the first
 * where the second is. Under the device's lock; release with free(items), also after a failure. */
mx_status mxrt_candidates_find(const mxrt_device *device,
                               int (*matches)(const mxrt_pack_key *key, const void *wanted),
                               const void *wanted, mxrt_candidates *out, mx_error *err);

#endif
