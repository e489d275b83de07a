#include "gen/process.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mxgen/error.h"

extern char **environ;

static mx_status spawn(const char *const *argv, const char *folder, pid_t *child, mx_error *err)
{
    posix_spawn_file_actions_t actions;
    int code = posix_spawn_file_actions_init(&actions);
    if (code)
        return mx_fail(err, MX_ERR_NO_MEMORY, "cannot run %s: %s", argv[0], strerror(code));
    code = posix_spawn_file_actions_addchdir_np(&actions, folder);
    if (!code)
        code = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (!code)
        code = posix_spawn_file_actions_addopen(&actions, 1, "log", O_WRONLY | O_CREAT | O_TRUNC,
                                                0600);
    if (!code)
        code = posix_spawn_file_actions_adddup2(&actions, 1, 2);
    if (!code)
        code = posix_spawn(child, argv[0], &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return code ? mx_fail(err, MX_ERR_IO, "cannot run %s: %s", argv[0], strerror(code)) : MX_OK;
}

mx_status mxgen_process_run(const char *const *argv, const mxgen_scratch *scratch, char **log,
                            int *exit_code, mx_error *err)
{
    pid_t child = -1, ended;
    int how = 0;
    size_t log_bytes;
    void *text = NULL;
    if (exit_code)
        *exit_code = -1;
    mx_status status = spawn(argv, scratch->folder, &child, err);
    if (status != MX_OK)
        return status;
    do {
        ended = waitpid(child, &how, 0);
    } while (ended < 0 && errno == EINTR);
    if (ended < 0)
        return mx_fail(err, MX_ERR_IO, "cannot wait for %s: %s", argv[0], strerror(errno));
    status = mxgen_scratch_read(scratch, "log", &text, &log_bytes, err);
    *log = text;
    if (status != MX_OK)
        return status;
    if (WIFSIGNALED(how))
        return mx_fail(err, MX_ERR_INTERNAL, "%s was ended by signal %d: %.*s", argv[0],
                       WTERMSIG(how), MXGEN_PROCESS_SHOWN_BYTES, *log);
    if (exit_code)
        *exit_code = WEXITSTATUS(how);
    if (WEXITSTATUS(how))
        return mx_fail(err, MX_ERR_INTERNAL, "%s ends with status %d: %.*s", argv[0],
                       WEXITSTATUS(how), MXGEN_PROCESS_SHOWN_BYTES, *log);
    return MX_OK;
}

static bool is_program(const char *path)
{
    struct stat info;
    return !stat(path, &info) && S_ISREG(info.st_mode) && !access(path, X_OK);
}

bool mxgen_process_find(const char *path, char *out, size_t out_bytes)
{
    char *absolute = is_program(path) ? realpath(path, NULL) : NULL;
    bool fits = absolute && strlen(absolute) < out_bytes;
    if (fits)
        strcpy(out, absolute);
    free(absolute);
    return fits;
}
