/* crossthread: partial sums, one per thread, are added by these threads as a tree in the shared
 * memory where they lie, instead of one after the other by one thread. The steps are nests of half
 * as many threads as the one before; barriers between them are found as for any program.
 *
 * Where the target's threads exchange registers within a warp, the last parts, as many as a warp
 * has lanes or a smaller power of two, are summed by one warp in one nest without barriers: each
 * lane takes a part and adds another lane's to it. All warps of the group are full, so no lane is
 * missing.
 *
 * Both ways add the same numbers in the same order, which depends on the number of parts only: bits
 * are equal on all targets. */
#include "base/check.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/ir/intrinsic.h"
#include "compiler-core/lower/pass.h"

#define PARTS_MIN 4 /* two parts are one addition, in a tree or not */

/* A loop that adds up parts: to[...] = op(to[...], part[..., var]). */
typedef struct tree_sum {
    kiln_program *p;
    kiln_stmt loop, store;
    kiln_expr load; /* of the part */
    kiln_buffer part;
    kiln_stmt nest; /* of threads, around the loop, or the statement of a single thread with it */
    uint8_t axis;   /* of the threads that make the parts */
    const kiln_target *target;
    bool fails;
} tree_sum;

/* ---- what is such a sum ---------------------------------------------------------------------- */

static bool is_associative(uint8_t op) {
    return op == KILN_EXPR_ADD || op == KILN_EXPR_MUL || op == KILN_EXPR_MIN || op == KILN_EXPR_MAX;
}

/* Whether operand `operand` of the store's value loads the element that it writes. */
static bool loads_own(const kiln_program *p, const kiln_stmt_info *s, uint32_t operand) {
    kiln_expr own = kiln_expr_operand(p, s->value, operand);
    const kiln_expr_node *node = kiln_expr_get(p, own);
    if (node->op != KILN_EXPR_LOAD || node->payload.id != s->buffer) return false;
    for (uint32_t d = 0; d < s->index_count; d++)
        if (kiln_expr_operand(p, own, d) != s->index[d]) return false;
    return true;
}

static bool find_load(tree_sum *t) {
    kiln_program *p = t->p;
    const kiln_stmt_info s = p->stmt.data[t->store];
    const kiln_var var = p->stmt.data[t->loop].var;
    if (!is_associative(kiln_expr_get(p, s.value)->op)) return false;
    uint32_t operand = loads_own(p, &s, 0) ? 1 : 0;
    if (!operand && !loads_own(p, &s, 1)) return false;
    t->load = kiln_expr_operand(p, s.value, operand);
    const kiln_expr_node *node = kiln_expr_get(p, t->load);
    if (node->op != KILN_EXPR_LOAD || node->operand_count == 0) return false;
    t->part = node->payload.id;
    for (uint32_t d = 0; d < s.index_count; d++)
        if (kiln_expr_uses_var(p, s.index[d], var)) return false;
    for (uint32_t d = 0; d + 1 < node->operand_count; d++)
        if (kiln_expr_uses_var(p, kiln_expr_operand(p, t->load, d), var)) return false;
    return kiln_expr_operand(p, t->load, node->operand_count - 1) == kiln_expr_var(p, var) &&
           p->buffer.data[t->part].role == KILN_ROLE_TEMP &&
           p->buffer.data[t->part].scope == KILN_SCOPE_SHARED;
}

/* Besides the sum, the loop's body may contain its initialisation, in the first iteration. */
static bool find_store(tree_sum *t) {
    const kiln_program *p = t->p;
    const kiln_stmt_info *s = &p->stmt.data[t->loop];
    kiln_stmt body = s->child.data[0];
    t->store = body;
    if (p->stmt.data[body].kind == KILN_STMT_SEQ && p->stmt.data[body].child.count == 2) {
        const kiln_stmt_info *first = &p->stmt.data[p->stmt.data[body].child.data[0]];
        t->store = p->stmt.data[body].child.data[1];
        if (first->kind != KILN_STMT_IF ||
            first->condition != kiln_expr_binary(t->p, KILN_EXPR_EQ, kiln_expr_var(t->p, s->var),
                                                 kiln_expr_index(t->p, 0)))
            return false;
    }
    return p->stmt.data[t->store].kind == KILN_STMT_STORE;
}

static void find_other_load(kiln_program *p, kiln_stmt stmt, kiln_expr load, void *context) {
    (void)p, (void)stmt, (void)load;
    ((tree_sum *)context)->fails = true;
}

/* Each part is written by the thread of its number, again before each sum, and read by nothing
 * else. */
