/* Reading and writing safetensors files without holding tensors in memory.
 *
 * A file is an 8-byte little-endian header length, a JSON header, and the tensors' bytes. The
 * header maps each name to {"dtype", "shape", "data_offsets": [begin, end]}; the key "__metadata__"
 * maps strings to strings. The reader accepts a file only if the tensors fill the rest of the file
 * without holes, overlaps or trailing bytes, and each has the size of its shape.
 *
 * Errors are as in mxgen/base.h: outputs are untouched on failure and messages name the file, the
 * tensor, the value and the limit. A reader may be used by several threads at once, a writer by
 * one. Strings returned live as long as the reader. */
#ifndef MXGEN_SAFETENSORS_H
#define MXGEN_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include <mxgen/base.h>

#define ST_MAX_HEADER_BYTES 100000000

typedef enum st_dtype {
    ST_F64 = 0,
    ST_F32,
    ST_F16,
    ST_BF16,
    ST_I64,
    ST_I32,
    ST_I16,
    ST_I8,
    ST_U64,
    ST_U32,
    ST_U16,
    ST_U8,
    ST_BOOL,
    ST_F8_E4M3,
    ST_F8_E5M2,
    ST_F8_E8M0,
    ST_F8_E4M3FNUZ,
    ST_F8_E5M2FNUZ,
    ST_F6_E2M3,
    ST_F6_E3M2,
    ST_F4,
    ST_C64,
    ST_DTYPE_COUNT
} st_dtype;

/* The spelling in files and the size of an element in bits. NULL and 0 outside the enum. */
const char *st_dtype_name(st_dtype dtype);
int st_dtype_bits(st_dtype dtype);
/* 0 and *out set, or -1. */
int st_dtype_parse(const char *name, st_dtype *out);

/* Bytes of a tensor; an error for negative sizes, for overflow, and where sub-byte elements do not
 * fill whole bytes. */
mx_status st_tensor_bytes(st_dtype dtype, size_t ndim, const int64_t *shape, int64_t *size_bytes,
                          mx_error *err);

/* A copy of `text` for messages: control characters escaped, long text cut. Returns `out`. */
#define ST_PRINTABLE_BYTES 96
const char *st_printable(const char *text, char out[ST_PRINTABLE_BYTES]);

typedef struct st_tensor {
    const char *name;
    st_dtype dtype;
    size_t ndim;
    const int64_t *shape;
    int64_t n_elements;
    int64_t size_bytes;
    int64_t offset_bytes; /* from the start of the file */
} st_tensor;

/* ---- Reader ---- */

typedef struct st_reader st_reader;

mx_status st_reader_open(const char *path, st_reader **out, mx_error *err);
void st_reader_close(st_reader *reader);

/* Tensors in the order of their bytes in the file. NULL past the end, or if there is none. */
size_t st_reader_count(const st_reader *reader);
const st_tensor *st_reader_at(const st_reader *reader, size_t index);
const st_tensor *st_reader_find(const st_reader *reader, const char *name);

/* Entries of __metadata__ in the order of the file. NULL if there is no such key. */
size_t st_reader_metadata_count(const st_reader *reader);
void st_reader_metadata_at(const st_reader *reader, size_t index, const char **key,
                           const char **value);
const char *st_reader_metadata_find(const st_reader *reader, const char *key);

/* Reads `size_bytes` bytes that start `offset_bytes` into the tensor. */
mx_status st_reader_read(const st_reader *reader, const st_tensor *tensor, int64_t offset_bytes,
                         void *dst, size_t size_bytes, mx_error *err);

/* ---- Writer ---- */

/* First declare everything, then begin, then write the tensors' bytes in any order, then commit.
 * The bytes go into a temporary file in the target's folder, and commit moves it into place: the
 * path has the old content or the whole new one. Destroy without commit leaves nothing behind. Where
 * the file system has files without names, neither does a process that is killed. */
typedef struct st_writer st_writer;

/* An existing `path` must be a regular file (a link is followed). */
mx_status st_writer_create(const char *path, st_writer **out, mx_error *err);
void st_writer_destroy(st_writer *writer);

mx_status st_writer_metadata(st_writer *writer, const char *key, const char *value, mx_error *err);
/* *index is what st_writer_write wants; it counts up from 0. */
mx_status st_writer_declare(st_writer *writer, const char *name, st_dtype dtype, size_t ndim,
                            const int64_t *shape, size_t *index, mx_error *err);
/* Lays the file out (larger element types first, so that every tensor is aligned), reserves its
 * whole size on the disk and writes the header. */
mx_status st_writer_begin(st_writer *writer, mx_error *err);
mx_status st_writer_write(st_writer *writer, size_t index, int64_t offset_bytes, const void *src,
                          size_t size_bytes, mx_error *err);
/* Fails if the bytes written are fewer than the bytes declared. */
mx_status st_writer_commit(st_writer *writer, mx_error *err);

/* For programs: removes the temporary files of live writers when SIGHUP, SIGINT, SIGQUIT, SIGTERM
 * or SIGPIPE ends the process. Signals that are ignored stay ignored. */
void st_writer_clean_on_signals(void);

#endif
