/* Kernels that no pack has: what is compiled, when, how often, and what is said where it fails.
 * Most is with a stand-in for mxgen, a script that copies a pack of a kernel that marks its output;
 * with MXGEN set, the real one compiles for the host and for a simulated chip (MX_TEST_SIM). */
#include <check.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mxgen/pack.h>
#include <mxgen/rt.h>

#include "cli_run.h"
#include "gen/pack_writer.h"

enum { ROWS = 8, LEN = 32, N_BLOCKS = ROWS * LEN / 16, N_ASKING = 8, N_LINES = 64 };

static char *folder;    /* of the test */
static char target[64]; /* of the host device */
static char lines[N_LINES][1024];
static size_t n_lines;
static pthread_mutex_t lines_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- The stand-in ---- */

static char *in_folder(const char *name)
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
static void write_mxgen(const char *body)
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

static size_t n_runs(void)
{
    size_t n = 0;
    FILE *file = fopen(in_folder("runs"), "r");
    for (int c; file && (c = getc(file)) != EOF;)
        n += c == '\n';
    if (file)
        fclose(file);
    return n;
}

static void *read_file(const char *path, size_t *size_bytes)
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
static void write_pack(const char *path, const char *format, const char *name, const char *when)
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

static void setup(void)
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

static void teardown(void)
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

static size_t n_logged(const char *part)
{
    size_t n = 0;
    for (size_t i = 0; i < n_lines; i++)
        n += strstr(lines[i], part) != NULL;
    return n;
}

static void assert_logged(const char *part)
{
    for (size_t i = 0; !n_logged(part) && i < n_lines; i++)
        fprintf(stderr, "log: %s\n", lines[i]);
    ck_assert_msg(n_logged(part) > 0, "\"%s\" is not in the log", part);
}

static mxrt_device *open_device(const char *uri, const char *pack,
                                const mxrt_compiler_options *compiler, mxrt_context **context)
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

typedef struct tensors {
    float x[ROWS * LEN];
    unsigned char packed[N_BLOCKS * 18];
    int64_t x_shape[2], p_shape[2];
    DLTensor in, out;
} tensors;

static void tensors_init(tensors *t, DLDevice device)
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
static void assert_variant(mxrt_device *device, const char *name)
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

static void ask_host(const mxrt_compiler_options *compiler, const char *expected)
{
    mxrt_context *context;
    mxrt_device *device = open_device("host?threads=2", NULL, compiler, &context);
    assert_variant(device, expected);
    assert_variant(device, expected);
    mxrt_device_close(device);
    mxrt_context_destroy(context);
}

/* The only file of that ending among those kept; "" if there is none. */
static const char *kept(const char *ending)
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

static void assert_no_child(void)
{
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
}

/* ---- Success ---- */

START_TEST(compiles_once_and_keeps)
{
    char expected[300];
    ask_host(NULL, "compiled");
    ask_host(NULL, "compiled"); /* another context finds it kept */
    ck_assert_uint_eq(n_runs(), 1);
    ck_assert_int_ne(kept(".mxdb")[0], 0);
    assert_no_child();
    size_t size_bytes;
    char *words = read_file(in_folder("runs"), &size_bytes);
    snprintf(
        expected, sizeof(expected),
        "build --target %s --op to --format mx9 --dtype f32 --profile packed --max-rank 16 -o ",
        target);
    ck_assert_msg(!strncmp(words, expected, strlen(expected)), "mxgen %s", words);
    free(words);
    /* The folder is the user's alone. */
    struct stat info;
    ck_assert_int_eq(stat(in_folder("cache/mxgen/kernels"), &info), 0);
    ck_assert_uint_eq(info.st_mode & 077, 0);
}
END_TEST

START_TEST(another_mxgen_makes_another_pack)
{
    ask_host(NULL, "compiled");
    write_mxgen("# another");
    ask_host(NULL, "compiled");
    ck_assert_uint_eq(n_runs(), 2);
}
END_TEST

START_TEST(folder_by_option_and_by_environment)
{
    const mxrt_compiler_options compiler = {.folder = in_folder("option/kernels")};
    setenv("MXRT_USER_PACK", in_folder("environment"), 1);
    ask_host(NULL, "compiled");
    ask_host(&compiler, "compiled");
    ask_host(&compiler, "compiled");
    ck_assert_uint_eq(n_runs(), 2);
    ck_assert_int_eq(access(in_folder("option/kernels"), F_OK), 0);
    ck_assert_int_eq(access(in_folder("environment"), F_OK), 0);
    ck_assert_str_eq(kept(".mxdb"), "");
}
END_TEST

