/* Runs the cases of gemm_engine.c on a device. */
#include "gemm_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "cases.h"

enum { GUARD = GEMM_GUARD, POISON = GEMM_POISON };

static void set_tensor(gemm_tensor *t, DLDevice device, DLDataType type, int ndim,
                       const int64_t *shape, const int64_t *strides, void *data)
{
    for (int i = 0; i < ndim; i++) {
        t->shape[i] = shape[i];
        t->strides[i] = strides[i];
    }
    t->dl =
        (DLTensor){.data = data, .device = device, .ndim = ndim, .dtype = type, .shape = t->shape};
    t->dl.strides = t->strides;
}

static mx_status place(gemm_run *r, gemm_on_device *d, int buffer, const void *bytes,
                       size_t size_bytes, mx_error *err)
{
    mx_status status = mxrt_device_alloc(r->device, size_bytes, &d->memory[buffer], err);

    return status ? status
                  : mxrt_device_upload(r->device, d->memory[buffer], bytes, size_bytes, err);
}

static const DLDataType u8 = {kDLUInt, 8, 1};

/* Data and scales; `skip` bytes before the data make its address odd. */
static mx_status place_operand(gemm_run *r, gemm_on_device *d, const gemm_operand *o, int data,
                               int scales, DLDevice device, mx_error *err)
{
    int64_t skip = r->c->flags & GEMM_STRIDED ? (o->element == MX_GEMM_BF16 ? 2 : 1) : 0;
    int64_t item = o->element == MX_GEMM_BF16 ? 2 : 1, groups = gemm_operand_groups(o);
    int ndim = o->groups ? 3 : 2;
    unsigned char *moved = malloc(o->data_bytes + (size_t)skip);
    if (!moved)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory");
    memset(moved, POISON, o->data_bytes + (size_t)skip);
    memcpy(moved + skip, o->data, o->data_bytes);
    mx_status status = place(r, d, data, moved, o->data_bytes + (size_t)skip, err);
    free(moved);
    if (status || (status = place(r, d, scales, o->scales, o->scales_bytes, err)))
        return status;
    const int64_t shape[] = {groups, o->rows, gemm_code_bytes(o->element, o->k) / item};
    const int64_t strides[] = {o->group_bytes / item, o->row_bytes / item, 1};
    DLDataType bf16 = {kDLBfloat, 16, 1};
    set_tensor(&d->tensors[data], device, o->element == MX_GEMM_BF16 ? bf16 : u8, ndim,
               shape + 3 - ndim, strides + 3 - ndim, (unsigned char *)d->memory[data] + skip);
    int64_t rows = o->transposed ? o->scale_blocks : o->scale_rows;
    int64_t columns = o->transposed ? o->scale_rows : o->scale_blocks;
    const int64_t scale_shape[] = {groups, rows, columns};
    const int64_t scale_strides[] = {rows * columns, columns, 1};
    set_tensor(&d->tensors[scales], device, u8, ndim, scale_shape + 3 - ndim,
               scale_strides + 3 - ndim, d->memory[scales]);
    return MX_OK;
}

static mx_status place_offsets(gemm_run *r, gemm_on_device *d, DLDevice device, mx_error *err)
{
    const int64_t shape[] = {r->groups + 1}, strides[] = {1}, one[] = {1};
    const DLDataType i64 = {kDLInt, 64, 1}, i32 = {kDLInt, 32, 1};
    size_t size_bytes = (size_t)(r->groups + 1) * sizeof(int64_t);
    static const int32_t unset = 0x55555555;
    mx_status status;
    int on_host = r->c->flags & GEMM_HOST_OFFSETS ? 1 : 0;
    DLDevice host = {kDLCPU, 0};

    if ((status = place(r, d, GEMM_READ, r->read, size_bytes, err)) ||
        (status = place(r, d, GEMM_WRITE, r->write, size_bytes, err)) ||
        (status = place(r, d, GEMM_STATUS, &unset, sizeof(unset), err)))
        return status;
    set_tensor(&d->tensors[GEMM_READ], on_host ? host : device, i64, 1, shape, strides,
               on_host ? r->read : d->memory[GEMM_READ]);
    set_tensor(&d->tensors[GEMM_WRITE], on_host ? host : device, i64, 1, shape, strides,
               on_host ? r->write : d->memory[GEMM_WRITE]);
    set_tensor(&d->tensors[GEMM_STATUS], device, i32, 1, one, strides, d->memory[GEMM_STATUS]);
    return MX_OK;
}

