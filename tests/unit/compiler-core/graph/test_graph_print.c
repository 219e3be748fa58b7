#include "compiler-core/graph/graph_text.h"
#include "tests/unit/compiler-core/graph/support.h"

static char *print(kiln_arena *arena, const kiln_graph *graph) {
    kiln_strbuf text = {0};
    kiln_graph_print(graph, &text);
    char *copy = kiln_str_dup(arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return copy;
}

static void printed_text_parses_to_the_same_text(void **state) {
    const char *whole = "graph \"a net\"\n"
                        "input x: f32[2,3]\n"
                        "constant k: f32[3] = [inf, -0.5, nan]\n"
                        "constant big: f32[4,5] = hash \"00112233445566778899aabbccddeeff\"\n"
                        "constant \"_\": f32[] = [6]\n"
                        "\"input\": f32[2,3] = add(x, k) name \"say \\\"hi\\\"\" kernel 2\n"
                        "a: f32[1,3], _ = split(\"input\") axis=0 split=[1,1]\n"
                        "b: f32[1,3] = clip(a, _, \"_\")\n"
                        "c: f32[4,5] = neg(big)\n"
                        "r: f32[1,6] = resize(b) mode=\"nearest\" scales=[1,2]\n"
                        "output r\n"
                        "output c\n";
    assert_string_equal(print(*state, graph_of(*state, whole)), whole);
}

static void constants_that_nobody_reads_are_left_out(void **state) {
    const kiln_graph *graph = graph_of(*state, "graph g\n"
                                               "input x: f32[1]\n"
                                               "constant k: f32[1] = [1]\n"
                                               "output x\n");
    assert_string_equal(print(*state, graph), "graph g\ninput x: f32[1]\noutput x\n");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(printed_text_parses_to_the_same_text),
        test_with_arena(constants_that_nobody_reads_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
