#include "gen/disasm.h"

#include <stdlib.h>
#include <string.h>

#include <llvm-c/Disassembler.h>
#include <llvm-c/Target.h>

#include "gen/machine.h"
#include "gen/resources.h"
#include "gen/target.h"
#include "mxgen/error.h"

static void copy_text(char *to, const char *from)
{
    while (*from == '\t' || *from == ' ')
        from++;
    size_t n = strnlen(from, MXGEN_DISASM_TEXT_BYTES - 1);
    for (size_t i = 0; i < n; i++)
        to[i] = from[i] == '\t' ? ' ' : from[i];
    to[n] = '\0';
}

static mx_status decode(LLVMDisasmContextRef context, const char *symbol, const uint8_t *code,
                        size_t bytes, mxgen_instruction *out, size_t *n, mx_error *err)
{
    char text[512];
    *n = 0;
    for (size_t at = 0; at + 4 <= bytes;) {
        /* The decoder takes memory that it may write, and does not. */
        size_t took = LLVMDisasmInstruction(context, (uint8_t *)code + at, bytes - at, at, text,
                                            sizeof(text));
        if (took == 0)
            return mx_fail(err, MX_ERR_CORRUPT, "%s: no instruction at byte %zu of its code",
                           symbol, at);
        mxgen_instruction *line = &out[(*n)++];
        line->at = at;
        memcpy(&line->word, code + at, sizeof(line->word));
        copy_text(line->text, text);
        at += took;
    }
    return MX_OK;
}

mx_status mxgen_disassemble(const mxgen_target *target, const void *image, size_t image_bytes,
                            const char *symbol, mxgen_instruction **out, size_t *n, mx_error *err)
{
    size_t bytes;
    const uint8_t *code = mxgen_resources_code(image, image_bytes, symbol, &bytes);
    if (target->kind != MXGEN_AMDGPU)
        return mx_fail(err, MX_ERR_UNSUPPORTED, "%s: only code for AMD's chips is read",
                       target->name);
    if (!code)
        return mx_fail(err, MX_ERR_CORRUPT, "the object has no code of %s", symbol);
    mxgen_machine_initialise();
    LLVMDisasmContextRef context = LLVMCreateDisasmCPUFeatures(
        target->triple, target->cpu, target->features, NULL, 0, NULL, NULL);
    mxgen_instruction *lines = calloc(bytes / 4 + 1, sizeof(*lines));
    mx_status status = MX_OK;
    if (!context || !lines)
        status = mx_fail(err, MX_ERR_NO_MEMORY, "no memory to read the code of %s", symbol);
    if (status == MX_OK)
        status = decode(context, symbol, code, bytes, lines, n, err);
    if (context)
        LLVMDisasmDispose(context);
    if (status == MX_OK)
        *out = lines;
    else
        free(lines);
    return status;
}
