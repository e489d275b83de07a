/* driver_symbols hip|cuda LIBRARY: checks a real driver library without a device. Every required
 * entry point must be there; opening a device must work or say clearly that there is none. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "runtime/backend.h"
#include "runtime/dynlib.h"

enum { USAGE = 2, FAILED = 1 };

static int check_symbols(const mxrt_dynlib_spec *spec, const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        printf("FAIL: %s\n", dlerror());
        return FAILED;
    }
    size_t n_found = 0, n_missing = 0;
    for (size_t i = 0; i < spec->n_symbols; i++) {
        const mxrt_dynlib_symbol *symbol = &spec->symbols[i];
        const char *name = symbol->exported ? symbol->exported : symbol->name;
        if (dlsym(handle, name)) {
            n_found++;
            continue;
        }
        printf("%s: %s is not there\n", symbol->required ? "FAIL" : "optional", name);
        n_missing += symbol->required != 0;
    }
    printf("%zu of %zu entry points found\n", n_found, spec->n_symbols);
    return n_missing ? FAILED : 0;
}

static int check_open(const mxrt_backend_ops *ops, const char *path)
{
    char rest[4096];
    mxrt_backend *backend = NULL;
    mx_error error = {MX_OK, ""};
    snprintf(rest, sizeof(rest), "0?library=%s", path);
    mx_status status = ops->open(NULL, rest, &backend, &error);
    if (status == MX_OK) {
        printf("%s:0 opens\n", ops->scheme);
        ops->close(backend);
        return 0;
    }
    printf("%s\n", error.message);
    return status == MX_ERR_NOT_FOUND && strstr(error.message, "no such device is visible")
               ? 0
               : FAILED;
}

int main(int argc, char **argv)
{
    if (argc != 3 || (strcmp(argv[1], "hip") != 0 && strcmp(argv[1], "cuda") != 0)) {
        fprintf(stderr, "usage: driver_symbols hip|cuda LIBRARY\n");
        return USAGE;
    }
    int is_hip = !strcmp(argv[1], "hip");
    int failed = check_symbols(is_hip ? &mxrt_hip_library : &mxrt_cuda_library, argv[2]);
    return failed ? failed : check_open(is_hip ? &mxrt_backend_hip : &mxrt_backend_cuda, argv[2]);
}
