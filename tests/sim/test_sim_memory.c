/* Memory: access forms, atomics, and every check with its report. */
#include "sim_rig.h"
#include "mxsim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct device {
    int (*alloc)(void **, size_t);
    int (*release)(void *);
    int (*copy)(void *, const void *, size_t, int);
    int (*set)(void *, int, size_t);
    const char *(*report)(void);
} device;

static device dev(void)
{
    return (device){RIG_CALL("hipMalloc", int (*)(void **, size_t)),
                    RIG_CALL("hipFree", int (*)(void *)),
                    RIG_CALL("hipMemcpy", int (*)(void *, const void *, size_t, int)),
                    RIG_CALL("hipMemset", int (*)(void *, int, size_t)),
                    RIG_CALL("mxsim_last_report", const char *(*)(void))};
}

#define PRELUDE                                                                                    \
    "declare i32 @llvm.amdgcn.workitem.id.x()\n"                                                   \
    "declare i32 @llvm.amdgcn.workgroup.id.x()\n"                                                  \
    "declare void @llvm.amdgcn.s.barrier()\n"
#define ATTRS                                                                                      \
    "attributes #0 = { \"amdgpu-flat-work-group-size\"=\"1,1024\" }\n"                             \
    "!llvm.module.flags = !{!0}\n"                                                                 \
    "!0 = !{i32 1, !\"amdhsa_code_object_version\", i32 500}\n"

/* out[i] = in[i + shift] */
static const char *const shifted_copy =
    PRELUDE "define amdgpu_kernel void @copy(ptr addrspace(1) %in, ptr addrspace(1) %out, i32 "
            "%shift) #0 {\n"
            "  %i = call i32 @llvm.amdgcn.workitem.id.x()\n"
            "  %j = add i32 %i, %shift\n"
            "  %p = getelementptr i32, ptr addrspace(1) %in, i32 %j\n"
            "  %v = load i32, ptr addrspace(1) %p\n"
            "  %q = getelementptr i32, ptr addrspace(1) %out, i32 %i\n"
            "  store i32 %v, ptr addrspace(1) %q\n"
            "  ret void\n}\n" ATTRS;

static int launch_copy(rig_module *m, void *in, void *out, int shift)
{
    void *args[] = {&in, &out, &shift};
    return rig_launch(rig_function(m, "copy"), 1, 64, 0, args);
}

START_TEST(bounds)
{
    device d = dev();
    rig_module *m = rig_build_ir(shifted_copy);
    void *in, *out;
    ck_assert_int_eq(d.alloc(&in, 256), 0);
    ck_assert_int_eq(d.alloc(&out, 256), 0);
    ck_assert_int_eq(d.set(in, 1, 256), 0);
    ck_assert_int_eq(launch_copy(m, in, out, 0), 0);
    ck_assert_int_eq(launch_copy(m, in, out, 1), 719);
    ck_assert_msg(strstr(d.report(), "kernel copy") && strstr(d.report(), "load of 4 bytes") &&
                      strstr(d.report(), rig_wave() == 64 ? "lane 63" : "wave 1, lane 31") &&
                      strstr(d.report(), "global_load"),
                  "%s", d.report());
    ck_assert_int_eq(launch_copy(m, in, out, -1), 719);
    ck_assert(strstr(d.report(), "4 bytes before") && strstr(d.report(), "lane 0"));
    /* The context stays usable. */
    ck_assert_int_eq(launch_copy(m, in, out, 0), 0);
    ck_assert_int_eq(launch_copy(m, in, (char *)out + 4, 0), 719);
    ck_assert(strstr(d.report(), "store of 4 bytes") != NULL);
    ck_assert_int_eq(d.release(in), 0);
    ck_assert_int_eq(launch_copy(m, in, out, 0), 719);
    ck_assert(strstr(d.report(), "outside every allocation") != NULL);
    ck_assert_int_eq(d.release(out), 0);
    ck_assert_int_ne(d.release(out), 0);
    rig_free(m);
}
END_TEST

