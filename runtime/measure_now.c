#include "runtime/measure_now.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mxgen/error.h>

#include "runtime/context.h"
#include "runtime/tune_file.h"
#include "runtime/tuned.h"

#define SAMPLE_MS 0.05 /* a sample should not be shorter, or the clock shows through */
#define MAX_REPEAT 200
#define MAX_ROUNDS 16
#define PAGE_BYTES 4096
#define WRITE_BUSY_MS 1000

typedef mxrt_trial trial;
typedef mxrt_trial_candidate candidate;

static double now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

/* ---- What is measured ---- */

static int by_model(const void *left, const void *right)
{
    const candidate *a = left, *b = right;

    if (a->is_first != b->is_first)
        return b->is_first - a->is_first;
    return a->score < b->score ? -1 : a->score > b->score;
}

mx_status mxrt_trial_alloc(mxrt_device *device, const mxrt_buffer *like, void **base, void **out,
                           mx_error *err)
{
    size_t bytes = (size_t)like->extent_bytes;
    mx_status status =
        device->ops->alloc(device->backend, bytes + 2 * (size_t)PAGE_BYTES, base, err);

    if (status)
        return status;
    uintptr_t at = (uintptr_t)*base;
    at = (at + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES + (uintptr_t)like->data % PAGE_BYTES;
    *out = (void *)at;
    return MX_OK;
}

/* ---- Running ---- */

static mx_status run_once(void *user, mxrt_stream stream, mx_error *err)
{
    const trial *t = user;

    return t->family->launch(t, t->running, stream, err);
}

/* What a candidate makes of memory that held nothing of its own. */
static mx_status run_for_output(trial *t, const candidate *c, unsigned char *out, mx_error *err)
{
    const mxrt_backend_ops *ops = t->device->ops;
    mx_status status;

    t->running = c->variant;
    if ((status = t->family->upload(t, out, err)) || (status = run_once(t, NULL, err)) ||
        (status = ops->synchronize(t->device->backend, NULL, err)))
        return status;
    return t->family->download(t, out, err);
}

static mx_status count_once(trial *t, double *ms, mx_error *err)
{
    const mxrt_backend_ops *ops = t->device->ops;
    mxrt_counters before, after, counts = {0};
    mx_status status;

    if ((status = ops->synchronize(t->device->backend, NULL, err)) ||
        (status = ops->counters(t->device->backend, &before, err)) ||
        (status = run_once(t, NULL, err)) ||
        (status = ops->synchronize(t->device->backend, NULL, err)) ||
        (status = ops->counters(t->device->backend, &after, err)))
        return status;
    counts.valu = after.valu - before.valu;
    counts.salu = after.salu - before.salu;
    counts.mfma = after.mfma - before.mfma;
    counts.lds = after.lds - before.lds;
    counts.lds_conflicts = after.lds_conflicts - before.lds_conflicts;
    counts.load_trans64 = after.load_trans64 - before.load_trans64;
    counts.store_trans64 = after.store_trans64 - before.store_trans64;
    *ms = mxrt_counters_ms(&counts, t->device->info.compute_units);
    return MX_OK;
}

/* One more sample. *is_late: there was no time for it. */
static mx_status sample(trial *t, candidate *c, double expected_ms, int *is_late, mx_error *err)
{
    const mxrt_backend_ops *ops = t->device->ops;
    double ms = 0;
    mx_status status;

    *is_late = now_ms() + (expected_ms > SAMPLE_MS ? expected_ms : SAMPLE_MS) > t->end_ms;
    if (*is_late)
        return MX_OK;
    t->running = c->variant;
    if (t->counts) {
        if ((status = count_once(t, &ms, err)))
            return status;
        c->ms = ms;
        c->samples = c->repeat = 1;
        return MX_OK;
    }
    if (!c->repeat) {
        if ((status = ops->time(t->device->backend, run_once, t, 1, &ms, err)))
            return status;
        double repeat = ms > 0 ? SAMPLE_MS / ms : MAX_REPEAT;
        c->repeat = repeat > MAX_REPEAT ? MAX_REPEAT : repeat < 1 ? 1 : (int)repeat;
    }
    if ((status = ops->time(t->device->backend, run_once, t, c->repeat, &ms, err)))
        return status;
    c->ms = c->samples && c->ms < ms ? c->ms : ms;
    c->samples++;
    return MX_OK;
}

static int by_time(const void *left, const void *right)
{
    const candidate *a = left, *b = right;

    if (!a->samples != !b->samples)
        return !a->samples - !b->samples;
    return a->ms < b->ms ? -1 : a->ms > b->ms;
}

/* A sample of each, in the model's order; then of the faster half again, until the time is up. */
static mx_status run_rounds(trial *t, mx_error *err)
{
    size_t left = t->n;
    int is_late = 0;
    mx_status status = MX_OK;

    for (int round = 0; round < (t->counts ? 1 : MAX_ROUNDS) && !is_late && left > 1; round++) {
        for (size_t i = 0; i < left && !is_late && !status; i++) {
            candidate *c = &t->candidates[i];
            double expected_ms = round ? c->ms * c->repeat : t->candidates[0].ms;
            status = sample(t, c, expected_ms, &is_late, err);
        }
        if (status)
            return status;
        qsort(t->candidates, t->n, sizeof(*t->candidates), by_time);
        left = left > 4 ? left / 2 : left > 2 ? 2 : left;
    }
    return MX_OK;
}

/* ---- What is found ---- */

static void keep_row(trial *t, const candidate *c, mxrt_tune_file *file)
{
    mx_error reason = {MX_OK, ""};
    mxrt_tune_row row;

    t->family->key(t, c->variant, &row);
    if (!t->counts)
        row.protocol = MXTUNE_PROTOCOL_NOW;
    row.ms = c->ms;
    row.samples = c->samples;
    row.time_s = (int64_t)time(NULL);
    if (mxrt_tune_put(file, &row, 0, NULL, &reason) && mxrt_tuned_is_news(t->device, 0))
        mxrt_context_log(t->device->context, "a measurement is not kept: %s", reason.message);
}

/* A damaged file is moved aside. */
static void keep(trial *t, const candidate *best, const candidate *models)
{
    mxrt_context *context = t->device->context;
    mxrt_tune_file *file = NULL;
    mx_error reason = {MX_OK, ""};

    if (!context->tune_file[0])
        return;
    mx_status status =
        mxrt_tune_open_within(context->tune_file, MXRT_TUNE_WRITE, WRITE_BUSY_MS, &file, &reason);
    if (status == MX_ERR_CORRUPT && !mxrt_tune_move_aside(context->tune_file, NULL)) {
        mxrt_context_log(context, "%s; it is moved aside", reason.message);
        status = mxrt_tune_open_within(context->tune_file, MXRT_TUNE_WRITE, WRITE_BUSY_MS, &file,
                                       &reason);
    }
    if (!status) {
        keep_row(t, best, file);
        if (models != best)
            keep_row(t, models, file);
    } else if (mxrt_tuned_is_news(t->device, 0)) {
        mxrt_context_log(context, "measurements are not kept: %s", reason.message);
    }
    mxrt_tune_close(file);
}

static mx_status remember(trial *t, const candidate *best, const candidate *models, mx_error *err)
{
    mxrt_tuned *made = calloc(1, sizeof(*made));
    const candidate *found[2] = {best, models};

    if (!made || !(made->rows = calloc(2, sizeof(*made->rows)))) {
        free(made);
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for what was found");
    }
    for (made->n = 0; made->n < (best == models ? 1 : 2); made->n++) {
        const candidate *c = found[made->n];
        made->rows[made->n] =
            (mxrt_tuned_row){.bucket = t->bucket,
                             .variant = c->variant,
                             .protocol = t->counts ? MXTUNE_PROTOCOL_COUNTS : MXTUNE_PROTOCOL_NOW,
                             .ms = c->ms,
                             .bytes = t->bytes};
    }
    made->next = atomic_load(t->tuned);
    atomic_store_explicit(t->tuned, made, memory_order_release);
    if (t->family->changed)
        t->family->changed(t);
    return MX_OK;
}

/* The fastest whose output is that of the model's choice, which the packs' maker trusts most. */
static mx_status find_best(trial *t, uint32_t trusted, const candidate **best,
                           const candidate **models, mx_error *err)
{
    *best = *models = NULL;
    for (size_t i = 0; i < t->n && t->candidates[i].samples; i++) {
        if (t->candidates[i].variant == trusted)
            *models = &t->candidates[i];
    }
    for (size_t i = 0; *models && i < t->n && !*best; i++) {
        const candidate *c = &t->candidates[i];
        mx_status status = MX_OK;
        if (c != *models && (status = run_for_output(t, c, t->found, err)))
            return status;
        if (c == *models || t->family->is_same(t))
            *best = c;
        else
            mxrt_context_log(t->device->context, "%s is not used: it computes other values than %s",
                             t->family->name(t, c->variant), t->family->name(t, trusted));
    }
    return MX_OK;
}

static mx_status measure(trial *t, mx_error *err)
{
    const candidate *best, *models;
    double begin_ms = now_ms();
    mx_status status;

    if ((status = t->family->list(t, err)) || t->n < 2)
        return status; /* without a choice there is nothing to find */
    qsort(t->candidates, t->n, sizeof(*t->candidates), by_model);
    if ((status = t->device->ops->synchronize(t->device->backend, t->stream, err)) ||
        (status = t->family->prepare(t, err)))
        return status;
    uint32_t trusted = t->candidates[0].variant;
    double ready_ms = now_ms();
    if (ready_ms - begin_ms < t->budget_us / 1e3 &&
        (status = run_for_output(t, &t->candidates[0], t->expected, err)))
        return status;
    /* The one that wins is checked as long again. */
    t->end_ms = begin_ms + t->budget_us / 1e3 - (now_ms() - ready_ms);
    if ((status = run_rounds(t, err)) || (status = find_best(t, trusted, &best, &models, err)))
        return status;
    if (!best || !t->candidates[1].samples)
        return mx_fail(err, MX_ERR_UNSUPPORTED,
                       "a budget of %.0f us is not enough for a problem of %lld bytes",
                       t->budget_us, (long long)t->bytes);
    if ((status = remember(t, best, models, err)))
        return status;
    keep(t, best, models);
    return MX_OK;
}

static void measure_if_unknown(trial *t)
{
    mx_error reason = {MX_OK, ""};

    if (t->family->is_known(t))
        return; /* by now */
    if (measure(t, &reason))
        mxrt_context_log(t->device->context, "%s: %s is not measured: %s", t->device->info.uri,
                         t->what, reason.message);
    t->family->finish(t);
    free(t->expected);
    free(t->found);
    free(t->candidates);
}

void mxrt_trial_run(trial *t)
{
    mxrt_device *device = t->device;
    const mxrt_backend_ops *ops = device->ops;

    if (ops == &mxrt_backend_plan || t->family->is_known(t))
        return;
    if (ops->capturing &&
        (ops->capturing(device->backend, t->stream) || ops->capturing(device->backend, NULL)))
        return;
    t->counts = mxrt_tuned_counts(device);
    pthread_mutex_lock(&device->measure_lock);
    measure_if_unknown(t);
    pthread_mutex_unlock(&device->measure_lock);
}
