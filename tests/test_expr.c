/* Expressions of kernel packs: values, faults, messages, and random expressions against an
 * evaluator of the tree they were printed from. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/expr.h"
#include "runtime/pack_vars.h"

static int64_t values[MXRT_VAR_COUNT];

static void set_values(void)
{
    for (int i = 0; i < MXRT_VAR_COUNT; i++)
        values[i] = 0;
    values[MXRT_VAR_N_BLOCKS] = 1000;
    values[MXRT_VAR_ROWS] = -7;
    values[MXRT_VAR_LEN] = 4096;
    values[MXRT_VAR_BPR] = INT64_MAX;
    values[MXRT_VAR_X_ALIGN] = INT64_MIN;
    values[MXRT_VAR_DIM(6, MXRT_DIM_Y_STRIDE)] = 99;
}

static mx_status compile(const char *text, mxrt_expr **out, mx_error *err)
{
    return mxrt_expr_compile(text, mxrt_pack_var_names, MXRT_VAR_COUNT, out, err);
}

static mx_status run(const char *text, int64_t *out, mx_error *err)
{
    mxrt_expr *expr = NULL;
    mx_status status = compile(text, &expr, err);
    if (!status)
        status = mxrt_expr_eval(expr, values, out, err);
    mxrt_expr_free(expr);
    return status;
}

static const struct {
    const char *text;
    int64_t value;
} good[] = {
    {"0", 0},
    {"9223372036854775807", INT64_MAX},
    {" 1\t+\n2 ", 3},
    {"2 + 3 * 4", 14},
    {"(2 + 3) * 4", 20},
    {"20 - 3 - 2", 15},
    {"100 / 7 / 2", 7},
    {"-7 / 2", -3},
    {"-7 % 3", -1},
    {"7 % -3", 1},
    {"rows / 2", -3},
    {"rows % 3", -1},
    {"3000000000000 / rows", -428571428571},
    {"- -3", 3},
    {"--3", 3},
    {"-9223372036854775807 - 1", INT64_MIN},
    {"x_align % -1", 0},
    {"x_align % (rows + 6)", 0},
    {"!0 + !5 * 10", 1},
    {"!len", 0},
    {"!!len", 1},
    {"1 < 2 == 1", 1},
    {"3 > 2 > 1", 0},
    {"2 <= 2 && 2 >= 2 && 2 == 2 && 2 != 3", 1},
    {"len <= 4095 || len >= 4097 || len != 4096", 0},
    {"7 && 8", 1},
    {"0 || 8", 1},
    {"len && rows", 1},
    {"0 && 1 / 0", 0},
    {"1 || 1 / 0", 1},
    {"len || 1 / 0", 1},
    {"len == 0 && 1 / 0", 0},
    {"len == 0 && 4096 / len || 5", 1},
    {"1 || 0 && 0", 1},
    {"0 ? 1 / 0 : 5", 5},
    {"1 ? 5 : 1 / 0", 5},
    {"len ? rows : 1 / 0", -7},
    {"len - 4096 ? 1 / 0 : rows", -7},
    {"1 ? 2 : 0 ? 3 : 4", 2},
    {"0 ? 2 : 0 ? 3 : 4", 4},
    {"len > 1 ? len > 5000 ? 1 : 2 : 3", 2},
    {"(len > 1 ? 10 : 20) + 1", 11},
    {"1 + (len > 1 ? 10 : 20) * 2", 21},
    {"min(3, max(1, 2))", 2},
    {"min(-3, len)", -3},
    {"max(n_blocks, len) - min(n_blocks, len)", 3096},
    {"ceil_div(1, 16)", 1},
    {"ceil_div(16, 16)", 1},
    {"ceil_div(17, 16)", 2},
    {"ceil_div(-17, 16)", -1},
    {"ceil_div(17, -16)", -1},
    {"ceil_div(-17, -16)", 2},
    {"ceil_div(bpr, 2)", INT64_MAX / 2 + 1},
    {"ceil_div(x_align, bpr)", -1},
    {"ceil_div(n_blocks, 256) * min (len, 2)", 8},
    {"dim6_y_stride", 99},
    {"dim6_x_stride", 0},
};

START_TEST(test_good)
{
    mx_error err = {0};
    int64_t value = 12345;
    set_values();
    mx_status status = run(good[_i].text, &value, &err);
    ck_assert_msg(status == MX_OK, "%s: %s", good[_i].text, err.message);
    ck_assert_msg(value == good[_i].value, "%s = %lld", good[_i].text, (long long)value);
}
END_TEST

static const struct {
    const char *text;
    const char *part; /* of the message */
} bad[] = {
    {"", "found the end at column 1"},
    {"  ", "found the end at column 3"},
    {"1 +", "expected a value, found the end at column 4"},
    {"1 + * 2", "expected a value at column 5"},
    {"+1", "expected a value at column 1"},
    {"(1", "expected ')', found the end at column 3"},
    {"1)", "expected an operator or the end at column 2"},
    {"1 2", "expected an operator or the end at column 3"},
    {"len = 1", "expected an operator or the end at column 5"},
    {"len & 1", "expected an operator or the end at column 5"},
    {"len len", "expected an operator or the end at column 5"},
    {"1 ? 2", "expected ':', found the end at column 6"},
    {"min(1)", "expected ',' at column 6"},
    {"min(1, 2, 3)", "expected ')' at column 9"},
    {"min", "an unknown variable at column 1"},
    {"pow(1, 2)", "an unknown function at column 1"},
    {"1 + lens", "an unknown variable at column 5"},
    {"le", "an unknown variable at column 1"},
    {"len_", "an unknown variable at column 1"},
    {"dim7_size", "an unknown variable at column 1"},
    {"010", "leading zero at column 1"},
    {"0x10", "not a decimal integer at column 1"},
    {"1.5", "not a decimal integer at column 1"},
    {"12len", "not a decimal integer at column 1"},
    {"1 + 9223372036854775808", "beyond 9223372036854775807 at column 5"},
    {"99999999999999999999999", "beyond 9223372036854775807 at column 1"},
    {"\033[31m", "\"?[31m\""},
    {"1 / 0", "\"1 / 0\": division by zero at column 3"},
    {"1 % 0", "division by zero at column 3"},
    {"len / (len - 4096)", "division by zero at column 5"},
    {"len % (len - 4096)", "division by zero at column 5"},
    {"ceil_div(len, rows + 7)", "division by zero at column 1"},
    {"1 && 1 / 0", "division by zero at column 8"},
    {"0 || 1 / 0", "division by zero at column 8"},
    {"bpr + 1", "64-bit overflow at column 5"},
    {"bpr + bpr", "64-bit overflow at column 5"},
    {"x_align - 1", "64-bit overflow at column 9"},
    {"bpr * 2", "64-bit overflow at column 5"},
    {"-x_align", "64-bit overflow at column 1"},
    {"-(-9223372036854775807 - 1)", "64-bit overflow at column 1"},
    {"x_align / -1", "64-bit overflow at column 9"},
    {"ceil_div(x_align, -1)", "64-bit overflow at column 1"},
    {"9223372036854775807 + 1", "64-bit overflow at column 21"},
};