START_TEST(never_written)
{
    device d = dev();
    rig_module *m = rig_build_ir(shifted_copy);
    void *in, *out;
    char host[256];
    ck_assert_int_eq(d.alloc(&in, 512), 0);
    ck_assert_int_eq(d.alloc(&out, 256), 0);
    ck_assert_int_eq(launch_copy(m, in, out, 0), 719);
    ck_assert_msg(strstr(d.report(), "never written"), "%s", d.report());
    memset(host, 7, sizeof host);
    ck_assert_int_eq(d.copy((char *)in + 64, host, 256, 1), 0);
    ck_assert_int_eq(launch_copy(m, in, out, 16), 0);
    ck_assert_int_eq(launch_copy(m, in, out, 15), 719);
    ck_assert_int_eq(launch_copy(m, in, out, 17), 719);
    /* What a kernel stores counts as written; a copy carries the holes along. */
    ck_assert_int_eq(launch_copy(m, out, in, 0), 0);
    ck_assert_int_eq(launch_copy(m, in, out, 0), 0);
    d.release(in);
    d.release(out);
    rig_free(m);
}
END_TEST

/* LDS: each wave writes its words, then reads those of the next wave. */
static const char *const lds_ir = PRELUDE
    "@l = internal addrspace(3) global [256 x i32] poison\n"
    "define void @use() { ret void }\n"
    "define amdgpu_kernel void @race(ptr addrspace(1) %out) #0 {\n"
    "  %i = call i32 @llvm.amdgcn.workitem.id.x()\n"
    "  %p = getelementptr [256 x i32], ptr addrspace(3) @l, i32 0, i32 %i\n"
    "  store i32 %i, ptr addrspace(3) %p\n"
    "  fence syncscope(\"workgroup\") release\n"
    "  call void @llvm.amdgcn.s.barrier()\n"
    "  fence syncscope(\"workgroup\") acquire\n"
    "  store volatile i32 7, ptr addrspace(3) %p\n"
    "  %x = xor i32 %i, 64\n"
    "  %q = getelementptr [256 x i32], ptr addrspace(3) @l, i32 0, i32 %x\n"
    "  %v = load volatile i32, ptr addrspace(3) %q\n"
    "  %r = getelementptr i32, ptr addrspace(1) %out, i32 %i\n"
    "  store i32 %v, ptr addrspace(1) %r\n"
    "  ret void\n}\n"
    "define amdgpu_kernel void @ordered(ptr addrspace(1) %out) #0 {\n"
    "  %i = call i32 @llvm.amdgcn.workitem.id.x()\n"
    "  %p = getelementptr [256 x i32], ptr addrspace(3) @l, i32 0, i32 %i\n"
    "  store i32 %i, ptr addrspace(3) %p\n"
    "  fence syncscope(\"workgroup\") release\n"
    "  call void @llvm.amdgcn.s.barrier()\n"
    "  fence syncscope(\"workgroup\") acquire\n"
    "  %x = xor i32 %i, 64\n"
    "  %q = getelementptr [256 x i32], ptr addrspace(3) @l, i32 0, i32 %x\n"
    "  %v = load i32, ptr addrspace(3) %q\n"
    "  %r = getelementptr i32, ptr addrspace(1) %out, i32 %i\n"
    "  store i32 %v, ptr addrspace(1) %r\n"
    "  ret void\n}\n"
    "define amdgpu_kernel void @nowait(ptr addrspace(1) %out) #0 {\n"
    "  %i = call i32 @llvm.amdgcn.workitem.id.x()\n"
    "  %a = ptrtoint ptr addrspace(3) @l to i32\n"
    "  %b = shl i32 %i, 2\n"
    "  %c = add i32 %a, %b\n"
    "  call void asm sideeffect \"WRITE $0, $1\\0ABARRIER\", \"v,v,~{memory}\"(i32 %c, i32 %i)\n"
    "  %x = xor i32 %i, 64\n"
    "  %q = getelementptr [256 x i32], ptr addrspace(3) @l, i32 0, i32 %x\n"
    "  %v = load i32, ptr addrspace(3) %q\n"
    "  %r = getelementptr i32, ptr addrspace(1) %out, i32 %i\n"
    "  store i32 %v, ptr addrspace(1) %r\n"
    "  ret void\n}\n"
    "define amdgpu_kernel void @unwritten(ptr addrspace(1) %out) #0 {\n"
    "  %i = call i32 @llvm.amdgcn.workitem.id.x()\n"
    "  %q = getelementptr [256 x i32], ptr addrspace(3) @l, i32 0, i32 %i\n"
    "  %v = load volatile i32, ptr addrspace(3) %q\n"
    "  %r = getelementptr i32, ptr addrspace(1) %out, i32 %i\n"
    "  store i32 %v, ptr addrspace(1) %r\n"
    "  ret void\n}\n"
    "define amdgpu_kernel void @outside(ptr addrspace(1) %out) #0 {\n"
    "  %i = call i32 @llvm.amdgcn.workitem.id.x()\n"
    "  %j = add i32 %i, 1\n"
    "  %q = getelementptr [256 x i32], ptr addrspace(3) @l, i32 0, i32 %j\n"
    "  store volatile i32 %i, ptr addrspace(3) %q\n"
    "  ret void\n}\n" ATTRS;

