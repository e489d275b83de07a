#include "gen/mlir.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gen/process.h"
#include "gen/target.h"
#include "mxgen/error.h"

static const char helper_name[] = "mxgen-mlir", helper_env[] = "MXGEN_MLIR_HELPER";

static mx_status find_helper(char helper[PATH_MAX], mx_error *err)
{
    char path[PATH_MAX];
    const char *named = getenv(helper_env);
    if (named && *named) {
        if (mxgen_process_find(named, helper, PATH_MAX))
            return MX_OK;
        return mx_fail(err, MX_ERR_NOT_FOUND, "%s, which %s names, is no program", named,
                       helper_env);
    }
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof(helper_name));
    path[n > 0 ? n : 0] = 0;
    char *slash = strrchr(path, '/');
    if (slash) {
        strcpy(slash + 1, helper_name);
        if (mxgen_process_find(path, helper, PATH_MAX))
            return MX_OK;
    }
    return mx_fail(err, MX_ERR_NOT_FOUND,
                   "%s, which reads MLIR, is not at %s: build it (it needs libmlir-22-dev), or set "
                   "%s",
                   helper_name, path, helper_env);
}

/* Its own words are the message. */
static mx_status run(const char *const *argv, const mxgen_scratch *scratch, mx_error *err)
{
    mx_error reason = {MX_OK, ""};
    char *log = NULL;
    int code = -1;
    mx_status status = mxgen_process_run(argv, scratch, &log, &code, &reason);
    size_t length = log ? strlen(log) : 0;
    while (length > 0 && log[length - 1] == '\n')
        log[--length] = 0;
    if (status != MX_OK && code > 0 && length)
        status = mx_fail(err, MX_ERR_INVALID, "%s", log);
    else if (status != MX_OK)
        status = mx_fail(err, status, "%s", reason.message);
    free(log);
    return status;
}

mx_status mxgen_mlir_lower(const mxgen_target *target, int64_t threads, const char *label,
                           const void *text, size_t text_bytes, void **bitcode,
                           size_t *bitcode_bytes, mx_error *err)
{
    char helper[PATH_MAX], size[24];
    mxgen_scratch scratch = {""};
    snprintf(size, sizeof(size), "%lld", (long long)threads);
    const char *const argv[] = {helper,      "lower",  mxgen_target_kind(target),
                                target->cpu, size,     label,
                                "in.mlir",   "out.bc", NULL};
    mx_status status = find_helper(helper, err);
    if (status == MX_OK)
        status = mxgen_scratch_create(&scratch, err);
    if (status == MX_OK)
        status = mxgen_scratch_write(&scratch, "in.mlir", text, text_bytes, err);
    if (status == MX_OK)
        status = run(argv, &scratch, err);
    if (status == MX_OK)
        status = mxgen_scratch_read(&scratch, "out.bc", bitcode, bitcode_bytes, err);
    mxgen_scratch_destroy(&scratch);
    return status;
}

mx_status mxgen_mlir_print(const char *label, const void *ir, size_t ir_bytes, char **text,
                           size_t *text_bytes, mx_error *err)
{
    char helper[PATH_MAX];
    void *data = NULL;
    mxgen_scratch scratch = {""};
    const char *const argv[] = {helper, "print", label, "in.ll", "out.mlir", NULL};
    mx_status status = find_helper(helper, err);
    if (status == MX_OK)
        status = mxgen_scratch_create(&scratch, err);
    if (status == MX_OK)
        status = mxgen_scratch_write(&scratch, "in.ll", ir, ir_bytes, err);
    if (status == MX_OK)
        status = run(argv, &scratch, err);
    if (status == MX_OK)
        status = mxgen_scratch_read(&scratch, "out.mlir", &data, text_bytes, err);
    mxgen_scratch_destroy(&scratch);
    if (status == MX_OK)
        *text = data;
    return status;
}
