#include "ocp_oracle.h"

#include <check.h>
#include <math.h>
#include <string.h>

const DLDataType bytes_type = {kDLUInt, 8, 1};

DLTensor tensor_of(void *data, DLDataType type, int ndim, int64_t *shape, int64_t *strides)
{
    return (DLTensor){.data = data,
                      .device = {kDLCPU, 0},
                      .ndim = ndim,
                      .dtype = type,
                      .shape = shape,
                      .strides = strides};
}

DLTensor plain_of(void *data, mx_dtype dtype, int ndim, int64_t *shape, int64_t *strides)
{
    static const DLDataType types[MX_DTYPE_COUNT] = {
        {kDLFloat, 32, 1}, {kDLBfloat, 16, 1}, {kDLFloat, 16, 1}};
    return tensor_of(data, types[dtype], ndim, shape, strides);
}

uint32_t random32(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

void run_2d(mx_op op, mx_format format, const mx_ocp_options *options, mx_dtype dtype, int64_t rows,
            int64_t len, int axis, void *plain, void *data, void *scales)
{
    int64_t shape[2] = {rows, len}, data_shape[2], scales_shape[2];
    mx_error err = {MX_OK, ""};

    ck_assert_msg(!mxrt_ocp_shape(format, options, 2, shape, axis, data_shape, scales_shape, &err),
                  "%s", err.message);
    DLTensor x = plain_of(plain, dtype, 2, shape, NULL);
    DLTensor d = tensor_of(data, bytes_type, 2, data_shape, NULL);
    DLTensor s = tensor_of(scales, bytes_type, 2, scales_shape, NULL);
    mxrt_plan_request request = {.op = op,
                                 .format = format,
                                 .axis = axis,
                                 .in = op == MX_OP_FROM ? &d : &x,
                                 .out = op == MX_OP_TO ? &d : &x,
                                 .scales = op == MX_OP_QDQ ? NULL : &s,
                                 .options = options};
    ck_assert_msg(mxrt_reference_run(&request, &err) == MX_OK, "%s", err.message);
}

/* ---- The second statement ---- */

static double value_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return (double)value;
}

double native_value(mx_dtype dtype, uint32_t native)
{
    if (dtype == MX_DTYPE_F32)
        return value_of_bits(native);
    if (dtype == MX_DTYPE_BF16)
        return value_of_bits(native << 16);
    int exponent = native >> 10 & 31, mantissa = native & 0x3ff;
    double value = exponent == 31 ? (mantissa ? NAN : INFINITY)
                   : exponent     ? ldexp(1024 + mantissa, exponent - 25)
                                  : ldexp(mantissa, -24);
    return native & 0x8000 ? -value : value;
}

double max_normal(mx_format format)
{
    static const double most[] = {6, 7.5, 28, 448, 57344, 127.0 / 64};
    return most[format - FIRST];
}

/* A code's value, from the element's definition. */
static double define_value(mx_format format, unsigned code)
{
    static const int exponents[] = {2, 2, 3, 4, 5}, mantissas[] = {1, 3, 2, 3, 2};
    if (format == MX_FORMAT_MXINT8)
        return (double)(code < 128 ? (int)code : (int)code - 256) / 64;
    int e = exponents[format - FIRST], m = mantissas[format - FIRST];
    int bias = (1 << (e - 1)) - 1;
    int field = (int)(code >> m) & ((1 << e) - 1), rest = (int)code & ((1 << m) - 1);
    double sign = code >> (e + m) & 1 ? -1 : 1;
    if (format == MX_FORMAT_MXFP8_E4M3 && field == 15 && rest == 7)
        return NAN;
    if (format == MX_FORMAT_MXFP8_E5M2 && field == 31)
        return rest ? NAN : sign * INFINITY;
    return sign * (field ? ldexp((1 << m) + rest, field - bias - m) : ldexp(rest, 1 - bias - m));
}

