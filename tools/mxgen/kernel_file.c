#include "kernel_file.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "gen/target.h"
#include "kernel_form.h"
#include "runtime/expr.h"

enum { MOST_FILE_BYTES = 64 << 20 };

/* ---- Files ---- */

static mx_status read_file(const char *path, char **text, size_t *size_bytes, mx_error *err)
{
    FILE *file = fopen(path, "rbe");
    size_t used = 0, capacity = 1 << 16;
    char *data = file ? malloc(capacity + 1) : NULL;
    if (!file)
        return mx_fail(err, errno == ENOENT ? MX_ERR_NOT_FOUND : MX_ERR_IO, "cannot open %s: %s",
                       path, strerror(errno));
    for (size_t n; data && (n = fread(data + used, 1, capacity - used, file)) > 0;) {
        used += n;
        if (used < capacity || capacity > MOST_FILE_BYTES)
            continue;
        char *more = realloc(data, 2 * (capacity *= 2) + 1);
        if (!more)
            free(data);
        data = more;
    }
    bool failed = ferror(file);
    fclose(file);
    if (data && !failed && used <= MOST_FILE_BYTES) {
        data[used] = 0;
        *text = data;
        *size_bytes = used;
        return MX_OK;
    }
    mx_status status =
        !data ? mx_fail(err, MX_ERR_NO_MEMORY, "no memory to read %s", path)
        : failed
            ? mx_fail(err, MX_ERR_IO, "cannot read %s: %s", path, strerror(errno))
            : mx_fail(err, MX_ERR_INVALID, "%s is larger than %d bytes", path, MOST_FILE_BYTES);
    free(data);
    return status;
}

/* By the file's ending; Triton's own is .llir. */
static mx_status find_language(kernel_file *file, mx_error *err)
{
    static const struct {
        const char *ending;
        kernel_language language;
    } endings[] = {{".mlir", KERNEL_MLIR},
                   {".ll", KERNEL_LLVM},
                   {".llir", KERNEL_LLVM},
                   {".bc", KERNEL_BITCODE}};
    size_t length = strlen(file->path);
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        size_t n = strlen(endings[i].ending);
        if (length <= n || strcmp(file->path + length - n, endings[i].ending))
            continue;
        file->language = endings[i].language;
        if (asprintf(&file->json_path, "%.*s.json", (int)(length - n), file->path) < 0) {
            file->json_path = NULL;
            return mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
        }
        return MX_OK;
    }
    return mx_fail(err, MX_ERR_INVALID, "%s: a kernel file ends in .mlir, .ll (or .llir) or .bc",
                   file->path);
}

static mx_status read_json(kernel_file *file, mx_error *err)
{
    json_error_t why;
    char *text = NULL;
    size_t size_bytes;
    mx_status status = read_file(file->json_path, &text, &size_bytes, err);
    if (status == MX_ERR_NOT_FOUND) {
        free(file->json_path);
        file->json_path = NULL;
        file->json = json_object();
        return MX_OK;
    }
    if (status != MX_OK)
        return status;
    file->json = json_loadb(text, size_bytes, JSON_REJECT_DUPLICATES, &why);
    free(text);
    if (!file->json)
        return mx_fail(err, MX_ERR_INVALID, "%s:%d:%d: %s", file->json_path, why.line, why.column,
                       why.text);
    return kernel_form_check(file->json_path, file->json, err);
}

/* ---- Parameters ---- */

/* The number of characters of a parameter's name at `at`, 0 if none begins there. */
static size_t name_length(const char *at)
{
    size_t n = 0;
    while (isalpha((unsigned char)at[n]) || at[n] == '_' || (n && isdigit((unsigned char)at[n])))
        n++;
    return n;
}

/* Its place; n_params if there is none. */
static size_t find_param(const kernel_file *file, const char *name, size_t length)
{
    size_t i = 0;
    while (i < file->n_params &&
           (strlen(file->params[i].name) != length || strncmp(file->params[i].name, name, length)))
        i++;
    return i;
}

