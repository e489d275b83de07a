#include "runtime/dynlib.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

static pthread_mutex_t libraries_lock = PTHREAD_MUTEX_INITIALIZER;
static mxrt_dynlib *libraries;

/* What was tried and why it failed; cut off when full. */
typedef struct attempts {
    char text[800];
    size_t length;
} attempts;

MX_PRINTF(2, 3)
static void attempts_add(attempts *list, const char *format, ...)
{
    size_t room = sizeof(list->text) - list->length;
    va_list args;
    va_start(args, format);
    int written = vsnprintf(list->text + list->length, room, format, args);
    va_end(args);
    if (written > 0)
        list->length += (size_t)written < room ? (size_t)written : room - 1;
}

static void *find_symbol(const mxrt_dynlib_spec *spec, void *handle,
                         const mxrt_dynlib_symbol *symbol)
{
    if (spec->lookup)
        return spec->lookup(handle, symbol);
    return dlsym(handle, symbol->exported ? symbol->exported : symbol->name);
}

/* Nonzero if all required symbols are there; else the missing ones are in `tried`. */
static int fill_table(const mxrt_dynlib_spec *spec, void *handle, void *table, const char *name,
                      attempts *tried)
{
    size_t n_missing = 0;
    for (size_t i = 0; i < spec->n_symbols; i++) {
        const mxrt_dynlib_symbol *symbol = &spec->symbols[i];
        void *address = find_symbol(spec, handle, symbol);
        memcpy((char *)table + symbol->offset, &address, sizeof(address));
        if (address || !symbol->required)
            continue;
        attempts_add(tried, n_missing ? ", %s%s" : "; %s lacks %s", n_missing ? "" : name,
                     symbol->exported ? symbol->exported : symbol->name);
        n_missing++;
    }
    return n_missing == 0;
}

static char *loaded_path(void *handle, const char *name)
{
    struct link_map *map = NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map && map->l_name && map->l_name[0])
        return strdup(map->l_name);
    return strdup(name);
}

static mxrt_dynlib *library_known(const mxrt_dynlib_spec *spec, const void *handle)
{
    for (mxrt_dynlib *library = libraries; library; library = library->next) {
        if (library->spec == spec && library->handle == handle)
            return library;
    }
    return NULL;
}

/* Takes over `handle` in every case. NULL: not usable, the reason is in `tried`. */
static mxrt_dynlib *library_adopt(const mxrt_dynlib_spec *spec, void *handle, const char *name,
                                  attempts *tried)
{
    mxrt_dynlib *library = library_known(spec, handle);
    if (library) {
        dlclose(handle); /* only drops the reference that this dlopen added */
        return library;
    }
    library = calloc(1, sizeof(*library));
    void *table = calloc(1, spec->table_bytes);
    char *path = loaded_path(handle, name);
    if (!library || !table || !path) {
        attempts_add(tried, "; %s: no host memory for its table", name);
        goto fail;
    }
    if (!fill_table(spec, handle, table, path, tried))
        goto fail;
    *library = (mxrt_dynlib){spec, handle, table, path, libraries};
    libraries = library;
    return library;
fail:
    free(path);
    free(table);
    free(library);
    dlclose(handle);
    return NULL;
}

static mxrt_dynlib *try_open(const mxrt_dynlib_spec *spec, const char *name, int flags,
                             attempts *tried)
{
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | flags);
    if (handle)
        return library_adopt(spec, handle, name, tried);
    const char *reason = dlerror();
    if (!(flags & RTLD_NOLOAD))
        attempts_add(tried, "; %s", reason ? reason : name);
    return NULL;
}

static mxrt_dynlib *search(const mxrt_dynlib_spec *spec, attempts *tried)
{
    mxrt_dynlib *library = NULL;
    for (const char *const *name = spec->names; *name && !library; name++)
        library = try_open(spec, *name, RTLD_NOLOAD, tried);
    for (const char *const *name = spec->names; *name && !library; name++)
        library = try_open(spec, *name, 0, tried);
    return library;
}

mx_status mxrt_dynlib_open(const mxrt_dynlib_spec *spec, const char *path, const mxrt_dynlib **out,
                           mx_error *err)
{
    attempts tried = {.text = ""};
    const char *origin = path ? "the library option" : spec->env;
    if (!path)
        path = secure_getenv(spec->env);
    if (path && !path[0])
        path = NULL;
    pthread_mutex_lock(&libraries_lock);
    mxrt_dynlib *library = path ? try_open(spec, path, 0, &tried) : search(spec, &tried);
    pthread_mutex_unlock(&libraries_lock);
    if (library) {
        *out = library;
        return MX_OK;
    }
    const char *reasons = tried.length > 2 ? tried.text + 2 : "nothing was tried";
    if (path)
        return mx_fail(err, MX_ERR_NOT_FOUND,
                       "%s cannot be loaded from %s, which %s names: %s; correct or unset it",
                       spec->title, path, origin, reasons);
    return mx_fail(
        err, MX_ERR_NOT_FOUND,
        "%s is not here (no copy is loaded in this process; tried: %s); %s, or set %s to "
        "the library's path",
        spec->title, reasons, spec->advice, spec->env);
}
