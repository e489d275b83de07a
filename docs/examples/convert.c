/* Packs a matrix to MX9 and unpacks it again: the whole of libmxrt that most programs need.
 *
 *   cc convert.c $(pkg-config --cflags --libs libmxrt) -lm -o convert
 *   ./convert                 with the plain C reference
 *   ./convert kernels.mxdb    with the kernels of a pack that `mxgen build` made
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <mxgen/rt.h>

enum {
    ROWS = 64,
    COLUMNS = 1000
}; /* 1000 is no multiple of 16: the last block of a row is ragged */

/* A tensor is a description of memory that stays ours. NULL strides mean row-major. */
static DLTensor make_tensor(void *data, DLDevice device, uint8_t type, uint8_t bits,
                            int64_t shape[2])
{
    DLTensor tensor = {
        .data = data,
        .device = device,
        .ndim = 2,
        .dtype = {.code = type, .bits = bits, .lanes = 1},
        .shape = shape,
    };
    return tensor;
}

/* Converts x to blocks and back; the blocks lie along the last axis, -1. */
static mx_status convert(mxrt_device *device, float *x, float *y, mx_error *err)
{
    int64_t shape[2] = {ROWS, COLUMNS}, packed_shape[2];
    mx_status status =
        mxrt_packed_shape(MX_FORMAT_MX9, 2, shape, -1, &packed_shape[0], &packed_shape[1], err);
    if (status != MX_OK)
        return status;
    printf("%d floats, %d bytes -> %d blocks, %d bytes\n", ROWS * COLUMNS, ROWS * COLUMNS * 4,
           (int)packed_shape[0], (int)(packed_shape[0] * packed_shape[1]));

    mxrt_device_info info;
    status = mxrt_device_get_info(device, &info, err);
    if (status != MX_OK)
        return status;
    void *packed = malloc((size_t)(packed_shape[0] * packed_shape[1]));
    if (!packed)
        return MX_ERR_NO_MEMORY;
    DLTensor x_tensor = make_tensor(x, info.dl_device, kDLFloat, 32, shape);
    DLTensor y_tensor = make_tensor(y, info.dl_device, kDLFloat, 32, shape);
    DLTensor packed_tensor = make_tensor(packed, info.dl_device, kDLUInt, 8, packed_shape);

    status = mxrt_convert_to(device, MX_FORMAT_MX9, -1, &x_tensor, &packed_tensor, NULL, err);
    if (status == MX_OK)
        status = mxrt_convert_from(device, MX_FORMAT_MX9, -1, &packed_tensor, &y_tensor, NULL, err);
    free(packed);
    return status;
}

int main(int argc, char **argv)
{
    static float x[ROWS * COLUMNS], y[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; i++)
        x[i] = sinf((float)i) * (float)(1 + i % 7);

    mx_error err = {.message = "out of memory"};
    mxrt_context *context = NULL;
    mxrt_device *device = NULL;
    mx_status status = mxrt_context_create(NULL, &context, &err);
    if (status == MX_OK && argc > 1)
        status = mxrt_context_add_pack_file(context, argv[1], &err);
    if (status == MX_OK)
        status = mxrt_device_open(context, "host", &device, &err);
    if (status == MX_OK)
        status = convert(device, x, y, &err);
    if (status != MX_OK)
        fprintf(stderr, "convert: %s\n", err.message);
    mxrt_device_close(device); /* both take NULL */
    mxrt_context_destroy(context);
    if (status != MX_OK)
        return 1;

    double signal = 0, noise = 0;
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        signal += (double)x[i] * x[i];
        noise += ((double)x[i] - y[i]) * ((double)x[i] - y[i]);
    }
    printf("signal to noise: %.1f dB\n", 10 * log10(signal / noise));
    return 0;
}
