/* Kernel files that are wrong: what is said of them, and where. */
#include <check.h>
#include <stdlib.h>

#include "kernel_rig.h"

typedef struct bad_case {
    const char *words, *text, *json, *message; /* text in k.ll, json in k.json */
} bad_case;

#define EMPTY "define void @f(ptr %x) {\n  ret void\n}\n"
#define CPU(cpu)                                                                                   \
    "define amdgpu_kernel void @f() #0 {\n ret void\n}\nattributes #0 = { \"target-cpu\"=\"" cpu   \
    "\" }"
#define GPU "compile @k.ll --target gfx942 -o @p"
#define HOST "compile @k.ll --target host-x86-64-v3 -o @p"

static const bad_case bad_cases[] = {
    {GPU, "define void @f() {\n  %x = fad float 1.0, 2.0\n}\n", NULL, "k.ll:2:8: "},
    {GPU, "define void @f() {\n  ret i32 1\n}\n", NULL, "k.ll:2:"},
    {GPU,
     "define void @f(ptr %p) {\n  br label %b\na:\n  %y = add i32 %x, 1\n  br label %b\nb:\n  "
     "%x = phi i32 [ 0, %0 ], [ 1, %a ]\n  %z = load <3 x i32>, ptr %p, align 4\n  %w = "
     "insertelement <3 x i32> %z, i32 %u, i32 %x\n  %u = add i32 %x, 1\n  ret void\n}\n",
     NULL, "k.ll:10:3: LLVM's verifier refuses it: Instruction does not dominate all uses"},
    {GPU, "target triple = \"nvptx64-nvidia-cuda\"\n" EMPTY, NULL, "is for triple \"nvptx64"},
    {GPU, "target datalayout = \"e-p:32:32\"\n" EMPTY, NULL, "disagrees on pointers"},
    {GPU, CPU("gfx90a"), NULL, "@f is for gfx90a"},
    {GPU,
     "!llvm.module.flags = !{!0}\n!0 = !{i32 1, !\"amdhsa_code_object_version\", i32 400}\n" EMPTY,
     NULL, "amdhsa_code_object_version is not 500"},
    {GPU,
     "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()\ndefine void @f(ptr %x) {\n  %t = call i32 "
     "@llvm.nvvm.read.ptx.sreg.tid.x()\n  store i32 %t, ptr %x\n  ret void\n}\n",
     NULL, "LLVM gives up: Cannot select: intrinsic %llvm.nvvm.read.ptx.sreg.tid.x"},
    {GPU, "declare void @missing()\ndefine void @f() {\n  call void @missing()\n  ret void\n}\n",
     NULL, "it uses @missing, which is defined nowhere"},
    {HOST, "declare void @missing()\ndefine void @f() {\n  call void @missing()\n  ret void\n}\n",
     NULL, "undefined symbol: missing"},
    {GPU, "define i32 @f() {\n  ret i32 0\n}\n", NULL, "k.ll has no kernel"},
    {GPU, "define void @f(i8 %x) {\n  ret void\n}\n", NULL, "argument 0 (x) is i8"},
    {HOST,
     "declare i32 @llvm.amdgcn.readlane.i32(i32, i32)\ndefine void @f(ptr %p) {\n  %x = call i32 "
     "@llvm.amdgcn.readlane.i32(i32 1, i32 2)\n  store i32 %x, ptr %p\n  ret void\n}\n",
     NULL, "a workgroup is one lane, which cannot do this: llvm.amdgcn.readlane.i32"},
    {HOST,
     "define void @f() {\n  call void @g()\n  ret void\n}\ndefine void @g() {\n  call void "
     "@g()\n  ret void\n}\n",
     "{\"symbol\": \"f\"}", "a function cannot be inlined"},
    {"compile @k.ll --target gfx942 --param A=1 -o @p", EMPTY, NULL, "has no ${A} in its text"},
    {"compile @k.ll --target gfx942 --param A -o @p", EMPTY, NULL, "write NAME=VALUE"},
    {"compile @k.ll --target gfx942 --param A=3 -o @p", EMPTY, "{\"params\": {\"A\": [1, 2]}}",
     "not among the 2 values"},
    {"compile @k.ll --target gfx942 --param B=3 -o @p", EMPTY, "{\"params\": {\"A\": [1, 2]}}",
     "declares no such parameter"},
    {GPU, "define void @f() {\n  ret ${VOID}\n}\n", "{\"params\": {\"A\": 1}}",
     "k.ll:2:7: unknown parameter ${VOID}; there are A"},
    {GPU, EMPTY, "{\"params\": {\"A\": []}}", "parameter A has no values"},
    {GPU, EMPTY, "{\"params\": {\"A\": {\"from\": 4, \"to\": 1}}}", "a range is"},
    {GPU, EMPTY, "{\"param\": 1}", "unknown key \"param\""},
    {GPU, EMPTY, "{\n  \"params\": 1,,\n}", "k.json:2:"},
    {GPU, EMPTY,
     "{\"params\": {\"A\": [1, 2]}, \"applies\": [{\"rule\": \"large\", \"when\": \"A > 9\"}]}",
     "no choice of its parameters applies to gfx942: applies[0], \"large\" (A > 9)"},
    {GPU, EMPTY,
     "{\"params\": {\"A\": 0}, \"applies\": [{\"rule\": \"r\", \"when\": \"1 / A > 0\"}]}",
     "applies[0]: expression \"1 / A > 0\": division by zero at column 3"},
    {GPU, EMPTY, "{\"params\": {\"A\": 0}, \"applies\": [{\"rule\": \"r\", \"when\": \"B > 0\"}]}",
     "an unknown variable at column 1"},
    {GPU, EMPTY, "{\"args\": [{\"name\": \"x\", \"kind\": \"pointer\"}], \"grid\": [\"4 / 0\"]}",
     "grid: expression \"4 / 0\": division by zero"},
    {GPU, EMPTY, "{\"args\": [{\"name\": \"x\", \"kind\": \"pointer\"}], \"grid\": [\"x\"]}",
     "grid: expression \"x\": an unknown variable"},
    {GPU, EMPTY,
     "{\"args\": [{\"name\": \"x\", \"kind\": \"pointer\"}], \"rules\": [{\"rule\": "
     "\"never\", \"when\": \"1 > 2\"}]}",
     "rules[0], \"never\" (1 > 2), never holds"},
    {GPU, EMPTY, "{\"args\": [{\"name\": \"x\", \"kind\": \"i64\"}]}", "argument 0 (x) is ptr, "},
    {GPU, EMPTY, "{\"args\": []}", "@f takes 1 arguments, \"args\" of"},
    {GPU, EMPTY, "{\"args\": [{\"name\": \"x\", \"kind\": \"pointer\"}], \"block\": [512, 4]}",
     "a block of 2048 work items; gfx942 has at most 1024"},
    {GPU,
     "define amdgpu_kernel void @f() \"amdgpu-flat-work-group-size\"=\"1,64\" {\n  ret void\n}\n",
     "{\"args\": [], \"block\": [256]}", "was made for workgroups of 64"},
    {GPU, EMPTY, "{\"kernel\": \"g\"}", "has no kernel @g"},
    {GPU, EMPTY, "{\"targets\": [\"host\"]}", "\"targets\" has none"},
    /* What a FILE.json may not be. */
    {GPU, EMPTY, "{\"kernel\": 3}", "\"kernel\" must be a text"},
    {GPU, EMPTY, "{\"targets\": [\"gfx941\"]}", "targets[0], \"gfx941\", is no target"},
    {GPU, EMPTY, "{\"targets\": \"gfx942\"}", "\"targets\" must be a list"},
    {GPU, EMPTY, "{\"params\": {\"1A\": 1}}", "k.json: \"1A\" is no name of a parameter"},
    {GPU, EMPTY, "{\"applies\": [{\"rule\": \"r\"}]}", "applies[0] must be {"},
    {GPU, EMPTY, "{\"rules\": [{\"when\": \"1\"}]}", "rules[0] must be {"},
    {GPU, EMPTY, "{\"check\": {\"command\": [3]}}", "command[0] is no text"},
    {GPU, EMPTY, "{\"check\": {\"args\": {}}}", "\"check\" must be {"},
    {GPU, EMPTY, "{\"args\": [{\"name\": \"x\", \"kind\": \"pointer\", \"byte\": 4}]}",
     "unknown key \"byte\""},
    {GPU, EMPTY, "{\"args\": [{\"name\": \"n\", \"kind\": \"i64\"}], \"grid\": [\"n % (4 - 4)\"]}",
     "grid: expression \"n % (4 - 4)\": division by zero at column 3"},
    {GPU, EMPTY, "{\"args\": [], \"grid\": [\"-1\"]}", "grid[0] is -1; 0 to 2147483647"},
    {GPU, EMPTY, "{\"args\": [], \"block\": [0]}", "block[0] is 0; 1 to 1024"},
    {GPU, EMPTY, "{\"params\": {\"A\": 70000}, \"lds_bytes\": \"4 * ${A}\"}",
     "280000 bytes of shared memory; a workgroup of gfx942 has 65536"},
    {GPU, EMPTY, "{\"lds_bytes\": \"${B}\"}", "k.json:1:1: unknown parameter ${B}"},
    {"compile @k.ll --target gfx942 --stage ptx -o @p", EMPTY, NULL, "unknown stage"},
    {"compile @k.txt --target gfx942 -o @p", EMPTY, NULL, "ends in .mlir, .ll"},
    {"compile @missing.ll --target gfx942 -o @p", EMPTY, NULL, "missing.ll"},
};

