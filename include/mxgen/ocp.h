/* The OCP formats: MXFP4, MXFP6, MXFP8, MXINT8 (OCP Microscaling Formats v1.0), and how they are
 * quantised.
 *
 * A block is 32 consecutive elements along one axis; it has one scale byte b, the power of two
 * 2^(b - 127); b = 255 makes the whole block NaN. An element decodes to value(code) * 2^(b - 127).
 * Data and scales are separate. The codes of a block are a little-endian bit stream: MXFP4 has the
 * even element in the low nibble, MXFP6 four codes in three bytes, MXFP8 and MXINT8 a byte an
 * element.
 *
 *   format     element  exponent, mantissa bits  emax  max_normal  NaN, Inf
 *   mxfp4      E2M1     2, 1 (bias 1)            2     6           none
 *   mxfp6e2m3  E2M3     2, 3 (bias 1)            2     7.5         none
 *   mxfp6e3m2  E3M2     3, 2 (bias 3)            4     28          none
 *   mxfp8e4m3  E4M3     4, 3 (bias 7)            8     448         NaN 0x7f (fn: no Inf)
 *   mxfp8e5m2  E5M2     5, 2 (bias 15)           15    57344       NaN 0x7d..0x7f, Inf 0x7c
 *   mxint8     q / 64   two's complement         0     127/64      none; -128 is not written
 *
 * Quantising. amax is the largest magnitude of the block (or of the 32 x 32 tile) that is not NaN.
 * The scale rule makes the byte from it (see mx_scale_rule), at most 254; amax = 0 gives zero_byte;
 * otherwise the byte is min_byte at least. Then y = x / 2^(b - 127), exactly, is rounded to the
 * element type; what is larger than max_normal becomes max_normal, or with `overflow` NaN (E4M3)
 * or Inf (E5M2). A NaN becomes 0x7f in E4M3 and E5M2, code 0 in the others.
 *
 * Stochastic rounding. The element at position i of block k (position 32 k + i of the padded data)
 * takes word i % 4 of Philox4x32-10 with counter ((32 k + i) / 4, 0, 0) and the seed as the key,
 * both low word first. It is a function of the position alone, so that tiling and backend do not
 * matter. With m mantissa bits, the upper 23 - m bits of the word are added to the f32 bits of |y|
 * below the last mantissa bit (below the smallest normal number, to the bits of |y| + smallest),
 * and the rest is cut off.
 *
 * Everything is exact in f32 arithmetic with subnormals, so that all devices give the same bytes.
 */
#ifndef MXGEN_OCP_H
#define MXGEN_OCP_H

#include <string.h>

#include <mxgen/format.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MX_OCP_BLOCK 32

/* The byte before its limits, minus 127. For amax = Inf, `even` gives 128 - emax, the others 127.
 */
typedef enum mx_scale_rule {
    MX_SCALE_FLOOR = 0, /* floor(log2 amax) - emax */
    MX_SCALE_EVEN,  /* the exponent field of amax's f32 bits plus half a unit of the element's last
                       mantissa bit, minus 127 and emax */
    MX_SCALE_CEIL,  /* ceil(log2 amax) - emax */
    MX_SCALE_RCEIL, /* ceil(log2(amax / max_normal)) */
    MX_SCALE_RULE_COUNT
} mx_scale_rule;

typedef enum mx_rounding {
    MX_ROUND_EVEN = 0, /* nearest, ties to the even code */
    MX_ROUND_UP,       /* nearest, ties away from zero */
    MX_ROUND_STOCHASTIC,
    MX_ROUNDING_COUNT
} mx_rounding;

