/* Operands of products on the device, at random. */
#include "mxrt_products.h"

#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

enum { BLOCK = 32, PADDING = 128, SLOT_ALIGN = 4096 };

const char *gemm_pass_name(gemm_pass pass)
{
    static const char *const names[] = {"fprop", "dgrad", "wgrad"};
    return (unsigned)pass < GEMM_PASS_COUNT ? names[pass] : "unknown";
}

const char *gemm_values_name(gemm_values values)
{
    static const char *const names[] = {"normal", "positive", "spread", "opposed"};
    return (unsigned)values < GEMM_VALUES_COUNT ? names[values] : "unknown";
}

/* ---- Shapes ---- */

static int64_t round_up(int64_t value, int64_t to)
{
    return (value + to - 1) / to * to;
}

/* Rows of each group: evenly spread, in an order that is always the same. */
static void set_groups(gemm_problem *problem)
{
    const gemm_shape *shape = &problem->shape;
    int64_t *sizes = problem->sizes;
    uint64_t state = 1;

    for (int64_t g = 0; g < shape->groups; g++)
        sizes[g] = shape->groups < 2
                       ? shape->most
                       : shape->least + (shape->most - shape->least) * g / (shape->groups - 1);
    for (int64_t g = shape->groups - 1; g > 0; g--) {
        int64_t with = (int64_t)(mx_case_random(&state) % (uint64_t)(g + 1)), size = sizes[g];
        sizes[g] = sizes[with];
        sizes[with] = size;
    }
    for (int64_t g = 0; g < shape->groups; g++) {
        problem->flop_rows += sizes[g];
        problem->offsets[g + 1] =
            problem->offsets[g] +
            (problem->pass == GEMM_WGRAD ? round_up(sizes[g], PADDING) : sizes[g]);
    }
    problem->rows = problem->offsets[shape->groups];
}

static int64_t row_bytes(mx_gemm_element element, int64_t contraction)
{
    return element == MX_GEMM_MXFP4  ? contraction / 2
           : element == MX_GEMM_BF16 ? 2 * contraction
                                     : contraction;
}

static void set_operand(gemm_operand *operand, mx_gemm_element element, int64_t groups,
                        int64_t rows, int64_t contraction)
{
    operand->element = element;
    operand->groups = groups;
    operand->rows = rows;
    operand->contraction = contraction;
    operand->data_bytes = groups * rows * row_bytes(element, contraction);
    operand->scales_bytes = element == MX_GEMM_BF16 ? 0 : groups * rows * (contraction / BLOCK);
}

static void set_shapes(gemm_problem *problem)
{
    const mxrt_gemm_request *request = &problem->request;
    const gemm_shape *shape = &problem->shape;
    int64_t n = problem->pass == GEMM_DGRAD ? shape->k : shape->n;
    int64_t k = problem->pass == GEMM_DGRAD ? shape->n : shape->k;

    if (problem->pass == GEMM_WGRAD) {
        set_operand(&problem->left, request->left_element, 1, n, problem->rows);
        set_operand(&problem->right, request->right_element, 1, k, problem->rows);
    } else {
        set_operand(&problem->left, request->left_element, 1, problem->rows, k);
        set_operand(&problem->right, request->right_element, shape->groups, n, k);
    }
    problem->out_shape[0] = shape->groups;
    problem->out_shape[1] = problem->pass == GEMM_WGRAD ? n : problem->rows;
    problem->out_shape[2] = problem->pass == GEMM_WGRAD ? k : n;
}

static void set_starts(gemm_problem *problem)
{
    const int64_t sizes[4] = {problem->left.data_bytes, problem->left.scales_bytes,
                              problem->right.data_bytes, problem->right.scales_bytes};

    for (int i = 0; i < 4; i++) {
        problem->starts[i] = problem->slot_bytes;
        problem->slot_bytes = round_up(problem->slot_bytes + sizes[i], SLOT_ALIGN);
    }
}

/* ---- Values ---- */

