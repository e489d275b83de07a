/* mxrt on the OCP formats: what quantize, dequantize and qdq write against the C reference, files
 * of other makers, compare, and everything that can be wrong with such files. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "mxrt_run.h"
#include "runtime/reference.h"

enum { FIRST = MX_FORMAT_PACKED_COUNT, N_FORMATS = MX_FORMAT_COUNT - FIRST };

/* The name of a sample's scales. */
static const char *scales_of(const char *name)
{
    static char text[64];
    snprintf(text, sizeof(text), "%s_scale", name);
    return text;
}

static uint64_t hash_name(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return hash;
}

/* ---- The reference ---- */

typedef struct expected {
    unsigned char *data, *scales;
    void *restored;
    int64_t data_bytes, scale_bytes;
} expected;

static void run_reference(mx_op op, mx_format format, const mx_ocp_options *options, int axis,
                          const mx_case_tensor *in, const mx_case_tensor *out,
                          const mx_case_tensor *scales)
{
    mx_error err = {MX_OK, ""};
    mxrt_plan_request request = {.op = op,
                                 .format = format,
                                 .axis = axis,
                                 .in = &in->tensor,
                                 .out = &out->tensor,
                                 .scales = &scales->tensor,
                                 .options = options};
    ck_assert_msg(!mxrt_reference_run(&request, &err), "%s", err.message);
}

static expected expect(const sample *s, const void *x, mx_format format,
                       const mx_ocp_options *options, int axis)
{
    const DLDevice cpu = {kDLCPU, 0};
    const DLDataType u8 = {kDLUInt, 8, 1};
    mx_case_tensor x_dl, d_dl, s_dl, y_dl;
    int64_t data_shape[2], scales_shape[2], bytes;
    mx_dtype dtype = MX_DTYPE_F32;
    expected out;
    to_mx_dtype(s->dtype, &dtype);
    ck_assert(!mxrt_ocp_shape(format, options, (int)s->ndim, s->shape, axis, data_shape,
                              scales_shape, NULL));
    ck_assert(!st_tensor_bytes(s->dtype, s->ndim, s->shape, &bytes, NULL));
    out.data_bytes = data_shape[0] * data_shape[1];
    out.scale_bytes = scales_shape[0] * scales_shape[1];
    out.data = calloc(1, (size_t)out.data_bytes);
    out.scales = calloc(1, (size_t)out.scale_bytes);
    out.restored = calloc(1, (size_t)bytes);
    mx_case_contiguous(mx_case_dl_type(dtype), cpu, (int)s->ndim, s->shape, (void *)x, &x_dl);
    mx_case_contiguous(mx_case_dl_type(dtype), cpu, (int)s->ndim, s->shape, out.restored, &y_dl);
    mx_case_contiguous(u8, cpu, 2, data_shape, out.data, &d_dl);
    mx_case_contiguous(u8, cpu, 2, scales_shape, out.scales, &s_dl);
    run_reference(MX_OP_TO, format, options, axis, &x_dl, &d_dl, &s_dl);
    run_reference(MX_OP_FROM, format, options, axis, &d_dl, &y_dl, &s_dl);
    return out;
}

static void expected_finish(expected *e)
{
    free(e->data);
    free(e->scales);
    free(e->restored);
}

static const char *data_dtype(mx_format format)
{
    static const char *const names[N_FORMATS] = {"U8", "U8", "U8", "F8_E4M3", "F8_E5M2", "I8"};
    return names[format - FIRST];
}

/* The shape in the file: axis swapped, the last dimension `last`. */
static void expect_shape(const sample *s, int axis, int64_t last, int64_t divide_rows,
                         const st_tensor *tensor)
{
    int64_t shape[4];
    size_t at = (size_t)(axis < 0 ? axis + (int)s->ndim : axis);
    memcpy(shape, s->shape, sizeof(shape));
    shape[at] = shape[s->ndim - 1];
    shape[s->ndim - 1] = last;
    if (divide_rows > 1)
        shape[s->ndim - 2] = (shape[s->ndim - 2] + divide_rows - 1) / divide_rows;
    ck_assert_uint_eq(tensor->ndim, s->ndim);
    ck_assert_mem_eq(tensor->shape, shape, s->ndim * sizeof(shape[0]));
}

