#include "gen/foreign.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Support.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <xxhash.h>

#include "gen/foreign_device.h"
#include "gen/foreign_host.h"
#include "gen/link.h"
#include "gen/machine.h"
#include "gen/ptxas.h"
#include "gen/resources.h"
#include "mxgen/error.h"

enum { CC_PTX_KERNEL = 71, CC_SPIR_KERNEL = 76, CC_AMDGPU_KERNEL = 91, MOST_PARAMS = 64 };

typedef struct kernel {
    LLVMValueRef function; /* as it was read; on the host not valid once it is wrapped */
    char *symbol;
    json_t *params, *block;
} kernel;

typedef struct unit {
    const mxgen_foreign_input *input;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMTargetMachineRef machine;
    kernel kernels[MXGEN_FOREIGN_MOST_KERNELS];
    size_t n_kernels;
    uint64_t code_id;
    bool is_optimised; /* before it came here */
    bool failed;
    char message[700];
    mx_error *err;
} unit;

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *user)
{
    unit *u = user;
    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError || u->failed)
        return;
    char *text = LLVMGetDiagInfoDescription(info);
    u->failed = true;
    snprintf(u->message, sizeof(u->message), "%s", text);
    LLVMDisposeMessage(text);
}

/* ---- Reading ---- */

/* LLVM's text, without the newline at its end. */
static mx_status fail_text(unit *u, const char *what, char *text)
{
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '\n')
        text[--length] = 0;
    return mx_fail(u->err, MX_ERR_INVALID, "%s%.900s", what, text);
}

static mx_status parse(unit *u)
{
    const mxgen_foreign_input *in = u->input;
    LLVMMemoryBufferRef buffer =
        LLVMCreateMemoryBufferWithMemoryRangeCopy(in->data, in->size_bytes, in->label);
    char *message = NULL, what[300] = "";
    mx_status status = MX_OK;
    if (LLVMParseIRInContext2(u->context, buffer, &u->module, &message)) {
        u->module = NULL;
        /* Of bitcode LLVM does not tell the file. */
        if (message && strncmp(message, in->label, strlen(in->label)))
            snprintf(what, sizeof(what), "%.200s: ", in->label);
        status = fail_text(u, what, message);
    }
    LLVMDisposeMessage(message);
    LLVMDisposeMemoryBuffer(buffer);
    return status;
}

/* Where the verifier's line is in the text: it prints the instruction, not its place. */
static void find_line(const unit *u, const char *message, char *place, size_t place_bytes)
{
    const char *text = u->input->data, *end = text + u->input->size_bytes;
    place[0] = 0;
    for (const char *line = message; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        line += strspn(line, " ");
        size_t length = strcspn(line, "\n");
        const char *at = memmem(text, (size_t)(end - text), line, length);
        if (length < 8 || !at)
            continue;
        int n = 1, column = 1;
        for (const char *c = text; c < at; c++) {
            column = *c == '\n' ? 1 : column + 1;
            n += *c == '\n';
        }
        snprintf(place, place_bytes, "%d:%d:", n, column);
        return;
    }
}

static mx_status verify(unit *u)
{
    char *message = NULL, place[48], what[400];
    mx_status status = MX_OK;
    if (LLVMVerifyModule(u->module, LLVMReturnStatusAction, &message)) {
        find_line(u, message, place, sizeof(place));
        snprintf(what, sizeof(what), "%.200s:%s LLVM's verifier refuses it: ", u->input->label,
                 place);
        status = fail_text(u, what, message);
    }
    LLVMDisposeMessage(message);
    return status;
}

/* ---- Whether it is for this target ---- */

/* Newer LLVMs put AMD's chip in the triple: "amdgpu9.42-amd-amdhsa" is gfx942. */
static bool is_newer_triple(const mxgen_target *target, const char *triple)
{
    char plain[80], chip[80];
    size_t n = 0;
    for (; *triple && n + 1 < sizeof(plain); triple++) {
        if (*triple != '.')
            plain[n++] = *triple;
    }
    plain[n] = 0;
    snprintf(chip, sizeof(chip), "amdgpu%s-amd-amdhsa", target->cpu + strlen("gfx"));
    return target->kind == MXGEN_AMDGPU &&
           (!strcmp(plain, chip) || !strcmp(plain, "amdgpu-amd-amdhsa"));
}

