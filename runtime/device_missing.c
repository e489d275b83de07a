/* A device asked for a kernel that no pack has: it is compiled, or the message tells what there is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "runtime/compile.h"
#include "runtime/device.h"

/* ---- Compiling ---- */

/* Takes the pack over. The table with its kernels replaces the one before, which plans may use. */
static mx_status publish(mxrt_device *device, const mxrt_table_key *key, mxrt_compiled *result,
                         mx_error *err)
{
    _Atomic(mxrt_kernel_table *) *at = &device->tables[mxrt_table_index(key)];
    mxrt_kernel_table *before = atomic_load(at), *table = NULL;
    mxrt_pack **packs = realloc(device->packs, (device->n_packs + 1) * sizeof(device->packs[0]));
    if (!packs)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for another pack");
    device->packs = packs;
    /* The first in order is the last in preference: what somebody chose to add is better. */
    memmove(packs + 1, packs, device->n_packs++ * sizeof(packs[0]));
    packs[0] = result->pack;
    mx_status status = mxrt_kernel_table_build(device, key, &table, err);
    if (!status && table->n_variants <= (before ? before->n_variants : 0)) {
        mxrt_kernel_table_destroy(table);
        status = mx_fail(err, MX_ERR_UNSUPPORTED, "what was compiled is not for %s",
                         device->info.target);
    }
    if (status) {
        memmove(packs, packs + 1, --device->n_packs * sizeof(packs[0]));
        return status;
    }
    result->replaced = before;
    atomic_store_explicit(at, table, memory_order_release);
    return MX_OK;
}

/* Under the compile lock. NULL without memory. */
static mxrt_compiled *compile(mxrt_device *device, const mxrt_table_key *key)
{
    const mxrt_compile_request request = {
        .target = device->info.target,
        .op = key->op,
        .format = key->format,
        .dtype = key->dtype,
        .profile = key->profile,
    };
    mxrt_compiled *result = calloc(1, sizeof(*result));
    if (!result)
        return NULL;
    mx_error *failure = &result->failure;
    mx_status status = mxrt_compile(device->context, &request, &result->pack, failure);
    if (!status) {
        pthread_mutex_lock(&device->lock);
        status = publish(device, key, result, failure);
        pthread_mutex_unlock(&device->lock);
    }
    failure->status = status;
    if (status)
        mxrt_context_log(device->context, "%s: %s %s %s (%s) is not compiled: %s", device->info.uri,
                         mx_op_name(key->op), mx_format_get(key->format)->name,
                         mx_dtype_get(key->dtype)->name, mx_profile_name(key->profile),
                         failure->message);
    return result;
}

mx_status mxrt_device_compile(mxrt_device *device, const mxrt_table_key *key, mxrt_stream stream,
                              mx_error *err)
{
    _Atomic(mxrt_compiled *) *at = &device->compiled[mxrt_table_index(key)];
    mxrt_compiled *result = atomic_load_explicit(at, memory_order_acquire);

    if (!result) {
        if (device->ops == &mxrt_backend_plan || device->context->compiler_off)
            return mx_fail(err, MX_ERR_UNSUPPORTED, "%s", "");
        if (device->ops->capturing && device->ops->capturing(device->backend, stream))
            return mx_fail(err, MX_ERR_UNSUPPORTED,
                           "a graph is being captured: call mxrt_prepare before");
        pthread_mutex_lock(&device->compile_lock);
        result = atomic_load_explicit(at, memory_order_acquire);
        if (!result && (result = compile(device, key)))
            atomic_store_explicit(at, result, memory_order_release);
        pthread_mutex_unlock(&device->compile_lock);
    }
    if (!result)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory to compile");
    return result->failure.status ? mx_fail(err, MX_ERR_UNSUPPORTED, "%s", result->failure.message)
                                  : MX_OK;
}

void mxrt_device_finish_compiled(mxrt_device *device)
{
    for (int i = 0; i < MXRT_TABLE_COUNT; i++) {
        mxrt_compiled *result = atomic_load(&device->compiled[i]);
        if (!result)
            continue;
        mxrt_kernel_table_destroy(result->replaced);
        mxrt_pack_close(result->pack);
        free(result);
    }
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

/* The targets in the packs; or, where they have this one, what they have for it. */
static void list_packs(const mxrt_device *device, listing *targets, listing *keys)
{
    for (size_t p = 0; p < device->n_packs; p++) {
        for (size_t i = 0; i < mxrt_pack_variant_count(device->packs[p]); i++) {
            const mxrt_pack_key *key = mxrt_pack_key_of(device->packs[p], i);
            mxrt_variant_info info;
            char word[80];
            if (key->family != MXRT_PACK_BLOCKS ||
                mxrt_pack_variant(device->packs[p], i, &info, NULL))
                continue;
            list_word(targets, info.target);
            if (strcmp(info.target, device->info.target) != 0)
                continue;
            snprintf(word, sizeof(word), "%s %s %s%s%s", mx_op_name(key->op),
                     mx_format_get(key->format)->name, mx_dtype_get(key->dtype)->name,
                     key->profile ? " " : "", key->profile ? mx_profile_name(key->profile) : "");
            list_word(keys, word);
        }
    }
}

mx_status mxrt_device_fail_missing(mxrt_device *device, const mxrt_table_key *key,
                                   const mx_error *reason, mx_error *err)
{
    listing targets = {.text = ""}, keys = {.text = ""};

    if (!err)
        return MX_ERR_UNSUPPORTED;
    pthread_mutex_lock(&device->lock);
    list_packs(device, &targets, &keys);
    pthread_mutex_unlock(&device->lock);
    const listing *list = keys.used ? &keys : &targets;
    return mx_fail(
        err, MX_ERR_UNSUPPORTED,
        "no pack has a kernel for %s %s %s (%s) on %s, a %s; %s%s%s; add a pack made with "
        "mxgen build --target %s%s%.390s",
        mx_op_name(key->op), mx_format_get(key->format)->name, mx_dtype_get(key->dtype)->name,
        mx_profile_name(key->profile), device->info.uri, device->info.target,
        keys.used      ? "for it the packs have "
        : targets.used ? "the packs have kernels for "
                       : "there are no packs",
        list->text, list->n_left_out ? ", .." : "", device->info.target,
        reason->message[0] ? "; not compiled: " : "", reason->message);
}
