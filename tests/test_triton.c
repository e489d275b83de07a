/* mxgen export --triton: the objects for AMD's chips are loaded and launched on the simulator the
 * way Triton's launcher does it, from the metadata and the argument list, and give the reference's
 * bytes.
 */
#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <mxgen/rt.h>

#include "cases.h"
#include "cli_run.h"

enum { MAX_ARGS = 16, GUARD = 0xa5, ROOM = 1 << 16 };

static struct {
    int (*hipMalloc)(void **p, size_t bytes);
    int (*hipFree)(void *p);
    int (*hipMemcpy)(void *dst, const void *src, size_t bytes, int kind);
    int (*hipModuleLoadData)(void **out, const void *image);
    int (*hipModuleUnload)(void *module);
    int (*hipModuleGetFunction)(void **function, void *module, const char *name);
    int (*hipModuleLaunchKernel)(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned lds, void *stream,
                                 void **params, void **extra);
} hip;

static char *folder, *target_folder;
static json_t *kernels;
static mxrt_context *context;
static mxrt_device *host;

static void *symbol(const char *name)
{
    static void *library;
    if (!library)
        library = dlopen(getenv("MX_TEST_SIM"), RTLD_NOW);
    ck_assert_msg(library != NULL, "%s", dlerror());
    void *found = dlsym(library, name);
    ck_assert_msg(found != NULL, "%s", name);
    return found;
}

static void load_hip(void)
{
    *(void **)&hip.hipMalloc = symbol("hipMalloc");
    *(void **)&hip.hipFree = symbol("hipFree");
    *(void **)&hip.hipMemcpy = symbol("hipMemcpy");
    *(void **)&hip.hipModuleLoadData = symbol("hipModuleLoadData");
    *(void **)&hip.hipModuleUnload = symbol("hipModuleUnload");
    *(void **)&hip.hipModuleGetFunction = symbol("hipModuleGetFunction");
    *(void **)&hip.hipModuleLaunchKernel = symbol("hipModuleLaunchKernel");
}

/* One on chips with waves of 64, the other on those with 32: an export takes its time. */
static mx_dtype tested_dtype(void)
{
    return strncmp(getenv("MXSIM_ARCH"), "gfx9", 4) ? MX_DTYPE_BF16 : MX_DTYPE_F32;
}

static void setup(void)
{
    mx_error err;
    cli_run run;
    size_t size_bytes;
    const char *chip = getenv("MXSIM_ARCH");
    folder = cli_temp_create();
    target_folder = cli_temp_path(folder, chip);
    const char *argv[] = {getenv("MXGEN"),
                          "export",
                          "--triton",
                          folder,
                          "--target",
                          chip,
                          "--dtype",
                          tested_dtype() == MX_DTYPE_F32 ? "f32" : "bf16",
                          NULL};
    cli_run_start(&run, argv);
    ck_assert_msg(run.exit_code == 0, "%s", run.err);
    cli_run_finish(&run);
    char *path = cli_temp_path(target_folder, "index.json"),
         *text = cli_temp_read(path, &size_bytes);
    kernels = json_loads(text, 0, NULL);
    ck_assert_ptr_nonnull(kernels);
    free(text);
    free(path);
    load_hip();
    ck_assert_msg(mxrt_context_create(NULL, &context, &err) == MX_OK, "%s", err.message);
    ck_assert_msg(mxrt_device_open(context, "host", &host, &err) == MX_OK, "%s", err.message);
}

static void teardown(void)
{
    mxrt_device_close(host);
    mxrt_context_destroy(context);
    json_decref(kernels);
    cli_temp_destroy(folder);
    free(target_folder);
}

/* ---- A problem ---- */

typedef struct problem {
    mx_op op;
    mx_format format;
    mx_dtype dtype;
    int rows, last;
    int row_stride, col_stride;      /* elements */
    int block_gap, byte_stride;      /* packed: bytes after a block, between its bytes */
    int plain_offset, packed_offset; /* elements, bytes */
    int turned;                      /* the stride between blocks is 1 */
} problem;

