/* place: each temp is allocated around all its accesses, as deep as they allow, and shrunk to the
 * region that one execution of that place accesses: per dimension an origin over the loops outside
 * and a constant extent. */
#include "base/check.h"
#include "base/integer.h"
#include "compiler-core/facts/loads.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/lower/pass.h"

/* Accesses of one temp. */
typedef struct accesses {
    kiln_buffer buffer;
    kiln_stmt home; /* smallest statement around all of them; 0: there are none */
    bool is_read;   /* by anything but stores to the temp itself */
    /* The region so far. */
    kiln_stmt alloc;
    kiln_stmt inner; /* loops from here on are inside, those around it outside... */
    bool is_lifted;  /* ...but for bound loops inside the allocation, which share it */
    kiln_interval
        *range; /* [var count] ranges of variables at the current access; NULL: their own */
    bool full[KILN_RANK_MAX], started;
    kiln_expr origin[KILN_RANK_MAX];
    kiln_interval inside[KILN_RANK_MAX];
} accesses;

static void walk(kiln_program *p, kiln_stmt stmt,
                 void (*visit)(kiln_program *, kiln_stmt, accesses *), accesses *a) {
    visit(p, stmt, a);
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++)
        walk(p, p->stmt.data[stmt].child.data[i], visit, a);
}

/* ---- where ----------------------------------------------------------------------------------- */

static void home_load(kiln_program *p, kiln_stmt stmt, kiln_expr load, void *context) {
    accesses *a = context;
    (void)load;
    a->home = kiln_home_add(p, a->home, stmt);
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    a->is_read |= s->kind != KILN_STMT_STORE || s->buffer != a->buffer;
}

static void home_stmt(kiln_program *p, kiln_stmt stmt, accesses *a) {
    if (p->stmt.data[stmt].kind == KILN_STMT_STORE && p->stmt.data[stmt].buffer == a->buffer)
        a->home = kiln_home_add(p, a->home, stmt);
    kiln_lower_visit_loads(p, stmt, a->buffer, home_load, a);
}

/* The outermost of the bound loops around the home whose iterations share the buffer: it is
 * allocated around them, and reused in each iteration of the loops in between; 0: none. */
static kiln_stmt shared_loops(const kiln_program *p, kiln_buffer buffer, kiln_stmt home) {
    kiln_seen_by seen = kiln_scopes[p->buffer.data[buffer].scope].seen_by;
    kiln_stmt grid = kiln_stmt_outermost(p, home, KILN_LEVEL_GRID);
    kiln_stmt threads = kiln_stmt_outermost(p, home, KILN_LEVEL_GROUP);
    if (seen == KILN_SEEN_BY_DEVICE && grid) return grid;
    return seen == KILN_SEEN_BY_THREAD ? 0 : threads;
}

static bool has_tokens(const kiln_program *p, kiln_stmt stmt) {
    bool found = p->stmt.data[stmt].kind == KILN_STMT_TOKEN_POP;
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count && !found; i++)
        found = has_tokens(p, p->stmt.data[stmt].child.data[i]);
    return found;
}

/* A temp that one unit's threads write for another's is still read while they write the next one,
 * so it lives across iterations: outside of the loop with the tokens. */
static kiln_stmt outside_tokens(const kiln_program *p, kiln_buffer buffer, kiln_stmt home) {
    kiln_stmt outside = home;
    if (kiln_scopes[p->buffer.data[buffer].scope].seen_by == KILN_SEEN_BY_THREAD) return home;
    for (kiln_stmt at = home; at; at = p->stmt.data[at].parent)
        if (p->stmt.data[at].kind == KILN_STMT_FOR && kiln_stmt_level(p, at) == KILN_LEVEL_NONE &&
            has_tokens(p, at))
            outside = at;
    return outside;
}

