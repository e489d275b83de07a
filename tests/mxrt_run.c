#include "mxrt_run.h"

#include <check.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static char *temp_dir;

void mxrt_run_setup(void)
{
    temp_dir = cli_temp_create();
    /* The reference, whatever is installed here. */
    setenv("MXRT_PACK", "", 1);
}

void mxrt_run_teardown(void)
{
    cli_temp_destroy(temp_dir);
}

char *path_of(const char *name)
{
    return cli_temp_path(temp_dir, name);
}

void words_init(words *w, const char *text)
{
    size_t n = 1;
    *w = (words){.argv = {getenv("MXRT")}, .copy = strdup(text)};
    ck_assert_msg(w->argv[0] != NULL, "set MXRT to the program");
    char *rest = w->copy;
    for (char *word; (word = strsep(&rest, " "));) {
        ck_assert_uint_lt(n, MAX_WORDS);
        if (word[0] == '@')
            w->argv[n] = w->paths[n] = path_of(word + 1);
        else
            w->argv[n] = word;
        n++;
    }
}

void words_finish(words *w)
{
    for (size_t i = 0; i < MAX_WORDS; i++)
        free(w->paths[i]);
    free(w->copy);
}

void mxrt(cli_run *run, const char *text)
{
    words w;
    words_init(&w, text);
    cli_run_start(run, w.argv);
    words_finish(&w);
}

void mxrt_ok(const char *text)
{
    cli_run run;
    mxrt(&run, text);
    ck_assert_msg(run.exit_code == 0, "mxrt %s: exit %d: %s", text, run.exit_code, run.err);
    ck_assert_msg(run.err[0] == 0, "mxrt %s: says %s", text, run.err);
    cli_run_finish(&run);
}

json_t *mxrt_json(const char *text)
{
    cli_run run;
    json_error_t why;
    mxrt(&run, text);
    ck_assert_msg(run.exit_code == 0, "mxrt %s: exit %d: %s", text, run.exit_code, run.err);
    json_t *json = json_loads(run.out, JSON_REJECT_DUPLICATES, &why);
    ck_assert_msg(json != NULL, "mxrt %s: %s in %s", text, why.text, run.out);
    cli_run_finish(&run);
    return json;
}

int count_files(void)
{
    int n = 0;
    DIR *dir = opendir(temp_dir);
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        n += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
    closedir(dir);
    return n;
}

void mxrt_fails(const char *text, int code, const char *word)
{
    cli_run run;
    int files = count_files();
    mxrt(&run, text);
    ck_assert_msg(run.exit_code == code, "mxrt %s: exit %d, not %d: %s", text, run.exit_code, code,
                  run.err);
    ck_assert_msg(strstr(run.err, word) != NULL, "mxrt %s: \"%s\" lacks \"%s\"", text, run.err,
                  word);
    ck_assert_msg(run.out[0] == 0, "mxrt %s: prints %s", text, run.out);
    ck_assert_msg(count_files() == files, "mxrt %s: leaves a file", text);
    cli_run_finish(&run);
}

void expect_same_files(const char *a, const char *b)
{
    size_t a_bytes, b_bytes;
    char *a_path = path_of(a), *b_path = path_of(b);
    char *a_text = cli_temp_read(a_path, &a_bytes), *b_text = cli_temp_read(b_path, &b_bytes);
    ck_assert_uint_eq(a_bytes, b_bytes);
    ck_assert_msg(memcmp(a_text, b_text, a_bytes) == 0, "%s and %s differ", a, b);
    free(a_path);
    free(b_path);
    free(a_text);
    free(b_text);
}

/* ---- Files of tensors ---- */

const sample samples[N_SAMPLES] = {
    {"square.f32", ST_F32, 2, {64, 96}},    {"ragged.bf16", ST_BF16, 2, {37, 45}},
    {"wide.f32", ST_F32, 2, {3, 3001}},     {"tall.f16", ST_F16, 2, {3001, 3}},
    {"cube.bf16", ST_BF16, 3, {5, 35, 33}}, {"four.f32", ST_F32, 4, {2, 18, 3, 20}},
    {"thin.f16", ST_F16, 3, {1, 1, 40}},    {"bias.f32", ST_F32, 1, {77, 0}},
    {"double.f64", ST_F64, 2, {4, 8}},      {"numbers.i64", ST_I64, 2, {1, 9}},
    {"empty.bf16", ST_BF16, 2, {0, 32}},    {"scalar.f32", ST_F32, 0, {0}},
};

