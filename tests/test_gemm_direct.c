/* The direct kernels of grouped GEMM on a simulated chip, without the runtime: shapes that reach
 * every path, against the product in double. The chip is MXSIM_ARCH's. */
#include <check.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/counters.h>

#include "gen/target_matrix.h"
#include "gen/template.h"

extern const mxgen_template gemm_redo_template;

enum { MAX_GROUPS = 4, WORKSPACE_BYTES = 1 << 19 };

typedef enum scale_kind { NARROW = 0, ENDS, WITH_NAN } scale_kind;

typedef struct gemm_case {
    const char *name;
    mxgen_operand left, right;
    mx_dtype dtype;
    bool cols, transposed, accumulate;
    scale_kind scales;
    int block_m, block_n, warps; /* warps: of 64 lanes */
    int n_groups, sizes[MAX_GROUPS], n, k;
    double bound; /* relative Frobenius error */
} gemm_case;

#define FP4 MXGEN_OPERAND_MXFP4
#define E4M3 MXGEN_OPERAND_MXFP8_E4M3
#define E5M2 MXGEN_OPERAND_MXFP8_E5M2
#define BF16 MXGEN_OPERAND_BF16

static const gemm_case cases[] = {
    {"whole steps, a tail, a group without rows",
     FP4,
     FP4,
     MX_DTYPE_F32,
     false,
     false,
     false,
     NARROW,
     64,
     128,
     4,
     3,
     {70, 0, 9},
     136,
     416,
     1e-6},
    {"ends of the scales' range, small blocks meet large ones",
     FP4,
     FP4,
     MX_DTYPE_F32,
     false,
     false,
     false,
     ENDS,
     16,
     128,
     4,
     2,
     {20, 3},
     40,
     160,
     1e-6},
    {"NaN scales",
     FP4,
     FP4,
     MX_DTYPE_BF16,
     false,
     true,
     false,
     WITH_NAN,
     16,
     128,
     4,
     2,
     {9, 9},
     33,
     256,
     2e-3},
    {"contraction over groups, padding with any scale",
     FP4,
     FP4,
     MX_DTYPE_F32,
     true,
     false,
     true,
     WITH_NAN,
     16,
     128,
     4,
     3,
     {128, 0, 160},
     24,
     40,
     1e-6},
    {"E4M3 x FP4",
     E4M3,
     FP4,
     MX_DTYPE_F32,
     false,
     true,
     true,
     ENDS,
     16,
     128,
     4,
     2,
     {5, 18},
     48,
     160,
     1e-6},
    {"E5M2 x E4M3",
     E5M2,
     E4M3,
     MX_DTYPE_F32,
     false,
     false,
     false,
     NARROW,
     64,
     128,
     4,
     1,
     {17},
     40,
     256,
     1e-6},
    {"the largest tile, for whose scales shared memory has no room",
     FP4,
     FP4,
     MX_DTYPE_F32,
     false,
     false,
     false,
     NARROW,
     256,
     256,
     8,
     1,
     {40},
     132,
     256,
     1e-6},
    {"bf16 x FP4",
     BF16,
     FP4,
     MX_DTYPE_F16,
     false,
     false,
     false,
     NARROW,
     16,
     128,
     4,
     1,
     {33},
     40,
     288,
     5e-4},
};

/* What of the simulator's HIP is called. */
static struct hip {
    int (*init)(unsigned flags);
    int (*alloc)(void **p, size_t bytes);
    int (*release)(void *p);
    int (*copy)(void *to, const void *from, size_t bytes, int kind);
    int (*load)(void **module, const void *image);
    int (*unload)(void *module);
    int (*find)(void **function, void *module, const char *name);
    int (*launch)(void *function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  unsigned lds, void *stream, void **args, void **extra);
    const char *(*report)(void);
    int (*counters)(mxrt_counters *out);
} hip;

static bool open_simulator(void)
{
    static const char *const names[] = {"hipInit",
                                        "hipMalloc",
                                        "hipFree",
                                        "hipMemcpy",
                                        "hipModuleLoadData",
                                        "hipModuleUnload",
                                        "hipModuleGetFunction",
                                        "hipModuleLaunchKernel",
                                        "mxsim_last_report",
                                        "mxsim_counters"};
    void *library = dlopen(getenv("MX_TEST_SIM"), RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; library && i < sizeof(names) / sizeof(names[0]); i++) {
        void *symbol = dlsym(library, names[i]);
        if (!symbol)
            return false;
        memcpy((char *)&hip + i * sizeof(symbol), &symbol, sizeof(symbol));
    }
    return library && hip.init(0) == 0;
}

