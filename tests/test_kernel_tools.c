/* Kernels written by others and the tools around them: NVIDIA's assembler, parameters of mxgen
 * build, mxrt tune --kernel with variants that hang, crash or are wrong. */
#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "kernel_rig.h"

/* ---- Machine code for NVIDIA ---- */

static const char nvidia_ir[] =
    "target triple = \"nvptx64-nvidia-cuda\"\n"
    "@global_smem = external addrspace(3) global [0 x i8], align 16\n"
    "@fixed = internal addrspace(3) global [32 x float] undef, align 16\n"
    "define ptx_kernel void @k(ptr addrspace(1) %x) {\n"
    "  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"
    "  %d = getelementptr float, ptr addrspace(3) @global_smem, i32 %t\n"
    "  store volatile i32 %t, ptr addrspace(3) %d\n"
    "  %f = getelementptr float, ptr addrspace(3) @fixed, i32 %t\n"
    "  store volatile i32 %t, ptr addrspace(3) %f\n"
    "  ret void\n"
    "}\n"
    "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n";

static const char nvidia_json[] =
    "{\"kernel\": \"k\", \"params\": {\"WARPS\": [2, 4]},"
    " \"args\": [{\"name\": \"x\", \"kind\": \"pointer\"}], \"grid\": [1],"
    " \"block\": [\"32 * ${WARPS}\"], \"lds_bytes\": \"4 * 32 * ${WARPS}\"}";

/* A stand-in that takes what ptxas takes, and prints what it prints. */
static void write_ptxas(const char *ending)
{
    char text[1200], *path = cli_temp_path(kernel_dir, "ptxas");
    snprintf(text, sizeof(text),
             "#!/bin/sh\n"
             "if [ \"$*\" = --version ]; then\n"
             "    echo 'Cuda compilation tools, release 12.0, V12.0.99'\n"
             "    exit 0\n"
             "fi\n"
             "[ \"$*\" = '-arch=sm_90a -v -o out.cubin in.ptx' ] || exit 9\n"
             "grep -q '^.visible .entry k(' in.ptx || exit 8\n"
             "echo \"ptxas info : Compiling entry function 'k' for 'sm_90a'\" >&2\n"
             "echo '    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads'\n"
             "echo 'ptxas info : Used 12 registers, used 1 barriers, 128 bytes smem'\n"
             "echo machine code >out.cubin\n"
             "%s\n",
             ending);
    write_text("ptxas", text);
    ck_assert_int_eq(chmod(path, 0700), 0);
    free(path);
}