START_TEST(program_by_option_and_by_environment)
{
    const mxrt_compiler_options compiler = {.program = in_folder("bin/mxgen")};
    setenv("PATH", "/usr/bin:/bin", 1);
    setenv("MXRT_COMPILER", "off", 1);
    ask_host(&compiler, "compiled"); /* what the application says goes first */
    ck_assert_uint_eq(n_runs(), 1);
    setenv("XDG_CACHE_HOME", in_folder("cache2"), 1);
    setenv("MXRT_COMPILER", in_folder("bin/mxgen"), 1);
    ask_host(NULL, "compiled");
    ck_assert_uint_eq(n_runs(), 2);
}
END_TEST

START_TEST(off_is_off)
{
    const mxrt_compiler_options off = {.off = 1};
    ask_host(&off, "reference");
    setenv("MXRT_COMPILER", "off", 1);
    ask_host(NULL, "reference");
    ck_assert_uint_eq(n_runs(), 0);
    unsetenv("MXRT_COMPILER");
    ask_host(NULL, "compiled");
    setenv("MXRT_COMPILER", "off", 1);
    ask_host(NULL, "reference"); /* not even what is kept */
}
END_TEST

START_TEST(prepare_compiles)
{
    mxrt_context *context;
    mxrt_device *device = open_device("host?threads=2", NULL, NULL, &context);
    ck_assert_int_eq(
        mxrt_prepare(device, MX_OP_TO, MX_FORMAT_MX9, MX_DTYPE_F32, MX_PROFILE_PACKED, NULL),
        MX_OK);
    ck_assert_uint_eq(n_runs(), 1);
    assert_variant(device, "compiled");
    mxrt_device_close(device);
    mxrt_context_destroy(context);
}
END_TEST

START_TEST(plan_devices_compile_nothing)
{
    mxrt_context *context;
    mxrt_device *device = open_device("plan:gfx942", NULL, NULL, &context);
    mx_error err = {MX_OK, ""};
    ck_assert_int_eq(
        mxrt_prepare(device, MX_OP_TO, MX_FORMAT_MX9, MX_DTYPE_F32, MX_PROFILE_PACKED, &err),
        MX_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(err.message, "there are no packs") != NULL, "%s", err.message);
    ck_assert_uint_eq(n_runs(), 0);
    mxrt_device_close(device);
    mxrt_context_destroy(context);
}
END_TEST

/* A pack whose kernels do not apply is completed, and stays first where they do. */
START_TEST(packs_are_completed)
{
    mxrt_context *context;
    char path[512];
    snprintf(path, sizeof(path), "%s", in_folder("partial.mxdb"));
    write_pack(path, "mx9", "partial", "len == 1000");
    mxrt_device *device = open_device("host?threads=2", path, NULL, &context);
    assert_variant(device, "compiled");
    ck_assert_uint_eq(n_runs(), 1);
    mxrt_device_close(device);
    mxrt_context_destroy(context);
    snprintf(path, sizeof(path), "%s", in_folder("whole.mxdb"));
    write_pack(path, "mx9", "whole", "len == 32 || x_align == 0");
    device = open_device("host?threads=2", path, NULL, &context);
    assert_variant(device, "whole");
    ck_assert_uint_eq(n_runs(), 1);
    mxrt_device_close(device);
    mxrt_context_destroy(context);
}
END_TEST

/* ---- Many at once ---- */

static void *ask_thread(void *device)
{
    for (int i = 0; i < 3; i++)
        assert_variant(device, "compiled");
    return NULL;
}

START_TEST(threads_compile_once)
{
    mxrt_context *context;
    pthread_t threads[N_ASKING];
    write_mxgen("sleep 0.3");
    mxrt_device *device = open_device("host?threads=2", NULL, NULL, &context), *second = NULL;
    ck_assert_int_eq(mxrt_device_open(context, "host?threads=1", &second, NULL), MX_OK);
    for (int i = 0; i < N_ASKING; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, ask_thread, i % 2 ? device : second), 0);
    for (int i = 0; i < N_ASKING; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(n_runs(), 1);
    mxrt_device_close(second);
    mxrt_device_close(device);
    mxrt_context_destroy(context);
}
END_TEST

/* Starts processes that ask when all are there; each ends with 0 if it got `expected`, and `logged`
 * was in its log. */
