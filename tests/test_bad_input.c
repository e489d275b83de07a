/* Every wrong argument of the C interface: a clear error, and nothing written. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/rt.h>

static const DLDevice cpu = {kDLCPU, 0};
static const DLDataType f32 = {kDLFloat, 32, 1}, u8 = {kDLUInt, 8, 1};

static mxrt_context *context;
static mxrt_device *device;

/* A right call of each operation, to be spoilt. */
static _Alignas(64) float x_data[4 * 64], y_data[4 * 64];
static _Alignas(64) unsigned char p_data[16 * 18 + 64];
static int64_t x_shape[2], x_strides[2], y_shape[2], y_strides[2], p_shape[2], p_strides[2];
static DLTensor x, y, p;
static mx_error err;

static void set_up(void)
{
    ck_assert_int_eq(mxrt_context_create(NULL, &context, NULL), MX_OK);
    ck_assert_int_eq(mxrt_device_open(context, "host?threads=2", &device, NULL), MX_OK);
    x_shape[0] = y_shape[0] = 4;
    x_shape[1] = y_shape[1] = 64;
    x_strides[0] = y_strides[0] = 64;
    x_strides[1] = y_strides[1] = 1;
    p_shape[0] = 16;
    p_shape[1] = p_strides[0] = 18;
    p_strides[1] = 1;
    x = (DLTensor){x_data, cpu, 2, f32, x_shape, x_strides, 0};
    y = (DLTensor){y_data, cpu, 2, f32, y_shape, y_strides, 0};
    p = (DLTensor){p_data, cpu, 2, u8, p_shape, p_strides, 0};
    memset(x_data, 0x11, sizeof(x_data));
    memset(y_data, 0xa5, sizeof(y_data));
    memset(p_data, 0xa5, sizeof(p_data));
    memset(&err, 0, sizeof(err));
}

static void tear_down(void)
{
    mxrt_device_close(device);
    mxrt_context_destroy(context);
}

static int is_untouched(const void *data, size_t size_bytes)
{
    const unsigned char *bytes = data;

    for (size_t i = 0; i < size_bytes; i++) {
        if (bytes[i] != 0xa5)
            return 0;
    }
    return 1;
}

/* The call failed, said so, named `word`, and wrote nothing. */
static void check_failed(mx_status status, mx_status want, const char *word)
{
    ck_assert_msg(status == want, "status %s, message: %s", mx_status_name(status), err.message);
    ck_assert_int_eq(err.status, status);
    ck_assert_msg(strstr(err.message, word) != NULL, "\"%s\" is not in: %s", word, err.message);
    ck_assert(is_untouched(p_data, sizeof(p_data)));
    ck_assert(is_untouched(y_data, sizeof(y_data)));
}

static void to_fails(const char *word)
{
    check_failed(mxrt_convert_to(device, MX_FORMAT_MX9, -1, &x, &p, NULL, &err), MX_ERR_INVALID,
                 word);
}

static void from_fails(const char *word)
{
    check_failed(mxrt_convert_from(device, MX_FORMAT_MX9, -1, &p, &y, NULL, &err), MX_ERR_INVALID,
                 word);
}

static void qdq_fails(const char *word)
{
    check_failed(
        mxrt_quantize_dequantize(device, MX_FORMAT_MX9, MX_PROFILE_PACKED, -1, &x, &y, NULL, &err),
        MX_ERR_INVALID, word);
}

START_TEST(right_calls_work)
{
    ck_assert_int_eq(mxrt_convert_to(device, MX_FORMAT_MX9, -1, &x, &p, NULL, &err), MX_OK);
    ck_assert_int_eq(mxrt_convert_from(device, MX_FORMAT_MX9, -1, &p, &y, NULL, &err), MX_OK);
    ck_assert_int_eq(mxrt_quantize_dequantize(device, MX_FORMAT_MX9, MX_PROFILE_DEMOTED_255, -1, &x,
                                              &y, NULL, &err),
                     MX_OK);
    ck_assert(!is_untouched(p_data, 16 * 18));
    ck_assert(is_untouched(p_data + 16 * 18, 64));
}
END_TEST

