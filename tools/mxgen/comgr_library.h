/* ROCm's code object manager, libamd_comgr: the part of its interface that links and generates code
 * objects, by prototypes of our own. Interface versions 2.x (ROCm 5 to 6.3) and 3.x. */
#ifndef MXGEN_COMGR_LIBRARY_H
#define MXGEN_COMGR_LIBRARY_H

#include <stdbool.h>

#include <mxgen/base.h>

/* Kinds of data, the same numbers in both versions. */
enum {
    COMGR_DATA_SOURCE = 1,
    COMGR_DATA_LOG = 5,
    COMGR_DATA_BC = 6,
    COMGR_DATA_RELOCATABLE = 7,
    COMGR_DATA_EXECUTABLE = 8
};

/* Actions by names of ours: their numbers differ between the versions. */
typedef enum comgr_action {
    COMGR_CODEGEN = 0, /* bitcode -> relocatable */
    COMGR_LINK,        /* relocatable -> executable */
    COMGR_ASSEMBLE,    /* source -> relocatable */
    COMGR_ACTION_COUNT
} comgr_action;

typedef struct comgr_library comgr_library;

typedef struct comgr_bytes {
    char *data; /* free() */
    size_t size_bytes;
} comgr_bytes;

/* `path` may be NULL: MXGEN_COMGR_LIBRARY, then the sonames. MX_ERR_NOT_FOUND tells what was tried,
 * MX_ERR_UNSUPPORTED the version. Stays open until the process ends. */
mx_status comgr_open(const char *path, const comgr_library **out, mx_error *err);

const char *comgr_path(const comgr_library *library);
void comgr_version(const comgr_library *library, size_t *major, size_t *minor);
size_t comgr_isa_count(const comgr_library *library);
const char *comgr_isa(const comgr_library *library, size_t index); /* NULL past the end */
bool comgr_knows(const comgr_library *library, const char *isa);

/* Runs an action on one piece of data. An error in its log is a failure, whatever it returns. */
mx_status comgr_run(const comgr_library *library, comgr_action action, const char *isa,
                    comgr_bytes input, comgr_bytes *out, mx_error *err);

#endif
