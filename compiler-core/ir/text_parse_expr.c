/* Expressions of program text, by precedence. */
#include <math.h>

#include "compiler-core/ir/parse.h"

#define EXPR_DEPTH_MAX 128

static kiln_expr parse_expr(kiln_parser *ps);

static kiln_expr apply(kiln_parser *ps, kiln_expr_op op, kiln_dtype dtype, const kiln_expr *operand,
                       uint32_t count) {
    if (++ps->nodes > KILN_EXPR_TEXT_NODES_MAX)
        KILN_PARSE_FAIL(ps, "the expression has more than %d parts", KILN_EXPR_TEXT_NODES_MAX);
    if (ps->status) return 0;
    const char *wrong = kiln_expr_type_error(ps->p, op, operand, count);
    if (wrong) {
        KILN_PARSE_FAIL(ps, "%s: %s", kiln_expr_op_table[op].text, wrong);
        return 0;
    }
    const kiln_expr_node like = {
        .op = (uint8_t)op, .dtype = (uint8_t)dtype, .operand_count = (uint16_t)count};
    return kiln_expr_make(ps->p, &like, operand, count);
}

static kiln_expr integer_literal(kiln_parser *ps, kiln_dtype dtype, kiln_str digits,
                                 bool negative) {
    uint64_t magnitude = 0;
    bool fits =
        kiln_str_to_u64(digits, &magnitude) && !(negative && magnitude > (uint64_t)INT64_MAX + 1);
    if (magnitude > INT64_MAX && !negative && dtype != KILN_U64) fits = false;
    if (!fits || (negative && kiln_dtype_kind_of(dtype) == KILN_KIND_UINT && magnitude)) {
        KILN_PARSE_FAIL(ps, "the number does not fit its dtype");
        return 0;
    }
    kiln_expr made = kiln_expr_int(ps->p, dtype, (int64_t)(negative ? 0 - magnitude : magnitude));
    int64_t value = 0;
    kiln_expr_as_int(ps->p, made, &value);
    if (value != (int64_t)(negative ? 0 - magnitude : magnitude))
        KILN_PARSE_FAIL(ps, "the number does not fit its dtype");
    return made;
}

/* Digits, then a dtype: "3" is i64, "3.0" f32, "3u8" and "3.0f64" say what they are. */
static kiln_expr parse_number(kiln_parser *ps, bool negative) {
    kiln_str text = ps->lx.token;
    size_t end = 0;
    bool is_float = false;
    for (; end < text.size; end++) {
        char c = text.data[end];
        bool exponent = c == 'e';
        if (exponent && end + 1 < text.size &&
            (text.data[end + 1] == '-' || text.data[end + 1] == '+'))
            end++;
        if (!exponent && c != '.' && (c < '0' || c > '9')) break;
        is_float |= exponent || c == '.';
    }
    kiln_dtype dtype = is_float ? KILN_F32 : KILN_INDEX_DTYPE;
    kiln_str suffix = kiln_str_slice(text, end, text.size);
    double value = 0;
    if (suffix.size && !kiln_dtype_find(suffix, &dtype))
        KILN_PARSE_FAIL(ps, "'%.*s' is no dtype", KILN_STR_ARG(suffix));
    if (!ps->status && dtype == KILN_BOOL) KILN_PARSE_FAIL(ps, "bool literals are true and false");
    text = kiln_str_slice(text, 0, end);
    if (!ps->status && kiln_dtype_is_float(dtype) && !kiln_str_to_f64(text, &value))
        KILN_PARSE_FAIL(ps, "the number is out of range");
    if (ps->status) return 0;
    kiln_expr made = kiln_dtype_is_float(dtype)
                         ? kiln_expr_float(ps->p, dtype, negative ? -value : value)
                         : integer_literal(ps, dtype, text, negative);
    kiln_lexer_next(&ps->lx);
    return made;
}

static kiln_expr parse_var(kiln_parser *ps, kiln_str name) {
    const kiln_block_info *b = &ps->p->block.data[ps->block];
    for (uint32_t i = 0; ps->block && i < b->iter_count; i++)
        if (kiln_str_equal(kiln_iter_name(ps->p, &b->iter[i]), name))
            return kiln_expr_var(ps->p, b->iter[i].var);
    for (uint32_t i = 0; !ps->block && i < ps->loop_count; i++)
        if (kiln_str_equal(ps->p->var.data[ps->loop[i]].name, name))
            return kiln_expr_var(ps->p, ps->loop[i]);
    KILN_PARSE_FAIL(ps, "no iterator or loop named '%.*s' is in scope", KILN_STR_ARG(name));
    return 0;
}