static uint32_t random_state = 1;

static uint32_t random_word(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 17;
    random_state ^= random_state << 5;
    return random_state;
}

/* ---- Operands ---- */

typedef struct operand {
    mxgen_operand kind;
    int rows, k, row_bytes;
    int scale_rows, scale_row, scale_block; /* strides within runs of scale_rows rows */
    uint8_t *data, *scales;
} operand;

static double small_float(int code, int exponent_bits, int mantissa_bits, int bias)
{
    int exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1);
    int mantissa = code & ((1 << mantissa_bits) - 1);
    double value = exponent
                       ? ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits)
                       : ldexp(mantissa, 1 - bias - mantissa_bits);
    return code >> (exponent_bits + mantissa_bits) & 1 ? -value : value;
}

static double element(const operand *o, int row, int k)
{
    const uint8_t *at = o->data + (size_t)row * (size_t)o->row_bytes;
    float number;
    uint32_t bits;
    switch (o->kind) {
    case FP4:
        return small_float(at[k / 2] >> (4 * (k & 1)) & 15, 2, 1, 1);
    case E4M3:
        return (at[k] & 0x7f) == 0x7f ? (double)NAN : small_float(at[k], 4, 3, 7);
    case E5M2:
        return small_float(at[k], 5, 2, 15);
    default:
        bits = (uint32_t)at[2 * k] << 16 | (uint32_t)at[2 * k + 1] << 24;
        memcpy(&number, &bits, sizeof(number));
        return (double)number;
    }
}

static uint8_t *scale_at(const operand *o, int row, int block)
{
    int run = row / o->scale_rows * o->scale_rows;
    return o->scales + run * (o->k / 32) + (row - run) * o->scale_row + block * o->scale_block;
}

static double value(const operand *o, int row, int k, bool padding_is_zero)
{
    double x = element(o, row, k);
    if (o->kind == BF16 || (padding_is_zero && x == 0.0))
        return x;
    int scale = *scale_at(o, row, k / 32);
    return scale == 255 ? (double)NAN : ldexp(x, scale - 127);
}

static int random_scale(const gemm_case *c, bool left, int block)
{
    int spread = (int)(random_word() % 3);
    if (c->scales == WITH_NAN)
        return random_word() % 150 == 0 ? 255 : 120 + spread;
    /* Products stay near one: the other operand's block has the other end. */
    if (c->scales == ENDS && block % 3 < 2)
        return left == (block % 3 == 0) ? spread : 254 - spread;
    return 120 + (int)(random_word() % 12);
}

static operand make_operand(const gemm_case *c, bool left, int rows, int k, int scale_rows)
{
    static const int bits[] = {4, 8, 8, 16};
    operand o = {.kind = left ? c->left : c->right, .rows = rows, .k = k};
    size_t scales = (size_t)rows * (size_t)(k / 32);
    o.row_bytes = k * bits[o.kind] / 8;
    o.data = malloc((size_t)rows * (size_t)o.row_bytes);
    o.scales = malloc(scales);
    ck_assert(o.data && o.scales);
    o.scale_rows = scale_rows;
    o.scale_row = c->transposed ? 1 : k / 32;
    o.scale_block = c->transposed ? scale_rows : 1;
    for (size_t i = 0; i < (size_t)rows * (size_t)o.row_bytes; i++) {
        o.data[i] = (uint8_t)random_word();
        if (o.kind == E5M2 || (o.kind == BF16 && i % 2))
            o.data[i] = (uint8_t)((o.data[i] & 0x87) | 0x38);
        if (o.kind == E4M3 && (o.data[i] & 0x7f) == 0x7f)
            o.data[i] = 0x7e;
        /* The end of a group's contraction is padding where groups are contracted over. */
        if (c->cols && i % 3 == 0)
            o.data[i] = 0;
    }
    for (int row = 0; row < rows; row++) {
        for (int block = 0; block < k / 32; block++)
            *scale_at(&o, row, block) = (uint8_t)random_scale(c, left, block);
    }
    return o;
}