static mx_status add_value(const kernel_file *file, kernel_param *param, const char *value,
                           mx_error *err)
{
    if (param->n_values == KERNEL_MOST_VALUES)
        return mx_fail(err, MX_ERR_INVALID, "%s: parameter %s has more than %d values",
                       file->json_path, param->name, KERNEL_MOST_VALUES);
    char **values = realloc(param->values, (param->n_values + 1) * sizeof(*values));
    if (values)
        param->values = values;
    if (!values || !(values[param->n_values] = strdup(value)))
        return mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
    param->n_values++;
    return MX_OK;
}

static mx_status add_number(const kernel_file *file, kernel_param *param, json_int_t value,
                            mx_error *err)
{
    char text[32];
    snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, value);
    return add_value(file, param, text, err);
}

/* {"from": 1, "to": 8, "step": 1} or {"from": 64, "to": 1024, "times": 2} */
static mx_status add_range(const kernel_file *file, kernel_param *param, const json_t *json,
                           mx_error *err)
{
    const json_t *step = json_object_get(json, "step"), *times = json_object_get(json, "times");
    const json_t *from = json_object_get(json, "from"), *to = json_object_get(json, "to");
    json_int_t at = json_integer_value(from), by = json_integer_value(times ? times : step);
    mx_status status = MX_OK;
    if (!json_is_integer(from) || !json_is_integer(to) || (step && times) ||
        json_object_size(json) != (step || times ? 3u : 2u) || (step && by < 1) ||
        (times && (by < 2 || at < 1)) || at > json_integer_value(to) ||
        json_integer_value(to) > INT32_MAX)
        return mx_fail(err, MX_ERR_INVALID,
                       "%s: parameter %s: a range is {\"from\": 1, \"to\": 8, \"step\": 1} or "
                       "{\"from\": 64, \"to\": 1024, \"times\": 2}, upwards",
                       file->json_path, param->name);
    for (; at <= json_integer_value(to) && status == MX_OK;
         at = times ? at * by : at + (step ? by : 1))
        status = add_number(file, param, at, err);
    return status;
}

static mx_status add_values(const kernel_file *file, kernel_param *param, const json_t *json,
                            mx_error *err)
{
    if (json_is_integer(json))
        return add_number(file, param, json_integer_value(json), err);
    if (json_is_string(json))
        return add_value(file, param, json_string_value(json), err);
    if (json_is_object(json))
        return add_range(file, param, json, err);
    mx_status status = MX_OK;
    for (size_t i = 0; i < json_array_size(json) && status == MX_OK; i++) {
        const json_t *item = json_array_get(json, i);
        if (json_is_integer(item) || json_is_string(item))
            status = add_values(file, param, item, err);
        else
            status =
                mx_fail(err, MX_ERR_INVALID, "%s: parameter %s: value %zu is no number or text",
                        file->json_path, param->name, i);
    }
    if (status == MX_OK && !param->n_values)
        return mx_fail(err, MX_ERR_INVALID,
                       "%s: parameter %s has no values: give a list, or a range", file->json_path,
                       param->name);
    return status;
}

static mx_status add_param(kernel_file *file, const char *name, size_t length, mx_error *err)
{
    if (!length || name_length(name) != length)
        return mx_fail(
            err, MX_ERR_INVALID,
            "%s: \"%s\" is no name of a parameter: letters, digits and _, a letter first",
            file->json_path ? file->json_path : file->path, name);
    if (file->n_params == KERNEL_MOST_PARAMS)
        return mx_fail(err, MX_ERR_INVALID, "%s has more than %d parameters", file->path,
                       KERNEL_MOST_PARAMS);
    kernel_param *param = &file->params[file->n_params];
    if (!(param->name = strndup(name, length)))
        return mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
    file->n_params++;
    return MX_OK;
}

static mx_status read_params(kernel_file *file, mx_error *err)
{
    json_t *params = json_object_get(file->json, "params"), *values;
    const char *name;
    mx_status status = MX_OK;
    if (params && !json_is_object(params))
        return mx_fail(err, MX_ERR_INVALID, "%s: \"params\" must be an object", file->json_path);
    json_object_foreach(params, name, values)
    {
        if ((status = add_param(file, name, strlen(name), err)) != MX_OK ||
            (status = add_values(file, &file->params[file->n_params - 1], values, err)) != MX_OK)
            return status;
    }
    return MX_OK;
}

