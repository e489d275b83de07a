#include "runtime/reference_gemm.h"

#include "runtime/reference_numbers.h"

enum { BLOCK = 32, CHUNK = 128, TILE_ROWS = 8, TILE_COLUMNS = 16 };

/* ---- Numbers ---- */

static double double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* A number with this many exponent and mantissa bits, without special values; codes are below 128.
 */
static double small_float(unsigned code, int mantissa_bits, int bias)
{
    unsigned exponent = code >> mantissa_bits, mantissa = code & ((1u << mantissa_bits) - 1);
    /* 2^(1 - bias - mantissa_bits), the smallest number. */
    double unit = double_of((uint64_t)(1023 + 1 - bias - mantissa_bits) << 52);

    if (!exponent)
        return mantissa * unit;
    return (mantissa + (1u << mantissa_bits)) * unit *
           double_of((uint64_t)(1023 + exponent - 1) << 52);
}

static double decode_code(mx_gemm_element element, unsigned code)
{
    unsigned sign_bit = element == MX_GEMM_MXFP4 ? 8 : 128, magnitude = code & (sign_bit - 1);
    double value;

    if (element == MX_GEMM_MXFP4)
        value = small_float(magnitude, 1, 1);
    else if (element == MX_GEMM_MXFP8_E4M3)
        value = magnitude == 0x7f ? (double)float_of(0x7fc00000u) : small_float(magnitude, 3, 7);
    else if (magnitude >= 0x7c)
        value = (double)float_of(magnitude == 0x7c ? F32_INF : 0x7fc00000u);
    else
        value = small_float(magnitude, 2, 15);
    return code & sign_bit ? -value : value;
}

static double scale_value(unsigned byte)
{
    return byte == 255 ? (double)float_of(0x7fc00000u)
                       : double_of((uint64_t)(1023 - 127 + byte) << 52);
}

/* ---- Operands ---- */

/* One row of an operand: of its data, and of its scales. */
typedef struct operand_row {
    const mxrt_gemm_operand *operand;
    const unsigned char *data, *scales;
    int zeros_count; /* a block of zero codes is zero, whatever its scale */
} operand_row;

static int all_zero(const operand_row *row, int64_t block)
{
    int64_t bytes = row->operand->element == MX_GEMM_MXFP4 ? BLOCK / 2 : BLOCK;
    unsigned sign_bits = row->operand->element == MX_GEMM_MXFP4 ? 0x88 : 0x80, any = 0;

    for (int64_t i = 0; i < bytes; i++)
        any |= row->data[block * bytes + i] & ~sign_bits;
    return !any;
}

/* 32 elements, `out_stride` apart. */
static void decode_block(const operand_row *row, int64_t block, double *out, int64_t out_stride)
{
    const mx_gemm_element element = row->operand->element;

    if (element == MX_GEMM_BF16) {
        for (int i = 0; i < BLOCK; i++) {
            uint16_t bits;
            memcpy(&bits, row->data + (block * BLOCK + i) * 2, sizeof(bits));
            out[i * out_stride] = (double)float_of((uint32_t)bits << 16);
        }
        return;
    }
    double scale = scale_value(row->scales[block * row->operand->scale_block_stride]);
    if (row->zeros_count && all_zero(row, block))
        scale = 1;
    for (int i = 0; i < BLOCK; i++) {
        unsigned code = element == MX_GEMM_MXFP4
                            ? row->data[block * (BLOCK / 2) + i / 2] >> (i % 2 * 4) & 15u
                            : row->data[block * BLOCK + i];
        out[i * out_stride] = decode_code(element, code) * scale;
    }
}

static operand_row row_of(const mxrt_gemm_problem *problem, int is_right, int64_t group,
                          int64_t row)
{
    const mxrt_gemm_operand *operand = is_right ? &problem->right : &problem->left;
    const mxrt_buffer *data = &problem->buffers[is_right ? MXRT_GEMM_RIGHT : MXRT_GEMM_LEFT];
    const mxrt_buffer *scales =
        &problem->buffers[is_right ? MXRT_GEMM_RIGHT_SCALES : MXRT_GEMM_LEFT_SCALES];
    operand_row out = {.operand = operand, .zeros_count = problem->pass == MX_GEMM_COLS};

    out.data = data->data + group * operand->group_stride + row * operand->row_stride;
    if (operand->element != MX_GEMM_BF16)
        out.scales =
            scales->data + group * operand->scale_group_stride + row * operand->scale_row_stride;
    return out;
}

/* ---- Offsets ---- */

static int64_t clamp(int64_t value, int64_t low, int64_t high)
{
    return value < low ? low : value > high ? high : value;
}