/* Wraps the home, or in a sequence only the children from the first to the last that matter. */
static kiln_stmt wrap_home(kiln_program *p, accesses *a) {
    kiln_stmt alloc = kiln_stmt_create(p, KILN_STMT_ALLOC);
    p->stmt.data[alloc].buffer = a->buffer;
    kiln_stmt home = a->home;
    if (p->stmt.data[home].kind != KILN_STMT_SEQ) {
        kiln_stmt_wrap(p, home, alloc);
        return alloc;
    }
    uint32_t first = UINT32_MAX, last = 0;
    for (uint32_t i = 0; i < p->stmt.data[home].child.count; i++) {
        accesses below = {.buffer = a->buffer};
        walk(p, p->stmt.data[home].child.data[i], home_stmt, &below);
        if (!below.home) continue;
        first = KILN_MIN(first, i);
        last = i;
    }
    kiln_stmt child = p->stmt.data[home].child.data[first];
    kiln_stmt_wrap(p, child, alloc);
    for (uint32_t i = first + 1; i <= last; i++) {
        child = p->stmt.data[home].child.data[first + 1];
        kiln_stmt_remove(p, child);
        kiln_stmt_append(p, alloc, child);
    }
    return alloc;
}

/* ---- what ------------------------------------------------------------------------------------ */

typedef enum side { OUTSIDE = 1, INSIDE = 2 } side;

/* The sides of the allocation on which a term's loops are. */
static uint32_t sides_of(const kiln_program *p, const accesses *a, kiln_expr term) {
    const kiln_expr_node *node = kiln_expr_get(p, term);
    if (node->op == KILN_EXPR_VAR) {
        kiln_stmt loop = kiln_lower_loop_of(p, a->inner, node->payload.id);
        bool shares = a->is_lifted && kiln_stmt_level(p, loop) != KILN_LEVEL_NONE &&
                      kiln_stmt_is_inside(p, loop, a->alloc);
        return loop && !shares ? OUTSIDE : INSIDE;
    }
    if (node->op == KILN_EXPR_LOAD) return OUTSIDE | INSIDE;
    uint32_t sides = 0;
    for (uint32_t i = 0; i < node->operand_count; i++)
        sides |= sides_of(p, a, kiln_expr_operand(p, term, i));
    return sides;
}

/* index = origin + inside; false when a term mixes loops of both kinds, or may be anything. */
static bool split_index(kiln_program *p, const accesses *a, kiln_expr index, kiln_expr *origin,
                        kiln_interval *inside) {
    kiln_affine all, outer = {0};
    if (!kiln_affine_of(p, index, NULL, &all)) return false;
    kiln_affine inner = {.constant = all.constant};
    for (uint32_t i = 0; i < all.term_count; i++) {
        uint32_t sides = sides_of(p, a, all.term[i]);
        if (sides == (OUTSIDE | INSIDE)) return false;
        kiln_affine *into = sides == INSIDE ? &inner : &outer;
        into->term[into->term_count] = all.term[i];
        into->coefficient[into->term_count++] = all.coefficient[i];
    }
    *origin = kiln_affine_to_expr(p, &outer);
    *inside = kiln_expr_bounds(p, kiln_affine_to_expr(p, &inner), a->range);
    return kiln_interval_is_bounded(*inside);
}

static void add_access(kiln_program *p, accesses *a, const kiln_expr *index, uint32_t index_count) {
    for (uint32_t d = 0; d < index_count; d++) {
        kiln_expr origin;
        kiln_interval inside;
        if (a->full[d]) continue;
        if (!split_index(p, a, index[d], &origin, &inside)) {
            a->full[d] = true;
        } else if (!a->started) {
            a->origin[d] = origin;
            a->inside[d] = inside;
        } else if (origin != a->origin[d]) {
            a->full[d] = true;
        } else {
            a->inside[d].low = KILN_MIN(a->inside[d].low, inside.low);
            a->inside[d].high = KILN_MAX(a->inside[d].high, inside.high);
        }
    }
    a->started = true;
}

/* Nests that were joined are under conditions on their threads. */
static void narrow(const kiln_program *p, kiln_expr condition, kiln_interval *range) {
    const kiln_expr_node *node = kiln_expr_get(p, condition);
    int64_t end;
    if (node->op == KILN_EXPR_AND) {
        narrow(p, kiln_expr_operand(p, condition, 0), range);
        narrow(p, kiln_expr_operand(p, condition, 1), range);
        return;
    }
    if (node->op != KILN_EXPR_LT || !kiln_expr_as_int(p, kiln_expr_operand(p, condition, 1), &end))
        return;
    const kiln_expr_node *var = kiln_expr_get(p, kiln_expr_operand(p, condition, 0));
    if (var->op == KILN_EXPR_VAR)
        range[var->payload.id].high = KILN_MIN(range[var->payload.id].high, end - 1);
}

