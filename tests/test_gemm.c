/* Grouped GEMM's interface on the host: what is refused, and the reference against a product in
 * double. */
#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "gemm_engine.h"
#include "gemm_request.h"

/* ---- What is refused ---- */

typedef struct refusal {
    mx_gemm_pass pass;
    const char *part; /* of the message */
    void (*spoil)(request_rig *r);
} refusal;

/* clang-format off */
static void no_left(request_rig *r) { r->request.left = NULL; }
static void no_right(request_rig *r) { r->request.right = NULL; }
static void no_out(request_rig *r) { r->request.out = NULL; }
static void no_offsets(request_rig *r) { r->request.read_offsets = NULL; }
static void no_left_scales(request_rig *r) { r->request.left_scales = NULL; }
static void bf16_with_scales(request_rig *r) { r->request.right_element = MX_GEMM_BF16; }
static void odd_pass(request_rig *r) { r->request.pass = (mx_gemm_pass)7; }
static void odd_element(request_rig *r) { r->request.left_element = (mx_gemm_element)-1; }
static void odd_mode(request_rig *r) { r->request.mode = MX_GEMM_MODE_COUNT; }
static void odd_policy(request_rig *r) { r->request.policy = (mxrt_policy)9; }
static void negative_num_cu(request_rig *r) { r->request.num_cu = -1; }
static void left_type(request_rig *r) { r->left.dl.dtype = f32; }
static void left_bf16(request_rig *r) { r->left.dl.dtype = bf16; }
static void left_lanes(request_rig *r) { r->left.dl.dtype.lanes = 4; }
static void scales_type(request_rig *r) { r->right_scales.dl.dtype.code = kDLInt; }
static void out_type(request_rig *r) { r->out.dl.dtype = i32; }
static void out_f64(request_rig *r) { r->out.dl.dtype.bits = 64; }
static void offsets_type(request_rig *r) { r->read.dl.dtype = i32; }
static void status_type(request_rig *r) { r->status.dl.dtype = i64; }
static void left_device(request_rig *r) { r->left.dl.device.device_type = kDLCUDA; }
static void out_device(request_rig *r) { r->out.dl.device.device_id = 1; }
static void offsets_device(request_rig *r) { r->read.dl.device.device_type = kDLROCM; }
static void left_ndim(request_rig *r) { r->left.dl.ndim = 3; }
static void right_ndim(request_rig *r) { r->right.dl.ndim = 2; }
static void out_ndim(request_rig *r) { r->out.dl.ndim = 1; }
static void offsets_ndim(request_rig *r) { r->read.dl.ndim = 2; }
static void left_shape_null(request_rig *r) { r->left.dl.shape = NULL; }
static void left_negative(request_rig *r) { r->left.shape[0] = -M; }
static void left_huge(request_rig *r) { r->left.shape[0] = INT64_MAX; }
static void k_not_32(request_rig *r) { r->left.shape[1] = 48; }
static void k_zero(request_rig *r) { r->left.shape[1] = 0; r->right.shape[2] = 0; }
static void k_differs(request_rig *r) { r->right.shape[2] = 48; r->right.dl.strides = NULL; }
static void groups_differ(request_rig *r) { r->right.shape[0] = 4; }
static void out_rows_differ(request_rig *r) { r->out.shape[0] = M - 1; }
static void out_columns_differ(request_rig *r) { r->out.shape[1] = N - 1; }
static void out_groups_differ(request_rig *r) { r->out.shape[0] = G + 1; }
static void left_gap(request_rig *r) { r->left.strides[1] = 2; }
static void left_overlap(request_rig *r) { r->left.strides[0] = K - 1; }
static void left_stride_negative(request_rig *r) { r->left.strides[0] = -K; }
static void right_stride_huge(request_rig *r) { r->right.strides[0] = INT64_MAX / 2; }
static void out_overlap(request_rig *r) { r->out.strides[0] = N - 1; }
static void out_groups_overlap(request_rig *r) { r->out.strides[0] = 5 * N - 1; }
static void out_gap(request_rig *r) { r->out.strides[1] = 2; }
static void left_scale_rows(request_rig *r) { r->left_scales.shape[0] = M - 1; }
static void left_scale_blocks(request_rig *r) { r->left_scales.shape[1] = K / 32 - 1; }
static void right_scale_groups(request_rig *r) { r->right_scales.shape[0] = G - 1; }
static void right_scale_blocks(request_rig *r) { r->right_scales.shape[1] = MPAD / 32 - 1; }
static void transposed_scales(request_rig *r) { r->request.left_scales_transposed = 1; }
static void left_null(request_rig *r) { r->left.dl.data = NULL; }
static void offsets_null(request_rig *r) { r->read.dl.data = NULL; }
static void out_odd(request_rig *r) { r->out.dl.byte_offset = 2; }
static void offsets_odd(request_rig *r) { r->read.dl.byte_offset = 4; }
static void out_is_left(request_rig *r) { r->out.dl.data = r->left_data; }
static void out_is_scales(request_rig *r) { r->out.dl.data = r->right_scales_data; }
static void status_in_out(request_rig *r) { r->status.dl.data = r->out_data + 4; }
static void status_empty(request_rig *r) { r->status.shape[0] = 0; }
static void accumulate_f16(request_rig *r) { r->out.dl.dtype = f16; r->request.accumulate = 1; }
static void no_offset_at_all(request_rig *r) { r->read.shape[0] = 0; }
static void too_few_offsets(request_rig *r) { r->read.shape[0] = G; }
static void offset_begin(request_rig *r) { r->read_data[0] = 1; }
static void offset_negative(request_rig *r) { r->read_data[1] = -4; }
static void offset_decreases(request_rig *r) { r->read_data[2] = 3; }
static void offset_beyond(request_rig *r) { r->read_data[3] = M + 1; }
static void offset_short(request_rig *r) { r->read_data[3] = M - 1; }
static void write_short(request_rig *r) { r->request.write_offsets = &r->write.dl; r->write_data[3] = M - 1; }
static void write_length(request_rig *r) { r->request.write_offsets = &r->write.dl; r->write.shape[0] = G; }
static void write_more(request_rig *r) { r->request.write_offsets = &r->write.dl; r->write_data[1] = r->write_data[2] = 5; }
static void write_in_cols(request_rig *r) { r->request.write_offsets = &r->write.dl; }
static void no_multiple(request_rig *r) { r->read_data[1] = 80; }
/* clang-format on */