START_TEST(unknown_choices)
{
    check_failed(mxrt_convert_to(device, (mx_format)77, -1, &x, &p, NULL, &err), MX_ERR_INVALID,
                 "77");
    check_failed(mxrt_convert_to(device, (mx_format)-1, -1, &x, &p, NULL, &err), MX_ERR_INVALID,
                 "-1");
    check_failed(mxrt_convert_to(device, MX_FORMAT_MX9, 2, &x, &p, NULL, &err), MX_ERR_INVALID,
                 "axis 2");
    check_failed(mxrt_convert_to(device, MX_FORMAT_MX9, -3, &x, &p, NULL, &err), MX_ERR_INVALID,
                 "axis -3");
    check_failed(
        mxrt_quantize_dequantize(device, MX_FORMAT_MX9, (mx_profile)9, -1, &x, &y, NULL, &err),
        MX_ERR_INVALID, "profile 9");
    check_failed(
        mxrt_prepare(device, (mx_op)5, MX_FORMAT_MX9, MX_DTYPE_F32, MX_PROFILE_PACKED, &err),
        MX_ERR_INVALID, "operation 5");
    check_failed(
        mxrt_prepare(device, MX_OP_TO, MX_FORMAT_MX9, MX_DTYPE_F32, MX_PROFILE_DEMOTED_255, &err),
        MX_ERR_INVALID, "qdq");
}
END_TEST

START_TEST(wrong_types)
{
    x.dtype.bits = 64;
    to_fails("64 bits");
    x.dtype = (DLDataType){kDLFloat, 32, 4};
    to_fails("4 lanes");
    x.dtype = (DLDataType){kDLInt, 32, 1};
    to_fails("code 0");
    x.dtype = f32;
    p.dtype = (DLDataType){kDLInt, 8, 1};
    to_fails("u8");
    from_fails("u8");
    y.dtype = (DLDataType){kDLBfloat, 16, 1};
    qdq_fails("bf16");
}
END_TEST

START_TEST(null_pointers)
{
    check_failed(mxrt_convert_to(NULL, MX_FORMAT_MX9, -1, &x, &p, NULL, &err), MX_ERR_INVALID,
                 "device");
    check_failed(mxrt_convert_to(device, MX_FORMAT_MX9, -1, NULL, &p, NULL, &err), MX_ERR_INVALID,
                 "x is NULL");
    check_failed(mxrt_convert_to(device, MX_FORMAT_MX9, -1, &x, NULL, NULL, &err), MX_ERR_INVALID,
                 "packed is NULL");
    x.data = NULL;
    to_fails("x: data is NULL");
    x.byte_offset = 64;
    to_fails("x: data is NULL");
    x.data = x_data;
    x.byte_offset = 0;
    p.data = NULL;
    to_fails("packed: data is NULL");
    p.data = p_data;
    x.shape = NULL;
    to_fails("shape is NULL");
    /* The error record is optional. */
    ck_assert_int_eq(mxrt_convert_to(device, MX_FORMAT_MX9, -1, &x, &p, NULL, NULL),
                     MX_ERR_INVALID);
}
END_TEST

START_TEST(foreign_devices)
{
    x.device.device_type = kDLROCM;
    to_fails("device type 10");
    x.device = (DLDevice){kDLCPU, 1};
    to_fails("id 1");
    x.device = cpu;
    p.device.device_type = kDLCUDA;
    to_fails("device type 2");
    from_fails("device type 2");
}
END_TEST

START_TEST(wrong_shapes)
{
    int64_t many[33];

    p_shape[0] = 15;
    to_fails("[15, 18]");
    from_fails("[16, 18]");
    p_shape[0] = 16;
    p_shape[1] = 12;
    to_fails("[16, 12]");
    p_shape[1] = 18;
    p.ndim = 1;
    to_fails("1 dimensions");
    p.ndim = 2;
    y_shape[0] = 3;
    qdq_fails("dimension 0 is 4 in x and 3 in y");
    y.ndim = 1;
    qdq_fails("2 dimensions");
    x.ndim = 0;
    to_fails("0 dimensions");
    for (int i = 0; i < 33; i++)
        many[i] = 1;
    x.ndim = 33;
    x.shape = many;
    x.strides = NULL;
    to_fails("33 dimensions");
}
END_TEST