START_TEST(test_bad)
{
    mx_error err = {0};
    int64_t value = 12345;
    set_values();
    ck_assert_int_eq(run(bad[_i].text, &value, &err), MX_ERR_INVALID);
    ck_assert_int_eq(err.status, MX_ERR_INVALID);
    ck_assert_msg(strstr(err.message, bad[_i].part) != NULL, "%s", err.message);
    ck_assert_int_eq(value, 12345);
    ck_assert_int_eq(run(bad[_i].text, &value, NULL), MX_ERR_INVALID);
}
END_TEST

/* `head` n times, `body`, `tail` n times. */
static char *repeat(const char *head, const char *body, const char *tail, int n)
{
    size_t head_length = strlen(head), tail_length = strlen(tail);
    char *text = calloc(1, (head_length + tail_length) * (size_t)n + strlen(body) + 1), *at = text;
    for (int i = 0; i < n; i++)
        at = stpcpy(at, head);
    at = stpcpy(at, body);
    for (int i = 0; i < n; i++)
        at = stpcpy(at, tail);
    return text;
}

/* Every way to nest; the operators before a parenthesis keep values on the stack. */
static const struct {
    const char *head, *body, *tail;
} nestings[] = {
    {"(", "len", ")"},
    {"!", "len", ""},
    {"1 ? ", "len", " : 0"},
    {"len == 0 ? 0 : ", "len", ""},
    {"rows == 0 + 0 * (", "len", ")"},
    {"rows == rows < rows + rows * (", "len", ")"},
    {"min(rows == rows < rows + rows * ", "len", ", 1)"},
    {"max(1, rows == rows < rows + rows * ", "len", ")"},
    {"max(rows, rows == rows < rows + rows * ", "rows", ")"},
};

