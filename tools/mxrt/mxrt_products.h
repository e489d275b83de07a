/* Which products bench and tune work on with --op grouped_gemm: every pass, pair of operands and
 * type of the result on every shape. */
#ifndef MXRT_PRODUCTS_H
#define MXRT_PRODUCTS_H

#include "mxrt_gemm.h"

enum { PRODUCTS_MAX_SHAPES = 64, PRODUCTS_MAX_FORMATS = 16 };

typedef struct tool_products {
    unsigned passes, dtypes;                          /* bits; dtypes are out's */
    mx_gemm_element formats[PRODUCTS_MAX_FORMATS][2]; /* left, right */
    gemm_shape shapes[PRODUCTS_MAX_SHAPES];
    int n_formats, n_shapes;
    gemm_values values;
    mxrt_gemm_request request; /* mode, num_cu and accumulate */
} tool_products;

typedef struct tool_product {
    gemm_pass pass;
    mx_dtype dtype;
    gemm_shape shape;
    gemm_values values;
    mxrt_gemm_request request; /* with the elements */
} tool_product;

/* Whether the command line has --op grouped_gemm, which has options of its own. */
int products_asked(int argc, char **argv);

/* Options --op, --pass, --format, --dtype, --mode, --shape, --values, --num-cu and --accumulate;
 * the input is a tool_products. */
extern const struct argp products_argp;

/* "GxMxNxK"; M is the rows of each group, or "LEAST-MOST". */
void products_add_shape(struct argp_state *state, const char *text, void *products);

/* What was not asked for, when all options are read: fprop of MXFP4 to bf16, and six shapes of
 * language models. */
void products_set_defaults(struct argp_state *state, tool_products *products);

/* Shapes outermost, then formats, passes and types. Stores those from 0 on in `out`, if it is not
 * NULL, and returns their number. */
int products_list(const tool_products *products, tool_product *out);

/* "fprop", "mxfp4.mxfp4", "8x2048x4096x7168". */
void products_format_text(const mxrt_gemm_request *request, char *out, size_t out_bytes);
void products_shape_text(const gemm_shape *shape, char out[TOOL_SHAPE_BYTES]);

#endif
