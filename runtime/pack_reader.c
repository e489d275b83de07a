#include "pack_reader.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include <mxgen/error.h>
#include <mxgen/pack_checksum.h>

#include "pack_forms.h"
#include "pack_kernels.h"
#include "pack_rows.h"
#include "pack_source.h"
#include "pack_text.h"

#define CHECKSUM_BYTES (MXPACK_CHECKSUM_CHARS - 1)

typedef struct pack_meta {
    const char *key, *value;
} pack_meta;

typedef struct pack_object {
    int64_t id, raw_bytes;
    const char *target, *kind;
    char xxh3[MXPACK_CHECKSUM_CHARS];
} pack_object;

typedef struct pack_variant {
    mxrt_variant_info info;
    mxrt_pack_key key;
    mxrt_pack_launch launch;
} pack_variant;

struct mxrt_pack {
    mxrt_pack_source source;
    pthread_mutex_t lock; /* of source.db; everything else is only read once the pack is open */
    mxrt_pack_forms *forms;
    pack_meta *metas;
    size_t n_metas;
    pack_object *objects; /* by id */
    size_t n_objects;
    pack_variant *variants; /* by id */
    size_t n_variants;
    mxrt_pack_kernels kernels;
};

/* ---- Tables ---- */

typedef mx_status (*read_row_fn)(mxrt_pack_row *row, mxpack_checksum *checksum);

/* Rows come in the order of the table's b-tree and must ascend in it, which each reader checks: a
 * damaged tree could show a row many times. */
static mx_status read_table(mxrt_pack *pack, const char *table, const char *sql,
                            read_row_fn read_row, mxpack_checksum *checksum, mx_error *err)
{
    mxrt_pack_row row = {.pack = pack,
                         .label = pack->source.label,
                         .forms = pack->forms,
                         .table = table,
                         .err = err};
    mx_status status = MX_OK;
    int code;
    if (sqlite3_prepare_v2(pack->source.db, sql, -1, &row.stmt, NULL))
        return mxrt_pack_source_fail(&pack->source, err);
    while (!status && (code = sqlite3_step(row.stmt)) != SQLITE_DONE) {
        if (code == SQLITE_ROW)
            status = read_row(&row, checksum);
        else
            status = mxrt_pack_source_fail(&pack->source, err);
    }
    sqlite3_finalize(row.stmt);
    return status;
}

static mx_status read_meta(mxrt_pack_row *row, mxpack_checksum *checksum)
{
    mxrt_pack *pack = row->pack;
    mxrt_pack_text *value;
    const char *key = NULL;
    row->id++;
    mx_status status = mxrt_row_name(row, 0, &key);
    if (status || (status = mxrt_row_text(row, 1, MXRT_PACK_MAX_JSON_BYTES, &value)))
        return status;
    if (pack->n_metas && strcmp(pack->metas[pack->n_metas - 1].key, key) >= 0)
        return mxrt_row_fail(row, "keys are out of order");
    pack_meta *metas = mxrt_row_grow(pack->metas, pack->n_metas, sizeof(metas[0]));
    if (!metas)
        return mx_fail(row->err, MX_ERR_NO_MEMORY, "no memory to read %s", pack->source.label);
    pack->metas = metas;
    metas[pack->n_metas++] = (pack_meta){.key = key, .value = mxrt_pack_text_chars(value)};
    if (strcmp(key, MXPACK_META_CHECKSUM) != 0) {
        mxpack_checksum_text(checksum, key);
        mxpack_checksum_text(checksum, mxrt_pack_text_chars(value));
    }
    return MX_OK;
}

static int is_known_kind(const char *kind)
{
    static const char *const kinds[] = {MXPACK_KIND_AMDGPU, MXPACK_KIND_HOST, MXPACK_KIND_PTX,
                                        MXPACK_KIND_CUBIN};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (!strcmp(kind, kinds[i]))
            return 1;
    }
    return 0;
}

