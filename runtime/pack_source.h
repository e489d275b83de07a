/* Opens the SQLite file of a pack: refuses what is not one, and whatever could make reading it do
 * more than read. */
#ifndef MXRT_PACK_SOURCE_H
#define MXRT_PACK_SOURCE_H

#include <sqlite3.h>

#include <mxgen/base.h>

typedef struct mxrt_pack_source {
    sqlite3 *db; /* not for use by two threads at once */
    char *label; /* how messages call it: kernel pack "x.mxdb" */
    uint64_t size_bytes;
} mxrt_pack_source;

/* On success *out must be finished. Nothing is written, not even beside the file. */
mx_status mxrt_pack_source_open_file(const char *path, mxrt_pack_source *out, mx_error *err);
/* Copies. */
mx_status mxrt_pack_source_open_memory(const void *data, size_t size_bytes, mxrt_pack_source *out,
                                       mx_error *err);
void mxrt_pack_source_finish(mxrt_pack_source *source); /* takes a zeroed one, too */

/* That the table `kernel`, which not every pack has, is the one of mxgen/pack.h. */
mx_status mxrt_pack_source_check_kernels(mxrt_pack_source *source, mx_error *err);

/* The failure of SQLite's last call on the source. */
mx_status mxrt_pack_source_fail(const mxrt_pack_source *source, mx_error *err);

#endif
