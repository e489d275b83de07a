#include "runtime/backends.h"

#include <stdio.h>
#include <string.h>

#include <mxgen/error.h>

/* A new driver adds its line here. */
static const mxrt_backend_ops *const backends[] = {
    &mxrt_backend_host,
    &mxrt_backend_hip,
    &mxrt_backend_cuda,
    &mxrt_backend_plan,
};

#define N_BACKENDS (sizeof(backends) / sizeof(backends[0]))

const mxrt_backend_ops *mxrt_backend_at(size_t index)
{
    return index < N_BACKENDS ? backends[index] : NULL;
}

mx_status mxrt_backend_find(const char *uri, const mxrt_backend_ops **out, const char **rest,
                            mx_error *err)
{
    size_t scheme_chars = strcspn(uri, ":?"), used = 0;
    char known[128] = "";

    for (size_t i = 0; i < N_BACKENDS; i++) {
        const char *scheme = backends[i]->scheme;
        if (strlen(scheme) == scheme_chars && !strncmp(scheme, uri, scheme_chars)) {
            *out = backends[i];
            *rest = uri + scheme_chars + (uri[scheme_chars] != 0);
            return MX_OK;
        }
        int n = snprintf(known + used, sizeof(known) - used, "%s%s", used ? ", " : "", scheme);
        used += n > 0 && (size_t)n < sizeof(known) - used ? (size_t)n : 0;
    }
    return mx_fail(err, MX_ERR_INVALID,
                   "device \"%.100s\" is unknown; devices begin with one of: %s", uri, known);
}
