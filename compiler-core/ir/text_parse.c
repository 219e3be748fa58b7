/* Text to programs: docs/reference/loop-text.md. Expressions are in text_parse_expr.c. */
#include <math.h>

#include "compiler-core/ir/device.h"
#include "compiler-core/ir/parse.h"

/* ---- words ----------------------------------------------------------------------- */

bool kiln_parse_accept(kiln_parser *ps, const char *word) {
    if (ps->status || !kiln_lexer_is(&ps->lx, word)) return false;
    kiln_lexer_next(&ps->lx);
    return true;
}

void kiln_parse_expect(kiln_parser *ps, const char *word) {
    if (!kiln_parse_accept(ps, word)) KILN_PARSE_FAIL(ps, "'%s' is expected here", word);
}

kiln_str kiln_parse_name(kiln_parser *ps) {
    kiln_str name = ps->lx.token;
    if (ps->lx.kind != KILN_TOKEN_NAME && ps->lx.kind != KILN_TOKEN_QUOTED)
        KILN_PARSE_FAIL(ps, "a name is expected here");
    if (!ps->status) kiln_lexer_next(&ps->lx);
    return name;
}

/* A whole number with an optional minus, in [low, high]. */
static int64_t expect_int(kiln_parser *ps, int64_t low, int64_t high) {
    bool negative = kiln_parse_accept(ps, "-");
    uint64_t magnitude = 0;
    if (ps->lx.kind != KILN_TOKEN_NUMBER || !kiln_str_to_u64(ps->lx.token, &magnitude) ||
        magnitude > INT64_MAX) {
        KILN_PARSE_FAIL(ps, "a whole number is expected here");
        return low;
    }
    int64_t value = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    if (value < low || value > high)
        KILN_PARSE_FAIL(ps, "the number must be from %lld to %lld", (long long)low,
                        (long long)high);
    if (!ps->status) kiln_lexer_next(&ps->lx);
    return value;
}

/* The index of the current word in a table that may have gaps; -1 (and nothing consumed) when
 * absent. */
static int find_word(const kiln_parser *ps, const char *const *table, size_t count) {
    for (size_t i = 0; i < count && ps->lx.kind == KILN_TOKEN_NAME; i++)
        if (table[i] && table[i][0] && kiln_str_is(ps->lx.token, table[i])) return (int)i;
    return -1;
}

static uint32_t expect_word(kiln_parser *ps, const char *const *table, size_t count,
                            const char *what) {
    int found = find_word(ps, table, count);
    if (found < 0) {
        KILN_PARSE_FAIL(ps, "%s is expected here", what);
        return 0;
    }
    kiln_lexer_next(&ps->lx);
    return (uint32_t)found;
}

static void expect_line_end(kiln_parser *ps) {
    if (ps->lx.kind != KILN_TOKEN_END) KILN_PARSE_FAIL(ps, "the line should end here");
    if (!ps->status) kiln_lexer_next_line(&ps->lx);
}

/* ---- buffers --------------------------------------------------------------------- */

static void parse_shape(kiln_parser *ps, kiln_shape *shape, kiln_dtype dtype) {
    size_t bytes;
    kiln_parse_expect(ps, "[");
    while (!ps->status && !kiln_lexer_is(&ps->lx, "]")) {
        if (kiln_lexer_is(&ps->lx, "$") && !ps->status)
            ps->status =
                KILN_ERROR(UNIMPLEMENTED, "%u:%u: symbolic dimensions are reserved, not supported",
                           ps->lx.line, ps->lx.column);
        if (shape->rank == KILN_RANK_MAX)
            KILN_PARSE_FAIL(ps, "more than %d dimensions", KILN_RANK_MAX);
        int64_t dim = expect_int(ps, 0, KILN_EXTENT_MAX);
        if (ps->status) return;
        shape->dim[shape->rank++] = dim;
        if (!kiln_parse_accept(ps, ",")) break;
    }
    kiln_parse_expect(ps, "]");
    if (ps->status) return;
    kiln_status st = kiln_shape_bytes(shape, dtype, &bytes);
    if (st) KILN_PARSE_FAIL(ps, "%s", kiln_status_text(st));
    kiln_status_free(st);
}

