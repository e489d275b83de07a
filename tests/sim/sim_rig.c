#include "sim_rig.h"
#include "mxsim.h"

#include <dlfcn.h>
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *library;
static uint32_t state = 1;

struct rig_module {
    void *module;
    size_t n;
};

typedef struct text {
    char *s;
    size_t n, cap;
} text;

static void add(text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void add(text *t, const char *fmt, ...)
{
    char buf[8192];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(buf, sizeof buf, fmt, ap);
    va_end(ap);
    ck_assert(n >= 0 && (size_t)n < sizeof buf);
    if (t->n + (size_t)n + 1 > t->cap) {
        t->cap = (t->n + (size_t)n + 1) * 2;
        t->s = realloc(t->s, t->cap);
        ck_assert(t->s != NULL);
    }
    memcpy(t->s + t->n, buf, (size_t)n + 1);
    t->n += (size_t)n;
}

void *rig_symbol(const char *name)
{
    void *p = dlsym(library, name);
    if (!p) {
        fprintf(stderr, "the simulator lacks %s\n", name);
        exit(1);
    }
    return p;
}

void rig_init(void)
{
    const char *path = getenv("MX_TEST_SIM");
    if (library)
        return;
    library = dlopen(path ? path : "libmxsim.so", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
    LLVMInitializeAMDGPUAsmParser();
}

const char *rig_arch(void)
{
    const char *a = getenv("MXSIM_ARCH");
    return a ? a : "gfx942";
}

bool rig_is(const char *arch)
{
    return !strcmp(rig_arch(), arch);
}

int rig_gen(void)
{
    return !strncmp(rig_arch(), "gfx9", 4) ? 9 : !strncmp(rig_arch(), "gfx12", 5) ? 12 : 11;
}

int rig_wave(void)
{
    return rig_gen() == 9 ? 64 : 32;
}

uint32_t rig_random(void)
{
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

void rig_seed(uint32_t seed)
{
    state = seed * 2654435761u + 1;
}

float rig_f(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

uint32_t rig_u(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

bool rig_same_float(uint32_t a, uint32_t b)
{
    return a == b || ((a & 0x7fffffff) > 0x7f800000 && (b & 0x7fffffff) > 0x7f800000);
}

uint32_t rig_random_float(void)
{
    static const uint32_t special[] = {
        0x00000000, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0x7fa00000, 0x00000001,
        0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x3f800000, 0xbf800000,
        0x3f000000, 0xbf000000, 0x40200000, 0x4b000000, 0x4b000001, 0x4f000000, 0xcf000000,
        0x4f800000, 0x3effffff, 0x3f7fffff, 0x40600000, 0xc0200000};
    uint32_t r = rig_random();
    switch (r & 3) {
    case 0:
        return special[(r >> 2) % (sizeof special / sizeof special[0])];
    case 1: /* any bits */
        return rig_random();
    case 2: /* near one */
        return (rig_random() & 0x807fffff) | (110 + (r >> 8) % 36) << 23;
    default: /* small multiples of an eighth */
        return rig_u((float)((int32_t)(r >> 8) % 4001 - 2000) / 8.0f);
    }
}

/* VCC and EXEC become the wave's registers. */
static char *substitute(const char *s)
{
    bool wide = rig_wave() == 64;
    char *out = malloc(strlen(s) * 3 + 1), *o = out;
    ck_assert(out != NULL);
    while (*s) {
        if (!strncmp(s, "VCC", 3)) {
            o += sprintf(o, "%s", wide ? "vcc" : "vcc_lo");
            s += 3;
        } else if (!strncmp(s, "EXEC", 4)) {
            o += sprintf(o, "%s", wide ? "exec" : "exec_lo");
            s += 4;
        } else if (*s == '\n') { /* a line break inside an IR string */
            o += sprintf(o, "\\0A");
            s++;
        } else {
            *o++ = *s++;
        }
    }
    *o = 0;
    return out;
}

static void type_name(char *buf, size_t cap, int width)
{
    if (width == 1)
        snprintf(buf, cap, "i32");
    else if (width == 2)
        snprintf(buf, cap, "i64");
    else
        snprintf(buf, cap, "<%d x i32>", width);
}

/* Loads an input of `width` registers starting at register `reg` into %x<index>. */
static void emit_input(text *t, int index, char kind, int width, int reg)
{
    char type[32];
    for (int d = 0; d < width; d++) {
        add(t, "  %%o%d_%d = add i32 %s, %d\n", index, d, kind == 's' ? "0" : "%id",
            (reg + d) * RIG_LANES);
        add(t, "  %%p%d_%d = getelementptr i32, ptr addrspace(1) %%in, i32 %%o%d_%d\n", index, d,
            index, d);
        add(t, "  %%l%d_%d = load i32, ptr addrspace(1) %%p%d_%d\n", index, d, index, d);
    }
    if (width == 1 && kind != 's') {
        add(t, "  %%x%d = add i32 %%l%d_0, 0\n", index, index);
        return;
    }
    if (width == 1) {
        add(t, "  %%x%d = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %%l%d_0)\n", index, index);
        return;
    }
    add(t, "  %%v%d_0 = insertelement <%d x i32> poison, i32 %%l%d_0, i32 0\n", index, width,
        index);
    for (int d = 1; d < width; d++)
        add(t, "  %%v%d_%d = insertelement <%d x i32> %%v%d_%d, i32 %%l%d_%d, i32 %d\n", index, d,
            width, index, d - 1, index, d, d);
    type_name(type, sizeof type, width);
    add(t, "  %%x%d = bitcast <%d x i32> %%v%d_%d to %s\n", index, width, index, width - 1, type);
}

static void emit_case(text *t, const rig_case *c, size_t k)
{
    char out_type[32], args[1024] = "", constraints[256] = "=&v";
    int reg = 0, n = 0;
    add(t,
        "define amdgpu_kernel void @case%zu(ptr addrspace(1) %%in, ptr addrspace(1) %%out) #0 {\n"
        "  %%id = call i32 @llvm.amdgcn.workitem.id.x()\n",
        k);
    for (const char *i = c->ins; *i; n++) {
        char kind = *i++, type[32], piece[96];
        int width = (int)strtol(i, (char **)&i, 10);
        emit_input(t, n, kind, width, reg);
        type_name(type, sizeof type, width);
        snprintf(piece, sizeof piece, "%s%s %%x%d", n ? ", " : "", type, n);
        strcat(args, piece);
        /* An input that starts as the result shares its register. */
        snprintf(piece, sizeof piece, ",%s", kind == '+' ? "0" : kind == 's' ? "s" : "v");
        strcat(constraints, piece);
        reg += width;
    }
    type_name(out_type, sizeof out_type, c->out);
    char *body = substitute(c->text);
    add(t,
        "  %%r = call %s asm sideeffect \"%s\", "
        "\"%s,~{vcc},~{v40},~{v41},~{s20},~{s21},~{s22},~{s23},~{memory}\"(%s)\n",
        out_type, body, constraints, args);
    free(body);
    if (c->out > 1)
        add(t, "  %%rv = bitcast %s %%r to <%d x i32>\n", out_type, c->out);
    for (int d = 0; d < c->out; d++) {
        if (c->out > 1)
            add(t, "  %%r%d = extractelement <%d x i32> %%rv, i32 %d\n", d, c->out, d);
        add(t,
            "  %%so%d = add i32 %%id, %d\n"
            "  %%sp%d = getelementptr i32, ptr addrspace(1) %%out, i32 %%so%d\n",
            d, d * RIG_LANES, d, d);
        if (c->out > 1)
            add(t, "  store i32 %%r%d, ptr addrspace(1) %%sp%d\n", d, d);
        else
            add(t, "  store i32 %%r, ptr addrspace(1) %%sp0\n");
    }
    add(t, "  ret void\n}\n");
}

static LLVMTargetMachineRef machine(void)
{
    LLVMTargetRef target;
    char *err = NULL;
    ck_assert(!LLVMGetTargetFromTriple("amdgcn-amd-amdhsa", &target, &err));
    return LLVMCreateTargetMachine(target, "amdgcn-amd-amdhsa", rig_arch(), "",
                                   LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelDefault);
}

static void *slurp(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "%s", path);
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    void *p = malloc((size_t)n);
    ck_assert(p != NULL && fread(p, 1, (size_t)n, f) == (size_t)n);
    fclose(f);
    *bytes = (size_t)n;
    return p;
}

static void *link_object(LLVMMemoryBufferRef obj, size_t *bytes)
{
    char in[] = "/tmp/mxsim_rig_XXXXXX", out[64], command[256];
    int fd = mkstemp(in);
    ck_assert(fd >= 0);
    size_t n = LLVMGetBufferSize(obj);
    ck_assert(write(fd, LLVMGetBufferStart(obj), n) == (ssize_t)n);
    close(fd);
    snprintf(out, sizeof out, "%s.so", in);
    const char *lld = getenv("MX_TEST_LLD");
    snprintf(command, sizeof command, "%s -shared -o %s %s", lld ? lld : "ld.lld-22", out, in);
    ck_assert_msg(system(command) == 0, "%s", command);
    void *image = slurp(out, bytes);
    unlink(in);
    unlink(out);
    return image;
}

void *rig_object(const char *ir, size_t *bytes)
{
    LLVMContextRef context = LLVMContextCreate();
    LLVMModuleRef module = NULL;
    LLVMMemoryBufferRef obj = NULL;
    char *err = NULL;
    LLVMMemoryBufferRef src = LLVMCreateMemoryBufferWithMemoryRangeCopy(ir, strlen(ir), "ir");
    ck_assert_msg(!LLVMParseIRInContext(context, src, &module, &err), "%s\n%.2000s", err, ir);
    LLVMTargetMachineRef tm = machine();
    LLVMSetTarget(module, "amdgcn-amd-amdhsa");
    ck_assert_msg(!LLVMTargetMachineEmitToMemoryBuffer(tm, module, LLVMObjectFile, &err, &obj),
                  "%s\n%.2000s", err, ir);
    void *image = link_object(obj, bytes);
    LLVMDisposeMemoryBuffer(obj);
    LLVMDisposeTargetMachine(tm);
    LLVMDisposeModule(module);
    LLVMContextDispose(context);
    return image;
}

rig_module *rig_build_ir(const char *ir)
{
    size_t bytes;
    void *image = rig_object(ir, &bytes);
    rig_module *m = calloc(1, sizeof *m);
    ck_assert(m != NULL);
    int e = RIG_CALL("hipModuleLoadData", int (*)(void **, const void *))(&m->module, image);
    ck_assert_msg(e == 0, "load: %d %s", e, RIG_CALL("mxsim_last_report", const char *(*)(void))());
    free(image);
    return m;
}

rig_module *rig_build(const rig_case *cases, size_t n)
{
    text t = {0};
    add(&t, "declare i32 @llvm.amdgcn.workitem.id.x()\n"
            "declare i32 @llvm.amdgcn.readfirstlane.i32(i32)\n");
    for (size_t k = 0; k < n; k++)
        emit_case(&t, &cases[k], k);
    add(&t, "attributes #0 = { nounwind \"amdgpu-flat-work-group-size\"=\"64,64\" "
            "\"denormal-fp-math-f32\"=\"ieee,ieee\" \"amdgpu-no-implicitarg-ptr\" }\n"
            "!llvm.module.flags = !{!0}\n"
            "!0 = !{i32 1, !\"amdhsa_code_object_version\", i32 500}\n");
    rig_module *m = rig_build_ir(t.s);
    m->n = n;
    free(t.s);
    return m;
}

void rig_free(rig_module *m)
{
    RIG_CALL("hipModuleUnload", int (*)(void *))(m->module);
    free(m);
}

void *rig_function(rig_module *m, const char *name)
{
    void *fn = NULL;
    int e = RIG_CALL("hipModuleGetFunction", int (*)(void **, void *, const char *))(&fn, m->module,
                                                                                     name);
    ck_assert_msg(e == 0, "no kernel %s", name);
    return fn;
}

int rig_launch(void *fn, unsigned grid, unsigned block, unsigned lds, void **args)
{
    typedef int (*launch_fn)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                             unsigned, void *, void **, void **);
    return RIG_CALL("hipModuleLaunchKernel", launch_fn)(fn, grid, 1, 1, block, 1, 1, lds, NULL,
                                                        args, NULL);
}

static int run(rig_module *m, size_t k, const uint32_t *in, size_t in_regs, uint32_t *out,
               size_t out_regs)
{
    char name[32];
    void *d_in = NULL, *d_out = NULL;
    size_t ib = in_regs * RIG_LANES * 4, ob = out_regs * RIG_LANES * 4;
    snprintf(name, sizeof name, "case%zu", k);
    int (*alloc)(void **, size_t) = RIG_CALL("hipMalloc", int (*)(void **, size_t));
    int (*copy)(void *, const void *, size_t, int) =
        RIG_CALL("hipMemcpy", int (*)(void *, const void *, size_t, int));
    int (*release)(void *) = RIG_CALL("hipFree", int (*)(void *));
    ck_assert_int_eq(alloc(&d_in, ib), 0);
    ck_assert_int_eq(alloc(&d_out, ob), 0);
    ck_assert_int_eq(copy(d_in, in, ib, 1), 0);
    void *args[] = {&d_in, &d_out};
    int e = rig_launch(rig_function(m, name), 1, RIG_LANES, 0, args);
    if (!e && out)
        ck_assert_int_eq(copy(out, d_out, ob, 2), 0);
    release(d_in);
    release(d_out);
    return e;
}

void rig_run(rig_module *m, size_t k, const uint32_t *in, size_t in_regs, uint32_t *out,
             size_t out_regs)
{
    int e = run(m, k, in, in_regs, out, out_regs);
    ck_assert_msg(e == 0, "case %zu: error %d: %s", k, e,
                  RIG_CALL("mxsim_last_report", const char *(*)(void))());
}

void rig_expect_report(rig_module *m, size_t k, const uint32_t *in, size_t in_regs, size_t out_regs,
                       const char *want)
{
    int e = run(m, k, in, in_regs, NULL, out_regs);
    const char *got = RIG_CALL("mxsim_last_report", const char *(*)(void))();
    ck_assert_msg(e == 719 && strstr(got, want), "case %zu: error %d, report '%s', expected '%s'",
                  k, e, got, want);
}

int rig_main(const char *name, void (*fill)(TCase *tc))
{
    rig_init();
    Suite *s = suite_create(name);
    TCase *tc = tcase_create(rig_arch());
    tcase_set_timeout(tc, 120);
    fill(tc);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
