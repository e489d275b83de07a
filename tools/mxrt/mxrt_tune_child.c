#include "mxrt_counts.h"
#include "mxrt_tune.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mxgen/error.h>

enum { FINALISTS = 4, MAX_TURNS = 1024, LEAST_TURNS = 3, MAX_ROUNDS = 8 };

/* The note of what is measured as long as its problem is not done: another run begins that again.
 */
static const char early[] = "early";

/* The first round's part of --seconds; each round takes twice as long. */
#define FIRST_ROUND (1.0 / 16)

typedef struct candidate {
    char name[TUNE_NAME_BYTES];
    mxrt_tune_row row;
    void *kernel; /* the family's */
    int is_out;   /* of the running */
    int is_model; /* the model's choice, which stays in it */
    int n_turns, repeat;
    double samples[MAX_TURNS]; /* of this round */
    int n_rounds;
    double round_ms[MAX_ROUNDS];
} candidate;

typedef struct worker {
    const tune_options *options;
    FILE *out;
    double deadline;
    tool_engine engine, host; /* the host has the reference */
    mxrt_tune_file *file;
    int must_end; /* the device is in no state to go on */
    int counts;   /* the device counts instead of taking time */
    /* Of the problem at hand: */
    const tune_problem *problem;
    tune_subject subject;
    candidate *candidates;
    size_t n;
} worker;

static void say(worker *w, const char *kind, const candidate *c)
{
    fprintf(w->out, "%s %s\n", kind, c->name);
    fflush(w->out);
}

static void say_result(worker *w, const candidate *c)
{
    fprintf(w->out, "M %s %.9g %.6g %lld\n", c->name, c->row.ms, c->row.spread,
            (long long)c->row.samples);
    fflush(w->out);
}

/* ---- Candidates ---- */

static mx_status keep_row(worker *w, candidate *c, mx_error *err)
{
    c->row.time_s = (int64_t)time(NULL);
    return mxrt_tune_put(w->file, &c->row, 1, NULL, err);
}

static mx_status refuse(worker *w, candidate *c, const char *why, mx_error *err)
{
    c->is_out = 1;
    c->row.samples = 0;
    c->row.ms = c->row.spread = 0;
    snprintf(c->row.note, sizeof(c->row.note), "%s", why);
    fprintf(w->out, "F %s %s\n", c->name, why);
    fflush(w->out);
    return keep_row(w, c, err);
}

typedef struct known {
    worker *w;
    size_t n;
} known;

/* What an earlier run left. */
static mx_status take_known(void *user, const mxrt_tune_row *row, mx_error *err)
{
    known *state = user;
    (void)err;
    for (size_t i = 0; i < state->w->n; i++) {
        candidate *c = &state->w->candidates[i];
        if (strcmp(c->name, row->variant) || strcmp(c->row.code, row->code) || c->is_out ||
            strcmp(c->row.shape, row->shape) || (row->samples > 0 && row->note[0]))
            continue;
        c->row = *row;
        c->is_out = 1;
        if (row->samples > 0)
            say_result(state->w, c);
        else
            fprintf(state->w->out, "F %s %s\n", c->name, row->note);
    }
    return MX_OK;
}

static mx_status recall(worker *w, mx_error *err)
{
    known state = {.w = w};
    if (!w->n || w->options->again)
        return MX_OK;
    const mxrt_tune_row *key = &w->candidates[0].row;
    mxrt_tune_filter filter = {.op = key->op,
                               .format = key->format,
                               .dtype = key->dtype,
                               .profile = key->profile,
                               .device = key->device,
                               .driver = key->driver,
                               .bucket = key->bucket,
                               .protocol = key->protocol};
    return mxrt_tune_each(w->file, &filter, take_known, &state, NULL, err);
}

