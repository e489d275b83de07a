/* Tuning files on bad disks: each read, write, sync, lock and opening fails in turn, the disk is
 * full, the folder is read-only, bytes are damaged, the schema is older or newer. Rows that were
 * committed stay, and no computation fails.
 *
 *   MXGEN_TEST_PACK   a pack for the host with kernels of to mx9 f32 */
#include <check.h>
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mxgen/rt.h>
#include <mxgen/tune.h>

#include "tests/cases.h"
#include "tests/cli_run.h"

enum { NOBODY = 65534, ROWS = 64, LENGTH = 256, MOST_CALLS = 2000 };

/* ---- A file system that fails ---- */

typedef enum fault_mode {
    FAULT_ONCE = 0, /* one call fails */
    FAULT_FOR_GOOD, /* this one and all later ones */
    FAULT_FULL      /* the same, but only writes, which say that the disk is full */
} fault_mode;

static sqlite3_vfs *base;
static fault_mode mode;
static int n_calls, fail_at; /* counted from 1; fail_at 0: none fails */

typedef struct bad_file {
    sqlite3_file file;
    sqlite3_file *real; /* behind this struct */
} bad_file;

/* Counts a call and says whether it must fail. */
static int must_fail(int is_write)
{
    if (mode == FAULT_FULL && !is_write)
        return 0;
    n_calls++;
    return fail_at && (mode == FAULT_ONCE ? n_calls == fail_at : n_calls >= fail_at);
}

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((bad_file *)file)->real;
}

static int bad_close(sqlite3_file *file)
{
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int bad_read(sqlite3_file *file, void *data, int bytes, sqlite3_int64 at)
{
    return must_fail(0) ? SQLITE_IOERR_READ
                        : real_of(file)->pMethods->xRead(real_of(file), data, bytes, at);
}

/* Half of it reaches the disk. */
static int bad_write(sqlite3_file *file, const void *data, int bytes, sqlite3_int64 at)
{
    sqlite3_file *real = real_of(file);
    if (!must_fail(1))
        return real->pMethods->xWrite(real, data, bytes, at);
    real->pMethods->xWrite(real, data, bytes / 2, at);
    return mode == FAULT_FULL ? SQLITE_FULL : SQLITE_IOERR_WRITE;
}

static int bad_truncate(sqlite3_file *file, sqlite3_int64 bytes)
{
    return must_fail(0) ? SQLITE_IOERR_TRUNCATE
                        : real_of(file)->pMethods->xTruncate(real_of(file), bytes);
}

static int bad_sync(sqlite3_file *file, int flags)
{
    return must_fail(0) ? SQLITE_IOERR_FSYNC : real_of(file)->pMethods->xSync(real_of(file), flags);
}

static int bad_size(sqlite3_file *file, sqlite3_int64 *bytes)
{
    return must_fail(0) ? SQLITE_IOERR_FSTAT
                        : real_of(file)->pMethods->xFileSize(real_of(file), bytes);
}

static int bad_lock(sqlite3_file *file, int level)
{
    return must_fail(0) ? SQLITE_IOERR_LOCK : real_of(file)->pMethods->xLock(real_of(file), level);
}

static int bad_unlock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int bad_reserved(sqlite3_file *file, int *out)
{
    return must_fail(0) ? SQLITE_IOERR_CHECKRESERVEDLOCK
                        : real_of(file)->pMethods->xCheckReservedLock(real_of(file), out);
}

static int bad_control(sqlite3_file *file, int op, void *argument)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), op, argument);
}