static void ask_in_processes(int n, const char *expected, const char *logged)
{
    int gate[2];
    pid_t children[N_ASKING];
    ck_assert_int_eq(pipe(gate), 0);
    for (int i = 0; i < n; i++) {
        ck_assert_int_ge(children[i] = fork(), 0);
        if (children[i] == 0) {
            char byte;
            close(gate[1]);
            (void)!read(gate[0], &byte, 1);
            ask_host(NULL, expected);
            _exit(logged && !n_logged(logged) ? 2 : 0);
        }
    }
    close(gate[0]);
    close(gate[1]);
    for (int i = 0; i < n; i++) {
        int how;
        ck_assert_int_eq(waitpid(children[i], &how, 0), children[i]);
        ck_assert_msg(WIFEXITED(how) && WEXITSTATUS(how) == 0, "process %d of %d: %d", i, n, how);
    }
}

START_TEST(processes_compile_once)
{
    write_mxgen("sleep 0.5");
    ask_in_processes(_i, "compiled", NULL);
    ck_assert_uint_eq(n_runs(), 1);
}
END_TEST

START_TEST(processes_fail_once)
{
    write_mxgen("sleep 1; echo this one cannot >&2; exit 3");
    ask_in_processes(N_ASKING, "reference", "status 3: this one cannot");
    ck_assert_uint_eq(n_runs(), 1);
    /* Later ones try again. */
    write_mxgen("");
    ask_host(NULL, "compiled");
}
END_TEST

START_TEST(lock_holder_may_die)
{
    write_mxgen("kill -9 $PPID; sleep 30");
    pid_t child = fork();
    if (child == 0) {
        ask_host(NULL, "compiled");
        _exit(0);
    }
    int how;
    ck_assert_int_eq(waitpid(child, &how, 0), child);
    ck_assert(WIFSIGNALED(how));
    write_mxgen("");
    ask_host(NULL, "compiled");
}
END_TEST

START_TEST(waiting_ends)
{
    const mxrt_compiler_options compiler = {.limit_seconds = 0.2};
    ask_host(NULL, "compiled");
    int fd = open(kept(".lock"), O_RDWR);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(unlink(kept(".mxdb")), 0);
    pid_t child = fork();
    if (child == 0) {
        execl("/usr/bin/flock", "flock", kept(".lock"), "sleep", "8", NULL);
        _exit(1);
    }
    usleep(300000);
    ask_host(&compiler, "reference");
    assert_logged("another process compiles it and has not finished in 0.2 s");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(fd);
}
END_TEST

/* ---- Failures ---- */

static const struct {
    const char *body, *logged;
} failures[] = {
    {"echo no such target; exit 1", "ends with status 1: no such target"},
    {"kill -9 $$", "was ended by signal 9"},
    {"exit 0", "cannot open it: No such file"},
    {"echo rubbish >$out; exit 0", "is not an SQLite file"},
    {"printf 'a\\033[31mb\\n\\n' >&2; exit 2", "status 2: a [31mb"},
    {"i=0; while [ $i -lt 2000 ]; do echo chatter $i; i=$((i+1)); done; echo the end; exit 1",
     "the end"},
};

START_TEST(failure_is_told_once)
{
    write_mxgen(failures[_i].body);
    ask_host(NULL, "reference"); /* twice */
    ck_assert_uint_eq(n_runs(), 1);
    assert_logged(failures[_i].logged);
    ck_assert_uint_eq(n_logged("is not compiled"), 1);
    assert_no_child();
}
END_TEST

START_TEST(no_mxgen)
{
    setenv("PATH", "/usr/bin:/bin", 1);
    ask_host(NULL, "reference");
    assert_logged("no mxgen is in PATH");
    setenv("MXRT_COMPILER", "/nowhere/mxgen", 1);
    ask_host(NULL, "reference");
    assert_logged("the compiler \"/nowhere/mxgen\" is no program");
    setenv("MXRT_COMPILER", folder, 1);
    ask_host(NULL, "reference");
    /* What lies in the current folder is not run. */
    unsetenv("MXRT_COMPILER");
    ck_assert_int_eq(chdir(in_folder("bin")), 0);
    setenv("PATH", ":.:/usr/bin", 1);
    ask_host(NULL, "reference");
    ck_assert_int_eq(chdir("/"), 0);
    unsetenv("PATH");
    ask_host(NULL, "reference");
    ck_assert_uint_eq(n_runs(), 0);
}
END_TEST

START_TEST(other_pack_is_refused)
{
    write_pack(in_folder("made.mxdb"), "mx6", "compiled", "1 == 1");
    ask_host(NULL, "reference");
    assert_logged("has no kernel for to mx9 f32 (packed)");
}
END_TEST

