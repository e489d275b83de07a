#include "gen/comgr.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <llvm-c/Core.h>

#include "gen/comgr_protocol.h"
#include "gen/process.h"
#include "gen/target.h"
#include "mxgen/error.h"

static const char helper_name[] = "mxgen-comgr", helper_env[] = "MXGEN_COMGR_HELPER";

int mxgen_codegen_parse(const char *text, mxgen_codegen *out)
{
    static const char *const names[] = {"llvm", "auto", "comgr", "comgr-link", "comgr-bitcode"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!strcmp(names[i], text)) {
            *out = (mxgen_codegen)i;
            return 0;
        }
    }
    return -1;
}

/* ---- The helper ---- */

static mx_status find_helper(mxgen_comgr *found, mx_error *err)
{
    char path[PATH_MAX];
    const char *named = getenv(helper_env);
    if (named && *named) {
        if (mxgen_process_find(named, found->helper, sizeof(found->helper)))
            return MX_OK;
        return mx_fail(err, MX_ERR_NOT_FOUND, "%s, which %s names, is no program", named,
                       helper_env);
    }
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof(helper_name));
    path[n > 0 ? n : 0] = 0;
    char *slash = strrchr(path, '/');
    if (slash) {
        strcpy(slash + 1, helper_name);
        if (mxgen_process_find(path, found->helper, sizeof(found->helper)))
            return MX_OK;
    }
    return mx_fail(err, MX_ERR_NOT_FOUND,
                   "%s, which loads ROCm's comgr, is not at %s: install it beside mxgen, or set %s",
                   helper_name, path, helper_env);
}

/* Its statuses have messages of their own; others are what happened to the program. */
static mx_status run_helper(const char *const *argv, const mxgen_scratch *scratch, char **log,
                            mx_error *err)
{
    static const mx_status statuses[] = {
        [MXGEN_COMGR_EXIT_FAILED] = MX_ERR_INTERNAL,
        [MXGEN_COMGR_EXIT_USAGE] = MX_ERR_INTERNAL,
        [MXGEN_COMGR_EXIT_NO_LIBRARY] = MX_ERR_NOT_FOUND,
        [MXGEN_COMGR_EXIT_VERSION] = MX_ERR_UNSUPPORTED,
        [MXGEN_COMGR_EXIT_UNKNOWN_ISA] = MX_ERR_UNSUPPORTED,
    };
    int code = -1;
    mx_status status = mxgen_process_run(argv, scratch, log, &code, err);
    if (status != MX_OK && *log && **log && code > 0 &&
        (size_t)code < sizeof(statuses) / sizeof(statuses[0])) {
        size_t length = strlen(*log);
        while (length > 0 && (*log)[length - 1] == '\n')
            (*log)[--length] = 0;
        status = mx_fail(err, statuses[code], "%s", *log);
    }
    return status;
}

/* ---- Finding comgr ---- */

/* Copies what follows `key` and a blank on a line of its own. */
static bool read_line(const char *line, size_t length, const char *key, char *out, size_t out_bytes)
{
    size_t skip = strlen(key);
    if (length <= skip || strncmp(line, key, skip) != 0 || length - skip >= out_bytes)
        return false;
    memcpy(out, line + skip, length - skip);
    out[length - skip] = 0;
    return true;
}

static void read_probe(const char *log, mxgen_comgr *found)
{
    strcpy(found->chips, " ");
    for (size_t length; *log; log += length + (log[length] == '\n')) {
        char isa[128];
        length = strcspn(log, "\n");
        if (read_line(log, length, "library ", found->library, sizeof(found->library)) ||
            read_line(log, length, "interface ", found->interface, sizeof(found->interface)) ||
            read_line(log, length, "llvm ", found->llvm, sizeof(found->llvm)) ||
            !read_line(log, length, "isa " MXGEN_COMGR_ISA_PREFIX, isa, sizeof(isa)))
            continue;
        size_t used = strlen(found->chips);
        if (used + strlen(isa) + 2 <= sizeof(found->chips))
            sprintf(found->chips + used, "%s ", isa);
    }
    unsigned major, minor, patch, its_major = 0, its_minor = 0;
    LLVMGetVersion(&major, &minor, &patch);
    if (sscanf(found->llvm, "%u.%u", &its_major, &its_minor) < 1)
        strcpy(found->llvm, "0");
    found->reads_bitcode = its_major > major || (its_major == major && its_minor >= minor);
}

/* The helper runs in another folder. */
static const char *absolute_of(const char *library, char path[PATH_MAX])
{
    return strchr(library, '/') && realpath(library, path) ? path : library;
}

static mx_status probe(const char *library, mxgen_comgr *found, mx_error *err)
{
    char path[PATH_MAX], *log = NULL;
    mxgen_scratch scratch = {""};
    const char *argv[5] = {found->helper};
    size_t n = 1;
    if (library) {
        argv[n++] = "--library";
        argv[n++] = absolute_of(library, path);
    }
    argv[n] = "probe";
    mx_status status = mxgen_scratch_create(&scratch, err);
    if (status == MX_OK)
        status = run_helper(argv, &scratch, &log, err);
    if (status == MX_OK)
        read_probe(log, found);
    free(log);
    mxgen_scratch_destroy(&scratch);
    if (status == MX_OK && (!found->library[0] || !found->interface[0]))
        return mx_fail(err, MX_ERR_INTERNAL, "%s does not tell which comgr it found",
                       found->helper);
    return status;
}

