/* mxrt make-model: tensors such as a transformer has, some of them awkward, from a seed. */
#include "mxrt_tool.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

#include "mxrt_meta.h"
#include "tests/cases.h"

enum { MODEL_DIMS = 3 };

typedef struct model_tensor {
    const char *name;
    st_dtype dtype;
    size_t ndim;
    int64_t shape[MODEL_DIMS];
    mx_values values;
    int is_marred; /* has a NaN and an infinity */
} model_tensor;

/* clang-format off */
static const model_tensor model_tensors[] = {
    {.name = "embed.weight", .dtype = ST_BF16, .ndim = 2, .shape = {8192, 1024}},
    {.name = "embed.position_ids", .dtype = ST_I64, .ndim = 2, .shape = {1, 512}},
    {.name = "layers.0.attn.q.weight", .dtype = ST_BF16, .ndim = 2, .shape = {1024, 1024},
     .values = MX_VALUES_OUTLIERS},
    {.name = "layers.0.attn.k.weight", .dtype = ST_F32, .ndim = 2, .shape = {1024, 1024}},
    {.name = "layers.0.attn.v.weight", .dtype = ST_BF16, .ndim = 2, .shape = {1024, 1024}},
    {.name = "layers.0.attn.o.weight", .dtype = ST_F32, .ndim = 2, .shape = {1024, 1024},
     .values = MX_VALUES_OUTLIERS},
    {.name = "layers.0.attn.o.bias", .dtype = ST_F32, .ndim = 1, .shape = {1024}},
    {.name = "layers.0.mlp.up.weight", .dtype = ST_BF16, .ndim = 2, .shape = {4096, 1024}},
    {.name = "layers.0.mlp.down.weight", .dtype = ST_F32, .ndim = 2, .shape = {1024, 4096}},
    {.name = "layers.0.mlp.gate.weight", .dtype = ST_BF16, .ndim = 2, .shape = {4096, 1021},
     .values = MX_VALUES_OUTLIERS},
    {.name = "layers.0.norm.weight", .dtype = ST_BF16, .ndim = 1, .shape = {1024}},
    {.name = "layers.0.adapter.weight", .dtype = ST_F32, .ndim = 2, .shape = {1000, 1021}},
    {.name = "layers.0.conv.weight", .dtype = ST_F16, .ndim = 3, .shape = {256, 3, 515}},
    {.name = "layers.0.marred.weight", .dtype = ST_F32, .ndim = 2, .shape = {256, 272},
     .is_marred = 1},
    {.name = "layers.0.unused.weight", .dtype = ST_F32, .ndim = 2, .shape = {0, 16}},
};
/* clang-format on */

enum { N_MODEL_TENSORS = sizeof(model_tensors) / sizeof(model_tensors[0]) };

typedef struct model_options {
    const char *out;
    uint64_t seed;
    int is_small, quiet;
} model_options;

enum { KEY_SEED = 256, KEY_SIZE };

