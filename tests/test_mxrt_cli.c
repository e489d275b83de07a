/* The mxrt command line on files: the bytes it writes against the C reference, streaming in small
 * pieces, and everything that can be wrong with input, output and arguments. */
#include <check.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mxrt_run.h"
#include "runtime/reference.h"

static void reference(mx_op op, mx_format format, int axis, const mx_case_tensor *in,
                      const mx_case_tensor *out)
{
    mx_error err;
    mxrt_plan_request request = {
        .op = op, .format = format, .axis = axis, .in = &in->tensor, .out = &out->tensor};
    ck_assert_msg(mxrt_reference_run(&request, &err) == MX_OK, "%s", err.message);
}

/* One tensor of `in`: in `packed` it is what the reference makes of it, in `restored` what the
 * reference makes of that. */
static void expect_packed(const sample *s, mx_format format, int axis, const st_reader *in,
                          const st_reader *packed, const st_reader *restored)
{
    const DLDevice cpu = {kDLCPU, 0};
    const st_tensor *x, *p, *y;
    mx_dtype dtype = MX_DTYPE_F32;
    mx_case_tensor x_dl, p_dl, y_dl;
    void *x_data = read_tensor(in, s->name, &x), *p_data = read_tensor(packed, s->name, &p);
    void *y_data = read_tensor(restored, s->name, &y);
    to_mx_dtype(s->dtype, &dtype);
    ck_assert_int_eq(p->dtype, ST_U8);
    ck_assert_uint_eq(p->ndim, 2);
    ck_assert_int_eq(p->shape[1], mx_format_get(format)->block_bytes);
    ck_assert_int_eq(y->dtype, s->dtype);
    ck_assert_uint_eq(y->ndim, s->ndim);
    ck_assert_mem_eq(y->shape, s->shape, s->ndim * sizeof(int64_t));
    void *p_want = calloc(1, (size_t)p->size_bytes), *y_want = calloc(1, (size_t)y->size_bytes);
    DLDataType u8 = {kDLUInt, 8, 1};
    mx_case_contiguous(mx_case_dl_type(dtype), cpu, (int)s->ndim, s->shape, x_data, &x_dl);
    mx_case_contiguous(u8, cpu, 2, p->shape, p_want, &p_dl);
    mx_case_contiguous(mx_case_dl_type(dtype), cpu, (int)s->ndim, s->shape, y_want, &y_dl);
    reference(MX_OP_TO, format, axis, &x_dl, &p_dl);
    reference(MX_OP_FROM, format, axis, &p_dl, &y_dl);
    ck_assert_msg(!memcmp(p_data, p_want, (size_t)p->size_bytes), "%s: packed bytes", s->name);
    ck_assert_msg(!memcmp(y_data, y_want, (size_t)y->size_bytes), "%s: restored bytes", s->name);
    free(x_data);
    free(p_data);
    free(y_data);
    free(p_want);
    free(y_want);
}

static void expect_copied(const sample *s, const st_reader *in, const st_reader *out)
{
    const st_tensor *x, *y;
    void *x_data = read_tensor(in, s->name, &x), *y_data = read_tensor(out, s->name, &y);
    ck_assert_int_eq(x->dtype, y->dtype);
    ck_assert_uint_eq(x->ndim, y->ndim);
    ck_assert_int_eq(x->size_bytes, y->size_bytes);
    ck_assert_msg(!memcmp(x_data, y_data, (size_t)x->size_bytes), "%s is not the same", s->name);
    free(x_data);
    free(y_data);
}

static void check_round_trip(mx_format format, int axis)
{
    char text[200], key[64];
    snprintf(text, sizeof(text), "quantize @in -o @packed --format %s --axis %d",
             mx_format_get(format)->name, axis);
    mxrt_ok(text);
    mxrt_ok("dequantize @packed -o @restored");
    st_reader *in = open_reader("in"), *packed = open_reader("packed");
    st_reader *restored = open_reader("restored");
    ck_assert_str_eq(st_reader_metadata_find(packed, "origin"), "a test");
    ck_assert_str_eq(st_reader_metadata_find(restored, "origin"), "a test");
    ck_assert_uint_eq(st_reader_metadata_count(restored), 1);
    for (size_t i = 0; i < N_SAMPLES; i++) {
        snprintf(key, sizeof(key), "mxgen.%s", samples[i].name);
        if (is_packed_by_default(&samples[i])) {
            expect_packed(&samples[i], format, axis, in, packed, restored);
            ck_assert_ptr_nonnull(st_reader_metadata_find(packed, key));
        } else {
            expect_copied(&samples[i], in, packed);
            expect_copied(&samples[i], in, restored);
            ck_assert_ptr_null(st_reader_metadata_find(packed, key));
        }
    }
    st_reader_close(in);
    st_reader_close(packed);
    st_reader_close(restored);
}

