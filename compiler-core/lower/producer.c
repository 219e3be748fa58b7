/* producer: dedicated threads fetch for a pipeline, and all others compute on the fetched slots.
 * The temps get a slot for each stage, and tokens say which slots are full and which are empty.
 * With 2 stages of n iterations:
 *
 *     barrier
 *     push compute -> load 0, 1: both slots are empty
 *     for all iterations i:
 *       pop compute -> load i: wait for an empty slot
 *       copies into slot i mod 2, by the last thread.z
 *       push load -> compute i: they have landed
 *       pop load -> compute i: wait for a full slot
 *       the work of this one, of its slot, by all other threads
 *       push compute -> load i + 2: the slot is empty
 *     pop compute -> load n, n + 1
 *
 * Program order is one of the orders in which both may run, so the loop interpreter executes it and
 * checks by the tokens that all others give the same (ir/device.h). Code generation emits each side
 * as a separate program. The remaining tokens are popped at the end, so queues are empty then.
 *
 * Loops around it in the group continue with the same tokens, so the first fetches of their next
 * iteration run while the last slots of this one are computed on.
 *
 * No statement of the loop synchronises all threads, so the computing threads must not write memory
 * that other threads see: they would have to wait for each other. */
#include "base/check.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/ir/intrinsic.h"
#include "compiler-core/lower/pass.h"
#include "compiler-core/lower/pipeline.h"

#define REFUSE(...) KILN_ERROR(ILLEGAL_SCHEDULE, __VA_ARGS__)
#define LOOP_NAME(l) KILN_STR_ARG((l)->p->var.data[(l)->p->stmt.data[(l)->loop].var].name)

/* ---- threads --------------------------------------------------------------------------------- */

static bool is_of_fetch(const kiln_pipelining *l, kiln_stmt stmt) {
    for (uint32_t i = 0; i < l->fetch.count; i++)
        if (l->fetch.data[i] == stmt) return true;
    return false;
}

/* The longest loops on each axis below, without those of fetches; `extent`: 1 where there is none.
 */
static void measure(const kiln_pipelining *l, kiln_stmt stmt, bool fetches, int64_t *extent) {
    const kiln_stmt_info *s = &l->p->stmt.data[stmt];
    if (!fetches && is_of_fetch(l, stmt)) return;
    if (kiln_stmt_level(l->p, stmt) == KILN_LEVEL_GROUP)
        extent[s->axis] = KILN_MAX(extent[s->axis], s->extent);
    for (uint32_t i = 0; i < s->child.count; i++) measure(l, s->child.data[i], fetches, extent);
}

static kiln_status check_threads(const kiln_pipelining *l, const int64_t *works,
                                 const int64_t *fetches) {
    const int64_t producers = works[KILN_AXIS_THREAD_X] * works[KILN_AXIS_THREAD_Y],
                  all = producers * (works[KILN_AXIS_THREAD_Z] + 1);
    if (fetches[KILN_AXIS_THREAD_X] > works[KILN_AXIS_THREAD_X] ||
        fetches[KILN_AXIS_THREAD_Y] > works[KILN_AXIS_THREAD_Y])
        return REFUSE("loop %.*s has a producer of %lld x %lld threads, as its work has; its "
                      "fetches take %lld x %lld",
                      LOOP_NAME(l), (long long)works[KILN_AXIS_THREAD_X],
                      (long long)works[KILN_AXIS_THREAD_Y], (long long)fetches[KILN_AXIS_THREAD_X],
                      (long long)fetches[KILN_AXIS_THREAD_Y]);
    if (producers % KILN_WARP_LANES != 0)
        return REFUSE("loop %.*s has a producer of %lld threads, which are no whole warps",
                      LOOP_NAME(l), (long long)producers);
    if (all > KILN_GROUP_THREADS_MAX)
        return REFUSE("loop %.*s has a producer; with it the group has %lld threads, of %d at most",
                      LOOP_NAME(l), (long long)all, KILN_GROUP_THREADS_MAX);
    return KILN_OK;
}