/* The value of an argument of the Triton function. */
static int argument(const problem *p, const char *name)
{
    int bpr = (p->last + 15) / 16;
    int block_stride =
        p->turned ? 1 : mx_format_get(p->format)->block_bytes * p->byte_stride + p->block_gap;
    const struct {
        const char *name;
        int value;
    } table[] = {{"n_blocks", p->rows * bpr},
                 {"last", p->last},
                 {"blocks_per_row", bpr},
                 {"stride_in_row", p->row_stride},
                 {"stride_out_row", p->row_stride},
                 {"stride_in_col", p->col_stride},
                 {"stride_out_col", p->col_stride},
                 {"stride_in_blk", block_stride},
                 {"stride_out_blk", block_stride},
                 {"stride_in_byte", p->byte_stride},
                 {"stride_out_byte", p->byte_stride}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (!strcmp(table[i].name, name))
            return table[i].value;
    }
    ck_abort_msg("unknown argument %s", name);
    return 0;
}

/* The kernel that Triton would make for the problem: its name, and what is 1 as constants. */
static json_t *find_kernel(const problem *p)
{
    char name[64];
    size_t i, k;
    json_t *entry, *arg;
    snprintf(name, sizeof(name), "%s_%s_%s.", mx_op_name(p->op), mx_format_get(p->format)->name,
             mx_dtype_get(p->dtype)->name);
    json_array_foreach(kernels, i, entry)
    {
        int fits =
            !strncmp(json_string_value(json_object_get(entry, "folder")), name, strlen(name));
        json_array_foreach(json_object_get(entry, "signature"), k, arg)
        {
            const char *type = json_string_value(json_array_get(arg, 1));
            if (fits && type[0] != '*')
                fits = !strcmp(type, "constexpr") ==
                       (argument(p, json_string_value(json_array_get(arg, 0))) == 1);
        }
        if (fits)
            return entry;
    }
    ck_abort_msg("no kernel for %s %d x %d", name, p->rows, p->last);
    return NULL;
}

/* Bytes of the tensors in this process: plain, packed, in rooms of ROOM bytes full of GUARD. */
typedef struct tensors {
    DLTensor plain, packed;
    int64_t plain_shape[2], plain_strides[2], packed_shape[2], packed_strides[2];
} tensors;

static void make_tensors(const problem *p, void *plain, void *packed, tensors *t)
{
    const DLDevice cpu = {kDLCPU, 0};
    int block_bytes = mx_format_get(p->format)->block_bytes;
    memset(t, 0, sizeof(*t));
    t->plain_shape[0] = p->rows;
    t->plain_shape[1] = p->last;
    t->plain_strides[0] = p->row_stride;
    t->plain_strides[1] = p->col_stride;
    t->packed_shape[0] = argument(p, "n_blocks");
    t->packed_shape[1] = block_bytes;
    t->packed_strides[0] = argument(p, "stride_in_blk");
    t->packed_strides[1] = p->byte_stride;
    t->plain = (DLTensor){.data = (char *)plain + p->plain_offset * mx_dtype_get(p->dtype)->bytes,
                          .device = cpu,
                          .ndim = 2,
                          .dtype = mx_case_dl_type(p->dtype),
                          .shape = t->plain_shape,
                          .strides = t->plain_strides};
    t->packed = (DLTensor){.data = (char *)packed + p->packed_offset,
                           .device = cpu,
                           .ndim = 2,
                           .dtype = {kDLUInt, 8, 1},
                           .shape = t->packed_shape,
                           .strides = t->packed_strides};
}

/* ---- Triton's launch ---- */

static void *load_function(json_t *entry, json_t **meta, void **module)
{
    char name[256];
    void *function = NULL;
    size_t size_bytes;
    const char *kernel = json_string_value(json_object_get(entry, "kernel"));
    const char *where = json_string_value(json_object_get(entry, "folder"));
    snprintf(name, sizeof(name), "%s/%s.json", where, kernel);
    char *path = cli_temp_path(target_folder, name), *text = cli_temp_read(path, &size_bytes);
    *meta = json_loads(text, 0, NULL);
    ck_assert_ptr_nonnull(*meta);
    free(text);
    free(path);
    snprintf(name, sizeof(name), "%s/%s.hsaco", where, kernel);
    path = cli_temp_path(target_folder, name);
    char *object = cli_temp_read(path, &size_bytes);
    ck_assert_int_eq(hip.hipModuleLoadData(module, object), 0);
    free(object);
    free(path);
    ck_assert_str_eq(json_string_value(json_object_get(*meta, "name")), kernel);
    ck_assert_int_eq(hip.hipModuleGetFunction(&function, *module, kernel), 0);
    return function;
}