START_TEST(round_trip)
{
    write_samples("in");
    for (int format = 0; format < MX_FORMAT_PACKED_COUNT; format++) {
        check_round_trip((mx_format)format, -1);
        check_round_trip((mx_format)format, 0);
        check_round_trip((mx_format)format, -2);
    }
}
END_TEST

/* However little memory it may use, the file is the same. */
START_TEST(streaming)
{
    static const int axes[] = {0, 1, -2, -1};
    static const char *const budgets[] = {"4096", "10K", "1M"};
    char text[200];
    write_samples("in");
    for (size_t a = 0; a < 4; a++) {
        snprintf(text, sizeof(text), "quantize @in -o @whole -f mx6 --axis %d", axes[a]);
        mxrt_ok(text);
        mxrt_ok("dequantize @whole -o @back");
        for (size_t b = 0; b < 3; b++) {
            snprintf(text, sizeof(text), "quantize @in -o @pieces -f mx6 --axis %d --max-memory %s",
                     axes[a], budgets[b]);
            mxrt_ok(text);
            expect_same_files("whole", "pieces");
            snprintf(text, sizeof(text), "dequantize @whole -o @pieces --max-memory %s",
                     budgets[b]);
            mxrt_ok(text);
            expect_same_files("back", "pieces");
        }
    }
}
END_TEST

START_TEST(metadata_values)
{
    json_error_t why;
    write_samples("in");
    mxrt_ok("quantize @in -o @packed -f mx9 --axis -2");
    st_reader *packed = open_reader("packed");
    json_t *value = json_loads(st_reader_metadata_find(packed, "mxgen.cube.bf16"),
                               JSON_REJECT_DUPLICATES, &why);
    json_t *want = json_pack("{s:s, s:[i,i,i], s:i, s:s, s:s, s:i}", "format", "mx9", "shape", 5,
                             35, 33, "axis", 1, "dtype", "bf16", "profile", "packed", "version", 1);
    ck_assert(json_equal(value, want));
    json_decref(value);
    json_decref(want);
    st_reader_close(packed);
}
END_TEST

START_TEST(selection)
{
    write_samples("in");
    mxrt_ok("quantize @in -o @a -f mx9 --include ^(wide|bias)");
    mxrt_ok("quantize @a -o @b -f mx6 --exclude ^(tall|bias)");
    st_reader *b = open_reader("b");
    ck_assert_ptr_nonnull(strstr(st_reader_metadata_find(b, "mxgen.wide.f32"), "mx9"));
    ck_assert_ptr_nonnull(strstr(st_reader_metadata_find(b, "mxgen.bias.f32"), "mx9"));
    ck_assert_ptr_nonnull(strstr(st_reader_metadata_find(b, "mxgen.cube.bf16"), "mx6"));
    ck_assert_ptr_null(st_reader_metadata_find(b, "mxgen.tall.f16"));
    st_reader_close(b);
    /* Part of it back, then the rest; in place. */
    mxrt_ok("dequantize @b -o @b --include wide");
    b = open_reader("b");
    ck_assert_ptr_null(st_reader_metadata_find(b, "mxgen.wide.f32"));
    ck_assert_int_eq(st_reader_find(b, "wide.f32")->dtype, ST_F32);
    ck_assert_ptr_nonnull(st_reader_metadata_find(b, "mxgen.bias.f32"));
    st_reader_close(b);
    mxrt_ok("dequantize @b -o @b");
    b = open_reader("b");
    for (size_t i = 0; i < N_SAMPLES; i++)
        ck_assert_int_eq(st_reader_find(b, samples[i].name)->dtype, samples[i].dtype);
    st_reader_close(b);
    ck_assert_int_eq(count_files(), 3);
}
END_TEST

