/* The instructions of a kernel in a code object, as text. */
#ifndef MXGEN_DISASM_H
#define MXGEN_DISASM_H

#include <stdint.h>

#include "gen/gen.h"

enum { MXGEN_DISASM_TEXT_BYTES = 160 };

typedef struct mxgen_instruction {
    uint64_t at;   /* byte in the kernel's code */
    uint32_t word; /* its first */
    char text[MXGEN_DISASM_TEXT_BYTES];
} mxgen_instruction;

/* `symbol` in an AMD code object. `out` is to be freed. */
mx_status mxgen_disassemble(const mxgen_target *target, const void *image, size_t image_bytes,
                            const char *symbol, mxgen_instruction **out, size_t *n, mx_error *err);

#endif