static int meta_int(const json_t *meta, const char *name)
{
    const json_t *value = json_object_get(meta, name);
    ck_assert_msg(json_is_integer(value), "%s", name);
    return (int)json_integer_value(value);
}

static void launch(const problem *p, json_t *entry, void *plain, void *packed)
{
    json_t *meta, *arg;
    size_t i, n = 0;
    void *module, *params[MAX_ARGS], *scratch = NULL, *pointers[2];
    int values[MAX_ARGS];
    void *function = load_function(entry, &meta, &module);
    json_array_foreach(json_object_get(entry, "signature"), i, arg)
    {
        const char *type = json_string_value(json_array_get(arg, 1));
        if (type[0] == '*') {
            pointers[i] = strcmp(type, "*u8") ? plain : packed;
            params[n++] = &pointers[i];
        } else if (!strcmp(type, "i32")) {
            values[n] = argument(p, json_string_value(json_array_get(arg, 0)));
            params[n] = &values[n];
            n++;
        }
    }
    params[n++] = &scratch;
    params[n++] = &scratch;
    unsigned threads = (unsigned)(meta_int(meta, "num_warps") * meta_int(meta, "warp_size"));
    unsigned grid = ((unsigned)argument(p, "n_blocks") + 63) / 64;
    ck_assert_int_eq(hip.hipModuleLaunchKernel(function, grid, 1, 1, threads, 1, 1,
                                               (unsigned)meta_int(meta, "shared"), NULL, params,
                                               NULL),
                     0);
    ck_assert_int_eq(hip.hipModuleUnload(module), 0);
    json_decref(meta);
}

/* ---- Cases ---- */

/* Runs the problem here and there; the memory of the result, guards too, must be equal. */
static void check_problem(const problem *p)
{
    mx_error err;
    tensors t;
    int elem_bytes = mx_dtype_get(p->dtype)->bytes;
    char *plain = malloc(ROOM), *packed = malloc(ROOM), *back = malloc(ROOM);
    char *gpu_plain, *gpu_packed, *input = p->op == MX_OP_TO ? plain : packed;
    char *output = p->op == MX_OP_TO ? packed : plain;
    memset(plain, GUARD, ROOM);
    memset(packed, GUARD, ROOM);
    make_tensors(p, plain, packed, &t);
    mx_case_fill(MX_VALUES_SPREAD, 5, p->dtype, plain, ROOM / elem_bytes);
    ck_assert_msg(mxrt_convert_to(host, p->format, -1, &t.plain, &t.packed, NULL, &err) == MX_OK,
                  "%s", err.message);
    ck_assert_int_eq(hip.hipMalloc((void **)&gpu_plain, ROOM), 0);
    ck_assert_int_eq(hip.hipMalloc((void **)&gpu_packed, ROOM), 0);
    char *gpu_input = p->op == MX_OP_TO ? gpu_plain : gpu_packed;
    char *gpu_output = p->op == MX_OP_TO ? gpu_packed : gpu_plain;
    memset(back, GUARD, ROOM);
    ck_assert_int_eq(hip.hipMemcpy(gpu_input, input, ROOM, 1), 0);
    ck_assert_int_eq(hip.hipMemcpy(gpu_output, back, ROOM, 1), 0);
    if (p->op == MX_OP_FROM) {
        memset(plain, GUARD, ROOM);
        ck_assert_msg(mxrt_convert_from(host, p->format, -1, &t.packed, &t.plain, NULL, &err) ==
                          MX_OK,
                      "%s", err.message);
    }
    launch(p, find_kernel(p), gpu_plain + p->plain_offset * elem_bytes,
           gpu_packed + p->packed_offset);
    ck_assert_int_eq(hip.hipMemcpy(back, gpu_output, ROOM, 2), 0);
    int same = 0;
    while (same < ROOM && back[same] == output[same])
        same++;
    ck_assert_msg(same == ROOM, "%s %s %s, %d x %d, strides %d %d, packed %d %d: byte %d differs",
                  mx_op_name(p->op), mx_format_get(p->format)->name, mx_dtype_get(p->dtype)->name,
                  p->rows, p->last, p->row_stride, p->col_stride, p->block_gap, p->byte_stride,
                  same);
    hip.hipFree(gpu_plain);
    hip.hipFree(gpu_packed);
    free(plain);
    free(packed);
    free(back);
}

