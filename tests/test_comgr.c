/* mxgen build --codegen comgr against a stand-in for comgr: which route is taken, with which
 * numbers, and what is said when something is missing or fails. Real ones are in
 * test_real_comgr.sh. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_run.h"

enum { MAX_WORDS = 32 };

static const char *const settings[] = {"MAJOR",  "CHIPS", "LLD",   "FAIL", "ACTION",
                                       "STATUS", "LOG",   "EMPTY", "CRASH"};

static char *folder;

static void setup(void)
{
    folder = cli_temp_create();
    setenv("TMPDIR", folder, 1);
    unsetenv("MXGEN_COMGR_HELPER");
    setenv("MXGEN_COMGR_LIBRARY", getenv("MX_TEST_FAKE_COMGR"), 1);
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        char name[64];
        snprintf(name, sizeof(name), "FAKECOMGR_%s", settings[i]);
        unsetenv(name);
    }
}

static void teardown(void)
{
    cli_temp_destroy(folder);
}

/* "A=B;C=D" */
static void configure(const char *text)
{
    char *copy = strdup(text), *rest = copy;
    for (char *part; (part = strsep(&rest, ";"));) {
        char name[64], *value = strchr(part, '=');
        if (!value)
            continue;
        *value++ = 0;
        snprintf(name, sizeof(name), strncmp(part, "MXGEN", 5) ? "FAKECOMGR_%s" : "%s", part);
        setenv(name, value, 1);
    }
    free(copy);
}

/* "@" at the start of a word stands for the test's folder. */
static void mxgen(cli_run *run, const char *words)
{
    const char *argv[MAX_WORDS + 1] = {getenv("MXGEN")};
    char *paths[MAX_WORDS] = {NULL};
    char *copy = strdup(words), *rest = copy;
    size_t n = 1;
    for (char *word; (word = strsep(&rest, " "));) {
        ck_assert_uint_lt(n, MAX_WORDS);
        argv[n] = *word == '@' ? paths[n] = cli_temp_path(folder, word + 1) : word;
        n++;
    }
    cli_run_start(run, argv);
    for (size_t i = 0; i < MAX_WORDS; i++)
        free(paths[i]);
    free(copy);
}

static void assert_contains(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "\"%s\" is not in: %s", part, text);
}

#define SMALL "build --op to --format mx9 --dtype f32 --layout flat --max-rank 1 -o @pack "

/* ---- Routes ---- */

static const struct {
    const char *settings, *words, *target;
    const char *object; /* what the stand-in made; NULL: made in this process */
    const char *out, *err;
} routes[] = {
    /* An older LLVM gets the relocatable, which begins with ELF's letters. */
    {"MAJOR=2;LLD=15.0.6", "--target gfx942 --codegen comgr", "gfx942",
     "action 9 of 2.1 for amdgcn-amd-amdhsa--gfx942 with; Linker: Fake LLD 15.0.6; \177ELF",
     "1 of the objects by comgr 2.1, LLVM 15.0.6", ""},
    {"MAJOR=3;LLD=22.0.9", "--target gfx942 --codegen comgr", "gfx942",
     "action 7 of 3.1 for amdgcn-amd-amdhsa--gfx942 with; Linker: Fake LLD 22.0.9; \177ELF",
     "comgr 3.1, LLVM 22.0.9", ""},
    {"LLD=23.0.0", "--target gfx90a --codegen comgr-link", "gfx90a",
     "with; Linker: Fake LLD 23.0.0; \177ELF", "comgr 3.1", ""},
    /* As new as ours: bitcode, which begins with BC. */
    {"LLD=22.1.0", "--target gfx90a --codegen comgr", "gfx90a",
     "; action 4 of 3.1 for amdgcn-amd-amdhsa--gfx90a with -O3 -Xclang -disable-llvm-passes; "
     "Linker: Fake LLD 22.1.0; BC",
     "LLVM 22.1.0", ""},
    {"MAJOR=2;LLD=23.0.0", "--target gfx90a --codegen comgr-bitcode", "gfx90a",
     "; action 6 of 2.1 for amdgcn-amd-amdhsa--gfx90a with -O3", "LLVM 23.0.0", ""},
    {"LLD=23.0.0", "--target gfx90a --codegen auto", "gfx90a", "action 7 of 3.1", "comgr 3.1", ""},
    /* The version is not told: the relocatable. */
    {"ACTION=8;STATUS=1", "--target gfx90a --codegen comgr", "gfx90a", "; \177ELF", "LLVM 0", ""},
    /* A warning is none of our business. */
    {"ACTION=7;LOG=warning: unused argument", "--target gfx90a --codegen comgr-link", "gfx90a",
     "action 7", "comgr 3.1", ""},
    {"CHIPS=gfx90a", "--target gfx942 --codegen auto", "gfx942", NULL, "1 variants",
     "does not know gfx942; it knows gfx90a; LLVM makes its code objects"},
    {"MAJOR=4", "--target gfx942 --codegen auto", "gfx942", NULL, "1 variants",
     "interface 4.1; mxgen knows 2.x and 3.x"},
    {"MXGEN_COMGR_LIBRARY=/nowhere/x.so", "--target gfx942 --codegen auto", "gfx942", NULL,
     "1 variants", "LLVM makes AMD's code objects"},
    /* Not looked for where nobody asks. */
    {"MXGEN_COMGR_LIBRARY=/nowhere/x.so", "--target gfx942", "gfx942", NULL, "1 variants", ""},
    {"MXGEN_COMGR_LIBRARY=/nowhere/x.so", "--target gfx942 --codegen llvm", "gfx942", NULL,
     "1 variants", ""},
    {"MXGEN_COMGR_LIBRARY=/nowhere/x.so", "--target host-x86-64-v3 --codegen comgr",
     "host-x86-64-v3", NULL, "1 variants", ""},
};

