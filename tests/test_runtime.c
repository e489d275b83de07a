/* Selection, launch and plans, with packs made in memory and kernels that mark what they touch. */
#include <check.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <mxgen/pack.h>
#include <mxgen/rt.h>

#include "gen/pack_writer.h"
#include "runtime/reference.h"

/* ---- Counting allocations ---- */

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 1
extern void *__libc_malloc(size_t size_bytes);
extern void *__libc_calloc(size_t n, size_t size_bytes);
static atomic_long n_allocations;

void *malloc(size_t size_bytes)
{
    atomic_fetch_add(&n_allocations, 1);
    return __libc_malloc(size_bytes);
}

void *calloc(size_t n, size_t size_bytes)
{
    atomic_fetch_add(&n_allocations, 1);
    return __libc_calloc(n, size_bytes);
}
#endif

/* ---- Packs ---- */

#define TARGET "host-x86-64-v2"
#define ARGS                                                                                       \
    "[{\"name\": \"x\", \"kind\": \"pointer\", \"buffer\": \"x\"},"                                \
    " {\"name\": \"n_blocks\", \"kind\": \"i32\", \"value\": \"n_blocks\"},"                       \
    " {\"name\": \"p\", \"kind\": \"pointer\", \"buffer\": \"p\"},"                                \
    " {\"name\": \"tag\", \"kind\": \"f32\", \"value\": \"%d\"},"                                  \
    " {\"name\": \"rows\", \"kind\": \"i64\", \"value\": \"rows\"}]"

typedef struct made_variant {
    const char *name, *layout, *rules;
    int tag;
    int64_t rank;
    const char *target; /* NULL: TARGET */
    const char *grid;   /* NULL: one program for 8 blocks */
    const char *block;  /* NULL: 1, 1, 1 */
    const char *symbol; /* NULL: mxtest_mark */
} made_variant;

#define ANY "[]"
#define WHOLE "[{\"rule\": \"rows are whole blocks\", \"when\": \"len % 16 == 0\"}]"
#define ALIGNED                                                                                    \
    "[{\"rule\": \"rows are whole blocks\", \"when\": \"len % 16 == 0\"},"                         \
    " {\"rule\": \"x is aligned to 16 bytes\", \"when\": \"x_align >= 16\"}]"
#define UNIT "[{\"rule\": \"unit stride\", \"when\": \"x_axis_stride == 1\"}]"

static const made_variant usual[] = {
    {.name = "general", .layout = "general", .rules = ANY, .tag = 4},
    {.name = "rows", .layout = "rows", .rules = UNIT, .tag = 3},
    {.name = "flat_second", .layout = "flat", .rules = WHOLE, .tag = 2, .rank = 1},
    {.name = "flat_first", .layout = "flat", .rules = ALIGNED, .tag = 1},
};

static void *read_kernels(size_t *size_bytes)
{
    const char *path = getenv("MX_TEST_RUNTIME_KERNELS");

    ck_assert_msg(path != NULL, "MX_TEST_RUNTIME_KERNELS is not set: run this by meson test");
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    fseek(file, 0, SEEK_END);
    *size_bytes = (size_t)ftell(file);
    rewind(file);
    void *data = malloc(*size_bytes);
    ck_assert_uint_eq(fread(data, 1, *size_bytes, file), *size_bytes);
    fclose(file);
    return data;
}

static void write_variant(mxgen_pack_writer *writer, int64_t object, const made_variant *v)
{
    char launch[1024], args[600];
    mx_error err = {MX_OK, ""};

    snprintf(args, sizeof(args), ARGS, v->tag);
    snprintf(launch, sizeof(launch),
             "{\"grid\": [%s], \"block\": [%s], \"lds_bytes\": \"0\", \"args\": %s}",
             v->grid ? v->grid : "\"ceil_div(n_blocks, 8)\", \"1\", \"1\"",
             v->block ? v->block : "\"1\", \"1\", \"1\"", args);
    mxgen_pack_variant row = {
        .object_id = object,
        .target = v->target ? v->target : TARGET,
        .op = "to",
        .format = "mx9",
        .dtype = "f32",
        .profile = "packed",
        .layout = v->layout,
        .name = v->name,
        .symbol = v->symbol ? v->symbol : "mxtest_mark",
        .rank = v->rank,
        .params_json = "{\"BLOCKS_PER_PROGRAM\": 8}",
        .rules_json = v->rules,
        .launch_json = launch,
        .info_json = "{\"vgprs\": 3}",
    };
    ck_assert_msg(!mxgen_pack_writer_variant(writer, &row, &err), "%s", err.message);
}

