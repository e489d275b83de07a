/* Which variant applies, and its launch. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <mxgen/error.h>

#include "runtime/tuned.h"

#define MAX_GRID_X 2147483647
#define MAX_GRID_YZ 65535
#define MAX_BLOCK_ITEMS 1024

_Static_assert((int)MXRT_BUFFER_X == (int)MXRT_PACK_BUFFER_X &&
                   (int)MXRT_BUFFER_Y == (int)MXRT_PACK_BUFFER_Y &&
                   (int)MXRT_BUFFER_P == (int)MXRT_PACK_BUFFER_P &&
                   (int)MXRT_BUFFER_S == (int)MXRT_PACK_BUFFER_S &&
                   (int)MXRT_BUFFER_COUNT == (int)MXRT_PACK_BUFFER_COUNT,
               "problems and packs number buffers alike");

/* ---- Explanations ---- */

/* Appends "len = 17, .." for the variables of the family that `text` names. */
static void name_values(mxrt_pack_family family, const char *text, const int64_t *values, char *out,
                        size_t out_bytes)
{
    const char *const *names = family == MXRT_PACK_GEMM ? mxrt_gemm_var_names : mxrt_pack_var_names;
    int n_names = family == MXRT_PACK_GEMM ? (int)MXRT_GEMM_VAR_COUNT : (int)MXRT_VAR_COUNT;
    size_t used = 0;

    *out = 0;
    for (int i = 0; i < n_names; i++) {
        const char *name = names[i], *at = text;
        size_t chars = strlen(name);
        while ((at = strstr(at, name))) {
            int begins = at == text || (!isalnum((unsigned char)at[-1]) && at[-1] != '_');
            if (begins && !isalnum((unsigned char)at[chars]) && at[chars] != '_')
                break;
            at += chars;
        }
        if (!at)
            continue;
        int n = snprintf(out + used, out_bytes - used, "%s%s = %" PRId64, used ? ", " : "", name,
                         values[i]);
        if (n < 0 || (size_t)n >= out_bytes - used)
            return;
        used += (size_t)n;
    }
}

static mx_status fail_rule(const mxrt_variant *variant, const mxrt_pack_rule *rule,
                           const int64_t *values, mx_error *err)
{
    char named[256];

    if (!err)
        return MX_ERR_UNSUPPORTED;
    name_values(variant->launch->family, mxrt_expr_text(rule->when), values, named, sizeof(named));
    return mx_fail(err, MX_ERR_UNSUPPORTED,
                   "kernel %s (%s) does not apply: its rule \"%s\", %s, does not hold here (%s)",
                   variant->info.name, variant->info.target, rule->text, mxrt_expr_text(rule->when),
                   named);
}

/* Prefixes the reason that an expression gave. */
static mx_status fail_expr(const mxrt_variant *variant, const char *what, const mx_error *reason,
                           mx_error *err)
{
    return mx_fail(err, MX_ERR_UNSUPPORTED, "kernel %s (%s) does not apply: %s: %.700s",
                   variant->info.name, variant->info.target, what, reason->message);
}

static mx_status fail_range(const mxrt_variant *variant, const char *what, int64_t value,
                            int64_t least, int64_t most, mx_error *err)
{
    return mx_fail(err, MX_ERR_UNSUPPORTED,
                   "kernel %s (%s) does not apply: its %s would be %" PRId64 ", %" PRId64
                   " to %" PRId64 " are possible",
                   variant->info.name, variant->info.target, what, value, least, most);
}

/* ---- Evaluation ---- */

typedef struct range {
    const char *what;
    int64_t least, most;
} range;

/* Texts are only made where somebody reads them. */
static mx_status eval_in_range(const mxrt_variant *variant, const mxrt_expr *expr,
                               const int64_t *values, const range *limits, int64_t *out,
                               mx_error *err)
{
    mx_error reason;
    int64_t value;

    if (mxrt_expr_eval(expr, values, &value, err ? &reason : NULL))
        return err ? fail_expr(variant, limits->what, &reason, err) : MX_ERR_UNSUPPORTED;
    if (value < limits->least || value > limits->most)
        return fail_range(variant, limits->what, value, limits->least, limits->most, err);
    *out = value;
    return MX_OK;
}

