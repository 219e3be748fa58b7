/* Text to programs: docs/reference/loop-text.md. Errors stick: after the first one every function returns
 * at once, and what it returns means nothing. */
#include <math.h>
#include <string.h>

#include "base/check.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/ir/lex.h"
#include "compiler-core/ir/text.h"

#define EXPR_DEPTH_MAX 128

typedef struct parser {
    kiln_lexer lx;
    kiln_program *p;
    kiln_status status;
    kiln_block block;   /* whose iterators names mean; 0: loop variables */
    uint32_t loop_count;
    kiln_var loop[KILN_PROGRAM_DEPTH_MAX]; /* variables in scope */
    uint32_t nodes;     /* of the current expression */
    uint32_t depth;
} parser;

/* ---- errors and words --------------------------------------------------------------------------------------- */

#define FAIL(ps, ...)                                                                                     \
    do {                                                                                                  \
        if (!(ps)->status)                                                                                \
            (ps)->status = kiln_status_note(KILN_ERROR(INVALID_ARGUMENT, __VA_ARGS__), "%u:%u", (ps)->lx.line, \
                                            (ps)->lx.column);                                             \
    } while (0)

static bool accept(parser *ps, const char *word) {
    if (ps->status || !kiln_lexer_is(&ps->lx, word)) return false;
    kiln_lexer_next(&ps->lx);
    return true;
}

static void expect(parser *ps, const char *word) {
    if (!accept(ps, word)) FAIL(ps, "'%s' is expected here", word);
}

static kiln_str expect_name(parser *ps) {
    kiln_str name = ps->lx.token;
    if (ps->lx.kind != KILN_TOKEN_NAME && ps->lx.kind != KILN_TOKEN_QUOTED) FAIL(ps, "a name is expected here");
    if (!ps->status) kiln_lexer_next(&ps->lx);
    return name;
}

/* A whole number with an optional minus, in [low, high]. */
static int64_t expect_int(parser *ps, int64_t low, int64_t high) {
    bool negative = accept(ps, "-");
    uint64_t magnitude = 0;
    if (ps->lx.kind != KILN_TOKEN_NUMBER || !kiln_str_to_u64(ps->lx.token, &magnitude) || magnitude > INT64_MAX) {
        FAIL(ps, "a whole number is expected here");
        return low;
    }
    int64_t value = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    if (value < low || value > high) FAIL(ps, "the number must be from %lld to %lld", (long long)low, (long long)high);
    if (!ps->status) kiln_lexer_next(&ps->lx);
    return value;
}

/* The index of the current word in a table that may have gaps; -1 (and nothing consumed) when absent. */
static int find_word(const parser *ps, const char *const *table, size_t count) {
    for (size_t i = 0; i < count && ps->lx.kind == KILN_TOKEN_NAME; i++)
        if (table[i] && table[i][0] && kiln_str_is(ps->lx.token, table[i])) return (int)i;
    return -1;
}

static uint32_t expect_word(parser *ps, const char *const *table, size_t count, const char *what) {
    int found = find_word(ps, table, count);
    if (found < 0) {
        FAIL(ps, "%s is expected here", what);
        return 0;
    }
    kiln_lexer_next(&ps->lx);
    return (uint32_t)found;
}

static void expect_line_end(parser *ps) {
    if (ps->lx.kind != KILN_TOKEN_END) FAIL(ps, "the line should end here");
    if (!ps->status) kiln_lexer_next_line(&ps->lx);
}

/* ---- expressions ----------------------------------------------------------------------------------------------- */

static kiln_expr parse_expr(parser *ps);

static kiln_expr apply(parser *ps, kiln_expr_op op, kiln_dtype dtype, const kiln_expr *operand, uint32_t count) {
    if (++ps->nodes > KILN_EXPR_TEXT_NODES_MAX) FAIL(ps, "the expression has more than %d parts", KILN_EXPR_TEXT_NODES_MAX);
    if (ps->status) return 0;
    const char *wrong = kiln_expr_type_error(ps->p, op, operand, count);
    if (wrong) {
        FAIL(ps, "%s: %s", kiln_expr_op_table[op].text, wrong);
        return 0;
    }
    const kiln_expr_node like = {.op = (uint8_t)op, .dtype = (uint8_t)dtype, .operand_count = (uint16_t)count};
    return kiln_expr_make(ps->p, &like, operand, count);
}

