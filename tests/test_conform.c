/* Every variant of a pack that applies, on a device, against the plain C reference: the shared
 * cases, random geometries and all formats, types and operations; whole buffers are compared, so
 * that bytes outside the output count too.
 *
 *   test_conform [URI [PACK]]       else MX_TEST_URI (default host) and MX_TEST_PACK
 *   MX_TEST_RANDOM=N                random geometries (default 40)
 *   MX_TEST_MAX_VARIANTS=N          the best N of each key only (default: all)
 *   MX_TEST_PARTIAL_PACK=1          the pack lacks the variants for odd geometries: skip those */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/rt.h>

#include "runtime/reference.h"
#include "tests/cases.h"

enum { SKIPPED = 77, MAX_VARIANTS = 1024, POISON = 0xa5 };

static mxrt_context *context;
static mxrt_device *device;
static mxrt_device_info info;
static size_t max_variants = MAX_VARIANTS;
static size_t n_runs, n_without_variant;
static int is_partial;

static const DLDevice cpu = {kDLCPU, 0};

/* The same tensor on the host and on the device. */
typedef struct twin {
    size_t bytes;
    unsigned char *host, *expected;
    void *device;
    mx_case_tensor host_tensor, expected_tensor, device_tensor;
} twin;

typedef struct combination {
    const mx_case *c;
    mx_format format;
    mx_dtype dtype;
    mx_op op;
    mx_profile profile;
} combination;

static const char *describe(const combination *k, const char *variant)
{
    static char text[256];
    snprintf(text, sizeof(text), "%s: %s %s %s %s, variant %s", k->c->name, mx_op_name(k->op),
             mx_format_get(k->format)->name, mx_dtype_get(k->dtype)->name,
             mx_profile_name(k->profile), variant);
    return text;
}

static void twin_create(twin *t, size_t bytes)
{
    mx_error error = {MX_OK, ""};
    *t = (twin){.bytes = bytes, .host = malloc(bytes + 1), .expected = malloc(bytes + 1)};
    mx_status status = mxrt_device_alloc(device, bytes, &t->device, &error);
    ck_assert_msg(status == MX_OK, "%s", error.message);
    memset(t->host, POISON, bytes);
    memset(t->expected, POISON, bytes);
}

static void twin_destroy(twin *t)
{
    mxrt_device_free(device, t->device);
    free(t->host);
    free(t->expected);
}

/* Tensors point into their own record: a twin stays where it is. */
static void plain_twin(twin *t, const mx_case *c, mx_dtype dtype)
{
    twin_create(t, (size_t)mx_case_plain_bytes(c, dtype));
    mx_case_plain(c, dtype, cpu, t->host, &t->host_tensor);
    mx_case_plain(c, dtype, cpu, t->expected, &t->expected_tensor);
    mx_case_plain(c, dtype, info.dl_device, t->device, &t->device_tensor);
}

static void packed_twin(twin *t, const mx_case *c, mx_format format)
{
    twin_create(t, (size_t)mx_case_packed_bytes(c, format));
    mx_case_packed(c, format, cpu, t->host, &t->host_tensor);
    mx_case_packed(c, format, cpu, t->expected, &t->expected_tensor);
    mx_case_packed(c, format, info.dl_device, t->device, &t->device_tensor);
}

static void upload(twin *t, const unsigned char *bytes)
{
    mx_error error = {MX_OK, ""};
    mx_status status = mxrt_device_upload(device, t->device, bytes, t->bytes, &error);
    ck_assert_msg(status == MX_OK, "%s", error.message);
}

static mx_status run_variant(const mxrt_plan_request *request, mx_error *err)
{
    mxrt_plan *plan = NULL;
    mx_status status = mxrt_plan_create(device, request, &plan, err);
    if (!status)
        status = mxrt_plan_run(plan, NULL, NULL, NULL, err);
    if (!status)
        status = mxrt_device_synchronize(device, NULL, err);
    mxrt_plan_destroy(plan);
    return status;
}

