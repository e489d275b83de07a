/* The reference of the OCP formats against: files of expected bytes, the vectors of the formats'
 * description, and a second, slow statement in exact double arithmetic. */
#include <check.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ocp_oracle.h"

static void *read_case(const char *name, const char *suffix, size_t *size_bytes)
{
    char path[1024];
    const char *root = getenv("MX_SOURCE_ROOT");

    snprintf(path, sizeof(path), "%s/tests/data/cases/%s%s", root ? root : ".", name, suffix);
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s: cannot be read", path);
    fseek(file, 0, SEEK_END);
    *size_bytes = (size_t)ftell(file);
    rewind(file);
    void *data = malloc(*size_bytes + 1);
    ck_assert_uint_eq(fread(data, 1, *size_bytes, file), *size_bytes);
    fclose(file);
    return data;
}

static mx_format format_of_element(const char *element)
{
    static const char *const names[] = {"e2m1", "e2m3", "e3m2", "e4m3", "e5m2", "int8"};
    for (int i = 0; i < MX_FORMAT_COUNT - FIRST; i++) {
        if (!strcmp(names[i], element))
            return (mx_format)(FIRST + i);
    }
    ck_abort_msg("element %s is unknown", element);
    return MX_FORMAT_COUNT;
}

static void check_case(const json_t *set, const char *element, const char *profile_name)
{
    const char *name = json_string_value(json_object_get(set, "name"));
    int64_t rows = json_integer_value(json_object_get(set, "rows"));
    int64_t last = json_integer_value(json_object_get(set, "last"));
    mx_format format = format_of_element(element);
    mx_ocp_profile profile;
    mx_dtype dtype;
    char suffix[64];
    size_t in_bytes, data_bytes, scales_bytes;

    ck_assert(!mx_dtype_parse(json_string_value(json_object_get(set, "dtype")), &dtype));
    ck_assert(!mx_ocp_profile_parse(profile_name, &profile));
    mx_ocp_options options = mx_ocp_preset(profile);
    void *in = read_case(name, ".in", &in_bytes);
    snprintf(suffix, sizeof(suffix), ".%s.%s.data", element, profile_name);
    void *data = read_case(name, suffix, &data_bytes);
    snprintf(suffix, sizeof(suffix), ".%s.%s.scales", element, profile_name);
    void *scales = read_case(name, suffix, &scales_bytes);
    int64_t n_blocks = rows * ((last + N - 1) / N);
    ck_assert_uint_eq(scales_bytes, (size_t)n_blocks);
    ck_assert_uint_eq(data_bytes, (size_t)(n_blocks * mx_format_get(format)->block_bytes));
    unsigned char *got = malloc(data_bytes), *got_scales = malloc(scales_bytes);
    run_2d(MX_OP_TO, format, &options, dtype, rows, last, 1, in, got, got_scales);
    ck_assert_msg(!memcmp(got_scales, scales, scales_bytes), "%s%s differs", name, suffix);
    ck_assert_msg(!memcmp(got, data, data_bytes), "%s.%s.%s: data differ", name, element,
                  profile_name);
    free(got_scales);
    free(got);
    free(scales);
    free(data);
    free(in);
}

START_TEST(expected_files)
{
    size_t size_bytes, i, k;
    char *text = read_case("ocp", ".json", &size_bytes);
    json_t *index = json_loadb(text, size_bytes, 0, NULL), *set, *pair;
    json_t *sets = json_object_get(index, "sets"), *pairs = json_object_get(index, "pairs");

    ck_assert_uint_ge(json_array_size(sets), 20);
    ck_assert_uint_ge(json_array_size(pairs), 14);
    json_array_foreach(sets, i, set)
    {
        json_array_foreach(pairs, k, pair)
            check_case(set, json_string_value(json_array_get(pair, 0)),
                       json_string_value(json_array_get(pair, 1)));
    }
    json_decref(index);
    free(text);
}
END_TEST

