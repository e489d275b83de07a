/* Compilations of foreign kernels, each in a child process: LLVM may end the process that it is in.
 */
#ifndef MXGEN_KERNEL_JOBS_H
#define MXGEN_KERNEL_JOBS_H

#include "gen/foreign.h"
#include "kernel_file.h"

typedef struct kernel_job {
    mxgen_foreign_input input; /* label, symbol and data are the caller's */
    kernel_language language;
    mxgen_stage stage;
    mxgen_foreign_output output; /* of a job that succeeded */
    int fd;                      /* the result's file, while it runs */
    int pid;
} kernel_job;

/* Runs all, `n_parallel` at a time; the first that fails, in order, is the error. Outputs of jobs
 * before it are there. No other thread may run. */
mx_status kernel_jobs_run(kernel_job *jobs, size_t n_jobs, size_t n_parallel, mx_error *err);

#endif
