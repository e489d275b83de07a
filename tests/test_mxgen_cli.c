/* The mxgen command line: what it prints, what it writes, and what it says to bad input. */
#include <check.h>
#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli_run.h"

enum { MAX_WORDS = 40 };

static char *temp_dir;

static void setup(void)
{
    temp_dir = cli_temp_create();
}

static void teardown(void)
{
    cli_temp_destroy(temp_dir);
}

/* Runs mxgen with words separated by blanks; "@NAME" is a file in the test's folder. */
static void mxgen(cli_run *run, const char *words)
{
    const char *argv[MAX_WORDS + 1] = {getenv("MXGEN")};
    char *paths[MAX_WORDS] = {0};
    size_t n = 1;
    ck_assert_msg(argv[0] != NULL, "set MXGEN to the program");
    char *copy = strdup(words), *rest = copy;
    for (char *word; (word = strsep(&rest, " "));) {
        ck_assert_uint_lt(n, MAX_WORDS);
        if (word[0] == '@')
            argv[n] = paths[n] = cli_temp_path(temp_dir, word + 1);
        else
            argv[n] = word;
        n++;
    }
    cli_run_start(run, argv);
    for (size_t i = 0; i < MAX_WORDS; i++)
        free(paths[i]);
    free(copy);
}

/* Runs and wants success. */
static void mxgen_ok(cli_run *run, const char *words)
{
    mxgen(run, words);
    ck_assert_msg(run->exit_code == 0, "mxgen %s: exit %d: %s", words, run->exit_code, run->err);
}

static json_t *mxgen_json(const char *words)
{
    cli_run run;
    json_error_t detail;
    mxgen_ok(&run, words);
    json_t *json = json_loads(run.out, JSON_REJECT_DUPLICATES, &detail);
    ck_assert_msg(json != NULL, "mxgen %s: %s in %s", words, detail.text, run.out);
    cli_run_finish(&run);
    return json;
}

static void assert_contains(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "\"%s\" is not in: %s", part, text);
}

static size_t count_files(const char *dir)
{
    size_t n = 0;
    DIR *handle = opendir(dir);
    ck_assert_ptr_nonnull(handle);
    for (const struct dirent *entry; (entry = readdir(handle));)
        n += entry->d_name[0] != '.';
    closedir(handle);
    return n;
}

/* ---- Bad input ---- */

typedef struct bad_case {
    const char *words;
    int exit_code;
    const char *message; /* must be in standard error */
} bad_case;

#define PLAN "plan --op to --format mx9 --dtype f32 --target gfx942 "

