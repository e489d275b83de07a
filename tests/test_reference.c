/* The reference against: golden blocks, files of expected bytes, and a second, slow statement of
 * the formats in exact double arithmetic. */
#include <check.h>
#include <fenv.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "runtime/reference.h"

static const DLDevice cpu = {kDLCPU, 0};

static DLDataType dl_type(mx_dtype dtype)
{
    static const DLDataType types[MX_DTYPE_COUNT] = {
        {kDLFloat, 32, 1}, {kDLBfloat, 16, 1}, {kDLFloat, 16, 1}};
    return types[dtype];
}

static DLTensor tensor_of(void *data, DLDataType type, int ndim, int64_t *shape, int64_t *strides)
{
    return (DLTensor){.data = data,
                      .device = cpu,
                      .ndim = ndim,
                      .dtype = type,
                      .shape = shape,
                      .strides = strides};
}

static void run(mx_op op, mx_format format, mx_profile profile, int axis, const DLTensor *in,
                const DLTensor *out)
{
    mxrt_plan_request request = {
        .op = op, .format = format, .profile = profile, .axis = axis, .in = in, .out = out};
    mx_error err = {MX_OK, ""};

    ck_assert_msg(mxrt_reference_run(&request, &err) == MX_OK, "%s", err.message);
}

/* One row of `n` elements to bytes, or back. */
static void row_to(mx_format format, mx_dtype dtype, void *x, int64_t n, unsigned char *p)
{
    int64_t packed_shape[2] = {(n + 15) / 16, mx_format_get(format)->block_bytes};
    DLTensor tx = tensor_of(x, dl_type(dtype), 1, &n, NULL);
    DLTensor tp = tensor_of(p, (DLDataType){kDLUInt, 8, 1}, 2, packed_shape, NULL);

    run(MX_OP_TO, format, MX_PROFILE_PACKED, -1, &tx, &tp);
}

static void row_from(mx_format format, mx_dtype dtype, unsigned char *p, void *y, int64_t n)
{
    int64_t packed_shape[2] = {(n + 15) / 16, mx_format_get(format)->block_bytes};
    DLTensor ty = tensor_of(y, dl_type(dtype), 1, &n, NULL);
    DLTensor tp = tensor_of(p, (DLDataType){kDLUInt, 8, 1}, 2, packed_shape, NULL);

    run(MX_OP_FROM, format, MX_PROFILE_PACKED, -1, &tp, &ty);
}

static void row_qdq(mx_format format, mx_dtype dtype, mx_profile profile, void *x, void *y,
                    int64_t n)
{
    DLTensor tx = tensor_of(x, dl_type(dtype), 1, &n, NULL);
    DLTensor ty = tensor_of(y, dl_type(dtype), 1, &n, NULL);

    run(MX_OP_QDQ, format, profile, -1, &tx, &ty);
}

/* ---- The second statement ---- */

/* Value, exponent of the element (field minus bias), and class, from native bits. */
typedef struct element {
    double value;
    int exponent, is_nan, is_inf;
} element;

static element element_of(mx_dtype dtype, uint32_t bits)
{
    const mx_dtype_info *info = mx_dtype_get(dtype);
    int width = info->bytes * 8, fields = (1 << (width - 1 - info->mantissa_bits)) - 1;
    int field = (int)(bits >> info->mantissa_bits) & fields;
    uint32_t mantissa = bits & ((1u << info->mantissa_bits) - 1);
    element e = {0};

    e.exponent = field - info->exponent_bias;
    if (field == fields) {
        e.exponent = -info->exponent_bias;
        e.is_nan = mantissa != 0;
        e.is_inf = !e.is_nan;
        e.value = HUGE_VAL;
    } else if (!field) {
        e.value = ldexp(mantissa, 1 - info->exponent_bias - info->mantissa_bits);
    } else {
        e.value =
            ldexp(mantissa + (double)(1u << info->mantissa_bits), e.exponent - info->mantissa_bits);
    }
    if (bits >> (width - 1))
        e.value = -e.value;
    return e;
}

typedef struct block {
    int exponent, prime[8], q[16];
} block;

static double clamp(double value, double limit)
{
    return value > limit ? limit : value < -limit ? -limit : value;
}