/* A value from the command line takes the place of those that the file declares it among. */
static mx_status give_param(kernel_file *file, const char *given, mx_error *err)
{
    const char *equals = strchr(given, '=');
    size_t length = equals ? (size_t)(equals - given) : 0;
    size_t place = find_param(file, given, length);
    kernel_param *param = place < file->n_params ? &file->params[place] : NULL;
    if (!equals || !equals[1])
        return mx_fail(err, MX_ERR_INVALID, "--param %s: write NAME=VALUE", given);
    if (!param && json_object_get(file->json, "params"))
        return mx_fail(err, MX_ERR_INVALID, "--param %s: %s declares no such parameter", given,
                       file->json_path);
    char name[80];
    snprintf(name, sizeof(name), "${%.*s}", (int)length, given);
    if (!param && !strstr(file->text, name))
        return mx_fail(err, MX_ERR_INVALID, "--param %s: %s has no %s in its text", given,
                       file->path, name);
    if (!param) {
        mx_status status = add_param(file, given, length, err);
        return status != MX_OK
                   ? status
                   : add_value(file, &file->params[file->n_params - 1], equals + 1, err);
    }
    size_t found = 0;
    while (found < param->n_values && strcmp(param->values[found], equals + 1))
        found++;
    if (found == param->n_values)
        return mx_fail(err, MX_ERR_INVALID,
                       "--param %s: not among the %zu values that %s has for it", given,
                       param->n_values, file->json_path ? file->json_path : file->path);
    char *kept = param->values[found];
    param->values[found] = param->values[0];
    param->values[0] = kept;
    while (param->n_values > 1)
        free(param->values[--param->n_values]);
    return MX_OK;
}

mx_status kernel_file_open(const char *path, const char *const *given, size_t n_given,
                           kernel_file *out, mx_error *err)
{
    kernel_file file = {.path = strdup(path)};
    mx_status status = MX_OK;
    if (!file.path)
        status = mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
    if (status == MX_OK)
        status = find_language(&file, err);
    if (status == MX_OK)
        status = read_file(path, &file.text, &file.text_bytes, err);
    if (status == MX_OK)
        status = read_json(&file, err);
    if (status == MX_OK && file.language != KERNEL_BITCODE && strlen(file.text) != file.text_bytes)
        status = mx_fail(err, MX_ERR_INVALID, "%s has zero bytes: it is no text", path);
    if (status == MX_OK)
        status = read_params(&file, err);
    for (size_t i = 0; i < n_given && status == MX_OK; i++)
        status = give_param(&file, given[i], err);
    if (status == MX_OK)
        *out = file;
    else
        kernel_file_close(&file);
    return status;
}

void kernel_file_close(kernel_file *file)
{
    for (size_t i = 0; i < file->n_params; i++) {
        for (size_t v = 0; v < file->params[i].n_values; v++)
            free(file->params[i].values[v]);
        free(file->params[i].values);
        free(file->params[i].name);
    }
    json_decref(file->json);
    free(file->text);
    free(file->json_path);
    free(file->path);
    *file = (kernel_file){0};
}

/* ---- Choices ---- */

bool kernel_file_excludes(const kernel_file *file, const mxgen_target *target)
{
    const json_t *targets = json_object_get(file->json, "targets");
    for (size_t i = 0; i < json_array_size(targets); i++) {
        const char *name = json_string_value(json_array_get(targets, i));
        if (name && (!strcmp(name, target->name) || !strcmp(name, mxgen_target_kind(target))))
            return false;
    }
    return targets != NULL;
}

/* Variables of the rule: the parameters that are numbers, and what the target has. */
enum {
    VAR_LANES = KERNEL_MOST_PARAMS,
    VAR_LDS,
    VAR_THREADS,
    VAR_AMD,
    VAR_NVIDIA,
    VAR_HOST,
    VAR_COUNT
};