static const bad_case bad_cases[] = {
    {"", 2, "unknown command"},
    {"frobnicate", 2, "frobnicate"},
    {"--frobnicate", 2, "frobnicate"},
    {"targets extra", 2, "too many"},
    {"build", 2, "-o FILE"},
    {"list", 2, "FILE"},
    {"show", 2, "KERNEL"},
    {"show to_mx9_f32", 2, "--target"},
    {"plan --op to", 2, "required"},
    {"build --target gfx000 -o @x", 1, "gfx942"},
    {"build --target gfx942,, -o @x", 1, "unknown target \"\""},
    {"build --op toto -o @x", 1, "toto"},
    {"build --format mx5 -o @x", 1, "mx5"},
    {"build --op to --format mxfp4.mxfp4 -o @x", 1, "mxfp4.mxfp4 is that of a product"},
    {"build --op gemm_cols --format mxfp4.mx9 -o @x", 1, "mxfp4.mx9"},
    {"build --dtype f64 -o @x", 1, "f64"},
    {"build --layout round -o @x", 1, "round"},
    {"build --max-rank 0 -o @x", 1, "max-rank"},
    {"build --max-rank 1x -o @x", 1, "1x"},
    {"build -j 0 -o @x", 1, "0"},
    {"build -j 99999999999999999999 -o @x", 1, "outside"},
    {"build -o @no/such/x", 1, "no/such"}, /* at once, not after minutes of work */
    {"build -o /tmp", 1, "folder"},
    {"build --target sm_90a --ptxas @missing -o @x", 1, "missing is no program"},
    {"build --target sm_90a --ptxas /dev/null -o @x", 1, "/dev/null is no program"},
    {"build --target sm_90a --ptxas /bin/true -o @x", 1, "does not tell its version"},
    {"build --target sm_90a --ptxas /bin/false -o @x", 1, "status 1"},
    {"list @missing", 1, "missing"},
    {"list /dev/null", 1, "/dev/null"},
    {"show nonsense --target gfx942", 1, "nonsense"},
    {"show to_mx5_f32 --target gfx942", 1, "to_mx5_f32"},
    {"show to_mx9_f32 --target gfx000", 1, "gfx000"},
    {"show to_mx9_f32 --target gfx942 --stage wat", 1, "wat"},
    {"show to_mx9_f32 --target gfx942 --profile demoted-255", 1, "qdq only"},
    {"show to_mx9_f32 --target gfx942 --profile wat", 1, "wat"},
    {"show to_mx9_f32 --target gfx942 --param NO_SUCH=1", 1, "NO_SUCH"},
    {"show to_mx9_f32 --target gfx942 --param NO_SUCH", 1, "NAME=VALUE"},
    {"show to_mx9_f32 --target gfx942 --param num_warps=", 1, "whole number"},
    {"show to_mx9_f32 --target gfx942 --param num_warps=4 --param num_warps=4", 1, "twice"},
    {"show to_mx9_f32 --target gfx942 --param num_warps=12345", 1, "num_warps"},
    {"show to_mx9_f32 --target gfx942 -o @no/such/x", 1, "no/such"},
    {"show x --pack @missing", 1, "missing"},
    {"show x --pack @missing --param A=1", 2, "--param"},
    {"plan --op tofrom --format mx9 --dtype f32 --target gfx942 --shape 4x64", 1, "tofrom"},
    {"plan --op to --format mx5 --dtype f32 --target gfx942 --shape 4x64", 1, "mx5"},
    {"plan --op to --format mx9 --dtype f8 --target gfx942 --shape 4x64", 1, "f8"},
    {"plan --op to --format mx9 --dtype f32 --target gfx000 --shape 4x64", 1, "gfx000"},
    {PLAN "--shape 4x64 --profile demoted-255", 1, "qdq only"},
    {PLAN "--shape 4x", 1, "whole number"},
    {PLAN "--shape 4x-64", 1, "-64"},
    {PLAN "--shape 4x64 --axis 2", 1, "axis 2"},
    {PLAN "--shape 4x64 --axis -3", 1, "axis -3"},
    {PLAN "--shape 4x64 --axis one", 1, "one"},
    {PLAN "--shape 4x0", 1, "axis"},
    {PLAN "--shape 4x64 --strides 64", 1, "dimensions"},
    {PLAN "--shape 4x64 --strides 64,-1", 1, "negative"},
    {PLAN "--shape 4x64 --strides 64,1.5", 1, "1.5"},
    {PLAN "--shape 4x64 --out-strides 64,1", 1, "qdq only"},
    {"plan --op qdq --format mx9 --dtype f32 --target gfx942 --shape 4x64 --packed-strides 1,1", 1,
     "no packed"},
    {PLAN "--shape 4x64 --packed-strides 1,1", 1, "overlap"},
    {PLAN "--shape 4x64 --align 3", 1, "power of two"},
    {PLAN "--shape 4x64 --align 8192", 1, "outside"},
    {PLAN "--shape 4x64 --align 2", 1, "multiple of 4"},
    {PLAN "--shape 4294967296x4294967296", 1, "overflow"},
    {PLAN "--shape 99999999999999999999", 1, "outside"},
    {PLAN "--shape 4x64 --param NO_SUCH=1", 1, "NO_SUCH"},
    {PLAN "--shape 4x64 --param num_warps=12345", 1, "num_warps"},
    {PLAN "--shape 4x64 --variant nonsense", 1, "nonsense"},
    {PLAN "--shape 4x64 --pack @missing", 1, "missing"},
    {PLAN "--shape 4x64 --pack @missing --param A=1", 2, "--param"},
    {PLAN "--shape 4x64 --object @no/such/x", 1, "no/such"},
};

