/* The example of a layer of experts: results against products of its bf16 tensors in double. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "docs/examples/moe_layer.h"

enum { EXPERTS = 5, TOKENS = 165, IN = 96, OUT = 64 };

static const int64_t sizes[EXPERTS] = {40, 0, 1, 96, 28};
static uint16_t x[TOKENS * IN], y[TOKENS * OUT], dx[TOKENS * IN], dy[TOKENS * OUT],
    weights[EXPERTS * OUT * IN];
static float gradients[EXPERTS * OUT * IN];

static mxrt_context *context;
static mxrt_device *device;
static mx_error err;

static void set_up(void)
{
    ck_assert_int_eq(mxrt_context_create(NULL, &context, &err), MX_OK);
    ck_assert_msg(!mxrt_device_open(context, "host?threads=2", &device, &err), "%s", err.message);
}

static void tear_down(void)
{
    mxrt_device_close(device);
    mxrt_context_destroy(context);
}

/* `exact`: numbers that MXFP4 holds whatever the block; else about normal ones. */
static void fill(uint16_t *values, int n, int exact, uint64_t seed)
{
    static const float held[] = {0, 0.5f, 1, 1.5f, 2, 3, -0.5f, -1, -1.5f, -2, -3};
    uint64_t state = seed;

    for (int i = 0; i < n && exact; i++)
        values[i] = mx_case_f32_to_bf16(held[mx_case_random(&state) % 11]);
    if (!exact)
        mx_case_fill(MX_VALUES_NORMAL, seed, MX_DTYPE_BF16, values, n);
}

static double at(const uint16_t *values, int64_t i)
{
    return mx_case_to_f32(MX_DTYPE_BF16, values, i);
}

/* Relative, Frobenius. */
typedef struct distance {
    double off, norm;
} distance;

static void add(distance *d, double got, double wanted)
{
    d->off += (got - wanted) * (got - wanted);
    d->norm += wanted * wanted;
}

static double relative(const distance *d)
{
    return sqrt(d->off / d->norm);
}

static void rows_of(int64_t expert, int64_t first, distance *forward, distance *backward)
{
    const uint16_t *w = weights + expert * OUT * IN;

    for (int64_t t = first; t < first + sizes[expert]; t++) {
        for (int64_t n = 0; n < OUT; n++) {
            double sum = 0;
            for (int64_t k = 0; k < IN; k++)
                sum += at(x, t * IN + k) * at(w, n * IN + k);
            add(forward, at(y, t * OUT + n), sum);
        }
        for (int64_t k = 0; k < IN; k++) {
            double sum = 0;
            for (int64_t n = 0; n < OUT; n++)
                sum += at(dy, t * OUT + n) * at(w, n * IN + k);
            add(backward, at(dx, t * IN + k), sum);
        }
    }
}

/* What was there before is 1. */
static void weights_of(int64_t expert, int64_t first, distance *d)
{
    for (int64_t i = 0; i < OUT * IN; i++) {
        double sum = 1;
        for (int64_t t = first; t < first + sizes[expert]; t++)
            sum += at(dy, t * OUT + i / IN) * at(x, t * IN + i % IN);
        add(d, gradients[expert * OUT * IN + i], sum);
    }
}

static void run(int exact, double most_rows, double most_weights)
{
    const moe_layer layer = {.tokens = TOKENS,
                             .experts = EXPERTS,
                             .in = IN,
                             .out = OUT,
                             .sizes = sizes,
                             .weights = weights,
                             .weight_gradients = gradients};
    distance forward = {0, 0}, backward = {0, 0}, weight = {0, 0};
    moe_saved *saved = NULL;
    int64_t first = 0;

    fill(x, TOKENS * IN, exact, 1);
    fill(dy, TOKENS * OUT, exact, 2);
    fill(weights, EXPERTS * OUT * IN, exact, 3);
    for (int i = 0; i < EXPERTS * OUT * IN; i++)
        gradients[i] = 1;
    ck_assert_msg(!moe_forward(device, &layer, x, y, &saved, &err), "%s", err.message);
    ck_assert_msg(!moe_backward(device, &layer, saved, dy, dx, &err), "%s", err.message);
    moe_saved_destroy(device, saved);
    for (int64_t e = 0; e < EXPERTS; first += sizes[e++]) {
        rows_of(e, first, &forward, &backward);
        weights_of(e, first, &weight);
    }
    ck_assert_msg(relative(&forward) <= most_rows, "y: %g", relative(&forward));
    ck_assert_msg(relative(&backward) <= most_rows, "dx: %g", relative(&backward));
    ck_assert_msg(relative(&weight) <= most_weights, "weight gradients: %g", relative(&weight));
}

/* Only the rounding of y and dx to bf16 is left. */
START_TEST(numbers_that_the_format_holds)
{
    run(1, 2e-3, 0);
}
END_TEST

/* 12 dB, where 8 are wanted. */
START_TEST(normal_numbers)
{
    run(0, 0.25, 0.25);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("moe");
    TCase *tests = tcase_create("moe");

    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, numbers_that_the_format_holds);
    tcase_add_test(tests, normal_numbers);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