static mx_status check_triple(const unit *u)
{
    const char *found = LLVMGetTarget(u->module), *wanted = u->input->target->triple;
    size_t length = strcspn(wanted, "-");
    if (!*found || (!strncmp(found, wanted, length) && (!found[length] || found[length] == '-')) ||
        is_newer_triple(u->input->target, found))
        return MX_OK;
    return mx_fail(u->err, MX_ERR_INVALID,
                   "%s is for triple \"%s\"; %s is \"%s\": compile it for a target of its kind",
                   u->input->label, found, mxgen_target_name(u->input->target), wanted);
}

/* Triton has LLVM make pointers to shared memory of 32 bits for NVIDIA, which its layout tells: an
 * option of the whole process, which is this compilation's own. */
static void use_short_pointers(const unit *u)
{
    static const char *const argv[] = {"mxgen", "-nvptx-short-ptr"};
    if (u->input->target->kind == MXGEN_NVPTX &&
        strstr(LLVMGetDataLayoutStr(u->module), "-p3:32:32"))
        LLVMParseCommandLineOptions(2, argv, NULL);
}

/* A layout of another LLVM version may differ in words, not in what pointers are. */
static mx_status check_layout(const unit *u)
{
    const char *found = LLVMGetDataLayoutStr(u->module);
    bool differs = false;
    if (!*found)
        return MX_OK;
    LLVMTargetDataRef theirs = LLVMCreateTargetData(found),
                      ours = LLVMCreateTargetDataLayout(u->machine);
    LLVMTypeRef i64 = LLVMInt64TypeInContext(u->context);
    for (unsigned space = 0; space <= 5; space++)
        differs |= LLVMPointerSizeForAS(theirs, space) != LLVMPointerSizeForAS(ours, space);
    differs |= LLVMByteOrder(theirs) != LLVMByteOrder(ours);
    differs |= LLVMABIAlignmentOfType(theirs, i64) != LLVMABIAlignmentOfType(ours, i64);
    char *wanted = LLVMCopyStringRepOfTargetData(ours);
    differs |= !strstr(found, "-A5") != !strstr(wanted, "-A5");
    mx_status status = MX_OK;
    if (differs)
        status = mx_fail(u->err, MX_ERR_INVALID,
                         "%s has data layout \"%.300s\", which disagrees on pointers with that of "
                         "%s, \"%.300s\"",
                         u->input->label, found, mxgen_target_name(u->input->target), wanted);
    LLVMDisposeMessage(wanted);
    LLVMDisposeTargetData(theirs);
    LLVMDisposeTargetData(ours);
    return status;
}

/* Of a function; NULL: it has none. Not terminated, but at its length. */
static const char *attribute(LLVMValueRef function, const char *name, unsigned *length)
{
    LLVMAttributeRef found = LLVMGetStringAttributeAtIndex(
        function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, name, (unsigned)strlen(name));
    return found ? LLVMGetStringAttributeValue(found, length) : NULL;
}

static void remove_attribute(LLVMValueRef function, const char *name)
{
    LLVMRemoveStringAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, name,
                                     (unsigned)strlen(name));
}

static void add_attribute(const unit *u, LLVMValueRef function, const char *name, const char *value)
{
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(u->context, name, (unsigned)strlen(name),
                                                      value, (unsigned)strlen(value)));
}