static mx_status read_object(mxrt_pack_row *row, mxpack_checksum *checksum)
{
    mxrt_pack *pack = row->pack;
    pack_object object = {0};
    const char *xxh3 = NULL;
    int64_t last = pack->n_objects ? pack->objects[pack->n_objects - 1].id : 0;
    mx_status status = mxrt_row_integer(row, 0, last + 1, INT64_MAX - 1, &row->id);
    if (status || (status = mxrt_row_name(row, 1, &object.target)) ||
        (status = mxrt_row_name(row, 2, &object.kind)) ||
        (status = mxrt_row_integer(row, 3, 1, MXPACK_MAX_OBJECT_BYTES, &object.raw_bytes)) ||
        (status = mxrt_row_name(row, 4, &xxh3)))
        return status;
    if (!is_known_kind(object.kind))
        return mxrt_row_fail(row, "unknown kind \"%s\"", mxrt_show_text(object.kind).chars);
    if (strlen(xxh3) != CHECKSUM_BYTES)
        return mxrt_row_fail(row, "xxh3 has not %d digits", CHECKSUM_BYTES);
    if (strcmp((const char *)sqlite3_column_text(row->stmt, 5), "blob") != 0)
        return mxrt_row_fail(row, "data is not a blob");
    object.id = row->id;
    memcpy(object.xxh3, xxh3, sizeof(object.xxh3));
    pack_object *objects = mxrt_row_grow(pack->objects, pack->n_objects, sizeof(objects[0]));
    if (!objects)
        return mx_fail(row->err, MX_ERR_NO_MEMORY, "no memory to read %s", pack->source.label);
    pack->objects = objects;
    objects[pack->n_objects++] = object;
    mxpack_checksum_integer(checksum, object.id);
    mxpack_checksum_text(checksum, object.target);
    mxpack_checksum_text(checksum, object.kind);
    mxpack_checksum_integer(checksum, object.raw_bytes);
    mxpack_checksum_text(checksum, xxh3);
    return MX_OK;
}

