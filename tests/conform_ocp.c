/* The OCP formats: data, scales and options, every variant against the reference. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "runtime/reference.h"
#include "tests/conform_engine.h"

enum { N = MX_OCP_BLOCK, MAX_VARIANTS = 512, FORMATS = MX_FORMAT_COUNT - MX_FORMAT_PACKED_COUNT };

/* How scales lie in memory. */
typedef enum scale_memory {
    SCALES_PLAIN = 0,
    SCALES_TRANSPOSED,
    SCALES_GAPS,
    SCALES_COUNT
} scale_memory;

typedef enum side {
    SIDE_IN = 0,
    SIDE_OUT,
    SIDE_SCALES,
    SIDE_COLUMNS, /* of a pair: from here on */
    SIDE_COLUMN_SCALES,
    SIDE_OFFSETS,
    SIDE_PADDED,
    SIDE_COUNT
} side;

/* One operation. Input comes from `source`; of `from`, from every byte in turn. */
typedef struct ocp_problem {
    const conform_geometry *geometry;
    conform_source source;
    mx_op op;
    mx_format format;
    mx_dtype dtype;
    mx_ocp_options options;
    scale_memory scales;
    conform_placement placement;
    unsigned flags;
    int is_turned, turned_axis; /* `from` turns blocks to this axis */
    /* Of a pair, else group_align is 0: */
    int group_align, rotates_columns;
    int64_t groups, capacity, gap; /* gap: bytes between columns */
} ocp_problem;

/* One tensor: on the device, its image on the host, and what it must hold afterwards. */
typedef struct ocp_side {
    conform_place place;
    size_t bytes; /* without guards */
    unsigned char *image, *expected;
    mx_case_tensor tensor;
    int is_output;
} ocp_side;

typedef struct ocp_setting {
    const ocp_problem *problem;
    ocp_side sides[SIDE_COUNT];
    int n_sides;
    mxrt_plan_request request;
    mxrt_ocp_columns columns;
    mxrt_ocp_turned turned;
} ocp_setting;

static const DLDevice cpu = {kDLCPU, 0};

/* ---- Reports ---- */

static void describe(const ocp_problem *p, char *text, size_t size)
{
    const conform_geometry *g = p->geometry;
    const mx_ocp_options *o = &p->options;
    size_t used = (size_t)snprintf(
        text, size,
        "%s %s %s, case %s, values %s position %d seed %llu, rule %d rounding %d zero %d min %d "
        "amax %g plus-zero %d nan %d overflow %d 2-D %d rotate %d, scales %d, memory %d; axis %d",
        mx_op_name(p->op), mx_format_get(p->format)->name, mx_dtype_get(p->dtype)->name, g->name,
        conform_values_name(p->source.values), p->source.position,
        (unsigned long long)p->source.seed, (int)o->scale_rule, (int)o->rounding, o->zero_byte,
        o->min_byte, (double)o->min_amax, o->plus_zero, o->nan_scale, o->overflow, o->two_d,
        o->hadamard, (int)p->scales, (int)p->placement, g->x.axis);
    for (int i = 0; i < g->x.ndim && used < size; i++)
        used +=
            (size_t)snprintf(text + used, size - used, " %lld(%lld,%lld)", (long long)g->x.shape[i],
                             (long long)g->x.strides[i], (long long)g->y.strides[i]);
}

static void fail(conform *run, const ocp_problem *p, const char *variant, const char *why)
{
    char text[1024];
    describe(p, text, sizeof(text));
    conform_report(run, variant, text, why);
}

static void fail_bytes(conform *run, const ocp_problem *p, const char *variant, int which,
                       const ocp_side *s, const unsigned char *found)
{
    static const char *const names[SIDE_COUNT] = {
        "input", "output", "scales", "columns", "columns' scales", "offsets", "padded offsets"};
    char why[256];
    size_t n = 0, first = 0, used;
    for (size_t i = 0; i < s->place.total; i++) {
        if (found[i] != s->expected[i] && !n++)
            first = i;
    }
    used = (size_t)snprintf(why, sizeof(why), "%zu bytes of the %s differ of %zu; first at %zu:", n,
                            names[which], s->bytes, first - s->place.lead);
    for (size_t i = first; i < first + 8 && i < s->place.total; i++)
        used += (size_t)snprintf(why + used, sizeof(why) - used, " %02x(%02x)", found[i],
                                 s->expected[i]);
    fail(run, p, variant, why);
}

