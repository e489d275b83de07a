#include "mxrt_counts.h"
#include "mxrt_tune.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mxgen/error.h>

enum { FINALISTS = 4, POISON = 0xa5, MAX_TURNS = 1024, LEAST_TURNS = 3, MAX_ROUNDS = 8 };

/* The note of what is measured as long as its problem is not done: another run begins that again.
 */
static const char early[] = "early";

/* The first round's part of --seconds; each round takes twice as long. */
#define FIRST_ROUND (1.0 / 16)

typedef struct candidate {
    char name[TUNE_NAME_BYTES];
    mxrt_tune_row row;
    mxrt_plan *plan;
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
    tool_point point;
    unsigned char *expected, *found; /* the right bytes of slot 0's output */
    void *poison;                    /* as many on the device */
    size_t output_bytes;
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

/* ---- What is right ---- */

static mx_status run_reference(worker *w, const unsigned char *in_slot, mx_error *err)
{
    tool_point *point = &w->point;
    mx_case_tensor in = point->in, out = point->out;
    ptrdiff_t in_offset = (char *)in.tensor.data - (char *)measure_ring_at(&point->in_ring, 0);
    ptrdiff_t out_offset = (char *)out.tensor.data - (char *)measure_ring_at(&point->out_ring, 0);
    mxrt_plan_request request = point_request(point);
    mxrt_plan *plan = NULL;
    in.tensor.data = (void *)(in_slot + in_offset);
    out.tensor.data = w->expected + out_offset;
    in.tensor.device = out.tensor.device = (DLDevice){kDLCPU, 0};
    in.tensor.shape = in.shape, in.tensor.strides = in.strides;
    out.tensor.shape = out.shape, out.tensor.strides = out.strides;
    request.in = &in.tensor;
    request.out = &out.tensor;
    request.variant = "reference";
    mx_status status = mxrt_plan_create(w->host.device, &request, &plan, err);
    if (status == MX_OK)
        status = mxrt_plan_run(plan, NULL, NULL, NULL, err);
    mxrt_plan_destroy(plan);
    return status;
}

/* The output that the plain C reference makes of slot 0's input. */
static mx_status make_expected(worker *w, mx_error *err)
{
    size_t in_bytes = w->point.in_ring.slot_bytes;
    unsigned char *copy = malloc(in_bytes ? in_bytes : 1);
    w->output_bytes = w->point.out_ring.slot_bytes;
    w->expected = malloc(w->output_bytes ? w->output_bytes : 1);
    w->found = malloc(w->output_bytes ? w->output_bytes : 1);
    mx_status status = MX_OK;
    if (!copy || !w->expected || !w->found)
        status = mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu bytes", w->output_bytes);
    if (status == MX_OK)
        status = mxrt_device_download(w->engine.device, copy, measure_ring_at(&w->point.in_ring, 0),
                                      in_bytes, err);
    if (status == MX_OK)
        status = mxrt_device_alloc(w->engine.device, w->output_bytes, &w->poison, err);
    if (status == MX_OK) {
        memset(w->expected, POISON, w->output_bytes);
        status = mxrt_device_upload(w->engine.device, w->poison, w->expected, w->output_bytes, err);
    }
    if (status == MX_OK)
        status = run_reference(w, copy, err);
    free(copy);
    return status;
}

/* What is wrong with the candidate's output, "" if nothing is. */
static mx_status find_wrong(worker *w, const candidate *c, char *why, size_t why_bytes,
                            mx_error *err)
{
    void *slot = measure_ring_at(&w->point.out_ring, 0);
    size_t at = 0;
    why[0] = 0;
    mx_status status =
        mxrt_device_copy(w->engine.device, slot, w->poison, w->output_bytes, NULL, err);
    if (status == MX_OK)
        status = mxrt_plan_run(c->plan, NULL, NULL, NULL, err);
    if (status == MX_OK)
        status = mxrt_device_synchronize(w->engine.device, NULL, err);
    if (status == MX_OK)
        status = mxrt_device_download(w->engine.device, w->found, slot, w->output_bytes, err);
    if (status != MX_OK || !memcmp(w->found, w->expected, w->output_bytes))
        return status;
    while (w->found[at] == w->expected[at])
        at++;
    snprintf(why, why_bytes, "wrong values: byte %zu of the output is %u, the reference has %u", at,
             w->found[at], w->expected[at]);
    return MX_OK;
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
    char shape[TOOL_SHAPE_BYTES];
    const mx_case *c = w->point.shape;
    mxrt_plan_request request = point_request(&w->point);
    mx_status status =
        mxrt_plan_variants(w->engine.device, &request, names, TUNE_MAX_VARIANTS, &w->n, err);
    if (status != MX_OK)
        return status;
    if (w->n > TUNE_MAX_VARIANTS)
        w->n = TUNE_MAX_VARIANTS;
    if (!(w->candidates = calloc(w->n ? w->n : 1, sizeof(*w->candidates))))
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu variants", w->n);
    for (size_t i = 0; i < w->n && status == MX_OK; i++) {
        candidate *one = &w->candidates[i];
        snprintf(one->name, sizeof(one->name), "%s", names[i]);
        status = mxrt_tune_key(w->engine.device, &request, names[i], &one->row, err);
        snprintf(one->row.shape, sizeof(one->row.shape), "%.80s axis %d",
                 tool_shape_text((size_t)c->ndim, c->shape, shape), c->axis);
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
    mxrt_plan_request request = point_request(&w->point);
    char why[TUNE_NAME_BYTES];
    request.variant = c->name;
    say(w, "V", c);
    mx_status status = mxrt_plan_create(w->engine.device, &request, &c->plan, err);
    if (status == MX_OK)
        status = find_wrong(w, c, why, sizeof(why), err);
    if (status != MX_OK)
        return blame(w, c, status, err);
    return why[0] ? refuse(w, c, why, err) : MX_OK;
}

static mx_status sample_count(worker *w, point_kernel *kernel, double *ms, mx_error *err)
{
    mxrt_counters counts;
    mx_status status = counts_run(w->engine.device, point_run, kernel, &counts, err);
    if (status == MX_OK)
        *ms = mxrt_counters_ms(&counts, w->engine.info.compute_units);
    return status;
}

static mx_status sample(worker *w, candidate *c, mx_error *err)
{
    point_kernel kernel = {.plan = c->plan, .point = &w->point};
    mxrt_device *device = w->engine.device;
    double warm = 0, *ms = &c->samples[c->n_turns];
    mx_status status = MX_OK;
    say(w, "V", c);
    if (!c->repeat && !w->counts) {
        status = mxrt_device_time(device, point_run, &kernel, 1, &warm, err);
        c->repeat = measure_repeat(warm);
    }
    if (status == MX_OK)
        status = w->counts ? sample_count(w, &kernel, ms, err)
                           : mxrt_device_time(device, point_run, &kernel, c->repeat, ms, err);
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
    mxrt_plan_request request = point_request(&w->point);
    mxrt_choice choice;
    request.policy = MXRT_POLICY_MODEL;
    mx_status status = mxrt_explain(w->engine.device, &request, &choice, err);
    if (status != MX_OK)
        return status;
    fprintf(w->out, "B %lld\nC %s\n", (long long)w->point.moved_bytes, choice.variant);
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
    mx_status status = point_place(&w->point, &w->engine, err);
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
    status = point_init(&w->point, &w->engine, w->counts ? 0 : POINT_ROTATE, err);
    if (status == MX_OK)
        status = make_expected(w, err);
    return status == MX_OK ? run_rounds(w, err) : status;
}

static void begin_problem(worker *w, const tune_problem *problem, int index)
{
    w->problem = problem;
    w->point = (tool_point){.op = problem->what.op,
                            .format = problem->what.format,
                            .dtype = problem->what.dtype,
                            .shape = problem->what.shape};
    fprintf(w->out, "P %d\n", index);
    fflush(w->out);
}

static void end_problem(worker *w)
{
    for (size_t i = 0; i < w->n && w->candidates; i++)
        mxrt_plan_destroy(w->candidates[i].plan);
    free(w->candidates);
    free(w->expected);
    free(w->found);
    mxrt_device_free(w->engine.device, w->poison);
    point_finish(&w->point);
    w->candidates = NULL;
    w->expected = w->found = NULL;
    w->poison = NULL;
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
