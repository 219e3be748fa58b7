#include "tests/unit/compiler-core/graph/support.h"

static void softmax_sums_to_one_and_does_not_overflow(void **state) {
    expect_op(*state, "input x: f32[1]\nconstant k: f32[1,2] = [1000, 1000]",
              "y: f32[1,2] = softmax(k)", "f32[1,2]: 0.5 0.5");
    expect_op(*state, "input x: f32[2,2]", "y: f32[2,2] = softmax(x) axis=0",
              "f32[2,2]: 0.119203 0.119203 0.880797 0.880797");
    expect_op(*state, "input x: f32[1,1,4]", "y: f32[1,1,4] = log_softmax(x)",
              "f32[1,1,4]: -3.44019 -2.44019 -1.44019 -0.44019");
}

static void softmax_before_opset_13_runs_over_the_rest(void **state) {
    expect_op(*state, "constant k: f32[1,2,2] = [7, 7, 7, 7]\ninput x: f32[1]",
              "y: f32[1,2,2] = softmax(k) axis=1 flatten=1", "f32[1,2,2]: 0.25 0.25 0.25 0.25");
    expect_op(*state, "constant k: f32[1,2,2] = [7, 7, 7, 7]\ninput x: f32[1]",
              "y: f32[1,2,2] = softmax(k) axis=1", "f32[1,2,2]: 0.5 0.5 0.5 0.5");
}

static void layer_norm_tells_its_statistics(void **state) {
    const char *inputs =
        "input x: f32[1,2]\nconstant s: f32[2] = [1, 2]\nconstant b: f32[2] = [10, 10]";
    expect_op(*state, inputs, "y: f32[1,2] = layer_norm(x, s, b) epsilon=0", "f32[1,2]: 9 12");
    expect_op(*state, inputs, "_, y: f32[1,1] = layer_norm(x, s) epsilon=0", "f32[1,1]: 1.5");
    expect_op(*state, inputs, "_, _, y: f32[1,1] = layer_norm(x, s) epsilon=0", "f32[1,1]: 2");
    expect_op_refused(*state, "input x: f32[1,2]\ninput s: f32[3]",
                      "y: f32[1,2] = layer_norm(x, s)", "2 and 3 do not broadcast");
}

static void other_normalisations(void **state) {
    expect_op(*state,
              "input x: f32[1,2,2]\nconstant s: f32[2] = [1, 2]\nconstant b: f32[2] = [0, 5]",
              "y: f32[1,2,2] = instance_norm(x, s, b) epsilon=0", "f32[1,2,2]: -1 1 3 7");
    expect_op(*state, "constant k: f32[2] = [3, -4]\ninput x: f32[1]", "y: f32[2] = lp_norm(k)",
              "f32[2]: 0.6 -0.8");
    expect_op(*state, "constant k: f32[2] = [3, -5]\ninput x: f32[1]", "y: f32[2] = lp_norm(k) p=1",
              "f32[2]: 0.375 -0.625");
    expect_op(*state, "constant k: f32[2] = [0, 0]\ninput x: f32[1]", "y: f32[2] = lp_norm(k)",
              "f32[2]: 0 0");
    expect_op(*state,
              "constant k: f32[1,2] = [1, 7]\nconstant s: f32[2] = [1, 10]\ninput x: f32[1]",
              "y: f32[1,2] = rms_norm(k, s) epsilon=0", "f32[1,2]: 0.2 14");
    expect_op(*state, "input x: f32[2,1,1]", "y: f32[2,1,1] = mean_variance_norm(x) axes=[0]",
              "f32[2,1,1]: -1 1");
    expect_op(*state, "input x: f32[1,3,1]", "y: f32[1,3,1] = lrn(x) size=3 alpha=3 beta=1 bias=0",
              "f32[1,3,1]: 0.2 0.142857 0.230769");
}

static void losses_pick_the_target(void **state) {
    const char *inputs =
        "input x: f32[2,2]\nconstant t: i64[2] = [1, 0]\nconstant w: f32[2] = [1, 3]";
    expect_op(*state, inputs, "y: f32[2] = nll_loss(x, t) reduction=\"none\"", "f32[2]: -2 -3");
    expect_op(*state, inputs, "y: f32[] = nll_loss(x, t, w) reduction=\"sum\"", "f32[]: -9");
    expect_op(*state, inputs, "y: f32[] = nll_loss(x, t, w)", "f32[]: -2.25");
    expect_op(*state, inputs, "y: f32[] = nll_loss(x, t) ignore_index=0", "f32[]: -2");
    expect_op(*state, "constant k: f32[1,2] = [0, 0]\ninput t: i32[1]",
              "y: f32[] = softmax_loss(k, t)", "f32[]: 0.693147");
    expect_op_refused(*state, inputs, "y: f32[] = nll_loss(x, x)", "one dimension fewer");
    expect_op_refused(*state, inputs, "y: f32[] = nll_loss(x, t) reduction=\"most\"",
                      "\"most\" is not known");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(softmax_sums_to_one_and_does_not_overflow),
        test_with_arena(softmax_before_opset_13_runs_over_the_rest),
        test_with_arena(layer_norm_tells_its_statistics),
        test_with_arena(other_normalisations),
        test_with_arena(losses_pick_the_target),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
