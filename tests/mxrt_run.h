/* Runs mxrt in a folder of the test's own, and files of tensors to run it on. */
#ifndef MX_TESTS_MXRT_RUN_H
#define MX_TESTS_MXRT_RUN_H

#include <jansson.h>

#include "cli_run.h"
#include "tests/cases.h"
#include "tools/safetensors/safetensors.h"

/* The folder, as a fixture; packs that are installed do not matter. */
void mxrt_run_setup(void);
void mxrt_run_teardown(void);
char *path_of(const char *name); /* to be freed */
/* The files in it, hidden ones included. */
int count_files(void);
void expect_same_files(const char *a, const char *b);

/* A command line: words separated by blanks; "@NAME" is a file in the test's folder. */
enum { MAX_WORDS = 24 };
typedef struct words {
    const char *argv[MAX_WORDS + 1];
    char *paths[MAX_WORDS];
    char *copy;
} words;
void words_init(words *w, const char *text);
void words_finish(words *w);

/* The program is the environment's MXRT. */
void mxrt(cli_run *run, const char *text);
/* Exits with 0 and says nothing on standard error. */
void mxrt_ok(const char *text);
json_t *mxrt_json(const char *text);
/* Fails with `code`, says `word`, prints nothing and leaves the folder as it was. */
void mxrt_fails(const char *text, int code, const char *word);

typedef struct sample {
    const char *name;
    st_dtype dtype;
    size_t ndim;
    int64_t shape[4];
} sample;
enum { N_SAMPLES = 12 };
extern const sample samples[N_SAMPLES];

int to_mx_dtype(st_dtype dtype, mx_dtype *out); /* nonzero where there is one */
/* The samples of any bits, so that NaN, Inf and subnormals are there. */
void write_samples(const char *name);
/* Whether quantize takes it without --include. */
int is_packed_by_default(const sample *s);
st_reader *open_reader(const char *name);
/* The bytes, to be freed; *out, if not NULL, lives as long as the reader. */
void *read_tensor(const st_reader *reader, const char *name, const st_tensor **out);

/* A file of any tensors, with one entry of metadata unless `key` is NULL. */
typedef struct piece {
    const char *name;
    st_dtype dtype;
    size_t ndim;
    int64_t shape[4];
    const void *data; /* NULL: zeros */
} piece;

void write_pieces(const char *file, const piece *pieces, size_t n, const char *key,
                  const char *value);

#endif