static mx_status list_candidates(worker *w, mx_error *err)
{
    const char *names[TUNE_MAX_VARIANTS];
    const tune_family *family = w->subject.family;
    mx_status status = family->variants(&w->subject, names, TUNE_MAX_VARIANTS, &w->n, err);
    if (status != MX_OK)
        return status;
    if (w->n > TUNE_MAX_VARIANTS)
        w->n = TUNE_MAX_VARIANTS;
    if (!(w->candidates = calloc(w->n ? w->n : 1, sizeof(*w->candidates))))
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu variants", w->n);
    for (size_t i = 0; i < w->n && status == MX_OK; i++) {
        candidate *one = &w->candidates[i];
        snprintf(one->name, sizeof(one->name), "%s", names[i]);
        status = family->key(&w->subject, names[i], &one->row, err);
        snprintf(one->row.shape, sizeof(one->row.shape), "%.70s %s", w->problem->shape,
                 w->problem->product ? w->problem->op : w->problem->detail);
    }
    return status;
}

/* Those that did not come back are written down and left out. */
static mx_status leave_out(worker *w, mx_error *err)
{
    mx_status status = MX_OK;
    for (size_t i = 0; i < w->n && status == MX_OK; i++) {
        const tune_result *lost = tune_find(w->problem, w->candidates[i].name);
        if (lost && lost->note[0])
            status = refuse(w, &w->candidates[i], lost->note, err);
    }
    return status;
}

/* ---- Rounds ---- */

/* What the device reports as an error is the candidate's, and the device's last. */
static mx_status blame(worker *w, candidate *c, mx_status status, mx_error *err)
{
    char why[TUNE_NAME_BYTES];
    if (status != MX_ERR_DEVICE)
        return status;
    w->must_end = 1;
    snprintf(why, sizeof(why), "%.180s", err->message);
    why[strcspn(why, "\n")] = 0;
    return refuse(w, c, why, err);
}

static mx_status check(worker *w, candidate *c, mx_error *err)
{
    const tune_family *family = w->subject.family;
    char why[TUNE_NAME_BYTES] = "";
    say(w, "V", c);
    mx_status status = family->open(&w->subject, c->name, &c->kernel, err);
    if (status == MX_OK)
        status = family->check(&w->subject, c->kernel, why, sizeof(why), err);
    if (status != MX_OK)
        return blame(w, c, status, err);
    return why[0] ? refuse(w, c, why, err) : MX_OK;
}

static mx_status sample_count(worker *w, const candidate *c, double *ms, mx_error *err)
{
    mxrt_counters counts;
    mx_status status =
        counts_run(w->engine.device, w->subject.family->run, c->kernel, &counts, err);
    if (status == MX_OK)
        *ms = mxrt_counters_ms(&counts, w->engine.info.compute_units);
    return status;
}

static mx_status sample(worker *w, candidate *c, mx_error *err)
{
    mxrt_timed_fn run = w->subject.family->run;
    mxrt_device *device = w->engine.device;
    double warm = 0, *ms = &c->samples[c->n_turns];
    mx_status status = MX_OK;
    say(w, "V", c);
    if (!c->repeat && !w->counts) {
        status = mxrt_device_time(device, run, c->kernel, 1, &warm, err);
        c->repeat = measure_repeat(warm);
    }
    if (status == MX_OK)
        status = w->counts ? sample_count(w, c, ms, err)
                           : mxrt_device_time(device, run, c->kernel, c->repeat, ms, err);
    if (status != MX_OK)
        return blame(w, c, status, err);
    c->n_turns++;
    return MX_OK;
}

static size_t count_left(const worker *w)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++)
        n += !w->candidates[i].is_out;
    return n;
}

