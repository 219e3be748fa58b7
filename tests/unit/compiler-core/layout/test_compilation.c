/* What is tuned: tasks on layouts that agree, and the conversions that remain. */
#include "compiler-core/layout/compilation.h"

#include "base/reference.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/rules/space.h"
#include "tests/unit/compiler-core/graph/support.h"

#define WEIGHTS                                                                \
    "constant w: f32[16,16,3,3] = hash \"00112233445566778899aabbccddeeff\"\n" \
    "constant v: f32[32,16,3,3] = hash \"10112233445566778899aabbccddeeff\"\n"

typedef struct fixture {
    kiln_target target;
    kiln_compilation *c;
} fixture;

static fixture compilation_of(kiln_arena *arena, const char *body) {
    fixture f;
    kiln_graph *graph = graph_of(
        arena, kiln_arena_printf(arena, "graph g\ninput x: f32[1,16,9,9]\n" WEIGHTS "%s", body));
    expect_ok(kiln_target_parse(KILN_STR("cpu:x86_64-unknown-linux-gnu,mcpu=x86-64-v3"), arena,
                                &f.target));
    expect_ok(kiln_compilation_of_model(graph, &f.target, &(kiln_accuracy){0}, arena, &f.c));
    return f;
}

static uint32_t conversions(const fixture *f) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->c->searched.count; i++)
        count += kiln_str_is(f->c->searched.task[i].op, "convert");
    return count;
}

#define CHAIN                                                                    \
    "a: f32[1,16,9,9] = conv(x, w) pads=[1,1,1,1]\nb: f32[1,16,9,9] = relu(a)\n" \
    "c: f32[1,32,9,9] = conv(b, v) pads=[1,1,1,1]\noutput c\n"

static void neighbours_agree_and_the_edges_are_free(void **state) {
    fixture f = compilation_of(*state, CHAIN);
    const kiln_layout ***layout = f.c->agreed;
    assert_int_equal(f.c->searched.count - conversions(&f), 2);
    assert_null(layout[0][0]);     /* x */
    assert_non_null(layout[0][2]); /* b, written */
    assert_non_null(layout[1][0]); /* b, read */
    assert_null(layout[1][2]);     /* c */
    assert_true(kiln_layout_equal(layout[0][2], layout[1][0]));
    assert_false(kiln_layout_is_identity(layout[0][2]));
}

static void a_kernel_alone_chooses_everything_itself(void **state) {
    fixture f = compilation_of(*state, "a: f32[1,16,9,9] = conv(x, w) pads=[1,1,1,1]\noutput a\n");
    for (uint32_t i = 0; i < 3; i++) assert_null(f.c->agreed[0][i]);
}

static void spaces_exist_on_the_layouts(void **state) {
    fixture f = compilation_of(*state, CHAIN);
    for (uint32_t t = 0; t < f.c->searched.count; t++) {
        kiln_space space;
        kiln_trace trace;
        kiln_program *program;
        const kiln_space_options options = {.layout = f.c->agreed[t]};
        expect_ok(
            kiln_space_create_with(f.c->searched.task[t].te, &f.target, &options, *state, &space));
        expect_ok(kiln_space_default(&space, *state, &trace, &program));
    }
}

static void what_is_left_to_convert_is_tuned_too(void **state) {
    fixture f = compilation_of(*state, CHAIN);
    assert_int_equal(conversions(&f), 2); /* x to blocks, c from blocks */
    for (uint32_t i = 0; i < f.c->searched.count; i++) {
        const kiln_task *task = &f.c->searched.task[i];
        assert_true(kiln_str_equal(task->key, kiln_task_key(task->te, *state)));
        assert_float_equal(task->weight, 1, 0);
    }
    f = compilation_of(*state, "a: f32[1,16,9,9] = relu(x)\noutput a\n");
    assert_int_equal(conversions(&f), 0);
}

static void what_needs_no_kernel_is_not_tuned(void **state) {
    fixture f = compilation_of(*state, "a: f32[1,16,9,9] = conv(x, w) pads=[1,1,1,1]\n"
                                       "b: f32[1,32,9,9] = conv(a, v) pads=[1,1,1,1]\n"
                                       "j: f32[1,48,9,9] = concat(a, b) axis=1\n"
                                       "y: f32[1,48,1,1] = global_average_pool(j)\noutput y\n");
    for (uint32_t i = 0; i < f.c->searched.count; i++)
        assert_false(kiln_str_is(f.c->searched.task[i].op, "concat"));
    assert_int_equal(f.c->searched.count - conversions(&f), 3);
    f = compilation_of(*state, "j: f32[1,32,9,9] = concat(x, x) axis=1\noutput j\n");
    assert_int_equal(f.c->searched.count, 1); /* graph inputs have to be copied */
}