START_TEST(counts)
{
    mxrt_ok("make-model @in --size small");
    json_t *root = mxrt_json("quantize @in -o @out -f mx9 --json");
    size_t i, n_marred = 0;
    json_t *item;
    json_int_t before = 0, after = 0;
    json_array_foreach(json_object_get(root, "tensors"), i, item)
    {
        json_int_t nan = json_integer_value(json_object_get(item, "nan"));
        json_int_t inf = json_integer_value(json_object_get(item, "inf"));
        int marred = strstr(json_string_value(json_object_get(item, "name")), "marred") != NULL;
        n_marred += (size_t)marred;
        ck_assert_int_eq(nan, marred);
        ck_assert_int_eq(inf, marred);
        before += json_integer_value(json_object_get(item, "bytes_before"));
        after += json_integer_value(json_object_get(item, "bytes_after"));
    }
    ck_assert_uint_eq(n_marred, 1);
    ck_assert_int_eq(json_integer_value(json_object_get(root, "bytes_before")), before);
    ck_assert_int_eq(json_integer_value(json_object_get(root, "bytes_after")), after);
    json_decref(root);
}
END_TEST

START_TEST(model_is_deterministic)
{
    mxrt_ok("make-model @a --size small");
    mxrt_ok("make-model -o @b --size small --seed 1");
    mxrt_ok("make-model @c --size small --seed 2");
    expect_same_files("a", "b");
    size_t a_bytes, c_bytes;
    char *a_path = path_of("a"), *c_path = path_of("c");
    char *a = cli_temp_read(a_path, &a_bytes), *c = cli_temp_read(c_path, &c_bytes);
    ck_assert_uint_eq(a_bytes, c_bytes);
    ck_assert(memcmp(a, c, a_bytes) != 0);
    free(a);
    free(c);
    free(a_path);
    free(c_path);
}
END_TEST

/* ---- Reports ---- */

START_TEST(report_lines)
{
    cli_run run;
    json_error_t why;
    int n = 0, totals = 0;
    mxrt_ok("make-model @in --size small");
    mxrt(&run, "report @in --json --seconds 0 --max-memory 64K --format mx9,mx4");
    ck_assert_msg(run.exit_code == 0, "%s", run.err);
    char *rest = run.out;
    for (char *line; (line = strsep(&rest, "\n")) && *line; n++) {
        json_t *json = json_loads(line, JSON_REJECT_DUPLICATES, &why);
        ck_assert_msg(json != NULL, "%s: %s", why.text, line);
        int is_mx9 = !strcmp(json_string_value(json_object_get(json, "format")), "mx9");
        double snr = json_number_value(json_object_get(json, "snr_db"));
        ck_assert_msg(is_mx9 ? snr > 40 && snr < 60 : snr > 10 && snr < 30, "%s", line);
        ck_assert_double_gt(json_number_value(json_object_get(json, "to_share")), 0);
        ck_assert_double_gt(json_number_value(json_object_get(json, "from_gbps")), 0);
        totals += json_is_null(json_object_get(json, "tensor"));
        json_decref(json);
    }
    ck_assert_int_eq(totals, 2);
    ck_assert_int_gt(n, 10);
    cli_run_finish(&run);
    mxrt(&run, "report @in --seconds 0 --axis 0");
    ck_assert_int_eq(run.exit_code, 0);
    ck_assert_ptr_nonnull(strstr(run.out, "SNR"));
    ck_assert_ptr_nonnull(strstr(run.out, "total"));
    ck_assert_str_eq(run.err, "");
    cli_run_finish(&run);
}
END_TEST

