/* Packs with kernels of grouped GEMM: steps, choice, launches, on the host and without hardware. */
#include <check.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "gemm_pack.h"
#include "gemm_request.h"

static void add_pack(const gemm_row *rows, size_t n)
{
    gemm_pack_add(TARGET, rows, n);
    request_open_device("host?threads=2");
}

#define ALIGNED                                                                                    \
    "[{\"rule\":\"rows are aligned\",\"when\":\"left_row_stride % 64 == 0 && left_align >= 64\"}]"

static const gemm_row usual[] = {
    {"gemm_step", "b", "mxtest_before", NULL, NULL, BEFORE, 0, NULL, NULL},
    {"gemm_step", "a1", "mxtest_after", NULL, NULL, AFTER("100"), 0, NULL, NULL},
    {"gemm_step", "a2", "mxtest_after", NULL,
     "[{\"rule\":\"few rows\",\"when\":\"out_rows < 20\"}]", AFTER("1000"), 0, NULL, NULL},
    {"gemm_rows", "second", "mxtest_main", NULL, ALIGNED, ROUTE("\"a1\""), 1, NULL, NULL},
    {"gemm_rows", "first", "mxtest_main", NULL, ALIGNED, ROUTE("\"a1\",\"a2\""), 0, NULL, NULL},
    {"gemm_rows", "exact", "mxtest_main", "exact", NULL, ROUTE(""), 0, NULL, NULL},
};

/* The main kernel counts pairs of codes that are not 0 under scales that add to 254. */
static void make_kernel_rig(void)
{
    request_make(&the, MX_GEMM_ROWS);
    the.request.right_element = MX_GEMM_MXFP8_E4M3;
    request_set(&the.right, u8, the.right_data, 3, G, N, K);
    the.request.host_offsets = 0;
    memset(the.out_data, 0, sizeof(the.out_data));
    the.left_data[0] = 0;
    the.left_scales_data[2 * 1] = 3;
}

/* Runs and returns what every element of out has beyond the count. */
static float run_kernels(const mxrt_gemm_buffers *extra)
{
    static _Alignas(256) unsigned char workspace[1024];
    mxrt_gemm_buffers buffers = extra ? *extra : (mxrt_gemm_buffers){0};
    mxrt_gemm_plan *plan;

    buffers.workspace = workspace;
    buffers.workspace_bytes = sizeof(workspace);
    ck_assert_msg(!mxrt_gemm_plan_create(device, &the.request, &plan, &err), "%s", err.message);
    ck_assert_uint_le(mxrt_gemm_workspace_bytes(plan), sizeof(workspace));
    ck_assert_msg(!mxrt_gemm_run(plan, &buffers, NULL, &err), "%s", err.message);
    mxrt_gemm_plan_destroy(plan);
    float added = request_out_at(&the, 2 * N) - K;
    for (int64_t i = 0; i < M * N; i++) {
        float wanted = i < N ? K - 1 : i < 2 * N ? K / 2 : K;
        ck_assert_msg(request_out_at(&the, i) == wanted + added, "element %" PRId64 ": %g, not %g",
                      i, (double)request_out_at(&the, i), (double)(wanted + added));
    }
    return added;
}

START_TEST(steps_run_in_order)
{
    mxrt_gemm_plan *plan;
    mxrt_gemm_info info;
    const char *names[4];
    size_t n;

    add_pack(usual, 6);
    make_kernel_rig();
    ck_assert(run_kernels(NULL) == 100 + 1000 + 2 * 2);
    ck_assert_int_eq(the.status_data, 0);
    the.request.num_cu = 1;
    make_kernel_rig();
    the.request.num_cu = 1;
    the.request.status = NULL;
    ck_assert(run_kernels(NULL) == 100 + 1000 + 2);
    make_kernel_rig();
    ck_assert_int_eq(mxrt_gemm_variants(device, &the.request, names, 4, &n, &err), MX_OK);
    ck_assert_uint_eq(n, 3);
    ck_assert_str_eq(names[0], "first");
    ck_assert_str_eq(names[1], "second");
    ck_assert_str_eq(names[2], "exact");
    ck_assert_int_eq(mxrt_gemm_plan_create(device, &the.request, &plan, &err), MX_OK);
    ck_assert_int_eq(mxrt_gemm_get_info(plan, &info, &err), MX_OK);
    ck_assert_str_eq(info.variant, "first");
    ck_assert_str_eq(info.target, TARGET);
    ck_assert_uint_eq(info.n_launches, 4);
    ck_assert_str_eq(info.launches[0].symbol, "mxtest_before");
    ck_assert_str_eq(info.launches[3].variant, "a2");
    ck_assert_uint_eq(info.launches[3].grid[0], M);
    ck_assert_uint_eq(info.workspace_bytes, 256);
    ck_assert_int_eq(info.groups, G);
    ck_assert(info.flops == 2.0 * M * N * K);
    mxrt_gemm_plan_destroy(plan);
}
END_TEST

