/* Matrix products of warpgroups from shared memory, and the copies and signals around them. The
 * instructions have no intrinsics or only partly, so all of them are assembly. */
#include "gen/emit_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool is_capable(mxe *e, const char *what)
{
    if (mxgen_target_has(e->target, MXGEN_CAP_TILE_MMA))
        return true;
    mxe_fail(e, "%s has no %s", e->target->name, what);
    return false;
}

/* Calls assembly of side effects; `type` is what it returns. */
static LLVMValueRef assembly(mxe *e, const char *text, const char *constraints, LLVMTypeRef type,
                             LLVMValueRef *args, unsigned n_args)
{
    LLVMTypeRef types[144];
    for (unsigned i = 0; i < n_args; i++)
        types[i] = LLVMTypeOf(args[i]);
    LLVMTypeRef function = LLVMFunctionType(type, types, n_args, 0);
    LLVMValueRef code = LLVMGetInlineAsm(function, text, strlen(text), constraints,
                                         strlen(constraints), 1, 0, LLVMInlineAsmDialectATT, 0);
    return LLVMBuildCall2(e->builder, function, code, args, n_args, "");
}

static void statement(mxe *e, const char *text, const char *constraints, LLVMValueRef *args,
                      unsigned n_args)
{
    assembly(e, text, constraints, LLVMVoidTypeInContext(e->context), args, n_args);
}

static LLVMValueRef shared_address(mxe *e, mxe_value offset)
{
    if (!e->lds) {
        mxe_fail(e, "shared memory used before mxe_lds_reserve");
        return LLVMGetPoison(e->types[MXE_I32]);
    }
    LLVMValueRef base = LLVMBuildPtrToInt(e->builder, e->lds, e->types[MXE_I32], "");
    return LLVMBuildAdd(e->builder, base, offset.ref, "");
}

static bool is_i32(mxe *e, mxe_value a)
{
    if (mxe_is_set(e, a) && a.type == MXE_I32)
        return true;
    mxe_fail(e, "offsets in shared memory, counts and parities are i32");
    return false;
}

mxe_value mxe_lookup_at(mxe *e, mxe_value low, mxe_value high, mxe_value codes)
{
    if (!is_capable(e, "table lookup") || !is_i32(e, low) || !is_i32(e, high) || !is_i32(e, codes))
        return mxe_poison(e, MXE_I32, true);
    LLVMValueRef args[3] = {low.ref, high.ref, codes.ref};
    return mxe_wrap(mxe_call_intrinsic(e, "llvm.nvvm.prmt", NULL, 0, args, 3), MXE_I32, true);
}

mxe_value mxe_swap_lanes_at(mxe *e, mxe_value a, int distance)
{
    if (!is_capable(e, "exchange over the whole warp") || !is_i32(e, a))
        return mxe_poison(e, MXE_I32, true);
    LLVMValueRef args[4] = {mxe_llvm_i32(e, -1), a.ref, mxe_llvm_i32(e, distance),
                            mxe_llvm_i32(e, 0x1f)};
    LLVMValueRef other = mxe_call_intrinsic(e, "llvm.nvvm.shfl.sync.bfly.i32", NULL, 0, args, 4);
    return mxe_wrap(other, MXE_I32, true);
}

static LLVMTypeRef halves_type(mxe *e, mx_dtype dtype)
{
    LLVMTypeRef half = dtype == MX_DTYPE_BF16 ? LLVMBFloatTypeInContext(e->context)
                                              : LLVMHalfTypeInContext(e->context);
    return LLVMVectorType(half, 2);
}

static bool are_halves(mxe *e, mxe_value a, mxe_value b, mxe_type type, mx_dtype dtype)
{
    if (mxe_is_set(e, a) && mxe_is_set(e, b) && e->simd_width == 1 && a.type == type &&
        b.type == type && dtype != MX_DTYPE_F32)
        return true;
    mxe_fail(e, "pairs of halves are made of f32 and stand in i32, one pair a lane");
    return false;
}

mxe_value mxe_pack_halves_at(mxe *e, mxe_value low, mxe_value high, mx_dtype dtype)
{
    if (!are_halves(e, low, high, MXE_F32, dtype))
        return mxe_poison(e, MXE_I32, true);
    LLVMValueRef pair = LLVMGetPoison(LLVMVectorType(e->types[MXE_F32], 2));
    pair = LLVMBuildInsertElement(e->builder, pair, low.ref, mxe_llvm_i32(e, 0), "");
    pair = LLVMBuildInsertElement(e->builder, pair, high.ref, mxe_llvm_i32(e, 1), "");
    pair = LLVMBuildFPTrunc(e->builder, pair, halves_type(e, dtype), "");
    return mxe_wrap(LLVMBuildBitCast(e->builder, pair, e->types[MXE_I32], ""), MXE_I32, true);
}

