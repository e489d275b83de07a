/* Whether FILE.json has the form that mxgen(1) tells of: keys and types. What its expressions say
 * is looked at where they are used. */
#ifndef MXGEN_KERNEL_FORM_H
#define MXGEN_KERNEL_FORM_H

#include <jansson.h>

#include <mxgen/base.h>

mx_status kernel_form_check(const char *json_path, const json_t *json, mx_error *err);

#endif
