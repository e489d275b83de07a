/* Measurements of products. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device.h"
#include "runtime/gemm_model.h"

enum { ALIGN_MOST = 16, LEFT_TRANSPOSED = 1, RIGHT_TRANSPOSED = 2 };

/* So many operations take about as long as a byte. */
#define OPERATIONS_A_BYTE 256

/* Groups, rows of one (of gemm_cols, its part of the contraction), N, K; alignment, transposed
 * scales, accumulation, units. */
static const mxrt_bucket_form bucket_form = {.letters = "gmnkatcu", .n_near = 4};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t align_of_stride(int64_t bytes)
{
    return bytes ? bytes & -bytes : ALIGN_MOST;
}

/* Of rows that are read or written in pieces. */
static int bucket_align(const mxrt_gemm_problem *problem, const int64_t *values)
{
    int64_t out_bytes = mx_dtype_get(problem->dtype)->bytes;
    const int64_t aligns[] = {values[MXRT_GEMM_VAR_LEFT_ALIGN],
                              values[MXRT_GEMM_VAR_RIGHT_ALIGN],
                              values[MXRT_GEMM_VAR_OUT_ALIGN],
                              align_of_stride(problem->left.row_stride),
                              align_of_stride(problem->right.row_stride),
                              align_of_stride(problem->out_row_stride * out_bytes)};
    int64_t align = ALIGN_MOST;

    for (size_t i = 0; i < sizeof(aligns) / sizeof(aligns[0]); i++)
        align = least(align, aligns[i]);
    return (int)align;
}

void mxrt_gemm_bucket_of(const mxrt_gemm_problem *problem,
                         const int64_t values[MXRT_GEMM_VAR_COUNT], mxrt_bucket *out)
{
    int transposed = (problem->left.scale_block_stride > 1 ? LEFT_TRANSPOSED : 0) |
                     (problem->right.scale_block_stride > 1 ? RIGHT_TRANSPOSED : 0);

    *out = (mxrt_bucket){
        .form = &bucket_form,
        .numbers = {mxrt_floor_log2(problem->groups),
                    mxrt_floor_log2(problem->m / (problem->groups ? problem->groups : 1)),
                    mxrt_floor_log2(problem->n), mxrt_floor_log2(problem->k),
                    bucket_align(problem, values), transposed, problem->accumulate,
                    (int)least(values[MXRT_GEMM_VAR_NUM_CU], INT32_MAX)}};
}

/* Texts of a key that all routes of a problem share. */
static void name_key(const mxrt_gemm_table_key *key, mx_gemm_mode mode, mxrt_tune_row *row)
{
    snprintf(row->op, sizeof(row->op), "%s", mx_gemm_pass_name(key->pass));
    snprintf(row->format, sizeof(row->format), "%s.%s", mx_gemm_element_name(key->left),
             mx_gemm_element_name(key->right));
    snprintf(row->dtype, sizeof(row->dtype), "%s", mx_dtype_get(key->dtype)->name);
    snprintf(row->profile, sizeof(row->profile), "%s", mx_gemm_mode_name(mode));
}

int64_t mxrt_gemm_tuned_bytes(const mxrt_gemm_problem *problem)
{
    double operations = 2.0 * (double)problem->m * (double)problem->n * (double)problem->k;
    const mxrt_gemm_bytes bytes = mxrt_gemm_model_bytes(problem);

    return (int64_t)(bytes.left + bytes.right + bytes.result + operations / OPERATIONS_A_BYTE);
}

void mxrt_gemm_tuned_key(const mxrt_device *device, const mxrt_gemm_problem *problem,
                         const mxrt_gemm_route *route, mxrt_tune_row *row)
{
    const mxrt_gemm_table_key key = mxrt_gemm_table_key_of(problem);
    int64_t values[MXRT_GEMM_VAR_COUNT];
    mxrt_bucket bucket;

    mxrt_gemm_problem_vars(problem, device->info.compute_units, values);
    mxrt_gemm_bucket_of(problem, values, &bucket);
    mxrt_tuned_key_begin(device, &bucket, mxrt_gemm_route_main(route), row);
    name_key(&key, problem->mode, row);
    snprintf(row->code, sizeof(row->code), "%s", route->code);
    row->bytes = mxrt_gemm_tuned_bytes(problem);
}

static int find_route(const void *of, const char *name, const char *code)
{
    const mxrt_gemm_table *table = of;

    for (size_t i = 0; i < table->n_routes; i++) {
        const mxrt_gemm_route *route = &table->routes[i];
        if (route->code[0] && !strcmp(mxrt_gemm_route_main(route)->info.name, name))
            return strcmp(route->code, code) ? -1 : (int)i;
    }
    return -1;
}

void mxrt_gemm_tuned_read(mxrt_device *device, mxrt_gemm_table *table)
{
    const mxrt_tuned_subject subject = {&bucket_form, find_route, table};

    for (int mode = 0; table->n_routes && mode < MX_GEMM_MODE_COUNT; mode++) {
        mxrt_tune_row names;
        name_key(&table->key, (mx_gemm_mode)mode, &names);
        const mxrt_tune_filter filter = {
            .op = names.op, .format = names.format, .dtype = names.dtype, .profile = names.profile};
        atomic_store(&table->tuned[mode], mxrt_tuned_load(device, &filter, &subject));
    }
}
