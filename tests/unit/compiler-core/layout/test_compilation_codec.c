/* Bytes of compilations: for the program that asked a worker, and to be kept. */
#include <string.h>

#include "compiler-core/graph/graph_text.h"
#include "compiler-core/ir/eval.h"
#include "compiler-core/layout/compilation.h"
#include "tests/unit/compiler-core/graph/support.h"

/* Two kernels that agree on blocks, conversions at both ends, an alias, a slice that is a window.
 */
#define MODEL                                                                    \
    "graph net\ninput x: f32[1,16,9,9]\n"                                        \
    "constant w: f32[16,16,3,3] = hash \"00112233445566778899aabbccddeeff\"\n"   \
    "constant v: f32[32,16,3,3] = hash \"10112233445566778899aabbccddeeff\"\n"   \
    "a: f32[1,16,9,9] = conv(x, w) pads=[1,1,1,1]\nb: f32[1,16,9,9] = relu(a)\n" \
    "c: f32[1,32,9,9] = conv(b, v) pads=[1,1,1,1]\n"                             \
    "r: f32[32,81] = reshape(c) shape=[32,81]\n"                                 \
    "s: f32[16,81] = slice(r) axes=[0] starts=[16] ends=[32]\n"                  \
    "y: f32[16,81] = softmax(s)\noutput y\noutput r\n"

static kiln_compilation *compilation_of(kiln_arena *arena) {
    kiln_target *target = KILN_ARENA_NEW(arena, kiln_target);
    kiln_compilation *c = NULL;
    expect_ok(kiln_target_parse(KILN_STR("x86-64-v3"), arena, target));
    expect_ok(
        kiln_compilation_of_model(graph_of(arena, MODEL), target, &(kiln_accuracy){0}, arena, &c));
    return c;
}

static kiln_str bytes_of(kiln_arena *arena, const kiln_compilation *c, bool with_graph) {
    kiln_strbuf bytes = {0};
    kiln_compilation_encode(c, with_graph, &bytes);
    kiln_str copy = {kiln_arena_copy(arena, bytes.data, bytes.size), bytes.size};
    kiln_strbuf_deinit(&bytes);
    return copy;
}

static char *searched_text(kiln_arena *arena, const kiln_compilation *c) {
    kiln_strbuf text = {0};
    kiln_tasks_print(&c->searched, true, &text);
    for (uint32_t i = 0; i < c->searched.count; i++) {
        uint32_t count = kiln_program_args(c->searched.task[i].te).count;
        for (uint32_t k = 0; k < count; k++) {
            kiln_strbuf_char(&text, ' ');
            if (c->agreed[i][k]) kiln_layout_print(c->agreed[i][k], &text);
        }
        kiln_strbuf_char(&text, '\n');
    }
    char *copy = kiln_str_dup(arena, kiln_strbuf_view(&text));
    kiln_strbuf_deinit(&text);
    return copy;
}

static void what_is_searched_comes_back_without_the_graph(void **state) {
    kiln_compilation *c = compilation_of(*state), *again = NULL;
    expect_ok(kiln_compilation_decode(bytes_of(*state, c, false), *state, &again));
    assert_null(again->graph);
    assert_true(c->searched.count > c->plan.tasks.count - 2); /* conversions are among them */
    assert_string_equal(searched_text(*state, again), searched_text(*state, c));
    assert_true(kiln_str_equal(bytes_of(*state, again, false), bytes_of(*state, c, false)));
}

static void alternatives_come_back(void **state) {
    kiln_compilation *c = compilation_of(*state), *again = NULL;
    kiln_alternative alternative = {.task = 1, .count = 2, .instead_of = {2, 0}, .times = 3};
    c->alternative = &alternative;
    c->alternative_count = 1;
    expect_ok(kiln_compilation_decode(bytes_of(*state, c, false), *state, &again));
    assert_int_equal(again->alternative_count, 1);
    assert_memory_equal(again->alternative, &alternative, sizeof alternative);
    alternative.instead_of[1] = c->searched.count;
    expect_error(kiln_compilation_decode(bytes_of(*state, c, false), *state, &again), DATA_LOSS,
                 "alternative 0");
}

