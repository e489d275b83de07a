#include "pack_forms.h"

#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>
#include <mxgen/pack_checksum.h>

#include "pack_text.h"

/* What a text means where the variables of one family are; NULL or 0 before it was asked for. */
typedef struct text_meaning {
    mxrt_expr *expr;
    mxrt_pack_rule *rules;
    size_t n_rules;
    mxrt_pack_launch *launch;
    mxrt_pack_arg *args;
    unsigned buffers;
    uint8_t has_rules;
} text_meaning;

struct mxrt_pack_text {
    mxrt_pack_text *next; /* in its bucket */
    uint64_t hash;
    size_t length;
    text_meaning meaning[MXRT_PACK_FAMILY_COUNT];
    uint8_t is_params, is_info;
    char chars[];
};

struct mxrt_pack_forms {
    mxrt_pack_text **buckets;
    size_t n_buckets; /* a power of two */
    size_t n_texts;
};

static const char *const block_buffers[MXRT_PACK_BUFFER_COUNT] = {"x", "y", "p", "s",
                                                                  "c", "t", "g", "o"};
static const char *const gemm_buffers[MXRT_GEMM_BUFFER_COUNT] = {
    "left",         "left_scales",   "right",  "right_scales", "out",
    "read_offsets", "write_offsets", "status", "workspace"};

/* The names that a family's rules use. */
static const struct {
    const char *const *vars, *const *buffers;
    size_t n_vars;
    int n_buffers;
    const char *buffers_text;
} families[MXRT_PACK_FAMILY_COUNT] = {
    {mxrt_pack_var_names, block_buffers, MXRT_VAR_COUNT, MXRT_PACK_BUFFER_COUNT,
     "x, y, p, s, c, t, g or o"},
    {mxrt_gemm_var_names, gemm_buffers, MXRT_GEMM_VAR_COUNT, MXRT_GEMM_BUFFER_COUNT,
     "left, left_scales, right, right_scales, out, read_offsets, write_offsets, status or "
     "workspace"},
};

/* Where texts are kept, and whose names they use. */
typedef struct text_scope {
    mxrt_pack_forms *forms;
    mxrt_pack_family family;
} text_scope;

static mx_status fail_memory(mx_error *err)
{
    return mx_fail(err, MX_ERR_NO_MEMORY, "no memory to read a kernel pack");
}

/* ---- Texts ---- */

mx_status mxrt_pack_forms_create(mxrt_pack_forms **out, mx_error *err)
{
    mxrt_pack_forms *forms = calloc(1, sizeof(*forms));
    if (forms) {
        forms->n_buckets = 1024;
        forms->buckets = calloc(forms->n_buckets, sizeof(forms->buckets[0]));
    }
    if (!forms || !forms->buckets) {
        free(forms);
        return fail_memory(err);
    }
    *out = forms;
    return MX_OK;
}

void mxrt_pack_forms_destroy(mxrt_pack_forms *forms)
{
    if (!forms)
        return;
    for (size_t i = 0; i < forms->n_buckets; i++) {
        for (mxrt_pack_text *text = forms->buckets[i], *next; text; text = next) {
            next = text->next;
            for (int f = 0; f < MXRT_PACK_FAMILY_COUNT; f++) {
                mxrt_expr_free(text->meaning[f].expr);
                free(text->meaning[f].rules);
                free(text->meaning[f].launch);
                free(text->meaning[f].args);
            }
            free(text);
        }
    }
    free(forms->buckets);
    free(forms);
}

const char *mxrt_pack_text_chars(const mxrt_pack_text *text)
{
    return text->chars;
}

/* More buckets only make it faster: without memory for them it stays as it is. */
static void forms_grow(mxrt_pack_forms *forms)
{
    size_t n_buckets = forms->n_buckets * 2;
    mxrt_pack_text **buckets = calloc(n_buckets, sizeof(buckets[0]));
    if (!buckets)
        return;
    for (size_t i = 0; i < forms->n_buckets; i++) {
        for (mxrt_pack_text *text = forms->buckets[i], *next; text; text = next) {
            next = text->next;
            text->next = buckets[text->hash & (n_buckets - 1)];
            buckets[text->hash & (n_buckets - 1)] = text;
        }
    }
    free(forms->buckets);
    forms->buckets = buckets;
    forms->n_buckets = n_buckets;
}

