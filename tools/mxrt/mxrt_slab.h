/* Cuts a tensor and its packed form into boxes that fit a memory budget.
 *
 * Every tensor is seen as [outer, axis, middle, inner], row-major: `outer` joins the dimensions
 * before the axis, `middle` those between the axis and the last dimension, `inner` is the last
 * dimension (1 if the axis is the last one). Since the axis is swapped with the last dimension, the
 * packed form is [outer, inner, middle, blocks], blocks = ceil(axis / block elements), and scales,
 * where they are apart, have that shape, too. A box is a range in each of the four; its compact
 * copy is a tensor of the same kind, so that one kernel call converts it. */
#ifndef MXRT_SLAB_H
#define MXRT_SLAB_H

#include <stddef.h>
#include <stdint.h>

#include <mxgen/base.h>

enum { SLAB_OUTER = 0, SLAB_AXIS, SLAB_MIDDLE, SLAB_INNER, SLAB_DIMS };

/* Any budget from here on works. */
#define SLAB_MIN_BYTES 4096

typedef struct slab_view {
    int64_t size[SLAB_DIMS];
    int64_t blocks; /* along the axis */
    int64_t element_bytes, block_bytes, block_elements;
    int64_t scale_bytes; /* of a block's scale that is stored apart, or 0 */
    /* A row of packed data in the file: whole blocks, but where somebody left the end of the last
     * one out. In a box rows always have whole blocks. */
    int64_t row_bytes;
} slab_view;

typedef struct slab_box {
    int64_t begin[SLAB_DIMS];
    int64_t count[SLAB_DIMS]; /* along the axis whole blocks, or up to its end */
} slab_box;

/* `axis` is not negative, no dimension is zero. Scales and cut rows are the caller's to set. */
void slab_view_init(slab_view *view, size_t ndim, const int64_t *shape, int axis,
                    int64_t element_bytes, int64_t block_bytes, int64_t block_elements);

int64_t slab_plain_bytes(const slab_view *view, const slab_box *box);
int64_t slab_blocks(const slab_view *view, const slab_box *box);
int64_t slab_packed_bytes(const slab_view *view, const slab_box *box);

/* The box that is everything. */
void slab_whole(const slab_view *view, slab_box *box);
/* The first box of a walk in which plain, packed and scale bytes together stay within the budget.
 */
void slab_first(const slab_view *view, int64_t budget_bytes, slab_box *box);
/* Steps to the next box; 0 when there is none. `first` is what slab_first gave. */
int slab_next(const slab_view *view, const slab_box *first, slab_box *box);

/* Calls `run` for each piece of the box that is contiguous in the whole tensor (its packed form,
 * its scales), in ascending order: offsets and sizes in bytes. Stops at the first failure. */
typedef mx_status (*slab_run_fn)(void *user, int64_t tensor_offset, int64_t box_offset,
                                 int64_t size_bytes, mx_error *err);
mx_status slab_plain_runs(const slab_view *view, const slab_box *box, slab_run_fn run, void *user,
                          mx_error *err);
mx_status slab_packed_runs(const slab_view *view, const slab_box *box, slab_run_fn run, void *user,
                           mx_error *err);
mx_status slab_scale_runs(const slab_view *view, const slab_box *box, slab_run_fn run, void *user,
                          mx_error *err);

#endif
