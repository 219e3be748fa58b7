/* Joins: which kernels may also be one, and what that one computes. */
#include "compiler-core/task/join.h"

#include "compiler-core/passes/pass.h"
#include "tests/unit/compiler-core/graph/support.h"

typedef struct fixture {
    kiln_graph *graph;
    kiln_plan plan;
    kiln_joins joins;
} fixture;

/* Joins for a core whose L2 has so many bytes. */
static fixture find(kiln_arena *arena, kiln_graph *graph, uint32_t l2_bytes) {
    fixture f = {.graph = graph};
    const kiln_target target = {.l2_bytes = l2_bytes};
    expect_ok(kiln_passes_run(f.graph, (kiln_str){0}));
    expect_ok(kiln_plan_create(f.graph, arena, &f.plan));
    expect_ok(kiln_joins_find(f.graph, &f.plan, &target, arena, &f.joins));
    return f;
}

/* "conv > max_pool, ..." */
static void expect_joins(const fixture *f, const char *expected) {
    kiln_strbuf text = {0};
    for (uint32_t i = 0; i < f->joins.count; i++) {
        if (i) kiln_strbuf_text(&text, ", ");
        kiln_step_row_print(&f->joins.join[i].row, &f->plan, &text);
    }
    assert_string_equal(text.data ? text.data : "", expected);
    kiln_strbuf_deinit(&text);
}

#define MAP "input x: f32[1,4,8,8]\n"
#define L2 (256u << 10)

/* Names of weights: e and p are 1x1, d is of single channels, c is 3x3. */
static kiln_graph *graph_with_weights(kiln_arena *arena, const char *body) {
    kiln_strbuf text = {0};
    static const struct {
        char name;
        uint32_t out, in, size;
    } weight[] = {{'e', 16, 4, 1}, {'p', 4, 16, 1}, {'d', 16, 1, 3}, {'c', 4, 4, 3}};
    kiln_strbuf_text(&text, "graph g\n" MAP);
    for (size_t i = 0; i < KILN_ARRAY_COUNT(weight); i++) {
        const uint32_t count = weight[i].out * weight[i].in * weight[i].size * weight[i].size;
        kiln_strbuf_printf(&text, "constant %c: f32[%u,%u,%u,%u] = [", weight[i].name,
                           weight[i].out, weight[i].in, weight[i].size, weight[i].size);
        for (uint32_t k = 0; k < count; k++)
            kiln_strbuf_printf(&text, "%s%d", k ? ", " : "", (int)(k * 7 % 5) - 2);
        kiln_strbuf_text(&text, "]\n");
    }
    kiln_strbuf_text(&text, body);
    kiln_graph *graph = graph_of(arena, text.data);
    kiln_strbuf_deinit(&text);
    return graph;
}

#define EXPAND "a: f32[1,16,8,8] = conv(x, e)\nb: f32[1,16,8,8] = relu(a)\n"
#define DEPTHWISE \
    "f: f32[1,16,8,8] = conv(b, d) pads=[1,1,1,1] group=16\ng: f32[1,16,8,8] = relu(f)\n"
#define PROJECT "h: f32[1,4,8,8] = conv(g, p)\n"

static void depthwise_and_its_neighbours_are_offered_in_twos_and_threes(void **state) {
    fixture f = find(*state, graph_with_weights(*state, EXPAND DEPTHWISE PROJECT "output h\n"), L2);
    expect_joins(&f, "conv+relu > conv+relu, conv+relu > conv+relu > conv, conv+relu > conv");
    assert_int_equal(f.joins.tasks.count, 3);
    expect_str(f.joins.join[1].step.op, "conv+relu+conv+relu+conv");
}

static void pooling_follows_a_convolution(void **state) {
    fixture f = find(*state,
                     graph_with_weights(*state, "a: f32[1,4,8,8] = conv(x, c) pads=[1,1,1,1]\n"
                                                "b: f32[1,4,8,8] = relu(a)\n"
                                                "y: f32[1,4,4,4] = max_pool(b) kernel_shape=[2,2] "
                                                "strides=[2,2]\noutput y\n"),
                     L2);
    expect_joins(&f, "conv+relu > max_pool");
}

