/* What the generator says to mistakes: of its users (targets, parameters, names) and of those who
 * write templates (types, arguments, control flow). Check runs each in a process of its own, so
 * that a crash is a failure like any other. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gen/emit_fragment.h"
#include "gen/emit_matrix.h"
#include "gen/template.h"

static const mxgen_target *target_of(const char *name)
{
    const mxgen_target *target = mxgen_target_find(name);
    ck_assert_msg(target != NULL, "no target %s", name);
    return target;
}

static void assert_says(const mx_error *error, const char *part)
{
    ck_assert_msg(strstr(error->message, part) != NULL, "\"%s\" is not in: %s", part,
                  error->message);
}

/* ---- Users ---- */

START_TEST(unknown_targets)
{
    ck_assert_ptr_null(mxgen_target_find("gfx9999"));
    ck_assert_ptr_null(mxgen_target_find(""));
    ck_assert_ptr_null(mxgen_target_find(NULL));
    ck_assert_ptr_null(mxgen_target_at(mxgen_target_count()));
    ck_assert_ptr_null(mxgen_target_at(SIZE_MAX));
    for (size_t i = 0; i < mxgen_target_count(); i++) {
        const mxgen_target *target = mxgen_target_at(i);
        ck_assert_ptr_eq(mxgen_target_find(mxgen_target_name(target)), target);
        ck_assert_uint_gt(strlen(mxgen_target_summary(target)), 0);
    }
}
END_TEST

static const mxgen_key flat_key = {.op = MX_OP_TO,
                                   .format = MX_FORMAT_MX9,
                                   .dtype = MX_DTYPE_F32,
                                   .profile = MX_PROFILE_PACKED,
                                   .layout = MX_LAYOUT_FLAT};

typedef struct bad_param {
    const char *target;
    mx_op op;
    mx_layout layout;
    const char *name;
    int value;
    const char *says[3];
} bad_param;

static const bad_param bad_params[] = {
    /* Unknown: the message lists those that exist. */
    {"gfx942", MX_OP_TO, MX_LAYOUT_FLAT, "BLOCK_K", 1, {"BLOCK_K", "mx_rows", "num_warps"}},
    {"gfx942", MX_OP_TO, MX_LAYOUT_FLAT, "", 1, {"no parameter", "num_warps", "STAGED"}},
    {"gfx942", MX_OP_TO, MX_LAYOUT_FLAT, "NUM_WARPS", 4, {"NUM_WARPS", "num_warps", "mx_rows"}},
    {"gfx942", MX_OP_TO, MX_LAYOUT_TILES, "ROW_MAP", 0, {"ROW_MAP", "mx_tiles", "BLOCK_M"}},
    /* Out of range: the message lists the values. */
    {"gfx942",
     MX_OP_TO,
     MX_LAYOUT_FLAT,
     "num_warps",
     3,
     {"num_warps=3", "out of range", "1 2 4 8"}},
    {"gfx942", MX_OP_TO, MX_LAYOUT_FLAT, "num_warps", -1, {"num_warps=-1", "out of range", "8"}},
    {"gfx942", MX_OP_TO, MX_LAYOUT_FLAT, "VEC", 0, {"VEC=0", "out of range", "1 2 4 8"}},
    {"gfx942", MX_OP_TO, MX_LAYOUT_FLAT, "LANES_PER_BLOCK", 16, {"LANES_PER_BLOCK=16", "8", ""}},
    {"gfx942",
     MX_OP_TO,
     MX_LAYOUT_FLAT,
     "BLOCKS_PER_PROGRAM",
     2147483647,
     {"2147483647", "32", ""}},
    /* In range, but not applicable: the message names the rule. */
    {"gfx942", MX_OP_QDQ, MX_LAYOUT_FLAT, "STAGED", 1, {"not applicable", "STAGED", "qdq"}},
    {"gfx942", MX_OP_TO, MX_LAYOUT_FLAT, "ROW_MAP", 1, {"not applicable", "ROW_MAP", "aligned"}},
    {"gfx942", MX_OP_TO, MX_LAYOUT_FLAT, "VEC", 1, {"not applicable", "VEC", "aligned rows"}},
    {"host-x86-64-v3",
     MX_OP_TO,
     MX_LAYOUT_FLAT,
     "LANES_PER_BLOCK",
     2,
     {"not applicable", "host-x86-64-v3", "share a block"}},
};