static const refusal refusals[] = {
    {MX_GEMM_ROWS, "left is NULL", no_left},
    {MX_GEMM_ROWS, "right is NULL", no_right},
    {MX_GEMM_ROWS, "out is NULL", no_out},
    {MX_GEMM_ROWS, "read_offsets is NULL", no_offsets},
    {MX_GEMM_ROWS, "left lacks scales", no_left_scales},
    {MX_GEMM_ROWS, "scales must be NULL for bf16", bf16_with_scales},
    {MX_GEMM_ROWS, "pass 7", odd_pass},
    {MX_GEMM_ROWS, "elements -1", odd_element},
    {MX_GEMM_ROWS, "mode 2", odd_mode},
    {MX_GEMM_ROWS, "policy 9", odd_policy},
    {MX_GEMM_ROWS, "num_cu -1", negative_num_cu},
    {MX_GEMM_ROWS, "left has DLPack type code 2, 32 bits", left_type},
    {MX_GEMM_ROWS, "it must be u8", left_bf16},
    {MX_GEMM_ROWS, "4 lanes", left_lanes},
    {MX_GEMM_ROWS, "right_scales has DLPack type code 0", scales_type},
    {MX_GEMM_ROWS, "it must be f32, bf16 or f16", out_type},
    {MX_GEMM_COLS, "64 bits", out_f64},
    {MX_GEMM_ROWS, "it must be int64", offsets_type},
    {MX_GEMM_ROWS, "it must be int32", status_type},
    {MX_GEMM_ROWS, "left is on DLPack device type 2", left_device},
    {MX_GEMM_ROWS, "out is on DLPack device type 1, id 1", out_device},
    {MX_GEMM_ROWS, "read_offsets is on DLPack device type 10", offsets_device},
    {MX_GEMM_ROWS, "left has 3 dimensions", left_ndim},
    {MX_GEMM_ROWS, "right has 2 dimensions", right_ndim},
    {MX_GEMM_COLS, "out has 1 dimensions", out_ndim},
    {MX_GEMM_ROWS, "read_offsets has 2 dimensions", offsets_ndim},
    {MX_GEMM_ROWS, "left: shape is NULL", left_shape_null},
    {MX_GEMM_ROWS, "size -12 of dimension 0 is negative", left_negative},
    {MX_GEMM_ROWS, "overflow 64 bits", left_huge},
    {MX_GEMM_ROWS, "a contraction of 48 elements", k_not_32},
    {MX_GEMM_ROWS, "a contraction of 0 elements", k_zero},
    {MX_GEMM_ROWS, "left has 64 elements along the contraction, right 96", k_differs},
    {MX_GEMM_ROWS, "right has the shape [4, 6, 32]; it must have [3, 6, 32]", groups_differ},
    {MX_GEMM_ROWS, "out has 11 rows, left 12", out_rows_differ},
    {MX_GEMM_ROWS, "out has the shape [12, 5]; it must have [12, 6]", out_columns_differ},
    {MX_GEMM_COLS, "out has the shape [4, 6, 5]; it must have [3, 6, 5]", out_groups_differ},
    {MX_GEMM_ROWS, "left: stride 2 of dimension 1", left_gap},
    {MX_GEMM_ROWS, "left: stride 63 of dimension 0 makes rows overlap", left_overlap},
    {MX_GEMM_ROWS, "left: stride -64", left_stride_negative},
    {MX_GEMM_ROWS, "64 bits", right_stride_huge},
    {MX_GEMM_ROWS, "out: stride 5 of dimension 0 makes rows overlap; 6 is the least", out_overlap},
    {MX_GEMM_COLS, "out: stride 29 of dimension 0", out_groups_overlap},
    {MX_GEMM_ROWS, "out: stride 2 of dimension 1", out_gap},
    {MX_GEMM_ROWS, "left_scales has the shape [11, 2]; it must have at least [12, 2]",
     left_scale_rows},
    {MX_GEMM_ROWS, "left_scales has the shape [12, 1]", left_scale_blocks},
    {MX_GEMM_ROWS, "right_scales has the shape [2, 6, 2]; it must have at least [3, 6, 2]",
     right_scale_groups},
    {MX_GEMM_COLS, "right_scales has the shape [5, 4]", right_scale_blocks},
    {MX_GEMM_ROWS, "left_scales has the shape [12, 2]; it must have at least [2, 12]",
     transposed_scales},
    {MX_GEMM_ROWS, "left: data is NULL", left_null},
    {MX_GEMM_ROWS, "read_offsets: data is NULL", offsets_null},
    {MX_GEMM_ROWS, "is not a multiple of 4", out_odd},
    {MX_GEMM_ROWS, "is not a multiple of 8", offsets_odd},
    {MX_GEMM_ROWS, "the memory of out overlaps that of left", out_is_left},
    {MX_GEMM_COLS, "the memory of out overlaps that of right_scales", out_is_scales},
    {MX_GEMM_ROWS, "overlaps that of status", status_in_out},
    {MX_GEMM_ROWS, "status has no element", status_empty},
    {MX_GEMM_ROWS, "out is f16", accumulate_f16},
    {MX_GEMM_ROWS, "read_offsets has no element", no_offset_at_all},
    {MX_GEMM_ROWS, "right has the shape [3, 6, 32]; it must have [2, 6, 32]", too_few_offsets},
    {MX_GEMM_ROWS, "read_offsets[0] is 1", offset_begin},
    {MX_GEMM_ROWS, "read_offsets[1] is -4, less than the one before, 0", offset_negative},
    {MX_GEMM_ROWS, "read_offsets[2] is 3, less than the one before, 4", offset_decreases},
    {MX_GEMM_ROWS, "is 13; the groups must add up to 12, the rows of left", offset_beyond},
    {MX_GEMM_ROWS, "is 11; the groups must add up to 12", offset_short},
    {MX_GEMM_ROWS, "write_offsets[3], the last, is 11", write_short},
    {MX_GEMM_ROWS, "write_offsets has the shape [3]", write_length},
    {MX_GEMM_ROWS, "group 0 has 4 rows to read and 5 to write", write_more},
    {MX_GEMM_COLS, "write_offsets must be NULL", write_in_cols},
    {MX_GEMM_COLS, "read_offsets[1] is 80, no multiple of 32", no_multiple},
};

