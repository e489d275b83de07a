/* Data and scales of the OCP formats in files without metadata of ours. */
#include "mxrt_meta.h"

#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

/* How pairs are named: the tensor is what precedes both suffixes, and `kept`. */
static const struct {
    const char *data, *scales, *kept;
} name_rules[] = {
    {"", "_scale", ""},
    {"", "_scales", ""},
    {"", "_scale_inv", ""},
    {"_packed", "_scale", ""},
    {"_blocks", "_scales", ""},
    {".blocks", ".scales", ""},
    {".weight", ".scale", ".weight"},
};
enum { N_RULES = sizeof(name_rules) / sizeof(name_rules[0]) };

/* "STEMsuffix", where the name is STEMdata; NULL where it is not, or without memory. */
static char *renamed(const char *name, const char *data, const char *suffix)
{
    size_t length = strlen(name), cut = strlen(data);
    char *out;
    if (length <= cut || strcmp(name + length - cut, data) != 0)
        return NULL;
    length -= cut;
    out = malloc(length + strlen(suffix) + 1);
    if (out) {
        memcpy(out, name, length);
        strcpy(out + length, suffix);
    }
    return out;
}

static int may_hold_codes(st_dtype dtype)
{
    return dtype == ST_U8 || dtype == ST_I8 || dtype == ST_F8_E4M3 || dtype == ST_F8_E5M2 ||
           dtype == ST_F4 || dtype == ST_F6_E2M3 || dtype == ST_F6_E3M2;
}

/* Looks for scales by every rule; more than one tensor of them is an error. */
static mx_status find_scales(const st_reader *reader, const st_tensor *tensor, int *rule,
                             const st_tensor **scales, mx_error *err)
{
    char name[ST_PRINTABLE_BYTES], first[ST_PRINTABLE_BYTES], second[ST_PRINTABLE_BYTES];
    *scales = NULL;
    for (int i = 0; i < N_RULES; i++) {
        char *wanted = renamed(tensor->name, name_rules[i].data, name_rules[i].scales);
        const st_tensor *found = wanted ? st_reader_find(reader, wanted) : NULL;
        free(wanted);
        if (!found || (found->dtype != ST_U8 && found->dtype != ST_F8_E8M0))
            continue;
        if (*scales)
            return mx_fail(err, MX_ERR_CORRUPT,
                           "tensor \"%s\" has two tensors of scales, \"%s\" and \"%s\"; leave it "
                           "out with --exclude",
                           st_printable(tensor->name, name), st_printable((*scales)->name, first),
                           st_printable(found->name, second));
        *scales = found;
        *rule = i;
    }
    return MX_OK;
}

/* ---- Layout ---- */

typedef struct layout {
    const st_tensor *data, *scales;
    int64_t row_bytes, blocks; /* of a row */
    char name[ST_PRINTABLE_BYTES];
} layout;

static mx_status fail_shape(const layout *l, const char *why, mx_error *err)
{
    char scales[ST_PRINTABLE_BYTES];
    return mx_fail(err, MX_ERR_CORRUPT,
                   "tensor \"%s\" and its scales \"%s\" do not fit together: %s; leave it out with "
                   "--exclude",
                   l->name, st_printable(l->scales->name, scales), why);
}

/* Rows: data may have a last dimension of its own for the bytes of a block. */
static mx_status measure_rows(layout *l, mx_error *err)
{
    const st_tensor *data = l->data, *scales = l->scales;
    size_t ndim = scales->ndim, apart = data->ndim == ndim + 1;
    if (ndim == 0 || (data->ndim != ndim && !apart))
        return fail_shape(l, "the numbers of dimensions differ", err);
    if (memcmp(data->shape, scales->shape, (ndim - !apart) * sizeof(*data->shape)) != 0)
        return fail_shape(l, "dimensions before the last one differ", err);
    l->blocks = scales->shape[ndim - 1];
    int64_t elements = data->shape[data->ndim - 1];
    if (apart && __builtin_mul_overflow(elements, l->blocks, &elements))
        return fail_shape(l, "a row is too long", err);
    int bits = st_dtype_bits(data->dtype);
    if (__builtin_mul_overflow(elements, bits, &elements) || l->blocks > INT64_MAX / 1024)
        return fail_shape(l, "a row is too long", err);
    if (elements % 8 != 0)
        return fail_shape(l, "a row of data does not end with a byte", err);
    l->row_bytes = elements / 8;
    return MX_OK;
}