static const pack_object *find_object(const mxrt_pack *pack, int64_t id)
{
    size_t low = 0, high = pack->n_objects;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pack->objects[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < pack->n_objects && pack->objects[low].id == id ? &pack->objects[low] : NULL;
}

/* ---- Variants ---- */

/* Columns of the statement that reads variants, in schema order. */
enum {
    VARIANT_ID,
    VARIANT_OBJECT,
    VARIANT_TARGET,
    VARIANT_OP,
    VARIANT_FORMAT,
    VARIANT_DTYPE,
    VARIANT_PROFILE,
    VARIANT_LAYOUT,
    VARIANT_NAME,
    VARIANT_SYMBOL,
    VARIANT_RANK,
    VARIANT_PARAMS,
    VARIANT_RULES,
    VARIANT_LAUNCH,
    VARIANT_INFO,
    VARIANT_CHECKSUM
};

/* The JSON columns of a row, in schema order. */
typedef struct variant_texts {
    mxrt_pack_text *params, *rules, *launch, *info;
} variant_texts;

static mx_status read_variant_columns(mxrt_pack_row *row, mxrt_variant_info *info,
                                      variant_texts *texts)
{
    const char **names[] = {&info->target,  &info->op,     &info->format, &info->dtype,
                            &info->profile, &info->layout, &info->name,   &info->symbol};
    mxrt_pack_text **jsons[] = {&texts->params, &texts->rules, &texts->launch, &texts->info};
    const char **chars[] = {&info->params_json, &info->rules_json, &info->launch_json,
                            &info->info_json};
    int64_t last = row->id;
    mx_status status = mxrt_row_integer(row, VARIANT_ID, last + 1, INT64_MAX - 1, &row->id);
    if (!status)
        status = mxrt_row_integer(row, VARIANT_OBJECT, 1, INT64_MAX, &info->object_id);
    if (!status)
        status = mxrt_row_integer(row, VARIANT_RANK, 0, INT32_MAX, &info->rank);
    for (int i = 0; !status && i < 8; i++)
        status = mxrt_row_name(row, VARIANT_TARGET + i, names[i]);
    for (int i = 0; !status && i < 4; i++) {
        status = mxrt_row_text(row, VARIANT_PARAMS + i, MXRT_PACK_MAX_JSON_BYTES, jsons[i]);
        if (!status)
            *chars[i] = mxrt_pack_text_chars(*jsons[i]);
    }
    return status;
}

static mx_status check_variant_checksum(mxrt_pack_row *row, const mxrt_variant_info *info,
                                        mxpack_checksum *checksum)
{
    char computed[MXPACK_CHECKSUM_CHARS];
    const char *stored = NULL;
    mx_status status = mxrt_row_name(row, VARIANT_CHECKSUM, &stored);
    if (status)
        return status;
    const mxpack_variant_row summed = {
        .id = row->id,
        .object = info->object_id,
        .target = info->target,
        .op = info->op,
        .format = info->format,
        .dtype = info->dtype,
        .profile = info->profile,
        .layout = info->layout,
        .name = info->name,
        .symbol = info->symbol,
        .rank = info->rank,
        .params = info->params_json,
        .rules = info->rules_json,
        .launch = info->launch_json,
        .info = info->info_json,
    };
    mxpack_checksum_variant(&summed, computed);
    if (strcmp(stored, computed) != 0)
        return mxrt_row_fail(row, "its checksum does not match");
    mxpack_checksum_integer(checksum, row->id);
    mxpack_checksum_text(checksum, stored);
    return MX_OK;
}

/* 0, or -1 for what this reader does not know: rows of later versions, which are passed over. */
static int parse_gemm_key(const mxrt_variant_info *info, mxrt_pack_key *key)
{
    mxrt_pack_gemm_key *gemm = &key->gemm;
    key->family = MXRT_PACK_GEMM;
    gemm->is_step = !strcmp(info->op, "gemm_step");
    if ((!gemm->is_step && mx_gemm_pass_parse(info->op, &gemm->pass)) ||
        mx_gemm_format_parse(info->format, &gemm->left, &gemm->right))
        return -1;
    return mx_gemm_mode_parse(info->profile, &gemm->mode);
}

static int parse_key(const mxrt_variant_info *info, mxrt_pack_key *key)
{
    if (mx_dtype_parse(info->dtype, &key->dtype) || mx_layout_parse(info->layout, &key->layout))
        return -1;
    if (mx_op_parse(info->op, &key->op))
        return parse_gemm_key(info, key);
    if (mx_format_parse(info->format, &key->format))
        return -1;
    return mx_profile_parse(info->profile, &key->profile);
}

static unsigned allowed_buffers(const mxrt_pack_key *key)
{
    static const unsigned op_buffers[MX_OP_COUNT] = {
        [MX_OP_TO] = 1u << MXRT_PACK_BUFFER_X | 1u << MXRT_PACK_BUFFER_P,
        [MX_OP_FROM] = 1u << MXRT_PACK_BUFFER_P | 1u << MXRT_PACK_BUFFER_Y,
        [MX_OP_QDQ] = 1u << MXRT_PACK_BUFFER_X | 1u << MXRT_PACK_BUFFER_Y,
    };
    if (key->family == MXRT_PACK_GEMM)
        return (1u << MXRT_GEMM_BUFFER_COUNT) - 1;
    unsigned allowed = op_buffers[key->op];
    if (mx_format_is_ocp(key->format) && key->op != MX_OP_QDQ)
        allowed |= 1u << MXRT_PACK_BUFFER_S;
    if (key->layout == MX_LAYOUT_PAIR)
        allowed |= 1u << MXRT_PACK_BUFFER_C | 1u << MXRT_PACK_BUFFER_T | 1u << MXRT_PACK_BUFFER_G |
                   1u << MXRT_PACK_BUFFER_O;
    return allowed;
}

static mx_status parse_forms(const mxrt_pack_row *row, const variant_texts *texts,
                             pack_variant *variant)
{
    mxrt_pack_launch *launch = &variant->launch;
    mxrt_pack_forms *forms = row->pack->forms;
    unsigned buffers = 0;
    mx_error why;
    launch->family = variant->key.family;
    if (mxrt_pack_forms_params(texts->params, &why) ||
        mxrt_pack_forms_rules(forms, texts->rules, launch, &why) ||
        mxrt_pack_forms_launch(forms, texts->launch, launch, &buffers, &why) ||
        mxrt_pack_forms_info(texts->info, &why))
        return mxrt_row_fail_with(row, &why);
    if (buffers & ~allowed_buffers(&variant->key))
        return mxrt_row_fail(row, "launch: an argument names a buffer that \"%s\" has not",
                             variant->info.op);
    if (variant->key.gemm.is_step && (launch->n_before || launch->n_after))
        return mxrt_row_fail(row, "launch: a step has steps");
    return MX_OK;
}

static mx_status read_variant(mxrt_pack_row *row, mxpack_checksum *checksum)
{
    mxrt_pack *pack = row->pack;
    pack_variant variant = {0};
    variant_texts texts = {0};
    mx_status status = read_variant_columns(row, &variant.info, &texts);
    if (status || (status = check_variant_checksum(row, &variant.info, checksum)) ||
        parse_key(&variant.info, &variant.key) || (status = parse_forms(row, &texts, &variant)))
        return status;
    const pack_object *object = find_object(pack, variant.info.object_id);
    if (!object)
        return mxrt_row_fail(row, "it needs object %lld, which is missing",
                             (long long)variant.info.object_id);
    if (object->target != variant.info.target)
        return mxrt_row_fail(row, "it is for target \"%s\", its object for \"%s\"",
                             mxrt_show_text(variant.info.target).chars,
                             mxrt_show_text(object->target).chars);
    variant.info.object_kind = object->kind;
    variant.info.object_bytes = object->raw_bytes;
    pack_variant *variants = mxrt_row_grow(pack->variants, pack->n_variants, sizeof(variants[0]));
    if (!variants)
        return mx_fail(row->err, MX_ERR_NO_MEMORY, "no memory to read %s", pack->source.label);
    pack->variants = variants;
    variants[pack->n_variants++] = variant;
    return MX_OK;
}

static mx_status read_kernel(mxrt_pack_row *row, mxpack_checksum *checksum)
{
    mxrt_pack *pack = row->pack;
    mxrt_pack_kernel kernel = {0};
    mx_status status = mxrt_pack_kernel_read(row, &kernel, checksum);
    const pack_object *object = status ? NULL : find_object(pack, kernel.object_id);
    if (!status && !object)
        status = mxrt_row_fail(row, "it needs object %lld, which is missing",
                               (long long)kernel.object_id);
    else if (!status && object->target != kernel.target)
        status = mxrt_row_fail(row, "it is for target \"%s\", its object for \"%s\"",
                               mxrt_show_text(kernel.target).chars,
                               mxrt_show_text(object->target).chars);
    if (!status) {
        kernel.object_kind = object->kind;
        kernel.object_bytes = object->raw_bytes;
        status = mxrt_pack_kernels_add(&pack->kernels, &kernel, row);
    }
    if (status)
        mxrt_pack_kernel_finish(&kernel);
    return status;
}

/* Texts are interned, so equal names are one pointer. */
static int compare_names(const void *a, const void *b)
{
    const mxrt_variant_info *const *x = a, *const *y = b;
    uintptr_t xs[] = {(uintptr_t)(*x)->target, (uintptr_t)(*x)->name};
    uintptr_t ys[] = {(uintptr_t)(*y)->target, (uintptr_t)(*y)->name};
    for (int i = 0; i < 2; i++) {
        if (xs[i] != ys[i])
            return xs[i] < ys[i] ? -1 : 1;
    }
    return 0;
}

static mx_status check_unique_names(const mxrt_pack *pack, mx_error *err)
{
    const mxrt_variant_info **sorted = calloc(pack->n_variants + 1, sizeof(sorted[0]));
    mx_status status = MX_OK;
    if (!sorted)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory to read %s", pack->source.label);
    for (size_t i = 0; i < pack->n_variants; i++)
        sorted[i] = &pack->variants[i].info;
    qsort(sorted, pack->n_variants, sizeof(sorted[0]), compare_names);
    for (size_t i = 1; !status && i < pack->n_variants; i++) {
        if (compare_names(&sorted[i - 1], &sorted[i]) == 0)
            status = mx_fail(err, MX_ERR_CORRUPT,
                             "%s is damaged: two variants of target \"%s\" are named \"%s\"",
                             pack->source.label, mxrt_show_text(sorted[i]->target).chars,
                             mxrt_show_text(sorted[i]->name).chars);
    }
    free(sorted);
    return status;
}

/* ---- The pack ---- */

static mx_status check_meta(const mxrt_pack *pack, const mxpack_checksum *checksum, mx_error *err)
{
    static const char *const keys[] = {MXPACK_META_GENERATOR, MXPACK_META_GENERATOR_HASH,
                                       MXPACK_META_COMPILER, MXPACK_META_CHECKSUM};
    char computed[MXPACK_CHECKSUM_CHARS];
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (!mxrt_pack_meta(pack, keys[i]))
            return mx_fail(err, MX_ERR_CORRUPT,
                           "%s is damaged: it lacks the meta key \"%s\"; build it again",
                           pack->source.label, keys[i]);
    }
    mxpack_checksum_finish(checksum, computed);
    if (strcmp(mxrt_pack_meta(pack, MXPACK_META_CHECKSUM), computed) != 0)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "%s is damaged: the checksum of its rows does not match; build it again",
                       pack->source.label);
    return MX_OK;
}

