/* Damaged packs. Whatever happens to a file, reading it gives an error or exactly what was written,
 * and never a crash. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pack_build.h"

#define PAGE_BYTES 4096

typedef struct tally {
    int n_same, n_refused;
} tally;

static pack_bytes sample;
static uint64_t sample_digest;
static uint64_t random_state;

static void make_sample(void)
{
    mx_error err = {0};
    sample = pack_sample();
    ck_assert_msg(!pack_digest(sample, &sample_digest, &err), "%s", err.message);
    random_state = 88172645463325252u;
}

static void free_sample(void)
{
    free(sample.data);
}

static size_t random_below(size_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (size_t)((random_state >> 11) % limit);
}

static void tell(tally *seen, mx_status status, uint64_t digest, const mx_error *err,
                 const char *what, size_t at)
{
    if (status) {
        ck_assert_msg(status == MX_ERR_CORRUPT, "%s at %zu: %s", what, at, err->message);
        ck_assert_int_eq(err->status, status);
        ck_assert_msg(strstr(err->message, "kernel pack") == err->message, "%s", err->message);
        seen->n_refused++;
    } else {
        ck_assert_msg(digest == sample_digest, "%s at %zu changed the content unseen", what, at);
        seen->n_same++;
    }
}

static void expect_same_or_refused(pack_bytes bytes, tally *seen, const char *what, size_t at)
{
    mx_error err = {0};
    uint64_t digest = 0;
    mx_status status = pack_digest(bytes, &digest, &err);
    tell(seen, status, digest, &err, what, at);
}

static void flip(size_t bit)
{
    sample.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
}

START_TEST(test_truncated)
{
    tally seen = {0};
    for (size_t n = 0; n < sample.size_bytes; n += 512)
        expect_same_or_refused((pack_bytes){sample.data, n}, &seen, "truncation", n);
    for (int i = 0; i < 300; i++) {
        size_t n = random_below(i % 3 ? sample.size_bytes : 200);
        expect_same_or_refused((pack_bytes){sample.data, n}, &seen, "truncation", n);
    }
    ck_assert_int_eq(seen.n_same, 0);
}
END_TEST

/* The same through files, where SQLite reads page by page. */
START_TEST(test_truncated_file)
{
    char folder[256], path[300], command[300];
    tally seen = {0};
    pack_make_folder(folder);
    snprintf(path, sizeof(path), "%s/x.mxdb", folder);
    for (size_t n = 0; n <= sample.size_bytes; n += PAGE_BYTES / 2) {
        mx_error err = {0};
        uint64_t digest = 0;
        pack_write_file(path, (pack_bytes){sample.data, n});
        mx_status status = pack_digest_file(path, &digest, &err);
        tell(&seen, status, digest, &err, "truncation", n);
        if (n < sample.size_bytes)
            ck_assert_msg(strstr(err.message, n ? "is truncated" : "is empty") != NULL, "%s",
                          err.message);
        ck_assert_int_eq(pack_count_files(folder), 1);
    }
    ck_assert_int_eq(seen.n_same, 1);
    snprintf(command, sizeof(command), "rm -r '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

/* A header that agrees with the shorter file: only the content can tell. */
START_TEST(test_pages_missing)
{
    tally seen = {0};
    for (size_t n = 1; n < sample.size_bytes / PAGE_BYTES; n++) {
        pack_bytes shorter = {malloc(n * PAGE_BYTES), n * PAGE_BYTES};
        memcpy(shorter.data, sample.data, shorter.size_bytes);
        for (int i = 0; i < 4; i++)
            shorter.data[28 + i] = (unsigned char)(n >> (24 - 8 * i));
        expect_same_or_refused(shorter, &seen, "cutting pages", n);
        free(shorter.data);
    }
    ck_assert_int_gt(seen.n_refused, 0);
}
END_TEST

START_TEST(test_extended)
{
    tally seen = {0};
    size_t more[] = {1, 511, 512, PAGE_BYTES, 3 * PAGE_BYTES};
    for (int i = 0; i < 5; i++) {
        pack_bytes longer = {calloc(1, sample.size_bytes + more[i]), sample.size_bytes + more[i]};
        memcpy(longer.data, sample.data, sample.size_bytes);
        expect_same_or_refused(longer, &seen, "extension", more[i]);
        free(longer.data);
    }
    ck_assert_int_eq(seen.n_same, 0);
}
END_TEST

START_TEST(test_flip_file_header)
{
    tally seen = {0};
    for (size_t bit = 0; bit < 100 * 8; bit++) {
        flip(bit);
        expect_same_or_refused(sample, &seen, "flipped bit", bit);
        flip(bit);
    }
    ck_assert_int_gt(seen.n_refused, 300);
}
END_TEST

/* Every bit of the b-tree header of every page. */
START_TEST(test_flip_page_headers)
{
    tally seen = {0};
    for (size_t page = 0; page < sample.size_bytes / PAGE_BYTES; page++) {
        size_t begin = (page ? page * PAGE_BYTES : 100) * 8;
        for (size_t bit = begin; bit < begin + 12 * 8; bit++) {
            flip(bit);
            expect_same_or_refused(sample, &seen, "flipped bit", bit);
            flip(bit);
        }
    }
    ck_assert_int_gt(seen.n_refused, 100);
}
END_TEST

START_TEST(test_flip_anywhere)
{
    tally seen = {0};
    for (int i = 0; i < 2000; i++) {
        size_t bit = random_below(sample.size_bytes * 8);
        flip(bit);
        expect_same_or_refused(sample, &seen, "flipped bit", bit);
        flip(bit);
    }
    ck_assert_int_gt(seen.n_refused, 1000);
}
END_TEST

/* Damage of every size: runs of random bytes, zeros, ones, pieces of other places. */
START_TEST(test_overwritten)
{
    tally seen = {0};
    unsigned char saved[3 * PAGE_BYTES];
    for (int i = 0; i < 2000; i++) {
        size_t n = 1 + random_below(i % 10 ? 16 : sizeof(saved));
        size_t at = random_below(sample.size_bytes - n);
        size_t from = random_below(sample.size_bytes - n);
        memcpy(saved, sample.data + at, n);
        if (i % 4 == 0)
            memmove(sample.data + at, sample.data + from, n);
        else if (i % 4 == 1)
            memset(sample.data + at, random_below(2) ? 0xff : 0, n);
        else
            for (size_t k = 0; k < n; k++)
                sample.data[at + k] = (unsigned char)random_below(256);
        expect_same_or_refused(sample, &seen, "overwriting", at);
        memcpy(sample.data + at, saved, n);
    }
    ck_assert_int_gt(seen.n_refused, 1000);
}
END_TEST

/* Whole pages in each other's places are all well-formed by themselves. */
START_TEST(test_swapped_pages)
{
    tally seen = {0};
    unsigned char page[PAGE_BYTES];
    size_t n_pages = sample.size_bytes / PAGE_BYTES;
    for (int i = 0; i < 1000; i++) {
        unsigned char *a = sample.data + PAGE_BYTES * (1 + random_below(n_pages - 1));
        unsigned char *b = sample.data + PAGE_BYTES * (1 + random_below(n_pages - 1));
        memcpy(page, a, PAGE_BYTES);
        memmove(a, b, PAGE_BYTES);
        if (i % 2)
            memcpy(b, page, PAGE_BYTES);
        expect_same_or_refused(sample, &seen, "swapping pages", (size_t)i);
        if (i % 2)
            memmove(b, a, PAGE_BYTES);
        memcpy(a, page, PAGE_BYTES);
    }
    ck_assert_int_gt(seen.n_refused, 300);
}
END_TEST

/* Texts and integers of the rows themselves, every byte of them, with SQLite's structure intact. */
START_TEST(test_flip_rows)
{
    tally seen = {0};
    for (size_t at = 0; at + 9 < sample.size_bytes; at++) {
        if (memcmp(sample.data + at, "kernel_", 7) != 0)
            continue;
        for (size_t bit = at * 8; bit < (at + 9) * 8; bit += 7) {
            flip(bit);
            expect_same_or_refused(sample, &seen, "flipped bit", bit);
            flip(bit);
        }
    }
    ck_assert_int_gt(seen.n_refused, 200);
}
END_TEST

START_TEST(test_fuzz_program)
{
    const char *program = getenv("MX_FUZZ_PACK");
    char folder[256], command[2000], line[1200];
    if (!program)
        return;
    pack_make_folder(folder);
    snprintf(command, sizeof(command), "%s/good.mxdb", folder);
    pack_write_file(command, sample);
    snprintf(command, sizeof(command), "%s/short.mxdb", folder);
    pack_write_file(command, (pack_bytes){sample.data, sample.size_bytes / 2});
    memset(sample.data + PAGE_BYTES, 0xa5, 40 * PAGE_BYTES < sample.size_bytes ? 300 : 30);
    snprintf(command, sizeof(command), "%s/wild.mxdb", folder);
    pack_write_file(command, sample);
    snprintf(command, sizeof(command),
             "cd '%s' && '%s' good.mxdb short.mxdb wild.mxdb . no.mxdb /dev/null", folder, program);
    FILE *pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    static const char *const expected[] = {"good.mxdb: ok",     "short.mxdb: kernel pack",
                                           "wild.mxdb: kernel", ".: kernel pack \".\" is a folder",
                                           "no.mxdb: kernel",   "/dev/null: kernel"};
    for (int i = 0; i < 6; i++) {
        ck_assert_ptr_nonnull(fgets(line, sizeof(line), pipe));
        ck_assert_msg(strncmp(line, expected[i], strlen(expected[i])) == 0, "%s", line);
    }
    ck_assert_int_eq(pclose(pipe), 0);
    snprintf(command, sizeof(command), "rm -r '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pack_damage");
    TCase *tests = tcase_create("pack_damage");
    tcase_add_checked_fixture(tests, make_sample, free_sample);
    tcase_add_test(tests, test_truncated);
    tcase_add_test(tests, test_truncated_file);
    tcase_add_test(tests, test_pages_missing);
    tcase_add_test(tests, test_extended);
    tcase_add_test(tests, test_flip_file_header);
    tcase_add_test(tests, test_flip_page_headers);
    tcase_add_test(tests, test_flip_anywhere);
    tcase_add_test(tests, test_overwritten);
    tcase_add_test(tests, test_swapped_pages);
    tcase_add_test(tests, test_flip_rows);
    tcase_add_test(tests, test_fuzz_program);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
