/* The host's kernels of the OCP formats: every value of the half types alone at every place of a
 * block, in every format and profile, against the oracle; every code with every scale, mixed blocks
 * and stochastic rounding against the reference. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "ocp_oracle.h"

enum {
    VALUES = 0x10000,
    N_FORMATS = MX_FORMAT_COUNT - FIRST,
    MIXED = 8192 /* blocks */
};

static mxrt_context *context;
static mxrt_device *device;
static mx_error error;

/* A tensor of blocks, its data and scales, and what these must be. */
typedef struct tensors {
    mx_format format;
    mx_dtype dtype;
    int64_t n_blocks, shape[2], data_shape[2], scales_shape[2];
    DLTensor x, data, scales;
    unsigned char *want_data, *want_scales;
} tensors;

static void setup(void)
{
    const char *pack = getenv("MX_TEST_OCP_PACK");
    ck_assert_ptr_nonnull(pack);
    ck_assert_int_eq(mxrt_context_create(NULL, &context, &error), MX_OK);
    ck_assert_msg(!mxrt_context_add_pack_file(context, pack, &error), "%s", error.message);
    ck_assert_msg(!mxrt_device_open(context, "host", &device, &error), "%s", error.message);
}

static void teardown(void)
{
    mxrt_device_close(device);
    mxrt_context_destroy(context);
}

static void make(tensors *t, mx_format format, mx_dtype dtype, int64_t n_blocks)
{
    const int64_t block_bytes = mx_format_get(format)->block_bytes;
    *t = (tensors){.format = format,
                   .dtype = dtype,
                   .n_blocks = n_blocks,
                   .shape = {n_blocks, N},
                   .data_shape = {n_blocks, block_bytes},
                   .scales_shape = {n_blocks, 1},
                   .want_data = calloc((size_t)(n_blocks * block_bytes), 1),
                   .want_scales = calloc((size_t)n_blocks, 1)};
    t->x = plain_of(calloc((size_t)(n_blocks * N), 4), dtype, 2, t->shape, NULL);
    t->data =
        tensor_of(calloc((size_t)(n_blocks * block_bytes), 1), bytes_type, 2, t->data_shape, NULL);
    t->scales = tensor_of(calloc((size_t)n_blocks, 1), bytes_type, 2, t->scales_shape, NULL);
    ck_assert(t->x.data && t->data.data && t->scales.data && t->want_data && t->want_scales);
}

static void drop(tensors *t)
{
    free(t->x.data);
    free(t->data.data);
    free(t->scales.data);
    free(t->want_data);
    free(t->want_scales);
}

static mxrt_plan_request request_of(const tensors *t, mx_op op, const mx_ocp_options *options)
{
    return (mxrt_plan_request){.op = op,
                               .format = t->format,
                               .axis = -1,
                               .in = op == MX_OP_TO ? &t->x : &t->data,
                               .out = op == MX_OP_TO ? &t->data : &t->x,
                               .scales = &t->scales,
                               .options = options};
}

/* Profiles that only the kernels of all options serve, which are slow and not in every pack. */
static int is_rare(const tensors *t, const mx_ocp_options *options)
{
    return options->rounding != MX_ROUND_EVEN || options->plus_zero || t->dtype == MX_DTYPE_F32;
}

/* A plan that is a kernel's; NULL where only a pack of all kernels has one. */
static mxrt_plan *plan_of(const tensors *t, mx_op op, const mx_ocp_options *options)
{
    const mxrt_plan_request request = request_of(t, op, options);
    mxrt_plan_info info;
    mxrt_plan *plan = NULL;
    ck_assert_msg(!mxrt_plan_create(device, &request, &plan, &error), "%s", error.message);
    ck_assert_int_eq(mxrt_plan_get_info(plan, &info, &error), MX_OK);
    if (strcmp(info.variant, "reference") != 0)
        return plan;
    ck_assert_msg(is_rare(t, options), "no kernel for %s %s", mx_format_get(t->format)->name,
                  mx_dtype_get(t->dtype)->name);
    mxrt_plan_destroy(plan);
    return NULL;
}

static void run(const mxrt_plan *plan)
{
    ck_assert_msg(!mxrt_plan_run(plan, NULL, NULL, NULL, &error), "%s", error.message);
}