static void parse_layout(kiln_parser *ps, kiln_buffer_info *info) {
    kiln_str text = {0};
    if (!kiln_lexer_is(&ps->lx, "(")) KILN_PARSE_FAIL(ps, "'(' is expected here");
    if (ps->status) return;
    if (!kiln_lexer_raw_until(&ps->lx, ')', &text)) KILN_PARSE_FAIL(ps, "')' is missing");
    if (ps->status) return;
    kiln_status st = kiln_layout_parse(text, info->shape.rank, &info->layout);
    if (st) KILN_PARSE_FAIL(ps, "%s", kiln_status_text(st));
    kiln_status_free(st);
}

static double parse_scale(kiln_parser *ps) {
    double value = 0;
    bool negative = kiln_parse_accept(ps, "-");
    if (ps->lx.kind != KILN_TOKEN_NUMBER || !kiln_str_to_f64(ps->lx.token, &value) ||
        !isfinite(value))
        KILN_PARSE_FAIL(ps, "a number is expected here");
    if (!ps->status) kiln_lexer_next(&ps->lx);
    return negative ? -value : value;
}

/* low, high[, step) */
static void parse_range(kiln_parser *ps, kiln_buffer_info *info) {
    kiln_range range = {.step = 1};
    range.low = expect_int(ps, INT32_MIN, UINT32_MAX);
    kiln_parse_expect(ps, ",");
    range.high = expect_int(ps, INT32_MIN, UINT32_MAX);
    if (kiln_parse_accept(ps, ",")) range.step = expect_int(ps, 1, UINT32_MAX);
    if (!ps->status && !kiln_range_fits(&range, info->dtype))
        KILN_PARSE_FAIL(ps, "%s cannot have this range", kiln_dtype_name(info->dtype));
    info->range = range;
}

static bool parse_attribute(kiln_parser *ps, kiln_buffer_info *info) {
    bool is_pinned = kiln_parse_accept(ps, "pinned");
    if (is_pinned || kiln_parse_accept(ps, "layout")) {
        info->pinned = is_pinned;
        parse_layout(ps, info);
        return true;
    }
    bool is_scope = kiln_parse_accept(ps, "scope");
    bool is_fill = !is_scope && kiln_parse_accept(ps, "fill");
    bool is_scale = !is_scope && !is_fill && kiln_parse_accept(ps, "scale");
    bool is_range = !is_scope && !is_fill && !is_scale && kiln_parse_accept(ps, "range");
    bool is_place = !is_scope && !is_fill && !is_scale && !is_range && kiln_parse_accept(ps, "at");
    if (!is_scope && !is_fill && !is_scale && !is_range && !is_place) return false;
    kiln_parse_expect(ps, "(");
    if (is_range) parse_range(ps, info);
    if (is_place) info->offset = (uint64_t)expect_int(ps, 0, KILN_PLACE_MAX);
    info->is_placed |= is_place;
    if (is_scope && !kiln_scope_find(ps->lx.token, &info->scope))
        KILN_PARSE_FAIL(ps, "a memory scope is expected here");
    if (is_scope && !ps->status) kiln_lexer_next(&ps->lx);
    if (is_fill)
        info->fill =
            (kiln_fill)expect_word(ps, kiln_fill_word, KILN_FILL_ZERO + 1, "a way to fill");
    if (is_scale) {
        info->scale = parse_scale(ps);
        kiln_parse_expect(ps, ",");
        info->zero_point = (int32_t)expect_int(ps, INT32_MIN, INT32_MAX);
    }
    kiln_parse_expect(ps, ")");
    return true;
}

