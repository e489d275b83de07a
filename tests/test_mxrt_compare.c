/* mxrt compare: its figures, what it says of files of different tensors, and packed files against
 * their originals. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mxrt_run.h"

/* The line of a tensor (NULL: of totals) in what compare prints. */
static json_t *compare_line(const char *command, const char *tensor, int exit_code)
{
    cli_run run;
    json_t *found = NULL;
    json_error_t why;
    mxrt(&run, command);
    ck_assert_msg(run.exit_code == exit_code, "mxrt %s: exit %d: %s", command, run.exit_code,
                  run.err);
    char *rest = run.out;
    for (char *line; (line = strsep(&rest, "\n")) && *line;) {
        json_t *json = json_loads(line, JSON_REJECT_DUPLICATES, &why);
        ck_assert_msg(json != NULL, "%s: %s", why.text, line);
        const char *name = json_string_value(json_object_get(json, "tensor"));
        if (tensor ? name && !strcmp(name, tensor) : !name) {
            ck_assert_msg(!found, "two lines of %s", tensor ? tensor : "totals");
            found = json_incref(json);
        }
        json_decref(json);
    }
    ck_assert_msg(found != NULL, "no line of %s: %s", tensor ? tensor : "totals", run.out);
    cli_run_finish(&run);
    return found;
}

static void expect_integer(const json_t *line, const char *key, json_int_t want)
{
    json_int_t got = json_integer_value(json_object_get(line, key));
    ck_assert_msg(got == want, "%s is %lld, not %lld", key, (long long)got, (long long)want);
}

static void expect_text(const json_t *line, const char *key, const char *want)
{
    ck_assert_str_eq(json_string_value(json_object_get(line, key)), want);
}

START_TEST(compare_figures)
{
    float a[4] = {3, 4, 0, -8}, b[4] = {3, 4.5f, 0, -7};
    const piece left = {"t", ST_F32, 2, {2, 2}, a}, right = {"t", ST_F32, 2, {2, 2}, b};
    write_pieces("a", &left, 1, NULL, NULL);
    write_pieces("b", &right, 1, NULL, NULL);
    json_t *line = compare_line("compare @a @b --json", "t", 3);
    uint32_t bits = 0, x, y;
    for (int i = 0; i < 4; i++) {
        memcpy(&x, &a[i], 4);
        memcpy(&y, &b[i], 4);
        bits += (uint32_t)__builtin_popcount(x ^ y);
    }
    expect_integer(line, "elements", 4);
    expect_integer(line, "changed", 2);
    expect_integer(line, "changed_bits", bits);
    expect_integer(line, "not_finite", 0);
    expect_text(line, "result", "differs");
    expect_text(line, "a", "F32");
    ck_assert_double_eq(json_real_value(json_object_get(line, "max_error")), 1);
    ck_assert_double_eq_tol(json_real_value(json_object_get(line, "snr_db")),
                            10 * log10((9.0 + 16 + 64) / (0.25 + 1)), 1e-6);
    json_decref(line);
    line = compare_line("compare @a @b --json --min-snr 18.5", "t", 0);
    expect_text(line, "result", "close");
    json_decref(line);
    line = compare_line("compare @a @b --json --min-snr 18.6", NULL, 3);
    expect_text(line, "result", "differs");
    json_decref(line);
    line = compare_line("compare @a @a --json", NULL, 0);
    ck_assert(json_is_null(json_object_get(line, "snr_db")));
    expect_text(line, "result", "same");
    json_decref(line);
}
END_TEST

START_TEST(compare_odd_values)
{
    const float nan = NAN, inf = INFINITY;
    float a[6] = {nan, inf, -inf, nan, 1, 0}, b[6] = {nan, inf, inf, 2, inf, -0.0f};
    const piece left = {"t", ST_F32, 1, {6}, a}, right = {"t", ST_F32, 1, {6}, b};
    write_pieces("a", &left, 1, NULL, NULL);
    write_pieces("b", &right, 1, NULL, NULL);
    json_t *line = compare_line("compare @a @b --json --min-snr 0", "t", 3);
    expect_integer(line, "changed", 4);
    expect_integer(line, "not_finite", 3);
    ck_assert_double_eq(json_real_value(json_object_get(line, "max_error")), 0);
    json_decref(line);
}
END_TEST

/* Every type with values, 1 2 3 in both; then by another type; then one that is different. */
START_TEST(compare_types)
{
    static const st_dtype types[] = {ST_F64, ST_F32, ST_F16, ST_BF16, ST_I64, ST_I32,
                                     ST_I16, ST_I8,  ST_U64, ST_U32,  ST_U16, ST_U8};
    static const double f64[3] = {1, 2, 3}, f64_off[3] = {1, 2, 5};
    static const float f32[3] = {1, 2, 3};
    static const uint16_t f16[3] = {0x3c00, 0x4000, 0x4200}, bf16[3] = {0x3f80, 0x4000, 0x4040};
    static const int64_t i64[3] = {1, 2, 3};
    static const int32_t i32[3] = {1, 2, 3};
    static const int16_t i16[3] = {1, 2, 3};
    static const int8_t i8[3] = {1, 2, 3};
    const void *const data[] = {f64, f32, f16, bf16, i64, i32, i16, i8, i64, i32, i16, i8};
    const piece other = {"t", ST_F64, 1, {3}, f64}, off = {"t", ST_F64, 1, {3}, f64_off};
    write_pieces("f64", &other, 1, NULL, NULL);
    write_pieces("off", &off, 1, NULL, NULL);
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        const piece one = {"t", types[i], 1, {3}, data[i]};
        write_pieces("one", &one, 1, NULL, NULL);
        json_t *line = compare_line("compare @one @f64 --json", "t", 0);
        expect_text(line, "result", "same");
        expect_integer(line, "changed", 0);
        ck_assert_int_eq(json_is_null(json_object_get(line, "changed_bits")), types[i] != ST_F64);
        json_decref(line);
        line = compare_line("compare @one @off --json", "t", 3);
        expect_integer(line, "changed", 1);
        ck_assert_double_eq(json_real_value(json_object_get(line, "max_error")), 2);
        ck_assert_double_eq_tol(json_real_value(json_object_get(line, "snr_db")),
                                10 * log10(14.0 / 4), 1e-6);
        json_decref(line);
    }
}
END_TEST

