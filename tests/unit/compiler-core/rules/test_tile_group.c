/* Reductions between transforms, in groups of rows of tiles. */
#include <string.h>

#include "compiler-core/ir/ir_text.h"
#include "compiler-core/rules/space.h"
#include "tests/unit/compiler-core/sched/support.h"

#define F_4_3 KILN_ALGORITHM_WINOGRAD_4X4_3X3

static kiln_space space_for(const kiln_program *te, uint32_t threads, kiln_arena *arena) {
    kiln_space space;
    kiln_target *target = KILN_ARENA_NEW(arena, kiln_target);
    *target = avx2_target(threads);
    expect_ok(kiln_space_create(te, target, arena, &space));
    return space;
}

static kiln_space space_of(conv_shape shape, uint32_t threads, kiln_arena *arena) {
    return space_for(conv_program(arena, &shape), threads, arena);
}

/* What the preferred traces of `algorithm` with and without "apart" say; "" for none. */
static kiln_str text_by(kiln_algorithm algorithm, const kiln_space *space, bool apart,
                        kiln_arena *arena) {
    for (uint32_t i = 0; i < space->sketch_count; i++) {
        const kiln_sketch *sketch = &space->sketch[i];
        if (kiln_trace_algorithm(&sketch->preferred) != algorithm) continue;
        if ((strstr(sketch->options, "apart") != NULL) != apart) continue;
        kiln_strbuf text = {0};
        kiln_trace_print(&sketch->preferred, &text);
        return kiln_strbuf_end(&text, arena);
    }
    return KILN_STR("");
}

static kiln_str text_of(const kiln_space *space, bool apart, kiln_arena *arena) {
    return text_by(F_4_3, space, apart, arena);
}

static bool has(kiln_str text, const char *part) {
    return memmem(text.data, text.size, part, strlen(part)) != NULL;
}

static void a_group_is_transformed_multiplied_and_transformed_back(void **state) {
    const kiln_space space = space_of(square_conv(32, 32), 1, *state);
    const kiln_str grouped = text_of(&space, false, *state), apart = text_of(&space, true, *state);
    assert_true(has(grouped, "compute_at(conv.products, conv.oh.0.0)\n"));
    assert_true(has(grouped, "compute_at(conv.tiles, conv.oh.0.0)\n"));
    assert_true(apart.size > 0);
    assert_false(has(apart, "compute_at(conv.products, "));
}

/* Multiples of a step are scaled once, where they are taken out of registers, not in each place
 * where the transform reads them. */
static void sums_of_multiples_are_scaled_once(void **state) {
    const kiln_space space = space_of(square_conv(14, 64), 1, *state);
    const kiln_str text = text_by(KILN_ALGORITHM_WINOGRAD_2X2_3X3_FIXED, &space, false, *state);
    assert_true(has(text, "reverse_compute_at(conv.products, conv.products.products."));
    assert_false(has(text, "inline(conv.products)"));
}

/* Each has its own; where their number leaves a thread without work, what is inside of them is
 * shared. The other way is a sketch as well. */
static void threads_share_groups_or_what_is_inside(void **state) {
    const kiln_space even = space_of(square_conv(32, 32), 2, *state);
    const kiln_str groups = text_of(&even, false, *state);
    assert_true(has(groups, "fuse(conv.n, conv.oh.0.0)\nparallel(conv.n.f)\n"));
    assert_true(has(groups, "compute_at(conv.products, conv.n.f)\n"));
    assert_false(has(groups, "parallel(conv.products"));
    const kiln_space odd = space_of(square_conv(20, 32), 2, *state);
    const kiln_str inside = text_of(&odd, false, *state);
    assert_true(has(inside, "compute_at(conv.products, conv.oh.0.0)\n"));
    assert_true(has(inside, "parallel(conv.products.p)\n"));
    uint32_t other = 0;
    for (uint32_t i = 0; i < odd.sketch_count; i++)
        other += strstr(odd.sketch[i].options, "other shares") != NULL;
    assert_true(other > 0);
}

/* Groups are of rows of tiles of one image. */
static void images_of_a_batch_have_groups_of_their_own(void **state) {
    conv_shape shape = square_conv(32, 16);
    shape.n = 3;
    for (uint32_t threads = 1; threads <= 2; threads++) {
        const kiln_space space = space_of(shape, threads, *state);
        const kiln_str text = text_of(&space, false, *state);
        assert_true(has(text, threads == 1 ? "compute_at(conv.products, conv.oh.0.0)\n"
                                           : "compute_at(conv.products, conv.n.f)\n"));
    }
}

/* Its transforms have lanes over images, which then are inside of channels. */
static void longer_batches_than_channels_have_no_groups(void **state) {
    conv_shape shape = square_conv(32, 16);
    shape.n = 20;
    shape.oc = 13;
    const kiln_space space = space_of(shape, 1, *state);
    assert_int_equal(text_of(&space, true, *state).size, 0);
    assert_true(text_of(&space, false, *state).size > 0);
    assert_false(has(text_of(&space, false, *state), "compute_at(conv.products, "));
}

/* Channels that no vector divides are padded inside of the groups. */
static void channels_of_a_group_are_padded(void **state) {
    conv_shape shape = square_conv(24, 16);
    shape.oc = 13;
    const kiln_space space = space_of(shape, 1, *state);
    const kiln_str text = text_of(&space, false, *state);
    assert_true(has(text, "compute_at(conv.products, conv.oh.0.0)\npad(conv.products, \"oc\", "));
    assert_true(has(text, "reverse_compute_at(conv.products.write, conv.products."));
}

/* Whatever is drawn computes the convolution or is refused. `by`: of this algorithm alone; DIRECT:
 * of all others. */