START_TEST(bad_input_is_told_and_writes_nothing)
{
    const bad_case *c = &bad_cases[_i];
    cli_run run;
    mxgen(&run, c->words);
    ck_assert_msg(run.exit_code == c->exit_code, "mxgen %s: exit %d: %s", c->words, run.exit_code,
                  run.err);
    assert_contains(run.err, c->message);
    ck_assert_str_eq(run.out, "");
    ck_assert_uint_eq(count_files(temp_dir), 0);
    cli_run_finish(&run);
}
END_TEST

/* ---- targets, build, list ---- */

START_TEST(help_tells_the_commands)
{
    cli_run run;
    mxgen_ok(&run, "--help");
    assert_contains(run.out, "targets");
    assert_contains(run.out, "plan");
    cli_run_finish(&run);
    mxgen_ok(&run, "--version");
    assert_contains(run.out, "mxgen 0.");
    cli_run_finish(&run);
    mxgen_ok(&run, "plan --help");
    assert_contains(run.out, "--packed-strides");
    cli_run_finish(&run);
}
END_TEST

START_TEST(targets_are_listed)
{
    static const char *const wanted[] = {"gfx90a",  "gfx942", "gfx950",        "gfx1100",
                                         "gfx1201", "sm_90a", "host-x86-64-v3"};
    cli_run run;
    mxgen_ok(&run, "targets");
    json_t *list = mxgen_json("targets --json");
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        size_t index, found = 0;
        json_t *target;
        assert_contains(run.out, wanted[i]);
        json_array_foreach(list, index, target) found +=
            !strcmp(json_string_value(json_object_get(target, "name")), wanted[i]);
        ck_assert_uint_eq(found, 1);
    }
    json_decref(list);
    cli_run_finish(&run);
}
END_TEST

#define BUILD                                                                                      \
    "build --target gfx942 --op to --format mx9 --dtype f32 --layout flat --max-rank 2 -o "

START_TEST(equal_builds_are_equal)
{
    size_t one_bytes = 0, two_bytes = 0;
    cli_run run;
    mxgen_ok(&run, BUILD "@one -j 1");
    assert_contains(run.out, "2 variants");
    cli_run_finish(&run);
    mxgen_ok(&run, BUILD "@two -j 2");
    cli_run_finish(&run);
    char *one_path = cli_temp_path(temp_dir, "one"), *two_path = cli_temp_path(temp_dir, "two");
    char *one = cli_temp_read(one_path, &one_bytes), *two = cli_temp_read(two_path, &two_bytes);
    ck_assert_uint_eq(one_bytes, two_bytes);
    ck_assert_mem_eq(one, two, one_bytes);
    ck_assert_uint_eq(count_files(temp_dir), 2);
    free(one);
    free(two);
    free(one_path);
    free(two_path);
}
END_TEST

START_TEST(list_tells_what_was_built)
{
    cli_run run;
    mxgen_ok(&run, BUILD "@pack");
    cli_run_finish(&run);
    json_t *root = mxgen_json("list --json @pack");
    assert_contains(json_string_value(json_object_get(root, "generator")), "mxgen");
    assert_contains(json_string_value(json_object_get(root, "compiler")), "LLVM");
    json_t *variants = json_object_get(root, "variants");
    ck_assert_uint_eq(json_array_size(variants), 2);
    json_t *first = json_array_get(variants, 0);
    const char *name = json_string_value(json_object_get(first, "kernel"));
    ck_assert_str_eq(json_string_value(json_object_get(first, "target")), "gfx942");
    ck_assert_str_eq(json_string_value(json_object_get(first, "layout")), "flat");
    ck_assert_int_eq(json_integer_value(json_object_get(first, "rank")), 0);
    ck_assert_int_gt(json_integer_value(json_object_get(json_object_get(first, "info"), "vgprs")),
                     0);

    mxgen_ok(&run, "list @pack");
    assert_contains(run.out, name);
    cli_run_finish(&run);
    mxgen_ok(&run, "list --target gfx950 @pack");
    ck_assert_ptr_null(strstr(run.out, name));
    cli_run_finish(&run);
    mxgen_ok(&run, "list --summary @pack");
    assert_contains(run.out, "gfx942");
    cli_run_finish(&run);
    json_decref(root);
}
END_TEST