/* The formats' description gives these 32 values and bytes, for the scale byte 126. */
START_TEST(cross_check)
{
    float x[N] = {.3463f,  -.0499f,  .3794f,  -2.3764f, .3960f,  .5989f,   -.6250f, -.4239f,
                  -.6192f, .2761f,   -.3746f, .1462f,   .5216f,  -.5194f,  -.8497f, -.8237f,
                  .5145f,  .3508f,   .0298f,  -.3462f,  .3917f,  .1096f,   1.4494f, 1.7009f,
                  -.5473f, -2.0851f, 1.8099f, .3587f,   1.4622f, -2.3143f, .3412f,  -.8931f};
    static const unsigned char want[16] = {129, 226, 34, 170, 26,  25, 162, 187,
                                           18,  144, 2,  85,  234, 22, 229, 193};
    mx_ocp_options options = mx_ocp_preset(MX_OCP_ALTO);
    unsigned char data[16], scale;

    run_2d(MX_OP_TO, MX_FORMAT_MXFP4, &options, MX_DTYPE_F32, 1, N, -1, x, data, &scale);
    ck_assert_int_eq(scale, 126);
    ck_assert_mem_eq(data, want, sizeof(want));
}
END_TEST

START_TEST(rules_on_four_values)
{
    static const float amax[4] = {1, 1.25f, 1.625f, 1.875f};
    static const unsigned char want[MX_SCALE_RULE_COUNT][4] = {
        [MX_SCALE_FLOOR] = {125, 125, 125, 125},
        [MX_SCALE_EVEN] = {125, 125, 125, 126},
        [MX_SCALE_CEIL] = {125, 126, 126, 126},
        [MX_SCALE_RCEIL] = {125, 125, 126, 126},
    };
    for (int rule = 0; rule < MX_SCALE_RULE_COUNT; rule++) {
        for (int i = 0; i < 4; i++) {
            mx_ocp_options options = {.scale_rule = (mx_scale_rule)rule};
            float x[N] = {-amax[i]};
            unsigned char data[16], scale;
            run_2d(MX_OP_TO, MX_FORMAT_MXFP4, &options, MX_DTYPE_F32, 1, N, -1, x, data, &scale);
            ck_assert_int_eq(scale, want[rule][i]);
        }
    }
}
END_TEST

/* To nearest even; NaN is 0x7fc0.. . */
static uint32_t narrow(mx_dtype dtype, double value)
{
    const mx_dtype_info *info = mx_dtype_get(dtype);
    int width = info->bytes * 8, m = info->mantissa_bits, lowest = 1 - info->exponent_bias, e;
    uint32_t sign = signbit(value) ? 1u << (width - 1) : 0;
    uint32_t infinity = ((1u << (width - 1 - m)) - 1) << m;

    if (isnan(value))
        return infinity | 1u << (m - 1);
    value = fabs(value);
    if (value == 0 || isinf(value))
        return sign | (value == 0 ? 0 : infinity);
    frexp(value, &e);
    e = e - 1 < lowest ? lowest : e - 1;
    uint32_t bits = (uint32_t)rint(ldexp(value, m - e)) + ((uint32_t)(e - lowest) << m);
    return sign | (bits > infinity ? infinity : bits);
}

START_TEST(every_code_and_scale)
{
    mx_format format = (mx_format)(FIRST + _i);
    int n_codes = 1 << mx_format_get(format)->code_bits, bits = mx_format_get(format)->code_bits;

    for (int dtype = 0; dtype < MX_DTYPE_COUNT; dtype++) {
        for (int scale = 0; scale < 256; scale++) {
            for (int first = 0; first < n_codes; first += N) {
                unsigned char data[N + 1] = {0}, byte = (unsigned char)scale;
                uint32_t y[N];
                for (int i = 0; i < N; i++) {
                    unsigned word = (unsigned)((first + i) % n_codes) << i * bits % 8;
                    data[i * bits / 8] |= (unsigned char)word;
                    if (word > 255)
                        data[i * bits / 8 + 1] |= (unsigned char)(word >> 8);
                }
                run_2d(MX_OP_FROM, format, NULL, (mx_dtype)dtype, 1, N, -1, y, data, &byte);
                for (int i = 0; i < N; i++) {
                    double value = code_value(format, (unsigned)((first + i) % n_codes));
                    /* f32 first: what is beyond it is Inf for all types. */
                    value = scale == 255 ? NAN : (double)(float)ldexp(value, scale - 127);
                    uint32_t want = narrow((mx_dtype)dtype, value);
                    uint32_t got = dtype == MX_DTYPE_F32 ? y[i] : ((uint16_t *)y)[i];
                    if (got != want)
                        ck_abort_msg("%s code %#x scale %d: %#" PRIx32 ", want %#" PRIx32,
                                     mx_format_get(format)->name, (first + i) % n_codes, scale, got,
                                     want);
                }
            }
        }
    }
}
END_TEST