/* ---- The kernel ---- */

typedef struct run {
    const gemm_case *c;
    operand left, right;
    int64_t offsets[MAX_GROUPS + 1];
    int rows, columns; /* of out */
    int elem_bytes;
    uint8_t *out;
    void *device_left, *device_right, *device_left_scales, *device_right_scales, *device_offsets,
        *device_out, *device_status, *device_workspace;
} run;

static void *upload(const void *data, size_t bytes)
{
    void *device = NULL;
    ck_assert_int_eq(hip.alloc(&device, bytes), 0);
    ck_assert_int_eq(hip.copy(device, data, bytes, 1), 0);
    return device;
}

static void download(void *to, const void *device, size_t bytes)
{
    ck_assert_int_eq(hip.copy(to, device, bytes, 2), 0);
}

static void *pointer_named(const run *r, const char *name)
{
    const struct {
        const char *name;
        void *pointer;
    } all[] = {{"left", r->device_left},
               {"right", r->device_right},
               {"left_scales", r->device_left_scales},
               {"right_scales", r->device_right_scales},
               {"out", r->device_out},
               {"read_offsets", r->device_offsets},
               {"write_offsets", r->device_offsets},
               {"status", r->device_status},
               {"workspace", r->device_workspace}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (!strcmp(all[i].name, name))
            return all[i].pointer;
    }
    ck_abort_msg("no buffer %s", name);
    return NULL;
}

/* Of a workspace whose elements have a byte (templates/gemm_workspace.c). */
static int64_t left_strips(const run *r)
{
    return r->c->cols ? (r->c->n + 7) / 8 : r->rows / 8 + r->c->n_groups;
}

static int64_t right_strips(const run *r)
{
    int strips = ((r->c->cols ? r->c->k : r->c->n) + 7) / 8;
    return r->c->cols ? strips : (int64_t)r->c->n_groups * strips;
}

static int64_t k_tiles(const run *r)
{
    int64_t m = r->offsets[r->c->n_groups];
    return r->c->cols ? m / 128 + r->c->n_groups : (r->c->k + 127) / 128;
}

static int64_t scalar_named(const run *r, const char *name)
{
    const gemm_case *c = r->c;
    const struct {
        const char *name;
        int64_t value;
    } all[] = {{"groups", c->n_groups},
               {"m", r->offsets[c->n_groups]},
               {"n", c->n},
               {"k", c->k},
               {"out_rows", r->rows},
               {"accumulate", c->accumulate},
               {"grid", 2},
               {"left_row_stride", r->left.row_bytes},
               {"right_row_stride", r->right.row_bytes},
               {"right_group_stride", (int64_t)c->n * r->right.row_bytes},
               {"left_scale_row_stride", r->left.scale_row},
               {"left_scale_block_stride", r->left.scale_block},
               {"right_scale_row_stride", r->right.scale_row},
               {"right_scale_block_stride", r->right.scale_block},
               {"right_scale_group_stride", (int64_t)c->n * (c->k / 32)},
               {"out_row_stride", r->columns},
               {"out_group_stride", (int64_t)c->n * r->columns},
               {"whole_runs", r->columns % 8 == 0},
               {"left_strips", left_strips(r)},
               {"right_strips", right_strips(r)},
               {"k_tiles", k_tiles(r)}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (!strcmp(all[i].name, name))
            return all[i].value;
    }
    ck_abort_msg("no scalar %s", name);
    return 0;
}

static void launch(const run *r, const mxgen_spec *spec, const void *object)
{
    mxgen_kernel kernel;
    void *module, *function, *args[MXE_MAX_ARGS];
    int64_t wide[MXE_MAX_ARGS];
    int32_t narrow[MXE_MAX_ARGS];
    memset(&kernel, 0, sizeof(kernel));
    spec->tmpl->describe(spec, &kernel);
    for (int i = 0; i < kernel.n_args; i++) {
        const mxe_arg *arg = &kernel.args[i];
        args[i] = &wide[i];
        if (arg->kind == MXE_ARG_POINTER) {
            wide[i] = (int64_t)(intptr_t)pointer_named(r, arg->name);
        } else {
            wide[i] = scalar_named(r, arg->name);
            narrow[i] = (int32_t)wide[i];
            if (arg->kind == MXE_ARG_I32)
                args[i] = &narrow[i];
        }
    }
    ck_assert_int_eq(hip.load(&module, object), 0);
    ck_assert_int_eq(hip.find(&function, module, spec->symbol), 0);
    int error = hip.launch(function, 2, 1, 1, (unsigned)kernel.threads, 1, 1, 0, NULL, args, NULL);
    ck_assert_msg(error == 0, "%s: %s", r->c->name, hip.report());
    hip.unload(module);
}

