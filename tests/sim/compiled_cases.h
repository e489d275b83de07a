/* The cases of compiled_cases.c. */
#ifndef COMPILED_CASES_H
#define COMPILED_CASES_H

#define COMPILED_CASES(X)                                                                          \
    X(add)                                                                                         \
    X(multiply)                                                                                    \
    X(divide)                                                                                      \
    X(square_root)                                                                                 \
    X(compare)                                                                                     \
    X(roundings)                                                                                   \
    X(mul_int)                                                                                     \
    X(mulhi)                                                                                       \
    X(div_int)                                                                                     \
    X(modulo)                                                                                      \
    X(mul64)                                                                                       \
    X(div64)                                                                                       \
    X(shift)                                                                                       \
    X(shift64)                                                                                     \
    X(bit_counts)                                                                                  \
    X(bytes)                                                                                       \
    X(permute_bytes)                                                                               \
    X(minmax)                                                                                      \
    X(clamps)                                                                                      \
    X(converts)                                                                                    \
    X(ubyte)                                                                                       \
    X(loop)                                                                                        \
    X(diverge)                                                                                     \
    X(switches)                                                                                    \
    X(half_math)                                                                                   \
    X(half_compare)                                                                                \
    X(short_math)                                                                                  \
    X(bfloat_round)                                                                                \
    X(double1)                                                                                     \
    X(double2)                                                                                     \
    X(scale_exp)                                                                                   \
    X(fused)                                                                                       \
    X(min_max_float)                                                                               \
    X(four_words)                                                                                  \
    X(store_bytes)                                                                                 \
    X(store_shorts)                                                                                \
    X(clampadd)                                                                                    \
    X(absdiff)                                                                                     \
    X(stack)                                                                                       \
    X(array_index)                                                                                 \
    X(double_div)                                                                                  \
    X(compare64)                                                                                   \
    X(float_int64)                                                                                 \
    X(table)                                                                                       \
    X(nested)                                                                                      \
    X(rotates)                                                                                     \
    X(byte_swap)                                                                                   \
    X(unaligned)                                                                                   \
    X(bfloat_mul)                                                                                  \
    X(mul128)                                                                                      \
    X(split_exp)                                                                                   \
    X(classify)                                                                                    \
    X(packed_floats)                                                                               \
    X(packed_halves)                                                                               \
    X(vector_index)                                                                                \
    X(calls)                                                                                       \
    X(recursion)

#endif