/* ---- Stochastic rounding ---- */

static void philox(uint32_t c[4], uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < 10; round++, k0 += 0x9e3779b9u, k1 += 0xbb67ae85u) {
        uint64_t a = 0xd2511f53ull * c[0], b = 0xcd9e8d57ull * c[2];
        uint32_t c1 = c[1], c3 = c[3];
        c[0] = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c[1] = (uint32_t)b;
        c[2] = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c[3] = (uint32_t)a;
    }
}

/* The vectors published with the generator. */
START_TEST(philox_vectors)
{
    uint32_t zero[4] = {0}, ones[4] = {~0u, ~0u, ~0u, ~0u};
    static const uint32_t want[2][4] = {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                                        {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}};
    philox(zero, 0, 0);
    philox(ones, ~0u, ~0u);
    ck_assert_mem_eq(zero, want[0], 16);
    ck_assert_mem_eq(ones, want[1], 16);
}
END_TEST

/* Rounds up exactly where the position's random bits say so. */
START_TEST(stochastic_bits)
{
    enum { BLOCKS = 400 };
    static const int kept[] = {1, 3, 2, 3, 2, 6};
    mx_format format = (mx_format)(FIRST + _i);
    static float x[BLOCKS * N];
    static unsigned char data[BLOCKS * N], scales[BLOCKS];
    mx_ocp_options options = {.rounding = MX_ROUND_STOCHASTIC, .seed = 0x123456789abcdef0u};
    int m = kept[_i], bytes = mx_format_get(format)->block_bytes, ups = 0;

    for (int i = 0; i < BLOCKS * N; i++)
        x[i] = ldexpf((float)(int32_t)random32(), -31 - (int)(random32() % 6));
    run_2d(MX_OP_TO, format, &options, MX_DTYPE_F32, BLOCKS / 4, 4 * N, -1, x, data, scales);
    for (int i = 0; i < BLOCKS * N; i++) {
        uint32_t word[4] = {(uint32_t)i / 4};
        double y = ldexp(fabs((double)x[i]), 127 - scales[i / N]);
        unsigned got = code_at(format, data + i / N * bytes, i % N), below = 0;
        int fraction_bits = format == MX_FORMAT_MXINT8 ? 16 : 23 - m;
        philox(word, 0x9abcdef0u, 0x12345678u);
        if (y >= max_normal(format))
            continue;
        while (code_value(format, below + 1) <= y)
            below++;
        double low = code_value(format, below), unit = code_value(format, below + 1) - low;
        /* What f32 keeps of a number below the smallest normal one. */
        double fraction = rint(ldexp((y - low) / unit, fraction_bits));
        double random = word[i % 4] >> (32 - fraction_bits);
        below += fraction + random >= ldexp(1, fraction_bits);
        ups += fraction + random >= ldexp(1, fraction_bits);
        if (format == MX_FORMAT_MXINT8)
            below = x[i] < 0 ? (256 - below) & 255 : below;
        else if (x[i] < 0)
            below |= 1u << (mx_format_get(format)->code_bits - 1);
        ck_assert_msg(got == below, "element %d, y %a: code %#x, want %#x", i, y, got, below);
    }
    ck_assert_int_gt(ups, BLOCKS * N / 4);
}
END_TEST

