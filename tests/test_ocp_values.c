/* Values of the OCP formats through the reference: every value of the half types at every place of
 * a block and at the end of every ragged row, in every format and profile; f32 at random; and how
 * far what comes back may be from what went in, whatever the shape, the strides and the axis. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ocp_oracle.h"

enum { VALUES = 0x10000, N_FORMATS = MX_FORMAT_COUNT - FIRST };

/* The sanitizers take a sample. */
static int is_quick(void)
{
    return getenv("MX_TEST_QUICK") != NULL;
}

/* One block of native bits. */
static void check_block(mx_format format, const mx_ocp_options *options, mx_dtype dtype,
                        const uint32_t native[N])
{
    uint32_t x[N];
    unsigned char data[N], scale;
    double value[N], amax = 0;
    int nan = 0;

    for (int i = 0; i < N; i++) {
        put_native(x, dtype, i, native[i]);
        value[i] = native_value(dtype, native[i]);
        nan |= isnan(value[i]);
        if (fabs(value[i]) > amax)
            amax = fabs(value[i]);
    }
    run_2d(MX_OP_TO, format, options, dtype, 1, N, -1, x, data, &scale);
    int want = nan && options->nan_scale ? 255 : want_scale(format, options, amax);
    if (scale != want)
        ck_abort_msg("%s rule %d: scale of amax %a is %d, want %d", mx_format_get(format)->name,
                     (int)options->scale_rule, amax, scale, want);
    for (int i = 0; i < N; i++) {
        unsigned code = want_code(format, options, value[i], want == 255 ? 254 : want);
        if (code_at(format, data, i) != code)
            ck_abort_msg("%s: code of %a at scale %d is %#x, want %#x", mx_format_get(format)->name,
                         value[i], want, code_at(format, data, i), code);
    }
}

/* ---- Every value of bf16 and f16 ---- */

typedef struct sweep {
    mx_format format;
    mx_ocp_profile profile;
    mx_ocp_options options;
    mx_dtype dtype;
    int64_t n_values; /* all of them; or a sample, spread out */
    /* Of a block whose only number is the value: */
    unsigned char *byte, *code;
    uint16_t *x;
    unsigned char *data, *scales;
} sweep;

static uint16_t sweep_value(const sweep *s, int64_t i)
{
    return (uint16_t)(i * (VALUES / s->n_values) + (s->n_values < VALUES ? (i * 7 + 3) % 16 : 0));
}

static void sweep_init(sweep *s, mx_format format, mx_ocp_profile profile, mx_dtype dtype)
{
    *s = (sweep){.format = format,
                 .profile = profile,
                 .options = mx_ocp_preset(profile),
                 .dtype = dtype,
                 .n_values = is_quick() ? VALUES / 16 : VALUES,
                 .byte = malloc(VALUES),
                 .code = malloc(VALUES),
                 .x = calloc(VALUES * 2 * N, 2),
                 .data = malloc(VALUES * 2 * N),
                 .scales = malloc(VALUES * 2)};
    for (int64_t i = 0; i < s->n_values; i++) {
        double value = native_value(dtype, sweep_value(s, i));
        int byte = isnan(value) && s->options.nan_scale
                       ? 255
                       : want_scale(format, &s->options, isnan(value) ? 0 : fabs(value));
        s->byte[i] = (unsigned char)byte;
        s->code[i] = (unsigned char)want_code(format, &s->options, value, byte == 255 ? 254 : byte);
    }
}

static void sweep_finish(sweep *s)
{
    free(s->byte);
    free(s->code);
    free(s->x);
    free(s->data);
    free(s->scales);
}

static void put_code(mx_format format, unsigned char *data, int place, unsigned code)
{
    int at = place * mx_format_get(format)->code_bits;
    unsigned word = code << at % 8;

    data[at / 8] |= (unsigned char)word;
    if (word > 255)
        data[at / 8 + 1] |= (unsigned char)(word >> 8);
}

