/* Kernels written by others: found by name, launched with plain arguments. */
#include "runtime/kernel.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "runtime/context.h"
#include "runtime/device.h"
#include "runtime/tuned.h"

#define MAX_ALIGN 4096
#define MAX_GRID_X 2147483647
#define MAX_GRID_YZ 65535
#define MAX_BLOCK_ITEMS 1024

_Static_assert((int)MXRT_ARG_F32 == 3, "kinds of arguments are numbered as their names are");
static const char *const kind_names[] = {"pointer", "i32", "i64", "f32"};

void mxrt_kernels_destroy(mxrt_kernel *first)
{
    while (first) {
        mxrt_kernel *next = first->next;
        free(first->name);
        free(first->measured);
        free(first);
        first = next;
    }
}

/* ---- Finding ---- */

/* Place of a target among the device's; -1 if it cannot run it. */
static int target_place(const mxrt_device *device, const mxrt_pack_kernel *kernel)
{
    const char *name;
    if (!device->ops->accepts(device->backend, kernel->object_kind))
        return -1;
    for (int i = 0; (name = device->ops->target(device->backend, (size_t)i)); i++) {
        if (!strcmp(name, kernel->target))
            return i;
    }
    return -1;
}

/* A kernel of the pack that has the name, with what decides its place. */
typedef struct candidate {
    const mxrt_pack_kernel *kernel;
    int target;
} candidate;

static int compare_candidates(const void *left, const void *right)
{
    const candidate *a = left, *b = right;
    if (a->target != b->target)
        return a->target - b->target;
    if (a->kernel->rank != b->kernel->rank)
        return a->kernel->rank < b->kernel->rank ? -1 : 1;
    return (a->kernel > b->kernel) - (a->kernel < b->kernel);
}

/* Stores up to `capacity`; returns how many there are. */
static size_t collect(const mxrt_device *device, const mxrt_pack_kernels *kernels, const char *name,
                      candidate *out, size_t capacity)
{
    size_t n = 0;
    for (size_t i = 0; i < kernels->n; i++) {
        const mxrt_pack_kernel *kernel = &kernels->items[i];
        int place = strcmp(kernel->kernel, name) && strcmp(kernel->name, name)
                        ? -1
                        : target_place(device, kernel);
        if (place < 0)
            continue;
        if (n < capacity)
            out[n] = (candidate){kernel, place};
        n++;
    }
    return n;
}

static int same_inputs(const mxrt_pack_kernel *a, const mxrt_pack_kernel *b)
{
    for (size_t i = 0; a->n_inputs == b->n_inputs && i < a->n_inputs; i++) {
        if (a->inputs[i].kind != b->inputs[i].kind)
            return 0;
    }
    return a->n_inputs == b->n_inputs;
}

static mx_status load_variant(mxrt_device *device, const mxrt_pack *pack,
                              const mxrt_pack_kernel *from, mxrt_kernel_variant *out, mx_error *err)
{
    const mxrt_variant_info object = {.object_id = from->object_id,
                                      .object_kind = from->object_kind};
    mxrt_backend_module *module;
    out->from = from;
    out->is_host = !strcmp(from->object_kind, MXPACK_KIND_HOST);
    for (size_t i = 0; i < from->n_args; i++)
        out->arg_offsets[i] = from->args[i].offset_bytes;
    mx_status status = mxrt_device_module(device, pack, &object, &module, err);
    return status ? status
                  : device->ops->module_kernel(device->backend, module, from->symbol,
                                               from->lds_bytes, &out->code, err);
}

/* A name that came before is the kernel's other form, for an older chip or as text for the driver's
 * compiler. */
static int has_variant(const mxrt_kernel *kernel, const char *name)
{
    for (size_t i = 0; i < kernel->n_variants; i++) {
        if (!strcmp(kernel->variants[i].from->name, name))
            return 1;
    }
    return 0;
}

