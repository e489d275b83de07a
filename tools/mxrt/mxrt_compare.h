/* How the values of two arrays differ. */
#ifndef MXRT_COMPARE_H
#define MXRT_COMPARE_H

#include "safetensors.h"

typedef struct compare_sums {
    int64_t elements, changed, changed_bits;
    int64_t not_finite; /* pairs of which one is NaN or infinite and the other is not the same */
    double signal, noise, max_error; /* over pairs of finite values */
} compare_sums;

/* Whether elements of the type are numbers here: floats of 16 bits and more, and integers. */
int compare_has_values(st_dtype dtype);

/* Bytes of an element; smaller ones are compared by whole bytes. */
int64_t compare_unit_bytes(st_dtype dtype);

/* Adds n elements. Where a type has no values here both types must be the same, and only bits are
 * compared. Changed are elements whose bits differ; of different types, whose values do. */
void compare_add(compare_sums *sums, st_dtype a_type, const void *a, st_dtype b_type, const void *b,
                 int64_t n);
void compare_add_sums(compare_sums *total, const compare_sums *sums);

/* 10 log10(signal / noise); infinite where nothing differs. */
double compare_decibels(const compare_sums *sums);

#endif
