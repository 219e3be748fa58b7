/* The nest of a tiled reduction: what is around what. */
#include <string.h>

#include "tests/unit/compiler-core/rules/support.h"

static const conv_shape shape = {1, 16, 6, 6, 32, 3, 3, 1, 0, true};

static kiln_tiling sized(kiln_sched *s, kiln_tile_options options) {
    kiln_tiling t = tiling_of(s, "conv");
    t.options = options;
    t.tile = kiln_sched_choice(s, 3, (int64_t[]){1, 2, 2}, 1, 0);
    t.steps = kiln_sched_choice(s, 3, (int64_t[]){8, 4, 1}, 1, 0);
    return t;
}

/* Names of the loops around the block, from the outside, without its own name. */
static const char *nest_of(const kiln_sched *s, const char *block) {
    const char *text = "";
    const kiln_sched_loops around = kiln_sched_loops_around(s, block_of(s, block));
    for (uint32_t i = 0; i < around.count; i++) {
        kiln_str name = s->program->var.data[around.loop[i].var].name;
        name = kiln_str_slice(name, strlen(block) + 1, name.size);
        text = kiln_arena_printf(s->arena, "%s%s%.*s", text, i ? " " : "", KILN_STR_ARG(name));
    }
    return text;
}

static void panels_of_weights_come_one_after_the_other(void **state) {
    const kiln_program *te = conv_program(*state, &shape);
    kiln_sched s = kiln_sched_begin(te, &avx2, *state);
    kiln_tiling t = sized(&s, (kiln_tile_options){0});
    const kiln_sched_loops outer = kiln_tile_make_nest(&t);
    assert_string_equal(nest_of(&s, "conv"),
                        "n oc.0.0 oh.0.0 ow.0.0 oc.0.1 oh.0.1 ow.0.1 ic.0 kh kw ic.1.0 ic.1.1 oh.1 "
                        "ow.1 oc.1 oc.2");
    assert_int_equal(outer.count, 7);
    assert_int_equal(outer.loop[6].var, t.column.tiles.var);
    assert_int_equal(kiln_tile_first_reduce_loop(&t).var, t.k_blocks.var);
    expect_sound(&s, te);
}

static void options_change_what_is_innermost(void **state) {
    const kiln_program *te = conv_program(*state, &shape);
    kiln_sched s = kiln_sched_begin(te, &avx2, *state);
    kiln_tiling t = sized(&s, (kiln_tile_options){.vectors_innermost = true, .taps_outside = true});
    kiln_tile_make_nest(&t);
    assert_string_equal(nest_of(&s, "conv"),
                        "n oc.0.0 oh.0.0 ow.0.0 oh.0.1 ow.0.1 oc.0.1 kh kw ic.0 ic.1.0 ic.1.1 oh.1 "
                        "ow.1 oc.1 oc.2");
    expect_sound(&s, te);
}

/* With threads, those that read less data than weights share rows; else panels come first. */
static void threads_share_what_is_larger(void **state) {
    static const conv_shape image = {1, 4, 24, 24, 16, 1, 1, 1, 0, false},
                            weights = {1, 64, 3, 3, 128, 1, 1, 1, 0, false};
    kiln_target two = avx2_target(2);
    kiln_sched s = kiln_sched_begin(conv_program(*state, &image), &two, *state);
    kiln_tiling t = tiling_of(&s, "conv");
    t.tile = kiln_sched_choice(&s, 3, (int64_t[]){1, 2, 2}, 1, 0);
    t.steps = kiln_sched_choice(&s, 3, (int64_t[]){4, 4, 1}, 1, 0);
    kiln_sched_loops outer = kiln_tile_make_nest(&t);
    assert_int_equal(outer.loop[1].var, t.row.rounds.var);
    s = kiln_sched_begin(conv_program(*state, &weights), &two, *state);
    t = sized(&s, (kiln_tile_options){0});
    outer = kiln_tile_make_nest(&t);
    assert_int_equal(outer.loop[1].var, t.vector.rounds.var);
}