START_TEST(stochastic_unbiased)
{
    enum { BLOCKS = 4096 };
    mx_format format = (mx_format)(FIRST + _i);
    static float x[BLOCKS * N], y[BLOCKS * N];
    mx_ocp_options options = {.rounding = MX_ROUND_STOCHASTIC, .seed = 7, .zero_byte = 127};
    const int n = BLOCKS * (N - 1);

    for (int k = 1; k < 8; k++) {
        /* The first element sets the scale to 1. */
        double value = max_normal(format) * k / 9.7, sum = 0, square = 0;
        for (int i = 0; i < BLOCKS * N; i++)
            x[i] = i % N ? (float)value : (float)max_normal(format);
        memcpy(y, x, sizeof(y));
        run_2d(MX_OP_QDQ, format, &options, MX_DTYPE_F32, 1, BLOCKS * N, -1, y, NULL, NULL);
        for (int i = 0; i < BLOCKS * N; i++) {
            double error = i % N ? (double)y[i] - (double)(float)value : 0;
            sum += error;
            square += error * error;
        }
        ck_assert_double_gt(square, 0);
        ck_assert_double_le(fabs(sum), 4 * sqrt(square));
        ck_assert_double_le(fabs(sum / n), max_normal(format) / 100);
    }
}
END_TEST

/* ---- Shapes ---- */

/* A transposed tensor quantised along its first dimension gives the bytes of the tensor. */
START_TEST(axes_strides_and_scales_layout)
{
    enum { ROWS = 70, LEN = 45, BPR = 2 };
    static uint32_t x[ROWS * LEN], t[LEN * ROWS * 3];
    static uint32_t y[LEN * ROWS * 3], z[LEN * ROWS * 3];
    static unsigned char a[ROWS * BPR * N], b[ROWS * BPR * N], sa[ROWS * BPR], sb[ROWS * BPR];
    mx_ocp_options options = mx_ocp_preset((mx_ocp_profile)(_i % MX_OCP_PROFILE_COUNT));
    mx_format format = (mx_format)(FIRST + _i / 2 % 6);
    int64_t shape[2] = {LEN, ROWS}, strides[2] = {3 * ROWS, 3};
    int64_t data_shape[2], scales_shape[2], scales_strides[2] = {1, ROWS};
    mx_error err = {MX_OK, ""};

    options.two_d = _i % 2;
    options.hadamard = _i % 3 == 0;
    for (int i = 0; i < ROWS * LEN; i++) {
        float value = ldexpf((float)(int32_t)random32(), -(int)(random32() % 40));
        memcpy(&x[i], &value, 4);
        t[(i % LEN * ROWS + i / LEN) * 3] = x[i];
    }
    run_2d(MX_OP_TO, format, &options, MX_DTYPE_F32, ROWS, LEN, -1, x, a, sa);
    ck_assert(!mxrt_ocp_shape(format, &options, 2, shape, 0, data_shape, scales_shape, &err));
    ck_assert_int_eq(scales_shape[0], options.two_d ? 3 : ROWS);
    scales_strides[1] = scales_shape[0];
    DLTensor tx = plain_of(t, MX_DTYPE_F32, 2, shape, strides);
    DLTensor ty = plain_of(y, MX_DTYPE_F32, 2, shape, strides);
    DLTensor td = tensor_of(b, bytes_type, 2, data_shape, NULL);
    DLTensor ts = tensor_of(sb, bytes_type, 2, scales_shape, scales_strides);
    mxrt_plan_request request = {.op = MX_OP_TO,
                                 .format = format,
                                 .axis = 0,
                                 .in = &tx,
                                 .out = &td,
                                 .scales = &ts,
                                 .options = &options};
    ck_assert_msg(!mxrt_reference_run(&request, &err), "%s", err.message);
    ck_assert_mem_eq(a, b, (size_t)(data_shape[0] * data_shape[1]));
    for (int64_t row = 0; row < scales_shape[0]; row++) {
        for (int64_t k = 0; k < BPR; k++)
            ck_assert_int_eq(sb[k * scales_shape[0] + row], sa[row * BPR + k]);
    }
    /* Padding is stored, as zeros where nothing mixes with it. */
    if (!options.hadamard)
        ck_assert_int_eq(code_at(format, a + mx_format_get(format)->block_bytes, LEN - N), 0);
    request.op = MX_OP_FROM;
    request.in = &td;
    request.out = &ty;
    ck_assert_msg(!mxrt_reference_run(&request, &err), "%s", err.message);
    DLTensor tz = plain_of(z, MX_DTYPE_F32, 2, shape, strides);
    request.op = MX_OP_QDQ;
    request.in = &tx;
    request.out = &tz;
    request.scales = NULL;
    ck_assert_msg(!mxrt_reference_run(&request, &err), "%s", err.message);
    ck_assert_mem_eq(y, z, sizeof(y));
}
END_TEST

