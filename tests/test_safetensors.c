/* The safetensors library: what it writes it reads, and whatever is damaged is an error that says
 * so. Damage is exhaustive where it can be: every truncation, every bit flip of the header. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/safetensors/safetensors.h"

static char folder[64];
static char file[128];

/* As on a file system without files that have no name. */
static int only_named;

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    unsigned mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, unsigned) : 0;
    va_end(args);
    if (only_named && (flags & O_TMPFILE) == O_TMPFILE)
        return errno = EOPNOTSUPP, -1;
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static int has_unnamed_files(void)
{
    int fd = open(folder, O_TMPFILE | O_WRONLY, 0666);
    close(fd);
    return fd >= 0;
}

static void setup(void)
{
    strcpy(folder, "/tmp/mxgen-st-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(file, sizeof(file), "%s/t.safetensors", folder);
}

/* rmdir fails, and the test with it, when something was left behind. */
static void teardown(void)
{
    unlink(file);
    ck_assert_msg(rmdir(folder) == 0, "%s: %s", folder, strerror(errno));
}

static void put_bytes(const void *data, size_t n)
{
    FILE *f = fopen(file, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(data, 1, n, f), n);
    ck_assert_int_eq(fclose(f), 0);
}

static size_t get_bytes(unsigned char **data)
{
    struct stat st;
    FILE *f = fopen(file, "rb");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fstat(fileno(f), &st), 0);
    *data = malloc((size_t)st.st_size + 1);
    ck_assert_uint_eq(fread(*data, 1, (size_t)st.st_size, f), (size_t)st.st_size);
    fclose(f);
    return (size_t)st.st_size;
}

/* A file with this header and `n_data` bytes after it. */
static void put_file(const char *header, size_t n_data)
{
    size_t length = strlen(header);
    unsigned char *bytes = calloc(1, 8 + length + n_data);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)length >> (8 * i));
    memcpy(bytes + 8, header, length);
    put_bytes(bytes, 8 + length + n_data);
    free(bytes);
}

static void expect_refused(const char *header, size_t n_data, const char *word)
{
    mx_error err = {0};
    st_reader *reader = NULL;
    put_file(header, n_data);
    mx_status status = st_reader_open(file, &reader, &err);
    ck_assert_msg(status != MX_OK, "accepted: %s", header);
    ck_assert_int_eq(status, err.status);
    ck_assert_ptr_null(reader);
    ck_assert_msg(strstr(err.message, word) != NULL, "\"%s\" lacks \"%s\" for %s", err.message,
                  word, header);
    ck_assert_int_eq(st_reader_open(file, &reader, NULL), status);
}

static void write_sample(void)
{
    static const int64_t shape_a[] = {2, 3}, shape_b[] = {5}, shape_c[] = {0, 7};
    static const unsigned char bytes[24] = {1, 2, 3, 4, 5, 6, 7, 8};
    st_writer *writer = NULL;
    size_t a, b, c, d;
    mx_error err;
    ck_assert_msg(st_writer_create(file, &writer, &err) == MX_OK, "%s", err.message);
    ck_assert_int_eq(st_writer_metadata(writer, "format", "pt", &err), MX_OK);
    ck_assert_int_eq(st_writer_metadata(writer, "quote\"", "new\nline", &err), MX_OK);
    ck_assert_int_eq(st_writer_declare(writer, "b", ST_U8, 1, shape_b, &b, &err), MX_OK);
    ck_assert_int_eq(st_writer_declare(writer, "a.weight", ST_F32, 2, shape_a, &a, &err), MX_OK);
    ck_assert_int_eq(st_writer_declare(writer, "empty", ST_BF16, 2, shape_c, &c, &err), MX_OK);
    ck_assert_int_eq(st_writer_declare(writer, "scalar", ST_I16, 0, NULL, &d, &err), MX_OK);
    ck_assert_msg(st_writer_begin(writer, &err) == MX_OK, "%s", err.message);
    ck_assert_int_eq(st_writer_write(writer, b, 0, "hello", 5, &err), MX_OK);
    ck_assert_int_eq(st_writer_write(writer, a, 8, bytes + 8, 16, &err), MX_OK);
    ck_assert_int_eq(st_writer_write(writer, a, 0, bytes, 8, &err), MX_OK);
    ck_assert_int_eq(st_writer_write(writer, d, 0, "\1\2", 2, &err), MX_OK);
    ck_assert_msg(st_writer_commit(writer, &err) == MX_OK, "%s", err.message);
    st_writer_destroy(writer);
}

