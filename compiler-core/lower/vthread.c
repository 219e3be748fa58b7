/* vthread: iterations of a virtual thread loop are executed together in the body of one thread.
 * Such loops may be around anything inside a launch, including thread nests and serial loops; as no
 * iteration depends on another, they move inwards past all of it, to each store, and are unrolled
 * there. So the temps that a thread keeps for all of its virtual threads have constant indices, and
 * stay in registers.
 *
 * A temp that each iteration computes gets one more dimension, unless its indices contain the
 * iteration already, or all iterations compute the same: then one computes it for all.
 *
 * For accelerator cores threads take turns by steps: the loop is around the largest statements that
 * contain no loop over several statements. So a step's copies and products of one thread come
 * before those of the next, and a unit that waits in one thread can work for another. A temp of the
 * core that lives for a thread's part of a step, or for a step if it is the same for all threads,
 * gets as many slots in turn as there are threads: one is written while the one before is in
 * use. */
#include "base/check.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/ir/intrinsic.h"
#include "compiler-core/lower/pass.h"

#define REFUSE(...) KILN_ERROR(ILLEGAL_SCHEDULE, __VA_ARGS__)

typedef struct sinking {
    kiln_program *p;
    kiln_stmt body;
    kiln_var var;
    int64_t first, extent;
    uint32_t count; /* buffers before expansion */
    bool *own;      /* [buffer count] each iteration has its own */
    bool *depends;  /* [buffer count] of these: what it holds depends on the iteration */
    bool changed;
    bool *in_turn;            /* [buffers, and those that expansion may make] needs slots in turn */
    KILN_VEC(kiln_stmt) loop; /* the loops over iterations, at their new places */
} sinking;

/* ---- temps of one iteration ------------------------------------------------------------------ */

typedef struct load_look {
    const bool *wanted; /* [buffer count] */
    bool found;
} load_look;

static void look_at_load(kiln_program *p, kiln_expr load, void *context) {
    load_look *look = context;
    look->found |= look->wanted[kiln_load_buffer(p, load)];
}

static bool varies(const sinking *s, kiln_expr e) {
    load_look look = {.wanted = s->depends};
    kiln_expr_visit_loads(s->p, e, 0, look_at_load, &look);
    return look.found || (e && kiln_expr_uses_var(s->p, e, s->var));
}

/* `varying`: whether statements run at all depends on the iteration. */
static void find_dependent(sinking *s, kiln_stmt stmt, bool varying) {
    const kiln_stmt_info info = s->p->stmt.data[stmt];
    varying |= info.kind == KILN_STMT_IF && varies(s, info.condition);
    if (info.kind == KILN_STMT_STORE && s->own[info.buffer] && !s->depends[info.buffer]) {
        bool depends = varying || varies(s, info.value);
        for (uint32_t i = 0; i < info.index_count; i++) depends |= varies(s, info.index[i]);
        s->depends[info.buffer] = depends;
        s->changed |= depends;
    }
    for (uint32_t i = 0; i < info.child.count; i++) find_dependent(s, info.child.data[i], varying);
}

static kiln_status expand(sinking *s, kiln_buffer buffer) {
    kiln_program *p = s->p;
    kiln_expr at =
        kiln_expr_binary(p, KILN_EXPR_SUB, kiln_expr_var(p, s->var), kiln_expr_index(p, s->first));
    const kiln_buffer made = kiln_lower_expand(p, s->body, buffer, s->extent, at);
    if (made) s->in_turn[made] = true;
    return made ? KILN_OK
                : REFUSE("%.*s has no dimension left for virtual threads %.*s",
                         KILN_STR_ARG(p->buffer.data[buffer].name),
                         KILN_STR_ARG(p->var.data[s->var].name));
}

