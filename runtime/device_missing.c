/* A device asked for a kernel that no pack has: it is compiled, or the message tells what there is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "runtime/compile.h"
#include "runtime/device.h"

/* What is asked for, of one family or the other, and where what came of it is kept. */
typedef struct subject {
    const mxrt_table_key *blocks;    /* or */
    const mxrt_gemm_table_key *gemm; /* not NULL */
    _Atomic(mxrt_compiled *) *at;
    char text[96]; /* "to mx9 f32 (packed)" */
} subject;

static subject subject_of_blocks(mxrt_device *device, const mxrt_table_key *key)
{
    subject made = {.blocks = key, .at = &device->compiled[mxrt_table_index(key)]};

    snprintf(made.text, sizeof(made.text), "%s %s %s (%s)", mx_op_name(key->op),
             mx_format_get(key->format)->name, mx_dtype_get(key->dtype)->name,
             mx_profile_name(key->profile));
    return made;
}

static subject subject_of_gemm(mxrt_device *device, const mxrt_gemm_table_key *key)
{
    subject made = {.gemm = key, .at = &device->gemm_compiled[mxrt_gemm_table_index(key)]};

    snprintf(made.text, sizeof(made.text), "%s %s.%s %s", mx_gemm_pass_name(key->pass),
             mx_gemm_element_name(key->left), mx_gemm_element_name(key->right),
             mx_dtype_get(key->dtype)->name);
    return made;
}

/* ---- Compiling ---- */

static mx_status replace_blocks(mxrt_device *device, const mxrt_table_key *key,
                                mxrt_compiled *result, mx_error *err)
{
    _Atomic(mxrt_kernel_table *) *at = &device->tables[mxrt_table_index(key)];
    mxrt_kernel_table *before = atomic_load(at), *table = NULL;
    mx_status status = mxrt_kernel_table_build(device, key, &table, err);

    if (!status && table->n_variants <= (before ? before->n_variants : 0)) {
        mxrt_kernel_table_destroy(table);
        return mx_fail(err, MX_ERR_UNSUPPORTED, "what was compiled is not for %s",
                       device->info.target);
    }
    if (status)
        return status;
    result->replaced = before;
    atomic_store_explicit(at, table, memory_order_release);
    return MX_OK;
}

static mx_status replace_gemm(mxrt_device *device, const mxrt_gemm_table_key *key,
                              mxrt_compiled *result, mx_error *err)
{
    _Atomic(mxrt_gemm_table *) *at = &device->gemm_tables[mxrt_gemm_table_index(key)];
    mxrt_gemm_table *before = atomic_load(at), *table = NULL;
    mx_status status = mxrt_gemm_table_build(device, key, &table, err);

    if (!status && table->n_routes <= (before ? before->n_routes : 0)) {
        mxrt_gemm_table_destroy(table);
        return mx_fail(err, MX_ERR_UNSUPPORTED, "what was compiled is not for %s",
                       device->info.target);
    }
    if (status)
        return status;
    result->replaced_gemm = before;
    atomic_store_explicit(at, table, memory_order_release);
    return MX_OK;
}

/* Takes the pack over. The table with its kernels replaces the one before, which plans may use. */
static mx_status publish(mxrt_device *device, const subject *what, mxrt_compiled *result,
                         mx_error *err)
{
    mxrt_pack **packs = realloc(device->packs, (device->n_packs + 1) * sizeof(device->packs[0]));
    if (!packs)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for another pack");
    device->packs = packs;
    /* The first in order is the last in preference: what somebody chose to add is better. */
    memmove(packs + 1, packs, device->n_packs++ * sizeof(packs[0]));
    packs[0] = result->pack;
    mx_status status = what->gemm ? replace_gemm(device, what->gemm, result, err)
                                  : replace_blocks(device, what->blocks, result, err);
    if (status)
        memmove(packs, packs + 1, --device->n_packs * sizeof(packs[0]));
    return status;
}

static mx_status run_compiler(mxrt_device *device, const subject *what, mxrt_pack **out,
                              mx_error *err)
{
    mxrt_compile_request request = {.target = device->info.target};
    mxrt_gemm_kind kind;

    if (what->gemm) {
        kind = (mxrt_gemm_kind){what->gemm->pass, what->gemm->left, what->gemm->right};
        request.gemm = &kind;
        request.dtype = what->gemm->dtype;
    } else {
        request.op = what->blocks->op;
        request.format = what->blocks->format;
        request.dtype = what->blocks->dtype;
        request.profile = what->blocks->profile;
    }
    return mxrt_compile(device->context, &request, out, err);
}

/* Under the compile lock. NULL without memory. */
static mxrt_compiled *compile(mxrt_device *device, const subject *what)
{
    mxrt_compiled *result = calloc(1, sizeof(*result));
    if (!result)
        return NULL;
    mx_error *failure = &result->failure;
    mx_status status = run_compiler(device, what, &result->pack, failure);
    if (!status) {
        pthread_mutex_lock(&device->lock);
        status = publish(device, what, result, failure);
        pthread_mutex_unlock(&device->lock);
    }
    failure->status = status;
    if (status)
        mxrt_context_log(device->context, "%s: %s is not compiled: %s", device->info.uri,
                         what->text, failure->message);
    return result;
}

