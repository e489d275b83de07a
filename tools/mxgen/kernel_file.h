/* A kernel that somebody else wrote: FILE.mlir, FILE.ll or FILE.bc, and beside it FILE.json, which
 * tells its parameters, where it applies, how it is launched and what it takes. */
#ifndef MXGEN_KERNEL_FILE_H
#define MXGEN_KERNEL_FILE_H

#include <jansson.h>
#include <stdbool.h>

#include "gen/gen.h"

enum { KERNEL_MOST_PARAMS = 12, KERNEL_MOST_VALUES = 256, KERNEL_MOST_CHOICES = 4096 };

typedef enum kernel_language { KERNEL_MLIR = 0, KERNEL_LLVM, KERNEL_BITCODE } kernel_language;

/* Values are numbers where they look like some; texts where not. Owned. */
typedef struct kernel_param {
    char *name;
    char **values;
    size_t n_values;
} kernel_param;

typedef struct kernel_file {
    char *path, *json_path; /* json_path NULL: there is none */
    kernel_language language;
    char *text; /* zero-terminated */
    size_t text_bytes;
    json_t *json; /* an object, empty without a file */
    kernel_param params[KERNEL_MOST_PARAMS];
    size_t n_params;
} kernel_file;

/* One value of each parameter, by number. */
typedef struct kernel_choice {
    size_t values[KERNEL_MOST_PARAMS];
} kernel_choice;

/* A parameter given on the command line, "NAME=VALUE": the only value that is taken. */
mx_status kernel_file_open(const char *path, const char *const *given, size_t n_given,
                           kernel_file *out, mx_error *err);
void kernel_file_close(kernel_file *file); /* takes a zeroed one, too */

/* Whether FILE.json restricts the kernel to other targets. */
bool kernel_file_excludes(const kernel_file *file, const mxgen_target *target);

/* The choices that apply to the target, in order of the list of values, the last parameter fastest.
 * None is an error, with the rule that never holds. free(). */
mx_status kernel_file_choices(const kernel_file *file, const mxgen_target *target,
                              kernel_choice **out, size_t *n, mx_error *err);

/* A text with ${NAME} replaced, malloc'ed. An unknown name is an error with its line and column. */
mx_status kernel_file_substitute(const kernel_file *file, const kernel_choice *choice,
                                 const char *where, const char *text, char **out, mx_error *err);

/* {"NAME": value, ..} */
json_t *kernel_file_params(const kernel_file *file, const kernel_choice *choice);

#endif