mx_status mxrt_pack_forms_intern(mxrt_pack_forms *forms, const char *chars, size_t length,
                                 mxrt_pack_text **out, mx_error *err)
{
    uint64_t hash = XXH3_64bits(chars, length);
    mxrt_pack_text *text = forms->buckets[hash & (forms->n_buckets - 1)];
    for (; text; text = text->next) {
        if (text->hash == hash && text->length == length && !memcmp(text->chars, chars, length)) {
            *out = text;
            return MX_OK;
        }
    }
    if (!(text = calloc(1, sizeof(*text) + length + 1)))
        return fail_memory(err);
    if (forms->n_texts++ >= forms->n_buckets)
        forms_grow(forms);
    text->hash = hash;
    text->length = length;
    memcpy(text->chars, chars, length);
    text->next = forms->buckets[hash & (forms->n_buckets - 1)];
    *out = forms->buckets[hash & (forms->n_buckets - 1)] = text;
    return MX_OK;
}

/* ---- JSON ---- */

static mx_status load_json(const mxrt_pack_text *text, const char *what, json_type type,
                           json_t **out, mx_error *err)
{
    json_error_t why;
    if (text->length > MXRT_PACK_MAX_JSON_BYTES)
        return mx_fail(err, MX_ERR_CORRUPT, "%s: %zu bytes, more than %d", what, text->length,
                       MXRT_PACK_MAX_JSON_BYTES);
    json_t *json = json_loadb(text->chars, text->length, JSON_REJECT_DUPLICATES, &why);
    if (!json && json_error_code(&why) == json_error_out_of_memory)
        return fail_memory(err);
    if (!json)
        return mx_fail(err, MX_ERR_CORRUPT, "%s: not JSON: %s", what,
                       mxrt_show_text(why.text).chars);
    if (json_typeof(json) != type) {
        json_decref(json);
        return mx_fail(err, MX_ERR_CORRUPT, "%s: not %s", what,
                       type == JSON_ARRAY ? "an array" : "an object");
    }
    *out = json;
    return MX_OK;
}

/* Refuses keys beyond the `n` known ones: a reader that skipped them would launch wrongly. */
static mx_status check_keys(json_t *object, const char *const *keys, size_t n, const char *what,
                            mx_error *err)
{
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return mx_fail(err, MX_ERR_CORRUPT, "%s: not an object", what);
    json_object_foreach(object, key, value)
    {
        size_t i = 0;
        while (i < n && strcmp(key, keys[i]) != 0)
            i++;
        if (i == n)
            return mx_fail(err, MX_ERR_CORRUPT, "%s: unknown key \"%s\"", what,
                           mxrt_show_text(key).chars);
    }
    return MX_OK;
}

/* The interned text of a string that must be there and not be empty. */
static mx_status get_text(mxrt_pack_forms *forms, json_t *value, const char *what, const char *key,
                          mxrt_pack_text **out, mx_error *err)
{
    if (!json_is_string(value) || !json_string_length(value))
        return mx_fail(err, MX_ERR_CORRUPT, "%s: \"%s\" must be a text, not empty", what, key);
    return mxrt_pack_forms_intern(forms, json_string_value(value), json_string_length(value), out,
                                  err);
}

static mx_status compile_text(const text_scope *scope, mxrt_pack_text *text, const char *what,
                              const char *key, const mxrt_expr **out, mx_error *err)
{
    mxrt_expr **expr = &text->meaning[scope->family].expr;
    mx_error why;
    mx_status status;
    if (!*expr && (status = mxrt_expr_compile(text->chars, families[scope->family].vars,
                                              families[scope->family].n_vars, expr, &why)))
        return mx_fail(err, status == MX_ERR_INVALID ? MX_ERR_CORRUPT : status, "%s: \"%s\": %s",
                       what, key, why.message);
    *out = *expr;
    return MX_OK;
}

