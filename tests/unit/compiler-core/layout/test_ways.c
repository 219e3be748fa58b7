/* Default schedules as ways, on their own layouts and on those of others. */
#include "compiler-core/layout/ways.h"

#include "compiler-core/ir/eval.h"
#include "compiler-core/passes/pass.h"
#include "compiler-core/rules/space.h"
#include "tests/unit/compiler-core/graph/support.h"

#define BLOCKED "d0,d1/8,d2,d3,d1%8"
#define WEIGHTS "constant w: f32[16,16,3,3] = hash \"00112233445566778899aabbccddeeff\"\n"

typedef struct fixture {
    kiln_target target;
    kiln_plan plan;
    kiln_ways *list;
} fixture;

static fixture made_for(kiln_arena *arena, const char *target, const char *text,
                        double measured_ns) {
    fixture f = {0};
    kiln_graph *graph = graph_of(arena, text);
    expect_ok(kiln_pass_run(KILN_PASS_FUSE, graph));
    expect_ok(kiln_plan_create(graph, arena, &f.plan));
    expect_ok(kiln_target_parse(kiln_str_from(target), arena, &f.target));
    f.list = KILN_ARENA_ARRAY(arena, kiln_ways, f.plan.tasks.count);
    if (measured_ns > 0) {
        kiln_way way = {.cost_ns = measured_ns,
                        .median_ns = measured_ns,
                        .layout = KILN_ARENA_ARRAY(arena, kiln_layout, 8)};
        kiln_ways_add(&f.list[0], &f.plan.tasks.task[0], &way, arena);
    }
    const kiln_ways_maker maker = {.target = &f.target, .arena = arena};
    expect_ok(kiln_ways_add_defaults(&f.plan, &maker, f.list));
    return f;
}

static fixture made_of(kiln_arena *arena, const char *text, double measured_ns) {
    return made_for(arena, "x86-64-v3", text, measured_ns);
}

/* How many ways of the task have this layout in that argument. */
static uint32_t count_on(const fixture *f, uint32_t task, uint32_t arg, const char *text) {
    kiln_layout layout;
    uint32_t count = 0;
    expect_ok(kiln_layout_parse(kiln_str_from(text), 4, &layout));
    for (uint32_t i = 0; i < f->list[task].way.count; i++)
        count += kiln_layout_equal(&f->list[task].way.data[i].layout[arg], &layout);
    return count;
}

/* The trace replays on the task as it is, and its program has the layouts that the way
 * names. */
