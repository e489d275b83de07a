#include "expr.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include <mxgen/error.h>

/* A stack machine whose top lives in a register. A binary operator whose right side is a constant
 * or a variable carries it, so that "len % 16 == 0" is three instructions. */
typedef enum expr_op {
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_MOD,
    OP_CEIL_DIV,
    OP_MIN,
    OP_MAX,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE, /* the last of the binary ones */
    OP_PUSH,
    OP_NEG,
    OP_NOT,
    OP_BOOL,
    OP_AND,    /* top is 0: jump, keep it; else pop */
    OP_OR,     /* top is not 0: make it 1, jump; else pop */
    OP_BRANCH, /* pop; it was 0: jump */
    OP_JUMP
} expr_op;

typedef enum operand_kind { OPERAND_STACK = 0, OPERAND_CONST, OPERAND_VAR } operand_kind;

typedef struct expr_insn {
    uint8_t op;
    uint8_t operand;
    uint16_t column; /* of the operator in the text, from 1 */
    int64_t value;   /* constant, variable's index, or distance of a jump */
} expr_insn;

struct mxrt_expr {
    const char *text;
    size_t n_code;
    expr_insn code[];
};

/* A level of nesting leaves at most five values behind: the left sides of one operator of each of
 * the four strict precedences, and a function's first argument. */
#define STACK_VALUES (6 * (MXRT_EXPR_MAX_DEPTH + 1))

/* ---- Arithmetic ---- */

typedef enum fault { FAULT_NONE = 0, FAULT_OVERFLOW, FAULT_ZERO } fault;

static const char *fault_text(fault f)
{
    return f == FAULT_ZERO ? "division by zero" : "64-bit overflow";
}

/* The short form is several times faster on older CPUs, and nearly always enough. */
static inline int both_short(int64_t a, int64_t b)
{
    return (((uint64_t)a | (uint64_t)b) >> 32) == 0;
}

static inline __attribute__((always_inline)) fault divide(int64_t a, int64_t b, int64_t *out)
{
    if (b == 0)
        return FAULT_ZERO;
    if (both_short(a, b)) {
        *out = (uint32_t)a / (uint32_t)b;
        return FAULT_NONE;
    }
    if (a == INT64_MIN && b == -1)
        return FAULT_OVERFLOW;
    *out = a / b;
    return FAULT_NONE;
}

static inline __attribute__((always_inline)) fault modulo(int64_t a, int64_t b, int64_t *out)
{
    if (b == 0)
        return FAULT_ZERO;
    if (both_short(a, b))
        *out = (uint32_t)a % (uint32_t)b;
    else
        *out = b == -1 ? 0 : a % b;
    return FAULT_NONE;
}

static inline __attribute__((always_inline)) fault ceil_divide(int64_t a, int64_t b, int64_t *out)
{
    fault f = divide(a, b, out);
    if (f == FAULT_NONE) {
        int64_t rest = a - *out * b;
        *out += rest != 0 && (rest < 0) == (b < 0);
    }
    return f;
}

static inline __attribute__((always_inline)) fault apply_binary(expr_op op, int64_t a, int64_t b,
                                                                int64_t *out)
{
    switch (op) {
    case OP_ADD:
        return __builtin_add_overflow(a, b, out) ? FAULT_OVERFLOW : FAULT_NONE;
    case OP_SUB:
        return __builtin_sub_overflow(a, b, out) ? FAULT_OVERFLOW : FAULT_NONE;
    case OP_MUL:
        return __builtin_mul_overflow(a, b, out) ? FAULT_OVERFLOW : FAULT_NONE;
    case OP_DIV:
        return divide(a, b, out);
    case OP_MOD:
        return modulo(a, b, out);
    case OP_CEIL_DIV:
        return ceil_divide(a, b, out);
    case OP_MIN:
        *out = a < b ? a : b;
        return FAULT_NONE;
    case OP_MAX:
        *out = a > b ? a : b;
        return FAULT_NONE;
    case OP_EQ:
        *out = a == b;
        return FAULT_NONE;
    case OP_NE:
        *out = a != b;
        return FAULT_NONE;
    case OP_LT:
        *out = a < b;
        return FAULT_NONE;
    case OP_LE:
        *out = a <= b;
        return FAULT_NONE;
    case OP_GT:
        *out = a > b;
        return FAULT_NONE;
    default:
        *out = a >= b;
        return FAULT_NONE;
    }
}

