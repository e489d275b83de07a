/* Measurements of products: their keys, what they decide, and who is asked first. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli_run.h"
#include "gemm_pack.h"
#include "gemm_request.h"

static char *folder, *path;

static void set_up(void)
{
    folder = cli_temp_create();
    path = cli_temp_path(folder, "t.mxtune");
    setenv("MXRT_TUNE_FILE", path, 1);
    request_set_up();
}

static void tear_down(void)
{
    request_tear_down();
    setenv("MXRT_TUNE_FILE", "", 1);
    cli_temp_destroy(folder);
    free(path);
}

/* ---- A chip without hardware ---- */

#define LARGE_WORKSPACE ",\"workspace_bytes\":\"(m + groups * n) * k\",\"before\":[\"b\"]"
#define FEW_ROWS "[{\"rule\":\"few rows\",\"when\":\"m <= 32 * groups\"}]"

static const gemm_row chip_rows[] = {
    {"gemm_step", "b", "b", NULL, NULL, BEFORE, 0, NULL, "bbbb"},
    {"gemm_rows", "prepared", "p", NULL, NULL, MAIN(LARGE_WORKSPACE), 0, TILE(128, 192), "pppp"},
    {"gemm_rows", "large", "l", "exact", NULL, MAIN(""), 0, TILE(128, 128), "llll"},
    {"gemm_rows", "small", "s", "exact", FEW_ROWS, MAIN(""), 1, TILE(16, 128), "ssss"},
};

static void open_chip(const gemm_row *rows)
{
    gemm_pack_add("sm_90a", rows, 4);
    request_open_device("plan:sm_90a");
}

static mxrt_gemm_request *shaped(int64_t groups, int64_t m, int64_t n, int64_t k)
{
    request_without_memory(&the, kDLCUDA, groups, m, n, k);
    return &the.request;
}

static mxrt_tune_row key_of(const mxrt_gemm_request *request, const char *variant)
{
    mxrt_tune_row row;
    mx_status status = mxrt_gemm_tune_key(device, request, variant, &row, &err);
    ck_assert_msg(!status, "%s", err.message);
    row.samples = 5;
    row.time_s = 1;
    strcpy(row.shape, "as the test wants");
    return row;
}

static void put(const mxrt_tune_row *row)
{
    mxrt_tune_file *file = NULL;
    ck_assert_msg(!mxrt_tune_open(path, 1, &file, &err), "%s", err.message);
    ck_assert_msg(!mxrt_tune_put(file, row, 0, NULL, &err), "%s", err.message);
    mxrt_tune_close(file);
}

/* As if `mxrt tune` had found this time. */
static void measured(const mxrt_gemm_request *request, const char *variant, double ms)
{
    mxrt_tune_row row = key_of(request, variant);
    row.ms = ms;
    put(&row);
}

static mxrt_choice explained(mxrt_gemm_request *request, mxrt_policy policy)
{
    mxrt_choice choice = {.variant = NULL};
    request->policy = policy;
    mx_status status = mxrt_gemm_explain(device, request, &choice, &err);
    ck_assert_msg(!status, "%s", err.message);
    return choice;
}

/* Rows that ship with somebody's files must be found by later versions. */
START_TEST(stable_keys)
{
    open_chip(chip_rows);
    mxrt_tune_row row = key_of(shaped(8, 16384, 4096, 7168), "prepared");
    ck_assert_str_eq(row.op, "gemm_rows");
    ck_assert_str_eq(row.format, "mxfp8e4m3.mxfp8e4m3");
    ck_assert_str_eq(row.dtype, "f32");
    ck_assert_str_eq(row.profile, "fast");
    ck_assert_str_eq(row.bucket, "g3 m11 n12 k12 a16 t0 c0 u132");
    ck_assert_str_eq(row.layout, "tiles");
    ck_assert_int_eq(row.protocol, MXTUNE_PROTOCOL);
    /* Of both kernels. */
    ck_assert_str_eq(row.code, "67b91efbdeed2f7a");
    ck_assert_str_eq(key_of(&the.request, "large").code, "llll");
    mxrt_gemm_request *request = shaped(16, 136, 2880, 2880);
    request->mode = MX_GEMM_EXACT;
    request->accumulate = 1;
    request->num_cu = 7;
    request->right_scales_transposed = 1;
    request_set(&the.right_scales, u8, NULL, 3, 16, 90, 2880);
    the.right_scales.dl.device.device_type = kDLCUDA;
    row = key_of(request, "small");
    ck_assert_str_eq(row.profile, "exact");
    ck_assert_str_eq(row.bucket, "g4 m3 n11 k11 a16 t2 c1 u7");
    /* Rows that are not aligned. */
    request = shaped(1, 64, 6, 96);
    the.out.strides[0] = 7;
    ck_assert_str_eq(key_of(request, "small").bucket, "g0 m6 n2 k6 a4 t0 c0 u132");
    ck_assert_int_eq(mxrt_gemm_tune_key(device, request, "none", &row, &err), MX_ERR_NOT_FOUND);
    ck_assert_int_eq(mxrt_gemm_tune_key(device, request, NULL, &row, &err), MX_ERR_INVALID);
    ck_assert_int_eq(mxrt_gemm_explain(device, request, NULL, &err), MX_ERR_INVALID);
}
END_TEST

