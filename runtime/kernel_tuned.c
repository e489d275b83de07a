/* Measurements of kernels written by others. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "runtime/context.h"
#include "runtime/device.h"
#include "runtime/tuned.h"

enum { ALIGN_MOST = 16, MOST_ROWS = 256 };

/* ---- Buckets ---- */

void mxrt_kernel_bucket_of(const mxrt_kernel *kernel, const int64_t *values,
                           mxrt_kernel_bucket *out)
{
    const mxrt_pack_kernel *from = kernel->variants[0].from;
    out->n = 0;
    out->align = ALIGN_MOST;
    for (size_t i = 0; i < from->n_inputs; i++) {
        mxrt_arg_kind kind = from->inputs[i].kind;
        if (kind == MXRT_ARG_I32 || kind == MXRT_ARG_I64)
            out->log2[out->n++] = mxrt_floor_log2(values[i]);
        if (kind == MXRT_ARG_POINTER && values[from->n_inputs + i] < out->align)
            out->align = (int)values[from->n_inputs + i];
    }
}

int mxrt_kernel_bucket_distance(const mxrt_kernel_bucket *a, const mxrt_kernel_bucket *b)
{
    int distance = 0;
    if (a->n != b->n || a->align != b->align)
        return -1;
    for (int i = 0; i < a->n; i++)
        distance += abs(a->log2[i] - b->log2[i]);
    return distance <= MXRT_BUCKET_NEAREST ? distance : -1;
}

/* False if it does not fit. */
static int bucket_text(const mxrt_kernel_bucket *bucket, char *text, size_t text_bytes)
{
    size_t used = 0;
    for (int i = 0; i <= bucket->n && used < text_bytes; i++) {
        int last = i == bucket->n;
        used += (size_t)snprintf(text + used, text_bytes - used, last ? "a%d" : "v%d ",
                                 last ? bucket->align : bucket->log2[i]);
    }
    return used < text_bytes;
}

static int bucket_parse(const char *text, mxrt_kernel_bucket *out)
{
    char again[64];
    int length = 0;
    out->n = 0;
    while (out->n < MXPACK_MAX_ARGS && sscanf(text, "v%d %n", &out->log2[out->n], &length) == 1) {
        out->n++;
        text += length;
    }
    return sscanf(text, "a%d", &out->align) == 1 && bucket_text(out, again, sizeof(again));
}

/* ---- Reading ---- */

static int find_variant(const mxrt_kernel *kernel, const mxrt_tune_row *row)
{
    for (size_t i = 0; i < kernel->n_variants; i++) {
        const mxrt_kernel_variant *variant = &kernel->variants[i];
        if (!strcmp(variant->from->name, row->variant) && variant->code_id[0] &&
            !strcmp(variant->code_id, row->code))
            return (int)i;
    }
    return -1;
}

static void begin_file(void *user)
{
    (void)user;
}

static mx_status take(void *user, const mxrt_tune_row *row, int *enough, mx_error *err)
{
    mxrt_kernel *kernel = user;
    mxrt_kernel_measured found = {.ms_per_byte =
                                      row->ms / (double)(row->bytes > 0 ? row->bytes : 1)};
    int variant = find_variant(kernel, row);
    (void)enough;
    if (variant < 0 || !(row->ms > 0) || !bucket_parse(row->bucket, &found.bucket) ||
        kernel->n_measured == MOST_ROWS)
        return MX_OK;
    found.variant = (size_t)variant;
    mxrt_kernel_measured *rows =
        realloc(kernel->measured, (kernel->n_measured + 1) * sizeof(*rows));
    if (!rows)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for measurements");
    kernel->measured = rows;
    /* A later file is the user's, and wins. */
    for (size_t i = 0; i < kernel->n_measured; i++) {
        if (rows[i].variant == found.variant &&
            !mxrt_kernel_bucket_distance(&rows[i].bucket, &found.bucket)) {
            rows[i] = found;
            return MX_OK;
        }
    }
    rows[kernel->n_measured++] = found;
    return MX_OK;
}

static int compare_rows(const void *left, const void *right)
{
    const mxrt_kernel_measured *a = left, *b = right;
    return a->ms_per_byte < b->ms_per_byte ? -1 : a->ms_per_byte > b->ms_per_byte;
}

static void name_format(const mxrt_kernel *kernel, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "%s", kernel->variants[0].from->kernel);
}

