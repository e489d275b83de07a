/* Kernels written by others: compiled by mxgen, found by name, launched with plain arguments, on
 * the host and on a simulated chip. */
#include <check.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel_rig.h"

/* ---- LLVM IR on the host ---- */

/* Workgroup (x, y, z) stores e^f + its number to element x + 5y + 15z by way of shared memory,
 * where it also adds what a function tells of threads: 1 of them, this one number 0. */
static const char host_ir[] =
    "@shared = internal addrspace(3) global [4 x float] undef, align 16\n"
    "define internal float @threads() noinline {\n"
    "  %n = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()\n"
    "  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.y()\n"
    "  %s = add i32 %n, %t\n"
    "  %f = uitofp i32 %s to float\n"
    "  ret float %f\n"
    "}\n"
    "define void @number(ptr addrspace(1) %y, float %f, i32 %extra, i64 %n) {\n"
    "  %x = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()\n"
    "  %y1 = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()\n"
    "  %z = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()\n"
    "  %nx = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()\n"
    "  %ny = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()\n"
    "  %zy = mul i32 %z, %ny\n"
    "  %row = add i32 %zy, %y1\n"
    "  %start = mul i32 %row, %nx\n"
    "  %p = add i32 %start, %x\n"
    "  %e = call float @llvm.exp.f32(float %f)\n"
    "  store float %e, ptr addrspace(3) getelementptr (i8, ptr addrspace(3) @shared, i64 4)\n"
    "  call void @llvm.nvvm.barrier0()\n"
    "  %l = load float, ptr addrspace(3) getelementptr ([4 x float], ptr addrspace(3) @shared, i64 "
    "0, i64 1)\n"
    "  %t = call float @threads()\n"
    "  %u = add i32 %p, %extra\n"
    "  %pf = uitofp i32 %u to float\n"
    "  %a = fadd float %l, %t\n"
    "  %b = fadd float %a, %pf\n"
    "  %wide = zext i32 %p to i64\n"
    "  %in = icmp slt i64 %wide, %n\n"
    "  br i1 %in, label %store, label %done\n"
    "store:\n"
    "  %at = getelementptr float, ptr addrspace(1) %y, i64 %wide\n"
    "  store float %b, ptr addrspace(1) %at\n"
    "  br label %done\n"
    "done:\n"
    "  ret void\n"
    "}\n"
    "declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()\n"
    "declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()\n"
    "declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()\n"
    "declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()\n"
    "declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.y()\n"
    "declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()\n"
    "declare i32 @llvm.nvvm.read.ptx.sreg.tid.y()\n"
    "declare void @llvm.nvvm.barrier0()\n"
    "declare float @llvm.exp.f32(float)\n";

START_TEST(host_without_json)
{
    rig r;
    float y[30] = {0};
    const mxrt_kernel_size size = {{5, 3, 2}, {1, 1, 1}};
    write_text("k.ll", host_ir);
    mxgen_ok("compile @k.ll --target host-x86-64-v3 -o @p");
    rig_open(&r, "host?threads=2", "p");
    const mxrt_kernel *kernel = rig_find(&r, "number");
    mxrt_kernel_info info;
    ck_assert_int_eq(mxrt_kernel_get_info(kernel, &info, &r.err), MX_OK);
    ck_assert_uint_eq(info.n_inputs, 4);
    ck_assert_str_eq(info.inputs[3].name, "n");
    ck_assert_int_eq(info.inputs[1].kind, MXRT_ARG_F32);
    ck_assert_str_eq(mxrt_kernel_variant_name(kernel, 0), "number");
    ck_assert_ptr_null(mxrt_kernel_variant_name(kernel, 1));
    void *memory = rig_upload(&r, y, sizeof(y));
    const mxrt_kernel_arg args[] = {mxrt_arg_pointer(memory), mxrt_arg_f32(0.5f), mxrt_arg_i32(7),
                                    mxrt_arg_i64(29)};
    rig_launch(&r, kernel, &size, args, 4);
    launch_fails(&r, kernel, NULL, args, 4, MX_ERR_INVALID, "has no launch rule: give its grid");
    launch_fails(&r, kernel, &size, args, 3, MX_ERR_INVALID, "takes 4 arguments, not 3");
    const mxrt_kernel_arg swapped[] = {args[0], args[2], args[1], args[3]};
    launch_fails(&r, kernel, &size, swapped, 4, MX_ERR_INVALID, "argument 1 (f) is f32, not i32");
    const mxrt_kernel_size huge = {{2147483647, 3, 1}, {1, 1, 1}};
    launch_fails(&r, kernel, &huge, args, 4, MX_ERR_UNSUPPORTED, "6442450941 workgroups");
    rig_download(&r, y, memory, sizeof(y));
    for (int i = 0; i < 30; i++)
        ck_assert_msg(y[i] == (i < 29 ? expf(0.5f) + 1 + (float)(i + 7) : 0), "%d: %g", i, y[i]);
    ck_assert_int_eq(mxrt_kernel_find(r.device, "other", &kernel, &r.err), MX_ERR_NOT_FOUND);
    ck_assert_msg(strstr(r.err.message, "there are number") != NULL, "%s", r.err.message);
    rig_close(&r);
}
END_TEST

