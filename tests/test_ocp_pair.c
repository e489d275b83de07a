/* Rows and columns of a tensor quantised at once, and packed weights turned to the other axis: the
 * reference against single operations on matrices that are transposed and padded here. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/rt.h>

#include "tests/cases.h"

enum { M = 300, K = 72, GROUPS = 4, ALIGN = 128, CAPACITY = 6 * 128, BLOCKS = CAPACITY / 32 };

static const DLDevice cpu = {kDLCPU, 0};
static const DLDataType u8 = {.code = kDLUInt, .bits = 8, .lanes = 1};
static const DLDataType i64 = {.code = kDLInt, .bits = 64, .lanes = 1};
static const int64_t begins[GROUPS + 1] = {0, 130, 130, 131, M};
static const int64_t padded[GROUPS + 1] = {0, 256, 256, 384, 640};

static mxrt_context *context;
static mxrt_device *device;
static mx_error error;

static void setup(void)
{
    ck_assert_int_eq(mxrt_context_create(NULL, &context, &error), MX_OK);
    ck_assert_int_eq(mxrt_device_open(context, "host", &device, &error), MX_OK);
}

static void teardown(void)
{
    mxrt_device_close(device);
    mxrt_context_destroy(context);
}

/* A tensor in memory of its own, which is 0xcc. */
typedef struct bytes {
    unsigned char *data;
    size_t size;
    mx_case_tensor tensor;
} bytes;

static bytes *make(DLDataType type, int64_t rows, int64_t columns)
{
    bytes *b = calloc(1, sizeof(*b));
    const int64_t shape[] = {rows, columns};
    ck_assert_ptr_nonnull(b);
    b->size = (size_t)(rows * columns * type.bits / 8);
    b->data = malloc(b->size);
    ck_assert_ptr_nonnull(b->data);
    memset(b->data, 0xcc, b->size);
    mx_case_contiguous(type, cpu, 2, shape, b->data, &b->tensor);
    return b;
}

static void drop(bytes *b)
{
    free(b->data);
    free(b);
}

static bytes *make_offsets(const int64_t *values)
{
    const int64_t shape[] = {GROUPS + 1};
    bytes *b = make(i64, 1, GROUPS + 1);
    mx_case_contiguous(i64, cpu, 1, shape, b->data, &b->tensor);
    if (values)
        memcpy(b->data, values, b->size);
    return b;
}

/* x, transposed, each group's rows padded. */
static void turn(const unsigned char *x, size_t element, unsigned char *out)
{
    memset(out, 0, (size_t)K * CAPACITY * element);
    for (int64_t g = 0; g < GROUPS; g++) {
        for (int64_t row = begins[g]; row < begins[g + 1]; row++) {
            for (int64_t k = 0; k < K; k++)
                memcpy(out + (size_t)(k * CAPACITY + padded[g] + row - begins[g]) * element,
                       x + (size_t)(row * K + k) * element, element);
        }
    }
}

