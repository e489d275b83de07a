#include <stdio.h>
#include <string.h>

#include "tests/conform_engine.h"

static int axis_of(const mx_case *c)
{
    return c->axis < 0 ? c->axis + c->ndim : c->axis;
}

int64_t conform_length(const mx_case *c)
{
    return c->shape[axis_of(c)];
}

int64_t conform_rows(const mx_case *c)
{
    int64_t rows = 1;
    for (int i = 0; i < c->ndim; i++)
        rows *= i == axis_of(c) ? 1 : c->shape[i];
    return rows;
}

/* ---- Blocks side by side <-> memory ---- */

static void contiguous_strides(mx_case *c)
{
    int64_t step = 1;
    for (int i = c->ndim - 1; i >= 0; i--) {
        c->strides[i] = step;
        step *= c->shape[i];
    }
}

/* The swapped tensor: the axis last. */
static void swapped(const mx_case *c, int64_t shape[MX_CASE_MAX_DIMS],
                    int64_t strides[MX_CASE_MAX_DIMS])
{
    mx_case copy = *c;
    int axis = axis_of(c), last = c->ndim - 1;
    if (!c->strided)
        contiguous_strides(&copy);
    memcpy(shape, copy.shape, sizeof(copy.shape));
    memcpy(strides, copy.strides, sizeof(copy.strides));
    shape[axis] = copy.shape[last], shape[last] = copy.shape[axis];
    strides[axis] = copy.strides[last], strides[last] = copy.strides[axis];
}

int64_t conform_element_offset(const mx_case *c, int64_t row, int64_t column)
{
    int64_t shape[MX_CASE_MAX_DIMS], strides[MX_CASE_MAX_DIMS], offset;
    swapped(c, shape, strides);
    offset = column * strides[c->ndim - 1];
    for (int i = c->ndim - 2; i >= 0; i--) {
        offset += row % shape[i] * strides[i];
        row /= shape[i];
    }
    return offset;
}

/* One row; sizes known to the compiler, as the sweeps are long. */
static void scatter_row(unsigned char *to, const unsigned char *from, int64_t n, int64_t step,
                        int element_bytes)
{
    if (step == 1)
        memcpy(to, from, (size_t)(n * element_bytes));
    else if (element_bytes == 4)
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * step * 4, from + i * 4, 4);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * step * 2, from + i * 2, 2);
}

void conform_scatter_plain(const mx_case *c, int element_bytes, const void *elements, void *base)
{
    const unsigned char *from = elements;
    unsigned char *to = base;
    int64_t rows = conform_rows(c), length = conform_length(c);
    int64_t padded = (length + MX_BLOCK_ELEMENTS - 1) / MX_BLOCK_ELEMENTS * MX_BLOCK_ELEMENTS;
    for (int64_t row = 0; row < rows; row++) {
        int64_t at = conform_element_offset(c, row, 0);
        int64_t step = length > 1 ? conform_element_offset(c, row, 1) - at : 1;
        scatter_row(to + (c->offset + at) * element_bytes, from + row * padded * element_bytes,
                    length, step, element_bytes);
    }
}

void conform_scatter_packed(const mx_case *c, mx_format format, const void *records, void *base)
{
    const unsigned char *from = records;
    unsigned char *to = base;
    int64_t bytes = mx_format_get(format)->block_bytes, n_blocks = mx_case_blocks(c);
    int64_t step = c->packed_byte_stride ? c->packed_byte_stride : 1;
    int64_t block_step = bytes * step + c->packed_block_gap;
    if (step == 1 && block_step == bytes && n_blocks) {
        memcpy(to + c->packed_offset, from, (size_t)(n_blocks * bytes));
        return;
    }
    for (int64_t block = 0; block < n_blocks; block++) {
        for (int64_t i = 0; i < bytes; i++)
            to[c->packed_offset + block * block_step + i * step] = from[block * bytes + i];
    }
}

