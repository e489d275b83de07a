#include "kernel_launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>
#include <mxgen/pack.h>

#include "runtime/expr.h"

enum { MOST_ITEMS = 1024 }; /* of a workgroup, in one direction */

/* What expressions may name: inputs that are numbers, and alignments of pointers. */
typedef struct variables {
    char *names[2 * MXPACK_MAX_ARGS];
    size_t n;
} variables;

typedef struct reading {
    const kernel_file *file;
    const kernel_choice *choice;
    kernel_launch *launch;
    variables vars;
    mx_error *err;
} reading;

static mx_status fail_memory(mx_error *err)
{
    return mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
}

static const char *member(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* ---- Expressions ---- */

/* An expression of FILE.json, as a text or a number, with parameters replaced: a new JSON text.
 * Where it names nothing its value is known: *constant is set and *value is it. */
static mx_status read_expr(const reading *r, const json_t *json, const char *what, json_t **out,
                           int64_t *value, bool *constant)
{
    char number[32], *text = NULL;
    mxrt_expr *expr = NULL;
    mx_error reason;
    mx_status status;
    snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT, json_integer_value(json));
    if (!json_is_string(json) && !json_is_integer(json))
        return mx_fail(r->err, MX_ERR_INVALID,
                       "%s: %s must be an expression in a text, or a number", r->file->json_path,
                       what);
    const char *given = json_is_string(json) ? json_string_value(json) : number;
    if ((status = kernel_file_substitute(r->file, r->choice, r->file->json_path, given, &text,
                                         r->err)) != MX_OK)
        return status;
    if (mxrt_expr_compile(text, (const char *const *)r->vars.names, r->vars.n, &expr, &reason)) {
        status = mx_fail(r->err, MX_ERR_INVALID, "%s: %s: %.700s", r->file->json_path, what,
                         reason.message);
        goto out;
    }
    size_t column = mxrt_expr_zero_divisor(expr);
    if (column) {
        status = mx_fail(r->err, MX_ERR_INVALID,
                         "%s: %s: expression \"%.300s\": division by zero at column %zu",
                         r->file->json_path, what, text, column);
        goto out;
    }
    /* Without variables this is what every launch gives. */
    mxrt_expr *alone = NULL;
    *constant = !mxrt_expr_compile(text, NULL, 0, &alone, NULL);
    if (*constant && mxrt_expr_eval(alone, NULL, value, &reason))
        status = mx_fail(r->err, MX_ERR_INVALID, "%s: %s: %.700s", r->file->json_path, what,
                         reason.message);
    mxrt_expr_free(alone);
    if (status == MX_OK && !(*out = json_string(text)))
        status = fail_memory(r->err);
out:
    mxrt_expr_free(expr);
    free(text);
    return status;
}

static mx_status read_constant(const reading *r, const json_t *json, const char *what,
                               int64_t least, int64_t most, int64_t *value)
{
    json_t *text = NULL;
    bool constant = false;
    mx_status status = read_expr(r, json, what, &text, value, &constant);
    json_decref(text);
    if (status == MX_OK && (!constant || *value < least || *value > most))
        return mx_fail(r->err, MX_ERR_INVALID, "%s: %s must be a constant from %lld to %lld",
                       r->file->json_path, what, (long long)least, (long long)most);
    return status;
}

/* One to three expressions; the rest are 1. Those that are constant must be from `least` to `most`.
 * `sizes`, where it is wanted, are the values where all are constant. */
