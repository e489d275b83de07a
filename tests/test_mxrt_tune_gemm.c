/* mxrt tune --op grouped_gemm: variants that compute wrong values, hang or fault are named and left
 * out, the rest is measured, kept, listed by mxrt cache, and decides.
 *
 *   MXRT                    the program
 *   MX_TEST_GEMM_KERNELS    kernels of the host */
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_run.h"
#include "gemm_pack.h"
#include "gemm_request.h"

static char *folder, *pack, *file, *lines, *page;

static void set_up(void)
{
    folder = cli_temp_create();
    pack = cli_temp_path(folder, "kernels.mxdb");
    file = cli_temp_path(folder, "t.mxtune");
    lines = cli_temp_path(folder, "found.json");
    page = cli_temp_path(folder, "found.html");
}

static void tear_down(void)
{
    cli_temp_destroy(folder);
    free(pack);
    free(file);
    free(lines);
    free(page);
}

#define FEW "[{\"rule\":\"few columns\",\"when\":\"n <= 32\"}]"

/* The first in preference is slow, so that the model is wrong. */
static const gemm_row rows[] = {
    {"gemm_rows", "slow", "mxtest_whole", "exact", NULL, WHOLE("12"), 0, NULL, "1111"},
    {"gemm_rows", "good", "mxtest_whole", "exact", NULL, WHOLE("1"), 1, NULL, "2222"},
    {"gemm_rows", "wrong", "mxtest_whole", "exact", FEW, WHOLE("0"), 2, NULL, "3333"},
    {"gemm_rows", "hangs", "mxtest_hangs", "exact", FEW, WHOLE("1"), 3, NULL, "4444"},
    {"gemm_rows", "faults", "mxtest_faults", "exact", FEW, WHOLE("1"), 4, NULL, "5555"},
    {"gemm_rows", "partial", "mxtest_partial", "exact", FEW, WHOLE("1"), 5, NULL, "6666"},
};

static void write_pack(size_t first)
{
    pack_bytes bytes = gemm_pack_make(TARGET, rows + first, sizeof(rows) / sizeof(rows[0]) - first);

    pack_write_file(pack, bytes);
    free(bytes.data);
}

/* Two shapes: what is bad applies to the first only. */
static void tune(cli_run *run, const char *shape, const char *more, const char *and_more)
{
    const char *argv[] = {getenv("MXRT"),
                          "tune",
                          "--device",
                          "host?threads=1",
                          "--pack",
                          pack,
                          "--op",
                          "grouped_gemm",
                          "--format",
                          "mxfp8e4m3.mxfp8e4m3",
                          "--dtype",
                          "f32",
                          "--shape",
                          shape,
                          "--seconds",
                          "0.01",
                          "--limit",
                          "1",
                          "--compiler",
                          "off",
                          "--file",
                          file,
                          more,
                          and_more,
                          NULL};
    cli_run_start(run, argv);
}

/* The samples of a variant in the file of JSON lines, -1 without it; its line, to be released. */
static json_t *look_up(const char *variant, const char *shape)
{
    size_t bytes;
    json_t *found = NULL;
    char *text = cli_temp_read(lines, &bytes), *rest = text;

    for (char *line; (line = strsep(&rest, "\n")) && *line;) {
        json_t *row = json_loads(line, 0, NULL);
        ck_assert_ptr_nonnull(row);
        if (!found && !strcmp(json_string_value(json_object_get(row, "variant")), variant) &&
            !strcmp(json_string_value(json_object_get(row, "shape")), shape))
            found = row;
        else
            json_decref(row);
    }
    free(text);
    return found;
}

static void assert_refused(const cli_run *run, const char *variant, const char *why)
{
    char named[64];
    json_t *row = look_up(variant, "3x1-9x32x64");

    ck_assert_ptr_nonnull(row);
    const char *note = json_string_value(json_object_get(row, "note"));
    ck_assert_int_eq(json_integer_value(json_object_get(row, "samples")), 0);
    ck_assert_msg(strstr(note, why) != NULL, "%s: %s", variant, note);
    snprintf(named, sizeof(named), "mxrt: %s is not used: ", variant);
    ck_assert_msg(strstr(run->err, named) != NULL, "%s", run->err);
    ck_assert_ptr_null(look_up(variant, "2x5x64x32"));
    json_decref(row);
}

static void assert_measured(const char *variant, const char *shape, int is_model)
{
    json_t *row = look_up(variant, shape);

    ck_assert_ptr_nonnull(row);
    ck_assert_str_eq(json_string_value(json_object_get(row, "op")), "grouped_gemm");
    ck_assert_str_eq(json_string_value(json_object_get(row, "pass")), "fprop");
    ck_assert_str_eq(json_string_value(json_object_get(row, "mode")), "fast");
    ck_assert_str_eq(json_string_value(json_object_get(row, "format")), "mxfp8e4m3.mxfp8e4m3");
    ck_assert_int_ge(json_integer_value(json_object_get(row, "samples")), 3);
    ck_assert_double_gt(json_real_value(json_object_get(row, "tflops")), 0);
    ck_assert_int_eq(json_is_true(json_object_get(row, "model")), is_model);
    json_decref(row);
}

