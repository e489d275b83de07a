#include "kernel_check.h"

#include <stdlib.h>

#include <mxgen/error.h>
#include <mxgen/kernel.h>

#include "judge.h"

enum { MOST_ARGS = 64 };

typedef struct checking {
    const kernel_file *file;
    const json_t *check;
    mxrt_context *context;
    mxrt_device *device;
    const mxrt_kernel *kernel;
    mxrt_kernel_info info;
    mxrt_kernel_arg args[MOST_ARGS];
    int64_t bytes[MOST_ARGS];
    unsigned char *before[MOST_ARGS];
    mx_error *err;
} checking;

/* ---- Arguments ---- */

static mx_status read_number(checking *c, size_t index)
{
    const mxrt_kernel_input *input = &c->info.inputs[index];
    const json_t *value = json_object_get(json_object_get(c->check, "args"), input->name);
    if (!json_is_number(value))
        return mx_fail(c->err, MX_ERR_INVALID, "%s: check: \"args\" has no number for %s",
                       c->file->json_path, input->name);
    if (input->kind == MXRT_ARG_F32)
        c->args[index] = mxrt_arg_f32((float)json_number_value(value));
    else if (input->kind == MXRT_ARG_I64)
        c->args[index] = mxrt_arg_i64(json_integer_value(value));
    else
        c->args[index] = mxrt_arg_i32((int32_t)json_integer_value(value));
    return MX_OK;
}

static mx_status fill_memory(checking *c, size_t index, uint32_t *state)
{
    mx_status status = mxrt_kernel_input_bytes(c->kernel, index, c->args, c->info.n_inputs,
                                               &c->bytes[index], c->err);
    if (status != MX_OK)
        return status;
    size_t n = ((size_t)c->bytes[index] + 3) / 4;
    float *data = malloc(n * sizeof(*data));
    c->before[index] = (unsigned char *)data;
    if (!data)
        return mx_fail(c->err, MX_ERR_NO_MEMORY, "no memory for %zu bytes", n * 4);
    for (size_t i = 0; i < n; i++) {
        *state = *state * 1664525u + 1013904223u;
        data[i] = (float)(*state >> 8) * 0x1p-23f - 1;
    }
    void *memory = NULL;
    status = mxrt_device_alloc(c->device, (size_t)c->bytes[index], &memory, c->err);
    c->args[index] = mxrt_arg_pointer(memory);
    return status;
}

static mx_status read_args(checking *c)
{
    uint32_t state = 1;
    mx_status status = MX_OK;
    for (size_t i = 0; i < c->info.n_inputs; i++)
        c->args[i] = mxrt_arg_pointer(NULL);
    for (size_t i = 0; i < c->info.n_inputs && status == MX_OK; i++) {
        if (c->info.inputs[i].kind != MXRT_ARG_POINTER)
            status = read_number(c, i);
    }
    for (size_t i = 0; i < c->info.n_inputs && status == MX_OK; i++) {
        if (c->info.inputs[i].kind == MXRT_ARG_POINTER)
            status = fill_memory(c, i, &state);
    }
    return status;
}

static mx_status upload(checking *c)
{
    mx_status status = MX_OK;
    for (size_t i = 0; i < c->info.n_inputs && status == MX_OK; i++) {
        if (c->before[i])
            status = mxrt_device_upload(c->device, (void *)c->args[i].value.pointer, c->before[i],
                                        (size_t)c->bytes[i], c->err);
    }
    return status;
}

/* ---- Judging ---- */

/* What the pointers' memory is now, to what it was before. */
static mx_status judge_variant(const checking *c, const char *variant)
{
    judge_memory memory[MOST_ARGS];
    void *after[MOST_ARGS] = {NULL};
    size_t n = 0;
    mx_status status = MX_OK;
    for (size_t i = 0; i < c->info.n_inputs && status == MX_OK; i++) {
        size_t size_bytes = (size_t)c->bytes[i];
        if (!c->before[i])
            continue;
        if (!(after[n] = malloc(size_bytes)))
            status = mx_fail(c->err, MX_ERR_NO_MEMORY, "no memory for %zu bytes", size_bytes);
        else
            status = mxrt_device_download(c->device, after[n], c->args[i].value.pointer, size_bytes,
                                          c->err);
        memory[n] = (judge_memory){c->info.inputs[i].name, c->before[i], after[n], size_bytes};
        n++;
    }
    if (status == MX_OK)
        status = judge_run(c->check, c->file->json_path, json_object_get(c->check, "args"), variant,
                           memory, n, c->err);
    for (size_t i = 0; i < n; i++)
        free(after[i]);
    return status;
}

/* ---- Variants ---- */

static mx_status check_variant(checking *c, const char *name, size_t *n)
{
    const mxrt_kernel *variant;
    mxrt_kernel_plan plan;
    mx_error reason;
    mx_status status = mxrt_kernel_find(c->device, name, &variant, c->err);
    if (status != MX_OK)
        return status;
    status = mxrt_kernel_plan_launch(variant, NULL, c->args, c->info.n_inputs, &plan, &reason);
    if (status == MX_ERR_UNSUPPORTED)
        return MX_OK;
    if (status != MX_OK)
        return mx_fail(c->err, status, "%s", reason.message);
    if ((status = upload(c)) != MX_OK ||
        (status = mxrt_kernel_launch(variant, NULL, c->args, c->info.n_inputs, NULL, c->err)) !=
            MX_OK ||
        (status = mxrt_device_synchronize(c->device, NULL, c->err)) != MX_OK)
        return status;
    status = judge_variant(c, name);
    *n += status == MX_OK;
    return status;
}

static mx_status check_all(checking *c, const char *pack, const char *device, size_t *n)
{
    const char *kernel = json_string_value(json_object_get(c->file->json, "kernel"));
    mx_status status = mxrt_context_create(NULL, &c->context, c->err);
    if (!kernel)
        return mx_fail(c->err, MX_ERR_INVALID, "%s: \"check\" needs \"kernel\"",
                       c->file->json_path);
    if (status == MX_OK)
        status = mxrt_context_add_pack_file(c->context, pack, c->err);
    if (status == MX_OK)
        status = mxrt_device_open(c->context, device, &c->device, c->err);
    if (status == MX_OK)
        status = mxrt_kernel_find(c->device, kernel, &c->kernel, c->err);
    if (status == MX_OK)
        status = mxrt_kernel_get_info(c->kernel, &c->info, c->err);
    if (status == MX_OK)
        status = read_args(c);
    for (size_t i = 0; i < c->info.n_variants && status == MX_OK; i++)
        status = check_variant(c, mxrt_kernel_variant_name(c->kernel, i), n);
    if (status == MX_OK && !*n)
        return mx_fail(c->err, MX_ERR_INVALID, "%s: check: no variant applies to \"args\" on %s",
                       c->file->json_path, device);
    return status;
}

mx_status kernel_check(const kernel_file *file, const char *pack, const char *device, size_t *n,
                       mx_error *err)
{
    *n = 0;
    checking *c = calloc(1, sizeof(*c));
    if (!c)
        return mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
    c->file = file;
    c->check = json_object_get(file->json, "check");
    c->err = err;
    mx_status status = c->check ? check_all(c, pack, device, n) : MX_OK;
    for (size_t i = 0; i < c->info.n_inputs; i++) {
        if (c->before[i])
            mxrt_device_free(c->device, (void *)c->args[i].value.pointer);
        free(c->before[i]);
    }
    mxrt_device_close(c->device);
    mxrt_context_destroy(c->context);
    free(c);
    return status;
}
