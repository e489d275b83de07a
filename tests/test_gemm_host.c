/* Grouped GEMM's kernels of the host (templates/gemm_host.c) where numbers are special: NaN, Inf,
 * scales at both ends of their range. What is wanted is the reference's.
 *
 * MX_TEST_GEMM_HOST_PACK: kernels of the host for MXFP8 by MXFP4 and MXFP8, f32, or, with
 * MX_TEST_GEMM_E5M2_ONLY=1, for E5M2 on both sides. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cases.h"
#include "gemm_request.h"

static void set_up(void)
{
    const char *pack = getenv("MX_TEST_GEMM_HOST_PACK");

    request_set_up();
    ck_assert_ptr_nonnull(pack);
    ck_assert_msg(!mxrt_context_add_pack_file(context, pack, &err), "%s", err.message);
    request_open_device("host?threads=2");
}

static void run_with(request_rig *r, const char *variant)
{
    static _Alignas(256) unsigned char workspace[2 << 20];
    mxrt_gemm_plan *plan;
    mxrt_gemm_info info;

    r->request.variant = variant;
    ck_assert_msg(!mxrt_gemm_plan_create(device, &r->request, &plan, &err), "%s", err.message);
    ck_assert_int_eq(mxrt_gemm_get_info(plan, &info, &err), MX_OK);
    ck_assert_int_eq(!strcmp(info.variant, "reference"), variant != NULL);
    ck_assert_uint_le(mxrt_gemm_workspace_bytes(plan), sizeof(workspace));
    memset(workspace, 0xff, sizeof(workspace));
    const mxrt_gemm_buffers buffers = {.workspace = workspace,
                                       .workspace_bytes = sizeof(workspace)};
    ck_assert_msg(!mxrt_gemm_run(plan, &buffers, NULL, &err), "%s", err.message);
    mxrt_gemm_plan_destroy(plan);
}

/* Without signs the reference's sum bounds what rounding may do to the other. */
static void clear_signs(request_rig *r)
{
    unsigned mask = r->request.right_element == MX_GEMM_MXFP4 ? 0x77 : 0x7f;

    for (size_t i = 0; i < sizeof(r->left_data); i++)
        r->left_data[i] &= 0x7f;
    for (size_t i = 0; i < sizeof(r->right_data); i++)
        r->right_data[i] &= (unsigned char)mask;
}

/* The kernel's result against the reference's, element by element; how many are finite. */
static int compare(request_rig *r)
{
    static float got[1024];
    int n = r->request.pass == MX_GEMM_ROWS ? M * N : G * N * 5, finite = 0;
    float wanted[1024];

    run_with(r, NULL);
    memcpy(got, r->out_data, (size_t)n * sizeof(float));
    run_with(r, "reference");
    memcpy(wanted, r->out_data, (size_t)n * sizeof(float));
    clear_signs(r);
    run_with(r, "reference");
    for (int i = 0; i < n; i++) {
        double most = (double)request_out_at(r, i), off = (double)got[i] - (double)wanted[i];
        if (!isfinite(wanted[i])) {
            ck_assert_msg(isnan(wanted[i]) ? isnan(got[i]) : got[i] == wanted[i],
                          "element %d: %g, not %g", i, (double)got[i], (double)wanted[i]);
            continue;
        }
        finite++;
        ck_assert_msg(fabs(off) <= 1e-6 * most || !isfinite(most), "element %d: %.9g, not %.9g", i,
                      (double)got[i], (double)wanted[i]);
    }
    return finite;
}

static void fill(unsigned char *to, size_t n, unsigned mask, uint64_t *state)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (unsigned char)(mx_case_random(state) & mask);
}

/* Numbers of ends_of_scales: left, right, pass. */
enum { E5M2_ROWS = 1 + 2 * 2, E5M2_COLS = E5M2_ROWS + 6, N_ENDS = 12 };

/* Blocks of the smallest scales meet those of the largest; sometimes both are small. */
START_TEST(ends_of_scales)
{
    static const mx_gemm_element lefts[] = {MX_GEMM_MXFP8_E4M3, MX_GEMM_MXFP8_E5M2},
                                 rights[] = {MX_GEMM_MXFP4, MX_GEMM_MXFP8_E4M3, MX_GEMM_MXFP8_E5M2};
    mx_gemm_pass pass = (mx_gemm_pass)(_i / 6);
    uint64_t state = (uint64_t)_i + 1;

    request_make(&the, pass);
    the.request.left_element = lefts[_i % 2];
    the.request.right_element = rights[_i / 2 % 3];
    if (the.request.right_element != MX_GEMM_MXFP4)
        request_set(&the.right, u8, the.right_data, pass == MX_GEMM_ROWS ? 3 : 2,
                    pass == MX_GEMM_ROWS ? G : 5, pass == MX_GEMM_ROWS ? N : MPAD,
                    pass == MX_GEMM_ROWS ? K : 0);
    /* Without what is no number: below 0x7c in magnitude. */
    fill(the.left_data, sizeof(the.left_data), 0xbb, &state);
    fill(the.right_data, sizeof(the.right_data),
         the.request.right_element == MX_GEMM_MXFP4 ? 0xff : 0xbb, &state);
    int64_t blocks = pass == MX_GEMM_ROWS ? K / 32 : MPAD / 32;
    for (size_t i = 0; i < sizeof(the.left_scales_data); i++) {
        unsigned char up = (unsigned char)(mx_case_random(&state) % 20);
        int small = (int64_t)i % blocks % 2 != 0;
        the.left_scales_data[i] = small ? up : 254 - up;
        the.right_scales_data[i] = small ? 254 - up : up;
    }
    ck_assert_int_gt(compare(&the), 20);
}
END_TEST

