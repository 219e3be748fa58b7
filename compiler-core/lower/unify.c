/* unify: the thread nests of a launch become one. Each axis runs up to the longest of its loops; a
 * shorter nest, or a statement outside of nests, gets a condition that excludes the threads that it
 * does not have. Barriers between the nests are then inside the one nest.
 *
 * A LOCAL or REGISTER temp of several nests is in each thread's own memory from here on, so only
 * one thread may access each of its elements: its index has to contain the thread's number, in the
 * same way in every access. */
#include "base/check.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/lower/launch.h"
#include "compiler-core/lower/pass.h"

#define REFUSE(...) KILN_ERROR(ILLEGAL_SCHEDULE, __VA_ARGS__)

/* A nest that has been merged. */
typedef struct merged_nest {
    kiln_stmt stmt;
    int64_t extent[KILN_AXIS_COUNT]; /* its threads; 1 on axes that it does not have */
} merged_nest;

typedef struct unifying {
    kiln_program *p;
    int64_t extent[KILN_AXIS_COUNT]; /* of the launch's threads; 1: no loop */
    kiln_var var[KILN_AXIS_COUNT];   /* 0 where the extent is 1 */
    KILN_VEC(merged_nest) nest;
} unifying;

/* ---- merging --------------------------------------------------------------------------------- */

static void measure_nest(kiln_program *p, kiln_stmt nest, void *context) {
    unifying *u = context;
    for (; kiln_stmt_level(p, nest) == KILN_LEVEL_GROUP; nest = p->stmt.data[nest].child.data[0]) {
        const kiln_stmt_info *s = &p->stmt.data[nest];
        u->extent[s->axis] = KILN_MAX(u->extent[s->axis], s->extent);
    }
}

static kiln_expr substitute(kiln_program *p, kiln_expr e, void *context) {
    return kiln_expr_substitute(p, e, context);
}

/* The threads that the nest has; 0: all. */
static kiln_expr guard_of(const unifying *u, const merged_nest *nest) {
    kiln_program *p = u->p;
    kiln_expr all = 0;
    for (uint32_t a = 0; a < KILN_AXIS_COUNT; a++) {
        if (nest->extent[a] >= u->extent[a]) continue;
        kiln_expr one = kiln_expr_binary(p, KILN_EXPR_LT, kiln_expr_var(p, u->var[a]),
                                         kiln_expr_index(p, nest->extent[a]));
        all = all ? kiln_expr_binary(p, KILN_EXPR_AND, all, one) : one;
    }
    return all;
}

static void merge_nest(kiln_program *p, kiln_stmt nest, void *context) {
    unifying *u = context;
    merged_nest merged = {.stmt = nest};
    kiln_expr *replacement = KILN_ARENA_ARRAY(p->arena, kiln_expr, p->var.count);
    for (uint32_t a = 0; a < KILN_AXIS_COUNT; a++) merged.extent[a] = 1;
    while (kiln_stmt_level(p, merged.stmt) == KILN_LEVEL_GROUP) {
        const kiln_stmt_info *s = &p->stmt.data[merged.stmt];
        merged.extent[s->axis] = s->extent;
        replacement[s->var] =
            u->var[s->axis] ? kiln_expr_var(p, u->var[s->axis]) : kiln_expr_index(p, 0);
        merged.stmt = s->child.data[0];
    }
    kiln_stmt_replace(p, nest, merged.stmt);
    kiln_lower_rewrite(p, merged.stmt, substitute, replacement);
    kiln_expr guard = guard_of(u, &merged);
    if (guard) {
        kiln_stmt condition = kiln_stmt_create(p, KILN_STMT_IF);
        p->stmt.data[condition].condition = guard;
        kiln_stmt_wrap(p, merged.stmt, condition);
        merged.stmt = condition;
    }
    kiln_vec_push_in(p->arena, &u->nest, merged);
}

/* ---- memory of one thread -------------------------------------------------------------------- */