/* One object a target that occurs. `code` NULL: the test kernels. */
static void add_pack_of(mxrt_context *context, const made_variant *variants, size_t n,
                        const void *code, size_t code_bytes)
{
    mxgen_pack_writer *writer = NULL;
    int64_t objects[8];
    size_t size_bytes;
    mx_error err = {MX_OK, ""};
    void *data, *own = NULL;

    ck_assert_int_eq(mxgen_pack_writer_create(&writer, &err), MX_OK);
    mxgen_pack_writer_meta(writer, "generator", "mxgen test", &err);
    mxgen_pack_writer_meta(writer, "generator_hash", "0123", &err);
    mxgen_pack_writer_meta(writer, "compiler", "none", &err);
    if (!code)
        code = own = read_kernels(&code_bytes);
    ck_assert_uint_le(n, 8);
    for (size_t i = 0; i < n; i++) {
        const char *target = variants[i].target ? variants[i].target : TARGET;
        size_t same = 0;
        while (same < i && strcmp(variants[same].target ? variants[same].target : TARGET, target))
            same++;
        const char *kind = strncmp(target, "gfx", 3) ? MXPACK_KIND_HOST : MXPACK_KIND_AMDGPU;
        if (same < i)
            objects[i] = objects[same];
        else
            ck_assert_msg(!mxgen_pack_writer_object(writer, target, kind, code, code_bytes,
                                                    &objects[i], &err),
                          "%s", err.message);
        write_variant(writer, objects[i], &variants[i]);
    }
    ck_assert_msg(!mxgen_pack_writer_serialize(writer, &data, &size_bytes, &err), "%s",
                  err.message);
    ck_assert_msg(!mxrt_context_add_pack_memory(context, data, size_bytes, &err), "%s",
                  err.message);
    free(data);
    free(own);
    mxgen_pack_writer_destroy(writer);
}

static void add_pack(mxrt_context *context, const made_variant *variants, size_t n)
{
    add_pack_of(context, variants, n, NULL, 0);
}

/* ---- The rig ---- */

static mxrt_context *context;
static mxrt_device *device;
static mx_error err;
static char log_text[4096];

static void keep_log(void *user, const char *line)
{
    size_t used = strlen(log_text);

    (void)user;
    snprintf(log_text + used, sizeof(log_text) - used, "%s\n", line);
}

static void set_up(void)
{
    mxrt_context_options options = {.log = keep_log};

    *log_text = 0;
    ck_assert_int_eq(mxrt_context_create(&options, &context, &err), MX_OK);
}

static void tear_down(void)
{
    mxrt_device_close(device);
    mxrt_context_destroy(context);
    device = NULL;
}

static void open_device(const char *uri)
{
    ck_assert_msg(!mxrt_device_open(context, uri, &device, &err), "%s", err.message);
}

static void open_usual(void)
{
    add_pack(context, usual, 4);
    open_device("host?threads=3");
}

#define MAX_ELEMENTS (1 << 16)

/* A tensor to convert, with the memory for it. */
typedef struct rig {
    int64_t shape[2], strides[2], packed_shape[2];
    DLTensor x, p;
    mxrt_plan_request request;
    _Alignas(64) float x_data[MAX_ELEMENTS + 16];
    _Alignas(64) unsigned char p_data[MAX_ELEMENTS / 16 * 18 + 64];
} rig;

static rig one;

static rig *rig_of(rig *r, int64_t rows, int64_t len)
{
    r->shape[0] = rows;
    r->shape[1] = len;
    r->strides[0] = len;
    r->strides[1] = 1;
    r->packed_shape[0] = rows * ((len + 15) / 16);
    r->packed_shape[1] = 18;
    ck_assert_int_le(r->packed_shape[0] * 18, (int64_t)sizeof(r->p_data));
    r->x = (DLTensor){r->x_data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, r->shape, r->strides, 0};
    r->p = (DLTensor){r->p_data, {kDLCPU, 0}, 2, {kDLUInt, 8, 1}, r->packed_shape, NULL, 0};
    r->request = (mxrt_plan_request){
        .op = MX_OP_TO, .format = MX_FORMAT_MX9, .axis = -1, .in = &r->x, .out = &r->p};
    r->x_data[0] = 42;
    memset(r->p_data, 0, sizeof(r->p_data));
    return r;
}

