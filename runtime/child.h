/* A program run in a process of its own, with a time limit. */
#ifndef MXRT_CHILD_H
#define MXRT_CHILD_H

#include <mxgen/base.h>

/* Runs argv[0], an absolute path, and waits for its end. The child gets the environment, no input,
 * no open files of ours, default signals and a process group of its own, which is killed when the
 * time is up. It never stays behind as a zombie.
 *
 * The message of a failure has the end of what the child printed. Where the application waits for
 * our child in our place, how it ended is not known, and MX_OK tells only that it has. Thread-safe.
 */
mx_status mxrt_child_run(const char *const *argv, double limit_seconds, mx_error *err);

#endif