START_TEST(round_trip)
{
    st_reader *reader = NULL;
    mx_error err;
    const char *key, *value;
    unsigned char got[24];
    write_sample();
    ck_assert_msg(st_reader_open(file, &reader, &err) == MX_OK, "%s", err.message);
    ck_assert_uint_eq(st_reader_count(reader), 4);
    ck_assert_ptr_null(st_reader_at(reader, 4));
    ck_assert_ptr_null(st_reader_find(reader, "nobody"));
    ck_assert_ptr_null(st_reader_find(reader, "__metadata__"));
    const st_tensor *a = st_reader_find(reader, "a.weight");
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_eq(a, st_reader_at(reader, 0)); /* 4-byte elements lie before the others */
    ck_assert_int_eq(a->dtype, ST_F32);
    ck_assert_uint_eq(a->ndim, 2);
    ck_assert_int_eq(a->shape[0], 2);
    ck_assert_int_eq(a->shape[1], 3);
    ck_assert_int_eq(a->n_elements, 6);
    ck_assert_int_eq(a->size_bytes, 24);
    ck_assert_int_eq(a->offset_bytes % 8, 0);
    ck_assert_int_eq(st_reader_read(reader, a, 4, got, 4, &err), MX_OK);
    ck_assert_mem_eq(got, "\5\6\7\10", 4);
    ck_assert_int_eq(st_reader_read(reader, a, 24, got, 0, &err), MX_OK);
    ck_assert_int_eq(st_reader_read(reader, a, 20, got, 5, &err), MX_ERR_INVALID);
    ck_assert_int_eq(st_reader_read(reader, a, -1, got, 1, &err), MX_ERR_INVALID);
    ck_assert_int_eq(st_reader_read(reader, st_reader_find(reader, "b"), 0, got, 5, &err), MX_OK);
    ck_assert_mem_eq(got, "hello", 5);
    ck_assert_int_eq(st_reader_find(reader, "empty")->size_bytes, 0);
    ck_assert_int_eq(st_reader_find(reader, "scalar")->n_elements, 1);
    ck_assert_uint_eq(st_reader_metadata_count(reader), 2);
    ck_assert_str_eq(st_reader_metadata_find(reader, "quote\""), "new\nline");
    ck_assert_ptr_null(st_reader_metadata_find(reader, "absent"));
    st_reader_metadata_at(reader, 0, &key, &value);
    ck_assert_str_eq(key, "format");
    ck_assert_str_eq(value, "pt");
    st_reader_metadata_at(reader, 2, &key, &value);
    ck_assert_ptr_null(key);
    st_reader_close(reader);
    st_reader_close(NULL);
}
END_TEST

START_TEST(accepts)
{
    static const char *const headers[] = {
        "{}",
        "{}      ",
        "{\"__metadata__\":{}}",
        "{\"a\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[0,2]},"
        "\"b\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[2,5]}}",
        "{\"z\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]},"
        "\"y\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},"
        "\"x\":{\"dtype\":\"C64\",\"shape\":[9223372036854775807,0],\"data_offsets\":[8,8]}}",
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1],\"data_offsets\":[0,1],\"extra\":[1.5]}}"};
    static const size_t n_data[] = {0, 0, 0, 5, 8, 1};
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        mx_error err;
        st_reader *reader = NULL;
        put_file(headers[i], n_data[i]);
        ck_assert_msg(st_reader_open(file, &reader, &err) == MX_OK, "%s: %s", headers[i],
                      err.message);
        st_reader_close(reader);
    }
}
END_TEST

#define T(dtype, shape, offsets)                                                                   \
    "{\"t\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define TWO(off_a, off_b)                                                                          \
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" off_a "},"                          \
    "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" off_b "}}"