static mx_status check_bitcode(const mxgen_comgr *found, mx_error *err)
{
    unsigned major, minor, patch;
    LLVMGetVersion(&major, &minor, &patch);
    if (found->codegen != MXGEN_CODEGEN_COMGR_BITCODE || found->reads_bitcode)
        return MX_OK;
    return mx_fail(
        err, MX_ERR_UNSUPPORTED,
        "%s (interface %s) is on LLVM %s, and bitcode of LLVM %u.%u needs that or a newer "
        "one: use --codegen comgr-link",
        found->library, found->interface,
        strcmp(found->llvm, "0") ? found->llvm : "of a version that it does not tell", major,
        minor);
}

mx_status mxgen_comgr_find(mxgen_codegen codegen, const char *library, mxgen_comgr *out,
                           mx_error *err)
{
    mxgen_comgr found = {.codegen = codegen};
    mx_error reason = {MX_OK, ""};
    mx_status status = MX_OK;
    if (codegen != MXGEN_CODEGEN_LLVM) {
        status = find_helper(&found, &reason);
        if (status == MX_OK)
            status = probe(library, &found, &reason);
        if (status == MX_OK)
            status = check_bitcode(&found, &reason);
    }
    if (status != MX_OK && codegen != MXGEN_CODEGEN_AUTO)
        return mx_fail(err, status, "%s", reason.message);
    if (status != MX_OK) {
        found.helper[0] = 0;
        snprintf(found.note, sizeof(found.note), "%s; LLVM makes AMD's code objects",
                 reason.message);
    }
    *out = found;
    return MX_OK;
}

/* ---- Using it ---- */

static bool knows(const mxgen_comgr *comgr, const mxgen_target *target)
{
    char name[64];
    snprintf(name, sizeof(name), " %s ", target->cpu);
    return strstr(comgr->chips, name) != NULL;
}

bool mxgen_comgr_serves(const mxgen_comgr *comgr, const mxgen_target *target)
{
    return comgr && comgr->helper[0] && target->kind == MXGEN_AMDGPU &&
           (comgr->codegen != MXGEN_CODEGEN_AUTO || knows(comgr, target));
}

bool mxgen_comgr_takes_bitcode(const mxgen_comgr *comgr)
{
    return comgr->reads_bitcode && comgr->codegen != MXGEN_CODEGEN_COMGR_LINK;
}

mx_status mxgen_comgr_check(const mxgen_comgr *comgr, const mxgen_target *target, mx_error *err)
{
    if (knows(comgr, target))
        return MX_OK;
    return mx_fail(err, MX_ERR_UNSUPPORTED,
                   "%s (interface %s, LLVM %s) does not know %s; it knows%.*s", comgr->library,
                   comgr->interface, comgr->llvm, target->name, (int)strlen(comgr->chips) - 1,
                   comgr->chips);
}

static mx_status object_in(const mxgen_scratch *scratch, const mxgen_comgr *comgr,
                           const mxgen_target *target, bool is_bitcode, const void *data,
                           size_t size_bytes, void **image, size_t *image_bytes, mx_error *err)
{
    char isa[96], *log = NULL;
    mx_error reason = {MX_OK, ""};
    const char *input = is_bitcode ? "in.bc" : "in.o";
    snprintf(isa, sizeof(isa), MXGEN_COMGR_ISA_PREFIX "%s", target->cpu);
    const char *const argv[] = {
        comgr->helper, "--library", comgr->library, is_bitcode ? "codegen" : "link",
        isa,           input,       "out.elf",      NULL};
    mx_status status = mxgen_scratch_write(scratch, input, data, size_bytes, err);
    if (status != MX_OK)
        return status;
    status = run_helper(argv, scratch, &log, &reason);
    free(log);
    if (status == MX_OK)
        status = mxgen_scratch_read(scratch, "out.elf", image, image_bytes, &reason);
    if (status != MX_OK)
        return mx_fail(err, status, "comgr, %s: %.800s", comgr->library, reason.message);
    return MX_OK;
}

mx_status mxgen_comgr_object(const mxgen_comgr *comgr, const mxgen_target *target, bool is_bitcode,
                             const void *data, size_t size_bytes, void **image, size_t *image_bytes,
                             mx_error *err)
{
    mxgen_scratch scratch = {""};
    mx_status status = mxgen_comgr_check(comgr, target, err);
    if (status == MX_OK)
        status = mxgen_scratch_create(&scratch, err);
    if (status == MX_OK)
        status = object_in(&scratch, comgr, target, is_bitcode, data, size_bytes, image,
                           image_bytes, err);
    mxgen_scratch_destroy(&scratch);
    return status;
}
