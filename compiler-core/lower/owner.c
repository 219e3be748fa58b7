/* Owners of a temp's elements: whether an index contains the thread's number, or a loop's
 * iteration, and in the same way in every access to the temp. */
#include "base/check.h"
#include "base/integer.h"
#include "compiler-core/facts/decode.h"
#include "compiler-core/ir/device.h"
#include "compiler-core/lower/pass.h"

#define OWNERS_MAX KILN_AXIS_COUNT

/* An owner, or a quotient or remainder of it, as a digit of one dimension's indices: index = ... +
 * stride*term + low, where the terms before are multiples of stride times the number of the term's
 * values, and `low` is below the stride. So elements of one thread may be far apart, as those of
 * virtual threads and the sums of a warp's instructions are. */
typedef struct digit {
    bool started, fails;
    kiln_expr term;
    int64_t stride;
    kiln_expr outside;
    kiln_interval low;
} digit;

/* All accesses to a temp: the digit that each owner is in its index. */
typedef struct owned {
    kiln_program *p;
    kiln_buffer buffer;
    kiln_stmt home;
    const kiln_owner *owner;
    uint32_t owner_count;
    kiln_interval *range;        /* [var count] of owners: the values that access the temp */
    const kiln_expr *stands_for; /* [var count] the expression that each variable equals; NULL: the
                                  * variables themselves */
    bool started, differs;
    kiln_expr origin[KILN_RANK_MAX]; /* over owners and loops outside of the home */
    kiln_interval inside[KILN_RANK_MAX];
    digit digit[OWNERS_MAX][KILN_RANK_MAX];
} owned;

static bool is_owner(const owned *o, kiln_var var) {
    for (uint32_t i = 0; i < o->owner_count; i++)
        if (o->owner[i].var == var) return true;
    return false;
}

enum { OF_OWNER = 1, INSIDE = 2, OUTSIDE = 4, OF_DATA = 8 };

static uint32_t parts_of(const owned *o, kiln_stmt stmt, kiln_expr e) {
    const kiln_program *p = o->p;
    const kiln_expr_node *node = kiln_expr_get(p, e);
    if (node->op == KILN_EXPR_LOAD) return OF_DATA;
    if (node->op == KILN_EXPR_VAR && is_owner(o, node->payload.id)) return OF_OWNER;
    if (node->op == KILN_EXPR_VAR) {
        kiln_stmt loop = kiln_lower_loop_of(p, stmt, node->payload.id);
        return loop && kiln_stmt_is_inside(p, loop, o->home) ? INSIDE : OUTSIDE;
    }
    uint32_t parts = 0;
    for (uint32_t i = 0; i < node->operand_count; i++)
        parts |= parts_of(o, stmt, kiln_expr_operand(p, e, i));
    return parts;
}

static bool asks_other(const owned *o, kiln_expr term, const kiln_owner *owner) {
    for (uint32_t i = 0; i < o->owner_count; i++)
        if (o->owner[i].var != owner->var && kiln_expr_uses_var(o->p, term, o->owner[i].var))
            return true;
    return false;
}

/* The only term of the index that uses the owner, and its number of values; false if there is none,
 * or it uses another variable, too. */
static bool find_term(const owned *o, kiln_stmt stmt, const kiln_owner *owner,
                      const kiln_affine *index, digit *out, int64_t *values) {
    for (uint32_t i = 0; i < index->term_count; i++) {
        if (!kiln_expr_uses_var(o->p, index->term[i], owner->var)) continue;
        if (out->term || parts_of(o, stmt, index->term[i]) != OF_OWNER ||
            asks_other(o, index->term[i], owner))
            return false;
        const kiln_interval range = kiln_expr_bounds(o->p, index->term[i], o->range);
        if (range.low != 0 || range.high == INT64_MAX) return false;
        out->term = index->term[i];
        out->stride = index->coefficient[i];
        *values = range.high + 1;
    }
    return out->term != 0;
}