/* Files "in", "packed", "restored" and "rounded" of one quantisation. */
static void expect_files(mx_format format, const mx_ocp_options *preset, int axis, int64_t seed)
{
    st_reader *in = open_reader("in"), *packed = open_reader("packed");
    st_reader *restored = open_reader("restored"), *rounded = open_reader("rounded");
    ck_assert_uint_eq(st_reader_count(restored), N_SAMPLES);
    ck_assert_uint_eq(st_reader_count(packed), N_SAMPLES + 7);
    for (size_t i = 0; i < N_SAMPLES; i++) {
        const sample *s = &samples[i];
        const st_tensor *d, *c, *x_tensor;
        void *x = read_tensor(in, s->name, &x_tensor), *y = read_tensor(restored, s->name, NULL);
        void *z = read_tensor(rounded, s->name, NULL);
        if (!is_packed_by_default(s)) {
            ck_assert_mem_eq(x, y, (size_t)x_tensor->size_bytes);
            free(x), free(y), free(z);
            continue;
        }
        mx_ocp_options options = *preset;
        options.seed = (uint64_t)seed + hash_name(s->name);
        void *data = read_tensor(packed, s->name, &d);
        void *scales = read_tensor(packed, scales_of(s->name), &c);
        expected want = expect(s, x, format, &options, axis);
        int64_t len = s->shape[axis < 0 ? axis + (int)s->ndim : axis], bpr = (len + 31) / 32;
        ck_assert_str_eq(st_dtype_name(d->dtype), data_dtype(format));
        ck_assert_int_eq(c->dtype, ST_U8);
        expect_shape(s, axis, bpr * mx_format_get(format)->block_bytes, 1, d);
        expect_shape(s, axis, bpr, options.two_d ? 32 : 1, c);
        ck_assert_int_eq(d->size_bytes, want.data_bytes);
        ck_assert_int_eq(c->size_bytes, want.scale_bytes);
        ck_assert_msg(!memcmp(data, want.data, (size_t)d->size_bytes), "%s: data", s->name);
        ck_assert_msg(!memcmp(scales, want.scales, (size_t)c->size_bytes), "%s: scales", s->name);
        ck_assert_msg(!memcmp(y, want.restored, (size_t)x_tensor->size_bytes), "%s: y", s->name);
        ck_assert_msg(!memcmp(z, want.restored, (size_t)x_tensor->size_bytes), "%s: qdq", s->name);
        expected_finish(&want);
        free(data), free(scales), free(x), free(y), free(z);
    }
    st_reader_close(in);
    st_reader_close(packed);
    st_reader_close(restored);
    st_reader_close(rounded);
}

static void check_round_trip(mx_format format, const mx_ocp_options *options, int axis,
                             int64_t seed, const char *more)
{
    char text[240];
    const char *name = mx_format_get(format)->name;
    snprintf(text, sizeof(text), "quantize @in -o @packed -q -f %s --axis %d%s", name, axis, more);
    mxrt_ok(text);
    snprintf(text, sizeof(text), "qdq @in -o @rounded -q -f %s --axis %d%s", name, axis, more);
    mxrt_ok(text);
    mxrt_ok("dequantize @packed -o @restored -q");
    expect_files(format, options, axis, seed);
}

START_TEST(round_trip)
{
    mx_format format = (mx_format)(FIRST + _i);
    mx_ocp_options alto = mx_ocp_preset(MX_OCP_ALTO);
    write_samples("in");
    check_round_trip(format, &alto, -1, 0, "");
    check_round_trip(format, &alto, 0, 0, "");
    check_round_trip(format, &alto, -2, 0, "");
}
END_TEST

START_TEST(profiles)
{
    char more[64];
    write_samples("in");
    for (int profile = 0; profile < MX_OCP_PROFILE_COUNT; profile++) {
        mx_ocp_options options = mx_ocp_preset((mx_ocp_profile)profile);
        snprintf(more, sizeof(more), " --profile %s", mx_ocp_profile_name((mx_ocp_profile)profile));
        check_round_trip((mx_format)(FIRST + profile % N_FORMATS), &options, -1, 0, more);
    }
}
END_TEST

