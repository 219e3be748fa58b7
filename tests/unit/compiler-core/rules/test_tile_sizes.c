/* Sizes that are worth trying: they fit, divide, and the preferred ones follow the caches. */
#include "tests/unit/compiler-core/rules/support.h"

static const conv_shape c2 = {1, 64, 56, 56, 64, 3, 3, 1, 1, true};

/* The instruction of a sampler, which is the last one. */
static const kiln_instruction *last(const kiln_sched *s) {
    const kiln_trace *trace = kiln_sched_trace(s);
    assert_true(trace->count > 0);
    return &trace->instruction[trace->count - 1];
}

static int64_t cell(const kiln_instruction *in, uint32_t row, uint32_t column) {
    uint32_t width = (uint32_t)in->operand[0].factor[0].value;
    return in->operand[1 + row * width + column].factor[0].value;
}

static uint32_t rows_of(const kiln_instruction *in) {
    return (in->operand_count - 1) / (uint32_t)in->operand[0].factor[0].value;
}

static void register_tiles_fit_with_their_operands(void **state) {
    kiln_sched s = kiln_sched_begin(conv_program(*state, &c2), &avx2, *state);
    kiln_tiling t = tiling_of(&s, "conv");
    t.tile = kiln_tile_sample_registers(&t);
    const kiln_instruction *in = last(&s);
    assert_int_equal(in->decision[0], 0);
    assert_true(rows_of(in) > 4);
    for (uint32_t r = 0; r < rows_of(in); r++) {
        int64_t points = cell(in, r, 0) * cell(in, r, 1), vectors = cell(in, r, 2);
        assert_true(points * vectors + vectors + 1 <= avx2.vector_registers);
    }
    /* The best one keeps two units of four cycles busy. */
    assert_true(cell(in, 0, 0) * cell(in, 0, 1) * cell(in, 0, 2) >= 8);
}

/* What VPMADDWD takes of a window is joined once for the rows of a tile, so that tiles are high:
 * its products leave no room for the window's weights anyway, which come from memory. */
static void tiles_of_taps_are_high(void **state) {
    kiln_program *te =
        parsed(*state, "program p\ninput x: i16[1,16,16,17]\nconstant w: i16[16,3,4]\n"
                       "output y: i32[1,16,14,14]\n"
                       "block conv(n:1, g:16, oh:14, ow:14 | kh:3, kw:4): y[n, g, oh, ow] sum= "
                       "i32(x[n, g, oh + kh, ow + kw])*i32(w[g, kh, kw]) init 0i32\n");
    kiln_target target;
    expect_ok(kiln_target_parse(KILN_STR("x86-64-v3"), *state, &target));
    kiln_sched s = kiln_sched_begin(te, &target, *state);
    kiln_tiling t = tiling_of(&s, "conv");
    assert_non_null(t.dot);
    t.tile = kiln_tile_sample_registers(&t);
    assert_int_equal(cell(last(&s), 0, 0), 7);
    assert_int_equal(cell(last(&s), 0, 1), 1);
}

/* Twenty columns of two vectors: 14 and 6 take as long as twice 10, which needs no second code. */
static void tiles_without_a_remainder_are_preferred(void **state) {
    static const conv_shape columns = {1, 32, 1, 20, 16, 1, 1, 1, 0, false};
    kiln_target target = avx2;
    target.vector_registers = 32;
    kiln_sched s = kiln_sched_begin(conv_program(*state, &columns), &target, *state);
    kiln_tiling t = tiling_of(&s, "conv");
    t.tile = kiln_tile_sample_registers(&t);
    assert_int_equal(cell(last(&s), 0, 1), 10);
    assert_int_equal(cell(last(&s), 0, 2), 2);
}

static void without_registers_there_is_no_tile(void **state) {
    kiln_target target = avx2;
    target.vector_registers = 2;
    kiln_sched s = kiln_sched_begin(conv_program(*state, &c2), &target, *state);
    kiln_tiling t = tiling_of(&s, "conv");
    assert_int_equal(kiln_tile_sample_registers(&t).instruction, 0);
    expect_ok(kiln_sched_end(&s));
}

static void steps_divide_the_reduction_and_are_unrolled_in_whole_parts(void **state) {
    kiln_sched s = kiln_sched_begin(conv_program(*state, &c2), &avx2, *state);
    kiln_tiling t = tiling_of(&s, "conv");
    kiln_tile_sample_steps(&t);
    const kiln_instruction *in = last(&s);
    for (uint32_t r = 0; r < rows_of(in); r++) {
        assert_int_equal(64 % cell(in, r, 0), 0);
        assert_int_equal(cell(in, r, 0) % cell(in, r, 1), 0);
        assert_int_equal(cell(in, r, 2), cell(in, r, 0) > 1 ? 1 : 8);
    }
    uint32_t preferred = (uint32_t)in->decision[0];
    assert_int_equal(cell(in, preferred, 0), 8); /* a vector of channels */
    assert_int_equal(cell(in, preferred, 1), 4); /* there are taps around them */
}

