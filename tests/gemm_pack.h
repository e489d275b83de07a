/* Packs with products for tests: rows whose launches are made of macros, and kernels of the host
 * (gemm_kernels.c, found by MX_TEST_GEMM_KERNELS). */
#ifndef GEMM_PACK_H
#define GEMM_PACK_H

#include <stdint.h>

#include "pack_build.h"

#define TARGET "host-x86-64-v2"

/* clang-format off */
#define POINTER(name) "{\"name\":\"" name "\",\"kind\":\"pointer\",\"buffer\":\"" name "\"},"
#define NUMBER(name, type, value) "{\"name\":\"" name "\",\"kind\":\"" type "\",\"value\":\"" value "\"}"
#define I64(name) NUMBER(name, "i64", name)
#define I32(name) NUMBER(name, "i32", name)
#define LAUNCH(grid, args, more)                                                                   \
    "{\"grid\":[\"" grid "\",\"1\",\"1\"],\"block\":[\"1\",\"1\",\"1\"],\"lds_bytes\":\"0\","      \
    "\"args\":[" args "]" more "}"

/* The steps and the product of gemm_kernels.c, in three launches. */
#define BEFORE                                                                                     \
    LAUNCH("groups",                                                                               \
           POINTER("workspace") POINTER("read_offsets") POINTER("write_offsets") I64("groups") "," \
           NUMBER("magic", "i64", "1000 + workspace_align"), "")
#define MAIN(more)                                                                                 \
    LAUNCH("groups",                                                                               \
           POINTER("left") POINTER("left_scales") POINTER("right") POINTER("right_scales")         \
           POINTER("out") POINTER("workspace") POINTER("write_offsets") POINTER("status")          \
           I64("left_row_stride") "," I64("left_scale_row_stride") "," I64("right_row_stride") "," \
           I64("right_group_stride") "," I64("right_scale_row_stride") ","                         \
           I64("right_scale_group_stride") "," I64("out_row_stride") "," I32("n") "," I32("k") "," \
           NUMBER("magic", "i32", "1256"), more)
#define AFTER(add)                                                                                 \
    LAUNCH("out_rows",                                                                             \
           POINTER("out") POINTER("workspace") I64("out_row_stride") "," I32("out_rows") ","       \
           I32("n") "," I32("num_cu") "," NUMBER("add", "f32", add), "")
#define ROUTE(after)                                                                               \
    MAIN(",\"workspace_bytes\":\"16 * groups\",\"before\":[\"b\"],\"after\":[" after "]")
/* A product in one launch, of any E4M3 values, which it makes `times` times. */
#define WHOLE(times)                                                                               \
    LAUNCH("groups",                                                                               \
           POINTER("left") POINTER("left_scales") POINTER("right") POINTER("right_scales")         \
           POINTER("out") POINTER("read_offsets") POINTER("write_offsets") POINTER("status")       \
           I64("n") "," I64("k") "," NUMBER("times", "i64", times), "")
/* Params as the model reads them: of kernels with tiles in all dimensions, and of those that stream. */
#define TILE(m, n) "{\"BLOCK_SIZE_M\":" #m ",\"BLOCK_SIZE_N\":" #n ",\"BLOCK_SIZE_K\":128}"
#define STREAM(m, n) "{\"BLOCK_SIZE_M\":" #m ",\"BLOCK_SIZE_N\":" #n "}"
/* clang-format on */

typedef struct gemm_row {
    const char *op, *name, *symbol, *profile, *rules, *launch;
    int64_t rank;
    const char *params, *code; /* code: NULL: not told */
} gemm_row;

/* Rows of E4M3 x E4M3 to f32. Release with free(data). */
pack_bytes gemm_pack_make(const char *target, const gemm_row *rows, size_t n);
void gemm_pack_add(const char *target, const gemm_row *rows, size_t n); /* to `context` */

#endif
