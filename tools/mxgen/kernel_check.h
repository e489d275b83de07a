/* Runs a file's kernels on a device and has the reference command of FILE.json judge what they did.
 */
#ifndef MXGEN_KERNEL_CHECK_H
#define MXGEN_KERNEL_CHECK_H

#include "kernel_file.h"

/* "check" of FILE.json: {"command": ["PROGRAM", "ARGUMENT", ..], "args": {"NAME": number, ..}}.
 * Every variant whose rules hold for these arguments is run on memory of the sizes that "bytes"
 * tells, with numbers from -1 to 1 in it. Then the command is run in a folder that has args.json
 * (the arguments, and the variant) and, of each pointer, NAME.in and NAME.out, its bytes before and
 * after; a status other than 0 is an error with what the command printed. An argument of it that
 * names a file beside FILE.json gets that file's path. *n is the number of variants that were
 * checked; a file without "check" has none. */
mx_status kernel_check(const kernel_file *file, const char *pack, const char *device, size_t *n,
                       mx_error *err);

#endif
