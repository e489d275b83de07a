/* Products that no pack has, compiled as kernels of block operations are: by a stand-in for mxgen,
 * and by the real one. */
#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compile_rig.h"
#include "gemm_pack.h"
#include "gemm_request.h"

static const gemm_row made[] = {
    {"gemm_rows", "compiled", "mxtest_whole", NULL, NULL, WHOLE("1"), 0, NULL, "1111"},
};
static const gemm_row partial[] = {
    {"gemm_rows", "partial", "mxtest_whole", NULL,
     "[{\"rule\":\"as the test wants\",\"when\":\"n == 6\"}]", WHOLE("1"), 0, NULL, "2222"},
};

static void write_pack_of(const char *path, const gemm_row *rows, size_t n)
{
    pack_bytes bytes = gemm_pack_make(target, rows, n);

    pack_write_file(path, bytes);
    free(bytes.data);
}

static void set_up(void)
{
    compile_setup();
    write_pack_of(in_folder("made.mxdb"), made, 1);
}

static void ask_for(int64_t n, mx_gemm_element right)
{
    request_make(&the, MX_GEMM_ROWS);
    the.request.right_element = right;
    memset(the.right_data, 0x38, sizeof(the.right_data)); /* 1 in E4M3 */
    request_set(&the.right, u8, the.right_data, 3, G, n, right == MX_GEMM_MXFP4 ? K / 2 : K);
    request_set(&the.right_scales, u8, the.right_scales_data, 3, G, n, K / 32);
    request_set(&the.out, f32, the.out_data, 2, M, n, 0);
}

/* Runs the plan, whose out is K everywhere. */
static void assert_runs(const mxrt_gemm_plan *plan)
{
    static _Alignas(256) unsigned char workspace[1024];
    const mxrt_gemm_buffers buffers = {.workspace = workspace,
                                       .workspace_bytes = sizeof(workspace)};

    memset(the.out_data, 0xa5, sizeof(the.out_data));
    ck_assert_msg(!mxrt_gemm_run(plan, &buffers, NULL, &err), "%s", err.message);
    ck_assert(request_out_at(&the, 0) == K && request_out_at(&the, M * 5 - 1) == K);
}

static void assert_chosen(mxrt_device *on, const char *name)
{
    mxrt_gemm_plan *plan;
    mxrt_gemm_info info;

    ck_assert_msg(!mxrt_gemm_plan_create(on, &the.request, &plan, &err), "%s", err.message);
    ck_assert_int_eq(mxrt_gemm_get_info(plan, &info, &err), MX_OK);
    ck_assert_str_eq(info.variant, name);
    if (strcmp(name, "reference"))
        assert_runs(plan);
    mxrt_gemm_plan_destroy(plan);
}

static void close_device(mxrt_device *on, mxrt_context *of)
{
    mxrt_device_close(on);
    mxrt_context_destroy(of);
}

static void ask(const mxrt_compiler_options *compiler, const char *expected)
{
    mxrt_context *of;
    mxrt_device *on = open_device("host?threads=2", NULL, compiler, &of);

    ask_for(5, MX_GEMM_MXFP8_E4M3);
    assert_chosen(on, expected);
    assert_chosen(on, expected);
    close_device(on, of);
}

START_TEST(compiles_once_and_keeps)
{
    char expected[300];
    size_t size_bytes;

    ask(NULL, "compiled");
    ask(NULL, "compiled"); /* another context finds it kept */
    ck_assert_uint_eq(n_runs(), 1);
    ck_assert_ptr_nonnull(strstr(kept(".mxdb"), "-gemm_rows-mxfp8e4m3.mxfp8e4m3-f32-"));
    char *words = read_file(in_folder("runs"), &size_bytes);
    snprintf(expected, sizeof(expected),
             "build --target %s --op gemm_rows --format mxfp8e4m3.mxfp8e4m3 --dtype f32 "
             "--max-rank 16 -o ",
             target);
    ck_assert_msg(!strncmp(words, expected, strlen(expected)), "mxgen %s", words);
    free(words);
    assert_no_child();
    const mxrt_compiler_options off = {.off = 1};
    ask(&off, "reference");
    const mxrt_compiler_options elsewhere = {.folder = in_folder("option/kernels")};
    ask(&elsewhere, "compiled");
    ck_assert_uint_eq(n_runs(), 2);
}
END_TEST

