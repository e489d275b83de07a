#include "pack_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <mxgen/error.h>
#include <mxgen/gemm.h>
#include <mxgen/pack.h>
#include <mxgen/pack_checksum.h>

/* Code objects hardly shrink beyond this level, and a build must not wait for it. */
#define COMPRESSION_LEVEL 9
#define PAGE_BYTES "4096"

struct mxgen_pack_writer {
    sqlite3 *db;
    sqlite3_stmt *insert_meta, *insert_object, *insert_variant;
    sqlite3_stmt *insert_kernel; /* NULL: there is no such table */
    ZSTD_CCtx *zstd;
    int64_t n_objects, n_variants, n_kernels; /* also the last ids */
};

/* ---- Errors ---- */

static mx_status fail_memory(mx_error *err)
{
    return mx_fail(err, MX_ERR_NO_MEMORY, "no memory to build a kernel pack");
}

static mx_status fail_sqlite(sqlite3 *db, const char *doing, mx_error *err)
{
    int code = sqlite3_errcode(db);
    if (code == SQLITE_NOMEM)
        return fail_memory(err);
    return mx_fail(err, code == SQLITE_CONSTRAINT ? MX_ERR_INVALID : MX_ERR_INTERNAL,
                   "kernel pack: %s: %s", doing, sqlite3_errmsg(db));
}

static mx_status fail_file(const char *doing, const char *path, mx_error *err)
{
    int code = errno;
    return mx_fail(err, code == ENOENT ? MX_ERR_NOT_FOUND : MX_ERR_IO,
                   "cannot %s kernel pack \"%s\": %s", doing, path, strerror(code));
}

/* ---- Rows ---- */

static mx_status prepare(mxgen_pack_writer *writer, const char *sql, sqlite3_stmt **out,
                         mx_error *err)
{
    if (sqlite3_prepare_v2(writer->db, sql, -1, out, NULL))
        return fail_sqlite(writer->db, "cannot prepare a statement", err);
    return MX_OK;
}

static mx_status execute(mxgen_pack_writer *writer, const char *sql, mx_error *err)
{
    if (sqlite3_exec(writer->db, sql, NULL, NULL, NULL))
        return fail_sqlite(writer->db, "cannot run a statement", err);
    return MX_OK;
}

/* SQLite's own copies of what is bound are not needed: the strings outlive the step. */
static int bind_text(sqlite3_stmt *stmt, int index, const char *text)
{
    return sqlite3_bind_text(stmt, index, text, -1, SQLITE_STATIC);
}

static mx_status insert(mxgen_pack_writer *writer, sqlite3_stmt *stmt, int bind_failed,
                        const char *what, mx_error *err)
{
    mx_status status = MX_OK;
    if (bind_failed || sqlite3_step(stmt) != SQLITE_DONE)
        status = fail_sqlite(writer->db, what, err);
    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
    return status;
}