START_TEST(routes_are_chosen)
{
    add_pack(usual, 6);
    make_kernel_rig();
    the.request.mode = MX_GEMM_EXACT;
    ck_assert(run_kernels(NULL) == 0);
    make_kernel_rig();
    the.request.variant = "second";
    ck_assert(run_kernels(NULL) == 100 + 2);
    /* A step's rule that does not hold: the next route. */
    make_kernel_rig();
    the.request.variant = "first";
    request_set(&the.left, u8, the.left_data, 2, 20, K, 0);
    request_set(&the.left_scales, u8, the.left_scales_data, 2, 20, K / 32, 0);
    request_set(&the.out, f32, the.out_data, 2, 20, N, 0);
    the.read_data[3] = 20;
    mxrt_gemm_plan *plan;
    ck_assert_int_eq(mxrt_gemm_plan_create(device, &the.request, &plan, &err), MX_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.message, "kernel a2 (" TARGET ") does not apply: its rule "
                                              "\"few rows\", out_rows < 20, does not hold here "
                                              "(out_rows = 20)"));
    the.request.variant = NULL;
    ck_assert(run_kernels(NULL) == 100 + 2);
    /* Rows that are not aligned: the exact one is left. */
    make_kernel_rig();
    memmove(the.left_data + 1, the.left_data, 2048);
    the.left.dl.byte_offset = 1;
    ck_assert(run_kernels(NULL) == 0);
    the.request.variant = "first";
    ck_assert_int_eq(mxrt_gemm_plan_create(device, &the.request, &plan, &err), MX_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.message, "(left_row_stride = 64, left_align = 1)"));
    /* Elements of which there is no kernel: the reference. */
    make_kernel_rig();
    the.request.right_element = MX_GEMM_MXFP8_E5M2;
    mxrt_gemm_info info;
    ck_assert_int_eq(mxrt_gemm_plan_create(device, &the.request, &plan, &err), MX_OK);
    ck_assert_int_eq(mxrt_gemm_get_info(plan, &info, &err), MX_OK);
    ck_assert_str_eq(info.variant, "reference");
    ck_assert_uint_eq(info.workspace_bytes, 0);
    mxrt_gemm_plan_destroy(plan);
}
END_TEST

START_TEST(runs_elsewhere)
{
    static _Alignas(64) unsigned char left[M * K + 1];
    static _Alignas(256) unsigned char workspace[512];
    mxrt_gemm_plan *plan;

    add_pack(usual, 6);
    make_kernel_rig();
    memcpy(left, the.left_data, M * K);
    the.left_data[5] = 0;
    ck_assert(run_kernels(&(mxrt_gemm_buffers){.left = left}) == 100 + 1000 + 2 * 2);
    memmove(left + 1, left, M * K);
    ck_assert_int_eq(mxrt_gemm_plan_create(device, &the.request, &plan, &err), MX_OK);
    mxrt_gemm_buffers buffers = {
        .left = left + 1, .workspace = workspace, .workspace_bytes = sizeof(workspace)};
    memset(the.out_data, 0xa5, sizeof(the.out_data));
    the.status_data = -77;
    ck_assert_int_eq(mxrt_gemm_run(plan, &buffers, NULL, &err), MX_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.message, "rows are aligned"));
    buffers.left = NULL;
    buffers.workspace_bytes = 255;
    ck_assert_int_eq(mxrt_gemm_run(plan, &buffers, NULL, &err), MX_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "a workspace of 256 bytes, it got 255"));
    buffers = (mxrt_gemm_buffers){.workspace = the.out_data, .workspace_bytes = 256};
    ck_assert_int_eq(mxrt_gemm_run(plan, &buffers, NULL, &err), MX_ERR_INVALID);
    ck_assert_int_eq(mxrt_gemm_run(plan, NULL, NULL, &err), MX_ERR_INVALID);
    ck_assert(request_untouched(&the));
    mxrt_gemm_plan_destroy(plan);
}
END_TEST

