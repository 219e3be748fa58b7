/* partition: a loop is split where a condition inside it begins or ceases to hold, so that the
 * large part in the middle has no condition. Conditions are those of ifs and selects, comparisons
 * of affine forms; variables of loops inside count with their whole range, so outer loops are split
 * first and their parts visited again.
 *
 * Iterations of a parallel loop must stay together to be distributed evenly: its body is duplicated
 * under ifs instead, also if the condition is on a digit of its variable, as in loops that were
 * fused to be distributed. Vectorized loops keep their conditions, which become lane masks;
 * unrolled ones need no splitting. */
#include <string.h>

#include "base/check.h"
#include "compiler-core/lower/pass.h"

#define CUTS_MAX 6u   /* a loop becomes at most one part more than that: a window of seven taps */
#define DIGITS_MAX 4u /* of a parallel loop's variable */

typedef struct partition {
    kiln_program *p;
    kiln_stmt loop;
    uint64_t budget; /* stores that may still be added */
    /* [range_count] ranges of variables inside versions of a parallel loop's body; NULL elsewhere:
     * their own ranges. */
    kiln_interval *range;
    uint32_t range_count;
    uint32_t cut_count;
    int64_t cut[CUTS_MAX]; /* increasing; a part begins at each */
    bool too_many;
    uint32_t digit_count;
    kiln_expr digit[DIGITS_MAX]; /* terms of the loop's variable that conditions use instead of
                                  * it */
} partition;

/* ---- where to cut ---------------------------------------------------------------------------- */

static void add_cut(partition *part, int64_t at) {
    const kiln_stmt_info *s = &part->p->stmt.data[part->loop];
    if (at <= s->first || at >= s->first + s->extent) return;
    uint32_t i = 0;
    while (i < part->cut_count && part->cut[i] < at) i++;
    if (i < part->cut_count && part->cut[i] == at) return;
    if (part->cut_count == CUTS_MAX) {
        part->too_many = true;
        return;
    }
    memmove(&part->cut[i + 1], &part->cut[i], (part->cut_count - i) * sizeof part->cut[0]);
    part->cut[i] = at;
    part->cut_count++;
}