static const char scaled_json[] =
    "{\"kernel\": \"scale\", \"symbol\": \"scale_${STEP}\","
    " \"params\": {\"STEP\": {\"from\": 1, \"to\": 8, \"times\": 2}, \"OP\": [\"fmul\", \"fadd\"]},"
    " \"applies\": [{\"rule\": \"steps are even\", \"when\": \"STEP % 2 == 0 && is_host\"}],"
    " \"args\": [{\"name\": \"x\", \"kind\": \"pointer\"}, {\"name\": \"n\", \"kind\": \"i64\"},"
    "  {\"name\": \"a\", \"kind\": \"f32\"}, {\"name\": \"bias\", \"kind\": \"f32\", \"value\": "
    "\"${STEP}\"},"
    "  {\"name\": \"half\", \"kind\": \"i32\", \"value\": \"n / 2\"},"
    "  {\"name\": \"null\", \"kind\": \"pointer\", \"value\": 0},"
    "  {\"name\": \"quotient\", \"kind\": \"i64\", \"pass\": false}],"
    " \"rules\": [{\"rule\": \"whole steps\", \"when\": \"n % ${STEP} == 0 && 6 / quotient > 0\"},"
    "  {\"rule\": \"aligned\", \"when\": \"x_align >= 16\"}],"
    " \"grid\": [\"n / ${STEP}\"], \"block\": [\"64\"]}";

/* One program applies OP with `a` to STEP elements of its own, and adds what the launch rule gives.
 */
static const char scaled_ir[] =
    "define void @scale_${STEP}(ptr %x, i64 %n, float %a, float %bias, i32 %half, ptr %null) {\n"
    "entry:\n"
    "  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()\n"
    "  %b64 = zext i32 %b to i64\n"
    "  %first = mul i64 %b64, ${STEP}\n"
    "  %is = icmp eq ptr %null, null\n"
    "  %h = sitofp i32 %half to float\n"
    "  %more = select i1 %is, float %h, float 0.0\n"
    "  br label %loop\n"
    "loop:\n"
    "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]\n"
    "  %at = add i64 %first, %i\n"
    "  %p = getelementptr float, ptr %x, i64 %at\n"
    "  %v = load float, ptr %p\n"
    "  %s = ${OP} float %v, %a\n"
    "  %t = fadd float %s, %bias\n"
    "  %u = fadd float %t, %more\n"
    "  store float %u, ptr %p\n"
    "  %next = add i64 %i, 1\n"
    "  %on = icmp slt i64 %next, ${STEP}\n"
    "  br i1 %on, label %loop, label %done\n"
    "done:\n"
    "  ret void\n"
    "}\n"
    "declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()\n";

static void check_scale(rig *r, const char *name, int64_t n, float factor, float sum)
{
    float x[16], found[16];
    for (int i = 0; i < 16; i++)
        x[i] = (float)(i + 1);
    void *memory = rig_upload(r, x, sizeof(x));
    const mxrt_kernel_arg args[] = {mxrt_arg_pointer(memory), mxrt_arg_i64(n), mxrt_arg_f32(3),
                                    mxrt_arg_i64(2)};
    rig_launch(r, rig_find(r, name), NULL, args, 4);
    rig_download(r, found, memory, sizeof(found));
    for (int i = 0; i < 16; i++)
        ck_assert_msg(found[i] == (i < n ? x[i] * factor + sum : x[i]), "%s: %d: %g", name, i,
                      found[i]);
}

START_TEST(host_variants)
{
    rig r;
    mxrt_kernel_plan plan;
    write_text("s.ll", scaled_ir);
    write_text("s.json", scaled_json);
    mxgen_ok("compile @s.ll --target host-x86-64-v3 -o @p");
    rig_open(&r, "host", "p");
    const mxrt_kernel *kernel = rig_find(&r, "scale");
    static const char *const names[] = {"scale_STEP_2_OP_fmul", "scale_STEP_2_OP_fadd",
                                        "scale_STEP_4_OP_fmul", "scale_STEP_4_OP_fadd",
                                        "scale_STEP_8_OP_fmul", "scale_STEP_8_OP_fadd"};
    for (size_t i = 0; i < 6; i++)
        ck_assert_str_eq(mxrt_kernel_variant_name(kernel, i), names[i]);
    ck_assert_ptr_null(mxrt_kernel_variant_name(kernel, 6));
    check_scale(&r, "scale", 14, 3, 2 + 7);
    check_scale(&r, "scale_STEP_4_OP_fadd", 12, 1, 3 + 4 + 6);
    check_scale(&r, "scale", 0, 3, 0);
    float *aligned = rig_upload(&r, (float[20]){0}, 80);
    mxrt_kernel_arg args[] = {mxrt_arg_pointer(aligned), mxrt_arg_i64(16), mxrt_arg_f32(3),
                              mxrt_arg_i64(0)};
    const mxrt_kernel *four = rig_find(&r, "scale_STEP_4_OP_fmul");
    launch_fails(&r, four, NULL, args, 4, MX_ERR_UNSUPPORTED, "division by zero");
    args[3] = mxrt_arg_i64(1);
    ck_assert_msg(!mxrt_kernel_plan_launch(four, NULL, args, 4, &plan, &r.err), "%s",
                  r.err.message);
    ck_assert_uint_eq(plan.grid[0], 4);
    ck_assert_uint_eq(plan.block[0], 1);
    ck_assert_str_eq(plan.symbol, "scale_4");
    ck_assert_msg(strstr(plan.params_json, "\"STEP\":4") != NULL, "%s", plan.params_json);
    args[1] = mxrt_arg_i64(15);
    launch_fails(&r, four, NULL, args, 4, MX_ERR_UNSUPPORTED, "\"whole steps\", n % 4 == 0");
    args[1] = mxrt_arg_i64(16);
    args[0] = mxrt_arg_pointer(aligned + 1);
    launch_fails(&r, four, NULL, args, 4, MX_ERR_UNSUPPORTED, "\"aligned\"");
    args[0] = mxrt_arg_pointer(aligned);
    args[1] = mxrt_arg_i64(8589934592);
    launch_fails(&r, four, NULL, args, 4, MX_ERR_UNSUPPORTED, "grid x would be 2147483648");
    args[1] = mxrt_arg_i64(4294967296);
    launch_fails(&r, four, NULL, args, 4, MX_ERR_INVALID, "half would be 2147483648");
    const mxrt_kernel_size size = {{1, 1, 1}, {1, 1, 1}};
    launch_fails(&r, four, &size, args, 4, MX_ERR_INVALID, "give no size");
    mxrt_device_free(r.device, aligned);
    rig_close(&r);

    mxgen_ok("compile @s.ll --target host-x86-64-v3 --param OP=fadd --param STEP=8 -o @q");
    rig_open(&r, "host", "q");
    ck_assert_str_eq(mxrt_kernel_variant_name(rig_find(&r, "scale"), 0), names[5]);
    ck_assert_ptr_null(mxrt_kernel_variant_name(rig_find(&r, "scale"), 1));
    rig_close(&r);
}
END_TEST

