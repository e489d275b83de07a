/* The kernel for few rows a group, as far as it can be looked at without a GPU of its kind: where
 * it applies, what its rules say, and that its main loop is what it is meant to be. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "gen/gen.h"
#include "gen/template.h"
#include "runtime/expr.h"
#include "runtime/gemm_vars.h"

extern const mxgen_template gemm_skinny_template;

#define FP4 MXGEN_OPERAND_MXFP4
#define E4M3 MXGEN_OPERAND_MXFP8_E4M3
#define BF16 MXGEN_OPERAND_BF16

static mxgen_spec make_spec(const char *target, mxgen_operand left, mxgen_operand right, bool exact,
                            int slice)
{
    mxgen_spec spec = {
        .tmpl = &gemm_skinny_template,
        .target = mxgen_target_find(target),
        .key = {.dtype = MX_DTYPE_BF16, .gemm = {MXGEN_PASS_ROWS, left, right, exact}},
        .n_params = 4,
        .param_names = {"BLOCK_SIZE_M", "BLOCK_SIZE_N", "num_warps", "SLICE"},
        .params = {16, 32, 8, slice},
        .name = "skinny",
        .symbol = "skinny"};
    return spec;
}

START_TEST(test_applies)
{
    static const struct {
        const char *target;
        mxgen_operand left, right;
        bool exact;
        const char *why; /* NULL: it does */
    } cases[] = {
        {"sm_90a", FP4, FP4, true, NULL},
        {"sm_90a", E4M3, FP4, true, NULL},
        {"sm_90a", BF16, FP4, true, NULL},
        {"sm_90a", FP4, FP4, false, "exact"},
        {"sm_90a", E4M3, E4M3, true, "MXFP4"},
        {"gfx950", FP4, FP4, true, "bulk copies"},
        {"host-x86-64-v3", FP4, FP4, true, "bulk copies"},
    };
    char why[200] = "";
    mxgen_spec spec =
        make_spec(cases[_i].target, cases[_i].left, cases[_i].right, cases[_i].exact, 12);
    bool applies = gemm_skinny_template.applies(&spec, why, sizeof(why));
    ck_assert_msg(applies == !cases[_i].why, "case %d: %s", _i, why);
    if (cases[_i].why)
        ck_assert_msg(strstr(why, cases[_i].why) != NULL, "case %d: %s", _i, why);
}
END_TEST

/* Whether all rules hold. */
static bool fits(const mxgen_kernel *kernel, const int64_t *values)
{
    bool all = true;
    for (int i = 0; i < kernel->n_rules; i++) {
        int64_t value = 0;
        mxrt_expr *expr = NULL;
        mx_error err;
        ck_assert_msg(!mxrt_expr_compile(kernel->rules[i].when, mxrt_gemm_var_names,
                                         MXRT_GEMM_VAR_COUNT, &expr, &err),
                      "%s", err.message);
        ck_assert_int_eq(mxrt_expr_eval(expr, values, &value, &err), MX_OK);
        mxrt_expr_free(expr);
        all = all && value;
    }
    return all;
}

START_TEST(test_rules)
{
    mxgen_spec spec = make_spec("sm_90a", FP4, FP4, true, 12);
    mxgen_kernel kernel = {0};
    gemm_skinny_template.describe(&spec, &kernel);
    int64_t values[MXRT_GEMM_VAR_COUNT];
    for (int i = 0; i < MXRT_GEMM_VAR_COUNT; i++)
        values[i] = 1 << 20;
    values[MXRT_GEMM_VAR_M] = values[MXRT_GEMM_VAR_OUT_ROWS] = 136;
    values[MXRT_GEMM_VAR_N] = values[MXRT_GEMM_VAR_K] = 2880;
    values[MXRT_GEMM_VAR_GROUPS] = 16;
    ck_assert(fits(&kernel, values));
    static const struct {
        int var;
        int64_t value;
    } bad[] = {{MXRT_GEMM_VAR_K, 3104},
               {MXRT_GEMM_VAR_RIGHT_ALIGN, 8},
               {MXRT_GEMM_VAR_RIGHT_ROW_STRIDE, 1448},
               {MXRT_GEMM_VAR_LEFT_ROW_STRIDE, 1442},
               {MXRT_GEMM_VAR_GROUPS, 0},
               {MXRT_GEMM_VAR_OUT_ROWS, (int64_t)1 << 31}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int64_t kept = values[bad[i].var];
        values[bad[i].var] = bad[i].value;
        ck_assert_msg(!fits(&kernel, values), "case %zu", i);
        values[bad[i].var] = kept;
    }
}
END_TEST

static int count(const char *text, const char *what)
{
    int n = 0;
    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what))
        n++;
    return n;
}

/* A matrix load brings a block of a unit's 32 rows. Each 16 rows of it take two products for eight
 * rows of left, four for more. */
START_TEST(test_code)
{
    const int slice = 8;
    mxgen_spec spec = make_spec("sm_90a", _i ? BF16 : FP4, FP4, true, slice);
    mxgen_output output = {0};
    mx_error err;
    ck_assert_msg(mxgen_compile(&spec, 1, MXGEN_STAGE_ASM, NULL, &output, &err) == MX_OK, "%s",
                  err.message);
    char *text = calloc(output.size_bytes + 1, 1);
    memcpy(text, output.data, output.size_bytes);
    ck_assert_int_eq(count(text, "ldmatrix.sync.aligned.m8n8.x4"), 2 * slice);
    ck_assert_int_eq(count(text, "mma.sync.aligned.m16n8k16"), 2 * slice * (2 + 4));
    /* Filling the ring, between units, and after the last of a run. */
    ck_assert_int_eq(count(text, "cp.async.bulk.shared"), 3);
    ck_assert_int_eq(count(text, ".local"), 0);
    free(text);
    mxgen_output_finish(&output);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gemm_skinny");
    TCase *tcase = tcase_create("sm_90a");
    tcase_add_loop_test(tcase, test_applies, 0, 7);
    tcase_add_test(tcase, test_rules);
    tcase_add_loop_test(tcase, test_code, 0, 2);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
