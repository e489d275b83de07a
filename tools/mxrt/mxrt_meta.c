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

char *meta_scales_name(const char *name)
{
    char *scales = NULL;
    return asprintf(&scales, "%s" META_SCALE_SUFFIX, name) < 0 ? NULL : scales;
}

static const char *const rounding_names[MX_ROUNDING_COUNT] = {"even", "up", "stochastic"};

static void add_ocp(json_t *value, const meta_packed *packed)
{
    json_object_set_new(value, "profile", json_string(mx_ocp_profile_name(packed->ocp_profile)));
    json_object_set_new(value, "scales", json_string(packed->scales_name));
    json_object_set_new(value, "rounding", json_string(rounding_names[packed->options.rounding]));
    if (packed->options.rounding == MX_ROUND_STOCHASTIC)
        json_object_set_new(value, "seed", json_integer(packed->seed));
    if (packed->options.two_d)
        json_object_set_new(value, "two_d", json_true());
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
    if (value && mx_format_is_ocp(packed->format))
        add_ocp(value, packed);
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    json_decref(value);
    return text;
}

/* ---- Shapes in the file ---- */

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* The shape with the axis last, and the blocks of a row. */
static int64_t swapped_shape(const meta_packed *packed, int64_t *shape)
{
    size_t last = packed->ndim - 1, axis = (size_t)packed->axis;
    int64_t len = packed->shape[axis];
    memcpy(shape, packed->shape, packed->ndim * sizeof(*shape));
    shape[axis] = packed->shape[last];
    shape[last] = len;
    return ceil_div(len, mx_format_get(packed->format)->block_elements);
}

void meta_data_shape(const meta_packed *packed, int64_t *shape, size_t *ndim)
{
    int64_t block_bytes = mx_format_get(packed->format)->block_bytes, n_blocks = 1;
    int64_t bpr = swapped_shape(packed, shape);
    if (mx_format_is_ocp(packed->format)) {
        shape[packed->ndim - 1] = bpr * block_bytes;
        *ndim = packed->ndim;
        return;
    }
    /* No overflow: fewer blocks than elements. */
    for (size_t i = 0; i + 1 < packed->ndim; i++)
        n_blocks *= shape[i];
    shape[0] = n_blocks * bpr;
    shape[1] = block_bytes;
    *ndim = 2;
}

void meta_scales_shape(const meta_packed *packed, int64_t *shape, size_t *ndim)
{
    size_t last = packed->ndim - 1;
    int64_t bpr = swapped_shape(packed, shape);
    shape[last] = bpr;
    if (packed->options.two_d && last > 0)
        shape[last - 1] = ceil_div(shape[last - 1], MX_OCP_BLOCK);
    *ndim = packed->ndim;
}

st_dtype meta_data_dtype(mx_format format)
{
    switch (format) {
    case MX_FORMAT_MXFP8_E4M3:
        return ST_F8_E4M3;
    case MX_FORMAT_MXFP8_E5M2:
        return ST_F8_E5M2;
    case MX_FORMAT_MXINT8:
        return ST_I8;
    default:
        return ST_U8;
    }
}

/* ---- Element types ---- */

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

/* ---- Reading ---- */

/* What the OCP formats have besides. */
static mx_status parse_ocp(json_t *value, const char *name, meta_packed *out, mx_error *err)
{
    char text[ST_PRINTABLE_BYTES];
    const char *profile = json_string_value(json_object_get(value, "profile"));
    const char *scales = json_string_value(json_object_get(value, "scales"));
    json_t *two_d = json_object_get(value, "two_d");
    if (!profile || mx_ocp_profile_parse(profile, &out->ocp_profile) != 0)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "metadata of \"%s\": profile \"%s\" is unknown to this version", name,
                       st_printable(profile ? profile : "", text));
    if (!scales)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "metadata of \"%s\": scales, the name of a tensor, is missing", name);
    if (two_d && !json_is_boolean(two_d))
        return mx_fail(err, MX_ERR_CORRUPT, "metadata of \"%s\": two_d is not true or false", name);
    out->options.two_d = json_is_true(two_d);
    out->scales_name = strdup(scales);
    return out->scales_name ? MX_OK : mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a name");
}