/* Rows, elements a row, strides, gap, byte stride, offsets. */
static const problem to_problems[] = {
    {.rows = 70, .last = 32, .row_stride = 32, .col_stride = 1, .byte_stride = 1},
    {.rows = 9, .last = 37, .row_stride = 41, .col_stride = 1, .byte_stride = 1, .plain_offset = 1},
    {.rows = 66, .last = 16, .row_stride = 16, .col_stride = 1, .byte_stride = 1},
    {.rows = 40, .last = 50, .row_stride = 1, .col_stride = 40, .byte_stride = 1},
    {.rows = 90, .last = 13, .row_stride = 1, .col_stride = 90, .byte_stride = 1},
    {.rows = 11, .last = 33, .row_stride = 70, .col_stride = 2, .byte_stride = 1},
    {.rows = 65, .last = 9, .row_stride = 30, .col_stride = 3, .byte_stride = 1},
    {.rows = 3,
     .last = 64,
     .row_stride = 0,
     .col_stride = 1,
     .byte_stride = 1,
     .block_gap = 5,
     .packed_offset = 3},
    /* One row or one element a row: strides are 1 that were not asked for. */
    {.rows = 1, .last = 70, .row_stride = 1, .col_stride = 1, .byte_stride = 1},
    {.rows = 1, .last = 16, .row_stride = 16, .col_stride = 1, .byte_stride = 1},
    {.rows = 1, .last = 5, .row_stride = 1, .col_stride = 3, .byte_stride = 1},
    {.rows = 1, .last = 5, .row_stride = 1, .col_stride = 1, .byte_stride = 1},
    {.rows = 67, .last = 1, .row_stride = 1, .col_stride = 1, .byte_stride = 1},
    {.rows = 67, .last = 1, .row_stride = 2, .col_stride = 9, .byte_stride = 1},
    {.rows = 1, .last = 1, .row_stride = 1, .col_stride = 1, .byte_stride = 1},
    {.rows = 1, .last = 1, .row_stride = 7, .col_stride = 1, .byte_stride = 1},
};
static const problem from_problems[] = {
    {.rows = 70, .last = 32, .row_stride = 32, .col_stride = 1, .byte_stride = 1},
    {.rows = 9, .last = 37, .row_stride = 37, .col_stride = 1, .byte_stride = 1},
    {.rows = 66,
     .last = 16,
     .row_stride = 16,
     .col_stride = 1,
     .byte_stride = 1,
     .packed_offset = 3},
    {.rows = 9, .last = 37, .row_stride = 37, .col_stride = 1, .byte_stride = 2, .block_gap = 1},
    {.rows = 40, .last = 11, .row_stride = 11, .col_stride = 1, .byte_stride = 3},
    {.rows = 1, .last = 13, .row_stride = 13, .col_stride = 1, .byte_stride = 1},
    {.rows = 1, .last = 13, .row_stride = 13, .col_stride = 1, .byte_stride = 2},
    {.rows = 67, .last = 1, .row_stride = 1, .col_stride = 1, .byte_stride = 1},
    {.rows = 1, .last = 1, .row_stride = 1, .col_stride = 1, .byte_stride = 1},
    /* Packed blocks side by side, a byte of each in turn. */
    {.rows = 9, .last = 37, .row_stride = 37, .col_stride = 1, .byte_stride = 27, .turned = 1},
    {.rows = 1, .last = 9, .row_stride = 9, .col_stride = 1, .byte_stride = 4, .turned = 1},
    {.rows = 1, .last = 9, .row_stride = 9, .col_stride = 1, .byte_stride = 1, .turned = 1},
};
enum {
    N_TO = sizeof(to_problems) / sizeof(to_problems[0]),
    N_FROM = sizeof(from_problems) / sizeof(from_problems[0])
};

