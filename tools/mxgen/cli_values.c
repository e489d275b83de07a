/* Reads numbers, names and lists from the command line. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>
#include <mxgen/gemm.h>

#include "cli.h"

mx_status cli_parse_int(const char *what, const char *text, int64_t minimum, int64_t maximum,
                        int64_t *out, mx_error *err)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || strchr(" \t\n", text[0]))
        return mx_fail(err, MX_ERR_INVALID, "%s \"%s\" is not a whole number", what, text);
    if (errno || value < minimum || value > maximum)
        return mx_fail(err, MX_ERR_INVALID, "%s %s is outside %" PRId64 "..%" PRId64, what, text,
                       minimum, maximum);
    *out = value;
    return MX_OK;
}

mx_status cli_parse_ints(const char *what, const char *text, char separator, int64_t minimum,
                         int64_t *out, size_t capacity, size_t *n, mx_error *err)
{
    const char separators[] = {separator, 0};
    mx_status status = MX_OK;
    size_t count = 0;
    char *copy = strdup(text), *rest = copy;
    if (!copy)
        return mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
    for (char *part; (part = strsep(&rest, separators));) {
        if (count == capacity) {
            status = mx_fail(err, MX_ERR_INVALID, "%s %s has more than %zu numbers", what, text,
                             capacity);
            goto out;
        }
        status = cli_parse_int(what, part, minimum, INT64_MAX, &out[count], err);
        if (status != MX_OK)
            goto out;
        count++;
    }
    *n = count;
out:
    free(copy);
    return status;
}

/* Fails with a message that lists the names there are. */
static mx_status cli_fail_unknown(const char *what, const char *text,
                                  const char *(*name_at)(size_t), mx_error *err)
{
    char names[512] = "";
    size_t used = 0;
    for (size_t i = 0; name_at(i); i++) {
        const char *name = name_at(i);
        int length = snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "", name);
        if (length < 0 || (size_t)length >= sizeof(names) - used)
            break;
        used += (size_t)length;
    }
    return mx_fail(err, MX_ERR_INVALID, "unknown %s \"%s\": use one of %s", what, text, names);
}

static const char *cli_target_name_at(size_t i)
{
    const mxgen_target *target = mxgen_target_at(i);
    return target ? mxgen_target_name(target) : NULL;
}

static const char *cli_op_name_at(size_t i)
{
    return i < MX_OP_COUNT ? mx_op_name((mx_op)i) : NULL;
}

static const char *cli_format_name_at(size_t i)
{
    return i < MX_FORMAT_COUNT ? mx_format_get((mx_format)i)->name : NULL;
}

static const char *cli_dtype_name_at(size_t i)
{
    return i < MX_DTYPE_COUNT ? mx_dtype_get((mx_dtype)i)->name : NULL;
}

static const char *cli_profile_name_at(size_t i)
{
    return i < MX_PROFILE_COUNT ? mx_profile_name((mx_profile)i) : NULL;
}

static const char *cli_layout_name_at(size_t i)
{
    return i < MX_LAYOUT_END ? mx_layout_name((mx_layout)i) : NULL;
}

/* The best target of this machine's processor, as the runtime sees it; NULL if there is none. */
static const mxgen_target *cli_target_of_host(void)
{
    mxrt_context *context = NULL;
    mxrt_device *device = NULL;
    mxrt_device_info info;
    const mxgen_target *target = NULL;
    if (mxrt_context_create(NULL, &context, NULL) == MX_OK &&
        mxrt_device_open(context, "host", &device, NULL) == MX_OK &&
        mxrt_device_get_info(device, &info, NULL) == MX_OK)
        target = mxgen_target_find(info.target);
    mxrt_device_close(device);
    mxrt_context_destroy(context);
    return target;
}

mx_status cli_parse_target(const char *text, const mxgen_target **out, mx_error *err)
{
    const mxgen_target *target =
        strcmp(text, "host") ? mxgen_target_find(text) : cli_target_of_host();
    if (!target)
        return cli_fail_unknown("target", text, cli_target_name_at, err);
    *out = target;
    return MX_OK;
}

mx_status cli_parse_op(const char *text, mx_op *out, mx_error *err)
{
    return mx_op_parse(text, out) ? cli_fail_unknown("op", text, cli_op_name_at, err) : MX_OK;
}

mx_status cli_parse_format(const char *text, mx_format *out, mx_error *err)
{
    return mx_format_parse(text, out) ? cli_fail_unknown("format", text, cli_format_name_at, err)
                                      : MX_OK;
}

