#include "kernel_pack.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>
#include <mxgen/pack.h>

#include "gen/target.h"
#include "kernel_launch.h"

/* One choice for one target. */
typedef struct variant {
    const mxgen_target *target;
    kernel_choice choice;
    kernel_launch launch;
    char *text; /* with parameters replaced; NULL: the file's */
} variant;

struct kernel_pack {
    const kernel_file *file;
    const kernel_pack_options *options;
    variant *variants;
    kernel_job *jobs; /* as many */
    size_t n;
};

static mx_status fail_memory(mx_error *err)
{
    return mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
}

/* ---- Work ---- */

static mx_status check_shared(const kernel_pack *w, const variant *v, bool is_given, mx_error *err)
{
    const mxgen_target *target = v->target;
    int most =
        target->lds_large_bytes > target->lds_bytes ? target->lds_large_bytes : target->lds_bytes;
    if (target->kind == MXGEN_HOST || v->launch.shared_bytes <= most)
        return MX_OK;
    return mx_fail(err, MX_ERR_INVALID, "%s: %lld bytes of shared memory; a workgroup of %s has %d",
                   is_given ? "--lds" : w->file->json_path, (long long)v->launch.shared_bytes,
                   target->name, most);
}

static mx_status ready(kernel_pack *w, size_t index, mxgen_stage stage, mx_error *err)
{
    variant *v = &w->variants[index];
    kernel_job *job = &w->jobs[index];
    mx_status status = kernel_launch_read(w->file, &v->choice, &v->launch, err);
    if (status == MX_OK && w->file->language != KERNEL_BITCODE)
        status = kernel_file_substitute(w->file, &v->choice, w->file->path, w->file->text, &v->text,
                                        err);
    if (status != MX_OK)
        return status;
    int64_t shared = w->options->shared_bytes;
    if (shared && v->launch.shared_bytes)
        return mx_fail(err, MX_ERR_INVALID, "--lds: %s has \"lds_bytes\"", w->file->json_path);
    v->launch.shared_bytes += shared;
    if ((status = check_shared(w, v, shared != 0, err)) != MX_OK)
        return status;
    job->input = (mxgen_foreign_input){
        .target = v->target,
        .label = w->file->path,
        .data = v->text ? v->text : w->file->text,
        .size_bytes = v->text ? strlen(v->text) : w->file->text_bytes,
        .symbol = v->launch.symbol,
        .shared_bytes = v->launch.shared_bytes,
        .ptxas = w->options->ptxas,
    };
    if (v->target->kind != MXGEN_HOST)
        memcpy(job->input.block, v->launch.block_size, sizeof(job->input.block));
    job->language = w->file->language;
    job->stage = stage;
    return MX_OK;
}

static mx_status add_target(kernel_pack *w, const mxgen_target *target, size_t most,
                            mxgen_stage stage, mx_error *err)
{
    kernel_choice *choices = NULL;
    size_t n = 0;
    if (kernel_file_excludes(w->file, target))
        return MX_OK;
    mx_status status = kernel_file_choices(w->file, target, &choices, &n, err);
    n = n < most ? n : most;
    variant *variants = realloc(w->variants, (w->n + n + 1) * sizeof(*variants));
    if (variants)
        w->variants = variants;
    kernel_job *jobs = realloc(w->jobs, (w->n + n + 1) * sizeof(*jobs));
    if (jobs)
        w->jobs = jobs;
    if (status == MX_OK && (!variants || !jobs))
        status = fail_memory(err);
    for (size_t i = 0; i < n && status == MX_OK; i++) {
        variants[w->n] = (variant){.target = target, .choice = choices[i]};
        jobs[w->n] = (kernel_job){.language = w->file->language};
        w->n++;
        status = ready(w, w->n - 1, stage, err);
    }
    free(choices);
    return status;
}

