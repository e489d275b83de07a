/* mxgen plan: the launch is computed by libmxrt itself, on its device without hardware. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>
#include <mxgen/rt.h>

#include "plan_pack.h"
#include "plan_request.h"

enum {
    PLAN_OP = 256,
    PLAN_FORMAT,
    PLAN_DTYPE,
    PLAN_PROFILE,
    PLAN_SHAPE,
    PLAN_AXIS,
    PLAN_STRIDES,
    PLAN_OUT_STRIDES,
    PLAN_PACKED_STRIDES,
    PLAN_ALIGN,
    PLAN_VARIANT,
    PLAN_PACK,
    PLAN_OBJECT,
    PLAN_JSON
};

static const struct argp_option plan_options[] = {
    {"op", PLAN_OP, "to|from|qdq", 0, "The operation (required)", 1},
    {"format", PLAN_FORMAT, "mx9|mx6|mx4", 0, "The packed format (required)", 1},
    {"dtype", PLAN_DTYPE, "f32|bf16|f16", 0, "The plain tensor's type (required)", 1},
    {"shape", PLAN_SHAPE, "AxBx..", 0, "The plain tensor's shape (required)", 1},
    {"target", 't', "NAME", 0, "The target (required)", 1},
    {"axis", PLAN_AXIS, "N", 0, "The axis that blocks lie along; default: -1, the last", 2},
    {"profile", PLAN_PROFILE, "packed|demoted-255", 0, "How qdq rounds; default: packed", 2},
    {"strides", PLAN_STRIDES, "A,B,..", 0,
     "The plain tensor's strides in elements (of qdq, the input's); default: row-major", 2},
    {"out-strides", PLAN_OUT_STRIDES, "A,B,..", 0, "The output's strides of qdq", 2},
    {"packed-strides", PLAN_PACKED_STRIDES, "A,B", 0,
     "The packed tensor's strides in bytes; default: contiguous", 2},
    {"align", PLAN_ALIGN, "N", 0, "Alignment of the tensors in bytes, 1 to 4096; default: 256", 2},
    {"variant", PLAN_VARIANT, "NAME", 0, "Use this variant, or tell why it does not apply", 3},
    {"param", 'p', "NAME=VALUE", 0, "Replace a parameter of the best variant; may be repeated", 3},
    {"pack", PLAN_PACK, "FILE", 0, "Take kernels from a pack instead of generating them", 3},
    {"object", PLAN_OBJECT, "FILE", 0, "Write the code object to FILE", 4},
    {"json", PLAN_JSON, NULL, 0, "Print JSON", 4},
    {0},
};

static const char **plan_text_option(plan_args *args, int key)
{
    switch (key) {
    case PLAN_OP:
        return &args->op;
    case PLAN_FORMAT:
        return &args->format;
    case PLAN_DTYPE:
        return &args->dtype;
    case PLAN_PROFILE:
        return &args->profile;
    case PLAN_SHAPE:
        return &args->shape;
    case PLAN_AXIS:
        return &args->axis;
    case PLAN_STRIDES:
        return &args->strides;
    case PLAN_OUT_STRIDES:
        return &args->out_strides;
    case PLAN_PACKED_STRIDES:
        return &args->packed_strides;
    case PLAN_ALIGN:
        return &args->align;
    case PLAN_VARIANT:
        return &args->variant;
    case PLAN_PACK:
        return &args->pack;
    case PLAN_OBJECT:
        return &args->object;
    case 't':
        return &args->target;
    default:
        return NULL;
    }
}

static void plan_check_usage(const plan_args *args, struct argp_state *state)
{
    const char *const required[] = {args->op, args->format, args->dtype, args->shape, args->target};
    for (size_t i = 0; i < sizeof(required) / sizeof(required[0]); i++) {
        if (!required[i])
            argp_error(state, "--op, --format, --dtype, --shape and --target are required");
    }
    if (args->n_params && (args->pack || args->variant))
        argp_error(state, "--param does not go with --pack or --variant: their parameters are set");
}

static error_t plan_parse(int key, char *arg, struct argp_state *state)
{
    plan_args *args = state->input;
    const char **text = plan_text_option(args, key);
    if (text) {
        *text = arg;
        return 0;
    }
    switch (key) {
    case 'p':
        if (args->n_params <= MXGEN_MAX_PARAMS)
            args->params[args->n_params++] = arg;
        return 0;
    case PLAN_JSON:
        args->as_json = 1;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "too many arguments");
        return 0;
    case ARGP_KEY_END:
        plan_check_usage(args, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* ---- The runtime's side ---- */