/* Without a pack nothing applies; what files hold is looked after all the same. */
START_TEST(tuning_files)
{
    char file[300], json[300], command[1000];
    char *folder = cli_temp_create();
    cli_run run;
    snprintf(file, sizeof(file), "%s/t.mxtune", folder);
    snprintf(json, sizeof(json), "%s/rows.json", folder);
    snprintf(command, sizeof(command), "tune --file %s --shape 4x32 --op to -q", file);
    mxrt_fails(command, 1, "nothing was measured");
    mxrt_fails("tune --shard 3/2", 2, "shard");
    mxrt_fails("tune --shapes /nowhere", 2, "nowhere");
    mxrt_fails("cache", 2, "which action");
    mxrt_fails("cache frobnicate", 1, "frobnicate");
    mxrt_fails("cache list /nowhere/t", 1, "/nowhere/t");
    mxrt_fails("cache merge", 1, "needs files");
    FILE *out = fopen(json, "w");
    ck_assert_ptr_nonnull(out);
    fputs("{\"op\":\"to\",\"format\":\"mx9\",\"dtype\":\"f32\",\"profile\":\"packed\","
          "\"bucket\":\"n1 l1 a16 r0 d1\",\"device\":\"d/1\",\"driver\":\"\",\"variant\":\"v\","
          "\"code\":\"c\",\"protocol\":1,\"layout\":\"flat\",\"shape\":\"1\",\"bytes\":1,"
          "\"samples\":1,\"time_s\":1,\"note\":\"\",\"ms\":1.5,\"spread\":0.1}\n{\"op\":1}\nx\n",
          out);
    fclose(out);
    snprintf(command, sizeof(command), "cache import %s -o %s", json, file);
    mxrt(&run, command);
    ck_assert_msg(run.exit_code == 0, "%s", run.err);
    ck_assert_str_eq(run.out, "3 rows: 1 added, 0 replaced, 0 kept, 0 stale, 2 refused\n");
    cli_run_finish(&run);
    snprintf(command, sizeof(command), "cache merge %s %s -o %s.2", file, file, file);
    mxrt(&run, command);
    ck_assert_str_eq(run.out, "2 rows: 1 added, 0 replaced, 1 kept, 0 stale, 0 refused\n");
    cli_run_finish(&run);
    snprintf(command, sizeof(command), "cache show %s.2", file);
    json_t *row = mxrt_json(command);
    ck_assert_double_eq(json_real_value(json_object_get(row, "ms")), 1.5);
    json_decref(row);
    /* Of older code, and of a protocol that is no more. */
    out = fopen(json, "w");
    ck_assert_ptr_nonnull(out);
    for (int i = 0; i < 2; i++)
        fprintf(
            out,
            "{\"op\":\"to\",\"format\":\"mx9\",\"dtype\":\"f32\",\"profile\":\"packed\","
            "\"bucket\":\"n1 l1 a16 r0 d1\",\"device\":\"d/1\",\"driver\":\"\",\"variant\":\"v\","
            "\"code\":\"b\",\"protocol\":%d,\"layout\":\"flat\",\"shape\":\"1\",\"bytes\":1,"
            "\"samples\":9,\"time_s\":0,\"note\":\"\",\"ms\":1,\"spread\":0.1}\n",
            i ? 77 : 1);
    fclose(out);
    snprintf(command, sizeof(command), "cache import %s -o %s", json, file);
    mxrt(&run, command);
    ck_assert_str_eq(run.out, "2 rows: 0 added, 0 replaced, 0 kept, 2 stale, 0 refused\n");
    cli_run_finish(&run);
    snprintf(command, sizeof(command), "cache prune %s", file);
    mxrt_fails(command, 1, "none is given");
    snprintf(command, sizeof(command), "cache prune --op to %s", file);
    mxrt(&run, command);
    ck_assert_str_eq(run.out, "1 rows removed\n");
    cli_run_finish(&run);
    cli_temp_destroy(folder);
}
END_TEST

/* Products: the error is that of the rounding, the rest is there. */
START_TEST(bench_products)
{
    static const char *const passes[] = {"fprop", "dgrad", "wgrad"};
    for (int i = 0; i < 3; i++) {
        char command[256];
        snprintf(command, sizeof(command),
                 "bench --op grouped_gemm --json --seconds 0 --pass %s --format mxfp8e5m2.mxfp4 "
                 "--shape 3x5-40x64x96 --values %s",
                 passes[i], i ? "opposed" : "positive");
        json_t *line = mxrt_json(command);
        ck_assert_str_eq(json_string_value(json_object_get(line, "op")), "grouped_gemm");
        ck_assert_str_eq(json_string_value(json_object_get(line, "pass")), passes[i]);
        ck_assert_str_eq(json_string_value(json_object_get(line, "shape")), "3x5-40x64x96");
        ck_assert_str_eq(json_string_value(json_object_get(line, "variant")), "reference");
        ck_assert(json_real_value(json_object_get(line, "flops")) == 2.0 * (5 + 22 + 40) * 64 * 96);
        double error = json_real_value(json_object_get(line, "error"));
        ck_assert_msg(error > 1e-4 && error < 2e-3, "%s: error %g", passes[i], error);
        ck_assert(json_real_value(json_object_get(line, "tflops")) > 0);
        ck_assert_int_eq(json_integer_value(json_object_get(line, "status")), 0);
        json_decref(line);
    }
}
END_TEST

