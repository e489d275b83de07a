/* Tuning files: SQLite, one row a measurement, each with its checksum. */
#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <mxgen/error.h>
#include <mxgen/tune.h>

#include "runtime/tune_file.h"

#define BUSY_MS 20000
#define PATH_BYTES 4096

struct mxrt_tune_file {
    sqlite3 *db;
    char *path;
};

/* The columns, in the order of the schema and of the checksum. */
enum {
    COL_OP = 0,
    COL_FORMAT,
    COL_DTYPE,
    COL_PROFILE,
    COL_BUCKET,
    COL_DEVICE,
    COL_DRIVER,
    COL_PROTOCOL,
    COL_VARIANT,
    COL_CODE,
    COL_LAYOUT,
    COL_SHAPE,
    COL_BYTES,
    COL_SAMPLES,
    COL_MS,
    COL_SPREAD,
    COL_TIME,
    COL_NOTE,
    COL_CHECKSUM,
    COL_COUNT
};

#define COLUMNS                                                                                    \
    "op, format, dtype, profile, bucket, device, driver, protocol, variant, code, layout, shape, " \
    "bytes, samples, ms, spread, time, note, checksum"

static const char schema[] =
    "CREATE TABLE measurement(op TEXT NOT NULL, format TEXT NOT NULL, dtype TEXT NOT NULL,"
    " profile TEXT NOT NULL, bucket TEXT NOT NULL, device TEXT NOT NULL, driver TEXT NOT NULL,"
    " protocol INTEGER NOT NULL, variant TEXT NOT NULL, code TEXT NOT NULL, layout TEXT NOT NULL,"
    " shape TEXT NOT NULL, bytes INTEGER NOT NULL, samples INTEGER NOT NULL, ms REAL NOT NULL,"
    " spread REAL NOT NULL, time INTEGER NOT NULL, note TEXT NOT NULL, checksum TEXT NOT NULL,"
    " PRIMARY KEY(device, op, format, dtype, profile, bucket, driver, protocol, variant, code))"
    " WITHOUT ROWID;";

/* Since version 2. */
static const char best_index[] =
    "CREATE INDEX best ON measurement(device, op, format, dtype, profile, driver, bucket,"
    " protocol, ms / bytes) WHERE samples > 0;";

/* ---- Where ---- */

mx_status mxrt_tune_default_path(char *path, size_t path_bytes, mx_error *err)
{
    const char *named = getenv("MXRT_TUNE_FILE"), *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    int n;

    if (!path)
        return mx_fail(err, MX_ERR_INVALID, "path must not be NULL");
    if (named && !*named)
        return mx_fail(err, MX_ERR_NOT_FOUND, "MXRT_TUNE_FILE is empty: no tuning file is used");
    /* The specification of these folders has relative paths ignored. */
    if (named)
        n = snprintf(path, path_bytes, "%s", named);
    else if (cache && *cache == '/')
        n = snprintf(path, path_bytes, "%s/mxgen/tune.mxtune", cache);
    else if (home && *home == '/')
        n = snprintf(path, path_bytes, "%s/.cache/mxgen/tune.mxtune", home);
    else
        return mx_fail(err, MX_ERR_NOT_FOUND,
                       "no cache folder: MXRT_TUNE_FILE, XDG_CACHE_HOME and HOME are not set");
    if (n < 0 || (size_t)n >= path_bytes)
        return mx_fail(err, MX_ERR_INVALID, "the tuning file's path has %d bytes, %zu fit", n,
                       path_bytes);
    return MX_OK;
}

/* The folders above a file. */
static mx_status make_folders(const char *path, mx_error *err)
{
    char folder[PATH_BYTES];
    int n = snprintf(folder, sizeof(folder), "%s", path);

    if (n < 0 || (size_t)n >= sizeof(folder))
        return mx_fail(err, MX_ERR_INVALID, "a path of %d bytes, %d fit", n, PATH_BYTES);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(folder, 0777) && errno != EEXIST)
            return mx_fail(err, MX_ERR_IO, "cannot make the folder %.500s: %s", folder,
                           strerror(errno));
        *slash = '/';
    }
    return MX_OK;
}

