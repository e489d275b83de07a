/* The emit layer: how templates write kernels.
 *
 * A template is written for one lane. A value is uniform (one for all lanes of the warp) or
 * varying. On a GPU both are scalars of a thread; on the host a varying value is a vector of
 * `simd_width` lanes. Operands are converted from uniform to varying where they meet.
 *
 * Every operation checks its operands' types. The first mistake is kept, with the template's file
 * and line, and fails the compilation; after it, operations return poison of the right shape, so
 * that templates need no checks of their own. */
#ifndef MXGEN_EMIT_H
#define MXGEN_EMIT_H

#include <stdbool.h>

#include <llvm-c/Core.h>

#include "gen/target.h"

typedef enum mxe_type {
    MXE_I1 = 0,
    MXE_I8,
    MXE_I16,
    MXE_I32,
    MXE_I64,
    MXE_F16,
    MXE_F32,
    MXE_TYPE_COUNT
} mxe_type;

typedef struct mxe_value {
    LLVMValueRef ref;
    mxe_type type;
    bool varying;
} mxe_value;

typedef enum mxe_arg_kind { MXE_ARG_POINTER = 0, MXE_ARG_I32, MXE_ARG_I64 } mxe_arg_kind;

enum {
    MXE_ARG_READONLY = 1u << 0,
    MXE_ARG_WRITEONLY = 1u << 1,
    MXE_ARG_NOALIAS = 1u << 2,
};

typedef struct mxe_arg {
    const char *name;
    mxe_arg_kind kind;
    unsigned flags;
    int align_bytes; /* pointers: what the rules guarantee */
} mxe_arg;

#define MXE_MAX_ARGS 64

typedef struct mxe {
    const mxgen_target *target;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    LLVMValueRef function;
    LLVMTypeRef types[MXE_TYPE_COUNT];
    LLVMTypeRef pointer, global_pointer, lds_pointer;
    int lanes, simd_width;
    int n_args;
    const mxe_arg *args;
    LLVMValueRef arg_refs[MXE_MAX_ARGS];
    LLVMValueRef program_id; /* host: the loop's; GPUs: made on demand */
    LLVMValueRef thread_id;
    LLVMBasicBlockRef entry;
    LLVMValueRef lds; /* the workgroup's shared memory; one array a kernel */
    const char *file; /* of the operation under way */
    int line;
    bool failed;
    mx_error error;
} mxe;

/* Marks the template's line; wraps every operation below. */
static inline mxe *mxe_here(mxe *e, const char *file, int line)
{
    e->file = file;
    e->line = line;
    return e;
}
#define MXE_AT(e) mxe_here((e), __FILE__, __LINE__)

/* Records a failure unless there is one already. */
void mxe_fail(mxe *e, const char *format, ...) MX_PRINTF(2, 3);

/* ---- Constants and conversions ---- */

mxe_value mxe_const_at(mxe *e, mxe_type type, int64_t value);
mxe_value mxe_const_f32_at(mxe *e, float value);
#define mxe_i1(e, v) mxe_const_at(MXE_AT(e), MXE_I1, (v))
#define mxe_i32(e, v) mxe_const_at(MXE_AT(e), MXE_I32, (int64_t)(v))
#define mxe_i64(e, v) mxe_const_at(MXE_AT(e), MXE_I64, (int64_t)(v))
#define mxe_f32(e, v) mxe_const_f32_at(MXE_AT(e), (v))

mxe_value mxe_varying_at(mxe *e, mxe_value a);
mxe_value mxe_convert_at(mxe *e, mxe_value a, mxe_type type, bool is_signed);
mxe_value mxe_bitcast_at(mxe *e, mxe_value a, mxe_type type);
/* Integer to integer (truncating or extending), integer to float, float to float. */
#define mxe_zext(e, a, type) mxe_convert_at(MXE_AT(e), (a), (type), false)
#define mxe_sext(e, a, type) mxe_convert_at(MXE_AT(e), (a), (type), true)
#define mxe_fcast(e, a, type) mxe_convert_at(MXE_AT(e), (a), (type), true)
#define mxe_bitcast(e, a, type) mxe_bitcast_at(MXE_AT(e), (a), (type))
#define mxe_varying(e, a) mxe_varying_at(MXE_AT(e), (a))

