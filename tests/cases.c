#include "tests/cases.h"

#include <string.h>

/* clang-format off */
static const mx_case cases[] = {
    /* The figures of the benchmark. */
    {.name = "square", .uses = MX_CASE_BENCH, .ndim = 2, .shape = {4096, 4096}, .axis = -1},
    {.name = "square-axis0", .uses = MX_CASE_BENCH, .ndim = 2, .shape = {4096, 4096}, .axis = 0},
    {.name = "square-ragged", .uses = MX_CASE_BENCH, .ndim = 2, .shape = {4096, 4095}, .axis = -1},
    /* Contiguous, whole blocks. */
    {.name = "one-block", .uses = MX_CASE_TEST, .ndim = 1, .shape = {16}, .axis = 0},
    {.name = "flat", .uses = MX_CASE_TEST, .ndim = 2, .shape = {33, 256}, .axis = -1},
    {.name = "flat-bits", .uses = MX_CASE_TEST, .ndim = 2, .shape = {64, 1024}, .axis = 1,
     .values = MX_VALUES_BITS},
    {.name = "flat-spread", .uses = MX_CASE_TEST, .ndim = 2, .shape = {64, 512}, .axis = 1,
     .values = MX_VALUES_SPREAD},
    {.name = "flat-ties", .uses = MX_CASE_TEST, .ndim = 2, .shape = {64, 512}, .axis = 1,
     .values = MX_VALUES_TIES},
    {.name = "flat-tiny", .uses = MX_CASE_TEST, .ndim = 2, .shape = {16, 512}, .axis = 1,
     .values = MX_VALUES_TINY},
    {.name = "flat-huge", .uses = MX_CASE_TEST, .ndim = 2, .shape = {16, 512}, .axis = 1,
     .values = MX_VALUES_HUGE},
    {.name = "flat-zero", .uses = MX_CASE_TEST, .ndim = 2, .shape = {16, 64}, .axis = 1,
     .values = MX_VALUES_ZERO},
    {.name = "flat-3d", .uses = MX_CASE_TEST, .ndim = 3, .shape = {3, 5, 64}, .axis = 2,
     .values = MX_VALUES_OUTLIERS},
    /* Ragged ends and unaligned rows. */
    {.name = "one-element", .uses = MX_CASE_TEST, .ndim = 1, .shape = {1}, .axis = 0},
    {.name = "scalar-rows", .uses = MX_CASE_TEST, .ndim = 2, .shape = {37, 1}, .axis = -1},
    {.name = "ragged-15", .uses = MX_CASE_TEST, .ndim = 2, .shape = {5, 15}, .axis = -1},
    {.name = "ragged-17", .uses = MX_CASE_TEST, .ndim = 2, .shape = {9, 17}, .axis = -1,
     .values = MX_VALUES_BITS},
    {.name = "ragged-long", .uses = MX_CASE_TEST, .ndim = 2, .shape = {7, 1021}, .axis = -1,
     .values = MX_VALUES_OUTLIERS},
    {.name = "unaligned", .uses = MX_CASE_TEST, .ndim = 2, .shape = {11, 96}, .axis = -1,
     .offset = 1},
    {.name = "unaligned-packed", .uses = MX_CASE_TEST, .ndim = 2, .shape = {11, 96}, .axis = -1,
     .packed_offset = 3},
    {.name = "padded-rows", .uses = MX_CASE_TEST, .ndim = 2, .shape = {13, 64}, .axis = -1,
     .strided = 1, .strides = {71, 1}, .values = MX_VALUES_BITS},
    /* The axis is strided, another dimension is not. */
    {.name = "axis0", .uses = MX_CASE_TEST, .ndim = 2, .shape = {64, 48}, .axis = 0,
     .values = MX_VALUES_BITS},
    {.name = "axis0-ragged", .uses = MX_CASE_TEST, .ndim = 2, .shape = {45, 37}, .axis = -2,
     .values = MX_VALUES_OUTLIERS},
    {.name = "axis0-tall", .uses = MX_CASE_TEST, .ndim = 2, .shape = {1025, 3}, .axis = 0},
    {.name = "axis0-wide", .uses = MX_CASE_TEST, .ndim = 2, .shape = {3, 1025}, .axis = 0},
    {.name = "axis1-of-3", .uses = MX_CASE_TEST, .ndim = 3, .shape = {4, 35, 33}, .axis = 1},
    {.name = "axis0-of-3", .uses = MX_CASE_TEST, .ndim = 3, .shape = {35, 6, 17}, .axis = 0,
     .values = MX_VALUES_BITS},
    {.name = "axis1-of-4", .uses = MX_CASE_TEST, .ndim = 4, .shape = {2, 18, 3, 20}, .axis = -3},
    {.name = "transposed", .uses = MX_CASE_TEST, .ndim = 2, .shape = {40, 64}, .axis = -1,
     .strided = 1, .strides = {1, 40}},
    {.name = "transposed-axis0", .uses = MX_CASE_TEST, .ndim = 2, .shape = {48, 20}, .axis = 0,
     .strided = 1, .strides = {1, 48}},
    /* Any strides on both sides. */
    {.name = "no-unit-stride", .uses = MX_CASE_TEST, .ndim = 2, .shape = {9, 40}, .axis = -1,
     .strided = 1, .strides = {161, 4}},
    {.name = "gaps", .uses = MX_CASE_TEST, .ndim = 3, .shape = {3, 18, 5}, .axis = 1,
     .strided = 1, .strides = {400, 21, 3}, .values = MX_VALUES_BITS},
    {.name = "packed-gaps", .uses = MX_CASE_TEST, .ndim = 2, .shape = {6, 80}, .axis = -1,
     .packed_block_gap = 14},
    {.name = "packed-strides", .uses = MX_CASE_TEST, .ndim = 2, .shape = {6, 50}, .axis = 0,
     .packed_block_gap = 5, .packed_byte_stride = 2, .packed_offset = 1},
    {.name = "broadcast-rows", .uses = MX_CASE_TEST, .ndim = 2, .shape = {7, 32}, .axis = -1,
     .strided = 1, .strides = {0, 1}, .is_broadcast = 1},
    {.name = "broadcast-axis", .uses = MX_CASE_TEST, .ndim = 2, .shape = {7, 32}, .axis = -1,
     .strided = 1, .strides = {1, 0}, .is_broadcast = 1},
    /* Nothing to do. */
    {.name = "no-rows", .uses = MX_CASE_TEST, .ndim = 2, .shape = {0, 32}, .axis = -1},
    {.name = "no-rows-axis0", .uses = MX_CASE_TEST, .ndim = 3, .shape = {32, 0, 4}, .axis = 0},
};
/* clang-format on */