START_TEST(roundings_and_tiles)
{
    mx_ocp_options options = mx_ocp_preset(MX_OCP_SPEC);
    write_samples("in");
    options.rounding = MX_ROUND_UP;
    check_round_trip(MX_FORMAT_MXFP4, &options, -1, 0, " --profile ocp --rounding up");
    options.rounding = MX_ROUND_STOCHASTIC;
    check_round_trip(MX_FORMAT_MXFP4, &options, 0, 77,
                     " --profile ocp --rounding stochastic --seed 77");
    check_round_trip(MX_FORMAT_MXINT8, &options, -1, 0, " --profile ocp --rounding stochastic");
    options.two_d = 1;
    check_round_trip(MX_FORMAT_MXFP8_E4M3, &options, -1, 5,
                     " --profile ocp --tiles --rounding stochastic --seed 5");
    options.rounding = MX_ROUND_EVEN;
    check_round_trip(MX_FORMAT_MXFP6_E2M3, &options, -2, 0, " --tiles --profile ocp");
    check_round_trip(MX_FORMAT_MXFP4, &options, 0, 0, " --tiles --profile ocp");
    /* These are not cut into pieces. */
    mxrt_fails("quantize @in -o @out -f mxfp4 --tiles --max-memory 4096", 1, "at once");
    mxrt_fails("quantize @in -o @out -f mxfp4 --rounding stochastic --max-memory 4096", 1,
               "stochastic");
    mxrt_fails("qdq @in -o @out -f mxfp4 --tiles --max-memory 4096", 1, "--max-memory");
    mxrt_fails("dequantize @packed -o @out --max-memory 4096", 1, "tiles");
    mxrt_fails("compare @in @packed --max-memory 4096 -q", 1, "tiles");
}
END_TEST

/* However little memory it may use, the file is the same. */
START_TEST(streaming)
{
    static const char *const budgets[] = {"4096", "10K", "1M"};
    static const char *const formats[] = {"mxfp6e3m2", "mxfp8e5m2"};
    char text[200];
    write_samples("in");
    for (int axis = 0; axis > -3; axis--) {
        const char *format = formats[axis & 1];
        snprintf(text, sizeof(text), "quantize @in -o @whole -q -f %s --axis %d", format, axis);
        mxrt_ok(text);
        mxrt_ok("dequantize @whole -o @back -q");
        for (size_t b = 0; b < 3; b++) {
            snprintf(text, sizeof(text),
                     "quantize @in -o @pieces -q -f %s --axis %d --max-memory %s", format, axis,
                     budgets[b]);
            mxrt_ok(text);
            expect_same_files("whole", "pieces");
            snprintf(text, sizeof(text), "dequantize @whole -o @pieces -q --max-memory %s",
                     budgets[b]);
            mxrt_ok(text);
            expect_same_files("back", "pieces");
            snprintf(text, sizeof(text), "qdq @in -o @pieces -q -f %s --axis %d --max-memory %s",
                     format, axis, budgets[b]);
            mxrt_ok(text);
            snprintf(text, sizeof(text), "compare @whole @pieces -q --max-memory %s", budgets[b]);
            mxrt_ok(text);
        }
    }
}
END_TEST

START_TEST(metadata_values)
{
    json_error_t why;
    write_samples("in");
    mxrt_ok("quantize @in -o @packed -q -f mxfp4 -a 1 --profile te-rocm --rounding stochastic "
            "--seed 9 --tiles");
    st_reader *packed = open_reader("packed");
    json_t *value = json_loads(st_reader_metadata_find(packed, "mxgen.cube.bf16"),
                               JSON_REJECT_DUPLICATES, &why);
    json_t *want =
        json_pack("{s:s, s:[i,i,i], s:i, s:s, s:s, s:i, s:s, s:s, s:i, s:b}", "format", "mxfp4",
                  "shape", 5, 35, 33, "axis", 1, "dtype", "bf16", "profile", "te-rocm", "version",
                  1, "scales", "cube.bf16_scale", "rounding", "stochastic", "seed", 9, "two_d", 1);
    ck_assert(json_equal(value, want));
    json_decref(value);
    json_decref(want);
    st_reader_close(packed);
}
END_TEST

/* Different tensors in different formats, part of them back, in place. */
START_TEST(mixed_formats)
{
    write_samples("in");
    mxrt_ok("quantize @in -o @a -q -f mxfp4 --include ^(wide|bias)");
    mxrt_ok("quantize @a -o @a -q -f mx9 --include ^tall");
    mxrt_ok("quantize @a -o @a -q -f mxfp8e4m3");
    st_reader *a = open_reader("a");
    ck_assert_ptr_nonnull(strstr(st_reader_metadata_find(a, "mxgen.bias.f32"), "mxfp4"));
    ck_assert_ptr_nonnull(strstr(st_reader_metadata_find(a, "mxgen.tall.f16"), "mx9"));
    ck_assert_int_eq(st_reader_find(a, "cube.bf16")->dtype, ST_F8_E4M3);
    st_reader_close(a);
    mxrt_ok("dequantize @a -o @a -q --include ^(wide|tall)");
    a = open_reader("a");
    ck_assert_ptr_null(st_reader_find(a, "wide.f32_scale"));
    ck_assert_ptr_null(st_reader_metadata_find(a, "mxgen.wide.f32"));
    ck_assert_ptr_nonnull(st_reader_find(a, "cube.bf16_scale"));
    st_reader_close(a);
    mxrt_ok("dequantize @a -o @a -q");
    a = open_reader("a");
    ck_assert_uint_eq(st_reader_count(a), N_SAMPLES);
    for (size_t i = 0; i < N_SAMPLES; i++)
        ck_assert_int_eq(st_reader_find(a, samples[i].name)->dtype, samples[i].dtype);
    st_reader_close(a);
}
END_TEST

