/* Writes a pack of the kernels for hosts with vectors of 16 lanes, but in instructions that hosts
 * with 8 have: what templates do differently for 16 lanes is then tested everywhere.
 *
 *   wide_host_pack FILE [gemm] */
#include <stdio.h>
#include <string.h>

#include "gen/target.h"

int main(int argc, char **argv)
{
    const mxgen_target *narrow = mxgen_target_find("host-x86-64-v3");
    const mxgen_target *wide = mxgen_target_find("host-x86-64-v4");
    mx_error error = {MX_OK, ""};
    bool gemm = argc == 3 && !strcmp(argv[2], "gemm");
    if ((argc != 2 && !gemm) || !narrow || !wide) {
        fprintf(stderr, "usage: wide_host_pack FILE [gemm]\n");
        return 1;
    }
    mxgen_target target = *wide;
    target.name = narrow->name;
    target.cpu = narrow->cpu;
    target.features = narrow->features;
    target.caps &= ~(unsigned)MXGEN_CAP_PERMUTE; /* of sixteen items, which AVX2 lacks */
    const mxgen_target *targets = &target;
    /* One format of each kind: lanes are the same to all. */
    const mx_format formats[] = {MX_FORMAT_MX9, MX_FORMAT_MX6, MX_FORMAT_MXFP6_E3M2};
    mxgen_filter filter = {.formats = formats,
                           .n_formats = sizeof(formats) / sizeof(formats[0]),
                           .max_rank = 1,
                           .families = MXGEN_FAMILY_BLOCKS};
    const mx_format operand = MX_FORMAT_MXFP4;
    const mx_dtype result = MX_DTYPE_BF16;
    if (gemm)
        filter = (mxgen_filter){.formats = &operand,
                                .n_formats = 1,
                                .dtypes = &result,
                                .n_dtypes = 1,
                                .max_rank = 1,
                                .families = MXGEN_FAMILY_GEMM};
    mxgen_build_options options = {.targets = &targets, .n_targets = 1, .filter = filter};
    if (mxgen_build_pack(&options, argv[1], NULL, &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    return 0;
}
