/* The engine: one problem, its expected bytes, and every variant that applies to it. */
#include "tests/conformance.h"

#include <fenv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#include <mxgen/error.h>

#include "runtime/reference.h"
#include "tests/conform_engine.h"

enum { MAX_VARIANTS = 2048, MAX_REPORTS = 24 };
enum { FLUSH_AND_ZERO = 0x8040 /* of the SSE control word: subnormals are lost */ };

/* A variant of the pack that this device can run. */
typedef struct known_variant {
    const char *name;
    mx_layout layout;
    size_t runs, large_runs, failures;
} known_variant;

/* A growing host buffer, aligned to a page. */
typedef struct image {
    unsigned char *data;
    size_t capacity;
} image;

/* One problem: an operation on a geometry with input, and output to expect, as blocks side by
 * side. */
typedef struct problem {
    const conform_geometry *geometry;
    const conform_source *source; /* NULL: given bytes */
    mx_op op;
    mx_format format;
    mx_dtype dtype;
    mx_profile profile;
    const void *input, *output; /* output NULL: ask the reference */
    unsigned flags;
} problem;

/* A problem in memory. */
typedef struct setting {
    const problem *problem;
    conform_placement placement;
    conform_place in, out;
    mx_case_tensor in_tensor, out_tensor;
    mxrt_plan_request request;
    int in_place;
} setting;

struct conform {
    conform_options options;
    mxrt_context *context;
    mxrt_device *device;
    mxrt_device_info info;
    int is_host;
    mxrt_pack *pack;
    const char *target;      /* of the pack's, the one that counts here */
    known_variant *variants; /* by name */
    size_t n_variants;
    unsigned dtypes[MX_OP_COUNT]
                   [MX_FORMAT_COUNT]; /* bit sets: those that the pack has kernels for */
    conform_memory in_memory, out_memory, more_memory[CONFORM_SIDES - 2];
    image elements, records; /* of the problem, side by side */
    image input, blocks, mask, poison, expected, found;
    conform_totals totals;
    size_t n_reports, n_problems;
};

/* What is running, for the handler of crashes. */
static volatile struct {
    const problem *problem;
    const char *variant;
    int placement;
} under_way;

static const DLDevice cpu = {kDLCPU, 0};
static const char *const placement_names[] = {"guarded", "fence-end", "fence-begin"};

const conform_options *conform_get_options(const conform *run)
{
    return &run->options;
}

conform_totals conform_get_totals(const conform *run)
{
    return run->totals;
}

void conform_skip(conform *run, const char *what, const char *why)
{
    run->totals.skipped++;
    fprintf(stderr, "skipped: %s: %s\n", what, why);
}

/* ---- Reports ---- */

static size_t print_case(char *text, size_t size, const char *label, const mx_case *c)
{
    size_t used =
        (size_t)snprintf(text, size, " %s offset %lld strides", label, (long long)c->offset);
    for (int i = 0; i < c->ndim && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%c%lld", i ? ',' : ' ',
                                 c->strided ? (long long)c->strides[i] : -1LL);
    return used < size ? used : size;
}

static void describe(const problem *p, int placement, char *text, size_t size)
{
    const conform_geometry *g = p->geometry;
    size_t used = (size_t)snprintf(
        text, size, "%s %s %s %s, case %s, %s, values %s position %d seed %llu%s; shape",
        mx_op_name(p->op), mx_format_get(p->format)->name, mx_dtype_get(p->dtype)->name,
        mx_profile_name(p->profile), g->name, placement_names[placement],
        p->source ? conform_values_name(p->source->values) : "file",
        p->source ? p->source->position : 0, p->source ? (unsigned long long)p->source->seed : 0ULL,
        g->in_place ? ", in place" : "");
    for (int i = 0; i < g->x.ndim && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%c%lld", i ? 'x' : ' ',
                                 (long long)g->x.shape[i]);
    used += (size_t)snprintf(text + used, size - used, " axis %d", g->x.axis);
    if (p->op != MX_OP_FROM)
        used += print_case(text + used, size - used, "x", &g->x);
    if (p->op != MX_OP_TO)
        used += print_case(text + used, size - used, "y", &g->y);
    if (p->op != MX_OP_QDQ)
        snprintf(text + used, size - used, " p offset %lld gap %lld byte stride %lld",
                 (long long)g->x.packed_offset, (long long)g->x.packed_block_gap,
                 (long long)g->x.packed_byte_stride);
}