START_TEST(empty_and_negative_sizes)
{
    x_shape[1] = 0;
    to_fails("size 0");
    x_shape[1] = 64;
    x_shape[0] = -4;
    to_fails("-4");
    /* The empty axis is an error with no rows, too. */
    x_shape[0] = 0;
    x_shape[1] = 0;
    p_shape[0] = 0;
    to_fails("size 0");
    x_shape[1] = 64;
    ck_assert_int_eq(mxrt_convert_to(device, MX_FORMAT_MX9, -1, &x, &p, NULL, &err), MX_OK);
    ck_assert(is_untouched(p_data, sizeof(p_data)));
}
END_TEST

START_TEST(overflowing_sizes)
{
    int64_t n_blocks = 42, block_bytes = 42;

    x.strides = NULL;
    x_shape[0] = x_shape[1] = (int64_t)1 << 32;
    to_fails("overflow");
    x_shape[0] = (int64_t)1 << 31;
    to_fails("overflow"); /* elements fit, bytes do not */
    x.strides = x_strides;
    x_shape[0] = 4;
    x_shape[1] = 64;
    x_strides[0] = INT64_MAX / 2;
    to_fails("64 bits");
    x_strides[0] = (int64_t)1 << 60;
    to_fails("overflow");
    x_strides[0] = (int64_t)1 << 58;
    x.data = (void *)(UINTPTR_MAX - 4095);
    to_fails("address space");
    x.byte_offset = UINT64_MAX - 3;
    to_fails("address space");
    x_shape[0] = INT64_MAX;
    x_shape[1] = 1;
    check_failed(mxrt_packed_shape(MX_FORMAT_MX9, 2, x_shape, -1, &n_blocks, &block_bytes, &err),
                 MX_ERR_INVALID, "overflow");
    ck_assert_int_eq(n_blocks, 42);
    ck_assert_int_eq(block_bytes, 42);
}
END_TEST

START_TEST(bad_strides)
{
    x_strides[0] = -64;
    to_fails("negative");
    x_strides[0] = 63;
    to_fails("overlap");
    x_strides[0] = 64;
    p_strides[0] = 17;
    to_fails("overlap");
    from_fails("overlap");
    p_strides[0] = 0;
    to_fails("broadcast");
    p_strides[0] = 18;
    p_strides[1] = -1;
    to_fails("negative");
    p_strides[1] = 1;
    y_strides[0] = 0;
    from_fails("overlap");
    y_strides[0] = 32;
    qdq_fails("overlap");
}
END_TEST

START_TEST(misaligned_data)
{
    x.byte_offset = 2;
    to_fails("multiple of 4");
    x.byte_offset = 0;
    y.data = (unsigned char *)y_data + 1;
    from_fails("multiple of 4");
}
END_TEST

START_TEST(aliased_buffers)
{
    y = x;
    y.byte_offset = 16;
    qdq_fails("overlaps");
    p.data = x_data;
    to_fails("overlaps");
    p.data = (unsigned char *)x_data + sizeof(x_data) - 1;
    to_fails("overlaps");
    y.byte_offset = 0;
    ck_assert_int_eq(
        mxrt_quantize_dequantize(device, MX_FORMAT_MX9, MX_PROFILE_PACKED, -1, &x, &y, NULL, &err),
        MX_OK);
}
END_TEST

START_TEST(devices)
{
    static const struct {
        const char *uri, *word;
    } wrong[] = {
        {"", "unknown"},           {"gpu:0", "gpu"},          {"hos", "unknown"},
        {"host?threads=0", "1"},   {"host?threads=-2", "-2"}, {"host?threads=99999", "99999"},
        {"host?threads=2x", "2x"}, {"host?cores=2", "cores"}, {"host?threads=", "threads"},
        {"plan:", "plan:"},        {"plan", "plan:"},
    };
    mxrt_device *opened = (mxrt_device *)&context;
    size_t n;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        memset(&err, 0, sizeof(err));
        check_failed(mxrt_device_open(context, wrong[i].uri, &opened, &err), MX_ERR_INVALID,
                     wrong[i].word);
        ck_assert_ptr_eq(opened, &context);
    }
    check_failed(mxrt_device_open(NULL, "host", &opened, &err), MX_ERR_INVALID, "context");
    check_failed(mxrt_device_open(context, NULL, &opened, &err), MX_ERR_INVALID, "uri");
    check_failed(mxrt_devices(context, NULL, 3, &n, &err), MX_ERR_INVALID, "infos");
    check_failed(mxrt_device_copy(device, NULL, x_data, 4, NULL, &err), MX_ERR_INVALID, "NULL");
    check_failed(mxrt_device_time(device, NULL, NULL, 1, NULL, &err), MX_ERR_INVALID, "NULL");
    mxrt_counters counts = {.size_bytes = sizeof(counts)}, other = {.size_bytes = 1};
    check_failed(mxrt_device_counters(device, NULL, &err), MX_ERR_INVALID, "NULL");
    check_failed(mxrt_device_counters(device, &other, &err), MX_ERR_INVALID, "size_bytes is 1");
    check_failed(mxrt_device_counters(device, &counts, &err), MX_ERR_UNSUPPORTED, "counts nothing");
    mxrt_device_close(NULL);
    mxrt_context_destroy(NULL);
    mxrt_plan_destroy(NULL);
    mxrt_device_free(device, NULL);
}
END_TEST