static void look_at_parts(tree_sum *t, kiln_stmt stmt) {
    kiln_program *p = t->p;
    const kiln_stmt_info s = p->stmt.data[stmt];
    if (s.kind == KILN_STMT_STORE && s.buffer == t->part) {
        const kiln_expr_node *last = kiln_expr_get(p, s.index[s.index_count - 1]);
        kiln_stmt loop =
            last->op == KILN_EXPR_VAR ? kiln_lower_loop_of(p, stmt, last->payload.id) : 0;
        const bool bound = loop && kiln_stmt_level(p, loop) == KILN_LEVEL_GROUP;
        const uint8_t axis = bound ? p->stmt.data[loop].axis : KILN_AXIS_NONE;
        t->fails |= !bound || (t->axis != KILN_AXIS_NONE && t->axis != axis) ||
                    kiln_stmt_is_inside(p, stmt, t->nest);
        t->axis = axis;
        const kiln_stmt common = kiln_nest_common(p, stmt, t->nest);
        for (kiln_stmt at = p->stmt.data[t->nest].parent; !t->fails && at != common;
             at = p->stmt.data[at].parent)
            t->fails |= p->stmt.data[at].kind == KILN_STMT_FOR;
    } else if (stmt != t->store) {
        kiln_lower_visit_loads(p, stmt, t->part, find_other_load, t);
    }
    for (uint32_t i = 0; i < s.child.count; i++) look_at_parts(t, s.child.data[i]);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static bool in_part(const tree_sum *t, kiln_var var) {
    return kiln_expr_uses_var(t->p, t->load, var);
}

/* The thread nest around the sum, or the largest statement of a single thread. */
static kiln_stmt nest_around(const kiln_program *p, kiln_stmt stmt) {
    kiln_stmt nest = kiln_stmt_outermost(p, stmt, KILN_LEVEL_GROUP);
    if (nest) return nest;
    for (nest = stmt; p->stmt.data[nest].parent; nest = p->stmt.data[nest].parent)
        if (kiln_lower_has_level(p, p->stmt.data[nest].parent, KILN_LEVEL_GROUP)) return nest;
    return 0;
}

/* Whether a step can have the same loops around it: loops that do not choose the part are left out
 * and must not be used; the axis is free. */
static bool check_path(const tree_sum *t) {
    const kiln_program *p = t->p;
    int64_t threads = p->stmt.data[t->loop].extent / 2;
    for (kiln_stmt at = t->loop; at != t->nest;) {
        at = p->stmt.data[at].parent;
        const kiln_stmt_info *s = &p->stmt.data[at];
        if (s->kind == KILN_STMT_ALLOC || s->kind == KILN_STMT_BLOCK) return false;
        if (s->kind == KILN_STMT_IF) {
            if (kiln_lower_reads(p, s->condition)) return false;
            for (kiln_stmt outer = at; outer != t->nest;) {
                outer = p->stmt.data[outer].parent;
                const kiln_stmt_info *o = &p->stmt.data[outer];
                if (o->kind == KILN_STMT_FOR && !in_part(t, o->var) &&
                    kiln_expr_uses_var(p, s->condition, o->var))
                    return false;
            }
        }
        if (kiln_stmt_level(p, at) != KILN_LEVEL_GROUP) continue;
        if (s->axis == t->axis) return false;
        if (in_part(t, s->var)) threads *= s->extent;
    }
    return threads <= KILN_GROUP_THREADS_MAX;
}

static kiln_expr part_at(const tree_sum *t, kiln_expr last) {
    kiln_program *p = t->p;
    kiln_expr index[KILN_RANK_MAX];
    uint32_t count = kiln_load_index(p, t->load, index);
    index[count - 1] = last;
    return kiln_expr_load(p, t->part, index, count);
}

static kiln_stmt wrap_loop(const tree_sum *t, kiln_stmt body, kiln_stmt like) {
    kiln_program *p = t->p;
    const kiln_stmt_info s = p->stmt.data[like];
    kiln_var own = kiln_var_create(p, p->var.data[s.var].name, s.first, s.first + s.extent - 1);
    kiln_stmt loop = kiln_stmt_for(p, own, s.first, s.extent, (kiln_loop_kind)s.loop_kind, body);
    p->stmt.data[loop].axis = s.axis;
    kiln_lower_replace(p, loop, kiln_expr_var(p, s.var), kiln_expr_var(p, own));
    return loop;
}

static kiln_stmt make_store(kiln_program *p, kiln_expr to, kiln_expr value) {
    kiln_stmt stmt = kiln_stmt_create(p, KILN_STMT_STORE);
    kiln_stmt_info *s = &p->stmt.data[stmt];
    s->buffer = kiln_load_buffer(p, to);
    s->value = value;
    s->index_count = kiln_load_index(p, to, s->index);
    return stmt;
}

/* op as in the sum, `near` first. */
static kiln_expr combine(const tree_sum *t, kiln_expr near, kiln_expr far) {
    kiln_program *p = t->p;
    return kiln_expr_binary(p, (kiln_expr_op)kiln_expr_get(p, p->stmt.data[t->store].value)->op,
                            near, far);
}

/* The nest of `count` threads q that run `stmt`, in copies of the loops and conditions around the
 * sum. */
static kiln_stmt make_nest(const tree_sum *t, kiln_stmt stmt, kiln_var q, int64_t count) {
    kiln_program *p = t->p;
    bool bound = false;
    for (kiln_stmt at = t->loop; !bound || at != t->nest;) {
        const kiln_stmt outer = at == t->nest ? 0 : p->stmt.data[at].parent;
        if (!bound && (!outer || kiln_stmt_level(p, outer) == KILN_LEVEL_GROUP)) {
            stmt = kiln_stmt_for(p, q, 0, count, KILN_LOOP_BIND, stmt);
            p->stmt.data[stmt].axis = t->axis;
            bound = true;
        }
        if (!outer) break;
        at = outer;
        const kiln_stmt_info s = p->stmt.data[at];
        if (s.kind == KILN_STMT_FOR && in_part(t, s.var)) stmt = wrap_loop(t, stmt, at);
        if (s.kind == KILN_STMT_IF) {
            kiln_stmt condition = kiln_stmt_create(p, KILN_STMT_IF);
            p->stmt.data[condition].condition = s.condition;
            kiln_stmt_append(p, condition, stmt);
            stmt = condition;
        }
    }
    return stmt;
}

static kiln_var make_thread(const tree_sum *t, int64_t count) {
    kiln_program *p = t->p;
    return kiln_var_create(p, p->var.data[p->stmt.data[t->loop].var].name, 0, count - 1);
}

/* part[q] = op(part[q], part[q + apart]) for all q below `count`, in as many threads. */
static kiln_stmt make_step(const tree_sum *t, int64_t count, int64_t apart) {
    kiln_program *p = t->p;
    const kiln_var var = make_thread(t, count);
    const kiln_expr q = kiln_expr_var(p, var);
    const kiln_expr one = part_at(t, q);
    const kiln_expr other =
        part_at(t, kiln_expr_binary(p, KILN_EXPR_ADD, q, kiln_expr_index(p, apart)));
    return make_nest(t, make_store(p, one, combine(t, one, other)), var, count);
}

/* ---- lanes ----------------------------------------------------------------------------------- */

static int64_t threads_below(const kiln_program *p, kiln_stmt stmt, uint8_t axis) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    int64_t most = s->kind == KILN_STMT_FOR && s->axis == axis ? s->extent : 1;
    for (uint32_t i = 0; i < s->child.count; i++) {
        const int64_t below = threads_below(p, s->child.data[i], axis);
        most = KILN_MAX(most, below);
    }
    return most;
}

