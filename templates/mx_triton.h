/* Kernels with the interface of the Triton kernels _convert_{to,from}_{mx9,mx6}_kernel: name,
 * argument list and grid, so that Triton's launcher runs them in their place.
 *
 * A program takes 64 blocks with 4 warps; the grid is ceil(n_blocks / 64). Sizes and strides are
 * i32, strides in elements (bytes of packed tensors). Triton makes a kernel for each set of
 * arguments that are 1 when it is called, and leaves these out of the argument list; two pointers
 * to scratch memory, which is not used, end it. What else it specialises on (divisibility by 16) is
 * found out by the kernel itself, so that one serves all. Offsets have 64 bits. */
#ifndef MXGEN_MX_TRITON_H
#define MXGEN_MX_TRITON_H

#include "gen/template.h"

enum { MX_TRITON_WARPS = 4, MX_TRITON_BLOCKS = 64, MX_TRITON_ARGS = 9 };

/* The arguments of the Triton function, in order, without its meta-parameters. */
typedef struct mx_triton_arg {
    const char *name;
    const char *type; /* "*fp32", "*bf16", "*u8", "i32", or "constexpr": is 1, and not passed */
} mx_triton_arg;

void mx_triton_args(const mxgen_spec *spec, mx_triton_arg args[MX_TRITON_ARGS]);

/* All kernels for a GPU: of both formats, both directions, fp32 and bf16, and of every set of arguments
 * that are 1 with tensors as convert_to_mx and convert_from_mx take and make them. Kernels of one (format,
 * direction) have the same symbol. Release with free(). */
mx_status mx_triton_enumerate(const mxgen_target *target, mxgen_spec **specs, size_t *n,
                              mx_error *err);

#endif