/* The kernels of operations that are not ours. */
static mx_status read_kernels(mxrt_pack *pack, mx_error *err)
{
    mxpack_checksum checksum;
    char computed[MXPACK_CHECKSUM_CHARS];
    mx_status status = mxrt_pack_source_check_kernels(&pack->source, err);
    mxpack_checksum_init(&checksum);
    if (!status)
        status = read_table(pack, "kernel",
                            "SELECT id, object, target, kernel, name, symbol, rank, params, rules,"
                            " launch, info FROM kernel NOT INDEXED ORDER BY id",
                            read_kernel, &checksum, err);
    mxpack_checksum_finish(&checksum, computed);
    if (!status && strcmp(mxrt_pack_meta(pack, MXPACK_META_KERNEL_CHECKSUM), computed) != 0)
        status = mx_fail(err, MX_ERR_CORRUPT,
                         "%s is damaged: the checksum of its kernels does not match; build it "
                         "again",
                         pack->source.label);
    return status;
}

/* NOT INDEXED: the index is a second copy, which may differ from the rows in a damaged file.
 * typeof(), unlike the data itself, is in the row's first page. */
static mx_status read_all(mxrt_pack *pack, mx_error *err)
{
    mxpack_checksum checksum;
    mxpack_checksum_init(&checksum);
    mx_status status = read_table(pack, "meta", "SELECT key, value FROM meta ORDER BY key",
                                  read_meta, &checksum, err);
    if (!status)
        status = read_table(pack, "object",
                            "SELECT id, target, kind, raw_bytes, xxh3, typeof(data)"
                            " FROM object NOT INDEXED ORDER BY id",
                            read_object, &checksum, err);
    if (!status)
        status = read_table(pack, "variant",
                            "SELECT id, object, target, op, format, dtype, profile, layout, name,"
                            " symbol, rank, params, rules, launch, info, checksum"
                            " FROM variant NOT INDEXED ORDER BY id",
                            read_variant, &checksum, err);
    if (!status)
        status = check_meta(pack, &checksum, err);
    if (!status && mxrt_pack_meta(pack, MXPACK_META_KERNEL_CHECKSUM))
        status = read_kernels(pack, err);
    if (!status)
        status = check_unique_names(pack, err);
    return status;
}

