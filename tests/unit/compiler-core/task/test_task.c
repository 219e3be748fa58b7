/* Tasks: how a fused graph is cut into kernels, what names them, and what running them gives. */
#include "compiler-core/task/task.h"

#include "compiler-core/graph/op.h"
#include "compiler-core/ir/ir_text.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/graph/support.h"

static kiln_plan plan_of(kiln_arena *arena, const char *text) {
    kiln_plan plan;
    expect_ok(kiln_plan_create(graph_of(arena, text), arena, &plan));
    return plan;
}

static kiln_role role_of(const kiln_task *task, const char *name) {
    kiln_buffer buffer = kiln_program_find_buffer(task->te, kiln_str_from(name));
    if (!buffer) fail_msg("%.*s has no buffer %s", KILN_STR_ARG(task->op), name);
    return task->te->buffer.data[buffer].role;
}

/* ---- cutting --------------------------------------------------------------------------------- */

static void a_group_is_one_kernel(void **state) {
    kiln_plan plan = plan_of(*state, "graph g\ninput x: f32[4]\n"
                                     "a: f32[4] = relu(x) kernel 1\n"
                                     "b: f32[4] = neg(a) kernel 1\n"
                                     "c: f32[4] = exp(b)\noutput c\n");
    assert_int_equal(plan.step_count, 2);
    assert_int_equal(plan.tasks.count, 2);
    expect_str(plan.step[0].op, "relu+neg");
    expect_str(plan.step[1].op, "exp");
    assert_int_equal(role_of(&plan.tasks.task[0], "t2"), KILN_ROLE_TEMP);
    assert_int_equal(role_of(&plan.tasks.task[0], "y1"), KILN_ROLE_OUTPUT);
}

static void a_result_that_others_read_too_leaves_its_kernel(void **state) {
    kiln_plan plan = plan_of(*state, "graph g\ninput x: f32[4]\n"
                                     "a: f32[4] = relu(x) kernel 1\n"
                                     "b: f32[4] = neg(a) kernel 1\n"
                                     "c: f32[4] = exp(a)\noutput b\noutput c\n");
    assert_int_equal(role_of(&plan.tasks.task[0], "y1"), KILN_ROLE_OUTPUT);
    assert_int_equal(role_of(&plan.tasks.task[0], "y2"), KILN_ROLE_OUTPUT);
    plan = plan_of(*state, "graph g\ninput x: f32[4]\n"
                           "a: f32[4] = relu(x) kernel 1\n"
                           "b: f32[4] = neg(a) kernel 1\noutput b\noutput a\n");
    assert_int_equal(role_of(&plan.tasks.task[0], "y1"), KILN_ROLE_OUTPUT);
    assert_int_equal(role_of(&plan.tasks.task[0], "y2"), KILN_ROLE_OUTPUT);
}

static void an_argument_stands_once_inputs_first(void **state) {
    kiln_graph *graph = graph_of(*state, "graph g\ninput x: f32[2]\nconstant w: f32[2] = [1, 2]\n"
                                         "a: f32[2] = mul(w, x) kernel 1\n"
                                         "b: f32[2] = add(a, w) kernel 1\n"
                                         "c: f32[2] = add(b, x) kernel 1\noutput c\noutput c\n");
    kiln_plan plan;
    expect_ok(kiln_plan_create(graph, *state, &plan));
    assert_int_equal(plan.step[0].arg_count, 3);
    static const char *const value[] = {"x", "w", "c"}, *const buffer[] = {"x0", "w1", "y2"};
    static const kiln_role role[] = {KILN_ROLE_INPUT, KILN_ROLE_CONSTANT, KILN_ROLE_OUTPUT};
    for (uint32_t i = 0; i < 3; i++) {
        expect_str(graph->value.data[plan.step[0].arg[i]].name, value[i]);
        assert_int_equal(role_of(&plan.tasks.task[0], buffer[i]), role[i]);
    }
}

