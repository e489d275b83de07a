/* What mxgen and mxgen-comgr say to each other: arguments, files, lines on standard output, and an
 * exit status.
 *
 *   mxgen-comgr [--library FILE] probe           prints "library PATH", "interface 3.0",
 * "llvm 22.1.8" (0 if it cannot be told) and "isa NAME" for each mxgen-comgr [--library FILE] link
 * ISA IN OUT     relocatable -> code object mxgen-comgr [--library FILE] codegen ISA IN OUT  LLVM
 * bitcode -> code object
 *
 * Where the status is not 0, standard error has the message, whole. */
#ifndef MXGEN_COMGR_PROTOCOL_H
#define MXGEN_COMGR_PROTOCOL_H

enum {
    MXGEN_COMGR_EXIT_OK = 0,
    MXGEN_COMGR_EXIT_FAILED = 1, /* comgr refused, or a file could not be read or written */
    MXGEN_COMGR_EXIT_USAGE = 2,
    MXGEN_COMGR_EXIT_NO_LIBRARY = 3,
    MXGEN_COMGR_EXIT_VERSION = 4,    /* an interface that we do not know */
    MXGEN_COMGR_EXIT_UNKNOWN_ISA = 5 /* its comgr does not know the chip */
};

#define MXGEN_COMGR_ISA_PREFIX "amdgcn-amd-amdhsa--"

#endif
