/* The whole library on a simulated AMD chip when things go wrong: packs whose code objects are
 * damaged, foreign or without the kernel, tensors on another device's stream, and a driver that
 * fails at each of its calls in turn. Always a clear message, nothing left behind, and the same
 * context right afterwards. */
#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/rt.h>

#include "gen/pack_writer.h"
#include "runtime/reference.h"
#include "tests/cases.h"

enum { SKIPPED = 77, ROWS = 8, LENGTH = 64, BLOCKS = ROWS * LENGTH / 16 };

static void *driver;
static void (*fail_call)(int n);
static uint64_t (*call_count)(void);
static uint64_t (*live_objects)(void);
static int (*device_set)(int device);
static int (*stream_create)(void **stream);
static int (*stream_destroy)(void *stream);
static const char *pack_path;

static const int64_t plain_shape[] = {ROWS, LENGTH}, packed_shape[] = {BLOCKS, 18};
static const DLDataType bytes_type = {kDLUInt, 8, 1};
static const DLDevice cpu = {kDLCPU, 0};
static uint16_t input[ROWS * LENGTH];
static unsigned char expected[BLOCKS * 18];

static void hook(void *function, const char *name)
{
    void *address = dlsym(driver, name);
    memcpy(function, &address, sizeof(address));
}

static void fill_expected(void)
{
    mx_error error = {MX_OK, ""};
    mx_case_tensor x, p;
    mx_case_fill(MX_VALUES_OUTLIERS, 7, MX_DTYPE_BF16, input, ROWS * LENGTH);
    mx_case_contiguous(mx_case_dl_type(MX_DTYPE_BF16), cpu, 2, plain_shape, input, &x);
    mx_case_contiguous(bytes_type, cpu, 2, packed_shape, expected, &p);
    mxrt_plan_request to = {
        .op = MX_OP_TO, .format = MX_FORMAT_MX9, .axis = -1, .in = &x.tensor, .out = &p.tensor};
    ck_assert_int_eq(mxrt_reference_run(&to, &error), MX_OK);
}

static mxrt_context *new_context(void)
{
    mxrt_context *context = NULL;
    mx_error error = {MX_OK, ""};
    ck_assert_msg(!mxrt_context_create(NULL, &context, &error), "%s", error.message);
    return context;
}

/* ---- A conversion from the device's opening to its closing ---- */

static mx_status convert(mxrt_device *device, void *const data[2], mxrt_stream stream,
                         mx_error *err)
{
    DLDevice chip = {kDLROCM, 0};
    mx_case_tensor x, p;
    mx_case_contiguous(mx_case_dl_type(MX_DTYPE_BF16), chip, 2, plain_shape, data[0], &x);
    mx_case_contiguous(bytes_type, chip, 2, packed_shape, data[1], &p);
    return mxrt_convert_to(device, MX_FORMAT_MX9, -1, &x.tensor, &p.tensor, stream, err);
}

/* `found` is what the device's memory holds in the end. */
static mx_status convert_on(mxrt_device *device, mxrt_stream stream, unsigned char *found,
                            mx_error *err)
{
    void *data[2] = {NULL, NULL};
    mx_status status = mxrt_device_alloc(device, sizeof(input), &data[0], err);
    if (!status)
        status = mxrt_device_alloc(device, sizeof(expected), &data[1], err);
    if (!status)
        status = mxrt_device_upload(device, data[0], input, sizeof(input), err);
    if (!status)
        status = convert(device, data, stream, err);
    if (!status)
        status = mxrt_device_synchronize(device, stream, err);
    if (!status)
        status = mxrt_device_download(device, found, data[1], sizeof(expected), err);
    mxrt_device_free(device, data[1]);
    mxrt_device_free(device, data[0]);
    return status;
}

