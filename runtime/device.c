#include "runtime/device.h"

#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "runtime/backends.h"
#include "runtime/context.h"
#include "runtime/measure_now.h"

/* ---- Opening ---- */

static mx_status copy_packs(mxrt_device *device, mx_error *err)
{
    size_t n = device->context->n_packs;

    if (!(device->packs = calloc(n ? n : 1, sizeof(device->packs[0]))))
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu packs", n);
    if (n)
        memcpy(device->packs, device->context->packs, n * sizeof(device->packs[0]));
    device->n_packs = n;
    return MX_OK;
}

mx_status mxrt_device_open(mxrt_context *context, const char *uri, mxrt_device **out, mx_error *err)
{
    const mxrt_backend_ops *ops;
    mxrt_device *device;
    const char *rest;
    mx_status status;

    if (!context || !uri || !out)
        return mx_fail(err, MX_ERR_INVALID, "context, uri and out must not be NULL");
    if ((status = mxrt_backend_find(uri, &ops, &rest, err)))
        return status;
    if (!(device = calloc(1, sizeof(*device))))
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a device");
    device->context = context;
    device->ops = ops;
    pthread_mutex_init(&device->lock, NULL);
    pthread_mutex_init(&device->measure_lock, NULL);
    pthread_mutex_init(&device->compile_lock, NULL);
    if ((status = copy_packs(device, err)) ||
        (status = ops->open(context, rest, &device->backend, err)) ||
        (status = ops->get_info(device->backend, &device->info, err))) {
        mxrt_device_close(device);
        return status;
    }
    *out = device;
    return MX_OK;
}

void mxrt_device_close(mxrt_device *device)
{
    if (!device)
        return;
    for (int i = 0; i < MXRT_TABLE_COUNT; i++)
        mxrt_kernel_table_destroy(atomic_load(&device->tables[i]));
    for (int i = 0; i < MXRT_GEMM_TABLE_COUNT; i++)
        mxrt_gemm_table_destroy(atomic_load(&device->gemm_tables[i]));
    mxrt_kernels_destroy(device->kernels);
    while (device->modules) {
        mxrt_module *next = device->modules->next;
        device->ops->module_unload(device->backend, device->modules->module);
        free(device->modules);
        device->modules = next;
    }
    if (device->backend)
        device->ops->close(device->backend);
    mxrt_device_finish_compiled(device);
    pthread_mutex_destroy(&device->compile_lock);
    pthread_mutex_destroy(&device->measure_lock);
    pthread_mutex_destroy(&device->lock);
    free(device->packs);
    free(device);
}

/* ---- Kernels ---- */

mx_status mxrt_device_module(mxrt_device *device, const mxrt_pack *pack,
                             const mxrt_variant_info *info, mxrt_backend_module **out,
                             mx_error *err)
{
    mxrt_module *module;
    size_t code_bytes;
    mx_status status;
    void *code;

    for (module = device->modules; module; module = module->next) {
        if (module->pack == pack && module->object_id == info->object_id) {
            *out = module->module;
            return MX_OK;
        }
    }
    if (!(module = calloc(1, sizeof(*module))))
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a module");
    module->pack = pack;
    module->object_id = info->object_id;
    if ((status = mxrt_pack_object(pack, info->object_id, &code, &code_bytes, err))) {
        free(module);
        return status;
    }
    status = device->ops->module_load(device->backend, info->object_kind, code, code_bytes,
                                      &module->module, err);
    free(code);
    if (status) {
        free(module);
        return status;
    }
    module->next = device->modules;
    device->modules = module;
    *out = module->module;
    return MX_OK;
}

mx_status mxrt_device_table(mxrt_device *device, const mxrt_table_key *key,
                            const mxrt_kernel_table **out, mx_error *err)
{
    _Atomic(mxrt_kernel_table *) *at = &device->tables[mxrt_table_index(key)];
    mxrt_kernel_table *table = atomic_load_explicit(at, memory_order_acquire);
    mx_status status = MX_OK;

    if (!table) {
        pthread_mutex_lock(&device->lock);
        table = atomic_load_explicit(at, memory_order_acquire);
        if (!table && !(status = mxrt_kernel_table_build(device, key, &table, err)))
            atomic_store_explicit(at, table, memory_order_release);
        pthread_mutex_unlock(&device->lock);
    }
    if (!status)
        *out = table;
    return status;
}