/* Columns of a matrix: no runs of bytes, so that the kernel stays. */
static void what_boards_cannot_check_is_not_tuned(void **state) {
    for (int columns = KILN_REFERENCE_OUTPUTS_MAX; columns <= KILN_REFERENCE_OUTPUTS_MAX + 1;
         columns++) {
        kiln_strbuf body = {0};
        kiln_strbuf_printf(&body, "m: f32[162,%d] = reshape(z) shape=[162,%d]\n", columns, columns);
        for (int i = 0; i < columns; i++)
            kiln_strbuf_printf(&body, "%sc%d: f32[162,1]", i ? ", " : "", i);
        kiln_strbuf_text(&body, " = split(m) axis=1\n");
        for (int i = 0; i < columns; i++) kiln_strbuf_printf(&body, "output c%d\n", i);
        fixture f = compilation_of(
            *state, kiln_arena_printf(*state, "input z: f32[%d]\n%s", 162 * columns, body.data));
        kiln_strbuf_deinit(&body);
        assert_int_equal(f.c->searched.count, columns == KILN_REFERENCE_OUTPUTS_MAX);
    }
}

/* ---- kernels that may be one ------------------------------------------------------------------
 */

#define POOLED                                                                   \
    "a: f32[1,16,9,9] = conv(x, w) pads=[1,1,1,1]\nb: f32[1,16,9,9] = relu(a)\n" \
    "p: f32[1,16,3,3] = max_pool(b) kernel_shape=[3,3] strides=[3,3]\n"          \
    "q: f32[1,16,3,3] = conv(p, w) pads=[1,1,1,1]\nd: f32[1,16,3,3] = relu(q)\noutput d\n"

static void a_join_is_searched_beside_what_it_stands_for(void **state) {
    fixture f = compilation_of(*state, POOLED);
    const kiln_compilation *c = f.c;
    assert_int_equal(c->alternative_count, c->joins.tasks.count);
    assert_true(c->alternative_count > 0);
    for (uint32_t i = 0; i < c->alternative_count; i++) {
        const kiln_alternative *a = &c->alternative[i];
        const kiln_task *joined = &c->searched.task[a->task];
        double flops = 0;
        for (uint32_t k = 0; k < a->count; k++) {
            const kiln_task *apart = &c->searched.task[a->instead_of[k]];
            assert_true(apart->weight > 0);
            flops += apart->flops;
        }
        assert_true(joined->flops == flops);
        assert_float_equal(joined->weight, 0, 0);
        assert_float_equal(a->times, 1, 0);
    }
    /* conv+relu > max_pool: x and the pooled result as the kernels apart have them */
    const kiln_alternative *first = &c->alternative[0];
    expect_str(c->searched.task[first->task].op, "conv+relu+max_pool");
    assert_null(c->agreed[first->task][0]);
    assert_true(kiln_layout_equal(c->agreed[first->task][2], c->agreed[first->instead_of[1]][1]));
}

/* What exceeds L2 by far stays in one kernel, unless joins are left out; on what is row-major
 * throughout there are none. A recurrent step is searched as one kernel, and is several without a
 * measurement. */
static void some_joins_need_no_measurement(void **state) {
    static const char scores[] = "input q: f32[1,1024,4]\ninput k: f32[1,4,2048]\n"
                                 "a: f32[1,1024,2048] = matmul(q, k)\n"
                                 "b: f32[1,1024,2048] = softmax(a)\noutput b\n";
    static const char step[] = "input h: f32[1,16]\ninput s: f32[1,8]\ninput u: f32[16,16]\n"
                               "g: f32[1,16] = matmul(h, u)\n"
                               "i: f32[1,8] = slice(g) starts=[0] ends=[8] axes=[1]\n"
                               "j: f32[1,8] = slice(g) starts=[8] ends=[16] axes=[1]\n"
                               "k: f32[1,8] = mul(i, s)\nl: f32[1,8] = add(k, j)\noutput l\n";
    fixture f = compilation_of(*state, scores);
    assert_int_equal(f.c->joins.count, 1);
    assert_int_equal(f.c->plan.step_count, 1);
    assert_true(f.c->join_times[0].joined_ns == 0); /* nothing was measured */
    assert_int_equal(f.c->alternative_count, 1);    /* it is searched beside its kernels */
    expect_ok(kiln_compilation_choose(f.c, &(kiln_choice){.no_joins = true}));
    assert_int_equal(f.c->plan.step_count, 2);
    expect_ok(kiln_compilation_choose(f.c, &(kiln_choice){.row_major = true}));
    assert_int_equal(f.c->plan.step_count, 2);
    expect_ok(kiln_compilation_choose(f.c, NULL));
    assert_int_equal(f.c->plan.step_count, 1);

    f = compilation_of(*state, step);
    assert_int_equal(f.c->alternative_count, 1);
    assert_int_equal(f.c->plan.step_count, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(neighbours_agree_and_the_edges_are_free),
        test_with_arena(a_kernel_alone_chooses_everything_itself),
        test_with_arena(spaces_exist_on_the_layouts),
        test_with_arena(what_is_left_to_convert_is_tuned_too),
        test_with_arena(what_needs_no_kernel_is_not_tuned),
        test_with_arena(what_boards_cannot_check_is_not_tuned),
        test_with_arena(a_join_is_searched_beside_what_it_stands_for),
        test_with_arena(some_joins_need_no_measurement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