START_TEST(test_depth)
{
    mx_error err = {0};
    int64_t value;
    set_values();
    for (int n = MXRT_EXPR_MAX_DEPTH - 1; n <= MXRT_EXPR_MAX_DEPTH + 1; n++) {
        char *text = repeat(nestings[_i].head, nestings[_i].body, nestings[_i].tail, n);
        mx_status status = run(text, &value, &err);
        ck_assert_msg((status == MX_OK) == (n <= MXRT_EXPR_MAX_DEPTH), "%s: %s", text, err.message);
        if (status)
            ck_assert_ptr_nonnull(strstr(err.message, "nested more than 64 deep"));
        free(text);
    }
}
END_TEST

START_TEST(test_length)
{
    mx_error err = {0};
    int64_t value;
    char *text = repeat("1+", "1", "", (MXRT_EXPR_MAX_TEXT - 1) / 2);
    ck_assert_int_eq(run(text, &value, &err), MX_OK);
    ck_assert_int_eq(value, (MXRT_EXPR_MAX_TEXT - 1) / 2 + 1);
    free(text);
    text = repeat(" ", "len", "", MXRT_EXPR_MAX_TEXT - 3);
    ck_assert_int_eq(run(text, &value, &err), MX_OK);
    free(text);
    text = repeat(" ", "len", "", MXRT_EXPR_MAX_TEXT - 2);
    ck_assert_int_eq(run(text, &value, &err), MX_ERR_INVALID);
    ck_assert_ptr_nonnull(strstr(err.message, "longer than 4096 characters"));
    free(text);
    text = repeat("len&&", "len", "", 800);
    set_values();
    ck_assert_int_eq(run(text, &value, &err), MX_OK);
    ck_assert_int_eq(value, 1);
    free(text);
}
END_TEST

START_TEST(test_arguments)
{
    mx_error err = {0};
    mxrt_expr *expr = NULL;
    char text[] = "len + 1";
    ck_assert_int_eq(compile(NULL, &expr, &err), MX_ERR_INVALID);
    ck_assert_int_eq(mxrt_expr_compile("1", NULL, 3, &expr, &err), MX_ERR_INVALID);
    ck_assert_int_eq(mxrt_expr_compile("1", NULL, 0, NULL, &err), MX_ERR_INVALID);
    ck_assert_int_eq(compile("1 +", &expr, &err), MX_ERR_INVALID);
    ck_assert_ptr_null(expr);
    mxrt_expr_free(NULL);
    ck_assert_int_eq(compile(text, &expr, &err), MX_OK);
    memset(text, '#', sizeof(text) - 1);
    ck_assert_str_eq(mxrt_expr_text(expr), "len + 1");
    mxrt_expr_free(expr);
    /* Names are data: other lists than the pack's work as well. */
    const char *names[] = {"a", "min"};
    int64_t two[] = {40, 2}, value;
    ck_assert_int_eq(mxrt_expr_compile("a + min(min, a)", names, 2, &expr, &err), MX_OK);
    ck_assert_int_eq(mxrt_expr_eval(expr, two, &value, &err), MX_OK);
    ck_assert_int_eq(value, 42);
    mxrt_expr_free(expr);
}
END_TEST