/* ---- Tensors ---- */

static mx_status shapes_of(const ocp_problem *p, int64_t data[2], int64_t scales[2], mx_error *err)
{
    const mx_case *c = &p->geometry->x;
    return mxrt_ocp_shape(p->format, &p->options, c->ndim, c->shape, c->axis, data, scales, err);
}

/* A matrix of bytes; returns what it spans. */
static size_t make_bytes(const int64_t shape[2], int64_t row_stride, int64_t stride, int64_t offset,
                         DLDevice device, void *base, mx_case_tensor *out)
{
    const DLDataType type = {.code = kDLUInt, .bits = 8, .lanes = 1};
    char *data = base ? (char *)base + offset : NULL;
    mx_case_contiguous(type, device, 2, shape, data, out);
    out->strides[0] = row_stride;
    out->strides[1] = stride;
    if (!shape[0] || !shape[1])
        return 0;
    return (size_t)(offset + (shape[0] - 1) * row_stride + (shape[1] - 1) * stride + 1);
}

static size_t make_scales(const ocp_problem *p, const int64_t shape[2], DLDevice device, void *base,
                          mx_case_tensor *out)
{
    if (p->scales == SCALES_TRANSPOSED)
        return make_bytes(shape, 1, shape[0], 0, device, base, out);
    if (p->scales == SCALES_GAPS)
        return make_bytes(shape, 2 * shape[1] + 3, 2, 1, device, base, out);
    return make_bytes(shape, shape[1], 1, 0, device, base, out);
}

static int is_pair(const ocp_problem *p)
{
    return p->group_align != 0;
}

static size_t make_offsets(const ocp_problem *p, DLDevice device, void *base, mx_case_tensor *out)
{
    const DLDataType type = {.code = kDLInt, .bits = 64, .lanes = 1};
    int64_t shape[] = {p->groups + 1};
    mx_case_contiguous(type, device, 1, shape, base, out);
    return p->groups ? (size_t)shape[0] * sizeof(int64_t) : 0;
}

/* One of a pair's own tensors. */
static size_t make_column_side(const ocp_problem *p, int which, DLDevice device, void *base,
                               mx_case_tensor *out)
{
    const mx_case *c = &p->geometry->x;
    int64_t blocks = p->capacity / N, bytes = blocks * mx_format_get(p->format)->block_bytes;
    int64_t data[] = {conform_length(c), bytes}, scales[] = {data[0], blocks};
    if (p->is_turned)
        mxrt_ocp_shape(p->format, &p->options, c->ndim, c->shape, p->turned_axis, data, scales,
                       NULL);
    bytes = data[1];
    if (which == SIDE_COLUMNS)
        return make_bytes(data, bytes + p->gap, 1, 0, device, base, out);
    if (which == SIDE_COLUMN_SCALES)
        return make_scales(p, scales, device, base, out);
    return make_offsets(p, device, base, out);
}

/* The tensor of one side on memory at `base`; returns the memory it spans. */
static size_t make_side(const ocp_problem *p, int which, DLDevice device, void *base,
                        mx_case_tensor *out)
{
    const conform_geometry *g = p->geometry;
    int64_t data[2] = {0, 0}, scales[2] = {0, 0};
    shapes_of(p, data, scales, NULL);
    if (which == SIDE_SCALES)
        return make_scales(p, scales, device, base, out);
    if (which > SIDE_SCALES)
        return make_column_side(p, which, device, base, out);
    if (p->op == (which == SIDE_IN ? MX_OP_FROM : MX_OP_TO)) {
        int64_t step = g->x.packed_byte_stride ? g->x.packed_byte_stride : 1;
        return make_bytes(data, data[1] * step + g->x.packed_block_gap, step, g->x.packed_offset,
                          device, base, out);
    }
    const mx_case *c = which == SIDE_OUT ? &g->y : &g->x;
    mx_case_plain(c, p->dtype, device, base, out);
    return (size_t)mx_case_plain_bytes(c, p->dtype);
}

/* ---- Memory ---- */

static void fill_random(unsigned char *bytes, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t word = mx_case_random(&seed);
        bytes[i] = (unsigned char)(word >> 32);
    }
}