static kiln_status expand_temps(sinking *s, kiln_stmt loop) {
    kiln_program *p = s->p;
    const kiln_stmt *home = kiln_lower_homes(p, p->root);
    kiln_status st = KILN_OK;
    s->own = KILN_ARENA_ARRAY(p->arena, bool, p->buffer.count);
    s->depends = KILN_ARENA_ARRAY(p->arena, bool, p->buffer.count);
    for (kiln_buffer b = 1; b < p->buffer.count; b++)
        s->own[b] = p->buffer.data[b].role == KILN_ROLE_TEMP && home[b] && home[b] != loop &&
                    kiln_stmt_is_inside(p, home[b], loop);
    do {
        s->changed = false;
        find_dependent(s, s->body, false);
    } while (s->changed);
    const uint32_t count = s->count = p->buffer.count; /* expansion adds buffers */
    const kiln_owner owner = {s->var, s->extent};
    s->in_turn = KILN_ARENA_ARRAY(p->arena, bool, 2 * count);
    for (kiln_buffer b = 1; b < count; b++) s->in_turn[b] = s->own[b];
    for (kiln_buffer b = 1; b < count && !st; b++)
        if (s->depends[b] && !kiln_lower_tells(p, s->body, b, s->body, &owner, 1))
            st = expand(s, b);
    return st;
}

/* ---- moving inwards -------------------------------------------------------------------------- */

static bool uses_var(const kiln_program *p, kiln_stmt stmt, kiln_var var) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    bool uses = (s->condition && kiln_expr_uses_var(p, s->condition, var)) ||
                (s->value && kiln_expr_uses_var(p, s->value, var));
    for (uint32_t i = 0; i < s->index_count && !uses; i++)
        uses = kiln_expr_uses_var(p, s->index[i], var);
    for (uint32_t i = 0; i < s->child.count && !uses; i++)
        uses = uses_var(p, s->child.data[i], var);
    return uses;
}

/* Lanes stay innermost, and the loops of an instruction together. */
static bool stays_whole(const kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    if (s->kind != KILN_STMT_FOR) return false;
    return s->loop_kind == KILN_LOOP_VECTORIZE || kiln_intrinsic_of_loop(p, stmt) ||
           stays_whole(p, s->child.data[0]);
}

/* Puts the loop around a statement that it does not move into; `condition`: collected on its way;
 * 0: none. A statement that does not depend on the iteration gets no loop. */
static void put_loop(sinking *s, kiln_stmt stmt, kiln_expr condition) {
    kiln_program *p = s->p;
    if (condition) {
        kiln_stmt outer = kiln_stmt_create(p, KILN_STMT_IF);
        p->stmt.data[outer].condition = condition;
        kiln_stmt_wrap(p, stmt, outer);
        stmt = outer;
    }
    if (!uses_var(p, stmt, s->var)) return;
    kiln_var own = kiln_var_create(p, p->var.data[s->var].name, s->first, s->first + s->extent - 1);
    kiln_stmt loop = kiln_stmt_for(p, own, s->first, s->extent, KILN_LOOP_UNROLL, stmt);
    kiln_lower_replace(p, loop, kiln_expr_var(p, s->var), kiln_expr_var(p, own));
    kiln_vec_push_in(p->arena, &s->loop, loop);
}

/* A condition that depends on the iteration moves inwards with the loop, joined to `condition`. */
static kiln_expr move_condition(const sinking *s, kiln_stmt stmt, kiln_expr condition) {
    kiln_program *p = s->p;
    const kiln_stmt_info info = p->stmt.data[stmt];
    if (!kiln_expr_uses_var(p, info.condition, s->var)) return condition;
    kiln_stmt_replace(p, stmt, info.child.data[0]);
    return condition ? kiln_expr_binary(p, KILN_EXPR_AND, condition, info.condition)
                     : info.condition;
}

/* Whether a loop around several statements is in the tree. */
static bool has_steps(const kiln_program *p, kiln_stmt stmt, bool in_loop) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    if (s->kind == KILN_STMT_SEQ && s->child.count > 1 && in_loop) return true;
    bool found = false;
    for (uint32_t i = 0; i < s->child.count && !found; i++)
        found = has_steps(p, s->child.data[i], in_loop || s->kind == KILN_STMT_FOR);
    return found;
}

typedef struct buffers {
    bool *read, *written; /* [buffer count] */
} buffers;

