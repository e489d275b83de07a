/* Variants: enumeration, names, rules and launch as JSON. */
#include <assert.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/pack_writer.h"
#include "gen/template.h"
#include "mxgen/error.h"
#include "mxgen/pack.h"

int mxgen_spec_param(const mxgen_spec *spec, const char *name)
{
    /* Mostly the very same string: enumeration asks millions of times. */
    for (int i = 0; i < spec->n_params; i++) {
        if (spec->param_names[i] == name)
            return spec->params[i];
    }
    for (int i = 0; i < spec->n_params; i++) {
        if (!strcmp(spec->param_names[i], name))
            return spec->params[i];
    }
    return -1;
}

static void format_into(char *text, size_t size, const char *format, va_list args)
{
    int length = vsnprintf(text, size, format, args);
    assert(length >= 0 && (size_t)length < size);
    (void)length;
}

void mxgen_kernel_rule(mxgen_kernel *kernel, const char *rule, const char *when_format, ...)
{
    assert(kernel->n_rules < MXGEN_MAX_RULES);
    mxgen_rule *slot = &kernel->rules[kernel->n_rules++];
    va_list args;
    va_start(args, when_format);
    format_into(slot->when, sizeof(slot->when), when_format, args);
    va_end(args);
    slot->rule = rule;
}

void mxgen_kernel_pointer(mxgen_kernel *kernel, const char *name, unsigned flags, int align_bytes)
{
    assert(kernel->n_args < MXE_MAX_ARGS);
    kernel->args[kernel->n_args++] = (mxe_arg){name, MXE_ARG_POINTER, flags, align_bytes};
}

void mxgen_kernel_scalar(mxgen_kernel *kernel, const char *name, mxe_arg_kind kind,
                         const char *value_format, ...)
{
    assert(kernel->n_args < MXE_MAX_ARGS);
    va_list args;
    va_start(args, value_format);
    format_into(kernel->arg_values[kernel->n_args], MXGEN_EXPR_BYTES, value_format, args);
    va_end(args);
    kernel->args[kernel->n_args++] = (mxe_arg){name, kind, 0, 0};
}

/* ---- Names ---- */

bool mxgen_key_equal(const mxgen_key *a, const mxgen_key *b)
{
    return a->op == b->op && a->format == b->format && a->dtype == b->dtype &&
           a->profile == b->profile && a->layout == b->layout && a->gemm.pass == b->gemm.pass &&
           a->gemm.left == b->gemm.left && a->gemm.right == b->gemm.right &&
           a->gemm.exact == b->gemm.exact;
}

const char *mxgen_operand_name(mxgen_operand operand)
{
    static const char *const names[MXGEN_OPERAND_COUNT] = {"mxfp4", "mxfp8e4m3", "mxfp8e5m2",
                                                           "bf16"};
    return names[operand];
}

static const char *pass_name(mxgen_pass pass)
{
    static const char *const names[MXGEN_PASS_COUNT] = {"", "gemm_rows", "gemm_cols", "gemm_step"};
    return names[pass];
}

/* Short forms in kernel names, so that a name stays readable and unique. */
static void append_param(char *text, size_t size, const char *name, int value)
{
    static const struct {
        const char *name, *letter;
    } letters[] = {{"BLOCKS_PER_PROGRAM", "b"},
                   {"num_warps", "w"},
                   {"LANES_PER_BLOCK", "l"},
                   {"VEC", "v"},
                   {"NUM_LOADS", "u"},
                   {"STAGED", "s"},
                   {"CACHE", "c"},
                   {"ROW_MAP", "m"},
                   {"BLOCK_M", "bm"},
                   {"BLOCK_N", "bn"},
                   {"INDEX_BITS", "i"},
                   {"DIMS", "d"},
                   {"PACKED_RUNS", "r"},
                   {"EVEN", "e"},
                   {"ORDER", "o"},
                   {"BLOCK_SIZE_M", "m"},
                   {"BLOCK_SIZE_N", "n"},
                   {"BLOCK_SIZE_K", "k"},
                   {"GROUP_SIZE_M", "g"},
                   {"matrix_instr_nonkdim", "t"},
                   {"CHUNK", "q"},
                   {"num_stages", "s"},
                   {"SLICE", "z"},
                   {"OPTIONS", "x"},
                   {"CONVERT", "h"}};
    const char *letter = name;
    /* What few formats have is named where it is there. */
    if (!value && (!strcmp(name, "OPTIONS") || !strcmp(name, "CONVERT")))
        return;
    for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
        if (!strcmp(letters[i].name, name))
            letter = letters[i].letter;
    }
    size_t used = strlen(text);
    snprintf(text + used, size - used, "_%s%d", letter, value);
}

