/* Grouped GEMM on block-scaled operands: the matrix products of a mixture-of-experts layer.
 *
 * Concept. G groups (experts) share one call. All matrices are row-major with the contraction along
 * their rows, in blocks of 32 with an E8M0 scale each (mxgen/ocp.h); sums are formed in fp32.
 *
 *   pass  MX_GEMM_ROWS: a group owns rows of left and of out, and has a matrix of right. The
 * forward pass, C[g] = A[g] . W[g]^T, and with W quantised along N dgrad, dA[g] = dC[g] . W[g].
 *   pass  MX_GEMM_COLS: a group owns a range of the contraction. wgrad, dW[g] = dC[g]^T . A[g],
 * with dC and A quantised along M, each group zero-padded there to whole blocks.
 *
 *   tensor        MX_GEMM_ROWS                     MX_GEMM_COLS
 *   left          [M, K bytes]                     [N, M bytes]
 *   left_scales   [M, K/32] or [K/32, M]           [N, M/32] or [M/32, N]
 *   right         [G, N, K bytes]                  [K, M bytes]
 *   right_scales  [G, N, K/32] or [G, K/32, N]     [K, M/32] or [M/32, K]
 *   out           [rows, N]                        [G, N, K]
 *   offsets       [G + 1] each                     [G + 1]
 *
 * where "K bytes" is K / 2 bytes for MXFP4 (two codes a byte, the even element in the low nibble),
 * K for MXFP8, and K elements for bf16, which has no scales. G, N and M may be 0. The contraction
 * is a multiple of 32, and not 0 in MX_GEMM_ROWS.
 *
 * Offsets are int64. In MX_GEMM_ROWS group g writes the rows write_offsets[g] .. write_offsets[g +
 * 1] of out, say M_g, and reads the rows from read_offsets[g] on, of which there are M_g or more
 * before read_offsets[g + 1]: padded input, tight output. Without write offsets they are the read
 * offsets. Rows of out that no group owns become zero. In MX_GEMM_COLS group g has the contraction
 * range read_offsets[g] .. read_offsets[g + 1], multiples of 32 (128 is what kernels like best); a
 * block of 32 whose codes are all zero adds nothing there, whatever its scale says, so that the
 * scales of padding need not be written. A group without a range gives zeros.
 *
 *   In device memory the offsets are read when the kernel runs, so that a captured graph can be
 *   replayed with others. What is wrong with them is reported in `status` (int32 [1], on the
 * device, may be NULL), written by every run that launches something: 0, or the sum of
 * MX_GEMM_BAD_..; bounds that lie outside are clamped, and nothing outside the tensors is touched.
 *   With `host_offsets` they are host memory: they are checked when the plan is made and at each
 *   run, which then copies them into the workspace, waits for the stream before it does, and cannot
 *   be captured. They must begin at 0, not decrease, and end at the rows of left (the contraction),
 *   those for writing at the rows of out.
 *
 * Tensors. DLPack tensors on the device, mxrt's conventions (mxgen/rt.h): MXFP4, MXFP8 and scales
 * u8, strides in elements or NULL. Elements of a row are neighbours; rows lie apart by a row or
 * more and, where there is a dimension of groups, groups may lie anywhere (out: without overlap).
 * Scales may have more rows, blocks and groups than are needed; with ..scales_transposed the
 * blocks' dimension comes before that of the rows. From its first to its last byte, the memory of
 * out and status must not overlap any other tensor or the workspace.
 *
 * Numbers. Operands decode exactly. The error of a sum, relative to the exact product's Frobenius
 * norm, is 1e-6 or less in MX_GEMM_EXACT and 1e-3 or less in MX_GEMM_FAST, before the rounding (to
 * nearest even) to the type of out; with `accumulate` (f32 and bf16) the sum is added to what out
 * holds, in f32, and rounded once. A block whose scale is 255 is NaN. Runs on the same memory give
 * the same bytes, on one device and with one variant. The reference sums in double, rounded to f32
 * once.
 *
 * Errors, threads and streams are those of mxgen/rt.h. A plan is not changed by running and may run
 * in many threads at once, each with a workspace of its own: one workspace serves one stream.
 * Making a plan loads kernels and may take milliseconds; a run makes no allocation and takes no
 * lock.
 */
#ifndef MXGEN_GEMM_H
#define MXGEN_GEMM_H

#include <mxgen/rt.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Launches of one run: steps before and after the product, and that itself. */
#define MXRT_GEMM_MAX_LAUNCHES 9

/* Of the workspace; that of mxrt_device_alloc has it. */
#define MXRT_GEMM_WORKSPACE_ALIGN 256

typedef enum mx_gemm_pass { MX_GEMM_ROWS = 0, MX_GEMM_COLS, MX_GEMM_PASS_COUNT } mx_gemm_pass;

