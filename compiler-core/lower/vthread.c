/* vthread: iterations of a virtual thread loop stand side by side in the body of one thread. Such
 * loops may stand around anything inside a launch, thread nests and serial loops with them; as no
 * iteration depends on another, they move inwards past all of it, to each store, and are unrolled
 * there. So what a thread keeps for all of its virtual threads is chosen by constants, and stays in
 * registers.
 *
 * A temp that each iteration makes for itself becomes one with a dimension more, unless its
 * elements tell the iteration as they are, or all iterations make the same: then one makes it for
 * all. */
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
    bool *own;     /* [buffer count] each iteration has its own */
    bool *depends; /* [buffer count] of these: what it holds depends on the iteration */
    bool changed;
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
    return kiln_lower_expand(p, s->body, buffer, s->extent, at)
               ? KILN_OK
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
    const uint32_t count = p->buffer.count; /* expansion makes more */
    const kiln_owner owner = {s->var, s->extent};
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

/* The loop around a statement that it does not move into; `condition`: what it met on its way; 0:
 * none. What does not ask for the iteration is the same in all of them. */
static void put_loop(const sinking *s, kiln_stmt stmt, kiln_expr condition) {
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
}

static void sink(const sinking *s, kiln_stmt stmt, kiln_expr condition) {
    kiln_program *p = s->p;
    const kiln_stmt_info info = p->stmt.data[stmt];
    if (info.kind == KILN_STMT_SEQ) {
        for (uint32_t i = 0; i < info.child.count; i++)
            sink(s, p->stmt.data[stmt].child.data[i], condition);
    } else if (info.kind == KILN_STMT_FOR && !stays_whole(p, stmt)) {
        sink(s, info.child.data[0], condition);
    } else if (info.kind == KILN_STMT_IF && !kiln_lower_reads(p, info.condition)) {
        kiln_expr now = condition;
        if (kiln_expr_uses_var(p, info.condition, s->var)) {
            now = now ? kiln_expr_binary(p, KILN_EXPR_AND, now, info.condition) : info.condition;
            kiln_stmt_replace(p, stmt, info.child.data[0]);
        }
        sink(s, info.child.data[0], now);
    } else {
        put_loop(s, stmt, condition);
    }
}

static kiln_stmt find_loop(const kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    if (s->kind == KILN_STMT_FOR && s->loop_kind == KILN_LOOP_VTHREAD) return stmt;
    kiln_stmt found = 0;
    for (uint32_t i = 0; i < s->child.count && !found; i++) found = find_loop(p, s->child.data[i]);
    return found;
}

static kiln_status sink_program(kiln_program *p) {
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
        sink(&s, s.body, 0);
    }
    return st;
}

kiln_status kiln_lower_vthread(kiln_lowering *l) {
    kiln_status st = sink_program(l->run);
    return st ? st : sink_program(l->prepare);
}
