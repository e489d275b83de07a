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

/* Blocks, blocks of a row; alignment, ragged, dimensions, memory. */
const mxrt_bucket_form mxrt_bucket_blocks = {.letters = "nlardm", .n_near = 2};

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
    *out =
        (mxrt_bucket){.form = &mxrt_bucket_blocks,
                      .numbers = {mxrt_floor_log2(values[MXRT_VAR_N_BLOCKS]),
                                  mxrt_floor_log2(values[MXRT_VAR_BPR]), (int)align,
                                  values[MXRT_VAR_LEN] % mx_format_get(format)->block_elements != 0,
                                  (int)values[MXRT_VAR_N_DIMS], memory_of(op, format, values)}};
}

void mxrt_bucket_text(const mxrt_bucket *bucket, char *text, size_t text_bytes)
{
    const char *letters = bucket->form->letters;
    size_t used = 0;

    *text = 0;
    for (int i = 0; letters[i] && used < text_bytes; i++)
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%c%d", i ? " " : "", letters[i],
                                 bucket->numbers[i]);
}

static int bucket_parse(const mxrt_bucket_form *form, const char *text, mxrt_bucket *out)
{
    const char *at = text;
    char again[64];

    *out = (mxrt_bucket){.form = form};
    for (int i = 0; form->letters[i]; i++) {
        int length = 0;
        if (*at != form->letters[i] || sscanf(at + 1, "%9d %n", &out->numbers[i], &length) != 1)
            return 0;
        at += 1 + length;
    }
    mxrt_bucket_text(out, again, sizeof(again));
    return !strcmp(again, text);
}

int mxrt_bucket_distance(const mxrt_bucket *a, const mxrt_bucket *b)
{
    int distance = 0;

    for (int i = 0; i < MXRT_BUCKET_NUMBERS; i++) {
        int apart = abs(a->numbers[i] - b->numbers[i]);
        if (apart && i >= a->form->n_near)
            return -1;
        distance += apart;
    }
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

void mxrt_tuned_key_begin(const mxrt_device *device, const mxrt_bucket *bucket,
                          const mxrt_variant *variant, mxrt_tune_row *row)
{
    memset(row, 0, sizeof(*row));
    mxrt_bucket_text(bucket, row->bucket, sizeof(row->bucket));
    mxrt_tuned_device(device, row->device, sizeof(row->device));
    snprintf(row->driver, sizeof(row->driver), "%s", device->info.driver);
    row->protocol = mxrt_tuned_counts(device) ? MXTUNE_PROTOCOL_COUNTS : MXTUNE_PROTOCOL;
    snprintf(row->variant, sizeof(row->variant), "%s", variant->info.name);
    snprintf(row->layout, sizeof(row->layout), "%s", mx_layout_name(variant->layout));
}

void mxrt_tuned_key(const mxrt_device *device, const mxrt_problem *problem,
                    const mxrt_variant *variant, mxrt_tune_row *row)
{
    int64_t values[MXRT_VAR_COUNT];
    mxrt_bucket bucket;

    mxrt_problem_vars(problem, values);
    mxrt_bucket_of(problem->op, problem->format, values, &bucket);
    mxrt_tuned_key_begin(device, &bucket, variant, row);
    snprintf(row->op, sizeof(row->op), "%s", mx_op_name(problem->op));
    snprintf(row->format, sizeof(row->format), "%s", mx_format_get(problem->format)->name);
    snprintf(row->dtype, sizeof(row->dtype), "%s", mx_dtype_get(problem->dtype)->name);
    snprintf(row->profile, sizeof(row->profile), "%s", mx_profile_name(problem->profile));
    snprintf(row->code, sizeof(row->code), "%s", variant->code);
    row->bytes = mxrt_problem_bytes(problem);
}

/* ---- Reading ---- */

typedef struct reader {
    const mxrt_tuned_subject *subject;
    mxrt_tuned *tuned;
    size_t capacity;
    size_t n_before; /* rows of the files before */
    char bucket_text[64];
    mxrt_bucket bucket; /* of that text, as rows of one bucket follow each other */
    int n_taken;        /* of that bucket */
} reader;

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
        if (!bucket_parse(r->subject->form, row->bucket, &r->bucket)) {
            *enough = 1;
            return MX_OK;
        }
        snprintf(r->bucket_text, sizeof(r->bucket_text), "%s", row->bucket);
        r->n_taken = 0;
    }
    int variant = r->subject->find(r->subject->table, row->variant, row->code);
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
    double x = a->ms / (double)a->bytes, y = b->ms / (double)b->bytes;

    for (int i = 0; i < MXRT_BUCKET_NUMBERS; i++) {
        if (a->bucket.numbers[i] != b->bucket.numbers[i])
            return a->bucket.numbers[i] - b->bucket.numbers[i];
    }
    if (a->protocol != b->protocol)
        return a->protocol - b->protocol;
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

