#include "pack_kernels.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "pack_reader.h"
#include "pack_text.h"

/* Columns of the statement that reads kernels. */
enum {
    KERNEL_ID,
    KERNEL_OBJECT,
    KERNEL_TARGET,
    KERNEL_KERNEL,
    KERNEL_NAME,
    KERNEL_SYMBOL,
    KERNEL_RANK,
    KERNEL_PARAMS,
    KERNEL_RULES,
    KERNEL_LAUNCH,
    KERNEL_INFO
};

/* One kernel's JSON as it is read. `names` are the variables of its expressions. */
typedef struct reading {
    mxrt_pack_forms *forms;
    mxrt_pack_kernel *kernel;
    const char *names[2 * MXPACK_MAX_ARGS];
    mx_error *err;
} reading;

static mx_status fail_memory(mx_error *err)
{
    return mx_fail(err, MX_ERR_NO_MEMORY, "no memory to read a kernel pack");
}

/* ---- JSON ---- */

static mx_status load_json(const char *text, const char *what, json_t **out, mx_error *err)
{
    json_error_t why;
    *out = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    if (*out)
        return MX_OK;
    if (json_error_code(&why) == json_error_out_of_memory)
        return fail_memory(err);
    return mx_fail(err, MX_ERR_CORRUPT, "%s: not JSON: %s", what, mxrt_show_text(why.text).chars);
}

/* An object with these keys, all of them and no other: what a reader does not know it cannot obey.
 */
static mx_status check_keys(const json_t *object, const char *const *keys, size_t n,
                            const char *what, mx_error *err)
{
    if (!json_is_object(object))
        return mx_fail(err, MX_ERR_CORRUPT, "%s: not an object", what);
    for (size_t i = 0; i < n; i++) {
        if (!json_object_get(object, keys[i]))
            return mx_fail(err, MX_ERR_CORRUPT, "%s: \"%s\" is missing", what, keys[i]);
    }
    if (json_object_size(object) != n)
        return mx_fail(err, MX_ERR_CORRUPT, "%s: %zu keys, not %zu", what, json_object_size(object),
                       n);
    return MX_OK;
}

/* A text kept with the pack. */
static mx_status get_text(const reading *r, const json_t *value, const char *what, const char **out)
{
    mxrt_pack_text *text;
    if (!json_is_string(value) || !json_string_length(value))
        return mx_fail(r->err, MX_ERR_CORRUPT, "%s must be a text, not empty", what);
    mx_status status = mxrt_pack_forms_intern(r->forms, json_string_value(value),
                                              json_string_length(value), &text, r->err);
    if (!status)
        *out = mxrt_pack_text_chars(text);
    return status;
}

static mx_status get_expr(const reading *r, const json_t *value, const char *what, mxrt_expr **out)
{
    mx_error why;
    if (!json_is_string(value))
        return mx_fail(r->err, MX_ERR_CORRUPT, "%s must be an expression in a text", what);
    mx_status status =
        mxrt_expr_compile(json_string_value(value), r->names, 2 * r->kernel->n_inputs, out, &why);
    if (status)
        return mx_fail(r->err, status == MX_ERR_INVALID ? MX_ERR_CORRUPT : status, "%s: %s", what,
                       why.message);
    return MX_OK;
}

static mx_status get_kind(const reading *r, const json_t *value, const char *what,
                          mxrt_arg_kind *out)
{
    static const char *const kinds[] = {"pointer", "i32", "i64", "f32"};
    for (int i = 0; json_is_string(value) && i < 4; i++) {
        if (!strcmp(json_string_value(value), kinds[i])) {
            *out = (mxrt_arg_kind)i;
            return MX_OK;
        }
    }
    return mx_fail(r->err, MX_ERR_CORRUPT, "%s: \"kind\" must be pointer, i32, i64 or f32", what);
}

/* ---- Inputs ---- */

