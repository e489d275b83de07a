/* Kernels that no pack has: what is compiled, when, how often, and what is said where it fails.
 * All with a stand-in for mxgen; test_compile_real.c has the real one. */
#include <check.h>
#include <dirent.h>
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

#include "cli_run.h"
#include "compile_rig.h"

enum { N_ASKING = 8 };

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
    tcase_add_checked_fixture(tcase, compile_setup, compile_teardown);
    add_stand_in_tests(tcase);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
