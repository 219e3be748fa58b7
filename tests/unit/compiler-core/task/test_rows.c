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

/* Steps and batch as one dimension, which recurrent layers have: rows come again in each step. */
static void rows_of_each_step_are_followed(void **state) {
    (void)state;
    expect("graph g\ninput x: f32[4,$,8]\n" W8 "a: f32[#,8] = reshape(x) shape=[#,8]\n"
           "b: f32[#,8] = matmul(a, w)\ny: f32[4,$,8] = reshape(b) shape=[4,$,8]\noutput y\n",
           at_1, at_1, true);
    expect("graph g\ninput x: f32[4,$,8]\na: f32[#,8] = reshape(x) shape=[#,8]\n"
           "b: f32[$,8], c: f32[$,8], d: f32[$,8], e: f32[$,8] = split(a) axis=0 "
           "split=[$,$,$,$]\ny: f32[$,8] = sub(b, e)\noutput y\n",
           at_1, at_0, true);
    expect("graph g\ninput x: f32[4,$,8]\ny: f32[$,4,8] = reshape(x) shape=[$,4,8]\noutput y\n",
           at_1, at_0, false);
    expect("graph g\ninput x: f32[4,$,8]\na: f32[#,8] = reshape(x) shape=[#,8]\n"
           "b: f32[#,8] = softmax(a) axis=0\ny: f32[4,$,8] = reshape(b) shape=[4,$,8]\noutput y\n",
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

#define ZEROS "constant o: f32[1,8] = [0,0,0,0,0,0,0,0]\nz: f32[$,8] = expand(o) shape=[$,8]\n"
#define SEQUENCE                                                       \
    "graph g\ninput x: f32[7,$,8]\nconstant n: i64[] = [7]\n" W8 ZEROS \
    "i: i64[], h: f32[$,8], r: f32[$,8] = loop_begin(n, z, x) carried=1 trips=7\n"

/* At size 2 a state of zeros could have rows along either axis. */
static void sequences_that_a_loop_goes_along_are_independent(void **state) {
    (void)state;
    const char *text = SEQUENCE "p: f32[$,8] = matmul(h, w)\nq: f32[$,8] = add(p, r)\n"
                                "t: f32[$,8] = tanh(q)\n"
                                "last: f32[$,8], y: f32[7,$,8] = loop_end(i, t, t)\noutput y\n";
    expect(text, at_1, at_1, true);
    expect(text, at_1, at_0, false);
    expect(SEQUENCE "p: f32[$,8] = matmul(h, w)\nq: f32[$,8] = add(p, r)\n"
                    "t: f32[$,8] = tanh(q)\ny: f32[$,8] = loop_end(i, t)\noutput y\n",
           at_1, at_0, true);
    expect("graph g\ninput x: f32[$,8]\nconstant n: i64[] = [5]\nconstant two: f32[] = [2]\n"
           "i: i64[], h: f32[$,8] = loop_begin(n, x) carried=1 trips=5\n"
           "t: f32[$,8] = mul(h, two)\ny: f32[$,8] = loop_end(i, t)\noutput y\n",
           at_0, at_0, true);
}

static void loops_inside_of_loops_are_followed(void **state) {
    (void)state;
    const char *text = SEQUENCE "constant m: i64[] = [3]\n"
                                "j: i64[], a: f32[$,8] = loop_begin(m, h) carried=1 trips=3\n"
                                "%s"
                                "c: f32[$,8] = loop_end(j, b)\nt: f32[$,8] = add(c, r)\n"
                                "last: f32[$,8], y: f32[7,$,8] = loop_end(i, t, t)\noutput y\n";
    kiln_strbuf filled = {0};
    kiln_strbuf_printf(&filled, text, "b: f32[$,8] = matmul(a, w)\n");
    expect(filled.data, at_1, at_1, true);
    kiln_strbuf_deinit(&filled);
    kiln_strbuf_printf(&filled, text,
                       "s: f32[1,8] = reduce_sum(a) axes=[0] keepdims=1\n"
                       "b: f32[$,8] = sub(a, s)\n");
    expect(filled.data, at_1, at_1, false);
    kiln_strbuf_deinit(&filled);
}

/* Over the rows themselves; with a state that mixes them; for as long as one of them wants. */
static void loops_that_mix_rows_are_not(void **state) {
    (void)state;
    expect("graph g\ninput x: f32[$,8]\nconstant n: i64[] = [$]\n"
           "constant o: f32[8] = [0,0,0,0,0,0,0,0]\n"
           "i: i64[], h: f32[8], r: f32[8] = loop_begin(n, o, x) carried=1 trips=$\n"
           "t: f32[8] = add(h, r)\nlast: f32[8], y: f32[$,8] = loop_end(i, t, t)\noutput y\n",
           at_0, at_0, false);
    expect(SEQUENCE "s: f32[1,8] = reduce_max(h) axes=[0] keepdims=1\nq: f32[$,8] = add(s, r)\n"
                    "last: f32[$,8], y: f32[7,$,8] = loop_end(i, q, q)\noutput y\n",
           at_1, at_1, false);
    const char *guarded =
        "graph g\ninput x: f32[$,8]\nconstant n: i64[] = [9]\nconstant go: bool[] = [1]\n"
        "constant two: f32[] = [2]\nconstant five: i64[] = [5]\nconstant limit: f32[] = [100]\n"
        "i: i64[], h: f32[$,8] = loop_begin(n, go, x) carried=1 guarded=1 trips=9\n"
        "t: f32[$,8] = mul(h, two)\n%s"
        "y: f32[$,8] = loop_end(i, less, t)\noutput y\n";
    kiln_strbuf filled = {0};
    kiln_strbuf_printf(&filled, guarded, "less: bool[] = less(i, five)\n");
    expect(filled.data, at_0, at_0, true);
    kiln_strbuf_deinit(&filled);
    kiln_strbuf_printf(&filled, guarded,
                       "m: f32[] = reduce_max(t) axes=[0,1] keepdims=0\n"
                       "less: bool[] = less(m, limit)\n");
    expect(filled.data, at_0, at_0, false);
    kiln_strbuf_deinit(&filled);
}

/* As many results as the loop happens to have cannot be cut into those of parts. */
static void stacks_of_unknown_length_are_not(void **state) {
    (void)state;
    expect("graph g\ninput x: f32[$,8]\nconstant n: i64[] = [9]\nconstant go: bool[] = [1]\n"
           "constant two: f32[] = [2]\nconstant five: i64[] = [5]\n"
           "i: i64[], h: f32[$,8] = loop_begin(n, go, x) carried=1 guarded=1 trips=9\n"
           "t: f32[$,8] = mul(h, two)\nless: bool[] = less(i, five)\n"
           "last: f32[$,8], y: f32[9,$,8] = loop_end(i, less, t, t)\noutput y\n",
           at_0, at_1, false);
}

/* A constant of equal elements has no values of its own for a row or a size. */
static void constants_of_equal_elements_fit_every_size(void **state) {
    (void)state;
    expect("graph g\ninput x: f32[$,8]\n" ZEROS "y: f32[$,8] = max(x, z)\noutput y\n", at_0, at_0,
           true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_and_images_of_a_batch_are_independent),
        cmocka_unit_test(sequences_of_a_batch_are_independent),
        cmocka_unit_test(rows_are_followed_through_shapes),
        cmocka_unit_test(rows_of_each_step_are_followed),
        cmocka_unit_test(what_mixes_rows_is_not),
        cmocka_unit_test(what_knows_its_row_or_the_size_is_not),
        cmocka_unit_test(sequences_that_a_loop_goes_along_are_independent),
        cmocka_unit_test(loops_inside_of_loops_are_followed),
        cmocka_unit_test(loops_that_mix_rows_are_not),
        cmocka_unit_test(stacks_of_unknown_length_are_not),
        cmocka_unit_test(constants_of_equal_elements_fit_every_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
