/* An open device: a driver's device, the packs it sees and the kernels made ready so far. */
#ifndef MXRT_DEVICE_H
#define MXRT_DEVICE_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/kernel_table.h"

#define MXRT_TABLE_COUNT (MX_OP_COUNT * MX_FORMAT_COUNT * MX_DTYPE_COUNT * MX_PROFILE_COUNT)

/* A code object that was loaded; many variants share one. */
typedef struct mxrt_module {
    struct mxrt_module *next;
    const mxrt_pack *pack;
    int64_t object_id;
    mxrt_backend_module *module;
} mxrt_module;

struct mxrt_device {
    mxrt_context *context;
    const mxrt_backend_ops *ops;
    mxrt_backend *backend;
    mxrt_device_info info;
    size_t n_packs;
    mxrt_pack **packs; /* in the order in which they were added; the context's */

    pthread_mutex_t lock; /* for modules, and for building tables */
    mxrt_module *modules;
    /* Published when complete, then never changed until the device is closed. */
    _Atomic(mxrt_kernel_table *) tables[MXRT_TABLE_COUNT];
};

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

/* The best kernel for a problem with blocks, or none (*out has no variant) where the reference
 * serves. */
mx_status mxrt_device_select(mxrt_device *device, const mxrt_problem *problem, mxrt_selection *out,
                             mx_error *err);

#endif
