#include "safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include <mxgen/error.h>

struct st_reader {
    int fd;
    char *path;
    st_tensor *tensors; /* by offset */
    size_t n_tensors;
    const st_tensor **by_name;
    json_t *metadata;            /* an object of strings, or NULL */
    const char **metadata_pairs; /* key, value, key, value, .. */
    json_t *root;                /* keeps the names alive */
    int64_t *shapes;             /* of all tensors, one after another */
};

/* ---- Bytes ---- */

static mx_status read_at(const char *path, int fd, int64_t offset, void *dst, size_t size_bytes,
                         mx_error *err)
{
    char *at = dst;
    while (size_bytes > 0) {
        ssize_t got = pread(fd, at, size_bytes, offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return mx_fail(err, MX_ERR_IO, "%s: reading %zu bytes at %lld failed: %s", path,
                           size_bytes, (long long)offset, strerror(errno));
        if (got == 0)
            return mx_fail(err, MX_ERR_IO,
                           "%s: the file ends at %lld, %zu bytes too early; it "
                           "shrank while it was read",
                           path, (long long)offset, size_bytes);
        at += got;
        offset += got;
        size_bytes -= (size_t)got;
    }
    return MX_OK;
}

static mx_status open_file(const char *path, int *fd_out, int64_t *size_bytes, mx_error *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return mx_fail(err, errno == ENOENT ? MX_ERR_NOT_FOUND : MX_ERR_IO, "%s: cannot open: %s",
                       path, strerror(errno));
    if (fstat(fd, &st) != 0) {
        mx_fail(err, MX_ERR_IO, "%s: cannot stat: %s", path, strerror(errno));
        close(fd);
        return MX_ERR_IO;
    }
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return mx_fail(err, MX_ERR_INVALID,
                       "%s: not a regular file; a safetensors file is read at "
                       "any offset, so copy it to a file first",
                       path);
    }
    *fd_out = fd;
    *size_bytes = st.st_size;
    return MX_OK;
}

/* ---- Header ---- */

static mx_status read_header(const char *path, int fd, int64_t file_bytes, json_t **root,
                             int64_t *data_offset, mx_error *err)
{
    unsigned char raw[8];
    uint64_t length = 0;
    if (file_bytes < 8)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "%s: %lld bytes; a safetensors file has at least 8 (the header's length)",
                       path, (long long)file_bytes);
    mx_status status = read_at(path, fd, 0, raw, sizeof(raw), err);
    if (status != MX_OK)
        return status;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | raw[i];
    if (length > ST_MAX_HEADER_BYTES)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "%s: header length %llu is above the format's limit %d; "
                       "is it a safetensors file?",
                       path, (unsigned long long)length, ST_MAX_HEADER_BYTES);
    if (length > (uint64_t)file_bytes - 8)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "%s: header length %llu is above the %lld bytes that follow it; truncated?",
                       path, (unsigned long long)length, (long long)(file_bytes - 8));
    char *text = malloc(length + 1);
    if (!text)
        return mx_fail(err, MX_ERR_NO_MEMORY, "%s: no memory for a header of %llu bytes", path,
                       (unsigned long long)length);
    json_error_t json_err;
    json_t *parsed = NULL;
    status = read_at(path, fd, 8, text, length, err);
    if (status != MX_OK)
        goto out;
    if (length == 0 || text[0] != '{') {
        status = mx_fail(err, MX_ERR_CORRUPT, "%s: the header does not start with '{'", path);
        goto out;
    }
    parsed = json_loadb(text, length, JSON_REJECT_DUPLICATES, &json_err);
    if (!parsed) {
        char why[ST_PRINTABLE_BYTES];
        status = mx_fail(err, MX_ERR_CORRUPT, "%s: the header is no valid JSON at byte %d: %s",
                         path, 8 + json_err.position, st_printable(json_err.text, why));
        goto out;
    }
    *root = parsed;
    *data_offset = 8 + (int64_t)length;
out:
    free(text);
    return status;
}

