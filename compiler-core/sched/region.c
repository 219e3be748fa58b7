/* Regions, dependences and races, by affine analysis of bindings. */
#include "compiler-core/sched/region.h"

#include <stdlib.h>

#include "base/macros.h"
#include "compiler-core/sched/nest.h"

/* ---- variables that move
 * ---------------------------------------------------------------------------------- */

typedef struct movers {
    kiln_var var[KILN_LOOPS_MAX];
    uint32_t count;
} movers;

static movers movers_inside(const kiln_program *p, kiln_stmt stmt, kiln_stmt outer) {
    movers m = {.count = 0};
    for (kiln_stmt s = p->stmt.data[stmt].parent; s && s != outer; s = p->stmt.data[s].parent)
        if (p->stmt.data[s].kind == KILN_STMT_FOR && m.count < KILN_LOOPS_MAX)
            m.var[m.count++] = p->stmt.data[s].var;
    return m;
}

typedef struct mix {
    bool moves, stands;
} mix;

static mix mix_of(const kiln_program *p, kiln_expr e, const movers *m) {
    const kiln_expr_node *node = kiln_expr_get(p, e);
    mix found = {false, false};
    if (node->op == KILN_EXPR_VAR) {
        for (uint32_t i = 0; i < m->count; i++) found.moves |= m->var[i] == node->payload.id;
        found.stands = !found.moves;
        return found;
    }
    for (uint32_t i = 0; i < node->operand_count; i++) {
        mix below = mix_of(p, kiln_expr_operand(p, e, i), m);
        found.moves |= below.moves;
        found.stands |= below.stands;
    }
    return found;
}

/* ---- regions
 * --------------------------------------------------------------------------------------------------
 */

/* The index expression over loop variables. */
static kiln_expr bound_index(kiln_program *p, kiln_block block, kiln_expr index) {
    kiln_expr *replacement = kiln_nest_replacements(p);
    const kiln_block_info *b = &p->block.data[block];
    for (uint32_t i = 0; i < b->iter_count; i++) replacement[b->iter[i].var] = b->iter[i].binding;
    return kiln_expr_substitute(p, index, replacement);
}

typedef struct step {
    int64_t stride, span; /* |coefficient|, high - low of the term */
} step;

/* Whether sums of multiples 0..span_i of stride_i reach every integer up to their maximum. */
static bool steps_dense(step *s, uint32_t count) {
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t k = i; k > 0 && s[k].stride < s[k - 1].stride; k--) {
            step swapped = s[k];
            s[k] = s[k - 1];
            s[k - 1] = swapped;
        }
    int64_t reach = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (s[i].span == 0) continue;
        if (s[i].stride > reach + 1) return false;
        reach += s[i].stride * s[i].span;
    }
    return true;
}

static kiln_region_dim region_dim(kiln_program *p, kiln_expr index, const movers *m);

/* floordiv(e, c) and floormod(e, c) of moving e take every combination of their values when e runs
 * through whole periods of c from 0 on. */
static bool runs_whole_periods(kiln_program *p, kiln_expr term, const movers *m) {
    const kiln_expr_node *node = kiln_expr_get(p, term);
    int64_t divisor;
    if (node->op != KILN_EXPR_FLOORDIV && node->op != KILN_EXPR_FLOORMOD) return false;
    if (!kiln_expr_as_int(p, kiln_expr_operand(p, term, 1), &divisor) || divisor <= 0) return false;
    kiln_region_dim dividend = region_dim(p, kiln_expr_operand(p, term, 0), m);
    return dividend.dense && !dividend.base && dividend.low == 0 &&
           (dividend.high + 1) % divisor == 0;
}

