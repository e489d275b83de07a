/* The EXPR language of kernel packs (mxgen/pack.h): compiled once, evaluated on the launch path.
 *
 * Arithmetic is 64-bit and checked; && || ?: evaluate only what they need and, like comparisons,
 * && || ! give 0 or 1. `-` also negates. Literals are decimal, without leading zeros. */
#ifndef MXRT_EXPR_H
#define MXRT_EXPR_H

#include <mxgen/base.h>

#define MXRT_EXPR_MAX_TEXT 4096 /* characters */
#define MXRT_EXPR_MAX_DEPTH 64  /* nested parentheses, functions, unary operators, conditionals */

typedef struct mxrt_expr mxrt_expr;

/* `names[i]` is the name of values[i] in eval; neither `text` nor `names` is kept. Errors give
 * the column, from 1. */
mx_status mxrt_expr_compile(const char *text, const char *const *names, size_t n_names,
                            mxrt_expr **out, mx_error *err);
void mxrt_expr_free(mxrt_expr *expr);

/* Neither allocates nor locks; one expression may be evaluated by many threads at once. Overflow
 * and division by zero are MX_ERR_INVALID, with the text and the column of the operator. */
mx_status mxrt_expr_eval(const mxrt_expr *expr, const int64_t *values, int64_t *out, mx_error *err);

/* The column of a division by the constant 0, for tools that look at expressions before they are
 * used; 0 if there is none. */
size_t mxrt_expr_zero_divisor(const mxrt_expr *expr);

/* Whether the value depends on values[variable], for any of the others. */
int mxrt_expr_reads(const mxrt_expr *expr, size_t variable);

/* The text that was compiled; lives as long as the expression. */
const char *mxrt_expr_text(const mxrt_expr *expr);

#endif