/* A named variant is found, too, and a key of its own is asked for on its own. */
START_TEST(each_key_once)
{
    mxrt_context *of;
    mxrt_device *on = open_device("host?threads=2", NULL, NULL, &of);
    mxrt_gemm_plan *plan;

    ask_for(5, MX_GEMM_MXFP8_E4M3);
    the.request.variant = "compiled";
    assert_chosen(on, "compiled");
    ck_assert_uint_eq(n_runs(), 1);
    /* What comes back is not what was asked for. */
    ask_for(5, MX_GEMM_MXFP4);
    assert_chosen(on, "reference");
    assert_chosen(on, "reference");
    ck_assert_uint_eq(n_runs(), 2);
    assert_logged("has no kernel for gemm_rows mxfp8e4m3.mxfp4 f32");
    the.request.variant = "compiled";
    ck_assert_int_eq(mxrt_gemm_plan_create(on, &the.request, &plan, &err), MX_ERR_NOT_FOUND);
    close_device(on, of);
}
END_TEST

/* A pack whose kernels do not apply is completed, and stays first where they do. Plans of before
 * go on. */
START_TEST(packs_are_completed)
{
    mxrt_context *of;
    mxrt_gemm_plan *plan;
    char path[512];

    snprintf(path, sizeof(path), "%s", in_folder("partial.mxdb"));
    write_pack_of(path, partial, 1);
    mxrt_device *on = open_device("host?threads=2", path, NULL, &of);
    ask_for(6, MX_GEMM_MXFP8_E4M3);
    assert_chosen(on, "partial");
    ck_assert_uint_eq(n_runs(), 0);
    ck_assert_int_eq(mxrt_gemm_plan_create(on, &the.request, &plan, &err), MX_OK);
    ask_for(5, MX_GEMM_MXFP8_E4M3);
    assert_chosen(on, "compiled");
    ck_assert_uint_eq(n_runs(), 1);
    ask_for(6, MX_GEMM_MXFP8_E4M3);
    assert_chosen(on, "partial");
    assert_runs(plan);
    mxrt_gemm_plan_destroy(plan);
    close_device(on, of);
}
END_TEST

START_TEST(failures_are_told)
{
    mxrt_context *of;
    mxrt_choice choice;

    write_mxgen("echo 'not on a Sunday' >&2; exit 1");
    ask(NULL, "reference");
    ck_assert_uint_eq(n_runs(), 1);
    assert_logged("gemm_rows mxfp8e4m3.mxfp8e4m3 f32 is not compiled: ");
    assert_logged("not on a Sunday");
    mxrt_device *on = open_device("plan:gfx942", NULL, NULL, &of);
    ask_for(5, MX_GEMM_MXFP8_E4M3);
    the.request.host_offsets = 0;
    request_tensor *all[] = {&the.left, &the.left_scales, &the.right, &the.right_scales,
                             &the.out,  &the.read,        &the.status};
    for (int i = 0; i < COUNT(all); i++)
        all[i]->dl.device.device_type = kDLROCM;
    ck_assert_int_eq(mxrt_gemm_explain(on, &the.request, &choice, &err), MX_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.message, "no pack has a kernel for gemm_rows "
                                              "mxfp8e4m3.mxfp8e4m3 f32 (fast) on plan:gfx942"));
    ck_assert_ptr_nonnull(strstr(err.message, "--target gfx942 --op grouped_gemm"));
    ck_assert_uint_eq(n_runs(), 1);
    close_device(on, of);
}
END_TEST

static mx_status give_made(void *user, const mxrt_compile_request *request, char *path,
                           size_t path_bytes, mx_error *why)
{
    (void)why;
    ck_assert_ptr_nonnull(request->gemm);
    ck_assert_int_eq(request->gemm->pass, MX_GEMM_ROWS);
    ck_assert_int_eq(request->gemm->left, MX_GEMM_MXFP8_E4M3);
    ck_assert_int_eq(request->gemm->right, MX_GEMM_MXFP8_E4M3);
    ck_assert_int_eq(request->dtype, MX_DTYPE_F32);
    snprintf(path, path_bytes, "%s", in_folder("made.mxdb"));
    ++*(int *)user;
    return MX_OK;
}

START_TEST(the_callback_is_told)
{
    int n = 0;
    const mxrt_compiler_options compiler = {.compile = give_made, .user = &n};

    ask(&compiler, "compiled");
    ck_assert_int_eq(n, 1);
    ck_assert_uint_eq(n_runs(), 0);
}
END_TEST

/* ---- The real mxgen (MXGEN), for a simulated chip (MX_TEST_SIM) ---- */

/* The tensor's memory on the device instead, to be freed there. */
static void *move_there(mxrt_device *on, request_tensor *t, size_t bytes)
{
    mxrt_device_info info;
    void *data = NULL;

    ck_assert_int_eq(mxrt_device_get_info(on, &info, &err), MX_OK);
    ck_assert_int_eq(mxrt_device_alloc(on, bytes, &data, &err), MX_OK);
    ck_assert_int_eq(mxrt_device_upload(on, data, t->dl.data, bytes, &err), MX_OK);
    t->dl.data = data;
    t->dl.device = info.dl_device;
    return data;
}