START_TEST(pair_is_two_operations)
{
    mx_format format = (mx_format)(MX_FORMAT_PACKED_COUNT + _i / MX_DTYPE_COUNT);
    mx_dtype dtype = (mx_dtype)(_i % MX_DTYPE_COUNT);
    int64_t block_bytes = mx_format_get(format)->block_bytes;
    DLDataType type = mx_case_dl_type(dtype);
    mx_ocp_options options = mx_ocp_preset((mx_ocp_profile)(_i % MX_OCP_PROFILE_COUNT));
    bytes *x = make(type, M, K), *turned = make(type, K, CAPACITY);
    bytes *p[2], *s[2], *c[2], *t[2], *given = make_offsets(begins), *told = make_offsets(NULL);
    mx_case_fill(MX_VALUES_OUTLIERS, (uint64_t)_i, dtype, x->data, (int64_t)M * K);
    turn(x->data, type.bits / 8u, turned->data);
    for (int i = 0; i < 2; i++) {
        p[i] = make(u8, (int64_t)M * 3, block_bytes);
        s[i] = make(u8, M, 3);
        c[i] = make(u8, K, BLOCKS * block_bytes);
        t[i] = make(u8, K, BLOCKS);
    }
    mxrt_ocp_columns columns = {.data = &c[0]->tensor.tensor,
                                .scales = &t[0]->tensor.tensor,
                                .offsets = &given->tensor.tensor,
                                .padded_offsets = &told->tensor.tensor,
                                .group_align = ALIGN,
                                .hadamard = _i % 2};
    ck_assert_msg(!mxrt_ocp_quantize_pair(device, format, &options, -1, &x->tensor.tensor,
                                          &p[0]->tensor.tensor, &s[0]->tensor.tensor, &columns,
                                          NULL, &error),
                  "%s", error.message);
    ck_assert_msg(!mxrt_ocp_quantize(device, format, &options, -1, &x->tensor.tensor,
                                     &p[1]->tensor.tensor, &s[1]->tensor.tensor, NULL, &error),
                  "%s", error.message);
    options.hadamard = (uint8_t)(_i % 2);
    const int64_t as_blocks[] = {(int64_t)K * BLOCKS, block_bytes};
    mx_case_contiguous(u8, cpu, 2, as_blocks, c[1]->data, &c[1]->tensor);
    ck_assert_msg(!mxrt_ocp_quantize(device, format, &options, -1, &turned->tensor.tensor,
                                     &c[1]->tensor.tensor, &t[1]->tensor.tensor, NULL, &error),
                  "%s", error.message);
    ck_assert_mem_eq(p[0]->data, p[1]->data, p[0]->size);
    ck_assert_mem_eq(s[0]->data, s[1]->data, s[0]->size);
    ck_assert_mem_eq(c[0]->data, c[1]->data, c[0]->size);
    ck_assert_mem_eq(t[0]->data, t[1]->data, t[0]->size);
    ck_assert_mem_eq(told->data, padded, sizeof(padded));
    for (int i = 0; i < 2; i++)
        drop(p[i]), drop(s[i]), drop(c[i]), drop(t[i]);
    drop(x), drop(turned), drop(given), drop(told);
}
END_TEST

START_TEST(weight_turns)
{
    const mx_format format = MX_FORMAT_MXFP4;
    const DLDataType bf16 = mx_case_dl_type(MX_DTYPE_BF16);
    bytes *x = make(bf16, 96, 64), *between = make(bf16, 96, 64), *again = make(bf16, 96, 64);
    bytes *rows = make(u8, 96 * 2, 16), *row_scales = make(u8, 96, 2);
    bytes *turned = make(u8, 64 * 3, 16), *turned_scales = make(u8, 64, 3);
    bytes *expected = make(u8, 64 * 3, 16), *expected_scales = make(u8, 64, 3);
    mx_case_fill(MX_VALUES_NORMAL, 5, MX_DTYPE_BF16, x->data, 96 * 64);
    ck_assert_int_eq(mxrt_ocp_quantize(device, format, NULL, 1, &x->tensor.tensor,
                                       &rows->tensor.tensor, &row_scales->tensor.tensor, NULL,
                                       &error),
                     MX_OK);
    ck_assert_int_eq(mxrt_ocp_requantize(device, format, NULL, 1, &rows->tensor.tensor,
                                         &row_scales->tensor.tensor, 0, &between->tensor.tensor,
                                         &turned->tensor.tensor, &turned_scales->tensor.tensor,
                                         NULL, &error),
                     MX_OK);
    ck_assert_int_eq(mxrt_ocp_qdq(device, format, NULL, 1, &x->tensor.tensor, &again->tensor.tensor,
                                  NULL, &error),
                     MX_OK);
    ck_assert_int_eq(mxrt_ocp_quantize(device, format, NULL, 0, &again->tensor.tensor,
                                       &expected->tensor.tensor, &expected_scales->tensor.tensor,
                                       NULL, &error),
                     MX_OK);
    ck_assert_mem_eq(turned->data, expected->data, expected->size);
    ck_assert_mem_eq(turned_scales->data, expected_scales->data, expected_scales->size);
    drop(x), drop(between), drop(again), drop(rows), drop(row_scales);
    drop(turned), drop(turned_scales), drop(expected), drop(expected_scales);
}
END_TEST