/* Replaces a word of the text by another. */
static char *replace(char *s, const char *from, const char *to)
{
    char *at = strstr(s, from);
    ck_assert(at != NULL);
    char *r = malloc(strlen(s) + strlen(to) + 1);
    ck_assert(r != NULL);
    memcpy(r, s, (size_t)(at - s));
    strcpy(r + (at - s), to);
    strcat(r, at + strlen(from));
    free(s);
    return r;
}

START_TEST(lds_checks)
{
    static const struct {
        const char *kernel, *report;
    } want[] = {{"race", "LDS race"},
                {"ordered", NULL},
                {"nowait", "LDS race"},
                {"unwritten", "LDS never written"},
                {"outside", "is past the 1024 bytes"}};
    device d = dev();
    char *ir = strdup(lds_ir);
    ir = replace(ir, "WRITE", rig_gen() == 9 ? "ds_write_b32" : "ds_store_b32");
    ir = replace(ir, "BARRIER",
                 rig_gen() == 12 ? "s_barrier_signal -1\\0As_barrier_wait -1" : "s_barrier");
    rig_module *m = rig_build_ir(ir);
    free(ir);
    void *out;
    uint32_t host[256];
    ck_assert_int_eq(d.alloc(&out, 1024), 0);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        void *args[] = {&out};
        int e = rig_launch(rig_function(m, want[i].kernel), 1, 256, 0, args);
        if (want[i].report)
            ck_assert_msg(e == 719 && strstr(d.report(), want[i].report), "%s: %d %s",
                          want[i].kernel, e, d.report());
        else
            ck_assert_msg(e == 0, "%s: %s", want[i].kernel, d.report());
        if (!want[i].report) {
            ck_assert_int_eq(d.copy(host, out, 1024, 2), 0);
            for (uint32_t k = 0; k < 256; k++)
                ck_assert_uint_eq(host[k], k ^ 64);
        }
    }
    d.release(out);
    rig_free(m);
}
END_TEST