mx_status mxrt_prepare(mxrt_device *device, mx_op op, mx_format format, mx_dtype dtype,
                       mx_profile profile, mx_error *err)
{
    mxrt_table_key key = {op, format, dtype, profile};
    const mxrt_kernel_table *table;

    if (!device)
        return mx_fail(err, MX_ERR_INVALID, "device must not be NULL");
    if ((unsigned)op >= MX_OP_COUNT || !mx_format_get(format) || !mx_dtype_get(dtype) ||
        (unsigned)profile >= MX_PROFILE_COUNT)
        return mx_fail(err, MX_ERR_INVALID,
                       "operation %d, format %d, dtype %d, profile %d: at least one is unknown",
                       (int)op, (int)format, (int)dtype, (int)profile);
    if (profile != MX_PROFILE_PACKED && op != MX_OP_QDQ)
        return mx_fail(err, MX_ERR_INVALID, "profile %s is for qdq only", mx_profile_name(profile));
    mx_error reason = {MX_OK, ""};
    mx_status status = mxrt_device_table(device, &key, &table, err);
    if (status || table->n_variants || !mxrt_device_compile(device, &key, NULL, &reason) ||
        device->ops->reference)
        return status;
    return mxrt_device_fail_missing(device, &key, &reason, err);
}

/* ---- Running ---- */

/* Among the kernels of a table, by a policy. */
static mx_status select_from(mxrt_device *device, const mxrt_kernel_table *table,
                             const mxrt_problem *problem, const int64_t values[MXRT_VAR_COUNT],
                             const mxrt_select_how *how, mxrt_selection *out, mx_error *err)
{
    mxrt_policy policy = how->policy;

    if (policy == MXRT_POLICY_MEASURE) {
        /* The one that is published now may have more kernels, and is not const. */
        if (!mxrt_problem_is_pair(problem))
            mxrt_measure_now(device, atomic_load(&device->tables[mxrt_table_index(&table->key)]),
                             problem, how);
        policy = MXRT_POLICY_TUNED;
    }
    if (policy == MXRT_POLICY_TUNED && !how->choice)
        return mxrt_select_best(table, values, out, err);
    return mxrt_select_by_policy(table, policy, values, out, how->choice, err);
}

/* Nothing in `table` applies, `why` says why not; what was compiled may. */
static mx_status select_compiled(mxrt_device *device, const mxrt_kernel_table *table,
                                 const mxrt_problem *problem, const int64_t values[MXRT_VAR_COUNT],
                                 const mxrt_select_how *how, const mx_error *why,
                                 mxrt_selection *out, mx_error *err)
{
    mx_error reason = {MX_OK, ""};
    const mxrt_kernel_table *more = table;
    mx_status status = mxrt_device_compile(device, &table->key, how->stream, err ? &reason : NULL);

    if (!status && !(status = mxrt_device_table(device, &table->key, &more, err)) && more != table)
        return select_from(device, more, problem, values, how, out, err);
    if (!err)
        return MX_ERR_UNSUPPORTED;
    if (!table->n_variants)
        return mxrt_device_fail_missing(device, &table->key, &reason, err);
    return mx_fail(err, MX_ERR_UNSUPPORTED,
                   reason.message[0] ? "%.600s; not compiled: %.390s" : "%.600s%.390s",
                   why->message, reason.message);
}

mx_status mxrt_device_fail_turned(const mxrt_device *device, mx_error *err)
{
    return mx_fail(err, MX_ERR_UNSUPPORTED,
                   "%s has no kernels that turn blocks; mxrt_ocp_requantize turns them there",
                   device->info.uri);
}

