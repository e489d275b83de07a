/* Relocatable object -> code object, through LLD in this process. LLD reads and writes files. */
#include "gen/link.h"

#include "gen/lld_shim.h"
#include "gen/scratch.h"
#include "gen/target.h"
#include "mxgen/error.h"

static mx_status link_in(const mxgen_scratch *scratch, const mxgen_target *target,
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
                                input};
    mx_status status = mxgen_scratch_write(scratch, "in.o", object, object_bytes, err);
    if (status != MX_OK)
        return status;
    if (mxgen_lld_link(argv, sizeof(argv) / sizeof(argv[0]), log, sizeof(log)) != 0)
        return mx_fail(err, MX_ERR_INTERNAL, "linking for %s failed: %s", target->name, log);
    return mxgen_scratch_read(scratch, "out", image, image_bytes, err);
}

mx_status mxgen_link(const mxgen_target *target, const void *object, size_t object_bytes,
                     void **image, size_t *image_bytes, mx_error *err)
{
    mxgen_scratch scratch = {""};
    mx_status status = mxgen_scratch_create(&scratch, err);
    if (status == MX_OK)
        status = link_in(&scratch, target, object, object_bytes, image, image_bytes, err);
    mxgen_scratch_destroy(&scratch);
    return status;
}
