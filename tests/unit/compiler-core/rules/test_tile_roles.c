/* Lanes, rows, columns and steps, told from what is read and written alone. */
#include "tests/unit/compiler-core/rules/support.h"

static const char depthwise[] =
    "program depthwise\ninput x: f32[1,12,8,9]\nconstant w: f32[12,1,3,3]\n"
    "output y: f32[1,12,6,7]\n"
    "block conv(n:1, g:12, oh:6, ow:7 | kh:3, kw:3): y[n, g, oh, ow] sum= "
    "x[n, g, oh + kh, ow + kw]*w[g, 0, kh, kw] init 0.0\n";
static const char grouped[] =
    "program grouped\ninput x: f32[1,6,7,9]\nconstant w: f32[33,2,3,3]\noutput y: f32[1,33,5,7]\n"
    "block conv(n:1, g:3, oc:11, oh:5, ow:7 | ic:2, kh:3, kw:3): y[n, g*11 + oc, oh, ow] sum= "
    "x[n, g*2 + ic, oh + kh, ow + kw]*w[g*11 + oc, ic, kh, kw] init 0.0\n";

/* n oc oh ow | ic kh kw */
static void convolutions_have_packed_weights_along_output_channels(void **state) {
    static const conv_shape shape = {1, 8, 6, 7, 16, 3, 3, 1, 1, false};
    kiln_sched s = kiln_sched_begin(conv_program(*state, &shape), &avx2, *state);
    kiln_tiling t = tiling_of(&s, "conv");
    assert_true(t.packs);
    assert_int_equal(t.pattern.from[t.weights].buffer, buffer_of(&s, "w"));
    assert_int_equal(t.pattern.from[t.data].buffer, buffer_of(&s, "xp"));
    assert_int_equal(t.v, 1);
    assert_int_equal(t.mh, 2);
    assert_int_equal(t.mw, 3);
    assert_int_equal(t.k, 4);
    assert_int_equal(t.tap, -1);
    assert_int_equal(t.lanes, 8);
    assert_null(t.dot);
    assert_true(kiln_tile_can_pad(&t));
}

/* n g oh ow | kh kw: lanes that all operands share; columns of the window slide over the tile. */
static void depthwise_convolutions_have_shared_lanes_and_a_tap(void **state) {
    kiln_sched s = kiln_sched_begin(parsed(*state, depthwise), &avx2, *state);
    kiln_tiling t = tiling_of(&s, "conv");
    assert_false(t.packs);
    assert_int_equal(t.v, 1);
    assert_int_equal(t.mh, 2);
    assert_int_equal(t.mw, 3);
    assert_int_equal(t.k, -1);
    assert_int_equal(t.tap, 5);
}

/* n g oc oh ow | ic kh kw: oc does not run over a whole dimension. */
static void groups_cannot_be_padded(void **state) {
    kiln_sched s = kiln_sched_begin(parsed(*state, grouped), &avx2, *state);
    kiln_tiling t = tiling_of(&s, "conv");
    assert_true(t.packs);
    assert_int_equal(t.v, 2);
    assert_false(kiln_tile_can_pad(&t));
}

static void products_of_rows_have_columns_only(void **state) {
    kiln_sched s = kiln_sched_begin(matmul_program(*state, 12, 24, 10), &avx2, *state);
    kiln_tiling t = tiling_of(&s, "matmul");
    assert_int_equal(t.v, 1);
    assert_int_equal(t.mh, -1);
    assert_int_equal(t.mw, 0);
    assert_int_equal(t.k, 2);
    t.given_v = 0; /* lanes that somebody else has chosen */
    assert_true(kiln_tile_choose_roles(&t));
    assert_int_equal(t.v, 0);
    assert_int_equal(t.mw, 1);
}

static void one_result_has_no_lanes(void **state) {
    kiln_program *p = parsed(*state, "program p\ninput x: f32[64]\noutput y: f32[1]\n"
                                     "block y(i:1 | k:64): y[i] sum= x[k] init 0.0\n");
    kiln_sched s = kiln_sched_begin(p, &avx2, *state);
    kiln_tiling t = {.s = &s, .block = 1, .given_v = -1};
    assert_false(kiln_tile_choose_roles(&t));
}

/* Bytes that are summed up by an instruction, unless the options say no or the steps do not fit. */
static void intrinsics_are_found_where_they_do_what_is_computed(void **state) {
    kiln_target target;
    expect_ok(kiln_target_parse(KILN_STR("rpi5"), *state, &target));
    kiln_sched s = kiln_sched_begin(bytes_program(*state, 4, 8, 16), &target, *state);
    kiln_tiling t = tiling_of(&s, "dot");
    assert_non_null(t.dot);
    assert_string_equal(t.dot->name, "sdot");
    assert_int_equal(kiln_tile_stride(&t), 4);
    t.options.plain = true;
    assert_true(kiln_tile_choose_roles(&t));
    assert_null(t.dot);
    assert_int_equal(kiln_tile_stride(&t), 1);
    s = kiln_sched_begin(bytes_program(*state, 4, 8, 18), &target, *state);
    assert_null(tiling_of(&s, "dot").dot);
    s = kiln_sched_begin(bytes_program(*state, 4, 8, 16), &avx2, *state);
    assert_null(tiling_of(&s, "dot").dot);
}

static void followers_have_the_lanes_of_what_they_read(void **state) {
    static const conv_shape shape = {1, 8, 6, 7, 16, 3, 3, 1, 0, true};
    kiln_sched s = kiln_sched_begin(conv_program(*state, &shape), &avx2, *state);
    kiln_tiling t = tiling_of(&s, "conv");
    kiln_pattern follower;
    assert_true(kiln_pattern_of(s.program, block_of(&s, "bias"), &follower));
    assert_int_equal(kiln_tile_lanes_of(&t, &follower), 1);
    assert_true(kiln_pattern_of(s.program, block_of(&s, "relu"), &follower));
    assert_int_equal(kiln_tile_lanes_of(&t, &follower), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(convolutions_have_packed_weights_along_output_channels),
        test_with_arena(depthwise_convolutions_have_shared_lanes_and_a_tap),
        test_with_arena(groups_cannot_be_padded),
        test_with_arena(products_of_rows_have_columns_only),
        test_with_arena(one_result_has_no_lanes),
        test_with_arena(intrinsics_are_found_where_they_do_what_is_computed),
        test_with_arena(followers_have_the_lanes_of_what_they_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