/* ---- Geometries ---- */

conform_geometry conform_geometry_of(const mx_case *c)
{
    conform_geometry g = {.x = *c, .y = *c};
    snprintf(g.name, sizeof(g.name), "%s", c->name);
    if (c->is_broadcast)
        g.y.strided = 0;
    return g;
}

conform_geometry conform_geometry_shape(const char *name, int ndim, const int64_t *shape, int axis)
{
    mx_case c = {.name = name, .ndim = ndim, .axis = axis};
    memcpy(c.shape, shape, (size_t)ndim * sizeof(*shape));
    return conform_geometry_of(&c);
}

static int64_t below(uint64_t *state, int64_t limit)
{
    return (int64_t)(mx_case_random(state) >> 11) % limit;
}

static int64_t choose(uint64_t *state, const int64_t *values, size_t n)
{
    return values[below(state, (int64_t)n)];
}
#define CHOOSE(state, values) choose((state), (values), sizeof(values) / sizeof((values)[0]))

/* Memory order `order` (fastest first), with gaps in some dimensions. */
static void set_strides(mx_case *c, const int order[MX_CASE_MAX_DIMS], int64_t inner, int gaps,
                        uint64_t *state)
{
    static const int64_t widths[] = {1, 2, 3, 4, 5, 8, 16, 64};
    int64_t stride = inner;
    c->strided = 1;
    for (int i = 0; i < c->ndim; i++) {
        int d = order[i];
        c->strides[d] = stride;
        stride *= c->shape[d] ? c->shape[d] : 1;
        if (gaps && below(state, 2))
            stride += inner * CHOOSE(state, widths);
        if (c->shape[d] == 1 && below(state, 3) == 0)
            c->strides[d] = below(state, 1000); /* means nothing */
    }
}

