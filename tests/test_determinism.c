/* Two builds of one selection give equal packs, whatever the number of threads. */
#include <check.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/pack.h>

#include "gen/gen.h"

typedef struct built {
    void *data;
    size_t size_bytes;
    sqlite3 *db;
} built;

static void build(const mxgen_build_options *options, built *out)
{
    mx_error error = {MX_OK, ""};
    mx_status status = mxgen_build_pack_memory(options, &out->data, &out->size_bytes, NULL, &error);
    ck_assert_msg(status == MX_OK, "%s", error.message);
    ck_assert_int_eq(sqlite3_open(":memory:", &out->db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_deserialize(out->db, "main", out->data, (sqlite3_int64)out->size_bytes,
                                         (sqlite3_int64)out->size_bytes,
                                         SQLITE_DESERIALIZE_READONLY),
                     SQLITE_OK);
}

static void finish(built *pack)
{
    sqlite3_close(pack->db);
    free(pack->data);
}

static sqlite3_stmt *query(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    ck_assert_msg(sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK, "%s: %s", sql,
                  sqlite3_errmsg(db));
    return statement;
}

/* Every column of every row, as bytes; returns the number of rows. */
static int compare_rows(const built *a, const built *b, const char *sql)
{
    sqlite3_stmt *left = query(a->db, sql), *right = query(b->db, sql);
    int rows = 0, more;
    while ((more = sqlite3_step(left)) == SQLITE_ROW) {
        ck_assert_msg(sqlite3_step(right) == SQLITE_ROW, "%s: row %d is missing", sql, rows);
        ck_assert_int_eq(sqlite3_column_count(left), sqlite3_column_count(right));
        for (int i = 0; i < sqlite3_column_count(left); i++) {
            int bytes = sqlite3_column_bytes(left, i);
            ck_assert_int_eq(sqlite3_column_type(left, i), sqlite3_column_type(right, i));
            ck_assert_msg(bytes == sqlite3_column_bytes(right, i) &&
                              (bytes == 0 || !memcmp(sqlite3_column_blob(left, i),
                                                     sqlite3_column_blob(right, i), (size_t)bytes)),
                          "%s: row %d differs in %s", sql, rows, sqlite3_column_name(left, i));
        }
        rows++;
    }
    ck_assert_int_eq(more, SQLITE_DONE);
    ck_assert_int_eq(sqlite3_step(right), SQLITE_DONE);
    sqlite3_finalize(left);
    sqlite3_finalize(right);
    return rows;
}

static void compare(const mxgen_build_options *first, const mxgen_build_options *second)
{
    built a, b;
    build(first, &a);
    build(second, &b);
    ck_assert_int_gt(compare_rows(&a, &b, "SELECT * FROM sqlite_master ORDER BY name"), 0);
    ck_assert_int_gt(compare_rows(&a, &b, "SELECT * FROM meta ORDER BY key"), 3);
    ck_assert_int_gt(compare_rows(&a, &b, "SELECT * FROM object ORDER BY id"), 0);
    ck_assert_int_gt(compare_rows(&a, &b, "SELECT * FROM variant ORDER BY id"), 0);
    ck_assert_uint_eq(a.size_bytes, b.size_bytes);
    ck_assert_msg(!memcmp(a.data, b.data, a.size_bytes), "the files differ outside of their rows");
    finish(&a);
    finish(&b);
}

static const mx_op ops[] = {MX_OP_TO, MX_OP_FROM, MX_OP_QDQ};
static const mx_format formats[] = {MX_FORMAT_MX6};
static const mx_dtype dtypes[] = {MX_DTYPE_BF16};

START_TEST(equal_builds)
{
    static const char *const names[] = {"gfx942", "gfx1100", "sm_90a", "host-x86-64-v3"};
    const mxgen_target *target = mxgen_target_find(names[_i]);
    mxgen_build_options options = {.targets = &target,
                                   .n_targets = 1,
                                   .filter = {ops, 3, formats, 1, dtypes, 1, NULL, 0, 2},
                                   .n_threads = 1};
    mxgen_build_options threaded = options;
    ck_assert_ptr_nonnull(target);
    threaded.n_threads = 4;
    compare(&options, &threaded);
}
END_TEST

/* Objects of several targets keep the order of the request. */
START_TEST(equal_builds_of_several)
{
    const mxgen_target *targets[] = {mxgen_target_find("gfx950"), mxgen_target_find("gfx90a"),
                                     mxgen_target_find("host-x86-64-v3")};
    mxgen_build_options options = {.targets = targets,
                                   .n_targets = 3,
                                   .filter = {ops, 1, formats, 1, dtypes, 1, NULL, 0, 3},
                                   .n_threads = 3};
    compare(&options, &options);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("determinism");
    TCase *tcase = tcase_create("packs");
    tcase_set_timeout(tcase, 600);
    tcase_add_loop_test(tcase, equal_builds, 0, 4);
    tcase_add_test(tcase, equal_builds_of_several);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? 1 : 0;
}
