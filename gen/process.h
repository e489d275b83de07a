/* Programs that the generator runs. They read and write files in a scratch folder, under names that
 * are always the same: what they store of them does not depend on the run. */
#ifndef MXGEN_PROCESS_H
#define MXGEN_PROCESS_H

#include <stdbool.h>

#include "gen/scratch.h"

/* How much of a program's output a message quotes. */
enum { MXGEN_PROCESS_SHOWN_BYTES = 700 };

/* Runs argv[0] in the scratch folder to its end. `log` is what it printed, malloc'ed, also where it
 * fails (else NULL). A program that could not be run, was ended by a signal or ends with a status
 * other than 0 is an error; *exit_code, which may be NULL, is that status, -1 without one. */
mx_status mxgen_process_run(const char *const *argv, const mxgen_scratch *scratch, char **log,
                            int *exit_code, mx_error *err);

/* The absolute path of a program, as it will run in another folder; false where there is none or it
 * does not fit. */
bool mxgen_process_find(const char *path, char *out, size_t out_bytes);

#endif