static void check_variant(const combination *k, mxrt_plan_request *request, twin *out,
                          const char *variant)
{
    mx_error error = {MX_OK, ""};
    memset(out->host, POISON, out->bytes);
    upload(out, out->host);
    request->variant = variant;
    mx_status status = run_variant(request, &error);
    ck_assert_msg(status == MX_OK, "%s: %s", describe(k, variant), error.message);
    status = mxrt_device_download(device, out->host, out->device, out->bytes, &error);
    ck_assert_msg(status == MX_OK, "%s: %s", describe(k, variant), error.message);
    for (size_t i = 0; i < out->bytes; i++) {
        if (out->host[i] != out->expected[i])
            ck_abort_msg("%s: byte %zu of %zu is %02x, not %02x", describe(k, variant), i,
                         out->bytes, out->host[i], out->expected[i]);
    }
    n_runs++;
}

/* All variants; `in` holds the input, `out` gets the expected bytes. */
static void check_combination(const combination *k, twin *in, twin *out)
{
    mx_error error = {MX_OK, ""};
    static const char *names[MAX_VARIANTS];
    size_t n = 0;
    mxrt_plan_request request = {.op = k->op,
                                 .format = k->format,
                                 .profile = k->profile,
                                 .axis = k->c->axis,
                                 .in = &in->host_tensor.tensor,
                                 .out = &out->expected_tensor.tensor};
    memset(out->expected, POISON, out->bytes);
    ck_assert_msg(!mxrt_reference_run(&request, &error), "%s: %s", describe(k, "reference"),
                  error.message);
    upload(in, in->host);
    request.in = &in->device_tensor.tensor;
    request.out = &out->device_tensor.tensor;
    mx_status status = mxrt_plan_variants(device, &request, names, MAX_VARIANTS, &n, &error);
    ck_assert_msg(status == MX_OK, "%s: %s", describe(k, "(list)"), error.message);
    int has_fallback = info.dl_device.device_type == kDLCPU;
    if (n == 0 && mx_case_blocks(k->c) > 0 && !has_fallback) {
        ck_assert_msg(is_partial, "%s: no variant applies", describe(k, "(any)"));
        n_without_variant++;
    }
    for (size_t i = 0; i < n && i < max_variants; i++)
        check_variant(k, &request, out, names[i]);
    if (n > 0 || has_fallback)
        check_variant(k, &request, out, NULL);
}

static void check_geometry(const mx_case *c, mx_format format, mx_dtype dtype, uint64_t seed)
{
    combination k = {c, format, dtype, MX_OP_TO, MX_PROFILE_PACKED};
    twin x, packed, y;
    plain_twin(&x, c, dtype);
    packed_twin(&packed, c, format);
    mx_case_fill(c->values, seed, dtype, x.host,
                 (int64_t)(x.bytes / (size_t)mx_dtype_get(dtype)->bytes));
    check_combination(&k, &x, &packed);
    if (!c->is_broadcast) { /* those are inputs only */
        plain_twin(&y, c, dtype);
        k.op = MX_OP_QDQ;
        for (int profile = 0; profile < MX_PROFILE_COUNT; profile++) {
            k.profile = (mx_profile)profile;
            check_combination(&k, &x, &y);
        }
        k.op = MX_OP_FROM;
        k.profile = MX_PROFILE_PACKED;
        memcpy(packed.host, packed.expected, packed.bytes);
        check_combination(&k, &packed, &y);
        twin_destroy(&y);
    }
    twin_destroy(&packed);
    twin_destroy(&x);
}

static void check_all_types(const mx_case *c, uint64_t seed)
{
    for (int format = 0; format < MX_FORMAT_COUNT; format++) {
        for (int dtype = 0; dtype < MX_DTYPE_COUNT; dtype++)
            check_geometry(c, (mx_format)format, (mx_dtype)dtype, seed);
    }
}