static mx_status read_extent(const reading *r, const char *key, int64_t least, int64_t most,
                             json_t **out, int64_t *sizes)
{
    const json_t *json = json_object_get(r->file->json, key);
    bool all_constant = true;
    int64_t values[3] = {1, 1, 1};
    if (!json) {
        *out = json_null();
        return MX_OK;
    }
    if (!json_is_array(json) || json_array_size(json) < 1 || json_array_size(json) > 3)
        return mx_fail(r->err, MX_ERR_INVALID, "%s: \"%s\" must be a list of one to three",
                       r->file->json_path, key);
    *out = json_array();
    for (size_t i = 0; i < 3; i++) {
        json_t *text = NULL;
        bool constant = true;
        mx_status status = MX_OK;
        if (i < json_array_size(json))
            status = read_expr(r, json_array_get(json, i), key, &text, &values[i], &constant);
        else
            text = json_string("1");
        json_array_append_new(*out, text ? text : json_null());
        if (status == MX_OK && constant && (values[i] < least || values[i] > most))
            status = mx_fail(r->err, MX_ERR_INVALID,
                             "%s: %s[%zu] is %lld; %lld to %lld are possible", r->file->json_path,
                             key, i, (long long)values[i], (long long)least, (long long)most);
        if (status != MX_OK)
            return status;
        all_constant &= constant;
    }
    if (sizes && all_constant)
        memcpy(sizes, values, sizeof(values));
    return MX_OK;
}

static mx_status read_rules(const reading *r)
{
    const json_t *json = json_object_get(r->file->json, "rules");
    for (size_t i = 0; i < json_array_size(json); i++) {
        const json_t *item = json_array_get(json, i);
        json_t *when = NULL;
        char what[32];
        int64_t value = 1;
        bool constant;
        snprintf(what, sizeof(what), "rules[%zu]", i);
        mx_status status =
            read_expr(r, json_object_get(item, "when"), what, &when, &value, &constant);
        if (status == MX_OK && constant && !value)
            status = mx_fail(
                r->err, MX_ERR_INVALID, "%s: %s, \"%s\" (%s), never holds: no launch would apply",
                r->file->json_path, what, member(item, "rule"), json_string_value(when));
        if (status != MX_OK) {
            json_decref(when);
            return status;
        }
        json_array_append_new(r->launch->rules,
                              json_pack("{s:s, s:o}", "rule", member(item, "rule"), "when", when));
    }
    return MX_OK;
}

/* ---- Arguments ---- */

static mx_status add_variable(reading *r, const char *name, const char *suffix)
{
    if (r->vars.n == 2 * MXPACK_MAX_ARGS)
        return mx_fail(r->err, MX_ERR_INVALID, "%s: more than %d arguments", r->file->json_path,
                       MXPACK_MAX_ARGS);
    if (asprintf(&r->vars.names[r->vars.n], "%s%s", name, suffix) < 0)
        return fail_memory(r->err);
    r->vars.n++;
    return MX_OK;
}

static bool is_identifier(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    return n && !name[n] && !(name[0] >= '0' && name[0] <= '9');
}

/* The inputs: entries of "args" without a value. */
static mx_status read_inputs(reading *r, const json_t *json)
{
    static const char *const kinds[] = {"pointer", "i32", "i64", "f32", "memref"};
    r->launch->inputs = json_array();
    for (size_t i = 0; i < json_array_size(json); i++) {
        const json_t *item = json_array_get(json, i);
        const char *name = member(item, "name"), *kind = member(item, "kind");
        size_t k = 0;
        while (kind && k < 5 && strcmp(kind, kinds[k]))
            k++;
        if (!name || !is_identifier(name) || !kind || k == 5)
            return mx_fail(r->err, MX_ERR_INVALID,
                           "%s: args[%zu] needs a \"name\" (letters, digits, _) and a \"kind\": "
                           "pointer, i32, i64, f32 or memref",
                           r->file->json_path, i);
        if (json_object_get(item, "value"))
            continue;
        bool is_pointer = k == 0 || k == 4;
        for (size_t v = 0; v < json_array_size(r->launch->inputs); v++) {
            if (!strcmp(member(json_array_get(r->launch->inputs, v), "name"), name))
                return mx_fail(r->err, MX_ERR_INVALID, "%s: two of \"args\" are named %s",
                               r->file->json_path, name);
        }
        json_array_append_new(r->launch->inputs, json_pack("{s:s, s:s}", "name", name, "kind",
                                                           is_pointer ? "pointer" : kind));
        mx_status status = MX_OK;
        if (is_pointer)
            status = add_variable(r, name, "_align");
        else if (strcmp(kind, "f32"))
            status = add_variable(r, name, "");
        if (status != MX_OK)
            return status;
    }
    return MX_OK;
}