/* ---- Packs ---- */

/* Kernels of a file beside ours: readers that know nothing of them see ours only. */
START_TEST(built_with_ours)
{
    rig r;
    cli_run run;
    mxrt_pack *pack = NULL;
    mxrt_pack_kernel_info info;
    write_text("s.ll", scaled_ir);
    write_text("s.json", scaled_json);
    mxgen_ok("build --target host-x86-64-v3 --op to --format mx4 --dtype f32 --layout flat "
             "--max-rank 1 -o @p @s.ll");
    char *path = cli_temp_path(kernel_dir, "p");
    ck_assert_msg(!mxrt_pack_open(path, &pack, &r.err), "%s", r.err.message);
    ck_assert_uint_eq(mxrt_pack_variant_count(pack), 1);
    ck_assert_uint_eq(mxrt_pack_kernel_count(pack), 6);
    ck_assert_int_eq(mxrt_pack_kernel_at(pack, 5, &info, &r.err), MX_OK);
    ck_assert_str_eq(info.kernel, "scale");
    ck_assert_str_eq(info.symbol, "scale_8");
    ck_assert_int_eq(info.rank, 5);
    ck_assert_int_eq(mxrt_pack_kernel_at(pack, 6, &info, &r.err), MX_ERR_INVALID);
    mxrt_pack_close(pack);
    rig_open(&r, "host", "p");
    check_scale(&r, "scale", 14, 3, 2 + 7);
    rig_close(&r);
    mxgen(&run, "list @p");
    ck_assert_msg(strstr(run.out, "scale_STEP_8_OP_fadd") != NULL, "%s", run.out);
    cli_run_finish(&run);
    mxgen(&run, "show scale --pack @p");
    ck_assert_msg(strstr(run.out, "kernel  scale_STEP_2_OP_fmul\n") != NULL, "%s", run.out);
    cli_run_finish(&run);
    free(path);
}
END_TEST

/* What SQL makes of a pack's kernels must be refused, or not be seen at all. */
static void damaged(const char *sql, const char *message)
{
    rig r;
    sqlite3 *db = NULL;
    mxrt_pack *pack = NULL;
    char *path = cli_temp_path(kernel_dir, "d");
    mxgen_ok("compile @k.ll --target host-x86-64-v3 -o @d");
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_close(db), SQLITE_OK);
    mx_status status = mxrt_pack_open(path, &pack, &r.err);
    ck_assert_msg(status == MX_ERR_CORRUPT && strstr(r.err.message, message) != NULL,
                  "%s: status %d, %s", sql, (int)status, r.err.message);
    free(path);
}

START_TEST(damage)
{
    write_text("k.ll", host_ir);
    damaged("UPDATE kernel SET name='other'", "checksum of its kernels");
    damaged("UPDATE kernel SET launch=replace(launch, '\"f32\"', '\"f64\"')", "\"kind\" must be");
    damaged("UPDATE kernel SET launch=replace(launch, '\"value\":\"n\"', '\"value\":\"m\"')",
            "an unknown variable");
    damaged("UPDATE kernel SET launch='[]'", "not an object");
    damaged("UPDATE kernel SET rules='[{\"rule\":\"r\",\"when\":\"f > 0\"}]'",
            "an unknown variable");
    damaged("UPDATE kernel SET object=7", "needs object 7");
    damaged("UPDATE kernel SET target='gfx942'", "its object for");
    damaged("DELETE FROM kernel", "checksum of its kernels");
    damaged("DELETE FROM meta WHERE key='kernel_checksum'", "checksum of its rows");
    damaged("DROP TABLE kernel", "its table \"kernel\" is missing");
    damaged("ALTER TABLE kernel ADD COLUMN x INTEGER", "is missing or not the one of version");
}
END_TEST

/* ---- Tuning ---- */

static const char tuned_json[] =
    "{\"kernel\": \"f\", \"symbol\": \"f\", \"params\": {\"LOOPS\": [4000, 1, 300]},"
    " \"args\": [{\"name\": \"x\", \"kind\": \"pointer\", \"bytes\": \"8 * n\"},"
    "  {\"name\": \"n\", \"kind\": \"i64\"}, {\"name\": \"a\", \"kind\": \"f32\"}],"
    " \"rules\": [{\"rule\": \"r\", \"when\": \"${LOOPS} != 1 || n != 1100\"}],"
    " \"grid\": [\"n\"], \"block\": [1]}";

/* LOOPS dependent stores, so that the variants' order in time is beyond doubt. */
static const char tuned_ir[] = "define void @f(ptr %x, i64 %n, float %a) {\n"
                               "entry:\n"
                               "  br label %loop\n"
                               "loop:\n"
                               "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]\n"
                               "  store volatile i64 %i, ptr %x\n"
                               "  %next = add i64 %i, 1\n"
                               "  %on = icmp slt i64 %next, ${LOOPS}\n"
                               "  br i1 %on, label %loop, label %done\n"
                               "done:\n"
                               "  ret void\n"
                               "}\n";

