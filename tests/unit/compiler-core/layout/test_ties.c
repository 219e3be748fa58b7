/* What two choices have apart, and what of it hangs together. */
#include "compiler-core/layout/ties.h"

#include <string.h>

#include "tests/unit/compiler-core/graph/support.h"

/* Three kernels, each a task: softmax cannot be fused with what follows it. */
#define CHAIN                                \
    "graph chain\n"                          \
    "input x: f32[1,16,8,8]\n"               \
    "a: f32[1,16,8,8] = softmax(x) axis=1\n" \
    "b: f32[1,16,8,8] = softmax(a) axis=2\n" \
    "c: f32[1,16,8,8] = softmax(b) axis=3\n" \
    "output c\n"

typedef struct fixture {
    kiln_arena *arena;
    kiln_compilation *c;
    const kiln_way **before;
    kiln_ties ties;
} fixture;

static const kiln_way **copy_of(const fixture *f) {
    const kiln_way **way = KILN_ARENA_ARRAY(f->arena, const kiln_way *, f->c->plan.step_count);
    for (uint32_t s = 0; s < f->c->plan.step_count; s++) {
        kiln_way *copy = KILN_ARENA_NEW(f->arena, kiln_way);
        *copy = *f->c->way[s];
        copy->layout = KILN_ARENA_ARRAY(f->arena, kiln_layout, 2);
        memcpy(copy->layout, f->c->way[s]->layout, 2 * sizeof(kiln_layout));
        way[s] = copy;
    }
    return way;
}

static fixture chain(kiln_arena *arena) {
    fixture f = {.arena = arena};
    kiln_target target;
    expect_ok(
        kiln_target_parse(KILN_STR("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3"), arena, &target));
    expect_ok(kiln_compilation_of_model(graph_of(arena, CHAIN), &target, &(kiln_accuracy){0}, arena,
                                        &f.c));
    assert_int_equal(f.c->plan.step_count, 3);
    f.before = copy_of(&f);
    f.c->way = copy_of(&f);
    return f;
}

static void block(const fixture *f, uint32_t step, uint32_t arg) {
    expect_ok(kiln_layout_parse(KILN_STR("d0,d1/8,d2,d3,d1%8"), 4,
                                &((kiln_way *)(uintptr_t)f->c->way[step])->layout[arg]));
}

static void reschedule(const fixture *f, uint32_t step) {
    ((kiln_way *)(uintptr_t)f->c->way[step])->trace = KILN_STR("another");
}

static uint32_t value(const fixture *f, const char *name) {
    return f->ties.value[kiln_graph_find_value(f->c->graph, kiln_str_from(name))];
}

static void expect_tasks(fixture *f, uint32_t a, uint32_t b, uint32_t c) {
    const uint32_t expected[] = {a, b, c};
    kiln_ties_find(f->c, &(kiln_chosen){f->c->plan, f->before}, f->arena, &f->ties);
    for (uint32_t s = 0; s < 3; s++)
        assert_int_equal(f->ties.task[f->c->plan.step[s].task], expected[s]);
    assert_int_equal(f->ties.count, KILN_MAX(KILN_MAX(a, b), c));
}

static void equal_choices_have_nothing_apart(void **state) {
    fixture f = chain(*state);
    expect_tasks(&f, 0, 0, 0);
}

static void other_schedules_stand_alone(void **state) {
    fixture f = chain(*state);
    reschedule(&f, 0);
    reschedule(&f, 1);
    expect_tasks(&f, 1, 2, 0);
    assert_int_equal(value(&f, "a"), 0);
}

static void a_layout_ties_those_that_pass_it_on(void **state) {
    fixture f = chain(*state);
    reschedule(&f, 0);
    block(&f, 1, 1);
    block(&f, 2, 0);
    expect_tasks(&f, 1, 2, 2);
    assert_int_equal(value(&f, "b"), 2);
    assert_int_equal(value(&f, "a"), 0);
}

