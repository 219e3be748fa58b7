/* The assignment over a graph against every assignment there is. */
#include "compiler-core/layout/assign.h"

#include "base/rand.h"
#include "compiler-core/ir/eval.h"
#include "tests/unit/compiler-core/graph/support.h"

#define WAYS 3
#define STEPS_MAX 16

static const char *const layout_text[WAYS] = {"row", "d0,d1/8,d2,d3,d1%8", "d0,d1/16,d2,d3,d1%16"};

/* A block with a shortcut, an alias, and two outputs. */
#define NETWORK                                                                        \
    "graph network\ninput x: f32[1,16,4,4]\na: f32[1,16,4,4] = relu(x)\n"              \
    "b: f32[1,16,4,4] = exp(a)\nc: f32[1,16,4,4] = add(b, a)\n"                        \
    "d: f32[1,256] = flatten(c)\ne: f32[1,256] = neg(d)\nf: f32[1,16,4,4] = tanh(c)\n" \
    "output e\noutput f\n"

typedef struct fixture {
    kiln_graph *graph;
    kiln_plan plan;
    kiln_ways *list;
    double per_element;
} fixture;

static double conversion_ns(void *context, kiln_value value, const kiln_layout *from,
                            const kiln_layout *to) {
    const fixture *f = context;
    return (double)(value + from->piece_count +
                    (uint64_t)(to->piece_count ? to->piece[1].divisor : 0)) *
           f->per_element;
}

/* Every task on every combination of layouts of its first input and its output, at random times. */
static fixture network(kiln_arena *arena, uint64_t seed) {
    kiln_rand rand;
    kiln_rand_init(&rand, seed);
    fixture f = {.graph = graph_of(arena, NETWORK),
                 .per_element = (double)kiln_rand_below(&rand, 8)};
    expect_ok(kiln_plan_create(f.graph, arena, &f.plan));
    f.list = KILN_ARENA_ARRAY(arena, kiln_ways, f.plan.tasks.count);
    for (uint32_t t = 0; t < f.plan.tasks.count; t++) {
        kiln_arg_buffers arg = kiln_program_args(f.plan.tasks.task[t].te);
        uint32_t rank = f.plan.tasks.task[t].te->buffer.data[arg.buffer[0]].shape.rank;
        for (uint32_t in = 0; in < (rank == 4 ? WAYS : 1); in++) {
            for (uint32_t out = 0; out < (rank == 4 ? WAYS : 1); out++) {
                kiln_way way = {.layout = KILN_ARENA_ARRAY(arena, kiln_layout, arg.count),
                                .cost_ns = (double)kiln_rand_below(&rand, 100)};
                expect_ok(kiln_layout_parse(kiln_str_from(layout_text[in]), rank, &way.layout[0]));
                expect_ok(kiln_layout_parse(kiln_str_from(layout_text[out]), rank,
                                            &way.layout[arg.count - 1]));
                kiln_ways_add(&f.list[t], &f.plan.tasks.task[t], &way, arena);
            }
        }
    }
    return f;
}

/* Step by step, as a module would run it. */
static double time_of(fixture *f, const kiln_assignment *a, const uint32_t *way) {
    static const kiln_layout row;
    kiln_layout layout[64];
    double total = 0;
    kiln_layout_of_values(a, way, layout);
    for (uint32_t s = 0; s < f->plan.step_count; s++) {
        const kiln_step *step = &f->plan.step[s];
        if (step->kind == KILN_STEP_ALIAS) {
            if (!kiln_layout_equal(&layout[step->arg[0]], &row))
                total += conversion_ns(f, step->arg[0], &layout[step->arg[0]], &row);
            continue;
        }
        const kiln_way *taken = &f->list[step->task].way.data[way[s]];
        total += taken->cost_ns;
        for (uint32_t i = 0; i + 1 < step->arg_count; i++)
            if (!kiln_layout_equal(&layout[step->arg[i]], &taken->layout[i]))
                total += conversion_ns(f, step->arg[i], &layout[step->arg[i]], &taken->layout[i]);
    }
    for (uint32_t i = 0; i < f->graph->output.count; i++) {
        kiln_value v = f->graph->output.data[i];
        if (!kiln_layout_equal(&layout[v], &row)) total += conversion_ns(f, v, &layout[v], &row);
    }
    return total;
}

