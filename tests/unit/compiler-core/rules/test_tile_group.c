/* Reductions between transforms, in groups of rows of tiles. */
#include <string.h>

#include "compiler-core/rules/space.h"
#include "tests/unit/compiler-core/sched/support.h"

#define F_4_3 KILN_ALGORITHM_WINOGRAD_4X4_3X3

static kiln_space space_of(conv_shape shape, uint32_t threads, kiln_arena *arena) {
    kiln_space space;
    kiln_target *target = KILN_ARENA_NEW(arena, kiln_target);
    *target = avx2_target(threads);
    expect_ok(kiln_space_create(conv_program(arena, &shape), target, arena, &space));
    return space;
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

/* A group would have the rows of one image, and its results those of several. */
static void batches_have_no_groups(void **state) {
    conv_shape shape = square_conv(32, 16);
    shape.n = 3;
    shape.oc = 13;
    const kiln_space space = space_of(shape, 1, *state);
    const kiln_str text = text_of(&space, false, *state);
    assert_true(text.size > 0);
    assert_false(has(text, "compute_at(conv.products, "));
}

/* Whatever is drawn computes the convolution or is refused. `by`: of this algorithm alone; DIRECT:
 * of all others. */
static void draws_compute(conv_shape shape, uint32_t threads, kiln_algorithm by,
                          kiln_arena *arena) {
    const kiln_space space = space_of(shape, threads, arena);
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
        draws_compute(square_conv(24, 16), threads, KILN_ALGORITHM_DIRECT, *state);
        draws_compute(square_conv(20, 8), threads, KILN_ALGORITHM_DIRECT, *state);
        draws_compute(square_conv(13, 12), threads, KILN_ALGORITHM_DIRECT, *state);
    }
}

static void draws_of_multiples_compute_the_convolution(void **state) {
    conv_shape shape = square_conv(5, 64);
    shape.oc = 16;
    draws_compute(shape, 1, KILN_ALGORITHM_WINOGRAD_2X2_3X3_FIXED, *state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        test_with_arena(a_group_is_transformed_multiplied_and_transformed_back),
        test_with_arena(sums_of_multiples_are_scaled_once),
        test_with_arena(threads_share_groups_or_what_is_inside),
        test_with_arena(batches_have_no_groups),
        test_with_arena(draws_compute_the_convolution),
        test_with_arena(draws_of_multiples_compute_the_convolution),
    };
    return cmocka_run_group_tests_name("compiler-core/rules/tile_group", tests, NULL, NULL);
}
