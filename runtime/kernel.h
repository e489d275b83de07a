/* Kernels of a device that were found by name. */
#ifndef MXRT_KERNEL_H
#define MXRT_KERNEL_H

#include <mxgen/kernel.h>

/* Releases a device's list; takes NULL. Modules stay with the device. */
void mxrt_kernels_destroy(mxrt_kernel *first);

#endif