/* The tile's scale is that of a block with the tile's largest number; batches are tiled apart. */
START_TEST(two_d_scales)
{
    enum { BATCHES = 2, M = 40, K = 64 };
    static float x[BATCHES][M][K];
    static unsigned char data[BATCHES * M * K], scales[BATCHES * 2 * 2];
    int64_t shape[3] = {BATCHES, M, K}, data_shape[2], scales_shape[2];
    mx_ocp_options options = mx_ocp_preset(MX_OCP_ALTO);
    mx_error err = {MX_OK, ""};

    options.two_d = 1;
    for (int i = 0; i < BATCHES * M * K; i++)
        (&x[0][0][0])[i] = ldexpf((float)(int32_t)random32(), -31);
    x[0][31][3] = 64;
    x[0][32][40] = 1024;
    x[1][39][0] = -4096;
    ck_assert(!mxrt_ocp_shape(MX_FORMAT_MXFP8_E4M3, &options, 3, shape, 2, data_shape, scales_shape,
                              &err));
    ck_assert_int_eq(scales_shape[0], 4);
    ck_assert_int_eq(scales_shape[1], 2);
    DLTensor tx = plain_of(x, MX_DTYPE_F32, 3, shape, NULL);
    DLTensor td = tensor_of(data, bytes_type, 2, data_shape, NULL);
    DLTensor ts = tensor_of(scales, bytes_type, 2, scales_shape, NULL);
    mxrt_plan_request request = {.op = MX_OP_TO,
                                 .format = MX_FORMAT_MXFP8_E4M3,
                                 .axis = 2,
                                 .in = &tx,
                                 .out = &td,
                                 .scales = &ts,
                                 .options = &options};
    ck_assert_msg(!mxrt_reference_run(&request, &err), "%s", err.message);
    ck_assert_int_eq(scales[0], 127 + 6 - 8);
    ck_assert_int_eq(scales[3], 127 + 10 - 8);
    ck_assert_int_eq(scales[6], 127 + 12 - 8);
    for (int i = 0; i < 8; i++)
        ck_assert(i == 0 || i == 3 || i == 6 || (scales[i] <= 127 - 8 && scales[i] > 127 - 12));
}
END_TEST

/* However the blocks are dealt out, tiles in the middle of their rows included, the bytes are the
 * same.
 */