static void expect_true_layouts(kiln_arena *arena, const fixture *f, uint32_t task) {
    for (uint32_t i = 0; i < f->list[task].way.count; i++) {
        const kiln_way *way = &f->list[task].way.data[i];
        kiln_trace trace;
        kiln_program *program;
        if (way->median_ns > 0) continue;
        expect_ok(kiln_trace_decode(way->trace, arena, &trace));
        expect_ok(
            kiln_trace_replay(&trace, f->plan.tasks.task[task].te, NULL, arena, &program, NULL));
        kiln_arg_buffers arg = kiln_program_args(program);
        for (uint32_t a = 0; a < arg.count; a++)
            if (program->buffer.data[arg.buffer[a]].role != KILN_ROLE_CONSTANT)
                assert_true(kiln_layout_equal(&program->buffer.data[arg.buffer[a]].layout,
                                              &way->layout[a]));
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

static void equal_layouts_are_one_way(void **state) {
    fixture f = made_of(*state, CONCAT, 0);
    uint32_t before = f.list[1].way.count;
    kiln_ways_add(&f.list[1], &f.plan.tasks.task[1], &f.list[1].way.data[0], *state);
    assert_int_equal(f.list[1].way.count, before);
}

/* Writers go by vectors of outputs, readers by steps of their reduction: both arrive at the same
 * blocks, also where a vector does not divide the channels. */
static void writers_and_readers_prefer_the_same_blocks(void **state) {
    static const struct {
        const char *target;
        int channels;
        const char *layout;
    } row[] = {
        {"x86-64", 24, "d0,d1/4,d2,d3,d1%4"},      {"x86-64-v2", 24, "d0,d1/4,d2,d3,d1%4"},
        {"x86-64-v3", 24, "d0,d1/8,d2,d3,d1%8"},   {"x86-64-v3", 20, "d0,d1/4,d2,d3,d1%4"},
        {"x86-64-v4", 32, "d0,d1/16,d2,d3,d1%16"}, {"x86-64-v4", 24, "d0,d1/8,d2,d3,d1%8"},
        {"x86-64-v4", 40, "d0,d1/8,d2,d3,d1%8"},   {"x86-64-v4", 20, "d0,d1/4,d2,d3,d1%4"},
        {"x86-64-v4", 30, "d0,d1/30,d2,d3,d1%30"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const int c = row[i].channels;
        const char *text = kiln_arena_printf(
            *state,
            "graph g\ninput x: f32[1,16,9,9]\n"
            "constant w: f32[%d,16,3,3] = hash \"00112233445566778899aabbccddeeff\"\n"
            "constant v: f32[64,%d,1,1] = hash \"10112233445566778899aabbccddeeff\"\n"
            "a: f32[1,%d,9,9] = conv(x, w) pads=[1,1,1,1]\nb: f32[1,64,9,9] = conv(a, v)\n"
            "output b\n",
            c, c, c);
        fixture f = made_for(*state, row[i].target, text, 0);
        assert_int_equal(f.plan.tasks.count, 2);
        assert_int_equal(count_on(&f, 0, 2, row[i].layout), 1);
        assert_int_equal(count_on(&f, 1, 0, row[i].layout), 1);
        expect_true_layouts(*state, &f, 0);
        expect_true_layouts(*state, &f, 1);
    }
}

/* 16 and 24 channels have blocks of 8 in common, whatever the kernel of 16 channels prefers. */
static void what_is_joined_is_offered_the_blocks_of_its_neighbours(void **state) {
    const char *text = "graph g\ninput x: f32[1,16,9,9]\n"
                       "constant u: f32[16,16,3,3] = hash \"00112233445566778899aabbccddeeff\"\n"
                       "constant v: f32[24,16,3,3] = hash \"10112233445566778899aabbccddeeff\"\n"
                       "a: f32[1,16,9,9] = conv(x, u) pads=[1,1,1,1]\n"
                       "b: f32[1,24,9,9] = conv(x, v) pads=[1,1,1,1]\n"
                       "c: f32[1,40,9,9] = concat(a, b) axis=1\noutput c\n";
    fixture f = made_for(*state, "x86-64-v4", text, 0);
    assert_int_equal(count_on(&f, 0, 2, "d0,d1/16,d2,d3,d1%16"), 1);
    for (uint32_t task = 0; task < 3; task++) {
        assert_true(count_on(&f, task, 2, BLOCKED) > 0);
        expect_true_layouts(*state, &f, task);
    }
    assert_true(f.list[0].way.data[0].cost_ns < f.list[0].way.data[1].cost_ns);
}

/* The device has no schedule for floats; both have one for integers. */
static void kernels_of_a_partial_target_are_its_hosts_too(void **state) {
    fixture f = made_for(*state, "null,integers,host=x86-64-v3",
                         "graph g\ninput x: f32[8]\na: f32[8] = exp(x)\n"
                         "input k: i32[8]\nb: i32[8] = cum_sum(k) axis=[0]\noutput a\noutput b\n",
                         0);
    assert_int_equal(f.list[0].way.count, 1);
    assert_true(f.list[0].way.data[0].on_host);
    assert_int_equal(f.list[1].way.count, 2);
    assert_false(f.list[1].way.data[0].on_host);
    assert_true(f.list[1].way.data[1].on_host);
    assert_true(f.list[1].way.data[1].cost_ns > f.list[1].way.data[0].cost_ns);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(kernels_of_a_partial_target_are_its_hosts_too),
        test_with_arena(what_only_moves_data_is_offered_the_blocks_of_others),
        test_with_arena(what_reuses_data_keeps_the_layouts_of_its_schedule),
        test_with_arena(an_argument_that_blocks_would_pad_stays_row_major),
        test_with_arena(what_was_not_measured_is_dearer_than_what_was),
        test_with_arena(equal_layouts_are_one_way),
        test_with_arena(writers_and_readers_prefer_the_same_blocks),
        test_with_arena(what_is_joined_is_offered_the_blocks_of_its_neighbours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
