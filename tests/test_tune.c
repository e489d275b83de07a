/* Tuning files: what is kept, what survives, and how it decides.
 *
 *   MXGEN_TEST_PACK   a pack for the host, for the choices */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mxgen/rt.h>
#include <mxgen/tune.h>

#include "runtime/model.h"
#include "tests/cases.h"

static char folder[] = "/tmp/mxgen-test-tune-XXXXXX";
static char path[256], other[256];
static mx_error error;

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/sub/tune.mxtune", folder);
    snprintf(other, sizeof(other), "%s/other.mxtune", folder);
}

static void teardown(void)
{
    char command[300];
    snprintf(command, sizeof(command), "chmod -R u+w %s; rm -r %s", folder, folder);
    ck_assert_int_eq(system(command), 0);
    memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
}

static mxrt_tune_row row_of(const char *variant, double ms, int64_t samples)
{
    mxrt_tune_row row = {.op = "to",
                         .format = "mx9",
                         .dtype = "f32",
                         .profile = "packed",
                         .bucket = "n16 l6 a16 r0 d1",
                         .device = "chip/2",
                         .driver = "7",
                         .code = "0123456789abcdef",
                         .protocol = MXTUNE_PROTOCOL,
                         .layout = "flat",
                         .shape = "1024x1024 axis -1",
                         .bytes = 1000,
                         .samples = samples,
                         .ms = ms,
                         .spread = 0.01,
                         .time_s = 1000};
    snprintf(row.variant, sizeof(row.variant), "%s", variant);
    return row;
}

static mxrt_tune_file *open_file(const char *name, int may_write)
{
    mxrt_tune_file *file = NULL;
    mx_status status = mxrt_tune_open(name, may_write, &file, &error);
    ck_assert_msg(status == MX_OK, "%s", error.message);
    return file;
}

static mxrt_tune_outcome put(const char *name, const mxrt_tune_row *row, int force)
{
    mxrt_tune_outcome outcome;
    mxrt_tune_file *file = open_file(name, 1);
    mx_status status = mxrt_tune_put(file, row, force, &outcome, &error);
    ck_assert_msg(status == MX_OK, "%s", error.message);
    mxrt_tune_close(file);
    return outcome;
}

typedef struct seen {
    int n;
    mxrt_tune_row last;
} seen;

static mx_status see(void *user, const mxrt_tune_row *row, mx_error *err)
{
    (void)err;
    ((seen *)user)->n++;
    ((seen *)user)->last = *row;
    return MX_OK;
}

static seen read_all(const char *name, const mxrt_tune_filter *filter, int64_t *damaged)
{
    seen state = {0};
    mxrt_tune_file *file = open_file(name, 0);
    mx_status status = mxrt_tune_each(file, filter, see, &state, damaged, &error);
    ck_assert_msg(status == MX_OK, "%s", error.message);
    mxrt_tune_close(file);
    return state;
}

