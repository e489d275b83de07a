/* Loads and stores: where one template has two meanings of a lane. On a GPU a lane's access is one
 * instruction of its thread. On the host the lanes of a value lie side by side, so that rows are
 * read whole and transposed in registers, four words at a time within 128-bit parts. */
#include "gen/emit_internal.h"

#include <string.h>

static LLVMValueRef argument_pointer(mxe *e, const char *name)
{
    for (int i = 0; i < e->n_args; i++) {
        if (e->args[i].kind == MXE_ARG_POINTER && !strcmp(e->args[i].name, name))
            return e->arg_refs[i];
    }
    mxe_fail(e, "no pointer argument named %s", name);
    return LLVMGetPoison(e->global_pointer);
}

static LLVMValueRef base_pointer(mxe *e, const mxe_addr *addr)
{
    if (!addr->pointer) {
        if (!e->lds)
            mxe_fail(e, "shared memory used before mxe_lds_reserve");
        return e->lds ? e->lds : LLVMGetPoison(e->lds_pointer);
    }
    LLVMValueRef pointer = argument_pointer(e, addr->pointer);
    if (!addr->other)
        return pointer;
    return LLVMBuildSelect(e->builder, addr->is_other.ref, argument_pointer(e, addr->other),
                           pointer, "");
}

mxe_value mxe_address_at(mxe *e, const char *pointer)
{
    mxe_addr addr = {.pointer = pointer};
    LLVMValueRef base = pointer ? base_pointer(e, &addr) : NULL;
    if (!base) {
        mxe_fail(e, "shared memory has no address");
        return mxe_poison(e, MXE_I64, false);
    }
    return mxe_wrap(LLVMBuildPtrToInt(e->builder, base, e->types[MXE_I64], ""), MXE_I64, false);
}

static LLVMValueRef offset_pointer(mxe *e, LLVMValueRef pointer, LLVMValueRef bytes)
{
    return LLVMBuildInBoundsGEP2(e->builder, e->types[MXE_I8], pointer, &bytes, 1, "");
}

static bool check_addr(mxe *e, const mxe_addr *addr)
{
    if (addr->uniform.ref && (addr->uniform.type != MXE_I64 || addr->uniform.varying)) {
        mxe_fail(e, "the uniform part of an address is a uniform i64");
        return false;
    }
    if (addr->lane_step.ref && (addr->lane_step.type != MXE_I64 || addr->lane_step.varying ||
                                e->target->kind != MXGEN_HOST)) {
        mxe_fail(e, "an address's lane step is a uniform i64, on the host");
        return false;
    }
    if (addr->varying.ref && addr->varying.type != MXE_I32 && addr->varying.type != MXE_I64) {
        mxe_fail(e, "the varying part of an address is i32 or i64");
        return false;
    }
    if (addr->other &&
        (!addr->is_other.ref || addr->is_other.type != MXE_I1 || addr->is_other.varying)) {
        mxe_fail(e, "a uniform i1 chooses between two bases of an address");
        return false;
    }
    return true;
}

static bool check_predicate(mxe *e, mxe_value predicate)
{
    if (predicate.ref && predicate.type != MXE_I1) {
        mxe_fail(e, "a predicate is an i1");
        return false;
    }
    return true;
}

static LLVMValueRef uniform_pointer(mxe *e, const mxe_addr *addr)
{
    LLVMValueRef pointer = base_pointer(e, addr);
    return addr->uniform.ref ? offset_pointer(e, pointer, addr->uniform.ref) : pointer;
}

mxe_value mxe_load_uniform_at(mxe *e, const char *pointer, mxe_value offset, mxe_type type)
{
    mxe_addr addr = {.pointer = pointer, .uniform = offset};
    if (!check_addr(e, &addr))
        return mxe_poison(e, type, false);
    LLVMValueRef load = LLVMBuildLoad2(e->builder, e->types[type], uniform_pointer(e, &addr), "");
    LLVMSetAlignment(load, (unsigned)mxe_type_bytes(type));
    return mxe_wrap(load, type, false);
}

/* GPU: the address of this thread. 32-bit parts are added first and widened once, which is what
 * the base-plus-offset addressing modes match. */