static void read_code(mxrt_kernel_variant *variant)
{
    json_t *info = json_loads(variant->from->info_json, 0, NULL);
    const char *code = json_string_value(json_object_get(info, "code"));
    snprintf(variant->code_id, sizeof(variant->code_id), "%s", code ? code : "");
    json_decref(info);
}

void mxrt_kernel_read_tuned(mxrt_kernel *kernel)
{
    mxrt_tune_row names;
    for (size_t i = 0; i < kernel->n_variants; i++)
        read_code(&kernel->variants[i]);
    if (kernel->n_variants < 2 || !kernel->device->context->tune_file[0])
        return;
    name_format(kernel, names.format, sizeof(names.format));
    const mxrt_tuned_reading reading = {
        .filter = {.op = "kernel", .format = names.format, .dtype = "-", .profile = "-"},
        .begin = begin_file,
        .take = take,
        .user = kernel};
    mxrt_tuned_files(kernel->device, &reading);
    if (kernel->n_measured)
        qsort(kernel->measured, kernel->n_measured, sizeof(*kernel->measured), compare_rows);
}

/* ---- For tools ---- */

mx_status mxrt_kernel_input_bytes(const mxrt_kernel *kernel, size_t input,
                                  const mxrt_kernel_arg *args, size_t n_args, int64_t *bytes,
                                  mx_error *err)
{
    int64_t values[2 * MXPACK_MAX_ARGS];
    mx_error reason;
    if (!kernel || !bytes)
        return mx_fail(err, MX_ERR_INVALID, "kernel and bytes must not be NULL");
    mx_status status = mxrt_kernel_check_args(kernel, args, n_args, err);
    if (status)
        return status;
    const mxrt_pack_kernel *from = kernel->variants[0].from;
    if (input >= n_args || from->inputs[input].kind != MXRT_ARG_POINTER)
        return mx_fail(err, MX_ERR_INVALID, "kernel %s: argument %zu is no pointer", kernel->name,
                       input);
    if (!from->input_bytes[input])
        return mx_fail(
            err, MX_ERR_UNSUPPORTED,
            "kernel %s does not tell how large the memory of %s is: give \"bytes\" in its "
            "FILE.json",
            kernel->name, from->inputs[input].name);
    mxrt_kernel_values(args, n_args, values);
    if (mxrt_expr_eval(from->input_bytes[input], values, bytes, &reason))
        return mx_fail(err, MX_ERR_INVALID, "kernel %s: bytes of %s: %.700s", kernel->name,
                       from->inputs[input].name, reason.message);
    if (*bytes < 1)
        return mx_fail(err, MX_ERR_INVALID, "kernel %s: %lld bytes of %s", kernel->name,
                       (long long)*bytes, from->inputs[input].name);
    return MX_OK;
}

mx_status mxrt_kernel_tune_key(const mxrt_kernel *kernel, size_t index, const mxrt_kernel_arg *args,
                               size_t n_args, mxrt_tune_row *row, mx_error *err)
{
    int64_t values[2 * MXPACK_MAX_ARGS];
    mxrt_kernel_bucket bucket;
    if (!kernel || !row || index >= kernel->n_variants)
        return mx_fail(err, MX_ERR_INVALID, "kernel, row and a variant of it are needed");
    mx_status status = mxrt_kernel_check_args(kernel, args, n_args, err);
    if (status)
        return status;
    const mxrt_kernel_variant *variant = &kernel->variants[index];
    memset(row, 0, sizeof(*row));
    mxrt_kernel_values(args, n_args, values);
    mxrt_kernel_bucket_of(kernel, values, &bucket);
    if (!bucket_text(&bucket, row->bucket, sizeof(row->bucket)) ||
        strlen(variant->from->name) >= sizeof(row->variant) || !variant->code_id[0])
        return mx_fail(err, MX_ERR_UNSUPPORTED,
                       "kernel %s: too many integers or too long a name for a tuning file",
                       variant->from->name);
    strcpy(row->op, "kernel");
    name_format(kernel, row->format, sizeof(row->format));
    strcpy(row->dtype, "-");
    strcpy(row->profile, "-");
    mxrt_tuned_device(kernel->device, row->device, sizeof(row->device));
    snprintf(row->driver, sizeof(row->driver), "%s", kernel->device->info.driver);
    strcpy(row->variant, variant->from->name);
    strcpy(row->code, variant->code_id);
    row->protocol = MXTUNE_PROTOCOL;
    strcpy(row->layout, "-");
    return MX_OK;
}
