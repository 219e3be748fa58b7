/* barriers: the end of a nest orders its accesses before those that follow. When nests are joined
 * into one, a barrier must do that. The nests of a launch are visited in the order in which they
 * run, with all accesses since the last barrier: a barrier is put before a nest that accesses one
 * of those elements in another thread, if one of the two accesses is a write. So there are only the
 * barriers that the order needs: none between fetches of two tiles, one where both are read.
 * Statements of a single thread between the nests count as a nest, and a loop around nests is
 * visited once more with the accesses of its last iteration. */
#include "base/check.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/lower/launch.h"
#include "compiler-core/lower/pass.h"

/* One access to memory that other threads see. */
typedef struct nest_access {
    kiln_buffer buffer;
    bool writes;
    uint32_t index_count;
    kiln_expr index[KILN_RANK_MAX];
} nest_access;

typedef struct nest_use {
    kiln_stmt nest;
    bool is_producer; /* tokens order it and all others */
    KILN_VEC(nest_access) access;
} nest_use;

typedef struct ordering {
    kiln_program *p;
    bool *ordered; /* [buffer count] seen by several threads, and not each element by one alone */
    KILN_VEC(nest_use) use;
} ordering;

/* The accesses since the last barrier. */
typedef struct pending {
    KILN_VEC(struct pending_use {
        uint32_t use;   /* of ordering */
        bool is_before; /* in an earlier iteration of a loop around both */
    })
    item;
} pending;

/* ---- what nests touch ------------------------------------------------------------------------ */

static nest_access *add_access(ordering *o, kiln_buffer buffer, bool writes) {
    nest_use *use = &o->use.data[o->use.count - 1];
    const nest_access access = {.buffer = buffer, .writes = writes};
    kiln_vec_push_in(o->p->arena, &use->access, access);
    return &use->access.data[use->access.count - 1];
}

static void use_load(kiln_program *p, kiln_stmt stmt, kiln_expr load, void *context) {
    (void)stmt;
    ordering *o = context;
    kiln_buffer buffer = kiln_load_buffer(p, load);
    if (!o->ordered[buffer]) return;
    nest_access *a = add_access(o, buffer, false);
    a->index_count = kiln_load_index(p, load, a->index);
}

static void use_tree(ordering *o, kiln_stmt stmt) {
    kiln_program *p = o->p;
    kiln_lower_visit_loads(p, stmt, 0, use_load, o);
    const kiln_stmt_info s = p->stmt.data[stmt];
    if (s.kind == KILN_STMT_STORE && o->ordered[s.buffer]) {
        nest_access *a = add_access(o, s.buffer, true);
        a->index_count = s.index_count;
        for (uint32_t d = 0; d < s.index_count; d++) a->index[d] = s.index[d];
    }
    for (uint32_t i = 0; i < s.child.count; i++) use_tree(o, s.child.data[i]);
}

static bool is_producer(const kiln_program *p, kiln_stmt stmt) {
    const kiln_attribute *unit = kiln_stmt_attribute(p, stmt, KILN_ATTRIBUTE_UNIT);
    bool found = unit && unit->row == KILN_UNIT_LOAD;
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count && !found; i++)
        found = is_producer(p, p->stmt.data[stmt].child.data[i]);
    return found;
}

static void add_nest(kiln_program *p, kiln_stmt nest, void *context) {
    ordering *o = context;
    const nest_use use = {.nest = nest, .is_producer = is_producer(p, nest)};
    kiln_vec_push_in(p->arena, &o->use, use);
    use_tree(o, nest);
}

static kiln_status visit_nests(kiln_program *p, kiln_stmt stmt, kiln_lower_nest_visitor visit,
                               void *context) {
    const kiln_stmt_info s = p->stmt.data[stmt];
    kiln_status st = KILN_OK;
    if (kiln_stmt_is_step(p, stmt)) return KILN_OK;
    if (kiln_stmt_level(p, stmt) == KILN_LEVEL_GROUP ||
        !kiln_lower_has_level(p, stmt, KILN_LEVEL_GROUP)) {
        visit(p, stmt, context);
        return KILN_OK;
    }
    if (s.kind == KILN_STMT_IF && kiln_lower_reads(p, s.condition))
        return KILN_ERROR(ILLEGAL_SCHEDULE, "a condition around thread nests depends on data");
    /* A visitor may replace the child, or insert behind it. */
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count && !st; i++)
        st = visit_nests(p, p->stmt.data[stmt].child.data[i], visit, context);
    return st;
}

