/* Which arguments the driver's function gets, and when. */
#include "deploy/runtime/cuda_maps.h"

#include <string.h>

#include "base/alloc.h"
#include "tests/support/test.h"

/* The calls of the function, and what it returns. */
static struct {
    int count, code, type, interleave, swizzle, promotion, fill;
    uint32_t rank, box[KILN_MAP_RANK_MAX], step[KILN_MAP_RANK_MAX];
    uint64_t size[KILN_MAP_RANK_MAX], stride[KILN_MAP_RANK_MAX - 1];
    void *address;
    const kiln_cu_map *map;
} call;

static int encode(kiln_cu_map *map, int type, uint32_t rank, void *address, const uint64_t *size,
                  const uint64_t *stride, const uint32_t *box, const uint32_t *step, int interleave,
                  int swizzle, int promotion, int fill) {
    call.count++;
    call.map = map;
    call.type = type;
    call.rank = rank;
    call.address = address;
    memcpy(call.size, size, rank * sizeof *size);
    memcpy(call.stride, stride, (rank - 1) * sizeof *stride);
    memcpy(call.box, box, rank * sizeof *box);
    memcpy(call.step, step, rank * sizeof *step);
    call.interleave = interleave;
    call.swizzle = swizzle;
    call.promotion = promotion;
    call.fill = fill;
    map->word[0] = (uintptr_t)address;
    return call.code;
}

static const kiln_cu cu = {.TensorMapEncodeTiled = encode};
static const kiln_manifest_map map[] = {
    {.arg = 1,
     .offset_bytes = 64,
     .dtype = KILN_BF16,
     .rank = 3,
     .size = {64, 20, 3},
     .stride_bytes = {2, 128, 4096},
     .box = {64, 8, 1},
     .is_permuted = true},
    {.arg = 0, .dtype = KILN_F32, .rank = 1, .size = {100}, .stride_bytes = {4}, .box = {16}}};

static void make(kiln_cuda_maps *maps, uint32_t count) {
    const kiln_manifest_launch launch = {.map_count = count, .map = map};
    memset(&call, 0, sizeof call);
    kiln_cuda_maps_init(maps, &launch);
}

static void the_driver_gets_the_map_as_it_wants_it(void **state) {
    (void)state;
    kiln_cuda_maps maps;
    const kiln_cu_pointer argument[] = {0x1000, 0x2000};
    make(&maps, 1);
    assert_int_equal(kiln_cuda_maps_encode(&maps, &cu, argument), 0);
    assert_int_equal(call.count, 1);
    assert_ptr_equal(call.address, (void *)0x2040);
    assert_int_equal(call.type, 1); /* UINT16 */
    assert_int_equal(call.rank, 3);
    assert_memory_equal(call.size, ((uint64_t[]){64, 20, 3}), 3 * sizeof(uint64_t));
    assert_memory_equal(call.stride, ((uint64_t[]){128, 4096}), 2 * sizeof(uint64_t));
    assert_memory_equal(call.box, ((uint32_t[]){64, 8, 1}), 3 * sizeof(uint32_t));
    assert_memory_equal(call.step, ((uint32_t[]){1, 1, 1}), 3 * sizeof(uint32_t));
    assert_int_equal(call.swizzle, 3);   /* 128B */
    assert_int_equal(call.promotion, 3); /* 256B */
    assert_int_equal(call.interleave + call.fill, 0);
    assert_int_equal((uintptr_t)call.map % 64, 0);
    assert_ptr_equal(call.map, kiln_cuda_maps_at(&maps, 0));
    kiln_cuda_maps_deinit(&maps);
}

static void only_the_size_of_a_type_counts(void **state) {
    (void)state;
    static const struct {
        kiln_dtype dtype;
        int type;
    } row[] = {{KILN_I8, 0},  {KILN_F8E5M2, 0}, {KILN_F16, 1}, {KILN_I16, 1},
               {KILN_F32, 2}, {KILN_I32, 2},    {KILN_F64, 4}, {KILN_U64, 4}};
    const kiln_cu_pointer argument[] = {0x1000};
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        kiln_manifest_map plain = map[1];
        plain.dtype = row[i].dtype;
        const kiln_manifest_launch launch = {.map_count = 1, .map = &plain};
        kiln_cuda_maps maps;
        kiln_cuda_maps_init(&maps, &launch);
        assert_int_equal(kiln_cuda_maps_encode(&maps, &cu, argument), 0);
        assert_int_equal(call.type, row[i].type);
        assert_int_equal(call.swizzle, 0);
        kiln_cuda_maps_deinit(&maps);
    }
}