static block block_of(mx_format format, mx_profile profile, const element *e)
{
    int qb = mx_format_get(format)->code_bits;
    block b = {.exponent = -1000};

    for (int i = 0; i < 16; i++)
        b.exponent = e[i].exponent > b.exponent ? e[i].exponent : b.exponent;
    for (int i = 0; i < 16; i++) {
        int p = i / 2;
        b.prime[p] = b.exponent - e[2 * p].exponent >= 1 && b.exponent - e[2 * p + 1].exponent >= 1;
        int scale = b.exponent - b.prime[p] - qb + 2;
        double limit = mx_format_get(format)->code_max;
        if (profile == MX_PROFILE_DEMOTED_255)
            limit = (ldexp(1, b.exponent + 1) - ldexp(1, scale)) / ldexp(1, scale);
        else if (scale < -126)
            scale = -126;
        b.q[i] = e[i].is_nan ? 0 : (int)rint(clamp(e[i].value * ldexp(1, -scale), limit));
    }
    return b;
}

static void block_bytes_of(mx_format format, const block *b, unsigned char *out)
{
    int bits = mx_format_get(format)->code_bits, low = bits == 5 ? 4 : bits;
    unsigned char *codes = out + (bits == 5 ? 4 : 2);

    memset(out, 0, (size_t)mx_format_get(format)->block_bytes);
    out[0] = (unsigned char)(b->exponent + 127);
    for (int p = 0; p < 8; p++)
        out[1] |= (unsigned char)(b->prime[p] << p);
    for (int i = 0; i < 16; i++) {
        if (bits == 5 && b->q[i] < 0)
            out[2 + i / 8] |= (unsigned char)(1 << (i % 8));
        for (int bit = 0; bit < low; bit++) {
            int at = i * low + bit;
            if (b->q[i] & 1 << bit)
                codes[at / 8] |= (unsigned char)(1 << (at % 8));
        }
    }
}

/* Round to nearest even in exact arithmetic, Inf beyond the largest. */
static uint32_t narrow(mx_dtype dtype, double value)
{
    const mx_dtype_info *info = mx_dtype_get(dtype);
    int width = info->bytes * 8;
    uint32_t sign = signbit(value) ? 1u << (width - 1) : 0;
    int lowest = 1 - info->exponent_bias, exponent;

    uint32_t infinity = ((1u << (width - 1 - info->mantissa_bits)) - 1) << info->mantissa_bits;

    value = fabs(value);
    if (value == 0 || isinf(value))
        return sign | (value == 0 ? 0 : infinity);
    frexp(value, &exponent);
    exponent = exponent - 1 < lowest ? lowest : exponent - 1;
    uint32_t units = (uint32_t)rint(ldexp(value, info->mantissa_bits - exponent));
    /* Carries go into the exponent by themselves. */
    uint32_t bits = units + ((uint32_t)(exponent - lowest) << info->mantissa_bits);
    return sign | (bits > infinity ? infinity : bits);
}

static double value_of(mx_format format, mx_profile profile, const block *b, int i)
{
    int scale = b->exponent - b->prime[i / 2] - mx_format_get(format)->code_bits + 2;

    if (profile == MX_PROFILE_PACKED && scale < -126)
        scale = -126;
    /* f32 first: what is beyond it is Inf for all types. */
    return (double)(float)(b->q[i] * ldexp(1, scale));
}

static uint32_t get(const void *data, mx_dtype dtype, int64_t i)
{
    return dtype == MX_DTYPE_F32 ? ((const uint32_t *)data)[i] : ((const uint16_t *)data)[i];
}

static void put(void *data, mx_dtype dtype, int64_t i, uint32_t bits)
{
    if (dtype == MX_DTYPE_F32)
        ((uint32_t *)data)[i] = bits;
    else
        ((uint16_t *)data)[i] = (uint16_t)bits;
}

/* Check's own assertions report every pass, too, which is slow in sweeps. */
static void expect(uint32_t got, uint32_t want, const char *what, int f, int i)
{
    if (got != want)
        ck_abort_msg("%s %s element %d: got %08" PRIx32 ", want %08" PRIx32,
                     mx_format_get((mx_format)f)->name, what, i, got, want);
}