START_TEST(other_target_is_refused)
{
    strcpy(target, "gfx942");
    write_pack(in_folder("made.mxdb"), "mx9", "compiled", "1 == 1");
    ask_host(NULL, "reference");
    assert_logged("what was compiled is not for");
}
END_TEST

/* Whether the process has ended: it is not there, or a zombie of whoever adopted it. */
static int has_ended(long pid)
{
    char path[64], state = 0;
    snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 1;
    int n = fscanf(file, "%*d (%*[^)]) %c", &state);
    fclose(file);
    return n != 1 || state == 'Z' || state == 'X';
}

START_TEST(time_limit)
{
    const mxrt_compiler_options compiler = {.limit_seconds = 0.4};
    long pid = 0;
    char body[600];
    /* One that asks to end, and one that does not listen; both with a child of their own. */
    snprintf(body, sizeof(body), "%s echo thinking; sleep 60 & echo $! >%s/pid; wait; sleep 60",
             _i ? "trap '' TERM;" : "", folder);
    write_mxgen(body);
    if (_i == 0)
        ask_host(&compiler, "reference");
    else {
        setenv("MXRT_COMPILE_SECONDS", "0.4", 1);
        ask_host(NULL, "reference");
    }
    assert_logged("was ended after 0.4 s: thinking");
    ck_assert_uint_eq(n_runs(), 1);
    assert_no_child();
    FILE *file = fopen(in_folder("pid"), "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%ld", &pid), 1);
    fclose(file);
    for (int i = 0; i < 100 && !has_ended(pid); i++)
        usleep(20000);
    ck_assert(has_ended(pid));
}
END_TEST

START_TEST(bad_time_limit)
{
    static const char *const bad[] = {"soon", "0", "-1", "1x", "nan", "1e9"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        n_lines = 0;
        setenv("MXRT_COMPILE_SECONDS", bad[i], 1);
        ask_host(NULL, "reference");
        assert_logged("it must be a number up to 86400");
    }
}
END_TEST

/* ---- The child ---- */

START_TEST(child_is_clean)
{
    int fd = open("/dev/null", O_RDONLY); /* not closed on exec */
    ck_assert_int_ge(dup2(fd, 57), 0);
    signal(SIGPIPE, SIG_IGN);
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR1);
    ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &some, NULL), 0);
    write_mxgen("[ ! -e /proc/self/fd/57 ] || exit 11\n"
                "grep -q '^SigBlk:.0*$' /proc/self/status || exit 12\n"
                /* The C library ignores two signals of its own. */
                "grep -Eq '^SigIgn:.0*(180000000)?$' /proc/self/status || exit 13\n"
                "read line && exit 14");
    mxrt_context *context;
    mxrt_device *device = open_device("host?threads=2", NULL, NULL, &context);
    mx_error err = {MX_OK, ""};
    ck_assert_msg(
        !mxrt_prepare(device, MX_OP_TO, MX_FORMAT_MX9, MX_DTYPE_F32, MX_PROFILE_PACKED, &err), "%s",
        err.message);
    for (size_t i = 0; i < n_lines; i++)
        ck_assert_msg(!strstr(lines[i], "is not compiled"), "%s", lines[i]);
    assert_variant(device, "compiled");
    mxrt_device_close(device);
    mxrt_context_destroy(context);
    close(57);
    close(fd);
}
END_TEST

START_TEST(child_may_be_reaped_by_others)
{
    signal(SIGCHLD, SIG_IGN);
    ask_host(NULL, "compiled");
    write_mxgen("exit 1");
    ask_host(NULL, "reference");
    assert_logged("cannot open it");
    signal(SIGCHLD, SIG_DFL);
}
END_TEST

/* ---- The folder ---- */

static size_t n_files(const char *path)
{
    size_t n = 0;
    DIR *handle = opendir(path);
    for (const struct dirent *entry; handle && (entry = readdir(handle));)
        n += entry->d_name[0] != '.';
    if (handle)
        closedir(handle);
    return n;
}

