/* mxrt tune against kernels that compute wrong values, hang or fault: they are named and left out,
 * and the rest is measured.
 *
 *   MXRT                      the program
 *   MX_TEST_GOOD_PACK         kernels of mxgen for the device, to mx9 of MX_TEST_DTYPE
 *   MX_TEST_DEVICE            host or hip:0
 *   MX_TEST_RUNTIME_KERNELS   the kernels that hang and fault, on the host */
#include <check.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mxgen/rt.h>
#include <mxgen/tune.h>

#include "cli_run.h"
#include "gen/pack_writer.h"

enum { MAX_VARIANTS = 64 };

static char *folder, *pack, *file, *lines;
static mx_error error;

static int on_host(void)
{
    return !strcmp(getenv("MX_TEST_DEVICE"), "host");
}

static void setup(void)
{
    folder = cli_temp_create();
    pack = cli_temp_path(folder, "kernels.mxdb");
    file = cli_temp_path(folder, "t.mxtune");
    lines = cli_temp_path(folder, "found.json");
}

static void teardown(void)
{
    cli_temp_destroy(folder);
    free(pack);
    free(file);
    free(lines);
}

/* ---- Packs ---- */

/* How a variant differs from the one it is made of; members that are NULL do not. */
typedef struct twist {
    const char *name, *symbol, *n_blocks, *grid, *code;
    int64_t object; /* 0: that of the good one */
} twist;

/* The launch rule with another grid or number of blocks; to be freed. */
static char *twist_launch(const char *text, const twist *t)
{
    json_t *launch = json_loads(text, 0, NULL), *arg;
    size_t i;
    ck_assert_ptr_nonnull(launch);
    if (t->grid)
        json_array_set_new(json_object_get(launch, "grid"), 0, json_string(t->grid));
    json_array_foreach(json_object_get(launch, "args"), i, arg)
    {
        if (t->n_blocks && !strcmp(json_string_value(json_object_get(arg, "name")), "n_blocks"))
            json_object_set_new(arg, "value", json_string(t->n_blocks));
    }
    char *made = json_dumps(launch, JSON_COMPACT);
    json_decref(launch);
    return made;
}

static void add_variant(mxgen_pack_writer *writer, const mxrt_variant_info *from, int64_t object,
                        const twist *t)
{
    char *launch = twist_launch(from->launch_json, t);
    json_t *info = json_loads(from->info_json, 0, NULL);
    if (t->code)
        json_object_set_new(info, "code", json_string(t->code));
    char *info_json = json_dumps(info, JSON_COMPACT);
    mxgen_pack_variant row = {.object_id = t->object ? t->object : object,
                              .target = from->target,
                              .op = from->op,
                              .format = from->format,
                              .dtype = from->dtype,
                              .profile = from->profile,
                              .layout = from->layout,
                              .name = t->name ? t->name : from->name,
                              .symbol = t->symbol ? t->symbol : from->symbol,
                              .rank = t->name ? 0 : from->rank + 1,
                              .params_json = from->params_json,
                              .rules_json = from->rules_json,
                              .launch_json = launch,
                              .info_json = info_json};
    mx_status status = mxgen_pack_writer_variant(writer, &row, &error);
    ck_assert_msg(status == MX_OK, "%s", error.message);
    json_decref(info);
    free(launch);
    free(info_json);
}

static int64_t add_object(mxgen_pack_writer *writer, const char *target, const char *kind,
                          const void *data, size_t bytes)
{
    int64_t id = 0;
    mx_status status = mxgen_pack_writer_object(writer, target, kind, data, bytes, &id, &error);
    ck_assert_msg(status == MX_OK, "%s", error.message);
    return id;
}

static int64_t copy_object(mxgen_pack_writer *writer, const mxrt_pack *from,
                           const mxrt_variant_info *info)
{
    void *data;
    size_t bytes;
    ck_assert_int_eq(mxrt_pack_object(from, info->object_id, &data, &bytes, &error), MX_OK);
    int64_t id = add_object(writer, info->target, info->object_kind, data, bytes);
    free(data);
    return id;
}

