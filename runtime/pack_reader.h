/* Kernel packs as the runtime sees them, beyond the mxrt_pack_* functions of mxgen/rt.h.
 *
 * A pack is read and checked completely when it is opened (code objects: when they are fetched),
 * so that nothing here can fail later for what is in a row. A pack that is open may be used by many
 * threads at once. Everything pointed to lives as long as the pack. */
#ifndef MXRT_PACK_READER_H
#define MXRT_PACK_READER_H

#include <mxgen/gemm.h>
#include <mxgen/pack.h>
#include <mxgen/rt.h>

#include "expr.h"
#include "pack_vars.h"

#define MXRT_PACK_MAX_RULES 64

/* Families of operations: each has variables and buffers of its own. */
typedef enum mxrt_pack_family {
    MXRT_PACK_BLOCKS = 0, /* to, from, qdq */
    MXRT_PACK_GEMM,
    MXRT_PACK_FAMILY_COUNT
} mxrt_pack_family;

typedef enum mxrt_pack_buffer {
    MXRT_PACK_BUFFER_X = 0, /* the plain tensor that is read */
    MXRT_PACK_BUFFER_Y,     /* the plain tensor that is written */
    MXRT_PACK_BUFFER_P,     /* the packed bytes */
    MXRT_PACK_BUFFER_S,     /* the scales */
    MXRT_PACK_BUFFER_C,     /* of a pair: data and scales of the columns */
    MXRT_PACK_BUFFER_T,
    MXRT_PACK_BUFFER_G, /* offsets of groups, and where they begin after padding */
    MXRT_PACK_BUFFER_O,
    MXRT_PACK_BUFFER_COUNT
} mxrt_pack_buffer;

/* Of MXRT_PACK_GEMM. */
typedef enum mxrt_gemm_buffer {
    MXRT_GEMM_LEFT = 0,
    MXRT_GEMM_LEFT_SCALES,
    MXRT_GEMM_RIGHT,
    MXRT_GEMM_RIGHT_SCALES,
    MXRT_GEMM_OUT,
    MXRT_GEMM_READ_OFFSETS,
    MXRT_GEMM_WRITE_OFFSETS,
    MXRT_GEMM_STATUS,
    MXRT_GEMM_WORKSPACE,
    MXRT_GEMM_BUFFER_COUNT
} mxrt_gemm_buffer;

/* A variant applies where every `when` is not 0; `text` says so in words. */
typedef struct mxrt_pack_rule {
    const char *text;
    const mxrt_expr *when;
} mxrt_pack_rule;

typedef struct mxrt_pack_arg {
    const char *name;
    mxrt_arg_kind kind;
    uint16_t buffer;         /* of pointers: mxrt_pack_buffer, mxrt_gemm_buffer */
    const char *buffer_name; /* of pointers, such as "x"; else NULL */
    const mxrt_expr *value;  /* of the others (f32: the integer, converted); NULL for pointers */
    uint16_t offset_bytes;   /* in the argument block, at natural alignment */
} mxrt_pack_arg;

/* The expressions take the values of the family's variables (pack_vars.h). */
typedef struct mxrt_pack_launch {
    mxrt_pack_family family;
    size_t n_rules;
    const mxrt_pack_rule *rules;
    const mxrt_expr *grid[3], *block[3], *lds_bytes;
    size_t n_args; /* at most MXPACK_MAX_ARGS */
    const mxrt_pack_arg *args;
    size_t args_bytes; /* of the argument block, without padding at its end */
    /* Grouped GEMM. */
    const mxrt_expr *workspace_bytes; /* NULL: none */
    size_t n_before, n_after;
    const char *before[MXPACK_MAX_STEPS], *after[MXPACK_MAX_STEPS]; /* names of variants */
} mxrt_pack_launch;

typedef struct mxrt_pack_gemm_key {
    mx_gemm_pass pass;
    mx_gemm_element left, right;
    mx_gemm_mode mode;
    int is_step; /* only others name it; `pass` does not count */
} mxrt_pack_gemm_key;

/* What a variant is for: a block operation by all but `gemm`, a product by dtype and `gemm`. */
typedef struct mxrt_pack_key {
    mxrt_pack_family family;
    mxrt_pack_gemm_key gemm;
    mx_op op;
    mx_format format;
    mx_dtype dtype;
    mx_profile profile;
    mx_layout layout;
} mxrt_pack_key;

/* As mxrt_pack_open; `data` is copied. */
mx_status mxrt_pack_open_memory(const void *data, size_t size_bytes, mxrt_pack **out,
                                mx_error *err);

/* Of variant number `index`; NULL past the end. */
const mxrt_pack_launch *mxrt_pack_launch_of(const mxrt_pack *pack, size_t index);
const mxrt_pack_key *mxrt_pack_key_of(const mxrt_pack *pack, size_t index);

#endif
