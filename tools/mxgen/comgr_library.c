#include "comgr_library.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "runtime/dynlib.h"

/* ---- The interface ---- */

/* Handles are structs with one 64-bit number, which is passed like the number. */
typedef uint64_t comgr_handle;

typedef struct comgr_table {
    void (*get_version)(size_t *major, size_t *minor);
    int (*get_isa_count)(size_t *count);
    int (*get_isa_name)(size_t index, const char **name);
    int (*create_data)(int kind, comgr_handle *data);
    int (*release_data)(comgr_handle data);
    int (*set_data)(comgr_handle data, size_t size_bytes, const char *bytes);
    int (*set_data_name)(comgr_handle data, const char *name);
    int (*get_data)(comgr_handle data, size_t *size_bytes, char *bytes);
    int (*create_data_set)(comgr_handle *set);
    int (*destroy_data_set)(comgr_handle set);
    int (*data_set_add)(comgr_handle set, comgr_handle data);
    int (*action_data_count)(comgr_handle set, int kind, size_t *count);
    int (*action_data_get_data)(comgr_handle set, int kind, size_t index, comgr_handle *data);
    int (*create_action_info)(comgr_handle *info);
    int (*destroy_action_info)(comgr_handle info);
    int (*action_info_set_isa_name)(comgr_handle info, const char *isa);
    int (*action_info_set_option_list)(comgr_handle info, const char **options, size_t count);
    int (*action_info_set_logging)(comgr_handle info, bool logging);
    int (*do_action)(int action, comgr_handle info, comgr_handle input, comgr_handle result);
} comgr_table;

#define SYMBOL(name)                                                                               \
    {                                                                                              \
        "amd_comgr_" #name, NULL, offsetof(comgr_table, name), 1                                   \
    }

static const mxrt_dynlib_symbol comgr_symbols[] = {
    SYMBOL(get_version),
    SYMBOL(get_isa_count),
    SYMBOL(get_isa_name),
    SYMBOL(create_data),
    SYMBOL(release_data),
    SYMBOL(set_data),
    SYMBOL(set_data_name),
    SYMBOL(get_data),
    SYMBOL(create_data_set),
    SYMBOL(destroy_data_set),
    SYMBOL(data_set_add),
    SYMBOL(action_data_count),
    SYMBOL(action_data_get_data),
    SYMBOL(create_action_info),
    SYMBOL(destroy_action_info),
    SYMBOL(action_info_set_isa_name),
    SYMBOL(action_info_set_option_list),
    SYMBOL(action_info_set_logging),
    SYMBOL(do_action),
};

static const char *const comgr_names[] = {"libamd_comgr.so.3", "libamd_comgr.so.2", NULL};

static const mxrt_dynlib_spec comgr_spec = {
    .title = "comgr, ROCm's code object manager",
    .env = "MXGEN_COMGR_LIBRARY",
    .names = comgr_names,
    .advice = "install ROCm's comgr (Debian: libamd-comgr2), or build with --codegen llvm",
    .symbols = comgr_symbols,
    .n_symbols = sizeof(comgr_symbols) / sizeof(comgr_symbols[0]),
    .table_bytes = sizeof(comgr_table),
};

enum { FIRST_MAJOR = 2, LAST_MAJOR = 3 };

static const struct {
    int input, output;
    int numbers[LAST_MAJOR - FIRST_MAJOR + 1]; /* by major version */
    const char *name, *input_name;
} actions[COMGR_ACTION_COUNT] = {
    [COMGR_CODEGEN] = {COMGR_DATA_BC, COMGR_DATA_RELOCATABLE, {6, 4}, "generating code", "in.bc"},
    [COMGR_LINK] = {COMGR_DATA_RELOCATABLE, COMGR_DATA_EXECUTABLE, {9, 7}, "linking", "in.o"},
    [COMGR_ASSEMBLE] = {COMGR_DATA_SOURCE, COMGR_DATA_RELOCATABLE, {10, 8}, "assembling", "in.s"},
};

struct comgr_library {
    const comgr_table *table;
    const char *path;
    size_t major, minor;
};

/* ---- The library ---- */

mx_status comgr_open(const char *path, const comgr_library **out, mx_error *err)
{
    static comgr_library opened;
    const mxrt_dynlib *found;
    mx_status status = mxrt_dynlib_open(&comgr_spec, path, &found, err);
    if (status != MX_OK)
        return status;
    opened.table = found->table;
    opened.path = found->path;
    opened.table->get_version(&opened.major, &opened.minor);
    if (opened.major < FIRST_MAJOR || opened.major > LAST_MAJOR)
        return mx_fail(err, MX_ERR_UNSUPPORTED,
                       "%s has interface %zu.%zu; mxgen knows %d.x and %d.x: name another with "
                       "--comgr, or build with --codegen llvm",
                       opened.path, opened.major, opened.minor, (int)FIRST_MAJOR, (int)LAST_MAJOR);
    *out = &opened;
    return MX_OK;
}

const char *comgr_path(const comgr_library *library)
{
    return library->path;
}