static void find_range(kiln_program *p, kiln_stmt stmt, accesses *a) {
    if (!a->is_lifted) return;
    a->range = KILN_ARENA_ARRAY(p->arena, kiln_interval, p->var.count);
    for (kiln_var v = 1; v < p->var.count; v++)
        a->range[v] = (kiln_interval){p->var.data[v].low, p->var.data[v].high};
    while ((stmt = p->stmt.data[stmt].parent) != 0)
        if (p->stmt.data[stmt].kind == KILN_STMT_IF)
            narrow(p, p->stmt.data[stmt].condition, a->range);
}

static void region_load(kiln_program *p, kiln_stmt stmt, kiln_expr load, void *context) {
    (void)stmt;
    accesses *a = context;
    kiln_expr index[KILN_RANK_MAX];
    uint32_t count = kiln_load_index(p, load, index);
    add_access(p, a, index, count);
}

static void region_stmt(kiln_program *p, kiln_stmt stmt, accesses *a) {
    const kiln_stmt_info s = p->stmt.data[stmt];
    if (s.kind != KILN_STMT_STORE && s.kind != KILN_STMT_IF) return;
    find_range(p, stmt, a);
    if (s.kind == KILN_STMT_STORE && s.buffer == a->buffer)
        add_access(p, a, s.index, s.index_count);
    kiln_lower_visit_loads(p, stmt, a->buffer, region_load, a);
}

/* Dimensions that cannot shrink keep origin 0 and their whole extent. Accesses that never happen
 * (under a false predicate) may make the interval larger than the dimension. */
static void settle_region(kiln_program *p, accesses *a) {
    kiln_shape *shape = &p->buffer.data[a->buffer].shape;
    for (uint32_t d = 0; d < shape->rank; d++) {
        kiln_interval whole = {0, shape->dim[d] - 1};
        int64_t zero;
        bool at_zero = !a->full[d] && kiln_expr_as_int(p, a->origin[d], &zero) && zero == 0;
        if (at_zero) {
            a->inside[d].low = KILN_MAX(a->inside[d].low, whole.low);
            a->inside[d].high = KILN_MIN(a->inside[d].high, whole.high);
        }
        int64_t reach;
        if (a->full[d] || __builtin_sub_overflow(a->inside[d].high, a->inside[d].low, &reach) ||
            reach >= whole.high || reach < 0) {
            a->origin[d] = kiln_expr_index(p, 0);
            a->inside[d] = whole;
        }
        shape->dim[d] = a->inside[d].high - a->inside[d].low + 1;
        a->origin[d] =
            kiln_expr_binary(p, KILN_EXPR_ADD, a->origin[d], kiln_expr_index(p, a->inside[d].low));
    }
}

static void shift(kiln_program *p, const accesses *a, kiln_expr *index, uint32_t index_count) {
    for (uint32_t d = 0; d < index_count; d++)
        index[d] =
            kiln_expr_simplify(p, kiln_expr_binary(p, KILN_EXPR_SUB, index[d], a->origin[d]), NULL);
}

static kiln_expr shift_load(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    const accesses *a = context;
    const kiln_expr_node *node = kiln_expr_get(p, e);
    if (node->op != KILN_EXPR_LOAD || node->payload.id != a->buffer) return rebuilt;
    kiln_expr index[KILN_RANK_MAX];
    uint32_t count = kiln_load_index(p, rebuilt, index);
    shift(p, a, index, count);
    return kiln_expr_load(p, a->buffer, index, count);
}

static kiln_expr shift_loads(kiln_program *p, kiln_expr e, void *context) {
    const accesses *a = context;
    return kiln_expr_rewrite(p, e, kiln_uses_load(a->buffer), shift_load, context);
}

static void shift_stores(kiln_program *p, kiln_stmt stmt, accesses *a) {
    kiln_stmt_info *s = &p->stmt.data[stmt];
    if (s->kind == KILN_STMT_STORE && s->buffer == a->buffer) shift(p, a, s->index, s->index_count);
}

/* Simplification may remove the last read of a temp. Its reduction would then be placed inside its
 * own loops. */
static void remove_stores(kiln_program *p, kiln_buffer buffer) {
    for (kiln_stmt stmt = 1; stmt < p->stmt.count; stmt++)
        if (p->stmt.data[stmt].kind == KILN_STMT_STORE && p->stmt.data[stmt].buffer == buffer &&
            kiln_stmt_is_inside(p, stmt, p->root))
            kiln_stmt_remove(p, stmt);
}