/* ---- Arithmetic ---- */

typedef enum mxe_op {
    MXE_ADD = 0,
    MXE_SUB,
    MXE_MUL,
    MXE_UDIV,
    MXE_UREM,
    MXE_AND,
    MXE_OR,
    MXE_XOR,
    MXE_SHL,
    MXE_LSHR,
    MXE_ASHR,
    MXE_UMIN,
    MXE_UMAX,
    MXE_SMIN,
    MXE_SMAX,
    MXE_USUB, /* a - b, 0 where that is negative */
    MXE_FADD,
    MXE_FSUB,
    MXE_FMUL,
    MXE_FMIN,
    MXE_FMAX,
    MXE_EQ,
    MXE_NE,
    MXE_ULT,
    MXE_ULE,
    MXE_SLT,
    MXE_SLE,
    MXE_UNO /* either is NaN */
} mxe_op;

mxe_value mxe_binary_at(mxe *e, mxe_op op, mxe_value a, mxe_value b);
mxe_value mxe_select_at(mxe *e, mxe_value condition, mxe_value a, mxe_value b);
#define mxe_add(e, a, b) mxe_binary_at(MXE_AT(e), MXE_ADD, (a), (b))
#define mxe_sub(e, a, b) mxe_binary_at(MXE_AT(e), MXE_SUB, (a), (b))
#define mxe_mul(e, a, b) mxe_binary_at(MXE_AT(e), MXE_MUL, (a), (b))
#define mxe_udiv(e, a, b) mxe_binary_at(MXE_AT(e), MXE_UDIV, (a), (b))
#define mxe_urem(e, a, b) mxe_binary_at(MXE_AT(e), MXE_UREM, (a), (b))
#define mxe_and(e, a, b) mxe_binary_at(MXE_AT(e), MXE_AND, (a), (b))
#define mxe_or(e, a, b) mxe_binary_at(MXE_AT(e), MXE_OR, (a), (b))
#define mxe_xor(e, a, b) mxe_binary_at(MXE_AT(e), MXE_XOR, (a), (b))
#define mxe_shl(e, a, b) mxe_binary_at(MXE_AT(e), MXE_SHL, (a), (b))
#define mxe_lshr(e, a, b) mxe_binary_at(MXE_AT(e), MXE_LSHR, (a), (b))
#define mxe_ashr(e, a, b) mxe_binary_at(MXE_AT(e), MXE_ASHR, (a), (b))
#define mxe_umin(e, a, b) mxe_binary_at(MXE_AT(e), MXE_UMIN, (a), (b))
#define mxe_umax(e, a, b) mxe_binary_at(MXE_AT(e), MXE_UMAX, (a), (b))
#define mxe_smin(e, a, b) mxe_binary_at(MXE_AT(e), MXE_SMIN, (a), (b))
#define mxe_smax(e, a, b) mxe_binary_at(MXE_AT(e), MXE_SMAX, (a), (b))
#define mxe_usub(e, a, b) mxe_binary_at(MXE_AT(e), MXE_USUB, (a), (b))
#define mxe_fadd(e, a, b) mxe_binary_at(MXE_AT(e), MXE_FADD, (a), (b))
#define mxe_fsub(e, a, b) mxe_binary_at(MXE_AT(e), MXE_FSUB, (a), (b))
#define mxe_fmul(e, a, b) mxe_binary_at(MXE_AT(e), MXE_FMUL, (a), (b))
#define mxe_eq(e, a, b) mxe_binary_at(MXE_AT(e), MXE_EQ, (a), (b))
#define mxe_ne(e, a, b) mxe_binary_at(MXE_AT(e), MXE_NE, (a), (b))
#define mxe_ult(e, a, b) mxe_binary_at(MXE_AT(e), MXE_ULT, (a), (b))
#define mxe_ule(e, a, b) mxe_binary_at(MXE_AT(e), MXE_ULE, (a), (b))
#define mxe_slt(e, a, b) mxe_binary_at(MXE_AT(e), MXE_SLT, (a), (b))
#define mxe_sle(e, a, b) mxe_binary_at(MXE_AT(e), MXE_SLE, (a), (b))
#define mxe_is_nan(e, a) mxe_binary_at(MXE_AT(e), MXE_UNO, (a), (a))
#define mxe_select(e, c, a, b) mxe_select_at(MXE_AT(e), (c), (a), (b))