/* Whether data of this type may have codes of the format. */
static int type_fits(st_dtype dtype, mx_format format)
{
    switch (dtype) {
    case ST_U8:
        return 1;
    case ST_I8:
        return format == MX_FORMAT_MXFP4 || format == MX_FORMAT_MXINT8;
    case ST_F4:
        return format == MX_FORMAT_MXFP4;
    case ST_F6_E2M3:
        return format == MX_FORMAT_MXFP6_E2M3;
    case ST_F6_E3M2:
        return format == MX_FORMAT_MXFP6_E3M2;
    default:
        return dtype == meta_data_dtype(format);
    }
}

/* Whole blocks, or the last one cut after a whole number of elements. */
static int row_fits(const layout *l, mx_format format, int whole)
{
    int64_t block_bytes = mx_format_get(format)->block_bytes, full = l->blocks * block_bytes;
    if (whole || l->row_bytes == full)
        return l->row_bytes == full;
    return l->row_bytes < full && l->row_bytes > full - block_bytes &&
           l->row_bytes * 8 % mx_format_get(format)->code_bits == 0;
}

static mx_status choose_format(const layout *l, const foreign_options *options, mx_format *out,
                               mx_error *err)
{
    unsigned fits = 0;
    if (options->has_format) {
        *out = options->format;
        if (!type_fits(l->data->dtype, *out))
            return mx_fail(err, MX_ERR_INVALID,
                           "tensor \"%s\" is %s, which cannot hold %s; leave it out with --exclude",
                           l->name, st_dtype_name(l->data->dtype), mx_format_get(*out)->name);
        return row_fits(l, *out, 0) ? MX_OK : fail_shape(l, "not in the format given", err);
    }
    /* Whole blocks first: those are what files have. */
    for (int whole = 1; whole >= 0 && !fits; whole--) {
        for (int f = MX_FORMAT_PACKED_COUNT; f < MX_FORMAT_COUNT; f++)
            fits |= (unsigned)(type_fits(l->data->dtype, (mx_format)f) &&
                               row_fits(l, (mx_format)f, whole))
                    << f;
    }
    if (!fits)
        return fail_shape(l, "there is no format of blocks of 32 with such sizes", err);
    *out = (mx_format)__builtin_ctz(fits);
    if (fits & (fits - 1))
        return mx_fail(err, MX_ERR_INVALID,
                       "tensor \"%s\" may be %s or another format of as many bits; say which with "
                       "--format, or leave it out with --exclude",
                       l->name, mx_format_get(*out)->name);
    return MX_OK;
}

static mx_status fill_packed(const layout *l, const foreign_options *options, meta_packed *packed,
                             mx_error *err)
{
    size_t ndim = l->scales->ndim;
    mx_status status = choose_format(l, options, &packed->format, err);
    if (status != MX_OK)
        return status;
    const mx_format_info *format = mx_format_get(packed->format);
    packed->dtype = options->dtype;
    packed->axis = (int)ndim - 1;
    packed->ndim = ndim;
    packed->shape = calloc(ndim, sizeof(*packed->shape));
    packed->scales_name = strdup(l->scales->name);
    if (!packed->shape || !packed->scales_name)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for tensor \"%s\"", l->name);
    memcpy(packed->shape, l->scales->shape, ndim * sizeof(*packed->shape));
    packed->shape[ndim - 1] = l->row_bytes * 8 / format->code_bits;
    if (l->row_bytes != l->blocks * format->block_bytes)
        packed->cut_row_bytes = l->row_bytes;
    return MX_OK;
}

mx_status foreign_find(const st_reader *reader, const st_tensor *tensor,
                       const foreign_options *options, foreign_pair *out, int *found, mx_error *err)
{
    layout l = {.data = tensor};
    foreign_pair pair = {0};
    int rule = 0;
    *found = 0;
    if (!may_hold_codes(tensor->dtype))
        return MX_OK;
    mx_status status = find_scales(reader, tensor, &rule, &l.scales, err);
    if (status != MX_OK || !l.scales)
        return status;
    st_printable(tensor->name, l.name);
    status = measure_rows(&l, err);
    if (status == MX_OK)
        status = fill_packed(&l, options, &pair.packed, err);
    pair.scales = l.scales;
    pair.name = renamed(tensor->name, name_rules[rule].data, name_rules[rule].kept);
    if (status == MX_OK && !pair.name)
        status = mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a name");
    if (status != MX_OK) {
        meta_packed_finish(&pair.packed);
        free(pair.name);
        return status;
    }
    *out = pair;
    *found = 1;
    return MX_OK;
}