/* Results of loads used before a wait that covers them. */
START_TEST(missing_waits)
{
    static const rig_case g9[] = {
        {"global_load_dword $0, $1, off\nv_add_u32 $0, 1, $0", "v2", 1},
        {"global_load_dword $0, $1, off\ns_waitcnt vmcnt(0)\nv_add_u32 $0, 1, $0", "v2", 1},
        {"global_load_dword $0, $1, off\nglobal_load_dword v40, $1, off\ns_waitcnt vmcnt(1)\n"
         "v_add_u32 $0, 1, $0\ns_waitcnt vmcnt(0)",
         "v2", 1},
        {"global_load_dword v40, $1, off\nglobal_load_dword $0, $1, off\ns_waitcnt vmcnt(1)\n"
         "v_add_u32 $0, 1, $0\ns_waitcnt vmcnt(0)",
         "v2", 1},
        {"global_load_dword $0, $1, off\nv_mov_b32 $0, 1", "v2", 1},
        {"s_load_dword s20, $1, 0x0\ns_load_dword s21, $1, 0x4\ns_waitcnt lgkmcnt(1)\n"
         "v_mov_b32 $0, s20",
         "s2", 1},
        {"ds_bpermute_b32 $0, $1, $2\nv_add_u32 $0, 1, $0", "v1v1", 1},
    };
    static const rig_case g11[] = {
        {"global_load_b32 $0, $1, off\nv_add_nc_u32 $0, 1, $0", "v2", 1},
        {"global_load_b32 $0, $1, off\ns_waitcnt vmcnt(0)\nv_add_nc_u32 $0, 1, $0", "v2", 1},
        {"global_load_b32 $0, $1, off\nglobal_store_b32 $1, $2, off\ns_waitcnt vmcnt(0)\n"
         "v_add_nc_u32 $0, 1, $0",
         "v2v1", 1},
        {"global_load_b32 $0, $1, off\ns_waitcnt_vscnt null, 0x0\nv_add_nc_u32 $0, 1, $0", "v2", 1},
        {"global_load_b32 $0, $1, off\nv_mov_b32 $0, 1", "v2", 1},
        {"s_load_b32 s20, $1, 0x0\ns_load_b32 s21, $1, 0x4\ns_waitcnt lgkmcnt(1)\n"
         "v_mov_b32 $0, s20",
         "s2", 1},
        {"ds_bpermute_b32 $0, $1, $2\nv_add_nc_u32 $0, 1, $0", "v1v1", 1},
    };
    static const rig_case g12[] = {
        {"global_load_b32 $0, $1, off\ns_wait_kmcnt 0x0\nv_add_nc_u32 $0, 1, $0", "v2", 1},
        {"global_load_b32 $0, $1, off\ns_wait_loadcnt 0x0\nv_add_nc_u32 $0, 1, $0", "v2", 1},
        {"global_load_b32 $0, $1, off\nglobal_store_b32 $1, $2, off\ns_wait_loadcnt_dscnt 0x0\n"
         "v_add_nc_u32 $0, 1, $0",
         "v2v1", 1},
        {"global_load_b32 $0, $1, off\ns_wait_storecnt_dscnt 0x0\nv_add_nc_u32 $0, 1, $0", "v2", 1},
        {"global_load_b32 $0, $1, off\nv_mov_b32 $0, 1", "v2", 1},
        {"s_load_b32 s20, $1, 0x0\ns_load_b32 s21, $1, 0x4\ns_wait_kmcnt 0x1\n"
         "v_mov_b32 $0, s20",
         "s2", 1},
        {"ds_bpermute_b32 $0, $1, $2\ns_wait_kmcnt 0x0\nv_add_nc_u32 $0, 1, $0", "v1v1", 1},
    };
    static const bool ok[] = {false, true, true, false, false, false, false};
    const rig_case *c = rig_gen() == 9 ? g9 : rig_gen() == 11 ? g11 : g12;
    device d = dev();
    rig_module *m = rig_build(c, 7);
    void *word;
    ck_assert_int_eq(d.alloc(&word, 64), 0);
    ck_assert_int_eq(d.set(word, 0, 64), 0);
    uint32_t in[3 * RIG_LANES] = {0}, out[RIG_LANES];
    for (size_t k = 0; k < 7; k++) {
        for (int i = 0; i < RIG_LANES && k < 6; i++) {
            in[i] = (uint32_t)(uintptr_t)word;
            in[64 + i] = (uint32_t)((uintptr_t)word >> 32);
        }
        if (k == 6)
            memset(in, 0, sizeof in);
        if (ok[k]) {
            rig_run(m, k, in, 3, out, 1);
            for (int i = 0; i < RIG_LANES; i++)
                ck_assert_uint_eq(out[i], 1);
        } else {
            rig_expect_report(m, k, in, 3, 1, "was waited for");
        }
    }
    d.release(word);
    rig_free(m);
}
END_TEST

