#include "runtime/gemm_model.h"

#include <jansson.h>
#include <string.h>

/* Fitted to products measured on an H200 (docs/performance.md). Seconds of a launch; of a tile from
 * the first copy to the last store, beside its products; of a kernel that streams, beside its
 * bytes. */
#define LAUNCH_SECONDS 3e-6
#define TILE_SECONDS 2.4e-6
#define STREAM_SECONDS 6.2e-6
/* Operands of a tile are copied, or decoded from their elements, for all of it: each row of one
 * costs as much as so many of its products. */
#define COPY_ROWS 34.0
static const double decode_rows[MX_GEMM_ELEMENT_COUNT] = {69, 130, 130, 40};
/* Of the bandwidth, as far as decoding ahead and streaming reach it. */
#define PREPARE_SHARE 0.71
#define STREAM_SHARE 0.45

/* Products of FP8 are added up more often; by how many of the two operands have it. */
static const double fp8_shares[] = {1, 0.93, 0.82};

/* Of a compute unit, a second: bytes; operations of prepared products, from a byte an element
 * (fast) and from two; of direct ones. By the beginning of the target's name; the last row serves
 * what is not known. That of sm_90 is fitted, the others are of data sheets. */
typedef struct chip {
    const char *prefix;
    double bytes, fast, exact, direct;
} chip;

static const chip chips[] = {
    {"sm_90", 3.1e10, 2.02e13, 1.01e13, 3e12},
    {"compute_90", 3.1e10, 2.02e13, 1.01e13, 3e12},
    {"gfx950", 2.4e10, 9.6e12, 6e12, 6e12},
    {"gfx942", 1.4e10, 4.5e12, 2.8e12, 2.8e12},
    {"gfx90a", 1.2e10, 2.1e12, 1.3e12, 1.3e12},
    {"gfx1201", 0.8e10, 3.2e12, 2e12, 2e12},
    {"gfx1", 0.8e10, 1.6e12, 1e12, 1e12},
    {"host", 5e9, 8e10, 5e10, 5e10},
    {"", 1e10, 3.2e12, 2e12, 2e12},
};

static int64_t integer_member(const json_t *json, const char *name, int64_t otherwise)
{
    json_int_t value = json_integer_value(json_object_get(json, name));

    return value > 0 && value < 1 << 20 ? value : otherwise;
}

void mxrt_gemm_model_init(const char *params_json, mxrt_gemm_route *route)
{
    json_t *json = json_loads(params_json, 0, NULL);

    route->tile_rows = integer_member(json, "BLOCK_SIZE_M", 128);
    route->tile_columns = integer_member(json, "BLOCK_SIZE_N", 128);
    route->kind = route->main                             ? MXRT_GEMM_PREPARED
                  : json_object_get(json, "BLOCK_SIZE_K") ? MXRT_GEMM_DIRECT
                                                          : MXRT_GEMM_STREAMED;
    json_decref(json);
}

static double ceil_div(double a, double b)
{
    double quotient = a / b, whole = (double)(int64_t)quotient;

    return whole < quotient ? whole + 1 : whole;
}

static double largest(double a, double b)
{
    return a > b ? a : b;
}

mxrt_gemm_bytes mxrt_gemm_model_bytes(const mxrt_gemm_problem *problem)
{
    int is_rows = problem->pass == MX_GEMM_ROWS;
    double m = (double)problem->m, n = (double)problem->n, k = (double)problem->k;
    double groups = (double)problem->groups;
    static const double element_bytes[] = {0.53, 1.03, 1.03, 2}; /* with scales */
    double out = is_rows ? (double)problem->out_rows * n : groups * n * k;

    return (mxrt_gemm_bytes){
        .left = (is_rows ? m * k : n * m) * element_bytes[problem->left.element],
        .right = (is_rows ? groups * n * k : k * m) * element_bytes[problem->right.element],
        .result = out * mx_dtype_get(problem->dtype)->bytes * (problem->accumulate ? 2 : 1)};
}

static const chip *find_chip(const char *target)
{
    const chip *at = chips;

    while (strncmp(target, at->prefix, strlen(at->prefix)))
        at++;
    return at;
}

static int is_fp8(mx_gemm_element element)
{
    return element == MX_GEMM_MXFP8_E4M3 || element == MX_GEMM_MXFP8_E5M2;
}

/* Operations a second of a unit, where a tile is large. */
static double rate_of(const chip *c, const mxrt_gemm_problem *problem, const mxrt_gemm_route *route)
{
    if (route->kind != MXRT_GEMM_PREPARED)
        return c->direct;
    if (route->mode == MX_GEMM_EXACT)
        return c->exact;
    return c->fast * fp8_shares[is_fp8(problem->left.element) + is_fp8(problem->right.element)];
}

double mxrt_gemm_model_seconds(const char *target, const mxrt_gemm_problem *problem,
                               const mxrt_gemm_selection *selection, int64_t num_cu)
{
    const mxrt_gemm_route *route = selection->route;
    const chip *c = find_chip(target);
    int is_rows = problem->pass == MX_GEMM_ROWS, is_prepared = route->kind == MXRT_GEMM_PREPARED;
    double groups = (double)(problem->groups > 0 ? problem->groups : 1), units = (double)num_cu;
    double rows = is_rows ? (double)problem->m / groups : (double)problem->n;
    double columns = is_rows ? (double)problem->n : (double)problem->k;
    double depth = is_rows ? (double)problem->k : (double)problem->m / groups;
    double tile_rows = (double)route->tile_rows, tile_columns = (double)route->tile_columns;
    double row_tiles = ceil_div(rows, tile_rows);
    double rounds = ceil_div(groups * row_tiles * ceil_div(columns, tile_columns), units);
    const mxrt_gemm_bytes bytes = mxrt_gemm_model_bytes(problem);
    double packed = bytes.left + bytes.right, workspace = (double)selection->workspace_bytes;
    double seconds = LAUNCH_SECONDS * (double)route->n_kernels, bandwidth = c->bytes * units;

    if (route->kind == MXRT_GEMM_STREAMED)
        return seconds + STREAM_SECONDS +
               (bytes.left + bytes.right * row_tiles + bytes.result) / (bandwidth * STREAM_SHARE);
    double left = is_prepared ? COPY_ROWS : decode_rows[problem->left.element];
    double right = is_prepared ? COPY_ROWS : decode_rows[problem->right.element];
    double products = 2 * tile_rows * tile_columns * depth / rate_of(c, problem, route) *
                      (1 + left / tile_columns + right / tile_rows);
    if (is_prepared)
        seconds += (packed + workspace) / (bandwidth * PREPARE_SHARE);
    return seconds + largest(rounds * (TILE_SECONDS + products),
                             ((is_prepared ? workspace : packed) + bytes.result) / bandwidth);
}