static void run_sql(const char *name, const char *sql)
{
    sqlite3 *db;
    ck_assert_int_eq(sqlite3_open(name, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

START_TEST(rows_come_back)
{
    mxrt_tune_row row = row_of("a", 1.5, 10);
    ck_assert_int_eq(put(path, &row, 0), MXRT_TUNE_ADDED);
    seen state = read_all(path, NULL, NULL);
    ck_assert_int_eq(state.n, 1);
    ck_assert_mem_eq(&state.last, &row, sizeof(row));
    const mxrt_tune_filter none = {.variant = "b"}, one = {.variant = "a", .protocol = 1};
    ck_assert_int_eq(read_all(path, &none, NULL).n, 0);
    ck_assert_int_eq(read_all(path, &one, NULL).n, 1);
}
END_TEST

/* A row that ships with somebody's files must be found by later versions: schema, key and checksum
 * stay as they are. */
START_TEST(stable_format)
{
    mxrt_tune_row row = row_of("golden", 0.25, 3);
    put(path, &row, 0);
    sqlite3 *db;
    sqlite3_stmt *statement;
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(
        sqlite3_prepare_v2(db, "SELECT checksum FROM measurement", -1, &statement, NULL),
        SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(statement), SQLITE_ROW);
    ck_assert_str_eq((const char *)sqlite3_column_text(statement, 0), "644a2cba8818c200");
    sqlite3_finalize(statement);
    sqlite3_close(db);
}
END_TEST

START_TEST(better_rows_win)
{
    mxrt_tune_row few = row_of("a", 1.0, 5), many = row_of("a", 2.0, 50), late = few;
    ck_assert_int_eq(put(path, &few, 0), MXRT_TUNE_ADDED);
    ck_assert_int_eq(put(path, &many, 0), MXRT_TUNE_REPLACED);
    ck_assert_int_eq(put(path, &few, 0), MXRT_TUNE_KEPT);
    ck_assert_double_eq(read_all(path, NULL, NULL).last.ms, 2.0);
    ck_assert_int_eq(put(path, &few, 1), MXRT_TUNE_REPLACED);
    /* The clock may go back. */
    late.time_s = 10;
    late.ms = 9.0;
    ck_assert_int_eq(put(path, &late, 0), MXRT_TUNE_KEPT);
    /* Other code is another key. */
    strcpy(late.code, "fedcba9876543210");
    ck_assert_int_eq(put(path, &late, 0), MXRT_TUNE_ADDED);
    ck_assert_int_eq(read_all(path, NULL, NULL).n, 2);
}
END_TEST

START_TEST(damaged_rows)
{
    mxrt_tune_row a = row_of("a", 1.0, 5), b = row_of("b", 1.0, 5);
    int64_t damaged = 0, removed = 0;
    put(path, &a, 0);
    put(path, &b, 0);
    run_sql(path, "UPDATE measurement SET ms = 0.001 WHERE variant = 'b'");
    ck_assert_int_eq(read_all(path, NULL, &damaged).n, 1);
    ck_assert_int_eq(damaged, 1);
    mxrt_tune_file *file = open_file(path, 1);
    ck_assert_int_eq(mxrt_tune_remove(file, NULL, 0, &removed, &error), MX_OK);
    ck_assert_int_eq(removed, 0);
    ck_assert_int_eq(mxrt_tune_remove(file, NULL, 1, &removed, &error), MX_OK);
    ck_assert_int_eq(removed, 1);
    mxrt_tune_close(file);
    read_all(path, NULL, &damaged);
    ck_assert_int_eq(damaged, 0);
}
END_TEST

static mx_status try_open(const char *name, int may_write)
{
    mxrt_tune_file *file = NULL;
    mx_status status = mxrt_tune_open(name, may_write, &file, &error);
    ck_assert((status == MX_OK) == (file != NULL));
    mxrt_tune_close(file);
    return status;
}

START_TEST(other_files)
{
    mxrt_tune_row row = row_of("a", 1.0, 5);
    ck_assert_int_eq(try_open(path, 0), MX_ERR_NOT_FOUND);
    ck_assert_int_eq(try_open("", 1), MX_ERR_INVALID);
    put(path, &row, 0);
    run_sql(path, "PRAGMA user_version = 3");
    ck_assert_int_eq(try_open(path, 1), MX_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(error.message, "schema 3"));
    run_sql(path, "PRAGMA user_version = 2; PRAGMA application_id = 5");
    ck_assert_int_eq(try_open(path, 1), MX_ERR_INVALID);
    FILE *out = fopen(other, "w");
    for (int i = 0; i < 5000; i++)
        fputc(i * 7 % 251, out);
    fclose(out);
    ck_assert_int_eq(try_open(other, 1), MX_ERR_CORRUPT);
    ck_assert_int_eq(mxrt_tune_move_aside(other, &error), MX_OK);
    ck_assert_int_eq(try_open(other, 1), MX_OK);
    /* Texts that would not fit are refused, and nothing is written. */
    memset(row.note, 'x', sizeof(row.note));
    mxrt_tune_file *file = open_file(other, 1);
    ck_assert_int_eq(mxrt_tune_put(file, &row, 0, NULL, &error), MX_ERR_INVALID);
    row = row_of("a", -1.0, 5);
    ck_assert_int_eq(mxrt_tune_put(file, &row, 0, NULL, &error), MX_ERR_INVALID);
    mxrt_tune_close(file);
    ck_assert_int_eq(read_all(other, NULL, NULL).n, 0);
}
END_TEST

/* A file-size limit stands for a full disk. */
START_TEST(full_disk)
{
    mxrt_tune_row row = row_of("a", 1.0, 5);
    put(path, &row, 0);
    struct stat before;
    ck_assert_int_eq(stat(path, &before), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit limit = {(rlim_t)before.st_size, (rlim_t)before.st_size};
        mxrt_tune_file *file = NULL;
        mx_status status = MX_OK;
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        if (mxrt_tune_open(path, 1, &file, &error))
            _exit(3);
        for (int i = 0; i < 2000 && status == MX_OK; i++) {
            snprintf(row.variant, sizeof(row.variant), "v%d", i);
            status = mxrt_tune_put(file, &row, 0, NULL, &error);
        }
        _exit(status == MX_ERR_IO ? 0 : 4);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    ck_assert_int_ge(read_all(path, NULL, NULL).n, 1);
}
END_TEST

/* Every row that a writer was told is committed is there, whoever was killed. */
START_TEST(many_processes)
{
    enum { PROCESSES = 16, ROWS = 12 };
    pid_t pids[PROCESSES];
    int counts[2];
    ck_assert_int_eq(pipe(counts), 0);
    for (int p = 0; p < PROCESSES; p++) {
        if ((pids[p] = fork()))
            continue;
        mxrt_tune_file *file = NULL;
        for (int i = 0; i < ROWS; i++) {
            mxrt_tune_row row = row_of("", 1.0, 5);
            snprintf(row.variant, sizeof(row.variant), "p%d i%d", p, i);
            if (mxrt_tune_open(path, 1, &file, &error) ||
                mxrt_tune_put(file, &row, 0, NULL, &error) || write(counts[1], "+", 1) != 1) {
                fprintf(stderr, "process %d, row %d: %s\n", p, i, error.message);
                _exit(1);
            }
            mxrt_tune_close(file);
        }
        _exit(0);
    }
    close(counts[1]);
    usleep(60000);
    for (int p = 0; p < PROCESSES; p += 3)
        kill(pids[p], SIGKILL);
    int n = 0, status;
    for (char c; read(counts[0], &c, 1) == 1;)
        n++;
    for (int p = 0; p < PROCESSES; p++) {
        waitpid(pids[p], &status, 0);
        ck_assert_msg(WIFSIGNALED(status) || !WEXITSTATUS(status), "process %d", p);
    }
    close(counts[0]);
    int64_t damaged = 0;
    /* One that was killed between the commit and its word may have one more. */
    int found = read_all(path, NULL, &damaged).n;
    ck_assert_int_ge(found, n);
    ck_assert_int_le(found, n + PROCESSES);
    ck_assert_int_eq(damaged, 0);
}
END_TEST

/* ---- The model ---- */

/* What it must get right whatever its constants are. */
START_TEST(model)
{
    mxrt_device_info info = {.target = "sm_90a", .compute_units = 132};
    mxrt_model_chip chip;
    mxrt_model_kernel kernel = {.cost = 1, .registers = 32, .code_bytes = 4096}, changed = kernel;
    mxrt_model_chip_init(&info, &chip);
    ck_assert_int_eq(chip.compute_units, 132);
    /* A chip that is full, then half and a quarter empty. */
    double full = mxrt_model_score(&chip, &kernel, 1 << 20, 128);
    double half = mxrt_model_score(&chip, &kernel, 132, 128);
    double quarter = mxrt_model_score(&chip, &kernel, 66, 128);
    ck_assert_double_eq_tol(full, 1, 0.01);
    ck_assert_double_gt(half, 2 * full);
    ck_assert_double_eq_tol(quarter / half, 2, 0.3);
    /* The cost counts as it is; memory of a unit that only few programs share, and long code where
     * nothing hides it, count. */
    changed.cost = 1.5;
    ck_assert_double_eq_tol(mxrt_model_score(&chip, &changed, 1 << 20, 128), 1.5 * full, 1e-9);
    changed = kernel;
    changed.lds_bytes = 200000;
    ck_assert_double_gt(mxrt_model_score(&chip, &changed, 1 << 20, 128), 2 * full);
    changed = kernel;
    changed.code_bytes = 16384;
    ck_assert_double_gt(mxrt_model_score(&chip, &changed, 66, 128), quarter);
    ck_assert_double_eq(mxrt_model_score(&chip, &changed, 1 << 20, 128), full);
    /* 133 programs are one more than there are units. */
    ck_assert_double_gt(mxrt_model_score(&chip, &kernel, 133, 1024),
                        mxrt_model_score(&chip, &kernel, 264, 1024));
    ck_assert_double_gt(mxrt_model_layout(MX_OP_FROM, MX_LAYOUT_GENERAL), 1);
    ck_assert_double_eq(mxrt_model_layout(MX_OP_TO, MX_LAYOUT_TILES), 1);
    /* Whatever a pack says, a number comes out. */
    mxrt_model_kernel_init(NULL, &changed);
    ck_assert_double_ge(mxrt_model_score(&chip, &changed, 0, 0), 1);
}
END_TEST

/* ---- Choices ---- */

static int n_lines;
static char last_line[1024];

static void count_line(void *user, const char *line)
{
    (void)user;
    if (strstr(line, "measure") || strstr(line, "damaged")) {
        n_lines++;
        snprintf(last_line, sizeof(last_line), "%s", line);
    }
}

typedef struct bench {
    mxrt_context *context;
    mxrt_device *device;
    float x[64 * 256];
    unsigned char packed[64 * 16 * 18];
    mx_case_tensor in, out;
    mxrt_plan_request request;
} bench;

static void bench_open(bench *b, const char *file, int64_t rows)
{
    const mxrt_context_options options = {.log = count_line, .tune_file = file};
    const DLDevice cpu = {kDLCPU, 0};
    int64_t shape[2] = {rows, 256}, packed[2] = {rows * 16, 18};
    ck_assert_int_eq(mxrt_context_create(&options, &b->context, &error), MX_OK);
    mx_status status = mxrt_context_add_pack_file(b->context, getenv("MXGEN_TEST_PACK"), &error);
    ck_assert_msg(status == MX_OK, "%s", error.message);
    ck_assert_int_eq(mxrt_device_open(b->context, "host", &b->device, &error), MX_OK);
    mx_case_contiguous(mx_case_dl_type(MX_DTYPE_F32), cpu, 2, shape, b->x, &b->in);
    mx_case_contiguous((DLDataType){kDLUInt, 8, 1}, cpu, 2, packed, b->packed, &b->out);
    b->request = (mxrt_plan_request){.op = MX_OP_TO,
                                     .format = MX_FORMAT_MX9,
                                     .axis = -1,
                                     .in = &b->in.tensor,
                                     .out = &b->out.tensor};
}

static void bench_close(bench *b)
{
    mxrt_device_close(b->device);
    mxrt_context_destroy(b->context);
}

static mxrt_choice explain(bench *b, mxrt_policy policy)
{
    mxrt_choice choice;
    b->request.policy = policy;
    mx_status status = mxrt_explain(b->device, &b->request, &choice, &error);
    ck_assert_msg(status == MX_OK, "%s", error.message);
    mxrt_plan *plan;
    mxrt_plan_info info;
    ck_assert_int_eq(mxrt_plan_create(b->device, &b->request, &plan, &error), MX_OK);
    ck_assert_int_eq(mxrt_plan_get_info(plan, &info, &error), MX_OK);
    ck_assert_str_eq(info.variant, choice.variant);
    mxrt_plan_destroy(plan);
    return choice;
}

START_TEST(measurements_decide)
{
    static bench b;
    const char *names[64];
    char slow[200];
    mxrt_tune_row row;
    size_t n;
    bench_open(&b, path, 64);
    ck_assert_int_eq(mxrt_plan_variants(b.device, &b.request, names, 64, &n, &error), MX_OK);
    ck_assert_int_ge((int)n, 2);
    mxrt_choice choice = explain(&b, MXRT_POLICY_TUNED);
    ck_assert_int_eq(choice.source, MXRT_SOURCE_MODEL);
    /* Part of the key, and so as stable as the file. */
    ck_assert_str_eq(choice.bucket, "n10 l4 a16 r0 d1 m0");
    ck_assert_int_eq((int)choice.n_applicable, (int)n);
    ck_assert_str_eq(choice.variant, names[0]);
    b.request.policy = MXRT_POLICY_CACHED;
    ck_assert_int_eq(mxrt_explain(b.device, &b.request, &choice, &error), MX_ERR_NOT_FOUND);
    b.request.policy = (mxrt_policy)9;
    ck_assert_int_eq(mxrt_explain(b.device, &b.request, &choice, &error), MX_ERR_INVALID);
    b.request.policy = MXRT_POLICY_TUNED;
    /* The last is said to be the fastest. */
    snprintf(slow, sizeof(slow), "%s", names[n - 1]);
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_eq(mxrt_tune_key(b.device, &b.request, names[i], &row, &error), MX_OK);
        row.ms = 10.0 - (double)i;
        row.samples = 7;
        put(path, &row, 0);
    }
    bench_close(&b);
    bench_open(&b, path, 64);
    choice = explain(&b, MXRT_POLICY_TUNED);
    ck_assert_int_eq(choice.source, MXRT_SOURCE_EXACT);
    ck_assert_str_eq(choice.variant, slow);
    ck_assert_str_eq(choice.bucket, choice.from_bucket);
    ck_assert_ptr_nonnull(choice.runner_up);
    ck_assert_int_eq(explain(&b, MXRT_POLICY_MODEL).source, MXRT_SOURCE_MODEL);
    ck_assert_int_eq(explain(&b, MXRT_POLICY_CACHED).source, MXRT_SOURCE_EXACT);
    /* Along the other axis what was measured says nothing. */
    b.request.axis = 0;
    ck_assert_int_eq(explain(&b, MXRT_POLICY_TUNED).source, MXRT_SOURCE_MODEL);
    bench_close(&b);
    /* Half as many blocks: the nearest bucket. */
    bench_open(&b, path, 32);
    choice = explain(&b, MXRT_POLICY_TUNED);
    ck_assert_int_eq(choice.source, MXRT_SOURCE_NEAREST);
    ck_assert_str_eq(choice.variant, slow);
    ck_assert_str_ne(choice.bucket, choice.from_bucket);
    bench_close(&b);
    /* Too far away. */
    bench_open(&b, path, 1);
    ck_assert_int_eq(explain(&b, MXRT_POLICY_TUNED).source, MXRT_SOURCE_MODEL);
    bench_close(&b);
}
END_TEST

/* Whatever a tuning file is like, the computation goes on, and one line tells. */
START_TEST(never_a_failure)
{
    static bench b;
    mxrt_tune_row row = row_of("a", 1.0, 5);
    FILE *out = fopen(other, "w");
    fputs("no database, but long enough to be read as one: ", out);
    for (int i = 0; i < 300; i++)
        fputs("0123456789", out);
    fclose(out);
    put(path, &row, 0);
    run_sql(path, "PRAGMA user_version = 3");
    const char *const files[] = {other, path, folder, "/nowhere/at/all"};
    for (int i = 0; i < 4; i++) {
        n_lines = 0;
        bench_open(&b, files[i], 64);
        ck_assert_int_eq(explain(&b, MXRT_POLICY_TUNED).source, MXRT_SOURCE_MODEL);
        mx_status status =
            mxrt_convert_to(b.device, MX_FORMAT_MX9, -1, &b.in.tensor, &b.out.tensor, NULL, &error);
        ck_assert_int_eq(status, MX_OK);
        ck_assert_msg(n_lines == (i < 3), "%s: %d lines, the last: %s", files[i], n_lines,
                      last_line);
        bench_close(&b);
    }
}
END_TEST

/* ---- Measured now ---- */

static int count_rows(const char *name, const mxrt_tune_filter *filter)
{
    return read_all(name, filter, NULL).n;
}

START_TEST(measured_now)
{
    static bench b;
    const mxrt_tune_filter mine = {.protocol = MXTUNE_PROTOCOL_NOW, .op = "to"};
    mxrt_choice choice;
    bench_open(&b, path, 64);
    mx_case_fill(MX_VALUES_NORMAL, 3, MX_DTYPE_F32, b.x, 64 * 256);
    memset(b.packed, 0xee, sizeof(b.packed));
    b.request.policy = MXRT_POLICY_MEASURE;
    ck_assert_int_eq(mxrt_explain(b.device, &b.request, &choice, &error), MX_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(error.message, "budget"));
    /* Too little time: the model's, and the log says so. */
    n_lines = 0;
    b.request.budget_us = 1;
    ck_assert_int_eq(explain(&b, MXRT_POLICY_MEASURE).source, MXRT_SOURCE_MODEL);
    ck_assert_int_ge(n_lines, 1);
    ck_assert_msg(strstr(last_line, "not enough") != NULL, "%s", last_line);
    ck_assert_int_ne(access(path, F_OK), 0);
    b.request.budget_us = 300000;
    choice = explain(&b, MXRT_POLICY_MEASURE);
    ck_assert_int_eq(choice.source, MXRT_SOURCE_EXACT);
    ck_assert_double_gt(choice.measured_ms, 0);
    for (size_t i = 0; i < sizeof(b.packed); i++)
        ck_assert_int_eq(b.packed[i], 0xee);
    int n = count_rows(path, &mine);
    ck_assert(n == 1 || n == 2);
    ck_assert_int_eq(count_rows(path, NULL), n);
    /* Other policies use it in this process, which does not read the file again, and the next. */
    ck_assert_int_eq(explain(&b, MXRT_POLICY_TUNED).source, MXRT_SOURCE_EXACT);
    ck_assert_int_eq(explain(&b, MXRT_POLICY_MODEL).source, MXRT_SOURCE_MODEL);
    bench_close(&b);
    bench_open(&b, path, 64);
    b.request.budget_us = 1;
    mxrt_choice again = explain(&b, MXRT_POLICY_MEASURE);
    ck_assert_int_eq(again.source, MXRT_SOURCE_EXACT);
    ck_assert_double_eq(again.measured_ms, choice.measured_ms);
    bench_close(&b);
    /* What was measured with care decides over it, however slow. */
    bench_open(&b, path, 64);
    mxrt_tune_row row;
    const char *names[64];
    size_t n_names;
    ck_assert_int_eq(mxrt_plan_variants(b.device, &b.request, names, 64, &n_names, &error), MX_OK);
    ck_assert_int_eq(mxrt_tune_key(b.device, &b.request, names[n_names - 1], &row, &error), MX_OK);
    row.ms = 1000;
    row.samples = 3;
    put(path, &row, 0);
    bench_close(&b);
    bench_open(&b, path, 64);
    ck_assert_str_eq(explain(&b, MXRT_POLICY_TUNED).variant, row.variant);
    bench_close(&b);
}
END_TEST

/* A folder that cannot be written: nothing is kept but in the process, and one line tells. */
START_TEST(measured_in_vain)
{
    static bench b;
    bench_open(&b, "/proc/nowhere/t.mxtune", 64);
    n_lines = 0;
    b.request.budget_us = 300000;
    ck_assert_int_eq(explain(&b, MXRT_POLICY_MEASURE).source, MXRT_SOURCE_EXACT);
    b.request.axis = 0;
    ck_assert_int_eq(explain(&b, MXRT_POLICY_MEASURE).source, MXRT_SOURCE_EXACT);
    ck_assert_msg(n_lines == 1 && strstr(last_line, "not kept"), "%d: %s", n_lines, last_line);
    bench_close(&b);
    /* A damaged file is moved aside, and a new one begun. */
    FILE *out = fopen(other, "w");
    for (int i = 0; i < 5000; i++)
        fputc(i * 7 % 251, out);
    fclose(out);
    bench_open(&b, other, 64);
    b.request.budget_us = 300000;
    ck_assert_int_eq(explain(&b, MXRT_POLICY_MEASURE).source, MXRT_SOURCE_EXACT);
    bench_close(&b);
    ck_assert_int_ge(count_rows(other, NULL), 1);
    char aside[300];
    snprintf(aside, sizeof(aside), "%s.damaged", other);
    ck_assert_int_eq(access(aside, F_OK), 0);
}
END_TEST

typedef struct measurer {
    bench *b;
    mxrt_plan_request request;
    mx_case_tensor out;
    unsigned char packed[64 * 16 * 18];
    int failed;
} measurer;

static void *measure_in_thread(void *user)
{
    measurer *m = user;
    mxrt_choice choice;
    mx_error err;
    for (int i = 0; i < 40 && !m->failed; i++) {
        m->request.policy = i % 2 ? MXRT_POLICY_TUNED : MXRT_POLICY_MEASURE;
        m->failed = mxrt_explain(m->b->device, &m->request, &choice, &err) ||
                    (!(i % 2) && choice.source != MXRT_SOURCE_EXACT) ||
                    mxrt_convert_to(m->b->device, MX_FORMAT_MX9, m->request.axis, m->request.in,
                                    m->request.out, NULL, &err);
    }
    return NULL;
}

START_TEST(measured_by_threads)
{
    enum { THREADS = 4 };
    static bench b;
    static measurer measurers[THREADS];
    const int64_t packed[2] = {64 * 16, 18};
    pthread_t threads[THREADS];
    bench_open(&b, path, 64);
    mx_case_fill(MX_VALUES_NORMAL, 3, MX_DTYPE_F32, b.x, 64 * 256);
    for (int i = 0; i < THREADS; i++) {
        measurers[i] = (measurer){.b = &b, .request = b.request};
        mx_case_contiguous((DLDataType){kDLUInt, 8, 1}, (DLDevice){kDLCPU, 0}, 2, packed,
                           measurers[i].packed, &measurers[i].out);
        measurers[i].request.out = &measurers[i].out.tensor;
        measurers[i].request.axis = i % 2 - 1; /* two buckets: 64 rows of 256, 256 of 64 */
        measurers[i].request.budget_us = 300000;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, measure_in_thread, &measurers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        ck_assert_int_eq(measurers[i].failed, 0);
    }
    ck_assert_mem_eq(measurers[0].packed, measurers[2].packed, sizeof(measurers[0].packed));
    ck_assert_mem_eq(measurers[1].packed, measurers[3].packed, sizeof(measurers[1].packed));
    bench_close(&b);
    ck_assert_int_le(count_rows(path, NULL), 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tune");
    TCase *files = tcase_create("files"), *choices = tcase_create("choices");
    tcase_add_checked_fixture(files, setup, teardown);
    tcase_add_checked_fixture(choices, setup, teardown);
    tcase_set_timeout(files, 120);
    tcase_add_test(files, rows_come_back);
    tcase_add_test(files, stable_format);
    tcase_add_test(files, better_rows_win);
    tcase_add_test(files, damaged_rows);
    tcase_add_test(files, other_files);
    tcase_add_test(files, full_disk);
    tcase_add_test(files, many_processes);
    tcase_add_test(files, model);
    suite_add_tcase(suite, files);
    if (getenv("MXGEN_TEST_PACK")) {
        tcase_add_test(choices, measurements_decide);
        tcase_add_test(choices, never_a_failure);
        tcase_add_test(choices, measured_now);
        tcase_add_test(choices, measured_in_vain);
        tcase_add_test(choices, measured_by_threads);
    }
    suite_add_tcase(suite, choices);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