static int64_t divide_down(int64_t a, int64_t b) {
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* Smallest v with c * v + r >= 0 (c > 0), or with c * v + r < 0 (c < 0): where the sign of the form
 * changes. */
static int64_t sign_change(int64_t c, int64_t r) {
    return c > 0 ? -divide_down(r, c) : divide_down(r, -c) + 1;
}

/* Whether a variable's loop is the one being split or inside it. */
static bool is_inside(const partition *part, kiln_var var) {
    kiln_stmt outer = part->p->stmt.data[part->loop].parent;
    return !kiln_lower_loop_of(part->p, outer, var);
}

/* A quotient or remainder of the loop's variable alone. */
static void note_digit(partition *part, kiln_expr term, kiln_var var) {
    kiln_program *p = part->p;
    kiln_expr_op op = kiln_expr_get(p, term)->op;
    if (op != KILN_EXPR_FLOORDIV && op != KILN_EXPR_FLOORMOD) return;
    if (!kiln_expr_uses_var(p, term, var) || part->digit_count == DIGITS_MAX) return;
    for (uint32_t i = 0; i < part->digit_count; i++)
        if (part->digit[i] == term) return;
    for (kiln_var v = 1; v < p->var.count; v++)
        if (v != var && kiln_expr_uses_var(p, term, v)) return;
    part->digit[part->digit_count++] = term;
}

/* Far enough from the limits of int64_t that quotients and differences of two such values cannot
 * overflow.
 */
static bool is_small(int64_t a) { return a > INT64_MIN / 4 && a < INT64_MAX / 4; }

/* A form without the loop's variable. */
typedef struct remaining {
    kiln_interval range;
    int64_t coefficient; /* of the loop's variable */
    int64_t step;        /* between its values, if it depends on one unrolled variable only; else
                          * 0 */
} remaining;

static bool is_unrolled(const partition *part, kiln_var var) {
    const kiln_program *p = part->p;
    for (kiln_stmt s = 1; s < p->stmt.count; s++)
        if (p->stmt.data[s].kind == KILN_STMT_FOR && p->stmt.data[s].var == var)
            return p->stmt.data[s].loop_kind == KILN_LOOP_UNROLL;
    return false;
}

/* False when it contains variables of loops outside (not constant here) or anything but plain
 * variables. */
static bool rest_of(partition *part, const kiln_affine *form, kiln_var var, remaining *out) {
    const kiln_program *p = part->p;
    *out = (remaining){.range = {form->constant, form->constant}};
    uint32_t others = 0;
    for (uint32_t i = 0; i < form->term_count; i++) {
        const kiln_expr_node *node = kiln_expr_get(p, form->term[i]);
        int64_t c = form->coefficient[i];
        if (node->op != KILN_EXPR_VAR) {
            note_digit(part, form->term[i], var);
            return false;
        }
        kiln_var v = node->payload.id;
        if (v == var) {
            out->coefficient = c;
            continue;
        }
        if (!is_inside(part, v)) return false;
        kiln_interval range = {p->var.data[v].low, p->var.data[v].high};
        out->range = kiln_interval_add(out->range, kiln_interval_scale(range, c));
        out->step = others++ == 0 && is_unrolled(part, v) ? (c < 0 ? -c : c) : 0;
    }
    return out->coefficient != 0 && is_small(out->coefficient) && is_small(out->range.low) &&
           is_small(out->range.high);
}

/* form < limit changes its value somewhere between the two extremes of the rest. If the rest
 * depends on one unrolled loop only, there is a cut for each of its copies, so that each condition
 * becomes constant. */
static void cut_at_sign(partition *part, const remaining *rest, int64_t limit) {
    const int64_t c = rest->coefficient, low = rest->range.low - limit,
                  high = rest->range.high - limit;
    const partition before = *part;
    for (int64_t at = low; rest->step && at < high && !part->too_many; at += rest->step)
        add_cut(part, sign_change(c, at));
    if (part->too_many && !before.too_many) *part = before;
    add_cut(part, sign_change(c, low));
    add_cut(part, sign_change(c, high));
}

static void cut_comparison(partition *part, kiln_expr e) {
    kiln_program *p = part->p;
    kiln_var var = p->stmt.data[part->loop].var;
    kiln_expr a = kiln_expr_operand(p, e, 0), b = kiln_expr_operand(p, e, 1);
    kiln_expr_op op = kiln_expr_get(p, e)->op;
    if (kiln_expr_get(p, a)->dtype != KILN_INDEX_DTYPE || !kiln_expr_uses_var(p, e, var)) return;
    kiln_affine form;
    remaining rest;
    if (!kiln_affine_of(p, kiln_expr_binary(p, KILN_EXPR_SUB, a, b), part->range, &form)) return;
    if (!rest_of(part, &form, var, &rest)) return;
    if (op == KILN_EXPR_LT || op == KILN_EXPR_EQ || op == KILN_EXPR_NE) cut_at_sign(part, &rest, 0);
    if (op == KILN_EXPR_LE || op == KILN_EXPR_EQ || op == KILN_EXPR_NE) cut_at_sign(part, &rest, 1);
}

static void cut_condition(partition *part, kiln_expr e) {
    uint32_t count = kiln_expr_get(part->p, e)->operand_count;
    switch ((kiln_expr_op)kiln_expr_get(part->p, e)->op) {
    case KILN_EXPR_AND:
    case KILN_EXPR_OR:
    case KILN_EXPR_NOT:
        for (uint32_t i = 0; i < count; i++) cut_condition(part, kiln_expr_operand(part->p, e, i));
        return;
    case KILN_EXPR_LT:
    case KILN_EXPR_LE:
    case KILN_EXPR_EQ:
    case KILN_EXPR_NE: cut_comparison(part, e); return;
    default: return;
    }
}

/* Conditions of selects inside a value. */
static void cut_select(kiln_program *p, kiln_expr e, void *context) {
    cut_condition(context, kiln_expr_operand(p, e, 0));
}

/* Compared with a loop inside it, an if costs nothing, and a copy of everything around it much. */
static bool has_loop(const kiln_program *p, kiln_stmt stmt) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    if (s->kind == KILN_STMT_FOR && s->loop_kind == KILN_LOOP_SERIAL) return true;
    for (uint32_t i = 0; i < s->child.count; i++)
        if (has_loop(p, s->child.data[i])) return true;
    return false;
}