kiln_stmt kiln_lower_group(const kiln_program *p, kiln_stmt nest) {
    while (kiln_stmt_level(p, nest) == KILN_LEVEL_GRID) nest = p->stmt.data[nest].child.data[0];
    return nest;
}

kiln_status kiln_lower_visit_nests(kiln_program *p, kiln_stmt group, kiln_lower_nest_visitor visit,
                                   void *context) {
    return visit_nests(p, group, visit, context);
}

/* ---- which touch the same -------------------------------------------------------------------- */

/* Whether all loops that the expression depends on are around both nests. */
static bool is_of_both(const kiln_program *p, kiln_expr e, kiln_stmt a, kiln_stmt b) {
    const kiln_expr_node *node = kiln_expr_get(p, e);
    if (node->op == KILN_EXPR_LOAD) return false;
    if (node->op == KILN_EXPR_VAR) {
        kiln_stmt loop = kiln_lower_loop_of(p, p->stmt.data[a].parent, node->payload.id);
        return loop && loop == kiln_lower_loop_of(p, p->stmt.data[b].parent, node->payload.id);
    }
    for (uint32_t i = 0; i < node->operand_count; i++)
        if (!is_of_both(p, kiln_expr_operand(p, e, i), a, b)) return false;
    return true;
}

/* e is floormod(*out_of, n), or equal to it because its range is small; `n` 0: any floormod. */
static int64_t slot_of(kiln_program *p, kiln_expr e, int64_t n, kiln_expr *out_of) {
    int64_t said;
    *out_of = e;
    if (kiln_expr_get(p, e)->op == KILN_EXPR_FLOORMOD &&
        kiln_expr_as_int(p, kiln_expr_operand(p, e, 1), &said)) {
        *out_of = kiln_expr_operand(p, e, 0);
        return said;
    }
    kiln_interval range = kiln_expr_bounds(p, e, NULL);
    return range.low >= 0 && range.high < n ? n : 0;
}

/* a = floormod(x, n) and b = floormod(x + c, n), where n does not divide c: slots of a ring. */
static bool are_other_slots(kiln_program *p, kiln_expr a, kiln_expr b) {
    kiln_expr of_a, of_b;
    int64_t apart, n = slot_of(p, a, 0, &of_a);
    const int64_t m = slot_of(p, b, n, &of_b);
    if (n == 0) n = slot_of(p, a, m, &of_a);
    if (n < 1 || n != m) return false;
    kiln_expr difference = kiln_expr_binary(p, KILN_EXPR_SUB, of_a, of_b);
    difference = kiln_expr_simplify(p, difference, NULL);
    return kiln_expr_as_int(p, difference, &apart) && apart % n != 0;
}

static bool are_apart(kiln_program *p, const nest_access *a, kiln_stmt a_nest, const nest_access *b,
                      kiln_stmt b_nest, bool is_before) {
    for (uint32_t d = 0; d < a->index_count; d++) {
        kiln_interval in_a = kiln_expr_bounds(p, a->index[d], NULL);
        kiln_interval in_b = kiln_expr_bounds(p, b->index[d], NULL);
        if (kiln_interval_is_bounded(in_a) && kiln_interval_is_bounded(in_b) &&
            (in_a.high < in_b.low || in_b.high < in_a.low))
            return true;
        if (!is_before && is_of_both(p, a->index[d], a_nest, b_nest) &&
            is_of_both(p, b->index[d], a_nest, b_nest) &&
            are_other_slots(p, a->index[d], b->index[d]))
            return true;
    }
    return false;
}

static bool conflict(kiln_program *p, const nest_use *a, const nest_use *b, bool is_before) {
    if (a->is_producer || b->is_producer) return false;
    for (uint32_t i = 0; i < a->access.count; i++)
        for (uint32_t k = 0; k < b->access.count; k++) {
            const nest_access *one = &a->access.data[i], *other = &b->access.data[k];
            if (one->buffer == other->buffer && (one->writes || other->writes) &&
                !are_apart(p, one, a->nest, other, b->nest, is_before))
                return true;
        }
    return false;
}