static kiln_region_dim region_dim(kiln_program *p, kiln_expr index, const movers *m) {
    kiln_region_dim dim = {.dense = true};
    kiln_affine sum;
    kiln_affine base = {0};
    step steps[KILN_AFFINE_TERMS_MAX];
    uint32_t step_count = 0;
    if (!kiln_affine_of(p, index, NULL, &sum)) {
        kiln_interval all = kiln_expr_bounds(p, index, NULL);
        return (kiln_region_dim){.low = all.low, .high = all.high};
    }
    dim.low = dim.high = sum.constant;
    for (uint32_t i = 0; i < sum.term_count; i++) {
        mix kind = mix_of(p, sum.term[i], m);
        if (!kind.moves) {
            base.term[base.term_count] = sum.term[i];
            base.coefficient[base.term_count++] = sum.coefficient[i];
            continue;
        }
        bool is_var = kiln_expr_get(p, sum.term[i])->op == KILN_EXPR_VAR;
        if (kind.stands || (!is_var && !runs_whole_periods(p, sum.term[i], m))) dim.dense = false;
        kiln_interval range = kiln_expr_bounds(p, sum.term[i], NULL);
        int64_t coefficient = sum.coefficient[i];
        dim.low += coefficient * (coefficient > 0 ? range.low : range.high);
        dim.high += coefficient * (coefficient > 0 ? range.high : range.low);
        steps[step_count++] =
            (step){coefficient < 0 ? -coefficient : coefficient, range.high - range.low};
    }
    dim.dense = dim.dense && steps_dense(steps, step_count);
    if (base.term_count > 0) dim.base = kiln_affine_to_expr(p, &base);
    return dim;
}

/* Where iterator i runs. Predicates cut off what lies outside its domain: at once where that is a
 * matter of constants, else `*out_above` and `*out_below` say that part of the interval may be
 * outside. */
static kiln_region_dim iter_dim(kiln_program *p, const kiln_iter *iter, const movers *m,
                                bool *out_below, bool *out_above) {
    kiln_region_dim dim = region_dim(p, iter->binding, m);
    *out_below = *out_above = false;
    if (!dim.base) {
        dim.low = KILN_MAX(dim.low, 0);
        dim.high = KILN_MIN(dim.high, iter->extent - 1);
        return dim;
    }
    kiln_interval range = kiln_expr_bounds(p, dim.base, NULL);
    *out_below = range.low + dim.low < 0;
    *out_above = range.high + dim.high >= iter->extent;
    return dim;
}

static kiln_expr scaled_base(kiln_program *p, kiln_expr sum, kiln_expr base, int64_t scale) {
    if (!base) return sum;
    kiln_expr term = kiln_expr_binary(p, KILN_EXPR_MUL, base, kiln_expr_index(p, scale));
    return sum ? kiln_expr_binary(p, KILN_EXPR_ADD, sum, term) : term;
}

/* Along one dimension, from where the iterators run. */
static kiln_region_dim index_dim(kiln_program *p, kiln_block block, kiln_expr index,
                                 const movers *m) {
    const kiln_block_info b = p->block.data[block];
    kiln_affine sum;
    kiln_region_dim dim = {.dense = true};
    step steps[KILN_AFFINE_TERMS_MAX];
    bool below, above;
    int plain = kiln_block_iter_of(p, block, index);
    if (plain >= 0)
        return iter_dim(p, &b.iter[plain], m, &below,
                        &above); /* the buffer ends where the domain does */
    if (!kiln_affine_of(p, index, NULL, &sum))
        return region_dim(p, bound_index(p, block, index), m);
    dim.low = dim.high = sum.constant;
    /* Of what runs over its domain: what is left out, and where everything else stands. */
    uint32_t overrunning = 0, moving = 0;
    bool below_any = false;
    int64_t extent = 0, others = sum.constant;
    kiln_expr others_base = 0;
    for (uint32_t t = 0; t < sum.term_count; t++) {
        int i = kiln_block_iter_of(p, block, sum.term[t]);
        if (i < 0) { /* a quotient or remainder of iterators: only how far it reaches is known */
            kiln_region_dim whole = region_dim(p, bound_index(p, block, index), m);
            whole.dense = whole.dense && !b.predicate;
            return whole;
        }
        kiln_region_dim one = iter_dim(p, &b.iter[i], m, &below, &above);
        int64_t scale = sum.coefficient[t];
        dim.low += scale * (scale > 0 ? one.low : one.high);
        dim.high += scale * (scale > 0 ? one.high : one.low);
        dim.base = scaled_base(p, dim.base, one.base, scale);
        dim.dense = dim.dense && one.dense;
        steps[t] = (step){scale < 0 ? -scale : scale, one.high - one.low};
        moving += one.high > one.low;
        below_any |= below;
        if (above && scale == 1) {
            overrunning++;
            extent = b.iter[i].extent;
        } else {
            overrunning += 2 * above; /* not expressible */
            others += scale * one.low;
            others_base = scaled_base(p, others_base, one.base, scale);
        }
    }
    dim.dense = dim.dense && steps_dense(steps, sum.term_count);
    if (dim.base) dim.base = kiln_expr_simplify(p, dim.base, NULL);
    for (uint32_t i = 0; i < b.iter_count;
         i++) /* an iterator of one value is no term, but may be out of its domain */
        if (b.iter[i].extent == 1 && kiln_expr_uses_var(p, index, b.iter[i].var)) {
            (void)iter_dim(p, &b.iter[i], m, &below, &above);
            below_any |= below || above;
        }
    if (!b.predicate || (overrunning == 0 && !below_any)) return dim;
    if (overrunning != 1 || below_any || moving > 1) {
        dim.dense = false;
        return dim;
    }
    kiln_expr end = kiln_expr_index(p, others + extent);
    dim.limit = kiln_expr_simplify(
        p, others_base ? kiln_expr_binary(p, KILN_EXPR_ADD, others_base, end) : end, NULL);
    return dim;
}

