/* Loop and lowered programs, executed one iteration and one thread after another, checked by shadow
 * memory (loop_shadow.h).
 *
 * Threads. A nest of thread loops runs its body once per thread, but in pieces from barrier to
 * barrier: a statement that contains a barrier is executed for the whole group, child by child, so
 * all threads have finished one piece before the first begins the next. An exchange between lanes
 * is a barrier of its warp: conditions around it are evaluated warp by warp.
 *
 * Lifetimes. A temp lives during its ALLOC, or, where there is none yet, during the smallest
 * statement that contains all its accesses: lowering will allocate it there. It starts
 * uninitialised each time, and each iteration of the loops around that place has its own copy. */
#include "compiler-core/ir/loop_eval.h"

#include "base/alloc.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/intrinsic.h"
#include "compiler-core/ir/loop_shadow.h"

#define CELLS_MAX (16 << 20) /* of a group's memory, where temps have places in it */

typedef struct execution {
    kiln_checker w;
    bool *is_home; /* [stmt count] */
    bool *meets;   /* [stmt count] contains a barrier */
    bool *steps;   /* [stmt count] contains a barrier or an exchange */
} execution;

static const kiln_program *program(const execution *ex) { return ex->w.in.p; }

/* Lanes that are summed into one element are added in some order, here in lane order. */
static bool is_concurrent(const kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    return s->kind == KILN_STMT_FOR && s->loop_kind != KILN_LOOP_SERIAL &&
           s->loop_kind != KILN_LOOP_UNROLL && !kiln_stmt_combines_lanes(p, stmt);
}

/* ---- statements ------------------------------------------------------------------ */

static kiln_status execute(execution *ex, kiln_stmt stmt);

static kiln_status take_status(execution *ex) {
    kiln_status st = ex->w.in.status;
    ex->w.in.status = NULL;
    return st;
}

static void eval_index(execution *ex, const kiln_expr *index, uint32_t count, int64_t *out) {
    for (uint32_t i = 0; i < count; i++) out[i] = kiln_interp_eval(&ex->w.in, index[i]).i;
}

/* Sets the block's iterators; `*out_first` says that all reduce iterators are 0. */
static kiln_status bind_iters(execution *ex, const kiln_block_info *b, bool *out_first) {
    *out_first = true;
    for (uint32_t i = 0; i < b->iter_count; i++) {
        const kiln_iter *iter = &b->iter[i];
        int64_t value = kiln_interp_eval(&ex->w.in, iter->binding).i;
        if (value < 0 || value >= iter->extent)
            return KILN_ERROR(
                FAILED_PRECONDITION, "block %.*s runs at %.*s = %lld, outside its domain of %lld",
                KILN_STR_ARG(b->name), KILN_STR_ARG(program(ex)->var.data[iter->var].name),
                (long long)value, (long long)iter->extent);
        ex->w.in.var[iter->var] = value;
        if (iter->reduce && value != 0) *out_first = false;
    }
    kiln_interp_moved(&ex->w.in);
    return KILN_OK;
}

static kiln_status execute_block(execution *ex, kiln_block block) {
    const kiln_block_info *b = &program(ex)->block.data[block];
    int64_t index[KILN_RANK_MAX] = {0};
    bool first;
    kiln_interp_moved(&ex->w.in);
    if (b->predicate && !kiln_interp_eval(&ex->w.in, b->predicate).i) return take_status(ex);
    kiln_status st = bind_iters(ex, b, &first);
    if (st) return st;
    eval_index(ex, b->index, b->index_count, index);
    kiln_scalar value = kiln_interp_eval(&ex->w.in, b->value);
    if (b->combiner != KILN_COMBINE_NONE) {
        kiln_scalar sum = {.i = 0};
        if (first && b->init) {
            sum = kiln_interp_eval(&ex->w.in, b->init);
        } else if (!ex->w.in.status) {
            ex->w.in.status = kiln_checker_load(&ex->w.in, b->buffer, index, &sum);
        }
        value =
            kiln_interp_combine(b->combiner, program(ex)->buffer.data[b->buffer].dtype, sum, value);
    }
    if (ex->w.in.status) return take_status(ex);
    return kiln_checker_store(&ex->w, b->buffer, index, value);
}

