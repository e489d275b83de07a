#include "runtime/tuned.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mxgen/error.h>
#include <mxgen/tune.h>

#include "runtime/context.h"
#include "runtime/device.h"

enum { ALIGN_MOST = 16, MEMORY_AXIS_STRIDED = 1, MEMORY_PACKED_GAPS = 2 };

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
        .is_ragged = values[MXRT_VAR_LEN] % MX_BLOCK_ELEMENTS != 0,
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

void mxrt_tuned_device(const mxrt_device_info *info, char *text, size_t text_bytes)
{
    snprintf(text, text_bytes, "%.160s/%d", info->chip[0] ? info->chip : info->target,
             info->compute_units);
}

void mxrt_tuned_code(const mxrt_variant *variant, char *text, size_t text_bytes)
{
    json_t *info = json_loads(variant->info.info_json, 0, NULL);
    const char *code = json_string_value(json_object_get(info, "code"));

    snprintf(text, text_bytes, "%s", code ? code : "");
    json_decref(info);
}

/* ---- Reading ---- */

typedef struct reader {
    mxrt_kernel_table *table;
    char (*codes)[20]; /* one a variant */
    struct mxrt_tuned *tuned;
    size_t capacity;
    int from_user;
} reader;

static int find_variant(const reader *r, const mxrt_tune_row *row)
{
    for (size_t i = 0; i < r->table->n_variants; i++) {
        if (!strcmp(r->table->variants[i].info.name, row->variant))
            return r->codes[i][0] && !strcmp(r->codes[i], row->code) ? (int)i : -1;
    }
    return -1;
}

static mx_status take(void *user, const mxrt_tune_row *row, mx_error *err)
{
    reader *r = user;
    mxrt_tuned_row made;
    int variant = find_variant(r, row);

    /* A variant that failed when it was measured has no samples. */
    if (variant < 0 || row->samples <= 0 || !(row->ms > 0) || row->bytes <= 0 ||
        !bucket_parse(row->bucket, &made.bucket))
        return MX_OK;
    made.variant = (uint32_t)variant;
    made.ms = row->ms;
    made.bytes = row->bytes;
    for (size_t i = 0; i < r->tuned->n; i++) {
        mxrt_tuned_row *there = &r->tuned->rows[i];
        if (there->variant == made.variant && !mxrt_bucket_distance(&there->bucket, &made.bucket)) {
            *there = made; /* the user's file comes last */
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
    r->tuned->rows[r->tuned->n++] = made;
    return MX_OK;
}

static void read_file(mxrt_device *device, reader *r, const char *path)
{
    char chip[MXTUNE_TEXT_BYTES];
    const mxrt_table_key *key = &r->table->key;
    mxrt_tune_filter filter = {.op = mx_op_name(key->op),
                               .format = mx_format_get(key->format)->name,
                               .dtype = mx_dtype_get(key->dtype)->name,
                               .profile = mx_profile_name(key->profile),
                               .device = chip,
                               .driver = device->info.driver,
                               .protocol = MXTUNE_PROTOCOL};
    mxrt_tune_file *file = NULL;
    int64_t n_damaged = 0;
    mx_error reason = {MX_OK, ""};

    /* That there is none yet is nothing to tell. */
    if (access(path, F_OK))
        return;
    mxrt_tuned_device(&device->info, chip, sizeof(chip));
    mx_status status = mxrt_tune_open(path, 0, &file, &reason);
    if (!status)
        status = mxrt_tune_each(file, &filter, take, r, &n_damaged, &reason);
    mxrt_tune_close(file);
    if (status)
        mxrt_context_log(device->context, "no choices by measurement: %s", reason.message);
    else if (n_damaged)
        mxrt_context_log(device->context,
                         "%s: %" PRId64 " damaged rows passed over; mxrt cache "
                         "verify --repair removes them",
                         path, n_damaged);
}

/* A list with colons. */
static void read_system_files(mxrt_device *device, reader *r)
{
    const char *list = getenv("MXRT_TUNE_SYSTEM");
    char *copy = list ? strdup(list) : NULL, *rest = copy;

    for (char *path; rest && (path = strsep(&rest, ":"));) {
        if (*path)
            read_file(device, r, path);
    }
    free(copy);
}

/* Buckets together, then by the time of a byte. */
static int compare_rows(const void *left, const void *right)
{
    const mxrt_tuned_row *a = left, *b = right;
    const int by_bucket[] = {a->bucket.blocks_log2 - b->bucket.blocks_log2,
                             a->bucket.row_log2 - b->bucket.row_log2,
                             a->bucket.align - b->bucket.align,
                             a->bucket.is_ragged - b->bucket.is_ragged,
                             a->bucket.n_dims - b->bucket.n_dims,
                             a->bucket.memory - b->bucket.memory};
    double x = a->ms / (double)a->bytes, y = b->ms / (double)b->bytes;

    for (size_t i = 0; i < sizeof(by_bucket) / sizeof(by_bucket[0]); i++) {
        if (by_bucket[i])
            return by_bucket[i];
    }
    return x < y ? -1 : x > y;
}

void mxrt_tuned_read(mxrt_device *device, mxrt_kernel_table *table)
{
    reader r = {.table = table};

    if (!device->context->tune_file[0] || !table->n_variants)
        return;
    r.tuned = calloc(1, sizeof(*r.tuned));
    r.codes = calloc(table->n_variants, sizeof(*r.codes));
    if (r.tuned && r.codes) {
        for (size_t i = 0; i < table->n_variants; i++)
            mxrt_tuned_code(&table->variants[i], r.codes[i], sizeof(r.codes[i]));
        read_system_files(device, &r);
        read_file(device, &r, device->context->tune_file);
        if (r.tuned->n)
            qsort(r.tuned->rows, r.tuned->n, sizeof(*r.tuned->rows), compare_rows);
        table->tuned = r.tuned;
        r.tuned = NULL;
    } else {
        mxrt_context_log(device->context, "no choices by measurement: no memory");
    }
    free(r.tuned);
    free(r.codes);
}
