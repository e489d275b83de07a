/* A checked and canonical form of one operation on two DLPack tensors.
 *
 * Everything after mxrt_problem_init works on this form: the reference, the rules of kernels and
 * their arguments never look at a DLTensor again. */
#ifndef MXRT_PROBLEM_H
#define MXRT_PROBLEM_H

#include <stddef.h>
#include <string.h>

#include <mxgen/rt.h>

#include "runtime/pack_vars.h"

/* Buffers, by the names that packs use for them. */
enum {
    MXRT_BUFFER_X = 0,
    MXRT_BUFFER_Y,
    MXRT_BUFFER_P,
    MXRT_BUFFER_S,
    MXRT_BUFFER_C, /* of a pair: data and scales of the columns */
    MXRT_BUFFER_T,
    MXRT_BUFFER_G, /* offsets of groups, and where they begin after padding; NULL: one group */
    MXRT_BUFFER_O,
    MXRT_BUFFER_COUNT
};

/* Row r has coordinate (r / row_stride) % size here; plain strides are in elements. */
typedef struct mxrt_dim {
    int64_t size, row_stride, x_stride, y_stride;
} mxrt_dim;

typedef struct mxrt_buffer {
    unsigned char *data;  /* the first element; NULL where the operation has no such buffer */
    int64_t extent_bytes; /* to the last byte touched; 0 for none */
} mxrt_buffer;

/* The columns of a pair; group_align is 0 where there are none. */
typedef struct mxrt_pair {
    int64_t groups;                /* with offsets; 0: one group, without */
    int64_t group_align, capacity; /* rows */
    int64_t row_stride;            /* bytes between columns' data, whose bytes lie side by side */
    int64_t s_row_stride, s_block_stride; /* bytes between scales of columns, of blocks */
    int hadamard;
} mxrt_pair;

typedef struct mxrt_problem {
    mx_op op;
    mx_format format;
    mx_dtype dtype;
    mx_profile profile;
    int64_t n_blocks, rows, len, bpr;
    int64_t x_axis_stride, y_axis_stride;  /* elements; 1 if len is 1 */
    int64_t p_block_stride, p_byte_stride; /* bytes; packed without gaps if there is one block */
    int64_t s_row_stride, s_block_stride;  /* bytes between scales */
    int64_t tile_m;                        /* two_d: rows that tiles are counted in, else 1 */
    mx_ocp_options options;                /* OCP formats */
    mxrt_pair pair;
    int n_dims; /* may exceed MXPACK_MAX_ROW_DIMS: no kernel then */
    mxrt_buffer buffers[MXRT_BUFFER_COUNT];
    mxrt_dim dims[MXRT_MAX_DIMS]; /* the first n_dims are set */
} mxrt_problem;

/* Without the dimensions that are not there, which are most of a problem. */
static inline void mxrt_problem_copy(mxrt_problem *out, const mxrt_problem *from)
{
    memcpy(out, from, offsetof(mxrt_problem, dims) + (size_t)from->n_dims * sizeof(from->dims[0]));
}

static inline int mxrt_problem_is_pair(const mxrt_problem *problem)
{
    return problem->pair.group_align != 0;
}

/* Which buffer an operation reads or writes. */
static inline int mxrt_op_input(mx_op op)
{
    return op == MX_OP_FROM ? MXRT_BUFFER_P : MXRT_BUFFER_X;
}

static inline int mxrt_op_output(mx_op op)
{
    return op == MX_OP_TO ? MXRT_BUFFER_P : MXRT_BUFFER_Y;
}

/* Checks the tensors of `request` (its variant is not looked at) and fills *out. Tensors must say
 * they are on `device`. With `null_ok`, data may be NULL. Neither allocates nor keeps pointers to
 * the tensors. */
mx_status mxrt_problem_init(mxrt_problem *out, const mxrt_plan_request *request, DLDevice device,
                            int null_ok, mx_error *err);

/* The columns of a problem that is complete but for them; and whether the memory that they write is
 * their own (problem_pair.c). */
mx_status mxrt_problem_init_pair(mxrt_problem *problem, const mxrt_ocp_columns *columns,
                                 DLDevice device, int null_ok, mx_error *err);
mx_status mxrt_problem_check_pair(const mxrt_problem *problem, mx_error *err);

/* The same of blocks that are turned (problem_turned.c), whose problem is a pair of op `from`:
 * dimensions are the matrices', x strides count rows of what is read, y strides of what is written;
 * tile_m is the length of the other axis. MX_ERR_UNSUPPORTED for what kernels do not turn. */
mx_status mxrt_problem_init_turned(mxrt_problem *problem, const mxrt_plan_request *request,
                                   DLDevice device, int null_ok, mx_error *err);

static inline int mxrt_problem_is_turned(const mxrt_problem *problem)
{
    return mxrt_problem_is_pair(problem) && problem->op == MX_OP_FROM;
}

/* Nonzero if the operation reads or writes scales. */
static inline int mxrt_problem_has_scales(const mxrt_problem *problem)
{
    return mx_format_is_ocp(problem->format) && problem->op != MX_OP_QDQ;
}

/* Where a row begins, in elements. */
typedef struct mxrt_row_offset {
    int64_t x, y;
} mxrt_row_offset;

static inline mxrt_row_offset mxrt_row_begin(const mxrt_problem *problem, int64_t row)
{
    mxrt_row_offset offset = {0, 0};

    for (int i = 0; i < problem->n_dims; i++) {
        const mxrt_dim *dim = &problem->dims[i];
        int64_t at = row / dim->row_stride % dim->size;
        offset.x += at * dim->x_stride;
        offset.y += at * dim->y_stride;
    }
    return offset;
}

/* Replaces the data pointers (neither NULL; scales_data where there are scales) after checking
 * alignment to the element and overlap of the two. */
mx_status mxrt_problem_rebind(mxrt_problem *problem, const void *in_data, void *out_data,
                              void *scales_data, mx_error *err);

/* Values of the variables of pack_vars.h. Wants n_dims <= MXPACK_MAX_ROW_DIMS. */
void mxrt_problem_vars(const mxrt_problem *problem, int64_t values[MXRT_VAR_COUNT]);

/* Bytes that the operation must read and write at least. */
int64_t mxrt_problem_bytes(const mxrt_problem *problem);

#endif