/* This bucket, the nearest one, the model, in that order. */
START_TEST(measurements_decide)
{
    open_chip(chip_rows);
    mxrt_choice choice = explained(shaped(8, 16384, 4096, 7168), MXRT_POLICY_TUNED);
    ck_assert_int_eq(choice.source, MXRT_SOURCE_MODEL);
    ck_assert_str_eq(choice.variant, "prepared");
    ck_assert_str_eq(choice.runner_up, "large");
    ck_assert_double_gt(choice.runner_up_score, choice.score);
    ck_assert_uint_eq(choice.n_applicable, 2);
    ck_assert_str_eq(choice.from_bucket, "");
    measured(&the.request, "prepared", 0.9);
    measured(&the.request, "large", 0.8);
    open_chip(chip_rows);
    choice = explained(shaped(8, 20000, 4096, 7168), MXRT_POLICY_TUNED);
    ck_assert_int_eq(choice.source, MXRT_SOURCE_EXACT);
    ck_assert_str_eq(choice.variant, "large");
    ck_assert_double_eq(choice.measured_ms, 0.8);
    ck_assert_str_eq(choice.runner_up, "prepared");
    ck_assert_double_eq(choice.runner_up_ms, 0.9);
    ck_assert_str_eq(choice.from_bucket, "g3 m11 n12 k12 a16 t0 c0 u132");
    ck_assert_str_eq(explained(&the.request, MXRT_POLICY_MODEL).variant, "prepared");
    mxrt_gemm_plan *plan;
    mxrt_gemm_info info;
    the.request.policy = MXRT_POLICY_CACHED;
    ck_assert_int_eq(mxrt_gemm_plan_create(device, &the.request, &plan, &err), MX_OK);
    ck_assert_int_eq(mxrt_gemm_get_info(plan, &info, &err), MX_OK);
    ck_assert_str_eq(info.variant, "large");
    mxrt_gemm_plan_destroy(plan);
    /* Three steps away, then four. */
    choice = explained(shaped(16, 16384, 8192, 7168), MXRT_POLICY_TUNED);
    ck_assert_int_eq(choice.source, MXRT_SOURCE_NEAREST);
    ck_assert_str_eq(choice.variant, "large");
    ck_assert_str_eq(choice.bucket, "g4 m10 n13 k12 a16 t0 c0 u132");
    choice = explained(shaped(16, 16384, 16384, 7168), MXRT_POLICY_TUNED);
    ck_assert_int_eq(choice.source, MXRT_SOURCE_MODEL);
    ck_assert_int_eq(mxrt_gemm_explain(device, shaped(16, 16384, 16384, 7168), &choice, &err),
                     MX_OK);
    the.request.policy = MXRT_POLICY_CACHED;
    ck_assert_int_eq(mxrt_gemm_explain(device, &the.request, &choice, &err), MX_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.message, "mxrt tune --op grouped_gemm"));
}
END_TEST