/* All of the memory, gaps included. */
static void fill_plain(const ocp_problem *p, unsigned char *base, size_t bytes)
{
    int element_bytes = mx_dtype_get(p->dtype)->bytes;
    int64_t n = (int64_t)bytes / element_bytes;
    conform_source source = p->source;
    if (source.values < MX_VALUES_COUNT)
        mx_case_fill((mx_values)source.values, source.seed, p->dtype, base, n);
    else /* in halves of blocks, which the formats' neighbours have as blocks */
        conform_fill_plain(&source, MX_FORMAT_MX9, p->dtype, base, n / MX_BLOCK_ELEMENTS);
}

/* A request on the tensors of all sides. */
static void set_tensors(const ocp_setting *s, mx_case_tensor *const tensors[SIDE_COUNT],
                        mxrt_ocp_columns *columns, mxrt_ocp_turned *turned,
                        mxrt_plan_request *request)
{
    const ocp_problem *p = s->problem;
    request->in = &tensors[SIDE_IN]->tensor;
    request->out = &tensors[SIDE_OUT]->tensor;
    request->scales = s->n_sides > SIDE_SCALES ? &tensors[SIDE_SCALES]->tensor : NULL;
    request->columns = NULL;
    request->turned = NULL;
    if (p->is_turned) {
        *turned = (mxrt_ocp_turned){p->turned_axis, &tensors[SIDE_COLUMNS]->tensor,
                                    &tensors[SIDE_COLUMN_SCALES]->tensor};
        request->turned = turned;
    }
    if (!is_pair(p))
        return;
    *columns = (mxrt_ocp_columns){
        .data = &tensors[SIDE_COLUMNS]->tensor,
        .scales = &tensors[SIDE_COLUMN_SCALES]->tensor,
        .offsets = p->groups ? &tensors[SIDE_OFFSETS]->tensor : NULL,
        .padded_offsets = p->groups ? &tensors[SIDE_PADDED]->tensor : NULL,
        .group_align = p->group_align,
        .hadamard = p->rotates_columns,
    };
    request->columns = columns;
}

/* What is turned, in two steps by way of memory of its own. */
static mx_status turn_by_reference(const ocp_problem *p, const mxrt_plan_request *request,
                                   mx_error *err)
{
    const mx_case *y = &p->geometry->y;
    void *between = malloc((size_t)mx_case_plain_bytes(y, p->dtype) + 1);
    mx_case_tensor tensor;
    mxrt_plan_request from = *request, to = *request;
    if (!between)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory");
    mx_case_plain(y, p->dtype, cpu, between, &tensor);
    from.out = to.in = &tensor.tensor;
    from.turned = to.turned = NULL;
    to.op = MX_OP_TO;
    to.axis = request->turned->axis;
    to.out = request->turned->data;
    to.scales = request->turned->scales;
    mx_status status = mxrt_reference_run(&from, err);
    if (!status)
        status = mxrt_reference_run(&to, err);
    free(between);
    return status;
}

/* Runs the reference on one background of the outputs. */
static mx_status run_reference(ocp_setting *s, unsigned char *images[SIDE_COUNT], mx_error *err)
{
    const ocp_problem *p = s->problem;
    mx_case_tensor tensors[SIDE_COUNT], *list[SIDE_COUNT];
    mxrt_plan_request request = s->request;
    mxrt_ocp_columns columns;
    mxrt_ocp_turned turned;
    for (int i = 0; i < SIDE_COUNT; i++)
        list[i] = &tensors[i];
    for (int i = 0; i < s->n_sides; i++)
        make_side(p, i, cpu, images[i] + s->sides[i].place.lead, &tensors[i]);
    set_tensors(s, list, &columns, &turned, &request);
    return p->is_turned ? turn_by_reference(p, &request, err) : mxrt_reference_run(&request, err);
}

/* Where groups begin: in order and out of it, some beyond the rows. */
static void fill_offsets(const ocp_problem *p, unsigned char *base)
{
    int64_t rows = conform_rows(&p->geometry->x);
    uint64_t state = p->source.seed;
    for (int64_t g = 0; p->groups && g <= p->groups; g++) {
        int64_t offset = g == p->groups ? rows : g * rows / p->groups;
        uint64_t random = mx_case_random(&state);
        offset += (random & 3) == 0 ? (int64_t)(random >> 8 & 0xff) - 127 : 0;
        memcpy(base + g * (int64_t)sizeof(offset), &offset, sizeof(offset));
    }
}

