/* Kernel packs: what is written is read; what is wrong is refused, with a message that says what.
 * Damage to files is in test_pack_damage.c. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pack_build.h"

static char folder[256];

static char *in_folder(const char *name)
{
    char *path = NULL;
    if (!folder[0])
        pack_make_folder(folder);
    ck_assert_int_gt(asprintf(&path, "%s/%s", folder, name), 0);
    return path;
}

static void tear_down(void)
{
    char command[300];
    if (getuid() == 0 && geteuid() != 0) {
        ck_assert_int_eq(seteuid(0), 0);
        /* A leak checker reads this process from outside, which the change of user forbade. */
        prctl(PR_SET_DUMPABLE, 1);
    }
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    ck_assert(!folder[0] || system(command) == 0);
}

/* Permissions hold root back only as somebody else, until the test ends. */
static void drop_privileges(void)
{
    if (geteuid() == 0)
        ck_assert_int_eq(seteuid(65534), 0);
}

#define ck_message_has(err, part)                                                                  \
    ck_assert_msg(strstr((err).message, part) != NULL, "\"%s\" lacks \"%s\"", (err).message, part)

/* ---- Round trips ---- */

static void check_plain_launch(const mxrt_pack_launch *launch)
{
    static const uint16_t offsets[] = {0, 8, 16, 24, 32};
    int64_t values[MXRT_VAR_COUNT] = {0}, value = 0;
    values[MXRT_VAR_N_BLOCKS] = 1000;
    values[MXRT_VAR_ROWS] = 6;
    values[MXRT_VAR_BPR] = 7;
    values[MXRT_VAR_LEN] = 32;
    ck_assert_uint_eq(launch->n_rules, 1);
    ck_assert_str_eq(launch->rules[0].text, "rows are whole blocks");
    ck_assert_int_eq(mxrt_expr_eval(launch->rules[0].when, values, &value, NULL), MX_OK);
    ck_assert_int_eq(value, 1);
    ck_assert_int_eq(mxrt_expr_eval(launch->grid[0], values, &value, NULL), MX_OK);
    ck_assert_int_eq(value, 4);
    ck_assert_int_eq(mxrt_expr_eval(launch->block[0], values, &value, NULL), MX_OK);
    ck_assert_int_eq(value, 64);
    ck_assert_int_eq(mxrt_expr_eval(launch->lds_bytes, values, &value, NULL), MX_OK);
    ck_assert_int_eq(value, 0);
    ck_assert_uint_eq(launch->n_args, 5);
    ck_assert_uint_eq(launch->args_bytes, 40);
    for (int i = 0; i < 5; i++)
        ck_assert_uint_eq(launch->args[i].offset_bytes, offsets[i]);
    ck_assert_int_eq(launch->args[0].kind, MXRT_ARG_POINTER);
    ck_assert_int_eq(launch->args[0].buffer, MXRT_PACK_BUFFER_X);
    ck_assert_ptr_null(launch->args[0].value);
    ck_assert_int_eq(launch->args[1].kind, MXRT_ARG_I32);
    ck_assert_ptr_null(launch->args[1].buffer_name);
    ck_assert_int_eq(launch->args[2].buffer, MXRT_PACK_BUFFER_P);
    ck_assert_str_eq(launch->args[2].buffer_name, "p");
    ck_assert_int_eq(launch->args[3].kind, MXRT_ARG_F32);
    ck_assert_int_eq(launch->args[4].kind, MXRT_ARG_I64);
    ck_assert_str_eq(launch->args[4].name, "r");
    ck_assert_int_eq(mxrt_expr_eval(launch->args[4].value, values, &value, NULL), MX_OK);
    ck_assert_int_eq(value, 42);
}

START_TEST(test_round_trip)
{
    mxgen_pack_writer *writer = pack_plain_writer();
    mxgen_pack_variant v = pack_plain_variant("first");
    mx_error err = {0};
    mxrt_pack *pack = NULL;
    mxrt_variant_info info = {0};
    ck_assert_int_eq(mxgen_pack_writer_variant(writer, &v, NULL), MX_OK);
    v = pack_plain_variant("second");
    v.op = "qdq";
    v.profile = "demoted-255";
    v.layout = "tiles";
    v.rank = 5;
    v.rules_json = "[]";
    v.launch_json = "{\"grid\":[\"1\",\"1\",\"1\"],\"block\":[\"1\",\"1\",\"1\"],"
                    "\"lds_bytes\":\"0\",\"args\":[]}";
    v.params_json = "{}";
    v.info_json = "{}";
    ck_assert_int_eq(mxgen_pack_writer_variant(writer, &v, NULL), MX_OK);
    ck_assert_int_eq(mxgen_pack_writer_meta(writer, "note", "what you will, \xc3\xa9", NULL),
                     MX_OK);
    pack_bytes bytes = pack_take(writer);
    ck_assert_msg(!mxrt_pack_open_memory(bytes.data, bytes.size_bytes, &pack, &err), "%s",
                  err.message);
    memset(bytes.data, 0xff, bytes.size_bytes); /* it was copied */
    free(bytes.data);
    ck_assert_str_eq(mxrt_pack_meta(pack, "generator"), "mxgen test");
    ck_assert_str_eq(mxrt_pack_meta(pack, "note"), "what you will, \xc3\xa9");
    ck_assert_ptr_null(mxrt_pack_meta(pack, "nothing"));
    ck_assert_uint_eq(mxrt_pack_variant_count(pack), 2);
    ck_assert_int_eq(mxrt_pack_variant(pack, 0, &info, &err), MX_OK);
    ck_assert_str_eq(info.name, "first");
    ck_assert_str_eq(info.symbol, "symbol");
    ck_assert_str_eq(info.object_kind, MXPACK_KIND_HOST);
    ck_assert_int_eq(info.object_id, 1);
    ck_assert_int_eq(info.object_bytes, 4);
    check_plain_launch(mxrt_pack_launch_of(pack, 0));
    ck_assert_int_eq(mxrt_pack_variant(pack, 1, &info, &err), MX_OK);
    ck_assert_str_eq(info.profile, "demoted-255");
    ck_assert_int_eq(info.rank, 5);
    ck_assert_str_eq(info.rules_json, "[]");
    ck_assert_uint_eq(mxrt_pack_launch_of(pack, 1)->n_rules, 0);
    ck_assert_uint_eq(mxrt_pack_launch_of(pack, 1)->args_bytes, 0);
    const mxrt_pack_key *key = mxrt_pack_key_of(pack, 1);
    ck_assert_int_eq(key->op, MX_OP_QDQ);
    ck_assert_int_eq(key->format, MX_FORMAT_MX9);
    ck_assert_int_eq(key->profile, MX_PROFILE_DEMOTED_255);
    ck_assert_int_eq(key->layout, MX_LAYOUT_TILES);
    ck_assert_int_eq(mxrt_pack_variant(pack, 2, &info, &err), MX_ERR_INVALID);
    ck_message_has(err, "has 2 variants, and number 2 was asked for");
    ck_assert_ptr_null(mxrt_pack_launch_of(pack, 2));
    ck_assert_ptr_null(mxrt_pack_key_of(pack, 2));
    mxrt_pack_close(pack);
}
END_TEST

