/* Compiling kernels that no pack has: the application's callback, or mxgen. */
#ifndef MXRT_COMPILE_H
#define MXRT_COMPILE_H

#include "runtime/context.h"

/* For a context without options of its own. */
void mxrt_compiler_init(mxrt_context *context);

/* A pack for the request, opened and whole; the caller closes it. */
mx_status mxrt_compile(const mxrt_context *context, const mxrt_compile_request *request,
                       mxrt_pack **out, mx_error *err);

void mxrt_compiler_finish(mxrt_context *context);

/* A request in the words of mxgen build and of packs. */
typedef struct mxrt_compile_names {
    char op[16], format[24];
    const char *dtype, *profile; /* profile: "" for products, whose modes are made together */
} mxrt_compile_names;

void mxrt_compile_names_init(const mxrt_compile_request *request, mxrt_compile_names *out);

/* ---- compile_mxgen.c ---- */

#define MXRT_COMPILER_ENV "MXRT_COMPILER"

mx_status mxrt_compile_by_mxgen(const mxrt_context *context, const mxrt_compile_request *request,
                                mxrt_pack **out, mx_error *err);

/* Opens a pack and reads all of its objects: what is kept on disk for long is not trusted. */
mx_status mxrt_compile_open(const char *path, const mxrt_compile_request *request, mxrt_pack **out,
                            mx_error *err);

#endif