void comgr_version(const comgr_library *library, size_t *major, size_t *minor)
{
    *major = library->major;
    *minor = library->minor;
}

size_t comgr_isa_count(const comgr_library *library)
{
    size_t count = 0;
    return library->table->get_isa_count(&count) ? 0 : count;
}

const char *comgr_isa(const comgr_library *library, size_t index)
{
    const char *name = NULL;
    return library->table->get_isa_name(index, &name) ? NULL : name;
}

bool comgr_knows(const comgr_library *library, const char *isa)
{
    size_t count = comgr_isa_count(library);
    for (size_t i = 0; i < count; i++) {
        const char *known = comgr_isa(library, i);
        if (known && !strcmp(known, isa))
            return true;
    }
    return false;
}

/* ---- Actions ---- */

/* What an action needs; 0 is no handle. */
typedef struct session {
    const comgr_table *table;
    comgr_handle info, input, result;
} session;

static void session_finish(session *s)
{
    if (s->result)
        s->table->destroy_data_set(s->result);
    if (s->input)
        s->table->destroy_data_set(s->input);
    if (s->info)
        s->table->destroy_action_info(s->info);
}

/* The first comgr call that fails, by name; NULL if none does. */
static const char *session_init(session *s, comgr_action action, const char *isa, comgr_bytes input)
{
    /* The code is optimised already. */
    static const char *options[] = {"-O3", "-Xclang", "-disable-llvm-passes"};
    const comgr_table *table = s->table;
    comgr_handle data = 0;
    const char *failed = NULL;
    if (table->create_action_info(&s->info))
        return "amd_comgr_create_action_info";
    if (table->action_info_set_isa_name(s->info, isa))
        return "amd_comgr_action_info_set_isa_name";
    if (table->action_info_set_logging(s->info, true))
        return "amd_comgr_action_info_set_logging";
    if (action == COMGR_CODEGEN &&
        table->action_info_set_option_list(s->info, options, sizeof(options) / sizeof(options[0])))
        return "amd_comgr_action_info_set_option_list";
    if (table->create_data_set(&s->input) || table->create_data_set(&s->result))
        return "amd_comgr_create_data_set";
    if (table->create_data(actions[action].input, &data))
        return "amd_comgr_create_data";
    if (table->set_data(data, input.size_bytes, input.data))
        failed = "amd_comgr_set_data";
    else if (table->set_data_name(data, actions[action].input_name))
        failed = "amd_comgr_set_data_name";
    else if (table->data_set_add(s->input, data))
        failed = "amd_comgr_data_set_add";
    table->release_data(data); /* the set has it */
    return failed;
}

/* The first result of a kind; false where there is none. Terminated by a zero behind the last byte.
 */
static bool session_take(const session *s, int kind, comgr_bytes *out)
{
    size_t count = 0;
    comgr_handle data = 0;
    comgr_bytes taken = {NULL, 0};
    if (s->table->action_data_count(s->result, kind, &count) || count == 0 ||
        s->table->action_data_get_data(s->result, kind, 0, &data))
        return false;
    bool good = !s->table->get_data(data, &taken.size_bytes, NULL);
    if (good && (taken.data = calloc(taken.size_bytes + 1, 1)))
        good = !s->table->get_data(data, &taken.size_bytes, taken.data);
    s->table->release_data(data);
    if (!good || !taken.data) {
        free(taken.data);
        return false;
    }
    *out = taken;
    return true;
}

static mx_status run_session(session *s, int major, comgr_action action, const char *isa,
                             comgr_bytes input, comgr_bytes *out, mx_error *err)
{
    const char *name = actions[action].name;
    const char *failed = session_init(s, action, isa, input);
    if (failed)
        return mx_fail(err, MX_ERR_INTERNAL, "%s for %s: %s fails", name, isa, failed);
    int code = s->table->do_action(actions[action].numbers[major - FIRST_MAJOR], s->info, s->input,
                                   s->result);
    comgr_bytes log = {NULL, 0};
    const char *text = session_take(s, COMGR_DATA_LOG, &log) ? log.data : "";
    mx_status status = MX_OK;
    /* Unknown options and the like are told there only. */
    if (code != 0)
        status = mx_fail(err, MX_ERR_INTERNAL, "%s for %s fails with status %d: %.700s", name, isa,
                         code, *text ? text : "comgr tells no more");
    else if (strstr(text, "error:"))
        status = mx_fail(err, MX_ERR_INTERNAL,
                         "%s for %s is reported as a success with an error in its log: %.700s",
                         name, isa, text);
    else if (!session_take(s, actions[action].output, out))
        status = mx_fail(err, MX_ERR_INTERNAL, "%s for %s gives no result: %.700s", name, isa,
                         *text ? text : "comgr tells no more");
    free(log.data);
    return status;
}

mx_status comgr_run(const comgr_library *library, comgr_action action, const char *isa,
                    comgr_bytes input, comgr_bytes *out, mx_error *err)
{
    session s = {.table = library->table};
    mx_status status = run_session(&s, (int)library->major, action, isa, input, out, err);
    session_finish(&s);
    return status;
}
