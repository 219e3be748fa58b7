/* Operators of TFLite that name subgraphs. */
#include "tests/unit/compiler-core/frontend/tflite_support.h"

#include <string.h>

enum { ADD = 0, CONCATENATION = 2, RELU = 19, RNN = 24, CALL = 31, LESS = 58 };
enum { NEG = 59, SLICE = 65, NOT = 87, IF = 118, WHILE = 119 };

static flat_table *graphs(kiln_arena *arena, int first, int second) {
    return flat_int(flat_int(flat_table_of(arena), 0, 4, first), 1, 4, second);
}

/* A subgraph y = x + x, or -x, of two elements. */
static void add_twice(tflite_model *m, bool negative) {
    tflite_tensor(m, T_F32, "a:2", NULL, 0);
    tflite_tensor(m, T_F32, "b:2", NULL, 0);
    if (negative)
        tflite_operator(m, NEG, "0", "1", NULL);
    else
        tflite_operator(m, ADD, "0,0", "1", NULL);
}

static void calls_stand_where_their_operator_does(void **state) {
    tflite_model m = tflite_model_of(*state);
    tflite_tensor(&m, T_F32, "x:2", NULL, 0);
    tflite_tensor(&m, T_F32, "u:2", NULL, 0);
    tflite_tensor(&m, T_F32, "y:2", NULL, 0);
    tflite_operator(&m, CALL, "0", "1", graphs(*state, 1, 0));
    tflite_operator(&m, CALL, "1", "2", graphs(*state, 1, 0));
    tflite_next_subgraph(&m, "0", "1,2");
    add_twice(&m, false);
    expect_tflite(*state, tflite_bytes(&m, "0", "1"), "f32[2]: 2 4; f32[2]: 4 8");
}

/* y = c ? x + x : -x; where `known` is not NULL it is the condition, else it is an input or, with
 * `reverse`, the opposite of it. */
static kiln_str branch_of(kiln_arena *arena, const char *known, bool reverse) {
    tflite_model m = tflite_model_of(arena);
    tflite_tensor(&m, T_F32, "x:2", NULL, 0);
    tflite_tensor(&m, T_BOOL, "c:1", known, known ? 1 : 0);
    tflite_tensor(&m, T_BOOL, "not_c:1", NULL, 0);
    tflite_tensor(&m, T_F32, "y:2", NULL, 0);
    tflite_operator(&m, NOT, "1", "2", NULL);
    tflite_operator(&m, IF, reverse ? "2,0" : "1,0", "3", graphs(arena, 1, 2));
    tflite_next_subgraph(&m, known ? "0" : "0,1", "3");
    add_twice(&m, false);
    tflite_next_subgraph(&m, "0", "1");
    add_twice(&m, true);
    return tflite_bytes(&m, "0", "1");
}

static void branches_are_chosen_by_the_run(void **state) {
    expect_tflite(*state, branch_of(*state, NULL, false), "f32[2]: 2 4");
    expect_tflite(*state, branch_of(*state, NULL, true), "f32[2]: -1 -2");
}

static void a_known_condition_takes_one_branch(void **state) {
    expect_tflite(*state, branch_of(*state, "\1", false), "f32[2]: 2 4");
    expect_tflite(*state, branch_of(*state, "\0", false), "f32[2]: -1 -2");
    assert_null(strstr(text_of_tflite(*state, branch_of(*state, "\1", false)), "neg("));
}

