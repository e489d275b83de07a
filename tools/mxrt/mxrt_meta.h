/* The metadata that makes a packed tensor a tensor again: key "mxgen.NAME", value a JSON object. */
#ifndef MXRT_META_H
#define MXRT_META_H

#include <mxgen/format.h>

#include "safetensors.h"

#define META_PREFIX "mxgen."
#define META_VERSION 1

typedef struct meta_packed {
    mx_format format;
    mx_dtype dtype;
    int axis; /* not negative */
    size_t ndim;
    int64_t *shape; /* owned */
} meta_packed;

/* Text to be released with free(); NULL when memory ran out. */
char *meta_key(const char *name);
char *meta_value(const meta_packed *packed);

/* Whether `key` is one of ours; *name is set to the tensor's name in it. */
int meta_is_ours(const char *key, const char **name);

/* Parses the value of tensor `name` and checks it against the tensor itself. */
mx_status meta_parse(const char *value, const st_tensor *tensor, meta_packed *out, mx_error *err);
void meta_packed_finish(meta_packed *packed); /* takes a zeroed one, too */

/* The element types that the formats take, in the spelling of the file. */
int meta_dtype_from_file(st_dtype dtype, mx_dtype *out); /* 0, or -1 */
st_dtype meta_dtype_to_file(mx_dtype dtype);

#endif
