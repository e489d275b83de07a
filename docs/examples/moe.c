/* A linear layer of a mixture of experts in MXFP4, forward and backward, from bf16 tensors.
 *
 *   cc moe.c moe_layer.c $(pkg-config --cflags --libs libmxrt) -lm -o moe
 *   ./moe                           on the host
 *   ./moe cuda:0 kernels.mxdb       on a GPU, with the kernels of a pack
 *
 * Prints how far the results are from products of the bf16 tensors in double, in dB. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "moe_layer.h"

enum { EXPERTS = 4, TOKENS = 200, IN = 128, OUT = 96 };

static const int64_t sizes[EXPERTS] = {70, 0, 33, 97};
static uint16_t x[TOKENS * IN], y[TOKENS * OUT], dx[TOKENS * IN], dy[TOKENS * OUT],
    weights[EXPERTS * OUT * IN];
static float weight_gradients[EXPERTS * OUT * IN];

/* bf16 is the upper half of a float. */
static double widen(uint16_t bits)
{
    uint32_t word = (uint32_t)bits << 16;
    float value;

    memcpy(&value, &word, sizeof(value));
    return value;
}

/* About normal: sums of uniform numbers. */
static void fill(uint16_t *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float value = -6;
        uint32_t word;
        for (int k = 0; k < 12; k++)
            value += (float)rand() / (float)RAND_MAX;
        memcpy(&word, &value, sizeof(word));
        values[i] = (uint16_t)(word >> 16);
    }
}

/* Signal to noise, from sums of squares. */
static void print_noise(const char *name, double signal, double noise)
{
    printf("%-17s %.1f dB\n", name, 10 * log10(signal / noise));
}

static int64_t expert_of(int64_t token)
{
    int64_t e = 0;

    for (; token >= sizes[e]; e++)
        token -= sizes[e];
    return e;
}

static void compare_rows(void)
{
    double signal[2] = {0, 0}, noise[2] = {0, 0};

    for (int64_t t = 0; t < TOKENS; t++) {
        const uint16_t *w = weights + expert_of(t) * OUT * IN;
        for (int64_t n = 0; n < OUT; n++) {
            double sum = 0;
            for (int64_t k = 0; k < IN; k++)
                sum += widen(x[t * IN + k]) * widen(w[n * IN + k]);
            signal[0] += sum * sum;
            noise[0] += pow(widen(y[t * OUT + n]) - sum, 2);
        }
        for (int64_t k = 0; k < IN; k++) {
            double sum = 0;
            for (int64_t n = 0; n < OUT; n++)
                sum += widen(dy[t * OUT + n]) * widen(w[n * IN + k]);
            signal[1] += sum * sum;
            noise[1] += pow(widen(dx[t * IN + k]) - sum, 2);
        }
    }
    print_noise("y", signal[0], noise[0]);
    print_noise("dx", signal[1], noise[1]);
}

static void compare_weight_gradients(void)
{
    double signal = 0, noise = 0;
    int64_t first = 0;

    for (int64_t e = 0; e < EXPERTS; first += sizes[e++]) {
        for (int64_t i = 0; i < OUT * IN; i++) {
            double sum = 0;
            for (int64_t t = first; t < first + sizes[e]; t++)
                sum += widen(dy[t * OUT + i / IN]) * widen(x[t * IN + i % IN]);
            signal += sum * sum;
            noise += pow(weight_gradients[e * OUT * IN + i] - sum, 2);
        }
    }
    print_noise("weight gradients", signal, noise);
}

int main(int argc, char **argv)
{
    const moe_layer layer = {.tokens = TOKENS,
                             .experts = EXPERTS,
                             .in = IN,
                             .out = OUT,
                             .sizes = sizes,
                             .weights = weights,
                             .weight_gradients = weight_gradients};
    mxrt_context *context = NULL;
    mxrt_device *device = NULL;
    moe_saved *saved = NULL;
    mx_error err = {MX_OK, ""};
    mx_status status = mxrt_context_create(NULL, &context, &err);

    fill(x, TOKENS * IN);
    fill(dy, TOKENS * OUT);
    fill(weights, EXPERTS * OUT * IN);
    if (!status && argc > 2)
        status = mxrt_context_add_pack_file(context, argv[2], &err);
    if (!status)
        status = mxrt_device_open(context, argc > 1 ? argv[1] : "host", &device, &err);
    if (!status)
        status = moe_forward(device, &layer, x, y, &saved, &err);
    if (!status)
        status = moe_backward(device, &layer, saved, dy, dx, &err);
    if (status) {
        fprintf(stderr, "moe: %s\n", err.message);
    } else {
        compare_rows();
        compare_weight_gradients();
    }
    moe_saved_destroy(device, saved);
    mxrt_device_close(device);
    mxrt_context_destroy(context);
    return status != MX_OK;
}