/* ---- ptxas ---- */

#define CUDA_BUILD                                                                                 \
    "build --target sm_90a --op to --format mx9 --dtype f32 --layout flat --max-rank 1 -o @pack"

/* A stand-in that takes what ptxas takes, and prints what it prints. */
static void write_ptxas(const char *release, const char *ending)
{
    char *path = cli_temp_path(temp_dir, "ptxas");
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fprintf(
        file,
        "#!/bin/sh\n"
        "if [ \"$*\" = --version ]; then\n"
        "    echo 'Cuda compilation tools, release %s, V%s.99'\n"
        "    exit 0\n"
        "fi\n"
        "[ \"$*\" = '-arch=sm_90a -v -o out.cubin in.ptx' ] || exit 9\n"
        "for name in other $(sed -n 's/^\\.visible \\.entry \\([a-z0-9_]*\\)(.*/\\1/p' in.ptx)\n"
        "do\n"
        "    echo \"ptxas info : Compiling entry function '$name' for 'sm_90a'\" >&2\n"
        "    echo '    16 bytes stack frame, 9 bytes spill stores, 20 bytes spill loads'\n"
        "    echo \"ptxas info : Used ${registers:-250} registers, used 1 barriers, 4672 bytes "
        "smem\"\n"
        "    registers=40\n"
        "done\n"
        "echo machine code >out.cubin\n"
        "%s\n",
        release, release, ending);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(chmod(path, 0700), 0);
    free(path);
}

static int64_t figure_of(const json_t *variant, const char *name)
{
    return json_integer_value(json_object_get(json_object_get(variant, "info"), name));
}

static const char *kind_of(const json_t *variant)
{
    return json_string_value(json_object_get(json_object_get(variant, "object"), "kind"));
}

