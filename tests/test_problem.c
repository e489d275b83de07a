/* The canonical form of a problem: rows, merged dimensions, variables. */
#include <check.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/problem.h"

static const DLDevice cpu = {kDLCPU, 0};
static const DLDataType f32 = {kDLFloat, 32, 1}, u8 = {kDLUInt, 8, 1};

/* Memory is never touched: only the address counts. */
static void *const x_memory = (void *)(uintptr_t)0x100000000;
static void *const y_memory = (void *)(uintptr_t)0x700000000000;

typedef struct geometry {
    int ndim, axis;
    int64_t shape[6], x_strides[6], y_strides[6];
} geometry;

static DLTensor tensor_of(void *data, DLDataType type, int ndim, const int64_t *shape,
                          const int64_t *strides)
{
    return (DLTensor){.data = data,
                      .device = cpu,
                      .ndim = ndim,
                      .dtype = type,
                      .shape = (int64_t *)(uintptr_t)shape,
                      .strides = (int64_t *)(uintptr_t)strides};
}

static mxrt_problem qdq_of(const geometry *g)
{
    DLTensor x = tensor_of(x_memory, f32, g->ndim, g->shape, g->x_strides);
    DLTensor y = tensor_of(y_memory, f32, g->ndim, g->shape, g->y_strides);
    mxrt_plan_request request = {
        .op = MX_OP_QDQ, .format = MX_FORMAT_MX9, .axis = g->axis, .in = &x, .out = &y};
    mx_error err = {MX_OK, ""};
    mxrt_problem problem;

    ck_assert_msg(!mxrt_problem_init(&problem, &request, cpu, 0, &err), "%s", err.message);
    return problem;
}

static mxrt_problem to_of(const geometry *g, const int64_t *x_strides)
{
    int64_t packed_shape[2];
    mx_error err = {MX_OK, ""};
    mxrt_problem problem;

    ck_assert_int_eq(mxrt_packed_shape(MX_FORMAT_MX9, g->ndim, g->shape, g->axis, &packed_shape[0],
                                       &packed_shape[1], &err),
                     MX_OK);
    DLTensor x = tensor_of(x_memory, f32, g->ndim, g->shape, x_strides);
    DLTensor p = tensor_of(y_memory, u8, 2, packed_shape, NULL);
    mxrt_plan_request request = {
        .op = MX_OP_TO, .format = MX_FORMAT_MX9, .axis = g->axis, .in = &x, .out = &p};
    ck_assert_msg(!mxrt_problem_init(&problem, &request, cpu, 0, &err), "%s", err.message);
    return problem;
}

static void check_dims(const mxrt_problem *problem, int n, const mxrt_dim *want)
{
    ck_assert_int_eq(problem->n_dims, n);
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(problem->dims[i].size, want[i].size);
        ck_assert_int_eq(problem->dims[i].row_stride, want[i].row_stride);
        ck_assert_int_eq(problem->dims[i].x_stride, want[i].x_stride);
        ck_assert_int_eq(problem->dims[i].y_stride, want[i].y_stride);
    }
}

START_TEST(contiguous_rows_merge)
{
    geometry g = {4, -1, {2, 3, 1, 40}, {0}, {0}};
    mxrt_problem problem = to_of(&g, NULL);

    ck_assert_int_eq(problem.rows, 6);
    ck_assert_int_eq(problem.len, 40);
    ck_assert_int_eq(problem.bpr, 3);
    ck_assert_int_eq(problem.n_blocks, 18);
    ck_assert_int_eq(problem.x_axis_stride, 1);
    ck_assert_int_eq(problem.p_block_stride, 18);
    ck_assert_int_eq(problem.p_byte_stride, 1);
    check_dims(&problem, 1, &(mxrt_dim){6, 1, 40, 0});
    ck_assert_int_eq(problem.buffers[MXRT_BUFFER_X].extent_bytes, 960);
    ck_assert_int_eq(problem.buffers[MXRT_BUFFER_P].extent_bytes, 324);
    ck_assert_ptr_null(problem.buffers[MXRT_BUFFER_Y].data);
    ck_assert_int_eq(mxrt_problem_bytes(&problem), 960 + 324);
}
END_TEST