mx_status mxrt_device_select(mxrt_device *device, const mxrt_problem *problem,
                             const mxrt_select_how *how, mxrt_selection *out, mx_error *err)
{
    mxrt_table_key key = {problem->op, problem->format, problem->dtype, problem->profile};
    int has_reference = device->ops->reference != NULL;
    int64_t values[MXRT_VAR_COUNT];
    const mxrt_kernel_table *table;
    mx_status status;

    out->variant = NULL;
    if (has_reference && mxrt_problem_is_turned(problem))
        return mxrt_device_fail_turned(device, err);
    if (problem->n_dims > MXPACK_MAX_ROW_DIMS) {
        if (has_reference)
            return MX_OK;
        return mx_fail(err, MX_ERR_UNSUPPORTED,
                       "the tensors keep %d row dimensions that do not merge, kernels take at most "
                       "%d; make them contiguous",
                       problem->n_dims, MXPACK_MAX_ROW_DIMS);
    }
    if ((status = mxrt_device_table(device, &key, &table, err)))
        return status;
    mxrt_problem_vars(problem, values);
    /* Texts are only made where somebody reads them. */
    mx_error why;
    why.message[0] = 0;
    int is_quiet = has_reference && how->policy != MXRT_POLICY_CACHED;
    status = select_from(device, table, problem, values, how, out, is_quiet ? NULL : &why);
    if (status != MX_ERR_UNSUPPORTED)
        return status ? mx_fail(err, status, "%s", why.message) : MX_OK;
    if (!has_reference)
        return select_compiled(device, table, problem, values, how, &why, out, err);
    if (select_compiled(device, table, problem, values, how, &why, out, NULL))
        out->variant = NULL;
    return MX_OK;
}

mx_status mxrt_device_launch(mxrt_device *device, const mxrt_problem *problem,
                             const mxrt_selection *selection, mxrt_stream stream, mx_error *err)
{
    _Alignas(16) unsigned char args[MXPACK_MAX_ARGS * sizeof(int64_t)];
    const mxrt_variant *variant = selection->variant;
    const void *buffers[MXRT_BUFFER_COUNT];

    if (!variant)
        return device->ops->reference(device->backend, problem, err);
    for (int i = 0; i < MXRT_BUFFER_COUNT; i++)
        buffers[i] = problem->buffers[i].data;
    mxrt_selection_args(selection, buffers, args);
    mxrt_launch launch = {
        .kernel = variant->kernel,
        .lds_bytes = selection->lds_bytes,
        .args = args,
        .args_bytes = variant->launch->args_bytes,
        .n_args = variant->launch->n_args,
        .arg_offsets = variant->arg_offsets,
        .work_bytes = mxrt_problem_bytes(problem),
    };
    memcpy(launch.grid, selection->grid, sizeof(launch.grid));
    memcpy(launch.block, selection->block, sizeof(launch.block));
    return device->ops->launch(device->backend, &launch, stream, err);
}

static mx_status run_request(mxrt_device *device, const mxrt_plan_request *request,
                             mxrt_stream stream, mx_error *err)
{
    mxrt_selection selection;
    mxrt_problem problem;
    mx_status status;

    if (!device)
        return mx_fail(err, MX_ERR_INVALID, "device must not be NULL");
    if ((status = mxrt_problem_init(&problem, request, device->info.dl_device, 0, err)) ||
        !problem.n_blocks)
        return status;
    const mxrt_select_how how = {.policy = MXRT_POLICY_TUNED, .stream = stream};
    if ((status = mxrt_device_select(device, &problem, &how, &selection, err)))
        return status;
    return mxrt_device_launch(device, &problem, &selection, stream, err);
}

mx_status mxrt_convert_to(mxrt_device *device, mx_format format, int axis, const DLTensor *x,
                          const DLTensor *packed, mxrt_stream stream, mx_error *err)
{
    mxrt_plan_request request = {
        .op = MX_OP_TO, .format = format, .axis = axis, .in = x, .out = packed};

    return run_request(device, &request, stream, err);
}

mx_status mxrt_convert_from(mxrt_device *device, mx_format format, int axis, const DLTensor *packed,
                            const DLTensor *y, mxrt_stream stream, mx_error *err)
{
    mxrt_plan_request request = {
        .op = MX_OP_FROM, .format = format, .axis = axis, .in = packed, .out = y};

    return run_request(device, &request, stream, err);
}

