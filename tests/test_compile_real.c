/* Kernels that no pack has, compiled by the real mxgen (MXGEN) for the host, and for a simulated
 * chip (MX_TEST_SIM); and what a chip says where that fails. */
#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_run.h"
#include "compile_rig.h"

static void assert_reference_bytes(const tensors *got)
{
    mxrt_context *context;
    const mxrt_compiler_options off = {.off = 1};
    tensors t;
    mxrt_device *host = open_device("host?threads=1", NULL, &off, &context);
    tensors_init(&t, (DLDevice){kDLCPU, 0});
    ck_assert_int_eq(mxrt_convert_to(host, MX_FORMAT_MX9, -1, &t.in, &t.out, NULL, NULL), MX_OK);
    ck_assert_int_eq(memcmp(t.packed, got->packed, sizeof(t.packed)), 0);
    mxrt_device_close(host);
    mxrt_context_destroy(context);
}

START_TEST(real_mxgen_for_the_host)
{
    mxrt_context *context;
    mx_error err = {MX_OK, ""};
    const mxrt_compiler_options compiler = {.program = getenv("MXGEN")};
    const char *name;
    size_t n;
    tensors t;
    mxrt_device *device = open_device("host?threads=2", NULL, &compiler, &context);
    tensors_init(&t, (DLDevice){kDLCPU, 0});
    ck_assert_msg(!mxrt_convert_to(device, MX_FORMAT_MX9, -1, &t.in, &t.out, NULL, &err), "%s",
                  err.message);
    const mxrt_plan_request request = {
        .op = MX_OP_TO, .format = MX_FORMAT_MX9, .axis = -1, .in = &t.in, .out = &t.out};
    ck_assert_int_eq(mxrt_plan_variants(device, &request, &name, 1, &n, &err), MX_OK);
    ck_assert_uint_gt(n, 0);
    ck_assert_msg(!strncmp(name, "mx_to_mx9_f32", 13), "%s", name);
    assert_reference_bytes(&t);
    mxrt_device_close(device);
    mxrt_context_destroy(context);
}
END_TEST

/* Allocated before anything is captured. */
typedef struct chip_memory {
    void *x, *p;
} chip_memory;

static chip_memory chip_alloc(mxrt_device *device)
{
    chip_memory memory = {NULL, NULL};
    tensors t;
    tensors_init(&t, (DLDevice){kDLCPU, 0});
    ck_assert_int_eq(mxrt_device_alloc(device, sizeof(t.x), &memory.x, NULL), MX_OK);
    ck_assert_int_eq(mxrt_device_alloc(device, sizeof(t.packed), &memory.p, NULL), MX_OK);
    ck_assert_int_eq(mxrt_device_upload(device, memory.x, t.x, sizeof(t.x), NULL), MX_OK);
    return memory;
}

static void chip_free(mxrt_device *device, chip_memory memory)
{
    mxrt_device_free(device, memory.x);
    mxrt_device_free(device, memory.p);
}

static mx_status run_in(mxrt_device *device, chip_memory memory, mxrt_stream stream, mx_error *err)
{
    tensors t;
    mxrt_device_info info;
    ck_assert_int_eq(mxrt_device_get_info(device, &info, NULL), MX_OK);
    tensors_init(&t, info.dl_device);
    t.in.data = memory.x;
    t.out.data = memory.p;
    mx_status status = mxrt_convert_to(device, MX_FORMAT_MX9, -1, &t.in, &t.out, stream, err);
    if (status == MX_OK) {
        ck_assert_int_eq(mxrt_device_synchronize(device, stream, NULL), MX_OK);
        ck_assert_int_eq(mxrt_device_download(device, t.packed, memory.p, sizeof(t.packed), NULL),
                         MX_OK);
        assert_reference_bytes(&t);
    }
    return status;
}

static mx_status run_on_chip(mxrt_device *device, mx_error *err)
{
    chip_memory memory = chip_alloc(device);
    mx_status status = run_in(device, memory, NULL, err);
    chip_free(device, memory);
    return status;
}

static void assert_says(const mx_error *err, const char *part)
{
    ck_assert_msg(strstr(err->message, part) != NULL, "\"%s\" is not in: %s", part, err->message);
}

static void use_chip(void)
{
    setenv("MXRT_HIP_LIBRARY", getenv("MX_TEST_SIM"), 1);
    setenv("MXSIM_ARCH", "gfx942", 1);
}