/* ---- Messages ---- */

/* What of a text fits a message, without characters that would disturb a terminal. */
typedef struct quoted_text {
    char chars[420];
} quoted_text;

static quoted_text quote(const char *text)
{
    quoted_text quoted;
    size_t limit = sizeof(quoted.chars) - 4, n = 0;
    for (; n < limit && text[n]; n++)
        quoted.chars[n] = isprint((unsigned char)text[n]) ? text[n] : '?';
    memcpy(quoted.chars + n, text[n] ? "..." : "", text[n] ? 4 : 1);
    return quoted;
}

/* ---- Compilation ---- */

typedef struct parser {
    const char *text;
    size_t pos;
    const char *const *names;
    size_t n_names;
    expr_insn *code; /* room for one instruction a character, which no text exceeds */
    size_t n_code;
    int depth;
    mx_error *err;
} parser;

static mx_status parse_conditional(parser *p);

static mx_status parse_fail(const parser *p, size_t pos, const char *what)
{
    return mx_fail(p->err, MX_ERR_INVALID, "expression \"%s\": %s at column %zu",
                   quote(p->text).chars, what, pos + 1);
}

static mx_status parse_enter(parser *p)
{
    char what[80];
    if (p->depth < MXRT_EXPR_MAX_DEPTH) {
        p->depth++;
        return MX_OK;
    }
    snprintf(what, sizeof(what), "nested more than %d deep", MXRT_EXPR_MAX_DEPTH);
    return parse_fail(p, p->pos, what);
}

static char peek(parser *p)
{
    while (p->text[p->pos] == ' ' || p->text[p->pos] == '\t' || p->text[p->pos] == '\n')
        p->pos++;
    return p->text[p->pos];
}

static mx_status expect(parser *p, char c)
{
    char what[80];
    if (peek(p) == c) {
        p->pos++;
        return MX_OK;
    }
    snprintf(what, sizeof(what), p->text[p->pos] ? "expected '%c'" : "expected '%c', found the end",
             c);
    return parse_fail(p, p->pos, what);
}

static size_t emit(parser *p, expr_op op, operand_kind operand, int64_t value, size_t pos)
{
    p->code[p->n_code] = (expr_insn){
        .op = (uint8_t)op,
        .operand = (uint8_t)operand,
        .column = (uint16_t)(pos + 1),
        .value = value,
    };
    return p->n_code++;
}

/* Whether the code in [begin, end) is just one pushed value of this kind. */
static int is_push(const parser *p, size_t begin, size_t end, operand_kind operand)
{
    return end == begin + 1 && p->code[begin].op == OP_PUSH && p->code[begin].operand == operand;
}

static void patch_jump(parser *p, size_t jump)
{
    p->code[jump].value = (int64_t)(p->n_code - jump);
}

static void emit_unary(parser *p, expr_op op, size_t begin, size_t pos)
{
    expr_insn *operand = &p->code[begin];
    /* A negation that overflows is left to fail when, and if, it is reached. */
    if (!is_push(p, begin, p->n_code, OPERAND_CONST) ||
        (op == OP_NEG && operand->value == INT64_MIN))
        emit(p, op, OPERAND_STACK, 0, pos);
    else if (op == OP_NEG)
        operand->value = -operand->value;
    else
        operand->value = op == OP_NOT ? !operand->value : !!operand->value;
}

/* `lhs` and `rhs` are where the code of the two sides begins. */
static void emit_binary(parser *p, expr_op op, size_t lhs, size_t rhs, size_t pos)
{
    int64_t folded;
    if (is_push(p, lhs, rhs, OPERAND_CONST) && is_push(p, rhs, p->n_code, OPERAND_CONST) &&
        apply_binary(op, p->code[lhs].value, p->code[rhs].value, &folded) == FAULT_NONE) {
        p->n_code = rhs;
        p->code[lhs].value = folded;
    } else if (is_push(p, rhs, p->n_code, OPERAND_CONST) ||
               is_push(p, rhs, p->n_code, OPERAND_VAR)) {
        expr_insn operand = p->code[rhs];
        p->n_code = rhs;
        emit(p, op, (operand_kind)operand.operand, operand.value, pos);
    } else {
        emit(p, op, OPERAND_STACK, 0, pos);
    }
}