/* Bits of a code byte (of bf16: of its upper byte) that are random, and those that are set: FP8 at
 * the upper end of its range, where quantisation puts the largest of a block. */
static void code_masks(mx_gemm_element element, gemm_values values, uint64_t *keep, uint64_t *set)
{
    static const uint64_t keeps[] = {0xff, 0x9b, 0x87, 0x80ff}, sets[] = {0, 0x60, 0x70, 0x3f00};
    static const uint64_t signs[] = {0x88, 0x80, 0x80, 0x8000};
    uint64_t repeat = element == MX_GEMM_BF16 ? 0x0001000100010001u : 0x0101010101010101u;

    *keep = keeps[element] * repeat;
    *set = sets[element] * repeat;
    if (values == GEMM_POSITIVE)
        *keep &= ~(signs[element] * repeat);
}

/* Zeros after the rows of each group, in wgrad. */
static void clear_padding(const gemm_problem *problem, gemm_operand *operand)
{
    int64_t bytes = row_bytes(operand->element, operand->contraction);

    for (int64_t g = 0; g < problem->shape.groups; g++) {
        int64_t begin = problem->offsets[g] + problem->sizes[g], end = problem->offsets[g + 1];
        for (int64_t row = 0; begin < end && row < operand->rows; row++) {
            unsigned char *at = operand->data + row * bytes;
            /* Of two codes in a byte the first may be a group's last. */
            if (operand->element == MX_GEMM_MXFP4 && begin % 2)
                at[begin / 2] &= 0x0f;
            int64_t from = row_bytes(operand->element,
                                     begin + (operand->element == MX_GEMM_MXFP4 ? begin % 2 : 0));
            memset(at + from, 0, (size_t)(row_bytes(operand->element, end) - from));
        }
    }
}

static void fill_data(const gemm_problem *problem, gemm_operand *operand, uint64_t seed)
{
    uint64_t keep, set, state = seed;
    int64_t words = operand->data_bytes / 8;

    code_masks(operand->element, problem->values, &keep, &set);
    for (int64_t i = 0; i < words; i++) {
        uint64_t word = (mx_case_random(&state) & keep) | set;
        memcpy(operand->data + 8 * i, &word, 8);
    }
    if (problem->pass == GEMM_WGRAD)
        clear_padding(problem, operand);
}

static int scale_exponent(gemm_values values, int is_right, int64_t block, uint64_t random)
{
    uint64_t along = (uint64_t)block;
    int common = (int)(mx_case_random(&along) % 121) - 60;

    if (values == GEMM_SPREAD)
        return (int)(random % 101) - 50;
    if (values == GEMM_OPPOSED)
        return (is_right ? -common : common) + (int)(random % 5) - 2;
    return (int)(random % 5) - 2;
}

static void fill_scales(const gemm_problem *problem, gemm_operand *operand, int is_right)
{
    int64_t blocks = operand->contraction / BLOCK;
    uint64_t state = 7 + (uint64_t)is_right;
    /* Codes times these are about one. */
    static const int units[] = {127, 127 - 8, 127 - 14, 0};

    for (int64_t i = 0; i < operand->scales_bytes; i++)
        operand->scales[i] = (unsigned char)(units[operand->element] +
                                             scale_exponent(problem->values, is_right, i % blocks,
                                                            mx_case_random(&state)));
}

static mx_status fill_operand(const gemm_problem *problem, gemm_operand *operand, int is_right,
                              mx_error *err)
{
    operand->data = calloc(1, (size_t)operand->data_bytes + 8);
    operand->scales = calloc(1, (size_t)operand->scales_bytes + 8);
    if (!operand->data || !operand->scales)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for an operand of %lld bytes",
                       (long long)operand->data_bytes);
    fill_data(problem, operand, 3 + (uint64_t)is_right);
    fill_scales(problem, operand, is_right);
    return MX_OK;
}

/* ---- On the device ---- */