static LLVMValueRef thread_pointer(mxe *e, const mxe_addr *addr)
{
    LLVMValueRef pointer = uniform_pointer(e, addr);
    mxe_value offset = addr->varying;
    if (addr->lane_stride) {
        mxe_value lane =
            mxe_binary_at(e, MXE_MUL, mxe_lane(e), mxe_const_at(e, MXE_I32, addr->lane_stride));
        if (!offset.ref)
            offset = lane;
        else
            offset = mxe_binary_at(e, MXE_ADD, offset, mxe_convert_at(e, lane, offset.type, false));
    }
    if (!offset.ref)
        return pointer;
    return offset_pointer(e, pointer, mxe_convert_at(e, offset, MXE_I64, false).ref);
}

/* Host: the address of one lane. */
static LLVMValueRef lane_pointer(mxe *e, const mxe_addr *addr, LLVMValueRef uniform, int lane)
{
    LLVMValueRef pointer = uniform;
    if (addr->varying.ref) {
        mxe_value wide = mxe_convert_at(e, addr->varying, MXE_I64, false);
        LLVMValueRef bytes = wide.ref;
        if (wide.varying)
            bytes = LLVMBuildExtractElement(e->builder, wide.ref, mxe_llvm_i32(e, lane), "");
        pointer = offset_pointer(e, pointer, bytes);
    }
    if (lane == 0)
        return pointer;
    if (addr->lane_step.ref) {
        LLVMValueRef number = LLVMConstInt(e->types[MXE_I64], (unsigned long long)lane, 0);
        LLVMValueRef bytes = LLVMBuildMul(e->builder, addr->lane_step.ref, number, "");
        pointer = offset_pointer(e, pointer, bytes);
    }
    if (addr->lane_stride == 0)
        return pointer;
    return offset_pointer(
        e, pointer,
        LLVMConstInt(e->types[MXE_I64], (unsigned long long)(addr->lane_stride * lane), 1));
}

static void mark_stream(mxe *e, LLVMValueRef access, unsigned flags)
{
    if (!(flags & MXE_STREAM))
        return;
    unsigned kind = LLVMGetMDKindIDInContext(e->context, "nontemporal", 11);
    LLVMMetadataRef one = LLVMValueAsMetadata(mxe_llvm_i32(e, 1));
    LLVMMetadataRef node = LLVMMDNodeInContext2(e->context, &one, 1);
    LLVMSetMetadata(access, kind, LLVMMetadataAsValue(e->context, node));
}

static LLVMValueRef build_load(mxe *e, LLVMTypeRef type, LLVMValueRef pointer, int align_bytes,
                               unsigned flags)
{
    LLVMValueRef load = LLVMBuildLoad2(e->builder, type, pointer, "");
    LLVMSetAlignment(load, (unsigned)align_bytes);
    mark_stream(e, load, flags);
    return load;
}

/* The host writes a cache line to memory once if the stores that fill it follow each other: then
 * nothing must change their order. */
static void build_store(mxe *e, LLVMValueRef value, LLVMValueRef pointer, int align_bytes,
                        unsigned flags)
{
    LLVMValueRef store = LLVMBuildStore(e->builder, value, pointer);
    LLVMSetAlignment(store, (unsigned)align_bytes);
    mark_stream(e, store, flags);
    LLVMSetVolatile(store, e->target->kind == MXGEN_HOST && (flags & MXE_STREAM));
}

/* Host streaming needs whole aligned vectors; elsewhere it would split the access. */
static unsigned host_flags(unsigned flags, int bytes, int align_bytes)
{
    return align_bytes >= 16 && bytes >= 16 ? flags : flags & ~(unsigned)MXE_STREAM;
}

static int part_align(int align_bytes, int offset_bytes)
{
    while (offset_bytes % align_bytes)
        align_bytes /= 2;
    return align_bytes;
}

/* ---- GPU ---- */

static void thread_load(mxe *e, const mxe_addr *addr, mxe_type type, int n, int align_bytes,
                        unsigned flags, mxe_value *out)
{
    if (e->target->kind == MXGEN_HOST)
        flags = 0;
    LLVMValueRef pointer = thread_pointer(e, addr);
    int size = mxe_type_bytes(type), most = 16 / size;
    for (int first = 0; first < n; first += most) {
        int count = n - first < most ? n - first : most;
        LLVMTypeRef vector =
            count > 1 ? LLVMVectorType(e->types[type], (unsigned)count) : e->types[type];
        LLVMValueRef bytes = LLVMConstInt(e->types[MXE_I64], (unsigned long long)(first * size), 0);
        LLVMValueRef part =
            build_load(e, vector, first ? offset_pointer(e, pointer, bytes) : pointer,
                       part_align(align_bytes, first * size), flags);
        for (int i = 0; i < count; i++) {
            LLVMValueRef item = part;
            if (count > 1)
                item = LLVMBuildExtractElement(e->builder, part, mxe_llvm_i32(e, i), "");
            out[first + i] = mxe_wrap(item, type, true);
        }
    }
}