static void find_cuts(partition *part, kiln_stmt stmt) {
    const kiln_stmt_info *s = &part->p->stmt.data[stmt];
    if (s->kind == KILN_STMT_IF && !has_loop(part->p, stmt)) cut_condition(part, s->condition);
    if (s->kind == KILN_STMT_STORE) kiln_expr_visit_selects(part->p, s->value, cut_select, part);
    for (uint32_t i = 0; i < s->child.count; i++) find_cuts(part, s->child.data[i]);
}

/* ---- cutting --------------------------------------------------------------------------------- */

static void split_tree(partition *part, kiln_stmt stmt);

static int64_t part_begin(const partition *part, uint32_t i) {
    return i == 0 ? part->p->stmt.data[part->loop].first : part->cut[i - 1];
}

static int64_t part_end(const partition *part, uint32_t i) {
    const kiln_stmt_info *s = &part->p->stmt.data[part->loop];
    return i == part->cut_count ? s->first + s->extent : part->cut[i];
}

/* Variables added since the table was made have their own ranges. */
static void grow_range(partition *part) {
    if (!part->range || part->range_count == part->p->var.count) return;
    kiln_interval *range = KILN_ARENA_ARRAY(part->p->arena, kiln_interval, part->p->var.count);
    for (kiln_var v = 0; v < part->p->var.count; v++)
        range[v] = v < part->range_count
                       ? part->range[v]
                       : (kiln_interval){part->p->var.data[v].low, part->p->var.data[v].high};
    part->range = range;
    part->range_count = part->p->var.count;
}

/* A loop over [begin, end) with its own variable. */
static kiln_stmt make_part(partition *part, int64_t begin, int64_t end) {
    kiln_program *p = part->p;
    kiln_stmt copy = kiln_lower_copy(p, part->loop, NULL, 0);
    kiln_stmt_info *s = &p->stmt.data[copy];
    s->first = begin;
    s->extent = end - begin;
    /* Nothing was simplified with the new variable, so no cached result becomes wrong. */
    p->var.data[s->var].low = begin;
    p->var.data[s->var].high = end - 1;
    return copy;
}

/* if begin <= v < end: a copy of the body, simplified under that condition. */
static kiln_stmt make_version(partition *part, int64_t begin, int64_t end) {
    kiln_program *p = part->p;
    const kiln_stmt_info s = p->stmt.data[part->loop];
    kiln_expr v = kiln_expr_var(p, s.var);
    kiln_expr above = kiln_expr_binary(p, KILN_EXPR_LE, kiln_expr_index(p, begin), v);
    kiln_expr below = kiln_expr_binary(p, KILN_EXPR_LT, v, kiln_expr_index(p, end));
    kiln_stmt version = kiln_stmt_create(p, KILN_STMT_IF);
    p->stmt.data[version].condition =
        kiln_expr_simplify(p, kiln_expr_binary(p, KILN_EXPR_AND, above, below), NULL);
    bool once = end == begin + 1;
    kiln_stmt_append(p, version,
                     kiln_lower_copy(p, s.child.data[0], once ? &s.var : NULL,
                                     once ? kiln_expr_index(p, begin) : 0));
    return version;
}

static void simplify_part(partition *part, kiln_stmt stmt) {
    grow_range(part);
    kiln_lower_simplify_below(part->p, stmt, part->range);
}