static void shuffle(int order[MX_CASE_MAX_DIMS], int first, int n, uint64_t *state)
{
    for (int i = n - 1; i > first; i--) {
        int other = first + (int)below(state, i - first + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

static const int64_t lengths[] = {1,  2,  7,  8,  9,  15, 16, 17,  24,  31,  32,  33,  40, 47,
                                  48, 49, 63, 64, 65, 80, 96, 112, 127, 128, 129, 160, 240};
static const int64_t long_lengths[] = {255,  256,  257,  511,  513,  1023, 1024,
                                       1040, 2047, 2049, 4095, 4096, 4097, 8200};
static const int64_t counts[] = {1, 1, 2, 3, 4, 5, 7, 8, 9, 13};
static const int64_t big_counts[] = {15, 16, 17, 31, 33, 63, 64, 65, 100, 130};

/* Sizes of all dimensions; dimension `axis` is the blocks'. */
static void set_shape(mx_case *c, int whole_blocks, int quick, uint64_t *state)
{
    for (int i = 0; i < c->ndim; i++)
        c->shape[i] = CHOOSE(state, counts);
    if (c->ndim > 1)
        c->shape[(c->axis + 1) % c->ndim] = CHOOSE(state, big_counts);
    c->shape[c->axis] = quick || below(state, 4) || conform_rows(c) > 200
                            ? CHOOSE(state, lengths)
                            : CHOOSE(state, long_lengths);
    if (whole_blocks)
        c->shape[c->axis] = (c->shape[c->axis] + 15) / 16 * 16;
    while (conform_rows(c) * c->shape[c->axis] > (quick ? 6000 : 60000)) {
        int widest = c->axis == 0 && c->ndim > 1;
        for (int i = 0; i < c->ndim; i++) {
            if (i != c->axis && c->shape[i] > c->shape[widest])
                widest = i;
        }
        c->shape[widest] = (c->shape[widest] + 1) / 2;
        if (conform_rows(c) == 1)
            break;
    }
}

/* Memory of one side, with the shape already set. */
static void set_memory(mx_case *c, mx_layout layout, uint64_t *state)
{
    int order[MX_CASE_MAX_DIMS], n = 0;
    c->strided = 0;
    c->offset = 0;
    if (layout == MX_LAYOUT_FLAT) {
        c->offset = 8 * below(state, 3);
        return;
    }
    /* Rows: the axis is fastest. Tiles: another is. General: nobody need be. */
    if (layout == MX_LAYOUT_ROWS)
        order[n++] = c->axis;
    for (int i = c->ndim - 1; i >= 0; i--) {
        if (layout != MX_LAYOUT_ROWS || i != c->axis)
            order[n++] = i;
    }
    if (layout == MX_LAYOUT_TILES && below(state, 2)) {
        contiguous_strides(c); /* an axis that is not the last of a row-major tensor */
    } else {
        if (layout == MX_LAYOUT_GENERAL || below(state, 2))
            shuffle(order, layout == MX_LAYOUT_ROWS ? 1 : 0, n, state);
        if (layout == MX_LAYOUT_TILES && order[0] == c->axis && n > 1)
            order[0] = order[n - 1], order[n - 1] = c->axis;
        set_strides(c, order, layout == MX_LAYOUT_GENERAL && below(state, 2) ? 2 : 1,
                    (int)below(state, 2), state);
    }
    c->offset = below(state, 3) ? below(state, 9) : 0;
}

static void set_packed_memory(mx_case *c, mx_layout layout, uint64_t *state)
{
    static const int64_t offsets[] = {0, 0, 2, 4, 8, 16}, odd[] = {0, 1, 3, 5, 16};
    static const int64_t gaps[] = {0, 0, 1, 2, 14, 46};
    c->packed_offset = layout == MX_LAYOUT_FLAT ? 16 * below(state, 2) : CHOOSE(state, offsets);
    if (layout != MX_LAYOUT_GENERAL)
        return;
    c->packed_offset = CHOOSE(state, odd);
    c->packed_block_gap = CHOOSE(state, gaps);
    c->packed_byte_stride = below(state, 3) ? 0 : 1 + below(state, 3);
}

/* An input may repeat itself along a dimension. */
static void broadcast(mx_case *x, uint64_t *state)
{
    if (!x->strided)
        contiguous_strides(x);
    x->strided = 1;
    x->strides[below(state, x->ndim)] = 0;
    x->is_broadcast = 1;
}

conform_geometry conform_geometry_random(mx_layout layout, uint64_t seed, int quick)
{
    uint64_t state = seed * 4 + (uint64_t)layout;
    conform_geometry g = {.in_place = 0};
    mx_case *x = &g.x;
    int least = layout == MX_LAYOUT_TILES ? 2 : 1;
    int most = layout == MX_LAYOUT_GENERAL ? 6 : 4;
    x->ndim = least + (int)below(&state, most - least + 1);
    x->axis = layout == MX_LAYOUT_FLAT || layout == MX_LAYOUT_ROWS ? x->ndim - 1
              : layout == MX_LAYOUT_TILES                          ? (int)below(&state, x->ndim - 1)
                                                                   : (int)below(&state, x->ndim);
    set_shape(x, layout == MX_LAYOUT_FLAT, quick, &state);
    set_packed_memory(x, layout, &state);
    g.y = *x;
    set_memory(x, layout, &state);
    if (below(&state, 3)) {
        g.y = *x;
        g.in_place = below(&state, 3) == 0;
    } else {
        set_memory(&g.y, below(&state, 3) ? layout : MX_LAYOUT_GENERAL, &state);
    }
    if (layout == MX_LAYOUT_GENERAL && !g.in_place && below(&state, 4) == 0)
        broadcast(x, &state);
    if (below(&state, 4) == 0)
        x->axis = g.y.axis = x->axis - x->ndim;
    snprintf(g.name, sizeof(g.name), "random-%s-%llu", mx_layout_name(layout),
             (unsigned long long)seed);
    return g;
}
