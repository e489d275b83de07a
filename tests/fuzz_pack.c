/* Opens files as kernel packs and reads everything in them: fuzz_pack FILE .. prints a line for
 * each, "ok" or what is wrong with it. Whatever a file holds, this must end, and end cleanly; run
 * it with sanitizers on files that a fuzzer makes. */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/pack_reader.h"

static void eval_all(const mxrt_expr *expr, const int64_t *values)
{
    int64_t value;
    mx_error err;
    if (expr)
        (void)mxrt_expr_eval(expr, values, &value, &err);
}

static void walk_launch(const mxrt_pack_launch *launch, const int64_t *values)
{
    for (int i = 0; i < 3; i++) {
        eval_all(launch->grid[i], values);
        eval_all(launch->block[i], values);
    }
    eval_all(launch->lds_bytes, values);
    eval_all(launch->workspace_bytes, values);
    for (size_t i = 0; i < launch->n_rules; i++)
        eval_all(launch->rules[i].when, values);
    for (size_t i = 0; i < launch->n_args; i++)
        eval_all(launch->args[i].value, values);
}

static mx_status walk_pack(const mxrt_pack *pack, mx_error *err)
{
    static const int64_t fills[] = {0, 1, 16, INT64_MAX};
    for (size_t i = 0; i < mxrt_pack_variant_count(pack); i++) {
        mxrt_variant_info info;
        mx_status status = mxrt_pack_variant(pack, i, &info, err);
        for (size_t f = 0; !status && f < sizeof(fills) / sizeof(fills[0]); f++) {
            int64_t values[MXRT_VALUES_COUNT];
            for (int k = 0; k < MXRT_VALUES_COUNT; k++)
                values[k] = fills[f];
            walk_launch(mxrt_pack_launch_of(pack, i), values);
        }
        void *data = NULL;
        size_t size_bytes = 0;
        if (!status)
            status = mxrt_pack_object(pack, info.object_id, &data, &size_bytes, err);
        free(data);
        if (status)
            return status;
    }
    return MX_OK;
}

static mx_status walk_file(const char *path, mx_error *err)
{
    mxrt_pack *pack = NULL;
    mx_status status = mxrt_pack_open(path, &pack, err);
    if (!status)
        status = walk_pack(pack, err);
    mxrt_pack_close(pack);
    return status;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        mx_error err = {0};
        mx_status status = walk_file(argv[i], &err);
        printf("%s: %s\n", argv[i], status ? err.message : "ok");
    }
    return argc < 2;
}
