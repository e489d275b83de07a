/* Foreign kernels as rows of a pack. */
#ifndef MXGEN_KERNEL_PACK_H
#define MXGEN_KERNEL_PACK_H

#include "gen/pack_writer.h"
#include "kernel_jobs.h"

typedef struct kernel_pack_stats {
    size_t n_variants; /* machine code and PTX of a kernel count once */
    size_t n_objects;
    size_t n_cubins; /* of the objects, by ptxas */
} kernel_pack_stats;

/* What a file without FILE.json is told on the command line. */
typedef struct kernel_pack_options {
    const mxgen_target *const *targets;
    size_t n_targets;
    int64_t shared_bytes; /* of workgroups, where the code leaves it to the launch */
    size_t n_parallel;
    const mxgen_ptxas *ptxas; /* as mxgen_build_options has it */
} kernel_pack_options;

/* A file's kernels, compiled. */
typedef struct kernel_pack kernel_pack;

/* Compiles every choice that applies for every target. The file must outlive the result. Before
 * LLVM is used in this process: children would inherit its threads' locks, not its threads. */
mx_status kernel_pack_compile(const kernel_file *file, const kernel_pack_options *options,
                              kernel_pack **out, mx_error *err);
/* Adds object and row of each. */
mx_status kernel_pack_write(const kernel_pack *kernels, mxgen_pack_writer *writer,
                            kernel_pack_stats *stats, mx_error *err);
void kernel_pack_destroy(kernel_pack *kernels); /* takes NULL */

/* The IR or assembly of the first choice, for the first target. */
mx_status kernel_pack_show(const kernel_file *file, const kernel_pack_options *options,
                           mxgen_stage stage, mxgen_foreign_output *out, mx_error *err);

#endif
