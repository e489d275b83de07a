/* Finds variants, in the generator or in a pack, and describes them in the pack's terms. */
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>
#include <mxgen/pack.h>

#include "cli.h"

/* Reads OP_FORMAT_DTYPE[_LAYOUT]. *has_layout tells whether there was one. Returns 0, or -1 if
 * `name` is something else. */
static int cli_parse_key(const char *name, mxgen_key *key, int *has_layout)
{
    char copy[120];
    if (strlen(name) >= sizeof(copy))
        return -1;
    strcpy(copy, name);
    char *part[4] = {0}, *rest = copy;
    size_t n = 0;
    for (char *token; (token = strsep(&rest, "_"));) {
        if (n == 4)
            return -1;
        part[n++] = token;
    }
    if (n < 3 || mx_op_parse(part[0], &key->op) || mx_format_parse(part[1], &key->format) ||
        mx_dtype_parse(part[2], &key->dtype))
        return -1;
    *has_layout = n == 4;
    return n == 4 && mx_layout_parse(part[3], &key->layout) ? -1 : 0;
}

/* `base` with the parameters that `params` names replaced. */
static mx_status cli_override(const mxgen_target *target, const mxgen_spec *base,
                              const cli_params *params, mxgen_spec *out, mx_error *err)
{
    const char *names[2 * MXGEN_MAX_PARAMS];
    int values[2 * MXGEN_MAX_PARAMS];
    size_t n = 0;
    for (int i = 0; i < base->n_params; i++) {
        names[n] = base->param_names[i];
        values[n++] = base->params[i];
    }
    for (size_t i = 0; i < params->n; i++) {
        size_t at = 0;
        while (at < n && strcmp(names[at], params->names[i]))
            at++;
        names[at] = params->names[i];
        values[at] = params->values[i];
        n += at == n;
    }
    return mxgen_spec_make(target, &base->key, names, values, n, out, err);
}

mx_status cli_spec_by_name(const mxgen_target *target, const char *name, mx_profile profile,
                           const cli_params *params, mxgen_spec *out, mx_error *err)
{
    mxgen_key key = {.profile = profile};
    int has_layout = 0;
    if (cli_parse_key(name, &key, &has_layout)) {
        mxgen_spec base;
        mx_status status = mxgen_spec_find(target, name, &base, err);
        if (status != MX_OK)
            return status;
        if (params->n)
            return cli_override(target, &base, params, out, err);
        *out = base;
        return MX_OK;
    }
    if (profile != MX_PROFILE_PACKED && key.op != MX_OP_QDQ)
        return mx_fail(err, MX_ERR_INVALID, "profile %s is for qdq only, not for %s",
                       mx_profile_name(profile), mx_op_name(key.op));
    int first = has_layout ? (int)key.layout : 0;
    int last = has_layout ? (int)key.layout : MX_LAYOUT_COUNT - 1;
    mx_status status = MX_OK;
    for (int layout = first; layout <= last; layout++) {
        mx_error ignored;
        key.layout = (mx_layout)layout;
        status = mxgen_spec_make(target, &key, (const char *const *)params->names, params->values,
                                 params->n, out, layout == first ? err : &ignored);
        if (status == MX_OK)
            return MX_OK;
    }
    return status;
}

/* Parses text that the generator or a pack gives. */
static mx_status cli_load_json(const char *what, const char *text, json_t **out, mx_error *err)
{
    json_error_t detail;
    *out = json_loads(text, 0, &detail);
    if (!*out)
        return mx_fail(err, MX_ERR_CORRUPT, "%s is not JSON: %s", what, detail.text);
    return MX_OK;
}

static mx_status cli_spec_texts(const mxgen_spec *spec, cli_variant *out, mx_error *err)
{
    char *params = NULL, *rules = NULL, *launch = NULL;
    mx_status status = mxgen_spec_params_json(spec, &params, err);
    if (status == MX_OK)
        status = mxgen_spec_rules_json(spec, &rules, err);
    if (status == MX_OK)
        status = mxgen_spec_launch_json(spec, &launch, err);
    if (status == MX_OK)
        status = cli_load_json("the list of parameters", params, &out->params, err);
    if (status == MX_OK)
        status = cli_load_json("the list of rules", rules, &out->rules, err);
    if (status == MX_OK)
        status = cli_load_json("the launch rule", launch, &out->launch, err);
    free(params);
    free(rules);
    free(launch);
    return status;
}