START_TEST(bad_parameters)
{
    const bad_param *bad = &bad_params[_i];
    mxgen_key key = flat_key;
    mxgen_spec spec, untouched;
    mx_error error = {MX_OK, ""};
    key.op = bad->op;
    key.layout = bad->layout;
    memset(&spec, 0x5a, sizeof(spec));
    untouched = spec;
    mx_status status =
        mxgen_spec_make(target_of(bad->target), &key, &bad->name, &bad->value, 1, &spec, &error);
    ck_assert_int_eq(status, MX_ERR_INVALID);
    ck_assert_int_eq(error.status, MX_ERR_INVALID);
    for (size_t i = 0; i < 3; i++)
        assert_says(&error, bad->says[i]);
    ck_assert_msg(!memcmp(&spec, &untouched, sizeof(spec)), "the output was touched");
    ck_assert_int_eq(
        mxgen_spec_make(target_of(bad->target), &key, &bad->name, &bad->value, 1, &spec, NULL),
        MX_ERR_INVALID);
}
END_TEST

START_TEST(programs_that_do_not_divide)
{
    const char *names[] = {"BLOCKS_PER_PROGRAM", "num_warps", "NUM_LOADS", "LANES_PER_BLOCK"};
    const int values[] = {32, 8, 4, 1};
    mxgen_spec spec;
    mx_error error = {MX_OK, ""};
    ck_assert_int_eq(
        mxgen_spec_make(target_of("gfx942"), &flat_key, names, values, 4, &spec, &error),
        MX_ERR_INVALID);
    assert_says(&error, "BLOCKS_PER_PROGRAM 32");
    assert_says(&error, "2048");
}
END_TEST

START_TEST(unknown_kernels)
{
    static const char *const names[] = {"", "mx_to_mx9_f32_flat", "mx_to_mx9_f32_flat_b1_w1",
                                        "%s%s"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        mxgen_spec spec;
        mx_error error = {MX_OK, ""};
        ck_assert_int_eq(mxgen_spec_find(target_of("gfx942"), names[i], &spec, &error),
                         MX_ERR_NOT_FOUND);
        assert_says(&error, names[i]);
        assert_says(&error, "gfx942");
    }
}
END_TEST

START_TEST(empty_selections)
{
    const mxgen_target *target = target_of("gfx942");
    mxgen_build_options options = {.targets = &target, .n_targets = 0};
    mx_error error = {MX_OK, ""};
    mxgen_output output = {0};
    void *data = NULL;
    size_t size_bytes = 7;
    ck_assert_int_eq(mxgen_build_pack_memory(&options, &data, &size_bytes, NULL, &error),
                     MX_ERR_INVALID);
    assert_says(&error, "target");
    ck_assert_ptr_null(data);
    ck_assert_uint_eq(size_bytes, 7);
    ck_assert_int_eq(mxgen_compile(NULL, 0, MXGEN_STAGE_ASM, NULL, &output, &error),
                     MX_ERR_INVALID);
    ck_assert_ptr_null(output.data);
}
END_TEST

