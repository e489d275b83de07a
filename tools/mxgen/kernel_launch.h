/* How a foreign kernel is launched: FILE.json, for one choice of parameters, in the pack's terms.
 */
#ifndef MXGEN_KERNEL_LAUNCH_H
#define MXGEN_KERNEL_LAUNCH_H

#include "kernel_file.h"

typedef struct kernel_launch {
    char *symbol;         /* of the function; NULL: all kernels of the file */
    json_t *inputs;       /* NULL: those of the function */
    json_t *args;         /* with inputs */
    json_t *grid, *block; /* three texts, or null */
    json_t *rules;
    int64_t block_size[3]; /* of a block that is constant; else 0, 0, 0 */
    int64_t shared_bytes;
    int64_t cost; /* lower is better */
} kernel_launch;

/* With ${NAME} replaced and every expression tried. */
mx_status kernel_launch_read(const kernel_file *file, const kernel_choice *choice,
                             kernel_launch *out, mx_error *err);
void kernel_launch_finish(kernel_launch *launch); /* takes a zeroed one, too */

/* The pack's `launch` of a compiled function, `compiled` being its member of the list that
 * gen/foreign.h has, and `info` the figures of the form that is stored. The function must take what
 * FILE.json says. */
mx_status kernel_launch_json(const kernel_file *file, const kernel_launch *launch,
                             const json_t *compiled, const json_t *info, char **out, mx_error *err);

#endif