START_TEST(report_of_quantize)
{
    write_samples("in");
    json_t *root = mxrt_json("quantize @in -o @out -f mxfp8e4m3 --json"), *item;
    json_int_t after = 0;
    size_t i;
    json_array_foreach(json_object_get(root, "tensors"), i, item)
    {
        after += json_integer_value(json_object_get(item, "bytes_after"));
        if (!strcmp(json_string_value(json_object_get(item, "name")), "square.f32"))
            ck_assert_int_eq(json_integer_value(json_object_get(item, "bytes_after")),
                             64 * 96 + 64 * 3);
    }
    ck_assert_int_eq(json_integer_value(json_object_get(root, "bytes_after")), after);
    json_t *back = mxrt_json("dequantize @out -o @back --json");
    ck_assert_int_eq(json_integer_value(json_object_get(back, "bytes_before")), after);
    ck_assert_int_eq(json_integer_value(json_object_get(back, "bytes_after")),
                     json_integer_value(json_object_get(root, "bytes_before")));
    json_decref(root);
    json_decref(back);
    cli_run run;
    mxrt(&run, "report @in -f mxint8,mxfp4 --include ^square --seconds 0 --json");
    ck_assert_int_eq(run.exit_code, 0);
    ck_assert_ptr_nonnull(strstr(run.out, "\"bytes_after\":6336"));
    ck_assert_ptr_nonnull(strstr(run.out, "\"bytes_after\":3264"));
    cli_run_finish(&run);
}
END_TEST

/* ---- Files of others ---- */

/* 0x22 is two codes of 1.0 in E2M1; the scales are 2 and 1/2. */
static unsigned char ones[128];
static const unsigned char two_scales[8] = {128, 126, 128, 126, 128, 126, 128, 126};

/* The tensor "NAME" of @out is bf16 of this shape, 2 in the first block of a row, 0.5 in the rest.
 */
static void expect_foreign(const char *name, size_t ndim, const int64_t *shape)
{
    const st_tensor *tensor;
    st_reader *out = open_reader("out");
    uint16_t *y = read_tensor(out, name, &tensor);
    int64_t len = shape[ndim - 1];
    ck_assert_uint_eq(st_reader_count(out), 1);
    ck_assert_uint_eq(st_reader_metadata_count(out), 0);
    ck_assert_int_eq(tensor->dtype, ST_BF16);
    ck_assert_uint_eq(tensor->ndim, ndim);
    ck_assert_mem_eq(tensor->shape, shape, ndim * sizeof(*shape));
    for (int64_t i = 0; i < tensor->n_elements; i++)
        ck_assert_msg(y[i] == (i % len < 32 ? 0x4000 : 0x3f00), "%s: element %d is %#x", name,
                      (int)i, y[i]);
    free(y);
    st_reader_close(out);
}