/* Names of the input's variables; "" is none. */
static mx_status name_variables(reading *r, size_t index)
{
    const mxrt_kernel_input *input = &r->kernel->inputs[index];
    mxrt_pack_text *text;
    char *chars = NULL;
    int is_number = input->kind == MXRT_ARG_I32 || input->kind == MXRT_ARG_I64;
    r->names[index] = is_number ? input->name : "";
    r->names[r->kernel->n_inputs + index] = "";
    if (input->kind != MXRT_ARG_POINTER)
        return MX_OK;
    if (asprintf(&chars, "%s_align", input->name) < 0)
        return fail_memory(r->err);
    mx_status status = mxrt_pack_forms_intern(r->forms, chars, strlen(chars), &text, r->err);
    if (!status)
        r->names[r->kernel->n_inputs + index] = mxrt_pack_text_chars(text);
    free(chars);
    return status;
}

/* What is told of memory, once all names are known. */
static mx_status read_bytes(reading *r, const json_t *json)
{
    mxrt_pack_kernel *kernel = r->kernel;
    mx_status status = MX_OK;
    for (size_t i = 0; !status && i < kernel->n_inputs; i++) {
        const json_t *bytes = json_object_get(json_array_get(json, i), "bytes");
        if (bytes)
            status = get_expr(r, bytes, "launch: bytes", &kernel->input_bytes[i]);
    }
    return status;
}

static mx_status read_inputs(reading *r, const json_t *json)
{
    static const char *const keys[] = {"name", "kind", "bytes"};
    mxrt_pack_kernel *kernel = r->kernel;
    size_t n = json_array_size(json);
    mx_status status = MX_OK;
    if (!json_is_array(json) || n > MXPACK_MAX_ARGS)
        return mx_fail(r->err, MX_ERR_CORRUPT, "launch: \"inputs\" must be an array of at most %d",
                       MXPACK_MAX_ARGS);
    kernel->inputs = calloc(n ? n : 1, sizeof(kernel->inputs[0]));
    kernel->input_bytes = calloc(n ? n : 1, sizeof(kernel->input_bytes[0]));
    if (!kernel->inputs || !kernel->input_bytes)
        return fail_memory(r->err);
    kernel->n_inputs = n;
    for (size_t i = 0; !status && i < n; i++) {
        const json_t *item = json_array_get(json, i);
        mxrt_kernel_input *input = &kernel->inputs[i];
        char what[48];
        snprintf(what, sizeof(what), "launch: inputs[%zu]", i);
        size_t n_keys = json_object_get(item, "bytes") ? 3 : 2;
        if ((status = check_keys(item, keys, n_keys, what, r->err)) ||
            (status = get_text(r, json_object_get(item, "name"), what, &input->name)) ||
            (status = get_kind(r, json_object_get(item, "kind"), what, &input->kind)))
            break;
        for (size_t k = 0; k < i; k++) {
            if (!strcmp(kernel->inputs[k].name, input->name))
                return mx_fail(r->err, MX_ERR_CORRUPT, "%s: \"%s\" comes twice", what,
                               mxrt_show_text(input->name).chars);
        }
        status = name_variables(r, i);
    }
    return status ? status : read_bytes(r, json);
}

/* ---- Rules and sizes ---- */

static mx_status read_rules(reading *r, const char *text)
{
    static const char *const keys[] = {"rule", "when"};
    json_t *json;
    mx_status status = load_json(text, "rules", &json, r->err);
    if (status)
        return status;
    size_t n = json_array_size(json);
    if (!json_is_array(json) || n > MXRT_PACK_MAX_RULES)
        status = mx_fail(r->err, MX_ERR_CORRUPT, "rules: not an array of at most %d",
                         MXRT_PACK_MAX_RULES);
    else if (!(r->kernel->rules = calloc(n ? n : 1, sizeof(r->kernel->rules[0]))))
        status = fail_memory(r->err);
    for (size_t i = 0; !status && i < n; i++) {
        const json_t *item = json_array_get(json, i);
        mxrt_kernel_rule *rule = &r->kernel->rules[i];
        char what[48];
        snprintf(what, sizeof(what), "rules[%zu]", i);
        if (!(status = check_keys(item, keys, 2, what, r->err)) &&
            !(status = get_text(r, json_object_get(item, "rule"), what, &rule->text)) &&
            !(status = get_expr(r, json_object_get(item, "when"), what, &rule->when)))
            r->kernel->n_rules = i + 1;
    }
    json_decref(json);
    return status;
}

