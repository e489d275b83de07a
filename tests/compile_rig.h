/* What the tests of compiling share: a stand-in for mxgen, a script that copies a pack of a kernel
 * that marks its output, and a folder and a log of each test. */
#ifndef MX_TESTS_COMPILE_RIG_H
#define MX_TESTS_COMPILE_RIG_H

#include <stddef.h>

#include <mxgen/rt.h>

enum { ROWS = 8, LEN = 32, N_BLOCKS = ROWS * LEN / 16, N_LINES = 64 };

extern char *folder;    /* of the test */
extern char target[64]; /* of the host device */
extern size_t n_lines;  /* in the log */
extern char lines[N_LINES][1024];

/* The fixture: an environment of its own, the stand-in, and the pack that it gives. */
void compile_setup(void);
void compile_teardown(void);
/* A path in it; the last eight stay. */
char *in_folder(const char *name);
/* bin/mxgen, the stand-in: notes that it ran, runs `body` of a shell script, then gives the pack.
 * "$out" is what follows -o. */
void write_mxgen(const char *body);
/* How often it ran. */
size_t n_runs(void);
/* The whole file; release with free(). */
void *read_file(const char *path, size_t *size_bytes);
/* A pack of one kernel for to, `format` and f32 on the host, whose rule is `when`. */
void write_pack(const char *path, const char *format, const char *name, const char *when);
/* Lines of the log that have `part`. */
size_t n_logged(const char *part);
void assert_logged(const char *part);
/* With `pack`, and as `compiler` says, where they are not NULL. */
mxrt_device *open_device(const char *uri, const char *pack, const mxrt_compiler_options *compiler,
                         mxrt_context **context);

typedef struct tensors {
    float x[ROWS * LEN];
    unsigned char packed[N_BLOCKS * 18];
    int64_t x_shape[2], p_shape[2];
    DLTensor in, out;
} tensors;

/* Input and output in the struct, as if on `device`. */
void tensors_init(tensors *t, DLDevice device);
/* Which kernel the host takes for to mx9 f32. */
void assert_variant(mxrt_device *device, const char *name);
/* assert_variant, twice, on a host device of its own. */
void ask_host(const mxrt_compiler_options *compiler, const char *expected);
/* The only file of that ending among those kept; "" if there is none. */
const char *kept(const char *ending);
void assert_no_child(void);

#endif