static uint64_t bank_conflicts(void)
{
    mxrt_counters counters = {.size_bytes = sizeof(counters)};
    ck_assert_int_eq(hip.counters(&counters), 0);
    return counters.lds_conflicts;
}

static mxgen_spec spec_of(const gemm_case *c)
{
    static const char *const names[] = {"BLOCK_SIZE_M", "BLOCK_SIZE_N", "num_warps",
                                        "matrix_instr_nonkdim"};
    const mxgen_target *target = mxgen_target_find(getenv("MXSIM_ARCH"));
    mxgen_key key = {.dtype = c->dtype};
    key.gemm =
        (mxgen_gemm_key){c->cols ? MXGEN_PASS_COLS : MXGEN_PASS_ROWS, c->left, c->right, true};
    bool large = c->block_m >= 64 && mxgen_target_matrix(target, 32);
    int warps = c->warps * 64 / target->lanes;
    int values[] = {c->block_m, c->block_n, warps, large ? 32 : 16};
    mxgen_spec spec;
    mx_error err;
    ck_assert_msg(mxgen_spec_make(target, &key, names, values, 4, &spec, &err) == MX_OK, "%s",
                  err.message);
    return spec;
}

/* ---- Comparison ---- */

static double out_value(const run *r, const uint8_t *out, size_t i)
{
    uint32_t word = 0;
    float number;
    memcpy(&word, out + i * (size_t)r->elem_bytes, (size_t)r->elem_bytes);
    if (r->c->dtype == MX_DTYPE_F16)
        return small_float((int)word, 5, 10, 15);
    if (r->c->dtype == MX_DTYPE_BF16)
        word <<= 16;
    memcpy(&number, &word, sizeof(number));
    return (double)number;
}

static double product(const run *r, int row, int column)
{
    const gemm_case *c = r->c;
    int group = 0, begin = 0, end = c->k, right_row = column, left_row = row;
    double sum = 0.0;
    if (c->cols) {
        group = row / c->n;
        left_row = row % c->n;
        begin = (int)r->offsets[group], end = (int)r->offsets[group + 1];
    } else {
        while (group < c->n_groups && row >= r->offsets[group + 1])
            group++;
        if (group == c->n_groups)
            return 0.0; /* nobody's row */
    }
    for (int k = begin; k < end; k++) {
        operand right = r->right;
        if (!c->cols) {
            right.data += (size_t)group * (size_t)c->n * (size_t)right.row_bytes;
            right.scales += (size_t)group * (size_t)c->n * (size_t)(c->k / 32);
        }
        sum += value(&r->left, left_row, k, c->cols) * value(&right, right_row, k, c->cols);
    }
    return sum;
}

static void compare(const run *r, const uint8_t *before, const uint8_t *out)
{
    double wrong = 0.0, all = 0.0;
    for (int row = 0; row < r->rows; row++) {
        for (int column = 0; column < r->columns; column++) {
            size_t i = (size_t)row * (size_t)r->columns + (size_t)column;
            double wanted = product(r, row, column), got = out_value(r, out, i);
            if (r->c->accumulate)
                wanted += out_value(r, before, i);
            ck_assert_msg(!isnan(wanted) == !isnan(got), "%s: row %d, column %d: %g, not %g",
                          r->c->name, row, column, got, wanted);
            if (isnan(wanted))
                continue;
            wrong += (got - wanted) * (got - wanted);
            all += wanted * wanted;
        }
    }
    ck_assert_msg(all > 0.0 && sqrt(wrong / all) <= r->c->bound, "%s: error %g, at most %g",
                  r->c->name, sqrt(wrong / all), r->c->bound);
}

