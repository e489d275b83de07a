/* Every kernel of the host's pack against the plain C reference, as a Check suite: one test a
 * section, then one that all variants were reached. conformance_main.c is the same as a program.
 *
 *   MXGEN_TEST_PACK=FILE     the pack
 *   MXGEN_TEST_DEVICE=URI    else host
 *   MXGEN_TEST_QUICK=1       fewer and smaller cases, for sanitizers
 *   MXGEN_TEST_SEED=N        else 1 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/conformance.h"

enum { SKIPPED = 77 };

static conform *run;
static unsigned long long seed = 1;

START_TEST(section)
{
    size_t index = (size_t)_i;
    conform_totals before = conform_get_totals(run);
    conform_run_section(run, index);
    conform_totals after = conform_get_totals(run);
    ck_assert_msg(after.failed == before.failed, "%s: %zu runs failed of %zu, seed %llu",
                  conform_section_name(index), after.failed - before.failed,
                  after.passed - before.passed + after.failed - before.failed, seed);
    ck_assert_msg(after.passed > before.passed || index + 1 == conform_section_count(),
                  "%s: nothing ran", conform_section_name(index));
}
END_TEST

START_TEST(coverage)
{
    conform_check_coverage(run);
    conform_totals totals = conform_get_totals(run);
    ck_assert_msg(totals.unreached == 0, "%zu of %zu variants were never run", totals.unreached,
                  totals.variants);
    ck_assert_uint_gt(totals.variants, 0);
    /* Some kernel serves every problem here, and all data is there. */
    ck_assert_uint_eq(totals.skipped, 0);
}
END_TEST

int main(void)
{
    char data[1024];
    const char *root = getenv("MX_SOURCE_ROOT"), *seed_text = getenv("MXGEN_TEST_SEED");
    conform_options options = {.uri = getenv("MXGEN_TEST_DEVICE"),
                               .pack = getenv("MXGEN_TEST_PACK"),
                               .data_dir = data,
                               .quick = getenv("MXGEN_TEST_QUICK") != NULL};
    mx_error error = {MX_OK, ""};
    if (!options.pack) {
        fprintf(stderr, "set MXGEN_TEST_PACK to a kernel pack\n");
        return SKIPPED;
    }
    if (seed_text)
        seed = strtoull(seed_text, NULL, 0);
    options.seed = seed;
    snprintf(data, sizeof(data), "%s/tests/data/cases", root ? root : ".");
    mx_status status = conform_create(&options, &run, &error);
    if (status) {
        fprintf(stderr, "%s\n", error.message);
        return status == MX_ERR_NOT_FOUND ? SKIPPED : 1;
    }
    Suite *suite = suite_create("conformance");
    TCase *tcase = tcase_create(options.uri ? options.uri : "host");
    tcase_set_timeout(tcase, 900);
    tcase_add_loop_test(tcase, section, 0, (int)conform_section_count());
    tcase_add_test(tcase, coverage);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    /* Sections share their device and coverage. */
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    conform_destroy(run);
    return n_failed ? 1 : 0;
}