static kiln_status execute_store(execution *ex, const kiln_stmt_info *s) {
    int64_t index[KILN_RANK_MAX] = {0};
    kiln_interp_moved(&ex->w.in);
    eval_index(ex, s->index, s->index_count, index);
    kiln_scalar value = kiln_interp_eval(&ex->w.in, s->value);
    if (ex->w.in.status) return take_status(ex);
    return kiln_checker_store(&ex->w, s->buffer, index, value);
}

static kiln_status execute_children(execution *ex, const kiln_stmt_info *s) {
    kiln_status st = NULL;
    for (uint32_t i = 0; !st && i < s->child.count; i++) st = execute(ex, s->child.data[i]);
    return st;
}

static kiln_level *enter_level(execution *ex, kiln_stmt loop, bool is_group) {
    kiln_level *level = &ex->w.level[ex->w.depth++];
    *level = (kiln_level){.loop = loop, .is_group = is_group, .instance = ++ex->w.instances};
    return level;
}

static kiln_status execute_for(execution *ex, kiln_stmt stmt) {
    const kiln_stmt_info *s = &program(ex)->stmt.data[stmt];
    kiln_level *own = is_concurrent(program(ex), stmt) ? enter_level(ex, stmt, false) : NULL;
    kiln_status st = NULL;
    for (int64_t i = 0; !st && i < s->extent; i++) {
        ex->w.in.var[s->var] = s->first + i;
        if (own) own->iteration = (uint32_t)i;
        st = execute_children(ex, s);
        if (!st && kiln_stmt_level(program(ex), stmt) == KILN_LEVEL_GRID)
            st = kiln_checker_end(&ex->w);
    }
    ex->w.depth -= own != NULL;
    return st;
}

static void begin_life(execution *ex, kiln_buffer buffer) {
    ex->w.buffer[buffer].life++;
    ex->w.buffer[buffer].home_depth = ex->w.depth;
}

static void begin_lives(execution *ex, kiln_stmt stmt) {
    for (kiln_buffer b = 1; b < program(ex)->buffer.count; b++)
        if (ex->w.buffer[b].home == stmt) begin_life(ex, b);
}

static kiln_status execute_alloc(execution *ex, const kiln_stmt_info *s) {
    begin_life(ex, s->buffer);
    ex->w.buffer[s->buffer].is_away = false;
    kiln_status st = execute_children(ex, s);
    ex->w.buffer[s->buffer].is_away = true;
    return st;
}

static kiln_status execute_copy(execution *ex, const kiln_stmt_info *s) {
    int64_t index[KILN_RANK_MAX] = {0}, from[KILN_RANK_MAX] = {0};
    const kiln_expr_node *load = kiln_expr_get(program(ex), s->value);
    kiln_interp_moved(&ex->w.in);
    eval_index(ex, s->index, s->index_count, index);
    eval_index(ex, program(ex)->operand.data + load->first_operand, load->operand_count, from);
    kiln_scalar value = kiln_interp_eval(&ex->w.in, s->value);
    if (ex->w.in.status) return take_status(ex);
    return kiln_checker_copy(&ex->w, s, index, from, value);
}

static bool holds(execution *ex, const kiln_stmt_info *s) {
    kiln_interp_moved(&ex->w.in);
    return kiln_interp_eval(&ex->w.in, s->condition).i != 0;
}

/* ---- threads in step ------------------------------------------------------------- */

/* The group whose threads are run: loops from the outermost to the innermost. */
typedef struct group {
    const kiln_stmt_info *loop[KILN_AXIS_COUNT];
    uint32_t loop_count, threads;
    kiln_level *level;
    const bool *runs; /* [threads]; NULL: all run */
} group;

static bool is_at_rest(const group *g, uint32_t thread) { return g->runs && !g->runs[thread]; }

static void enter_thread(execution *ex, const group *g, uint32_t thread) {
    uint32_t rest = ex->w.thread = g->level->iteration = thread;
    for (uint32_t i = g->loop_count; i-- > 0;) {
        ex->w.in.var[g->loop[i]->var] = rest % (uint32_t)g->loop[i]->extent;
        rest /= (uint32_t)g->loop[i]->extent;
    }
}

