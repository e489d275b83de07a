#include "mxrt_problems.h"

#include <limits.h>

enum { KEY_OP = 2048, KEY_DTYPE, KEY_SHAPE };

mx_case *problems_add_shape(struct argp_state *state, tool_problems *problems)
{
    if (problems->n_shapes == PROBLEMS_MAX_SHAPES)
        argp_error(state, "more than %d shapes", PROBLEMS_MAX_SHAPES);
    mx_case *shape = &problems->shapes[problems->n_shapes++];
    shape->axis = INT_MIN; /* --axis, when all options are read */
    return shape;
}

static void add_shape(struct argp_state *state, const char *part, void *user)
{
    mx_case *shape = problems_add_shape(state, user);
    shape->ndim = tool_parse_shape(state, part, shape->shape, MX_CASE_MAX_DIMS);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    tool_problems *problems = state->input;
    switch (key) {
    case KEY_OP:
        tool_parse_list(state, arg, &problems->ops, tool_add_op);
        return 0;
    case 'f':
        tool_parse_list(state, arg, &problems->formats, tool_add_format);
        return 0;
    case KEY_DTYPE:
        tool_parse_list(state, arg, &problems->dtypes, tool_add_dtype);
        return 0;
    case KEY_SHAPE:
        tool_parse_list(state, arg, problems, add_shape);
        return 0;
    case 'a':
        problems->axis = (int)tool_parse_integer(state, "--axis", arg, INT_MIN + 1, INT_MAX);
        problems->has_axis = 1;
        return 0;
    case ARGP_KEY_INIT:
        problems->axis = -1;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option option_table[] = {
    {"op", KEY_OP, "OP,..", 0, "to, from, qdq (default: all; bench: to,from)", 1},
    {"format", 'f', "FORMAT,..", 0,
     "mx9, mx6, mx4, mxfp4, mxfp6e2m3, mxfp6e3m2, mxfp8e4m3, mxfp8e5m2, mxint8 (default: mx9,mx6)",
     1},
    {"dtype", KEY_DTYPE, "TYPE,..", 0, "f32, bf16, f16 (default: f32,bf16)", 1},
    {"shape", KEY_SHAPE, "SHAPE,..", 0,
     "Such as 4096x4096 (default: 4096x4096 along axes -1 and 0, and 4096x4095)", 1},
    {"axis", 'a', "N", 0, "Axis of the blocks (default: -1)", 1},
    {0}};

const struct argp problems_argp = {.options = option_table, .parser = parse};

void problems_set_defaults(tool_problems *problems, unsigned ops)
{
    if (!problems->ops)
        problems->ops = ops;
    if (!problems->formats)
        problems->formats = 1u << MX_FORMAT_MX9 | 1u << MX_FORMAT_MX6;
    if (!problems->dtypes)
        problems->dtypes = 1u << MX_DTYPE_F32 | 1u << MX_DTYPE_BF16;
    int given = problems->n_shapes;
    for (int i = 0; i < given; i++) {
        if (problems->shapes[i].axis == INT_MIN)
            problems->shapes[i].axis = problems->axis;
    }
    for (size_t i = 0; !given && i < mx_case_count(); i++) {
        const mx_case *c = mx_case_at(i);
        if (!(c->uses & MX_CASE_BENCH) || problems->n_shapes == PROBLEMS_MAX_SHAPES ||
            (problems->has_axis && problems->axis != c->axis))
            continue;
        problems->shapes[problems->n_shapes++] = *c;
    }
}

int problems_list(const tool_problems *problems, tool_problem *out)
{
    /* The key's three parts in one number. */
    const int n_dtypes = MX_DTYPE_COUNT, n_formats = MX_FORMAT_COUNT, n_ops = MX_OP_COUNT;
    int n = 0;
    for (int s = 0; s < problems->n_shapes; s++) {
        for (int k = 0; k < n_ops * n_formats * n_dtypes; k++) {
            tool_problem one = {.op = (mx_op)(k / (n_formats * n_dtypes)),
                                .format = (mx_format)(k / n_dtypes % n_formats),
                                .dtype = (mx_dtype)(k % n_dtypes),
                                .shape = &problems->shapes[s]};
            if (!(problems->ops >> one.op & 1) || !(problems->formats >> one.format & 1) ||
                !(problems->dtypes >> one.dtype & 1))
                continue;
            if (out)
                out[n] = one;
            n++;
        }
    }
    return n;
}
