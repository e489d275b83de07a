/* libmxrt: run block-scaled (MX) kernels from C.
 *
 * Concept. A context holds kernel packs (files that `mxgen build` made). A device, opened by URI,
 * runs kernels from those packs; the host device also runs without any pack, by a plain C
 * reference. Tensors are DLPack tensors in the caller's memory; the library allocates none of
 * it.
 *
 * Tensors. f32, bf16 or f16; any number of dimensions up to MXRT_MAX_DIMS; strides in elements, or
 * NULL for row-major. Negative strides are refused, and so are strides by which elements overlap,
 * except stride 0 on an input (a broadcast); three or more dimensions that interleave count as
 * overlapping. Data must be aligned to its element type. From its first to its last byte, the
 * memory of an output must not overlap that of an input, but for quantise-dequantise in place. The
 * packed tensor is u8 [n_blocks, block_bytes], strides allowed. The axis (negative counts from the
 * end) is swapped with the last dimension; in the swapped shape, block b covers row b / bpr,
 * elements (b % bpr) * 16 .. + 15, where bpr = ceil(len / 16); a ragged end is filled with zeros.
 * A tensor without rows has no blocks, and nothing is done; an axis of size 0 and a scalar are
 * errors.
 *
 * OCP formats. Data is u8 [n_blocks, block_bytes] as packed blocks are, with blocks of 32 elements:
 * seen as bytes, [.., ceil(K / 32) * block_bytes]. Scales are u8 [rows, ceil(K / 32)], one a block,
 * with any strides (transposed scales are a stride); with a scale for each 32 x 32 tile, [batches *
 * ceil(M / 32), ceil(K / 32)], where M is the dimension before the last of the swapped shape and
 * batches the product of those before it. Padding of a ragged end is quantised and stored as zeros.
 *
 * Numbers. Any bytes decode by the formula of mxgen/format.h: the product in f32, then rounded to
 * nearest even to the type. Codes are integers: what rounds to -0 becomes +0. The caller's rounding
 * mode and flushing of subnormals change nothing and are kept.
 *
 * Errors. Every fallible function returns a status; on failure `err`, if not NULL, has a message
 * that names the value, the limit and what to do, and outputs are untouched. Nothing here aborts,
 * exits or prints.
 *
 * Threads. A context and a device may be used by many threads at once once they are set up:
 * adding packs, and opening and closing, must not run beside other calls on the same object.
 *
 * Streams. `stream` is the driver's stream handle (hipStream_t, CUstream), NULL the default stream.
 * On GPUs a call enqueues and returns; the tensors must live until the stream has passed it. On
 * the host a call is done when it returns and the stream is ignored.
 *
 * Launch path. After mxrt_prepare (or a first call of the same op, format and dtype) a call makes
 * no allocation, takes no lock, touches no file and runs no compiler.
 *
 * Missing kernels. Where no pack has a kernel for a call, mxgen is run to compile it, if it is
 * there: see mxrt_context_set_compiler. This takes a second or so, once.
 */
#ifndef MXGEN_RT_H
#define MXGEN_RT_H

#include <dlpack/dlpack.h>

#include <mxgen/base.h>
#include <mxgen/counters.h>
#include <mxgen/format.h>
#include <mxgen/ocp.h>
#include <mxgen/tune.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MXRT_MAX_DIMS 32

typedef struct mxrt_context mxrt_context;
typedef struct mxrt_device mxrt_device;
typedef void *mxrt_stream;

/* ---- Simple: context, device, convert ---- */

/* Called from any thread with one line, without a newline, that nothing else would tell. */
typedef void (*mxrt_log_fn)(void *user, const char *line);

typedef struct mxrt_context_options {
    mxrt_log_fn log; /* NULL: silence */
    void *log_user;
    /* The user's tuning file (mxgen/tune.h); NULL: the one of the environment or the cache folder;
     * "": none, nor those of the system. Copied. */
    const char *tune_file;
} mxrt_context_options;

/* `options` may be NULL. Destroy takes NULL; devices must be closed first. */
MX_API mx_status mxrt_context_create(const mxrt_context_options *options, mxrt_context **out,
                                     mx_error *err);
MX_API void mxrt_context_destroy(mxrt_context *context);