/* "bytes" of pointers, once all names are known. */
static mx_status read_bytes(reading *r, const json_t *json)
{
    mx_status status = MX_OK;
    for (size_t i = 0; i < json_array_size(json) && status == MX_OK; i++) {
        const json_t *item = json_array_get(json, i), *bytes = json_object_get(item, "bytes");
        json_t *text = NULL;
        int64_t value;
        bool constant;
        for (size_t k = 0; bytes && k < json_array_size(r->launch->inputs); k++) {
            json_t *input = json_array_get(r->launch->inputs, k);
            if (strcmp(member(input, "name"), member(item, "name")) ||
                strcmp(member(input, "kind"), "pointer"))
                continue;
            status = read_expr(r, bytes, "bytes", &text, &value, &constant);
            if (status == MX_OK)
                json_object_set_new(input, "bytes", text);
        }
    }
    return status;
}

static void add_arg(reading *r, const char *name, const char *part, const char *kind, json_t *value)
{
    char full[160];
    snprintf(full, sizeof(full), "%s%s", name, part);
    json_array_append_new(r->launch->args,
                          json_pack("{s:s, s:s, s:o}", "name", full, "kind", kind, "value", value));
}

/* Strides of a row-major tensor: products of the sizes that follow. */
static mx_status default_stride(const reading *r, const json_t *shape, size_t axis, json_t **out)
{
    char *text = NULL;
    size_t size_bytes;
    FILE *stream = open_memstream(&text, &size_bytes);
    if (!stream)
        return fail_memory(r->err);
    fputs("1", stream);
    mx_status status = MX_OK;
    for (size_t i = axis + 1; i < json_array_size(shape) && status == MX_OK; i++) {
        json_t *size = NULL;
        int64_t value;
        bool constant;
        status = read_expr(r, json_array_get(shape, i), "shape", &size, &value, &constant);
        if (status == MX_OK)
            fprintf(stream, " * (%s)", json_string_value(size));
        json_decref(size);
    }
    if (fclose(stream) && status == MX_OK)
        status = fail_memory(r->err);
    if (status == MX_OK)
        *out = json_string(text);
    free(text);
    return status;
}

/* What MLIR passes for a memref: the pointer twice, offset, sizes, strides. */
static mx_status add_memref(reading *r, const json_t *item)
{
    const char *name = member(item, "name");
    const json_t *shape = json_object_get(item, "shape"),
                 *strides = json_object_get(item, "strides");
    size_t rank = json_array_size(shape);
    char part[32];
    mx_status status = MX_OK;
    if (!json_is_array(shape) || rank < 1 || rank > 8 ||
        (strides && json_array_size(strides) != rank))
        return mx_fail(r->err, MX_ERR_INVALID,
                       "%s: memref %s needs a \"shape\" of 1 to 8 expressions, and \"strides\", if "
                       "any, as many",
                       r->file->json_path, name);
    add_arg(r, name, "", "pointer", json_string(name));
    add_arg(r, name, "_aligned", "pointer", json_string(name));
    add_arg(r, name, "_offset", "i64", json_string("0"));
    for (size_t i = 0; i < 2 * rank && status == MX_OK; i++) {
        const json_t *given =
            i < rank ? json_array_get(shape, i) : json_array_get(strides, i - rank);
        json_t *value = NULL;
        int64_t number;
        bool constant;
        snprintf(part, sizeof(part), i < rank ? "_size%zu" : "_stride%zu", i % rank);
        status =
            given ? read_expr(r, given, i < rank ? "shape" : "strides", &value, &number, &constant)
                  : default_stride(r, shape, i - rank, &value);
        if (status == MX_OK)
            add_arg(r, name, part, "i64", value);
    }
    return status;
}

