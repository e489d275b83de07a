/* The reference command of a kernel file ("check" of FILE.json), which judges what one launch did.
 */
#ifndef JUDGE_H
#define JUDGE_H

#include <jansson.h>

#include <mxgen/base.h>

/* The memory of an argument that is a pointer, before the launch and after it. */
typedef struct judge_memory {
    const char *name;
    const void *before, *after;
    size_t size_bytes;
} judge_memory;

/* "check" of FILE.json, a new reference; a file without one, or with one that is none, is an error.
 */
mx_status judge_read(const char *json_path, json_t **check, mx_error *err);

/* Whether "check" has the form that it must have. */
mx_status judge_check(const json_t *check, const char *json_path, mx_error *err);

/* Runs the command of `check` in a folder with args.json (`args` and the variant's name), and
 * NAME.in and NAME.out of each memory. Words that are names of files beside FILE.json become their
 * paths. A status other than 0 is MX_ERR_INVALID, with what the command printed. */
mx_status judge_run(const json_t *check, const char *json_path, const json_t *args,
                    const char *variant, const judge_memory *memory, size_t n, mx_error *err);

#endif
