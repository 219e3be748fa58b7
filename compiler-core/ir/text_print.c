/* Programs as text: docs/reference/loop-text.md. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/ir/scalar.h"
#include "compiler-core/ir/text.h"

const char *const kiln_role_word[] = {
    [KILN_ROLE_INPUT] = "input",   [KILN_ROLE_CONSTANT] = "constant", [KILN_ROLE_OUTPUT] = "output",
    [KILN_ROLE_PACKED] = "packed", [KILN_ROLE_TEMP] = "temp",
};
const char *const kiln_loop_word[] = {
    [KILN_LOOP_SERIAL] = "for",          [KILN_LOOP_PARALLEL] = "parallel",
    [KILN_LOOP_VECTORIZE] = "vectorize", [KILN_LOOP_UNROLL] = "unroll",
    [KILN_LOOP_BIND] = "bind",           [KILN_LOOP_VTHREAD] = "vthread",
};
const char *const kiln_combiner_word[] = {
    [KILN_COMBINE_NONE] = "",   [KILN_COMBINE_SUM] = "sum", [KILN_COMBINE_PROD] = "prod",
    [KILN_COMBINE_MAX] = "max", [KILN_COMBINE_MIN] = "min",
};
const char *const kiln_fill_word[] = {
    [KILN_FILL_UNIFORM] = "uniform",
    [KILN_FILL_POSITIVE] = "positive",
    [KILN_FILL_ZERO] = "zero",
};
_Static_assert(KILN_ARRAY_COUNT(kiln_loop_word) == KILN_LOOP_KIND_COUNT, "one word per loop kind");
_Static_assert(KILN_ARRAY_COUNT(kiln_combiner_word) == KILN_COMBINE_COUNT, "one word per combiner");

/* ---- names ----------------------------------------------------------------------- */

static bool starts_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool continues_name(char c) {
    return starts_name(c) || (c >= '0' && c <= '9') || c == '.' || c == '\'';
}

bool kiln_name_is_plain(kiln_str name) {
    static const char *const literal[] = {"true", "false", "inf", "nan"};
    if (name.size == 0 || !starts_name(name.data[0])) return false;
    for (size_t i = 1; i < name.size; i++)
        if (!continues_name(name.data[i])) return false;
    for (size_t i = 0; i < KILN_ARRAY_COUNT(literal); i++)
        if (kiln_str_is(name, literal[i])) return false;
    return true;
}

static void print_quoted(kiln_strbuf *out, kiln_str text) {
    kiln_strbuf_char(out, '"');
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c == '"' || c == '\\') {
            kiln_strbuf_printf(out, "\\%c", c);
        } else if (c < 0x20 || c == 0x7f) {
            kiln_strbuf_printf(out, "\\x%02x", c);
        } else {
            kiln_strbuf_char(out, (char)c);
        }
    }
    kiln_strbuf_char(out, '"');
}

void kiln_name_print(kiln_str name, bool always_quoted, kiln_strbuf *out) {
    if (!always_quoted && kiln_name_is_plain(name)) {
        kiln_strbuf_str(out, name);
    } else {
        print_quoted(out, name);
    }
}

static void print_name(kiln_strbuf *out, kiln_str name) { kiln_name_print(name, false, out); }

/* ---- expressions ----------------------------------------------------------------- */

typedef struct printer {
    const kiln_program *p;
    kiln_strbuf *out;
    const kiln_block_info *block; /* whose iterators go by their short names; NULL outside blocks */
    uint32_t
        *part; /* [expressions] number that a shared part was given, 0: none; NULL: no part was */
} printer;

enum { PRECEDENCE_COMPARE = 1, PRECEDENCE_SUM, PRECEDENCE_PRODUCT, PRECEDENCE_PRIMARY };

static void print_expr(const printer *pr, kiln_expr e, int precedence);

static void print_buffer_name(const printer *pr, kiln_buffer buffer) {
    print_name(pr->out, pr->p->buffer.data[buffer].name);
}

static void print_var(const printer *pr, kiln_var var) {
    for (uint32_t i = 0; pr->block && i < pr->block->iter_count; i++) {
        if (pr->block->iter[i].var != var) continue;
        print_name(pr->out, kiln_iter_name(pr->p, &pr->block->iter[i]));
        return;
    }
    print_name(pr->out, pr->p->var.data[var].name);
}

static void print_list(const printer *pr, const kiln_expr *item, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (i) kiln_strbuf_text(pr->out, ", ");
        print_expr(pr, item[i], 0);
    }
}