START_TEST(bench_lines)
{
    static const char *const keys[] = {"op",    "format", "dtype",        "shape",
                                       "axis",  "device", "variant",      "ms",
                                       "bytes", "gbps",   "ceiling_gbps", "share"};
    cli_run run;
    int n = 0;
    json_error_t why;
    mxrt(&run, "bench --json --seconds 0 -f mx9 --shape 64x80,7x33 --axis 0 --op to,from,qdq");
    ck_assert_msg(run.exit_code == 0, "%s", run.err);
    char *rest = run.out;
    for (char *line; (line = strsep(&rest, "\n")) && *line; n++) {
        json_t *json = json_loads(line, JSON_REJECT_DUPLICATES, &why);
        ck_assert_msg(json != NULL, "%s: %s", why.text, line);
        for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
            ck_assert_msg(json_object_get(json, keys[k]) != NULL, "no %s: %s", keys[k], line);
        ck_assert_str_eq(json_string_value(json_object_get(json, "variant")), "reference");
        double gbps = json_number_value(json_object_get(json, "gbps"));
        double ms = json_number_value(json_object_get(json, "ms"));
        double bytes = json_number_value(json_object_get(json, "bytes"));
        ck_assert_double_eq_tol(gbps, 1e-6 * bytes / ms, 1e-3 * gbps);
        json_decref(json);
    }
    ck_assert_int_eq(n, 2 * 3 * 2);
    cli_run_finish(&run);
    json_t *one = mxrt_json("bench --json --seconds 0 --shape 4x32 --op to -f mx9 --dtype f32");
    ck_assert_int_eq(json_integer_value(json_object_get(one, "bytes")), 4 * 32 * 4 + 8 * 18);
    json_decref(one);
    /* Memory that is not contiguous: what must move stays the same. */
    one =
        mxrt_json("bench --json --seconds 0 --shape 4x32 --op from -f mx9 --dtype bf16 --offset 3 "
                  "--transposed --packed-gap 2 --packed-stride 2");
    ck_assert_int_eq(json_integer_value(json_object_get(one, "bytes")), 4 * 32 * 2 + 8 * 18);
    ck_assert_int_eq(json_integer_value(json_object_get(one, "offset")), 3);
    ck_assert(json_is_true(json_object_get(one, "transposed")));
    ck_assert_int_eq(json_integer_value(json_object_get(one, "packed_gap")), 2);
    ck_assert_int_eq(json_integer_value(json_object_get(one, "packed_stride")), 2);
    json_decref(one);
    mxrt_fails("bench --seconds 0 --shape 4x32 --variant nobody", 1, "nobody");
    mxrt_fails("bench --seconds 0 --shape 4x32 --axis 2", 1, "axis");
}
END_TEST

START_TEST(devices)
{
    json_t *host = mxrt_json("devices --json");
    ck_assert_str_eq(json_string_value(json_object_get(host, "device")), "host");
    ck_assert_int_gt(json_integer_value(json_object_get(host, "compute_units")), 0);
    json_decref(host);
}
END_TEST

/* ---- Bad input ---- */

START_TEST(usage_errors)
{
    mxrt_ok("make-model @in --size small");
    mxrt_fails("", 2, "unknown");
    mxrt_fails("pack", 2, "pack");
    mxrt_fails("--nothing", 2, "nothing");
    mxrt_fails("quantize", 2, "IN");
    mxrt_fails("quantize @in", 2, "-o");
    mxrt_fails("quantize @in -o @out", 2, "--format");
    mxrt_fails("quantize @in -o @out -f mx7", 2, "mx7");
    mxrt_fails("quantize @in -o @out -f mx9 --axis one", 2, "one");
    mxrt_fails("quantize @in -o @out -f mx9 --axis 99999999999", 2, "99999999999");
    mxrt_fails("quantize @in @in -o @out -f mx9", 2, "more than one");
    mxrt_fails("quantize @in -o @out -f mx9 --include (", 2, "--include");
    mxrt_fails("quantize @in -o @out -f mx9 --exclude a{2,1}", 2, "--exclude");
    mxrt_fails("quantize @in -o @out -f mx9 --max-memory 100", 2, "4096");
    mxrt_fails("quantize @in -o @out -f mx9 --max-memory 9999999999T", 2, "--max-memory");
    mxrt_fails("quantize @in -o @out -f mx9 --max-memory 5X", 2, "--max-memory");
    mxrt_fails("dequantize @in", 2, "-o");
    mxrt_fails("bench --op grouped_gemm,to", 2, "grouped_gemm");
    mxrt_fails("bench --op grouped_gemm --shape 2x4x32", 2, "2x4x32");
    mxrt_fails("bench --op=grouped_gemm --shape 2x4x33x64", 2, "multiples of 32");
    mxrt_fails("bench --op=grouped_gemm --format mxfp4", 2, "LEFT.RIGHT");
    mxrt_fails("bench --op=grouped_gemm --pass forward", 2, "forward");
    mxrt_fails("bench --op grouped_gemm --shape 1x1x32x32 --variant nobody", 1, "nobody");
    mxrt_fails("bench --op pack", 2, "pack");
    mxrt_fails("bench --dtype f64", 2, "f64");
    mxrt_fails("bench --shape 0x4", 2, "0x4");
    mxrt_fails("bench --shape 4x", 2, "4x");
    mxrt_fails("bench --shape 1x1x1x1x1x1x1x1x1", 2, "dimensions");
    mxrt_fails("bench --seconds -1", 2, "seconds");
    mxrt_fails("bench --offset -1", 2, "offset");
    mxrt_fails("bench --packed-stride 0", 2, "packed-stride");
    mxrt_fails("report", 2, "IN");
    mxrt_fails("make-model", 2, "OUT");
    mxrt_fails("make-model @m --size huge", 2, "huge");
    mxrt_fails("devices here", 2, "here");
}
END_TEST

