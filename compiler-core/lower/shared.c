/* shared: places the temps of a group in its memory. Two temps that are not alive together may have
 * the same bytes.
 *
 * Statements are numbered in program order. A temp is alive from its first access to its last one,
 * and throughout every loop inside of its home that has an access: it is uninitialised at the begin
 * of its home, so iterations of loops around that place pass nothing on to each other. Threads are
 * not in step between barriers, so of two temps one is dead only behind a barrier that follows its
 * last access and that all threads reach before the first access to the other; if a loop is around
 * both, another barrier must be between the second one's last access and the first one's in the
 * next iteration.
 *
 * Asynchronous copies are ordered by the WAIT before their readers. A temp with copies behind its
 * last WAIT is never free again. */
#include "base/check.h"
#include "base/integer.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/lower/pass.h"

/* A shared temp of the launch. */
typedef struct life {
    kiln_buffer buffer;
    kiln_stmt home;             /* smallest statement around all accesses */
    uint32_t first, last;       /* numbers of statements; first > last: no access so far */
    uint32_t copied;            /* number of the last copy to or from it */
    uint64_t offset, end;       /* bytes */
    bool has_copies, is_placed; /* has copies; has an offset */
} life;

typedef struct sharing {
    kiln_program *p;
    uint32_t count;
    uint32_t *first, *last; /* [stmt count]: numbers of the statement and of the last one in it */
    life *life;             /* [buffer count]; buffer 0: no shared temp of the launch */
    KILN_VEC(kiln_stmt) barrier, wait;
} sharing;

/* ---- accesses -------------------------------------------------------------------------------- */

static void number(sharing *sh, kiln_stmt stmt) {
    const kiln_stmt_info s = sh->p->stmt.data[stmt];
    sh->first[stmt] = ++sh->count;
    if (s.kind == KILN_STMT_BARRIER) kiln_vec_push_in(sh->p->arena, &sh->barrier, stmt);
    if (s.kind == KILN_STMT_WAIT) kiln_vec_push_in(sh->p->arena, &sh->wait, stmt);
    if (s.kind == KILN_STMT_ALLOC && sh->p->buffer.data[s.buffer].scope == KILN_SCOPE_SHARED)
        sh->life[s.buffer] = (life){.buffer = s.buffer, .first = UINT32_MAX};
    for (uint32_t i = 0; i < s.child.count; i++) number(sh, s.child.data[i]);
    sh->last[stmt] = sh->count;
}

typedef void (*access_visitor)(sharing *sh, life *of, kiln_stmt stmt);

typedef struct access_walk {
    sharing *sh;
    access_visitor visit;
} access_walk;

static void visit_load(kiln_program *p, kiln_stmt stmt, kiln_expr load, void *context) {
    const access_walk *w = context;
    life *of = &w->sh->life[kiln_expr_get(p, load)->payload.id];
    if (of->buffer) w->visit(w->sh, of, stmt);
}

static void visit_accesses(sharing *sh, kiln_stmt stmt, access_visitor visit) {
    const kiln_stmt_info s = sh->p->stmt.data[stmt];
    access_walk w = {sh, visit};
    kiln_lower_visit_loads(sh->p, stmt, 0, visit_load, &w);
    const bool stores = s.kind == KILN_STMT_STORE || s.kind == KILN_STMT_COPY;
    if (stores && sh->life[s.buffer].buffer) visit(sh, &sh->life[s.buffer], stmt);
    for (uint32_t i = 0; i < s.child.count; i++) visit_accesses(sh, s.child.data[i], visit);
}

static void extend_home(sharing *sh, life *of, kiln_stmt stmt) {
    of->home = kiln_home_add(sh->p, of->home, stmt);
}

/* The access itself, or the outermost loop around it that is inside of the home. */
static void extend_life(sharing *sh, life *of, kiln_stmt stmt) {
    const kiln_stmt_info *s = &sh->p->stmt.data[stmt];
    kiln_stmt alive = stmt;
    for (kiln_stmt at = stmt; at != of->home; at = sh->p->stmt.data[at].parent)
        if (sh->p->stmt.data[at].kind == KILN_STMT_FOR) alive = at;
    of->first = KILN_MIN(of->first, sh->first[alive]);
    of->last = KILN_MAX(of->last, sh->last[alive]);
    if (s->kind != KILN_STMT_COPY) return;
    of->has_copies = true;
    of->copied = KILN_MAX(of->copied, sh->first[stmt]);
}

/* Whether copies may be in flight behind the last access. */
static bool is_under_way(const sharing *sh, const life *of) {
    for (uint32_t i = 0; i < sh->wait.count; i++) {
        const uint32_t at = sh->first[sh->wait.data[i]];
        if (of->copied < at && at < of->last) return false;
    }
    return of->has_copies;
}

/* ---- what lives together --------------------------------------------------------------------- */

/* Whether the barrier is executed whenever one of the homes inside `within` is executed to its
 * end. */
