/* Packs: variants grouped into modules of one (target, key), compiled side by side. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <llvm-c/Core.h>

#include "gen/comgr.h"
#include "gen/pack_writer.h"
#include "gen/ptxas.h"
#include "gen/target.h"
#include "mxgen/error.h"
#include "mxgen/pack.h"

#include "mxgen_source_hash.h"

/* A module to be compiled, and then compiled. */
typedef struct job {
    const mxgen_spec *specs;
    size_t n_specs;
    mxgen_output output;
    mxgen_output cubin; /* of NVIDIA's targets, where there is a ptxas; else zeroed */
    mx_status status;
    mx_error error;
} job;

typedef struct queue {
    job *jobs;
    size_t n_jobs, next, done_variants, total_variants;
    bool failed;
    const mxgen_build_options *options;
    pthread_mutex_t mutex;
} queue;

static void job_finish(job *j)
{
    mxgen_output_finish(&j->output);
    mxgen_output_finish(&j->cubin);
}

static size_t count_cubins(const queue *q)
{
    size_t n = 0;
    for (size_t i = 0; i < q->n_jobs; i++)
        n += q->jobs[i].cubin.data != NULL;
    return n;
}

static size_t count_comgr(const queue *q)
{
    size_t n = 0;
    for (size_t i = 0; i < q->n_jobs; i++)
        n += mxgen_comgr_serves(q->options->comgr, q->jobs[i].specs[0].target);
    return n;
}

static bool has_ptxas(const mxgen_build_options *options)
{
    return options->ptxas && options->ptxas->path[0];
}

static mx_status compile_job(const mxgen_build_options *options, job *mine)
{
    mx_status status = mxgen_compile(mine->specs, mine->n_specs, MXGEN_STAGE_OBJECT, options->comgr,
                                     &mine->output, &mine->error);
    if (status == MX_OK && mine->specs[0].target->kind == MXGEN_NVPTX && has_ptxas(options))
        status = mxgen_ptxas_assemble(options->ptxas, mine->specs, mine->n_specs, &mine->output,
                                      &mine->cubin, &mine->error);
    return status;
}

static void *work(void *user)
{
    queue *q = user;
    for (;;) {
        pthread_mutex_lock(&q->mutex);
        job *mine = q->failed || q->next >= q->n_jobs ? NULL : &q->jobs[q->next++];
        pthread_mutex_unlock(&q->mutex);
        if (!mine)
            return NULL;
        mine->status = compile_job(q->options, mine);
        pthread_mutex_lock(&q->mutex);
        q->failed = q->failed || mine->status != MX_OK;
        q->done_variants += mine->n_specs;
        if (q->options->progress)
            q->options->progress(q->options->progress_user, q->done_variants, q->total_variants);
        pthread_mutex_unlock(&q->mutex);
    }
}

static mx_status run_jobs(queue *q, mx_error *err)
{
    enum { MOST_THREADS = 256 };
    pthread_t threads[MOST_THREADS];
    long wanted = q->options->n_threads > 0 ? q->options->n_threads : sysconf(_SC_NPROCESSORS_ONLN);
    size_t n = wanted < 1 ? 1 : wanted > MOST_THREADS ? MOST_THREADS : (size_t)wanted, started = 0;
    if (n > q->n_jobs)
        n = q->n_jobs;
    while (started + 1 < n && !pthread_create(&threads[started], NULL, work, q))
        started++;
    work(q);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < q->n_jobs; i++) {
        if (q->jobs[i].status != MX_OK) {
            if (err)
                *err = q->jobs[i].error;
            return q->jobs[i].status;
        }
    }
    return MX_OK;
}

/* Grouped GEMM: all operands together, since some kernels are the same for all. */
static bool same_module(const mxgen_spec *a, const mxgen_spec *b)
{
    if (a->key.gemm.pass != MXGEN_PASS_NONE)
        return a->target == b->target && a->key.gemm.pass == b->key.gemm.pass &&
               a->key.gemm.exact == b->key.gemm.exact && a->key.dtype == b->key.dtype;
    return a->target == b->target && mxgen_key_equal(&a->key, &b->key);
}

static const char *object_kind(const mxgen_target *target)
{
    static const char *const kinds[] = {MXPACK_KIND_AMDGPU, MXPACK_KIND_PTX, MXPACK_KIND_HOST};
    return kinds[target->kind];
}

static mx_status write_object(mxgen_pack_writer *writer, const job *j, const char *target,
                              const char *kind, const mxgen_output *output, mx_error *err)
{
    int64_t object_id;
    mx_status status = mxgen_pack_writer_object(writer, target, kind, output->data,
                                                output->size_bytes, &object_id, err);
    for (size_t v = 0; v < j->n_specs && status == MX_OK; v++)
        status =
            mxgen_spec_write(&j->specs[v], writer, target, object_id, output->info_json[v], err);
    return status;
}

static mx_status write_job(mxgen_pack_writer *writer, const job *j, mx_error *err)
{
    const mxgen_target *target = j->specs[0].target;
    char ptx_name[32];
    if (!j->cubin.data)
        return write_object(writer, j, target->name, object_kind(target), &j->output, err);
    mxgen_target_ptx_name(target, ptx_name, sizeof(ptx_name));
    mx_status status = write_object(writer, j, target->name, MXPACK_KIND_CUBIN, &j->cubin, err);
    if (status == MX_OK)
        status = write_object(writer, j, ptx_name, MXPACK_KIND_PTX, &j->output, err);
    return status;
}

