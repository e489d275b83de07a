#include "pack_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mxgen/error.h>
#include <mxgen/pack.h>

#include "pack_text.h"

/* SQLite's file header, https://www.sqlite.org/fileformat2.html, section 1.3; big-endian. */
#define HEADER_BYTES 100
#define HEADER_MAGIC "SQLite format 3"
enum {
    AT_PAGE_SIZE = 16,
    AT_WRITE_VERSION = 18,
    AT_READ_VERSION = 19,
    AT_CHANGE_COUNTER = 24,
    AT_PAGE_COUNT = 28,
    AT_USER_VERSION = 60,
    AT_APPLICATION_ID = 68,
    AT_VERSION_VALID_FOR = 92
};

/* ---- The header ---- */

static uint32_t read_u32(const unsigned char *header, int at)
{
    return (uint32_t)header[at] << 24 | (uint32_t)header[at + 1] << 16 |
           (uint32_t)header[at + 2] << 8 | header[at + 3];
}

static mx_status check_page_count(const unsigned char *header, uint64_t size_bytes,
                                  const char *label, mx_error *err)
{
    uint64_t page_bytes = (uint64_t)header[AT_PAGE_SIZE] << 8 | header[AT_PAGE_SIZE + 1];
    page_bytes = page_bytes == 1 ? 65536 : page_bytes;
    uint64_t declared = page_bytes * read_u32(header, AT_PAGE_COUNT);
    if (header[AT_WRITE_VERSION] == 2 || header[AT_READ_VERSION] == 2)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "%s was put into SQLite's WAL mode by another program: run PRAGMA "
                       "journal_mode=DELETE on it, or build it again",
                       label);
    if (header[AT_WRITE_VERSION] != 1 || header[AT_READ_VERSION] != 1 || page_bytes < 512 ||
        (page_bytes & (page_bytes - 1)) || !declared ||
        read_u32(header, AT_CHANGE_COUNTER) != read_u32(header, AT_VERSION_VALID_FOR))
        return mx_fail(err, MX_ERR_CORRUPT, "%s is damaged in its file header: build it again",
                       label);
    if (size_bytes < declared)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "%s is truncated: it has %llu of %llu bytes; copy or build it again", label,
                       (unsigned long long)size_bytes, (unsigned long long)declared);
    if (size_bytes > declared)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "%s is damaged: it has %llu bytes, its header says %llu; build it again",
                       label, (unsigned long long)size_bytes, (unsigned long long)declared);
    return MX_OK;
}

/* `header` has the first HEADER_BYTES, or all if there are fewer. */
static mx_status check_header(const unsigned char *header, uint64_t size_bytes, const char *label,
                              mx_error *err)
{
    size_t magic_bytes = sizeof(HEADER_MAGIC);
    if (size_bytes < magic_bytes)
        magic_bytes = (size_t)size_bytes;
    if (!size_bytes)
        return mx_fail(err, MX_ERR_CORRUPT, "%s is empty: build it again", label);
    if (memcmp(header, HEADER_MAGIC, magic_bytes) != 0)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "%s is no kernel pack: it is not an SQLite file; mxgen build makes packs",
                       label);
    if (size_bytes < HEADER_BYTES)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "%s is truncated: it has only %llu bytes; copy or build it again", label,
                       (unsigned long long)size_bytes);
    uint32_t application = read_u32(header, AT_APPLICATION_ID);
    int32_t version = (int32_t)read_u32(header, AT_USER_VERSION);
    if (application != MXPACK_APPLICATION_ID)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "%s is no kernel pack: it is an SQLite file of another program "
                       "(application id 0x%08x, not 0x%08x)",
                       label, application, MXPACK_APPLICATION_ID);
    if (version > MXPACK_VERSION)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "%s has version %d, and this library reads version %d: update the library, "
                       "or build the pack with the mxgen of this version",
                       label, version, MXPACK_VERSION);
    if (version != MXPACK_VERSION)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "%s has version %d, and this library reads version %d: build it again",
                       label, version, MXPACK_VERSION);
    return check_page_count(header, size_bytes, label, err);
}

static mx_status fail_open(const char *label, int code, mx_error *err)
{
    int missing = code == ENOENT || code == ENOTDIR;
    return mx_fail(err, missing ? MX_ERR_NOT_FOUND : MX_ERR_IO, "%s: cannot open it: %s", label,
                   strerror(code));
}