static mx_status place_inputs(gemm_problem *problem, mxrt_device *device, int n_slots,
                              mx_error *err)
{
    const gemm_operand *left = &problem->left, *right = &problem->right;
    const int64_t sizes[4] = {left->data_bytes, left->scales_bytes, right->data_bytes,
                              right->scales_bytes};
    int64_t at = problem->slot_bytes;
    const unsigned char *const data[4] = {left->data, left->scales, right->data, right->scales};
    mxrt_device_info info;
    mx_status status = mxrt_device_get_info(device, &info, err);

    if (status)
        return status;
    status = measure_ring_init(&problem->inputs, device, at ? at : 1,
                               n_slots ? n_slots : measure_slots(&info, at), err);
    for (int i = 0; !status && i < 4; i++)
        status = mxrt_device_upload(
            device, (char *)measure_ring_at(&problem->inputs, 0) + problem->starts[i], data[i],
            (size_t)sizes[i], err);
    return status ? status : measure_ring_replicate(&problem->inputs, err);
}

static mx_status place_outputs(gemm_problem *problem, mxrt_device *device, mx_error *err)
{
    int64_t groups = problem->shape.groups;
    size_t offsets_bytes = ((size_t)groups + 1) * sizeof(int64_t);
    mx_status status =
        mxrt_device_alloc(device, (size_t)gemm_problem_out_bytes(problem), &problem->out, err);

    if (!status)
        status = mxrt_device_alloc(device, offsets_bytes, &problem->device_offsets, err);
    if (!status)
        status = mxrt_device_alloc(device, sizeof(int32_t), &problem->status, err);
    return status ? status
                  : mxrt_device_upload(device, problem->device_offsets, problem->offsets,
                                       offsets_bytes, err);
}

/* Of a slot that begins at `slot`. */
static void operand_tensors(const gemm_problem *problem, const gemm_operand *operand, int first,
                            DLDevice device, char *slot, mx_case_tensor *out)
{
    static const DLDataType u8 = {kDLUInt, 8, 1}, bf16 = {kDLBfloat, 16, 1};
    int is_bf16 = operand->element == MX_GEMM_BF16;
    int skip = problem->pass == GEMM_WGRAD || !first ? 1 : 0; /* no dimension of groups */
    const int64_t shape[] = {operand->groups, operand->rows,
                             row_bytes(operand->element, operand->contraction) / (is_bf16 ? 2 : 1)};
    const int64_t scales[] = {operand->groups, operand->rows, operand->contraction / BLOCK};

    mx_case_contiguous(is_bf16 ? bf16 : u8, device, 3 - skip, shape + skip,
                       slot + problem->starts[first], &out[first]);
    mx_case_contiguous(u8, device, 3 - skip, scales + skip, slot + problem->starts[first + 1],
                       &out[first + 1]);
}

/* Where the tensors begin. */
typedef struct addresses {
    void *slot, *out, *offsets, *status;
} addresses;

static mx_status set_request(gemm_problem *problem, mxrt_device *device, const addresses *at,
                             mx_error *err)
{
    static const DLDataType i64 = {kDLInt, 64, 1}, i32 = {kDLInt, 32, 1};
    const int64_t n_offsets = problem->shape.groups + 1, one = 1;
    int is_rows = problem->pass != GEMM_WGRAD;
    mx_case_tensor *t = problem->tensors;
    mxrt_gemm_request *request = &problem->request;
    mxrt_device_info info;
    mx_status status = mxrt_device_get_info(device, &info, err);

    if (status)
        return status;
    operand_tensors(problem, &problem->left, 0, info.dl_device, at->slot, t);
    operand_tensors(problem, &problem->right, 2, info.dl_device, at->slot, t);
    mx_case_contiguous(mx_case_dl_type(problem->dtype), info.dl_device, is_rows ? 2 : 3,
                       problem->out_shape + is_rows, at->out, &t[4]);
    mx_case_contiguous(i64, info.dl_device, 1, &n_offsets, at->offsets, &t[5]);
    mx_case_contiguous(i32, info.dl_device, 1, &one, at->status, &t[6]);
    request->pass = is_rows ? MX_GEMM_ROWS : MX_GEMM_COLS;
    request->left = &t[0].tensor;
    request->left_scales = request->left_element == MX_GEMM_BF16 ? NULL : &t[1].tensor;
    request->right = &t[2].tensor;
    request->right_scales = request->right_element == MX_GEMM_BF16 ? NULL : &t[3].tensor;
    request->out = &t[4].tensor;
    request->read_offsets = &t[5].tensor;
    request->status = &t[6].tensor;
    return MX_OK;
}

