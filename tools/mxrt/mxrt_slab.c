#include "mxrt_slab.h"

#include <string.h>

/* Runs in the file should not be shorter than this while the budget allows. */
#define SLAB_RUN_BYTES 4096

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* Estimates for huge tensors must compare as huge, not wrap. */
static int64_t mul_saturated(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

void slab_view_init(slab_view *view, size_t ndim, const int64_t *shape, int axis,
                    int64_t element_bytes, int64_t block_bytes, int64_t block_elements)
{
    size_t at = (size_t)axis;
    *view = (slab_view){.size = {1, shape[at], 1, 1},
                        .blocks = ceil_div(shape[at], block_elements),
                        .element_bytes = element_bytes,
                        .block_bytes = block_bytes,
                        .block_elements = block_elements};
    view->row_bytes = view->blocks * block_bytes;
    for (size_t i = 0; i < ndim; i++) {
        if (i < at)
            view->size[SLAB_OUTER] *= shape[i];
        else if (i > at && i + 1 < ndim)
            view->size[SLAB_MIDDLE] *= shape[i];
        else if (i > at)
            view->size[SLAB_INNER] = shape[i];
    }
}

int64_t slab_plain_bytes(const slab_view *view, const slab_box *box)
{
    int64_t bytes = view->element_bytes;
    for (int d = 0; d < SLAB_DIMS; d++)
        bytes *= box->count[d];
    return bytes;
}

int64_t slab_blocks(const slab_view *view, const slab_box *box)
{
    return box->count[SLAB_OUTER] * box->count[SLAB_INNER] * box->count[SLAB_MIDDLE] *
           ceil_div(box->count[SLAB_AXIS], view->block_elements);
}

int64_t slab_packed_bytes(const slab_view *view, const slab_box *box)
{
    return slab_blocks(view, box) * view->block_bytes;
}

void slab_whole(const slab_view *view, slab_box *box)
{
    memset(box, 0, sizeof(*box));
    memcpy(box->count, view->size, sizeof(box->count));
}

/* Cuts the outermost dimension that makes pieces fit, so that runs stay as long as they can. */
void slab_first(const slab_view *view, int64_t budget_bytes, slab_box *box)
{
    const int64_t *size = view->size;
    int64_t stored_bytes = view->block_bytes + view->scale_bytes; /* of a block */
    int64_t column_bytes = size[SLAB_AXIS] * view->element_bytes + view->blocks * stored_bytes;
    int64_t columns = budget_bytes / column_bytes; /* whole columns along the axis that fit */
    int64_t slice = mul_saturated(size[SLAB_MIDDLE], size[SLAB_INNER]);
    int64_t run = min_i64(size[SLAB_INNER], SLAB_RUN_BYTES / view->element_bytes);

    slab_whole(view, box);
    if (columns >= slice) {
        box->count[SLAB_OUTER] = min_i64(size[SLAB_OUTER], columns / slice);
        return;
    }
    box->count[SLAB_OUTER] = 1;
    if (columns / size[SLAB_MIDDLE] >= run) {
        box->count[SLAB_INNER] = min_i64(size[SLAB_INNER], columns / size[SLAB_MIDDLE]);
        return;
    }
    if (columns >= run) {
        box->count[SLAB_INNER] = min_i64(size[SLAB_INNER], columns);
        box->count[SLAB_MIDDLE] = min_i64(size[SLAB_MIDDLE], columns / box->count[SLAB_INNER]);
        return;
    }
    /* Not even one run of columns fits: cut the axis, by whole blocks. */
    int64_t block_cost = view->block_elements * view->element_bytes + stored_bytes;
    box->count[SLAB_MIDDLE] = 1;
    box->count[SLAB_INNER] = min_i64(run, budget_bytes / block_cost);
    box->count[SLAB_AXIS] = min_i64(
        size[SLAB_AXIS], budget_bytes / block_cost / box->count[SLAB_INNER] * view->block_elements);
}

int slab_next(const slab_view *view, const slab_box *first, slab_box *box)
{
    for (int d = SLAB_DIMS - 1; d >= 0; d--) {
        int64_t next = box->begin[d] + first->count[d];
        int more = next < view->size[d];
        box->begin[d] = more ? next : 0;
        box->count[d] = min_i64(first->count[d], view->size[d] - box->begin[d]);
        if (more)
            return 1;
    }
    return 0;
}

/* The pieces of a box of a row-major array, `unit` bytes an element. In the box rows are `pitch`
 * bytes apart: as many as they have, or more. */
static mx_status walk_runs(const int64_t size[SLAB_DIMS], const int64_t begin[SLAB_DIMS],
                           const int64_t count[SLAB_DIMS], int64_t unit, int64_t pitch,
                           slab_run_fn run, void *user, mx_error *err)
{
    int64_t index[SLAB_DIMS] = {0}, row = count[SLAB_DIMS - 1] * unit, length = row, done = 0;
    int joined = SLAB_DIMS - 1; /* dimensions from here on are one run */
    while (pitch == row && joined > 0 && count[joined] == size[joined])
        length *= count[--joined];
    for (;;) {
        int64_t at = 0;
        for (int d = 0; d < SLAB_DIMS; d++)
            at = at * size[d] + begin[d] + index[d];
        mx_status status = run(user, at * unit, done, length, err);
        if (status != MX_OK)
            return status;
        done += pitch == row ? length : pitch;
        int d = joined - 1;
        while (d >= 0 && ++index[d] == count[d])
            index[d--] = 0;
        if (d < 0)
            return MX_OK;
    }
}

mx_status slab_plain_runs(const slab_view *view, const slab_box *box, slab_run_fn run, void *user,
                          mx_error *err)
{
    return walk_runs(view->size, box->begin, box->count, view->element_bytes,
                     box->count[SLAB_INNER] * view->element_bytes, run, user, err);
}

/* In the order of the packed form; the last dimension is left to the caller. */
static void swap_inner(const int64_t from[SLAB_DIMS], int64_t to[SLAB_DIMS])
{
    to[0] = from[SLAB_OUTER];
    to[1] = from[SLAB_INNER];
    to[2] = from[SLAB_MIDDLE];
}

mx_status slab_packed_runs(const slab_view *view, const slab_box *box, slab_run_fn run, void *user,
                           mx_error *err)
{
    int64_t size[SLAB_DIMS], begin[SLAB_DIMS], count[SLAB_DIMS];
    int64_t pitch = ceil_div(box->count[SLAB_AXIS], view->block_elements) * view->block_bytes;
    swap_inner(view->size, size);
    swap_inner(box->begin, begin);
    swap_inner(box->count, count);
    size[3] = view->row_bytes;
    begin[3] = box->begin[SLAB_AXIS] / view->block_elements * view->block_bytes;
    count[3] = min_i64(pitch, view->row_bytes - begin[3]);
    return walk_runs(size, begin, count, 1, pitch, run, user, err);
}

mx_status slab_scale_runs(const slab_view *view, const slab_box *box, slab_run_fn run, void *user,
                          mx_error *err)
{
    int64_t size[SLAB_DIMS], begin[SLAB_DIMS], count[SLAB_DIMS];
    swap_inner(view->size, size);
    swap_inner(box->begin, begin);
    swap_inner(box->count, count);
    size[3] = view->blocks;
    begin[3] = box->begin[SLAB_AXIS] / view->block_elements;
    count[3] = ceil_div(box->count[SLAB_AXIS], view->block_elements);
    return walk_runs(size, begin, count, view->scale_bytes, count[3] * view->scale_bytes, run, user,
                     err);
}
