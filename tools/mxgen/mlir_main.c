/* mxgen-mlir: what mxgen asks of MLIR, in a program of its own.
 *
 *   mxgen-mlir lower KIND CHIP THREADS LABEL IN.mlir OUT.bc
 *   mxgen-mlir print LABEL IN.ll OUT.mlir
 *
 * Diagnostics go to standard output, with LABEL as the name of the file; status 1 is a text that is
 * wrong, 2 a command line that is. Not for use by hand. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/BitWriter.h>
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <mlir-c/BuiltinAttributes.h>
#include <mlir-c/BuiltinTypes.h>
#include <mlir-c/Diagnostics.h>
#include <mlir-c/IR.h>
#include <mlir-c/Pass.h>
#include <mlir-c/RegisterEverything.h>
#include <mlir-c/Support.h>
#include <mlir-c/Target/LLVMIR.h>

#include "gen/foreign.h"
#include "mlir_import.h"

enum { EXIT_WRONG = 1, EXIT_USAGE = 2 };

static MlirStringRef ref(const char *text)
{
    return mlirStringRefCreateFromCString(text);
}

static bool is_named(MlirOperation op, const char *name)
{
    return mlirStringRefEqual(mlirIdentifierStr(mlirOperationGetName(op)), ref(name));
}

/* ---- Diagnostics ---- */

static void print_part(MlirStringRef part, void *stream)
{
    fwrite(part.data, 1, part.length, stream);
}

/* The file that is read has a name of its own; messages have the user's. */
static const char *read_name, *shown_name;

static void print_location(MlirLocation location)
{
    char *text = NULL;
    size_t size_bytes;
    FILE *stream = open_memstream(&text, &size_bytes);
    if (!stream)
        return;
    mlirLocationPrint(location, print_part, stream);
    fclose(stream);
    /* loc("FILE":LINE:COLUMN), without what is around it; other locations as they are. */
    const char *prefix = "loc(\"", *name = text + strlen(prefix), *end = NULL;
    if (!strncmp(text, prefix, strlen(prefix)))
        end = strchr(name, '"');
    if (end && end[1] == ':') {
        bool is_read = strlen(read_name) == (size_t)(end - name) &&
                       !strncmp(name, read_name, (size_t)(end - name));
        printf("%.*s%.*s: ", is_read ? (int)strlen(shown_name) : (int)(end - name),
               is_read ? shown_name : name, (int)strcspn(end + 1, ")"), end + 1);
    }
    free(text);
}

/* Errors and their notes, the failing operation among those; warnings are left out. */
static MlirLogicalResult on_diagnostic(MlirDiagnostic diagnostic, void *user)
{
    (void)user;
    if (mlirDiagnosticGetSeverity(diagnostic) != MlirDiagnosticError)
        return mlirLogicalResultSuccess();
    print_location(mlirDiagnosticGetLocation(diagnostic));
    mlirDiagnosticPrint(diagnostic, print_part, stdout);
    printf("\n");
    for (intptr_t i = 0; i < mlirDiagnosticGetNumNotes(diagnostic); i++) {
        MlirDiagnostic note = mlirDiagnosticGetNote(diagnostic, i);
        print_location(mlirDiagnosticGetLocation(note));
        printf("note: ");
        mlirDiagnosticPrint(note, print_part, stdout);
        printf("\n");
    }
    return mlirLogicalResultSuccess();
}

static MlirContext make_context(void)
{
    MlirDialectRegistry registry = mlirDialectRegistryCreate();
    mlirRegisterAllDialects(registry);
    MlirContext context = mlirContextCreateWithRegistry(registry, false);
    mlirDialectRegistryDestroy(registry);
    mlirRegisterAllLLVMTranslations(context);
    mlirContextAttachDiagnosticHandler(context, on_diagnostic, NULL, NULL);
    return context;
}

/* ---- Files ---- */

static char *read_file(const char *path, size_t *size_bytes)
{
    FILE *file = fopen(path, "rb");
    char *data = NULL;
    if (file && !fseek(file, 0, SEEK_END)) {
        long end = ftell(file);
        rewind(file);
        data = end < 0 ? NULL : malloc((size_t)end + 1);
        *size_bytes = data ? fread(data, 1, (size_t)end, file) : 0;
    }
    if (!data)
        printf("cannot read %s: %s\n", path, strerror(errno));
    else
        data[*size_bytes] = 0;
    if (file)
        fclose(file);
    return data;
}