typedef struct plan_session {
    mxrt_context *context;
    mxrt_device *device;
    mxrt_plan *plan;
    mxrt_plan_info info;
} plan_session;

static void plan_session_finish(plan_session *session)
{
    mxrt_plan_destroy(session->plan);
    mxrt_device_close(session->device);
    mxrt_context_destroy(session->context);
    *session = (plan_session){0};
}

/* Plans on the pack that the session's context has. */
static mx_status plan_session_run(plan_session *session, const char *target, plan_request *request,
                                  const char *variant, mx_error *err)
{
    char uri[128];
    if ((size_t)snprintf(uri, sizeof(uri), "plan:%s", target) >= sizeof(uri))
        return mx_fail(err, MX_ERR_INVALID, "unknown target \"%s\"", target);
    mx_status status = mxrt_device_open(session->context, uri, &session->device, err);
    mxrt_device_info device;
    if (status == MX_OK)
        status = mxrt_device_get_info(session->device, &device, err);
    if (status != MX_OK)
        return status;
    request->in.tensor.device = device.dl_device;
    request->out.tensor.device = device.dl_device;
    const mxrt_plan_request asked = {
        .op = request->op,
        .format = request->format,
        .profile = request->profile,
        .axis = request->axis,
        .in = &request->in.tensor,
        .out = &request->out.tensor,
        .variant = variant,
    };
    status = mxrt_plan_create(session->device, &asked, &session->plan, err);
    if (status == MX_OK)
        status = mxrt_plan_get_info(session->plan, &session->info, err);
    return status;
}

static mx_status plan_on_memory(plan_session *session, const void *pack, size_t pack_bytes,
                                const char *target, plan_request *request, const char *variant,
                                mx_error *err)
{
    mx_status status = mxrt_context_create(NULL, &session->context, err);
    if (status == MX_OK)
        status = mxrt_context_add_pack_memory(session->context, pack, pack_bytes, err);
    if (status == MX_OK)
        status = plan_session_run(session, target, request, variant, err);
    return status;
}

/* A pack may have targets that the generator does not know, so only "host" is translated. */
static mx_status plan_on_file(plan_session *session, const plan_args *args, plan_request *request,
                              mx_error *err)
{
    const mxgen_target *host = NULL;
    mx_status status = MX_OK;
    if (!strcmp(args->target, "host"))
        status = cli_parse_target(args->target, &host, err);
    if (status == MX_OK)
        status = mxrt_context_create(NULL, &session->context, err);
    if (status == MX_OK)
        status = mxrt_context_add_pack_file(session->context, args->pack, err);
    if (status == MX_OK)
        status = plan_session_run(session, host ? mxgen_target_name(host) : args->target, request,
                                  args->variant, err);
    return status;
}

/* ---- The generator's side ---- */

/* One candidate a layout, with the parameters of the command line. */
static mx_status plan_with_params(const mxgen_target *target, const plan_args *args,
                                  const mxgen_key *key, mxgen_spec *specs, size_t *n, mx_error *err)
{
    cli_params params = {0};
    mx_status status = MX_OK;
    mx_error first = {0};
    for (size_t i = 0; status == MX_OK && i < args->n_params; i++)
        status = cli_params_add(&params, args->params[i], err);
    *n = 0;
    for (int layout = 0; status == MX_OK && layout < MX_LAYOUT_COUNT; layout++) {
        mxgen_key wanted = *key;
        mx_error why;
        wanted.layout = (mx_layout)layout;
        mx_status made = mxgen_spec_make(target, &wanted, (const char *const *)params.names,
                                         params.values, params.n, &specs[*n], &why);
        if (made == MX_OK)
            ++*n;
        else if (first.status == MX_OK)
            first = why;
    }
    if (status == MX_OK && *n == 0)
        status = mx_fail(err, first.status, "%s", first.message);
    cli_params_finish(&params);
    return status;
}