static kiln_expr integer_literal(parser *ps, kiln_dtype dtype, kiln_str digits, bool negative) {
    uint64_t magnitude = 0;
    bool fits = kiln_str_to_u64(digits, &magnitude) && !(negative && magnitude > (uint64_t)INT64_MAX + 1);
    if (magnitude > INT64_MAX && !negative && dtype != KILN_U64) fits = false;
    if (!fits || (negative && kiln_dtype_kind_of(dtype) == KILN_KIND_UINT && magnitude)) {
        FAIL(ps, "the number does not fit its dtype");
        return 0;
    }
    kiln_expr made = kiln_expr_int(ps->p, dtype, (int64_t)(negative ? 0 - magnitude : magnitude));
    int64_t value = 0;
    kiln_expr_as_int(ps->p, made, &value);
    if (value != (int64_t)(negative ? 0 - magnitude : magnitude)) FAIL(ps, "the number does not fit its dtype");
    return made;
}

/* Digits, then a dtype: "3" is i64, "3.0" f32, "3u8" and "3.0f64" say what they are. */
static kiln_expr parse_number(parser *ps, bool negative) {
    kiln_str text = ps->lx.token;
    size_t end = 0;
    bool is_float = false;
    for (; end < text.size; end++) {
        char c = text.data[end];
        bool exponent = c == 'e';
        if (exponent && end + 1 < text.size && (text.data[end + 1] == '-' || text.data[end + 1] == '+')) end++;
        if (!exponent && c != '.' && (c < '0' || c > '9')) break;
        is_float |= exponent || c == '.';
    }
    kiln_dtype dtype = is_float ? KILN_F32 : KILN_INDEX_DTYPE;
    kiln_str suffix = kiln_str_slice(text, end, text.size);
    double value = 0;
    if (suffix.size && !kiln_dtype_find(suffix, &dtype)) FAIL(ps, "'%.*s' is no dtype", KILN_STR_ARG(suffix));
    if (!ps->status && dtype == KILN_BOOL) FAIL(ps, "bool literals are true and false");
    text = kiln_str_slice(text, 0, end);
    if (!ps->status && kiln_dtype_is_float(dtype) && !kiln_str_to_f64(text, &value)) FAIL(ps, "the number is out of range");
    if (ps->status) return 0;
    kiln_expr made = kiln_dtype_is_float(dtype) ? kiln_expr_float(ps->p, dtype, negative ? -value : value)
                                                : integer_literal(ps, dtype, text, negative);
    kiln_lexer_next(&ps->lx);
    return made;
}

static kiln_expr parse_var(parser *ps, kiln_str name) {
    const kiln_block_info *b = &ps->p->block.data[ps->block];
    for (uint32_t i = 0; ps->block && i < b->iter_count; i++)
        if (kiln_str_equal(kiln_iter_name(ps->p, &b->iter[i]), name)) return kiln_expr_var(ps->p, b->iter[i].var);
    for (uint32_t i = 0; !ps->block && i < ps->loop_count; i++)
        if (kiln_str_equal(ps->p->var.data[ps->loop[i]].name, name)) return kiln_expr_var(ps->p, ps->loop[i]);
    FAIL(ps, "no iterator or loop named '%.*s' is in scope", KILN_STR_ARG(name));
    return 0;
}

/* "a, b)" after the opening bracket; returns the count. */
static uint32_t parse_list(parser *ps, const char *closing, kiln_expr *out, uint32_t max) {
    uint32_t count = 0;
    if (accept(ps, closing)) return 0;
    do {
        if (count == max) FAIL(ps, "more than %u items", max);
        kiln_expr item = parse_expr(ps);
        if (ps->status) return 0;
        out[count++] = item;
    } while (accept(ps, ","));
    expect(ps, closing);
    return count;
}

static kiln_buffer find_buffer(parser *ps, kiln_str name) {
    kiln_buffer buffer = ps->status ? 0 : kiln_program_find_buffer(ps->p, name);
    if (!buffer) FAIL(ps, "no buffer named '%.*s'", KILN_STR_ARG(name));
    return buffer;
}

