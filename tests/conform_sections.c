#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/conform_engine.h"

static const conform_keys all_keys = {0, 0, 0, 0};

/* ---- The shared cases ---- */

static void run_shared(conform *run)
{
    const conform_options *options = conform_get_options(run);
    for (size_t i = 0; i < mx_case_count(); i++) {
        const mx_case *c = mx_case_at(i);
        conform_source source = {(int)c->values, 0, options->seed + i};
        if (!(c->uses & MX_CASE_TEST) || (options->quick && mx_case_elements(c) > 10000))
            continue;
        conform_geometry g = conform_geometry_of(c);
        conform_check(run, &g, &source, &all_keys);
    }
}

/* ---- Sets of expected bytes ---- */

static void *read_file(const char *dir, const char *name, const char *suffix, size_t *size_bytes)
{
    char path[1024];
    long size = -1;
    char *data = NULL;
    snprintf(path, sizeof(path), "%s/%s%s", dir, name, suffix);
    FILE *file = fopen(path, "rb");
    if (file && !fseek(file, 0, SEEK_END) && (size = ftell(file)) >= 0 &&
        (data = malloc((size_t)size + 1))) {
        rewind(file);
        *size_bytes = fread(data, 1, (size_t)size, file);
    }
    if (file)
        fclose(file);
    return data;
}

/* Rows of a file to whole blocks. */
static void *padded_rows(const char *data, int element_bytes, int64_t rows, int64_t length)
{
    size_t row = (size_t)(length * element_bytes);
    size_t padded = (size_t)((length + 15) / 16 * 16 * element_bytes);
    char *blocks = calloc((size_t)rows, padded);
    for (int64_t r = 0; blocks && r < rows; r++)
        memcpy(blocks + (size_t)r * padded, data + (size_t)r * row, row);
    return blocks;
}

static void check_set_format(conform *run, const conform_geometry *g, const char *name,
                             mx_format format, mx_dtype dtype, const void *plain)
{
    const char *dir = conform_get_options(run)->data_dir;
    char suffix[32];
    size_t packed_bytes = 0, out_bytes = 0;
    int64_t rows = conform_rows(&g->x), length = conform_length(&g->x);
    int element_bytes = mx_dtype_get(dtype)->bytes;
    snprintf(suffix, sizeof(suffix), ".%s", mx_format_get(format)->name);
    void *packed = read_file(dir, name, suffix, &packed_bytes);
    strcat(suffix, ".out");
    char *out = read_file(dir, name, suffix, &out_bytes);
    if (packed && out &&
        packed_bytes == (size_t)(mx_case_blocks(&g->x) * mx_format_get(format)->block_bytes) &&
        out_bytes == (size_t)(rows * length * element_bytes)) {
        void *decoded = padded_rows(out, element_bytes, rows, length);
        conform_check_bytes(run, g, MX_OP_TO, format, dtype, plain, packed);
        conform_check_bytes(run, g, MX_OP_FROM, format, dtype, packed, decoded);
        conform_check_bytes(run, g, MX_OP_QDQ, format, dtype, plain, decoded);
        free(decoded);
    } else {
        conform_skip(run, name, "a file is missing or has the wrong size");
    }
    free(packed);
    free(out);
}

static void check_set(conform *run, const char *name, mx_dtype dtype, int64_t rows, int64_t length)
{
    const char *dir = conform_get_options(run)->data_dir;
    size_t bytes = 0;
    int element_bytes = mx_dtype_get(dtype)->bytes;
    char *in = read_file(dir, name, ".in", &bytes);
    if (!in || bytes != (size_t)(rows * length * element_bytes)) {
        conform_skip(run, name, "no .in file of the right size");
        free(in);
        return;
    }
    void *plain = padded_rows(in, element_bytes, rows, length);
    for (int format = MX_FORMAT_MX9; format <= MX_FORMAT_MX6; format++) {
        /* As it is, along the first axis, and with gaps. */
        int64_t shape[] = {rows, length}, turned[] = {length, rows};
        conform_geometry g = conform_geometry_shape(name, 2, shape, -1);
        check_set_format(run, &g, name, (mx_format)format, dtype, plain);
        g = conform_geometry_shape(name, 2, turned, 0);
        check_set_format(run, &g, name, (mx_format)format, dtype, plain);
        g = conform_geometry_shape(name, 2, shape, 1);
        g.x.strided = 1;
        g.x.strides[0] = 2 * length + 1, g.x.strides[1] = 2;
        g.x.packed_block_gap = 3;
        check_set_format(run, &g, name, (mx_format)format, dtype, plain);
    }
    free(plain);
    free(in);
}

