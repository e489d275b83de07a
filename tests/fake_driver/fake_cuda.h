/* A stand-in for the CUDA driver: devices in host memory, the two kernels of tests/kernels, and
 * hooks for tests. Test-only.
 *
 * Environment: FAKECUDA_DEVICES (default 1), FAKECUDA_CC (default 90),
 * FAKECUDA_NO_PROC_ADDRESS=1 (a driver without cuGetProcAddress). */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stdint.h>

typedef struct fakecuda_launch {
    uint32_t grid[3], block[3], shared_bytes;
    uint64_t args_bytes;
    void *stream;
    void *context; /* that was current */
} fakecuda_launch;

/* The nth call from now (1: the next one) fails with CUDA_ERROR_UNKNOWN; 0: none. */
void fakecuda_fail_call(int n);
uint64_t fakecuda_call_count(void);
/* Allocations, modules, events, streams, contexts and references to primary contexts. */
uint64_t fakecuda_live_objects(void);
fakecuda_launch fakecuda_last_launch(void);
/* Entry points found through cuGetProcAddress so far. */
uint64_t fakecuda_proc_address_count(void);

#endif