kiln_region kiln_region_of(kiln_program *p, kiln_block block, const kiln_expr *index, uint32_t rank,
                           kiln_stmt outer) {
    kiln_region region = {.rank = rank};
    movers m = movers_inside(p, kiln_program_block_stmt(p, block), outer);
    for (uint32_t d = 0; d < rank; d++) region.dim[d] = index_dim(p, block, index[d], &m);
    return region;
}

kiln_region kiln_region_union(kiln_program *p, const kiln_region *a, const kiln_region *b,
                              const kiln_shape *shape) {
    (void)p;
    kiln_region all = *a;
    for (uint32_t d = 0; d < all.rank; d++) {
        kiln_region_dim *dim = &all.dim[d];
        const kiln_region_dim *other = &b->dim[d];
        if (dim->base != other->base) {
            *dim = (kiln_region_dim){.low = 0, .high = shape->dim[d] - 1};
            continue;
        }
        dim->dense = dim->dense && other->dense && other->low <= dim->high + 1 &&
                     dim->low <= other->high + 1;
        dim->low = KILN_MIN(dim->low, other->low);
        dim->high = KILN_MAX(dim->high, other->high);
    }
    return all;
}

static bool clips_domain(kiln_program *p, const kiln_block_info *b, kiln_expr condition) {
    if (kiln_expr_get(p, condition)->op == KILN_EXPR_AND)
        return clips_domain(p, b, kiln_expr_operand(p, condition, 0)) &&
               clips_domain(p, b, kiln_expr_operand(p, condition, 1));
    for (uint32_t i = 0; i < b->iter_count; i++) {
        kiln_expr binding = b->iter[i].binding;
        kiln_expr above =
            kiln_expr_binary(p, KILN_EXPR_LT, binding, kiln_expr_index(p, b->iter[i].extent));
        kiln_expr below = kiln_expr_binary(p, KILN_EXPR_LE, kiln_expr_index(p, 0), binding);
        if (condition == above || condition == below) return true;
        if (condition == kiln_expr_simplify(p, above, NULL) ||
            condition == kiln_expr_simplify(p, below, NULL))
            return true;
        int64_t divisor; /* x < divisor * extent is floordiv(x, divisor) < extent */
        if (kiln_expr_get(p, binding)->op != KILN_EXPR_FLOORDIV ||
            !kiln_expr_as_int(p, kiln_expr_operand(p, binding, 1), &divisor))
            continue;
        kiln_expr limit = kiln_expr_index(p, divisor * b->iter[i].extent);
        if (condition ==
            kiln_expr_simplify(
                p, kiln_expr_binary(p, KILN_EXPR_LT, kiln_expr_operand(p, binding, 0), limit),
                NULL))
            return true;
    }
    return false;
}

bool kiln_predicate_clips_domain(kiln_program *p, kiln_block block) {
    kiln_expr predicate = p->block.data[block].predicate;
    if (!predicate) return true;
    const kiln_block_info b = p->block.data[block];
    return clips_domain(p, &b, predicate);
}

/* ---- dependences
 * ---------------------------------------------------------------------------------------------- */

