#include "tests/unit/compiler-core/graph/support.h"

/* A line of a program inside of a graph's text. */
#define LINE "\\x0a"
#define X23 "input x: f32[2,3]"
#define HEAD "program p" LINE "input a: f32[2,3]" LINE

static void it_computes_what_its_program_says(void **state) {
    expect_op(*state, X23,
              "y: f32[2] = expression(x) program=\"" HEAD "output b: f32[2]" LINE
              "block b(i:2 | k:3): b[i] max= a[i, k]*2.0 init 7.0" LINE "\"",
              "f32[2]: 7 12");
    expect_op(*state, X23 "\ninput s: f32[2]",
              "y: f32[2,3] = expression(x, s) program=\"program p" LINE "input a: f32[2,3]" LINE
              "constant b: f32[2]" LINE "output c: f32[2,3]" LINE "temp t: f32[2]" LINE
              "block t(i:2): t[i] = b[i] + 1.0" LINE
              "block c(i:2, j:3): c[i, j] = a[i, j] - t[i]" LINE "\"",
              "f32[2,3]: -1 0 1 1 2 3");
}

static void constants_of_one_element_are_written_into_it(void **state) {
    expect_op(*state, X23 "\nconstant s: f32[1] = [10]",
              "y: f32[2,3] = expression(x, s) program=\"" HEAD "input b: f32[1]" LINE
              "output c: f32[2,3]" LINE "block c(i:2, j:3): c[i, j] = a[i, j] + b[0]" LINE "\"",
              "f32[2,3]: 11 12 13 14 15 16");
}

static void outputs_that_nobody_wants_are_inside(void **state) {
    expect_op(*state, X23,
              "_, y: f32[2,3] = expression(x) program=\"" HEAD "output b: f32[2,3]" LINE
              "output c: f32[2,3]" LINE "block b(i:2, j:3): b[i, j] = a[i, j] + 1.0" LINE
              "block c(i:2, j:3): c[i, j] = b[i, j]*2.0" LINE "\"",
              "f32[2,3]: 4 6 8 10 12 14");
}

static void what_is_no_expression_of_the_operands_is_refused(void **state) {
    static const struct {
        const char *lines, *says;
    } wrong[] = {
        {"", "1 inputs and 0 outputs, the node 1 and 1"},
        {"output b: f32[2]" LINE, "no block computes 'b'"},
        {"output b: f32[2]" LINE "block b(i:2): b[i] = a[i, 3]" LINE, "the dimension is 3"},
        {"output b: f32[2]" LINE "block b(i:2): b[i] = a[i]" LINE,
         "4:26: the buffer has 2 dimensions"},
        {"input c: f32[2]" LINE "output b: f32[2]" LINE "block b(i:2): b[i] = c[i]" LINE,
         "input 1 is not 'c', a f32[2]"},
        {"output b: f32[2] layout(d0/2,d0%2)" LINE "block b(i:2): b[i] = a[i, 0]" LINE,
         "leave its attributes out"},
        {"output b: f32[2]" LINE "temp t: f32[2] scope(register)" LINE
         "block t(i:2): t[i] = a[i, 0]" LINE "block b(i:2): b[i] = t[i]" LINE,
         "leave its attributes out"},
        {"output b: f32[2]" LINE "block b(i:2): b[i] = a[i, 0]" LINE "loops:" LINE
         "  for i in 2:" LINE "    block b(i=i)" LINE,
         "it has loops"},
    };
    for (uint32_t i = 0; i < KILN_ARRAY_COUNT(wrong); i++)
        expect_op_refused(*state, X23,
                          kiln_arena_printf(*state,
                                            "y: f32[2] = expression(x) program=\"" HEAD "%s\"",
                                            wrong[i].lines),
                          wrong[i].says);
    expect_op_refused(*state, "input x: i32[2,3]",
                      "y: f32[2] = expression(x) program=\"" HEAD "output b: f32[2]" LINE
                      "block b(i:2): b[i] = a[i, 0]" LINE "\"",
                      "input 0 is not 'a', a f32[2,3]");
    expect_op_refused(*state, X23, "y: f32[2] = expression(x)", "program");
}

static void with_wide_its_floats_are_doubles(void **state) {
    expect_op(*state, "input x: f64[2,3]",
              "y: f64[2] = expression(x) wide=1 program=\"" HEAD "output b: f32[2]" LINE
              "temp t: f16[2,3]" LINE "block t(i:2, j:3): t[i, j] = f16(a[i, j]*0.1)" LINE
              "block b(i:2 | k:3): b[i] sum= tf32(f32(t[i, k])) + f32(k)" LINE "\"",
              "f64[2]: 3.6 4.5");
    expect_op_refused(*state, X23,
                      "y: f64[2] = expression(x) wide=1 program=\"" HEAD "output b: f32[2]" LINE
                      "block b(i:2): b[i] = a[i, 0]" LINE "\"",
                      "input 0 is not 'a', a f64[2,3]");
}

static void it_travels_in_bytes(void **state) {
    sent_and_read(*state,
                  graph_of(*state, "graph g\n" X23 "\ny: f32[2] = expression(x) program=\"" HEAD
                                   "output b: f32[2]" LINE "block b(i:2): b[i] = a[i, 2]" LINE
                                   "\"\noutput y\n"));
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(it_computes_what_its_program_says),
        test_with_arena(constants_of_one_element_are_written_into_it),
        test_with_arena(outputs_that_nobody_wants_are_inside),
        test_with_arena(what_is_no_expression_of_the_operands_is_refused),
        test_with_arena(with_wide_its_floats_are_doubles),
        test_with_arena(it_travels_in_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
