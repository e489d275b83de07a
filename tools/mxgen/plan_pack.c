/* Compiling every candidate would take seconds; selection reads only their rules. So there are two
 * packs: one of rules with a stand-in for code, then one of the chosen variant with its code. */
#include <stdlib.h>

#include <mxgen/error.h>
#include <mxgen/pack.h>

#include "gen/pack_writer.h"
#include "plan_pack.h"

static mx_status plan_pack_meta(mxgen_pack_writer *writer, mx_error *err)
{
    mx_status status =
        mxgen_pack_writer_meta(writer, MXPACK_META_GENERATOR, "mxgen " MX_VERSION_STRING, err);
    if (status == MX_OK)
        status = mxgen_pack_writer_meta(writer, MXPACK_META_GENERATOR_HASH, "plan", err);
    if (status == MX_OK)
        status = mxgen_pack_writer_meta(writer, MXPACK_META_COMPILER, "plan", err);
    return status;
}

/* `info_json` is NULL or has one text a spec. */
static mx_status plan_pack_write(const mxgen_spec *specs, size_t n_specs, const void *object,
                                 size_t object_bytes, char *const *info_json, void **data,
                                 size_t *size_bytes, mx_error *err)
{
    mxgen_pack_writer *writer = NULL;
    int64_t object_id = 0;
    mx_status status = mxgen_pack_writer_create(&writer, err);
    if (status == MX_OK)
        status = plan_pack_meta(writer, err);
    if (status == MX_OK)
        status = mxgen_pack_writer_object(writer, mxgen_target_name(specs[0].target),
                                          cli_object_kind(specs[0].target), object, object_bytes,
                                          &object_id, err);
    for (size_t i = 0; status == MX_OK && i < n_specs; i++)
        status = mxgen_spec_write(&specs[i], writer, mxgen_target_name(specs[i].target), object_id,
                                  info_json ? info_json[i] : "{}", err);
    if (status == MX_OK)
        status = mxgen_pack_writer_serialize(writer, data, size_bytes, err);
    mxgen_pack_writer_destroy(writer);
    return status;
}

mx_status plan_pack_rules(const mxgen_spec *specs, size_t n_specs, void **data, size_t *size_bytes,
                          mx_error *err)
{
    static const char stand_in[] = "not compiled";
    return plan_pack_write(specs, n_specs, stand_in, sizeof(stand_in), NULL, data, size_bytes, err);
}

mx_status plan_pack_compiled(const mxgen_spec *spec, void **data, size_t *size_bytes, mx_error *err)
{
    mxgen_output object = {0};
    mx_status status = mxgen_compile(spec, 1, MXGEN_STAGE_OBJECT, NULL, &object, err);
    if (status == MX_OK)
        status =
            plan_pack_write(spec, 1, object.data, object.size_bytes,
                            object.n_info == 1 ? object.info_json : NULL, data, size_bytes, err);
    mxgen_output_finish(&object);
    return status;
}