static mx_status load_variants(mxrt_kernel *kernel, const mxrt_pack *pack,
                               const candidate *candidates, size_t n, mx_error *err)
{
    mx_error reason = {MX_OK, ""};
    for (size_t i = 0; i < n; i++) {
        const mxrt_pack_kernel *from = candidates[i].kernel;
        if (has_variant(kernel, from->name))
            continue;
        if (!same_inputs(from, candidates[0].kernel))
            return mx_fail(err, MX_ERR_CORRUPT,
                           "kernel %s (%s) and %s (%s) take different arguments: build the pack "
                           "again",
                           candidates[0].kernel->name, candidates[0].kernel->target, from->name,
                           from->target);
        mx_status status = load_variant(kernel->device, pack, from,
                                        &kernel->variants[kernel->n_variants], &reason);
        if (!status)
            kernel->n_variants++;
        else if (status != MX_ERR_DEVICE)
            return mx_fail(err, status, "%s", reason.message);
        else
            mxrt_context_log(kernel->device->context, "kernel %s (%s) cannot be used on %s: %s",
                             from->name, from->target, kernel->device->info.uri, reason.message);
    }
    return kernel->n_variants ? MX_OK : mx_fail(err, reason.status, "%s", reason.message);
}

static mx_status load_from(mxrt_device *device, const mxrt_pack *pack, const char *name,
                           mxrt_kernel **out, mx_error *err)
{
    const mxrt_pack_kernels *kernels = mxrt_pack_kernels_of(pack);
    size_t n = collect(device, kernels, name, NULL, 0);
    if (!n)
        return MX_ERR_NOT_FOUND;
    candidate *candidates = calloc(n, sizeof(*candidates));
    mxrt_kernel *kernel = calloc(1, sizeof(*kernel) + n * sizeof(kernel->variants[0]));
    mx_status status = MX_OK;
    if (kernel)
        kernel->name = strdup(name);
    if (!candidates || !kernel || !kernel->name) {
        status = mx_fail(err, MX_ERR_NO_MEMORY, "no memory for kernel %s", name);
        goto out;
    }
    kernel->device = device;
    collect(device, kernels, name, candidates, n);
    qsort(candidates, n, sizeof(*candidates), compare_candidates);
    if ((status = load_variants(kernel, pack, candidates, n, err)))
        goto out;
    mxrt_kernel_read_tuned(kernel);
    *out = kernel;
    kernel = NULL;
out:
    free(candidates);
    mxrt_kernels_destroy(kernel);
    return status;
}

/* What there is, for who asked for something else. */
static mx_status fail_not_found(const mxrt_device *device, const char *name, mx_error *err)
{
    char list[500] = "";
    size_t used = 0;
    for (size_t p = 0; p < device->n_packs; p++) {
        const mxrt_pack_kernels *kernels = mxrt_pack_kernels_of(device->packs[p]);
        const char *last = "";
        for (size_t i = 0; i < kernels->n && used < sizeof(list); i++) {
            const mxrt_pack_kernel *kernel = &kernels->items[i];
            if (!strcmp(kernel->kernel, name))
                return mx_fail(
                    err, MX_ERR_NOT_FOUND,
                    "kernel %s is in a pack for %s, not for %s (%s): compile it for that", name,
                    kernel->target, device->info.target, device->info.uri);
            if (strcmp(kernel->kernel, last))
                used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "",
                                         kernel->kernel);
            last = kernel->kernel;
        }
    }
    return mx_fail(err, MX_ERR_NOT_FOUND, "no pack has a kernel \"%s\"; %s%s: see mxgen compile",
                   name, used ? "there are " : "none has any kernel that was compiled from a file",
                   list);
}

static mx_status find_locked(mxrt_device *device, const char *name, const mxrt_kernel **out,
                             mx_error *err)
{
    mxrt_kernel *kernel = device->kernels;
    mx_status status = MX_ERR_NOT_FOUND;
    while (kernel && strcmp(kernel->name, name))
        kernel = kernel->next;
    if (kernel) {
        *out = kernel;
        return MX_OK;
    }
    for (size_t p = device->n_packs; p > 0 && status == MX_ERR_NOT_FOUND; p--)
        status = load_from(device, device->packs[p - 1], name, &kernel, err);
    if (status == MX_ERR_NOT_FOUND)
        return fail_not_found(device, name, err);
    if (status)
        return status;
    kernel->next = device->kernels;
    device->kernels = kernel;
    *out = kernel;
    return MX_OK;
}

mx_status mxrt_kernel_find(mxrt_device *device, const char *name, const mxrt_kernel **out,
                           mx_error *err)
{
    if (!device || !name || !out)
        return mx_fail(err, MX_ERR_INVALID, "device, name and out must not be NULL");
    pthread_mutex_lock(&device->lock);
    mx_status status = find_locked(device, name, out, err);
    pthread_mutex_unlock(&device->lock);
    return status;
}