START_TEST(foreign_names_and_shapes)
{
    static const struct {
        const char *data, *scales, *name;
        st_dtype data_dtype, scales_dtype;
        size_t ndim; /* of the data */
        int64_t data_shape[4], scales_shape[4], shape[4];
    } cases[] = {
        {"w", "w_scale", "w", ST_U8, ST_U8, 2, {2, 32}, {2, 2}, {2, 64}},
        {"w", "w_scale", "w", ST_I8, ST_F8_E8M0, 2, {2, 32}, {2, 2}, {2, 64}},
        {"w", "w_scales", "w", ST_F4, ST_F8_E8M0, 2, {2, 64}, {2, 2}, {2, 64}},
        {"w", "w_scale_inv", "w", ST_U8, ST_U8, 1, {32}, {2}, {64}},
        {"w_packed", "w_scale", "w", ST_U8, ST_U8, 3, {1, 2, 32}, {1, 2, 2}, {1, 2, 64}},
        {"w_blocks", "w_scales", "w", ST_U8, ST_U8, 4, {1, 2, 2, 16}, {1, 2, 2}, {1, 2, 64}},
        {"w.blocks", "w.scales", "w", ST_U8, ST_U8, 3, {2, 2, 16}, {2, 2}, {2, 64}},
        {"a.weight", "a.scale", "a.weight", ST_I8, ST_F8_E8M0, 2, {2, 32}, {2, 2}, {2, 64}},
        /* The last block is cut. */
        {"w", "w_scale", "w", ST_U8, ST_U8, 2, {2, 20}, {2, 2}, {2, 40}},
        {"w", "w_scale", "w", ST_U8, ST_U8, 2, {4, 17}, {4, 2}, {4, 34}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t apart = strstr(cases[i].data, "blocks") != NULL;
        piece pieces[2] = {
            {cases[i].data, cases[i].data_dtype, cases[i].ndim, {0}, ones},
            {cases[i].scales, cases[i].scales_dtype, cases[i].ndim - apart, {0}, two_scales}};
        memcpy(pieces[0].shape, cases[i].data_shape, sizeof(pieces[0].shape));
        memcpy(pieces[1].shape, cases[i].scales_shape, sizeof(pieces[1].shape));
        write_pieces("in", pieces, 2, NULL, NULL);
        mxrt_ok("dequantize @in -o @out -q");
        expect_foreign(cases[i].name, pieces[1].ndim, cases[i].shape);
        mxrt_ok("dequantize @in -o @out -q --format mxfp4");
        expect_foreign(cases[i].name, pieces[1].ndim, cases[i].shape);
        mxrt_ok("compare @out @in -q");
    }
}
END_TEST

/* What mxrt writes is read without its metadata, where the axis is the last and blocks are whole.
 */
START_TEST(own_files_without_metadata)
{
    static const int64_t shape[] = {3, 64};
    float x[3 * 64];
    char text[200];
    for (int i = 0; i < 3 * 64; i++)
        x[i] = (float)(i % 13 - 6) * ldexpf(1, i % 5);
    const piece plain = {"w", ST_F32, 2, {3, 64}, x};
    write_pieces("in", &plain, 1, NULL, NULL);
    for (int f = FIRST; f < MX_FORMAT_COUNT; f++) {
        const char *name = mx_format_get((mx_format)f)->name;
        const st_tensor *data, *scales;
        snprintf(text, sizeof(text), "quantize @in -o @packed -q -f %s", name);
        mxrt_ok(text);
        mxrt_ok("dequantize @packed -o @back -q");
        st_reader *packed = open_reader("packed");
        void *data_bytes = read_tensor(packed, "w", &data);
        void *scale_bytes = read_tensor(packed, "w_scale", &scales);
        piece pieces[2] = {{"w", data->dtype, 2, {3, data->shape[1]}, data_bytes},
                           {"w_scale", ST_F8_E8M0, 2, {3, 2}, scale_bytes}};
        write_pieces("bare", pieces, 2, NULL, NULL);
        snprintf(text, sizeof(text), "dequantize @bare -o @out -q --dtype f32 --format %s", name);
        mxrt_ok(text);
        mxrt_ok("compare @back @out -q");
        snprintf(text, sizeof(text), "compare @back @bare -q --dtype f32 --format %s", name);
        mxrt_ok(text);
        /* Six bits may be either format; the others tell. */
        int is_six = mx_format_get((mx_format)f)->code_bits == 6;
        if (is_six)
            mxrt_fails("dequantize @bare -o @none --dtype f32", 1, "--format");
        else
            mxrt_ok("dequantize @bare -o @out -q --dtype f32");
        mxrt_ok("compare @back @out -q");
        ck_assert_mem_eq(data->shape, shape, sizeof(shape[0]));
        free(data_bytes);
        free(scale_bytes);
        st_reader_close(packed);
    }
}
END_TEST

START_TEST(foreign_errors)
{
    static const struct {
        piece data, scales;
        const char *options, *word;
    } cases[] = {
        /* Eight bits in U8 may be three formats. */
        {{"w", ST_U8, 2, {2, 64}, NULL}, {"w_scale", ST_U8, 2, {2, 2}, NULL}, "", "--format"},
        {{"w", ST_U8, 2, {2, 64}, NULL}, {"w_scale", ST_U8, 2, {3, 2}, NULL}, "", "dimensions"},
        {{"w", ST_U8, 2, {2, 64}, NULL}, {"w_scale", ST_U8, 1, {2}, NULL}, "", "no format"},
        {{"w", ST_U8, 2, {2, 64}, NULL}, {"w_scale", ST_U8, 2, {2, 5}, NULL}, "", "no format"},
        {{"w", ST_F8_E4M3, 2, {2, 64}, NULL}, {"w_scale", ST_U8, 2, {2, 4}, NULL}, "", "no format"},
        {{"w", ST_F8_E5M2, 2, {2, 64}, NULL}, {"w_scale", ST_U8, 2, {1, 1}, NULL}, "", "differ"},
        {{"w", ST_F8_E5M2, 2, {2, 64}, NULL},
         {"w_scale", ST_U8, 2, {2, 2}, NULL},
         " --format mxfp8e4m3",
         "F8_E5M2"},
        {{"w", ST_U8, 2, {2, 32}, NULL},
         {"w_scale", ST_U8, 2, {2, 2}, NULL},
         " --format mxfp8e4m3",
         "format given"},
        {{"w", ST_U8, 2, {2, 0}, NULL}, {"w_scale", ST_U8, 2, {2, 1}, NULL}, "", "no format"},
        {{"w", ST_U8, 0, {0}, NULL}, {"w_scale", ST_U8, 0, {0}, NULL}, "", "dimensions"},
        /* 25 bytes are no whole number of codes of six bits. */
        {{"w", ST_U8, 2, {2, 25}, NULL},
         {"w_scale", ST_U8, 2, {2, 2}, NULL},
         " --format mxfp6e2m3",
         "format given"},
    };
    char text[200];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const piece pieces[2] = {cases[i].data, cases[i].scales};
        write_pieces("in", pieces, 2, NULL, NULL);
        snprintf(text, sizeof(text), "dequantize @in -o @out%s", cases[i].options);
        mxrt_fails(text, 1, cases[i].word);
        snprintf(text, sizeof(text), "compare @in @in%s", cases[i].options);
        mxrt_fails(text, 1, cases[i].word);
        /* The way out that the message names. */
        mxrt_ok("dequantize @in -o @copy -q --exclude ^w$");
        expect_same_files("in", "copy");
    }
    const piece twice[3] = {{"w", ST_U8, 2, {2, 32}, NULL},
                            {"w_scale", ST_U8, 2, {2, 2}, NULL},
                            {"w_scales", ST_U8, 2, {2, 2}, NULL}};
    write_pieces("in", twice, 3, NULL, NULL);
    mxrt_fails("dequantize @in -o @out", 1, "two tensors of scales");
    const piece taken[3] = {{"w_packed", ST_U8, 2, {2, 32}, NULL},
                            {"w_scale", ST_U8, 2, {2, 2}, NULL},
                            {"w", ST_F32, 1, {4}, NULL}};
    write_pieces("in", taken, 3, NULL, NULL);
    mxrt_fails("dequantize @in -o @out", 1, "taken");
    const piece shared[3] = {{"w", ST_U8, 2, {2, 32}, NULL},
                             {"w_scale", ST_U8, 2, {2, 2}, NULL},
                             {"w_packed", ST_U8, 2, {2, 32}, NULL}};
    write_pieces("in", shared, 3, NULL, NULL);
    mxrt_fails("dequantize @in -o @out", 1, "something else, too");
}
END_TEST

