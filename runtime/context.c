#include "runtime/context.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "runtime/backends.h"
#include "runtime/compile.h"
#include "runtime/pack_reader.h"

/* To be freed; NULL if there is no memory. Without a folder for it there is no file. */
static char *find_tune_file(const mxrt_context_options *options)
{
    char path[4096];

    if (options && options->tune_file)
        return strdup(options->tune_file);
    return strdup(mxrt_tune_default_path(path, sizeof(path), NULL) ? "" : path);
}

mx_status mxrt_context_create(const mxrt_context_options *options, mxrt_context **out,
                              mx_error *err)
{
    mxrt_context *context;

    if (!out)
        return mx_fail(err, MX_ERR_INVALID, "out must not be NULL");
    if (!(context = calloc(1, sizeof(*context))))
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a context");
    if (options)
        context->options = *options;
    if (!(context->tune_file = find_tune_file(options))) {
        free(context);
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a context");
    }
    mxrt_compiler_init(context);
    *out = context;
    return MX_OK;
}

void mxrt_context_destroy(mxrt_context *context)
{
    if (!context)
        return;
    for (size_t i = 0; i < context->n_packs; i++)
        mxrt_pack_close(context->packs[i]);
    free(context->packs);
    mxrt_compiler_finish(context);
    free(context->tune_file);
    free(context);
}

void mxrt_context_log(const mxrt_context *context, const char *format, ...)
{
    char line[1024];
    va_list args;

    if (!context->options.log)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    context->options.log(context->options.log_user, line);
}

/* Takes the pack over, also on failure. */
static mx_status add_pack(mxrt_context *context, mxrt_pack *pack, mx_error *err)
{
    mxrt_pack **packs = realloc(context->packs, (context->n_packs + 1) * sizeof(context->packs[0]));

    if (!packs) {
        mxrt_pack_close(pack);
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for pack number %zu", context->n_packs);
    }
    context->packs = packs;
    packs[context->n_packs++] = pack;
    return MX_OK;
}

mx_status mxrt_context_add_pack_file(mxrt_context *context, const char *path, mx_error *err)
{
    mx_status status;
    mxrt_pack *pack;

    if (!context || !path)
        return mx_fail(err, MX_ERR_INVALID, "context and path must not be NULL");
    if ((status = mxrt_pack_open(path, &pack, err)))
        return status;
    return add_pack(context, pack, err);
}

mx_status mxrt_context_add_pack_memory(mxrt_context *context, const void *data, size_t size_bytes,
                                       mx_error *err)
{
    mx_status status;
    mxrt_pack *pack;

    if (!context || !data)
        return mx_fail(err, MX_ERR_INVALID, "context and data must not be NULL");
    if ((status = mxrt_pack_open_memory(data, size_bytes, &pack, err)))
        return status;
    return add_pack(context, pack, err);
}

mx_status mxrt_devices(mxrt_context *context, mxrt_device_info *infos, size_t capacity, size_t *n,
                       mx_error *err)
{
    const mxrt_backend_ops *ops;
    size_t total = 0;

    if (!context || !n || (capacity && !infos))
        return mx_fail(err, MX_ERR_INVALID,
                       "context, n and, with a capacity, infos must not be NULL");
    for (size_t i = 0; (ops = mxrt_backend_at(i)); i++) {
        size_t room = total < capacity ? capacity - total : 0, found = 0;
        mx_error reason = {MX_OK, ""};
        /* A driver that is broken must not hide the devices of the others. */
        if (ops->enumerate(context, room ? infos + total : NULL, room, &found, &reason))
            mxrt_context_log(context, "%s: no devices: %s", ops->scheme, reason.message);
        else
            total += found;
    }
    *n = total;
    return MX_OK;
}
