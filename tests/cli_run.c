#include "cli_run.h"

#include <check.h>
#include <fcntl.h>
#include <ftw.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Reads from the start of a file that a child has written to. */
static char *cli_read_fd(int fd, size_t *size_bytes)
{
    off_t end = lseek(fd, 0, SEEK_END);
    ck_assert_int_ge(end, 0);
    char *text = calloc((size_t)end + 1, 1);
    ck_assert_ptr_nonnull(text);
    ck_assert_int_eq(pread(fd, text, (size_t)end, 0), end);
    *size_bytes = (size_t)end;
    return text;
}

/* Files, not pipes: a child that prints much must not wait for us. */
static int cli_temp_fd(void)
{
    char path[] = "/tmp/mxgen-test-XXXXXX";
    int fd = mkostemp(path, O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    unlink(path);
    return fd;
}

void cli_run_start(cli_run *run, const char *const *argv)
{
    int out = cli_temp_fd(), err = cli_temp_fd(), status = 0;
    size_t err_bytes = 0;
    pid_t child = 0;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
    ck_assert_int_eq(posix_spawn(&child, argv[0], &actions, NULL, (char *const *)argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    run->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    run->out = cli_read_fd(out, &run->out_bytes);
    run->err = cli_read_fd(err, &err_bytes);
    close(out);
    close(err);
}

void cli_run_finish(cli_run *run)
{
    free(run->out);
    free(run->err);
    *run = (cli_run){0};
}

char *cli_temp_create(void)
{
    char *path = strdup("/tmp/mxgen-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(path));
    return path;
}

static int cli_remove(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

void cli_temp_destroy(char *path)
{
    if (path)
        nftw(path, cli_remove, 8, FTW_DEPTH | FTW_PHYS);
    free(path);
}

char *cli_temp_path(const char *dir, const char *name)
{
    char *path = NULL;
    ck_assert_int_ge(asprintf(&path, "%s/%s", dir, name), 0);
    return path;
}

char *cli_temp_read(const char *path, size_t *size_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_msg(fd >= 0, "%s is not there", path);
    char *text = cli_read_fd(fd, size_bytes);
    close(fd);
    return text;
}
