#include "judge.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mxgen/error.h>

#include "gen/process.h"

enum { MOST_WORDS = 32 };

mx_status judge_check(const json_t *check, const char *json_path, mx_error *err)
{
    const json_t *command = json_object_get(check, "command"), *word;
    const json_t *args = json_object_get(check, "args");
    size_t n = json_array_size(command), i;
    const char *name;
    json_t *value;
    if (!json_is_object(check) || !command || (args && !json_is_object(args)) ||
        json_object_size(check) != (args ? 2u : 1u))
        return mx_fail(err, MX_ERR_INVALID,
                       "%s: \"check\" must be {\"command\": [PROGRAM, ARGUMENT..], \"args\": {..}}",
                       json_path);
    if (n < 1 || n > MOST_WORDS)
        return mx_fail(err, MX_ERR_INVALID,
                       "%s: check: \"command\" must be a list of 1 to %d texts", json_path,
                       MOST_WORDS);
    json_array_foreach(command, i, word)
    {
        if (!json_is_string(word))
            return mx_fail(err, MX_ERR_INVALID, "%s: check: command[%zu] is no text", json_path, i);
    }
    json_object_foreach((json_t *)args, name, value)
    {
        if (!json_is_number(value))
            return mx_fail(err, MX_ERR_INVALID, "%s: check: argument %s is no number", json_path,
                           name);
    }
    return MX_OK;
}

mx_status judge_read(const char *json_path, json_t **check, mx_error *err)
{
    json_error_t why;
    json_t *file = json_load_file(json_path, JSON_REJECT_DUPLICATES, &why);
    if (!file && why.line < 0)
        return mx_fail(err, MX_ERR_NOT_FOUND, "%s: %s", json_path, why.text);
    if (!file)
        return mx_fail(err, MX_ERR_INVALID, "%s:%d:%d: %s", json_path, why.line, why.column,
                       why.text);
    json_t *found = json_incref(json_object_get(file, "check"));
    json_decref(file);
    mx_status status = found ? judge_check(found, json_path, err)
                             : mx_fail(err, MX_ERR_INVALID, "%s has no \"check\"", json_path);
    if (status == MX_OK)
        *check = found;
    else
        json_decref(found);
    return status;
}

/* ---- The command's folder ---- */

static mx_status write_memory(const judge_memory *memory, const mxgen_scratch *scratch,
                              mx_error *err)
{
    char name[200];
    snprintf(name, sizeof(name), "%.150s.in", memory->name);
    mx_status status = mxgen_scratch_write(scratch, name, memory->before, memory->size_bytes, err);
    snprintf(name, sizeof(name), "%.150s.out", memory->name);
    if (status == MX_OK)
        status = mxgen_scratch_write(scratch, name, memory->after, memory->size_bytes, err);
    return status;
}

static mx_status write_args(const json_t *args, const char *variant, const mxgen_scratch *scratch,
                            mx_error *err)
{
    json_t *json = json_deep_copy(args);
    json_object_set_new(json, "variant", json_string(variant));
    char *text = json_dumps(json, JSON_COMPACT);
    mx_status status = text ? mxgen_scratch_write(scratch, "args.json", text, strlen(text), err)
                            : mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
    json_decref(json);
    free(text);
    return status;
}

/* The path of a file beside FILE.json; the word itself if there is none. malloc'ed. */
static char *beside(const char *json_path, const char *word)
{
    char *path = NULL, *absolute = NULL;
    const char *slash = strrchr(json_path, '/');
    int folder = slash ? (int)(slash - json_path + 1) : 0;
    if (asprintf(&path, "%.*s%s", folder, json_path, word) < 0)
        return NULL;
    if (!access(path, R_OK))
        absolute = realpath(path, NULL);
    free(path);
    return absolute ? absolute : strdup(word);
}

static mx_status run_command(const json_t *check, const char *json_path, const char *variant,
                             const mxgen_scratch *scratch, mx_error *err)
{
    const json_t *command = json_object_get(check, "command");
    const char *argv[MOST_WORDS + 2] = {"/usr/bin/env"};
    char *words[MOST_WORDS] = {NULL}, *log = NULL;
    size_t n = json_array_size(command);
    int code = -1;
    mx_error reason = {MX_OK, ""};
    mx_status status = MX_OK;
    for (size_t i = 0; i < n; i++) {
        argv[1 + i] = words[i] = beside(json_path, json_string_value(json_array_get(command, i)));
        if (!words[i])
            status = mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
    }
    if (status == MX_OK && mxgen_process_run(argv, scratch, &log, &code, &reason) != MX_OK)
        status = mx_fail(err, MX_ERR_INVALID, "%s is wrong, says \"check\" of %s: %.700s", variant,
                         json_path, code > 0 && log && log[0] ? log : reason.message);
    free(log);
    for (size_t i = 0; i < n; i++)
        free(words[i]);
    return status;
}

mx_status judge_run(const json_t *check, const char *json_path, const json_t *args,
                    const char *variant, const judge_memory *memory, size_t n, mx_error *err)
{
    mxgen_scratch scratch = {""};
    mx_status status = judge_check(check, json_path, err);
    if (status == MX_OK)
        status = mxgen_scratch_create(&scratch, err);
    if (status == MX_OK)
        status = write_args(args, variant, &scratch, err);
    for (size_t i = 0; i < n && status == MX_OK; i++)
        status = write_memory(&memory[i], &scratch, err);
    if (status == MX_OK)
        status = run_command(check, json_path, variant, &scratch, err);
    mxgen_scratch_destroy(&scratch);
    return status;
}