START_TEST(one_row_has_no_dimension)
{
    geometry g = {1, 0, {100}, {0}, {0}};
    mxrt_problem problem = to_of(&g, NULL);

    ck_assert_int_eq(problem.n_dims, 0);
    ck_assert_int_eq(problem.rows, 1);
}
END_TEST

/* Axis 0 of [A, B, C]: swapped to [C, B, A], so rows run over C slowest, and B merges with nothing,
 * since in rows it is the inner one and in memory the outer. */
START_TEST(axis_is_swapped)
{
    geometry g = {3, 0, {32, 5, 7}, {0}, {0}};
    mxrt_problem problem = to_of(&g, NULL);

    ck_assert_int_eq(problem.rows, 35);
    ck_assert_int_eq(problem.len, 32);
    ck_assert_int_eq(problem.x_axis_stride, 35);
    check_dims(&problem, 2, (mxrt_dim[]){{7, 5, 1, 0}, {5, 1, 7, 0}});
}
END_TEST

START_TEST(axis_zero_of_a_matrix)
{
    geometry g = {2, 0, {32, 7}, {0}, {0}};
    mxrt_problem problem = to_of(&g, NULL);

    check_dims(&problem, 1, &(mxrt_dim){7, 1, 1, 0});
    ck_assert_int_eq(problem.x_axis_stride, 7);
}
END_TEST

START_TEST(padded_rows)
{
    geometry g = {3, -1, {4, 6, 33}, {0}, {0}};
    mxrt_problem problem = to_of(&g, (int64_t[]){6 * 48, 48, 1});

    check_dims(&problem, 1, &(mxrt_dim){24, 1, 48, 0});
    problem = to_of(&g, (int64_t[]){7 * 48, 48, 1});
    check_dims(&problem, 2, (mxrt_dim[]){{6, 1, 48, 0}, {4, 6, 336, 0}});
}
END_TEST

/* Both sides must agree before rows merge. */
START_TEST(both_sides_decide)
{
    geometry g = {3, -1, {4, 6, 16}, {96, 16, 1}, {96, 16, 1}};
    mxrt_problem problem = qdq_of(&g);

    check_dims(&problem, 1, &(mxrt_dim){24, 1, 16, 16});
    g.y_strides[0] = 100;
    problem = qdq_of(&g);
    check_dims(&problem, 2, (mxrt_dim[]){{6, 1, 16, 16}, {4, 6, 96, 100}});
}
END_TEST

/* Broadcast dimensions have stride 0, merge with one another, and come after unit stride. */
START_TEST(broadcast_merges)
{
    geometry g = {4, 1, {3, 16, 2, 5}, {0}, {0}};
    mxrt_problem problem = to_of(&g, (int64_t[]){0, 5, 0, 1});

    /* Swapped: [3, 5, 2, 16]. */
    check_dims(&problem, 3, (mxrt_dim[]){{5, 2, 1, 0}, {2, 1, 0, 0}, {3, 10, 0, 0}});
    problem = to_of(&g, (int64_t[]){0, 1, 0, 0});
    check_dims(&problem, 1, &(mxrt_dim){30, 1, 0, 0});
}
END_TEST

START_TEST(sizes_of_one_take_any_stride)
{
    geometry g = {3, -1, {1, 8, 1}, {0}, {0}};
    mxrt_problem problem = to_of(&g, (int64_t[]){999, 3, 12345});

    ck_assert_int_eq(problem.x_axis_stride, 1);
    check_dims(&problem, 1, &(mxrt_dim){8, 1, 3, 0});
    ck_assert_int_eq(problem.buffers[MXRT_BUFFER_X].extent_bytes, (7 * 3 + 1) * 4);
}
END_TEST