START_TEST(refused)
{
    const refusal *r = &refusals[_i];
    mxrt_gemm_plan *plan = NULL;
    size_t n = 77;

    request_make(&the, r->pass);
    r->spoil(&the);
    ck_assert_msg(mxrt_gemm_plan_create(device, &the.request, &plan, &err) == MX_ERR_INVALID, "%s",
                  r->part);
    ck_assert_msg(strstr(err.message, r->part) != NULL, "\"%s\" is not in: %s", r->part,
                  err.message);
    ck_assert_ptr_null(plan);
    ck_assert_int_eq(mxrt_gemm_variants(device, &the.request, NULL, 0, &n, &err), MX_ERR_INVALID);
    ck_assert_uint_eq(n, 77);
    ck_assert(request_untouched(&the));
}
END_TEST

START_TEST(refused_arguments)
{
    mxrt_gemm_plan *plan = NULL;
    mxrt_gemm_info info;
    size_t n;

    request_make(&the, MX_GEMM_ROWS);
    ck_assert_int_eq(mxrt_gemm_plan_create(NULL, &the.request, &plan, &err), MX_ERR_INVALID);
    ck_assert_int_eq(mxrt_gemm_plan_create(device, NULL, &plan, &err), MX_ERR_INVALID);
    ck_assert_int_eq(mxrt_gemm_plan_create(device, &the.request, NULL, &err), MX_ERR_INVALID);
    ck_assert_int_eq(mxrt_gemm_run(NULL, NULL, NULL, &err), MX_ERR_INVALID);
    ck_assert_int_eq(mxrt_gemm_get_info(NULL, &info, &err), MX_ERR_INVALID);
    ck_assert_int_eq(mxrt_gemm_variants(device, &the.request, NULL, 1, &n, &err), MX_ERR_INVALID);
    ck_assert_int_eq(mxrt_gemm_variants(NULL, &the.request, NULL, 0, &n, &err), MX_ERR_INVALID);
    ck_assert_uint_eq(mxrt_gemm_workspace_bytes(NULL), 0);
    the.request.variant = "gemm_of_nowhere";
    ck_assert_int_eq(mxrt_gemm_plan_create(device, &the.request, &plan, &err), MX_ERR_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.message, "gemm_of_nowhere"));
    mxrt_gemm_plan_destroy(NULL);
    ck_assert(request_untouched(&the));
}
END_TEST