/* "[i, j]" after the buffer's name. */
static uint32_t parse_index(parser *ps, kiln_buffer buffer, kiln_expr *index) {
    expect(ps, "[");
    uint32_t count = parse_list(ps, "]", index, KILN_RANK_MAX);
    if (ps->status) return 0;
    if (count != ps->p->buffer.data[buffer].shape.rank) FAIL(ps, "the buffer has %u dimensions", ps->p->buffer.data[buffer].shape.rank);
    for (uint32_t i = 0; i < count; i++)
        if (kiln_expr_get(ps->p, index[i])->dtype != KILN_INDEX_DTYPE) FAIL(ps, "index %u is not i64", i);
    return count;
}

static kiln_expr parse_load(parser *ps, kiln_str name) {
    kiln_expr index[KILN_RANK_MAX];
    kiln_buffer buffer = find_buffer(ps, name);
    uint32_t count = parse_index(ps, buffer, index);
    return ps->status ? 0 : kiln_expr_load(ps->p, buffer, index, count);
}

static kiln_expr parse_call(parser *ps, kiln_str name) {
    kiln_expr operand[3];
    kiln_dtype dtype = KILN_DTYPE_NONE;
    kiln_expr_op op = KILN_EXPR_OP_COUNT;
    for (uint32_t i = 0; i < KILN_EXPR_OP_COUNT; i++)
        if (kiln_expr_op_table[i].class == KILN_CLASS_CALLED && kiln_str_is(name, kiln_expr_op_table[i].text)) op = (kiln_expr_op)i;
    if (op == KILN_EXPR_OP_COUNT && kiln_dtype_find(name, &dtype)) op = KILN_EXPR_CAST;
    if (op == KILN_EXPR_OP_COUNT) FAIL(ps, "no operator named '%.*s'", KILN_STR_ARG(name));
    expect(ps, "(");
    uint32_t count = parse_list(ps, ")", operand, 3);
    return ps->status ? 0 : apply(ps, op, dtype, operand, count);
}

static kiln_expr parse_word(parser *ps) {
    bool bare = ps->lx.kind == KILN_TOKEN_NAME;
    kiln_str name = expect_name(ps);
    if (ps->status) return 0;
    if (bare && kiln_str_is(name, "true")) return kiln_expr_int(ps->p, KILN_BOOL, 1);
    if (bare && kiln_str_is(name, "false")) return kiln_expr_int(ps->p, KILN_BOOL, 0);
    if (bare && kiln_str_is(name, "inf")) return kiln_expr_float(ps->p, KILN_F32, INFINITY);
    if (bare && kiln_str_is(name, "nan")) return kiln_expr_float(ps->p, KILN_F32, NAN);
    if (kiln_lexer_is(&ps->lx, "[")) return parse_load(ps, name);
    if (bare && kiln_lexer_is(&ps->lx, "(")) return parse_call(ps, name);
    return parse_var(ps, name);
}

static kiln_expr parse_primary(parser *ps) {
    if (ps->status) return 0;
    if (++ps->nodes > KILN_EXPR_TEXT_NODES_MAX) FAIL(ps, "the expression has more than %d parts", KILN_EXPR_TEXT_NODES_MAX);
    if (accept(ps, "(")) {
        kiln_expr inner = parse_expr(ps);
        expect(ps, ")");
        return inner;
    }
    bool negative = accept(ps, "-");
    if (ps->lx.kind == KILN_TOKEN_NUMBER) return parse_number(ps, negative);
    if (negative && accept(ps, "inf")) return kiln_expr_float(ps->p, KILN_F32, -INFINITY);
    if (negative) FAIL(ps, "a number is expected after '-'; negation is neg(x)");
    return parse_word(ps);
}

static const struct infix {
    const char *text;
    kiln_expr_op op;
    uint32_t precedence;
} infix_table[] = {
    {"<", KILN_EXPR_LT, 1},  {"<=", KILN_EXPR_LE, 1}, {"==", KILN_EXPR_EQ, 1}, {"!=", KILN_EXPR_NE, 1},
    {"+", KILN_EXPR_ADD, 2}, {"-", KILN_EXPR_SUB, 2}, {"*", KILN_EXPR_MUL, 3}, {"/", KILN_EXPR_DIV, 3},
};

