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

#include <mxgen/counters.h>

#define MXSIM_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* Copies the sums. Returns 0, or -1 if `out` or its size is wrong. */
MXSIM_API int mxsim_counters(mxrt_counters *out);

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