static mx_status add_value(reading *r, const json_t *item)
{
    const json_t *given = json_object_get(item, "value");
    const char *name = member(item, "name"), *kind = member(item, "kind");
    json_t *value = NULL;
    int64_t number = 0;
    bool constant = false;
    mx_status status = read_expr(r, given, name, &value, &number, &constant);
    if (status == MX_OK && !strcmp(kind, "pointer") && (!constant || number)) {
        status = mx_fail(r->err, MX_ERR_INVALID, "%s: the value of pointer %s can only be 0",
                         r->file->json_path, name);
    }
    if (status != MX_OK) {
        json_decref(value);
        return status;
    }
    add_arg(r, name, "", kind, value);
    return MX_OK;
}

static mx_status read_args(reading *r)
{
    const json_t *json = json_object_get(r->file->json, "args");
    if (!json)
        return MX_OK;
    mx_status status = read_inputs(r, json);
    if (status == MX_OK)
        status = read_bytes(r, json);
    if (status == MX_OK)
        r->launch->args = json_array();
    for (size_t i = 0; i < json_array_size(json) && status == MX_OK; i++) {
        const json_t *item = json_array_get(json, i);
        if (json_is_false(json_object_get(item, "pass")))
            continue;
        if (!strcmp(member(item, "kind"), "memref"))
            status = add_memref(r, item);
        else if (json_object_get(item, "value"))
            status = add_value(r, item);
        else
            add_arg(r, member(item, "name"), "", member(item, "kind"),
                    json_string(member(item, "name")));
    }
    if (status == MX_OK && json_array_size(r->launch->args) > MXPACK_MAX_ARGS)
        return mx_fail(r->err, MX_ERR_INVALID, "%s: %zu arguments of the function, at most %d",
                       r->file->json_path, json_array_size(r->launch->args), MXPACK_MAX_ARGS);
    return status;
}

/* ---- All of it ---- */

static mx_status read_launch(reading *r)
{
    const json_t *json = r->file->json, *lds = json_object_get(json, "lds_bytes");
    const char *symbol = member(json, "symbol") ? member(json, "symbol") : member(json, "kernel");
    mx_status status = MX_OK;
    r->launch->rules = json_array();
    if (symbol)
        status = kernel_file_substitute(r->file, r->choice, r->file->json_path, symbol,
                                        &r->launch->symbol, r->err);
    if (status == MX_OK)
        status = read_args(r);
    if (status == MX_OK && !r->launch->inputs &&
        (json_object_get(json, "grid") || json_object_get(json, "rules")))
        status = mx_fail(r->err, MX_ERR_INVALID,
                         "%s: \"grid\" and \"rules\" are of arguments: list those in \"args\"",
                         r->file->json_path);
    if (status == MX_OK)
        status = read_rules(r);
    if (status == MX_OK)
        status = read_extent(r, "grid", 0, INT32_MAX, &r->launch->grid, NULL);
    if (status == MX_OK)
        status = read_extent(r, "block", 1, MOST_ITEMS, &r->launch->block, r->launch->block_size);
    if (status == MX_OK && lds)
        status = read_constant(r, lds, "lds_bytes", 0, 1 << 20, &r->launch->shared_bytes);
    if (status == MX_OK && json_object_get(json, "cost"))
        status = read_constant(r, json_object_get(json, "cost"), "cost", INT32_MIN, INT32_MAX,
                               &r->launch->cost);
    return status;
}

mx_status kernel_launch_read(const kernel_file *file, const kernel_choice *choice,
                             kernel_launch *out, mx_error *err)
{
    kernel_launch launch = {0};
    reading r = {.file = file, .choice = choice, .launch = &launch, .err = err};
    mx_status status = read_launch(&r);
    for (size_t i = 0; i < r.vars.n; i++)
        free(r.vars.names[i]);
    if (status == MX_OK)
        *out = launch;
    else
        kernel_launch_finish(&launch);
    return status;
}

