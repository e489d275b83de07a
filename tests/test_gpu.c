/* Device URIs, and code objects that drivers would read past the end of. */
#include <check.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/gpu.h"

enum { MACHINE = 224, N_SECTIONS = 3, FILE_BYTES = 1024 };

/* A file with one segment and three sections in [512, 1024). */
static void *make_elf(void)
{
    unsigned char *file = calloc(1, FILE_BYTES);
    Elf64_Ehdr header = {.e_machine = MACHINE,
                         .e_phoff = sizeof(Elf64_Ehdr),
                         .e_phentsize = sizeof(Elf64_Phdr),
                         .e_phnum = 1,
                         .e_shoff = 256,
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shnum = N_SECTIONS};
    memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    Elf64_Phdr segment = {.p_type = PT_LOAD, .p_offset = 0, .p_filesz = FILE_BYTES};
    Elf64_Shdr sections[N_SECTIONS] = {
        {.sh_type = SHT_NULL},
        {.sh_type = SHT_PROGBITS, .sh_offset = 512, .sh_size = 512},
        {.sh_type = SHT_NOBITS, .sh_offset = 4096, .sh_size = 1 << 20},
    };
    memcpy(file, &header, sizeof(header));
    memcpy(file + sizeof(header), &segment, sizeof(segment));
    memcpy(file + 256, sections, sizeof(sections));
    return file;
}

static mx_status check_with(size_t offset, const void *value, size_t value_bytes, mx_error *err)
{
    char *file = make_elf();
    memcpy(file + offset, value, value_bytes);
    mx_status status = mxrt_gpu_check_elf(file, FILE_BYTES, MACHINE, err);
    free(file);
    return status;
}

START_TEST(sound_objects_pass)
{
    ck_assert_int_eq(check_with(0, ELFMAG, SELFMAG, NULL), MX_OK);
}
END_TEST

START_TEST(truncated_objects_are_corrupt)
{
    char *file = make_elf();
    for (size_t bytes = 0; bytes < FILE_BYTES; bytes++) {
        char *exact = malloc(bytes ? bytes : 1); /* so that the sanitizer sees what is read */
        memcpy(exact, file, bytes);
        ck_assert_int_eq(mxrt_gpu_check_elf(exact, bytes, MACHINE, NULL), MX_ERR_CORRUPT);
        free(exact);
    }
    free(file);
}
END_TEST

START_TEST(headers_out_of_range_are_corrupt)
{
    static const struct {
        size_t offset;
        uint64_t value;
        size_t bytes;
    } table[] = {
        {0, 0, 1},                                                       /* magic */
        {EI_CLASS, ELFCLASS32, 1},                                       /* class */
        {offsetof(Elf64_Ehdr, e_machine), 62, 2},                        /* another machine */
        {offsetof(Elf64_Ehdr, e_shoff), UINT64_MAX, 8},                  /* section table */
        {offsetof(Elf64_Ehdr, e_shoff), FILE_BYTES - 64, 8},             /* .. too long there */
        {offsetof(Elf64_Ehdr, e_shnum), 0xffff, 2},                      /* .. too many */
        {offsetof(Elf64_Ehdr, e_shentsize), 32, 2},                      /* .. of another size */
        {offsetof(Elf64_Ehdr, e_phoff), FILE_BYTES, 8},                  /* segment table */
        {offsetof(Elf64_Ehdr, e_phentsize), 0, 2},                       /* .. of another size */
        {64 + offsetof(Elf64_Phdr, p_filesz), FILE_BYTES + 1, 8},        /* segment */
        {64 + offsetof(Elf64_Phdr, p_offset), UINT64_MAX, 8},            /* .. its place */
        {256 + 64 + offsetof(Elf64_Shdr, sh_size), 513, 8},              /* section */
        {256 + 64 + offsetof(Elf64_Shdr, sh_offset), UINT64_MAX - 8, 8}, /* .. its place */
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        mx_error error = {MX_OK, ""};
        mx_status status = check_with(table[i].offset, &table[i].value, table[i].bytes, &error);
        ck_assert_msg(status == MX_ERR_CORRUPT, "line %zu of the table is accepted", i);
        ck_assert_ptr_nonnull(strstr(error.message, "pack"));
    }
}
END_TEST

START_TEST(uris_are_parsed)
{
    static const struct {
        const char *rest, *library;
        int ordinal;
    } table[] = {
        {"", NULL, 0},
        {"0", NULL, 0},
        {"17", NULL, 17},
        {"3?library=/opt/a b/lib.so", "/opt/a b/lib.so", 3},
        {"library=lib.so", "lib.so", 0}, /* "hip?library=lib.so" */
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        mxrt_gpu_uri uri;
        ck_assert_int_eq(mxrt_gpu_parse_uri("hip", table[i].rest, &uri, NULL), MX_OK);
        ck_assert_int_eq(uri.ordinal, table[i].ordinal);
        if (table[i].library)
            ck_assert_str_eq(uri.library, table[i].library);
        else
            ck_assert_ptr_null(uri.library);
    }
}
END_TEST

START_TEST(bad_uris_are_refused)
{
    static const char *const table[] = {"x", "-1", "0x", "0?lib=a", "0?library=", "0 ", "10000000"};
    char long_path[2 * MXRT_GPU_PATH_BYTES] = "0?library=";
    memset(long_path + 10, 'a', sizeof(long_path) - 11);
    mxrt_gpu_uri uri = {.ordinal = 77};
    mx_error error = {MX_OK, ""};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        ck_assert_int_eq(mxrt_gpu_parse_uri("cuda", table[i], &uri, &error), MX_ERR_INVALID);
        ck_assert_ptr_nonnull(strstr(error.message, table[i]));
    }
    ck_assert_int_eq(mxrt_gpu_parse_uri("cuda", long_path, &uri, &error), MX_ERR_INVALID);
    ck_assert_int_eq(uri.ordinal, 77);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gpu");
    TCase *cases = tcase_create("gpu");
    tcase_add_test(cases, sound_objects_pass);
    tcase_add_test(cases, truncated_objects_are_corrupt);
    tcase_add_test(cases, headers_out_of_range_are_corrupt);
    tcase_add_test(cases, uris_are_parsed);
    tcase_add_test(cases, bad_uris_are_refused);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed ? 1 : 0;
}