/* One pair of operands and one pass: those kernels, and the steps that they launch. */
START_TEST(products_of_one_pair)
{
    const mxgen_filter filter = {.families = MXGEN_FAMILY_GEMM,
                                 .passes = 1u << MXGEN_PASS_COLS,
                                 .pairs =
                                     mxgen_pair_bit(MXGEN_OPERAND_MXFP8_E4M3, MXGEN_OPERAND_MXFP4)};
    mx_error error = {MX_OK, ""};
    mxgen_spec *specs;
    size_t n, n_products = 0;
    ck_assert_int_eq(mxgen_enumerate(target_of("sm_90a"), &filter, &specs, &n, &error), MX_OK);
    for (size_t i = 0; i < n; i++) {
        const mxgen_gemm_key *key = &specs[i].key.gemm;
        bool pair = key->left == MXGEN_OPERAND_MXFP8_E4M3 && key->right == MXGEN_OPERAND_MXFP4;
        bool operand = key->left == key->right &&
                       (key->left == MXGEN_OPERAND_MXFP8_E4M3 || key->left == MXGEN_OPERAND_MXFP4);
        n_products += key->pass == MXGEN_PASS_COLS;
        ck_assert_msg(key->pass == MXGEN_PASS_STEP ? pair || operand
                                                   : key->pass == MXGEN_PASS_COLS && pair,
                      "%s", specs[i].name);
    }
    ck_assert_uint_gt(n_products, 0);
    ck_assert_uint_gt(n, n_products);
    free(specs);
}
END_TEST

START_TEST(mixed_targets)
{
    mxgen_spec specs[2];
    mxgen_output output = {0};
    mx_error error = {MX_OK, ""};
    ck_assert_int_eq(
        mxgen_spec_make(target_of("gfx942"), &flat_key, NULL, NULL, 0, &specs[0], &error), MX_OK);
    ck_assert_int_eq(
        mxgen_spec_make(target_of("gfx950"), &flat_key, NULL, NULL, 0, &specs[1], &error), MX_OK);
    ck_assert_int_eq(mxgen_compile(specs, 2, MXGEN_STAGE_OBJECT, NULL, &output, &error),
                     MX_ERR_INVALID);
    assert_says(&error, "gfx942");
    assert_says(&error, "gfx950");
    ck_assert_ptr_null(output.data);
}
END_TEST

START_TEST(pack_in_no_folder)
{
    static const mx_op op = MX_OP_TO;
    static const mx_format format = MX_FORMAT_MX9;
    static const mx_dtype dtype = MX_DTYPE_F32;
    const mxgen_target *target = target_of("gfx942");
    mxgen_build_options options = {
        .targets = &target, .n_targets = 1, .filter = {&op, 1, &format, 1, &dtype, 1, NULL, 0, 1}};
    mx_error error = {MX_OK, ""};
    ck_assert_int_eq(mxgen_build_pack(&options, "/nonexistent/folder/kernels.mxdb", NULL, &error),
                     MX_ERR_NOT_FOUND);
    assert_says(&error, "/nonexistent/folder");
}
END_TEST

/* ---- Writers of templates ---- */

typedef struct mistake {
    const char *name;
    const char *says; /* part of the message */
    void (*emit)(mxe *e);
    const char *target; /* NULL: all of them */
} mistake;

static const mistake *current;

static mxe_value lane_f32(mxe *e)
{
    return mxe_bitcast(e, mxe_lane(e), MXE_F32);
}

static mxe_addr at_x(mxe *e)
{
    return (mxe_addr){.pointer = "x", .uniform = mxe_i64(e, 0), .lane_stride = 4};
}

static void add_unlike(mxe *e)
{
    mxe_add(e, lane_f32(e), mxe_i32(e, 1));
}

static void add_widths(mxe *e)
{
    mxe_add(e, mxe_lane(e), mxe_param(e, "n"));
}

static void add_floats_as_integers(mxe *e)
{
    mxe_add(e, lane_f32(e), lane_f32(e));
}

static void multiply_integers_as_floats(mxe *e)
{
    mxe_fmul(e, mxe_lane(e), mxe_lane(e));
}

static void compare_floats_as_integers(mxe *e)
{
    mxe_ult(e, lane_f32(e), mxe_f32(e, 1.0f));
}

static void nan_of_integer(mxe *e)
{
    mxe_is_nan(e, mxe_lane(e));
}