START_TEST(shared_case)
{
    const mx_case *c = mx_case_at((size_t)_i);
    if (c->uses & MX_CASE_TEST)
        check_all_types(c, 1000 + (uint64_t)_i);
}
END_TEST

/* A geometry with one to four dimensions in any memory order, with gaps now and then. */
static mx_case random_geometry(uint64_t seed)
{
    uint64_t state = seed;
    mx_case c = {.name = "random", .uses = MX_CASE_TEST};
    c.ndim = 1 + (int)(mx_case_random(&state) % 4);
    c.axis = (int)(mx_case_random(&state) % (uint64_t)c.ndim);
    c.values = (mx_values)(mx_case_random(&state) % MX_VALUES_COUNT);
    int order[MX_CASE_MAX_DIMS];
    for (int i = 0; i < c.ndim; i++) {
        c.shape[i] = 1 + (int64_t)(mx_case_random(&state) % (i == c.axis ? 130 : 14));
        order[i] = i;
    }
    for (int i = c.ndim - 1; i > 0; i--) {
        int other = (int)(mx_case_random(&state) % (uint64_t)(i + 1)), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    int64_t stride = mx_case_random(&state) % 4 ? 1 : 3;
    c.strided = 1;
    for (int i = 0; i < c.ndim; i++) {
        c.strides[order[i]] = stride;
        stride *= c.shape[order[i]];
        stride += mx_case_random(&state) % 3 ? 0 : 5;
    }
    c.offset = (int64_t)(mx_case_random(&state) % 4);
    c.packed_offset = (int64_t)(mx_case_random(&state) % 3);
    c.packed_block_gap = mx_case_random(&state) % 4 ? 0 : 7;
    c.packed_byte_stride = mx_case_random(&state) % 8 ? 0 : 2;
    return c;
}

START_TEST(random_case)
{
    mx_case c = random_geometry(77 + (uint64_t)_i);
    check_all_types(&c, 5000 + (uint64_t)_i);
}
END_TEST

static long number_from(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

static void open_device(void)
{
    const char *uri = getenv("MX_TEST_URI"), *pack = getenv("MX_TEST_PACK");
    mx_error error = {MX_OK, ""};
    mx_status status = mxrt_context_create(NULL, &context, &error);
    int exit_status = 1; /* a pack that is named must be there */
    if (!status && pack)
        status = mxrt_context_add_pack_file(context, pack, &error);
    if (!status) {
        status = mxrt_device_open(context, uri ? uri : "host", &device, &error);
        exit_status = status == MX_ERR_NOT_FOUND ? SKIPPED : 1;
    }
    if (!status)
        status = mxrt_device_get_info(device, &info, &error);
    if (status) {
        fprintf(stderr, "%s\n", error.message);
        exit(exit_status);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1)
        setenv("MX_TEST_URI", argv[1], 1);
    if (argc > 2)
        setenv("MX_TEST_PACK", argv[2], 1);
    max_variants = (size_t)number_from("MX_TEST_MAX_VARIANTS", MAX_VARIANTS);
    is_partial = number_from("MX_TEST_PARTIAL_PACK", 0) != 0;
    open_device();
    Suite *suite = suite_create("conform");
    TCase *cases = tcase_create(info.uri);
    tcase_set_timeout(cases, 600);
    tcase_add_loop_test(cases, shared_case, 0, (int)mx_case_count());
    tcase_add_loop_test(cases, random_case, 0, (int)number_from("MX_TEST_RANDOM", 40));
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    /* Drivers keep threads and contexts, which a fork would lose. */
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    printf("%s, %s: %zu runs of kernels compared, %zu combinations without a variant\n", info.uri,
           info.name, n_runs, n_without_variant);
    mxrt_device_close(device);
    mxrt_context_destroy(context);
    return n_failed || n_runs == 0 ? 1 : 0;
}
