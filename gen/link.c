/* Relocatable object -> code object, through LLD in this process. LLD reads and writes files. */
#include "gen/link.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>

#include "gen/lld_shim.h"
#include "gen/scratch.h"
#include "gen/target.h"
#include "mxgen/error.h"

/* `libm` NULL: nothing is linked to. */
static mx_status link_in(const mxgen_scratch *scratch, const mxgen_target *target, const char *libm,
                         const void *object, size_t object_bytes, void **image, size_t *image_bytes,
                         mx_error *err)
{
    char input[288], output[288], log[600] = "";
    mxgen_scratch_path(scratch, "in.o", input, sizeof(input));
    mxgen_scratch_path(scratch, "out", output, sizeof(output));
    bool is_host = target->kind == MXGEN_HOST;
    /* AMD's objects as ROCm's own tools link them, byte for byte. */
    const char *const argv[] = {"ld.lld",
                                "-shared",
                                "--no-undefined",
                                "--build-id=none",
                                is_host ? "-Bsymbolic" : "-Bno-symbolic",
                                "-z",
                                is_host ? "now" : "lazy",
                                "-o",
                                output,
                                input,
                                "--as-needed",
                                libm};
    mx_status status = mxgen_scratch_write(scratch, "in.o", object, object_bytes, err);
    if (status != MX_OK)
        return status;
    int argc = (int)(sizeof(argv) / sizeof(argv[0])) - (libm ? 0 : 2);
    if (mxgen_lld_link(argv, argc, log, sizeof(log)) != 0)
        return mx_fail(err, libm ? MX_ERR_INVALID : MX_ERR_INTERNAL, "linking for %s failed: %s",
                       target->name, log);
    return mxgen_scratch_read(scratch, "out", image, image_bytes, err);
}

static mx_status link_with(const mxgen_target *target, const char *libm, const void *object,
                           size_t object_bytes, void **image, size_t *image_bytes, mx_error *err)
{
    mxgen_scratch scratch = {""};
    mx_status status = mxgen_scratch_create(&scratch, err);
    if (status == MX_OK)
        status = link_in(&scratch, target, libm, object, object_bytes, image, image_bytes, err);
    mxgen_scratch_destroy(&scratch);
    return status;
}

mx_status mxgen_link(const mxgen_target *target, const void *object, size_t object_bytes,
                     void **image, size_t *image_bytes, mx_error *err)
{
    return link_with(target, NULL, object, object_bytes, image, image_bytes, err);
}

/* The file of the C library's mathematics, as this process would load it; "" if it cannot. */
static void find_libm(char path[PATH_MAX])
{
    Dl_info info;
    void *handle = dlopen("libm.so.6", RTLD_LAZY), *symbol = handle ? dlsym(handle, "expf") : NULL;
    path[0] = 0;
    if (symbol && dladdr(symbol, &info) && info.dli_fname)
        snprintf(path, PATH_MAX, "%s", info.dli_fname);
    if (handle)
        dlclose(handle);
}

mx_status mxgen_link_foreign(const mxgen_target *target, const void *object, size_t object_bytes,
                             void **image, size_t *image_bytes, mx_error *err)
{
    char libm[PATH_MAX] = "";
    if (target->kind == MXGEN_HOST)
        find_libm(libm);
    return link_with(target, libm[0] ? libm : NULL, object, object_bytes, image, image_bytes, err);
}
