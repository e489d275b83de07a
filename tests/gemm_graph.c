/* A captured run, replayed with other sizes of groups: the offsets are read when it runs. */
#include "gemm_graph.h"

#include <string.h>

#include "gemm_rig.h"

enum { N_SPLITS = 3 };

static const gemm_case splits[MX_GEMM_PASS_COUNT][N_SPLITS] = {
    {
        {"split", MX_GEMM_ROWS, 3, {40, 0, 56}, 72, 160, 0, 0, GEMM_VALUES_SIGNED},
        {"split", MX_GEMM_ROWS, 3, {0, 96, 0}, 72, 160, 0, 0, GEMM_VALUES_SIGNED},
        {"split", MX_GEMM_ROWS, 3, {33, 31, 32}, 72, 160, 0, 0, GEMM_VALUES_SIGNED},
    },
    {
        {"split", MX_GEMM_COLS, 3, {128, 0, 64}, 72, 40, 0, 0, GEMM_VALUES_SIGNED},
        {"split", MX_GEMM_COLS, 3, {0, 0, 192}, 72, 40, 0, 0, GEMM_VALUES_SIGNED},
        {"split", MX_GEMM_COLS, 3, {64, 96, 32}, 72, 40, 0, 0, GEMM_VALUES_SIGNED},
    },
};

/* The driver's handles. */
typedef struct capture {
    const driver_graphs *driver;
    void *stream, *graph, *executable;
} capture;

static void capture_finish(capture *c)
{
    if (c->executable)
        c->driver->executable_destroy(c->executable);
    if (c->graph)
        c->driver->graph_destroy(c->graph);
    if (c->stream)
        c->driver->stream_destroy(c->stream);
}

static mx_status record(capture *c, const mxrt_gemm_plan *plan, const mxrt_gemm_buffers *buffers,
                        mx_error *err)
{
    if (c->driver->stream_create(&c->stream, 1) || c->driver->capture_begin(c->stream, 0))
        return MX_ERR_DEVICE;
    mx_status status = mxrt_gemm_run(plan, buffers, c->stream, err);
    if (c->driver->capture_end(c->stream, &c->graph) ||
        c->driver->graph_instantiate(&c->executable, c->graph, NULL, NULL, 0))
        return status ? status : MX_ERR_DEVICE;
    return status;
}

static mx_status replay(const capture *c, gemm_run *r, gemm_on_device *d, mx_error *err)
{
    size_t out_bytes = r->out_bytes + 2 * GEMM_GUARD;
    mx_status status =
        mxrt_device_upload(r->device, d->memory[GEMM_OUT], r->before, out_bytes, err);

    if (!status)
        status = mxrt_device_upload(r->device, d->memory[GEMM_READ], r->read,
                                    (size_t)(r->groups + 1) * sizeof(int64_t), err);
    if (!status && c->driver->graph_launch(c->executable, c->stream))
        status = MX_ERR_DEVICE;
    if (!status)
        status = mxrt_device_synchronize(r->device, c->stream, err);
    return status ? status
                  : mxrt_device_download(r->device, r->after, d->memory[GEMM_OUT], out_bytes, err);
}

/* The graph of the first split, on the others. */
static gemm_verdict replay_splits(const capture *c, gemm_on_device *d, mxrt_device *device,
                                  mx_gemm_pass pass, const gemm_kind *kind, mx_gemm_mode mode,
                                  gemm_outcome *out)
{
    gemm_verdict verdict = GEMM_OK;
    mx_error err = {MX_OK, ""};

    for (int i = 0; !verdict && i < N_SPLITS; i++) {
        gemm_run r;
        if (!gemm_run_init(&r, device, &splits[pass][i], kind))
            verdict = gemm_wrong(out, "no memory");
        else if (replay(c, &r, d, &err))
            verdict = gemm_wrong(out, "replay %d: %s", i, err.message);
        else if (!(verdict = gemm_check_gaps(&r, out)))
            verdict = gemm_compare(&r, mode, out);
        gemm_run_finish(&r);
    }
    return verdict;
}

gemm_verdict gemm_graph_run(mxrt_device *device, const driver_graphs *driver, mx_gemm_pass pass,
                            const gemm_kind *kind, const char *variant, gemm_outcome *out)
{
    capture c = {.driver = driver};
    gemm_on_device d = {.memory = {NULL}};
    mxrt_gemm_plan *plan = NULL;
    mxrt_gemm_info info;
    mx_error err = {MX_OK, ""};
    gemm_verdict verdict = GEMM_OK;
    gemm_run r;

    memset(out, 0, sizeof(*out));
    mx_status status = gemm_run_init(&r, device, &splits[pass][0], kind) ? MX_OK : MX_ERR_NO_MEMORY;
    if (!status)
        status = gemm_place_all(&r, &d, &err);
    d.request.variant = variant;
    if (!status)
        status = mxrt_gemm_plan_create(device, &d.request, &plan, &err);
    if (status == MX_ERR_UNSUPPORTED)
        verdict = GEMM_NOT_APPLICABLE;
    if (!status)
        status = mxrt_gemm_get_info(plan, &info, &err);
    if (!status)
        status = gemm_place_workspace(&r, &d, plan, &err);
    const mxrt_gemm_buffers buffers = {.workspace = d.memory[GEMM_WORKSPACE],
                                       .workspace_bytes = mxrt_gemm_workspace_bytes(plan)};
    if (!status)
        status = record(&c, plan, &buffers, &err);
    if (!status)
        verdict = replay_splits(&c, &d, device, pass, kind, info.mode, out);
    else if (!verdict)
        verdict = gemm_wrong(out, "capture: %s", err.message);
    capture_finish(&c);
    mxrt_gemm_plan_destroy(plan);
    gemm_release(&r, &d);
    gemm_run_finish(&r);
    return verdict;
}