START_TEST(input_errors)
{
    char *path = path_of("bad");
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    fputs("\x10\0\0\0\0\0\0\0{\"a\"", f);
    fclose(f);
    free(path);
    mxrt_ok("make-model @in --size small");
    mxrt_fails("quantize @none -o @out -f mx9", 1, "none");
    mxrt_fails("dequantize @none -o @out", 1, "none");
    mxrt_fails("report @none", 1, "none");
    mxrt_fails("quantize /tmp -o @out -f mx9", 1, "/tmp");
    mxrt_fails("quantize /dev/zero -o @out -f mx9", 1, "/dev/zero");
    mxrt_fails("quantize @bad -o @out -f mx9", 1, "bad");
    mxrt_fails("dequantize @bad -o @out", 1, "bad");
    mxrt_fails("quantize @in -o @out -f mx9 --axis 2", 1, "axis 2");
    mxrt_fails("quantize @in -o @out -f mx9 --axis -3", 1, "axis -3");
    mxrt_fails("quantize @in -o @out -f mx9 --device nowhere:0", 1, "nowhere");
    mxrt_fails("quantize @in -o @out -f mx9 --device plan:gfx942", 1, "plan");
    mxrt_fails("quantize @in -o @out -f mx9 --pack @none", 1, "none");
    mxrt_fails("quantize @in -o @out -f mx9 --pack @bad", 1, "bad");
    mxrt_fails("report @in --include nobody", 1, "no floating tensor");
}
END_TEST

START_TEST(output_errors)
{
    struct rlimit before, limit;
    mxrt_ok("make-model @in --size small");
    mxrt_fails("quantize @in -o /nowhere/out -f mx9", 1, "/nowhere/out");
    mxrt_fails("quantize @in -o /tmp -f mx9", 1, "directory");
    mxrt_fails("quantize @in -o /dev/full -f mx9", 1, "/dev/full");
    mxrt_fails("quantize @in -o @in/out -f mx9", 1, "in/out");
    mxrt_fails("make-model /nowhere/out --size small", 1, "/nowhere/out");
    /* A limit on sizes stands for a full disk. */
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = 20000;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    mxrt_fails("quantize @in -o @out -f mx9", 1, "out");
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    /* Nobody reads the report. */
    static char script[] = "exec \"$MXRT\" devices > /dev/full";
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    cli_run run;
    cli_run_start(&run, argv);
    ck_assert_int_eq(run.exit_code, 1);
    ck_assert_ptr_nonnull(strstr(run.err, "standard output"));
    cli_run_finish(&run);
}
END_TEST

/* A packed tensor of 2 x 32 in MX9, with metadata as given. */
static void write_packed(const char *tensor, const char *key, const char *value, int64_t n_blocks,
                         int64_t block_bytes)
{
    const int64_t shape[] = {n_blocks, block_bytes};
    st_writer *writer = NULL;
    char *path = path_of("packed");
    size_t index;
    mx_error err;
    char *zeros = calloc(1, (size_t)(n_blocks * block_bytes) + 1);
    ck_assert_int_eq(st_writer_create(path, &writer, &err), MX_OK);
    ck_assert_int_eq(st_writer_metadata(writer, key, value, &err), MX_OK);
    ck_assert_int_eq(st_writer_declare(writer, tensor, ST_U8, 2, shape, &index, &err), MX_OK);
    ck_assert_int_eq(st_writer_begin(writer, &err), MX_OK);
    ck_assert_int_eq(
        st_writer_write(writer, index, 0, zeros, (size_t)(n_blocks * block_bytes), &err), MX_OK);
    ck_assert_int_eq(st_writer_commit(writer, &err), MX_OK);
    st_writer_destroy(writer);
    free(zeros);
    free(path);
}

#define META(format, shape, axis, dtype, profile, version)                                         \
    "{\"format\":\"" format "\",\"shape\":" shape ",\"axis\":" axis ",\"dtype\":\"" dtype          \
    "\",\"profile\":\"" profile "\",\"version\":" version "}"