/* Inputs; expected outputs; and outputs poisoned such that no byte of them is right by chance: what
 * the reference writes is what it makes of two backgrounds that differ everywhere. */
static mx_status fill_sides(ocp_setting *s, mx_error *err)
{
    const ocp_problem *p = s->problem;
    unsigned char *first[SIDE_COUNT], *second[SIDE_COUNT];
    for (int i = 0; i < s->n_sides; i++) {
        ocp_side *at = &s->sides[i];
        fill_random(at->image, at->place.total, p->source.seed + (uint64_t)i);
        if (i == SIDE_IN && p->op != MX_OP_FROM)
            fill_plain(p, at->image + at->place.lead, at->bytes);
        if (i == SIDE_OFFSETS)
            fill_offsets(p, at->image + at->place.lead);
        memcpy(at->expected, at->image, at->place.total);
        for (size_t k = 0; at->is_output && k < at->place.total; k++)
            at->image[k] = (unsigned char)~at->image[k];
        first[i] = at->expected;
        second[i] = at->image;
    }
    mx_status status = run_reference(s, first, err);
    if (!status)
        status = run_reference(s, second, err);
    for (int i = 0; i < s->n_sides; i++) {
        ocp_side *at = &s->sides[i];
        for (size_t k = 0; at->is_output && k < at->place.total; k++)
            at->image[k] = (unsigned char)(at->image[k] == at->expected[k] ? ~at->expected[k]
                                                                           : at->expected[k]);
    }
    return status;
}

static void free_sides(ocp_setting *s)
{
    for (int i = 0; i < s->n_sides; i++) {
        free(s->sides[i].image);
        free(s->sides[i].expected);
    }
}

static mx_status place_sides(conform *run, ocp_setting *s, mx_error *err)
{
    const ocp_problem *p = s->problem;
    for (int i = 0; i < s->n_sides; i++) {
        ocp_side *at = &s->sides[i];
        at->bytes = make_side(p, i, cpu, NULL, &at->tensor);
        at->is_output = (i == SIDE_OUT && !p->is_turned) ||
                        (i == SIDE_SCALES && p->op == MX_OP_TO) ||
                        (i > SIDE_SCALES && i != SIDE_OFFSETS);
        mx_status status = conform_memory_place(conform_memory_of(run, i), p->placement, at->bytes,
                                                &at->place, err);
        if (status)
            return status;
        at->image = malloc(at->place.total + 1);
        at->expected = malloc(at->place.total + 1);
        if (!at->image || !at->expected) {
            fprintf(stderr, "no memory\n");
            exit(1);
        }
    }
    return MX_OK;
}

/* ---- Runs ---- */

static mx_status launch(mxrt_device *device, ocp_setting *s, mx_error *err)
{
    mxrt_plan *plan = NULL;
    for (int i = 0; i < s->n_sides; i++) {
        const ocp_side *at = &s->sides[i];
        mx_status status = at->place.total ? mxrt_device_upload(device, at->place.begin, at->image,
                                                                at->place.total, err)
                                           : MX_OK;
        if (status)
            return status;
    }
    mx_status status;
    if (s->problem->is_turned && !s->request.variant) {
        const mxrt_plan_request *r = &s->request;
        status = mxrt_ocp_requantize(device, r->format, r->options, r->axis, r->in, r->scales,
                                     r->turned->axis, r->out, r->turned->data, r->turned->scales,
                                     NULL, err);
    } else {
        status = mxrt_plan_create(device, &s->request, &plan, err);
        if (!status)
            status = mxrt_plan_run(plan, NULL, NULL, NULL, err);
    }
    if (!status)
        status = mxrt_device_synchronize(device, NULL, err);
    mxrt_plan_destroy(plan);
    return status;
}

static int is_right(conform *run, ocp_setting *s, const char *label, unsigned char *found)
{
    mx_error error = {MX_OK, ""};
    for (int i = 0; i < s->n_sides; i++) {
        const ocp_side *at = &s->sides[i];
        if (at->place.total && mxrt_device_download(conform_device(run, NULL), found,
                                                    at->place.begin, at->place.total, &error)) {
            fail(run, s->problem, label, error.message);
            return 0;
        }
        /* Two steps go by way of this. */
        if (i == SIDE_OUT && s->problem->is_turned && !s->request.variant)
            continue;
        if (memcmp(found, at->expected, at->place.total)) {
            fail_bytes(run, s->problem, label, i, at, found);
            return 0;
        }
    }
    return 1;
}