const char *cli_object_kind(const mxgen_target *target)
{
    const char *kind = mxgen_target_kind(target);
    if (!strcmp(kind, "amdgpu"))
        return MXPACK_KIND_AMDGPU;
    return strcmp(kind, "host") ? MXPACK_KIND_PTX : MXPACK_KIND_HOST;
}

mx_status cli_variant_from_spec(const mxgen_spec *spec, cli_variant *out, mx_error *err)
{
    mx_status status = MX_OK;
    cli_variant variant = {0};
    mxgen_output object = {0};
    variant.target = strdup(mxgen_target_name(spec->target));
    variant.name = strdup(spec->name);
    variant.symbol = strdup(spec->symbol);
    variant.object_kind = strdup(cli_object_kind(spec->target));
    if (!variant.target || !variant.name || !variant.symbol || !variant.object_kind) {
        status = mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
        goto out;
    }
    status = cli_spec_texts(spec, &variant, err);
    if (status != MX_OK)
        goto out;
    status = mxgen_compile(spec, 1, MXGEN_STAGE_OBJECT, NULL, &object, err);
    if (status != MX_OK)
        goto out;
    status = cli_load_json("the list of resources", object.n_info ? object.info_json[0] : "{}",
                           &variant.info, err);
    if (status != MX_OK)
        goto out;
    variant.object = object.data;
    variant.object_bytes = object.size_bytes;
    object.data = NULL;
    *out = variant;
    variant = (cli_variant){0};
out:
    mxgen_output_finish(&object);
    cli_variant_finish(&variant);
    return status;
}

static mx_status cli_variant_copy(const mxrt_variant_info *info, cli_variant *out, mx_error *err)
{
    out->target = strdup(info->target);
    out->name = strdup(info->name);
    out->symbol = strdup(info->symbol);
    out->object_kind = strdup(info->object_kind);
    if (!out->target || !out->name || !out->symbol || !out->object_kind)
        return mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
    mx_status status = cli_load_json("params", info->params_json, &out->params, err);
    if (status == MX_OK)
        status = cli_load_json("rules", info->rules_json, &out->rules, err);
    if (status == MX_OK)
        status = cli_load_json("launch", info->launch_json, &out->launch, err);
    if (status == MX_OK)
        status = cli_load_json("info", info->info_json, &out->info, err);
    return status;
}

/* How well a variant answers to `name`: 0 is its own name, more the later a short form
 * (OP_FORMAT_DTYPE[_LAYOUT]) would come to it, -1 not at all. */
static int64_t cli_name_distance(const mxrt_variant_info *info, const char *name)
{
    mxgen_key key;
    mx_layout layout;
    int has_layout;
    if (!strcmp(info->name, name))
        return 0;
    if (cli_parse_key(name, &key, &has_layout) || strcmp(info->op, mx_op_name(key.op)) ||
        strcmp(info->format, mx_format_get(key.format)->name) ||
        strcmp(info->dtype, mx_dtype_get(key.dtype)->name) ||
        strcmp(info->profile, mx_profile_name(MX_PROFILE_PACKED)) ||
        mx_layout_parse(info->layout, &layout) || (has_layout && layout != key.layout))
        return -1;
    return 1 + ((int64_t)layout << 32) + info->rank;
}

mxrt_variant_info cli_kernel_as_variant(const mxrt_pack_kernel_info *kernel)
{
    return (mxrt_variant_info){.target = kernel->target,
                               .op = "kernel",
                               .format = "",
                               .dtype = "",
                               .profile = "",
                               .layout = "",
                               .name = kernel->name,
                               .symbol = kernel->symbol,
                               .params_json = kernel->params_json,
                               .rules_json = kernel->rules_json,
                               .launch_json = kernel->launch_json,
                               .info_json = kernel->info_json,
                               .object_kind = kernel->object_kind,
                               .rank = kernel->rank,
                               .object_id = kernel->object_id,
                               .object_bytes = kernel->object_bytes};
}