/* ---- what may stand in the loop and around it ------------------------------------------------ */

/* A buffer that the statement stores to and that other threads see; 0: none. */
static kiln_buffer find_shared_store(const kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    if (s->kind == KILN_STMT_STORE &&
        kiln_scopes[p->buffer.data[s->buffer].scope].seen_by != KILN_SEEN_BY_THREAD)
        return s->buffer;
    kiln_buffer found = 0;
    for (uint32_t i = 0; i < s->child.count && !found; i++)
        found = find_shared_store(p, s->child.data[i]);
    return found;
}

static bool has_steps(const kiln_program *p, kiln_stmt stmt) {
    bool found = kiln_stmt_is_step(p, stmt);
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count && !found; i++)
        found = has_steps(p, p->stmt.data[stmt].child.data[i]);
    return found;
}

static bool has_tokens(const kiln_program *p, kiln_stmt stmt) {
    bool found = p->stmt.data[stmt].kind == KILN_STMT_TOKEN_PUSH;
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count && !found; i++)
        found = has_tokens(p, p->stmt.data[stmt].child.data[i]);
    return found;
}

/* The outermost loop of the group around the loop, or itself. */
static kiln_stmt outermost_loop(const kiln_pipelining *l) {
    kiln_stmt outer = l->loop;
    for (kiln_stmt at = l->loop; at; at = l->p->stmt.data[at].parent)
        if (l->p->stmt.data[at].kind == KILN_STMT_FOR &&
            kiln_stmt_level(l->p, at) == KILN_LEVEL_NONE)
            outer = at;
    return outer;
}

/* Tokens are counted from 0 through all iterations of the loops around it, so each of these must
 * run, and no other loop of the launch may have tokens. */
static kiln_status check_place(const kiln_pipelining *l, kiln_stmt launch) {
    const kiln_program *p = l->p;
    for (kiln_stmt at = p->stmt.data[l->loop].parent; at; at = p->stmt.data[at].parent)
        if (p->stmt.data[at].kind == KILN_STMT_IF)
            return REFUSE("loop %.*s has a producer, and a condition is around it", LOOP_NAME(l));
    if (has_tokens(p, launch))
        return REFUSE("loop %.*s has a producer, and another loop of the launch has one",
                      LOOP_NAME(l));
    for (uint32_t i = 0; i < l->work.count; i++) {
        const kiln_buffer shared = find_shared_store(p, l->work.data[i]);
        if (shared || has_steps(p, l->work.data[i]))
            return REFUSE("loop %.*s has a producer, and the threads that compute "
                          "would have to wait for each other%s%.*s",
                          LOOP_NAME(l), shared ? ": they write " : "",
                          KILN_STR_ARG(shared ? p->buffer.data[shared].name : KILN_STR("")));
    }
    return KILN_OK;
}

/* ---- fetches --------------------------------------------------------------------------------- */

static void mark_stores(kiln_program *p, kiln_stmt stmt, kiln_attribute mark) {
    if (p->stmt.data[stmt].kind == KILN_STMT_STORE) kiln_stmt_set_attribute(p, stmt, mark);
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++)
        mark_stores(p, p->stmt.data[stmt].child.data[i], mark);
}

/* Makes the producer execute the nest. Each of its threads runs all iterations of the nest's loop
 * over thread.z, the axis by which the producer is chosen. */