static void thread_store(mxe *e, const mxe_addr *addr, mxe_type type, int n, int align_bytes,
                         unsigned flags, const mxe_value *values)
{
    if (e->target->kind == MXGEN_HOST)
        flags = 0;
    LLVMValueRef pointer = thread_pointer(e, addr);
    int size = mxe_type_bytes(type), most = 16 / size;
    for (int first = 0; first < n; first += most) {
        int count = n - first < most ? n - first : most;
        LLVMValueRef part = values[first].ref;
        if (count > 1) {
            part = LLVMGetPoison(LLVMVectorType(e->types[type], (unsigned)count));
            for (int i = 0; i < count; i++)
                part = LLVMBuildInsertElement(e->builder, part, values[first + i].ref,
                                              mxe_llvm_i32(e, i), "");
        }
        LLVMValueRef bytes = LLVMConstInt(e->types[MXE_I64], (unsigned long long)(first * size), 0);
        build_store(e, part, first ? offset_pointer(e, pointer, bytes) : pointer,
                    part_align(align_bytes, first * size), flags);
    }
}

/* ---- Host ---- */

static LLVMValueRef shuffle(mxe *e, LLVMValueRef a, LLVMValueRef b, const int *lanes, int n)
{
    LLVMValueRef mask[64];
    for (int i = 0; i < n; i++)
        mask[i] = lanes[i] < 0 ? LLVMGetPoison(e->types[MXE_I32]) : mxe_llvm_i32(e, lanes[i]);
    return LLVMBuildShuffleVector(e->builder, a, b, LLVMConstVector(mask, (unsigned)n), "");
}

/* Interleaves items of `width` words from the low or high halves of each 128-bit part. */
static LLVMValueRef unpack(mxe *e, LLVMValueRef a, LLVMValueRef b, int width, bool high)
{
    int lanes[64], n = e->simd_width;
    for (int part = 0; part < n; part += 4) {
        for (int i = 0; i < 4; i++) {
            int item = i / width, word = i % width;
            int source = (high ? 2 : 0) + item / 2 * width + word;
            lanes[part + i] = part + source + (item % 2 ? n : 0);
        }
    }
    return shuffle(e, a, b, lanes, n);
}

static void transpose4(mxe *e, LLVMValueRef v[4])
{
    LLVMValueRef t0 = unpack(e, v[0], v[1], 1, false), t1 = unpack(e, v[0], v[1], 1, true);
    LLVMValueRef t2 = unpack(e, v[2], v[3], 1, false), t3 = unpack(e, v[2], v[3], 1, true);
    v[0] = unpack(e, t0, t2, 2, false);
    v[1] = unpack(e, t0, t2, 2, true);
    v[2] = unpack(e, t1, t3, 2, false);
    v[3] = unpack(e, t1, t3, 2, true);
}

/* Joins vectors of four words, pairwise, to one of simd_width. */
static LLVMValueRef join(mxe *e, LLVMValueRef *parts, int n)
{
    int lanes[64];
    for (int i = 0; i < 64; i++)
        lanes[i] = i;
    for (int width = 4; n > 1; n /= 2, width *= 2) {
        for (int i = 0; i < n / 2; i++)
            parts[i] = shuffle(e, parts[2 * i], parts[2 * i + 1], lanes, 2 * width);
    }
    return parts[0];
}

/* Up to four words of every lane. Rows k, k+4, k+8, .. share vector k, so that the transposition
 * stays within 128-bit parts and leaves lane order intact. */