static bool is_launch_param(const mxgen_template *tmpl, const char *name)
{
    for (const char *const *p = tmpl->launch_params; p && *p; p++) {
        if (!strcmp(*p, name))
            return true;
    }
    return false;
}

/* Without a template: how names of all begin. */
static void set_gemm_stem(const mxgen_spec *spec, bool operands, char *stem, size_t stem_bytes)
{
    const mxgen_key *key = &spec->key;
    bool step = key->gemm.pass == MXGEN_PASS_STEP && spec->tmpl;
    char pair[40] = "";
    if (operands)
        snprintf(pair, sizeof(pair), "_%s_%s", mxgen_operand_name(key->gemm.left),
                 mxgen_operand_name(key->gemm.right));
    snprintf(stem, stem_bytes, "mx_%s%s_%s_%s%s%s", pass_name(key->gemm.pass), pair,
             mx_dtype_get(key->dtype)->name, key->gemm.exact ? "exact" : "fast", step ? "_" : "",
             step ? spec->tmpl->name : "");
}

static void set_stem(const mxgen_spec *spec, char *stem, size_t stem_bytes)
{
    const mxgen_key *key = &spec->key;
    snprintf(stem, stem_bytes, "mx_%s_%s_%s%s_%s", mx_op_name(key->op),
             mx_format_get(key->format)->name, mx_dtype_get(key->dtype)->name,
             key->profile == MX_PROFILE_DEMOTED_255 ? "_d255" : "", mx_layout_name(key->layout));
}

/* Whether the key can have a kernel of that name. */
static bool may_be_named(const mxgen_key *key, const char *name)
{
    char stem[80];
    const mxgen_spec spec = {.key = *key};
    if (key->gemm.pass != MXGEN_PASS_NONE)
        set_gemm_stem(&spec, true, stem, sizeof(stem));
    else
        set_stem(&spec, stem, sizeof(stem));
    return !strncmp(name, stem, strlen(stem));
}

static void set_names(mxgen_spec *spec)
{
    char stem[80];
    bool gemm = spec->key.gemm.pass != MXGEN_PASS_NONE;
    if (gemm)
        set_gemm_stem(spec, true, stem, sizeof(stem));
    else
        set_stem(spec, stem, sizeof(stem));
    snprintf(spec->name, sizeof(spec->name), "%s", stem);
    if (gemm)
        set_gemm_stem(spec, !(spec->tmpl->any_operands && spec->key.gemm.exact), stem,
                      sizeof(stem));
    snprintf(spec->symbol, sizeof(spec->symbol), "%s", stem);
    for (int i = 0; i < spec->n_params; i++) {
        append_param(spec->name, sizeof(spec->name), spec->param_names[i], spec->params[i]);
        if (!is_launch_param(spec->tmpl, spec->param_names[i]))
            append_param(spec->symbol, sizeof(spec->symbol), spec->param_names[i], spec->params[i]);
    }
}

static void step_name(const mxgen_template *tmpl, const mxgen_target *target, const mxgen_key *key,
                      const int *params, char name[MXGEN_NAME_BYTES])
{
    mxgen_spec spec = {.tmpl = tmpl, .target = target, .key = *key, .n_params = tmpl->n_params};
    for (int i = 0; i < tmpl->n_params; i++) {
        spec.param_names[i] = tmpl->params[i].name;
        spec.params[i] = params[i];
    }
    set_names(&spec);
    memcpy(name, spec.name, sizeof(spec.name));
}

void mxgen_kernel_before(mxgen_kernel *kernel, const mxgen_template *tmpl,
                         const mxgen_target *target, const mxgen_key *key, const int *params)
{
    assert(kernel->n_before < MXGEN_MAX_STEPS);
    step_name(tmpl, target, key, params, kernel->before[kernel->n_before++]);
}