/* ---- gaps ------------------------------------------------------------------------------------ */

/* A dimension of a thread's own temp, whose indices are all stride*quotient + rest: virtual threads
 * lie a stride apart, with elements of other threads in between. */
typedef struct gaps {
    kiln_buffer buffer;
    uint32_t dim;
    int64_t stride, common; /* common: of all strides and constants */
    bool fails, started;
    kiln_interval quotient, rest;
} gaps;

/* The two parts of an index; false when it does not split. */
static bool split_by_stride(kiln_program *p, const gaps *g, kiln_expr index, kiln_affine *quotient,
                            kiln_affine *rest) {
    kiln_affine all;
    if (!kiln_affine_of(p, index, NULL, &all)) return false;
    *quotient = (kiln_affine){.constant = kiln_floordiv(all.constant, g->stride)};
    *rest = (kiln_affine){.constant = kiln_floormod(all.constant, g->stride)};
    for (uint32_t i = 0; i < all.term_count; i++) {
        bool above = all.coefficient[i] % g->stride == 0;
        kiln_affine *into = above ? quotient : rest;
        into->term[into->term_count] = all.term[i];
        into->coefficient[into->term_count++] =
            above ? all.coefficient[i] / g->stride : all.coefficient[i];
    }
    return true;
}

static void widen(kiln_interval *all, kiln_interval one, bool started) {
    all->low = started ? KILN_MIN(all->low, one.low) : one.low;
    all->high = started ? KILN_MAX(all->high, one.high) : one.high;
}

/* First finds the stride, then the range of the rest. If all indices are multiples of one stride,
 * the rest is 0. */
static void gaps_of_index(kiln_program *p, gaps *g, kiln_expr index, bool finds_stride) {
    kiln_affine all, quotient, rest;
    if (finds_stride) {
        if (!kiln_affine_of(p, index, NULL, &all)) return;
        for (uint32_t i = 0; i < all.term_count; i++) {
            g->stride = KILN_MAX(g->stride, all.coefficient[i]);
            g->common = kiln_gcd(g->common, all.coefficient[i]);
        }
        g->common = kiln_gcd(g->common, all.constant);
        return;
    }
    g->fails |= !split_by_stride(p, g, index, &quotient, &rest);
    if (g->fails) return;
    kiln_interval above = kiln_expr_bounds(p, kiln_affine_to_expr(p, &quotient), NULL);
    kiln_interval below = kiln_expr_bounds(p, kiln_affine_to_expr(p, &rest), NULL);
    g->fails |= !kiln_interval_is_bounded(above) || !kiln_interval_is_bounded(below);
    widen(&g->quotient, above, g->started);
    widen(&g->rest, below, g->started);
    g->started = true;
}

typedef struct gaps_walk {
    gaps *g;
    bool finds_stride;
} gaps_walk;

static void gaps_of_load(kiln_program *p, kiln_stmt stmt, kiln_expr load, void *context) {
    const gaps_walk *w = context;
    (void)stmt;
    gaps_of_index(p, w->g, kiln_expr_operand(p, load, w->g->dim), w->finds_stride);
}

static void gaps_of_tree(kiln_program *p, kiln_stmt stmt, gaps *g, bool finds_stride) {
    const kiln_stmt_info s = p->stmt.data[stmt];
    gaps_walk w = {g, finds_stride};
    if (s.kind == KILN_STMT_STORE && s.buffer == g->buffer)
        gaps_of_index(p, g, s.index[g->dim], finds_stride);
    kiln_lower_visit_loads(p, stmt, g->buffer, gaps_of_load, &w);
    for (uint32_t i = 0; i < s.child.count; i++) gaps_of_tree(p, s.child.data[i], g, finds_stride);
}

/* (quotient - its least) * size of the rest + (rest - its least) */
static kiln_expr close_gap(kiln_program *p, const gaps *g, kiln_expr index) {
    kiln_affine quotient, rest;
    KILN_CHECK(split_by_stride(p, g, index, &quotient, &rest)); /* it did split in gaps_of_index */
    const int64_t size = g->rest.high - g->rest.low + 1;
    quotient.constant -= g->quotient.low;
    rest.constant -= g->rest.low;
    kiln_expr at = kiln_expr_binary(p, KILN_EXPR_MUL, kiln_affine_to_expr(p, &quotient),
                                    kiln_expr_index(p, size));
    at = kiln_expr_binary(p, KILN_EXPR_ADD, at, kiln_affine_to_expr(p, &rest));
    return kiln_expr_simplify(p, at, NULL);
}

