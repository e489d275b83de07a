/* mxgen-comgr: links and generates AMD code objects by ROCm's comgr, whose LLVM must not meet
 * mxgen's in one process. mxgen runs it; gen/comgr_protocol.h has its arguments. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "comgr_library.h"
#include "gen/comgr_protocol.h"

static int complain(int exit_code, const mx_error *err)
{
    fprintf(stderr, "%s\n", err->message);
    return exit_code;
}

static int complain_of_file(const char *path)
{
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    return MXGEN_COMGR_EXIT_FAILED;
}

/* ---- Files ---- */

static bool file_read(const char *path, comgr_bytes *out)
{
    FILE *file = fopen(path, "rbe");
    if (!file)
        return false;
    char *data = NULL;
    size_t size_bytes = 0;
    FILE *memory = open_memstream(&data, &size_bytes);
    for (int c; memory && (c = getc(file)) != EOF;)
        putc(c, memory);
    bool good = memory && !ferror(file) && !ferror(memory);
    if (memory && fclose(memory))
        good = false;
    fclose(file);
    if (!good) {
        free(data);
        return false;
    }
    *out = (comgr_bytes){data, size_bytes};
    return true;
}

static bool file_write(const char *path, comgr_bytes bytes)
{
    FILE *file = fopen(path, "wbe");
    if (!file)
        return false;
    bool good = fwrite(bytes.data, 1, bytes.size_bytes, file) == bytes.size_bytes;
    return !fclose(file) && good;
}

/* ---- Commands ---- */

/* The linker writes its version into every code object. "0" if it cannot be told. */
static void llvm_version(const comgr_library *library, char *text, size_t text_bytes)
{
    static char nothing[] = "\n";
    const char *isa = comgr_isa(library, 0);
    comgr_bytes source = {nothing, 1}, object = {NULL, 0}, linked = {NULL, 0};
    snprintf(text, text_bytes, "0");
    if (isa && comgr_run(library, COMGR_ASSEMBLE, isa, source, &object, NULL) == MX_OK &&
        comgr_run(library, COMGR_LINK, isa, object, &linked, NULL) == MX_OK) {
        static const char head[] = "Linker: ", name[] = "LLD ";
        const char *at = memmem(linked.data, linked.size_bytes, head, sizeof(head) - 1);
        at = at ? strstr(at, name) : NULL;
        if (at && isdigit((unsigned char)at[sizeof(name) - 1])) {
            at += sizeof(name) - 1;
            snprintf(text, text_bytes, "%.*s", (int)strspn(at, "0123456789."), at);
        }
    }
    free(object.data);
    free(linked.data);
}

static int probe(const comgr_library *library)
{
    size_t major, minor, count = comgr_isa_count(library);
    char version[32];
    comgr_version(library, &major, &minor);
    llvm_version(library, version, sizeof(version));
    printf("library %s\ninterface %zu.%zu\nllvm %s\n", comgr_path(library), major, minor, version);
    for (size_t i = 0; i < count; i++) {
        const char *isa = comgr_isa(library, i);
        if (isa)
            printf("isa %s\n", isa);
    }
    return fflush(stdout) ? complain_of_file("standard output") : MXGEN_COMGR_EXIT_OK;
}

static int convert(const comgr_library *library, bool is_bitcode, const char *isa,
                   const char *in_path, const char *out_path)
{
    mx_error err = {MX_OK, ""};
    comgr_bytes input = {NULL, 0}, object = {NULL, 0}, linked = {NULL, 0};
    if (!comgr_knows(library, isa)) {
        fprintf(stderr, "%s does not know %s\n", comgr_path(library), isa);
        return MXGEN_COMGR_EXIT_UNKNOWN_ISA;
    }
    if (!file_read(in_path, &input))
        return complain_of_file(in_path);
    mx_status status =
        is_bitcode ? comgr_run(library, COMGR_CODEGEN, isa, input, &object, &err) : MX_OK;
    if (status == MX_OK)
        status = comgr_run(library, COMGR_LINK, isa, is_bitcode ? object : input, &linked, &err);
    int code = MXGEN_COMGR_EXIT_OK;
    if (status != MX_OK)
        code = complain(MXGEN_COMGR_EXIT_FAILED, &err);
    else if (!file_write(out_path, linked))
        code = complain_of_file(out_path);
    free(input.data);
    free(object.data);
    free(linked.data);
    return code;
}

int main(int argc, char **argv)
{
    const char *path = NULL;
    const comgr_library *library;
    mx_error err = {MX_OK, ""};
    char **args = argv + 1;
    if (argc > 2 && !strcmp(args[0], "--library")) {
        path = args[1];
        args += 2;
    }
    size_t n_args = (size_t)(argv + argc - args);
    bool is_probe = n_args == 1 && !strcmp(args[0], "probe");
    bool is_bitcode = n_args == 4 && !strcmp(args[0], "codegen");
    if (!is_probe && !is_bitcode && (n_args != 4 || strcmp(args[0], "link") != 0)) {
        fprintf(stderr,
                "usage: mxgen-comgr [--library FILE] probe | link ISA IN OUT | codegen ISA IN "
                "OUT\nmxgen build --codegen comgr runs this program\n");
        return MXGEN_COMGR_EXIT_USAGE;
    }
    mx_status status = comgr_open(path, &library, &err);
    if (status != MX_OK)
        return complain(status == MX_ERR_UNSUPPORTED ? MXGEN_COMGR_EXIT_VERSION
                                                     : MXGEN_COMGR_EXIT_NO_LIBRARY,
                        &err);
    return is_probe ? probe(library) : convert(library, is_bitcode, args[1], args[2], args[3]);
}