/* As graphs are without the pass remove-dead. */
static void results_that_nothing_reads_get_no_kernel(void **state) {
    kiln_plan plan = plan_of(*state, "graph g\ninput x: f32[4]\n"
                                     "a: f32[4] = relu(x)\n"
                                     "b: f32[4] = neg(a)\n"
                                     "c: f32[2, 2] = reshape(b) shape=[2, 2]\n"
                                     "d: f32[4] = exp(a)\noutput d\n");
    assert_int_equal(plan.step_count, 2);
    expect_str(plan.step[0].op, "relu");
    expect_str(plan.step[1].op, "exp");
    assert_int_equal(plan.tasks.count, 2);
}

static void constants_of_one_element_are_literals(void **state) {
    kiln_plan plan = plan_of(*state, "graph g\ninput x: f32[4]\nconstant two: f32[1] = [2]\n"
                                     "y: f32[4] = mul(x, two)\noutput y\n");
    assert_int_equal(plan.step[0].arg_count, 2);
    assert_int_equal(kiln_program_find_buffer(plan.tasks.task[0].te, KILN_STR("w1")), 0);
}

/* Nodes of group 1 stand around one that needs the first and is needed by the last. */
static void steps_run_producers_first(void **state) {
    kiln_plan plan = plan_of(*state, "graph g\ninput x: f32[4]\ninput z: f32[4]\n"
                                     "a: f32[4] = neg(z) kernel 2\n"
                                     "b: f32[4] = exp(x)\n"
                                     "c: f32[4] = add(a, b) kernel 2\noutput c\n");
    assert_int_equal(plan.step_count, 2);
    expect_str(plan.step[0].op, "exp");
    expect_str(plan.step[1].op, "neg+add");
}

static void kernels_that_wait_for_each_other_are_refused(void **state) {
    kiln_plan plan;
    kiln_graph *graph = graph_of(*state, "graph g\ninput x: f32[4]\n"
                                         "a: f32[4] = neg(x) kernel 1\n"
                                         "b: f32[4] = exp(a)\n"
                                         "c: f32[4] = add(a, b) kernel 1\noutput c\n");
    expect_error(kiln_plan_create(graph, *state, &plan), INTERNAL, "wait for each other");
}

static void kernels_with_too_many_arguments_are_refused(void **state) {
    kiln_strbuf text = {0};
    kiln_plan plan;
    kiln_strbuf_text(&text, "graph g\n");
    for (int i = 0; i < KILN_MANIFEST_ARGS_MAX; i++)
        kiln_strbuf_printf(&text, "input x%d: f32[2]\n", i);
    kiln_strbuf_printf(&text, "y: f32[%d] = concat(", 2 * KILN_MANIFEST_ARGS_MAX);
    for (int i = 0; i < KILN_MANIFEST_ARGS_MAX; i++)
        kiln_strbuf_printf(&text, "%sx%d", i ? ", " : "", i);
    kiln_strbuf_text(&text, ") axis=0\noutput y\n");
    kiln_graph *graph = graph_of(*state, text.data);
    kiln_strbuf_deinit(&text);
    expect_error(kiln_plan_create(graph, *state, &plan), RESOURCE_EXHAUSTED, "arguments, at most");
}

