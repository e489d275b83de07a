/* ptxas reads and writes files, so it runs in a folder of its own, under names that are always the
 * same: what it stores of them does not depend on the run. */
#include "gen/ptxas.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/process.h"
#include "gen/resources.h"
#include "gen/scratch.h"
#include "gen/target.h"
#include "mxgen/error.h"

/* The first release that reads PTX 8.0, which the target table asks LLVM for. */
enum { LEAST_RELEASE = 12, SHOWN_BYTES = MXGEN_PROCESS_SHOWN_BYTES };

static const char usual_path[] = "/usr/local/cuda/bin/ptxas";

/* ---- Finding ---- */

static bool take_program(const char *path, mxgen_ptxas *out)
{
    return mxgen_process_find(path, out->path, sizeof(out->path));
}

static bool search(mxgen_ptxas *out)
{
    const char *at = getenv("PATH");
    while (at && *at) {
        char path[PATH_MAX];
        int length = (int)strcspn(at, ":");
        int n = snprintf(path, sizeof(path), "%.*s/ptxas", length, at);
        if (length > 0 && (size_t)n < sizeof(path) && take_program(path, out))
            return true;
        at += length + (at[length] == ':');
    }
    return take_program(usual_path, out);
}

/* "Cuda compilation tools, release 12.4, V12.4.131" */
static bool read_version(const char *log, mxgen_ptxas *out)
{
    const char *at = strstr(log, "release ");
    at = at ? strstr(at, ", V") : NULL;
    if (!at)
        return false;
    at += 3;
    size_t length = strspn(at, "0123456789.");
    if (!isdigit((unsigned char)*at) || length >= sizeof(out->version))
        return false;
    memcpy(out->version, at, length);
    out->version[length] = 0;
    return true;
}

static mx_status ask_version(mxgen_ptxas *found, mx_error *err)
{
    mxgen_scratch scratch = {""};
    char *log = NULL;
    const char *const argv[] = {found->path, "--version", NULL};
    mx_status status = mxgen_scratch_create(&scratch, err);
    if (status == MX_OK)
        status = mxgen_process_run(argv, &scratch, &log, NULL, err);
    if (status == MX_OK && !read_version(log, found))
        status = mx_fail(err, MX_ERR_UNSUPPORTED, "%s does not tell its version: %.*s", found->path,
                         SHOWN_BYTES, log);
    free(log);
    mxgen_scratch_destroy(&scratch);
    return status;
}

mx_status mxgen_ptxas_find(const char *wanted, mxgen_ptxas *out, mx_error *err)
{
    mxgen_ptxas found = {.path = ""};
    const char *named = wanted ? wanted : getenv("MXGEN_PTXAS");
    if (named && !strcmp(named, "off")) {
        *out = found;
        return MX_OK;
    }
    bool is_named = named && *named;
    if (is_named ? !take_program(named, &found) : !search(&found)) {
        if (is_named)
            return mx_fail(err, MX_ERR_NOT_FOUND,
                           "%s is no program: name NVIDIA's ptxas, or \"off\" for packs with PTX "
                           "only",
                           named);
        *out = found;
        return MX_OK;
    }
    mx_error reason = {MX_OK, ""};
    mx_status status = ask_version(&found, &reason);
    if (status != MX_OK && is_named)
        return mx_fail(err, status, "%s", reason.message);
    if (status != MX_OK)
        snprintf(found.note, sizeof(found.note), "%s; the pack gets PTX only", reason.message);
    else if (strtol(found.version, NULL, 10) < LEAST_RELEASE)
        snprintf(found.note, sizeof(found.note),
                 "%s is release %s, the kernels need %d.0 or newer; the pack gets PTX only",
                 found.path, found.version, (int)LEAST_RELEASE);
    if (found.note[0])
        found.path[0] = 0;
    *out = found;
    return MX_OK;
}

/* ---- Figures ---- */

/* The number before `what` in [text, end); -1 if there is none. */
static int number_before(const char *text, const char *end, const char *what)
{
    const char *at = strstr(text, what);
    if (!at || at >= end)
        return -1;
    const char *first = at;
    while (first > text && isdigit((unsigned char)first[-1]))
        first--;
    return first < at ? (int)strtol(first, NULL, 10) : -1;
}