START_TEST(folder_that_cannot_be_used)
{
    char path[600];
    snprintf(path, sizeof(path), "%s", in_folder("shared"));
    ck_assert_int_eq(mkdir(path, 0700), 0);
    ck_assert_int_eq(chmod(path, 0777), 0);
    static const char *const reasons[] = {"Not a directory", "this user alone",
                                          "no folder for them"};
    setenv("MXRT_USER_PACK", _i == 0 ? "/dev/null/kernels" : path, 1);
    if (_i == 2) {
        unsetenv("MXRT_USER_PACK");
        unsetenv("XDG_CACHE_HOME");
    }
    size_t before = n_files(folder);
    ask_host(NULL, "compiled");
    assert_logged(reasons[_i]);
    ck_assert_uint_eq(n_files(path), 0);
    ck_assert_uint_eq(n_files(folder), before + 1); /* "runs": no scratch folder stays */
    ask_host(NULL, "compiled");
    ck_assert_uint_eq(n_runs(), 2);
}
END_TEST

/* As root nothing is read-only by its mode, so another user has to try. */
START_TEST(folder_without_write_permission)
{
    char cache[600];
    snprintf(cache, sizeof(cache), "%s", in_folder("readonly"));
    ck_assert_int_eq(mkdir(cache, 0700), 0);
    ck_assert_int_eq(chmod(folder, 0777), 0);
    ck_assert_int_eq(chmod(in_folder("bin"), 0755), 0);
    ck_assert_int_eq(chmod(in_folder("bin/mxgen"), 0755), 0);
    ck_assert_int_eq(chmod(in_folder("made.mxdb"), 0644), 0);
    enum { NOBODY = 65534 };
    pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && (chown(cache, NOBODY, NOBODY) || setuid(NOBODY)))
            _exit(3);
        ck_assert_int_eq(chmod(cache, 0500), 0);
        setenv("MXRT_USER_PACK", cache, 1);
        ask_host(NULL, "compiled");
        _exit(n_logged("Permission denied") ? 0 : 4);
    }
    int how;
    ck_assert_int_eq(waitpid(child, &how, 0), child);
    ck_assert_msg(WIFEXITED(how) && WEXITSTATUS(how) == 0, "the child ended with %d", how);
    ck_assert_uint_eq(n_files(cache), 0);
}
END_TEST

START_TEST(damage_is_a_miss)
{
    ask_host(NULL, "compiled");
    FILE *file = fopen(kept(".mxdb"), "r+");
    ck_assert_ptr_nonnull(file);
    if (_i == 0) {
        ck_assert_int_eq(ftruncate(fileno(file), 5000), 0);
    } else if (_i == 1) {
        ck_assert_int_eq(ftruncate(fileno(file), 0), 0);
    } else { /* a byte within the object */
        size_t size_bytes;
        unsigned char *bytes = read_file(kept(".mxdb"), &size_bytes), *at;
        static const unsigned char zstd_magic[] = {0x28, 0xb5, 0x2f, 0xfd};
        ck_assert_ptr_nonnull(at = memmem(bytes, size_bytes, zstd_magic, sizeof(zstd_magic)));
        ck_assert_int_eq(fseek(file, at - bytes + 200, SEEK_SET), 0);
        ck_assert_int_ne(putc(at[200] ^ 0xff, file), EOF);
        free(bytes);
    }
    ck_assert_int_eq(fclose(file), 0);
    ask_host(NULL, "compiled");
    assert_logged("made again");
    ck_assert_uint_eq(n_runs(), 2);
    ask_host(NULL, "compiled");
    ck_assert_uint_eq(n_runs(), 2);
}
END_TEST

/* ---- The callback ---- */

static int n_called;

static mx_status on_compile(void *user, const mxrt_compile_request *request, char *path,
                            size_t path_bytes, mx_error *err)
{
    const char *what = user;
    n_called++;
    ck_assert_str_eq(request->target, target);
    ck_assert(request->op == MX_OP_TO && request->format == MX_FORMAT_MX9 &&
              request->dtype == MX_DTYPE_F32 && request->profile == MX_PROFILE_PACKED);
    if (!strcmp(what, "fail")) {
        snprintf(err->message, sizeof(err->message), "not on a Sunday");
        return err->status = MX_ERR_UNSUPPORTED;
    }
    if (!strcmp(what, "long"))
        memset(path, 'x', path_bytes);
    else
        snprintf(path, path_bytes, "%s", what);
    return MX_OK;
}

START_TEST(callback)
{
    static const char *const logged[] = {NULL, "not on a Sunday", "gives no path", "gives no path",
                                         "/nowhere"};
    char *user[] = {in_folder("made.mxdb"), "fail", "", "long", "/nowhere"};
    const mxrt_compiler_options compiler = {.compile = on_compile, .user = user[_i]};
    n_called = 0;
    ask_host(&compiler, logged[_i] ? "reference" : "compiled");
    if (logged[_i])
        assert_logged(logged[_i]);
    ck_assert_int_eq(n_called, 1);
    ck_assert_uint_eq(n_runs(), 0);
}
END_TEST

