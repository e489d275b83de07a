/* Kernels that leave marks, for the tests of selection and launch on the host: no arithmetic of any
 * format, but each block shows which variant ran on it, how often, and with what arguments. */
#include <stdint.h>

/* As the argument lists in test_runtime.c say. */
typedef struct mark_args {
    const float *x;
    int32_t n_blocks;
    unsigned char *p;
    float tag;
    int64_t rows;
} mark_args;

__attribute__((visibility("default"))) void mxtest_mark(const void *args, int64_t program_begin,
                                                        int64_t program_end);

void mxtest_mark(const void *args, int64_t program_begin, int64_t program_end)
{
    const mark_args *a = args;
    volatile float subnormal = 1e-40f;
    int keeps_subnormals = subnormal * 2 > 0;

    for (int64_t b = program_begin * 8; b < program_end * 8 && b < a->n_blocks; b++) {
        unsigned char *bytes = a->p + b * 18;
        bytes[0] += (unsigned char)a->tag;
        bytes[1] = (unsigned char)a->rows;
        bytes[2] = (unsigned char)keeps_subnormals;
        bytes[3] = (unsigned char)a->x[0];
    }
}

/* What must not take a sweep along. */
__attribute__((visibility("default"))) void mxtest_hang(const void *args, int64_t program_begin,
                                                        int64_t program_end);
__attribute__((visibility("default"))) void mxtest_fault(const void *args, int64_t program_begin,
                                                         int64_t program_end);

void mxtest_hang(const void *args, int64_t program_begin, int64_t program_end)
{
    (void)args;
    for (volatile int64_t i = program_begin; i < program_end;)
        i = program_begin;
}

void mxtest_fault(const void *args, int64_t program_begin, int64_t program_end)
{
    volatile uintptr_t nowhere = 16; /* which the compiler would know better */

    (void)args;
    *(int64_t *)nowhere = program_end - program_begin;
}
