/* The cases that tests and benchmarks share: shapes, strides, offsets, axes and values. Formats and
 * element types are loops around them. Values depend on the seed alone, not on the machine. */
#ifndef MXGEN_CASES_H
#define MXGEN_CASES_H

#include <stddef.h>
#include <stdint.h>

#include <dlpack/dlpack.h>

#include <mxgen/format.h>

#define MX_CASE_MAX_DIMS 8

typedef enum mx_values {
    MX_VALUES_NORMAL = 0, /* mean 0, deviation 1, within +-3.5 */
    MX_VALUES_OUTLIERS,   /* the same; one in 64 is up to 2^12 times larger */
    MX_VALUES_SPREAD,     /* every exponent of the type is as likely as any other */
    MX_VALUES_TIES,       /* halves of a code: k + 1/2 for small k, by a power of two a block */
    MX_VALUES_TINY,       /* subnormals, the smallest normals, zeros */
    MX_VALUES_HUGE,       /* the largest finite values, some infinite */
    MX_VALUES_ZERO,       /* +0 and -0 */
    MX_VALUES_BITS,       /* any bit pattern: NaN, Inf and all else */
    MX_VALUES_COUNT
} mx_values;

enum { MX_CASE_TEST = 1, MX_CASE_BENCH = 2 };

typedef struct mx_case {
    const char *name;
    unsigned uses; /* MX_CASE_TEST | MX_CASE_BENCH */
    int ndim;
    int64_t shape[MX_CASE_MAX_DIMS];
    int axis;
    mx_values values;
    /* The plain tensor's memory: */
    int strided; /* nonzero: `strides` count, in elements; else row-major */
    int64_t strides[MX_CASE_MAX_DIMS];
    int64_t offset;   /* elements before the first one: misaligns the data */
    int is_broadcast; /* has a stride of 0: fit for inputs only */
    /* The packed tensor's memory, in bytes; 0 stands for the contiguous one. */
    int64_t packed_block_gap; /* between the end of a block and the next block */
    int64_t packed_byte_stride;
    int64_t packed_offset;
} mx_case;

size_t mx_case_count(void);
const mx_case *mx_case_at(size_t index); /* NULL past the end */
const char *mx_values_name(mx_values values);

/* Blocks of the packed formats, of 16, and elements of the plain tensor. */
int64_t mx_case_blocks(const mx_case *c);
int64_t mx_case_elements(const mx_case *c);
/* Memory that the tensors span, offsets included. */
int64_t mx_case_plain_bytes(const mx_case *c, mx_dtype dtype);
int64_t mx_case_packed_bytes(const mx_case *c, mx_format format);

/* A DLPack tensor with the arrays it points to. */
typedef struct mx_case_tensor {
    DLTensor tensor;
    int64_t shape[MX_CASE_MAX_DIMS];
    int64_t strides[MX_CASE_MAX_DIMS];
} mx_case_tensor;

/* `base` is memory of mx_case_plain_bytes (or mx_case_packed_bytes); the offset is applied. */
void mx_case_plain(const mx_case *c, mx_dtype dtype, DLDevice device, void *base,
                   mx_case_tensor *out);
void mx_case_packed(const mx_case *c, mx_format format, DLDevice device, void *base,
                    mx_case_tensor *out);

/* Any row-major tensor. */
void mx_case_contiguous(DLDataType type, DLDevice device, int ndim, const int64_t *shape,
                        void *data, mx_case_tensor *out);
DLDataType mx_case_dl_type(mx_dtype dtype);

/* Fills n elements. */
void mx_case_fill(mx_values values, uint64_t seed, mx_dtype dtype, void *data, int64_t n);

/* The next of a sequence of 64-bit numbers (splitmix64). */
uint64_t mx_case_random(uint64_t *state);

/* Conversions that round to nearest even; exact the other way. */
uint16_t mx_case_f32_to_bf16(float value);
uint16_t mx_case_f32_to_f16(float value);
float mx_case_to_f32(mx_dtype dtype, const void *data, int64_t index);

#endif
