/* LLVM IR that others wrote, as text or bitcode -> what the target's loader takes.
 *
 * Kernels are the functions with a kernel's calling convention; where a module has none, all that
 * are defined, external and return nothing. On the host they are wrapped (gen/foreign_host.c).
 *
 * LLVM may end the process where it meets what a chip lacks: call this in a process of its own. */
#ifndef MXGEN_FOREIGN_H
#define MXGEN_FOREIGN_H

#include "gen/gen.h"

/* A function attribute: the IR is optimised already, and on the host has the loop over programs. It
 * is in what `mxgen show --stage mlir` prints. */
#define MXGEN_FOREIGN_OPTIMISED "mxgen-optimised"

typedef struct mxgen_foreign_input {
    const mxgen_target *target;
    const char *label; /* the file's name, for messages */
    const void *data;
    size_t size_bytes;
    const char *symbol;   /* the one kernel that is wanted; NULL: all */
    int64_t block[3];     /* of a launch, which the code may then rely on; 0, 0, 0: not known */
    int64_t shared_bytes; /* of shared memory whose size the launch tells */
    /* Makes machine code, too, of what is for NVIDIA; NULL, or an empty path: PTX alone. */
    const mxgen_ptxas *ptxas;
} mxgen_foreign_input;

typedef struct mxgen_foreign_output {
    void *data; /* malloc'ed, with a zero behind the last byte */
    size_t size_bytes;
    void *cubin; /* machine code of data, which is PTX then; NULL: none. Malloc'ed */
    size_t cubin_bytes;
    /* Malloc'ed; of the stage OBJECT only: a JSON array with, of each kernel, "symbol", "params":
     * [{"name", "kind": as in mxgen/pack.h or "other", "type": LLVM's}, ..], "block": [x, y, z] as
     * the function's attributes have it, or null, "info" as the pack has it, and "cubin_info", that
     * of the machine code, if there is a cubin. Of what was wrapped
     * for the host before, "params" are those of the wrapper and "is_wrapped" is true. */
    char *kernels_json;
} mxgen_foreign_output;

/* The text is wrong (MX_ERR_INVALID) with its line and column where LLVM tells them. */
mx_status mxgen_foreign_compile(const mxgen_foreign_input *input, mxgen_stage stage,
                                mxgen_foreign_output *out, mx_error *err);
void mxgen_foreign_output_finish(mxgen_foreign_output *out); /* takes a zeroed one, too */

#endif