static void unset_operand(mxe *e)
{
    mxe_value unset = {NULL, MXE_I32, false};
    mxe_add(e, mxe_lane(e), unset);
}

static void unset_condition(mxe *e)
{
    mxe_and(e, mxe_always(), mxe_ult(e, mxe_lane(e), mxe_i32(e, 3)));
}

static void unset_selection(mxe *e)
{
    mxe_value unset = {NULL, MXE_I32, false};
    mxe_select(e, mxe_i1(e, 1), mxe_lane(e), unset);
}

static void unset_conversion(mxe *e)
{
    mxe_value unset = {NULL, MXE_I32, false};
    mxe_zext(e, unset, MXE_I64);
}

static void unset_bitcast(mxe *e)
{
    mxe_value unset = {NULL, MXE_I32, true};
    mxe_bitcast(e, unset, MXE_F32);
}

static void unset_factor(mxe *e)
{
    mxe_value unset = {NULL, MXE_F32, true};
    mxe_fma(e, lane_f32(e), unset, mxe_f32(e, MXE_ROUNDER));
}

static void unset_bound(mxe *e)
{
    mxe_value unset = {NULL, MXE_F32, true};
    mxe_fclamp(e, lane_f32(e), mxe_f32(e, -127.0f), unset);
}

static void unset_condition_of_any(mxe *e)
{
    mxe_any(e, mxe_always());
}

static void select_on_integer(mxe *e)
{
    mxe_select(e, mxe_lane(e), mxe_i32(e, 1), mxe_i32(e, 2));
}

static void select_unlike(mxe *e)
{
    mxe_select(e, mxe_i1(e, 1), mxe_i32(e, 1), mxe_i64(e, 2));
}

static void bitcast_widths(mxe *e)
{
    mxe_bitcast(e, mxe_lane(e), MXE_I64);
}

static void truncate_float(mxe *e)
{
    mxe_fcast(e, lane_f32(e), MXE_I32);
}

static void fma_of_integer(mxe *e)
{
    mxe_fma(e, lane_f32(e), mxe_lane(e), mxe_f32(e, MXE_ROUNDER));
}

static void clamp_integer(mxe *e)
{
    mxe_fclamp(e, mxe_lane(e), mxe_i32(e, -127), mxe_i32(e, 127));
}

static void any_of_integer(mxe *e)
{
    mxe_any(e, mxe_lane(e));
}

static void set_variable_unlike(mxe *e)
{
    mxe_var variable = mxe_var_new(e, mxe_lane(e));
    mxe_var_set(e, variable, lane_f32(e));
}

static void unset_variable(mxe *e)
{
    mxe_value unset = {NULL, MXE_I32, false};
    mxe_var_new(e, unset);
}

static void pack_halves(mxe *e)
{
    mxe_value half = mxe_zext(e, mxe_lane(e), MXE_I16);
    mxe_value values[4] = {half, half, half, half};
    mxe_pack_bytes(e, values);
}

static void element_of_float(mxe *e)
{
    mxe_element_to_f32(e, MXE_E4M3, lane_f32(e), mxe_f32(e, 1.0f));
}

static void bf16_of_integer(mxe *e)
{
    mxe_to_bf16(e, mxe_lane(e));
}

static void unknown_parameter(mxe *e)
{
    mxe_param(e, "m");
}

static void pointer_as_scalar(mxe *e)
{
    mxe_param(e, "x");
}

static void unknown_pointer(mxe *e)
{
    mxe_addr addr = at_x(e);
    mxe_value word;
    addr.pointer = "z";
    mxe_load(e, addr, MXE_I32, 1, 4, 0, &word);
}

static void narrow_uniform(mxe *e)
{
    mxe_addr addr = at_x(e);
    mxe_value word;
    addr.uniform = mxe_i32(e, 0);
    mxe_load(e, addr, MXE_I32, 1, 4, 0, &word);
}