void mxgen_kernel_after(mxgen_kernel *kernel, const mxgen_template *tmpl,
                        const mxgen_target *target, const mxgen_key *key, const int *params)
{
    assert(kernel->n_after < MXGEN_MAX_STEPS);
    step_name(tmpl, target, key, params, kernel->after[kernel->n_after++]);
}

/* ---- Enumeration ---- */

static mxgen_spec first_spec(const mxgen_template *tmpl, const mxgen_target *target,
                             const mxgen_key *key)
{
    mxgen_spec spec = {.tmpl = tmpl, .target = target, .key = *key, .n_params = tmpl->n_params};
    assert(tmpl->n_params <= MXGEN_MAX_PARAMS);
    for (int i = 0; i < tmpl->n_params; i++) {
        spec.param_names[i] = tmpl->params[i].name;
        spec.params[i] = tmpl->params[i].values[0];
    }
    return spec;
}

/* Counts through the values of all parameters, the last fastest; false after the last. */
static bool next_spec(mxgen_spec *spec)
{
    for (int i = spec->n_params - 1; i >= 0; i--) {
        const mxgen_param *param = &spec->tmpl->params[i];
        int at = 0;
        while (param->values[at] != spec->params[i])
            at++;
        if (at + 1 < param->n_values) {
            spec->params[i] = param->values[at + 1];
            return true;
        }
        spec->params[i] = param->values[0];
    }
    return false;
}

typedef struct ranked {
    mxgen_spec spec;
    double cost;
    size_t order;
} ranked;

static int by_cost(const void *a, const void *b)
{
    const ranked *left = a, *right = b;
    if (left->cost != right->cost)
        return left->cost < right->cost ? -1 : 1;
    return left->order < right->order ? -1 : 1;
}

typedef struct ranked_list {
    ranked *items;
    size_t n, capacity;
} ranked_list;

typedef struct spec_list {
    mxgen_spec *items;
    size_t n, capacity;
} spec_list;

static void *grown(void *items, size_t n, size_t *capacity, size_t item_bytes)
{
    if (n < *capacity)
        return items;
    *capacity = *capacity ? *capacity * 2 : 64;
    return realloc(items, *capacity * item_bytes);
}

static mx_status fail_variants(size_t n, mx_error *err)
{
    return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for %zu variants", n);
}

static bool serves(const mxgen_template *tmpl, const mxgen_key *key)
{
    if (key->gemm.pass != MXGEN_PASS_NONE)
        return tmpl->passes & (1u << key->gemm.pass);
    return tmpl->formats & (1u << key->format) && tmpl->layouts & (1u << key->layout);
}

/* What one template has for the key. */
static mx_status explore(ranked_list *found, const mxgen_template *tmpl, const mxgen_target *target,
                         const mxgen_key *key, mx_error *err)
{
    char why[256];
    mxgen_spec spec = first_spec(tmpl, target, key);
    do {
        /* Cheap first: most combinations are not of the declared set. */
        if (!tmpl->explored(&spec) || !tmpl->applies(&spec, why, sizeof(why)))
            continue;
        ranked *more = grown(found->items, found->n, &found->capacity, sizeof(*found->items));
        if (!more)
            return fail_variants(found->n, err);
        found->items = more;
        found->items[found->n] = (ranked){spec, tmpl->cost(&spec), found->n};
        found->n++;
    } while (next_spec(&spec));
    return MX_OK;
}

/* The first max_rank of the ranked, and the last where its template wants that; 0: all. */
static mx_status take_best(spec_list *list, const ranked_list *found, int max_rank, mx_error *err)
{
    for (size_t i = 0; i < found->n; i++) {
        const mxgen_spec *spec = &found->items[i].spec;
        bool kept = spec->tmpl->keeps_last && i + 1 == found->n;
        if (max_rank && i >= (size_t)max_rank && !kept)
            continue;
        mxgen_spec *more = grown(list->items, list->n, &list->capacity, sizeof(*list->items));
        if (!more)
            return fail_variants(list->n, err);
        list->items = more;
        more[list->n] = *spec;
        more[list->n].rank = (int)i;
        set_names(&more[list->n++]);
    }
    return MX_OK;
}