static kiln_status step(execution *ex, const group *g, kiln_stmt stmt);

static kiln_status step_children(execution *ex, const group *g, const kiln_stmt_info *s) {
    kiln_status st = NULL;
    for (uint32_t i = 0; !st && i < s->child.count; i++) st = step(ex, g, s->child.data[i]);
    return st;
}

/* The stride between neighbours on thread.x, and their number. */
static uint32_t lane_stride(const group *g, uint32_t *out_lanes) {
    uint32_t stride = 1;
    *out_lanes = 1;
    for (uint32_t i = g->loop_count; i-- > 0; stride *= (uint32_t)g->loop[i]->extent) {
        if (g->loop[i]->axis != KILN_AXIS_THREAD_X) continue;
        *out_lanes = (uint32_t)g->loop[i]->extent;
        return stride;
    }
    return stride;
}

/* The first thread of the thread's warp. */
static uint32_t first_of_warp(const group *g, uint32_t thread) {
    uint32_t lanes;
    const uint32_t stride = lane_stride(g, &lanes);
    return thread - thread / stride % lanes % KILN_WARP_LANES * stride;
}

/* All threads must evaluate the condition alike if it contains a barrier, those of a warp if it
 * contains an exchange.
 */
static kiln_status step_if(execution *ex, const group *g, kiln_stmt stmt) {
    const kiln_stmt_info *s = &program(ex)->stmt.data[stmt];
    bool runs[KILN_GROUP_THREADS_MAX] = {false}, any = false;
    for (uint32_t t = 0; t < g->threads; t++) {
        const uint32_t first = ex->meets[stmt] ? 0 : first_of_warp(g, t);
        if (is_at_rest(g, t)) continue;
        enter_thread(ex, g, t);
        any |= runs[t] = holds(ex, s);
        if (ex->w.in.status) return take_status(ex);
        if (runs[t] != runs[first])
            return KILN_ERROR(
                FAILED_PRECONDITION,
                "%s is under a condition that differs between thread %u and thread %u "
                "of the nest of %.*s",
                ex->meets[stmt] ? "a barrier" : "an exchange", t, first,
                KILN_STR_ARG(program(ex)->var.data[g->loop[0]->var].name));
    }
    group inside = *g;
    inside.runs = runs;
    return any ? step_children(ex, ex->meets[stmt] ? g : &inside, s) : KILN_OK;
}

/* Each thread stores what another lane loads from its own memory. */
static kiln_status step_exchange(execution *ex, const group *g, const kiln_stmt_info *s,
                                 uint32_t away) {
    int64_t index[KILN_RANK_MAX] = {0};
    uint32_t lanes;
    const uint32_t stride = lane_stride(g, &lanes);
    kiln_status st = NULL;
    for (uint32_t t = 0; !st && t < g->threads; t++) {
        const uint32_t lane = t / stride % lanes;
        if (is_at_rest(g, t)) continue;
        if ((lane ^ away) >= lanes)
            return KILN_ERROR(FAILED_PRECONDITION, "lane %u exchanges with lane %u of %u", lane,
                              lane ^ away, lanes);
        enter_thread(ex, g, t - lane * stride + (lane ^ away) * stride);
        kiln_interp_moved(&ex->w.in);
        const kiln_scalar value = kiln_interp_eval(&ex->w.in, s->value);
        enter_thread(ex, g, t);
        kiln_interp_moved(&ex->w.in);
        eval_index(ex, s->index, s->index_count, index);
        if (ex->w.in.status) return take_status(ex);
        st = kiln_checker_store(&ex->w, s->buffer, index, value);
    }
    return st;
}