static mx_status prepare(kernel_pack *w, size_t most, mxgen_stage stage, mx_error *err)
{
    mx_status status = MX_OK;
    for (size_t i = 0; i < w->options->n_targets && status == MX_OK; i++)
        status = add_target(w, w->options->targets[i], most, stage, err);
    if (status == MX_OK && !w->n)
        return mx_fail(err, MX_ERR_INVALID, "%s: \"targets\" has none of those that were asked for",
                       w->file->json_path);
    return status;
}

static void work_finish(kernel_pack *w)
{
    for (size_t i = 0; i < w->n; i++) {
        kernel_launch_finish(&w->variants[i].launch);
        mxgen_foreign_output_finish(&w->jobs[i].output);
        free(w->variants[i].text);
    }
    free(w->variants);
    free(w->jobs);
}

/* ---- Rows ---- */

/* "softmax_THREADS_256": letters, digits and what names may have. */
static char *variant_name(const kernel_file *file, const kernel_choice *choice, const char *kernel)
{
    char *name = NULL;
    size_t size_bytes;
    FILE *stream = open_memstream(&name, &size_bytes);
    if (!stream)
        return NULL;
    fputs(kernel, stream);
    for (size_t i = 0; i < file->n_params; i++)
        fprintf(stream, "_%s_%s", file->params[i].name, file->params[i].values[choice->values[i]]);
    if (fclose(stream))
        return NULL;
    for (char *c = name; *c; c++)
        *c = isgraph((unsigned char)*c) && (unsigned char)*c < 128 ? *c : '_';
    return name;
}

/* An object of a pack that has the kernels of one variant. */
typedef struct object_form {
    const char *target, *kind, *info_key;
    const void *data;
    size_t size_bytes;
    int64_t id, rank;
} object_form;

static mx_status add_row(const kernel_pack *w, const variant *v, const json_t *compiled,
                         const object_form *form, mxgen_pack_writer *writer, mx_error *err)
{
    const json_t *info_json = json_object_get(compiled, form->info_key);
    const char *symbol = json_string_value(json_object_get(compiled, "symbol"));
    const char *kernel = json_string_value(json_object_get(w->file->json, "kernel"));
    json_t *params_json = kernel_file_params(w->file, &v->choice);
    char *name = variant_name(w->file, &v->choice, kernel ? kernel : symbol), *launch = NULL;
    char *params = json_dumps(params_json, JSON_COMPACT);
    char *rules = json_dumps(v->launch.rules, JSON_COMPACT);
    char *info = json_dumps(info_json, JSON_COMPACT);
    mx_status status = name && params && rules && info ? MX_OK : fail_memory(err);
    if (status == MX_OK && json_is_true(json_object_get(compiled, "is_wrapped")))
        status =
            mx_fail(err, MX_ERR_UNSUPPORTED,
                    "%s: @%s is a kernel of the host as mxgen shows it, which can be shown but "
                    "not packed: its arguments are not told apart",
                    w->file->path, symbol);
    if (status == MX_OK)
        status = kernel_launch_json(w->file, &v->launch, compiled, info_json, &launch, err);
    const mxgen_pack_kernel row = {
        .object_id = form->id,
        .target = form->target,
        .kernel = kernel ? kernel : symbol,
        .name = name,
        .symbol = symbol,
        .rank = form->rank,
        .params_json = params,
        .rules_json = rules,
        .launch_json = launch,
        .info_json = info,
    };
    if (status == MX_OK)
        status = mxgen_pack_writer_kernel(writer, &row, err);
    json_decref(params_json);
    free(name);
    free(params);
    free(rules);
    free(info);
    free(launch);
    return status;
}

static const char *object_kind(const mxgen_target *target)
{
    static const char *const kinds[] = {MXPACK_KIND_AMDGPU, MXPACK_KIND_PTX, MXPACK_KIND_HOST};
    return kinds[target->kind];
}

/* The place among the variants of its target: by cost, then in order of the parameters' values. */
static int64_t rank_of(const kernel_pack *w, size_t index)
{
    const variant *mine = &w->variants[index];
    int64_t rank = 0;
    for (size_t i = 0; i < w->n; i++) {
        const variant *v = &w->variants[i];
        rank += v->target == mine->target && (v->launch.cost < mine->launch.cost ||
                                              (v->launch.cost == mine->launch.cost && i < index));
    }
    return rank;
}

