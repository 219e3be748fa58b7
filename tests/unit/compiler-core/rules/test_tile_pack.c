/* Layouts around a tile: weights in the order in which they are read, data and results in blocks.
 */
#include "tests/unit/compiler-core/rules/support.h"

static const conv_shape shape = {1, 16, 6, 6, 20, 3, 3, 1, 1, true};

/* A tiling whose sizes are decided: tiles of 2 vectors, blocks of 8 steps. */
static kiln_tiling sized(kiln_sched *s, kiln_tile_options options) {
    kiln_tiling t = tiling_of(s, "conv");
    t.options = options;
    t.tile = kiln_sched_choice(s, 3, (int64_t[]){1, 3, 2}, 1, 0);
    t.steps = kiln_sched_choice(s, 3, (int64_t[]){8, 4, 1}, 1, 0);
    return t;
}

/* 20 channels are padded to two vectors of 8; in a panel come blocks of 8 input channels, the taps,
 * the channels of a block, the panel's row. */
static void weights_lie_in_the_order_of_the_nest(void **state) {
    const kiln_program *te = conv_program(*state, &shape);
    kiln_sched s = kiln_sched_begin(te, &avx2, *state);
    kiln_tiling t = sized(&s, (kiln_tile_options){0});
    kiln_buffer packed = kiln_tile_pack_weights(&t);
    assert_int_equal(packed, buffer_of(&s, "w.read"));
    expect_lines(
        &s, 2,
        "cache_read(conv, w, \"global\")\n"
        "pad(w.read, \"d0\", c0[2]*8)\n"
        "transform_layout(w.read, \"d0/{0},d1/{1},d2,d3,d1%{1},d0%{0}\", c0[2]*8, c1[0])\n");
    assert_string_equal(layout_of(&s, "w.read"), "d0/16,d1/8,d2,d3,d1%8,d0%16");
    assert_int_equal(s.program->buffer.data[buffer_of(&s, "w.read")].shape.dim[0], 32);
    expect_sound(&s, te);
}

static void taps_outside_come_before_the_blocks(void **state) {
    kiln_sched s = kiln_sched_begin(conv_program(*state, &shape), &avx2, *state);
    kiln_tiling t = sized(&s, (kiln_tile_options){.taps_outside = true});
    kiln_tile_pack_weights(&t);
    assert_string_equal(layout_of(&s, "w.read"), "d0/16,d2,d3,d1/8,d1%8,d0%16");
}

/* Points of transforms, groups of channels: each has weights of its own, which lie behind one
 * another. */
static void what_has_weights_of_its_own_is_outermost(void **state) {
    const kiln_program *te =
        parsed(*state, "program p\ninput x: f32[3,2,16,6]\nconstant w: f32[3,2,20,16]\n"
                       "output y: f32[3,2,20,6]\n"
                       "block conv(p:3, q:2, oc:20, t:6 | ic:16): y[p, q, oc, t] sum= "
                       "x[p, q, ic, t]*w[p, q, oc, ic] init 0.0\n");
    kiln_sched s = kiln_sched_begin(te, &avx2, *state);
    kiln_tiling t = sized(&s, (kiln_tile_options){0});
    kiln_tile_pack_weights(&t);
    assert_string_equal(layout_of(&s, "w.read"), "d0,d1,d2/16,d3/8,d3%8,d2%16");
    expect_sound(&s, te);
}

/* Four steps of each lane lie behind one another for an instruction that takes four. */
static void weights_of_an_instruction_keep_its_steps_together(void **state) {
    kiln_target target;
    expect_ok(kiln_target_parse(KILN_STR("rpi5"), *state, &target));
    kiln_sched s = kiln_sched_begin(bytes_program(*state, 4, 8, 32), &target, *state);
    kiln_tiling t = tiling_of(&s, "dot");
    t.tile = kiln_sched_choice(&s, 3, (int64_t[]){1, 2, 2}, 1, 0);
    t.steps = kiln_sched_choice(&s, 4, (int64_t[]){16, 4, 1, 4}, 1, 0);
    kiln_tile_pack_weights(&t);
    assert_string_equal(layout_of(&s, "w.read"), "d0/8,d1/16,d1/4%4,d0%8,d1%4");
}

