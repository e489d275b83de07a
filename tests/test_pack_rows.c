/* Rows of packs that are not of block operations: grouped GEMM's, and those of later versions. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pack_build.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof((array)[0])))

/* Frees the bytes. */
static void expect_bytes_fail(pack_bytes bytes, const char *part)
{
    mxrt_pack *pack = NULL;
    mx_error err = {MX_OK, ""};

    ck_assert_int_eq(mxrt_pack_open_memory(bytes.data, bytes.size_bytes, &pack, &err),
                     MX_ERR_CORRUPT);
    ck_assert_msg(strstr(err.message, part) != NULL, "\"%s\" lacks \"%s\"", err.message, part);
    free(bytes.data);
}

/* Rows of later versions are passed over, whatever their launch says; their checksums count. */
static const char *const later_rows[] = {
    "UPDATE variant SET op='frob' WHERE id=4",
    "UPDATE variant SET op='frob', launch='{\"cluster\": 3}', rules='{}' WHERE id=4",
    "UPDATE variant SET format='mx5' WHERE id=4",
    "UPDATE variant SET dtype='f64' WHERE id=4",
    "UPDATE variant SET profile='alto' WHERE id=4",
    "UPDATE variant SET layout='round' WHERE id=4",
    "UPDATE variant SET op='gemm_rows', format='mxfp4' WHERE id=4",
    "UPDATE variant SET op='gemm_rows', format='mxfp4.mxfp5', profile='fast' WHERE id=4",
    "UPDATE variant SET op='gemm_rows', format='mxfp4.bf16', profile='packed' WHERE id=4",
    "UPDATE variant SET op='gemm_all', format='mxfp4.bf16', profile='fast' WHERE id=4",
};

START_TEST(test_later_rows)
{
    mxrt_pack *pack = NULL;
    mx_error err = {0};
    pack_bytes bytes = pack_doctor(pack_sample(), later_rows[_i], 1);
    ck_assert_msg(!mxrt_pack_open_memory(bytes.data, bytes.size_bytes, &pack, &err), "%s",
                  err.message);
    ck_assert_uint_eq(mxrt_pack_variant_count(pack), 53);
    for (size_t i = 0; i < 53; i++) {
        mxrt_variant_info info;
        ck_assert_int_eq(mxrt_pack_variant(pack, i, &info, &err), MX_OK);
        ck_assert_int_eq(mxrt_pack_key_of(pack, i)->family, MXRT_PACK_BLOCKS);
    }
    mxrt_pack_close(pack);
    free(bytes.data);
    expect_bytes_fail(pack_doctor(pack_sample(), later_rows[_i], 0), "its checksum does not match");
}
END_TEST

/* Rows of grouped GEMM have variables, buffers and members of their own. */
#define ONES "[\"1\",\"1\",\"1\"]"
#define LAUNCH(args) "{\"grid\":" ONES ",\"block\":" ONES ",\"lds_bytes\":\"0\",\"args\":" args "}"
#define ROUTE(more) "{\"grid\":" ONES ",\"block\":" ONES ",\"lds_bytes\":\"0\",\"args\":[]" more "}"

static const struct {
    const char *op, *column, *json;
    const char *part; /* NULL: it is right */
} gemm_json[] = {
    {"gemm_rows", "rules", "[{\"rule\":\"a\",\"when\":\"k % 128 == 0 && groups * num_cu > 0\"}]",
     NULL},
    {"gemm_rows", "rules", "[{\"rule\":\"a\",\"when\":\"len > 1\"}]", "an unknown variable"},
    {"to", "rules", "[{\"rule\":\"a\",\"when\":\"num_cu > 1\"}]", "an unknown variable"},
    {"gemm_cols", "launch",
     LAUNCH("[{\"name\":\"a\",\"kind\":\"pointer\",\"buffer\":\"write_offsets\"}]"), NULL},
    {"gemm_rows", "launch", LAUNCH("[{\"name\":\"a\",\"kind\":\"pointer\",\"buffer\":\"x\"}]"),
     "args[0]: \"buffer\" must be left, left_scales, "},
    {"gemm_rows", "launch", ROUTE(",\"workspace_bytes\":\"m * k\",\"before\":[\"a\"],\"after\":[]"),
     NULL},
    {"gemm_rows", "launch", ROUTE(",\"workspace_bytes\":7"), "\"workspace_bytes\" must be a text"},
    {"gemm_rows", "launch", ROUTE(",\"before\":\"a\""), "\"before\" must be an array of at most 4"},
    {"gemm_rows", "launch", ROUTE(",\"after\":[\"a\",\"b\",\"c\",\"d\",\"e\"]"),
     "\"after\" must be an array of at most 4"},
    {"gemm_rows", "launch", ROUTE(",\"after\":[1]"), "\"after\" must be a text"},
    {"gemm_step", "launch", ROUTE(""), NULL},
    {"gemm_step", "launch", ROUTE(",\"before\":[\"a\"]"), "a step has steps"},
    {"to", "launch", ROUTE(",\"workspace_bytes\":\"1\""), "unknown key \"workspace_bytes\""},
};

START_TEST(test_gemm_json)
{
    mxgen_pack_writer *writer = pack_plain_writer();
    mxgen_pack_variant v = pack_plain_variant("kernel");
    char *sql = NULL;
    mx_error err = {0};
    if (gemm_json[_i].op[0] == 'g') {
        v.op = gemm_json[_i].op;
        v.format = "mxfp4.mxfp8e5m2";
        v.profile = "exact";
        v.rules_json = "[]";
        v.launch_json = ROUTE("");
    }
    ck_assert_msg(!mxgen_pack_writer_variant(writer, &v, &err), "%s", err.message);
    ck_assert_int_gt(
        asprintf(&sql, "UPDATE variant SET %s='%s'", gemm_json[_i].column, gemm_json[_i].json), 0);
    pack_bytes bytes = pack_doctor(pack_take(writer), sql, 1);
    free(sql);
    if (gemm_json[_i].part) {
        expect_bytes_fail(bytes, gemm_json[_i].part);
        return;
    }
    mxrt_pack *pack = NULL;
    ck_assert_msg(!mxrt_pack_open_memory(bytes.data, bytes.size_bytes, &pack, &err), "%s",
                  err.message);
    ck_assert_uint_eq(mxrt_pack_variant_count(pack), 1);
    const mxrt_pack_key *key = mxrt_pack_key_of(pack, 0);
    ck_assert_int_eq(key->family, MXRT_PACK_GEMM);
    ck_assert_int_eq(key->gemm.left, MX_GEMM_MXFP4);
    ck_assert_int_eq(key->gemm.right, MX_GEMM_MXFP8_E5M2);
    ck_assert_int_eq(key->gemm.mode, MX_GEMM_EXACT);
    ck_assert_int_eq(key->gemm.is_step, !strcmp(gemm_json[_i].op, "gemm_step"));
    mxrt_pack_close(pack);
    free(bytes.data);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pack_rows");
    TCase *tests = tcase_create("pack_rows");

    tcase_add_loop_test(tests, test_later_rows, 0, COUNT(later_rows));
    tcase_add_loop_test(tests, test_gemm_json, 0, COUNT(gemm_json));
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