mx_status gemm_place_all(gemm_run *r, gemm_on_device *d, mx_error *err)
{
    mxrt_device_info info;
    int is_rows = r->c->pass == MX_GEMM_ROWS;
    mx_status status = mxrt_device_get_info(r->device, &info, err);

    if (status ||
        (status =
             place_operand(r, d, &r->left, GEMM_LEFT, GEMM_LEFT_SCALES, info.dl_device, err)) ||
        (status =
             place_operand(r, d, &r->right, GEMM_RIGHT, GEMM_RIGHT_SCALES, info.dl_device, err)) ||
        (status = place_offsets(r, d, info.dl_device, err)) ||
        (status = place(r, d, GEMM_OUT, r->before, r->out_bytes + 2 * GUARD, err)))
        return status;
    const int64_t shape[] = {r->out_groups, r->out_rows, r->n_columns};
    const int64_t strides[] = {r->out_group_stride, r->out_stride, 1};
    set_tensor(&d->tensors[GEMM_OUT], info.dl_device, mx_case_dl_type(r->kind->dtype),
               is_rows ? 2 : 3, shape + is_rows, strides + is_rows,
               (unsigned char *)d->memory[GEMM_OUT] + GUARD);
    d->request = (mxrt_gemm_request){
        .pass = r->c->pass,
        .left_element = r->kind->left,
        .right_element = r->kind->right,
        .mode = r->kind->mode,
        .left = &d->tensors[GEMM_LEFT].dl,
        .left_scales = r->kind->left == MX_GEMM_BF16 ? NULL : &d->tensors[GEMM_LEFT_SCALES].dl,
        .right = &d->tensors[GEMM_RIGHT].dl,
        .right_scales = r->kind->right == MX_GEMM_BF16 ? NULL : &d->tensors[GEMM_RIGHT_SCALES].dl,
        .out = &d->tensors[GEMM_OUT].dl,
        .read_offsets = &d->tensors[GEMM_READ].dl,
        .host_offsets = r->c->flags & GEMM_HOST_OFFSETS ? 1 : 0,
        .left_scales_transposed = r->left.transposed,
        .right_scales_transposed = r->right.transposed,
        .accumulate = r->c->flags & GEMM_ACCUMULATE ? 1 : 0,
        .num_cu = r->c->num_cu,
    };
    if (r->c->flags & (GEMM_PADDED | GEMM_UNOWNED) && is_rows)
        d->request.write_offsets = &d->tensors[GEMM_WRITE].dl;
    /* Half of the cases have no status word of their own. */
    if (r->c->sizes[0] % 2 || r->c->flags & GEMM_UNOWNED)
        d->request.status = &d->tensors[GEMM_STATUS].dl;
    return MX_OK;
}

void gemm_release(gemm_run *r, gemm_on_device *d)
{
    for (int i = 0; i < GEMM_BUFFERS; i++)
        mxrt_device_free(r->device, d->memory[i]);
}

/* Once, from the same memory of out. */
static mx_status run_once(gemm_run *r, gemm_on_device *d, const mxrt_gemm_plan *plan,
                          unsigned char *after, mx_error *err)
{
    mxrt_gemm_buffers buffers = {.workspace = d->memory[GEMM_WORKSPACE],
                                 .workspace_bytes = mxrt_gemm_workspace_bytes(plan)};
    size_t size_bytes = r->out_bytes + 2 * GUARD;
    mx_status status =
        mxrt_device_upload(r->device, d->memory[GEMM_OUT], r->before, size_bytes, err);

    if (status || (status = mxrt_gemm_run(plan, &buffers, NULL, err)) ||
        (status = mxrt_device_synchronize(r->device, NULL, err)))
        return status;
    return mxrt_device_download(r->device, after, d->memory[GEMM_OUT], size_bytes, err);
}