static kiln_status step_for(execution *ex, const group *g, kiln_stmt loop) {
    const kiln_stmt_info *s = &program(ex)->stmt.data[loop];
    kiln_status st = NULL;
    if (is_concurrent(program(ex), loop))
        return KILN_ERROR(FAILED_PRECONDITION, "a barrier is in concurrent loop %.*s",
                          KILN_STR_ARG(program(ex)->var.data[s->var].name));
    for (int64_t i = 0; !st && i < s->extent; i++) {
        ex->w.in.var[s->var] = s->first + i;
        st = step_children(ex, g, s);
    }
    return st;
}

static kiln_status step_alloc(execution *ex, const group *g, const kiln_stmt_info *s) {
    begin_life(ex, s->buffer);
    ex->w.buffer[s->buffer].is_away = false;
    kiln_status st = step_children(ex, g, s);
    ex->w.buffer[s->buffer].is_away = true;
    return st;
}

static kiln_status execute_token(execution *ex, const kiln_stmt_info *s) {
    kiln_interp_moved(&ex->w.in);
    const int64_t number = s->value ? kiln_interp_eval(&ex->w.in, s->value).i : -1;
    return s->kind == KILN_STMT_TOKEN_PUSH ? kiln_checker_push(&ex->w, s, number)
                                           : kiln_checker_pop(&ex->w, s, number);
}

/* A token of all threads of a unit; its number does not depend on the thread. */
static kiln_status step_token(execution *ex, const group *g, const kiln_stmt_info *s) {
    enter_thread(ex, g, 0);
    return execute_token(ex, s);
}

/* Runs the statement for all threads of the group: as a whole for one after the other, or in steps.
 */
static kiln_status step(execution *ex, const group *g, kiln_stmt stmt) {
    const kiln_stmt_info *s = &program(ex)->stmt.data[stmt];
    kiln_status st = NULL;
    ex->w.stmt = stmt;
    if (!ex->steps[stmt]) {
        for (uint32_t t = 0; !st && t < g->threads; t++) {
            if (is_at_rest(g, t)) continue;
            enter_thread(ex, g, t);
            st = execute(ex, stmt);
        }
        return st;
    }
    if (ex->is_home[stmt]) begin_lives(ex, stmt);
    if (s->kind == KILN_STMT_SEQ) return step_children(ex, g, s);
    if (s->kind == KILN_STMT_FOR) return step_for(ex, g, stmt);
    if (s->kind == KILN_STMT_IF) return step_if(ex, g, stmt);
    if (s->kind == KILN_STMT_ALLOC) return step_alloc(ex, g, s);
    if (s->kind == KILN_STMT_STORE)
        return step_exchange(ex, g, s,
                             kiln_stmt_attribute(program(ex), stmt, KILN_ATTRIBUTE_EXCHANGE)->row);
    if (s->kind != KILN_STMT_BARRIER) return step_token(ex, g, s);
    g->level->instance = ++ex->w.instances;
    kiln_checker_meet(&ex->w);
    return KILN_OK;
}

static kiln_status execute_group(execution *ex, kiln_stmt stmt) {
    group g = {.threads = 1};
    kiln_stmt body = stmt;
    for (; kiln_stmt_level(program(ex), body) == KILN_LEVEL_GROUP;
         body = g.loop[g.loop_count++]->child.data[0]) {
        g.loop[g.loop_count] = &program(ex)->stmt.data[body];
        g.threads *= (uint32_t)g.loop[g.loop_count]->extent;
    }
    g.level = enter_level(ex, stmt, true);
    kiln_status st = step(ex, &g, body);
    ex->w.depth--;
    ex->w.thread = 0;
    if (!st) st = kiln_checker_landed(&ex->w);
    if (!st && ex->steps[stmt]) st = kiln_checker_end(&ex->w);
    return st;
}

/* ---- all statements -------------------------------------------------------------- */