START_TEST(ptxas_makes_machine_code_besides_ptx)
{
    cli_run run;
    char words[400];
    write_ptxas("12.0", "");
    mxgen_ok(&run, CUDA_BUILD " --ptxas @ptxas");
    assert_contains(run.out, "1 variants, 2 objects");
    assert_contains(run.out, "1 of the objects by ptxas 12.0.99");
    ck_assert_str_eq(run.err, "");
    cli_run_finish(&run);
    json_t *root = mxgen_json("list --json @pack");
    assert_contains(json_string_value(json_object_get(root, "compiler")), ", ptxas 12.0.99");
    json_t *variants = json_object_get(root, "variants");
    ck_assert_uint_eq(json_array_size(variants), 2);
    json_t *cubin = json_array_get(variants, 0), *ptx = json_array_get(variants, 1);
    ck_assert_str_eq(json_string_value(json_object_get(cubin, "target")), "sm_90a");
    ck_assert_str_eq(json_string_value(json_object_get(ptx, "target")), "compute_90a");
    ck_assert_str_eq(kind_of(cubin), "elf-cuda");
    ck_assert_str_eq(kind_of(ptx), "ptx");
    ck_assert(json_equal(json_object_get(cubin, "kernel"), json_object_get(ptx, "kernel")));
    ck_assert(json_equal(json_object_get(cubin, "launch"), json_object_get(ptx, "launch")));
    ck_assert_int_eq(figure_of(cubin, "registers"), 40);
    ck_assert_int_eq(figure_of(cubin, "lds_bytes"), 4672);
    ck_assert_int_eq(figure_of(cubin, "scratch_bytes"), 16);
    ck_assert_int_eq(figure_of(cubin, "spills"), 3);
    ck_assert_int_eq(figure_of(cubin, "occupancy"), 12);
    /* Of PTX no figures are known, but its code is the same. */
    json_t *ptx_info = json_object_get(ptx, "info"), *info = json_object_get(cubin, "info");
    ck_assert_ptr_null(json_object_get(ptx_info, "registers"));
    ck_assert(json_equal(json_object_get(ptx_info, "code"), json_object_get(info, "code")));

    const char *name = json_string_value(json_object_get(cubin, "kernel"));
    snprintf(words, sizeof(words), "show %s --target sm_90a --pack @pack --stage object", name);
    mxgen_ok(&run, words);
    ck_assert_str_eq(run.out, "machine code\n");
    cli_run_finish(&run);
    snprintf(words, sizeof(words), "show %s --target compute_90a --pack @pack --stage object",
             name);
    mxgen_ok(&run, words);
    assert_contains(run.out, ".entry");
    cli_run_finish(&run);
    static const char *const targets[] = {"sm_90a", "compute_90a"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(
            words, sizeof(words),
            "plan --json --op to --format mx9 --dtype f32 --shape 4x64 --pack @pack --target %s",
            targets[i]);
        json_t *plan = mxgen_json(words);
        ck_assert_str_eq(json_string_value(json_object_get(plan, "kernel")), name);
        ck_assert_str_eq(json_string_value(json_object_get(plan, "target")), targets[i]);
        json_decref(plan);
    }
    json_decref(root);
}
END_TEST

static const struct {
    const char *release, *ending, *option, *environment;
    int exit_code;
    const char *message; /* in standard error */
    const char *kind;    /* of the first variant, if there is a pack */
} ptxas_cases[] = {
    {"11.8", "", "--ptxas @ptxas", NULL, 0, "is release 11.8.99, the kernels need 12.0", "ptx"},
    {"13.0", "echo 'ptxas fatal : no such thing'; exit 7", "--ptxas @ptxas", NULL, 1,
     "status 7: ptxas info", NULL},
    {"13.0", "rm out.cubin", "--ptxas @ptxas", NULL, 1, "out.cubin", NULL},
    {"13.0", "kill -9 $$", "--ptxas @ptxas", NULL, 1, "signal 9", NULL},
    {"13.0", "", "--ptxas off", "ptxas", 0, "", "ptx"},
    {"13.0", "", "", "ptxas", 0, "", "elf-cuda"},
    {"13.0", "", "", "off", 0, "", "ptx"},
    {"13.0", "", "", "ptxas2", 1, "ptxas2 is no program", NULL},
};

START_TEST(ptxas_is_chosen_and_its_failures_are_told)
{
    cli_run run;
    char words[300];
    const char *environment = ptxas_cases[_i].environment;
    write_ptxas(ptxas_cases[_i].release, ptxas_cases[_i].ending);
    char *path = cli_temp_path(temp_dir, environment ? environment : "unused");
    if (environment)
        setenv("MXGEN_PTXAS", strcmp(environment, "off") ? path : "off", 1);
    snprintf(words, sizeof(words), CUDA_BUILD "%s%s", ptxas_cases[_i].option[0] ? " " : "",
             ptxas_cases[_i].option);
    mxgen(&run, words);
    ck_assert_msg(run.exit_code == ptxas_cases[_i].exit_code, "exit %d: %s", run.exit_code,
                  run.err);
    assert_contains(run.err, ptxas_cases[_i].message);
    cli_run_finish(&run);
    ck_assert_uint_eq(count_files(temp_dir), ptxas_cases[_i].kind ? 2 : 1);
    if (ptxas_cases[_i].kind) {
        json_t *root = mxgen_json("list --json @pack");
        json_t *first = json_array_get(json_object_get(root, "variants"), 0);
        ck_assert_str_eq(kind_of(first), ptxas_cases[_i].kind);
        ck_assert_str_eq(json_string_value(json_object_get(first, "target")), "sm_90a");
        json_decref(root);
    }
    unsetenv("MXGEN_PTXAS");
    free(path);
}
END_TEST