static void assert_object(const char *target, const char *made)
{
    cli_run run;
    char words[300], name[128];
    mxgen(&run, "list @pack");
    const char *at = strstr(run.out, "mx_to_");
    ck_assert_ptr_nonnull(at);
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, " \n"), at);
    cli_run_finish(&run);
    snprintf(words, sizeof(words), "show %s --target %s --pack @pack --stage object -o @object",
             name, target);
    mxgen(&run, words);
    ck_assert_msg(run.exit_code == 0, "%s", run.err);
    cli_run_finish(&run);
    size_t size_bytes;
    char *path = cli_temp_path(folder, "object");
    char *object = cli_temp_read(path, &size_bytes);
    if (made)
        assert_contains(object, made);
    else
        ck_assert_msg(size_bytes > 64 && !memcmp(object, "\177ELF", 4), "no ELF file");
    free(object);
    free(path);
}

START_TEST(route)
{
    cli_run run;
    char words[300];
    configure(routes[_i].settings);
    snprintf(words, sizeof(words), SMALL "%s", routes[_i].words);
    mxgen(&run, words);
    ck_assert_msg(run.exit_code == 0, "exit %d: %s", run.exit_code, run.err);
    assert_contains(run.out, routes[_i].out);
    if (routes[_i].err[0])
        assert_contains(run.err, routes[_i].err);
    else
        ck_assert_str_eq(run.err, "");
    ck_assert_int_eq(strstr(run.out, "comgr") != NULL, routes[_i].object != NULL);
    cli_run_finish(&run);
    assert_object(routes[_i].target, routes[_i].object);
}
END_TEST

START_TEST(pack_names_comgr)
{
    cli_run run;
    mxgen(&run, SMALL "--target gfx942 --codegen comgr");
    ck_assert_msg(run.exit_code == 0, "%s", run.err);
    cli_run_finish(&run);
    mxgen(&run, "list --summary @pack");
    assert_contains(run.out, "comgr 3.1 of LLVM 22.1.0");
    cli_run_finish(&run);
}
END_TEST

/* ---- Failures ---- */