static kiln_status execute(execution *ex, kiln_stmt stmt) {
    const kiln_stmt_info *s = &program(ex)->stmt.data[stmt];
    bool runs;
    ex->w.stmt = stmt;
    if (ex->is_home[stmt]) begin_lives(ex, stmt);
    switch ((kiln_stmt_kind)s->kind) {
    case KILN_STMT_ALLOC: return execute_alloc(ex, s);
    case KILN_STMT_SEQ: return execute_children(ex, s);
    case KILN_STMT_FOR:
        return kiln_stmt_level(program(ex), stmt) == KILN_LEVEL_GROUP ? execute_group(ex, stmt)
                                                                      : execute_for(ex, stmt);
    case KILN_STMT_BLOCK: return execute_block(ex, s->block);
    case KILN_STMT_IF:
        runs = holds(ex, s);
        if (ex->w.in.status) return take_status(ex);
        return runs ? execute_children(ex, s) : KILN_OK;
    case KILN_STMT_STORE:
        if (ex->steps[stmt])
            return KILN_ERROR(FAILED_PRECONDITION, "an exchange is outside of thread loops");
        return execute_store(ex, s);
    case KILN_STMT_COPY: return execute_copy(ex, s);
    case KILN_STMT_COMMIT: kiln_checker_commit(&ex->w, s->token); return KILN_OK;
    case KILN_STMT_WAIT: return kiln_checker_wait(&ex->w, s->token, s->pending);
    case KILN_STMT_TOKEN_PUSH:
    case KILN_STMT_TOKEN_POP: return execute_token(ex, s);
    case KILN_STMT_BARRIER: /* between nests: the end of a nest is a barrier */
    case KILN_STMT_KIND_COUNT: break;
    }
    return KILN_OK;
}

/* ---- homes ----------------------------------------------------------------------- */

static kiln_stmt common_ancestor(const kiln_program *p, kiln_stmt a, kiln_stmt b) {
    while (!kiln_stmt_is_inside(p, b, a)) a = p->stmt.data[a].parent;
    return a;
}

static void extend_home(execution *ex, kiln_buffer buffer, kiln_stmt stmt) {
    kiln_stmt *home = &ex->w.buffer[buffer].home;
    *home = *home ? common_ancestor(program(ex), *home, stmt) : stmt;
}

/* Every buffer that e loads is accessed at `stmt`. `seen`: [expr count], last statement that
 * visited. */
static void extend_by_loads(execution *ex, kiln_expr e, kiln_stmt stmt, kiln_stmt *seen) {
    if (!e || seen[e] == stmt) return;
    seen[e] = stmt;
    const kiln_expr_node *node = kiln_expr_get(program(ex), e);
    if (node->op == KILN_EXPR_LOAD) extend_home(ex, node->payload.id, stmt);
    for (uint32_t i = 0; i < node->operand_count; i++)
        extend_by_loads(ex, kiln_expr_operand(program(ex), e, i), stmt, seen);
}

static void extend_by_stmt(execution *ex, kiln_stmt stmt, kiln_stmt *seen) {
    const kiln_stmt_info *s = &program(ex)->stmt.data[stmt];
    extend_by_loads(ex, s->condition, stmt, seen);
    extend_by_loads(ex, s->value, stmt, seen);
    for (uint32_t i = 0; i < s->index_count; i++) extend_by_loads(ex, s->index[i], stmt, seen);
    if (s->kind == KILN_STMT_STORE || s->kind == KILN_STMT_COPY) extend_home(ex, s->buffer, stmt);
    if (s->kind != KILN_STMT_BLOCK) return;
    const kiln_block_info *b = &program(ex)->block.data[s->block];
    extend_home(ex, b->buffer, stmt);
    extend_by_loads(ex, b->value, stmt, seen);
    extend_by_loads(ex, b->init, stmt, seen);
    for (uint32_t i = 0; i < b->index_count; i++) extend_by_loads(ex, b->index[i], stmt, seen);
}

static void leave_to_allocs(kiln_shadow *sh) {
    sh->home = 0;
    sh->is_away = true;
}

/* Threads in step share the buffers that all of them see, wherever they access them. */
static kiln_stmt shared_home(const execution *ex, kiln_buffer buffer, kiln_stmt home) {
    const kiln_buffer_info *info = &program(ex)->buffer.data[buffer];
    kiln_stmt nest = kiln_stmt_outermost(program(ex), home, KILN_LEVEL_GROUP);
    bool own = kiln_scopes[info->scope].seen_by == KILN_SEEN_BY_THREAD;
    return nest && ex->steps[nest] && !own ? nest : home;
}

