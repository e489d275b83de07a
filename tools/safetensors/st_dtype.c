#include "safetensors.h"

#include <string.h>

#include <mxgen/error.h>

static const struct {
    const char *name;
    int bits;
} st_dtypes[ST_DTYPE_COUNT] = {
    [ST_F64] = {"F64", 64},
    [ST_F32] = {"F32", 32},
    [ST_F16] = {"F16", 16},
    [ST_BF16] = {"BF16", 16},
    [ST_I64] = {"I64", 64},
    [ST_I32] = {"I32", 32},
    [ST_I16] = {"I16", 16},
    [ST_I8] = {"I8", 8},
    [ST_U64] = {"U64", 64},
    [ST_U32] = {"U32", 32},
    [ST_U16] = {"U16", 16},
    [ST_U8] = {"U8", 8},
    [ST_BOOL] = {"BOOL", 8},
    [ST_F8_E4M3] = {"F8_E4M3", 8},
    [ST_F8_E5M2] = {"F8_E5M2", 8},
    [ST_F8_E8M0] = {"F8_E8M0", 8},
    [ST_F8_E4M3FNUZ] = {"F8_E4M3FNUZ", 8},
    [ST_F8_E5M2FNUZ] = {"F8_E5M2FNUZ", 8},
    [ST_F6_E2M3] = {"F6_E2M3", 6},
    [ST_F6_E3M2] = {"F6_E3M2", 6},
    [ST_F4] = {"F4", 4},
    [ST_C64] = {"C64", 64},
};

const char *st_dtype_name(st_dtype dtype)
{
    return (unsigned)dtype < ST_DTYPE_COUNT ? st_dtypes[dtype].name : NULL;
}

int st_dtype_bits(st_dtype dtype)
{
    return (unsigned)dtype < ST_DTYPE_COUNT ? st_dtypes[dtype].bits : 0;
}

int st_dtype_parse(const char *name, st_dtype *out)
{
    for (int i = 0; name && i < ST_DTYPE_COUNT; i++) {
        if (!strcmp(name, st_dtypes[i].name))
            return *out = (st_dtype)i, 0;
    }
    return -1;
}

mx_status st_tensor_bytes(st_dtype dtype, size_t ndim, const int64_t *shape, int64_t *size_bytes,
                          mx_error *err)
{
    int64_t bits = st_dtype_bits(dtype);
    int has_zero = 0;
    if (bits == 0)
        return mx_fail(err, MX_ERR_INVALID, "element type number %d is unknown", (int)dtype);
    for (size_t i = 0; i < ndim; i++) {
        if (shape[i] < 0)
            return mx_fail(err, MX_ERR_INVALID, "dimension %zu is %lld; the least is 0", i,
                           (long long)shape[i]);
        has_zero |= shape[i] == 0;
    }
    for (size_t i = 0; i < ndim && !has_zero; i++) {
        if (__builtin_mul_overflow(bits, shape[i], &bits))
            return mx_fail(err, MX_ERR_INVALID,
                           "the product of its shape overflows at dimension %zu (%lld)", i,
                           (long long)shape[i]);
    }
    if (has_zero)
        bits = 0;
    if (bits % 8 != 0)
        return mx_fail(err, MX_ERR_INVALID, "%lld bits of %s do not fill whole bytes",
                       (long long)bits, st_dtype_name(dtype));
    *size_bytes = bits / 8;
    return MX_OK;
}

const char *st_printable(const char *text, char out[ST_PRINTABLE_BYTES])
{
    static const char hex[] = "0123456789abcdef";
    size_t n = 0;
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (n + 8 > ST_PRINTABLE_BYTES) {
            memcpy(out + n, "...", 3);
            n += 3;
            break;
        }
        if (*p < 0x20 || *p == 0x7f) {
            out[n++] = '\\';
            out[n++] = 'x';
            out[n++] = hex[*p >> 4];
            out[n++] = hex[*p & 15];
        } else {
            out[n++] = (char)*p;
        }
    }
    out[n] = 0;
    return out;
}
