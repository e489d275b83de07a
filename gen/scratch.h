/* A folder of one compilation, for tools that read and write files. */
#ifndef MXGEN_SCRATCH_H
#define MXGEN_SCRATCH_H

#include <mxgen/base.h>

typedef struct mxgen_scratch {
    char folder[256]; /* absolute if TMPDIR is; "": none */
} mxgen_scratch;

/* In TMPDIR, else /tmp. */
mx_status mxgen_scratch_create(mxgen_scratch *out, mx_error *err);
/* Removes the folder with its files; takes one that was never created, if it is zeroed. */
void mxgen_scratch_destroy(mxgen_scratch *scratch);
/* "FOLDER/NAME", cut off where it is longer than the buffer. */
void mxgen_scratch_path(const mxgen_scratch *scratch, const char *name, char *path,
                        size_t path_bytes);
mx_status mxgen_scratch_write(const mxgen_scratch *scratch, const char *name, const void *data,
                              size_t size_bytes, mx_error *err);
/* Malloc'ed, with a zero behind the last byte. */
mx_status mxgen_scratch_read(const mxgen_scratch *scratch, const char *name, void **data,
                             size_t *size_bytes, mx_error *err);

#endif