static void a_map_is_encoded_for_each_new_address(void **state) {
    (void)state;
    kiln_cuda_maps maps;
    make(&maps, 2);
    static const struct {
        kiln_cu_pointer argument[2];
        int count; /* so far */
    } row[] = {{{0x1000, 0x2000}, 2}, {{0x1000, 0x2000}, 2}, {{0x1000, 0x3000}, 3},
               {{0x3000, 0x3000}, 4}, {{0x1000, 0x2000}, 4}, {{0, 0x2000}, 5},
               {{0, 0x2000}, 6}}; /* a map without an address is not kept */
    const uint64_t before = kiln_alloc_count();
    for (size_t i = 0; i < KILN_ARRAY_COUNT(row); i++) {
        assert_int_equal(kiln_cuda_maps_encode(&maps, &cu, row[i].argument), 0);
        assert_int_equal(call.count, row[i].count);
        assert_int_equal(kiln_cuda_maps_at(&maps, 0)->word[0], row[i].argument[1] + 64);
        assert_int_equal(kiln_cuda_maps_at(&maps, 1)->word[0], row[i].argument[0]);
    }
    assert_int_equal(kiln_alloc_count(), before);
    kiln_cuda_maps_deinit(&maps);
}

static kiln_cu_pointer run(kiln_cuda_maps *maps, kiln_cu_pointer address) {
    const kiln_cu_pointer argument[] = {0, address};
    assert_int_equal(kiln_cuda_maps_encode(maps, &cu, argument), 0);
    return kiln_cuda_maps_at(maps, 0)->word[0] - 64;
}

/* In turn, as a board measures; then one more than fit. */
static void maps_of_several_addresses_are_kept(void **state) {
    (void)state;
    kiln_cuda_maps maps;
    make(&maps, 1);
    for (int round = 0; round < 3; round++)
        for (kiln_cu_pointer k = 1; k <= KILN_CUDA_MAP_SLOTS; k++)
            assert_int_equal(run(&maps, k << 12), k << 12);
    assert_int_equal(call.count, KILN_CUDA_MAP_SLOTS);
    assert_int_equal(run(&maps, 0x99000), 0x99000); /* in place of the oldest */
    assert_int_equal(run(&maps, 2 << 12), 2 << 12);
    assert_int_equal(call.count, KILN_CUDA_MAP_SLOTS + 1);
    assert_int_equal(run(&maps, 1 << 12), 1 << 12);
    assert_int_equal(call.count, KILN_CUDA_MAP_SLOTS + 2);
    kiln_cuda_maps_deinit(&maps);
}

static void a_failure_is_not_kept(void **state) {
    (void)state;
    kiln_cuda_maps maps;
    const kiln_cu_pointer argument[] = {0x1000, 0x2000}, other[] = {0x1000, 0x3000};
    make(&maps, 2);
    assert_int_equal(kiln_cuda_maps_encode(&maps, &cu, argument), 0);
    call.code = 1;
    assert_int_equal(kiln_cuda_maps_encode(&maps, &cu, other), 1);
    assert_int_equal(call.count, 3);
    call.code = 0;
    assert_int_equal(kiln_cuda_maps_encode(&maps, &cu, other), 0);
    assert_int_equal(call.count, 4);
    assert_int_equal(kiln_cuda_maps_at(&maps, 0)->word[0], 0x3040);
    assert_int_equal(kiln_cuda_maps_encode(&maps, &cu, argument), 0); /* what was kept still is */
    assert_int_equal(call.count, 4);
    kiln_cuda_maps_deinit(&maps);
}

static void a_launch_without_maps_calls_nothing(void **state) {
    (void)state;
    kiln_cuda_maps maps;
    const uint64_t before = kiln_alloc_count();
    make(&maps, 0);
    assert_int_equal(kiln_cuda_maps_encode(&maps, &cu, NULL), 0);
    assert_int_equal(call.count, 0);
    assert_int_equal(kiln_alloc_count(), before);
    kiln_cuda_maps_deinit(&maps);
    kiln_cuda_maps_deinit(&maps);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_driver_gets_the_map_as_it_wants_it),
        cmocka_unit_test(only_the_size_of_a_type_counts),
        cmocka_unit_test(a_map_is_encoded_for_each_new_address),
        cmocka_unit_test(maps_of_several_addresses_are_kept),
        cmocka_unit_test(a_failure_is_not_kept),
        cmocka_unit_test(a_launch_without_maps_calls_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
