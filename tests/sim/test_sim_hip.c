/* The HIP side: devices, errors, arguments, graphs, damage. */
#include "sim_rig.h"
#include "hip_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Calls go through the loaded library. */
#define HIP(name) ((__typeof__(&name))rig_symbol(#name))

#define DECLS                                                                                      \
    "declare i32 @llvm.amdgcn.workitem.id.x()\n"                                                   \
    "declare i32 @llvm.amdgcn.workitem.id.y()\n"                                                   \
    "declare i32 @llvm.amdgcn.workitem.id.z()\n"                                                   \
    "declare i32 @llvm.amdgcn.workgroup.id.x()\n"                                                  \
    "declare i32 @llvm.amdgcn.workgroup.id.y()\n"                                                  \
    "declare i32 @llvm.amdgcn.workgroup.id.z()\n"                                                  \
    "declare ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()\n"                                    \
    "declare ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()\n"
#define FLAGS                                                                                      \
    "attributes #0 = { \"amdgpu-flat-work-group-size\"=\"1,1024\" }\n"                             \
    "!llvm.module.flags = !{!0}\n"                                                                 \
    "!0 = !{i32 1, !\"amdhsa_code_object_version\", i32 500}\n"

static const char *const scale_ir =
    DECLS "define amdgpu_kernel void @scale(ptr addrspace(1) %p, i8 %a, i64 %b, float %c) #0 {\n"
          "  %i = call i32 @llvm.amdgcn.workitem.id.x()\n"
          "  %q = getelementptr i32, ptr addrspace(1) %p, i32 %i\n"
          "  %v = load i32, ptr addrspace(1) %q\n"
          "  %x = zext i8 %a to i32\n"
          "  %y = trunc i64 %b to i32\n"
          "  %z = fptosi float %c to i32\n"
          "  %m = mul i32 %v, %x\n"
          "  %n = add i32 %m, %y\n"
          "  %o = add i32 %n, %z\n"
          "  store i32 %o, ptr addrspace(1) %q\n"
          "  ret void\n}\n" FLAGS;

START_TEST(devices_and_properties)
{
    static uint8_t prop[2048];
    static const struct {
        const char *arch, *name;
        int lds, warp;
    } want[] = {{"gfx90a", "gfx90a:sramecc+:xnack-", 65536, 64},
                {"gfx942", "gfx942:sramecc+:xnack-", 65536, 64},
                {"gfx950", "gfx950:sramecc+:xnack-", 163840, 64},
                {"gfx1100", "gfx1100", 65536, 32},
                {"gfx1201", "gfx1201", 65536, 32}};
    int n = 0, v = 0;
    ck_assert_int_eq(HIP(hipInit)(0), 0);
    ck_assert_int_eq(HIP(hipGetDeviceCount)(&n), 0);
    ck_assert_int_ge(n, 1);
    memset(prop, 0xee, sizeof prop);
    ck_assert_int_eq(HIP(hipGetDevicePropertiesR0600)(prop, 0), 0);
    ck_assert_uint_eq(prop[1472], 0xee);
    for (size_t i = 0; i < 5; i++)
        if (rig_is(want[i].arch)) {
            ck_assert_str_eq((char *)prop + 1160, want[i].name);
            ck_assert_int_eq(HIP(hipDeviceGetAttribute)(&v, 74, 0), 0);
            ck_assert_int_eq(v, want[i].lds);
            ck_assert_int_eq(HIP(hipDeviceGetAttribute)(&v, 87, 0), 0);
            ck_assert_int_eq(v, want[i].warp);
            memset(prop, 0xee, sizeof prop);
            ck_assert_int_eq(HIP(hipGetDevicePropertiesR0000)(prop, 0), 0);
            ck_assert_str_eq((char *)prop + 396, want[i].name);
            ck_assert_uint_eq(prop[792], 0xee);
        }
    ck_assert_int_eq(HIP(hipSetDevice)(n), 101);
    ck_assert_int_eq(HIP(hipGetLastError)(), 101);
    ck_assert_int_eq(HIP(hipGetLastError)(), 0);
    ck_assert_str_eq(HIP(hipGetErrorName)(101), "hipErrorInvalidDevice");
    ck_assert_int_eq(HIP(hipDeviceGetAttribute)(&v, 123456, 0), 1);
}
END_TEST

