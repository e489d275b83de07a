/* The generator as its tools see it: targets, variants, compilation, packs.
 *
 * A template (templates/) is a C function plus a descriptor; a variant is a template with all
 * parameters chosen. Dependencies: include <- gen <- templates; the runtime is not seen here. */
#ifndef MXGEN_GEN_H
#define MXGEN_GEN_H

#include <stdbool.h>

#include <mxgen/base.h>
#include <mxgen/format.h>

#define MXGEN_MAX_PARAMS 12
#define MXGEN_NAME_BYTES 120

typedef struct mxgen_target mxgen_target;     /* gen/target.h */
typedef struct mxgen_template mxgen_template; /* gen/template.h */

/* ---- Targets ---- */

size_t mxgen_target_count(void);
const mxgen_target *mxgen_target_at(size_t index);       /* NULL past the end */
const mxgen_target *mxgen_target_find(const char *name); /* NULL if unknown */
const char *mxgen_target_name(const mxgen_target *target);
/* One line for `mxgen targets`: vendor, lanes, features, fallbacks. Static. */
const char *mxgen_target_summary(const mxgen_target *target);
/* "amdgpu", "nvptx" or "host". */
const char *mxgen_target_kind(const mxgen_target *target);

/* ---- Variants ---- */

/* Which rows of a pack a key is of (mxgen/pack.h): block kernels, or grouped GEMM's. */
typedef enum mxgen_pass {
    MXGEN_PASS_NONE = 0, /* block kernels */
    MXGEN_PASS_ROWS,     /* "gemm_rows" */
    MXGEN_PASS_COLS,     /* "gemm_cols" */
    MXGEN_PASS_STEP,     /* "gemm_step" */
    MXGEN_PASS_COUNT
} mxgen_pass;

typedef enum mxgen_operand {
    MXGEN_OPERAND_MXFP4 = 0,
    MXGEN_OPERAND_MXFP8_E4M3,
    MXGEN_OPERAND_MXFP8_E5M2,
    MXGEN_OPERAND_BF16, /* without scales */
    MXGEN_OPERAND_COUNT
} mxgen_operand;

typedef struct mxgen_gemm_key {
    mxgen_pass pass;
    mxgen_operand left, right;
    bool exact; /* profile "exact", else "fast" */
} mxgen_gemm_key;

static inline unsigned mxgen_pair_bit(mxgen_operand left, mxgen_operand right)
{
    return 1u << ((int)left * (int)MXGEN_OPERAND_COUNT + (int)right);
}

/* Block kernels: all but `gemm`. Grouped GEMM: `dtype`, which is the output's, and `gemm`. */
typedef struct mxgen_key {
    mx_op op;
    mx_format format;
    mx_dtype dtype;
    mx_profile profile;
    mx_layout layout;
    mxgen_gemm_key gemm;
} mxgen_key;

bool mxgen_key_equal(const mxgen_key *a, const mxgen_key *b);
/* As in packs: "mxfp4". */
const char *mxgen_operand_name(mxgen_operand operand);

/* Kinds of keys, for mxgen_filter.families. */
enum { MXGEN_FAMILY_BLOCKS = 1u << 0, MXGEN_FAMILY_GEMM = 1u << 1 };

typedef struct mxgen_spec {
    const mxgen_template *tmpl;
    const mxgen_target *target;
    mxgen_key key;
    int n_params;
    const char *param_names[MXGEN_MAX_PARAMS]; /* static, Triton's names where it has them */
    int params[MXGEN_MAX_PARAMS];
    int rank;                      /* among the variants of its (target, key), 0 first */
    char name[MXGEN_NAME_BYTES];   /* unique in a target */
    char symbol[MXGEN_NAME_BYTES]; /* variants that differ in launch parameters only share their
                                      code */
} mxgen_spec;