size_t mx_case_count(void)
{
    return sizeof(cases) / sizeof(cases[0]);
}

const mx_case *mx_case_at(size_t index)
{
    return index < mx_case_count() ? &cases[index] : NULL;
}

const char *mx_values_name(mx_values values)
{
    static const char *const names[MX_VALUES_COUNT] = {"normal", "outliers", "spread", "ties",
                                                       "tiny",   "huge",     "zero",   "bits"};
    return (unsigned)values < MX_VALUES_COUNT ? names[values] : "unknown";
}

/* ---- Geometry ---- */

int64_t mx_case_elements(const mx_case *c)
{
    int64_t n = 1;
    for (int i = 0; i < c->ndim; i++)
        n *= c->shape[i];
    return n;
}

static int64_t blocks_of(const mx_case *c, int64_t block_elements)
{
    int axis = c->axis < 0 ? c->axis + c->ndim : c->axis;
    int64_t rows = 1;
    for (int i = 0; i < c->ndim; i++)
        rows *= i == axis ? 1 : c->shape[i];
    return rows * ((c->shape[axis] + block_elements - 1) / block_elements);
}

int64_t mx_case_blocks(const mx_case *c)
{
    return blocks_of(c, MX_BLOCK_ELEMENTS);
}

static void plain_strides(const mx_case *c, int64_t strides[MX_CASE_MAX_DIMS])
{
    int64_t step = 1;
    for (int i = c->ndim - 1; i >= 0; i--) {
        strides[i] = c->strided ? c->strides[i] : step;
        step *= c->shape[i];
    }
}

