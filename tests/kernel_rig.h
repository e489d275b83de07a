/* For tests of kernels written by others: mxgen in a folder of the test's, and a device with the
 * pack that it made. Every helper fails the running test where something goes wrong. */
#ifndef MX_TESTS_KERNEL_RIG_H
#define MX_TESTS_KERNEL_RIG_H

#include <mxgen/kernel.h>

#include "cli_run.h"

extern char *kernel_dir; /* the test's folder */
void kernel_setup(void);
void kernel_teardown(void);

/* Runs mxgen with words separated by blanks; "@NAME" is in the test's folder, "%NAME" an example.
 */
void mxgen(cli_run *run, const char *words);
void mxgen_ok(const char *words);
void mxgen_fails(const char *words, const char *message);
void write_text(const char *name, const char *text);

typedef struct rig {
    mxrt_context *context;
    mxrt_device *device;
    mx_error err;
} rig;

void rig_open(rig *r, const char *uri, const char *pack);
void rig_close(rig *r);
const mxrt_kernel *rig_find(rig *r, const char *name);
void *rig_upload(rig *r, const void *data, size_t size_bytes);
/* And frees it. */
void rig_download(rig *r, void *data, void *memory, size_t size_bytes);
void rig_launch(rig *r, const mxrt_kernel *kernel, const mxrt_kernel_size *size,
                const mxrt_kernel_arg *args, size_t n_args);
void launch_fails(rig *r, const mxrt_kernel *kernel, const mxrt_kernel_size *size,
                  const mxrt_kernel_arg *args, size_t n_args, mx_status status,
                  const char *message);

#endif