START_TEST(variables)
{
    geometry g = {3, 0, {33, 5, 7}, {0}, {0}};
    mxrt_problem problem = to_of(&g, NULL);
    int64_t v[MXRT_VAR_COUNT];

    problem.buffers[MXRT_BUFFER_X].data += 48;
    mxrt_problem_vars(&problem, v);
    ck_assert_int_eq(v[MXRT_VAR_N_BLOCKS], 105);
    ck_assert_int_eq(v[MXRT_VAR_ROWS], 35);
    ck_assert_int_eq(v[MXRT_VAR_LEN], 33);
    ck_assert_int_eq(v[MXRT_VAR_BPR], 3);
    ck_assert_int_eq(v[MXRT_VAR_X_ALIGN], 16);
    ck_assert_int_eq(v[MXRT_VAR_Y_ALIGN], 0);
    ck_assert_int_eq(v[MXRT_VAR_P_ALIGN], 4096);
    ck_assert_int_eq(v[MXRT_VAR_X_AXIS_STRIDE], 35);
    ck_assert_int_eq(v[MXRT_VAR_P_BLOCK_STRIDE], 18);
    ck_assert_int_eq(v[MXRT_VAR_N_DIMS], 2);
    ck_assert_int_eq(v[MXRT_VAR_DIM(1, MXRT_DIM_SIZE)], 5);
    ck_assert_int_eq(v[MXRT_VAR_DIM(1, MXRT_DIM_X_STRIDE)], 7);
    for (int k = 2; k < MXPACK_MAX_ROW_DIMS; k++) {
        ck_assert_int_eq(v[MXRT_VAR_DIM(k, MXRT_DIM_SIZE)], 1);
        ck_assert_int_eq(v[MXRT_VAR_DIM(k, MXRT_DIM_ROW_STRIDE)], 1);
        ck_assert_int_eq(v[MXRT_VAR_DIM(k, MXRT_DIM_X_STRIDE)], 0);
    }
}
END_TEST

/* Offsets beyond 32 bits are exact. */
START_TEST(large_tensors)
{
    geometry g = {2, -1, {3, (int64_t)1 << 40}, {0}, {0}};
    mxrt_problem problem = to_of(&g, NULL);

    ck_assert_int_eq(problem.n_blocks, 3 * ((int64_t)1 << 36));
    ck_assert_int_eq(problem.buffers[MXRT_BUFFER_X].extent_bytes, 12 * ((int64_t)1 << 40));
    check_dims(&problem, 1, &(mxrt_dim){3, 1, (int64_t)1 << 40, 0});
}
END_TEST

/* Whatever merging and ordering do, row r must lie where plain counting finds it. */
START_TEST(rows_lie_where_they_should)
{
    unsigned seed = 7;

    for (int round = 0; round < 2000; round++) {
        geometry g = {1 + rand_r(&seed) % 6, 0, {0}, {0}, {0}};
        int64_t x_next = 1, y_next = 1 + rand_r(&seed) % 2, at[6] = {0};
        int swapped[6];
        g.axis = rand_r(&seed) % g.ndim;
        for (int i = g.ndim - 1; i >= 0; i--) {
            g.shape[i] = 1 + rand_r(&seed) % 4;
            g.x_strides[i] = rand_r(&seed) % 8 ? x_next : 0;
            g.y_strides[i] = y_next;
            x_next = x_next * g.shape[i] + (rand_r(&seed) % 3 == 0);
            y_next = y_next * g.shape[i] + (rand_r(&seed) % 3 == 0);
            swapped[i] = i == g.axis ? g.ndim - 1 : i == g.ndim - 1 ? g.axis : i;
        }
        mxrt_problem problem = qdq_of(&g);
        for (int64_t row = 0; row < problem.rows; row++) {
            int64_t x = 0, y = 0, got_x = 0, got_y = 0;
            for (int i = 0; i < g.ndim - 1; i++) {
                x += at[i] * g.x_strides[swapped[i]];
                y += at[i] * g.y_strides[swapped[i]];
            }
            for (int i = 0; i < problem.n_dims; i++) {
                int64_t c = row / problem.dims[i].row_stride % problem.dims[i].size;
                got_x += c * problem.dims[i].x_stride;
                got_y += c * problem.dims[i].y_stride;
            }
            ck_assert_msg(got_x == x && got_y == y, "row %" PRId64, row);
            for (int i = g.ndim - 2; i >= 0 && ++at[i] == g.shape[swapped[i]]; i--)
                at[i] = 0;
        }
    }
}
END_TEST

