/* The checksums of a kernel pack (mxgen/pack.h), for its writer and its reader. */
#ifndef MXGEN_PACK_CHECKSUM_H
#define MXGEN_PACK_CHECKSUM_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define MXPACK_CHECKSUM_CHARS 17 /* 16 hex digits and the zero */

typedef struct mxpack_checksum {
    XXH3_state_t state;
} mxpack_checksum;

/* A row of `variant` without its checksum, in schema order. */
typedef struct mxpack_variant_row {
    int64_t id, object;
    const char *target, *op, *format, *dtype, *profile, *layout, *name, *symbol;
    int64_t rank;
    const char *params, *rules, *launch, *info;
} mxpack_variant_row;

static inline void mxpack_checksum_init(mxpack_checksum *checksum)
{
    XXH3_64bits_reset(&checksum->state);
}

static inline void mxpack_checksum_text(mxpack_checksum *checksum, const char *text)
{
    XXH3_64bits_update(&checksum->state, text, strlen(text) + 1);
}

static inline void mxpack_checksum_integer(mxpack_checksum *checksum, int64_t value)
{
    char text[24];
    snprintf(text, sizeof(text), "%lld", (long long)value);
    mxpack_checksum_text(checksum, text);
}

static inline void mxpack_checksum_finish(const mxpack_checksum *checksum,
                                          char out[MXPACK_CHECKSUM_CHARS])
{
    snprintf(out, MXPACK_CHECKSUM_CHARS, "%016llx",
             (unsigned long long)XXH3_64bits_digest(&checksum->state));
}

/* Of a row of `variant`. */
static inline void mxpack_checksum_variant(const mxpack_variant_row *row,
                                           char out[MXPACK_CHECKSUM_CHARS])
{
    const char *const before_rank[] = {row->target,  row->op,     row->format, row->dtype,
                                       row->profile, row->layout, row->name,   row->symbol};
    const char *const after_rank[] = {row->params, row->rules, row->launch, row->info};
    mxpack_checksum checksum;
    mxpack_checksum_init(&checksum);
    mxpack_checksum_integer(&checksum, row->id);
    mxpack_checksum_integer(&checksum, row->object);
    for (size_t i = 0; i < sizeof(before_rank) / sizeof(before_rank[0]); i++)
        mxpack_checksum_text(&checksum, before_rank[i]);
    mxpack_checksum_integer(&checksum, row->rank);
    for (size_t i = 0; i < sizeof(after_rank) / sizeof(after_rank[0]); i++)
        mxpack_checksum_text(&checksum, after_rank[i]);
    mxpack_checksum_finish(&checksum, out);
}

/* Of the raw bytes of an object. */
static inline void mxpack_checksum_bytes(const void *data, size_t size_bytes,
                                         char out[MXPACK_CHECKSUM_CHARS])
{
    snprintf(out, MXPACK_CHECKSUM_CHARS, "%016llx",
             (unsigned long long)XXH3_64bits(data, size_bytes));
}

#endif