/* Adds the kernels of a pack; of several packs the one added last is preferred. The memory form
 * copies. Devices see the packs that were added before they were opened. Objects that turn out to
 * be damaged when they are loaded, or for another machine, are left out, and the log told, as long
 * as any kernel of the operation, format and type is left. */
MX_API mx_status mxrt_context_add_pack_file(mxrt_context *context, const char *path, mx_error *err);
MX_API mx_status mxrt_context_add_pack_memory(mxrt_context *context, const void *data,
                                              size_t size_bytes, mx_error *err);

/* URIs: "host" (all cores; "host?threads=N"), "plan:TARGET" (no hardware: selects and plans for
 * that target, refuses to run). */
MX_API mx_status mxrt_device_open(mxrt_context *context, const char *uri, mxrt_device **out,
                                  mx_error *err);
MX_API void mxrt_device_close(mxrt_device *device);

/* Blocks and bytes a block of the packed form of a tensor; `axis` as below. */
MX_API mx_status mxrt_packed_shape(mx_format format, int ndim, const int64_t *shape, int axis,
                                   int64_t *n_blocks, int64_t *block_bytes, mx_error *err);

/* x -> packed. Inf packs to the largest code, NaN to code 0; both are skipped by the exponent. */
MX_API mx_status mxrt_convert_to(mxrt_device *device, mx_format format, int axis, const DLTensor *x,
                                 const DLTensor *packed, mxrt_stream stream, mx_error *err);

/* packed -> y. */
MX_API mx_status mxrt_convert_from(mxrt_device *device, mx_format format, int axis,
                                   const DLTensor *packed, const DLTensor *y, mxrt_stream stream,
                                   mx_error *err);

/* y = from(to(x)); x and y have one shape and type, and may be the same memory with the same
 * strides. With MX_PROFILE_DEMOTED_255 the bits of a NaN pass unchanged. */
MX_API mx_status mxrt_quantize_dequantize(mxrt_device *device, mx_format format, mx_profile profile,
                                          int axis, const DLTensor *x, const DLTensor *y,
                                          mxrt_stream stream, mx_error *err);

/* ---- Simple: the OCP formats ---- */

/* The shapes of data and scales of a tensor. `options` (NULL: those of MX_OCP_ALTO) matters for
 * two_d only. */
MX_API mx_status mxrt_ocp_shape(mx_format format, const mx_ocp_options *options, int ndim,
                                const int64_t *shape, int axis, int64_t data_shape[2],
                                int64_t scales_shape[2], mx_error *err);

/* x -> data, scales. `options` NULL: those of MX_OCP_ALTO, here and below. */
MX_API mx_status mxrt_ocp_quantize(mxrt_device *device, mx_format format,
                                   const mx_ocp_options *options, int axis, const DLTensor *x,
                                   const DLTensor *data, const DLTensor *scales, mxrt_stream stream,
                                   mx_error *err);

/* data, scales -> y, rounded to nearest even to y's type. Of the options two_d matters only. */
MX_API mx_status mxrt_ocp_dequantize(mxrt_device *device, mx_format format,
                                     const mx_ocp_options *options, int axis, const DLTensor *data,
                                     const DLTensor *scales, const DLTensor *y, mxrt_stream stream,
                                     mx_error *err);

/* y = dequantize(quantize(x)), x and y as in mxrt_quantize_dequantize; in place not with two_d. */
MX_API mx_status mxrt_ocp_qdq(mxrt_device *device, mx_format format, const mx_ocp_options *options,
                              int axis, const DLTensor *x, const DLTensor *y, mxrt_stream stream,
                              mx_error *err);

/* The columns of a tensor that is quantised along its rows and its columns at once. Its rows are
 * those of the scales of mxrt_ocp_quantize: [rows, len]. They fall into groups (experts), which lie
 * one after the other; along the columns, each is filled with zeros to a multiple of group_align.
 * The last group is followed by zeros up to `capacity`, the rows that the tensors have room for: a
 * multiple of group_align, mxrt_ocp_columns_capacity at least. So a column has capacity / 32
 * blocks, all of which are written. Products over the rows of a group (MX_GEMM_COLS of
 * mxgen/gemm.h) take these as their operands and the padded offsets as theirs.
 *
 * offsets are int64 [groups + 1], on the device, read when the kernel runs: group g has rows
 * offsets[g] .. offsets[g + 1] - 1. The first is taken as 0, the last as the number of rows, others
 * are moved up to the one before and down to the number of rows. padded_offsets, int64 [groups +
 * 1], are written: where each group begins in the columns, and where the last ends with its
 * padding. */