/* While i < 3, from 0 on: i + 1, and a and b change places after a was doubled by a call. */
static kiln_str loop_of(kiln_arena *arena) {
    static const int32_t zero = 0, one = 1, three = 3;
    tflite_model m = tflite_model_of(arena);
    tflite_tensor(&m, T_I32, "i:", &zero, sizeof zero);
    tflite_tensor(&m, T_F32, "a:2", NULL, 0);
    tflite_tensor(&m, T_F32, "b:2", NULL, 0);
    tflite_tensor(&m, T_I32, "i.end:", NULL, 0);
    tflite_tensor(&m, T_F32, "a.end:2", NULL, 0);
    tflite_tensor(&m, T_F32, "b.end:2", NULL, 0);
    tflite_operator(&m, WHILE, "0,1,2", "3,4,5", graphs(arena, 1, 2));
    tflite_next_subgraph(&m, "1,2", "3,4,5");
    tflite_tensor(&m, T_I32, "i:", NULL, 0);
    tflite_tensor(&m, T_F32, "a:2", NULL, 0);
    tflite_tensor(&m, T_F32, "b:2", NULL, 0);
    tflite_tensor(&m, T_I32, "end:", &three, sizeof three);
    tflite_tensor(&m, T_BOOL, "go:", NULL, 0);
    tflite_operator(&m, LESS, "0,3", "4", NULL);
    tflite_next_subgraph(&m, "0,1,2", "4");
    tflite_tensor(&m, T_I32, "i:", NULL, 0);
    tflite_tensor(&m, T_F32, "a:2", NULL, 0);
    tflite_tensor(&m, T_F32, "b:2", NULL, 0);
    tflite_tensor(&m, T_I32, "one:", &one, sizeof one);
    tflite_tensor(&m, T_I32, "next:", NULL, 0);
    tflite_tensor(&m, T_F32, "twice:2", NULL, 0);
    tflite_operator(&m, ADD, "0,3", "4", NULL);
    tflite_operator(&m, CALL, "1", "5", graphs(arena, 3, 0));
    tflite_next_subgraph(&m, "0,1,2", "4,2,5");
    add_twice(&m, false);
    return tflite_bytes(&m, "0", "1");
}

/* a b, then b 2a, then 2a 2b, then 2b 4a. */
static void loops_stay_loops(void **state) {
    const kiln_str bytes = loop_of(*state);
    expect_tflite(*state, bytes, "i32[]: 3; f32[2]: 2 4; f32[2]: 4 8");
    assert_int_equal(count_loops(import_tflite(*state, bytes)), 1);
}

/* ---- places that only the run knows ---------------------------------------------------------- */

/* While i < 3, from 0 on: row i of l becomes x, then x is doubled, as converters write it: the
 * rows before it, it, and those behind it are joined; not `as_row`: in another order. */