/* Code for another GPU may use what this one lacks; for the host it is only slower. */
static mx_status check_cpus(const unit *u)
{
    const mxgen_target *target = u->input->target;
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f)) {
        unsigned length = 0;
        size_t name_length;
        const char *cpu = attribute(f, "target-cpu", &length);
        if (target->kind == MXGEN_HOST) {
            remove_attribute(f, "target-cpu");
            remove_attribute(f, "target-features");
            remove_attribute(f, "tune-cpu");
        } else if (cpu && (length != strlen(target->cpu) || strncmp(cpu, target->cpu, length))) {
            return mx_fail(u->err, MX_ERR_INVALID,
                           "%s: function @%s is for %.*s (its attribute target-cpu), not for %s",
                           u->input->label, LLVMGetValueName2(f, &name_length), (int)length, cpu,
                           target->name);
        }
    }
    return MX_OK;
}

/* AMD's loaders want the version that packs promise. */
static mx_status check_version(const unit *u)
{
    static const char name[] = "amdhsa_code_object_version";
    LLVMMetadataRef flag = LLVMGetModuleFlag(u->module, name, strlen(name));
    if (!flag) {
        mxgen_machine_flag_version(u->module);
        return MX_OK;
    }
    LLVMValueRef value = LLVMMetadataAsValue(u->context, flag), number = NULL;
    if (LLVMGetMDNodeNumOperands(value) == 1)
        LLVMGetMDNodeOperands(value, &number);
    if (number && LLVMIsAConstantInt(number) &&
        LLVMConstIntGetZExtValue(number) == MXGEN_CODE_OBJECT_VERSION)
        return MX_OK;
    return mx_fail(u->err, MX_ERR_INVALID,
                   "%s: its flag %s is not %d, which packs have: change it, or leave it out",
                   u->input->label, name, MXGEN_CODE_OBJECT_VERSION);
}

/* ---- Kernels ---- */

static bool is_kernel_cc(unsigned cc)
{
    return cc == CC_AMDGPU_KERNEL || cc == CC_PTX_KERNEL || cc == CC_SPIR_KERNEL;
}

static bool returns_nothing(LLVMValueRef f)
{
    return LLVMGetTypeKind(LLVMGetReturnType(LLVMGlobalGetValueType(f))) == LLVMVoidTypeKind;
}

/* Whether the function is to be stored, where `marked` tells that the module marks its kernels. */
static bool is_wanted(const unit *u, LLVMValueRef f, bool marked)
{
    size_t length;
    const char *name = LLVMGetValueName2(f, &length);
    if (LLVMIsDeclaration(f) || !returns_nothing(f) ||
        (u->input->symbol && strcmp(name, u->input->symbol)))
        return false;
    return marked ? is_kernel_cc(LLVMGetFunctionCallConv(f))
                  : LLVMGetLinkage(f) == LLVMExternalLinkage;
}

static mx_status find_kernels(unit *u)
{
    bool marked = false;
    unsigned length_bytes;
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f)) {
        u->is_optimised |= attribute(f, MXGEN_FOREIGN_OPTIMISED, &length_bytes) != NULL;
        marked |= !LLVMIsDeclaration(f) && is_kernel_cc(LLVMGetFunctionCallConv(f));
    }
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f; f = LLVMGetNextFunction(f)) {
        size_t length;
        if (!is_wanted(u, f, marked))
            continue;
        if (u->n_kernels == MXGEN_FOREIGN_MOST_KERNELS)
            return mx_fail(u->err, MX_ERR_UNSUPPORTED, "%s has more than %d kernels",
                           u->input->label, MXGEN_FOREIGN_MOST_KERNELS);
        kernel *k = &u->kernels[u->n_kernels++];
        k->function = f;
        if (!(k->symbol = strdup(LLVMGetValueName2(f, &length))))
            return mx_fail(u->err, MX_ERR_NO_MEMORY, "no memory for %s", u->input->label);
    }
    if (u->n_kernels)
        return MX_OK;
    if (u->input->symbol)
        return mx_fail(u->err, MX_ERR_NOT_FOUND, "%s has no kernel @%s", u->input->label,
                       u->input->symbol);
    return mx_fail(u->err, MX_ERR_NOT_FOUND,
                   "%s has no kernel: no function with a kernel's calling convention, and none "
                   "that is external and returns nothing",
                   u->input->label);
}