/* Simplifies part `copy`, which is child `at` of `seq`, and splits the loops inside; false if it
 * becomes empty. A part that runs once is replaced by its body, and that may be a loop to split. */
static bool settle_part(partition *part, kiln_stmt seq, uint32_t at, kiln_stmt copy) {
    kiln_program *p = part->p;
    uint32_t before = p->stmt.data[seq].child.count;
    simplify_part(part, copy);
    if (p->stmt.data[seq].child.count < before) return false;
    kiln_stmt now = p->stmt.data[seq].child.data[at];
    split_tree(part, now == copy ? p->stmt.data[now].child.data[0] : now);
    return p->stmt.data[seq].child.count == before;
}

static void split_serial(partition *part) {
    kiln_program *p = part->p;
    kiln_stmt seq = kiln_stmt_create(p, KILN_STMT_SEQ), copy[CUTS_MAX + 1];
    for (uint32_t i = 0; i <= part->cut_count; i++) {
        copy[i] = make_part(part, part_begin(part, i), part_end(part, i));
        kiln_stmt_append(p, seq, copy[i]);
    }
    kiln_stmt_replace(p, part->loop, seq);
    uint32_t at = 0;
    for (uint32_t i = 0; i <= part->cut_count; i++) at += settle_part(part, seq, at, copy[i]);
}

static void split_parallel(partition *part) {
    kiln_program *p = part->p;
    kiln_stmt loop = part->loop, body = p->stmt.data[loop].child.data[0];
    kiln_var var = p->stmt.data[loop].var;
    uint32_t count = part->cut_count + 1;
    int64_t begin[CUTS_MAX + 1], end[CUTS_MAX + 1];
    kiln_stmt seq = kiln_stmt_create(p, KILN_STMT_SEQ);
    for (uint32_t i = 0; i < count; i++) {
        begin[i] = part_begin(part, i);
        end[i] = part_end(part, i);
        kiln_stmt_append(p, seq, make_version(part, begin[i], end[i]));
    }
    kiln_stmt_replace(p, body, seq);
    if (!part->range) part->range = KILN_ARENA_ARRAY(p->arena, kiln_interval, 1);
    grow_range(part);
    kiln_interval whole = part->range[var];
    for (uint32_t i = 0; i < count; i++) {
        kiln_stmt version = p->stmt.data[seq].child.data[i];
        kiln_stmt inner = p->stmt.data[version].child.data[0];
        part->range[var] = (kiln_interval){begin[i], end[i] - 1};
        simplify_part(part, inner);
        if (p->stmt.data[version].child.count > 0)
            split_tree(part, p->stmt.data[version].child.data[0]);
        grow_range(part);
        part->range[var] = whole;
    }
}

static partition look_at(const partition *outer, kiln_stmt loop) {
    partition part = *outer;
    part.loop = loop;
    part.cut_count = part.digit_count = 0;
    part.too_many = false;
    grow_range(&part);
    find_cuts(&part, loop);
    return part;
}

static void split_loop(partition *outer, kiln_stmt loop) {
    partition part = look_at(outer, loop);
    uint64_t added;
    bool overflows = __builtin_mul_overflow(kiln_lower_size(part.p, loop), part.cut_count, &added);
    if (part.cut_count == 0 || part.too_many || overflows || added > part.budget) {
        split_tree(outer, part.p->stmt.data[loop].child.data[0]);
        return;
    }
    part.budget -= added;
    if (part.p->stmt.data[loop].loop_kind == KILN_LOOP_PARALLEL)
        split_parallel(&part);
    else
        split_serial(&part);
    outer->budget = part.budget;
}

/* Temporarily makes the digit the variable of a separate loop around the body, which is cut like
 * any other; false if nothing remains. */