typedef struct mxrt_ocp_columns {
    const DLTensor *data;   /* u8 [len, capacity / 32 * block_bytes], bytes of a row side by side */
    const DLTensor *scales; /* u8 [len, capacity / 32], any strides */
    const DLTensor *offsets, *padded_offsets; /* contiguous; both NULL: all rows are one group */
    int group_align;                          /* a multiple of 32, such as 128 or 256 */
    int hadamard; /* of the columns, in place of the options' (mxgen/ocp.h), which the rows have */
} mxrt_ocp_columns;

/* The least capacity for any offsets; 0 groups: one, without offsets. -1 if it overflows, or an
 * argument is out of its range. */
MX_API int64_t mxrt_ocp_columns_capacity(int64_t rows, int64_t groups, int group_align);

/* mxrt_ocp_quantize and, from the same pass over x, its columns. The options are those of both, but
 * for two_d, which must not be set. Without rows nothing is written. GPUs are fastest with 16-bit
 * types, rows of a multiple of 8 elements that begin at multiples of 16 bytes, group_align a
 * multiple of 128, and rounding to the nearest even with signs of zeros kept; all else takes a
 * kernel that loads element by element. */
MX_API mx_status mxrt_ocp_quantize_pair(mxrt_device *device, mx_format format,
                                        const mx_ocp_options *options, int axis, const DLTensor *x,
                                        const DLTensor *data, const DLTensor *scales,
                                        const mxrt_ocp_columns *columns, mxrt_stream stream,
                                        mx_error *err);

/* data, scales along one axis of a tensor -> out_data, out_scales along another, rounded to the
 * type of `workspace` between, a tensor of its shape on the device, in memory that may be lost: f32
 * loses nothing but what is beyond its range; bf16 is exact for all but FP8 with scales below 10.
 * GPUs do it in one kernel, without the workspace, where scales are those of single blocks, no more
 * than two dimensions are left beside the axes, blocks' bytes follow each other, those written at
 * multiples of 16, and the memory written is not that read; else in two. */
MX_API mx_status mxrt_ocp_requantize(mxrt_device *device, mx_format format,
                                     const mx_ocp_options *options, int axis, const DLTensor *data,
                                     const DLTensor *scales, int out_axis,
                                     const DLTensor *workspace, const DLTensor *out_data,
                                     const DLTensor *out_scales, mxrt_stream stream, mx_error *err);

/* Loads and readies every kernel of (op, format, dtype, profile), so that later calls only
 * launch. Takes a lock and may take milliseconds. Where no pack has any, MX_ERR_UNSUPPORTED on
 * devices other than the host. */
MX_API mx_status mxrt_prepare(mxrt_device *device, mx_op op, mx_format format, mx_dtype dtype,
                              mx_profile profile, mx_error *err);

/* ---- Advanced: kernels that no pack has ---- */

/* What a device asked for and no pack of its context has. Strings live during the call. */
typedef struct mxrt_compile_request {
    const char *target; /* the pack target wanted, such as "gfx942" */
    /* Not NULL: a product (mxgen/gemm.h), dtype being that of out; op, format and profile say
     * nothing then. */
    const struct mxrt_gemm_kind *gemm;
    mx_op op;
    mx_format format;
    mx_dtype dtype;
    mx_profile profile;
} mxrt_compile_request;

/* Makes a pack with kernels for the request and stores its path (zero-terminated) in
 * path[path_bytes]. The file must stay as it is until the device is closed. Called from the thread
 * that missed the kernel, one call at a time a device; may take as long as it needs; must not use
 * that device. */
typedef mx_status (*mxrt_compile_fn)(void *user, const mxrt_compile_request *request, char *path,
                                     size_t path_bytes, mx_error *err);

typedef struct mxrt_compiler_options {
    int off;                 /* nothing is compiled, and nothing kept from before is used */
    mxrt_compile_fn compile; /* NULL: mxgen is run, with the three below */
    void *user;
    const char *program;  /* mxgen; NULL: MXRT_COMPILER (or "off" there), else mxgen in PATH */
    const char *folder;   /* where packs are kept; NULL: MXRT_USER_PACK, else mxgen/kernels in
                             XDG_CACHE_HOME or ~/.cache */
    double limit_seconds; /* for one compilation; 0: MXRT_COMPILE_SECONDS, else 60 */
} mxrt_compiler_options;

