/* What a driver counted while kernels ran, where it counts: the simulator of AMD chips in tests/sim
 * does, by an entry point `int mxsim_counters(mxrt_counters *out)` besides those of HIP. */
#ifndef MXGEN_COUNTERS_H
#define MXGEN_COUNTERS_H

#include <stdint.h>

/* Sums over all launches of the process, of any device and thread, since it began; they only grow,
 * so that a difference of two is what ran between. Instructions are counted once a wave, whatever
 * the number of its lanes at work; one that issues two operations counts once. */
typedef struct mxrt_counters {
    uint32_t size_bytes; /* set by the caller to sizeof(mxrt_counters) */
    uint32_t launches;
    uint64_t waves;
    uint64_t lanes; /* of those waves */
    /* Wave instructions by class. */
    uint64_t valu;
    uint64_t salu;
    uint64_t smem;
    uint64_t vmem_load;
    uint64_t vmem_store;
    uint64_t lds;
    uint64_t mfma; /* MFMA, SMFMAC and WMMA */
    uint64_t branch;
    uint64_t waitcnt;
    uint64_t other;
    /* Global, flat and buffer accesses: bytes by lanes at work, and the aligned segments of 64 and
     * of 128 bytes that each instruction touches. */
    uint64_t load_bytes;
    uint64_t store_bytes;
    uint64_t load_trans64;
    uint64_t load_trans128;
    uint64_t store_trans64;
    uint64_t store_trans128;
    uint64_t lds_bytes;
    uint64_t lds_conflicts; /* cycles of the LDS beyond those without a conflict */
} mxrt_counters;

#endif