static int64_t span(int ndim, const int64_t *shape, const int64_t *strides)
{
    int64_t last = 0;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] == 0)
            return 0;
        last += (shape[i] - 1) * strides[i];
    }
    return last + 1;
}

int64_t mx_case_plain_bytes(const mx_case *c, mx_dtype dtype)
{
    int64_t strides[MX_CASE_MAX_DIMS];
    plain_strides(c, strides);
    return (c->offset + span(c->ndim, c->shape, strides)) * mx_dtype_get(dtype)->bytes;
}

static void packed_geometry(const mx_case *c, mx_format format, int64_t shape[2],
                            int64_t strides[2])
{
    shape[0] = blocks_of(c, mx_format_get(format)->block_elements);
    shape[1] = mx_format_get(format)->block_bytes;
    strides[1] = c->packed_byte_stride ? c->packed_byte_stride : 1;
    strides[0] = shape[1] * strides[1] + c->packed_block_gap;
}

int64_t mx_case_packed_bytes(const mx_case *c, mx_format format)
{
    int64_t shape[2], strides[2];
    packed_geometry(c, format, shape, strides);
    return c->packed_offset + span(2, shape, strides);
}

/* ---- Tensors ---- */

DLDataType mx_case_dl_type(mx_dtype dtype)
{
    DLDataType type = {.code = dtype == MX_DTYPE_BF16 ? kDLBfloat : kDLFloat,
                       .bits = (uint8_t)(8 * mx_dtype_get(dtype)->bytes),
                       .lanes = 1};
    return type;
}

static void make_tensor(DLDataType type, DLDevice device, int ndim, void *data,
                        int64_t offset_bytes, mx_case_tensor *out)
{
    out->tensor = (DLTensor){.data = data ? (char *)data + offset_bytes : NULL,
                             .device = device,
                             .ndim = ndim,
                             .dtype = type,
                             .shape = out->shape,
                             .strides = out->strides};
}

void mx_case_plain(const mx_case *c, mx_dtype dtype, DLDevice device, void *base,
                   mx_case_tensor *out)
{
    memset(out, 0, sizeof(*out));
    memcpy(out->shape, c->shape, sizeof(out->shape));
    plain_strides(c, out->strides);
    make_tensor(mx_case_dl_type(dtype), device, c->ndim, base,
                c->offset * mx_dtype_get(dtype)->bytes, out);
}

void mx_case_packed(const mx_case *c, mx_format format, DLDevice device, void *base,
                    mx_case_tensor *out)
{
    DLDataType type = {.code = kDLUInt, .bits = 8, .lanes = 1};
    memset(out, 0, sizeof(*out));
    packed_geometry(c, format, out->shape, out->strides);
    make_tensor(type, device, 2, base, c->packed_offset, out);
}

void mx_case_contiguous(DLDataType type, DLDevice device, int ndim, const int64_t *shape,
                        void *data, mx_case_tensor *out)
{
    int64_t step = 1;
    memset(out, 0, sizeof(*out));
    for (int i = ndim - 1; i >= 0; i--) {
        out->shape[i] = shape[i];
        out->strides[i] = step;
        step *= shape[i];
    }
    make_tensor(type, device, ndim, data, 0, out);
}

/* ---- Values ---- */

uint64_t mx_case_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint32_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

uint16_t mx_case_f32_to_bf16(float value)
{
    uint32_t bits = float_bits(value);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint16_t mx_case_f32_to_f16(float value)
{
    uint32_t bits = float_bits(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000) /* 65520 and above round to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) {
        /* Below 2^-14 an f16 is a multiple of 2^-24: let the addition round. */
        float shifted = bits_float(magnitude) + 0.5f;
        return (uint16_t)(sign | (float_bits(shifted) - 0x3f000000));
    }
    magnitude += 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (magnitude - 0x38000000) >> 13);
}

static float f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
    if (magnitude >= 0x7c00)
        return bits_float(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
    if (magnitude >= 0x400)
        return bits_float(sign | ((magnitude << 13) + 0x38000000));
    float value = (float)magnitude * 0x1p-24f;
    return sign ? -value : value;
}