static mx_status parse_names(json_t *value, const char *name, meta_packed *out, mx_error *err)
{
    char text[ST_PRINTABLE_BYTES];
    const char *format = json_string_value(json_object_get(value, "format"));
    const char *dtype = json_string_value(json_object_get(value, "dtype"));
    const char *profile = json_string_value(json_object_get(value, "profile"));
    if (!format || mx_format_parse(format, &out->format) != 0)
        return mx_fail(err, MX_ERR_CORRUPT, "metadata of \"%s\": format \"%s\" is unknown", name,
                       st_printable(format ? format : "", text));
    if (!dtype || mx_dtype_parse(dtype, &out->dtype) != 0)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "metadata of \"%s\": dtype \"%s\" is not f32, bf16 or f16", name,
                       st_printable(dtype ? dtype : "", text));
    if (mx_format_is_ocp(out->format))
        return parse_ocp(value, name, out, err);
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

/* "F8_E4M3 [3, 64]", cut where it is too long. */
static void describe(st_dtype dtype, size_t ndim, const int64_t *shape, char out[128])
{
    int n = snprintf(out, 128, "%s [", st_dtype_name(dtype));
    for (size_t i = 0; i < ndim && n < 100; i++)
        n += snprintf(out + n, (size_t)(128 - n), "%s%lld", i ? ", " : "", (long long)shape[i]);
    snprintf(out + n, (size_t)(128 - n), "]");
}

static mx_status check_stored(const st_tensor *tensor, const char *name, st_dtype dtype,
                              size_t ndim, const int64_t *shape, mx_error *err)
{
    char want[128];
    if (tensor->dtype == dtype && tensor->ndim == ndim &&
        !memcmp(tensor->shape, shape, ndim * sizeof(*shape)))
        return MX_OK;
    describe(dtype, ndim, shape, want);
    return mx_fail(err, MX_ERR_CORRUPT, "tensor \"%s\" is not %s, which its metadata needs", name,
                   want);
}

static mx_status check_scales(const st_reader *reader, const char *name, const meta_packed *packed,
                              int64_t *shape, mx_error *err)
{
    char scales_name[ST_PRINTABLE_BYTES];
    const st_tensor *scales = st_reader_find(reader, packed->scales_name);
    size_t ndim;
    st_printable(packed->scales_name, scales_name);
    if (!scales)
        return mx_fail(err, MX_ERR_CORRUPT, "tensor \"%s\": its scales \"%s\" are not there", name,
                       scales_name);
    meta_scales_shape(packed, shape, &ndim);
    return check_stored(scales, scales_name, scales->dtype == ST_F8_E8M0 ? ST_F8_E8M0 : ST_U8, ndim,
                        shape, err);
}

/* Data and scales must have exactly the blocks that the old shape needs. */
static mx_status check_packed(const st_reader *reader, const st_tensor *tensor, const char *name,
                              const meta_packed *packed, mx_error *err)
{
    int64_t bytes;
    size_t ndim;
    mx_error why;
    if (st_tensor_bytes(meta_dtype_to_file(packed->dtype), packed->ndim, packed->shape, &bytes,
                        &why) != MX_OK)
        return mx_fail(err, MX_ERR_CORRUPT, "metadata of \"%s\": %s", name, why.message);
    int64_t *shape = calloc(packed->ndim + 1, sizeof(*shape));
    if (!shape)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a shape");
    meta_data_shape(packed, shape, &ndim);
    mx_status status =
        check_stored(tensor, name, meta_data_dtype(packed->format), ndim, shape, err);
    if (status == MX_OK && mx_format_is_ocp(packed->format))
        status = check_scales(reader, name, packed, shape, err);
    free(shape);
    return status;
}

mx_status meta_parse(const char *value, const st_reader *reader, const st_tensor *tensor,
                     meta_packed *out, mx_error *err)
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
        status = check_packed(reader, tensor, name, &packed, err);
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
    free(packed->scales_name);
    memset(packed, 0, sizeof(*packed));
}