/* Selects keys; NULL or zero counts select all. */
typedef struct mxgen_filter {
    const mx_op *ops;
    size_t n_ops;
    const mx_format *formats;
    size_t n_formats;
    const mx_dtype *dtypes;
    size_t n_dtypes;
    const mx_layout *layouts;
    size_t n_layouts;
    int max_rank; /* keep variants with rank < max_rank; 0 keeps all */
    const mx_profile *profiles;
    size_t n_profiles;
    /* Of MXGEN_FAMILY_..; 0: blocks, and grouped GEMM where neither ops nor layouts nor profiles
     * are selected. GEMM's keys have the formats of all their operands selected, and the output's
     * dtype. */
    unsigned families;
    unsigned passes; /* grouped GEMM: bits 1 << MXGEN_PASS_..; 0: all. Steps come with either. */
    /* Grouped GEMM: bits of mxgen_pair_bit; 0: as the formats say. Beside these, formats add
     * theirs; block kernels are made for formats alone. */
    unsigned pairs;
    const char *name; /* NULL, or only keys that can have a kernel of this name */
} mxgen_filter;

/* All applicable variants of a target, sorted by key, then rank. Release with free(). */
mx_status mxgen_enumerate(const mxgen_target *target, const mxgen_filter *filter,
                          mxgen_spec **specs, size_t *n, mx_error *err);

/* Finds a variant by kernel name (as in `mxgen list`). */
mx_status mxgen_spec_find(const mxgen_target *target, const char *name, mxgen_spec *out,
                          mx_error *err);

/* The variant ranked first for the key, with parameters overridden. A parameter that is unknown,
 * out of range or not applicable is an error that names the rule. */
mx_status mxgen_spec_make(const mxgen_target *target, const mxgen_key *key,
                          const char *const *param_names, const int *param_values, size_t n_params,
                          mxgen_spec *out, mx_error *err);

/* Launch rules of a variant in the pack's terms (mxgen/pack.h). Strings to be freed. */
mx_status mxgen_spec_rules_json(const mxgen_spec *spec, char **json, mx_error *err);
mx_status mxgen_spec_launch_json(const mxgen_spec *spec, char **json, mx_error *err);
mx_status mxgen_spec_params_json(const mxgen_spec *spec, char **json, mx_error *err);

/* Stores a variant's row, with rules and launch, under a target's name. */
struct mxgen_pack_writer;
mx_status mxgen_spec_write(const mxgen_spec *spec, struct mxgen_pack_writer *writer,
                           const char *target, int64_t object_id, const char *info_json,
                           mx_error *err);

/* ---- ROCm's code object manager ---- */

/* What makes AMD's code objects. */
typedef enum mxgen_codegen {
    MXGEN_CODEGEN_LLVM = 0, /* LLVM and its linker in this process */
    MXGEN_CODEGEN_AUTO,     /* comgr where there is one that knows the chip, else the above */
    MXGEN_CODEGEN_COMGR,    /* bitcode to comgr where its LLVM is new enough, else a relocatable */
    MXGEN_CODEGEN_COMGR_LINK,   /* a relocatable, which comgr links */
    MXGEN_CODEGEN_COMGR_BITCODE /* bitcode, from which comgr generates code and links it */
} mxgen_codegen;

typedef struct mxgen_comgr {
    mxgen_codegen codegen;
    char helper[1024];  /* mxgen-comgr, absolute; "": none is used */
    char library[1024]; /* the file that it found */
    char interface[16]; /* "3.0" */
    char llvm[32];      /* comgr's own, "22.1.8"; "0" if it cannot be told */
    bool reads_bitcode; /* of ours: its LLVM is as new */
    char chips[1600];   /* " gfx900 gfx942 .. ", with a blank at both ends */
    char note[1400];    /* why AUTO does not use it; else "" */
} mxgen_comgr;

/* "llvm", "auto", "comgr", "comgr-link", "comgr-bitcode". Nonzero if unknown. */
int mxgen_codegen_parse(const char *text, mxgen_codegen *out);

/* Finds mxgen-comgr (beside this program, or MXGEN_COMGR_HELPER) and asks it for comgr: `library`,
 * NULL: MXGEN_COMGR_LIBRARY, then the usual names. With AUTO a comgr that cannot be used is a note.
 * With LLVM nothing is looked for. Runs a program; not to be called beside setenv. */