static bool parse_number(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    bool is_number = *text && !isspace((unsigned char)*text) && !*end && !errno;
    *out = is_number ? value : 0;
    return is_number;
}

static void name_variables(const kernel_file *file, const char *names[VAR_COUNT])
{
    static const char *const fixed[] = {"lanes",     "lds_limit", "max_threads",
                                        "is_amdgpu", "is_nvptx",  "is_host"};
    int64_t number;
    for (size_t i = 0; i < KERNEL_MOST_PARAMS; i++) {
        names[i] = "";
        for (size_t v = 0; i < file->n_params && v < file->params[i].n_values; v++) {
            if (parse_number(file->params[i].values[v], &number))
                names[i] = file->params[i].name;
        }
    }
    memcpy(names + VAR_LANES, fixed, sizeof(fixed));
}

static void fill_variables(const kernel_file *file, const kernel_choice *choice,
                           const mxgen_target *target, int64_t values[VAR_COUNT])
{
    memset(values, 0, VAR_COUNT * sizeof(*values));
    for (size_t i = 0; i < file->n_params; i++)
        parse_number(file->params[i].values[choice->values[i]], &values[i]);
    values[VAR_LANES] = target->kind == MXGEN_HOST ? 1 : target->lanes;
    values[VAR_LDS] = target->lds_bytes;
    values[VAR_THREADS] = target->max_threads;
    values[VAR_AMD] = target->kind == MXGEN_AMDGPU;
    values[VAR_NVIDIA] = target->kind == MXGEN_NVPTX;
    values[VAR_HOST] = target->kind == MXGEN_HOST;
}

/* Whether all rules hold; *failed is the number of the first that does not. */
static mx_status eval_rules(const kernel_file *file, mxrt_expr *const *rules, size_t n_rules,
                            const int64_t *values, size_t *failed, mx_error *err)
{
    mx_error reason;
    for (*failed = 0; *failed < n_rules; (*failed)++) {
        int64_t holds;
        if (mxrt_expr_eval(rules[*failed], values, &holds, &reason))
            return mx_fail(err, MX_ERR_INVALID, "%s: applies[%zu]: %s", file->json_path, *failed,
                           reason.message);
        if (!holds)
            return MX_OK;
    }
    return MX_OK;
}

/* Of a rule that is a number, that number says as much as its text would. */
static const char *rule_text(const kernel_file *file, size_t index, const char *key)
{
    const json_t *rule = json_array_get(json_object_get(file->json, "applies"), index);
    const json_t *value = json_object_get(rule, key);
    return json_is_string(value) ? json_string_value(value) : json_integer_value(value) ? "1" : "0";
}

static mx_status compile_rules(const kernel_file *file, mxrt_expr **rules, size_t *n_rules,
                               mx_error *err)
{
    const json_t *json = json_object_get(file->json, "applies");
    const char *names[VAR_COUNT];
    mx_error reason;
    name_variables(file, names);
    for (*n_rules = 0; *n_rules < json_array_size(json); (*n_rules)++) {
        if (mxrt_expr_compile(rule_text(file, *n_rules, "when"), names, VAR_COUNT, &rules[*n_rules],
                              &reason))
            return mx_fail(err, MX_ERR_INVALID, "%s: applies[%zu]: %s", file->json_path, *n_rules,
                           reason.message);
    }
    return MX_OK;
}

/* The next in order; false past the last. */
static bool next_choice(const kernel_file *file, kernel_choice *choice)
{
    for (size_t i = file->n_params; i > 0; i--) {
        if (++choice->values[i - 1] < file->params[i - 1].n_values)
            return true;
        choice->values[i - 1] = 0;
    }
    return false;
}

/* How many choices each rule was the first to refuse, and those that none did. */
typedef struct enumeration {
    kernel_choice *choices;
    size_t n, refused[64];
} enumeration;