/* Every block was marked once by the variant with this tag, and nothing beyond. */
static int marked_by(const rig *r, int tag)
{
    int64_t n = r->packed_shape[0];

    for (int64_t b = 0; b < n; b++) {
        const unsigned char *bytes = r->p_data + b * 18;
        if (bytes[0] != tag || bytes[1] != (unsigned char)r->shape[0] || bytes[2] != 1)
            return 0;
    }
    return r->p_data[n * 18] == 0;
}

static void convert(rig *r)
{
    ck_assert_msg(
        !mxrt_convert_to(device, MX_FORMAT_MX9, r->request.axis, &r->x, &r->p, NULL, &err), "%s",
        err.message);
}

static void check_runs(int64_t rows, int64_t len, int tag)
{
    rig_of(&one, rows, len);
    convert(&one);
    ck_assert_msg(marked_by(&one, tag), "%" PRId64 " x %" PRId64 ": tag %d", rows, len,
                  one.p_data[0]);
}

/* ---- Selection ---- */

START_TEST(fastest_layout_that_applies)
{
    open_usual();
    check_runs(4, 64, 1);
    check_runs(1, 16, 1);
    check_runs(100, 512, 1);
    check_runs(4, 40, 3);
    /* Misaligned: the second of the flat ones. */
    rig_of(&one, 4, 64);
    one.x.byte_offset = 4;
    convert(&one);
    ck_assert(marked_by(&one, 2));
    rig_of(&one, 4, 40);
    one.strides[0] = 80;
    one.strides[1] = 2;
    convert(&one);
    ck_assert(marked_by(&one, 4));
}
END_TEST

START_TEST(last_pack_is_preferred)
{
    static const made_variant later[] = {
        {.name = "later", .layout = "general", .rules = WHOLE, .tag = 9}};

    add_pack(context, usual, 4);
    add_pack(context, later, 1);
    open_device("host");
    check_runs(4, 64, 9);
    check_runs(4, 40, 3);
}
END_TEST

/* The processors that run the tests have v2 and v3. */
START_TEST(best_target_is_preferred)
{
    static const made_variant both[] = {
        {.name = "low", .layout = "flat", .rules = ANY, .tag = 1},
        {.name = "high", .layout = "general", .rules = WHOLE, .tag = 2, .target = "host-x86-64-v3"},
        {.name = "other", .layout = "flat", .rules = ANY, .tag = 3, .target = "gfx942"},
    };
    mxrt_device_info info;

    add_pack(context, both, 3);
    open_device("host");
    ck_assert_int_eq(mxrt_device_get_info(device, &info, &err), MX_OK);
    check_runs(4, 64, strcmp(info.target, TARGET) ? 2 : 1);
    check_runs(4, 40, 1);
}
END_TEST

START_TEST(without_kernels_the_reference_serves)
{
    static unsigned char want[16 * 18];
    DLTensor p;

    open_device("host");
    rig_of(&one, 4, 64);
    for (int i = 0; i < 256; i++)
        one.x_data[i] = (float)(i * i) - 1000;
    p = one.p;
    p.data = want;
    one.request.out = &p;
    ck_assert_int_eq(mxrt_reference_run(&one.request, &err), MX_OK);
    convert(&one);
    ck_assert_mem_eq(one.p_data, want, sizeof(want));
    ck_assert_msg(strstr(log_text, "reference") != NULL, "log: %s", log_text);
}
END_TEST

