/* What only a device with streams has: the caller's streams, graph capture and replay, threads,
 * tensors past 2^31 elements, a second device, memory that goes with the device, the cost of a
 * call.
 *
 *   test_device_extra URI PACK      else MX_TEST_URI and MX_TEST_PACK
 *   MX_TEST_LARGE=1                 also the tensors past 2^31 elements (7 GB on the device) */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <mxgen/rt.h>

#include "runtime/reference.h"
#include "tests/cases.h"
#include "tests/driver_graphs.h"

enum {
    SKIPPED = 77,
    ROWS = 96,
    LENGTH = 1000,
    BLOCKS = ROWS * ((LENGTH + 15) / 16),
    N_THREADS = 4
};

static const DLDevice cpu = {kDLCPU, 0};
static mxrt_context *context;
static mxrt_device *device;
static mxrt_device_info info;
static int is_cuda;

static driver_graphs driver;
static int (*memory_info)(size_t *free_bytes, size_t *total_bytes);

static void check_ok(mx_status status, const mx_error *error)
{
    ck_assert_msg(status == MX_OK, "%s", error->message);
}

/* ---- One conversion with its buffers ---- */

typedef struct conversion {
    uint16_t x[ROWS * LENGTH], y[ROWS * LENGTH], expected_y[ROWS * LENGTH];
    unsigned char packed[BLOCKS * 18], expected_packed[BLOCKS * 18];
    void *device_x, *device_packed, *device_y;
    mx_case_tensor tx, tp, ty;
} conversion;

static const int64_t plain_shape[] = {ROWS, LENGTH}, packed_shape[] = {BLOCKS, 18};
static const DLDataType bytes_type = {kDLUInt, 8, 1};

static void fill_input(conversion *c, uint64_t seed)
{
    mx_error error = {MX_OK, ""};
    mx_case_tensor x, p, y;
    mx_case_fill(MX_VALUES_OUTLIERS, seed, MX_DTYPE_BF16, c->x, ROWS * LENGTH);
    mx_case_contiguous(mx_case_dl_type(MX_DTYPE_BF16), cpu, 2, plain_shape, c->x, &x);
    mx_case_contiguous(bytes_type, cpu, 2, packed_shape, c->expected_packed, &p);
    mx_case_contiguous(mx_case_dl_type(MX_DTYPE_BF16), cpu, 2, plain_shape, c->expected_y, &y);
    mxrt_plan_request to = {
        .op = MX_OP_TO, .format = MX_FORMAT_MX9, .axis = -1, .in = &x.tensor, .out = &p.tensor};
    mxrt_plan_request from = {
        .op = MX_OP_FROM, .format = MX_FORMAT_MX9, .axis = -1, .in = &p.tensor, .out = &y.tensor};
    check_ok(mxrt_reference_run(&to, &error), &error);
    check_ok(mxrt_reference_run(&from, &error), &error);
    check_ok(mxrt_device_upload(device, c->device_x, c->x, sizeof(c->x), &error), &error);
    memset(c->packed, 0xa5, sizeof(c->packed));
    memset(c->y, 0xa5, sizeof(c->y));
    check_ok(mxrt_device_upload(device, c->device_packed, c->packed, sizeof(c->packed), &error),
             &error);
    check_ok(mxrt_device_upload(device, c->device_y, c->y, sizeof(c->y), &error), &error);
}

static conversion *conversion_create(uint64_t seed)
{
    mx_error error = {MX_OK, ""};
    conversion *c = calloc(1, sizeof(*c));
    check_ok(mxrt_device_alloc(device, sizeof(c->x), &c->device_x, &error), &error);
    check_ok(mxrt_device_alloc(device, sizeof(c->packed), &c->device_packed, &error), &error);
    check_ok(mxrt_device_alloc(device, sizeof(c->y), &c->device_y, &error), &error);
    DLDataType bf16 = mx_case_dl_type(MX_DTYPE_BF16);
    mx_case_contiguous(bf16, info.dl_device, 2, plain_shape, c->device_x, &c->tx);
    mx_case_contiguous(bytes_type, info.dl_device, 2, packed_shape, c->device_packed, &c->tp);
    mx_case_contiguous(bf16, info.dl_device, 2, plain_shape, c->device_y, &c->ty);
    fill_input(c, seed);
    return c;
}

