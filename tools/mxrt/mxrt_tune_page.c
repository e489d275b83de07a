/* What mxrt tune found, as JSON lines and as one page without anything from elsewhere. */
#include "mxrt_tune.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include <jansson.h>

#include <mxgen/error.h>

enum { PLOT_WIDTH = 640, BAR_HEIGHT = 14 };

static mx_status finish(FILE *out, const char *path, mx_error *err)
{
    int failed = ferror(out);
    failed = fclose(out) || failed;
    return failed ? mx_fail(err, MX_ERR_IO, "cannot write %.500s", path) : MX_OK;
}

static mx_status start(const char *path, FILE **out, mx_error *err)
{
    if (!(*out = fopen(path, "w")))
        return mx_fail(err, MX_ERR_IO, "cannot write %.500s: %s", path, strerror(errno));
    return MX_OK;
}

static json_t *result_json(const char *device, const tune_problem *p, const tune_result *r)
{
    json_t *line = json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:f,s:f,s:I,s:I,s:f,s:b,s:s}", "device",
                             device, "op", p->product ? "grouped_gemm" : p->op, "format", p->format,
                             "dtype", p->dtype, "shape", p->shape, "variant", r->variant, "ms",
                             r->ms, "spread", r->spread, "samples", (json_int_t)r->samples, "bytes",
                             (json_int_t)p->bytes, p->product ? "tflops" : "gbps", tune_speed(p, r),
                             "model", !strcmp(p->model, r->variant), "note", r->note);
    if (p->product) {
        json_object_set_new(line, "pass", json_string(p->op));
        json_object_set_new(line, "mode", json_string(p->detail));
    } else {
        json_object_set_new(line, "axis", json_integer(p->blocks->shape->axis));
    }
    return line;
}

mx_status tune_write_json(const char *path, const char *device, const tune_problem *problems, int n,
                          mx_error *err)
{
    FILE *out;
    mx_status status = start(path, &out, err);
    for (int i = 0; i < n && status == MX_OK; i++) {
        for (int k = 0; k < problems[i].n_results; k++) {
            json_t *line = result_json(device, &problems[i], &problems[i].results[k]);
            json_dumpf(line, out, JSON_COMPACT | JSON_REAL_PRECISION(6));
            fputc('\n', out);
            json_decref(line);
        }
    }
    return status == MX_OK ? finish(out, path, err) : status;
}

/* ---- The page ---- */

static void put_text(FILE *out, const char *text)
{
    for (; *text; text++) {
        const char *entity = *text == '&'   ? "&amp;"
                             : *text == '<' ? "&lt;"
                             : *text == '>' ? "&gt;"
                             : *text == '"' ? "&quot;"
                                            : NULL;
        if (entity)
            fputs(entity, out);
        else
            fputc(*text, out);
    }
}

static void put_title(FILE *out, const tune_problem *p)
{
    fprintf(out, "%s %s %s, %s, %s", p->op, p->format, p->dtype, p->shape, p->detail);
}

/* Speed of every variant, the model's choice dark. */
static void put_bars(FILE *out, const tune_problem *p)
{
    double most = tune_speed(p, tune_best(p));
    int y = 0;
    fprintf(out, "<details><summary>");
    put_title(out, p);
    fprintf(out, ": %.1f %s</summary><svg width=\"%d\" height=\"%d\" font-size=\"10\">\n", most,
            tune_unit(p), 2 * PLOT_WIDTH, BAR_HEIGHT * p->n_results + 4);
    for (int i = 0; i < p->n_results; i++, y += BAR_HEIGHT) {
        const tune_result *r = &p->results[i];
        double speed = tune_speed(p, r);
        fprintf(out,
                "<rect x=\"0\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/><text x=\"%d\" "
                "y=\"%d\">%.1f %s ",
                y + 1, most > 0 ? PLOT_WIDTH * speed / most : 0.0, BAR_HEIGHT - 3,
                !strcmp(p->model, r->variant) ? "#1f4e79" : "#9dc3e6", PLOT_WIDTH + 6, y + 11,
                speed, tune_unit(p));
        put_text(out, r->variant);
        put_text(out, r->note[0] ? ": " : "");
        put_text(out, r->note);
        fputs("</text>\n", out);
    }
    fputs("</svg></details>\n", out);
}