/* Block number `block` has value i's code at the places of the mask and zero at the others. */
static void expect_block(const sweep *s, int64_t block, int64_t i, uint32_t places)
{
    const int bytes = mx_format_get(s->format)->block_bytes;
    const unsigned char *got = s->data + block * bytes;
    unsigned char want[N + 1] = {0};

    for (uint32_t left = places; left; left &= left - 1)
        put_code(s->format, want, __builtin_ctz(left), s->code[i]);
    if (s->scales[block] != s->byte[i] || memcmp(got, want, (size_t)bytes) != 0)
        ck_abort_msg(
            "%s %s %s: %#x at places %#x of block %d: scale %d, want %d; code %#x, want %#x",
            mx_format_get(s->format)->name, mx_ocp_profile_name(s->profile),
            mx_dtype_get(s->dtype)->name, sweep_value(s, i), places, (int)block, s->scales[block],
            s->byte[i], code_at(s->format, got, __builtin_ctz(places)), s->code[i]);
}

/* At all places of a block at once. */
static void sweep_everywhere(const sweep *s)
{
    for (int64_t i = 0; i < s->n_values * N; i++)
        s->x[i] = sweep_value(s, i / N);
    run_2d(MX_OP_TO, s->format, &s->options, s->dtype, s->n_values, N, -1, s->x, s->data,
           s->scales);
    for (int64_t i = 0; i < s->n_values; i++)
        expect_block(s, i, i, ~0u);
}

/* Alone in the first block of a row of two, at one place, and in the last one, of `tail` elements,
 * at its end. */
static void sweep_places(const sweep *s, int turn, int tail)
{
    const int64_t len = N + tail;

    memset(s->x, 0, (size_t)(s->n_values * len) * sizeof(*s->x));
    for (int64_t i = 0; i < s->n_values; i++) {
        s->x[i * len + (sweep_value(s, i) + turn) % N] = sweep_value(s, i);
        s->x[i * len + len - 1] = sweep_value(s, i);
    }
    run_2d(MX_OP_TO, s->format, &s->options, s->dtype, s->n_values, len, -1, s->x, s->data,
           s->scales);
    for (int64_t i = 0; i < s->n_values; i++) {
        expect_block(s, 2 * i, i, 1u << (sweep_value(s, i) + turn) % N);
        expect_block(s, 2 * i + 1, i, 1u << (tail - 1));
    }
}

/* Beside one other number, of any size. */
static void sweep_pairs(const sweep *s)
{
    const int bytes = mx_format_get(s->format)->block_bytes;

    memset(s->x, 0, (size_t)(s->n_values * N) * sizeof(*s->x));
    for (int64_t i = 0; i < s->n_values; i++) {
        s->x[i * N + i % N] = sweep_value(s, i);
        s->x[i * N + (i + 1 + i / N % (N - 1)) % N] = (uint16_t)random32();
    }
    run_2d(MX_OP_TO, s->format, &s->options, s->dtype, s->n_values, N, -1, s->x, s->data,
           s->scales);
    for (int64_t i = 0; i < s->n_values; i++) {
        int places[2] = {(int)(i % N), (int)((i + 1 + i / N % (N - 1)) % N)}, nan = 0;
        double values[2], amax = 0;
        for (int k = 0; k < 2; k++) {
            values[k] = native_value(s->dtype, s->x[i * N + places[k]]);
            nan |= isnan(values[k]);
            amax = isnan(values[k]) ? amax : fmax(amax, fabs(values[k]));
        }
        int byte = nan && s->options.nan_scale ? 255 : want_scale(s->format, &s->options, amax);
        unsigned char want[N + 1] = {0};
        for (int k = 0; k < 2; k++)
            put_code(s->format, want, places[k],
                     want_code(s->format, &s->options, values[k], byte == 255 ? 254 : byte));
        if (s->scales[i] != byte || memcmp(s->data + i * bytes, want, (size_t)bytes) != 0)
            ck_abort_msg("%s %s: %a and %a: scale %d, want %d", mx_format_get(s->format)->name,
                         mx_ocp_profile_name(s->profile), values[0], values[1], s->scales[i], byte);
    }
}

/* Six formats take two turns each, so that each value of a profile is alone at 12 places, spread
 * over the block, and at the end of tails of 12 lengths. test_ocp_places.c has all places, on
 * kernels that give what this gives. */
START_TEST(every_half_value)
{
    enum { TURNS = 2 };
    mx_dtype dtype = _i % 2 ? MX_DTYPE_F16 : MX_DTYPE_BF16;
    int at = _i / 2;

    for (int profile = 0; profile < MX_OCP_PROFILE_COUNT; profile++) {
        sweep s;
        sweep_init(&s, (mx_format)(FIRST + at), (mx_ocp_profile)profile, dtype);
        sweep_everywhere(&s);
        sweep_pairs(&s);
        for (int turn = 0; turn < TURNS; turn++) {
            int place = (at * TURNS + turn) * 3;
            sweep_places(&s, place, 1 + place % N);
        }
        sweep_finish(&s);
    }
}
END_TEST