static void varying_uniform(mxe *e)
{
    mxe_addr addr = at_x(e);
    mxe_value word;
    addr.uniform = mxe_zext(e, mxe_lane(e), MXE_I64);
    mxe_load(e, addr, MXE_I32, 1, 4, 0, &word);
}

static void float_offset(mxe *e)
{
    mxe_addr addr = at_x(e);
    mxe_value word;
    addr.varying = lane_f32(e);
    mxe_load(e, addr, MXE_I32, 1, 4, 0, &word);
}

static void store_unlike(mxe *e)
{
    mxe_value value = lane_f32(e);
    mxe_store(e, at_x(e), MXE_I32, 1, 4, 0, mxe_always(), &value);
}

static void store_on_integer(mxe *e)
{
    mxe_value value = mxe_lane(e);
    mxe_store(e, at_x(e), MXE_I32, 1, 4, 0, mxe_lane(e), &value);
}

static void copy_on_integer(mxe *e)
{
    mxe_copy(e, at_x(e), at_x(e), MXE_I32, 1, 4, 0, mxe_lane(e));
}

static void narrow_loop(mxe *e)
{
    mxe_loop loop;
    mxe_for_begin(e, &loop, mxe_i32(e, 0), mxe_i32(e, 4), mxe_i32(e, 1));
    mxe_for_end(e, &loop);
}

static void varying_loop(mxe *e)
{
    mxe_loop loop;
    mxe_for_begin(e, &loop, mxe_i64(e, 0), mxe_zext(e, mxe_lane(e), MXE_I64), mxe_i64(e, 1));
    mxe_for_end(e, &loop);
}

static void branch_on_integer(mxe *e)
{
    mxe_branch branch;
    mxe_if_begin(e, &branch, mxe_i32(e, 1));
    mxe_if_end(e, &branch);
}

static void branch_on_lanes(mxe *e)
{
    mxe_branch branch;
    mxe_if_begin(e, &branch, mxe_ult(e, mxe_lane(e), mxe_i32(e, 2)));
    mxe_if_end(e, &branch);
}

static void shared_unreserved(mxe *e)
{
    mxe_addr addr = at_x(e);
    mxe_value word;
    addr.pointer = NULL;
    mxe_load(e, addr, MXE_I32, 1, 4, 0, &word);
}

static void shared_twice(mxe *e)
{
    mxe_lds_reserve(e, 64);
    mxe_lds_reserve(e, 64);
}

static void shared_too_large(mxe *e)
{
    mxe_lds_reserve(e, 1 << 20);
}

static void reduce_by_three(mxe *e)
{
    mxe_lane_reduce(e, MXE_UMAX, mxe_lane(e), 3);
}

static void reduce_by_sum(mxe *e)
{
    mxe_lane_reduce(e, MXE_ADD, mxe_lane(e), 4);
}

static void reduce_on_host(mxe *e)
{
    mxe_lane_reduce(e, MXE_UMAX, mxe_lane(e), 2);
}

static void fragment_elsewhere(mxe *e)
{
    mxe_value words[4];
    mxe_lds_reserve(e, 64);
    mxe_fragment_load(e, mxe_lane(e), words);
}

static void fragment_unreserved(mxe *e)
{
    mxe_value words[4];
    mxe_fragment_load(e, mxe_lane(e), words);
}

static void fragment_of_floats(mxe *e)
{
    mxe_value words[8], sums[4] = {lane_f32(e), lane_f32(e), lane_f32(e), lane_f32(e)};
    for (int i = 0; i < 8; i++)
        words[i] = lane_f32(e);
    mxe_fragment_mma(e, MX_DTYPE_F16, words, words, sums);
}

static void quad_of_float(mxe *e)
{
    mxe_quad_lane(e, lane_f32(e), 1);
}

static void float_constant_as_integer(mxe *e)
{
    mxe_const_at(MXE_AT(e), MXE_F32, 1);
}