/* ---- Every value at every place ---- */

static void put_code(mx_format format, unsigned char *data, int place, unsigned code)
{
    int at = place * mx_format_get(format)->code_bits;
    unsigned word = code << at % 8;

    data[at / 8] |= (unsigned char)word;
    if (word > 255)
        data[at / 8 + 1] |= (unsigned char)(word >> 8);
}

static void check_all(const tensors *t, mx_ocp_profile profile, const uint16_t *values, int place)
{
    const int64_t bytes = t->data_shape[1];
    const unsigned char *data = t->data.data, *scales = t->scales.data;

    if (!memcmp(scales, t->want_scales, (size_t)t->n_blocks) &&
        !memcmp(data, t->want_data, (size_t)(t->n_blocks * bytes)))
        return;
    int64_t i = 0;
    while (scales[i] == t->want_scales[i] &&
           !memcmp(data + i * bytes, t->want_data + i * bytes, (size_t)bytes))
        i++;
    ck_abort_msg("%s %s %s: %#x alone at place %d: scale %d, want %d; code %#x, want %#x",
                 mx_format_get(t->format)->name, mx_ocp_profile_name(profile),
                 mx_dtype_get(t->dtype)->name, values[i], place, scales[i], t->want_scales[i],
                 code_at(t->format, data + i * bytes, place),
                 code_at(t->format, t->want_data + i * bytes, place));
}

/* What the oracle says of a block whose only number is the value. */
static void ask_oracle(const tensors *t, const mx_ocp_options *options, const uint16_t *values,
                       unsigned char *codes)
{
    for (int64_t i = 0; i < t->n_blocks; i++) {
        double value = native_value(t->dtype, values[i]), size = value < 0 ? -value : value;
        int is_nan = value != value;
        int byte =
            is_nan && options->nan_scale ? 255 : want_scale(t->format, options, is_nan ? 0 : size);
        t->want_scales[i] = (unsigned char)byte;
        codes[i] = (unsigned char)want_code(t->format, options, value, byte == 255 ? 254 : byte);
    }
}

static void sweep(mx_format format, mx_dtype dtype, mx_ocp_profile profile)
{
    const mx_ocp_options options = mx_ocp_preset(profile);
    const int64_t n = VALUES;
    /* One place for each value where it takes long. */
    const int slow = is_rare(&(tensors){.dtype = dtype}, &options), turns = slow ? 1 : N;
    uint16_t *values = malloc((size_t)n * sizeof(*values));
    unsigned char *codes = malloc((size_t)n);
    tensors t;
    make(&t, format, dtype, n);
    mxrt_plan *plan = plan_of(&t, MX_OP_TO, &options);
    for (int64_t i = 0; i < n; i++)
        values[i] = (uint16_t)i;
    ask_oracle(&t, &options, values, codes);
    for (int turn = 0; plan && turn < turns; turn++) {
        uint16_t *x = t.x.data;
        memset(t.want_data, 0, (size_t)(n * t.data_shape[1]));
        for (int64_t i = 0; i < n; i++) {
            int place = slow ? (int)(i % N) : turn;
            x[i * N + (place + N - 1) % N] = 0;
            x[i * N + place] = values[i];
            put_code(format, t.want_data + i * t.data_shape[1], place, codes[i]);
        }
        run(plan);
        check_all(&t, profile, values, turn);
    }
    mxrt_plan_destroy(plan);
    drop(&t);
    free(values);
    free(codes);
}

START_TEST(every_value_at_every_place)
{
    for (int profile = 0; profile < MX_OCP_PROFILE_COUNT; profile++)
        sweep((mx_format)(FIRST + _i / 2), _i % 2 ? MX_DTYPE_F16 : MX_DTYPE_BF16,
              (mx_ocp_profile)profile);
}
END_TEST

/* ---- Against the reference ---- */