gemm_problem *gemm_problem_create(const tool_product *product, mx_error *err)
{
    gemm_problem *problem = calloc(1, sizeof(*problem));

    if (!problem) {
        mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a problem");
        return NULL;
    }
    problem->pass = product->pass;
    problem->shape = product->shape;
    problem->values = product->values;
    problem->dtype = product->dtype;
    problem->request = product->request;
    set_groups(problem);
    set_shapes(problem);
    set_starts(problem);
    return problem;
}

mx_status gemm_problem_place(gemm_problem *problem, mxrt_device *device, mx_error *err)
{
    /* Far apart, and on pages, as memory would be. */
    const addresses nowhere = {(void *)((uintptr_t)1 << 40), (void *)((uintptr_t)1 << 45),
                               (void *)((uintptr_t)1 << 43), (void *)((uintptr_t)1 << 44)};

    return set_request(problem, device, &nowhere, err);
}

mx_status gemm_problem_init(gemm_problem *problem, mxrt_device *device, int n_slots, mx_error *err)
{
    mx_status status;

    if ((status = fill_operand(problem, &problem->left, 0, err)) ||
        (status = fill_operand(problem, &problem->right, 1, err)) ||
        (status = place_inputs(problem, device, n_slots, err)) ||
        (status = place_outputs(problem, device, err)))
        return status;
    const addresses at = {measure_ring_at(&problem->inputs, 0), problem->out,
                          problem->device_offsets, problem->status};
    return set_request(problem, device, &at, err);
}

void gemm_problem_finish(gemm_problem *problem, mxrt_device *device)
{
    measure_ring_finish(&problem->inputs);
    mxrt_device_free(device, problem->out);
    mxrt_device_free(device, problem->device_offsets);
    mxrt_device_free(device, problem->status);
    free(problem->left.data);
    free(problem->left.scales);
    free(problem->right.data);
    free(problem->right.scales);
}

void gemm_problem_buffers(const gemm_problem *problem, int slot, mxrt_gemm_buffers *buffers)
{
    const char *at = measure_ring_at(&problem->inputs, slot);

    buffers->left = at + problem->starts[0];
    buffers->right = at + problem->starts[2];
    if (problem->left.scales_bytes)
        buffers->left_scales = at + problem->starts[1];
    if (problem->right.scales_bytes)
        buffers->right_scales = at + problem->starts[3];
}

mx_status gemm_kernel_run(void *user, mxrt_stream stream, mx_error *err)
{
    gemm_kernel *kernel = user;
    measure_ring *ring = &kernel->problem->inputs;

    gemm_problem_buffers(kernel->problem, ring->next, &kernel->buffers);
    ring->next = (ring->next + 1) % ring->n;
    return mxrt_gemm_run(kernel->plan, &kernel->buffers, stream, err);
}

int64_t gemm_problem_weight_bytes(const gemm_problem *problem)
{
    return problem->right.data_bytes + problem->right.scales_bytes;
}

int64_t gemm_problem_out_bytes(const gemm_problem *problem)
{
    return problem->out_shape[1] * problem->out_shape[2] *
           (problem->pass == GEMM_WGRAD ? problem->shape.groups : 1) *
           mx_dtype_get(problem->dtype)->bytes;
}

int64_t gemm_problem_bytes(const gemm_problem *problem)
{
    return problem->left.data_bytes + problem->left.scales_bytes +
           gemm_problem_weight_bytes(problem) + gemm_problem_out_bytes(problem);
}

double gemm_problem_flops(const gemm_problem *problem)
{
    return 2.0 * (double)problem->flop_rows * (double)problem->shape.n * (double)problem->shape.k;
}
