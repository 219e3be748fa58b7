/* barriers: the end of a nest orders what its threads did before what follows. Once nests are one,
 * a barrier must say so: one stands behind every nest that touches memory which another nest of the
 * launch, or the same in the next iteration of a loop around it, touches as well, with a write
 * among them. What a single thread does between the nests counts as a nest. */
#include "compiler-core/facts/nest.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/lower/launch.h"
#include "compiler-core/lower/pass.h"

/* A nest, and what it does to memory that other threads see. */
typedef struct nest_use {
    kiln_stmt nest;
    bool repeats;         /* a loop around it belongs to the launch's body */
    bool *reads, *writes; /* [buffer count] */
} nest_use;

typedef struct launch_uses {
    kiln_program *p;
    KILN_VEC(nest_use) use;
} launch_uses;

static bool is_seen_by_others(const kiln_program *p, kiln_buffer buffer) {
    return kiln_scopes[p->buffer.data[buffer].scope].seen_by != KILN_SEEN_BY_THREAD;
}

static void use_load(kiln_program *p, kiln_stmt stmt, kiln_expr load, void *context) {
    (void)stmt;
    nest_use *use = context;
    kiln_buffer buffer = kiln_expr_get(p, load)->payload.id;
    use->reads[buffer] |= is_seen_by_others(p, buffer);
}

static void use_tree(kiln_program *p, kiln_stmt stmt, nest_use *use) {
    kiln_lower_visit_loads(p, stmt, 0, use_load, use);
    const kiln_stmt_info s = p->stmt.data[stmt];
    if (s.kind == KILN_STMT_STORE) use->writes[s.buffer] |= is_seen_by_others(p, s.buffer);
    for (uint32_t i = 0; i < s.child.count; i++) use_tree(p, s.child.data[i], use);
}

static bool conflict(const kiln_program *p, const nest_use *a, const nest_use *b) {
    for (kiln_buffer buffer = 1; buffer < p->buffer.count; buffer++)
        if ((a->writes[buffer] && (b->reads[buffer] || b->writes[buffer])) ||
            (a->reads[buffer] && b->writes[buffer]))
            return true;
    return false;
}

/* ---- nests of a launch ----------------------------------------------------------------------- */

static void find_nest(kiln_program *p, kiln_stmt nest, bool repeats, void *context) {
    launch_uses *uses = context;
    nest_use use = {.nest = nest,
                    .repeats = repeats,
                    .reads = KILN_ARENA_ARRAY(p->arena, bool, p->buffer.count),
                    .writes = KILN_ARENA_ARRAY(p->arena, bool, p->buffer.count)};
    use_tree(p, nest, &use);
    kiln_vec_push_in(p->arena, &uses->use, use);
}

static kiln_status visit_nests(kiln_program *p, kiln_stmt stmt, bool repeats,
                               kiln_lower_nest_visitor visit, void *context) {
    const kiln_stmt_info s = p->stmt.data[stmt];
    kiln_status st = KILN_OK;
    if (s.kind == KILN_STMT_BARRIER) return KILN_OK;
    if (kiln_stmt_level(p, stmt) == KILN_LEVEL_GROUP ||
        !kiln_lower_has_level(p, stmt, KILN_LEVEL_GROUP)) {
        visit(p, stmt, repeats, context);
        return KILN_OK;
    }
    if (s.kind == KILN_STMT_IF && kiln_lower_reads(p, s.condition))
        return KILN_ERROR(ILLEGAL_SCHEDULE, "a condition around thread nests depends on data");
    /* A visitor may put something else where the child stands, or behind it. */
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count && !st; i++)
        st = visit_nests(p, p->stmt.data[stmt].child.data[i], repeats || s.kind == KILN_STMT_FOR,
                         visit, context);
    return st;
}

kiln_stmt kiln_lower_group(const kiln_program *p, kiln_stmt nest) {
    while (kiln_stmt_level(p, nest) == KILN_LEVEL_GRID) nest = p->stmt.data[nest].child.data[0];
    return nest;
}

kiln_status kiln_lower_visit_nests(kiln_program *p, kiln_stmt group, kiln_lower_nest_visitor visit,
                                   void *context) {
    return visit_nests(p, group, false, visit, context);
}

/* ---- barriers -------------------------------------------------------------------------------- */

/* Whether nothing of the launch runs after the nest. */
static bool is_last(const kiln_program *p, const nest_use *use, kiln_stmt group) {
    if (use->repeats) return false;
    for (kiln_stmt at = use->nest; at != group; at = p->stmt.data[at].parent) {
        const kiln_stmt_info *parent = &p->stmt.data[p->stmt.data[at].parent];
        if (parent->child.data[parent->child.count - 1] != at) return false;
    }
    return true;
}

static void put_barrier_behind(kiln_program *p, kiln_stmt nest) {
    kiln_stmt seq = p->stmt.data[nest].parent;
    if (p->stmt.data[seq].kind != KILN_STMT_SEQ) {
        seq = kiln_stmt_create(p, KILN_STMT_SEQ);
        kiln_stmt_wrap(p, nest, seq);
    }
    uint32_t at = kiln_nest_position(p, seq, nest) + 1;
    kiln_stmt barrier = kiln_stmt_create(p, KILN_STMT_BARRIER);
    kiln_stmt_append(p, seq, barrier);
    kiln_stmt *child = p->stmt.data[seq].child.data;
    for (uint32_t i = p->stmt.data[seq].child.count - 1; i > at; i--) child[i] = child[i - 1];
    child[at] = barrier;
}

static kiln_status order_launch(kiln_program *p, kiln_stmt launch) {
    kiln_stmt group = kiln_lower_group(p, launch);
    if (!kiln_lower_has_level(p, group, KILN_LEVEL_GROUP)) return KILN_OK;
    launch_uses uses = {.p = p};
    kiln_status st = kiln_lower_visit_nests(p, group, find_nest, &uses);
    for (uint32_t i = 0; i < uses.use.count && !st; i++) {
        const nest_use *use = &uses.use.data[i];
        bool ordered = false;
        for (uint32_t k = 0; k < uses.use.count; k++)
            ordered |= (k != i || use->repeats) && conflict(p, use, &uses.use.data[k]);
        if (ordered && !is_last(p, use, group)) put_barrier_behind(p, use->nest);
    }
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