START_TEST(test_objects)
{
    pack_bytes bytes = pack_sample();
    mxrt_pack *pack = NULL;
    mx_error err = {0};
    void *data = NULL;
    size_t size_bytes = 77;
    ck_assert_int_eq(mxrt_pack_open_memory(bytes.data, bytes.size_bytes, &pack, &err), MX_OK);
    for (int64_t id = 1; id <= 6; id++) {
        size_t expected_bytes = 0;
        unsigned char *expected = pack_sample_object(id, &expected_bytes);
        ck_assert_int_eq(mxrt_pack_object(pack, id, &data, &size_bytes, &err), MX_OK);
        ck_assert_uint_eq(size_bytes, expected_bytes);
        ck_assert_mem_eq(data, expected, size_bytes);
        ck_assert_int_eq(((char *)data)[size_bytes], 0);
        free(data);
        free(expected);
    }
    data = NULL;
    size_bytes = 77;
    ck_assert_int_eq(mxrt_pack_object(pack, 7, &data, &size_bytes, &err), MX_ERR_NOT_FOUND);
    ck_message_has(err, "kernel pack in memory has no object 7");
    ck_assert_int_eq(mxrt_pack_object(pack, INT64_MIN, &data, &size_bytes, NULL), MX_ERR_NOT_FOUND);
    ck_assert_ptr_null(data);
    ck_assert_uint_eq(size_bytes, 77);
    mxrt_pack_close(pack);
    free(bytes.data);
}
END_TEST

START_TEST(test_deterministic)
{
    mxgen_pack_writer *writer = pack_plain_writer();
    mxgen_pack_variant v = pack_plain_variant("only");
    void *first = NULL, *second = NULL;
    size_t first_bytes = 0, second_bytes = 0;
    pack_bytes a = pack_sample(), b = pack_sample();
    ck_assert_uint_eq(a.size_bytes, b.size_bytes);
    ck_assert_mem_eq(a.data, b.data, a.size_bytes);
    free(a.data);
    free(b.data);
    /* Serializing twice, and saving, give the same bytes as well. */
    ck_assert_int_eq(mxgen_pack_writer_variant(writer, &v, NULL), MX_OK);
    ck_assert_int_eq(mxgen_pack_writer_serialize(writer, &first, &first_bytes, NULL), MX_OK);
    ck_assert_int_eq(mxgen_pack_writer_serialize(writer, &second, &second_bytes, NULL), MX_OK);
    char *path = in_folder("same.mxdb");
    ck_assert_int_eq(mxgen_pack_writer_save(writer, path, NULL), MX_OK);
    pack_bytes saved = pack_read_file(path);
    ck_assert_uint_eq(first_bytes, second_bytes);
    ck_assert_uint_eq(first_bytes, saved.size_bytes);
    ck_assert_mem_eq(first, second, first_bytes);
    ck_assert_mem_eq(first, saved.data, first_bytes);
    mxgen_pack_writer_destroy(writer);
    free(first);
    free(second);
    free(saved.data);
    free(path);
}
END_TEST

/* ---- The writer ---- */

static void expect_refused(mxgen_pack_writer *writer, const mxgen_pack_variant *v, const char *part)
{
    mx_error err = {0};
    ck_assert_int_eq(mxgen_pack_writer_variant(writer, v, &err), MX_ERR_INVALID);
    ck_message_has(err, part);
}