static void rows_load4(mxe *e, const mxe_addr *addr, LLVMValueRef uniform, int first, int n,
                       int align_bytes, mxe_value *out)
{
    int parts = e->simd_width / 4, widen[4];
    LLVMTypeRef row_type = LLVMVectorType(e->types[MXE_I32], (unsigned)n);
    LLVMValueRef bytes = LLVMConstInt(e->types[MXE_I64], (unsigned long long)(first * 4), 0);
    LLVMValueRef v[4], rows[16];
    for (int i = 0; i < 4; i++)
        widen[i] = i < n ? i : -1;
    for (int k = 0; k < 4; k++) {
        for (int part = 0; part < parts; part++) {
            LLVMValueRef pointer = lane_pointer(e, addr, uniform, part * 4 + k);
            LLVMValueRef row =
                build_load(e, row_type, offset_pointer(e, pointer, bytes), align_bytes, 0);
            rows[part] = n == 4 ? row : shuffle(e, row, LLVMGetPoison(row_type), widen, 4);
        }
        v[k] = join(e, rows, parts);
    }
    transpose4(e, v);
    for (int i = 0; i < n; i++)
        out[first + i] = mxe_wrap(v[i], MXE_I32, true);
}

/* Up to 16 words of every lane. A lane's words are stored one after the other, so that streaming
 * stores fill whole cache lines. */
static void rows_store_words(mxe *e, const mxe_addr *addr, LLVMValueRef uniform, int n,
                             int align_bytes, unsigned flags, const mxe_value *values)
{
    LLVMTypeRef vector = mxe_llvm_type(e, MXE_I32, true);
    LLVMValueRef v[16];
    for (int i = 0; i < (n + 3) / 4 * 4; i++)
        v[i] = i < n ? mxe_varying_at(e, values[i]).ref : LLVMGetPoison(vector);
    for (int first = 0; first < n; first += 4)
        transpose4(e, v + first);
    for (int lane = 0; lane < e->simd_width; lane++) {
        LLVMValueRef pointer = lane_pointer(e, addr, uniform, lane);
        for (int first = 0; first < n; first += 4) {
            int lanes[4], count = n - first < 4 ? n - first : 4;
            for (int i = 0; i < count; i++)
                lanes[i] = lane / 4 * 4 + i;
            LLVMValueRef row = shuffle(e, v[first + lane % 4], LLVMGetPoison(vector), lanes, count);
            LLVMValueRef bytes =
                LLVMConstInt(e->types[MXE_I64], (unsigned long long)(first * 4), 0);
            int align = part_align(align_bytes, first * 4);
            build_store(e, row, offset_pointer(e, pointer, bytes), align,
                        host_flags(flags, count * 4, align));
        }
    }
}

static void lanes_load(mxe *e, const mxe_addr *addr, LLVMValueRef uniform, mxe_type type, int item,
                       int align_bytes, mxe_value *out)
{
    LLVMValueRef bytes =
        LLVMConstInt(e->types[MXE_I64], (unsigned long long)(item * mxe_type_bytes(type)), 0);
    LLVMValueRef vector = LLVMGetPoison(mxe_llvm_type(e, type, true));
    for (int lane = 0; lane < e->simd_width; lane++) {
        LLVMValueRef pointer = offset_pointer(e, lane_pointer(e, addr, uniform, lane), bytes);
        LLVMValueRef value = build_load(e, e->types[type], pointer, align_bytes, 0);
        vector = LLVMBuildInsertElement(e->builder, vector, value, mxe_llvm_i32(e, lane), "");
    }
    *out = mxe_wrap(vector, type, true);
}

static void lanes_store(mxe *e, const mxe_addr *addr, LLVMValueRef uniform, mxe_type type, int n,
                        int align_bytes, mxe_value predicate, const mxe_value *values)
{
    for (int lane = 0; lane < e->simd_width; lane++) {
        mxe_branch branch;
        if (predicate.ref) {
            LLVMValueRef bit = predicate.ref;
            if (predicate.varying)
                bit = LLVMBuildExtractElement(e->builder, bit, mxe_llvm_i32(e, lane), "");
            mxe_if_begin_at(e, &branch, mxe_wrap(bit, MXE_I1, false));
        }
        LLVMValueRef pointer = lane_pointer(e, addr, uniform, lane);
        for (int i = 0; i < n; i++) {
            LLVMValueRef value = values[i].ref;
            if (values[i].varying)
                value = LLVMBuildExtractElement(e->builder, value, mxe_llvm_i32(e, lane), "");
            int offset = i * mxe_type_bytes(type);
            LLVMValueRef bytes = LLVMConstInt(e->types[MXE_I64], (unsigned long long)offset, 0);
            build_store(e, value, i ? offset_pointer(e, pointer, bytes) : pointer,
                        part_align(align_bytes, offset), 0);
        }
        if (predicate.ref)
            mxe_if_end(e, &branch);
    }
}