/* On success *size_bytes is the file's. */
static mx_status check_file(const char *path, const char *label, uint64_t *size_bytes,
                            mx_error *err)
{
    unsigned char header[HEADER_BYTES] = {0};
    struct stat info;
    /* Asked first, since opening a FIFO would wait for its writer. */
    if (stat(path, &info))
        return fail_open(label, errno, err);
    if (S_ISDIR(info.st_mode))
        return mx_fail(err, MX_ERR_INVALID, "%s is a folder, not a file", label);
    if (!S_ISREG(info.st_mode))
        return mx_fail(err, MX_ERR_INVALID, "%s is a device or pipe, not a file", label);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fail_open(label, errno, err);
    mx_status status;
    ssize_t n = pread(fd, header, sizeof(header), 0);
    if (n < 0 || fstat(fd, &info)) {
        status = mx_fail(err, MX_ERR_IO, "%s: cannot read it: %s", label, strerror(errno));
    } else {
        /* A file that shrinks meanwhile must not be judged by bytes that were not read. */
        *size_bytes = (size_t)n < sizeof(header) ? (uint64_t)n : (uint64_t)info.st_size;
        status = check_header(header, *size_bytes, label, err);
    }
    close(fd);
    return status;
}

/* ---- SQLite ---- */

/* SQLite reports no memory also of a damaged row that claims gigabytes. No value is larger than its
 * file: where there is memory for that, it was damage. */
static int is_memory_short(const mxrt_pack_source *source)
{
    void *probe = malloc((size_t)source->size_bytes + 1);
    int is_short = !probe;
    free(probe);
    return is_short;
}

mx_status mxrt_pack_source_fail(const mxrt_pack_source *source, mx_error *err)
{
    int code = sqlite3_errcode(source->db) & 0xff;
    if (code == SQLITE_NOMEM && (!source->db || is_memory_short(source)))
        return mx_fail(err, MX_ERR_NO_MEMORY, "%s: no memory to read it", source->label);
    if (code == SQLITE_IOERR || code == SQLITE_CANTOPEN)
        return mx_fail(err, MX_ERR_IO, "%s: cannot read it: %s", source->label,
                       mxrt_show_text(sqlite3_errmsg(source->db)).chars);
    return mx_fail(err, MX_ERR_CORRUPT, "%s is damaged: %s; build it again", source->label,
                   code == SQLITE_NOMEM ? "a row claims to be larger than the file"
                                        : mxrt_show_text(sqlite3_errmsg(source->db)).chars);
}

/* A URI, for immutable=1: SQLite then takes no locks and looks for no journals, which read-only
 * folders could not have. NULL without memory. */
static char *make_uri(const char *path)
{
    static const char hex[] = "0123456789ABCDEF", plain[] = "-._~/";
    /* "./" keeps SQLite from seeing more in a relative path, such as ":memory:". */
    const char *head = path[0] == '/' ? "file://" : "file:./", *tail = "?immutable=1";
    char *uri = malloc(strlen(head) + 3 * strlen(path) + strlen(tail) + 1);
    if (!uri)
        return NULL;
    char *to = stpcpy(uri, head);
    for (; *path; path++) {
        unsigned char c = (unsigned char)*path;
        if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
            strchr(plain, c)) {
            *to++ = (char)c;
        } else {
            *to++ = '%';
            *to++ = hex[c >> 4];
            *to++ = hex[c & 15];
        }
    }
    strcpy(to, tail);
    return uri;
}

