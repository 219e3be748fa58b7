#include "base/layout.h"

#include <string.h>

#include "base/macros.h"
#include "base/rand.h"
#include "tests/support/test.h"

static kiln_layout parsed(const char *text, uint32_t rank) {
    kiln_layout layout;
    expect_ok(kiln_layout_parse(kiln_str_from(text), rank, &layout));
    return layout;
}

static void text_round_trips(void **state) {
    (void)state;
    static const struct {
        uint32_t rank;
        const char *text, *printed;
    } row[] = {
        {4, "d0,d1/16,d2,d3,d1%16", "d0,d1/16,d2,d3,d1%16"},
        {2, "d1/16,d0,d1%16", "d1/16,d0,d1%16"},
        {1, "d0/16,d0/4%4,d0%4", "d0/16,d0/4%4,d0%4"},
        {4, "d0/16,d1/16,d2,d3,d1%16,d0%16", "d0/16,d1/16,d2,d3,d1%16,d0%16"},
        {3, "d2,d0,d1", "d2,d0,d1"},
        {3, "row", "row"},
        {3, "", "row"},
        {3, "d0,d1,d2", "row"}, /* one form for the identity */
        {1, "d0/1", "row"},
        {0, "", "row"},
        {2, "d0,d1+4", "d0,d1+4"},
        {2, "d0,d1/4^d0%8,d1%4", "d0,d1/4^d0%8,d1%4"},
        {2, "d1,d0/2^d1/2%4+8,d0/1%2+1", "d1,d0/2^d1/2%4+8,d0%2+1"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_layout layout = parsed(row[i].text, row[i].rank), again;
        kiln_strbuf text = {0};
        kiln_layout_print(&layout, &text);
        assert_string_equal(text.data, row[i].printed);
        expect_ok(kiln_layout_parse(kiln_strbuf_view(&text), row[i].rank, &again));
        assert_true(kiln_layout_equal(&layout, &again));
        kiln_strbuf_deinit(&text);
    }
}

static void what_is_no_bijection_is_refused(void **state) {
    (void)state;
    static const struct {
        uint32_t rank;
        const char *text, *complaint;
    } row[] = {
        {2, "d0", "d1 is missing"},
        {2, "d0,d1,d2", "'d2' is not a piece"},
        {1, "d0,d0", "no modulus"},
        {1, "d0%4", "no modulus"},
        {1, "d0/16", "the last piece of d0"},
        {1, "d0/16,d0%8", "does not follow"},
        {1, "d0/16,d0/4%4,d0%2", "does not follow"},
        {1, "d0%16,d0/16", "no modulus"},
        {1, "d0/0,d0%0", "is not a piece"},
        {1, "d0/-1", "is not a piece"},
        {1, "d0/99999999999999999999", "is not a piece"},
        {2, "d0,d1+", "is not a piece"},
        {2, "d0,d1+0", "is not a piece"},
        {2, "d0,d1^d0", "is not a piece"},
        {2, "d0,d1^d2%4", "is not a piece"},
        {2, "d0,d1^", "is not a piece"},
        {2, "d0,d1^d0%3", "no power of two"},
        {2, "d0,d1^d1%4", "d1 is XORed with d1, which depends on it"},
        {2, "d0^d1%4,d1^d0%4", "d0 is XORed with d1, which depends on it"},
        {1, "d0,", "is not a piece"},
        {1, ",d0", "is not a piece"},
        {1, "d", "is not a piece"},
        {1, "x0", "is not a piece"},
        {1, "d0 ", "is not a piece"},
        {1, "ROW", "is not a piece"},
        {0, "d0", "is not a piece"},
        {2, "d0/256,d0/128%2,d0/64%2,d0/32%2,d0/16%2,d0/8%2,d0/4%2,d0%4,d1", "more than 8 pieces"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_layout layout;
        expect_error(kiln_layout_parse(kiln_str_from(row[i].text), row[i].rank, &layout),
                     INVALID_ARGUMENT, row[i].complaint);
    }
}

static void blocked_channels_lie_innermost(void **state) {
    (void)state;
    kiln_layout layout = parsed("d0,d1/16,d2,d3,d1%16", 4);
    kiln_shape logical = {4, {1, 20, 2, 3}};
    kiln_shape physical = kiln_layout_physical(&layout, &logical), expected = {5, {1, 2, 2, 3, 16}};
    assert_true(kiln_shape_equal(&physical, &expected));
    assert_int_equal(kiln_layout_offset(&layout, &logical, (int64_t[]){0, 0, 0, 0}), 0);
    assert_int_equal(kiln_layout_offset(&layout, &logical, (int64_t[]){0, 1, 0, 0}), 1);
    assert_int_equal(kiln_layout_offset(&layout, &logical, (int64_t[]){0, 0, 0, 1}), 16);
    assert_int_equal(kiln_layout_offset(&layout, &logical, (int64_t[]){0, 17, 1, 2}),
                     1 * 2 * 3 * 16 + 1 * 3 * 16 + 2 * 16 + 1);
}

static void rows_with_a_pitch_lie_further_apart(void **state) {
    (void)state;
    kiln_layout pitch = parsed("d0,d1+4", 2), swizzled = parsed("d0,d1/4^d0%4,d1%4", 2);
    kiln_shape logical = {2, {3, 16}};
    assert_int_equal(kiln_layout_offset(&pitch, &logical, (int64_t[]){2, 5}), 2 * 20 + 5);
    assert_int_equal(kiln_layout_offset(&swizzled, &logical, (int64_t[]){0, 5}), 5);
    assert_int_equal(kiln_layout_offset(&swizzled, &logical, (int64_t[]){2, 5}),
                     2 * 16 + 3 * 4 + 1);
    assert_true(kiln_layout_is_plain(&(kiln_layout){.piece_count = 0}));
    assert_false(kiln_layout_is_plain(&pitch));
    assert_false(kiln_layout_is_plain(&swizzled));
}

static void identity_is_row_major_for_every_rank(void **state) {
    (void)state;
    kiln_layout layout = {0};
    kiln_shape logical = {3, {2, 3, 4}};
    kiln_shape physical = kiln_layout_physical(&layout, &logical);
    assert_true(kiln_layout_is_identity(&layout));
    assert_true(kiln_shape_equal(&physical, &logical));
    assert_int_equal(kiln_layout_offset(&layout, &logical, (int64_t[]){1, 2, 3}), 23);
    kiln_shape scalar = {0};
    assert_int_equal(kiln_layout_offset(&layout, &scalar, NULL), 0);
    float from = 5, to = 0;
    kiln_layout_pack(&layout, &scalar, KILN_F32, &from, &to);
    assert_true(to == from);
}

/* A random valid layout of `rank` dimensions: shuffled pieces whose order within a dimension is
 * kept. */
static void random_layout(kiln_rand *r, uint32_t rank, kiln_layout *out) {
    kiln_layout_piece pieces[KILN_RANK_MAX];
    uint32_t count = 0;
    for (uint32_t dim = 0; dim < rank; dim++) {
        int64_t divisor = 1;
        uint32_t splits = (uint32_t)kiln_rand_below(r, 3),
                 room = KILN_RANK_MAX - count - (rank - dim);
        splits = KILN_MIN(splits, room);
        int64_t factor[2] = {kiln_rand_range(r, 1, 5), kiln_rand_range(r, 1, 5)};
        for (uint32_t s = 0; s < splits; s++) divisor *= factor[s];
        pieces[count++] = (kiln_layout_piece){.dim = dim, .divisor = divisor};
        for (uint32_t s = 0; s < splits; s++) {
            divisor /= factor[s];
            pieces[count++] =
                (kiln_layout_piece){.dim = dim, .divisor = divisor, .modulus = factor[s]};
        }
    }
    *out = (kiln_layout){.piece_count = count};
    bool used[KILN_RANK_MAX] = {false};
    for (uint32_t j = 0; j < count;) { /* draw a dimension, take its first unused piece */
        uint32_t dim = (uint32_t)kiln_rand_below(r, rank);
        for (uint32_t i = 0; i < count; i++) {
            if (used[i] || pieces[i].dim != dim) continue;
            used[i] = true;
            out->piece[j++] = pieces[i];
            break;
        }
    }
    /* Pitches, and XORs of one dimension with another. */
    uint32_t with = (uint32_t)kiln_rand_below(r, rank), of = (uint32_t)kiln_rand_below(r, rank);
    for (uint32_t j = 0; j < count && kiln_rand_below(r, 2); j++) {
        kiln_layout_piece *piece = &out->piece[j];
        piece->pitch = kiln_rand_range(r, 0, 3);
        if (piece->dim != of || of == with || kiln_rand_below(r, 2)) continue;
        piece->xor_dim = with;
        piece->xor_divisor = kiln_rand_range(r, 1, 3);
        piece->xor_modulus = INT64_C(1) << kiln_rand_range(r, 0, 3);
    }
}

static void random_layouts_keep_every_element(void **state) {
    kiln_arena *arena = *state;
    kiln_rand r;
    kiln_rand_init(&r, 7);
    for (int round = 0; round < 500; round++) {
        kiln_arena_reset(arena);
        uint32_t rank = 1 + (uint32_t)kiln_rand_below(&r, 4);
        kiln_shape logical = {.rank = rank};
        for (uint32_t d = 0; d < rank; d++)
            logical.dim[d] = kiln_rand_range(&r, round % 10 == 0 ? 0 : 1, 7);
        kiln_layout layout, again;
        random_layout(&r, rank, &layout);

        kiln_strbuf text = {0};
        kiln_layout_print(&layout, &text);
        expect_ok(kiln_layout_parse(kiln_strbuf_view(&text), rank, &again));
        assert_true(kiln_layout_equal(&layout, &again));
        kiln_strbuf_deinit(&text);

        kiln_dtype dtype = round % 3 == 0 ? KILN_U8 : round % 3 == 1 ? KILN_I32 : KILN_F64;
        kiln_shape physical = kiln_layout_physical(&layout, &logical);
        kiln_tensor row = kiln_tensor_create(arena, dtype, &logical),
                    back = kiln_tensor_create(arena, dtype, &logical);
        kiln_tensor packed = kiln_tensor_create(arena, dtype, &physical);
        for (int64_t i = 0; i < kiln_shape_count(&logical); i++)
            kiln_dtype_store_i64(dtype, row.data, (size_t)i, i + 1);
        kiln_layout_pack(&layout, &logical, dtype, row.data, packed.data);
        kiln_layout_unpack(&layout, &logical, dtype, packed.data, back.data);
        assert_memory_equal(row.data, back.data, kiln_tensor_bytes(&row));

        int64_t index[KILN_RANK_MAX] = {0};
        for (int64_t i = 0; i < kiln_shape_count(&logical); i++) {
            int64_t rest = i;
            for (uint32_t d = rank; d-- > 0; rest /= logical.dim[d])
                index[d] = rest % logical.dim[d];
            int64_t offset = kiln_layout_offset(&layout, &logical, index);
            assert_in_range(offset, 0, kiln_shape_count(&physical) - 1);
            assert_int_equal(kiln_dtype_load_i64(dtype, packed.data, (size_t)offset),
                             kiln_dtype_load_i64(dtype, row.data, (size_t)i));
        }
    }
}

static void padding_is_left_alone(void **state) {
    (void)state;
    kiln_layout layout = parsed("d0/4,d0%4", 1);
    kiln_shape logical = {1, {5}};
    int32_t row[5] = {1, 2, 3, 4, 5}, packed[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
    kiln_layout_pack(&layout, &logical, KILN_I32, row, packed);
    const int32_t expected[8] = {1, 2, 3, 4, 5, -1, -1, -1};
    assert_memory_equal(packed, expected, sizeof expected);
}

static void layouts_that_place_every_element_alike_are_the_same_places(void **state) {
    (void)state;
    const struct {
        const char *a, *b;
        kiln_shape shape;
        bool same;
    } row[] = {
        {"d0,d1/8,d2,d3,d1%8", "row", {4, {1, 64, 1, 1}}, true},
        {"d0,d1/8,d2,d3,d1%8", "d0,d1/16,d2,d3,d1%16", {4, {1, 64, 1, 1}}, true},
        {"d0,d1/8,d2,d3,d1%8", "row", {4, {1, 8, 1, 1}}, true},
        {"d0,d2,d1", "row", {3, {5, 1, 7}}, true},
        {"d0,d1+4", "d0,d1+4", {2, {5, 7}}, true},
        {"d0,d1+4", "row", {2, {5, 7}}, false},
        {"d0,d1+4", "d0,d1+3", {2, {5, 7}}, false},
        {"d0,d1/2+2,d1%2", "d0,d1+4", {2, {5, 8}}, true},
        {"d0,d1/2,d1%2+4", "d0,d1+4", {2, {5, 8}}, false},
        {"d0,d1/4^d0%4,d1%4", "row", {2, {8, 16}}, false},
        {"d0,d1/4^d0%4,d1%4", "d0,d1/4^d0/2%4,d1%4", {2, {8, 16}}, false},
        {"d0,d1/8,d2,d3,d1%8", "row", {4, {1, 64, 1, 2}}, false},
        {"d0,d1/8,d2,d3,d1%8", "d0,d2,d3,d1", {4, {1, 8, 3, 3}}, true},
        {"d0,d1/8,d2,d3,d1%8", "d0,d2,d3,d1", {4, {1, 16, 3, 3}}, false},
        {"d0/4,d0%4", "row", {1, {5}}, false}, /* padding */
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_layout a = parsed(row[i].a, row[i].shape.rank),
                    b = parsed(row[i].b, row[i].shape.rank);
        assert_int_equal(kiln_layout_same_places(&a, &b, &row[i].shape), row[i].same);
        assert_int_equal(kiln_layout_same_places(&b, &a, &row[i].shape), row[i].same);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_round_trips),
        cmocka_unit_test(what_is_no_bijection_is_refused),
        cmocka_unit_test(blocked_channels_lie_innermost),
        cmocka_unit_test(identity_is_row_major_for_every_rank),
        cmocka_unit_test(rows_with_a_pitch_lie_further_apart),
        test_with_arena(random_layouts_keep_every_element),
        cmocka_unit_test(padding_is_left_alone),
        cmocka_unit_test(layouts_that_place_every_element_alike_are_the_same_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