static void mxrt_tunes(const char *args)
{
    cli_run run;
    char *pack = cli_temp_path(kernel_dir, "p"), *file = cli_temp_path(kernel_dir, "tune");
    const char *argv[] = {getenv("MXRT"),   "tune",   "--kernel", "f",         "--device",
                          "host?threads=1", "--pack", pack,       "--seconds", "0.02",
                          "--args",         args,     "--file",   file,        NULL};
    ck_assert_msg(argv[0] != NULL, "set MXRT to the program");
    cli_run_start(&run, argv);
    ck_assert_msg(run.exit_code == 0 && strstr(run.out, "f_LOOPS_300") != NULL, "%s%s", run.out,
                  run.err);
    cli_run_finish(&run);
    free(pack);
    free(file);
}

static void check_choice(rig *r, const mxrt_kernel *kernel, int64_t n, const char *variant)
{
    mxrt_kernel_plan plan;
    void *x = NULL;
    ck_assert_int_eq(mxrt_device_alloc(r->device, 64, &x, &r->err), MX_OK);
    const mxrt_kernel_arg args[] = {mxrt_arg_pointer(x), mxrt_arg_i64(n), mxrt_arg_f32(0)};
    ck_assert_msg(!mxrt_kernel_plan_launch(kernel, NULL, args, 3, &plan, &r->err), "%s",
                  r->err.message);
    ck_assert_msg(!strcmp(plan.variant, variant), "n = %d: %s, not %s", (int)n, plan.variant,
                  variant);
    mxrt_device_free(r->device, x);
}

START_TEST(tuned)
{
    rig r;
    char *file = cli_temp_path(kernel_dir, "tune");
    write_text("t.ll", tuned_ir);
    write_text("t.json", tuned_json);
    mxgen_ok("compile @t.ll --target host-x86-64-v3 -o @p");
    mxrt_tunes("n=1024,a=1.5");
    ck_assert_int_eq(setenv("MXRT_TUNE_FILE", file, 1), 0);
    rig_open(&r, "host?threads=1", "p");
    const mxrt_kernel *kernel = rig_find(&r, "f");
    check_choice(&r, kernel, 1500, "f_LOOPS_1");       /* the same bucket */
    check_choice(&r, kernel, 8192, "f_LOOPS_1");       /* the nearest */
    check_choice(&r, kernel, 1100, "f_LOOPS_300");     /* the fastest whose rule holds */
    check_choice(&r, kernel, 1 << 20, "f_LOOPS_4000"); /* nothing is known: the first */
    check_choice(&r, rig_find(&r, "f_LOOPS_300"), 1500, "f_LOOPS_300");
    rig_close(&r);
    ck_assert_int_eq(setenv("MXRT_TUNE_FILE", "", 1), 0);
    rig_open(&r, "host?threads=1", "p");
    check_choice(&r, rig_find(&r, "f"), 1500, "f_LOOPS_4000");
    rig_close(&r);
    free(file);
}
END_TEST

/* ---- The reference command ---- */

#define CHECKED(command)                                                                           \
    "{\"kernel\": \"f\", \"symbol\": \"f\", \"params\": {\"LOOPS\": [2, 3]}, \"args\": "           \
    "[{\"name\": \"x\", "                                                                          \
    "\"kind\": \"pointer\", \"bytes\": \"8 * n\"}, {\"name\": \"n\", \"kind\": \"i64\"}, "         \
    "{\"name\": "                                                                                  \
    "\"a\", \"kind\": \"f32\"}], \"grid\": [\"n\"], \"block\": [1], \"check\": {\"command\": "     \
    "[\"sh\", \"-c\", \"" command "\"], \"args\": {\"n\": 2, \"a\": 0.5}}}"

START_TEST(checked)
{
    cli_run run;
    write_text("t.ll", tuned_ir);
    write_text(
        "t.json",
        CHECKED("grep -q LOOPS args.json && test $(stat -c %s x.in) = 16 && ! cmp -s x.in x.out"));
    mxgen(&run, "compile @t.ll --target host-x86-64-v3 --check host -o @p");
    ck_assert_msg(run.exit_code == 0 && strstr(run.out, "2 variants checked on host") != NULL,
                  "%s%s", run.out, run.err);
    cli_run_finish(&run);
    write_text("t.json", CHECKED("echo off by one; exit 3"));
    mxgen_fails("compile @t.ll --target host-x86-64-v3 --check host -o @p",
                "f_LOOPS_2 is wrong, says \"check\" of");
    write_text("t.json", CHECKED("no-such-program"));
    mxgen_fails("compile @t.ll --target host-x86-64-v3 --check host -o @p", "no-such-program");
}
END_TEST

/* ---- Triton's IR on a simulated chip ---- */