static const struct {
    const char *settings, *words, *message;
} failures[] = {
    {"MXGEN_COMGR_LIBRARY=/nowhere/x.so", "--codegen comgr",
     "/nowhere/x.so: cannot open shared object"},
    {"MXGEN_COMGR_LIBRARY=/nowhere/x.so", "--codegen comgr", "which MXGEN_COMGR_LIBRARY names"},
    {"", "--codegen comgr --comgr @none.so", "none.so: cannot open shared object"},
    {"", "--codegen comgr --comgr libm.so.6", "lacks amd_comgr_get_version"},
    {"MXGEN_COMGR_HELPER=/nowhere/helper", "--codegen comgr",
     "MXGEN_COMGR_HELPER names, is no program"},
    {"MXGEN_COMGR_HELPER=/bin/true", "--codegen comgr", "does not tell which comgr"},
    {"MXGEN_COMGR_HELPER=/bin/false", "--codegen comgr", "/bin/false ends with status 1"},
    {"", "--codegen gcc", "unknown codegen \"gcc\"; one of llvm, auto, comgr, comgr-link"},
    {"MAJOR=1", "--codegen comgr", "has interface 1.1; mxgen knows 2.x and 3.x"},
    {"MAJOR=4", "--codegen comgr", "has interface 4.1; mxgen knows 2.x and 3.x"},
    {"CHIPS=gfx90a gfx1100", "--codegen comgr", "does not know gfx942; it knows gfx90a gfx1100"},
    {"CHIPS=gfx94", "--codegen comgr", "does not know gfx942; it knows gfx94"},
    {"LLD=15.0.6;MAJOR=2", "--codegen comgr-bitcode",
     "(interface 2.1) is on LLVM 15.0.6, and bitcode of LLVM 22.1 needs that or a newer one: use "
     "--codegen comgr-link"},
    {"ACTION=8;EMPTY=1", "--codegen comgr-bitcode", "of a version that it does not tell"},
    {"ACTION=7;STATUS=1;LOG=lld: error: no such thing", "--codegen comgr-link",
     "linking for amdgcn-amd-amdhsa--gfx942 fails with status 1: lld: error: no such thing"},
    {"ACTION=7;STATUS=3", "--codegen comgr-link", "fails with status 3: comgr tells no more"},
    {"ACTION=9;STATUS=1;MAJOR=2", "--codegen comgr-link",
     "linking for amdgcn-amd-amdhsa--gfx942 fails"},
    {"ACTION=4;STATUS=1;LOG=error: invalid record", "--codegen comgr",
     "generating code for amdgcn-amd-amdhsa--gfx942 fails with status 1: error: invalid record"},
    {"ACTION=4;LOG=error: unknown argument: '-frob'", "--codegen comgr",
     "a success with an error in its log: error: unknown argument: '-frob'"},
    {"ACTION=7;EMPTY=1", "--codegen comgr-link", "gives no result"},
    {"ACTION=7;CRASH=1", "--codegen comgr-link", "was ended by signal 9"},
    {"FAIL=create_data", "--codegen comgr-link", "amd_comgr_create_data fails"},
    {"FAIL=set_data", "--codegen comgr-link", "amd_comgr_set_data fails"},
    {"FAIL=set_data_name", "--codegen comgr-link", "amd_comgr_set_data_name fails"},
    {"FAIL=create_data_set", "--codegen comgr-link", "amd_comgr_create_data_set fails"},
    {"FAIL=data_set_add", "--codegen comgr-link", "amd_comgr_data_set_add fails"},
    {"FAIL=create_action_info", "--codegen comgr-link", "amd_comgr_create_action_info fails"},
    {"FAIL=action_info_set_isa_name", "--codegen comgr-link", "amd_comgr_action_info_set_isa_name"},
    {"FAIL=action_info_set_logging", "--codegen comgr-link", "amd_comgr_action_info_set_logging"},
    {"FAIL=action_info_set_option_list", "--codegen comgr",
     "amd_comgr_action_info_set_option_list"},
    {"FAIL=get_data", "--codegen comgr-link", "gives no result"},
};

static int is_empty(const char *path)
{
    cli_run run;
    const char *const argv[] = {"/bin/ls", "-A", path, NULL};
    cli_run_start(&run, argv);
    int empty = run.out_bytes == 0;
    cli_run_finish(&run);
    return empty;
}

START_TEST(failure)
{
    cli_run run;
    char words[300];
    configure(failures[_i].settings);
    snprintf(words, sizeof(words), SMALL "--target gfx942 %s", failures[_i].words);
    mxgen(&run, words);
    ck_assert_int_eq(run.exit_code, 1);
    assert_contains(run.err, failures[_i].message);
    cli_run_finish(&run);
    /* Neither a pack nor a scratch folder. */
    ck_assert(is_empty(folder));
}
END_TEST

START_TEST(helper_refuses_what_it_does_not_know)
{
    static const char *const bad[][6] = {
        {NULL}, {"frobnicate", NULL}, {"link", "x", NULL}, {"link", "isa", "a", "b", "c", NULL}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *argv[8] = {getenv("MXGEN_COMGR")};
        cli_run run;
        for (size_t k = 0; bad[i][k]; k++)
            argv[k + 1] = bad[i][k];
        cli_run_start(&run, argv);
        ck_assert_int_eq(run.exit_code, 2);
        assert_contains(run.err, "usage: mxgen-comgr");
        cli_run_finish(&run);
    }
    const struct {
        const char *words[5];
        int exit_code;
        const char *message;
    } cases[] = {
        {{"link", "amdgcn-amd-amdhsa--gfx000", "in", "out", NULL},
         5,
         "does not know amdgcn-amd-amdhsa--gfx000"},
        {{"link", "amdgcn-amd-amdhsa--gfx942", "/nowhere/in", "out", NULL},
         1,
         "/nowhere/in: No such file"},
        {{"link", "amdgcn-amd-amdhsa--gfx942", "/dev/null", "/nowhere/out", NULL},
         1,
         "/nowhere/out: No such file"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *argv[8] = {getenv("MXGEN_COMGR")};
        cli_run run;
        memcpy(argv + 1, cases[i].words, sizeof(cases[i].words));
        cli_run_start(&run, argv);
        ck_assert_int_eq(run.exit_code, cases[i].exit_code);
        assert_contains(run.err, cases[i].message);
        cli_run_finish(&run);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("comgr");
    TCase *tcase = tcase_create("stand-in");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, route, 0, sizeof(routes) / sizeof(routes[0]));
    tcase_add_test(tcase, pack_names_comgr);
    tcase_add_loop_test(tcase, failure, 0, sizeof(failures) / sizeof(failures[0]));
    tcase_add_test(tcase, helper_refuses_what_it_does_not_know);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