static void give_to_producer(kiln_program *p, kiln_stmt nest, void *context) {
    const int64_t groups = *(const int64_t *)context;
    const kiln_var var =
        kiln_var_create(p, kiln_str_from(kiln_axes[KILN_AXIS_THREAD_Z].text), 0, groups);
    kiln_stmt body = nest, loop = 0, branch = kiln_stmt_create(p, KILN_STMT_IF);
    for (; kiln_stmt_level(p, body) == KILN_LEVEL_GROUP; body = p->stmt.data[body].child.data[0])
        if (p->stmt.data[body].axis == KILN_AXIS_THREAD_Z) loop = body;
    p->stmt.data[branch].condition =
        kiln_expr_binary(p, KILN_EXPR_EQ, kiln_expr_var(p, var), kiln_expr_index(p, groups));
    kiln_stmt_wrap(p, body, branch);
    if (loop) {
        const kiln_stmt_info s = p->stmt.data[loop];
        kiln_stmt_for(p, s.var, s.first, s.extent, KILN_LOOP_SERIAL, body);
        p->stmt.data[loop].var = var;
        p->stmt.data[loop].first = 0;
        p->stmt.data[loop].extent = groups + 1;
        return;
    }
    if (nest == body) nest = branch;
    loop = kiln_stmt_for(p, var, 0, groups + 1, KILN_LOOP_BIND, nest);
    p->stmt.data[loop].axis = KILN_AXIS_THREAD_Z;
}

/* Does so with all fetches, and replaces each by the statement that is now in the loop's body. */
static kiln_status give_fetches(kiln_pipelining *l, int64_t groups) {
    kiln_program *p = l->p;
    const kiln_stmt body = p->stmt.data[l->loop].child.data[0];
    const kiln_attribute unit = {.id = KILN_ATTRIBUTE_UNIT, .row = KILN_UNIT_LOAD},
                         box = {.id = KILN_ATTRIBUTE_BOX, .row = KILN_UNIT_LOAD};
    const bool has_boxes = kiln_stmt_attribute(p, l->loop, KILN_ATTRIBUTE_BOX);
    kiln_status st = KILN_OK;
    for (uint32_t i = 0; i < l->fetch.count && !st; i++) {
        kiln_stmt *fetch = &l->fetch.data[i];
        mark_stores(p, *fetch, unit);
        if (has_boxes) mark_stores(p, *fetch, box);
        st = kiln_lower_visit_nests(p, *fetch, give_to_producer, &groups);
        while (p->stmt.data[*fetch].parent != body) *fetch = p->stmt.data[*fetch].parent;
    }
    return st;
}

/* ---- the loop -------------------------------------------------------------------------------- */

static kiln_stmt token(kiln_program *p, kiln_stmt_kind kind, kiln_unit from, kiln_unit to,
                       kiln_expr number, int64_t slots) {
    kiln_stmt stmt = kiln_stmt_create(p, kind);
    kiln_stmt_info *s = &p->stmt.data[stmt];
    s->from = (uint8_t)from;
    s->to = (uint8_t)to;
    s->value = number;
    s->pending = (uint8_t)slots;
    return stmt;
}

static void append_ends(kiln_program *p, kiln_stmt to, kiln_stmt_kind kind, int64_t first,
                        int64_t slots) {
    for (int64_t i = 0; i < slots; i++)
        kiln_stmt_append(p, to,
                         token(p, kind, KILN_UNIT_COMPUTE, KILN_UNIT_LOAD,
                               kiln_expr_index(p, first + i), slots));
}

/* Number of the iteration among all of the loop and those around it, in order. */
static kiln_expr number_of(const kiln_pipelining *l, kiln_stmt loop) {
    kiln_program *p = l->p;
    int64_t below = 1;
    kiln_expr number = kiln_expr_index(p, 0);
    for (kiln_stmt at = loop; at; at = p->stmt.data[at].parent) {
        if (p->stmt.data[at].kind != KILN_STMT_FOR || kiln_stmt_level(p, at) != KILN_LEVEL_NONE)
            continue;
        const kiln_expr steps = kiln_expr_binary(p, KILN_EXPR_MUL, kiln_pipeline_number(p, at),
                                                 kiln_expr_index(p, below));
        number = kiln_expr_binary(p, KILN_EXPR_ADD, steps, number);
        below *= p->stmt.data[at].extent;
    }
    return kiln_expr_simplify(p, number, NULL);
}