static mx_status parse_literal(parser *p)
{
    const char *text = p->text;
    size_t begin = p->pos;
    int64_t value = 0;
    for (; isdigit((unsigned char)text[p->pos]); p->pos++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, text[p->pos] - '0', &value))
            return parse_fail(p, begin, "a literal beyond 9223372036854775807");
    }
    if (text[begin] == '0' && p->pos > begin + 1)
        return parse_fail(p, begin, "a literal with a leading zero");
    if (isalpha((unsigned char)text[p->pos]) || text[p->pos] == '_' || text[p->pos] == '.')
        return parse_fail(p, begin, "not a decimal integer");
    emit(p, OP_PUSH, OPERAND_CONST, value, begin);
    return MX_OK;
}

static int name_equals(const char *name, const char *text, size_t length)
{
    return strncmp(name, text, length) == 0 && name[length] == '\0';
}

static mx_status parse_call(parser *p, size_t name_pos, size_t length)
{
    static const struct {
        const char *name;
        expr_op op;
    } functions[] = {{"min", OP_MIN}, {"max", OP_MAX}, {"ceil_div", OP_CEIL_DIV}};
    size_t f = 0, lhs = p->n_code, rhs;
    while (f < 3 && !name_equals(functions[f].name, p->text + name_pos, length))
        f++;
    if (f == 3)
        return parse_fail(p, name_pos, "an unknown function");
    p->pos++;
    mx_status status = parse_enter(p);
    if (status || (status = parse_conditional(p)) || (status = expect(p, ',')))
        return status;
    rhs = p->n_code;
    if ((status = parse_conditional(p)) || (status = expect(p, ')')))
        return status;
    p->depth--;
    emit_binary(p, functions[f].op, lhs, rhs, name_pos);
    return MX_OK;
}

static mx_status parse_name(parser *p)
{
    const char *text = p->text;
    size_t begin = p->pos;
    while (isalnum((unsigned char)text[p->pos]) || text[p->pos] == '_')
        p->pos++;
    size_t length = p->pos - begin;
    if (peek(p) == '(')
        return parse_call(p, begin, length);
    for (size_t i = 0; i < p->n_names; i++) {
        if (name_equals(p->names[i], text + begin, length)) {
            emit(p, OP_PUSH, OPERAND_VAR, (int64_t)i, begin);
            return MX_OK;
        }
    }
    return parse_fail(p, begin, "an unknown variable");
}

static mx_status parse_primary(parser *p)
{
    char c = peek(p);
    if (isdigit((unsigned char)c))
        return parse_literal(p);
    if (isalpha((unsigned char)c) || c == '_')
        return parse_name(p);
    if (c == '(') {
        p->pos++;
        mx_status status = parse_enter(p);
        if (status || (status = parse_conditional(p)) || (status = expect(p, ')')))
            return status;
        p->depth--;
        return MX_OK;
    }
    return parse_fail(p, p->pos, c ? "expected a value" : "expected a value, found the end");
}

static mx_status parse_unary(parser *p)
{
    char c = peek(p);
    if (c != '-' && c != '!')
        return parse_primary(p);
    size_t pos = p->pos++, begin = p->n_code;
    mx_status status = parse_enter(p);
    if (status || (status = parse_unary(p)))
        return status;
    p->depth--;
    emit_unary(p, c == '-' ? OP_NEG : OP_NOT, begin, pos);
    return MX_OK;
}

/* Longer operators before their own beginnings. */
static const struct {
    const char *token;
    uint8_t level;
    uint8_t op;
} binary_operators[] = {
    {"||", 0, OP_OR}, {"&&", 1, OP_AND}, {"==", 2, OP_EQ}, {"!=", 2, OP_NE}, {"<=", 3, OP_LE},
    {">=", 3, OP_GE}, {"<", 3, OP_LT},   {">", 3, OP_GT},  {"+", 4, OP_ADD}, {"-", 4, OP_SUB},
    {"*", 5, OP_MUL}, {"/", 5, OP_DIV},  {"%", 5, OP_MOD},
};