mx_status mxgen_pack_meta(mxgen_pack_writer *writer, const char *others, mx_error *err)
{
    char compiler[192];
    unsigned major, minor, patch;
    LLVMGetVersion(&major, &minor, &patch);
    snprintf(compiler, sizeof(compiler), "LLVM %u.%u.%u%s", major, minor, patch, others);
    mx_status status =
        mxgen_pack_writer_meta(writer, MXPACK_META_GENERATOR, "mxgen " MX_VERSION_STRING, err);
    if (status == MX_OK)
        status = mxgen_pack_writer_meta(writer, MXPACK_META_GENERATOR_HASH, MXGEN_SOURCE_HASH, err);
    if (status == MX_OK)
        status = mxgen_pack_writer_meta(writer, MXPACK_META_COMPILER, compiler, err);
    return status;
}

static mx_status write_jobs(mxgen_pack_writer *writer, const queue *q, mx_error *err)
{
    char others[128] = "";
    int n = 0;
    if (count_comgr(q))
        n = snprintf(others, sizeof(others), ", comgr %s of LLVM %s", q->options->comgr->interface,
                     q->options->comgr->llvm);
    if (count_cubins(q))
        snprintf(others + n, sizeof(others) - (size_t)n, ", ptxas %s", q->options->ptxas->version);
    mx_status status = mxgen_pack_meta(writer, others, err);
    for (size_t i = 0; i < q->n_jobs && status == MX_OK; i++)
        status = write_job(writer, &q->jobs[i], err);
    return status;
}

static mx_status plan_jobs(queue *q, mxgen_spec **specs, mx_error *err)
{
    const mxgen_build_options *options = q->options;
    for (size_t t = 0; t < options->n_targets; t++) {
        size_t n;
        mx_status status =
            mxgen_enumerate(options->targets[t], &options->filter, &specs[t], &n, err);
        if (status != MX_OK)
            return status;
        job *jobs = realloc(q->jobs, (q->n_jobs + n + 1) * sizeof(*jobs));
        if (!jobs)
            return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu variants", n);
        q->jobs = jobs;
        for (size_t i = 0; i < n; i++) {
            job *last = q->n_jobs ? &q->jobs[q->n_jobs - 1] : NULL;
            if (i > 0 && same_module(last->specs, &specs[t][i]))
                last->n_specs++;
            else
                q->jobs[q->n_jobs++] = (job){.specs = &specs[t][i], .n_specs = 1};
        }
        q->total_variants += n;
    }
    if (q->n_jobs == 0)
        return mx_fail(err, MX_ERR_INVALID,
                       "the selection has no kernels; name at least one target");
    return MX_OK;
}

static mx_status build(const mxgen_build_options *options, mxgen_pack_writer *writer,
                       mxgen_build_stats *stats, mx_error *err)
{
    struct timespec begin, end;
    queue q = {.options = options, .mutex = PTHREAD_MUTEX_INITIALIZER};
    mxgen_spec **specs = calloc(options->n_targets + 1, sizeof(*specs));
    if (!specs)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu targets", options->n_targets);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    mx_status status = plan_jobs(&q, specs, err);
    if (status == MX_OK)
        status = run_jobs(&q, err);
    if (status == MX_OK)
        status = write_jobs(writer, &q, err);
    if (status == MX_OK && options->add)
        status = options->add(options->add_user, writer, err);
    clock_gettime(CLOCK_MONOTONIC, &end);
    size_t n_cubins = count_cubins(&q);
    if (stats)
        *stats = (mxgen_build_stats){
            .n_variants = q.total_variants,
            .n_objects = q.n_jobs + n_cubins,
            .n_cubins = n_cubins,
            .n_comgr = count_comgr(&q),
            .seconds =
                (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec),
        };
    for (size_t i = 0; i < q.n_jobs; i++)
        job_finish(&q.jobs[i]);
    for (size_t t = 0; t < options->n_targets; t++)
        free(specs[t]);
    free(specs);
    free(q.jobs);
    pthread_mutex_destroy(&q.mutex);
    return status;
}

mx_status mxgen_build_pack(const mxgen_build_options *options, const char *path,
                           mxgen_build_stats *stats, mx_error *err)
{
    mxgen_pack_writer *writer = NULL;
    mx_status status = mxgen_pack_writer_create(&writer, err);
    if (status == MX_OK)
        status = build(options, writer, stats, err);
    if (status == MX_OK)
        status = mxgen_pack_writer_save(writer, path, err);
    mxgen_pack_writer_destroy(writer);
    return status;
}

mx_status mxgen_build_pack_memory(const mxgen_build_options *options, void **data,
                                  size_t *size_bytes, mxgen_build_stats *stats, mx_error *err)
{
    mxgen_pack_writer *writer = NULL;
    mx_status status = mxgen_pack_writer_create(&writer, err);
    if (status == MX_OK)
        status = build(options, writer, stats, err);
    if (status == MX_OK)
        status = mxgen_pack_writer_serialize(writer, data, size_bytes, err);
    mxgen_pack_writer_destroy(writer);
    return status;
}
