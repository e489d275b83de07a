#include "pack_build.h"

#include <check.h>
#include <dirent.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mxgen/pack_checksum.h>

#define SAMPLE_OBJECTS 6

static const char *const sample_targets[] = {"host", "gfx942", "sm_90a"};
static const char *const sample_kinds[] = {MXPACK_KIND_HOST, MXPACK_KIND_AMDGPU, MXPACK_KIND_PTX};

mxgen_pack_variant pack_plain_variant(const char *name)
{
    return (mxgen_pack_variant){
        .object_id = 1,
        .target = "host",
        .op = "to",
        .format = "mx9",
        .dtype = "f32",
        .profile = "packed",
        .layout = "flat",
        .name = name,
        .symbol = "symbol",
        .rank = 0,
        .params_json = "{\"BLOCKS_PER_PROGRAM\": 256}",
        .rules_json = "[{\"rule\": \"rows are whole blocks\", \"when\": \"len % 16 == 0\"}]",
        .launch_json = "{\"grid\": [\"ceil_div(n_blocks, 256)\", \"1\", \"1\"],"
                       " \"block\": [\"64\", \"1\", \"1\"], \"lds_bytes\": \"0\", \"args\": ["
                       "{\"name\": \"x\", \"kind\": \"pointer\", \"buffer\": \"x\"},"
                       "{\"name\": \"n\", \"kind\": \"i32\", \"value\": \"n_blocks\"},"
                       "{\"name\": \"p\", \"kind\": \"pointer\", \"buffer\": \"p\"},"
                       "{\"name\": \"s\", \"kind\": \"f32\", \"value\": \"2\"},"
                       "{\"name\": \"r\", \"kind\": \"i64\", \"value\": \"rows * bpr\"}]}",
        .info_json = "{\"vgprs\": 32, \"occupancy\": 8, \"note\": \"a text\"}",
    };
}

static mxgen_pack_writer *new_writer(void)
{
    mxgen_pack_writer *writer = NULL;
    ck_assert_int_eq(mxgen_pack_writer_create(&writer, NULL), MX_OK);
    ck_assert_int_eq(mxgen_pack_writer_meta(writer, "generator", "mxgen test", NULL), MX_OK);
    ck_assert_int_eq(mxgen_pack_writer_meta(writer, "generator_hash", "0123456789", NULL), MX_OK);
    ck_assert_int_eq(mxgen_pack_writer_meta(writer, "compiler", "none", NULL), MX_OK);
    return writer;
}

mxgen_pack_writer *pack_plain_writer(void)
{
    mxgen_pack_writer *writer = new_writer();
    int64_t id = 0;
    ck_assert_int_eq(
        mxgen_pack_writer_object(writer, "host", MXPACK_KIND_HOST, "code", 4, &id, NULL), MX_OK);
    ck_assert_int_eq(id, 1);
    return writer;
}

pack_bytes pack_take(mxgen_pack_writer *writer)
{
    pack_bytes pack = {0};
    void *data = NULL;
    mx_error err = {0};
    mx_status status = mxgen_pack_writer_serialize(writer, &data, &pack.size_bytes, &err);
    ck_assert_msg(status == MX_OK, "%s", err.message);
    mxgen_pack_writer_destroy(writer);
    pack.data = data;
    return pack;
}

/* ---- The sample ---- */

unsigned char *pack_sample_object(int64_t id, size_t *size_bytes)
{
    static const size_t sizes[SAMPLE_OBJECTS] = {1, 100, 5000, 20000, 9000, 40000};
    size_t n = sizes[id - 1];
    unsigned char *data = malloc(n);
    uint64_t random = 0x9e3779b97f4a7c15u * (uint64_t)id;
    for (size_t i = 0; i < n; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        /* Half of it compresses. */
        data[i] = i % 128 < 64 ? (unsigned char)(random >> 56) : (unsigned char)id;
    }
    *size_bytes = n;
    return data;
}

