/* Every kernel of the host's pack against the plain C reference, as a Check suite: one test a
 * section, then one that all variants were reached. conformance_main.c is the same as a program.
 *
 *   MXGEN_TEST_PACK=FILE     the pack
 *   MXGEN_TEST_DEVICE=URI    else host
 *   MXGEN_TEST_QUICK=1       fewer and smaller cases, for sanitizers
 *   MXGEN_TEST_SEED=N        else 1 */
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/ocp.h>
#include <mxgen/rt.h>

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

/* ---- Tensors that no cache holds, whose stores pass the caches by ---- */

enum { ROWS = 10923, COLUMNS = 1024 };

typedef struct large {
    mxrt_device *device;
    mx_format format;
    DLTensor x, data, scales; /* of x */
} large;

static DLTensor tensor_of(DLDataType type, int64_t *shape, size_t size_bytes)
{
    void *memory = aligned_alloc(64, (size_bytes + 63) / 64 * 64);
    ck_assert_ptr_nonnull(memory);
    return (DLTensor){
        .data = memory, .device = {kDLCPU, 0}, .ndim = 2, .dtype = type, .shape = shape};
}

static void fill(DLTensor *tensor, size_t size_bytes)
{
    uint64_t state = seed;
    for (size_t i = 0; i + 8 <= size_bytes; i += 8) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t mixed = state ^ state >> 29;
        memcpy((char *)tensor->data + i, &mixed, 8);
    }
}

/* Runs a variant, NULL for the best, into `out`; whether that was a kernel. */
static bool run_large(const large *l, mx_op op, const char *variant, const DLTensor *out)
{
    mxrt_plan_request request = {.op = op,
                                 .format = l->format,
                                 .axis = -1,
                                 .in = op == MX_OP_FROM ? &l->data : &l->x,
                                 .out = out,
                                 .scales = op == MX_OP_FROM ? &l->scales : NULL,
                                 .variant = variant};
    mxrt_plan *plan = NULL;
    mxrt_plan_info info;
    mx_error error = {MX_OK, ""};
    ck_assert_msg(!mxrt_plan_create(l->device, &request, &plan, &error), "%s", error.message);
    ck_assert_msg(!mxrt_plan_get_info(plan, &info, &error), "%s", error.message);
    bool is_kernel = strcmp(info.variant, "reference") != 0;
    if (is_kernel || variant)
        ck_assert_msg(!mxrt_plan_run(plan, NULL, NULL, NULL, &error), "%s", error.message);
    mxrt_plan_destroy(plan);
    return is_kernel;
}

/* The number of kernels that ran. */
static int check_large(large *l)
{
    const DLDataType u8 = {kDLUInt, 8, 1}, bf16 = {kDLBfloat, 16, 1};
    const mx_op ops[] = {MX_OP_FROM, MX_OP_QDQ};
    int64_t shape[2] = {ROWS, COLUMNS}, data[2], scales[2];
    size_t x_bytes = (size_t)ROWS * COLUMNS * 2;
    mx_error error = {MX_OK, ""};
    int ran = 0;
    ck_assert_msg(!mxrt_ocp_shape(l->format, NULL, 2, shape, -1, data, scales, &error), "%s",
                  error.message);
    size_t data_bytes = (size_t)(data[0] * data[1]), scale_bytes = (size_t)(scales[0] * scales[1]);
    l->x = tensor_of(bf16, shape, x_bytes);
    l->data = tensor_of(u8, data, data_bytes);
    l->scales = tensor_of(u8, scales, scale_bytes);
    fill(&l->x, x_bytes);
    fill(&l->data, data_bytes);
    memset(l->scales.data, 120, scale_bytes);
    ((uint8_t *)l->scales.data)[ROWS] = 255; /* some blocks need care */
    DLTensor got = tensor_of(bf16, shape, x_bytes), expected = tensor_of(bf16, shape, x_bytes);
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        if (!run_large(l, ops[i], NULL, &got))
            continue;
        ran++;
        run_large(l, ops[i], "reference", &expected);
        ck_assert_msg(!memcmp(got.data, expected.data, x_bytes), "%s %s", mx_op_name(ops[i]),
                      mx_format_get(l->format)->name);
        /* Of what qdq sees, most is ordinary: finite, and not small. */
        for (int64_t k = 0; k < (int64_t)ROWS * COLUMNS; k++)
            ((uint16_t *)l->x.data)[k] = ((uint16_t *)got.data)[k] & 0xbfffu;
    }
    free(l->x.data);
    free(l->data.data);
    free(l->scales.data);
    free(got.data);
    free(expected.data);
    return ran;
}

START_TEST(large_tensors)
{
    mx_error error = {MX_OK, ""};
    mxrt_context *context = NULL;
    large l = {NULL, 0, {0}, {0}, {0}};
    int ran = 0;
    ck_assert_msg(!mxrt_context_create(NULL, &context, &error), "%s", error.message);
    ck_assert_msg(!mxrt_context_add_pack_file(context, getenv("MXGEN_TEST_PACK"), &error), "%s",
                  error.message);
    ck_assert_msg(!mxrt_device_open(context, "host", &l.device, &error), "%s", error.message);
    for (int format = MX_FORMAT_PACKED_COUNT; format < MX_FORMAT_COUNT; format++) {
        l.format = (mx_format)format;
        ran += check_large(&l);
    }
    ck_assert_int_gt(ran, 0);
    mxrt_device_close(l.device);
    mxrt_context_destroy(context);
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
    if (!options.uri && !options.quick)
        tcase_add_test(tcase, large_tensors);
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
