/* mxgen targets */
#include <stdio.h>

#include <mxgen/error.h>

#include "cli.h"

static error_t targets_parse(int key, char *arg, struct argp_state *state)
{
    int *as_json = state->input;
    (void)arg;
    if (key == ARGP_KEY_ARG)
        argp_error(state, "too many arguments");
    if (key != 'j')
        return ARGP_ERR_UNKNOWN;
    *as_json = 1;
    return 0;
}

static mx_status targets_print_json(mx_error *err)
{
    json_t *list = json_array();
    for (size_t i = 0; i < mxgen_target_count(); i++) {
        const mxgen_target *target = mxgen_target_at(i);
        json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "name", mxgen_target_name(target),
                                              "kind", mxgen_target_kind(target), "summary",
                                              mxgen_target_summary(target)));
    }
    return cli_print_json(list, err);
}

mx_status cli_targets(int argc, char **argv, mx_error *err)
{
    static const struct argp_option options[] = {
        {"json", 'j', NULL, 0, "Print a JSON array", 0},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = targets_parse,
        .doc = "Lists what code can be generated for.",
    };
    int as_json = 0;
    if (argp_parse(&argp, argc, argv, 0, NULL, &as_json))
        return mx_fail(err, MX_ERR_INVALID, "the arguments cannot be read");
    if (as_json)
        return targets_print_json(err);
    for (size_t i = 0; i < mxgen_target_count(); i++) {
        const mxgen_target *target = mxgen_target_at(i);
        printf("%-8s  %-7s  %s\n", mxgen_target_name(target), mxgen_target_kind(target),
               mxgen_target_summary(target));
    }
    return MX_OK;
}
