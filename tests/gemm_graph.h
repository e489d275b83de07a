/* Grouped GEMM in captured graphs, on devices that have them. */
#ifndef GEMM_GRAPH_H
#define GEMM_GRAPH_H

#include "driver_graphs.h"
#include "gemm_engine.h"

/* One capture, replayed with three splits of the rows. */
gemm_verdict gemm_graph_run(mxrt_device *device, const driver_graphs *driver, mx_gemm_pass pass,
                            const gemm_kind *kind, const char *variant, gemm_outcome *out);

#endif