/* Where each temp begins its lives: at its ALLOCs, of which lowering makes several when it copies
 * code, or else at its home. */
static void find_homes(execution *ex) {
    const kiln_program *p = program(ex);
    kiln_stmt *seen = kiln_alloc(sizeof *seen * p->expr.count);
    for (kiln_stmt s = 1; s < p->stmt.count; s++)
        if (kiln_stmt_is_inside(p, s, p->root)) extend_by_stmt(ex, s, seen);
    kiln_free(seen);
    for (kiln_stmt s = 1; s < p->stmt.count; s++)
        if (p->stmt.data[s].kind == KILN_STMT_ALLOC && kiln_stmt_is_inside(p, s, p->root))
            leave_to_allocs(&ex->w.buffer[p->stmt.data[s].buffer]);
    for (kiln_buffer b = 1; b < p->buffer.count; b++) {
        kiln_stmt *home = &ex->w.buffer[b].home;
        kiln_stmt_kind kind = (kiln_stmt_kind)p->stmt.data[*home].kind;
        /* A buffer that only one statement touches is never read by another: it has one life. */
        bool single = kind == KILN_STMT_BLOCK || kind == KILN_STMT_STORE || kind == KILN_STMT_COPY;
        if (p->buffer.data[b].role != KILN_ROLE_TEMP || single) *home = 0;
        if (*home) *home = shared_home(ex, b, *home);
        if (*home) ex->is_home[*home] = true;
    }
}

/* ---- set-up ---------------------------------------------------------------------- */

static uint32_t concurrent_depth(const kiln_program *p) {
    uint32_t deepest = 0;
    for (kiln_stmt s = 1; s < p->stmt.count; s++) {
        uint32_t depth = 0;
        for (kiln_stmt at = s; at; at = p->stmt.data[at].parent) depth += is_concurrent(p, at);
        deepest = KILN_MAX(deepest, depth);
    }
    return deepest;
}

static bool is_stored(const kiln_program *p, kiln_buffer buffer) {
    for (kiln_stmt s = 1; s < p->stmt.count; s++) {
        const kiln_stmt_info *info = &p->stmt.data[s];
        bool stores =
            ((info->kind == KILN_STMT_STORE || info->kind == KILN_STMT_COPY) &&
             info->buffer == buffer) ||
            (info->kind == KILN_STMT_BLOCK && p->block.data[info->block].buffer == buffer);
        if (stores && kiln_stmt_is_inside(p, s, p->root)) return true;
    }
    return false;
}

/* Threads of the nest in step around `stmt`, or 1. */
static uint32_t threads_around(const execution *ex, kiln_stmt stmt) {
    const kiln_program *p = program(ex);
    uint32_t threads = 1;
    for (kiln_stmt at = p->stmt.data[stmt].parent; at; at = p->stmt.data[at].parent)
        if (kiln_stmt_level(p, at) == KILN_LEVEL_GROUP && ex->steps[at])
            threads *= (uint32_t)p->stmt.data[at].extent;
    return threads;
}

/* A temp that lives inside a nest whose threads run in step has a copy for each thread. */
static void count_copies(execution *ex) {
    const kiln_program *p = program(ex);
    for (kiln_buffer b = 1; b < p->buffer.count; b++)
        ex->w.buffer[b].copies =
            ex->w.buffer[b].home ? threads_around(ex, ex->w.buffer[b].home) : 1;
    for (kiln_stmt s = 1; s < p->stmt.count; s++) {
        if (p->stmt.data[s].kind != KILN_STMT_ALLOC || !kiln_stmt_is_inside(p, s, p->root))
            continue;
        uint32_t *copies = &ex->w.buffer[p->stmt.data[s].buffer].copies;
        *copies = KILN_MAX(*copies, threads_around(ex, s));
    }
}