static void print_access(const printer *pr, kiln_buffer buffer, const kiln_expr *index,
                         uint32_t index_count) {
    print_buffer_name(pr, buffer);
    kiln_strbuf_char(pr->out, '[');
    print_list(pr, index, index_count);
    kiln_strbuf_char(pr->out, ']');
}

static void print_int(kiln_strbuf *out, kiln_dtype dtype, int64_t value) {
    if (dtype == KILN_BOOL) {
        kiln_strbuf_text(out, value ? "true" : "false");
    } else if (dtype == KILN_U64) {
        kiln_strbuf_printf(out, "%lluu64", (unsigned long long)value);
    } else {
        kiln_strbuf_printf(out, "%lld%s", (long long)value,
                           dtype == KILN_INDEX_DTYPE ? "" : kiln_dtype_name(dtype));
    }
}

/* Shortest form that a reader cannot take for an integer; f32 is the dtype of a bare float literal.
 */
static void print_float(kiln_strbuf *out, kiln_dtype dtype, double value) {
    if (!isfinite(value)) {
        const char *word = isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
        kiln_strbuf_printf(out, dtype == KILN_F32 ? "%s" : "%s(%s)",
                           dtype == KILN_F32 ? word : kiln_dtype_name(dtype), word);
        return;
    }
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        double back = 0;
        if (!kiln_str_to_f64(kiln_str_from(text), &back)) continue;
        if (kiln_scalar_round(dtype, (kiln_scalar){.f = back}).f == value) break;
    }
    kiln_strbuf_printf(out, "%s%s%s", text, strpbrk(text, ".e") ? "" : ".0",
                       dtype == KILN_F32 ? "" : kiln_dtype_name(dtype));
}

static void print_infix(const printer *pr, kiln_expr e, int outer) {
    const kiln_expr_node *node = kiln_expr_get(pr->p, e);
    bool compare = kiln_expr_op_table[node->op].class == KILN_CLASS_COMPARE;
    bool product = node->op == KILN_EXPR_MUL || node->op == KILN_EXPR_DIV;
    int own = compare ? PRECEDENCE_COMPARE : product ? PRECEDENCE_PRODUCT : PRECEDENCE_SUM;
    kiln_expr right = kiln_expr_operand(pr->p, e, 1);
    const char *text = kiln_expr_op_table[node->op].text;

    if (own <= outer) kiln_strbuf_char(pr->out, '(');
    print_expr(pr, kiln_expr_operand(pr->p, e, 0), compare ? own : own - 1);
    int64_t constant = 0;
    bool minus = node->op == KILN_EXPR_ADD && kiln_expr_as_int(pr->p, right, &constant) &&
                 constant < 0 && constant != INT64_MIN;
    if (product) {
        kiln_strbuf_text(pr->out, text);
    } else {
        kiln_strbuf_printf(pr->out, " %s ", minus ? "-" : text);
    }
    if (minus) {
        print_int(pr->out, (kiln_dtype)node->dtype, -constant);
    } else {
        print_expr(pr, right, own);
    }
    if (own <= outer) kiln_strbuf_char(pr->out, ')');
}

/* Writes e, in parentheses if it binds no tighter than `outer`. */
static void print_expr(const printer *pr, kiln_expr e, int outer) {
    const kiln_expr_node *node = kiln_expr_get(pr->p, e);
    const kiln_expr_op_info *info = &kiln_expr_op_table[node->op];
    const kiln_expr *operand = pr->p->operand.data + node->first_operand;
    if (pr->part && pr->part[e]) {
        kiln_strbuf_printf(pr->out, "$%u", pr->part[e]);
        return;
    }
    switch (info->class) {
    case KILN_CLASS_LEAF:
        if (node->op == KILN_EXPR_VAR) {
            print_var(pr, node->payload.id);
        } else if (node->op == KILN_EXPR_INT) {
            print_int(pr->out, (kiln_dtype)node->dtype, node->payload.i);
        } else {
            print_float(pr->out, (kiln_dtype)node->dtype, node->payload.f);
        }
        return;
    case KILN_CLASS_LOAD: print_access(pr, node->payload.id, operand, node->operand_count); return;
    case KILN_CLASS_BINARY:
    case KILN_CLASS_COMPARE: print_infix(pr, e, outer); return;
    case KILN_CLASS_CALLED:
    case KILN_CLASS_CAST:
        kiln_strbuf_printf(pr->out, "%s(",
                           info->class == KILN_CLASS_CAST ? kiln_dtype_name((kiln_dtype)node->dtype)
                                                          : info->text);
        print_list(pr, operand, node->operand_count);
        kiln_strbuf_char(pr->out, ')');
        return;
    }
}