static void run_sets(conform *run)
{
    const char *dir = conform_get_options(run)->data_dir;
    char path[1024];
    snprintf(path, sizeof(path), "%s/index.json", dir ? dir : ".");
    json_t *index = dir ? json_load_file(path, 0, NULL) : NULL, *set;
    size_t i;
    if (!index) {
        conform_skip(run, "sets of expected bytes", "no index.json; see --data");
        return;
    }
    json_array_foreach(index, i, set)
    {
        const char *name = NULL, *dtype_name = NULL;
        json_int_t rows = 0, last = 0;
        mx_dtype dtype;
        if (json_unpack(set, "{s:s,s:s,s:I,s:I}", "name", &name, "dtype", &dtype_name, "rows",
                        &rows, "last", &last) ||
            mx_dtype_parse(dtype_name, &dtype))
            conform_skip(run, "a set of expected bytes", "index.json is wrong");
        else
            check_set(run, name, dtype, rows, last);
    }
    json_decref(index);
}

/* ---- Block counts and lengths around what kernels work in ---- */

static conform_geometry numbered(const char *name, int64_t a, int64_t b, int axis)
{
    char text[64];
    int64_t shape[] = {a, b};
    snprintf(text, sizeof(text), "%s-%lldx%lld", name, (long long)a, (long long)b);
    conform_geometry g = conform_geometry_shape(text, 2, shape, axis);
    g.x.name = g.y.name = "";
    return g;
}

/* Types and formats in turn, so that a long list stays quick. */
static conform_keys keys_in_turn(conform *run, uint64_t n)
{
    conform_keys keys = all_keys;
    keys.formats = 1u << n % MX_FORMAT_PACKED_COUNT;
    keys.dtypes = 1u << n / MX_FORMAT_PACKED_COUNT % MX_DTYPE_COUNT;
    return conform_get_options(run)->quick ? keys : (conform_keys){0, keys.formats, 0, 0};
}

static void run_flat_counts(conform *run)
{
    static const int64_t counts[] = {1,    2,    3,    7,    8,    9,    15,  16,   17,
                                     31,   32,   33,   63,   64,   65,   127, 128,  129,
                                     255,  256,  257,  511,  512,  513,  767, 1023, 1024,
                                     1025, 2047, 2048, 2049, 4095, 4096, 4097};
    const conform_options *options = conform_get_options(run);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        conform_source source = {CONFORM_EXPONENTS, 0, options->seed + i};
        conform_keys keys = keys_in_turn(run, i);
        if (options->quick && counts[i] > 513)
            break;
        conform_geometry g = numbered("flat-count", counts[i], 16, 1);
        conform_check(run, &g, &source, &keys);
    }
}

/* Ragged rows: every length up to 64, then around larger steps; gaps between rows, odd starts. */
static void run_row_lengths(conform *run)
{
    static const int64_t long_lengths[] = {127,  128,  129,  255,  257,  1023,  1024,
                                           1025, 4095, 4096, 4097, 4111, 32767, 32769};
    static const int64_t many_rows[] = {1, 2, 5, 33, 64, 65, 130, 600};
    const conform_options *options = conform_get_options(run);
    size_t n_long = sizeof(long_lengths) / sizeof(long_lengths[0]), most = 64 + n_long;
    for (uint64_t i = 0; i < most; i++) {
        conform_source source = {i % 3 ? CONFORM_EXPONENTS : MX_VALUES_BITS, 0, options->seed + i};
        int64_t length = i < 64 ? (int64_t)i + 1 : long_lengths[i - 64];
        int64_t rows = i < 64 ? many_rows[i % 8] : 1 + (int64_t)i % 3;
        conform_keys keys = keys_in_turn(run, i);
        if (options->quick && length > 1025)
            break;
        conform_geometry g = numbered("row-length", rows, length, -1);
        if (i % 4) {
            g.x.strided = 1;
            g.x.strides[1] = 1;
            g.x.strides[0] = length + (i % 4 == 1 ? 1 : 8 - length % 8);
        }
        g.x.offset = i % 4 == 3 ? (int64_t)i / 4 % 8 + 1 : i % 4 == 2 ? 4 : 0;
        g.x.packed_offset = i % 2 ? 2 * ((int64_t)i % 5) : 0;
        if (i % 5)
            g.y = g.x;
        conform_check(run, &g, &source, &keys);
    }
}

/* Short rows by the hundred: programs that cross rows. */
static void run_short_rows(conform *run)
{
    static const int64_t short_lengths[] = {1, 2, 15, 16, 17, 31, 33, 48};
    const conform_options *options = conform_get_options(run);
    for (uint64_t i = 0; i < sizeof(short_lengths) / sizeof(short_lengths[0]); i++) {
        conform_source source = {MX_VALUES_SPREAD, 0, options->seed + i};
        conform_keys keys = keys_in_turn(run, i + 1);
        conform_geometry g =
            numbered("short-rows", options->quick ? 140 : 1500, short_lengths[i], 1);
        conform_check(run, &g, &source, &keys);
    }
}