static void parse_buffer(kiln_parser *ps) {
    kiln_role role = (kiln_role)expect_word(ps, kiln_role_word, KILN_ROLE_TEMP + 1, "a role");
    kiln_str name = kiln_parse_name(ps);
    kiln_parse_expect(ps, ":");
    kiln_str dtype_name = kiln_parse_name(ps);
    kiln_dtype dtype = KILN_DTYPE_NONE;
    kiln_shape shape = {0};
    if (!ps->status && !kiln_dtype_find(dtype_name, &dtype))
        KILN_PARSE_FAIL(ps, "'%.*s' is no dtype", KILN_STR_ARG(dtype_name));
    if (!ps->status && kiln_program_find_buffer(ps->p, name))
        KILN_PARSE_FAIL(ps, "there are two buffers named '%.*s'", KILN_STR_ARG(name));
    if (!ps->status) parse_shape(ps, &shape, dtype);
    if (ps->p->buffer.count == KILN_PROGRAM_BUFFERS_MAX)
        KILN_PARSE_FAIL(ps, "more than %d buffers", KILN_PROGRAM_BUFFERS_MAX - 1);
    if (ps->status) return;
    /* Making the buffer may move the table. */
    kiln_buffer buffer = kiln_buffer_create(ps->p, name, dtype, role, &shape);
    kiln_buffer_info *info = &ps->p->buffer.data[buffer];
    while (parse_attribute(ps, info)) {}
    expect_line_end(ps);
}

/* ---- blocks ---------------------------------------------------------------------- */

static void parse_iters(kiln_parser *ps, kiln_block block) {
    bool reduce = false;
    if (kiln_parse_accept(ps, ")")) return;
    for (;;) {
        if (!reduce && kiln_parse_accept(ps, "|")) reduce = true;
        bool plain = ps->lx.kind == KILN_TOKEN_NAME;
        kiln_str name = kiln_parse_name(ps);
        kiln_parse_expect(ps, ":");
        int64_t extent = expect_int(ps, 0, KILN_EXTENT_MAX);
        const kiln_block_info *b = &ps->p->block.data[block];
        if (!ps->status && (!plain || !kiln_name_is_plain(name)))
            KILN_PARSE_FAIL(ps, "an iterator's name is a plain word");
        if (b->iter_count == KILN_BLOCK_ITERS_MAX)
            KILN_PARSE_FAIL(ps, "more than %d iterators", KILN_BLOCK_ITERS_MAX);
        for (uint32_t i = 0; !ps->status && i < b->iter_count; i++)
            if (kiln_str_equal(kiln_iter_name(ps->p, &b->iter[i]), name))
                KILN_PARSE_FAIL(ps, "two iterators are named '%.*s'", KILN_STR_ARG(name));
        if (ps->status) return;
        kiln_block_add_iter(ps->p, block, kiln_str_dup(ps->p->arena, name), extent, reduce);
        if (kiln_parse_accept(ps, ")")) return;
        if (!kiln_lexer_is(&ps->lx, "|")) kiln_parse_expect(ps, ",");
        if (reduce && kiln_lexer_is(&ps->lx, "|"))
            KILN_PARSE_FAIL(ps, "reduce iterators are listed once");
    }
}

static kiln_combiner parse_combiner(kiln_parser *ps) {
    int word = find_word(ps, kiln_combiner_word, KILN_COMBINE_COUNT);
    if (word > 0) kiln_lexer_next(&ps->lx);
    kiln_parse_expect(ps, "=");
    return word > 0 ? (kiln_combiner)word : KILN_COMBINE_NONE;
}

