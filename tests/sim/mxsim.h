/*
 * mxsim: an executor of AMD code objects behind the HIP entry points.
 *
 * The library is loaded in place of libamdhip64. MXSIM_ARCH picks the chip. Launches run to their
 * end before the launch call returns; a finding of the checks makes that call fail with
 * hipErrorLaunchFailure (719) and is kept as text for mxsim_last_report().
 *
 * Environment:
 *   MXSIM_ARCH       gfx90a, gfx942 (default), gfx950, gfx1100, gfx1201
 *   MXSIM_DEVICES    number of devices (default 1)
 *   MXSIM_THREADS    worker threads of a launch (default: processors, at most 8)
 *   MXSIM_STATS      1: print the counters of each launch to stderr
 *   MXSIM_FAIL_CALL  N: the Nth HIP call from now fails
 *   MXSIM_PRELOAD    0: behave as firmware that does not preload kernel arguments
 *   MXSIM_CHECKS     comma list of checks to leave out: uninit, race, wait
 *   MXSIM_TRACE      1: print every executed instruction (very slow)
 *   MXSIM_MAX_INST   wave instructions after which a launch is called hung
 */
#ifndef MXSIM_H
#define MXSIM_H

#include <stdint.h>

#define MXSIM_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mxsim_counters {
    uint32_t size_bytes; /* set by the caller to sizeof(mxsim_counters_t) */
    uint32_t launches;
    uint64_t waves;
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
    /* Global, flat and buffer accesses: bytes by active lanes, distinct aligned segments touched.
     */
    uint64_t load_bytes;
    uint64_t store_bytes;
    uint64_t load_trans64;
    uint64_t load_trans128;
    uint64_t store_trans64;
    uint64_t store_trans128;
    uint64_t lds_bytes;
    /* Extra LDS cycles beyond the conflict-free ones. */
    uint64_t lds_conflicts;
} mxsim_counters_t;

/* Copies the sums since the last reset. Returns 0, or -1 if `out` or its size is wrong. */
MXSIM_API int mxsim_counters(mxsim_counters_t *out);
MXSIM_API void mxsim_counters_reset(void);

/* The text of the last finding, "" if none; valid until the next launch of this process. */
MXSIM_API const char *mxsim_last_report(void);
MXSIM_API void mxsim_report_clear(void);

/* The nth HIP call from now (1: the next one) fails with hipErrorUnknown; 0: none. */
MXSIM_API void mxsim_fail_call(int n);
/* HIP calls answered so far. */
MXSIM_API uint64_t mxsim_call_count(void);
/* Live allocations, modules, streams, events and graphs: 0 when a program leaks nothing. */
MXSIM_API uint64_t mxsim_live_objects(void);

#ifdef __cplusplus
}
#endif
#endif