/* No business of the OCP formats: copied. */
START_TEST(foreign_others_are_copied)
{
    const piece pieces[] = {
        {"fp8", ST_F8_E4M3, 2, {2, 64}, ones},      {"fp8_scale", ST_F32, 1, {1}, NULL},
        {"nvfp4", ST_U8, 2, {2, 32}, ones},         {"nvfp4_scale", ST_F8_E4M3, 2, {2, 4}, NULL},
        {"alone", ST_F8_E5M2, 2, {2, 64}, ones},    {"orphan_scale", ST_U8, 2, {2, 2}, two_scales},
        {"int32", ST_I32, 2, {2, 8}, ones},         {"int32_scale", ST_U8, 2, {2, 1}, two_scales},
        {"fnuz", ST_F8_E4M3FNUZ, 2, {2, 32}, ones}, {"fnuz_scale", ST_U8, 2, {2, 1}, two_scales},
    };
    write_pieces("in", pieces, sizeof(pieces) / sizeof(pieces[0]), "made", "elsewhere");
    mxrt_ok("dequantize @in -o @out -q");
    mxrt_ok("compare @in @out -q");
    st_reader *out = open_reader("out");
    ck_assert_str_eq(st_reader_metadata_find(out, "made"), "elsewhere");
    st_reader_close(out);
}
END_TEST