static void check_row_scale(rig *r)
{
    enum { ROWS = 5, COLUMNS = 912, STRIDE = 1024 };
    static float x[ROWS * STRIDE], y[ROWS * STRIDE];
    for (int i = 0; i < ROWS * STRIDE; i++) {
        x[i] = i < STRIDE ? 0 : sinf((float)i) * (float)(i % 77);
        y[i] = -1;
    }
    void *in = rig_upload(r, x, sizeof(x)), *out = rig_upload(r, y, sizeof(y));
    mxrt_kernel_arg args[] = {mxrt_arg_pointer(in), mxrt_arg_pointer(out), mxrt_arg_i32(STRIDE),
                              mxrt_arg_i32(COLUMNS), mxrt_arg_i32(ROWS)};
    const mxrt_kernel *kernel = rig_find(r, "row_scale_kernel");
    rig_launch(r, kernel, NULL, args, 5);
    args[3] = mxrt_arg_i32(1040);
    launch_fails(r, kernel, NULL, args, 5, MX_ERR_UNSUPPORTED, "a program has 1024 elements");
    rig_download(r, y, out, sizeof(y));
    mxrt_device_free(r->device, in);
    for (int row = 0; row < ROWS; row++) {
        float most = 0;
        for (int i = 0; i < COLUMNS; i++)
            most = fmaxf(most, fabsf(x[row * STRIDE + i]));
        for (int i = 0; i < STRIDE; i++) {
            float wanted = i >= COLUMNS ? -1 : x[row * STRIDE + i] / (most > 0 ? most : 1);
            ck_assert_msg(y[row * STRIDE + i] == wanted, "row %d, %d: %g, not %g", row, i,
                          y[row * STRIDE + i], wanted);
        }
    }
}

START_TEST(triton_on_chip)
{
    rig r;
    if (!getenv("MXRT_HIP_LIBRARY"))
        return;
    mxgen_ok("compile %row_scale_kernel.llir --target gfx942 -o @p");
    rig_open(&r, "hip:0", "p");
    check_row_scale(&r);
    rig_close(&r);
}
END_TEST

/* NVIDIA's form: shared pointers of 32 bits, PTX in the text whose braces are no parameters'. */
START_TEST(triton_for_nvidia)
{
    cli_run run;
    write_text("k.llir",
               "target datalayout = "
               "\"e-p3:32:32-p4:32:32-p5:32:32-p6:32:32-p7:32:32-i64:64-i128:128-i256:256-"
               "v16:16-v32:32-n16:32:64\"\n"
               "target triple = \"nvptx64-nvidia-cuda\"\n"
               "@global_smem = external addrspace(3) global [0 x i8], align 16\n"
               "@fixed = internal addrspace(3) global [32 x float] undef, align 16\n"
               "define ptx_kernel void @k(ptr addrspace(1) %0, i32 %1, ptr addrspace(1) %2) #0 {\n"
               "  %4 = tail call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"
               "  %5 = icmp slt i32 %4, %1\n"
               "  %6 = tail call i32 asm sideeffect \"mov.u32 $0, 0x0;\\0A\\09@$2 ld.global.b32 { "
               "$0 }, [ $1 + 0 "
               "];\", \"=r,l,b\"(ptr addrspace(1) %0, i1 %5)\n"
               "  %7 = getelementptr float, ptr addrspace(3) @global_smem, i32 %4\n"
               "  store i32 %6, ptr addrspace(3) %7, align 4\n"
               "  %8 = getelementptr float, ptr addrspace(3) @fixed, i32 %4\n"
               "  store volatile i32 %6, ptr addrspace(3) %8, align 4\n"
               "  ret void\n"
               "}\n"
               "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"
               "attributes #0 = { nounwind \"nvvm.reqntid\"=\"128\" }\n");
    mxgen(&run, "compile @k.llir --target sm_90a --stage asm");
    ck_assert_msg(run.exit_code == 0, "%s", run.err);
    ck_assert_msg(strstr(run.out, "st.shared.b32 \t[%r") != NULL, "%s", run.out);
    ck_assert_msg(strstr(run.out, "ld.global.b32 { %r") != NULL, "%s", run.out);
    cli_run_finish(&run);
    mxgen_ok("compile @k.llir --target sm_90a --lds 512 -o @p");
    mxgen(&run, "show k --pack @p --json");
    ck_assert_msg(strstr(run.out, "\"lds_bytes\": 640") != NULL, "%s", run.out);
    ck_assert_msg(strstr(run.out, "\"grid\": null") != NULL, "%s", run.out);
    cli_run_finish(&run);
}
END_TEST

/* ---- MLIR on both ---- */

static void check_softmax(rig *r, int64_t rows, int64_t columns, const char *variant)
{
    size_t n = (size_t)(rows * columns);
    float *x = malloc(n * sizeof(*x)), *y = calloc(n, sizeof(*y));
    ck_assert(x && y);
    for (size_t i = 0; i < n; i++)
        x[i] = 9 * sinf((float)i * 1.37f) + (float)(i % 5);
    void *in = rig_upload(r, x, n * sizeof(*x)), *out = rig_upload(r, y, n * sizeof(*y));
    const mxrt_kernel_arg args[] = {mxrt_arg_pointer(in), mxrt_arg_pointer(out), mxrt_arg_i64(rows),
                                    mxrt_arg_i64(columns)};
    const mxrt_kernel *kernel = rig_find(r, "softmax");
    mxrt_kernel_plan plan;
    ck_assert_int_eq(mxrt_kernel_plan_launch(kernel, NULL, args, 4, &plan, &r->err), MX_OK);
    ck_assert_str_eq(plan.variant, variant);
    rig_launch(r, kernel, NULL, args, 4);
    rig_download(r, y, out, n * sizeof(*y));
    mxrt_device_free(r->device, in);
    for (int64_t row = 0; row < rows; row++) {
        double most = -INFINITY, sum = 0;
        for (int64_t c = 0; c < columns; c++)
            most = fmax(most, x[row * columns + c]);
        for (int64_t c = 0; c < columns; c++)
            sum += exp(x[row * columns + c] - most);
        for (int64_t c = 0; c < columns; c++) {
            double wanted = exp(x[row * columns + c] - most) / sum, found = y[row * columns + c];
            ck_assert_msg(fabs(found - wanted) <= 4e-6 * wanted, "row %d, %d of %d: %g, not %g",
                          (int)row, (int)c, (int)columns, found, wanted);
        }
    }
    free(x);
    free(y);
}

