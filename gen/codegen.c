#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/BitWriter.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <xxhash.h>

#include "gen/comgr.h"
#include "gen/link.h"
#include "gen/machine.h"
#include "gen/resources.h"
#include "gen/template.h"
#include "mxgen/error.h"

/* One compilation under way. */
typedef struct unit {
    const mxgen_target *target;
    const mxgen_comgr *comgr; /* NULL: not for this target */
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMTargetMachineRef machine;
    uint64_t *code_ids; /* one a spec */
    bool failed;
    char message[600];
} unit;

/* ---- Diagnostics ---- */

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *user)
{
    unit *u = user;
    char *text = LLVMGetDiagInfoDescription(info);
    LLVMDiagnosticSeverity severity = LLVMGetDiagInfoSeverity(info);
    if (severity == LLVMDSError) {
        u->failed = true;
        snprintf(u->message, sizeof(u->message), "%s", text);
    }
    LLVMDisposeMessage(text);
}

/* ---- Module ---- */

static mx_status machine_make(unit *u, mx_error *err)
{
    mx_status status = mxgen_machine_create(u->target, &u->machine, err);
    if (status != MX_OK)
        return status;
    mxgen_machine_set_module(u->target, u->machine, u->module);
    if (u->target->kind == MXGEN_AMDGPU)
        mxgen_machine_flag_version(u->module);
    return MX_OK;
}

/* Skips what depends on the other kernels of the module: numbers of attributes and metadata, and of
 * the shared memory's name. */
static const char *skip_numbered(const char *at)
{
    static const char lds[] = "@lds";
    if (*at == '#' || *at == '!')
        at++;
    else if (!strncmp(at, lds, strlen(lds)))
        at += strlen(lds);
    else
        return at;
    while (*at == '.' || (*at >= '0' && *at <= '9'))
        at++;
    return at;
}

/* Identity of a kernel's code: of its IR as emitted, of its launch and of the compiler. */
static uint64_t code_id(const unit *u, const mxgen_spec *spec, const mxgen_kernel *kernel)
{
    char name[160], launch[160];
    snprintf(name, sizeof(name), "%s%s", spec->symbol,
             u->target->kind == MXGEN_HOST ? ".program" : "");
    LLVMValueRef function = LLVMGetNamedFunction(u->module, name);
    char *text = LLVMPrintValueToString(function), *to = text;
    for (const char *from = text; *from;) {
        const char *next = skip_numbered(from);
        if (next == from)
            *to++ = *from++;
        from = next > from ? next : from;
    }
    unsigned version[3];
    LLVMGetVersion(&version[0], &version[1], &version[2]);
    snprintf(launch, sizeof(launch), "%s %d %d LLVM %u.%u.%u", u->target->name, kernel->threads,
             kernel->lds_bytes, version[0], version[1], version[2]);
    uint64_t id =
        XXH3_64bits_withSeed(launch, strlen(launch), XXH3_64bits(text, (size_t)(to - text)));
    LLVMDisposeMessage(text);
    return id;
}

/* Specs that differ in nothing but their launch share a kernel. */
static uint64_t known_code_id(const unit *u, const mxgen_spec *specs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(specs[i].symbol, specs[n].symbol))
            return u->code_ids[i];
    }
    return 0;
}

static mx_status emit_specs(unit *u, const mxgen_spec *specs, size_t n_specs, mx_error *err)
{
    mx_status status = MX_OK;
    mxe e;
    mxe_init(&e, u->target, u->context, u->module);
    for (size_t i = 0; i < n_specs && status == MX_OK; i++) {
        if (LLVMGetNamedFunction(u->module, specs[i].symbol)) {
            u->code_ids[i] = known_code_id(u, specs, i);
            continue;
        }
        mxgen_kernel kernel;
        memset(&kernel, 0, sizeof(kernel));
        specs[i].tmpl->describe(&specs[i], &kernel);
        mxe_kernel_begin(&e, specs[i].symbol, kernel.args, kernel.n_args, kernel.threads,
                         kernel.min_programs_per_cu);
        specs[i].tmpl->emit(&e, &specs[i], &kernel);
        mxe_kernel_end(&e);
        if (e.failed)
            status = mx_fail(err, e.error.status, "kernel %s: %s", specs[i].name, e.error.message);
        else
            u->code_ids[i] = code_id(u, &specs[i], &kernel);
    }
    mxe_finish(&e);
    return status;
}

