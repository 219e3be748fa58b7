/* Regions of buffers, by affine analysis of bindings. */
#include "compiler-core/facts/region.h"

#include "base/macros.h"
#include "compiler-core/facts/nest.h"
#include "compiler-core/ir/affine.h"

/* ---- variables that run ---- */

kiln_movers kiln_movers_inside(const kiln_program *p, kiln_stmt stmt, kiln_stmt outer) {
    kiln_movers m = {0};
    for (kiln_stmt s = p->stmt.data[stmt].parent; s && s != outer; s = p->stmt.data[s].parent)
        m.count += p->stmt.data[s].kind == KILN_STMT_FOR;
    m.var = KILN_ARENA_ARRAY(p->arena, kiln_var, m.count);
    uint32_t at = 0;
    for (kiln_stmt s = p->stmt.data[stmt].parent; s && s != outer; s = p->stmt.data[s].parent)
        if (p->stmt.data[s].kind == KILN_STMT_FOR) m.var[at++] = p->stmt.data[s].var;
    return m;
}

/* Whether the load can be moved to another place: no block writes its buffer, and no predicate is
 * needed to keep it inside its buffer. */
static bool can_be_repeated(const kiln_program *p, kiln_expr load) {
    const kiln_expr_node *node = kiln_expr_get(p, load);
    const kiln_buffer_info *from = &p->buffer.data[node->payload.id];
    if (from->role != KILN_ROLE_INPUT && from->role != KILN_ROLE_CONSTANT) return false;
    for (uint32_t d = 0; d < node->operand_count; d++) {
        kiln_interval at = kiln_expr_bounds(p, kiln_expr_operand(p, load, d), NULL);
        if (at.low < 0 || at.high >= from->shape.dim[d]) return false;
    }
    return true;
}

typedef struct mixing {
    const kiln_movers *movers;
    kiln_mix found;
} mixing;

static kiln_expr mix_in(kiln_program *p, kiln_expr e, kiln_expr rebuilt, void *context) {
    mixing *mix = context;
    const kiln_expr_node *node = kiln_expr_get(p, e);
    if (node->op == KILN_EXPR_LOAD && !can_be_repeated(p, e)) mix->found = (kiln_mix){true, true};
    if (node->op != KILN_EXPR_VAR) return rebuilt;
    bool moves = false;
    for (uint32_t i = 0; i < mix->movers->count; i++)
        moves |= mix->movers->var[i] == node->payload.id;
    mix->found.moves |= moves;
    mix->found.stands |= !moves;
    return rebuilt;
}

kiln_mix kiln_mix_of(kiln_program *p, kiln_expr e, const kiln_movers *m) {
    mixing mix = {.movers = m};
    kiln_expr_rewrite(p, e, 0, mix_in, &mix);
    return mix.found;
}

/* ---- regions ---- */

kiln_expr kiln_bound_index(kiln_program *p, kiln_block block, kiln_expr index) {
    kiln_expr *replacement = KILN_ARENA_ARRAY(p->arena, kiln_expr, p->var.count);
    const kiln_block_info *b = &p->block.data[block];
    for (uint32_t i = 0; i < b->iter_count; i++) replacement[b->iter[i].var] = b->iter[i].binding;
    return kiln_expr_substitute(p, index, replacement);
}

typedef struct step {
    uint64_t stride, span; /* |coefficient|, high - low of the term */
} step;

static step step_of(int64_t coefficient, kiln_interval range) {
    return (step){coefficient < 0 ? 0 - (uint64_t)coefficient : (uint64_t)coefficient,
                  (uint64_t)range.high - (uint64_t)range.low};
}

/* Whether sums of multiples 0..span_i of stride_i reach every integer up to their maximum. */
static bool steps_dense(step *s, uint32_t count) {
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t k = i; k > 0 && s[k].stride < s[k - 1].stride; k--) {
            step swapped = s[k];
            s[k] = s[k - 1];
            s[k - 1] = swapped;
        }
    uint64_t reach = 0, more;
    for (uint32_t i = 0; i < count; i++) {
        if (s[i].span == 0) continue;
        if (s[i].stride > reach + 1) return false;
        if (__builtin_mul_overflow(s[i].stride, s[i].span, &more) ||
            __builtin_add_overflow(reach, more, &reach) || reach == UINT64_MAX)
            return false;
    }
    return true;
}

static kiln_region_dim region_dim(kiln_program *p, kiln_expr index, const kiln_movers *m);

/* floordiv(e, c) and floormod(e, c) of a varying e take every combination of their values when e
 * runs through whole periods of c from 0 on. */
static bool runs_whole_periods(kiln_program *p, kiln_expr term, const kiln_movers *m) {
    const kiln_expr_node *node = kiln_expr_get(p, term);
    int64_t divisor;
    if (node->op != KILN_EXPR_FLOORDIV && node->op != KILN_EXPR_FLOORMOD) return false;
    if (!kiln_expr_as_int(p, kiln_expr_operand(p, term, 1), &divisor) || divisor <= 0) return false;
    kiln_region_dim dividend = region_dim(p, kiln_expr_operand(p, term, 0), m);
    return dividend.dense && !dividend.base && dividend.low == 0 &&
           (dividend.high + 1) % divisor == 0;
}