static void draws_compute(kiln_space space, kiln_algorithm by, kiln_arena *arena) {
    kiln_rand rand;
    kiln_rand_init(&rand, 11);
    for (uint32_t k = 0; k < space.sketch_count; k++)
        for (uint32_t draw = 0; draw < 3; draw++) {
            const kiln_algorithm algorithm = kiln_trace_algorithm(&space.sketch[k].open);
            kiln_program *p = NULL;
            kiln_trace closed;
            if (algorithm == KILN_ALGORITHM_DIRECT || (by && algorithm != by)) break;
            kiln_status st =
                kiln_trace_replay(&space.sketch[k].open, space.te, &rand, arena, &p, &closed);
            if (kiln_status_code(st) == KILN_ILLEGAL_SCHEDULE)
                kiln_status_free(st);
            else
                expect_ok(st ? st : same_result_by(algorithm, space.te, p, arena));
        }
}

/* Groups that leave a last one smaller, rows of tiles that registers do not divide, channels that
 * vectors do not. */
static void draws_compute_the_convolution(void **state) {
    for (uint32_t threads = 1; threads <= 2; threads++) {
        draws_compute(space_of(square_conv(24, 16), threads, *state), KILN_ALGORITHM_DIRECT,
                      *state);
        draws_compute(space_of(square_conv(20, 8), threads, *state), KILN_ALGORITHM_DIRECT, *state);
        conv_shape batch = square_conv(13, 12);
        batch.n = 2;
        batch.oc = 11;
        draws_compute(space_of(batch, threads, *state), KILN_ALGORITHM_DIRECT, *state);
    }
}

/* Phases of two taps each are channels. */
static void draws_compute_phases_of_equally_many_taps(void **state) {
    conv_shape shape = square_conv(20, 16);
    shape.kh = shape.kw = 4;
    shape.stride = 2;
    const kiln_space space = space_of(shape, 1, *state);
    assert_true(text_by(KILN_ALGORITHM_WINOGRAD_3X3_2X2, &space, false, *state).size > 0);
    draws_compute(space, KILN_ALGORITHM_WINOGRAD_3X3_2X2, *state);
}

/* Phases of two taps and of one; the last tiles are cut. */
static void draws_compute_strided_convolutions(void **state) {
    conv_shape shape = square_conv(21, 16);
    shape.stride = 2;
    for (uint32_t threads = 1; threads <= 2; threads++) {
        const kiln_space space = space_of(shape, threads, *state);
        const kiln_algorithm tried[] = {KILN_ALGORITHM_WINOGRAD_2X2_3X3_STRIDE2,
                                        KILN_ALGORITHM_WINOGRAD_4X4_3X3_STRIDE2};
        for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++) {
            assert_true(text_by(tried[i], &space, false, *state).size > 0);
            draws_compute(space, tried[i], *state);
        }
    }
}

static void draws_of_multiples_compute_the_convolution(void **state) {
    conv_shape shape = square_conv(5, 64);
    shape.oc = 16;
    draws_compute(space_of(shape, 1, *state), KILN_ALGORITHM_WINOGRAD_2X2_3X3_FIXED, *state);
}

/* Its phases are put between each other in vectors of channels. */
static void phases_of_a_transposed_convolution_are_tiled(void **state) {
    static const kiln_algorithm tried[] = {KILN_ALGORITHM_WINOGRAD_2X2_2X2,
                                           KILN_ALGORITHM_WINOGRAD_4X4_2X2};
    kiln_program *te = NULL;
    expect_ok(kiln_program_parse(
        KILN_STR("program t\ninput x: f32[1,16,6,10]\nconstant w: f32[16,16,4,4]\n"
                 "temp s: f32[1,16,2,2,4,8]\noutput y: f32[1,16,8,16]\n"
                 "block conv(n:1, oc:16, ph:2, pw:2, oh:4, ow:8 | ic:16, kh:2, kw:2): "
                 "s[n, oc, ph, pw, oh, ow] sum= x[n, ic, oh + floordiv(ph + 1, 2) + kh, "
                 "ow + floordiv(pw + 1, 2) + kw]*w[ic, oc, floormod(ph + 1, 2) + (kh*-2 + 2), "
                 "floormod(pw + 1, 2) + (kw*-2 + 2)] init 0.0\n"
                 "block join(i:1, j:16, k:8, l:16): y[i, j, k, l] = s[i, j, floormod(k, 2), "
                 "floormod(l, 2), floordiv(k, 2), floordiv(l, 2)]\n"),
        *state, &te));
    const kiln_space space = space_for(te, 1, *state);
    for (size_t i = 0; i < sizeof tried / sizeof tried[0]; i++) {
        const kiln_str text = text_by(tried[i], &space, false, *state);
        assert_true(has(text, "transform_layout(y, \"d0,d1/{0},d2,d3,d1%{0}\", 8)\n"));
        assert_true(has(text, "reverse_compute_at(conv.products.write, conv.products."));
        draws_compute(space, tried[i], *state);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_group_is_transformed_multiplied_and_transformed_back),
        test_with_arena(sums_of_multiples_are_scaled_once),
        test_with_arena(threads_share_groups_or_what_is_inside),
        test_with_arena(images_of_a_batch_have_groups_of_their_own),
        test_with_arena(longer_batches_than_channels_have_no_groups),
        test_with_arena(channels_of_a_group_are_padded),
        test_with_arena(draws_compute_the_convolution),
        test_with_arena(draws_compute_strided_convolutions),
        test_with_arena(draws_compute_phases_of_equally_many_taps),
        test_with_arena(phases_of_a_transposed_convolution_are_tiled),
        test_with_arena(draws_of_multiples_compute_the_convolution),
    };
    return cmocka_run_group_tests_name("compiler-core/rules/tile_group", tests, NULL, NULL);
}
