#include "mxrt_products.h"

#include <stdlib.h>
#include <string.h>

/* ---- Options ---- */

int products_asked(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--op=grouped_gemm") ||
            (!strcmp(argv[i], "--op") && i + 1 < argc && !strcmp(argv[i + 1], "grouped_gemm")))
            return 1;
    }
    return 0;
}

/* "GxMxNxK"; M is the rows of each group, or "LEAST-MOST". */
static void parse_shape(struct argp_state *state, const char *text, gemm_shape *out)
{
    gemm_shape shape = {0};
    char end = 0;

    if (sscanf(text, "%ldx%ld-%ldx%ldx%ld%c", &shape.groups, &shape.least, &shape.most, &shape.n,
               &shape.k, &end) != 5) {
        if (sscanf(text, "%ldx%ldx%ldx%ld%c", &shape.groups, &shape.most, &shape.n, &shape.k,
                   &end) != 4)
            argp_error(state,
                       "--shape %s: not GROUPSxROWSxNxK, such as 8x2048x4096x7168 or "
                       "16x1-16x2880x2880",
                       text);
        shape.least = shape.most;
    }
    if (shape.groups < 1 || shape.groups > GEMM_MAX_GROUPS || shape.least < 0 ||
        shape.most < shape.least || shape.most > 1 << 24 || shape.n < 32 || shape.n > 1 << 24 ||
        shape.k < 32 || shape.k > 1 << 24 || shape.n % 32 || shape.k % 32)
        argp_error(state,
                   "--shape %s: 1 to %d groups, up to 16777216 rows, N and K from 32 on in "
                   "multiples of 32",
                   text, GEMM_MAX_GROUPS);
    *out = shape;
}

void products_add_shape(struct argp_state *state, const char *text, void *user)
{
    tool_products *products = user;

    if (products->n_shapes == PRODUCTS_MAX_SHAPES)
        argp_error(state, "more than %d shapes", PRODUCTS_MAX_SHAPES);
    parse_shape(state, text, &products->shapes[products->n_shapes++]);
}

static void add_pass(struct argp_state *state, const char *part, void *user)
{
    unsigned *passes = user;

    for (int i = 0; i < GEMM_PASS_COUNT; i++) {
        if (!strcmp(part, gemm_pass_name((gemm_pass)i))) {
            *passes |= 1u << i;
            return;
        }
    }
    argp_error(state, "pass \"%s\" is unknown; fprop, dgrad and wgrad exist", part);
}

static void parse_values(struct argp_state *state, const char *text, gemm_values *out)
{
    for (int i = 0; i < GEMM_VALUES_COUNT; i++) {
        if (!strcmp(text, gemm_values_name((gemm_values)i))) {
            *out = (gemm_values)i;
            return;
        }
    }
    argp_error(state, "values \"%s\" are unknown; normal, positive, spread and opposed exist",
               text);
}

static void add_format(struct argp_state *state, const char *part, void *user)
{
    tool_products *products = user;

    if (products->n_formats == PRODUCTS_MAX_FORMATS)
        argp_error(state, "more than %d formats", PRODUCTS_MAX_FORMATS);
    mx_gemm_element *format = products->formats[products->n_formats++];
    if (mx_gemm_format_parse(part, &format[0], &format[1]))
        argp_error(state,
                   "format \"%s\" is unknown: LEFT.RIGHT of mxfp4, mxfp8e4m3, mxfp8e5m2 and bf16",
                   part);
}

enum {
    KEY_OP = 3072,
    KEY_PASS,
    KEY_FORMAT,
    KEY_DTYPE,
    KEY_MODE,
    KEY_SHAPE,
    KEY_VALUES,
    KEY_NUM_CU,
    KEY_ACCUMULATE
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    tool_products *products = state->input;

