/* gemm_check --pack FILE [--device URI] [--variants N] [--every N] [--case TEXT] [--name TEXT]
 *            [--verbose]
 *
 * Runs every case of gemm_engine on every kernel of grouped GEMM that the pack has for the device;
 * of each kind the first N of --variants, on each kernel every Nth case of --every, other ones on
 * the next, and with --case and --name only those that contain the text. The exit status is 1 if
 * one fails, 77 if there is no kernel or no device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gemm_graph.h"

#define MAX_VARIANTS 256

typedef struct options {
    const char *pack, *device, *with, *named;
    size_t n_variants, every;
    int verbose;
    driver_graphs graphs; /* without a library on the host */
} options;

typedef struct tally {
    int passed, failed, left_out, kernels;
    double worst; /* share of the limit */
} tally;

static int usage(void)
{
    fprintf(stderr, "usage: gemm_check --pack FILE [--device URI] [--variants N] [--every N] "
                    "[--case TEXT] [--name TEXT] [--verbose]\n");
    return 2;
}

static int parse(int argc, char **argv, options *out)
{
    *out = (options){.device = "host", .n_variants = MAX_VARIANTS, .every = 1};
    for (int i = 1; i < argc; i++) {
        const char **text = !strcmp(argv[i], "--pack")     ? &out->pack
                            : !strcmp(argv[i], "--device") ? &out->device
                            : !strcmp(argv[i], "--case")   ? &out->with
                            : !strcmp(argv[i], "--name")   ? &out->named
                                                           : NULL;
        if (!strcmp(argv[i], "--verbose"))
            out->verbose = 1;
        else if (text && i + 1 < argc)
            *text = argv[++i];
        else if (!strcmp(argv[i], "--variants") && i + 1 < argc)
            out->n_variants = (size_t)atoi(argv[++i]);
        else if (!strcmp(argv[i], "--every") && i + 1 < argc)
            out->every = (size_t)atoi(argv[++i]);
        else
            return 0;
    }
    return out->pack && out->n_variants > 0 && out->n_variants <= MAX_VARIANTS && out->every > 0;
}

static void kind_text(const gemm_kind *kind, mx_gemm_pass pass, char *out, size_t out_bytes)
{
    snprintf(out, out_bytes, "%s %s.%s %s", mx_gemm_pass_name(pass),
             mx_gemm_element_name(kind->left), mx_gemm_element_name(kind->right),
             mx_dtype_get(kind->dtype)->name);
}

static void count(gemm_verdict verdict, const gemm_outcome *outcome, const char *what,
                  const char *name, const options *o, tally *t)
{
    if (verdict == GEMM_WRONG)
        printf("FAILED %s, %s: %s\n", name, what, outcome->text);
    else if (o->verbose && verdict == GEMM_NOT_APPLICABLE)
        printf("left out: %s, %s: %s\n", name, what, outcome->text);
    else if (o->verbose)
        printf("ok %s, %s: error %.3g of %.3g\n", name, what, outcome->error, outcome->limit);
    fflush(stdout);
    t->passed += verdict == GEMM_OK;
    t->failed += verdict == GEMM_WRONG;
    t->left_out += verdict == GEMM_NOT_APPLICABLE;
    if (verdict == GEMM_OK && outcome->limit > 0 && outcome->error / outcome->limit > t->worst)
        t->worst = outcome->error / outcome->limit;
}

static void check_variant(mxrt_device *device, mx_gemm_pass pass, const gemm_kind *kind,
                          const char *name, const options *o, tally *t)
{
    gemm_outcome outcome;
    char what[160], kinds[80];

    kind_text(kind, pass, kinds, sizeof(kinds));
    for (size_t i = 0; i < gemm_case_count(); i++) {
        const gemm_case *c = gemm_case_at(i);
        if (c->pass != pass || (o->with && !strstr(c->name, o->with)) ||
            (i + (size_t)t->kernels) % o->every)
            continue;
        snprintf(what, sizeof(what), "%s, %s", kinds, c->name);
        gemm_verdict verdict = gemm_case_run(device, c, kind, name, &outcome);
        count(verdict, &outcome, what, name, o, t);
    }
    if (!o->with || strstr("bad offsets", o->with)) {
        snprintf(what, sizeof(what), "%s, bad offsets", kinds);
        gemm_verdict verdict = gemm_bad_offsets_run(device, pass, kind, name, &outcome);
        count(verdict, &outcome, what, name, o, t);
    }
    if (o->graphs.library && (!o->with || strstr("graph", o->with))) {
        snprintf(what, sizeof(what), "%s, graph", kinds);
        gemm_verdict verdict = gemm_graph_run(device, &o->graphs, pass, kind, name, &outcome);
        count(verdict, &outcome, what, name, o, t);
    }
}

/* Kinds differ in the number that `i` counts. */
static mx_status check_kind(mxrt_device *device, int i, const options *o, tally *t, mx_error *err)
{
    const int n = MX_GEMM_ELEMENT_COUNT;
    gemm_kind kind = {.left = (mx_gemm_element)(i % n),
                      .right = (mx_gemm_element)(i / n % n),
                      .dtype = (mx_dtype)(i / n / n % MX_DTYPE_COUNT)};
    mx_gemm_pass pass = (mx_gemm_pass)(i / n / n / MX_DTYPE_COUNT);
    const char *names[MAX_VARIANTS];
    size_t n_names = 0;
    mx_status status = gemm_variants(device, pass, &kind, names, o->n_variants, &n_names, err);

    for (size_t k = 0; !status && k < n_names && k < o->n_variants; k++) {
        if (o->named && !strstr(names[k], o->named))
            continue;
        t->kernels++;
        check_variant(device, pass, &kind, names[k], o, t);
    }
    return status;
}

int main(int argc, char **argv)
{
    const int n_kinds =
        MX_GEMM_PASS_COUNT * MX_GEMM_ELEMENT_COUNT * MX_GEMM_ELEMENT_COUNT * MX_DTYPE_COUNT;
    mxrt_context *context = NULL;
    mxrt_device *device = NULL;
    mx_error err = {MX_OK, ""};
    tally t = {0};
    options o;

    if (!parse(argc, argv, &o))
        return usage();
    mx_status status = MX_OK;
    if (!strncmp(o.device, "cuda", 4) || !strncmp(o.device, "hip", 3))
        status = driver_graphs_open(&o.graphs, o.device[0] == 'c', &err);
    if (!status)
        status = mxrt_context_create(NULL, &context, &err);
    if (!status)
        status = mxrt_context_add_pack_file(context, o.pack, &err);
    if (!status)
        status = mxrt_device_open(context, o.device, &device, &err);
    if (status == MX_ERR_NOT_FOUND) {
        printf("%s\n", err.message);
        mxrt_context_destroy(context);
        return 77;
    }
    for (int i = 0; !status && i < n_kinds; i++)
        status = check_kind(device, i, &o, &t, &err);
    if (status)
        printf("%s\n", err.message);
    printf("%d kernels: %d cases passed, %d failed, %d not applicable; worst error %.2f of its "
           "limit\n",
           t.kernels, t.passed, t.failed, t.left_out, t.worst);
    mxrt_device_close(device);
    mxrt_context_destroy(context);
    return status || t.failed ? 1 : t.kernels ? 0 : 77;
}