/* a * b + c, rounded once. */
mxe_value mxe_fma_at(mxe *e, mxe_value a, mxe_value b, mxe_value c);
#define mxe_fma(e, a, b, c) mxe_fma_at(MXE_AT(e), (a), (b), (c))

/* The low word of (high : low) >> bits, for i32 and 0 <= bits < 32. */
mxe_value mxe_funnel_at(mxe *e, mxe_value low, mxe_value high, mxe_value bits);
#define mxe_funnel(e, low, high, bits) mxe_funnel_at(MXE_AT(e), (low), (high), (bits))

/* f32 clamped to [low, high]; not for NaN. */
mxe_value mxe_fclamp_at(mxe *e, mxe_value a, mxe_value low, mxe_value high);
#define mxe_fclamp(e, a, low, high) mxe_fclamp_at(MXE_AT(e), (a), (low), (high))

/* i32 of at most 22 bits -> f32, exact, by whatever the target is fast at. */
mxe_value mxe_small_to_f32_at(mxe *e, mxe_value a);
#define mxe_small_to_f32(e, a) mxe_small_to_f32_at(MXE_AT(e), (a))

/* Byte `index` of an i32, 0 .. 255, minus `bias` (0 .. 255), or as a signed number -> f32, exact.
 */
mxe_value mxe_byte_to_f32_at(mxe *e, mxe_value word, int index, int bias);
mxe_value mxe_signed_byte_to_f32_at(mxe *e, mxe_value word, int index);
#define mxe_byte_to_f32(e, word, i, bias) mxe_byte_to_f32_at(MXE_AT(e), (word), (i), (bias))
#define mxe_signed_byte_to_f32(e, word, i) mxe_signed_byte_to_f32_at(MXE_AT(e), (word), (i))

/* Adding this number to an f32 below 2^22 rounds it to the nearest even integer, which then stands
 * in two's complement in the sum's low bits. */
#define MXE_ROUNDER 12582912.0f

/* Four words' bytes number `index`, the first lowest, as one i32; or their low bytes. */
mxe_value mxe_gather_bytes_at(mxe *e, const mxe_value words[4], int index);
#define mxe_gather_bytes(e, v, index) mxe_gather_bytes_at(MXE_AT(e), (v), (index))
#define mxe_pack_bytes(e, v) mxe_gather_bytes_at(MXE_AT(e), (v), 0)

/* Two bf16 in an i32, each by itself: a * b + c rounded once. Targets with MXGEN_CAP_HALVES. */
mxe_value mxe_bf16x2_fma_at(mxe *e, mxe_value a, mxe_value b, mxe_value c);
/* Two u16 in an i32, each by itself. MXE_UMIN and MXE_UMAX: targets with MXGEN_CAP_HALVES or
 * MXGEN_CAP_SHORTS; MXE_SUB, MXE_USUB, MXE_LSHR and MXE_SLT (of i16; all bits set where it holds): with
 * MXGEN_CAP_SHORTS. */
