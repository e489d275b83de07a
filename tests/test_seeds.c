/* Choices are remembered without the seed of stochastic rounding, which is another in every call.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "pack_build.h"
#include "runtime/device.h"

#define LAUNCH                                                                                     \
    "{\"grid\": [\"n_blocks\", \"1\", \"1\"], \"block\": [\"64\", \"1\", \"1\"], "                 \
    "\"lds_bytes\": \"0\", \"args\": ["                                                            \
    "{\"name\": \"x\", \"kind\": \"pointer\", \"buffer\": \"x\"}, "                                \
    "{\"name\": \"low\", \"kind\": \"i64\", \"value\": \"seed_low\"}, "                            \
    "{\"name\": \"rows\", \"kind\": \"i64\", \"value\": \"rows\"}, "                               \
    "{\"name\": \"sum\", \"kind\": \"i32\", \"value\": \"seed_high + len\"}]}"

static mxrt_context *context;
static mxrt_device *device;
static mx_error error;

/* A device whose kernels have these rules, in order of preference. */
static const mxrt_kernel_table *open_with(const char *const *rules, int n)
{
    const mxrt_table_key key = {MX_OP_TO, MX_FORMAT_MXFP4, MX_DTYPE_F32, MX_PROFILE_PACKED};
    const mxrt_kernel_table *table = NULL;
    mxgen_pack_writer *writer = pack_plain_writer();
    static const char *const names[] = {"first", "second"};

    for (int i = 0; i < n; i++) {
        mxgen_pack_variant variant = pack_plain_variant(names[i]);
        variant.format = "mxfp4";
        variant.rank = i;
        variant.rules_json = rules[i];
        variant.launch_json = LAUNCH;
        ck_assert_int_eq(mxgen_pack_writer_variant(writer, &variant, NULL), MX_OK);
    }
    pack_bytes pack = pack_take(writer);
    ck_assert_int_eq(mxrt_context_create(NULL, &context, &error), MX_OK);
    ck_assert_msg(!mxrt_context_add_pack_memory(context, pack.data, pack.size_bytes, &error), "%s",
                  error.message);
    free(pack.data);
    ck_assert_msg(!mxrt_device_open(context, "plan:host", &device, &error), "%s", error.message);
    ck_assert_msg(!mxrt_device_table(device, &key, &table, &error), "%s", error.message);
    ck_assert_uint_eq(table->n_variants, (size_t)n);
    return table;
}

static void teardown(void)
{
    mxrt_device_close(device);
    mxrt_context_destroy(context);
}

static void make_values(uint64_t seed, int64_t values[MXRT_VAR_COUNT])
{
    mxrt_problem problem;

    memset(&problem, 0, sizeof(problem));
    problem.op = MX_OP_TO;
    problem.format = MX_FORMAT_MXFP4;
    problem.n_blocks = problem.rows = 3;
    problem.len = 32;
    problem.bpr = 1;
    problem.options.rounding = MX_ROUND_STOCHASTIC;
    problem.options.seed = seed;
    mxrt_problem_vars(&problem, values);
}

static mxrt_selection choose(const mxrt_kernel_table *table, uint64_t seed)
{
    int64_t values[MXRT_VAR_COUNT];
    mxrt_selection found;

    make_values(seed, values);
    ck_assert_msg(!mxrt_select_best(table, values, &found, &error), "%s", error.message);
    return found;
}

/* Whether a choice for this seed is among those remembered. */
static int is_remembered(const mxrt_kernel_table *table, uint64_t seed)
{
    int64_t values[MXRT_VAR_COUNT];
    mxrt_selection found;

    make_values(seed, values);
    return mxrt_select_cache_find(table->cache, table->variants, values, &found);
}

START_TEST(one_choice_for_all_seeds)
{
    static const char *const rules[] = {"[]"};
    static const uint64_t seeds[] = {5, UINT64_C(0x100000002), 5, UINT64_MAX / 4, 0};
    const mxrt_kernel_table *table = open_with(rules, 1);

    for (int i = 0; i < 5; i++) {
        mxrt_selection found = choose(table, seeds[i]);
        ck_assert_int_eq(found.args[1], (int64_t)(seeds[i] & 0xffffffff));
        ck_assert_int_eq(found.args[2], 3);
        ck_assert_int_eq(found.args[3], (int64_t)(seeds[i] >> 32) + 32);
        ck_assert_uint_eq(found.grid[0], 3);
        /* Found again under no seed, and under no other. */
        ck_assert(is_remembered(table, 0));
        ck_assert(!seeds[i] || !is_remembered(table, seeds[i]));
    }
}
END_TEST

/* What a seed makes of an argument may be out of its range: no choice, remembered or not. */
START_TEST(argument_out_of_range)
{
    static const char *const rules[] = {"[]"};
    const mxrt_kernel_table *table = open_with(rules, 1);
    int64_t values[MXRT_VAR_COUNT];
    mxrt_selection found;

    choose(table, 1);
    make_values(UINT64_MAX, values);
    ck_assert_int_eq(mxrt_select_best(table, values, &found, &error), MX_ERR_UNSUPPORTED);
    choose(table, 2);
}
END_TEST

START_TEST(rules_that_read_the_seed)
{
    static const char *const rules[] = {
        "[{\"rule\": \"the seed is even\", \"when\": \"seed_low % 2 == 0\"}]", "[]"};
    const mxrt_kernel_table *table = open_with(rules, 2);

    for (uint64_t seed = 4; seed < 10; seed++) {
        for (int again = 0; again < 2; again++)
            ck_assert_str_eq(choose(table, seed).variant->info.name, seed % 2 ? "second" : "first");
        ck_assert(is_remembered(table, seed));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("seeds");
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, NULL, teardown);
    tcase_add_test(tcase, one_choice_for_all_seeds);
    tcase_add_test(tcase, argument_out_of_range);
    tcase_add_test(tcase, rules_that_read_the_seed);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