static mx_status eval_shape(const mxrt_variant *variant, const int64_t *values, mxrt_selection *out,
                            mx_error *err)
{
    static const range grids[3] = {
        {"grid x", 1, MAX_GRID_X}, {"grid y", 1, MAX_GRID_YZ}, {"grid z", 1, MAX_GRID_YZ}};
    static const range blocks[3] = {{"block x", 1, MAX_BLOCK_ITEMS},
                                    {"block y", 1, MAX_BLOCK_ITEMS},
                                    {"block z", 1, MAX_BLOCK_ITEMS}};
    range lds = {"LDS size in bytes", 0, variant->lds_bytes};
    int64_t value, items = 1;
    mx_status status;

    for (int i = 0; i < 3; i++) {
        if ((status =
                 eval_in_range(variant, variant->launch->grid[i], values, &grids[i], &value, err)))
            return status;
        out->grid[i] = (uint32_t)value;
        if ((status = eval_in_range(variant, variant->launch->block[i], values, &blocks[i], &value,
                                    err)))
            return status;
        out->block[i] = (uint32_t)value;
        items *= value;
    }
    if (items > MAX_BLOCK_ITEMS)
        return fail_range(variant, "block size, the product of its three numbers,", items, 1,
                          MAX_BLOCK_ITEMS, err);
    if ((status = eval_in_range(variant, variant->launch->lds_bytes, values, &lds, &value, err)))
        return status;
    out->lds_bytes = (uint32_t)value;
    return MX_OK;
}

static mx_status eval_arg(const mxrt_variant *variant, size_t index, const int64_t *values,
                          mxrt_selection *out, mx_error *err)
{
    const mxrt_pack_arg *arg = &variant->launch->args[index];
    range limits = {arg->name, INT64_MIN, INT64_MAX};
    mx_status status;

    out->args[index] = 0;
    if (arg->kind == MXRT_ARG_POINTER)
        return MX_OK;
    if (arg->kind == MXRT_ARG_I32) {
        limits.least = INT32_MIN;
        limits.most = INT32_MAX;
    }
    if ((status = eval_in_range(variant, arg->value, values, &limits, &out->args[index], err)))
        return status;
    if (arg->kind == MXRT_ARG_F32) {
        float number = (float)out->args[index];
        uint32_t bits;
        memcpy(&bits, &number, sizeof(bits));
        out->args[index] = bits;
    }
    return MX_OK;
}

static mx_status eval_args(const mxrt_variant *variant, const int64_t *values, mxrt_selection *out,
                           mx_error *err)
{
    for (size_t i = 0; i < variant->launch->n_args; i++) {
        mx_status status = eval_arg(variant, i, values, out, err);
        if (status)
            return status;
    }
    return MX_OK;
}

static mx_status eval_launch(const mxrt_variant *variant, const int64_t *values,
                             mxrt_selection *out, mx_error *err)
{
    mx_status status;

    if ((status = eval_shape(variant, values, out, err)) ||
        (status = eval_args(variant, values, out, err)))
        return status;
    out->variant = variant;
    return MX_OK;
}

static mx_status eval_rule(const mxrt_variant *variant, size_t index, const int64_t *values,
                           mx_error *err)
{
    const mxrt_pack_rule *rule = &variant->launch->rules[index];
    mx_error reason;
    int64_t holds;

    if (mxrt_expr_eval(rule->when, values, &holds, err ? &reason : NULL))
        return err ? fail_expr(variant, rule->text, &reason, err) : MX_ERR_UNSUPPORTED;
    return holds ? MX_OK : fail_rule(variant, rule, values, err);
}

/* Kernels for pairs and those for anything else have rules that say nothing of each other. */
static int serves(const mxrt_variant *variant, const int64_t *values)
{
    return variant->launch->family != MXRT_PACK_BLOCKS ||
           (variant->layout == MX_LAYOUT_PAIR) == (values[MXRT_VAR_GROUP_ALIGN] != 0);
}

mx_status mxrt_select_variant(const mxrt_variant *variant, const int64_t *values,
                              mxrt_selection *out, mx_error *err)
{
    mx_status status;

    if (!serves(variant, values))
        return mx_fail(err, MX_ERR_UNSUPPORTED, "kernel %s (%s) does not apply: %s",
                       variant->info.name, variant->info.target,
                       variant->layout == MX_LAYOUT_PAIR ? "it makes columns, too"
                                                         : "it makes no columns");

    for (size_t i = 0; i < variant->launch->n_rules; i++) {
        if ((status = eval_rule(variant, i, values, err)))
            return status;
    }
    return eval_launch(variant, values, out, err);
}

/* ---- Search ---- */

/* Variants share most of their rules: each is evaluated once. */
#define REMEMBERED_RULES 1024

enum { RULE_UNKNOWN = 0, RULE_HOLDS, RULE_FAILS };