/* What comes first in preference is bad. `fixed`: the one with wrong values is right by now. */
static void add_bad(mxgen_pack_writer *writer, const mxrt_variant_info *from, int64_t object,
                    int fixed)
{
    twist wrong = {.name = "wrong", .n_blocks = "n_blocks - 1", .code = "0000000000000001"};
    if (fixed)
        wrong = (twist){.name = "wrong", .code = "0000000000000002"};
    add_variant(writer, from, object, &wrong);
    if (!on_host()) {
        const twist fault = {.name = "fault",
                             .n_blocks = "n_blocks * 1048576",
                             .code = "3",
                             .grid = "ceil_div(n_blocks, 64) * 4"};
        add_variant(writer, from, object, &fault);
        return;
    }
    size_t bytes;
    char *code = cli_temp_read(getenv("MX_TEST_RUNTIME_KERNELS"), &bytes);
    int64_t own = add_object(writer, from->target, from->object_kind, code, bytes);
    const twist hang = {.name = "hang", .symbol = "mxtest_hang", .code = "4", .object = own};
    const twist fault = {.name = "fault", .symbol = "mxtest_fault", .code = "5", .object = own};
    add_variant(writer, from, object, &hang);
    add_variant(writer, from, object, &fault);
    free(code);
}

/* The first kernels of each layout for to mx9, and the bad ones of the layout flat. */
static void write_pack(int fixed)
{
    mxgen_pack_writer *writer = NULL;
    mxrt_pack *from = NULL;
    mx_status status = mxrt_pack_open(getenv("MX_TEST_GOOD_PACK"), &from, &error);
    ck_assert_msg(status == MX_OK, "%s", error.message);
    ck_assert_int_eq(mxgen_pack_writer_create(&writer, &error), MX_OK);
    mxgen_pack_writer_meta(writer, "generator", "mxgen test", &error);
    mxgen_pack_writer_meta(writer, "generator_hash", "0123", &error);
    mxgen_pack_writer_meta(writer, "compiler", "none", &error);
    int n_flat = 0;
    for (size_t i = 0; i < mxrt_pack_variant_count(from); i++) {
        const twist none = {.name = NULL};
        mxrt_variant_info info;
        ck_assert_int_eq(mxrt_pack_variant(from, i, &info, &error), MX_OK);
        if (strcmp(info.op, "to") != 0 || strcmp(info.format, "mx9") != 0 || info.rank > 0 ||
            strcmp(info.dtype, getenv("MX_TEST_DTYPE")) != 0)
            continue;
        int64_t object = copy_object(writer, from, &info);
        add_variant(writer, &info, object, &none);
        if (!strcmp(info.layout, "flat") && !n_flat++)
            add_bad(writer, &info, object, fixed);
    }
    ck_assert_int_eq(n_flat, 1);
    status = mxgen_pack_writer_save(writer, pack, &error);
    ck_assert_msg(status == MX_OK, "%s", error.message);
    mxgen_pack_writer_destroy(writer);
    mxrt_pack_close(from);
}

/* ---- Runs ---- */

/* Two shapes: the layout flat, and with it what is bad, applies to the first only. */
static void tune(cli_run *run, const char *more)
{
    const char *argv[] = {getenv("MXRT"), "tune",      "--device",   getenv("MX_TEST_DEVICE"),
                          "--pack",       pack,        "--op",       "to",
                          "--format",     "mx9",       "--dtype",    getenv("MX_TEST_DTYPE"),
                          "--shape",      "8x64,8x33", "--seconds",  "0.01",
                          "--limit",      "2",         "--compiler", "off",
                          "--file",       file,        "--json",     lines,
                          more,           NULL};
    cli_run_start(run, argv);
    ck_assert_msg(run->exit_code == 0, "%d: %s", run->exit_code, run->err);
}

/* The note and the samples of a variant in the file of JSON lines. */
static int look_up(const char *variant, const char *shape, char *note, size_t note_bytes)
{
    size_t bytes;
    int samples = -1;
    char *text = cli_temp_read(lines, &bytes), *rest = text;
    for (char *line; (line = strsep(&rest, "\n")) && *line;) {
        json_t *row = json_loads(line, 0, NULL);
        ck_assert_ptr_nonnull(row);
        if (!strcmp(json_string_value(json_object_get(row, "variant")), variant) &&
            !strcmp(json_string_value(json_object_get(row, "shape")), shape)) {
            samples = (int)json_integer_value(json_object_get(row, "samples"));
            snprintf(note, note_bytes, "%s", json_string_value(json_object_get(row, "note")));
        }
        json_decref(row);
    }
    free(text);
    return samples;
}