mxe_value mxe_u16x2_at(mxe *e, mxe_op op, mxe_value a, mxe_value b);
/* Of four u8 in each i32 the smaller; bytes 0, 2, 1, 3 of an i32 in this order. MXGEN_CAP_SHORTS. */
mxe_value mxe_umin_u8x4_at(mxe *e, mxe_value a, mxe_value b);
mxe_value mxe_swap_middle_at(mxe *e, mxe_value a);
#define mxe_umin_u8x4(e, a, b) mxe_umin_u8x4_at(MXE_AT(e), (a), (b))
#define mxe_swap_middle(e, a) mxe_swap_middle_at(MXE_AT(e), (a))
#define mxe_bf16x2_fma(e, a, b, c) mxe_bf16x2_fma_at(MXE_AT(e), (a), (b), (c))
#define mxe_umin_u16x2(e, a, b) mxe_u16x2_at(MXE_AT(e), MXE_UMIN, (a), (b))
#define mxe_umax_u16x2(e, a, b) mxe_u16x2_at(MXE_AT(e), MXE_UMAX, (a), (b))
#define mxe_sub_u16x2(e, a, b) mxe_u16x2_at(MXE_AT(e), MXE_SUB, (a), (b))
#define mxe_usub_u16x2(e, a, b) mxe_u16x2_at(MXE_AT(e), MXE_USUB, (a), (b))
#define mxe_lshr_u16x2(e, a, b) mxe_u16x2_at(MXE_AT(e), MXE_LSHR, (a), (b))
#define mxe_slt_u16x2(e, a, b) mxe_u16x2_at(MXE_AT(e), MXE_SLT, (a), (b))

/* Two f32 as OCP's E4M3 or E5M2, the first in the low byte of an i32 that is zero above: nearest
 * even, what is too large saturates, signs of zeros are kept; NaN is some NaN. Targets with
 * MXGEN_CAP_FP8. */
mxe_value mxe_fp8_pair_at(mxe *e, mxe_value low, mxe_value high, bool is_e5m2);
#define mxe_fp8_pair(e, low, high, is_e5m2) mxe_fp8_pair_at(MXE_AT(e), (low), (high), (is_e5m2))

/* Two f32 rounded to nearest even as bf16 or f16, the first in the low half of an i32. */
mxe_value mxe_pack_halves_at(mxe *e, mxe_value low, mxe_value high, mx_dtype dtype);
#define mxe_pack_halves(e, low, high, dtype) mxe_pack_halves_at(MXE_AT(e), (low), (high), (dtype))

/* Products of two bf16 or f16 with two others, each pair in an i32; rounded to nearest even,
 * subnormals kept. */
mxe_value mxe_mul_halves_at(mxe *e, mxe_value a, mxe_value b, mx_dtype dtype);
#define mxe_mul_halves(e, a, b, dtype) mxe_mul_halves_at(MXE_AT(e), (a), (b), (dtype))

/* Eight f32, each divided by 2^(exponent field of `scale` - 127), as E2M1 in an i32, the first
 * lowest: as above. Targets with MXGEN_CAP_FP4. */
mxe_value mxe_fp4_eight_at(mxe *e, const mxe_value values[8], mxe_value scale);
#define mxe_fp4_eight(e, values, scale) mxe_fp4_eight_at(MXE_AT(e), (values), (scale))

/* ---- Where am I ---- */

mxe_value mxe_param_at(mxe *e, const char *name); /* kernel argument: uniform i32 or i64 */
#define mxe_param(e, name) mxe_param_at(MXE_AT(e), (name))
mxe_value mxe_address_at(mxe *e, const char *pointer); /* of a pointer argument: uniform i64 */
#define mxe_address(e, pointer) mxe_address_at(MXE_AT(e), (pointer))
mxe_value mxe_program_id(mxe *e); /* i64, uniform */
mxe_value mxe_lane(mxe *e);       /* i32, varying, 0 .. lanes-1 */
mxe_value mxe_warp(mxe *e);       /* i32, uniform, within the program */

/* The value as uniform: all lanes of the warp have the same. */
mxe_value mxe_uniform_at(mxe *e, mxe_value a);
#define mxe_uniform(e, a) mxe_uniform_at(MXE_AT(e), (a))

/* ---- Control flow, on uniform values ---- */

typedef struct mxe_loop {
    LLVMBasicBlockRef head, exit;
    LLVMValueRef phi, step, end;
} mxe_loop;

typedef struct mxe_branch {
    LLVMBasicBlockRef otherwise, end;
} mxe_branch;

/* for (i = begin; i < end; i += step), all i64; returns i. */
mxe_value mxe_for_begin_at(mxe *e, mxe_loop *loop, mxe_value begin, mxe_value end, mxe_value step);
#define mxe_for_begin(e, ...) mxe_for_begin_at(MXE_AT(e), __VA_ARGS__)
void mxe_for_end(mxe *e, mxe_loop *loop);
/* The same, but run once at least: what takes many registers and changes in the loop stays in its
 * place. */