static bool known_le(kiln_program *p, kiln_expr a, int64_t a_add, kiln_expr b, int64_t b_add) {
    if (a == b) return a_add <= b_add;
    kiln_expr left = kiln_expr_binary(p, KILN_EXPR_ADD, a ? a : kiln_expr_index(p, 0),
                                      kiln_expr_index(p, a_add));
    kiln_expr right = kiln_expr_binary(p, KILN_EXPR_ADD, b ? b : kiln_expr_index(p, 0),
                                       kiln_expr_index(p, b_add));
    return kiln_expr_prove(p, kiln_expr_binary(p, KILN_EXPR_LE, left, right), NULL);
}

static bool has_conjunct(const kiln_program *p, kiln_expr predicate, kiln_expr condition) {
    if (!predicate) return false;
    if (kiln_expr_get(p, predicate)->op != KILN_EXPR_AND) return predicate == condition;
    return has_conjunct(p, kiln_expr_operand(p, predicate, 0), condition) ||
           has_conjunct(p, kiln_expr_operand(p, predicate, 1), condition);
}

/* The reader's predicate keeps `index` below the limit. */
static bool stays_below(kiln_program *p, kiln_block reader, kiln_expr index, kiln_expr limit) {
    kiln_expr below = kiln_expr_binary(p, KILN_EXPR_LT, bound_index(p, reader, index), limit);
    below = kiln_expr_simplify(p, below, NULL);
    int64_t known;
    return (kiln_expr_as_int(p, below, &known) && known) ||
           has_conjunct(p, p->block.data[reader].predicate, below);
}

/* The writer's interval contains the reader's as far as that lies in the buffer. */
static bool dim_covers(kiln_program *p, const kiln_region_dim *w, const kiln_region_dim *r,
                       int64_t extent) {
    if (!w->dense) return false;
    bool low = known_le(p, w->base, w->low, r->base, r->low) || known_le(p, w->base, w->low, 0, 0);
    bool high = known_le(p, r->base, r->high, w->base, w->high) ||
                known_le(p, 0, extent - 1, w->base, w->high);
    return low && high;
}

/* Whether a loop variable outside `common` takes part in choosing reduce iterators: then the sum is
 * complete only after that loop. */
static bool reduces_across(kiln_program *p, kiln_block writer, kiln_stmt common) {
    kiln_stmt loop[KILN_LOOPS_MAX];
    uint32_t count = kiln_nest_loops(p, kiln_program_block_stmt(p, writer), loop);
    const kiln_block_info *b = &p->block.data[writer];
    for (uint32_t i = 0; i < b->iter_count; i++) {
        if (!b->iter[i].reduce) continue;
        for (uint32_t k = 0; k < count; k++)
            if (kiln_stmt_is_inside(p, common, loop[k]) &&
                kiln_expr_uses_var(p, b->iter[i].binding, p->stmt.data[loop[k]].var))
                return true;
    }
    return false;
}

const char *kiln_dependence_broken(kiln_program *p, kiln_block writer, kiln_block reader,
                                   kiln_buffer buffer) {
    kiln_stmt w = kiln_program_block_stmt(p, writer);
    kiln_stmt r = kiln_program_block_stmt(p, reader);
    if (!kiln_nest_before(p, w, r)) return "it would be read before it is written";
    kiln_stmt common = kiln_nest_common(p, w, r);
    kiln_stmt loop[KILN_LOOPS_MAX];
    bool shares = kiln_nest_loops(p, kiln_nest_child_towards(p, common, w), loop) > 0;
    if (shares && reduces_across(p, writer, common)) return "its reduction is not complete there";

    const kiln_block_info b = p->block.data[writer];
    kiln_shape shape = p->buffer.data[buffer].shape;
    kiln_region written = kiln_region_of(p, writer, b.index, b.index_count, shares ? common : 0);
    if (!kiln_predicate_clips_domain(p, writer)) return "its predicate leaves elements out";
    kiln_expr load[KILN_LOADS_MAX];
    uint32_t load_count = kiln_block_loads(p, reader, load);
    for (uint32_t i = 0; i < load_count; i++) {
        const kiln_expr_node node = *kiln_expr_get(p, load[i]);
        if (node.payload.id != buffer) continue;
        kiln_expr index[KILN_RANK_MAX];
        for (uint32_t d = 0; d < node.operand_count; d++)
            index[d] = kiln_expr_operand(p, load[i], d);
        kiln_region read =
            kiln_region_of(p, reader, index, node.operand_count, shares ? common : 0);
        for (uint32_t d = 0; d < read.rank; d++)
            if (!dim_covers(p, &written.dim[d], &read.dim[d], shape.dim[d]) ||
                (written.dim[d].limit && !stays_below(p, reader, index[d], written.dim[d].limit)))
                return "more of it is read there than the same iteration wrote";
    }
    return NULL;
}

