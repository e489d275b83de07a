#include "runtime/compile.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>
#include <mxgen/gemm.h>

#include "runtime/pack_reader.h"

/* ---- Options ---- */

/* Asked once, as the launch path does not read the environment. */
void mxrt_compiler_init(mxrt_context *context)
{
    const mxrt_compiler_options *compiler = &context->compiler;
    const char *named = secure_getenv(MXRT_COMPILER_ENV);

    context->compiler_off = compiler->off || (!compiler->compile && !compiler->program && named &&
                                              !strcmp(named, "off"));
}

void mxrt_compiler_finish(mxrt_context *context)
{
    free((char *)context->compiler.program);
    free((char *)context->compiler.folder);
    context->compiler = (mxrt_compiler_options){0};
}

mx_status mxrt_context_set_compiler(mxrt_context *context, const mxrt_compiler_options *options,
                                    mx_error *err)
{
    mxrt_compiler_options made = {0};

    if (!context)
        return mx_fail(err, MX_ERR_INVALID, "context must not be NULL");
    if (options)
        made = *options;
    if (!(made.limit_seconds >= 0 && made.limit_seconds <= 86400))
        return mx_fail(err, MX_ERR_INVALID, "limit_seconds is %g; it must be 0 to 86400",
                       made.limit_seconds);
    made.program = made.program ? strdup(made.program) : NULL;
    made.folder = made.folder ? strdup(made.folder) : NULL;
    if (options && ((options->program && !made.program) || (options->folder && !made.folder))) {
        free((char *)made.program);
        free((char *)made.folder);
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for the compiler's options");
    }
    mxrt_compiler_finish(context);
    context->compiler = made;
    mxrt_compiler_init(context);
    return MX_OK;
}

/* ---- Packs that came from outside ---- */

static mx_status check_objects(const mxrt_pack *pack, mx_error *err)
{
    int64_t last = -1;

    for (size_t i = 0; i < mxrt_pack_variant_count(pack); i++) {
        mxrt_variant_info info;
        size_t size_bytes;
        void *object;
        mx_status status = mxrt_pack_variant(pack, i, &info, err);
        if (status)
            return status;
        /* Variants of one object follow one another. */
        if (info.object_id == last)
            continue;
        last = info.object_id;
        if ((status = mxrt_pack_object(pack, last, &object, &size_bytes, err)))
            return status;
        free(object);
    }
    return MX_OK;
}

void mxrt_compile_names_init(const mxrt_compile_request *request, mxrt_compile_names *out)
{
    const mxrt_gemm_kind *gemm = request->gemm;

    out->dtype = mx_dtype_get(request->dtype)->name;
    out->profile = gemm ? "" : mx_profile_name(request->profile);
    snprintf(out->op, sizeof(out->op), "%s",
             gemm ? mx_gemm_pass_name(gemm->pass) : mx_op_name(request->op));
    if (gemm)
        snprintf(out->format, sizeof(out->format), "%s.%s", mx_gemm_element_name(gemm->left),
                 mx_gemm_element_name(gemm->right));
    else
        snprintf(out->format, sizeof(out->format), "%s", mx_format_get(request->format)->name);
}

static mx_status check_contents(const mxrt_pack *pack, const mxrt_compile_request *request,
                                const char *path, mx_error *err)
{
    mxrt_compile_names names;

    mxrt_compile_names_init(request, &names);
    for (size_t i = 0; i < mxrt_pack_variant_count(pack); i++) {
        mxrt_variant_info info;
        if (!mxrt_pack_variant(pack, i, &info, NULL) && !strcmp(info.op, names.op) &&
            !strcmp(info.format, names.format) && !strcmp(info.dtype, names.dtype) &&
            (!*names.profile || !strcmp(info.profile, names.profile)))
            return check_objects(pack, err);
    }
    return mx_fail(err, MX_ERR_NOT_FOUND, "%s has no kernel for %s %s %s%s%s%s", path, names.op,
                   names.format, names.dtype, *names.profile ? " (" : "", names.profile,
                   *names.profile ? ")" : "");
}

mx_status mxrt_compile_open(const char *path, const mxrt_compile_request *request, mxrt_pack **out,
                            mx_error *err)
{
    mxrt_pack *pack = NULL;
    mx_status status = mxrt_pack_open(path, &pack, err);

    if (!status)
        status = check_contents(pack, request, path, err);
    if (status) {
        mxrt_pack_close(pack);
        return status;
    }
    *out = pack;
    return MX_OK;
}

/* ---- Compiling ---- */

mx_status mxrt_compile(const mxrt_context *context, const mxrt_compile_request *request,
                       mxrt_pack **out, mx_error *err)
{
    const mxrt_compiler_options *compiler = &context->compiler;
    char path[PATH_MAX] = "";

    if (!compiler->compile)
        return mxrt_compile_by_mxgen(context, request, out, err);
    mx_error reason = {MX_OK, "the callback gives no reason"};
    mx_status status = compiler->compile(compiler->user, request, path, sizeof(path), &reason);
    if (status)
        return mx_fail(err, status, "%s", reason.message);
    if (!path[0] || !memchr(path, 0, sizeof(path)))
        return mx_fail(err, MX_ERR_INVALID, "the callback gives no path of a pack");
    return mxrt_compile_open(path, request, out, err);
}