/* Of the kernels written by others: by the name of one variant, or of all, then the first. */
static mx_status cli_find_kernel(const mxrt_pack *pack, const char *path, const char *target,
                                 const char *name, mxrt_variant_info *out, mx_error *err)
{
    int found = 0;
    size_t count = mxrt_pack_kernel_count(pack);
    for (size_t i = 0; i < count; i++) {
        mxrt_pack_kernel_info kernel;
        mx_status status = mxrt_pack_kernel_at(pack, i, &kernel, err);
        if (status != MX_OK)
            return status;
        if ((strcmp(kernel.name, name) && strcmp(kernel.kernel, name)) ||
            (target && strcmp(kernel.target, target)))
            continue;
        if (found && strcmp(kernel.target, out->target))
            return mx_fail(err, MX_ERR_INVALID,
                           "%s has \"%s\" for %s and for %s: choose with --target", path, name,
                           out->target, kernel.target);
        if (!found || kernel.rank < out->rank)
            *out = cli_kernel_as_variant(&kernel);
        found = 1;
    }
    return found ? MX_OK
                 : mx_fail(err, MX_ERR_NOT_FOUND, "%s has no kernel \"%s\"%s%s: see mxgen list",
                           path, name, target ? " for " : "", target ? target : "");
}

/* The variant that answers best to the name, in `target` if that is given. */
static mx_status cli_find_in_pack(const mxrt_pack *pack, const char *path, const char *target,
                                  const char *name, mxrt_variant_info *out, mx_error *err)
{
    int64_t best = -1;
    size_t count = mxrt_pack_variant_count(pack);
    for (size_t i = 0; i < count; i++) {
        mxrt_variant_info info;
        mx_status status = mxrt_pack_variant(pack, i, &info, err);
        if (status != MX_OK)
            return status;
        int64_t distance = cli_name_distance(&info, name);
        if (distance < 0 || (target && strcmp(info.target, target)))
            continue;
        if (best >= 0 && strcmp(info.target, out->target))
            return mx_fail(err, MX_ERR_INVALID,
                           "%s has \"%s\" for %s and for %s: choose with --target", path, name,
                           out->target, info.target);
        if (best >= 0 && best <= distance)
            continue;
        *out = info;
        best = distance;
    }
    if (best < 0)
        return cli_find_kernel(pack, path, target, name, out, err);
    return MX_OK;
}

mx_status cli_variant_from_pack(const char *path, const char *target, const char *name,
                                cli_variant *out, mx_error *err)
{
    mxrt_pack *pack = NULL;
    cli_variant variant = {0};
    mxrt_variant_info info = {0};
    const mxgen_target *known;
    mx_status status = mxrt_pack_open(path, &pack, err);
    if (status != MX_OK)
        return status;
    /* Packs may have targets that this generator does not know. */
    if (target && cli_parse_target(target, &known, NULL) == MX_OK)
        target = mxgen_target_name(known);
    status = cli_find_in_pack(pack, path, target, name, &info, err);
    if (status == MX_OK)
        status = cli_variant_copy(&info, &variant, err);
    if (status == MX_OK)
        status =
            mxrt_pack_object(pack, info.object_id, &variant.object, &variant.object_bytes, err);
    if (status == MX_OK) {
        *out = variant;
        variant = (cli_variant){0};
    }
    cli_variant_finish(&variant);
    mxrt_pack_close(pack);
    return status;
}

void cli_variant_finish(cli_variant *variant)
{
    if (!variant)
        return;
    free(variant->target);
    free(variant->name);
    free(variant->symbol);
    free(variant->object_kind);
    json_decref(variant->params);
    json_decref(variant->rules);
    json_decref(variant->launch);
    json_decref(variant->info);
    free(variant->object);
    *variant = (cli_variant){0};
}