static void check_variant(conform *run, ocp_setting *s, const char *variant, unsigned char *found)
{
    const char *label = variant ? variant : "(best)";
    mx_error error = {MX_OK, ""};
    s->request.variant = variant;
    int right = 0;
    if (launch(conform_device(run, NULL), s, &error))
        fail(run, s->problem, label, error.message);
    else
        right = is_right(run, s, label, found);
    conform_count(run, variant, right);
}

static void check_variants(conform *run, ocp_setting *s)
{
    const char *names[MAX_VARIANTS];
    mx_error error = {MX_OK, ""};
    size_t n = 0, most = 0;
    mx_status status =
        mxrt_plan_variants(conform_device(run, NULL), &s->request, names, MAX_VARIANTS, &n, &error);
    if (status && !(status == MX_ERR_UNSUPPORTED && s->problem->is_turned)) {
        fail(run, s->problem, "(list)", error.message);
        return;
    }
    for (int i = 0; i < s->n_sides; i++)
        most = s->sides[i].place.total > most ? s->sides[i].place.total : most;
    unsigned char *found = malloc(most + 1);
    size_t n_applicable = n;
    n = conform_choose(run, names, n, s->problem->flags);
    for (size_t i = 0; found && i < n; i++)
        check_variant(run, s, names[i], found);
    if (found && n_applicable && !(s->problem->flags & CONFORM_UNREACHED_ONLY))
        check_variant(run, s, NULL, found);
    /* Pairs on the host are the reference's; what no kernel turns goes in two steps. */
    if (!n_applicable && (s->problem->is_turned || (is_pair(s->problem) && conform_is_host(run))))
        check_variant(run, s, NULL, found);
    else if (!n_applicable)
        fail(run, s->problem, "(none)", "no kernel applies");
    free(found);
}

static void check(conform *run, const ocp_problem *p)
{
    mx_error error = {MX_OK, ""};
    mxrt_device_info info;
    if (!conform_has(run, p->op, p->format, p->dtype))
        return;
    ocp_setting s = {.problem = p,
                     .n_sides = is_pair(p)           ? SIDE_COUNT
                                : p->is_turned       ? SIDE_OFFSETS
                                : p->op == MX_OP_QDQ ? SIDE_SCALES
                                                     : SIDE_COLUMNS};
    mx_case_tensor *tensors[SIDE_COUNT];
    s.request = (mxrt_plan_request){
        .op = p->op, .format = p->format, .axis = p->geometry->x.axis, .options = &p->options};
    conform_device(run, &info);
    mx_status status = place_sides(run, &s, &error);
    if (!status)
        status = fill_sides(&s, &error);
    if (status) {
        fail(run, p, "(reference)", error.message);
        free_sides(&s);
        return;
    }
    for (int i = 0; i < s.n_sides; i++)
        make_side(p, i, info.dl_device, s.sides[i].place.begin + s.sides[i].place.lead,
                  &s.sides[i].tensor);
    for (int i = 0; i < SIDE_COUNT; i++)
        tensors[i] = &s.sides[i].tensor;
    set_tensors(&s, tensors, &s.columns, &s.turned, &s.request);
    check_variants(run, &s);
    free_sides(&s);
}

/* ---- Sections ---- */

/* Profiles in turn, and then anything. */
static mx_ocp_options options_in_turn(uint64_t n)
{
    static const float least[] = {0, 0, 1e-30f, 0.5f};
    uint64_t state = n, random = mx_case_random(&state);
    if (n % 3 < 2)
        return mx_ocp_preset((mx_ocp_profile)(n / 3 * 2 + n % 3) % MX_OCP_PROFILE_COUNT);
    return (mx_ocp_options){.scale_rule = (mx_scale_rule)(random % MX_SCALE_RULE_COUNT),
                            .rounding = (mx_rounding)(random >> 8 & 0xff) % MX_ROUNDING_COUNT,
                            .seed = random * 3,
                            .zero_byte = (uint8_t)(random >> 16) % 255,
                            .min_byte = random >> 60 & 1 ? (uint8_t)(random >> 24) % 140 : 0,
                            .min_amax = least[random >> 32 & 3],
                            .plus_zero = random >> 34 & 1,
                            .nan_scale = random >> 35 & 1,
                            .overflow = random >> 36 & 1,
                            .two_d = (random >> 37 & 3) == 0,
                            .hadamard = (random >> 39 & 3) == 0};
}