static void on_crash(int signal_number)
{
    char text[1024];
    const problem *p = under_way.problem;
    if (p) {
        const char *variant = under_way.variant;
        describe(p, under_way.placement, text, sizeof(text) - 1);
        size_t length = strlen(text);
        text[length] = '\n';
        if (write(STDERR_FILENO, "crashed: ", 9) < 0 ||
            write(STDERR_FILENO, variant, strlen(variant)) < 0 ||
            write(STDERR_FILENO, ": ", 2) < 0 || write(STDERR_FILENO, text, length + 1) < 0)
            _exit(3);
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static void catch_crashes(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        signal(signals[i], on_crash);
}

void conform_report(conform *run, const char *variant, const char *what, const char *why)
{
    run->totals.failed++;
    if (run->n_reports++ == MAX_REPORTS)
        fprintf(stderr, "more failures are counted, not printed\n");
    if (run->n_reports <= MAX_REPORTS)
        fprintf(stderr, "FAILED %s: %s\n  %s\n", variant, what, why);
}

static void fail(conform *run, const setting *s, const char *variant, const char *why)
{
    char text[1024];
    describe(s->problem, s->placement, text, sizeof(text));
    conform_report(run, variant, text, why);
}

/* Names the element or block that a byte of the output belongs to. */
static void locate(const setting *s, int64_t byte, char *text, size_t size)
{
    const problem *p = s->problem;
    const mx_case *c = p->op == MX_OP_TO ? &p->geometry->x
                       : s->in_place     ? &p->geometry->x
                                         : &p->geometry->y;
    int64_t element_bytes = mx_dtype_get(p->dtype)->bytes, length = conform_length(c);
    snprintf(text, size, "not part of the output");
    if (p->op == MX_OP_TO) {
        int64_t block_bytes = mx_format_get(p->format)->block_bytes;
        int64_t step = c->packed_byte_stride ? c->packed_byte_stride : 1;
        int64_t at = byte - c->packed_offset, block_step = block_bytes * step + c->packed_block_gap;
        if (at >= 0 && at / block_step < mx_case_blocks(c) && at % block_step % step == 0 &&
            at % block_step / step < block_bytes)
            snprintf(text, size, "block %lld of %lld, byte %lld", (long long)(at / block_step),
                     (long long)mx_case_blocks(c), (long long)(at % block_step / step));
        return;
    }
    for (int64_t row = 0; row < conform_rows(c); row++) {
        for (int64_t i = 0; i < length; i++) {
            int64_t at = byte - (c->offset + conform_element_offset(c, row, i)) * element_bytes;
            if (at >= 0 && at < element_bytes)
                snprintf(text, size, "row %lld of %lld, element %lld of %lld", (long long)row,
                         (long long)conform_rows(c), (long long)i, (long long)length);
        }
    }
}

static void fail_bytes(conform *run, const setting *s, const char *variant,
                       const unsigned char *found, const unsigned char *expected)
{
    char where[96], why[512];
    size_t n = 0, first = 0;
    for (size_t i = 0; i < s->out.total; i++) {
        if (found[i] != expected[i] && !n++)
            first = i;
    }
    locate(s, (int64_t)first - (int64_t)s->out.lead, where, sizeof(where));
    size_t used =
        (size_t)snprintf(why, sizeof(why), "%zu bytes of %zu differ; first at %lld (%s): found", n,
                         s->out.bytes, (long long)first - (long long)s->out.lead, where);
    for (size_t i = first; i < first + 20 && i < s->out.total; i++)
        used += (size_t)snprintf(why + used, sizeof(why) - used, " %02x", found[i]);
    used += (size_t)snprintf(why + used, sizeof(why) - used, ", expected");
    for (size_t i = first; i < first + 20 && i < s->out.total; i++)
        used += (size_t)snprintf(why + used, sizeof(why) - used, " %02x", expected[i]);
    fail(run, s, variant, why);
}

/* ---- Host images ---- */

static unsigned char *image_of(image *buffer, size_t bytes)
{
    enum { PAGE = 4096 };
    if (bytes + 1 > buffer->capacity) {
        size_t capacity = (2 * bytes + PAGE) / PAGE * PAGE;
        free(buffer->data);
        buffer->data = aligned_alloc(PAGE, capacity);
        if (!buffer->data) {
            fprintf(stderr, "no memory for %zu bytes\n", capacity);
            exit(1);
        }
        buffer->capacity = capacity;
    }
    return buffer->data;
}

static void fill_random(unsigned char *bytes, size_t n, uint64_t seed)
{
    uint64_t state = seed;
    for (size_t i = 0; i < n; i += sizeof(state)) {
        uint64_t word = mx_case_random(&state);
        memcpy(bytes + i, &word, n - i < sizeof(word) ? n - i : sizeof(word));
    }
}

/* ---- A problem in memory ---- */

static int is_packed(const problem *p, int output)
{
    return p->op == (output ? MX_OP_TO : MX_OP_FROM);
}

/* The tensor of one side on memory that begins at `base`. */
static void make_tensor(const problem *p, int output, int in_place, DLDevice device, void *base,
                        mx_case_tensor *out)
{
    const conform_geometry *g = p->geometry;
    if (is_packed(p, output))
        mx_case_packed(&g->x, p->format, device, base, out);
    else
        mx_case_plain(output && !in_place ? &g->y : &g->x, p->dtype, device, base, out);
}

static size_t side_bytes(const problem *p, int output, int in_place)
{
    const conform_geometry *g = p->geometry;
    return (size_t)(is_packed(p, output)
                        ? mx_case_packed_bytes(&g->x, p->format)
                        : mx_case_plain_bytes(output && !in_place ? &g->y : &g->x, p->dtype));
}

static void scatter(const problem *p, int output, int in_place, const void *blocks, void *base)
{
    const conform_geometry *g = p->geometry;
    if (is_packed(p, output))
        conform_scatter_packed(&g->x, p->format, blocks, base);
    else
        conform_scatter_plain(output && !in_place ? &g->y : &g->x, mx_dtype_get(p->dtype)->bytes,
                              blocks, base);
}

static mx_status place_sides(conform *run, setting *s, mx_error *err)
{
    const problem *p = s->problem;
    mx_status status = conform_memory_place(&run->in_memory, s->placement,
                                            side_bytes(p, 0, s->in_place), &s->in, err);
    if (status)
        return status;
    s->out = s->in;
    if (!s->in_place)
        status = conform_memory_place(&run->out_memory, s->placement, side_bytes(p, 1, s->in_place),
                                      &s->out, err);
    return status;
}

/* Input with traps around its elements; expected output; output poisoned such that no byte of it
 * is right by chance. */
static mx_status fill_images(conform *run, const setting *s, mx_error *err)
{
    static const int traps[CONFORM_PLACEMENT_COUNT] = {0xff, 0x7b, 0xff};
    const problem *p = s->problem;
    mx_case_tensor in, out;
    mxrt_plan_request request = s->request;
    mx_status status = MX_OK;
    unsigned char *input = image_of(&run->input, s->in.total);
    unsigned char *expected = image_of(&run->expected, s->out.total);
    unsigned char *poison = image_of(&run->poison, s->out.total);

    memset(input, traps[s->placement], s->in.total);
    scatter(p, 0, s->in_place, p->input, input + s->in.lead);
    if (s->in_place)
        memcpy(expected, input, s->in.total);
    else
        fill_random(expected, s->out.total, run->n_problems + (uint64_t)s->placement);
    memcpy(poison, expected, s->out.total);

    make_tensor(p, 0, s->in_place, cpu, input + s->in.lead, &in);
    make_tensor(p, 1, s->in_place, cpu, expected + s->out.lead, &out);
    request.in = s->in_place ? &out.tensor : &in.tensor;
    request.out = &out.tensor;
    request.variant = NULL;
    if (p->output)
        scatter(p, 1, s->in_place, p->output, expected + s->out.lead);
    else
        status = mxrt_reference_run(&request, err);
    if (status || s->in_place)
        return status;
    unsigned char *mask = image_of(&run->mask, s->out.total);
    size_t block_bytes = (size_t)mx_case_blocks(&p->geometry->x) * MX_BLOCK_ELEMENTS * 4;
    memset(image_of(&run->blocks, block_bytes), 0xff, block_bytes);
    memset(mask, 0, s->out.total);
    scatter(p, 1, 0, run->blocks.data, mask + s->out.lead);
    for (size_t i = 0; i < s->out.total; i++)
        poison[i] ^= (poison[i] ^ ~expected[i]) & mask[i];
    return MX_OK;
}

static mx_status upload(conform *run, const conform_place *place, const unsigned char *bytes,
                        mx_error *err)
{
    if (run->is_host) {
        memcpy(place->begin, bytes, place->total);
        return MX_OK;
    }
    return place->total ? mxrt_device_upload(run->device, place->begin, bytes, place->total, err)
                        : MX_OK;
}

/* What is in the place now; NULL on failure. */
static const unsigned char *contents(conform *run, const conform_place *place, mx_error *err)
{
    if (run->is_host)
        return place->begin;
    unsigned char *found = image_of(&run->found, place->total);
    if (place->total && mxrt_device_download(run->device, found, place->begin, place->total, err))
        return NULL;
    return found;
}

/* ---- Variants ---- */

static known_variant *find_variant(conform *run, const char *name)
{
    size_t low = 0, high = run->n_variants;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(name, run->variants[middle].name);
        if (order == 0)
            return &run->variants[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

/* On the host every other problem runs in a caller's unfriendly floating-point environment. */
static mx_status run_plan(const conform *run, const mxrt_plan *plan, mx_error *err)
{
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    if (!run->is_host || run->n_problems % 2)
        return mxrt_plan_run(plan, NULL, NULL, NULL, err);
    fesetround(modes[run->n_problems / 2 % 3]);
#if defined(__SSE2__)
    unsigned control = _mm_getcsr();
    _mm_setcsr(control | FLUSH_AND_ZERO);
#endif
    mx_status status = mxrt_plan_run(plan, NULL, NULL, NULL, err);
#if defined(__SSE2__)
    _mm_setcsr(control);
#endif
    fesetround(FE_TONEAREST);
    return status;
}

static mx_status launch(conform *run, const mxrt_plan_request *request, mx_error *err)
{
    mxrt_plan *plan = NULL;
    mx_status status = mxrt_plan_create(run->device, request, &plan, err);
    if (!status)
        status = run_plan(run, plan, err);
    if (!status && !run->is_host)
        status = mxrt_device_synchronize(run->device, NULL, err);
    mxrt_plan_destroy(plan);
    return status;
}

/* Runs one variant, NULL for the best, and compares. */
static void check_variant(conform *run, setting *s, const char *variant, known_variant *known)
{
    const char *label = variant ? variant : "(best)";
    mx_error error = {MX_OK, ""};
    s->request.variant = variant;
    under_way.variant = label;
    if (upload(run, &s->out, run->poison.data, &error) || launch(run, &s->request, &error)) {
        fail(run, s, label, error.message);
        if (known)
            known->failures++;
        return;
    }
    const unsigned char *found = contents(run, &s->out, &error);
    if (found && !memcmp(found, run->expected.data, s->out.total)) {
        run->totals.passed++;
    } else {
        if (found)
            fail_bytes(run, s, label, found, run->expected.data);
        else
            fail(run, s, label, error.message);
        if (known)
            known->failures++;
    }
    if (known)
        known->runs++;
    if (run->is_host && !s->in_place && memcmp(s->in.begin, run->input.data, s->in.total)) {
        fail(run, s, label, "the input has changed");
        memcpy(s->in.begin, run->input.data, s->in.total);
    }
}

/* Moves the `wanted` least covered to the front. */
static void least_covered(known_variant **list, size_t n, size_t wanted)
{
    for (size_t i = 0; i < wanted && i < n; i++) {
        size_t best = i;
        for (size_t k = i + 1; k < n; k++) {
            if (list[k]->runs < list[best]->runs)
                best = k;
        }
        known_variant *kept = list[i];
        list[i] = list[best];
        list[best] = kept;
    }
}

static int in_set(unsigned set, int value)
{
    return !set || (set >> value & 1);
}

int conform_has(const conform *run, mx_op op, mx_format format, mx_dtype dtype)
{
    return run->dtypes[op][format] >> dtype & 1;
}

/* Known variants among the names, and which of them flags and options choose. */
static size_t choose_variants(conform *run, const char *const *names, size_t n, unsigned flags,
                              known_variant **list)
{
    size_t n_known = 0, n_chosen = 0, most = run->options.variants_per_request;
    for (size_t i = 0; i < n && i < MAX_VARIANTS; i++) {
        known_variant *known = find_variant(run, names[i]);
        if (known && in_set(run->options.layouts, (int)known->layout))
            list[n_known++] = known;
    }
    if (flags & (CONFORM_UNREACHED_ONLY | CONFORM_LARGE)) {
        for (size_t i = 0; i < n_known; i++) {
            if (flags & CONFORM_LARGE ? !list[i]->large_runs++ : !list[i]->runs)
                list[n_chosen++] = list[i];
        }
        return n_chosen;
    }
    if (most && most < n_known) {
        least_covered(list, n_known, most);
        n_known = most;
    }
    return flags & CONFORM_BEST_ONLY ? 0 : n_known;
}

size_t conform_choose(conform *run, const char **names, size_t n, unsigned flags)
{
    known_variant *list[MAX_VARIANTS];
    n = choose_variants(run, names, n, flags, list);
    for (size_t i = 0; i < n; i++)
        names[i] = list[i]->name;
    return n;
}

void conform_count(conform *run, const char *variant, int passed)
{
    known_variant *known = variant ? find_variant(run, variant) : NULL;
    if (passed)
        run->totals.passed++;
    if (known) {
        known->runs++;
        known->failures += !passed;
    }
}

mxrt_device *conform_device(conform *run, mxrt_device_info *info)
{
    if (info)
        *info = run->info;
    return run->device;
}

int conform_is_host(const conform *run)
{
    return run->is_host;
}

conform_memory *conform_memory_of(conform *run, int side)
{
    return side == 0 ? &run->in_memory : side == 1 ? &run->out_memory : &run->more_memory[side - 2];
}

static void skip_problem(conform *run, const setting *s)
{
    char text[1024];
    if (run->totals.skipped++ >= MAX_REPORTS)
        return;
    describe(s->problem, s->placement, text, sizeof(text));
    fprintf(stderr, "skipped: no kernel applies: %s\n", text);
}

static void check_variants(conform *run, setting *s)
{
    const char *names[MAX_VARIANTS];
    known_variant *list[MAX_VARIANTS];
    mx_error error = {MX_OK, ""};
    size_t n = 0;
    unsigned flags = s->problem->flags;
    int has_blocks = mx_case_blocks(&s->problem->geometry->x) > 0;
    mx_status status =
        mxrt_plan_variants(run->device, &s->request, names, MAX_VARIANTS, &n, &error);
    if (status) {
        fail(run, s, "(list)", error.message);
        return;
    }
    size_t n_chosen = choose_variants(run, names, n, flags, list);
    for (size_t i = 0; i < n_chosen; i++)
        check_variant(run, s, list[i]->name, list[i]);
    if (flags & (CONFORM_UNREACHED_ONLY | CONFORM_LARGE))
        return;
    if (n || run->is_host || !has_blocks)
        check_variant(run, s, NULL, NULL);
    if (!n && has_blocks)
        skip_problem(run, s);
}

static void check_input(conform *run, const setting *s)
{
    mx_error error = {MX_OK, ""};
    if (run->is_host || s->in_place)
        return;
    const unsigned char *found = contents(run, &s->in, &error);
    if (!found || memcmp(found, run->input.data, s->in.total))
        fail(run, s, "(one of the variants)", found ? "the input has changed" : error.message);
}

static void check_placement(conform *run, const problem *p, conform_placement placement)
{
    setting s = {.problem = p, .placement = placement};
    mx_error error = {MX_OK, ""};
    s.in_place = p->geometry->in_place && p->op == MX_OP_QDQ;
    s.request = (mxrt_plan_request){
        .op = p->op, .format = p->format, .profile = p->profile, .axis = p->geometry->x.axis};
    under_way.problem = p;
    under_way.placement = (int)placement;
    under_way.variant = "(reference)";
    if (place_sides(run, &s, &error) || fill_images(run, &s, &error) ||
        upload(run, &s.in, run->input.data, &error)) {
        fail(run, &s, "(reference)", error.message);
        return;
    }
    make_tensor(p, 0, s.in_place, run->info.dl_device, s.in.begin + s.in.lead, &s.in_tensor);
    make_tensor(p, 1, s.in_place, run->info.dl_device, s.out.begin + s.out.lead, &s.out_tensor);
    s.request.in = &s.in_tensor.tensor;
    s.request.out = &s.out_tensor.tensor;
    check_variants(run, &s);
    check_input(run, &s);
    under_way.problem = NULL;
}

static void check_problem(conform *run, const problem *p)
{
    int n = CONFORM_PLACEMENT_COUNT;
    run->n_problems++;
    if (!run->is_host)
        n = CONFORM_FENCE_BEGIN;
    if (run->options.quick || (p->flags & CONFORM_BEST_ONLY)) {
        check_placement(run, p, (conform_placement)(run->n_problems % (size_t)n));
        return;
    }
    for (int i = 0; i < n; i++)
        check_placement(run, p, (conform_placement)i);
}

/* ---- What sections call ---- */

static void check_profiles(conform *run, problem *p)
{
    int n = p->op == MX_OP_QDQ ? MX_PROFILE_COUNT : 1;
    for (int profile = 0; profile < n; profile++) {
        p->profile = (mx_profile)profile;
        check_problem(run, p);
    }
}

/* Input for a problem; plain values serve all formats unless they follow the format's scale. */
static const void *fill_input(conform *run, const problem *p, int is_first)
{
    int64_t n_blocks = mx_case_blocks(&p->geometry->x);
    size_t bytes = (size_t)n_blocks * MX_BLOCK_ELEMENTS * 4;
    if (p->op == MX_OP_FROM) {
        void *records = image_of(&run->records, bytes);
        conform_fill_packed(p->source, p->format, p->dtype, records, n_blocks);
        return records;
    }
    if (is_first || p->source->values == CONFORM_CLAMP)
        conform_fill_plain(p->source, p->format, p->dtype, image_of(&run->elements, bytes),
                           n_blocks);
    return run->elements.data;
}

static void check_dtype(conform *run, problem *p, const conform_keys *keys)
{
    const conform_options *options = &run->options;
    int is_first = 1;
    for (int i = 0; i < MX_FORMAT_PACKED_COUNT * MX_OP_COUNT; i++) {
        p->format = (mx_format)(i / MX_OP_COUNT);
        p->op = (mx_op)(i % MX_OP_COUNT);
        if (!in_set(keys->ops, (int)p->op) || !in_set(options->ops, (int)p->op) ||
            !in_set(keys->formats, (int)p->format) || !in_set(options->formats, (int)p->format))
            continue;
        p->input = fill_input(run, p, is_first);
        if (p->op != MX_OP_FROM)
            is_first = 0;
        check_profiles(run, p);
    }
}

void conform_check(conform *run, const conform_geometry *geometry, const conform_source *source,
                   const conform_keys *keys)
{
    for (int dtype = 0; dtype < MX_DTYPE_COUNT; dtype++) {
        problem p = {
            .geometry = geometry, .source = source, .dtype = (mx_dtype)dtype, .flags = keys->flags};
        if (in_set(keys->dtypes, dtype) && in_set(run->options.dtypes, dtype))
            check_dtype(run, &p, keys);
    }
}

void conform_check_bytes(conform *run, const conform_geometry *geometry, mx_op op, mx_format format,
                         mx_dtype dtype, const void *input, const void *output)
{
    const conform_options *options = &run->options;
    problem p = {.geometry = geometry,
                 .op = op,
                 .format = format,
                 .dtype = dtype,
                 .input = input,
                 .output = output};
    if (in_set(options->ops, (int)op) && in_set(options->formats, (int)format) &&
        in_set(options->dtypes, (int)dtype))
        check_problem(run, &p);
}

/* ---- Runs ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const known_variant *)a)->name, ((const known_variant *)b)->name);
}

/* Whether the options ask for the variant, which is one of this device's. */
static int wanted(conform *run, const mxrt_variant_info *info, mx_layout *layout)
{
    const conform_options *options = &run->options;
    mx_op op;
    mx_format format;
    mx_dtype dtype;
    if (strcmp(info->target, run->target) || mx_op_parse(info->op, &op) ||
        mx_format_parse(info->format, &format) || mx_dtype_parse(info->dtype, &dtype) ||
        mx_layout_parse(info->layout, layout) || !in_set(options->ops, (int)op) ||
        !in_set(options->formats, (int)format) || !in_set(options->dtypes, (int)dtype) ||
        !in_set(options->layouts, (int)*layout))
        return 0;
    run->dtypes[op][format] |= 1u << dtype;
    return 1;
}

/* The device's own target; a host may run kernels for lesser ones if the pack has no better. */
static void choose_target(conform *run)
{
    mxrt_variant_info info;
    run->target = run->info.target;
    for (size_t i = 0; i < mxrt_pack_variant_count(run->pack); i++) {
        if (mxrt_pack_variant(run->pack, i, &info, NULL))
            continue;
        if (!strcmp(info.target, run->info.target)) {
            run->target = run->info.target;
            return;
        }
        if (run->is_host && !strncmp(info.target, "host-", 5))
            run->target = info.target;
    }
}

static mx_status list_variants(conform *run, mx_error *err)
{
    size_t n = mxrt_pack_variant_count(run->pack);
    choose_target(run);
    run->variants = calloc(n ? n : 1, sizeof(*run->variants));
    if (!run->variants)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu variants", n);
    for (size_t i = 0; i < n; i++) {
        mxrt_variant_info info;
        mx_layout layout;
        mx_status status = mxrt_pack_variant(run->pack, i, &info, err);
        if (status)
            return status;
        if (wanted(run, &info, &layout))
            run->variants[run->n_variants++] = (known_variant){.name = info.name, .layout = layout};
    }
    if (!run->n_variants)
        return mx_fail(err, MX_ERR_INVALID, "%s has no kernel for %s that is asked for",
                       run->options.pack, run->info.target);
    qsort(run->variants, run->n_variants, sizeof(*run->variants), by_name);
    run->totals.variants = run->n_variants;
    return MX_OK;
}

mx_status conform_create(const conform_options *options, conform **out, mx_error *err)
{
    conform *run = calloc(1, sizeof(*run));
    mx_status status;
    if (!run)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory");
    run->options = *options;
    if ((status = mxrt_context_create(NULL, &run->context, err)) ||
        (status = mxrt_context_add_pack_file(run->context, options->pack, err)) ||
        (status = mxrt_device_open(run->context, options->uri ? options->uri : "host", &run->device,
                                   err)) ||
        (status = mxrt_device_get_info(run->device, &run->info, err)) ||
        (status = mxrt_pack_open(options->pack, &run->pack, err))) {
        conform_destroy(run);
        return status;
    }
    run->is_host = run->info.dl_device.device_type == kDLCPU;
    if ((status = list_variants(run, err))) {
        conform_destroy(run);
        return status;
    }
    conform_memory_init(&run->in_memory, run->device, run->is_host);
    conform_memory_init(&run->out_memory, run->device, run->is_host);
    for (int i = 2; i < CONFORM_SIDES; i++)
        conform_memory_init(conform_memory_of(run, i), run->device, run->is_host);
    catch_crashes();
    *out = run;
    return MX_OK;
}

void conform_destroy(conform *run)
{
    if (!run)
        return;
    image *images[] = {&run->elements, &run->records, &run->input,    &run->blocks,
                       &run->mask,     &run->poison,  &run->expected, &run->found};
    for (size_t i = 0; i < sizeof(images) / sizeof(images[0]); i++)
        free(images[i]->data);
    if (run->device) {
        conform_memory_finish(&run->in_memory);
        conform_memory_finish(&run->out_memory);
        for (int i = 2; i < CONFORM_SIDES; i++)
            conform_memory_finish(conform_memory_of(run, i));
    }
    free(run->variants);
    mxrt_pack_close(run->pack);
    mxrt_device_close(run->device);
    mxrt_context_destroy(run->context);
    free(run);
}

size_t conform_section_count(void)
{
    return conform_n_sections;
}

const char *conform_section_name(size_t section)
{
    return conform_sections[section].name;
}

void conform_run_section(conform *run, size_t section)
{
    conform_sections[section].run(run);
}

void conform_check_coverage(conform *run)
{
    run->totals.unreached = 0;
    for (size_t i = 0; i < run->n_variants; i++) {
        if (run->variants[i].runs || run->variants[i].failures)
            continue;
        if (run->totals.unreached++ < MAX_REPORTS)
            fprintf(stderr, "no case reached %s\n", run->variants[i].name);
    }
    run->totals.failed += run->totals.unreached;
}