START_TEST(wrong)
{
    const bad_case *c = &bad_cases[_i];
    write_text("k.ll", c->text);
    if (c->json)
        write_text("k.json", c->json);
    mxgen_fails(c->words, c->message);
}
END_TEST

#define MLIR "compile @k.mlir --target gfx942 -o @p"

static const bad_case mlir_cases[] = {
    {MLIR, "func.func @f(%x: f32) {\n  %y = arith.addf %x, %z : f32\n  return\n}\n", NULL,
     "k.mlir:2:"},
    {MLIR, "func.func @f(%x: f32) {\n  \"foo.bar\"() : () -> ()\n  return\n}\n", NULL,
     "k.mlir:2:12: operation being parsed with an unregistered dialect"},
    {MLIR, "func.func @f(%x: f32) {\n  %y = \"arith.addf\"(%x) : (f32) -> f32\n  return\n}\n", NULL,
     "k.mlir:2:8: 'arith.addf' op expected 2 operands"},
    {MLIR, "gpu.module @m {\n  gpu.func @f(%x: tensor<4xf32>) kernel {\n    gpu.return\n  }\n}\n",
     NULL, "k.mlir:2:"},
    {MLIR,
     "func.func @f(%p: memref<4xindex>, %i: index) {\n  %x = gpu.thread_id x\n  memref.store %x, "
     "%p[%i] : memref<4xindex>\n  return\n}\n",
     NULL, "k.mlir:2:8: "},
    {MLIR, "gpu.module @m {\n}\ngpu.module @n {\n}\n", NULL, "2 gpu.modules"},
    {MLIR,
     "func.func @f(%x: f32, %p: memref<1xf32>, %i: index) {\n  %y = math.erf %x : f32\n  "
     "memref.store %y, %p[%i] : memref<1xf32>\n  return\n}\n",
     NULL, "k.mlir:2:8: 'math.erf' op: GPUs do not have it"},
    {MLIR,
     "func.func @f(%x: f64, %p: memref<1xf64>, %i: index) {\n  %y = math.exp %x : f64\n  "
     "memref.store %y, %p[%i] : memref<1xf64>\n  return\n}\n",
     NULL, "k.mlir:2:8: 'math.exp' op: GPUs do not have it in f64"},
    {MLIR, "gpu.module @m {\n  gpu.func @f(%x: memref<?xf32>) kernel {\n    gpu.return\n  }\n}\n",
     "{\"args\": [{\"name\": \"x\", \"kind\": \"memref\"}]}", "memref x needs a \"shape\""},
    {MLIR, "gpu.module @m {\n  gpu.func @f(%x: memref<?xf32>) kernel {\n    gpu.return\n  }\n}\n",
     "{\"args\": [{\"name\": \"x\", \"kind\": \"pointer\"}]}", "@f takes 5 arguments"},
};

START_TEST(wrong_mlir)
{
    const bad_case *c = &mlir_cases[_i];
    write_text("k.mlir", c->text);
    if (c->json)
        write_text("k.json", c->json);
    mxgen_fails(c->words, c->message);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernel_errors");
    TCase *tests = tcase_create("kernel_errors");
    tcase_add_checked_fixture(tests, kernel_setup, kernel_teardown);
    tcase_add_loop_test(tests, wrong, 0, (int)(sizeof(bad_cases) / sizeof(bad_cases[0])));
    if (getenv("MX_TEST_MLIR"))
        tcase_add_loop_test(tests, wrong_mlir, 0,
                            (int)(sizeof(mlir_cases) / sizeof(mlir_cases[0])));
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
