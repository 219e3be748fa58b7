#include <string.h>

#include "base/rand.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/graph/support.h"

#define LINE                                                                  \
    "input x: f32[4]\nconstant i: i64[3] = [2, -4, 2]\nconstant u: f32[3] = " \
    "[10, 20, 30]"
#define SQUARE                                                                  \
    "input x: f32[2,3]\nconstant i: i64[1,2] = [1, 0]\nconstant u: f32[1,2] = " \
    "[10, 20]"

static void updates_replace_and_the_last_one_stays(void **state) {
    expect_op(*state, LINE, "y: f32[4] = scatter_elements(x, i, u)", "f32[4]: 20 2 30 4");
}

static void updates_combine_with_what_is_there(void **state) {
    const char *op = "y: f32[4] = scatter_elements(x, i, u) reduction=\"%s\"";
    expect_op(*state, LINE, kiln_arena_printf(*state, op, "add"), "f32[4]: 21 2 43 4");
    expect_op(*state, LINE, kiln_arena_printf(*state, op, "mul"), "f32[4]: 20 2 900 4");
    expect_op(*state, LINE, kiln_arena_printf(*state, op, "max"), "f32[4]: 20 2 30 4");
    expect_op(*state, LINE, kiln_arena_printf(*state, op, "min"), "f32[4]: 1 2 3 4");
    expect_op_refused(*state, LINE, kiln_arena_printf(*state, op, "mean"), "\"mean\" is not known");
}

static void updates_may_cover_a_part(void **state) {
    expect_op(*state, SQUARE, "y: f32[2,3] = scatter_elements(x, i, u)", "f32[2,3]: 1 20 3 10 5 6");
    expect_op(*state, SQUARE, "y: f32[2,3] = scatter_elements(x, i, u) axis=1",
              "f32[2,3]: 20 10 3 4 5 6");
}

static void indices_out_of_range_name_no_element(void **state) {
    expect_op(*state, "input x: f32[2]\nconstant i: i64[2] = [2, -3]\nconstant u: f32[2] = [7, 8]",
              "y: f32[2] = scatter_elements(x, i, u)", "f32[2]: 1 2");
}

static void rows_of_indices_name_elements_or_slices(void **state) {
    expect_op(
        *state,
        "input x: f32[2,2]\nconstant i: i64[2,2] = [0, 1, -1, 0]\nconstant u: f32[2] = [7, 8]",
        "y: f32[2,2] = scatter_nd(x, i, u)", "f32[2,2]: 1 7 8 4");
    expect_op(*state,
              "input x: f32[3,2]\nconstant i: i64[1,1] = [1]\nconstant u: f32[1,2] = [7, 8]",
              "y: f32[3,2] = scatter_nd(x, i, u) reduction=\"add\"", "f32[3,2]: 1 2 10 12 5 6");
}

/* The element that the update at `n` of the index tensor names, as offset into the data, in
 * elements; -1: none. `axis` -1: n is a row of indices. */
static int64_t target_of(const kiln_tensor *data, const kiln_tensor *index, int64_t n, int axis) {
    const kiln_shape *shape = &data->shape;
    const bool rows = axis < 0;
    int64_t at[KILN_RANK_MAX] = {0}, offset = 0, rest = n;
    for (uint32_t d = index->shape.rank; !rows && d-- > 0; rest /= index->shape.dim[d])
        at[d] = rest % index->shape.dim[d];
    int64_t depth = rows ? index->shape.dim[1] : 1;
    for (int64_t k = 0; k < depth; k++) {
        int64_t d = rows ? k : axis,
                i = kiln_dtype_load_i64(index->dtype, index->data, (size_t)(n * depth + k));
        at[d] = i < 0 ? i + shape->dim[d] : i;
        if (at[d] < 0 || at[d] >= shape->dim[d]) return -1;
    }
    for (uint32_t d = 0; d < shape->rank; d++) offset = offset * shape->dim[d] + at[d];
    return offset;
}

static void fill(kiln_tensor *tensor, kiln_rand *rand, int64_t low, int64_t high) {
    for (int64_t i = 0; i < kiln_shape_count(&tensor->shape); i++)
        kiln_dtype_store_i64(tensor->dtype, tensor->data, (size_t)i,
                             kiln_rand_range(rand, low, high));
}

