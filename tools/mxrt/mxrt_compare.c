/* mxrt compare: how the tensors of two files differ; packed ones are restored for it. */
#include "mxrt_compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <mxgen/error.h>

#include "mxrt_logical.h"
#include "mxrt_stream.h"

typedef struct compare_options {
    engine_options engine;
    foreign_options foreign;
    tool_filter filter;
    const char *in[2];
    int64_t max_memory_bytes;
    double min_snr;
    int has_min_snr, json, quiet;
} compare_options;

typedef struct compare_side {
    st_reader *reader;
    logical_list list;
    tool_stream stream;
} compare_side;

/* What came of a tensor. */
typedef enum outcome { SAME = 0, CLOSE, DIFFERS, SHAPES, TYPES, ONLY_A, ONLY_B } outcome;

typedef struct compare_run {
    const compare_options *options;
    tool_engine engine;
    compare_side sides[2];
    tool_progress progress;
    tool_table *rows;
    int n_different, n_compared;
} compare_run;

/* ---- Options ---- */

enum { KEY_INCLUDE = 256, KEY_EXCLUDE, KEY_MAX_MEMORY, KEY_MIN_SNR };

static double parse_decibels(struct argp_state *state, const char *text)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value))
        argp_error(state, "--min-snr \"%s\" is not a number of decibels", text);
    return value;
}

