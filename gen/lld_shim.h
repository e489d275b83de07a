/* The linker as a library: LLD has no C interface. */
#ifndef MXGEN_LLD_SHIM_H
#define MXGEN_LLD_SHIM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Runs ld.lld with the given arguments (argv[0] is "ld.lld"); 0 on success. Messages go to `log`,
 * cut at log_bytes. Calls are serialised: LLD keeps global state. */
int mxgen_lld_link(const char *const *argv, int argc, char *log, size_t log_bytes);

#ifdef __cplusplus
}
#endif
#endif
