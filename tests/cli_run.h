/* Runs a command line tool and keeps what it printed; for tests of tools. */
#ifndef MX_TESTS_CLI_RUN_H
#define MX_TESTS_CLI_RUN_H

#include <stddef.h>

typedef struct cli_run {
    int exit_code; /* -1: ended by a signal */
    char *out, *err;
    size_t out_bytes;
} cli_run;

/* `argv[0]` is the path of the program. Fails the running test if it cannot be started. */
void cli_run_start(cli_run *run, const char *const *argv);
void cli_run_finish(cli_run *run);

/* A fresh folder, and its removal with all that is in it. */
char *cli_temp_create(void);
void cli_temp_destroy(char *path);
/* "DIR/NAME", to be freed. */
char *cli_temp_path(const char *dir, const char *name);
/* The whole file, zero-terminated, to be freed; fails the running test if it is not there. */
char *cli_temp_read(const char *path, size_t *size_bytes);

#endif