/* ---- Lowering ---- */

typedef struct lowering {
    const char *kind, *chip, *threads, *label;
    MlirContext context;
    MlirOperation gpu_module; /* null: the module has none */
    int n_gpu_modules;
} lowering;

/* The passes in order: of a gpu.module, and of what is outside one. What the dialect of the target
 * takes over comes last of those that know it; mathematics become calls of a vendor's library,
 * whose place gen/foreign_device.c takes. */
static char *pipeline_of(const lowering *l, bool in_gpu_module)
{
    static const char begin[] = "expand-strided-metadata,lower-affine,convert-vector-to-scf,"
                                "convert-scf-to-cf,math-expand-ops{ops=cosh,asinh,acosh,atanh},"
                                "arith-expand";
    /* Transfers of vectors to and from memory; what is in shared memory, whose address space this
     * pass does not know, becomes loads and stores here, too. */
    static const char vectors[] = ",math-extend-to-supported-types{extra-types=f16},"
                                  "convert-vector-to-llvm";
    static const char outside[] =
        "math-expand-ops{ops=tanh,sinh},convert-math-to-llvm,convert-vector-to-llvm,convert-index-"
        "to-llvm,"
        "finalize-memref-to-llvm,convert-arith-to-llvm,convert-ub-to-llvm,"
        "convert-cf-to-llvm,convert-func-to-llvm";
    bool is_amd = !strcmp(l->kind, "amdgpu");
    char *text = NULL, target[160] = "", amd[80] = "";
    snprintf(amd, sizeof(amd), ",convert-amdgpu-to-rocdl{chipset=%s}", l->chip);
    if (in_gpu_module && is_amd)
        snprintf(target, sizeof(target), "%s,convert-gpu-to-rocdl{chipset=%s}", amd, l->chip);
    else if (in_gpu_module)
        snprintf(target, sizeof(target),
                 ",convert-nvgpu-to-nvvm,convert-gpu-to-nvvm,convert-math-to-llvm");
    else
        snprintf(target, sizeof(target), "%s",
                 is_amd                      ? amd
                 : !strcmp(l->kind, "nvptx") ? ",convert-nvgpu-to-nvvm"
                                             : "");
    if (asprintf(&text, "builtin.module(%s%s%s%s%s%s,reconcile-unrealized-casts%s)",
                 in_gpu_module ? "gpu.module(" : "", begin, in_gpu_module ? vectors : "", target,
                 in_gpu_module ? "" : ",", in_gpu_module ? "" : outside,
                 in_gpu_module ? ")" : "") < 0)
        return NULL;
    return text;
}

static bool run_passes(const lowering *l, MlirModule module, const char *pipeline)
{
    MlirPassManager manager = mlirPassManagerCreate(l->context);
    bool ok = mlirLogicalResultIsSuccess(mlirParsePassPipeline(
        mlirPassManagerGetAsOpPassManager(manager), ref(pipeline), print_part, stdout));
    if (ok)
        ok = mlirLogicalResultIsSuccess(
            mlirPassManagerRunOnOp(manager, mlirModuleGetOperation(module)));
    mlirPassManagerDestroy(manager);
    return ok;
}

static void find_gpu_modules(lowering *l, MlirModule module)
{
    l->n_gpu_modules = 0;
    l->gpu_module = (MlirOperation){NULL};
    for (MlirOperation op = mlirBlockGetFirstOperation(mlirModuleGetBody(module));
         !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op)) {
        if (!is_named(op, "gpu.module"))
            continue;
        l->gpu_module = op;
        l->n_gpu_modules++;
    }
}

/* MLIR would promise workgroups of at most 256. */
static MlirWalkResult set_size(MlirOperation op, void *user)
{
    static const char name[] = "rocdl.flat_work_group_size";
    const lowering *l = user;
    char text[48];
    if (!is_named(op, "llvm.func") ||
        mlirAttributeIsNull(mlirOperationGetAttributeByName(op, ref("rocdl.kernel"))) ||
        !mlirAttributeIsNull(mlirOperationGetAttributeByName(op, ref(name))) ||
        !mlirAttributeIsNull(
            mlirOperationGetAttributeByName(op, ref("rocdl.reqd_work_group_size"))))
        return MlirWalkResultAdvance;
    bool is_known = strcmp(l->threads, "0") != 0;
    snprintf(text, sizeof(text), "%s,%s", is_known ? l->threads : "1",
             is_known ? l->threads : "1024");
    mlirOperationSetAttributeByName(op, ref(name), mlirStringAttrGet(l->context, ref(text)));
    return MlirWalkResultAdvance;
}

