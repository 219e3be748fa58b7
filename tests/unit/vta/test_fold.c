#include "vta/fold.h"

#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "tests/support/test.h"

#define NESTS 4000u

static uint32_t below(kiln_rand *r, uint32_t bound) { return (uint32_t)kiln_rand_below(r, bound); }

/* Few tiles and small steps, so that accumulators come again. */
static kiln_vta_nest random_nest(kiln_rand *r) {
    kiln_vta_nest n = {.base = {below(r, 4), below(r, 4), below(r, 4)}, .loop_count = below(r, 6)};
    for (uint32_t i = 0; i < n.loop_count; i++) {
        const uint32_t step[] = {0, 0, 1, 1 + below(r, 8)};
        n.loop[i].extent = 1 + below(r, 5);
        n.loop[i].step = (kiln_vta_uop){step[below(r, 4)], step[below(r, 4)], step[below(r, 4)]};
    }
    return n;
}

static kiln_vta_fold_rules random_rules(kiln_rand *r) {
    return (kiln_vta_fold_rules){.tiles = {200, 200, 200},
                                 .uops_max = 1 + below(r, 40),
                                 .distance = 1 + below(r, 12),
                                 .reads_sources = below(r, 2),
                                 .any_order = below(r, 2),
                                 .overwrites_first = below(r, 4) == 0};
}

static kiln_vta_uop moved(kiln_vta_uop at, const kiln_vta_loop *loop, uint32_t rounds) {
    return (kiln_vta_uop){at.dst + rounds * loop->step.dst, at.src + rounds * loop->step.src,
                          at.wgt + rounds * loop->step.wgt};
}

/* The nest's operations in order; returns how many. */
static uint32_t run_nest(const kiln_vta_nest *n, uint32_t depth, kiln_vta_uop at,
                         kiln_vta_uop *out) {
    if (depth == n->loop_count) {
        *out = at;
        return 1;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < n->loop[depth].extent; i++)
        count += run_nest(n, depth + 1, moved(at, &n->loop[depth], i), out + count);
    return count;
}

static uint32_t run_folded(const kiln_vta_folded *f, kiln_vta_uop *out) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->outer.extent; i++)
        for (uint32_t j = 0; j < f->inner.extent; j++)
            for (uint32_t k = 0; k < f->uop_count; k++)
                out[count++] = moved(moved(f->uop[k], &f->outer, i), &f->inner, j);
    return count;
}

static bool reads_too_early(const kiln_vta_uop *op, uint32_t count, const kiln_vta_fold_rules *r) {
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = i + 1; k < count && k - i < r->distance; k++)
            if (op[k].dst == op[i].dst || (r->reads_sources && op[k].src == op[i].dst)) return true;
    return false;
}

/* Whether `first` overwrites each accumulator once, and nothing comes to it before. */
static bool overwrites_once(const kiln_vta_folded *f) {
    bool there[200] = {false};
    for (uint32_t i = 0; i < f->outer.extent; i++)
        for (uint32_t j = 0; j < f->inner.extent; j++)
            for (uint32_t k = 0; k < f->uop_count; k++) {
                const uint32_t dst = moved(moved(f->uop[k], &f->outer, i), &f->inner, j).dst;
                const bool over = (f->outer.step.dst || i == 0) && (f->inner.step.dst || j == 0);
                if (over == there[dst]) return false;
                there[dst] = true;
            }
    return true;
}

static int compare_uops(const void *a, const void *b) { return memcmp(a, b, sizeof(kiln_vta_uop)); }

static void the_instruction_does_what_the_nest_does(void **state) {
    kiln_rand r;
    kiln_rand_init(&r, 1);
    static kiln_vta_uop wanted[3125], got[3125];
    uint32_t folded = 0, kept = 0, first = 0;
    for (uint32_t n = 0; n < NESTS; n++) {
        const kiln_vta_nest nest = random_nest(&r);
        const kiln_vta_fold_rules rules = random_rules(&r);
        kiln_vta_folded f;
        kiln_arena_reset(*state);
        kiln_status st = kiln_vta_fold(&nest, &rules, *state, &f);
        if (st) {
            kiln_status_free(st);
            continue;
        }
        const uint32_t count = run_nest(&nest, 0, nest.base, wanted);
        assert_int_equal(run_folded(&f, got), count);
        assert_true(f.uop_count <= rules.uops_max);
        assert_false(reads_too_early(got, count, &rules));
        if (rules.overwrites_first) assert_true(overwrites_once(&f));
        if (rules.any_order) {
            qsort(wanted, count, sizeof *wanted, compare_uops);
            qsort(got, count, sizeof *got, compare_uops);
        }
        assert_memory_equal(wanted, got, sizeof *got * count);
        folded++;
        kept += !rules.any_order;
        first += rules.overwrites_first;
    }
    assert_true(folded > NESTS / 4);
    assert_true(kept > NESTS / 20 && first > NESTS / 50);
}

