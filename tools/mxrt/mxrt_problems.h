/* Which problems bench and tune work on: every operation, format and type on every shape. */
#ifndef MXRT_PROBLEMS_H
#define MXRT_PROBLEMS_H

#include "mxrt_tool.h"

#include "tests/cases.h"

enum { PROBLEMS_MAX_SHAPES = 256 };

typedef struct tool_problems {
    unsigned ops, formats, dtypes; /* bits */
    mx_case shapes[PROBLEMS_MAX_SHAPES];
    int n_shapes, axis, has_axis;
} tool_problems;

typedef struct tool_problem {
    mx_op op;
    mx_format format;
    mx_dtype dtype;
    const mx_case *shape;
} tool_problem;

/* Options --op, --format, --dtype, --shape and --axis; the input is a tool_problems. */
extern const struct argp problems_argp;

/* Another shape, to be filled in; its axis is --axis unless it is set. */
mx_case *problems_add_shape(struct argp_state *state, tool_problems *problems);

/* When all options are read: what was not asked for is `ops`, MX9 and MX6, f32 and bf16, and the
 * shapes of the benchmark. */
void problems_set_defaults(tool_problems *problems, unsigned ops);

/* Shapes outermost, then operations, formats and types. Stores those from 0 on in `out`, if it is
 * not NULL, and returns their number. */
int problems_list(const tool_problems *problems, tool_problem *out);

#endif