/* Keys in turn, so that a long list stays quick. */
static ocp_problem problem_in_turn(conform *run, uint64_t n)
{
    const conform_options *options = conform_get_options(run);
    int is_host = conform_is_host(run);
    return (ocp_problem){
        .source = {(int)(n % CONFORM_ALONE), 0, options->seed + n},
        .format = (mx_format)(MX_FORMAT_PACKED_COUNT + n % FORMATS),
        .dtype = (mx_dtype)(n / FORMATS % MX_DTYPE_COUNT),
        .scales = (scale_memory)(n / 2 % SCALES_COUNT),
        .options = options_in_turn(n),
        .placement =
            (conform_placement)(n % (is_host ? CONFORM_PLACEMENT_COUNT : CONFORM_FENCE_BEGIN)),
    };
}

/* The same, of the keys that the pack has for an operation: for sections that are short. */
static ocp_problem problem_of_keys(conform *run, mx_op op, uint64_t n)
{
    ocp_problem p = problem_in_turn(run, n);
    uint64_t count = 0, wanted = n;
    for (int pass = 0; pass < 2; pass++) {
        wanted = count ? n % count : n;
        count = 0;
        for (int key = 0; key < FORMATS * MX_DTYPE_COUNT; key++) {
            mx_format format = (mx_format)(MX_FORMAT_PACKED_COUNT + key % FORMATS);
            mx_dtype dtype = (mx_dtype)(key / FORMATS);
            if (!conform_has(run, op, format, dtype))
                continue;
            if (count++ == wanted) {
                p.format = format;
                p.dtype = dtype;
            }
        }
    }
    p.op = op;
    return p;
}

/* Whether the run is of the kernels that make columns, too. */
static int has_pairs(const conform *run)
{
    unsigned layouts = conform_get_options(run)->layouts;
    return !layouts || layouts >> MX_LAYOUT_PAIR & 1;
}

static void check_ops(conform *run, ocp_problem *p)
{
    for (int op = 0; op < MX_OP_COUNT; op++) {
        p->op = (mx_op)op;
        check(run, p);
    }
}

static void round_up(mx_case *c, int64_t multiple)
{
    int axis = c->axis < 0 ? c->axis + c->ndim : c->axis;
    c->shape[axis] = (c->shape[axis] + multiple - 1) / multiple * multiple;
}

void conform_run_ocp_memory(conform *run)
{
    const conform_options *options = conform_get_options(run);
    uint64_t n = options->quick ? 36 : 216;
    for (uint64_t i = 0; i < n * MX_LAYOUT_COUNT; i++) {
        mx_layout layout = (mx_layout)(i % MX_LAYOUT_COUNT);
        uint64_t turn = i / MX_LAYOUT_COUNT;
        conform_geometry g =
            conform_geometry_random(layout, options->seed * 1000 + turn, options->quick);
        if (layout == MX_LAYOUT_FLAT) {
            round_up(&g.x, N);
            g.y = g.x;
        }
        if (g.x.is_broadcast)
            g.x = g.y;
        ocp_problem p = problem_in_turn(run, turn);
        p.geometry = &g;
        check_ops(run, &p);
    }
}

/* Contiguous rows of whole blocks. */
static conform_geometry plain_geometry(const char *name, int64_t n_blocks)
{
    int64_t shape[] = {n_blocks / 4, 4 * N};
    return conform_geometry_shape(name, 2, shape, 1);
}

void conform_run_ocp_values(conform *run)
{
    const conform_options *options = conform_get_options(run);
    conform_geometry g = plain_geometry("values", options->quick ? 64 : 512);
    uint64_t profiles = options->quick ? 2 : MX_OCP_PROFILE_COUNT + 2;
    for (uint64_t i = 0; i < (uint64_t)FORMATS * MX_DTYPE_COUNT * CONFORM_ALONE * profiles; i++) {
        ocp_problem p = problem_in_turn(run, i);
        uint64_t profile = i / ((uint64_t)FORMATS * MX_DTYPE_COUNT * CONFORM_ALONE);
        p.source.values = (int)(i / ((uint64_t)FORMATS * MX_DTYPE_COUNT) % CONFORM_ALONE);
        p.geometry = &g;
        p.scales = SCALES_PLAIN;
        p.placement = CONFORM_GUARDED;
        p.flags = CONFORM_BEST_ONLY;
        if (profile < MX_OCP_PROFILE_COUNT && !options->quick)
            p.options = mx_ocp_preset((mx_ocp_profile)profile);
        check(run, &p);
        p.op = MX_OP_QDQ;
        check(run, &p);
    }
}

