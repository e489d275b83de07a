/* What a template tells the generator about itself. */
#ifndef MXGEN_TEMPLATE_H
#define MXGEN_TEMPLATE_H

#include "gen/emit.h"

#define MXGEN_MAX_RULES 16
#define MXGEN_EXPR_BYTES 160
#define MXGEN_MAX_STEPS 4

/* A tuning parameter and the values that enumeration tries. */
typedef struct mxgen_param {
    const char *name;
    const int *values;
    int n_values;
} mxgen_param;

typedef struct mxgen_rule {
    const char *rule; /* in words, static */
    char when[MXGEN_EXPR_BYTES];
} mxgen_rule;

/* How a kernel is launched, in the pack's terms (mxgen/pack.h). The argument list serves the
 * emit layer, too. */
typedef struct mxgen_kernel {
    int threads; /* a workgroup */
    int lds_bytes;
    int min_programs_per_cu; /* that registers must leave room for; 0: the compiler's choice */
    char grid_x[MXGEN_EXPR_BYTES];
    int n_rules;
    mxgen_rule rules[MXGEN_MAX_RULES];
    int n_args;
    mxe_arg args[MXE_MAX_ARGS];
    char arg_values[MXE_MAX_ARGS][MXGEN_EXPR_BYTES]; /* scalars: an expression */
    char workspace_bytes[MXGEN_EXPR_BYTES];          /* "": none */
    int n_before, n_after;                           /* kernels launched around this one, by name */
    char before[MXGEN_MAX_STEPS][MXGEN_NAME_BYTES], after[MXGEN_MAX_STEPS][MXGEN_NAME_BYTES];
} mxgen_kernel;

struct mxgen_template {
    const char *name;
    unsigned formats;  /* block kernels: bit set of mx_format */
    unsigned layouts;  /* block kernels: bit set of mx_layout */
    unsigned passes;   /* grouped GEMM: bit set of mxgen_pass; `applies` looks at the operands */
    bool any_operands; /* grouped GEMM, exact: the code is the same for all operands */
    const mxgen_param *params;
    int n_params;
    /* Whether the spec's parameters make sense for its target and key; if not, `why` says which
     * rule they break. */
    bool (*applies)(const mxgen_spec *spec, char *why, size_t why_bytes);
    /* The declared set of variants that packs have, among those that apply. */
    bool (*explored)(const mxgen_spec *spec);
    void (*describe)(const mxgen_spec *spec, mxgen_kernel *kernel);
    /* Relative time, lower is better: the static rank. */
    double (*cost)(const mxgen_spec *spec);
    /* The kernel's body: between mxe_kernel_begin and mxe_kernel_end. */
    void (*emit)(mxe *e, const mxgen_spec *spec, const mxgen_kernel *kernel);
    /* The variant ranked last takes all that the layout allows: packs with fewer variants keep it.
     */
    bool keeps_last;
    /* Names of parameters that only the launch rule sees: variants that differ in nothing else
     * share their code. NULL-terminated. */
    const char *const *launch_params;
};

/* The table in templates/templates.c. */
extern const mxgen_template *const mxgen_templates[];
extern const size_t mxgen_n_templates;

/* Value of a parameter; -1 if the template has none of that name. */
int mxgen_spec_param(const mxgen_spec *spec, const char *name);

/* A step that a kernel names: the variant of `tmpl` with these values of all its parameters. */
void mxgen_kernel_before(mxgen_kernel *kernel, const mxgen_template *tmpl,
                         const mxgen_target *target, const mxgen_key *key, const int *params);
void mxgen_kernel_after(mxgen_kernel *kernel, const mxgen_template *tmpl,
                        const mxgen_target *target, const mxgen_key *key, const int *params);

/* Appends; overflow of a table is a programmer's error and asserted. */
void mxgen_kernel_rule(mxgen_kernel *kernel, const char *rule, const char *when_format, ...)
    MX_PRINTF(3, 4);
void mxgen_kernel_pointer(mxgen_kernel *kernel, const char *name, unsigned flags, int align_bytes);
void mxgen_kernel_scalar(mxgen_kernel *kernel, const char *name, mxe_arg_kind kind,
                         const char *value_format, ...) MX_PRINTF(4, 5);

#endif
