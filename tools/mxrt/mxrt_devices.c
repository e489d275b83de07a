#include "mxrt_tool.h"

#include <stdlib.h>

#include <jansson.h>

#include <mxgen/error.h>

typedef struct devices_options {
    engine_options engine;
    int json;
} devices_options;

static error_t parse_devices(int key, char *arg, struct argp_state *state)
{
    devices_options *options = state->input;
    switch (key) {
    case 'j':
        options->json = 1;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument \"%s\"", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void print_devices(const mxrt_device_info *infos, size_t n, int json)
{
    static const char *const heads[] = {"<device", "<name", "<target", "units", NULL};
    tool_table *rows = table_create(heads);
    for (size_t i = 0; i < n; i++) {
        const mxrt_device_info *info = &infos[i];
        if (json) {
            json_t *line =
                json_pack("{s:s, s:s, s:s, s:i}", "device", info->uri, "name", info->name, "target",
                          info->target, "compute_units", info->compute_units);
            json_dumpf(line, stdout, JSON_COMPACT);
            putchar('\n');
            json_decref(line);
        } else {
            table_cell(rows, "%s", info->uri);
            table_cell(rows, "%s", info->name);
            table_cell(rows, "%s", info->target);
            table_cell(rows, "%d", info->compute_units);
        }
    }
    if (!json)
        table_print(rows, stdout);
    table_destroy(rows);
}

int cmd_devices(int argc, char **argv)
{
    static const struct argp_option option_table[] = {
        {"json", 'j', NULL, 0, "A JSON line a device", 0}, {0}};
    static const struct argp argp = {.options = option_table,
                                     .parser = parse_devices,
                                     .doc = "Lists the devices that can be used here."};
    enum { CAPACITY = 64 };
    devices_options options = {0};
    mxrt_context *context = NULL;
    mx_error err = {0};
    size_t n = 0;
    if (argp_parse(&argp, argc, argv, 0, NULL, &options))
        return TOOL_EXIT_USAGE;
    mxrt_device_info *infos = calloc(CAPACITY, sizeof(*infos));
    mx_status status = infos ? mxrt_context_create(NULL, &context, &err)
                             : mx_fail(&err, MX_ERR_NO_MEMORY, "no memory");
    if (status == MX_OK)
        status = mxrt_devices(context, infos, CAPACITY, &n, &err);
    if (status == MX_OK)
        print_devices(infos, n < CAPACITY ? n : CAPACITY, options.json);
    mxrt_context_destroy(context);
    free(infos);
    return status == MX_OK ? tool_finish_stdout() : tool_fail(&err);
}
