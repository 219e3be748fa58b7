/* Layouts whose blocks a schedule decides. */
#include "tests/unit/compiler-core/rules/support.h"

static const conv_shape shape = {1, 8, 6, 6, 16, 3, 3, 1, 1, false};

static void blocks_of_a_dimension_come_innermost(void **state) {
    kiln_sched s = kiln_sched_begin(conv_program(*state, &shape), &avx2, *state);
    kiln_sketch_block_buffer(&s, buffer_of(&s, "x"), 1, kiln_sched_const(4));
    expect_lines(&s, 0, "transform_layout(x, \"d0,d1/{0},d2,d3,d1%{0}\", 4)\n");
    assert_string_equal(layout_of(&s, "x"), "d0,d1/4,d2,d3,d1%4");
}

static void the_innermost_dimension_and_none_stay_as_they_are(void **state) {
    kiln_sched s = kiln_sched_begin(conv_program(*state, &shape), &avx2, *state);
    kiln_sketch_block_buffer(&s, buffer_of(&s, "x"), 3, kiln_sched_const(2));
    kiln_sketch_block_buffer(&s, buffer_of(&s, "x"), -1, kiln_sched_const(2));
    expect_lines(&s, 0, "");
    expect_ok(kiln_sched_end(&s));
}

/* A layout that is part of the task, or that would pad an argument, is refused and nothing else. */
static void what_cannot_be_blocked_is_no_bug(void **state) {
    kiln_sched s = kiln_sched_begin(conv_program(*state, &shape), &avx2, *state);
    s.keeps_refused = true;
    s.program->buffer.data[buffer_of(&s, "x")].pinned = true;
    kiln_sketch_block_buffer(&s, buffer_of(&s, "x"), 1, kiln_sched_const(4));
    kiln_sketch_block_buffer(&s, buffer_of(&s, "y"), 1, kiln_sched_const(5));
    assert_int_equal(s.refused.count, 2);
    expect_contains(s.refused.data[0].reason, "part of the task");
    expect_contains(s.refused.data[1].reason, "would pad it");
    expect_ok(kiln_sched_end(&s));
}

static void pieces_beyond_the_bound_are_counted(void **state) {
    (void)state;
    kiln_layout layout = {0};
    for (uint32_t i = 0; i < KILN_RANK_MAX + 3; i++) kiln_sketch_add_piece(&layout, i, 1, 0);
    assert_int_equal(layout.piece_count, KILN_RANK_MAX + 3);
    assert_int_equal(layout.piece[KILN_RANK_MAX - 1].dim, KILN_RANK_MAX - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(blocks_of_a_dimension_come_innermost),
        test_with_arena(the_innermost_dimension_and_none_stay_as_they_are),
        test_with_arena(what_cannot_be_blocked_is_no_bug),
        test_with_arena(pieces_beyond_the_bound_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