static const char *kind_of(LLVMTypeRef type)
{
    LLVMTypeKind kind = LLVMGetTypeKind(type);
    unsigned width = kind == LLVMIntegerTypeKind ? LLVMGetIntTypeWidth(type) : 0;
    if (kind == LLVMPointerTypeKind && LLVMGetPointerAddressSpace(type) != 3)
        return "pointer";
    return width == 32 ? "i32" : width == 64 ? "i64" : kind == LLVMFloatTypeKind ? "f32" : "other";
}

/* A name that expressions may use. */
static void param_name(LLVMValueRef param, unsigned index, char *name, size_t name_bytes)
{
    size_t length;
    const char *given = LLVMGetValueName2(param, &length);
    size_t n = 0;
    for (; n < length && n + 1 < name_bytes; n++) {
        char c = given[n];
        bool fits = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
                    (n > 0 && c >= '0' && c <= '9');
        name[n] = fits ? c : '_';
    }
    name[n] = 0;
    if (!n)
        snprintf(name, name_bytes, "arg%u", index);
}

/* Up to three numbers of an attribute such as "256" or "64,2,1"; NULL if it is not that. */
static json_t *read_block(const char *text, unsigned length, const char *format)
{
    char copy[64];
    int n[3] = {1, 1, 1};
    if (!text || length >= sizeof(copy))
        return NULL;
    memcpy(copy, text, length);
    copy[length] = 0;
    if (sscanf(copy, format, &n[0], &n[1], &n[2]) < 1)
        return NULL;
    return json_pack("[i,i,i]", n[0], n[1], n[2]);
}

/* The workgroup that the function was made for. */
static json_t *block_of(const unit *u, LLVMValueRef f)
{
    unsigned length = 0;
    json_t *block = NULL;
    const char *text;
    if (u->input->target->kind == MXGEN_AMDGPU &&
        (text = attribute(f, "amdgpu-flat-work-group-size", &length)))
        block = read_block(text, length, "%*d,%d");
    if (u->input->target->kind == MXGEN_NVPTX && (text = attribute(f, "nvvm.reqntid", &length)))
        block = read_block(text, length, "%d,%d,%d");
    else if (u->input->target->kind == MXGEN_NVPTX &&
             (text = attribute(f, "nvvm.maxntid", &length)))
        block = read_block(text, length, "%d,%d,%d");
    return block ? block : json_null();
}

static int64_t items_of(const json_t *block)
{
    int64_t items = json_is_array(block) ? 1 : 0;
    for (size_t i = 0; i < json_array_size(block); i++)
        items *= json_integer_value(json_array_get(block, i));
    return items;
}

static mx_status describe(unit *u, kernel *k)
{
    unsigned n = LLVMCountParams(k->function);
    k->params = json_array();
    k->block = block_of(u, k->function);
    if (n > MOST_PARAMS)
        return mx_fail(u->err, MX_ERR_UNSUPPORTED, "%s: kernel @%s takes %u arguments, at most %d",
                       u->input->label, k->symbol, n, MOST_PARAMS);
    for (unsigned i = 0; i < n; i++) {
        LLVMValueRef param = LLVMGetParam(k->function, i);
        char name[64], *type = LLVMPrintTypeToString(LLVMTypeOf(param));
        const char *kind = kind_of(LLVMTypeOf(param));
        mx_status status = MX_OK;
        param_name(param, i, name, sizeof(name));
        if (!strcmp(kind, "other"))
            status = mx_fail(u->err, MX_ERR_UNSUPPORTED,
                             "%s: kernel @%s: argument %u (%s) is %s; pointers, i32, i64 and float "
                             "can be given",
                             u->input->label, k->symbol, i, name, type);
        json_array_append_new(
            k->params, json_pack("{s:s, s:s, s:s}", "name", name, "kind", kind, "type", type));
        LLVMDisposeMessage(type);
        if (status != MX_OK)
            return status;
    }
    return MX_OK;
}