static mx_status get_expr(const text_scope *scope, json_t *value, const char *what, const char *key,
                          const mxrt_expr **out, mx_error *err)
{
    mxrt_pack_text *text;
    mx_status status = get_text(scope->forms, value, what, key, &text, err);
    return status ? status : compile_text(scope, text, what, key, out, err);
}

/* ---- Rules ---- */

static mx_status parse_rule(const text_scope *scope, json_t *json, size_t index,
                            mxrt_pack_rule *out, mx_error *err)
{
    static const char *const keys[] = {"rule", "when"};
    char what[48];
    mxrt_pack_text *text;
    snprintf(what, sizeof(what), "rules[%zu]", index);
    mx_status status = check_keys(json, keys, 2, what, err);
    if (status ||
        (status =
             get_text(scope->forms, json_object_get(json, "rule"), what, "rule", &text, err)) ||
        (status = get_expr(scope, json_object_get(json, "when"), what, "when", &out->when, err)))
        return status;
    out->text = text->chars;
    return MX_OK;
}

/* One element of rules where it is written the way the generator does. */
typedef struct plain_rule {
    const char *rule, *when;
    size_t rule_length, when_length;
} plain_rule;

/* Past HEAD"TEXT", or NULL if that is not what is there. */
static const char *skip_plain_text(const char *at, const char *head, const char **text,
                                   size_t *length)
{
    size_t head_length = strlen(head);
    if (strncmp(at, head, head_length) != 0)
        return NULL;
    *text = at += head_length;
    while (*at >= ' ' && *at <= '~' && *at != '"' && *at != '\\')
        at++;
    *length = (size_t)(at - *text);
    return *length && *at == '"' ? at + 1 : NULL;
}

/* The number of elements of a text that is rules as the generator writes them, or 0. Most texts of
 * a pack are; jansson would take two thirds of the time that opening it takes, and it judges all
 * that this does not know. */
static size_t split_plain_rules(const char *at, plain_rule rules[MXRT_PACK_MAX_RULES])
{
    size_t n = 0;
    if (*at++ != '[')
        return 0;
    do {
        plain_rule *rule = &rules[n];
        if (n++ == MXRT_PACK_MAX_RULES ||
            !(at = skip_plain_text(at, "{\"rule\":\"", &rule->rule, &rule->rule_length)) ||
            !(at = skip_plain_text(at, ",\"when\":\"", &rule->when, &rule->when_length)) ||
            *at++ != '}')
            return 0;
    } while (*at++ == ',');
    return at[-1] == ']' && !*at ? n : 0;
}

static mx_status parse_plain_rule(const text_scope *scope, const plain_rule *plain, size_t index,
                                  mxrt_pack_rule *out, mx_error *err)
{
    mxrt_pack_forms *forms = scope->forms;
    char what[48];
    mxrt_pack_text *rule, *when;
    snprintf(what, sizeof(what), "rules[%zu]", index);
    mx_status status = mxrt_pack_forms_intern(forms, plain->rule, plain->rule_length, &rule, err);
    if (status ||
        (status = mxrt_pack_forms_intern(forms, plain->when, plain->when_length, &when, err)) ||
        (status = compile_text(scope, when, what, "when", &out->when, err)))
        return status;
    out->text = rule->chars;
    return MX_OK;
}

static mx_status parse_rules(const text_scope *scope, mxrt_pack_text *text, mx_error *err)
{
    text_meaning *meaning = &text->meaning[scope->family];
    plain_rule plain[MXRT_PACK_MAX_RULES];
    json_t *json = NULL;
    mx_status status = MX_OK;
    size_t n = split_plain_rules(text->chars, plain), n_plain = n;
    if (!n_plain && (status = load_json(text, "rules", JSON_ARRAY, &json, err)))
        return status;
    if (!n_plain)
        n = json_array_size(json);
    mxrt_pack_rule *rules = NULL;
    if (n > MXRT_PACK_MAX_RULES)
        status = mx_fail(err, MX_ERR_CORRUPT, "rules: %zu of them, more than %d", n,
                         MXRT_PACK_MAX_RULES);
    else if (!(rules = calloc(n ? n : 1, sizeof(rules[0]))))
        status = fail_memory(err);
    for (size_t i = 0; !status && i < n; i++)
        status = n_plain ? parse_plain_rule(scope, &plain[i], i, &rules[i], err)
                         : parse_rule(scope, json_array_get(json, i), i, &rules[i], err);
    json_decref(json);
    if (status) {
        free(rules);
        return status;
    }
    meaning->rules = rules;
    meaning->n_rules = n;
    meaning->has_rules = 1;
    return MX_OK;
}