/* Every pattern of the 16-bit types at every position, alone and among others. */
void conform_run_ocp_patterns(conform *run)
{
    const conform_options *options = conform_get_options(run);
    /* Simulated chips take all: there are few kernels that do. */
    conform_geometry g =
        plain_geometry("patterns", options->quick && conform_is_host(run) ? 256 : 32768);
    for (uint64_t i = 0; i < (uint64_t)FORMATS * MX_DTYPE_COUNT; i++) {
        ocp_problem p = problem_in_turn(run, i);
        p.geometry = &g;
        p.scales = SCALES_PLAIN;
        p.placement = CONFORM_GUARDED;
        p.flags = CONFORM_BEST_ONLY;
        p.options = mx_ocp_preset((mx_ocp_profile)(i % MX_OCP_PROFILE_COUNT));
        p.source.values = CONFORM_MIXED;
        check(run, &p);
        p.source.values = CONFORM_NEAR;
        p.source.position = (int)(i % MX_BLOCK_ELEMENTS);
        check(run, &p);
        p.op = MX_OP_FROM; /* random bytes: every code with every scale */
        check(run, &p);
    }
}

/* A matrix with gaps between its rows; or, of a pair with options, rows that do not merge, elements
 * apart, packed blocks and bytes apart. */
static conform_geometry pair_geometry(uint64_t i, int64_t rows, int64_t len, int any)
{
    int64_t shape[] = {rows, len}, parts[] = {rows / 3, 3, len};
    int has_parts = any && i % 3 == 0 && rows % 3 == 0;
    int64_t apart = any && i % 4 == 1 ? 2 : 1, gap = any ? (int64_t)(i % 5) : 8 * (int64_t)(i % 3);
    conform_geometry g = conform_geometry_shape("pair", has_parts ? 3 : 2,
                                                has_parts ? parts : shape, has_parts ? 2 : 1);
    if (i % 3 || has_parts) {
        int64_t *strides = g.x.strides + (has_parts ? 1 : 0);
        g.x.strided = 1;
        strides[1] = apart;
        strides[0] = len * apart + gap;
        if (has_parts) /* columns of the three are side by side */
            g.x.strides[0] = 3 * strides[0] + 1;
    }
    if (any && i % 4 == 2) {
        g.x.packed_block_gap = (int64_t)(i % 7);
        g.x.packed_byte_stride = 1 + (int64_t)(i % 3);
        g.x.packed_offset = (int64_t)(i % 5);
    }
    return g;
}

/* Rows and columns at once: groups of every size, some without rows, some offsets out of order. The
 * odd ones have any options, types, sizes, strides and paddings. */
void conform_run_ocp_pairs(conform *run)
{
    static const int64_t rows[] = {1, 31, 128, 129, 200, 333, 500};
    static const int64_t lengths[] = {8, 32, 64, 72, 136, 200, 264};
    static const int64_t odd_lengths[] = {1, 31, 33, 72, 129, 200, 270};
    static const int aligns[] = {32, 128, 96, 256, 64};
    const conform_options *options = conform_get_options(run);
    uint64_t n = !has_pairs(run) ? 0 : options->quick ? 16 : 288;
    for (uint64_t i = 0; i < n; i++) {
        ocp_problem p = problem_of_keys(run, MX_OP_TO, i / 2);
        int any = i % 2 != 0;
        uint64_t turn = i / 2;
        int64_t len = (any ? odd_lengths : lengths)[(turn + turn / 7) % 7];
        conform_geometry g = pair_geometry(turn, rows[turn % 7], len, any);
        p.geometry = &g;
        p.options.two_d = 0;
        if (!any) {
            p.options = mx_ocp_preset((mx_ocp_profile)(turn % MX_OCP_PROFILE_COUNT));
            p.options.rounding = MX_ROUND_EVEN;
            p.options.plus_zero = 0;
        }
        p.groups = (int64_t)(turn / 2 % 6);
        p.group_align = any ? aligns[turn % 5] : turn % 4 == 3 ? 256 : 128;
        p.rotates_columns = any ? turn % 2 : turn % 5 == 1;
        p.capacity = mxrt_ocp_columns_capacity(rows[turn % 7], p.groups, p.group_align) +
                     (int64_t)(turn % 2) * p.group_align;
        p.gap = any ? 5 * (int64_t)(turn % 3) : 16 * (int64_t)(turn % 3);
        p.placement = CONFORM_GUARDED;
        check(run, &p);
    }
}