mxe_value mxe_do_begin_at(mxe *e, mxe_loop *loop, mxe_value begin, mxe_value end, mxe_value step);
#define mxe_do_begin(e, ...) mxe_do_begin_at(MXE_AT(e), __VA_ARGS__)
void mxe_do_end(mxe *e, mxe_loop *loop);
void mxe_if_begin_at(mxe *e, mxe_branch *branch, mxe_value condition);
#define mxe_if_begin(e, branch, condition) mxe_if_begin_at(MXE_AT(e), (branch), (condition))
/* The same where the condition hardly ever holds: what follows is laid out of the way. */
void mxe_if_begin_rare_at(mxe *e, mxe_branch *branch, mxe_value condition);
#define mxe_if_begin_rare(e, branch, condition)                                                    \
    mxe_if_begin_rare_at(MXE_AT(e), (branch), (condition))
void mxe_if_else(mxe *e, mxe_branch *branch);
void mxe_if_end(mxe *e, mxe_branch *branch);

/* while (condition) { .. }: mxe_while_begin, the condition, mxe_while_do, the body, mxe_while_end.
 */
typedef struct mxe_while {
    LLVMBasicBlockRef head, exit;
} mxe_while;

void mxe_while_begin(mxe *e, mxe_while *loop);
void mxe_while_do_at(mxe *e, mxe_while *loop, mxe_value condition);
#define mxe_while_do(e, loop, condition) mxe_while_do_at(MXE_AT(e), (loop), (condition))
void mxe_while_end(mxe *e, mxe_while *loop);

/* Whether a condition holds in any lane that one value carries: fit for mxe_if_begin. On GPUs that
 * is the thread's own condition, and the branch diverges. */
mxe_value mxe_any_at(mxe *e, mxe_value condition);
#define mxe_any(e, condition) mxe_any_at(MXE_AT(e), (condition))

/* A value that branches may change. */
typedef struct mxe_var {
    LLVMValueRef slot;
    mxe_type type;
    bool varying;
} mxe_var;

mxe_var mxe_var_new_at(mxe *e, mxe_value initial);
void mxe_var_set_at(mxe *e, mxe_var var, mxe_value value);
mxe_value mxe_var_get_at(mxe *e, mxe_var var);
#define mxe_var_new(e, initial) mxe_var_new_at(MXE_AT(e), (initial))
#define mxe_var_set(e, var, value) mxe_var_set_at(MXE_AT(e), (var), (value))
#define mxe_var_get(e, var) mxe_var_get_at(MXE_AT(e), (var))

/* ---- Memory ---- */

/* The byte address base + uniform + lane * lane_stride + varying, where base is a pointer argument
 * or, with pointer == NULL, the shared memory. `uniform` is i64; `varying` is i32 (unsigned) or
 * i64, or has a NULL ref. Kept apart because the first parts become contiguous vector accesses on
 * the host and scalar base registers on GPUs. */
typedef struct mxe_addr {
    const char *pointer;
    mxe_value uniform;
    int64_t lane_stride;
    mxe_value varying;
    /* NULL, or another argument that is the base where `is_other` (uniform i1) holds. */
    const char *other;
    mxe_value is_other;
    mxe_value lane_step; /* uniform i64, added to lane_stride, or a NULL ref; the host */
} mxe_addr;

enum { MXE_STREAM = 1u << 0 /* will not be used again soon: keep it out of caches */ };

/* Each lane reads n consecutive items of `type` (i8, i16, i32); its address is a multiple of
 * align_bytes. Exactly these bytes are touched. */
void mxe_load_at(mxe *e, mxe_addr addr, mxe_type type, int n, int align_bytes, unsigned flags,
                 mxe_value *out);
#define mxe_load(e, ...) mxe_load_at(MXE_AT(e), __VA_ARGS__)