mx_status mxrt_pack_forms_rules(mxrt_pack_forms *forms, mxrt_pack_text *text,
                                mxrt_pack_launch *launch, mx_error *err)
{
    const text_scope scope = {forms, launch->family};
    const text_meaning *meaning = &text->meaning[scope.family];
    mx_status status = meaning->has_rules ? MX_OK : parse_rules(&scope, text, err);
    if (!status) {
        launch->rules = meaning->rules;
        launch->n_rules = meaning->n_rules;
    }
    return status;
}

/* ---- Launches ---- */

static mx_status parse_extent(const text_scope *scope, json_t *json, const char *key,
                              const mxrt_expr *out[3], mx_error *err)
{
    mx_status status = MX_OK;
    if (!json_is_array(json) || json_array_size(json) != 3)
        return mx_fail(err, MX_ERR_CORRUPT, "launch: \"%s\" must be three expressions", key);
    for (size_t i = 0; !status && i < 3; i++)
        status = get_expr(scope, json_array_get(json, i), "launch", key, &out[i], err);
    return status;
}

static int find_name(const char *const *names, int n, json_t *value)
{
    const char *name = json_string_value(value);
    for (int i = 0; name && i < n; i++) {
        if (!strcmp(name, names[i]))
            return i;
    }
    return -1;
}

static mx_status parse_arg(const text_scope *scope, json_t *json, size_t index, mxrt_pack_arg *out,
                           mx_error *err)
{
    static const char *const pointer_keys[] = {"name", "kind", "buffer"};
    static const char *const value_keys[] = {"name", "kind", "value"};
    static const char *const kinds[] = {"pointer", "i32", "i64", "f32"};
    char what[48];
    mxrt_pack_text *name;
    snprintf(what, sizeof(what), "launch: args[%zu]", index);
    int kind = find_name(kinds, 4, json_object_get(json, "kind"));
    if (kind < 0)
        return mx_fail(err, MX_ERR_CORRUPT, "%s: \"kind\" must be pointer, i32, i64 or f32", what);
    mx_status status =
        check_keys(json, kind == MXRT_ARG_POINTER ? pointer_keys : value_keys, 3, what, err);
    if (status ||
        (status = get_text(scope->forms, json_object_get(json, "name"), what, "name", &name, err)))
        return status;
    out->name = name->chars;
    out->kind = (mxrt_arg_kind)kind;
    if (kind != MXRT_ARG_POINTER)
        return get_expr(scope, json_object_get(json, "value"), what, "value", &out->value, err);
    int buffer = find_name(families[scope->family].buffers, families[scope->family].n_buffers,
                           json_object_get(json, "buffer"));
    if (buffer < 0)
        return mx_fail(err, MX_ERR_CORRUPT, "%s: \"buffer\" must be %s", what,
                       families[scope->family].buffers_text);
    out->buffer = (uint16_t)buffer;
    out->buffer_name = families[scope->family].buffers[buffer];
    return MX_OK;
}