mxe_value mxe_mul_halves_at(mxe *e, mxe_value a, mxe_value b, mx_dtype dtype)
{
    if (!are_halves(e, a, b, MXE_I32, dtype))
        return mxe_poison(e, MXE_I32, true);
    LLVMTypeRef type = halves_type(e, dtype);
    LLVMValueRef product = LLVMBuildFMul(e->builder, LLVMBuildBitCast(e->builder, a.ref, type, ""),
                                         LLVMBuildBitCast(e->builder, b.ref, type, ""), "");
    return mxe_wrap(LLVMBuildBitCast(e->builder, product, e->types[MXE_I32], ""), MXE_I32, true);
}

void mxe_signal_init_at(mxe *e, mxe_value signal, int count)
{
    if (!is_capable(e, "signals") || !is_i32(e, signal))
        return;
    LLVMValueRef args[2] = {shared_address(e, signal), mxe_llvm_i32(e, count)};
    statement(e, "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}", args, 2);
}

void mxe_signal_fence(mxe *e)
{
    if (is_capable(e, "signals"))
        statement(e, "fence.mbarrier_init.release.cluster; fence.proxy.async;", "~{memory}", NULL,
                  0);
}

void mxe_signal_expect_at(mxe *e, mxe_value signal, mxe_value bytes)
{
    if (!is_capable(e, "signals") || !is_i32(e, signal) || !is_i32(e, bytes))
        return;
    LLVMValueRef args[2] = {shared_address(e, signal), bytes.ref};
    statement(e, "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,~{memory}", args,
              2);
}

void mxe_signal_arrive_at(mxe *e, mxe_value signal)
{
    if (!is_capable(e, "signals") || !is_i32(e, signal))
        return;
    LLVMValueRef args[1] = {shared_address(e, signal)};
    statement(e, "mbarrier.arrive.shared::cta.b64 _, [$0];", "r,~{memory}", args, 1);
}

void mxe_signal_wait_at(mxe *e, mxe_value signal, mxe_value parity)
{
    if (!is_capable(e, "signals") || !is_i32(e, signal) || !is_i32(e, parity))
        return;
    LLVMValueRef args[2] = {shared_address(e, signal), parity.ref};
    statement(e,
              "{ .reg .pred done;\n"
              "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [$0], $1;\n"
              "@done bra DONE;\n"
              "bra AGAIN;\n"
              "DONE: }",
              "r,r,~{memory}", args, 2);
}

void mxe_bulk_load_at(mxe *e, mxe_value to, const char *pointer, mxe_value offset, mxe_value bytes,
                      mxe_value signal)
{
    if (!is_capable(e, "bulk copies") || !is_i32(e, to) || !is_i32(e, bytes) || !is_i32(e, signal))
        return;
    mxe_value address = mxe_binary_at(e, MXE_ADD, mxe_address_at(e, pointer), offset);
    LLVMValueRef args[4] = {shared_address(e, to), address.ref, bytes.ref,
                            shared_address(e, signal)};
    statement(e,
              "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, "
              "[$3];",
              "r,l,r,r,~{memory}", args, 4);
}

/* ---- The product ---- */

typedef struct text {
    char chars[8000];
    size_t used;
} text;

static void MX_PRINTF(2, 3) append(text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(t->chars + t->used, sizeof(t->chars) - t->used, format, args);
    va_end(args);
    if (n > 0)
        t->used += (size_t)n;
}

static const char *const kind_names[] = {"bf16", "e5m2", "e4m3"};

/* Instructions over 32 bytes of the rows each. Operand n_acc and n_acc + 1 are the
 * descriptors, n_acc + 2 says whether to start from zero. */
static void product_text(text *t, const mxe_tile_product *product)
{
    int n_acc = product->n / 2, steps = product->bytes / 32;
    bool bf16 = product->a == MXE_TILE_BF16;
    append(t,
           "{ .reg .pred keep, always; .reg .b64 a, b;\n"
           "setp.eq.b32 keep, $%d, 0; setp.eq.b32 always, 0, 0;\n"
           "mov.b64 a, $%d; mov.b64 b, $%d;\n"
           "wgmma.fence.sync.aligned;\n",
           n_acc + 2, n_acc, n_acc + 1);
    for (int step = 0; step < steps; step++) {
        append(t, "wgmma.mma_async.sync.aligned.m64n%dk%d.f32.%s.%s {", product->n, bf16 ? 16 : 32,
               kind_names[product->a], kind_names[product->b]);
        for (int i = 0; i < n_acc; i++)
            append(t, "%s$%d", i ? "," : "", i);
        append(t, "}, a, b, %s, 1, 1%s;\n", step ? "always" : "keep", bf16 ? ", 0, 0" : "");
        if (step < steps - 1)
            append(t, "add.s64 a, a, 2; add.s64 b, b, 2;\n");
    }
    append(t, "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0; }");
}

