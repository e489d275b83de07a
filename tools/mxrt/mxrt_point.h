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
    int64_t moved_bytes; /* each element, packed byte and scale once */
    mx_case_tensor in, out;
    mx_case_tensor scales; /* OCP formats, contiguous; of no other */
    int has_scales;
    /* Columns, too (mxrt_ocp_columns): what one group of all rows is padded to, or 0. Of `from` the
     * blocks are turned to the columns of a matrix instead (mxrt_ocp_turned). */
    int column_align;
    mxrt_ocp_columns columns;
    mxrt_ocp_turned turned;
    mx_case_tensor column_data, column_scales;
    measure_ring in_ring, out_ring, scale_ring;
    measure_ring column_ring, column_scale_ring; /* of one slot */
    measure_copy copy;
} tool_point;

enum {
    POINT_ROTATE = 1, /* enough slots that none is in a cache when it comes again */
    POINT_COPY = 2    /* and memory for the device's own copy */
};

/* Makes and fills the memory of a point whose key and shape are set, the rest zeroed; finish it in
 * any case. */
mx_status point_init(tool_point *point, const tool_engine *engine, unsigned flags, mx_error *err);
/* The tensors alone, at addresses where nothing is: for keys and choices, which read no memory. */
mx_status point_place(tool_point *point, const tool_engine *engine, mx_error *err);
void point_finish(tool_point *point);
mxrt_plan_request point_request(const tool_point *point);

/* For mxrt_device_time: runs the plan on the next slot. */
typedef struct point_kernel {
    const mxrt_plan *plan;
    tool_point *point;
} point_kernel;
mx_status point_run(void *point_kernel, mxrt_stream stream, mx_error *err);

#endif