/* The same operation by the reference on copies of what the kernel writes. */
static void check_reference(tensors *t, mx_op op, const mx_ocp_options *options)
{
    mxrt_plan_request request = request_of(t, op, options);
    DLTensor out = *request.out, scales = t->scales;
    size_t out_bytes = (size_t)(op == MX_OP_TO ? t->n_blocks * t->data_shape[1]
                                               : t->n_blocks * N * mx_dtype_get(t->dtype)->bytes);
    mxrt_plan *plan = plan_of(t, op, options);
    if (!plan)
        return;
    run(plan);
    out.data = malloc(out_bytes);
    request.out = &out;
    if (op == MX_OP_TO) {
        scales.data = t->want_scales;
        request.scales = &scales;
    }
    ck_assert_msg(!mxrt_reference_run(&request, &error), "%s", error.message);
    ck_assert_msg(!memcmp(out.data, request_of(t, op, options).out->data, out_bytes),
                  "%s %s %s: rounding %d, rule %d", mx_op_name(op), mx_format_get(t->format)->name,
                  mx_dtype_get(t->dtype)->name, (int)options->rounding, (int)options->scale_rule);
    if (op == MX_OP_TO)
        ck_assert_mem_eq(t->scales.data, t->want_scales, (size_t)t->n_blocks);
    free(out.data);
    mxrt_plan_destroy(plan);
}

/* Numbers of any size and of nearly one, ties, NaN, Inf, zeros of both signs, subnormals. */
static void fill_mixed(tensors *t)
{
    for (int64_t block = 0; block < t->n_blocks; block++) {
        uint32_t base = random32(), spread = random32() % 24;
        for (int i = 0; i < N; i++) {
            uint32_t bits = block % 4 ? base ^ (random32() >> spread) : random32();
            bits = block % 3 == 0 ? bits & 0xfff80000u : bits;
            bits = block % 7 == 0 ? bits & 0x80ffffffu : bits;
            bits = random32() % 64 == 0 ? (random32() & 0x80000000u) : bits;
            put_native(t->x.data, t->dtype, (int)(block * N + i),
                       t->dtype == MX_DTYPE_F32 ? bits : bits >> 16);
        }
    }
}

START_TEST(mixed_blocks)
{
    tensors t;
    make(&t, (mx_format)(FIRST + _i / MX_DTYPE_COUNT), (mx_dtype)(_i % MX_DTYPE_COUNT), MIXED);
    fill_mixed(&t);
    for (int profile = 0; profile < MX_OCP_PROFILE_COUNT; profile++) {
        mx_ocp_options options = mx_ocp_preset((mx_ocp_profile)profile);
        check_reference(&t, MX_OP_TO, &options);
    }
    mx_ocp_options options = mx_ocp_preset(MX_OCP_SPEC);
    options.rounding = MX_ROUND_STOCHASTIC;
    options.seed = UINT64_C(0x123456789abcdef);
    check_reference(&t, MX_OP_TO, &options);
    drop(&t);
}
END_TEST

/* A byte of data is a code of FP8, two of FP4: all of them at every scale, 255 among them. */
START_TEST(every_code_with_every_scale)
{
    const mx_ocp_options options = mx_ocp_preset(MX_OCP_ALTO);
    mx_format format = (mx_format)(FIRST + _i / MX_DTYPE_COUNT);
    int64_t block_bytes = mx_format_get(format)->block_bytes;
    tensors t;
    make(&t, format, (mx_dtype)(_i % MX_DTYPE_COUNT),
         256 * ((256 + block_bytes - 1) / block_bytes));
    unsigned char *data = t.data.data, *scales = t.scales.data;
    for (int64_t i = 0; i < t.n_blocks * block_bytes; i++)
        data[i] = (unsigned char)(i % (t.n_blocks / 256 * block_bytes));
    for (int64_t i = 0; i < t.n_blocks; i++)
        scales[i] = (unsigned char)(i / (t.n_blocks / 256));
    check_reference(&t, MX_OP_FROM, &options);
    drop(&t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ocp_places");
    TCase *tests = tcase_create("host");

    tcase_set_timeout(tests, 300);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, every_value_at_every_place, 0, 2 * N_FORMATS);
    tcase_add_loop_test(tests, mixed_blocks, 0, N_FORMATS * MX_DTYPE_COUNT);
    tcase_add_loop_test(tests, every_code_with_every_scale, 0, N_FORMATS * MX_DTYPE_COUNT);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