/* What the launch is known to be is told to the code generator. */
static mx_status ready_for_gpu(unit *u, kernel *k)
{
    const mxgen_target *target = u->input->target;
    const int64_t *block = u->input->block;
    int64_t own = items_of(k->block), wanted = block[0] * block[1] * block[2];
    char text[64];
    unsigned length;
    LLVMSetFunctionCallConv(k->function,
                            target->kind == MXGEN_AMDGPU ? CC_AMDGPU_KERNEL : CC_PTX_KERNEL);
    if (wanted > target->max_threads)
        return mx_fail(
            u->err, MX_ERR_INVALID, "%s: kernel @%s: a block of %lld work items; %s has at most %d",
            u->input->label, k->symbol, (long long)wanted, target->name, target->max_threads);
    if (own && wanted > own)
        return mx_fail(
            u->err, MX_ERR_INVALID,
            "%s: kernel @%s was made for workgroups of %lld (its attributes), the launch "
            "rule has %lld",
            u->input->label, k->symbol, (long long)own, (long long)wanted);
    if (target->kind == MXGEN_AMDGPU && !attribute(k->function, "uniform-work-group-size", &length))
        add_attribute(u, k->function, "uniform-work-group-size", "true");
    if (own || !wanted)
        return MX_OK;
    if (target->kind == MXGEN_AMDGPU)
        snprintf(text, sizeof(text), "%lld,%lld", (long long)wanted, (long long)wanted);
    else
        snprintf(text, sizeof(text), "%lld", (long long)wanted);
    add_attribute(u, k->function,
                  target->kind == MXGEN_AMDGPU ? "amdgpu-flat-work-group-size" : "nvvm.maxntid",
                  text);
    return MX_OK;
}

static mx_status ready_kernels(unit *u)
{
    LLVMValueRef functions[MXGEN_FOREIGN_MOST_KERNELS];
    mx_status status = MX_OK;
    for (size_t i = 0; i < u->n_kernels && status == MX_OK; i++) {
        functions[i] = u->kernels[i].function;
        status = describe(u, &u->kernels[i]);
        if (status == MX_OK && u->input->target->kind != MXGEN_HOST)
            status = ready_for_gpu(u, &u->kernels[i]);
    }
    if (status == MX_OK && u->input->target->kind == MXGEN_HOST && !u->is_optimised)
        status =
            mxgen_foreign_host(u->module, u->machine, functions, u->n_kernels, u->input, u->err);
    return status;
}

/* ---- Code ---- */

static void identify(unit *u)
{
    char *text = LLVMPrintModuleToString(u->module), tail[96];
    unsigned version[3];
    LLVMGetVersion(&version[0], &version[1], &version[2]);
    snprintf(tail, sizeof(tail), "%s LLVM %u.%u.%u", u->input->target->name, version[0], version[1],
             version[2]);
    u->code_id = XXH3_64bits_withSeed(tail, strlen(tail), XXH3_64bits(text, strlen(text)));
    LLVMDisposeMessage(text);
}

static mx_status optimise(unit *u)
{
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error =
        LLVMRunPasses(u->module, u->is_optimised ? "verify" : "default<O3>", u->machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (error) {
        char *text = LLVMGetErrorMessage(error);
        mx_fail(u->err, MX_ERR_INTERNAL, "%s: optimising for %s failed: %s", u->input->label,
                u->input->target->name, text);
        LLVMDisposeErrorMessage(text);
        return MX_ERR_INTERNAL;
    }
    return MX_OK;
}

/* GPUs have no library to link to; the host's is libm, and its linker tells what is missing. */
static mx_status check_calls(const unit *u)
{
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module);
         f && u->input->target->kind != MXGEN_HOST; f = LLVMGetNextFunction(f)) {
        size_t length;
        if (LLVMIsDeclaration(f) && !LLVMGetIntrinsicID(f) && LLVMGetFirstUse(f))
            return mx_fail(u->err, MX_ERR_INVALID,
                           "%s: it uses @%s, which is defined nowhere: link that library's bitcode "
                           "into the file first (llvm-link)",
                           u->input->label, LLVMGetValueName2(f, &length));
    }
    return MX_OK;
}

