/* The conformance cases on one device, by default the host: test_backend [URI]. */
#include "backend_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED = 77 };

static int split_uri(const char *uri, backend_rig *rig)
{
    static const mxrt_backend_ops *const known[] = {&mxrt_backend_host, &mxrt_backend_hip,
                                                    &mxrt_backend_cuda};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        size_t length = strlen(known[i]->scheme);
        if (strncmp(uri, known[i]->scheme, length) != 0)
            continue;
        rig->ops = known[i];
        rig->rest = uri[length] ? uri + length + 1 : "";
        return 0;
    }
    return -1;
}

int main(int argc, char **argv)
{
    backend_rig rig = {.rest = ""};
    const char *uri = argc > 1 ? argv[1] : "host";
    if (split_uri(uri, &rig)) {
        fprintf(stderr, "%s: not a URI of the host, hip or cuda\n", uri);
        return 2;
    }
    /* A driver's state does not survive the fork that Check makes for each case. */
    if (rig.ops != &mxrt_backend_host)
        setenv("CK_FORK", "no", 1);
    const char *reason = backend_skip_reason(&rig);
    if (reason) {
        printf("skipped: %s: %s\n", uri, reason);
        return SKIPPED;
    }
    Suite *suite = suite_create(uri);
    suite_add_tcase(suite, backend_cases(&rig));
    return backend_run_suite(suite);
}