/* What differs in anything but size says nothing; nor does a kernel that has changed. */
START_TEST(other_keys_do_not)
{
    open_chip(chip_rows);
    mxrt_gemm_request *request = shaped(8, 16384, 4096, 7168);
    measured(request, "large", 0.8);
    gemm_row changed[4];
    memcpy(changed, chip_rows, sizeof(changed));
    open_chip(chip_rows);
    request->mode = MX_GEMM_EXACT;
    ck_assert_int_eq(explained(request, MXRT_POLICY_TUNED).source, MXRT_SOURCE_MODEL);
    request->mode = MX_GEMM_FAST;
    ck_assert_int_eq(explained(request, MXRT_POLICY_TUNED).source, MXRT_SOURCE_EXACT);
    request->accumulate = 1;
    ck_assert_int_eq(explained(request, MXRT_POLICY_TUNED).source, MXRT_SOURCE_MODEL);
    request->accumulate = 0;
    request->num_cu = 64;
    ck_assert_int_eq(explained(request, MXRT_POLICY_TUNED).source, MXRT_SOURCE_MODEL);
    /* A step of a route is a part of it. */
    measured(shaped(8, 16384, 4096, 7168), "prepared", 0.7);
    open_chip(chip_rows);
    ck_assert_str_eq(explained(request, MXRT_POLICY_TUNED).variant, "prepared");
    changed[0].code = "cccc";
    open_chip(changed);
    mxrt_choice choice = explained(request, MXRT_POLICY_TUNED);
    ck_assert_int_eq(choice.source, MXRT_SOURCE_EXACT);
    ck_assert_str_eq(choice.variant, "large");
}
END_TEST

/* One that was measured fastest but does not apply here. */
START_TEST(rules_come_first)
{
    open_chip(chip_rows);
    mxrt_gemm_request *request = shaped(16, 400, 2880, 2880);
    measured(request, "small", 0.1);
    measured(request, "large", 0.3);
    open_chip(chip_rows);
    ck_assert_str_eq(explained(request, MXRT_POLICY_CACHED).variant, "small");
    request = shaped(16, 32 * 16 + 1, 2880, 2880);
    mxrt_choice choice = explained(request, MXRT_POLICY_CACHED);
    ck_assert_str_eq(choice.variant, "large");
    ck_assert_int_eq(choice.source, MXRT_SOURCE_NEAREST);
    ck_assert_ptr_null(choice.runner_up);
}
END_TEST

START_TEST(nothing_to_choose)
{
    open_chip(chip_rows);
    mxrt_gemm_request *request = shaped(8, 16384, 4096, 7168);
    request->variant = "large";
    mxrt_choice choice = explained(request, MXRT_POLICY_TUNED);
    ck_assert_int_eq(choice.source, MXRT_SOURCE_NAMED);
    ck_assert_str_eq(choice.variant, "large");
    ck_assert_str_eq(explained(shaped(8, 0, 4096, 7168), MXRT_POLICY_TUNED).variant, "none");
    request_open_device("host?threads=1");
    request_make(&the, MX_GEMM_ROWS);
    ck_assert_str_eq(explained(&the.request, MXRT_POLICY_TUNED).variant, "reference");
}
END_TEST

/* ---- Measuring now ---- */

static int n_lines;
static char lines[8][512];

static void note_line(void *user, const char *line)
{
    (void)user;
    if (n_lines < 8)
        snprintf(lines[n_lines++], sizeof(lines[0]), "%s", line);
}

static int is_logged(const char *part)
{
    for (int i = 0; i < n_lines; i++) {
        if (strstr(lines[i], part))
            return 1;
    }
    return 0;
}

/* The first in preference is slow, the fastest wrong; the one between has a step and a workspace.
 */
static const gemm_row host_rows[] = {
    {"gemm_rows", "slow", "mxtest_whole", "exact", NULL, WHOLE("40"), 0, NULL, "1111"},
    {"gemm_rows", "wrong", "mxtest_after", "exact", NULL, AFTER("7"), 1, TILE(1024, 1024), "2222"},
    {"gemm_rows", "staged", "mxtest_main", "exact", NULL, ROUTE(""), 2, TILE(1024, 1024), "3333"},
    {"gemm_step", "b", "mxtest_before", NULL, NULL, BEFORE, 0, NULL, "4444"},
};

static mxrt_gemm_request *open_host(size_t n_rows)
{
    const mxrt_context_options options = {.log = note_line};
    mxrt_device_close(device);
    mxrt_context_destroy(context);
    device = NULL;
    n_lines = 0;
    ck_assert_int_eq(mxrt_context_create(&options, &context, &err), MX_OK);
    gemm_pack_add(TARGET, host_rows, n_rows);
    request_open_device("host?threads=1");
    request_make(&the, MX_GEMM_ROWS);
    the.request.right_element = MX_GEMM_MXFP8_E4M3;
    memset(the.right_data, 0x38, sizeof(the.right_data));
    request_set(&the.right, u8, the.right_data, 3, G, N, K);
    return &the.request;
}