static void *filled(size_t words)
{
    void *p = NULL;
    uint32_t *host = malloc(words * 4);
    for (uint32_t i = 0; i < words; i++)
        host[i] = i;
    ck_assert_int_eq(HIP(hipMalloc)(&p, words * 4), 0);
    ck_assert_int_eq(HIP(hipMemcpy)(p, host, words * 4, 1), 0);
    free(host);
    return p;
}

static void expect_words(void *p, size_t words, uint32_t mul, uint32_t add)
{
    uint32_t *host = malloc(words * 4);
    ck_assert_int_eq(HIP(hipMemcpy)(host, p, words * 4, 2), 0);
    for (uint32_t i = 0; i < words; i++)
        ck_assert_uint_eq(host[i], i * mul + add);
    free(host);
}

START_TEST(argument_forms)
{
    rig_module *m = rig_build_ir(scale_ir);
    void *fn = rig_function(m, "scale"), *p = filled(64);
    uint8_t a = 3;
    int64_t b = 100;
    float c = 7.5f;
    void *args[] = {&p, &a, &b, &c};
    ck_assert_int_eq(rig_launch(fn, 1, 64, 0, args), 0);
    expect_words(p, 64, 3, 107);
    HIP(hipFree)(p);
    /* The same arguments as one buffer. */
    p = filled(64);
    struct {
        void *p;
        uint8_t a;
        int64_t b;
        float c;
    } packed = {p, a, b, c};
    size_t bytes = sizeof packed;
    void *extra[] = {(void *)1, &packed, (void *)2, &bytes, (void *)3};
    ck_assert_int_eq(HIP(hipModuleLaunchKernel)(fn, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, extra), 0);
    expect_words(p, 64, 3, 107);
    ck_assert_int_eq(HIP(hipModuleLaunchKernel)(fn, 1, 1, 1, 64, 1, 1, 0, NULL, args, extra), 1);
    ck_assert_int_eq(HIP(hipModuleLaunchKernel)(fn, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL), 1);
    ck_assert_int_eq(rig_launch(fn, 1, 1025, 0, args), 9);
    ck_assert_int_eq(rig_launch(fn, 0, 64, 0, args), 9);
    ck_assert_int_eq(rig_launch(fn, 1, 64, 1u << 20, args), 1);
    HIP(hipFree)(p);
    rig_free(m);
}
END_TEST

/* Ids of three dimensions, hidden arguments, the dispatch packet. */
START_TEST(ids_and_hidden_arguments)
{
    static const char *const ir =
        DECLS "define amdgpu_kernel void @ids(ptr addrspace(1) %p) #0 {\n"
              "  %x = call i32 @llvm.amdgcn.workitem.id.x()\n"
              "  %y = call i32 @llvm.amdgcn.workitem.id.y()\n"
              "  %z = call i32 @llvm.amdgcn.workitem.id.z()\n"
              "  %gx = call i32 @llvm.amdgcn.workgroup.id.x()\n"
              "  %gy = call i32 @llvm.amdgcn.workgroup.id.y()\n"
              "  %gz = call i32 @llvm.amdgcn.workgroup.id.z()\n"
              "  %h = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()\n"
              "  %cx = load i32, ptr addrspace(4) %h\n"
              "  %h1 = getelementptr i8, ptr addrspace(4) %h, i32 4\n"
              "  %cy = load i32, ptr addrspace(4) %h1\n"
              "  %h2 = getelementptr i8, ptr addrspace(4) %h, i32 12\n"
              "  %sx16 = load i16, ptr addrspace(4) %h2\n"
              "  %h3 = getelementptr i8, ptr addrspace(4) %h, i32 14\n"
              "  %sy16 = load i16, ptr addrspace(4) %h3\n"
              "  %sx = zext i16 %sx16 to i32\n"
              "  %sy = zext i16 %sy16 to i32\n"
              "  %d = call ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()\n"
              "  %d1 = getelementptr i8, ptr addrspace(4) %d, i32 8\n"
              "  %sz16 = load i16, ptr addrspace(4) %d1\n"
              "  %sz = zext i16 %sz16 to i32\n"
              "  %ax = mul i32 %gx, %sx\n  %ix = add i32 %ax, %x\n"
              "  %ay = mul i32 %gy, %sy\n  %iy = add i32 %ay, %y\n"
              "  %az = mul i32 %gz, %sz\n  %iz = add i32 %az, %z\n"
              "  %wx = mul i32 %cx, %sx\n  %wy = mul i32 %cy, %sy\n"
              "  %t = mul i32 %iz, %wy\n  %u = add i32 %t, %iy\n"
              "  %v = mul i32 %u, %wx\n  %w = add i32 %v, %ix\n"
              "  %q = getelementptr i32, ptr addrspace(1) %p, i32 %w\n"
              "  store i32 %w, ptr addrspace(1) %q\n"
              "  ret void\n}\n" FLAGS;
    rig_module *m = rig_build_ir(ir);
    void *p = NULL, *fn = rig_function(m, "ids");
    size_t words = 3 * 2 * 2 * 7 * 5 * 3;
    ck_assert_int_eq(HIP(hipMalloc)(&p, words * 4), 0);
    void *args[] = {&p};
    int e = HIP(hipModuleLaunchKernel)(fn, 3, 2, 2, 7, 5, 3, 0, NULL, args, NULL);
    ck_assert_msg(e == 0, "%s", HIP(hipGetErrorString)(e));
    expect_words(p, words, 1, 0);
    HIP(hipFree)(p);
    rig_free(m);
}
END_TEST

