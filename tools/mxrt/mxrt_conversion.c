#include "mxrt_conversion.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

/* ---- Options ---- */

enum { KEY_PROFILE = 512, KEY_ROUNDING, KEY_SEED, KEY_TILES };

static mx_rounding parse_rounding(struct argp_state *state, const char *text)
{
    static const char *const names[MX_ROUNDING_COUNT] = {"even", "up", "stochastic"};
    for (int i = 0; i < MX_ROUNDING_COUNT; i++) {
        if (!strcmp(text, names[i]))
            return (mx_rounding)i;
    }
    argp_error(state, "rounding \"%s\" is unknown; there are even, up and stochastic", text);
    return MX_ROUND_EVEN;
}

static void finish_packed(struct argp_state *state, conversion_options *options)
{
    const char *name = mx_format_get(options->format)->name, *profile = options->profile;
    if (options->has_rounding || options->has_seed || options->tiles)
        argp_error(state, "--rounding, --seed and --tiles are for the OCP formats, not for %s",
                   name);
    if (profile && mx_profile_parse(profile, &options->packed_profile) != 0)
        argp_error(state, "profile \"%s\" is unknown; %s has packed and demoted-255", profile,
                   name);
    if (options->op != MX_OP_QDQ && options->packed_profile != MX_PROFILE_PACKED)
        argp_error(state, "profile %s is for qdq only", profile);
}

static void finish_ocp(struct argp_state *state, conversion_options *options)
{
    const char *name = mx_format_get(options->format)->name, *profile = options->profile;
    if (profile && mx_ocp_profile_parse(profile, &options->ocp_profile) != 0)
        argp_error(state,
                   "profile \"%s\" is unknown; %s has alto, ocp, primus, te-rocm, rceil and a8",
                   profile, name);
    options->ocp = mx_ocp_preset(options->ocp_profile);
    options->ocp.two_d = (uint8_t)options->tiles;
    if (options->has_rounding)
        options->ocp.rounding = options->rounding;
    if (options->has_seed && options->ocp.rounding != MX_ROUND_STOCHASTIC)
        argp_error(state, "--seed is for --rounding stochastic");
}

static error_t parse_conversion(int key, char *arg, struct argp_state *state)
{
    conversion_options *options = state->input;
    switch (key) {
    case 'f':
        options->format = tool_parse_format(state, arg);
        options->has_format = 1;
        return 0;
    case 'a':
        options->axis = (int)tool_parse_integer(state, "--axis", arg, INT_MIN, INT_MAX);
        return 0;
    case KEY_PROFILE:
        options->profile = arg;
        return 0;
    case KEY_ROUNDING:
        options->rounding = parse_rounding(state, arg);
        options->has_rounding = 1;
        return 0;
    case KEY_SEED:
        options->seed = tool_parse_integer(state, "--seed", arg, 0, INT64_MAX);
        options->has_seed = 1;
        return 0;
    case KEY_TILES:
        options->tiles = 1;
        return 0;
    case ARGP_KEY_INIT:
        options->axis = -1;
        return 0;
    case ARGP_KEY_END:
        if (!options->has_format)
            argp_error(state, "which format? --format is missing: " TOOL_FORMATS);
        if (mx_format_is_ocp(options->format))
            finish_ocp(state, options);
        else
            finish_packed(state, options);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option conversion_option_table[] = {
    {"format", 'f', "FORMAT", 0, TOOL_FORMATS, 1},
    {"axis", 'a', "N", 0,
     "Blocks lie along this axis; negative ones count from the end (default: -1)", 1},
    {"profile", KEY_PROFILE, "NAME", 0,
     "How scales and codes are chosen: alto (default), ocp, primus, te-rocm, rceil or a8; of mx9, "
     "mx6 and mx4, in qdq: packed (default) or demoted-255",
     1},
    {"rounding", KEY_ROUNDING, "HOW", 0,
     "even, up (at ties) or stochastic; OCP formats (default: the profile's)", 1},
    {"seed", KEY_SEED, "N", 0, "Of stochastic rounding (default: 0)", 1},
    {"tiles", KEY_TILES, NULL, 0,
     "OCP formats: a scale for each tile of 32 x 32 instead of each block", 1},
    {0}};

const struct argp conversion_argp = {.options = conversion_option_table,
                                     .parser = parse_conversion};

/* ---- Tensors ---- */

static int wants(const tool_filter *filter, const st_tensor *tensor, mx_dtype *dtype)
{
    size_t least = filter->has_include ? 1 : 2;
    return meta_dtype_from_file(tensor->dtype, dtype) == 0 && tensor->ndim >= least &&
           tensor->n_elements > 0 && tool_filter_keeps(filter, tensor->name);
}

/* FNV-1a. Tensors of one shape must not be rounded by the same random bits. */
static uint64_t hash_name(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return hash;
}

/* Fills *out, to be released, for a tensor that is wanted. */
static mx_status plan_tensor(const conversion_options *options, const tool_filter *filter,
                             const st_tensor *tensor, meta_packed *out, int *wanted, mx_error *err)
{
    char name[ST_PRINTABLE_BYTES];
    mx_dtype dtype = MX_DTYPE_F32;
    int64_t ndim = (int64_t)tensor->ndim, axis = options->axis;
    *wanted = wants(filter, tensor, &dtype);
    if (!*wanted)
        return MX_OK;
    st_printable(tensor->name, name);
    if (axis < -ndim || axis >= ndim)
        return mx_fail(err, MX_ERR_INVALID,
                       "tensor \"%s\": axis %lld is outside %lld..%lld; leave it out with "
                       "--exclude",
                       name, (long long)axis, (long long)-ndim, (long long)ndim - 1);
    meta_packed packed = {.format = options->format,
                          .dtype = dtype,
                          .profile = options->packed_profile,
                          .axis = (int)(axis < 0 ? axis + ndim : axis),
                          .ndim = tensor->ndim,
                          .shape = calloc(tensor->ndim, sizeof(int64_t)),
                          .ocp_profile = options->ocp_profile,
                          .options = options->ocp,
                          .seed = options->seed,
                          .scales_name = meta_scales_name(tensor->name)};
    if (!packed.shape || !packed.scales_name) {
        meta_packed_finish(&packed);
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for tensor \"%s\"", name);
    }
    memcpy(packed.shape, tensor->shape, tensor->ndim * sizeof(int64_t));
    packed.options.seed = (uint64_t)options->seed + hash_name(tensor->name);
    *out = packed;
    return MX_OK;
}

static mx_status copy_metadata(tool_job *job, mx_error *err)
{
    mx_status status = MX_OK;
    for (size_t i = 0; i < st_reader_metadata_count(job->reader) && status == MX_OK; i++) {
        const char *key, *value;
        st_reader_metadata_at(job->reader, i, &key, &value);
        status = st_writer_metadata(job->writer, key, value, err);
    }
    return status;
}

mx_status conversion_plan(tool_job *job, const conversion_options *options,
                          mx_status (*plan)(tool_job *job, job_item *item, mx_error *err),
                          mx_error *err)
{
    mx_status status = job_list_reader(job, err);
    if (status == MX_OK)
        status = copy_metadata(job, err);
    for (size_t i = 0; i < job->n_items && status == MX_OK; i++) {
        job_item *item = &job->items[i];
        status = plan_tensor(options, &job->options->filter, item->tensor, &item->packed,
                             &item->converted, err);
        if (status == MX_OK)
            status = plan(job, item, err);
    }
    return status;
}