mx_status mxrt_kernel_get_info(const mxrt_kernel *kernel, mxrt_kernel_info *out, mx_error *err)
{
    if (!kernel || !out)
        return mx_fail(err, MX_ERR_INVALID, "kernel and out must not be NULL");
    const mxrt_pack_kernel *first = kernel->variants[0].from;
    *out = (mxrt_kernel_info){.name = kernel->name,
                              .n_inputs = first->n_inputs,
                              .inputs = first->inputs,
                              .n_variants = kernel->n_variants};
    return MX_OK;
}

const char *mxrt_kernel_variant_name(const mxrt_kernel *kernel, size_t index)
{
    return kernel && index < kernel->n_variants ? kernel->variants[index].from->name : NULL;
}

/* ---- Arguments ---- */

mx_status mxrt_kernel_check_args(const mxrt_kernel *kernel, const mxrt_kernel_arg *args,
                                 size_t n_args, mx_error *err)
{
    const mxrt_pack_kernel *first = kernel->variants[0].from;
    if (n_args != first->n_inputs || (n_args && !args))
        return mx_fail(err, MX_ERR_INVALID, "kernel %s takes %zu arguments, not %zu", kernel->name,
                       first->n_inputs, args ? n_args : 0);
    for (size_t i = 0; i < n_args; i++) {
        if (args[i].kind != first->inputs[i].kind)
            return mx_fail(err, MX_ERR_INVALID, "kernel %s: argument %zu (%s) is %s, not %s",
                           kernel->name, i, first->inputs[i].name,
                           kind_names[first->inputs[i].kind],
                           (unsigned)args[i].kind < 4 ? kind_names[args[i].kind] : "unknown");
    }
    return MX_OK;
}

static int64_t alignment_of(const void *pointer)
{
    uintptr_t address = (uintptr_t)pointer | MAX_ALIGN;
    return (int64_t)(address & -address);
}

void mxrt_kernel_values(const mxrt_kernel_arg *args, size_t n, int64_t values[2 * MXPACK_MAX_ARGS])
{
    for (size_t i = 0; i < n; i++) {
        values[i] = args[i].kind == MXRT_ARG_I32   ? args[i].value.i32
                    : args[i].kind == MXRT_ARG_I64 ? args[i].value.i64
                                                   : 0;
        values[n + i] = args[i].kind == MXRT_ARG_POINTER ? alignment_of(args[i].value.pointer) : 0;
    }
}

/* ---- Choosing ---- */

typedef struct selection {
    const mxrt_kernel_variant *variant;
    uint32_t grid[3], block[3];
    int is_empty; /* an extent of the grid is 0 */
} selection;

static mx_status fail_variant(const mxrt_kernel_variant *variant, const char *what,
                              const mx_error *reason, mx_error *err)
{
    return mx_fail(err, MX_ERR_UNSUPPORTED, "kernel %s (%s): %s: %.700s", variant->from->name,
                   variant->from->target, what, reason->message);
}

static mx_status check_rules(const mxrt_kernel_variant *variant, const int64_t *values,
                             mx_error *err)
{
    mx_error reason;
    for (size_t i = 0; i < variant->from->n_rules; i++) {
        const mxrt_kernel_rule *rule = &variant->from->rules[i];
        int64_t holds;
        if (mxrt_expr_eval(rule->when, values, &holds, &reason))
            return fail_variant(variant, rule->text, &reason, err);
        if (!holds)
            return mx_fail(err, MX_ERR_UNSUPPORTED,
                           "kernel %s (%s) does not apply: its rule \"%s\", %s, does not hold here",
                           variant->from->name, variant->from->target, rule->text,
                           mxrt_expr_text(rule->when));
    }
    return MX_OK;
}

/* One extent, by the rule or as given. */
static mx_status eval_extent(const mxrt_kernel_variant *variant, const mxrt_expr *expr,
                             const char *what, const int64_t *values, int64_t least, int64_t most,
                             uint32_t *out, mx_error *err)
{
    mx_error reason;
    int64_t value = *out;
    if (expr && mxrt_expr_eval(expr, values, &value, &reason))
        return fail_variant(variant, what, &reason, err);
    if (value < least || value > most)
        return mx_fail(err, expr ? MX_ERR_UNSUPPORTED : MX_ERR_INVALID,
                       "kernel %s (%s): its %s would be %" PRId64 ", %" PRId64 " to %" PRId64
                       " are possible",
                       variant->from->name, variant->from->target, what, value, least, most);
    *out = (uint32_t)value;
    return MX_OK;
}

