/* Status codes and the error record shared by every mxgen library. */
#ifndef MXGEN_BASE_H
#define MXGEN_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MX_VERSION_MAJOR 0
#define MX_VERSION_MINOR 1
#define MX_VERSION_PATCH 0
#define MX_VERSION_STRING "0.1.0"

#if defined(__GNUC__)
#define MX_API __attribute__((visibility("default")))
#define MX_PRINTF(fmt_index, first_arg) __attribute__((format(printf, fmt_index, first_arg)))
#else
#define MX_API
#define MX_PRINTF(fmt_index, first_arg)
#endif

/* What the caller can do about a failure. */
typedef enum mx_status {
    MX_OK = 0,
    MX_ERR_INVALID,     /* an argument is wrong: fix the call */
    MX_ERR_UNSUPPORTED, /* right, but nothing here can do it; the message names the rule that failed */
    MX_ERR_NOT_FOUND,   /* a file, device, kernel or library is not there */
    MX_ERR_CORRUPT,     /* a file is damaged, truncated, foreign or from a newer version */
    MX_ERR_IO,          /* the operating system refused a read or a write */
    MX_ERR_NO_MEMORY,   /* host or device memory ran out */
    MX_ERR_DEVICE,      /* a driver call failed */
    MX_ERR_INTERNAL     /* a bug in mxgen: please report the message */
} mx_status;

/* Filled on failure only, by the function that failed; owned by the caller; needs no release.
 * Every `mx_error *` parameter may be NULL. */
typedef struct mx_error {
    mx_status status;
    char message[1020];
} mx_error;

/* A static lower-case name such as "invalid"; "unknown" for a value outside the enum. */
static inline const char *mx_status_name(mx_status status)
{
    static const char *const names[] = {"ok", "invalid",   "unsupported", "not-found", "corrupt",
                                        "io", "no-memory", "device",      "internal"};
    size_t index = (size_t)status;
    return index < sizeof(names) / sizeof(names[0]) ? names[index] : "unknown";
}

#ifdef __cplusplus
}
#endif
#endif