static mx_status load_metadata(st_reader *reader, json_t *metadata, mx_error *err)
{
    char printable[ST_PRINTABLE_BYTES];
    const char *key;
    json_t *value;
    size_t n = 0;
    if (!json_is_object(metadata))
        return mx_fail(err, MX_ERR_CORRUPT, "%s: __metadata__ is not an object", reader->path);
    const char **pairs = calloc(json_object_size(metadata) + 1, 2 * sizeof(*pairs));
    if (!pairs)
        return mx_fail(err, MX_ERR_NO_MEMORY, "%s: no memory for the metadata", reader->path);
    reader->metadata = metadata;
    reader->metadata_pairs = pairs;
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value))
            return mx_fail(err, MX_ERR_CORRUPT, "%s: __metadata__ entry \"%s\" is not a string",
                           reader->path, st_printable(key, printable));
        pairs[n++] = key;
        pairs[n++] = json_string_value(value);
    }
    return MX_OK;
}

static mx_status parse_shape(const char *path, const char *name, json_t *entry, int64_t *shape,
                             size_t *ndim, mx_error *err)
{
    json_t *array = json_object_get(entry, "shape"), *item;
    size_t i;
    if (!json_is_array(array))
        return mx_fail(err, MX_ERR_CORRUPT, "%s: tensor \"%s\" has no shape, or it is no array",
                       path, name);
    json_array_foreach(array, i, item)
    {
        if (!json_is_integer(item) || json_integer_value(item) < 0)
            return mx_fail(err, MX_ERR_CORRUPT,
                           "%s: tensor \"%s\": dimension %zu is not an integer of at least 0", path,
                           name, i);
        shape[i] = json_integer_value(item);
    }
    *ndim = json_array_size(array);
    return MX_OK;
}

static mx_status parse_offsets(const char *path, const char *name, json_t *entry,
                               int64_t data_bytes, int64_t offsets[2], mx_error *err)
{
    json_t *array = json_object_get(entry, "data_offsets");
    if (!json_is_array(array) || json_array_size(array) != 2)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "%s: tensor \"%s\" has no data_offsets, or they are no array of 2", path,
                       name);
    for (size_t i = 0; i < 2; i++) {
        json_t *item = json_array_get(array, i);
        if (!json_is_integer(item) || json_integer_value(item) < 0)
            return mx_fail(err, MX_ERR_CORRUPT,
                           "%s: tensor \"%s\": data_offsets[%zu] is not an integer of at least 0",
                           path, name, i);
        offsets[i] = json_integer_value(item);
    }
    if (offsets[0] > offsets[1])
        return mx_fail(err, MX_ERR_CORRUPT, "%s: tensor \"%s\" begins at %lld, after its end %lld",
                       path, name, (long long)offsets[0], (long long)offsets[1]);
    if (offsets[1] > data_bytes)
        return mx_fail(
            err, MX_ERR_CORRUPT,
            "%s: tensor \"%s\" ends at %lld; the file has %lld bytes of data; truncated?", path,
            name, (long long)offsets[1], (long long)data_bytes);
    return MX_OK;
}