/* Every variant of the key in every layout. */
static mx_status plan_with_all(const mxgen_target *target, const mxgen_key *key, mxgen_spec **specs,
                               size_t *n, mx_error *err)
{
    const mxgen_filter filter = {.ops = &key->op,
                                 .n_ops = 1,
                                 .formats = &key->format,
                                 .n_formats = 1,
                                 .dtypes = &key->dtype,
                                 .n_dtypes = 1};
    mx_status status = mxgen_enumerate(target, &filter, specs, n, err);
    if (status != MX_OK)
        return status;
    size_t kept = 0;
    for (size_t i = 0; i < *n; i++) {
        if ((*specs)[i].key.profile == key->profile)
            (*specs)[kept++] = (*specs)[i];
    }
    *n = kept;
    return MX_OK;
}

static mx_status plan_candidates(const mxgen_target *target, const plan_args *args,
                                 const plan_request *request, mxgen_spec **specs, size_t *n,
                                 mx_error *err)
{
    const mxgen_key key = {.op = request->op,
                           .format = request->format,
                           .dtype = request->dtype,
                           .profile = request->profile};
    mx_status status = MX_OK;
    if (!args->variant && !args->n_params)
        status = plan_with_all(target, &key, specs, n, err);
    else {
        *specs = calloc(MX_LAYOUT_COUNT, sizeof(**specs));
        if (!*specs)
            return mx_fail(err, MX_ERR_NO_MEMORY, "out of memory");
        *n = 1;
        status = args->variant ? mxgen_spec_find(target, args->variant, *specs, err)
                               : plan_with_params(target, args, &key, *specs, n, err);
    }
    if (status == MX_OK && *n == 0)
        status = mx_fail(err, MX_ERR_UNSUPPORTED, "there are no kernels of %s %s %s %s for %s",
                         mx_op_name(key.op), args->format, args->dtype,
                         mx_profile_name(key.profile), args->target);
    return status;
}

/* Selects by rules alone, then compiles what was selected and plans on that. */
static mx_status plan_generated(plan_session *session, const plan_args *args, plan_request *request,
                                mx_error *err)
{
    const mxgen_target *target = NULL;
    mxgen_spec *specs = NULL;
    void *rules = NULL, *compiled = NULL;
    size_t n_specs = 0, chosen = 0, rules_bytes = 0, compiled_bytes = 0;
    plan_session selection = {0};
    mx_status status = cli_parse_target(args->target, &target, err);
    if (status == MX_OK)
        status = plan_candidates(target, args, request, &specs, &n_specs, err);
    if (status == MX_OK)
        status = plan_pack_rules(specs, n_specs, &rules, &rules_bytes, err);
    if (status == MX_OK)
        status = plan_on_memory(&selection, rules, rules_bytes, mxgen_target_name(target), request,
                                args->variant, err);
    if (status != MX_OK)
        goto out;
    if (selection.info.n_blocks == 0) { /* nothing will be launched, so nothing is compiled */
        *session = selection;
        selection = (plan_session){0};
        goto out;
    }
    while (chosen < n_specs && strcmp(specs[chosen].name, selection.info.variant))
        chosen++;
    if (chosen == n_specs) {
        status = mx_fail(err, MX_ERR_INTERNAL, "the runtime chose \"%s\", which is no candidate",
                         selection.info.variant);
        goto out;
    }
    status = plan_pack_compiled(&specs[chosen], &compiled, &compiled_bytes, err);
    if (status == MX_OK)
        status = plan_on_memory(session, compiled, compiled_bytes, mxgen_target_name(target),
                                request, specs[chosen].name, err);
out:
    plan_session_finish(&selection);
    free(specs);
    free(rules);
    free(compiled);
    return status;
}

/* ---- Output ---- */

static const char *plan_kind_name(mxrt_arg_kind kind)
{
    static const char *const names[] = {"pointer", "i32", "i64", "f32"};
    return (unsigned)kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "?";
}

static float plan_float_of_bits(int64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof(value));
    return value;
}

static json_t *plan_json_args(const mxrt_plan_info *info)
{
    json_t *list = json_array();
    for (size_t i = 0; i < info->n_args; i++) {
        const mxrt_plan_arg *arg = &info->args[i];
        json_t *item =
            json_pack("{s:s, s:s}", "name", arg->name, "kind", plan_kind_name(arg->kind));
        if (arg->kind == MXRT_ARG_POINTER)
            json_object_set_new(item, "buffer", json_string(arg->buffer));
        else if (arg->kind == MXRT_ARG_F32)
            json_object_set_new(item, "value", json_real((double)plan_float_of_bits(arg->value)));
        else
            json_object_set_new(item, "value", json_integer(arg->value));
        json_array_append_new(list, item);
    }
    return list;
}