/* Kernel arguments preloaded into scalar registers, and the entry for firmware that does not. */
START_TEST(preload)
{
    static const char *const ir =
        DECLS "define amdgpu_kernel void @pre(ptr addrspace(1) inreg %p, i32 inreg %a, i32 inreg "
              "%b) #0 {\n"
              "  %i = call i32 @llvm.amdgcn.workitem.id.x()\n"
              "  %m = mul i32 %i, %a\n"
              "  %n = add i32 %m, %b\n"
              "  %q = getelementptr i32, ptr addrspace(1) %p, i32 %i\n"
              "  store i32 %n, ptr addrspace(1) %q\n"
              "  ret void\n}\n"
              "attributes #0 = { \"amdgpu-flat-work-group-size\"=\"1,64\" "
              "\"amdgpu-no-implicitarg-ptr\" }\n"
              "!llvm.module.flags = !{!0}\n"
              "!0 = !{i32 1, !\"amdhsa_code_object_version\", i32 500}\n";
    rig_module *m = rig_build_ir(ir);
    int a = 5, b = 9;
    for (int on = 1; on >= 0; on--) {
        void *p = NULL;
        ck_assert_int_eq(HIP(hipMalloc)(&p, 256), 0);
        void *args[] = {&p, &a, &b};
        setenv("MXSIM_PRELOAD", on ? "1" : "0", 1);
        int e = rig_launch(rig_function(m, "pre"), 1, 64, 0, args);
        ck_assert_msg(e == 0, "%s", HIP(hipGetErrorString)(e));
        expect_words(p, 64, 5, 9);
        HIP(hipFree)(p);
    }
    rig_free(m);
}
END_TEST

/* A flat pointer to LDS goes through the shared aperture. */
START_TEST(shared_aperture)
{
    static const char *const ir =
        DECLS "@l = internal addrspace(3) global [64 x i32] poison\n"
              "define amdgpu_kernel void @flat(ptr addrspace(1) %p, i32 %n) #0 {\n"
              "  %i = call i32 @llvm.amdgcn.workitem.id.x()\n"
              "  %s = getelementptr [64 x i32], ptr addrspace(3) @l, i32 0, i32 %i\n"
              "  %f = addrspacecast ptr addrspace(3) %s to ptr\n"
              "  %q = getelementptr i32, ptr addrspace(1) %p, i32 %i\n"
              "  %g = addrspacecast ptr addrspace(1) %q to ptr\n"
              "  %c = icmp ult i32 %i, %n\n"
              "  %t = select i1 %c, ptr %f, ptr %g\n"
              "  store i32 0, ptr addrspace(3) %s\n"
              "  store i32 %i, ptr %t\n"
              "  %v = load i32, ptr addrspace(3) %s\n"
              "  %w = select i1 %c, i32 %v, i32 %i\n"
              "  store i32 %w, ptr addrspace(1) %q\n"
              "  ret void\n}\n" FLAGS;
    rig_module *m = rig_build_ir(ir);
    void *p = NULL;
    int n = 40;
    ck_assert_int_eq(HIP(hipMalloc)(&p, 256), 0);
    void *args[] = {&p, &n};
    int e = rig_launch(rig_function(m, "flat"), 1, 64, 0, args);
    ck_assert_msg(e == 0, "%s", HIP(hipGetErrorString)(e));
    expect_words(p, 64, 1, 0);
    HIP(hipFree)(p);
    rig_free(m);
}
END_TEST