static mx_status take(const unit *u, const void *data, size_t size_bytes, mxgen_foreign_output *out)
{
    out->data = malloc(size_bytes + 1);
    if (!out->data)
        return mx_fail(u->err, MX_ERR_NO_MEMORY, "no memory for %zu bytes of output", size_bytes);
    memcpy(out->data, data, size_bytes);
    ((char *)out->data)[size_bytes] = 0;
    out->size_bytes = size_bytes;
    return MX_OK;
}

static mx_status emit(unit *u, mxgen_stage stage, mxgen_foreign_output *out)
{
    const mxgen_target *target = u->input->target;
    LLVMMemoryBufferRef buffer = NULL;
    char *message = NULL;
    bool text = stage == MXGEN_STAGE_ASM || target->kind == MXGEN_NVPTX;
    if (LLVMTargetMachineEmitToMemoryBuffer(
            u->machine, u->module, text ? LLVMAssemblyFile : LLVMObjectFile, &message, &buffer)) {
        mx_fail(u->err, MX_ERR_INTERNAL, "%s: code generation for %s failed: %s", u->input->label,
                target->name, message);
        LLVMDisposeMessage(message);
        return MX_ERR_INTERNAL;
    }
    mx_status status;
    const char *data = LLVMGetBufferStart(buffer);
    size_t size_bytes = LLVMGetBufferSize(buffer);
    /* With an error reported, LLVM still hands out a buffer. */
    if (u->failed)
        status = mx_fail(u->err, MX_ERR_INVALID, "%s: code generation for %s failed: %s",
                         u->input->label, target->name, u->message);
    else if (text)
        status = take(u, data, size_bytes, out);
    else
        status = mxgen_link_foreign(target, data, size_bytes, &out->data, &out->size_bytes, u->err);
    LLVMDisposeMemoryBuffer(buffer);
    return status;
}

/* Shared memory that the module reserves; PTX does not tell it apart by kernel. */
static int reserved_bytes(const unit *u)
{
    LLVMTargetDataRef layout = LLVMGetModuleDataLayout(u->module);
    unsigned long long bytes = 0;
    for (LLVMValueRef g = LLVMGetFirstGlobal(u->module); g; g = LLVMGetNextGlobal(g)) {
        if (LLVMGetPointerAddressSpace(LLVMTypeOf(g)) == 3 && !LLVMIsDeclaration(g))
            bytes += LLVMABISizeOfType(layout, LLVMGlobalGetValueType(g));
    }
    return (int)bytes;
}

/* Figures as the pack has them, and what tells this code from other code. */
static json_t *make_info(const unit *u, mxgen_resources *figures)
{
    char code[20];
    if (figures->lds_bytes < 0 && u->input->target->kind == MXGEN_NVPTX)
        figures->lds_bytes = reserved_bytes(u);
    json_t *info = mxgen_resources_object(figures);
    snprintf(code, sizeof(code), "%016llx", (unsigned long long)u->code_id);
    json_object_set_new(info, "code", json_string(code));
    return info;
}

/* `log` is what ptxas says of the cubin, if there is one. */
static mx_status tell_kernels(const unit *u, const char *log, mxgen_foreign_output *out)
{
    const mxgen_target *target = u->input->target;
    json_t *list = json_array();
    for (size_t i = 0; i < u->n_kernels; i++) {
        const kernel *k = &u->kernels[i];
        mxgen_resources figures;
        mxgen_resources_read(target, out->data, out->size_bytes, k->symbol, &figures);
        bool is_wrapped = u->is_optimised && target->kind == MXGEN_HOST;
        json_t *item =
            json_pack("{s:s, s:O, s:O, s:o, s:b}", "symbol", k->symbol, "params", k->params,
                      "block", k->block, "info", make_info(u, &figures), "is_wrapped", is_wrapped);
        if (out->cubin) {
            mxgen_ptxas_figures(target, out->cubin, out->cubin_bytes, log, k->symbol, &figures);
            json_object_set_new(item, "cubin_info", make_info(u, &figures));
        }
        json_array_append_new(list, item);
    }
    out->kernels_json = json_dumps(list, JSON_COMPACT);
    json_decref(list);
    return out->kernels_json ? MX_OK
                             : mx_fail(u->err, MX_ERR_NO_MEMORY, "no memory for the kernels of %s",
                                       u->input->label);
}