/* Only the first is told; what follows must not crash. */
static void many_mistakes(mxe *e)
{
    mxe_value bad = mxe_add(e, lane_f32(e), mxe_i32(e, 1));
    bad = mxe_fmul(e, bad, mxe_lane(e));
    bad = mxe_select(e, bad, bad, mxe_i64(e, 3));
    mxe_store(e, at_x(e), MXE_I32, 1, 4, 0, bad, &bad);
    mxe_param(e, "nothing");
}

#define MISTAKE(function, says) #function, says, function, NULL
static const mistake mistakes[] = {
    {MISTAKE(add_unlike, "f32 and i32")},
    {MISTAKE(add_widths, "i32 and i64")},
    {MISTAKE(add_floats_as_integers, "f32 and f32")},
    {MISTAKE(multiply_integers_as_floats, "i32 and i32")},
    {MISTAKE(compare_floats_as_integers, "f32 and f32")},
    {MISTAKE(nan_of_integer, "i32")},
    {MISTAKE(unset_operand, "not set")},
    {MISTAKE(unset_condition, "not set")},
    {MISTAKE(unset_selection, "not set")},
    {MISTAKE(unset_conversion, "not set")},
    {MISTAKE(unset_bitcast, "not set")},
    {MISTAKE(unset_factor, "not set")},
    {MISTAKE(unset_bound, "not set")},
    {MISTAKE(unset_condition_of_any, "not set")},
    {MISTAKE(unset_variable, "not set")},
    {MISTAKE(select_on_integer, "select")},
    {MISTAKE(select_unlike, "i32 and i64")},
    {MISTAKE(bitcast_widths, "i32 to i64")},
    {MISTAKE(truncate_float, "MXE_ROUNDER")},
    {MISTAKE(fma_of_integer, "f32, i32 and f32")},
    {MISTAKE(clamp_integer, "i32 and i32")},
    {MISTAKE(any_of_integer, "no condition")},
    {MISTAKE(set_variable_unlike, "another type")},
    {MISTAKE(pack_halves, "i16")},
    {MISTAKE(element_of_float, "an integer")},
    {MISTAKE(bf16_of_integer, "from f32")},
    {MISTAKE(unknown_parameter, "argument named m")},
    {MISTAKE(pointer_as_scalar, "argument named x")},
    {MISTAKE(unknown_pointer, "argument named z")},
    {MISTAKE(narrow_uniform, "uniform i64")},
    {MISTAKE(varying_uniform, "uniform i64")},
    {MISTAKE(float_offset, "i32 or i64")},
    {MISTAKE(store_unlike, "another type")},
    {MISTAKE(store_on_integer, "i1")},
    {MISTAKE(copy_on_integer, "i1")},
    {MISTAKE(narrow_loop, "i64")},
    {MISTAKE(varying_loop, "uniform")},
    {MISTAKE(branch_on_integer, "i1")},
    {"branch_on_lanes", "uniform", branch_on_lanes, "host-x86-64-v3"},
    {MISTAKE(shared_unreserved, "mxe_lds_reserve")},
    {MISTAKE(shared_twice, "twice")},
    {MISTAKE(shared_too_large, "1048576")},
    {MISTAKE(reduce_by_three, "3 lanes")},
    {MISTAKE(reduce_by_sum, "4 lanes")},
    {"reduce_on_host", "host-x86-64-v3", reduce_on_host, "host-x86-64-v3"},
    {"fragment_elsewhere", "no products of fragments", fragment_elsewhere, "gfx942"},
    {"fragment_unreserved", "mxe_lds_reserve", fragment_unreserved, "sm_90a"},
    {"fragment_of_floats", "i32 words", fragment_of_floats, "sm_90a"},
    {"quad_of_float", "i32 words", quad_of_float, "sm_90a"},
    {MISTAKE(float_constant_as_integer, "f32")},
    {MISTAKE(many_mistakes, "f32 and i32")},
};
enum { N_MISTAKES = sizeof(mistakes) / sizeof(mistakes[0]) };

