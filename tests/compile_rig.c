#include "compile_rig.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mxgen/pack.h>

#include "cli_run.h"
#include "gen/pack_writer.h"

char *folder;
char target[64];
size_t n_lines;
char lines[N_LINES][1024];
static pthread_mutex_t lines_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- The stand-in ---- */

char *in_folder(const char *name)
{
    static char paths[8][512];
    static size_t next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static void write_text(const char *path, const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(chmod(path, mode), 0);
}

/* bin/mxgen: notes that it ran, runs `body`, then gives the pack. "$out" is what follows -o. */
void write_mxgen(const char *body)
{
    char script[2048];
    snprintf(script, sizeof(script),
             "#!/bin/sh\n"
             "echo \"$*\" >>%s/runs\n"
             "for word; do out=$word; done\n"
             "%s\n"
             "cp %s/made.mxdb \"$out.part\" && mv \"$out.part\" \"$out\"\n",
             folder, body, folder);
    mkdir(in_folder("bin"), 0700);
    write_text(in_folder("bin/mxgen.new"), script, 0700);
    ck_assert_int_eq(rename(in_folder("bin/mxgen.new"), in_folder("bin/mxgen")), 0);
}

size_t n_runs(void)
{
    size_t n = 0;
    FILE *file = fopen(in_folder("runs"), "r");
    for (int c; file && (c = getc(file)) != EOF;)
        n += c == '\n';
    if (file)
        fclose(file);
    return n;
}

void *read_file(const char *path, size_t *size_bytes)
{
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s is not there", path);
    fseek(file, 0, SEEK_END);
    *size_bytes = (size_t)ftell(file);
    rewind(file);
    void *data = malloc(*size_bytes + 1);
    ck_assert_uint_eq(fread(data, 1, *size_bytes, file), *size_bytes);
    fclose(file);
    return data;
}

/* A pack with one kernel, which marks blocks; `when` is its rule. */
void write_pack(const char *path, const char *format, const char *name, const char *when)
{
    mxgen_pack_writer *writer;
    mx_error err = {MX_OK, ""};
    size_t size_bytes;
    int64_t object;
    char rules[200];
    snprintf(rules, sizeof(rules), "[{\"rule\": \"as the test wants\", \"when\": \"%s\"}]", when);
    void *code = read_file(getenv("MX_TEST_RUNTIME_KERNELS"), &size_bytes);
    ck_assert_int_eq(mxgen_pack_writer_create(&writer, &err), MX_OK);
    static const char *const meta[] = {MXPACK_META_GENERATOR, MXPACK_META_GENERATOR_HASH,
                                       MXPACK_META_COMPILER};
    for (size_t i = 0; i < sizeof(meta) / sizeof(meta[0]); i++)
        ck_assert_int_eq(mxgen_pack_writer_meta(writer, meta[i], "test", &err), MX_OK);
    ck_assert_msg(!mxgen_pack_writer_object(writer, target, MXPACK_KIND_HOST, code, size_bytes,
                                            &object, &err),
                  "%s", err.message);
    const mxgen_pack_variant row = {
        .object_id = object,
        .target = target,
        .op = "to",
        .format = format,
        .dtype = "f32",
        .profile = "packed",
        .layout = "general",
        .name = name,
        .symbol = "mxtest_mark",
        .params_json = "{}",
        .rules_json = rules,
        .launch_json = "{\"grid\": [\"ceil_div(n_blocks, 8)\", \"1\", \"1\"], \"block\": [\"1\", "
                       "\"1\", \"1\"],"
                       " \"lds_bytes\": \"0\", \"args\": ["
                       "{\"name\": \"x\", \"kind\": \"pointer\", \"buffer\": \"x\"},"
                       " {\"name\": \"n_blocks\", \"kind\": \"i32\", \"value\": \"n_blocks\"},"
                       " {\"name\": \"p\", \"kind\": \"pointer\", \"buffer\": \"p\"},"
                       " {\"name\": \"tag\", \"kind\": \"f32\", \"value\": \"7\"},"
                       " {\"name\": \"rows\", \"kind\": \"i64\", \"value\": \"rows\"}]}",
        .info_json = "{}",
    };
    ck_assert_msg(!mxgen_pack_writer_variant(writer, &row, &err), "%s", err.message);
    ck_assert_msg(!mxgen_pack_writer_save(writer, path, &err), "%s", err.message);
    mxgen_pack_writer_destroy(writer);
    free(code);
}

void compile_setup(void)
{
    char path[600];
    static const char *const unset[] = {"MXRT_COMPILER", "MXRT_USER_PACK", "MXRT_COMPILE_SECONDS",
                                        "MXRT_PACK", "HOME"};
    for (size_t i = 0; i < sizeof(unset) / sizeof(unset[0]); i++)
        unsetenv(unset[i]);
    folder = cli_temp_create();
    setenv("XDG_CACHE_HOME", in_folder("cache"), 1);
    setenv("TMPDIR", folder, 1);
    snprintf(path, sizeof(path), "%s/bin:/usr/bin:/bin", folder);
    setenv("PATH", path, 1);
    n_lines = 0;

    mxrt_context *context;
    mxrt_device *device;
    mxrt_device_info info;
    ck_assert_int_eq(mxrt_context_create(NULL, &context, NULL), MX_OK);
    ck_assert_int_eq(mxrt_device_open(context, "host?threads=2", &device, NULL), MX_OK);
    ck_assert_int_eq(mxrt_device_get_info(device, &info, NULL), MX_OK);
    snprintf(target, sizeof(target), "%s", info.target);
    mxrt_device_close(device);
    mxrt_context_destroy(context);
    write_pack(in_folder("made.mxdb"), "mx9", "compiled", "1 == 1");
    write_mxgen("");
}

void compile_teardown(void)
{
    cli_temp_destroy(folder);
}

/* ---- Asking ---- */

static void log_line(void *user, const char *line)
{
    (void)user;
    pthread_mutex_lock(&lines_lock);
    if (n_lines < N_LINES)
        snprintf(lines[n_lines++], sizeof(lines[0]), "%s", line);
    pthread_mutex_unlock(&lines_lock);
}

size_t n_logged(const char *part)
{
    size_t n = 0;
    for (size_t i = 0; i < n_lines; i++)
        n += strstr(lines[i], part) != NULL;
    return n;
}

void assert_logged(const char *part)
{
    for (size_t i = 0; !n_logged(part) && i < n_lines; i++)
        fprintf(stderr, "log: %s\n", lines[i]);
    ck_assert_msg(n_logged(part) > 0, "\"%s\" is not in the log", part);
}

mxrt_device *open_device(const char *uri, const char *pack, const mxrt_compiler_options *compiler,
                         mxrt_context **context)
{
    const mxrt_context_options options = {.log = log_line};
    mxrt_device *device = NULL;
    mx_error err = {MX_OK, ""};
    ck_assert_int_eq(mxrt_context_create(&options, context, &err), MX_OK);
    if (compiler)
        ck_assert_msg(!mxrt_context_set_compiler(*context, compiler, &err), "%s", err.message);
    if (pack)
        ck_assert_msg(!mxrt_context_add_pack_file(*context, pack, &err), "%s", err.message);
    ck_assert_msg(!mxrt_device_open(*context, uri, &device, &err), "%s", err.message);
    return device;
}

void tensors_init(tensors *t, DLDevice device)
{
    for (int i = 0; i < ROWS * LEN; i++)
        t->x[i] = (float)(i % 37) * 0.37f - 5;
    memset(t->packed, 0xee, sizeof(t->packed));
    t->x_shape[0] = ROWS, t->x_shape[1] = LEN;
    t->p_shape[0] = N_BLOCKS, t->p_shape[1] = 18;
    t->in = (DLTensor){
        .data = t->x, .device = device, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = t->x_shape};
    t->out = (DLTensor){.data = t->packed,
                        .device = device,
                        .ndim = 2,
                        .dtype = {kDLUInt, 8, 1},
                        .shape = t->p_shape};
}

/* Which kernel the host takes for to mx9 f32. */
void assert_variant(mxrt_device *device, const char *name)
{
    tensors t;
    mxrt_plan *plan;
    mxrt_plan_info info;
    mx_error err = {MX_OK, ""};
    tensors_init(&t, (DLDevice){kDLCPU, 0});
    const mxrt_plan_request request = {
        .op = MX_OP_TO, .format = MX_FORMAT_MX9, .axis = -1, .in = &t.in, .out = &t.out};
    ck_assert_msg(!mxrt_plan_create(device, &request, &plan, &err), "%s", err.message);
    ck_assert_int_eq(mxrt_plan_get_info(plan, &info, &err), MX_OK);
    ck_assert_str_eq(info.variant, name);
    ck_assert_msg(!mxrt_plan_run(plan, NULL, NULL, NULL, &err), "%s", err.message);
    ck_assert(t.packed[0] != 0xee);
    mxrt_plan_destroy(plan);
}

void ask_host(const mxrt_compiler_options *compiler, const char *expected)
{
    mxrt_context *context;
    mxrt_device *device = open_device("host?threads=2", NULL, compiler, &context);
    assert_variant(device, expected);
    assert_variant(device, expected);
    mxrt_device_close(device);
    mxrt_context_destroy(context);
}

/* The only file of that ending among those kept; "" if there is none. */
const char *kept(const char *ending)
{
    static char path[1024];
    char base[600];
    snprintf(base, sizeof(base), "%s/cache/mxgen/kernels", folder);
    DIR *handle = opendir(base);
    path[0] = 0;
    for (const struct dirent *entry; handle && (entry = readdir(handle));) {
        const char *at = strstr(entry->d_name, ending);
        if (at && !at[strlen(ending)])
            snprintf(path, sizeof(path), "%s/%s", base, entry->d_name);
    }
    if (handle)
        closedir(handle);
    return path;
}

void assert_no_child(void)
{
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
}