static void start(run *r)
{
    const gemm_case *c = r->c;
    for (int g = 0; g < c->n_groups; g++)
        r->offsets[g + 1] = r->offsets[g] + c->sizes[g];
    int m = (int)r->offsets[c->n_groups];
    r->rows = c->cols ? c->n_groups * c->n : m + 3;
    r->columns = c->cols ? c->k : c->n;
    r->elem_bytes = mx_dtype_get(c->dtype)->bytes;
    r->left = make_operand(c, true, c->cols ? c->n : m, c->cols ? m : c->k, c->cols ? c->n : m);
    r->right = make_operand(c, false, c->cols ? c->k : c->n_groups * c->n, c->cols ? m : c->k,
                            c->cols ? c->k : c->n);
    r->device_left = upload(r->left.data, (size_t)r->left.rows * (size_t)r->left.row_bytes);
    r->device_right = upload(r->right.data, (size_t)r->right.rows * (size_t)r->right.row_bytes);
    r->device_left_scales = upload(r->left.scales, (size_t)r->left.rows * (size_t)(r->left.k / 32));
    r->device_right_scales =
        upload(r->right.scales, (size_t)r->right.rows * (size_t)(r->right.k / 32));
    r->device_offsets = upload(r->offsets, sizeof(r->offsets));
    int32_t status = -1;
    r->device_status = upload(&status, sizeof(status));
}

static void release(run *r)
{
    free(r->left.data);
    free(r->left.scales);
    free(r->right.data);
    free(r->right.scales);
    void *all[] = {r->device_left,         r->device_right,   r->device_left_scales,
                   r->device_right_scales, r->device_offsets, r->device_out,
                   r->device_status};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        hip.release(all[i]);
}

static void assert_no_scratch(const mxgen_output *object)
{
    const char *info = object->n_info ? object->info_json[0] : "";
    ck_assert_msg(strstr(info, "\"scratch_bytes\":0,") != NULL, "registers are spilled: %s", info);
}

/* The largest tile: on gfx90a it is gfx942's, on gfx950, where its scales fit into shared memory,
 * gemm_check has it. */
static bool is_for_chip(const gemm_case *c)
{
    return c->block_m < 256 || !strcmp(getenv("MXSIM_ARCH"), "gfx942");
}

START_TEST(test_case)
{
    run r = {.c = &cases[_i]};
    if (!is_for_chip(r.c))
        return;
    mxgen_spec spec = spec_of(r.c);
    mxgen_output object = {0};
    mx_error err;
    int32_t status;
    start(&r);
    size_t bytes = (size_t)r.rows * (size_t)r.columns * (size_t)r.elem_bytes;
    uint8_t *before = calloc(bytes, 1), *out = malloc(bytes);
    ck_assert(before && out);
    for (size_t i = 0; i < bytes; i += (size_t)r.elem_bytes)
        before[i + (size_t)r.elem_bytes - 1] = r.c->accumulate ? 0x40 : 0xee;
    r.device_out = upload(before, bytes);
    ck_assert_msg(mxgen_compile(&spec, 1, MXGEN_STAGE_OBJECT, NULL, &object, &err) == MX_OK, "%s",
                  err.message);
    assert_no_scratch(&object);
    uint64_t conflicts = bank_conflicts();
    launch(&r, &spec, object.data);
    ck_assert_msg(bank_conflicts() == conflicts, "%s: banks in conflict", r.c->name);
    download(out, r.device_out, bytes);
    download(&status, r.device_status, sizeof(status));
    ck_assert_int_eq(status, 0);
    compare(&r, before, out);
    mxgen_output_finish(&object);
    free(before);
    free(out);
    release(&r);
}
END_TEST

/* The step after a product in the workspace, with these strips flagged: numbers among the left
 * operand's, then the right one's. Returns what it made of an output of bytes 0xee; to be freed. */