static bool split_digit(partition *part, kiln_stmt loop, kiln_expr digit) {
    kiln_program *p = part->p;
    kiln_stmt body = p->stmt.data[loop].child.data[0];
    kiln_interval range = kiln_expr_bounds(p, digit, part->range);
    kiln_var var = kiln_var_create(p, KILN_STR("digit"), range.low, range.high);
    kiln_expr stand_in = kiln_expr_var(p, var);
    kiln_lower_replace(p, body, digit, stand_in);
    kiln_stmt around =
        kiln_stmt_for(p, var, range.low, range.high - range.low + 1, KILN_LOOP_PARALLEL, body);
    split_loop(part, around);
    if (p->stmt.data[around].child.count == 0) return false;
    kiln_lower_replace(p, around, stand_in, digit);
    kiln_stmt_replace(p, around, p->stmt.data[around].child.data[0]);
    return true;
}

static void split_parallel_loop(partition *part, kiln_stmt loop) {
    grow_range(part);
    const partition seen = look_at(part, loop);
    for (uint32_t i = 0; i < seen.digit_count; i++)
        if (!split_digit(part, loop, seen.digit[i])) return;
    split_loop(part, loop);
}

static void split_tree(partition *part, kiln_stmt stmt) {
    kiln_program *p = part->p;
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    bool serial = s->loop_kind == KILN_LOOP_SERIAL, shared = s->loop_kind == KILN_LOOP_PARALLEL;
    if (s->kind == KILN_STMT_FOR && (serial || shared)) {
        (serial ? split_loop : split_parallel_loop)(part, stmt);
        return;
    }
    /* A child that is split is replaced by one statement, or removed if it becomes empty.
     */
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count;) {
        uint32_t before = p->stmt.data[stmt].child.count;
        split_tree(part, p->stmt.data[stmt].child.data[i]);
        if (p->stmt.data[stmt].child.count == before) i++;
    }
}

/* ---- what never runs ------------------------------------------------------------------------- */

static bool writes(const kiln_program *p, kiln_stmt stmt, kiln_buffer buffer) {
    const kiln_stmt_info *s = &p->stmt.data[stmt];
    bool found = s->kind == KILN_STMT_STORE && s->buffer == buffer;
    for (uint32_t i = 0; i < s->child.count && !found; i++)
        found = writes(p, s->child.data[i], buffer);
    return found;
}

static kiln_expr zero_load(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    const kiln_expr_node *node = kiln_expr_get(p, e);
    if (node->op != KILN_EXPR_LOAD || node->payload.id != *(kiln_buffer *)context) return rebuilt;
    return kiln_expr_zero(p, (kiln_dtype)node->dtype);
}

static kiln_expr zero_loads(kiln_program *p, kiln_expr e, void *context) {
    return kiln_expr_rewrite(p, e, kiln_uses_load(*(kiln_buffer *)context), zero_load, context);
}

/* Copies of a loop may keep the reads of a temp when the condition on its writes is false there and
 * the one on the reads is not found to be: then the reads never run, or a select does not choose
 * them. Zero replaces them, so that nothing reads a temp that is never written. */
static void zero_unwritten(kiln_program *p, kiln_stmt stmt) {
    kiln_buffer buffer = p->stmt.data[stmt].buffer;
    if (p->stmt.data[stmt].kind == KILN_STMT_ALLOC && !writes(p, stmt, buffer))
        kiln_lower_rewrite(p, stmt, zero_loads, &buffer);
    for (uint32_t i = 0; i < p->stmt.data[stmt].child.count; i++)
        zero_unwritten(p, p->stmt.data[stmt].child.data[i]);
}

/* Loops whose parts are all small need the budget most where there is little code: a quarter of the
 * limit is far more than any good kernel uses. */
static void partition_program(kiln_program *p) {
    if (!p->root) return;
    partition part = {.p = p, .budget = KILN_LOWER_SIZE_MAX / 4};
    split_tree(&part, p->root);
    if (!p->root) return;
    zero_unwritten(p, p->root);
    kiln_lower_simplify_below(p, p->root, NULL);
}

kiln_status kiln_lower_partition(kiln_lowering *l) {
    partition_program(l->run);
    if (l->prepare) partition_program(l->prepare);
    return KILN_OK;
}