START_TEST(registers_past_the_allocation)
{
    static const rig_case c[] = {{"v_mov_b32 v200, $1\nv_mov_b32 $0, v200", "v1", 1}};
    uint32_t in[RIG_LANES] = {0};
    rig_module *m = rig_build(c, 1);
    rig_expect_report(m, 0, in, 1, 1, "v200, past the");
    rig_free(m);
}
END_TEST

/* Stack in scratch, addressed by lane-dependent indices and through flat pointers. */
static const char *const scratch_ir =
    PRELUDE "define amdgpu_kernel void @stack(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {\n"
            "  %i = call i32 @llvm.amdgcn.workitem.id.x()\n"
            "  %g = call i32 @llvm.amdgcn.workgroup.id.x()\n"
            "  %a = alloca [32 x i32], addrspace(5)\n"
            "  br label %loop\n"
            "loop:\n"
            "  %k = phi i32 [0, %0], [%k1, %loop]\n"
            "  %m = mul i32 %k, %i\n"
            "  %s = getelementptr [32 x i32], ptr addrspace(5) %a, i32 0, i32 %k\n"
            "  store volatile i32 %m, ptr addrspace(5) %s\n"
            "  %k1 = add i32 %k, 1\n"
            "  %c = icmp ult i32 %k1, 32\n"
            "  br i1 %c, label %loop, label %done\n"
            "done:\n"
            "  %x = and i32 %i, 31\n"
            "  %t = getelementptr [32 x i32], ptr addrspace(5) %a, i32 0, i32 %x\n"
            "  %v = load volatile i32, ptr addrspace(5) %t\n"
            "  %f = addrspacecast ptr addrspace(5) %t to ptr\n"
            "  %w = load volatile i32, ptr %f\n"
            "  %y = add i32 %v, %w\n"
            "  %b = mul i32 %g, 128\n"
            "  %o = add i32 %b, %i\n"
            "  %q = getelementptr i32, ptr addrspace(1) %out, i32 %o\n"
            "  %qf = addrspacecast ptr addrspace(1) %q to ptr\n"
            "  store i32 %y, ptr %qf\n"
            "  ret void\n}\n" ATTRS;

START_TEST(scratch)
{
    device d = dev();
    rig_module *m = rig_build_ir(scratch_ir);
    void *out;
    uint32_t host[512];
    ck_assert_int_eq(d.alloc(&out, sizeof host), 0);
    void *args[] = {&out, &out};
    ck_assert_msg(rig_launch(rig_function(m, "stack"), 4, 128, 0, args) == 0, "%s", d.report());
    ck_assert_int_eq(d.copy(host, out, sizeof host, 2), 0);
    for (uint32_t i = 0; i < 512; i++)
        ck_assert_uint_eq(host[i], 2 * (i % 128) * (i % 128 % 32));
    d.release(out);
    rig_free(m);
}
END_TEST

/* Atomics: every lane of many groups on one word, and a compare-and-swap loop on floats. */
static const char *const atomics_ir = PRELUDE
    "define amdgpu_kernel void @sum(ptr addrspace(1) %p, ptr addrspace(1) %q) #0 {\n"
    "  %i = call i32 @llvm.amdgcn.workitem.id.x()\n"
    "  %a = atomicrmw add ptr addrspace(1) %p, i32 1 syncscope(\"agent\") monotonic\n"
    "  %q1 = getelementptr i32, ptr addrspace(1) %p, i32 2\n"
    "  %b = atomicrmw umax ptr addrspace(1) %q1, i32 %a syncscope(\"agent\") monotonic\n"
    "  %l = zext i32 %i to i64\n"
    "  %q2 = getelementptr i32, ptr addrspace(1) %p, i32 4\n"
    "  %c = atomicrmw add ptr addrspace(1) %q2, i64 %l syncscope(\"agent\") monotonic\n"
    "  %q3 = getelementptr i32, ptr addrspace(1) %p, i32 6\n"
    "  %d = atomicrmw fadd ptr addrspace(1) %q3, float 1.0 syncscope(\"agent\") monotonic\n"
    "  %q4 = getelementptr i32, ptr addrspace(1) %p, i32 7\n"
    "  %e = cmpxchg ptr addrspace(1) %q4, i32 0, i32 77 syncscope(\"agent\") monotonic monotonic\n"
    "  ret void\n}\n" ATTRS;

