#include "gen/scratch.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mxgen/error.h"

enum { PATH_BYTES = 640 };

mx_status mxgen_scratch_create(mxgen_scratch *out, mx_error *err)
{
    const char *base = getenv("TMPDIR");
    mxgen_scratch made;
    int n = snprintf(made.folder, sizeof(made.folder), "%s/mxgen-XXXXXX",
                     base && *base ? base : "/tmp");
    if ((size_t)n >= sizeof(made.folder))
        return mx_fail(err, MX_ERR_IO, "TMPDIR is longer than %zu bytes: %.100s..",
                       sizeof(made.folder), made.folder);
    if (!mkdtemp(made.folder))
        return mx_fail(err, MX_ERR_IO, "cannot make a folder like %s: %s; set TMPDIR", made.folder,
                       strerror(errno));
    *out = made;
    return MX_OK;
}

void mxgen_scratch_destroy(mxgen_scratch *scratch)
{
    char path[PATH_BYTES];
    DIR *handle = scratch->folder[0] ? opendir(scratch->folder) : NULL;
    if (!handle)
        return;
    for (const struct dirent *entry; (entry = readdir(handle));) {
        mxgen_scratch_path(scratch, entry->d_name, path, sizeof(path));
        unlink(path);
    }
    closedir(handle);
    rmdir(scratch->folder);
    scratch->folder[0] = 0;
}

void mxgen_scratch_path(const mxgen_scratch *scratch, const char *name, char *path,
                        size_t path_bytes)
{
    snprintf(path, path_bytes, "%s/%s", scratch->folder, name);
}

mx_status mxgen_scratch_write(const mxgen_scratch *scratch, const char *name, const void *data,
                              size_t size_bytes, mx_error *err)
{
    char path[PATH_BYTES];
    mxgen_scratch_path(scratch, name, path, sizeof(path));
    FILE *file = fopen(path, "wbe");
    bool failed = !file || fwrite(data, 1, size_bytes, file) != size_bytes;
    if (file && fclose(file))
        failed = true;
    if (failed)
        return mx_fail(err, MX_ERR_IO, "cannot write %s: %s; set TMPDIR to a folder with room",
                       path, strerror(errno));
    return MX_OK;
}

mx_status mxgen_scratch_read(const mxgen_scratch *scratch, const char *name, void **data,
                             size_t *size_bytes, mx_error *err)
{
    char path[PATH_BYTES], *buffer = NULL;
    struct stat info;
    mxgen_scratch_path(scratch, name, path, sizeof(path));
    FILE *file = fopen(path, "rbe");
    if (file && !fstat(fileno(file), &info))
        buffer = malloc((size_t)info.st_size + 1);
    bool good = buffer && fread(buffer, 1, (size_t)info.st_size, file) == (size_t)info.st_size;
    if (file)
        fclose(file);
    if (!good) {
        free(buffer);
        return mx_fail(err, MX_ERR_IO, "cannot read back %s: %s", path, strerror(errno));
    }
    buffer[info.st_size] = 0;
    *data = buffer;
    *size_bytes = (size_t)info.st_size;
    return MX_OK;
}
