/* Determinants of matrices whose determinants are known. */
#include <math.h>

#include "compiler-core/task/task.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/frontend/support.h"
#include "tests/unit/compiler-core/graph/support.h"

static model_parts det_of(kiln_arena *arena, const char *input) {
    return (model_parts){.opset = 22,
                         .input = input,
                         .output = "y:1",
                         .node_count = 1,
                         .node = {node_of(arena, "Det", "x", "y")}};
}

/* Rows that must change places once, twice and never, and matrices without a full rank; unrolled
 * and as a loop. */
static void determinants_of_batches(void **state) {
    const float x[] = {0, 2, 1, 3, 0, 0, 0, 0, 4,  /* -24 */
                       0, 1, 0, 0, 0, 1, 1, 0, 0,  /* 1: an even permutation */
                       2, 0, 0, 7, 3, 0, 1, 1, 5,  /* 30 */
                       1, 2, 3, 2, 4, 6, 1, 0, 1,  /* 0: two rows are one */
                       0, 1, 2, 0, 3, 4, 0, 5, 6}; /* 0: a column of zeros */
    static const float wanted[] = {-24, 1, 30, 0, 0};
    for (uint32_t way = 0; way < 2; way++) {
        const model_parts parts = det_of(*state, "x:5,1,3,3");
        const kiln_graph *graph = import_unrolling(*state, &parts, way ? 1 : 8);
        const kiln_tensor input = tensor_from(*state, SHAPE(5, 1, 3, 3), x);
        kiln_tensor output;
        assert_int_equal(count_loops(graph), way);
        expect_ok(kiln_graph_eval(graph, &input, *state, &output));
        assert_true(kiln_shape_equal(&output.shape, SHAPE(5, 1)));
        for (uint32_t i = 0; i < 5; i++)
            assert_true(fabs((double)((const float *)output.data)[i] - (double)wanted[i]) < 1e-4);
    }
}

static void one_matrix_gives_a_scalar(void **state) {
    const model_parts parts = det_of(*state, "x:2,2");
    const kiln_tensor input = tensor_from(*state, SHAPE(2, 2), FLOATS(1, 2, 3, 4));
    kiln_tensor output;
    expect_ok(kiln_graph_eval(import_of(*state, &parts), &input, *state, &output));
    assert_int_equal(output.shape.rank, 0);
    assert_true(fabs((double)*(const float *)output.data + 2) < 1e-5);
}

static void only_square_matrices_have_one(void **state) {
    const model_parts parts = det_of(*state, "x:2,3");
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "square matrices");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(determinants_of_batches),
        test_with_arena(one_matrix_gives_a_scalar),
        test_with_arena(only_square_matrices_have_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