static void steps_of_an_instruction_are_whole_ones(void **state) {
    kiln_target target;
    expect_ok(kiln_target_parse(KILN_STR("rpi5"), *state, &target));
    kiln_sched s = kiln_sched_begin(bytes_program(*state, 4, 8, 32), &target, *state);
    kiln_tiling t = tiling_of(&s, "dot");
    kiln_tile_sample_steps(&t);
    const kiln_instruction *in = last(&s);
    assert_int_equal(in->operand[0].factor[0].value, 4);
    for (uint32_t r = 0; r < rows_of(in); r++) {
        assert_int_equal(cell(in, r, 0) % 4, 0);
        assert_int_equal(cell(in, r, 1) % 4, 0);
        assert_int_equal(cell(in, r, 3), cell(in, r, 0) / 4);
    }
}

static void parts_of_a_panel_stay_in_the_second_cache(void **state) {
    static const conv_shape c12 = {1, 512, 7, 7, 512, 3, 3, 1, 1, true};
    kiln_sched s = kiln_sched_begin(conv_program(*state, &c12), &avx2, *state);
    kiln_tiling t = tiling_of(&s, "conv");
    assert_true(kiln_tile_wants_parts(&t));
    kiln_tile_sample_parts(&t);
    const kiln_instruction *in = last(&s);
    for (uint32_t r = 0; r < rows_of(in); r++)
        assert_int_equal(cell(in, r, 0) * cell(in, r, 1), 512);
    /* 512*9*2 vectors of 32 bytes: 288 KiB; a quarter of 512 KiB takes a half, not the whole */
    assert_int_equal(cell(in, (uint32_t)in->decision[0], 1), 4);
    s = kiln_sched_begin(conv_program(*state, &c2), &avx2, *state);
    t = tiling_of(&s, "conv");
    assert_false(kiln_tile_wants_parts(&t));
}

/* 64 KiB of weights, 147 KiB of data. */
static void what_fits_the_second_cache_stays_there(void **state) {
    static const conv_shape shape = {1, 64, 24, 24, 256, 1, 1, 1, 0, false};
    kiln_target target = avx2;
    target.l2_bytes = 256 << 10;
    kiln_sched s = kiln_sched_begin(conv_program(*state, &shape), &target, *state);
    kiln_tiling t = tiling_of(&s, "conv");
    assert_true(kiln_tile_operand_bytes(&t, t.weights) == 64 << 10);
    assert_true(kiln_tile_keeps_weights(&t));
    assert_true(kiln_tile_fetches_ahead(&t)); /* but is elsewhere when the kernel starts */
    assert_int_equal(kiln_tile_rows_a_round(&t, kiln_sched_loop_of(&s, t.block, 2)), 10);
    target.l2_bytes = 512 << 10;
    assert_false(kiln_tile_fetches_ahead(&t));
    target.l2_bytes = 64 << 10; /* now neither does */
    assert_false(kiln_tile_keeps_weights(&t));
    assert_true(kiln_tile_fetches_ahead(&t));
    assert_int_equal(kiln_tile_rows_a_round(&t, kiln_sched_loop_of(&s, t.block, 2)), 4);
}

/* The block that readers and writers prefer alike: a vector of channels, or what divides them. */
static void blocks_of_channels_divide_them(void **state) {
    static const struct {
        int64_t channels, preferred;
    } of[] = {{64, 8}, {24, 8}, {20, 4}, {6, 6}};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        kiln_sched s = kiln_sched_begin(conv_program(*state, &c2), &avx2, *state);
        kiln_tiling t = tiling_of(&s, "conv");
        kiln_tile_sample_block(&t, of[i].channels);
        const kiln_instruction *in = last(&s);
        for (uint32_t k = 0; k < in->operand_count; k++)
            assert_int_equal(of[i].channels % in->operand[k].factor[0].value, 0);
        assert_int_equal(in->operand[in->decision[0]].factor[0].value, of[i].preferred);
    }
}

static void rounds_have_no_remainder(void **state) {
    kiln_sched s = kiln_sched_begin(conv_program(*state, &c2), &avx2, *state);
    kiln_tiling t = tiling_of(&s, "conv");
    kiln_tile_loops rows = kiln_tile_split_rounds(&t, kiln_sched_loop_of(&s, t.block, 2), 10);
    assert_int_equal(kiln_sched_extent(&s, rows.rounds), 7);
    assert_int_equal(kiln_sched_extent(&s, rows.tiles), 8);
    expect_lines(&s, 0,
                 "t0 = perfect_tile(conv.oh, 2, 1000000) = [7, 8]\n"
                 "split(conv.oh, t0[0], t0[1])\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(register_tiles_fit_with_their_operands),
        test_with_arena(tiles_of_taps_are_high),
        test_with_arena(tiles_without_a_remainder_are_preferred),
        test_with_arena(without_registers_there_is_no_tile),
        test_with_arena(steps_divide_the_reduction_and_are_unrolled_in_whole_parts),
        test_with_arena(steps_of_an_instruction_are_whole_ones),
        test_with_arena(parts_of_a_panel_stay_in_the_second_cache),
        test_with_arena(what_fits_the_second_cache_stays_there),
        test_with_arena(blocks_of_channels_divide_them),
        test_with_arena(rounds_have_no_remainder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
