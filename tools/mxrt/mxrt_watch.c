#include "mxrt_watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mxgen/error.h>

/* Reads lines until the child ends or is silent for too long. Returns 0 if it was silent. */
static int listen_to(const tool_watch *watch, int fd)
{
    char buffer[8192];
    size_t used = 0;
    for (;;) {
        struct pollfd at = {.fd = fd, .events = POLLIN};
        int ready = poll(&at, 1, (int)(1000 * watch->limit_s(watch->user)));
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready == 0)
            return 0;
        ssize_t n = read(fd, buffer + used, sizeof(buffer) - 1 - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return 1;
        used += (size_t)n;
        buffer[used] = 0;
        char *line = buffer, *end;
        while ((end = strchr(line, '\n'))) {
            *end = 0;
            watch->hear(watch->user, line);
            line = end + 1;
        }
        used = strlen(line);
        memmove(buffer, line, used + 1);
        if (used == sizeof(buffer) - 1)
            used = 0; /* no line of ours */
    }
}

static _Noreturn void run_work(const tool_watch *watch, int fd)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a kernel that hangs would outlive us */
    FILE *out = fdopen(fd, "w");
    int code = out ? watch->work(watch->user, out) : 1;
    if (out)
        fflush(out);
    _exit(code);
}

mx_status watch_run(const tool_watch *watch, tool_watch_end *end, mx_error *err)
{
    int ends[2];
    *end = (tool_watch_end){0, 0};
    if (pipe(ends))
        return mx_fail(err, MX_ERR_IO, "no pipe: %s", strerror(errno));
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        mx_fail(err, MX_ERR_IO, "no process: %s", strerror(errno));
        close(ends[0]);
        close(ends[1]);
        return MX_ERR_IO;
    }
    if (pid == 0) {
        close(ends[0]);
        run_work(watch, ends[1]);
    }
    close(ends[1]);
    end->was_silent = !listen_to(watch, ends[0]);
    if (end->was_silent)
        kill(pid, SIGKILL);
    close(ends[0]);
    while (waitpid(pid, &end->status, 0) < 0 && errno == EINTR)
        ;
    return MX_OK;
}

void watch_describe(const tool_watch_end *end, double limit_s, char *text, size_t text_bytes)
{
    if (end->was_silent)
        snprintf(text, text_bytes, "no answer in %.0f s", limit_s);
    else if (WIFSIGNALED(end->status))
        snprintf(text, text_bytes, "crashed (signal %d)", WTERMSIG(end->status));
    else
        snprintf(text, text_bytes, "crashed (exit status %d)", WEXITSTATUS(end->status));
}
