#include "runtime/gemm_model.h"

#include <jansson.h>
#include <string.h>

#define LAUNCH_SECONDS 3e-6
#define FAST_RATE 1.6    /* FP8's share more than bf16's, with its promotion */
#define DECODE_ROWS 96.0 /* decoding a row of a tile costs as much as so many of its products */

/* Of a compute unit: bf16 products and bytes a second, as far as kernels reach them. By the
 * beginning of the target's name; the last row serves what is not known. */
static const struct {
    const char *prefix;
    double flops, bytes;
} chips[] = {
    {"sm_90", 5.2e12, 3.0e10},  {"compute_90", 5.2e12, 3.0e10},
    {"gfx950", 6e12, 2.4e10},   {"gfx942", 2.8e12, 1.4e10},
    {"gfx90a", 1.3e12, 1.2e10}, {"gfx1201", 2e12, 0.8e10},
    {"gfx1", 1e12, 0.8e10},     {"host", 5e10, 5e9},
    {"", 2e12, 1e10},
};

static int64_t integer_member(const json_t *json, const char *name, int64_t otherwise)
{
    json_int_t value = json_integer_value(json_object_get(json, name));

    return value > 0 && value < 1 << 20 ? value : otherwise;
}

void mxrt_gemm_model_tile(const char *params_json, int64_t *rows, int64_t *columns)
{
    json_t *json = json_loads(params_json, 0, NULL);

    *rows = integer_member(json, "BLOCK_SIZE_M", 128);
    *columns = integer_member(json, "BLOCK_SIZE_N", 128);
    json_decref(json);
}

static double ceil_div(double a, double b)
{
    double quotient = a / b, whole = (double)(int64_t)quotient;

    return whole < quotient ? whole + 1 : whole;
}

void mxrt_gemm_model_bytes(const mxrt_gemm_problem *problem, double *packed, double *result)
{
    int is_rows = problem->pass == MX_GEMM_ROWS;
    double m = (double)problem->m, n = (double)problem->n, k = (double)problem->k;
    static const double element_bytes[] = {0.53, 1.03, 1.03, 2}; /* with scales */
    double left = is_rows ? m * k : n * m,
           right = is_rows ? (double)problem->groups * n * k : k * m;
    double out = is_rows ? (double)problem->out_rows * n : (double)problem->groups * n * k;

    *packed =
        left * element_bytes[problem->left.element] + right * element_bytes[problem->right.element];
    *result = out * mx_dtype_get(problem->dtype)->bytes * (problem->accumulate ? 2 : 1);
}

double mxrt_gemm_model_seconds(const char *target, const mxrt_gemm_problem *problem,
                               const mxrt_gemm_selection *selection, int64_t num_cu)
{
    const mxrt_gemm_route *route = selection->route;
    int is_rows = problem->pass == MX_GEMM_ROWS, is_direct = route->main == 0;
    double groups = (double)(problem->groups > 0 ? problem->groups : 1), units = (double)num_cu;
    double rows = is_rows ? (double)problem->m / groups : (double)problem->n;
    double columns = is_rows ? (double)problem->n : (double)problem->k;
    double depth = is_rows ? (double)problem->k : (double)problem->m / groups;
    double tile_rows = (double)route->tile_rows, tile_columns = (double)route->tile_columns;
    double tiles = groups * ceil_div(rows, tile_rows) * ceil_div(columns, tile_columns);
    double packed, result, workspace = (double)selection->workspace_bytes;
    size_t i = 0;

    while (strncmp(target, chips[i].prefix, strlen(chips[i].prefix)))
        i++;
    double rate = chips[i].flops * (route->mode == MX_GEMM_FAST ? FAST_RATE : 1);
    if (is_direct)
        rate /= 1 + DECODE_ROWS * (1 / tile_rows + 1 / tile_columns);
    double multiply = ceil_div(tiles, units) * 2 * tile_rows * tile_columns * depth / rate;
    double bandwidth = chips[i].bytes * units, launches = LAUNCH_SECONDS * (double)route->n_kernels;
    mxrt_gemm_model_bytes(problem, &packed, &result);
    double prepare = is_direct ? 0 : (packed + workspace) / bandwidth;
    double move = ((is_direct ? packed : workspace) + result) / bandwidth;
    return launches + prepare + (multiply > move ? multiply : move);
}