static mx_status whole_life(mxrt_context *context, unsigned char *found, mx_error *err)
{
    mxrt_device *device = NULL;
    mx_status status = mxrt_device_open(context, "hip:0", &device, err);
    if (!status)
        status = convert_on(device, NULL, found, err);
    mxrt_device_close(device);
    return status;
}

static void check_works(mxrt_context *context, const char *when)
{
    unsigned char found[sizeof(expected)];
    mx_error error = {MX_OK, ""};
    memset(found, 0, sizeof(found));
    ck_assert_msg(!whole_life(context, found, &error), "%s: %s", when, error.message);
    ck_assert_msg(!memcmp(found, expected, sizeof(found)), "%s: other bytes", when);
}

START_TEST(each_failing_call)
{
    mx_error error = {MX_OK, ""};
    mxrt_context *context = new_context();
    ck_assert_int_eq(mxrt_context_add_pack_file(context, pack_path, &error), MX_OK);
    uint64_t before = call_count();
    check_works(context, "first");
    int n_calls = (int)(call_count() - before), n_failures = 0;
    ck_assert_int_gt(n_calls, 20);
    for (int n = 1; n <= n_calls; n++) {
        unsigned char found[sizeof(expected)];
        char when[64];
        snprintf(when, sizeof(when), "call %d of %d", n, n_calls);
        memset(found, 0xa5, sizeof(found));
        error = (mx_error){MX_OK, ""};
        fail_call(n);
        mx_status status = whole_life(context, found, &error);
        fail_call(0);
        ck_assert_msg(status == MX_OK || status == MX_ERR_DEVICE, "%s: %s", when, error.message);
        if (status) {
            n_failures++;
            ck_assert_msg(strstr(error.message, " failed with ") != NULL, "%s: %s", when,
                          error.message);
            for (size_t i = 0; i < sizeof(found); i++)
                ck_assert_msg(found[i] == 0xa5, "%s: the output has changed", when);
        }
        ck_assert_msg(live_objects() == 0, "%s: %llu objects are left", when,
                      (unsigned long long)live_objects());
        check_works(context, when);
    }
    /* Releases are tried again, and so fail without a word. */
    ck_assert_int_gt(n_failures, n_calls / 2);
    mxrt_context_destroy(context);
}
END_TEST

/* A failure in the middle of a device's life leaves the device usable, too. */
START_TEST(device_goes_on)
{
    unsigned char found[sizeof(expected)];
    mx_error error = {MX_OK, ""};
    mxrt_context *context = new_context();
    mxrt_device *device = NULL;
    ck_assert_int_eq(mxrt_context_add_pack_file(context, pack_path, &error), MX_OK);
    ck_assert_int_eq(mxrt_device_open(context, "hip:0", &device, &error), MX_OK);
    int n_failures = 0;
    for (int n = 1; n < 40; n++) {
        fail_call(n);
        n_failures += convert_on(device, NULL, found, &error) != MX_OK;
        fail_call(0);
        memset(found, 0, sizeof(found));
        ck_assert_msg(!convert_on(device, NULL, found, &error), "after call %d: %s", n,
                      error.message);
        ck_assert_int_eq(memcmp(found, expected, sizeof(found)), 0);
    }
    ck_assert_int_gt(n_failures, 5);
    mxrt_device_close(device);
    ck_assert_uint_eq(live_objects(), 0);
    mxrt_context_destroy(context);
}
END_TEST

START_TEST(stream_of_another_device)
{
    unsigned char found[sizeof(expected)];
    mx_error error = {MX_OK, ""};
    mxrt_context *context = new_context();
    mxrt_device *device = NULL;
    void *stream = NULL;
    ck_assert_int_eq(mxrt_context_add_pack_file(context, pack_path, &error), MX_OK);
    ck_assert_int_eq(mxrt_device_open(context, "hip:0", &device, &error), MX_OK);
    ck_assert_int_eq(device_set(1), 0);
    ck_assert_int_eq(stream_create(&stream), 0);
    ck_assert_int_eq(device_set(0), 0);
    ck_assert_int_eq(convert_on(device, stream, found, &error), MX_ERR_INVALID);
    ck_assert_msg(strstr(error.message, "the stream belongs to hip:1") != NULL, "%s",
                  error.message);
    ck_assert_int_eq(convert_on(device, NULL, found, &error), MX_OK);
    ck_assert_int_eq(stream_destroy(stream), 0);
    mxrt_device_close(device);
    mxrt_context_destroy(context);
}
END_TEST