static mx_status compile_once(mxrt_device *device, const subject *what, mxrt_stream stream,
                              mx_error *err)
{
    mxrt_compiled *result = atomic_load_explicit(what->at, memory_order_acquire);

    if (!result) {
        if (device->ops == &mxrt_backend_plan || device->context->compiler_off)
            return mx_fail(err, MX_ERR_UNSUPPORTED, "%s", "");
        if (device->ops->capturing && device->ops->capturing(device->backend, stream))
            return mx_fail(err, MX_ERR_UNSUPPORTED, "a graph is being captured: call %s before",
                           what->gemm ? "mxrt_gemm_plan_create" : "mxrt_prepare");
        pthread_mutex_lock(&device->compile_lock);
        result = atomic_load_explicit(what->at, memory_order_acquire);
        if (!result && (result = compile(device, what)))
            atomic_store_explicit(what->at, result, memory_order_release);
        pthread_mutex_unlock(&device->compile_lock);
    }
    if (!result)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory to compile");
    return result->failure.status ? mx_fail(err, MX_ERR_UNSUPPORTED, "%s", result->failure.message)
                                  : MX_OK;
}

mx_status mxrt_device_compile(mxrt_device *device, const mxrt_table_key *key, mxrt_stream stream,
                              mx_error *err)
{
    const subject what = subject_of_blocks(device, key);

    return compile_once(device, &what, stream, err);
}

mx_status mxrt_device_compile_gemm(mxrt_device *device, const mxrt_gemm_table_key *key,
                                   mxrt_stream stream, mx_error *err)
{
    const subject what = subject_of_gemm(device, key);

    return compile_once(device, &what, stream, err);
}

static void finish_compiled(_Atomic(mxrt_compiled *) *at, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        mxrt_compiled *result = atomic_load(&at[i]);
        if (!result)
            continue;
        mxrt_kernel_table_destroy(result->replaced);
        mxrt_gemm_table_destroy(result->replaced_gemm);
        mxrt_pack_close(result->pack);
        free(result);
    }
}

void mxrt_device_finish_compiled(mxrt_device *device)
{
    finish_compiled(device->compiled, MXRT_TABLE_COUNT);
    finish_compiled(device->gemm_compiled, MXRT_GEMM_TABLE_COUNT);
}

/* ---- What there is ---- */

typedef struct listing {
    char text[320];
    size_t used;
    size_t n_left_out;
} listing;

/* Adds a word that is not there yet; counts those that do not fit. */
static void list_word(listing *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list->text; (at = strstr(at, word)); at += length) {
        if ((at == list->text || at[-1] == ' ') && (at[length] == ',' || !at[length]))
            return;
    }
    if (list->used + length + 3 > sizeof(list->text)) {
        list->n_left_out++;
        return;
    }
    list->used += (size_t)sprintf(list->text + list->used, "%s%s", list->used ? ", " : "", word);
}

static void list_key(listing *list, const mxrt_variant_info *info, int is_gemm)
{
    char word[96];
    const char *profile = info->profile;

    if (is_gemm || !strcmp(profile, mx_profile_name(MX_PROFILE_PACKED)))
        profile = "";
    snprintf(word, sizeof(word), "%s %s %s%s%s", info->op, info->format, info->dtype,
             *profile ? " " : "", profile);
    list_word(list, word);
}

/* The targets in the packs; or, where they have this one, what they have for it. */
static void list_packs(const mxrt_device *device, int is_gemm, listing *targets, listing *keys)
{
    for (size_t p = 0; p < device->n_packs; p++) {
        for (size_t i = 0; i < mxrt_pack_variant_count(device->packs[p]); i++) {
            const mxrt_pack_key *key = mxrt_pack_key_of(device->packs[p], i);
            mxrt_variant_info info;
            if (key->family != (is_gemm ? MXRT_PACK_GEMM : MXRT_PACK_BLOCKS) ||
                (is_gemm && key->gemm.is_step) ||
                mxrt_pack_variant(device->packs[p], i, &info, NULL))
                continue;
            list_word(targets, info.target);
            if (!strcmp(info.target, device->info.target))
                list_key(keys, &info, is_gemm);
        }
    }
}

static mx_status fail_missing(mxrt_device *device, const char *what, int is_gemm,
                              const mx_error *reason, mx_error *err)
{
    listing targets = {.text = ""}, keys = {.text = ""};

    if (!err)
        return MX_ERR_UNSUPPORTED;
    pthread_mutex_lock(&device->lock);
    list_packs(device, is_gemm, &targets, &keys);
    pthread_mutex_unlock(&device->lock);
    const listing *list = keys.used ? &keys : &targets;
    return mx_fail(err, MX_ERR_UNSUPPORTED,
                   "no pack has a kernel for %s on %s, a %s; %s%s%s; add a pack made with "
                   "mxgen build --target %s%s%s%.390s",
                   what, device->info.uri, device->info.target,
                   keys.used      ? "for it the packs have "
                   : targets.used ? "the packs have kernels for "
                   : is_gemm      ? "no pack has any product"
                                  : "there are no packs",
                   list->text, list->n_left_out ? ", .." : "", device->info.target,
                   is_gemm ? " --op grouped_gemm" : "",
                   reason->message[0] ? "; not compiled: " : "", reason->message);
}

mx_status mxrt_device_fail_missing(mxrt_device *device, const mxrt_table_key *key,
                                   const mx_error *reason, mx_error *err)
{
    return fail_missing(device, subject_of_blocks(device, key).text, 0, reason, err);
}

mx_status mxrt_device_fail_missing_gemm(mxrt_device *device, const mxrt_gemm_table_key *key,
                                        mx_gemm_mode mode, const mx_error *reason, mx_error *err)
{
    char what[128];

    snprintf(what, sizeof(what), "%s (%s)", subject_of_gemm(device, key).text,
             mx_gemm_mode_name(mode));
    return fail_missing(device, what, 1, reason, err);
}
