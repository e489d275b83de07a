/* How mxgen's own code fills an mx_error. Not part of the stable interface. */
#ifndef MXGEN_ERROR_H
#define MXGEN_ERROR_H

#include <stdarg.h>
#include <stdio.h>

#include <mxgen/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Fills *err (which may be NULL) and returns `status`, so that `return mx_fail(..)` is one line. */
MX_PRINTF(3, 4)
static inline mx_status mx_fail(mx_error *err, mx_status status, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        err->status = status;
        vsnprintf(err->message, sizeof(err->message), format, args);
        va_end(args);
    }
    return status;
}

#ifdef __cplusplus
}
#endif
#endif