    switch (key) {
    case KEY_OP:
        if (strcmp(arg, "grouped_gemm"))
            argp_error(state, "--op %s: grouped_gemm is measured alone", arg);
        return 0;
    case KEY_PASS:
        tool_parse_list(state, arg, &products->passes, add_pass);
        return 0;
    case KEY_FORMAT:
        tool_parse_list(state, arg, products, add_format);
        return 0;
    case KEY_DTYPE:
        tool_parse_list(state, arg, &products->dtypes, tool_add_dtype);
        return 0;
    case KEY_MODE:
        if (mx_gemm_mode_parse(arg, &products->request.mode))
            argp_error(state, "mode \"%s\" is unknown; fast and exact exist", arg);
        return 0;
    case KEY_SHAPE:
        tool_parse_list(state, arg, products, products_add_shape);
        return 0;
    case KEY_VALUES:
        parse_values(state, arg, &products->values);
        return 0;
    case KEY_NUM_CU:
        products->request.num_cu = (int)tool_parse_integer(state, "--num-cu", arg, 1, 1 << 20);
        return 0;
    case KEY_ACCUMULATE:
        products->request.accumulate = 1;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option option_table[] = {
    {"op", KEY_OP, "grouped_gemm", 0, "What is measured here", 1},
    {"pass", KEY_PASS, "fprop|dgrad|wgrad[,..]", 0, "Passes of a layer (default: fprop)", 1},
    {"format", KEY_FORMAT, "LEFT.RIGHT[,..]", 0,
     "Operands: mxfp4, mxfp8e4m3, mxfp8e5m2 or bf16 (default: mxfp4.mxfp4)", 1},
    {"dtype", KEY_DTYPE, "f32|bf16|f16[,..]", 0, "Types of the result (default: bf16)", 1},
    {"mode", KEY_MODE, "fast|exact", 0, "Kernels (default: fast)", 1},
    {"shape", KEY_SHAPE, "GxMxNxK[,..]", 0,
     "Groups, rows of each (or LEAST-MOST), N and K of the layer; default: six of language models",
     1},
    {"values", KEY_VALUES, "normal|positive|spread|opposed", 0,
     "Operands: any signs (default), none negative, scales over 2^100, small blocks that meet "
     "large "
     "ones",
     1},
    {"num-cu", KEY_NUM_CU, "N", 0, "At most N compute units", 2},
    {"accumulate", KEY_ACCUMULATE, NULL, 0, "Adds to what is there", 2},
    {0}};

const struct argp products_argp = {.options = option_table, .parser = parse};

void products_set_defaults(struct argp_state *state, tool_products *products)
{
    static const char *const shapes[] = {"8x2048x4096x7168",      "32x512x2048x1408",
                                         "1x8192x8192x8192",      "28x256-1024x6144x3584",
                                         "28x256-1024x3584x3072", "16x1-16x2880x2880"};
    int is_given = products->n_shapes;

    for (size_t i = 0; !is_given && i < sizeof(shapes) / sizeof(shapes[0]); i++)
        products_add_shape(state, shapes[i], products);
    if (!products->n_formats)
        add_format(state, "mxfp4.mxfp4", products);
    products->passes = products->passes ? products->passes : 1u << GEMM_FPROP;
    products->dtypes = products->dtypes ? products->dtypes : 1u << MX_DTYPE_BF16;
}

int products_list(const tool_products *products, tool_product *out)
{
    const int n_passes = GEMM_PASS_COUNT, n_dtypes = MX_DTYPE_COUNT;
    int n = 0;

    for (int i = 0; i < products->n_shapes * products->n_formats * n_passes * n_dtypes; i++) {
        int dtype = i % n_dtypes, pass = i / n_dtypes % n_passes;
        int format = i / (n_dtypes * n_passes) % products->n_formats;
        int shape = i / (n_dtypes * n_passes * products->n_formats);
        if (!(products->passes >> pass & 1) || !(products->dtypes >> dtype & 1))
            continue;
        if (out) {
            out[n] = (tool_product){.pass = (gemm_pass)pass,
                                    .dtype = (mx_dtype)dtype,
                                    .shape = products->shapes[shape],
                                    .values = products->values,
                                    .request = products->request};
            out[n].request.left_element = products->formats[format][0];
            out[n].request.right_element = products->formats[format][1];
        }
        n++;
    }
    return n;
}

/* ---- Texts ---- */

void products_format_text(const mxrt_gemm_request *request, char *out, size_t out_bytes)
{
    snprintf(out, out_bytes, "%s.%s", mx_gemm_element_name(request->left_element),
             mx_gemm_element_name(request->right_element));
}

void products_shape_text(const gemm_shape *shape, char out[TOOL_SHAPE_BYTES])
{
    int n = snprintf(out, TOOL_SHAPE_BYTES, "%lldx", (long long)shape->groups);

    if (shape->least < shape->most)
        n += snprintf(out + n, TOOL_SHAPE_BYTES - (size_t)n, "%lld-", (long long)shape->least);
    snprintf(out + n, TOOL_SHAPE_BYTES - (size_t)n, "%lldx%lldx%lld", (long long)shape->most,
             (long long)shape->n, (long long)shape->k);
}