static int64_t offset_at(const mxrt_gemm_problem *problem, mxrt_gemm_buffer buffer, int64_t i)
{
    int64_t value;

    memcpy(&value, problem->buffers[buffer].data + i * (int64_t)sizeof(value), sizeof(value));
    return value;
}

static int32_t check_bounds(const mxrt_gemm_problem *problem, mxrt_gemm_buffer buffer, int64_t rows)
{
    int64_t before = 0;
    int32_t status = 0;

    for (int64_t g = 0; g <= problem->groups; g++) {
        int64_t at = offset_at(problem, buffer, g);
        if (at < 0 || at > rows)
            status |= MX_GEMM_BAD_RANGE;
        if (g && at < before)
            status |= MX_GEMM_BAD_ORDER;
        if (problem->pass == MX_GEMM_COLS && at % BLOCK)
            status |= MX_GEMM_BAD_BLOCK;
        before = at;
    }
    return status;
}

void mxrt_reference_gemm_status(const mxrt_gemm_problem *problem)
{
    int32_t status;

    if (!problem->buffers[MXRT_GEMM_STATUS].data)
        return;
    status = check_bounds(problem, MXRT_GEMM_READ_OFFSETS, problem->m);
    if (problem->pass == MX_GEMM_ROWS)
        status |= check_bounds(problem, MXRT_GEMM_WRITE_OFFSETS, problem->out_rows);
    for (int64_t g = 0; problem->pass == MX_GEMM_ROWS && g < problem->groups; g++) {
        int64_t read, write;
        if (__builtin_sub_overflow(offset_at(problem, MXRT_GEMM_READ_OFFSETS, g + 1),
                                   offset_at(problem, MXRT_GEMM_READ_OFFSETS, g), &read) ||
            __builtin_sub_overflow(offset_at(problem, MXRT_GEMM_WRITE_OFFSETS, g + 1),
                                   offset_at(problem, MXRT_GEMM_WRITE_OFFSETS, g), &write) ||
            read < write)
            status |= MX_GEMM_BAD_ROWS;
    }
    memcpy(problem->buffers[MXRT_GEMM_STATUS].data, &status, sizeof(status));
}

typedef struct range {
    int64_t begin, end;
} range;

/* The next group's, after one that ended at `end`. */
static range next_range(const mxrt_gemm_problem *problem, mxrt_gemm_buffer buffer, int64_t group,
                        int64_t end, int64_t rows)
{
    range out;

    out.begin = clamp(offset_at(problem, buffer, group), end, rows);
    out.end = clamp(offset_at(problem, buffer, group + 1), out.begin, rows);
    return out;
}

/* ---- Tiles ---- */

/* A part of out, its operands' rows and the part of the contraction. */
typedef struct tile {
    int n_rows, n_columns;
    operand_row rows[TILE_ROWS], columns[TILE_COLUMNS];
    int64_t begin, end; /* blocks */
    double sums[TILE_ROWS][TILE_COLUMNS];
} tile;

static void multiply(tile *t)
{
    static const int blocks_at_once = CHUNK / BLOCK;
    double left[TILE_ROWS][CHUNK], right[CHUNK][TILE_COLUMNS];

    memset(t->sums, 0, sizeof(t->sums));
    memset(left, 0, sizeof(left));
    memset(right, 0, sizeof(right));
    for (int64_t at = t->begin; at < t->end; at += blocks_at_once) {
        int64_t n = t->end - at < blocks_at_once ? t->end - at : blocks_at_once;
        for (int64_t b = 0; b < n; b++) {
            for (int i = 0; i < t->n_rows; i++)
                decode_block(&t->rows[i], at + b, &left[i][b * BLOCK], 1);
            for (int i = 0; i < t->n_columns; i++)
                decode_block(&t->columns[i], at + b, &right[b * BLOCK][i], TILE_COLUMNS);
        }
        for (int i = 0; i < t->n_rows; i++) {
            for (int64_t k = 0; k < n * BLOCK; k++) {
                for (int j = 0; j < TILE_COLUMNS; j++)
                    t->sums[i][j] += left[i][k] * right[k][j];
            }
        }
    }
}

