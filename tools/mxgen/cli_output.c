/* Writes results: standard output, and files whole or not at all. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mxgen/error.h>

#include "cli.h"

static mx_status cli_write_all(int fd, const char *path, const void *data, size_t size_bytes,
                               mx_error *err)
{
    const char *next = data;
    while (size_bytes > 0) {
        ssize_t written = write(fd, next, size_bytes);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return mx_fail(err, MX_ERR_IO, "cannot write %s: %s", path, strerror(errno));
        next += written;
        size_bytes -= (size_t)written;
    }
    return MX_OK;
}

/* A device or a pipe is written to directly: there is nothing to replace. */
static int cli_is_special(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

static mx_status cli_write_special(const char *path, const void *data, size_t size_bytes,
                                   mx_error *err)
{
    FILE *file = fopen(path, "we");
    if (!file)
        return mx_fail(err, MX_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    mx_status status = cli_write_all(fileno(file), path, data, size_bytes, err);
    if (fclose(file) && status == MX_OK)
        status = mx_fail(err, MX_ERR_IO, "cannot write %s: %s", path, strerror(errno));
    return status;
}

mx_status cli_write(const char *path, const void *data, size_t size_bytes, mx_error *err)
{
    if (!path)
        return cli_write_all(STDOUT_FILENO, "standard output", data, size_bytes, err);
    if (cli_is_special(path))
        return cli_write_special(path, data, size_bytes, err);

    mx_status status = MX_OK;
    int fd = -1;
    char *temporary = NULL;
    if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
        return mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
    fd = mkstemp(temporary);
    if (fd < 0) {
        status =
            mx_fail(err, MX_ERR_IO, "cannot create a file beside %s: %s", path, strerror(errno));
        goto out;
    }
    mode_t mask = umask(0);
    umask(mask);
    fchmod(fd, 0666 & ~mask);
    status = cli_write_all(fd, temporary, data, size_bytes, err);
    if (close(fd) && status == MX_OK)
        status = mx_fail(err, MX_ERR_IO, "cannot write %s: %s", temporary, strerror(errno));
    if (status == MX_OK && rename(temporary, path))
        status = mx_fail(err, MX_ERR_IO, "cannot create %s: %s", path, strerror(errno));
    if (status != MX_OK)
        unlink(temporary);
out:
    free(temporary);
    return status;
}

mx_status cli_check_output(const char *path, mx_error *err)
{
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return mx_fail(err, MX_ERR_IO, "%s is a folder: name a file", path);
    char *temporary = NULL;
    if (asprintf(&temporary, "%s.XXXXXX", path) < 0)
        return mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
    mx_status status = MX_OK;
    int fd = mkstemp(temporary);
    if (fd < 0) {
        status =
            mx_fail(err, MX_ERR_IO, "cannot create a file beside %s: %s", path, strerror(errno));
    } else {
        close(fd);
        unlink(temporary);
    }
    free(temporary);
    return status;
}

mx_status cli_print_json(json_t *json, mx_error *err)
{
    int failed = json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    json_decref(json);
    if (failed)
        return mx_fail(err, MX_ERR_IO, "cannot print JSON");
    putchar('\n');
    return MX_OK;
}

mx_status cli_finish_output(mx_error *err)
{
    if (fflush(stdout) || ferror(stdout))
        return mx_fail(err, MX_ERR_IO, "cannot write standard output: %s", strerror(errno));
    return MX_OK;
}

void cli_format_bytes(double bytes, char *text, size_t capacity)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    while (bytes >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, capacity, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
}
