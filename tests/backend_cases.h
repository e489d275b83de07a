/* The conformance suite of device drivers: the same cases for the host, simulated, imitated and
 * real devices. */
#ifndef BACKEND_CASES_H
#define BACKEND_CASES_H

#include <check.h>

#include "runtime/backend.h"

/* The driver under test. Hooks are NULL where the driver is real. */
typedef struct backend_rig {
    const mxrt_backend_ops *ops;
    const char *rest; /* of the URI, after the scheme */
    void (*fail_call)(int n);
    uint64_t (*call_count)(void);
    uint64_t (*live_objects)(void);
} backend_rig;

typedef struct backend_object {
    const char *kind;
    void *data; /* malloc'ed */
    size_t bytes;
} backend_object;

/* The compiled tests/kernels for the opened device: from MX_TEST_KERNELS, or else the folder of the
 * running program. NULL data if there is none for it. */
backend_object backend_read_object(const backend_rig *rig, const mxrt_backend *backend);

/* NULL if the device opens and has kernels to run; else the reason, for a skip. */
const char *backend_skip_reason(const backend_rig *rig);

/* The suite's cases for the rig, which must outlive the run. */
TCase *backend_cases(const backend_rig *rig);

/* Runs a suite and returns the exit status for main. */
int backend_run_suite(Suite *suite);

/* ---- For suites with more cases ---- */

/* The rig of backend_cases, opened by the fixture of the running case. */
extern const backend_rig *backend_rig_now;
extern mxrt_backend *backend_now;
extern backend_object backend_object_now;

void backend_fixture_open(void);
void backend_fixture_close(void);

/* y[i] = x[i] + addend for n elements: loads the kernel, runs it on `stream`, checks y. */
mx_status backend_run_add(mxrt_backend *backend, const backend_object *object, int64_t n,
                          mxrt_stream stream, mx_error *err);

#define ck_assert_contains(text, part)                                                             \
    ck_assert_msg(strstr(text, part) != NULL, "\"%s\" does not say \"%s\"", text, part)

#endif