mx_status mxrt_quantize_dequantize(mxrt_device *device, mx_format format, mx_profile profile,
                                   int axis, const DLTensor *x, const DLTensor *y,
                                   mxrt_stream stream, mx_error *err)
{
    mxrt_plan_request request = {
        .op = MX_OP_QDQ, .format = format, .profile = profile, .axis = axis, .in = x, .out = y};

    return run_request(device, &request, stream, err);
}

mx_status mxrt_ocp_quantize(mxrt_device *device, mx_format format, const mx_ocp_options *options,
                            int axis, const DLTensor *x, const DLTensor *data,
                            const DLTensor *scales, mxrt_stream stream, mx_error *err)
{
    mxrt_plan_request request = {.op = MX_OP_TO,
                                 .format = format,
                                 .axis = axis,
                                 .in = x,
                                 .out = data,
                                 .scales = scales,
                                 .options = options};

    return run_request(device, &request, stream, err);
}

mx_status mxrt_ocp_quantize_pair(mxrt_device *device, mx_format format,
                                 const mx_ocp_options *options, int axis, const DLTensor *x,
                                 const DLTensor *data, const DLTensor *scales,
                                 const mxrt_ocp_columns *columns, mxrt_stream stream, mx_error *err)
{
    mxrt_plan_request request = {.op = MX_OP_TO,
                                 .format = format,
                                 .axis = axis,
                                 .in = x,
                                 .out = data,
                                 .scales = scales,
                                 .options = options,
                                 .columns = columns};

    if (!columns)
        return mx_fail(err, MX_ERR_INVALID,
                       "columns must not be NULL; mxrt_ocp_quantize quantises rows alone");
    return run_request(device, &request, stream, err);
}

/* In one kernel; MX_ERR_UNSUPPORTED and MX_ERR_INVALID where that is not possible. */
static mx_status turn_at_once(mxrt_device *device, const mxrt_plan_request *request,
                              mxrt_stream stream, mx_error *err)
{
    if (!device || device->ops->reference)
        return MX_ERR_UNSUPPORTED;
    return run_request(device, request, stream, err);
}

mx_status mxrt_ocp_requantize(mxrt_device *device, mx_format format, const mx_ocp_options *options,
                              int axis, const DLTensor *data, const DLTensor *scales, int out_axis,
                              const DLTensor *workspace, const DLTensor *out_data,
                              const DLTensor *out_scales, mxrt_stream stream, mx_error *err)
{
    const mxrt_ocp_turned turned = {.axis = out_axis, .data = out_data, .scales = out_scales};
    const mxrt_plan_request request = {.op = MX_OP_FROM,
                                       .format = format,
                                       .axis = axis,
                                       .in = data,
                                       .out = workspace,
                                       .scales = scales,
                                       .options = options,
                                       .turned = &turned};
    mx_error reason = {MX_OK, ""};
    mx_status status = turn_at_once(device, &request, stream, &reason);

    if (status != MX_ERR_UNSUPPORTED && status != MX_ERR_INVALID)
        return status ? mx_fail(err, status, "%s", reason.message) : MX_OK;
    if ((status = mxrt_ocp_dequantize(device, format, options, axis, data, scales, workspace,
                                      stream, err)))
        return status;
    return mxrt_ocp_quantize(device, format, options, out_axis, workspace, out_data, out_scales,
                             stream, err);
}

mx_status mxrt_ocp_dequantize(mxrt_device *device, mx_format format, const mx_ocp_options *options,
                              int axis, const DLTensor *data, const DLTensor *scales,
                              const DLTensor *y, mxrt_stream stream, mx_error *err)
{
    mxrt_plan_request request = {.op = MX_OP_FROM,
                                 .format = format,
                                 .axis = axis,
                                 .in = data,
                                 .out = y,
                                 .scales = scales,
                                 .options = options};

    return run_request(device, &request, stream, err);
}