/* One item of `type` at a uniform byte offset, the same for all lanes. */
mxe_value mxe_load_uniform_at(mxe *e, const char *pointer, mxe_value offset, mxe_type type);
#define mxe_load_uniform(e, ...) mxe_load_uniform_at(MXE_AT(e), __VA_ARGS__)

/* Before a kernel ends that has stored with MXE_STREAM: others see these stores after. */
void mxe_stream_end(mxe *e);

/* Each lane for which `predicate` holds writes n consecutive items; a predicate with a NULL ref
 * always holds. */
void mxe_store_at(mxe *e, mxe_addr addr, mxe_type type, int n, int align_bytes, unsigned flags,
                  mxe_value predicate, const mxe_value *values);
#define mxe_store(e, ...) mxe_store_at(MXE_AT(e), __VA_ARGS__)

/* Each lane copies n items; cheaper than a load and a store where lanes are side by side. */
void mxe_copy_at(mxe *e, mxe_addr to, mxe_addr from, mxe_type type, int n, int align_bytes,
                 unsigned flags, mxe_value predicate);
#define mxe_copy(e, ...) mxe_copy_at(MXE_AT(e), __VA_ARGS__)

/* Each lane's address will be read soon, and may be anything: for the host, whose caches do not see
 * coming what is read of many rows at once. Nothing on GPUs. */
void mxe_prefetch_at(mxe *e, mxe_addr addr);
#define mxe_prefetch(e, addr) mxe_prefetch_at(MXE_AT(e), (addr))

static inline mxe_value mxe_always(void)
{
    mxe_value none = {NULL, MXE_I1, false};
    return none;
}

/* Shared by the workgroup on GPUs, private to the running thread on the host; 16-byte aligned, 1024
 * where it is more than the target has without asking the driver; once a kernel, before any use. */
void mxe_lds_reserve_at(mxe *e, int size_bytes);
#define mxe_lds_reserve(e, size_bytes) mxe_lds_reserve_at(MXE_AT(e), (size_bytes))

/* What the lanes of the warp, or all of the workgroup, wrote to shared memory before is seen after.
 * Needed after writing and before the memory is used again. All lanes must arrive: a barrier
 * must not stand in a branch that only some warps take. */
void mxe_warp_sync(mxe *e);
void mxe_barrier(mxe *e);

/* umax or or of an i32 over each aligned run of `group` lanes (a power of two up to 32), in all of
 * them. Targets with MXGEN_CAP_EXCHANGE. */
mxe_value mxe_lane_reduce_at(mxe *e, mxe_op op, mxe_value a, int group);
#define mxe_lane_reduce(e, op, a, group) mxe_lane_reduce_at(MXE_AT(e), (op), (a), (group))

/* Byte i of the result is byte (nibble i of `codes`, 0 .. 7) of the table (high : low), i32; the
 * codes' low four nibbles are used. Targets with MXGEN_CAP_TILE_MMA. */
mxe_value mxe_lookup_at(mxe *e, mxe_value low, mxe_value high, mxe_value codes);
#define mxe_lookup(e, low, high, codes) mxe_lookup_at(MXE_AT(e), (low), (high), (codes))

/* The value that lane (lane xor distance) of the warp has, i32, distance 1 .. 31. Targets with
 * MXGEN_CAP_TILE_MMA. */
mxe_value mxe_swap_lanes_at(mxe *e, mxe_value a, int distance);
#define mxe_swap_lanes(e, a, distance) mxe_swap_lanes_at(MXE_AT(e), (a), (distance))

/* ---- Asynchronous copies and matrix products from shared memory: MXGEN_CAP_TILE_MMA ----
 *
 * Four warps that follow each other, the first a multiple of four, form a warpgroup. A signal is 8
 * bytes of shared memory that counts arrivals and bytes; after `count` arrivals and the expected
 * bytes its phase ends, and those who wait for the phase's parity go on. Offsets in shared memory
 * are uniform i32. */
