/* The floating-point environment of kernels: round to nearest even, subnormals kept, no traps,
 * whatever the caller has set. */
#ifndef MXRT_FENV_GUARD_H
#define MXRT_FENV_GUARD_H

#include <fenv.h>

#if defined(__x86_64__)
#include <xmmintrin.h>

/* Kernels compute in vector registers only: their control word is enough, and a tenth of the time
 * that the whole environment takes. */
typedef unsigned mxrt_fenv;

static inline void mxrt_fenv_enter(mxrt_fenv *saved)
{
    const unsigned flags = 0x3f, initial = 0x1f80;

    *saved = _mm_getcsr();
    if ((*saved & ~flags) != initial)
        _mm_setcsr(initial);
}

static inline void mxrt_fenv_leave(const mxrt_fenv *saved)
{
    _mm_setcsr(*saved);
}

#else

typedef fenv_t mxrt_fenv;

static inline void mxrt_fenv_enter(mxrt_fenv *saved)
{
    fegetenv(saved);
    fesetenv(FE_DFL_ENV);
}

static inline void mxrt_fenv_leave(const mxrt_fenv *saved)
{
    fesetenv(saved);
}

#endif

#endif