START_TEST(atomics)
{
    device d = dev();
    rig_module *m = rig_build_ir(atomics_ir);
    void *p;
    uint32_t w[16];
    uint64_t sum;
    ck_assert_int_eq(d.alloc(&p, 64), 0);
    ck_assert_int_eq(d.set(p, 0, 64), 0);
    void *args[] = {&p, &p};
    ck_assert_msg(rig_launch(rig_function(m, "sum"), 20, 128, 0, args) == 0, "%s", d.report());
    ck_assert_int_eq(d.copy(w, p, 64, 2), 0);
    ck_assert_uint_eq(w[0], 20 * 128);
    ck_assert_uint_eq(w[2], 20 * 128 - 1);
    memcpy(&sum, w + 4, 8);
    ck_assert_uint_eq(sum, 20 * (127 * 128 / 2));
    ck_assert(rig_f(w[6]) == 2560.0f);
    ck_assert_uint_eq(w[7], 77);
    d.release(p);
    rig_free(m);
}
END_TEST

/* Direct loads into LDS: place, bounds, and the wait. */
START_TEST(direct_loads)
{
    static const char *const ir = PRELUDE
        "@l = internal addrspace(3) global [64 x i32] poison, align 16\n"
        "declare void @llvm.amdgcn.global.load.lds(ptr addrspace(1), ptr addrspace(3), i32, i32, "
        "i32)\n"
        "define amdgpu_kernel void @good(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {\n"
        "  %i = call i32 @llvm.amdgcn.workitem.id.x()\n"
        "  %j = xor i32 %i, 63\n"
        "  %p = getelementptr i32, ptr addrspace(1) %in, i32 %j\n"
        "  call void @llvm.amdgcn.global.load.lds(ptr addrspace(1) %p, ptr addrspace(3) @l, i32 4, "
        "i32 0, i32 0)\n"
        "  fence syncscope(\"workgroup\") release\n"
        "  call void @llvm.amdgcn.s.barrier()\n"
        "  fence syncscope(\"workgroup\") acquire\n"
        "  %q = getelementptr [64 x i32], ptr addrspace(3) @l, i32 0, i32 %i\n"
        "  %v = load i32, ptr addrspace(3) %q\n"
        "  %r = getelementptr i32, ptr addrspace(1) %out, i32 %i\n"
        "  store i32 %v, ptr addrspace(1) %r\n"
        "  ret void\n}\n"
        "define amdgpu_kernel void @early(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {\n"
        "  %i = call i32 @llvm.amdgcn.workitem.id.x()\n"
        "  %p = getelementptr i32, ptr addrspace(1) %in, i32 %i\n"
        "  %a = ptrtoint ptr addrspace(3) @l to i32\n"
        "  %o = shl i32 %i, 2\n"
        "  %c = add i32 %o, %a\n"
        "  %v = call i32 asm sideeffect \"s_mov_b32 m0, $3\\0Aglobal_load_lds_dword $1, "
        "off\\0Ads_read_b32 $0, $2\\0As_waitcnt lgkmcnt(0)\", \"=&v,v,v,s,~{memory}\"(ptr "
        "addrspace(1) %p, i32 %c, i32 %a)\n"
        "  %r = getelementptr i32, ptr addrspace(1) %out, i32 %i\n"
        "  store i32 %v, ptr addrspace(1) %r\n"
        "  ret void\n}\n" ATTRS;
    if (!rig_is("gfx942") && !rig_is("gfx950"))
        return;
    device d = dev();
    rig_module *m = rig_build_ir(ir);
    void *in, *out;
    uint32_t host[64];
    for (uint32_t i = 0; i < 64; i++)
        host[i] = i * i + 1;
    ck_assert_int_eq(d.alloc(&in, 256), 0);
    ck_assert_int_eq(d.alloc(&out, 256), 0);
    ck_assert_int_eq(d.copy(in, host, 256, 1), 0);
    void *args[] = {&in, &out};
    ck_assert_msg(rig_launch(rig_function(m, "good"), 1, 64, 0, args) == 0, "%s", d.report());
    ck_assert_int_eq(d.copy(host, out, 256, 2), 0);
    for (uint32_t i = 0; i < 64; i++)
        ck_assert_uint_eq(host[i], (63 - i) * (63 - i) + 1);
    ck_assert_int_eq(rig_launch(rig_function(m, "early"), 1, 64, 0, args), 719);
    ck_assert_msg(strstr(d.report(), "before its direct load"), "%s", d.report());
    d.release(in);
    d.release(out);
    rig_free(m);
}
END_TEST