static void parse_block(kiln_parser *ps) {
    kiln_parse_expect(ps, "block");
    kiln_str name = kiln_parse_name(ps);
    if (!ps->status && kiln_program_find_block(ps->p, name))
        KILN_PARSE_FAIL(ps, "there are two blocks named '%.*s'", KILN_STR_ARG(name));
    if (ps->p->block.count > KILN_PROGRAM_BLOCKS_MAX)
        KILN_PARSE_FAIL(ps, "more than %d blocks", KILN_PROGRAM_BLOCKS_MAX);
    if (ps->status) return;
    kiln_block block = kiln_block_create(ps->p, name);
    kiln_expr index[KILN_RANK_MAX];
    kiln_parse_expect(ps, "(");
    parse_iters(ps, block);
    if (kiln_parse_accept(ps, "of")) {
        kiln_str of = kiln_parse_name(ps);
        kiln_block reduction = ps->status ? 0 : kiln_program_find_block(ps->p, of);
        if (!reduction || reduction == block)
            KILN_PARSE_FAIL(ps, "no block named '%.*s' comes before", KILN_STR_ARG(of));
        ps->p->block.data[block].init_of = reduction;
    }
    kiln_parse_expect(ps, ":");
    kiln_buffer buffer = kiln_parse_find_buffer(ps, kiln_parse_name(ps));
    ps->block = block;
    uint32_t index_count = kiln_parse_index(ps, buffer, index);
    kiln_combiner combiner = parse_combiner(ps);
    kiln_dtype dtype = ps->p->buffer.data[buffer].dtype;
    kiln_expr value = kiln_parse_expr(ps, dtype);
    bool without = combiner != KILN_COMBINE_NONE && kiln_parse_accept(ps, "without");
    kiln_expr init = 0;
    if (without) {
        kiln_parse_expect(ps, "init");
    } else if (combiner != KILN_COMBINE_NONE && kiln_parse_accept(ps, "init")) {
        init = kiln_parse_expr(ps, dtype);
    }
    ps->block = 0;
    if (!ps->status && combiner != KILN_COMBINE_NONE && dtype == KILN_BOOL &&
        combiner != KILN_COMBINE_MAX && combiner != KILN_COMBINE_MIN)
        KILN_PARSE_FAIL(ps, "bool is reduced by max or min");
    if (ps->status) return;
    kiln_block_set(ps->p, block, buffer, index, index_count, combiner, value, init);
    if (without) ps->p->block.data[block].init = 0;
    expect_line_end(ps);
}

/* ---- statements ------------------------------------------------------------------ */

static void parse_body(kiln_parser *ps, kiln_stmt parent, uint32_t depth);

/* Siblings may share a variable; its range then covers both. */
static kiln_var loop_var(kiln_parser *ps, kiln_str name, int64_t first, int64_t extent) {
    int64_t last = extent > 0 ? first + extent - 1 : first;
    for (uint32_t i = 0; i < ps->loop_count; i++)
        if (kiln_str_equal(ps->p->var.data[ps->loop[i]].name, name))
            KILN_PARSE_FAIL(ps, "loop '%.*s' is inside itself", KILN_STR_ARG(name));
    kiln_stmt same = ps->status ? 0 : kiln_program_find_loop(ps->p, name);
    if (!same) return ps->status ? 0 : kiln_var_create(ps->p, name, first, last);
    kiln_var var = ps->p->stmt.data[same].var;
    const kiln_var_info *info = &ps->p->var.data[var];
    kiln_var_set_range(ps->p, var, KILN_MIN(info->low, first), KILN_MAX(info->high, last));
    return var;
}

/* A new statement with what `info` says; 0 after an error. */
static kiln_stmt add_stmt(kiln_parser *ps, kiln_stmt parent, kiln_stmt_info info) {
    if (ps->p->stmt.count >= KILN_PROGRAM_STMTS_MAX)
        KILN_PARSE_FAIL(ps, "more than %d statements", KILN_PROGRAM_STMTS_MAX);
    if (ps->status) return 0;
    kiln_stmt stmt = kiln_stmt_create(ps->p, (kiln_stmt_kind)info.kind);
    ps->p->stmt.data[stmt] = info;
    kiln_stmt_append(ps->p, parent, stmt);
    return stmt;
}

/* @key(value), or @"key=value" of a remark. */
static void parse_attribute_of(kiln_parser *ps, kiln_stmt stmt) {
    kiln_str key = ps->lx.token;
    kiln_attribute a = {.id = KILN_ATTRIBUTE_REMARK};
    if (ps->lx.kind == KILN_TOKEN_QUOTED) {
        kiln_lexer_next(&ps->lx);
        a = kiln_attribute_from(ps->p, key);
    } else {
        kiln_parse_name(ps);
        kiln_parse_expect(ps, "(");
        kiln_str value = kiln_parse_name(ps);
        if (!ps->status && !kiln_attribute_parse(ps->p, key, value, &a))
            KILN_PARSE_FAIL(ps, "there is no attribute '%.*s' of '%.*s'", KILN_STR_ARG(key),
                            KILN_STR_ARG(value));
        kiln_parse_expect(ps, ")");
    }
    if (!ps->status) kiln_stmt_set_attribute(ps->p, stmt, a);
}