START_TEST(test_writer_refuses)
{
    mxgen_pack_writer *writer = pack_plain_writer();
    mxgen_pack_variant v = pack_plain_variant("kernel");
    mx_error err = {0};
    int64_t id = -5;
    ck_assert_int_eq(mxgen_pack_writer_variant(writer, &v, &err), MX_OK);
    expect_refused(writer, &v, "cannot add variant \"kernel\" of object 1: UNIQUE");
    v = pack_plain_variant("other");
    v.op = "pack";
    expect_refused(writer, &v, "\"other\": unknown op");
    v = pack_plain_variant("other");
    v.format = NULL;
    expect_refused(writer, &v, "unknown format");
    v = pack_plain_variant("other");
    v.rank = -1;
    expect_refused(writer, &v, "unknown rank");
    v = pack_plain_variant("other");
    v.symbol = "";
    expect_refused(writer, &v, "\"other\" lacks a text");
    v = pack_plain_variant("other");
    v.object_id = 2;
    expect_refused(writer, &v, "of object 2: FOREIGN KEY");
    ck_assert_int_eq(mxgen_pack_writer_meta(writer, "generator", "x", &err), MX_ERR_INVALID);
    ck_message_has(err, "cannot add meta key \"generator\": UNIQUE");
    ck_assert_int_eq(mxgen_pack_writer_meta(writer, "checksum", "x", &err), MX_ERR_INVALID);
    ck_assert_int_eq(mxgen_pack_writer_meta(writer, "x", NULL, &err), MX_ERR_INVALID);
    ck_assert_int_eq(mxgen_pack_writer_object(writer, "host", "elf", "x", 1, &id, &err),
                     MX_ERR_INVALID);
    ck_message_has(err, "not \"elf\"");
    ck_assert_int_eq(mxgen_pack_writer_object(writer, "host", MXPACK_KIND_PTX, "x", 0, &id, &err),
                     MX_ERR_INVALID);
    ck_assert_int_eq(mxgen_pack_writer_object(writer, "host", MXPACK_KIND_PTX, "x",
                                              (size_t)MXPACK_MAX_OBJECT_BYTES + 1, &id, &err),
                     MX_ERR_INVALID);
    ck_message_has(err, "an object of 1073741825 bytes");
    ck_assert_int_eq(id, -5);
    /* What was refused left nothing behind. */
    pack_bytes bytes = pack_take(writer);
    mxrt_pack *pack = NULL;
    ck_assert_int_eq(mxrt_pack_open_memory(bytes.data, bytes.size_bytes, &pack, &err), MX_OK);
    ck_assert_uint_eq(mxrt_pack_variant_count(pack), 1);
    mxrt_pack_close(pack);
    free(bytes.data);
    mxgen_pack_writer_destroy(NULL);
}
END_TEST

START_TEST(test_writer_needs_meta)
{
    mxgen_pack_writer *writer = NULL;
    mx_error err = {0};
    void *data = NULL;
    size_t size_bytes = 3;
    char *path = in_folder("meta.mxdb");
    ck_assert_int_eq(mxgen_pack_writer_create(&writer, &err), MX_OK);
    ck_assert_int_eq(mxgen_pack_writer_meta(writer, "generator", "x", &err), MX_OK);
    ck_assert_int_eq(mxgen_pack_writer_serialize(writer, &data, &size_bytes, &err), MX_ERR_INVALID);
    ck_message_has(err, "no meta key \"generator_hash\"");
    ck_assert_int_eq(mxgen_pack_writer_save(writer, path, &err), MX_ERR_INVALID);
    ck_assert_ptr_null(data);
    ck_assert_int_eq(pack_count_files(folder), 0);
    mxgen_pack_writer_destroy(writer);
    free(path);
}
END_TEST

/* Saving fails, and the folder is as it was. */
static void expect_save_fails(const char *path, mx_status expected, const char *part)
{
    mxgen_pack_writer *writer = pack_plain_writer();
    mx_error err = {0};
    int n_files = pack_count_files(folder);
    ck_assert_int_eq(mxgen_pack_writer_save(writer, path, &err), expected);
    ck_message_has(err, part);
    ck_assert_int_eq(pack_count_files(folder), n_files);
    mxgen_pack_writer_destroy(writer);
}

START_TEST(test_save_refused)
{
    char *missing = in_folder("no/such/x.mxdb"), *plain = in_folder("plain");
    char *below = in_folder("plain/x.mxdb");
    pack_write_file(plain, (pack_bytes){(unsigned char *)"x", 1});
    expect_save_fails("", MX_ERR_INVALID, "no file name");
    expect_save_fails(folder, MX_ERR_INVALID, "is not a regular file");
    expect_save_fails("/dev/full", MX_ERR_INVALID, "is not a regular file");
    expect_save_fails(missing, MX_ERR_NOT_FOUND, "No such file or directory");
    expect_save_fails(below, MX_ERR_IO, "Not a directory");
    free(missing);
    free(plain);
    free(below);
}
END_TEST

START_TEST(test_save_unwritable)
{
    char *path = in_folder("x.mxdb");
    ck_assert_int_eq(chmod(folder, 0555), 0);
    drop_privileges();
    expect_save_fails(path, MX_ERR_IO, "Permission denied");
    free(path);
}
END_TEST

/* A limit on file sizes fails a write in its middle, as a full disk does. */
START_TEST(test_save_full)
{
    char *path = in_folder("x.mxdb");
    pack_write_file(path, (pack_bytes){(unsigned char *)"old", 3});
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){8192, 8192}), 0);
    expect_save_fails(path, MX_ERR_IO, "File too large");
    pack_bytes now = pack_read_file(path);
    ck_assert_uint_eq(now.size_bytes, 3);
    ck_assert_mem_eq(now.data, "old", 3);
    free(now.data);
    free(path);
}
END_TEST

START_TEST(test_save_replaces)
{
    char *path = in_folder("real.mxdb"), *link = in_folder("link.mxdb");
    mxgen_pack_writer *writer = pack_plain_writer();
    uint64_t digest;
    pack_write_file(path, (pack_bytes){(unsigned char *)"old", 3});
    ck_assert_int_eq(symlink("real.mxdb", link), 0);
    ck_assert_int_eq(mxgen_pack_writer_save(writer, link, NULL), MX_OK);
    ck_assert_int_eq(pack_count_files(folder), 2);
    ck_assert_int_eq(pack_digest_file(path, &digest, NULL), MX_OK);
    struct stat info;
    ck_assert_int_eq(lstat(link, &info), 0);
    ck_assert(S_ISLNK(info.st_mode));
    ck_assert_int_eq(chdir(folder), 0);
    ck_assert_int_eq(mxgen_pack_writer_save(writer, "here.mxdb", NULL), MX_OK);
    ck_assert_int_eq(pack_count_files(folder), 3);
    ck_assert_int_eq(pack_digest_file("here.mxdb", &digest, NULL), MX_OK);
    mxgen_pack_writer_destroy(writer);
    free(path);
    free(link);
}
END_TEST