START_TEST(foreign_empty)
{
    const piece pieces[] = {{"a", ST_U8, 2, {0, 32}, NULL},
                            {"a_scale", ST_U8, 2, {0, 2}, NULL},
                            {"b", ST_I8, 2, {3, 0}, NULL},
                            {"b_scale", ST_U8, 2, {3, 0}, NULL}};
    static const int64_t a_shape[] = {0, 64}, b_shape[] = {3, 0};
    write_pieces("in", pieces, 2, NULL, NULL);
    mxrt_ok("dequantize @in -o @out -q");
    st_reader *out = open_reader("out");
    ck_assert_mem_eq(st_reader_find(out, "a")->shape, a_shape, sizeof(a_shape));
    st_reader_close(out);
    mxrt_ok("compare @in @out -q");
    write_pieces("in", pieces + 2, 2, NULL, NULL);
    mxrt_ok("dequantize @in -o @out -q --format mxint8");
    out = open_reader("out");
    ck_assert_mem_eq(st_reader_find(out, "b")->shape, b_shape, sizeof(b_shape));
    ck_assert_int_eq(st_reader_find(out, "b")->dtype, ST_BF16);
    st_reader_close(out);
}
END_TEST

/* ---- Damage ---- */

#define META(format, shape, axis, profile, rest)                                                   \
    "{\"format\":\"" format "\",\"shape\":" shape ",\"axis\":" axis                                \
    ",\"dtype\":\"f32\",\"profile\":\"" profile "\",\"version\":1" rest "}"
#define SCALES ",\"scales\":\"t_scale\""

START_TEST(damaged_metadata)
{
    static const struct {
        const char *value, *word;
    } cases[] = {
        {META("mxfp4", "[2,64]", "1", "alto", ""), "scales"},
        {META("mxfp4", "[2,64]", "1", "alto", ",\"scales\":3"), "scales"},
        {META("mxfp4", "[2,64]", "1", "alto", ",\"scales\":\"nobody\""), "not there"},
        {META("mxfp4", "[2,64]", "1", "alto", ",\"scales\":\"t\""), "\"t\" is not U8 [2, 2]"},
        {META("mxfp4", "[2,64]", "1", "packed", SCALES), "packed"},
        {META("mxfp4", "[2,64]", "1", "alto", SCALES ",\"two_d\":1"), "two_d"},
        {META("mxfp4", "[2,64]", "1", "alto", SCALES ",\"two_d\":true"), "U8 [1, 2]"},
        {META("mxfp4", "[2,65]", "1", "alto", SCALES), "U8 [2, 48]"},
        {META("mxfp4", "[2,64]", "0", "alto", SCALES), "U8 [64, 16]"},
        {META("mxfp4", "[2,2,64]", "2", "alto", SCALES), "U8 [2, 2, 32]"},
        {META("mxfp8e4m3", "[2,32]", "1", "alto", SCALES), "F8_E4M3 [2, 32]"},
        {META("mxint8", "[2,32]", "1", "alto", SCALES), "I8 [2, 32]"},
        {META("mxfp6e2m3", "[2,32]", "1", "alto", SCALES), "U8 [2, 24]"},
        {META("mx9", "[2,32]", "1", "packed", SCALES), "U8 [4, 18]"},
        {META("mxfp4", "[2,0]", "1", "alto", SCALES), "dimension 1"},
    };
    piece pieces[2] = {{"t", ST_U8, 2, {2, 32}, ones}, {"t_scale", ST_U8, 2, {2, 2}, two_scales}};
    const char *good = META("mxfp4", "[2,64]", "1", "alto", SCALES);
    write_pieces("packed", pieces, 2, "mxgen.t", good);
    mxrt_ok("dequantize @packed -o @good -q");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        write_pieces("packed", pieces, 2, "mxgen.t", cases[i].value);
        mxrt_fails("dequantize @packed -o @out", 1, cases[i].word);
        mxrt_fails("compare @good @packed", 1, cases[i].word);
    }
    /* Scales of another type or shape, or none. */
    pieces[1].dtype = ST_I8;
    write_pieces("packed", pieces, 2, "mxgen.t", good);
    mxrt_fails("dequantize @packed -o @out", 1, "t_scale");
    pieces[1] = (piece){"t_scale", ST_U8, 2, {2, 3}, two_scales};
    write_pieces("packed", pieces, 2, "mxgen.t", good);
    mxrt_fails("dequantize @packed -o @out", 1, "U8 [2, 2]");
    write_pieces("packed", pieces, 1, "mxgen.t", good);
    mxrt_fails("dequantize @packed -o @out", 1, "not there");
}
END_TEST