/* What `-v` prints of one kernel: the text up to the next kernel's. */
static void read_figures(const char *log, const char *symbol, mxgen_resources *out)
{
    static const char head[] = "Compiling entry function '";
    size_t length = strlen(symbol);
    const char *at = strstr(log, head);
    while (at && (strncmp(at + sizeof(head) - 1, symbol, length) ||
                  at[sizeof(head) - 1 + length] != '\''))
        at = strstr(at + 1, head);
    if (!at)
        return;
    const char *end = strstr(at + 1, head);
    if (!end)
        end = at + strlen(at);
    int stored_bytes = number_before(at, end, " bytes spill stores");
    int shared_bytes = number_before(at, end, " bytes smem");
    out->registers = number_before(at, end, " registers");
    out->scratch_bytes = number_before(at, end, " bytes stack frame");
    out->spills = stored_bytes < 0 ? -1 : (stored_bytes + 3) / 4;
    /* It is silent about kernels without shared memory. */
    out->lds_bytes = shared_bytes >= 0 || out->registers < 0 ? shared_bytes : 0;
}

void mxgen_ptxas_figures(const mxgen_target *target, const void *cubin, size_t cubin_bytes,
                         const char *log, const char *symbol, mxgen_resources *out)
{
    mxgen_resources_read(target, cubin, cubin_bytes, symbol, out);
    read_figures(log, symbol, out);
    if (out->registers >= 0)
        out->occupancy = mxgen_target_occupancy(target, out->registers);
}

static mx_status fill_info(const mxgen_spec *specs, size_t n_specs, const char *log,
                           const uint64_t *code_ids, mxgen_output *out, mx_error *err)
{
    const mxgen_target *target = specs[0].target;
    out->info_json = calloc(n_specs, sizeof(*out->info_json));
    if (!out->info_json)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu kernels' figures", n_specs);
    out->n_info = n_specs;
    mx_status status = MX_OK;
    for (size_t i = 0; i < n_specs && status == MX_OK; i++) {
        mxgen_resources figures;
        mxgen_ptxas_figures(target, out->data, out->size_bytes, log, specs[i].symbol, &figures);
        status = mxgen_resources_json(&figures, &specs[i], code_ids[i], &out->info_json[i], err);
    }
    return status;
}

/* ---- Assembling ---- */

mx_status mxgen_ptxas_run(const mxgen_ptxas *ptxas, const mxgen_target *target, const void *ptx,
                          size_t ptx_bytes, void **cubin, size_t *cubin_bytes, char **log,
                          mx_error *err)
{
    mxgen_scratch scratch = {""};
    char arch[40];
    snprintf(arch, sizeof(arch), "-arch=%s", target->cpu);
    const char *const argv[] = {ptxas->path, arch, "-v", "-o", "out.cubin", "in.ptx", NULL};
    *log = NULL;
    mx_status status = mxgen_scratch_create(&scratch, err);
    if (status == MX_OK)
        status = mxgen_scratch_write(&scratch, "in.ptx", ptx, ptx_bytes, err);
    if (status == MX_OK)
        status = mxgen_process_run(argv, &scratch, log, NULL, err);
    if (status == MX_OK)
        status = mxgen_scratch_read(&scratch, "out.cubin", cubin, cubin_bytes, err);
    mxgen_scratch_destroy(&scratch);
    return status;
}

mx_status mxgen_ptxas_assemble(const mxgen_ptxas *ptxas, const mxgen_spec *specs, size_t n_specs,
                               const mxgen_output *ptx, mxgen_output *cubin, mx_error *err)
{
    mxgen_output made = {0};
    mx_error reason = {MX_OK, ""};
    char *log = NULL;
    mx_status status = mxgen_ptxas_run(ptxas, specs[0].target, ptx->data, ptx->size_bytes,
                                       &made.data, &made.size_bytes, &log, &reason);
    if (status == MX_OK)
        status = fill_info(specs, n_specs, log, ptx->code_ids, &made, err);
    else
        mx_fail(err, status, "kernel %s and the %zu others of its module: %.900s", specs[0].name,
                n_specs - 1, reason.message);
    if (status == MX_OK)
        *cubin = made;
    else
        mxgen_output_finish(&made);
    free(log);
    return status;
}
