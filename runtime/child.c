#include "runtime/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <mxgen/error.h>

extern char **environ;

enum { OUTPUT_BYTES = 600, FIRST_DESCRIPTOR = 3 };

static const double grace_seconds = 0.3; /* between asking to end and killing */

static double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- Starting ---- */

static int set_files(posix_spawn_file_actions_t *files, int output)
{
    int code = posix_spawn_file_actions_addopen(files, 0, "/dev/null", O_RDONLY, 0);
    if (!code)
        code = posix_spawn_file_actions_adddup2(files, output, 1);
    if (!code)
        code = posix_spawn_file_actions_adddup2(files, output, 2);
    if (!code)
        code = posix_spawn_file_actions_addclosefrom_np(files, FIRST_DESCRIPTOR);
    return code;
}

static int set_signals(posix_spawnattr_t *attributes)
{
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    int code = posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF |
                                                        POSIX_SPAWN_SETSIGMASK);
    if (!code)
        code = posix_spawnattr_setpgroup(attributes, 0);
    if (!code)
        code = posix_spawnattr_setsigdefault(attributes, &all);
    if (!code)
        code = posix_spawnattr_setsigmask(attributes, &none);
    return code;
}

/* 0, or errno's code. */
static int start(const char *const *argv, int output, pid_t *child)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    int code = posix_spawn_file_actions_init(&files);
    if (code)
        return code;
    if ((code = posix_spawnattr_init(&attributes))) {
        posix_spawn_file_actions_destroy(&files);
        return code;
    }
    code = set_files(&files, output);
    if (!code)
        code = set_signals(&attributes);
    if (!code)
        code = posix_spawn(child, argv[0], &files, &attributes, (char *const *)argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return code;
}

/* ---- Waiting ---- */

enum wait_result { WAIT_RUNS = 0, WAIT_ENDED, WAIT_STOLEN };

/* Polls, as SIGCHLD belongs to the application. */
static enum wait_result wait_until(pid_t child, double end, int *how)
{
    for (long pause_ns = 1000000;; pause_ns += pause_ns < 16000000 ? pause_ns : 0) {
        pid_t ended = waitpid(child, how, WNOHANG);
        if (ended == child)
            return WAIT_ENDED;
        if (ended < 0 && errno != EINTR)
            return WAIT_STOLEN;
        if (now_seconds() >= end)
            return WAIT_RUNS;
        nanosleep(&(struct timespec){0, pause_ns}, NULL);
    }
}

/* It runs, and nobody has waited for it, so the number is still its own. */
static void end_group(pid_t child)
{
    int how;
    kill(-child, SIGTERM);
    if (wait_until(child, now_seconds() + grace_seconds, &how) != WAIT_RUNS) {
        kill(-child, SIGKILL); /* those that it left behind */
        return;
    }
    kill(-child, SIGKILL);
    while (waitpid(child, &how, 0) < 0 && errno == EINTR)
        ;
}

/* The end of what was printed, without control characters and blanks at the end. */
static void read_output(int output, char text[OUTPUT_BYTES + 1])
{
    off_t size = lseek(output, 0, SEEK_END);
    off_t from = size > OUTPUT_BYTES ? size - OUTPUT_BYTES : 0;
    ssize_t n = pread(output, text, OUTPUT_BYTES, from);
    text[n > 0 ? n : 0] = 0;
    for (char *at = text; *at; at++) {
        if ((unsigned char)*at < ' ')
            *at = ' ';
    }
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == ' ')
        text[--length] = 0;
}

mx_status mxrt_child_run(const char *const *argv, double limit_seconds, mx_error *err)
{
    char text[OUTPUT_BYTES + 1];
    pid_t child = -1;
    int how = 0, output = memfd_create("mxrt-child", MFD_CLOEXEC);
    if (output < 0)
        return mx_fail(err, MX_ERR_IO, "cannot run %s: %s", argv[0], strerror(errno));
    int code = start(argv, output, &child);
    if (code) {
        close(output);
        return mx_fail(err, MX_ERR_IO, "cannot run %s: %s", argv[0], strerror(code));
    }
    enum wait_result result = wait_until(child, now_seconds() + limit_seconds, &how);
    if (result == WAIT_RUNS)
        end_group(child);
    read_output(output, text);
    close(output);
    if (result == WAIT_RUNS)
        return mx_fail(err, MX_ERR_UNSUPPORTED, "%s was ended after %g s: %s", argv[0],
                       limit_seconds, text);
    if (result == WAIT_STOLEN || (WIFEXITED(how) && WEXITSTATUS(how) == 0))
        return MX_OK;
    if (WIFSIGNALED(how))
        return mx_fail(err, MX_ERR_UNSUPPORTED, "%s was ended by signal %d: %s", argv[0],
                       WTERMSIG(how), text);
    return mx_fail(err, MX_ERR_UNSUPPORTED, "%s ends with status %d: %s", argv[0], WEXITSTATUS(how),
                   text);
}