START_TEST(bad_options)
{
    mxrt_context *context;
    mx_error err = {MX_OK, ""};
    mxrt_compiler_options options = {.limit_seconds = -1};
    ck_assert_int_eq(mxrt_context_set_compiler(NULL, &options, &err), MX_ERR_INVALID);
    ck_assert_int_eq(mxrt_context_create(NULL, &context, NULL), MX_OK);
    ck_assert_int_eq(mxrt_context_set_compiler(context, &options, &err), MX_ERR_INVALID);
    ck_assert_msg(strstr(err.message, "-1") != NULL, "%s", err.message);
    ck_assert_int_eq(mxrt_context_set_compiler(context, NULL, &err), MX_OK);
    options = (mxrt_compiler_options){.program = "/a", .folder = "/b"};
    ck_assert_int_eq(mxrt_context_set_compiler(context, &options, &err), MX_OK);
    ck_assert_int_eq(mxrt_context_set_compiler(context, &options, &err), MX_OK);
    mxrt_context_destroy(context);
}
END_TEST

/* ---- The real one ---- */

static void assert_reference_bytes(const tensors *got)
{
    mxrt_context *context;
    const mxrt_compiler_options off = {.off = 1};
    tensors t;
    mxrt_device *host = open_device("host?threads=1", NULL, &off, &context);
    tensors_init(&t, (DLDevice){kDLCPU, 0});
    ck_assert_int_eq(mxrt_convert_to(host, MX_FORMAT_MX9, -1, &t.in, &t.out, NULL, NULL), MX_OK);
    ck_assert_int_eq(memcmp(t.packed, got->packed, sizeof(t.packed)), 0);
    mxrt_device_close(host);
    mxrt_context_destroy(context);
}

START_TEST(real_mxgen_for_the_host)
{
    mxrt_context *context;
    mx_error err = {MX_OK, ""};
    const mxrt_compiler_options compiler = {.program = getenv("MXGEN")};
    const char *name;
    size_t n;
    tensors t;
    mxrt_device *device = open_device("host?threads=2", NULL, &compiler, &context);
    tensors_init(&t, (DLDevice){kDLCPU, 0});
    ck_assert_msg(!mxrt_convert_to(device, MX_FORMAT_MX9, -1, &t.in, &t.out, NULL, &err), "%s",
                  err.message);
    const mxrt_plan_request request = {
        .op = MX_OP_TO, .format = MX_FORMAT_MX9, .axis = -1, .in = &t.in, .out = &t.out};
    ck_assert_int_eq(mxrt_plan_variants(device, &request, &name, 1, &n, &err), MX_OK);
    ck_assert_uint_gt(n, 0);
    ck_assert_msg(!strncmp(name, "mx_to_mx9_f32", 13), "%s", name);
    assert_reference_bytes(&t);
    mxrt_device_close(device);
    mxrt_context_destroy(context);
}
END_TEST

/* Allocated before anything is captured. */
typedef struct chip_memory {
    void *x, *p;
} chip_memory;

static chip_memory chip_alloc(mxrt_device *device)
{
    chip_memory memory = {NULL, NULL};
    tensors t;
    tensors_init(&t, (DLDevice){kDLCPU, 0});
    ck_assert_int_eq(mxrt_device_alloc(device, sizeof(t.x), &memory.x, NULL), MX_OK);
    ck_assert_int_eq(mxrt_device_alloc(device, sizeof(t.packed), &memory.p, NULL), MX_OK);
    ck_assert_int_eq(mxrt_device_upload(device, memory.x, t.x, sizeof(t.x), NULL), MX_OK);
    return memory;
}

static void chip_free(mxrt_device *device, chip_memory memory)
{
    mxrt_device_free(device, memory.x);
    mxrt_device_free(device, memory.p);
}

static mx_status run_in(mxrt_device *device, chip_memory memory, mxrt_stream stream, mx_error *err)
{
    tensors t;
    mxrt_device_info info;
    ck_assert_int_eq(mxrt_device_get_info(device, &info, NULL), MX_OK);
    tensors_init(&t, info.dl_device);
    t.in.data = memory.x;
    t.out.data = memory.p;
    mx_status status = mxrt_convert_to(device, MX_FORMAT_MX9, -1, &t.in, &t.out, stream, err);
    if (status == MX_OK) {
        ck_assert_int_eq(mxrt_device_synchronize(device, stream, NULL), MX_OK);
        ck_assert_int_eq(mxrt_device_download(device, t.packed, memory.p, sizeof(t.packed), NULL),
                         MX_OK);
        assert_reference_bytes(&t);
    }
    return status;
}

