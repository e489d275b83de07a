/* The boxes by which mxrt streams tensors: whatever the shape and the budget, every byte of the
 * tensor, of its packed form and of its scales is in exactly one run of exactly one box. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cases.h"
#include "tools/mxrt/mxrt_slab.h"

typedef struct cover {
    unsigned char *seen;
    int64_t size_bytes; /* of the whole */
    int64_t next;       /* in the box's compact copy */
    int64_t skip;       /* bytes of a box's row that the file lacks */
} cover;

static mx_status cover_run(void *user, int64_t tensor_offset, int64_t box_offset,
                           int64_t size_bytes, mx_error *err)
{
    cover *c = user;
    (void)err;
    if (size_bytes <= 0 || tensor_offset < 0 || tensor_offset + size_bytes > c->size_bytes ||
        box_offset != c->next)
        ck_abort_msg("run of %lld bytes at %lld, %lld in the box", (long long)size_bytes,
                     (long long)tensor_offset, (long long)box_offset);
    c->next += size_bytes + c->skip;
    int again = 0;
    for (int64_t i = 0; i < size_bytes; i++)
        again |= c->seen[tensor_offset + i]++;
    if (again)
        ck_abort_msg("bytes from %lld on come twice", (long long)tensor_offset);
    return MX_OK;
}

/* A format: bytes and elements of a block, bytes of its scale, and how many bytes each row lacks at
 * its end in the file. */
typedef struct blocks {
    int64_t bytes, elements, scale, cut;
} blocks;

static cover cover_of(int64_t size_bytes)
{
    return (cover){.size_bytes = size_bytes, .seen = calloc(1, (size_t)size_bytes + 1)};
}

static void cover_finish(cover *c)
{
    ck_assert_ptr_null(memchr(c->seen, 0, (size_t)c->size_bytes));
    free(c->seen);
}

static int64_t check_shape(size_t ndim, const int64_t *shape, int axis, int64_t element_bytes,
                           const blocks *format, int64_t budget)
{
    slab_view view;
    slab_box first, box, whole;
    int64_t n_boxes = 0;
    slab_view_init(&view, ndim, shape, axis, element_bytes, format->bytes, format->elements);
    view.scale_bytes = format->scale;
    view.row_bytes -= format->cut;
    slab_whole(&view, &whole);
    int64_t rows = slab_blocks(&view, &whole) / view.blocks;
    cover plain = cover_of(slab_plain_bytes(&view, &whole));
    cover packed = cover_of(rows * view.row_bytes);
    cover scales = cover_of(slab_blocks(&view, &whole) * format->scale);
    slab_first(&view, budget, &first);
    box = first;
    do {
        int64_t plain_bytes = slab_plain_bytes(&view, &box);
        int64_t packed_bytes = slab_packed_bytes(&view, &box);
        int64_t scale_bytes = slab_blocks(&view, &box) * format->scale;
        ck_assert_int_le(plain_bytes + packed_bytes + scale_bytes, budget);
        ck_assert_int_eq(box.begin[SLAB_AXIS] % format->elements, 0);
        plain.next = packed.next = scales.next = 0;
        packed.skip =
            box.begin[SLAB_AXIS] + box.count[SLAB_AXIS] == view.size[SLAB_AXIS] ? format->cut : 0;
        ck_assert_int_eq(slab_plain_runs(&view, &box, cover_run, &plain, NULL), MX_OK);
        ck_assert_int_eq(slab_packed_runs(&view, &box, cover_run, &packed, NULL), MX_OK);
        if (format->scale)
            ck_assert_int_eq(slab_scale_runs(&view, &box, cover_run, &scales, NULL), MX_OK);
        ck_assert_int_eq(plain.next, plain_bytes);
        ck_assert_int_eq(packed.next, packed_bytes);
        ck_assert_int_eq(scales.next, scale_bytes);
        n_boxes++;
    } while (slab_next(&view, &first, &box));
    cover_finish(&plain);
    cover_finish(&packed);
    cover_finish(&scales);
    return n_boxes;
}

START_TEST(covers_random_shapes)
{
    static const blocks formats[] = {{18, 16, 0, 0}, {12, 16, 0, 0},  {8, 16, 0, 0},
                                     {16, 32, 1, 0}, {24, 32, 1, 0},  {32, 32, 1, 0},
                                     {16, 32, 1, 5}, {32, 32, 1, 31}, {24, 32, 1, 3}};
    static const int64_t limits[] = {3, 20, 70, 300};
    uint64_t state = 5;
    for (int round = 0; round < 400; round++) {
        int64_t shape[5];
        size_t ndim = 1 + mx_case_random(&state) % 5;
        int64_t left = 60000;
        for (size_t i = 0; i < ndim; i++) {
            int64_t limit = limits[mx_case_random(&state) % 4];
            limit = limit < left ? limit : left;
            shape[i] = 1 + (int64_t)(mx_case_random(&state) % (uint64_t)limit);
            left /= shape[i];
            left = left ? left : 1;
        }
        int axis = (int)(mx_case_random(&state) % ndim);
        int64_t budget = SLAB_MIN_BYTES << mx_case_random(&state) % 8;
        check_shape(ndim, shape, axis, mx_case_random(&state) % 2 ? 2 : 4,
                    &formats[mx_case_random(&state) % 9], budget);
    }
}
END_TEST

START_TEST(long_dimensions)
{
    static const int64_t column[] = {100000, 1}, row[] = {1, 100000}, middle[] = {2, 3000, 7, 3};
    static const int64_t wide[] = {17, 40000}, thin[] = {30000, 3, 1};
    static const blocks mx9 = {18, 16, 0, 0}, mx6 = {12, 16, 0, 0}, mxfp8 = {32, 32, 1, 0};
    ck_assert_int_gt(check_shape(2, column, 0, 4, &mx9, SLAB_MIN_BYTES), 50);
    ck_assert_int_gt(check_shape(2, column, 1, 4, &mx9, SLAB_MIN_BYTES), 50);
    ck_assert_int_gt(check_shape(2, row, 0, 2, &mx9, SLAB_MIN_BYTES), 50);
    ck_assert_int_gt(check_shape(2, row, 1, 2, &mxfp8, SLAB_MIN_BYTES), 50);
    ck_assert_int_gt(check_shape(4, middle, 1, 4, &mx6, SLAB_MIN_BYTES), 50);
    ck_assert_int_gt(check_shape(2, wide, 0, 4, &mx9, SLAB_MIN_BYTES), 50);
    ck_assert_int_gt(check_shape(3, thin, 0, 4, &mx9, SLAB_MIN_BYTES), 50);
    ck_assert_int_eq(check_shape(2, wide, 0, 4, &mx9, 1 << 28), 1);
}
END_TEST

/* Sizes of which only the numbers exist: budgets must not overflow. */
START_TEST(huge_shapes)
{
    static const int64_t shape[] = {(int64_t)1 << 20, (int64_t)1 << 20, (int64_t)1 << 18};
    for (int axis = 0; axis < 3; axis++) {
        slab_view view;
        slab_box box;
        slab_view_init(&view, 3, shape, axis, 4, 18, 16);
        slab_first(&view, 1 << 28, &box);
        ck_assert_int_le(slab_plain_bytes(&view, &box) + slab_packed_bytes(&view, &box), 1 << 28);
        ck_assert_int_ge(slab_plain_bytes(&view, &box), 1 << 24);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slab");
    TCase *tcase = tcase_create("boxes");
    tcase_add_test(tcase, covers_random_shapes);
    tcase_add_test(tcase, long_dimensions);
    tcase_add_test(tcase, huge_shapes);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
