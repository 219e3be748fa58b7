/* Rows: which graphs compute each row of a batch by itself, and alike for every size. */
#include "compiler-core/task/rows.h"

#include "compiler-core/passes/pass.h"
#include "tests/unit/compiler-core/graph/support.h"

static const kiln_row_axis at_0 = {0, 1}, at_1 = {1, 1}, nowhere = {KILN_ROWS_NONE, 0};

/* `text` with %d where a dimension has `size` rows. */
static bool independent(const char *text, int size, kiln_row_axis in, kiln_row_axis out,
                        uint64_t *signature) {
    kiln_arena arena;
    kiln_strbuf filled = {0};
    kiln_plan plan;
    kiln_arena_init(&arena, 0);
    for (const char *c = text; *c; c++) {
        if (*c == '$')
            kiln_strbuf_printf(&filled, "%d", size);
        else if (*c == '#')
            kiln_strbuf_printf(&filled, "%d", 4 * size);
        else
            kiln_strbuf_char(&filled, *c);
    }
    kiln_graph *graph = graph_of(&arena, filled.data);
    expect_ok(kiln_passes_run(graph, (kiln_str){0}));
    expect_ok(kiln_plan_create(graph, &arena, &plan));
    const bool is = kiln_rows_are_independent(graph, &plan, size, &in, &out, signature);
    kiln_strbuf_deinit(&filled);
    kiln_arena_deinit(&arena);
    return is;
}

static void expect(const char *text, kiln_row_axis in, kiln_row_axis out, bool right) {
    uint64_t two = 0, three = 1;
    bool is = independent(text, 2, in, out, &two) && independent(text, 3, in, out, &three);
    if ((is && two == three) != right) fail_msg("%s:\n%s", right ? "not proved" : "proved", text);
}

#define W8 "constant w: f32[8,8] = hash \"0123456789abcdef0123456789abcdef\"\n"

static void layers_and_images_of_a_batch_are_independent(void **state) {
    (void)state;
    expect("graph g\ninput x: f32[$,8]\n" W8 "a: f32[$,8] = matmul(x, w)\nb: f32[$,8] = relu(a)\n"
           "y: f32[$,8] = softmax(b) axis=1\noutput y\n",
           at_0, at_0, true);
    expect("graph g\ninput x: f32[$,4,8,8]\n"
           "constant c: f32[8,4,3,3] = hash \"0123456789abcdef0123456789abcdef\"\n"
           "constant w: f32[128,10] = hash \"0123456789abcdef0123456789abcdef\"\n"
           "a: f32[$,8,8,8] = conv(x, c) pads=[1,1,1,1]\nb: f32[$,8,8,8] = relu(a)\n"
           "p: f32[$,8,4,4] = max_pool(b) kernel_shape=[2,2] strides=[2,2]\n"
           "f: f32[$,128] = flatten(p)\ny: f32[$,10] = matmul(f, w)\noutput y\n",
           at_0, at_0, true);
}

/* Every position of a sequence depends on the others, and on no other sequence. */
static void sequences_of_a_batch_are_independent(void **state) {
    (void)state;
    expect("graph g\ninput x: f32[$,6,8]\nk: f32[$,8,6] = transpose(x) perm=[0,2,1]\n"
           "s: f32[$,6,6] = matmul(x, k)\np: f32[$,6,6] = softmax(s) axis=-1\n"
           "y: f32[$,6,8] = matmul(p, x)\noutput y\n",
           at_0, at_0, true);
    expect("graph g\ninput x: f32[6,$,8]\nk: f32[6,8,$] = transpose(x) perm=[0,2,1]\n"
           "s: f32[6,$,$] = matmul(x, k)\np: f32[6,$,$] = softmax(s) axis=-1\n"
           "y: f32[6,$,8] = matmul(p, x)\noutput y\n",
           at_1, at_1, false);
}

/* Rows of 4 become rows of their own, and a batch may be the second dimension. */
static void rows_are_followed_through_shapes(void **state) {
    (void)state;
    expect("graph g\ninput x: f32[$,4,8]\n" W8 ""
           "a: f32[#,8] = reshape(x) shape=[#,8]\ny: f32[#,8] = matmul(a, w)\noutput y\n",
           at_0, (kiln_row_axis){0, 4}, true);
    expect("graph g\ninput x: f32[4,$,8]\ny: f32[$,4,8] = transpose(x) perm=[1,0,2]\noutput y\n",
           at_1, at_0, true);
    expect("graph g\ninput x: f32[4,$,8]\ny: f32[$,4,8] = transpose(x) perm=[1,0,2]\noutput y\n",
           at_1, at_1, false);
}

static void what_mixes_rows_is_not(void **state) {
    (void)state;
    expect("graph g\ninput x: f32[$,8]\ny: f32[$,8] = softmax(x) axis=0\noutput y\n", at_0, at_0,
           false);
    expect("graph g\ninput x: f32[$,8]\n"
           "y: f32[8] = reduce_mean(x) axes=[0] keepdims=0\noutput y\n",
           at_0, nowhere, false);
    expect("graph g\ninput x: f32[$,8]\nt: f32[8,$] = transpose(x) perm=[1,0]\n"
           "y: f32[$,$] = matmul(x, t)\noutput y\n",
           at_0, at_0, false);
}

/* A constant of the size's shape has a value for each row. */
static void what_knows_its_row_or_the_size_is_not(void **state) {
    (void)state;
    expect("graph g\ninput x: f32[$,8]\nconstant b: f32[$,1] = hash "
           "\"0123456789abcdef0123456789abcdef\"\n"
           "y: f32[$,8] = add(x, b)\noutput y\n",
           at_0, at_0, false);
    expect("graph g\ninput x: f32[$,8]\nconstant b: f32[] = [$]\ny: f32[$,8] = div(x, b)\noutput "
           "y\n",
           at_0, at_0, false);
    expect("graph g\ninput x: f32[$,8]\nconstant b: f32[] = [5]\ny: f32[$,8] = div(x, b)\noutput "
           "y\n",
           at_0, at_0, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_and_images_of_a_batch_are_independent),
        cmocka_unit_test(sequences_of_a_batch_are_independent),
        cmocka_unit_test(rows_are_followed_through_shapes),
        cmocka_unit_test(what_mixes_rows_is_not),
        cmocka_unit_test(what_knows_its_row_or_the_size_is_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