/* Blocks with every exponent that matters and every pattern of demotion, against the library's own
 * decoder. */
static void check_mx9_bias(rig *r, int64_t rows, int64_t columns)
{
    int64_t n = rows * columns, packed_shape[] = {n / 16, 18}, shape[] = {rows, columns};
    unsigned char *p = malloc((size_t)packed_shape[0] * 18);
    float *wanted = malloc((size_t)n * 4), *found = malloc((size_t)n * 4);
    float *bias = malloc((size_t)columns * 4);
    ck_assert(p && wanted && found && bias);
    for (int64_t i = 0; i < packed_shape[0] * 18; i++)
        p[i] = (unsigned char)(i % 18 ? i * 7919 >> 3 : i / 18 * 5 % 256);
    for (int64_t c = 0; c < columns; c++)
        bias[c] = (float)c * 0.25f - 3;
    const DLTensor packed = {.data = p,
                             .device = {kDLCPU, 0},
                             .ndim = 2,
                             .dtype = {kDLUInt, 8, 1},
                             .shape = packed_shape};
    const DLTensor plain = {.data = wanted,
                            .device = {kDLCPU, 0},
                            .ndim = 2,
                            .dtype = {kDLFloat, 32, 1},
                            .shape = shape};
    mxrt_context *context = NULL;
    mxrt_device *host = NULL;
    ck_assert_int_eq(mxrt_context_create(NULL, &context, &r->err), MX_OK);
    ck_assert_int_eq(mxrt_device_open(context, "host", &host, &r->err), MX_OK);
    ck_assert_msg(!mxrt_convert_from(host, MX_FORMAT_MX9, -1, &packed, &plain, NULL, &r->err), "%s",
                  r->err.message);
    mxrt_device_close(host);
    mxrt_context_destroy(context);

    void *in = rig_upload(r, p, (size_t)packed_shape[0] * 18);
    void *added = rig_upload(r, bias, (size_t)columns * 4);
    memset(found, 0xa5, (size_t)n * 4);
    void *out = rig_upload(r, found, (size_t)n * 4);
    const mxrt_kernel_arg args[] = {mxrt_arg_pointer(in), mxrt_arg_pointer(added),
                                    mxrt_arg_pointer(out), mxrt_arg_i64(rows),
                                    mxrt_arg_i64(columns)};
    rig_launch(r, rig_find(r, "mx9_bias"), NULL, args, 5);
    rig_download(r, found, out, (size_t)n * 4);
    mxrt_device_free(r->device, in);
    mxrt_device_free(r->device, added);
    for (int64_t i = 0; i < n; i++) {
        float sum = wanted[i] + bias[i % columns];
        ck_assert_msg(!memcmp(&found[i], &sum, 4), "%d: %g, not %g", (int)i, found[i], sum);
    }
    free(p);
    free(wanted);
    free(found);
    free(bias);
}

START_TEST(mlir_on_host)
{
    rig r;
    mxgen_ok("compile %softmax.mlir %mx9_bias.mlir --target host-x86-64-v3 --check host -o @p");
    rig_open(&r, "host?threads=2", "p");
    check_softmax(&r, 7, 300, "softmax_THREADS_64");
    check_softmax(&r, 3, 1, "softmax_THREADS_64");
    check_mx9_bias(&r, 90, 48);
    rig_close(&r);
}
END_TEST

START_TEST(mlir_on_chip)
{
    rig r;
    if (!getenv("MXRT_HIP_LIBRARY"))
        return;
    mxgen_ok("compile %softmax.mlir %mx9_bias.mlir --target gfx942 -o @p");
    rig_open(&r, "hip:0", "p");
    check_softmax(&r, 2, 5, "softmax_THREADS_64");
    check_softmax(&r, 3, 700, "softmax_THREADS_256");
    check_softmax(&r, 2, 2100, "softmax_THREADS_1024");
    check_mx9_bias(&r, 90, 48);
    check_mx9_bias(&r, 1, 16);
    rig_close(&r);
}
END_TEST

/* Transfers of vectors, also in shared memory, the dialects of both vendors inside a gpu.module,
 * functions outside one, and gpu.launch. */