kiln_status kiln_dependences_check(kiln_program *p, kiln_block block) {
    kiln_expr load[KILN_LOADS_MAX];
    uint32_t count = kiln_block_loads(p, block, load);
    kiln_buffer seen = 0;
    for (uint32_t i = 0; i < count; i++) {
        kiln_buffer buffer = kiln_expr_get(p, load[i])->payload.id;
        kiln_block writer = kiln_program_producer(p, buffer);
        if (!writer || buffer == seen) continue;
        seen = buffer;
        const char *why = kiln_dependence_broken(p, writer, block, buffer);
        if (why)
            return ILLEGAL("%.*s reads %.*s from %.*s, but %s", BLOCK_NAME(p, block),
                           BUFFER_NAME(p, buffer), BLOCK_NAME(p, writer), why);
    }
    kiln_buffer own = p->block.data[block].buffer;
    for (kiln_block reader = 1; reader < p->block.count; reader++) {
        if (p->block.data[reader].removed || reader == block || !kiln_block_reads(p, reader, own))
            continue;
        const char *why = kiln_dependence_broken(p, block, reader, own);
        if (why)
            return ILLEGAL("%.*s reads %.*s from %.*s, but %s", BLOCK_NAME(p, reader),
                           BUFFER_NAME(p, own), BLOCK_NAME(p, block), why);
    }
    return NULL;
}

/* ---- iterations that write apart
 * ------------------------------------------------------------------------------- */

/* What is known once the written element is known: expressions whose value it determines. */
typedef struct known {
    kiln_expr e[128];
    uint32_t count;
} known;

static bool knows(const known *k, kiln_expr e) {
    for (uint32_t i = 0; i < k->count; i++)
        if (k->e[i] == e) return true;
    return false;
}

static bool learn(known *k, kiln_expr e) {
    if (knows(k, e) || k->count == KILN_ARRAY_COUNT(k->e)) return false;
    k->e[k->count++] = e;
    return true;
}

/* A sum of known value, whose still unknown moving terms have strides so far apart that the value
 * has one reading only (mixed radix), determines these terms. */