#define BINARY_LEVELS 6

/* Takes an operator of this precedence, if one is next. */
static int take_operator(parser *p, int level, expr_op *op, size_t *pos)
{
    peek(p);
    for (size_t i = 0; i < sizeof(binary_operators) / sizeof(binary_operators[0]); i++) {
        size_t length = strlen(binary_operators[i].token);
        if (strncmp(p->text + p->pos, binary_operators[i].token, length) == 0) {
            if (binary_operators[i].level != level)
                return 0;
            *op = (expr_op)binary_operators[i].op;
            *pos = p->pos;
            p->pos += length;
            return 1;
        }
    }
    return 0;
}

static mx_status parse_binary(parser *p, int level);

/* The right side of && or ||; the left one is the code from `lhs` on. */
static mx_status parse_logical(parser *p, expr_op op, size_t lhs, size_t pos)
{
    int decided = 0, is_const = is_push(p, lhs, p->n_code, OPERAND_CONST);
    size_t jump = 0, rhs;
    if (is_const) {
        decided = (p->code[lhs].value != 0) == (op == OP_OR);
        p->n_code = lhs;
    } else {
        jump = emit(p, op, OPERAND_STACK, 0, pos);
    }
    rhs = p->n_code;
    mx_status status = parse_binary(p, op == OP_OR ? 1 : 2);
    if (status)
        return status;
    if (decided) {
        p->n_code = lhs;
        emit(p, OP_PUSH, OPERAND_CONST, op == OP_OR, pos);
        return MX_OK;
    }
    emit_unary(p, OP_BOOL, rhs, pos);
    if (!is_const)
        patch_jump(p, jump);
    return MX_OK;
}

static mx_status parse_binary(parser *p, int level)
{
    if (level == BINARY_LEVELS)
        return parse_unary(p);
    size_t lhs = p->n_code, pos;
    expr_op op;
    mx_status status = parse_binary(p, level + 1);
    while (!status && take_operator(p, level, &op, &pos)) {
        if (op == OP_AND || op == OP_OR) {
            status = parse_logical(p, op, lhs, pos);
        } else {
            size_t rhs = p->n_code;
            status = parse_binary(p, level + 1);
            if (!status)
                emit_binary(p, op, lhs, rhs, pos);
        }
    }
    return status;
}

static mx_status parse_conditional(parser *p)
{
    size_t begin = p->n_code;
    mx_status status = parse_binary(p, 0);
    if (status || peek(p) != '?')
        return status;
    size_t pos = p->pos++, branch = 0, jump = 0;
    int is_const = is_push(p, begin, p->n_code, OPERAND_CONST), chosen = 0;
    if (is_const) {
        chosen = p->code[begin].value != 0;
        p->n_code = begin;
    } else {
        branch = emit(p, OP_BRANCH, OPERAND_STACK, 0, pos);
    }
    if ((status = parse_enter(p)) || (status = parse_conditional(p)) || (status = expect(p, ':')))
        return status;
    if (!is_const) {
        jump = emit(p, OP_JUMP, OPERAND_STACK, 0, pos);
        patch_jump(p, branch);
    }
    size_t otherwise = p->n_code;
    if ((status = parse_conditional(p)))
        return status;
    p->depth--;
    if (!is_const) {
        patch_jump(p, jump);
    } else if (chosen) {
        p->n_code = otherwise;
    } else {
        p->n_code -= otherwise - begin;
        memmove(p->code + begin, p->code + otherwise, (p->n_code - begin) * sizeof(p->code[0]));
    }
    return MX_OK;
}