/* The arguments and where each lies. */
static mx_status parse_args(const text_scope *scope, json_t *json, mxrt_pack_launch *launch,
                            mxrt_pack_arg **args, unsigned *buffers, mx_error *err)
{
    size_t n = json_array_size(json), offset = 0;
    if (!json_is_array(json) || n > MXPACK_MAX_ARGS)
        return mx_fail(err, MX_ERR_CORRUPT, "launch: \"args\" must be an array of at most %d",
                       MXPACK_MAX_ARGS);
    mx_status status = MX_OK;
    if (!(*args = calloc(n ? n : 1, sizeof((*args)[0]))))
        return fail_memory(err);
    for (size_t i = 0; !status && i < n; i++) {
        mxrt_pack_arg *arg = &(*args)[i];
        if ((status = parse_arg(scope, json_array_get(json, i), i, arg, err)))
            break;
        size_t size = arg->kind == MXRT_ARG_POINTER || arg->kind == MXRT_ARG_I64 ? 8 : 4;
        offset = (offset + size - 1) / size * size;
        arg->offset_bytes = (uint16_t)offset;
        offset += size;
        if (arg->kind == MXRT_ARG_POINTER)
            *buffers |= 1u << arg->buffer;
    }
    launch->n_args = n;
    launch->args = *args;
    launch->args_bytes = offset;
    return status;
}

/* Names of other variants; without the member there are none. */
static mx_status parse_steps(const text_scope *scope, json_t *json, const char *key, size_t *n,
                             const char **names, mx_error *err)
{
    mx_status status = MX_OK;
    if (json && (!json_is_array(json) || json_array_size(json) > MXPACK_MAX_STEPS))
        return mx_fail(err, MX_ERR_CORRUPT, "launch: \"%s\" must be an array of at most %d names",
                       key, MXPACK_MAX_STEPS);
    for (size_t i = 0; !status && i < json_array_size(json); i++) {
        mxrt_pack_text *name;
        status = get_text(scope->forms, json_array_get(json, i), "launch", key, &name, err);
        if (!status)
            names[(*n)++] = name->chars;
    }
    return status;
}

/* The members that only grouped GEMM has. */
static mx_status parse_route(const text_scope *scope, json_t *json, mxrt_pack_launch *launch,
                             mx_error *err)
{
    json_t *workspace = json_object_get(json, "workspace_bytes");
    mx_status status = workspace ? get_expr(scope, workspace, "launch", "workspace_bytes",
                                            &launch->workspace_bytes, err)
                                 : MX_OK;
    if (!status)
        status = parse_steps(scope, json_object_get(json, "before"), "before", &launch->n_before,
                             launch->before, err);
    if (!status)
        status = parse_steps(scope, json_object_get(json, "after"), "after", &launch->n_after,
                             launch->after, err);
    return status;
}

static mx_status parse_launch(const text_scope *scope, mxrt_pack_text *text, mx_error *err)
{
    static const char *const keys[] = {"grid",   "block", "lds_bytes", "args", "workspace_bytes",
                                       "before", "after"};
    text_meaning *meaning = &text->meaning[scope->family];
    json_t *json = NULL;
    mxrt_pack_arg *args = NULL;
    unsigned buffers = 0;
    mx_status status = load_json(text, "launch", JSON_OBJECT, &json, err);
    if (status)
        return status;
    mxrt_pack_launch *launch = calloc(1, sizeof(*launch));
    if (!launch) {
        status = fail_memory(err);
        goto out;
    }
    launch->family = scope->family;
    if ((status = check_keys(json, keys, scope->family == MXRT_PACK_GEMM ? 7 : 4, "launch", err)) ||
        (status = parse_extent(scope, json_object_get(json, "grid"), "grid", launch->grid, err)) ||
        (status =
             parse_extent(scope, json_object_get(json, "block"), "block", launch->block, err)) ||
        (status = get_expr(scope, json_object_get(json, "lds_bytes"), "launch", "lds_bytes",
                           &launch->lds_bytes, err)) ||
        (status = parse_route(scope, json, launch, err)) ||
        (status = parse_args(scope, json_object_get(json, "args"), launch, &args, &buffers, err)))
        goto out;
    meaning->launch = launch;
    meaning->args = args;
    meaning->buffers = buffers;
    launch = NULL;
    args = NULL;
out:
    free(launch);
    free(args);
    json_decref(json);
    return status;
}