/* Whether loops around the sum have one iteration after the other, or a thread each. */
static bool has_plain_loops(const tree_sum *t) {
    const kiln_program *p = t->p;
    for (kiln_stmt at = t->loop; at != t->nest;) {
        at = p->stmt.data[at].parent;
        const kiln_stmt_info *s = &p->stmt.data[at];
        if (s->kind == KILN_STMT_FOR && s->loop_kind != KILN_LOOP_SERIAL &&
            s->loop_kind != KILN_LOOP_UNROLL && s->loop_kind != KILN_LOOP_BIND)
            return false;
    }
    return true;
}

/* Whether lanes of one warp can sum the remaining parts. */
static bool are_lanes(const tree_sum *t, int64_t parts) {
    const kiln_program *p = t->p;
    const kiln_gpu *gpu = t->target->gpu;
    kiln_stmt launch = t->nest;
    if (!gpu || gpu->capability == 0 || gpu->warp != KILN_WARP_LANES ||
        t->axis != KILN_AXIS_THREAD_X || parts < PARTS_MIN || parts > KILN_WARP_LANES ||
        (parts & (parts - 1)) != 0 ||
        kiln_dtype_size(p->buffer.data[t->part].dtype) != KILN_EXCHANGE_BYTES)
        return false;
    while (p->stmt.data[launch].parent != p->root) launch = p->stmt.data[launch].parent;
    return threads_below(p, launch, t->axis) % KILN_WARP_LANES == 0 && has_plain_loops(t);
}

static kiln_expr make_own(const tree_sum *t, const char *suffix) {
    kiln_program *p = t->p;
    const kiln_buffer_info part = p->buffer.data[t->part];
    const kiln_shape one = {.rank = 1, .dim = {1}};
    const kiln_expr zero = kiln_expr_index(p, 0);
    const kiln_buffer own =
        kiln_buffer_create(p, kiln_str_printf(p->arena, "%.*s.%s", KILN_STR_ARG(part.name), suffix),
                           part.dtype, KILN_ROLE_TEMP, &one);
    p->buffer.data[own].scope = KILN_SCOPE_REGISTER;
    return kiln_expr_load(p, own, &zero, 1);
}