static void check_refused(const cli_run *run, const char *variant, const char *why)
{
    char note[200] = "", named[64];
    ck_assert_int_eq(look_up(variant, "8x64", note, sizeof(note)), 0);
    ck_assert_msg(strstr(note, why) != NULL, "%s: %s", variant, note);
    snprintf(named, sizeof(named), "mxrt: %s is not used: ", variant);
    ck_assert_msg(strstr(run->err, named) != NULL, "%s", run->err);
    ck_assert_int_eq(look_up(variant, "8x33", note, sizeof(note)), -1);
}

static mx_status count_row(void *user, const mxrt_tune_row *row, mx_error *err)
{
    int *n = user;
    (void)err;
    n[0] += row->samples > 0 && !row->note[0];
    n[1] += row->samples == 0 && row->note[0];
    n[2] += row->samples > 0 && row->note[0];
    return MX_OK;
}

/* Those measured, those refused, and those whose problem is not done. */
static void count_rows(int n[3])
{
    mxrt_tune_file *opened = NULL;
    n[0] = n[1] = n[2] = 0;
    ck_assert_int_eq(mxrt_tune_open(file, 0, &opened, &error), MX_OK);
    ck_assert_int_eq(mxrt_tune_each(opened, NULL, count_row, n, NULL, &error), MX_OK);
    mxrt_tune_close(opened);
}

START_TEST(bad_kernels)
{
    int first[3], second[3], third[3];
    char note[200];
    cli_run run;
    write_pack(0);
    tune(&run, "--quiet");
    check_refused(&run, "wrong", "wrong values: byte ");
    check_refused(&run, "fault", on_host() ? "crashed (" : "hip:0");
    if (on_host())
        check_refused(&run, "hang", "no answer in 2 s");
    cli_run_finish(&run);
    count_rows(first);
    ck_assert_int_ge(first[0], 3);
    ck_assert_int_eq(first[1], on_host() ? 3 : 2);
    ck_assert_int_eq(first[2], 0);
    /* All is known by now, what is refused and why as well. */
    tune(&run, "--quiet");
    check_refused(&run, "wrong", "wrong values: byte ");
    cli_run_finish(&run);
    count_rows(second);
    ck_assert_mem_eq(first, second, sizeof(first));
    /* Other code is measured again, alone. */
    write_pack(1);
    tune(&run, "--quiet");
    /* A simulated chip counts one run. */
    ck_assert_int_ge(look_up("wrong", "8x64", note, sizeof(note)), on_host() ? 3 : 1);
    ck_assert_str_eq(note, "");
    check_refused(&run, "fault", on_host() ? "crashed (" : "hip:0");
    cli_run_finish(&run);
    count_rows(third);
    ck_assert_int_eq(third[0], first[0] + 1);
    ck_assert_int_eq(third[1], first[1]);
}
END_TEST

/* Killed in the middle: what is there stays, and the next run makes an end of it. */
START_TEST(killed)
{
    int n[3] = {0, 0, 0}, status = 0;
    cli_run run;
    write_pack(1);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        execl(getenv("MXRT"), "mxrt", "tune", "--quiet", "--device", getenv("MX_TEST_DEVICE"),
              "--pack", pack, "--op", "to", "--format", "mx9", "--dtype", getenv("MX_TEST_DTYPE"),
              "--shape", "8x33", "--seconds", "16", "--compiler", "off", "--file", file, NULL);
        _exit(127);
    }
    for (int i = 0; i < 1500 && !n[2]; i++) {
        mxrt_tune_file *opened = NULL;
        usleep(20000);
        if (mxrt_tune_open(file, 0, &opened, &error) == MX_OK) /* it may not be made yet */
            ck_assert_int_eq(mxrt_tune_each(opened, NULL, count_row, n, NULL, &error), MX_OK);
        mxrt_tune_close(opened);
    }
    ck_assert_int_gt(n[2], 0);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    usleep(100000); /* its child goes with it */
    count_rows(n);
    ck_assert_int_eq(n[0], 0);
    tune(&run, "--quiet");
    cli_run_finish(&run);
    count_rows(n);
    ck_assert_int_ge(n[0], 3);
    ck_assert_int_eq(n[2], 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mxrt_tune");
    TCase *tcase = tcase_create("tune");
    if (!getenv("MX_TEST_DEVICE"))
        return 77;
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, bad_kernels);
    if (on_host())
        tcase_add_test(tcase, killed);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
