#include "base/manifest_map.h"

#include <string.h>

#include "tests/support/test.h"

/* A matrix of 100 rows of 256 halves; its boxes are 8 rows of 64. */
static const kiln_manifest_arg matrix = {.dtype = KILN_F16,
                                         .shape = {.rank = 2, .dim = {100, 256}}};
static const kiln_manifest_map example = {.rank = 2,
                                          .dtype = KILN_F16,
                                          .size = {256, 100},
                                          .stride_bytes = {2, 512},
                                          .box = {64, 8},
                                          .is_permuted = true};

static void maps_round_trip(void **state) {
    (void)state;
    const kiln_manifest_map whole = {.arg = 3,
                                     .offset_bytes = UINT64_MAX - 15,
                                     .dtype = KILN_F32,
                                     .rank = 5,
                                     .size = {1, 2, 3, 4, UINT64_MAX},
                                     .stride_bytes = {4, 16, 32, 48, UINT64_MAX},
                                     .box = {4, 2, 3, 4, UINT32_MAX},
                                     .is_permuted = true},
                            scalar = {.arg = UINT32_MAX, .dtype = KILN_I8};
    const kiln_manifest_map *const map[] = {&whole, &scalar, &example};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(map); i++) {
        kiln_strbuf bytes = {0}, text = {0}, text_again = {0};
        kiln_manifest_map read;
        kiln_mpack_reader r;
        kiln_manifest_map_write(map[i], &bytes);
        kiln_mpack_reader_init(&r, bytes.data, bytes.size);
        expect_ok(kiln_manifest_map_read(&r, &read));
        assert_int_equal(r.offset, bytes.size);
        assert_int_equal(read.arg, map[i]->arg);
        kiln_manifest_map_print(map[i], &text);
        kiln_manifest_map_print(&read, &text_again);
        assert_string_equal(text.data, text_again.data);
        for (size_t size = 0; size < bytes.size; size++) {
            kiln_mpack_reader_init(&r, bytes.data, size);
            expect_error(kiln_manifest_map_read(&r, &read), DATA_LOSS, "");
        }
        kiln_strbuf_deinit(&bytes);
        kiln_strbuf_deinit(&text);
        kiln_strbuf_deinit(&text_again);
    }
}

static void expect_text(const kiln_manifest_map *map, const char *expected) {
    kiln_strbuf text = {0};
    kiln_manifest_map_print(map, &text);
    assert_string_equal(text.data, expected);
    kiln_strbuf_deinit(&text);
}

static void the_text_has_all_but_the_argument(void **state) {
    (void)state;
    expect_text(&example, "f16 from byte 0 size 256x100 stride 512 box 64x8 permuted");
    kiln_manifest_map map = {.offset_bytes = 64,
                             .dtype = KILN_I8,
                             .rank = 3,
                             .size = {32, 4, 2},
                             .stride_bytes = {1, 32, 128},
                             .box = {16, 4, 1}};
    expect_text(&map, "i8 from byte 64 size 32x4x2 stride 32,128 box 16x4x1");
    map.rank = 1;
    expect_text(&map, "i8 from byte 64 size 32 box 16");
}

/* A msgpack array of `count` zeros, as the sizes of a map. */
static void dimensions_are_counted_before_they_are_read(void **state) {
    (void)state;
    kiln_strbuf bytes = {0};
    kiln_mpack_reader r;
    kiln_manifest_map read;
    kiln_mpack_write_array(&bytes, 7);
    for (int i = 0; i < 3; i++) kiln_mpack_write_u64(&bytes, 1);
    kiln_mpack_write_array(&bytes, KILN_MAP_RANK_MAX + 1);
    for (int i = 0; i < 64; i++) kiln_mpack_write_u64(&bytes, 0);
    kiln_mpack_reader_init(&r, bytes.data, bytes.size);
    expect_error(kiln_manifest_map_read(&r, &read), DATA_LOSS, "dimensions");
    kiln_strbuf_deinit(&bytes);
}

static void what_a_copy_unit_takes_is_accepted(void **state) {
    (void)state;
    expect_ok(kiln_manifest_map_check(&example, &matrix));
    kiln_manifest_map map = example;
    map.offset_bytes = 512 - 128; /* the last columns, from one row's end to the other's */
    map.size[0] = 64;
    expect_ok(kiln_manifest_map_check(&map, &matrix));
    map = example;
    map.size[0] = 64 + 2; /* windows that overlap: 16 bytes from one to the next */
    map.stride_bytes[1] = 16;
    expect_ok(kiln_manifest_map_check(&map, &matrix));
    map.box[1] = KILN_MAP_BOX_MAX; /* and boxes may be larger than what there is */
    expect_ok(kiln_manifest_map_check(&map, &matrix));
    map = example;
    map.dtype = KILN_U32; /* another view of the same bytes */
    map.size[0] = 128, map.stride_bytes[0] = 4, map.box[0] = 32;
    expect_ok(kiln_manifest_map_check(&map, &matrix));
    map = (kiln_manifest_map){
        .rank = 1, .dtype = KILN_F16, .size = {25600}, .stride_bytes = {2}, .box = {256}};
    expect_ok(kiln_manifest_map_check(&map, &matrix));
    map.size[0] = 1; /* the last element that can be the first of a map */
    map.offset_bytes = 51200 - 16;
    expect_ok(kiln_manifest_map_check(&map, &matrix));
}