/* Blocks turned to another axis: of matrices, either way, and of several, wherever their
 * dimensions stand. */
void conform_run_ocp_turned(conform *run)
{
    static const struct {
        int ndim, axis, to;
        char order[5]; /* of the rows, elements and matrices */
    } kinds[] = {{2, 1, 0, "rl"},  {2, 0, 1, "lr"},   {3, 2, 1, "brl"}, {3, 0, 2, "lbr"},
                 {3, 2, 0, "rbl"}, {4, 3, 1, "brBl"}, {3, -2, 2, "blr"}};
    static const int64_t rows[] = {33, 64, 100, 1, 250, 129, 300};
    static const int64_t lengths[] = {200, 31, 33, 72, 129, 1, 270};
    const conform_options *options = conform_get_options(run);
    uint64_t n = !has_pairs(run) ? 0 : conform_is_host(run) ? 7 : options->quick ? 14 : 252;
    for (uint64_t i = 0; i < n; i++) {
        ocp_problem p = problem_of_keys(run, MX_OP_FROM, i);
        uint64_t kind = (i + i / 7) % 7;
        int64_t shape[4];
        for (int d = 0; d < kinds[kind].ndim; d++) {
            char what = kinds[kind].order[d];
            shape[d] = what == 'r'   ? rows[i % 7]
                       : what == 'l' ? lengths[(i / 2) % 7]
                       : what == 'b' ? 2
                                     : 3;
        }
        conform_geometry g =
            conform_geometry_shape("turned", kinds[kind].ndim, shape, kinds[kind].axis);
        g.x.packed_block_gap = i % 5 == 4 ? 32 : 0;
        p.geometry = &g;
        p.is_turned = 1;
        p.turned_axis = kinds[kind].to;
        p.options.two_d = i % 11 == 10;
        p.gap = i % 13 == 12 ? 16 : 0;
        p.placement = CONFORM_GUARDED;
        if (conform_has(run, MX_OP_TO, p.format, p.dtype))
            check(run, &p);
    }
}

/* Memory of every layout, with and without options: reaches what the rest left. */
void conform_run_ocp_reach(conform *run)
{
    static const int64_t flat[] = {9, 16 * N}, tiles[] = {20 * N, 192};
    const conform_options *options = conform_get_options(run);
    for (uint64_t i = 0; i < (uint64_t)FORMATS * MX_DTYPE_COUNT * MX_LAYOUT_COUNT * 2; i++) {
        mx_layout layout = (mx_layout)(i / ((uint64_t)FORMATS * MX_DTYPE_COUNT) % MX_LAYOUT_COUNT);
        int all = i / ((uint64_t)FORMATS * MX_DTYPE_COUNT) / MX_LAYOUT_COUNT != 0;
        ocp_problem p = problem_in_turn(run, i);
        conform_geometry g =
            conform_geometry_shape("reach", 2, layout == MX_LAYOUT_TILES ? tiles : flat,
                                   layout == MX_LAYOUT_TILES ? 0 : 1);
        if (layout == MX_LAYOUT_ROWS || layout == MX_LAYOUT_GENERAL) {
            g.x.strided = 1;
            g.x.strides[1] = layout == MX_LAYOUT_ROWS ? 1 : 2;
            g.x.strides[0] = g.x.strides[1] * g.x.shape[1] + 8;
            g.y = g.x;
        }
        p.source = (conform_source){CONFORM_EXPONENTS, 0, options->seed + i};
        p.geometry = &g;
        p.scales = SCALES_PLAIN;
        p.placement = CONFORM_GUARDED;
        p.flags = CONFORM_UNREACHED_ONLY;
        p.options = mx_ocp_preset(MX_OCP_ALTO);
        p.options.rounding = all ? MX_ROUND_STOCHASTIC : MX_ROUND_EVEN;
        p.options.two_d = (uint8_t)all;
        check_ops(run, &p);
    }
}