/* The message tells what the packs have, and the compiler's words, every time. */
START_TEST(chip_without_a_kernel)
{
    mxrt_context *context;
    mx_error err = {MX_OK, ""};
    const mxrt_compiler_options off = {.off = 1};
    use_chip();
    mxrt_device *device = open_device("hip:0", NULL, &off, &context);
    ck_assert_int_eq(run_on_chip(device, &err), MX_ERR_UNSUPPORTED);
    assert_says(
        &err,
        "no pack has a kernel for to mx9 f32 (packed) on hip:0, a gfx942; there are no packs; "
        "add a pack made with mxgen build --target gfx942");
    ck_assert_ptr_null(strstr(err.message, "compiled"));
    mxrt_device_close(device);
    mxrt_context_destroy(context);

    device = open_device("hip:0", in_folder("made.mxdb"), &off, &context);
    ck_assert_int_eq(run_on_chip(device, &err), MX_ERR_UNSUPPORTED);
    assert_says(&err, "the packs have kernels for host");
    mxrt_device_close(device);
    mxrt_context_destroy(context);

    write_mxgen("echo out of registers; exit 1");
    device = open_device("hip:0", NULL, NULL, &context);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(run_on_chip(device, &err), MX_ERR_UNSUPPORTED);
        assert_says(&err, "; not compiled: ");
        assert_says(&err, "ends with status 1: out of registers");
    }
    ck_assert_int_eq(
        mxrt_prepare(device, MX_OP_TO, MX_FORMAT_MX9, MX_DTYPE_F32, MX_PROFILE_PACKED, &err),
        MX_ERR_UNSUPPORTED);
    assert_says(&err, "out of registers");
    ck_assert_uint_eq(n_runs(), 1);
    mxrt_device_close(device);
    mxrt_context_destroy(context);
}
END_TEST

/* A driver that refuses what was compiled: told, and the device is as it was. */
START_TEST(chip_refuses_what_was_compiled)
{
    mxrt_context *context;
    mx_error err = {MX_OK, ""};
    use_chip();
    /* The right target's name on machine code of the host. */
    strcpy(target, "gfx942");
    write_pack(in_folder("made.mxdb"), "mx9", "compiled", "1 == 1");
    mxrt_device *device = open_device("hip:0", NULL, NULL, &context);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(run_on_chip(device, &err), MX_ERR_UNSUPPORTED);
        assert_says(&err, "not compiled: what was compiled is not for gfx942");
    }
    ck_assert_uint_eq(n_runs(), 1);
    mxrt_device_close(device);
    mxrt_context_destroy(context);
}
END_TEST

START_TEST(real_mxgen_for_a_chip)
{
    mxrt_context *context;
    mx_error err = {MX_OK, ""};
    cli_run run;
    int (*stream_create)(void **), (*begin)(void *, int), (*end)(void *, void **);
    int (*stream_destroy)(void *), (*graph_destroy)(void *);
    void *stream = NULL, *graph = NULL;
    const char *const argv[] = {getenv("MXGEN"),
                                "build",
                                "--target",
                                "gfx942",
                                "--op",
                                "to",
                                "--format",
                                "mx6",
                                "--dtype",
                                "f32",
                                "--max-rank",
                                "1",
                                "-o",
                                in_folder("mx6.mxdb"),
                                NULL};
    use_chip();
    cli_run_start(&run, argv);
    ck_assert_msg(run.exit_code == 0, "%s", run.err);
    cli_run_finish(&run);
    const mxrt_compiler_options compiler = {.program = argv[0]}, off = {.off = 1};

    mxrt_device *device = open_device("hip:0", argv[13], &off, &context);
    ck_assert_int_eq(run_on_chip(device, &err), MX_ERR_UNSUPPORTED);
    assert_says(&err, "for it the packs have to mx6 f32;");
    mxrt_device_close(device);
    mxrt_context_destroy(context);

    device = open_device("hip:0", argv[13], &compiler, &context);
    void *library = dlopen(getenv("MX_TEST_SIM"), RTLD_NOW);
    ck_assert_ptr_nonnull(library);
    *(void **)&stream_create = dlsym(library, "hipStreamCreate");
    *(void **)&begin = dlsym(library, "hipStreamBeginCapture");
    *(void **)&end = dlsym(library, "hipStreamEndCapture");
    *(void **)&stream_destroy = dlsym(library, "hipStreamDestroy");
    *(void **)&graph_destroy = dlsym(library, "hipGraphDestroy");
    chip_memory memory = chip_alloc(device);
    ck_assert_int_eq(stream_create(&stream), 0);
    ck_assert_int_eq(begin(stream, 0), 0);
    ck_assert_int_eq(run_in(device, memory, stream, &err), MX_ERR_UNSUPPORTED);
    assert_says(&err, "a graph is being captured: call mxrt_prepare before");
    ck_assert_int_eq(end(stream, &graph), 0);
    ck_assert_int_eq(graph_destroy(graph), 0);
    ck_assert_uint_eq(n_logged("compiles it"), 0);

    ck_assert_msg(!run_in(device, memory, stream, &err), "%s", err.message);
    ck_assert_uint_eq(n_logged("compiles it"), 1);
    ck_assert_msg(!run_on_chip(device, &err), "%s", err.message);
    ck_assert_uint_eq(n_logged("compiles it"), 1);
    chip_free(device, memory);
    ck_assert_int_eq(stream_destroy(stream), 0);
    mxrt_device_close(device);
    mxrt_context_destroy(context);
    dlclose(library);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("compile_real");
    TCase *tcase = tcase_create("real");
    tcase_add_checked_fixture(tcase, compile_setup, compile_teardown);
    if (getenv("MX_TEST_SIM")) {
        tcase_add_test(tcase, chip_without_a_kernel);
        tcase_add_test(tcase, chip_refuses_what_was_compiled);
    }
    if (getenv("MXGEN"))
        tcase_add_test(tcase, real_mxgen_for_the_host);
    if (getenv("MXGEN") && getenv("MX_TEST_SIM"))
        tcase_add_test(tcase, real_mxgen_for_a_chip);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