static const char *const dialect_cases[][2] = {
    {"gfx942,sm_90a,host-x86-64-v3",
     "gpu.module @m {\n"
     "  gpu.func @k(%x: memref<?x?xf32, strided<[?, 1], offset: ?>>, %n: index) workgroup(%s: "
     "memref<256xf32, #gpu.address_space<workgroup>>) kernel {\n"
     "    %z = arith.constant 0.0 : f32\n"
     "    %t = gpu.thread_id x\n"
     "    %v = vector.transfer_read %x[%t, %n], %z : memref<?x?xf32, strided<[?, 1], offset: ?>>, "
     "vector<4xf32>\n"
     "    %e = math.log2 %v : vector<4xf32>\n"
     "    vector.transfer_write %e, %s[%t] : vector<4xf32>, memref<256xf32, "
     "#gpu.address_space<workgroup>>\n"
     "    gpu.barrier\n"
     "    %r = vector.load %s[%n] : memref<256xf32, #gpu.address_space<workgroup>>, vector<4xf32>\n"
     "    %q = vector.reduction <add>, %r : vector<4xf32> into f32\n"
     "    memref.store %q, %x[%t, %n] : memref<?x?xf32, strided<[?, 1], offset: ?>>\n"
     "    gpu.return\n"
     "  }\n"
     "}\n"},
    {"sm_90a", "gpu.module @m {\n"
               "  gpu.func @k(%y: memref<128xf32>) workgroup(%s: memref<128x32xf16, "
               "#gpu.address_space<workgroup>>) kernel {\n"
               "    %c0 = arith.constant 0 : index\n"
               "    %z = arith.constant dense<0.0> : vector<2x2xf32>\n"
               "    %a = nvgpu.ldmatrix %s[%c0, %c0] {numTiles = 4 : i32, transpose = false} : "
               "memref<128x32xf16, #gpu.address_space<workgroup>> -> vector<4x2xf16>\n"
               "    %b = nvgpu.ldmatrix %s[%c0, %c0] {numTiles = 2 : i32, transpose = true} : "
               "memref<128x32xf16, #gpu.address_space<workgroup>> -> vector<2x2xf16>\n"
               "    %d = nvgpu.mma.sync (%a, %b, %z) {mmaShape = [16, 8, 16]} : (vector<4x2xf16>, "
               "vector<2x2xf16>, vector<2x2xf32>) -> vector<2x2xf32>\n"
               "    %e = vector.extract %d[0, 0] : f32 from vector<2x2xf32>\n"
               "    memref.store %e, %y[%c0] : memref<128xf32>\n"
               "    gpu.return\n"
               "  }\n"
               "}\n"},
    {"gfx942", "gpu.module @m {\n"
               "  gpu.func @k(%x: memref<256xf16>, %y: memref<256xf32>) kernel {\n"
               "    %t = gpu.thread_id x\n"
               "    %i = arith.index_cast %t : index to i32\n"
               "    %v = amdgpu.raw_buffer_load {boundsCheck = true} %x[%i] : memref<256xf16>, i32 "
               "-> vector<4xf16>\n"
               "    %z = arith.constant dense<0.0> : vector<4xf32>\n"
               "    %d = amdgpu.mfma 16x16x16 %v * %v + %z blgp = none : vector<4xf16>, "
               "vector<4xf16>, vector<4xf32>\n"
               "    %e = vector.extract %d[1] : f32 from vector<4xf32>\n"
               "    %q = amdgpu.dpp %e %e row_shl(1 : i32) : f32\n"
               "    memref.store %q, %y[%t] : memref<256xf32>\n"
               "    gpu.return\n"
               "  }\n"
               "}\n"},
    {"gfx942,gfx1100",
     "gpu.module @m {\n  gpu.func @k(%x: memref<?xf32, #gpu.address_space<global>>) workgroup(%w: "
     "memref<64xf32, #gpu.address_space<workgroup>>) kernel {\n    %t = gpu.thread_id x\n    %v = "
     "memref.load %x[%t] : memref<?xf32, #gpu.address_space<global>>\n    %o = arith.constant 1 : "
     "i32\n    %l = arith.constant 32 : i32\n    %s, %ok = gpu.shuffle xor %v, %o, %l : f32\n    "
     "memref.store %s, %w[%t] : memref<64xf32, #gpu.address_space<workgroup>>\n    "
     "amdgpu.lds_barrier\n    %i = rocdl.workitem.id.x : i32\n    %f = arith.sitofp %i : i32 to "
     "f32\n    %h = math.tanh %v : f32\n    %r = arith.addf %f, %h : f32\n    memref.store %r, "
     "%x[%t] : memref<?xf32, #gpu.address_space<global>>\n    gpu.return\n  }\n}\n"},
    {"sm_90a",
     "gpu.module @m {\n  gpu.func @k(%x: memref<?xf32, #gpu.address_space<global>>) kernel {\n    "
     "%t = "
     "gpu.thread_id x\n    %v = memref.load %x[%t] : memref<?xf32, #gpu.address_space<global>>\n   "
     " "
     "nvvm.barrier0\n    %i = nvvm.read.ptx.sreg.laneid : i32\n    %f = arith.sitofp %i : i32 to "
     "f32\n    %h = math.exp %v : f32\n    %r = arith.addf %f, %h : f32\n    memref.store %r, "
     "%x[%t] "
     ": memref<?xf32, #gpu.address_space<global>>\n    gpu.return\n  }\n}\n"},
    {"host-x86-64-v3,gfx942,sm_90a",
     "func.func @k(%x: memref<?xf32>, %a: f32, %n: index) {\n  %c0 = arith.constant 0 : index\n  "
     "%c8 = "
     "arith.constant 8 : index\n  %av = vector.broadcast %a : f32 to vector<8xf32>\n  scf.for %i = "
     "%c0 to %n step %c8 {\n    %v = vector.load %x[%i] : memref<?xf32>, vector<8xf32>\n    %w = "
     "arith.mulf %v, %av : vector<8xf32>\n    vector.store %w, %x[%i] : memref<?xf32>, "
     "vector<8xf32>\n  }\n  return\n}\n"},
    {"gfx942",
     "func.func @f(%x: memref<?xf32>, %g: index) {\n  %c1 = arith.constant 1 : index\n  gpu.launch "
     "blocks(%bx, %by, %bz) in (%gx = %g, %gy = %c1, %gz = %c1) threads(%tx, %ty, %tz) in (%sx = "
     "%c1, "
     "%sy = %c1, %sz = %c1) {\n    %v = memref.load %x[%bx] : memref<?xf32>\n    %w = arith.addf "
     "%v, "
     "%v : f32\n    memref.store %w, %x[%bx] : memref<?xf32>\n    gpu.terminator\n  }\n  "
     "return\n}\n"},
};

START_TEST(dialects)
{
    char words[120];
    write_text("k.mlir", dialect_cases[_i][1]);
    snprintf(words, sizeof(words), "compile @k.mlir --target %s -o @p", dialect_cases[_i][0]);
    mxgen_ok(words);
}
END_TEST