START_TEST(random_f32_patterns)
{
    mx_format format = (mx_format)(FIRST + _i);
    for (int round = 0; round < (is_quick() ? 3000 : 15000); round++) {
        mx_ocp_options options = mx_ocp_preset((mx_ocp_profile)(round % MX_OCP_PROFILE_COUNT));
        uint32_t bits[N], base = random32(), spread = random32() % 32;
        if (round % 7 == 0) {
            options.scale_rule = MX_SCALE_CEIL;
            options.overflow = 1;
        }
        for (int i = 0; i < N; i++)
            bits[i] = round % 8 ? base ^ (random32() >> spread) : random32();
        for (int i = 0; i < N && round % 5 == 0; i++)
            bits[i] &= 0x81ffffff; /* around the subnormals */
        for (int i = 0; i < N && round % 3 == 0; i++)
            bits[i] &= 0xfffe0000; /* ties */
        check_block(format, &options, MX_DTYPE_F32, bits);
    }
}
END_TEST

/* ---- What comes back ---- */

enum { MAX_ELEMENTS = 6000, MAX_MEMORY = 400000, CANARY = 0xa5 };

/* One random quantisation and what it was made of. Sizes and strides in elements (bytes for data
 * and scales). */
typedef struct trip {
    mx_format format;
    mx_dtype dtype;
    mx_ocp_options options;
    int ndim, axis;
    int64_t shape[4], x_strides[4], y_strides[4];
    int64_t data_shape[2], data_strides[2], scales_shape[2], scales_strides[2];
    unsigned char *x, *y, *data, *scales;
} trip;

static int64_t pick(int64_t least, int64_t most)
{
    return least + (int64_t)(random32() % (uint32_t)(most - least + 1));
}

/* Dimensions in a random order in memory, each after a random gap. */
static void random_strides(int ndim, const int64_t *shape, int64_t *strides)
{
    int order[4] = {0, 1, 2, 3};
    int64_t stride = pick(1, 2);

    for (int i = ndim - 1; i > 0; i--) {
        int k = (int)pick(0, i), kept = order[i];
        order[i] = order[k];
        order[k] = kept;
    }
    for (int i = 0; i < ndim; i++) {
        strides[order[i]] = stride;
        stride = stride * shape[order[i]] + pick(0, 2);
    }
}

/* Bytes from the first element to the end of the last. */
static int64_t span_bytes(const trip *t, const int64_t *strides)
{
    int64_t last = 0;

    for (int d = 0; d < t->ndim; d++)
        last += (t->shape[d] - 1) * strides[d];
    return (last + 1) * mx_dtype_get(t->dtype)->bytes;
}

static void fill_random(const trip *t)
{
    int64_t n = span_bytes(t, t->x_strides) / mx_dtype_get(t->dtype)->bytes;

    uint32_t spread = random32() % 40;

    for (int64_t i = 0; i < n; i++) {
        /* Not so large or small that the type itself is what limits. */
        float value =
            ldexpf((float)(int32_t)random32(), -31 - (int)(random32() % (spread / 4 + 1)));
        uint32_t bits;
        memcpy(&bits, &value, sizeof(bits));
        uint32_t half = (bits >> 16 & 0x8000) | (0x2000 + random32() % 0x3000);
        put_native(t->x, t->dtype, (int)i,
                   t->dtype == MX_DTYPE_F32    ? bits
                   : t->dtype == MX_DTYPE_BF16 ? bits >> 16
                                               : half);
    }
}