/* Phases of a transposed convolution leave no dimension for blocks of k as well. */
static void weights_of_phases_keep_the_steps_of_an_instruction_together(void **state) {
    kiln_target target;
    expect_ok(kiln_target_parse(KILN_STR("rpi5"), *state, &target));
    const kiln_program *te = parsed(
        *state, "program t\ninput x: i8[1,16,6,10]\nconstant w: i8[16,16,4,4]\n"
                "output s: i32[1,16,2,2,4,8]\n"
                "block dot(n:1, oc:16, ph:2, pw:2, oh:4, ow:8 | ic:16, kh:2, kw:2): "
                "s[n, oc, ph, pw, oh, ow] sum= i32(x[n, ic, oh + floordiv(ph + 1, 2) + kh, "
                "ow + floordiv(pw + 1, 2) + kw])*i32(w[ic, oc, floormod(ph + 1, 2) + (kh*-2 + 2), "
                "floormod(pw + 1, 2) + (kw*-2 + 2)]) init 0i32\n");
    kiln_sched s = kiln_sched_begin(te, &target, *state);
    kiln_tiling t = tiling_of(&s, "dot");
    t.tile = kiln_sched_choice(&s, 3, (int64_t[]){1, 2, 2}, 1, 0);
    t.steps = kiln_sched_choice(&s, 4, (int64_t[]){16, 4, 1, 4}, 1, 0);
    kiln_tile_pack_weights(&t);
    assert_string_equal(layout_of(&s, "w.read"), "d1/8,d2/2,d3/2,d2%2,d3%2,d0/4,d1%8,d0%4");
    expect_sound(&s, te);
}

/* The padded copy is blocked, and the argument that it copies alike. */
static void data_is_blocked_together_with_what_it_copies(void **state) {
    const kiln_program *te = conv_program(*state, &shape);
    kiln_sched s = kiln_sched_begin(te, &avx2, *state);
    kiln_tiling t = sized(&s, (kiln_tile_options){0});
    kiln_block copy = kiln_tile_block_data(&t, t.k, kiln_sched_element(t.steps, 0));
    assert_int_equal(copy, block_of(&s, "pad"));
    assert_string_equal(layout_of(&s, "xp"), "d0,d1/8,d2,d3,d1%8");
    assert_string_equal(layout_of(&s, "x"), "d0,d1/8,d2,d3,d1%8");
    expect_sound(&s, te);
}

static void data_without_a_copy_has_no_copy(void **state) {
    static const conv_shape whole = {1, 16, 6, 6, 16, 1, 1, 1, 0, false};
    kiln_sched s = kiln_sched_begin(conv_program(*state, &whole), &avx2, *state);
    kiln_tiling t = sized(&s, (kiln_tile_options){0});
    assert_int_equal(kiln_tile_block_data(&t, t.k, kiln_sched_const(8)), 0);
    assert_string_equal(layout_of(&s, "x"), "d0,d1/8,d2,d3,d1%8");
}

/* The result, and an argument that is added to it element by element; a bias has one dimension. */
static void results_are_blocked_with_what_is_added_to_them(void **state) {
    kiln_program *te =
        parsed(*state,
               "program p\ninput x: f32[1,16,6,6]\nconstant w: f32[16,16]\ninput z: f32[1,16,6,6]\n"
               "temp s: f32[1,16,6,6]\noutput y: f32[1,16,6,6]\n"
               "block conv(n:1, oc:16, h:6, w:6 | ic:16): s[n, oc, h, w] sum= "
               "x[n, ic, h, w]*w[oc, ic] init 0.0\n"
               "block add(n:1, c:16, h:6, w:6): y[n, c, h, w] = s[n, c, h, w] + z[n, c, h, w]\n");
    kiln_sched s = kiln_sched_begin(te, &avx2, *state);
    kiln_tiling t = sized(&s, (kiln_tile_options){0});
    const kiln_sched_int size = kiln_sched_const(4);
    kiln_tile_block_output(&t, block_of(&s, "add"), &size);
    assert_string_equal(layout_of(&s, "y"), "d0,d1/4,d2,d3,d1%4");
    assert_string_equal(layout_of(&s, "z"), "d0,d1/4,d2,d3,d1%4");
    assert_string_equal(layout_of(&s, "x"), "row");
    expect_sound(&s, te);
}

static void accumulators_are_registers_with_lanes_innermost(void **state) {
    kiln_sched s = kiln_sched_begin(conv_program(*state, &shape), &avx2, *state);
    kiln_tiling t = tiling_of(&s, "conv");
    kiln_tile_place_accumulators(&t);
    expect_lines(&s, 0,
                 "set_scope(sum, \"register\")\n"
                 "transform_layout(sum, \"d0,d2,d3,d1\")\n");
    expect_ok(kiln_sched_end(&s));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(weights_lie_in_the_order_of_the_nest),
        test_with_arena(taps_outside_come_before_the_blocks),
        test_with_arena(what_has_weights_of_its_own_is_outermost),
        test_with_arena(weights_of_an_instruction_keep_its_steps_together),
        test_with_arena(weights_of_phases_keep_the_steps_of_an_instruction_together),
        test_with_arena(data_is_blocked_together_with_what_it_copies),
        test_with_arena(data_without_a_copy_has_no_copy),
        test_with_arena(results_are_blocked_with_what_is_added_to_them),
        test_with_arena(accumulators_are_registers_with_lanes_innermost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