/* ---- Built-in kernels as MLIR and back ---- */

static int compare_words(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The mnemonics of an assembly text, sorted; their number. They point into the text. */
static size_t mnemonics(char *text, char **words, size_t most)
{
    static char product[] = "s_mul_i32";
    size_t n = 0;
    for (char *line; (line = strsep(&text, "\n"));) {
        if (line[0] != '\t' || line[1] == '.' || line[1] < 'a' || line[1] > 'z')
            continue;
        line[1 + strcspn(line + 1, " \t;")] = 0;
        ck_assert_uint_lt(n, most);
        /* Which of a product's factors is a register is up to the order of uses. */
        words[n++] = strcmp(line + 1, "s_mulk_i32") ? line + 1 : product;
    }
    qsort(words, n, sizeof(*words), compare_words);
    return n;
}

START_TEST(round_trip)
{
    static const char *const cases[][2] = {{"to_mx9_bf16", "gfx942"},
                                           {"from_mx6_f32_tiles", "gfx1100"},
                                           {"to_mx9_f32_rows", "sm_90a"},
                                           {"qdq_mx4_f16_general", "host-x86-64-v3"}};
    enum { MOST = 8192 };
    static char *words[2][MOST];
    const char *kernel = cases[_i][0], *target = cases[_i][1];
    char line[200], *text[2],
        *path[2] = {cli_temp_path(kernel_dir, "a.s"), cli_temp_path(kernel_dir, "b.s")};
    size_t n[2], size_bytes;
    snprintf(line, sizeof(line), "show %s --target %s --stage mlir -o @k.mlir", kernel, target);
    mxgen_ok(line);
    snprintf(line, sizeof(line), "show %s --target %s --stage asm -o @a.s", kernel, target);
    mxgen_ok(line);
    snprintf(line, sizeof(line), "compile @k.mlir --target %s --stage asm -o @b.s", target);
    mxgen_ok(line);
    for (int i = 0; i < 2; i++) {
        text[i] = cli_temp_read(path[i], &size_bytes);
        n[i] = mnemonics(text[i], words[i], MOST);
        free(path[i]);
    }
    ck_assert_uint_gt(n[0], 100);
    ck_assert_uint_eq(n[0], n[1]);
    for (size_t i = 0; i < n[0]; i++)
        ck_assert_str_eq(words[0][i], words[1][i]);
    free(text[0]);
    free(text[1]);
}
END_TEST

/* What was shown is packed, found by its symbol, and gives the library's bytes. */
START_TEST(round_trip_runs)
{
    enum { BLOCKS = 512 };
    static float x[BLOCKS * 16];
    static unsigned char wanted[BLOCKS * 18], found[BLOCKS * 18];
    int64_t shape[] = {BLOCKS * 16}, packed_shape[] = {BLOCKS, 18};
    const mxrt_kernel_size size = {{BLOCKS / 128, 1, 1}, {0, 0, 0}};
    rig r;
    if (!getenv("MXRT_HIP_LIBRARY"))
        return;
    for (int i = 0; i < BLOCKS * 16; i++)
        x[i] = ldexpf(sinf((float)i), i / 16 % 60 - 30);
    mxgen_ok("show mx_to_mx9_f32_flat_b128_w4_l4_v4_u2_s1_c1_m0 --target gfx942 --stage mlir -o "
             "@k.mlir");
    mxgen_ok("compile @k.mlir --target gfx942 -o @p");
    rig_open(&r, "hip:0", "p");
    const DLTensor plain = {
        .data = x, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = shape};
    const DLTensor packed = {.data = wanted,
                             .device = {kDLCPU, 0},
                             .ndim = 2,
                             .dtype = {kDLUInt, 8, 1},
                             .shape = packed_shape};
    mxrt_device *host = NULL;
    ck_assert_int_eq(mxrt_device_open(r.context, "host", &host, &r.err), MX_OK);
    ck_assert_int_eq(mxrt_convert_to(host, MX_FORMAT_MX9, -1, &plain, &packed, NULL, &r.err),
                     MX_OK);
    mxrt_device_close(host);
    void *in = rig_upload(&r, x, sizeof(x)), *out = rig_upload(&r, found, sizeof(found));
    const mxrt_kernel_arg args[] = {mxrt_arg_pointer(in), mxrt_arg_pointer(out), mxrt_arg_i64(1),
                                    mxrt_arg_i64(BLOCKS)};
    rig_launch(&r, rig_find(&r, "mx_to_mx9_f32_flat_w4_l4_v4_u2_s1_c1_m0"), &size, args, 4);
    rig_download(&r, found, out, sizeof(found));
    mxrt_device_free(r.device, in);
    ck_assert_mem_eq(found, wanted, sizeof(wanted));
    rig_close(&r);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kernels");
    TCase *tests = tcase_create("kernels");
    tcase_add_checked_fixture(tests, kernel_setup, kernel_teardown);
    tcase_add_test(tests, host_without_json);
    tcase_add_test(tests, host_variants);
    tcase_add_test(tests, built_with_ours);
    tcase_add_test(tests, damage);
    tcase_add_test(tests, tuned);
    tcase_add_test(tests, checked);
    tcase_add_test(tests, triton_on_chip);
    tcase_add_test(tests, triton_for_nvidia);
    if (getenv("MX_TEST_MLIR")) {
        tcase_add_test(tests, mlir_on_host);
        tcase_add_test(tests, mlir_on_chip);
        tcase_add_loop_test(tests, dialects, 0,
                            (int)(sizeof(dialect_cases) / sizeof(dialect_cases[0])));
        tcase_add_loop_test(tests, round_trip, 0, 4);
        tcase_add_test(tests, round_trip_runs);
    }
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