static void parse_attributes(kiln_parser *ps, kiln_stmt stmt) {
    while (kiln_parse_accept(ps, "@")) parse_attribute_of(ps, stmt);
}

/* Adds a statement, with its attributes and the end of its line. */
static void add_line(kiln_parser *ps, kiln_stmt parent, kiln_stmt_info info) {
    parse_attributes(ps, add_stmt(ps, parent, info));
    expect_line_end(ps);
}

/* Adds a statement, with its attributes, the colon, and the indented body. */
static void add_nest(kiln_parser *ps, kiln_stmt parent, kiln_stmt_info info, uint32_t depth) {
    kiln_stmt stmt = add_stmt(ps, parent, info);
    parse_attributes(ps, stmt);
    kiln_parse_expect(ps, ":");
    expect_line_end(ps);
    if (!ps->status) parse_body(ps, stmt, depth + 1);
}

static kiln_loop_axis parse_axis(kiln_parser *ps) {
    kiln_loop_axis axis = KILN_AXIS_NONE;
    kiln_parse_expect(ps, "(");
    kiln_str name = kiln_parse_name(ps);
    if (!ps->status && !kiln_loop_axis_find(name, &axis))
        KILN_PARSE_FAIL(ps, "'%.*s' is no axis", KILN_STR_ARG(name));
    kiln_parse_expect(ps, ")");
    return axis;
}

static void parse_for(kiln_parser *ps, kiln_stmt parent, uint32_t depth) {
    kiln_loop_kind kind =
        (kiln_loop_kind)expect_word(ps, kiln_loop_word, KILN_LOOP_KIND_COUNT, "a loop");
    kiln_loop_axis axis = kind == KILN_LOOP_BIND ? parse_axis(ps) : KILN_AXIS_NONE;
    kiln_str name = kiln_parse_name(ps);
    kiln_parse_expect(ps, "in");
    int64_t first = 0;
    int64_t end = expect_int(ps, -KILN_EXTENT_MAX, KILN_EXTENT_MAX);
    if (kiln_parse_accept(ps, "..")) {
        first = end;
        end = expect_int(ps, first, KILN_EXTENT_MAX);
    }
    if (end < first) KILN_PARSE_FAIL(ps, "the loop ends before it begins");
    kiln_var var = loop_var(ps, name, first, end - first);
    if (ps->status) return;
    ps->loop[ps->loop_count++] = var;
    add_nest(ps, parent,
             (kiln_stmt_info){.kind = KILN_STMT_FOR,
                              .loop_kind = (uint8_t)kind,
                              .axis = (uint8_t)axis,
                              .var = var,
                              .first = first,
                              .extent = end - first},
             depth);
    ps->loop_count--;
}

static void parse_binding(kiln_parser *ps, kiln_block_info *b) {
    kiln_str name = kiln_parse_name(ps);
    kiln_parse_expect(ps, "=");
    kiln_iter *iter = NULL;
    for (uint32_t i = 0; !ps->status && i < b->iter_count; i++)
        if (kiln_str_equal(kiln_iter_name(ps->p, &b->iter[i]), name)) iter = &b->iter[i];
    if (!iter)
        KILN_PARSE_FAIL(ps, "block '%.*s' has no iterator '%.*s'", KILN_STR_ARG(b->name),
                        KILN_STR_ARG(name));
    if (!ps->status && iter->binding)
        KILN_PARSE_FAIL(ps, "iterator '%.*s' is bound twice", KILN_STR_ARG(name));
    kiln_expr binding = kiln_parse_expr(ps, KILN_INDEX_DTYPE);
    if (!ps->status) iter->binding = binding;
}

