/* The list of templates: a new one adds its line here. */
#include "gen/template.h"

extern const mxgen_template gemm_direct_template;
extern const mxgen_template gemm_host_template;
extern const mxgen_template gemm_prepare_template;
extern const mxgen_template gemm_redo_template;
extern const mxgen_template gemm_skinny_template;
extern const mxgen_template gemm_tiles_template;
extern const mxgen_template mx_general_template;
extern const mxgen_template mx_pair_general_template;
extern const mxgen_template mx_pair_template;
extern const mxgen_template mx_rows_template;
extern const mxgen_template mx_tiles_template;
extern const mxgen_template mx_turn_template;
extern const mxgen_template mx_unaligned_template;

const mxgen_template *const mxgen_templates[] = {
    &mx_rows_template,    &mx_unaligned_template,    &mx_tiles_template,  &mx_general_template,
    &mx_pair_template,    &mx_pair_general_template, &mx_turn_template,   &gemm_prepare_template,
    &gemm_tiles_template, &gemm_direct_template,     &gemm_redo_template, &gemm_host_template,
    &gemm_skinny_template};
const size_t mxgen_n_templates = sizeof(mxgen_templates) / sizeof(mxgen_templates[0]);
