/* Driver libraries, found and opened at run time: nothing here links against a driver. */
#ifndef MXRT_DYNLIB_H
#define MXRT_DYNLIB_H

#include <mxgen/base.h>

/* One entry point: its address goes to `offset` in the library's table of function pointers. */
typedef struct mxrt_dynlib_symbol {
    const char *name;
    const char *exported; /* the name in the library where it differs (cuMemAlloc_v2), else NULL */
    size_t offset;
    int required; /* an optional one that is absent stays NULL */
} mxrt_dynlib_symbol;

/* One driver interface; static data. */
typedef struct mxrt_dynlib_spec {
    const char *title;        /* "the HIP runtime", for messages */
    const char *env;          /* environment variable that names the file */
    const char *const *names; /* sonames, preferred first, closed by NULL */
    const char *advice;       /* what to install when there is none */
    const mxrt_dynlib_symbol *symbols;
    size_t n_symbols;
    size_t table_bytes;
    /* Finds a symbol where plain dlsym is not enough; may be NULL. */
    void *(*lookup)(void *handle, const mxrt_dynlib_symbol *symbol);
} mxrt_dynlib_spec;

typedef struct mxrt_dynlib {
    const mxrt_dynlib_spec *spec;
    void *handle;
    const void *table; /* spec->table_bytes of function pointers */
    char *path;        /* where the loader found it */
    struct mxrt_dynlib *next;
} mxrt_dynlib;

/* Opens `path`, or if it is NULL the file that spec->env names, or else a copy that the process has
 * already loaded, or else each of spec->names. An explicit file that fails is an error: the names
 * are not tried in its place. The message lists every file tried with the loader's words.
 *
 * A library is opened once and stays until the process ends, because drivers keep threads that
 * do not survive being unmapped. Thread-safe. */
mx_status mxrt_dynlib_open(const mxrt_dynlib_spec *spec, const char *path, const mxrt_dynlib **out,
                           mx_error *err);

extern const mxrt_dynlib_spec mxrt_hip_library;  /* backend_hip.c */
extern const mxrt_dynlib_spec mxrt_cuda_library; /* backend_cuda.c */

#endif
