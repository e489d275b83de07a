#include "sim_lane.h"
const valu_op valu_scale_ops[] = {{"v_none", "i:i", NULL, 0}};
const size_t valu_scale_count = 1;
