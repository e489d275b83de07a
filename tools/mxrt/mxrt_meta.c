#include "mxrt_meta.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <mxgen/error.h>
#include <mxgen/rt.h>

char *meta_key(const char *name)
{
    char *key = NULL;
    return asprintf(&key, META_PREFIX "%s", name) < 0 ? NULL : key;
}

int meta_is_ours(const char *key, const char **name)
{
    size_t length = strlen(META_PREFIX);
    if (strncmp(key, META_PREFIX, length) != 0)
        return 0;
    *name = key + length;
    return 1;
}

char *meta_value(const meta_packed *packed)
{
    json_t *shape = json_array();
    for (size_t i = 0; i < packed->ndim; i++)
        json_array_append_new(shape, json_integer(packed->shape[i]));
    json_t *value =
        json_pack("{s:s, s:o, s:i, s:s, s:s, s:i}", "format", mx_format_get(packed->format)->name,
                  "shape", shape, "axis", packed->axis, "dtype", mx_dtype_get(packed->dtype)->name,
                  "profile", mx_profile_name(MX_PROFILE_PACKED), "version", META_VERSION);
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    json_decref(value);
    return text;
}

int meta_dtype_from_file(st_dtype dtype, mx_dtype *out)
{
    switch (dtype) {
    case ST_F32:
        return *out = MX_DTYPE_F32, 0;
    case ST_BF16:
        return *out = MX_DTYPE_BF16, 0;
    case ST_F16:
        return *out = MX_DTYPE_F16, 0;
    default:
        return -1;
    }
}

st_dtype meta_dtype_to_file(mx_dtype dtype)
{
    return dtype == MX_DTYPE_F32 ? ST_F32 : dtype == MX_DTYPE_BF16 ? ST_BF16 : ST_F16;
}

static mx_status parse_names(json_t *value, const char *name, meta_packed *out, mx_error *err)
{
    char text[ST_PRINTABLE_BYTES];
    const char *format = json_string_value(json_object_get(value, "format"));
    const char *dtype = json_string_value(json_object_get(value, "dtype"));
    const char *profile = json_string_value(json_object_get(value, "profile"));
    if (!format || mx_format_parse(format, &out->format) != 0 || mx_format_is_ocp(out->format))
        return mx_fail(err, MX_ERR_CORRUPT,
                       "metadata of \"%s\": format \"%s\" is not mx9, mx6 or mx4", name,
                       st_printable(format ? format : "", text));
    if (!dtype || mx_dtype_parse(dtype, &out->dtype) != 0)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "metadata of \"%s\": dtype \"%s\" is not f32, bf16 or f16", name,
                       st_printable(dtype ? dtype : "", text));
    if (!profile || strcmp(profile, mx_profile_name(MX_PROFILE_PACKED)) != 0)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "metadata of \"%s\": profile \"%s\" is unknown; this version knows \"%s\"",
                       name, st_printable(profile ? profile : "", text),
                       mx_profile_name(MX_PROFILE_PACKED));
    return MX_OK;
}

static mx_status parse_shape(json_t *value, const char *name, meta_packed *out, mx_error *err)
{
    json_t *shape = json_object_get(value, "shape"), *item;
    json_t *axis = json_object_get(value, "axis");
    size_t i, ndim = json_array_size(shape);
    if (!json_is_array(shape) || ndim == 0)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "metadata of \"%s\": shape is missing, empty or no array", name);
    out->shape = calloc(ndim, sizeof(*out->shape));
    if (!out->shape)
        return mx_fail(err, MX_ERR_NO_MEMORY, "metadata of \"%s\": no memory for %zu dimensions",
                       name, ndim);
    json_array_foreach(shape, i, item)
    {
        if (!json_is_integer(item) || json_integer_value(item) < 1)
            return mx_fail(err, MX_ERR_CORRUPT,
                           "metadata of \"%s\": dimension %zu is not an integer of at least 1",
                           name, i);
        out->shape[i] = json_integer_value(item);
    }
    out->ndim = ndim;
    if (!json_is_integer(axis) || json_integer_value(axis) < 0 ||
        (uint64_t)json_integer_value(axis) >= ndim)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "metadata of \"%s\": axis is not an integer from 0 to "
                       "%zu",
                       name, ndim - 1);
    out->axis = (int)json_integer_value(axis);
    return MX_OK;
}

/* The packed tensor must have exactly the blocks that its old shape needs. */
static mx_status check_packed(const st_tensor *tensor, const char *name, const meta_packed *packed,
                              mx_error *err)
{
    int64_t bytes, n_blocks = 1;
    mx_error why;
    if (st_tensor_bytes(meta_dtype_to_file(packed->dtype), packed->ndim, packed->shape, &bytes,
                        &why) != MX_OK)
        return mx_fail(err, MX_ERR_CORRUPT, "metadata of \"%s\": %s", name, why.message);
    /* No overflow: fewer blocks than elements, whose product has just been checked. */
    for (size_t i = 0; i < packed->ndim; i++)
        n_blocks *= (int)i == packed->axis ? packed->shape[i] / MX_BLOCK_ELEMENTS +
                                                 (packed->shape[i] % MX_BLOCK_ELEMENTS != 0)
                                           : packed->shape[i];
    int block_bytes = mx_format_get(packed->format)->block_bytes;
    if (tensor->dtype != ST_U8 || tensor->ndim != 2 || tensor->shape[0] != n_blocks ||
        tensor->shape[1] != block_bytes)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "tensor \"%s\" is not U8 [%lld, %d], which its metadata needs", name,
                       (long long)n_blocks, block_bytes);
    return MX_OK;
}

mx_status meta_parse(const char *value, const st_tensor *tensor, meta_packed *out, mx_error *err)
{
    char name[ST_PRINTABLE_BYTES], text[ST_PRINTABLE_BYTES];
    json_error_t json_err;
    meta_packed packed = {0};
    mx_status status = MX_ERR_CORRUPT;
    st_printable(tensor->name, name);
    json_t *root = json_loads(value, JSON_REJECT_DUPLICATES, &json_err);
    json_t *version = json_object_get(root, "version");
    if (!json_is_object(root))
        mx_fail(err, status, "metadata of \"%s\" is no JSON object: %s", name,
                root ? "it is something else" : st_printable(json_err.text, text));
    else if (!json_is_integer(version) || json_integer_value(version) < 1)
        mx_fail(err, status, "metadata of \"%s\": version is not an integer of at least 1", name);
    else if (json_integer_value(version) > META_VERSION)
        status = mx_fail(err, MX_ERR_UNSUPPORTED,
                         "metadata of \"%s\" has version %lld; this program reads up to %d: use a "
                         "newer one",
                         name, (long long)json_integer_value(version), META_VERSION);
    else
        status = parse_names(root, name, &packed, err);
    if (status == MX_OK)
        status = parse_shape(root, name, &packed, err);
    if (status == MX_OK)
        status = check_packed(tensor, name, &packed, err);
    json_decref(root);
    if (status != MX_OK) {
        meta_packed_finish(&packed);
        return status;
    }
    *out = packed;
    return MX_OK;
}

void meta_packed_finish(meta_packed *packed)
{
    free(packed->shape);
    memset(packed, 0, sizeof(*packed));
}