/* 16 bytes a lane, with an offset that both addresses take. */
START_TEST(direct_loads_wide)
{
    static const char *const ir = PRELUDE
        "@l = internal addrspace(3) global [264 x i32] poison, align 16\n"
        "declare void @llvm.amdgcn.global.load.lds(ptr addrspace(1), ptr addrspace(3), i32, i32, "
        "i32)\n"
        "define amdgpu_kernel void @wide(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {\n"
        "  %i = call i32 @llvm.amdgcn.workitem.id.x()\n"
        "  %j = xor i32 %i, 1\n"
        "  %p = getelementptr <4 x i32>, ptr addrspace(1) %in, i32 %j\n"
        "  call void @llvm.amdgcn.global.load.lds(ptr addrspace(1) %p, ptr addrspace(3) @l, i32 "
        "16, i32 32, i32 0)\n"
        "  fence syncscope(\"workgroup\") release\n"
        "  call void @llvm.amdgcn.s.barrier()\n"
        "  fence syncscope(\"workgroup\") acquire\n"
        "  %k = add i32 %i, 2\n"
        "  %q = getelementptr <4 x i32>, ptr addrspace(3) @l, i32 %k\n"
        "  %v = load <4 x i32>, ptr addrspace(3) %q\n"
        "  %r = getelementptr <4 x i32>, ptr addrspace(1) %out, i32 %i\n"
        "  store <4 x i32> %v, ptr addrspace(1) %r\n"
        "  ret void\n}\n" ATTRS;
    if (!rig_is("gfx950"))
        return;
    device d = dev();
    rig_module *m = rig_build_ir(ir);
    void *in, *out;
    uint32_t host[264], back[256];
    for (uint32_t i = 0; i < 264; i++)
        host[i] = i * 3 + 1;
    ck_assert_int_eq(d.alloc(&in, sizeof host), 0);
    ck_assert_int_eq(d.alloc(&out, sizeof back), 0);
    ck_assert_int_eq(d.copy(in, host, sizeof host, 1), 0);
    void *args[] = {&in, &out};
    ck_assert_msg(rig_launch(rig_function(m, "wide"), 1, 64, 0, args) == 0, "%s", d.report());
    ck_assert_int_eq(d.copy(back, out, sizeof back, 2), 0);
    for (uint32_t i = 0; i < 256; i++)
        ck_assert_uint_eq(back[i], host[(i / 4 ^ 1) * 4 + i % 4 + 8]);
    d.release(in);
    d.release(out);
    rig_free(m);
}
END_TEST