/* `stmt` in the first `count` threads q. */
static kiln_stmt make_if_below(kiln_program *p, kiln_expr q, int64_t count, kiln_stmt stmt) {
    const kiln_stmt guarded = kiln_stmt_create(p, KILN_STMT_IF);
    p->stmt.data[guarded].condition =
        kiln_expr_binary(p, KILN_EXPR_LT, q, kiln_expr_index(p, count));
    kiln_stmt_append(p, guarded, stmt);
    return guarded;
}

/* Each lane sums its part and those of lanes `parts` / 2, ..., 1 away; the first lane's is the sum
 * of all parts. Lanes without a part exchange among themselves. */
static kiln_stmt make_lanes(const tree_sum *t, int64_t parts) {
    kiln_program *p = t->p;
    const kiln_var var = make_thread(t, KILN_WARP_LANES);
    const kiln_expr q = kiln_expr_var(p, var);
    const kiln_expr own = make_own(t, "lane"), other = make_own(t, "other");
    const kiln_dtype dtype = p->buffer.data[t->part].dtype;
    kiln_stmt body = kiln_stmt_create(p, KILN_STMT_SEQ), load = make_store(p, own, part_at(t, q));
    if (parts < KILN_WARP_LANES) {
        kiln_stmt_append(p, body, make_store(p, own, kiln_expr_zero(p, dtype)));
        load = make_if_below(p, q, parts, load);
    }
    kiln_stmt_append(p, body, load);
    for (uint32_t away = (uint32_t)parts / 2; away > 0; away /= 2) {
        const kiln_stmt exchange = make_store(p, other, own);
        kiln_stmt_set_attribute(p, exchange,
                                (kiln_attribute){.id = KILN_ATTRIBUTE_EXCHANGE, .row = away});
        kiln_stmt_append(p, body, exchange);
        kiln_stmt_append(p, body, make_store(p, own, combine(t, own, other)));
    }
    const kiln_stmt last = make_store(p, part_at(t, kiln_expr_index(p, 0)), own);
    kiln_stmt_append(p, body, make_if_below(p, q, 1, last));
    return make_nest(t, body, var, KILN_WARP_LANES);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* In halves, the larger one first where parts are odd; the sum ends up in part 0. */
static void make_tree(const tree_sum *t) {
    kiln_program *p = t->p;
    const kiln_stmt_info s = p->stmt.data[t->loop];
    int64_t parts = s.extent;
    for (; parts > 1 && !are_lanes(t, parts); parts -= parts / 2)
        kiln_lower_put_before(p, t->nest, make_step(t, parts / 2, parts - parts / 2));
    if (parts > 1) kiln_lower_put_before(p, t->nest, make_lanes(t, parts));
    kiln_lower_replace(p, s.child.data[0], kiln_expr_var(p, s.var), kiln_expr_index(p, 0));
    kiln_stmt_replace(p, t->loop, s.child.data[0]);
}

static bool is_tree_sum(tree_sum *t) {
    const kiln_stmt_info *s = &t->p->stmt.data[t->loop];
    if (s->kind != KILN_STMT_FOR || s->first != 0 || s->extent < PARTS_MIN ||
        (s->loop_kind != KILN_LOOP_SERIAL && s->loop_kind != KILN_LOOP_UNROLL) || !find_store(t) ||
        !find_load(t))
        return false;
    const kiln_shape *shape = &t->p->buffer.data[t->part].shape;
    t->nest = nest_around(t->p, t->loop);
    if (!t->nest || shape->dim[shape->rank - 1] != s->extent) return false;
    look_at_parts(t, t->p->root);
    return !t->fails && t->axis != KILN_AXIS_NONE && check_path(t);
}

static void cross_tree(kiln_program *p, kiln_stmt stmt, const kiln_target *target) {
    tree_sum t = {.p = p, .loop = stmt, .target = target};
    if (is_tree_sum(&t)) {
        make_tree(&t);
        return;
    }
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++) {
        const kiln_stmt child = p->stmt.data[stmt].child.data[i];
        const uint32_t before = p->stmt.data[stmt].child.count;
        cross_tree(p, child, target);
        i += p->stmt.data[stmt].child.count - before; /* the steps were inserted before it */
    }
}

kiln_status kiln_lower_crossthread(kiln_lowering *l) {
    if (l->run->root) cross_tree(l->run, l->run->root, l->target);
    if (l->prepare && l->prepare->root) cross_tree(l->prepare, l->prepare->root, l->target);
    return KILN_OK;
}