static bool find_steps(execution *ex, kiln_stmt stmt) {
    const kiln_stmt_info *s = &program(ex)->stmt.data[stmt];
    bool found = kiln_stmt_is_step(program(ex), stmt), exchanges = false;
    ex->w.has_units |= s->kind == KILN_STMT_TOKEN_PUSH || s->kind == KILN_STMT_TOKEN_POP ||
                       kiln_stmt_attribute(program(ex), stmt, KILN_ATTRIBUTE_UNIT);
    for (uint32_t i = 0; i < s->child.count; i++) {
        found |= find_steps(ex, s->child.data[i]);
        exchanges |= ex->steps[s->child.data[i]];
    }
    exchanges |= kiln_stmt_attribute(program(ex), stmt, KILN_ATTRIBUTE_EXCHANGE) != NULL;
    ex->steps[stmt] = found || exchanges;
    return ex->meets[stmt] = found;
}

static void give_args(execution *ex, const kiln_tensor *args) {
    const kiln_program *p = program(ex);
    kiln_arg_buffers arg = kiln_program_args(p);
    for (uint32_t i = 0; i < arg.count; i++) {
        kiln_role role = p->buffer.data[arg.buffer[i]].role;
        ex->w.buffer[arg.buffer[i]].tensor = args[i];
        ex->w.buffer[arg.buffer[i]].is_given =
            role == KILN_ROLE_INPUT || role == KILN_ROLE_CONSTANT ||
            (role == KILN_ROLE_PACKED && !is_stored(p, arg.buffer[i]));
    }
}

/* Cells of a group's memory are as large as the smallest element of the temps that have a place. */
static kiln_status make_cells(execution *ex) {
    const kiln_program *p = program(ex);
    kiln_checker *w = &ex->w;
    uint64_t end = 0;
    size_t bytes;
    for (kiln_buffer b = 1; b < p->buffer.count; b++) {
        const kiln_buffer_info *info = &p->buffer.data[b];
        if (!info->is_placed) continue;
        const kiln_shape places = kiln_layout_physical(&info->layout, &info->shape);
        const uint32_t size = (uint32_t)kiln_dtype_size(info->dtype);
        kiln_status st = kiln_shape_bytes(&places, info->dtype, &bytes);
        if (st) return kiln_status_note(st, "buffer %.*s", KILN_STR_ARG(info->name));
        end = KILN_MAX(end, info->offset + bytes);
        w->cell_bytes = w->cell_bytes ? KILN_MIN(w->cell_bytes, size) : size;
    }
    if (!end) return KILN_OK;
    if (end > CELLS_MAX)
        return KILN_ERROR(RESOURCE_EXHAUSTED, "temps of a group take %llu bytes",
                          (unsigned long long)end);
    w->cell_count = (uint32_t)((end + w->cell_bytes - 1) / w->cell_bytes);
    w->holder = KILN_ARENA_ARRAY(w->arena, kiln_buffer, w->cell_count);
    w->coming = KILN_ARENA_ARRAY(w->arena, uint32_t, w->cell_count);
    w->touched = KILN_ARENA_ARRAY(w->arena, kiln_touch,
                                  (size_t)w->cell_count * w->depth_max * kiln_checker_touches(w));
    return KILN_OK;
}

static void find_cells(execution *ex, kiln_buffer buffer) {
    const kiln_buffer_info *info = &program(ex)->buffer.data[buffer];
    kiln_shadow *sh = &ex->w.buffer[buffer];
    const uint32_t size = (uint32_t)kiln_dtype_size(info->dtype);
    sh->cells = size / ex->w.cell_bytes;
    sh->first_cell = KILN_ARENA_ARRAY(ex->w.arena, uint32_t, sh->count);
    for (size_t e = 0; e < sh->count; e++) {
        int64_t index[KILN_RANK_MAX], rest = (int64_t)e;
        for (uint32_t d = info->shape.rank; d-- > 0; rest /= info->shape.dim[d])
            index[d] = rest % info->shape.dim[d];
        const int64_t place = kiln_layout_offset(&info->layout, &info->shape, index);
        sh->first_cell[e] =
            (uint32_t)(info->offset / ex->w.cell_bytes) + (uint32_t)place * sh->cells;
    }
}