START_TEST(ranges_of_blocks)
{
    enum { BATCHES = 3, M = 70, K = 100, BPR = 4, N_BLOCKS = BATCHES * M * BPR };
    static float x[BATCHES * M * K];
    static unsigned char a[N_BLOCKS * N], b[N_BLOCKS * N], sa[N_BLOCKS], sb[N_BLOCKS];
    int64_t shape[3] = {BATCHES, M, K}, data_shape[2], scales_shape[2];
    mx_ocp_options options = mx_ocp_preset(MX_OCP_SPEC);
    mxrt_problem problem;
    mx_error err = {MX_OK, ""};

    options.two_d = _i % 2;
    for (int i = 0; i < BATCHES * M * K; i++)
        x[i] = ldexpf((float)(int32_t)random32(), -(int)(random32() % 40));
    ck_assert(!mxrt_ocp_shape(MX_FORMAT_MXFP6_E3M2, &options, 3, shape, 2, data_shape, scales_shape,
                              &err));
    ck_assert_int_eq(scales_shape[0], options.two_d ? BATCHES * 3 : BATCHES * M);
    DLTensor tx = plain_of(x, MX_DTYPE_F32, 3, shape, NULL);
    DLTensor td = tensor_of(a, bytes_type, 2, data_shape, NULL);
    DLTensor ts = tensor_of(sa, bytes_type, 2, scales_shape, NULL);
    mxrt_plan_request request = {.op = MX_OP_TO,
                                 .format = MX_FORMAT_MXFP6_E3M2,
                                 .axis = 2,
                                 .in = &tx,
                                 .out = &td,
                                 .scales = &ts,
                                 .options = &options};
    ck_assert_msg(!mxrt_reference_run(&request, &err), "%s", err.message);
    td.data = b;
    ts.data = sb;
    ck_assert(!mxrt_problem_init(&problem, &request, (DLDevice){kDLCPU, 0}, 0, &err));
    for (int64_t begin = 0, end; begin < N_BLOCKS; begin = end) {
        end = begin + 1 + (int64_t)(random32() % (random32() % 4 ? 9 : 200));
        end = end < N_BLOCKS ? end : N_BLOCKS;
        mxrt_reference_blocks(&problem, begin, end);
    }
    ck_assert_mem_eq(a, b, (size_t)(data_shape[0] * data_shape[1]));
    ck_assert_mem_eq(sa, sb, (size_t)(scales_shape[0] * scales_shape[1]));
}
END_TEST

/* H of the first unit vector is all ones; H H = 16. */
START_TEST(hadamard_half_blocks)
{
    mx_ocp_options options = mx_ocp_preset(MX_OCP_ALTO);
    float x[N] = {[0] = 4, [17] = 8};

    options.hadamard = 1;
    run_2d(MX_OP_QDQ, MX_FORMAT_MXFP8_E4M3, &options, MX_DTYPE_F32, 1, N, -1, x, NULL, NULL);
    for (int i = 0; i < 16; i++) {
        ck_assert(x[i] == 1.0f);
        ck_assert(x[16 + i] == (i % 2 ? -2.0f : 2.0f));
    }
}
END_TEST

START_TEST(refusals)
{
    float x[N] = {0};
    unsigned char data[32], scales[2];
    int64_t shape[2] = {1, N}, data_shape[2] = {1, 16}, scales_shape[2] = {1, 1};
    DLTensor tx = plain_of(x, MX_DTYPE_F32, 2, shape, NULL);
    DLTensor td = tensor_of(data, bytes_type, 2, data_shape, NULL);
    DLTensor ts = tensor_of(scales, bytes_type, 2, scales_shape, NULL);
    mx_ocp_options bad = {.scale_rule = MX_SCALE_RULE_COUNT};
    mxrt_plan_request good = {.op = MX_OP_TO,
                              .format = MX_FORMAT_MXFP4,
                              .axis = -1,
                              .in = &tx,
                              .out = &td,
                              .scales = &ts};
    mxrt_plan_request request = good;
    mx_error err;

    ck_assert_int_eq(mxrt_reference_run(&request, &err), MX_OK);
    request.scales = NULL;
    ck_assert_int_eq(mxrt_reference_run(&request, &err), MX_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "scales"));
    request = good;
    request.options = &bad;
    ck_assert_int_eq(mxrt_reference_run(&request, &err), MX_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "scale rule 4"));
    request = good;
    request.profile = MX_PROFILE_DEMOTED_255;
    ck_assert_int_eq(mxrt_reference_run(&request, &err), MX_ERR_INVALID);
    request = good;
    request.format = MX_FORMAT_MX9;
    ck_assert_int_eq(mxrt_reference_run(&request, &err), MX_ERR_INVALID);
    request = good;
    scales_shape[1] = 2;
    ck_assert_int_eq(mxrt_reference_run(&request, &err), MX_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "needs [1, 1]"));
    scales_shape[1] = 1;
    ts.data = data + 3;
    ck_assert_int_eq(mxrt_reference_run(&request, &err), MX_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "overlaps"));
}
END_TEST