/* Every operation on one block of native bits against the second statement. */
static void check_block(mx_dtype dtype, const uint32_t bits[16])
{
    uint32_t x[16], y[16];
    element e[16];

    for (int i = 0; i < 16; i++) {
        put(x, dtype, i, bits[i]);
        e[i] = element_of(dtype, bits[i]);
    }
    for (int f = 0; f < MX_FORMAT_PACKED_COUNT; f++) {
        unsigned char got[18], want[18];
        block b = block_of(f, MX_PROFILE_PACKED, e), full = block_of(f, MX_PROFILE_DEMOTED_255, e);
        block_bytes_of(f, &b, want);
        row_to(f, dtype, x, 16, got);
        for (int i = 0; i < mx_format_get(f)->block_bytes; i++)
            expect(got[i], want[i], "to", f, i);
        row_from(f, dtype, got, y, 16);
        for (int i = 0; i < 16; i++)
            expect(get(y, dtype, i), narrow(dtype, value_of(f, MX_PROFILE_PACKED, &b, i)), "from",
                   f, i);
        memset(y, 0xa5, sizeof(y));
        row_qdq(f, dtype, MX_PROFILE_PACKED, x, y, 16);
        for (int i = 0; i < 16; i++)
            expect(get(y, dtype, i), narrow(dtype, value_of(f, MX_PROFILE_PACKED, &b, i)), "from",
                   f, i);
        row_qdq(f, dtype, MX_PROFILE_DEMOTED_255, x, y, 16);
        for (int i = 0; i < 16; i++) {
            uint32_t expected = narrow(dtype, value_of(f, MX_PROFILE_DEMOTED_255, &full, i));
            expect(get(y, dtype, i), e[i].is_nan ? bits[i] : expected, "demoted-255", f, i);
        }
    }
}

static uint32_t random_state = 12345;