static void trip_init(trip *t, mx_format format)
{
    int64_t elements = 1;

    *t = (trip){.format = format,
                .dtype = (mx_dtype)pick(0, MX_DTYPE_COUNT - 1),
                .options = mx_ocp_preset((mx_ocp_profile)pick(0, MX_OCP_PROFILE_COUNT - 1)),
                .ndim = (int)pick(1, 4),
                .x = malloc(MAX_MEMORY),
                .y = malloc(MAX_MEMORY),
                .data = malloc(MAX_MEMORY),
                .scales = malloc(MAX_MEMORY)};
    t->options.rounding = (mx_rounding)pick(0, MX_ROUNDING_COUNT - 1);
    t->options.scale_rule = (mx_scale_rule)pick(0, MX_SCALE_RULE_COUNT - 1);
    t->options.seed = random32();
    t->options.two_d = pick(0, 2) == 0;
    t->axis = (int)pick(0, t->ndim - 1);
    for (int i = 0; i < t->ndim; i++) {
        int64_t most = MAX_ELEMENTS / elements;
        /* Now and then one that has many blocks. */
        t->shape[i] = pick(1, most < 90 || pick(0, 7) == 0 ? most : 90);
        elements *= t->shape[i];
    }
    random_strides(t->ndim, t->shape, t->x_strides);
    random_strides(t->ndim, t->shape, t->y_strides);
    ck_assert(!mxrt_ocp_shape(format, &t->options, t->ndim, t->shape, t->axis, t->data_shape,
                              t->scales_shape, NULL));
    random_strides(2, t->data_shape, t->data_strides);
    random_strides(2, t->scales_shape, t->scales_strides);
    memset(t->y, CANARY, MAX_MEMORY);
    memset(t->data, CANARY, MAX_MEMORY);
    memset(t->scales, CANARY, MAX_MEMORY);
    fill_random(t);
}

static void trip_run(trip *t, mx_op op)
{
    mx_error err = {MX_OK, ""};
    DLTensor x = plain_of(t->x, t->dtype, t->ndim, t->shape, t->x_strides);
    DLTensor y = plain_of(t->y, t->dtype, t->ndim, t->shape, t->y_strides);
    DLTensor data = tensor_of(t->data, bytes_type, 2, t->data_shape, t->data_strides);
    DLTensor scales = tensor_of(t->scales, bytes_type, 2, t->scales_shape, t->scales_strides);
    mxrt_plan_request request = {.op = op,
                                 .format = t->format,
                                 .axis = t->axis,
                                 .in = op == MX_OP_TO ? &x : &data,
                                 .out = op == MX_OP_TO ? &data : &y,
                                 .scales = &scales,
                                 .options = &t->options};
    ck_assert_msg(!mxrt_reference_run(&request, &err), "%s", err.message);
}

static double element_at(const trip *t, const unsigned char *memory, int64_t at)
{
    uint32_t bits = 0;
    int bytes = mx_dtype_get(t->dtype)->bytes;

    memcpy(&bits, memory + at * bytes, (size_t)bytes);
    return native_value(t->dtype, bits);
}

/* Where an element's scale is, by the shape with the axis last. */
static int scale_of_element(const trip *t, const int64_t index[4])
{
    int last = t->ndim - 1;
    int64_t row = 0, place = index[t->axis] / N;

    for (int i = 0; i < last; i++) {
        int64_t size = i == t->axis ? t->shape[last] : t->shape[i];
        int64_t at = i == t->axis ? index[last] : index[i];
        if (t->options.two_d && i == last - 1) {
            size = (size + N - 1) / N;
            at /= N;
        }
        row = row * size + at;
    }
    return t->scales[row * t->scales_strides[0] + place * t->scales_strides[1]];
}

/* Half a unit in the last place of the element's binade, a whole one for stochastic rounding, and
 * what saturates: the rules allow less than 2^(emax + 1), or nothing above max_normal. */
static void check_error(const trip *t, double x, double y, int byte)
{
    static const int emax[] = {2, 2, 4, 8, 15, 0}, kept[] = {1, 3, 2, 3, 2, 6};
    static const int lowest[] = {0, 0, -2, -6, -14, 0};
    int at = t->format - FIRST, e;
    double scale = ldexp(1, byte - 127), most = max_normal(t->format) * scale;
    int is_ceiling =
        t->options.scale_rule == MX_SCALE_CEIL || t->options.scale_rule == MX_SCALE_RCEIL;
    int is_stochastic = t->options.rounding == MX_ROUND_STOCHASTIC;
    const char *name = mx_format_get(t->format)->name;

    if (byte == 255 || fabs(x) >= ldexp(scale, emax[at] + 1) || (is_ceiling && fabs(x) > most))
        ck_abort_msg("%s: %a has scale %d", name, x, byte);
    if (fabs(x) > most) {
        if (y != copysign(most, x))
            ck_abort_msg("%s: %a saturates to %a, not %a", name, x, y, most);
        return;
    }
    frexp(x / scale, &e);
    e = x == 0 || e - 1 < lowest[at] ? lowest[at] : e - 1;
    double unit = ldexp(scale, e - kept[at]), error = fabs(y - x);
    if (fabs(y) > most || error > (is_stochastic ? unit : unit / 2) ||
        (is_stochastic && error == unit))
        ck_abort_msg("%s, scale %d: %a comes back as %a, where a unit is %a", name, byte, x, y,
                     unit);
}