static kiln_str rows_of(kiln_arena *arena, bool as_row) {
    static const int32_t zero = 0, one = 1, three = 3, whole[] = {-1, -1}, first[] = {0, 0};
    static const float list[6] = {0};
    tflite_model m = tflite_model_of(arena);
    tflite_tensor(&m, T_I32, "i:1", &zero, sizeof zero);
    tflite_tensor(&m, T_F32, "l:3,2", list, sizeof list);
    tflite_tensor(&m, T_F32, "x:1,2", NULL, 0);
    tflite_tensor(&m, T_I32, "i.end:1", NULL, 0);
    tflite_tensor(&m, T_F32, "l.end:3,2", NULL, 0);
    tflite_tensor(&m, T_F32, "x.end:1,2", NULL, 0);
    tflite_operator(&m, WHILE, "0,1,2", "3,4,5", graphs(arena, 1, 2));
    tflite_next_subgraph(&m, "2", "4,5");
    tflite_tensor(&m, T_I32, "i:1", NULL, 0);
    tflite_tensor(&m, T_F32, "l:3,2", NULL, 0);
    tflite_tensor(&m, T_F32, "x:1,2", NULL, 0);
    tflite_tensor(&m, T_I32, "end:1", &three, sizeof three);
    tflite_tensor(&m, T_BOOL, "go:1", NULL, 0);
    tflite_operator(&m, LESS, "0,3", "4", NULL);
    tflite_next_subgraph(&m, "0,1,2", "4");
    tflite_tensor(&m, T_I32, "i:1", NULL, 0);
    tflite_tensor(&m, T_F32, "l:3,2", NULL, 0);
    tflite_tensor(&m, T_F32, "x:1,2", NULL, 0);
    tflite_tensor(&m, T_I32, "one:1", &one, sizeof one);
    tflite_tensor(&m, T_I32, "next:1", NULL, 0);
    tflite_tensor(&m, T_F32, "twice:1,2", NULL, 0);
    tflite_tensor(&m, T_I32, "all:1", whole, sizeof *whole);
    tflite_tensor(&m, T_I32, "sizes:2", NULL, 0);
    tflite_tensor(&m, T_I32, "none:1", first, sizeof *first);
    tflite_tensor(&m, T_I32, "begins:2", NULL, 0);
    tflite_tensor(&m, T_I32, "zeros:2", first, sizeof first);
    tflite_tensor(&m, T_I32, "wholes:2", whole, sizeof whole);
    tflite_tensor(&m, T_F32, "front:1,1", NULL, 0);
    tflite_tensor(&m, T_F32, "back:1,2", NULL, 0);
    tflite_tensor(&m, T_F32, "set:3,2", NULL, 0);
    tflite_operator(&m, ADD, "0,3", "4", NULL);
    tflite_operator(&m, ADD, "2,2", "5", NULL);
    tflite_operator(&m, CONCATENATION, "0,6", "7", NULL);
    tflite_operator(&m, CONCATENATION, "4,8", "9", NULL);
    tflite_operator(&m, SLICE, "1,10,7", "12", NULL);
    tflite_operator(&m, SLICE, "1,9,11", "13", NULL);
    tflite_operator(&m, CONCATENATION, as_row ? "12,2,13" : "12,13,2", "14", NULL);
    return tflite_bytes(&m, "0,1,2", "4,14,5");
}

static void rows_of_lists_are_set_in_loops(void **state) {
    expect_tflite(*state, rows_of(*state, true), "f32[3,2]: 1 2 2 4 4 8; f32[1,2]: 8 16");
    expect_tflite_refused(*state, rows_of(*state, false), KILN_UNIMPLEMENTED,
                          "tensor \"front\" has a size that only the run knows");
}

/* i = 1: the row and the column behind the first. */
static void slices_may_begin_where_the_run_says(void **state) {
    static const int32_t zero = 0, row[] = {1, 2}, column[] = {3, 1};
    static const float list[] = {1, 2, 3, 4, 5, 6};
    for (int by_column = 0; by_column < 2; by_column++) {
        tflite_model m = tflite_model_of(*state);
        tflite_tensor(&m, T_I32, "i:1", NULL, 0);
        tflite_tensor(&m, T_F32, "l:3,2", list, sizeof list);
        tflite_tensor(&m, T_I32, "none:1", &zero, sizeof zero);
        tflite_tensor(&m, T_I32, "begins:2", NULL, 0);
        tflite_tensor(&m, T_I32, "sizes:2", by_column ? column : row, sizeof row);
        tflite_tensor(&m, T_F32, by_column ? "y:3,1" : "y:1,2", NULL, 0);
        tflite_operator(&m, CONCATENATION, by_column ? "2,0" : "0,2", "3", NULL);
        tflite_operator(&m, SLICE, "1,3,4", "5", NULL);
        expect_tflite(*state, tflite_bytes(&m, "0", "5"),
                      by_column ? "f32[3,1]: 2 4 6" : "f32[1,2]: 3 4");
    }
}

/* ---- refused --------------------------------------------------------------------------------- */

/* y = subgraph `number` of x, and a subgraph 1 of `number_inside`, one operator. */
static tflite_model call_of(kiln_arena *arena, int number, int number_inside) {
    tflite_model m = tflite_model_of(arena);
    tflite_tensor(&m, T_F32, "x:2", NULL, 0);
    tflite_tensor(&m, T_F32, "y:2", NULL, 0);
    tflite_operator(&m, CALL, "0", "1", graphs(arena, number, 0));
    tflite_next_subgraph(&m, "0", "1");
    tflite_tensor(&m, T_F32, "a:2", NULL, 0);
    tflite_tensor(&m, T_F32, "b:2", NULL, 0);
    tflite_operator(&m, number_inside, "0", "1", graphs(arena, 1, 0));
    return m;
}