static void conversion_destroy(conversion *c)
{
    mxrt_device_free(device, c->device_x);
    mxrt_device_free(device, c->device_packed);
    mxrt_device_free(device, c->device_y);
    free(c);
}

static void enqueue(conversion *c, mxrt_stream stream)
{
    mx_error error = {MX_OK, ""};
    check_ok(
        mxrt_convert_to(device, MX_FORMAT_MX9, -1, &c->tx.tensor, &c->tp.tensor, stream, &error),
        &error);
    check_ok(
        mxrt_convert_from(device, MX_FORMAT_MX9, -1, &c->tp.tensor, &c->ty.tensor, stream, &error),
        &error);
}

static void check_results(conversion *c)
{
    mx_error error = {MX_OK, ""};
    check_ok(mxrt_device_download(device, c->packed, c->device_packed, sizeof(c->packed), &error),
             &error);
    check_ok(mxrt_device_download(device, c->y, c->device_y, sizeof(c->y), &error), &error);
    ck_assert_int_eq(memcmp(c->packed, c->expected_packed, sizeof(c->packed)), 0);
    ck_assert_int_eq(memcmp(c->y, c->expected_y, sizeof(c->y)), 0);
}

/* ---- Cases ---- */

START_TEST(two_streams)
{
    mx_error error = {MX_OK, ""};
    void *streams[2];
    conversion *c[2];
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(driver.stream_create(&streams[i], 1), 0);
        c[i] = conversion_create((uint64_t)i + 1);
    }
    for (int round = 0; round < 8; round++)
        enqueue(c[round % 2], streams[round % 2]);
    for (int i = 0; i < 2; i++) {
        check_ok(mxrt_device_synchronize(device, streams[i], &error), &error);
        check_results(c[i]);
        conversion_destroy(c[i]);
        ck_assert_int_eq(driver.stream_destroy(streams[i]), 0);
    }
}
END_TEST

START_TEST(capture_and_replay)
{
    mx_error error = {MX_OK, ""};
    void *stream = NULL, *graph = NULL, *executable = NULL;
    conversion *c = conversion_create(3);
    enqueue(c, NULL); /* loads the kernels */
    check_ok(mxrt_device_synchronize(device, NULL, &error), &error);
    ck_assert_int_eq(driver.stream_create(&stream, 1), 0);
    fill_input(c, 4);
    ck_assert_int_eq(driver.capture_begin(stream, 0), 0); /* the strictest mode */
    enqueue(c, stream);
    ck_assert_int_eq(driver.capture_end(stream, &graph), 0);
    ck_assert_int_eq(driver.graph_instantiate(&executable, graph, NULL, NULL, 0), 0);
    for (uint64_t seed = 5; seed < 8; seed++) {
        fill_input(c, seed);
        ck_assert_int_eq(driver.graph_launch(executable, stream), 0);
        check_ok(mxrt_device_synchronize(device, stream, &error), &error);
        check_results(c);
    }
    ck_assert_int_eq(driver.executable_destroy(executable), 0);
    ck_assert_int_eq(driver.graph_destroy(graph), 0);
    ck_assert_int_eq(driver.stream_destroy(stream), 0);
    conversion_destroy(c);
}
END_TEST