static int rules_hold(const mxrt_variant *variant, const int64_t *values, unsigned char *verdicts)
{
    for (size_t i = 0; i < variant->launch->n_rules; i++) {
        unsigned id = variant->rule_ids[i];
        int known = id < REMEMBERED_RULES ? verdicts[id] : RULE_UNKNOWN;
        if (known == RULE_UNKNOWN) {
            known = eval_rule(variant, i, values, NULL) ? RULE_FAILS : RULE_HOLDS;
            if (id < REMEMBERED_RULES)
                verdicts[id] = (unsigned char)known;
        }
        if (known == RULE_FAILS)
            return 0;
    }
    return 1;
}

/* What a search looks at: a variant is tried once. */
typedef struct search {
    const mxrt_kernel_table *table;
    const int64_t *values;
    unsigned char verdicts[REMEMBERED_RULES];
} search;

static void search_init(search *at, const mxrt_kernel_table *table, const int64_t *values)
{
    at->table = table;
    at->values = values;
    memset(at->verdicts, RULE_UNKNOWN,
           table->n_rules < REMEMBERED_RULES ? table->n_rules : REMEMBERED_RULES);
}

static int applies(search *at, const mxrt_variant *variant, mxrt_selection *out)
{
    return serves(variant, at->values) && rules_hold(variant, at->values, at->verdicts) &&
           !eval_launch(variant, at->values, out, NULL);
}

/* The two best that the model has. */
typedef struct ranking {
    mxrt_selection best;
    double score;
    const mxrt_variant *second;
    double second_score;
} ranking;

double mxrt_select_score(const mxrt_kernel_table *table, const mxrt_selection *selection)
{
    int64_t programs = (int64_t)selection->grid[0] * selection->grid[1] * selection->grid[2];
    int64_t threads = (int64_t)selection->block[0] * selection->block[1] * selection->block[2];

    return mxrt_model_layout(table->key.op, selection->variant->layout) *
           mxrt_model_score(&table->chip, &selection->variant->model, programs, threads);
}

/* Whether the model compares two variants: groups are in order of preference, and one that applies
 * hides those after it, but for the layout general of the same pack. */
static int competes(const mxrt_variant *first, const mxrt_variant *other)
{
    return other->group == first->group ||
           (other->layout == MX_LAYOUT_GENERAL && other->pack == first->pack &&
            !strcmp(other->info.target, first->info.target));
}

static int search_model(search *at, ranking *out)
{
    const mxrt_kernel_table *table = at->table;
    const mxrt_variant *first = NULL;
    mxrt_selection found;

    out->best.variant = out->second = NULL;
    for (size_t i = 0; i < table->n_variants; i++) {
        const mxrt_variant *variant = &table->variants[i];
        if ((first && !competes(first, variant)) || !applies(at, variant, &found))
            continue;
        double score = mxrt_select_score(at->table, &found);
        first = first ? first : variant;
        if (!out->best.variant || score < out->score) {
            out->second = out->best.variant;
            out->second_score = out->score;
            out->best = found;
            out->score = score;
        } else if (!out->second || score < out->second_score) {
            out->second = variant;
            out->second_score = score;
        }
    }
    return out->best.variant != NULL;
}

static int applies_by_number(void *user, uint32_t variant)
{
    search *at = user;
    mxrt_selection unused;

    return applies(at, &at->table->variants[variant], &unused);
}

static int search_tuned(search *at, const mxrt_bucket *wanted, mxrt_tuned_best *out)
{
    const mxrt_tuned *tuned = atomic_load_explicit(&at->table->tuned, memory_order_acquire);

    return mxrt_tuned_search(tuned, wanted, applies_by_number, at, out);
}

static mx_status fail_search(const mxrt_kernel_table *table, const int64_t *values, mx_error *err)
{
    const mxrt_table_key *key = &table->key;
    mxrt_selection unused;
    mx_error reason = {MX_OK, ""};

    if (!err || !table->n_variants)
        return MX_ERR_UNSUPPORTED;
    /* The last in order is the most general: its reason says most. */
    size_t last = table->n_variants - 1;
    while (last && !serves(&table->variants[last], values))
        last--;
    mxrt_select_variant(&table->variants[last], values, &unused, &reason);
    return mx_fail(err, MX_ERR_UNSUPPORTED,
                   "none of %zu kernels for %s %s %s applies; the last: %.700s", table->n_variants,
                   mx_op_name(key->op), mx_format_get(key->format)->name,
                   mx_dtype_get(key->dtype)->name, reason.message);
}

static size_t count_applicable(search *at)
{
    mxrt_selection unused;
    size_t n = 0;

    for (size_t i = 0; i < at->table->n_variants; i++)
        n += (size_t)applies(at, &at->table->variants[i], &unused);
    return n;
}

static void describe_choice(search *at, const mxrt_selection *chosen, const mxrt_bucket *wanted,
                            mxrt_choice *choice)
{
    *choice = (mxrt_choice){
        .variant = chosen->variant->info.name,
        .score = mxrt_select_score(at->table, chosen),
        .n_applicable = count_applicable(at),
    };
    mxrt_bucket_text(wanted, choice->bucket, sizeof(choice->bucket));
}