static void subgraphs_must_be_there_and_end(void **state) {
    tflite_model m = call_of(*state, 7, RELU);
    expect_tflite_refused(*state, tflite_bytes(&m, "0", "1"), KILN_INVALID_ARGUMENT,
                          "operator 0 (CALL): there is no subgraph 7 of 2");
    m = call_of(*state, 1, CALL);
    expect_tflite_refused(*state, tflite_bytes(&m, "0", "1"), KILN_UNIMPLEMENTED,
                          "subgraphs nested more than 16 deep");
}

/* Each calls the next one ten times: a thousand bytes for ten billion calls. */
static void subgraphs_that_multiply_are_refused(void **state) {
    tflite_model m = tflite_model_of(*state);
    tflite_tensor(&m, T_F32, "x:2", NULL, 0);
    const char *ports = "0";
    for (int graph = 1; graph <= 10; graph++) {
        for (int i = 0; i < 10; i++) tflite_operator(&m, CALL, "", "", graphs(*state, graph, 0));
        tflite_next_subgraph(&m, ports, ports);
        ports = "";
    }
    expect_tflite_refused(*state, tflite_bytes(&m, "", ""), KILN_OUT_OF_RANGE,
                          "subgraphs take more memory than is allowed");
}

static void operands_must_be_those_of_the_subgraph(void **state) {
    tflite_model m = call_of(*state, 1, RELU);
    expect_tflite_refused(*state, tflite_bytes(&m, "0,1", "1"), KILN_INVALID_ARGUMENT,
                          "subgraph 1: it has 2 inputs and 1 outputs instead of 1 and 1");
    m = call_of(*state, 1, RELU);
    tflite_tensor(&m, T_I32, "c:2", NULL, 0);
    expect_tflite_refused(*state, tflite_bytes(&m, "2", "1"), KILN_INVALID_ARGUMENT,
                          "its input \"c\" is i32, and is given f32");
    m = call_of(*state, 1, RELU);
    expect_tflite_refused(*state, tflite_bytes(&m, "9", "1"), KILN_INVALID_ARGUMENT,
                          "subgraph 1: an input is tensor 9 of 2");
}

static void what_a_subgraph_has_is_listed_with_the_rest(void **state) {
    tflite_model m = call_of(*state, 1, RNN);
    expect_tflite_refused(*state, tflite_bytes(&m, "0", "1"), KILN_UNIMPLEMENTED, "operator RNN");
    m = call_of(*state, 1, RELU);
    flat_int(tflite_tensor(&m, T_F32, "v:2", NULL, 0), 5, 1, 1);
    tflite_operator(&m, RELU, "2", "1", NULL);
    tflite_tensor(&m, T_F32, "z:2", NULL, 0);
    tflite_operator(&m, RELU, "2", "3", NULL);
    expect_tflite_refused(*state, tflite_bytes(&m, "0", "3"), KILN_UNIMPLEMENTED,
                          "subgraph 1, operator 1 (RELU): tensor \"v\": a variable of a subgraph");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(calls_stand_where_their_operator_does),
        test_with_arena(branches_are_chosen_by_the_run),
        test_with_arena(a_known_condition_takes_one_branch),
        test_with_arena(loops_stay_loops),
        test_with_arena(rows_of_lists_are_set_in_loops),
        test_with_arena(slices_may_begin_where_the_run_says),
        test_with_arena(subgraphs_must_be_there_and_end),
        test_with_arena(subgraphs_that_multiply_are_refused),
        test_with_arena(operands_must_be_those_of_the_subgraph),
        test_with_arena(what_a_subgraph_has_is_listed_with_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