static void with_the_graph_all_that_follows_from_the_choice_comes_back(void **state) {
    kiln_compilation *c = compilation_of(*state), *again = NULL;
    kiln_str bytes = bytes_of(*state, c, true);
    expect_ok(kiln_compilation_decode(bytes, *state, &again));
    assert_non_null(again->graph);
    assert_true(kiln_str_equal(bytes_of(*state, again, true), bytes));
    assert_int_equal(again->plan.step_count, c->plan.step_count);
    uint32_t windows = 0;
    for (uint32_t s = 0; s < c->plan.step_count; s++) {
        const kiln_step *here = &c->plan.step[s], *there = &again->plan.step[s];
        assert_int_equal(here->kind, there->kind);
        assert_int_equal(!c->windows.step[s], !again->windows.step[s]);
        windows += c->windows.step[s] != NULL;
        for (uint32_t i = 0; i < here->arg_count; i++) {
            kiln_value v = here->arg[i], u = there->arg[i];
            assert_true(
                kiln_str_equal(c->graph->value.data[v].name, again->graph->value.data[u].name));
            assert_true(kiln_layout_equal(&c->layout[v], &again->layout[u]));
            assert_int_equal(c->windows.of[v].offset_bytes, again->windows.of[u].offset_bytes);
        }
        if (here->kind == KILN_STEP_KERNEL)
            assert_true(kiln_str_equal(c->way[s]->trace, again->way[s]->trace));
    }
    assert_int_equal(windows, 1);
}

/* Whoever reads the bytes chooses by the figures that their writer had. */
static void figures_of_the_target_come_along(void **state) {
    kiln_compilation *c = compilation_of(*state), *again = NULL;
    const size_t plain = bytes_of(*state, c, true).size;
    kiln_figures measured = {0};
    measured.figure[KILN_FIGURE_L1_BYTES] = 40 << 10;
    measured.figure[KILN_FIGURE_LATENCY] = 7;
    kiln_target_calibrate(&c->target, &measured);
    const kiln_str bytes = bytes_of(*state, c, true);
    assert_true(bytes.size > plain); /* without figures there is no such part */
    expect_ok(kiln_compilation_decode(bytes, *state, &again));
    assert_true(kiln_figures_equal(&again->target.calibration, &measured));
    assert_true(again->target.l1_bytes == 40 << 10 && again->target.core.latency == 7);
    assert_true(again->target.l2_bytes == c->target.l2_bytes);
}

static void bytes_that_end_early_are_refused_at_every_place(void **state) {
    kiln_str bytes = bytes_of(*state, compilation_of(*state), false);
    for (size_t size = 0; size < bytes.size; size++) {
        kiln_compilation *c = NULL;
        kiln_arena arena;
        kiln_arena_init(&arena, 0);
        expect_error(kiln_compilation_decode((kiln_str){bytes.data, size}, &arena, &c), DATA_LOSS,
                     "bytes of a compilation");
        assert_null(c);
        kiln_arena_deinit(&arena);
    }
}

static void expect_damage(kiln_arena *arena, const char *from, const char *to, size_t size,
                          kiln_code code, const char *needle) {
    kiln_str bytes = bytes_of(arena, compilation_of(arena), true);
    kiln_compilation *c = NULL;
    char *at = memmem(bytes.data, bytes.size, from, size);
    assert_non_null(at);
    memcpy(at, to, size);
    kiln_status st = kiln_compilation_decode(bytes, arena, &c);
    assert_int_equal(kiln_status_code(st), code);
    expect_contains(kiln_status_text(st), needle);
    kiln_status_free(st);
}

static void damage_is_named(void **state) {
    expect_damage(*state, "\x88\x01\x01", "\x88\x01\x02", 3, KILN_UNIMPLEMENTED, "of version 2");
    expect_damage(*state, "\x88\x01\x01\x02", "\x88\x01\x01\x03", 4, KILN_DATA_LOSS,
                  "part 3 instead of 2");
    expect_damage(*state, "kilngrph", "kilngrap", 8, KILN_DATA_LOSS, "does not begin as one");
    /* an expression that is not its key's */
    expect_damage(*state, "block softmax", "block softmay", 13, KILN_DATA_LOSS,
                  "is not the key of its expression");
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        test_with_arena(what_is_searched_comes_back_without_the_graph),
        test_with_arena(alternatives_come_back),
        test_with_arena(with_the_graph_all_that_follows_from_the_choice_comes_back),
        test_with_arena(figures_of_the_target_come_along),
        test_with_arena(bytes_that_end_early_are_refused_at_every_place),
        test_with_arena(damage_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