static mxrt_choice explain(conversion *c, mxrt_stream stream, double budget_us)
{
    mx_error error = {MX_OK, ""};
    mxrt_choice choice;
    const mxrt_plan_request request = {.op = MX_OP_TO,
                                       .format = MX_FORMAT_MX9,
                                       .axis = -1,
                                       .in = &c->tx.tensor,
                                       .out = &c->tp.tensor,
                                       .policy = MXRT_POLICY_MEASURE,
                                       .budget_us = budget_us,
                                       .stream = stream};
    check_ok(mxrt_explain(device, &request, &choice, &error), &error);
    return choice;
}

/* Never while a graph is captured, on whatever stream; and not into the caller's output. */
START_TEST(measured_now)
{
    mx_error error = {MX_OK, ""};
    void *stream = NULL, *graph = NULL;
    const double second_us = 1e6;
    unsigned char before[sizeof(((conversion *)0)->packed)];
    conversion *c = conversion_create(9);
    memset(before, 0xa5, sizeof(before));
    enqueue(c, NULL); /* loads the kernels */
    fill_input(c, 9);
    ck_assert_int_eq(driver.stream_create(&stream, 1), 0);
    ck_assert_int_eq(driver.capture_begin(stream, 0), 0);
    ck_assert_int_eq(explain(c, stream, second_us).source, MXRT_SOURCE_MODEL);
    enqueue(c, stream);
    ck_assert_int_eq(driver.capture_end(stream, &graph), 0);
    ck_assert_int_eq(driver.graph_destroy(graph), 0);
    ck_assert_int_eq(explain(c, stream, 1).source, MXRT_SOURCE_MODEL); /* no time */
    mxrt_choice choice = explain(c, stream, second_us);
    size_t n_measured = choice.n_applicable;
    ck_assert_int_eq(choice.source, n_measured > 1 ? MXRT_SOURCE_EXACT : MXRT_SOURCE_MODEL);
    ck_assert(n_measured < 2 || choice.measured_ms > 0);
    check_ok(mxrt_device_download(device, c->packed, c->device_packed, sizeof(c->packed), &error),
             &error);
    ck_assert_mem_eq(c->packed, before, sizeof(before));
    /* It is remembered, and other calls take it. */
    ck_assert_int_eq(explain(c, stream, 1).source, choice.source);
    enqueue(c, stream);
    check_ok(mxrt_device_synchronize(device, stream, &error), &error);
    check_results(c);
    ck_assert_int_eq(driver.stream_destroy(stream), 0);
    conversion_destroy(c);
}
END_TEST

/* A thread starts without a current context, and must end without one. */
static void *thread_main(void *argument)
{
    conversion *c = argument;
    for (int round = 0; round < 20; round++)
        enqueue(c, NULL);
    return NULL;
}

