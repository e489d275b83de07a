/* An open device: a driver's device, the packs it sees and the kernels made ready so far. */
#ifndef MXRT_DEVICE_H
#define MXRT_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/gemm_table.h"
#include "runtime/kernel.h"
#include "runtime/kernel_table.h"

#define MXRT_TABLE_COUNT (MX_OP_COUNT * MX_FORMAT_COUNT * MX_DTYPE_COUNT * MX_PROFILE_COUNT)

/* A code object that was loaded; many variants share one. */
typedef struct mxrt_module {
    struct mxrt_module *next;
    const mxrt_pack *pack;
    int64_t object_id;
    mxrt_backend_module *module;
} mxrt_module;

/* What came of compiling for a key, which is tried once. */
typedef struct mxrt_compiled {
    mxrt_pack *pack;             /* NULL: there is none */
    mxrt_kernel_table *replaced; /* the table before; plans point into it */
    mxrt_gemm_table *replaced_gemm;
    mx_error failure; /* MX_OK: the table has the pack's kernels */
} mxrt_compiled;

struct mxrt_device {
    mxrt_context *context;
    const mxrt_backend_ops *ops;
    mxrt_backend *backend;
    mxrt_device_info info;
    size_t n_packs;
    mxrt_pack **packs; /* those compiled, then the context's, in the order of adding */

    pthread_mutex_t lock; /* for packs and modules, and for building tables */
    mxrt_module *modules;
    mxrt_kernel *kernels; /* found by name; under the lock, but each is only read */
    /* Published when complete, then never changed until the device is closed; one with compiled
     * kernels may take its place. */
    _Atomic(mxrt_kernel_table *) tables[MXRT_TABLE_COUNT];
    _Atomic(mxrt_gemm_table *) gemm_tables[MXRT_GEMM_TABLE_COUNT];

    pthread_mutex_t measure_lock; /* taken before `lock`; held while kernels are measured */
    pthread_mutex_t compile_lock; /* taken before the other one; held while a compiler runs */
    _Atomic(mxrt_compiled *) compiled[MXRT_TABLE_COUNT]; /* NULL: not tried */
    _Atomic(mxrt_compiled *) gemm_compiled[MXRT_GEMM_TABLE_COUNT];
};

/* The place of a key in the arrays. */
static inline size_t mxrt_table_index(const mxrt_table_key *key)
{
    return (((size_t)key->op * MX_FORMAT_COUNT + key->format) * MX_DTYPE_COUNT + key->dtype) *
               MX_PROFILE_COUNT +
           key->profile;
}

/* The table of a key, built if this is the first time. */
mx_status mxrt_device_table(mxrt_device *device, const mxrt_table_key *key,
                            const mxrt_kernel_table **out, mx_error *err);

/* The module of an object of a pack, loaded if this is the first time. Under the lock. */
mx_status mxrt_device_module(mxrt_device *device, const mxrt_pack *pack,
                             const mxrt_variant_info *info, mxrt_backend_module **out,
                             mx_error *err);

/* Launches a selection; without a variant, the reference. */
mx_status mxrt_device_launch(mxrt_device *device, const mxrt_problem *problem,
                             const mxrt_selection *selection, mxrt_stream stream, mx_error *err);

/* How a kernel is chosen. */
typedef struct mxrt_select_how {
    mxrt_policy policy;
    mxrt_stream stream;  /* while it captures a graph nothing is compiled or measured */
    double budget_us;    /* MXRT_POLICY_MEASURE */
    mxrt_choice *choice; /* gets the reason where there is a kernel; may be NULL */
} mxrt_select_how;

/* The kernel for a problem with blocks, or none (*out has no variant) where the reference serves.
 * Compiles where there is none. */
mx_status mxrt_device_select(mxrt_device *device, const mxrt_problem *problem,
                             const mxrt_select_how *how, mxrt_selection *out, mx_error *err);
/* Of what the reference does not turn. */
mx_status mxrt_device_fail_turned(const mxrt_device *device, mx_error *err);

/* The same for products, in gemm_select.c; *out has no route where the reference serves. */
mx_status mxrt_device_select_gemm(mxrt_device *device, const mxrt_gemm_problem *problem,
                                  const mxrt_select_how *how, mxrt_gemm_selection *out,
                                  mx_error *err);

/* ---- device_missing.c: kernels that no pack has ---- */

/* Compiles kernels of a key, if that was not tried before. On success the key's table may be a new
 * one; MX_ERR_UNSUPPORTED otherwise, with the compiler's message, "" if compiling is off. */
mx_status mxrt_device_compile(mxrt_device *device, const mxrt_table_key *key, mxrt_stream stream,
                              mx_error *err);
mx_status mxrt_device_compile_gemm(mxrt_device *device, const mxrt_gemm_table_key *key,
                                   mxrt_stream stream, mx_error *err);
/* That no pack has a kernel of the key, what the packs have, and `reason`, why none was compiled.
 */
mx_status mxrt_device_fail_missing(mxrt_device *device, const mxrt_table_key *key,
                                   const mx_error *reason, mx_error *err);
mx_status mxrt_device_fail_missing_gemm(mxrt_device *device, const mxrt_gemm_table_key *key,
                                        mx_gemm_mode mode, const mx_error *reason, mx_error *err);
/* Releases what these made; after modules and tables. */
void mxrt_device_finish_compiled(mxrt_device *device);

#endif