static mx_status finish_object(const unit *u, mxgen_foreign_output *out)
{
    const mxgen_ptxas *ptxas = u->input->ptxas;
    mx_error reason = {MX_OK, ""};
    char *log = NULL;
    mx_status status = MX_OK;
    if (u->input->target->kind == MXGEN_NVPTX && ptxas && ptxas->path[0])
        status = mxgen_ptxas_run(ptxas, u->input->target, out->data, out->size_bytes, &out->cubin,
                                 &out->cubin_bytes, &log, &reason);
    if (status == MX_OK)
        status = tell_kernels(u, log, out);
    else
        mx_fail(u->err, status, "%s: %.900s", u->input->label, reason.message);
    free(log);
    return status;
}

static mx_status compile(unit *u, mxgen_stage stage, mxgen_foreign_output *out)
{
    const mxgen_target *target = u->input->target;
    mx_status status = parse(u);
    if (status != MX_OK || (status = verify(u)) != MX_OK || (status = check_triple(u)) != MX_OK)
        return status;
    use_short_pointers(u);
    if ((status = mxgen_machine_create(target, &u->machine, u->err)) != MX_OK ||
        (status = check_layout(u)) != MX_OK || (status = check_cpus(u)) != MX_OK)
        return status;
    mxgen_machine_set_module(target, u->machine, u->module);
    if (target->kind == MXGEN_AMDGPU)
        status = check_version(u);
    if (status != MX_OK || (status = find_kernels(u)) != MX_OK)
        return status;
    identify(u);
    if ((status = mxgen_foreign_device(u->module, u->machine, u->input, u->err)) != MX_OK ||
        (status = ready_kernels(u)) != MX_OK || (status = optimise(u)) != MX_OK ||
        (status = check_calls(u)) != MX_OK)
        return status;
    if (stage == MXGEN_STAGE_LLVM) {
        char *text = LLVMPrintModuleToString(u->module);
        status = take(u, text, strlen(text), out);
        LLVMDisposeMessage(text);
        return status;
    }
    status = emit(u, stage, out);
    if (status == MX_OK && stage == MXGEN_STAGE_OBJECT)
        status = finish_object(u, out);
    return status;
}

mx_status mxgen_foreign_compile(const mxgen_foreign_input *input, mxgen_stage stage,
                                mxgen_foreign_output *out, mx_error *err)
{
    mx_error reason = {MX_OK, ""};
    mxgen_foreign_output made = {0};
    unit *u = calloc(1, sizeof(*u));
    if (!u)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %s", input->label);
    mxgen_machine_initialise();
    u->input = input;
    u->err = &reason;
    u->context = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(u->context, on_diagnostic, u);
    mx_status status = compile(u, stage, &made);
    for (size_t i = 0; i < u->n_kernels; i++) {
        free(u->kernels[i].symbol);
        json_decref(u->kernels[i].params);
        json_decref(u->kernels[i].block);
    }
    if (u->module)
        LLVMDisposeModule(u->module);
    if (u->machine)
        LLVMDisposeTargetMachine(u->machine);
    LLVMContextDispose(u->context);
    free(u);
    if (status == MX_OK)
        *out = made;
    else
        mxgen_foreign_output_finish(&made);
    return status == MX_OK ? MX_OK : mx_fail(err, status, "%s", reason.message);
}

void mxgen_foreign_output_finish(mxgen_foreign_output *out)
{
    free(out->data);
    free(out->cubin);
    free(out->kernels_json);
    *out = (mxgen_foreign_output){0};
}
