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

/* An estimate for ranking kernels where time means nothing: milliseconds on a chip of so many
 * compute units at 2 GHz. A unit takes a cycle for a wave instruction of the vector units (four of
 * them, four cycles each) or the LDS, one for a conflict there, and eight for a segment of 64
 * bytes, its share of the memory's bandwidth. The longest of the three counts, as they overlap, and
 * a tenth of the rest, as they do not quite. */
static inline double mxrt_counters_ms(const mxrt_counters *counts, int compute_units)
{
    const double parts[3] = {
        (double)(counts->valu + counts->mfma + counts->salu / 4),
        (double)(counts->lds + counts->lds_conflicts),
        8 * (double)(counts->load_trans64 + counts->store_trans64),
    };
    double sum = 0, most = 0;

    for (int i = 0; i < 3; i++) {
        sum += parts[i];
        most = parts[i] > most ? parts[i] : most;
    }
    return (most + 0.1 * (sum - most)) / (2e6 * (compute_units > 0 ? compute_units : 1));
}

#endif