/* The device's functions and plans, on the host without packs. */
START_TEST(device_and_plan)
{
    float x[2 * N], y[2 * N], z[2 * N];
    unsigned char data[2][16], scales[2][2];
    int64_t shape[2] = {2, N}, data_shape[2] = {2, 16}, scales_shape[2] = {2, 1};
    DLTensor tx = plain_of(x, MX_DTYPE_F32, 2, shape, NULL);
    DLTensor ty = plain_of(y, MX_DTYPE_F32, 2, shape, NULL);
    DLTensor tz = plain_of(z, MX_DTYPE_F32, 2, shape, NULL);
    DLTensor td = tensor_of(data[0], bytes_type, 2, data_shape, NULL);
    DLTensor ts = tensor_of(scales[0], bytes_type, 2, scales_shape, NULL);
    mxrt_context *context;
    mxrt_device *device;
    mxrt_plan *plan;
    mxrt_plan_info info;
    mx_error err = {MX_OK, ""};

    for (int i = 0; i < 2 * N; i++)
        x[i] = (float)(i - 11) / 7;
    ck_assert(!mxrt_context_create(NULL, &context, &err));
    ck_assert(!mxrt_device_open(context, "host?threads=2", &device, &err));
    ck_assert(!mxrt_ocp_quantize(device, MX_FORMAT_MXFP4, NULL, -1, &tx, &td, &ts, NULL, &err));
    ck_assert(!mxrt_ocp_dequantize(device, MX_FORMAT_MXFP4, NULL, -1, &td, &ts, &ty, NULL, &err));
    ck_assert(!mxrt_ocp_qdq(device, MX_FORMAT_MXFP4, NULL, -1, &tx, &tz, NULL, &err));
    ck_assert_mem_eq(y, z, sizeof(y));
    mxrt_plan_request request = {.op = MX_OP_TO,
                                 .format = MX_FORMAT_MXFP4,
                                 .axis = -1,
                                 .in = &tx,
                                 .out = &td,
                                 .scales = &ts};
    ck_assert(!mxrt_plan_create(device, &request, &plan, &err));
    ck_assert(!mxrt_plan_get_info(plan, &info, &err));
    ck_assert_uint_eq(info.n_buffers, 3);
    ck_assert_str_eq(info.buffers[2].name, "s");
    ck_assert_int_eq(info.buffers[2].size_bytes, 2);
    ck_assert_int_eq(info.buffers[2].is_output, 1);
    ck_assert_int_eq(mxrt_plan_run(plan, x, data[1], NULL, &err), MX_ERR_INVALID);
    memset(data[1], 0xaa, sizeof(data[1]));
    unsigned char other[2][16], other_scales[2];
    ck_assert(!mxrt_plan_run_scaled(plan, x, other, other_scales, NULL, &err));
    ck_assert(!mxrt_plan_run(plan, NULL, NULL, NULL, &err));
    ck_assert_mem_eq(other, data, sizeof(other));
    ck_assert_mem_eq(other_scales, scales, 2);
    mxrt_plan_destroy(plan);
    mxrt_device_close(device);
    mxrt_context_destroy(context);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ocp");
    TCase *tests = tcase_create("all");
    const int n_formats = MX_FORMAT_COUNT - FIRST;

    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, expected_files);
    tcase_add_test(tests, cross_check);
    tcase_add_test(tests, rules_on_four_values);
    tcase_add_loop_test(tests, every_code_and_scale, 0, n_formats);
    tcase_add_test(tests, philox_vectors);
    tcase_add_loop_test(tests, stochastic_bits, 0, n_formats);
    tcase_add_loop_test(tests, stochastic_unbiased, 0, n_formats);
    tcase_add_loop_test(tests, axes_strides_and_scales_layout, 0, 12);
    tcase_add_test(tests, two_d_scales);
    tcase_add_loop_test(tests, ranges_of_blocks, 0, 6);
    tcase_add_test(tests, hadamard_half_blocks);
    tcase_add_test(tests, refusals);
    tcase_add_test(tests, device_and_plan);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
