/* Default schedules as alternatives, on their own layouts and on those of others. */
#include "compiler-core/layout/alternatives.h"

#include "compiler-core/ir/eval.h"
#include "compiler-core/passes/pass.h"
#include "compiler-core/sched/space.h"
#include "tests/unit/compiler-core/graph/support.h"

#define BLOCKED "d0,d1/8,d2,d3,d1%8"
#define WEIGHTS "constant w: f32[16,16,3,3] = hash \"00112233445566778899aabbccddeeff\"\n"

typedef struct fixture {
    kiln_target target;
    kiln_plan plan;
    kiln_alternatives *list;
} fixture;

static fixture made_of(kiln_arena *arena, const char *text, double measured_ns) {
    fixture f = {0};
    kiln_graph *graph = graph_of(arena, text);
    expect_ok(kiln_pass_run(KILN_PASS_FUSE, graph));
    expect_ok(kiln_plan_create(graph, arena, &f.plan));
    expect_ok(kiln_target_parse(KILN_STR("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3"), arena,
                                &f.target));
    f.list = KILN_ARENA_ARRAY(arena, kiln_alternatives, f.plan.tasks.count);
    if (measured_ns > 0) {
        kiln_alternative way = {.cost_ns = measured_ns,
                                .median_ns = measured_ns,
                                .layout = KILN_ARENA_ARRAY(arena, kiln_layout, 8)};
        kiln_alternatives_add(&f.list[0], &f.plan.tasks.task[0], &way, arena);
    }
    expect_ok(kiln_alternatives_add_defaults(&f.plan, &f.target, arena, f.list));
    return f;
}

/* How many alternatives of the task have this layout in that argument. */
static uint32_t count_on(const fixture *f, uint32_t task, uint32_t arg, const char *text) {
    kiln_layout layout;
    uint32_t count = 0;
    expect_ok(kiln_layout_parse(kiln_str_from(text), 4, &layout));
    for (uint32_t i = 0; i < f->list[task].way.count; i++)
        count += kiln_layout_equal(&f->list[task].way.data[i].layout[arg], &layout);
    return count;
}

/* The trace replays on the task as it is, and its program has the layouts that the alternative
 * names. */
static void expect_true_layouts(kiln_arena *arena, const fixture *f, uint32_t task) {
    for (uint32_t i = 0; i < f->list[task].way.count; i++) {
        const kiln_alternative *way = &f->list[task].way.data[i];
        kiln_trace trace;
        kiln_program *program;
        kiln_buffer arg[KILN_PROGRAM_BUFFERS_MAX];
        if (way->median_ns > 0) continue;
        expect_ok(kiln_trace_decode(way->trace, arena, &trace));
        expect_ok(
            kiln_trace_replay(&trace, f->plan.tasks.task[task].te, NULL, arena, &program, NULL));
        uint32_t count = kiln_program_args(program, arg);
        for (uint32_t a = 0; a < count; a++)
            if (program->buffer.data[arg[a]].role != KILN_ROLE_CONSTANT)
                assert_true(
                    kiln_layout_equal(&program->buffer.data[arg[a]].layout, &way->layout[a]));
    }
}

/* ---- promises -------------------------------------------------------------------------------- */

#define CONCAT                                                                               \
    "graph g\ninput x: f32[1,16,9,9]\n" WEIGHTS                                              \
    "a: f32[1,16,9,9] = conv(x, w) pads=[1,1,1,1]\nb: f32[1,32,9,9] = concat(a, x) axis=1\n" \
    "output b\n"

static void what_only_moves_data_is_offered_the_blocks_of_others(void **state) {
    fixture f = made_of(*state, CONCAT, 0);
    assert_int_equal(f.plan.tasks.count, 2);
    assert_int_equal(f.list[1].way.count, 2);
    for (uint32_t arg = 0; arg < 3; arg++) {
        assert_int_equal(count_on(&f, 1, arg, "row"), 1);
        assert_int_equal(count_on(&f, 1, arg, BLOCKED), 1);
    }
    assert_true(f.list[1].way.data[0].cost_ns < f.list[1].way.data[1].cost_ns);
    expect_true_layouts(*state, &f, 1);
}

static void what_reuses_data_keeps_the_layouts_of_its_schedule(void **state) {
    fixture f = made_of(*state, CONCAT, 0);
    assert_int_equal(f.list[0].way.count, 1);
    assert_true(f.list[0].way.data[0].is_default);
    expect_true_layouts(*state, &f, 0);
}

static void an_argument_that_blocks_would_pad_stays_row_major(void **state) {
    fixture f = made_of(*state,
                        "graph g\ninput x: f32[1,16,9,9]\ninput z: f32[1,4,9,9]\n" WEIGHTS
                        "a: f32[1,16,9,9] = conv(x, w) pads=[1,1,1,1]\n"
                        "b: f32[1,20,9,9] = concat(a, z) axis=1\noutput b\n",
                        0);
    assert_int_equal(count_on(&f, 1, 0, BLOCKED), 1);
    assert_int_equal(count_on(&f, 1, 1, BLOCKED), 0);
    assert_int_equal(count_on(&f, 1, 2, BLOCKED), 0);
    expect_true_layouts(*state, &f, 1);
}

static void what_was_not_measured_is_dearer_than_what_was(void **state) {
    fixture f = made_of(*state, CONCAT, 5000);
    assert_int_equal(f.list[0].way.count, 2);
    assert_true(f.list[0].way.data[1].cost_ns > 5000);
    assert_true(f.list[0].way.data[1].cost_ns < 6000);
}

static void equal_layouts_are_one_alternative(void **state) {
    fixture f = made_of(*state, CONCAT, 0);
    uint32_t before = f.list[1].way.count;
    kiln_alternatives_add(&f.list[1], &f.plan.tasks.task[1], &f.list[1].way.data[0], *state);
    assert_int_equal(f.list[1].way.count, before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(what_only_moves_data_is_offered_the_blocks_of_others),
        test_with_arena(what_reuses_data_keeps_the_layouts_of_its_schedule),
        test_with_arena(an_argument_that_blocks_would_pad_stays_row_major),
        test_with_arena(what_was_not_measured_is_dearer_than_what_was),
        test_with_arena(equal_layouts_are_one_alternative),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