START_TEST(packs)
{
    check_failed(mxrt_context_add_pack_file(context, "/nonexistent/kernels.mxdb", &err),
                 MX_ERR_NOT_FOUND, "/nonexistent/kernels.mxdb");
    check_failed(mxrt_context_add_pack_memory(context, "no pack", 7, &err), MX_ERR_CORRUPT, "");
    check_failed(mxrt_context_add_pack_memory(context, NULL, 7, &err), MX_ERR_INVALID, "NULL");
    check_failed(mxrt_context_add_pack_file(context, NULL, &err), MX_ERR_INVALID, "NULL");
}
END_TEST

START_TEST(plans)
{
    mxrt_plan_request request = {
        .op = MX_OP_TO, .format = MX_FORMAT_MX9, .axis = -1, .in = &x, .out = &p};
    mxrt_plan *plan = (mxrt_plan *)&context;
    const char *names[1];
    size_t n = 42;

    request.variant = "no_such_kernel";
    check_failed(mxrt_plan_create(device, &request, &plan, &err), MX_ERR_NOT_FOUND,
                 "no_such_kernel");
    request.variant = NULL;
    request.profile = MX_PROFILE_DEMOTED_255;
    check_failed(mxrt_plan_create(device, &request, &plan, &err), MX_ERR_INVALID, "qdq");
    request.profile = MX_PROFILE_PACKED;
    request.op = (mx_op)8;
    check_failed(mxrt_plan_create(device, &request, &plan, &err), MX_ERR_INVALID, "operation 8");
    check_failed(mxrt_plan_variants(device, &request, names, 1, &n, &err), MX_ERR_INVALID,
                 "operation 8");
    ck_assert_uint_eq(n, 42);
    check_failed(mxrt_plan_create(device, NULL, &plan, &err), MX_ERR_INVALID, "request");
    ck_assert_ptr_eq(plan, &context);

    request.op = MX_OP_TO;
    ck_assert_int_eq(mxrt_plan_create(device, &request, &plan, &err), MX_OK);
    check_failed(mxrt_plan_run(plan, x_data, NULL, NULL, &err), MX_ERR_INVALID, "out_data");
    check_failed(mxrt_plan_run(plan, (char *)x_data + 1, p_data, NULL, &err), MX_ERR_INVALID,
                 "multiple of 4");
    check_failed(mxrt_plan_run(plan, x_data, x_data, NULL, &err), MX_ERR_INVALID, "overlaps");
    check_failed(mxrt_plan_run(NULL, NULL, NULL, NULL, &err), MX_ERR_INVALID, "plan");
    mxrt_plan_destroy(plan);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bad input");
    TCase *tests = tcase_create("all");

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, right_calls_work);
    tcase_add_test(tests, unknown_choices);
    tcase_add_test(tests, wrong_types);
    tcase_add_test(tests, null_pointers);
    tcase_add_test(tests, foreign_devices);
    tcase_add_test(tests, wrong_shapes);
    tcase_add_test(tests, empty_and_negative_sizes);
    tcase_add_test(tests, overflowing_sizes);
    tcase_add_test(tests, bad_strides);
    tcase_add_test(tests, misaligned_data);
    tcase_add_test(tests, aliased_buffers);
    tcase_add_test(tests, devices);
    tcase_add_test(tests, packs);
    tcase_add_test(tests, plans);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