/* ---- show ---- */

START_TEST(show_prints_every_stage)
{
    cli_run run;
    mxgen_ok(&run, "show to_mx9_f32 --target gfx942 --stage llvm");
    assert_contains(run.out, "amdgpu_kernel");
    cli_run_finish(&run);
    mxgen_ok(&run, "show to_mx9_f32_flat --target gfx942 --stage asm");
    assert_contains(run.out, "s_endpgm");
    cli_run_finish(&run);
    mxgen_ok(&run, "show to_mx9_f32 --target gfx942 --stage object");
    ck_assert_uint_gt(run.out_bytes, 64);
    ck_assert_mem_eq(run.out, "\177ELF", 4);
    cli_run_finish(&run);
    mxgen_ok(&run, "show to_mx9_f32 --target gfx942");
    assert_contains(run.out, "vgprs");
    assert_contains(run.out, "pointer");
    assert_contains(run.out, "grid");
    cli_run_finish(&run);
    mxgen_ok(&run, "show qdq_mx6_bf16_general --target sm_90a --profile demoted-255 --stage asm");
    assert_contains(run.out, ".entry");
    cli_run_finish(&run);
    mxgen_ok(&run, "show from_mx4_f16 --target host --stage object -o @object");
    ck_assert_str_eq(run.out, "");
    cli_run_finish(&run);
}
END_TEST

/* What a pack holds is what the generator shows. */
START_TEST(show_reads_packs)
{
    char words[400];
    cli_run from_pack, made;
    mxgen_ok(&made, BUILD "@pack");
    cli_run_finish(&made);
    json_t *root = mxgen_json("list --json @pack");
    const char *name = json_string_value(
        json_object_get(json_array_get(json_object_get(root, "variants"), 1), "kernel"));
    snprintf(words, sizeof(words), "show %s --pack @pack", name);
    mxgen_ok(&from_pack, words);
    assert_contains(from_pack.out, name);
    assert_contains(from_pack.out, "vgprs");
    cli_run_finish(&from_pack);

    snprintf(words, sizeof(words), "show %s --pack @pack --stage object", name);
    mxgen_ok(&from_pack, words);
    ck_assert_mem_eq(from_pack.out, "\177ELF", 4);
    cli_run_finish(&from_pack);

    snprintf(words, sizeof(words), "show %s --pack @pack --stage asm", name);
    mxgen(&from_pack, words);
    ck_assert_int_eq(from_pack.exit_code, 1);
    assert_contains(from_pack.err, "asm");
    cli_run_finish(&from_pack);

    mxgen(&from_pack, "show nonsense --pack @pack");
    ck_assert_int_eq(from_pack.exit_code, 1);
    assert_contains(from_pack.err, "nonsense");
    cli_run_finish(&from_pack);
    json_decref(root);
}
END_TEST

/* ---- plan ---- */

static int64_t buffer_bytes(const json_t *plan, const char *name, const char *role)
{
    size_t index;
    json_t *buffer;
    json_array_foreach(json_object_get(plan, "buffers"), index, buffer)
    {
        if (!strcmp(json_string_value(json_object_get(buffer, "name")), name) &&
            !strcmp(json_string_value(json_object_get(buffer, "role")), role))
            return json_integer_value(json_object_get(buffer, "bytes"));
    }
    return -1;
}

static void assert_three(const json_t *plan, const char *key)
{
    const json_t *list = json_object_get(plan, key);
    ck_assert_uint_eq(json_array_size(list), 3);
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_ge(json_integer_value(json_array_get(list, i)), 1);
}