static void rows_of_products_are_offered_with_what_normalises_them(void **state) {
    fixture f = find(*state,
                     graph_of(*state, "graph g\ninput q: f32[2,8,4]\ninput k: f32[2,4,8]\n"
                                      "input v: f32[2,8,4]\na: f32[2,8,8] = matmul(q, k)\n"
                                      "b: f32[2,8,8] = softmax(a)\nc: f32[2,8,4] = matmul(b, v)\n"
                                      "output c\n"),
                     L2);
    expect_joins(&f, "matmul > softmax, matmul > softmax > matmul, softmax > matmul");
}

/* ---- conditions ------------------------------------------------------------------------------ */

static void a_result_that_others_read_is_no_part_of_a_join(void **state) {
    fixture f = find(*state,
                     graph_with_weights(*state, EXPAND DEPTHWISE PROJECT
                                        "i: f32[1,16,8,8] = exp(g)\noutput h\noutput i\n"),
                     L2);
    expect_joins(&f, "conv+relu > conv+relu");
    f = find(*state, graph_with_weights(*state, EXPAND DEPTHWISE "output b\noutput g\n"), L2);
    expect_joins(&f, "");
}

static void without_two_reductions_there_is_none(void **state) {
    fixture f = find(*state,
                     graph_of(*state, "graph g\ninput x: f32[8,8]\ninput w: f32[8,8]\n"
                                      "a: f32[8,8] = matmul(x, w)\n"
                                      "y: f32[8,8] = transpose(a)\noutput y\n"),
                     L2);
    expect_joins(&f, "");
}

static void a_reader_of_everything_leaves_nothing_to_share(void **state) {
    static const char text[] = "graph g\ninput x: f32[%s]\ninput w: f32[8,16]\n"
                               "input v: f32[16,8]\na: f32[%s] = matmul(x, w)\n"
                               "y: f32[%s] = matmul(a, v)\noutput y\n";
    fixture f =
        find(*state, graph_of(*state, kiln_arena_printf(*state, text, "4,8", "4,16", "4,8")), L2);
    expect_joins(&f, "matmul > matmul");
    f = find(*state, graph_of(*state, kiln_arena_printf(*state, text, "1,8", "1,16", "1,8")), L2);
    expect_joins(&f, "");
}

/* Only channels are shared, and each block of them reads all of the data. */
static void blocks_of_weights_alone_are_no_blocks(void **state) {
    fixture f = find(*state,
                     graph_with_weights(*state, EXPAND "y: f32[1,16,1,1] = "
                                                       "global_average_pool(b)\noutput y\n"),
                     L2);
    expect_joins(&f, "");
}

/* 8 rows of 16 channels take 4 KB, 3 and 1 row 2 KB; then each row is expanded three times. */
static void blocks_have_to_fit_without_much_done_again(void **state) {
    fixture f =
        find(*state, graph_with_weights(*state, EXPAND DEPTHWISE PROJECT "output h\n"), 8192);
    expect_joins(&f, "conv+relu > conv+relu, conv+relu > conv");
    assert_true(f.joins.join[0].near_bytes <= 4096);
    assert_true(f.joins.join[0].again == 0); /* channel by channel */
    f = find(*state, graph_with_weights(*state, EXPAND DEPTHWISE PROJECT "output h\n"), 64);
    expect_joins(&f, "");
}

static void much_work_for_little_data_is_no_join(void **state) {
    static const char text[] = "graph g\ninput x: f32[32,%s]\ninput w: f32[%s,16]\n"
                               "a: f32[32,16] = matmul(x, w)\n"
                               "y: f32[32,16] = softmax(a)\noutput y\n";
    fixture f = find(*state, graph_of(*state, kiln_arena_printf(*state, text, "256", "256")), L2);
    expect_joins(&f, "matmul > softmax");
    f = find(*state, graph_of(*state, kiln_arena_printf(*state, text, "320", "320")), L2);
    expect_joins(&f, "");
}

/* Scores of 64 KB: more than four times L2, or not; at four operations for each byte, or many more.
 */
