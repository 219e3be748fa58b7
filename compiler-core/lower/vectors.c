/* vectors: vectorized loops are cut to the lanes of one or a few instructions. Lanes come in whole
 * hardware vectors; the remainder becomes one vector of the next power of two with a condition on
 * the lane, which the emitter turns into a mask. Lanes that are combined into one element stay
 * together: adding whole vectors comes first. */
#include "base/check.h"
#include "compiler-core/lower/pass.h"

#define LANES_AT_ONCE 4u /* hardware vectors in one loop; the schedule unrolls further */

typedef struct body_use {
    const kiln_program *p;
    size_t element_bytes; /* of the widest buffer accessed */
    bool registers;       /* accesses a REGISTER buffer */
} body_use;

static void use_buffer(body_use *u, kiln_buffer buffer) {
    const kiln_buffer_info *info = &u->p->buffer.data[buffer];
    u->element_bytes = KILN_MAX(u->element_bytes, kiln_dtype_size(info->dtype));
    u->registers |= info->scope == KILN_SCOPE_REGISTER;
}

static void use_load(kiln_program *p, kiln_stmt stmt, kiln_expr load, void *context) {
    (void)stmt;
    use_buffer(context, kiln_expr_get(p, load)->payload.id);
}

static void use_tree(kiln_program *p, kiln_stmt stmt, body_use *u) {
    if (p->stmt.data[stmt].kind == KILN_STMT_STORE) use_buffer(u, p->stmt.data[stmt].buffer);
    kiln_lower_visit_loads(p, stmt, 0, use_load, u);
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++)
        use_tree(p, p->stmt.data[stmt].child.data[i], u);
}

static bool is_power_of_two(int64_t n) { return (n & (n - 1)) == 0; }

/* for i < count: for lane < width (vectorized): a copy of the body with var = first + i * width +
 * lane. */
static kiln_stmt make_vectors(kiln_program *p, kiln_stmt loop, int64_t first, int64_t count,
                              int64_t width, bool unroll) {
    const kiln_stmt_info s = p->stmt.data[loop];
    kiln_str name = p->var.data[s.var].name;
    kiln_var lane = kiln_var_create(p, name, 0, width - 1);
    kiln_var outer = kiln_var_create(p, name, 0, count - 1);
    kiln_expr at =
        kiln_expr_binary(p, KILN_EXPR_MUL, kiln_expr_var(p, outer), kiln_expr_index(p, width));
    at = kiln_expr_binary(p, KILN_EXPR_ADD, at, kiln_expr_var(p, lane));
    at = kiln_expr_binary(p, KILN_EXPR_ADD, at, kiln_expr_index(p, first));
    kiln_stmt body = kiln_lower_copy(p, s.child.data[0], &s.var, at);
    kiln_stmt inner = kiln_stmt_for(p, lane, 0, width, KILN_LOOP_VECTORIZE, body);
    return kiln_stmt_for(p, outer, 0, count, unroll ? KILN_LOOP_UNROLL : KILN_LOOP_SERIAL, inner);
}

/* The rest of a loop, less than a vector. Its lanes are padded to a power of two if nothing depends
 * on their number: register buffers have a fixed number of elements, accesses to memory are
 * masked. */
static kiln_stmt make_rest(kiln_program *p, kiln_stmt loop, int64_t first, int64_t lanes,
                           bool registers) {
    const kiln_stmt_info s = p->stmt.data[loop];
    int64_t width = lanes;
    while (!registers && !is_power_of_two(width)) width++;
    kiln_var lane = kiln_var_create(p, p->var.data[s.var].name, 0, width - 1);
    kiln_expr at =
        kiln_expr_binary(p, KILN_EXPR_ADD, kiln_expr_var(p, lane), kiln_expr_index(p, first));
    kiln_stmt body = kiln_lower_copy(p, s.child.data[0], &s.var, at);
    if (width != lanes) {
        kiln_stmt guard = kiln_stmt_create(p, KILN_STMT_IF);
        p->stmt.data[guard].condition =
            kiln_expr_binary(p, KILN_EXPR_LT, kiln_expr_var(p, lane), kiln_expr_index(p, lanes));
        kiln_stmt_append(p, guard, body);
        body = guard;
    }
    return kiln_stmt_for(p, lane, 0, width, KILN_LOOP_VECTORIZE, body);
}

static void cut_loop(const kiln_lowering *l, kiln_program *p, kiln_stmt loop) {
    body_use use = {.p = p, .element_bytes = 1};
    use_tree(p, loop, &use);
    const kiln_stmt_info s = p->stmt.data[loop];
    int64_t native = KILN_MAX((int64_t)(l->target->vector_bytes / use.element_bytes), 1);
    int64_t most = kiln_stmt_combines_lanes(p, loop)
                       ? KILN_LOWER_LANES_MAX
                       : KILN_MIN(native * LANES_AT_ONCE, KILN_LOWER_LANES_MAX);
    bool whole = s.extent % native == 0 || is_power_of_two(s.extent);
    if (s.extent <= most && (whole || (use.registers && s.extent < native))) return;

    kiln_stmt seq = kiln_stmt_create(p, KILN_STMT_SEQ);
    int64_t vectors = s.extent / native, rest = s.extent % native;
    if (vectors > 0)
        kiln_stmt_append(p, seq, make_vectors(p, loop, s.first, vectors, native, use.registers));
    if (rest > 0)
        kiln_stmt_append(p, seq,
                         make_rest(p, loop, s.first + vectors * native, rest, use.registers));
    kiln_stmt_replace(p, loop, seq);
}

/* Only the outermost of nested vectorized loops becomes lanes. */
static void cut_tree(const kiln_lowering *l, kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    if (s->kind == KILN_STMT_FOR && s->loop_kind == KILN_LOOP_VECTORIZE) {
        cut_loop(l, p, stmt);
        return;
    }
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++)
        cut_tree(l, p, p->stmt.data[stmt].child.data[i]);
}

static void cut_program(const kiln_lowering *l, kiln_program *p) {
    if (!p->root) return;
    cut_tree(l, p, p->root);
    kiln_lower_simplify_below(p, p->root, NULL);
}

kiln_status kiln_lower_vectors(kiln_lowering *l) {
    cut_program(l, l->run);
    if (l->prepare) cut_program(l, l->prepare);
    return KILN_OK;
}