/* How far the model's choice is from the best, problem by problem. */
static void put_model_plot(FILE *out, const tune_problem *problems, int n)
{
    double width = n > 0 ? (double)PLOT_WIDTH / n : PLOT_WIDTH;
    fprintf(out,
            "<h2>The model's choice against the best measured</h2><svg width=\"%d\" height=\"130\" "
            "font-size=\"10\"><line x1=\"0\" x2=\"%d\" y1=\"20\" y2=\"20\" "
            "stroke=\"gray\"/><text x=\"%d\" y=\"24\">best</text><text x=\"%d\" y=\"124\">half "
            "as fast</text>\n",
            PLOT_WIDTH + 90, PLOT_WIDTH, PLOT_WIDTH + 4, PLOT_WIDTH + 4);
    for (int i = 0; i < n; i++) {
        const tune_result *best = tune_best(&problems[i]);
        const tune_result *model = tune_find(&problems[i], problems[i].model);
        if (!best || !model || !model->samples)
            continue;
        double share = best->ms / model->ms;
        double depth = 200 * (1 - (share > 0.5 ? share : 0.5));
        fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"#c55a11\"><title>",
                width * (i + 0.5), 20 + depth);
        put_title(out, &problems[i]);
        fprintf(out, ": %.1f %%</title></circle>\n", 100 * share);
    }
    fputs("</svg>\n", out);
}

/* ---- Groups of problems ---- */

static const char *const colours[] = {"#1f4e79", "#c55a11", "#548235", "#7030a0", "#bf9000",
                                      "#2e75b6", "#a50021", "#007a7a", "#7f7f7f", "#d16ba5"};
enum { COLOURS = sizeof(colours) / sizeof(colours[0]), MAX_LEGEND = 256 };

static int same_key(const tune_problem *a, const tune_problem *b)
{
    return !strcmp(a->op, b->op) && !strcmp(a->format, b->format) && !strcmp(a->dtype, b->dtype);
}

/* Whether problem `i` is the first of its operation, format and type. */
static int leads(const tune_problem *problems, int i)
{
    int first = 0;
    while (!same_key(&problems[first], &problems[i]))
        first++;
    return first == i;
}

static void put_key(FILE *out, const tune_problem *p)
{
    fprintf(out, "%s %s %s", p->op, p->format, p->dtype);
}

/* The variants that are best somewhere among the problems of a key, or of all (key NULL). Returns
 * their number. */
static int list_winners(const tune_problem *problems, int n, const tune_problem *key,
                        const char *names[MAX_LEGEND])
{
    int found = 0;
    for (int i = 0; i < n; i++) {
        const tune_result *best = tune_best(&problems[i]);
        int k = 0;
        if (!best || (key && !same_key(&problems[i], key)))
            continue;
        while (k < found && strcmp(names[k], best->variant) != 0)
            k++;
        if (k == found && found < MAX_LEGEND)
            names[found++] = best->variant;
    }
    return found;
}

/* ---- Speed against size ---- */

typedef struct axes {
    double least, most; /* log2 of bytes */
    double speed;       /* at the top */
} axes;

static axes axes_of(const tune_problem *problems, int n, const tune_problem *key)
{
    axes a = {.least = 1e9, .most = 0, .speed = 1};
    for (int i = 0; i < n; i++) {
        double size = problems[i].bytes > 0 ? log2((double)problems[i].bytes) : 0;
        double speed = tune_speed(&problems[i], tune_best(&problems[i]));
        if (!same_key(&problems[i], key) || size <= 0)
            continue;
        a.least = size < a.least ? size : a.least;
        a.most = size > a.most ? size : a.most;
        a.speed = speed > a.speed ? speed : a.speed;
    }
    return a;
}

static void put_point(FILE *out, const axes *a, const tune_problem *p, const tune_result *r,
                      const char *colour)
{
    double span = a->most > a->least ? a->most - a->least : 1;
    fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"><title>",
            10 + (PLOT_WIDTH - 20) * (log2((double)p->bytes) - a->least) / span,
            190 - 180 * tune_speed(p, r) / a->speed, colour);
    put_title(out, p);
    fprintf(out, ", %.1f %s: ", tune_speed(p, r), tune_unit(p));
    put_text(out, r->variant);
    fputs("</title></circle>\n", out);
}

/* Each variant that is best somewhere has a colour. */
static void put_sizes(FILE *out, const tune_problem *problems, int n, const tune_problem *key)
{
    const char *names[MAX_LEGEND];
    int n_names = list_winners(problems, n, key, names);
    axes a = axes_of(problems, n, key);
    if (!n_names)
        return;
    fputs("<h3>", out);
    put_key(out, key);
    fprintf(out,
            "</h3><svg width=\"%d\" height=\"%d\" font-size=\"10\"><rect width=\"%d\" "
            "height=\"200\" fill=\"none\" stroke=\"#bbb\"/><text x=\"4\" y=\"12\">%.0f "
            "%s</text><text x=\"4\" y=\"212\">%.3g MB</text><text x=\"%d\" "
            "y=\"212\">%.3g MB</text>\n",
            2 * PLOT_WIDTH, 220 > 14 * n_names ? 220 : 14 * n_names, PLOT_WIDTH, a.speed,
            tune_unit(key), 1e-6 * exp2(a.least), PLOT_WIDTH - 50, 1e-6 * exp2(a.most));
    for (int k = 0; k < n_names; k++) {
        const char *colour = colours[k % COLOURS];
        for (int i = 0; i < n; i++) {
            const tune_result *r = tune_find(&problems[i], names[k]);
            if (same_key(&problems[i], key) && r && r->samples)
                put_point(out, &a, &problems[i], r, colour);
        }
        fprintf(out, "<text x=\"%d\" y=\"%d\" fill=\"%s\">", PLOT_WIDTH + 6, 12 + 14 * k, colour);
        put_text(out, names[k]);
        fputs("</text>\n", out);
    }
    fputs("</svg>\n", out);
}