static mx_status run_on_chip(mxrt_device *device, mx_error *err)
{
    chip_memory memory = chip_alloc(device);
    mx_status status = run_in(device, memory, NULL, err);
    chip_free(device, memory);
    return status;
}

static void assert_says(const mx_error *err, const char *part)
{
    ck_assert_msg(strstr(err->message, part) != NULL, "\"%s\" is not in: %s", part, err->message);
}

static void use_chip(void)
{
    setenv("MXRT_HIP_LIBRARY", getenv("MX_TEST_SIM"), 1);
    setenv("MXSIM_ARCH", "gfx942", 1);
}

/* The message tells what the packs have, and the compiler's words, every time. */
START_TEST(chip_without_a_kernel)
{
    mxrt_context *context;
    mx_error err = {MX_OK, ""};
    const mxrt_compiler_options off = {.off = 1};
    use_chip();
    mxrt_device *device = open_device("hip:0", NULL, &off, &context);
    ck_assert_int_eq(run_on_chip(device, &err), MX_ERR_UNSUPPORTED);
    assert_says(
        &err,
        "no pack has a kernel for to mx9 f32 (packed) on hip:0, a gfx942; there are no packs; "
        "add a pack made with mxgen build --target gfx942");
    ck_assert_ptr_null(strstr(err.message, "compiled"));
    mxrt_device_close(device);
    mxrt_context_destroy(context);

    device = open_device("hip:0", in_folder("made.mxdb"), &off, &context);
    ck_assert_int_eq(run_on_chip(device, &err), MX_ERR_UNSUPPORTED);
    assert_says(&err, "the packs have kernels for host");
    mxrt_device_close(device);
    mxrt_context_destroy(context);

    write_mxgen("echo out of registers; exit 1");
    device = open_device("hip:0", NULL, NULL, &context);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(run_on_chip(device, &err), MX_ERR_UNSUPPORTED);
        assert_says(&err, "; not compiled: ");
        assert_says(&err, "ends with status 1: out of registers");
    }
    ck_assert_int_eq(
        mxrt_prepare(device, MX_OP_TO, MX_FORMAT_MX9, MX_DTYPE_F32, MX_PROFILE_PACKED, &err),
        MX_ERR_UNSUPPORTED);
    assert_says(&err, "out of registers");
    ck_assert_uint_eq(n_runs(), 1);
    mxrt_device_close(device);
    mxrt_context_destroy(context);
}
END_TEST

/* A driver that refuses what was compiled: told, and the device is as it was. */
START_TEST(chip_refuses_what_was_compiled)
{
    mxrt_context *context;
    mx_error err = {MX_OK, ""};
    use_chip();
    /* The right target's name on machine code of the host. */
    strcpy(target, "gfx942");
    write_pack(in_folder("made.mxdb"), "mx9", "compiled", "1 == 1");
    mxrt_device *device = open_device("hip:0", NULL, NULL, &context);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(run_on_chip(device, &err), MX_ERR_UNSUPPORTED);
        assert_says(&err, "not compiled: what was compiled is not for gfx942");
    }
    ck_assert_uint_eq(n_runs(), 1);
    mxrt_device_close(device);
    mxrt_context_destroy(context);
}
END_TEST