mx_status mxrt_ocp_qdq(mxrt_device *device, mx_format format, const mx_ocp_options *options,
                       int axis, const DLTensor *x, const DLTensor *y, mxrt_stream stream,
                       mx_error *err)
{
    mxrt_plan_request request = {
        .op = MX_OP_QDQ, .format = format, .axis = axis, .in = x, .out = y, .options = options};

    return run_request(device, &request, stream, err);
}

/* ---- Memory and time ---- */

mx_status mxrt_device_get_info(const mxrt_device *device, mxrt_device_info *out, mx_error *err)
{
    if (!device || !out)
        return mx_fail(err, MX_ERR_INVALID, "device and out must not be NULL");
    *out = device->info;
    return MX_OK;
}

mx_status mxrt_device_alloc(mxrt_device *device, size_t size_bytes, void **out, mx_error *err)
{
    if (!device || !out)
        return mx_fail(err, MX_ERR_INVALID, "device and out must not be NULL");
    return device->ops->alloc(device->backend, size_bytes, out, err);
}

void mxrt_device_free(mxrt_device *device, void *data)
{
    if (device && data)
        device->ops->free(device->backend, data);
}

static mx_status check_copy(const mxrt_device *device, const void *dst, const void *src,
                            size_t size_bytes, mx_error *err)
{
    if (!device)
        return mx_fail(err, MX_ERR_INVALID, "device must not be NULL");
    if (size_bytes && (!dst || !src))
        return mx_fail(err, MX_ERR_INVALID, "a copy of %zu bytes %s NULL", size_bytes,
                       dst ? "from" : "to");
    return MX_OK;
}

mx_status mxrt_device_upload(mxrt_device *device, void *dst, const void *host_src,
                             size_t size_bytes, mx_error *err)
{
    mx_status status = check_copy(device, dst, host_src, size_bytes, err);

    return status || !size_bytes
               ? status
               : device->ops->upload(device->backend, dst, host_src, size_bytes, err);
}

mx_status mxrt_device_download(mxrt_device *device, void *host_dst, const void *src,
                               size_t size_bytes, mx_error *err)
{
    mx_status status = check_copy(device, host_dst, src, size_bytes, err);

    return status || !size_bytes
               ? status
               : device->ops->download(device->backend, host_dst, src, size_bytes, err);
}

mx_status mxrt_device_copy(mxrt_device *device, void *dst, const void *src, size_t size_bytes,
                           mxrt_stream stream, mx_error *err)
{
    mx_status status = check_copy(device, dst, src, size_bytes, err);

    return status || !size_bytes
               ? status
               : device->ops->copy(device->backend, dst, src, size_bytes, stream, err);
}

mx_status mxrt_device_synchronize(mxrt_device *device, mxrt_stream stream, mx_error *err)
{
    if (!device)
        return mx_fail(err, MX_ERR_INVALID, "device must not be NULL");
    return device->ops->synchronize(device->backend, stream, err);
}

mx_status mxrt_device_time(mxrt_device *device, mxrt_timed_fn fn, void *user, int repeat,
                           double *ms, mx_error *err)
{
    if (!device || !fn || !ms)
        return mx_fail(err, MX_ERR_INVALID, "device, fn and ms must not be NULL");
    if (repeat < 1)
        return mx_fail(err, MX_ERR_INVALID, "repeat is %d; it must be at least 1", repeat);
    return device->ops->time(device->backend, fn, user, repeat, ms, err);
}

mx_status mxrt_device_counters(mxrt_device *device, mxrt_counters *out, mx_error *err)
{
    if (!device || !out)
        return mx_fail(err, MX_ERR_INVALID, "device and out must not be NULL");
    if (out->size_bytes != sizeof(*out))
        return mx_fail(err, MX_ERR_INVALID, "out->size_bytes is %u, not %zu", out->size_bytes,
                       sizeof(*out));
    if (!device->ops->counters)
        return mx_fail(err, MX_ERR_UNSUPPORTED, "the driver of %s counts nothing",
                       device->info.uri);
    return device->ops->counters(device->backend, out, err);
}