static kiln_loop_kind kind_of(const kiln_sched *s, kiln_sched_loop loop) {
    kiln_str name = s->program->var.data[loop.var].name;
    return (kiln_loop_kind)s->program->stmt.data[kiln_program_find_loop(s->program, name)]
        .loop_kind;
}

static void points_and_steps_become_straight_code(void **state) {
    const kiln_program *te = conv_program(*state, &shape);
    kiln_sched s = kiln_sched_begin(te, &avx2, *state);
    kiln_tiling t = sized(&s, (kiln_tile_options){0});
    kiln_tile_make_nest(&t);
    kiln_tile_unroll(&t);
    assert_int_equal(kind_of(&s, t.lane), KILN_LOOP_VECTORIZE);
    const kiln_sched_loop unrolled[] = {t.row.points, t.column.points, t.vector.points,
                                        t.k_unrolled};
    for (size_t i = 0; i < sizeof unrolled / sizeof unrolled[0]; i++)
        assert_int_equal(kind_of(&s, unrolled[i]), KILN_LOOP_UNROLL);
    assert_int_equal(kind_of(&s, t.k_steps), KILN_LOOP_SERIAL);
    expect_sound(&s, te);
}

/* The instruction takes lanes and steps; the initial values become vectors after that. */
static void lanes_and_steps_become_an_instruction(void **state) {
    kiln_target target;
    expect_ok(kiln_target_parse(KILN_STR("rpi5"), *state, &target));
    const kiln_program *te = bytes_program(*state, 4, 8, 32);
    kiln_sched s = kiln_sched_begin(te, &target, *state);
    kiln_tiling t = tiling_of(&s, "dot");
    t.tile = kiln_sched_choice(&s, 3, (int64_t[]){1, 2, 2}, 1, 0);
    t.steps = kiln_sched_choice(&s, 4, (int64_t[]){16, 8, 1, 4}, 1, 0);
    kiln_tile_make_nest(&t);
    kiln_block init = kiln_sched_decompose_reduction(&s, t.block, kiln_tile_first_reduce_loop(&t));
    uint32_t before = kiln_sched_trace(&s)->count;
    kiln_tile_tensorize(&t, init);
    expect_lines(&s, before, "tensorize(dot.n.2, \"sdot\")\nvectorize(dot.init.n.2)\n");
    expect_sound(&s, te);
}

static void panels_are_fetched_ahead_while_the_innermost_reduction_runs(void **state) {
    const kiln_program *te = conv_program(*state, &shape);
    for (uint32_t v = 0; v < 3; v++) {
        const bool taps_outside = v == 1, cuts_taps = v == 2;
        kiln_sched s = kiln_sched_begin(te, &avx2, *state);
        kiln_tiling t = sized(&s, (kiln_tile_options){.taps_outside = taps_outside});
        kiln_buffer packed = kiln_tile_pack_weights(&t);
        kiln_tile_make_nest(&t);
        uint32_t before = kiln_sched_trace(&s)->count;
        kiln_tile_fetch_ahead(&t, packed, cuts_taps);
        expect_lines(&s, before,
                     cuts_taps ? "c5 = categorical(0, 1) = 1\nprefetch(w.read, conv.ic.1.0, c5)\n"
                     : taps_outside
                         ? "c5 = categorical(0, 1) = 1\nprefetch(w.read, conv.ic.0, c5)\n"
                         : "c5 = categorical(0, 1) = 1\nprefetch(w.read, conv.kw, c5)\n");
        expect_sound(&s, te);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(panels_of_weights_come_one_after_the_other),
        test_with_arena(options_change_what_is_innermost),
        test_with_arena(threads_share_what_is_larger),
        test_with_arena(points_and_steps_become_straight_code),
        test_with_arena(lanes_and_steps_become_an_instruction),
        test_with_arena(panels_are_fetched_ahead_while_the_innermost_reduction_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