static mx_status eval_size(const mxrt_kernel_variant *variant, const mxrt_kernel_size *size,
                           const int64_t *values, selection *out, mx_error *err)
{
    static const char *const grids[] = {"grid x", "grid y", "grid z"}, *const blocks[] = {
                                                                           "block x", "block y",
                                                                           "block z"};
    const mxrt_pack_kernel *from = variant->from;
    mx_status status = MX_OK;
    int own_block = from->block[0] && (!size || !size->block[0]);
    if (size && from->grid[0])
        return mx_fail(err, MX_ERR_INVALID,
                       "kernel %s has a launch rule: give no size (NULL) for it", from->name);
    if (!size && !from->grid[0])
        return mx_fail(
            err, MX_ERR_INVALID,
            "kernel %s has no launch rule: give its grid%s, or compile it with a FILE.json",
            from->name, from->block[0] ? "" : " and block");
    if (!own_block && !size)
        return mx_fail(err, MX_ERR_INVALID, "kernel %s has no rule for its block: give it",
                       from->name);
    for (int i = 0; !status && i < 3; i++) {
        out->grid[i] = size ? size->grid[i] : 0;
        out->block[i] = size ? size->block[i] : 0;
        status = eval_extent(variant, from->grid[i], grids[i], values, 0,
                             i ? MAX_GRID_YZ : MAX_GRID_X, &out->grid[i], err);
        if (!status)
            status = eval_extent(variant, own_block ? from->block[i] : NULL, blocks[i], values, 1,
                                 MAX_BLOCK_ITEMS, &out->block[i], err);
    }
    for (int i = 0; variant->is_host && i < 3; i++)
        out->block[i] = 1;
    out->is_empty = !out->grid[0] || !out->grid[1] || !out->grid[2];
    return status;
}

static mx_status try_variant(const mxrt_kernel *kernel, size_t index, const mxrt_kernel_size *size,
                             const int64_t *values, selection *out, mx_error *err)
{
    out->variant = &kernel->variants[index];
    mx_status status = check_rules(out->variant, values, err);
    return status ? status : eval_size(out->variant, size, values, out, err);
}

/* Of the variants whose rules hold the fastest in the nearest bucket that was measured, else the
 * first. */
static mx_status choose(const mxrt_kernel *kernel, const mxrt_kernel_size *size,
                        const int64_t *values, selection *out, mx_error *err)
{
    mx_status status = MX_ERR_UNSUPPORTED;
    mxrt_kernel_bucket bucket;
    if (kernel->n_measured)
        mxrt_kernel_bucket_of(kernel, values, &bucket);
    for (int distance = 0; kernel->n_measured && distance <= MXRT_BUCKET_NEAREST; distance++) {
        for (size_t i = 0; i < kernel->n_measured; i++) {
            const mxrt_kernel_measured *row = &kernel->measured[i];
            if (mxrt_kernel_bucket_distance(&row->bucket, &bucket) == distance &&
                !try_variant(kernel, row->variant, size, values, out, NULL))
                return MX_OK;
        }
    }
    for (size_t i = 0; status == MX_ERR_UNSUPPORTED && i < kernel->n_variants; i++)
        status = try_variant(kernel, i, size, values, out, err);
    return status;
}

static mx_status prepare(const mxrt_kernel *kernel, const mxrt_kernel_size *size,
                         const mxrt_kernel_arg *args, size_t n_args, int64_t *values,
                         selection *out, mx_error *err)
{
    if (!kernel)
        return mx_fail(err, MX_ERR_INVALID, "kernel must not be NULL");
    mx_status status = mxrt_kernel_check_args(kernel, args, n_args, err);
    if (status)
        return status;
    mxrt_kernel_values(args, n_args, values);
    return choose(kernel, size, values, out, err);
}

mx_status mxrt_kernel_plan_launch(const mxrt_kernel *kernel, const mxrt_kernel_size *size,
                                  const mxrt_kernel_arg *args, size_t n_args, mxrt_kernel_plan *out,
                                  mx_error *err)
{
    int64_t values[2 * MXPACK_MAX_ARGS];
    selection chosen;
    if (!out)
        return mx_fail(err, MX_ERR_INVALID, "out must not be NULL");
    mx_status status = prepare(kernel, size, args, n_args, values, &chosen, err);
    if (status)
        return status;
    const mxrt_pack_kernel *from = chosen.variant->from;
    *out = (mxrt_kernel_plan){.variant = from->name,
                              .symbol = from->symbol,
                              .target = from->target,
                              .params_json = from->params_json,
                              .info_json = from->info_json,
                              .lds_bytes = from->lds_bytes};
    memcpy(out->grid, chosen.grid, sizeof(out->grid));
    memcpy(out->block, chosen.block, sizeof(out->block));
    return MX_OK;
}