START_TEST(fault_injection)
{
    void (*inject)(int) = (void (*)(int))rig_symbol("mxsim_fail_call");
    uint64_t (*live)(void) = (uint64_t(*)(void))rig_symbol("mxsim_live_objects");
    void *p = NULL, *q = NULL;
    uint64_t before = live();
    inject(2);
    ck_assert_int_eq(HIP(hipMalloc)(&p, 64), 0);
    ck_assert_int_eq(HIP(hipMalloc)(&q, 64), 999);
    ck_assert_int_eq(HIP(hipGetLastError)(), 999);
    ck_assert_int_eq(HIP(hipMalloc)(&q, 64), 0);
    ck_assert_uint_eq(live(), before + 2);
    ck_assert_int_eq(HIP(hipFree)(p), 0);
    ck_assert_int_eq(HIP(hipFree)(q), 0);
    ck_assert_int_eq(HIP(hipFree)(q), 1);
    ck_assert_int_eq(HIP(hipFree)((char *)NULL), 0);
    ck_assert_uint_eq(live(), before);
    char host[128];
    ck_assert_int_eq(HIP(hipMalloc)(&p, 64), 0);
    ck_assert_int_eq(HIP(hipMemcpy)(host, p, 65, 2), 1);
    ck_assert_int_eq(HIP(hipMemset)((char *)p + 1, 0, 64), 1);
    ck_assert_int_eq(HIP(hipFree)((char *)p + 1), 1);
    ck_assert_int_eq(HIP(hipFree)(p), 0);
    ck_assert_int_eq(HIP(hipMemcpy)(host, p, 1, 2), 1);
}
END_TEST

START_TEST(streams_and_graphs)
{
    rig_module *m = rig_build_ir(scale_ir);
    void *fn = rig_function(m, "scale"), *p = filled(64), *s = NULL, *g = NULL, *x = NULL, *e1, *e2;
    uint8_t a = 2;
    int64_t b = 1;
    float c = 0;
    void *args[] = {&p, &a, &b, &c};
    int status = -1;
    float ms = -1;
    ck_assert_int_eq(HIP(hipStreamCreateWithFlags)(&s, 1), 0);
    ck_assert_int_eq(HIP(hipStreamBeginCapture)(s, 0), 0);
    ck_assert_int_eq(HIP(hipStreamIsCapturing)(s, &status), 0);
    ck_assert_int_eq(status, 1);
    ck_assert_int_eq(HIP(hipModuleLaunchKernel)(fn, 1, 1, 1, 64, 1, 1, 0, s, args, NULL), 0);
    /* What may not happen during a capture. */
    void *q = NULL;
    ck_assert_int_eq(HIP(hipMalloc)(&q, 64), 900);
    ck_assert_int_eq(HIP(hipStreamSynchronize)(s), 900);
    ck_assert_int_eq(HIP(hipDeviceSynchronize)(), 900);
    b = 1000; /* arguments were taken at the launch */
    ck_assert_int_eq(HIP(hipStreamEndCapture)(s, &g), 0);
    expect_words(p, 64, 1, 0);
    ck_assert_int_eq(HIP(hipGraphInstantiate)(&x, g, NULL, NULL, 0), 0);
    ck_assert_int_eq(HIP(hipGraphDestroy)(g), 0);
    ck_assert_int_eq(HIP(hipGraphLaunch)(x, s), 0);
    expect_words(p, 64, 2, 1);
    ck_assert_int_eq(HIP(hipGraphLaunch)(x, s), 0);
    expect_words(p, 64, 4, 3);
    ck_assert_int_eq(HIP(hipGraphExecDestroy)(x), 0);
    ck_assert_int_eq(HIP(hipEventCreate)(&e1), 0);
    ck_assert_int_eq(HIP(hipEventCreateWithFlags)(&e2, 0), 0);
    ck_assert_int_eq(HIP(hipEventElapsedTime)(&ms, e1, e2), 400);
    ck_assert_int_eq(HIP(hipEventRecord)(e1, s), 0);
    ck_assert_int_eq(HIP(hipEventRecord)(e2, s), 0);
    ck_assert_int_eq(HIP(hipEventElapsedTime)(&ms, e1, e2), 0);
    ck_assert(ms >= 0);
    HIP(hipEventDestroy)(e1);
    HIP(hipEventDestroy)(e2);
    ck_assert_int_eq(HIP(hipStreamDestroy)(s), 0);
    HIP(hipFree)(p);
    rig_free(m);
}
END_TEST

