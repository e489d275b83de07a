/* mxgen: builds, lists and shows kernels. Each subcommand has a file of its own. */
#include <stdio.h>
#include <string.h>

#include "cli.h"

typedef struct main_command {
    const char *name, *title; /* title: argv[0] of the subcommand */
    cli_command_fn run;
    const char *summary;
} main_command;

static const main_command main_commands[] = {
    {"targets", "mxgen targets", cli_targets, "list what code can be generated for"},
    {"build", "mxgen build", cli_build, "build a kernel pack"},
    {"compile", "mxgen compile", cli_compile, "compile kernels in MLIR or LLVM IR into a pack"},
    {"list", "mxgen list", cli_list, "list the kernels in a pack"},
    {"show", "mxgen show", cli_show, "show the code of a kernel, or what it needs"},
    {"plan", "mxgen plan", cli_plan, "show how an operation will be launched"},
    {"export", "mxgen export", cli_export, "write kernels that Triton's launcher runs"},
    {"loop", "mxgen loop", cli_loop, "model how busy a main loop keeps the matrix unit"},
};

enum { MAIN_COMMAND_COUNT = sizeof(main_commands) / sizeof(main_commands[0]) };

typedef struct main_state {
    const main_command *command;
    int first_arg; /* index of the subcommand in argv */
} main_state;

static error_t main_parse(int key, char *arg, struct argp_state *state)
{
    main_state *parsed = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        for (size_t i = 0; i < MAIN_COMMAND_COUNT; i++) {
            if (!strcmp(arg, main_commands[i].name))
                parsed->command = &main_commands[i];
        }
        if (!parsed->command)
            argp_error(state, "unknown command \"%s\"", arg);
        parsed->first_arg = state->next - 1;
        state->next = state->argc; /* the rest belongs to the command */
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no command given");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static char *main_help(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)text;
    char *help = NULL;
    size_t size_bytes = 0;
    FILE *stream = open_memstream(&help, &size_bytes);
    if (!stream)
        return NULL;
    fputs("Commands:\n", stream);
    for (size_t i = 0; i < MAIN_COMMAND_COUNT; i++)
        fprintf(stream, "  %-8s %s\n", main_commands[i].name, main_commands[i].summary);
    fputs("\nmxgen COMMAND --help tells the options of a command; see also mxgen(1).\n", stream);
    return fclose(stream) ? NULL : help;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        .parser = main_parse,
        .args_doc = "COMMAND [ARGUMENT...]",
        /* What follows the vertical tab goes through main_help as the text after the options. */
        .doc = "Generates GPU and CPU kernels for block-scaled (MX) formats.\v ",
        .help_filter = main_help,
    };
    argp_program_version = "mxgen " MX_VERSION_STRING;
    argp_err_exit_status = CLI_EXIT_USAGE;
    main_state state = {0};
    if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &state))
        return CLI_EXIT_USAGE;

    char **command_argv = argv + state.first_arg;
    command_argv[0] = (char *)state.command->title;
    mx_error err = {0};
    mx_status status = state.command->run(argc - state.first_arg, command_argv, &err);
    if (status == MX_OK)
        status = cli_finish_output(&err);
    if (status != MX_OK) {
        fprintf(stderr, "%s: %s\n", state.command->title, err.message);
        return CLI_EXIT_FAILURE;
    }
    return CLI_EXIT_OK;
}