START_TEST(names_that_are_taken)
{
    const piece pieces[2] = {{"w", ST_F32, 2, {2, 32}, NULL}, {"w_scale", ST_F32, 1, {1}, NULL}};
    write_pieces("in", pieces, 2, NULL, NULL);
    mxrt_fails("quantize @in -o @out -f mxfp4", 1, "w_scale");
    mxrt_ok("quantize @in -o @out -f mxfp4 -q --exclude ^w$");
    mxrt_ok("quantize @in -o @out -f mx9 -q");
    mxrt_ok("qdq @in -o @out -f mxfp4 -q");
    write_pieces("in", pieces, 1, "mxgen.w", "{}");
    mxrt_fails("quantize @in -o @out -f mxfp4", 1, "metadata");
}
END_TEST

START_TEST(usage_errors)
{
    write_samples("in");
    mxrt_fails("quantize @in -o @out -f mxfp5", 2, "mxfp5");
    mxrt_fails("quantize @in -o @out -f mxfp4 --profile none", 2, "none");
    mxrt_fails("quantize @in -o @out -f mxfp4 --profile packed", 2, "packed");
    mxrt_fails("quantize @in -o @out -f mxfp4 --rounding down", 2, "down");
    mxrt_fails("quantize @in -o @out -f mxfp4 --seed 1", 2, "--seed");
    mxrt_fails("quantize @in -o @out -f mxfp4 --rounding stochastic --seed -1", 2, "-1");
    mxrt_fails("quantize @in -o @out -f mx9 --rounding up", 2, "--rounding");
    mxrt_fails("quantize @in -o @out -f mx9 --tiles", 2, "--tiles");
    mxrt_fails("quantize @in -o @out -f mx9 --profile ocp", 2, "ocp");
    mxrt_fails("quantize @in -o @out -f mx9 --profile demoted-255", 2, "qdq only");
    mxrt_fails("qdq @in -o @out", 2, "--format");
    mxrt_fails("qdq @in -f mx9", 2, "-o");
    mxrt_fails("dequantize @in -o @out -f mx9", 2, "mx9");
    mxrt_fails("dequantize @in -o @out --dtype f64", 2, "f64");
    mxrt_fails("compare @in", 2, "A and B");
    mxrt_fails("compare @in @in @in", 2, "more than two");
    mxrt_fails("compare @in @in --min-snr much", 2, "much");
    mxrt_fails("compare @in @in --min-snr nan", 2, "nan");
    mxrt_fails("compare @in @none", 1, "none");
    mxrt_fails("compare @in @in --include nobody", 1, "no tensor");
    mxrt_fails("quantize @in -o @out -f mxfp4 --axis 2", 1, "axis 2");
}
END_TEST

/* ---- qdq of the packed formats ---- */

START_TEST(qdq_of_packed_formats)
{
    write_samples("in");
    mxrt_ok("quantize @in -o @packed -q -f mx6 -a 0");
    mxrt_ok("dequantize @packed -o @back -q");
    mxrt_ok("qdq @in -o @rounded -q -f mx6 -a 0");
    mxrt_ok("compare @back @rounded -q");
    /* The other profile is another rounding, and lets NaN pass. */
    mxrt_ok("qdq @in -o @other -q -f mx6 -a 0 --profile demoted-255");
    cli_run run;
    mxrt(&run, "compare @back @other -q");
    ck_assert_int_eq(run.exit_code, 3);
    cli_run_finish(&run);
}
END_TEST

int main(void)
{
    memset(ones, 0x22, sizeof(ones));
    Suite *suite = suite_create("mxrt_ocp");
    TCase *tcase = tcase_create("commands");
    tcase_add_checked_fixture(tcase, mxrt_run_setup, mxrt_run_teardown);
    tcase_add_loop_test(tcase, round_trip, 0, N_FORMATS);
    tcase_add_test(tcase, profiles);
    tcase_add_test(tcase, roundings_and_tiles);
    tcase_add_test(tcase, streaming);
    tcase_add_test(tcase, metadata_values);
    tcase_add_test(tcase, mixed_formats);
    tcase_add_test(tcase, report_of_quantize);
    tcase_add_test(tcase, foreign_names_and_shapes);
    tcase_add_test(tcase, own_files_without_metadata);
    tcase_add_test(tcase, foreign_errors);
    tcase_add_test(tcase, foreign_others_are_copied);
    tcase_add_test(tcase, foreign_empty);
    tcase_add_test(tcase, damaged_metadata);
    tcase_add_test(tcase, names_that_are_taken);
    tcase_add_test(tcase, usage_errors);
    tcase_add_test(tcase, qdq_of_packed_formats);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
