#include "runtime/tuned.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mxgen/error.h>
#include <mxgen/tune.h>

#include "runtime/context.h"
#include "runtime/device.h"
#include "runtime/tune_file.h"

enum { ALIGN_MOST = 16, MEMORY_AXIS_STRIDED = 1, MEMORY_PACKED_GAPS = 2 };

/* For a writer that has the file; a table is being built meanwhile. */
#define READ_BUSY_MS 250

/* Of a bucket that many of the fastest are remembered: what applies to one of its problems need not
 * apply to all of them. */
#define BEST_OF_BUCKET 4

/* ---- Buckets ---- */

static int floor_log2(int64_t value)
{
    return value > 0 ? 63 - __builtin_clzll((unsigned long long)value) : 0;
}

/* Where the fastest kernels of one kind of memory do not apply to another, what was measured of the
 * rest says nothing. */
static int memory_of(mx_op op, mx_format format, const int64_t *values)
{
    int memory = 0;

    if ((op != MX_OP_FROM && values[MXRT_VAR_X_AXIS_STRIDE] != 1) ||
        (op != MX_OP_TO && values[MXRT_VAR_Y_AXIS_STRIDE] != 1))
        memory |= MEMORY_AXIS_STRIDED;
    if (op != MX_OP_QDQ && (values[MXRT_VAR_P_BYTE_STRIDE] != 1 ||
                            values[MXRT_VAR_P_BLOCK_STRIDE] != mx_format_get(format)->block_bytes))
        memory |= MEMORY_PACKED_GAPS;
    return memory;
}

void mxrt_bucket_of(mx_op op, mx_format format, const int64_t values[MXRT_VAR_COUNT],
                    mxrt_bucket *out)
{
    int64_t align = ALIGN_MOST;

    if (op != MX_OP_FROM && values[MXRT_VAR_X_ALIGN] < align)
        align = values[MXRT_VAR_X_ALIGN];
    if (op != MX_OP_TO && values[MXRT_VAR_Y_ALIGN] < align)
        align = values[MXRT_VAR_Y_ALIGN];
    *out = (mxrt_bucket){
        .blocks_log2 = floor_log2(values[MXRT_VAR_N_BLOCKS]),
        .row_log2 = floor_log2(values[MXRT_VAR_BPR]),
        .align = (int)align,
        .is_ragged = values[MXRT_VAR_LEN] % mx_format_get(format)->block_elements != 0,
        .n_dims = (int)values[MXRT_VAR_N_DIMS],
        .memory = memory_of(op, format, values),
    };
}

void mxrt_bucket_text(const mxrt_bucket *bucket, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "n%d l%d a%d r%d d%d m%d", bucket->blocks_log2, bucket->row_log2,
             bucket->align, bucket->is_ragged, bucket->n_dims, bucket->memory);
}

static int bucket_parse(const char *text, mxrt_bucket *out)
{
    char again[64];

    if (sscanf(text, "n%d l%d a%d r%d d%d m%d", &out->blocks_log2, &out->row_log2, &out->align,
               &out->is_ragged, &out->n_dims, &out->memory) != 6)
        return 0;
    mxrt_bucket_text(out, again, sizeof(again));
    return !strcmp(again, text);
}

int mxrt_bucket_distance(const mxrt_bucket *a, const mxrt_bucket *b)
{
    int distance = abs(a->blocks_log2 - b->blocks_log2) + abs(a->row_log2 - b->row_log2);

    if (a->align != b->align || a->is_ragged != b->is_ragged || a->n_dims != b->n_dims ||
        a->memory != b->memory)
        return -1;
    return distance <= MXRT_BUCKET_NEAREST ? distance : -1;
}

/* ---- Keys ---- */

int mxrt_tuned_counts(const mxrt_device *device)
{
    mxrt_counters counts;

    return device->ops->counters && !device->ops->counters(device->backend, &counts, NULL);
}

void mxrt_tuned_device(const mxrt_device *device, char *text, size_t text_bytes)
{
    const mxrt_device_info *info = &device->info;

    snprintf(text, text_bytes, "%.160s/%d%s", info->chip[0] ? info->chip : info->target,
             info->compute_units, mxrt_tuned_counts(device) ? " counted" : "");
}