mx_status mxgen_comgr_find(mxgen_codegen codegen, const char *library, mxgen_comgr *out,
                           mx_error *err);
/* Whether comgr can make code for an AMD target; the message lists the chips that it knows. */
mx_status mxgen_comgr_check(const mxgen_comgr *comgr, const mxgen_target *target, mx_error *err);

/* ---- Compilation ---- */

typedef enum mxgen_stage {
    MXGEN_STAGE_LLVM = 0, /* optimised LLVM IR, text */
    MXGEN_STAGE_ASM,      /* target assembly, text */
    MXGEN_STAGE_OBJECT    /* what the runtime loads: linked ELF, or PTX text for nvptx */
} mxgen_stage;

typedef struct mxgen_output {
    void *data; /* malloc'ed; text is zero-terminated, size_bytes without the zero */
    size_t size_bytes;
    char **info_json;   /* one a spec: registers, LDS, spills, occupancy; only for OBJECT */
    uint64_t *code_ids; /* one a spec: of the kernel's code and of what compiled it; as info_json */
    size_t n_info;
} mxgen_output;

/* Compiles variants of one target into one module. Thread-safe; one LLVM context a call. `comgr`
 * may be NULL: everything is made in this process. */
mx_status mxgen_compile(const mxgen_spec *specs, size_t n_specs, mxgen_stage stage,
                        const mxgen_comgr *comgr, mxgen_output *out, mx_error *err);
void mxgen_output_finish(mxgen_output *out); /* takes a zeroed one, too */

/* ---- NVIDIA's assembler ---- */

typedef struct mxgen_ptxas {
    char path[1024];  /* absolute; "": there is none to be used */
    char version[32]; /* "13.0.88" */
    char note[1400];  /* why one that was found is not used; else "" */
} mxgen_ptxas;

/* Looks for ptxas: `wanted` (a path, or "off"; NULL: the environment's MXGEN_PTXAS), else in PATH,
 * else in /usr/local/cuda/bin. One that is named must be there and run; none, or one that is too
 * old, is no error. */
mx_status mxgen_ptxas_find(const char *wanted, mxgen_ptxas *out, mx_error *err);

/* ---- Packs ---- */

typedef struct mxgen_build_options {
    const mxgen_target *const *targets;
    size_t n_targets;
    mxgen_filter filter;
    int n_threads; /* 0: one a core */
    /* Makes machine code for NVIDIA's targets, which is stored under the target's name, and the PTX
     * under its PTX name. NULL, or an empty path: PTX only, under the target's name. */
    const mxgen_ptxas *ptxas;
    const mxgen_comgr *comgr; /* for AMD's targets; may be NULL */
    /* May be NULL; called from one thread at a time. */
    void (*progress)(void *user, size_t done, size_t total);
    void *progress_user;
    /* Adds what else the pack shall have, after the kernels; may be NULL. */
    mx_status (*add)(void *user, struct mxgen_pack_writer *writer, mx_error *err);
    void *add_user;
} mxgen_build_options;

typedef struct mxgen_build_stats {
    size_t n_variants; /* machine code and PTX of a kernel count once */
    size_t n_objects;
    size_t n_cubins; /* of the objects, by ptxas */
    size_t n_comgr;  /* of the objects, by comgr */
    double seconds;
} mxgen_build_stats;

/* Builds into a temporary file beside `path` and renames it into place: `path` is either the old
 * content or the whole new pack. Equal options give equal contents. */
mx_status mxgen_build_pack(const mxgen_build_options *options, const char *path,
                           mxgen_build_stats *stats, mx_error *err);
/* The same, into memory (malloc'ed). */
mx_status mxgen_build_pack_memory(const mxgen_build_options *options, void **data,
                                  size_t *size_bytes, mxgen_build_stats *stats, mx_error *err);
/* Adds what every pack tells of its making; `others` follows LLVM's version, "" for none. */
mx_status mxgen_pack_meta(struct mxgen_pack_writer *writer, const char *others, mx_error *err);

#endif