static kiln_expr close_in_load(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    const gaps *g = context;
    const kiln_expr_node *node = kiln_expr_get(p, e);
    if (node->op != KILN_EXPR_LOAD || node->payload.id != g->buffer) return rebuilt;
    kiln_expr index[KILN_RANK_MAX];
    uint32_t count = kiln_load_index(p, rebuilt, index);
    index[g->dim] = close_gap(p, g, index[g->dim]);
    return kiln_expr_load(p, g->buffer, index, count);
}

static kiln_expr close_in_loads(kiln_program *p, kiln_expr e, void *context) {
    const gaps *g = context;
    return kiln_expr_rewrite(p, e, kiln_uses_load(g->buffer), close_in_load, context);
}

static void close_in_stores(kiln_program *p, kiln_stmt stmt, const gaps *g) {
    kiln_stmt_info *s = &p->stmt.data[stmt];
    if (s->kind == KILN_STMT_STORE && s->buffer == g->buffer)
        s->index[g->dim] = close_gap(p, g, s->index[g->dim]);
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++)
        close_in_stores(p, p->stmt.data[stmt].child.data[i], g);
}

/* Closes the widest gap of the dimension, or the one between multiples. False: there is none. */
static bool close_one(kiln_program *p, kiln_buffer buffer, uint32_t dim, kiln_stmt alloc) {
    int64_t *extent = &p->buffer.data[buffer].shape.dim[dim], size;
    gaps g = {.buffer = buffer, .dim = dim};
    gaps_of_tree(p, alloc, &g, true);
    if (g.stride < 2) return false;
    if (g.common > 1) g.stride = g.common;
    gaps_of_tree(p, alloc, &g, false);
    const int64_t rest = g.rest.high - g.rest.low + 1;
    if (g.fails || !g.started || rest >= g.stride ||
        __builtin_mul_overflow(rest, g.quotient.high - g.quotient.low + 1, &size) ||
        size >= *extent)
        return false;
    close_in_stores(p, alloc, &g);
    kiln_lower_rewrite(p, alloc, close_in_loads, &g);
    *extent = size;
    return true;
}

/* A thread's elements may lie apart by several strides: rows of an instruction of warps, and its
 * pieces. */
static void close_gaps(kiln_program *p, kiln_buffer buffer, kiln_stmt alloc) {
    uint32_t dim = 0;
    while (dim < p->buffer.data[buffer].shape.rank)
        if (!close_one(p, buffer, dim, alloc)) dim++;
}

void kiln_lower_compact(kiln_program *p, kiln_buffer buffer, kiln_stmt tree) {
    accesses a = {.buffer = buffer, .alloc = tree, .inner = tree};
    walk(p, tree, region_stmt, &a);
    settle_region(p, &a);
    walk(p, tree, shift_stores, &a);
    kiln_lower_rewrite(p, tree, shift_loads, &a);
}

static void place_temp(kiln_program *p, kiln_buffer buffer) {
    accesses a = {.buffer = buffer};
    walk(p, p->root, home_stmt, &a);
    if (!a.is_read) {
        remove_stores(p, buffer);
        return;
    }
    a.home = outside_tokens(p, buffer, kiln_home_outside_vectors(p, a.home));
    kiln_stmt shared = shared_loops(p, buffer, a.home);
    a.inner = p->stmt.data[a.home].parent;
    a.is_lifted = shared != 0;
    if (shared) a.home = shared;
    a.alloc = wrap_home(p, &a);
    if (!shared) a.inner = a.alloc;
    walk(p, a.alloc, region_stmt, &a);
    settle_region(p, &a);
    walk(p, a.alloc, shift_stores, &a);
    kiln_lower_rewrite(p, a.alloc, shift_loads, &a);
    if (kiln_stmt_outermost(p, a.alloc, KILN_LEVEL_GROUP)) close_gaps(p, buffer, a.alloc);
}

static void place_program(kiln_program *p) {
    for (kiln_buffer b = 1; b < p->buffer.count && p->root; b++)
        if (p->buffer.data[b].role == KILN_ROLE_TEMP) place_temp(p, b);
}

kiln_status kiln_lower_place(kiln_lowering *l) {
    place_program(l->run);
    if (l->prepare) place_program(l->prepare);
    return KILN_OK;
}