mx_status cli_parse_dtype(const char *text, mx_dtype *out, mx_error *err)
{
    return mx_dtype_parse(text, out) ? cli_fail_unknown("dtype", text, cli_dtype_name_at, err)
                                     : MX_OK;
}

mx_status cli_parse_profile(const char *text, mx_profile *out, mx_error *err)
{
    return mx_profile_parse(text, out) ? cli_fail_unknown("profile", text, cli_profile_name_at, err)
                                       : MX_OK;
}

mx_status cli_parse_layout(const char *text, mx_layout *out, mx_error *err)
{
    return mx_layout_parse(text, out) ? cli_fail_unknown("layout", text, cli_layout_name_at, err)
                                      : MX_OK;
}

/* Calls `add` for each name of a comma-separated list. */
static mx_status cli_each_name(cli_selection *selection, const char *text,
                               mx_status (*add)(cli_selection *, const char *, mx_error *),
                               mx_error *err)
{
    if (!text)
        return MX_OK;
    char *copy = strdup(text), *rest = copy;
    if (!copy)
        return mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
    mx_status status = MX_OK;
    for (char *name; status == MX_OK && (name = strsep(&rest, ","));)
        status = add(selection, name, err);
    free(copy);
    return status;
}

static mx_status cli_append_target(cli_selection *selection, const mxgen_target *target,
                                   mx_error *err)
{
    for (size_t i = 0; i < selection->n_targets; i++) {
        if (selection->targets[i] == target)
            return MX_OK;
    }
    if (selection->n_targets == CLI_MAX_TARGETS)
        return mx_fail(err, MX_ERR_INVALID, "more than %d targets", CLI_MAX_TARGETS);
    selection->targets[selection->n_targets++] = target;
    return MX_OK;
}

/* `name` is a target, or a kind: then all targets of the kind. */
static mx_status cli_add_target(cli_selection *selection, const char *name, mx_error *err)
{
    const mxgen_target *target = NULL;
    mx_status status = MX_OK;
    int is_kind = 0;
    for (size_t i = 0; status == MX_OK && i < mxgen_target_count(); i++) {
        if (strcmp(mxgen_target_kind(mxgen_target_at(i)), name))
            continue;
        is_kind = 1;
        status = cli_append_target(selection, mxgen_target_at(i), err);
    }
    if (is_kind)
        return status;
    status = cli_parse_target(name, &target, err);
    return status == MX_OK ? cli_append_target(selection, target, err) : status;
}

static mx_status cli_add_op(cli_selection *selection, const char *name, mx_error *err)
{
    mx_op op = MX_OP_TO;
    mx_gemm_pass pass;
    int is_pass = !mx_gemm_pass_parse(name, &pass);
    if (is_pass || !strcmp(name, "grouped_gemm")) {
        selection->families |= MXGEN_FAMILY_GEMM;
        selection->passes |= is_pass ? 1u << ((int)pass + (int)MXGEN_PASS_ROWS)
                                     : 1u << MXGEN_PASS_ROWS | 1u << MXGEN_PASS_COLS;
        return MX_OK;
    }
    selection->families |= MXGEN_FAMILY_BLOCKS;
    mx_status status = cli_parse_op(name, &op, err);
    for (size_t i = 0; status == MX_OK && i < selection->n_ops; i++) {
        if (selection->ops[i] == op)
            return MX_OK;
    }
    if (status == MX_OK)
        selection->ops[selection->n_ops++] = op;
    return status;
}

_Static_assert((int)MXGEN_OPERAND_BF16 == (int)MX_GEMM_BF16 &&
                   (int)MXGEN_OPERAND_COUNT == (int)MX_GEMM_ELEMENT_COUNT,
               "operands are numbered alike");

static mx_status cli_add_format(cli_selection *selection, const char *name, mx_error *err)
{
    mx_format format = MX_FORMAT_MX9;
    mx_gemm_element left, right;
    if (!mx_gemm_format_parse(name, &left, &right)) {
        if (!(selection->families & MXGEN_FAMILY_GEMM))
            return mx_fail(err, MX_ERR_INVALID,
                           "format %s is that of a product; add --op grouped_gemm", name);
        selection->pairs |= mxgen_pair_bit((mxgen_operand)left, (mxgen_operand)right);
        return MX_OK;
    }
    mx_status status = cli_parse_format(name, &format, err);
    for (size_t i = 0; status == MX_OK && i < selection->n_formats; i++) {
        if (selection->formats[i] == format)
            return MX_OK;
    }
    if (status == MX_OK)
        selection->formats[selection->n_formats++] = format;
    return status;
}