/* ---- Packs whose objects are not what they say ---- */

typedef struct change {
    const char *target, *symbol; /* of the variants; NULL: as they are */
    void (*damage)(unsigned char *code, size_t *bytes);
} change;

static void add_variant(mxgen_pack_writer *writer, const mxrt_variant_info *info, const change *how,
                        int64_t object)
{
    mx_error error = {MX_OK, ""};
    const char *target = how->target ? how->target : info->target;
    mxgen_pack_variant row = {
        .object_id = object,
        .target = target,
        .op = info->op,
        .format = info->format,
        .dtype = info->dtype,
        .profile = info->profile,
        .layout = info->layout,
        .name = info->name,
        .symbol = how->symbol ? how->symbol : info->symbol,
        .rank = info->rank,
        .params_json = info->params_json,
        .rules_json = info->rules_json,
        .launch_json = info->launch_json,
        .info_json = info->info_json,
    };
    ck_assert_msg(!mxgen_pack_writer_variant(writer, &row, &error), "%s", error.message);
}

/* The first variant for packing MX9 from bf16 that lies flat, in a pack of its own, changed. */
static void add_changed(mxrt_context *context, const change *how)
{
    mx_error error = {MX_OK, ""};
    mxrt_pack *pack = NULL;
    mxrt_variant_info info = {0};
    void *code = NULL, *data = NULL;
    size_t bytes = 0;
    int64_t object = 0;
    mxgen_pack_writer *writer = NULL;
    ck_assert_msg(!mxrt_pack_open(pack_path, &pack, &error), "%s", error.message);
    for (size_t i = 0; i < mxrt_pack_variant_count(pack); i++) {
        ck_assert_int_eq(mxrt_pack_variant(pack, i, &info, &error), MX_OK);
        if (!strcmp(info.op, "to") && !strcmp(info.layout, "flat"))
            break;
    }
    ck_assert_msg(!mxrt_pack_object(pack, info.object_id, &code, &bytes, &error), "%s",
                  error.message);
    if (how->damage)
        how->damage(code, &bytes);
    ck_assert_int_eq(mxgen_pack_writer_create(&writer, &error), MX_OK);
    const char *const meta[][2] = {
        {"generator", "test"}, {"generator_hash", "0"}, {"compiler", "none"}};
    for (size_t i = 0; i < sizeof(meta) / sizeof(meta[0]); i++)
        ck_assert_int_eq(mxgen_pack_writer_meta(writer, meta[i][0], meta[i][1], &error), MX_OK);
    ck_assert_msg(!mxgen_pack_writer_object(writer, how->target ? how->target : info.target,
                                            info.object_kind, code, bytes, &object, &error),
                  "%s", error.message);
    add_variant(writer, &info, how, object);
    ck_assert_msg(!mxgen_pack_writer_serialize(writer, &data, &bytes, &error), "%s", error.message);
    ck_assert_msg(!mxrt_context_add_pack_memory(context, data, bytes, &error), "%s", error.message);
    free(data);
    free(code);
    mxgen_pack_writer_destroy(writer);
    mxrt_pack_close(pack);
}

static void cut_in_half(unsigned char *code, size_t *bytes)
{
    (void)code;
    *bytes /= 2;
}

static void foreign_machine(unsigned char *code, size_t *bytes)
{
    (void)bytes;
    code[18] = 62; /* x86-64 */
}