static bool decode_sum(kiln_program *p, known *k, kiln_expr e, const movers *m) {
    kiln_affine sum;
    if (!kiln_affine_of(p, e, NULL, &sum)) return false;
    uint32_t order[KILN_AFFINE_TERMS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < sum.term_count; i++) {
        if (knows(k, sum.term[i]) || !mix_of(p, sum.term[i], m).moves) continue;
        uint32_t at = count++;
        while (at > 0 && llabs(sum.coefficient[order[at - 1]]) > llabs(sum.coefficient[i])) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
    int64_t reach = 0;
    for (uint32_t i = 0; i < count; i++) {
        kiln_interval range = kiln_expr_bounds(p, sum.term[order[i]], NULL);
        if (range.low == INT64_MIN || range.high == INT64_MAX) return false;
        if (range.high > range.low && llabs(sum.coefficient[order[i]]) <= reach) return false;
        reach += llabs(sum.coefficient[order[i]]) * (range.high - range.low);
    }
    bool learnt = false;
    for (uint32_t i = 0; i < count; i++) learnt |= learn(k, sum.term[order[i]]);
    return learnt;
}

/* floordiv(x, c) and floormod(x, c) together determine x. */
static bool join_division(kiln_program *p, known *k, kiln_expr e) {
    if (kiln_expr_get(p, e)->op != KILN_EXPR_FLOORDIV) return false;
    kiln_expr x = kiln_expr_operand(p, e, 0), c = kiln_expr_operand(p, e, 1);
    kiln_expr rest = kiln_expr_simplify(p, kiln_expr_binary(p, KILN_EXPR_FLOORMOD, x, c), NULL);
    if (kiln_expr_is_const(p, rest)) return learn(k, x);
    if (knows(k, rest)) return learn(k, x);
    kiln_affine sum; /* a remainder that the simplifier split may be known by its terms */
    if (!kiln_affine_of(p, rest, NULL, &sum)) return false;
    for (uint32_t i = 0; i < sum.term_count; i++)
        if (!knows(k, sum.term[i])) return false;
    return learn(k, x);
}

bool kiln_element_determines(kiln_program *p, kiln_block block, kiln_stmt loop) {
    if (p->stmt.data[loop].extent <= 1) return true;
    kiln_var var = p->stmt.data[loop].var;
    movers m = movers_inside(p, kiln_program_block_stmt(p, block), p->stmt.data[loop].parent);
    known k = {.count = 0};
    const kiln_block_info b = p->block.data[block];
    for (uint32_t d = 0; d < b.index_count; d++)
        learn(&k, kiln_expr_simplify(p, bound_index(p, block, b.index[d]), NULL));
    kiln_expr wanted = kiln_expr_var(p, var);
    for (bool learnt = true; learnt && !knows(&k, wanted);) {
        learnt = false;
        for (uint32_t i = 0; i < k.count; i++)
            learnt |= decode_sum(p, &k, k.e[i], &m) || join_division(p, &k, k.e[i]);
    }
    return knows(&k, wanted);
}

typedef struct iterations_check {
    kiln_stmt loop;
    kiln_status status;
} iterations_check;

/* Every access to the buffer lies inside the loop: each iteration has its own. */
static bool is_private(kiln_program *p, kiln_buffer buffer, kiln_stmt loop) {
    if (p->buffer.data[buffer].role != KILN_ROLE_TEMP) return false;
    for (kiln_block b = 1; b < p->block.count; b++) {
        if (p->block.data[b].removed) continue;
        bool touches = p->block.data[b].buffer == buffer || kiln_block_reads(p, b, buffer);
        if (touches && !kiln_stmt_is_inside(p, kiln_program_block_stmt(p, b), loop)) return false;
    }
    return true;
}

static void check_block(kiln_program *p, kiln_block block, void *context) {
    iterations_check *check = context;
    if (check->status || p->stmt.data[check->loop].extent <= 1) return;
    kiln_buffer buffer = p->block.data[block].buffer;
    if (is_private(p, buffer, check->loop)) return;
    const kiln_block_info *b = &p->block.data[block];
    kiln_var var = p->stmt.data[check->loop].var;
    for (uint32_t i = 0; i < b->iter_count; i++)
        if (b->iter[i].reduce && kiln_expr_uses_var(p, b->iter[i].binding, var)) {
            check->status =
                ILLEGAL("iterations of %.*s add to the same elements of %.*s (reduce iterator %.*s "
                        "of %.*s)",
                        LOOP_NAME(p, check->loop), BUFFER_NAME(p, buffer),
                        KILN_STR_ARG(kiln_iter_name(p, &b->iter[i])), BLOCK_NAME(p, block));
            return;
        }
    if (!kiln_element_determines(p, block, check->loop))
        check->status =
            ILLEGAL("two iterations of %.*s may write the same element of %.*s (block %.*s)",
                    LOOP_NAME(p, check->loop), BUFFER_NAME(p, buffer), BLOCK_NAME(p, block));
}

kiln_status kiln_iterations_check(kiln_program *p, kiln_stmt loop) {
    iterations_check check = {loop, NULL};
    kiln_nest_visit_blocks(p, loop, check_block, &check);
    return check.status;
}

kiln_status kiln_iterations_check_all(kiln_program *p) {
    kiln_status st = NULL;
    for (kiln_stmt s = 1; s < p->stmt.count && !st; s++) {
        const kiln_stmt_info *info = &p->stmt.data[s];
        bool concurrent =
            info->loop_kind == KILN_LOOP_PARALLEL || info->loop_kind == KILN_LOOP_VECTORIZE;
        if (info->kind == KILN_STMT_FOR && concurrent && kiln_stmt_is_inside(p, s, p->root))
            st = kiln_iterations_check(p, s);
    }
    return st;
}
