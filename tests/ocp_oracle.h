/* A second, slow statement of the OCP formats in exact doubles, and calls of the reference. */
#ifndef MX_TESTS_OCP_ORACLE_H
#define MX_TESTS_OCP_ORACLE_H

#include "runtime/reference.h"

enum { N = MX_OCP_BLOCK, FIRST = MX_FORMAT_PACKED_COUNT };

extern const DLDataType bytes_type;
DLTensor tensor_of(void *data, DLDataType type, int ndim, int64_t *shape, int64_t *strides);
DLTensor plain_of(void *data, mx_dtype dtype, int ndim, int64_t *shape, int64_t *strides);
uint32_t random32(void);

/* An operation on a [rows, len] tensor along `axis`, everything contiguous. */
void run_2d(mx_op op, mx_format format, const mx_ocp_options *options, mx_dtype dtype, int64_t rows,
            int64_t len, int axis, void *plain, void *data, void *scales);

/* A number of an element type by its bits; element number i set to such bits. */
double native_value(mx_dtype dtype, uint32_t native);
void put_native(void *x, mx_dtype dtype, int i, uint32_t native);

double max_normal(mx_format format);
double code_value(mx_format format, unsigned code);
unsigned code_at(mx_format format, const unsigned char *data, int i);
/* The scale byte by the largest magnitude; the code of x with a scale byte. */
int want_scale(mx_format format, const mx_ocp_options *options, double amax);
unsigned want_code(mx_format format, const mx_ocp_options *options, double x, int byte);

#endif