/* "a, b)" after the opening bracket; returns the count. */
static uint32_t parse_list(kiln_parser *ps, const char *closing, kiln_expr *out, uint32_t max) {
    uint32_t count = 0;
    if (kiln_parse_accept(ps, closing)) return 0;
    do {
        if (count == max) KILN_PARSE_FAIL(ps, "more than %u items", max);
        kiln_expr item = parse_expr(ps);
        if (ps->status) return 0;
        out[count++] = item;
    } while (kiln_parse_accept(ps, ","));
    kiln_parse_expect(ps, closing);
    return count;
}

kiln_buffer kiln_parse_find_buffer(kiln_parser *ps, kiln_str name) {
    kiln_buffer buffer = ps->status ? 0 : kiln_program_find_buffer(ps->p, name);
    if (!buffer) KILN_PARSE_FAIL(ps, "no buffer named '%.*s'", KILN_STR_ARG(name));
    return buffer;
}

/* "[i, j]" after the buffer's name. */
uint32_t kiln_parse_index(kiln_parser *ps, kiln_buffer buffer, kiln_expr *index) {
    kiln_parse_expect(ps, "[");
    uint32_t count = parse_list(ps, "]", index, KILN_RANK_MAX);
    if (ps->status) return 0;
    if (count != ps->p->buffer.data[buffer].shape.rank)
        KILN_PARSE_FAIL(ps, "the buffer has %u dimensions", ps->p->buffer.data[buffer].shape.rank);
    for (uint32_t i = 0; i < count; i++)
        if (kiln_expr_get(ps->p, index[i])->dtype != KILN_INDEX_DTYPE)
            KILN_PARSE_FAIL(ps, "index %u is not i64", i);
    return count;
}

static kiln_expr parse_load(kiln_parser *ps, kiln_str name) {
    kiln_expr index[KILN_RANK_MAX];
    kiln_buffer buffer = kiln_parse_find_buffer(ps, name);
    uint32_t count = kiln_parse_index(ps, buffer, index);
    return ps->status ? 0 : kiln_expr_load(ps->p, buffer, index, count);
}

static kiln_expr parse_call(kiln_parser *ps, kiln_str name) {
    kiln_expr operand[3];
    kiln_dtype dtype = KILN_DTYPE_NONE;
    kiln_expr_op op = KILN_EXPR_OP_COUNT;
    for (uint32_t i = 0; i < KILN_EXPR_OP_COUNT; i++)
        if (kiln_expr_op_table[i].class == KILN_CLASS_CALLED &&
            kiln_str_is(name, kiln_expr_op_table[i].text))
            op = (kiln_expr_op)i;
    if (op == KILN_EXPR_OP_COUNT && kiln_dtype_find(name, &dtype)) op = KILN_EXPR_CAST;
    if (op == KILN_EXPR_OP_COUNT)
        KILN_PARSE_FAIL(ps, "no operator named '%.*s'", KILN_STR_ARG(name));
    kiln_parse_expect(ps, "(");
    uint32_t count = parse_list(ps, ")", operand, 3);
    return ps->status ? 0 : apply(ps, op, dtype, operand, count);
}

static kiln_expr parse_word(kiln_parser *ps) {
    bool bare = ps->lx.kind == KILN_TOKEN_NAME;
    kiln_str name = kiln_parse_name(ps);
    if (ps->status) return 0;
    if (bare && kiln_str_is(name, "true")) return kiln_expr_int(ps->p, KILN_BOOL, 1);
    if (bare && kiln_str_is(name, "false")) return kiln_expr_int(ps->p, KILN_BOOL, 0);
    if (bare && kiln_str_is(name, "inf")) return kiln_expr_float(ps->p, KILN_F32, INFINITY);
    if (bare && kiln_str_is(name, "nan")) return kiln_expr_float(ps->p, KILN_F32, NAN);
    if (kiln_lexer_is(&ps->lx, "[")) return parse_load(ps, name);
    if (bare && kiln_lexer_is(&ps->lx, "(")) return parse_call(ps, name);
    return parse_var(ps, name);
}