static void padding_of_the_layout_belongs_to_the_argument(void **state) {
    (void)state;
    kiln_manifest_arg padded = matrix;
    expect_ok(kiln_layout_parse(KILN_STR("d0/64,d1,d0%64"), 2, &padded.layout));
    kiln_manifest_map map = example; /* 2 x 256 x 64 */
    map.rank = 3;
    map.size[0] = 64, map.size[1] = 256, map.size[2] = 2;
    map.stride_bytes[1] = 128, map.stride_bytes[2] = 32768;
    map.box[2] = 1;
    expect_ok(kiln_manifest_map_check(&map, &padded));
    expect_error(kiln_manifest_map_check(&map, &matrix), DATA_LOSS, "dimension 2: 2 elements");
}

typedef void (*spoil)(kiln_manifest_map *map);
static void spoil_type(kiln_manifest_map *map) { map->dtype = KILN_DTYPE_NONE; }
static void spoil_rank(kiln_manifest_map *map) { map->rank = 0; }
static void spoil_more_rank(kiln_manifest_map *map) { map->rank = KILN_MAP_RANK_MAX + 1; }
static void spoil_size(kiln_manifest_map *map) { map->size[1] = 0; }
static void spoil_long_size(kiln_manifest_map *map) { map->size[0] = UINT64_C(1) << 32; }
static void spoil_box(kiln_manifest_map *map) { map->box[1] = 0; }
static void spoil_large_box(kiln_manifest_map *map) { map->box[1] = KILN_MAP_BOX_MAX + 1; }
static void spoil_element(kiln_manifest_map *map) { map->stride_bytes[0] = 4; }
static void spoil_no_stride(kiln_manifest_map *map) { map->stride_bytes[1] = 0; }
static void spoil_stride(kiln_manifest_map *map) { map->stride_bytes[1] = 504; }
static void spoil_long_stride(kiln_manifest_map *map) { map->stride_bytes[1] = UINT64_C(1) << 40; }
static void spoil_row(kiln_manifest_map *map) {
    map->is_permuted = false;
    map->box[0] = 60;
}
static void spoil_permuted_row(kiln_manifest_map *map) { map->box[0] = 32; }
static void spoil_offset(kiln_manifest_map *map) { map->offset_bytes = 8; }
static void spoil_far_offset(kiln_manifest_map *map) { map->offset_bytes = 51200; }
static void spoil_huge_offset(kiln_manifest_map *map) { map->offset_bytes = UINT64_MAX - 15; }
static void spoil_moved(kiln_manifest_map *map) { map->offset_bytes = 16; }
static void spoil_wide(kiln_manifest_map *map) { map->size[0] = 257; }
static void spoil_many(kiln_manifest_map *map) { map->size[1] = 101; }
static void spoil_product(kiln_manifest_map *map) {
    map->size[1] = UINT32_MAX;
    map->stride_bytes[1] = (UINT64_C(1) << 40) - 16; /* their product is beyond 2^64 */
}

static void what_a_copy_unit_does_not_take_is_refused_by_name(void **state) {
    (void)state;
    static const struct {
        spoil spoil;
        const char *complaint;
    } row[] = {
        {spoil_type, "there is no type 0"},
        {spoil_rank, "0 dimensions; from 1 to 5"},
        {spoil_more_rank, "6 dimensions"},
        {spoil_size, "dimension 1: the size is 0, not from 1"},
        {spoil_long_size, "dimension 0: the size is 4294967296, not from 1"},
        {spoil_box, "dimension 1: the box is 0, not from 1 to 256"},
        {spoil_large_box, "dimension 1: the box is 257"},
        {spoil_element, "dimension 0: the stride is 4, not an element's bytes"},
        {spoil_no_stride, "dimension 1: the stride is 0, not a multiple of 16 bytes below 2^40"},
        {spoil_stride, "dimension 1: the stride is 504"},
        {spoil_long_stride, "dimension 1: the stride is 1099511627776"},
        {spoil_row, "dimension 0: a row of the box is 120, not a multiple of 16 bytes"},
        {spoil_permuted_row, "dimension 0: a row of the box is 64, not 128 bytes"},
        {spoil_offset, "it begins at byte 8, not a multiple of 16"},
        {spoil_far_offset, "it begins at byte 51200 of the argument's 51200"},
        {spoil_huge_offset, "it begins at byte 18446744073709551600 of"},
        {spoil_moved, "dimension 1: 100 elements, 512 bytes apart, do not fit"},
        {spoil_wide, "dimension 1: 100 elements, 512 bytes apart, do not fit"},
        {spoil_many, "dimension 1: 101 elements, 512 bytes apart, do not fit into the argument's "
                     "51200 bytes"},
        {spoil_product, "dimension 1: 4294967295 elements"},
    };
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_manifest_map map = example;
        row[i].spoil(&map);
        expect_error_at(kiln_manifest_map_check(&map, &matrix), KILN_DATA_LOSS, row[i].complaint,
                        __FILE__, __LINE__);
    }
}

static void an_argument_without_elements_has_no_map(void **state) {
    (void)state;
    kiln_manifest_arg none = matrix;
    none.shape.dim[0] = 0;
    expect_error(kiln_manifest_map_check(&example, &none), DATA_LOSS, "byte 0 of the argument's 0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_round_trip),
        cmocka_unit_test(the_text_has_all_but_the_argument),
        cmocka_unit_test(dimensions_are_counted_before_they_are_read),
        cmocka_unit_test(what_a_copy_unit_takes_is_accepted),
        cmocka_unit_test(padding_of_the_layout_belongs_to_the_argument),
        cmocka_unit_test(what_a_copy_unit_does_not_take_is_refused_by_name),
        cmocka_unit_test(an_argument_without_elements_has_no_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