double code_value(mx_format format, unsigned code)
{
    static double values[MX_FORMAT_COUNT - FIRST][256];
    static int known[MX_FORMAT_COUNT - FIRST];
    int at = format - FIRST;

    for (unsigned i = 0; !known[at] && i < 256; i++)
        values[at][i] = define_value(format, i);
    known[at] = 1;
    return values[at][code];
}

/* log2 rules by search over powers of two, exactly. */
int want_scale(mx_format format, const mx_ocp_options *options, double amax)
{
    static const int emax[] = {2, 2, 4, 8, 15, 0}, kept[] = {1, 3, 2, 3, 2, 6};
    int e, byte, at = format - FIRST;

    if (amax == 0)
        return options->zero_byte;
    if (amax < (double)options->min_amax)
        amax = (double)options->min_amax;
    if (options->scale_rule == MX_SCALE_EVEN) {
        if (isinf(amax)) {
            byte = 255 - emax[at];
        } else {
            /* Half a unit in amax's own binade; subnormal numbers are in that of 2^-126. */
            frexp(amax, &e);
            int binade = e - 1 < -126 ? -126 : e - 1;
            double sum = amax + ldexp(0.5, binade - kept[at]);
            frexp(sum, &e);
            byte = (e - 1 < -126 ? 0 : e - 1 + 127) - emax[at];
        }
    } else if (isinf(amax)) {
        byte = 254;
    } else {
        double over =
            options->scale_rule == MX_SCALE_RCEIL ? max_normal(format) : ldexp(1, emax[at]);
        frexp(amax / over, &e);
        e -= 3;
        while (ldexp(over, e) < amax)
            e++;
        /* e is the ceiling of log2(amax / over). */
        if (options->scale_rule == MX_SCALE_FLOOR && ldexp(over, e) > amax)
            e--;
        byte = e + 127;
    }
    byte = byte < options->min_byte ? options->min_byte : byte;
    return byte > 254 ? 254 : byte;
}

/* The nearest code by looking at all, magnitudes ascending. */
unsigned want_code(mx_format format, const mx_ocp_options *options, double x, int byte)
{
    unsigned most = (unsigned)mx_format_get(format)->code_max, best = 0;
    unsigned sign = 1u << (mx_format_get(format)->code_bits - 1);
    int has_nan = format == MX_FORMAT_MXFP8_E4M3 || format == MX_FORMAT_MXFP8_E5M2;
    double y = ldexp(fabs(x), 127 - byte);

    if (isnan(x))
        return has_nan ? 0x7f : 0;
    if (y >= max_normal(format)) {
        best = most;
        if (y > max_normal(format) && options->overflow && has_nan)
            best = format == MX_FORMAT_MXFP8_E4M3 ? 0x7f : 0x7c;
    } else {
        /* Sixteen at a time first. */
        while (best + 16 < most && code_value(format, best + 16) <= y)
            best += 16;
        while (code_value(format, best + 1) <= y)
            best++;
        double below = y - code_value(format, best), above = code_value(format, best + 1) - y;
        if (above < below || (above == below && (options->rounding == MX_ROUND_UP || best % 2)))
            best++;
    }
    if (format == MX_FORMAT_MXINT8)
        return signbit(x) ? (256 - best) & 0xff : best;
    return signbit(x) && (best || !options->plus_zero) ? best | sign : best;
}

unsigned code_at(mx_format format, const unsigned char *data, int i)
{
    int bits = mx_format_get(format)->code_bits, at = i * bits;
    unsigned word = data[at / 8];
    if (at % 8 + bits > 8)
        word |= (unsigned)data[at / 8 + 1] << 8;
    return word >> at % 8 & ((1u << bits) - 1);
}

void put_native(void *x, mx_dtype dtype, int i, uint32_t native)
{
    if (dtype == MX_DTYPE_F32)
        ((uint32_t *)x)[i] = native;
    else
        ((uint16_t *)x)[i] = (uint16_t)native;
}