/* With these two loops as the instruction's and the others written out in the order of the nest. */
static bool could_be(const kiln_vta_nest *nest, uint32_t outer, uint32_t inner,
                     const kiln_vta_fold_rules *rules, uint32_t *out_uops) {
    static kiln_vta_uop uop[3125], all[3125];
    const kiln_vta_loop once = {.extent = 1};
    kiln_vta_nest rest = {.base = nest->base};
    for (uint32_t i = 0; i < nest->loop_count; i++)
        if (i != outer && i != inner) rest.loop[rest.loop_count++] = nest->loop[i];
    const kiln_vta_folded f = {.outer = outer < nest->loop_count ? nest->loop[outer] : once,
                               .inner = inner < nest->loop_count ? nest->loop[inner] : once,
                               .uop_count = run_nest(&rest, 0, rest.base, uop),
                               .uop = uop};
    *out_uops = f.uop_count;
    return f.uop_count <= rules->uops_max && !reads_too_early(all, run_folded(&f, all), rules) &&
           (!rules->overwrites_first || overwrites_once(&f));
}

/* Whether it can be seen from the steps that accumulators are overwritten once. */
static bool may_overwrite(const kiln_vta_nest *nest) {
    kiln_vta_nest moving = {.base = nest->base};
    for (uint32_t i = 0; i < nest->loop_count; i++)
        if (nest->loop[i].step.dst) moving.loop[moving.loop_count++] = nest->loop[i];
    return kiln_vta_nest_is_injective(&moving);
}

/* In any order, no choice of two loops has fewer micro-ops, and what is refused has none. */
static void no_other_two_loops_are_better(void **state) {
    kiln_rand r;
    kiln_rand_init(&r, 2);
    uint32_t refused = 0;
    for (uint32_t n = 0; n < NESTS / 4; n++) {
        const kiln_vta_nest nest = random_nest(&r);
        kiln_vta_fold_rules rules = random_rules(&r);
        rules.any_order = true; /* and so no source is a result */
        rules.reads_sources = false;
        rules.overwrites_first &= may_overwrite(&nest);
        kiln_vta_folded f = {0};
        kiln_status st = kiln_vta_fold(&nest, &rules, *state, &f);
        for (uint32_t o = 0; o <= nest.loop_count; o++)
            for (uint32_t i = 0; i <= nest.loop_count; i++) {
                uint32_t uops;
                if ((o == i && o < nest.loop_count) || !could_be(&nest, o, i, &rules, &uops))
                    continue;
                if (st) fail_msg("nest %u: %s", n, kiln_status_text(st));
                assert_true(f.uop_count <= uops);
            }
        refused += st != NULL;
        kiln_status_free(st);
        kiln_arena_reset(*state);
    }
    assert_true(refused > NESTS / 40);
}

static kiln_vta_loop loop_of(uint32_t extent, uint32_t dst, uint32_t src, uint32_t wgt) {
    return (kiln_vta_loop){extent, {dst, src, wgt}};
}

/* A convolution of 3x3 over 4 x 14 positions, 4 tiles in, 2 out. */
static void a_convolution_takes_the_longest_loops_that_the_pipeline_allows(void **state) {
    const kiln_vta_nest nest = {.loop_count = 6,
                                .loop = {loop_of(2, 56, 0, 36), loop_of(4, 0, 96, 9),
                                         loop_of(3, 0, 16, 3), loop_of(3, 0, 1, 1),
                                         loop_of(4, 14, 16, 0), loop_of(14, 1, 1, 0)}};
    kiln_vta_fold_rules rules = {
        .tiles = {2048, 2048, 1024}, .uops_max = 2048, .distance = 8, .any_order = true};
    kiln_vta_folded f;
    expect_ok(kiln_vta_fold(&nest, &rules, *state, &f));
    /* 14 columns and 4 tiles in: 2 tiles out of 4 rows, 8 accumulators, lie between two uses. */
    assert_int_equal(f.uop_count, 72);
    assert_int_equal(f.outer.extent * f.inner.extent, 56);
    rules.distance = 11; /* the columns must lie between, so loops of 4 are the longest others */
    expect_ok(kiln_vta_fold(&nest, &rules, *state, &f));
    assert_int_equal(f.uop_count, 252);
    assert_int_equal(f.outer.extent * f.inner.extent, 16);
    rules.any_order = false; /* then the first two stay where they are */
    expect_ok(kiln_vta_fold(&nest, &rules, *state, &f));
    assert_int_equal(f.uop_count, 504);
    assert_int_equal(f.outer.extent, 2);
}