static void add_sample_variants(mxgen_pack_writer *writer, int64_t object_id, const char *target)
{
    char name[64], params[64], info[2048];
    for (int i = 0; i < MX_OP_COUNT * MX_FORMAT_PACKED_COUNT; i++) {
        mxgen_pack_variant v = pack_plain_variant(name);
        mx_op op = (mx_op)(i % MX_OP_COUNT);
        snprintf(name, sizeof(name), "kernel_%d_%d", (int)object_id, i);
        snprintf(params, sizeof(params), "{\"BLOCKS_PER_PROGRAM\":%d,\"num_warps\":4}", 16 << i);
        snprintf(info, sizeof(info), "{\"vgprs\":%d,\"pad\":\"%0*d\"}", i, i % 3 ? 20 : 1500, 0);
        v.object_id = object_id;
        v.target = target;
        v.op = mx_op_name(op);
        v.format = mx_format_get((mx_format)(i / MX_OP_COUNT))->name;
        v.dtype = mx_dtype_get((mx_dtype)(object_id % MX_DTYPE_COUNT))->name;
        v.profile = mx_profile_name((mx_profile)(op == MX_OP_QDQ && i > 5));
        v.layout = mx_layout_name((mx_layout)(i % MX_LAYOUT_COUNT));
        v.rank = i;
        v.params_json = params;
        v.info_json = info;
        if (op != MX_OP_TO)
            v.launch_json =
                "{\"grid\": [\"n_blocks\", \"1\", \"1\"],"
                "\"block\": [\"64\", \"1\", \"1\"], \"lds_bytes\": \"len > 64 ? 0 : 8\","
                "\"args\": [{\"name\": \"y\", \"kind\": \"pointer\","
                " \"buffer\": \"y\"}]}";
        ck_assert_int_eq(mxgen_pack_writer_variant(writer, &v, NULL), MX_OK);
    }
}

pack_bytes pack_sample(void)
{
    mxgen_pack_writer *writer = new_writer();
    for (int i = 0; i < SAMPLE_OBJECTS; i++) {
        int64_t id = 0;
        size_t n = 0;
        unsigned char *data = pack_sample_object(i + 1, &n);
        ck_assert_int_eq(mxgen_pack_writer_object(writer, sample_targets[i % 3],
                                                  sample_kinds[i % 3], data, n, &id, NULL),
                         MX_OK);
        ck_assert_int_eq(id, i + 1);
        free(data);
        add_sample_variants(writer, id, sample_targets[i % 3]);
    }
    return pack_take(writer);
}

/* ---- Changes ---- */

static sqlite3_stmt *must_prepare(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;
    ck_assert_msg(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) == SQLITE_OK, "%s: %s", sql,
                  sqlite3_errmsg(db));
    return stmt;
}

static void must_execute(sqlite3 *db, const char *sql)
{
    ck_assert_msg(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, "%s: %s", sql,
                  sqlite3_errmsg(db));
}

/* SQL function row_sum(every column of variant but the last). */
static void row_sum(sqlite3_context *context, int n, sqlite3_value **values)
{
    char text[MXPACK_CHECKSUM_CHARS];
    mxpack_checksum checksum;
    mxpack_checksum_init(&checksum);
    for (int i = 0; i < n; i++) {
        const char *value = (const char *)sqlite3_value_text(values[i]);
        mxpack_checksum_text(&checksum, value ? value : "");
    }
    mxpack_checksum_finish(&checksum, text);
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

static void sum_query(sqlite3 *db, const char *sql, mxpack_checksum *checksum)
{
    sqlite3_stmt *stmt = must_prepare(db, sql);
    while (sqlite3_step(stmt) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(stmt); i++) {
            const char *value = (const char *)sqlite3_column_text(stmt, i);
            mxpack_checksum_text(checksum, value ? value : "");
        }
    }
    sqlite3_finalize(stmt);
}