/* All that are left take turns, so that they see the same machine, `seconds` for each. */
static mx_status take_turns(worker *w, double seconds, mx_error *err)
{
    double end = tool_now() + seconds * (double)count_left(w);
    mx_status status = MX_OK;
    if (end > w->deadline)
        end = w->deadline;
    for (size_t i = 0; i < w->n; i++)
        w->candidates[i].n_turns = w->candidates[i].repeat = 0;
    for (int turn = 0; turn < (w->counts ? 1 : MAX_TURNS); turn++) {
        for (size_t i = 0; i < w->n && status == MX_OK && !w->must_end; i++) {
            if (!w->candidates[i].is_out && (turn < LEAST_TURNS || tool_now() < end))
                status = sample(w, &w->candidates[i], err);
        }
        if (status != MX_OK || w->must_end || (turn + 1 >= LEAST_TURNS && tool_now() >= end))
            break;
    }
    for (size_t i = 0; i < w->n && status == MX_OK; i++) {
        candidate *c = &w->candidates[i];
        if (c->is_out || !c->n_turns)
            continue;
        c->row.samples = c->n_turns;
        snprintf(c->row.note, sizeof(c->row.note), "%s", early);
        c->row.ms = measure_median(c->samples, c->n_turns, &c->row.spread);
        if (c->n_rounds < MAX_ROUNDS)
            c->round_ms[c->n_rounds++] = c->row.ms;
        if ((status = keep_row(w, c, err)) == MX_OK)
            say_result(w, c);
    }
    return status;
}

static int by_time(const void *left, const void *right)
{
    const candidate *a = left, *b = right;
    if (a->is_out != b->is_out)
        return a->is_out - b->is_out;
    return a->row.ms < b->row.ms ? -1 : a->row.ms > b->row.ms;
}

/* The problem is done. The machine of an early round was not that of the last: those that left then
 * are written down as they were against the winner in the same round. */
static mx_status settle(worker *w, mx_error *err)
{
    const candidate *best = NULL;
    mx_status status = MX_OK;
    for (size_t i = 0; i < w->n; i++) {
        const candidate *c = &w->candidates[i];
        if (!c->is_out && c->n_rounds && (!best || c->row.ms < best->row.ms))
            best = c;
    }
    double best_ms = best ? best->row.ms : 0;
    for (size_t i = 0; best && i < w->n && status == MX_OK; i++) {
        candidate *c = &w->candidates[i];
        if (!c->n_rounds || c->row.samples <= 0)
            continue;
        if (c->is_out)
            c->row.ms *= best_ms / best->round_ms[c->n_rounds - 1];
        c->row.note[0] = 0;
        status = keep_row(w, c, err);
        if (status == MX_OK)
            say_result(w, c);
    }
    return status;
}

/* Successive halving: every round the slower half leaves, and the rest is measured twice as long.
 */
static mx_status run_rounds(worker *w, mx_error *err)
{
    double seconds = w->options->seconds * FIRST_ROUND;
    mx_status status = MX_OK;
    for (size_t i = 0; i < w->n && status == MX_OK && !w->must_end; i++) {
        if (!w->candidates[i].is_out)
            status = check(w, &w->candidates[i], err);
    }
    while (status == MX_OK && !w->must_end && count_left(w) && tool_now() < w->deadline) {
        status = take_turns(w, seconds, err);
        if (status != MX_OK || w->must_end)
            break;
        if (seconds >= w->options->seconds || w->counts)
            return settle(w, err);
        qsort(w->candidates, w->n, sizeof(*w->candidates), by_time);
        size_t left = count_left(w);
        left = left / 2 > FINALISTS ? left / 2 : left < FINALISTS ? left : FINALISTS;
        for (size_t i = left; i < w->n; i++)
            w->candidates[i].is_out |= !w->candidates[i].is_model;
        seconds *= 2;
    }
    return status;
}

static mx_status say_model(worker *w, mx_error *err)
{
    mxrt_choice choice;
    mx_status status = w->subject.family->choose(&w->subject, MXRT_POLICY_MODEL, &choice, err);
    if (status != MX_OK)
        return status;
    fprintf(w->out, "B %lld %.9g\nC %s\n", (long long)w->subject.bytes, w->subject.work,
            choice.variant);
    for (size_t i = 0; i < w->n; i++)
        w->candidates[i].is_model = !strcmp(w->candidates[i].name, choice.variant);
    return MX_OK;
}