static json_t *list_of(const char *pack)
{
    cli_run run;
    char words[80];
    snprintf(words, sizeof(words), "list --json %s", pack);
    mxgen(&run, words);
    ck_assert_msg(run.exit_code == 0, "%s", run.err);
    json_t *root = json_loads(run.out, 0, NULL);
    cli_run_finish(&run);
    ck_assert_ptr_nonnull(root);
    return root;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static json_int_t number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

START_TEST(cubin_besides_ptx)
{
    static const char *const targets[] = {"sm_90a", "compute_90a", "sm_90a", "compute_90a"},
                             *const kinds[] = {"elf-cuda", "ptx", "elf-cuda", "ptx"};
    cli_run run;
    write_text("k.ll", nvidia_ir);
    write_text("k.json", nvidia_json);
    write_ptxas("");
    mxgen(&run, "compile @k.ll --target sm_90a --ptxas @ptxas -o @p");
    ck_assert_msg(run.exit_code == 0 && strstr(run.out, "2 kernels, 4 objects") &&
                      strstr(run.out, "2 of the objects by ptxas 12.0.99"),
                  "%s%s", run.out, run.err);
    cli_run_finish(&run);
    json_t *root = list_of("@p"), *variants = json_object_get(root, "variants"), *v;
    size_t i;
    ck_assert_ptr_nonnull(strstr(text_of(root, "compiler"), ", ptxas 12.0.99"));
    ck_assert_uint_eq(json_array_size(variants), 4);
    json_array_foreach(variants, i, v)
    {
        const json_t *info = json_object_get(v, "info"), *launch = json_object_get(v, "launch");
        ck_assert_str_eq(text_of(v, "target"), targets[i]);
        ck_assert_str_eq(text_of(json_object_get(v, "object"), "kind"), kinds[i]);
        /* What the code reserves and what the launch adds, by the parameter. */
        ck_assert_int_eq(number_of(launch, "lds_bytes"), 128 + (i < 2 ? 256 : 512));
        ck_assert_int_eq(number_of(info, "registers"), i % 2 ? 0 : 12);
    }
    json_decref(root);
}
END_TEST

START_TEST(ptxas_off_or_failing)
{
    write_text("k.ll", nvidia_ir);
    write_text("k.json", nvidia_json);
    mxgen_ok("compile @k.ll --target sm_90a --ptxas off -o @p");
    json_t *root = list_of("@p"), *variants = json_object_get(root, "variants");
    ck_assert_uint_eq(json_array_size(variants), 2);
    ck_assert_str_eq(text_of(json_array_get(variants, 0), "target"), "sm_90a");
    ck_assert_str_eq(text_of(json_object_get(json_array_get(variants, 0), "object"), "kind"),
                     "ptx");
    json_decref(root);
    write_ptxas("echo 'ptxas in.ptx, line 9; fatal : no'; exit 3");
    mxgen_fails("compile @k.ll --target sm_90a --ptxas @ptxas -o @p", "k.ll: ");
    mxgen_fails("compile @k.ll --target sm_90a --ptxas @ptxas -o @p", "line 9; fatal : no");
    mxgen_fails("compile @k.ll --target sm_90a --ptxas @none -o @p", "none is no program");
}
END_TEST

/* Newer LLVMs have AMD's chip in the triple. */
START_TEST(chip_in_triple)
{
    static const char *const triples[][2] = {{"amdgpu9.42", "gfx942"},
                                             {"amdgpu11.00", "gfx1100"},
                                             {"amdgpu", "gfx90a"},
                                             {"amdgpu9.0a", "gfx90a"}};
    char text[200], words[80];
    for (size_t i = 0; i < sizeof(triples) / sizeof(triples[0]); i++) {
        snprintf(text, sizeof(text),
                 "target triple = \"%s-amd-amdhsa\"\n"
                 "define amdgpu_kernel void @f(ptr %%x) {\n  ret void\n}\n",
                 triples[i][0]);
        write_text("f.ll", text);
        snprintf(words, sizeof(words), "compile @f.ll --target %s -o @p", triples[i][1]);
        mxgen_ok(words);
    }
    mxgen_fails("compile @f.ll --target gfx942 -o @p", "is for triple \"amdgpu9.0a-amd-amdhsa\"");
}
END_TEST

/* A built-in kernel and a file's, one of its variants. */
START_TEST(parameters_of_build)
{
    write_text("k.ll", nvidia_ir);
    write_text("k.json", nvidia_json);
    write_ptxas("");
    mxgen_ok("build --target sm_90a --op to --format mx4 --dtype f32 --layout flat --max-rank 1 "
             "--ptxas off --param WARPS=4 -o @p @k.ll");
    json_t *root = list_of("@p"), *variants = json_object_get(root, "variants");
    ck_assert_uint_eq(json_array_size(variants), 2);
    ck_assert_str_eq(text_of(json_array_get(variants, 1), "kernel"), "k_WARPS_4");
    json_decref(root);
    mxgen_fails("build --target sm_90a --param WARPS=3 -o @p @k.ll", "not among the 2 values");
    mxgen_fails("build --target sm_90a --param LANES=3 -o @p @k.ll", "no such parameter");
}
END_TEST

/* ---- Mathematics on a GPU ---- */

static double expm1_of(double x)
{
    return expm1(x);
}

static double rsqrt_of(double x)
{
    return 1 / sqrt(x);
}

/* MLIR's name, the function, values from `first` on by a factor or a step, and the largest error:
 * in units in the last place of the result, or of 1 where that is larger. */
static const struct {
    const char *name;
    double (*function)(double);
    float first, factor, step;
    double limit;
    int of_one;
} mathematics[] = {
    {"exp", exp, -87, 1, 0.68f, 2, 0},        {"exp2", exp2, -126, 1, 0.98f, 2, 0},
    {"expm1", expm1_of, -17, 1, 0.13f, 4, 0}, {"log", log, 1e-42f, 2.2f, 0, 2, 0},
    {"log2", log2, 0.5f, 1, 0.0123f, 2, 0},   {"log10", log10, 1e-3f, 1.07f, 0, 3, 0},
    {"log1p", log1p, 1e-8f, 1.2f, 0, 4, 0},   {"sin", sin, -99999, 1, 781.3f, 2, 1},
    {"cos", cos, -8, 1, 0.0625f, 2, 1},       {"tanh", tanh, 1e-6f, 1.07f, 0, 5, 0},
    {"sinh", sinh, -9, 1, 0.07f, 5, 0},       {"rsqrt", rsqrt_of, 1e-30f, 1.7f, 0, 2, 0},
    {"ceil", ceil, -3, 1, 0.03f, 0, 0},
};
enum { N_MATHEMATICS = sizeof(mathematics) / sizeof(mathematics[0]), N_VALUES = 256 };

static void write_mathematics(const char *type)
{
    char *text = NULL;
    size_t size_bytes;
    FILE *out = open_memstream(&text, &size_bytes);
    ck_assert_ptr_nonnull(out);
    fputs("gpu.module @m {\n", out);
    for (size_t i = 0; i < N_MATHEMATICS; i++)
        fprintf(out,
                "gpu.func @%s(%%x: memref<64x%s>) kernel {\n"
                "  %%t = gpu.thread_id x\n"
                "  %%v = memref.load %%x[%%t] : memref<64x%s>\n"
                "  %%w = math.%s %%v : %s\n"
                "  memref.store %%w, %%x[%%t] : memref<64x%s>\n"
                "  gpu.return\n"
                "}\n",
                mathematics[i].name, type, type, mathematics[i].name, type, type);
    fputs("}\n", out);
    ck_assert_int_eq(fclose(out), 0);
    write_text("m.mlir", text);
    free(text);
}

static void check_function(rig *r, size_t index)
{
    float x[N_VALUES], y[N_VALUES];
    const mxrt_kernel_size size = {{1, 1, 1}, {64, 1, 1}};
    for (int i = 0; i < N_VALUES; i++)
        x[i] = i ? x[i - 1] * mathematics[index].factor + mathematics[index].step
                 : mathematics[index].first;
    void *memory = rig_upload(r, x, sizeof(x));
    const mxrt_kernel_arg args[] = {mxrt_arg_pointer(memory), mxrt_arg_pointer(memory),
                                    mxrt_arg_i64(0), mxrt_arg_i64(64), mxrt_arg_i64(1)};
    rig_launch(r, rig_find(r, mathematics[index].name), &size, args, 5);
    rig_download(r, y, memory, sizeof(y));
    for (int i = 0; i < N_VALUES; i++) {
        double wanted = mathematics[index].function((double)x[i]);
        float unit = nextafterf(fabsf((float)wanted), INFINITY) - fabsf((float)wanted);
        if (mathematics[index].of_one && unit < 0x1p-24f)
            unit = 0x1p-24f;
        double error = fabs((double)y[i] - wanted);
        ck_assert_msg(y[i] == (float)wanted || error <= mathematics[index].limit * (double)unit,
                      "%s(%.9g) = %.9g, not %.9g: %g units", mathematics[index].name, (double)x[i],
                      (double)y[i], wanted, error / (double)unit);
    }
}

START_TEST(functions_on_chip)
{
    rig r;
    write_mathematics("vector<4xf32>");
    mxgen_ok("compile @m.mlir --target sm_90a --ptxas off -o @p");
    mxgen_ok("compile @m.mlir --target gfx942 -o @p");
    if (getenv("MXRT_HIP_LIBRARY")) {
        rig_open(&r, "hip:0", "p");
        for (size_t i = 0; i < N_MATHEMATICS; i++)
            check_function(&r, i);
        rig_close(&r);
    }
    static const char *const types[] = {"f16", "bf16", "vector<2x2xbf16>"};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        write_mathematics(types[i]);
        mxgen_ok("compile @m.mlir --target gfx942 -o @p");
        mxgen_ok("compile @m.mlir --target sm_90a --ptxas off -o @p");
    }
}
END_TEST