/* The check for overlap against counting elements. */
START_TEST(overlap_is_exact_for_two_dimensions)
{
    int64_t shape[2], strides[2];
    static unsigned char seen[512];

    for (shape[0] = 1; shape[0] < 6; shape[0]++)
        for (shape[1] = 1; shape[1] < 6; shape[1]++)
            for (strides[0] = 0; strides[0] < 12; strides[0]++)
                for (strides[1] = 0; strides[1] < 12; strides[1]++) {
                    DLTensor y = tensor_of(y_memory, f32, 2, shape, strides);
                    DLTensor x = tensor_of(x_memory, f32, 2, shape, NULL);
                    mxrt_plan_request request = {
                        .op = MX_OP_QDQ, .format = MX_FORMAT_MX9, .in = &x, .out = &y};
                    mxrt_problem problem;
                    int overlaps = 0;
                    memset(seen, 0, sizeof(seen));
                    for (int64_t i = 0; i < shape[0]; i++)
                        for (int64_t j = 0; j < shape[1]; j++)
                            overlaps |= seen[i * strides[0] + j * strides[1]]++ > 0;
                    ck_assert_msg((mxrt_problem_init(&problem, &request, cpu, 0, NULL) == MX_OK) ==
                                      !overlaps,
                                  "shape %" PRId64 " %" PRId64 " strides %" PRId64 " %" PRId64,
                                  shape[0], shape[1], strides[0], strides[1]);
                }
}
END_TEST

START_TEST(in_place)
{
    int64_t shape[2] = {4, 16}, strides[2] = {16, 1}, other[2] = {1, 4};
    DLTensor x = tensor_of(x_memory, f32, 2, shape, NULL);
    DLTensor y = tensor_of(x_memory, f32, 2, shape, strides);
    mxrt_plan_request request = {.op = MX_OP_QDQ, .format = MX_FORMAT_MX9, .in = &x, .out = &y};
    mxrt_problem problem;

    ck_assert_int_eq(mxrt_problem_init(&problem, &request, cpu, 0, NULL), MX_OK);
    y.strides = other;
    ck_assert_int_eq(mxrt_problem_init(&problem, &request, cpu, 0, NULL), MX_ERR_INVALID);
    y.strides = strides;
    y.byte_offset = 4;
    ck_assert_int_eq(mxrt_problem_init(&problem, &request, cpu, 0, NULL), MX_ERR_INVALID);
    y.byte_offset = 4 * 16 * 4;
    ck_assert_int_eq(mxrt_problem_init(&problem, &request, cpu, 0, NULL), MX_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("problem");
    TCase *tests = tcase_create("all");

    tcase_add_test(tests, contiguous_rows_merge);
    tcase_add_test(tests, one_row_has_no_dimension);
    tcase_add_test(tests, axis_is_swapped);
    tcase_add_test(tests, axis_zero_of_a_matrix);
    tcase_add_test(tests, padded_rows);
    tcase_add_test(tests, both_sides_decide);
    tcase_add_test(tests, broadcast_merges);
    tcase_add_test(tests, sizes_of_one_take_any_stride);
    tcase_add_test(tests, variables);
    tcase_add_test(tests, large_tensors);
    tcase_add_test(tests, rows_lie_where_they_should);
    tcase_add_test(tests, overlap_is_exact_for_two_dimensions);
    tcase_add_test(tests, in_place);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