/* Blocks along an outer axis: widths around tiles, ragged lengths, the axis first and in the
 * middle. */
static void run_tile_shapes(conform *run)
{
    static const int64_t widths[] = {2,  3,  4,  7,  8,  15,  16,  17, 31,
                                     32, 33, 63, 64, 65, 100, 129, 257};
    static const int64_t tile_lengths[] = {1, 15, 16, 17, 32, 37, 48, 64, 100, 129, 256, 257, 300};
    const conform_options *options = conform_get_options(run);
    size_t n_widths = sizeof(widths) / sizeof(widths[0]);
    size_t n_lengths = sizeof(tile_lengths) / sizeof(tile_lengths[0]);
    for (size_t i = 0; i < n_widths * 3; i++) {
        conform_source source = {CONFORM_EXPONENTS, 0, options->seed + i};
        conform_keys keys = keys_in_turn(run, i);
        int64_t width = widths[i % n_widths], length = tile_lengths[(3 * i + i / 17) % n_lengths];
        if (options->quick && width * length > 6000)
            continue;
        conform_geometry g = numbered("tiles", length, width, 0);
        if (i >= n_widths) { /* in the middle, or first of three */
            int64_t shape[] = {i % 2 ? 3 : length, i % 2 ? length : 2, width};
            g = conform_geometry_shape("tiles-3d", 3, shape, i % 2);
        }
        if (i % 5 == 4) {
            g.x.strided = 1;
            g.x.strides[g.x.ndim - 1] = 1;
            for (int d = g.x.ndim - 2; d >= 0; d--)
                g.x.strides[d] = g.x.strides[d + 1] * g.x.shape[d + 1] + 1 + (int)(i % 3);
            g.x.offset = (int64_t)i % 3;
            g.y = g.x;
        }
        conform_check(run, &g, &source, &keys);
    }
}

/* ---- Random memory ---- */

static void run_random(conform *run)
{
    const conform_options *options = conform_get_options(run);
    uint64_t n = options->quick ? 10 : 60;
    for (int layout = 0; layout < MX_LAYOUT_COUNT; layout++) {
        for (uint64_t i = 0; i < n; i++) {
            uint64_t seed = options->seed * 1000 + i;
            conform_geometry g = conform_geometry_random((mx_layout)layout, seed, options->quick);
            conform_source source = {(int)(i % CONFORM_ALONE), 0, seed};
            conform_keys keys = keys_in_turn(run, i);
            conform_check(run, &g, &source, &keys);
        }
    }
}

/* ---- Every kind of value, on one geometry a layout ---- */

/* `n_blocks` blocks in memory that this layout, and none before it, serves. */
static conform_geometry geometry_for(mx_layout layout, int64_t n_blocks)
{
    int64_t bpr = n_blocks >= 512 ? 64 : 4, rows = n_blocks / bpr;
    conform_geometry g = numbered(mx_layout_name(layout), rows, 16 * bpr, 1);
    if (layout == MX_LAYOUT_FLAT)
        return g;
    if (layout == MX_LAYOUT_TILES) {
        int64_t shape[] = {16 * bpr, rows};
        return conform_geometry_shape("tiles", 2, shape, 0);
    }
    g.x.strided = 1;
    g.x.strides[1] = layout == MX_LAYOUT_ROWS ? 1 : 2;
    g.x.strides[0] = g.x.strides[1] * 16 * bpr + (layout == MX_LAYOUT_ROWS ? 3 : 5);
    g.y = g.x;
    return g;
}

static void run_values(conform *run)
{
    const conform_options *options = conform_get_options(run);
    for (int layout = 0; layout < MX_LAYOUT_COUNT; layout++) {
        /* Enough for every exponent of f32 at every position of a block. */
        int64_t n_blocks = options->quick ? 256 : layout == MX_LAYOUT_FLAT ? 254 * 16 + 32 : 512;
        conform_geometry g = geometry_for((mx_layout)layout, n_blocks);
        for (int values = 0; values < CONFORM_ALONE; values++) {
            conform_source source = {values, 0, options->seed + (uint64_t)values};
            conform_check(run, &g, &source, &all_keys);
        }
    }
}

/* ---- Every bit pattern ---- */