/* ---- Tuning ---- */

/* Counts by STEP, which for 0 is for ever, and stores a byte FAR away. */
static const char odd_ir[] = "define void @f(ptr %x, i64 %n, float %a) {\n"
                             "entry:\n"
                             "  br label %loop\n"
                             "loop:\n"
                             "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]\n"
                             "  store volatile i64 %i, ptr %x\n"
                             "  %next = add i64 %i, ${STEP}\n"
                             "  %on = icmp slt i64 %next, 9\n"
                             "  br i1 %on, label %loop, label %done\n"
                             "done:\n"
                             "  %p = getelementptr i8, ptr %x, i64 ${FAR}\n"
                             "  store volatile i8 1, ptr %p\n"
                             "  ret void\n"
                             "}\n";

static const char odd_json[] =
    "{\"kernel\": \"f\", \"symbol\": \"f\", \"params\": {\"STEP\": [0, 2, 1], \"FAR\": "
    "[0, 70368744177664]}, \"applies\": [{\"rule\": \"one hangs\", \"when\": \"STEP || !FAR\"}],"
    " \"args\": [{\"name\": \"x\", \"kind\": \"pointer\", \"bytes\": \"8 * n\"},"
    "  {\"name\": \"n\", \"kind\": \"i64\"}, {\"name\": \"a\", \"kind\": \"f32\"}],"
    " \"grid\": [1], \"block\": [1], \"check\": {\"command\": [\"sh\", \"judge.sh\"], "
    "\"args\": {\"n\": 1, \"a\": 0}}}";