START_TEST(compare_files_of_different_tensors)
{
    static const unsigned char codes[32] = {2},
                               other[32] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const piece a[] = {{"same", ST_F8_E4M3, 1, {8}, codes}, {"bytes", ST_F8_E4M3, 1, {8}, codes},
                       {"shape", ST_F32, 2, {2, 4}, codes}, {"type", ST_F8_E4M3, 1, {8}, codes},
                       {"only_a", ST_F32, 1, {1}, codes},   {"rank", ST_F32, 1, {8}, codes},
                       {"four", ST_F4, 1, {16}, codes},     {"complex", ST_C64, 1, {2}, codes}};
    const piece b[] = {{"same", ST_F8_E4M3, 1, {8}, codes}, {"bytes", ST_F8_E4M3, 1, {8}, other},
                       {"shape", ST_F32, 2, {4, 2}, codes}, {"type", ST_F8_E5M2, 1, {8}, codes},
                       {"only_b", ST_F32, 1, {1}, codes},   {"rank", ST_F32, 2, {1, 8}, codes},
                       {"four", ST_F4, 1, {16}, other},     {"complex", ST_C64, 1, {2}, other}};
    static const struct {
        const char *name, *result;
        int changed;
    } want[] = {{"same", "same", 0},           {"bytes", "differs", 8},
                {"shape", "shapes differ", 0}, {"type", "types differ", 0},
                {"only_a", "only in A", 0},    {"only_b", "only in B", 0},
                {"rank", "shapes differ", 0},  {"four", "differs", 8},
                {"complex", "differs", 2},     {NULL, "differs", 18}};
    write_pieces("a", a, 8, NULL, NULL);
    write_pieces("b", b, 8, NULL, NULL);
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        json_t *line = compare_line("compare @a @b --json", want[i].name, 3);
        expect_text(line, "result", want[i].result);
        expect_integer(line, "changed", want[i].changed);
        json_decref(line);
    }
    mxrt_ok("compare @a @b -q --include same");
    cli_run run;
    mxrt(&run, "compare @a @b");
    ck_assert_int_eq(run.exit_code, 3);
    for (size_t i = 0; i + 1 < sizeof(want) / sizeof(want[0]); i++)
        ck_assert_ptr_nonnull(strstr(run.out, want[i].name));
    ck_assert_ptr_nonnull(strstr(run.out, "only in B"));
    cli_run_finish(&run);
    mxrt(&run, "compare @a @b --quiet");
    ck_assert_int_eq(run.exit_code, 3);
    ck_assert_str_eq(run.out, "");
    cli_run_finish(&run);
}
END_TEST

/* A packed file compares with its original as the restored one does, along any axis, in pieces. */
START_TEST(compare_with_packed)
{
    static const char *const formats[] = {"mx9", "mxfp4", "mxfp8e4m3"};
    char text[200];
    write_samples("in");
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof(text), "quantize @in -o @packed -q -f %s -a %d", formats[i],
                 -(i % 2));
        mxrt_ok(text);
        mxrt_ok("dequantize @packed -o @restored -q");
        mxrt_ok("compare @packed @restored -q");
        mxrt_ok("compare @packed @packed -q --max-memory 4096");
        for (size_t s = 0; s < N_SAMPLES; s++) {
            if (!is_packed_by_default(&samples[s]))
                continue;
            json_t *a = compare_line("compare @in @restored --json", samples[s].name, 3);
            json_t *b =
                compare_line("compare @in @packed --json --max-memory 5000", samples[s].name, 3);
            expect_text(b, "b", formats[i]);
            expect_integer(b, "changed", json_integer_value(json_object_get(a, "changed")));
            expect_integer(b, "changed_bits",
                           json_integer_value(json_object_get(a, "changed_bits")));
            expect_integer(b, "not_finite", json_integer_value(json_object_get(a, "not_finite")));
            ck_assert_double_eq(json_real_value(json_object_get(b, "max_error")),
                                json_real_value(json_object_get(a, "max_error")));
            json_decref(a);
            json_decref(b);
        }
    }
    mxrt_ok("quantize @in -o @other -q -f mx6 -a 0");
    json_t *line = compare_line("compare @packed @other --json", "square.f32", 3);
    expect_text(line, "a", "mxfp8e4m3");
    expect_text(line, "b", "mx6");
    json_decref(line);
    mxrt_ok("quantize @in -o @other -q -f mxfp4 -a 1");
    mxrt_fails("compare @packed @other -q", 1, "axis");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mxrt_compare");
    TCase *tcase = tcase_create("compare");
    tcase_add_checked_fixture(tcase, mxrt_run_setup, mxrt_run_teardown);
    tcase_add_test(tcase, compare_figures);
    tcase_add_test(tcase, compare_odd_values);
    tcase_add_test(tcase, compare_types);
    tcase_add_test(tcase, compare_files_of_different_tensors);
    tcase_add_test(tcase, compare_with_packed);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