/* The workspace holds NaN, as whatever it holds must not matter. */
mx_status gemm_place_workspace(gemm_run *r, gemm_on_device *d, const mxrt_gemm_plan *plan,
                               mx_error *err)
{
    size_t size_bytes = mxrt_gemm_workspace_bytes(plan);
    unsigned char *poison = malloc(size_bytes + 1);
    mx_status status;

    if (!poison)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory");
    memset(poison, 0xff, size_bytes + 1);
    status = size_bytes ? place(r, d, GEMM_WORKSPACE, poison, size_bytes, err) : MX_OK;
    free(poison);
    return status;
}

static gemm_verdict run_variant(gemm_run *r, gemm_on_device *d, int32_t *word, mx_gemm_mode *mode,
                                gemm_outcome *out)
{
    mxrt_gemm_plan *plan = NULL;
    mxrt_gemm_info info;
    mx_error err = {MX_OK, ""};
    mx_status status = mxrt_gemm_plan_create(r->device, &d->request, &plan, &err);

    if (status == MX_ERR_UNSUPPORTED && d->request.variant) {
        snprintf(out->text, sizeof(out->text), "%s", err.message);
        return GEMM_NOT_APPLICABLE;
    }
    if (!status)
        status = mxrt_gemm_get_info(plan, &info, &err);
    *mode = status ? MX_GEMM_FAST : info.mode;
    if (!status)
        status = gemm_place_workspace(r, d, plan, &err);
    if (!status)
        status = run_once(r, d, plan, r->after, &err);
    if (!status)
        status = run_once(r, d, plan, r->again, &err);
    if (!status)
        status = mxrt_device_download(r->device, word, d->memory[GEMM_STATUS], sizeof(*word), &err);
    /* Where nothing is launched nobody writes it. */
    if (!status && (!d->request.status || !strcmp(info.variant, "none")))
        *word = 0;
    mxrt_gemm_plan_destroy(plan);
    return status ? gemm_wrong(out, "%s", err.message) : GEMM_OK;
}

gemm_verdict gemm_case_run(mxrt_device *device, const gemm_case *c, const gemm_kind *kind,
                           const char *variant, gemm_outcome *out)
{
    gemm_on_device d = {.memory = {NULL}};
    gemm_verdict verdict;
    mx_gemm_mode mode;
    mx_error err = {MX_OK, ""};
    int32_t word = 0;
    gemm_run r;

    memset(out, 0, sizeof(*out));
    if (c->flags & GEMM_ACCUMULATE && kind->dtype == MX_DTYPE_F16)
        return GEMM_NOT_APPLICABLE;
    if ((c->values == GEMM_VALUES_SPREAD || c->values == GEMM_VALUES_OPPOSED_NEAR) &&
        kind->dtype == MX_DTYPE_F16)
        return GEMM_NOT_APPLICABLE; /* its range does not hold the results */
    if (!gemm_run_init(&r, device, c, kind)) {
        gemm_run_finish(&r);
        return gemm_wrong(out, "no memory");
    }
    if (gemm_place_all(&r, &d, &err)) {
        verdict = gemm_wrong(out, "%s", err.message);
    } else {
        d.request.variant = variant;
        verdict = run_variant(&r, &d, &word, &mode, out);
        if (!verdict && word)
            verdict = gemm_wrong(out, "the status word is %d", (int)word);
        if (!verdict && memcmp(r.after, r.again, r.out_bytes + 2 * GUARD))
            verdict = gemm_wrong(out, "a second run gives other bytes");
        if (!verdict)
            verdict = gemm_check_gaps(&r, out);
        if (!verdict)
            verdict = gemm_compare(&r, mode, out);
    }
    gemm_release(&r, &d);
    gemm_run_finish(&r);
    return verdict;
}

/* ---- Bad offsets ---- */