/* How kernels that no pack has are made; NULL: as without this call, by mxgen. Copies strings. Not
 * to be called beside other calls on the context or its devices.
 *
 * A device asks once for each (operation, format, type, profile), and for each kind and type of
 * product, of which it has no kernel that applies: in a first call, in mxrt_prepare,
 * mxrt_plan_create or mxrt_gemm_plan_create; never on "plan:" devices, nor
 * in a call whose stream captures a graph. Other threads that need the same wait. What mxgen makes
 * is kept in the user's folder, one small pack each, for every later process; several processes
 * that ask at once wait for the one that compiles. A folder that cannot be written, or that others
 * can write, is not used, and the kernels are made for this process alone.
 *
 * Where compiling fails, things are as if it were off: the host runs the reference, a GPU
 * refuses with MX_ERR_UNSUPPORTED and the compiler's message. The log gets that message, too. */
MX_API mx_status mxrt_context_set_compiler(mxrt_context *context,
                                           const mxrt_compiler_options *options, mx_error *err);

/* ---- Advanced: plans ---- */

/* Blocks along another axis than the one they are read along. */
typedef struct mxrt_ocp_turned {
    int axis;
    const DLTensor *data, *scales; /* as mxrt_ocp_quantize writes them */
} mxrt_ocp_turned;

/* One operation on tensors of fixed shapes, strides, alignments and variant. */
typedef struct mxrt_plan mxrt_plan;

/* Where the choice of a variant comes from. */
typedef enum mxrt_policy {
    MXRT_POLICY_TUNED = 0, /* tuning files: this bucket, the nearest; else the model */
    MXRT_POLICY_MODEL,     /* the static model alone */
    MXRT_POLICY_CACHED,    /* tuning files alone: else MX_ERR_NOT_FOUND */
    MXRT_POLICY_MEASURE    /* tuning files, this bucket; else measured now, within budget_us */
} mxrt_policy;

typedef struct mxrt_plan_request {
    mx_op op;
    mx_format format;
    mx_profile profile; /* qdq only, else MX_PROFILE_PACKED */
    int axis;
    const DLTensor *in;            /* to, qdq: x; from: packed */
    const DLTensor *out;           /* to: packed; from, qdq: y */
    const DLTensor *scales;        /* OCP formats, to and from; else NULL */
    const mx_ocp_options *options; /* OCP formats; NULL: those of MX_OCP_ALTO. Copied. */
    /* `to` of OCP formats: columns, too; else NULL. They stay where they are in every run. */
    const mxrt_ocp_columns *columns;
    /* `from` of OCP formats: quantised again along another axis, by the options, in one kernel;
     * `out` gives shape and type, and is not written. Else NULL. MX_ERR_UNSUPPORTED where no kernel
     * does (mxrt_ocp_requantize) and on the host. They stay where they are in every run. */
    const mxrt_ocp_turned *turned;
    /* NULL: chosen by `policy`. "reference": the plain C reference (host only). Else
     * a variant's name; not applicable is MX_ERR_UNSUPPORTED with the rule that failed. */
    const char *variant;
    mxrt_policy policy; /* without a variant */
    double budget_us;   /* MXRT_POLICY_MEASURE: how long to measure */
    mxrt_stream stream; /* MXRT_POLICY_MEASURE: on which the input was made and the plan will run */
} mxrt_plan_request;

/* MXRT_POLICY_MEASURE. mxrt_plan_create and mxrt_explain, where nothing is measured of the
 * problem's bucket, wait for the stream, and then run the kernels that apply, the model's choice
 * first, on the input as it is and an output of their own, until the budget is spent; the caller's
 * output is not touched. The fastest, if its bytes are those of the model's choice, is taken; both
 * are written to the user's tuning file, and decide from then on, here and in later processes, for
 * every call whose policy uses measurements. A call may take longer than the budget by what it
 * takes to get memory and to write the file. Nothing is measured while the stream, or the default
 * stream, captures a graph, on "plan:" devices, or where the budget is too small; the choice is
 * then as with MXRT_POLICY_TUNED, and the log says why. Needs memory for one more output on the
 * device and two on the host. Threads that measure on one device take turns, and the figures are
 * as good as the device is idle otherwise. */