/* ---- barriers -------------------------------------------------------------------------------- */

static void add_pending(ordering *o, pending *to, uint32_t use, bool is_before) {
    for (uint32_t i = 0; i < to->item.count; i++)
        if (to->item.data[i].use == use && to->item.data[i].is_before == is_before) return;
    const struct pending_use item = {use, is_before};
    kiln_vec_push_in(o->p->arena, &to->item, item);
}

static void order_nest(ordering *o, kiln_stmt nest, pending *now) {
    uint32_t own = 0;
    while (o->use.data[own].nest != nest) own++;
    bool waits = false;
    for (uint32_t i = 0; i < now->item.count && !waits; i++)
        waits = conflict(o->p, &o->use.data[now->item.data[i].use], &o->use.data[own],
                         now->item.data[i].is_before);
    if (waits) {
        kiln_lower_put_before(o->p, nest, kiln_stmt_create(o->p, KILN_STMT_BARRIER));
        now->item.count = 0;
    }
    add_pending(o, now, own, false);
}

static void order_stmt(ordering *o, kiln_stmt stmt, pending *now) {
    kiln_program *p = o->p;
    const kiln_stmt_info s = p->stmt.data[stmt];
    if (kiln_stmt_is_step(p, stmt)) {
        if (s.kind == KILN_STMT_BARRIER) now->item.count = 0;
    } else if (kiln_stmt_level(p, stmt) == KILN_LEVEL_GROUP ||
               !kiln_lower_has_level(p, stmt, KILN_LEVEL_GROUP)) {
        order_nest(o, stmt, now);
    } else if (s.kind == KILN_STMT_SEQ) {
        for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++) {
            const kiln_stmt child = p->stmt.data[stmt].child.data[i];
            order_stmt(o, child, now);
            i = kiln_nest_position(p, stmt, child); /* a barrier may have been inserted before it */
        }
    } else {
        const bool may_run = s.kind == KILN_STMT_IF;
        pending before = {.item = {0}};
        for (uint32_t i = 0; i < now->item.count; i++)
            add_pending(o, &before, now->item.data[i].use, now->item.data[i].is_before);
        order_stmt(o, p->stmt.data[stmt].child.data[0], now);
        if (s.kind == KILN_STMT_FOR) {
            for (uint32_t i = 0; i < now->item.count; i++) now->item.data[i].is_before = true;
            for (uint32_t i = 0; i < before.item.count; i++)
                add_pending(o, now, before.item.data[i].use, before.item.data[i].is_before);
            order_stmt(o, p->stmt.data[stmt].child.data[0], now);
        }
        for (uint32_t i = 0; i < before.item.count && may_run; i++)
            add_pending(o, now, before.item.data[i].use, before.item.data[i].is_before);
    }
}

static kiln_status order_launch(kiln_program *p, kiln_stmt launch) {
    kiln_stmt group = kiln_lower_group(p, launch);
    if (!kiln_lower_has_level(p, group, KILN_LEVEL_GROUP)) return KILN_OK;
    ordering o = {.p = p, .ordered = KILN_ARENA_ARRAY(p->arena, bool, p->buffer.count)};
    const kiln_stmt *home = kiln_lower_homes(p, group);
    for (kiln_buffer b = 1; b < p->buffer.count; b++)
        o.ordered[b] = home[b] &&
                       kiln_scopes[p->buffer.data[b].scope].seen_by != KILN_SEEN_BY_THREAD &&
                       !kiln_lower_is_owned(p, group, b);
    pending now = {.item = {0}};
    kiln_status st = kiln_lower_visit_nests(p, group, add_nest, &o);
    if (!st) order_stmt(&o, group, &now);
    return st;
}

static kiln_status order_program(kiln_program *p) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; p && p->root && i < p->stmt.data[p->root].child.count && !st; i++)
        st = order_launch(p, p->stmt.data[p->root].child.data[i]);
    return st;
}

kiln_status kiln_lower_barriers(kiln_lowering *l) {
    kiln_status st = order_program(l->run);
    return st ? st : order_program(l->prepare);
}