static void what_exceeds_l2_by_far_is_joined_without_a_measurement(void **state) {
    static const char text[] = "graph g\ninput q: f32[128,%s]\ninput k: f32[%s,128]\n"
                               "a: f32[128,128] = matmul(q, k)\n"
                               "b: f32[128,128] = softmax(a)\noutput b\n";
    static const struct {
        const char *size;
        uint32_t l2_bytes;
        bool by_default;
    } row[] = {{"4", 8192, true}, {"4", 16384, false}, {"120", 8192, true}, {"126", 8192, false}};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        const char *body = kiln_arena_printf(*state, text, row[i].size, row[i].size);
        fixture f = find(*state, graph_of(*state, body), row[i].l2_bytes);
        assert_int_equal(f.joins.count, 1);
        assert_int_equal(f.joins.join[0].by_default, row[i].by_default);
    }
}

/* ---- parts of one result --------------------------------------------------------------------- */

#define GATES                                         \
    "graph g\ninput h: f32[1,8]\ninput c: f32[1,8]\n" \
    "input w: f32[8,24]\na: f32[1,24] = matmul(h, w)\n"
#define PART(to, from, first, end) \
    to ": f32[1,8] = slice(" from ") starts=[" #first "] ends=[" #end "] axes=[1]\n"
#define STATE                                      \
    PART("i", "a", 0, 8)                           \
    PART("f", "a", 8, 16)                          \
    "j: f32[1,8] = tanh(i)\nk: f32[1,8] = sigmoid" \
    "(f)\nl: f32[1,8] = mul(k, c)\nm: f32[1,8] = add(l, j)\n"
#define RESULT             \
    PART("o", "a", 16, 24) \
    "p: f32[1,8] = tanh(m)\nq: f32[1,8] = sigmoid(o)\nr: f32[1,8] = mul(p, q)\n"

static void a_product_is_offered_with_all_that_reads_parts_of_it(void **state) {
    fixture f = find(*state, graph_of(*state, GATES STATE RESULT "output m\noutput r\n"), L2);
    expect_joins(&f, "matmul > slice+slice+tanh+sigmoid+mul+add > slice+tanh+sigmoid+mul");
    assert_int_equal(f.joins.join[0].kind, KILN_JOIN_PARTS);
    assert_int_equal(f.joins.join[0].step.arg_count - f.joins.join[0].step.read_count, 2);
    f = find(*state, graph_of(*state, GATES STATE RESULT "output r\n"), L2);
    assert_int_equal(f.joins.count, 1);
    assert_int_equal(f.joins.join[0].row.count, 2);
}

/* One part alone; a reader beside them that has a reduction; an output; parts beyond a near cache.
 */
static void a_result_that_is_read_otherwise_is_not_joined_with_its_parts(void **state) {
    static const char *const body[] = {
        PART("i", "a", 0, 8) "y: f32[1,8] = tanh(i)\noutput y\n",
        STATE "n: f32[1,24] = softmax(a)\noutput m\noutput n\n",
        STATE "output m\noutput a\n",
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(body); i++) {
        fixture f =
            find(*state, graph_of(*state, kiln_arena_printf(*state, GATES "%s", body[i])), L2);
        for (uint32_t j = 0; j < f.joins.count; j++)
            assert_int_equal(f.joins.join[j].kind, KILN_JOIN_SERIES);
    }
    fixture f = find(*state, graph_of(*state, GATES STATE "output m\n"), 100);
    assert_int_equal(f.joins.count, 0);
}

/* The state takes the way of another product to what reads it: one kernel would wait for itself. */
static void what_waits_for_another_kernel_is_not_joined(void **state) {
    fixture f =
        find(*state,
             graph_of(*state, GATES STATE "input v: f32[8,8]\nn: f32[1,8] = matmul(m, v)\n" PART(
                                  "o", "a", 16,
                                  24) "r: f32[1,8] = mul(o, n)\noutput n\noutput m\noutput r\n"),
             L2);
    for (uint32_t j = 0; j < f.joins.count; j++)
        assert_int_equal(f.joins.join[j].kind, KILN_JOIN_SERIES);
}

