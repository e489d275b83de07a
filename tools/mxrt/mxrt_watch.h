/* Work on a device in a child process, and a parent that hears lines of it: a kernel that hangs or
 * faults takes no more than the child along. */
#ifndef MXRT_WATCH_H
#define MXRT_WATCH_H

#include <stdio.h>

#include <mxgen/base.h>

typedef struct tool_watch {
    /* In the child: writes lines, flushed, of at most 8 KB each. Returns the exit status. */
    int (*work)(void *user, FILE *out);
    /* In the parent: a line, without its end, which may be changed. */
    void (*hear)(void *user, char *line);
    double (*limit_s)(void *user); /* how long the child may be silent now */
    void *user;
} tool_watch;

/* How a child ended. */
typedef struct tool_watch_end {
    int was_silent; /* for too long, and was killed */
    int status;     /* of waitpid, if it was not */
} tool_watch_end;

/* Runs one child to its end. The parent must not have opened the device. */
mx_status watch_run(const tool_watch *watch, tool_watch_end *end, mx_error *err);
/* Why a kernel that the child was at is given up: "crashed (signal 11)". `limit_s` is what it had.
 */
void watch_describe(const tool_watch_end *end, double limit_s, char *text, size_t text_bytes);

#endif