static void loops_that_are_one_become_one(void **state) {
    const kiln_vta_fold_rules rules = {.tiles = {65536, 1, 1}, .uops_max = 4, .distance = 4};
    kiln_vta_nest nest = {.loop_count = 4,
                          .loop = {loop_of(1, 7, 7, 7), loop_of(3, 12, 0, 0), loop_of(4, 3, 0, 0),
                                   loop_of(3, 1, 0, 0)}};
    kiln_vta_folded f;
    expect_ok(kiln_vta_fold(&nest, &rules, *state, &f));
    assert_int_equal(f.uop_count, 1);
    assert_int_equal(f.outer.extent, 36);
    /* And one that is longer than an instruction's becomes two. */
    nest = (kiln_vta_nest){.loop_count = 1, .loop = {loop_of(65536, 1, 0, 0)}};
    expect_ok(kiln_vta_fold(&nest, &rules, *state, &f));
    assert_int_equal(f.uop_count, 1);
    assert_int_equal(f.outer.extent * f.inner.extent, 65536);
    assert_int_equal(f.outer.step.dst, f.inner.extent);
}

static void what_cannot_be_is_refused_by_name(void **state) {
    const kiln_vta_fold_rules rules = {
        .tiles = {16, 8, 4}, .uops_max = 8, .distance = 4, .any_order = true};
    kiln_vta_folded f;
    kiln_vta_nest nest = {.loop_count = 9};
    expect_error(kiln_vta_fold(&nest, &rules, *state, &f), INVALID_ARGUMENT, "9 loops");
    nest = (kiln_vta_nest){.loop_count = 1};
    expect_error(kiln_vta_fold(&nest, &rules, *state, &f), INVALID_ARGUMENT, "no rounds");
    nest.loop[0] = loop_of(17, 1, 0, 0);
    expect_error(kiln_vta_fold(&nest, &rules, *state, &f), OUT_OF_RANGE, "result tile 16");
    nest.loop[0] = loop_of(3, 1, 4, 0);
    expect_error(kiln_vta_fold(&nest, &rules, *state, &f), OUT_OF_RANGE, "source tile 8");
    nest.loop[0] = loop_of(2, 1, 0, UINT32_MAX);
    expect_error(kiln_vta_fold(&nest, &rules, *state, &f), OUT_OF_RANGE, "weight tile");
    nest = (kiln_vta_nest){.loop_count = 3,
                           .loop = {loop_of(9, 1, 0, 0), loop_of(9, 0, 0, 0), loop_of(9, 0, 0, 0)}};
    nest.loop[1].step.src = 0;
    nest.loop[2].step.wgt = 0;
    kiln_vta_fold_rules few = rules;
    few.any_order = false;
    few.uops_max = 0;
    expect_error(kiln_vta_fold(&nest, &few, *state, &f), RESOURCE_EXHAUSTED, "1 micro-ops");
    nest = (kiln_vta_nest){.loop_count = 1, .loop = {loop_of(3, 0, 1, 0)}};
    expect_error(kiln_vta_fold(&nest, &rules, *state, &f), FAILED_PRECONDITION,
                 "less than 4 operations");
    kiln_vta_fold_rules first = rules;
    first.overwrites_first = true;
    first.distance = 1;
    nest = (kiln_vta_nest){.loop_count = 2, .loop = {loop_of(3, 1, 1, 0), loop_of(2, 1, 0, 1)}};
    expect_error(kiln_vta_fold(&nest, &first, *state, &f), FAILED_PRECONDITION, "overwrite");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(the_instruction_does_what_the_nest_does),
        test_with_arena(no_other_two_loops_are_better),
        test_with_arena(a_convolution_takes_the_longest_loops_that_the_pipeline_allows),
        test_with_arena(loops_that_are_one_become_one),
        test_with_arena(what_cannot_be_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