/* ---- SQLite ---- */

static mx_status status_of(int code)
{
    switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return MX_ERR_CORRUPT;
    case SQLITE_NOMEM:
        return MX_ERR_NO_MEMORY;
    case SQLITE_CANTOPEN:
        return MX_ERR_NOT_FOUND;
    default:
        return MX_ERR_IO;
    }
}

static mx_status fail(const mxrt_tune_file *file, const char *what, mx_error *err)
{
    return mx_fail(err, status_of(sqlite3_errcode(file->db)), "tuning file %.500s: %s: %s",
                   file->path, what, sqlite3_errmsg(file->db));
}

static mx_status run(const mxrt_tune_file *file, const char *sql, mx_error *err)
{
    return sqlite3_exec(file->db, sql, NULL, NULL, NULL) ? fail(file, sql, err) : MX_OK;
}

static mx_status read_pragma(const mxrt_tune_file *file, const char *sql, int64_t *out,
                             mx_error *err)
{
    sqlite3_stmt *statement = NULL;
    mx_status status = MX_OK;

    if (sqlite3_prepare_v2(file->db, sql, -1, &statement, NULL) ||
        sqlite3_step(statement) != SQLITE_ROW)
        status = fail(file, sql, err);
    else
        *out = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return status;
}

/* A database without a table that nobody has marked is new: version 0. */
static mx_status read_version(const mxrt_tune_file *file, int64_t *version, mx_error *err)
{
    int64_t tables = 0, application = 0;
    mx_status status;

    if ((status = read_pragma(file, "PRAGMA application_id", &application, err)) ||
        (status = read_pragma(file, "PRAGMA user_version", version, err)))
        return status;
    if (!application && !*version &&
        (status = read_pragma(file, "SELECT count(*) FROM sqlite_master", &tables, err)))
        return status;
    if (!application && !*version && !tables)
        return MX_OK;
    if (application != MXTUNE_APPLICATION_ID)
        return mx_fail(err, MX_ERR_INVALID,
                       "%.500s is not a tuning file: its application id is %" PRId64 ", not %d",
                       file->path, application, MXTUNE_APPLICATION_ID);
    if (*version < 1 || *version > MXTUNE_VERSION)
        return mx_fail(err, MX_ERR_UNSUPPORTED,
                       "tuning file %.500s has schema %" PRId64 ", this library knows 1 to %d; use "
                       "another file (MXRT_TUNE_FILE)",
                       file->path, *version, MXTUNE_VERSION);
    return MX_OK;
}

/* Of two processes that find a file empty or old the second finds it made. */
static mx_status upgrade(const mxrt_tune_file *file, mx_error *err)
{
    char sql[160];
    int64_t version = 0;
    mx_status status;

    if ((status = run(file, "BEGIN IMMEDIATE", err)))
        return status;
    status = read_version(file, &version, err);
    snprintf(sql, sizeof(sql), "PRAGMA application_id = %d; PRAGMA user_version = %d;",
             MXTUNE_APPLICATION_ID, MXTUNE_VERSION);
    if (!status && version < 1)
        status = run(file, schema, err);
    if (!status && version < 2)
        status = run(file, best_index, err);
    if (!status)
        status = run(file, sql, err);
    if (!status)
        status = run(file, "COMMIT", err);
    if (status)
        (void)run(file, "ROLLBACK", NULL);
    return status;
}