/* ---- Opening ---- */

static void expect_open_fails(const char *path, mx_status expected, const char *part)
{
    mxrt_pack *pack = NULL;
    mx_error err = {0};
    ck_assert_int_eq(mxrt_pack_open(path, &pack, &err), expected);
    ck_message_has(err, part);
    ck_message_has(err, path);
    ck_assert_ptr_null(pack);
}

/* Writes the pack, expects that opening fails, and frees it. */
static void expect_bytes_fail(pack_bytes bytes, const char *part)
{
    char *path = in_folder("bytes.mxdb");
    mxrt_pack *pack = NULL;
    mx_error err = {0};
    pack_write_file(path, bytes);
    expect_open_fails(path, MX_ERR_CORRUPT, part);
    ck_assert_int_eq(mxrt_pack_open_memory(bytes.data, bytes.size_bytes, &pack, &err),
                     MX_ERR_CORRUPT);
    ck_message_has(err, part);
    ck_message_has(err, "kernel pack in memory");
    ck_assert_ptr_null(pack);
    free(bytes.data);
    free(path);
}

static pack_bytes text_bytes(const char *text)
{
    return (pack_bytes){(unsigned char *)strdup(text), strlen(text)};
}

START_TEST(test_open_refused)
{
    char *missing = in_folder("missing.mxdb"), *fifo = in_folder("fifo"), *x = in_folder("x");
    char *below = in_folder("x/y");
    pack_write_file(x, (pack_bytes){(unsigned char *)"x", 1});
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    expect_open_fails(missing, MX_ERR_NOT_FOUND, "No such file or directory");
    expect_open_fails("", MX_ERR_NOT_FOUND, "No such file or directory");
    expect_open_fails(below, MX_ERR_NOT_FOUND, "Not a directory");
    expect_open_fails(folder, MX_ERR_INVALID, "is a folder");
    expect_open_fails(fifo, MX_ERR_INVALID, "is a device or pipe");
    expect_open_fails("/dev/zero", MX_ERR_INVALID, "is a device or pipe");
    ck_assert_int_eq(mxrt_pack_open(NULL, NULL, NULL), MX_ERR_INVALID);
    ck_assert_int_eq(mxrt_pack_open_memory(NULL, 5, NULL, NULL), MX_ERR_INVALID);
    mxrt_pack_close(NULL);
    ck_assert_int_eq(chmod(x, 0000), 0);
    ck_assert_int_eq(chmod(folder, 0755), 0);
    drop_privileges();
    expect_open_fails(x, MX_ERR_IO, "Permission denied");
    free(missing);
    free(fifo);
    free(x);
    free(below);
}
END_TEST

START_TEST(test_open_foreign)
{
    expect_bytes_fail(text_bytes(""), "is empty");
    expect_bytes_fail(text_bytes("x"), "is not an SQLite file");
    expect_bytes_fail(text_bytes("{\"json\": \"of more than sixteen bytes\"}"),
                      "is not an SQLite file");
    expect_bytes_fail(text_bytes("SQLite"), "is truncated: it has only 6 bytes");
    expect_bytes_fail(text_bytes("SQLite format 2, which is older"), "is not an SQLite file");
    expect_bytes_fail(pack_doctor(pack_sample(), "PRAGMA application_id=0", 0),
                      "of another program (application id 0x00000000, not 0x4d58504b)");
    expect_bytes_fail(pack_doctor(pack_sample(), "PRAGMA user_version=2", 0),
                      "has version 2, and this library reads version 1: update the library");
    expect_bytes_fail(pack_doctor(pack_sample(), "PRAGMA user_version=0", 0),
                      "has version 0, and this library reads version 1: build it again");
    pack_bytes wal = pack_sample();
    wal.data[18] = wal.data[19] = 2;
    expect_bytes_fail(wal, "WAL mode");
}
END_TEST

START_TEST(test_open_names)
{
    static const char *const names[] = {"plain.mxdb", "a b.mxdb",          "a?mode=rwc&x=1#y.mxdb",
                                        "50%25.mxdb", "\xc3\xa9\xff.mxdb", ":memory:",
                                        "'\";--\n.",  "file:x.mxdb"};
    pack_bytes bytes = pack_sample();
    uint64_t digest = 0, expected = 1;
    ck_assert_int_eq(pack_digest(bytes, &expected, NULL), MX_OK);
    pack_make_folder(folder);
    ck_assert_int_eq(chdir(folder), 0);
    int n = (int)(sizeof(names) / sizeof(names[0]));
    for (int i = 0; i < n; i++)
        pack_write_file(names[i], bytes);
    /* Nothing can be, and nothing is, created beside the files. */
    ck_assert_int_eq(chmod(folder, 0555), 0);
    drop_privileges();
    for (int i = 0; i < n; i++) {
        char *path = in_folder(names[i]);
        mx_error err = {0};
        ck_assert_msg(!pack_digest_file(path, &digest, &err), "%s", err.message);
        ck_assert_uint_eq(digest, expected);
        ck_assert_msg(!pack_digest_file(names[i], &digest, &err), "%s", err.message);
        ck_assert_uint_eq(digest, expected);
        free(path);
    }
    ck_assert_int_eq(pack_count_files(folder), n);
    free(bytes.data);
}
END_TEST

/* ---- Rows ---- */

