/* Relocatable object -> code object, through LLD in this process. LLD reads and writes files. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gen/link.h"

#include "gen/lld_shim.h"
#include "gen/target.h"
#include "mxgen/error.h"

static mx_status write_file(const char *path, const void *data, size_t size_bytes, mx_error *err)
{
    FILE *file = fopen(path, "wbe");
    bool failed = !file || fwrite(data, 1, size_bytes, file) != size_bytes;
    if (file && fclose(file))
        failed = true;
    if (failed)
        return mx_fail(err, MX_ERR_IO, "cannot write %s: %s; set TMPDIR to a folder with room",
                       path, strerror(errno));
    return MX_OK;
}

static mx_status read_file(const char *path, void **data, size_t *size_bytes, mx_error *err)
{
    struct stat info;
    FILE *file = fopen(path, "rbe");
    void *buffer = NULL;
    if (file && !fstat(fileno(file), &info))
        buffer = malloc((size_t)info.st_size + 1);
    bool good = buffer && fread(buffer, 1, (size_t)info.st_size, file) == (size_t)info.st_size;
    if (file)
        fclose(file);
    if (!good) {
        free(buffer);
        return mx_fail(err, MX_ERR_IO, "cannot read back %s: %s", path, strerror(errno));
    }
    *data = buffer;
    *size_bytes = (size_t)info.st_size;
    return MX_OK;
}

mx_status mxgen_link(const mxgen_target *target, const void *object, size_t object_bytes,
                     void **image, size_t *image_bytes, mx_error *err)
{
    const char *base = getenv("TMPDIR");
    char folder[256], input[288], output[288], log[600] = "";
    snprintf(folder, sizeof(folder), "%s/mxgen-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(folder))
        return mx_fail(err, MX_ERR_IO, "cannot make a folder like %s: %s; set TMPDIR", folder,
                       strerror(errno));
    snprintf(input, sizeof(input), "%s/in.o", folder);
    snprintf(output, sizeof(output), "%s/out", folder);
    const char *const argv[] = {"ld.lld",
                                "-shared",
                                "--no-undefined",
                                "--build-id=none",
                                "-Bsymbolic",
                                "-z",
                                target->kind == MXGEN_HOST ? "now" : "lazy",
                                "-o",
                                output,
                                input};
    mx_status status = write_file(input, object, object_bytes, err);
    if (status == MX_OK &&
        mxgen_lld_link(argv, sizeof(argv) / sizeof(argv[0]), log, sizeof(log)) != 0)
        status = mx_fail(err, MX_ERR_INTERNAL, "linking for %s failed: %s", target->name, log);
    if (status == MX_OK)
        status = read_file(output, image, image_bytes, err);
    unlink(input);
    unlink(output);
    rmdir(folder);
    return status;
}
