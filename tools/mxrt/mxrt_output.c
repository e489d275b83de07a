#include "mxrt_tool.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int tool_fail(const mx_error *err)
{
    fprintf(stderr, "mxrt: %s\n", err->message);
    return TOOL_EXIT_FAILURE;
}

int tool_finish_stdout(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    fprintf(stderr, "mxrt: cannot write to standard output: %s\n", strerror(errno));
    return TOOL_EXIT_FAILURE;
}

const char *tool_shape_text(size_t ndim, const int64_t *shape, char out[TOOL_SHAPE_BYTES])
{
    size_t n = 0;
    snprintf(out, TOOL_SHAPE_BYTES, "scalar");
    for (size_t i = 0; i < ndim; i++) {
        int put =
            snprintf(out + n, TOOL_SHAPE_BYTES - n, "%s%lld", i ? "x" : "", (long long)shape[i]);
        n += (size_t)put;
        if (n >= TOOL_SHAPE_BYTES - 24 && i + 1 < ndim) {
            snprintf(out + TOOL_SHAPE_BYTES - 24, 24, "x..");
            break;
        }
    }
    return out;
}

/* ---- Progress ---- */

double tool_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void progress_init(tool_progress *progress, int64_t total, int quiet)
{
    *progress = (struct tool_progress){.enabled = !quiet && isatty(STDERR_FILENO), .total = total};
}

void progress_add(tool_progress *progress, int64_t amount, const char *label)
{
    char name[ST_PRINTABLE_BYTES];
    const int width = 30;
    progress->done += amount;
    double now = tool_now();
    if (!progress->enabled || now - progress->last < 0.1)
        return;
    progress->last = now;
    double part = progress->total > 0 ? (double)progress->done / (double)progress->total : 1;
    int filled = part >= 1 ? width : (int)(part * width);
    fprintf(stderr, "\r[%.*s%*s] %3d%% %.40s\x1b[K", filled, "##############################",
            width - filled, "", (int)(100 * part), st_printable(label, name));
}

void progress_clear(tool_progress *progress)
{
    if (progress->enabled && progress->last > 0)
        fputs("\r\x1b[K", stderr);
    progress->enabled = 0;
}

/* ---- Tables ---- */

struct tool_table {
    size_t n_columns, n_cells, capacity;
    char **cells; /* the heads first */
    char *left;   /* a flag a column */
};

tool_table *table_create(const char *const *heads)
{
    tool_table *table = calloc(1, sizeof(*table));
    size_t n = 0;
    while (heads[n])
        n++;
    if (table)
        table->left = calloc(n, 1);
    if (!table || !table->left) {
        free(table);
        return NULL;
    }
    table->n_columns = n;
    for (size_t i = 0; i < n; i++) {
        table->left[i] = heads[i][0] == '<';
        table_cell(table, "%s", heads[i] + table->left[i]);
    }
    return table;
}

void table_cell(tool_table *table, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    if (!table)
        return;
    if (table->n_cells == table->capacity) {
        size_t capacity = table->capacity ? 2 * table->capacity : 256;
        char **cells = reallocarray(table->cells, capacity, sizeof(*cells));
        if (!cells)
            return;
        table->cells = cells;
        table->capacity = capacity;
    }
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    table->cells[table->n_cells++] = text;
}

static const char *cell_text(const tool_table *table, size_t index)
{
    return table->cells[index] ? table->cells[index] : "";
}

void table_print(const tool_table *table, FILE *out)
{
    if (!table)
        return;
    for (size_t at = 0; at + table->n_columns <= table->n_cells; at += table->n_columns) {
        for (size_t c = 0; c < table->n_columns; c++) {
            int width = 0, last = c + 1 == table->n_columns;
            for (size_t i = c; i < table->n_cells; i += table->n_columns) {
                int length = (int)strlen(cell_text(table, i));
                width = length > width ? length : width;
            }
            if (table->left[c])
                fprintf(out, "%-*s%s", last ? 0 : width, cell_text(table, at + c),
                        last ? "\n" : "  ");
            else
                fprintf(out, "%*s%s", width, cell_text(table, at + c), last ? "\n" : "  ");
        }
    }
}

void table_destroy(tool_table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->n_cells; i++)
        free(table->cells[i]);
    free(table->cells);
    free(table->left);
    free(table);
}