void mxrt_tuned_key(const mxrt_device *device, const mxrt_problem *problem,
                    const mxrt_variant *variant, mxrt_tune_row *row)
{
    int64_t values[MXRT_VAR_COUNT];
    mxrt_bucket bucket;

    memset(row, 0, sizeof(*row));
    mxrt_problem_vars(problem, values);
    mxrt_bucket_of(problem->op, problem->format, values, &bucket);
    mxrt_bucket_text(&bucket, row->bucket, sizeof(row->bucket));
    snprintf(row->op, sizeof(row->op), "%s", mx_op_name(problem->op));
    snprintf(row->format, sizeof(row->format), "%s", mx_format_get(problem->format)->name);
    snprintf(row->dtype, sizeof(row->dtype), "%s", mx_dtype_get(problem->dtype)->name);
    snprintf(row->profile, sizeof(row->profile), "%s", mx_profile_name(problem->profile));
    mxrt_tuned_device(device, row->device, sizeof(row->device));
    snprintf(row->driver, sizeof(row->driver), "%s", device->info.driver);
    row->protocol = mxrt_tuned_counts(device) ? MXTUNE_PROTOCOL_COUNTS : MXTUNE_PROTOCOL;
    row->bytes = mxrt_problem_bytes(problem);
    snprintf(row->variant, sizeof(row->variant), "%s", variant->info.name);
    snprintf(row->code, sizeof(row->code), "%s", variant->code);
    snprintf(row->layout, sizeof(row->layout), "%s", mx_layout_name(variant->layout));
}

/* ---- Reading ---- */

typedef struct reader {
    const mxrt_kernel_table *table;
    mxrt_tuned *tuned;
    size_t capacity;
    size_t n_before; /* rows of the files before */
    char bucket_text[64];
    mxrt_bucket bucket; /* of that text, as rows of one bucket follow each other */
    int n_taken;        /* of that bucket */
} reader;

static int find_variant(const reader *r, const char *name, const char *code)
{
    const mxrt_variant *variant = mxrt_kernel_table_find(r->table, name);

    if (!variant || !variant->code[0] || strcmp(variant->code, code) != 0)
        return -1;
    return (int)(variant - r->table->variants);
}

static int same_subject(const mxrt_tuned_row *a, const mxrt_tuned_row *b)
{
    return a->variant == b->variant && a->protocol == b->protocol &&
           !mxrt_bucket_distance(&a->bucket, &b->bucket);
}

static mx_status add_row(reader *r, const mxrt_tuned_row *row, mx_error *err)
{
    for (size_t i = 0; i < r->n_before; i++) {
        if (same_subject(&r->tuned->rows[i], row)) {
            r->tuned->rows[i] = *row; /* the user's file comes last */
            return MX_OK;
        }
    }
    if (r->tuned->n == r->capacity) {
        size_t capacity = r->capacity ? 2 * r->capacity : 64;
        mxrt_tuned_row *rows = realloc(r->tuned->rows, capacity * sizeof(*rows));
        if (!rows)
            return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu measurements", capacity);
        r->tuned->rows = rows;
        r->capacity = capacity;
    }
    r->tuned->rows[r->tuned->n++] = *row;
    return MX_OK;
}

static mx_status take(void *user, const mxrt_tune_row *row, int *enough, mx_error *err)
{
    reader *r = user;

    if (strcmp(r->bucket_text, row->bucket) != 0) {
        if (!bucket_parse(row->bucket, &r->bucket)) {
            *enough = 1;
            return MX_OK;
        }
        snprintf(r->bucket_text, sizeof(r->bucket_text), "%s", row->bucket);
        r->n_taken = 0;
    }
    int variant = find_variant(r, row->variant, row->code);
    if (variant < 0 || !(row->ms > 0) || row->bytes <= 0 || row->protocol < MXTUNE_PROTOCOL ||
        row->protocol > MXTUNE_PROTOCOL_COUNTS)
        return MX_OK;
    const mxrt_tuned_row made = {.bucket = r->bucket,
                                 .variant = (uint32_t)variant,
                                 .protocol = (int)row->protocol,
                                 .ms = row->ms,
                                 .bytes = row->bytes};
    *enough = ++r->n_taken == BEST_OF_BUCKET;
    return add_row(r, &made, err);
}

int mxrt_tuned_is_news(mxrt_device *device, int place)
{
    unsigned bit = 1u << (place < 31 ? place : 31);

    return !(atomic_fetch_or(&device->context->tune_told, bit) & bit);
}

