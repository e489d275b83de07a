/* What makes a packed tensor a tensor again, from two sources: metadata of ours (key "mxgen.NAME",
 * value a JSON object), or, for the OCP formats, the names, types and shapes of data and scales in
 * files that others wrote (mxrt_foreign.c). */
#ifndef MXRT_META_H
#define MXRT_META_H

#include <mxgen/format.h>
#include <mxgen/ocp.h>

#include "safetensors.h"

#define META_PREFIX "mxgen."
#define META_VERSION 1
/* What follows a tensor's name in that of its scales. */
#define META_SCALE_SUFFIX "_scale"

typedef struct meta_packed {
    mx_format format;
    mx_dtype dtype;
    mx_profile profile; /* of the packed formats; only qdq has another than MX_PROFILE_PACKED */
    int axis;           /* not negative */
    size_t ndim;
    int64_t *shape; /* owned */
    /* Of the OCP formats: */
    mx_ocp_profile ocp_profile;
    mx_ocp_options options; /* two_d is always right; the others only where they are quantised */
    int64_t seed;           /* as given, of stochastic rounding */
    char *scales_name;      /* owned */
    /* Bytes of a row of data, where its last block is cut short; else 0. */
    int64_t cut_row_bytes;
} meta_packed;

/* Text to be released with free(); NULL when memory ran out. */
char *meta_key(const char *name);
char *meta_value(const meta_packed *packed);
char *meta_scales_name(const char *name);

/* Whether `key` is one of ours; *name is set to the tensor's name in it. */
int meta_is_ours(const char *key, const char **name);

/* Parses the value of tensor `name` and checks it against the tensor itself, and against its scales
 * in the reader. */
mx_status meta_parse(const char *value, const st_reader *reader, const st_tensor *tensor,
                     meta_packed *out, mx_error *err);
void meta_packed_finish(meta_packed *packed); /* takes a zeroed one, too */

/* Dimensions and element type of data and scales in the file. The axis is swapped with the last
 * dimension, which becomes bytes and blocks; packed formats have two dimensions and no scales. The
 * arrays have room for `packed->ndim` dimensions, and two at least. */
void meta_data_shape(const meta_packed *packed, int64_t *shape, size_t *ndim);
void meta_scales_shape(const meta_packed *packed, int64_t *shape, size_t *ndim);
st_dtype meta_data_dtype(mx_format format);

/* The element types that the formats take, in the spelling of the file. */
int meta_dtype_from_file(st_dtype dtype, mx_dtype *out); /* 0, or -1 */
st_dtype meta_dtype_to_file(mx_dtype dtype);

/* ---- Files of others ---- */

typedef struct foreign_options {
    int has_format;
    mx_format format; /* which one, where the layout fits several */
    mx_dtype dtype;   /* what to restore to: the file does not say */
} foreign_options;

typedef struct foreign_pair {
    char *name; /* of the tensor that data and scales make; owned */
    const st_tensor *scales;
    meta_packed packed;
} foreign_pair;

/* Whether `tensor` is the data of an OCP format by its name, type and shape and those of a tensor
 * of scales: then *found is set and *out filled, which the caller releases. An error where there
 * are such scales but the shapes do not fit, or fit several formats. */
mx_status foreign_find(const st_reader *reader, const st_tensor *tensor,
                       const foreign_options *options, foreign_pair *out, int *found,
                       mx_error *err);

#endif
