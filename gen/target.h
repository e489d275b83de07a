/* The target table: one row a chip. Templates and the emit layer ask for a capability or a
 * quantity; nothing outside gen/ asks for a name. */
#ifndef MXGEN_TARGET_H
#define MXGEN_TARGET_H

#include <stdbool.h>

#include "gen/gen.h"

typedef enum mxgen_kind { MXGEN_AMDGPU = 0, MXGEN_NVPTX, MXGEN_HOST } mxgen_kind;

/* Capabilities; what is absent has an expansion in the emit layer or keeps a variant from
 * applying. */
enum {
    MXGEN_CAP_EXCHANGE = 1u << 0,   /* lanes of a warp can read each other's values */
    MXGEN_CAP_UNALIGNED = 1u << 1,  /* 4-byte global accesses at any address, in hardware */
    MXGEN_CAP_SPLIT_TAIL = 1u << 2, /* guarding costs: emit whole groups and the tail apart */
    /* Matrix instructions of four warps that read shared memory, bulk copies into it that signal
     * their end, registers passed between warps. */
    MXGEN_CAP_TILE_MMA = 1u << 3,
    MXGEN_CAP_FP8 = 1u << 4,     /* converts f32 to OCP's FP8 as mxe_fp8_pair wants it */
    MXGEN_CAP_FP4 = 1u << 5,     /* divides f32 by a scale and converts to FP4: mxe_fp4_eight */
    MXGEN_CAP_HALVES = 1u << 6,  /* computes with two bf16 or u16 in a word, subnormals kept */
    MXGEN_CAP_PERMUTE = 1u << 7, /* the host: vectors' items by numbers in another vector */
    MXGEN_CAP_SHORTS = 1u << 8,  /* computes with two u16 in a word as fast as with the word */
    MXGEN_CAP_APART = 1u << 9,   /* registers are dear, code is not: rare blocks go apart */
    /* Stores can pass the caches by, which pays beyond their size; lines are asked for ahead. */
    MXGEN_CAP_PASS_BY = 1u << 10,
};

struct mxgen_target {
    const char *name;
    const char *summary;
    const char *triple, *cpu, *features;
    mxgen_kind kind;
    unsigned caps;
    int lanes;        /* lanes of a warp (wave) as templates see it */
    int simd_width;   /* lanes that one value carries: 1 on GPUs, `lanes` on the host */
    int lds_bytes;    /* a workgroup may use; on the host, scratch on a thread's stack */
    int max_threads;  /* a workgroup may have */
    int vgprs;        /* vector registers a SIMD has for one lane position */
    int vgpr_granule; /* allocation unit */
    int max_waves;    /* a SIMD holds */
    int compute_units;
    int scatter_percent;      /* what loads cost more when a warp's lanes are not side by side */
    int lds_large_bytes;      /* that a launch may ask for beyond lds_bytes; 0: none */
    int64_t max_grid_threads; /* a launch may have in x; 0: no limit below the runtime's */
};

static inline bool mxgen_target_has(const mxgen_target *target, unsigned cap)
{
    return (target->caps & cap) == cap;
}

/* Waves a SIMD can hold, by vector registers alone; `vgprs` as the metadata has it (accumulation
 * registers included). */
int mxgen_target_occupancy(const mxgen_target *target, int vgprs);

/* The name under which a pack has the target's PTX where `name` has the machine code: "compute_90a"
 * for "sm_90a". */
void mxgen_target_ptx_name(const mxgen_target *target, char *name, size_t name_bytes);

#endif