/* A variant whose launch cannot be is passed over, and says why when it is asked for by name. */
START_TEST(impossible_launches)
{
    static const struct {
        made_variant variant;
        const char *word;
    } bad[] = {
        {{.grid = "\"2147483648\", \"1\", \"1\""}, "2147483648"},
        {{.grid = "\"0\", \"1\", \"1\""}, "grid x"},
        {{.grid = "\"1\", \"65536\", \"1\""}, "grid y"},
        {{.grid = "\"1\", \"1\", \"-1\""}, "grid z"},
        {{.grid = "\"1 / (rows - rows)\", \"1\", \"1\""}, "zero"},
        {{.block = "\"64\", \"32\", \"1\""}, "2048"},
        {{.block = "\"1025\", \"1\", \"1\""}, "block x"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        made_variant pair[2] = {bad[i].variant, usual[0]};
        mxrt_plan *plan;
        tear_down();
        set_up();
        pair[0].name = "bad";
        pair[0].layout = "flat";
        pair[0].rules = ANY;
        pair[0].tag = 7;
        add_pack(context, pair, 2);
        open_device("host");
        check_runs(4, 64, 4);
        one.request.variant = "bad";
        ck_assert_int_eq(mxrt_plan_create(device, &one.request, &plan, &err), MX_ERR_UNSUPPORTED);
        ck_assert_msg(strstr(err.message, bad[i].word) && strstr(err.message, "bad"), "%s",
                      err.message);
    }
}
END_TEST

START_TEST(many_dimensions_go_to_the_reference)
{
    int64_t shape[10], strides[10], packed_shape[2] = {512, 18}, next = 2;
    mxrt_plan_info info;
    mxrt_plan *plan;

    open_usual();
    for (int i = 9; i >= 0; i--) {
        shape[i] = i == 9 ? 16 : 2;
        strides[i] = next;
        next = next * shape[i] + 1;
    }
    rig_of(&one, 4, 64);
    one.x.ndim = 10;
    one.x.shape = shape;
    one.x.strides = strides;
    one.p.shape = packed_shape;
    ck_assert_int_le(next, MAX_ELEMENTS);
    ck_assert_int_eq(mxrt_plan_create(device, &one.request, &plan, &err), MX_OK);
    ck_assert_int_eq(mxrt_plan_get_info(plan, &info, &err), MX_OK);
    ck_assert_str_eq(info.variant, "reference");
    ck_assert_int_eq(mxrt_plan_run(plan, NULL, NULL, NULL, &err), MX_OK);
    mxrt_plan_destroy(plan);
    one.request.variant = "general";
    ck_assert_int_eq(mxrt_plan_create(device, &one.request, &plan, &err), MX_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(err.message, "at most 7") != NULL, "%s", err.message);
}
END_TEST

/* ---- Plans ---- */

START_TEST(plan_says_what_it_will_do)
{
    size_t code_bytes;
    void *code = read_kernels(&code_bytes);
    mxrt_plan_info info;
    mxrt_plan *plan;

    open_usual();
    rig_of(&one, 10, 72);
    ck_assert_msg(!mxrt_plan_create(device, &one.request, &plan, &err), "%s", err.message);
    ck_assert_int_eq(mxrt_plan_get_info(plan, &info, &err), MX_OK);
    ck_assert_str_eq(info.variant, "rows");
    ck_assert_str_eq(info.symbol, "mxtest_mark");
    ck_assert_str_eq(info.target, TARGET);
    ck_assert_int_eq(info.layout, MX_LAYOUT_ROWS);
    ck_assert_int_eq(info.rows, 10);
    ck_assert_int_eq(info.len, 72);
    ck_assert_int_eq(info.n_blocks, 50);
    ck_assert_uint_eq(info.grid[0], 7);
    ck_assert_uint_eq(info.block[0], 1);
    ck_assert_uint_eq(info.n_args, 5);
    const struct {
        const char *name, *buffer;
        mxrt_arg_kind kind;
        int64_t value;
        size_t offset;
    } want[5] = {{"x", "x", MXRT_ARG_POINTER, 0, 0},
                 {"n_blocks", NULL, MXRT_ARG_I32, 50, 8},
                 {"p", "p", MXRT_ARG_POINTER, 0, 16},
                 {"tag", NULL, MXRT_ARG_F32, 0x40400000, 24},
                 {"rows", NULL, MXRT_ARG_I64, 10, 32}};
    for (int i = 0; i < 5; i++) {
        ck_assert_str_eq(info.args[i].name, want[i].name);
        ck_assert_int_eq(info.args[i].kind, want[i].kind);
        ck_assert_int_eq(info.args[i].value, want[i].value);
        ck_assert_uint_eq(info.args[i].offset_bytes, want[i].offset);
        if (want[i].buffer)
            ck_assert_str_eq(info.args[i].buffer, want[i].buffer);
        else
            ck_assert_ptr_null(info.args[i].buffer);
    }
    ck_assert_uint_eq(info.n_buffers, 2);
    ck_assert_str_eq(info.buffers[0].name, "x");
    ck_assert_int_eq(info.buffers[0].size_bytes, 10 * 72 * 4);
    ck_assert_int_eq(info.buffers[0].is_output, 0);
    ck_assert_str_eq(info.buffers[1].name, "p");
    ck_assert_int_eq(info.buffers[1].size_bytes, 900);
    ck_assert_int_eq(info.buffers[1].is_output, 1);
    ck_assert_str_eq(info.info_json, "{\"vgprs\": 3}");
    ck_assert_uint_eq(info.object_bytes, code_bytes);
    ck_assert_mem_eq(info.object, code, code_bytes);
    mxrt_plan_destroy(plan);
    free(code);
}
END_TEST

START_TEST(plan_runs_elsewhere)
{
    static _Alignas(64) float other_x[4 * 64 + 4];
    static unsigned char other_p[16 * 18];
    mxrt_plan *plan;

    open_usual();
    rig_of(&one, 4, 64);
    other_x[0] = 3;
    ck_assert_int_eq(mxrt_plan_create(device, &one.request, &plan, &err), MX_OK);
    ck_assert_int_eq(mxrt_plan_run(plan, NULL, NULL, NULL, &err), MX_OK);
    ck_assert(marked_by(&one, 1));
    ck_assert_int_eq(one.p_data[3], 42);
    ck_assert_int_eq(mxrt_plan_run(plan, other_x, other_p, NULL, &err), MX_OK);
    ck_assert_int_eq(other_p[0], 1);
    ck_assert_int_eq(other_p[3], 3);
    /* The rule on alignment does not hold there. */
    ck_assert_int_eq(mxrt_plan_run(plan, other_x + 1, other_p, NULL, &err), MX_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(err.message, "aligned to 16 bytes") && strstr(err.message, "x_align = 4"),
                  "%s", err.message);
    ck_assert_int_eq(other_p[0], 1);
    mxrt_plan_destroy(plan);
}
END_TEST

START_TEST(variants_by_name)
{
    const char *names[3];
    mxrt_plan *plan;
    size_t n;

    open_usual();
    rig_of(&one, 4, 64);
    ck_assert_int_eq(mxrt_plan_variants(device, &one.request, names, 3, &n, &err), MX_OK);
    ck_assert_uint_eq(n, 4);
    ck_assert_str_eq(names[0], "flat_first");
    ck_assert_str_eq(names[1], "flat_second");
    ck_assert_str_eq(names[2], "rows");
    one.request.variant = "general";
    ck_assert_int_eq(mxrt_plan_create(device, &one.request, &plan, &err), MX_OK);
    ck_assert_int_eq(mxrt_plan_run(plan, NULL, NULL, NULL, &err), MX_OK);
    ck_assert(marked_by(&one, 4));
    mxrt_plan_destroy(plan);
    one.request.variant = "reference";
    ck_assert_int_eq(mxrt_plan_create(device, &one.request, &plan, &err), MX_OK);
    mxrt_plan_destroy(plan);
    rig_of(&one, 4, 40);
    one.request.variant = "flat_second";
    ck_assert_int_eq(mxrt_plan_create(device, &one.request, &plan, &err), MX_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(err.message, "rows are whole blocks") && strstr(err.message, "len = 40"),
                  "%s", err.message);
}
END_TEST

START_TEST(no_blocks)
{
    mxrt_plan_info info;
    mxrt_plan *plan;

    open_usual();
    rig_of(&one, 0, 64);
    convert(&one);
    ck_assert_int_eq(mxrt_plan_create(device, &one.request, &plan, &err), MX_OK);
    ck_assert_int_eq(mxrt_plan_get_info(plan, &info, &err), MX_OK);
    ck_assert_int_eq(info.n_blocks, 0);
    ck_assert_uint_eq(info.n_args, 0);
    ck_assert_int_eq(mxrt_plan_run(plan, NULL, NULL, NULL, &err), MX_OK);
    mxrt_plan_destroy(plan);
    ck_assert_int_eq(one.p_data[0], 0);
}
END_TEST

/* ---- The device without hardware ---- */

START_TEST(plan_device)
{
    static const made_variant gpu[] = {
        {.name = "gpu", .layout = "flat", .rules = ALIGNED, .tag = 1, .target = "gfx942"}};
    mxrt_plan_info info;
    mxrt_plan *plan;

    add_pack(context, gpu, 1);
    open_device("plan:gfx942");
    rig_of(&one, 4, 64);
    one.x.device.device_type = one.p.device.device_type = kDLROCM;
    one.x.data = one.p.data = NULL;
    ck_assert_msg(!mxrt_plan_create(device, &one.request, &plan, &err), "%s", err.message);
    ck_assert_int_eq(mxrt_plan_get_info(plan, &info, &err), MX_OK);
    ck_assert_str_eq(info.variant, "gpu");
    ck_assert_str_eq(info.target, "gfx942");
    ck_assert_int_eq(info.buffers[0].size_bytes, 1024);
    ck_assert_uint_gt(info.object_bytes, 0);
    ck_assert_int_eq(mxrt_plan_run(plan, NULL, NULL, NULL, &err), MX_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(err.message, "no hardware") != NULL, "%s", err.message);
    mxrt_plan_destroy(plan);
    /* No reference to fall back to. */
    one.shape[1] = one.strides[0] = 60;
    ck_assert_int_eq(mxrt_plan_create(device, &one.request, &plan, &err), MX_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(err.message, "len = 60") != NULL, "%s", err.message);
    one.request.variant = "reference";
    ck_assert_int_eq(mxrt_plan_create(device, &one.request, &plan, &err), MX_ERR_UNSUPPORTED);
    ck_assert_int_eq(
        mxrt_prepare(device, MX_OP_FROM, MX_FORMAT_MX9, MX_DTYPE_F32, MX_PROFILE_PACKED, &err),
        MX_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(err.message, "--target gfx942") != NULL, "%s", err.message);
}
END_TEST

/* ---- Damage ---- */

START_TEST(damaged_objects)
{
    size_t code_bytes;
    unsigned char *code = read_kernels(&code_bytes);
    const made_variant lost[] = {
        {.name = "lost", .layout = "flat", .rules = ANY, .tag = 1, .symbol = "no_such_symbol"}};

    for (int i = 0; i < 7; i++) {
        size_t size_bytes = code_bytes;
        unsigned char *bad = malloc(code_bytes);
        memcpy(bad, code, code_bytes);
        switch (i) {
        case 0: /* not ELF at all */
            bad[1] = 'L';
            bad[0] = 'E';
            break;
        case 1: /* cut off */
            size_bytes = code_bytes / 3;
            break;
        case 2:
            size_bytes = 40;
            break;
        case 3: /* 32 bits */
            bad[4] = 1;
            break;
        case 4: /* another machine */
            bad[18] = 0xe0;
            break;
        case 5: /* an executable */
            bad[16] = 2;
            break;
        default: /* program headers outside */
            memset(bad + 32, 0x7f, 4);
        }
        tear_down();
        set_up();
        add_pack_of(context, usual, 4, bad, size_bytes);
        open_device("host");
        rig_of(&one, 4, 64);
        mx_status status = mxrt_convert_to(device, MX_FORMAT_MX9, -1, &one.x, &one.p, NULL, &err);
        ck_assert_msg(status == (i == 4 ? MX_ERR_UNSUPPORTED : MX_ERR_CORRUPT), "case %d: %s", i,
                      mx_status_name(status));
        ck_assert_int_eq(one.p_data[0], 0);
        free(bad);
    }
    tear_down();
    set_up();
    add_pack(context, lost, 1);
    open_device("host");
    ck_assert_int_eq(
        mxrt_prepare(device, MX_OP_TO, MX_FORMAT_MX9, MX_DTYPE_F32, MX_PROFILE_PACKED, &err),
        MX_ERR_CORRUPT);
    ck_assert_msg(strstr(err.message, "no_such_symbol") != NULL, "%s", err.message);
    free(code);
}
END_TEST

/* A damaged pack takes nothing along, whichever of the two is preferred; the log names it once. */
START_TEST(damage_beside_sound)
{
    size_t code_bytes;
    unsigned char *code = read_kernels(&code_bytes);

    for (int sound_first = 0; sound_first < 2; sound_first++) {
        tear_down();
        set_up();
        if (sound_first)
            add_pack(context, usual, 4);
        add_pack_of(context, usual, 4, code, code_bytes / 3);
        if (!sound_first) {
            open_device("host");
            ck_assert_int_eq(mxrt_prepare(device, MX_OP_TO, MX_FORMAT_MX9, MX_DTYPE_F32,
                                          MX_PROFILE_PACKED, &err),
                             MX_ERR_CORRUPT);
            mxrt_device_close(device);
            *log_text = 0;
            add_pack(context, usual, 4);
        }
        open_device("host");
        check_runs(4, 64, 1);
        const char *told = strstr(log_text, "left out");
        ck_assert_msg(told && !strstr(told + 1, "left out"), "%s", log_text);
    }
    free(code);
}
END_TEST

/* ---- The launch path ---- */

START_TEST(many_geometries)
{
    open_usual();
    for (int round = 0; round < 3; round++) {
        for (int64_t rows = 1; rows < 20; rows++) {
            for (int64_t len = 8; len < 200; len += 8)
                check_runs(rows, len, len % 16 ? 3 : 1);
        }
    }
}
END_TEST

#ifdef COUNTS_ALLOCATIONS
START_TEST(launches_do_not_allocate)
{
    mxrt_plan *plan;

    open_usual();
    ck_assert_int_eq(
        mxrt_prepare(device, MX_OP_TO, MX_FORMAT_MX9, MX_DTYPE_F32, MX_PROFILE_PACKED, &err),
        MX_OK);
    rig_of(&one, 100, 512);
    ck_assert_int_eq(mxrt_plan_create(device, &one.request, &plan, &err), MX_OK);
    long before = atomic_load(&n_allocations);
    for (int64_t len = 16; len < 512; len += 8) {
        one.shape[1] = len;
        one.packed_shape[0] = 100 * ((len + 15) / 16);
        if (mxrt_convert_to(device, MX_FORMAT_MX9, -1, &one.x, &one.p, NULL, &err) ||
            mxrt_plan_run(plan, one.x_data, one.p_data, NULL, &err))
            ck_abort_msg("%s", err.message);
    }
    long after = atomic_load(&n_allocations);
    ck_assert_int_gt(before, 0);
    ck_assert_int_eq(after, before);
    mxrt_plan_destroy(plan);
}
END_TEST
#endif

#if defined(__x86_64__)
START_TEST(kernels_keep_subnormals)
{
    unsigned csr = _mm_getcsr();

    open_usual();
    for (int i = 0; i < 20; i++) {
        rig_of(&one, 100, 512);
        _mm_setcsr(csr | 0x8040);
        mx_status status = mxrt_convert_to(device, MX_FORMAT_MX9, -1, &one.x, &one.p, NULL, &err);
        unsigned after = _mm_getcsr();
        _mm_setcsr(csr);
        ck_assert_int_eq(status, MX_OK);
        ck_assert_uint_eq(after & 0x8040, 0x8040);
        ck_assert(marked_by(&one, 1));
    }
}
END_TEST
#endif

static atomic_int thread_failures;

static void *convert_many(void *user)
{
    rig *r = user;

    for (int i = 0; i < 200; i++) {
        int64_t len = 16 + 8 * (i % 48);
        r->shape[1] = r->strides[0] = len;
        r->packed_shape[0] = r->shape[0] * ((len + 15) / 16);
        memset(r->p_data, 0, sizeof(r->p_data));
        if (mxrt_convert_to(device, MX_FORMAT_MX9, -1, &r->x, &r->p, NULL, NULL) ||
            !marked_by(r, len % 16 ? 3 : 1))
            atomic_fetch_add(&thread_failures, 1);
    }
    return NULL;
}

START_TEST(many_threads)
{
    static rig rigs[4];
    pthread_t threads[4];

    open_usual();
    atomic_store(&thread_failures, 0);
    for (int i = 0; i < 4; i++) {
        rig_of(&rigs[i], 100 + i, 64);
        ck_assert_int_eq(pthread_create(&threads[i], NULL, convert_many, &rigs[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    ck_assert_int_eq(atomic_load(&thread_failures), 0);
}
END_TEST

/* A child has no worker threads: it works alone, and ends. */
START_TEST(after_fork)
{
    int outcome;

    open_usual();
    check_runs(100, 512, 1);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        rig_of(&one, 100, 512);
        int failed = mxrt_convert_to(device, MX_FORMAT_MX9, -1, &one.x, &one.p, NULL, NULL) ||
                     !marked_by(&one, 1);
        mxrt_device_close(device);
        _exit(failed);
    }
    ck_assert_int_eq(waitpid(child, &outcome, 0), child);
    ck_assert(WIFEXITED(outcome) && !WEXITSTATUS(outcome));
    check_runs(100, 512, 1);
}
END_TEST

/* ---- Memory and time ---- */

static mx_status count_call(void *user, mxrt_stream stream, mx_error *error)
{
    (void)stream;
    (void)error;
    ++*(int *)user;
    return MX_OK;
}

START_TEST(memory_and_time)
{
    enum { BYTES = 3000001 };
    unsigned char *host = malloc(BYTES), *back = calloc(1, BYTES);
    void *a, *b;
    double ms = -1;
    int calls = 0;

    open_device("host?threads=3");
    for (int i = 0; i < BYTES; i++)
        host[i] = (unsigned char)(i * 7 + (i >> 9));
    ck_assert_int_eq(mxrt_device_alloc(device, BYTES, &a, &err), MX_OK);
    ck_assert_int_eq(mxrt_device_alloc(device, BYTES, &b, &err), MX_OK);
    ck_assert_uint_eq((uintptr_t)a % 256, 0);
    ck_assert_int_eq(mxrt_device_upload(device, a, host, BYTES, &err), MX_OK);
    ck_assert_int_eq(mxrt_device_copy(device, b, a, BYTES, NULL, &err), MX_OK);
    ck_assert_int_eq(mxrt_device_synchronize(device, NULL, &err), MX_OK);
    ck_assert_int_eq(mxrt_device_download(device, back, b, BYTES, &err), MX_OK);
    ck_assert_mem_eq(back, host, BYTES);
    mxrt_device_free(device, a);
    mxrt_device_free(device, b);
    ck_assert_int_eq(mxrt_device_time(device, count_call, &calls, 5, &ms, &err), MX_OK);
    ck_assert_int_eq(calls, 5);
    ck_assert(ms >= 0);
    free(back);
    free(host);
}
END_TEST

START_TEST(device_list)
{
    mxrt_device_info infos[8];
    size_t n = 0, all = 0;

    ck_assert_int_eq(mxrt_devices(context, infos, 8, &n, &err), MX_OK);
    ck_assert_uint_ge(n, 1);
    ck_assert_str_eq(infos[0].uri, "host");
    ck_assert_int_ge(infos[0].compute_units, 1);
    ck_assert_int_eq(infos[0].dl_device.device_type, kDLCPU);
    ck_assert_int_eq(mxrt_devices(context, NULL, 0, &all, &err), MX_OK);
    ck_assert_uint_eq(all, n);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("runtime");
    TCase *tests = tcase_create("all");

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, fastest_layout_that_applies);
    tcase_add_test(tests, last_pack_is_preferred);
    tcase_add_test(tests, best_target_is_preferred);
    tcase_add_test(tests, without_kernels_the_reference_serves);
    tcase_add_test(tests, impossible_launches);
    tcase_add_test(tests, many_dimensions_go_to_the_reference);
    tcase_add_test(tests, plan_says_what_it_will_do);
    tcase_add_test(tests, plan_runs_elsewhere);
    tcase_add_test(tests, variants_by_name);
    tcase_add_test(tests, no_blocks);
    tcase_add_test(tests, plan_device);
    tcase_add_test(tests, damaged_objects);
    tcase_add_test(tests, damage_beside_sound);
    tcase_add_test(tests, many_geometries);
#ifdef COUNTS_ALLOCATIONS
    tcase_add_test(tests, launches_do_not_allocate);
#endif
#if defined(__x86_64__)
    tcase_add_test(tests, kernels_keep_subnormals);
#endif
    tcase_add_test(tests, many_threads);
    tcase_add_test(tests, after_fork);
    tcase_add_test(tests, memory_and_time);
    tcase_add_test(tests, device_list);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
