#include "gemm_pack.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "gemm_request.h"

pack_bytes gemm_pack_make(const char *target, const gemm_row *rows, size_t n)
{
    mxgen_pack_writer *writer = NULL;
    int64_t object;
    pack_bytes code = pack_read_file(getenv("MX_TEST_GEMM_KERNELS"));

    ck_assert_int_eq(mxgen_pack_writer_create(&writer, &err), MX_OK);
    mxgen_pack_writer_meta(writer, "generator", "mxgen test", &err);
    mxgen_pack_writer_meta(writer, "generator_hash", "0123", &err);
    mxgen_pack_writer_meta(writer, "compiler", "none", &err);
    ck_assert_msg(!mxgen_pack_writer_object(writer, target, MXPACK_KIND_HOST, code.data,
                                            code.size_bytes, &object, &err),
                  "%s", err.message);
    for (size_t i = 0; i < n; i++) {
        char info[64] = "{}";
        if (rows[i].code)
            snprintf(info, sizeof(info), "{\"code\":\"%s\"}", rows[i].code);
        const mxgen_pack_variant v = {
            .object_id = object,
            .target = target,
            .op = rows[i].op,
            .format = "mxfp8e4m3.mxfp8e4m3",
            .dtype = "f32",
            .profile = rows[i].profile ? rows[i].profile : "fast",
            .layout = "tiles",
            .name = rows[i].name,
            .symbol = rows[i].symbol,
            .rank = rows[i].rank,
            .params_json = rows[i].params ? rows[i].params : "{}",
            .rules_json = rows[i].rules ? rows[i].rules : "[]",
            .launch_json = rows[i].launch,
            .info_json = info,
        };
        ck_assert_msg(!mxgen_pack_writer_variant(writer, &v, &err), "%s", err.message);
    }
    free(code.data);
    return pack_take(writer);
}

void gemm_pack_add(const char *target, const gemm_row *rows, size_t n)
{
    pack_bytes bytes = gemm_pack_make(target, rows, n);

    ck_assert_msg(!mxrt_context_add_pack_memory(context, bytes.data, bytes.size_bytes, &err), "%s",
                  err.message);
    free(bytes.data);
}
