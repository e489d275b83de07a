/* The texts of a pack, each kept once, and what they mean: rules, launches, parameters, info.
 *
 * Hundreds of variants share their rules and launches, so a text is parsed when it is first asked
 * for, and what it means is kept with it. */
#ifndef MXRT_PACK_FORMS_H
#define MXRT_PACK_FORMS_H

#include "pack_reader.h"

#define MXRT_PACK_MAX_JSON_BYTES (1 << 20)

typedef struct mxrt_pack_forms mxrt_pack_forms;
typedef struct mxrt_pack_text mxrt_pack_text; /* equal texts are one pointer */

mx_status mxrt_pack_forms_create(mxrt_pack_forms **out, mx_error *err);
void mxrt_pack_forms_destroy(mxrt_pack_forms *forms); /* with everything that came from it */

mx_status mxrt_pack_forms_intern(mxrt_pack_forms *forms, const char *chars, size_t length,
                                 mxrt_pack_text **out, mx_error *err);
const char *mxrt_pack_text_chars(const mxrt_pack_text *text);

/* Fill the parts of a launch, whose family is set, that come from the column. Messages begin with
 * the column's name. `buffers` gets a bit 1 << mxrt_pack_arg.buffer for each that is an argument.
 */
mx_status mxrt_pack_forms_rules(mxrt_pack_forms *forms, mxrt_pack_text *text,
                                mxrt_pack_launch *launch, mx_error *err);
mx_status mxrt_pack_forms_launch(mxrt_pack_forms *forms, mxrt_pack_text *text,
                                 mxrt_pack_launch *launch, unsigned *buffers, mx_error *err);
/* Objects of plain values; the keys of info that mxgen/pack.h names are integers. */
mx_status mxrt_pack_forms_params(mxrt_pack_text *text, mx_error *err);
mx_status mxrt_pack_forms_info(mxrt_pack_text *text, mx_error *err);

#endif