/* Other memory is checked as the request's was, at each run. */
START_TEST(refused_in_run)
{
    static int64_t decreasing[G + 1] = {0, 5, 4, M};
    static _Alignas(8) unsigned char odd[64];
    const struct {
        mxrt_gemm_buffers buffers;
        const char *part;
    } cases[] = {
        {{.out = odd + 1}, "out: address"},
        {{.out = the.left_data}, "the memory of out overlaps that of left"},
        {{.left = the.out_data}, "the memory of out overlaps that of left"},
        {{.read_offsets = decreasing}, "read_offsets[2] is 4"},
        {{.read_offsets = odd + 1}, "read_offsets: address"},
        {{.write_offsets = the.write_data}, "write_offsets is given"},
        {{.workspace = odd + 8, .workspace_bytes = 8}, "workspace: address"},
        {{.status = the.out_data}, "overlaps"},
    };
    mxrt_gemm_plan *plan;

    request_make(&the, MX_GEMM_ROWS);
    ck_assert_msg(!mxrt_gemm_plan_create(device, &the.request, &plan, &err), "%s", err.message);
    for (int i = 0; i < COUNT(cases); i++) {
        ck_assert_int_eq(mxrt_gemm_run(plan, &cases[i].buffers, NULL, &err), MX_ERR_INVALID);
        ck_assert_msg(strstr(err.message, cases[i].part) != NULL, "\"%s\" is not in: %s",
                      cases[i].part, err.message);
        ck_assert(request_untouched(&the));
    }
    mxrt_gemm_plan_destroy(plan);
    the.request.status = NULL;
    ck_assert_int_eq(mxrt_gemm_plan_create(device, &the.request, &plan, &err), MX_OK);
    ck_assert_int_eq(mxrt_gemm_run(plan, &(mxrt_gemm_buffers){.status = odd}, NULL, &err),
                     MX_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "status is given"));
    ck_assert(request_untouched(&the));
    mxrt_gemm_plan_destroy(plan);
}
END_TEST