static const struct {
    const char *sql;
    int reseal;
    const char *part;
} bad_rows[] = {
    {"UPDATE variant SET name='other' WHERE id=2", 0, "variant row 2: its checksum does not match"},
    {"UPDATE variant SET rank=3 WHERE id=1", 0, "variant row 1: its checksum does not match"},
    {"UPDATE variant SET checksum='' WHERE id=3", 0, "checksum \"\" is not a name"},
    {"UPDATE meta SET value='x' WHERE key='compiler'", 0, "the checksum of its rows"},
    {"INSERT INTO meta VALUES('a', 'b')", 0, "the checksum of its rows"},
    {"DELETE FROM variant WHERE id=54", 0, "the checksum of its rows"},
    {"UPDATE object SET kind='ptx' WHERE id=1", 0, "the checksum of its rows"},
    {"UPDATE object SET raw_bytes=2 WHERE id=1", 0, "the checksum of its rows"},
    {"DELETE FROM meta WHERE key='checksum'", 0, "lacks the meta key \"checksum\""},
    {"DELETE FROM meta WHERE key='generator_hash'", 1, "lacks the meta key \"generator_hash\""},
    {"UPDATE meta SET value=x'00' WHERE key='compiler'", 1, "meta row 2: value is not a text"},
    {"UPDATE meta SET value=CAST(x'610062' AS TEXT) WHERE key='compiler'", 1,
     "value has a zero byte"},
    {"UPDATE meta SET key='a b' WHERE key='compiler'", 1, "key \"a b\" is not a name"},
    {"UPDATE variant SET symbol='' WHERE id=4", 1, "symbol \"\" is not a name"},
    {"UPDATE variant SET symbol='a' || char(27) || '[2J' WHERE id=4", 1,
     "symbol \"a?[2J\" is not a name"},
    {"UPDATE variant SET name=hex(zeroblob(600)) WHERE id=4", 1,
     "name has 1200 bytes, more than 1024"},
    {"UPDATE variant SET name=CAST(x'610062' AS TEXT) WHERE id=4", 1, "name has a zero byte"},
    {"UPDATE variant SET name=x'61' WHERE id=4", 1, "name is not a text"},
    {"UPDATE variant SET rules=x'5b5d' WHERE id=4", 1, "rules is not a text"},
    {"UPDATE variant SET rank='first' WHERE id=4", 1, "rank is not an integer"},
    {"UPDATE variant SET rank=1.5 WHERE id=4", 1, "rank is not an integer"},
    {"UPDATE variant SET rank=-1 WHERE id=4", 1, "rank -1 is outside 0..2147483647"},
    {"UPDATE variant SET rank=9223372036854775807 WHERE id=4", 1, "is outside 0..2147483647"},
    {"UPDATE variant SET id=-4 WHERE id=4", 1, "id -4 is outside"},
    {"UPDATE variant SET object=99 WHERE id=4", 1, "it needs object 99, which is missing"},
    {"UPDATE variant SET object=-1 WHERE id=4", 1, "object -1 is outside"},
    {"UPDATE variant SET object=2 WHERE id=4", 1,
     "it is for target \"host\", its object for \"gfx942\""},
    {"DELETE FROM object WHERE id=3", 1, "it needs object 3, which is missing"},
    {"UPDATE object SET kind='elf' WHERE id=2", 1, "object row 2: unknown kind \"elf\""},
    {"UPDATE object SET raw_bytes=0 WHERE id=2", 1, "raw_bytes 0 is outside 1..1073741824"},
    {"UPDATE object SET raw_bytes=1073741825 WHERE id=2", 1, "is outside 1..1073741824"},
    {"UPDATE object SET xxh3='0123' WHERE id=2", 1, "xxh3 has not 16 digits"},
    {"UPDATE object SET data='text' WHERE id=2", 1, "data is not a blob"},
    {"UPDATE object SET target='' WHERE id=2", 1, "target \"\" is not a name"},
};

START_TEST(test_bad_rows)
{
    expect_bytes_fail(pack_doctor(pack_sample(), bad_rows[_i].sql, bad_rows[_i].reseal),
                      bad_rows[_i].part);
}
END_TEST

/* UNIQUE keeps SQL from making this one: the names are patched in the file. */
START_TEST(test_duplicate_name)
{
    mxgen_pack_writer *writer = pack_plain_writer();
    mxgen_pack_variant v = pack_plain_variant("twin_a");
    ck_assert_int_eq(mxgen_pack_writer_variant(writer, &v, NULL), MX_OK);
    v = pack_plain_variant("twin_b");
    ck_assert_int_eq(mxgen_pack_writer_variant(writer, &v, NULL), MX_OK);
    pack_bytes bytes = pack_take(writer);
    for (size_t i = 0; i + 6 < bytes.size_bytes; i++) {
        if (!memcmp(bytes.data + i, "twin_b", 6))
            bytes.data[i + 5] = 'a';
    }
    expect_bytes_fail(pack_doctor(bytes, "SELECT 1", 1),
                      "two variants of target \"host\" are named \"twin_a\"");
}
END_TEST

static const struct {
    const char *sql, *part;
} bad_schemas[] = {
    {"DROP TABLE variant", "its table \"variant\" is missing or not the one of version 1"},
    {"ALTER TABLE meta RENAME TO m; CREATE VIEW meta AS SELECT * FROM m",
     "its table \"meta\" is missing"},
    {"ALTER TABLE object RENAME TO o; CREATE VIEW object AS SELECT * FROM o",
     "its table \"object\" is missing"},
    {"ALTER TABLE variant ADD COLUMN more TEXT", "its table \"variant\" is missing"},
    {"ALTER TABLE object ADD COLUMN more AS (hex(kind))", "its table \"object\" is missing"},
    {"DROP TABLE meta; CREATE TABLE meta(key TEXT, value TEXT)", "its table \"meta\" is missing"},
    {"ALTER TABLE meta RENAME TO m; CREATE TABLE Meta(key TEXT PRIMARY KEY NOT NULL, value TEXT "
     "NOT NULL) WITHOUT ROWID",
     "its table \"meta\" is missing"},
    {"PRAGMA writable_schema=ON; UPDATE sqlite_master SET sql='nonsense' WHERE name='object'",
     "is damaged: malformed database schema"},
    {"PRAGMA writable_schema=ON; UPDATE sqlite_master SET rootpage=99999 WHERE name='object'",
     "is damaged"},
    {"PRAGMA writable_schema=ON; UPDATE sqlite_master SET rootpage=(SELECT rootpage FROM"
     " sqlite_master WHERE name='variant') WHERE name='object'",
     "is damaged"},
};

