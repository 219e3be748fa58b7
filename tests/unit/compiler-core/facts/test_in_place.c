/* Which inputs a result may overwrite. */
#include "compiler-core/facts/in_place.h"

#include "compiler-core/ir/eval.h"
#include "compiler-core/ir/ir_text.h"
#include "compiler-core/passes/pass.h"
#include "compiler-core/rules/space.h"
#include "compiler-core/task/task.h"
#include "tests/unit/compiler-core/graph/support.h"

/* Name of the input that the last kernel's default schedule may overwrite; "" when there is none.
 */
static const char *overwritten(kiln_arena *arena, const char *body) {
    kiln_graph *graph = graph_of(
        arena, kiln_arena_printf(arena,
                                 "graph g\ninput x: f32[1,16,6,6]\ninput z: f32[1,16,6,6]\n"
                                 "input v: f32[6]\nconstant w: f32[16,16,3,3] = hash "
                                 "\"00112233445566778899aabbccddeeff\"\n%s",
                                 body));
    kiln_plan plan;
    kiln_target target;
    kiln_space space;
    kiln_trace trace;
    kiln_program *program;
    expect_ok(kiln_pass_run(KILN_PASS_FUSE, graph));
    expect_ok(kiln_plan_create(graph, arena, &plan));
    expect_ok(
        kiln_target_parse(KILN_STR("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3"), arena, &target));
    const kiln_program *te = plan.tasks.task[plan.tasks.count - 1].te;
    expect_ok(kiln_space_create(te, &target, arena, &space));
    expect_ok(kiln_space_default(&space, arena, &trace, &program));
    kiln_arg_buffers arg = kiln_program_args(program);
    kiln_buffer input = kiln_program_in_place(program, arg.buffer[arg.count - 1]);
    return input ? kiln_str_dup(arena, program->buffer.data[input].name) : "";
}

static void elements_that_are_read_where_they_are_written_may_go(void **state) {
    assert_string_equal(overwritten(*state, "y: f32[1,16,6,6] = exp(x)\noutput y\n"), "x0");
    assert_string_equal(overwritten(*state, "y: f32[1,16,6,6] = mul(v, z)\noutput y\n"), "x1");
    assert_string_equal(overwritten(*state, "y: f32[1,16,6,6] = mul(x, x)\noutput y\n"), "x0");
}

static void a_residual_that_is_added_to_a_convolution_may_go(void **state) {
    assert_string_equal(
        overwritten(*state,
                    "a: f32[1,16,6,6] = conv(x, w) pads=[1,1,1,1]\nb: f32[1,16,6,6] = add(a, z)\n"
                    "y: f32[1,16,6,6] = relu(b)\noutput y\n"),
        "x1");
}

static void what_other_elements_need_stays(void **state) {
    assert_string_equal(
        overwritten(*state, "y: f32[1,16,6,6] = conv(x, w) pads=[1,1,1,1]\noutput y\n"), "");
    assert_string_equal(overwritten(*state, "y: f32[1,16,6,6] = softmax(x)\noutput y\n"), "");
    assert_string_equal(
        overwritten(*state, "y: f32[1,16,6,6] = transpose(x) perm=[0,1,3,2]\noutput y\n"), "");
    assert_string_equal(overwritten(*state, "y: f32[1,16,6,6] = cum_sum(x) axis=[3]\noutput y\n"),
                        "");
    assert_string_equal(overwritten(*state, "a: f32[1,16,6,6] = conv(x, w) pads=[1,1,1,1]\n"
                                            "y: f32[1,16,6,6] = add(a, x)\noutput y\n"),
                        "");
}

/* y[i] = x[i] + 64 loads of z + x[7 - i] */
static void an_element_read_behind_64_others_stays(void **state) {
    kiln_arena *arena = *state;
    char *sum = kiln_str_dup(arena, KILN_STR("x[i]"));
    for (uint32_t k = 0; k < 64; k++) sum = kiln_arena_printf(arena, "%s + z[i, %u]", sum, k);
    kiln_program *p = NULL;
    expect_ok(
        kiln_program_parse(kiln_str_from(kiln_arena_printf(
                               arena,
                               "program p\ninput x: f32[8]\ninput z: f32[8,64]\noutput y: f32[8]\n"
                               "block c(i:8): y[i] = %s + x[7 - i]\n",
                               sum)),
                           arena, &p));
    kiln_program_make_loops(p);
    assert_int_equal(kiln_program_in_place(p, kiln_program_find_buffer(p, KILN_STR("y"))), 0);
}

static void other_shapes_and_types_stay(void **state) {
    assert_string_equal(overwritten(*state, "y: i32[1,16,6,6] = cast(x) to=\"i32\"\noutput y\n"),
                        "");
    assert_string_equal(
        overwritten(*state, "y: f32[1,16,6,1] = reduce_sum(x) axes=[3]\noutput y\n"), "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(elements_that_are_read_where_they_are_written_may_go),
        test_with_arena(a_residual_that_is_added_to_a_convolution_may_go),
        test_with_arena(what_other_elements_need_stays),
        test_with_arena(an_element_read_behind_64_others_stays),
        test_with_arena(other_shapes_and_types_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