typedef enum mx_gemm_element {
    MX_GEMM_MXFP4 = 0,
    MX_GEMM_MXFP8_E4M3,
    MX_GEMM_MXFP8_E5M2,
    MX_GEMM_BF16, /* without scales */
    MX_GEMM_ELEMENT_COUNT
} mx_gemm_element;

typedef enum mx_gemm_mode {
    /* Kernels of both kinds, the fast ones first. These slow down, by far, where scales of MXFP8
     * spread over more than 7 (E4M3) or 14 (E5M2) binades within most rows: there take EXACT. */
    MX_GEMM_FAST = 0,
    MX_GEMM_EXACT,
    MX_GEMM_MODE_COUNT
} mx_gemm_mode;

/* Bits of the status word. */
enum {
    MX_GEMM_BAD_ORDER = 1, /* offsets decrease */
    MX_GEMM_BAD_RANGE = 2, /* offsets outside 0 .. rows */
    MX_GEMM_BAD_ROWS = 4,  /* a group has fewer rows to read than to write */
    MX_GEMM_BAD_BLOCK = 8  /* MX_GEMM_COLS: a bound that is no multiple of 32 */
};

/* Names as packs have them: "gemm_rows", "mxfp4", "fast". */
static inline const char *mx_gemm_pass_name(mx_gemm_pass pass)
{
    static const char *const names[MX_GEMM_PASS_COUNT] = {"gemm_rows", "gemm_cols"};
    return (unsigned)pass < MX_GEMM_PASS_COUNT ? names[pass] : "unknown";
}

static inline const char *mx_gemm_element_name(mx_gemm_element element)
{
    static const char *const names[MX_GEMM_ELEMENT_COUNT] = {"mxfp4", "mxfp8e4m3", "mxfp8e5m2",
                                                             "bf16"};
    return (unsigned)element < MX_GEMM_ELEMENT_COUNT ? names[element] : "unknown";
}

static inline const char *mx_gemm_mode_name(mx_gemm_mode mode)
{
    static const char *const names[MX_GEMM_MODE_COUNT] = {"fast", "exact"};
    return (unsigned)mode < MX_GEMM_MODE_COUNT ? names[mode] : "unknown";
}

/* The parsers return 0 and set *out, or return -1 and leave it alone. */
static inline int mx_gemm_pass_parse(const char *name, mx_gemm_pass *out)
{
    for (int i = 0; name && i < MX_GEMM_PASS_COUNT; i++) {
        if (!strcmp(name, mx_gemm_pass_name((mx_gemm_pass)i)))
            return *out = (mx_gemm_pass)i, 0;
    }
    return -1;
}

static inline int mx_gemm_mode_parse(const char *name, mx_gemm_mode *out)
{
    for (int i = 0; name && i < MX_GEMM_MODE_COUNT; i++) {
        if (!strcmp(name, mx_gemm_mode_name((mx_gemm_mode)i)))
            return *out = (mx_gemm_mode)i, 0;
    }
    return -1;
}

/* "LEFT.RIGHT", such as "mxfp8e4m3.mxfp4". */
static inline int mx_gemm_format_parse(const char *name, mx_gemm_element *left,
                                       mx_gemm_element *right)
{
    for (int i = 0; name && i < MX_GEMM_ELEMENT_COUNT * MX_GEMM_ELEMENT_COUNT; i++) {
        mx_gemm_element first = (mx_gemm_element)(i / MX_GEMM_ELEMENT_COUNT);
        mx_gemm_element second = (mx_gemm_element)(i % MX_GEMM_ELEMENT_COUNT);
        size_t chars = strlen(mx_gemm_element_name(first));
        if (!strncmp(name, mx_gemm_element_name(first), chars) && name[chars] == '.' &&
            !strcmp(name + chars + 1, mx_gemm_element_name(second)))
            return *left = first, *right = second, 0;
    }
    return -1;
}

/* What a pack has kernels for, beside the type of out. */
typedef struct mxrt_gemm_kind {
    mx_gemm_pass pass;
    mx_gemm_element left, right;
} mxrt_gemm_kind;

typedef struct mxrt_gemm_request {
    mx_gemm_pass pass;
    mx_gemm_element left_element, right_element;
    mx_gemm_mode mode;
    const DLTensor *left, *left_scales; /* scales: NULL with MX_GEMM_BF16 */
    const DLTensor *right, *right_scales;
    const DLTensor *out; /* f32, bf16, f16 */
    const DLTensor *read_offsets;
    const DLTensor *write_offsets; /* NULL: the read offsets; MX_GEMM_COLS: NULL */
    const DLTensor *status;        /* NULL: nobody asks */
    int host_offsets;
    int left_scales_transposed, right_scales_transposed;
    int accumulate;
    int num_cu; /* compute units (cores) that are used at most; 0: all */
    /* NULL: chosen by `policy`. "reference": the plain C reference (host only). Else a variant's
     * name; not applicable is MX_ERR_UNSUPPORTED with the rule that failed. */
    const char *variant;
    mxrt_policy policy; /* without a variant; as in mxrt_plan_request */
    double budget_us;   /* MXRT_POLICY_MEASURE: how long to measure */
    mxrt_stream stream; /* on which the operands were made and the plan will run; no kernel is
                           compiled or measured while it captures a graph */
} mxrt_gemm_request;

