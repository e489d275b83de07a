#include "pack_rows.h"

#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "pack_text.h"

#define MAX_NAME_BYTES 1024 /* of names, symbols, targets */

mx_status mxrt_row_fail(const mxrt_pack_row *row, const char *format, ...)
{
    char what[600];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    return mx_fail(row->err, MX_ERR_CORRUPT, "%s is damaged: %s row %lld: %s; build it again",
                   row->label, row->table, (long long)row->id, what);
}

mx_status mxrt_row_fail_with(const mxrt_pack_row *row, const mx_error *why)
{
    if (why->status != MX_ERR_CORRUPT)
        return mx_fail(row->err, why->status, "%s", why->message);
    return mxrt_row_fail(row, "%s", why->message);
}

static const char *column_label(const mxrt_pack_row *row, int column)
{
    return sqlite3_column_name(row->stmt, column);
}

mx_status mxrt_row_integer(const mxrt_pack_row *row, int column, int64_t min, int64_t max,
                           int64_t *out)
{
    if (sqlite3_column_type(row->stmt, column) != SQLITE_INTEGER)
        return mxrt_row_fail(row, "%s is not an integer", column_label(row, column));
    int64_t value = sqlite3_column_int64(row->stmt, column);
    if (value < min || value > max)
        return mxrt_row_fail(row, "%s %lld is outside %lld..%lld", column_label(row, column),
                             (long long)value, (long long)min, (long long)max);
    *out = value;
    return MX_OK;
}

mx_status mxrt_row_text(const mxrt_pack_row *row, int column, size_t max_bytes,
                        mxrt_pack_text **out)
{
    mx_error why;
    if (sqlite3_column_type(row->stmt, column) != SQLITE_TEXT)
        return mxrt_row_fail(row, "%s is not a text", column_label(row, column));
    const char *chars = (const char *)sqlite3_column_text(row->stmt, column);
    size_t length = (size_t)sqlite3_column_bytes(row->stmt, column);
    if (!chars)
        return mx_fail(row->err, MX_ERR_NO_MEMORY, "no memory to read %s", row->label);
    if (length > max_bytes)
        return mxrt_row_fail(row, "%s has %zu bytes, more than %zu", column_label(row, column),
                             length, max_bytes);
    if (memchr(chars, 0, length))
        return mxrt_row_fail(row, "%s has a zero byte", column_label(row, column));
    mx_status status = mxrt_pack_forms_intern(row->forms, chars, length, out, &why);
    return status ? mxrt_row_fail_with(row, &why) : MX_OK;
}

mx_status mxrt_row_name(const mxrt_pack_row *row, int column, const char **out)
{
    mxrt_pack_text *text;
    mx_status status = mxrt_row_text(row, column, MAX_NAME_BYTES, &text);
    if (status)
        return status;
    const char *chars = mxrt_pack_text_chars(text);
    size_t n = 0;
    while (chars[n] > ' ' && chars[n] <= '~')
        n++;
    if (!n || chars[n])
        return mxrt_row_fail(row, "%s \"%s\" is not a name", column_label(row, column),
                             mxrt_show_text(chars).chars);
    *out = chars;
    return MX_OK;
}

void *mxrt_row_grow(void *array, size_t n, size_t item_bytes)
{
    if (n & (n - 1) || (n && n < 16))
        return array;
    size_t capacity = n ? 2 * n : 16;
    return reallocarray(array, capacity, item_bytes);
}