static bool is_met(const sharing *sh, kiln_stmt barrier, kiln_stmt within, const life *a,
                   const life *b) {
    const kiln_program *p = sh->p;
    for (kiln_stmt at = p->stmt.data[barrier].parent; at != within; at = p->stmt.data[at].parent) {
        if (kiln_stmt_is_inside(p, a->home, at) || kiln_stmt_is_inside(p, b->home, at)) return true;
        const kiln_stmt_info *s = &p->stmt.data[at];
        if (s->kind == KILN_STMT_IF || (s->kind == KILN_STMT_FOR && s->extent == 0)) return false;
    }
    return true;
}

/* Whether a barrier is executed behind all of a and before all of b, and, if they are in a loop,
 * once more before a of the next iteration. */
static bool is_before(const sharing *sh, const life *a, const life *b) {
    const kiln_program *p = sh->p;
    const kiln_stmt common = kiln_nest_common(p, a->home, b->home);
    kiln_stmt loop = common;
    bool between = false, around = false;
    if (a->last >= b->first) return false;
    while (loop && (p->stmt.data[loop].kind != KILN_STMT_FOR ||
                    p->stmt.data[loop].loop_kind == KILN_LOOP_BIND))
        loop = p->stmt.data[loop].parent;
    for (uint32_t i = 0; i < sh->barrier.count; i++) {
        const kiln_stmt barrier = sh->barrier.data[i];
        const uint32_t at = sh->first[barrier];
        if (a->last < at && at < b->first) between |= is_met(sh, barrier, common, a, b);
        if (loop && kiln_stmt_is_inside(p, barrier, loop) && (at < a->first || b->last < at))
            around |= is_met(sh, barrier, loop, a, b);
    }
    return between && (around || !loop);
}

static bool live_together(const sharing *sh, const life *a, const life *b) {
    if (!a->home || !b->home) return false; /* one of them is no longer accessed */
    return !(is_before(sh, a, b) && !is_under_way(sh, a)) &&
           !(is_before(sh, b, a) && !is_under_way(sh, b));
}

/* ---- places ---------------------------------------------------------------------------------- */

static life *largest_left(const sharing *sh) {
    life *largest = NULL;
    uint64_t most = 0;
    for (kiln_buffer b = 1; b < sh->p->buffer.count; b++) {
        life *of = &sh->life[b];
        const uint64_t bytes = of->buffer && !of->is_placed ? kiln_lower_bytes(sh->p, b) : 0;
        if (!of->buffer || of->is_placed || (largest && bytes <= most)) continue;
        largest = of;
        most = bytes;
    }
    return largest;
}

/* The first offset from `offset` on whose bytes no temp has that is alive together with it. */
static uint64_t place_behind(const sharing *sh, const life *of, uint64_t offset, uint64_t bytes) {
    const uint64_t alignment = kiln_buffer_alignment(sh->p, of->buffer);
    for (kiln_buffer b = 1; b < sh->p->buffer.count;) {
        const life *other = &sh->life[b++];
        if (!other->is_placed || offset >= other->end || other->offset >= offset + bytes ||
            !live_together(sh, of, other))
            continue;
        offset = KILN_ALIGN_UP(other->end, alignment);
        b = 1;
    }
    return offset;
}

static void place_launch(kiln_program *p, kiln_stmt launch) {
    sharing sh = {.p = p,
                  .first = KILN_ARENA_ARRAY(p->arena, uint32_t, p->stmt.count),
                  .last = KILN_ARENA_ARRAY(p->arena, uint32_t, p->stmt.count),
                  .life = KILN_ARENA_ARRAY(p->arena, life, p->buffer.count)};
    number(&sh, launch);
    visit_accesses(&sh, launch, extend_home);
    visit_accesses(&sh, launch, extend_life);
    for (life *of = largest_left(&sh); of; of = largest_left(&sh)) {
        const uint64_t bytes = kiln_lower_bytes(p, of->buffer);
        of->offset = place_behind(&sh, of, 0, bytes);
        of->end = of->offset + bytes;
        of->is_placed = p->buffer.data[of->buffer].is_placed = true;
        p->buffer.data[of->buffer].offset = of->offset;
    }
}

/* Launches follow one another, also inside of allocations of device memory. */
static void place_root(kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info s = p->stmt.data[stmt];
    const bool is_memory =
        s.kind == KILN_STMT_ALLOC && p->buffer.data[s.buffer].scope == KILN_SCOPE_GLOBAL;
    if (!is_memory && s.kind != KILN_STMT_SEQ) {
        place_launch(p, stmt);
        return;
    }
    for (uint32_t i = 0; i < s.child.count; i++) place_root(p, s.child.data[i]);
}

kiln_status kiln_lower_shared(kiln_lowering *l) {
    if (l->run->root) place_root(l->run, l->run->root);
    if (l->prepare && l->prepare->root) place_root(l->prepare, l->prepare->root);
    return KILN_OK;
}