mx_status mxrt_pack_forms_launch(mxrt_pack_forms *forms, mxrt_pack_text *text,
                                 mxrt_pack_launch *launch, unsigned *buffers, mx_error *err)
{
    const text_scope scope = {forms, launch->family};
    const text_meaning *meaning = &text->meaning[scope.family];
    mx_status status = meaning->launch ? MX_OK : parse_launch(&scope, text, err);
    if (status)
        return status;
    mxrt_pack_launch merged = *meaning->launch;
    merged.n_rules = launch->n_rules;
    merged.rules = launch->rules;
    *launch = merged;
    *buffers = meaning->buffers;
    return MX_OK;
}

/* ---- Parameters and info ---- */

static const char *skip_space(const char *at)
{
    while (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')
        at++;
    return at;
}

typedef struct plain_key {
    const char *chars;
    size_t length;
} plain_key;

/* Past "key": INTEGER, or NULL if that is not what is there. */
static const char *skip_integer_pair(const char *at, plain_key *key)
{
    if (*at++ != '"')
        return NULL;
    key->chars = at;
    while (isalnum((unsigned char)*at) || *at == '_')
        at++;
    key->length = (size_t)(at - key->chars);
    if (*at++ != '"')
        return NULL;
    at = skip_space(at);
    if (*at++ != ':')
        return NULL;
    at = skip_space(at);
    at += *at == '-';
    size_t digits = strspn(at, "0123456789");
    if (!digits || digits > 18 || (digits > 1 && *at == '0'))
        return NULL;
    return skip_space(at + digits);
}

/* Whether the text is an object of a few different plain names with integers, which is valid
 * wherever it may be. Nearly all texts are, no two are equal, and jansson takes most of the time
 * that opening a pack takes if it must see each of them; what this refuses is jansson's to judge.
 */
static int is_integer_object(const char *text)
{
    plain_key keys[24];
    const char *at = skip_space(text);
    size_t n = 0;
    if (*at++ != '{')
        return 0;
    do {
        if (n == sizeof(keys) / sizeof(keys[0]) ||
            !(at = skip_integer_pair(skip_space(at), &keys[n])))
            return 0;
        for (size_t i = 0; i < n; i++) {
            if (keys[i].length == keys[n].length &&
                !memcmp(keys[i].chars, keys[n].chars, keys[n].length))
                return 0;
        }
        n++;
    } while (*at++ == ',');
    return at[-1] == '}' && !*skip_space(at);
}

static mx_status check_values(const mxrt_pack_text *text, const char *what,
                              const char *const *integer_keys, size_t n_integer_keys, mx_error *err)
{
    json_t *json = NULL, *value;
    const char *key;
    mx_status status = load_json(text, what, JSON_OBJECT, &json, err);
    if (status)
        return status;
    json_object_foreach(json, key, value)
    {
        if (json_is_array(value) || json_is_object(value) || json_is_null(value)) {
            status = mx_fail(err, MX_ERR_CORRUPT, "%s: \"%s\" must be a plain value", what,
                             mxrt_show_text(key).chars);
            break;
        }
    }
    for (size_t i = 0; !status && i < n_integer_keys; i++) {
        value = json_object_get(json, integer_keys[i]);
        if (value && !json_is_integer(value))
            status = mx_fail(err, MX_ERR_CORRUPT, "%s: \"%s\" must be an integer", what,
                             integer_keys[i]);
    }
    json_decref(json);
    return status;
}

mx_status mxrt_pack_forms_params(mxrt_pack_text *text, mx_error *err)
{
    mx_status status = MX_OK;
    if (!text->is_params && !is_integer_object(text->chars))
        status = check_values(text, "params", NULL, 0, err);
    text->is_params = !status;
    return status;
}

mx_status mxrt_pack_forms_info(mxrt_pack_text *text, mx_error *err)
{
    static const char *const integer_keys[] = {"vgprs",         "agprs",      "sgprs",
                                               "lds_bytes",     "spills",     "occupancy",
                                               "scratch_bytes", "code_bytes", "registers"};
    mx_status status = MX_OK;
    if (!text->is_info && !is_integer_object(text->chars))
        status = check_values(text, "info", integer_keys,
                              sizeof(integer_keys) / sizeof(integer_keys[0]), err);

    text->is_info = !status;
    return status;
}
