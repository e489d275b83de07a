/* Writes kernel packs (mxgen/pack.h). Not thread-safe; rows are stored in call order. */
#ifndef MXGEN_PACK_WRITER_H
#define MXGEN_PACK_WRITER_H

#include <mxgen/base.h>

typedef struct mxgen_pack_writer mxgen_pack_writer;

typedef struct mxgen_pack_variant {
    int64_t object_id;
    const char *target, *op, *format, *dtype, *profile, *layout, *name, *symbol;
    int64_t rank;
    const char *params_json, *rules_json, *launch_json, *info_json;
} mxgen_pack_variant;

/* A row of the table `kernel`. */
typedef struct mxgen_pack_kernel {
    int64_t object_id;
    const char *target, *kernel, *name, *symbol;
    int64_t rank;
    const char *params_json, *rules_json, *launch_json, *info_json;
} mxgen_pack_kernel;

/* Builds in memory; nothing is on disk until finish. */
mx_status mxgen_pack_writer_create(mxgen_pack_writer **out, mx_error *err);
void mxgen_pack_writer_destroy(mxgen_pack_writer *writer);
mx_status mxgen_pack_writer_meta(mxgen_pack_writer *writer, const char *key, const char *value,
                                 mx_error *err);
mx_status mxgen_pack_writer_object(mxgen_pack_writer *writer, const char *target, const char *kind,
                                   const void *data, size_t size_bytes, int64_t *object_id,
                                   mx_error *err);
mx_status mxgen_pack_writer_variant(mxgen_pack_writer *writer, const mxgen_pack_variant *variant,
                                    mx_error *err);
/* The first one adds the table. */
mx_status mxgen_pack_writer_kernel(mxgen_pack_writer *writer, const mxgen_pack_kernel *kernel,
                                   mx_error *err);
/* Checks foreign keys, vacuums, and writes `path` atomically (temporary file, fsync, rename). */
mx_status mxgen_pack_writer_save(mxgen_pack_writer *writer, const char *path, mx_error *err);
/* The finished file in memory; release with free(). */
mx_status mxgen_pack_writer_serialize(mxgen_pack_writer *writer, void **data, size_t *size_bytes,
                                      mx_error *err);

#endif
