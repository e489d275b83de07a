/* Kernels written by others (`mxgen compile`, `mxgen build FILE..`), found in packs by name and
 * launched with plain arguments.
 *
 *   const mxrt_kernel *softmax;
 *   mxrt_kernel_find(device, "softmax", &softmax, &err);
 *   mxrt_kernel_arg args[] = {mxrt_arg_pointer(x), mxrt_arg_pointer(y), mxrt_arg_i64(rows),
 *                             mxrt_arg_i64(columns)};
 *   mxrt_kernel_launch(softmax, NULL, args, 4, stream, &err);
 *
 * A kernel is a set of variants: choices of its parameters, each with rules on the arguments, in
 * order of preference. Launching takes the first whose rules hold. Grid and block come from the
 * kernel's launch rule (mxgen/pack.h); a kernel that was compiled without one is given them.
 *
 * Errors, threads and streams are those of mxgen/rt.h. The library does not know what a kernel
 * reads and writes: pointers must be valid on the device, as large and as aligned as the kernel
 * needs. */
#ifndef MXGEN_KERNEL_H
#define MXGEN_KERNEL_H

#include <mxgen/rt.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mxrt_kernel mxrt_kernel; /* lives as long as its device */

typedef struct mxrt_kernel_arg {
    mxrt_arg_kind kind;
    union {
        const void *pointer; /* device memory, or NULL */
        int32_t i32;
        int64_t i64;
        float f32;
    } value;
} mxrt_kernel_arg;

static inline mxrt_kernel_arg mxrt_arg_pointer(const void *pointer)
{
    mxrt_kernel_arg arg;
    arg.kind = MXRT_ARG_POINTER;
    arg.value.pointer = pointer;
    return arg;
}

static inline mxrt_kernel_arg mxrt_arg_i32(int32_t value)
{
    mxrt_kernel_arg arg;
    arg.kind = MXRT_ARG_I32;
    arg.value.i32 = value;
    return arg;
}

static inline mxrt_kernel_arg mxrt_arg_i64(int64_t value)
{
    mxrt_kernel_arg arg;
    arg.kind = MXRT_ARG_I64;
    arg.value.i64 = value;
    return arg;
}

static inline mxrt_kernel_arg mxrt_arg_f32(float value)
{
    mxrt_kernel_arg arg;
    arg.kind = MXRT_ARG_F32;
    arg.value.f32 = value;
    return arg;
}

/* Workgroups, and work items of one. On the host a workgroup has one. */
typedef struct mxrt_kernel_size {
    uint32_t grid[3], block[3];
} mxrt_kernel_size;

/* The kernel of that name (or the one variant of it that has the name) in the pack added last that
 * has one for this device; its code is loaded. Takes a lock; the second time nothing is loaded.
 * MX_ERR_NOT_FOUND tells which kernels the packs have. */
MX_API mx_status mxrt_kernel_find(mxrt_device *device, const char *name, const mxrt_kernel **out,
                                  mx_error *err);

/* Enqueues the kernel. `args` are its inputs, in order, of their kinds. `size` NULL: by the launch
 * rule; else grid and block of a kernel that has no rule for them (a block of 0, 0, 0 is the
 * kernel's own where it has one). No rule that holds is MX_ERR_UNSUPPORTED, with the last rule that
 * failed; an expression that divides by zero or overflows for these arguments is told likewise.
 * An empty grid is nothing to do. No allocation, no lock, no file. */
MX_API mx_status mxrt_kernel_launch(const mxrt_kernel *kernel, const mxrt_kernel_size *size,
                                    const mxrt_kernel_arg *args, size_t n_args, mxrt_stream stream,
                                    mx_error *err);

/* ---- Advanced ---- */

typedef struct mxrt_kernel_input {
    const char *name;
    mxrt_arg_kind kind;
} mxrt_kernel_input;

/* Pointers live as long as the device. */
typedef struct mxrt_kernel_info {
    const char *name;
    size_t n_inputs;
    const mxrt_kernel_input *inputs;
    size_t n_variants;
} mxrt_kernel_info;

MX_API mx_status mxrt_kernel_get_info(const mxrt_kernel *kernel, mxrt_kernel_info *out,
                                      mx_error *err);
/* Variant number `index`, in order of preference; a name for mxrt_kernel_find. NULL past the end.
 */
MX_API const char *mxrt_kernel_variant_name(const mxrt_kernel *kernel, size_t index);

/* What a launch with these arguments would be. */
typedef struct mxrt_kernel_plan {
    const char *variant, *symbol, *target, *params_json, *info_json;
    uint32_t grid[3], block[3], lds_bytes;
} mxrt_kernel_plan;

MX_API mx_status mxrt_kernel_plan_launch(const mxrt_kernel *kernel, const mxrt_kernel_size *size,
                                         const mxrt_kernel_arg *args, size_t n_args,
                                         mxrt_kernel_plan *out, mx_error *err);

/* ---- Tuning, for tools ---- */

/* How much memory an input that is a pointer needs for these arguments, whose pointers do not
 * matter. MX_ERR_UNSUPPORTED if the pack does not tell. */
MX_API mx_status mxrt_kernel_input_bytes(const mxrt_kernel *kernel, size_t input,
                                         const mxrt_kernel_arg *args, size_t n_args, int64_t *bytes,
                                         mx_error *err);

/* The key of a measurement of variant number `index` with these arguments (mxgen/tune.h): all texts
 * of *row up to the protocol. Its op is "kernel", its format the kernel's name, cut off; its bucket
 * has the power of two below each integer, such as "v12 v9 a16", and the pointers' alignment, at
 * most 16. mxrt_kernel_find reads such rows, and a launch takes the variant that was fastest in its
 * bucket, or the nearest one (3 at most in sum), of those whose rules hold. */
MX_API mx_status mxrt_kernel_tune_key(const mxrt_kernel *kernel, size_t index,
                                      const mxrt_kernel_arg *args, size_t n_args,
                                      mxrt_tune_row *row, mx_error *err);

/* ---- Packs, for tools ---- */

/* A row of a pack's table `kernel`; strings live as long as the pack. */
typedef struct mxrt_pack_kernel_info {
    const char *target, *kernel, *name, *symbol;
    const char *params_json, *rules_json, *launch_json, *info_json, *object_kind;
    int64_t rank, object_id, object_bytes;
} mxrt_pack_kernel_info;

MX_API size_t mxrt_pack_kernel_count(const mxrt_pack *pack);
MX_API mx_status mxrt_pack_kernel_at(const mxrt_pack *pack, size_t index,
                                     mxrt_pack_kernel_info *out, mx_error *err);

#ifdef __cplusplus
}
#endif
#endif
