#include "compiler-core/frontend/frontend.h"

#include <string.h>

#include "tests/unit/compiler-core/graph/support.h"

#define GRAPH                                     \
    "graph g\n"                                   \
    "input x: f32[2,3]\n"                         \
    "constant w: f32[2,3] = [1, 2, 3, 4, 5, 6]\n" \
    "y: f32[2,3] = add(x, w) name \"sum\"\noutput y\n"

/* Wherever the bytes lie, and after they are gone. */
static void bytes_of_a_graph_are_a_model(void **state) {
    const kiln_str bytes = bytes_of_graph(*state, graph_of(*state, GRAPH));
    char *moved = (char *)kiln_arena_alloc(*state, bytes.size + 1) + 1;
    kiln_graph *graph = NULL;
    memcpy(moved, bytes.data, bytes.size);
    expect_ok(kiln_import_bytes((kiln_str){moved, bytes.size}, NULL, NULL, *state, &graph));
    memset(moved, 0, bytes.size);
    assert_string_equal(result_of(*state, graph), "f32[2,3]: 2 4 6 8 10 12");
}

static void damage_is_refused(void **state) {
    const kiln_str bytes = bytes_of_graph(*state, graph_of(*state, GRAPH));
    kiln_graph *graph = NULL;
    expect_error(
        kiln_import_bytes((kiln_str){bytes.data, bytes.size - 1}, NULL, NULL, *state, &graph),
        DATA_LOSS, "");
    assert_null(graph);
}

static void it_has_no_open_dimension(void **state) {
    const kiln_str bytes = bytes_of_graph(*state, graph_of(*state, GRAPH));
    const kiln_str name = KILN_STR("batch");
    const int64_t value = 2;
    const kiln_import_options options = {.dim_count = 1, .dim_name = &name, .dim_value = &value};
    kiln_graph *graph = NULL;
    expect_error(kiln_import_bytes(bytes, NULL, &options, *state, &graph), INVALID_ARGUMENT,
                 "no open dimension 'batch'");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(bytes_of_a_graph_are_a_model),
        test_with_arena(damage_is_refused),
        test_with_arena(it_has_no_open_dimension),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