static json_t *plan_json_buffers(const mxrt_plan_info *info)
{
    json_t *list = json_array();
    for (size_t i = 0; i < info->n_buffers; i++) {
        const mxrt_plan_buffer *buffer = &info->buffers[i];
        json_array_append_new(list, json_pack("{s:s, s:I, s:s}", "name", buffer->name, "bytes",
                                              (json_int_t)buffer->size_bytes, "role",
                                              buffer->is_output ? "out" : "in"));
    }
    return list;
}

static json_t *plan_json_three(const uint32_t values[3])
{
    return json_pack("[I, I, I]", (json_int_t)values[0], (json_int_t)values[1],
                     (json_int_t)values[2]);
}

static mx_status plan_print_json(const mxrt_plan_info *info, mx_error *err)
{
    json_t *root =
        json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:I, s:o, s:o}", "kernel", info->variant,
                  "target", info->target, "symbol", info->symbol, "layout",
                  mx_layout_name(info->layout), "grid", plan_json_three(info->grid), "block",
                  plan_json_three(info->block), "lds_bytes", (json_int_t)info->lds_bytes, "args",
                  plan_json_args(info), "buffers", plan_json_buffers(info));
    return cli_print_json(root, err);
}

static void plan_print_table(const mxrt_plan_info *info)
{
    printf("kernel     %s\ntarget     %s\nlayout     %s\n", info->variant, info->target,
           mx_layout_name(info->layout));
    printf("blocks     %" PRId64 " (%" PRId64 " rows of %" PRId64 " elements)\n", info->n_blocks,
           info->rows, info->len);
    printf("grid       %" PRIu32 " x %" PRIu32 " x %" PRIu32 " workgroups\n", info->grid[0],
           info->grid[1], info->grid[2]);
    printf("block      %" PRIu32 " x %" PRIu32 " x %" PRIu32 "\n", info->block[0], info->block[1],
           info->block[2]);
    printf("lds_bytes  %" PRIu32 "\narguments\n", info->lds_bytes);
    for (size_t i = 0; i < info->n_args; i++) {
        const mxrt_plan_arg *arg = &info->args[i];
        printf("  %4zu  %-7s  %-20s ", arg->offset_bytes, plan_kind_name(arg->kind), arg->name);
        if (arg->kind == MXRT_ARG_POINTER)
            printf("buffer %s\n", arg->buffer);
        else if (arg->kind == MXRT_ARG_F32)
            printf("%.9g\n", (double)plan_float_of_bits(arg->value));
        else
            printf("%" PRId64 "\n", arg->value);
    }
    printf("buffers\n");
    for (size_t i = 0; i < info->n_buffers; i++) {
        const mxrt_plan_buffer *buffer = &info->buffers[i];
        printf("  %-3s  %-3s  %" PRId64 " bytes\n", buffer->name, buffer->is_output ? "out" : "in",
               buffer->size_bytes);
    }
}

static mx_status plan_print(const plan_args *args, const mxrt_plan_info *info, mx_error *err)
{
    if (args->object) {
        if (!info->object)
            return mx_fail(err, MX_ERR_UNSUPPORTED, "%s has no code object to write to %s",
                           info->variant, args->object);
        mx_status status = cli_write(args->object, info->object, info->object_bytes, err);
        if (status != MX_OK)
            return status;
    }
    if (args->as_json)
        return plan_print_json(info, err);
    plan_print_table(info);
    return MX_OK;
}

mx_status cli_plan(int argc, char **argv, mx_error *err)
{
    static const struct argp argp = {
        .options = plan_options,
        .parser = plan_parse,
        .doc = "Shows exactly how an operation on tensors of given shape and strides is launched, "
               "so that any loader can replay it. Nothing runs; no device is needed.",
    };
    plan_args args = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &args))
        return mx_fail(err, MX_ERR_INVALID, "the arguments cannot be read");

    plan_request request;
    plan_session session = {0};
    mx_status status = plan_request_init(&request, &args, err);
    if (status == MX_OK)
        status = args.pack ? plan_on_file(&session, &args, &request, err)
                           : plan_generated(&session, &args, &request, err);
    if (status == MX_OK)
        status = plan_print(&args, &session.info, err);
    plan_session_finish(&session);
    return status;
}