static const struct infix *accept_infix(parser *ps, uint32_t precedence) {
    for (size_t i = 0; i < KILN_ARRAY_COUNT(infix_table); i++)
        if (infix_table[i].precedence == precedence && accept(ps, infix_table[i].text)) return &infix_table[i];
    return NULL;
}

/* Operators of one precedence, left to right; comparisons do not chain. */
static kiln_expr parse_infix(parser *ps, uint32_t precedence) {
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

static kiln_expr parse_expr(parser *ps) {
    if (++ps->depth > EXPR_DEPTH_MAX) FAIL(ps, "expressions are nested more than %d deep", EXPR_DEPTH_MAX);
    kiln_expr e = ps->status ? 0 : parse_infix(ps, 1);
    ps->depth--;
    return ps->status ? 0 : e;
}

static kiln_expr parse_whole_expr(parser *ps, kiln_dtype dtype) {
    ps->nodes = 0;
    kiln_expr e = parse_expr(ps);
    if (!ps->status && kiln_expr_get(ps->p, e)->dtype != dtype) FAIL(ps, "the expression should be %s", kiln_dtype_name(dtype));
    return e;
}

/* ---- buffers ------------------------------------------------------------------------------------------------------ */

static void parse_shape(parser *ps, kiln_shape *shape, kiln_dtype dtype) {
    size_t bytes;
    expect(ps, "[");
    while (!ps->status && !kiln_lexer_is(&ps->lx, "]")) {
        if (kiln_lexer_is(&ps->lx, "$") && !ps->status)
            ps->status = KILN_ERROR(UNIMPLEMENTED, "%u:%u: symbolic dimensions are reserved, not supported", ps->lx.line, ps->lx.column);
        if (shape->rank == KILN_RANK_MAX) FAIL(ps, "more than %d dimensions", KILN_RANK_MAX);
        int64_t dim = expect_int(ps, 0, KILN_EXTENT_MAX);
        if (ps->status) return;
        shape->dim[shape->rank++] = dim;
        if (!accept(ps, ",")) break;
    }
    expect(ps, "]");
    if (ps->status) return;
    kiln_status st = kiln_shape_bytes(shape, dtype, &bytes);
    if (st) FAIL(ps, "%s", kiln_status_text(st));
    kiln_status_free(st);
}

static void parse_layout(parser *ps, kiln_buffer_info *info) {
    kiln_str text = {0};
    if (!kiln_lexer_is(&ps->lx, "(")) FAIL(ps, "'(' is expected here");
    if (ps->status) return;
    if (!kiln_lexer_raw_until(&ps->lx, ')', &text)) FAIL(ps, "')' is missing");
    if (ps->status) return;
    kiln_status st = kiln_layout_parse(text, info->shape.rank, &info->layout);
    if (st) FAIL(ps, "%s", kiln_status_text(st));
    kiln_status_free(st);
}

static double parse_scale(parser *ps) {
    double value = 0;
    bool negative = accept(ps, "-");
    if (ps->lx.kind != KILN_TOKEN_NUMBER || !kiln_str_to_f64(ps->lx.token, &value) || !isfinite(value)) FAIL(ps, "a number is expected here");
    if (!ps->status) kiln_lexer_next(&ps->lx);
    return negative ? -value : value;
}

static bool parse_attribute(parser *ps, kiln_buffer_info *info) {
    bool is_pinned = accept(ps, "pinned");
    if (is_pinned || accept(ps, "layout")) {
        info->pinned = is_pinned;
        parse_layout(ps, info);
        return true;
    }
    bool is_scope = accept(ps, "scope");
    bool is_fill = !is_scope && accept(ps, "fill");
    bool is_scale = !is_scope && !is_fill && accept(ps, "scale");
    if (!is_scope && !is_fill && !is_scale) return false;
    expect(ps, "(");
    if (is_scope) info->scope = (kiln_scope)expect_word(ps, kiln_scope_word, KILN_SCOPE_COUNT, "a memory scope");
    if (is_fill) info->fill = (kiln_fill)expect_word(ps, kiln_fill_word, KILN_FILL_ZERO + 1, "a way to fill");
    if (is_scale) {
        info->scale = parse_scale(ps);
        expect(ps, ",");
        info->zero_point = (int32_t)expect_int(ps, INT32_MIN, INT32_MAX);
    }
    expect(ps, ")");
    return true;
}

static void parse_buffer(parser *ps) {
    kiln_role role = (kiln_role)expect_word(ps, kiln_role_word, KILN_ROLE_TEMP + 1, "a role");
    kiln_str name = expect_name(ps);
    expect(ps, ":");
    kiln_str dtype_name = expect_name(ps);
    kiln_dtype dtype = KILN_DTYPE_NONE;
    kiln_shape shape = {0};
    if (!ps->status && !kiln_dtype_find(dtype_name, &dtype)) FAIL(ps, "'%.*s' is no dtype", KILN_STR_ARG(dtype_name));
    if (!ps->status && kiln_program_find_buffer(ps->p, name)) FAIL(ps, "there are two buffers named '%.*s'", KILN_STR_ARG(name));
    if (!ps->status) parse_shape(ps, &shape, dtype);
    if (ps->p->buffer.count == KILN_PROGRAM_BUFFERS_MAX) FAIL(ps, "more than %d buffers", KILN_PROGRAM_BUFFERS_MAX - 1);
    if (ps->status) return;
    kiln_buffer_info *info = &ps->p->buffer.data[kiln_buffer_create(ps->p, name, dtype, role, &shape)];
    while (parse_attribute(ps, info)) {
    }
    expect_line_end(ps);
}

/* ---- blocks ----------------------------------------------------------------------------------------------------------- */

static void parse_iters(parser *ps, kiln_block block) {
    bool reduce = false;
    if (accept(ps, ")")) return;
    for (;;) {
        if (!reduce && accept(ps, "|")) reduce = true;
        bool plain = ps->lx.kind == KILN_TOKEN_NAME;
        kiln_str name = expect_name(ps);
        expect(ps, ":");
        int64_t extent = expect_int(ps, 0, KILN_EXTENT_MAX);
        const kiln_block_info *b = &ps->p->block.data[block];
        if (!ps->status && (!plain || !kiln_name_is_plain(name))) FAIL(ps, "an iterator's name is a plain word");
        if (b->iter_count == KILN_BLOCK_ITERS_MAX) FAIL(ps, "more than %d iterators", KILN_BLOCK_ITERS_MAX);
        for (uint32_t i = 0; !ps->status && i < b->iter_count; i++)
            if (kiln_str_equal(kiln_iter_name(ps->p, &b->iter[i]), name)) FAIL(ps, "two iterators are named '%.*s'", KILN_STR_ARG(name));
        if (ps->status) return;
        kiln_block_add_iter(ps->p, block, kiln_str_dup(ps->p->arena, name), extent, reduce);
        if (accept(ps, ")")) return;
        if (!kiln_lexer_is(&ps->lx, "|")) expect(ps, ",");
        if (reduce && kiln_lexer_is(&ps->lx, "|")) FAIL(ps, "reduce iterators are listed once");
    }
}

static kiln_combiner parse_combiner(parser *ps) {
    int word = find_word(ps, kiln_combiner_word, KILN_COMBINE_COUNT);
    if (word > 0) kiln_lexer_next(&ps->lx);
    expect(ps, "=");
    return word > 0 ? (kiln_combiner)word : KILN_COMBINE_NONE;
}

static void parse_block(parser *ps) {
    expect(ps, "block");
    kiln_str name = expect_name(ps);
    if (!ps->status && kiln_program_find_block(ps->p, name)) FAIL(ps, "there are two blocks named '%.*s'", KILN_STR_ARG(name));
    if (ps->p->block.count > KILN_PROGRAM_BLOCKS_MAX) FAIL(ps, "more than %d blocks", KILN_PROGRAM_BLOCKS_MAX);
    if (ps->status) return;
    kiln_block block = kiln_block_create(ps->p, name);
    kiln_expr index[KILN_RANK_MAX];
    expect(ps, "(");
    parse_iters(ps, block);
    if (accept(ps, "of")) {
        kiln_str of = expect_name(ps);
        kiln_block reduction = ps->status ? 0 : kiln_program_find_block(ps->p, of);
        if (!reduction || reduction == block) FAIL(ps, "no block named '%.*s' stands above", KILN_STR_ARG(of));
        ps->p->block.data[block].init_of = reduction;
    }
    expect(ps, ":");
    kiln_buffer buffer = find_buffer(ps, expect_name(ps));
    ps->block = block;
    uint32_t index_count = parse_index(ps, buffer, index);
    kiln_combiner combiner = parse_combiner(ps);
    kiln_dtype dtype = ps->p->buffer.data[buffer].dtype;
    kiln_expr value = parse_whole_expr(ps, dtype);
    bool without = combiner != KILN_COMBINE_NONE && accept(ps, "without");
    kiln_expr init = 0;
    if (without) {
        expect(ps, "init");
    } else if (combiner != KILN_COMBINE_NONE && accept(ps, "init")) {
        init = parse_whole_expr(ps, dtype);
    }
    ps->block = 0;
    if (!ps->status && combiner != KILN_COMBINE_NONE && dtype == KILN_BOOL && combiner != KILN_COMBINE_MAX && combiner != KILN_COMBINE_MIN)
        FAIL(ps, "bool is reduced by max or min");
    if (ps->status) return;
    kiln_block_set(ps->p, block, buffer, index, index_count, combiner, value, init);
    if (without) ps->p->block.data[block].init = 0;
    expect_line_end(ps);
}

/* ---- statements --------------------------------------------------------------------------------------------------------- */

static void parse_body(parser *ps, kiln_stmt parent, uint32_t depth);

/* Siblings may share a variable; its range then covers both. */
static kiln_var loop_var(parser *ps, kiln_str name, int64_t first, int64_t extent) {
    int64_t last = extent > 0 ? first + extent - 1 : first;
    for (uint32_t i = 0; i < ps->loop_count; i++)
        if (kiln_str_equal(ps->p->var.data[ps->loop[i]].name, name)) FAIL(ps, "loop '%.*s' is inside itself", KILN_STR_ARG(name));
    kiln_stmt same = ps->status ? 0 : kiln_program_find_loop(ps->p, name);
    if (!same) return ps->status ? 0 : kiln_var_create(ps->p, name, first, last);
    kiln_var var = ps->p->stmt.data[same].var;
    kiln_var_info *info = &ps->p->var.data[var];
    info->low = KILN_MIN(info->low, first);
    info->high = KILN_MAX(info->high, last);
    return var;
}

static kiln_stmt new_stmt(parser *ps, kiln_stmt_kind kind, kiln_stmt parent) {
    if (ps->p->stmt.count >= KILN_PROGRAM_STMTS_MAX) FAIL(ps, "more than %d statements", KILN_PROGRAM_STMTS_MAX);
    if (ps->status) return 0;
    kiln_stmt stmt = kiln_stmt_create(ps->p, kind);
    kiln_stmt_append(ps->p, parent, stmt);
    return stmt;
}

static void parse_annotations(parser *ps, kiln_stmt stmt) {
    while (accept(ps, "@")) {
        if (ps->lx.kind != KILN_TOKEN_QUOTED) FAIL(ps, "an annotation is a quoted \"key=value\"");
        if (ps->status) return;
        kiln_vec_push_in(ps->p->arena, &ps->p->stmt.data[stmt].annotation, ps->lx.token);
        kiln_lexer_next(&ps->lx);
    }
}

/* Annotations, the colon, and the indented body. */
static void parse_tail_and_body(parser *ps, kiln_stmt stmt, uint32_t depth) {
    if (!ps->status) parse_annotations(ps, stmt);
    expect(ps, ":");
    expect_line_end(ps);
    if (!ps->status) parse_body(ps, stmt, depth + 1);
}

static void parse_for(parser *ps, kiln_stmt parent, uint32_t depth) {
    kiln_loop_kind kind = (kiln_loop_kind)expect_word(ps, kiln_loop_word, KILN_LOOP_KIND_COUNT, "a loop");
    kiln_str name = expect_name(ps);
    expect(ps, "in");
    int64_t first = 0;
    int64_t end = expect_int(ps, -KILN_EXTENT_MAX, KILN_EXTENT_MAX);
    if (accept(ps, "..")) {
        first = end;
        end = expect_int(ps, first, KILN_EXTENT_MAX);
    }
    if (end < first) FAIL(ps, "the loop ends before it begins");
    kiln_var var = loop_var(ps, name, first, end - first);
    kiln_stmt stmt = new_stmt(ps, KILN_STMT_FOR, parent);
    if (ps->status) return;
    kiln_stmt_info *info = &ps->p->stmt.data[stmt];
    info->loop_kind = (uint8_t)kind;
    info->var = var;
    info->first = first;
    info->extent = end - first;
    ps->loop[ps->loop_count++] = var;
    parse_tail_and_body(ps, stmt, depth);
    ps->loop_count--;
}

static void parse_binding(parser *ps, kiln_block_info *b) {
    kiln_str name = expect_name(ps);
    expect(ps, "=");
    kiln_iter *iter = NULL;
    for (uint32_t i = 0; !ps->status && i < b->iter_count; i++)
        if (kiln_str_equal(kiln_iter_name(ps->p, &b->iter[i]), name)) iter = &b->iter[i];
    if (!iter) FAIL(ps, "block '%.*s' has no iterator '%.*s'", KILN_STR_ARG(b->name), KILN_STR_ARG(name));
    if (!ps->status && iter->binding) FAIL(ps, "iterator '%.*s' is bound twice", KILN_STR_ARG(name));
    kiln_expr binding = parse_whole_expr(ps, KILN_INDEX_DTYPE);
    if (!ps->status) iter->binding = binding;
}

static void parse_block_stmt(parser *ps, kiln_stmt parent) {
    expect(ps, "block");
    kiln_str name = expect_name(ps);
    kiln_block block = ps->status ? 0 : kiln_program_find_block(ps->p, name);
    if (!block) FAIL(ps, "no block named '%.*s'", KILN_STR_ARG(name));
    kiln_stmt stmt = new_stmt(ps, KILN_STMT_BLOCK, parent);
    if (ps->status) return;
    ps->p->stmt.data[stmt].block = block;
    kiln_block_info *b = &ps->p->block.data[block];
    expect(ps, "(");
    if (!accept(ps, ")")) {
        do {
            parse_binding(ps, b);
        } while (accept(ps, ","));
        expect(ps, ")");
    }
    if (accept(ps, "if")) b->predicate = parse_whole_expr(ps, KILN_BOOL);
    parse_annotations(ps, stmt);
    expect_line_end(ps);
}

static void parse_store(parser *ps, kiln_stmt parent) {
    kiln_buffer buffer = find_buffer(ps, expect_name(ps));
    kiln_expr index[KILN_RANK_MAX] = {0};
    uint32_t count = parse_index(ps, buffer, index);
    expect(ps, "=");
    kiln_expr value = parse_whole_expr(ps, ps->p->buffer.data[buffer].dtype);
    kiln_stmt stmt = new_stmt(ps, KILN_STMT_STORE, parent);
    if (ps->status) return;
    kiln_stmt_info *info = &ps->p->stmt.data[stmt];
    info->buffer = buffer;
    info->index_count = count;
    memcpy(info->index, index, sizeof index);
    info->value = value;
    expect_line_end(ps);
}

static void parse_if(parser *ps, kiln_stmt parent, uint32_t depth) {
    expect(ps, "if");
    kiln_expr condition = parse_whole_expr(ps, KILN_BOOL);
    kiln_stmt stmt = new_stmt(ps, KILN_STMT_IF, parent);
    if (ps->status) return;
    ps->p->stmt.data[stmt].condition = condition;
    parse_tail_and_body(ps, stmt, depth);
}

static void parse_alloc(parser *ps, kiln_stmt parent, uint32_t depth) {
    expect(ps, "alloc");
    kiln_buffer buffer = find_buffer(ps, expect_name(ps));
    kiln_stmt stmt = new_stmt(ps, KILN_STMT_ALLOC, parent);
    if (ps->status) return;
    ps->p->stmt.data[stmt].buffer = buffer;
    parse_tail_and_body(ps, stmt, depth);
}

static void parse_token(parser *ps, kiln_stmt parent) {
    expect(ps, "token");
    bool push = accept(ps, "push");
    if (!push) expect(ps, "pop");
    int64_t from = expect_int(ps, 0, 255);
    int64_t to = expect_int(ps, 0, 255);
    kiln_stmt stmt = new_stmt(ps, push ? KILN_STMT_TOKEN_PUSH : KILN_STMT_TOKEN_POP, parent);
    if (ps->status) return;
    ps->p->stmt.data[stmt].first = from;
    ps->p->stmt.data[stmt].extent = to;
    expect_line_end(ps);
}

/* A store may be to a buffer with any name, so what follows the first word decides. */
static bool is_store(const parser *ps) {
    kiln_lexer ahead = ps->lx;
    if (ahead.kind == KILN_TOKEN_QUOTED) return true;
    kiln_lexer_next(&ahead);
    return kiln_lexer_is(&ahead, "[");
}

static void parse_stmt(parser *ps, kiln_stmt parent, uint32_t depth) {
    if (is_store(ps)) {
        parse_store(ps, parent);
    } else if (find_word(ps, kiln_loop_word, KILN_LOOP_KIND_COUNT) >= 0) {
        parse_for(ps, parent, depth);
    } else if (kiln_lexer_is(&ps->lx, "block")) {
        parse_block_stmt(ps, parent);
    } else if (kiln_lexer_is(&ps->lx, "if")) {
        parse_if(ps, parent, depth);
    } else if (kiln_lexer_is(&ps->lx, "alloc")) {
        parse_alloc(ps, parent, depth);
    } else if (kiln_lexer_is(&ps->lx, "token")) {
        parse_token(ps, parent);
    } else if (accept(ps, "barrier")) {
        new_stmt(ps, KILN_STMT_BARRIER, parent);
        expect_line_end(ps);
    } else {
        FAIL(ps, "a statement is expected here");
    }
}

/* Every line of indent 2*depth, into `parent`. Only the whole program may be empty. */
static void parse_body(parser *ps, kiln_stmt parent, uint32_t depth) {
    if (depth >= KILN_PROGRAM_DEPTH_MAX) FAIL(ps, "statements are nested more than %d deep", KILN_PROGRAM_DEPTH_MAX);
    uint32_t count = 0;
    while (!ps->status && !ps->lx.at_end && ps->lx.indent >= 2 * depth) {
        if (ps->lx.indent > 2 * depth) FAIL(ps, "the line should be indented by %u spaces", 2 * depth);
        if (!ps->status) parse_stmt(ps, parent, depth);
        count++;
    }
    if (count == 0 && depth > 1) FAIL(ps, "an indented body is expected here");
}

/* ---- programs ------------------------------------------------------------------------------------------------------------ */

static void parse_program(parser *ps, kiln_arena *arena) {
    kiln_lexer_next_line(&ps->lx);
    ps->p = kiln_program_create(arena, KILN_STR("")); /* never NULL, so that errors need no checks */
    expect(ps, "program");
    kiln_str name = expect_name(ps);
    expect_line_end(ps);
    if (ps->status) return;
    ps->p->name = (kiln_str){kiln_str_dup(arena, name), name.size};
    while (!ps->status && find_word(ps, kiln_role_word, KILN_ROLE_TEMP + 1) >= 0) parse_buffer(ps);
    while (!ps->status && kiln_lexer_is(&ps->lx, "block")) parse_block(ps);
    if (!ps->status && !ps->lx.at_end) {
        expect(ps, "loops");
        expect(ps, ":");
        expect_line_end(ps);
        ps->p->root = kiln_stmt_create(ps->p, KILN_STMT_SEQ);
        parse_body(ps, ps->p->root, 1);
    }
    if (!ps->lx.at_end) FAIL(ps, "nothing more is expected here");
}

kiln_status kiln_program_parse(kiln_str text, kiln_arena *arena, kiln_program **out_program) {
    if (text.size > KILN_PROGRAM_TEXT_MAX) return KILN_ERROR(INVALID_ARGUMENT, "the program's text is above %zu bytes", KILN_PROGRAM_TEXT_MAX);
    parser ps = {.p = NULL};
    kiln_lexer_init(&ps.lx, text, arena);
    parse_program(&ps, arena);
    if (ps.status) return kiln_status_note(ps.status, "program text");
    kiln_status st = kiln_program_verify(ps.p);
    if (st) {
        kiln_status wrong = KILN_ERROR(INVALID_ARGUMENT, "%s", kiln_status_text(st));
        kiln_status_free(st);
        return kiln_status_note(wrong, "program text");
    }
    *out_program = ps.p;
    return KILN_OK;
}
