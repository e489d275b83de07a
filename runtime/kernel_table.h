/* The kernels of one (operation, format, dtype, profile) on one device, ready to launch, and the
 * choice among them. */
#ifndef MXRT_KERNEL_TABLE_H
#define MXRT_KERNEL_TABLE_H

#include <stdatomic.h>

#include "runtime/backend.h"
#include "runtime/model.h"
#include "runtime/pack_reader.h"
#include "runtime/problem.h"

typedef struct mxrt_table_key {
    mx_op op;
    mx_format format;
    mx_dtype dtype;
    mx_profile profile;
} mxrt_table_key;

typedef struct mxrt_variant {
    const mxrt_pack *pack;
    mxrt_variant_info info;
    mx_layout layout;
    const mxrt_pack_launch *launch;
    const mxrt_backend_kernel *kernel;
    uint32_t lds_bytes; /* for which the kernel was readied */
    uint32_t group;     /* equal for variants of one pack, target and layout; counts up */
    mxrt_model_kernel model;
    char code[20]; /* the identity of its code, as the pack's info tells; "": it does not */
    uint16_t arg_offsets[MXPACK_MAX_ARGS];
    uint16_t rule_ids[MXRT_PACK_MAX_RULES]; /* equal conditions have equal numbers */
    uint64_t seed_args;                     /* a bit for each argument that depends on the seed */
    int seed_decides; /* the seed decides whether or how large it is launched, as no kernel of ours
                         has it */
} mxrt_variant;

/* A variant with its launch evaluated; variant NULL: none. */
typedef struct mxrt_selection {
    const mxrt_variant *variant;
    uint32_t grid[3], block[3], lds_bytes;
    int64_t args[MXPACK_MAX_ARGS]; /* as in mxrt_plan_arg; pointers 0 */
} mxrt_selection;

typedef struct mxrt_tuned mxrt_tuned; /* runtime/tuned.h */

typedef struct mxrt_select_cache mxrt_select_cache;

typedef struct mxrt_kernel_table {
    mxrt_table_key key;
    size_t n_variants;
    mxrt_variant *variants; /* in order of preference */
    uint32_t *by_name;      /* their indices in the order of names */
    size_t n_rules;         /* numbers in rule_ids are below */
    int seed_decides;       /* of any variant */
    mxrt_model_chip chip;
    _Atomic(mxrt_tuned *) tuned; /* NULL: nothing is used */
    mxrt_select_cache *cache;
} mxrt_kernel_table;

/* Orders the variants of all packs and loads what they need. Under the device's lock. */
mx_status mxrt_kernel_table_build(mxrt_device *device, const mxrt_table_key *key,
                                  mxrt_kernel_table **out, mx_error *err);
/* Takes NULL. Modules stay with the device. */
void mxrt_kernel_table_destroy(mxrt_kernel_table *table);

/* Loads a variant of a pack; its group and rules' numbers are the caller's. Under the device's
 * lock.
 */
mx_status mxrt_variant_init(mxrt_device *device, const mxrt_pack *pack, size_t index,
                            mxrt_variant *out, mx_error *err);

/* Whether this variant applies, and its launch, by the values of its family's variables. The
 * message says why not. Neither this nor the next allocates or locks. */
mx_status mxrt_select_variant(const mxrt_variant *variant, const int64_t *values,
                              mxrt_selection *out, mx_error *err);

/* The one chosen by measurements, else by the model; remembered. None is MX_ERR_UNSUPPORTED,
 * without a message where the table is empty. */
mx_status mxrt_select_best(const mxrt_kernel_table *table, const int64_t values[MXRT_VAR_COUNT],
                           mxrt_selection *out, mx_error *err);

/* The same by a policy, not remembered, with the reason; `choice` may be NULL. Nothing measured
 * under MXRT_POLICY_CACHED is MX_ERR_NOT_FOUND. */
mx_status mxrt_select_by_policy(const mxrt_kernel_table *table, mxrt_policy policy,
                                const int64_t values[MXRT_VAR_COUNT], mxrt_selection *out,
                                mxrt_choice *choice, mx_error *err);

/* The model's relative time of a launch; less is better. */
double mxrt_select_score(const mxrt_kernel_table *table, const mxrt_selection *selection);

/* NULL if no variant has the name. */
const mxrt_variant *mxrt_kernel_table_find(const mxrt_kernel_table *table, const char *name);

/* Writes the argument block, launch->args_bytes long; addresses by the numbers of the buffers. */
void mxrt_selection_args(const mxrt_selection *selection, const void *const *buffers,
                         unsigned char *block);

/* ---- Selections made before ---- */

/* NULL if there is no memory. */
mxrt_select_cache *mxrt_select_cache_create(void);
void mxrt_select_cache_destroy(mxrt_select_cache *cache);

/* Seeds change with every call and choose nothing: the table looks up and stores values without
 * them, and evaluates what depends on them again.
 *
 * Fills *out and returns 1 if the same values were stored; else *out may hold anything. Any number
 * of threads may look up and store at once; none waits for another. `variants` must be the same
 * array in all calls. */
int mxrt_select_cache_find(mxrt_select_cache *cache, const mxrt_variant *variants,
                           const int64_t values[MXRT_VAR_COUNT], mxrt_selection *out);
void mxrt_select_cache_store(mxrt_select_cache *cache, const mxrt_variant *variants,
                             const int64_t values[MXRT_VAR_COUNT], const mxrt_selection *selection,
                             uint64_t age);
/* To be asked before the choice that is stored: what changes choices and then calls clear,
 * meanwhile, makes it worthless. */
uint64_t mxrt_select_cache_age(const mxrt_select_cache *cache);
void mxrt_select_cache_clear(mxrt_select_cache *cache);

#endif