static uint32_t random32(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

/* ---- Tests ---- */

static void check_golden(const float *x, const char *mx9, const char *mx6)
{
    unsigned char got[18];
    char hex[37];
    const char *want[2] = {mx9, mx6};
    float block_elements[16];

    memcpy(block_elements, x, sizeof(block_elements));
    for (int f = 0; f < 2; f++) {
        row_to(f, MX_DTYPE_F32, block_elements, 16, got);
        for (int i = 0; i < mx_format_get(f)->block_bytes; i++)
            snprintf(hex + 2 * i, 3, "%02x", got[i]);
        ck_assert_str_eq(hex, want[f]);
    }
}

START_TEST(golden_blocks)
{
    const uint32_t tiny[4] = {0, 0x007fffff, 0x00400000, 0x00400001};
    float x[16];

    for (int i = 0; i < 16; i++)
        x[i] = (float)(i - 8) * 0.75f;
    check_golden(x, "817ca0acb8c4a0b8d0e80018304860784854", "817cff00648774da3096fca9");
    check_golden((float[16]){128, 1.4f, 1.4f, 1.4f}, "86fe40010101000000000000000000000000",
                 "86fe00000800000000000000");
    for (int i = 0; i < 16; i++)
        x[i] = i == 0 ? INFINITY : i == 1 ? -INFINITY : 4;
    check_golden(x, "81017f814040404040404040404040404040", "810102001f88888888888888");
    for (int i = 0; i < 16; i++)
        x[i] = 0x1.fffffep127f;
    check_golden(x, "fe007f7f7f7f7f7f7f7f7f7f7f7f7f7f7f7f", "fe000000ffffffffffffffff");
    memset(x, 0, sizeof(x));
    memcpy(x, tiny, sizeof(tiny));
    x[0] = 1e-40f;
    check_golden(x, "000000010001000000000000000000000000", "000000001010000000000000");
    check_golden((float[16]){0x1p-126f, -0x1.8p-126f, 0x1p-125f},
                 "02fd01fe0200000000000000000000000000", "02fd0200e102000000000000");
}
END_TEST

START_TEST(mx4_stream)
{
    /* E = 1, scale 2^0: codes 3 -3 1 -1 2 -2 0 .. in three bits each, lowest bits first. */
    float x[16] = {3, -3, 1, -1, 2, -2};
    unsigned char p[8], want[8] = {0x80, 0, 0, 0, 0, 0, 0, 0};
    uint64_t stream = 0;
    const uint64_t codes[6] = {3, 5, 2, 6, 2, 6};

    /* The second pair is demoted: its scale is 2^-1 and its codes double. */
    want[1] = 0xfa;
    for (int i = 0; i < 6; i++)
        stream |= codes[i] << (3 * i);
    for (int i = 0; i < 6; i++)
        want[2 + i] = (unsigned char)(stream >> (8 * i));
    row_to(MX_FORMAT_MX4, MX_DTYPE_F32, x, 16, p);
    ck_assert_mem_eq(p, want, 8);
}
END_TEST

START_TEST(f16_edges)
{
    uint16_t x[16] = {0}, y[16];
    unsigned char p[18], want[18] = {112};

    row_to(MX_FORMAT_MX9, MX_DTYPE_F16, x, 16, p);
    ck_assert_mem_eq(p, want, 18);
    /* 65504 * 2 is beyond f16. */
    memset(p, 0, sizeof(p));
    p[0] = 127 + 16;
    p[2] = 64;
    p[3] = (unsigned char)-64;
    row_from(MX_FORMAT_MX9, MX_DTYPE_F16, p, y, 16);
    ck_assert_uint_eq(y[0], 0x7c00);
    ck_assert_uint_eq(y[1], 0xfc00);
    ck_assert_uint_eq(y[2], 0);
    /* 3 * 2^-25 lies halfway between 1 and 2 units of 2^-24: to even. */
    p[0] = 127 - 25 + 6;
    p[2] = 3;
    p[3] = 1;
    row_from(MX_FORMAT_MX9, MX_DTYPE_F16, p, y, 16);
    ck_assert_uint_eq(y[0], 2);
    ck_assert_uint_eq(y[1], 0);
}
END_TEST

/* Bytes that no encoder writes decode by the formula, too. */
START_TEST(decode_any_bytes)
{
    for (int f = 0; f < MX_FORMAT_PACKED_COUNT; f++) {
        for (int round = 0; round < 4000; round++) {
            unsigned char p[18];
            int qb = mx_format_get(f)->code_bits, low = qb == 5 ? 4 : qb;
            block b;
            for (int i = 0; i < 18; i++)
                p[i] = (unsigned char)random32();
            if (round < 256)
                p[0] = (unsigned char)round;
            b.exponent = p[0] - 127;
            for (int i = 0; i < 16; i++) {
                int code = 0;
                for (int bit = 0; bit < low; bit++) {
                    int at = i * low + bit;
                    code |= (p[(qb == 5 ? 4 : 2) + at / 8] >> (at % 8) & 1) << bit;
                }
                int negative = qb == 5 ? p[2 + i / 8] >> (i % 8) & 1 : code >> (low - 1) & 1;
                b.q[i] = code - (negative << low);
                b.prime[i / 2] = p[1] >> (i / 2) & 1;
            }
            for (int d = 0; d < MX_DTYPE_COUNT; d++) {
                uint32_t y[16];
                row_from(f, d, p, y, 16);
                for (int i = 0; i < 16; i++)
                    expect(get(y, d, i), narrow(d, value_of(f, MX_PROFILE_PACKED, &b, i)), "decode",
                           f, i);
            }
        }
    }
}
END_TEST

/* Every 16-bit pattern, next to neighbours of many magnitudes. */
START_TEST(all_half_patterns)
{
    mx_dtype dtype = _i ? MX_DTYPE_F16 : MX_DTYPE_BF16;

    for (uint32_t pattern = 0; pattern < 0x10000; pattern++) {
        uint32_t bits[16];
        for (int i = 0; i < 16; i++)
            bits[i] = pattern;
        if (pattern & 1) {
            for (int i = 1; i < 16; i++)
                bits[i] = pattern ^ (random32() & 0xffff & ~(0xffffu << (random32() % 16)));
        }
        check_block(dtype, bits);
    }
}
END_TEST

START_TEST(random_f32_patterns)
{
    for (int round = 0; round < 40000; round++) {
        uint32_t bits[16], base = random32(), spread = random32() % 32;
        for (int i = 0; i < 16; i++)
            bits[i] = round % 8 ? base ^ (random32() >> spread) : random32();
        if (round % 5 == 0) {
            for (int i = 0; i < 16; i++)
                bits[i] &= 0x81ffffff; /* around the subnormals */
        }
        check_block(MX_DTYPE_F32, bits);
    }
}
END_TEST

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

static void check_case(const char *name, mx_dtype dtype, int64_t rows, int64_t last, int f)
{
    const char *suffixes[2][2] = {{".mx9", ".mx9.out"}, {".mx6", ".mx6.out"}};
    size_t in_bytes, packed_bytes, out_bytes;
    void *in = read_case(name, ".in", &in_bytes);
    void *packed = read_case(name, suffixes[f][0], &packed_bytes);
    void *out = read_case(name, suffixes[f][1], &out_bytes);
    int64_t shape[2] = {rows, last}, packed_shape[2];
    mx_error err;

    ck_assert_int_eq(mxrt_packed_shape(f, 2, shape, -1, &packed_shape[0], &packed_shape[1], &err),
                     MX_OK);
    ck_assert_uint_eq(packed_bytes, (size_t)(packed_shape[0] * packed_shape[1]));
    ck_assert_uint_eq(in_bytes, out_bytes);
    unsigned char *got = malloc(packed_bytes), *y = malloc(out_bytes), *again = malloc(out_bytes);
    DLTensor tx = tensor_of(in, dl_type(dtype), 2, shape, NULL);
    DLTensor ty = tensor_of(y, dl_type(dtype), 2, shape, NULL);
    DLTensor tz = tensor_of(again, dl_type(dtype), 2, shape, NULL);
    DLTensor tp = tensor_of(got, (DLDataType){kDLUInt, 8, 1}, 2, packed_shape, NULL);
    run(MX_OP_TO, f, MX_PROFILE_PACKED, -1, &tx, &tp);
    ck_assert_msg(!memcmp(got, packed, packed_bytes), "%s: packed bytes differ", name);
    run(MX_OP_FROM, f, MX_PROFILE_PACKED, -1, &tp, &ty);
    ck_assert_msg(!memcmp(y, out, out_bytes), "%s: decoded elements differ", name);
    run(MX_OP_QDQ, f, MX_PROFILE_PACKED, 1, &tx, &tz);
    ck_assert_msg(!memcmp(again, out, out_bytes), "%s: requantised elements differ", name);
    free(again);
    free(y);
    free(got);
    free(out);
    free(packed);
    free(in);
}

START_TEST(expected_files)
{
    size_t size_bytes, i;
    char *text = read_case("index", ".json", &size_bytes);
    json_t *index = json_loadb(text, size_bytes, 0, NULL), *set;

    ck_assert_uint_ge(json_array_size(index), 30);
    json_array_foreach(index, i, set)
    {
        mx_dtype dtype;
        ck_assert_int_eq(mx_dtype_parse(json_string_value(json_object_get(set, "dtype")), &dtype),
                         0);
        for (int f = 0; f < 2; f++)
            check_case(json_string_value(json_object_get(set, "name")), dtype,
                       json_integer_value(json_object_get(set, "rows")),
                       json_integer_value(json_object_get(set, "last")), f);
    }
    json_decref(index);
    free(text);
}
END_TEST

/* One random geometry: `to` with strides on both sides, block by block against rows copied out. */
static void check_strides(mx_format format, mx_dtype dtype)
{
    int ndim = 1 + (int)(random32() % 4), axis = (int)(random32() % (uint32_t)ndim);
    int64_t shape[4], strides[4], packed_shape[2], packed_strides[2], next = 1 + random32() % 2;
    int64_t block_bytes = mx_format_get(format)->block_bytes, rows = 1, swapped[4], at[4] = {0};
    int order[4] = {0, 1, 2, 3};

    for (int i = 0; i < ndim; i++) {
        int other = i + (int)(random32() % (uint32_t)(ndim - i)), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (int i = 0; i < ndim; i++)
        shape[i] = 1 + random32() % (i == axis ? 40 : 5);
    for (int i = 0; i < ndim; i++) {
        strides[order[i]] = next;
        next = next * shape[order[i]] + random32() % 3;
    }
    mx_error err;
    ck_assert_int_eq(
        mxrt_packed_shape(format, ndim, shape, axis, &packed_shape[0], &packed_shape[1], &err),
        MX_OK);
    packed_strides[1] = 1 + random32() % 2;
    packed_strides[0] = packed_strides[1] * block_bytes + random32() % 4;
    uint32_t *x = malloc((size_t)next * 4 + 64), *y = malloc((size_t)next * 4 + 64);
    size_t p_bytes = (size_t)(packed_shape[0] * packed_strides[0]) + 64;
    unsigned char *p = calloc(1, p_bytes), *untouched = calloc(1, p_bytes);
    for (int64_t i = 0; i < next; i++)
        put(x, dtype, i, random32() >> (dtype == MX_DTYPE_F32 ? 0 : 16));
    memset(y, 0, (size_t)next * 4);
    DLTensor tx = tensor_of(x, dl_type(dtype), ndim, shape, strides);
    DLTensor ty = tensor_of(y, dl_type(dtype), ndim, shape, strides);
    DLTensor tp = tensor_of(p, (DLDataType){kDLUInt, 8, 1}, 2, packed_shape, packed_strides);
    run(MX_OP_TO, format, MX_PROFILE_PACKED, axis, &tx, &tp);
    run(MX_OP_FROM, format, MX_PROFILE_PACKED, axis - ndim, &tp, &ty);

    for (int i = 0; i < ndim; i++)
        swapped[i] = i == axis ? ndim - 1 : i == ndim - 1 ? axis : i;
    for (int i = 0; i < ndim - 1; i++)
        rows *= shape[swapped[i]];
    int64_t len = shape[axis], bpr = (len + 15) / 16, seen = 0;
    for (int64_t r = 0; r < rows; r++) {
        uint32_t row[48], back[48];
        unsigned char want[3 * 18];
        int64_t base = 0, axis_stride = strides[axis];
        for (int i = 0; i < ndim - 1; i++)
            base += at[i] * strides[swapped[i]];
        for (int64_t i = 0; i < len; i++)
            put(row, dtype, i, get(x, dtype, base + i * axis_stride));
        row_to(format, dtype, row, len, want);
        row_from(format, dtype, want, back, len);
        for (int64_t b = 0; b < bpr; b++, seen++) {
            for (int64_t i = 0; i < block_bytes; i++) {
                int64_t byte = seen * packed_strides[0] + i * packed_strides[1];
                expect(p[byte], want[b * block_bytes + i], "byte", (int)format, (int)i);
                p[byte] = 0;
            }
        }
        for (int64_t i = 0; i < len; i++) {
            expect(get(y, dtype, base + i * axis_stride), get(back, dtype, i), "row", (int)format,
                   (int)i);
            put(y, dtype, base + i * axis_stride, 0);
        }
        for (int i = ndim - 2; i >= 0 && ++at[i] == shape[swapped[i]]; i--)
            at[i] = 0;
    }
    /* What lies between the strides was not written. */
    ck_assert_mem_eq(p, untouched, p_bytes);
    for (int64_t i = 0; i < next; i++)
        expect(get(y, dtype, i), 0, "gap", (int)format, (int)i);
    free(untouched);
    free(p);
    free(y);
    free(x);
}

START_TEST(any_strides)
{
    for (int round = 0; round < 600; round++)
        check_strides(round % MX_FORMAT_PACKED_COUNT, round / 3 % MX_DTYPE_COUNT);
}
END_TEST

START_TEST(many_dimensions)
{
    /* Nine dimensions that do not merge: more than kernels take. */
    int64_t shape[10], strides[10], next = 2, packed_shape[2] = {512, 18};
    static float x[1 << 17];
    static unsigned char p[512 * 18];

    for (int i = 9; i >= 0; i--) {
        shape[i] = i == 9 ? 16 : 2;
        strides[i] = next;
        next = next * shape[i] + 1;
    }
    ck_assert_int_lt(next, 1 << 17);
    for (int64_t i = 0; i < next; i++)
        x[i] = (float)i;
    DLTensor tx = tensor_of(x, dl_type(MX_DTYPE_F32), 10, shape, strides);
    DLTensor tp = tensor_of(p, (DLDataType){kDLUInt, 8, 1}, 2, packed_shape, NULL);
    run(MX_OP_TO, MX_FORMAT_MX9, MX_PROFILE_PACKED, -1, &tx, &tp);
    for (int64_t b = 0; b < 512; b++) {
        float row[16];
        unsigned char want[18];
        int64_t base = 0;
        for (int i = 0; i < 9; i++)
            base += (b >> (8 - i) & 1) * strides[i];
        for (int i = 0; i < 16; i++)
            row[i] = x[base + 2 * i];
        row_to(MX_FORMAT_MX9, MX_DTYPE_F32, row, 16, want);
        ck_assert_mem_eq(p + 18 * b, want, 18);
    }
}
END_TEST

START_TEST(broadcast_input)
{
    float row[20], full[5][20];
    unsigned char p[10 * 18], want[10 * 18];
    int64_t shape[2] = {5, 20}, strides[2] = {0, 1}, packed_shape[2] = {10, 18};

    for (int i = 0; i < 20; i++) {
        row[i] = (float)i - 3.3f;
        for (int r = 0; r < 5; r++)
            full[r][i] = row[i];
    }
    DLTensor narrow_x = tensor_of(row, dl_type(MX_DTYPE_F32), 2, shape, strides);
    DLTensor full_x = tensor_of(full, dl_type(MX_DTYPE_F32), 2, shape, NULL);
    DLTensor tp = tensor_of(p, (DLDataType){kDLUInt, 8, 1}, 2, packed_shape, NULL);
    DLTensor tw = tensor_of(want, (DLDataType){kDLUInt, 8, 1}, 2, packed_shape, NULL);
    run(MX_OP_TO, MX_FORMAT_MX9, MX_PROFILE_PACKED, -1, &narrow_x, &tp);
    run(MX_OP_TO, MX_FORMAT_MX9, MX_PROFILE_PACKED, -1, &full_x, &tw);
    ck_assert_mem_eq(p, want, sizeof(p));
}
END_TEST

/* The caller's rounding mode and flushing of subnormals change nothing and are kept. */
START_TEST(caller_environment)
{
    float x[16], y[16], z[16];
    unsigned char p[18], want[18];
    const int modes[4] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};

    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 16; i++)
            x[i] = ldexpf((float)(random32() & 0xffff) - 32768.f, round % 2 ? -15 : -143);
        row_to(MX_FORMAT_MX9, MX_DTYPE_F32, x, 16, want);
        row_qdq(MX_FORMAT_MX9, MX_DTYPE_F32, MX_PROFILE_DEMOTED_255, x, z, 16);
        for (int m = 0; m < 4; m++) {
            fesetround(modes[m]);
#if defined(__x86_64__)
            unsigned csr = _mm_getcsr();
            _mm_setcsr(csr | 0x8040);
#endif
            row_to(MX_FORMAT_MX9, MX_DTYPE_F32, x, 16, p);
            row_qdq(MX_FORMAT_MX9, MX_DTYPE_F32, MX_PROFILE_DEMOTED_255, x, y, 16);
#if defined(__x86_64__)
            ck_assert_uint_eq(_mm_getcsr() & 0x8040, 0x8040);
            _mm_setcsr(csr);
#endif
            ck_assert_int_eq(fegetround(), modes[m]);
            fesetround(FE_TONEAREST);
            ck_assert_mem_eq(p, want, 18);
            ck_assert_mem_eq(y, z, sizeof(y));
        }
    }
}
END_TEST