static mx_status add_key(spec_list *list, const mxgen_target *target, const mxgen_key *key,
                         int max_rank, mx_error *err)
{
    ranked_list found = {0};
    mx_status status = MX_OK;
    for (size_t i = 0; i < mxgen_n_templates && status == MX_OK; i++) {
        if (serves(mxgen_templates[i], key))
            status = explore(&found, mxgen_templates[i], target, key, err);
    }
    if (found.n)
        qsort(found.items, found.n, sizeof(*found.items), by_cost);
    if (status == MX_OK)
        status = take_best(list, &found, max_rank, err);
    free(found.items);
    return status;
}

static bool filter_has(const void *values, size_t n, size_t item_bytes, int wanted)
{
    for (size_t i = 0; i < n; i++) {
        int value;
        memcpy(&value, (const char *)values + i * item_bytes, sizeof(value));
        if (value == wanted)
            return true;
    }
    return n == 0;
}

static unsigned filter_families(const mxgen_filter *filter)
{
    if (!filter)
        return MXGEN_FAMILY_BLOCKS | MXGEN_FAMILY_GEMM;
    if (filter->families)
        return filter->families;
    bool blocks_only = filter->n_ops || filter->n_layouts || filter->n_profiles;
    return blocks_only ? MXGEN_FAMILY_BLOCKS : MXGEN_FAMILY_BLOCKS | MXGEN_FAMILY_GEMM;
}

static bool filter_operand(const mxgen_filter *filter, mxgen_operand operand)
{
    static const mx_format formats[] = {MX_FORMAT_MXFP4, MX_FORMAT_MXFP8_E4M3,
                                        MX_FORMAT_MXFP8_E5M2};
    return operand == MXGEN_OPERAND_BF16 ||
           filter_has(filter->formats, filter->n_formats, sizeof(mx_format), formats[operand]);
}

static bool filter_key(const mxgen_filter *filter, const mxgen_key *key)
{
    if (!(filter_families(filter) & MXGEN_FAMILY_BLOCKS))
        return false;
    if ((key->op != MX_OP_QDQ || mx_format_is_ocp(key->format)) &&
        key->profile != MX_PROFILE_PACKED)
        return false;
    if (!filter)
        return true;
    if (filter->pairs && !filter->n_formats)
        return false;
    return filter_has(filter->ops, filter->n_ops, sizeof(mx_op), key->op) &&
           filter_has(filter->formats, filter->n_formats, sizeof(mx_format), key->format) &&
           filter_has(filter->dtypes, filter->n_dtypes, sizeof(mx_dtype), key->dtype) &&
           filter_has(filter->profiles, filter->n_profiles, sizeof(mx_profile), key->profile) &&
           filter_has(filter->layouts, filter->n_layouts, sizeof(mx_layout), key->layout);
}

/* A step is named by its operand, twice, or by those of its product. */
static bool filter_pair(const mxgen_filter *filter, const mxgen_gemm_key *key)
{
    if (!filter->pairs || filter->pairs & mxgen_pair_bit(key->left, key->right))
        return filter->pairs != 0;
    for (int i = 0; i < MXGEN_OPERAND_COUNT * MXGEN_OPERAND_COUNT; i++) {
        mxgen_operand left = (mxgen_operand)(i / MXGEN_OPERAND_COUNT);
        mxgen_operand right = (mxgen_operand)(i % MXGEN_OPERAND_COUNT);
        if (filter->pairs & mxgen_pair_bit(left, right) && key->pass == MXGEN_PASS_STEP &&
            key->left == key->right && (key->left == left || key->left == right))
            return true;
    }
    return false;
}

static bool filter_gemm(const mxgen_filter *filter, const mxgen_key *key)
{
    const mxgen_gemm_key *gemm = &key->gemm;
    bool step = gemm->pass == MXGEN_PASS_STEP;
    bool by_formats = (!filter->pairs || filter->n_formats) && filter_operand(filter, gemm->left) &&
                      filter_operand(filter, gemm->right);
    if (!by_formats && !filter_pair(filter, gemm))
        return false;
    if (filter->passes && !step && !(filter->passes & 1u << gemm->pass))
        return false;
    /* Steps that write no output count as f32 and serve all. */
    return (step && key->dtype == MX_DTYPE_F32) ||
           filter_has(filter->dtypes, filter->n_dtypes, sizeof(mx_dtype), (int)key->dtype);
}