START_TEST(gives_the_reference_s_bytes)
{
    const int is_to = _i < N_TO;
    problem p = is_to ? to_problems[_i] : from_problems[_i - N_TO];
    p.op = is_to ? MX_OP_TO : MX_OP_FROM;
    p.dtype = tested_dtype();
    for (int k = 0; k < 2; k++) {
        p.format = k ? MX_FORMAT_MX6 : MX_FORMAT_MX9;
        check_problem(&p);
    }
}
END_TEST

/* The metadata of Triton 3.6 for AMD's chips: its backend and launcher read it as a record. */
START_TEST(metadata_has_what_triton_reads)
{
    static const char *const names[] = {"hash",
                                        "target",
                                        "num_warps",
                                        "waves_per_eu",
                                        "num_stages",
                                        "num_ctas",
                                        "extern_libs",
                                        "debug",
                                        "sanitize_overflow",
                                        "arch",
                                        "supported_fp8_dtypes",
                                        "deprecated_fp8_dot_operand_dtypes",
                                        "default_dot_input_precision",
                                        "allowed_dot_input_precisions",
                                        "enable_fp_fusion",
                                        "launch_cooperative_grid",
                                        "matrix_instr_nonkdim",
                                        "kpack",
                                        "allow_flush_denorm",
                                        "max_num_imprecise_acc_default",
                                        "backend_name",
                                        "instrumentation_mode",
                                        "schedule_hint",
                                        "warp_size",
                                        "triton_version",
                                        "tensordesc_meta",
                                        "shared",
                                        "global_scratch_size",
                                        "global_scratch_align",
                                        "profile_scratch_size",
                                        "profile_scratch_align",
                                        "name"};
    size_t i;
    json_t *entry;
    json_array_foreach(kernels, i, entry)
    {
        json_t *meta;
        void *module;
        load_function(entry, &meta, &module);
        for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
            ck_assert_msg(json_object_get(meta, names[k]) != NULL, "%s", names[k]);
        json_t *target = json_object_get(meta, "target");
        ck_assert_str_eq(json_string_value(json_object_get(target, "arch")), getenv("MXSIM_ARCH"));
        ck_assert_str_eq(json_string_value(json_object_get(target, "backend")), "hip");
        ck_assert_int_eq(meta_int(target, "warp_size"), meta_int(meta, "warp_size"));
        ck_assert_int_eq(hip.hipModuleUnload(module), 0);
        json_decref(meta);
    }
    ck_assert_uint_eq(json_array_size(kernels), 2 * (20 + 17));
}
END_TEST

static int export_fails(const char *const *argv, const char *part)
{
    cli_run run;
    cli_run_start(&run, argv);
    int as_told = run.exit_code != 0 && strstr(run.err, part);
    cli_run_finish(&run);
    return as_told;
}

START_TEST(what_cannot_be_exported_is_said)
{
    const char *mxgen = getenv("MXGEN");
    char *file = cli_temp_path(target_folder, "index.json");
    const char *no_gpu[] = {mxgen, "export", "--triton", folder, "--target", "host", NULL};
    const char *no_folder[] = {mxgen, "export", "--triton", file, "--target", "gfx942", NULL};
    const char *nothing[] = {mxgen, "export", NULL};
    const char *other[] = {mxgen,    "export",   "--triton", folder, "--target",
                           "gfx942", "--format", "mx4",      NULL};
    ck_assert(export_fails(no_gpu, "no GPU"));
    ck_assert(export_fails(no_folder, "cannot make the folder"));
    ck_assert(export_fails(nothing, "--triton DIR"));
    ck_assert(export_fails(other, "none was asked for"));
    free(file);
}
END_TEST

int main(void)
{
    if (!getenv("MX_TEST_SIM"))
        return 77;
    Suite *suite = suite_create("triton");
    TCase *tcase = tcase_create("export");
    tcase_add_unchecked_fixture(tcase, setup, teardown);
    tcase_add_loop_test(tcase, gives_the_reference_s_bytes, 0, N_TO + N_FROM);
    tcase_add_test(tcase, metadata_has_what_triton_reads);
    tcase_add_test(tcase, what_cannot_be_exported_is_said);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