/* `left` less the parts of e; stops at 0. */
static uint32_t subtract_parts(const kiln_program *p, kiln_expr e, uint32_t left) {
    const kiln_expr_node *node = kiln_expr_get(p, e);
    left -= left > 0;
    for (uint32_t i = 0; i < node->operand_count && left > 0; i++)
        left = subtract_parts(p, kiln_expr_operand(p, e, i), left);
    return left;
}

/* Counts the uses of each part of e. */
static void count_uses(const kiln_program *p, kiln_expr e, uint32_t *uses) {
    if (uses[e]++) return;
    for (uint32_t i = 0; i < kiln_expr_get(p, e)->operand_count; i++)
        count_uses(p, kiln_expr_operand(p, e, i), uses);
}

/* "$1 = ..., $2 = ..." for the parts below e that are used several times, operands before users. */
static void print_shared(printer *pr, kiln_expr e, uint32_t *uses, uint32_t *count) {
    const kiln_expr_node *node = kiln_expr_get(pr->p, e);
    const bool shared = uses[e] > 1 && node->operand_count > 0;
    if (uses[e] == 0) return; /* printed, or looked at */
    uses[e] = 0;
    for (uint32_t i = 0; i < node->operand_count; i++)
        print_shared(pr, kiln_expr_operand(pr->p, e, i), uses, count);
    if (!shared) return;
    kiln_strbuf_printf(pr->out, "%s$%u = ", *count ? ", " : "[", *count + 1);
    print_expr(pr, e, 0);
    pr->part[e] = ++*count;
}

/* A whole expression. One too large to be read back shares parts that are used many times; those
 * are written once, in brackets before it. */
static void print_whole(const printer *pr, kiln_expr e) {
    if (subtract_parts(pr->p, e, KILN_EXPR_TEXT_NODES_MAX + 1) > 0) {
        print_expr(pr, e, 0);
        return;
    }
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    printer shared = *pr;
    uint32_t *uses = KILN_ARENA_ARRAY(&scratch, uint32_t, pr->p->expr.count), count = 0;
    shared.part = KILN_ARENA_ARRAY(&scratch, uint32_t, pr->p->expr.count);
    count_uses(pr->p, e, uses);
    print_shared(&shared, e, uses, &count);
    if (count) kiln_strbuf_text(pr->out, "] ");
    print_expr(&shared, e, 0);
    kiln_arena_deinit(&scratch);
}

void kiln_expr_print(const kiln_program *p, kiln_expr e, kiln_strbuf *out) {
    printer pr = {.p = p, .out = out};
    if (e) print_whole(&pr, e);
}

/* ---- buffers and blocks ---------------------------------------------------------- */

static void print_buffer(const printer *pr, kiln_buffer buffer) {
    const kiln_buffer_info *b = &pr->p->buffer.data[buffer];
    kiln_strbuf_printf(pr->out, "%s ", kiln_role_word[b->role]);
    print_buffer_name(pr, buffer);
    kiln_strbuf_printf(pr->out, ": %s", kiln_dtype_name(b->dtype));
    kiln_shape_print(&b->shape, pr->out);
    if (b->pinned || !kiln_layout_is_identity(&b->layout)) {
        kiln_strbuf_text(pr->out, b->pinned ? " pinned(" : " layout(");
        kiln_layout_print(&b->layout, pr->out);
        kiln_strbuf_char(pr->out, ')');
    }
    if (b->scope != KILN_SCOPE_GLOBAL)
        kiln_strbuf_printf(pr->out, " scope(%s)", kiln_scopes[b->scope].text);
    if (b->is_placed) kiln_strbuf_printf(pr->out, " at(%llu)", (unsigned long long)b->offset);
    if (b->fill != KILN_FILL_UNIFORM)
        kiln_strbuf_printf(pr->out, " fill(%s)", kiln_fill_word[b->fill]);
    if (b->range.step) {
        kiln_strbuf_printf(pr->out, " range(%lld, %lld", (long long)b->range.low,
                           (long long)b->range.high);
        if (b->range.step > 1) kiln_strbuf_printf(pr->out, ", %lld", (long long)b->range.step);
        kiln_strbuf_char(pr->out, ')');
    }
    if (b->scale != 0) kiln_strbuf_printf(pr->out, " scale(%.17g, %d)", b->scale, b->zero_point);
    kiln_strbuf_char(pr->out, '\n');
}