static bool bad_applies(const mxgen_spec *spec, char *why, size_t why_bytes)
{
    (void)spec, (void)why, (void)why_bytes;
    return true;
}

static void bad_describe(const mxgen_spec *spec, mxgen_kernel *kernel)
{
    kernel->threads = spec->target->simd_width > 1 ? 1 : spec->target->lanes;
    strcpy(kernel->grid_x, "1");
    mxgen_kernel_pointer(kernel, "x", 0, 4);
    mxgen_kernel_scalar(kernel, "n", MXE_ARG_I64, "n_blocks");
}

static void bad_emit(mxe *e, const mxgen_spec *spec, const mxgen_kernel *kernel)
{
    (void)spec, (void)kernel;
    if (current)
        current->emit(e);
}

static double bad_cost(const mxgen_spec *spec)
{
    (void)spec;
    return 1.0;
}

static const mxgen_template bad_template = {
    .name = "bad",
    .layouts = 1u << MX_LAYOUT_FLAT,
    .applies = bad_applies,
    .describe = bad_describe,
    .cost = bad_cost,
    .emit = bad_emit,
};

static mxgen_spec bad_spec(const char *target)
{
    mxgen_spec spec = {.tmpl = &bad_template, .target = target_of(target), .key = flat_key};
    strcpy(spec.name, "bad_kernel");
    strcpy(spec.symbol, "bad_kernel");
    return spec;
}

static const char *const mistaken_targets[] = {"gfx942", "gfx1201", "sm_90a", "host-x86-64-v3"};
enum { N_TARGETS = sizeof(mistaken_targets) / sizeof(mistaken_targets[0]) };

START_TEST(mistake_in_template)
{
    const char *target = mistaken_targets[_i % N_TARGETS];
    current = &mistakes[_i / N_TARGETS];
    mxgen_output output = {0};
    mx_error error = {MX_OK, ""};
    if (current->target && strcmp(current->target, target))
        return;
    mxgen_spec spec = bad_spec(target);
    mx_status status = mxgen_compile(&spec, 1, MXGEN_STAGE_OBJECT, NULL, &output, &error);
    ck_assert_msg(status != MX_OK, "%s for %s was compiled", current->name, target);
    ck_assert_ptr_null(output.data);
    assert_says(&error, current->says);
    assert_says(&error, "test_gen_errors.c:");
    assert_says(&error, "bad_kernel");
}
END_TEST

/* The template itself is sound. */
START_TEST(no_mistake)
{
    mxgen_output output = {0};
    mx_error error = {MX_OK, ""};
    current = NULL;
    mxgen_spec spec = bad_spec(mistaken_targets[_i]);
    mx_status status = mxgen_compile(&spec, 1, MXGEN_STAGE_OBJECT, NULL, &output, &error);
    ck_assert_msg(status == MX_OK, "%s", error.message);
    ck_assert_uint_gt(output.size_bytes, 0);
    mxgen_output_finish(&output);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gen_errors");
    TCase *users = tcase_create("users"), *writers = tcase_create("templates");
    tcase_set_timeout(users, 300);
    tcase_set_timeout(writers, 300);
    tcase_add_test(users, unknown_targets);
    tcase_add_loop_test(users, bad_parameters, 0,
                        (int)(sizeof(bad_params) / sizeof(bad_params[0])));
    tcase_add_test(users, programs_that_do_not_divide);
    tcase_add_test(users, unknown_kernels);
    tcase_add_test(users, empty_selections);
    tcase_add_test(users, products_of_one_pair);
    tcase_add_test(users, mixed_targets);
    tcase_add_test(users, pack_in_no_folder);
    tcase_add_loop_test(writers, mistake_in_template, 0, N_MISTAKES * N_TARGETS);
    tcase_add_loop_test(writers, no_mistake, 0, N_TARGETS);
    suite_add_tcase(suite, users);
    suite_add_tcase(suite, writers);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? 1 : 0;
}