/* Takes the source, even when it fails. */
static mx_status open_source(mxrt_pack_source *source, mxrt_pack **out, mx_error *err)
{
    mxrt_pack *pack = calloc(1, sizeof(*pack));
    if (!pack) {
        mxrt_pack_source_finish(source);
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory to open a kernel pack");
    }
    pthread_mutex_init(&pack->lock, NULL);
    pack->source = *source;
    mx_status status = mxrt_pack_forms_create(&pack->forms, err);
    if (!status)
        status = read_all(pack, err);
    if (status)
        mxrt_pack_close(pack);
    else
        *out = pack;
    return status;
}

mx_status mxrt_pack_open(const char *path, mxrt_pack **out, mx_error *err)
{
    mxrt_pack_source source;
    if (!path || !out)
        return mx_fail(err, MX_ERR_INVALID, "mxrt_pack_open: a NULL argument");
    mx_status status = mxrt_pack_source_open_file(path, &source, err);
    return status ? status : open_source(&source, out, err);
}

mx_status mxrt_pack_open_memory(const void *data, size_t size_bytes, mxrt_pack **out, mx_error *err)
{
    mxrt_pack_source source;
    if (!data || !out)
        return mx_fail(err, MX_ERR_INVALID, "mxrt_pack_open_memory: a NULL argument");
    mx_status status = mxrt_pack_source_open_memory(data, size_bytes, &source, err);
    return status ? status : open_source(&source, out, err);
}