/* On a "plan:" device data pointers may be NULL (taken as aligned to 4096). */
MX_API mx_status mxrt_plan_create(mxrt_device *device, const mxrt_plan_request *request,
                                  mxrt_plan **out, mx_error *err);
MX_API void mxrt_plan_destroy(mxrt_plan *plan);

/* Runs on the tensors of the request, or on others of the same geometry when `in_data` and
 * `out_data`, the addresses of their first elements, are not NULL. Alignment is checked: a kernel
 * whose rules do not hold there is MX_ERR_UNSUPPORTED. Neither copies nor allocates. */
MX_API mx_status mxrt_plan_run(const mxrt_plan *plan, const void *in_data, void *out_data,
                               mxrt_stream stream, mx_error *err);

/* The same with other scales, too: for plans whose request has scales, which mxrt_plan_run runs on
 * the memory of the request only. Read by `from`, written by `to`. */
MX_API mx_status mxrt_plan_run_scaled(const mxrt_plan *plan, const void *in_data, void *out_data,
                                      void *scales_data, mxrt_stream stream, mx_error *err);

typedef enum mxrt_arg_kind {
    MXRT_ARG_POINTER = 0,
    MXRT_ARG_I32,
    MXRT_ARG_I64,
    MXRT_ARG_F32
} mxrt_arg_kind;

typedef struct mxrt_plan_arg {
    const char *name;
    mxrt_arg_kind kind;
    const char *buffer;  /* pointers: "x", "y", "p" or "s"; else NULL */
    int64_t value;       /* i32, i64; f32 as its bits */
    size_t offset_bytes; /* in the argument block */
} mxrt_plan_arg;

typedef struct mxrt_plan_buffer {
    const char *name;
    int64_t size_bytes; /* from the data pointer to the last byte touched */
    int is_output;
} mxrt_plan_buffer;

/* What will be launched; pointers live as long as the plan. `n_blocks == 0` launches nothing. */
typedef struct mxrt_plan_info {
    const char *variant; /* "reference" when no kernel is used, "none" when n_blocks is 0 */
    const char *symbol;
    const char *target;
    mx_layout layout;
    int64_t rows, len, n_blocks;
    uint32_t grid[3], block[3], lds_bytes;
    size_t n_args;
    const mxrt_plan_arg *args;
    size_t n_buffers;
    const mxrt_plan_buffer *buffers;
    const char *params_json, *info_json;
    const void *object; /* the raw code object; NULL for the reference */
    size_t object_bytes;
} mxrt_plan_info;

MX_API mx_status mxrt_plan_get_info(const mxrt_plan *plan, mxrt_plan_info *out, mx_error *err);

typedef enum mxrt_choice_source {
    MXRT_SOURCE_NAMED = 0, /* the request named it, or nothing is launched */
    MXRT_SOURCE_MODEL,
    MXRT_SOURCE_EXACT,  /* a measurement of this bucket of shapes */
    MXRT_SOURCE_NEAREST /* of the nearest bucket */
} mxrt_choice_source;

/* Why a variant was chosen; pointers live as long as the device. */
typedef struct mxrt_choice {
    const char *variant; /* as mxrt_plan_info's */
    mxrt_choice_source source;
    char bucket[64];      /* of the problem (mxgen/tune.h) */
    char from_bucket[64]; /* of the measurement; "" without one */
    double measured_ms;   /* of the measured shape; 0 without a measurement */
    double score;         /* the model's relative time of the choice; of a product its ms */
    size_t n_applicable;
    const char *runner_up; /* what the same source has next, or NULL */
    double runner_up_score, runner_up_ms;
} mxrt_choice;

/* Chooses again, as mxrt_plan_create would, and says why. */
MX_API mx_status mxrt_explain(mxrt_device *device, const mxrt_plan_request *request,
                              mxrt_choice *out, mx_error *err);

/* Names of the variants of one key that apply to the request, in order of preference, without the
 * reference: fills at most `capacity` and returns the count in *n. The names live as long as the
 * device. */
MX_API mx_status mxrt_plan_variants(mxrt_device *device, const mxrt_plan_request *request,
                                    const char **names, size_t capacity, size_t *n, mx_error *err);

