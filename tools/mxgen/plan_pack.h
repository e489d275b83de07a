/* Packs in memory for `mxgen plan`: only the rows that selection needs. */
#ifndef MXGEN_PLAN_PACK_H
#define MXGEN_PLAN_PACK_H

#include "cli.h"

/* Every candidate's rules and launch rule, but no code: enough to select one. */
mx_status plan_pack_rules(const mxgen_spec *specs, size_t n_specs, void **data, size_t *size_bytes,
                          mx_error *err);
/* One variant, compiled. */
mx_status plan_pack_compiled(const mxgen_spec *spec, void **data, size_t *size_bytes,
                             mx_error *err);

#endif