/* The index as seen from one owner. */
static bool read_digit(const owned *o, kiln_stmt stmt, const kiln_owner *owner,
                       const kiln_affine *index, digit *out) {
    kiln_program *p = o->p;
    int64_t period, values;
    *out = (digit){.started = true};
    if (!find_term(o, stmt, owner, index, out, &values) || out->stride < 1 ||
        __builtin_mul_overflow(out->stride, values, &period))
        return false;
    kiln_affine outside = {.constant = 0};
    const int64_t constant = kiln_floormod(index->constant, period);
    out->low = (kiln_interval){constant, constant};
    for (uint32_t i = 0; i < index->term_count; i++) {
        const uint32_t parts = parts_of(o, stmt, index->term[i]);
        const int64_t stride = index->coefficient[i];
        if (index->term[i] == out->term) continue;
        if (parts == OUTSIDE) {
            outside.term[outside.term_count] = index->term[i];
            outside.coefficient[outside.term_count++] = stride;
        } else if (parts & (OUTSIDE | OF_DATA)) {
            return false;
        } else if (stride % period != 0) {
            kiln_interval range = kiln_expr_bounds(p, index->term[i], o->range);
            out->low = kiln_interval_add(out->low, kiln_interval_scale(range, stride));
        }
    }
    out->outside = kiln_affine_to_expr(p, &outside);
    return kiln_interval_is_bounded(out->low);
}

static void add_digits(owned *o, kiln_stmt stmt, uint32_t d, const kiln_affine *index) {
    for (uint32_t i = 0; i < o->owner_count; i++) {
        digit now, *all = &o->digit[i][d];
        if (all->fails) continue;
        all->fails = !read_digit(o, stmt, &o->owner[i], index, &now) ||
                     (all->started && (now.term != all->term || now.stride != all->stride ||
                                       now.outside != all->outside));
        if (all->started) {
            now.low.low = KILN_MIN(now.low.low, all->low.low);
            now.low.high = KILN_MAX(now.low.high, all->low.high);
        }
        if (!all->fails) *all = now;
    }
}

static bool is_digit(const digit *d) {
    return d->started && !d->fails && d->low.high - d->low.low < d->stride;
}

static void add_index(owned *o, kiln_stmt stmt, uint32_t d, kiln_expr index) {
    kiln_program *p = o->p;
    kiln_affine all, origin = {.constant = 0};
    if (o->stands_for) index = kiln_expr_substitute(p, index, o->stands_for);
    if (!kiln_affine_of(p, index, NULL, &all)) {
        o->differs = true;
        for (uint32_t i = 0; i < o->owner_count; i++) o->digit[i][d].fails = true;
        return;
    }
    add_digits(o, stmt, d, &all);
    kiln_affine inside = {.constant = all.constant};
    for (uint32_t i = 0; i < all.term_count; i++) {
        uint32_t parts = parts_of(o, stmt, all.term[i]);
        o->differs |= (parts & OF_DATA) || ((parts & INSIDE) && parts != INSIDE);
        kiln_affine *into = parts == INSIDE ? &inside : &origin;
        into->term[into->term_count] = all.term[i];
        into->coefficient[into->term_count++] = all.coefficient[i];
    }
    kiln_expr from = kiln_affine_to_expr(p, &origin);
    kiln_interval range = kiln_expr_bounds(p, kiln_affine_to_expr(p, &inside), NULL);
    o->differs |= !kiln_interval_is_bounded(range) || (o->started && from != o->origin[d]);
    o->inside[d].low = o->started ? KILN_MIN(o->inside[d].low, range.low) : range.low;
    o->inside[d].high = o->started ? KILN_MAX(o->inside[d].high, range.high) : range.high;
    o->origin[d] = from;
}

static void add_load(kiln_program *p, kiln_stmt stmt, kiln_expr load, void *context) {
    owned *o = context;
    for (uint32_t d = 0; d < kiln_expr_get(p, load)->operand_count; d++)
        add_index(o, stmt, d, kiln_expr_operand(p, load, d));
    o->started = true;
}

static void add_accesses(owned *o, kiln_stmt stmt) {
    kiln_program *p = o->p;
    kiln_lower_visit_loads(p, stmt, o->buffer, add_load, o);
    const kiln_stmt_info s = p->stmt.data[stmt];
    if (s.kind == KILN_STMT_STORE && s.buffer == o->buffer) {
        for (uint32_t d = 0; d < s.index_count; d++) add_index(o, stmt, d, s.index[d]);
        o->started = true;
    }
    for (uint32_t i = 0; i < s.child.count; i++) add_accesses(o, s.child.data[i]);
}