/* Of the dialect math, what GPUs have in no type, and what they have only of types below f64. */
static const char *const never_on_gpu[] = {"acos", "asin", "atan",  "atan2", "cbrt",
                                           "erf",  "erfc", "fpowi", "powf"};
static const char *const single_on_gpu[] = {"exp",  "exp2",  "expm1", "log",   "log10", "log1p",
                                            "log2", "sin",   "cos",   "tan",   "sinh",  "cosh",
                                            "tanh", "asinh", "acosh", "atanh", "rsqrt"};

static bool is_math(MlirOperation op, const char *const *names, size_t n)
{
    static const char dialect[] = "math.";
    MlirStringRef name = mlirIdentifierStr(mlirOperationGetName(op));
    size_t skipped = strlen(dialect);
    if (name.length <= skipped || strncmp(name.data, dialect, skipped))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (name.length - skipped == strlen(names[i]) &&
            !strncmp(name.data + skipped, names[i], name.length - skipped))
            return true;
    }
    return false;
}

static bool has_f64(MlirOperation op)
{
    MlirType type = mlirValueGetType(mlirOperationGetResult(op, 0));
    if (mlirTypeIsAVector(type))
        type = mlirShapedTypeGetElementType(type);
    return mlirTypeIsAF64(type);
}

static MlirWalkResult check_math(MlirOperation op, void *user)
{
    bool *is_wrong = user;
    bool never = is_math(op, never_on_gpu, sizeof(never_on_gpu) / sizeof(never_on_gpu[0]));
    bool single = is_math(op, single_on_gpu, sizeof(single_on_gpu) / sizeof(single_on_gpu[0]));
    if (!never && !(single && has_f64(op)))
        return MlirWalkResultAdvance;
    MlirStringRef name = mlirIdentifierStr(mlirOperationGetName(op));
    print_location(mlirOperationGetLocation(op));
    printf("'%.*s' op: GPUs do not have it%s; see mxgen(1)\n", (int)name.length, name.data,
           never ? "" : " in f64");
    *is_wrong = true;
    return MlirWalkResultInterrupt;
}

/* Reductions over lanes: on the host there is one, and the result is what it has. */
typedef struct reductions {
    MlirOperation ops[256];
    size_t n;
} reductions;

static MlirWalkResult find_reduction(MlirOperation op, void *user)
{
    reductions *found = user;
    bool is_one = is_named(op, "gpu.all_reduce") || is_named(op, "gpu.subgroup_reduce");
    if (is_one && found->n < sizeof(found->ops) / sizeof(found->ops[0]))
        found->ops[found->n++] = op;
    return MlirWalkResultAdvance;
}

static void drop_reductions(MlirModule module)
{
    reductions found;
    do {
        found.n = 0;
        mlirOperationWalk(mlirModuleGetOperation(module), find_reduction, &found,
                          MlirWalkPostOrder);
        for (size_t i = 0; i < found.n; i++) {
            mlirValueReplaceAllUsesOfWith(mlirOperationGetResult(found.ops[i], 0),
                                          mlirOperationGetOperand(found.ops[i], 0));
            mlirOperationDestroy(found.ops[i]);
        }
    } while (found.n > 0);
}