static error_t parse_compare(int key, char *arg, struct argp_state *state)
{
    compare_options *options = state->input;
    tool_filter *filter = &options->filter;
    switch (key) {
    case KEY_INCLUDE:
        tool_filter_parse(state, &filter->include, &filter->has_include, "--include", arg);
        return 0;
    case KEY_EXCLUDE:
        tool_filter_parse(state, &filter->exclude, &filter->has_exclude, "--exclude", arg);
        return 0;
    case KEY_MAX_MEMORY:
        options->max_memory_bytes = tool_parse_bytes(state, "--max-memory", arg, SLAB_MIN_BYTES);
        return 0;
    case KEY_MIN_SNR:
        options->min_snr = parse_decibels(state, arg);
        options->has_min_snr = 1;
        return 0;
    case 'j':
        options->json = 1;
        return 0;
    case 'q':
        options->quiet = 1;
        return 0;
    case ARGP_KEY_INIT:
        options->max_memory_bytes = (int64_t)256 << 20;
        state->child_inputs[0] = &options->engine;
        state->child_inputs[1] = &options->foreign;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 1)
            argp_error(state, "more than two files: \"%s\"", arg);
        options->in[state->arg_num] = arg;
        return 0;
    case ARGP_KEY_END:
        if (!options->in[1])
            argp_error(state, "which files? A and B are wanted");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option compare_option_table[] = {
    {"include", KEY_INCLUDE, "REGEX", 0,
     "Only tensors whose name matches this POSIX extended expression", 2},
    {"exclude", KEY_EXCLUDE, "REGEX", 0, "No tensors whose name matches this one", 2},
    {"min-snr", KEY_MIN_SNR, "DB", 0,
     "Tensors with a signal-to-noise ratio of DB at least do not count as different", 3},
    {"max-memory", KEY_MAX_MEMORY, "BYTES", 0,
     "Hold at most this much of both tensors at a time (default: 256M)", 3},
    {"json", 'j', NULL, 0, "A JSON line a tensor", 4},
    {"quiet", 'q', NULL, 0, "Print nothing: the exit status tells", 4},
    {0}};

/* ---- Lines ---- */

static const char *const outcome_names[] = {
    "same", "close", "differs", "shapes differ", "types differ", "only in A", "only in B"};

static const char *type_name(const logical_tensor *tensor)
{
    if (!tensor)
        return "-";
    return tensor->is_packed ? mx_format_get(tensor->packed.format)->name
                             : st_dtype_name(tensor->data->dtype);
}

static void shape_of(const logical_tensor *tensor, size_t *ndim, const int64_t **shape)
{
    *ndim = tensor->is_packed ? tensor->packed.ndim : tensor->data->ndim;
    *shape = tensor->is_packed ? tensor->packed.shape : tensor->data->shape;
}

/* Element type as values are compared. */
static st_dtype value_type(const logical_tensor *tensor)
{
    return tensor->is_packed ? meta_dtype_to_file(tensor->packed.dtype) : tensor->data->dtype;
}

/* Values were compared, not only bits; and bits, which different types do not share. */
static int has_values(const logical_tensor *const pair[2])
{
    return !pair[0] || compare_has_values(value_type(pair[0]));
}

static int has_bits(const logical_tensor *const pair[2])
{
    return !pair[0] || value_type(pair[0]) == value_type(pair[1]);
}

static json_t *shape_json(const logical_tensor *tensor)
{
    json_t *array = json_array();
    size_t ndim;
    const int64_t *shape;
    shape_of(tensor, &ndim, &shape);
    for (size_t i = 0; i < ndim; i++)
        json_array_append_new(array, json_integer(shape[i]));
    return array;
}

/* `pair` is two NULLs in the line of totals; `sums` is NULL where nothing could be compared. */
static void print_json(const char *name, const logical_tensor *const pair[2],
                       const compare_sums *sums, outcome result)
{
    static const char *const keys[2][2] = {{"a", "a_shape"}, {"b", "b_shape"}};
    json_t *line = json_object();
    json_object_set_new(line, "tensor", name ? json_string(name) : json_null());
    for (int i = 0; i < 2; i++) {
        if (!pair[i])
            continue;
        json_object_set_new(line, keys[i][0], json_string(type_name(pair[i])));
        json_object_set_new(line, keys[i][1], shape_json(pair[i]));
    }
    if (sums) {
        double snr = compare_decibels(sums);
        int values = has_values(pair);
        json_object_set_new(line, "elements", json_integer(sums->elements));
        json_object_set_new(line, "changed", json_integer(sums->changed));
        json_object_set_new(line, "changed_bits",
                            has_bits(pair) ? json_integer(sums->changed_bits) : json_null());
        json_object_set_new(line, "snr_db", values && isfinite(snr) ? json_real(snr) : json_null());
        json_object_set_new(line, "max_error", values ? json_real(sums->max_error) : json_null());
        json_object_set_new(line, "not_finite", json_integer(sums->not_finite));
    }
    json_object_set_new(line, "result", json_string(outcome_names[result]));
    json_dumpf(line, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(line);
}

static void print_figures(tool_table *rows, const logical_tensor *const pair[2],
                          const compare_sums *sums)
{
    double snr = compare_decibels(sums);
    table_cell(rows, "%lld", (long long)sums->elements);
    table_cell(rows, "%lld", (long long)sums->changed);
    if (has_bits(pair))
        table_cell(rows, "%lld", (long long)sums->changed_bits);
    else
        table_cell(rows, "-");
    if (!has_values(pair))
        table_cell(rows, "-");
    else if (sums->noise > 0)
        table_cell(rows, "%.2f", snr);
    else
        table_cell(rows, "exact");
    if (has_values(pair))
        table_cell(rows, "%.6g", sums->max_error);
    else
        table_cell(rows, "-");
    table_cell(rows, "%lld", (long long)sums->not_finite);
}

static void print_line(const compare_run *run, const char *name,
                       const logical_tensor *const pair[2], const compare_sums *sums,
                       outcome result)
{
    char label[ST_PRINTABLE_BYTES], text[TOOL_SHAPE_BYTES];
    tool_table *rows = run->rows;
    const logical_tensor *one = pair[0] ? pair[0] : pair[1];
    const int64_t *shape = NULL;
    size_t ndim = 0;
    if (run->options->quiet)
        return;
    if (run->options->json) {
        print_json(name, pair, sums, result);
        return;
    }
    if (one)
        shape_of(one, &ndim, &shape);
    table_cell(rows, "%s", name ? st_printable(name, label) : "total");
    table_cell(rows, "%s", one ? tool_shape_text(ndim, shape, text) : "");
    for (int i = 0; i < 2; i++)
        table_cell(rows, "%s", one ? type_name(pair[i]) : "");
    if (sums) {
        print_figures(rows, pair, sums);
    } else {
        for (int i = 0; i < 6; i++)
            table_cell(rows, "-");
    }
    table_cell(rows, "%s", outcome_names[result]);
}

/* ---- Values ---- */

/* Both plain: piece by piece. */
static mx_status compare_plain(compare_run *run, const logical_tensor *const pair[2],
                               compare_sums *sums, mx_error *err)
{
    enum { PIECE_ELEMENTS = 1 << 20 };
    int64_t bytes[2], n = PIECE_ELEMENTS;
    for (int i = 0; i < 2; i++)
        bytes[i] = compare_unit_bytes(pair[i]->data->dtype);
    int64_t left = pair[0]->data->size_bytes / bytes[0];
    int64_t most = run->options->max_memory_bytes / (bytes[0] + bytes[1]);
    n = n < left ? n : left;
    n = n < most ? n : most;
    mx_status status = MX_OK;
    for (int i = 0; i < 2 && status == MX_OK; i++)
        status = stream_reserve(&run->sides[i].stream, n * bytes[i], 0, 0, err);
    for (int64_t at = 0; left > 0 && status == MX_OK; at += n, left -= n) {
        n = n < left ? n : left;
        for (int i = 0; i < 2 && status == MX_OK; i++)
            status = st_reader_read(run->sides[i].reader, pair[i]->data, at * bytes[i],
                                    run->sides[i].stream.plain.host, (size_t)(n * bytes[i]), err);
        if (status == MX_OK)
            compare_add(sums, pair[0]->data->dtype, run->sides[0].stream.plain.host,
                        pair[1]->data->dtype, run->sides[1].stream.plain.host, n);
        progress_add(&run->progress, n * (bytes[0] + bytes[1]), pair[0]->name);
    }
    return status;
}

/* Boxes in which the blocks of both sides are whole. */
static mx_status common_boxes(const compare_run *run, const logical_tensor *const pair[2],
                              const stream_walk walks[2], slab_view *view, slab_box *first,
                              mx_error *err)
{
    char name[ST_PRINTABLE_BYTES];
    const meta_packed *packed = pair[0]->is_packed ? &pair[0]->packed : &pair[1]->packed;
    int64_t element_bytes = st_dtype_bits(value_type(pair[0])) / 8;
    element_bytes += st_dtype_bits(value_type(pair[1])) / 8;
    /* 32 elements are one block or two: 36 bytes at most, and a scale, on each side. */
    slab_view_init(view, packed->ndim, packed->shape, packed->axis, element_bytes, 2 * 36,
                   MX_OCP_BLOCK);
    view->scale_bytes = 2;
    if (!walks[0].is_whole && !walks[1].is_whole) {
        slab_first(view, run->options->max_memory_bytes, first);
        return MX_OK;
    }
    slab_whole(view, first);
    int64_t needed = slab_plain_bytes(view, first) + slab_packed_bytes(view, first);
    if (needed > run->options->max_memory_bytes)
        return mx_fail(err, MX_ERR_UNSUPPORTED,
                       "tensor \"%s\" has scales of tiles and is not cut into pieces: it takes "
                       "%lld bytes at once; raise --max-memory",
                       st_printable(pair[0]->name, name), (long long)needed);
    return MX_OK;
}

/* A box of one side, in the host's memory. */
static mx_status read_box(compare_side *side, const logical_tensor *tensor, const stream_walk *walk,
                          const slab_box *box, mx_error *err)
{
    stream_route route = {.reader = side->reader, .tensor = tensor->data, .scales = tensor->scales};
    if (tensor->is_packed)
        return stream_read_packed(&side->stream, &route, walk, box, err);
    mx_status status = stream_reserve(&side->stream, slab_plain_bytes(&walk->view, box), 0, 0, err);
    return status == MX_OK ? stream_read_plain(&side->stream, &route, &walk->view, box, err)
                           : status;
}

static mx_status compare_packed(compare_run *run, const logical_tensor *const pair[2],
                                compare_sums *sums, mx_error *err)
{
    char name[ST_PRINTABLE_BYTES];
    const meta_packed *packed = pair[0]->is_packed ? &pair[0]->packed : &pair[1]->packed;
    stream_walk walks[2] = {{0}};
    slab_view view;
    slab_box first, box;
    mx_status status = MX_OK;
    if (pair[0]->is_packed && pair[1]->is_packed && pair[0]->packed.axis != pair[1]->packed.axis)
        return mx_fail(err, MX_ERR_UNSUPPORTED,
                       "tensor \"%s\" is packed along axis %d in one file and %d in the other; "
                       "dequantize one of them first",
                       st_printable(pair[0]->name, name), pair[0]->packed.axis,
                       pair[1]->packed.axis);
    for (int i = 0; i < 2 && status == MX_OK; i++) {
        if (pair[i]->is_packed)
            status = stream_walk_init(&walks[i], &run->sides[i].stream, pair[i]->name, MX_OP_FROM,
                                      &pair[i]->packed, err);
        else
            slab_view_init(&walks[i].view, packed->ndim, packed->shape, packed->axis,
                           st_dtype_bits(value_type(pair[i])) / 8, 0, MX_OCP_BLOCK);
    }
    if (status == MX_OK)
        status = common_boxes(run, pair, walks, &view, &first, err);
    if (status != MX_OK)
        return status;
    box = first;
    for (int more = 1; more && status == MX_OK; more = slab_next(&view, &first, &box)) {
        for (int i = 0; i < 2 && status == MX_OK; i++)
            status = read_box(&run->sides[i], pair[i], &walks[i], &box, err);
        if (status == MX_OK)
            compare_add(sums, value_type(pair[0]), run->sides[0].stream.plain.host,
                        value_type(pair[1]), run->sides[1].stream.plain.host,
                        slab_plain_bytes(&view, &box) / view.element_bytes);
        progress_add(&run->progress, slab_plain_bytes(&view, &box), pair[0]->name);
    }
    return status;
}

/* ---- Tensors ---- */

static outcome judge(const compare_run *run, const compare_sums *sums)
{
    const compare_options *options = run->options;
    if (!sums->changed)
        return SAME;
    return options->has_min_snr && !sums->not_finite && compare_decibels(sums) >= options->min_snr
               ? CLOSE
               : DIFFERS;
}

static mx_status compare_pair(compare_run *run, const logical_tensor *const pair[2],
                              compare_sums *total, mx_error *err)
{
    compare_sums sums = {0};
    size_t ndim[2];
    const int64_t *shape[2];
    outcome result;
    st_dtype types[2] = {value_type(pair[0]), value_type(pair[1])};
    mx_status status = MX_OK;
    for (int i = 0; i < 2; i++)
        shape_of(pair[i], &ndim[i], &shape[i]);
    if (ndim[0] != ndim[1] || memcmp(shape[0], shape[1], ndim[0] * sizeof(*shape[0])) != 0) {
        print_line(run, pair[0]->name, pair, NULL, SHAPES);
        run->n_different++;
        return MX_OK;
    }
    if (types[0] != types[1] && !(compare_has_values(types[0]) && compare_has_values(types[1]))) {
        print_line(run, pair[0]->name, pair, NULL, TYPES);
        run->n_different++;
        return MX_OK;
    }
    if (!pair[0]->is_packed && !pair[1]->is_packed)
        status = compare_plain(run, pair, &sums, err);
    else if (pair[0]->data->size_bytes > 0 && pair[1]->data->size_bytes > 0)
        status = compare_packed(run, pair, &sums, err);
    if (status != MX_OK)
        return status;
    result = judge(run, &sums);
    print_line(run, pair[0]->name, pair, &sums, result);
    run->n_different += result == DIFFERS;
    run->n_compared++;
    compare_add_sums(total, &sums);
    return MX_OK;
}

static int compare_names(const void *a, const void *b)
{
    const logical_tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

/* The tensors by name, to be released with free(). */
static const logical_tensor **sort_names(const logical_list *list)
{
    const logical_tensor **sorted = calloc(list->n + 1, sizeof(const logical_tensor *));
    for (size_t i = 0; sorted && i < list->n; i++)
        sorted[i] = &list->items[i];
    if (sorted)
        qsort((void *)sorted, list->n, sizeof(*sorted), compare_names);
    return sorted;
}

static const logical_tensor *find_name(const logical_tensor **sorted, size_t n, const char *name)
{
    const logical_tensor key = {.name = name}, *at = &key;
    const logical_tensor **found =
        bsearch((void *)&at, (void *)sorted, n, sizeof(*sorted), compare_names);
    return found ? *found : NULL;
}

/* Tensors of one side that the other lacks, or, of side A, all pairs, in its order. */
static mx_status compare_side_of(compare_run *run, int side, const logical_tensor **others,
                                 compare_sums *total, mx_error *err)
{
    const logical_list *list = &run->sides[side].list;
    mx_status status = MX_OK;
    for (size_t i = 0; i < list->n && status == MX_OK; i++) {
        const logical_tensor *tensor = &list->items[i];
        if (!tool_filter_keeps(&run->options->filter, tensor->data->name))
            continue;
        const logical_tensor *other = find_name(others, run->sides[!side].list.n, tensor->name);
        const logical_tensor *pair[2] = {side ? other : tensor, side ? tensor : other};
        if (!other) {
            print_line(run, tensor->name, pair, NULL, side ? ONLY_B : ONLY_A);
            run->n_different++;
        } else if (!side) {
            status = compare_pair(run, pair, total, err);
        }
    }
    return status;
}

static mx_status compare_all(compare_run *run, mx_error *err)
{
    static const logical_tensor *const none[2] = {NULL, NULL};
    const logical_tensor **names[2] = {sort_names(&run->sides[0].list),
                                       sort_names(&run->sides[1].list)};
    compare_sums total = {0};
    mx_status status = names[0] && names[1]
                           ? compare_side_of(run, 0, names[1], &total, err)
                           : mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a list of names");
    if (status == MX_OK)
        status = compare_side_of(run, 1, names[0], &total, err);
    free((void *)names[0]);
    free((void *)names[1]);
    if (status == MX_OK && !run->n_compared && !run->n_different)
        return mx_fail(err, MX_ERR_NOT_FOUND, "no tensor with such a name in %s and %s",
                       run->options->in[0], run->options->in[1]);
    if (status == MX_OK)
        print_line(run, NULL, none, &total,
                   run->n_different     ? DIFFERS
                   : judge(run, &total) ? CLOSE
                                        : SAME);
    return status;
}

static mx_status open_sides(compare_run *run, mx_error *err)
{
    const compare_options *options = run->options;
    int64_t total = 0;
    mx_status status = engine_open(&options->engine, &run->engine, err);
    for (int i = 0; i < 2 && status == MX_OK; i++) {
        compare_side *side = &run->sides[i];
        status = st_reader_open(options->in[i], &side->reader, err);
        if (status == MX_OK)
            status = logical_list_init(&side->list, side->reader, &options->foreign,
                                       &options->filter, err);
        if (status == MX_OK)
            stream_init(&side->stream, &run->engine, &run->progress, options->max_memory_bytes);
        for (size_t k = 0; k < side->list.n; k++)
            total += side->list.items[k].data->size_bytes;
    }
    progress_init(&run->progress, total, options->quiet);
    return status;
}

static int run_compare(const compare_options *options)
{
    static const char *const heads[] = {"<tensor",   "<shape",     "<A",      "<B",
                                        "elements",  "changed",    "bits",    "SNR dB",
                                        "max error", "not finite", "<result", NULL};
    compare_run run = {.options = options};
    mx_error err = {0};
    mx_status status = open_sides(&run, &err);
    run.rows = table_create(heads);
    if (status == MX_OK)
        status = compare_all(&run, &err);
    progress_clear(&run.progress);
    if (status == MX_OK && !options->json && !options->quiet)
        table_print(run.rows, stdout);
    table_destroy(run.rows);
    for (int i = 0; i < 2; i++) {
        stream_finish(&run.sides[i].stream);
        logical_list_finish(&run.sides[i].list);
        st_reader_close(run.sides[i].reader);
    }
    engine_close(&run.engine);
    if (status != MX_OK)
        return tool_fail(&err);
    int code = tool_finish_stdout();
    return code ? code : run.n_different ? TOOL_EXIT_DIFFERENT : 0;
}

int cmd_compare(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&engine_argp, 0, NULL, 10}, {&foreign_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = compare_option_table,
        .parser = parse_compare,
        .args_doc = "A B",
        .doc = "Compares the tensors of two safetensors files by name: elements and bits that "
               "changed, signal-to-noise ratio with A as the signal, largest error. Packed tensors "
               "are restored for it. Exits with 0 where nothing differs, 3 where something does.",
        .children = children};
    compare_options options = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &options))
        return TOOL_EXIT_USAGE;
    int code = run_compare(&options);
    tool_filter_finish(&options.filter);
    return code;
}
