#include "mxrt_tool.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t tool_parse_integer(struct argp_state *state, const char *what, const char *text,
                           int64_t least, int64_t most)
{
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < least || value > most)
        argp_error(state, "%s \"%s\" is not an integer from %lld to %lld", what, text,
                   (long long)least, (long long)most);
    return value;
}

int64_t tool_parse_bytes(struct argp_state *state, const char *what, const char *text,
                         int64_t least)
{
    static const char suffixes[] = "KMGT";
    char *end = NULL;
    int64_t bytes = 0;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    const char *suffix = *end ? strchr(suffixes, *end) : NULL;
    int shift = suffix ? 10 * (int)(suffix - suffixes + 1) : 0;
    int bad = errno || end == text || (*end && (!suffix || end[1])) || value < 0;
    if (bad || __builtin_mul_overflow((int64_t)value, (int64_t)1 << shift, &bytes) || bytes < least)
        argp_error(state,
                   "%s \"%s\" is not a number of bytes (such as 65536, 64K, 256M or 2G) of "
                   "at least %lld",
                   what, text, (long long)least);
    return bytes;
}

double tool_parse_seconds(struct argp_state *state, const char *what, const char *text)
{
    char *end = NULL;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || value < 0 || value > 3600)
        argp_error(state, "%s \"%s\" is not a number of seconds from 0 to 3600", what, text);
    return value;
}

int tool_parse_shape(struct argp_state *state, const char *text, int64_t *shape, int capacity)
{
    int ndim = 0;
    const char *at = text;
    for (;;) {
        char *end = NULL;
        errno = 0;
        long long value = strtoll(at, &end, 10);
        if (errno || end == at || value < 1 || (*end && *end != 'x'))
            argp_error(state, "shape \"%s\" is not of the form 4096x4096", text);
        if (ndim == capacity)
            argp_error(state, "shape \"%s\" has more than %d dimensions", text, capacity);
        shape[ndim++] = value;
        if (!*end)
            return ndim;
        at = end + 1;
    }
}

mx_format tool_parse_format(struct argp_state *state, const char *text)
{
    mx_format format = MX_FORMAT_MX9;
    if (mx_format_parse(text, &format) != 0)
        argp_error(state, "format \"%s\" is unknown; the formats are " TOOL_FORMATS, text);
    return format;
}

void tool_add_op(struct argp_state *state, const char *part, void *user)
{
    mx_op op = MX_OP_TO;
    if (mx_op_parse(part, &op) != 0)
        argp_error(state, "op \"%s\" is unknown; the ops are to, from and qdq", part);
    *(unsigned *)user |= 1u << op;
}

void tool_add_format(struct argp_state *state, const char *part, void *user)
{
    *(unsigned *)user |= 1u << tool_parse_format(state, part);
}

void tool_add_dtype(struct argp_state *state, const char *part, void *user)
{
    mx_dtype dtype = MX_DTYPE_F32;
    if (mx_dtype_parse(part, &dtype) != 0)
        argp_error(state, "dtype \"%s\" is unknown; the types are f32, bf16 and f16", part);
    *(unsigned *)user |= 1u << dtype;
}

void tool_parse_list(struct argp_state *state, const char *text, void *user,
                     void (*parse)(struct argp_state *state, const char *part, void *user))
{
    char *copy = strdup(text), *rest = copy, *part;
    if (!copy)
        argp_failure(state, TOOL_EXIT_FAILURE, 0, "no memory");
    while ((part = strsep(&rest, ",")))
        parse(state, part, user);
    free(copy);
}

void tool_filter_parse(struct argp_state *state, regex_t *regex, int *has, const char *option,
                       const char *text)
{
    char why[200];
    if (*has)
        argp_error(state, "%s is given twice; join the expressions with |", option);
    int code = regcomp(regex, text, REG_EXTENDED | REG_NOSUB);
    if (code != 0) {
        regerror(code, regex, why, sizeof(why));
        argp_error(state, "%s \"%s\" is not a POSIX extended expression: %s", option, text, why);
    }
    *has = 1;
}

int tool_filter_keeps(const tool_filter *filter, const char *name)
{
    if (filter->has_include && regexec(&filter->include, name, 0, NULL, 0) != 0)
        return 0;
    return !filter->has_exclude || regexec(&filter->exclude, name, 0, NULL, 0) != 0;
}

void tool_filter_finish(tool_filter *filter)
{
    if (filter->has_include)
        regfree(&filter->include);
    if (filter->has_exclude)
        regfree(&filter->exclude);
    memset(filter, 0, sizeof(*filter));
}