static int64_t count_iterations(const kiln_pipelining *l) {
    int64_t count = 1;
    for (kiln_stmt at = l->loop; at; at = l->p->stmt.data[at].parent)
        if (l->p->stmt.data[at].kind == KILN_STMT_FOR &&
            kiln_stmt_level(l->p, at) == KILN_LEVEL_NONE)
            count *= l->p->stmt.data[at].extent;
    return count;
}

/* Puts the tokens and a copy of all statements into the loop's body, in its place. */
static void make_iteration(const kiln_pipelining *l, int64_t slots) {
    kiln_program *p = l->p;
    const kiln_stmt_info s = p->stmt.data[l->loop];
    const kiln_expr now = kiln_expr_var(p, s.var), number = number_of(l, l->loop),
                    next = kiln_expr_binary(p, KILN_EXPR_ADD, number, kiln_expr_index(p, slots));
    const kiln_unit load = KILN_UNIT_LOAD, compute = KILN_UNIT_COMPUTE;
    kiln_stmt body = kiln_stmt_create(p, KILN_STMT_SEQ);
    kiln_stmt_append(p, body, token(p, KILN_STMT_TOKEN_POP, compute, load, number, slots));
    kiln_pipeline_append(p, body, l->fetch.data, l->fetch.count, s.var, now);
    kiln_stmt_append(p, body, token(p, KILN_STMT_TOKEN_PUSH, load, compute, number, slots));
    kiln_stmt_append(p, body, token(p, KILN_STMT_TOKEN_POP, load, compute, number, slots));
    kiln_pipeline_append(p, body, l->work.data, l->work.count, s.var, now);
    kiln_stmt_append(p, body, token(p, KILN_STMT_TOKEN_PUSH, compute, load, next, slots));
    kiln_stmt_replace(p, s.child.data[0], body);
    p->stmt.data[l->loop].attribute.count = 0; /* the loop is no longer a pipeline */
}

/* The tokens before and behind all iterations. */
static kiln_stmt put_around(const kiln_pipelining *l, int64_t slots) {
    kiln_program *p = l->p;
    const int64_t count = count_iterations(l);
    const kiln_stmt outer = outermost_loop(l), all = kiln_stmt_create(p, KILN_STMT_SEQ);
    kiln_stmt_replace(p, outer, all);
    kiln_stmt_append(p, all, kiln_stmt_create(p, KILN_STMT_BARRIER));
    append_ends(p, all, KILN_STMT_TOKEN_PUSH, 0, slots);
    kiln_stmt_append(p, all, outer);
    append_ends(p, all, KILN_STMT_TOKEN_POP, count, slots);
    return all;
}

kiln_status kiln_pipeline_by_producer(kiln_pipelining *l, int64_t stages) {
    kiln_program *p = l->p;
    int64_t works[KILN_AXIS_COUNT], fetches[KILN_AXIS_COUNT];
    uint32_t copies = 0;
    kiln_stmt launch = l->loop;
    while (p->stmt.data[launch].parent != p->root) launch = p->stmt.data[launch].parent;
    for (uint32_t a = 0; a < KILN_AXIS_COUNT; a++) works[a] = fetches[a] = 1;
    measure(l, launch, false, works);
    for (uint32_t i = 0; i < l->fetch.count; i++) {
        measure(l, l->fetch.data[i], true, fetches);
        copies += kiln_pipeline_mark_copies(p, l->fetch.data[i], 0);
    }
    if (copies == 0)
        return REFUSE("loop %.*s has a producer, and none of its fetches is a copy", LOOP_NAME(l));
    kiln_status st = check_threads(l, works, fetches);
    if (!st) st = check_place(l, launch);
    const int64_t slots = KILN_MIN(stages, count_iterations(l));
    if (!st) st = kiln_pipeline_expand(l, slots, number_of(l, l->loop));
    if (!st) st = give_fetches(l, works[KILN_AXIS_THREAD_Z]);
    if (st) return st;
    make_iteration(l, slots);
    kiln_lower_simplify_below(p, put_around(l, slots), NULL);
    return KILN_OK;
}