/* The f32 sum, added to what is there with `accumulate`, rounded once. */
static void store(const mxrt_gemm_problem *problem, int64_t index, double sum)
{
    unsigned char *at =
        problem->buffers[MXRT_GEMM_OUT].data + index * mx_dtype_get(problem->dtype)->bytes;
    float value = (float)sum;
    uint16_t half = 0;

    if (problem->dtype == MX_DTYPE_F32) {
        float before = 0;
        if (problem->accumulate)
            memcpy(&before, at, sizeof(before));
        value = problem->accumulate ? value + before : value;
        memcpy(at, &value, sizeof(value));
        return;
    }
    if (problem->accumulate) {
        memcpy(&half, at, sizeof(half));
        value += float_of((uint32_t)half << 16); /* never f16 */
    }
    half =
        problem->dtype == MX_DTYPE_BF16 ? bf16_narrow(bits_of(value)) : f16_narrow(bits_of(value));
    memcpy(at, &half, sizeof(half));
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* Rows and columns of one group's part of out, or of all of it. */
static void out_shape(const mxrt_gemm_problem *problem, int64_t *rows, int64_t *columns)
{
    *rows = problem->pass == MX_GEMM_ROWS ? problem->out_rows : problem->n;
    *columns = problem->pass == MX_GEMM_ROWS ? problem->n : problem->k;
}

/* The columns of a tile that begins at `column`. */
static void set_columns(const mxrt_gemm_problem *problem, int64_t group, int64_t column,
                        int n_columns, tile *t)
{
    t->n_columns = n_columns;
    for (int j = 0; j < n_columns; j++)
        t->columns[j] = row_of(problem, 1, group, column + j);
}

/* Rows row .. row + n_rows - 1 of out, by the groups that own them. */
static void rows_tile(const mxrt_gemm_problem *problem, int64_t row, int n_rows, int64_t column,
                      int n_columns)
{
    range read = {0, 0}, write = {0, 0};
    tile t = {.begin = 0, .end = problem->k / BLOCK};
    int owned[TILE_ROWS] = {0};

    for (int64_t g = 0; g < problem->groups && write.end < row + n_rows; g++) {
        read = next_range(problem, MXRT_GEMM_READ_OFFSETS, g, read.end, problem->m);
        write = next_range(problem, MXRT_GEMM_WRITE_OFFSETS, g, write.end, problem->out_rows);
        int64_t length = read.end - read.begin, end = write.end;
        end = end - write.begin > length ? write.begin + length : end;
        int64_t from = write.begin > row ? write.begin : row;
        int64_t to = end < row + n_rows ? end : row + n_rows;
        if (from >= to)
            continue;
        set_columns(problem, g, column, n_columns, &t);
        t.n_rows = (int)(to - from);
        for (int i = 0; i < t.n_rows; i++)
            t.rows[i] = row_of(problem, 0, 0, read.begin + from - write.begin + i);
        multiply(&t);
        for (int i = 0; i < t.n_rows; i++) {
            owned[from - row + i] = 1;
            for (int j = 0; j < n_columns; j++)
                store(problem, (from + i) * problem->out_row_stride + column + j, t.sums[i][j]);
        }
    }
    for (int i = 0; i < n_rows; i++) {
        for (int j = 0; !owned[i] && !problem->accumulate && j < n_columns; j++)
            store(problem, (row + i) * problem->out_row_stride + column + j, 0);
    }
}

static void columns_tile(const mxrt_gemm_problem *problem, int64_t group, int64_t row, int n_rows,
                         int64_t column, int n_columns)
{
    range read = {0, 0};
    tile t = {.n_rows = n_rows};

    for (int64_t g = 0; g <= group; g++)
        read = next_range(problem, MXRT_GEMM_READ_OFFSETS, g, read.end, problem->m);
    t.begin = ceil_div(read.begin, BLOCK);
    t.end = read.end / BLOCK;
    set_columns(problem, 0, column, n_columns, &t);
    for (int i = 0; i < n_rows; i++)
        t.rows[i] = row_of(problem, 0, 0, row + i);
    multiply(&t);
    for (int i = 0; i < n_rows; i++) {
        for (int j = 0; j < n_columns; j++)
            store(problem,
                  group * problem->out_group_stride + (row + i) * problem->out_row_stride + column +
                      j,
                  t.sums[i][j]);
    }
}

int64_t mxrt_reference_gemm_count(const mxrt_gemm_problem *problem)
{
    int64_t rows, columns;

    out_shape(problem, &rows, &columns);
    return ceil_div(rows, TILE_ROWS) * ceil_div(columns, TILE_COLUMNS) *
           (problem->pass == MX_GEMM_ROWS ? 1 : problem->groups);
}

void mxrt_reference_gemm_tiles(const mxrt_gemm_problem *problem, int64_t begin, int64_t end)
{
    int64_t rows, columns;

    out_shape(problem, &rows, &columns);
    int64_t down = ceil_div(rows, TILE_ROWS), across = ceil_div(columns, TILE_COLUMNS);
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i / across % down * TILE_ROWS, column = i % across * TILE_COLUMNS;
        int n_rows = (int)(rows - row < TILE_ROWS ? rows - row : TILE_ROWS);
        int n_columns = (int)(columns - column < TILE_COLUMNS ? columns - column : TILE_COLUMNS);
        if (problem->pass == MX_GEMM_ROWS)
            rows_tile(problem, row, n_rows, column, n_columns);
        else
            columns_tile(problem, i / across / down, row, n_rows, column, n_columns);
    }
}