static void reseal_rows(sqlite3 *db)
{
    char text[MXPACK_CHECKSUM_CHARS], sql[128];
    mxpack_checksum checksum;
    ck_assert_int_eq(
        sqlite3_create_function(db, "row_sum", -1, SQLITE_UTF8, NULL, row_sum, NULL, NULL),
        SQLITE_OK);
    must_execute(db, "UPDATE variant SET checksum=row_sum(id, object, target, op, format, dtype,"
                     " profile, layout, name, symbol, rank, params, rules, launch, info)");
    mxpack_checksum_init(&checksum);
    sum_query(db, "SELECT key, value FROM meta WHERE key<>'checksum' ORDER BY key", &checksum);
    sum_query(db, "SELECT id, target, kind, raw_bytes, xxh3 FROM object ORDER BY id", &checksum);
    sum_query(db, "SELECT id, checksum FROM variant ORDER BY id", &checksum);
    mxpack_checksum_finish(&checksum, text);
    snprintf(sql, sizeof(sql), "UPDATE meta SET value='%s' WHERE key='checksum'", text);
    must_execute(db, sql);
}

pack_bytes pack_doctor(pack_bytes pack, const char *sql, int reseal)
{
    sqlite3 *db = NULL;
    sqlite3_int64 size = 0;
    ck_assert_int_eq(sqlite3_open(":memory:", &db), SQLITE_OK);
    unsigned char *copy = sqlite3_malloc64(pack.size_bytes);
    memcpy(copy, pack.data, pack.size_bytes);
    ck_assert_int_eq(
        sqlite3_deserialize(db, "main", copy, (sqlite3_int64)pack.size_bytes,
                            (sqlite3_int64)pack.size_bytes,
                            SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE),
        SQLITE_OK);
    must_execute(db, "PRAGMA foreign_keys=OFF");
    must_execute(db, sql);
    if (reseal)
        reseal_rows(db);
    unsigned char *bytes = sqlite3_serialize(db, "main", &size, 0);
    ck_assert_ptr_nonnull(bytes);
    free(pack.data);
    pack.data = malloc((size_t)size);
    pack.size_bytes = (size_t)size;
    memcpy(pack.data, bytes, pack.size_bytes);
    sqlite3_free(bytes);
    sqlite3_close(db);
    return pack;
}

/* ---- Digests ---- */

static void sum_expr(const mxrt_expr *expr, mxpack_checksum *checksum)
{
    int64_t values[MXRT_VALUES_COUNT], value = 0;
    for (int i = 0; i < MXRT_VALUES_COUNT; i++)
        values[i] = 100 + i;
    mxpack_checksum_text(checksum, mxrt_expr_text(expr));
    mxpack_checksum_integer(checksum, (int)mxrt_expr_eval(expr, values, &value, NULL));
    mxpack_checksum_integer(checksum, value);
}

static void sum_launch(const mxrt_pack_launch *launch, mxpack_checksum *checksum)
{
    for (int i = 0; i < 3; i++) {
        sum_expr(launch->grid[i], checksum);
        sum_expr(launch->block[i], checksum);
    }
    sum_expr(launch->lds_bytes, checksum);
    for (size_t i = 0; i < launch->n_rules; i++) {
        mxpack_checksum_text(checksum, launch->rules[i].text);
        sum_expr(launch->rules[i].when, checksum);
    }
    for (size_t i = 0; i < launch->n_args; i++) {
        const mxrt_pack_arg *arg = &launch->args[i];
        mxpack_checksum_text(checksum, arg->name);
        mxpack_checksum_integer(checksum, arg->kind);
        mxpack_checksum_integer(checksum, arg->offset_bytes);
        if (arg->kind == MXRT_ARG_POINTER)
            mxpack_checksum_text(checksum, arg->buffer_name);
        else
            sum_expr(arg->value, checksum);
    }
    mxpack_checksum_integer(checksum, (int64_t)launch->args_bytes);
}