/* The number after "$", at most `max`. */
static uint32_t parse_part_number(kiln_parser *ps, uint32_t max) {
    uint64_t number = 0;
    if (!ps->status && (ps->lx.kind != KILN_TOKEN_NUMBER ||
                        !kiln_str_to_u64(ps->lx.token, &number) || number < 1 || number > max))
        KILN_PARSE_FAIL(ps, "parts are numbered $1, $2, ... before they are used");
    kiln_lexer_next(&ps->lx);
    return (uint32_t)number;
}

static kiln_expr parse_part(kiln_parser *ps) {
    uint32_t number = parse_part_number(ps, ps->part.count);
    return ps->status ? 0 : ps->part.data[number - 1];
}

static kiln_expr parse_primary(kiln_parser *ps) {
    if (ps->status) return 0;
    if (++ps->nodes > KILN_EXPR_TEXT_NODES_MAX)
        KILN_PARSE_FAIL(ps, "the expression has more than %d parts", KILN_EXPR_TEXT_NODES_MAX);
    if (kiln_parse_accept(ps, "(")) {
        kiln_expr inner = parse_expr(ps);
        kiln_parse_expect(ps, ")");
        return inner;
    }
    if (kiln_parse_accept(ps, "$")) return parse_part(ps);
    bool negative = kiln_parse_accept(ps, "-");
    if (ps->lx.kind == KILN_TOKEN_NUMBER) return parse_number(ps, negative);
    if (negative && kiln_parse_accept(ps, "inf"))
        return kiln_expr_float(ps->p, KILN_F32, -INFINITY);
    if (negative) KILN_PARSE_FAIL(ps, "a number is expected after '-'; negation is neg(x)");
    return parse_word(ps);
}

static const struct infix {
    const char *text;
    kiln_expr_op op;
    uint32_t precedence;
} infix_table[] = {
    {"<", KILN_EXPR_LT, 1},  {"<=", KILN_EXPR_LE, 1}, {"==", KILN_EXPR_EQ, 1},
    {"!=", KILN_EXPR_NE, 1}, {"+", KILN_EXPR_ADD, 2}, {"-", KILN_EXPR_SUB, 2},
    {"*", KILN_EXPR_MUL, 3}, {"/", KILN_EXPR_DIV, 3},
};

static const struct infix *accept_infix(kiln_parser *ps, uint32_t precedence) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(infix_table); i++)
        if (infix_table[i].precedence == precedence && kiln_parse_accept(ps, infix_table[i].text))
            return &infix_table[i];
    return NULL;
}

/* Operators of one precedence, left to right; comparisons do not chain. */
static kiln_expr parse_infix(kiln_parser *ps, uint32_t precedence) {
    if (precedence > 3) return parse_primary(ps);
    kiln_expr left = parse_infix(ps, precedence + 1);
    const struct infix *found;
    while ((found = accept_infix(ps, precedence)) != NULL) {
        const kiln_expr operand[] = {left, parse_infix(ps, precedence + 1)};
        left = apply(ps, found->op, KILN_DTYPE_NONE, operand, 2);
        if (precedence == 1) break;
    }
    return left;
}

static kiln_expr parse_expr(kiln_parser *ps) {
    if (++ps->depth > EXPR_DEPTH_MAX)
        KILN_PARSE_FAIL(ps, "expressions are nested more than %d deep", EXPR_DEPTH_MAX);
    kiln_expr e = ps->status ? 0 : parse_infix(ps, 1);
    ps->depth--;
    return ps->status ? 0 : e;
}

/* "$1 = a, $2 = b]" after the opening bracket: parts that the expression uses several times. */
static void parse_parts(kiln_parser *ps) {
    do {
        kiln_parse_expect(ps, "$");
        uint32_t number = parse_part_number(ps, ps->part.count + 1);
        if (!ps->status && number != ps->part.count + 1)
            KILN_PARSE_FAIL(ps, "part $%u comes next", ps->part.count + 1);
        kiln_parse_expect(ps, "=");
        kiln_expr e = parse_expr(ps);
        if (ps->status) return;
        kiln_vec_push_in(ps->p->arena, &ps->part, e);
    } while (kiln_parse_accept(ps, ","));
    kiln_parse_expect(ps, "]");
}

kiln_expr kiln_parse_expr(kiln_parser *ps, kiln_dtype dtype) {
    ps->nodes = 0;
    ps->part.count = 0;
    if (kiln_parse_accept(ps, "[")) parse_parts(ps);
    kiln_expr e = parse_expr(ps);
    if (!ps->status && kiln_expr_get(ps->p, e)->dtype != dtype)
        KILN_PARSE_FAIL(ps, "the expression should be %s", kiln_dtype_name(dtype));
    return e;
}