static mx_status add_gemm_keys(spec_list *list, const mxgen_target *target,
                               const mxgen_filter *filter, mx_error *err)
{
    enum {
        KEYS =
            (MXGEN_PASS_COUNT - 1) * MXGEN_OPERAND_COUNT * MXGEN_OPERAND_COUNT * MX_DTYPE_COUNT * 2
    };
    if (!(filter_families(filter) & MXGEN_FAMILY_GEMM))
        return MX_OK;
    mx_status status = MX_OK;
    for (int i = 0; i < KEYS && status == MX_OK; i++) {
        int rest = i;
        mxgen_key key = {.op = MX_OP_TO};
        key.gemm.right = (mxgen_operand)(rest % MXGEN_OPERAND_COUNT), rest /= MXGEN_OPERAND_COUNT;
        key.gemm.left = (mxgen_operand)(rest % MXGEN_OPERAND_COUNT), rest /= MXGEN_OPERAND_COUNT;
        key.gemm.exact = rest % 2, rest /= 2;
        key.dtype = (mx_dtype)(rest % MX_DTYPE_COUNT), rest /= MX_DTYPE_COUNT;
        key.gemm.pass = (mxgen_pass)(rest + 1);
        bool step = key.gemm.pass == MXGEN_PASS_STEP;
        if (filter && !filter_gemm(filter, &key))
            continue;
        if (filter && filter->name && !may_be_named(&key, filter->name))
            continue;
        status = add_key(list, target, &key, filter && !step ? filter->max_rank : 0, err);
    }
    return status;
}

mx_status mxgen_enumerate(const mxgen_target *target, const mxgen_filter *filter,
                          mxgen_spec **specs, size_t *n, mx_error *err)
{
    enum {
        KEYS = MX_OP_COUNT * MX_FORMAT_COUNT * MX_DTYPE_COUNT * MX_PROFILE_COUNT * MX_LAYOUT_END
    };
    spec_list list = {0};
    for (int i = 0; i < KEYS; i++) {
        int rest = i;
        mxgen_key key = {.op = MX_OP_TO};
        key.layout = (mx_layout)(rest % MX_LAYOUT_END), rest /= MX_LAYOUT_END;
        key.profile = (mx_profile)(rest % MX_PROFILE_COUNT), rest /= MX_PROFILE_COUNT;
        key.dtype = (mx_dtype)(rest % MX_DTYPE_COUNT), rest /= MX_DTYPE_COUNT;
        key.format = (mx_format)(rest % MX_FORMAT_COUNT), rest /= MX_FORMAT_COUNT;
        key.op = (mx_op)rest;
        if (!filter_key(filter, &key))
            continue;
        if (filter && filter->name && !may_be_named(&key, filter->name))
            continue;
        int max_rank = filter ? filter->max_rank : 0;
        mx_status status = add_key(&list, target, &key, max_rank, err);
        if (status != MX_OK) {
            free(list.items);
            return status;
        }
    }
    mx_status status = add_gemm_keys(&list, target, filter, err);
    if (status != MX_OK) {
        free(list.items);
        return status;
    }
    *specs = list.items;
    *n = list.n;
    return MX_OK;
}

mx_status mxgen_spec_find(const mxgen_target *target, const char *name, mxgen_spec *out,
                          mx_error *err)
{
    mxgen_spec *specs;
    size_t n;
    const mxgen_filter filter = {.name = name};
    mx_status status = mxgen_enumerate(target, &filter, &specs, &n, err);
    if (status != MX_OK)
        return status;
    status = MX_ERR_NOT_FOUND;
    for (size_t i = 0; i < n && status != MX_OK; i++) {
        if (!strcmp(specs[i].name, name)) {
            *out = specs[i];
            status = MX_OK;
        }
    }
    free(specs);
    if (status != MX_OK)
        return mx_fail(err, status, "%s has no kernel named %s; `mxgen list` on a pack shows names",
                       target->name, name);
    return MX_OK;
}