START_TEST(no_kernel_on_a_gpu)
{
    mxrt_gemm_plan *plan = NULL;

    request_make(&the, MX_GEMM_ROWS);
    request_open_device("plan:gfx942");
    request_tensor *tensors[] = {&the.left,         &the.left_scales, &the.right,
                                 &the.right_scales, &the.out,         &the.status};
    for (int i = 0; i < COUNT(tensors); i++)
        tensors[i]->dl.device.device_type = kDLROCM;
    ck_assert_int_eq(mxrt_gemm_plan_create(device, &the.request, &plan, &err), MX_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(
        strstr(err.message,
               "no pack has a kernel for gemm_rows mxfp8e4m3.mxfp4 f32 (fast) on plan:gfx942"));
    the.request.variant = "reference";
    ck_assert_int_eq(mxrt_gemm_plan_create(device, &the.request, &plan, &err), MX_ERR_UNSUPPORTED);
    ck_assert_ptr_null(plan);
}
END_TEST

/* A driver is needed for this, but no kernel. */
START_TEST(zeros_on_a_gpu)
{
    const gemm_kind kind = {MX_GEMM_MXFP4, MX_GEMM_BF16, MX_DTYPE_BF16, MX_GEMM_FAST};
    const gemm_case cases[] = {
        {"no contraction", MX_GEMM_COLS, 3, {0, 0, 0}, 5, 7, GEMM_STRIDED, 0, GEMM_VALUES_SIGNED},
        {"together", MX_GEMM_COLS, 2, {0, 0}, 5, 8, 0, 0, GEMM_VALUES_SIGNED},
        {"kept", MX_GEMM_COLS, 2, {0, 0}, 5, 8, GEMM_ACCUMULATE, 0, GEMM_VALUES_SIGNED},
        {"no groups", MX_GEMM_ROWS, 0, {0}, 24, 64, GEMM_UNOWNED, 0, GEMM_VALUES_SIGNED},
        {"odd", MX_GEMM_ROWS, 0, {0}, 25, 64, GEMM_UNOWNED | GEMM_ODD_ROWS, 0, GEMM_VALUES_SIGNED},
    };
    gemm_outcome outcome;
    char uri[600];

    ck_assert_ptr_nonnull(getenv("MX_TEST_FAKE_CUDA"));
    snprintf(uri, sizeof(uri), "cuda:0?library=%s", getenv("MX_TEST_FAKE_CUDA"));
    request_open_device(uri);
    for (int i = 0; i < COUNT(cases); i++)
        ck_assert_msg(!gemm_case_run(device, &cases[i], &kind, NULL, &outcome), "%s: %s",
                      cases[i].name, outcome.text);
}
END_TEST

/* ---- The reference ---- */

static const gemm_kind kinds[] = {
    {MX_GEMM_MXFP4, MX_GEMM_MXFP4, MX_DTYPE_F32, MX_GEMM_EXACT},
    {MX_GEMM_MXFP8_E4M3, MX_GEMM_MXFP4, MX_DTYPE_BF16, MX_GEMM_FAST},
    {MX_GEMM_BF16, MX_GEMM_MXFP4, MX_DTYPE_F16, MX_GEMM_FAST},
    {MX_GEMM_MXFP8_E5M2, MX_GEMM_MXFP8_E4M3, MX_DTYPE_F32, MX_GEMM_FAST},
    {MX_GEMM_MXFP4, MX_GEMM_BF16, MX_DTYPE_BF16, MX_GEMM_EXACT},
};

START_TEST(reference_is_the_product)
{
    const gemm_case *c = gemm_case_at((size_t)_i);

    int64_t work = 0;
    for (int g = 0; g < c->n_groups; g++)
        work += c->sizes[g] * c->n * c->k;
    /* The first, and of small ones another, in turn. */
    for (int i = 0; i < (work < 20000000 ? COUNT(kinds) : 1); i += 1 + _i % (COUNT(kinds) - 1)) {
        gemm_outcome outcome;
        gemm_verdict verdict = gemm_case_run(device, c, &kinds[i], NULL, &outcome);
        ck_assert_msg(verdict != GEMM_WRONG, "%s, kind %d: %s", c->name, i, outcome.text);
        if (kinds[i].dtype != MX_DTYPE_F16)
            ck_assert_int_eq(verdict, GEMM_OK);
    }
}
END_TEST

START_TEST(reference_clamps_bad_offsets)
{
    gemm_outcome outcome;

    for (int pass = 0; pass < MX_GEMM_PASS_COUNT; pass++)
        ck_assert_msg(!gemm_bad_offsets_run(device, (mx_gemm_pass)pass, &kinds[0], NULL, &outcome),
                      "%s", outcome.text);
}
END_TEST

static void run_rig(request_rig *r)
{
    mxrt_gemm_plan *plan;

    ck_assert_msg(!mxrt_gemm_plan_create(device, &r->request, &plan, &err), "%s", err.message);
    ck_assert_msg(!mxrt_gemm_run(plan, NULL, NULL, &err), "%s", err.message);
    mxrt_gemm_plan_destroy(plan);
}

START_TEST(special_values)
{
    request_make(&the, MX_GEMM_ROWS);
    the.left_scales_data[0] = 255;     /* row 0: a block of NaN */
    the.left_data[K + 3] = 0xff;       /* row 1: a NaN */
    the.left_scales_data[2 * 2] = 254; /* row 2: beyond f32 */
    the.left_scales_data[3 * 2] = 0;   /* row 3: its first block is tiny */
    run_rig(&the);
    ck_assert(isnan(request_out_at(&the, 0)) && isnan(request_out_at(&the, N)));
    ck_assert(isinf(request_out_at(&the, 2 * N)));
    ck_assert(request_out_at(&the, 3 * N) == 32);
    ck_assert(request_out_at(&the, 4 * N) == 64);
    ck_assert_int_eq(the.status_data, 0);
    /* Only in gemm_cols a block of zeros is zero whatever its scale. */
    memset(the.left_data + 5 * K, 0, K);
    the.left_scales_data[5 * 2] = 255;
    run_rig(&the);
    ck_assert(isnan(request_out_at(&the, 5 * N)));
    request_make(&the, MX_GEMM_COLS);
    the.request.left_element = MX_GEMM_MXFP8_E5M2;
    memset(the.left_data, 0x3c, sizeof(the.left_data));
    memset(the.left_data, 0x80, 32);
    the.left_scales_data[0] = 255;
    the.left_data[MPAD] = 0x7c; /* row 1: Inf */
    run_rig(&the);
    ck_assert(request_out_at(&the, 0) == 64);
    ck_assert(isinf(request_out_at(&the, 5)));
    ck_assert(request_out_at(&the, 10) == 96);
}
END_TEST

/* Rows and groups that lie more than 2^32 bytes apart, in memory that is mostly not there. */
START_TEST(far_apart)
{
    const size_t reserved = (size_t)40 << 30;
    const int64_t far = (int64_t)9 << 30;
    unsigned char *memory = mmap(NULL, reserved, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    ck_assert_ptr_ne(memory, MAP_FAILED);
    request_make(&the, MX_GEMM_ROWS);
    the.read_data[0] = the.read_data[1] = 0;
    the.read_data[2] = the.read_data[3] = 2;
    request_set(&the.left, u8, memory, 2, 2, K, 0);
    the.left.strides[0] = far;
    request_set(&the.right, u8, memory + (1 << 20), 3, G, N, K / 2);
    the.right.strides[0] = far;
    request_set(&the.out, f32, memory + (2 << 20), 2, 2, N, 0);
    the.out.strides[0] = far / 4;
    /* Their pages interleave: what is checked is that of the whole extents. */
    mxrt_gemm_plan *plan;
    ck_assert_int_eq(mxrt_gemm_plan_create(device, &the.request, &plan, &err), MX_ERR_INVALID);
    the.out.dl.data = memory + 2 * far + (4 << 20);
    memset(memory, 0x38, K);
    memset(memory + far, 0x40, K);
    memset(memory + (1 << 20) + far, 0x22, N * K / 2);
    run_rig(&the);
    float first, second;
    memcpy(&first, memory + 2 * far + (4 << 20), 4);
    memcpy(&second, memory + 3 * far + (4 << 20) + 4 * (N - 1), 4);
    ck_assert(first == 64 && second == 128);
    munmap(memory, reserved);
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
    Suite *suite = suite_create("gemm");
    TCase *checks = add_case(suite, "checks");
    TCase *reference = add_case(suite, "reference");

    tcase_add_loop_test(checks, refused, 0, COUNT(refusals));
    tcase_add_test(checks, refused_arguments);
    tcase_add_test(checks, refused_in_run);
    tcase_add_test(checks, no_kernel_on_a_gpu);
    tcase_add_test(checks, zeros_on_a_gpu);
    tcase_add_loop_test(reference, reference_is_the_product, 0, (int)gemm_case_count());
    tcase_add_test(reference, reference_clamps_bad_offsets);
    tcase_add_test(reference, special_values);
    tcase_add_test(reference, far_apart);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