/* The scale is no larger than some element of the block needs: by a factor of two at most, and half
 * a unit of the rule that rounds. */
static void check_tight(const trip *t, double amax, int byte)
{
    static const int emax[] = {2, 2, 4, 8, 15, 0}, kept[] = {1, 3, 2, 3, 2, 6};
    int at = t->format - FIRST;
    double least = ldexp(1, byte - 127 + emax[at]);

    if (amax == 0 || amax < (double)t->options.min_amax || byte <= t->options.min_byte)
        return;
    if (t->options.scale_rule == MX_SCALE_EVEN)
        least *= 1 - ldexp(1, -2 - kept[at]);
    if (t->options.scale_rule == MX_SCALE_CEIL)
        least /= 2;
    if (t->options.scale_rule == MX_SCALE_RCEIL)
        least = ldexp(max_normal(t->format), byte - 128);
    if (amax < least)
        ck_abort_msg("%s rule %d: amax %a has scale %d", mx_format_get(t->format)->name,
                     (int)t->options.scale_rule, amax, byte);
}

static int next_index(const trip *t, int64_t index[4])
{
    int d = t->ndim - 1;

    while (d >= 0 && ++index[d] == t->shape[d])
        index[d--] = 0;
    return d >= 0;
}

static void check_trip(const trip *t)
{
    int64_t index[4] = {0}, touched = 0, kept = 0;
    int64_t size_bytes = span_bytes(t, t->y_strides) + 64;
    int bytes = mx_dtype_get(t->dtype)->bytes;
    unsigned char *mine = calloc(1, (size_t)size_bytes);

    do {
        int64_t x_at = 0, y_at = 0;
        for (int d = 0; d < t->ndim; d++) {
            x_at += index[d] * t->x_strides[d];
            y_at += index[d] * t->y_strides[d];
        }
        check_error(t, element_at(t, t->x, x_at), element_at(t, t->y, y_at),
                    scale_of_element(t, index));
        memset(mine + y_at * bytes, 1, (size_t)bytes);
        touched += bytes;
    } while (next_index(t, index));
    /* Nothing between the elements is written. */
    for (int64_t i = 0; i < size_bytes; i++) {
        kept += !mine[i];
        if (!mine[i] && t->y[i] != CANARY)
            ck_abort_msg("byte %d between elements is written", (int)i);
    }
    ck_assert_int_eq(touched + kept, size_bytes);
    free(mine);
}

/* Blocks without strides to walk through: rows of the axis alone. */
static void check_tight_rows(const trip *t)
{
    if (t->ndim != 1)
        return;
    for (int64_t k = 0; k < t->scales_shape[1]; k++) {
        double amax = 0;
        for (int64_t i = k * N; i < t->shape[0] && i < (k + 1) * N; i++)
            amax = fmax(amax, fabs(element_at(t, t->x, i * t->x_strides[0])));
        check_tight(t, amax, t->scales[k * t->scales_strides[1]]);
    }
}

START_TEST(error_bounds)
{
    int rounds = is_quick() ? 30 : 200;

    for (int round = 0; round < rounds; round++) {
        trip t;
        trip_init(&t, (mx_format)(FIRST + _i));
        trip_run(&t, MX_OP_TO);
        trip_run(&t, MX_OP_FROM);
        check_trip(&t);
        check_tight_rows(&t);
        free(t.x);
        free(t.y);
        free(t.data);
        free(t.scales);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ocp_values");
    TCase *tests = tcase_create("all");

    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, every_half_value, 0, 2 * N_FORMATS);
    tcase_add_loop_test(tests, random_f32_patterns, 0, N_FORMATS);
    tcase_add_loop_test(tests, error_bounds, 0, N_FORMATS);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