static int bad_sector(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int bad_traits(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static const sqlite3_io_methods bad_methods = {
    .iVersion = 1,
    .xClose = bad_close,
    .xRead = bad_read,
    .xWrite = bad_write,
    .xTruncate = bad_truncate,
    .xSync = bad_sync,
    .xFileSize = bad_size,
    .xLock = bad_lock,
    .xUnlock = bad_unlock,
    .xCheckReservedLock = bad_reserved,
    .xFileControl = bad_control,
    .xSectorSize = bad_sector,
    .xDeviceCharacteristics = bad_traits,
};

/* Packs are SQLite files as well, and none of this test's business. */
static int is_ours(const char *name)
{
    return name && strstr(name, ".mxtune") != NULL;
}

static int bad_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    bad_file *made = (bad_file *)file;
    (void)vfs;
    memset(made, 0, sizeof(*made));
    if (is_ours(name) && must_fail(0))
        return SQLITE_CANTOPEN;
    if (!is_ours(name))
        return base->xOpen(base, name, file, flags, out);
    made->real = (sqlite3_file *)(made + 1);
    int code = base->xOpen(base, name, made->real, flags, out);
    if (!code)
        made->file.pMethods = &bad_methods;
    return code;
}

static int bad_delete(sqlite3_vfs *vfs, const char *name, int sync_folder)
{
    (void)vfs;
    return is_ours(name) && must_fail(0) ? SQLITE_IOERR_DELETE
                                         : base->xDelete(base, name, sync_folder);
}

static int bad_access(sqlite3_vfs *vfs, const char *name, int flags, int *out)
{
    (void)vfs;
    return is_ours(name) && must_fail(0) ? SQLITE_IOERR_ACCESS
                                         : base->xAccess(base, name, flags, out);
}

static sqlite3_vfs bad_vfs;

static void install_vfs(void)
{
    base = sqlite3_vfs_find(NULL);
    bad_vfs = *base;
    bad_vfs.zName = "bad";
    bad_vfs.szOsFile = base->szOsFile + (int)sizeof(bad_file);
    bad_vfs.xOpen = bad_open;
    bad_vfs.xDelete = bad_delete;
    bad_vfs.xAccess = bad_access;
    ck_assert_int_eq(sqlite3_vfs_register(&bad_vfs, 1), SQLITE_OK);
}

static void begin_faults(fault_mode how, int at)
{
    mode = how;
    fail_at = at;
    n_calls = 0;
}

/* Whether the call was reached; from here on all is well. */
static int end_faults(void)
{
    int reached = n_calls >= fail_at;
    fail_at = 0;
    return reached;
}

/* ---- Files ---- */

static char *folder, *path, *model;
static mx_error error;

static void setup(void)
{
    folder = cli_temp_create();
    path = cli_temp_path(folder, "t.mxtune");
    model = cli_temp_path(folder, "model.mxtune");
    install_vfs();
}

static void teardown(void)
{
    sqlite3_vfs_unregister(&bad_vfs);
    chmod(folder, 0700);
    cli_temp_destroy(folder);
    free(path);
    free(model);
}

static void copy_file(const char *from, const char *to)
{
    size_t bytes;
    char *data = cli_temp_read(from, &bytes);
    FILE *out = fopen(to, "wb");
    ck_assert_ptr_nonnull(out);
    ck_assert_uint_eq(fwrite(data, 1, bytes, out), bytes);
    fclose(out);
    free(data);
}

static void remove_file(const char *name)
{
    char journal[300];
    snprintf(journal, sizeof(journal), "%s-journal", name);
    unlink(name);
    unlink(journal);
}

static void run_sql(const char *name, const char *sql)
{
    sqlite3 *db;
    ck_assert_int_eq(sqlite3_open(name, &db), SQLITE_OK);
    ck_assert_msg(!sqlite3_exec(db, sql, NULL, NULL, NULL), "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
}

static int read_number(const char *name, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *statement;
    ck_assert_int_eq(sqlite3_open(name, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(statement), SQLITE_ROW);
    int number = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return number;
}

static mx_status count_row(void *user, const mxrt_tune_row *row, mx_error *err)
{
    (void)row;
    (void)err;
    ++*(int *)user;
    return MX_OK;
}

static int count_rows(const char *name)
{
    mxrt_tune_file *file = NULL;
    int64_t damaged = 0;
    int n = 0;
    mx_status status = mxrt_tune_open(name, 0, &file, &error);
    if (status == MX_OK)
        status = mxrt_tune_each(file, NULL, count_row, &n, &damaged, &error);
    mxrt_tune_close(file);
    ck_assert_msg(status == MX_OK && !damaged, "%s", error.message);
    return n;
}

static mx_status put(const char *name, const mxrt_tune_row *row)
{
    mxrt_tune_file *file = NULL;
    mx_status status = mxrt_tune_open(name, 1, &file, &error);
    if (status == MX_OK)
        status = mxrt_tune_put(file, row, 0, NULL, &error);
    mxrt_tune_close(file);
    return status;
}

/* ---- Computations ---- */

static int n_lines;
static char last_line[1200];

static void count_line(void *user, const char *line)
{
    (void)user;
    if (strstr(line, "kernels"))
        return; /* that a table was made */
    n_lines++;
    snprintf(last_line, sizeof(last_line), "%s", line);
}

static float input[ROWS * LENGTH];
static unsigned char output[ROWS * LENGTH / 16 * 18], expected[ROWS * LENGTH / 16 * 18];

typedef struct computation {
    mxrt_context *context;
    mxrt_device *device;
    mx_case_tensor in, out;
    mxrt_plan_request request;
} computation;

static void open_computation(computation *c, const char *file)
{
    const mxrt_context_options options = {.log = count_line, .tune_file = file};
    const DLDevice cpu = {kDLCPU, 0};
    const int64_t shape[2] = {ROWS, LENGTH}, packed[2] = {ROWS * LENGTH / 16, 18};
    n_lines = 0;
    ck_assert_int_eq(mxrt_context_create(&options, &c->context, &error), MX_OK);
    mx_status status = mxrt_context_add_pack_file(c->context, getenv("MXGEN_TEST_PACK"), &error);
    ck_assert_msg(status == MX_OK, "%s", error.message);
    ck_assert_int_eq(mxrt_device_open(c->context, "host?threads=1", &c->device, &error), MX_OK);
    mx_case_contiguous(mx_case_dl_type(MX_DTYPE_F32), cpu, 2, shape, input, &c->in);
    mx_case_contiguous((DLDataType){kDLUInt, 8, 1}, cpu, 2, packed, output, &c->out);
    c->request = (mxrt_plan_request){.op = MX_OP_TO,
                                     .format = MX_FORMAT_MX9,
                                     .axis = -1,
                                     .in = &c->in.tensor,
                                     .out = &c->out.tensor,
                                     .budget_us = 100000};
}

static void close_computation(computation *c)
{
    mxrt_device_close(c->device);
    mxrt_context_destroy(c->context);
}

/* Chooses with the file, runs, and compares. Returns where the choice came from. */
static mxrt_choice_source compute(const char *file, mxrt_policy policy)
{
    computation c;
    mxrt_choice choice;
    mxrt_plan *plan = NULL;
    open_computation(&c, file);
    c.request.policy = policy;
    memset(output, 0, sizeof(output));
    mx_status status = mxrt_plan_create(c.device, &c.request, &plan, &error);
    ck_assert_msg(status == MX_OK, "%s", error.message);
    ck_assert_int_eq(mxrt_plan_run(plan, NULL, NULL, NULL, &error), MX_OK);
    ck_assert_mem_eq(output, expected, sizeof(output));
    c.request.policy = MXRT_POLICY_TUNED;
    ck_assert_int_eq(mxrt_explain(c.device, &c.request, &choice, &error), MX_OK);
    mxrt_plan_destroy(plan);
    close_computation(&c);
    return choice.source;
}

/* The model file has two rows for the computation; *third is another one. */
static void make_model(mxrt_tune_row *third)
{
    computation c;
    const char *names[64];
    size_t n;
    mx_case_fill(MX_VALUES_NORMAL, 5, MX_DTYPE_F32, input, ROWS * LENGTH);
    open_computation(&c, "");
    ck_assert_int_eq(mxrt_plan_variants(c.device, &c.request, names, 64, &n, &error), MX_OK);
    ck_assert_int_ge((int)n, 3);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(mxrt_tune_key(c.device, &c.request, names[i], third, &error), MX_OK);
        third->ms = 1 + (double)i;
        third->samples = 9;
        if (i < 2)
            ck_assert_int_eq(put(model, third), MX_OK);
    }
    c.request.variant = "reference";
    c.out.tensor.data = expected;
    mxrt_plan *plan = NULL;
    ck_assert_int_eq(mxrt_plan_create(c.device, &c.request, &plan, &error), MX_OK);
    ck_assert_int_eq(mxrt_plan_run(plan, NULL, NULL, NULL, &error), MX_OK);
    mxrt_plan_destroy(plan);
    close_computation(&c);
}

/* Committed rows are there, whatever happened to the next one. */
static void check_rows(const char *name, int is_committed)
{
    int n = count_rows(name);
    ck_assert_msg(n == 2 || n == 3, "%d rows", n);
    ck_assert(n == 3 || !is_committed);
    ck_assert_int_eq(read_number(name, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"),
                     1);
}

/* ---- Each call fails ---- */

START_TEST(writing)
{
    mxrt_tune_row third;
    make_model(&third);
    for (int how = FAULT_ONCE; how <= FAULT_FULL; how++) {
        int at = 1, reached = 1, n_failed = 0;
        for (; reached && at < MOST_CALLS; at++) {
            remove_file(path);
            copy_file(model, path);
            begin_faults((fault_mode)how, at);
            mx_status status = put(path, &third);
            reached = end_faults();
            n_failed += status != MX_OK;
            ck_assert(status == MX_OK || error.message[0]);
            check_rows(path, status == MX_OK);
        }
        ck_assert_int_lt(at, MOST_CALLS);
        ck_assert_int_gt(n_failed, how == FAULT_FULL ? 2 : 10);
        ck_assert_int_eq(count_rows(path), 3); /* the last time, nothing failed */
    }
}
END_TEST

START_TEST(making)
{
    mxrt_tune_row third;
    make_model(&third);
    for (int how = FAULT_ONCE; how <= FAULT_FULL; how++) {
        int reached = 1;
        for (int at = 1; reached; at++) {
            ck_assert_int_lt(at, MOST_CALLS);
            remove_file(path);
            begin_faults((fault_mode)how, at);
            mx_status status = put(path, &third);
            reached = end_faults();
            /* Whatever is there can be used, or made into what can. */
            if (status != MX_OK)
                ck_assert_msg(put(path, &third) == MX_OK, "call %d: %s", at, error.message);
            ck_assert_int_eq(count_rows(path), 1);
        }
    }
}
END_TEST

START_TEST(upgrading)
{
    mxrt_tune_row third;
    make_model(&third);
    run_sql(model, "DROP INDEX best; PRAGMA user_version = 1");
    for (int how = FAULT_ONCE; how <= FAULT_FULL; how++) {
        int reached = 1;
        for (int at = 1; reached; at++) {
            ck_assert_int_lt(at, MOST_CALLS);
            remove_file(path);
            copy_file(model, path);
            begin_faults((fault_mode)how, at);
            mx_status status = put(path, &third);
            reached = end_faults();
            check_rows(path, status == MX_OK);
            ck_assert_int_eq(compute(path, MXRT_POLICY_TUNED), MXRT_SOURCE_EXACT);
        }
        ck_assert_int_eq(read_number(path, "PRAGMA user_version"), MXTUNE_VERSION);
    }
}
END_TEST

START_TEST(choosing)
{
    mxrt_tune_row third;
    int n_missed = 0;
    make_model(&third);
    for (int how = FAULT_ONCE; how <= FAULT_FOR_GOOD; how++) {
        int reached = 1;
        for (int at = 1; reached; at++) {
            ck_assert_int_lt(at, MOST_CALLS);
            begin_faults((fault_mode)how, at);
            mxrt_choice_source source = compute(model, MXRT_POLICY_TUNED);
            reached = end_faults();
            ck_assert_int_eq(n_lines, source == MXRT_SOURCE_MODEL);
            n_missed += source == MXRT_SOURCE_MODEL;
        }
        ck_assert_int_eq(count_rows(model), 2);
    }
    ck_assert_int_gt(n_missed, 10);
}
END_TEST

START_TEST(measuring_now)
{
    mxrt_tune_row third;
    make_model(&third);
    for (int how = FAULT_ONCE; how <= FAULT_FULL; how++) {
        int reached = 1;
        for (int at = 1; reached; at += 3) {
            ck_assert_int_lt(at, MOST_CALLS);
            remove_file(path);
            begin_faults((fault_mode)how, at);
            mxrt_choice_source source = compute(path, MXRT_POLICY_MEASURE);
            reached = end_faults();
            ck_assert_int_eq(source, MXRT_SOURCE_EXACT);
            ck_assert_msg(n_lines <= 1, "%d lines: %s", n_lines, last_line);
        }
        ck_assert_int_ge(count_rows(path), 1);
    }
}
END_TEST

/* ---- Damage ---- */

/* Wherever bytes are wrong, or missing. */
START_TEST(damaged_bytes)
{
    mxrt_tune_row third;
    size_t bytes;
    make_model(&third);
    char *data = cli_temp_read(model, &bytes);
    for (size_t at = 0; at < bytes; at += at < 200 ? 8 : 409) {
        FILE *out = fopen(path, "wb");
        ck_assert_ptr_nonnull(out);
        fwrite(data, 1, at, out);
        fputs("\xff\x81!damage", out);
        if (at % 2 && at + 9 < bytes)
            fwrite(data + at + 9, 1, bytes - at - 9, out); /* else it ends there */
        fclose(out);
        compute(path, MXRT_POLICY_TUNED);
        ck_assert_msg(n_lines <= 1, "%zu: %d lines", at, n_lines);
        remove_file(path);
    }
    free(data);
}
END_TEST

/* ---- Older and newer ---- */

static void check_untouched(const char *name, const char *data, size_t bytes)
{
    size_t now_bytes;
    char *now = cli_temp_read(name, &now_bytes);
    ck_assert_uint_eq(now_bytes, bytes);
    ck_assert_int_eq(memcmp(now, data, bytes), 0);
    free(now);
}

START_TEST(older_schema)
{
    mxrt_tune_row third;
    size_t bytes;
    make_model(&third);
    run_sql(model, "DROP INDEX best; PRAGMA user_version = 1; VACUUM");
    char *before = cli_temp_read(model, &bytes);
    /* It is read as it is. */
    ck_assert_int_eq(compute(model, MXRT_POLICY_TUNED), MXRT_SOURCE_EXACT);
    ck_assert_int_eq(n_lines, 0);
    ck_assert_int_eq(count_rows(model), 2);
    check_untouched(model, before, bytes);
    free(before);
    /* Writing makes it new, with all rows. */
    ck_assert_int_eq(put(model, &third), MX_OK);
    ck_assert_int_eq(count_rows(model), 3);
    ck_assert_int_eq(read_number(model, "PRAGMA user_version"), MXTUNE_VERSION);
    ck_assert_int_eq(read_number(model, "SELECT count(*) FROM sqlite_master WHERE type = 'index' "
                                        "AND name = 'best'"),
                     1);
    ck_assert_int_eq(compute(model, MXRT_POLICY_TUNED), MXRT_SOURCE_EXACT);
}
END_TEST

/* As a later version might be: a column more, and a number that is not known here. */
START_TEST(newer_schema)
{
    mxrt_tune_row third;
    size_t bytes;
    make_model(&third);
    run_sql(model, "ALTER TABLE measurement ADD COLUMN watts REAL; PRAGMA user_version = 3");
    char *before = cli_temp_read(model, &bytes);
    ck_assert_int_eq(compute(model, MXRT_POLICY_TUNED), MXRT_SOURCE_MODEL);
    ck_assert_msg(n_lines == 1 && strstr(last_line, "schema 3"), "%d: %s", n_lines, last_line);
    ck_assert_int_eq(compute(model, MXRT_POLICY_MEASURE), MXRT_SOURCE_EXACT);
    ck_assert_int_eq(n_lines, 1);
    ck_assert_int_eq(put(model, &third), MX_ERR_UNSUPPORTED);
    check_untouched(model, before, bytes);
    free(before);
}
END_TEST

/* ---- Read-only, and the wrong time ---- */

/* In a process of its own, which is not root. */
static int in_child(int (*work)(void))
{
    int status = 0;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        if (!geteuid() && (setegid(NOBODY) || seteuid(NOBODY)))
            _exit(99);
        _exit(work());
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static mxrt_tune_row third_row;

static int read_only_work(void)
{
    if (compute(model, MXRT_POLICY_TUNED) != MXRT_SOURCE_EXACT || n_lines)
        return 1;
    if (put(model, &third_row) != MX_ERR_IO)
        return 2;
    /* What cannot be kept is remembered in the process. */
    if (compute(path, MXRT_POLICY_MEASURE) != MXRT_SOURCE_EXACT || n_lines != 1)
        return 3;
    return access(path, F_OK) ? 0 : 4;
}

START_TEST(read_only)
{
    make_model(&third_row);
    chmod(model, 0444);
    chmod(folder, 0555);
    ck_assert_int_eq(in_child(read_only_work), 0);
}
END_TEST

/* A list of files that are only read; rows of the user's file win. */
START_TEST(system_files)
{
    mxrt_tune_row third;
    char list[600];
    computation c;
    mxrt_choice choice;
    make_model(&third);
    snprintf(list, sizeof(list), "%s/nothing:%s", folder, model);
    setenv("MXRT_TUNE_SYSTEM", list, 1);
    ck_assert_int_eq(compute(path, MXRT_POLICY_TUNED), MXRT_SOURCE_EXACT);
    ck_assert_int_eq(n_lines, 0);
    ck_assert_int_eq(compute("", MXRT_POLICY_TUNED), MXRT_SOURCE_MODEL); /* no files at all */
    /* The system's fastest is said to be slow, the third to be in between. */
    open_computation(&c, "");
    const char *names[64];
    size_t n;
    mxrt_tune_row first;
    ck_assert_int_eq(mxrt_plan_variants(c.device, &c.request, names, 64, &n, &error), MX_OK);
    ck_assert_int_eq(mxrt_tune_key(c.device, &c.request, names[0], &first, &error), MX_OK);
    close_computation(&c);
    first.ms = 50;
    first.samples = 9;
    third.ms = 1.5;
    ck_assert_int_eq(put(path, &first), MX_OK);
    ck_assert_int_eq(put(path, &third), MX_OK);
    open_computation(&c, path);
    ck_assert_int_eq(mxrt_explain(c.device, &c.request, &choice, &error), MX_OK);
    ck_assert_str_eq(choice.variant, third.variant);
    close_computation(&c);
    unsetenv("MXRT_TUNE_SYSTEM");
    ck_assert_int_eq(count_rows(model), 2);
}
END_TEST

/* Rows from the future decide like others, and yield to what is measured now if asked. */
START_TEST(clock_moved_back)
{
    mxrt_tune_row third;
    mxrt_tune_outcome outcome;
    mxrt_tune_file *file = NULL;
    make_model(&third);
    third.ms = 0.001;
    third.time_s = (int64_t)1 << 40;
    ck_assert_int_eq(put(model, &third), MX_OK);
    ck_assert_int_eq(compute(model, MXRT_POLICY_TUNED), MXRT_SOURCE_EXACT);
    ck_assert_int_eq(mxrt_tune_open(model, 1, &file, &error), MX_OK);
    third.time_s = 1000;
    ck_assert_int_eq(mxrt_tune_put(file, &third, 0, &outcome, &error), MX_OK);
    ck_assert_int_eq(outcome, MXRT_TUNE_KEPT);
    ck_assert_int_eq(mxrt_tune_put(file, &third, 1, &outcome, &error), MX_OK);
    ck_assert_int_eq(outcome, MXRT_TUNE_REPLACED);
    third.samples++;
    third.time_s = 999;
    ck_assert_int_eq(mxrt_tune_put(file, &third, 0, &outcome, &error), MX_OK);
    ck_assert_int_eq(outcome, MXRT_TUNE_REPLACED);
    mxrt_tune_close(file);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tune_io");
    TCase *tcase = tcase_create("files");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, writing);
    tcase_add_test(tcase, making);
    tcase_add_test(tcase, upgrading);
    tcase_add_test(tcase, choosing);
    tcase_add_test(tcase, measuring_now);
    tcase_add_test(tcase, damaged_bytes);
    tcase_add_test(tcase, older_schema);
    tcase_add_test(tcase, newer_schema);
    tcase_add_test(tcase, read_only);
    tcase_add_test(tcase, system_files);
    tcase_add_test(tcase, clock_moved_back);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