/* Null where it fails. */
static LLVMModuleRef lower_module(lowering *l, MlirModule module, LLVMContextRef llvm)
{
    if (!run_passes(l, module, "builtin.module(gpu-kernel-outlining)"))
        return NULL;
    bool is_wrong = false;
    if (!strcmp(l->kind, "host"))
        drop_reductions(module);
    else
        mlirOperationWalk(mlirModuleGetOperation(module), check_math, &is_wrong, MlirWalkPreOrder);
    if (is_wrong)
        return NULL;
    find_gpu_modules(l, module);
    if (l->n_gpu_modules > 1) {
        printf("%s: %d gpu.modules: one is compiled at a time, split the file\n", l->label,
               l->n_gpu_modules);
        return NULL;
    }
    char *pipeline = pipeline_of(l, l->n_gpu_modules > 0);
    bool ok = pipeline && run_passes(l, module, pipeline);
    free(pipeline);
    if (!ok)
        return NULL;
    find_gpu_modules(l, module);
    MlirOperation op = l->n_gpu_modules ? l->gpu_module : mlirModuleGetOperation(module);
    if (!strcmp(l->kind, "amdgpu"))
        mlirOperationWalk(op, set_size, l, MlirWalkPreOrder);
    return mlirTranslateModuleToLLVMIR(op, llvm);
}

static int lower(lowering *l, const char *in, const char *out)
{
    mlirRegisterAllPasses();
    l->context = make_context();
    LLVMContextRef llvm = LLVMContextCreate();
    LLVMModuleRef result = NULL;
    int code = EXIT_WRONG;
    MlirModule module = mlirModuleCreateParseFromFile(l->context, ref(in));
    if (!mlirModuleIsNull(module))
        result = lower_module(l, module, llvm);
    if (result && LLVMWriteBitcodeToFile(result, out))
        printf("cannot write %s: %s\n", out, strerror(errno));
    else if (result)
        code = 0;
    /* The process ends: what it holds is not taken apart. */
    return code;
}

/* ---- Printing ---- */

static bool print_module(MlirModule module, const char *out)
{
    FILE *file = fopen(out, "w");
    if (file)
        mlirOperationPrint(mlirModuleGetOperation(module), print_part, file);
    bool ok = file && !ferror(file);
    if (file)
        ok = !fclose(file) && ok;
    if (!ok)
        printf("cannot write %s: %s\n", out, strerror(errno));
    return ok;
}

/* The text compiles back to what it came from: code that is optimised already. */
static void mark_optimised(LLVMContextRef llvm, LLVMModuleRef module)
{
    static const char name[] = MXGEN_FOREIGN_OPTIMISED;
    for (LLVMValueRef f = LLVMGetFirstFunction(module); f; f = LLVMGetNextFunction(f)) {
        if (!LLVMIsDeclaration(f))
            LLVMAddAttributeAtIndex(
                f, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                LLVMCreateStringAttribute(llvm, name, (unsigned)strlen(name), "", 0));
    }
}

/* Hints for inlining, which has been done, and which the LLVM dialect cannot say. */
static void drop_scope_hints(LLVMModuleRef module)
{
    LLVMValueRef hint = LLVMGetNamedFunction(module, "llvm.experimental.noalias.scope.decl");
    for (LLVMUseRef use; hint && (use = LLVMGetFirstUse(hint));)
        LLVMInstructionEraseFromParent(LLVMGetUser(use));
    if (hint)
        LLVMDeleteFunction(hint);
}

static int print(const char *label, const char *in, const char *out)
{
    size_t size_bytes;
    char *text = read_file(in, &size_bytes), *message = NULL;
    if (!text)
        return EXIT_WRONG;
    LLVMContextRef llvm = LLVMContextCreate();
    LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, size_bytes, label);
    LLVMModuleRef module;
    free(text);
    if (LLVMParseIRInContext2(llvm, buffer, &module, &message)) {
        printf("%s\n", message);
        return EXIT_WRONG;
    }
    mark_optimised(llvm, module);
    drop_scope_hints(module);
    MlirModule result = mxgen_mlir_import(module, make_context());
    return !mlirModuleIsNull(result) && print_module(result, out) ? 0 : EXIT_WRONG;
}

int main(int argc, char **argv)
{
    if (argc == 8 && !strcmp(argv[1], "lower")) {
        shown_name = argv[5];
        read_name = argv[6];
        lowering l = {.kind = argv[2], .chip = argv[3], .threads = argv[4], .label = argv[5]};
        return lower(&l, argv[6], argv[7]);
    }
    if (argc == 5 && !strcmp(argv[1], "print")) {
        shown_name = read_name = argv[2];
        return print(argv[2], argv[3], argv[4]);
    }
    fprintf(stderr, "mxgen-mlir: a part of mxgen, not for use by hand: see mxgen(1)\n");
    return EXIT_USAGE;
}
