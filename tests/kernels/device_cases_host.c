/* The host's form of tests/kernels/device_cases.c: a program is a block of 256. */
#include <stdint.h>

typedef struct add_args {
    const uint32_t *x;
    uint32_t *y;
    int64_t n;
    uint32_t addend;
} add_args;

__attribute__((visibility("default"))) void mxtest_add(const void *args, int64_t program_begin,
                                                       int64_t program_end);

void mxtest_add(const void *args, int64_t program_begin, int64_t program_end)
{
    const add_args *a = args;
    for (int64_t i = program_begin * 256; i < program_end * 256 && i < a->n; i++)
        a->y[i] = a->x[i] + a->addend;
}
