#include "vta/fold.h"

#include <string.h>

#include "base/check.h"

/* ---- a nest ---------------------------------------------------------------------------------- */

static void remove_loop(kiln_vta_nest *nest, uint32_t at) {
    nest->loop_count--;
    memmove(&nest->loop[at], &nest->loop[at + 1], sizeof *nest->loop * (nest->loop_count - at));
}

bool kiln_vta_nest_is_injective(const kiln_vta_nest *nest) {
    /* From the smallest step on, each must be larger than the range of the smaller ones. */
    bool done[KILN_VTA_NEST_LOOPS_MAX] = {false};
    uint64_t reached = 0;
    for (uint32_t n = 0; n < nest->loop_count; n++) {
        uint32_t next = UINT32_MAX;
        for (uint32_t i = 0; i < nest->loop_count; i++)
            if (!done[i] &&
                (next == UINT32_MAX || nest->loop[i].step.dst < nest->loop[next].step.dst))
                next = i;
        done[next] = true;
        const kiln_vta_loop *l = &nest->loop[next];
        if (l->extent > 1 && l->step.dst <= reached) return false;
        reached += (uint64_t)(l->extent - 1) * l->step.dst;
    }
    return true;
}

static kiln_status check_range(const char *what, uint32_t base, const kiln_vta_nest *nest,
                               uint32_t (*step)(const kiln_vta_uop *), uint32_t tiles) {
    uint64_t last = base;
    for (uint32_t i = 0; i < nest->loop_count && last < tiles; i++)
        last += (uint64_t)(nest->loop[i].extent - 1) * step(&nest->loop[i].step);
    if (last < tiles) return KILN_OK;
    return KILN_ERROR(OUT_OF_RANGE, "%s tile %llu of a kernel; the machine has %u", what,
                      (unsigned long long)last, tiles);
}

static uint32_t dst_of(const kiln_vta_uop *uop) { return uop->dst; }
static uint32_t src_of(const kiln_vta_uop *uop) { return uop->src; }
static uint32_t wgt_of(const kiln_vta_uop *uop) { return uop->wgt; }

static kiln_status check_nest(const kiln_vta_nest *nest, const kiln_vta_fold_rules *rules) {
    if (nest->loop_count > KILN_VTA_NEST_LOOPS_MAX)
        return KILN_ERROR(INVALID_ARGUMENT, "a kernel of %u loops; at most %u", nest->loop_count,
                          KILN_VTA_NEST_LOOPS_MAX);
    for (uint32_t i = 0; i < nest->loop_count; i++)
        if (nest->loop[i].extent == 0)
            return KILN_ERROR(INVALID_ARGUMENT, "loop %u of a kernel has no rounds", i);
    kiln_status st = check_range("result", nest->base.dst, nest, dst_of, rules->tiles.dst);
    if (!st) st = check_range("source", nest->base.src, nest, src_of, rules->tiles.src);
    if (!st) st = check_range("weight", nest->base.wgt, nest, wgt_of, rules->tiles.wgt);
    return st;
}

/* ---- fewer loops ----------------------------------------------------------------------------- */

/* Whether the two can be merged into one loop. */
static bool are_one(const kiln_vta_loop *outer, const kiln_vta_loop *inner) {
    const uint64_t n = inner->extent;
    return outer->extent * n <= KILN_VTA_ITERATIONS_MAX && outer->step.dst == n * inner->step.dst &&
           outer->step.src == n * inner->step.src && outer->step.wgt == n * inner->step.wgt;
}

static bool merge_two(kiln_vta_nest *nest, bool any_order) {
    for (uint32_t o = 0; o < nest->loop_count; o++)
        for (uint32_t i = 0; i < nest->loop_count; i++) {
            if (i == o || (!any_order && i != o + 1)) continue;
            if (!are_one(&nest->loop[o], &nest->loop[i])) continue;
            nest->loop[i].extent *= nest->loop[o].extent;
            remove_loop(nest, o);
            return true;
        }
    return false;
}

static void simplify(kiln_vta_nest *nest, bool any_order) {
    for (uint32_t i = 0; i < nest->loop_count;)
        if (nest->loop[i].extent == 1)
            remove_loop(nest, i);
        else
            i++;
    while (merge_two(nest, any_order)) {}
}