void kernel_launch_finish(kernel_launch *launch)
{
    free(launch->symbol);
    json_decref(launch->inputs);
    json_decref(launch->args);
    json_decref(launch->grid);
    json_decref(launch->block);
    json_decref(launch->rules);
    *launch = (kernel_launch){0};
}

/* ---- With the compiled function ---- */

static mx_status check_args(const kernel_file *file, const json_t *args, const json_t *compiled,
                            mx_error *err)
{
    const json_t *params = json_object_get(compiled, "params");
    if (json_array_size(args) != json_array_size(params))
        return mx_fail(err, MX_ERR_INVALID,
                       "%s: @%s takes %zu arguments, \"args\" of %s come to %zu", file->path,
                       member(compiled, "symbol"), json_array_size(params), file->json_path,
                       json_array_size(args));
    for (size_t i = 0; i < json_array_size(args); i++) {
        const json_t *arg = json_array_get(args, i), *param = json_array_get(params, i);
        if (strcmp(member(arg, "kind"), member(param, "kind")))
            return mx_fail(err, MX_ERR_INVALID,
                           "%s: @%s: argument %zu (%s) is %s, %s says that it is %s", file->path,
                           member(compiled, "symbol"), i, member(param, "name"),
                           member(param, "type"), file->json_path, member(arg, "kind"));
    }
    return MX_OK;
}

/* Inputs and arguments of a function that nothing else describes. */
static void own_args(const json_t *compiled, json_t *inputs, json_t *args)
{
    const json_t *params = json_object_get(compiled, "params");
    for (size_t i = 0; i < json_array_size(params); i++) {
        const json_t *param = json_array_get(params, i);
        const char *kind = member(param, "kind");
        char name[80];
        snprintf(name, sizeof(name), "%s", member(param, "name"));
        /* Characters that were replaced may have made two of one name. */
        for (size_t k = 0; k < i; k++) {
            if (!strcmp(member(json_array_get(inputs, k), "name"), name))
                snprintf(name, sizeof(name), "arg%zu", i);
        }
        json_array_append_new(inputs, json_pack("{s:s, s:s}", "name", name, "kind", kind));
        json_array_append_new(
            args, json_pack("{s:s, s:s, s:s}", "name", name, "kind", kind, "value", name));
    }
}

/* [256, 1, 1] as the pack has it. */
static json_t *block_texts(const json_t *block)
{
    json_t *texts = json_array();
    for (size_t i = 0; i < json_array_size(block); i++) {
        char text[32];
        snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT,
                 json_integer_value(json_array_get(block, i)));
        json_array_append_new(texts, json_string(text));
    }
    return texts;
}

mx_status kernel_launch_json(const kernel_file *file, const kernel_launch *launch,
                             const json_t *compiled, const json_t *info, char **out, mx_error *err)
{
    json_t *inputs = launch->inputs ? json_incref(launch->inputs) : json_array();
    json_t *args = launch->inputs ? json_incref(launch->args) : json_array();
    json_t *own_block = json_object_get(compiled, "block");
    json_t *block = json_is_null(launch->block) && json_is_array(own_block)
                        ? block_texts(own_block)
                        : json_incref(launch->block);
    json_int_t lds = json_integer_value(json_object_get(info, "lds_bytes"));
    mx_status status = MX_OK;
    if (launch->inputs)
        status = check_args(file, args, compiled, err);
    else
        own_args(compiled, inputs, args);
    /* The launch's size has what the code itself reserves, too. */
    lds = launch->shared_bytes + (lds > 0 ? lds : 0);
    json_t *json = json_pack("{s:O, s:O, s:O, s:I, s:O}", "inputs", inputs, "grid", launch->grid,
                             "block", block, "lds_bytes", lds, "args", args);
    if (status == MX_OK && (!json || !(*out = json_dumps(json, JSON_COMPACT))))
        status = fail_memory(err);
    json_decref(json);
    json_decref(inputs);
    json_decref(args);
    json_decref(block);
    return status;
}