static mx_status read_extent(const reading *r, const json_t *json, const char *what,
                             mxrt_expr *out[3])
{
    mx_status status = MX_OK;
    if (json_is_null(json))
        return MX_OK;
    if (!json_is_array(json) || json_array_size(json) != 3)
        return mx_fail(r->err, MX_ERR_CORRUPT, "%s must be three expressions, or null", what);
    for (size_t i = 0; !status && i < 3; i++)
        status = get_expr(r, json_array_get(json, i), what, &out[i]);
    return status;
}

/* ---- Arguments ---- */

static mx_status read_value(const reading *r, const json_t *json, const char *what,
                            mxrt_kernel_param *arg)
{
    const char *text = json_is_string(json) ? json_string_value(json) : "";
    arg->input = -1;
    for (size_t i = 0; i < r->kernel->n_inputs; i++) {
        if (!strcmp(r->kernel->inputs[i].name, text) && r->kernel->inputs[i].kind == arg->kind)
            arg->input = (int)i;
    }
    if (arg->input >= 0)
        return MX_OK;
    if (arg->kind != MXRT_ARG_POINTER)
        return get_expr(r, json, what, &arg->value);
    if (strcmp(text, "0") != 0)
        return mx_fail(r->err, MX_ERR_CORRUPT, "%s: \"%s\" is no input that is a pointer, nor 0",
                       what, mxrt_show_text(text).chars);
    return MX_OK;
}

static mx_status read_args(reading *r, const json_t *json)
{
    static const char *const keys[] = {"name", "kind", "value"};
    mxrt_pack_kernel *kernel = r->kernel;
    size_t n = json_array_size(json), offset = 0;
    mx_status status = MX_OK;
    if (!json_is_array(json) || n > MXPACK_MAX_ARGS)
        return mx_fail(r->err, MX_ERR_CORRUPT, "launch: \"args\" must be an array of at most %d",
                       MXPACK_MAX_ARGS);
    if (!(kernel->args = calloc(n ? n : 1, sizeof(kernel->args[0]))))
        return fail_memory(r->err);
    kernel->n_args = n;
    for (size_t i = 0; !status && i < n; i++) {
        const json_t *item = json_array_get(json, i);
        mxrt_kernel_param *arg = &kernel->args[i];
        char what[48];
        snprintf(what, sizeof(what), "launch: args[%zu]", i);
        if ((status = check_keys(item, keys, 3, what, r->err)) ||
            (status = get_text(r, json_object_get(item, "name"), what, &arg->name)) ||
            (status = get_kind(r, json_object_get(item, "kind"), what, &arg->kind)) ||
            (status = read_value(r, json_object_get(item, "value"), what, arg)))
            break;
        size_t size = arg->kind == MXRT_ARG_POINTER || arg->kind == MXRT_ARG_I64 ? 8 : 4;
        offset = (offset + size - 1) / size * size;
        arg->offset_bytes = (uint16_t)offset;
        offset += size;
    }
    kernel->args_bytes = offset;
    return status;
}

static mx_status read_launch(reading *r, const char *text, const char *rules)
{
    static const char *const keys[] = {"inputs", "grid", "block", "lds_bytes", "args"};
    json_t *json;
    mx_status status = load_json(text, "launch", &json, r->err);
    if (status)
        return status;
    const json_t *lds = NULL;
    if (!(status = check_keys(json, keys, 5, "launch", r->err)))
        lds = json_object_get(json, "lds_bytes");
    if (!status && (!json_is_integer(lds) || json_integer_value(lds) < 0 ||
                    json_integer_value(lds) > UINT32_MAX))
        status = mx_fail(r->err, MX_ERR_CORRUPT, "launch: \"lds_bytes\" must be a size in bytes");
    if (!status && !(status = read_inputs(r, json_object_get(json, "inputs"))) &&
        !(status = read_rules(r, rules)) &&
        !(status =
              read_extent(r, json_object_get(json, "grid"), "launch: grid", r->kernel->grid)) &&
        !(status =
              read_extent(r, json_object_get(json, "block"), "launch: block", r->kernel->block)))
        status = read_args(r, json_object_get(json, "args"));
    if (!status)
        r->kernel->lds_bytes = (uint32_t)json_integer_value(lds);
    json_decref(json);
    return status;
}

/* ---- The row ---- */

