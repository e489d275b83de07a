#include "kernel_form.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <mxgen/error.h>

#include "gen/gen.h"
#include "judge.h"

enum { MOST_ITEMS = 64 };

/* Whether all keys are in the list, which ends with NULL; *unknown is the first that is not. */
static bool has_known_keys(const json_t *object, const char *const *keys, const char **unknown)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        size_t i = 0;
        while (keys[i] && strcmp(key, keys[i]))
            i++;
        if (!keys[i]) {
            *unknown = key;
            return false;
        }
    }
    return true;
}

static mx_status check_name(const char *json_path, const json_t *json, const char *key,
                            mx_error *err)
{
    const json_t *value = json_object_get(json, key);
    if (!value || (json_is_string(value) && json_string_length(value)))
        return MX_OK;
    return mx_fail(err, MX_ERR_INVALID, "%s: \"%s\" must be a text, not empty", json_path, key);
}

static bool is_target(const char *name)
{
    bool found = mxgen_target_find(name) != NULL;
    for (size_t i = 0; i < mxgen_target_count(); i++)
        found |= !strcmp(mxgen_target_kind(mxgen_target_at(i)), name);
    return found;
}

static mx_status check_targets(const char *json_path, const json_t *json, mx_error *err)
{
    const json_t *targets = json_object_get(json, "targets"), *item;
    size_t i;
    if (targets && !json_array_size(targets))
        return mx_fail(err, MX_ERR_INVALID,
                       "%s: \"targets\" must be a list of targets or kinds of them", json_path);
    json_array_foreach(targets, i, item)
    {
        const char *name = json_string_value(item);
        if (!name || !is_target(name))
            return mx_fail(err, MX_ERR_INVALID,
                           "%s: targets[%zu], \"%s\", is no target: mxgen targets lists them",
                           json_path, i, name ? name : "");
    }
    return MX_OK;
}

/* "applies" and "rules". */
static mx_status check_rules(const char *json_path, const json_t *json, const char *key,
                             mx_error *err)
{
    const json_t *rules = json_object_get(json, key), *item;
    size_t i;
    if (rules && (!json_is_array(rules) || json_array_size(rules) > MOST_ITEMS))
        return mx_fail(err, MX_ERR_INVALID,
                       "%s: \"%s\" must be a list of {\"rule\": .., \"when\": ..}, at most %d",
                       json_path, key, MOST_ITEMS);
    json_array_foreach(rules, i, item)
    {
        const json_t *when = json_object_get(item, "when");
        if (json_object_size(item) != 2 || !json_is_string(json_object_get(item, "rule")) ||
            (!json_is_string(when) && !json_is_integer(when)))
            return mx_fail(err, MX_ERR_INVALID,
                           "%s: %s[%zu] must be {\"rule\": WORDS, \"when\": EXPRESSION}", json_path,
                           key, i);
    }
    return MX_OK;
}

static mx_status check_args(const char *json_path, const json_t *json, mx_error *err)
{
    static const char *const keys[] = {"name",  "kind",    "value", "pass",
                                       "shape", "strides", "bytes", NULL};
    const json_t *args = json_object_get(json, "args"), *item;
    const char *unknown = NULL;
    size_t i;
    if (args && (!json_is_array(args) || json_array_size(args) > MOST_ITEMS))
        return mx_fail(err, MX_ERR_INVALID, "%s: \"args\" must be a list of at most %d", json_path,
                       MOST_ITEMS);
    json_array_foreach(args, i, item)
    {
        const json_t *pass = json_object_get(item, "pass");
        if (!has_known_keys(item, keys, &unknown))
            return mx_fail(err, MX_ERR_INVALID,
                           "%s: args[%zu] has an unknown key \"%s\"; there are name, kind, value, "
                           "pass, shape, strides, bytes",
                           json_path, i, unknown);
        if (pass && !json_is_boolean(pass))
            return mx_fail(err, MX_ERR_INVALID, "%s: args[%zu]: \"pass\" must be true or false",
                           json_path, i);
    }
    return MX_OK;
}

mx_status kernel_form_check(const char *json_path, const json_t *json, mx_error *err)
{
    static const char *const keys[] = {"kernel", "symbol",    "targets", "params", "applies",
                                       "rules",  "args",      "grid",    "block",  "cost",
                                       "check",  "lds_bytes", NULL};
    const char *unknown = NULL;
    if (!json_is_object(json))
        return mx_fail(err, MX_ERR_INVALID, "%s: not an object", json_path);
    if (!has_known_keys(json, keys, &unknown))
        return mx_fail(err, MX_ERR_INVALID,
                       "%s: unknown key \"%s\"; there are kernel, symbol, targets, params, "
                       "applies, rules, args, grid, block, lds_bytes, cost, check",
                       json_path, unknown);
    mx_status status = check_name(json_path, json, "kernel", err);
    if (status == MX_OK)
        status = check_name(json_path, json, "symbol", err);
    if (status == MX_OK)
        status = check_targets(json_path, json, err);
    if (status == MX_OK)
        status = check_rules(json_path, json, "applies", err);
    if (status == MX_OK)
        status = check_rules(json_path, json, "rules", err);
    if (status == MX_OK)
        status = check_args(json_path, json, err);
    if (status == MX_OK && json_object_get(json, "check"))
        status = judge_check(json_object_get(json, "check"), json_path, err);
    return status;
}