/* The host turns blocks in two steps: a plan of one says so, and writes nothing. */
START_TEST(no_plan_on_the_host)
{
    bytes *rows = make(u8, 96 * 2, 16), *row_scales = make(u8, 96, 2);
    bytes *between = make(mx_case_dl_type(MX_DTYPE_F32), 96, 64);
    bytes *turned = make(u8, 64 * 3, 16), *turned_scales = make(u8, 64, 3);
    const mxrt_ocp_turned to = {0, &turned->tensor.tensor, &turned_scales->tensor.tensor};
    static const char *const variants[] = {NULL, "reference"};
    mxrt_plan_request request = {.op = MX_OP_FROM,
                                 .format = MX_FORMAT_MXFP4,
                                 .axis = 1,
                                 .in = &rows->tensor.tensor,
                                 .out = &between->tensor.tensor,
                                 .scales = &row_scales->tensor.tensor,
                                 .turned = &to,
                                 .variant = variants[_i]};
    mxrt_plan *plan = NULL;
    ck_assert_int_eq(mxrt_plan_create(device, &request, &plan, &error), MX_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(error.message, "mxrt_ocp_requantize") != NULL, "%s", error.message);
    ck_assert_ptr_null(plan);
    for (size_t i = 0; i < turned->size; i++)
        ck_assert_uint_eq(turned->data[i], 0xcc);
    drop(rows), drop(row_scales), drop(between), drop(turned), drop(turned_scales);
}
END_TEST

START_TEST(capacities)
{
    ck_assert_int_eq(mxrt_ocp_columns_capacity(0, 0, 128), 0);
    ck_assert_int_eq(mxrt_ocp_columns_capacity(1, 0, 128), 128);
    ck_assert_int_eq(mxrt_ocp_columns_capacity(128, 1, 128), 128);
    ck_assert_int_eq(mxrt_ocp_columns_capacity(128, 2, 128), 256);
    ck_assert_int_eq(mxrt_ocp_columns_capacity(M, GROUPS, ALIGN), 6 * 128);
    ck_assert_int_eq(mxrt_ocp_columns_capacity(M, GROUPS, 100), -1);
    ck_assert_int_eq(mxrt_ocp_columns_capacity(-1, GROUPS, 128), -1);
    ck_assert_int_eq(mxrt_ocp_columns_capacity(INT64_MAX, 2, 128), -1);
}
END_TEST

/* Each is one change of a good request. */
START_TEST(refusals)
{
    static const char *const words[] = {
        "group_align", "padded_offsets", "room for", "columns' data",
        "2-D",         "overlaps",       "int64",    "columns' scales"};
    mx_ocp_options options = mx_ocp_preset(MX_OCP_ALTO);
    bytes *x = make(mx_case_dl_type(MX_DTYPE_BF16), M, K), *p = make(u8, M * 3, 16);
    bytes *s = make(u8, M, 3), *c = make(u8, K, BLOCKS * 16), *t = make(u8, K, BLOCKS);
    bytes *given = make_offsets(begins), *told = make_offsets(NULL);
    memset(x->data, 0, x->size);
    mxrt_ocp_columns columns = {&c->tensor.tensor,
                                &t->tensor.tensor,
                                &given->tensor.tensor,
                                &told->tensor.tensor,
                                ALIGN,
                                0};
    if (_i == 0)
        columns.group_align = 100;
    if (_i == 1)
        columns.padded_offsets = NULL;
    if (_i == 2)
        c->tensor.shape[1] -= 128 / 2;
    if (_i == 3)
        c->tensor.strides[1] = 2, c->tensor.strides[0] *= 2;
    if (_i == 4)
        options.two_d = 1;
    if (_i == 5)
        t->tensor.tensor.data = c->data;
    if (_i == 6)
        given->tensor.tensor.dtype.bits = 32;
    if (_i == 7)
        t->tensor.shape[0]--;
    s->tensor.shape[0] = options.two_d ? (M + 31) / 32 : M;
    ck_assert_int_eq(mxrt_ocp_quantize_pair(device, MX_FORMAT_MXFP4, &options, -1,
                                            &x->tensor.tensor, &p->tensor.tensor, &s->tensor.tensor,
                                            &columns, NULL, &error),
                     MX_ERR_INVALID);
    ck_assert_msg(strstr(error.message, words[_i]) != NULL, "%s", error.message);
    for (size_t i = 0; i < p->size; i++)
        ck_assert_uint_eq(p->data[i], 0xcc);
    for (size_t i = 0; i < c->size; i++)
        ck_assert_uint_eq(c->data[i], 0xcc);
    drop(x), drop(p), drop(s), drop(c), drop(t);
    drop(given), drop(told);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ocp_pair");
    TCase *tcase = tcase_create("host");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, pair_is_two_operations, 0,
                        (MX_FORMAT_COUNT - MX_FORMAT_PACKED_COUNT) * MX_DTYPE_COUNT);
    tcase_add_test(tcase, weight_turns);
    tcase_add_loop_test(tcase, no_plan_on_the_host, 0, 2);
    tcase_add_test(tcase, capacities);
    tcase_add_loop_test(tcase, refusals, 0, 8);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? 1 : 0;
}