static void parse_block_stmt(kiln_parser *ps, kiln_stmt parent) {
    kiln_str name = kiln_parse_name(ps);
    kiln_block block = ps->status ? 0 : kiln_program_find_block(ps->p, name);
    if (!block) KILN_PARSE_FAIL(ps, "no block named '%.*s'", KILN_STR_ARG(name));
    kiln_stmt stmt =
        add_stmt(ps, parent, (kiln_stmt_info){.kind = KILN_STMT_BLOCK, .block = block});
    if (ps->status) return;
    kiln_block_info *b = &ps->p->block.data[block];
    kiln_parse_expect(ps, "(");
    if (!kiln_parse_accept(ps, ")")) {
        do {
            parse_binding(ps, b);
        } while (kiln_parse_accept(ps, ","));
        kiln_parse_expect(ps, ")");
    }
    if (kiln_parse_accept(ps, "if")) b->predicate = kiln_parse_expr(ps, KILN_BOOL);
    parse_attributes(ps, stmt);
    expect_line_end(ps);
}

/* access = value: of a store, or of a copy whose "copy(TOKEN)" has been read. */
static void parse_store(kiln_parser *ps, kiln_stmt parent, kiln_stmt_kind kind, int64_t token) {
    kiln_stmt_info info = {.kind = (uint8_t)kind, .token = (uint8_t)token};
    info.buffer = kiln_parse_find_buffer(ps, kiln_parse_name(ps));
    info.index_count = kiln_parse_index(ps, info.buffer, info.index);
    kiln_parse_expect(ps, "=");
    info.value = kiln_parse_expr(ps, ps->p->buffer.data[info.buffer].dtype);
    add_line(ps, parent, info);
}

/* "copy(0) access = load", "commit(0)", "wait(0, 1)": behind the word. */
static void parse_copy(kiln_parser *ps, kiln_stmt parent, kiln_stmt_kind kind) {
    kiln_parse_expect(ps, "(");
    int64_t token = expect_int(ps, 0, KILN_COPY_TOKENS_MAX - 1), pending = 0;
    if (kind == KILN_STMT_WAIT) {
        kiln_parse_expect(ps, ",");
        pending = expect_int(ps, 0, KILN_COPY_PENDING_MAX);
    }
    kiln_parse_expect(ps, ")");
    if (kind == KILN_STMT_COPY) {
        parse_store(ps, parent, kind, token);
        return;
    }
    add_stmt(ps, parent,
             (kiln_stmt_info){
                 .kind = (uint8_t)kind, .token = (uint8_t)token, .pending = (uint8_t)pending});
    expect_line_end(ps);
}

/* "token push load compute at k + 1 of 4", behind the first word; the number may be missing. */
static void parse_token(kiln_parser *ps, kiln_stmt parent) {
    kiln_stmt_info info = {.kind = KILN_STMT_TOKEN_PUSH};
    if (!kiln_parse_accept(ps, "push")) {
        kiln_parse_expect(ps, "pop");
        info.kind = KILN_STMT_TOKEN_POP;
    }
    info.from = (uint8_t)expect_word(ps, kiln_unit_word, KILN_UNIT_COUNT, "a unit");
    info.to = (uint8_t)expect_word(ps, kiln_unit_word, KILN_UNIT_COUNT, "a unit");
    if (kiln_parse_accept(ps, "at")) {
        info.value = kiln_parse_expr(ps, KILN_INDEX_DTYPE);
        kiln_parse_expect(ps, "of");
        info.pending = (uint8_t)expect_int(ps, 1, KILN_PIPELINE_STAGES_MAX);
    }
    add_stmt(ps, parent, info);
    expect_line_end(ps);
}

/* A store may be to a buffer with any name, so the text behind the first word decides. */
static bool is_store(const kiln_parser *ps) {
    kiln_lexer ahead = ps->lx;
    if (ahead.kind == KILN_TOKEN_QUOTED) return true;
    kiln_lexer_next(&ahead);
    return kiln_lexer_is(&ahead, "[");
}