/* A kernel that stays apart would pack the same weights once more. */
static void constants_that_others_read_are_packed_once(void **state) {
    static const char weights[] = "constant w: f32[1,8] = [1, 2, 3, 4, 5, 6, 7, 8]\n";
    static const char both[] = "graph g\ninput h: f32[1,1]\ninput c: f32[1,4]\n%s"
                               "a: f32[1,8] = matmul(h, w)\n"
                               "i: f32[1,4] = slice(a) starts=[0] ends=[4] axes=[1]\n"
                               "f: f32[1,4] = slice(a) starts=[4] ends=[8] axes=[1]\n"
                               "j: f32[1,4] = tanh(i)\nk: f32[1,4] = mul(f, c)\n"
                               "m: f32[1,4] = add(j, k)\noutput m\n%s";
    static const char other[] = "input z: f32[1,1]\ny: f32[1,8] = matmul(z, w)\noutput y\n";
    fixture f = find(*state, graph_of(*state, kiln_arena_printf(*state, both, weights, "")), L2);
    assert_int_equal(f.joins.count, 1);
    assert_int_equal(f.joins.join[0].kind, KILN_JOIN_PARTS);
    f = find(*state, graph_of(*state, kiln_arena_printf(*state, both, weights, other)), L2);
    assert_int_equal(f.joins.count, 0);
}

/* ---- what a join is -------------------------------------------------------------------------- */

static void expect_one_group(kiln_arena *arena, fixture f) {
    const char *before = result_of(arena, f.graph);
    for (uint32_t i = 0; i < f.joins.count; i++) {
        const kiln_join *join = &f.joins.join[i];
        const kiln_task *task = &f.joins.tasks.task[join->step.task];
        kiln_plan plan;
        uint32_t found = 0;
        expect_ok(kiln_pass_run(KILN_PASS_FUSE, f.graph));
        kiln_join_apply(join, f.graph);
        expect_ok(kiln_plan_create(f.graph, arena, &plan));
        assert_int_equal(plan.step_count, f.plan.step_count - join->row.count + 1);
        for (uint32_t s = 0; s < plan.step_count; s++) {
            if (!kiln_str_equal(plan.tasks.task[plan.step[s].task].key, task->key)) continue;
            assert_int_equal(plan.step[s].arg_count, join->step.arg_count);
            for (uint32_t a = 0; a < join->step.arg_count; a++)
                assert_int_equal(plan.step[s].arg[a], join->step.arg[a]);
            found++;
        }
        assert_int_equal(found, 1);
        assert_string_equal(result_of(arena, f.graph), before);
    }
}

static void a_join_is_the_kernel_of_its_nodes_as_one_group(void **state) {
    expect_one_group(
        *state,
        find(*state, graph_with_weights(*state, EXPAND DEPTHWISE PROJECT "output h\n"), L2));
    expect_one_group(*state,
                     find(*state, graph_of(*state, GATES STATE RESULT "output m\noutput r\n"), L2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(depthwise_and_its_neighbours_are_offered_in_twos_and_threes),
        test_with_arena(pooling_follows_a_convolution),
        test_with_arena(rows_of_products_are_offered_with_what_normalises_them),
        test_with_arena(a_result_that_others_read_is_no_part_of_a_join),
        test_with_arena(without_two_reductions_there_is_none),
        test_with_arena(a_reader_of_everything_leaves_nothing_to_share),
        test_with_arena(blocks_of_weights_alone_are_no_blocks),
        test_with_arena(blocks_have_to_fit_without_much_done_again),
        test_with_arena(much_work_for_little_data_is_no_join),
        test_with_arena(what_exceeds_l2_by_far_is_joined_without_a_measurement),
        test_with_arena(a_product_is_offered_with_all_that_reads_parts_of_it),
        test_with_arena(a_result_that_is_read_otherwise_is_not_joined_with_its_parts),
        test_with_arena(what_waits_for_another_kernel_is_not_joined),
        test_with_arena(constants_that_others_read_are_packed_once),
        test_with_arena(a_join_is_the_kernel_of_its_nodes_as_one_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