static mx_status parse_tensor(const char *path, const char *name, json_t *entry,
                              int64_t data_offset, int64_t data_bytes, int64_t *shape,
                              st_tensor *out, mx_error *err)
{
    char label[ST_PRINTABLE_BYTES], dtype_label[ST_PRINTABLE_BYTES];
    int64_t offsets[2];
    mx_error why;
    st_printable(name, label);
    if (!json_is_object(entry))
        return mx_fail(err, MX_ERR_CORRUPT, "%s: tensor \"%s\" is not described by an object", path,
                       label);
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    st_tensor tensor = {.name = name, .shape = shape};
    if (!dtype || st_dtype_parse(dtype, &tensor.dtype) != 0)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "%s: tensor \"%s\" has dtype \"%s\", whose size is unknown", path, label,
                       st_printable(dtype ? dtype : "", dtype_label));
    mx_status status = parse_shape(path, label, entry, shape, &tensor.ndim, err);
    if (status == MX_OK)
        status = parse_offsets(path, label, entry, data_bytes, offsets, err);
    if (status != MX_OK)
        return status;
    if (st_tensor_bytes(tensor.dtype, tensor.ndim, shape, &tensor.size_bytes, &why) != MX_OK)
        return mx_fail(err, MX_ERR_CORRUPT, "%s: tensor \"%s\": %s", path, label, why.message);
    if (tensor.size_bytes != offsets[1] - offsets[0])
        return mx_fail(err, MX_ERR_CORRUPT,
                       "%s: tensor \"%s\" has %lld bytes; its shape and %s need %lld", path, label,
                       (long long)(offsets[1] - offsets[0]), dtype, (long long)tensor.size_bytes);
    /* Exact: the size in bits did not overflow. */
    tensor.n_elements =
        (int64_t)((uint64_t)tensor.size_bytes * 8 / (uint64_t)st_dtype_bits(tensor.dtype));
    tensor.offset_bytes = data_offset + offsets[0];
    *out = tensor;
    return MX_OK;
}

/* ---- The whole ---- */