mxrt_tuned *mxrt_tuned_load(mxrt_device *device, const mxrt_tune_filter *filter,
                            const mxrt_tuned_subject *subject)
{
    reader r = {.subject = subject, .tuned = NULL};
    const mxrt_tuned_reading reading = {
        .filter = *filter, .begin = begin_file, .take = take, .user = &r};

    if (!device->context->tune_file[0])
        return NULL;
    if (!(r.tuned = calloc(1, sizeof(*r.tuned)))) {
        mxrt_context_log(device->context, "no choices by measurement: no memory");
        return NULL;
    }
    mxrt_tuned_files(device, &reading);
    if (!r.tuned->n) {
        mxrt_tuned_free(r.tuned);
        return NULL;
    }
    qsort(r.tuned->rows, r.tuned->n, sizeof(*r.tuned->rows), compare_rows);
    return r.tuned;
}

static int find_variant(const void *table, const char *name, const char *code)
{
    const mxrt_kernel_table *of = table;
    const mxrt_variant *variant = mxrt_kernel_table_find(of, name);

    if (!variant || !variant->code[0] || strcmp(variant->code, code) != 0)
        return -1;
    return (int)(variant - of->variants);
}

void mxrt_tuned_read(mxrt_device *device, mxrt_kernel_table *table)
{
    const mxrt_table_key *key = &table->key;
    const mxrt_tune_filter filter = {.op = mx_op_name(key->op),
                                     .format = mx_format_get(key->format)->name,
                                     .dtype = mx_dtype_get(key->dtype)->name,
                                     .profile = mx_profile_name(key->profile)};
    const mxrt_tuned_subject subject = {&mxrt_bucket_blocks, find_variant, table};

    if (table->n_variants)
        atomic_store(&table->tuned, mxrt_tuned_load(device, &filter, &subject));
}

/* ---- Choosing ---- */

/* The fastest measured in the bucket at this distance, the nearest of which come first. */
static int search_bucket(const mxrt_tuned *tuned, const mxrt_bucket *wanted, int distance,
                         int (*applies)(void *user, uint32_t variant), void *user,
                         mxrt_tuned_best *out)
{
    int n = 0;

    for (; tuned; tuned = tuned->next) {
        for (size_t i = 0; i < tuned->n; i++) {
            const mxrt_tuned_row *row = &tuned->rows[i];
            if (mxrt_bucket_distance(&row->bucket, wanted) != distance ||
                (n && (row->variant == out->variant ||
                       mxrt_bucket_distance(&row->bucket, &out->from))) ||
                !applies(user, row->variant))
                continue;
            if (n) {
                out->has_second = 1;
                out->second = row->variant;
                out->second_ms = row->ms;
                return 1;
            }
            n = 1;
            *out = (mxrt_tuned_best){.variant = row->variant, .ms = row->ms, .from = row->bucket};
        }
    }
    return n;
}

int mxrt_tuned_search(const mxrt_tuned *tuned, const mxrt_bucket *wanted,
                      int (*applies)(void *user, uint32_t variant), void *user,
                      mxrt_tuned_best *out)
{
    for (int distance = 0; tuned && distance <= MXRT_BUCKET_NEAREST; distance++) {
        if (search_bucket(tuned, wanted, distance, applies, user, out))
            return 1;
    }
    return 0;
}

void mxrt_choice_measured(const mxrt_tuned_best *found, const mxrt_bucket *wanted,
                          const char *runner_up, mxrt_choice *choice)
{
    choice->source =
        mxrt_bucket_distance(wanted, &found->from) ? MXRT_SOURCE_NEAREST : MXRT_SOURCE_EXACT;
    choice->measured_ms = found->ms;
    choice->runner_up = runner_up;
    choice->runner_up_ms = found->has_second ? found->second_ms : 0;
    mxrt_bucket_text(&found->from, choice->from_bucket, sizeof(choice->from_bucket));
}
