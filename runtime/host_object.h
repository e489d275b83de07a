/* Loads shared objects of the host from memory. */
#ifndef MXRT_HOST_OBJECT_H
#define MXRT_HOST_OBJECT_H

#include <mxgen/base.h>

typedef struct mxrt_host_object {
    void *handle; /* of dlopen */
    int fd;       /* -1: none */
} mxrt_host_object;

/* Checks that `code` is a whole ELF shared object of this machine: the loader would map what the
 * headers promise and fault where the file has less. */
mx_status mxrt_host_object_check(const void *code, size_t code_bytes, mx_error *err);

/* `code` may be released after the call. */
mx_status mxrt_host_object_load(const void *code, size_t code_bytes, mxrt_host_object *out,
                                mx_error *err);
void mxrt_host_object_unload(mxrt_host_object *object);

/* NULL if there is no such symbol. */
void *mxrt_host_object_symbol(const mxrt_host_object *object, const char *symbol);

#endif
