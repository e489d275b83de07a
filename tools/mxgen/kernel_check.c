#include "kernel_check.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mxgen/error.h>
#include <mxgen/kernel.h>

#include "gen/process.h"

enum { MOST_ARGS = 64, MOST_WORDS = 32 };

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

/* ---- The command's folder ---- */

static mx_status write_pointer(const checking *c, const mxgen_scratch *scratch, size_t index)
{
    char name[200];
    size_t size_bytes = (size_t)c->bytes[index];
    unsigned char *after = malloc(size_bytes);
    if (!after)
        return mx_fail(c->err, MX_ERR_NO_MEMORY, "no memory for %zu bytes", size_bytes);
    mx_status status =
        mxrt_device_download(c->device, after, c->args[index].value.pointer, size_bytes, c->err);
    snprintf(name, sizeof(name), "%.150s.in", c->info.inputs[index].name);
    if (status == MX_OK)
        status = mxgen_scratch_write(scratch, name, c->before[index], size_bytes, c->err);
    snprintf(name, sizeof(name), "%.150s.out", c->info.inputs[index].name);
    if (status == MX_OK)
        status = mxgen_scratch_write(scratch, name, after, size_bytes, c->err);
    free(after);
    return status;
}

static mx_status write_folder(const checking *c, const mxgen_scratch *scratch, const char *variant)
{
    json_t *json = json_deep_copy(json_object_get(c->check, "args"));
    json_object_set_new(json, "variant", json_string(variant));
    char *text = json_dumps(json, JSON_COMPACT);
    mx_status status = text ? mxgen_scratch_write(scratch, "args.json", text, strlen(text), c->err)
                            : mx_fail(c->err, MX_ERR_NO_MEMORY, "out of memory");
    json_decref(json);
    free(text);
    for (size_t i = 0; i < c->info.n_inputs && status == MX_OK; i++) {
        if (c->before[i])
            status = write_pointer(c, scratch, i);
    }
    return status;
}

/* The path of a file beside FILE.json; the word itself if there is none. malloc'ed. */
static char *beside(const checking *c, const char *word)
{
    char *path = NULL, *absolute = NULL;
    const char *slash = strrchr(c->file->json_path, '/');
    int folder = slash ? (int)(slash - c->file->json_path + 1) : 0;
    if (asprintf(&path, "%.*s%s", folder, c->file->json_path, word) < 0)
        return NULL;
    if (!access(path, R_OK))
        absolute = realpath(path, NULL);
    free(path);
    return absolute ? absolute : strdup(word);
}

static mx_status run_command(const checking *c, const mxgen_scratch *scratch, const char *variant)
{
    const json_t *command = json_object_get(c->check, "command");
    const char *argv[MOST_WORDS + 2] = {"/usr/bin/env"};
    char *words[MOST_WORDS] = {NULL}, *log = NULL;
    size_t n = json_array_size(command);
    int code = -1;
    mx_error reason = {MX_OK, ""};
    if (n < 1 || n > MOST_WORDS)
        return mx_fail(c->err, MX_ERR_INVALID, "%s: check: \"command\" must be a list of 1 to %d",
                       c->file->json_path, MOST_WORDS);
    for (size_t i = 0; i < n; i++) {
        const char *word = json_string_value(json_array_get(command, i));
        argv[1 + i] = words[i] = beside(c, word ? word : "");
    }
    mx_status status = mxgen_process_run(argv, scratch, &log, &code, &reason);
    if (status != MX_OK)
        status = mx_fail(c->err, MX_ERR_INVALID, "%s: %s is wrong, says its check: %.700s",
                         c->file->path, variant, code > 0 && log ? log : reason.message);
    free(log);
    for (size_t i = 0; i < n; i++)
        free(words[i]);
    return status;
}

/* ---- Variants ---- */

static mx_status check_variant(checking *c, const char *name, size_t *n)
{
    const mxrt_kernel *variant;
    mxrt_kernel_plan plan;
    mx_error reason;
    mxgen_scratch scratch = {""};
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
        (status = mxrt_device_synchronize(c->device, NULL, c->err)) != MX_OK ||
        (status = mxgen_scratch_create(&scratch, c->err)) != MX_OK)
        return status;
    status = write_folder(c, &scratch, name);
    if (status == MX_OK)
        status = run_command(c, &scratch, name);
    mxgen_scratch_destroy(&scratch);
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