/* ---- Advanced: device memory and timing, for tools and tests ---- */

typedef struct mxrt_device_info {
    char uri[64];
    char name[128];
    char target[64];    /* the pack target in use, such as "gfx942" */
    DLDevice dl_device; /* what tensors on it must say */
    int compute_units;  /* cores on the host */
    char chip[168];     /* with features, such as "gfx942:sramecc+:xnack-"; the processor's name */
    char driver[32];    /* the driver's version number; "" on the host */
} mxrt_device_info;

MX_API mx_status mxrt_device_get_info(const mxrt_device *device, mxrt_device_info *out,
                                      mx_error *err);

/* Lists the devices that can be opened here: fills at most `capacity`, returns the count in *n. */
MX_API mx_status mxrt_devices(mxrt_context *context, mxrt_device_info *infos, size_t capacity,
                              size_t *n, mx_error *err);

/* Memory is aligned to 256 bytes at least and not initialised. Free takes NULL. */
MX_API mx_status mxrt_device_alloc(mxrt_device *device, size_t size_bytes, void **out,
                                   mx_error *err);
MX_API void mxrt_device_free(mxrt_device *device, void *data);
/* Blocking copies. */
MX_API mx_status mxrt_device_upload(mxrt_device *device, void *dst, const void *host_src,
                                    size_t size_bytes, mx_error *err);
MX_API mx_status mxrt_device_download(mxrt_device *device, void *host_dst, const void *src,
                                      size_t size_bytes, mx_error *err);
/* The device's own copy, enqueued on `stream`: the ceiling that benchmarks compare with. */
MX_API mx_status mxrt_device_copy(mxrt_device *device, void *dst, const void *src,
                                  size_t size_bytes, mxrt_stream stream, mx_error *err);
MX_API mx_status mxrt_device_synchronize(mxrt_device *device, mxrt_stream stream, mx_error *err);

typedef mx_status (*mxrt_timed_fn)(void *user, mxrt_stream stream, mx_error *err);

/* Runs `fn` `repeat` times in a row on the default stream and gives the mean milliseconds of one,
 * by device events where the device has them. */
MX_API mx_status mxrt_device_time(mxrt_device *device, mxrt_timed_fn fn, void *user, int repeat,
                                  double *ms, mx_error *err);

/* What the driver has counted so far in this process (mxgen/counters.h); `out->size_bytes` must be
 * set. Two calls with nothing else running between them, and a wait for the stream before the
 * second, frame what ran between. MX_ERR_UNSUPPORTED where the driver counts nothing: everywhere
 * but on the simulator of AMD chips. */
MX_API mx_status mxrt_device_counters(mxrt_device *device, mxrt_counters *out, mx_error *err);

/* ---- Tuning, for tools ---- */

/* The key of a measurement of `variant` (one of mxrt_plan_variants) on the request's problem: all
 * texts of *row up to the protocol, layout, shape and bytes. */
MX_API mx_status mxrt_tune_key(mxrt_device *device, const mxrt_plan_request *request,
                               const char *variant, mxrt_tune_row *row, mx_error *err);

/* ---- Packs, for tools ---- */

typedef struct mxrt_pack mxrt_pack;

typedef struct mxrt_variant_info {
    const char *target, *op, *format, *dtype, *profile, *layout, *name, *symbol;
    const char *params_json, *rules_json, *launch_json, *info_json;
    const char *object_kind;
    int64_t rank, object_id, object_bytes;
} mxrt_variant_info;

MX_API mx_status mxrt_pack_open(const char *path, mxrt_pack **out, mx_error *err);
MX_API void mxrt_pack_close(mxrt_pack *pack);
/* Value of a `meta` key, NULL if the pack lacks it; lives as long as the pack. */
MX_API const char *mxrt_pack_meta(const mxrt_pack *pack, const char *key);
MX_API size_t mxrt_pack_variant_count(const mxrt_pack *pack);
MX_API mx_status mxrt_pack_variant(const mxrt_pack *pack, size_t index, mxrt_variant_info *out,
                                   mx_error *err);
/* The raw bytes of an object, checked against its checksum; release with free(). */
MX_API mx_status mxrt_pack_object(const mxrt_pack *pack, int64_t object_id, void **data,
                                  size_t *size_bytes, mx_error *err);

#ifdef __cplusplus
}
#endif
#endif