static int compare_offset(const void *a, const void *b)
{
    const st_tensor *x = a, *y = b;
    if (x->offset_bytes != y->offset_bytes)
        return x->offset_bytes < y->offset_bytes ? -1 : 1;
    if (x->size_bytes != y->size_bytes)
        return x->size_bytes < y->size_bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int compare_name(const void *a, const void *b)
{
    return strcmp((*(const st_tensor *const *)a)->name, (*(const st_tensor *const *)b)->name);
}

/* The data must be covered exactly once: nothing hides in a file, and no two names share bytes. */
static mx_status check_cover(const st_reader *reader, int64_t data_offset, int64_t file_bytes,
                             mx_error *err)
{
    char name[ST_PRINTABLE_BYTES], before[ST_PRINTABLE_BYTES];
    int64_t end = data_offset;
    for (size_t i = 0; i < reader->n_tensors; i++) {
        const st_tensor *tensor = &reader->tensors[i];
        st_printable(tensor->name, name);
        if (tensor->offset_bytes < end)
            return mx_fail(err, MX_ERR_CORRUPT,
                           "%s: tensor \"%s\" begins at %lld and overlaps \"%s\", which ends at "
                           "%lld",
                           reader->path, name, (long long)(tensor->offset_bytes - data_offset),
                           st_printable(reader->tensors[i - 1].name, before),
                           (long long)(end - data_offset));
        if (tensor->offset_bytes > end)
            return mx_fail(err, MX_ERR_CORRUPT,
                           "%s: bytes %lld to %lld before tensor \"%s\" belong to no tensor",
                           reader->path, (long long)(end - data_offset),
                           (long long)(tensor->offset_bytes - data_offset), name);
        end = tensor->offset_bytes + tensor->size_bytes;
    }
    if (end != file_bytes)
        return mx_fail(err, MX_ERR_CORRUPT, "%s: the last %lld bytes belong to no tensor",
                       reader->path, (long long)(file_bytes - end));
    return MX_OK;
}

static mx_status allocate_tables(st_reader *reader, mx_error *err)
{
    size_t n_dims = 0;
    const char *name;
    json_t *entry;
    json_object_foreach(reader->root, name, entry)
    {
        n_dims += json_array_size(json_object_get(entry, "shape"));
    }
    size_t n = json_object_size(reader->root);
    reader->tensors = calloc(n + 1, sizeof(*reader->tensors));
    reader->by_name = calloc(n + 1, sizeof(*reader->by_name));
    reader->shapes = calloc(n_dims + 1, sizeof(*reader->shapes));
    if (!reader->tensors || !reader->by_name || !reader->shapes)
        return mx_fail(err, MX_ERR_NO_MEMORY, "%s: no memory for a table of %zu tensors",
                       reader->path, n);
    return MX_OK;
}

static mx_status load_tensors(st_reader *reader, int64_t data_offset, int64_t file_bytes,
                              mx_error *err)
{
    const char *name;
    json_t *entry;
    mx_status status = allocate_tables(reader, err);
    if (status != MX_OK)
        return status;
    int64_t *shape = reader->shapes;
    json_object_foreach(reader->root, name, entry)
    {
        if (!strcmp(name, "__metadata__")) {
            status = load_metadata(reader, entry, err);
        } else {
            st_tensor *tensor = &reader->tensors[reader->n_tensors++];
            status = parse_tensor(reader->path, name, entry, data_offset, file_bytes - data_offset,
                                  shape, tensor, err);
            shape += tensor->ndim;
        }
        if (status != MX_OK)
            return status;
    }
    qsort(reader->tensors, reader->n_tensors, sizeof(*reader->tensors), compare_offset);
    for (size_t i = 0; i < reader->n_tensors; i++)
        reader->by_name[i] = &reader->tensors[i];
    qsort(reader->by_name, reader->n_tensors, sizeof(*reader->by_name), compare_name);
    return check_cover(reader, data_offset, file_bytes, err);
}

mx_status st_reader_open(const char *path, st_reader **out, mx_error *err)
{
    int64_t file_bytes = 0, data_offset = 0;
    st_reader *reader = calloc(1, sizeof(*reader));
    if (!reader)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a reader");
    reader->fd = -1;
    reader->path = strdup(path);
    mx_status status = reader->path ? open_file(path, &reader->fd, &file_bytes, err)
                                    : mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a reader");
    if (status == MX_OK)
        status = read_header(path, reader->fd, file_bytes, &reader->root, &data_offset, err);
    if (status == MX_OK)
        status = load_tensors(reader, data_offset, file_bytes, err);
    if (status != MX_OK) {
        st_reader_close(reader);
        return status;
    }
    *out = reader;
    return MX_OK;
}

void st_reader_close(st_reader *reader)
{
    if (!reader)
        return;
    if (reader->fd >= 0)
        close(reader->fd);
    json_decref(reader->root);
    free(reader->tensors);
    free(reader->by_name);
    free(reader->metadata_pairs);
    free(reader->shapes);
    free(reader->path);
    free(reader);
}

size_t st_reader_count(const st_reader *reader)
{
    return reader->n_tensors;
}

const st_tensor *st_reader_at(const st_reader *reader, size_t index)
{
    return index < reader->n_tensors ? &reader->tensors[index] : NULL;
}

const st_tensor *st_reader_find(const st_reader *reader, const char *name)
{
    st_tensor key = {.name = name};
    const st_tensor *key_at = &key;
    const st_tensor **found = bsearch(&key_at, reader->by_name, reader->n_tensors,
                                      sizeof(*reader->by_name), compare_name);
    return found ? *found : NULL;
}

size_t st_reader_metadata_count(const st_reader *reader)
{
    return json_object_size(reader->metadata);
}

void st_reader_metadata_at(const st_reader *reader, size_t index, const char **key,
                           const char **value)
{
    int inside = index < st_reader_metadata_count(reader);
    *key = inside ? reader->metadata_pairs[2 * index] : NULL;
    *value = inside ? reader->metadata_pairs[2 * index + 1] : NULL;
}

const char *st_reader_metadata_find(const st_reader *reader, const char *key)
{
    return json_string_value(json_object_get(reader->metadata, key));
}

mx_status st_reader_read(const st_reader *reader, const st_tensor *tensor, int64_t offset_bytes,
                         void *dst, size_t size_bytes, mx_error *err)
{
    char name[ST_PRINTABLE_BYTES];
    if (offset_bytes < 0 || offset_bytes > tensor->size_bytes ||
        size_bytes > (uint64_t)(tensor->size_bytes - offset_bytes))
        return mx_fail(err, MX_ERR_INVALID,
                       "%s: tensor \"%s\" has %lld bytes; %zu bytes at %lld reach past them",
                       reader->path, st_printable(tensor->name, name),
                       (long long)tensor->size_bytes, size_bytes, (long long)offset_bytes);
    return read_at(reader->path, reader->fd, tensor->offset_bytes + offset_bytes, dst, size_bytes,
                   err);
}