static mx_status open_as(mxrt_tune_file *file, unsigned how, int flags, int busy_ms,
                         int64_t *version, mx_error *err)
{
    mx_status status;

    if (sqlite3_open_v2(file->path, &file->db, flags | SQLITE_OPEN_NOMUTEX, NULL))
        return mx_fail(err, status_of(sqlite3_errcode(file->db)),
                       "cannot open tuning file %.500s: %s", file->path, sqlite3_errmsg(file->db));
    sqlite3_busy_timeout(file->db, busy_ms);
    sqlite3_db_config(file->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    /* One transaction, as another process may be making the file. */
    if (!(status = run(file, "BEGIN", err)))
        status = read_version(file, version, err);
    if (!status && !(how & MXRT_TUNE_SNAPSHOT))
        status = run(file, "COMMIT", err);
    return status;
}

static mx_status open_db(mxrt_tune_file *file, unsigned how, int busy_ms, mx_error *err)
{
    int may_write = how & MXRT_TUNE_WRITE;
    int flags = may_write ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READONLY;
    int64_t version = 0;
    mx_status status = open_as(file, how, flags, busy_ms, &version, err);

    /* A writer died halfway, and who reads has to put things back first. */
    if (status && !may_write && (sqlite3_errcode(file->db) & 0xff) == SQLITE_READONLY) {
        sqlite3_close(file->db);
        file->db = NULL;
        status = open_as(file, how, SQLITE_OPEN_READWRITE, busy_ms, &version, err);
    }
    if (status)
        return status;
    if (may_write && version < MXTUNE_VERSION)
        return upgrade(file, err);
    return version ? MX_OK
                   : mx_fail(err, MX_ERR_NOT_FOUND, "tuning file %.500s is empty", file->path);
}

mx_status mxrt_tune_open_within(const char *path, unsigned flags, int busy_ms, mxrt_tune_file **out,
                                mx_error *err)
{
    mxrt_tune_file *file;
    mx_status status = MX_OK;

    if (!path || !*path || !out)
        return mx_fail(err, MX_ERR_INVALID, "path and out must not be NULL, nor the path empty");
    if (flags & MXRT_TUNE_WRITE && (status = make_folders(path, err)))
        return status;
    if (!(file = calloc(1, sizeof(*file))) || !(file->path = strdup(path)))
        status = mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a tuning file");
    else
        status = open_db(file, flags, busy_ms, err);
    if (status)
        mxrt_tune_close(file);
    else
        *out = file;
    return status;
}

mx_status mxrt_tune_open(const char *path, int may_write, mxrt_tune_file **out, mx_error *err)
{
    return mxrt_tune_open_within(path, may_write ? MXRT_TUNE_WRITE : 0, BUSY_MS, out, err);
}

void mxrt_tune_close(mxrt_tune_file *file)
{
    if (!file)
        return;
    sqlite3_close(file->db);
    free(file->path);
    free(file);
}

mx_status mxrt_tune_move_aside(const char *path, mx_error *err)
{
    char aside[PATH_BYTES], journal[PATH_BYTES];

    if (!path)
        return mx_fail(err, MX_ERR_INVALID, "path must not be NULL");
    int n = snprintf(aside, sizeof(aside), "%s.damaged", path);
    int m = snprintf(journal, sizeof(journal), "%s-journal", path);
    if (n < 0 || m < 0 || n >= PATH_BYTES || m >= PATH_BYTES)
        return mx_fail(err, MX_ERR_INVALID, "a path of %zu bytes is too long", strlen(path));
    if (rename(path, aside))
        return mx_fail(err, MX_ERR_IO, "cannot move %.400s aside: %s", path, strerror(errno));
    /* It belongs to the damaged file. */
    unlink(journal);
    return MX_OK;
}

/* ---- Rows ---- */

#define TEXT(column, member)                                                                       \
    [column] = {offsetof(mxrt_tune_row, member), sizeof(((mxrt_tune_row *)0)->member)}
#define NUMBER(column, member) [column] = {offsetof(mxrt_tune_row, member), 0}

/* Where the columns are in a row; bytes 0: an int64_t, or a double. */
static const struct {
    size_t offset, bytes;
} fields[COL_CHECKSUM] = {
    TEXT(COL_OP, op),           TEXT(COL_FORMAT, format),       TEXT(COL_DTYPE, dtype),
    TEXT(COL_PROFILE, profile), TEXT(COL_BUCKET, bucket),       TEXT(COL_DEVICE, device),
    TEXT(COL_DRIVER, driver),   NUMBER(COL_PROTOCOL, protocol), TEXT(COL_VARIANT, variant),
    TEXT(COL_CODE, code),       TEXT(COL_LAYOUT, layout),       TEXT(COL_SHAPE, shape),
    NUMBER(COL_BYTES, bytes),   NUMBER(COL_SAMPLES, samples),   NUMBER(COL_MS, ms),
    NUMBER(COL_SPREAD, spread), NUMBER(COL_TIME, time_s),       TEXT(COL_NOTE, note),
};

static int is_real(int column)
{
    return column == COL_MS || column == COL_SPREAD;
}

/* XXH3-64 over all other columns: texts with their zero, numbers as their eight bytes. */
static void checksum(const mxrt_tune_row *row, char out[20])
{
    static const char digits[] = "0123456789abcdef";
    char bytes[sizeof(*row)];
    size_t used = 0;

    for (int i = 0; i < COL_CHECKSUM; i++) {
        const char *at = (const char *)row + fields[i].offset;
        size_t length = fields[i].bytes ? strlen(at) + 1 : sizeof(int64_t);
        memcpy(bytes + used, at, length);
        used += length;
    }
    uint64_t sum = XXH3_64bits(bytes, used);
    for (int i = 0; i < 16; i++)
        out[i] = digits[sum >> (60 - 4 * i) & 15];
    out[16] = 0;
}

/* False if a column has another type or does not fit, or the checksum does not hold. */
static int read_row(sqlite3_stmt *statement, mxrt_tune_row *row)
{
    char expected[20];

    memset(row, 0, sizeof(*row));
    for (int i = 0; i < COL_CHECKSUM; i++) {
        char *at = (char *)row + fields[i].offset;
        if (fields[i].bytes) {
            const char *value = (const char *)sqlite3_column_text(statement, i);
            size_t length = value ? (size_t)sqlite3_column_bytes(statement, i) : SIZE_MAX;
            if (length >= fields[i].bytes)
                return 0;
            memcpy(at, value, length);
        } else if (is_real(i)) {
            double value = sqlite3_column_double(statement, i);
            memcpy(at, &value, sizeof(value));
        } else if (sqlite3_column_type(statement, i) == SQLITE_INTEGER) {
            int64_t value = sqlite3_column_int64(statement, i);
            memcpy(at, &value, sizeof(value));
        } else {
            return 0;
        }
    }
    checksum(row, expected);
    const char *found = (const char *)sqlite3_column_text(statement, COL_CHECKSUM);
    return found && !strcmp(found, expected);
}

static int bind_row(sqlite3_stmt *statement, const mxrt_tune_row *row)
{
    char sum[20];
    int code = SQLITE_OK;

    checksum(row, sum);
    for (int i = 0; i < COL_CHECKSUM && !code; i++) {
        const char *at = (const char *)row + fields[i].offset;
        double real;
        int64_t integer;
        memcpy(&real, at, sizeof(real));
        memcpy(&integer, at, sizeof(integer));
        if (fields[i].bytes)
            code = sqlite3_bind_text(statement, i + 1, at, -1, SQLITE_TRANSIENT);
        else if (is_real(i))
            code = sqlite3_bind_double(statement, i + 1, real);
        else
            code = sqlite3_bind_int64(statement, i + 1, integer);
    }
    return code ? code : sqlite3_bind_text(statement, COL_CHECKSUM + 1, sum, -1, SQLITE_TRANSIENT);
}

static mx_status prepare(const mxrt_tune_file *file, const char *sql, sqlite3_stmt **out,
                         mx_error *err)
{
    return sqlite3_prepare_v2(file->db, sql, -1, out, NULL) ? fail(file, "prepare", err) : MX_OK;
}

static mx_status insert(const mxrt_tune_file *file, const mxrt_tune_row *row, mx_error *err)
{
    sqlite3_stmt *statement = NULL;
    mx_status status = prepare(file,
                               "INSERT OR REPLACE INTO measurement(" COLUMNS ") VALUES"
                               "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                               &statement, err);

    if (!status && (bind_row(statement, row) || sqlite3_step(statement) != SQLITE_DONE))
        status = fail(file, "insert", err);
    sqlite3_finalize(statement);
    return status;
}

/* ---- Filters ---- */

typedef struct condition {
    const char *column, *value;
} condition;

enum { CONDITIONS = 8 };

static void conditions_of(const mxrt_tune_filter *filter, condition out[CONDITIONS])
{
    static const mxrt_tune_filter any;
    const mxrt_tune_filter *from = filter ? filter : &any;

    out[0] = (condition){"op", from->op};
    out[1] = (condition){"format", from->format};
    out[2] = (condition){"dtype", from->dtype};
    out[3] = (condition){"profile", from->profile};
    out[4] = (condition){"device", from->device};
    out[5] = (condition){"driver", from->driver};
    out[6] = (condition){"bucket", from->bucket};
    out[7] = (condition){"variant", from->variant};
}

/* Prepares `head` with the filter's conditions and binds them. */
static mx_status prepare_filtered(const mxrt_tune_file *file, const char *head, const char *tail,
                                  const mxrt_tune_filter *filter, sqlite3_stmt **out, mx_error *err)
{
    condition conditions[CONDITIONS];
    char sql[1024];
    size_t used = (size_t)snprintf(sql, sizeof(sql), "%s WHERE 1", head);
    int at = 1;
    mx_status status;

    conditions_of(filter, conditions);
    for (int i = 0; i < CONDITIONS; i++) {
        if (conditions[i].value)
            used += (size_t)snprintf(sql + used, sizeof(sql) - used, " AND %s = ?",
                                     conditions[i].column);
    }
    if (filter && filter->protocol)
        used += (size_t)snprintf(sql + used, sizeof(sql) - used, " AND protocol = %" PRId64,
                                 filter->protocol);
    if (filter && filter->older_than_s)
        used += (size_t)snprintf(sql + used, sizeof(sql) - used, " AND time < %" PRId64,
                                 filter->older_than_s);
    snprintf(sql + used, sizeof(sql) - used, "%s", tail);
    if ((status = prepare(file, sql, out, err)))
        return status;
    for (int i = 0; i < CONDITIONS; i++) {
        if (conditions[i].value &&
            sqlite3_bind_text(*out, at++, conditions[i].value, -1, SQLITE_TRANSIENT))
            return fail(file, "bind", err);
    }
    return MX_OK;
}

mx_status mxrt_tune_each(mxrt_tune_file *file, const mxrt_tune_filter *filter, mxrt_tune_row_fn fn,
                         void *user, int64_t *n_damaged, mx_error *err)
{
    sqlite3_stmt *statement = NULL;
    int64_t damaged = 0;
    int code = SQLITE_DONE;

    if (!file || !fn)
        return mx_fail(err, MX_ERR_INVALID, "file and fn must not be NULL");
    mx_status status = prepare_filtered(file, "SELECT " COLUMNS " FROM measurement",
                                        " ORDER BY device, op, format, dtype, profile, bucket, "
                                        "driver, protocol, variant, code",
                                        filter, &statement, err);
    while (!status && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        mxrt_tune_row row;
        if (read_row(statement, &row))
            status = fn(user, &row, err);
        else
            damaged++;
    }
    if (!status && code != SQLITE_DONE)
        status = fail(file, "read", err);
    sqlite3_finalize(statement);
    if (n_damaged)
        *n_damaged = damaged;
    return status;
}

/* Walks until enough of each bucket is seen; the index takes it from one to the next. */
static mx_status walk_best(mxrt_tune_file *file, sqlite3_stmt *statement, mxrt_tune_best_fn fn,
                           void *user, int64_t *n_damaged, mx_error *err)
{
    char bucket[sizeof(((mxrt_tune_row *)0)->bucket)] = "";
    mx_status status = MX_OK;
    int code;

    do {
        int enough = 0;
        sqlite3_reset(statement);
        sqlite3_bind_text(statement, 7, bucket, -1, SQLITE_STATIC);
        while (!status && !enough && (code = sqlite3_step(statement)) == SQLITE_ROW) {
            mxrt_tune_row row;
            if (!read_row(statement, &row)) {
                ++*n_damaged;
                continue;
            }
            status = fn(user, &row, &enough, err);
            if (enough)
                memcpy(bucket, row.bucket, sizeof(bucket));
        }
    } while (!status && code == SQLITE_ROW);
    if (!status && code != SQLITE_DONE)
        status = fail(file, "read", err);
    return status;
}

mx_status mxrt_tune_best(mxrt_tune_file *file, const mxrt_tune_filter *filter, mxrt_tune_best_fn fn,
                         void *user, int64_t *n_damaged, mx_error *err)
{
    const char *const key[] = {filter->device, filter->op,      filter->format,
                               filter->dtype,  filter->profile, filter->driver};
    sqlite3_stmt *statement = NULL;
    mx_status status = prepare(file,
                               "SELECT " COLUMNS " FROM measurement WHERE device = ? AND op = ?"
                               " AND format = ? AND dtype = ? AND profile = ? AND driver = ?"
                               " AND bucket > ? AND samples > 0"
                               " ORDER BY bucket, protocol, ms / bytes",
                               &statement, err);

    *n_damaged = 0;
    for (int i = 0; i < 6 && !status; i++) {
        if (sqlite3_bind_text(statement, i + 1, key[i], -1, SQLITE_STATIC))
            status = fail(file, "bind", err);
    }
    if (!status)
        status = walk_best(file, statement, fn, user, n_damaged, err);
    sqlite3_finalize(statement);
    return status;
}

/* ---- Writing ---- */

static int same_key(const mxrt_tune_row *a, const mxrt_tune_row *b)
{
    return !strcmp(a->code, b->code) && a->protocol == b->protocol;
}

typedef struct lookup {
    const mxrt_tune_row *wanted;
    mxrt_tune_row found;
    int is_there;
} lookup;

static mx_status look(void *user, const mxrt_tune_row *row, mx_error *err)
{
    lookup *state = user;

    (void)err;
    if (same_key(row, state->wanted)) {
        state->found = *row;
        state->is_there = 1;
    }
    return MX_OK;
}

static mx_status put(mxrt_tune_file *file, const mxrt_tune_row *row, int force,
                     mxrt_tune_outcome *outcome, mx_error *err)
{
    const mxrt_tune_filter filter = {.op = row->op,
                                     .format = row->format,
                                     .dtype = row->dtype,
                                     .profile = row->profile,
                                     .device = row->device,
                                     .driver = row->driver,
                                     .bucket = row->bucket,
                                     .variant = row->variant};
    lookup state = {.wanted = row};
    mx_status status = mxrt_tune_each(file, &filter, look, &state, NULL, err);

    if (status)
        return status;
    *outcome = state.is_there ? MXRT_TUNE_REPLACED : MXRT_TUNE_ADDED;
    if (state.is_there && !force &&
        (state.found.samples > row->samples ||
         (state.found.samples == row->samples && state.found.time_s >= row->time_s))) {
        *outcome = MXRT_TUNE_KEPT;
        return MX_OK;
    }
    return insert(file, row, err);
}

/* Texts that are not ended would be read past their field. */
static mx_status check_row(const mxrt_tune_row *row, mx_error *err)
{
    for (int i = 0; i < COL_CHECKSUM; i++) {
        const char *at = (const char *)row + fields[i].offset;
        if (fields[i].bytes && !memchr(at, 0, fields[i].bytes))
            return mx_fail(err, MX_ERR_INVALID,
                           "text number %d of a row is longer than its %zu bytes", i,
                           fields[i].bytes - 1);
    }
    if (!(row->ms >= 0) || !(row->spread >= 0) || row->samples < 0)
        return mx_fail(err, MX_ERR_INVALID,
                       "a measurement of %g ms, spread %g, %" PRId64
                       " samples: none may be negative",
                       row->ms, row->spread, row->samples);
    return MX_OK;
}

mx_status mxrt_tune_put(mxrt_tune_file *file, const mxrt_tune_row *row, int force,
                        mxrt_tune_outcome *outcome, mx_error *err)
{
    mxrt_tune_outcome made = MXRT_TUNE_KEPT;
    mx_status status;

    if (!file || !row)
        return mx_fail(err, MX_ERR_INVALID, "file and row must not be NULL");
    if ((status = check_row(row, err)) || (status = run(file, "BEGIN IMMEDIATE", err)))
        return status;
    if (!(status = put(file, row, force, &made, err)))
        status = run(file, "COMMIT", err);
    if (status)
        (void)run(file, "ROLLBACK", NULL);
    else if (outcome)
        *outcome = made;
    return status;
}

/* Deletes by checksum: a damaged row's other columns may be anything. */
static mx_status remove_damaged(mxrt_tune_file *file, int64_t *n, mx_error *err)
{
    sqlite3_stmt *all = NULL, *one = NULL;
    mxrt_tune_row row;
    int code = SQLITE_DONE;
    mx_status status = prepare(file, "SELECT " COLUMNS " FROM measurement", &all, err);

    if (!status)
        status = prepare(file, "DELETE FROM measurement WHERE checksum IS ?", &one, err);
    while (!status && (code = sqlite3_step(all)) == SQLITE_ROW) {
        if (read_row(all, &row))
            continue;
        sqlite3_bind_value(one, 1, sqlite3_column_value(all, COL_CHECKSUM));
        if (sqlite3_step(one) != SQLITE_DONE)
            status = fail(file, "delete", err);
        *n += sqlite3_changes(file->db);
        sqlite3_reset(one);
    }
    if (!status && code != SQLITE_DONE)
        status = fail(file, "read", err);
    sqlite3_finalize(all);
    sqlite3_finalize(one);
    return status;
}

static int is_empty_filter(const mxrt_tune_filter *filter)
{
    condition conditions[CONDITIONS];

    conditions_of(filter, conditions);
    for (int i = 0; i < CONDITIONS; i++) {
        if (conditions[i].value)
            return 0;
    }
    return !filter || (!filter->protocol && !filter->older_than_s);
}

static mx_status remove_rows(mxrt_tune_file *file, const mxrt_tune_filter *filter, int64_t *n,
                             mx_error *err)
{
    sqlite3_stmt *statement = NULL;
    mx_status status =
        prepare_filtered(file, "DELETE FROM measurement", "", filter, &statement, err);

    if (!status && sqlite3_step(statement) != SQLITE_DONE)
        status = fail(file, "delete", err);
    if (!status)
        *n += sqlite3_changes(file->db);
    sqlite3_finalize(statement);
    return status;
}

mx_status mxrt_tune_remove(mxrt_tune_file *file, const mxrt_tune_filter *filter, int damaged,
                           int64_t *n, mx_error *err)
{
    int64_t removed = 0;
    mx_status status;

    if (!file)
        return mx_fail(err, MX_ERR_INVALID, "file must not be NULL");
    if ((status = run(file, "BEGIN IMMEDIATE", err)))
        return status;
    if (damaged)
        status = remove_damaged(file, &removed, err);
    if (!status && !is_empty_filter(filter))
        status = remove_rows(file, filter, &removed, err);
    if (!status)
        status = run(file, "COMMIT", err);
    if (status)
        (void)run(file, "ROLLBACK", NULL);
    else if (n)
        *n = removed;
    return status;
}