/* Splits a loop that is longer than an instruction's limit, if there is room for another. */
static void split_long_loops(kiln_vta_nest *nest) {
    for (uint32_t i = 0; i < nest->loop_count && nest->loop_count < KILN_VTA_NEST_LOOPS_MAX; i++) {
        const kiln_vta_loop whole = nest->loop[i];
        uint32_t part = KILN_VTA_ITERATIONS_MAX;
        if (whole.extent <= part) continue;
        while (whole.extent % part) part--;
        if (part == 1) continue;
        memmove(&nest->loop[i + 1], &nest->loop[i], sizeof *nest->loop * (nest->loop_count - i));
        nest->loop_count++;
        nest->loop[i + 1].extent = part;
        nest->loop[i].extent = whole.extent / part;
        nest->loop[i].step =
            (kiln_vta_uop){whole.step.dst * part, whole.step.src * part, whole.step.wgt * part};
    }
}

/* ---- the loops of the instruction --------------------------------------------------------
 */

#define NO_LOOP UINT32_MAX

/* A choice of the two loops, which determines the rest. Ordered by micro-ops, then by the loops. */
typedef struct choice {
    uint64_t uops;
    uint32_t outer, inner; /* of the nest, or NO_LOOP */
} choice;

static bool is_less(const choice *a, const choice *b) {
    if (a->uops != b->uops) return a->uops < b->uops;
    return a->outer != b->outer ? a->outer < b->outer : a->inner < b->inner;
}

static uint64_t count_uops(const kiln_vta_nest *nest, uint32_t outer, uint32_t inner) {
    uint64_t count = 1;
    for (uint32_t i = 0; i < nest->loop_count; i++) {
        if (i == outer || i == inner) continue;
        count *= nest->loop[i].extent;
        if (count > UINT32_MAX) count = UINT32_MAX;
    }
    return count;
}

static bool may_be(const kiln_vta_nest *nest, const kiln_vta_fold_rules *rules, uint32_t outer,
                   uint32_t inner) {
    if (outer == NO_LOOP || inner == outer) return outer == NO_LOOP && inner == NO_LOOP;
    if (nest->loop[outer].extent > KILN_VTA_ITERATIONS_MAX) return false;
    if (inner != NO_LOOP && nest->loop[inner].extent > KILN_VTA_ITERATIONS_MAX) return false;
    return rules->any_order || (outer == 0 && (inner == 1 || inner == NO_LOOP));
}

/* The least choice above `*after`; NULL: the least of all. False: there is none. */
static bool next_choice(const kiln_vta_nest *nest, const kiln_vta_fold_rules *rules,
                        const choice *after, choice *out) {
    bool found = false;
    for (uint32_t o = 0; o <= nest->loop_count; o++)
        for (uint32_t i = 0; i <= nest->loop_count; i++) {
            choice c = {.outer = o < nest->loop_count ? o : NO_LOOP,
                        .inner = i < nest->loop_count ? i : NO_LOOP};
            if (!may_be(nest, rules, c.outer, c.inner)) continue;
            c.uops = count_uops(nest, c.outer, c.inner);
            if ((after && !is_less(after, &c)) || (found && !is_less(&c, out))) continue;
            *out = c;
            found = true;
        }
    return found;
}

/* Appends the operations of one loop, whose place in the order is the innermost so far. */
static void write_out(kiln_vta_folded *f, const kiln_vta_loop *loop) {
    const uint32_t before = f->uop_count;
    f->uop_count *= loop->extent;
    for (uint32_t k = f->uop_count; k-- > 0;) { /* from the end, because it is expanded in place */
        const kiln_vta_uop at = f->uop[k / loop->extent];
        const uint32_t n = k % loop->extent;
        f->uop[k] = (kiln_vta_uop){at.dst + n * loop->step.dst, at.src + n * loop->step.src,
                                   at.wgt + n * loop->step.wgt};
    }
    KILN_CHECK(f->uop_count >= before);
}

static kiln_vta_folded folded_by(const kiln_vta_nest *nest, const choice *c, bool any_order,
                                 kiln_arena *arena) {
    static const kiln_vta_loop once = {.extent = 1};
    kiln_vta_folded f = {.outer = c->outer == NO_LOOP ? once : nest->loop[c->outer],
                         .inner = c->inner == NO_LOOP ? once : nest->loop[c->inner],
                         .uop_count = 1,
                         .uop = KILN_ARENA_ARRAY(arena, kiln_vta_uop, c->uops)};
    f.uop[0] = nest->base;
    /* If the order is free, loops that do not move the accumulator are the outer ones, so that the
     * others lie between two of its uses. */
    for (uint32_t pass = any_order ? 0 : 1; pass < 2; pass++)
        for (uint32_t i = 0; i < nest->loop_count; i++) {
            const bool stays = any_order && nest->loop[i].step.dst == 0;
            if (i != c->outer && i != c->inner && stays == (pass == 0))
                write_out(&f, &nest->loop[i]);
        }
    return f;
}