static mx_status set_param(mxgen_spec *spec, const char *name, int value, mx_error *err)
{
    for (int i = 0; i < spec->n_params; i++) {
        if (strcmp(spec->param_names[i], name))
            continue;
        const mxgen_param *param = &spec->tmpl->params[i];
        for (int v = 0; v < param->n_values; v++) {
            if (param->values[v] == value) {
                spec->params[i] = value;
                return MX_OK;
            }
        }
        char values[160] = "";
        for (int v = 0; v < param->n_values; v++)
            snprintf(values + strlen(values), sizeof(values) - strlen(values), " %d",
                     param->values[v]);
        return mx_fail(err, MX_ERR_INVALID, "parameter %s=%d is out of range; it can be%s", name,
                       value, values);
    }
    char names[256] = "";
    for (int i = 0; i < spec->n_params; i++)
        snprintf(names + strlen(names), sizeof(names) - strlen(names), " %s", spec->param_names[i]);
    return mx_fail(err, MX_ERR_INVALID, "template %s has no parameter %s; it has%s",
                   spec->tmpl->name, name, names);
}

static bool has_params(const mxgen_spec *spec, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (mxgen_spec_param(spec, names[i]) < 0)
            return false;
    }
    return true;
}

mx_status mxgen_spec_make(const mxgen_target *target, const mxgen_key *key,
                          const char *const *param_names, const int *param_values, size_t n_params,
                          mxgen_spec *out, mx_error *err)
{
    spec_list list = {0};
    char why[256];
    mx_status status = add_key(&list, target, key, 0, err);
    if (status != MX_OK)
        return status;
    if (list.n == 0) {
        free(list.items);
        return mx_fail(err, MX_ERR_UNSUPPORTED, "%s has no kernel for %s %s %s, layout %s",
                       target->name, mx_op_name(key->op), mx_format_get(key->format)->name,
                       mx_dtype_get(key->dtype)->name, mx_layout_name(key->layout));
    }
    /* Parameters that were not named follow those that were: the best variant that has them, of
     * the best template that knows all the names. */
    mxgen_spec wanted = list.items[0];
    for (size_t i = 0; i < list.n; i++) {
        if (has_params(&list.items[i], param_names, n_params)) {
            wanted = list.items[i];
            break;
        }
    }
    for (size_t i = 0; i < n_params && status == MX_OK; i++)
        status = set_param(&wanted, param_names[i], param_values[i], err);
    for (size_t i = 0; i < list.n && status == MX_OK; i++) {
        bool same = list.items[i].tmpl == wanted.tmpl;
        for (size_t k = 0; k < n_params; k++)
            same = same && mxgen_spec_param(&list.items[i], param_names[k]) == param_values[k];
        if (same) {
            wanted = list.items[i];
            break;
        }
    }
    free(list.items);
    if (status != MX_OK)
        return status;
    if (!wanted.tmpl->applies(&wanted, why, sizeof(why)))
        return mx_fail(err, MX_ERR_INVALID, "not applicable: %s", why);
    set_names(&wanted);
    *out = wanted;
    return MX_OK;
}

/* ---- JSON ---- */

static mx_status dump(json_t *json, char **text, mx_error *err)
{
    *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return *text ? MX_OK : mx_fail(err, MX_ERR_NO_MEMORY, "no memory for a launch rule");
}

static void describe(const mxgen_spec *spec, mxgen_kernel *kernel)
{
    memset(kernel, 0, sizeof(*kernel));
    spec->tmpl->describe(spec, kernel);
    if (spec->target->max_grid_threads)
        mxgen_kernel_rule(kernel, "the grid fits the launch queue", "(%s) * %d <= %lld",
                          kernel->grid_x, kernel->threads,
                          (long long)spec->target->max_grid_threads);
}

mx_status mxgen_spec_rules_json(const mxgen_spec *spec, char **json, mx_error *err)
{
    mxgen_kernel kernel;
    describe(spec, &kernel);
    json_t *rules = json_array();
    for (int i = 0; i < kernel.n_rules; i++)
        json_array_append_new(rules, json_pack("{s:s,s:s}", "rule", kernel.rules[i].rule, "when",
                                               kernel.rules[i].when));
    return dump(rules, json, err);
}

