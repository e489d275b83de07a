/* MXRT_POLICY_MEASURE: measures the kernels that apply to a problem, at once and within a budget.
 */
#ifndef MXRT_MEASURE_NOW_H
#define MXRT_MEASURE_NOW_H

#include "runtime/device.h"

/* Measures unless something is known of the problem's bucket already, the stream or the default
 * stream captures a graph, or the device cannot run. What is found decides from then on: it is
 * added to the table, and to the user's tuning file. Never fails: why nothing was measured is told
 * to the log. Threads take turns. */
void mxrt_measure_now(mxrt_device *device, mxrt_kernel_table *table, const mxrt_problem *problem,
                      const mxrt_select_how *how);

#endif