START_TEST(test_var_names)
{
    ck_assert_str_eq(mxrt_pack_var_names[MXRT_VAR_N_DIMS], "n_dims");
    ck_assert_str_eq(mxrt_pack_var_names[MXRT_VAR_P_BYTE_STRIDE], "p_byte_stride");
    static const char *const fields[] = {"size", "row_stride", "x_stride", "y_stride"};
    for (int k = 0; k < MXPACK_MAX_ROW_DIMS; k++) {
        for (int field = 0; field < MXRT_DIM_FIELDS; field++) {
            char name[32];
            snprintf(name, sizeof(name), "dim%d_%s", k, fields[field]);
            ck_assert_str_eq(mxrt_pack_var_names[MXRT_VAR_DIM(k, field)], name);
        }
    }
}
END_TEST

/* ---- Random trees ---- */

typedef enum node_kind {
    NODE_CONST,
    NODE_VAR,
    NODE_UNARY,
    NODE_BINARY,
    NODE_CALL,
    NODE_IF
} node_kind;

typedef struct node {
    node_kind kind;
    int op; /* index into the names below */
    int64_t value;
    int child[3];
} node;

static const char *const unary_names[] = {"-", "!"};
static const char *const binary_names[] = {"||", "&&", "==", "!=", "<", "<=", ">",
                                           ">=", "+",  "-",  "*",  "/", "%"};
static const int binary_levels[] = {0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 5, 5, 5};
static const char *const call_names[] = {"min", "max", "ceil_div"};

typedef struct tree {
    node nodes[256];
    int n_nodes;
    uint64_t random;
    char text[MXRT_EXPR_MAX_TEXT * 4];
} tree;

static uint64_t next_random(tree *t)
{
    t->random ^= t->random << 13;
    t->random ^= t->random >> 7;
    t->random ^= t->random << 17;
    return t->random >> 11;
}

static int64_t random_literal(tree *t)
{
    static const int64_t edges[] = {0, 1, 2, 16, 4294967295, 4294967296, INT64_MAX};
    return next_random(t) % 3 ? (int64_t)(next_random(t) % 20) : edges[next_random(t) % 7];
}

static int grow(tree *t, int depth)
{
    int index = t->n_nodes++;
    node made = {.kind = NODE_CONST};
    int choice = (int)(next_random(t) % (depth > 0 ? 12 : 4));
    if (choice < 2) {
        made.value = random_literal(t);
    } else if (choice < 4) {
        made = (node){.kind = NODE_VAR, .value = (int64_t)(next_random(t) % MXRT_VAR_COUNT)};
    } else if (choice < 5) {
        made = (node){.kind = NODE_UNARY, .op = (int)(next_random(t) % 2)};
    } else if (choice < 10) {
        made = (node){.kind = NODE_BINARY, .op = (int)(next_random(t) % 13)};
    } else if (choice < 11) {
        made = (node){.kind = NODE_CALL, .op = (int)(next_random(t) % 3)};
    } else {
        made = (node){.kind = NODE_IF};
    }
    int n_children = made.kind < NODE_UNARY ? 0 : made.kind == NODE_UNARY ? 1 : 2;
    n_children += made.kind == NODE_IF;
    for (int i = 0; i < n_children; i++)
        made.child[i] = grow(t, depth - 1);
    t->nodes[index] = made;
    return index;
}

/* Precedence of what a node prints as; 7 needs no parentheses anywhere. */
static int level_of(const node *n)
{
    if (n->kind == NODE_IF)
        return -1;
    if (n->kind == NODE_BINARY)
        return binary_levels[n->op];
    return n->kind == NODE_UNARY ? 6 : 7;
}