static json_t *arg_json(const mxgen_kernel *kernel, int i)
{
    static const char *const kinds[] = {"pointer", "i32", "i64"};
    const mxe_arg *arg = &kernel->args[i];
    if (arg->kind == MXE_ARG_POINTER)
        return json_pack("{s:s,s:s,s:s}", "name", arg->name, "kind", "pointer", "buffer",
                         arg->name);
    return json_pack("{s:s,s:s,s:s}", "name", arg->name, "kind", kinds[arg->kind], "value",
                     kernel->arg_values[i]);
}

static json_t *names_json(char names[][MXGEN_NAME_BYTES], int n)
{
    json_t *array = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(array, json_string(names[i]));
    return array;
}

mx_status mxgen_spec_launch_json(const mxgen_spec *spec, char **json, mx_error *err)
{
    mxgen_kernel kernel;
    char threads[16], lds[16];
    describe(spec, &kernel);
    snprintf(threads, sizeof(threads), "%d", kernel.threads);
    /* The host's scratch is on the stack. */
    snprintf(lds, sizeof(lds), "%d", spec->target->kind == MXGEN_HOST ? 0 : kernel.lds_bytes);
    json_t *args = json_array();
    for (int i = 0; i < kernel.n_args; i++)
        json_array_append_new(args, arg_json(&kernel, i));
    json_t *launch = json_pack("{s:[s,s,s],s:[s,s,s],s:s,s:o}", "grid", kernel.grid_x, "1", "1",
                               "block", threads, "1", "1", "lds_bytes", lds, "args", args);
    if (kernel.workspace_bytes[0])
        json_object_set_new(launch, "workspace_bytes", json_string(kernel.workspace_bytes));
    if (kernel.n_before)
        json_object_set_new(launch, "before", names_json(kernel.before, kernel.n_before));
    if (kernel.n_after)
        json_object_set_new(launch, "after", names_json(kernel.after, kernel.n_after));
    return dump(launch, json, err);
}

mx_status mxgen_spec_params_json(const mxgen_spec *spec, char **json, mx_error *err)
{
    json_t *params = json_object();
    for (int i = 0; i < spec->n_params; i++)
        json_object_set_new(params, spec->param_names[i], json_integer(spec->params[i]));
    return dump(params, json, err);
}

mx_status mxgen_spec_write(const mxgen_spec *spec, mxgen_pack_writer *writer, const char *target,
                           int64_t object_id, const char *info_json, mx_error *err)
{
    char *params = NULL, *rules = NULL, *launch = NULL;
    char operands[40];
    const mxgen_key *key = &spec->key;
    bool gemm = key->gemm.pass != MXGEN_PASS_NONE;
    snprintf(operands, sizeof(operands), "%s.%s", mxgen_operand_name(key->gemm.left),
             mxgen_operand_name(key->gemm.right));
    mx_status status = mxgen_spec_params_json(spec, &params, err);
    if (status == MX_OK)
        status = mxgen_spec_rules_json(spec, &rules, err);
    if (status == MX_OK)
        status = mxgen_spec_launch_json(spec, &launch, err);
    if (status == MX_OK) {
        mxgen_pack_variant row = {
            .object_id = object_id,
            .target = target,
            .op = gemm ? pass_name(key->gemm.pass) : mx_op_name(key->op),
            .format = gemm ? operands : mx_format_get(key->format)->name,
            .dtype = mx_dtype_get(key->dtype)->name,
            .profile = !gemm             ? mx_profile_name(key->profile)
                       : key->gemm.exact ? "exact"
                                         : "fast",
            .layout = gemm ? "tiles" : mx_layout_name(key->layout),
            .name = spec->name,
            .symbol = spec->symbol,
            .rank = spec->rank,
            .params_json = params,
            .rules_json = rules,
            .launch_json = launch,
            .info_json = info_json,
        };
        status = mxgen_pack_writer_variant(writer, &row, err);
    }
    free(params);
    free(rules);
    free(launch);
    return status;
}