typedef struct mx_ocp_options {
    mx_scale_rule scale_rule;
    mx_rounding rounding;
    uint64_t seed; /* of stochastic rounding */
    uint8_t zero_byte, min_byte;
    float min_amax;    /* amax is taken as this at least, where it is not 0 */
    uint8_t plus_zero; /* nonzero: what becomes zero becomes +0; else its sign is kept */
    uint8_t nan_scale; /* nonzero: a NaN in the block (or tile) makes its scale 255 */
    uint8_t overflow;  /* nonzero: beyond max_normal is NaN or Inf, where the element has one */
    uint8_t two_d;     /* nonzero: a scale for each tile of 32 rows */
    uint8_t hadamard;  /* nonzero: each half block is first rotated; see below */
} mx_ocp_options;
/* Hadamard: 16 values v become H v / 4, H the Sylvester matrix, in f32 by four butterfly passes
 * (distance 1, 2, 4, 8: a, b -> a + b, a - b), then times 0.25. Padding takes part. Dequantising
 * does not rotate back. */

typedef struct mx_ocp_element {
    int exponent_bits, mantissa_bits, bias, emax;
    uint32_t max_bits; /* max_normal as f32 */
} mx_ocp_element;

/* NULL for formats that are no OCP formats. MXINT8: mantissa_bits 6, one exponent, 0. */
static inline const mx_ocp_element *mx_ocp_element_get(mx_format format)
{
    static const mx_ocp_element table[] = {
        {2, 1, 1, 2, 0x40c00000}, {2, 3, 1, 2, 0x40f00000},   {3, 2, 3, 4, 0x41e00000},
        {4, 3, 7, 8, 0x43e00000}, {5, 2, 15, 15, 0x47600000}, {0, 6, 0, 0, 0x3ffe0000},
    };
    return mx_format_is_ocp(format) ? &table[format - MX_FORMAT_PACKED_COUNT] : NULL;
}

/* Named presets over the options. */
typedef enum mx_ocp_profile {
    MX_OCP_ALTO = 0, /* the default */
    MX_OCP_SPEC,     /* "ocp": OCP MX v1.0, microxcaling */
    MX_OCP_PRIMUS,
    MX_OCP_TE_ROCM,
    MX_OCP_RCEIL,
    MX_OCP_A8,
    MX_OCP_PROFILE_COUNT
} mx_ocp_profile;

static inline const char *mx_ocp_profile_name(mx_ocp_profile profile)
{
    static const char *const names[MX_OCP_PROFILE_COUNT] = {"alto",    "ocp",   "primus",
                                                            "te-rocm", "rceil", "a8"};
    return (unsigned)profile < MX_OCP_PROFILE_COUNT ? names[profile] : "unknown";
}

/* 0 and sets *out, or -1 and leaves it alone. */
static inline int mx_ocp_profile_parse(const char *name, mx_ocp_profile *out)
{
    for (int i = 0; name && i < MX_OCP_PROFILE_COUNT; i++) {
        if (!strcmp(name, mx_ocp_profile_name((mx_ocp_profile)i)))
            return *out = (mx_ocp_profile)i, 0;
    }
    return -1;
}

/* The options of a profile; those of MX_OCP_ALTO for a value outside the enum. */
static inline mx_ocp_options mx_ocp_preset(mx_ocp_profile profile)
{
    mx_ocp_options options;

    memset(&options, 0, sizeof(options));
    options.scale_rule = MX_SCALE_EVEN;
    switch (profile) {
    case MX_OCP_SPEC:
        options.scale_rule = MX_SCALE_FLOOR;
        options.nan_scale = 1;
        break;
    case MX_OCP_PRIMUS:
        break;
    case MX_OCP_TE_ROCM:
        options.zero_byte = 127;
        options.rounding = MX_ROUND_UP;
        options.plus_zero = 1;
        break;
    case MX_OCP_RCEIL:
        options.scale_rule = MX_SCALE_RCEIL;
        options.nan_scale = 1;
        break;
    case MX_OCP_A8:
        options.scale_rule = MX_SCALE_RCEIL;
        options.zero_byte = 19;
        options.min_amax = 1e-30f;
        break;
    default:
        options.zero_byte = options.min_byte = 1;
        break;
    }
    return options;
}

#ifdef __cplusplus
}
#endif
#endif
