/* The layouts flat and rows: which variants there are (mx_rows_choice.c) and what they do
 * (mx_rows.c). */
#ifndef MXGEN_MX_ROWS_H
#define MXGEN_MX_ROWS_H

#include "gen/template.h"
#include "templates/mx_block.h"

enum {
    MAP_UNIFORM = 0, /* a program stays in one row */
    MAP_DIVIDED = 1  /* a program takes blocks across rows; lanes divide */
};

enum {
    STAGED_CHUNKS = 1, /* records follow each other: 16 bytes at a time */
    STAGED_PIECES = 2, /* blocks lie anywhere: 2 bytes */
    STAGED_BYTES = 3   /* bytes, too */
};

/* The choices of one variant, resolved. */
typedef struct mx_rows_plan {
    mxgen_key key;
    int lanes_per_block, count, vec, loads, warps, map;
    int block_elements;
    int group;       /* blocks of one load of a warp */
    int step_blocks; /* group * loads */
    int block_bytes, elem_bytes, record_align;
    int staged;
    bool ragged, hardware, options;
    bool passes_by; /* stores pass the caches by where tensors are large */
    unsigned flags;
    int region_bytes; /* of a warp's records in shared memory */
} mx_rows_plan;

mx_rows_plan mx_rows_plan_of(const mxgen_spec *spec);

static inline bool mx_rows_has_scales(const mx_rows_plan *p)
{
    return mx_format_is_ocp(p->key.format) && p->key.op != MX_OP_QDQ;
}

/* Whether packed blocks may lie anywhere. */
static inline bool mx_rows_scattered(const mx_rows_plan *p)
{
    return p->staged >= STAGED_PIECES;
}

void mx_rows_emit(mxe *e, const mxgen_spec *spec, const mxgen_kernel *kernel);

#endif