float mx_case_to_f32(mx_dtype dtype, const void *data, int64_t index)
{
    if (dtype == MX_DTYPE_F32)
        return ((const float *)data)[index];
    uint16_t bits = ((const uint16_t *)data)[index];
    return dtype == MX_DTYPE_BF16 ? bits_float((uint32_t)bits << 16) : f16_to_f32(bits);
}

/* The sum of four uniform 16-bit numbers, centred, in units of its deviation. */
static float normal(uint64_t random)
{
    int sum = (int)(random & 0xffff) + (int)(random >> 16 & 0xffff) + (int)(random >> 32 & 0xffff) +
              (int)(random >> 48);
    return (float)(sum - 131070) * (1.0f / 37837.0f);
}

/* 2^n of a normal f32. */
static float power_of_two(int n)
{
    return bits_float((uint32_t)(n + 127) << 23);
}

/* A value of the distributions that all types share, rounded to the type by the caller. */
static float common_value(mx_values values, uint64_t random, int64_t index)
{
    switch (values) {
    case MX_VALUES_OUTLIERS:
        return normal(random) * (random % 64 == 7 ? power_of_two((int)(random >> 8 & 15) % 13) : 1);
    case MX_VALUES_TIES: {
        /* The first of a block sets the exponent: codes then have a unit of 2^(scale - 5). */
        float unit = power_of_two((int)(index / MX_BLOCK_ELEMENTS % 9) - 4);
        if (index % MX_BLOCK_ELEMENTS == 0)
            return 64 * unit;
        return ((float)(int)(random % 129) - 64 + 0.5f) * unit;
    }
    case MX_VALUES_ZERO:
        return random & 1 ? -0.0f : 0.0f;
    default:
        return normal(random);
    }
}

/* A bit pattern of the distributions that follow the type. */
static uint32_t type_bits(mx_values values, uint64_t random, mx_dtype dtype)
{
    const mx_dtype_info *info = mx_dtype_get(dtype);
    int total = 8 * info->bytes, mantissa = info->mantissa_bits;
    uint32_t all = total == 32 ? UINT32_MAX : (1u << total) - 1, sign = 1u << (total - 1);
    uint32_t infinity = (sign - 1) & ~((1u << mantissa) - 1);
    uint32_t bits = (uint32_t)random & all;
    if (values == MX_VALUES_BITS)
        return bits;
    if (values == MX_VALUES_TINY) /* exponent fields 0 and 1, many of them exact zeros */
        return bits & (sign | ((2u << mantissa) - 1)) & (random >> 60 ? all : sign);
    if (values == MX_VALUES_HUGE) {
        uint32_t large = infinity - 1 - ((uint32_t)(random >> 40) & ((1u << mantissa) - 1));
        return (bits & sign) | (random >> 59 ? large : infinity);
    }
    /* MX_VALUES_SPREAD: random bits with the all-ones exponent made finite */
    return (bits & infinity) == infinity ? bits ^ (1u << mantissa) : bits;
}

static int follows_type(mx_values values)
{
    return values == MX_VALUES_BITS || values == MX_VALUES_TINY || values == MX_VALUES_HUGE ||
           values == MX_VALUES_SPREAD;
}

void mx_case_fill(mx_values values, uint64_t seed, mx_dtype dtype, void *data, int64_t n)
{
    uint64_t state = seed;
    for (int64_t i = 0; i < n; i++) {
        uint64_t random = mx_case_random(&state);
        uint32_t bits;
        if (follows_type(values)) {
            bits = type_bits(values, random, dtype);
        } else {
            float value = common_value(values, random, i);
            bits = dtype == MX_DTYPE_F32    ? float_bits(value)
                   : dtype == MX_DTYPE_BF16 ? mx_case_f32_to_bf16(value)
                                            : mx_case_f32_to_f16(value);
        }
        if (dtype == MX_DTYPE_F32)
            ((uint32_t *)data)[i] = bits;
        else
            ((uint16_t *)data)[i] = (uint16_t)bits;
    }
}
