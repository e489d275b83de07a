/* mxrt: packs and unpacks safetensors files, lists devices, measures. See docs/man/mxrt.1. */
#include "mxrt_tool.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} command;

static const command commands[] = {
    {"devices", cmd_devices, "list the devices that can be used here"},
    {"quantize", cmd_quantize, "pack the tensors of a safetensors file"},
    {"dequantize", cmd_dequantize, "restore what quantize packed"},
    {"qdq", cmd_qdq, "round the tensors of a file to what a format keeps"},
    {"compare", cmd_compare, "tell how the tensors of two files differ"},
    {"bench", cmd_bench, "measure kernels against the device's own copy"},
    {"tune", cmd_tune, "measure kernels and keep what was found for later choices"},
    {"cache", cmd_cache, "list, merge, check and prune tuning files"},
    {"report", cmd_report, "pack and unpack a file in memory: sizes, SNR, speed"},
    {"make-model", cmd_make_model, "write a file of tensors to try things on"},
};

static char *help_filter(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)text;
    char *help = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&help, &size);
    if (!out)
        return (char *)text;
    fputs("Commands:\n", out);
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].summary);
    fputs("\n`mxrt COMMAND --help' tells more about a command.", out);
    fclose(out);
    return help;
}

static error_t parse_main(int key, char *arg, struct argp_state *state)
{
    const command **chosen = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
            if (!strcmp(arg, commands[i].name))
                *chosen = &commands[i];
        }
        if (!*chosen)
            argp_error(state, "command \"%s\" is unknown; mxrt --help lists them", arg);
        /* The rest belongs to the command. */
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which command? mxrt --help lists them");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp argp = {.parser = parse_main,
                                     .args_doc = "COMMAND [ARG...]",
                                     .doc =
                                         "Packs tensors into block-scaled (MX) formats and back.\v",
                                     .help_filter = help_filter};
    const command *chosen = NULL;
    char name[64];
    int at = 0;

    argp_program_version = "mxrt " MX_VERSION_STRING;
    argp_err_exit_status = TOOL_EXIT_USAGE;
    /* A file-size limit must be an error that can be told, as a full disk is. */
    signal(SIGXFSZ, SIG_IGN);
    st_writer_clean_on_signals();

    error_t failed = argp_parse(&argp, argc, argv, ARGP_IN_ORDER, &at, &chosen);
    if (failed || !chosen)
        return TOOL_EXIT_USAGE;
    for (at = 1; at < argc && strcmp(argv[at], chosen->name); at++)
        ;
    /* argp names the program in its messages by argv[0]. */
    snprintf(name, sizeof(name), "mxrt %s", chosen->name);
    argv[at] = name;
    return chosen->run(argc - at, argv + at);
}
