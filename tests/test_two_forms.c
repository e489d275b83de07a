/* A pack with machine code and PTX of the same kernels, on the fake CUDA driver: which of them is
 * loaded. */
#include <check.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>
#include <mxgen/pack.h>
#include <mxgen/rt.h>

#include "cases.h"
#include "gen/pack_writer.h"
#include "pack_build.h"

enum { SKIPPED = 77, ROWS = 4, LENGTH = 64, BLOCKS = ROWS * LENGTH / 16 };

#define SYMBOL "mxtest_add"

static const char ptx[] = ".version 8.0\n// " SYMBOL "\n";
static char logged[4096];

static void keep_log(void *user, const char *message)
{
    (void)user;
    snprintf(logged + strlen(logged), sizeof(logged) - strlen(logged), "%s\n", message);
}

/* The fake driver takes it for a module with one kernel; it refuses one without flags. */
typedef struct fake_cubin {
    Elf64_Ehdr header;
    char symbol[sizeof(SYMBOL) + 8];
} fake_cubin;

static fake_cubin make_cubin(int is_taken)
{
    fake_cubin cubin = {.symbol = SYMBOL};
    memcpy(cubin.header.e_ident, ELFMAG, SELFMAG);
    cubin.header.e_ident[EI_CLASS] = ELFCLASS64;
    cubin.header.e_machine = EM_CUDA;
    cubin.header.e_flags = is_taken ? 0x5a : 0;
    cubin.header.e_shoff = sizeof(cubin);
    return cubin;
}

static void add_rows(mxgen_pack_writer *writer, const char *target, int64_t object, int first_name,
                     int n)
{
    mx_error error = {MX_OK, ""};
    for (int i = first_name; i < first_name + n; i++) {
        char name[32];
        snprintf(name, sizeof(name), "kernel_%d", i);
        mxgen_pack_variant row = pack_plain_variant(name);
        row.target = target;
        row.object_id = object;
        row.symbol = SYMBOL;
        row.rank = i;
        row.rules_json = "[]";
        ck_assert_msg(!mxgen_pack_writer_variant(writer, &row, &error), "%s", error.message);
    }
}

/* Kernels 0 and 1 as machine code, 0 to 2 as PTX. */
static pack_bytes make_pack(int is_taken)
{
    mx_error error = {MX_OK, ""};
    int64_t object = 0;
    fake_cubin cubin = make_cubin(is_taken);
    mxgen_pack_writer *writer = pack_plain_writer();
    ck_assert_int_eq(mxgen_pack_writer_object(writer, "sm_90a", MXPACK_KIND_CUBIN, &cubin,
                                              sizeof(cubin), &object, &error),
                     MX_OK);
    add_rows(writer, "sm_90a", object, 0, 2);
    ck_assert_int_eq(mxgen_pack_writer_object(writer, "compute_90a", MXPACK_KIND_PTX, ptx,
                                              sizeof(ptx) - 1, &object, &error),
                     MX_OK);
    add_rows(writer, "compute_90a", object, 0, 3);
    return pack_take(writer);
}

typedef struct rig {
    mxrt_context *context;
    mxrt_device *device;
    void *x, *p;
    mx_case_tensor tx, tp;
    mxrt_plan_request request;
} rig;

static void rig_open(rig *r, int is_taken)
{
    char uri[600];
    mx_error error = {MX_OK, ""};
    mxrt_device_info info;
    int64_t plain_shape[] = {ROWS, LENGTH}, packed_shape[] = {BLOCKS, 18};
    mxrt_context_options options = {.log = keep_log};
    pack_bytes pack = make_pack(is_taken);
    logged[0] = 0;
    ck_assert_int_eq(mxrt_context_create(&options, &r->context, &error), MX_OK);
    ck_assert_msg(!mxrt_context_add_pack_memory(r->context, pack.data, pack.size_bytes, &error),
                  "%s", error.message);
    free(pack.data);
    snprintf(uri, sizeof(uri), "cuda:0?library=%s", getenv("MX_TEST_FAKE_CUDA"));
    ck_assert_msg(!mxrt_device_open(r->context, uri, &r->device, &error), "%s", error.message);
    ck_assert_int_eq(mxrt_device_get_info(r->device, &info, &error), MX_OK);
    ck_assert_int_eq(mxrt_device_alloc(r->device, ROWS * LENGTH * 4, &r->x, &error), MX_OK);
    ck_assert_int_eq(mxrt_device_alloc(r->device, BLOCKS * 18, &r->p, &error), MX_OK);
    mx_case_contiguous(mx_case_dl_type(MX_DTYPE_F32), info.dl_device, 2, plain_shape, r->x, &r->tx);
    mx_case_contiguous((DLDataType){kDLUInt, 8, 1}, info.dl_device, 2, packed_shape, r->p, &r->tp);
    r->request = (mxrt_plan_request){.op = MX_OP_TO,
                                     .format = MX_FORMAT_MX9,
                                     .axis = -1,
                                     .in = &r->tx.tensor,
                                     .out = &r->tp.tensor};
}

static void rig_close(rig *r)
{
    mxrt_device_free(r->device, r->x);
    mxrt_device_free(r->device, r->p);
    mxrt_device_close(r->device);
    mxrt_context_destroy(r->context);
}

/* Where the kernel comes from, and that there are three in the order of their ranks. */
static void check_kernels(rig *r, const char *const targets[3])
{
    mx_error error = {MX_OK, ""};
    const char *names[8];
    size_t n = 0;
    mx_status status = mxrt_plan_variants(r->device, &r->request, names, 8, &n, &error);
    ck_assert_msg(status == MX_OK, "%s", error.message);
    ck_assert_uint_eq(n, 3);
    for (size_t i = 0; i < n; i++) {
        char name[32];
        mxrt_plan *plan = NULL;
        mxrt_plan_info info;
        snprintf(name, sizeof(name), "kernel_%zu", i);
        ck_assert_str_eq(names[i], name);
        r->request.variant = name;
        ck_assert_int_eq(mxrt_plan_create(r->device, &r->request, &plan, &error), MX_OK);
        ck_assert_int_eq(mxrt_plan_get_info(plan, &info, &error), MX_OK);
        ck_assert_str_eq(info.target, targets[i]);
        ck_assert_int_eq(!memcmp(info.object, ELFMAG, SELFMAG), !strcmp(targets[i], "sm_90a"));
        mxrt_plan_destroy(plan);
        r->request.variant = NULL;
    }
}

START_TEST(machine_code_is_preferred)
{
    rig r;
    rig_open(&r, 1);
    check_kernels(&r, (const char *const[]){"sm_90a", "sm_90a", "compute_90a"});
    ck_assert_ptr_null(strstr(logged, "cannot be used, so ptx is"));
    rig_close(&r);
}
END_TEST

START_TEST(ptx_serves_where_the_driver_refuses)
{
    rig r;
    rig_open(&r, 0);
    check_kernels(&r, (const char *const[]){"compute_90a", "compute_90a", "compute_90a"});
    ck_assert_ptr_nonnull(strstr(logged, "cannot be used, so ptx is"));
    rig_close(&r);
}
END_TEST

int main(void)
{
    if (!getenv("MX_TEST_FAKE_CUDA")) {
        printf("skipped: MX_TEST_FAKE_CUDA names no driver\n");
        return SKIPPED;
    }
    Suite *suite = suite_create("two_forms");
    TCase *cases = tcase_create("two_forms");
    tcase_add_test(cases, machine_code_is_preferred);
    tcase_add_test(cases, ptx_serves_where_the_driver_refuses);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