int to_mx_dtype(st_dtype dtype, mx_dtype *out)
{
    if (dtype != ST_F32 && dtype != ST_BF16 && dtype != ST_F16)
        return 0;
    *out = dtype == ST_F32 ? MX_DTYPE_F32 : dtype == ST_BF16 ? MX_DTYPE_BF16 : MX_DTYPE_F16;
    return 1;
}

void write_samples(const char *name)
{
    st_writer *writer = NULL;
    char *path = path_of(name);
    mx_error err;
    ck_assert_int_eq(st_writer_create(path, &writer, &err), MX_OK);
    ck_assert_int_eq(st_writer_metadata(writer, "origin", "a test", &err), MX_OK);
    for (size_t i = 0; i < N_SAMPLES; i++) {
        size_t index;
        ck_assert_int_eq(st_writer_declare(writer, samples[i].name, samples[i].dtype,
                                           samples[i].ndim, samples[i].shape, &index, &err),
                         MX_OK);
    }
    ck_assert_int_eq(st_writer_begin(writer, &err), MX_OK);
    for (size_t i = 0; i < N_SAMPLES; i++) {
        int64_t bytes;
        mx_dtype dtype = MX_DTYPE_F32;
        ck_assert_int_eq(
            st_tensor_bytes(samples[i].dtype, samples[i].ndim, samples[i].shape, &bytes, &err),
            MX_OK);
        to_mx_dtype(samples[i].dtype, &dtype);
        char *data = calloc(1, (size_t)bytes + 8);
        mx_case_fill(MX_VALUES_BITS, i, dtype, data, bytes / mx_dtype_get(dtype)->bytes);
        ck_assert_int_eq(st_writer_write(writer, i, 0, data, (size_t)bytes, &err), MX_OK);
        free(data);
    }
    ck_assert_msg(st_writer_commit(writer, &err) == MX_OK, "%s", err.message);
    st_writer_destroy(writer);
    free(path);
}

st_reader *open_reader(const char *name)
{
    st_reader *reader = NULL;
    char *path = path_of(name);
    mx_error err = {0};
    ck_assert_msg(st_reader_open(path, &reader, &err) == MX_OK, "%s", err.message);
    free(path);
    return reader;
}

void *read_tensor(const st_reader *reader, const char *name, const st_tensor **out)
{
    const st_tensor *tensor = st_reader_find(reader, name);
    ck_assert_msg(tensor != NULL, "no tensor %s", name);
    void *data = malloc((size_t)tensor->size_bytes + 1);
    ck_assert_int_eq(st_reader_read(reader, tensor, 0, data, (size_t)tensor->size_bytes, NULL),
                     MX_OK);
    if (out)
        *out = tensor;
    return data;
}

int is_packed_by_default(const sample *s)
{
    mx_dtype dtype;
    return s->ndim >= 2 && s->shape[0] > 0 && to_mx_dtype(s->dtype, &dtype);
}

void write_pieces(const char *file, const piece *pieces, size_t n, const char *key,
                  const char *value)
{
    st_writer *writer = NULL;
    char *path = path_of(file);
    size_t index;
    mx_error err = {MX_OK, ""};
    ck_assert_msg(!st_writer_create(path, &writer, &err), "%s", err.message);
    if (key)
        ck_assert_int_eq(st_writer_metadata(writer, key, value, &err), MX_OK);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(!st_writer_declare(writer, pieces[i].name, pieces[i].dtype, pieces[i].ndim,
                                         pieces[i].shape, &index, &err),
                      "%s", err.message);
    ck_assert_msg(!st_writer_begin(writer, &err), "%s", err.message);
    for (size_t i = 0; i < n; i++) {
        int64_t bytes;
        ck_assert(!st_tensor_bytes(pieces[i].dtype, pieces[i].ndim, pieces[i].shape, &bytes, &err));
        void *zeros = calloc(1, (size_t)bytes + 1);
        ck_assert_int_eq(st_writer_write(writer, i, 0, pieces[i].data ? pieces[i].data : zeros,
                                         (size_t)bytes, &err),
                         MX_OK);
        free(zeros);
    }
    ck_assert_msg(!st_writer_commit(writer, &err), "%s", err.message);
    st_writer_destroy(writer);
    free(path);
}