/* A stream that captures, for which nothing is compiled. */
static void assert_not_while_capturing(mxrt_device *on)
{
    int (*stream_create)(void **), (*begin)(void *, int), (*end)(void *, void **);
    int (*stream_destroy)(void *), (*graph_destroy)(void *);
    void *library = dlopen(getenv("MX_TEST_SIM"), RTLD_NOW), *stream = NULL, *graph = NULL;
    mxrt_gemm_plan *plan;

    ck_assert_ptr_nonnull(library);
    *(void **)&stream_create = dlsym(library, "hipStreamCreate");
    *(void **)&begin = dlsym(library, "hipStreamBeginCapture");
    *(void **)&end = dlsym(library, "hipStreamEndCapture");
    *(void **)&stream_destroy = dlsym(library, "hipStreamDestroy");
    *(void **)&graph_destroy = dlsym(library, "hipGraphDestroy");
    ck_assert_int_eq(stream_create(&stream), 0);
    ck_assert_int_eq(begin(stream, 0), 0);
    the.request.stream = stream;
    ck_assert_int_eq(mxrt_gemm_plan_create(on, &the.request, &plan, &err), MX_ERR_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(err.message, "a graph is being captured"));
    ck_assert_uint_eq(n_logged("compiles it"), 0);
    ck_assert_int_eq(end(stream, &graph), 0);
    ck_assert_int_eq(graph_destroy(graph), 0);
    ck_assert_int_eq(stream_destroy(stream), 0);
    the.request.stream = NULL;
    dlclose(library);
}

START_TEST(real_mxgen_for_a_chip)
{
    const mxrt_compiler_options compiler = {.program = getenv("MXGEN")};
    mxrt_context *of;
    mxrt_gemm_plan *plan;
    mxrt_gemm_buffers buffers = {0};
    void *memory[6], *workspace = NULL;

    setenv("MXRT_HIP_LIBRARY", getenv("MX_TEST_SIM"), 1);
    setenv("MXSIM_ARCH", "gfx942", 1);
    mxrt_device *on = open_device("hip:0", NULL, &compiler, &of);
    request_make(&the, MX_GEMM_ROWS); /* ones, E4M3 by FP4 */
    request_tensor *all[] = {&the.left,         &the.left_scales, &the.right,
                             &the.right_scales, &the.out,         &the.status};
    const size_t bytes[] = {M * K, M * K / 32, G * N * K / 2, G * N * K / 32, M * N * 4, 4};
    for (int i = 0; i < 6; i++)
        memory[i] = move_there(on, all[i], bytes[i]);
    assert_not_while_capturing(on);
    ck_assert_msg(!mxrt_gemm_plan_create(on, &the.request, &plan, &err), "%s", err.message);
    ck_assert_uint_eq(n_logged("compiles it"), 1);
    ck_assert_ptr_nonnull(strstr(kept(".mxdb"), "gfx942-gemm_rows-mxfp8e4m3.mxfp4-f32-"));
    buffers.workspace_bytes = mxrt_gemm_workspace_bytes(plan);
    ck_assert_int_eq(mxrt_device_alloc(on, buffers.workspace_bytes, &workspace, &err), MX_OK);
    buffers.workspace = workspace;
    ck_assert_msg(!mxrt_gemm_run(plan, &buffers, NULL, &err), "%s", err.message);
    ck_assert_int_eq(mxrt_device_synchronize(on, NULL, &err), MX_OK);
    ck_assert_int_eq(mxrt_device_download(on, the.out_data, memory[4], bytes[4], &err), MX_OK);
    for (int64_t i = 0; i < (int64_t)M * N; i++)
        ck_assert(request_out_at(&the, i) == K);
    mxrt_gemm_plan_destroy(plan);
    mxrt_device_free(on, workspace);
    for (int i = 0; i < 6; i++)
        mxrt_device_free(on, memory[i]);
    close_device(on, of);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gemm_compile");
    TCase *tests = tcase_create("compile");

    tcase_add_checked_fixture(tests, set_up, compile_teardown);
    tcase_add_test(tests, compiles_once_and_keeps);
    tcase_add_test(tests, each_key_once);
    tcase_add_test(tests, packs_are_completed);
    tcase_add_test(tests, failures_are_told);
    tcase_add_test(tests, the_callback_is_told);
    if (getenv("MXGEN") && getenv("MX_TEST_SIM"))
        tcase_add_test(tests, real_mxgen_for_a_chip);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
