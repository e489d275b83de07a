/* The formats, element types and operations, by number and by name.
 *
 * A block is 16 consecutive elements along one axis. With QB code bits, block exponent E (largest
 * exponent field minus bias) and a demotion bit for each pair of elements, element i decodes to
 * q_i * 2^max(E - demoted - QB + 2, -126). The packed block holds E + 127, the 8 demotion bits and
 * 16 codes.
 *
 * The exponent is read in the element's own type: zero and subnormals of f32 and bf16 have -127, of
 * f16 (bias 15) -15. A block of zeros is therefore all zero bytes from f32 and bf16, and has 112 in
 * its first byte from f16. */
#ifndef MXGEN_FORMAT_H
#define MXGEN_FORMAT_H

#include <string.h>

#include <mxgen/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MX_BLOCK_ELEMENTS 16 /* of the packed formats; see mx_format_info.block_elements */

/* The packed formats come first; the OCP formats (mxgen/ocp.h) have data and scales apart. */
typedef enum mx_format {
    MX_FORMAT_MX9 = 0,
    MX_FORMAT_MX6,
    MX_FORMAT_MX4,
    MX_FORMAT_PACKED_COUNT,
    MX_FORMAT_MXFP4 = MX_FORMAT_PACKED_COUNT,
    MX_FORMAT_MXFP6_E2M3,
    MX_FORMAT_MXFP6_E3M2,
    MX_FORMAT_MXFP8_E4M3,
    MX_FORMAT_MXFP8_E5M2,
    MX_FORMAT_MXINT8,
    MX_FORMAT_COUNT
} mx_format;

typedef enum mx_dtype { MX_DTYPE_F32 = 0, MX_DTYPE_BF16, MX_DTYPE_F16, MX_DTYPE_COUNT } mx_dtype;

typedef enum mx_op {
    MX_OP_TO = 0, /* tensor -> packed blocks */
    MX_OP_FROM,   /* packed blocks -> tensor */
    MX_OP_QDQ,    /* tensor -> tensor: from(to(x)) in one pass */
    MX_OP_COUNT
} mx_op;

/* How QDQ rounds. MX_PROFILE_PACKED is from(to(x)). MX_PROFILE_DEMOTED_255 is the PyTorch
 * fake-quantise reference: the scale is not clamped at 2^-126, codes are bounded by
 * (2^(E+1) - scale) / scale, so demoted codes may reach 2^QB - 1, and NaN passes through. */
typedef enum mx_profile {
    MX_PROFILE_PACKED = 0,
    MX_PROFILE_DEMOTED_255,
    MX_PROFILE_COUNT
} mx_profile;

/* Memory layouts for which kernels are specialised, fastest first. */
typedef enum mx_layout {
    MX_LAYOUT_FLAT = 0, /* contiguous, whole blocks, 16-byte aligned */
    MX_LAYOUT_ROWS,     /* unit stride along the axis; ragged ends, any row stride and alignment */
    MX_LAYOUT_TILES,    /* the axis is strided, another dimension has unit stride */
    MX_LAYOUT_GENERAL,  /* any strides on both sides */
    MX_LAYOUT_COUNT,
    /* No layout of one operation's memory: rows and columns of a tensor at once, or rows turned to
     * columns (mxgen/rt.h). */
    MX_LAYOUT_PAIR = MX_LAYOUT_COUNT,
    MX_LAYOUT_END
} mx_layout;

typedef struct mx_format_info {
    const char *name;
    int code_bits;   /* QB */
    int code_max;    /* largest magnitude of a code: 2^(QB-1) - 1, fewer where codes mean NaN */
    int block_bytes; /* packed size of a block; OCP: of its data, without the scale */
    int block_elements;
} mx_format_info;

typedef struct mx_dtype_info {
    const char *name;
    int bytes;
    int mantissa_bits; /* stored */
    int exponent_bias;
} mx_dtype_info;

/* NULL for a value outside the enum. */
static inline const mx_format_info *mx_format_get(mx_format format)
{
    static const mx_format_info table[MX_FORMAT_COUNT] = {
        {"mx9", 8, 127, 18, 16},        {"mx6", 5, 15, 12, 16},
        {"mx4", 3, 3, 8, 16},           {"mxfp4", 4, 7, 16, 32},
        {"mxfp6e2m3", 6, 31, 24, 32},   {"mxfp6e3m2", 6, 31, 24, 32},
        {"mxfp8e4m3", 8, 0x7e, 32, 32}, {"mxfp8e5m2", 8, 0x7b, 32, 32},
        {"mxint8", 8, 127, 32, 32}};
    return (unsigned)format < MX_FORMAT_COUNT ? &table[format] : NULL;
}

/* Nonzero for the formats of mxgen/ocp.h. */
static inline int mx_format_is_ocp(mx_format format)
{
    return format >= MX_FORMAT_PACKED_COUNT && (unsigned)format < MX_FORMAT_COUNT;
}

static inline const mx_dtype_info *mx_dtype_get(mx_dtype dtype)
{
    static const mx_dtype_info table[MX_DTYPE_COUNT] = {
        {"f32", 4, 23, 127}, {"bf16", 2, 7, 127}, {"f16", 2, 10, 15}};
    return (unsigned)dtype < MX_DTYPE_COUNT ? &table[dtype] : NULL;
}

static inline const char *mx_op_name(mx_op op)
{
    static const char *const names[MX_OP_COUNT] = {"to", "from", "qdq"};
    return (unsigned)op < MX_OP_COUNT ? names[op] : "unknown";
}

static inline const char *mx_profile_name(mx_profile profile)
{
    static const char *const names[MX_PROFILE_COUNT] = {"packed", "demoted-255"};
    return (unsigned)profile < MX_PROFILE_COUNT ? names[profile] : "unknown";
}

static inline const char *mx_layout_name(mx_layout layout)
{
    static const char *const names[MX_LAYOUT_END] = {"flat", "rows", "tiles", "general", "pair"};
    return (unsigned)layout < MX_LAYOUT_END ? names[layout] : "unknown";
}

/* The parsers below return 0 and set *out, or return -1 and leave it alone. */
static inline int mx_format_parse(const char *name, mx_format *out)
{
    for (int i = 0; name && i < MX_FORMAT_COUNT; i++) {
        if (!strcmp(name, mx_format_get((mx_format)i)->name))
            return *out = (mx_format)i, 0;
    }
    return -1;
}

static inline int mx_dtype_parse(const char *name, mx_dtype *out)
{
    for (int i = 0; name && i < MX_DTYPE_COUNT; i++) {
        if (!strcmp(name, mx_dtype_get((mx_dtype)i)->name))
            return *out = (mx_dtype)i, 0;
    }
    return -1;
}

static inline int mx_op_parse(const char *name, mx_op *out)
{
    for (int i = 0; name && i < MX_OP_COUNT; i++) {
        if (!strcmp(name, mx_op_name((mx_op)i)))
            return *out = (mx_op)i, 0;
    }
    return -1;
}

static inline int mx_profile_parse(const char *name, mx_profile *out)
{
    for (int i = 0; name && i < MX_PROFILE_COUNT; i++) {
        if (!strcmp(name, mx_profile_name((mx_profile)i)))
            return *out = (mx_profile)i, 0;
    }
    return -1;
}

static inline int mx_layout_parse(const char *name, mx_layout *out)
{
    for (int i = 0; name && i < MX_LAYOUT_END; i++) {
        if (!strcmp(name, mx_layout_name((mx_layout)i)))
            return *out = (mx_layout)i, 0;
    }
    return -1;
}

#ifdef __cplusplus
}
#endif
#endif
