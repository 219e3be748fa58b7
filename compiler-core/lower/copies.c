/* copies: stores that `pipeline` marked become asynchronous copies, which complete at their wait or
 * earlier. This pass comes last, so that those before it see stores only. Of a fetch with a fill
 * value, the elements inside the source are copied and the others stored. A marked store that
 * cannot be a copy stays a store; it completes before any wait for it. */
#include "compiler-core/ir/device.h"
#include "compiler-core/lower/pass.h"

static void make_copy(kiln_program *p, kiln_stmt stmt, uint8_t token) {
    p->stmt.data[stmt].kind = KILN_STMT_COPY;
    p->stmt.data[stmt].token = token;
}

static bool is_load_of_device(const kiln_program *p, kiln_expr e) {
    const kiln_expr_node *node = kiln_expr_get(p, e);
    return node->op == KILN_EXPR_LOAD &&
           p->buffer.data[node->payload.id].scope == KILN_SCOPE_GLOBAL;
}

static void put_under(kiln_program *p, kiln_stmt stmt, kiln_expr condition, kiln_expr value) {
    kiln_stmt branch = kiln_stmt_create(p, KILN_STMT_IF);
    p->stmt.data[branch].condition = condition;
    p->stmt.data[stmt].value = value;
    kiln_stmt_wrap(p, stmt, branch);
}

/* select(condition, load, fill): if condition: copy; if not: store. */
static void copy_where_it_is(kiln_program *p, kiln_stmt stmt, uint8_t token) {
    const kiln_expr value = p->stmt.data[stmt].value, condition = kiln_expr_operand(p, value, 0);
    const kiln_expr there = kiln_expr_operand(p, value, 1), fill = kiln_expr_operand(p, value, 2);
    kiln_stmt copy = kiln_lower_copy(p, stmt, NULL, 0);
    kiln_lower_put_before(p, stmt, copy);
    put_under(p, copy, condition, there);
    make_copy(p, copy, token);
    put_under(p, stmt, kiln_expr_unary(p, KILN_EXPR_NOT, condition), fill);
}

static void remove_mark(kiln_stmt_info *s) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->attribute.count; i++)
        if (s->attribute.data[i].id != KILN_ATTRIBUTE_ASYNC)
            s->attribute.data[kept++] = s->attribute.data[i];
    s->attribute.count = kept;
}

/* `lane`: of the vectorized loop around it, or NULL. */
static void lower_store(kiln_program *p, kiln_stmt stmt, const kiln_stmt_info *lane) {
    kiln_stmt_info *s = &p->stmt.data[stmt];
    const uint8_t token = (uint8_t)kiln_stmt_attribute(p, stmt, KILN_ATTRIBUTE_ASYNC)->row;
    const size_t bytes =
        kiln_dtype_size(p->buffer.data[s->buffer].dtype) * (lane ? (size_t)lane->extent : 1);
    remove_mark(s);
    if (bytes < KILN_COPY_BYTES_MIN && !kiln_stmt_attribute(p, stmt, KILN_ATTRIBUTE_BOX)) return;
    if (is_load_of_device(p, s->value)) {
        make_copy(p, stmt, token);
        return;
    }
    if (kiln_expr_get(p, s->value)->op != KILN_EXPR_SELECT ||
        !is_load_of_device(p, kiln_expr_operand(p, s->value, 1)))
        return;
    const kiln_expr condition = kiln_expr_operand(p, s->value, 0);
    const bool differs = lane && kiln_expr_uses_var(p, condition, lane->var);
    if (!differs && !kiln_lower_reads(p, condition)) copy_where_it_is(p, stmt, token);
}

static void lower_tree(kiln_program *p, kiln_stmt stmt, const kiln_stmt_info *lane) {
    const kiln_stmt_info s = p->stmt.data[stmt];
    if (s.kind == KILN_STMT_STORE && kiln_stmt_attribute(p, stmt, KILN_ATTRIBUTE_ASYNC))
        lower_store(p, stmt, lane);
    if (s.kind == KILN_STMT_FOR && s.loop_kind == KILN_LOOP_VECTORIZE) lane = &s;
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++) {
        const kiln_stmt child = p->stmt.data[stmt].child.data[i];
        const uint32_t before = p->stmt.data[stmt].child.count;
        lower_tree(p, child, lane);
        i += p->stmt.data[stmt].child.count - before;
    }
}

kiln_status kiln_lower_copies(kiln_lowering *l) {
    if (l->run->root) lower_tree(l->run, l->run->root, NULL);
    if (l->prepare && l->prepare->root) lower_tree(l->prepare, l->prepare->root, NULL);
    return KILN_OK;
}