static void parse_stmt(kiln_parser *ps, kiln_stmt parent, uint32_t depth) {
    kiln_stmt_info info = {.kind = KILN_STMT_IF};
    if (is_store(ps)) {
        parse_store(ps, parent, KILN_STMT_STORE, 0);
    } else if (find_word(ps, kiln_loop_word, KILN_LOOP_KIND_COUNT) >= 0) {
        parse_for(ps, parent, depth);
    } else if (kiln_parse_accept(ps, "block")) {
        parse_block_stmt(ps, parent);
    } else if (kiln_parse_accept(ps, "if")) {
        info.condition = kiln_parse_expr(ps, KILN_BOOL);
        add_nest(ps, parent, info, depth);
    } else if (kiln_parse_accept(ps, "alloc")) {
        info.kind = KILN_STMT_ALLOC;
        info.buffer = kiln_parse_find_buffer(ps, kiln_parse_name(ps));
        add_nest(ps, parent, info, depth);
    } else if (kiln_parse_accept(ps, "token")) {
        parse_token(ps, parent);
    } else if (kiln_parse_accept(ps, "copy")) {
        parse_copy(ps, parent, KILN_STMT_COPY);
    } else if (kiln_parse_accept(ps, "commit")) {
        parse_copy(ps, parent, KILN_STMT_COMMIT);
    } else if (kiln_parse_accept(ps, "wait")) {
        parse_copy(ps, parent, KILN_STMT_WAIT);
    } else if (kiln_parse_accept(ps, "barrier")) {
        info.kind = KILN_STMT_BARRIER;
        add_stmt(ps, parent, info);
        expect_line_end(ps);
    } else {
        KILN_PARSE_FAIL(ps, "a statement is expected here");
    }
}

/* Every line of indent 2*depth, into `parent`. Only the whole program may be empty. */
static void parse_body(kiln_parser *ps, kiln_stmt parent, uint32_t depth) {
    if (depth >= KILN_PROGRAM_DEPTH_MAX)
        KILN_PARSE_FAIL(ps, "statements are nested more than %d deep", KILN_PROGRAM_DEPTH_MAX);
    uint32_t count = 0;
    while (!ps->status && !ps->lx.at_end && ps->lx.indent >= 2 * depth) {
        if (ps->lx.indent > 2 * depth)
            KILN_PARSE_FAIL(ps, "the line should be indented by %u spaces", 2 * depth);
        if (!ps->status) parse_stmt(ps, parent, depth);
        count++;
    }
    if (count == 0 && depth > 1) KILN_PARSE_FAIL(ps, "an indented body is expected here");
}

/* ---- programs -------------------------------------------------------------------- */

static void parse_program(kiln_parser *ps, kiln_arena *arena) {
    kiln_lexer_next_line(&ps->lx);
    ps->p =
        kiln_program_create(arena, KILN_STR("")); /* never NULL, so that errors need no checks */
    kiln_parse_expect(ps, "program");
    kiln_str name = kiln_parse_name(ps);
    expect_line_end(ps);
    if (ps->status) return;
    ps->p->name = kiln_str_copy(arena, name);
    while (!ps->status && find_word(ps, kiln_role_word, KILN_ROLE_TEMP + 1) >= 0) parse_buffer(ps);
    while (!ps->status && kiln_lexer_is(&ps->lx, "block")) parse_block(ps);
    if (!ps->status && !ps->lx.at_end) {
        kiln_parse_expect(ps, "loops");
        kiln_parse_expect(ps, ":");
        expect_line_end(ps);
        ps->p->root = kiln_stmt_create(ps->p, KILN_STMT_SEQ);
        parse_body(ps, ps->p->root, 1);
    }
    if (!ps->lx.at_end) KILN_PARSE_FAIL(ps, "nothing more is expected here");
}

kiln_status kiln_program_parse(kiln_str text, kiln_arena *arena, kiln_program **out_program) {
    if (text.size > KILN_PROGRAM_TEXT_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "the program's text is above %zu bytes",
                          KILN_PROGRAM_TEXT_MAX);
    kiln_parser ps = {.p = NULL};
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
