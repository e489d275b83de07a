/* Packs for tests: built, taken apart and changed in memory. */
#ifndef PACK_BUILD_H
#define PACK_BUILD_H

#include <stdint.h>

#include "gen/pack_writer.h"
#include "runtime/pack_reader.h"

typedef struct pack_bytes {
    unsigned char *data; /* free() */
    size_t size_bytes;
} pack_bytes;

/* A variant that is right in every way, of object 1, to be changed. */
mxgen_pack_variant pack_plain_variant(const char *name);

/* A writer with meta and one object of target "host". */
mxgen_pack_writer *pack_plain_writer(void);

/* Finishes and destroys the writer. */
pack_bytes pack_take(mxgen_pack_writer *writer);

/* Three targets, objects from a byte to several pages, every key, long and short texts. */
pack_bytes pack_sample(void);

/* The raw bytes of sample object number `id`; free(). */
unsigned char *pack_sample_object(int64_t id, size_t *size_bytes);

/* Runs SQL on a pack, with foreign keys off, and then makes its checksums right again if `reseal`.
 * Frees the old bytes. */
pack_bytes pack_doctor(pack_bytes pack, const char *sql, int reseal);

/* Opens, reads everything that can be read, and closes: a hash of it, or an error. */
mx_status pack_digest(pack_bytes pack, uint64_t *digest, mx_error *err);
mx_status pack_digest_file(const char *path, uint64_t *digest, mx_error *err);

void pack_write_file(const char *path, pack_bytes pack);
pack_bytes pack_read_file(const char *path);

/* Makes an empty folder. */
void pack_make_folder(char path[256]);
int pack_count_files(const char *folder);

#endif