static mx_status sum_pack(const mxrt_pack *pack, mxpack_checksum *checksum, mx_error *err)
{
    static const char *const keys[] = {"generator", "generator_hash", "compiler", "checksum"};
    for (int i = 0; i < 4; i++)
        mxpack_checksum_text(checksum, mxrt_pack_meta(pack, keys[i]));
    int64_t last_object = 0;
    for (size_t i = 0; i < mxrt_pack_variant_count(pack); i++) {
        mxrt_variant_info v;
        mx_status status = mxrt_pack_variant(pack, i, &v, err);
        if (status)
            return status;
        const char *const texts[] = {
            v.target, v.op,          v.format,     v.dtype,       v.profile,   v.layout,     v.name,
            v.symbol, v.params_json, v.rules_json, v.launch_json, v.info_json, v.object_kind};
        for (size_t k = 0; k < sizeof(texts) / sizeof(texts[0]); k++)
            mxpack_checksum_text(checksum, texts[k]);
        mxpack_checksum_integer(checksum, v.rank);
        mxpack_checksum_integer(checksum, v.object_id);
        mxpack_checksum_integer(checksum, v.object_bytes);
        mxpack_checksum_integer(checksum, mxrt_pack_key_of(pack, i)->op);
        mxpack_checksum_integer(checksum, mxrt_pack_key_of(pack, i)->layout);
        sum_launch(mxrt_pack_launch_of(pack, i), checksum);
        if (v.object_id == last_object)
            continue;
        void *data = NULL;
        size_t size_bytes = 0;
        last_object = v.object_id;
        if ((status = mxrt_pack_object(pack, v.object_id, &data, &size_bytes, err)))
            return status;
        mxpack_checksum_integer(checksum, (int64_t)XXH3_64bits(data, size_bytes));
        free(data);
    }
    return MX_OK;
}

static mx_status sum_and_close(mxrt_pack *pack, uint64_t *digest, mx_error *err)
{
    mxpack_checksum checksum;
    mxpack_checksum_init(&checksum);
    mx_status status = sum_pack(pack, &checksum, err);
    mxrt_pack_close(pack);
    if (!status)
        *digest = XXH3_64bits_digest(&checksum.state);
    return status;
}

mx_status pack_digest(pack_bytes bytes, uint64_t *digest, mx_error *err)
{
    mxrt_pack *pack = NULL;
    mx_status status = mxrt_pack_open_memory(bytes.data, bytes.size_bytes, &pack, err);
    ck_assert((status == MX_OK) == (pack != NULL));
    return status ? status : sum_and_close(pack, digest, err);
}

mx_status pack_digest_file(const char *path, uint64_t *digest, mx_error *err)
{
    mxrt_pack *pack = NULL;
    mx_status status = mxrt_pack_open(path, &pack, err);
    ck_assert((status == MX_OK) == (pack != NULL));
    return status ? status : sum_and_close(pack, digest, err);
}

/* ---- Files ---- */

void pack_write_file(const char *path, pack_bytes pack)
{
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(pack.data, 1, pack.size_bytes, file), pack.size_bytes);
    ck_assert_int_eq(fclose(file), 0);
}

pack_bytes pack_read_file(const char *path)
{
    pack_bytes pack = {0};
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    fseek(file, 0, SEEK_END);
    pack.size_bytes = (size_t)ftell(file);
    rewind(file);
    pack.data = malloc(pack.size_bytes + 1);
    ck_assert_uint_eq(fread(pack.data, 1, pack.size_bytes, file), pack.size_bytes);
    fclose(file);
    return pack;
}

void pack_make_folder(char path[256])
{
    const char *parent = getenv("TMPDIR");
    snprintf(path, 256, "%.200s/mxpack-XXXXXX", parent && parent[0] ? parent : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(path));
}

int pack_count_files(const char *folder)
{
    DIR *dir = opendir(folder);
    int n = 0;
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        n += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
    closedir(dir);
    return n;
}
