/* What mxrt tune found, as JSON lines and as one page without anything from elsewhere. */
#include "mxrt_tune.h"

#include <errno.h>
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

static double gbps(const tune_problem *problem, const tune_result *result)
{
    return result && result->ms > 0 ? 1e-6 * (double)problem->bytes / result->ms : 0;
}

mx_status tune_write_json(const char *path, const char *device, const tune_problem *problems, int n,
                          mx_error *err)
{
    char shape[TOOL_SHAPE_BYTES];
    FILE *out;
    mx_status status = start(path, &out, err);
    for (int i = 0; i < n && status == MX_OK; i++) {
        const tune_problem *p = &problems[i];
        tool_shape_text((size_t)p->what.shape->ndim, p->what.shape->shape, shape);
        for (int k = 0; k < p->n_results; k++) {
            const tune_result *r = &p->results[k];
            json_t *line = json_pack(
                "{s:s,s:s,s:s,s:s,s:s,s:i,s:s,s:f,s:f,s:I,s:I,s:f,s:b,s:s}", "device", device, "op",
                mx_op_name(p->what.op), "format", mx_format_get(p->what.format)->name, "dtype",
                mx_dtype_get(p->what.dtype)->name, "shape", shape, "axis", p->what.shape->axis,
                "variant", r->variant, "ms", r->ms, "spread", r->spread, "samples",
                (json_int_t)r->samples, "bytes", (json_int_t)p->bytes, "gbps", gbps(p, r), "model",
                !strcmp(p->model, r->variant), "note", r->note);
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
    char shape[TOOL_SHAPE_BYTES];
    fprintf(out, "%s %s %s, %s, axis %d", mx_op_name(p->what.op),
            mx_format_get(p->what.format)->name, mx_dtype_get(p->what.dtype)->name,
            tool_shape_text((size_t)p->what.shape->ndim, p->what.shape->shape, shape),
            p->what.shape->axis);
}

/* Speed of every variant, the model's choice dark. */
static void put_bars(FILE *out, const tune_problem *p)
{
    double most = gbps(p, tune_best(p));
    int y = 0;
    fprintf(out, "<details><summary>");
    put_title(out, p);
    fprintf(out, ": %.1f GB/s</summary><svg width=\"%d\" height=\"%d\" font-size=\"10\">\n", most,
            2 * PLOT_WIDTH, BAR_HEIGHT * p->n_results + 4);
    for (int i = 0; i < p->n_results; i++, y += BAR_HEIGHT) {
        const tune_result *r = &p->results[i];
        double speed = gbps(p, r);
        fprintf(out,
                "<rect x=\"0\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/><text x=\"%d\" "
                "y=\"%d\">%.1f GB/s ",
                y + 1, most > 0 ? PLOT_WIDTH * speed / most : 0.0, BAR_HEIGHT - 3,
                !strcmp(p->model, r->variant) ? "#1f4e79" : "#9dc3e6", PLOT_WIDTH + 6, y + 11,
                speed);
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

static void put_choices(FILE *out, const tune_problem *problems, int n)
{
    fputs("<h2>Best choices</h2><table><tr><th>problem<th>variant<th>ms<th>spread<th>GB/s<th>"
          "model's choice, by the best</tr>\n",
          out);
    for (int i = 0; i < n; i++) {
        const tune_problem *p = &problems[i];
        const tune_result *best = tune_best(p), *model = tune_find(p, p->model);
        fputs("<tr><td>", out);
        put_title(out, p);
        fputs("<td>", out);
        put_text(out, best ? best->variant : p->error[0] ? p->error : "none");
        if (best)
            fprintf(out, "<td>%.4f<td>%.1f %%<td>%.1f", best->ms, 100 * best->spread,
                    gbps(p, best));
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
    put_model_plot(out, problems, n);
    fputs("<h2>Speed of every variant</h2>\n", out);
    for (int i = 0; i < n; i++)
        put_bars(out, &problems[i]);
    fputs("</body></html>\n", out);
    return finish(out, path, err);
}