/* Headers, tables and notes with bytes changed, and truncated objects: errors, never a crash. */
START_TEST(damaged_objects)
{
    size_t n = 0;
    uint8_t *good = rig_object(scale_ir, &n), *bad = malloc(n);
    int refused = 0;
    ck_assert(bad != NULL);
    fclose(stderr); /* hundreds of reports */
    for (int round = 0; round < 1500; round++) {
        void *m = NULL;
        memcpy(bad, good, n);
        if (round % 10 == 0) {
            memset(bad + rig_random() % (n - 64), 0, 1 + rig_random() % 64);
        } else {
            size_t limit = round % 3 ? 1600 : n;
            for (uint32_t k = rig_random() % 4 + 1; k; k--)
                bad[rig_random() % (limit < n ? limit : n)] = (uint8_t)rig_random();
        }
        int e = HIP(hipModuleLoadData)(&m, bad);
        refused += e != 0;
        void *fn;
        if (!e) {
            HIP(hipModuleGetFunction)(&fn, m, "scale");
            ck_assert_int_eq(HIP(hipModuleUnload)(m), 0);
        }
    }
    ck_assert_int_gt(refused, 100);
    free(good);
    free(bad);
    void *mod = NULL;
    static uint8_t junk[4096];
    ck_assert_int_eq(HIP(hipModuleLoadData)(&mod, junk), 200);
    memcpy(junk, "\177ELF\2\1\1\100\3", 9);
    ck_assert_int_eq(HIP(hipModuleLoadData)(&mod, junk), 200);
    ck_assert_int_eq(HIP(hipModuleLoadData)(&mod, NULL), 1);
    ck_assert_int_eq(HIP(hipModuleUnload)(junk), 400);
}
END_TEST

/* A wave64 kernel on a chip whose native wave is 32. */
START_TEST(wave64_on_rdna)
{
    static const char *const ir =
        DECLS "declare i64 @llvm.amdgcn.ballot.i64(i1)\n"
              "define amdgpu_kernel void @wide(ptr addrspace(1) %p) #1 {\n"
              "  %i = call i32 @llvm.amdgcn.workitem.id.x()\n"
              "  %o = and i32 %i, 3\n"
              "  %c = icmp eq i32 %o, 1\n"
              "  %b = call i64 @llvm.amdgcn.ballot.i64(i1 %c)\n"
              "  %q = getelementptr i64, ptr addrspace(1) %p, i32 %i\n"
              "  store i64 %b, ptr addrspace(1) %q\n"
              "  ret void\n}\n"
              "attributes #1 = { \"amdgpu-flat-work-group-size\"=\"64,64\" "
              "\"target-features\"=\"+wavefrontsize64\" }\n" FLAGS;
    if (rig_wave() == 64)
        return;
    rig_module *m = rig_build_ir(ir);
    uint64_t host[64];
    void *p = NULL;
    ck_assert_int_eq(HIP(hipMalloc)(&p, sizeof host), 0);
    void *args[] = {&p};
    int e = rig_launch(rig_function(m, "wide"), 1, 64, 0, args);
    ck_assert_msg(e == 0, "%s", HIP(hipGetErrorString)(e));
    ck_assert_int_eq(HIP(hipMemcpy)(host, p, sizeof host, 2), 0);
    for (int i = 0; i < 64; i++)
        ck_assert_uint_eq(host[i], UINT64_C(0x2222222222222222));
    HIP(hipFree)(p);
    rig_free(m);
}
END_TEST

static void fill(TCase *tc)
{
    tcase_add_test(tc, devices_and_properties);
    tcase_add_test(tc, argument_forms);
    tcase_add_test(tc, ids_and_hidden_arguments);
    tcase_add_test(tc, preload);
    tcase_add_test(tc, shared_aperture);
    tcase_add_test(tc, fault_injection);
    tcase_add_test(tc, streams_and_graphs);
    tcase_add_test(tc, damaged_objects);
    tcase_add_test(tc, wave64_on_rdna);
}

int main(void)
{
    return rig_main("sim_hip", fill);
}