void mxrt_pack_close(mxrt_pack *pack)
{
    if (!pack)
        return;
    mxrt_pack_source_finish(&pack->source);
    mxrt_pack_kernels_finish(&pack->kernels);
    mxrt_pack_forms_destroy(pack->forms);
    free(pack->metas);
    free(pack->objects);
    free(pack->variants);
    pthread_mutex_destroy(&pack->lock);
    free(pack);
}

const char *mxrt_pack_meta(const mxrt_pack *pack, const char *key)
{
    for (size_t i = 0; i < pack->n_metas; i++) {
        if (!strcmp(pack->metas[i].key, key))
            return pack->metas[i].value;
    }
    return NULL;
}

size_t mxrt_pack_variant_count(const mxrt_pack *pack)
{
    return pack->n_variants;
}

mx_status mxrt_pack_variant(const mxrt_pack *pack, size_t index, mxrt_variant_info *out,
                            mx_error *err)
{
    if (index >= pack->n_variants)
        return mx_fail(err, MX_ERR_INVALID, "%s has %zu variants, and number %zu was asked for",
                       pack->source.label, pack->n_variants, index);
    *out = pack->variants[index].info;
    return MX_OK;
}

const mxrt_pack_launch *mxrt_pack_launch_of(const mxrt_pack *pack, size_t index)
{
    return index < pack->n_variants ? &pack->variants[index].launch : NULL;
}

const mxrt_pack_key *mxrt_pack_key_of(const mxrt_pack *pack, size_t index)
{
    return index < pack->n_variants ? &pack->variants[index].key : NULL;
}

const mxrt_pack_kernels *mxrt_pack_kernels_of(const mxrt_pack *pack)
{
    return &pack->kernels;
}

size_t mxrt_pack_kernel_count(const mxrt_pack *pack)
{
    return pack->kernels.n;
}

mx_status mxrt_pack_kernel_at(const mxrt_pack *pack, size_t index, mxrt_pack_kernel_info *out,
                              mx_error *err)
{
    if (index >= pack->kernels.n)
        return mx_fail(err, MX_ERR_INVALID, "%s has %zu kernels, and number %zu was asked for",
                       pack->source.label, pack->kernels.n, index);
    const mxrt_pack_kernel *kernel = &pack->kernels.items[index];
    *out = (mxrt_pack_kernel_info){
        .target = kernel->target,
        .kernel = kernel->kernel,
        .name = kernel->name,
        .symbol = kernel->symbol,
        .params_json = kernel->params_json,
        .rules_json = kernel->rules_json,
        .launch_json = kernel->launch_json,
        .info_json = kernel->info_json,
        .object_kind = kernel->object_kind,
        .rank = kernel->rank,
        .object_id = kernel->object_id,
        .object_bytes = kernel->object_bytes,
    };
    return MX_OK;
}