static void tune(cli_run *run, const char *args, const char *check)
{
    char *pack = cli_temp_path(kernel_dir, "p"), *file = cli_temp_path(kernel_dir, "tune"),
         *json = cli_temp_path(kernel_dir, check ? check : "");
    const char *argv[] = {getenv("MXRT"),
                          "tune",
                          "--kernel",
                          "f",
                          "--device",
                          "host?threads=1",
                          "--pack",
                          pack,
                          "--seconds",
                          "0.001",
                          "--limit",
                          "1",
                          "--args",
                          args,
                          "--file",
                          file,
                          check ? "--check" : NULL,
                          json,
                          NULL};
    ck_assert_msg(argv[0] != NULL, "set MXRT to the program");
    cli_run_start(run, argv);
    free(pack);
    free(file);
    free(json);
}

static void assert_says(const cli_run *run, int exit_code, const char *out, const char *err)
{
    ck_assert_msg(run->exit_code == exit_code && strstr(run->out, out) && strstr(run->err, err),
                  "exit %d, \"%s\", \"%s\": %s%s", run->exit_code, out, err, run->out, run->err);
}

static void compile_odd(const char *params)
{
    char words[200];
    write_text("f.ll", odd_ir);
    write_text("f.json", odd_json);
    write_text("judge.sh",
               "grep -q '\"n\":4,.*\"a\":1.5' args.json || exit 9\n"
               "test $(stat -c %s x.in) = 32 && test $(stat -c %s x.out) = 32 || exit 8\n"
               "! grep -q STEP_2 args.json || { echo a step too far; exit 1; }\n");
    snprintf(words, sizeof(words), "compile @f.ll --target host-x86-64-v3%s -o @p", params);
    mxgen_ok(words);
}

/* One of five variants hangs, two crash. */
START_TEST(variants_that_do_not_come_back)
{
    cli_run run;
    compile_odd("");
    tune(&run, "n=4,a=1.5", NULL);
    assert_says(&run, 0, "f_STEP_2_FAR_0", "f_STEP_0_FAR_0 is not used: no answer in 1 s");
    assert_says(&run, 0, "f_STEP_1_FAR_0", "f_STEP_2_FAR_70368744177664 is not used: crashed (");
    assert_says(&run, 0, "", "f_STEP_1_FAR_70368744177664 is not used: crashed (");
    ck_assert_ptr_null(strstr(run.out, "STEP_0"));
    cli_run_finish(&run);
}
END_TEST

START_TEST(variants_that_are_wrong)
{
    cli_run run;
    compile_odd(" --param FAR=0 --param STEP=2");
    tune(&run, "n=4,a=1.5", "f.json");
    assert_says(&run, 1, "", "f_STEP_2_FAR_0 is wrong, says \"check\" of ");
    assert_says(&run, 1, "", "a step too far");
    assert_says(&run, 1, "", "no variant of kernel f could be measured");
    cli_run_finish(&run);
    compile_odd(" --param FAR=0 --param STEP=1");
    tune(&run, "n=4,a=1.5", "f.json");
    assert_says(&run, 0, "f_STEP_1_FAR_0", "");
    cli_run_finish(&run);
    tune(&run, "n=4,a=1.5", "none.json");
    assert_says(&run, 1, "", "none.json");
    cli_run_finish(&run);
    tune(&run, "n=4,a=1.5", "f.ll");
    assert_says(&run, 1, "", "f.ll:1:");
    cli_run_finish(&run);
    tune(&run, "n=4", NULL);
    assert_says(&run, 1, "", "needs a value of a");
    cli_run_finish(&run);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel_tools");
    TCase *tests = tcase_create("kernel_tools");
    tcase_add_checked_fixture(tests, kernel_setup, kernel_teardown);
    tcase_add_test(tests, cubin_besides_ptx);
    tcase_add_test(tests, ptxas_off_or_failing);
    tcase_add_test(tests, chip_in_triple);
    tcase_add_test(tests, parameters_of_build);
    if (getenv("MX_TEST_MLIR"))
        tcase_add_test(tests, functions_on_chip);
    tcase_add_test(tests, variants_that_do_not_come_back);
    tcase_add_test(tests, variants_that_are_wrong);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