START_TEST(refuses)
{
    static const struct {
        const char *header;
        size_t n_data;
        const char *word;
    } cases[] = {
        {"", 0, "start with"},
        {" {}", 0, "start with"},
        {"[]", 0, "start with"},
        {"{", 0, "JSON"},
        {"{}x", 0, "JSON"},
        {"{\"a\":\"\xff\"}", 0, "JSON"},
        {"{\"a\\u0000b\":{}}", 0, "JSON"},
        {"{\"a\":1}", 0, "object"},
        {"{\"a\":{}}", 0, "dtype"},
        {"{}", 1, "no tensor"},
        {"{\"__metadata__\":[]}", 0, "__metadata__"},
        {"{\"__metadata__\":{\"k\":1}}", 0, "\"k\""},
        {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "duplicate"},
        {"{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
         2, "duplicate"},
        {"{\"t\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
         "duplicate"},
        {T("F33", "[1]", "[0,4]"), 4, "F33"},
        {T("f32", "[1]", "[0,4]"), 4, "f32"},
        {"{\"t\":{\"dtype\":5,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype"},
        {T("F32", "4", "[0,4]"), 4, "shape"},
        {"{\"t\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "shape"},
        {T("F32", "[-1]", "[0,4]"), 4, "dimension 0"},
        {T("F32", "[1,1.0]", "[0,4]"), 4, "dimension 1"},
        {T("F32", "[\"1\"]", "[0,4]"), 4, "dimension 0"},
        {T("F32", "[true]", "[0,4]"), 4, "dimension 0"},
        {T("F32", "[99999999999999999999]", "[0,4]"), 4, "integer"},
        {T("F32", "[4294967296,4294967296]", "[0,4]"), 4, "overflows"},
        {T("U8", "[9223372036854775807]", "[0,4]"), 4, "overflows"},
        {T("F32", "[2305843009213693952,4]", "[0,0]"), 0, "overflows"},
        {T("F32", "[2]", "[0,4]"), 4, "need 8"},
        {T("F32", "[1]", "[0,8]"), 8, "need 4"},
        {T("F4", "[3]", "[0,2]"), 2, "whole bytes"},
        {T("F32", "[1]", "[4]"), 4, "data_offsets"},
        {T("F32", "[1]", "[0,4,8]"), 8, "data_offsets"},
        {T("F32", "[1]", "\"0,4\""), 4, "data_offsets"},
        {T("F32", "[1]", "[0.0,4]"), 4, "data_offsets[0]"},
        {T("F32", "[1]", "[-4,0]"), 4, "data_offsets[0]"},
        {T("F32", "[1]", "[4,0]"), 4, "after its end"},
        {T("F32", "[1]", "[0,4]"), 3, "truncated"},
        {T("F32", "[1]", "[0,9223372036854775807]"), 4, "truncated"},
        {T("F32", "[1]", "[9223372036854775803,9223372036854775807]"), 4, "truncated"},
        {T("F32", "[1]", "[0,4]"), 5, "last 1 bytes"},
        {T("F32", "[1]", "[1,5]"), 5, "belong to no tensor"},
        {TWO("[0,4]", "[2,6]"), 6, "overlaps"},
        {TWO("[0,4]", "[0,4]"), 4, "overlaps"},
        {TWO("[0,4]", "[5,9]"), 9, "belong to no tensor"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        expect_refused(cases[i].header, cases[i].n_data, cases[i].word);
}
END_TEST

START_TEST(deep_nesting)
{
    size_t depth = 200000;
    char *text = malloc(2 * depth + 64);
    int n = sprintf(text, "{\"t\":");
    memset(text + n, '[', depth);
    text[(size_t)n + depth] = 0;
    expect_refused(text, 0, "JSON");
    memset(text + n, ']', depth);
    for (size_t i = 0; i < depth / 2; i++)
        text[(size_t)n + i] = '[';
    strcpy(text + (size_t)n + depth, "}");
    expect_refused(text, 0, "JSON");
    free(text);
}
END_TEST

START_TEST(header_length)
{
    /* Lengths that do not fit the format, the file, or 64 bits once 8 is added. */
    static const struct {
        unsigned char bytes[8];
        const char *word;
    } cases[] = {{{255, 255, 255, 255, 255, 255, 255, 255}, "limit"},
                 {{248, 255, 255, 255, 255, 255, 255, 127}, "limit"},
                 {{1, 225, 245, 5, 0, 0, 0, 0}, "limit"},     /* 100 000 001 */
                 {{0, 225, 245, 5, 0, 0, 0, 0}, "truncated"}, /* 100 000 000 */
                 {{3, 0, 0, 0, 0, 0, 0, 0}, "truncated"},
                 {{0}, "start with"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned char bytes[10];
        mx_error err;
        st_reader *reader = NULL;
        memcpy(bytes, cases[i].bytes, 8);
        memcpy(bytes + 8, "{}", 2);
        put_bytes(bytes, sizeof(bytes));
        ck_assert_int_eq(st_reader_open(file, &reader, &err), MX_ERR_CORRUPT);
        ck_assert_msg(strstr(err.message, cases[i].word) != NULL, "%s", err.message);
    }
}
END_TEST

START_TEST(every_truncation)
{
    unsigned char *bytes;
    write_sample();
    size_t n = get_bytes(&bytes);
    for (size_t keep = 0; keep < n; keep++) {
        mx_error err;
        st_reader *reader = NULL;
        put_bytes(bytes, keep);
        ck_assert_msg(st_reader_open(file, &reader, &err) == MX_ERR_CORRUPT, "%zu of %zu bytes",
                      keep, n);
    }
    free(bytes);
}
END_TEST

/* A flip may leave a valid file (in a name, say); then its tensors must still lie inside. */
static void expect_sane(void)
{
    mx_error err;
    st_reader *reader = NULL;
    unsigned char byte;
    if (st_reader_open(file, &reader, &err) != MX_OK) {
        ck_assert_uint_gt(strlen(err.message), 10);
        return;
    }
    for (size_t i = 0; i < st_reader_count(reader); i++) {
        const st_tensor *t = st_reader_at(reader, i);
        if (t->size_bytes > 0)
            ck_assert_int_eq(st_reader_read(reader, t, t->size_bytes - 1, &byte, 1, &err), MX_OK);
    }
    st_reader_close(reader);
}

START_TEST(every_flip)
{
    unsigned char *bytes;
    write_sample();
    size_t n = get_bytes(&bytes), header = 8;
    for (int i = 0; i < 8; i++)
        header += (size_t)bytes[i] << (8 * i);
    ck_assert_uint_lt(header, n);
    for (size_t at = 0; at < header; at++) {
        unsigned char before = bytes[at];
        for (int bit = 0; bit < 8; bit++) {
            bytes[at] = (unsigned char)(before ^ 1u << bit);
            put_bytes(bytes, n);
            expect_sane();
        }
        bytes[at] = 0;
        put_bytes(bytes, n);
        expect_sane();
        bytes[at] = before;
    }
    free(bytes);
}
END_TEST

START_TEST(not_files)
{
    mx_error err;
    st_reader *reader = NULL;
    ck_assert_int_eq(st_reader_open("/nowhere/x.safetensors", &reader, &err), MX_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.message, "/nowhere/x.safetensors"));
    ck_assert_int_eq(st_reader_open(folder, &reader, &err), MX_ERR_INVALID);
    ck_assert_int_eq(mkfifo(file, 0600), 0);
    ck_assert_int_eq(st_reader_open(file, &reader, &err), MX_ERR_INVALID);
    ck_assert_ptr_null(reader);
}
END_TEST

START_TEST(writer_refuses)
{
    static const int64_t negative[] = {3, -1}, huge[] = {INT64_MAX, 2}, odd[] = {3}, one[] = {1};
    static const int64_t half[] = {INT64_MAX / 2};
    st_writer *writer = NULL;
    size_t index = 77, first;
    mx_error err;
    ck_assert_int_eq(st_writer_create("", &writer, &err), MX_ERR_INVALID);
    ck_assert_int_eq(st_writer_create(folder, &writer, &err), MX_ERR_INVALID);
    ck_assert_int_eq(st_writer_create("/dev/full", &writer, &err), MX_ERR_INVALID);
    ck_assert_int_eq(st_writer_create("/tmp/", &writer, &err), MX_ERR_INVALID);
    ck_assert_ptr_null(writer);
    ck_assert_int_eq(st_writer_create(file, &writer, &err), MX_OK);
    ck_assert_int_ne(st_writer_declare(writer, "t", ST_F32, 2, negative, &index, &err), MX_OK);
    ck_assert_int_ne(st_writer_declare(writer, "t", ST_U8, 2, huge, &index, &err), MX_OK);
    ck_assert_int_ne(st_writer_declare(writer, "t", ST_F4, 1, odd, &index, &err), MX_OK);
    ck_assert_int_ne(st_writer_declare(writer, "t", ST_DTYPE_COUNT, 1, one, &index, &err), MX_OK);
    ck_assert_int_ne(st_writer_declare(writer, "__metadata__", ST_U8, 1, one, &index, &err), MX_OK);
    ck_assert_int_ne(st_writer_declare(writer, "\xff", ST_U8, 1, one, &index, &err), MX_OK);
    ck_assert_int_ne(st_writer_metadata(writer, "k", "\xff", &err), MX_OK);
    ck_assert_uint_eq(index, 77);
    ck_assert_int_eq(st_writer_declare(writer, "t", ST_U8, 1, one, &first, &err), MX_OK);
    ck_assert_int_ne(st_writer_declare(writer, "t", ST_U8, 1, one, &index, &err), MX_OK);
    ck_assert_int_ne(st_writer_write(writer, first, 0, "x", 1, &err), MX_OK);
    ck_assert_int_ne(st_writer_commit(writer, &err), MX_OK);
    ck_assert_int_eq(st_writer_begin(writer, &err), MX_OK);
    ck_assert_int_ne(st_writer_begin(writer, &err), MX_OK);
    ck_assert_int_ne(st_writer_metadata(writer, "k", "v", &err), MX_OK);
    ck_assert_int_ne(st_writer_declare(writer, "u", ST_U8, 1, one, &index, &err), MX_OK);
    ck_assert_int_ne(st_writer_write(writer, first, 1, "x", 1, &err), MX_OK);
    ck_assert_int_ne(st_writer_write(writer, first, -1, "x", 1, &err), MX_OK);
    ck_assert_int_ne(st_writer_write(writer, 9, 0, "x", 1, &err), MX_OK);
    ck_assert_int_ne(st_writer_commit(writer, &err), MX_OK); /* not all bytes are written */
    st_writer_destroy(writer);
    ck_assert_int_ne(access(file, F_OK), 0);
    /* Sums that overflow, and a file that no disk holds. */
    ck_assert_int_eq(st_writer_create(file, &writer, &err), MX_OK);
    ck_assert_int_eq(st_writer_declare(writer, "a", ST_U8, 1, half, &index, &err), MX_ERR_INVALID);
    static const int64_t part[] = {INT64_MAX / 8 - 1};
    for (char name[2] = "a"; name[0] < 'h'; name[0]++)
        ck_assert_int_eq(st_writer_declare(writer, name, ST_U8, 1, part, &index, &err), MX_OK);
    ck_assert_int_ne(st_writer_begin(writer, &err), MX_OK);
    st_writer_destroy(writer);
    st_writer_destroy(NULL);
    ck_assert_int_eq(st_writer_create("/nowhere/x", &writer, &err), MX_OK);
    ck_assert_int_eq(st_writer_begin(writer, &err), MX_ERR_NOT_FOUND);
    st_writer_destroy(writer);
}
END_TEST

START_TEST(replaces_atomically)
{
    only_named = _i;
    st_writer *writer = NULL;
    unsigned char *bytes;
    size_t index;
    mx_error err;
    static const int64_t shape[] = {4};
    put_bytes("old", 3);
    ck_assert_int_eq(st_writer_create(file, &writer, &err), MX_OK);
    ck_assert_int_eq(st_writer_declare(writer, "t", ST_U8, 1, shape, &index, &err), MX_OK);
    ck_assert_int_eq(st_writer_begin(writer, &err), MX_OK);
    ck_assert_int_eq(st_writer_write(writer, index, 0, "abcd", 4, &err), MX_OK);
    ck_assert_uint_eq(get_bytes(&bytes), 3);
    free(bytes);
    st_writer_destroy(writer);
    ck_assert_uint_eq(get_bytes(&bytes), 3);
    free(bytes);
    /* Through a link: the link stays, what it points to is new. */
    char link_path[160];
    struct stat st;
    snprintf(link_path, sizeof(link_path), "%s/link", folder);
    ck_assert_int_eq(symlink(file, link_path), 0);
    ck_assert_int_eq(st_writer_create(link_path, &writer, &err), MX_OK);
    ck_assert_int_eq(st_writer_begin(writer, &err), MX_OK);
    ck_assert_int_eq(st_writer_commit(writer, &err), MX_OK);
    st_writer_destroy(writer);
    ck_assert_int_eq(lstat(link_path, &st), 0);
    ck_assert(S_ISLNK(st.st_mode));
    ck_assert_int_eq(unlink(link_path), 0);
    st_reader *reader = NULL;
    ck_assert_int_eq(st_reader_open(file, &reader, &err), MX_OK);
    st_reader_close(reader);
}
END_TEST

/* A limit on file sizes stands for a full disk: the kernel refuses in the same places. */
START_TEST(refused_writes)
{
    static const int64_t shape[] = {1000000};
    struct rlimit before, limit;
    st_writer *writer = NULL;
    size_t index;
    mx_error err;
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 4096;
    ck_assert_int_eq(st_writer_create(file, &writer, &err), MX_OK);
    ck_assert_int_eq(st_writer_declare(writer, "t", ST_U8, 1, shape, &index, &err), MX_OK);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    mx_status status = st_writer_begin(writer, &err);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    ck_assert_int_eq(status, MX_ERR_IO);
    ck_assert_ptr_nonnull(strstr(err.message, file));
    st_writer_destroy(writer);
    ck_assert_int_ne(access(file, F_OK), 0);
}
END_TEST

/* Files without names go with the process, even when it has no time to remove anything. */
START_TEST(signals_clean_up)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGKILL};
    only_named = _i;
    size_t n = only_named || !has_unnamed_files() ? 3 : 4;
    for (size_t i = 0; i < n; i++) {
        int status = 0;
        pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0) {
            st_writer *writer = NULL;
            /* Whoever started the tests may have them ignored, which is inherited. */
            signal(numbers[i], SIG_DFL);
            st_writer_clean_on_signals();
            if (st_writer_create(file, &writer, NULL) != MX_OK ||
                st_writer_begin(writer, NULL) != MX_OK)
                _exit(3);
            raise(numbers[i]);
            _exit(4);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == numbers[i]);
    }
}
END_TEST