START_TEST(threads)
{
    mx_error error = {MX_OK, ""};
    pthread_t ids[N_THREADS];
    conversion *c[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        c[i] = conversion_create(10 + (uint64_t)i);
        ck_assert_int_eq(pthread_create(&ids[i], NULL, thread_main, c[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++)
        ck_assert_int_eq(pthread_join(ids[i], NULL), 0);
    check_ok(mxrt_device_synchronize(device, NULL, &error), &error);
    for (int i = 0; i < N_THREADS; i++) {
        check_results(c[i]);
        conversion_destroy(c[i]);
    }
}
END_TEST

START_TEST(foreign_tensors_are_refused)
{
    mx_error error = {MX_OK, ""};
    conversion *c = conversion_create(20);
    c->tx.tensor.device = cpu;
    ck_assert_int_eq(
        mxrt_convert_to(device, MX_FORMAT_MX9, -1, &c->tx.tensor, &c->tp.tensor, NULL, &error),
        MX_ERR_INVALID);
    c->tx.tensor.device = info.dl_device;
    c->tx.tensor.device.device_id += 1;
    ck_assert_int_eq(
        mxrt_convert_to(device, MX_FORMAT_MX9, -1, &c->tx.tensor, &c->tp.tensor, NULL, &error),
        MX_ERR_INVALID);
    conversion_destroy(c);
}
END_TEST

START_TEST(memory_goes_with_the_device)
{
    mx_error error = {MX_OK, ""};
    size_t before = 0, after = 0, total = 0;
    if (!memory_info)
        return;
    conversion *c = conversion_create(21);
    enqueue(c, NULL);
    check_ok(mxrt_device_synchronize(device, NULL, &error), &error);
    ck_assert_int_eq(memory_info(&before, &total), 0);
    for (int round = 0; round < 3; round++) {
        mxrt_device *other = NULL;
        check_ok(mxrt_device_open(context, info.uri, &other, &error), &error);
        check_ok(
            mxrt_convert_to(other, MX_FORMAT_MX9, -1, &c->tx.tensor, &c->tp.tensor, NULL, &error),
            &error);
        check_ok(mxrt_device_synchronize(other, NULL, &error), &error);
        mxrt_device_close(other);
    }
    ck_assert_int_eq(memory_info(&after, &total), 0);
    ck_assert_uint_ge(after, before);
    conversion_destroy(c);
}
END_TEST

START_TEST(second_device)
{
    char uri[16];
    mx_error error = {MX_OK, ""};
    mxrt_device *first = device, *second = NULL;
    mxrt_device_info first_info = info;
    snprintf(uri, sizeof(uri), "%s:1", is_cuda ? "cuda" : "hip");
    if (mxrt_device_open(context, uri, &second, &error)) {
        ck_assert_int_eq(error.status, MX_ERR_NOT_FOUND);
        printf("%s is not here: not tested\n", uri);
        return;
    }
    device = second;
    check_ok(mxrt_device_get_info(device, &info, &error), &error);
    ck_assert_int_eq(info.dl_device.device_id, 1);
    conversion *c = conversion_create(30);
    enqueue(c, NULL);
    check_ok(mxrt_device_synchronize(device, NULL, &error), &error);
    check_results(c);
    conversion_destroy(c);
    device = first;
    info = first_info;
    c = conversion_create(31); /* the first one still works */
    enqueue(c, NULL);
    check_ok(mxrt_device_synchronize(device, NULL, &error), &error);
    check_results(c);
    conversion_destroy(c);
    mxrt_device_close(second);
}
END_TEST

/* ---- Past 2^31 elements ---- */

enum { LARGE_ROWS = 70000, LARGE_LENGTH = 32000, LARGE_BPR = LARGE_LENGTH / 16, WINDOW = 4 };

/* Rows [first, first + WINDOW) of the device's packed bytes against the reference of their input.
 */
static void check_window(const uint16_t *row, const void *device_packed, int64_t first)
{
    mx_error error = {MX_OK, ""};
    size_t bytes = (size_t)WINDOW * LARGE_BPR * 18;
    int64_t shape[] = {WINDOW, LARGE_LENGTH}, blocks[] = {WINDOW * LARGE_BPR, 18};
    uint16_t *x = malloc(sizeof(*x) * WINDOW * LARGE_LENGTH);
    unsigned char *expected = malloc(bytes), *got = malloc(bytes);
    for (int64_t i = 0; i < WINDOW; i++)
        memcpy(x + i * LARGE_LENGTH, row + ((first + i) % WINDOW) * LARGE_LENGTH,
               sizeof(*x) * LARGE_LENGTH);
    mx_case_tensor tx, tp;
    mx_case_contiguous(mx_case_dl_type(MX_DTYPE_BF16), cpu, 2, shape, x, &tx);
    mx_case_contiguous(bytes_type, cpu, 2, blocks, expected, &tp);
    mxrt_plan_request to = {
        .op = MX_OP_TO, .format = MX_FORMAT_MX9, .axis = -1, .in = &tx.tensor, .out = &tp.tensor};
    check_ok(mxrt_reference_run(&to, &error), &error);
    check_ok(mxrt_device_download(
                 device, got, (const unsigned char *)device_packed + (size_t)first * LARGE_BPR * 18,
                 bytes, &error),
             &error);
    ck_assert_msg(!memcmp(got, expected, bytes), "rows from %lld differ", (long long)first);
    free(x);
    free(expected);
    free(got);
}

START_TEST(past_two_to_the_31)
{
    mx_error error = {MX_OK, ""};
    void *x = NULL, *packed = NULL;
    size_t row_bytes = sizeof(uint16_t) * LARGE_LENGTH;
    size_t packed_bytes = (size_t)LARGE_ROWS * LARGE_BPR * 18;
    if (!getenv("MX_TEST_LARGE"))
        return;
    uint16_t *rows = malloc(WINDOW * row_bytes);
    mx_case_fill(MX_VALUES_NORMAL, 40, MX_DTYPE_BF16, rows, (int64_t)WINDOW * LARGE_LENGTH);
    check_ok(mxrt_device_alloc(device, LARGE_ROWS * row_bytes, &x, &error), &error);
    check_ok(mxrt_device_alloc(device, packed_bytes, &packed, &error), &error);
    for (size_t r = 0; r < LARGE_ROWS; r += WINDOW)
        check_ok(
            mxrt_device_upload(device, (char *)x + r * row_bytes, rows, WINDOW * row_bytes, &error),
            &error);
    int64_t shape[] = {LARGE_ROWS, LARGE_LENGTH}, blocks[] = {(int64_t)LARGE_ROWS * LARGE_BPR, 18};
    mx_case_tensor tx, tp;
    mx_case_contiguous(mx_case_dl_type(MX_DTYPE_BF16), info.dl_device, 2, shape, x, &tx);
    mx_case_contiguous(bytes_type, info.dl_device, 2, blocks, packed, &tp);
    check_ok(mxrt_convert_to(device, MX_FORMAT_MX9, -1, &tx.tensor, &tp.tensor, NULL, &error),
             &error);
    check_ok(mxrt_device_synchronize(device, NULL, &error), &error);
    for (int64_t first = 0; first + WINDOW <= LARGE_ROWS; first += 9999)
        check_window(rows, packed, first);
    check_window(rows, packed, LARGE_ROWS - WINDOW);
    mxrt_device_free(device, x);
    mxrt_device_free(device, packed);
    free(rows);
}
END_TEST

/* ---- The cost of a call ---- */

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

enum { WARM_UP = 5, BATCH = 50, MOST_ROUNDS = 300, ROUNDS_WITHOUT_HARDWARE = 10, LINE = 4096 };

/* The plan's launch as a program without mxrt would make it. */
typedef struct bare_launch {
    int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                  unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                  void *stream, void **params, void **extra);
    int (*unload)(void *module);
    void *module, *function;
    mxrt_plan_info info;
    unsigned dynamic_bytes;
    size_t args_bytes;
    _Alignas(16) unsigned char args[512];
} bare_launch;

typedef struct call_cost {
    const mxrt_plan *plan;
    bare_launch bare;
    mx_case_tensor x, p;
} call_cost;

static void fill_args(bare_launch *bare, const void *x, const void *p)
{
    for (size_t i = 0; i < bare->info.n_args; i++) {
        const mxrt_plan_arg *arg = &bare->info.args[i];
        const void *buffer = arg->buffer && arg->buffer[0] == 'x' ? x : p;
        size_t bytes = arg->kind == MXRT_ARG_POINTER || arg->kind == MXRT_ARG_I64 ? 8 : 4;
        ck_assert_uint_le(arg->offset_bytes + bytes, sizeof(bare->args));
        memcpy(bare->args + arg->offset_bytes,
               arg->kind == MXRT_ARG_POINTER ? (const void *)&buffer : &arg->value, bytes);
        bare->args_bytes = arg->offset_bytes + bytes;
    }
}

static void bare_open(bare_launch *bare, const mxrt_plan *plan, const void *x, const void *p)
{
    int (*load)(void **module, const void *image) = NULL;
    int (*get)(void **function, void *module, const char *name) = NULL;
    int (*attribute)(int *value, int attribute, void *function) = NULL;
    int static_bytes = 0;
    mx_error error = {MX_OK, ""};
    check_ok(mxrt_plan_get_info(plan, &bare->info, &error), &error);
    driver_graphs_find(&driver, &load, "cuModuleLoadData", NULL);
    driver_graphs_find(&driver, &get, "cuModuleGetFunction", NULL);
    driver_graphs_find(&driver, &attribute, "cuFuncGetAttribute", NULL);
    driver_graphs_find(&driver, &bare->launch, "cuLaunchKernel", NULL);
    driver_graphs_find(&driver, &bare->unload, "cuModuleUnload", NULL);
    char *image = calloc(1, bare->info.object_bytes + 1); /* PTX ends with a zero */
    memcpy(image, bare->info.object, bare->info.object_bytes);
    ck_assert_int_eq(load(&bare->module, image), 0);
    free(image);
    ck_assert_int_eq(get(&bare->function, bare->module, bare->info.symbol), 0);
    ck_assert_int_eq(attribute(&static_bytes, 1, bare->function), 0);
    if (bare->info.lds_bytes > (unsigned)static_bytes)
        bare->dynamic_bytes = bare->info.lds_bytes - (unsigned)static_bytes;
    fill_args(bare, x, p);
}

static int call_bare(call_cost *c)
{
    bare_launch *bare = &c->bare;
    const uint32_t *grid = bare->info.grid, *block = bare->info.block;
    size_t args_bytes = bare->args_bytes;
    void *extra[] = {(void *)1, bare->args, (void *)2, &args_bytes, NULL};
    return bare->launch(bare->function, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                        bare->dynamic_bytes, NULL, NULL, extra);
}

static int call_plan(call_cost *c)
{
    mx_error error;
    return (int)mxrt_plan_run(c->plan, NULL, NULL, NULL, &error);
}

static int call_convert(call_cost *c)
{
    mx_error error;
    return (int)mxrt_convert_to(device, MX_FORMAT_MX9, -1, &c->x.tensor, &c->p.tensor, NULL,
                                &error);
}

/* A batch keeps the queue from filling; its first calls find an idle device and do not count.
 * Check's assertions take longer than a call, so there is one for all. */
static double batch_us(int (*call)(call_cost *), call_cost *c)
{
    mx_error error = {MX_OK, ""};
    int failed = 0;
    for (int i = 0; i < WARM_UP; i++)
        failed |= call(c);
    double start = now_us();
    for (int i = 0; i < BATCH; i++)
        failed |= call(c);
    double each = (now_us() - start) / BATCH;
    ck_assert_int_eq(failed, 0);
    check_ok(mxrt_device_synchronize(device, NULL, &error), &error);
    return each;
}

static int compare_times(const void *left, const void *right)
{
    const double *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* The three take turns, so that a machine that gets slower gets slower for all. */
static void print_costs(call_cost *c)
{
    static int (*const calls[])(call_cost *) = {call_bare, call_plan, call_convert};
    static const char *const names[] = {"bare", "mxrt_plan_run", "mxrt_convert_to"};
    static double times[3][MOST_ROUNDS];
    int first = is_cuda ? 0 : 1, rounds = is_cuda ? MOST_ROUNDS : ROUNDS_WITHOUT_HARDWARE;
    for (int round = 0; round < rounds; round++) {
        for (int k = first; k < 3; k++)
            times[k][round] = batch_us(calls[k], c);
    }
    printf("one row, host time a call:");
    for (int k = first; k < 3; k++) {
        qsort(times[k], (size_t)rounds, sizeof(times[k][0]), compare_times);
        printf("%s %s %.2f us", k > first ? "," : "", names[k], times[k][rounds / 2]);
    }
    printf("\n");
}

START_TEST(cost_of_a_call)
{
    mx_error error = {MX_OK, ""};
    int64_t shape[] = {1, LINE}, blocks[] = {LINE / 16, 18};
    conversion *c = conversion_create(50);
    mxrt_plan *plan = NULL;
    call_cost cost = {.plan = NULL};
    mx_case_contiguous(mx_case_dl_type(MX_DTYPE_BF16), info.dl_device, 2, shape, c->device_x,
                       &cost.x);
    mx_case_contiguous(bytes_type, info.dl_device, 2, blocks, c->device_packed, &cost.p);
    mxrt_plan_request to = {.op = MX_OP_TO,
                            .format = MX_FORMAT_MX9,
                            .axis = -1,
                            .in = &cost.x.tensor,
                            .out = &cost.p.tensor};
    check_ok(mxrt_plan_create(device, &to, &plan, &error), &error);
    cost.plan = plan;
    if (is_cuda)
        bare_open(&cost.bare, plan, c->device_x, c->device_packed);
    print_costs(&cost);
    if (is_cuda)
        ck_assert_int_eq(cost.bare.unload(cost.bare.module), 0);
    mxrt_plan_destroy(plan);
    conversion_destroy(c);
}
END_TEST

/* ---- Main ---- */

static mx_status open_device(const char *uri, const char *pack, mx_error *err)
{
    /* What is measured here is nobody else's. */
    const mxrt_context_options options = {.tune_file = ""};
    mx_status status = mxrt_context_create(&options, &context, err);
    if (!status)
        status = mxrt_context_add_pack_file(context, pack, err);
    if (!status)
        status = mxrt_device_open(context, uri, &device, err);
    return status ? status : mxrt_device_get_info(device, &info, err);
}

static int run_all(void)
{
    Suite *suite = suite_create("device_extra");
    TCase *cases = tcase_create(info.uri), *cost = tcase_create("cost");
    tcase_set_timeout(cases, 600);
    tcase_set_timeout(cost, 600);
    tcase_add_test(cases, two_streams);
    tcase_add_test(cases, capture_and_replay);
    tcase_add_test(cases, measured_now);
    tcase_add_test(cases, threads);
    tcase_add_test(cases, foreign_tensors_are_refused);
    tcase_add_test(cases, memory_goes_with_the_device);
    tcase_add_test(cases, second_device);
    tcase_add_test(cases, past_two_to_the_31);
    tcase_add_test(cost, cost_of_a_call);
    suite_add_tcase(suite, cases);
    suite_add_tcase(suite, cost);
    SRunner *runner = srunner_create(suite);
    /* Drivers keep threads and contexts, which a fork would lose. */
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? 1 : 0;
}

int main(int argc, char **argv)
{
    const char *uri = argc > 1 ? argv[1] : getenv("MX_TEST_URI");
    const char *pack = argc > 2 ? argv[2] : getenv("MX_TEST_PACK");
    mx_error error = {MX_OK, ""};
    if (!uri || !pack) {
        printf("skipped: no URI of a device and no pack are given\n");
        return SKIPPED;
    }
    is_cuda = !strncmp(uri, "cuda", 4);
    if (driver_graphs_open(&driver, is_cuda, &error)) {
        printf("skipped: the driver of %s is not here: %s\n", uri, error.message);
        return SKIPPED;
    }
    driver_graphs_find(&driver, &memory_info, "cuMemGetInfo_v2", "hipMemGetInfo");
    mx_status status = open_device(uri, pack, &error);
    if (status) {
        printf("%s\n", error.message);
        /* A pack that is named must be there; a device need not. */
        return status == MX_ERR_NOT_FOUND && !access(pack, R_OK) ? SKIPPED : 1;
    }
    int failed = run_all();
    mxrt_device_close(device);
    mxrt_context_destroy(context);
    return failed;
}