/* All codes, so that infinities and NaN are among them, in a few blocks of some rows. */
START_TEST(special_codes)
{
    mx_gemm_pass pass = (mx_gemm_pass)(_i % 2);
    uint64_t state = 5;

    request_make(&the, pass);
    the.request.left_element = _i / 2 ? MX_GEMM_MXFP8_E5M2 : MX_GEMM_MXFP8_E4M3;
    int64_t row = pass == MX_GEMM_ROWS ? K : MPAD;
    fill(the.left_data, (size_t)row, 0xff, &state);
    the.left_data[row + 3] = 0x7c; /* Inf, or a number */
    the.left_data[2 * row + 40] = 0xff;
    the.left_data[3 * row + 1] = 0xfc;
    the.left_scales_data[4 * row / 32] = 255;
    /* A block of zeros and its NaN scale: zero only in gemm_cols. */
    memset(the.left_data + 5 * row, 0, 32);
    the.left_scales_data[5 * row / 32] = 255;
    memset(the.right_data, 0x80, 16);
    the.right_scales_data[1] = 255;
    ck_assert_int_gt(compare(&the), 3);
}
END_TEST

/* Each number of FP8 by itself: rows 0 to 3 of left have all codes, columns of right a single one.
 */
START_TEST(every_code)
{
    for (int at = 0; at < K; at += N) {
        request_make(&the, MX_GEMM_ROWS);
        the.request.left_element = _i ? MX_GEMM_MXFP8_E5M2 : MX_GEMM_MXFP8_E4M3;
        memset(the.left_data, 0, sizeof(the.left_data));
        memset(the.right_data, 0, sizeof(the.right_data));
        for (int code = 0; code < 256; code++) {
            if ((code & 0x7f) < (_i ? 0x7c : 0x7f))
                the.left_data[code] = (unsigned char)code;
        }
        for (int i = 0; i < G * N; i++) {
            int k = at + i % N;
            if (k < K)
                the.right_data[(i * K + k) / 2] = k % 2 ? 0x20 : 0x02;
        }
        ck_assert_int_eq(compare(&the), M * N);
    }
}
END_TEST

/* Rows and groups that lie more than 2^32 bytes apart, in memory that is mostly not there. */
START_TEST(far_apart)
{
    const int64_t far = (int64_t)9 << 30;
    const size_t reserved = (size_t)(4 * far + (1 << 24));
    unsigned char *memory = mmap(NULL, reserved, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    unsigned char *right = memory + (1 << 20), *out = memory + 2 * far + (1 << 22);
    float first, second;

    ck_assert_ptr_ne(memory, MAP_FAILED);
    request_make(&the, MX_GEMM_ROWS);
    the.read_data[0] = the.read_data[1] = 0;
    the.read_data[2] = the.read_data[3] = 2;
    request_set(&the.left, u8, memory, 2, 2, K, 0);
    the.left.strides[0] = far;
    request_set(&the.right, u8, right, 3, G, N, K / 2);
    the.right.strides[0] = far;
    request_set(&the.out, f32, out, 2, 2, N, 0);
    the.out.strides[0] = far / 4;
    memset(memory, 0x38, K);
    memset(memory + far, 0x40, K);
    memset(right + far, 0x22, N * K / 2);
    run_with(&the, NULL);
    memcpy(&first, out, 4);
    memcpy(&second, out + far + 4 * (N - 1), 4);
    ck_assert(first == 64 && second == 128);
    munmap(memory, reserved);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gemm_host");
    TCase *tests = tcase_create("values");

    tcase_add_checked_fixture(tests, set_up, request_tear_down);
    const char *only = getenv("MX_TEST_GEMM_E5M2_ONLY");
    if (only && !strcmp(only, "1")) {
        tcase_add_loop_test(tests, ends_of_scales, E5M2_ROWS, E5M2_ROWS + 1);
        tcase_add_loop_test(tests, ends_of_scales, E5M2_COLS, E5M2_COLS + 1);
    } else {
        tcase_add_loop_test(tests, ends_of_scales, 0, N_ENDS);
        tcase_add_loop_test(tests, special_codes, 0, 4);
        tcase_add_loop_test(tests, every_code, 0, 2);
        tcase_add_test(tests, far_apart);
    }
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