static void print(tree *t, int index, int level);

static void append(tree *t, const char *text)
{
    strcat(t->text, text);
    if (next_random(t) % 3 == 0)
        strcat(t->text, " ");
}

static void print_bare(tree *t, const node *n)
{
    char literal[32];
    switch (n->kind) {
    case NODE_CONST:
        snprintf(literal, sizeof(literal), "%lld", (long long)n->value);
        append(t, literal);
        break;
    case NODE_VAR:
        append(t, mxrt_pack_var_names[n->value]);
        break;
    case NODE_UNARY:
        append(t, unary_names[n->op]);
        print(t, n->child[0], 6);
        break;
    case NODE_BINARY:
        print(t, n->child[0], binary_levels[n->op]);
        append(t, binary_names[n->op]);
        print(t, n->child[1], binary_levels[n->op] + 1);
        break;
    case NODE_CALL:
        append(t, call_names[n->op]);
        append(t, "(");
        print(t, n->child[0], -1);
        append(t, ",");
        print(t, n->child[1], -1);
        append(t, ")");
        break;
    case NODE_IF:
        print(t, n->child[0], 0);
        append(t, "?");
        print(t, n->child[1], -1);
        append(t, ":");
        print(t, n->child[2], -1);
        break;
    }
}

static void print(tree *t, int index, int level)
{
    const node *n = &t->nodes[index];
    int paren = level_of(n) < level || next_random(t) % 8 == 0;
    if (paren)
        append(t, "(");
    print_bare(t, n);
    if (paren)
        append(t, ")");
}

__extension__ typedef __int128 wide;

/* 0 and *out; or 1: division by zero; or 2: overflow. */
static int tree_eval(const tree *t, int index, int64_t *out);

static int combine(int is_call, int op, wide a, wide b, int64_t *out)
{
    wide r = 0;
    const char *name = is_call ? call_names[op] : binary_names[op];
    if ((strchr("/%", name[0]) || !strcmp(name, "ceil_div")) && b == 0)
        return 1;
    if (!strcmp(name, "min"))
        r = a < b ? a : b;
    else if (!strcmp(name, "max"))
        r = a < b ? b : a;
    else if (!strcmp(name, "ceil_div"))
        r = a / b + (a % b != 0 && (a > 0) == (b > 0));
    else if (!strcmp(name, "=="))
        r = a == b;
    else if (!strcmp(name, "!="))
        r = a != b;
    else if (!strcmp(name, "<"))
        r = a < b;
    else if (!strcmp(name, "<="))
        r = a <= b;
    else if (!strcmp(name, ">"))
        r = a > b;
    else if (!strcmp(name, ">="))
        r = a >= b;
    else
        r = name[0] == '+'   ? a + b
            : name[0] == '-' ? a - b
            : name[0] == '*' ? a * b
            : name[0] == '/' ? a / b
                             : a % b;
    *out = (int64_t)r;
    return r > INT64_MAX || r < INT64_MIN ? 2 : 0;
}

static int tree_eval(const tree *t, int index, int64_t *out)
{
    const node *n = &t->nodes[index];
    int64_t a = 0, b = 0;
    int fault;
    if (n->kind == NODE_CONST || n->kind == NODE_VAR) {
        *out = n->kind == NODE_CONST ? n->value : values[n->value];
        return 0;
    }
    if ((fault = tree_eval(t, n->child[0], &a)))
        return fault;
    if (n->kind == NODE_IF)
        return tree_eval(t, n->child[a ? 1 : 2], out);
    if (n->kind == NODE_UNARY) {
        *out = n->op ? !a : (int64_t)(0 - (uint64_t)a);
        return !n->op && a == INT64_MIN ? 2 : 0;
    }
    if (n->kind == NODE_BINARY && n->op < 2 && (a != 0) == (n->op == 0)) {
        *out = n->op == 0;
        return 0;
    }
    if ((fault = tree_eval(t, n->child[1], &b)))
        return fault;
    if (n->kind == NODE_BINARY && n->op < 2) {
        *out = b != 0;
        return 0;
    }
    return combine(n->kind == NODE_CALL, n->op, a, b, out);
}