/* ---- distance of uses of an accumulator -------------------------------------------------------
 */

/* Whether operation `v` reads in some round what operation `u` wrote `out` and `in` rounds of the
 * loops before; both of `of` are steps of one tile's number. */
static bool meets(const kiln_vta_folded *f, uint32_t u, uint32_t v, int64_t out, int64_t in) {
    const bool there =
        out < f->outer.extent && in < f->inner.extent && -in < (int64_t)f->inner.extent;
    return there && (int64_t)f->uop[v].dst - f->uop[u].dst + out * f->outer.step.dst +
                            in * f->inner.step.dst ==
                        0;
}

/* Whether a dst comes again less than `distance` operations later. */
static bool repeats_early(const kiln_vta_folded *f, uint32_t distance) {
    const uint32_t uops = f->uop_count, rounds = f->inner.extent;
    for (uint32_t u = 0; u < uops; u++)
        for (uint32_t later = 1; later < distance; later++) {
            const uint32_t v = (u + later) % uops, passed = (u + later) / uops;
            const int64_t out = passed / rounds, in = passed % rounds;
            if (meets(f, u, v, out, in)) return true;
            if (in && meets(f, u, v, out + 1, in - rounds)) return true;
        }
    return false;
}

/* The same for sources, which may be any results: simulated. */
static bool reads_early(const kiln_vta_folded *f, const kiln_vta_fold_rules *rules,
                        kiln_arena *arena) {
    uint64_t *readable = KILN_ARENA_ARRAY(arena, uint64_t, rules->tiles.dst); /* first operation
                                                                               * that may read it */
    uint64_t now = 0;
    for (uint32_t i = 0; i < f->outer.extent; i++)
        for (uint32_t j = 0; j < f->inner.extent; j++)
            for (uint32_t k = 0; k < f->uop_count; k++, now++) {
                const kiln_vta_uop *at = &f->uop[k];
                if (readable[at->src + i * f->outer.step.src + j * f->inner.step.src] > now)
                    return true;
                readable[at->dst + i * f->outer.step.dst + j * f->inner.step.dst] =
                    now + rules->distance;
            }
    return false;
}

/* `first` overwrites in the first round of the loops that do not move the accumulator, so those
 * must be the instruction's loops. */
static bool overwrites_twice(const kiln_vta_nest *nest, const choice *c) {
    kiln_vta_nest moving = *nest;
    for (uint32_t i = nest->loop_count; i-- > 0;) {
        if (nest->loop[i].step.dst) continue;
        if (i != c->outer && i != c->inner) return true;
        remove_loop(&moving, i);
    }
    return !kiln_vta_nest_is_injective(&moving);
}

/* ---- the whole ------------------------------------------------------------------------------- */

kiln_status kiln_vta_fold(const kiln_vta_nest *nest, const kiln_vta_fold_rules *rules,
                          kiln_arena *arena, kiln_vta_folded *out_folded) {
    kiln_vta_nest n = *nest;
    kiln_status st = check_nest(nest, rules);
    if (st) return st;
    simplify(&n, rules->any_order);
    split_long_loops(&n);
    choice c, before;
    bool overwrites = false, early = false;
    for (bool any = next_choice(&n, rules, NULL, &c); any;
         before = c, any = next_choice(&n, rules, &before, &c)) {
        if (c.uops > rules->uops_max) {
            if (overwrites || early) break;
            return KILN_ERROR(RESOURCE_EXHAUSTED,
                              "a kernel needs %llu micro-ops; the machine holds %u",
                              (unsigned long long)c.uops, rules->uops_max);
        }
        if (rules->overwrites_first && overwrites_twice(&n, &c)) {
            overwrites = true;
            continue;
        }
        const kiln_vta_folded f = folded_by(&n, &c, rules->any_order, arena);
        if (repeats_early(&f, rules->distance) ||
            (rules->reads_sources && reads_early(&f, rules, arena))) {
            early = true;
            continue;
        }
        *out_folded = f;
        return KILN_OK;
    }
    if (early)
        return KILN_ERROR(
            FAILED_PRECONDITION,
            "a kernel reads an accumulator less than %u operations after it wrote it; "
            "let it work on more of them in turn",
            rules->distance);
    return KILN_ERROR(FAILED_PRECONDITION,
                      "a gemm with `first` would overwrite an accumulator twice; reset it instead");
}