START_TEST(test_bad_schemas)
{
    expect_bytes_fail(pack_doctor(pack_sample(), bad_schemas[_i].sql, 0), bad_schemas[_i].part);
}
END_TEST

/* Others may add to a pack what this version does not look at. */
START_TEST(test_additions)
{
    uint64_t digest = 0, expected = 1;
    pack_bytes bytes = pack_sample();
    ck_assert_int_eq(pack_digest(bytes, &expected, NULL), MX_OK);
    bytes = pack_doctor(bytes,
                        "CREATE TABLE notes(x); INSERT INTO notes VALUES(1); ANALYZE;"
                        "CREATE VIEW v AS SELECT * FROM notes;"
                        "CREATE TRIGGER t AFTER INSERT ON notes BEGIN DELETE FROM notes; END;"
                        "DROP INDEX variant_by_key",
                        0);
    ck_assert_int_eq(pack_digest(bytes, &digest, NULL), MX_OK);
    ck_assert_uint_eq(digest, expected);
    free(bytes.data);
}
END_TEST

/* ---- JSON columns ---- */

#define LAUNCH(grid, args)                                                                         \
    "{\"grid\":" grid ",\"block\":[\"1\",\"1\",\"1\"],\"lds_bytes\":\"0\",\"args\":" args "}"
#define ONES "[\"1\",\"1\",\"1\"]"

static const struct {
    const char *column, *json, *part;
} bad_json[] = {
    {"params", "", "params: not JSON"},
    {"params", "256", "params: not "},
    {"params", "[]", "params: not an object"},
    {"params", "{\"A\": 1", "params: not JSON"},
    {"params", "{\"A\": 1} x", "params: not JSON"},
    {"params", "{\"A\": 01}", "params: not JSON"},
    {"params", "{\"A\": 1,}", "params: not JSON"},
    {"params", "{\"A\" 1}", "params: not JSON"},
    {"params", "{\"A\": 1, \"A\": 2}", "params: not JSON: duplicate object key"},
    {"params", "{\"A\": 99999999999999999999}", "params: not JSON: too big integer"},
    {"params", "{\"A\": [1]}", "params: \"A\" must be a plain value"},
    {"params", "{\"A\": {}}", "params: \"A\" must be a plain value"},
    {"info", "null", "info: not "},
    {"info", "{\"vgprs\": \"many\"}", "info: \"vgprs\" must be an integer"},
    {"info", "{\"spills\": 1.5}", "info: \"spills\" must be an integer"},
    {"info", "{\"registers\": \"many\"}", "info: \"registers\" must be an integer"},
    {"info", "{\"x\": null}", "info: \"x\" must be a plain value"},
    {"info", "{\"\xff\": 1}", "info: not JSON"},
    {"rules", "{}", "rules: not an array"},
    {"rules", "[1]", "rules[0]: not an object"},
    {"rules", "[{}]", "rules[0]: \"rule\" must be a text, not empty"},
    {"rules", "[{\"rule\": \"\", \"when\": \"1\"}]", "rules[0]: \"rule\" must be"},
    {"rules", "[{\"rule\": \"a\", \"when\": \"1\"}, {\"rule\": \"b\"}]", "rules[1]: \"when\" must"},
    {"rules", "[{\"rule\": \"a\", \"when\": 1}]", "rules[0]: \"when\" must be a text"},
    {"rules", "[{\"rule\": \"a\", \"when\": \"1\", \"unless\": \"0\"}]",
     "rules[0]: unknown key \"unless\""},
    {"rules", "[{\"rule\": \"a\", \"when\": \"length > 1\"}]",
     "rules[0]: \"when\": expression \"length > 1\": an unknown variable at column 1"},
    {"rules", "[{\"rule\": \"a\", \"when\": \"1 \\u0000\"}]", "rules: not JSON"},
    /* Without spaces, as the generator writes them. */
    {"rules", "[{\"rule\":\"a\",\"when\":\"1\"},{\"rule\":\"b\",\"when\":\"1 +\"}]",
     "rules[1]: \"when\": expression \"1 +\": expected a value, found the end at column 4"},
    {"rules", "[{\"rule\":\"a\",\"when\":\"\"}]", "rules[0]: \"when\" must be a text, not empty"},
    {"rules", "[{\"rule\":\"a\",\"when\":\"1\"},]", "rules: not JSON"},
    {"rules", "[{\"rule\":\"a\",\"when\":\"1\"}] ]", "rules: not JSON"},
    {"rules", "[{\"rule\":\"a\",\"when\":\"1\"}", "rules: not JSON"},
    {"rules", "[{\"rule\":\"a\",\"when\":\"1\",\"rule\":\"b\"}]", "duplicate object key"},
    {"launch", "{}", "launch: \"grid\" must be three expressions"},
    {"launch", LAUNCH("[\"1\",\"1\"]", "[]"), "launch: \"grid\" must be three expressions"},
    {"launch", LAUNCH("[\"1\",\"1\",1]", "[]"), "launch: \"grid\" must be a text"},
    {"launch", LAUNCH("[\"1\",\"1\",\"1 +\"]", "[]"), "found the end at column 4"},
    {"launch", LAUNCH(ONES, "{}"), "launch: \"args\" must be an array of at most 64"},
    {"launch", LAUNCH(ONES, "[],\"cluster\":\"2\""), "launch: unknown key \"cluster\""},
    {"launch", LAUNCH(ONES, "[1]"), "args[0]: \"kind\" must be pointer, i32, i64 or f32"},
    {"launch", LAUNCH(ONES, "[{\"name\":\"a\",\"kind\":\"u8\",\"value\":\"1\"}]"),
     "args[0]: \"kind\" must be pointer, i32, i64 or f32"},
    {"launch", LAUNCH(ONES, "[{\"name\":\"a\",\"kind\":\"i32\"}]"), "args[0]: \"value\" must be"},
    {"launch", LAUNCH(ONES, "[{\"name\":\"a\",\"kind\":\"i32\",\"buffer\":\"x\"}]"),
     "args[0]: unknown key \"buffer\""},
    {"launch", LAUNCH(ONES, "[{\"kind\":\"i32\",\"value\":\"1\"}]"), "args[0]: \"name\" must be"},
    {"launch", LAUNCH(ONES, "[{\"name\":\"a\",\"kind\":\"pointer\"}]"),
     "args[0]: \"buffer\" must be x, y, p, s, c, t, g or o"},
    {"launch", LAUNCH(ONES, "[{\"name\":\"a\",\"kind\":\"pointer\",\"buffer\":\"z\"}]"),
     "args[0]: \"buffer\" must be x, y, p, s, c, t, g or o"},
    {"launch", LAUNCH(ONES, "[{\"name\":\"a\",\"kind\":\"pointer\",\"buffer\":\"y\"}]"),
     "launch: an argument names a buffer that \"to\" has not"},
};