START_TEST(damaged_metadata)
{
    static const struct {
        const char *value, *word;
    } cases[] = {
        {"", "JSON"},
        {"[]", "JSON"},
        {"{", "JSON"},
        {"{\"version\":1,\"version\":1}", "duplicate"},
        {"{}", "version"},
        {META("mx9", "[2,32]", "1", "f32", "packed", "0"), "version"},
        {META("mx9", "[2,32]", "1", "f32", "packed", "\"1\""), "version"},
        {META("mx9", "[2,32]", "1", "f32", "packed", "2"), "newer"},
        {META("mx7", "[2,32]", "1", "f32", "packed", "1"), "mx7"},
        {META("mx6", "[2,32]", "1", "f32", "packed", "1"), "U8 [4, 12]"},
        {META("mx9", "[2,33]", "1", "f32", "packed", "1"), "U8 [6, 18]"},
        {META("mx9", "[2,32]", "0", "f32", "packed", "1"), "U8 [32, 18]"},
        {META("mx9", "[2,0]", "1", "f32", "packed", "1"), "dimension 1"},
        {META("mx9", "[2,-32]", "1", "f32", "packed", "1"), "dimension 1"},
        {META("mx9", "[2,32.0]", "1", "f32", "packed", "1"), "dimension 1"},
        {META("mx9", "[4294967296,4294967296]", "1", "f32", "packed", "1"), "overflows"},
        {META("mx9", "[]", "0", "f32", "packed", "1"), "shape"},
        {META("mx9", "64", "0", "f32", "packed", "1"), "shape"},
        {META("mx9", "[2,32]", "2", "f32", "packed", "1"), "axis"},
        {META("mx9", "[2,32]", "-1", "f32", "packed", "1"), "axis"},
        {META("mx9", "[2,32]", "1", "f64", "packed", "1"), "f64"},
        {META("mx9", "[2,32]", "1", "f32", "demoted-255", "1"), "demoted-255"},
    };
    write_packed("t", "mxgen.t", META("mx9", "[2,32]", "1", "f32", "packed", "1"), 4, 18);
    mxrt_ok("dequantize @packed -o @good");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        write_packed("t", "mxgen.t", cases[i].value, 4, 18);
        mxrt_fails("dequantize @packed -o @out", 1, cases[i].word);
    }
    write_packed("t", "mxgen.u", META("mx9", "[2,32]", "1", "f32", "packed", "1"), 4, 18);
    mxrt_fails("dequantize @packed -o @out", 1, "\"u\"");
    /* A plain tensor that says it is packed. */
    static const int64_t shape[] = {1, 1};
    st_writer *writer = NULL;
    size_t index;
    char *path = path_of("odd");
    ck_assert_int_eq(st_writer_create(path, &writer, NULL), MX_OK);
    ck_assert_int_eq(st_writer_metadata(writer, "mxgen.t", "{}", NULL), MX_OK);
    ck_assert_int_eq(st_writer_declare(writer, "t", ST_F32, 2, shape, &index, NULL), MX_OK);
    ck_assert_int_eq(st_writer_begin(writer, NULL), MX_OK);
    ck_assert_int_eq(st_writer_write(writer, index, 0, "\0\0\0\0", 4, NULL), MX_OK);
    ck_assert_int_eq(st_writer_commit(writer, NULL), MX_OK);
    st_writer_destroy(writer);
    free(path);
    mxrt_fails("quantize @odd -o @out -f mx9", 1, "metadata");
}
END_TEST

/* ---- Terminals and signals ---- */

/* Starts mxrt with its standard error on `fd_err`; returns its process. */
static pid_t start(const char *text, int fd_err)
{
    words w;
    words_init(&w, text);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        int nothing = open("/dev/null", O_WRONLY);
        dup2(nothing, STDOUT_FILENO);
        if (fd_err >= 0)
            dup2(fd_err, STDERR_FILENO);
        /* Whoever started the tests may have them ignored, which is inherited. */
        signal(SIGINT, SIG_DFL);
        signal(SIGHUP, SIG_DFL);
        execv(w.argv[0], (char *const *)w.argv);
        _exit(127);
    }
    words_finish(&w);
    return child;
}

/* What mxrt, started with `command`, shows on a terminal. A terminal passes on what was written
 * some time later, in pieces: it is read until there is nothing for a while. */
