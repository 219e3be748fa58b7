/* Whether iterations of a loop keep out of each other's way. */
#include "base/macros.h"
#include "compiler-core/facts/region.h"
#include "compiler-core/ir/affine.h"
#include "compiler-core/sched/dependence.h"
#include "compiler-core/sched/nest.h"

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
/* Cannot overflow: |INT64_MIN| has an unsigned form. */
static uint64_t magnitude(int64_t a) { return a < 0 ? 0 - (uint64_t)a : (uint64_t)a; }

static bool decode_sum(kiln_program *p, known *k, kiln_expr e, const kiln_movers *m) {
    kiln_affine sum;
    if (!kiln_affine_of(p, e, NULL, &sum)) return false;
    uint32_t order[KILN_AFFINE_TERMS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < sum.term_count; i++) {
        if (knows(k, sum.term[i]) || !kiln_mix_of(p, sum.term[i], m).moves) continue;
        uint32_t at = count++;
        while (at > 0 &&
               magnitude(sum.coefficient[order[at - 1]]) > magnitude(sum.coefficient[i])) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
    uint64_t reach = 0, more;
    for (uint32_t i = 0; i < count; i++) {
        kiln_interval range = kiln_expr_bounds(p, sum.term[order[i]], NULL);
        uint64_t stride = magnitude(sum.coefficient[order[i]]);
        if (!kiln_interval_is_bounded(range)) return false;
        if (range.high > range.low && stride <= reach) return false;
        if (__builtin_mul_overflow(stride, (uint64_t)range.high - (uint64_t)range.low, &more) ||
            __builtin_add_overflow(reach, more, &reach) || reach > INT64_MAX)
            return false; /* the sum may wrap: two readings of one value */
    }
    bool learnt = false;
    for (uint32_t i = 0; i < count; i++) learnt |= learn(k, sum.term[order[i]]);
    return learnt;
}

/* floordiv(x, a) when `digit` is floormod(floordiv(x, a), b) and a*b is `product`; 0: it is not. */
static kiln_expr digit_above(kiln_program *p, kiln_expr digit, kiln_expr x, int64_t product) {
    if (kiln_expr_get(p, digit)->op != KILN_EXPR_FLOORMOD) return 0;
    kiln_expr quotient = kiln_expr_operand(p, digit, 0);
    if (kiln_expr_get(p, quotient)->op != KILN_EXPR_FLOORDIV) return 0;
    int64_t a, b, whole;
    bool fits = kiln_expr_operand(p, quotient, 0) == x &&
                kiln_expr_as_int(p, kiln_expr_operand(p, quotient, 1), &a) &&
                kiln_expr_as_int(p, kiln_expr_operand(p, digit, 1), &b) && b > 0 &&
                !__builtin_mul_overflow(a, b, &whole) && whole == product;
    return fits ? quotient : 0;
}

/* floordiv(x, a*b) and floormod(floordiv(x, a), b) together determine floordiv(x, a). */
static bool join_digits(kiln_program *p, known *k, kiln_expr x, int64_t product) {
    bool learnt = false;
    for (uint32_t i = 0; i < k->count; i++) {
        kiln_expr quotient = digit_above(p, k->e[i], x, product);
        learnt |= quotient && learn(k, quotient);
    }
    return learnt;
}

/* floordiv(x, c) and floormod(x, c) together determine x. */
static bool join_division(kiln_program *p, known *k, kiln_expr e) {
    if (kiln_expr_get(p, e)->op != KILN_EXPR_FLOORDIV) return false;
    kiln_expr x = kiln_expr_operand(p, e, 0), c = kiln_expr_operand(p, e, 1);
    int64_t divisor;
    if (kiln_expr_as_int(p, c, &divisor) && join_digits(p, k, x, divisor)) return true;
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
    kiln_movers m =
        kiln_movers_inside(p, kiln_program_block_stmt(p, block), p->stmt.data[loop].parent);
    known k = {.count = 0};
    const kiln_block_info b = p->block.data[block];
    for (uint32_t d = 0; d < b.index_count; d++)
        learn(&k, kiln_expr_simplify(p, kiln_bound_index(p, block, b.index[d]), NULL));
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
        bool ordered =
            info->loop_kind == KILN_LOOP_SERIAL || info->loop_kind == KILN_LOOP_UNROLL;
        if (info->kind == KILN_STMT_FOR && !ordered && kiln_stmt_is_inside(p, s, p->root))
            st = kiln_iterations_check(p, s);
    }
    return st;
}