/* ---- Objects ---- */

/* The raw bytes and a zero after them, so that text is a string. */
static mx_status inflate(const mxrt_pack *pack, const pack_object *object, const void *stored,
                         size_t stored_bytes, void **data, mx_error *err)
{
    char computed[MXPACK_CHECKSUM_CHARS] = "";
    size_t raw_bytes = (size_t)object->raw_bytes;
    if (ZSTD_findFrameCompressedSize(stored, stored_bytes) != stored_bytes ||
        ZSTD_getFrameContentSize(stored, stored_bytes) != raw_bytes)
        return mx_fail(err, MX_ERR_CORRUPT,
                       "%s is damaged: object %lld is not %zu bytes of zstd data; build it again",
                       pack->source.label, (long long)object->id, raw_bytes);
    char *raw = malloc(raw_bytes + 1);
    if (!raw)
        return mx_fail(err, MX_ERR_NO_MEMORY, "%s: no memory for %zu bytes of object %lld",
                       pack->source.label, raw_bytes, (long long)object->id);
    size_t n = ZSTD_decompress(raw, raw_bytes, stored, stored_bytes);
    if (n == raw_bytes)
        mxpack_checksum_bytes(raw, raw_bytes, computed);
    if (n != raw_bytes || strcmp(computed, object->xxh3) != 0) {
        free(raw);
        return mx_fail(err, MX_ERR_CORRUPT,
                       "%s is damaged: the checksum of object %lld does not match; build it again",
                       pack->source.label, (long long)object->id);
    }
    raw[raw_bytes] = '\0';
    *data = raw;
    return MX_OK;
}

static mx_status read_data(const mxrt_pack *pack, const pack_object *object, void **data,
                           mx_error *err)
{
    sqlite3_stmt *stmt = NULL;
    mx_status status;
    if (sqlite3_prepare_v2(pack->source.db, "SELECT data FROM object WHERE id=?", -1, &stmt,
                           NULL) ||
        sqlite3_bind_int64(stmt, 1, object->id)) {
        status = mxrt_pack_source_fail(&pack->source, err);
        goto out;
    }
    int code = sqlite3_step(stmt);
    if (code == SQLITE_ROW && sqlite3_column_type(stmt, 0) == SQLITE_BLOB) {
        /* NULL is an empty blob, or no memory, which the size then tells. */
        const void *stored = sqlite3_column_blob(stmt, 0);
        size_t stored_bytes = (size_t)sqlite3_column_bytes(stmt, 0);
        if (stored || sqlite3_errcode(pack->source.db) != SQLITE_NOMEM)
            status = inflate(pack, object, stored, stored_bytes, data, err);
        else
            status = mxrt_pack_source_fail(&pack->source, err);
    } else if (code == SQLITE_ROW || code == SQLITE_DONE) {
        status = mx_fail(err, MX_ERR_CORRUPT, "%s is damaged: object %lld has no data",
                         pack->source.label, (long long)object->id);
    } else {
        status = mxrt_pack_source_fail(&pack->source, err);
    }
out:
    sqlite3_finalize(stmt);
    return status;
}

mx_status mxrt_pack_object(const mxrt_pack *pack, int64_t object_id, void **data,
                           size_t *size_bytes, mx_error *err)
{
    const pack_object *object = find_object(pack, object_id);
    if (!object)
        return mx_fail(err, MX_ERR_NOT_FOUND, "%s has no object %lld", pack->source.label,
                       (long long)object_id);
    /* The lock is not part of what a const pack promises. */
    pthread_mutex_t *lock = (pthread_mutex_t *)&pack->lock;
    pthread_mutex_lock(lock);
    mx_status status = read_data(pack, object, data, err);
    pthread_mutex_unlock(lock);
    if (!status)
        *size_bytes = (size_t)object->raw_bytes;
    return status;
}