static kiln_region_dim region_dim(kiln_program *p, kiln_expr index, const kiln_movers *m) {
    kiln_region_dim dim = {.dense = true};
    kiln_affine sum, base = {0};
    step steps[KILN_AFFINE_TERMS_MAX];
    uint32_t step_count = 0;
    if (!kiln_affine_of(p, index, NULL, &sum)) {
        kiln_interval all = kiln_expr_bounds(p, index, NULL);
        return (kiln_region_dim){.low = all.low, .high = all.high};
    }
    kiln_interval reach = {sum.constant, sum.constant};
    for (uint32_t i = 0; i < sum.term_count; i++) {
        kiln_mix kind = kiln_mix_of(p, sum.term[i], m);
        if (!kind.moves) {
            base.term[base.term_count] = sum.term[i];
            base.coefficient[base.term_count++] = sum.coefficient[i];
            continue;
        }
        bool is_var = kiln_expr_get(p, sum.term[i])->op == KILN_EXPR_VAR;
        if (kind.stands || (!is_var && !runs_whole_periods(p, sum.term[i], m))) dim.dense = false;
        kiln_interval range = kiln_expr_bounds(p, sum.term[i], NULL);
        reach = kiln_interval_add(reach, kiln_interval_scale(range, sum.coefficient[i]));
        steps[step_count++] = step_of(sum.coefficient[i], range);
    }
    dim.low = reach.low;
    dim.high = reach.high;
    dim.dense = dim.dense && kiln_interval_is_bounded(reach) && steps_dense(steps, step_count);
    if (base.term_count > 0) dim.base = kiln_affine_to_expr(p, &base);
    return dim;
}

/* The interval of iterator i. Predicates cut off values outside its domain: applied at once if the
 * bounds are constants, else `*out_above` and `*out_below` say that part of the interval may be
 * outside. */
static kiln_region_dim iter_dim(kiln_program *p, const kiln_iter *iter, const kiln_movers *m,
                                bool *out_below, bool *out_above) {
    kiln_region_dim dim = region_dim(p, iter->binding, m);
    *out_below = *out_above = false;
    if (!dim.base) {
        dim.low = KILN_MAX(dim.low, 0);
        dim.high = KILN_MIN(dim.high, iter->extent - 1);
        return dim;
    }
    kiln_interval range = kiln_expr_bounds(p, dim.base, NULL);
    range = kiln_interval_add(range, (kiln_interval){dim.low, dim.high});
    *out_below = range.low < 0;
    *out_above = range.high >= iter->extent;
    return dim;
}

static kiln_expr scaled_base(kiln_program *p, kiln_expr sum, kiln_expr base, int64_t scale) {
    if (!base) return sum;
    kiln_expr term = kiln_expr_binary(p, KILN_EXPR_MUL, base, kiln_expr_index(p, scale));
    return sum ? kiln_expr_binary(p, KILN_EXPR_ADD, sum, term) : term;
}

/* The region along one dimension, from the intervals of the iterators. */
static kiln_region_dim index_dim(kiln_program *p, kiln_block block, kiln_expr index,
                                 const kiln_movers *m) {
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
        return region_dim(p, kiln_bound_index(p, block, index), m);
    kiln_interval reach = {sum.constant, sum.constant};
    /* For iterators that exceed their domain: the excluded part, and the place of the rest. */
    uint32_t overrunning = 0, moving = 0;
    bool below_any = false;
    int64_t extent = 0, others = sum.constant;
    kiln_expr others_base = 0;
    for (uint32_t t = 0; t < sum.term_count; t++) {
        int i = kiln_block_iter_of(p, block, sum.term[t]);
        if (i < 0) { /* a quotient or remainder of iterators: only its range is known */
            kiln_region_dim whole = region_dim(p, kiln_bound_index(p, block, index), m);
            whole.dense = whole.dense && !b.predicate;
            return whole;
        }
        kiln_region_dim one = iter_dim(p, &b.iter[i], m, &below, &above);
        int64_t scale = sum.coefficient[t];
        kiln_interval range = {one.low, one.high};
        reach = kiln_interval_add(reach, kiln_interval_scale(range, scale));
        dim.base = scaled_base(p, dim.base, one.base, scale);
        dim.dense = dim.dense && one.dense;
        steps[t] = step_of(scale, range);
        moving += one.high > one.low;
        below_any |= below;
        if (above && scale == 1) {
            overrunning++;
            extent = b.iter[i].extent;
        } else {
            overrunning += 2 * above; /* not expressible */
            kiln_interval fixed = kiln_interval_scale((kiln_interval){one.low, one.low}, scale);
            fixed = kiln_interval_add((kiln_interval){others, others}, fixed);
            overrunning += 2 * !kiln_interval_is_bounded(fixed);
            others = fixed.low;
            others_base = scaled_base(p, others_base, one.base, scale);
        }
    }
    dim.low = reach.low;
    dim.high = reach.high;
    dim.dense = dim.dense && kiln_interval_is_bounded(reach) && steps_dense(steps, sum.term_count);
    if (dim.base) dim.base = kiln_expr_simplify(p, dim.base, NULL);
    for (uint32_t i = 0; i < b.iter_count;
         i++) /* an iterator of one value is no term, but may be outside its domain */
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
    kiln_movers m = kiln_movers_inside(p, kiln_program_block_stmt(p, block), outer);
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
        dim->dense = dim->dense && other->dense && other->low - 1 <= dim->high &&
                     dim->low - 1 <= other->high; /* dense ones are bounded */
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
        int64_t end;
        if (__builtin_mul_overflow(divisor, b->iter[i].extent, &end)) continue;
        kiln_expr limit = kiln_expr_index(p, end);
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
