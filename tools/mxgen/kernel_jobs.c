#include "kernel_jobs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <llvm-c/ErrorHandling.h>

#include <mxgen/error.h>

#include "gen/mlir.h"

/* What a child leaves in the file; the output's three parts follow. */
typedef struct job_record {
    mx_error error;
    size_t data_bytes, cubin_bytes, json_bytes;
} job_record;

/* ---- The child ---- */

static int result_fd;
static const char *result_label;

static void write_all(const void *data, size_t size_bytes)
{
    const char *at = data;
    while (size_bytes > 0) {
        ssize_t n = write(result_fd, at, size_bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            _exit(2);
        at += n;
        size_bytes -= (size_t)n;
    }
}

/* LLVM's last words; it would abort. */
static void on_fatal_error(const char *reason)
{
    job_record record = {{MX_OK, ""}, 0, 0, 0};
    mx_fail(&record.error, MX_ERR_INVALID, "%s: LLVM gives up: %s", result_label, reason);
    write_all(&record, sizeof(record));
    _exit(0);
}

static mx_status compile(const kernel_job *job, mxgen_foreign_output *output, mx_error *err)
{
    mxgen_foreign_input input = job->input;
    int64_t threads = input.block[0] * input.block[1] * input.block[2];
    void *bitcode = NULL;
    if (job->language != KERNEL_MLIR)
        return mxgen_foreign_compile(&input, job->stage, output, err);
    mx_status status = mxgen_mlir_lower(input.target, threads, input.label, input.data,
                                        input.size_bytes, &bitcode, &input.size_bytes, err);
    input.data = bitcode;
    if (status == MX_OK)
        status = mxgen_foreign_compile(&input, job->stage, output, err);
    free(bitcode);
    return status;
}

static void run_child(const kernel_job *job)
{
    job_record record = {{MX_OK, ""}, 0, 0, 0};
    mxgen_foreign_output output = {0};
    result_fd = job->fd;
    result_label = job->input.label;
    LLVMInstallFatalErrorHandler(on_fatal_error);
    record.error.status = compile(job, &output, &record.error);
    record.data_bytes = output.size_bytes;
    record.cubin_bytes = output.cubin_bytes;
    record.json_bytes = output.kernels_json ? strlen(output.kernels_json) : 0;
    write_all(&record, sizeof(record));
    write_all(output.data, record.data_bytes);
    write_all(output.cubin, record.cubin_bytes);
    write_all(output.kernels_json, record.json_bytes);
    _exit(0);
}

/* ---- The parent ---- */

static mx_status start(kernel_job *job, mx_error *err)
{
    job->fd = memfd_create("mxgen-job", MFD_CLOEXEC);
    if (job->fd < 0)
        return mx_fail(err, MX_ERR_IO, "cannot make a file in memory: %s", strerror(errno));
    fflush(NULL);
    job->pid = fork();
    if (job->pid == 0)
        run_child(job);
    if (job->pid > 0)
        return MX_OK;
    close(job->fd);
    return mx_fail(err, MX_ERR_IO, "cannot start a process: %s", strerror(errno));
}

static void *read_part(int fd, size_t size_bytes, size_t *offset)
{
    char *data = malloc(size_bytes + 1);
    if (data && pread(fd, data, size_bytes, (off_t)*offset) != (ssize_t)size_bytes) {
        free(data);
        data = NULL;
    }
    if (data)
        data[size_bytes] = 0;
    *offset += size_bytes;
    return data;
}

static mx_status read_result(kernel_job *job, mx_error *err)
{
    job_record record;
    size_t offset = sizeof(record);
    if (pread(job->fd, &record, sizeof(record), 0) != (ssize_t)sizeof(record))
        return mx_fail(err, MX_ERR_INTERNAL, "%s: its compilation left no result",
                       job->input.label);
    if (record.error.status != MX_OK)
        return mx_fail(err, record.error.status, "%s", record.error.message);
    job->output.data = read_part(job->fd, record.data_bytes, &offset);
    job->output.size_bytes = record.data_bytes;
    if (record.cubin_bytes)
        job->output.cubin = read_part(job->fd, record.cubin_bytes, &offset);
    job->output.cubin_bytes = record.cubin_bytes;
    job->output.kernels_json = read_part(job->fd, record.json_bytes, &offset);
    if (!job->output.data || !job->output.kernels_json ||
        (record.cubin_bytes && !job->output.cubin))
        return mx_fail(err, MX_ERR_NO_MEMORY, "%s: no memory for its code", job->input.label);
    return MX_OK;
}

static mx_status wait_for(kernel_job *job, mx_error *err)
{
    int how = 0;
    pid_t ended;
    do {
        ended = waitpid(job->pid, &how, 0);
    } while (ended < 0 && errno == EINTR);
    mx_status status;
    if (ended < 0)
        status = mx_fail(err, MX_ERR_IO, "cannot wait for a process: %s", strerror(errno));
    else if (WIFSIGNALED(how))
        status =
            mx_fail(err, MX_ERR_INVALID,
                    "%s: LLVM was ended by signal %d (%s) when it compiled this for %s: the IR "
                    "has what it cannot handle",
                    job->input.label, WTERMSIG(how), strsignal(WTERMSIG(how)),
                    mxgen_target_name(job->input.target));
    else
        status = read_result(job, err);
    close(job->fd);
    return status;
}

mx_status kernel_jobs_run(kernel_job *jobs, size_t n_jobs, size_t n_parallel, mx_error *err)
{
    size_t started = 0;
    mx_status status = MX_OK;
    for (size_t i = 0; i < n_jobs; i++) {
        for (; status == MX_OK && started < n_jobs && started - i < n_parallel; started++) {
            if ((status = start(&jobs[started], err)) != MX_OK)
                break;
        }
        if (i >= started)
            break;
        /* After a failure the rest of those that run are waited for, and what they say is dropped.
         */
        mx_status mine = wait_for(&jobs[i], status == MX_OK ? err : NULL);
        status = status == MX_OK ? mine : status;
    }
    return status;
}
