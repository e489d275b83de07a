/* A row of a pack's table as it is read, column by column, with messages that name the row. */
#ifndef MXRT_PACK_ROWS_H
#define MXRT_PACK_ROWS_H

#include <sqlite3.h>

#include "pack_forms.h"

typedef struct mxrt_pack_row {
    mxrt_pack *pack;   /* the reader's own */
    const char *label; /* how messages call the pack */
    mxrt_pack_forms *forms;
    sqlite3_stmt *stmt;
    const char *table;
    int64_t id; /* of meta: the number of the row */
    mx_error *err;
} mxrt_pack_row;

MX_PRINTF(2, 3)
mx_status mxrt_row_fail(const mxrt_pack_row *row, const char *format, ...);
/* Passes on what went wrong below, in the row's name. */
mx_status mxrt_row_fail_with(const mxrt_pack_row *row, const mx_error *why);

mx_status mxrt_row_integer(const mxrt_pack_row *row, int column, int64_t min, int64_t max,
                           int64_t *out);
/* A text without zero bytes, which would hide what follows them. */
mx_status mxrt_row_text(const mxrt_pack_row *row, int column, size_t max_bytes,
                        mxrt_pack_text **out);
/* A name: printable ASCII without spaces, not empty. */
mx_status mxrt_row_name(const mxrt_pack_row *row, int column, const char **out);

/* Room for one more in an array of `n`, doubling at powers of two. NULL without memory. */
void *mxrt_row_grow(void *array, size_t n, size_t item_bytes);

#endif