static mx_status count_row(void *user, const mxrt_tune_row *row, mx_error *why)
{
    (void)why;
    ck_assert_int_eq(row->protocol, MXTUNE_PROTOCOL_NOW);
    ck_assert_str_eq(row->bucket, "g1 m2 n2 k6 a8 t0 c0 u1");
    ++*(int *)user;
    return MX_OK;
}

static int count_rows(void)
{
    mxrt_tune_file *file = NULL;
    int n = 0;
    ck_assert_msg(!mxrt_tune_open(path, 0, &file, &err), "%s", err.message);
    ck_assert_int_eq(mxrt_tune_each(file, NULL, count_row, &n, NULL, &err), MX_OK);
    mxrt_tune_close(file);
    return n;
}

START_TEST(measured_now)
{
    mxrt_gemm_plan *plan;
    mxrt_gemm_info info;
    mxrt_choice choice;
    mxrt_gemm_request *request = open_host(4);

    request->policy = MXRT_POLICY_MEASURE;
    ck_assert_int_eq(mxrt_gemm_explain(device, request, &choice, &err), MX_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "budget"));
    /* Too little time: the model's, and the log says so. */
    request->budget_us = 1;
    choice = explained(request, MXRT_POLICY_MEASURE);
    ck_assert_int_eq(choice.source, MXRT_SOURCE_MODEL);
    ck_assert_str_eq(choice.variant, "slow");
    ck_assert(is_logged("not enough for a problem"));
    ck_assert_int_ne(access(path, F_OK), 0);
    request->budget_us = 5e6; /* 16 rounds end long before, but on a machine with other work */
    choice = explained(request, MXRT_POLICY_MEASURE);
    ck_assert_int_eq(choice.source, MXRT_SOURCE_EXACT);
    ck_assert_str_eq(choice.variant, "staged");
    ck_assert_str_eq(choice.runner_up, "slow");
    ck_assert_double_lt(choice.measured_ms, choice.runner_up_ms);
    ck_assert(is_logged("wrong is not used: it computes other values than slow"));
    ck_assert(request_untouched(&the));
    ck_assert_int_eq(count_rows(), 2);
    /* It decides from then on, here and in the next process, and runs. */
    ck_assert_str_eq(explained(request, MXRT_POLICY_TUNED).variant, "staged");
    request = open_host(4);
    request->budget_us = 1;
    request->policy = MXRT_POLICY_MEASURE;
    ck_assert_int_eq(mxrt_gemm_plan_create(device, request, &plan, &err), MX_OK);
    ck_assert_int_eq(mxrt_gemm_get_info(plan, &info, &err), MX_OK);
    ck_assert_str_eq(info.variant, "staged");
    mxrt_gemm_plan_destroy(plan);
    /* Another mode is another key; and of one kernel there is nothing to choose. */
    request->mode = MX_GEMM_EXACT;
    ck_assert_int_eq(explained(request, MXRT_POLICY_TUNED).source, MXRT_SOURCE_MODEL);
    setenv("MXRT_TUNE_FILE", "", 1);
    request = open_host(1);
    request->budget_us = 5e6; /* 16 rounds end long before, but on a machine with other work */
    ck_assert_int_eq(explained(request, MXRT_POLICY_MEASURE).source, MXRT_SOURCE_MODEL);
}
END_TEST

/* Nothing runs where there is no hardware. */
START_TEST(not_measured)
{
    open_chip(chip_rows);
    mxrt_gemm_request *request = shaped(8, 16384, 4096, 7168);
    request->budget_us = 1e6;
    ck_assert_int_eq(explained(request, MXRT_POLICY_MEASURE).source, MXRT_SOURCE_MODEL);
    ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name)
{
    TCase *tests = tcase_create(name);

    tcase_add_checked_fixture(tests, set_up, tear_down);
    suite_add_tcase(suite, tests);
    return tests;
}

int main(void)
{
    Suite *suite = suite_create("gemm_tune");
    TCase *files = add_case(suite, "files");

    tcase_add_test(files, stable_keys);
    tcase_add_test(files, measurements_decide);
    tcase_add_test(files, other_keys_do_not);
    tcase_add_test(files, rules_come_first);
    tcase_add_test(files, nothing_to_choose);
    TCase *now = add_case(suite, "now");
    tcase_add_test(now, measured_now);
    tcase_add_test(now, not_measured);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