static kiln_status check_owner(unifying *u, kiln_stmt group, kiln_buffer buffer, kiln_stmt home) {
    kiln_program *p = u->p;
    int64_t extent[KILN_AXIS_COUNT];
    uint32_t touching = 0;
    for (uint32_t a = 0; a < KILN_AXIS_COUNT; a++) extent[a] = 1;
    for (uint32_t i = 0; i < u->nest.count; i++) {
        if (!kiln_lower_homes(p, u->nest.data[i].stmt)[buffer]) continue;
        touching++;
        for (uint32_t a = 0; a < KILN_AXIS_COUNT; a++)
            extent[a] = KILN_MAX(extent[a], u->nest.data[i].extent[a]);
    }
    if (touching < 2) return KILN_OK;
    kiln_owner thread[KILN_AXIS_COUNT];
    uint32_t count = 0;
    for (uint32_t a = 0; a < KILN_AXIS_COUNT; a++)
        if (extent[a] > 1) thread[count++] = (kiln_owner){u->var[a], extent[a]};
    const kiln_buffer_info *b = &p->buffer.data[buffer];
    return kiln_lower_tells(p, group, buffer, home, thread, count)
               ? KILN_OK
               : REFUSE("%.*s has scope %s and several threads may touch one of its elements",
                        KILN_STR_ARG(b->name), kiln_scopes[b->scope].text);
}

static kiln_status check_owners(unifying *u, kiln_stmt group) {
    kiln_program *p = u->p;
    kiln_status st = KILN_OK;
    const kiln_stmt *home = kiln_lower_homes(p, group);
    for (kiln_buffer b = 1; b < p->buffer.count && !st; b++)
        if (home[b] && kiln_scopes[p->buffer.data[b].scope].seen_by == KILN_SEEN_BY_THREAD)
            st = check_owner(u, group, b, home[b]);
    return st;
}

/* ---- launches -------------------------------------------------------------------------------- */

static kiln_status make_threads(unifying *u, kiln_stmt group) {
    kiln_program *p = u->p;
    int64_t threads = 1;
    for (uint32_t a = 0; a < KILN_AXIS_COUNT; a++) u->extent[a] = 1;
    kiln_status st = kiln_lower_visit_nests(p, group, measure_nest, u);
    for (uint32_t a = 1; a < KILN_AXIS_COUNT && !st; a++) {
        if (u->extent[a] == 1) continue;
        threads *= u->extent[a];
        u->var[a] = kiln_var_create(p, kiln_str_from(kiln_axes[a].text), 0, u->extent[a] - 1);
        if (threads > KILN_GROUP_THREADS_MAX)
            st = REFUSE("the nests of a launch have %lld threads together; a group has %d at most",
                        (long long)threads, KILN_GROUP_THREADS_MAX);
    }
    return st;
}

static kiln_status unify_launch(kiln_program *p, uint32_t at) {
    kiln_stmt group = kiln_lower_group(p, p->stmt.data[p->root].child.data[at]);
    unifying u = {.p = p};
    if (!kiln_lower_has_level(p, group, KILN_LEVEL_GROUP)) return KILN_OK;
    kiln_status st = make_threads(&u, group);
    if (!st) st = kiln_lower_visit_nests(p, group, merge_nest, &u);
    if (st) return st;
    group = kiln_lower_group(p, p->stmt.data[p->root].child.data[at]);
    st = check_owners(&u, group);
    for (uint32_t a = 1; a < KILN_AXIS_COUNT; a++) {
        if (!u.var[a]) continue;
        group = kiln_stmt_for(p, u.var[a], 0, u.extent[a], KILN_LOOP_BIND, group);
        p->stmt.data[group].axis = (uint8_t)a;
    }
    return st;
}

static kiln_status unify_program(kiln_program *p) {
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; p && p->root && i < p->stmt.data[p->root].child.count && !st; i++)
        st = unify_launch(p, i);
    if (!st && p && p->root) kiln_lower_simplify_below(p, p->root, NULL);
    return st;
}

kiln_status kiln_lower_unify(kiln_lowering *l) {
    kiln_status st = unify_program(l->run);
    return st ? st : unify_program(l->prepare);
}