static mx_status add_form(const kernel_pack *w, const variant *v, const json_t *kernels,
                          object_form *form, mxgen_pack_writer *writer, kernel_pack_stats *stats,
                          mx_error *err)
{
    mx_status status = mxgen_pack_writer_object(writer, form->target, form->kind, form->data,
                                                form->size_bytes, &form->id, err);
    for (size_t i = 0; i < json_array_size(kernels) && status == MX_OK; i++)
        status = add_row(w, v, json_array_get(kernels, i), form, writer, err);
    stats->n_objects += status == MX_OK;
    return status;
}

/* NVIDIA's machine code goes under the target's name, its PTX beside it. */
static mx_status add_object(const kernel_pack *w, size_t index, mxgen_pack_writer *writer,
                            kernel_pack_stats *stats, mx_error *err)
{
    const variant *v = &w->variants[index];
    const mxgen_foreign_output *output = &w->jobs[index].output;
    json_t *kernels = json_loads(output->kernels_json, 0, NULL);
    char ptx_name[32];
    object_form form = {.target = v->target->name,
                        .kind = object_kind(v->target),
                        .info_key = "info",
                        .data = output->data,
                        .size_bytes = output->size_bytes,
                        .rank = rank_of(w, index)};
    object_form cubin = {.target = v->target->name,
                         .kind = MXPACK_KIND_CUBIN,
                         .info_key = "cubin_info",
                         .data = output->cubin,
                         .size_bytes = output->cubin_bytes,
                         .rank = form.rank};
    mx_status status = MX_OK;
    if (output->cubin) {
        status = add_form(w, v, kernels, &cubin, writer, stats, err);
        stats->n_cubins += status == MX_OK;
        mxgen_target_ptx_name(v->target, ptx_name, sizeof(ptx_name));
        form.target = ptx_name;
    }
    if (status == MX_OK)
        status = add_form(w, v, kernels, &form, writer, stats, err);
    if (status == MX_OK)
        stats->n_variants += json_array_size(kernels);
    json_decref(kernels);
    return status;
}

mx_status kernel_pack_compile(const kernel_file *file, const kernel_pack_options *options,
                              kernel_pack **out, mx_error *err)
{
    kernel_pack *w = calloc(1, sizeof(*w));
    if (!w)
        return fail_memory(err);
    w->file = file;
    w->options = options;
    mx_status status = prepare(w, SIZE_MAX / sizeof(variant) / 2, MXGEN_STAGE_OBJECT, err);
    if (status == MX_OK)
        status = kernel_jobs_run(w->jobs, w->n, options->n_parallel, err);
    if (status == MX_OK)
        *out = w;
    else
        kernel_pack_destroy(w);
    return status;
}

mx_status kernel_pack_write(const kernel_pack *w, mxgen_pack_writer *writer,
                            kernel_pack_stats *stats, mx_error *err)
{
    mx_status status = MX_OK;
    for (size_t i = 0; i < w->n && status == MX_OK; i++)
        status = add_object(w, i, writer, stats, err);
    return status;
}

void kernel_pack_destroy(kernel_pack *w)
{
    if (w)
        work_finish(w);
    free(w);
}

mx_status kernel_pack_show(const kernel_file *file, const kernel_pack_options *options,
                           mxgen_stage stage, mxgen_foreign_output *out, mx_error *err)
{
    kernel_pack w = {.file = file, .options = options};
    mx_status status = prepare(&w, 1, stage, err);
    if (status == MX_OK)
        status = kernel_jobs_run(w.jobs, 1, 1, err);
    if (status == MX_OK) {
        *out = w.jobs[0].output;
        w.jobs[0].output = (mxgen_foreign_output){0};
    }
    work_finish(&w);
    return status;
}