void mxe_stream_end(mxe *e)
{
    if (e->target->kind == MXGEN_HOST)
        mxe_call_intrinsic(e, "llvm.x86.sse.sfence", NULL, 0, NULL, 0);
}

/* Streaming loads mean nothing to ordinary memory on the host. */
static void rows_load(mxe *e, const mxe_addr *addr, mxe_type type, int n, int align_bytes,
                      mxe_value *out)
{
    LLVMValueRef uniform = uniform_pointer(e, addr);
    bool aligned_lanes = !addr->lane_step.ref && (!addr->varying.ref || !addr->varying.varying);
    if (n == 1 && aligned_lanes && addr->lane_stride == mxe_type_bytes(type)) {
        LLVMValueRef value = build_load(e, mxe_llvm_type(e, type, true),
                                        lane_pointer(e, addr, uniform, 0), align_bytes, 0);
        out[0] = mxe_wrap(value, type, true);
        return;
    }
    for (int i = 0; i < n;) {
        int count = type == MXE_I32 && n - i > 1 ? (n - i < 4 ? n - i : 4) : 1;
        if (count > 1)
            rows_load4(e, addr, uniform, i, count, part_align(align_bytes, i * 4), out);
        else
            lanes_load(e, addr, uniform, type, i, part_align(align_bytes, i * mxe_type_bytes(type)),
                       &out[i]);
        i += count;
    }
}

static void rows_store(mxe *e, const mxe_addr *addr, mxe_type type, int n, int align_bytes,
                       unsigned flags, mxe_value predicate, const mxe_value *values)
{
    LLVMValueRef uniform = uniform_pointer(e, addr);
    bool aligned_lanes = !addr->lane_step.ref && (!addr->varying.ref || !addr->varying.varying);
    if (n == 1 && aligned_lanes && !predicate.ref && addr->lane_stride == mxe_type_bytes(type)) {
        build_store(e, mxe_varying_at(e, values[0]).ref, lane_pointer(e, addr, uniform, 0),
                    align_bytes, host_flags(flags, 16, align_bytes));
        return;
    }
    if (predicate.ref || type != MXE_I32 || n == 1) {
        lanes_store(e, addr, uniform, type, n, align_bytes, predicate, values);
        return;
    }
    if (n > 16) {
        mxe_fail(e, "store of %d words a lane, at most 16", n);
        return;
    }
    rows_store_words(e, addr, uniform, n, align_bytes, flags, values);
}

/* ---- Both ---- */

void mxe_load_at(mxe *e, mxe_addr addr, mxe_type type, int n, int align_bytes, unsigned flags,
                 mxe_value *out)
{
    if (!check_addr(e, &addr)) {
        for (int i = 0; i < n; i++)
            out[i] = mxe_poison(e, type, true);
    } else if (e->simd_width > 1) {
        rows_load(e, &addr, type, n, align_bytes, out);
    } else {
        thread_load(e, &addr, type, n, align_bytes, flags, out);
    }
}

void mxe_store_at(mxe *e, mxe_addr addr, mxe_type type, int n, int align_bytes, unsigned flags,
                  mxe_value predicate, const mxe_value *values)
{
    for (int i = 0; i < n; i++) {
        if (!mxe_is_set(e, values[i]))
            return;
        if (values[i].type != type) {
            mxe_fail(e, "store of a value of another type than the address has");
            return;
        }
    }
    if (!check_addr(e, &addr) || !check_predicate(e, predicate))
        return;
    if (e->simd_width > 1) {
        rows_store(e, &addr, type, n, align_bytes, flags, predicate, values);
        return;
    }
    mxe_branch branch;
    if (predicate.ref)
        mxe_if_begin_at(e, &branch, predicate);
    thread_store(e, &addr, type, n, align_bytes, flags, values);
    if (predicate.ref)
        mxe_if_end(e, &branch);
}