static double least_time(fixture *f, const kiln_assignment *a) {
    uint32_t way[STEPS_MAX] = {0}, at = 0;
    double best = time_of(f, a, way);
    while (at < f->plan.step_count) {
        for (at = 0; at < f->plan.step_count; at++) {
            bool kernel = f->plan.step[at].kind == KILN_STEP_KERNEL;
            if (kernel && ++way[at] < f->list[f->plan.step[at].task].way.count) break;
            way[at] = 0;
        }
        if (at < f->plan.step_count && time_of(f, a, way) < best) best = time_of(f, a, way);
    }
    return best;
}

/* ---- promises -------------------------------------------------------------------------------- */

static void nothing_is_faster_than_what_is_assigned(void **state) {
    for (uint64_t seed = 0; seed < 4; seed++) {
        fixture f = network(*state, seed);
        const kiln_assignment a = {f.graph, &f.plan, f.list, conversion_ns, NULL, &f};
        uint32_t way[STEPS_MAX];
        double ns = 0;
        assert_true(kiln_layout_assign(&a, *state, way, &ns));
        assert_float_equal(time_of(&f, &a, way), ns, 1e-9);
        assert_float_equal(time_of(&f, &a, way), least_time(&f, &a), 1e-9);
    }
}

static double never(void *context, kiln_value value, const kiln_layout *from,
                    const kiln_layout *to) {
    (void)context, (void)value, (void)from, (void)to;
    fail_msg("a conversion was asked for");
    return 0;
}

/* One element per channel: blocks of channels are row-major. */
static void layouts_with_the_same_places_need_no_conversion(void **state) {
    kiln_graph *graph =
        graph_of(*state, "graph g\ninput x: f32[1,16,1,1]\ny: f32[1,16,1,1] = relu(x)\noutput y\n");
    kiln_plan plan;
    uint32_t way;
    expect_ok(kiln_plan_create(graph, *state, &plan));
    kiln_ways list = {0};
    kiln_way blocked = {.layout = KILN_ARENA_ARRAY(*state, kiln_layout, 2), .cost_ns = 1};
    for (uint32_t i = 0; i < 2; i++)
        expect_ok(kiln_layout_parse(kiln_str_from(layout_text[1]), 4, &blocked.layout[i]));
    kiln_ways_add(&list, &plan.tasks.task[0], &blocked, *state);
    const kiln_assignment a = {graph, &plan, &list, never, NULL, NULL};
    double ns = 0;
    assert_true(kiln_layout_assign(&a, *state, &way, &ns));
    assert_float_equal(ns, 1, 0);
}

static double copy_ns(void *context, kiln_value value) {
    (void)context, (void)value;
    return 10;
}

/* Three kernels in a row, the outer two of which are the host's alone. `saved_ns`: what the device
 * saves of 100 ns of the middle one. */
static void expect_place_of_middle(kiln_arena *arena, double saved_ns, bool on_host) {
    kiln_graph *graph = graph_of(arena, "graph g\ninput x: f32[8]\na: f32[8] = relu(x)\n"
                                        "b: f32[8] = neg(a)\nc: f32[8] = exp(b)\noutput c\n");
    kiln_plan plan;
    expect_ok(kiln_plan_create(graph, arena, &plan));
    kiln_ways list[3] = {0};
    uint32_t way[3];
    for (uint32_t t = 0; t < 3; t++) {
        for (uint32_t host = t != 1; host < 2; host++) {
            const kiln_way made = {.layout = KILN_ARENA_ARRAY(arena, kiln_layout, 2),
                                   .cost_ns = host ? 100 : 100 - saved_ns,
                                   .on_host = host};
            kiln_ways_add(&list[t], &plan.tasks.task[t], &made, arena);
        }
    }
    const kiln_assignment a = {graph, &plan, list, never, copy_ns, NULL};
    double ns = 0;
    assert_true(kiln_layout_assign(&a, arena, way, &ns));
    assert_int_equal(list[1].way.data[way[1]].on_host, on_host);
    assert_true(ns == (on_host ? 300 : 320 - saved_ns));
}

static void a_device_gets_what_is_worth_its_copies(void **state) {
    expect_place_of_middle(*state, 19, true);
    expect_place_of_middle(*state, 21, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(nothing_is_faster_than_what_is_assigned),
        test_with_arena(layouts_with_the_same_places_need_no_conversion),
        test_with_arena(a_device_gets_what_is_worth_its_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