static void print_iters(const printer *pr, const kiln_block_info *b, bool reduce) {
    bool first = true;
    for (uint32_t i = 0; i < b->iter_count; i++) {
        if (b->iter[i].reduce != reduce) continue;
        kiln_strbuf_text(pr->out, first ? (reduce ? " | " : "") : ", ");
        print_var(pr, b->iter[i].var);
        kiln_strbuf_printf(pr->out, ":%lld", (long long)b->iter[i].extent);
        first = false;
    }
}

static void print_init(const printer *pr, const kiln_block_info *b) {
    if (b->combiner == KILN_COMBINE_NONE) return;
    if (!b->init) {
        kiln_strbuf_text(pr->out, " without init");
        return;
    }
    kiln_strbuf_text(pr->out, " init ");
    print_whole(pr, b->init);
}

static void print_block(printer *pr, kiln_block block) {
    const kiln_block_info *b = &pr->p->block.data[block];
    kiln_strbuf_text(pr->out, "block ");
    print_name(pr->out, b->name);
    pr->block = b;
    kiln_strbuf_char(pr->out, '(');
    print_iters(pr, b, false);
    print_iters(pr, b, true);
    kiln_strbuf_char(pr->out, ')');
    if (b->init_of) {
        kiln_strbuf_text(pr->out, " of ");
        print_name(pr->out, pr->p->block.data[b->init_of].name);
    }
    kiln_strbuf_text(pr->out, ": ");
    print_access(pr, b->buffer, b->index, b->index_count);
    kiln_strbuf_printf(pr->out, " %s= ", kiln_combiner_word[b->combiner]);
    print_whole(pr, b->value);
    print_init(pr, b);
    kiln_strbuf_char(pr->out, '\n');
    pr->block = NULL;
}

/* ---- statements ------------------------------------------------------------------ */

static void print_stmt(const printer *pr, kiln_stmt stmt, uint32_t depth);

static void print_for(const printer *pr, const kiln_stmt_info *s) {
    kiln_strbuf_text(pr->out, kiln_loop_word[s->loop_kind]);
    if (s->loop_kind == KILN_LOOP_BIND)
        kiln_strbuf_printf(pr->out, "(%s)", kiln_axes[s->axis].text);
    kiln_strbuf_char(pr->out, ' ');
    print_var(pr, s->var);
    kiln_strbuf_text(pr->out, " in ");
    if (s->first) kiln_strbuf_printf(pr->out, "%lld..", (long long)s->first);
    kiln_strbuf_printf(pr->out, "%lld", (long long)(s->first + s->extent));
}

static void print_block_stmt(const printer *pr, const kiln_stmt_info *s) {
    const kiln_block_info *b = &pr->p->block.data[s->block];
    kiln_strbuf_text(pr->out, "block ");
    print_name(pr->out, b->name);
    kiln_strbuf_char(pr->out, '(');
    const char *separator = "";
    for (int reduce = 0; reduce < 2; reduce++) {
        for (uint32_t i = 0; i < b->iter_count; i++) {
            if (b->iter[i].reduce != reduce) continue;
            kiln_strbuf_text(pr->out, separator);
            print_name(pr->out, kiln_iter_name(pr->p, &b->iter[i]));
            kiln_strbuf_char(pr->out, '=');
            if (b->iter[i].binding) print_whole(pr, b->iter[i].binding);
            separator = ", ";
        }
    }
    kiln_strbuf_char(pr->out, ')');
    if (b->predicate) {
        kiln_strbuf_text(pr->out, " if ");
        print_whole(pr, b->predicate);
    }
}