START_TEST(printable)
{
    char out[ST_PRINTABLE_BYTES], longer[1000];
    ck_assert_str_eq(st_printable("a\x1b[2J\n\x7f", out), "a\\x1b[2J\\x0a\\x7f");
    memset(longer, 1, sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = 0;
    ck_assert_uint_lt(strlen(st_printable(longer, out)), ST_PRINTABLE_BYTES);
    memset(longer, 'x', sizeof(longer) - 1);
    ck_assert_uint_lt(strlen(st_printable(longer, out)), ST_PRINTABLE_BYTES);
    ck_assert_ptr_nonnull(strstr(out, "..."));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("safetensors");
    TCase *tcase = tcase_create("files");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, round_trip);
    tcase_add_test(tcase, accepts);
    tcase_add_test(tcase, refuses);
    tcase_add_test(tcase, deep_nesting);
    tcase_add_test(tcase, header_length);
    tcase_add_test(tcase, every_truncation);
    tcase_add_test(tcase, every_flip);
    tcase_add_test(tcase, not_files);
    tcase_add_test(tcase, writer_refuses);
    tcase_add_loop_test(tcase, replaces_atomically, 0, 2);
    tcase_add_test(tcase, refused_writes);
    tcase_add_loop_test(tcase, signals_clean_up, 0, 2);
    tcase_add_test(tcase, printable);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