START_TEST(test_random_trees)
{
    static tree t;
    int n_good = 0, n_zero = 0, n_overflow = 0;
    t.random = 88172645463325252u + (uint64_t)_i;
    for (int round = 0; round < 20000; round++) {
        int64_t expected = 0, value = -1;
        mx_error err = {0};
        t.n_nodes = 0;
        t.text[0] = '\0';
        print(&t, grow(&t, 5), -1);
        for (int i = 0; i < MXRT_VAR_COUNT; i++)
            values[i] = random_literal(&t) * (next_random(&t) % 2 ? 1 : -1);
        int fault = tree_eval(&t, 0, &expected);
        mx_status status = run(t.text, &value, &err);
        if (fault) {
            ck_assert_msg(status == MX_ERR_INVALID, "%s = %lld", t.text, (long long)value);
            ck_assert_msg(strstr(err.message, fault == 1 ? "division by zero" : "overflow") != NULL,
                          "%s", err.message);
        } else {
            ck_assert_msg(status == MX_OK, "%s", err.message);
            ck_assert_msg(value == expected, "%s = %lld, expected %lld", t.text, (long long)value,
                          (long long)expected);
        }
        n_good += !fault;
        n_zero += fault == 1;
        n_overflow += fault == 2;
    }
    ck_assert_int_gt(n_good, 10000);
    ck_assert_int_gt(n_zero, 200);
    ck_assert_int_gt(n_overflow, 100);
}
END_TEST

/* Any bytes at all: a status, never a crash. */
START_TEST(test_random_text)
{
    static const char alphabet[] = "0123456789lenrows_minax(),()+-*/%=<>!&|?: .#\n\200";
    static tree t;
    t.random = 1234567u + (uint64_t)_i;
    set_values();
    for (int round = 0; round < 50000; round++) {
        char text[48];
        size_t length = next_random(&t) % (sizeof(text) - 1);
        for (size_t i = 0; i < length; i++)
            text[i] = alphabet[next_random(&t) % (sizeof(alphabet) - 1)];
        text[length] = '\0';
        int64_t value;
        mx_status status = run(text, &value, NULL);
        ck_assert(status == MX_OK || status == MX_ERR_INVALID);
    }
}
END_TEST

static void *eval_many(void *argument)
{
    const mxrt_expr *expr = argument;
    int64_t mine[MXRT_VAR_COUNT] = {0}, value;
    for (int64_t i = 0; i < 20000; i++) {
        mine[MXRT_VAR_LEN] = i;
        if (mxrt_expr_eval(expr, mine, &value, NULL) || value != (i + 15) / 16 + (i % 16 == 0))
            return argument;
    }
    return NULL;
}

START_TEST(test_threads)
{
    mxrt_expr *expr = NULL;
    pthread_t threads[4];
    ck_assert_int_eq(compile("ceil_div(len, 16) + (len % 16 == 0)", &expr, NULL), MX_OK);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, eval_many, expr), 0);
    for (int i = 0; i < 4; i++) {
        void *failed = expr;
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    mxrt_expr_free(expr);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("expr");
    TCase *tests = tcase_create("expr");
    tcase_add_loop_test(tests, test_good, 0, sizeof(good) / sizeof(good[0]));
    tcase_add_loop_test(tests, test_bad, 0, sizeof(bad) / sizeof(bad[0]));
    tcase_add_loop_test(tests, test_depth, 0, sizeof(nestings) / sizeof(nestings[0]));
    tcase_add_test(tests, test_length);
    tcase_add_test(tests, test_arguments);
    tcase_add_test(tests, test_var_names);
    tcase_add_loop_test(tests, test_random_trees, 0, 3);
    tcase_add_loop_test(tests, test_random_text, 0, 2);
    tcase_add_test(tests, test_threads);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? 1 : 0;
}
