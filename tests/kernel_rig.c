#include "kernel_rig.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_run.h"

enum { MAX_WORDS = 24 };

char *kernel_dir;

void kernel_setup(void)
{
    kernel_dir = cli_temp_create();
}

void kernel_teardown(void)
{
    cli_temp_destroy(kernel_dir);
}

/* ---- mxgen ---- */

void mxgen(cli_run *run, const char *words)
{
    const char *argv[MAX_WORDS + 1] = {getenv("MXGEN")}, *examples = getenv("MX_TEST_EXAMPLES");
    char *paths[MAX_WORDS] = {0}, *copy = strdup(words), *rest = copy;
    size_t n = 1;
    ck_assert_msg(argv[0] && examples, "set MXGEN and MX_TEST_EXAMPLES");
    for (char *word; (word = strsep(&rest, " "));) {
        ck_assert_uint_lt(n, MAX_WORDS);
        argv[n] = word;
        if (word[0] == '@' || word[0] == '%')
            argv[n] = paths[n] = cli_temp_path(word[0] == '@' ? kernel_dir : examples, word + 1);
        n++;
    }
    cli_run_start(run, argv);
    for (size_t i = 0; i < MAX_WORDS; i++)
        free(paths[i]);
    free(copy);
}

void mxgen_ok(const char *words)
{
    cli_run run;
    mxgen(&run, words);
    ck_assert_msg(run.exit_code == 0, "mxgen %s: exit %d: %s", words, run.exit_code, run.err);
    cli_run_finish(&run);
}

void mxgen_fails(const char *words, const char *message)
{
    cli_run run;
    mxgen(&run, words);
    ck_assert_msg(run.exit_code == 1, "mxgen %s: exit %d: %s", words, run.exit_code, run.err);
    ck_assert_msg(strstr(run.err, message) != NULL, "mxgen %s: no \"%s\" in: %s", words, message,
                  run.err);
    cli_run_finish(&run);
}

void write_text(const char *name, const char *text)
{
    char *path = cli_temp_path(kernel_dir, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
    free(path);
}

/* ---- A device with a pack ---- */

void rig_open(rig *r, const char *uri, const char *pack)
{
    char *path = cli_temp_path(kernel_dir, pack);
    ck_assert_msg(!mxrt_context_create(NULL, &r->context, &r->err), "%s", r->err.message);
    ck_assert_msg(!mxrt_context_add_pack_file(r->context, path, &r->err), "%s", r->err.message);
    ck_assert_msg(!mxrt_device_open(r->context, uri, &r->device, &r->err), "%s", r->err.message);
    free(path);
}

void rig_close(rig *r)
{
    mxrt_device_close(r->device);
    mxrt_context_destroy(r->context);
}

const mxrt_kernel *rig_find(rig *r, const char *name)
{
    const mxrt_kernel *kernel = NULL;
    ck_assert_msg(!mxrt_kernel_find(r->device, name, &kernel, &r->err), "%s", r->err.message);
    return kernel;
}

void *rig_upload(rig *r, const void *data, size_t size_bytes)
{
    void *memory = NULL;
    ck_assert_msg(!mxrt_device_alloc(r->device, size_bytes, &memory, &r->err), "%s",
                  r->err.message);
    ck_assert_msg(!mxrt_device_upload(r->device, memory, data, size_bytes, &r->err), "%s",
                  r->err.message);
    return memory;
}

void rig_download(rig *r, void *data, void *memory, size_t size_bytes)
{
    ck_assert_msg(!mxrt_device_synchronize(r->device, NULL, &r->err), "%s", r->err.message);
    ck_assert_msg(!mxrt_device_download(r->device, data, memory, size_bytes, &r->err), "%s",
                  r->err.message);
    mxrt_device_free(r->device, memory);
}

void rig_launch(rig *r, const mxrt_kernel *kernel, const mxrt_kernel_size *size,
                const mxrt_kernel_arg *args, size_t n_args)
{
    ck_assert_msg(!mxrt_kernel_launch(kernel, size, args, n_args, NULL, &r->err), "%s",
                  r->err.message);
}

void launch_fails(rig *r, const mxrt_kernel *kernel, const mxrt_kernel_size *size,
                  const mxrt_kernel_arg *args, size_t n_args, mx_status status, const char *message)
{
    mx_status found = mxrt_kernel_launch(kernel, size, args, n_args, NULL, &r->err);
    ck_assert_msg(found == status && strstr(r->err.message, message) != NULL,
                  "status %d, no \"%s\" in: %s", (int)found, message, r->err.message);
}