static void assert_listed(void)
{
    const char *argv[] = {getenv("MXRT"), "cache", "list", "--op", "gemm_rows",
                          "--variant",    "good",  file,   NULL};
    cli_run run;

    cli_run_start(&run, argv);
    ck_assert_msg(run.exit_code == 0, "%s", run.err);
    ck_assert_ptr_nonnull(strstr(run.out, "mxfp8e4m3.mxfp8e4m3"));
    ck_assert_ptr_nonnull(strstr(run.out, "g1 m2 n5 k6 a16 t0 c0 u1"));
    ck_assert_ptr_nonnull(strstr(run.out, "g1 m2 n6 k5 a16 t0 c0 u1"));
    ck_assert_ptr_null(strstr(run.out, "slow"));
    cli_run_finish(&run);
}

/* The library takes what was measured fastest. */
static void assert_decides(void)
{
    mxrt_choice choice;

    setenv("MXRT_TUNE_FILE", file, 1);
    request_set_up();
    ck_assert_int_eq(mxrt_context_add_pack_file(context, pack, &err), MX_OK);
    request_open_device("host?threads=1");
    request_make(&the, MX_GEMM_ROWS);
    the.request.right_element = MX_GEMM_MXFP8_E4M3;
    the.request.policy = MXRT_POLICY_CACHED;
    request_set(&the.right, u8, the.right_data, 3, G, 32, 32);
    request_set(&the.right_scales, u8, the.right_scales_data, 3, G, 32, 1);
    request_set(&the.left, u8, the.left_data, 2, M, 32, 0);
    request_set(&the.left_scales, u8, the.left_scales_data, 2, M, 1, 0);
    request_set(&the.out, f32, the.out_data, 2, M, 32, 0);
    ck_assert_msg(!mxrt_gemm_explain(device, &the.request, &choice, &err), "%s", err.message);
    ck_assert_str_eq(choice.variant, "good");
    ck_assert_int_eq(choice.source, MXRT_SOURCE_NEAREST);
    ck_assert_str_eq(choice.runner_up, "slow");
    request_tear_down();
    setenv("MXRT_TUNE_FILE", "", 1);
}

START_TEST(bad_kernels)
{
    char json[600], html[600];
    size_t bytes;
    cli_run run;

    write_pack(0);
    snprintf(json, sizeof(json), "--json=%s", lines);
    snprintf(html, sizeof(html), "--html=%s", page);
    tune(&run, "3x1-9x32x64,2x5x64x32", json, html);
    ck_assert_msg(run.exit_code == 0, "%d: %s", run.exit_code, run.err);
    ck_assert_ptr_nonnull(strstr(run.out, "TFLOP/s"));
    ck_assert_ptr_nonnull(strstr(run.out, "3x1-9x32x64"));
    assert_refused(&run, "wrong", "wrong values: error 0.01 of sampled rows");
    assert_refused(&run, "partial", "wrong values: row 7 of the output");
    assert_refused(&run, "faults", "crashed (");
    assert_refused(&run, "hangs", "no answer in 1 s");
    assert_measured("slow", "3x1-9x32x64", 1);
    assert_measured("good", "3x1-9x32x64", 0);
    assert_measured("good", "2x5x64x32", 0);
    cli_run_finish(&run);
    char *text = cli_temp_read(page, &bytes);
    ck_assert_ptr_nonnull(strstr(text, "fprop mxfp8e4m3.mxfp8e4m3 f32, 2x5x64x32, fast"));
    free(text);
    assert_listed();
    assert_decides();
    /* All is known by now, what is refused and why as well. */
    tune(&run, "3x1-9x32x64,2x5x64x32", "--quiet", json);
    ck_assert_msg(run.exit_code == 0, "%d: %s", run.exit_code, run.err);
    assert_refused(&run, "hangs", "no answer in 1 s");
    assert_measured("good", "3x1-9x32x64", 0);
    cli_run_finish(&run);
}
END_TEST

/* What comes first is not trusted for that alone. */
START_TEST(none_is_right)
{
    char json[600];
    cli_run run;

    write_pack(5);
    snprintf(json, sizeof(json), "--json=%s", lines);
    tune(&run, "3x1-9x32x64", "--quiet", json);
    ck_assert_int_eq(run.exit_code, 1);
    ck_assert_ptr_nonnull(strstr(run.err, "nothing was measured"));
    assert_refused(&run, "partial", "wrong values: the output has NaN, or is not all written");
    cli_run_finish(&run);
}
END_TEST

START_TEST(what_cannot_be)
{
    cli_run run;

    write_pack(0);
    tune(&run, "3x1-9x32", "--quiet", NULL);
    ck_assert_int_eq(run.exit_code, 2);
    cli_run_finish(&run);
    tune(&run, "2x5x64x32", "--shapes", "model.safetensors");
    ck_assert_int_eq(run.exit_code, 2);
    ck_assert_ptr_nonnull(strstr(run.err, "does not tell the products"));
    cli_run_finish(&run);
    tune(&run, "2x5x64x32", "--quiet", "--pass=wgrad");
    ck_assert_int_eq(run.exit_code, 1);
    ck_assert_ptr_nonnull(strstr(run.err, "no kernel applies"));
    cli_run_finish(&run);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mxrt_tune_gemm");
    TCase *tests = tcase_create("tune");

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, bad_kernels);
    tcase_add_test(tests, none_is_right);
    tcase_add_test(tests, what_cannot_be);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