gemm_verdict gemm_bad_offsets_run(mxrt_device *device, mx_gemm_pass pass, const gemm_kind *kind,
                                  const char *variant, gemm_outcome *out)
{
    static const gemm_case base[] = {
        {"bad offsets", MX_GEMM_ROWS, 3, {33, 40, 31}, 40, 64, GEMM_PADDED, 0, GEMM_VALUES_SIGNED},
        {"bad offsets",
         MX_GEMM_COLS,
         3,
         {128, 64, 32},
         40,
         24,
         GEMM_ODD_ROWS,
         0,
         GEMM_VALUES_SIGNED},
    };
    static const struct {
        int64_t read[4], write[4];
        int rows, cols; /* the words that are wanted */
    } bad[] = {
        {{0, 64, 32, 160},
         {0, 33, 33, 33},
         MX_GEMM_BAD_ORDER | MX_GEMM_BAD_ROWS,
         MX_GEMM_BAD_ORDER},
        {{-64, 64, 128, 160}, {0, 33, 73, 104}, MX_GEMM_BAD_RANGE, MX_GEMM_BAD_RANGE},
        {{0, 64, 128, INT64_MAX / 32 * 32}, {0, 33, 73, 104}, MX_GEMM_BAD_RANGE, MX_GEMM_BAD_RANGE},
        {{0, 64, 128, 160}, {0, 33, 73, 105}, MX_GEMM_BAD_RANGE, 0},
        {{0, 64, 128, 160}, {0, 70, 73, 104}, MX_GEMM_BAD_ROWS, 0},
        {{0, 65, 128, 160}, {0, 33, 73, 104}, 0, MX_GEMM_BAD_BLOCK},
        {{INT64_MIN, INT64_MAX, INT64_MIN, INT64_MAX}, {3, -3, INT64_MAX, INT64_MIN}, -1, -1},
    };
    gemm_verdict verdict = GEMM_OK;
    memset(out, 0, sizeof(*out));

    for (size_t i = 0; !verdict && i < sizeof(bad) / sizeof(bad[0]); i++) {
        int wanted = pass == MX_GEMM_ROWS ? bad[i].rows : bad[i].cols;
        gemm_on_device d = {.memory = {NULL}};
        mx_error err = {MX_OK, ""};
        mx_gemm_mode mode;
        int32_t word = 0;
        gemm_run r;
        int made = gemm_run_init(&r, device, &base[pass], kind);
        if (made) {
            memcpy(r.read, bad[i].read, sizeof(bad[i].read));
            memcpy(r.write, bad[i].write, sizeof(bad[i].write));
        }
        if (!made || gemm_place_all(&r, &d, &err)) {
            verdict = gemm_wrong(out, "no memory: %s", err.message);
        } else {
            d.request.variant = variant;
            d.request.status = &d.tensors[GEMM_STATUS].dl;
            verdict = run_variant(&r, &d, &word, &mode, out);
            if (!verdict && (wanted < 0 ? word <= 0 : word != wanted))
                verdict = gemm_wrong(out, "offsets number %zu: the status word is %d, not %d", i,
                                     (int)word, wanted);
            if (!verdict)
                verdict = gemm_check_gaps(&r, out);
        }
        gemm_release(&r, &d);
        gemm_run_finish(&r);
    }
    return verdict;
}

mx_status gemm_variants(mxrt_device *device, mx_gemm_pass pass, const gemm_kind *kind,
                        const char **names, size_t capacity, size_t *n, mx_error *err)
{
    static const gemm_case friendly[] = {
        {"variants", MX_GEMM_ROWS, 2, {64, 64}, 64, 128, 0, 0, GEMM_VALUES_INTEGERS},
        {"variants", MX_GEMM_COLS, 2, {128, 128}, 64, 64, 0, 0, GEMM_VALUES_INTEGERS},
    };
    gemm_on_device d = {.memory = {NULL}};
    mx_status status = MX_OK;
    gemm_run r;

    if (!gemm_run_init(&r, device, &friendly[pass], kind))
        status = mx_fail(err, MX_ERR_NO_MEMORY, "no memory");
    if (!status)
        status = gemm_place_all(&r, &d, err);
    if (!status)
        status = mxrt_gemm_variants(device, &d.request, names, capacity, n, err);
    gemm_release(&r, &d);
    gemm_run_finish(&r);
    return status;
}