mx_status mxrt_expr_compile(const char *text, const char *const *names, size_t n_names,
                            mxrt_expr **out, mx_error *err)
{
    if (!text || !out || (n_names && !names))
        return mx_fail(err, MX_ERR_INVALID, "expression: a NULL argument");
    size_t length = strnlen(text, MXRT_EXPR_MAX_TEXT + 1), code_bytes;
    if (length > MXRT_EXPR_MAX_TEXT)
        return mx_fail(err, MX_ERR_INVALID, "expression \"%s\" is longer than %d characters",
                       quote(text).chars, MXRT_EXPR_MAX_TEXT);
    mxrt_expr *expr = malloc(sizeof(*expr) + (length + 1) * sizeof(expr->code[0]));
    if (!expr)
        return mx_fail(err, MX_ERR_NO_MEMORY, "no memory for an expression");
    parser p = {.text = text, .names = names, .n_names = n_names, .code = expr->code, .err = err};
    mx_status status = parse_conditional(&p);
    if (!status && peek(&p))
        status = parse_fail(&p, p.pos, "expected an operator or the end");
    if (!status) {
        code_bytes = p.n_code * sizeof(expr->code[0]);
        mxrt_expr *kept = malloc(sizeof(*expr) + code_bytes + length + 1);
        if (kept) {
            kept->n_code = p.n_code;
            memcpy(kept->code, expr->code, code_bytes);
            kept->text = memcpy((char *)kept->code + code_bytes, text, length + 1);
            *out = kept;
        } else {
            status = mx_fail(err, MX_ERR_NO_MEMORY, "no memory for an expression");
        }
    }
    free(expr);
    return status;
}

size_t mxrt_expr_zero_divisor(const mxrt_expr *expr)
{
    for (size_t i = 0; i < expr->n_code; i++) {
        const expr_insn *insn = &expr->code[i];
        if ((insn->op == OP_DIV || insn->op == OP_MOD || insn->op == OP_CEIL_DIV) &&
            insn->operand == OPERAND_CONST && !insn->value)
            return insn->column;
    }
    return 0;
}

void mxrt_expr_free(mxrt_expr *expr)
{
    free(expr);
}

const char *mxrt_expr_text(const mxrt_expr *expr)
{
    return expr->text;
}

int mxrt_expr_reads(const mxrt_expr *expr, size_t variable)
{
    for (size_t i = 0; i < expr->n_code; i++) {
        if (expr->code[i].operand == OPERAND_VAR && expr->code[i].value == (int64_t)variable)
            return 1;
    }
    return 0;
}

/* ---- Evaluation ---- */

static mx_status eval_fail(const mxrt_expr *expr, const expr_insn *insn, fault f, mx_error *err)
{
    return mx_fail(err, MX_ERR_INVALID, "expression \"%s\": %s at column %u",
                   quote(expr->text).chars, fault_text(f), (unsigned)insn->column);
}

mx_status mxrt_expr_eval(const mxrt_expr *expr, const int64_t *values, int64_t *out, mx_error *err)
{
    int64_t stack[STACK_VALUES], top = 0;
    size_t used = 0;
    const expr_insn *insn = expr->code, *end = insn + expr->n_code;
    for (; insn < end; insn++) {
        int64_t operand = insn->operand == OPERAND_VAR ? values[insn->value] : insn->value;
        fault f = FAULT_NONE;
        if (insn->op <= OP_GE) {
            if (insn->operand == OPERAND_STACK)
                f = apply_binary((expr_op)insn->op, stack[--used], top, &top);
            else
                f = apply_binary((expr_op)insn->op, top, operand, &top);
            if (f)
                return eval_fail(expr, insn, f, err);
            continue;
        }
        switch ((expr_op)insn->op) {
        case OP_PUSH:
            stack[used++] = top;
            top = operand;
            break;
        case OP_NEG:
            if (__builtin_sub_overflow(0, top, &top))
                return eval_fail(expr, insn, FAULT_OVERFLOW, err);
            break;
        case OP_NOT:
            top = !top;
            break;
        case OP_BOOL:
            top = top != 0;
            break;
        case OP_AND:
        case OP_OR:
            if ((top != 0) == (insn->op == OP_OR)) {
                top = top != 0;
                insn += insn->value - 1;
            } else {
                top = stack[--used];
            }
            break;
        case OP_BRANCH:
            if (top == 0)
                insn += insn->value - 1;
            top = stack[--used];
            break;
        default: /* OP_JUMP */
            insn += insn->value - 1;
            break;
        }
    }
    *out = top;
    return MX_OK;
}
