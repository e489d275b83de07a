/* MLIR, by a program of its own: mxgen-mlir, beside mxgen or where MXGEN_MLIR_HELPER says. */
#ifndef MXGEN_MLIR_H
#define MXGEN_MLIR_H

#include "gen/gen.h"

/* MLIR text of the upstream dialects -> LLVM bitcode for a target, malloc'ed; `threads` of a
 * workgroup, 0 if they are not known. Diagnostics begin with `label`, the file's name, line and
 * column. Runs a program. */
mx_status mxgen_mlir_lower(const mxgen_target *target, int64_t threads, const char *label,
                           const void *text, size_t text_bytes, void **bitcode,
                           size_t *bitcode_bytes, mx_error *err);

/* LLVM IR as text or bitcode -> MLIR text in the LLVM dialect, malloc'ed, zero-terminated. */
mx_status mxgen_mlir_print(const char *label, const void *ir, size_t ir_bytes, char **text,
                           size_t *text_bytes, mx_error *err);

#endif