static void sum_row(const mxrt_pack_row *row, const mxrt_pack_kernel *kernel,
                    mxpack_checksum *checksum)
{
    mxpack_checksum_integer(checksum, row->id);
    mxpack_checksum_integer(checksum, kernel->object_id);
    mxpack_checksum_text(checksum, kernel->target);
    mxpack_checksum_text(checksum, kernel->kernel);
    mxpack_checksum_text(checksum, kernel->name);
    mxpack_checksum_text(checksum, kernel->symbol);
    mxpack_checksum_integer(checksum, kernel->rank);
    mxpack_checksum_text(checksum, kernel->params_json);
    mxpack_checksum_text(checksum, kernel->rules_json);
    mxpack_checksum_text(checksum, kernel->launch_json);
    mxpack_checksum_text(checksum, kernel->info_json);
}

mx_status mxrt_pack_kernel_read(mxrt_pack_row *row, mxrt_pack_kernel *out,
                                mxpack_checksum *checksum)
{
    const char **names[] = {&out->target, &out->kernel, &out->name, &out->symbol};
    const char **jsons[] = {&out->params_json, &out->rules_json, &out->launch_json,
                            &out->info_json};
    mxrt_pack_text *texts[4] = {NULL};
    mx_error why;
    mx_status status = mxrt_row_integer(row, KERNEL_ID, row->id + 1, INT64_MAX - 1, &row->id);
    if (status || (status = mxrt_row_integer(row, KERNEL_OBJECT, 1, INT64_MAX, &out->object_id)) ||
        (status = mxrt_row_integer(row, KERNEL_RANK, 0, INT32_MAX, &out->rank)))
        return status;
    for (int i = 0; !status && i < 4; i++)
        status = mxrt_row_name(row, KERNEL_TARGET + i, names[i]);
    for (int i = 0; !status && i < 4; i++) {
        status = mxrt_row_text(row, KERNEL_PARAMS + i, MXRT_PACK_MAX_JSON_BYTES, &texts[i]);
        if (!status)
            *jsons[i] = mxrt_pack_text_chars(texts[i]);
    }
    if (status)
        return status;
    reading r = {.forms = row->forms, .kernel = out, .err = &why};
    if (mxrt_pack_forms_params(texts[0], &why) || mxrt_pack_forms_info(texts[3], &why) ||
        read_launch(&r, out->launch_json, out->rules_json))
        return mxrt_row_fail_with(row, &why);
    sum_row(row, out, checksum);
    return MX_OK;
}

void mxrt_pack_kernel_finish(mxrt_pack_kernel *kernel)
{
    for (size_t i = 0; kernel->input_bytes && i < kernel->n_inputs; i++)
        mxrt_expr_free(kernel->input_bytes[i]);
    free(kernel->input_bytes);
    for (size_t i = 0; i < kernel->n_rules; i++)
        mxrt_expr_free(kernel->rules[i].when);
    for (size_t i = 0; i < kernel->n_args; i++)
        mxrt_expr_free(kernel->args[i].value);
    for (int i = 0; i < 3; i++) {
        mxrt_expr_free(kernel->grid[i]);
        mxrt_expr_free(kernel->block[i]);
    }
    free(kernel->rules);
    free(kernel->args);
    free(kernel->inputs);
    *kernel = (mxrt_pack_kernel){0};
}

mx_status mxrt_pack_kernels_add(mxrt_pack_kernels *kernels, const mxrt_pack_kernel *kernel,
                                const mxrt_pack_row *row)
{
    for (size_t i = 0; i < kernels->n; i++) {
        /* Texts are interned, so equal names are one pointer. */
        if (kernels->items[i].name == kernel->name && kernels->items[i].target == kernel->target)
            return mxrt_row_fail(row, "two kernels of target \"%s\" are named \"%s\"",
                                 mxrt_show_text(kernel->target).chars,
                                 mxrt_show_text(kernel->name).chars);
    }
    mxrt_pack_kernel *items = mxrt_row_grow(kernels->items, kernels->n, sizeof(items[0]));
    if (!items)
        return fail_memory(row->err);
    kernels->items = items;
    items[kernels->n++] = *kernel;
    return MX_OK;
}

void mxrt_pack_kernels_finish(mxrt_pack_kernels *kernels)
{
    for (size_t i = 0; i < kernels->n; i++)
        mxrt_pack_kernel_finish(&kernels->items[i]);
    free(kernels->items);
    *kernels = (mxrt_pack_kernels){0};
}