/* A pack of one variant with this text in this column; NULL frees nothing. */
static pack_bytes pack_with_json(const char *column, const char *json)
{
    mxgen_pack_writer *writer = pack_plain_writer();
    mxgen_pack_variant v = pack_plain_variant("kernel");
    ck_assert_int_eq(mxgen_pack_writer_variant(writer, &v, NULL), MX_OK);
    char *quoted = NULL;
    ck_assert_int_gt(asprintf(&quoted, "UPDATE variant SET %s='%s'", column, json), 0);
    pack_bytes bytes = pack_doctor(pack_take(writer), quoted, 1);
    free(quoted);
    return bytes;
}

START_TEST(test_bad_json)
{
    expect_bytes_fail(pack_with_json(bad_json[_i].column, bad_json[_i].json), bad_json[_i].part);
}
END_TEST

static const struct {
    const char *column, *json;
} good_json[] = {
    {"params", "{}"},
    {"params", " {\t\"A\" : -1 ,\n\"AB\": 0, \"B\":123456789012345678 } "},
    {"params", "{\"A\": \"text\", \"B\": true, \"C\": 1.5}"},
    {"info", "{\"vgprs\": 1234567890123456789, \"what\": false}"},
    {"rules", " [ ] "},
    {"rules", "[{\"rule\":\"a\",\"when\":\"1\"}]"},
    {"rules", "[{\"rule\":\"a \\\"b\\\" \xc3\xa9\",\"when\":\"\\u0031 == 1\"}]"},
    {"rules", "[{\"when\":\"1\",\"rule\":\"a\"},{\"rule\":\"b\",\"when\":\"0\"}]"},
    {"launch", LAUNCH(ONES, "[]")},
};

START_TEST(test_good_json)
{
    mx_error err = {0};
    uint64_t digest;
    pack_bytes bytes = pack_with_json(good_json[_i].column, good_json[_i].json);
    ck_assert_msg(!pack_digest(bytes, &digest, &err), "%s", err.message);
    free(bytes.data);
}
END_TEST

/* `head`, then `item` n times with commas between, then `tail`. */
static char *list(const char *head, const char *item, int n, const char *tail)
{
    char *text = malloc(strlen(head) + (strlen(item) + 1) * (size_t)n + strlen(tail) + 1);
    char *at = stpcpy(text, head);
    for (int i = 0; i < n; i++)
        at = stpcpy(stpcpy(at, i ? "," : ""), item);
    strcpy(at, tail);
    return text;
}

static void expect_json_fails(const char *column, char *json, const char *part)
{
    expect_bytes_fail(pack_with_json(column, json), part);
    free(json);
}

START_TEST(test_json_limits)
{
    static const char launch_head[] =
        "{\"grid\":" ONES ",\"block\":" ONES ",\"lds_bytes\":\"0\",\"args\":[";
    static const char arg[] = "{\"name\":\"a\",\"kind\":\"i64\",\"value\":\"1\"}";
    static const char rule[] = "{\"rule\":\"a\",\"when\":\"1\"}";
    uint64_t digest;
    char *most = list(launch_head, arg, MXPACK_MAX_ARGS, "]}");
    pack_bytes bytes = pack_with_json("launch", most);
    ck_assert_int_eq(pack_digest(bytes, &digest, NULL), MX_OK);
    free(bytes.data);
    free(most);
    expect_json_fails("launch", list(launch_head, arg, MXPACK_MAX_ARGS + 1, "]}"), "at most 64");
    most = list("[", rule, MXRT_PACK_MAX_RULES, "]");
    bytes = pack_with_json("rules", most);
    ck_assert_int_eq(pack_digest(bytes, &digest, NULL), MX_OK);
    free(bytes.data);
    free(most);
    expect_json_fails("rules", list("[", rule, MXRT_PACK_MAX_RULES + 1, "]"), "more than 64");
    expect_json_fails("rules", list("", "[[[[[[[[[[[[[[[[[[[[[[[[", 2000, ""), "rules: not JSON");
    expect_json_fails("params", list("{\"a\": ", "0000000000000000000", 60000, "}"),
                      "params has 1200006 bytes, more than 1048576");
    expect_json_fails("info", list("{\"a\":", "[", 1, ""), "info: not JSON");
}
END_TEST