START_TEST(real_mxgen_for_a_chip)
{
    mxrt_context *context;
    mx_error err = {MX_OK, ""};
    cli_run run;
    int (*stream_create)(void **), (*begin)(void *, int), (*end)(void *, void **);
    int (*stream_destroy)(void *), (*graph_destroy)(void *);
    void *stream = NULL, *graph = NULL;
    const char *const argv[] = {getenv("MXGEN"),
                                "build",
                                "--target",
                                "gfx942",
                                "--op",
                                "to",
                                "--format",
                                "mx6",
                                "--dtype",
                                "f32",
                                "--max-rank",
                                "1",
                                "-o",
                                in_folder("mx6.mxdb"),
                                NULL};
    use_chip();
    cli_run_start(&run, argv);
    ck_assert_msg(run.exit_code == 0, "%s", run.err);
    cli_run_finish(&run);
    const mxrt_compiler_options compiler = {.program = argv[0]}, off = {.off = 1};

    mxrt_device *device = open_device("hip:0", argv[13], &off, &context);
    ck_assert_int_eq(run_on_chip(device, &err), MX_ERR_UNSUPPORTED);
    assert_says(&err, "for it the packs have to mx6 f32;");
    mxrt_device_close(device);
    mxrt_context_destroy(context);

    device = open_device("hip:0", argv[13], &compiler, &context);
    void *library = dlopen(getenv("MX_TEST_SIM"), RTLD_NOW);
    ck_assert_ptr_nonnull(library);
    *(void **)&stream_create = dlsym(library, "hipStreamCreate");
    *(void **)&begin = dlsym(library, "hipStreamBeginCapture");
    *(void **)&end = dlsym(library, "hipStreamEndCapture");
    *(void **)&stream_destroy = dlsym(library, "hipStreamDestroy");
    *(void **)&graph_destroy = dlsym(library, "hipGraphDestroy");
    chip_memory memory = chip_alloc(device);
    ck_assert_int_eq(stream_create(&stream), 0);
    ck_assert_int_eq(begin(stream, 0), 0);
    ck_assert_int_eq(run_in(device, memory, stream, &err), MX_ERR_UNSUPPORTED);
    assert_says(&err, "a graph is being captured: call mxrt_prepare before");
    ck_assert_int_eq(end(stream, &graph), 0);
    ck_assert_int_eq(graph_destroy(graph), 0);
    ck_assert_uint_eq(n_logged("compiles it"), 0);

    ck_assert_msg(!run_in(device, memory, stream, &err), "%s", err.message);
    ck_assert_uint_eq(n_logged("compiles it"), 1);
    ck_assert_msg(!run_on_chip(device, &err), "%s", err.message);
    ck_assert_uint_eq(n_logged("compiles it"), 1);
    chip_free(device, memory);
    ck_assert_int_eq(stream_destroy(stream), 0);
    mxrt_device_close(device);
    mxrt_context_destroy(context);
    dlclose(library);
}
END_TEST

static void add_stand_in_tests(TCase *tcase)
{
    tcase_add_test(tcase, compiles_once_and_keeps);
    tcase_add_test(tcase, another_mxgen_makes_another_pack);
    tcase_add_test(tcase, folder_by_option_and_by_environment);
    tcase_add_test(tcase, program_by_option_and_by_environment);
    tcase_add_test(tcase, off_is_off);
    tcase_add_test(tcase, prepare_compiles);
    tcase_add_test(tcase, plan_devices_compile_nothing);
    tcase_add_test(tcase, packs_are_completed);
    tcase_add_test(tcase, threads_compile_once);
    tcase_add_loop_test(tcase, processes_compile_once, 2, 3);
    tcase_add_loop_test(tcase, processes_compile_once, N_ASKING, N_ASKING + 1);
    tcase_add_test(tcase, processes_fail_once);
    tcase_add_test(tcase, lock_holder_may_die);
    tcase_add_test(tcase, waiting_ends);
    tcase_add_loop_test(tcase, failure_is_told_once, 0, sizeof(failures) / sizeof(failures[0]));
    tcase_add_test(tcase, no_mxgen);
    tcase_add_test(tcase, other_pack_is_refused);
    tcase_add_test(tcase, other_target_is_refused);
    tcase_add_loop_test(tcase, time_limit, 0, 2);
    tcase_add_test(tcase, bad_time_limit);
    tcase_add_test(tcase, child_is_clean);
    tcase_add_test(tcase, child_may_be_reaped_by_others);
    tcase_add_loop_test(tcase, folder_that_cannot_be_used, 0, 3);
    tcase_add_test(tcase, folder_without_write_permission);
    tcase_add_loop_test(tcase, damage_is_a_miss, 0, 3);
    tcase_add_loop_test(tcase, callback, 0, 5);
    tcase_add_test(tcase, bad_options);
}

int main(void)
{
    Suite *suite = suite_create("compile");
    TCase *tcase = tcase_create("stand-in");
    tcase_add_checked_fixture(tcase, setup, teardown);
    add_stand_in_tests(tcase);
    if (getenv("MX_TEST_SIM")) {
        tcase_add_test(tcase, chip_without_a_kernel);
        tcase_add_test(tcase, chip_refuses_what_was_compiled);
    }
    if (getenv("MXGEN"))
        tcase_add_test(tcase, real_mxgen_for_the_host);
    if (getenv("MXGEN") && getenv("MX_TEST_SIM"))
        tcase_add_test(tcase, real_mxgen_for_a_chip);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