START_TEST(a_step_is_missing)
{
    mxrt_gemm_plan *plan;

    add_pack(usual + 1, 5);
    make_kernel_rig();
    ck_assert_int_eq(mxrt_gemm_plan_create(device, &the.request, &plan, &err), MX_ERR_CORRUPT);
    ck_assert_ptr_nonnull(strstr(err.message, "has the step b, which its pack lacks"));
    /* What needs no such step stays usable. */
    static const gemm_row sound[] = {
        {"gemm_step", "a1", "mxtest_after", NULL, NULL, AFTER("100"), 0, NULL, NULL},
        {"gemm_rows", "lacks", "mxtest_main", NULL, NULL, ROUTE("\"a1\""), 0, NULL, NULL},
        {"gemm_rows", "sound", "mxtest_after", NULL, NULL, AFTER("7"), 1, NULL, NULL},
    };
    mxrt_gemm_info info;
    add_pack(sound, 3);
    ck_assert_msg(!mxrt_gemm_plan_create(device, &the.request, &plan, &err), "%s", err.message);
    ck_assert_int_eq(mxrt_gemm_get_info(plan, &info, &err), MX_OK);
    ck_assert_str_eq(info.variant, "sound");
    mxrt_gemm_plan_destroy(plan);
}
END_TEST

static const char *chosen(int64_t groups, int64_t m, int64_t n, int64_t k, mxrt_policy policy)
{
    mxrt_gemm_plan *plan = NULL;
    mxrt_gemm_info info;

    request_without_memory(&the, kDLCUDA, groups, m, n, k);
    the.request.policy = policy;
    if (mxrt_gemm_plan_create(device, &the.request, &plan, &err))
        return NULL;
    ck_assert_int_eq(mxrt_gemm_get_info(plan, &info, &err), MX_OK);
    mxrt_gemm_plan_destroy(plan);
    return info.variant;
}

#define SHORT "[{\"rule\":\"short\",\"when\":\"k <= 2048\"}]"

/* What decodes all weights ahead pays for itself where many rows share them. */
START_TEST(the_model_chooses)
{
    static const gemm_row rows[] = {
        {"gemm_step", "b", "b", NULL, NULL, BEFORE, 0, NULL, NULL},
        {"gemm_rows", "prepared", "p", NULL, NULL,
         MAIN(",\"workspace_bytes\":\"(m + groups * n) * k\",\"before\":[\"b\"]"), 0,
         TILE(128, 192), NULL},
        {"gemm_rows", "large", "l", "exact", NULL, MAIN(""), 0, TILE(128, 128), NULL},
        {"gemm_rows", "small", "s", "exact", NULL, MAIN(""), 1, TILE(16, 128), NULL},
        {"gemm_rows", "streamed", "t", "exact", SHORT, MAIN(""), 2, STREAM(16, 32), NULL},
    };
    gemm_pack_add("sm_90a", rows, 5);
    request_open_device("plan:sm_90a");
    ck_assert_str_eq(chosen(8, 16384, 4096, 7168, MXRT_POLICY_TUNED), "prepared");
    ck_assert_str_eq(chosen(1, 8192, 8192, 8192, MXRT_POLICY_MODEL), "prepared");
    ck_assert_str_eq(chosen(16, 136, 2880, 2048, MXRT_POLICY_MODEL), "streamed");
    ck_assert_str_eq(chosen(16, 1024, 2880, 2880, MXRT_POLICY_MODEL), "prepared");
    ck_assert_str_eq(chosen(12, 96, 1408, 2880, MXRT_POLICY_MODEL), "small");
    ck_assert_ptr_null(chosen(16, 136, 2880, 2880, MXRT_POLICY_CACHED));
    ck_assert_int_eq(err.status, MX_ERR_NOT_FOUND);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name)
{
    TCase *tests = tcase_create(name);

    tcase_add_checked_fixture(tests, request_set_up, request_tear_down);
    suite_add_tcase(suite, tests);
    return tests;
}

int main(void)
{
    Suite *suite = suite_create("gemm_routes");
    TCase *kernels = add_case(suite, "kernels");

    tcase_add_test(kernels, steps_run_in_order);
    tcase_add_test(kernels, routes_are_chosen);
    tcase_add_test(kernels, runs_elsewhere);
    tcase_add_test(kernels, a_step_is_missing);
    tcase_add_test(kernels, the_model_chooses);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