/* ---- Launching ---- */

static mx_status fill_arg(const mxrt_kernel_variant *variant, const mxrt_kernel_param *param,
                          const mxrt_kernel_arg *args, const int64_t *values, unsigned char *block,
                          mx_error *err)
{
    const mxrt_kernel_arg *input = param->input >= 0 ? &args[param->input] : NULL;
    unsigned char *at = block + param->offset_bytes;
    mx_error reason;
    int64_t value = 0;
    if (param->kind == MXRT_ARG_POINTER) {
        const void *pointer = input ? input->value.pointer : NULL;
        memcpy(at, &pointer, sizeof(pointer));
        return MX_OK;
    }
    if (input) {
        /* All kinds of the union begin at its first byte. */
        memcpy(at, &input->value, param->kind == MXRT_ARG_I64 ? 8 : 4);
        return MX_OK;
    }
    if (mxrt_expr_eval(param->value, values, &value, &reason))
        return fail_variant(variant, param->name, &reason, err);
    if (param->kind == MXRT_ARG_I32 && (value < INT32_MIN || value > INT32_MAX))
        return mx_fail(err, MX_ERR_INVALID,
                       "kernel %s: its argument %s would be %" PRId64 ", which no i32 holds",
                       variant->from->name, param->name, value);
    int32_t narrow = (int32_t)value;
    float number = (float)value;
    if (param->kind == MXRT_ARG_I64)
        memcpy(at, &value, 8);
    else
        memcpy(at, param->kind == MXRT_ARG_I32 ? (const void *)&narrow : (const void *)&number, 4);
    return MX_OK;
}

/* Programs of the host are numbered along x only: the kernel tells its workgroup from the grid,
 * which lies behind the arguments. */
static mx_status flatten_grid(const mxrt_kernel_variant *variant, mxrt_launch *launch,
                              unsigned char *block, mx_error *err)
{
    int64_t grid[3], n_programs = 1;
    for (int i = 0; i < 3; i++)
        n_programs *= grid[i] = launch->grid[i]; /* below 2^31 * 2^16 * 2^16 */
    if (n_programs > UINT32_MAX)
        return mx_fail(err, MX_ERR_UNSUPPORTED,
                       "kernel %s (%s): a grid of %" PRId64 " workgroups, the host takes %u",
                       variant->from->name, variant->from->target, n_programs, UINT32_MAX);
    launch->args_bytes = (launch->args_bytes + 7) / 8 * 8;
    memcpy(block + launch->args_bytes, grid, sizeof(grid));
    launch->args_bytes += sizeof(grid);
    launch->grid[0] = (uint32_t)n_programs;
    launch->grid[1] = launch->grid[2] = 1;
    return MX_OK;
}

mx_status mxrt_kernel_launch(const mxrt_kernel *kernel, const mxrt_kernel_size *size,
                             const mxrt_kernel_arg *args, size_t n_args, mxrt_stream stream,
                             mx_error *err)
{
    _Alignas(16) unsigned char block[(MXPACK_MAX_ARGS + 3) * sizeof(int64_t)];
    int64_t values[2 * MXPACK_MAX_ARGS];
    selection chosen;
    mx_status status = prepare(kernel, size, args, n_args, values, &chosen, err);
    if (status || chosen.is_empty)
        return status;
    const mxrt_pack_kernel *from = chosen.variant->from;
    /* Bytes between arguments, too. */
    memset(block, 0, sizeof(block));
    for (size_t i = 0; !status && i < from->n_args; i++)
        status = fill_arg(chosen.variant, &from->args[i], args, values, block, err);
    if (status)
        return status;
    mxrt_launch launch = {
        .kernel = chosen.variant->code,
        .lds_bytes = from->lds_bytes,
        .args = block,
        .args_bytes = from->args_bytes,
        .n_args = from->n_args,
        .arg_offsets = chosen.variant->arg_offsets,
    };
    memcpy(launch.grid, chosen.grid, sizeof(launch.grid));
    memcpy(launch.block, chosen.block, sizeof(launch.block));
    if (chosen.variant->is_host && (status = flatten_grid(chosen.variant, &launch, block, err)))
        return status;
    return kernel->device->ops->launch(kernel->device->backend, &launch, stream, err);
}
