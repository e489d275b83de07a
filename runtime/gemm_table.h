/* The kernels of one kind of grouped GEMM on one device, ready to launch. */
#ifndef MXRT_GEMM_TABLE_H
#define MXRT_GEMM_TABLE_H

#include "runtime/gemm_problem.h"
#include "runtime/kernel_table.h"
#include "runtime/tuned.h"

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

static inline mxrt_gemm_table_key mxrt_gemm_table_key_of(const mxrt_gemm_problem *problem)
{
    return (mxrt_gemm_table_key){problem->pass, problem->left.element, problem->right.element,
                                 problem->dtype};
}

/* How a route comes to its products: from operands that its steps decode ahead into the workspace;
 * from packed ones, decoded in each tile; or with the rows of left that a tile has in registers,
 * while right streams past. */
typedef enum mxrt_gemm_kind_of_route {
    MXRT_GEMM_PREPARED = 0,
    MXRT_GEMM_DIRECT,
    MXRT_GEMM_STREAMED
} mxrt_gemm_kind_of_route;

/* A variant and its steps, in the order of their launches. */
typedef struct mxrt_gemm_route {
    mx_gemm_mode mode;
    size_t n_kernels, main; /* kernels[main] is the variant itself */
    mxrt_gemm_kind_of_route kind;
    int64_t tile_rows, tile_columns;
    char code[20]; /* the identity of all their code; "": one does not tell */
    mxrt_variant kernels[MXRT_GEMM_MAX_LAUNCHES];
} mxrt_gemm_route;

typedef struct mxrt_gemm_table {
    mxrt_gemm_table_key key;
    size_t n_routes;
    mxrt_gemm_route *routes; /* in order of preference: of either mode the fast ones first */
    _Atomic(mxrt_tuned *) tuned[MX_GEMM_MODE_COUNT]; /* by the problem's mode; NULL: nothing */
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
/* Another one. Under the device's lock. */
mx_status mxrt_gemm_table_build(mxrt_device *device, const mxrt_gemm_table_key *key,
                                mxrt_gemm_table **out, mx_error *err);
/* Takes NULL. */
void mxrt_gemm_table_destroy(mxrt_gemm_table *table);

static inline const mxrt_variant *mxrt_gemm_route_main(const mxrt_gemm_route *route)
{
    return &route->kernels[route->main];
}

/* ---- gemm_tuned.c: measurements ---- */

/* How alike two products are for tuning (mxgen/tune.h). */
void mxrt_gemm_bucket_of(const mxrt_gemm_problem *problem,
                         const int64_t values[MXRT_GEMM_VAR_COUNT], mxrt_bucket *out);
/* What stands for its bytes in rows of tuning files. */
int64_t mxrt_gemm_tuned_bytes(const mxrt_gemm_problem *problem);
/* The key of a measurement of a route, layout and bytes; the rest is zero. */
void mxrt_gemm_tuned_key(const mxrt_device *device, const mxrt_gemm_problem *problem,
                         const mxrt_gemm_route *route, mxrt_tune_row *row);
/* Reads what the tuning files know of the routes, into the table. Never fails. */
void mxrt_gemm_tuned_read(mxrt_device *device, mxrt_gemm_table *table);

/* ---- gemm_select.c: choice ---- */

/* Whether this route applies, and its launches; the message says why not. */
mx_status mxrt_gemm_select_route(const mxrt_gemm_route *route,
                                 const int64_t values[MXRT_GEMM_VAR_COUNT],
                                 mxrt_gemm_selection *out, mx_error *err);

/* Whether a problem's mode lets a route serve. */
static inline int mxrt_gemm_serves(const mxrt_gemm_route *route, const mxrt_gemm_problem *problem)
{
    return problem->mode != MX_GEMM_EXACT || route->mode == MX_GEMM_EXACT;
}

/* The model's milliseconds. */
double mxrt_gemm_select_score(const mxrt_device *device, const mxrt_gemm_problem *problem,
                              const mxrt_gemm_selection *selection);

/* The one chosen by a policy, with the reason; `choice` may be NULL. By the model it is the first
 * that applies in the problem's mode, or one that the model finds much faster. Nothing measured
 * under MXRT_POLICY_CACHED is MX_ERR_NOT_FOUND. */
mx_status mxrt_gemm_select(const mxrt_device *device, const mxrt_gemm_table *table,
                           const mxrt_gemm_problem *problem, mxrt_policy policy,
                           mxrt_gemm_selection *out, mxrt_choice *choice, mx_error *err);

#endif
