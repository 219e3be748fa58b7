#include "compiler-core/graph/graph_codec.h"

#include <stdio.h>
#include <string.h>

#include "compiler-core/graph/graph_text.h"
#include "tests/unit/compiler-core/graph/support.h"

static const char small_graph[] = "graph net\n"
                                  "input x: f32[1,3]\n"
                                  "constant w: f32[3,2] = [1, 2, 3, 4, 5, 6]\n"
                                  "constant b: f32[2] = [1, -0.5]\n"
                                  "m: f32[1,2] = matmul(x, w) name \"m1\" kernel 1\n"
                                  "a: f32[1,2] = add(m, b) kernel 1\n"
                                  "s: f32[1,1] = slice(a) axes=[1] starts=[0] ends=[1]\n"
                                  "c: i32[1,1] = cast(s) to=\"i32\"\n"
                                  "l: f32[1,2] = leaky_relu(a) alpha=0.25\n"
                                  "output c\n"
                                  "output l\n";

static kiln_graph *decoded(kiln_arena *arena, kiln_str bytes) {
    kiln_graph *graph = NULL;
    expect_ok(kiln_graph_decode(bytes, arena, &graph));
    return graph;
}

static char *text_of(kiln_arena *arena, const kiln_graph *graph) {
    kiln_strbuf text = {0};
    kiln_graph_print(graph, &text);
    char *copy = kiln_str_dup(arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return copy;
}

static void a_graph_comes_back_as_it_was(void **state) {
    kiln_graph *graph = graph_of(*state, small_graph);
    graph->given_bytes = 32;
    kiln_str bytes = bytes_of_graph(*state, graph);
    kiln_graph *again = decoded(*state, bytes);
    assert_string_equal(text_of(*state, again), small_graph);
    assert_int_equal(again->given_bytes, 32);
    assert_true(kiln_str_equal(bytes_of_graph(*state, again), bytes));
}

static void what_nothing_uses_is_left_out(void **state) {
    kiln_graph *graph = graph_of(*state, small_graph), *more = graph_of(*state, small_graph);
    kiln_graph_add_value(more, KILN_STR("nobody's"));
    kiln_node node = kiln_graph_add_node(more, KILN_OP_RELU, KILN_STR("gone"), 1, 1);
    kiln_graph_set_input(more, node, 0, more->input.data[0]);
    kiln_graph_set_output(more, node, 0, kiln_graph_add_value(more, KILN_STR("r")));
    kiln_graph_remove_node(more, node);
    assert_true(kiln_str_equal(bytes_of_graph(*state, graph), bytes_of_graph(*state, more)));
}

static void equal_constants_lie_there_once_and_are_not_copied(void **state) {
    kiln_str bytes = bytes_of_graph(*state, graph_of(*state, "graph g\ninput x: f32[2]\n"
                                                             "constant a: f32[2] = [1, 2]\n"
                                                             "constant b: f32[2] = [1, 2]\n"
                                                             "constant c: f32[2] = [1, 3]\n"
                                                             "y: f32[2] = add(x, a)\n"
                                                             "z: f32[2] = add(y, b)\n"
                                                             "u: f32[2] = add(z, c)\noutput u\n"));
    kiln_graph *again = decoded(*state, bytes);
    const char *a = again->value.data[kiln_graph_find_value(again, KILN_STR("a"))].data,
               *b = again->value.data[kiln_graph_find_value(again, KILN_STR("b"))].data,
               *c = again->value.data[kiln_graph_find_value(again, KILN_STR("c"))].data;
    assert_ptr_equal(a, b);
    assert_ptr_equal(a + KILN_GRAPH_DATA_ALIGNMENT, c);
    assert_true(a > bytes.data && c < bytes.data + bytes.size);
}

static void bytes_at_any_address_can_be_read(void **state) {
    kiln_str bytes = bytes_of_graph(*state, graph_of(*state, small_graph));
    char *shifted = kiln_arena_alloc_aligned(*state, KILN_GRAPH_DATA_ALIGNMENT, bytes.size + 1);
    memcpy(shifted + 1, bytes.data, bytes.size);
    kiln_graph *again = decoded(*state, (kiln_str){shifted + 1, bytes.size});
    assert_string_equal(text_of(*state, again), small_graph);
    for (kiln_value v = 1; v < again->value.count; v++)
        assert_int_equal((uintptr_t)again->value.data[v].data % KILN_GRAPH_DATA_ALIGNMENT, 0);
}

static void bytes_that_end_early_are_refused_at_every_place(void **state) {
    kiln_str bytes = bytes_of_graph(*state, graph_of(*state, small_graph));
    for (size_t size = 0; size < bytes.size; size++) {
        kiln_graph *graph = NULL;
        expect_error(kiln_graph_decode((kiln_str){bytes.data, size}, *state, &graph), DATA_LOSS,
                     "bytes of a graph");
        assert_null(graph);
    }
    char *longer = kiln_arena_alloc_aligned(*state, KILN_GRAPH_DATA_ALIGNMENT, bytes.size + 64);
    kiln_graph *graph = NULL;
    memcpy(longer, bytes.data, bytes.size);
    memset(longer + bytes.size, 0, 64);
    expect_error(kiln_graph_decode((kiln_str){longer, bytes.size + 64}, *state, &graph), DATA_LOSS,
                 "64 bytes too many");
}

/* A graph whose bytes are changed at the first place where `from` stands. */
static void expect_damage(kiln_arena *arena, const char *from, const char *to, size_t size,
                          kiln_code code, const char *needle) {
    kiln_str bytes = bytes_of_graph(arena, graph_of(arena, small_graph));
    kiln_graph *graph = NULL;
    char *at = memmem(bytes.data, bytes.size, from, size);
    assert_non_null(at);
    memcpy(at, to, size);
    kiln_status st = kiln_graph_decode(bytes, arena, &graph);
    assert_int_equal(kiln_status_code(st), code);
    expect_contains(kiln_status_text(st), needle);
    kiln_status_free(st);
}

static void damage_is_named(void **state) {
    expect_damage(*state, "kilngrph", "kilngrap", 8, KILN_DATA_LOSS, "does not begin as one");
    expect_damage(*state, "kilngrph\1", "kilngrph\2", 9, KILN_UNIMPLEMENTED, "of version 2");
    expect_damage(*state, "matmul", "matmuk", 6, KILN_UNIMPLEMENTED,
                  "node 1: \"m1\": operator matmuk is not known");
    expect_damage(*state, "alpha", "alphb", 5, KILN_UNIMPLEMENTED, "attribute alphb is not known");
    /* [name, dtype, dims, data]: of w */
    const char unknown[] = {'\x94', '\xa1', 'w', KILN_DTYPE_COUNT, '\x92', '\x03', '\x02'};
    char text[64];
    snprintf(text, sizeof text, "value 2: %d where less than %d are known", KILN_DTYPE_COUNT,
             KILN_DTYPE_COUNT);
    expect_damage(*state, "\x94\xa1w\x01\x92\x03\x02", unknown, sizeof unknown, KILN_DATA_LOSS,
                  text);
    expect_damage(*state, "\x94\xa1w\x01\x92\x03\x02", "\x94\xa1w\x00\x92\x03\x02", 7,
                  KILN_DATA_LOSS, "value 2: it has no type");
    expect_damage(*state, "\x94\xa1w\x01\x92\x03\x02", "\x94\xa1w\x01\x92\x03\x03", 7,
                  KILN_DATA_LOSS, "24 bytes of data instead of 36");
    expect_damage(*state, "\x94\xa1w\x01\x92\x03\x02\x00", "\x94\xa1w\x01\x92\x03\x02\x02", 8,
                  KILN_DATA_LOSS, "value 2: 2 where less than 2 are known");
    /* the type of a result is the inferred one */
    expect_damage(*state,
                  "\x94\xa1"
                  "c\x07",
                  "\x94\xa1"
                  "c\x01",
                  4, KILN_DATA_LOSS, "not of the inferred type");
    /* names are unique; a result is not read before it is there */
    expect_damage(*state, "\x94\xa1w", "\x94\xa1x", 3, KILN_DATA_LOSS, "two values are called %x");
    expect_damage(*state, "m1\x92\x01\x02", "m1\x92\x05\x02", 5, KILN_DATA_LOSS,
                  "before it is computed");
    expect_damage(*state, "m1\x92\x01\x02", "m1\x92\x7f\x02", 5, KILN_DATA_LOSS,
                  "inputs 0: 127 where less than 9 are known");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(a_graph_comes_back_as_it_was),
        test_with_arena(what_nothing_uses_is_left_out),
        test_with_arena(equal_constants_lie_there_once_and_are_not_copied),
        test_with_arena(bytes_at_any_address_can_be_read),
        test_with_arena(bytes_that_end_early_are_refused_at_every_place),
        test_with_arena(damage_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