static void add_read(kiln_program *p, kiln_expr load, void *context) {
    ((buffers *)context)->read[kiln_load_buffer(p, load)] = true;
}

static void find_buffers(kiln_program *p, kiln_stmt stmt, buffers *found) {
    const kiln_stmt_info info = p->stmt.data[stmt];
    kiln_expr_visit_loads(p, info.value, 0, add_read, found);
    kiln_expr_visit_loads(p, info.condition, 0, add_read, found);
    if (info.kind == KILN_STMT_STORE) found->written[info.buffer] = true;
    for (uint32_t i = 0; i < info.child.count; i++) find_buffers(p, info.child.data[i], found);
}

static buffers no_buffers(const kiln_program *p) {
    return (buffers){KILN_ARENA_ARRAY(p->arena, bool, p->buffer.count),
                     KILN_ARENA_ARRAY(p->arena, bool, p->buffer.count)};
}

/* Whether the statement may move before those whose accesses are in the buffers. */
static bool passes(kiln_program *p, kiln_stmt stmt, const buffers *before) {
    buffers own = no_buffers(p);
    find_buffers(p, stmt, &own);
    for (kiln_buffer b = 1; b < p->buffer.count; b++)
        if ((own.written[b] && (before->read[b] || before->written[b])) ||
            (own.read[b] && before->written[b]))
            return false;
    return true;
}

/* Puts one loop around statements of a sequence that follow each other, `stmt` and those behind it
 * in `run`. */
static void put_around(sinking *s, const kiln_stmt *run, uint32_t count, kiln_expr condition) {
    kiln_program *p = s->p;
    if (count == 0) return;
    if (count > 1) {
        kiln_stmt_wrap(p, run[0], kiln_stmt_create(p, KILN_STMT_SEQ));
        for (uint32_t i = 1; i < count; i++) {
            kiln_stmt_remove(p, run[i]);
            kiln_stmt_append(p, p->stmt.data[run[0]].parent, run[i]);
        }
    }
    put_loop(s, count > 1 ? p->stmt.data[run[0]].parent : run[0], condition);
}

static void sink_steps(sinking *s, kiln_stmt stmt, kiln_expr condition);

/* The statements of a sequence: those without steps as runs, with the statements that are the same
 * for all threads first. */
static void sink_sequence(sinking *s, kiln_stmt sequence, kiln_expr condition) {
    kiln_program *p = s->p;
    const uint32_t count = p->stmt.data[sequence].child.count;
    kiln_stmt *child = KILN_ARENA_ARRAY(p->arena, kiln_stmt, count),
              *run = KILN_ARENA_ARRAY(p->arena, kiln_stmt, count);
    uint32_t length = 0;
    buffers of_run = no_buffers(p);
    for (uint32_t i = 0; i < count; i++) child[i] = p->stmt.data[sequence].child.data[i];
    for (uint32_t i = 0; i < count; i++) {
        const bool steps = has_steps(p, child[i], false);
        const bool same = !steps && !condition && !uses_var(p, child[i], s->var);
        if (same && passes(p, child[i], &of_run)) {
            if (length == 0) continue;
            kiln_stmt_remove(p, child[i]);
            kiln_lower_put_before(p, run[0], child[i]);
            continue;
        }
        if (steps || same) {
            put_around(s, run, length, condition);
            length = 0;
            of_run = no_buffers(p);
            if (steps) sink_steps(s, child[i], condition);
            continue;
        }
        find_buffers(p, child[i], &of_run);
        run[length++] = child[i];
    }
    put_around(s, run, length, condition);
}

static void sink_steps(sinking *s, kiln_stmt stmt, kiln_expr condition) {
    kiln_program *p = s->p;
    const kiln_stmt_info info = p->stmt.data[stmt];
    if (info.kind == KILN_STMT_SEQ)
        sink_sequence(s, stmt, condition);
    else if (info.kind == KILN_STMT_FOR && has_steps(p, stmt, false))
        sink_steps(s, info.child.data[0], condition);
    else if (info.kind == KILN_STMT_IF && has_steps(p, stmt, false) &&
             !kiln_lower_reads(p, info.condition))
        sink_steps(s, info.child.data[0], move_condition(s, stmt, condition));
    else
        put_loop(s, stmt, condition);
}