static void ties_go_on_from_value_to_value(void **state) {
    fixture f = chain(*state);
    block(&f, 1, 1);
    block(&f, 2, 0);
    block(&f, 0, 1);
    block(&f, 1, 0);
    expect_tasks(&f, 1, 1, 1);
}

/* The reader keeps its layout: a conversion stands between, which goes with the writer. */
static void a_conversion_unties(void **state) {
    fixture f = chain(*state);
    block(&f, 0, 1);
    expect_tasks(&f, 1, 0, 0);
    assert_int_equal(value(&f, "a"), 1);
}

/* ---- kernels that became one ------------------------------------------------------------------
 */

/* A way that costs so much, on row-major arguments. */
static kiln_status measured(void *context, const kiln_task *task, kiln_arena *arena,
                            kiln_ways *list) {
    const double *joined_ns = context;
    const bool joined = strchr(kiln_str_dup(arena, task->op), '+') != NULL;
    const kiln_way way = {.trace = KILN_STR("measured"),
                          .layout = KILN_ARENA_ARRAY(arena, kiln_layout, 4),
                          .cost_ns = joined ? *joined_ns : 100,
                          .median_ns = 100};
    kiln_ways_add(list, task, &way, arena);
    return KILN_OK;
}

/* matmul and softmax were two kernels and are one, or the other way round; another matmul stays. */
static void a_join_is_tied_to_what_it_stands_for(void **state) {
    kiln_target target;
    kiln_compilation *c = NULL;
    expect_ok(kiln_target_parse(KILN_STR("x86-64-v3"), *state, &target));
    expect_ok(kiln_compilation_of_model(
        graph_of(*state, "graph g\ninput x: f32[8,4]\ninput w: f32[4,8]\ninput v: f32[2,8]\n"
                         "a: f32[8,8] = matmul(x, w)\nb: f32[8,8] = softmax(a)\n"
                         "d: f32[2,4] = matmul(v, x)\noutput b\noutput d\n"),
        &target, &(kiln_accuracy){0}, *state, &c));
    for (int joins = 0; joins < 2; joins++) {
        double joined_ns[] = {joins ? 300 : 100, joins ? 100 : 300};
        kiln_choice choice = {.measured = measured, .context = &joined_ns[0]};
        expect_ok(kiln_compilation_choose(c, &choice));
        const kiln_chosen before = {c->plan, c->way};
        choice.context = &joined_ns[1];
        expect_ok(kiln_compilation_choose(c, &choice));
        const kiln_plan *one = joins ? &c->plan : &before.plan;
        const kiln_plan *two = joins ? &before.plan : &c->plan;
        assert_int_equal(one->step_count, 2);
        assert_int_equal(two->step_count, 3);
        kiln_ties ties;
        kiln_ties_find(c, &before, *state, &ties);
        assert_int_equal(ties.count, 1);
        const uint32_t *now = ties.task, *old = ties.before;
        for (uint32_t t = 0; t < c->plan.tasks.count; t++)
            assert_int_equal(now[t],
                             !kiln_str_is(c->plan.tasks.task[t].op, "matmul") ||
                                 c->plan.tasks.task[t].te->buffer.data[1].shape.dim[0] == 8);
        for (uint32_t t = 0; t < before.plan.tasks.count; t++)
            assert_int_equal(old[t],
                             !kiln_str_is(before.plan.tasks.task[t].op, "matmul") ||
                                 before.plan.tasks.task[t].te->buffer.data[1].shape.dim[0] == 8);
        assert_int_equal(ties.value[kiln_graph_find_value(c->graph, KILN_STR("a"))], 1);
        assert_int_equal(ties.value[kiln_graph_find_value(c->graph, KILN_STR("d"))], 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(equal_choices_have_nothing_apart),
        test_with_arena(other_schedules_stand_alone),
        test_with_arena(a_layout_ties_those_that_pass_it_on),
        test_with_arena(ties_go_on_from_value_to_value),
        test_with_arena(a_conversion_unties),
        test_with_arena(a_join_is_tied_to_what_it_stands_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