static kiln_status make_shadow(execution *ex, kiln_buffer buffer) {
    const kiln_buffer_info *info = &program(ex)->buffer.data[buffer];
    kiln_shadow *sh = &ex->w.buffer[buffer];
    kiln_arena *arena = ex->w.arena;
    size_t bytes;
    kiln_status st = kiln_shape_bytes(&info->shape, info->dtype, &bytes);
    if (st) return kiln_status_note(st, "buffer %.*s", KILN_STR_ARG(info->name));
    sh->life = 1;
    sh->count = (size_t)kiln_shape_count(&info->shape);
    size_t all = sh->count * sh->copies;
    if (!sh->tensor.data) {
        kiln_shape flat = {.rank = 1, .dim = {(int64_t)all}};
        sh->tensor = kiln_tensor_create(arena, info->dtype, &flat);
        sh->tensor.shape = info->shape;
    }
    sh->written_in = KILN_ARENA_ARRAY(arena, uint32_t, all);
    sh->coming = KILN_ARENA_ARRAY(arena, uint32_t, all);
    sh->going = KILN_ARENA_ARRAY(arena, uint32_t, all);
    if (info->is_placed)
        find_cells(ex, buffer);
    else
        sh->touched = KILN_ARENA_ARRAY(arena, kiln_touch,
                                       all * ex->w.depth_max * kiln_checker_touches(&ex->w));
    if (ex->w.has_units)
        sh->by_unit = KILN_ARENA_ARRAY(arena, kiln_unit_touch, all * KILN_UNIT_COUNT);
    return KILN_OK;
}

static kiln_status check_outputs(const execution *ex) {
    const kiln_program *p = program(ex);
    for (kiln_buffer b = 1; b < p->buffer.count; b++) {
        if (p->buffer.data[b].role != KILN_ROLE_OUTPUT) continue;
        int64_t count = kiln_shape_count(&p->buffer.data[b].shape);
        for (int64_t i = 0; i < count; i++)
            if (!ex->w.buffer[b].written_in[i])
                return KILN_ERROR(FAILED_PRECONDITION,
                                  "element %lld of output %.*s is never written", (long long)i,
                                  KILN_STR_ARG(p->buffer.data[b].name));
    }
    return KILN_OK;
}

static kiln_status run(execution *ex, const kiln_tensor *args) {
    const kiln_program *p = program(ex);
    kiln_status st = KILN_OK;
    find_steps(ex, p->root);
    find_homes(ex);
    count_copies(ex);
    give_args(ex, args);
    st = make_cells(ex);
    for (kiln_buffer b = 1; b < p->buffer.count && !st; b++) st = make_shadow(ex, b);
    if (!st) st = execute(ex, p->root);
    if (!st) st = kiln_checker_landed(&ex->w);
    if (!st) st = kiln_checker_drained(&ex->w);
    return st ? st : check_outputs(ex);
}

kiln_status kiln_loop_eval(const kiln_program *p, const kiln_tensor *args, uint32_t arg_count) {
    kiln_status st = kiln_interp_check_args(p, args, arg_count);
    if (st) return st;
    if (!p->root) return KILN_ERROR(INVALID_ARGUMENT, "the program has no loops yet");
    kiln_arena scratch;
    kiln_arena_init(&scratch, 0);
    execution *ex = KILN_ARENA_NEW(&scratch, execution);
    kiln_interp_init(&ex->w.in, p, kiln_checker_load, &ex->w);
    ex->w.arena = &scratch;
    ex->w.buffer = KILN_ARENA_ARRAY(&scratch, kiln_shadow, p->buffer.count);
    ex->w.depth_max = concurrent_depth(p);
    ex->w.level = KILN_ARENA_ARRAY(&scratch, kiln_level, ex->w.depth_max);
    for (uint32_t u = 0; u < KILN_UNIT_COUNT; u++) ex->w.clock[u].time[u] = 1;
    ex->is_home = KILN_ARENA_ARRAY(&scratch, bool, p->stmt.count);
    ex->meets = KILN_ARENA_ARRAY(&scratch, bool, p->stmt.count);
    ex->steps = KILN_ARENA_ARRAY(&scratch, bool, p->stmt.count);
    st = run(ex, args);
    kiln_interp_deinit(&ex->w.in);
    kiln_arena_deinit(&scratch);
    return st;
}