static void foreign_chip(unsigned char *code, size_t *bytes)
{
    (void)bytes;
    code[48] = 0x41; /* the ELF header's flags: gfx1100 */
}

static void no_note(unsigned char *code, size_t *bytes)
{
    for (size_t i = 0; i + 7 < *bytes; i++) {
        if (!memcmp(code + i, "amdhsa.", 7))
            memset(code + i, 'x', 7);
    }
}

static void every_byte(unsigned char *code, size_t *bytes)
{
    for (size_t i = 64; i < *bytes; i++) /* behind the ELF header */
        code[i] ^= 0x55;
}

START_TEST(objects_that_do_not_load)
{
    static const struct {
        change how;
        mx_status status; /* MX_OK: any failure */
        const char *text;
    } list[] = {
        {{NULL, NULL, cut_in_half}, MX_ERR_CORRUPT, ""},
        {{NULL, NULL, foreign_machine}, MX_ERR_CORRUPT, ""},
        {{NULL, NULL, foreign_chip}, MX_ERR_DEVICE, "the device is gfx942"},
        {{NULL, NULL, no_note}, MX_ERR_DEVICE, "hipModuleLoadData failed"},
        {{NULL, NULL, every_byte}, MX_OK, ""},
        {{NULL, "mx_nowhere", NULL}, MX_ERR_NOT_FOUND, "mx_nowhere: the object lacks it"},
        {{"gfx1100", NULL, NULL}, MX_ERR_UNSUPPORTED, "the packs have kernels for gfx1100; add"},
    };
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        unsigned char found[sizeof(expected)];
        mx_error error = {MX_OK, ""};
        mxrt_context *context = new_context();
        add_changed(context, &list[i].how);
        mx_status status = whole_life(context, found, &error);
        ck_assert_msg(status != MX_OK, "change %zu was not noticed", i);
        ck_assert_msg(list[i].status == MX_OK || status == list[i].status, "change %zu: %s: %s", i,
                      mx_status_name(status), error.message);
        ck_assert_msg(strstr(error.message, list[i].text) != NULL, "change %zu: %s", i,
                      error.message);
        ck_assert_uint_eq(live_objects(), 0);
        /* Asked again, it says the same; and a sound pack runs beside it. */
        mx_error again = {MX_OK, ""};
        ck_assert_int_eq(whole_life(context, found, &again), status);
        ck_assert_str_eq(again.message, error.message);
        mxrt_context *sound = new_context();
        ck_assert_int_eq(mxrt_context_add_pack_file(sound, pack_path, &error), MX_OK);
        check_works(sound, "a sound pack");
        mxrt_context_destroy(sound);
        mxrt_context_destroy(context);
    }
}
END_TEST

int main(void)
{
    const char *path = getenv("MX_TEST_SIM");
    pack_path = getenv("MX_TEST_SIM_PACK");
    driver = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!driver || !pack_path) {
        printf("skipped: MX_TEST_SIM or MX_TEST_SIM_PACK is not set\n");
        return SKIPPED;
    }
    setenv("MXRT_HIP_LIBRARY", path, 1);
    setenv("MXSIM_DEVICES", "2", 1);
    setenv("MXSIM_ARCH", "gfx942", 1);
    hook(&fail_call, "mxsim_fail_call");
    hook(&call_count, "mxsim_call_count");
    hook(&live_objects, "mxsim_live_objects");
    hook(&device_set, "hipSetDevice");
    hook(&stream_create, "hipStreamCreate");
    hook(&stream_destroy, "hipStreamDestroy");
    Suite *suite = suite_create("sim_library");
    TCase *cases = tcase_create("gfx942");
    tcase_add_checked_fixture(cases, fill_expected, NULL);
    tcase_add_test(cases, each_failing_call);
    tcase_add_test(cases, device_goes_on);
    tcase_add_test(cases, stream_of_another_device);
    tcase_add_test(cases, objects_that_do_not_load);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? 1 : 0;
}