static bool moves(kiln_program *p, kiln_expr term, const void *context) {
    const owned *o = context;
    for (uint32_t i = 0; i < o->owner_count; i++)
        if (kiln_expr_uses_var(p, term, o->owner[i].var)) return true;
    return false;
}

static bool tells(kiln_program *p, kiln_stmt tree, kiln_buffer buffer, kiln_stmt home,
                  const kiln_owner *owner, uint32_t owner_count, const kiln_expr *stands_for) {
    owned o = {.p = p,
               .buffer = buffer,
               .home = home,
               .owner = owner,
               .owner_count = owner_count,
               .stands_for = stands_for};
    kiln_decoding d = {.moves = moves, .context = &o};
    KILN_CHECK(owner_count <= OWNERS_MAX);
    o.range = KILN_ARENA_ARRAY(p->arena, kiln_interval, p->var.count);
    for (kiln_var v = 1; v < p->var.count; v++)
        o.range[v] = (kiln_interval){p->var.data[v].low, p->var.data[v].high};
    for (uint32_t i = 0; i < owner_count; i++)
        o.range[owner[i].var].high = o.range[owner[i].var].low + owner[i].extent - 1;
    add_accesses(&o, tree);
    for (uint32_t k = 0; k < p->buffer.data[buffer].shape.rank; k++) {
        for (uint32_t i = 0; i < owner_count; i++)
            if (is_digit(&o.digit[i][k])) kiln_decoding_learn(&d, o.digit[i][k].term, 0);
        if (!o.differs)
            kiln_decoding_learn(&d, o.origin[k], (uint64_t)(o.inside[k].high - o.inside[k].low));
    }
    for (uint32_t i = 0; i < owner_count; i++)
        if (!kiln_decoding_determines(p, &d, kiln_expr_var(p, owner[i].var))) return false;
    return true;
}

bool kiln_lower_tells(kiln_program *p, kiln_stmt tree, kiln_buffer buffer, kiln_stmt home,
                      const kiln_owner *owner, uint32_t owner_count) {
    return tells(p, tree, buffer, home, owner, owner_count, NULL);
}

/* ---- threads of several nests ---------------------------------------------------------------- */

/* One variable for each axis, in place of those of all nests' loops. */
typedef struct group_threads {
    kiln_buffer buffer;
    kiln_owner axis[KILN_AXIS_COUNT]; /* var 0: not made yet; extent: of nests that touch it */
    kiln_expr *stands_for;
} group_threads;

static void add_threads(kiln_program *p, kiln_stmt nest, void *context) {
    group_threads *g = context;
    const bool touches = kiln_lower_homes(p, nest)[g->buffer] != 0;
    for (; kiln_stmt_level(p, nest) == KILN_LEVEL_GROUP; nest = p->stmt.data[nest].child.data[0]) {
        const kiln_stmt_info *s = &p->stmt.data[nest];
        kiln_owner *axis = &g->axis[s->axis];
        if (!axis->var)
            axis->var = kiln_var_create(p, kiln_str_from(kiln_axes[s->axis].text), 0,
                                        kiln_axes[s->axis].extent_max - 1);
        if (touches) axis->extent = KILN_MAX(axis->extent, s->extent);
        g->stands_for[s->var] = kiln_expr_var(p, axis->var);
    }
}

bool kiln_lower_is_owned(kiln_program *p, kiln_stmt group, kiln_buffer buffer) {
    group_threads g = {.buffer = buffer};
    kiln_owner owner[KILN_AXIS_COUNT];
    uint32_t count = 0;
    /* Room for the variables of the axes as well. */
    g.stands_for = KILN_ARENA_ARRAY(p->arena, kiln_expr, p->var.count + KILN_AXIS_COUNT);
    kiln_status st = kiln_lower_visit_nests(p, group, add_threads, &g);
    for (uint32_t a = 0; a < KILN_AXIS_COUNT; a++)
        if (g.axis[a].extent > 1) owner[count++] = g.axis[a];
    const bool is_owned = !st && tells(p, group, buffer, group, owner, count, g.stands_for);
    for (uint32_t a = 0; a < KILN_AXIS_COUNT; a++)
        if (g.axis[a].var) kiln_var_retire(p, g.axis[a].var);
    kiln_status_free(st); /* a condition on data: not proved */
    return is_owned;
}