/* The statement's own line, without its end. */
static void print_head(const printer *pr, const kiln_stmt_info *s) {
    switch ((kiln_stmt_kind)s->kind) {
    case KILN_STMT_FOR: print_for(pr, s); break;
    case KILN_STMT_BLOCK: print_block_stmt(pr, s); break;
    case KILN_STMT_IF:
        kiln_strbuf_text(pr->out, "if ");
        print_whole(pr, s->condition);
        break;
    case KILN_STMT_ALLOC:
        kiln_strbuf_text(pr->out, "alloc ");
        print_buffer_name(pr, s->buffer);
        break;
    case KILN_STMT_STORE:
    case KILN_STMT_COPY:
        if (s->kind == KILN_STMT_COPY) kiln_strbuf_printf(pr->out, "copy(%u) ", s->token);
        print_access(pr, s->buffer, s->index, s->index_count);
        kiln_strbuf_text(pr->out, " = ");
        print_whole(pr, s->value);
        break;
    case KILN_STMT_BARRIER: kiln_strbuf_text(pr->out, "barrier"); break;
    case KILN_STMT_COMMIT: kiln_strbuf_printf(pr->out, "commit(%u)", s->token); break;
    case KILN_STMT_WAIT: kiln_strbuf_printf(pr->out, "wait(%u, %u)", s->token, s->pending); break;
    case KILN_STMT_TOKEN_PUSH:
    case KILN_STMT_TOKEN_POP:
        kiln_strbuf_printf(pr->out, "token %s %s %s",
                           s->kind == KILN_STMT_TOKEN_PUSH ? "push" : "pop",
                           kiln_unit_word[s->from], kiln_unit_word[s->to]);
        if (!s->value) break;
        kiln_strbuf_text(pr->out, " at ");
        print_whole(pr, s->value);
        kiln_strbuf_printf(pr->out, " of %u", s->pending);
        break;
    case KILN_STMT_SEQ:
    case KILN_STMT_KIND_COUNT: break;
    }
}

static void print_attribute(const printer *pr, const kiln_attribute *a) {
    kiln_str value = kiln_attribute_value(pr->p, a);
    bool is_remark = a->id == KILN_ATTRIBUTE_REMARK;
    kiln_strbuf_printf(pr->out, " @%s", is_remark ? "" : kiln_attribute_word[a->id]);
    if (!is_remark) kiln_strbuf_char(pr->out, '(');
    kiln_name_print(value, is_remark, pr->out);
    if (!is_remark) kiln_strbuf_char(pr->out, ')');
}

static void print_children(const printer *pr, const kiln_stmt_info *s, uint32_t depth) {
    for (uint32_t i = 0; i < s->child.count; i++) print_stmt(pr, s->child.data[i], depth);
}

static void print_stmt(const printer *pr, kiln_stmt stmt, uint32_t depth) {
    const kiln_stmt_info *s = &pr->p->stmt.data[stmt];
    if (s->kind == KILN_STMT_SEQ) {
        print_children(pr, s, depth);
        return;
    }
    kiln_strbuf_printf(pr->out, "%*s", (int)(2 * depth), "");
    print_head(pr, s);
    for (uint32_t i = 0; i < s->attribute.count; i++) print_attribute(pr, &s->attribute.data[i]);
    bool has_body =
        s->kind == KILN_STMT_FOR || s->kind == KILN_STMT_IF || s->kind == KILN_STMT_ALLOC;
    kiln_strbuf_text(pr->out, has_body ? ":\n" : "\n");
    print_children(pr, s, depth + 1);
}

/* ---- programs -------------------------------------------------------------------- */

/* Temps that nothing uses any more (an inlined block's buffer) are not part of the text. */
static void find_used_buffers(const kiln_program *p, bool *used) {
    for (kiln_buffer b = 1; b < p->buffer.count; b++)
        used[b] = p->buffer.data[b].role != KILN_ROLE_TEMP;
    for (kiln_block b = 1; b < p->block.count; b++)
        if (!p->block.data[b].removed) used[p->block.data[b].buffer] = true;
    for (kiln_stmt s = 1; s < p->stmt.count; s++)
        if (p->stmt.data[s].buffer && kiln_stmt_is_inside(p, s, p->root))
            used[p->stmt.data[s].buffer] = true;
}

void kiln_program_print(const kiln_program *p, kiln_strbuf *out) {
    printer pr = {.p = p, .out = out};
    bool *used = kiln_alloc(p->buffer.count);
    find_used_buffers(p, used);
    kiln_strbuf_text(out, "program ");
    print_name(out, p->name);
    kiln_strbuf_char(out, '\n');
    for (kiln_buffer b = 1; b < p->buffer.count; b++)
        if (used[b]) print_buffer(&pr, b);
    kiln_free(used);
    for (kiln_block b = 1; b < p->block.count; b++)
        if (!p->block.data[b].removed) print_block(&pr, b);
    if (!p->root) return;
    kiln_strbuf_text(out, "loops:\n");
    print_stmt(&pr, p->root, 1);
}

kiln_hash128 kiln_program_hash(const kiln_program *p) {
    kiln_strbuf text = {0};
    kiln_program_print(p, &text);
    kiln_hash128 hash = kiln_hash128_of(text.data, text.size);
    kiln_strbuf_deinit(&text);
    return hash;
}
