/* Plans with joins, and which joins make the whole fastest. */
#include "compiler-core/layout/joined.h"

#include "base/rand.h"
#include "tests/unit/compiler-core/graph/support.h"

#define KERNELS 5u
#define LISTS_MAX 16u

/* Softmaxes in a row, each another task; any two or three neighbours may be one kernel. */
typedef struct fixture {
    kiln_arena *arena;
    kiln_graph *graph;
    kiln_plan base, whole;
    kiln_joins joins;
    kiln_ways list[LISTS_MAX]; /* [tasks of whole] */
} fixture;

static void fixture_of(fixture *f, kiln_arena *arena, const char *text) {
    const kiln_target target = {.l2_bytes = 1u << 20};
    const bool none[LISTS_MAX] = {false};
    *f = (fixture){.arena = arena, .graph = graph_of(arena, text)};
    expect_ok(kiln_plan_create(f->graph, arena, &f->base));
    expect_ok(kiln_joins_find(f->graph, &f->base, &target, arena, &f->joins));
    f->whole = kiln_joined_plan(&f->base, &f->joins, none, arena);
    assert_true(f->whole.tasks.count <= LISTS_MAX);
}

static void softmaxes(fixture *f, kiln_arena *arena) {
    fixture_of(f, arena,
               "graph g\ninput x: f32[2,3,4,5,6,7]\na: f32[2,3,4,5,6,7] = softmax(x) axis=1\n"
               "b: f32[2,3,4,5,6,7] = softmax(a) axis=2\nc: f32[2,3,4,5,6,7] = softmax(b) axis=3\n"
               "d: f32[2,3,4,5,6,7] = softmax(c) axis=4\ne: f32[2,3,4,5,6,7] = softmax(d) axis=5\n"
               "output e\n");
    assert_int_equal(f->base.step_count, KERNELS);
    assert_int_equal(f->joins.count, 4 + 3);
}

static void set_ns(fixture *f, uint32_t task, double ns) {
    const kiln_way way = {
        .layout = KILN_ARENA_ARRAY(f->arena, kiln_layout, 2), .cost_ns = ns, .median_ns = ns};
    f->list[task] = (kiln_ways){0};
    kiln_ways_add(&f->list[task], &f->whole.tasks.task[task], &way, f->arena);
}

static double never(void *context, kiln_value value, const kiln_layout *from,
                    const kiln_layout *to) {
    (void)context, (void)value, (void)from, (void)to;
    fail_msg("a conversion was asked for");
    return 0;
}

static double time_of(const fixture *f, const bool *joined) {
    const kiln_plan plan = kiln_joined_plan(&f->base, &f->joins, joined, f->arena);
    double ns = 0;
    for (uint32_t s = 0; s < plan.step_count; s++)
        ns += f->list[plan.step[s].task].way.data[0].cost_ns;
    return ns;
}

static double choose(const fixture *f, bool *out_joined) {
    const kiln_assignment a = {f->graph, &f->whole, f->list, never, NULL, NULL};
    kiln_joined_choose(&a, &f->joins, f->arena, out_joined);
    return time_of(f, out_joined);
}

/* ---- plans ----------------------------------------------------------------------------------- */

static void a_join_takes_the_place_of_its_last_kernel(void **state) {
    fixture f;
    softmaxes(&f, *state);
    for (uint32_t j = 0; j < f.joins.count; j++) {
        bool joined[LISTS_MAX] = {false};
        const kiln_join *join = &f.joins.join[j];
        const uint32_t first = join->row.step[0];
        joined[j] = true;
        const kiln_plan plan = kiln_joined_plan(&f.base, &f.joins, joined, *state);
        assert_int_equal(plan.step_count, KERNELS + 1 - join->row.count);
        assert_int_equal(plan.step[first].task, f.base.tasks.count + join->step.task);
        kiln_value passed = f.graph->input.data[0];
        for (uint32_t s = 0; s < plan.step_count; s++) {
            assert_int_equal(plan.step[s].arg[0], passed);
            passed = plan.step[s].arg[1];
        }
        assert_int_equal(passed, f.graph->output.data[0]);
    }
}

/* ---- choices --------------------------------------------------------------------------------- */

static void joins_that_do_not_overlap_are_chosen_together(void **state) {
    fixture f;
    bool joined[LISTS_MAX] = {false};
    softmaxes(&f, *state);
    for (uint32_t t = 0; t < KERNELS; t++) set_ns(&f, t, 100);
    for (uint32_t j = 0; j < f.joins.count; j++) {
        const kiln_step_row *row = &f.joins.join[j].row;
        const bool pair = row->count == 2 && (row->step[0] == 0 || row->step[0] == 3);
        set_ns(&f, KERNELS + f.joins.join[j].step.task, pair ? 150 : 100.0 * row->count + 1);
    }
    assert_float_equal(choose(&f, joined), 400, 0);
}

static void what_is_chosen_is_never_slower_and_mostly_best(void **state) {
    uint32_t best_count = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        fixture f;
        bool joined[LISTS_MAX] = {false}, tried[LISTS_MAX] = {false};
        kiln_rand rand;
        softmaxes(&f, *state);
        kiln_rand_init(&rand, seed);
        for (uint32_t t = 0; t < KERNELS; t++) set_ns(&f, t, 100);
        for (uint32_t j = 0; j < f.joins.count; j++)
            set_ns(&f, KERNELS + f.joins.join[j].step.task,
                   f.joins.join[j].row.count * (60.0 + (double)kiln_rand_below(&rand, 60)));
        double best = time_of(&f, tried);
        for (uint32_t bits = 1; bits < 1u << f.joins.count; bits++) {
            uint32_t taken = 0; /* bits of steps */
            bool overlap = false;
            for (uint32_t j = 0; j < f.joins.count; j++) {
                tried[j] = bits >> j & 1;
                for (uint32_t k = 0; tried[j] && k < f.joins.join[j].row.count; k++) {
                    const uint32_t step = 1u << f.joins.join[j].row.step[k];
                    overlap = overlap || taken & step;
                    taken |= step;
                }
            }
            if (!overlap && time_of(&f, tried) < best) best = time_of(&f, tried);
        }
        const double chosen = choose(&f, joined);
        assert_true(chosen <= 100 * KERNELS && chosen <= 1.1 * best);
        best_count += chosen <= 1.02 * best;
    }
    assert_true(best_count >= 15);
}

static void a_join_without_a_way_is_not_tried(void **state) {
    fixture f;
    bool joined[LISTS_MAX] = {false};
    softmaxes(&f, *state);
    for (uint32_t t = 0; t < KERNELS; t++) set_ns(&f, t, 100);
    set_ns(&f, KERNELS + f.joins.join[0].step.task, 99);
    assert_float_equal(choose(&f, joined), 399, 0);
    for (uint32_t j = 0; j < f.joins.count; j++) assert_int_equal(joined[j], j == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_join_takes_the_place_of_its_last_kernel),
        test_with_arena(joins_that_do_not_overlap_are_chosen_together),
        test_with_arena(what_is_chosen_is_never_slower_and_mostly_best),
        test_with_arena(a_join_without_a_way_is_not_tried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