/* Updates one after the other, some of one element, some out of range. */
static void expect_replaced(kiln_arena *arena, int axis, const char *dtype, const char *index_dtype,
                            const char *data, const char *index, const char *update) {
    kiln_graph *graph = graph_of(
        arena, kiln_arena_printf(arena,
                                 "graph t\ninput x: %s[%s]\ninput i: %s[%s]\ninput u: %s[%s]\n"
                                 "y: %s[%s] = %s(x, i, u)%s\noutput y\n",
                                 dtype, data, index_dtype, index, dtype, update, dtype, data,
                                 axis < 0 ? "scatter_nd" : "scatter_elements",
                                 axis < 0 ? "" : kiln_arena_printf(arena, " axis=%d", axis)));
    kiln_tensor input[3], output;
    for (uint32_t i = 0; i < 3; i++) {
        const kiln_value_info *info = &graph->value.data[graph->input.data[i]];
        input[i] = kiln_tensor_create(arena, info->dtype, &info->shape);
    }
    kiln_rand rand;
    kiln_rand_init(&rand, 7);
    int64_t reach = input[0].shape.dim[axis < 0 ? 0 : axis] + 2;
    fill(&input[0], &rand, -100, -1);
    fill(&input[1], &rand, -KILN_MIN(reach, 120), KILN_MIN(reach, 120));
    fill(&input[2], &rand, 0, 100);
    expect_ok(kiln_graph_eval(graph, input, arena, &output));
    const size_t size = kiln_dtype_size(input[0].dtype);
    int64_t count = axis < 0 ? input[1].shape.dim[0] : kiln_shape_count(&input[1].shape);
    size_t slice = size * (size_t)(kiln_shape_count(&input[2].shape) / count);
    for (int64_t n = 0; n < count; n++) {
        int64_t at = target_of(&input[0], &input[1], n, axis);
        if (at >= 0)
            memcpy((char *)input[0].data + (size_t)at * size,
                   (char *)input[2].data + (size_t)n * slice, slice);
    }
    assert_memory_equal(output.data, input[0].data, size * (size_t)kiln_shape_count(&output.shape));
}

/* By asking all updates (the second and third), and by bisection. */
static void the_last_of_many_is_found(void **state) {
    expect_replaced(*state, 0, "f32", "i64", "20000", "1000", "1000");
    expect_replaced(*state, 0, "f16", "i32", "200", "160", "160");
    expect_replaced(*state, 0, "i8", "i64", "60", "4000", "4000");
    expect_replaced(*state, 1, "f64", "i64", "3,6000", "2,1500", "2,1500");
    expect_replaced(*state, 0, "i64", "i32", "6000,3", "1024,2", "1024,2");
    expect_replaced(*state, 1, "bf16", "i64", "2,5000,3", "2,1500,2", "2,1500,2");
    expect_replaced(*state, -1, "f32", "i64", "1000", "900,1", "900");
    expect_replaced(*state, -1, "u8", "i64", "30,40", "800,2", "800");
    expect_replaced(*state, -1, "i32", "i32", "9,100,4", "700,2", "700,4");
    expect_replaced(*state, -1, "f32", "i64", "50,3,40", "2,1", "2,3,40");
    expect_replaced(*state, -1, "f32", "i8", "50,130", "5,1", "5,130");
    expect_replaced(*state, -1, "bool", "i64", "10,12,11", "900,3", "900");
}

static void operands_must_fit(void **state) {
    expect_op_refused(*state, "input x: f32[4]\ninput i: f32[1]\ninput u: f32[1]",
                      "y: f32[4] = scatter_elements(x, i, u)", "must hold integers");
    expect_op_refused(*state, "input x: f32[4]\ninput i: i64[1]\ninput u: f32[2]",
                      "y: f32[4] = scatter_elements(x, i, u)", "must have one shape");
    expect_op_refused(*state, "input x: f32[4,1]\ninput i: i64[1,2]\ninput u: f32[1,2]",
                      "y: f32[4,1] = scatter_elements(x, i, u)", "larger than input 0");
    expect_op_refused(*state, "input x: f32[4]\ninput i: i64[1,2]\ninput u: f32[1]",
                      "y: f32[4] = scatter_nd(x, i, u)", "rows of at most 1 indices");
    expect_op_refused(*state, "input x: f32[4,2]\ninput i: i64[3,1]\ninput u: f32[3,1]",
                      "y: f32[4,2] = scatter_nd(x, i, u)", "input 2 does not fit");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(updates_replace_and_the_last_one_stays),
        test_with_arena(updates_combine_with_what_is_there),
        test_with_arena(updates_may_cover_a_part),
        test_with_arena(indices_out_of_range_name_no_element),
        test_with_arena(rows_of_indices_name_elements_or_slices),
        test_with_arena(the_last_of_many_is_found),
        test_with_arena(operands_must_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