static void sink(sinking *s, kiln_stmt stmt, kiln_expr condition) {
    kiln_program *p = s->p;
    const kiln_stmt_info info = p->stmt.data[stmt];
    if (info.kind == KILN_STMT_SEQ) {
        for (uint32_t i = 0; i < info.child.count; i++)
            sink(s, p->stmt.data[stmt].child.data[i], condition);
    } else if (info.kind == KILN_STMT_FOR && !stays_whole(p, stmt)) {
        sink(s, info.child.data[0], condition);
    } else if (info.kind == KILN_STMT_IF && !kiln_lower_reads(p, info.condition)) {
        sink(s, info.child.data[0], move_condition(s, stmt, condition));
    } else {
        put_loop(s, stmt, condition);
    }
}

/* ---- places ---------------------------------------------------------------------------------- */

static bool is_in_loops(const sinking *s, kiln_stmt stmt) {
    for (uint32_t i = 0; i < s->loop.count; i++)
        if (kiln_stmt_is_inside(s->p, stmt, s->loop.data[i])) return true;
    return false;
}

static void mark_stores(const sinking *s, kiln_stmt stmt) {
    const kiln_stmt_info info = s->p->stmt.data[stmt];
    if (info.kind == KILN_STMT_STORE && s->in_turn[info.buffer] &&
        !kiln_stmt_attribute(s->p, stmt, KILN_ATTRIBUTE_PIPELINE))
        kiln_stmt_set_attribute(
            s->p, stmt,
            (kiln_attribute){.id = KILN_ATTRIBUTE_PIPELINE, .row = (uint32_t)s->extent});
    for (uint32_t i = 0; i < info.child.count; i++) mark_stores(s, info.child.data[i]);
}

/* Stores say how many slots their temps have in turn. A temp that lives longer than a thread's part
 * of a step has a part for each thread. */
static void give_places(sinking *s) {
    const kiln_stmt *home = kiln_lower_homes(s->p, s->p->root);
    if (s->extent == 1 || s->extent > KILN_PIPELINE_STAGES_MAX) return;
    for (kiln_buffer b = 1; b < s->p->buffer.count; b++)
        s->in_turn[b] = s->in_turn[b] && home[b] &&
                        kiln_scopes[s->p->buffer.data[b].scope].seen_by == KILN_SEEN_BY_CORE &&
                        ((b < s->count && !s->depends[b]) || is_in_loops(s, home[b]));
    mark_stores(s, s->body);
}

static kiln_stmt find_loop(const kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    if (s->kind == KILN_STMT_FOR && s->loop_kind == KILN_LOOP_VTHREAD) return stmt;
    kiln_stmt found = 0;
    for (uint32_t i = 0; i < s->child.count && !found; i++) found = find_loop(p, s->child.data[i]);
    return found;
}

static kiln_status sink_program(kiln_program *p, bool by_steps) {
    kiln_status st = KILN_OK;
    for (kiln_stmt loop; !st && p && p->root && (loop = find_loop(p, p->root)) != 0;) {
        const kiln_stmt_info info = p->stmt.data[loop];
        sinking s = {.p = p,
                     .body = info.child.data[0],
                     .var = info.var,
                     .first = info.first,
                     .extent = info.extent};
        st = expand_temps(&s, loop);
        if (st) break;
        kiln_stmt_replace(p, loop, s.body);
        if (by_steps) {
            sink_steps(&s, s.body, 0);
            give_places(&s);
        } else {
            sink(&s, s.body, 0);
        }
    }
    return st;
}

kiln_status kiln_lower_vthread(kiln_lowering *l) {
    const bool by_steps = l->list == KILN_LOWER_CORE;
    kiln_status st = sink_program(l->run, by_steps);
    return st ? st : sink_program(l->prepare, by_steps);
}
