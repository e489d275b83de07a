/* One operation on one shape with its memory: what bench and tune measure. */
#ifndef MXRT_POINT_H
#define MXRT_POINT_H

#include "mxrt_measure.h"
#include "mxrt_tool.h"

#include "tests/cases.h"

typedef struct tool_point {
    mx_op op;
    mx_format format;
    mx_dtype dtype;
    const mx_case *shape;
    int64_t moved_bytes; /* each element and packed byte once */
    mx_case_tensor in, out;
    measure_ring in_ring, out_ring;
    measure_copy copy;
} tool_point;

/* Makes and fills the memory of a point whose key and shape are set, the rest zeroed; finish it in
 * any case. `rotate`: enough slots that none is in a cache when it comes again. */
mx_status point_init(tool_point *point, const tool_engine *engine, int rotate, mx_error *err);
void point_finish(tool_point *point);
mxrt_plan_request point_request(const tool_point *point);

/* For mxrt_device_time: runs the plan on the next slot. */
typedef struct point_kernel {
    const mxrt_plan *plan;
    tool_point *point;
} point_kernel;
mx_status point_run(void *point_kernel, mxrt_stream stream, mx_error *err);

#endif