/* All 65536 patterns, by the variant that is ranked first. */
static void sweep_all(conform *run, mx_layout layout, unsigned positions)
{
    const conform_options *options = conform_get_options(run);
    conform_geometry g = geometry_for(layout, 65536);
    conform_source source = {CONFORM_MIXED, 0, options->seed};
    conform_keys keys = {0, 0, 0, CONFORM_BEST_ONLY};
    conform_check(run, &g, &source, &keys);
    keys.ops = 1u << MX_OP_TO | 1u << MX_OP_QDQ;
    keys.dtypes = 1u << MX_DTYPE_BF16 | 1u << MX_DTYPE_F16;
    for (int position = 0; position < MX_BLOCK_ELEMENTS; position++) {
        if (!(positions >> position & 1))
            continue;
        source.position = position;
        source.values = CONFORM_ALONE;
        conform_check(run, &g, &source, &keys);
        source.values = CONFORM_NEAR;
        conform_check(run, &g, &source, &keys);
    }
}

static void run_sweeps(conform *run)
{
    const conform_options *options = conform_get_options(run);
    for (int layout = 0; layout < MX_LAYOUT_COUNT && !options->quick; layout++)
        sweep_all(run, (mx_layout)layout, layout == MX_LAYOUT_FLAT ? 0xffff : 0x8041);
    /* A sample through every variant. */
    for (int layout = 0; layout < MX_LAYOUT_COUNT; layout++) {
        for (int position = 0; position < MX_BLOCK_ELEMENTS; position++) {
            conform_source source = {CONFORM_ALONE + position % 3, position,
                                     options->seed + (uint64_t)position};
            conform_keys keys = keys_in_turn(run, (uint64_t)(position + layout));
            if (options->quick && position % 4 != layout % 4)
                continue;
            conform_geometry g = geometry_for((mx_layout)layout, options->quick ? 256 : 2048);
            conform_check(run, &g, &source, &keys);
        }
    }
}

/* ---- Several programs ---- */

/* More blocks than the largest program has, in a row, too. */
static void run_large(conform *run)
{
    static const int64_t shapes[MX_LAYOUT_COUNT][2] = {
        {1, 4161 * 16}, {2, 2090 * 16}, {384, 264}, {65, 64 * 16}};
    const conform_options *options = conform_get_options(run);
    const conform_keys keys = {0, 0, 0, CONFORM_LARGE};
    for (int layout = 0; layout < MX_LAYOUT_COUNT; layout++) {
        const int64_t *shape = shapes[layout];
        conform_source source = {CONFORM_EXPONENTS, 0, options->seed + 77};
        conform_geometry g = conform_geometry_shape("large", 2, shape, layout != MX_LAYOUT_TILES);
        if (layout == MX_LAYOUT_ROWS || layout == MX_LAYOUT_GENERAL) {
            g.x.strided = 1;
            g.x.strides[1] = layout == MX_LAYOUT_ROWS ? 1 : 2;
            g.x.strides[0] = g.x.strides[1] * shape[1] + 8;
            g.y = g.x;
        }
        conform_check(run, &g, &source, &keys);
    }
}

/* ---- What is left ---- */

/* Small and simple memory of every layout: reaches what few cases, or few variants a case, left. */
static void run_reach(conform *run)
{
    static const int64_t tiles[] = {128, 36};
    const conform_options *options = conform_get_options(run);
    const conform_keys keys = {0, 0, 0, CONFORM_UNREACHED_ONLY};
    for (int layout = 0; layout < MX_LAYOUT_COUNT; layout++) {
        conform_geometry g = geometry_for((mx_layout)layout, 68);
        conform_source source = {CONFORM_EXPONENTS, 0, options->seed};
        if (layout == MX_LAYOUT_TILES)
            g = conform_geometry_shape("tiles", 2, tiles, 0);
        if (layout == MX_LAYOUT_ROWS) { /* rows that wide loads may take, too */
            g.x.strides[0] = g.x.shape[1] + 8;
            g.y = g.x;
        }
        conform_check(run, &g, &source, &keys);
    }
}

const conform_section conform_sections[] = {
    {"shared cases", run_shared},
    {"expected bytes", run_sets},
    {"flat block counts", run_flat_counts},
    {"row lengths", run_row_lengths},
    {"short rows", run_short_rows},
    {"tile shapes", run_tile_shapes},
    {"random memory", run_random},
    {"values", run_values},
    {"bit patterns", run_sweeps},
    {"several programs", run_large},
    {"OCP formats, memory", conform_run_ocp_memory},
    {"OCP formats, values", conform_run_ocp_values},
    {"OCP formats, bit patterns", conform_run_ocp_patterns},
    {"OCP formats, pairs", conform_run_ocp_pairs},
    {"OCP formats, turned", conform_run_ocp_turned},
    {"OCP formats, all variants", conform_run_ocp_reach},
    {"all variants", run_reach},
};
const size_t conform_n_sections = sizeof(conform_sections) / sizeof(conform_sections[0]);