/* One product on tensors of fixed shapes and strides; the tensors' structs may go after creation.
 */
typedef struct mxrt_gemm_plan mxrt_gemm_plan;

/* MXRT_POLICY_MEASURE is as for mxrt_plan_create (mxgen/rt.h), on the operands and offsets as they
 * are, with an output, a status word and a workspace of its own: as much device memory again, and
 * twice the output's on the host. The fastest is taken if its output is as far from that of the
 * model's choice as two right ones may be. */

/* Checks everything, chooses and loads kernels; those that no pack has are compiled, see
 * mxrt_context_set_compiler. Where there is none, the host runs the reference, and a GPU refuses
 * with MX_ERR_UNSUPPORTED. On a "plan:" device data pointers may be NULL. */
MX_API mx_status mxrt_gemm_plan_create(mxrt_device *device, const mxrt_gemm_request *request,
                                       mxrt_gemm_plan **out, mx_error *err);
MX_API void mxrt_gemm_plan_destroy(mxrt_gemm_plan *plan);

/* Bytes of device memory that each run needs; 0 without a plan. */
MX_API size_t mxrt_gemm_workspace_bytes(const mxrt_gemm_plan *plan);

/* Addresses of first elements that take the place of the request's; NULL: those stay. */
typedef struct mxrt_gemm_buffers {
    const void *left, *left_scales, *right, *right_scales;
    void *out;
    const void *read_offsets, *write_offsets;
    void *status;
    /* MXRT_GEMM_WORKSPACE_ALIGN-aligned, in the device's memory, and in use until the stream has
     * passed the run. Its contents do not matter and are lost. */
    void *workspace;
    size_t workspace_bytes;
} mxrt_gemm_buffers;

/* `buffers` may be NULL where no workspace is needed. Alignment is checked: a kernel whose rules do
 * not hold on these addresses is MX_ERR_UNSUPPORTED. Without write offsets in the request, those
 * are the read offsets here, too. */
MX_API mx_status mxrt_gemm_run(const mxrt_gemm_plan *plan, const mxrt_gemm_buffers *buffers,
                               mxrt_stream stream, mx_error *err);

typedef struct mxrt_gemm_launch_info {
    const char *variant, *symbol;
    uint32_t grid[3], block[3], lds_bytes;
} mxrt_gemm_launch_info;

/* What will be launched; pointers live as long as the plan. */
typedef struct mxrt_gemm_info {
    /* "reference" without a kernel, "none" when nothing is launched, "zeros" where nothing is
     * multiplied (no groups, no rows of left, no contraction) and a GPU clears out. */
    const char *variant;
    const char *target;
    mx_gemm_pass pass;
    mx_gemm_mode mode;                 /* of the variant */
    mx_dtype dtype;                    /* of out */
    int64_t groups, m, n, k, out_rows; /* m: rows of left, or the contraction in MX_GEMM_COLS */
    double flops;                      /* 2 m n k */
    size_t workspace_bytes;
    size_t n_launches;                                      /* 0 without a kernel */
    mxrt_gemm_launch_info launches[MXRT_GEMM_MAX_LAUNCHES]; /* in order */
    const char *params_json, *info_json;                    /* of the variant */
} mxrt_gemm_info;

MX_API mx_status mxrt_gemm_get_info(const mxrt_gemm_plan *plan, mxrt_gemm_info *out, mx_error *err);

/* Names of the variants that apply to the request, in order of preference, without the reference:
 * fills at most `capacity` and returns the count in *n. The names live as long as the device. */
MX_API mx_status mxrt_gemm_variants(mxrt_device *device, const mxrt_gemm_request *request,
                                    const char **names, size_t capacity, size_t *n, mx_error *err);

/* Chooses again, as mxrt_gemm_plan_create would, and says why. */
MX_API mx_status mxrt_gemm_explain(mxrt_device *device, const mxrt_gemm_request *request,
                                   mxrt_choice *out, mx_error *err);

/* For tools: the key of a measurement of `variant` (one of mxrt_gemm_variants) on the request's
 * problem: all texts of *row up to the protocol, layout, shape and bytes. */
MX_API mx_status mxrt_gemm_tune_key(mxrt_device *device, const mxrt_gemm_request *request,
                                    const char *variant, mxrt_tune_row *row, mx_error *err);

#ifdef __cplusplus
}
#endif
#endif