/* Every argument has a name, a kind, and a value or the name of a listed buffer. */
static void assert_args(const json_t *plan)
{
    size_t index, pointers = 0;
    json_t *arg;
    const json_t *args = json_object_get(plan, "args");
    json_array_foreach(args, index, arg)
    {
        const char *kind = json_string_value(json_object_get(arg, "kind"));
        ck_assert_ptr_nonnull(json_string_value(json_object_get(arg, "name")));
        ck_assert_ptr_nonnull(kind);
        if (strcmp(kind, "pointer")) {
            ck_assert(json_is_number(json_object_get(arg, "value")));
            continue;
        }
        const char *buffer = json_string_value(json_object_get(arg, "buffer"));
        ck_assert_ptr_nonnull(buffer);
        ck_assert(buffer_bytes(plan, buffer, "in") > 0 || buffer_bytes(plan, buffer, "out") > 0);
        pointers++;
    }
    ck_assert_uint_ge(pointers, 2);
}

typedef struct plan_case {
    const char *words;
    const char *in, *out; /* names of buffers */
    int64_t in_bytes, out_bytes;
} plan_case;

static const plan_case plan_cases[] = {
    {"--op to --format mx9 --dtype f32 --shape 4x64 --target gfx942", "x", "p", 1024, 288},
    {"--op to --format mx6 --dtype bf16 --shape 4x64 --target gfx950", "x", "p", 512, 192},
    {"--op to --format mx4 --dtype f16 --shape 3x40 --target gfx90a", "x", "p", 240, 72},
    {"--op from --format mx9 --dtype f32 --shape 4x64 --target gfx1100", "p", "y", 288, 1024},
    {"--op qdq --format mx9 --dtype f32 --shape 4x64 --target gfx1201", "x", "y", 1024, 1024},
    {"--op to --format mx9 --dtype f32 --shape 64x4 --axis 0 --target gfx942", "x", "p", 1024, 288},
    {"--op to --format mx9 --dtype f32 --shape 4x64 --strides 100,1 --target gfx942", "x", "p",
     (3 * 100 + 64) * 4, 288},
    {"--op from --format mx9 --dtype f32 --shape 4x64 --strides 100,1 --target gfx942", "p", "y",
     288, (3 * 100 + 64) * 4},
    {"--op to --format mx9 --dtype f32 --shape 4x64 --strides 1,5 --target gfx942", "x", "p",
     (3 + 63 * 5 + 1) * 4, 288},
    {"--op to --format mx9 --dtype f32 --shape 4x64 --packed-strides 32,1 --target gfx942", "x",
     "p", 1024, 15 * 32 + 18},
    {"--op to --format mx9 --dtype f32 --shape 4x64 --align 4 --target gfx942", "x", "p", 1024,
     288},
    {"--op qdq --format mx9 --dtype f32 --profile demoted-255 --shape 4x64 --out-strides 80,1 "
     "--target gfx942",
     "x", "y", 1024, (3 * 80 + 64) * 4},
    {"--op to --format mx9 --dtype f32 --shape 4x64 --target host", "x", "p", 1024, 288},
    {"--op to --format mx9 --dtype f32 --shape 4x64 --target sm_90a", "x", "p", 1024, 288},
};

START_TEST(plan_tells_the_launch)
{
    const plan_case *c = &plan_cases[_i];
    char words[500];
    size_t object_bytes = 0;
    snprintf(words, sizeof(words), "plan %s --json --object @object", c->words);
    json_t *plan = mxgen_json(words);
    ck_assert_ptr_nonnull(json_string_value(json_object_get(plan, "kernel")));
    const char *target = strstr(c->words, "--target ") + strlen("--target ");
    ck_assert(!strncmp(json_string_value(json_object_get(plan, "target")), target, strlen(target)));
    assert_three(plan, "grid");
    assert_three(plan, "block");
    ck_assert(json_is_integer(json_object_get(plan, "lds_bytes")));
    assert_args(plan);
    ck_assert_int_eq(buffer_bytes(plan, c->in, "in"), c->in_bytes);
    ck_assert_int_eq(buffer_bytes(plan, c->out, "out"), c->out_bytes);
    ck_assert_uint_eq(json_array_size(json_object_get(plan, "buffers")), 2);

    char *path = cli_temp_path(temp_dir, "object");
    char *object = cli_temp_read(path, &object_bytes);
    const char *symbol = json_string_value(json_object_get(plan, "symbol"));
    ck_assert_ptr_nonnull(memmem(object, object_bytes, symbol, strlen(symbol)));
    free(object);
    free(path);
    json_decref(plan);
}
END_TEST