static uint8_t *redo(run *r, const int64_t *flagged, int n)
{
    const gemm_case *c = r->c;
    mxgen_spec spec = {.tmpl = &gemm_redo_template,
                       .target = mxgen_target_find(getenv("MXSIM_ARCH")),
                       .key = {.dtype = c->dtype, .gemm = {MXGEN_PASS_STEP, FP4, FP4, true}},
                       .n_params = 2,
                       .param_names = {"COLS", "ELEM_BYTES"},
                       .params = {c->cols, 1},
                       .name = "redo",
                       .symbol = "redo"};
    mxgen_output object = {0};
    mx_error err;
    start(r);
    int64_t strips = left_strips(r) + right_strips(r), per = c->cols ? c->n_groups : 1;
    int64_t flags = strips * (k_tiles(r) * 1024 + 8 * per) + 65536;
    uint8_t *workspace = calloc(WORKSPACE_BYTES, 1);
    for (int i = 0; i < n; i++)
        workspace[flags + flagged[i]] = 1;
    size_t bytes = (size_t)r->rows * (size_t)r->columns * 4;
    uint8_t *out = malloc(bytes);
    memset(out, 0xee, bytes);
    r->device_out = upload(out, bytes);
    r->device_workspace = upload(workspace, WORKSPACE_BYTES);
    ck_assert_msg(mxgen_compile(&spec, 1, MXGEN_STAGE_OBJECT, NULL, &object, &err) == MX_OK, "%s",
                  err.message);
    assert_no_scratch(&object);
    launch(r, &spec, object.data);
    download(out, r->device_out, bytes);
    mxgen_output_finish(&object);
    free(workspace);
    return out;
}

static void check_element(const run *r, const uint8_t *out, int row, int column, bool flagged)
{
    size_t i = (size_t)row * (size_t)r->columns + (size_t)column;
    if (flagged)
        ck_assert_double_eq_tol(out_value(r, out, i), product(r, row, column), 1e-3);
    else
        ck_assert_int_eq(out[4 * i], 0xee);
}

/* What of flagged strips, and nothing else. */
START_TEST(test_redo)
{
    static const gemm_case c = {.name = "flagged strips",
                                .left = FP4,
                                .right = FP4,
                                .dtype = MX_DTYPE_F32,
                                .scales = ENDS,
                                .n_groups = 2,
                                .sizes = {20, 9},
                                .n = 140,
                                .k = 160};
    run r = {.c = &c};
    /* Rows 8 to 15 of the first group; columns 128 to 135 of the second, whose strips begin after
     * two and a half and one; or its last strip alone, whose flag is the last; or none. */
    int from = _i == 0 ? 128 : _i == 1 ? 136 : 140, to = _i == 0 ? 136 : 140;
    const int64_t left = (20 + 9 + 3) / 8 + 2;
    const int64_t flagged[3][2] = {{1, left + 18 + 16}, {left + 18 + 17}};
    uint8_t *out = redo(&r, flagged[_i], 2 - _i);
    for (int row = 0; row < r.rows; row++) {
        for (int column = 0; column < r.columns; column++) {
            bool second = row >= 20 && row < 29;
            check_element(&r, out, row, column,
                          (_i == 0 && row >= 8 && row < 16) ||
                              (second && column >= from && column < to));
        }
    }
    free(out);
    release(&r);
    hip.release(r.device_workspace);
}
END_TEST

/* The same where groups are contracted over: each has its own strips of both operands. */
START_TEST(test_redo_cols)
{
    static const gemm_case c = {.name = "flagged strips of columns",
                                .left = FP4,
                                .right = FP4,
                                .dtype = MX_DTYPE_F32,
                                .cols = true,
                                .scales = ENDS,
                                .n_groups = 2,
                                .sizes = {160, 96},
                                .n = 20,
                                .k = 44};
    run r = {.c = &c};
    /* The second group's rows 8 to 15; the first one's columns 40 to 43. */
    const int64_t flagged[] = {3 + 1, 2 * 3 + 5};
    uint8_t *out = redo(&r, flagged, 2);
    for (int row = 0; row < r.rows; row++) {
        for (int column = 0; column < r.columns; column++)
            check_element(&r, out, row, column,
                          (row >= 20 + 8 && row < 20 + 16) || (row < 20 && column >= 40));
    }
    free(out);
    release(&r);
    hip.release(r.device_workspace);
}
END_TEST

int main(void)
{
    if (!open_simulator())
        return EXIT_FAILURE;
    Suite *suite = suite_create("gemm_direct");
    TCase *tcase = tcase_create(getenv("MXSIM_ARCH"));
    tcase_add_loop_test(tcase, test_case, 0, (int)(sizeof(cases) / sizeof(cases[0])));
    tcase_add_loop_test(tcase, test_redo, 0, 3);
    tcase_add_test(tcase, test_redo_cols);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