mx_status mxgen_pack_writer_create(mxgen_pack_writer **out, mx_error *err)
{
    mx_status status;
    mxgen_pack_writer *writer = calloc(1, sizeof(*writer));
    if (!writer)
        return fail_memory(err);
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    if (sqlite3_open_v2(":memory:", &writer->db, flags, NULL)) {
        status = writer->db ? fail_sqlite(writer->db, "cannot open a database in memory", err)
                            : fail_memory(err);
        goto out;
    }
    if (!(writer->zstd = ZSTD_createCCtx()) ||
        ZSTD_isError(
            ZSTD_CCtx_setParameter(writer->zstd, ZSTD_c_compressionLevel, COMPRESSION_LEVEL))) {
        status = fail_memory(err);
        goto out;
    }
    char *sql = sqlite3_mprintf(
        "PRAGMA page_size=" PAGE_BYTES "; PRAGMA encoding='UTF-8'; PRAGMA auto_vacuum=NONE;"
        "PRAGMA temp_store=MEMORY; PRAGMA foreign_keys=ON; PRAGMA application_id=%d;"
        "PRAGMA user_version=%d; " MXPACK_SCHEMA_SQL,
        MXPACK_APPLICATION_ID, MXPACK_VERSION);
    status = sql ? execute(writer, sql, err) : fail_memory(err);
    sqlite3_free(sql);
    if (status ||
        (status = prepare(writer, "INSERT INTO meta VALUES(?,?)", &writer->insert_meta, err)) ||
        (status = prepare(writer, "INSERT INTO object VALUES(?,?,?,?,?,?)", &writer->insert_object,
                          err)) ||
        (status = prepare(writer, "INSERT INTO variant VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                          &writer->insert_variant, err)))
        goto out;
    *out = writer;
    writer = NULL;
out:
    mxgen_pack_writer_destroy(writer);
    return status;
}

void mxgen_pack_writer_destroy(mxgen_pack_writer *writer)
{
    if (!writer)
        return;
    sqlite3_finalize(writer->insert_meta);
    sqlite3_finalize(writer->insert_object);
    sqlite3_finalize(writer->insert_variant);
    sqlite3_finalize(writer->insert_kernel);
    sqlite3_close(writer->db);
    ZSTD_freeCCtx(writer->zstd);
    free(writer);
}

mx_status mxgen_pack_writer_meta(mxgen_pack_writer *writer, const char *key, const char *value,
                                 mx_error *err)
{
    char what[160];
    if (!key || !key[0] || !value)
        return mx_fail(err, MX_ERR_INVALID, "kernel pack: a meta row needs a key and a value");
    if (!strcmp(key, MXPACK_META_CHECKSUM) || !strcmp(key, MXPACK_META_KERNEL_CHECKSUM))
        return mx_fail(err, MX_ERR_INVALID, "kernel pack: the meta key \"%s\" is the writer's own",
                       key);
    snprintf(what, sizeof(what), "cannot add meta key \"%.100s\"", key);
    sqlite3_stmt *stmt = writer->insert_meta;
    return insert(writer, stmt, bind_text(stmt, 1, key) || bind_text(stmt, 2, value), what, err);
}

static int is_known_kind(const char *kind)
{
    static const char *const kinds[] = {MXPACK_KIND_AMDGPU, MXPACK_KIND_HOST, MXPACK_KIND_PTX,
                                        MXPACK_KIND_CUBIN};
    for (size_t i = 0; kind && i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (!strcmp(kind, kinds[i]))
            return 1;
    }
    return 0;
}

mx_status mxgen_pack_writer_object(mxgen_pack_writer *writer, const char *target, const char *kind,
                                   const void *data, size_t size_bytes, int64_t *object_id,
                                   mx_error *err)
{
    char hash[MXPACK_CHECKSUM_CHARS];
    if (!target || !target[0] || !is_known_kind(kind))
        return mx_fail(err, MX_ERR_INVALID,
                       "kernel pack: an object needs a target and a kind of mxgen/pack.h, not "
                       "\"%s\"",
                       kind ? kind : "");
    if (!data || !size_bytes || size_bytes > MXPACK_MAX_OBJECT_BYTES)
        return mx_fail(err, MX_ERR_INVALID, "kernel pack: an object of %zu bytes, not 1 to %d",
                       size_bytes, MXPACK_MAX_OBJECT_BYTES);
    size_t capacity = ZSTD_compressBound(size_bytes);
    void *compressed = malloc(capacity);
    if (!compressed)
        return fail_memory(err);
    mx_status status;
    size_t stored = ZSTD_compress2(writer->zstd, compressed, capacity, data, size_bytes);
    if (ZSTD_isError(stored)) {
        status = mx_fail(err, MX_ERR_NO_MEMORY, "kernel pack: cannot compress an object: %s",
                         ZSTD_getErrorName(stored));
    } else {
        sqlite3_stmt *stmt = writer->insert_object;
        int64_t id = writer->n_objects + 1;
        mxpack_checksum_bytes(data, size_bytes, hash);
        int failed = sqlite3_bind_int64(stmt, 1, id) || bind_text(stmt, 2, target) ||
                     bind_text(stmt, 3, kind) || sqlite3_bind_int64(stmt, 4, (int64_t)size_bytes) ||
                     bind_text(stmt, 5, hash) ||
                     sqlite3_bind_blob64(stmt, 6, compressed, stored, SQLITE_STATIC);
        status = insert(writer, stmt, failed, "cannot add an object", err);
        if (!status)
            *object_id = writer->n_objects = id;
    }
    free(compressed);
    return status;
}

/* What of a product's key is unknown, or NULL. */
static const char *unknown_in_gemm(const mxgen_pack_variant *v)
{
    mx_gemm_pass pass;
    mx_gemm_element left, right;
    mx_gemm_mode mode;
    if (strcmp(v->op, "gemm_step") && mx_gemm_pass_parse(v->op, &pass))
        return "op";
    return mx_gemm_format_parse(v->format, &left, &right) ? "format"
           : mx_gemm_mode_parse(v->profile, &mode)        ? "profile"
                                                          : NULL;
}

static const char *unknown_in_block_operation(const mxgen_pack_variant *v)
{
    mx_op op;
    mx_format format;
    mx_profile profile;
    return mx_op_parse(v->op, &op)                  ? "op"
           : mx_format_parse(v->format, &format)    ? "format"
           : mx_profile_parse(v->profile, &profile) ? "profile"
                                                    : NULL;
}

/* The names that the reader will look for. */
static mx_status check_variant(const mxgen_pack_variant *v, mx_error *err)
{
    mx_dtype dtype;
    mx_layout layout;
    const char *const texts[] = {v->target,      v->op,         v->name,        v->symbol,
                                 v->params_json, v->rules_json, v->launch_json, v->info_json};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (!texts[i] || !texts[i][0])
            return mx_fail(err, MX_ERR_INVALID, "kernel pack: variant \"%s\" lacks a text",
                           v->name ? v->name : "");
    }
    const char *unknown =
        strncmp(v->op, "gemm_", 5) ? unknown_in_block_operation(v) : unknown_in_gemm(v);
    if (!unknown)
        unknown = mx_dtype_parse(v->dtype, &dtype)      ? "dtype"
                  : mx_layout_parse(v->layout, &layout) ? "layout"
                  : v->rank < 0                         ? "rank"
                                                        : NULL;
    if (unknown)
        return mx_fail(err, MX_ERR_INVALID, "kernel pack: variant \"%s\": unknown %s", v->name,
                       unknown);
    return MX_OK;
}

mx_status mxgen_pack_writer_variant(mxgen_pack_writer *writer, const mxgen_pack_variant *variant,
                                    mx_error *err)
{
    char checksum[MXPACK_CHECKSUM_CHARS], what[240];
    mx_status status = check_variant(variant, err);
    if (status)
        return status;
    const mxpack_variant_row row = {
        .id = writer->n_variants + 1,
        .object = variant->object_id,
        .target = variant->target,
        .op = variant->op,
        .format = variant->format,
        .dtype = variant->dtype,
        .profile = variant->profile,
        .layout = variant->layout,
        .name = variant->name,
        .symbol = variant->symbol,
        .rank = variant->rank,
        .params = variant->params_json,
        .rules = variant->rules_json,
        .launch = variant->launch_json,
        .info = variant->info_json,
    };
    mxpack_checksum_variant(&row, checksum);
    const char *const texts[] = {row.target, row.op,     row.format, row.dtype, row.profile,
                                 row.layout, row.name,   row.symbol, NULL,      row.params,
                                 row.rules,  row.launch, row.info,   checksum};
    sqlite3_stmt *stmt = writer->insert_variant;
    int failed = sqlite3_bind_int64(stmt, 1, row.id) || sqlite3_bind_int64(stmt, 2, row.object) ||
                 sqlite3_bind_int64(stmt, 11, row.rank);
    for (int i = 0; i < (int)(sizeof(texts) / sizeof(texts[0])); i++)
        failed = failed || (texts[i] && bind_text(stmt, 3 + i, texts[i]));
    snprintf(what, sizeof(what), "cannot add variant \"%.120s\" of object %lld", row.name,
             (long long)row.object);
    status = insert(writer, stmt, failed, what, err);
    if (!status)
        writer->n_variants = row.id;
    return status;
}

static mx_status add_kernel_table(mxgen_pack_writer *writer, mx_error *err)
{
    mx_status status =
        writer->insert_kernel ? MX_OK : execute(writer, MXPACK_KERNEL_SCHEMA_SQL, err);
    if (!status && !writer->insert_kernel)
        status = prepare(writer, "INSERT INTO kernel VALUES(?,?,?,?,?,?,?,?,?,?,?)",
                         &writer->insert_kernel, err);
    return status;
}

mx_status mxgen_pack_writer_kernel(mxgen_pack_writer *writer, const mxgen_pack_kernel *kernel,
                                   mx_error *err)
{
    const char *const texts[] = {kernel->target,      kernel->kernel,      kernel->name,
                                 kernel->symbol,      kernel->params_json, kernel->rules_json,
                                 kernel->launch_json, kernel->info_json};
    char what[240];
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (!texts[i] || !texts[i][0])
            return mx_fail(err, MX_ERR_INVALID, "kernel pack: kernel \"%s\" lacks a text",
                           kernel->name ? kernel->name : "");
    }
    mx_status status = add_kernel_table(writer, err);
    if (status)
        return status;
    sqlite3_stmt *stmt = writer->insert_kernel;
    int64_t id = writer->n_kernels + 1;
    int failed = sqlite3_bind_int64(stmt, 1, id) ||
                 sqlite3_bind_int64(stmt, 2, kernel->object_id) ||
                 sqlite3_bind_int64(stmt, 7, kernel->rank);
    for (int i = 0; i < 8; i++)
        failed = failed || bind_text(stmt, (i < 4 ? 3 : 4) + i, texts[i]);
    snprintf(what, sizeof(what), "cannot add kernel \"%.120s\" of object %lld", kernel->name,
             (long long)kernel->object_id);
    status = insert(writer, stmt, failed, what, err);
    if (!status)
        writer->n_kernels = id;
    return status;
}

/* ---- Finishing ---- */

/* Every column of every row of `sql` goes into the checksum, as text. */
static mx_status sum_rows(mxgen_pack_writer *writer, const char *sql, mxpack_checksum *checksum,
                          mx_error *err)
{
    sqlite3_stmt *stmt = NULL;
    mx_status status = prepare(writer, sql, &stmt, err);
    int code = SQLITE_DONE;
    while (!status && (code = sqlite3_step(stmt)) == SQLITE_ROW) {
        for (int i = 0; !status && i < sqlite3_column_count(stmt); i++) {
            const char *text = (const char *)sqlite3_column_text(stmt, i);
            if (text)
                mxpack_checksum_text(checksum, text);
            else
                status = fail_memory(err);
        }
    }
    if (!status && code != SQLITE_DONE)
        status = fail_sqlite(writer->db, "cannot read the rows", err);
    sqlite3_finalize(stmt);
    return status;
}

static mx_status check_meta(mxgen_pack_writer *writer, mx_error *err)
{
    static const char *const keys[] = {MXPACK_META_GENERATOR, MXPACK_META_GENERATOR_HASH,
                                       MXPACK_META_COMPILER};
    sqlite3_stmt *stmt = NULL;
    mx_status status = prepare(writer, "SELECT 1 FROM meta WHERE key=?", &stmt, err);
    for (size_t i = 0; !status && i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (bind_text(stmt, 1, keys[i]) || sqlite3_step(stmt) != SQLITE_ROW)
            status = mx_fail(err, MX_ERR_INVALID, "kernel pack: no meta key \"%s\"", keys[i]);
        sqlite3_reset(stmt);
    }
    sqlite3_finalize(stmt);
    return status;
}

/* The checksum of the table `kernel`, where there is one; the pack's own covers it. */
static mx_status seal_kernels(mxgen_pack_writer *writer, mx_error *err)
{
    char text[MXPACK_CHECKSUM_CHARS];
    mxpack_checksum checksum;
    if (!writer->n_kernels)
        return MX_OK;
    mxpack_checksum_init(&checksum);
    mx_status status = sum_rows(writer, "SELECT * FROM kernel ORDER BY id", &checksum, err);
    if (status)
        return status;
    mxpack_checksum_finish(&checksum, text);
    sqlite3_stmt *stmt = writer->insert_meta;
    return insert(writer, stmt,
                  bind_text(stmt, 1, MXPACK_META_KERNEL_CHECKSUM) || bind_text(stmt, 2, text),
                  "cannot add the checksum of kernels", err);
}

/* The file's bytes, owned by SQLite. Rows may be added afterwards, and it be finished again. */
static mx_status finish(mxgen_pack_writer *writer, unsigned char **data, sqlite3_int64 *size_bytes,
                        mx_error *err)
{
    char text[MXPACK_CHECKSUM_CHARS];
    mxpack_checksum checksum;
    mx_status status = check_meta(writer, err);
    if (status ||
        (status = execute(writer,
                          "DELETE FROM meta WHERE key IN ('" MXPACK_META_CHECKSUM
                          "', '" MXPACK_META_KERNEL_CHECKSUM "')",
                          err)) ||
        (status = seal_kernels(writer, err)))
        return status;
    mxpack_checksum_init(&checksum);
    if ((status = sum_rows(writer, "SELECT key, value FROM meta ORDER BY key", &checksum, err)) ||
        (status =
             sum_rows(writer, "SELECT id, target, kind, raw_bytes, xxh3 FROM object ORDER BY id",
                      &checksum, err)) ||
        (status = sum_rows(writer, "SELECT id, checksum FROM variant ORDER BY id", &checksum, err)))
        return status;
    mxpack_checksum_finish(&checksum, text);
    sqlite3_stmt *stmt = writer->insert_meta;
    status =
        insert(writer, stmt, bind_text(stmt, 1, MXPACK_META_CHECKSUM) || bind_text(stmt, 2, text),
               "cannot add the checksum", err);
    /* VACUUM counts up the version of the schema, which would make a second file differ. */
    if (status || (status = execute(writer, "VACUUM; PRAGMA schema_version=1", err)))
        return status;
    *data = sqlite3_serialize(writer->db, "main", size_bytes, 0);
    return *data ? MX_OK : fail_memory(err);
}

mx_status mxgen_pack_writer_serialize(mxgen_pack_writer *writer, void **data, size_t *size_bytes,
                                      mx_error *err)
{
    unsigned char *bytes = NULL;
    sqlite3_int64 size = 0;
    mx_status status = finish(writer, &bytes, &size, err);
    if (status)
        return status;
    /* The caller's is to be released with free(), and this one is not. */
    void *copy = malloc((size_t)size);
    if (copy)
        memcpy(copy, bytes, (size_t)size);
    sqlite3_free(bytes);
    if (!copy)
        return fail_memory(err);
    *data = copy;
    *size_bytes = (size_t)size;
    return MX_OK;
}

/* ---- The file ---- */

/* What a rename may replace: a regular file or nothing. Replacing a link would leave the file that
 * it names as it was, so links are followed. `resolved` is malloc'ed. */
static mx_status resolve_path(const char *path, char **resolved, mx_error *err)
{
    struct stat info;
    *resolved = NULL;
    if (lstat(path, &info)) {
        if (errno != ENOENT)
            return fail_file("write", path, err);
        *resolved = strdup(path);
        return *resolved ? MX_OK : fail_memory(err);
    }
    if (stat(path, &info))
        return fail_file("write", path, err);
    if (!S_ISREG(info.st_mode))
        return mx_fail(err, MX_ERR_INVALID,
                       "cannot write kernel pack \"%s\": it exists and is not a regular file",
                       path);
    *resolved = realpath(path, NULL);
    return *resolved ? MX_OK : fail_file("write", path, err);
}

/* Opens a new file beside `path`; `name` is malloc'ed. */
static mx_status open_beside(const char *path, char **name, int *fd, mx_error *err)
{
    const char *slash = strrchr(path, '/');
    int folder_length = slash ? (int)(slash - path + 1) : 0;
    for (int attempt = 0; attempt < 1000; attempt++) {
        if (asprintf(name, "%.*s.mxpack-%ld-%d.tmp", folder_length, path, (long)getpid(), attempt) <
            0) {
            *name = NULL;
            return fail_memory(err);
        }
        *fd = open(*name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (*fd >= 0)
            return MX_OK;
        free(*name);
        *name = NULL;
        if (errno != EEXIST)
            break;
    }
    return fail_file("create a file beside", path, err);
}

static int write_all(int fd, const unsigned char *data, size_t size_bytes)
{
    while (size_bytes > 0) {
        ssize_t n = write(fd, data, size_bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        data += n;
        size_bytes -= (size_t)n;
    }
    return 0;
}

/* Makes the rename last. Not every file system can, and the file is whole either way. */
static void sync_folder(const char *path)
{
    char *copy = strdup(path), *slash = copy ? strrchr(copy, '/') : NULL;
    if (slash)
        slash[1] = '\0';
    int fd = copy ? open(slash ? copy : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(copy);
}

mx_status mxgen_pack_writer_save(mxgen_pack_writer *writer, const char *path, mx_error *err)
{
    unsigned char *bytes = NULL;
    sqlite3_int64 size = 0;
    char *resolved = NULL, *temporary = NULL;
    int fd = -1;
    if (!path || !path[0])
        return mx_fail(err, MX_ERR_INVALID, "kernel pack: no file name");
    mx_status status = resolve_path(path, &resolved, err);
    if (status || (status = open_beside(resolved, &temporary, &fd, err)) ||
        (status = finish(writer, &bytes, &size, err)))
        goto out;
    if (write_all(fd, bytes, (size_t)size) || fsync(fd)) {
        status = fail_file("write", path, err);
        goto out;
    }
    int close_failed = close(fd);
    fd = -1;
    if (close_failed || rename(temporary, resolved)) {
        status = fail_file("write", path, err);
        goto out;
    }
    sync_folder(resolved);
    free(temporary);
    temporary = NULL;
out:
    if (fd >= 0)
        close(fd);
    if (temporary)
        unlink(temporary);
    free(temporary);
    free(resolved);
    sqlite3_free(bytes);
    return status;
}
