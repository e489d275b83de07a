/* The floating-point environment of kernels: round to nearest even, subnormals kept, no traps,
 * whatever the caller has set. */
#ifndef MXRT_FENV_GUARD_H
#define MXRT_FENV_GUARD_H

#include <fenv.h>

static inline void mxrt_fenv_enter(fenv_t *saved)
{
    fegetenv(saved);
    fesetenv(FE_DFL_ENV);
}

static inline void mxrt_fenv_leave(const fenv_t *saved)
{
    fesetenv(saved);
}

#endif