static mx_status cli_add_dtype(cli_selection *selection, const char *name, mx_error *err)
{
    mx_dtype dtype = MX_DTYPE_F32;
    mx_status status = cli_parse_dtype(name, &dtype, err);
    for (size_t i = 0; status == MX_OK && i < selection->n_dtypes; i++) {
        if (selection->dtypes[i] == dtype)
            return MX_OK;
    }
    if (status == MX_OK)
        selection->dtypes[selection->n_dtypes++] = dtype;
    return status;
}

static mx_status cli_add_layout(cli_selection *selection, const char *name, mx_error *err)
{
    mx_layout layout = MX_LAYOUT_FLAT;
    mx_status status = cli_parse_layout(name, &layout, err);
    for (size_t i = 0; status == MX_OK && i < selection->n_layouts; i++) {
        if (selection->layouts[i] == layout)
            return MX_OK;
    }
    if (status == MX_OK)
        selection->layouts[selection->n_layouts++] = layout;
    return status;
}

static mx_status cli_add_profile(cli_selection *selection, const char *name, mx_error *err)
{
    mx_profile profile = MX_PROFILE_PACKED;
    mx_status status = cli_parse_profile(name, &profile, err);
    for (size_t i = 0; status == MX_OK && i < selection->n_profiles; i++) {
        if (selection->profiles[i] == profile)
            return MX_OK;
    }
    if (status == MX_OK)
        selection->profiles[selection->n_profiles++] = profile;
    return status;
}

mx_status cli_select_targets(cli_selection *selection, const char *text, mx_error *err)
{
    return cli_each_name(selection, text, cli_add_target, err);
}

mx_status cli_select_ops(cli_selection *selection, const char *text, mx_error *err)
{
    return cli_each_name(selection, text, cli_add_op, err);
}

mx_status cli_select_formats(cli_selection *selection, const char *text, mx_error *err)
{
    return cli_each_name(selection, text, cli_add_format, err);
}

mx_status cli_select_dtypes(cli_selection *selection, const char *text, mx_error *err)
{
    return cli_each_name(selection, text, cli_add_dtype, err);
}

mx_status cli_select_layouts(cli_selection *selection, const char *text, mx_error *err)
{
    return cli_each_name(selection, text, cli_add_layout, err);
}

mx_status cli_select_profiles(cli_selection *selection, const char *text, mx_error *err)
{
    return cli_each_name(selection, text, cli_add_profile, err);
}

mx_status cli_find_ptxas(const cli_selection *selection, const char *wanted, mxgen_ptxas *out,
                         mx_error *err)
{
    for (size_t i = 0; i < selection->n_targets; i++) {
        if (strcmp(mxgen_target_kind(selection->targets[i]), "nvptx"))
            continue;
        mx_status status = mxgen_ptxas_find(wanted, out, err);
        if (status == MX_OK && out->note[0])
            fprintf(stderr, "mxgen: %s\n", out->note);
        return status;
    }
    return MX_OK;
}

mx_status cli_params_add(cli_params *params, const char *text, mx_error *err)
{
    const char *equals = strchr(text, '=');
    if (!equals || equals == text)
        return mx_fail(err, MX_ERR_INVALID, "parameter \"%s\" is not NAME=VALUE", text);
    int64_t value = 0;
    mx_status status =
        cli_parse_int("the value of a parameter", equals + 1, INT32_MIN, INT32_MAX, &value, err);
    if (status != MX_OK)
        return status;
    size_t length = (size_t)(equals - text);
    for (size_t i = 0; i < params->n; i++) {
        if (strlen(params->names[i]) == length && !strncmp(params->names[i], text, length))
            return mx_fail(err, MX_ERR_INVALID, "parameter %s is given twice", params->names[i]);
    }
    if (params->n == MXGEN_MAX_PARAMS)
        return mx_fail(err, MX_ERR_INVALID, "more than %d parameters", MXGEN_MAX_PARAMS);
    char *name = strndup(text, length);
    if (!name)
        return mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
    params->names[params->n] = name;
    params->values[params->n++] = (int)value;
    return MX_OK;
}

void cli_params_finish(cli_params *params)
{
    for (size_t i = 0; i < params->n; i++)
        free(params->names[i]);
    params->n = 0;
}
