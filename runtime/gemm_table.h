/* The kernels of one kind of grouped GEMM on one device, ready to launch. */
#ifndef MXRT_GEMM_TABLE_H
#define MXRT_GEMM_TABLE_H

#include "runtime/gemm_problem.h"
#include "runtime/kernel_table.h"

#define MXRT_GEMM_TABLE_COUNT                                                                      \
    (MX_GEMM_PASS_COUNT * MX_GEMM_ELEMENT_COUNT * MX_GEMM_ELEMENT_COUNT * MX_DTYPE_COUNT)

typedef struct mxrt_gemm_table_key {
    mx_gemm_pass pass;
    mx_gemm_element left, right;
    mx_dtype dtype;
} mxrt_gemm_table_key;

static inline size_t mxrt_gemm_table_index(const mxrt_gemm_table_key *key)
{
    return (((size_t)key->pass * MX_GEMM_ELEMENT_COUNT + key->left) * MX_GEMM_ELEMENT_COUNT +
            key->right) *
               MX_DTYPE_COUNT +
           key->dtype;
}

/* A variant and its steps, in the order of their launches. */
typedef struct mxrt_gemm_route {
    mx_gemm_mode mode;
    size_t n_kernels, main; /* kernels[main] is the variant itself */
    int64_t tile_rows, tile_columns;
    mxrt_variant kernels[MXRT_GEMM_MAX_LAUNCHES];
} mxrt_gemm_route;

typedef struct mxrt_gemm_table {
    mxrt_gemm_table_key key;
    size_t n_routes;
    mxrt_gemm_route *routes; /* in order of preference: of either mode the fast ones first */
} mxrt_gemm_table;

/* A route with its launches evaluated; route NULL: none. */
typedef struct mxrt_gemm_selection {
    const mxrt_gemm_route *route;
    int64_t workspace_bytes; /* of the kernels */
    mxrt_selection launches[MXRT_GEMM_MAX_LAUNCHES];
} mxrt_gemm_selection;

/* The table of a key, built if this is the first time. */
mx_status mxrt_gemm_table_get(mxrt_device *device, const mxrt_gemm_table_key *key,
                              const mxrt_gemm_table **out, mx_error *err);
/* Takes NULL. */
void mxrt_gemm_table_destroy(mxrt_gemm_table *table);

/* Whether this route applies, and its launches; the message says why not. */
mx_status mxrt_gemm_select_route(const mxrt_gemm_route *route,
                                 const int64_t values[MXRT_GEMM_VAR_COUNT],
                                 mxrt_gemm_selection *out, mx_error *err);

/* The first that applies in the problem's mode, or one that the model finds much faster. */
mx_status mxrt_gemm_select(const mxrt_device *device, const mxrt_gemm_table *table,
                           const mxrt_gemm_problem *problem,
                           const int64_t values[MXRT_GEMM_VAR_COUNT], mxrt_gemm_selection *out,
                           mx_error *err);

#endif