/* A damaged file is moved aside, and its measurements are made again. */
static mx_status open_file(worker *w, mx_error *err)
{
    char path[4096];
    const char *name = w->options->file;
    if (!name && mxrt_tune_default_path(path, sizeof(path), err) == MX_OK)
        name = path;
    if (!name)
        return err->status;
    mx_status status = mxrt_tune_open(name, 1, &w->file, err);
    if (status != MX_ERR_CORRUPT)
        return status;
    fprintf(stderr, "mxrt: %s; it is moved aside\n", err->message);
    status = mxrt_tune_move_aside(name, err);
    return status == MX_OK ? mxrt_tune_open(name, 1, &w->file, err) : status;
}

/* Memory is only made where something is left to be measured. */
static mx_status work(worker *w, mx_error *err)
{
    mx_status status = w->subject.family->begin(&w->subject, err);
    if (status == MX_OK)
        status = list_candidates(w, err);
    if (status == MX_OK)
        status = say_model(w, err);
    if (status == MX_OK)
        status = recall(w, err);
    if (status == MX_OK)
        status = leave_out(w, err);
    if (status != MX_OK || !count_left(w))
        return status;
    status = w->subject.family->prepare(&w->subject, err);
    return status == MX_OK ? run_rounds(w, err) : status;
}

static void begin_problem(worker *w, const tune_problem *problem, int index)
{
    w->problem = problem;
    w->subject = (tune_subject){.family = problem->product ? &tune_gemm : &tune_blocks,
                                .problem = problem,
                                .engine = &w->engine,
                                .host = &w->host,
                                .counts = w->counts};
    fprintf(w->out, "P %d\n", index);
    fflush(w->out);
}

static void end_problem(worker *w)
{
    for (size_t i = 0; i < w->n && w->candidates; i++)
        w->subject.family->close(w->candidates[i].kernel);
    free(w->candidates);
    w->subject.family->finish(&w->subject);
    w->candidates = NULL;
    w->n = 0;
}

/* Returns 0 when all problems, or the time, have come to their end. */
static int work_all(worker *w, const tune_problem *problems, int first, int n)
{
    for (int i = first; i < n && tool_now() < w->deadline; i++) {
        mx_error err = {MX_OK, ""};
        begin_problem(w, &problems[i], i);
        mx_status status = work(w, &err);
        end_problem(w);
        if (status != MX_OK)
            fprintf(w->out, "E %s\n", err.message);
        if (w->must_end || status == MX_ERR_DEVICE) {
            fprintf(w->out, "R\n");
            return TOOL_EXIT_FAILURE;
        }
        fprintf(w->out, "Q\n");
        fflush(w->out);
    }
    fprintf(w->out, "Z\n");
    return 0;
}

static mx_status open_all(worker *w, mx_error *err)
{
    const mxrt_context_options no_files = {.tune_file = ""};
    mx_status status = engine_open(&w->options->engine, &w->engine, err);
    if (status == MX_OK)
        fprintf(w->out, "D %s: %s\n", w->engine.info.uri, w->engine.info.name);
    w->counts = status == MX_OK && counts_available(w->engine.device);
    if (status == MX_OK)
        status = mxrt_context_create(&no_files, &w->host.context, err);
    if (status == MX_OK)
        status = mxrt_device_open(w->host.context, "host", &w->host.device, err);
    return status == MX_OK ? open_file(w, err) : status;
}

int tune_child(const tune_options *options, const tune_problem *problems, int first, int n,
               double deadline, FILE *out)
{
    worker w = {.options = options, .out = out, .deadline = deadline};
    mx_error err = {MX_OK, ""};
    int code = TOOL_EXIT_FAILURE;
    if (open_all(&w, &err) == MX_OK)
        code = work_all(&w, problems, first, n);
    else
        fprintf(out, "X %s\n", err.message);
    fflush(out);
    mxrt_tune_close(w.file);
    engine_close(&w.host);
    engine_close(&w.engine);
    return code;
}