static mx_status optimise(unit *u, mx_error *err)
{
    static const char *const pipelines[] = {
        "function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg),amdgpu-attributor",
        "function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg)",
        "always-inline,function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg)"};
    char *message = NULL;
    if (LLVMVerifyModule(u->module, LLVMReturnStatusAction, &message)) {
        mx_fail(err, MX_ERR_INTERNAL, "the verifier refuses the module for %s: %.600s",
                u->target->name, message);
        LLVMDisposeMessage(message);
        return MX_ERR_INTERNAL;
    }
    LLVMDisposeMessage(message);
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(u->module, pipelines[u->target->kind], u->machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (error) {
        char *text = LLVMGetErrorMessage(error);
        mx_fail(err, MX_ERR_INTERNAL, "optimising for %s failed: %s", u->target->name, text);
        LLVMDisposeErrorMessage(text);
        return MX_ERR_INTERNAL;
    }
    return MX_OK;
}

/* ---- Output ---- */

static mx_status take_text(mxgen_output *out, const char *text, size_t size_bytes, mx_error *err)
{
    out->data = malloc(size_bytes + 1);
    if (!out->data)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu bytes of output", size_bytes);
    memcpy(out->data, text, size_bytes);
    ((char *)out->data)[size_bytes] = 0;
    out->size_bytes = size_bytes;
    return MX_OK;
}

/* Comgr's own code generation, from the optimised module. */
static mx_status emit_by_comgr(const unit *u, mxgen_output *out, mx_error *err)
{
    LLVMMemoryBufferRef buffer = LLVMWriteBitcodeToMemoryBuffer(u->module);
    mx_status status =
        mxgen_comgr_object(u->comgr, u->target, true, LLVMGetBufferStart(buffer),
                           LLVMGetBufferSize(buffer), &out->data, &out->size_bytes, err);
    LLVMDisposeMemoryBuffer(buffer);
    return status;
}

static mx_status emit_machine_code(unit *u, mxgen_stage stage, mxgen_output *out, mx_error *err)
{
    if (stage == MXGEN_STAGE_OBJECT && u->comgr && mxgen_comgr_takes_bitcode(u->comgr))
        return emit_by_comgr(u, out, err);
    LLVMMemoryBufferRef buffer = NULL;
    char *message = NULL;
    bool text = stage == MXGEN_STAGE_ASM || u->target->kind == MXGEN_NVPTX;
    if (LLVMTargetMachineEmitToMemoryBuffer(
            u->machine, u->module, text ? LLVMAssemblyFile : LLVMObjectFile, &message, &buffer)) {
        mx_fail(err, MX_ERR_INTERNAL, "code generation for %s failed: %s", u->target->name,
                message);
        LLVMDisposeMessage(message);
        return MX_ERR_INTERNAL;
    }
    mx_status status;
    const char *data = LLVMGetBufferStart(buffer);
    size_t size_bytes = LLVMGetBufferSize(buffer);
    /* With an error reported, LLVM still hands out a buffer. */
    if (u->failed)
        status = mx_fail(err, MX_ERR_INTERNAL, "code generation for %s failed: %s", u->target->name,
                         u->message);
    else if (text)
        status = take_text(out, data, size_bytes, err);
    else if (u->comgr)
        status = mxgen_comgr_object(u->comgr, u->target, false, data, size_bytes, &out->data,
                                    &out->size_bytes, err);
    else
        status = mxgen_link(u->target, data, size_bytes, &out->data, &out->size_bytes, err);
    LLVMDisposeMemoryBuffer(buffer);
    return status;
}

static mx_status fill_info(const unit *u, const mxgen_spec *specs, size_t n_specs,
                           mxgen_output *out, mx_error *err)
{
    out->info_json = calloc(n_specs ? n_specs : 1, sizeof(*out->info_json));
    if (!out->info_json)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu kernels' figures", n_specs);
    out->n_info = n_specs;
    mx_status status = MX_OK;
    for (size_t i = 0; i < n_specs && status == MX_OK; i++) {
        mxgen_resources figures;
        mxgen_resources_read(u->target, out->data, out->size_bytes, specs[i].symbol, &figures);
        status = mxgen_resources_json(&figures, &specs[i], u->code_ids[i], &out->info_json[i], err);
    }
    return status;
}

static mx_status compile(unit *u, const mxgen_spec *specs, size_t n_specs, mxgen_stage stage,
                         mxgen_output *out, mx_error *err)
{
    mx_status status = machine_make(u, err);
    if (status == MX_OK)
        status = emit_specs(u, specs, n_specs, err);
    if (status == MX_OK)
        status = optimise(u, err);
    if (status != MX_OK)
        return status;
    if (stage == MXGEN_STAGE_LLVM) {
        char *text = LLVMPrintModuleToString(u->module);
        status = take_text(out, text, strlen(text), err);
        LLVMDisposeMessage(text);
        return status;
    }
    status = emit_machine_code(u, stage, out, err);
    if (status == MX_OK && stage == MXGEN_STAGE_OBJECT)
        status = fill_info(u, specs, n_specs, out, err);
    if (status == MX_OK) {
        out->code_ids = u->code_ids;
        u->code_ids = NULL;
    }
    return status;
}

mx_status mxgen_compile(const mxgen_spec *specs, size_t n_specs, mxgen_stage stage,
                        const mxgen_comgr *comgr, mxgen_output *out, mx_error *err)
{
    mxgen_output made = {0};
    mxgen_machine_initialise();
    if (n_specs == 0)
        return mx_fail(err, MX_ERR_INVALID, "no variant to compile");
    unit u = {.target = specs[0].target};
    if (mxgen_comgr_serves(comgr, u.target))
        u.comgr = comgr;
    for (size_t i = 1; i < n_specs; i++) {
        if (specs[i].target != u.target)
            return mx_fail(err, MX_ERR_INVALID, "variants of %s and %s in one module",
                           u.target->name, specs[i].target->name);
    }
    if (!(u.code_ids = calloc(n_specs, sizeof(*u.code_ids))))
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu variants", n_specs);
    u.context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(u.context, on_diagnostic, &u);
    u.module = LLVMModuleCreateWithNameInContext("mxgen", u.context);
    mx_status status = compile(&u, specs, n_specs, stage, &made, err);
    if (status == MX_OK)
        *out = made;
    else
        mxgen_output_finish(&made);
    if (u.machine)
        LLVMDisposeTargetMachine(u.machine);
    free(u.code_ids);
    LLVMDisposeModule(u.module);
    LLVMContextDispose(u.context);
    return status;
}

void mxgen_output_finish(mxgen_output *out)
{
    for (size_t i = 0; i < out->n_info; i++)
        free(out->info_json[i]);
    free(out->info_json);
    free(out->code_ids);
    free(out->data);
    memset(out, 0, sizeof(*out));
}
