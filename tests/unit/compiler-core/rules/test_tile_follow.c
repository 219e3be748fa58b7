/* What takes a reduction's result out of registers. */
#include "tests/unit/compiler-core/rules/support.h"

static const conv_shape with_epilogue = {1, 16, 6, 6, 16, 1, 1, 1, 0, true},
                        without = {1, 16, 6, 6, 16, 1, 1, 1, 0, false};

static void the_only_reader_follows(void **state) {
    kiln_sched s = kiln_sched_begin(conv_program(*state, &with_epilogue), &avx2, *state);
    kiln_tiling t = tiling_of(&s, "conv");
    kiln_block follower = kiln_sketch_separate_result(&s, t.block, KILN_SCOPE_REGISTER);
    assert_int_equal(follower, block_of(&s, "bias"));
    expect_lines(&s, 0, "");
}

static void an_output_is_written_through_a_copy(void **state) {
    kiln_sched s = kiln_sched_begin(conv_program(*state, &without), &avx2, *state);
    kiln_tiling t = tiling_of(&s, "conv");
    kiln_block follower = kiln_sketch_separate_result(&s, t.block, KILN_SCOPE_REGISTER);
    assert_int_equal(follower, block_of(&s, "conv.write"));
    expect_lines(&s, 0, "cache_write(conv, \"register\")\n");
    expect_ok(kiln_sched_end(&s));
}

static const char product[] =
    "program p\ninput x: f32[16,8]\nconstant w: f32[8,16]\n"
    "temp s: f32[16,16]\noutput y: f32[16,16]\noutput z: f32[16,16]\n"
    "block conv(i:16, j:16 | k:8): s[i, j] sum= x[i, k]*w[k, j] init 0.0\n";

/* Two readers, one that reads every element in several places, one that wants parts side by side.
 */
static void other_readers_do_not_follow(void **state) {
    static const char *const readers[] = {
        "block y(i:16, j:16): y[i, j] = s[i, j]\nblock z(i:16, j:16): z[i, j] = s[i, j]\n",
        "block y(i:16, j:16): y[i, j] = s[i, i]\nblock z(i:16, j:16): z[i, j] = x[i, 0]\n",
        "block y(i:16, j:8): y[i, j] = s[i, j] + s[i, j + 8]\n"
        "block z(i:16, j:16): z[i, j] = x[i, 0]\n",
    };
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++) {
        const char *text = kiln_arena_printf(*state, "%s%s", product, readers[i]);
        kiln_sched s = kiln_sched_begin(parsed(*state, text), &avx2, *state);
        kiln_tiling t = tiling_of(&s, "conv");
        kiln_block follower = kiln_sketch_separate_result(&s, t.block, KILN_SCOPE_REGISTER);
        assert_int_equal(follower, block_of(&s, "conv.write"));
    }
}

/* A reader in strides of 4 gets iterators of its own for them, and follows. */
static void readers_in_strides_are_divided(void **state) {
    const kiln_program *te = parsed(
        *state, "program p\ninput x: f32[4,4,8]\nconstant w: f32[8,16]\ntemp s: f32[4,4,16]\n"
                "output y: f32[16,16]\n"
                "block conv(a:4, b:4, j:16 | k:8): s[a, b, j] sum= x[a, b, k]*w[k, j] init 0.0\n"
                "block y(i:16, j:16): y[i, j] = s[floordiv(i, 4), floormod(i, 4), j]\n");
    kiln_sched s = kiln_sched_begin(te, &avx2, *state);
    kiln_tiling t = tiling_of(&s, "conv");
    kiln_block follower = kiln_sketch_separate_result(&s, t.block, KILN_SCOPE_REGISTER);
    assert_int_equal(follower, block_of(&s, "y"));
    expect_lines(&s, 0, "divide(y, \"i\", 4)\n");
    expect_sound(&s, te);
}

/* Lanes contiguous, everything else unrolled: the accumulators have no address. */
static void followers_run_in_lanes_at_the_tile(void **state) {
    const kiln_program *te = conv_program(*state, &with_epilogue);
    kiln_sched s = kiln_sched_begin(te, &avx2, *state);
    kiln_tiling t = tiling_of(&s, "conv");
    t.tile = kiln_sched_choice(&s, 3, (int64_t[]){1, 2, 2}, 1, 0);
    t.steps = kiln_sched_choice(&s, 3, (int64_t[]){8, 4, 1}, 1, 0);
    kiln_sched_inline(&s, block_of(&s, "bias"));
    const kiln_sched_loops outer = kiln_tile_make_nest(&t);
    uint32_t before = kiln_sched_trace(&s)->count;
    kiln_tile_place_follower(&t, block_of(&s, "relu"), outer.loop[outer.count - 1]);
    expect_lines(&s, before,
                 "reverse_compute_at(relu, conv.ow.0.1)\n"
                 "split(relu.c, -1, 8)\n"
                 "reorder(relu.n, relu.h, relu.w, relu.c.0, relu.c.1)\n"
                 "vectorize(relu.c.1)\n"
                 "unroll(relu.c.0)\n"
                 "unroll(relu.n)\n"
                 "unroll(relu.h)\n"
                 "unroll(relu.w)\n");
    expect_sound(&s, te);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(the_only_reader_follows),
        test_with_arena(an_output_is_written_through_a_copy),
        test_with_arena(other_readers_do_not_follow),
        test_with_arena(readers_in_strides_are_divided),
        test_with_arena(followers_run_in_lanes_at_the_tile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