static void product_constraints(text *t, int n_acc)
{
    for (int i = 0; i < n_acc; i++)
        append(t, "=f,");
    append(t, "l,l,r");
    for (int i = 0; i < n_acc; i++)
        append(t, ",%d", i);
    append(t, ",~{memory}");
}

/* Where a tile stands, in the form that the instruction takes: address and stride of 8 rows in
 * units of 16 bytes, and the 128-byte swizzle. */
static LLVMValueRef descriptor(mxe *e, mxe_value offset)
{
    LLVMTypeRef i64 = e->types[MXE_I64];
    const uint64_t form = (uint64_t)1 << 62 | (uint64_t)(1024 >> 4) << 32 | (uint64_t)1 << 16;
    LLVMValueRef address = LLVMBuildZExt(e->builder, shared_address(e, offset), i64, "");
    address = LLVMBuildAnd(e->builder, address, LLVMConstInt(i64, 0x3ffff, 0), "");
    address = LLVMBuildLShr(e->builder, address, LLVMConstInt(i64, 4, 0), "");
    return LLVMBuildOr(e->builder, address, LLVMConstInt(i64, form, 0), "");
}

mxe_value mxe_fp8_scale_at(mxe *e, mxe_value pair, mxe_value factors, bool is_e5m2)
{
    const char *up = is_e5m2 ? "llvm.nvvm.e5m2x2.to.f16x2.rn" : "llvm.nvvm.e4m3x2.to.f16x2.rn";
    const char *down = is_e5m2 ? "llvm.nvvm.f16x2.to.e5m2x2.rn" : "llvm.nvvm.f16x2.to.e4m3x2.rn";
    if (!is_capable(e, "scaled FP8") || !is_i32(e, pair) || !is_i32(e, factors))
        return mxe_poison(e, MXE_I32, true);
    LLVMTypeRef halves = LLVMVectorType(e->types[MXE_F16], 2);
    LLVMValueRef value = LLVMBuildTrunc(e->builder, pair.ref, e->types[MXE_I16], "");
    value = mxe_call_intrinsic(e, up, NULL, 0, &value, 1);
    LLVMValueRef by = LLVMBuildBitCast(e->builder, factors.ref, halves, "");
    value = LLVMBuildFMul(e->builder, value, by, "");
    value = mxe_call_intrinsic(e, down, NULL, 0, &value, 1);
    value = LLVMBuildZExt(e->builder, value, e->types[MXE_I32], "");
    return mxe_wrap(value, MXE_I32, pair.varying || factors.varying);
}

void mxe_tile_mma_at(mxe *e, const mxe_tile_product *product, mxe_value a, mxe_value b,
                     mxe_value clear, mxe_value *acc)
{
    enum { MOST = 128 };
    text code = {.used = 0}, constraints = {.used = 0};
    int n = product->n, n_acc = n / 2;
    if (!is_capable(e, "products of tiles") || !is_i32(e, a) || !is_i32(e, b) || !is_i32(e, clear))
        return;
    if (n % 8 || n < 8 || n_acc > MOST) {
        mxe_fail(e, "a tile of %d columns; multiples of 8 up to %d", n, 2 * MOST);
        return;
    }
    if ((product->a == MXE_TILE_BF16) != (product->b == MXE_TILE_BF16) ||
        (product->bytes != 64 && product->bytes != 128)) {
        mxe_fail(e, "a product of %d bytes of %s and %s", product->bytes, kind_names[product->a],
                 kind_names[product->b]);
        return;
    }
    product_text(&code, product);
    product_constraints(&constraints, n_acc);
    LLVMTypeRef fields[MOST];
    LLVMValueRef args[MOST + 3] = {descriptor(e, a), descriptor(e, b), clear.ref};
    for (int i = 0; i < n_acc; i++) {
        fields[i] = e->types[MXE_F32];
        args[3 + i] = acc[i].ref;
    }
    LLVMTypeRef type = LLVMStructTypeInContext(e->context, fields, (unsigned)n_acc, 0);
    LLVMValueRef out = assembly(e, code.chars, constraints.chars, type, args, (unsigned)n_acc + 3);
    for (int i = 0; i < n_acc; i++)
        acc[i] = mxe_wrap(LLVMBuildExtractValue(e->builder, out, (unsigned)i, ""), MXE_F32, true);
}

void mxe_register_budget_at(mxe *e, int registers, bool more)
{
    char code[80];
    if (!is_capable(e, "registers to pass on"))
        return;
    snprintf(code, sizeof(code), "setmaxnreg.%s.sync.aligned.u32 %d;", more ? "inc" : "dec",
             registers);
    statement(e, code, "~{memory}", NULL, 0);
}