static void aliases_are_steps_without_kernels(void **state) {
    kiln_graph *graph = graph_of(*state, "graph g\ninput x: f32[2,3]\n"
                                         "y: f32[1,6] = flatten(x) axis=0\noutput y\n");
    kiln_plan plan;
    expect_ok(kiln_plan_create(graph, *state, &plan));
    assert_int_equal(plan.step_count, 1);
    assert_int_equal(plan.tasks.count, 0);
    assert_int_equal(plan.step[0].kind, KILN_STEP_ALIAS);
    assert_int_equal(plan.step[0].arg[0], graph->input.data[0]);
    assert_int_equal(plan.step[0].arg[1], graph->output.data[0]);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static void equal_computations_are_one_task(void **state) {
    kiln_plan plan = plan_of(*state, "graph g\ninput x: f32[4]\n"
                                     "a: f32[4] = relu(x)\n"
                                     "b: f32[4] = relu(a)\n"
                                     "c: f32[4] = neg(b)\noutput c\n");
    assert_int_equal(plan.step_count, 3);
    assert_int_equal(plan.tasks.count, 2);
    assert_int_equal(plan.step[0].task, plan.step[1].task);
    assert_float_equal(plan.tasks.task[0].weight, 2, 0);
    assert_float_equal(plan.tasks.task[1].weight, 1, 0);
}

/* Databases keep these for years: a change of the text needs a new KILN_TASK_KEY_VERSION. */
static void keys_stay_what_they_were(void **state) {
    static const struct {
        const char *key, *text;
    } row[] = {
        {"v2:6188b4c264f0222c8250a28f3fda1990", "program any\ninput x: f32[4]\noutput y: f32[4]\n"
                                                "block relu(i:4): y[i] = max(x[i], 0.0)\n"},
        {"v2:84d35c8cac2025f61c0eca01a86e2dda",
         "program any\ninput x: f32[6,20]\nconstant w: f32[20,24]\noutput y: f32[6,24]\n"
         "block dense(m:6, n:24 | k:20): y[m, n] sum= x[m, k]*w[k, n]\n"},
        {"v2:1c92ca94107cdaa41e68f59404a3ba74",
         "program any\ninput x: i32[5]\noutput y: i64[1]\n"
         "block count(o:1 | i:5): y[o] sum= i64(x[i]) init 7i64\n"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_program *te = NULL;
        expect_ok(kiln_program_parse(kiln_str_from(row[i].text), *state, &te));
        expect_str(kiln_task_key(te, *state), row[i].key);
    }
}

/* Also the names inside are equal: a trace recorded of the one must fit the other. */
static void keys_forget_names_and_remember_everything_else(void **state) {
    static const char *const text[] = {
        "graph a\ninput x: f32[4,2]\ny: f32[4,2] = relu(x)\noutput y\n",
        "graph b\ninput p: f32[4,2]\nq: f32[4,2] = relu(p) name \"other\"\noutput q\n",
        "graph c\ninput x: f32[2,4]\ny: f32[2,4] = relu(x)\noutput y\n",
        "graph d\ninput x: f64[4,2]\ny: f64[4,2] = relu(x)\noutput y\n",
        "graph e\ninput x: f32[4,2]\ny: f32[4,2] = neg(x)\noutput y\n",
    };
    kiln_str key[KILN_ARRAY_COUNT(text)];
    for (size_t i = 0; i < KILN_ARRAY_COUNT(text); i++)
        key[i] = plan_of(*state, text[i]).tasks.task[0].key;
    assert_true(kiln_str_equal(key[0], key[1]));
    const kiln_hash128 one = kiln_program_hash(plan_of(*state, text[0]).tasks.task[0].te),
                       other = kiln_program_hash(plan_of(*state, text[1]).tasks.task[0].te);
    assert_memory_equal(&one, &other, sizeof one);
    for (size_t i = 2; i < KILN_ARRAY_COUNT(text); i++)
        assert_false(kiln_str_equal(key[0], key[i]));
}

/* ---- running --------------------------------------------------------------------------------- */

/* By the calls that importers use, not by text. */
static void a_graph_made_by_hand_gives_what_a_person_computes(void **state) {
    kiln_graph *graph = kiln_graph_create(*state, KILN_STR("dense"));
    kiln_tensor w = tensor_from(*state, SHAPE(2, 2), FLOATS(1, 2, 3, -4));
    kiln_value x = kiln_graph_add_input(graph, KILN_STR("x"), KILN_F32, SHAPE(1, 2));
    kiln_value weights = kiln_graph_add_constant(graph, KILN_STR("w"), &w);
    kiln_value sum = kiln_graph_add_value(graph, KILN_STR("sum"));
    kiln_value y = kiln_graph_add_value(graph, KILN_STR("y"));
    kiln_node matmul = kiln_graph_add_node(graph, KILN_OP_MATMUL, KILN_STR("matmul"), 2, 1);
    kiln_graph_set_input(graph, matmul, 0, x);
    kiln_graph_set_input(graph, matmul, 1, weights);
    kiln_graph_set_output(graph, matmul, 0, sum);
    kiln_node relu = kiln_graph_add_node(graph, KILN_OP_RELU, KILN_STR("relu"), 1, 1);
    kiln_graph_set_input(graph, relu, 0, sum);
    kiln_graph_set_output(graph, relu, 0, y);
    expect_ok(kiln_node_infer(graph, matmul));
    expect_ok(kiln_node_infer(graph, relu));
    kiln_vec_push_in(graph->arena, &graph->output, y);
    expect_ok(kiln_graph_verify(graph));

    kiln_tensor input = tensor_from(*state, SHAPE(1, 2), FLOATS(1, 2)), output;
    expect_ok(kiln_graph_eval(graph, &input, *state, &output));
    expect_tensor(&output, SHAPE(1, 2), FLOATS(7, 0)); /* 1*1 + 2*3; 1*2 - 2*4 is below 0 */
    graph->node.data[matmul].group = graph->node.data[relu].group = 1;
    expect_ok(kiln_graph_eval(graph, &input, *state, &output));
    expect_tensor(&output, SHAPE(1, 2), FLOATS(7, 0));
}

static void outputs_may_be_inputs_constants_and_each_other(void **state) {
    kiln_graph *graph = graph_of(*state, "graph g\ninput x: f32[2]\nconstant c: f32[2] = [5, 6]\n"
                                         "y: f32[2] = neg(x)\n"
                                         "output y\noutput x\noutput c\noutput y\n");
    kiln_tensor input = tensor_from(*state, SHAPE(2), FLOATS(1, -2)), output[4];
    expect_ok(kiln_graph_eval(graph, &input, *state, output));
    expect_tensor(&output[0], SHAPE(2), FLOATS(-1, 2));
    expect_tensor(&output[1], SHAPE(2), FLOATS(1, -2));
    expect_tensor(&output[2], SHAPE(2), FLOATS(5, 6));
    expect_tensor(&output[3], SHAPE(2), FLOATS(-1, 2));
}

static void aliases_keep_the_elements(void **state) {
    kiln_graph *graph = graph_of(*state, "graph g\ninput x: f32[2,3]\na: f32[2,3] = neg(x)\n"
                                         "y: f32[1,6] = flatten(a) axis=0\noutput y\n");
    kiln_tensor input = tensor_from(*state, SHAPE(2, 3), FLOATS(1, 2, 3, 4, 5, 6)), output;
    expect_ok(kiln_graph_eval(graph, &input, *state, &output));
    expect_tensor(&output, SHAPE(1, 6), FLOATS(-1, -2, -3, -4, -5, -6));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_group_is_one_kernel),
        test_with_arena(a_result_that_others_read_too_leaves_its_kernel),
        test_with_arena(an_argument_stands_once_inputs_first),
        test_with_arena(results_that_nothing_reads_get_no_kernel),
        test_with_arena(constants_of_one_element_are_literals),
        test_with_arena(steps_run_producers_first),
        test_with_arena(kernels_that_wait_for_each_other_are_refused),
        test_with_arena(kernels_with_too_many_arguments_are_refused),
        test_with_arena(aliases_are_steps_without_kernels),
        test_with_arena(equal_computations_are_one_task),
        test_with_arena(keys_stay_what_they_were),
        test_with_arena(keys_forget_names_and_remember_everything_else),
        test_with_arena(a_graph_made_by_hand_gives_what_a_person_computes),
        test_with_arena(outputs_may_be_inputs_constants_and_each_other),
        test_with_arena(aliases_keep_the_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