static mx_status enumerate(const kernel_file *file, const mxgen_target *target,
                           mxrt_expr *const *rules, size_t n_rules, enumeration *out, mx_error *err)
{
    kernel_choice choice = {{0}};
    do {
        int64_t values[VAR_COUNT];
        size_t failed;
        fill_variables(file, &choice, target, values);
        mx_status status = eval_rules(file, rules, n_rules, values, &failed, err);
        if (status != MX_OK)
            return status;
        if (failed < n_rules) {
            out->refused[failed]++;
            continue;
        }
        if (out->n == KERNEL_MOST_CHOICES)
            return mx_fail(err, MX_ERR_INVALID,
                           "%s: more than %d choices of parameters apply to %s", file->path,
                           KERNEL_MOST_CHOICES, target->name);
        kernel_choice *more = realloc(out->choices, (out->n + 1) * sizeof(*more));
        if (!more)
            return mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
        out->choices = more;
        more[out->n++] = choice;
    } while (next_choice(file, &choice));
    return MX_OK;
}

mx_status kernel_file_choices(const kernel_file *file, const mxgen_target *target,
                              kernel_choice **out, size_t *n, mx_error *err)
{
    mxrt_expr *rules[64] = {NULL};
    enumeration found = {NULL, 0, {0}};
    size_t n_rules = 0, most = 0;
    mx_status status = compile_rules(file, rules, &n_rules, err);
    if (status == MX_OK)
        status = enumerate(file, target, rules, n_rules, &found, err);
    for (size_t i = 1; i < n_rules; i++)
        most = found.refused[i] > found.refused[most] ? i : most;
    if (status == MX_OK && !found.n)
        status =
            mx_fail(err, MX_ERR_INVALID,
                    "%s: no choice of its parameters applies to %s: applies[%zu], \"%s\" (%s), "
                    "refuses %s",
                    file->json_path, target->name, most, rule_text(file, most, "rule"),
                    rule_text(file, most, "when"), n_rules > 1 ? "most" : "all of them");
    for (size_t i = 0; i < 64; i++)
        mxrt_expr_free(rules[i]);
    if (status != MX_OK) {
        free(found.choices);
        return status;
    }
    *out = found.choices;
    *n = found.n;
    return MX_OK;
}

/* ---- Texts ---- */

static mx_status fail_unknown(const kernel_file *file, const char *where, const char *text,
                              const char *at, size_t length, mx_error *err)
{
    char list[300] = "";
    size_t used = 0;
    int line = 1, column = 1;
    for (const char *c = text; c < at; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    for (size_t i = 0; i < file->n_params && used < sizeof(list); i++)
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "",
                                 file->params[i].name);
    return mx_fail(err, MX_ERR_INVALID, "%s:%d:%d: unknown parameter ${%.*s}; %s%s", where, line,
                   column, (int)length, at + 2,
                   used ? "there are " : "there is none: give --param NAME=VALUE", list);
}

mx_status kernel_file_substitute(const kernel_file *file, const kernel_choice *choice,
                                 const char *where, const char *text, char **out, mx_error *err)
{
    char *result = NULL;
    size_t size_bytes;
    mx_status status = MX_OK;
    FILE *stream = open_memstream(&result, &size_bytes);
    if (!stream)
        return mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
    for (const char *at = text; *at && status == MX_OK;) {
        size_t length = at[0] == '$' && at[1] == '{' ? name_length(at + 2) : 0;
        if (!length || at[2 + length] != '}') {
            fputc(*at++, stream);
            continue;
        }
        size_t param = find_param(file, at + 2, length);
        if (param < file->n_params)
            fputs(file->params[param].values[choice->values[param]], stream);
        else
            status = fail_unknown(file, where, text, at, length, err);
        at += length + 3;
    }
    if (fclose(stream) && status == MX_OK)
        status = mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
    if (status != MX_OK)
        free(result);
    else
        *out = result;
    return status;
}

json_t *kernel_file_params(const kernel_file *file, const kernel_choice *choice)
{
    json_t *params = json_object();
    for (size_t i = 0; i < file->n_params; i++) {
        const char *value = file->params[i].values[choice->values[i]];
        int64_t number;
        json_object_set_new(params, file->params[i].name,
                            parse_number(value, &number) ? json_integer(number)
                                                         : json_string(value));
    }
    return params;
}