START_TEST(zero_rows)
{
    int64_t shape[2] = {0, 17}, packed_shape[2] = {0, 12};
    DLTensor tx = tensor_of(NULL, dl_type(MX_DTYPE_BF16), 2, shape, NULL);
    DLTensor tp = tensor_of(NULL, (DLDataType){kDLUInt, 8, 1}, 2, packed_shape, NULL);

    run(MX_OP_TO, MX_FORMAT_MX6, MX_PROFILE_PACKED, -1, &tx, &tp);
    run(MX_OP_FROM, MX_FORMAT_MX6, MX_PROFILE_PACKED, -1, &tp, &tx);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reference");
    TCase *tests = tcase_create("all");

    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, golden_blocks);
    tcase_add_test(tests, mx4_stream);
    tcase_add_test(tests, f16_edges);
    tcase_add_test(tests, decode_any_bytes);
    tcase_add_loop_test(tests, all_half_patterns, 0, 2);
    tcase_add_test(tests, random_f32_patterns);
    tcase_add_test(tests, expected_files);
    tcase_add_test(tests, any_strides);
    tcase_add_test(tests, many_dimensions);
    tcase_add_test(tests, broadcast_input);
    tcase_add_test(tests, caller_environment);
    tcase_add_test(tests, zero_rows);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
