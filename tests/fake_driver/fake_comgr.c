/* A stand-in for ROCm's comgr, as libamd_comgr.so.2 or .so.3 would answer. Its results are texts
 * that tell what was asked for. Environment: FAKECOMGR_MAJOR   interface version: 2, 3 (default),
 * .. FAKECOMGR_CHIPS   chips it knows, with blanks between; default "gfx90a gfx942" FAKECOMGR_LLD
 * version of its linker; default 22.1.0 FAKECOMGR_FAIL    an entry point, without amd_comgr_, that
 * fails FAKECOMGR_ACTION  number of the action to which the next three apply FAKECOMGR_STATUS,
 * FAKECOMGR_LOG   what it returns, and logs FAKECOMGR_EMPTY   set: it gives no result
 *   FAKECOMGR_CRASH   set: it ends the process by a signal */
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KIND_LOG = 5, KIND_COUNT = 16, MAX_OBJECTS = 64 };

/* Data, sets and infos in one, to keep this small; the handle is the address. */
typedef struct object {
    int kind;
    char *bytes;
    size_t size_bytes;
    struct object *of_kind[KIND_COUNT];
    char isa[100], options[200];
    bool logs;
} object;

typedef struct handle {
    uint64_t address;
} handle;

static object *get(handle h)
{
    return (object *)(uintptr_t)h.address;
}

static const char *setting(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

static int fails(const char *entry)
{
    return !strcmp(setting("FAKECOMGR_FAIL", ""), entry);
}

static int make(handle *out)
{
    out->address = (uintptr_t)calloc(1, sizeof(object));
    return out->address == 0;
}

#pragma GCC visibility push(default)

static size_t major(void)
{
    return (size_t)atoi(setting("FAKECOMGR_MAJOR", "3"));
}

void amd_comgr_get_version(size_t *out_major, size_t *out_minor)
{
    *out_major = major();
    *out_minor = 1;
}

static char *chip_at(size_t index)
{
    static char name[64];
    const char *at = setting("FAKECOMGR_CHIPS", "gfx90a gfx942");
    while (index-- && at)
        at = (at = strchr(at, ' ')) ? at + 1 : NULL;
    if (!at)
        return NULL;
    snprintf(name, sizeof(name), "amdgcn-amd-amdhsa--%.*s", (int)strcspn(at, " "), at);
    return name;
}

int amd_comgr_get_isa_count(size_t *count)
{
    for (*count = 0; chip_at(*count);)
        ++*count;
    return 0;
}

int amd_comgr_get_isa_name(size_t index, const char **name)
{
    return !(*name = chip_at(index));
}

int amd_comgr_create_data(int kind, handle *data)
{
    if (fails("create_data") || make(data))
        return 1;
    get(*data)->kind = kind;
    return 0;
}

int amd_comgr_release_data(handle data)
{
    (void)data;
    return 0;
}

int amd_comgr_set_data(handle data, size_t size_bytes, const char *bytes)
{
    object *o = get(data);
    if (fails("set_data") || !(o->bytes = malloc(size_bytes)))
        return 1;
    memcpy(o->bytes, bytes, size_bytes);
    o->size_bytes = size_bytes;
    return 0;
}

int amd_comgr_set_data_name(handle data, const char *name)
{
    (void)data;
    return fails("set_data_name") || !*name;
}

int amd_comgr_get_data(handle data, size_t *size_bytes, char *bytes)
{
    if (fails("get_data"))
        return 1;
    if (bytes)
        memcpy(bytes, get(data)->bytes, *size_bytes);
    else
        *size_bytes = get(data)->size_bytes;
    return 0;
}

int amd_comgr_create_data_set(handle *set)
{
    return fails("create_data_set") || make(set);
}

int amd_comgr_destroy_data_set(handle set)
{
    free(get(set));
    return 0;
}

int amd_comgr_data_set_add(handle set, handle data)
{
    if (fails("data_set_add"))
        return 1;
    get(set)->of_kind[get(data)->kind] = get(data);
    return 0;
}

int amd_comgr_action_data_count(handle set, int kind, size_t *count)
{
    *count = get(set)->of_kind[kind] != NULL;
    return 0;
}

int amd_comgr_action_data_get_data(handle set, int kind, size_t index, handle *data)
{
    (void)index;
    data->address = (uintptr_t)get(set)->of_kind[kind];
    return 0;
}

int amd_comgr_create_action_info(handle *info)
{
    return fails("create_action_info") || make(info);
}

int amd_comgr_destroy_action_info(handle info)
{
    free(get(info));
    return 0;
}

int amd_comgr_action_info_set_isa_name(handle info, const char *isa)
{
    snprintf(get(info)->isa, sizeof(get(info)->isa), "%s", isa);
    return fails("action_info_set_isa_name");
}

int amd_comgr_action_info_set_option_list(handle info, const char *options[], size_t count)
{
    char *text = get(info)->options;
    for (size_t i = 0; i < count; i++)
        strcat(strcat(text, " "), options[i]);
    return fails("action_info_set_option_list");
}

int amd_comgr_action_info_set_logging(handle info, bool logging)
{
    get(info)->logs = logging;
    return fails("action_info_set_logging");
}

static void add_text(handle set, int kind, const char *text, size_t size_bytes)
{
    handle data = {0};
    make(&data);
    get(data)->kind = kind;
    get(data)->bytes = malloc(size_bytes + 1);
    memcpy(get(data)->bytes, text, size_bytes);
    get(data)->size_bytes = size_bytes;
    get(set)->of_kind[kind] = get(data);
}

/* What an action reads and writes, by its number in a version; 0 for those it does not have here.
 */
static bool kinds_of(int action, int *input, int *output)
{
    static const int numbers[2][3] = {{6, 9, 10}, {4, 7, 8}};
    static const int kinds[3][2] = {{6, 7}, {7, 8}, {1, 7}};
    for (int i = 0; i < 3; i++) {
        if (numbers[major() == 3][i] == action) {
            *input = kinds[i][0];
            *output = kinds[i][1];
            return true;
        }
    }
    return false;
}

int amd_comgr_do_action(int action, handle info, handle input, handle result)
{
    int from, to;
    const char *log = "";
    bool chosen = atoi(setting("FAKECOMGR_ACTION", "-1")) == action;
    if (!kinds_of(action, &from, &to) || !get(input)->of_kind[from])
        return 2; /* an invalid argument */
    if (chosen && getenv("FAKECOMGR_CRASH"))
        raise(SIGKILL);
    if (chosen)
        log = setting("FAKECOMGR_LOG", "");
    if (get(info)->logs)
        add_text(result, KIND_LOG, log, strlen(log));
    if (!chosen || !getenv("FAKECOMGR_EMPTY")) {
        char text[600];
        const object *source = get(input)->of_kind[from];
        bool is_text =
            source->size_bytes < 300 && memchr(source->bytes, 0, source->size_bytes) == NULL;
        int n = snprintf(
            text, sizeof(text), "action %d of %zu.1 for %s with%s; Linker: Fake LLD %s; %.*s\n",
            action, major(), get(info)->isa, get(info)->options, setting("FAKECOMGR_LLD", "22.1.0"),
            is_text ? (int)source->size_bytes : 4, source->bytes);
        add_text(result, to, text, (size_t)n);
    }
    return chosen ? atoi(setting("FAKECOMGR_STATUS", "0")) : 0;
}