static size_t on_terminal(const char *command, char *text, size_t text_bytes)
{
    enum { PATIENCE_MS = 300 };
    int primary, secondary, status = 0;
    size_t used = 0;
    ck_assert_int_eq(openpty(&primary, &secondary, NULL, NULL, NULL), 0);
    pid_t child = start(command, secondary);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    struct pollfd ready = {.fd = primary, .events = POLLIN};
    while (used + 1 < text_bytes && poll(&ready, 1, PATIENCE_MS) == 1) {
        ssize_t n = read(primary, text + used, text_bytes - 1 - used);
        if (n <= 0)
            break;
        used += (size_t)n;
    }
    text[used] = 0;
    close(primary);
    close(secondary);
    return used;
}

/* The bar is for terminals: mxrt_ok has checked that nothing goes to other places. */
START_TEST(progress_bar)
{
    char text[4096];
    write_samples("in");
    ck_assert_uint_gt(on_terminal("quantize @in -o @out -f mx9", text, sizeof(text)), 0);
    ck_assert_ptr_nonnull(strstr(text, "%"));
    ck_assert_ptr_nonnull(strstr(text, "\r"));
    size_t quiet = on_terminal("quantize @in -o @out -f mx9 --quiet", text, sizeof(text));
    ck_assert_uint_eq(quiet, 0);
}
END_TEST

static void write_large(void)
{
    static const int64_t shape[] = {4000, 8000};
    st_writer *writer = NULL;
    size_t index;
    char *path = path_of("in");
    char *row = calloc(8000, 4);
    ck_assert_int_eq(st_writer_create(path, &writer, NULL), MX_OK);
    ck_assert_int_eq(st_writer_declare(writer, "t", ST_F32, 2, shape, &index, NULL), MX_OK);
    ck_assert_int_eq(st_writer_begin(writer, NULL), MX_OK);
    for (int i = 0; i < 4000; i++)
        ck_assert_int_eq(st_writer_write(writer, index, 32000 * i, row, 32000, NULL), MX_OK);
    ck_assert_int_eq(st_writer_commit(writer, NULL), MX_OK);
    st_writer_destroy(writer);
    free(row);
    free(path);
}

/* Whether a process has a file of the test's folder open for writing: 2 if it has no name. */
static int is_writing(pid_t child)
{
    char name[64], target[512];
    char *out = path_of("");
    int found = 0;
    for (int fd = 3; fd < 64 && !found; fd++) {
        snprintf(name, sizeof(name), "/proc/%d/fd/%d", (int)child, fd);
        ssize_t n = readlink(name, target, sizeof(target) - 1);
        struct stat st;
        if (n < 0 || lstat(name, &st) || !(st.st_mode & S_IWUSR))
            continue;
        target[n] = 0;
        if (!strncmp(target, out, strlen(out)))
            found = strstr(target, "(deleted)") ? 2 : 1;
    }
    free(out);
    return found;
}

/* A large tensor in tiny pieces takes long enough to be interrupted in the middle. What has no name
 * leaves nothing even when the process is killed. */
START_TEST(interrupted)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGKILL};
    write_large();
    for (size_t i = 0; i < 4; i++) {
        int status = 0, tries = 0, how;
        pid_t child = start("quantize @in -o @out -f mx9 --axis 0 --max-memory 4096", -1);
        while (!(how = is_writing(child)) && tries++ < 20000)
            usleep(1000);
        ck_assert_int_ne(how, 0); /* it is at work */
        usleep(20000);
        ck_assert_int_eq(kill(child, numbers[i]), 0);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == numbers[i]);
        ck_assert_int_eq(count_files(), 1 + (how == 1 && numbers[i] == SIGKILL));
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mxrt_cli");
    TCase *tcase = tcase_create("commands");
    tcase_add_checked_fixture(tcase, mxrt_run_setup, mxrt_run_teardown);
    tcase_add_test(tcase, round_trip);
    tcase_add_test(tcase, streaming);
    tcase_add_test(tcase, metadata_values);
    tcase_add_test(tcase, selection);
    tcase_add_test(tcase, counts);
    tcase_add_test(tcase, model_is_deterministic);
    tcase_add_test(tcase, report_lines);
    tcase_add_test(tcase, bench_lines);
    tcase_add_test(tcase, bench_products);
    tcase_add_test(tcase, tuning_files);
    tcase_add_test(tcase, devices);
    tcase_add_test(tcase, usage_errors);
    tcase_add_test(tcase, input_errors);
    tcase_add_test(tcase, output_errors);
    tcase_add_test(tcase, damaged_metadata);
    tcase_add_test(tcase, progress_bar);
    tcase_add_test(tcase, interrupted);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