/* ---- Which is best where ---- */

static int same_shape(const tune_problem *a, const tune_problem *b)
{
    return !strcmp(a->shape, b->shape) && !strcmp(a->detail, b->detail);
}

static void put_cell(FILE *out, const tune_problem *p, const char *const *names, int n_names)
{
    const tune_result *best = tune_best(p);
    int k = 0;
    while (best && k < n_names && strcmp(names[k], best->variant) != 0)
        k++;
    if (!best || k == n_names) {
        fputs("<td>", out);
        return;
    }
    fprintf(out, "<td style=\"background:%s;color:white\" title=\"", colours[k % COLOURS]);
    put_text(out, best->variant);
    fprintf(out, "\">%d", k + 1);
}

/* A row a key, a column a shape; cells have the number of the variant in the list below. */
static void put_map(FILE *out, const tune_problem *problems, int n)
{
    const char *names[MAX_LEGEND];
    int n_names = list_winners(problems, n, NULL, names);
    fputs("<h2>Which is best where</h2><table><tr><th>", out);
    for (int i = 0; i < n; i++) {
        if (same_key(&problems[i], &problems[0]))
            fprintf(out, "<th>%s, %s", problems[i].shape, problems[i].detail);
    }
    for (int i = 0; i < n; i++) {
        if (!leads(problems, i))
            continue;
        fputs("<tr><td>", out);
        put_key(out, &problems[i]);
        for (int k = 0; k < n; k++) {
            if (!same_key(&problems[k], &problems[0]))
                continue;
            int cell = 0;
            while (cell < n && !(same_key(&problems[cell], &problems[i]) &&
                                 same_shape(&problems[cell], &problems[k])))
                cell++;
            if (cell < n)
                put_cell(out, &problems[cell], names, n_names);
            else
                fputs("<td>", out);
        }
    }
    fputs("</table><ol>\n", out);
    for (int k = 0; k < n_names; k++) {
        fputs("<li>", out);
        put_text(out, names[k]);
    }
    fputs("</ol>\n", out);
}

static void put_choices(FILE *out, const tune_problem *problems, int n)
{
    fprintf(out,
            "<h2>Best choices</h2><table><tr><th>problem<th>variant<th>ms<th>spread<th>%s<th>"
            "model's choice, by the best</tr>\n",
            n ? tune_unit(&problems[0]) : "");
    for (int i = 0; i < n; i++) {
        const tune_problem *p = &problems[i];
        const tune_result *best = tune_best(p), *model = tune_find(p, p->model);
        fputs("<tr><td>", out);
        put_title(out, p);
        fputs("<td>", out);
        put_text(out, best ? best->variant : p->error[0] ? p->error : "none");
        if (best)
            fprintf(out, "<td>%.4f<td>%.1f %%<td>%.1f", best->ms, 100 * best->spread,
                    tune_speed(p, best));
        if (best && model && model->samples)
            fprintf(out, "<td>%.3f", best->ms / model->ms);
        fputs("</tr>\n", out);
    }
    fputs("</table>\n", out);
}

mx_status tune_write_page(const char *path, const char *device, const tune_problem *problems, int n,
                          mx_error *err)
{
    FILE *out;
    mx_status status = start(path, &out, err);
    if (status != MX_OK)
        return status;
    fputs("<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>mxrt tune</title>"
          "<style>body{font:14px sans-serif;margin:2em}td,th{padding:2px 10px;text-align:left;"
          "border-bottom:1px solid #ddd}</style></head><body><h1>mxrt tune: ",
          out);
    put_text(out, device);
    fputs("</h1>\n", out);
    put_choices(out, problems, n);
    if (n)
        put_map(out, problems, n);
    put_model_plot(out, problems, n);
    fputs("<h2>Speed against size</h2>\n", out);
    for (int i = 0; i < n; i++) {
        if (leads(problems, i))
            put_sizes(out, problems, n, &problems[i]);
    }
    fputs("<h2>Speed of every variant</h2>\n", out);
    for (int i = 0; i < n; i++)
        put_bars(out, &problems[i]);
    fputs("</body></html>\n", out);
    return finish(out, path, err);
}