enum { MXE_SIGNAL_BYTES = 8 };
void mxe_signal_init_at(mxe *e, mxe_value signal, int count); /* one thread, then the fence */
void mxe_signal_fence(mxe *e); /* makes what signal_init wrote known to copies; then a barrier */
void mxe_signal_expect_at(mxe *e, mxe_value signal, mxe_value bytes); /* and arrive; one thread */
void mxe_signal_arrive_at(mxe *e, mxe_value signal);                  /* one thread */
void mxe_signal_wait_at(mxe *e, mxe_value signal, mxe_value parity);  /* i32 */
#define mxe_signal_init(e, signal, count) mxe_signal_init_at(MXE_AT(e), (signal), (count))
#define mxe_signal_expect(e, signal, bytes) mxe_signal_expect_at(MXE_AT(e), (signal), (bytes))
#define mxe_signal_arrive(e, signal) mxe_signal_arrive_at(MXE_AT(e), (signal))
#define mxe_signal_wait(e, signal, parity) mxe_signal_wait_at(MXE_AT(e), (signal), (parity))

/* One thread starts a copy of `bytes` (uniform i32, a multiple of 16, as are offset and address)
 * from pointer + offset to shared memory; its end counts at the signal. */
void mxe_bulk_load_at(mxe *e, mxe_value to, const char *pointer, mxe_value offset, mxe_value bytes,
                      mxe_value signal);
#define mxe_bulk_load(e, ...) mxe_bulk_load_at(MXE_AT(e), __VA_ARGS__)

/* Two FP8, in the low half of an i32, times two f16 in `factors`: rounded to nearest even as FP8 of
 * the same type; NaN stays one, what is infinite does not. The high half is zero. */
mxe_value mxe_fp8_scale_at(mxe *e, mxe_value pair, mxe_value factors, bool is_e5m2);
#define mxe_fp8_scale(e, ...) mxe_fp8_scale_at(MXE_AT(e), __VA_ARGS__)

/* The running warpgroup multiplies rows [64, bytes] at shared offset `a` by rows [n, bytes] at `b`,
 * contracting over 64 or 128 bytes, and adds to acc[n / 2] (f32, varying). Rows are 128 bytes
 * apart; their 16-byte chunk c stands at chunk c ^ (row % 8); both start at multiples of 1024, or
 * 64 bytes after. Lane l of warp w of the group has in acc[4 j + 2 h + i] the element of row 16 w +
 * l / 4 + 8 h, column 8 j + 2 (l % 4) + i. `clear` (uniform i32): nonzero starts from zero. Both
 * operands are bf16 or neither. Done when it returns. */
typedef enum mxe_tile_kind { MXE_TILE_BF16 = 0, MXE_TILE_E5M2, MXE_TILE_E4M3 } mxe_tile_kind;
typedef struct mxe_tile_product {
    mxe_tile_kind a, b;
    int n, bytes;
} mxe_tile_product;
void mxe_tile_mma_at(mxe *e, const mxe_tile_product *product, mxe_value a, mxe_value b,
                     mxe_value clear, mxe_value *acc);
#define mxe_tile_mma(e, ...) mxe_tile_mma_at(MXE_AT(e), __VA_ARGS__)

/* All threads of a warpgroup set how many registers each has: fewer than the launch gave, or more
 * out of what others set free. */
void mxe_register_budget_at(mxe *e, int registers, bool more);
#define mxe_register_budget(e, ...) mxe_register_budget_at(MXE_AT(e), __VA_ARGS__)

/* Between these a warp is one lane and values are scalars: for the few blocks that do not fill the
 * host's vectors. Changes nothing where values are scalars anyway. */
void mxe_scalar_begin(mxe *e);
void mxe_scalar_end(mxe *e);

/* ---- Kernels ---- */

void mxe_init(mxe *e, const mxgen_target *target, LLVMContextRef context, LLVMModuleRef module);
void mxe_finish(mxe *e);
/* Between these the builder stands in the kernel. `threads` is the workgroup's size; registers
 * leave room for `min_programs` workgroups on a compute unit (NVIDIA's targets; 0: the compiler's
 * choice).
 */
void mxe_kernel_begin(mxe *e, const char *symbol, const mxe_arg *args, int n_args, int threads,
                      int min_programs);
void mxe_kernel_end(mxe *e);

#endif