START_TEST(plan_prints_a_table)
{
    cli_run run;
    mxgen_ok(&run, PLAN "--shape 4x64");
    assert_contains(run.out, "workgroups");
    assert_contains(run.out, "n_blocks");
    cli_run_finish(&run);
}
END_TEST

START_TEST(no_blocks_launch_nothing)
{
    json_t *plan = mxgen_json(PLAN "--shape 0x64 --json");
    ck_assert_int_eq(json_integer_value(json_array_get(json_object_get(plan, "grid"), 0)), 0);
    json_decref(plan);
}
END_TEST

/* The plan on a pack is the plan on generated kernels. */
START_TEST(plan_reads_packs)
{
    cli_run run;
    mxgen_ok(&run, BUILD "@pack");
    cli_run_finish(&run);
    json_t *from_pack = mxgen_json(PLAN "--shape 64x1024 --json --pack @pack");
    json_t *made = mxgen_json(PLAN "--shape 64x1024 --json");
    ck_assert(json_equal(from_pack, made));
    json_decref(from_pack);
    json_decref(made);
    mxgen(&run,
          "plan --op from --format mx9 --dtype f32 --target gfx942 --shape 4x64 --pack @pack");
    ck_assert_int_eq(run.exit_code, 1);
    cli_run_finish(&run);
}
END_TEST

/* A variant that is asked for by name is used, or the rule that fails is told. */
START_TEST(plan_takes_a_variant)
{
    char words[500];
    cli_run run;
    json_t *best = mxgen_json(PLAN "--shape 64x1024 --json");
    const char *name = json_string_value(json_object_get(best, "kernel"));
    snprintf(words, sizeof(words), PLAN "--shape 64x1024 --json --variant %s", name);
    json_t *again = mxgen_json(words);
    ck_assert(json_equal(best, again));
    snprintf(words, sizeof(words), PLAN "--shape 64x1021 --variant %s", name);
    mxgen(&run, words);
    ck_assert_int_eq(run.exit_code, 1);
    assert_contains(run.err, name);
    cli_run_finish(&run);
    json_decref(best);
    json_decref(again);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mxgen_cli");
    TCase *bad = tcase_create("bad input"), *good = tcase_create("commands");
    tcase_add_checked_fixture(bad, setup, teardown);
    tcase_add_loop_test(bad, bad_input_is_told_and_writes_nothing, 0,
                        sizeof(bad_cases) / sizeof(bad_cases[0]));
    suite_add_tcase(suite, bad);

    tcase_add_checked_fixture(good, setup, teardown);
    tcase_add_test(good, help_tells_the_commands);
    tcase_add_test(good, targets_are_listed);
    tcase_add_test(good, equal_builds_are_equal);
    tcase_add_test(good, list_tells_what_was_built);
    tcase_add_test(good, ptxas_makes_machine_code_besides_ptx);
    tcase_add_loop_test(good, ptxas_is_chosen_and_its_failures_are_told, 0,
                        sizeof(ptxas_cases) / sizeof(ptxas_cases[0]));
    tcase_add_test(good, show_prints_every_stage);
    tcase_add_test(good, show_reads_packs);
    tcase_add_loop_test(good, plan_tells_the_launch, 0, sizeof(plan_cases) / sizeof(plan_cases[0]));
    tcase_add_test(good, plan_prints_a_table);
    tcase_add_test(good, no_blocks_launch_nothing);
    tcase_add_test(good, plan_reads_packs);
    tcase_add_test(good, plan_takes_a_variant);
    suite_add_tcase(suite, good);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