static void rows_copy(mxe *e, const mxe_addr *to, const mxe_addr *from, mxe_type type, int n,
                      int align_bytes, unsigned flags, mxe_value predicate)
{
    LLVMValueRef target = uniform_pointer(e, to), source = uniform_pointer(e, from);
    int bytes = n * mxe_type_bytes(type);
    LLVMTypeRef vector = n > 1 ? LLVMVectorType(e->types[type], (unsigned)n) : e->types[type];
    for (int lane = 0; lane < e->simd_width; lane++) {
        mxe_branch branch;
        if (predicate.ref) {
            LLVMValueRef bit = predicate.ref;
            if (predicate.varying)
                bit = LLVMBuildExtractElement(e->builder, bit, mxe_llvm_i32(e, lane), "");
            mxe_if_begin_at(e, &branch, mxe_wrap(bit, MXE_I1, false));
        }
        LLVMValueRef value =
            build_load(e, vector, lane_pointer(e, from, source, lane), align_bytes, 0);
        build_store(e, value, lane_pointer(e, to, target, lane), align_bytes,
                    to->pointer ? host_flags(flags, bytes, align_bytes) : 0);
        if (predicate.ref)
            mxe_if_end(e, &branch);
    }
}

void mxe_copy_at(mxe *e, mxe_addr to, mxe_addr from, mxe_type type, int n, int align_bytes,
                 unsigned flags, mxe_value predicate)
{
    if (!check_addr(e, &to) || !check_addr(e, &from) || !check_predicate(e, predicate))
        return;
    if (e->simd_width > 1) {
        rows_copy(e, &to, &from, type, n, align_bytes, flags, predicate);
        return;
    }
    mxe_value items[16];
    if (n > 16) {
        mxe_fail(e, "copy of %d items a lane, at most 16", n);
        return;
    }
    mxe_branch branch;
    if (predicate.ref)
        mxe_if_begin_at(e, &branch, predicate);
    thread_load(e, &from, type, n, align_bytes, from.pointer ? flags : 0, items);
    thread_store(e, &to, type, n, align_bytes, to.pointer ? flags : 0, items);
    if (predicate.ref)
        mxe_if_end(e, &branch);
}

void mxe_prefetch_at(mxe *e, mxe_addr addr)
{
    if (!check_addr(e, &addr) || e->target->kind != MXGEN_HOST)
        return;
    LLVMValueRef uniform = uniform_pointer(e, &addr);
    for (int lane = 0; lane < e->simd_width; lane++) {
        /* To be read, for the second-level cache, as data. */
        LLVMValueRef args[4] = {lane_pointer(e, &addr, uniform, lane), mxe_llvm_i32(e, 0),
                                mxe_llvm_i32(e, 2), mxe_llvm_i32(e, 1)};
        mxe_call_intrinsic(e, "llvm.prefetch", &e->pointer, 1, args, 4);
    }
}

void mxe_lds_reserve_at(mxe *e, int size_bytes)
{
    if (e->lds) {
        mxe_fail(e, "shared memory reserved twice");
        return;
    }
    int most = e->target->lds_bytes > e->target->lds_large_bytes ? e->target->lds_bytes
                                                                 : e->target->lds_large_bytes;
    if (size_bytes > most) {
        mxe_fail(e, "%d bytes of shared memory, %s has %d", size_bytes, e->target->name, most);
        size_bytes = 16;
    }
    LLVMTypeRef type = LLVMArrayType2(e->types[MXE_I8], (uint64_t)size_bytes);
    if (e->target->kind == MXGEN_HOST) {
        e->lds = LLVMBuildAlloca(e->builder, type, "lds");
        LLVMSetAlignment(e->lds, 64);
        return;
    }
    if (size_bytes > e->target->lds_bytes) {
        /* Sized by the launch. */
        LLVMTypeRef open = LLVMArrayType2(e->types[MXE_I8], 0);
        e->lds = LLVMAddGlobalInAddressSpace(e->module, open, "lds", 3);
        LLVMSetLinkage(e->lds, LLVMExternalLinkage);
        LLVMSetAlignment(e->lds, 1024);
        return;
    }
    e->lds = LLVMAddGlobalInAddressSpace(e->module, type, "lds", 3);
    LLVMSetInitializer(e->lds, LLVMGetPoison(type));
    LLVMSetLinkage(e->lds, LLVMInternalLinkage);
    LLVMSetAlignment(e->lds, 16);
}
