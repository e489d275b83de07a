/* compiled_cases.c run on the simulator and on the host: the same words must come out. */
#include "sim_rig.h"
#include "compiled_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 4096, PAD = 16 };

typedef void (*host_fn)(int g, const uint32_t *in, uint32_t *out, int n);

#define DECLARE(name) void host_##name(int g, const uint32_t *in, uint32_t *out, int n);
#define ENTRY(name) {#name, host_##name},

COMPILED_CASES(DECLARE)

static const struct {
    const char *name;
    host_fn host;
} cases[] = {COMPILED_CASES(ENTRY)};

static void *load(void)
{
    char path[512];
    void *mod = NULL;
    const char *folder = getenv("MX_TEST_SIM_CASES");
    snprintf(path, sizeof path, "%s/compiled_cases_%s.hsaco", folder ? folder : ".", rig_arch());
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s", path);
    fseek(file, 0, SEEK_END);
    long n = ftell(file);
    rewind(file);
    void *image = malloc((size_t)n);
    ck_assert(image && fread(image, 1, (size_t)n, file) == (size_t)n);
    fclose(file);
    ck_assert_int_eq(RIG_CALL("hipModuleLoadData", int (*)(void **, const void *))(&mod, image), 0);
    free(image);
    return mod;
}

static bool same(uint32_t a, uint32_t b)
{
    return rig_same_float(a, b);
}

START_TEST(case_by_case)
{
    int (*alloc)(void **, size_t) = RIG_CALL("hipMalloc", int (*)(void **, size_t));
    int (*copy)(void *, const void *, size_t, int) =
        RIG_CALL("hipMemcpy", int (*)(void *, const void *, size_t, int));
    int (*get)(void **, void *, const char *) =
        RIG_CALL("hipModuleGetFunction", int (*)(void **, void *, const char *));
    static uint32_t in[WORDS + PAD], out[WORDS], want[WORDS];
    void *mod = load(), *fn = NULL, *d_in = NULL, *d_out = NULL;
    int n = WORDS;
    for (int i = 0; i < WORDS + PAD; i++)
        in[i] = i & 1 ? rig_random_float() : i & 2 ? rig_random() & 0xffff : rig_random();
    ck_assert_int_eq(alloc(&d_in, sizeof in), 0);
    ck_assert_int_eq(alloc(&d_out, sizeof out), 0);
    ck_assert_int_eq(copy(d_in, in, sizeof in, 1), 0);
    memset(out, 0xee, sizeof out);
    for (int i = 0; i < WORDS; i++)
        out[i] = 0xeeeeeeee;
    ck_assert_int_eq(get(&fn, mod, cases[_i].name), 0);
    ck_assert_int_eq(copy(d_out, out, sizeof out, 1), 0);
    memcpy(want, out, sizeof want);
    void *args[] = {&d_in, &d_out, &n};
    ck_assert_msg(rig_launch(fn, WORDS / 256, 256, 0, args) == 0, "%s: %s", cases[_i].name,
                  RIG_CALL("mxsim_last_report", const char *(*)(void))());
    ck_assert_int_eq(copy(out, d_out, sizeof out, 2), 0);
    for (int i = 0; i < WORDS; i++)
        cases[_i].host(i, in, want, n);
    for (int i = 0; i < WORDS; i++)
        ck_assert_msg(same(out[i], want[i]), "%s: %d: in %08x %08x %08x %08x: %08x, expected %08x",
                      cases[_i].name, i, in[i], in[i + 1], in[i + 2], in[i + 3], out[i], want[i]);
    RIG_CALL("hipModuleUnload", int (*)(void *))(mod);
}
END_TEST

static void fill(TCase *tc)
{
    tcase_add_loop_test(tc, case_by_case, 0, (int)(sizeof cases / sizeof cases[0]));
}

int main(void)
{
    return rig_main("sim_compiled", fill);
}