START_TEST(counters)
{
    device d = dev();
    rig_module *m = rig_build_ir(shifted_copy);
    int (*get)(mxrt_counters *) = RIG_CALL("mxsim_counters", int (*)(mxrt_counters *));
    mxrt_counters c = {.size_bytes = sizeof c}, before = c;
    void *in, *out;
    ck_assert_int_eq(d.alloc(&in, 512), 0);
    ck_assert_int_eq(d.alloc(&out, 256), 0);
    ck_assert_int_eq(d.set(in, 1, 512), 0);
    ck_assert_int_eq(get(&before), 0);
    ck_assert_int_eq(launch_copy(m, in, out, 1), 0);
    ck_assert_int_eq(get(&c), 0);
    uint64_t waves = rig_wave() == 64 ? 1 : 2;
    ck_assert_uint_eq(c.launches - before.launches, 1);
    ck_assert_uint_eq(c.waves - before.waves, waves);
    ck_assert_uint_eq(c.lanes - before.lanes, 64);
    ck_assert_uint_eq(c.vmem_load - before.vmem_load, waves);
    ck_assert_uint_eq(c.vmem_store - before.vmem_store, waves);
    ck_assert_uint_eq(c.load_bytes - before.load_bytes, 256);
    ck_assert_uint_eq(c.store_bytes - before.store_bytes, 256);
    ck_assert_uint_eq(c.store_trans64 - before.store_trans64, 4);
    ck_assert_uint_eq(c.store_trans128 - before.store_trans128, 2);
    /* One dword off: each wave touches a segment more. */
    ck_assert_uint_eq(c.load_trans64 - before.load_trans64, 4 + waves);
    ck_assert_uint_eq(c.load_trans128 - before.load_trans128, 2 + waves);
    ck_assert_uint_gt(c.valu, before.valu);
    c.size_bytes = 1;
    ck_assert_int_eq(get(&c), -1);
    d.release(in);
    d.release(out);
    rig_free(m);
}
END_TEST

/* Bank conflicts: a stride of 32 dwords puts every lane of a half on one bank. */
START_TEST(bank_conflicts)
{
    static const char *const ir =
        PRELUDE "@l = internal addrspace(3) global [2048 x i32] poison\n"
                "define amdgpu_kernel void @stride(i32 %n) #0 {\n"
                "  %i = call i32 @llvm.amdgcn.workitem.id.x()\n"
                "  %k = mul i32 %i, %n\n"
                "  %q = getelementptr [2048 x i32], ptr addrspace(3) @l, i32 0, i32 %k\n"
                "  store volatile i32 %i, ptr addrspace(3) %q\n"
                "  ret void\n}\n" ATTRS;
    rig_module *m = rig_build_ir(ir);
    int (*get)(mxrt_counters *) = RIG_CALL("mxsim_counters", int (*)(mxrt_counters *));
    mxrt_counters c = {.size_bytes = sizeof c}, before = c;
    int strides[] = {1, 2, 32};
    uint64_t want[3] = {0, 2, 62};
    if (rig_is("gfx950")) { /* 64 banks, all lanes at once */
        want[1] = 1;
        want[2] = 31;
    }
    for (int i = 0; i < 3; i++) {
        void *args[] = {&strides[i]};
        ck_assert_int_eq(get(&before), 0);
        ck_assert_int_eq(rig_launch(rig_function(m, "stride"), 1, 64, 0, args), 0);
        ck_assert_int_eq(get(&c), 0);
        ck_assert_uint_eq(c.lds_conflicts - before.lds_conflicts, want[i]);
    }
    rig_free(m);
}
END_TEST

static void fill(TCase *tc)
{
    tcase_add_test(tc, bounds);
    tcase_add_test(tc, never_written);
    tcase_add_test(tc, lds_checks);
    tcase_add_test(tc, missing_waits);
    tcase_add_test(tc, registers_past_the_allocation);
    tcase_add_test(tc, scratch);
    tcase_add_test(tc, atomics);
    tcase_add_test(tc, direct_loads);
    tcase_add_test(tc, direct_loads_wide);
    tcase_add_test(tc, counters);
    tcase_add_test(tc, bank_conflicts);
}

int main(void)
{
    return rig_main("sim_memory", fill);
}
