/* Kernels of the host for tests of packs with products: a product in three launches, each of which
 * leaves a trace that the next one needs, so that steps, their order, workspace, variables and
 * buffers are seen. */
#include <stdint.h>

#if defined(__GNUC__)
#define EXPORT __attribute__((visibility("default")))
#endif

/* Argument blocks as gemm_pack.h declares them. */
typedef struct before_args {
    int64_t *workspace;
    const int64_t *read_offsets, *write_offsets;
    int64_t groups, magic;
} before_args;

/* Writes where the product's rows come from. */
EXPORT void mxtest_before(const before_args *args, int64_t begin, int64_t end);
void mxtest_before(const before_args *args, int64_t begin, int64_t end)
{
    for (int64_t g = begin; g < end; g++) {
        args->workspace[2 * g] = args->read_offsets[g] + args->magic;
        args->workspace[2 * g + 1] = args->write_offsets[g + 1] - args->write_offsets[g];
    }
}

typedef struct main_args {
    const unsigned char *left, *left_scales, *right, *right_scales;
    float *out;
    const int64_t *workspace, *write_offsets;
    int32_t *status;
    int64_t left_row_stride, left_scale_row_stride, right_row_stride, right_group_stride,
        right_scale_row_stride, right_scale_group_stride, out_row_stride;
    int32_t n, k, magic;
} main_args;

/* Of E4M3 codes 0x38 (1) and 0 alone, whose scales add to 254: counts the ones that meet. */
EXPORT void mxtest_main(const main_args *a, int64_t begin, int64_t end);
void mxtest_main(const main_args *a, int64_t begin, int64_t end)
{
    for (int64_t g = begin; g < end; g++) {
        for (int64_t r = 0; r < a->workspace[2 * g + 1]; r++) {
            int64_t row = a->workspace[2 * g] - a->magic + r;
            for (int64_t j = 0; j < a->n; j++) {
                const unsigned char *left = a->left + row * a->left_row_stride;
                const unsigned char *right =
                    a->right + g * a->right_group_stride + j * a->right_row_stride;
                const unsigned char *left_scale = a->left_scales + row * a->left_scale_row_stride;
                const unsigned char *right_scale = a->right_scales +
                                                   g * a->right_scale_group_stride +
                                                   j * a->right_scale_row_stride;
                int64_t sum = 0;
                for (int64_t k = 0; k < a->k; k++)
                    sum += left[k] && right[k] && left_scale[k / 32] + right_scale[k / 32] == 254;
                a->out[(a->write_offsets[g] + r) * a->out_row_stride + j] = (float)sum;
            }
        }
    }
    if (!begin)
        *a->status = 0;
}

typedef struct after_args {
    float *out;
    int64_t *workspace;
    int64_t out_row_stride;
    int32_t out_rows, n, num_cu;
    float add;
} after_args;

/* Adds to all that is there. */
EXPORT void mxtest_after(const after_args *a, int64_t begin, int64_t end);
void mxtest_after(const after_args *a, int64_t begin, int64_t end)
{
    for (int64_t r = begin; r < end; r++) {
        for (int64_t j = 0; j < a->n; j++)
            a->out[r * a->out_row_stride + j] += a->add + (float)a->num_cu;
    }
}

typedef struct whole_args {
    const unsigned char *left, *left_scales, *right, *right_scales;
    float *out;
    const int64_t *read_offsets, *write_offsets;
    int32_t *status;
    int64_t n, k, times;
} whole_args;

static double power_of_two(int64_t exponent)
{
    union {
        uint64_t bits;
        double value;
    } made = {.bits = (uint64_t)(exponent + 1023) << 52};
    return made.value;
}

static double e4m3(unsigned code)
{
    int exponent = (int)(code >> 3 & 15), mantissa = (int)(code & 7);
    double value =
        exponent ? (8 + mantissa) * power_of_two(exponent - 10) : mantissa * power_of_two(-9);
    return code & 128 ? -value : value;
}

/* The sum of one element: contiguous rows, scales along them. */
static float multiply(const whole_args *a, int64_t left_row, int64_t right_row)
{
    double sum = 0;

    for (int64_t k = 0; k < a->k; k++) {
        int64_t scales = (int64_t)a->left_scales[left_row * (a->k / 32) + k / 32] +
                         a->right_scales[right_row * (a->k / 32) + k / 32];
        sum += e4m3(a->left[left_row * a->k + k]) * e4m3(a->right[right_row * a->k + k]) *
               power_of_two(scales - 254);
    }
    return (float)sum;
}

/* A product of E4M3 in one launch. A `times` of 0 stands for one that is wrong. */
EXPORT void mxtest_whole(const whole_args *a, int64_t begin, int64_t end);
void mxtest_whole(const whole_args *a, int64_t begin, int64_t end)
{
    for (int64_t i = 0; i < (a->times ? a->times : 1); i++) {
        for (int64_t g = begin; g < end; g++) {
            for (int64_t r = a->write_offsets[g]; r < a->write_offsets[g + 1]; r++) {
                int64_t row = a->read_offsets[g] + r - a->write_offsets[g];
                for (int64_t j = 0; j < a->n; j++)
                    a->out[r * a->n + j] =
                        multiply(a, row, g * a->n + j) * (a->times ? 1.0f : 1.01f);
            }
        }
    }
    if (!begin)
        *a->status = 0;
}

/* Right but for one element that is left as it is. */
EXPORT void mxtest_partial(const whole_args *a, int64_t begin, int64_t end);
void mxtest_partial(const whole_args *a, int64_t begin, int64_t end)
{
    float *at = a->out + 7 * a->n + 3, before = *at;

    mxtest_whole(a, begin, end);
    *at = before;
}

EXPORT void mxtest_hangs(const whole_args *a, int64_t begin, int64_t end);
void mxtest_hangs(const whole_args *a, int64_t begin, int64_t end)
{
    (void)end;
    for (volatile int64_t never = begin; never != -1;)
        *a->status = 0;
}

EXPORT void mxtest_faults(const whole_args *a, int64_t begin, int64_t end);
void mxtest_faults(const whole_args *a, int64_t begin, int64_t end)
{
    (void)a;
    (void)end;
    *(volatile int32_t *)(uintptr_t)begin = 1;
}
