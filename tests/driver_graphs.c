#include "driver_graphs.h"

#include <dlfcn.h>
#include <string.h>

#include <mxgen/error.h>

#include "runtime/dynlib.h"

void driver_graphs_find(const driver_graphs *driver, void *function, const char *cuda_name,
                        const char *hip_name)
{
    void *address = dlsym(driver->library, driver->is_cuda ? cuda_name : hip_name);

    memcpy(function, &address, sizeof(address));
}

static int make_context_current(const driver_graphs *driver)
{
    int (*init)(unsigned) = NULL;
    int (*retain)(void **, int) = NULL;
    int (*set)(void *) = NULL;
    void *primary = NULL;

    if (!driver->is_cuda)
        return 0;
    driver_graphs_find(driver, &init, "cuInit", NULL);
    driver_graphs_find(driver, &retain, "cuDevicePrimaryCtxRetain", NULL);
    driver_graphs_find(driver, &set, "cuCtxSetCurrent", NULL);
    return !init || !retain || !set || init(0) || retain(&primary, 0) || set(primary);
}

mx_status driver_graphs_open(driver_graphs *driver, int is_cuda, mx_error *err)
{
    const mxrt_dynlib *opened = NULL;
    mx_status status =
        mxrt_dynlib_open(is_cuda ? &mxrt_cuda_library : &mxrt_hip_library, NULL, &opened, err);

    memset(driver, 0, sizeof(*driver));
    if (status)
        return status;
    driver->library = opened->handle;
    driver->is_cuda = is_cuda;
    driver_graphs_find(driver, &driver->stream_create, "cuStreamCreate",
                       "hipStreamCreateWithFlags");
    driver_graphs_find(driver, &driver->stream_destroy, "cuStreamDestroy_v2", "hipStreamDestroy");
    driver_graphs_find(driver, &driver->capture_begin, "cuStreamBeginCapture_v2",
                       "hipStreamBeginCapture");
    driver_graphs_find(driver, &driver->capture_end, "cuStreamEndCapture", "hipStreamEndCapture");
    driver_graphs_find(driver, &driver->graph_instantiate, "cuGraphInstantiate_v2",
                       "hipGraphInstantiate");
    driver_graphs_find(driver, &driver->graph_launch, "cuGraphLaunch", "hipGraphLaunch");
    driver_graphs_find(driver, &driver->executable_destroy, "cuGraphExecDestroy",
                       "hipGraphExecDestroy");
    driver_graphs_find(driver, &driver->graph_destroy, "cuGraphDestroy", "hipGraphDestroy");
    if (make_context_current(driver))
        return mx_fail(err, MX_ERR_NOT_FOUND, "no CUDA context");
    return MX_OK;
}
