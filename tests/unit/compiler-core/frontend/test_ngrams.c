/* Counts of n-grams, with skips, places and weights. */
#include "compiler-core/task/task.h"
#include "tests/support/interpreter.h"
#include "tests/unit/compiler-core/frontend/support.h"
#include "tests/unit/compiler-core/graph/support.h"

/* Single 1, single 9; pairs (1, 2) and (2, 1). Their places are 2, 0, 1 and 4; nothing has 3. */
static const int64_t pool[] = {1, 9, 1, 2, 2, 1}, start[] = {0, 2}, place[] = {2, 0, 1, 4};

static message node_with(kiln_arena *arena, int64_t least, int64_t skips, const char *mode) {
    message node = node_of(arena, "TfIdfVectorizer", "i", "y");
    node = with_attr_ints(with_attr_ints(node, "pool_int64s", pool, 6), "ngram_counts", start, 2);
    node = with_attr_int(with_attr_ints(node, "ngram_indexes", place, 4), "max_gram_length", 2);
    node = with_attr_int(with_attr_int(node, "min_gram_length", least), "max_skip_count", skips);
    return with_attr_text(node, "mode", mode);
}

static model_parts model_with(kiln_arena *arena, message node) {
    static const int64_t item[] = {1, 2, 1, 2};
    return (model_parts){.opset = 9,
                         .input = "x:1",
                         .output = "y:1",
                         .node_count = 1,
                         .node = {node},
                         .initializer_count = 1,
                         .initializer = {i64s_of(arena, "i", item, 4)}};
}

static void expect_counts(kiln_arena *arena, message node, const float *wanted) {
    const model_parts parts = model_with(arena, node);
    const kiln_tensor x = tensor_from(arena, SHAPE(1), FLOATS(0));
    kiln_tensor y;
    expect_ok(kiln_graph_eval(import_of(arena, &parts), &x, arena, &y));
    expect_tensor(&y, SHAPE(5), wanted);
}

static void grams_are_counted_at_their_places(void **state) {
    expect_counts(*state, node_with(*state, 1, 0, "TF"), FLOATS(0, 2, 2, 0, 1));
    expect_counts(*state, node_with(*state, 2, 0, "TF"), FLOATS(0, 2, 0, 0, 1));
    /* With two items left out, the first 1 and the last 2 are a pair as well. */
    expect_counts(*state, node_with(*state, 1, 2, "TF"), FLOATS(0, 3, 2, 0, 1));
}

static void weights_scale_counts_or_presence(void **state) {
    static const float weight[] = {10, 20, 0.5f, 3};
    message counted = with_attr_floats(node_with(*state, 1, 0, "TFIDF"), "weights", weight, 4);
    expect_counts(*state, counted, FLOATS(0, 1, 20, 0, 3));
    message present = with_attr_floats(node_with(*state, 1, 0, "IDF"), "weights", weight, 4);
    expect_counts(*state, present, FLOATS(0, 0.5f, 10, 0, 3));
}

static void pools_that_do_not_fit_are_refused(void **state) {
    model_parts parts = model_with(*state, node_of(*state, "TfIdfVectorizer", "i", "y"));
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "it needs a pool");
    parts.node[0] = with_attr_text(parts.node[0], "pool_strings", "a");
    expect_import_refused(*state, &parts, KILN_UNIMPLEMENTED, "attribute pool_strings");
    static const int64_t odd[] = {0, 3};
    message node = node_of(*state, "TfIdfVectorizer", "i", "y");
    node = with_attr_ints(with_attr_ints(node, "pool_int64s", pool, 6), "ngram_counts", odd, 2);
    parts.node[0] = with_attr_ints(node, "ngram_indexes", place, 4);
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "does not fit the pool");
    parts.node[0] = node_with(*state, 1, 0, "DF");
    expect_import_refused(*state, &parts, KILN_INVALID_ARGUMENT, "mode: \"DF\"");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(grams_are_counted_at_their_places),
        test_with_arena(weights_scale_counts_or_presence),
        test_with_arena(pools_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
