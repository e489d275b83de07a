#include "mxrt_tool.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mxgen/error.h>

#ifndef MXRT_DEFAULT_PACK
#define MXRT_DEFAULT_PACK "/usr/local/lib/mxgen/kernels.mxdb"
#endif

enum { ENGINE_COMPILER = 1024 };

static error_t parse_engine_option(int key, char *arg, struct argp_state *state)
{
    engine_options *options = state->input;
    switch (key) {
    case 'd':
        options->device = arg;
        return 0;
    case 'p':
        if (options->n_packs == ENGINE_MAX_PACKS)
            argp_error(state, "more than %d packs", ENGINE_MAX_PACKS);
        options->packs[options->n_packs++] = arg;
        return 0;
    case ENGINE_COMPILER:
        options->compiler = arg;
        return 0;
    case 'v':
        options->verbose = 1;
        return 0;
    case ARGP_KEY_INIT:
        *options = (engine_options){.device = "host"};
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option engine_option_table[] = {
    {"device", 'd', "URI", 0, "Run on this device (default: host; see mxrt devices)", 10},
    {"pack", 'p', "FILE", 0,
     "Use the kernels of this pack; may be given several times, the last is preferred (default: "
     "$MXRT_PACK, else the installed pack, else the plain C reference)",
     10},
    {"compiler", ENGINE_COMPILER, "PROGRAM|off", 0,
     "The mxgen that compiles kernels which no pack has (default: $MXRT_COMPILER, else the one in "
     "PATH)",
     10},
    {"verbose", 'v', NULL, 0, "Tell on standard error what is loaded and what runs", 11},
    {0}};

const struct argp engine_argp = {.options = engine_option_table, .parser = parse_engine_option};

mx_status engine_add_packs(mxrt_context *context, const engine_options *options, mx_error *err)
{
    mx_status status = MX_OK;
    const char *from_environment = getenv("MXRT_PACK");
    for (size_t i = 0; i < options->n_packs && status == MX_OK; i++)
        status = mxrt_context_add_pack_file(context, options->packs[i], err);
    if (options->n_packs > 0)
        return status;
    /* Set but empty stands for "no pack". */
    if (from_environment)
        return *from_environment ? mxrt_context_add_pack_file(context, from_environment, err)
                                 : MX_OK;
    if (access(MXRT_DEFAULT_PACK, F_OK) == 0)
        return mxrt_context_add_pack_file(context, MXRT_DEFAULT_PACK, err);
    return MX_OK;
}

static mx_status engine_set_compiler(mxrt_context *context, const char *program, mx_error *err)
{
    int off = !strcmp(program, "off");
    mxrt_compiler_options compiler = {.off = off, .program = off ? NULL : program};
    return mxrt_context_set_compiler(context, &compiler, err);
}

static void log_line(void *user, const char *line)
{
    (void)user;
    fprintf(stderr, "mxrt: %s\n", line);
}

mx_status engine_open(const engine_options *options, tool_engine *out, mx_error *err)
{
    mxrt_context_options context_options = {.log = options->verbose ? log_line : NULL};
    tool_engine opened = {0};
    mx_status status = mxrt_context_create(&context_options, &opened.context, err);
    if (status == MX_OK && options->compiler)
        status = engine_set_compiler(opened.context, options->compiler, err);
    if (status == MX_OK)
        status = engine_add_packs(opened.context, options, err);
    if (status == MX_OK)
        status = mxrt_device_open(opened.context, options->device, &opened.device, err);
    if (status == MX_OK)
        status = mxrt_device_get_info(opened.device, &opened.info, err);
    if (status != MX_OK) {
        engine_close(&opened);
        return status;
    }
    *out = opened;
    return MX_OK;
}

void engine_close(tool_engine *engine)
{
    mxrt_device_close(engine->device);
    mxrt_context_destroy(engine->context);
    memset(engine, 0, sizeof(*engine));
}