static void choose_measured(search *at, const mxrt_tuned_best *found, const mxrt_bucket *wanted,
                            mxrt_selection *out, mxrt_choice *choice)
{
    const mxrt_variant *variants = at->table->variants;

    applies(at, &variants[found->variant], out); /* as it did in the search */
    if (!choice)
        return;
    describe_choice(at, out, wanted, choice);
    mxrt_choice_measured(found, wanted,
                         found->has_second ? variants[found->second].info.name : NULL, choice);
}

mx_status mxrt_select_by_policy(const mxrt_kernel_table *table, mxrt_policy policy,
                                const int64_t values[MXRT_VAR_COUNT], mxrt_selection *out,
                                mxrt_choice *choice, mx_error *err)
{
    const mxrt_table_key *key = &table->key;
    mxrt_bucket wanted;
    mxrt_tuned_best measured;
    ranking found;
    search at;

    search_init(&at, table, values);
    mxrt_bucket_of(key->op, key->format, values, &wanted);
    if (policy != MXRT_POLICY_MODEL && search_tuned(&at, &wanted, &measured)) {
        choose_measured(&at, &measured, &wanted, out, choice);
        return MX_OK;
    }
    if (policy == MXRT_POLICY_CACHED)
        return mx_fail(err, MX_ERR_NOT_FOUND,
                       "no tuning file has a measurement near this shape for %s %s %s (%s); mxrt "
                       "tune makes them",
                       mx_op_name(key->op), mx_format_get(key->format)->name,
                       mx_dtype_get(key->dtype)->name, mx_profile_name(key->profile));
    if (!search_model(&at, &found))
        return fail_search(table, values, err);
    *out = found.best;
    if (!choice)
        return MX_OK;
    describe_choice(&at, out, &wanted, choice);
    choice->source = MXRT_SOURCE_MODEL;
    choice->runner_up = found.second ? found.second->info.name : NULL;
    choice->runner_up_score = found.second ? found.second_score : 0;
    return MX_OK;
}

/* The values that a choice is remembered by; `without` is room for those without a seed. */
static const int64_t *remembered_by(const mxrt_kernel_table *table, const int64_t *values,
                                    int64_t without[MXRT_VAR_COUNT])
{
    if (table->seed_decides || !(values[MXRT_VAR_SEED_LOW] | values[MXRT_VAR_SEED_HIGH]))
        return values;
    memcpy(without, values, MXRT_VAR_COUNT * sizeof(*values));
    without[MXRT_VAR_SEED_LOW] = without[MXRT_VAR_SEED_HIGH] = 0;
    return without;
}

/* Makes a remembered choice one for this call's seed. */
static mx_status eval_seed_args(const int64_t *values, mxrt_selection *out)
{
    mx_status status = MX_OK;

    for (uint64_t left = out->variant->seed_args; left && !status; left &= left - 1)
        status = eval_arg(out->variant, (size_t)__builtin_ctzll(left), values, out, NULL);
    return status;
}

mx_status mxrt_select_best(const mxrt_kernel_table *table, const int64_t values[MXRT_VAR_COUNT],
                           mxrt_selection *out, mx_error *err)
{
    int64_t without[MXRT_VAR_COUNT];
    const int64_t *key = remembered_by(table, values, without);
    mx_status status;

    if (mxrt_select_cache_find(table->cache, table->variants, key, out) &&
        !eval_seed_args(values, out))
        return MX_OK;
    uint64_t age = mxrt_select_cache_age(table->cache);
    if (!(status = mxrt_select_by_policy(table, MXRT_POLICY_TUNED, values, out, NULL, err)))
        mxrt_select_cache_store(table->cache, table->variants, key, out, age);
    return status;
}

void mxrt_selection_args(const mxrt_selection *selection, const void *const *buffers,
                         unsigned char *block)
{
    const mxrt_pack_launch *launch = selection->variant->launch;

    memset(block, 0, launch->args_bytes);
    for (size_t i = 0; i < launch->n_args; i++) {
        const mxrt_pack_arg *arg = &launch->args[i];
        unsigned char *at = block + arg->offset_bytes;
        uint32_t word = (uint32_t)selection->args[i];
        if (arg->kind == MXRT_ARG_POINTER)
            memcpy(at, &buffers[arg->buffer], sizeof(void *));
        else if (arg->kind == MXRT_ARG_I64)
            memcpy(at, &selection->args[i], sizeof(int64_t));
        else
            memcpy(at, &word, sizeof(word));
    }
}
