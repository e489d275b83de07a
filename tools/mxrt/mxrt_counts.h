/* What a driver counts while a kernel runs, for mxrt bench: on a simulated chip a time means
 * nothing. */
#ifndef MXRT_COUNTS_H
#define MXRT_COUNTS_H

#include <jansson.h>
#include <mxgen/rt.h>

#include "mxrt_tool.h"

/* Whether the driver of the device counts. */
int counts_available(mxrt_device *device);

/* Runs `fn` once to its end and gives what was counted of it alone. */
mx_status counts_run(mxrt_device *device, mxrt_timed_fn fn, void *user, mxrt_counters *out,
                     mx_error *err);

/* Every count, and the kernel's registers and occupancy from the pack; to be released by the
 * caller. */
json_t *counts_json(const mxrt_counters *counts, const mxrt_plan_info *info);

/* The heads of the cells that follow those of the key; NULL ends. */
extern const char *const counts_heads[];
void counts_cells(tool_table *table, const mxrt_counters *counts, const mxrt_plan_info *info);

#endif