static error_t parse_model(int key, char *arg, struct argp_state *state)
{
    model_options *options = state->input;
    switch (key) {
    case KEY_SEED:
        options->seed = (uint64_t)tool_parse_integer(state, "--seed", arg, 0, INT64_MAX);
        return 0;
    case KEY_SIZE:
        if (strcmp(arg, "small") && strcmp(arg, "default"))
            argp_error(state, "size \"%s\" is neither small nor default", arg);
        options->is_small = !strcmp(arg, "small");
        return 0;
    case 'q':
        options->quiet = 1;
        return 0;
    case 'o':
    case ARGP_KEY_ARG:
        if (options->out)
            argp_error(state, "more than one output: \"%s\"", arg);
        options->out = arg;
        return 0;
    case ARGP_KEY_END:
        if (!options->out)
            argp_error(state, "which file? OUT is missing");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Small ones have a sixteenth of the large dimensions; ragged ones stay ragged. */
static int64_t model_shape(const model_options *options, const model_tensor *tensor,
                           int64_t shape[MODEL_DIMS])
{
    int64_t n = 1;
    for (size_t i = 0; i < tensor->ndim; i++) {
        shape[i] = tensor->shape[i];
        if (options->is_small && shape[i] >= 256)
            shape[i] /= 16;
        n *= shape[i];
    }
    return n;
}

static void fill_tensor(const model_options *options, size_t number, void *data, int64_t n)
{
    const model_tensor *tensor = &model_tensors[number];
    mx_dtype dtype = MX_DTYPE_F32;
    if (meta_dtype_from_file(tensor->dtype, &dtype) == 0) {
        mx_case_fill(tensor->values, options->seed + number, dtype, data, n);
    } else {
        for (int64_t i = 0; i < n; i++)
            ((int64_t *)data)[i] = i;
    }
    if (tensor->is_marred) {
        ((uint32_t *)data)[5] = 0x7fc00000;
        ((uint32_t *)data)[77] = 0xff800000;
    }
}

static mx_status write_tensor(const model_options *options, st_writer *writer, size_t number,
                              mx_error *err)
{
    const model_tensor *tensor = &model_tensors[number];
    int64_t shape[MODEL_DIMS], size_bytes = 0;
    int64_t n = model_shape(options, tensor, shape);
    mx_status status = st_tensor_bytes(tensor->dtype, tensor->ndim, shape, &size_bytes, err);
    if (status != MX_OK || size_bytes == 0)
        return status;
    void *data = malloc((size_t)size_bytes);
    if (!data)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for tensor \"%s\" of %lld bytes",
                       tensor->name, (long long)size_bytes);
    fill_tensor(options, number, data, n);
    status = st_writer_write(writer, number, 0, data, (size_t)size_bytes, err);
    free(data);
    return status;
}

static mx_status make_model(const model_options *options, mx_error *err)
{
    st_writer *writer = NULL;
    tool_progress progress;
    mx_status status = st_writer_create(options->out, &writer, err);
    progress_init(&progress, N_MODEL_TENSORS, options->quiet);
    if (status == MX_OK)
        status = st_writer_metadata(writer, "made_by", "mxrt make-model", err);
    for (size_t i = 0; i < N_MODEL_TENSORS && status == MX_OK; i++) {
        const model_tensor *tensor = &model_tensors[i];
        int64_t shape[MODEL_DIMS];
        size_t index;
        model_shape(options, tensor, shape);
        status = st_writer_declare(writer, tensor->name, tensor->dtype, tensor->ndim, shape, &index,
                                   err);
    }
    if (status == MX_OK)
        status = st_writer_begin(writer, err);
    for (size_t i = 0; i < N_MODEL_TENSORS && status == MX_OK; i++) {
        status = write_tensor(options, writer, i, err);
        progress_add(&progress, 1, model_tensors[i].name);
    }
    if (status == MX_OK)
        status = st_writer_commit(writer, err);
    progress_clear(&progress);
    st_writer_destroy(writer);
    return status;
}

int cmd_make_model(int argc, char **argv)
{
    static const struct argp_option option_table[] = {
        {"output", 'o', "OUT", 0, "The same as OUT alone", 0},
        {"seed", KEY_SEED, "N", 0, "Other values (default: 1); one seed gives one file anywhere",
         0},
        {"size", KEY_SIZE, "SIZE", 0, "default (about 70 MB) or small (about 300 kB)", 0},
        {"quiet", 'q', NULL, 0, "No progress bar", 0},
        {0}};
    static const struct argp argp = {
        .options = option_table,
        .parser = parse_model,
        .args_doc = "OUT",
        .doc = "Writes a safetensors file with a few tensors such as a transformer has: bf16, f32 "
               "and f16, some ragged, some with outliers."};
    model_options options = {.seed = 1};
    mx_error err = {0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &options))
        return TOOL_EXIT_USAGE;
    return make_model(&options, &err) == MX_OK ? 0 : tool_fail(&err);
}