/* Nothing that a schema holds may run. */
static mx_status harden(mxrt_pack_source *source, mx_error *err)
{
    static const struct {
        int option, value;
    } options[] = {{SQLITE_DBCONFIG_DEFENSIVE, 1},
                   {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                   {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0},
                   {SQLITE_DBCONFIG_ENABLE_VIEW, 0}};
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        sqlite3_db_config(source->db, options[i].option, options[i].value, NULL);
    if (sqlite3_exec(source->db,
                     "PRAGMA cell_size_check=ON; PRAGMA query_only=ON; PRAGMA mmap_size=0", NULL,
                     NULL, NULL))
        return mxrt_pack_source_fail(source, err);
    return MX_OK;
}

/* The tables must be the very ones of mxgen/pack.h: a view, a virtual table or a generated column
 * in their place would be code of whoever wrote the file. */
static mx_status check_table(mxrt_pack_source *source, const char *name, mx_error *err)
{
    char head[64];
    snprintf(head, sizeof(head), "CREATE TABLE %s(", name);
    const char *expected = strstr(MXPACK_SCHEMA_SQL MXPACK_KERNEL_SCHEMA_SQL, head);
    size_t length = strcspn(expected, ";");
    sqlite3_stmt *stmt = NULL;
    mx_status status = MX_OK;
    if (sqlite3_prepare_v2(source->db, "SELECT type, sql FROM sqlite_master WHERE name=?", -1,
                           &stmt, NULL) ||
        sqlite3_bind_text(stmt, 1, name, -1, SQLITE_STATIC)) {
        status = mxrt_pack_source_fail(source, err);
        goto out;
    }
    int code = sqlite3_step(stmt);
    if (code != SQLITE_ROW && code != SQLITE_DONE) {
        status = mxrt_pack_source_fail(source, err);
        goto out;
    }
    const char *type = code == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
    const char *sql = code == SQLITE_ROW ? (const char *)sqlite3_column_text(stmt, 1) : NULL;
    if (!type || !sql || strcmp(type, "table") != 0 ||
        sqlite3_column_bytes(stmt, 1) != (int)length || memcmp(sql, expected, length) != 0)
        status = mx_fail(err, MX_ERR_CORRUPT,
                         "%s is damaged: its table \"%s\" is missing or not the one of version "
                         "%d; build it again",
                         source->label, name, MXPACK_VERSION);
out:
    sqlite3_finalize(stmt);
    return status;
}

mx_status mxrt_pack_source_check_kernels(mxrt_pack_source *source, mx_error *err)
{
    return check_table(source, "kernel", err);
}

static mx_status check_database(mxrt_pack_source *source, mx_error *err)
{
    mx_status status = harden(source, err);
    if (!status)
        status = check_table(source, "meta", err);
    if (!status)
        status = check_table(source, "object", err);
    if (!status)
        status = check_table(source, "variant", err);
    return status;
}

mx_status mxrt_pack_source_open_file(const char *path, mxrt_pack_source *out, mx_error *err)
{
    mxrt_pack_source source = {0};
    char *uri = make_uri(path);
    mx_status status = MX_OK;
    if (asprintf(&source.label, "kernel pack \"%s\"", path) < 0)
        source.label = NULL;
    if (!uri || !source.label) {
        status = mx_fail(err, MX_ERR_NO_MEMORY, "no memory to open kernel pack \"%s\"", path);
        goto out;
    }
    if ((status = check_file(path, source.label, &source.size_bytes, err)))
        goto out;
    int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(uri, &source.db, flags, NULL)) {
        status = mxrt_pack_source_fail(&source, err);
        goto out;
    }
    if ((status = check_database(&source, err)))
        goto out;
    *out = source;
    source = (mxrt_pack_source){0};
out:
    mxrt_pack_source_finish(&source);
    free(uri);
    return status;
}

mx_status mxrt_pack_source_open_memory(const void *data, size_t size_bytes, mxrt_pack_source *out,
                                       mx_error *err)
{
    mxrt_pack_source source = {.label = strdup("kernel pack in memory"), .size_bytes = size_bytes};
    unsigned char *copy = NULL;
    mx_status status = MX_OK;
    if (!source.label) {
        status = mx_fail(err, MX_ERR_NO_MEMORY, "no memory to open a kernel pack");
        goto out;
    }
    if ((status = check_header(data, size_bytes, source.label, err)))
        goto out;
    if (!(copy = sqlite3_malloc64(size_bytes))) {
        status =
            mx_fail(err, MX_ERR_NO_MEMORY, "%s: no memory for %zu bytes", source.label, size_bytes);
        goto out;
    }
    memcpy(copy, data, size_bytes);
    if (sqlite3_open_v2(":memory:", &source.db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                        NULL)) {
        sqlite3_free(copy);
        status = mxrt_pack_source_fail(&source, err);
        goto out;
    }
    /* Takes the copy, even when it fails. */
    if (sqlite3_deserialize(source.db, "main", copy, (sqlite3_int64)size_bytes,
                            (sqlite3_int64)size_bytes,
                            SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY)) {
        status = mxrt_pack_source_fail(&source, err);
        goto out;
    }
    if ((status = check_database(&source, err)))
        goto out;
    *out = source;
    source = (mxrt_pack_source){0};
out:
    mxrt_pack_source_finish(&source);
    return status;
}

void mxrt_pack_source_finish(mxrt_pack_source *source)
{
    sqlite3_close(source->db);
    free(source->label);
    *source = (mxrt_pack_source){0};
}