/* What is read of the files: rows of one key by `take`. */
static void read_file(mxrt_device *device, const mxrt_tuned_reading *reading, const char *path,
                      int place)
{
    char chip[MXTUNE_TEXT_BYTES];
    mxrt_tune_filter filter = reading->filter;
    mxrt_tune_file *file = NULL;
    int64_t n_damaged = 0;
    mx_error reason = {MX_OK, ""};

    /* That there is none yet is nothing to tell. */
    if (access(path, F_OK))
        return;
    reading->begin(reading->user);
    mxrt_tuned_device(device, chip, sizeof(chip));
    filter.device = chip;
    filter.driver = device->info.driver;
    mx_status status =
        mxrt_tune_open_within(path, MXRT_TUNE_SNAPSHOT, READ_BUSY_MS, &file, &reason);
    if (!status)
        status = mxrt_tune_best(file, &filter, reading->take, reading->user, &n_damaged, &reason);
    mxrt_tune_close(file);
    if ((status || n_damaged) && mxrt_tuned_is_news(device, place)) {
        if (status)
            mxrt_context_log(device->context, "no choices by measurement: %s", reason.message);
        else
            mxrt_context_log(device->context,
                             "%s: %" PRId64 " damaged rows passed over; mxrt cache "
                             "verify --repair removes them",
                             path, n_damaged);
    }
}

void mxrt_tuned_files(mxrt_device *device, const mxrt_tuned_reading *reading)
{
    /* A list with colons. */
    const char *list = getenv("MXRT_TUNE_SYSTEM");
    char *copy = list ? strdup(list) : NULL, *rest = copy;
    int place = 1;

    for (char *path; rest && (path = strsep(&rest, ":")); place++) {
        if (*path)
            read_file(device, reading, path, place);
    }
    free(copy);
    read_file(device, reading, device->context->tune_file, 0);
}

static void begin_file(void *user)
{
    reader *r = user;

    r->n_before = r->tuned->n;
    r->bucket_text[0] = 0;
}

/* Buckets together, then what was measured with more care, then by the time of a byte. */
static int compare_rows(const void *left, const void *right)
{
    const mxrt_tuned_row *a = left, *b = right;
    const int by_bucket[] = {a->bucket.blocks_log2 - b->bucket.blocks_log2,
                             a->bucket.row_log2 - b->bucket.row_log2,
                             a->bucket.align - b->bucket.align,
                             a->bucket.is_ragged - b->bucket.is_ragged,
                             a->bucket.n_dims - b->bucket.n_dims,
                             a->bucket.memory - b->bucket.memory,
                             a->protocol - b->protocol};
    double x = a->ms / (double)a->bytes, y = b->ms / (double)b->bytes;

    for (size_t i = 0; i < sizeof(by_bucket) / sizeof(by_bucket[0]); i++) {
        if (by_bucket[i])
            return by_bucket[i];
    }
    return x < y ? -1 : x > y;
}

void mxrt_tuned_free(mxrt_tuned *tuned)
{
    while (tuned) {
        mxrt_tuned *next = tuned->next;
        free(tuned->rows);
        free(tuned);
        tuned = next;
    }
}

void mxrt_tuned_read(mxrt_device *device, mxrt_kernel_table *table)
{
    reader r = {.table = table};
    const mxrt_table_key *key = &table->key;
    const mxrt_tuned_reading reading = {.filter = {.op = mx_op_name(key->op),
                                                   .format = mx_format_get(key->format)->name,
                                                   .dtype = mx_dtype_get(key->dtype)->name,
                                                   .profile = mx_profile_name(key->profile)},
                                        .begin = begin_file,
                                        .take = take,
                                        .user = &r};

    if (!device->context->tune_file[0] || !table->n_variants)
        return;
    r.tuned = calloc(1, sizeof(*r.tuned));
    if (!r.tuned) {
        mxrt_context_log(device->context, "no choices by measurement: no memory");
    } else {
        mxrt_tuned_files(device, &reading);
        if (r.tuned->n) {
            qsort(r.tuned->rows, r.tuned->n, sizeof(*r.tuned->rows), compare_rows);
            atomic_store(&table->tuned, r.tuned);
            r.tuned = NULL;
        }
    }
    mxrt_tuned_free(r.tuned);
}