/* ---- Objects ---- */

static const struct {
    const char *sql, *part;
} bad_objects[] = {
    {"UPDATE object SET data=x'' WHERE id=3", "object 3 is not 5000 bytes of zstd data"},
    {"UPDATE object SET data=x'00112233' WHERE id=3", "object 3 is not 5000 bytes of zstd data"},
    {"UPDATE object SET data=CAST(data || x'00' AS BLOB) WHERE id=3", "is not 5000 bytes"},
    {"UPDATE object SET data=substr(data, 1, length(data) - 1) WHERE id=3", "is not 5000 bytes"},
    {"UPDATE object SET data=(SELECT data FROM object WHERE id=4) WHERE id=3", "is not 5000 bytes"},
    {"UPDATE object SET raw_bytes=1073741824 WHERE id=3", "object 3 is not 1073741824 bytes"},
    {"UPDATE object SET raw_bytes=4999 WHERE id=3", "object 3 is not 4999 bytes"},
    {"UPDATE object SET xxh3='0123456789abcdef' WHERE id=3", "the checksum of object 3 does not"},
    {"UPDATE object SET xxh3=upper(xxh3) WHERE id=3", "the checksum of object 3 does not"},
};

START_TEST(test_bad_objects)
{
    pack_bytes bytes = pack_doctor(pack_sample(), bad_objects[_i].sql, 1);
    mxrt_pack *pack = NULL;
    mx_error err = {0};
    void *data = NULL;
    size_t size_bytes = 0;
    ck_assert_msg(!mxrt_pack_open_memory(bytes.data, bytes.size_bytes, &pack, &err), "%s",
                  err.message);
    ck_assert_int_eq(mxrt_pack_object(pack, 3, &data, &size_bytes, &err), MX_ERR_CORRUPT);
    ck_message_has(err, bad_objects[_i].part);
    ck_assert_ptr_null(data);
    /* The others are as they were. */
    ck_assert_int_eq(mxrt_pack_object(pack, 2, &data, &size_bytes, &err), MX_OK);
    free(data);
    mxrt_pack_close(pack);
    free(bytes.data);
}
END_TEST

/* ---- Threads ---- */

typedef struct reader {
    pthread_t thread;
    const mxrt_pack *pack;
    int n_wrong;
} reader;

static void *read_many(void *argument)
{
    reader *self = argument;
    for (int i = 0; i < 60; i++) {
        size_t expected_bytes = 0, size_bytes = 0;
        int64_t id = i % 6 + 1;
        void *data = NULL;
        unsigned char *expected = pack_sample_object(id, &expected_bytes);
        mxrt_variant_info info = {0};
        if (mxrt_pack_object(self->pack, id, &data, &size_bytes, NULL) ||
            size_bytes != expected_bytes || memcmp(data, expected, size_bytes) != 0 ||
            mxrt_pack_variant(self->pack, (size_t)i % 54, &info, NULL) || info.rank != i % 54 % 9 ||
            mxrt_pack_object(self->pack, 99, &data, &size_bytes, NULL) != MX_ERR_NOT_FOUND)
            self->n_wrong++;
        free(expected);
        free(data);
    }
    return NULL;
}

START_TEST(test_threads)
{
    char *path = in_folder("shared.mxdb");
    pack_bytes bytes = pack_sample();
    mxrt_pack *pack = NULL;
    reader readers[6] = {0};
    pack_write_file(path, bytes);
    ck_assert_int_eq(mxrt_pack_open(path, &pack, NULL), MX_OK);
    for (int i = 0; i < 6; i++) {
        readers[i].pack = pack;
        ck_assert_int_eq(pthread_create(&readers[i].thread, NULL, read_many, &readers[i]), 0);
    }
    for (int i = 0; i < 6; i++) {
        pthread_join(readers[i].thread, NULL);
        ck_assert_int_eq(readers[i].n_wrong, 0);
    }
    mxrt_pack_close(pack);
    free(bytes.data);
    free(path);
}
END_TEST

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

int main(void)
{
    Suite *suite = suite_create("pack");
    TCase *tests = tcase_create("pack");
    tcase_add_checked_fixture(tests, NULL, tear_down);
    tcase_add_test(tests, test_round_trip);
    tcase_add_test(tests, test_objects);
    tcase_add_test(tests, test_deterministic);
    tcase_add_test(tests, test_writer_refuses);
    tcase_add_test(tests, test_writer_needs_meta);
    tcase_add_test(tests, test_save_refused);
    tcase_add_test(tests, test_save_unwritable);
    tcase_add_test(tests, test_save_full);
    tcase_add_test(tests, test_save_replaces);
    tcase_add_test(tests, test_open_refused);
    tcase_add_test(tests, test_open_foreign);
    tcase_add_test(tests, test_open_names);
    tcase_add_loop_test(tests, test_bad_rows, 0, COUNT(bad_rows));
    tcase_add_test(tests, test_duplicate_name);
    tcase_add_loop_test(tests, test_bad_schemas, 0, COUNT(bad_schemas));
    tcase_add_test(tests, test_additions);
    tcase_add_loop_test(tests, test_bad_json, 0, COUNT(bad_json));
    tcase_add_loop_test(tests, test_good_json, 0, COUNT(good_json));
    tcase_add_test(tests, test_json_limits);
    tcase_add_loop_test(tests, test_bad_objects, 0, COUNT(bad_objects));
    tcase_add_test(tests, test_threads);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
